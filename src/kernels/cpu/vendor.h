/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that also multiply matrices, as candidates beside our own gemm: OpenBLAS always, oneDNN where it is
   installed. Each worker has a tw_vendor of its own, and a call stays on the calling thread. */
#ifndef TW_KERNELS_CPU_VENDOR_H
#define TW_KERNELS_CPU_VENDOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TW_VENDOR_PANELS = 32 /* Panels that are unpacked for a vendor at a time: 512 rows of W, which stay in the cache. */
};

typedef struct tw_vendor tw_vendor;

tw_vendor *tw_vendor_open(void); /* NULL when out of memory */
void tw_vendor_close(tw_vendor *v);

int tw_vendor_count(const tw_vendor *v);
const char *tw_vendor_name(const tw_vendor *v, int i); /* "openblas", "onednn" */
void tw_vendor_version(const tw_vendor *v, int i, char *out, size_t size);

/* y[m][n] = x[m][k] . w[n][k]^T in float, row-major with strides in elements; y is overwritten. False when the library
   refused; y is then undefined. */
bool tw_vendor_gemm(tw_vendor *v, int i, int64_t m, int64_t n, int64_t k, const float *x, int64_t ldx, const float *w,
                    int64_t ldw, float *y, int64_t ldy);

/* The same by oneDNN with x and w in bf16 and sums in float. Rounding x to bf16 costs accuracy that the schedule's
   contract promises, so nothing uses it but measurements. False when there is no oneDNN. */
bool tw_vendor_gemm_bf16(tw_vendor *v, int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t ldx,
                         const uint16_t *w, int64_t ldw, float *y, int64_t ldy);

#endif
