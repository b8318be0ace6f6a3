/* SPDX-License-Identifier: Apache-2.0 */
/* gemm on bf16, int8 and int4 weights with AMX.

   x is laid out once as tiles (pack_amx.c): of bf16 terms, or of bytes. Each TDPBF16PS takes one term of x, and sums
   are f32. Weights of int8 and int4 are exact in bf16. TDPBSSD takes bytes of x and integer weights as bytes, and sums
   are integers. Integer weights are unscaled in the tiles: sums leave their tile and are scaled at the end of each
   group, and with bytes of x at the end of each of its blocks. Weights of f32 have a kernel of their own
   (split_amx.c), and those of f16, which have more than 8 bits, are left to AVX-512. */
#include "kernels/cpu/amx.h"

#include <string.h>

enum {
    ROWS = TW_PANEL_ROWS,
    TILE = TW_AMX_TILE,
    BLOCK_PANELS = TW_SINK_COLS / ROWS,
    BLOCK_STEPS = 16, /* Steps of a block of weights. With all panels it takes 512 KiB of the second-level cache. */
    /* From so many rows on, weights of bf16 are copied, since panels a power of two apart share sets of the cache. */
    COPIED_ROWS = 96,
    NEAR_TILES = 32, /* Tiles of x that meet all panels of a block while they lie in the first-level cache. */
};

/* Scratch memory: a block of weights [panel][step], and sums [row][32] that left their tiles. */
typedef struct room {
    char *w;
    float *sums;
} room;

enum { WEIGHT_BYTES = BLOCK_PANELS * BLOCK_STEPS * TILE, SUM_BYTES = 4 * TILE };

size_t tw_gemm_packed_scratch_amx(tw_panel_format f) {
    return f.dtype == TW_F32 ? tw_split_amx.floats_scratch_bytes : WEIGHT_BYTES + SUM_BYTES;
}

size_t tw_gemm_scratch_amx(tw_panel_format f, int64_t n_panels, int64_t cols, int64_t rows, tw_gemm_blocking by) {
    size_t own = tw_gemm_packed_scratch_amx(f) + tw_gemm_pack_bytes_amx(f, rows, cols, TW_AMX_TERMS),
           other = tw_gemm_scratch_avx512(f, n_panels, cols, rows, by);
    return own > other ? own : other;
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

/* Converts int8 to signed bytes. */
static void shift_i8(const char *data, int64_t n, char *out) {
    const __m512i top = _mm512_set1_epi8((char)0x80);
    for (int64_t k = 0; k < n; k += 4, data += 64, out += 64)
        _mm512_store_si512(out, _mm512_xor_si512(_mm512_loadu_si512(data), top));
}

/* Converts int4 to signed bytes. */
static void shift_i4(const char *data, int64_t n, char *out) {
    const __m512i nibble = _mm512_set1_epi8(15), offset = _mm512_set1_epi8(8);
    for (int64_t k = 0; k < n; k += 8, data += 64, out += 128) {
        const __m512i w = _mm512_loadu_si512(data);
        _mm512_store_si512(out, _mm512_sub_epi8(_mm512_and_si512(w, nibble), offset));
        _mm512_store_si512(out + 64, _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(w, 4), nibble), offset));
    }
}

/* Sums that left their tiles, of rows by panels, and where they go. */
typedef struct leaving {
    const float *sums;
    float *y;
    int64_t rows, panels;
    const char *x;   /* Scales of bytes of the first 16 rows. */
    __m512 scale[2]; /* Those of each panel's weights. */
    bool first;      /* They are the first that y has. */
    bool last;       /* They are the last that y has. */
} leaving;

/* A product, and the block of it that is being computed. */
typedef struct block {
    tw_panel_format f;
    const char *panels;
    const char *x;    /* The product's packed rows. */
    int64_t x_stride; /* Bytes from 16 rows of x to the next. */
    int64_t cols, rows, ldy;
    int64_t panel, count; /* The block's first panel, and its number of panels. */
    int64_t k, steps;     /* The block's first column, and its steps. */
    int64_t depth;        /* Columns of the block that the product has. */
    size_t panel_bytes;
    float *y;                    /* The product's rows. */
    int terms;                   /* Terms of bf16 that an element of x has. TW_PACK_BYTES: elements of x are bytes. */
    int tiles;                   /* Tiles of x in a step. */
    int64_t step;                /* Columns in a step. */
    int64_t scales;              /* Bytes from 16 packed rows to their scales. */
    const char *w[BLOCK_PANELS]; /* Tiles of weights of each panel. */
    room r;
    leaving left; /* What the last corner left. No rows: nothing. */
} block;

