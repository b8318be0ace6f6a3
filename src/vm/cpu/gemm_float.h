/* SPDX-License-Identifier: Apache-2.0 */
/* Template: gemm in float on every format, compiled once for each vector_*.h included before it.

   For a block of rows and DEPTH columns, x is copied together; then for each two panels (one with AVX2) the same columns are
   widened to float and every tile of rows runs over them. The widened weights stay in the first-level cache, the
   block of x in the second. */
#include "vm/cpu/variants.h"

#include "vm/cpu/tile_vector.h"

#include <string.h>

enum {
    ROWS = TW_PANEL_ROWS,
    SPLIT = ROWS / LANES,
    TILE_PANELS = TILE_COLS / ROWS,
    DEPTH = 256,
    /* Rows of the copied x, a cache line over DEPTH: rows a multiple of 4 KiB apart would share a set. */
    STRIDE = DEPTH + 16,
    BLOCK_ROWS = 42 * 12, /* 536 KiB of x */
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

size_t VARIANT(tw_gemm_scratch)(tw_panel_format f, int64_t n_panels, int64_t cols, int64_t rows) {
    (void)f, (void)n_panels, (void)cols;
    return (size_t)(least(rows, BLOCK_ROWS) * STRIDE + TILE_COLS * DEPTH) * sizeof(float);
}

static inline void widen_f16(const char *data, int64_t n, float *out) {
    for (int64_t i = 0; i < n * ROWS; i += LANES) v_store(out + i, v_load_f16(data + 2 * i));
}

static inline void widen_bf16(const char *data, int64_t n, float *out) {
    for (int64_t k = 0; k < n; k += 2)
        TW_UNROLL for (int s = 0; s < SPLIT; s++) {
            vi bits = v_load_bits(data + 2 * (k * ROWS + 2 * s * LANES));
            v_store(out + k * ROWS + s * LANES, v_even_bf16(bits));
            v_store(out + (k + 1) * ROWS + s * LANES, v_odd_bf16(bits));
        }
}

/* (u - offset) scale in one rounding: offset is a power of two, so offset times scale is exact. */
static inline vf descale(vi bits, int shift, int mask, vf scale, vf less) {
    return v_fma(v_field(bits, shift, mask), scale, less);
}

static inline void widen_i8(const char *data, int64_t n, const float *scales, float *out) {
    TW_UNROLL for (int s = 0; s < SPLIT; s++) {
        vf scale = v_load(scales + s * LANES), less = v_mul(scale, v_set(-128));
        for (int64_t k = 0; k < n; k += 4) {
            vi bits = v_load_bits(data + k * ROWS + 4 * s * LANES);
            TW_UNROLL for (int j = 0; j < 4; j++)
                v_store(out + (k + j) * ROWS + s * LANES, descale(bits, 8 * j, 255, scale, less));
        }
    }
}

static inline void widen_i4(const char *data, int64_t n, const char *scales, float *out) {
    TW_UNROLL for (int s = 0; s < SPLIT; s++) {
        vf scale = v_load_f16(scales + 2 * s * LANES), less = v_mul(scale, v_set(-8));
        for (int64_t k = 0; k < n; k += 8) {
            vi bits = v_load_bits(data + k * ROWS / 2 + 4 * s * LANES);
            TW_UNROLL for (int j = 0; j < 8; j++)
                v_store(out + (k + j) * ROWS + s * LANES, descale(bits, 8 * (j % 4) + j / 4 * 4, 15, scale, less));
        }
    }
}

/* Columns k .. k + n - 1 (n a multiple of 8) of one panel: where they lie as float, widened into `out` if need be. */
static const float *widen(tw_panel_format f, int64_t cols, const char *panel, int64_t k, int64_t n, float *out) {
    const char *data = panel + tw_panel_scale_bytes(f, cols);
    if (f.dtype == TW_F32) return (const float *)(const void *)data + k * ROWS;
    if (f.dtype == TW_F16) widen_f16(data + k * 2 * ROWS, n, out);
    if (f.dtype == TW_BF16) widen_bf16(data + k * 2 * ROWS, n, out);
    if (f.dtype != TW_I8 && f.dtype != TW_I4) return out;
    int64_t group = f.group ? f.group : tw_panel_cols(f, cols);
    for (int64_t done = 0; done < n;) {
        int64_t at = k + done, g = at / group, step = least((g + 1) * group - at, n - done);
        if (f.dtype == TW_I8)
            widen_i8(data + at * ROWS, step, (const float *)(const void *)panel + g * ROWS, out + done * ROWS);
        else
            widen_i4(data + at * ROWS / 2, step, panel + g * 2 * ROWS, out + done * ROWS);
        done += step;
    }
    return out;
}

/* Weights that the next tiles need, fetched a little with each tile of rows: they come from memory, which would
   otherwise be idle while the tiles compute. */
typedef struct ahead {
    const char *at[TILE_PANELS];
    int64_t bytes, chunk; /* of each panel, and of each tile of rows */
} ahead;

static inline void fetch(const ahead *a, int64_t tile) {
    int64_t from = tile * a->chunk, to = least(from + a->chunk, a->bytes);
    for (int i = 0; i < TILE_PANELS; i++)
        for (int64_t b = from; b < to; b += 64) _mm_prefetch(a->at[i] + b, _MM_HINT_T1);
}

static void all_rows(tile_args *t, const ahead *next, const float *x, int64_t rows, int vectors) {
    float *y = t->y;
    for (int64_t m = 0, i = 0; m < rows; m += TILE_ROWS, i++) {
        fetch(next, i);
        t->a = x + m * STRIDE;
        t->y = y + m * t->ldy;
        int n = (int)least(TILE_ROWS, rows - m);
        if (vectors == 2)
            tile_rows(t, n, 2, STRIDE, 1);
        else
            tile_rows(t, n, 1, STRIDE, 1);
    }
}

/* A product, and the block of it that is being computed: rows that are copied to `x`, columns k .. k + depth - 1. */
typedef struct block {
    tw_panel_format f;
    const char *panels;
    int64_t n_panels, cols, k, depth, rows, ldy;
    const float *x;
    float *wide, *y;
} block;

/* What follows panel p: the next panels of this block, or the first ones of the columns after it. */
static ahead ahead_of(const block *b, int64_t p) {
    const int64_t bytes = (int64_t)tw_panel_bytes(b->f, b->cols), scales = (int64_t)tw_panel_scale_bytes(b->f, b->cols);
    int64_t column = (bytes - scales) / tw_panel_cols(b->f, b->cols), k = b->k, tiles = (b->rows + TILE_ROWS - 1) / TILE_ROWS;
    ahead a = {.bytes = b->depth * column};
    p += TILE_PANELS;
    if (p >= b->n_panels) {
        p = 0;
        k += b->depth;
    }
    for (int i = 0; i < TILE_PANELS; i++) a.at[i] = b->panels + least(p + i, b->n_panels - 1) * bytes + scales + k * column;
    a.chunk = (a.bytes + tiles - 1) / tiles;
    return a;
}

static void all_panels(const block *b) {
    const size_t bytes = tw_panel_bytes(b->f, b->cols);
    int64_t whole = (b->depth + TW_PANEL_K - 1) / TW_PANEL_K * TW_PANEL_K;
    for (int64_t p = 0; p < b->n_panels; p += TILE_PANELS) {
        tile_args t = {.step = ROWS, .depth = b->depth, .y = b->y + p * ROWS, .ldy = b->ldy, .first = b->k == 0};
        const char *panel = b->panels + (size_t)p * bytes;
        int vectors = TILE_PANELS == 2 && p + 1 == b->n_panels ? 1 : 2;
        t.b[0] = widen(b->f, b->cols, panel, b->k, whole, b->wide);
        t.b[1] = t.b[0];
        if (TILE_PANELS == 1)
            t.b[1] += LANES;
        else if (vectors == 2)
            t.b[1] = widen(b->f, b->cols, panel + bytes, b->k, whole, b->wide + ROWS * DEPTH);
        ahead next = ahead_of(b, p);
        all_rows(&t, &next, b->x, b->rows, vectors);
    }
}

void VARIANT(tw_gemm)(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const float *x, int64_t ldx,
                      int64_t rows, float *y, int64_t ldy, void *scratch) {
    float *wide = scratch, *copy = wide + TILE_COLS * DEPTH;
    block b = {.f = f, .panels = panels, .n_panels = n_panels, .cols = cols, .ldy = ldy, .x = copy, .wide = wide};
    for (int64_t m = 0; m < rows; m += BLOCK_ROWS)
        for (int64_t k = 0; k < cols; k += DEPTH) {
            b.k = k;
            b.y = y + m * ldy;
            b.rows = least(BLOCK_ROWS, rows - m);
            b.depth = least(DEPTH, cols - k);
            for (int64_t r = 0; r < b.rows; r++)
                memcpy(copy + r * STRIDE, x + (m + r) * ldx + k, (size_t)b.depth * sizeof *x);
            all_panels(&b);
        }
}
