/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of many tokens with AMX. Queries, keys, weights of softmax and values are two terms of bf16 each, of which
   the product of the second ones is left out, or one term. Sums are f32.

   It goes over the keys in blocks with a running maximum and sum a token, as the vectors' way does. */
#include "kernels/cpu/amx.h"
#include "kernels/cpu/vector_avx512.h"

#include "kernels/cpu/attention_soft.h"

enum {
    ROWS = TW_PANEL_ROWS,
    TILE = TW_AMX_TILE,
    STEP = TW_AMX_STEP,
    STRIPE = 2 * ROWS,  /* Tokens whose scores with a block of keys are computed together. */
    KEYS = 128,         /* Keys of a block. */
    SCORES = KEYS + 16, /* Floats from a token's scores to the next. Rows 512 bytes apart would share sets. */
    FEW = ROWS,         /* Tokens below which tiles would be mostly empty. */
};

/* Where everything lies in the scratch, in bytes. The last member is how much there is. */
typedef struct plan {
    int64_t wide;  /* dim, padded to two tiles of sums, or one of bf16. */
    int64_t group; /* Bytes of ROWS rows of `wide` columns as tiles. */
    int64_t query, keys, values, weights, row, scores, sums, largest, total, end;
} plan;

static plan plan_of(int64_t dim, int64_t n, int terms) {
    const int64_t groups = round_up(n, STRIPE) / ROWS;
    plan p = {.wide = round_up(dim, STEP)};
    p.group = p.wide / STEP * terms * TILE;
    p.keys = p.query + groups * p.group;
    p.values = p.keys + KEYS / ROWS * p.group;
    p.weights = p.values + KEYS / ROWS * p.group;
    p.row = p.weights + 2 * KEYS / STEP * terms * TILE;
    p.scores = p.row + ROWS * p.wide * 4;
    p.sums = p.scores + STRIPE * SCORES * 4;
    p.largest = p.sums + groups * ROWS * p.wide * 4;
    p.total = p.largest + groups * ROWS * 4;
    p.end = p.total + groups * ROWS * 4;
    return p;
}

size_t tw_attention_scratch_amx(int64_t dim, int64_t n, int64_t span) {
    const size_t own = (size_t)plan_of(dim, n, TW_AMX_TERMS).end, other = tw_attention_scratch_avx512(dim, n, span);
    return own > other ? own : other;
}

/* A part of the scratch. */
static inline char *at(const tw_attention *a, int64_t bytes) {
    return (char *)a->scratch + bytes;
}
static inline float *floats_at(const tw_attention *a, int64_t bytes) {
    return (float *)(void *)at(a, bytes);
}

/* Packs rows of floats as operands on the left: tiles [step][term] of ROWS rows. */
static void pack_left(const float *x, int64_t ldx, int64_t rows, int64_t cols, int terms, char *to) {
    tw_gemm_pack_amx((tw_panel_format){TW_BF16, 0}, x, ldx, rows, cols, terms, to);
}

/* Packs queries, times the scale. */
static void pack_queries(const tw_attention *a, const plan *p) {
    float *row = floats_at(a, p->row);
    char *to = at(a, p->query);
    memset(row, 0, (size_t)(ROWS * p->wide) * sizeof *row);
    for (int64_t i = 0; i < round_up(a->n, STRIPE); i += ROWS, to += p->group) {
        const int64_t rows = i >= a->n ? 0 : least(ROWS, a->n - i);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t d = 0; d < a->dim; d += LANES)
                v_store_part(row + r * p->wide + d, a->dim - d,
                             v_mul(v_load_part(a->q + (i + r) * a->ldq + d, a->dim - d), v_set(a->scale)));
        if (rows)
            pack_left(row, p->wide, rows, p->wide, a->terms, to);
        else
            memset(to, 0, (size_t)p->group);
    }
}

