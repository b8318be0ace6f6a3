/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of bench_kernels: shapes of models with 1 to 8 billion parameters. */
#define _GNU_SOURCE
#include "kernels.h"

#include "base/dtype.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { FAR = 256 << 20 /* bytes that no cache holds */, ROWS = TW_PANEL_ROWS };

/* On huge pages, as the VM keeps its tapes. */
static void *big_make(size_t bytes) {
    size_t page = 2 << 20;
    void *p = aligned_alloc(page, (bytes + page - 1) / page * page);
    if (!p) {
        fprintf(stderr, "bench_kernels: out of memory\n");
        exit(1);
    }
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

static float *normal_make(bench_data *d, size_t n) {
    float *p = big_make(n * sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = tw_random_normal(&d->random);
    return p;
}

void bench_data_free(bench_data *d) {
    free(d->weights);
    free(d->plain);
    free(d->x);
    free(d->y);
    free(d->z);
    free(d->x16);
    free(d->prepared);
    free(d->scratch);
}

/* ---- matrices ---- */

/* Few panels are drawn; the others repeat them, which a memory does not notice. */
static void weights_make(bench_data *d) {
    enum { DRAWN = 8 };
    const bench_case *c = d->c;
    size_t bytes = tw_panel_bytes(c->f, c->cols), n = (size_t)(ROWS * c->cols), bits = tw_dtype_bits(c->f.dtype);
    int64_t groups = c->f.group ? c->cols / c->f.group : 1, drawn = d->panels < DRAWN ? d->panels : DRAWN;
    float *w = big_make(n * 4), *scales = big_make((size_t)(ROWS * groups) * 4);
    unsigned char *data = big_make(n * 4);
    d->weights = big_make(bytes * (size_t)d->panels);
    for (int64_t p = 0; p < drawn; p++) {
        for (size_t i = 0; i < n; i++) {
            w[i] = tw_random_normal(&d->random);
            if (bits == 8) data[i] = (unsigned char)tw_random_below(&d->random, 256);
            if (bits == 4) data[i] = (unsigned char)(int8_t)((int)tw_random_below(&d->random, 16) - 8);
        }
        for (int64_t i = 0; i < ROWS * groups; i++) scales[i] = 0.01f + (float)tw_random_unit(&d->random);
        if (bits >= 16) tw_from_f32(c->f.dtype, w, data, n);
        tw_panel_pack(c->f, c->cols, ROWS, data, scales, (char *)d->weights + (size_t)p * bytes);
    }
    for (int64_t p = drawn; p < d->panels; p++)
        memcpy((char *)d->weights + (size_t)p * bytes, (char *)d->weights + (size_t)(p % drawn) * bytes, bytes);
    free(w);
    free(scales);
    free(data);
}

/* Peers get row-major float, or bf16 where the case is in bf16. */
static void plain_make(bench_data *d) {
    const bench_case *c = d->c;
    size_t n = (size_t)(d->panels * ROWS * c->cols);
    float *w = big_make(n * sizeof *w);
    tw_panel_unpack(c->f, c->cols, d->weights, d->panels, w, c->cols);
    d->plain = w;
    if (c->f.dtype != TW_BF16) return;
    uint16_t *h = big_make(n * 2 + n * 4);
    /* Both: float first, then bf16. */
    memcpy(h, w, n * 4);
    tw_from_f32(TW_BF16, w, (char *)h + n * 4, n);
    free(w);
    d->plain = h;
    d->x16 = big_make((size_t)(c->rows * c->cols) * 2);
    tw_from_f32(TW_BF16, d->x, d->x16, (size_t)(c->rows * c->cols));
}

static const uint16_t *plain_bf16(const bench_data *d) {
    return (const uint16_t *)(const void *)((const char *)d->plain + (size_t)(d->panels * ROWS * d->c->cols) * 4);
}

/* Checks 64 cells of y = x W^T, an output of this case. */
static bool output_correct(const bench_data *d, const float *x, const float *y) {
    const bench_case *c = d->c;
    const size_t bytes = tw_panel_bytes(c->f, c->cols);
    float *w = big_make((size_t)c->cols * 4);
    bool ok = true;
    for (int64_t i = 0; i < 64; i++) {
        int64_t m = i * 7 % c->rows, r = (i * 7919) % (d->panels * ROWS);
        double sum = 0, size = 0;
        tw_panel_unpack_row(c->f, c->cols, (char *)d->weights + (size_t)(r / ROWS) * bytes, (int)(r % ROWS), w);
        for (int64_t k = 0; k < c->cols; k++) {
            double term = (double)w[k] * x[m * c->cols + k];
            sum += term;
            size += fabs(term);
        }
        ok = ok && fabs(y[m * d->panels * ROWS + r] - sum) <= 3e-5 * size;
    }
    free(w);
    return ok;
}

static void gemv_make(bench_data *d) {
    const bench_case *c = d->c;
    d->panels = FAR / (int64_t)tw_panel_bytes(c->f, c->cols);
    d->x = normal_make(d, (size_t)c->cols);
    d->y = big_make((size_t)(d->panels * ROWS) * 4);
    memset(d->y, 0xff, (size_t)(d->panels * ROWS) * 4);
    d->z = big_make((size_t)(d->panels * ROWS) * 4);
    d->prepared = big_make(d->k->prepared_bytes[c->f.dtype](c->f, c->cols));
    weights_make(d);
    if (c->peers[0]) plain_make(d);
}

static void gemv_run(bench_data *d) {
    const bench_case *c = d->c;
    d->k->prepare[c->f.dtype](c->f, d->x, c->cols, d->prepared);
    d->k->gemv[c->f.dtype](c->f, d->weights, d->panels, c->cols, d->prepared, d->y);
}

static double gemv_work(const bench_data *d) {
    return (double)d->panels * (double)tw_panel_bytes(d->c->f, d->c->cols);
}

static bool gemv_peer(bench_data *d, int peer) {
    int64_t n = d->panels * ROWS, k = d->c->cols;
    if (d->c->f.dtype == TW_BF16) return tw_vendor_gemm_bf16(d->vendor, 1, n, k, d->x16, k, plain_bf16(d), k, d->z, n);
    if (peer == 1)
        return tw_vendor_count(d->vendor) > 1 && tw_vendor_gemm(d->vendor, 1, 1, n, k, d->x, k, d->plain, k, d->z, n);
    cblas_sgemv(CblasRowMajor, CblasNoTrans, (int)n, (int)k, 1, d->plain, (int)k, d->x, 1, 0, d->z, 1);
    return true;
}

static void gemm_make(bench_data *d) {
    const bench_case *c = d->c;
    size_t outputs = (size_t)(c->rows * c->n);
    d->panels = c->n / ROWS;
    d->x = normal_make(d, (size_t)(c->rows * c->cols));
    d->y = big_make(outputs * 4);
    memset(d->y, 0xff, outputs * 4);
    d->z = big_make(outputs * 4);
    d->scratch = big_make(d->k->gemm_scratch[c->f.dtype](c->f, d->panels, c->cols, c->rows, (tw_gemm_blocking){0}));
    weights_make(d);
    plain_make(d);
}

static void gemm_run(bench_data *d) {
    const bench_case *c = d->c;
    d->k->gemm[c->f.dtype](c->f, d->weights, d->panels, c->cols, d->x, c->cols, c->rows, d->y, c->n,
                           (tw_gemm_blocking){0}, NULL, d->scratch);
}

static double gemm_work(const bench_data *d) {
    return 2.0 * (double)d->c->rows * (double)d->c->n * (double)d->c->cols;
}

static bool gemm_peer(bench_data *d, int peer) {
    const bench_case *c = d->c;
    if (peer == 2)
        return tw_vendor_gemm_bf16(d->vendor, c->rows, c->n, c->cols, d->x16, c->cols, plain_bf16(d), c->cols, d->z,
                                   c->n);
    if (peer >= tw_vendor_count(d->vendor)) return false;
    return tw_vendor_gemm(d->vendor, peer, c->rows, c->n, c->cols, d->x, c->cols, d->plain, c->cols, d->z, c->n);
}

static bool matrix_correct(bench_data *d) {
    return output_correct(d, d->x, d->y);
}

/* A peer in bf16 is compared with the product of x rounded to bf16. */
static bool matrix_peer_correct(bench_data *d, int peer) {
    const bench_case *c = d->c;
    const size_t n = (size_t)(c->rows * c->cols);
    float *x = big_make(n * sizeof *x);
    if (!strcmp(c->peers[peer], "onednn-bf16"))
        tw_to_f32(TW_BF16, d->x16, x, n);
    else
        memcpy(x, d->x, n * sizeof *x);
    memset(d->z, 0xff, (size_t)(c->rows * d->panels * ROWS) * sizeof *d->z);
    const bool correct = c->run_peer(d, peer) && output_correct(d, x, d->z);
    free(x);
    return correct;
}

/* ---- attention: cols is the head's dimension, n the span, rows the tokens ---- */

static tw_attention attention_of(const bench_data *d, int64_t head) {
    const bench_case *c = d->c;
    int64_t cache = c->n * c->cols;
    const float *k = (const float *)d->weights + 2 * head * cache;
    return (tw_attention){.q = d->x,
                          .k = k,
                          .v = k + cache,
                          .out = d->y,
                          .ldq = c->cols,
                          .ldo = c->cols,
                          .dim = c->cols,
                          .pos = c->n - c->rows,
                          .n = c->rows,
                          .last = c->n,
                          .scale = (float)(1 / sqrt((double)c->cols)),
                          .scratch = d->scratch};
}

static void attention_make(bench_data *d) {
    const bench_case *c = d->c;
    size_t head = (size_t)(2 * c->n * c->cols);
    d->heads = c->rows == 1 ? FAR / (int64_t)(head * 4) : 4;
    d->x = normal_make(d, (size_t)(c->rows * c->cols));
    d->y = big_make((size_t)(c->rows * c->cols) * 4);
    memset(d->y, 0xff, (size_t)(c->rows * c->cols) * 4);
    d->weights = big_make(head * 4 * (size_t)d->heads);
    float *first = d->weights;
    for (size_t i = 0; i < head; i++) first[i] = tw_random_normal(&d->random);
    for (int64_t h = 1; h < d->heads; h++) memcpy(first + (size_t)h * head, first, head * 4);
    d->scratch = big_make(d->k->attention_scratch(c->cols, c->rows, c->n));
}

static void attention_run(bench_data *d) {
    for (int64_t h = 0; h < d->heads; h++) {
        tw_attention a = attention_of(d, h);
        d->k->attention(&a);
    }
}

static double attention_bytes(const bench_data *d) {
    return 8.0 * (double)d->heads * (double)d->c->n * (double)d->c->cols;
}

/* Pairs that the causal mask leaves, two products each. */
static double attention_flops(const bench_data *d) {
    double n = (double)d->c->rows, before = (double)(d->c->n - d->c->rows);
    return (double)d->heads * (n * before + n * (n + 1) / 2) * 4 * (double)d->c->cols;
}

static bool attention_correct(bench_data *d) {
    const bench_case *c = d->c;
    tw_attention a = attention_of(d, 0);
    double *s = malloc((size_t)c->n * sizeof *s);
    bool ok = s != NULL;
    for (int64_t i = 0; ok && i < c->rows; i += 37) {
        double total = 0, sum = 0, largest = -INFINITY;
        for (int64_t t = 0; t <= a.pos + i; t++) {
            double dot = 0;
            for (int64_t e = 0; e < c->cols; e++) dot += (double)a.q[i * a.ldq + e] * a.k[t * a.dim + e];
            s[t] = dot * a.scale;
            largest = fmax(largest, s[t]);
        }
        for (int64_t t = 0; t <= a.pos + i; t++) {
            double e = exp(s[t] - largest);
            total += e;
            sum += e * a.v[t * a.dim + 5];
        }
        ok = fabs(d->y[i * a.ldo + 5] - sum / total) <= 1e-5;
    }
    free(s);
    return ok;
}

/* ---- elementwise, in the caches ---- */

enum { SILU, GELU, GELU_TANH, RMS, LAYER, ARGMAX };

static void element_make(bench_data *d) {
    d->x = normal_make(d, (size_t)(3 * d->c->n));
    d->y = big_make((size_t)d->c->n * 4);
    d->z = big_make((size_t)d->c->n * 4);
}

static void element_with(const tw_kernels *k, bench_data *d, float *y) {
    const float *x = d->x, *w = d->x + d->c->n, *b = w + d->c->n;
    int64_t n = d->c->n;
    switch (d->c->rows) {
    case SILU:
        k->silu_mul(x, w, n, y);
        break;
    case GELU:
        k->gelu(x, n, y);
        break;
    case GELU_TANH:
        k->gelu_tanh(x, n, y);
        break;
    case RMS:
        k->norm_rms(x, w, 1e-5f, n, y);
        break;
    case LAYER:
        k->norm_layer(x, w, b, 1e-5f, n, y);
        break;
    default:
        y[0] = (float)k->argmax(x, n);
        break;
    }
}

static void element_run(bench_data *d) {
    element_with(d->k, d, d->y);
}

static bool element_peer(bench_data *d, int peer) {
    tw_kernels plain;
    (void)peer;
    tw_kernels_choose(&plain, 0);
    element_with(&plain, d, d->z);
    return true;
}

static bool element_correct(bench_data *d) {
    element_peer(d, 0);
    for (int64_t i = 0; i < d->c->n; i++)
        if (!(fabs((double)d->y[i] - (double)d->z[i]) <= 1e-5 * (1 + fabs((double)d->z[i])))) return false;
    return true;
}

static double element_work(const bench_data *d) {
    return (double)d->c->n;
}

#define GEMV(type, group, cols, ...)                                                                                   \
    {                                                                                                                  \
        "gemv", {type, group}, 1, cols, 0, UNIT_BYTES, gemv_make, gemv_run, matrix_correct, gemv_work, {__VA_ARGS__},  \
            gemv_peer, matrix_peer_correct                                                                             \
    }
#define GEMM(type, group, rows, n, cols, ...)                                                                          \
    {                                                                                                                  \
        "gemm", {type, group}, rows, cols, n, UNIT_FLOPS, gemm_make, gemm_run, matrix_correct, gemm_work,              \
            {__VA_ARGS__}, gemm_peer, matrix_peer_correct                                                              \
    }
#define DECODE(dim, span)                                                                                              \
    {                                                                                                                  \
        "attention decode", {TW_F32, 0}, 1, dim, span, UNIT_BYTES, attention_make, attention_run, attention_correct,   \
            attention_bytes, {NULL}, NULL, NULL                                                                        \
    }
#define PREFILL(dim, n, span)                                                                                          \
    {                                                                                                                  \
        "attention prefill", {TW_F32, 0}, n, dim, span, UNIT_FLOPS, attention_make, attention_run, attention_correct,  \
            attention_flops, {NULL}, NULL, NULL                                                                        \
    }
#define ELEMENT(name, op, n)                                                                                           \
    {                                                                                                                  \
        name, {TW_F32, 0}, op, 1, n, UNIT_NONE, element_make, element_run, element_correct, element_work, {"plain c"}, \
            element_peer, NULL                                                                                         \
    }

static const bench_case cases[] = {
    GEMV(TW_F32, 0, 4096, "openblas", "onednn"),
    GEMV(TW_F16, 0, 4096, NULL),
    GEMV(TW_BF16, 0, 4096, "onednn-bf16"),
    GEMV(TW_I8, 0, 4096, NULL),
    GEMV(TW_I8, 32, 4096, NULL),
    GEMV(TW_I8, 64, 4096, NULL),
    GEMV(TW_I8, 128, 4096, NULL),
    GEMV(TW_I4, 32, 4096, NULL),
    GEMV(TW_I4, 64, 4096, NULL),
    GEMV(TW_I4, 128, 4096, NULL),
    GEMM(TW_F32, 0, 512, 2048, 2048, "openblas", "onednn"),
    GEMM(TW_F32, 0, 512, 8192, 2048, "openblas", "onednn"),
    GEMM(TW_F32, 0, 512, 2048, 8192, "openblas", "onednn"),
    GEMM(TW_BF16, 0, 512, 2048, 2048, "openblas", "onednn", "onednn-bf16"),
    GEMM(TW_BF16, 0, 512, 8192, 2048, "openblas", "onednn", "onednn-bf16"),
    GEMM(TW_BF16, 0, 512, 2048, 8192, "openblas", "onednn", "onednn-bf16"),
    GEMM(TW_I8, 0, 512, 2048, 2048, "openblas", "onednn"),
    GEMM(TW_I8, 32, 512, 2048, 2048, "openblas", "onednn"),
    GEMM(TW_I4, 32, 512, 2048, 2048, "openblas", "onednn"),
    GEMM(TW_F32, 0, 64, 2048, 2048, "openblas", "onednn"),
    GEMM(TW_BF16, 0, 64, 2048, 2048, "openblas", "onednn", "onednn-bf16"),
    GEMM(TW_BF16, 0, 8, 8192, 2048, "openblas", "onednn", "onednn-bf16"),
    GEMM(TW_I8, 32, 8, 8192, 2048, "openblas", "onednn"),
    GEMM(TW_I4, 32, 8, 8192, 2048, "openblas", "onednn"),
    DECODE(64, 4096),
    DECODE(128, 4096),
    PREFILL(64, 512, 512),
    PREFILL(128, 512, 512),
    PREFILL(64, 512, 2048),
    ELEMENT("silu_mul", SILU, 8192),
    ELEMENT("gelu", GELU, 8192),
    ELEMENT("gelu_tanh", GELU_TANH, 8192),
    ELEMENT("norm_rms", RMS, 2048),
    ELEMENT("norm_layer", LAYER, 2048),
    ELEMENT("argmax", ARGMAX, 131072),
};

int bench_case_count(void) {
    return sizeof cases / sizeof *cases;
}
const bench_case *bench_case_at(int i) {
    return &cases[i];
}
