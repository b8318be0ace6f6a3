/* SPDX-License-Identifier: Apache-2.0 */
/* A template: the function SELECT_SCAN computes G, L and bounds of a block of macro choices, by loops over columns that
   the compiler vectorises. It is compiled once for each instruction set. Results are equal bit for bit, since nothing
   is contracted to fused multiply-adds. */
#include "select/selector.h"

#include <math.h>

/* Multiplies each product by ceil(problem / tile). */
static void divide(const select_list *tiles, int from, int n, float problem, float *restrict product) {
    if (!tiles->each) {
        if (!tiles->same) return;
        const float all = select_ceil(problem, (float)tiles->same);
        for (int i = 0; i < n; i++) product[i] *= all;
        return;
    }
    const uint16_t *restrict tile = tiles->each + from;
    /* Without a tile the factor is 1: a tile of 2^24 covers every problem. */
    for (int i = 0; i < n; i++)
        product[i] *= select_ceil(problem, (float)(tile[i] + ((tile[i] == 0) << SELECT_EXACT_BITS)));
}

/* Multiplies each product by the used share of its tiles. Without a tile the factor is 1. */
static void shrink(const select_list *tiles, int from, int n, float problem, float *restrict product) {
    if (!tiles->each) {
        if (!tiles->same) return;
        const float used = select_used(problem, (float)tiles->same);
        for (int i = 0; i < n; i++) product[i] *= used;
        return;
    }
    const uint16_t *restrict tile = tiles->each + from;
    for (int i = 0; i < n; i++) {
        const float size = tile[i] ? (float)tile[i] : problem;
        product[i] *= select_used(problem, size);
    }
}

static void multiply(const select_list *l, int from, int n, float *restrict product) {
    if (l->each)
        for (int i = 0; i < n; i++) product[i] *= (float)l->each[from + i];
    else if (l->same != 1)
        for (int i = 0; i < n; i++) product[i] *= (float)l->same;
}

/* Computes the numbers of waves. G above SELECT_EXACT counts as SELECT_EXACT, so that select_ceil's conversion is in
   range. */
static void count_waves(const select_list *slots, int from, int n, const float *restrict grid, float *restrict waves) {
    const float most = SELECT_EXACT;
    if (slots->each)
        for (int i = 0; i < n; i++)
            waves[i] = select_ceil(grid[i] < most ? grid[i] : most, (float)slots->each[from + i]);
    else
        for (int i = 0; i < n; i++) waves[i] = select_ceil(grid[i] < most ? grid[i] : most, (float)slots->same);
}

/* Computes the bounds. Where the ratio is infinite the upper bound is infinity or NaN, and becomes infinity. */
static void bound(const select_view *v, int from, int n, select_scan *restrict s) {
    float waves[SELECT_BLOCK];
    const uint16_t *restrict c[5];
    for (int k = 0; k < 5; k++) c[k] = v->columns[COLUMN_BOUND + k].each + from;
    const uint16_t *restrict c0 = c[0], *restrict c1 = c[1], *restrict c2 = c[2], *restrict c3 = c[3],
                             *restrict ratio = c[4];
    const float least = v->least, most = v->most, exact = SELECT_EXACT;
    count_waves(&v->columns[COLUMN_SLOTS], from, n, s->grid, waves);
    float *restrict low = s->low, *restrict high = s->high;
    const float *restrict grid = s->grid, *restrict rounds = s->rounds;
    for (int i = 0; i < n; i++) {
        const float l = rounds[i] < most ? rounds[i] : most, w = waves[i];
        const float slope = tw_bf16_to_f32(c0[i]) * l + tw_bf16_to_f32(c1[i]),
                    start = tw_bf16_to_f32(c2[i]) * l + tw_bf16_to_f32(c3[i]);
        const float holds =
            (rounds[i] >= least ? 1.0f : 0.0f) * (rounds[i] <= most ? 1.0f : 0.0f) * (grid[i] < exact ? 1.0f : 0.0f);
        low[i] = (slope * w + start) * holds;
        high[i] = tw_bf16_to_f32(ratio[i]);
    }
    for (int i = 0; i < n; i++) {
        const float upper = low[i] * high[i];
        high[i] = upper > 0 ? upper : INFINITY;
    }
}

/* Multiplies bounds by what times are multiplied by, at the least and at the most. */
static void scale(const select_view *v, int from, int n, select_scan *restrict s) {
    const select_list *lows = &v->columns[COLUMN_LOW], *highs = &v->columns[COLUMN_HIGH];
    const float *restrict factor = s->factor;
    float *restrict low = s->low, *restrict high = s->high;
    if (!v->fills) {
        for (int i = 0; i < n; i++) low[i] *= factor[i];
        for (int i = 0; i < n; i++) high[i] *= factor[i];
        return;
    }
    const uint16_t *restrict below = lows->each + from, *restrict above = highs->each + from;
    const float least = (float)TW_ARTEFACT_FLOOR;
    for (int i = 0; i < n; i++) {
        const float most = factor[i] + tw_bf16_to_f32(above[i]), some = factor[i] + tw_bf16_to_f32(below[i]);
        low[i] *= some > least ? some : least;
        high[i] *= most > least ? most : least;
    }
}

