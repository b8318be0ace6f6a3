/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the product with q, k and v. A head's elements belong to neighbouring lanes, each of which has some
   pairs that follow one another. The product's columns have the two elements of a pair that rope rotates next to one
   another. A thread has the same pairs of several heads of a row, so that it loads their angles once. */
#include "base/divide.h"
#include "kernels/parts/reduce.h"
#include "vm/prefill/generate.h"

enum { STEP, Y, BIAS, ANGLES, Q_NORM, K_NORM, Q, K, V, FACTORS };
enum {
    LANES = 32,
    MOST_WIDTH = 4, /* Pairs that are loaded together. */
    MOST_PARTS = TW_PREFILL_HEAD / 2 / LANES,
    MOST_HEADS = 4 /* Heads of a thread. */
};

/* How a row is dealt to threads. */
typedef struct deal {
    int width;  /* Pairs of a lane's part: 4, 2 or 1. All of them are rotated, or none. */
    int lanes;  /* Lanes of a head, a power of two. */
    int parts;  /* Parts of a lane. The lane's next part is lanes * width pairs further. */
    int heads;  /* Heads of a thread. */
    int groups; /* Heads that a block has at a time. */
    int blocks; /* Blocks of a row. */
} deal;

static int heads_of(const tw_prefill_shape *s) {
    return (int)(s->m->n_heads + 2 * s->m->n_kv_heads);
}

static deal deal_of(const tw_prefill_shape *s) {
    const int pairs = (int)s->m->head_dim / 2, dims = (int)s->m->rope.dims;
    deal d = {.width = dims % 8 == 0 ? 4 : dims % 4 == 0 ? 2 : 1, .lanes = 1};
    while (d.lanes < LANES && d.lanes * d.width < pairs) d.lanes *= 2;
    d.parts = (int)tw_ceil_div(pairs, d.lanes * d.width);
    d.groups = TW_PREFILL_THREADS / d.lanes;
    const int64_t rounds = tw_ceil_div(heads_of(s), d.groups);
    d.blocks = (int)tw_ceil_div(rounds, MOST_HEADS);
    d.heads = (int)tw_ceil_div(rounds, d.blocks);
    return d;
}

static int64_t grid(const tw_prefill_shape *s) {
    return s->tokens * deal_of(s).blocks;
}

/* A part of a head: pairs of elements. */
typedef struct part {
    tw_val first;             /* Number of its first pair. */
    tw_val inside;            /* Predicate: the head has it, and the model the head. */
    tw_val turned;            /* Predicate: rope rotates its pairs. */
    tw_val low, high;         /* Places in the head of the first half of its elements, and of the second. */
    tw_val x[2 * MOST_WIDTH]; /* Elements, pair by pair. */
} part;

/* A head of a row. */
typedef struct head {
    tw_val number;     /* Its number among those of q, k and v. */
    tw_val is_q, is_v; /* Predicates. */
    part parts[MOST_PARTS];
} head;

/* Loads a part of a head of `row`, which has rotated pairs side by side, unless the model norms heads apart: then it
   has elements in their order. */
static void load_elements(tw_prefill_gen *g, const deal *d, const head *h, tw_val row, const part *p, tw_val *out) {
    tw_builder *b = g->b;
    const int n = 2 * d->width;
    tw_val start = tw_mul_imm(b, h->number, g->s->m->head_dim);
    if (!tw_model_norms_apart(g->s->m)) {
        tw_val at = tw_add(b, start, tw_shl(b, p->first, 1));
        tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, row, at, 4), n, p->inside, out);
        return;
    }
    tw_val x[2 * MOST_WIDTH];
    for (int half = 0; half < 2; half++) {
        tw_val at = tw_add(b, start, half ? p->high : p->low);
        tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, row, at, 4), d->width, p->inside, x + half * d->width);
    }
    for (int e = 0; e < n; e++) out[e] = tw_select(b, p->turned, x[e % 2 * d->width + e / 2], x[e]);
}

