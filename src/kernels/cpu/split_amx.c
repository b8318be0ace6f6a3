/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of 16 rows by 32 columns, a term after another: [16 rows of x][step][term], and of W [panel][step][term], where
   a tile's rows have pairs of columns.

   Rows of x are taken in twos of tiles with some steps, which meet the panels of a block one after another. Both stay
   in the second-level cache; the first-level one is asked for a step while the step before is multiplied.

   Panels of f32 become terms a block at a time. The tiles' unit leaves most of the vectors' ports idle: a block is made
   while the block before is multiplied. */
#include "kernels/cpu/split.h"

#include "kernels/cpu/amx.h"

enum {
    ROWS = TW_PANEL_ROWS,
    TILE = TW_AMX_TILE,
    STEP = TW_AMX_STEP,
    TERMS = 3,
    BLOCK_PANELS = TW_SINK_COLS / ROWS,
    NEAR_STEPS = 12, /* Of two tiles of rows they take 72 KiB. */
    MADE_STEPS = 5,  /* Of all panels of a block they take 480 KiB, and two blocks are in the second-level cache. */
    PAIR = TERMS * TILE,
    MADE_BYTES = BLOCK_PANELS * MADE_STEPS * PAIR,
    SUM_BYTES = 4 * TILE,
    FLOATS_BYTES = 2 * MADE_BYTES + SUM_BYTES, /* Scratch of a product of panels of f32. */
};

static size_t bytes(int64_t rows, int64_t cols) {
    return (size_t)(tw_ceil_div(rows, ROWS) * tw_ceil_div(cols, STEP) * PAIR);
}

/* Rounds `a` and `b` to three terms, side by side. */
static inline void three_terms(__m512 a, __m512 b, __m512i term[TERMS]) {
    for (int t = 0; t < TERMS; t++) {
        term[t] = (__m512i)_mm512_cvtne2ps_pbh(b, a);
        if (t + 1 == TERMS) break;
        a = tw_amx_rest(a, _mm512_castsi512_si256(term[t]));
        b = tw_amx_rest(b, _mm512_extracti64x4_epi64(term[t], 1));
    }
}

static void pack_x(const float *x, int64_t ldx, int64_t rows, int64_t cols, bool exact, void *out) {
    char *to = out;
    __m512i term[TERMS];
    for (int64_t m = 0; m < rows; m += ROWS)
        for (int64_t k = 0; k < cols; k += STEP, to += PAIR)
            for (int64_t r = 0; r < ROWS; r++) {
                const int64_t left = m + r < rows ? cols - k : 0;
                const float *from = x + (m + r) * ldx + k;
                three_terms(left >= 16 ? _mm512_loadu_ps(from) : _mm512_maskz_loadu_ps(tw_amx_first(left), from),
                            left >= 32  ? _mm512_loadu_ps(from + 16)
                            : left > 16 ? _mm512_maskz_loadu_ps(tw_amx_first(left - 16), from + 16)
                                        : _mm512_setzero_ps(),
                            term);
                for (int t = 0; t < TERMS; t++)
                    _mm512_store_si512(to + t * TILE + r * 64, t && !exact ? _mm512_setzero_si512() : term[t]);
            }
}

/* Rounds to the nearest number of bf16. A NaN may become another number: what is left of it is a NaN. */
static inline __m512i nearest(__m512 x) {
    return _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000)),
                            _mm512_set1_epi32((int)0xffff0000u));
}

/* Stores two columns of a panel of f32, `a` and `b`, as a row of a tile for each term. */
static inline void pack_columns(__m512 a, __m512 b, __m512i pairs, char *to) {
    for (int t = 0; t + 1 < TERMS; t++, to += TILE) {
        const __m512i of_a = nearest(a), of_b = nearest(b);
        _mm512_store_si512(to, _mm512_or_si512(_mm512_srli_epi32(of_a, 16), of_b));
        a = _mm512_sub_ps(a, _mm512_castsi512_ps(of_a));
        b = _mm512_sub_ps(b, _mm512_castsi512_ps(of_b));
    }
    _mm512_store_si512(to, _mm512_permutexvar_epi16(pairs, (__m512i)_mm512_cvtne2ps_pbh(b, a)));
}

