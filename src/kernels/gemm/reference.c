/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gemm/reference_parts.h"

#include "base/diag.h"
#include "base/random.h"
#include "ir/value.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double tw_gemm_element_read(tw_type t, const void *data, int64_t i) {
    return t == TW_T_f64    ? ((const double *)data)[i]
           : t == TW_T_f32  ? (double)((const float *)data)[i]
           : t == TW_T_f16  ? (double)tw_f16_to_f32(((const uint16_t *)data)[i])
           : t == TW_T_bf16 ? (double)tw_bf16_to_f32(((const uint16_t *)data)[i])
           : t == TW_T_e4m3 ? (double)tw_e4m3_to_f32(((const uint8_t *)data)[i])
           : t == TW_T_i32  ? ((const int32_t *)data)[i]
                            : ((const int8_t *)data)[i];
}

static void element_write(tw_type t, void *data, int64_t i, double x) {
    const uint64_t bits = t == TW_T_f64    ? tw_write_f64(x)
                          : t == TW_T_f32  ? tw_write_f32((float)x)
                          : t == TW_T_f16  ? tw_f32_to_f16((float)x)
                          : t == TW_T_bf16 ? tw_f32_to_bf16((float)x)
                          : t == TW_T_e4m3 ? tw_f32_to_e4m3((float)x)
                                           : (uint64_t)(int64_t)x;
    const int es = tw_type_bits(t) / 8;
    memcpy((char *)data + i * es, &bits, (size_t)es);
}

/* Parts of sums of squares, whose means are at least 1, so that what they divide stays in [-1, 1]. Means of
   elements are at most a half, so that variances are at least 3 / 4. */
static void fill_sums(const tw_gemm_problem *p, tw_random *r, float *out) {
    const double part = (double)(p->norm_residual ? p->n : p->k) / (double)p->sums;
    for (int64_t i = 0; i < p->sums * (1 + p->centred) * p->m; i++) {
        const bool elements = p->centred && i % 2;
        out[i] = (float)((elements ? tw_random_unit(r) - 0.5 : 1 + tw_random_unit(r)) * part);
    }
}

void tw_gemm_sums_draw(const tw_gemm_problem *p, uint64_t seed, float *out) {
    tw_random r = tw_random_seed(seed);
    fill_sums(p, &r, out);
}

/* Fills matrices with random elements. Scales are at most 1, so that scaled elements are, too. */
static void fill(const tw_gemm_matrix *m, bool scales, void *data, tw_random *r) {
    for (int64_t b = 0; b < m->count * m->sets; b++)
        for (int64_t i = 0; i < m->rows; i++)
            for (int64_t j = 0; j < m->columns; j++) {
                double x = scales                ? 0.5 + tw_random_unit(r) / 2
                           : m->type == TW_T_i8  ? (double)tw_random_below(r, 256) - 128
                           : m->type == TW_T_i32 ? (double)tw_random_below(r, 2001) - 1000
                                                 : 2 * tw_random_unit(r) - 1;
                element_write(m->type, data, b / m->count * m->apart + b % m->count * m->stride + i * m->ld + j, x);
            }
}

/* Draws the integers or the scales of a narrow B. With scales its elements are in [-1, 1]. */
static void fill_narrow(const tw_gemm_problem *p, const tw_gemm_matrix *m, void *data, tw_random *r) {
    const double most = p->narrow == TW_GEMM_I8 ? 128 : 8;
    const int64_t n = (int64_t)(tw_gemm_matrix_bytes(m) / ((size_t)tw_type_bits(m->type) / 8));
    for (int64_t i = 0; i < n; i++)
        element_write(m->type, data, i,
                      m->type == TW_T_i8 ? (double)tw_random_below(r, 256) - 128 : (2 * tw_random_unit(r) - 1) / most);
}

/* Returns the magnitude of the largest element of B. */
static double largest(const tw_gemm_problem *p) {
    return !p->narrow || p->scales ? 1 : p->narrow == TW_GEMM_I8 ? 128 : 8;
}