/* Transposes 16 rows of 16 words of 32 bits. */
static inline void transpose16(__m512i r[16]) {
    __m512i s[16];
    for (int i = 0; i < 8; i++) {
        s[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        s[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++) {
            r[4 * i + 2 * j] = _mm512_unpacklo_epi64(s[4 * i + j], s[4 * i + 2 + j]);
            r[4 * i + 2 * j + 1] = _mm512_unpackhi_epi64(s[4 * i + j], s[4 * i + 2 + j]);
        }
    /* r[4 i + c] has columns c, 4 + c, 8 + c and 12 + c of rows 4 i to 4 i + 3. */
    for (int c = 0; c < 4; c++) {
        s[c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88);
        s[4 + c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
        s[8 + c] = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88);
        s[12 + c] = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);
    }
    for (int c = 0; c < 4; c++) {
        r[c] = _mm512_shuffle_i32x4(s[c], s[8 + c], 0x88);
        r[8 + c] = _mm512_shuffle_i32x4(s[c], s[8 + c], 0xdd);
        r[4 + c] = _mm512_shuffle_i32x4(s[4 + c], s[12 + c], 0x88);
        r[12 + c] = _mm512_shuffle_i32x4(s[4 + c], s[12 + c], 0xdd);
    }
}

/* Packs up to ROWS keys as columns of the right operand: tiles [step of columns][term] of pairs of columns by keys. */
static void pack_keys(const float *k, int64_t n, int64_t dim, int terms, char *to) {
    for (int64_t d = 0; d < dim; d += STEP, to += terms * TILE) {
        __m512i words[2][ROWS];
        for (int64_t j = 0; j < ROWS; j++) {
            const int64_t left = j < n ? dim - d : 0;
            const float *from = j < n ? k + j * dim + d : k;
            tw_amx_terms(_mm512_maskz_loadu_ps(tw_amx_first(left), from),
                         _mm512_maskz_loadu_ps(tw_amx_first(left - 16), from + 16), terms, &words[0][j], &words[1][j]);
        }
        for (int t = 0; t < terms; t++) {
            transpose16(words[t]);
            for (int64_t j = 0; j < ROWS; j++) _mm512_store_si512(to + t * TILE + j * 64, words[t][j]);
        }
    }
}

/* Interleaves two rows of 16 halves each. */
static inline __m512i interleave(__m512i rows) {
    const __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(rows)),
                  high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(rows, 1));
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/* Packs values of a block as the right operand: [ROWS columns][step of keys][term], tiles of pairs of keys by columns.
   Keys beyond `n` have zeros. */
static void pack_values(const float *v, int64_t n, int64_t dim, int64_t wide, int terms, char *to) {
    for (int64_t d = 0; d < wide; d += ROWS)
        for (int64_t t = 0; t < KEYS; t += STEP, to += terms * TILE)
            for (int64_t j = t; j < t + STEP && t < n; j += 2) {
                const __mmask16 one = j < n ? tw_amx_first(dim - d) : 0, two = j + 1 < n ? tw_amx_first(dim - d) : 0;
                const float *from = v + least(j, n - 1) * dim + least(d, dim - 1);
                __m512i high, low;
                tw_amx_terms(_mm512_maskz_loadu_ps(one, from), _mm512_maskz_loadu_ps(two, from + dim), terms, &high,
                             &low);
                _mm512_store_si512(to + (j - t) * 32, interleave(high));
                if (terms > 1) _mm512_store_si512(to + TILE + (j - t) * 32, interleave(low));
            }
}

/* Asks for the q-th quarters of two tiles. NULL: of none. */
static inline __attribute__((always_inline)) void ask(const char *a, const char *b, int q) {
    for (int i = q * TILE / 4; i < (q + 1) * TILE / 4 && a; i += 64) {
        _mm_prefetch(a + i, _MM_HINT_T0);
        _mm_prefetch(b + i, _MM_HINT_T0);
    }
}

/* Adds the product of the terms that tiles 4 to 7 hold. Meanwhile two tiles of the next step are asked for: they are in
   the second-level cache, and tiles that are loaded from there hold the unit up. */
static inline __attribute__((always_inline)) void add_product(const char *a, const char *b) {
    _tile_dpbf16ps(0, 4, 6);
    ask(a, b, 0);
    _tile_dpbf16ps(1, 4, 7);
    ask(a, b, 1);
    _tile_dpbf16ps(2, 5, 6);
    ask(a, b, 2);
    _tile_dpbf16ps(3, 5, 7);
    ask(a, b, 3);
}

/* y = (or, if `add`, +=) the product of two tiles of rows of x, `next` bytes apart, with two panels of w, over `steps`
   steps. Rows of y are ldy floats apart. */
static void multiply(const char *x, int64_t next, const char *w, int64_t next_w, int64_t steps, int terms, bool add,
                     float *y, int64_t ldy) {
    float *low = y + ROWS * ldy;
    tw_amx_settle(x);
    if (add) {
        _tile_loadd(0, y, ldy * 4);
        _tile_loadd(1, y + 16, ldy * 4);
        _tile_loadd(2, low, ldy * 4);
        _tile_loadd(3, low + 16, ldy * 4);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t s = 0; s < steps; s++, x += terms * TILE, w += terms * TILE) {
        const char *ahead = w + terms * TILE, *other = ahead + next_w;
        _tile_loadd(4, x, 64);
        _tile_loadd(5, x + next, 64);
        if (terms > 1) {
            _tile_loadd(6, w + TILE, 64);
            _tile_loadd(7, w + TILE + next_w, 64);
            add_product(ahead + TILE, other + TILE);
        }
        _tile_loadd(6, w, 64);
        _tile_loadd(7, w + next_w, 64);
        add_product(ahead, other);
        if (terms < 2) continue;
        _tile_loadd(4, x + TILE, 64);
        _tile_loadd(5, x + TILE + next, 64);
        add_product(NULL, NULL);
    }
    _tile_stored(0, y, ldy * 4);
    _tile_stored(1, y + 16, ldy * 4);
    _tile_stored(2, low, ldy * 4);
    _tile_stored(3, low + 16, ldy * 4);
    tw_amx_settle(y);
}

