/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN, opened at run time; versions 2 and 3 differ in their C interface, the header decides which is spoken. */
#ifndef TW_KERNELS_CPU_VENDOR_ONEDNN_H
#define TW_KERNELS_CPU_VENDOR_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tw_onednn tw_onednn;

typedef struct tw_onednn_product {
    int64_t m, n, k, ldx, ldw, ldy;
    bool bf16; /* of x and w; y is float */
} tw_onednn_product;

tw_onednn *tw_onednn_open(void); /* NULL when there is none */
void tw_onednn_close(tw_onednn *o);
void tw_onednn_version(const tw_onednn *o, char *out, size_t size);

/* The primitive of a shape is kept for the next call. */
bool tw_onednn_run(tw_onednn *o, const tw_onednn_product *p, const void *x, const void *w, float *y);

#endif
