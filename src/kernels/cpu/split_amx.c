/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of 16 rows by 32 columns, a term after another: [16 rows of x][step][term], and of W [panel][step][term], where
   a tile's rows have pairs of columns.

   Rows of x are taken in twos of tiles with some steps, which meet the panels of a block one after another. Both stay
   in the second-level cache; the first-level one is asked for a step while the step before is multiplied. */
#include "kernels/cpu/split.h"

#include "kernels/cpu/amx.h"

enum {
    ROWS = TW_PANEL_ROWS,
    TILE = TW_AMX_TILE,
    STEP = TW_AMX_STEP,
    TERMS = 3,
    BLOCK_PANELS = TW_SINK_COLS / ROWS,
    NEAR_STEPS = 12, /* Of two tiles of rows they take 72 KiB. */
    PAIR = TERMS * TILE
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

static void pack_x(const float *x, int64_t ldx, int64_t rows, int64_t cols, void *out) {
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
                for (int t = 0; t < TERMS; t++) _mm512_store_si512(to + t * TILE + r * 64, term[t]);
            }
}

static void pack_w(const float *panel, int64_t cols, void *out) {
    char *to = out;
    short order[32];
    __m512i term[TERMS];
    for (int i = 0; i < 32; i++) order[i] = (short)(i / 2 + i % 2 * 16);
    const __m512i pairs = _mm512_loadu_si512(order);
    for (int64_t k = 0; k < cols; k += STEP, to += PAIR)
        for (int64_t r = 0; r < ROWS; r++) {
            const int64_t at = k + 2 * r;
            three_terms(at < cols ? _mm512_loadu_ps(panel + at * ROWS) : _mm512_setzero_ps(),
                        at + 1 < cols ? _mm512_loadu_ps(panel + (at + 1) * ROWS) : _mm512_setzero_ps(), term);
            for (int t = 0; t < TERMS; t++)
                _mm512_store_si512(to + t * TILE + r * 64, _mm512_permutexvar_epi16(pairs, term[t]));
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

/* Adds `steps` steps of two tiles of rows, `next` bytes apart, by two panels. Without `more` sums begin with 0. */
static void corner_of(const char *x, int64_t next, const char *w0, const char *w1, int64_t steps, bool more,
                      const corner *c) {
    step s = {x, x + next, w0, w1};
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
        ADD_AND_LOAD_X(0, 1);  /* 2 by 0 */
        ADD_AND_LOAD_W(4, 1);  /* 1 by 0 */
        ADD_AND_LOAD_X(8, 0);  /* 1 by 1 */
        ADD_AND_LOAD_W(12, 0); /* 0 by 1 */
        ADD_AND_LOAD_W(16, 2); /* 0 by 0 */
        ADD(20, 0, 4, 6);      /* 0 by 2 */
        ADD(21, 1, 4, 7);
        ADD(22, 2, 5, 6);
        ADD(23, 3, 5, 7);
        s = (step){s.x0 + PAIR, s.x1 + PAIR, s.w0 + PAIR, s.w1 + PAIR};
    }
    _tile_stored(0, c->to, c->stride);
    _tile_stored(1, c->to + 64, c->stride);
    _tile_stored(2, c->to + c->next_rows, c->stride);
    _tile_stored(3, c->to + c->next_rows + 64, c->stride);
    tw_amx_settle(c->to);
}

typedef struct product {
    const char *panels, *x;
    int64_t steps, rows, ldy;
    int64_t of_panel; /* Bytes of a panel, and of 16 rows of x. */
    float *y, *sums;  /* Sums: room for a corner that y has not all of. */
} product;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A corner at row m and panel p, of `panels` panels, with steps from s on. What y has not all of is computed at once
   with the last steps. */
static void one_corner(const product *b, int64_t m, int64_t p, int64_t panels, int64_t s, int64_t steps) {
    const int64_t rows = least(2 * ROWS, b->rows - m);
    const int64_t next = rows > ROWS ? b->of_panel : 0, other = panels > 1 ? b->of_panel : 0;
    const bool whole = rows == 2 * ROWS && panels == 2;
    const char *x = b->x + m / ROWS * b->of_panel, *w = b->panels + p * b->of_panel;
    float *y = b->y + m * b->ldy + p * ROWS;
    if (whole) {
        const corner c = {(char *)y, b->ldy * 4, b->ldy * 4 * ROWS};
        corner_of(x + s * PAIR, next, w + s * PAIR, w + other + s * PAIR, steps, s > 0, &c);
        return;
    }
    if (s + steps < b->steps) return;
    const corner c = {(char *)b->sums, 128, 128 * ROWS};
    corner_of(x, next, w, w + other, b->steps, false, &c);
    for (int64_t r = 0; r < rows; r++)
        memcpy(y + r * b->ldy, b->sums + r * 2 * ROWS, (size_t)(least(panels, 2) * ROWS) * sizeof *y);
}

/* Asks for a part of steps s .. of the block's panels. */
static void ask(const product *b, int64_t p, int64_t count, int64_t s, int64_t steps, int64_t m) {
    const int64_t bytes = steps * PAIR, parts = tw_ceil_div(b->rows, 2 * ROWS), at = m / (2 * ROWS);
    for (int64_t i = 0; i < count; i++) {
        const char *w = b->panels + (p + i) * b->of_panel + s * PAIR;
        for (int64_t k = bytes * at / parts / 64 * 64; k < bytes * (at + 1) / parts; k += 64)
            _mm_prefetch(w + k, _MM_HINT_T1);
    }
}

static void one_block(const product *b, int64_t p, int64_t count, const tw_gemm_sink *sink) {
    for (int64_t s = 0; s < b->steps; s += NEAR_STEPS) {
        const int64_t steps = least(NEAR_STEPS, b->steps - s), left = least(NEAR_STEPS, b->steps - s - steps);
        for (int64_t m = 0; m < b->rows; m += 2 * ROWS) {
            for (int64_t i = 0; i < count; i += 2) one_corner(b, m, p + i, least(2, count - i), s, steps);
            if (left) ask(b, p, count, s + steps, left, m);
            if (!left && sink) sink->take(sink->context, m, least(2 * ROWS, b->rows - m), p * ROWS, count * ROWS);
        }
    }
}

static void gemm(const void *panels, int64_t n_panels, int64_t cols, const void *x, int64_t rows, float *y, int64_t ldy,
                 const tw_gemm_sink *sink, void *scratch) {
    const product b = {.panels = panels,
                       .x = x,
                       .steps = tw_ceil_div(cols, STEP),
                       .rows = rows,
                       .ldy = ldy,
                       .of_panel = (int64_t)bytes(ROWS, cols),
                       .y = y,
                       .sums = scratch};
    tw_amx_configure();
    for (int64_t p = 0; p < n_panels; p += BLOCK_PANELS) one_block(&b, p, least(BLOCK_PANELS, n_panels - p), sink);
    /* Without this the tiles' state would be saved at every switch of threads. */
    _tile_release();
}

const tw_split_kernels tw_split_amx = {bytes, pack_x, pack_w, gemm, 4 * TILE};