/* Returns the scale of the block of element k of a row of A or a column of B. */
static double block_scale_of(const tw_gemm_data *d, tw_gemm_buffer which, int64_t product, int64_t i, int64_t k) {
    const tw_gemm_buffer scales = which == TW_GEMM_A ? TW_GEMM_SCALE_A : TW_GEMM_SCALE_B;
    const float *of = d->of[scales];
    if (!of) return 1;
    const tw_gemm_matrix m = tw_gemm_matrix_of(&d->problem, scales);
    const int64_t block = k / TW_GEMM_BLOCK;
    return (double)(which == TW_GEMM_A ? of[block * m.ld + i]
                                       : of[product * m.stride + i / TW_GEMM_BLOCK * m.ld + block]);
}

/* Computes the factor of a row of A or of the residual from its sums: one over the root of the mean of its squares, or
   of its variance. *mean is that of its elements, or 0. */
static double factor_of(const tw_gemm_data *d, int64_t row, double *mean) {
    const tw_gemm_problem *p = &d->problem;
    const float *sums = d->of[TW_GEMM_ROW_SUMS];
    const double extent = (double)(p->norm_residual ? p->n : p->k);
    const int64_t kinds = 1 + p->centred;
    double squares = 0, elements = 0;
    for (int64_t i = 0; i < p->sums; i++) {
        squares += (double)sums[kinds * (i * p->m + row)];
        if (p->centred) elements += (double)sums[kinds * (i * p->m + row) + 1];
    }
    *mean = elements / extent;
    return 1 / sqrt(squares / extent - *mean * *mean + p->eps);
}

/* Returns the scale of a row of A or a column of B. */
static double scale_of(const tw_gemm_data *d, tw_gemm_buffer which, int64_t product, int64_t i) {
    double mean;
    const bool normed = d->of[TW_GEMM_ROW_SUMS] && which == TW_GEMM_A && !d->problem.norm_residual;
    const double factor = normed ? factor_of(d, i, &mean) : 1;
    const tw_gemm_buffer scales = which == TW_GEMM_A ? TW_GEMM_SCALE_ROWS : TW_GEMM_SCALE_COLUMNS;
    /* Scales of rows are in the order of the product's rows. Gathered rows get theirs when they are put in that
       order. */
    if (!d->of[scales] || (which == TW_GEMM_A && d->problem.gather)) return factor;
    return factor * (double)((const float *)d->of[scales])[product * tw_gemm_matrix_of(&d->problem, scales).stride + i];
}

/* Computes an element of a narrow B. */
static double narrow_element(const tw_gemm_data *d, int64_t column, int64_t k) {
    const tw_gemm_problem *p = &d->problem;
    const double q = tw_gemm_packed(p, d->of[TW_GEMM_B], column, k);
    if (!p->scales) return q;
    const tw_type t = tw_gemm_types[p->type].element;
    const double scale = tw_gemm_element_read(t, d->of[TW_GEMM_SCALES], tw_gemm_scale_place(p, column, k / p->scales));
    if (p->scale_sums) return q * scale;
    double rounded = 0; /* Room for an element of any type. */
    element_write(t, &rounded, 0, q * scale);
    return tw_gemm_element_read(t, &rounded, 0);
}

/* Tells whether A has rows in memory that the product is not of. */
static bool has_further_rows(const tw_gemm_problem *p) {
    return !p->gather && p->rows_a > p->m;
}

/* Reads a product's A or B as doubles without gaps, and multiplies them by the scales of their rows of A or columns of
   B, and of their blocks. Elements of tf32 are rounded as tensor cores need them. */
