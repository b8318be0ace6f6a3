/* SPDX-License-Identifier: Apache-2.0 */
/* What macro choices make of a problem: loops over them that the compiler vectorises, a loop a column. Compiled once
   for each instruction set, with SELECT_SCAN the name of the function that is made. The results are the same, bit for
   bit: products are not contracted. */
#include "select/selector.h"

#include <math.h>

/* Multiplies by ceil(problem / tile). */
static void divide(const select_list *tiles, int from, int n, float problem, double *restrict product) {
    if (!tiles->each) {
        const double all = tiles->same ? (double)select_ceil(problem, (float)tiles->same) : 1;
        if (tiles->same)
            for (int i = 0; i < n; i++) product[i] *= all;
        return;
    }
    const uint16_t *restrict tile = tiles->each + from;
    for (int i = 0; i < n; i++) {
        const float t = (float)tile[i], c = select_ceil(problem, t > 0 ? t : 1);
        product[i] *= (double)(t > 0 ? c : 1);
    }
}

static void multiply(const select_list *l, int from, int n, double *restrict product) {
    if (l->each)
        for (int i = 0; i < n; i++) product[i] *= (double)l->each[from + i];
    else if (l->same != 1)
        for (int i = 0; i < n; i++) product[i] *= (double)l->same;
}

static void divide_by_slots(const select_list *l, int from, int n, double *restrict x) {
    if (l->each)
        for (int i = 0; i < n; i++) x[i] /= (double)l->each[from + i];
    else
        for (int i = 0; i < n; i++) x[i] /= (double)l->same;
}

/* Computes the bounds. A ratio of infinity, whose upper bound is infinite or no number, bounds nothing. */
static void bound(const select_view *v, int from, int n, select_scan *restrict s) {
    const uint16_t *restrict c[5];
    for (int k = 0; k < 5; k++) {
        if (!v->columns[COLUMN_BOUND + k].each) {
            for (int i = 0; i < n; i++) {
                s->low[i] = 0;
                s->high[i] = INFINITY;
            }
            return;
        }
        c[k] = v->columns[COLUMN_BOUND + k].each + from;
    }
    const float least = v->least, most = v->most;
    for (int i = 0; i < n; i++) {
        const double huge = 1e30; /* It fits a float, and no bound holds there. */
        const float l = (float)(s->rounds[i] < huge ? s->rounds[i] : huge);
        const int32_t waves = select_waves(s->x[i]);
        const float w = (float)waves;
        const float low =
            (select_bf16(c[0][i]) * l + select_bf16(c[1][i])) * w + (select_bf16(c[2][i]) * l + select_bf16(c[3][i]));
        const float high = low * select_bf16(c[4][i]);
        const bool in = l >= least && l <= most && waves < SELECT_WAVES;
        s->low[i] = in ? low : 0;
        s->high[i] = in ? high : INFINITY;
    }
}

void SELECT_SCAN(const select_view *v, const float *axes, int from, int n, select_scan *s) {
    for (int i = 0; i < n; i++) s->x[i] = s->rounds[i] = 1;
    for (int a = 0; a < v->axes; a++) {
        divide(&v->columns[COLUMN_GRID + a], from, n, axes[a], s->x);
        divide(&v->columns[COLUMN_ROUNDS + a], from, n, axes[a], s->rounds);
    }
    multiply(&v->columns[COLUMN_TIMES], from, n, s->x);
    divide_by_slots(&v->columns[COLUMN_SLOTS], from, n, s->x);
    bound(v, from, n, s);
}
