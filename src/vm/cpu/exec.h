/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the executions of several instructions use. */
#ifndef TW_VM_CPU_EXEC_H
#define TW_VM_CPU_EXEC_H

#include "vm/cpu/product.h"

/* Operand `i` of an instruction as the schedule describes it. */
static inline const tw_buffer *tw_exec_shape(const tw_vm_thread *thread, const tw_exec *e, int i) {
    return &thread->vm->program->s->buffers[e->in->operand[i]];
}

/* y[t] = norm(x[t]) for n positions of `dim`. Returns y, or where there is no norm (w is NULL) x. */
const float *tw_exec_norm(const tw_vm_thread *thread, const float *x, const float *w, const float *b, int64_t n,
                          int64_t dim, float *y);

/* y[i] += bias[i] for `count` rows. A bias of NULL is none. */
void tw_exec_add_bias(const float *bias, int64_t count, float *y);
/* y[i] = activation(gate[i]) * up[i] for n rows. Without a gate (NULL) y[i] = activation(up[i]). */
void tw_exec_activate(const tw_vm_thread *thread, const float *gate, const float *up, int64_t n, float *y);
/* One position's rows first .. first + n - 1 of a gated feed-forward layer: `y` is the strip's product from there on,
   in units of TW_UNIT_ROWS rows of gate and as many of up. A bias may be NULL; so may `gate_bias` be for all. */
void tw_exec_activate_gated(const tw_vm_thread *thread, float *y, int64_t n, const float *gate_bias,
                            const float *up_bias, float *out);

/* y[i] = cap * tanh(y[i] / cap). */
void tw_exec_cap(float cap, float *y, int64_t n);

void tw_exec_attend(tw_vm_thread *thread, const tw_exec *e);
void tw_exec_merge(tw_vm_thread *thread, const tw_exec *e);
void tw_exec_score(tw_vm_thread *thread, const tw_exec *e);
void tw_exec_choose(tw_vm_thread *thread, const tw_exec *e);
void tw_exec_route(tw_vm_thread *thread, const tw_exec *e);
void tw_exec_experts_up(tw_vm_thread *thread, const tw_exec *e);
void tw_exec_experts_down(tw_vm_thread *thread, const tw_exec *e);
size_t tw_exec_attend_scratch(const tw_vm *vm, const tw_schedule *s, const tw_exec *e);
size_t tw_exec_experts_scratch(const tw_vm *vm, const tw_schedule *s, const tw_exec *e);

#endif
