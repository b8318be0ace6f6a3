/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what a kernel wrote with what it should have. */
#include "ir/value.h"
#include "kernels/gemm/reference_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t tw_gemm_data_compare(const tw_gemm_data *d, const void *c, double *worst, int64_t *first) {
    const tw_gemm_problem *p = &d->problem;
    const int64_t columns = tw_gemm_columns(p);
    const tw_gemm_matrix m = tw_gemm_matrix_of(p, TW_GEMM_C);
    int64_t wrong = 0;
    double most = 0;
    for (int64_t cell = 0; cell < d->cells; cell++) {
        int64_t in = cell % (p->m * columns);
        int64_t at = tw_gemm_matrix_place(p, &m, cell / (p->m * columns)) + in / columns * p->ldc + in % columns;
        if (!tw_gemm_is_written(d, in / columns)) continue;
        double x = tw_gemm_element_read(p->out, c, at);
        for (int64_t i = 1; i < p->addends; i++) x += tw_gemm_element_read(p->out, c, at + i * p->stride_c);
        double error = fabs(x - d->want[cell]) / (double)d->tolerance[cell];
        if (!(error <= most)) most = error;
        if (error < 1) continue;
        if (!wrong++ && first) *first = cell;
    }
    if (worst) *worst = most;
    return wrong;
}

int64_t tw_gemm_data_scaled(const tw_gemm_data *d, const float *c, const uint16_t *scaled) {
    const tw_gemm_problem *p = &d->problem;
    const float *gains = d->of[TW_GEMM_GAINS];
    int64_t wrong = 0;
    for (int64_t i = 0; i < p->m * p->n; i++) {
        const float x = c[i] * gains[i % p->n];
        if (tw_gemm_is_written(d, i / p->n))
            wrong += scaled[i] != (p->type == TW_GEMM_F16 ? tw_f32_to_f16(x) : tw_f32_to_bf16(x));
    }
    return wrong;
}

int64_t tw_gemm_data_squares(const tw_gemm_data *d, const void *c, const tw_gemm_squares *of, const float *squares) {
    const tw_gemm_problem *p = &d->problem;
    const int64_t all = tw_gemm_columns(p), kinds = 1 + p->epilogue.means;
    int64_t wrong = 0;
    for (int64_t from = 0; from < all; from += of->columns, squares += p->m * of->parts * kinds)
        for (int64_t row = 0; row < p->m; row++) {
            double want[2] = {0}, sum[2] = {0}, size = 0;
            if (!tw_gemm_is_written(d, row)) continue;
            for (int i = 0; i < of->parts * kinds; i++)
                sum[i % kinds] += (double)squares[kinds * (i / kinds * p->m + row) + i % kinds];
            for (int64_t j = from; j < all && j < from + of->columns; j++) {
                const double x = tw_gemm_element_read(p->out, c, row * p->ldc + j);
                want[0] += x * x;
                want[1] += x;
                size += fabs(x);
            }
            /* The bound of rounding: a lane adds 64 squares at most, and four lanes add their sums. Squares are not
               negative, so that errors are relative to the sum. A subnormal square is rounded to a multiple of
               2^-149. */
            const double tiny = (double)of->columns * 0x1p-149, sums = 70 * 0x1p-24;
            if (kinds < 2) {
                wrong += !(fabs(sum[0] - want[0]) <= sums * want[0] + tiny);
                continue;
            }
            /* The kernel summed cells before it rounded them to C's type. */
            const double unit = 1.01 * tw_gemm_unit_of(p->out),
                         small = (double)of->columns * tw_gemm_subnormal_of(p->out);
            wrong += !(fabs(sum[0] - want[0]) <= (sums + 3 * unit) * want[0] + small + tiny);
            wrong += !(fabs(sum[1] - want[1]) <= (sums + unit) * size + small + tiny);
        }
    return wrong;
}

int64_t tw_gemm_data_gaps(const tw_gemm_data *d, const void *now, const void *before) {
    const unsigned char *x = now, *y = before;
    const tw_gemm_problem *p = &d->problem;
    const tw_gemm_matrix m = tw_gemm_matrix_of(p, TW_GEMM_C);
    const int64_t es = tw_type_bits(p->out) / 8, all = (int64_t)d->bytes[TW_GEMM_C] / es;
    bool *is_cell = calloc((size_t)all, sizeof *is_cell);
    int64_t n = 0;
    if (!is_cell) return -1;
    const int64_t matrices = p->addends ? p->addends : p->batch;
    for (int64_t i = 0; i < matrices * p->m; i++) {
        const int64_t row = tw_gemm_matrix_place(p, &m, i / p->m) + i % p->m * p->ldc;
        if (tw_gemm_is_written(d, i % p->m)) memset(is_cell + row, true, (size_t)m.columns * sizeof *is_cell);
    }
    for (int64_t i = 0; i < all; i++) n += !is_cell[i] && memcmp(x + i * es, y + i * es, (size_t)es) != 0;
    free(is_cell);
    return n;
}
