/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gemm/reference.h"

#include "base/diag.h"
#include "base/dtype.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double tw_gemm_element_read(tw_type t, const void *data, int64_t i) {
    switch (t) {
    case TW_T_f64:
        return ((const double *)data)[i];
    case TW_T_f32:
        return (double)((const float *)data)[i];
    case TW_T_f16:
        return (double)tw_f16_to_f32(((const uint16_t *)data)[i]);
    case TW_T_bf16:
        return (double)tw_bf16_to_f32(((const uint16_t *)data)[i]);
    case TW_T_i32:
        return ((const int32_t *)data)[i];
    default:
        return ((const int8_t *)data)[i];
    }
}

static void element_write(tw_type t, void *data, int64_t i, double x) {
    switch (t) {
    case TW_T_f64:
        ((double *)data)[i] = x;
        break;
    case TW_T_f32:
        ((float *)data)[i] = (float)x;
        break;
    case TW_T_f16:
        ((uint16_t *)data)[i] = tw_f32_to_f16((float)x);
        break;
    case TW_T_bf16:
        ((uint16_t *)data)[i] = tw_f32_to_bf16((float)x);
        break;
    case TW_T_i32:
        ((int32_t *)data)[i] = (int32_t)x;
        break;
    default:
        ((int8_t *)data)[i] = (int8_t)x;
    }
}

static void *garbage(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    if (p) memset(p, 0xff, bytes);
    return p;
}

/* Fills `count` matrices with random elements. Matrices are `stride` elements apart, and rows `ld`. */
static void fill(tw_type t, void *data, int64_t rows, int64_t columns, int64_t ld, int64_t count, int64_t stride,
                 tw_random *r) {
    for (int64_t b = 0; b < count; b++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                double x = t == TW_T_i8    ? (double)tw_random_below(r, 256) - 128
                           : t == TW_T_i32 ? (double)tw_random_below(r, 2001) - 1000
                                           : 2 * tw_random_unit(r) - 1;
                element_write(t, data, b * stride + i * ld + j, x);
            }
}

/* Reads a stored matrix as doubles without gaps. Elements of tf32 are rounded as tensor cores need them. */
static void widen(tw_gemm_type type, const void *data, int64_t at, int64_t rows, int64_t columns, int64_t ld,
                  double *out, double *magnitude) {
    const tw_type t = tw_gemm_element(type);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double x = tw_gemm_element_read(t, data, at + i * ld + j);
            if (type == TW_GEMM_TF32) {
                uint32_t bits = tw_f32_bits((float)x);
                x = (double)tw_bits_f32((bits + 0x1000u) & ~0x1fffu);
            }
            out[i * columns + j] = x;
            magnitude[i * columns + j] = fabs(x);
        }
}

static double activate(tw_gemm_activation a, double x) {
    if (a == TW_GEMM_SILU) return x / (1 + exp(-x));
    if (a == TW_GEMM_GELU) return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    return x;
}

/* Returns the largest relative error of rounding to a type. */
static double unit_of(tw_type t) {
    return t == TW_T_f64 ? 0x1p-53 : t == TW_T_f32 ? 0x1p-24 : t == TW_T_f16 ? 0x1p-11 : t == TW_T_bf16 ? 0x1p-8 : 0;
}

/* Estimates what tensor cores may lose beside roundings, in roundings of f32. They cut off what lies below the last bit
   of the largest term instead of rounding. Each addition loses half of that bit on average, always towards zero, and
   adds at least 8 products. Elements are within 1, so partial sums are about the root of the sum of magnitudes. */
static double cut_off(const tw_gemm_problem *p, double sum, double magnitude) {
    if (p->type != TW_GEMM_F16 && p->type != TW_GEMM_BF16 && p->type != TW_GEMM_TF32) return 0;
    return (double)p->k / 8 * (2 * sqrt(magnitude) + fabs(sum));
}

/* Wraps a number as 32-bit integers do. */
static double wrap(double x) {
    return (double)(int32_t)(uint32_t)(uint64_t)(int64_t)x;
}

/* Computes one cell's result and tolerance. A sum may be off by 16 roundings of the sum of magnitudes. No order of
   additions comes near that, and a kernel that drops or repeats a product is off by far more. */
