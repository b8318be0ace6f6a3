/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "kernels/cpu/vendor.h"

#include "kernels/cpu/vendor_onednn.h"

#include <cblas.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

struct tw_vendor {
    tw_onednn *onednn; /* NULL: oneDNN is not installed. */
};

tw_vendor *tw_vendor_open(void) {
    tw_vendor *v = calloc(1, sizeof *v);
    if (!v) return NULL;
    /* OpenBLAS has one number of threads for the process. Every worker calls it for its own part of a product. */
    openblas_set_num_threads(1);
    v->onednn = tw_onednn_open();
    return v;
}

void tw_vendor_close(tw_vendor *v) {
    if (!v) return;
    tw_onednn_close(v->onednn);
    free(v);
}

int tw_vendor_count(const tw_vendor *v) {
    return v->onednn ? 2 : 1;
}

const char *tw_vendor_name(const tw_vendor *v, int i) {
    (void)v;
    return i ? "onednn" : "openblas";
}

void tw_vendor_version(const tw_vendor *v, int i, char *out, size_t size) {
    if (i)
        tw_onednn_version(v->onednn, out, size);
    else
        snprintf(out, size, "%s", openblas_get_config());
}

bool tw_vendor_gemm(tw_vendor *v, int i, int64_t m, int64_t n, int64_t k, const float *x, int64_t ldx, const float *w,
                    int64_t ldw, float *y, int64_t ldy) {
    if (i == 1) {
        tw_onednn_product p = {m, n, k, ldx, ldw, ldy, false};
        return v->onednn && tw_onednn_run(v->onednn, &p, x, w, y);
    }
    if (m > INT_MAX || n > INT_MAX || k > INT_MAX || ldx > INT_MAX || ldw > INT_MAX || ldy > INT_MAX) return false;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)k, 1, x, (int)ldx, w, (int)ldw, 0, y,
                (int)ldy);
    return true;
}

bool tw_vendor_gemm_bf16(tw_vendor *v, int64_t m, int64_t n, int64_t k, const uint16_t *x, int64_t ldx,
                         const uint16_t *w, int64_t ldw, float *y, int64_t ldy) {
    tw_onednn_product p = {m, n, k, ldx, ldw, ldy, true};
    return v->onednn && tw_onednn_run(v->onednn, &p, x, w, y);
}