static const char *panel_data(const block *b, int64_t p) {
    return b->panels + (size_t)p * b->panel_bytes + tw_panel_scale_bytes(b->f, b->cols);
}

/* Bytes of a panel's column on the tape. */
static int64_t column_bytes(tw_panel_format f) {
    return f.dtype == TW_BF16 ? 2 * ROWS : f.dtype == TW_I8 ? ROWS : ROWS / 2;
}

/* Makes tiles of bytes of `n` columns. A step of fewer columns than a tile has leaves zeros. */
static void make_bytes(const block *b, const char *data, int64_t n, char *out) {
    for (int64_t k = 0; k < n; k += b->step, out += TILE) {
        const int64_t count = n - k < b->step ? n - k : b->step;
        if (b->f.dtype == TW_I8) shift_i8(data + k * ROWS, count, out);
        if (b->f.dtype == TW_I4) shift_i4(data + k * ROWS / 2, count, out);
        if (count * ROWS < TILE) memset(out + count * ROWS, 0, (size_t)(TILE - count * ROWS));
    }
}

/* Finds the block's columns of a panel as tiles of weights, or makes them in `out`. The panel's last columns are padded
   with zeros, since another panel or nothing follows them. */
static const char *weights(const block *b, int64_t p, char *out) {
    const char *data = panel_data(b, p) + b->k * column_bytes(b->f);
    const int64_t n = tw_ceil_div(b->depth, TW_PANEL_K) * TW_PANEL_K, whole = b->steps * b->step;
    if (b->terms == TW_PACK_BYTES) {
        make_bytes(b, data, n, out);
        return out;
    }
    if (b->f.dtype == TW_BF16 && n == whole && b->rows < COPIED_ROWS) return data;
    if (b->f.dtype == TW_BF16) memcpy(out, data, (size_t)(n * 2 * ROWS));
    if (b->f.dtype == TW_I8) widen_i8(data, n, out);
    if (b->f.dtype == TW_I4) widen_i4(data, n, out);
    memset(out + n * 2 * ROWS, 0, (size_t)((whole - n) * 2 * ROWS));
    return out;
}

/* Where the sums of tiles 0 to 3 begin, and end. `from` may be NULL: with zeros. Rows are `stride` bytes apart. */
typedef struct corner {
    const char *from;
    char *to;
    int64_t stride, next_rows; /* Bytes from a row to the next, and to the sums of the next 16 rows. */
} corner;

/* Adds a tile's product. `bytes` is a constant where this is used. */
#define ADD_PRODUCT(sums, x, w)                                                                                        \
    do {                                                                                                               \
        if (bytes)                                                                                                     \
            _tile_dpbssd(sums, x, w);                                                                                  \
        else                                                                                                           \
            _tile_dpbf16ps(sums, x, w);                                                                                \
    } while (0)

/* Asks for the q-th quarters of the tiles that follow two. Either may be NULL. */
static inline __attribute__((always_inline)) void ask_behind(const char *a, const char *b, int q) {
    for (int i = TILE + q * TILE / 4; i < TILE + (q + 1) * TILE / 4; i += 64) {
        if (a) _mm_prefetch(a + i, _MM_HINT_T0);
        if (b) _mm_prefetch(b + i, _MM_HINT_T0);
    }
}

/* Adds the products of tiles 4 and 5 with tiles 6 and 7, and meanwhile asks for what follows the weights `a` and `b`:
   it is in the second-level cache, and tiles that are loaded from there hold the unit up. Beside sums of bytes, which
   soon leave their tiles, asking did not pay. */
static inline __attribute__((always_inline)) void add_four(const char *a, const char *b, bool bytes) {
    ADD_PRODUCT(0, 4, 6);
    ask_behind(a, b, 0);
    ADD_PRODUCT(1, 4, 7);
    ask_behind(a, b, 1);
    ADD_PRODUCT(2, 5, 6);
    ask_behind(a, b, 2);
    ADD_PRODUCT(3, 5, 7);
    ask_behind(a, b, 3);
}