/* Words 0, 16, 1, 17 and so on. */
static inline __m512i pairs_of_words(void) {
    return _mm512_or_si512(
        _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
        _mm512_slli_epi32(_mm512_set_epi32(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16), 16));
}

static void pack_w(const float *panel, int64_t cols, void *out) {
    char *to = out;
    const __m512i pairs = pairs_of_words();
    for (int64_t k = 0; k < cols; k += STEP, to += PAIR)
        for (int64_t r = 0; r < ROWS; r++) {
            const int64_t at = k + 2 * r;
            pack_columns(at < cols ? _mm512_loadu_ps(panel + at * ROWS) : _mm512_setzero_ps(),
                         at + 1 < cols ? _mm512_loadu_ps(panel + (at + 1) * ROWS) : _mm512_setzero_ps(), pairs,
                         to + r * 64);
        }
}

/* A block of panels of f32 that becomes terms, two columns at a time. */
typedef struct maker {
    const float *from;             /* The next two columns. */
    char *to;                      /* Their row in a tile. */
    int64_t row;                   /* Its number in the tile. */
    int64_t column, there, padded; /* Columns of the panel: the next, those it has, and those of tiles. */
    int64_t floats;                /* From a panel to the next. */
    int64_t panels;                /* That are left. 0: the block is made. */
} maker;

/* Makes `n` rows of tiles, if as many are left. The same columns of the next panel are asked for. */
static inline void make(maker *m, int64_t n) {
    const __m512i pairs = pairs_of_words();
    for (; n > 0 && m->panels; n--) {
        const __mmask16 there = m->column < m->there ? 0xffff : 0;
        const float *from = m->from;
        _mm_prefetch((const char *)(from + m->floats), _MM_HINT_T1);
        _mm_prefetch((const char *)(from + m->floats + ROWS), _MM_HINT_T1);
        pack_columns(_mm512_maskz_loadu_ps(there, from), _mm512_maskz_loadu_ps(there, from + ROWS), pairs, m->to);
        m->from += 2 * ROWS;
        m->to += 64;
        m->column += 2;
        if (++m->row < ROWS) continue;
        m->row = 0;
        m->to += PAIR - TILE;
        if (m->column < m->padded) continue;
        m->from += m->floats - m->column * ROWS;
        m->column = 0;
        m->panels--;
    }
}

/* Where the sums of tiles 0 to 3 go: two tiles of rows by two panels. */
typedef struct corner {
    char *to;
    int64_t stride, next_rows; /* Bytes from a row to the next, and to the next 16 rows. */
} corner;

/* Operands of a step: rows 0 to 15 and 16 to 31 of x, and two panels. */
typedef struct step {
    const char *x0, *x1, *w0, *w1;
} step;

/* Asks for the i-th of 24 parts of the next step: tiles that are not in the first-level cache hold the unit up. */
static inline __attribute__((always_inline)) void ask_ahead(const step *s, int i) {
    for (int line = 2 * i; line < 2 * i + 2; line++) {
        _mm_prefetch(s->x0 + PAIR + line * 64, _MM_HINT_T0);
        _mm_prefetch(s->x1 + PAIR + line * 64, _MM_HINT_T0);
        _mm_prefetch(s->w0 + PAIR + line * 64, _MM_HINT_T0);
        _mm_prefetch(s->w1 + PAIR + line * 64, _MM_HINT_T0);
    }
}

/* Tiles 4 and 5 have x, 6 and 7 have W. Each is loaded where its last product was begun. */
#define LOAD(tile, operand, t) _tile_loadd(tile, s.operand + (t)*TILE, 64)
#define ADD(i, sum, x, w)                                                                                              \
    _tile_dpbf16ps(sum, x, w);                                                                                         \
    ask_ahead(&s, i)