/* Computes the corrections. Sums are whole numbers of 16 bits: the weights sum up to TW_LATTICE_UNITS. */
static void correct(const select_view *v, const select_corners *c, int from, int n, select_scan *restrict s) {
    const select_list *steps = &v->columns[COLUMN_STEP];
    float *restrict factor = s->factor;
    int16_t sums[SELECT_BLOCK];
    for (int i = 0; i < n; i++) sums[i] = 0;
    for (int k = 0; k < c->n; k += SELECT_ROWS) {
        const int16_t *w = &c->weight[k];
        const int16_t w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
        const int8_t *restrict rows[SELECT_ROWS];
        for (int j = 0; j < SELECT_ROWS; j++) rows[j] = v->lattice + (size_t)c->node[k + j] * v->lattice_pitch + from;
        const int8_t *restrict r0 = rows[0], *restrict r1 = rows[1], *restrict r2 = rows[2], *restrict r3 = rows[3];
        for (int i = 0; i < n; i++)
            sums[i] = (int16_t)(sums[i] + (int16_t)(w0 * r0[i]) + (int16_t)(w1 * r1[i]) + (int16_t)(w2 * r2[i]) +
                                (int16_t)(w3 * r3[i]));
    }
    if (steps->each) {
        const uint16_t *restrict step = steps->each + from;
        for (int i = 0; i < n; i++) factor[i] = select_correction(step[i], sums[i]);
    } else {
        for (int i = 0; i < n; i++) factor[i] = select_correction((uint16_t)steps->same, sums[i]);
    }
}

/* Computes the empty parts of last tiles along a ragged axis, and adds what they cost to `ragged`, without the factor
   L. */
static void add_empty(const select_view *v, int k, float problem, int from, int n, const float *restrict x,
                      float *restrict empty, float *restrict ragged) {
    const select_list *tiles = &v->columns[COLUMN_GRID + v->ragged[k]];
    const float *restrict tail = v->terms + (size_t)(SELECT_TAIL + k) * v->terms_pitch + from,
                          *restrict flow = v->terms + (size_t)(SELECT_FLOW + k) * v->terms_pitch + from;
    float sizes[SELECT_BLOCK];
    if (tiles->each)
        for (int i = 0; i < n; i++) sizes[i] = (float)tiles->each[from + i];
    else
        for (int i = 0; i < n; i++) sizes[i] = (float)tiles->same;
    for (int i = 0; i < n; i++) {
        const float size = sizes[i] > 0 ? sizes[i] : problem, count = select_ceil(problem, size);
        empty[i] = select_empty(problem, size, count);
        ragged[i] += empty[i] * (tail[i] + flow[i] * x[i] / count);
    }
}

/* Computes x, W and the fill of each macro choice. */
static void fill_device(const select_view *v, int from, int n, select_scan *restrict s, float *restrict x) {
    const select_list *slots = &v->columns[COLUMN_SLOTS];
    const float *restrict grid = s->grid;
    float *restrict waves = s->waves, *restrict fill = s->fill;
    const float exact = SELECT_EXACT;
    count_waves(slots, from, n, grid, waves);
    if (slots->each)
        for (int i = 0; i < n; i++) x[i] = grid[i] / (float)slots->each[from + i];
    else
        for (int i = 0; i < n; i++) x[i] = grid[i] / (float)slots->same;
    for (int i = 0; i < n; i++) waves[i] = grid[i] < exact ? waves[i] : x[i];
    for (int i = 0; i < n; i++) fill[i] = x[i] / waves[i];
}

/* Computes the times of a direct artefact by terms, and bounds that leave room for the rounding of floats. */
static void predict_all(const select_view *v, const float *axes, int from, int n, select_scan *restrict s) {
    float x[SELECT_BLOCK], ragged[SELECT_BLOCK];
    const float *restrict c[SELECT_TAIL];
    for (int k = 0; k < SELECT_TAIL; k++) c[k] = v->terms + (size_t)k * v->terms_pitch + from;
    const float *restrict c0 = c[0], *restrict c1 = c[1], *restrict c2 = c[2], *restrict c3 = c[3], *restrict c4 = c[4],
                          *restrict c5 = c[5];
    float *restrict time = s->time, *restrict low = s->low, *restrict high = s->high;
    const float *restrict rounds = s->rounds, *restrict waves = s->waves;
    fill_device(v, from, n, s, x);
    for (int i = 0; i < n; i++) ragged[i] = 0;
    for (int k = 0; k < TW_FILL_AXES; k++)
        if (v->ragged[k] >= 0)
            add_empty(v, k, axes[v->ragged[k]], from, n, x, s->empty[k], ragged);
        else
            memset(s->empty[k], 0, (size_t)n * sizeof *s->empty[k]);
    for (int i = 0; i < n; i++) {
        const float l = rounds[i];
        time[i] = (c0[i] * l + c1[i]) * x[i] + (c2[i] * l + c3[i]) + (c4[i] * l + c5[i]) * waves[i] + ragged[i] * l;
    }
    for (int i = 0; i < n; i++) {
        low[i] = time[i] * (1 - SELECT_ROUNDING);
        high[i] = time[i] > 0 ? time[i] * (1 + SELECT_ROUNDING) : INFINITY;
    }
}

void SELECT_SCAN(const select_view *v, const float *axes, const select_corners *c, int from, int n, select_scan *s) {
    for (int i = 0; i < n; i++) s->grid[i] = s->rounds[i] = 1;
    for (int a = 0; a < v->axes; a++) {
        divide(&v->columns[COLUMN_GRID + a], from, n, axes[a], s->grid);
        divide(&v->columns[COLUMN_ROUNDS + a], from, n, axes[a], s->rounds);
        if (v->shrinks >> a & 1) shrink(&v->columns[COLUMN_GRID + a], from, n, axes[a], s->rounds);
    }
    multiply(&v->columns[COLUMN_TIMES], from, n, s->grid);
    if (v->terms)
        predict_all(v, axes, from, n, s);
    else
        bound(v, from, n, s);
    if (c->n)
        correct(v, c, from, n, s);
    else
        for (int i = 0; i < n; i++) s->factor[i] = 1;
    if (c->n || v->fills) scale(v, from, n, s);
}
