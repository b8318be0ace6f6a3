/* SPDX-License-Identifier: Apache-2.0 */
/* Template: gemm in float on every format, compiled once for each vector_*.h included before it.

   Float formats, and few rows of the others, go through gemm_few.h. For many rows integers cost too much to widen for
   every tile: for a block of rows and DEPTH columns x is copied together, then for each two panels (one with AVX2) the
   same columns are widened to float and every tile of rows runs over them. The widened weights stay in the first-level
   cache, the block of x in the second. */
#include "vm/cpu/variants.h"

#include "vm/cpu/gemm_few.h"

#include <string.h>

enum {
    SPLIT = ROWS / LANES,
    /* 512 tokens in one block of 548 KiB; half of that without AVX-512, where processors have smaller caches. */
    BLOCK_ROWS = 43 * TILE_ROWS,
    /* From here on widening once for all rows is the faster way. */
    FEW_ROWS = 6 * TILE_ROWS,
};

static bool is_few(tw_panel_format f, int64_t rows) {
    return rows <= FEW_ROWS || (f.dtype != TW_I8 && f.dtype != TW_I4);
}

size_t VARIANT(tw_gemm_scratch)(tw_panel_format f, int64_t n_panels, int64_t cols, int64_t rows) {
    (void)n_panels;
    if (is_few(f, rows)) return few_scratch(f, cols, rows);
    return (size_t)(least(rows, BLOCK_ROWS) * STRIDE + TILE_COLS * DEPTH) * sizeof(float);
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

/* Columns k .. k + n - 1 (n a multiple of 8) of one panel as float. */
static void widen(tw_panel_format f, int64_t cols, const char *panel, int64_t k, int64_t n, float *out) {
    const char *data = panel + tw_panel_scale_bytes(f, cols);
    int64_t group = f.group ? f.group : tw_panel_cols(f, cols);
    for (int64_t done = 0; done < n;) {
        int64_t at = k + done, g = at / group, step = least((g + 1) * group - at, n - done);
        if (f.dtype == TW_I8)
            widen_i8(data + at * ROWS, step, (const float *)(const void *)panel + g * ROWS, out + done * ROWS);
        else
            widen_i4(data + at * ROWS / 2, step, panel + g * 2 * ROWS, out + done * ROWS);
        done += step;
    }
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
    int64_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    for (int64_t m = 0, i = 0; i < tiles; i++) {
        /* Tiles of nearly equal height: one of few rows at the end would wait for its own multiply-adds. */
        int n = (int)((rows - m + tiles - i - 1) / (tiles - i));
        fetch(next, i);
        t->a = x + m * STRIDE;
        t->y = y + m * t->ldy;
        if (vectors == 2)
            tile_rows(t, n, 2, STRIDE, 1);
        else
            tile_rows(t, n, 1, STRIDE, 1);
        m += n;
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

/* Columns k .. of panel p and its neighbours, which are needed next. */
static ahead ahead_at(const block *b, int64_t p, int64_t k) {
    const int64_t bytes = (int64_t)tw_panel_bytes(b->f, b->cols), scales = (int64_t)tw_panel_scale_bytes(b->f, b->cols);
    int64_t column = (bytes - scales) / tw_panel_cols(b->f, b->cols), tiles = (b->rows + TILE_ROWS - 1) / TILE_ROWS;
    ahead a = {.bytes = b->depth * column};
    for (int i = 0; i < TILE_PANELS; i++)
        a.at[i] = b->panels + least(p + i, b->n_panels - 1) * bytes + scales + k * column;
    a.chunk = (a.bytes / tiles + 63) & -64;
    return a;
}

/* The block against panel p and, where a tile is two panels wide, the next. */
static void tile_panels(const block *b, int64_t p, const ahead *next) {
    const size_t bytes = tw_panel_bytes(b->f, b->cols);
    const char *panel = b->panels + (size_t)p * bytes;
    int64_t whole = (b->depth + TW_PANEL_K - 1) / TW_PANEL_K * TW_PANEL_K;
    tile_args t = {.step = ROWS, .depth = b->depth, .y = b->y + p * ROWS, .ldy = b->ldy, .first = b->k == 0};
    int vectors = TILE_PANELS == 2 && p + 1 == b->n_panels ? 1 : 2;
    widen(b->f, b->cols, panel, b->k, whole, b->wide);
    if (TILE_PANELS == 2 && vectors == 2) widen(b->f, b->cols, panel + bytes, b->k, whole, b->wide + ROWS * DEPTH);
    t.b[0] = b->wide;
    t.b[1] = b->wide + (TILE_PANELS == 1 ? LANES : vectors == 2 ? ROWS * DEPTH : 0);
    all_rows(&t, next, b->x, b->rows, vectors);
}

static void copy_rows(const float *x, int64_t ldx, int64_t rows, int64_t depth, float *copy) {
    for (int64_t r = 0; r < rows; r++) memcpy(copy + r * STRIDE, x + r * ldx, (size_t)depth * sizeof *x);
}

static void many_rows(block *b, const float *x, int64_t ldx, float *copy) {
    b->x = copy;
    for (b->k = 0; b->k < b->cols; b->k += DEPTH) {
        b->depth = least(DEPTH, b->cols - b->k);
        copy_rows(x + b->k, ldx, b->rows, b->depth, copy);
        for (int64_t p = 0; p < b->n_panels; p += TILE_PANELS) {
            int64_t then = p + TILE_PANELS;
            ahead next = then < b->n_panels ? ahead_at(b, then, b->k) : ahead_at(b, 0, b->k + b->depth);
            tile_panels(b, p, &next);
        }
    }
}

void VARIANT(tw_gemm)(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const float *x,
                      int64_t ldx, int64_t rows, float *y, int64_t ldy, void *scratch) {
    if (is_few(f, rows)) {
        few_rows(f, panels, n_panels, cols, x, ldx, rows, y, ldy, scratch);
        return;
    }
    float *wide = scratch, *copy = wide + TILE_COLS * DEPTH;
    block b = {
        .f = f, .panels = panels, .n_panels = n_panels, .cols = cols, .rows = rows, .ldy = ldy, .wide = wide, .y = y};
    /* Blocks of equal size: a last one of a few rows would read all weights for them. */
    int64_t blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS, even = (rows + blocks - 1) / blocks;
    even = (even + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    for (int64_t m = 0; m < rows; m += even) {
        b.rows = least(even, rows - m);
        b.y = y + m * ldy;
        many_rows(&b, x + m * ldx, ldx, copy);
    }
}