/* Adds four products, the i-th and on, while other terms of x, or of W, replace what they have read. */
#define ADD_AND_LOAD_X(i, t)                                                                                           \
    ADD(i, 0, 4, 6);                                                                                                   \
    ADD(i + 1, 1, 4, 7);                                                                                               \
    LOAD(4, x0, t);                                                                                                    \
    ADD(i + 2, 2, 5, 6);                                                                                               \
    ADD(i + 3, 3, 5, 7);                                                                                               \
    LOAD(5, x1, t)
#define ADD_AND_LOAD_W(i, t)                                                                                           \
    ADD(i, 0, 4, 6);                                                                                                   \
    ADD(i + 1, 2, 5, 6);                                                                                               \
    LOAD(6, w0, t);                                                                                                    \
    ADD(i + 2, 1, 4, 7);                                                                                               \
    ADD(i + 3, 3, 5, 7);                                                                                               \
    LOAD(7, w1, t)

/* Adds `steps` steps of two tiles of rows, `next` bytes apart, by two panels. Without `more` sums begin with 0. In each
   sixth of a step `rate` rows of another block are made. */
static void corner_of(const char *x, int64_t next, const char *w0, const char *w1, int64_t steps, bool more,
                      const corner *c, maker *other, int64_t rate) {
    step s = {x, x + next, w0, w1};
    maker m = *other;
    tw_amx_settle(x);
    if (more) {
        _tile_loadd(0, c->to, c->stride);
        _tile_loadd(1, c->to + 64, c->stride);
        _tile_loadd(2, c->to + c->next_rows, c->stride);
        _tile_loadd(3, c->to + c->next_rows + 64, c->stride);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t i = 0; i < steps; i++) {
        LOAD(6, w0, 0);
        LOAD(4, x0, 2);
        LOAD(5, x1, 2);
        LOAD(7, w1, 0);
        ADD_AND_LOAD_X(0, 1); /* 2 by 0 */
        make(&m, rate);
        ADD_AND_LOAD_W(4, 1); /* 1 by 0 */
        make(&m, rate);
        ADD_AND_LOAD_X(8, 0); /* 1 by 1 */
        make(&m, rate);
        ADD_AND_LOAD_W(12, 0); /* 0 by 1 */
        make(&m, rate);
        ADD_AND_LOAD_W(16, 2); /* 0 by 0 */
        make(&m, rate);
        ADD(20, 0, 4, 6); /* 0 by 2 */
        ADD(21, 1, 4, 7);
        ADD(22, 2, 5, 6);
        ADD(23, 3, 5, 7);
        make(&m, rate);
        s = (step){s.x0 + PAIR, s.x1 + PAIR, s.w0 + PAIR, s.w1 + PAIR};
    }
    _tile_stored(0, c->to, c->stride);
    _tile_stored(1, c->to + 64, c->stride);
    _tile_stored(2, c->to + c->next_rows, c->stride);
    _tile_stored(3, c->to + c->next_rows + 64, c->stride);
    tw_amx_settle(c->to);
    *other = m;
}

typedef struct product {
    const char *panels, *x;
    int64_t n_panels, cols, steps, rows, ldy;
    int64_t of_x, of_panel; /* Bytes of 16 rows of x, and of a panel as it is given. */
    float *y, *sums;        /* Sums: room for a corner that y has not all of. */
} product;

/* Some panels of the product, and some of their steps, as terms. */
typedef struct block {
    int64_t panel, panels, step, steps;
    const char *w;
    int64_t of_w; /* Bytes from a panel's terms to the next's. */
} block;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Copies a corner's rows and columns that y has. */
static void copy_part(const float *from, int64_t ld_from, float *to, int64_t ld_to, int64_t rows, int64_t panels) {
    for (int64_t r = 0; r < rows; r++) memcpy(to + r * ld_to, from + r * ld_from, (size_t)(panels * ROWS) * sizeof *to);
}