static void load_part(tw_prefill_gen *g, const deal *d, const head *h, tw_val row, part *p) {
    tw_builder *b = g->b;
    const int64_t size = g->s->m->head_dim;
    const int n = 2 * d->width, dims = (int)g->s->m->rope.dims;
    tw_val first = tw_shl(b, p->first, 1);
    tw_val exists = tw_lt(b, h->number, tw_i32(b, heads_of(g->s)));
    p->inside = tw_and(b, exists, tw_lt(b, p->first, tw_i32(b, (int)size / 2)));
    p->turned = tw_and(b, tw_not(b, h->is_v), tw_lt(b, first, tw_i32(b, dims)));
    p->low = tw_select(b, p->turned, p->first, first);
    p->high = tw_select(b, p->turned, tw_add_imm(b, p->first, dims / 2), tw_add_imm(b, first, d->width));
    load_elements(g, d, h, row, p, p->x);
    if (g->s->bias) {
        tw_val bias[2 * MOST_WIDTH];
        load_elements(g, d, h, g->buffer[BIAS], p, bias);
        for (int e = 0; e < n; e++) p->x[e] = tw_add(b, p->x[e], bias[e]);
    }
}

/* Orders elements as the head has them: the first half, which follow one another, and then the second. */
static void in_order(tw_prefill_gen *g, const deal *d, const part *p, tw_val out[2 * MOST_WIDTH]) {
    for (int i = 0; i < d->width; i++)
        for (int half = 0; half < 2; half++)
            out[half * d->width + i] = tw_select(g->b, p->turned, p->x[2 * i + half], p->x[half * d->width + i]);
}

/* Applies the RMS norm of queries and keys. `factors` are those of norms over all heads, of q and of k. */
static void norm(tw_prefill_gen *g, const deal *d, head *h, const tw_val *factors) {
    tw_builder *b = g->b;
    const tw_model *m = g->s->m;
    const int n = 2 * d->width;
    tw_val weights = tw_select(b, h->is_q, g->buffer[Q_NORM], g->buffer[K_NORM]), factor;
    if (m->qk_norm_whole) {
        tw_val before = tw_select(b, h->is_q, tw_i32(b, 0), tw_i32(b, (int)m->n_heads));
        tw_val of = tw_select(b, h->is_v, tw_i32(b, 0), tw_sub(b, h->number, before)); /* Values have no norm. */
        weights = tw_prefill_at(g, weights, of, m->head_dim * 4);
        factor = tw_select(b, h->is_q, factors[0], factors[1]);
    } else {
        tw_val squares = tw_f32(b, 0);
        for (int i = 0; i < d->parts; i++)
            for (int e = 0; e < n; e++) squares = tw_fma(b, h->parts[i].x[e], h->parts[i].x[e], squares);
        tw_val mean = tw_mul(b, tw_part_warp_sum(b, squares, 1, d->lanes), tw_f32(b, 1.0f / (float)m->head_dim));
        factor = tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, mean, tw_f32(b, m->norm_eps)));
    }
    for (int i = 0; i < d->parts; i++) {
        part *p = &h->parts[i];
        tw_val w[2 * MOST_WIDTH];
        tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, weights, p->low, 4), d->width, p->inside, w);
        tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, weights, p->high, 4), d->width, p->inside, w + d->width);
        for (int e = 0; e < n; e++) {
            /* Where pairs are rotated, the second of each is in the second half. */
            tw_val weight = tw_select(b, p->turned, w[e % 2 * d->width + e / 2], w[e]);
            p->x[e] = tw_select(b, h->is_v, p->x[e], tw_mul(b, p->x[e], tw_mul(b, factor, weight)));
        }
    }
}

/* Loads a part's angles: cosines, then sines. `angles` is the address of the position's cosines, which its sines
   follow. */
static void load_angles(tw_prefill_gen *g, const deal *d, tw_val angles, tw_val first, tw_val out[2 * MOST_WIDTH]) {
    const int half = (int)g->s->m->rope.dims / 2;
    if (!half) return;
    tw_val has = tw_lt(g->b, first, tw_i32(g->b, half)), at = tw_prefill_at(g, angles, first, 4);
    tw_prefill_load(g, TW_T_f32, at, d->width, has, out);
    tw_prefill_load(g, TW_T_f32, tw_add_imm(g->b, at, 4 * half), d->width, has, out + d->width);
}