static inline void begin_four(const corner *c) {
    if (c->from) {
        _tile_loadd(0, c->from, c->stride);
        _tile_loadd(1, c->from + 64, c->stride);
        _tile_loadd(2, c->from + c->next_rows, c->stride);
        _tile_loadd(3, c->from + c->next_rows + 64, c->stride);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
}

/* Multiplies two tiles of rows by two panels over `steps` steps. */
static inline __attribute__((always_inline)) void multiply_four(const char *x, int64_t next, const char *w0,
                                                                const char *w1, int64_t steps, int tiles, bool bytes,
                                                                const corner *c) {
    tw_amx_settle(x);
    begin_four(c);
    for (int64_t s = 0; s < steps; s++, w0 += TILE, w1 += TILE) {
        _tile_loadd(6, w0, 64);
        _tile_loadd(4, x, 64);
        _tile_loadd(7, w1, 64);
        _tile_loadd(5, x + next, 64);
        x += TILE;
        add_four(bytes ? NULL : w0, bytes || tiles > 1 ? NULL : w1, bytes);
        for (int t = 1; t < tiles; t++, x += TILE) {
            _tile_loadd(4, x, 64);
            _tile_loadd(5, x + next, 64);
            add_four(NULL, w1, bytes);
        }
    }
}

/* Multiplies one tile of rows by two panels. */
static inline __attribute__((always_inline)) void multiply_two(const char *x, const char *w0, const char *w1,
                                                               int64_t steps, int tiles, bool bytes, const corner *c) {
    tw_amx_settle(x);
    if (c->from) {
        _tile_loadd(0, c->from, c->stride);
        _tile_loadd(1, c->from + 64, c->stride);
    } else {
        _tile_zero(0);
        _tile_zero(1);
    }
    for (int64_t s = 0; s < steps; s++, w0 += TILE, w1 += TILE) {
        _tile_loadd(6, w0, 64);
        _tile_loadd(7, w1, 64);
        for (int t = 0; t < tiles; t++, x += TILE) {
            _tile_loadd(4, x, 64);
            ADD_PRODUCT(0, 4, 6);
            ADD_PRODUCT(1, 4, 7);
        }
    }
}

static inline void end_tiles(const corner *c, bool four) {
    _tile_stored(0, c->to, c->stride);
    _tile_stored(1, c->to + 64, c->stride);
    if (!four) return;
    _tile_stored(2, c->to + c->next_rows, c->stride);
    _tile_stored(3, c->to + c->next_rows + 64, c->stride);
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static __m512 scale_of(const block *b, int64_t p, int64_t k) {
    const char *panel = b->panels + (size_t)p * b->panel_bytes;
    int64_t g = b->f.group ? k / b->f.group : 0;
    if (b->f.dtype == TW_I8) return _mm512_loadu_ps(panel + g * ROWS * 4);
    if (b->f.dtype == TW_I4)
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(panel + g * ROWS * 2)));
    return _mm512_set1_ps(1);
}

/* How sums that left their tiles are scaled. */
typedef enum scaling {
    BY_WEIGHTS, /* Floats, by their weights' scale. */
    BY_BOTH,    /* Integers, by their weights' scale and that of their block of x. */
    BY_X,       /* Integers, by that of their block of x. Weights have one scale, by which y is scaled in the end. */
} scaling;

/* Adds the sums of a row and a panel to y. The first ones replace y. All but `sums`, `x`, `w` and `y` are constants
   where this is used. */
static inline __attribute__((always_inline)) void add_row(const float *sums, scaling how, bool first, bool last,
                                                          __m512 x, __m512 w, float *y) {
    __m512 a = _mm512_load_ps(sums);
    if (how != BY_WEIGHTS) a = _mm512_cvtepi32_ps(_mm512_castps_si512(a));
    const __m512 by = how == BY_WEIGHTS ? w : how == BY_X ? x : _mm512_mul_ps(x, w);
    a = first ? _mm512_mul_ps(a, by) : _mm512_fmadd_ps(a, by, _mm512_loadu_ps(y));
    _mm512_storeu_ps(y, how == BY_X && last ? _mm512_mul_ps(a, w) : a);
}