static void widen(const tw_gemm_data *d, tw_gemm_buffer which, int64_t product, double *out, double *magnitude) {
    tw_gemm_matrix m = tw_gemm_matrix_of(&d->problem, which);
    const int64_t k = d->problem.k;
    if (which == TW_GEMM_A && has_further_rows(&d->problem)) m.rows = d->problem.m;
    for (int64_t i = 0; i < d->problem.n * k && which == TW_GEMM_B && d->problem.narrow; i++) {
        *out = narrow_element(d, i / k, i % k) * scale_of(d, which, product, i / k);
        *magnitude++ = fabs(*out++);
    }
    if (which == TW_GEMM_B && d->problem.narrow) return;
    const int64_t place = tw_gemm_matrix_place(&d->problem, &m, product);
    const bool rows_first = which == TW_GEMM_A ? !d->problem.trans_a : d->problem.trans_b;
    for (int64_t i = 0; i < m.rows; i++)
        for (int64_t j = 0; j < m.columns; j++) {
            double x = tw_gemm_element_read(m.type, d->of[which], place + i * m.ld + j);
            if (d->problem.type == TW_GEMM_TF32) {
                uint32_t bits = tw_f32_bits((float)x);
                x = (double)tw_bits_f32((bits + 0x1000u) & ~0x1fffu);
            }
            x *= scale_of(d, which, product, rows_first ? i : j);
            x *= block_scale_of(d, which, product, rows_first ? i : j, rows_first ? j : i);
            *out++ = x;
            *magnitude++ = fabs(x);
        }
}

static double activate(tw_gemm_activation a, double x) {
    if (a == TW_GEMM_SILU) return x / (1 + exp(-x));
    if (a == TW_GEMM_GELU) return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    if (a == TW_GEMM_GELU_ERF) return 0.5 * x * erfc(-x * sqrt(0.5));
    return x;
}

double tw_gemm_unit_of(tw_type t) {
    return t == TW_T_f64    ? 0x1p-53
           : t == TW_T_f32  ? 0x1p-24
           : t == TW_T_f16  ? 0x1p-11
           : t == TW_T_bf16 ? 0x1p-8
           : t == TW_T_e4m3 ? 0x1p-4
                            : 0;
}

double tw_gemm_subnormal_of(tw_type t) {
    return t == TW_T_f16 ? 0x1p-24 : t == TW_T_e4m3 ? 0x1p-9 : 0;
}

/* Estimates the same as cut_off for e4m3. Hopper's tensor cores keep 13 bits of fraction of the largest of 32 products
   and their sum so far, and cut off what lies below. Each of the k / 32 additions cuts up to a unit off the sum, always
   towards zero. It also cuts up to a unit off each product, whose signs vary: k losses add up as their root, of which
   four deviations are allowed. A unit is 2^-13 of the largest term. Partial sums are about the root of the sum of
   magnitudes, of promoted ones that of their part. */
static double cut_off_e4m3(const tw_gemm_problem *p, double sum, double magnitude) {
    const double k = (double)p->k, part = p->promote && k > 128 ? 128 / k : 1;
    const double largest = 1 + 2 * sqrt(magnitude * part) + (p->promote ? 0 : fabs(sum));
    return (k / 32 + 4 * sqrt(k)) * largest * 0x1p-13 / 0x1p-24;
}

/* Estimates what tensor cores may lose beside roundings, in roundings of f32. They cut off what lies below the last bit
   of the largest term instead of rounding. Each addition loses half of that bit on average, always towards zero, and
   adds at least 8 products. Elements are within 1, so partial sums are about the root of the sum of magnitudes. Where
   those of B are larger, they are larger by as much. */
static double cut_off(const tw_gemm_problem *p, double sum, double magnitude) {
    if (p->type == TW_GEMM_E4M3) return cut_off_e4m3(p, sum, magnitude);
    if (p->type != TW_GEMM_F16 && p->type != TW_GEMM_BF16 && p->type != TW_GEMM_TF32) return 0;
    return (double)p->k / 8 * (2 * sqrt(magnitude * largest(p)) + fabs(sum));
}

/* A partial result. */
typedef struct result {
    double x;
    double size;    /* Sum of its terms' magnitudes. */
    double between; /* The error of rounding the product to C's type before its epilogue. */
} result;

static void add(result *r, double x) {
    r->x += x;
    r->size += fabs(x);
}