static void turn(tw_prefill_gen *g, const deal *d, const tw_val *angles, part *p) {
    tw_builder *b = g->b;
    for (int i = 0; i < d->width && g->s->m->rope.dims; i++) {
        tw_val *x = p->x + 2 * i, c = angles[i], s = angles[d->width + i];
        tw_val first = tw_fma(b, x[1], tw_unary(b, TW_OP_neg_f32, s), tw_mul(b, x[0], c));
        tw_val second = tw_fma(b, x[1], c, tw_mul(b, x[0], s));
        x[0] = tw_select(b, p->turned, first, x[0]);
        x[1] = tw_select(b, p->turned, second, x[1]);
    }
}

static void store(tw_prefill_gen *g, tw_type t, tw_val to, int n, const tw_val *x) {
    if (n > 1)
        tw_prefill_store(g, t, to, n, x);
    else
        tw_prefill_store_one(g, t, to, x[0]);
}

/* Stores a part in the head of elements of a type at `to`, where `when` holds. */
static void store_part(tw_prefill_gen *g, const deal *d, const part *p, tw_type t, tw_val to, tw_val when) {
    tw_val x[2 * MOST_WIDTH];
    in_order(g, d, p, x);
    TW_IF (g->b, when) {
        store(g, t, tw_prefill_at(g, to, p->low, tw_prefill_bytes(t)), d->width, x);
        store(g, t, tw_prefill_at(g, to, p->high, tw_prefill_bytes(t)), d->width, x + d->width);
    }
}

static void store_head(tw_prefill_gen *g, const deal *d, const head *h, tw_val row, tw_val position) {
    tw_builder *b = g->b;
    const int queries = (int)g->s->m->n_heads, keys = (int)g->s->m->n_kv_heads;
    const tw_type t = g->s->type, kv = tw_prefill_element(g->s->kv);
    const int64_t size = g->s->m->head_dim * tw_prefill_bytes(t), kept = g->s->m->head_dim * tw_prefill_bytes(kv);
    tw_val to = tw_prefill_at(g, g->buffer[Q], tw_add(b, tw_mul_imm(b, row, queries), h->number), size);
    tw_val cache = tw_select(b, h->is_v, g->buffer[V], g->buffer[K]);
    tw_val before = tw_select(b, h->is_v, tw_i32(b, queries + keys), tw_i32(b, queries));
    tw_val kept_head = tw_add(b, tw_sub(b, h->number, before), tw_prefill_first_head(g, g->buffer[STEP], row));
    tw_val of = tw_prefill_at(g, cache, kept_head, g->s->max_seq * kept);
    of = tw_prefill_at(g, of, position, kept);
    for (int i = 0; i < d->parts; i++) {
        const part *p = &h->parts[i];
        if (t == kv) {
            store_part(g, d, p, t, tw_select(b, h->is_q, to, of), p->inside);
        } else {
            store_part(g, d, p, t, to, tw_and(b, p->inside, h->is_q));
            store_part(g, d, p, kv, of, tw_and(b, p->inside, tw_not(b, h->is_q)));
        }
    }
}

