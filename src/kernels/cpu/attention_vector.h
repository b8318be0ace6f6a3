/* SPDX-License-Identifier: Apache-2.0 */
/* Template: attention, compiled once for each vector_*.h included before it.

   Both ways go over the keys in blocks with a running maximum and sum a token. Few tokens: dot products along the keys
   as they lie. Many: keys are turned into columns once a block, and scores and values are products of register tiles.
 */
#include "kernels/cpu/attention_soft.h"
#include "kernels/cpu/tile_vector.h"

#include <string.h>

enum {
    KEYS = 128,          /* a block; a multiple of TILE_COLS */
    SCORES = KEYS + 16,  /* one row of scores; a cache line more, so that rows do not share a set */
    FEW = TILE_ROWS / 2, /* tokens below which tiles would be mostly empty */
    AHEAD = 8192         /* bytes: keys and values are two streams that take turns, each to be kept in flight */
};

/* Where everything lies in the scratch, in floats. The last member is how much there is. */
typedef struct plan {
    int64_t wide; /* dim, padded to whole tiles */
    int64_t query, sums, largest, total, keys, values, scores, end;
} plan;

static plan plan_of(int64_t dim, int64_t n) {
    plan p = {.wide = round_up(dim, TILE_COLS)};
    p.sums = p.query + round_up(n, TILE_ROWS) * p.wide;
    p.largest = p.sums + n * p.wide;
    p.total = p.largest + round_up(n, 16);
    p.keys = p.total + round_up(n, 16);
    p.values = p.keys + dim * KEYS;
    p.scores = p.values + KEYS * p.wide;
    p.end = p.scores + TILE_ROWS * SCORES;
    return p;
}

size_t VARIANT(tw_attention_scratch)(int64_t dim, int64_t n, int64_t span) {
    (void)span;
    return (size_t)round_up(plan_of(dim, n < FEW ? 1 : n).end, 16) * sizeof(float);
}

/* ---- few tokens ---- */

static inline void fetch(const float *from, int64_t floats) {
    for (int64_t i = 0; i < floats; i += 16) _mm_prefetch((const char *)(from + i) + AHEAD, _MM_HINT_T0);
}