/* Sets what a cell must be, and how far off it may be. */
static void judge_by(tw_gemm_data *d, int64_t index, result r, double unit, bool exact) {
    const tw_gemm_problem *p = &d->problem;
    double x = exact ? (double)(int32_t)(uint32_t)(uint64_t)(int64_t)r.x : r.x; /* 32-bit integers wrap. */
    if (p->out == TW_T_i8) x = x < -128 ? -128 : x > 127 ? 127 : x;
    if (p->out == TW_T_e4m3) x = x < -448 ? -448 : x > 448 ? 448 : x;
    d->want[index] = x;
    /* Integers are exact, but a tolerance is above zero. */
    double tolerance = 16 * unit * r.size + 1.01 * tw_gemm_unit_of(p->out) * fabs(x) + tw_gemm_subnormal_of(p->out);
    d->tolerance[index] = exact ? 0.5f : (float)(tolerance * 1.001 + 1e-30);
    d->twice[index] = exact ? 0.5f : (float)((tolerance + r.between) * 1.001 + 1e-30);
}

/* Rows of the product that a group has. */
typedef struct range {
    int64_t first, end;
} range;

static range rows_of_group(const tw_gemm_data *d, int64_t group) {
    const tw_gemm_problem *p = &d->problem;
    if (!p->groups) return (range){0, p->m};
    if (p->masked) {
        const int64_t first = group * (p->m / p->groups);
        return (range){first, first + ((const int32_t *)d->of[TW_GEMM_COUNTS])[group]};
    }
    const int32_t *ends = d->of[TW_GEMM_ENDS];
    return (range){group ? ends[group - 1] : 0, ends[group]};
}

/* Returns the row of C for a row of the product. -1: there is none. */
static int64_t place_of(const tw_gemm_data *d, int64_t row) {
    if (!d->problem.scatter) return row;
    const int32_t place = ((const int32_t *)d->of[TW_GEMM_PLACES])[row];
    return place >= 0 && place < d->problem.m ? place : -1;
}

static bool mark_written(tw_gemm_data *d) {
    const tw_gemm_problem *p = &d->problem;
    d->written = calloc((size_t)p->m, sizeof *d->written);
    for (int64_t i = 0; d->written && i < (p->groups ? p->groups : 1); i++) {
        const range r = rows_of_group(d, i);
        for (int64_t row = r.first; row < r.end; row++)
            if (place_of(d, row) >= 0) d->written[place_of(d, row)] = true;
    }
    return d->written;
}

bool tw_gemm_is_written(const tw_gemm_data *d, int64_t row) {
    return !d->written || d->written[row];
}

/* Multiplies a result by the factor of its row. */
static void scale(const tw_gemm_data *d, int64_t row, result *r) {
    if (!d->problem.scatter) return;
    const double by = ((const float *)d->of[TW_GEMM_FACTORS])[row];
    r->x *= by;
    r->size *= fabs(by);
}

/* Adds a residual that lacks its norm. */
static void add_normed(const tw_gemm_data *d, int64_t at, int64_t row, int64_t column, result *r) {
    const tw_gemm_problem *p = &d->problem;
    double mean;
    const double factor = factor_of(d, row, &mean),
                 gain = tw_gemm_element_read(p->out, d->of[TW_GEMM_RESIDUAL_GAINS], column);
    const double x = tw_gemm_element_read(p->out, d->of[TW_GEMM_RESIDUAL], at);
    r->x += (x - mean) * factor * gain;
    r->size += (fabs(x) + fabs(mean)) * factor * fabs(gain);
}

/* Computes one cell's result and tolerance. A sum may be off by 16 roundings of the sum of magnitudes. No order of
   additions comes near that, and a kernel that drops or repeats a product is off by far more. */
static void finish(tw_gemm_data *d, int64_t index, int64_t at, int64_t row, int64_t column, double sum,
                   double magnitude) {
    const tw_gemm_problem *p = &d->problem;
    const tw_gemm_epilogue *e = &p->epilogue;
    const bool exact = p->out == TW_T_i32 || p->out == TW_T_i8;
    const double unit = p->type == TW_GEMM_F64 ? 0x1p-53 : exact ? 0 : 0x1p-24;
    result r = {p->alpha * sum, fabs(p->alpha) * (magnitude + cut_off(p, sum, magnitude) / 16),
                1.01 * tw_gemm_unit_of(p->out) * fabs(p->alpha * sum) + tw_gemm_subnormal_of(p->out)};
    if (p->beta != 0) add(&r, p->beta * tw_gemm_element_read(p->out, d->of[TW_GEMM_C], at));
    if (e->bias) add(&r, tw_gemm_element_read(p->out, d->of[TW_GEMM_BIAS], column));
    r.x = activate(e->activation, r.x);
    r.size *= e->activation ? 1.2 : 1;
    r.between *= e->activation ? 1.2 : 1;
    if (e->mul) {
        double by = tw_gemm_element_read(p->out, d->of[TW_GEMM_MUL], at);
        r.x *= by;
        r.size *= fabs(by);
        r.between *= fabs(by);
    }
    if (e->residual && !p->norm_residual) add(&r, tw_gemm_element_read(p->out, d->of[TW_GEMM_RESIDUAL], at));
    if (p->norm_residual) add_normed(d, at, row, column, &r);
    scale(d, row, &r);
    judge_by(d, index, r, unit, exact);
}