/* Adds a corner's steps of the block, at row m and panel i of the block. */
static void one_corner(const product *b, const block *k, int64_t m, int64_t i, maker *other, int64_t rate) {
    const int64_t rows = least(2 * ROWS, b->rows - m), panels = least(2, k->panels - i);
    const int64_t next = rows > ROWS ? b->of_x : 0, next_w = panels > 1 ? k->of_w : 0;
    const bool whole = rows == 2 * ROWS && panels == 2, more = k->step > 0;
    const char *x = b->x + m / ROWS * b->of_x + k->step * PAIR, *w = k->w + i * k->of_w;
    float *y = b->y + m * b->ldy + (k->panel + i) * ROWS;
    corner c = {(char *)y, b->ldy * 4, b->ldy * 4 * ROWS};
    if (!whole) c = (corner){(char *)b->sums, 128, 128 * ROWS};
    if (!whole && more) copy_part(y, b->ldy, b->sums, 2 * ROWS, rows, panels);
    corner_of(x, next, w, w + next_w, k->steps, more, &c, other, rate);
    if (!whole) copy_part(b->sums, 2 * ROWS, y, b->ldy, rows, panels);
}

/* Asks for a part of the next steps of the block's panels, as much as rows from m on are of all. */
static void ask(const product *b, const block *k, int64_t m) {
    const int64_t left = least(NEAR_STEPS, b->steps - k->step - k->steps) * PAIR,
                  parts = tw_ceil_div(b->rows, 2 * ROWS);
    const int64_t at = m / (2 * ROWS);
    for (int64_t i = 0; i < k->panels; i++) {
        const char *w = k->w + i * k->of_w + k->steps * PAIR;
        for (int64_t n = left * at / parts / 64 * 64; n < left * (at + 1) / parts; n += 64)
            _mm_prefetch(w + n, _MM_HINT_T1);
    }
}

/* Multiplies all rows by the block, and meanwhile makes another. */
static void one_block(const product *b, const block *k, const tw_gemm_sink *sink, maker *other) {
    const int64_t corners = tw_ceil_div(b->rows, 2 * ROWS) * tw_ceil_div(k->panels, 2);
    const int64_t rate = other->panels ? tw_ceil_div(other->panels * other->padded / 2, corners * k->steps * 6) : 0;
    const bool last = k->step + k->steps == b->steps;
    for (int64_t m = 0; m < b->rows; m += 2 * ROWS) {
        for (int64_t i = 0; i < k->panels; i += 2) one_corner(b, k, m, i, other, rate);
        if (!last && !other->to) ask(b, k, m);
        if (last && sink) sink->take(sink->context, m, least(2 * ROWS, b->rows - m), k->panel * ROWS, k->panels * ROWS);
    }
}

/* The block of at most `steps` steps that follows another. Without panels: none does. */
static block block_behind(const product *b, const block *k, int64_t steps) {
    block next = {.panel = k->panel, .panels = k->panels, .step = k->step + k->steps};
    if (next.step == b->steps) {
        next.panel += next.panels;
        next.step = 0;
    }
    next.panels = least(BLOCK_PANELS, b->n_panels - next.panel);
    next.steps = least(steps, b->steps - next.step);
    return next;
}