static void finish(tw_gemm_data *d, int64_t cell, int64_t at, int64_t column, double sum, double magnitude) {
    const tw_gemm_problem *p = &d->problem;
    const bool exact = p->out == TW_T_i32 || p->out == TW_T_i8;
    const double unit = p->type == TW_GEMM_F64 ? 0x1p-53 : exact ? 0 : 0x1p-24;
    double x = p->alpha * sum, size = fabs(p->alpha) * (magnitude + cut_off(p, sum, magnitude) / 16);
    if (p->beta != 0) {
        double c = tw_gemm_element_read(p->out, d->c, at);
        x += p->beta * c;
        size += fabs(p->beta * c);
    }
    if (p->epilogue.bias) {
        double bias = tw_gemm_element_read(p->out, d->bias, column);
        x += bias;
        size += fabs(bias);
    }
    x = activate(p->epilogue.activation, x);
    size = size * (p->epilogue.activation ? 1.2 : 1);
    if (p->epilogue.mul) {
        double by = tw_gemm_element_read(p->out, d->mul, at);
        x *= by;
        size *= fabs(by);
    }
    if (p->epilogue.residual) {
        double plus = tw_gemm_element_read(p->out, d->residual, at);
        x += plus;
        size += fabs(plus);
    }
    if (exact) x = wrap(x);
    if (p->out == TW_T_i8) x = x < -128 ? -128 : x > 127 ? 127 : x;
    d->want[cell] = x;
    /* Rounding to a subnormal f16 is off by 2^-25 at most. Integers are exact, but a tolerance is above zero. */
    double tolerance = 16 * unit * size + 1.01 * unit_of(p->out) * fabs(x) + (p->out == TW_T_f16 ? 0x1p-24 : 0);
    d->tolerance[cell] = exact ? 0.5f : (float)(tolerance * 1.001 + 1e-30);
}

static tw_status reference(tw_gemm_data *d, tw_diag *diag) {
    const tw_gemm_problem *p = &d->problem;
    const int64_t a_rows = p->trans_a ? p->k : p->m, a_columns = p->trans_a ? p->m : p->k;
    const int64_t b_rows = p->trans_b ? p->n : p->k, b_columns = p->trans_b ? p->k : p->n;
    const size_t a = (size_t)(p->m * p->k), b = (size_t)(p->k * p->n), c = (size_t)(p->m * p->n);
    double *work = malloc(2 * (a + b + c) * sizeof *work);
    if (!work) return tw_fail_memory(diag);
    double *x = work, *ax = x + a, *y = ax + a, *ay = y + b, *sum = ay + b, *magnitude = sum + c;
    for (int64_t i = 0; i < p->batch; i++) {
        widen(p->type, d->a, p->stride_a > 0 ? i * p->stride_a : 0, a_rows, a_columns, p->lda, x, ax);
        widen(p->type, d->b, p->stride_b > 0 ? i * p->stride_b : 0, b_rows, b_columns, p->ldb, y, ay);
        for (int s = 0; s < 2; s++)
            cblas_dgemm(CblasRowMajor, p->trans_a ? CblasTrans : CblasNoTrans, p->trans_b ? CblasTrans : CblasNoTrans,
                        (int)p->m, (int)p->n, (int)p->k, 1, s ? ax : x, (int)a_columns, s ? ay : y, (int)b_columns, 0,
                        s ? magnitude : sum, (int)p->n);
        for (int64_t cell = 0; cell < p->m * p->n; cell++) {
            int64_t row = cell / p->n, column = cell % p->n;
            finish(d, i * p->m * p->n + cell, i * p->stride_c + row * p->ldc + column, column, sum[cell],
                   magnitude[cell]);
        }
    }
    free(work);
    return TW_OK;
}

static size_t span(int64_t rows, int64_t columns, int64_t ld, int64_t count, int64_t stride, int bits) {
    if (stride < 0) count = 1;
    return (size_t)((count - 1) * stride + (rows - 1) * ld + columns) * (size_t)bits / 8;
}

