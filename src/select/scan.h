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

/* Multiplies each product by the tiles of rows that are spread over `used` groups, which `parts` becomes. NULL: it is
   not wanted. Without a tile the factor is 1. */
static void divide_spread(const select_list *tiles, int from, int n, float rows, float used, float *restrict product,
                          float *restrict parts) {
    for (int i = 0; i < n; i++) {
        const uint32_t tile = select_item(tiles, from + i);
        const float count = tile ? select_spread(rows, used, (float)tile) : 1;
        product[i] *= count;
        if (parts) parts[i] = count;
    }
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

/* Multiplies each product by the number of tiles along a tiled axis, which `parts` becomes. `rest` becomes `lean` of
   select_scan if blocks divide the axis equally, else `empty`. Without a tile the axis is one whole part. A division
   takes as long as ten other operations, so there is one: with q = problem / tile, 1 / tile is q / problem. */
static void divide_tiled(const select_list *tiles, bool equal, int from, int n, float problem, float *restrict product,
                         float *restrict parts, float *restrict rest) {
    const float inverse = 1 / problem;
    float sizes[SELECT_BLOCK];
    if (tiles->each)
        for (int i = 0; i < n; i++) sizes[i] = (float)tiles->each[from + i];
    else
        for (int i = 0; i < n; i++) sizes[i] = (float)tiles->same;
    for (int i = 0; i < n; i++) {
        const float size = sizes[i] > 0 ? sizes[i] : problem, q = problem / size, whole = (float)(int32_t)q;
        const float count = whole + (float)(whole < q);
        /* The first factor of what is empty is exact for whole numbers up to 2^24. */
        const float empty = (size - (problem - (count - 1) * size)) * (q * inverse), lean = count * (size * inverse);
        parts[i] = count;
        rest[i] = equal ? lean : empty;
        product[i] *= count;
    }
}

/* Computes x and W of each macro choice. */
static void fill_device(const select_view *v, int from, int n, select_scan *restrict s) {
    const select_list *slots = &v->columns[COLUMN_SLOTS];
    const float *restrict grid = s->grid;
    float *restrict waves = s->waves, *restrict x = s->x;
    const float exact = SELECT_EXACT;
    if (slots->each)
        for (int i = 0; i < n; i++) x[i] = grid[i] / (float)slots->each[from + i];
    else
        for (int i = 0; i < n; i++) x[i] = grid[i] / (float)slots->same;
    /* Masks, since the compiler makes branches of conditions here. */
    for (int i = 0; i < n; i++) {
        const uint32_t few = 0 - (uint32_t)(grid[i] < exact), all = tw_f32_bits(x[i]);
        const float q = tw_bits_f32(all & few), whole = (float)(int32_t)q;
        waves[i] = tw_bits_f32(all & ~few) + (whole + (float)(whole < q));
    }
}

/* Computes the terms of the tiled axes, without the factor L. The parts along both axes divide x, each for the other
   axis's term. */
static void add_tiles(const select_view *v, int from, int n, const select_scan *restrict s, float *restrict tiles) {
    float in_waves[TW_FILL_AXES][SELECT_BLOCK];
    const float *tail_by[TW_FILL_AXES], *flow_by[TW_FILL_AXES];
    const float *restrict c[SELECT_TERMS];
    for (int k = SELECT_TAIL; k < SELECT_TERMS; k++) c[k] = v->terms + (size_t)k * v->terms_pitch + from;
    const float *restrict tail0 = c[SELECT_TAIL], *restrict tail1 = c[SELECT_TAIL + 1],
                          *restrict flow0 = c[SELECT_FLOW], *restrict flow1 = c[SELECT_FLOW + 1],
                          *restrict memory0 = c[SELECT_MEMORY], *restrict memory1 = c[SELECT_MEMORY + 1];
    for (int k = 0; k < TW_FILL_AXES; k++) {
        const bool equal = select_is_equal(v, k);
        const float *restrict waves = s->waves, *restrict lean = s->lean[k];
        if (equal)
            for (int i = 0; i < n; i++) in_waves[k][i] = lean[i] * waves[i];
        tail_by[k] = equal ? in_waves[k] : s->empty[k];
        flow_by[k] = equal ? s->lean[k] : s->empty[k];
    }
    const float *restrict x = s->x, *restrict parts0 = s->parts[0], *restrict parts1 = s->parts[1],
                          *restrict t0 = tail_by[0], *restrict t1 = tail_by[1], *restrict f0 = flow_by[0],
                          *restrict f1 = flow_by[1];
    for (int i = 0; i < n; i++) {
        const float flow = (f0[i] * flow0[i] + memory0[i]) * parts1[i] + (f1[i] * flow1[i] + memory1[i]) * parts0[i];
        tiles[i] = t0[i] * tail0[i] + t1[i] * tail1[i] + flow * (x[i] / (parts0[i] * parts1[i]));
    }
}

/* Computes the times of a direct artefact by terms, and bounds that leave room for the rounding of floats. */
static void predict_all(const select_view *v, int from, int n, select_scan *restrict s) {
    float tiles[SELECT_BLOCK];
    const float *restrict c[SELECT_TAIL];
    for (int k = 0; k < SELECT_TAIL; k++) c[k] = v->terms + (size_t)k * v->terms_pitch + from;
    const float *restrict c0 = c[0], *restrict c1 = c[1], *restrict c2 = c[2], *restrict c3 = c[3], *restrict c4 = c[4],
                          *restrict c5 = c[5];
    float *restrict time = s->time, *restrict low = s->low, *restrict high = s->high;
    fill_device(v, from, n, s);
    if (v->tiled[0] >= 0 || v->tiled[1] >= 0)
        add_tiles(v, from, n, s, tiles);
    else
        memset(tiles, 0, (size_t)n * sizeof *tiles);
    const float *restrict rounds = s->rounds, *restrict waves = s->waves, *restrict x = s->x;
    for (int i = 0; i < n; i++) {
        const float l = rounds[i];
        time[i] = (c0[i] * l + c1[i]) * x[i] + (c2[i] * l + c3[i]) + (c4[i] * l + c5[i]) * waves[i] + tiles[i] * l;
    }
    for (int i = 0; i < n; i++) {
        low[i] = time[i] * (1 - SELECT_ROUNDING);
        high[i] = time[i] > 0 ? time[i] * (1 + SELECT_ROUNDING) : INFINITY;
    }
}

/* Computes `parts`, and `empty` or `lean`, along the tiled axes of a direct artefact, and multiplies G by the parts.
   Returns the set of these axes: bit a stands for axis a. */
static uint32_t divide_all_tiled(const select_view *v, const float *axes, int from, int n, select_scan *restrict s) {
    uint32_t done = 0;
    for (int k = 0; k < TW_FILL_AXES; k++) {
        const int a = v->tiled[k];
        const bool equal = select_is_equal(v, k);
        float(*const rest)[SELECT_BLOCK] = equal ? s->lean : s->empty;
        if (a < 0 || equal || a == v->spread) memset(s->empty[k], 0, (size_t)n * sizeof *s->empty[k]);
        if (a < 0) {
            for (int i = 0; i < n; i++) s->parts[k][i] = 1;
        } else if (done >> a & 1) {
            memcpy(s->parts[k], s->parts[k - 1], (size_t)n * sizeof *s->parts[k]);
            memcpy(rest[k], rest[k - 1], (size_t)n * sizeof *rest[k]);
        } else if (a == v->spread) {
            divide_spread(&v->columns[COLUMN_GRID + a], from, n, axes[a], axes[v->groups], s->grid, s->parts[k]);
            done |= UINT32_C(1) << a;
        } else {
            divide_tiled(&v->columns[COLUMN_GRID + a], equal, from, n, axes[a], s->grid, s->parts[k], rest[k]);
            done |= UINT32_C(1) << a;
        }
    }
    return done;
}

void SELECT_SCAN(const select_view *v, const float *axes, const select_corners *c, int from, int n, select_scan *s) {
    for (int i = 0; i < n; i++) s->grid[i] = s->rounds[i] = 1;
    const uint32_t tiled = v->terms ? divide_all_tiled(v, axes, from, n, s) : 0;
    for (int a = 0; a < v->axes; a++) {
        if (tiled >> a & 1)
            ; /* divide_all_tiled has multiplied G. */
        else if (a == v->spread)
            divide_spread(&v->columns[COLUMN_GRID + a], from, n, axes[a], axes[v->groups], s->grid, NULL);
        else
            divide(&v->columns[COLUMN_GRID + a], from, n, axes[a], s->grid);
        divide(&v->columns[COLUMN_ROUNDS + a], from, n, axes[a], s->rounds);
        if (v->shrinks >> a & 1) shrink(&v->columns[COLUMN_GRID + a], from, n, axes[a], s->rounds);
    }
    multiply(&v->columns[COLUMN_TIMES], from, n, s->grid);
    if (v->terms)
        predict_all(v, from, n, s);
    else
        bound(v, from, n, s);
    if (c->n)
        correct(v, c, from, n, s);
    else
        for (int i = 0; i < n; i++) s->factor[i] = 1;
    if (c->n || v->fills) scale(v, from, n, s);
}
