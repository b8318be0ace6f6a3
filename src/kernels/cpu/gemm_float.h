/* SPDX-License-Identifier: Apache-2.0 */
/* Template: gemm in float on every format, compiled once for each vector_*.h included before it.

   Panels are read two at a time (one with AVX2), in the order in which they lie, `span` columns of them: those and some
   tiles of x stay in the second-level cache while they meet, a block of panels in the third-level one. Weights are
   widened in registers on their way to a tile. Integers cost several operations to widen; for many rows they are
   widened to memory first, a block of panels at a time. */
#include "base/divide.h"
#include "kernels/cpu/tile_vector.h"
#include "kernels/cpu/variants.h"

#include <string.h>

enum {
    ROWS = TW_PANEL_ROWS,
    SPLIT = ROWS / LANES,
    TILE_PANELS = TILE_COLS / ROWS,
    BLOCK_PANELS = TW_SINK_COLS / ROWS, /* 2 MiB of bf16 */
    DEPTH = 256,
    /* Rows of the copied x, a cache line over DEPTH: rows a multiple of 4 KiB apart would share a set. */
    STRIDE = DEPTH + 16,
    AHEAD = 8192,             /* bytes of each panel: twice a memory's latency at its full rate */
    MANY_ROWS = 6 * TILE_ROWS /* above, widening integers once for all tiles is the faster way */
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Default blocks: 256 KiB of floats for two panels, 384 KiB of x. */
static tw_gemm_blocking usual(tw_gemm_blocking by) {
    return (tw_gemm_blocking){by.span ? by.span : 2048, by.rows ? by.rows : 48};
}

/* Tiles of nearly equal height, and that even, which halves the number of tiles that are compiled. */
static int64_t tile_height(int64_t rows) {
    int64_t tiles = tw_ceil_div(rows, TILE_ROWS), height = tw_ceil_div(rows, tiles);
    return height + height % 2;
}

/* Floats of one copied tile of rows. */
static int64_t copy_floats(tw_panel_format f, int64_t cols, int64_t height, tw_gemm_blocking by) {
    return height * tw_ceil_div(least(tw_panel_cols(f, cols), by.span), DEPTH) * STRIDE;
}

/* Whether integers are widened to memory, and the floats that a block of them takes. */
static bool is_widened(tw_panel_format f, int64_t rows) {
    return rows > MANY_ROWS && (f.dtype == TW_I8 || f.dtype == TW_I4);
}
static int64_t wide_floats(tw_panel_format f, int64_t cols, int64_t rows, tw_gemm_blocking by) {
    return is_widened(f, rows) ? BLOCK_PANELS * ROWS * least(tw_panel_cols(f, cols), by.span) : 0;
}

size_t VARIANT(tw_gemm_scratch)(tw_panel_format f, int64_t n_panels, int64_t cols, int64_t rows, tw_gemm_blocking by) {
    (void)n_panels;
    if (rows < 1) return 0;
    by = usual(by);
    int64_t height = tile_height(rows), tiles = tw_ceil_div(rows, height);
    return (size_t)(tiles * copy_floats(f, cols, height, by) + wide_floats(f, cols, rows, by)) * sizeof(float);
}

/* (u - offset) scale in one rounding: offset is a power of two, so offset times scale is exact. */
static inline vf descale(vi bits, int shift, int mask, vf scale, vf less) {
    return v_fma(v_field(bits, shift, mask), scale, less);
}

/* Column c of the eight at `data`. */
static inline __attribute__((always_inline)) vf column(tw_dtype t, const char *data, int c, vf scale, vf less) {
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
typedef struct tile {
    const char *data[2], *scales[2];
    int64_t first, cols, group, ldy, rows;
    const float *x;
    float *y;
    int vectors;
} tile;

static inline __attribute__((always_inline)) void tile_scales(tw_dtype t, const tile *a, int64_t k, vf scale[2],
                                                              vf less[2]) {
    int64_t at = (a->first + k) / a->group * ROWS;
    TW_UNROLL for (int v = 0; v < 2; v++) {
        scale[v] =
            t == TW_I8 ? v_load((const float *)(const void *)a->scales[v] + at) : v_load_f16(a->scales[v] + 2 * at);
        less[v] = v_mul(scale[v], v_set(t == TW_I8 ? -128 : -8));
    }
}

/* Into y, or onto what earlier columns left there. */
static inline __attribute__((always_inline)) void tile_store(int rows, const tile *a, vf acc[TILE_ROWS][2]) {
    /* Copies, since what is stored to y might otherwise be `a` itself. */
    float *y = a->y;
    const int64_t ldy = a->ldy, wanted = a->rows;
    const int vectors = a->vectors;
    const bool add = a->first > 0;
    if (wanted == rows && vectors == 2) {
        TW_UNROLL for (int r = 0; r < rows; r++, y += ldy) {
            v_store(y, add ? v_add(v_load(y), acc[r][0]) : acc[r][0]);
            v_store(y + LANES, add ? v_add(v_load(y + LANES), acc[r][1]) : acc[r][1]);
        }
        return;
    }
    TW_UNROLL for (int r = 0; r < rows; r++, y += ldy) {
        TW_UNROLL for (int v = 0; v < 2; v++) if (r < wanted && v < vectors)
            v_store(y + v * LANES, add ? v_add(v_load(y + v * LANES), acc[r][v]) : acc[r][v]);
    }
}

static inline __attribute__((always_inline)) void tile_run(tw_dtype t, int rows, const tile *a) {
    const bool integers = t == TW_I8 || t == TW_I4;
    const int64_t step = (int64_t)(t == TW_F32 ? 64 : t == TW_I8 ? 16 : t == TW_I4 ? 8 : 32) * TW_PANEL_K;
    vf acc[TILE_ROWS][2], scale[2], less[2];
    TW_UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = v_zero();
    /* y comes from far: asked for now, needed when the columns are done. */
    TW_UNROLL for (int r = 0; r < rows; r++) {
        const float *y = a->y + (r < a->rows ? r : 0) * a->ldy;
        _mm_prefetch((const char *)y, _MM_HINT_T0);
        _mm_prefetch((const char *)(y + TILE_COLS - 1), _MM_HINT_T0);
    }
    scale[0] = scale[1] = less[0] = less[1] = v_zero();
    for (int64_t k = 0, at = 0; k < a->cols; k += TW_PANEL_K, at += step) {
        const float *x = a->x + k / DEPTH * rows * STRIDE + k % DEPTH;
        if (integers && (k == 0 || k % a->group == 0)) tile_scales(t, a, k, scale, less);
        TW_UNROLL for (int64_t b = 0; b < step; b += 64) {
            _mm_prefetch(a->data[0] + at + AHEAD + b, _MM_HINT_T0);
            if (TILE_PANELS == 2) _mm_prefetch(a->data[1] + at + AHEAD + b, _MM_HINT_T0);
        }
        TW_UNROLL for (int c = 0; c < TW_PANEL_K; c++) {
            vf w0 = column(t, a->data[0] + at, c, scale[0], less[0]),
               w1 = column(t, a->data[1] + at, c, scale[1], less[1]);
            TW_UNROLL for (int r = 0; r < rows; r++) {
                vf s = v_set(x[r * STRIDE + c]);
                acc[r][0] = v_fma(s, w0, acc[r][0]);
                acc[r][1] = v_fma(s, w1, acc[r][1]);
            }
        }
    }
    tile_store(rows, a, acc);
}

static inline __attribute__((always_inline)) void tile_any(tw_dtype t, const tile *a) {
    switch ((a->rows + 1) / 2) {
    case 1:
        tile_run(t, 2, a);
        break;
    case 2:
        tile_run(t, 4, a);
        break;
    case 3:
        tile_run(t, 6, a);
        break;
#if TW_TILE_ROWS == 12
    case 4:
        tile_run(t, 8, a);
        break;
    case 5:
        tile_run(t, 10, a);
        break;
    default:
        tile_run(t, 12, a);
        break;
#endif
    }
}

/* Not inlined: each is all tiles of one format. */
static __attribute__((noinline)) void tiles_f32(const tile *a) {
    tile_any(TW_F32, a);
}
static __attribute__((noinline)) void tiles_f16(const tile *a) {
    tile_any(TW_F16, a);
}
static __attribute__((noinline)) void tiles_bf16(const tile *a) {
    tile_any(TW_BF16, a);
}
static __attribute__((noinline)) void tiles_i8(const tile *a) {
    tile_any(TW_I8, a);
}
static __attribute__((noinline)) void tiles_i4(const tile *a) {
    tile_any(TW_I4, a);
}

static void tile_of(tw_dtype t, const tile *a) {
    if (t == TW_F32) tiles_f32(a);
    if (t == TW_F16) tiles_f16(a);
    if (t == TW_BF16) tiles_bf16(a);
    if (t == TW_I8) tiles_i8(a);
    if (t == TW_I4) tiles_i4(a);
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

/* A tile of x as [DEPTH columns][row][STRIDE], with a row more where their number is odd, and zeros up to the padded
   columns. */
static void copy_tile(const float *x, int64_t ldx, int64_t rows, int64_t cols, int64_t padded, float *out) {
    int64_t even = rows + rows % 2;
    for (int64_t k = 0; k < padded; k += DEPTH)
        for (int64_t r = 0; r < even; r++, out += STRIDE) {
            int64_t n = r < rows && k < cols ? least(DEPTH, cols - k) : 0;
            if (n) memcpy(out, x + r * ldx + k, (size_t)n * sizeof *x);
            memset(out + n, 0, (size_t)(STRIDE - n) * sizeof *x);
        }
}

/* A product over columns first .. first + cols - 1, whose x has been copied. */
typedef struct product {
    tw_panel_format f;
    const char *panels;
    int64_t n_panels, all_cols, rows, height, floats;
    tw_gemm_blocking by;
    const float *copy;
    float *wide, *y;
} product;

/* Where the weights of panel p lie as `a` wants them: widened, or in the panels themselves. */
static tw_dtype find_weights(const product *q, tile *a, int64_t p) {
    const size_t bytes = tw_panel_bytes(q->f, q->all_cols), scales = tw_panel_scale_bytes(q->f, q->all_cols);
    const char *panel = q->panels + (size_t)p * bytes, *next = p + 1 < q->n_panels ? panel + bytes : panel;
    /* Half a panel's rows further: by the bytes of a row in what is read at once. */
    const size_t half = LANES * (q->f.dtype == TW_F16 ? 2 : 4), half_scale = LANES * (q->f.dtype == TW_I8 ? 4 : 2);
    a->vectors = TILE_PANELS == 2 && next == panel ? 1 : 2;
    if (is_widened(q->f, q->rows)) {
        const float *w = q->wide + p % BLOCK_PANELS * ROWS * a->cols, *half_further = w + LANES;
        a->data[0] = (const char *)w;
        a->data[1] = (const char *)(TILE_PANELS == 1 ? half_further : next == panel ? w : w + ROWS * a->cols);
        return TW_F32;
    }
    const size_t start = scales + (size_t)(a->first * ROWS) * tw_dtype_bits(q->f.dtype) / 8;
    a->data[0] = panel + start;
    a->data[1] = TILE_PANELS == 2 ? next + start : a->data[0] + half;
    a->scales[0] = panel;
    a->scales[1] = TILE_PANELS == 2 ? next : panel + half_scale;
    return q->f.dtype;
}

/* Rows from .. to - 1 of one or two panels. */
static void some_rows(const product *q, tile *a, int64_t p, int64_t from, int64_t to) {
    tw_dtype t = find_weights(q, a, p);
    for (int64_t m = from; m < to; m += q->height) {
        a->rows = least(q->height, q->rows - m);
        a->x = q->copy + m / q->height * q->floats;
        a->y = q->y + m * a->ldy + p * ROWS;
        tile_of(t, a);
    }
}

/* All rows of a block of panels, a few tiles of them at a time. */
static void one_block(const product *q, tile *a, int64_t p, int64_t panels, const tw_gemm_sink *sink) {
    const int64_t step = q->by.rows / q->height * q->height;
    const size_t bytes = tw_panel_bytes(q->f, q->all_cols);
    for (int64_t i = p; i < p + panels && is_widened(q->f, q->rows); i++)
        widen(q->f, q->all_cols, q->panels + (size_t)i * bytes, a->first, a->cols, q->wide + (i - p) * ROWS * a->cols);
    for (int64_t m = 0; m < q->rows; m += step) {
        int64_t to = least(m + step, q->rows);
        for (int64_t i = 0; i < panels; i += TILE_PANELS) some_rows(q, a, p + i, m, to);
        if (sink) sink->take(sink->context, m, to - m, p * ROWS, panels * ROWS);
    }
}

void VARIANT(tw_gemm)(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const float *x,
                      int64_t ldx, int64_t rows, float *y, int64_t ldy, tw_gemm_blocking by, const tw_gemm_sink *sink,
                      void *scratch) {
    if (rows < 1) return;
    by = usual(by);
    const int64_t padded = tw_panel_cols(f, cols), height = tile_height(rows);
    float *wide = scratch, *copy = wide + wide_floats(f, cols, rows, by);
    product q = {
        .f = f, .panels = panels, .n_panels = n_panels, .all_cols = cols, .rows = rows, .height = height, .by = by};
    tile a = {.group = f.group ? f.group : padded, .ldy = ldy};
    q.copy = copy;
    q.wide = wide;
    q.y = y;
    q.floats = copy_floats(f, cols, height, by);
    for (int64_t k = 0; k < padded; k += by.span) {
        a.first = k;
        a.cols = least(by.span, padded - k);
        for (int64_t m = 0; m < rows; m += height)
            copy_tile(x + m * ldx + k, ldx, least(height, rows - m), cols - k, a.cols, copy + m / height * q.floats);
        for (int64_t p = 0; p < n_panels; p += BLOCK_PANELS)
            one_block(&q, &a, p, least(BLOCK_PANELS, n_panels - p), k + by.span < padded ? NULL : sink);
    }
}