tw_status tw_gemm_data_make(tw_gemm_data *d, const tw_gemm_problem *problem, uint64_t seed, tw_diag *diag) {
    *d = (tw_gemm_data){.problem = *problem};
    tw_gemm_problem *p = &d->problem;
    tw_status st = tw_gemm_problem_complete(p, diag);
    if (st != TW_OK) return st;
    const tw_type in = tw_gemm_element(p->type);
    const int64_t a_rows = p->trans_a ? p->k : p->m, a_columns = p->trans_a ? p->m : p->k;
    const int64_t b_rows = p->trans_b ? p->n : p->k, b_columns = p->trans_b ? p->k : p->n;
    d->bytes_a = span(a_rows, a_columns, p->lda, p->batch, p->stride_a, tw_type_bits(in));
    d->bytes_b = span(b_rows, b_columns, p->ldb, p->batch, p->stride_b, tw_type_bits(in));
    d->bytes_c = span(p->m, p->n, p->ldc, p->batch, p->stride_c, tw_type_bits(p->out));
    d->bytes_bias = (size_t)p->n * (size_t)tw_type_bits(p->out) / 8;
    d->bytes_mul = d->bytes_c;
    d->cells = p->m * p->n * p->batch;
    d->a = garbage(d->bytes_a);
    d->b = garbage(d->bytes_b);
    d->c = garbage(d->bytes_c);
    if (p->epilogue.bias) d->bias = garbage(d->bytes_bias);
    if (p->epilogue.mul) d->mul = garbage(d->bytes_mul);
    if (p->epilogue.residual) d->residual = garbage(d->bytes_mul);
    d->want = malloc((size_t)d->cells * sizeof *d->want);
    d->tolerance = malloc((size_t)d->cells * sizeof *d->tolerance);
    if (!d->a || !d->b || !d->c || !d->want || !d->tolerance || (p->epilogue.bias && !d->bias) ||
        (p->epilogue.mul && !d->mul) || (p->epilogue.residual && !d->residual)) {
        tw_gemm_data_free(d);
        return tw_fail_memory(diag);
    }
    tw_random r = tw_random_seed(seed);
    fill(in, d->a, a_rows, a_columns, p->lda, p->stride_a < 0 ? 1 : p->batch, p->stride_a, &r);
    fill(in, d->b, b_rows, b_columns, p->ldb, p->stride_b < 0 ? 1 : p->batch, p->stride_b, &r);
    fill(p->out, d->c, p->m, p->n, p->ldc, p->batch, p->stride_c, &r);
    if (d->bias) fill(p->out, d->bias, 1, p->n, p->n, 1, 0, &r);
    if (d->mul) fill(p->out, d->mul, p->m, p->n, p->ldc, p->batch, p->stride_c, &r);
    if (d->residual) fill(p->out, d->residual, p->m, p->n, p->ldc, p->batch, p->stride_c, &r);
    st = reference(d, diag);
    if (st != TW_OK) tw_gemm_data_free(d);
    return st;
}

void tw_gemm_data_free(tw_gemm_data *d) {
    free(d->a);
    free(d->b);
    free(d->c);
    free(d->bias);
    free(d->mul);
    free(d->residual);
    free(d->want);
    free(d->tolerance);
    *d = (tw_gemm_data){0};
}

int64_t tw_gemm_data_compare(const tw_gemm_data *d, const void *c, double *worst, int64_t *first) {
    const tw_gemm_problem *p = &d->problem;
    int64_t wrong = 0;
    double most = 0;
    for (int64_t cell = 0; cell < d->cells; cell++) {
        int64_t in = cell % (p->m * p->n);
        int64_t at = cell / (p->m * p->n) * p->stride_c + in / p->n * p->ldc + in % p->n;
        double error = fabs(tw_gemm_element_read(p->out, c, at) - d->want[cell]) / (double)d->tolerance[cell];
        if (!(error <= most)) most = error;
        if (error < 1) continue;
        if (!wrong++ && first) *first = cell;
    }
    if (worst) *worst = most;
    return wrong;
}

int64_t tw_gemm_data_gaps(const tw_gemm_data *d, const void *now, const void *before) {
    const unsigned char *x = now, *y = before;
    const tw_gemm_problem *p = &d->problem;
    const int64_t es = tw_type_bits(p->out) / 8, all = (int64_t)d->bytes_c / es;
    int64_t n = 0;
    for (int64_t i = 0; i < all; i++) {
        bool cell = false;
        for (int64_t b = 0; b < p->batch && !cell && i >= b * p->stride_c; b++) {
            int64_t in = i - b * p->stride_c;
            cell = in / p->ldc < p->m && in % p->ldc < p->n;
        }
        n += !cell && memcmp(x + i * es, y + i * es, (size_t)es) != 0;
    }
    return n;
}