static void gemm(const void *panels, int64_t n_panels, int64_t cols, const void *x, int64_t rows, float *y, int64_t ldy,
                 const tw_gemm_sink *sink, void *scratch) {
    const product b = {.panels = panels,
                       .x = x,
                       .n_panels = n_panels,
                       .steps = tw_ceil_div(cols, STEP),
                       .rows = rows,
                       .ldy = ldy,
                       .of_x = (int64_t)bytes(ROWS, cols),
                       .of_panel = (int64_t)bytes(ROWS, cols),
                       .y = y,
                       .sums = scratch};
    maker none = {0};
    tw_amx_configure();
    for (block k = block_behind(&b, &(block){.step = 0}, NEAR_STEPS); k.panels; k = block_behind(&b, &k, NEAR_STEPS)) {
        k.w = b.panels + k.panel * b.of_panel + k.step * PAIR;
        k.of_w = b.of_panel;
        one_block(&b, &k, sink, &none);
    }
    /* Without this the tiles' state would be saved at every switch of threads. */
    _tile_release();
}

/* Begins to make a block of panels of f32. */
static maker begin(const product *b, const block *k, char *to) {
    const int64_t at = k->step * STEP, all = tw_panel_cols((tw_panel_format){TW_F32, 0}, b->cols);
    return (maker){.from = (const float *)(const void *)(b->panels + k->panel * b->of_panel) + at * ROWS,
                   .to = to,
                   .there = least(k->steps * STEP, all - at),
                   .padded = k->steps * STEP,
                   .floats = b->of_panel / 4,
                   .panels = k->panels};
}

static void gemm_floats(const void *panels, int64_t n_panels, int64_t cols, const void *x, int64_t rows, float *y,
                        int64_t ldy, const tw_gemm_sink *sink, void *scratch) {
    char *const made[] = {scratch, (char *)scratch + MADE_BYTES};
    const product b = {.panels = panels,
                       .x = x,
                       .n_panels = n_panels,
                       .cols = cols,
                       .steps = tw_ceil_div(cols, STEP),
                       .rows = rows,
                       .ldy = ldy,
                       .of_x = (int64_t)bytes(ROWS, cols),
                       .of_panel = (int64_t)tw_panel_bytes((tw_panel_format){TW_F32, 0}, cols),
                       .y = y,
                       .sums = (float *)(void *)((char *)scratch + 2 * MADE_BYTES)};
    block k = block_behind(&b, &(block){.step = 0}, MADE_STEPS);
    maker m = begin(&b, &k, made[0]);
    tw_amx_configure();
    for (int i = 0; k.panels; i = 1 - i) {
        const block next = block_behind(&b, &k, MADE_STEPS);
        make(&m, INT64_MAX);
        k.w = made[i];
        k.of_w = k.steps * PAIR;
        m = begin(&b, &next, made[1 - i]);
        one_block(&b, &k, sink, &m);
        k = next;
    }
    _tile_release();
}

void tw_gemm_packed_split_amx(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const void *x,
                              int64_t rows, int terms, float *y, int64_t ldy, const tw_gemm_sink *sink, void *scratch) {
    (void)f;
    (void)terms;
    gemm_floats(panels, n_panels, cols, x, rows, y, ldy, sink, scratch);
}

size_t tw_gemm_scratch_split_amx(tw_panel_format f, int64_t n_panels, int64_t cols, int64_t rows, tw_gemm_blocking by) {
    if (rows < TW_SPLIT_ROWS) return tw_gemm_scratch_avx512(f, n_panels, cols, rows, by);
    return FLOATS_BYTES + bytes(rows, cols);
}

void tw_gemm_split_amx(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const float *x,
                       int64_t ldx, int64_t rows, float *y, int64_t ldy, tw_gemm_blocking by, const tw_gemm_sink *sink,
                       void *scratch) {
    if (rows < TW_SPLIT_ROWS) {
        tw_gemm_avx512(f, panels, n_panels, cols, x, ldx, rows, y, ldy, by, sink, scratch);
        return;
    }
    char *packed = (char *)scratch + FLOATS_BYTES;
    pack_x(x, ldx, rows, cols, true, packed);
    gemm_floats(panels, n_panels, cols, packed, rows, y, ldy, sink, scratch);
}

const tw_split_kernels tw_split_amx = {bytes, pack_x, pack_w, gemm, SUM_BYTES, gemm_floats, FLOATS_BYTES};