/* The same of up to 16 rows and of two panels, or of one. */
static inline __attribute__((always_inline)) void add_rows(const leaving *l, int64_t m, int64_t rows, int panels,
                                                           scaling how, bool first, bool last, const float *x,
                                                           int64_t ldy) {
    const float *sums = l->sums + m * 32;
    const __m512 w0 = l->scale[0], w1 = l->scale[1];
    float *y = l->y + m * ldy;
    for (int64_t r = 0; r < rows; r++, y += ldy, sums += 32) {
        const __m512 by = how == BY_WEIGHTS ? w0 : _mm512_set1_ps(x[r]);
        add_row(sums, how, first, last, by, w0, y);
        if (panels > 1) add_row(sums + 16, how, first, last, by, w1, y + 16);
    }
}

/* The same of all rows. Whole tiles in the middle of a product are most of the work. `next`: bytes from the scales of
   16 rows of x to those of the next. */
static inline __attribute__((always_inline)) void add_all(const leaving *l, scaling how, int64_t ldy, int64_t next) {
    tw_amx_settle(l->sums);
    for (int64_t m = 0; m < l->rows; m += ROWS) {
        const float *x = (const float *)(const void *)(l->x + m / ROWS * next);
        const int64_t rows = least(ROWS, l->rows - m);
        if (rows == ROWS && l->panels > 1 && !l->first && !l->last)
            add_rows(l, m, ROWS, 2, how, false, false, x, ldy);
        else if (l->panels > 1)
            add_rows(l, m, rows, 2, how, l->first, l->last, x, ldy);
        else
            add_rows(l, m, rows, 1, how, l->first, l->last, x, ldy);
    }
}

static void add_left(block *b) {
    leaving *l = &b->left;
    if (l->rows && b->terms != TW_PACK_BYTES)
        add_all(l, BY_WEIGHTS, b->ldy, 0);
    else if (l->rows && b->f.group)
        add_all(l, BY_BOTH, b->ldy, b->x_stride);
    else if (l->rows)
        add_all(l, BY_X, b->ldy, b->x_stride);
    l->rows = 0;
}

/* Multiplies steps `s` to `s + steps - 1` of the block, of two tiles of rows by two panels, or of what is left of them.
   Sums that leave the tiles are added to y by the next call, since what tiles have stored cannot be loaded at once. */
static void corner_of(block *b, int64_t m, int64_t p, int64_t s, int64_t steps) {
    const bool four = m + ROWS < b->rows, first = !b->k && !s, bytes = b->terms == TW_PACK_BYTES;
    const int64_t rows = least(four ? 2 * ROWS : ROWS, b->rows - m), panels = least(2, b->count - p);
    const int64_t k = b->k + s * b->step, q = b->panel + p;
    const char *group = b->x + m / ROWS * b->x_stride, *x = group + k / b->step * b->tiles * TILE;
    const char *w0 = b->w[p] + s * TILE, *w1 = b->w[p + panels - 1] + s * TILE;
    float *y = b->y + m * b->ldy + q * ROWS;
    corner c = {.to = (char *)b->r.sums, .stride = 128, .next_rows = 128 * ROWS};
    const bool direct = b->f.dtype == TW_BF16 && rows % ROWS == 0 && panels == 2;
    if (direct) {
        c = (corner){.to = (char *)y, .stride = b->ldy * 4, .next_rows = b->ldy * 4 * ROWS};
        c.from = first ? NULL : c.to;
    }
    if (four && bytes)
        multiply_four(x, b->x_stride, w0, w1, steps, 1, true, &c);
    else if (four)
        multiply_four(x, b->x_stride, w0, w1, steps, b->tiles, false, &c);
    else if (bytes)
        multiply_two(x, w0, w1, steps, 1, true, &c);
    else
        multiply_two(x, w0, w1, steps, b->tiles, false, &c);
    add_left(b);
    end_tiles(&c, four);
    if (direct) return;
    b->left = (leaving){.sums = b->r.sums, .y = y, .rows = rows, .panels = panels, .first = first};
    b->left.last = k + steps * b->step >= b->cols;
    b->left.scale[0] = scale_of(b, q, k);
    b->left.scale[1] = scale_of(b, q + panels - 1, k);
    b->left.x = group + b->scales + k / tw_byte_block(b->f) * ROWS * 4;
}