/* Computes a gated cell's result and tolerance from the sums of its gate and its value. */
static void finish_gated(tw_gemm_data *d, int64_t index, int64_t at, int64_t row, const double *sum,
                         const double *magnitude) {
    const tw_gemm_problem *p = &d->problem;
    const tw_gemm_epilogue *e = &p->epilogue;
    const double unit = p->type == TW_GEMM_F64 ? 0x1p-53 : 0x1p-24;
    result of[2];
    for (int i = 0; i < 2; i++)
        of[i] = (result){.x = p->alpha * sum[8 * i],
                         .size = fabs(p->alpha) * (magnitude[8 * i] + cut_off(p, sum[8 * i], magnitude[8 * i]) / 16)};
    of[0].x = activate(e->activation, of[0].x);
    of[0].size *= e->activation ? 1.2 : 1;
    result r = {.x = of[0].x * of[1].x, .size = of[0].size * fabs(of[1].x) + fabs(of[0].x) * of[1].size};
    if (e->residual) add(&r, tw_gemm_element_read(p->out, d->of[TW_GEMM_RESIDUAL], at));
    scale(d, row, &r);
    judge_by(d, index, r, unit, false);
}

/* Computes cells of C from the sums of a product. */
static void finish_product(tw_gemm_data *d, int64_t product, const double *sum, const double *magnitude) {
    const tw_gemm_problem *p = &d->problem;
    const int64_t columns = tw_gemm_columns(p);
    const tw_gemm_matrix c = tw_gemm_matrix_of(p, TW_GEMM_C);
    const int64_t first = tw_gemm_matrix_place(p, &c, product);
    for (int64_t row = 0; row < p->m; row++) {
        const int64_t place = place_of(d, row);
        if (place < 0 || !tw_gemm_is_written(d, place)) continue; /* A row of no group has no sums. */
        for (int64_t column = 0; column < columns; column++) {
            const int64_t cell = (product * p->m + place) * columns + column;
            const int64_t at = first + place * p->ldc + column;
            const int64_t gate = row * p->n + column / 8 * 16 + column % 8, plain = row * p->n + column;
            if (p->epilogue.gated)
                finish_gated(d, cell, at, row, sum + gate, magnitude + gate);
            else
                finish(d, cell, at, row, column, sum[plain], magnitude[plain]);
        }
    }
}

/* Puts rows of A, or their magnitudes, in the product's order, and multiplies them by the scales of the product's rows.
   Rows that A does not have are zeros. */
static void gather(const tw_gemm_data *d, bool magnitudes, const double *a, double *out) {
    const tw_gemm_problem *p = &d->problem;
    const int32_t *rows = d->of[TW_GEMM_ROWS];
    const float *scales = d->of[TW_GEMM_SCALE_ROWS];
    for (int64_t i = 0; i < p->m; i++) {
        const bool there = rows[i] >= 0 && rows[i] < p->rows_a;
        const double by = !scales ? 1 : magnitudes ? fabs((double)scales[i]) : (double)scales[i];
        for (int64_t k = 0; k < p->k; k++) out[i * p->k + k] = there ? by * a[rows[i] * p->k + k] : 0;
    }
}