static void build(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const tw_model *m = g->s->m;
    const deal d = deal_of(g->s);
    const int queries = (int)m->n_heads, keys = (int)m->n_kv_heads, all = heads_of(g->s);
    tw_val row = tw_div(b, g->block, d.blocks), block = tw_rem(b, g->block, d.blocks);
    TW_IF (b, tw_lt(b, row, tw_prefill_step(g, g->buffer[STEP], TW_STEP_COUNT))) {
        head heads[MOST_HEADS];
        tw_val angles[MOST_PARTS][2 * MOST_WIDTH];
        tw_val position = tw_prefill_position(g, g->buffer[STEP], row);
        tw_val from = tw_prefill_at(g, g->buffer[Y], row, all * m->head_dim * 4);
        tw_val turns = tw_prefill_at(g, g->buffer[ANGLES], position, 4 * tw_mega_angles_of(m));
        tw_val lane = tw_mul_imm(b, tw_rem(b, g->thread, d.lanes), d.width), group = tw_div(b, g->thread, d.lanes);
        tw_val number = tw_add(b, tw_mul_imm(b, block, d.heads * d.groups), group);
        for (int j = 0; j < d.heads; j++) {
            head *h = &heads[j];
            *h = (head){.number = tw_add_imm(b, number, j * d.groups)};
            h->is_q = tw_lt(b, h->number, tw_i32(b, queries));
            h->is_v = tw_le(b, tw_i32(b, queries + keys), h->number);
            for (int i = 0; i < d.parts; i++) {
                h->parts[i].first = tw_add_imm(b, lane, i * d.lanes * d.width);
                load_part(g, &d, h, from, &h->parts[i]);
            }
        }
        for (int i = 0; i < d.parts; i++) load_angles(g, &d, turns, heads[0].parts[i].first, angles[i]);
        tw_val factors[2] = {{0}};
        if (m->qk_norm_whole)
            tw_ld_vec(b, (tw_attrs){.type = TW_T_f32, .vec = 2}, tw_prefill_at(g, g->buffer[FACTORS], row, 8), factors);
        for (int j = 0; j < d.heads; j++) {
            if (m->layers[0].q_norm.rows) norm(g, &d, &heads[j], factors);
            for (int i = 0; i < d.parts; i++) turn(g, &d, angles[i], &heads[j].parts[i]);
            store_head(g, &d, &heads[j], row, position);
        }
    }
}

const tw_prefill_kind tw_prefill_rope = {"prefill_rope",
                                         build,
                                         grid,
                                         {{"step", false},
                                          {"y", false},
                                          {"bias", false},
                                          {"angles", false},
                                          {"q_norm", false},
                                          {"k_norm", false},
                                          {"q", true},
                                          {"k", true},
                                          {"v", true},
                                          {"factors", false}}};

/* ---- factors: step, y, bias, factors. 1 / rms of all heads of q, and of k */

static int64_t row_each(const tw_prefill_shape *s) {
    return s->tokens;
}

static void build_factors(tw_prefill_gen *g) {
    enum { WIDE = 4 };
    tw_builder *b = g->b;
    const tw_model *m = g->s->m;
    const int64_t d = m->head_dim, first[3] = {0, m->n_heads * d, (m->n_heads + m->n_kv_heads) * d};
    TW_IF (b, tw_lt(b, g->block, tw_prefill_step(g, g->buffer[0], TW_STEP_COUNT))) {
        tw_val row = tw_prefill_at(g, g->buffer[1], g->block, heads_of(g->s) * d * 4), factor[2];
        for (int i = 0; i < 2; i++) {
            tw_val sum = tw_var_of(b, tw_f32(b, 0));
            TW_FOR (b, c, tw_add_imm(b, tw_mul_imm(b, g->thread, WIDE), first[i]), tw_i32(b, (int)first[i + 1]),
                    tw_i32(b, WIDE * TW_PREFILL_THREADS), false) {
                tw_val x[WIDE], bias[WIDE];
                tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, row, c, 4), WIDE, TW_NONE, x);
                if (g->s->bias) tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, g->buffer[2], c, 4), WIDE, TW_NONE, bias);
                for (int e = 0; e < WIDE; e++) {
                    tw_val y = g->s->bias ? tw_add(b, x[e], bias[e]) : x[e];
                    tw_op_to(b, sum, TW_OP_fma_f32, y, y, sum);
                }
            }
            tw_val all = tw_prefill_sum(g, sum, i ? "keys" : "queries");
            tw_val mean = tw_mul(b, all, tw_f32(b, 1.0f / (float)(first[i + 1] - first[i])));
            factor[i] = tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, mean, tw_f32(b, m->norm_eps)));
        }
        TW_IF (b, tw_eq(b, g->thread, tw_i32(b, 0)))
            tw_st(b, (tw_attrs){.type = TW_T_f32, .vec = 2}, tw_prefill_at(g, g->buffer[3], g->block, 8), factor);
    }
}

const tw_prefill_kind tw_prefill_factors = {
    "prefill_factors", build_factors, row_each, {{"step", false}, {"y", false}, {"bias", false}, {"factors", true}}};