/* A block of keys. */
typedef struct key_block {
    int64_t first, count;
} key_block;

static key_block load_block(const tw_attention *a, const plan *p, int64_t t, int64_t last) {
    const key_block b = {t, least(KEYS, last - t)};
    const int64_t panels = round_up(b.count, STEP) / ROWS;
    for (int64_t j = 0; j < panels; j++) {
        const int64_t n = most(0, least(ROWS, b.count - j * ROWS));
        pack_keys(a->k + (t + least(j * ROWS, b.count - 1)) * a->dim, n, a->dim, a->terms,
                  at(a, p->keys + j * p->group));
    }
    pack_values(a->v + t * a->dim, b.count, a->dim, p->wide, a->terms, at(a, p->values));
    return b;
}

/* Softmax of columns c to end - 1 of token i's scores. What it does not see has no weight. */
static void soften_token(const tw_attention *a, const plan *p, const key_block *b, int64_t i, float *scores, int64_t c,
                         int64_t end) {
    float *sums = floats_at(a, p->sums) + i * p->wide;
    const int64_t from = most(keys_from(a, i) - b->first, c), to = least(keys_to(a, i) - b->first, b->count);
    if (a->cap > 0) cap_scores(a->cap, scores + c, end - c);
    for (int64_t j = c; j < least(from, end); j++) scores[j] = -INFINITY;
    for (int64_t j = most(to, c); j < end; j++) scores[j] = -INFINITY;
    const float factor = soften(scores + c, end - c, floats_at(a, p->largest) + i, floats_at(a, p->total) + i);
    if (factor == 1) return;
    for (int64_t d = 0; d < p->wide; d += LANES) v_store(sums + d, v_mul(v_load(sums + d), v_set(factor)));
}

/* Tokens i to i + STRIPE - 1 against a block of keys. */
static void one_stripe(const tw_attention *a, const plan *p, const key_block *b, int64_t i) {
    const int64_t rows = least(STRIPE, a->n - i), lo = most(keys_from(a, i), b->first) - b->first,
                  hi = least(keys_to(a, i + rows - 1), b->first + b->count) - b->first;
    if (lo >= hi) return;
    const int64_t c = lo / STEP * STEP, end = round_up(hi, STEP), each = KEYS / STEP * a->terms * TILE;
    float *scores = floats_at(a, p->scores);
    for (int64_t j = c; j < end; j += STEP)
        multiply(at(a, p->query + i / ROWS * p->group), p->group, at(a, p->keys + j / ROWS * p->group), p->group,
                 p->wide / STEP, a->terms, false, scores + j, SCORES);
    for (int64_t r = 0; r < rows; r++) soften_token(a, p, b, i + r, scores + r * SCORES, c, end);
    for (int64_t r = 0; r < STRIPE; r += ROWS) {
        char *to = at(a, p->weights + r / ROWS * each);
        if (r < rows)
            pack_left(scores + r * SCORES + c, SCORES, least(ROWS, rows - r), end - c, a->terms, to);
        else
            memset(to, 0, (size_t)each);
    }
    for (int64_t d = 0; d < p->wide; d += STEP)
        multiply(at(a, p->weights), each, at(a, p->values + d / ROWS * each + c / STEP * a->terms * TILE), each,
                 (end - c) / STEP, a->terms, true, floats_at(a, p->sums) + i * p->wide + d, p->wide);
}

void tw_attention_amx(const tw_attention *a) {
    if (a->n < FEW) {
        tw_attention_avx512(a);
        return;
    }
    tw_attention own = *a;
    own.terms = a->terms == 1 ? 1 : TW_AMX_TERMS;
    a = &own;
    const plan p = plan_of(a->dim, a->n, a->terms);
    const int64_t first = keys_from(a, 0), last = keys_to(a, a->n - 1);
    float *largest = floats_at(a, p.largest), *total = floats_at(a, p.total), *sums = floats_at(a, p.sums);
    memset(sums, 0, (size_t)(round_up(a->n, STRIPE) * p.wide) * sizeof *sums);
    for (int64_t i = 0; i < a->n; i++) {
        largest[i] = -INFINITY;
        total[i] = 0;
    }
    tw_amx_configure();
    pack_queries(a, &p);
    for (int64_t t = first; t < last; t += KEYS) {
        const key_block b = load_block(a, &p, t, last);
        for (int64_t i = 0; i < a->n; i += STRIPE) one_stripe(a, &p, &b, i);
    }
    _tile_release();
    for (int64_t i = 0; i < a->n; i++) finish(a, i, sums + i * p.wide, largest[i], total[i]);
}
