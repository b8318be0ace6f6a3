/* SPDX-License-Identifier: Apache-2.0 */
/* Template: gemm whose weights are widened in registers on their way to a tile of rows, with no detour through memory;
   part of gemm_float.h. Panels are read in the order in which they lie. */
#ifndef TW_VM_CPU_GEMM_FEW_H
#define TW_VM_CPU_GEMM_FEW_H

#include "vm/cpu/tile_vector.h"
#include "vm/cpu/variants.h"

#include <string.h>

enum {
    ROWS = TW_PANEL_ROWS,
    TILE_PANELS = TILE_COLS / ROWS,
    DEPTH = 256,
    /* Rows of the copied x, a cache line over DEPTH: rows a multiple of 4 KiB apart would share a set. */
    STRIDE = DEPTH + 16,
    AHEAD = 8192, /* bytes of each panel: twice a memory's latency at its full rate */
    /* Columns at a time: two panels of float and a tile of x stay in the second-level cache. */
    SPAN = 2048
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Tiles of nearly equal height, and that even, which halves the number of tiles that are compiled. */
static int64_t few_height(int64_t rows) {
    int64_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS, height = (rows + tiles - 1) / tiles;
    return height + height % 2;
}

/* Of one copied tile of rows. */
static int64_t few_floats(tw_panel_format f, int64_t cols, int64_t height) {
    return height * ((least(tw_panel_cols(f, cols), SPAN) + DEPTH - 1) / DEPTH) * STRIDE;
}

static size_t few_scratch(tw_panel_format f, int64_t cols, int64_t rows) {
    if (rows < 1) return 0;
    int64_t height = few_height(rows), tiles = (rows + height - 1) / height;
    return (size_t)(tiles * few_floats(f, cols, height)) * sizeof(float);
}

/* (u - offset) scale in one rounding: offset is a power of two, so offset times scale is exact. */
static inline vf descale(vi bits, int shift, int mask, vf scale, vf less) {
    return v_fma(v_field(bits, shift, mask), scale, less);
}

/* Column c of the eight at `data`. */
static inline __attribute__((always_inline)) vf few_column(tw_dtype t, const char *data, int c, vf scale, vf less) {
    switch (t) {
    case TW_F32:
        return v_load((const float *)(const void *)(data + 64 * c));
    case TW_F16:
        return v_load_f16(data + 32 * c);
    case TW_BF16:
        return c % 2 ? v_odd_bf16(v_load_bits(data + 64 * (c / 2))) : v_even_bf16(v_load_bits(data + 64 * (c / 2)));
    case TW_I8:
        return descale(v_load_bits(data + 64 * (c / 4)), 8 * (c % 4), 255, scale, less);
    default:
        return descale(v_load_bits(data), 8 * (c % 4) + c / 4 * 4, 15, scale, less);
    }
}

/* Two vectors of rows of W: where their weights and scales lie, from column `first` on; `cols` of them, padded. */
typedef struct few_args {
    const char *data[2], *scales[2];
    int64_t first, cols, group, ldy, rows;
    const float *x;
    float *y;
    int vectors;
} few_args;

static inline __attribute__((always_inline)) void few_scales(tw_dtype t, const few_args *a, int64_t k, vf scale[2],
                                                             vf less[2]) {
    int64_t at = (a->first + k) / a->group * ROWS;
    TW_UNROLL for (int v = 0; v < 2; v++) {
        scale[v] =
            t == TW_I8 ? v_load((const float *)(const void *)a->scales[v] + at) : v_load_f16(a->scales[v] + 2 * at);
        less[v] = v_mul(scale[v], v_set(t == TW_I8 ? -128 : -8));
    }
}

static inline __attribute__((always_inline)) void few_tile(tw_dtype t, int rows, const few_args *a) {
    const bool integers = t == TW_I8 || t == TW_I4;
    const int64_t step = (int64_t)(t == TW_F32 ? 64 : t == TW_I8 ? 16 : t == TW_I4 ? 8 : 32) * TW_PANEL_K;
    vf acc[TILE_ROWS][2], scale[2], less[2];
    TW_UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = v_zero();
    scale[0] = scale[1] = less[0] = less[1] = v_zero();
    for (int64_t k = 0, at = 0; k < a->cols; k += TW_PANEL_K, at += step) {
        const float *x = a->x + k / DEPTH * rows * STRIDE + k % DEPTH;
        if (integers && (k == 0 || k % a->group == 0)) few_scales(t, a, k, scale, less);
        TW_UNROLL for (int64_t b = 0; b < step; b += 64) {
            _mm_prefetch(a->data[0] + at + AHEAD + b, _MM_HINT_T0);
            if (TILE_PANELS == 2) _mm_prefetch(a->data[1] + at + AHEAD + b, _MM_HINT_T0);
        }
        TW_UNROLL for (int c = 0; c < TW_PANEL_K; c++) {
            vf w0 = few_column(t, a->data[0] + at, c, scale[0], less[0]),
               w1 = few_column(t, a->data[1] + at, c, scale[1], less[1]);
            TW_UNROLL for (int r = 0; r < rows; r++) {
                vf s = v_set(x[r * STRIDE + c]);
                acc[r][0] = v_fma(s, w0, acc[r][0]);
                acc[r][1] = v_fma(s, w1, acc[r][1]);
            }
        }
    }
    TW_UNROLL for (int r = 0; r < rows; r++) {
        TW_UNROLL for (int v = 0; v < 2; v++) if (r < a->rows && v < a->vectors) {
            float *y = a->y + r * a->ldy + v * LANES;
            v_store(y, a->first ? v_add(v_load(y), acc[r][v]) : acc[r][v]);
        }
    }
}

static inline __attribute__((always_inline)) void few_tiles(tw_dtype t, const few_args *a) {
    switch ((a->rows + 1) / 2) {
    case 1:
        few_tile(t, 2, a);
        break;
    case 2:
        few_tile(t, 4, a);
        break;
    case 3:
        few_tile(t, 6, a);
        break;
#if TW_TILE_ROWS == 12
    case 4:
        few_tile(t, 8, a);
        break;
    case 5:
        few_tile(t, 10, a);
        break;
    default:
        few_tile(t, 12, a);
        break;
#endif
    }
}

/* Not inlined: each is all tiles of one format. */
static __attribute__((noinline)) void few_f32(const few_args *a) {
    few_tiles(TW_F32, a);
}
static __attribute__((noinline)) void few_f16(const few_args *a) {
    few_tiles(TW_F16, a);
}
static __attribute__((noinline)) void few_bf16(const few_args *a) {
    few_tiles(TW_BF16, a);
}
static __attribute__((noinline)) void few_i8(const few_args *a) {
    few_tiles(TW_I8, a);
}
static __attribute__((noinline)) void few_i4(const few_args *a) {
    few_tiles(TW_I4, a);
}

/* A tile of x as [DEPTH columns][row][STRIDE], with a row more where their number is odd, and zeros up to the padded
   columns. */
static void few_copy(const float *x, int64_t ldx, int64_t rows, int64_t cols, int64_t padded, float *out) {
    int64_t even = rows + rows % 2;
    for (int64_t k = 0; k < padded; k += DEPTH)
        for (int64_t r = 0; r < even; r++, out += STRIDE) {
            int64_t n = r < rows && k < cols ? least(DEPTH, cols - k) : 0;
            if (n) memcpy(out, x + r * ldx + k, (size_t)n * sizeof *x);
            memset(out + n, 0, (size_t)(STRIDE - n) * sizeof *x);
        }
}

static void few_tile_of(tw_dtype t, const few_args *a) {
    if (t == TW_F32) few_f32(a);
    if (t == TW_F16) few_f16(a);
    if (t == TW_BF16) few_bf16(a);
    if (t == TW_I8) few_i8(a);
    if (t == TW_I4) few_i4(a);
}

/* A product over columns `first` .. first + cols - 1, whose x has been copied. */
typedef struct few_product {
    tw_panel_format f;
    const char *panels;
    int64_t n_panels, rows, height, floats;
    size_t bytes, scales, start; /* of a panel; of its scales; of the columns before */
    const float *copy;
    float *y;
} few_product;

static void few_panels(const few_product *q, few_args *a, int64_t p) {
    /* Half a panel's rows further: by the bytes of a row in what is read at once. */
    const size_t half = LANES * (q->f.dtype == TW_F16 ? 2 : 4), half_scale = LANES * (q->f.dtype == TW_I8 ? 4 : 2);
    const char *panel = q->panels + (size_t)p * q->bytes, *next = p + 1 < q->n_panels ? panel + q->bytes : panel;
    a->data[0] = panel + q->scales + q->start;
    a->data[1] = TILE_PANELS == 2 ? next + q->scales + q->start : a->data[0] + half;
    a->scales[0] = panel;
    a->scales[1] = TILE_PANELS == 2 ? next : panel + half_scale;
    a->vectors = TILE_PANELS == 2 && next == panel ? 1 : 2;
    for (int64_t m = 0; m < q->rows; m += q->height) {
        a->rows = least(q->height, q->rows - m);
        a->x = q->copy + m / q->height * q->floats;
        a->y = q->y + m * a->ldy + p * ROWS;
        few_tile_of(q->f.dtype, a);
    }
}

static void few_rows(tw_panel_format f, const char *panels, int64_t n_panels, int64_t cols, const float *x, int64_t ldx,
                     int64_t rows, float *y, int64_t ldy, float *copy) {
    const int64_t padded = tw_panel_cols(f, cols);
    few_product q = {
        .f = f, .panels = panels, .n_panels = n_panels, .rows = rows, .height = few_height(rows), .copy = copy, .y = y};
    few_args a = {.group = f.group ? f.group : padded, .ldy = ldy};
    q.bytes = tw_panel_bytes(f, cols);
    q.scales = tw_panel_scale_bytes(f, cols);
    q.floats = few_floats(f, cols, q.height);
    for (int64_t k = 0; k < padded; k += SPAN) {
        a.first = k;
        a.cols = least(SPAN, padded - k);
        q.start = (size_t)(k * ROWS) * tw_dtype_bits(f.dtype) / 8;
        for (int64_t m = 0; m < rows; m += q.height)
            few_copy(x + m * ldx + k, ldx, least(q.height, rows - m), cols - k, a.cols, copy + m / q.height * q.floats);
        for (int64_t p = 0; p < n_panels; p += TILE_PANELS) few_panels(&q, &a, p);
    }
}

#endif
