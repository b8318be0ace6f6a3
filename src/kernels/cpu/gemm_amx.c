/* SPDX-License-Identifier: Apache-2.0 */
/* gemm on bf16, int8 and int4 weights with AMX, as exact as f32.

   A float's 24 bits are three bf16 of 8 bits each, split by truncation without any loss. Weights of int8 and int4 are
   exact in bf16. Three TDPBF16PS, which accumulate in f32, therefore do what an f32 multiply-add does, at five times
   its rate. (With bytes, TDPBSUD would need three passes as well, and a scale for every block of x.) Integer weights
   are unscaled in the tiles. At the end of each group the sums leave their tile and are scaled. Weights of f32 and f16
   have more than 8 bits, and are left to AVX-512. */
#include "kernels/cpu/variants.h"

#include "base/divide.h"

#include <immintrin.h>
#include <string.h>

enum {
    ROWS = TW_PANEL_ROWS,
    TERMS = 3,
    STEP = 32,        /* Columns of a tile product. */
    TILE = 1024,      /* Bytes of a tile: 16 rows of 64. */
    STEPS = 8,        /* Tile products of a block: 256 columns. 512 rows of x take 768 KiB. */
    BLOCK_TILES = 32, /* Tiles of 16 rows of x in a block. */
    FEWEST = 8        /* The fewest rows. With fewer, most of a tile is empty. */
};

typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_config;

/* gcc does not know that loading a tile or the configuration reads memory. After this call the memory has its
   contents. */
