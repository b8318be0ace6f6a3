/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, biases and activation functions, which several instructions use. */
#include "vm/cpu/exec.h"

#include <math.h>

const float *tw_exec_norm(const tw_vm_thread *thread, const float *x, const float *w, const float *b, int64_t n,
                          int64_t dim, float *y) {
    const tw_vm *vm = thread->vm;
    static const float none = 0;
    float *const out = y;
    if (!w) return x;
    for (int64_t t = 0; t < n; t++, x += dim, y += dim)
        if (vm->m->norm == TW_NORM_RMS)
            vm->k.norm_rms(x, w, vm->m->norm_eps, dim, y);
        else
            vm->k.norm_layer(x, w, b ? b : &none, vm->m->norm_eps, dim, y);
    return out;
}

void tw_exec_cap(float cap, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = cap * tanhf(y[i] / cap);
}

void tw_exec_activate(const tw_vm_thread *thread, const float *gate, const float *up, int64_t n, float *y) {
    const tw_kernels *k = &thread->vm->k;
    switch (thread->vm->m->activation) {
    case TW_ACT_SILU:
        if (gate) {
            k->silu_mul(gate, up, n, y);
            return;
        }
        for (int64_t i = 0; i < n; i++) y[i] = up[i] / (1 + expf(-up[i]));
        return;
    case TW_ACT_GELU:
        k->gelu(gate ? gate : up, n, y);
        break;
    case TW_ACT_GELU_TANH:
        k->gelu_tanh(gate ? gate : up, n, y);
        break;
    case TW_ACT_RELU:
        for (int64_t i = 0; i < n; i++) {
            float v = gate ? gate[i] : up[i];
            y[i] = v > 0 ? v : 0;
        }
        break;
    }
    for (int64_t i = 0; gate && i < n; i++) y[i] *= up[i];
}

void tw_exec_add_bias(const float *bias, int64_t count, float *y) {
    for (int64_t i = 0; bias && i < count; i++) y[i] += bias[i];
}

void tw_exec_activate_gated(const tw_vm_thread *thread, float *y, int64_t n, const float *gate_bias,
                            const float *up_bias, float *out) {
    for (int64_t u = 0; u < n; u += TW_UNIT_ROWS) {
        int64_t count = n - u < TW_UNIT_ROWS ? n - u : TW_UNIT_ROWS;
        float *gate = y + 2 * u, *up = gate + (count + TW_PANEL_ROWS - 1) / TW_PANEL_ROWS * TW_PANEL_ROWS;
        if (gate_bias) tw_exec_add_bias(gate_bias + u, count, gate);
        if (up_bias) tw_exec_add_bias(up_bias + u, count, up);
        tw_exec_activate(thread, gate, up, count, out + u);
    }
}