static tw_status reference(tw_gemm_data *d, tw_diag *diag) {
    const tw_gemm_problem *p = &d->problem;
    const size_t a = (size_t)(p->m * p->k), b = (size_t)(p->k * p->n), c = (size_t)(p->m * p->n),
                 gathered = (size_t)(p->gather ? p->rows_a * p->k : 0);
    double *work = malloc(2 * (a + b + c + gathered) * sizeof *work);
    if (!work) return tw_fail_memory(diag);
    double *x = work, *ax = x + a, *y = ax + a, *ay = y + b, *sum = ay + b, *magnitude = sum + c, *all = magnitude + c;
    const int64_t products = p->groups ? p->groups : p->batch;
    for (int64_t i = 0; i < products; i++) {
        const range r = rows_of_group(d, i);
        if (!p->groups || !i) widen(d, TW_GEMM_A, i, p->gather ? all : x, p->gather ? all + gathered : ax);
        for (int s = 0; s < 2 && p->gather && !i; s++) gather(d, s, s ? all + gathered : all, s ? ax : x);
        widen(d, TW_GEMM_B, i, y, ay);
        for (int s = 0; s < 2 && r.end > r.first; s++)
            cblas_dgemm(CblasRowMajor, p->trans_a ? CblasTrans : CblasNoTrans, p->trans_b ? CblasTrans : CblasNoTrans,
                        (int)(r.end - r.first), (int)p->n, (int)p->k, 1, (s ? ax : x) + r.first * p->k,
                        (int)(p->trans_a ? p->m : p->k), s ? ay : y, (int)(p->trans_b ? p->k : p->n), 0,
                        (s ? magnitude : sum) + r.first * p->n, (int)p->n);
        if (p->groups && i + 1 < products) continue;
        finish_product(d, p->groups ? 0 : i, sum, magnitude);
    }
    free(work);
    return TW_OK;
}