static inline void settle(const void *p) {
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* Configures all tiles at full size: 0 to 3 for sums (two tiles of rows x two panels), 4 and 5 for x, 6 and 7 for
   weights. */
static void configure(void) {
    tile_config c;
    memset(&c, 0, sizeof c);
    c.palette = 1;
    for (int i = 0; i < 8; i++) {
        c.bytes[i] = 64;
        c.rows[i] = 16;
    }
    settle(&c);
    _tile_loadconfig(&c);
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
/* Scratch memory: x as tiles [row tile][step][term], weights of two panels [panel][step], and sums that left their
   tiles. */
typedef struct room {
    char *x, *w;
    float *sums;
} room;

static size_t x_bytes(int64_t rows) {
    return (size_t)(least(tw_ceil_div(rows, ROWS), BLOCK_TILES) + 1) * STEPS * TERMS * TILE;
}

size_t tw_gemm_scratch_amx(tw_panel_format f, int64_t n_panels, int64_t cols, int64_t rows, tw_gemm_blocking by) {
    size_t own = x_bytes(rows) + 2 * STEPS * TILE + 4 * TILE,
           other = tw_gemm_scratch_avx512(f, n_panels, cols, rows, by);
    return own > other ? own : other;
}

/* Splits 16 floats into three bf16: the truncated float, its truncated rest, and the rest of that. NaN stays NaN. NaN
   and infinities have no rest. */
static inline void split(__m512 x, __m256i out[TERMS]) {
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000u);
    __mmask16 odd = _mm512_fpclass_ps_mask(x, 0x99), nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    __m512i high = _mm512_and_si512(_mm512_castps_si512(x), upper);
    __m512 rest = _mm512_mask_sub_ps(_mm512_setzero_ps(), (__mmask16)~odd, x, _mm512_castsi512_ps(high));
    __m512i middle = _mm512_and_si512(_mm512_castps_si512(rest), upper);
    __m512i low = _mm512_castps_si512(_mm512_sub_ps(rest, _mm512_castsi512_ps(middle)));
    high = _mm512_mask_mov_epi32(high, nan, _mm512_set1_epi32(0x7fc00000));
    out[0] = _mm512_cvtepi32_epi16(_mm512_srli_epi32(high, 16));
    out[1] = _mm512_cvtepi32_epi16(_mm512_srli_epi32(middle, 16));
    out[2] = _mm512_cvtepi32_epi16(_mm512_srli_epi32(low, 16));
}

static inline __mmask16 first(int64_t n) {
    return n >= 16 ? 0xffff : n > 0 ? (__mmask16)((1u << n) - 1) : 0;
}

/* Packs `depth` columns of `rows` rows of x as tiles. Missing rows and columns are zeros. */
static void pack_x(const float *x, int64_t ldx, int64_t rows, int64_t depth, char *out) {
    int64_t tiles = tw_ceil_div(rows, ROWS), steps = tw_ceil_div(depth, STEP);
    for (int64_t t = 0; t < tiles * ROWS; t++)
        for (int64_t s = 0; s < steps; s++) {
            char *to = out + (t / ROWS * STEPS + s) * TERMS * TILE + t % ROWS * 64;
            for (int half = 0; half < 2; half++) {
                int64_t c = s * STEP + half * 16;
                __m256i terms[TERMS];
                __mmask16 m = t < rows ? first(depth - c) : 0;
                split(_mm512_maskz_loadu_ps(m, x + (m ? t * ldx + c : 0)), terms);
                for (int i = 0; i < TERMS; i++)
                    _mm256_store_si256((__m256i *)(void *)(to + i * TILE + half * 32), terms[i]);
            }
        }
}

/* Converts two columns of integers to bf16, side by side. As f32 they have no bits below their upper halves. */
static inline __m512i pair(__m512i w, int shift0, int shift1, int mask, __m512 offset) {
    const __m512i field = _mm512_set1_epi32(mask);
    __m512i a = _mm512_and_si512(_mm512_srlv_epi32(w, _mm512_set1_epi32(shift0)), field);
    __m512i b = _mm512_and_si512(_mm512_srlv_epi32(w, _mm512_set1_epi32(shift1)), field);
    a = _mm512_castps_si512(_mm512_sub_ps(_mm512_cvtepi32_ps(a), offset));
    b = _mm512_castps_si512(_mm512_sub_ps(_mm512_cvtepi32_ps(b), offset));
    return _mm512_or_si512(_mm512_srli_epi32(a, 16), _mm512_and_si512(b, _mm512_set1_epi32((int)0xffff0000u)));
}

static void widen_i8(const char *data, int64_t n, char *out) {
    for (int64_t k = 0; k < n; k += 4, data += 64, out += 128) {
        __m512i w = _mm512_loadu_si512(data);
        _mm512_store_si512(out, pair(w, 0, 8, 255, _mm512_set1_ps(128)));
        _mm512_store_si512(out + 64, pair(w, 16, 24, 255, _mm512_set1_ps(128)));
    }
}

static void widen_i4(const char *data, int64_t n, char *out) {
    for (int64_t k = 0; k < n; k += 8, data += 64, out += 256) {
        __m512i w = _mm512_loadu_si512(data);
        for (int high = 0; high < 2; high++) {
            _mm512_store_si512(out + high * 128, pair(w, 4 * high, 8 + 4 * high, 15, _mm512_set1_ps(8)));
            _mm512_store_si512(out + high * 128 + 64, pair(w, 16 + 4 * high, 24 + 4 * high, 15, _mm512_set1_ps(8)));
        }
    }
}

/* Finds columns k to k + depth - 1 of a panel as tiles of weights, or makes them in `out`. The panel's last columns are
   padded with zeros, since another panel or nothing follows them. */
static const char *weights(tw_panel_format f, int64_t cols, const char *panel, int64_t k, int64_t depth, char *out) {
    const char *data = panel + tw_panel_scale_bytes(f, cols);
    int64_t n = (depth + TW_PANEL_K - 1) / TW_PANEL_K * TW_PANEL_K, whole = tw_ceil_div(depth, STEP) * STEP;
    if (f.dtype == TW_BF16 && n == whole) return data + k * 2 * ROWS;
    if (f.dtype == TW_BF16) memcpy(out, data + k * 2 * ROWS, (size_t)(n * 2 * ROWS));
    if (f.dtype == TW_I8) widen_i8(data + k * ROWS, n, out);
    if (f.dtype == TW_I4) widen_i4(data + k * ROWS / 2, n, out);
    memset(out + n * 2 * ROWS, 0, (size_t)((whole - n) * 2 * ROWS));
    return out;
}

/* Multiplies two tiles of rows by two panels over `steps` steps, and stores the sums as [row tile][panel]. */
static void multiply_four(const char *x, const char *w0, const char *w1, int64_t steps, float *sums) {
    const int64_t next = STEPS * TERMS * TILE; /* Bytes to the next tile of rows. */
    settle(x);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t s = 0; s < steps; s++, w0 += TILE, w1 += TILE) {
        _tile_loadd(6, w0, 64);
        _tile_loadd(7, w1, 64);
        for (int t = 0; t < TERMS; t++, x += TILE) {
            _tile_loadd(4, x, 64);
            _tile_loadd(5, x + next, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 256, 64);
    _tile_stored(2, sums + 512, 64);
    _tile_stored(3, sums + 768, 64);
}

static void multiply_two(const char *x, const char *w0, const char *w1, int64_t steps, float *sums) {
    settle(x);
    _tile_zero(0);
    _tile_zero(1);
    for (int64_t s = 0; s < steps; s++, w0 += TILE, w1 += TILE) {
        _tile_loadd(6, w0, 64);
        _tile_loadd(7, w1, 64);
        for (int t = 0; t < TERMS; t++, x += TILE) {
            _tile_loadd(4, x, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
        }
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 256, 64);
}

/* A product, and the block of it that is being computed. */
typedef struct block {
    tw_panel_format f;
    const char *panels;
    size_t panel_bytes;
    int64_t n_panels, cols, k, depth, rows, ldy;
    float *y;
    room r;
} block;

static __m512 scale_of(const block *b, int64_t p, int64_t k) {
    const char *panel = b->panels + (size_t)p * b->panel_bytes;
    int64_t g = b->f.group ? k / b->f.group : 0;
    if (b->f.dtype == TW_I8) return _mm512_loadu_ps(panel + g * ROWS * 4);
    if (b->f.dtype == TW_I4)
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(panel + g * ROWS * 2)));
    return _mm512_set1_ps(1);
}

/* Adds the sums of `tiles` tiles of rows, scaled, to y from row m and panel p on. `k` is their first column. */
static void add_sums(const block *b, int64_t m, int tiles, int64_t p, int64_t k) {
    int64_t rows = least(tiles * ROWS, b->rows - m);
    for (int64_t q = 0; q < 2 && p + q < b->n_panels; q++) {
        __m512 scale = scale_of(b, p + q, k);
        for (int64_t r = 0; r < rows; r++) {
            float *y = b->y + (m + r) * b->ldy + (p + q) * ROWS;
            __m512 s = _mm512_load_ps(b->r.sums + (r / ROWS * 2 + q) * 256 + r % ROWS * ROWS);
            __m512 was = k ? _mm512_loadu_ps(y) : _mm512_setzero_ps();
            _mm512_storeu_ps(y, _mm512_fmadd_ps(s, scale, was));
        }
    }
}

/* Returns how many columns of a block share a scale. After them the sums leave the tiles. */
static int64_t segment(const block *b) {
    return b->f.group && b->f.group < STEPS * STEP ? b->f.group : STEPS * STEP;
}

static void two_panels(const block *b, int64_t p) {
    const char *panel = b->panels + (size_t)p * b->panel_bytes;
    int64_t tiles = tw_ceil_div(b->rows, ROWS), size = segment(b);
    const char *w0 = weights(b->f, b->cols, panel, b->k, b->depth, b->r.w), *w1 = w0;
    if (p + 1 < b->n_panels) w1 = weights(b->f, b->cols, panel + b->panel_bytes, b->k, b->depth, b->r.w + STEPS * TILE);
    for (int64_t t = 0; t < tiles; t += 2)
        for (int64_t c = 0; c < b->depth; c += size) {
            int64_t step = c / STEP, steps = tw_ceil_div(least(size, b->depth - c), STEP);
            const char *x = b->r.x + (t * STEPS + step) * TERMS * TILE;
            if (t + 1 < tiles)
                multiply_four(x, w0 + step * TILE, w1 + step * TILE, steps, b->r.sums);
            else
                multiply_two(x, w0 + step * TILE, w1 + step * TILE, steps, b->r.sums);
            add_sums(b, t * ROWS, t + 1 < tiles ? 2 : 1, p, b->k + c);
        }
}

void tw_gemm_amx(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const float *x, int64_t ldx,
                 int64_t rows, float *y, int64_t ldy, tw_gemm_blocking by, const tw_gemm_sink *sink, void *scratch) {
    if (rows < FEWEST) {
        tw_gemm_avx512(f, panels, n_panels, cols, x, ldx, rows, y, ldy, by, sink, scratch);
        return;
    }
    char *at = scratch;
    block b = {.f = f,
               .panels = panels,
               .panel_bytes = tw_panel_bytes(f, cols),
               .n_panels = n_panels,
               .cols = cols,
               .ldy = ldy};
    b.r = (room){at, at + x_bytes(rows), (float *)(void *)(at + x_bytes(rows) + 2 * STEPS * TILE)};
    configure();
    for (int64_t m = 0; m < rows; m += BLOCK_TILES * ROWS) {
        b.rows = least(BLOCK_TILES * ROWS, rows - m);
        b.y = y + m * ldy;
        for (int64_t k = 0; k < cols; k += STEPS * STEP) {
            b.k = k;
            b.depth = least(STEPS * STEP, cols - k);
            pack_x(x + m * ldx + k, ldx, b.rows, b.depth, b.r.x);
            for (int64_t p = 0; p < n_panels; p += 2) two_panels(&b, p);
        }
        if (sink) sink->take(sink->context, m, b.rows, 0, n_panels * ROWS);
    }
    /* Without this the tiles' state would be saved at every switch of threads. */
    _tile_release();
}
