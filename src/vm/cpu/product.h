/* SPDX-License-Identifier: Apache-2.0 */
/* Computes products of a strip with one position or many, by our kernels or a vendor's library. */
#ifndef TW_VM_CPU_PRODUCT_H
#define TW_VM_CPU_PRODUCT_H

#include "vm/cpu/vm.h"

/* The unused part of a thread's scratch memory during one instruction. tw_exec_scratch computes the size that is
 * enough.
 */
typedef struct tw_scratch {
    unsigned char *at;
} tw_scratch;

static inline size_t tw_lines(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static inline void *tw_scratch_take(tw_scratch *s, size_t bytes) {
    void *p = s->at;
    s->at += tw_lines(bytes);
    return p;
}

/* Columns of a product. */
static inline int64_t tw_strip_width(const tw_strip *s) {
    return s->n_panels * TW_PANEL_ROWS;
}
/* Floats from one position's columns to the next's. Rows a multiple of 4 KiB apart would share a set of every cache. */
static inline int64_t tw_strip_stride(const tw_strip *s) {
    return tw_strip_width(s) + TW_PANEL_ROWS;
}
/* Bytes of a product with n positions. */
static inline size_t tw_strip_product_bytes(const tw_strip *s, int64_t n) {
    return (size_t)(n * tw_strip_stride(s)) * sizeof(float);
}

/* Computes y[t][r], the dot product of row r of the strip's copy and x[t], for n positions. Rows of x are `ldx` floats
   apart, those of y tw_strip_stride(s). `sink` receives finished parts, or is NULL. */
void tw_product(tw_vm_thread *thread, tw_scratch scratch, const tw_strip *s, int64_t copy, const float *x, int64_t ldx,
                int64_t n, float *y, const tw_gemm_sink *sink);
/* Computes what tw_product computes with activations that tw_share_rows packed. */
void tw_product_packed(tw_vm_thread *thread, tw_scratch scratch, const tw_strip *s, const void *packed, int64_t n,
                       float *y, const tw_gemm_sink *sink);
/* True if the machine's options have activations rounded that meet the strip. */
bool tw_product_rounds(const tw_vm *vm, const tw_strip *s);
/* Rounds n positions as the options say. Rows of x are `ldx` floats apart, those of `out` are adjacent. */
void tw_product_round(const tw_vm *vm, const tw_strip *s, const float *x, int64_t ldx, int64_t n, float *out);
/* Computes what tw_product computes, for many positions, by our kernel. `panels` are those of the copy. */
void tw_product_own(tw_vm_thread *thread, tw_scratch scratch, const tw_strip *s, const void *panels, const float *x,
                    int64_t ldx, int64_t n, float *y, const tw_gemm_sink *sink);
/* Computes what tw_product computes, by vendor number `vendor`, a block of unpacked panels at a time. False: the vendor
   refused. */
bool tw_product_vendor(tw_vm_thread *thread, tw_scratch scratch, const tw_strip *s, const void *panels, int vendor,
                       const float *x, int64_t ldx, int64_t n, float *y);
/* Computes the scratch bytes that tw_product needs for at most n positions. */
size_t tw_product_scratch(const tw_vm *vm, const tw_strip *s, int64_t n);

#endif