static int ascending(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

void tw_gemm_ends_draw(const tw_gemm_problem *p, uint64_t seed, double skew, int32_t *ends) {
    tw_random r = tw_random_seed(seed ^ 0x656e6473);
    double all = 0, below = 0;
    for (int64_t i = 0; i < p->groups; i++) all += pow((double)(i + 1), -skew);
    int64_t left = p->m, row = 0;
    for (int64_t i = 0; i < p->groups; i++) {
        /* Of the rows that are left, those that fall into this group and not into a later one. */
        const double chance = pow((double)(i + 1), -skew) / (all - below);
        const int64_t before = left;
        for (int64_t j = 0; j < before; j++)
            if (i + 1 == p->groups || tw_random_unit(&r) < chance) row++, left--;
        below += pow((double)(i + 1), -skew);
        ends[i] = (int32_t)row;
    }
}

/* Draws ends of groups whose sizes differ much. Rows behind the last end may be of no group. */
static void draw_ends(const tw_gemm_problem *p, tw_random *r, int32_t *ends) {
    for (int64_t i = 0; i < p->groups; i++) ends[i] = (int32_t)tw_random_below(r, (uint64_t)p->m + 1);
    if (tw_random_below(r, 2)) ends[p->groups - 1] = (int32_t)p->m;
    qsort(ends, (size_t)p->groups, sizeof *ends, ascending);
}

/* Draws numbers of rows below `rows`, and now and then one that is no row. */
static void draw_rows(int64_t n, int64_t rows, tw_random *r, int32_t *out) {
    for (int64_t i = 0; i < n; i++) {
        out[i] = (int32_t)tw_random_below(r, (uint64_t)rows);
        if (tw_random_below(r, 12) == 0) out[i] = tw_random_below(r, 2) ? (int32_t)rows : -1 - out[i];
    }
}

/* Draws places that differ, in any order, and now and then none. */
static void draw_places(int64_t n, tw_random *r, int32_t *out) {
    for (int64_t i = 0; i < n; i++) {
        const int64_t other = (int64_t)tw_random_below(r, (uint64_t)i + 1);
        out[i] = out[other];
        out[other] = (int32_t)i;
    }
    for (int64_t i = 0; i < n; i++)
        if (tw_random_below(r, 12) == 0) out[i] = tw_random_below(r, 2) ? (int32_t)n : -1;
}

/* Draws numbers of rows of masked groups. Many are none, or all that are reserved. */
static void draw_counts(const tw_gemm_problem *p, tw_random *r, int32_t *out) {
    const int64_t reserved = p->m / p->groups;
    for (int64_t i = 0; i < p->groups; i++) {
        const int kind = (int)tw_random_below(r, 4);
        out[i] = kind == 0 ? 0 : kind == 1 ? (int32_t)reserved : (int32_t)tw_random_below(r, (uint64_t)reserved + 1);
    }
}

/* Makes the matrices. Their gaps hold NaNs, and so do rows of A that the product is not of. */
static bool make_matrices(tw_gemm_data *d, uint64_t seed) {
    tw_random r = tw_random_seed(seed);
    for (int i = 0; i < TW_GEMM_MATRICES; i++) {
        const tw_gemm_matrix m = tw_gemm_matrix_of(&d->problem, (tw_gemm_buffer)i);
        if (!m.count) continue;
        d->bytes[i] = tw_gemm_matrix_bytes(&m);
        d->of[i] = malloc(d->bytes[i]);
        if (!d->of[i]) return false;
        memset(d->of[i], 0xff, d->bytes[i]);
        if (i == TW_GEMM_ENDS)
            draw_ends(&d->problem, &r, d->of[i]);
        else if (d->problem.narrow && (i == TW_GEMM_B || i == TW_GEMM_SCALES))
            fill_narrow(&d->problem, &m, d->of[i], &r);
        else if (i == TW_GEMM_ROW_SUMS)
            fill_sums(&d->problem, &r, d->of[i]);
        else if (i == TW_GEMM_COUNTS)
            draw_counts(&d->problem, &r, d->of[i]);
        else if (i == TW_GEMM_ROWS)
            draw_rows(d->problem.m, d->problem.rows_a, &r, d->of[i]);
        else if (i == TW_GEMM_PLACES)
            draw_places(d->problem.m, &r, d->of[i]);
        else
            fill(&m, i >= TW_GEMM_SCALE_ROWS && i <= TW_GEMM_SCALE_B, d->of[i], &r);
    }
    if (has_further_rows(&d->problem)) {
        const size_t row = (size_t)d->problem.lda * (size_t)tw_type_bits(tw_gemm_types[d->problem.type].element) / 8;
        memset((char *)d->of[TW_GEMM_A] + (size_t)d->problem.m * row, 0xff,
               d->bytes[TW_GEMM_A] - (size_t)d->problem.m * row);
    }
    if (!mark_written(d)) return false;
    /* Rows of C that are not written hold NaNs, too. */
    const tw_gemm_matrix c = tw_gemm_matrix_of(&d->problem, TW_GEMM_C);
    for (int64_t i = 0; i < c.rows; i++) {
        if (tw_gemm_is_written(d, i)) continue;
        const size_t es = (size_t)tw_type_bits(c.type) / 8;
        memset((char *)d->of[TW_GEMM_C] + (size_t)(i * c.ld) * es, 0xff, (size_t)c.columns * es);
    }
    return true;
}

tw_status tw_gemm_data_make(tw_gemm_data *d, const tw_gemm_problem *problem, uint64_t seed, tw_diag *diag) {
    *d = (tw_gemm_data){.problem = *problem, .seed = seed};
    const tw_gemm_problem *p = &d->problem;
    tw_status st = tw_gemm_problem_complete(&d->problem, diag);
    if (st != TW_OK) return st;
    d->cells = p->m * tw_gemm_columns(p) * p->batch;
    d->want = malloc((size_t)d->cells * sizeof *d->want);
    d->tolerance = malloc((size_t)d->cells * sizeof *d->tolerance);
    d->twice = malloc((size_t)d->cells * sizeof *d->twice);
    st = d->want && d->tolerance && d->twice && make_matrices(d, seed) ? reference(d, diag) : tw_fail_memory(diag);
    if (st != TW_OK) tw_gemm_data_free(d);
    return st;
}

void tw_gemm_data_free(tw_gemm_data *d) {
    for (int i = 0; i < TW_GEMM_MATRICES; i++) free(d->of[i]);
    free(d->want);
    free(d->tolerance);
    free(d->twice);
    free(d->written);
    *d = (tw_gemm_data){0};
}