static inline __m128 dot4(const float *q, const float *k, int64_t dim) {
    vf s[4];
    int64_t d = 0;
    fetch(k, 4 * dim);
    TW_UNROLL for (int i = 0; i < 4; i++) s[i] = v_zero();
    for (; d + LANES <= dim; d += LANES) {
        vf x = v_load(q + d);
        TW_UNROLL for (int i = 0; i < 4; i++) s[i] = v_fma(x, v_load(k + i * dim + d), s[i]);
    }
    if (d < dim) {
        vf x = v_load(q + d);
        TW_UNROLL for (int i = 0; i < 4; i++) s[i] = v_fma(x, v_load_part(k + i * dim + d, dim - d), s[i]);
    }
    __m256 pairs =
        _mm256_hadd_ps(_mm256_hadd_ps(v_fold(s[0]), v_fold(s[1])), _mm256_hadd_ps(v_fold(s[2]), v_fold(s[3])));
    return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

static float dot1(const float *q, const float *k, int64_t dim) {
    vf s = v_zero();
    for (int64_t d = 0; d < dim; d += LANES) s = v_fma(v_load(q + d), v_load_part(k + d, dim - d), s);
    return v_sum(s);
}

/* sums[0 .. LANES vectors - 1] += over keys of weight times value. */
static inline __attribute__((always_inline)) void weigh(const float *w, const float *v, int64_t n, int64_t dim,
                                                        int vectors, float *sums) {
    vf acc[8];
    TW_UNROLL for (int j = 0; j < vectors; j++) acc[j] = v_load(sums + j * LANES);
    for (int64_t t = 0; t < n; t++) {
        vf x = v_set(w[t]);
        fetch(v + t * dim, vectors * LANES);
        TW_UNROLL for (int j = 0; j < vectors; j++) acc[j] = v_fma(x, v_load(v + t * dim + j * LANES), acc[j]);
    }
    TW_UNROLL for (int j = 0; j < vectors; j++) v_store(sums + j * LANES, acc[j]);
}

static void weigh_all(const float *w, const float *v, int64_t n, int64_t dim, float *sums) {
    int64_t d = 0;
    for (; d + 8 * LANES <= dim; d += 8 * LANES) weigh(w, v + d, n, dim, 8, sums + d);
    for (; d + 4 * LANES <= dim; d += 4 * LANES) weigh(w, v + d, n, dim, 4, sums + d);
    for (; d + LANES <= dim; d += LANES) weigh(w, v + d, n, dim, 1, sums + d);
    if (d == dim) return;
    vf acc = v_load(sums + d);
    for (int64_t t = 0; t < n; t++) acc = v_fma(v_set(w[t]), v_load_part(v + t * dim + d, dim - d), acc);
    v_store(sums + d, acc);
}

static void one_token(const tw_attention *a, const plan *p, int64_t i) {
    float *base = a->scratch, *q = base + p->query, *sums = base + p->sums, *scores = base + p->scores;
    float largest = -INFINITY, total = 0;
    int64_t to = keys_to(a, i);
    for (int64_t d = 0; d < p->wide; d++) {
        q[d] = d < a->dim ? a->q[i * a->ldq + d] * a->scale : 0;
        sums[d] = 0;
    }
    for (int64_t t = keys_from(a, i); t < to; t += KEYS) {
        int64_t n = least(KEYS, to - t), j = 0;
        for (; j + 4 <= n; j += 4) _mm_storeu_ps(scores + j, dot4(q, a->k + (t + j) * a->dim, a->dim));
        for (; j < n; j++) scores[j] = dot1(q, a->k + (t + j) * a->dim, a->dim);
        if (a->cap > 0) cap_scores(a->cap, scores, n);
        vf factor = v_set(soften(scores, n, &largest, &total));
        for (int64_t d = 0; d < p->wide; d += LANES) v_store(sums + d, v_mul(v_load(sums + d), factor));
        weigh_all(scores, a->v + t * a->dim, n, a->dim, sums);
    }
    finish(a, i, sums, largest, total);
}

/* ---- many tokens ---- */

static inline void transpose8(const float *from, int64_t stride, float *to, int64_t out) {
    __m256 r[8], s[8];
    TW_UNROLL for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(from + i * stride);
    TW_UNROLL for (int i = 0; i < 4; i++) {
        s[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        s[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    TW_UNROLL for (int i = 0; i < 2; i++) {
        r[4 * i] = _mm256_shuffle_ps(s[4 * i], s[4 * i + 2], 0x44);
        r[4 * i + 1] = _mm256_shuffle_ps(s[4 * i], s[4 * i + 2], 0xee);
        r[4 * i + 2] = _mm256_shuffle_ps(s[4 * i + 1], s[4 * i + 3], 0x44);
        r[4 * i + 3] = _mm256_shuffle_ps(s[4 * i + 1], s[4 * i + 3], 0xee);
    }
    TW_UNROLL for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * out, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * out, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

/* n keys as columns, [dim][KEYS]; columns up to a whole tile are zero. */
static void turn_keys(const float *k, int64_t n, int64_t dim, float *out) {
    int64_t padded = round_up(n, TILE_COLS), t = 0;
    for (; t + 8 <= n; t += 8) {
        int64_t d = 0;
        for (; d + 8 <= dim; d += 8) transpose8(k + t * dim + d, dim, out + d * KEYS + t, KEYS);
        for (; d < dim; d++)
            for (int j = 0; j < 8; j++) out[d * KEYS + t + j] = k[(t + j) * dim + d];
    }
    for (; t < padded; t++)
        for (int64_t d = 0; d < dim; d++) out[d * KEYS + t] = t < n ? k[t * dim + d] : 0;
}

/* q times scale, TILE_ROWS tokens at a time, [dim][TILE_ROWS]. */
static void turn_queries(const tw_attention *a, float *out) {
    for (int64_t i = 0; i < a->n; i += TILE_ROWS, out += TILE_ROWS * a->dim)
        for (int64_t r = 0; r < TILE_ROWS; r++)
            for (int64_t d = 0; d < a->dim; d++)
                out[d * TILE_ROWS + r] = i + r < a->n ? a->q[(i + r) * a->ldq + d] * a->scale : 0;
}

/* A block of keys, and its values in rows `stride` apart that are read in whole tiles. */
typedef struct key_block {
    int64_t first, count, stride;
    const float *keys, *values;
} key_block;

static key_block load_block(const tw_attention *a, const plan *p, int64_t t, int64_t last) {
    float *base = a->scratch, *values = base + p->values;
    key_block b = {t, least(KEYS, last - t), a->dim, base + p->keys, a->v + t * a->dim};
    turn_keys(a->k + t * a->dim, b.count, a->dim, base + p->keys);
    if (p->wide == a->dim) return b;
    for (int64_t j = 0; j < b.count; j++) {
        memcpy(values + j * p->wide, b.values + j * a->dim, (size_t)a->dim * sizeof(float));
        memset(values + j * p->wide + a->dim, 0, (size_t)(p->wide - a->dim) * sizeof(float));
    }
    b.stride = p->wide;
    b.values = values;
    return b;
}

/* Row r of the scores, of which columns c .. end - 1 were computed: what the token does not see becomes nothing. */
static void soften_row(const tw_attention *a, const plan *p, const key_block *b, int64_t i, float *scores, int64_t c,
                       int64_t end) {
    float *base = a->scratch, *sums = base + p->sums + i * p->wide;
    int64_t from = most(keys_from(a, i) - b->first, c), to = least(keys_to(a, i) - b->first, b->count);
    if (a->cap > 0) cap_scores(a->cap, scores + c, end - c);
    for (int64_t j = c; j < least(from, end); j++) scores[j] = -INFINITY;
    for (int64_t j = most(to, c); j < end; j++) scores[j] = -INFINITY;
    float factor = soften(scores + c, end - c, base + p->largest + i, base + p->total + i);
    if (factor == 1) return;
    for (int64_t d = 0; d < p->wide; d += LANES) v_store(sums + d, v_mul(v_load(sums + d), v_set(factor)));
}

/* Tokens i .. i + rows - 1 against a block of keys. */
static void one_stripe(const tw_attention *a, const plan *p, const key_block *b, int64_t i, int rows) {
    int64_t lo = most(keys_from(a, i), b->first) - b->first;
    int64_t hi = least(keys_to(a, i + rows - 1), b->first + b->count) - b->first;
    if (lo >= hi) return;
    int64_t c = lo / TILE_COLS * TILE_COLS, end = round_up(hi, TILE_COLS);
    float *base = a->scratch, *scores = base + p->scores;
    tile_args t = {.a = base + p->query + i * a->dim, .step = KEYS, .depth = a->dim, .ldy = SCORES, .first = true};
    for (int64_t j = c; j < end; j += TILE_COLS) {
        t.b[0] = b->keys + j;
        t.b[1] = t.b[0] + LANES;
        t.y = scores + j;
        tile_rows(&t, rows, 2, 1, TILE_ROWS);
    }
    for (int r = 0; r < rows; r++) soften_row(a, p, b, i + r, scores + r * SCORES, c, end);
    t = (tile_args){.a = scores + c, .step = b->stride, .depth = hi - c, .ldy = p->wide};
    for (int64_t d = 0; d < p->wide; d += TILE_COLS) {
        t.b[0] = b->values + c * b->stride + d;
        t.b[1] = t.b[0] + LANES;
        t.y = base + p->sums + i * p->wide + d;
        tile_rows(&t, rows, 2, SCORES, 1);
    }
}

static void many_tokens(const tw_attention *a, const plan *p) {
    float *base = a->scratch;
    int64_t first = keys_from(a, 0), last = keys_to(a, a->n - 1);
    turn_queries(a, base + p->query);
    memset(base + p->sums, 0, (size_t)(a->n * p->wide) * sizeof(float));
    for (int64_t i = 0; i < a->n; i++) {
        base[p->largest + i] = -INFINITY;
        base[p->total + i] = 0;
    }
    for (int64_t t = first; t < last; t += KEYS) {
        key_block b = load_block(a, p, t, last);
        for (int64_t i = 0; i < a->n; i += TILE_ROWS) one_stripe(a, p, &b, i, (int)least(TILE_ROWS, a->n - i));
    }
    for (int64_t i = 0; i < a->n; i++)
        finish(a, i, base + p->sums + i * p->wide, base[p->largest + i], base[p->total + i]);
}

void VARIANT(tw_attention)(const tw_attention *a) {
    plan p = plan_of(a->dim, a->n < FEW ? 1 : a->n);
    if (a->n >= FEW)
        many_tokens(a, &p);
    else
        for (int64_t i = 0; i < a->n; i++) one_token(a, &p, i);
}