/* Asks for a part of the block's columns that follow: of panel p, as much as row m of all rows is. */
static void ask(const block *b, int64_t p, int64_t m, int64_t rows) {
    const int64_t column = column_bytes(b->f);
    const int64_t bytes = least(BLOCK_STEPS * b->step, b->cols - b->k - b->depth) * column;
    const char *next = panel_data(b, b->panel + p) + (b->k + b->depth) * column;
    for (int64_t i = bytes * m / b->rows / 64 * 64; i < bytes * (m + rows) / b->rows; i += 64)
        _mm_prefetch(next + i, _MM_HINT_T1);
}

/* Steps after which sums leave their tiles. `near`: at most. */
static int64_t stay(const block *b, int64_t near) {
    const int64_t columns = b->terms == TW_PACK_BYTES ? tw_byte_block(b->f) : b->f.group;
    return columns ? least(columns / b->step, near) : near;
}

/* All rows by the panels of the block. */
static void one_block(block *b, const tw_gemm_sink *sink) {
    const int64_t near = NEAR_TILES / 2 / b->tiles, size = stay(b, near);
    for (int64_t p = 0; p < b->count; p++) b->w[p] = weights(b, b->panel + p, b->r.w + p * BLOCK_STEPS * TILE);
    for (int64_t m = 0; m < b->rows; m += 2 * ROWS) {
        const int64_t rows = least(2 * ROWS, b->rows - m);
        for (int64_t s = 0; s < b->steps; s += near)
            for (int64_t p = 0; p < b->count; p += 2)
                for (int64_t t = s; t < least(s + near, b->steps); t += size)
                    corner_of(b, m, p, t, least(size, b->steps - t));
        add_left(b);
        for (int64_t p = 0; p < b->count; p++) ask(b, p, m, rows);
        if (sink) sink->take(sink->context, m, rows, b->panel * ROWS, b->count * ROWS);
    }
}

void tw_gemm_packed_amx(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const void *x,
                        int64_t rows, int terms, float *y, int64_t ldy, const tw_gemm_sink *sink, void *scratch) {
    const int64_t step = tw_amx_step(f, terms), span = BLOCK_STEPS * step;
    char *at = scratch;
    block b = {.f = f,
               .panels = panels,
               .x = x,
               .x_stride = (int64_t)tw_gemm_pack_bytes_amx(f, ROWS, cols, terms),
               .cols = cols,
               .rows = rows,
               .ldy = ldy,
               .panel_bytes = tw_panel_bytes(f, cols),
               .y = y,
               .terms = terms,
               .tiles = terms == TW_PACK_BYTES ? 1 : terms,
               .step = step};
    b.scales = tw_ceil_div(cols, step) * TILE;
    b.r = (room){at, (float *)(void *)(at + WEIGHT_BYTES)};
    tw_amx_configure();
    for (b.panel = 0; b.panel < n_panels; b.panel += BLOCK_PANELS) {
        b.count = least(BLOCK_PANELS, n_panels - b.panel);
        for (b.k = 0; b.k < cols; b.k += span) {
            b.depth = least(span, cols - b.k);
            b.steps = tw_ceil_div(b.depth, step);
            one_block(&b, b.k + span < cols ? NULL : sink);
        }
    }
    /* Without this the tiles' state would be saved at every switch of threads. */
    _tile_release();
}

void tw_gemm_amx(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const float *x, int64_t ldx,
                 int64_t rows, float *y, int64_t ldy, tw_gemm_blocking by, const tw_gemm_sink *sink, void *scratch) {
    if (rows < TW_AMX_ROWS) {
        tw_gemm_avx512(f, panels, n_panels, cols, x, ldx, rows, y, ldy, by, sink, scratch);
        return;
    }
    char *packed = (char *)scratch + tw_gemm_packed_scratch_amx(f);
    tw_gemm_pack_amx(f, x, ldx, rows, cols, TW_AMX_TERMS, packed);
    tw_gemm_packed_amx(f, panels, n_panels, cols, packed, rows, TW_AMX_TERMS, y, ldy, sink, scratch);
}
