/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/cpu/product.h"

#include <math.h>
#include <string.h>

static const tw_gemm_blocking usual; /* All zero: the kernels' own blocks. */

static int64_t block_panels(const tw_strip *s) {
    return s->n_panels < TW_VENDOR_PANELS ? s->n_panels : TW_VENDOR_PANELS;
}

static size_t vendor_scratch(const tw_strip *s) {
    return tw_lines((size_t)(block_panels(s) * TW_PANEL_ROWS * s->cols) * 4);
}

bool tw_product_vendor(tw_vm_thread *thread, tw_scratch scratch, const tw_strip *s, const void *panels, int vendor,
                       const float *x, int64_t ldx, int64_t n, float *y) {
    int64_t block = block_panels(s);
    size_t bytes = tw_panel_bytes(s->format, s->cols);
    float *w = tw_scratch_take(&scratch, vendor_scratch(s));
    for (int64_t p = 0; p < s->n_panels; p += block) {
        int64_t count = s->n_panels - p < block ? s->n_panels - p : block;
        tw_panel_unpack(s->format, s->cols, (const unsigned char *)panels + (size_t)p * bytes, count, w, s->cols);
        if (!tw_vendor_gemm(thread->vendor, vendor, n, count * TW_PANEL_ROWS, s->cols, x, ldx, w, s->cols,
                            y + p * TW_PANEL_ROWS, tw_strip_stride(s)))
            return false;
    }
    return true;
}

/* Rounds n floats to bf16, the nearest and of two the even one. */
static void round_bf16(const float *x, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &x[i], sizeof u);
        const uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u, nan = (u | 0x00400000u) & 0xffff0000u;
        u = (u & 0x7fffffffu) > 0x7f800000u ? nan : rounded;
        memcpy(&out[i], &u, sizeof u);
    }
}

/* Rounds the floats of one position to integers of 8 bits times their blocks' scales. */
static void round_bytes(const tw_strip *s, const float *x, float *out) {
    const int64_t block = tw_byte_block(s->format);
    for (int64_t k = 0; k < s->cols; k += block) {
        const int64_t end = tw_least(k + block, s->cols);
        float largest = 0;
        for (int64_t i = k; i < end; i++) largest = isfinite(x[i]) ? fmaxf(largest, fabsf(x[i])) : NAN;
        const tw_byte_scale by = tw_byte_scale_of(largest);
        for (int64_t i = k; i < end; i++) out[i] = rintf(x[i] * by.inverse) * by.scale;
    }
}

bool tw_product_rounds(const tw_vm *vm, const tw_strip *s) {
    return vm->options.activations == TW_ACTIVATIONS_BF16 || tw_vm_takes_bytes(vm, s->format.dtype);
}

void tw_product_round(const tw_vm *vm, const tw_strip *s, const float *x, int64_t ldx, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++)
        if (vm->options.activations == TW_ACTIVATIONS_BF16)
            round_bf16(x + i * ldx, s->cols, out + i * s->cols);
        else
            round_bytes(s, x + i * ldx, out + i * s->cols);
}

/* True if our kernel packs n rows. */
static bool is_packed(const tw_kernels *k, tw_dtype t, int64_t n) {
    return k->gemm_packed[t] && n >= k->packed_rows[t];
}

void tw_product_own(tw_vm_thread *thread, tw_scratch scratch, const tw_strip *s, const void *panels, const float *x,
                    int64_t ldx, int64_t n, float *y, const tw_gemm_sink *sink) {
    const tw_kernels *k = &thread->vm->k;
    const tw_dtype t = s->format.dtype;
    if (is_packed(k, t, n)) {
        const int terms = tw_vm_terms(thread->vm, t);
        void *packed = tw_scratch_take(&scratch, k->gemm_pack_bytes(s->format, n, s->cols, terms));
        k->gemm_pack(s->format, x, ldx, n, s->cols, terms, packed);
        k->gemm_packed[t](s->format, panels, s->n_panels, s->cols, packed, n, terms, y, tw_strip_stride(s), sink,
                          tw_scratch_take(&scratch, k->gemm_packed_scratch(s->format)));
        return;
    }
    void *room = tw_scratch_take(&scratch, k->gemm_scratch[t](s->format, s->n_panels, s->cols, n, usual));
    k->gemm[t](s->format, panels, s->n_panels, s->cols, x, ldx, n, y, tw_strip_stride(s), usual, sink, room);
}

static size_t rounded_bytes(const tw_strip *s, int64_t n) {
    return tw_lines((size_t)(n * s->cols) * sizeof(float));
}

void tw_product_packed(tw_vm_thread *thread, tw_scratch scratch, const tw_strip *s, const void *packed, int64_t n,
                       float *y, const tw_gemm_sink *sink) {
    const tw_kernels *k = &thread->vm->k;
    k->gemm_packed[s->format.dtype](s->format, s->panels, s->n_panels, s->cols, packed, n,
                                    tw_vm_terms(thread->vm, s->format.dtype), y, tw_strip_stride(s), sink,
                                    tw_scratch_take(&scratch, k->gemm_packed_scratch(s->format)));
}

void tw_product(tw_vm_thread *thread, tw_scratch scratch, const tw_strip *s, int64_t copy, const float *x, int64_t ldx,
                int64_t n, float *y, const tw_gemm_sink *sink) {
    const tw_kernels *k = &thread->vm->k;
    const unsigned char *panels = (const unsigned char *)s->panels + (size_t)copy * s->copy_bytes;
    const tw_dtype t = s->format.dtype;
    const bool vendor = n > 1 && s->choice && !thread->vm->own_only;
    if (tw_product_rounds(thread->vm, s) && (vendor || !is_packed(k, t, n))) {
        float *rounded = tw_scratch_take(&scratch, rounded_bytes(s, n));
        tw_product_round(thread->vm, s, x, ldx, n, rounded);
        x = rounded;
        ldx = s->cols;
    }
    if (n == 1) {
        void *prepared = tw_scratch_take(&scratch, k->prepared_bytes[t](s->format, s->cols));
        k->prepare[t](s->format, x, s->cols, prepared);
        k->gemv[t](s->format, panels, s->n_panels, s->cols, prepared, y);
    } else if (!vendor) {
        tw_product_own(thread, scratch, s, panels, x, ldx, n, y, sink);
    } else if (!tw_product_vendor(thread, scratch, s, panels, s->choice - 1, x, ldx, n, y)) {
        tw_product_own(thread, scratch, s, panels, x, ldx, n, y, NULL);
    }
    if (sink && (n == 1 || vendor)) sink->take(sink->context, 0, n, 0, tw_strip_width(s));
}

size_t tw_product_scratch(const tw_vm *vm, const tw_strip *s, int64_t n) {
    const tw_dtype t = s->format.dtype;
    size_t most = tw_lines(vm->k.prepared_bytes[t](s->format, s->cols));
    /* A step may have fewer positions than the program allows. It may need more scratch then, since small blocks are
       packed differently. */
    for (int64_t rows = 2; rows <= n; rows++) {
        const size_t one = tw_lines(vm->k.gemm_scratch[t](s->format, s->n_panels, s->cols, rows, usual));
        if (one > most) most = one;
    }
    const size_t vendor = vm->choices && n > 1 ? vendor_scratch(s) : 0;
    if (vendor > most) most = vendor;
    return tw_product_rounds(vm, s) ? most + rounded_bytes(s, n) : most;
}
