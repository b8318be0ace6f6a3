/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of some query heads over a part of the past, and the joining of parts. A few lanes share a cached position,
   so that each loads 16 bytes of it; a warp takes several positions at once, with its own running maximum and sum;
   those of the warps meet in shared memory. Everything is in powers of two. */
#include "vm/cuda/generate.h"

enum { WIDE = 8 /* elements a lane has of a head */, TOGETHER = 2 /* positions of a lane on their way at once */ };
#define LOWEST (-1e30f) /* a maximum before anything was seen: finite, so that differences are numbers */

typedef struct attention {
    tw_mega_gen *g;
    int lanes;                     /* that share a position: a power of two */
    tw_val mine;                   /* this lane's first element of a head; none beyond the head's end */
    tw_val inside;                 /* predicate */
    tw_val sub;                    /* which of a warp's positions */
    tw_val q[TW_MEGA_HEADS][WIDE]; /* variables, here and below */
    tw_val max[TW_MEGA_HEADS], sum[TW_MEGA_HEADS], acc[TW_MEGA_HEADS][WIDE];
} attention;

/* WIDE elements of a row of the cache into variables, as they are stored. */
static void load_row(attention *a, tw_val address, tw_val *out) {
    tw_builder *b = a->g->b;
    const bool floats = a->g->p->kv == TW_F32;
    for (int i = 0; i < (floats ? WIDE : WIDE / 2); i += 4)
        tw_ld_vec(b, (tw_attrs){.type = floats ? TW_T_f32 : TW_T_i32, .vec = 4, .offset = 4 * i, .cache = TW_CACHE_cg},
                  address, out + i);
}

/* Element i of what load_row brought. */
static tw_val element(attention *a, const tw_val *row, int i) {
    tw_builder *b = a->g->b;
    if (a->g->p->kv == TW_F32) return row[i];
    const tw_val pair = row[i / 2];
    if (a->g->p->kv == TW_F16) {
        tw_val h = tw_op_emit(b, i & 1 ? TW_OP_high_i16_i32 : TW_OP_low_i16_i32, pair, TW_NONE, TW_NONE);
        return tw_op_emit(b, TW_OP_cvt_f32_f16, tw_bitcast(b, TW_T_f16, h), TW_NONE, TW_NONE);
    }
    tw_val bits = i & 1 ? tw_and(b, pair, tw_i32(b, (int32_t)0xffff0000)) : tw_shl(b, pair, 16);
    return tw_bitcast(b, TW_T_f32, bits);
}

static tw_val exp2_of(tw_builder *b, tw_val x) {
    return tw_op_emit(b, TW_OP_exp2_f32, x, TW_NONE, TW_NONE);
}

static void load_queries(attention *a, tw_val q, tw_val position, tw_val head, tw_val heads) {
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    tw_val row = tw_mega_at(g, tw_mega_at(g, q, position, p->heads * p->head_dim * 4), head, p->head_dim * 4);
    row = tw_mega_at(g, row, a->mine, 4);
    tw_val x[TW_MEGA_HEADS][WIDE] = {{{0}}};
    for (int h = 0; h < TW_MEGA_HEADS; h++) {
        tw_val there = tw_and(b, a->inside, tw_lt(b, tw_i32(b, h), heads));
        for (int i = 0; i < WIDE; i += 4) {
            tw_attrs how = {.type = TW_T_f32, .vec = 4, .offset = (int)(h * p->head_dim + i) * 4, .cache = TW_CACHE_cg};
            tw_when(b, there);
            tw_ld_vec(b, how, row, x[h] + i);
        }
    }
    for (int h = 0; h < TW_MEGA_HEADS; h++) {
        for (int i = 0; i < WIDE; i++) {
            a->q[h][i] = tw_mul(b, x[h][i], tw_f32(b, p->attn_scale * 1.4426950408889634f));
            a->acc[h][i] = tw_var_of(b, tw_f32(b, 0));
        }
        a->max[h] = tw_var_of(b, tw_f32(b, LOWEST));
        a->sum[h] = tw_var_of(b, tw_f32(b, 0));
    }
}

/* One more position for head h. */
static void take_floats(attention *a, int h, const tw_val *k, const tw_val *v, tw_val there) {
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    tw_val dot = TW_NONE;
    for (int i = 0; i < WIDE; i++) dot = i ? tw_fma(b, a->q[h][i], k[i], dot) : tw_mul(b, a->q[h][i], k[i]);
    dot = tw_mega_warp_sum(g, dot, 1, a->lanes);
    tw_val max = tw_max(b, a->max[h], tw_select(b, there, dot, tw_f32(b, LOWEST)));
    tw_val keep = exp2_of(b, tw_sub(b, a->max[h], max));
    tw_val weight = tw_select(b, there, exp2_of(b, tw_sub(b, dot, max)), tw_f32(b, 0));
    tw_op_to(b, a->sum[h], TW_OP_fma_f32, a->sum[h], keep, weight);
    for (int i = 0; i < WIDE; i++) {
        tw_val before = tw_mul(b, a->acc[h][i], keep);
        tw_op_to(b, a->acc[h][i], TW_OP_fma_f32, weight, v[i], before);
    }
    tw_assign(b, a->max[h], max);
}

/* The same for all heads, from rows as they are stored. */
static void take(attention *a, const tw_val *k, const tw_val *v, tw_val there) {
    tw_val ks[WIDE], vs[WIDE];
    for (int i = 0; i < WIDE; i++) {
        ks[i] = element(a, k, i);
        vs[i] = element(a, v, i);
    }
    for (int h = 0; h < TW_MEGA_HEADS; h++) take_floats(a, h, ks, vs, there);
}

/* Positions first .. last - 1 of one key/value head, dealt out to the warps and their lanes. */
typedef struct past {
    tw_val k, v, first, last;
} past;

/* Keys and values of the lane's next positions: variables. */
typedef struct batch {
    tw_val k[TOGETHER][WIDE], v[TOGETHER][WIDE];
} batch;

static int of_warp(const attention *a) {
    return 32 / a->lanes;
}

static int round_of(const attention *a) {
    return of_warp(a) * a->g->p->tuning.warps; /* positions of one load of all warps */
}

static int words(const attention *a) {
    return a->g->p->kv == TW_F32 ? WIDE : WIDE / 2;
}

static void declare(attention *a, batch *x) {
    tw_builder *b = a->g->b;
    const tw_type t = a->g->p->kv == TW_F32 ? TW_T_f32 : TW_T_i32;
    for (int u = 0; u < TOGETHER; u++)
        for (int i = 0; i < words(a); i++) {
            x->k[u][i] = tw_var_of(b, tw_zero(b, t));
            x->v[u][i] = tw_var_of(b, tw_zero(b, t));
        }
}

static tw_val start_of(attention *a, const past *p) {
    tw_builder *b = a->g->b;
    return tw_add(b, p->first, tw_mul_imm(b, a->g->warp, of_warp(a)));
}

/* The rows of positions from `at` on that lie below `below`, and not below `from` (none: any). */
static void fetch(attention *a, const past *p, tw_val at, tw_val from, tw_val below, batch *x) {
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    const int es = (int)tw_dtype_bits(g->p->kv) / 8;
    const int64_t row = g->p->head_dim * es;
    for (int u = 0; u < TOGETHER; u++) {
        tw_val position = tw_add(b, tw_add_imm(b, at, (int64_t)u * round_of(a)), a->sub);
        tw_val there = tw_and(b, tw_lt(b, position, tw_min(b, p->last, below)), a->inside);
        if (from.id) there = tw_and(b, there, tw_le(b, from, position));
        tw_val k = tw_mega_at(g, tw_mega_at(g, p->k, position, row), a->mine, es);
        tw_val v = tw_mega_at(g, tw_mega_at(g, p->v, position, row), a->mine, es);
        tw_push_if(b, there);
        load_row(a, k, x->k[u]);
        load_row(a, v, x->v[u]);
        tw_pop(b);
    }
}

static void use(attention *a, const past *p, tw_val at, const batch *x) {
    tw_builder *b = a->g->b;
    for (int u = 0; u < TOGETHER; u++) {
        tw_val position = tw_add(b, tw_add_imm(b, at, (int64_t)u * round_of(a)), a->sub);
        take(a, x->k[u], x->v[u], tw_lt(b, position, p->last));
    }
}

/* All of them; the first batch is there already. */
static void walk(attention *a, const past *p, batch *x) {
    tw_builder *b = a->g->b;
    const int span = round_of(a) * TOGETHER;
    tw_val start = start_of(a, p), i = tw_push_for(b, start, p->last, tw_i32(b, 2 * span), false);
    tw_val second = tw_add_imm(b, i, span), third = tw_add_imm(b, i, 2 * span), all = p->last;
    fetch(a, p, second, TW_NONE, all, &x[1]);
    use(a, p, i, &x[0]);
    fetch(a, p, third, TW_NONE, all, &x[0]);
    tw_push_if(b, tw_lt(b, second, p->last));
    use(a, p, second, &x[1]);
    tw_pop(b);
    tw_pop(b);
}

/* A warp's sub-positions become one; its result goes to shared memory: [warp][head][head_dim + 2]. */
static void leave(attention *a) {
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    const int d = (int)g->p->head_dim;
    tw_val at = tw_add_imm(b, g->shared, g->p->scratch);
    at = tw_mega_at(g, at, g->warp, TW_MEGA_HEADS * (d + 2) * 4);
    for (int h = 0; h < TW_MEGA_HEADS; h++) {
        tw_val max = tw_mega_warp_max(g, tw_add(b, a->max[h], tw_f32(b, 0)), a->lanes, 32);
        tw_val scale = exp2_of(b, tw_sub(b, a->max[h], max));
        tw_val sum = tw_mega_warp_sum(g, tw_mul(b, a->sum[h], scale), a->lanes, 32), x[WIDE], first = a->mine;
        for (int i = 0; i < WIDE; i++) x[i] = tw_mul(b, a->acc[h][i], scale);
        /* Lanes that differ in one bit of their position's number exchange halves of their elements, which leaves each
           with fewer to exchange over the next bit. */
        int n = WIDE;
        for (int d2 = a->lanes; d2 < 32; d2 *= 2) {
            tw_val upper = tw_ne(b, tw_and(b, g->lane, tw_i32(b, d2)), tw_i32(b, 0));
            if (n == 2) {
                for (int i = 0; i < n; i++) x[i] = tw_mega_warp_sum(g, x[i], d2, 2 * d2);
                continue;
            }
            n /= 2;
            for (int i = 0; i < n; i++) {
                tw_val mine = tw_select(b, upper, x[i + n], x[i]), other = tw_select(b, upper, x[i], x[i + n]);
                tw_val got = tw_shfl(b, TW_MODE_bfly, other, tw_i32(b, d2), tw_i32(b, -1));
                x[i] = tw_add(b, mine, got);
            }
            first = tw_select(b, upper, tw_add_imm(b, first, n), first);
        }
        tw_push_if(b, a->inside);
        tw_attrs how = {.type = TW_T_f32, .vec = 2, .space = TW_SPACE_shared};
        tw_val to = tw_mega_at(g, at, first, 4);
        for (int i = 0; i < n; i += 2) {
            how.offset = (h * (d + 2) + i) * 4;
            tw_st(b, how, to, x + i);
        }
        tw_push_if(b, tw_eq(b, g->lane, tw_i32(b, 0)));
        how.offset = (h * (d + 2) + d) * 4;
        tw_st(b, how, at, (tw_val[]){max, sum});
        tw_pop(b);
        tw_pop(b);
    }
}

/* The warps' results joined: the finished head, or a part. */
static void finish(attention *a, tw_val out, tw_val position, tw_val head, tw_val heads, tw_val split, tw_val splits) {
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    const int d = (int)p->head_dim, warps = p->tuning.warps, one = TW_MEGA_HEADS * (d + 2) * 4;
    tw_val i = tw_mega_thread_loop(g, tw_mul_imm(b, heads, d)), h = tw_div(b, i, d), e = tw_rem(b, i, d);
    tw_val at = tw_mega_at(g, tw_add_imm(b, g->shared, p->scratch), h, (d + 2) * 4);
    tw_val cell = tw_mega_at(g, at, e, 4), m[16], most = TW_NONE, sum = TW_NONE, x = TW_NONE;
    for (int w = 0; w < warps; w++) {
        m[w] = tw_ld(b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared, .offset = w * one + d * 4}, at);
        most = w ? tw_max(b, most, m[w]) : m[w];
    }
    for (int w = 0; w < warps; w++) {
        tw_val scale = exp2_of(b, tw_sub(b, m[w], most));
        tw_val s = tw_ld(b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared, .offset = w * one + d * 4 + 4}, at);
        tw_val v = tw_ld(b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared, .offset = w * one}, cell);
        sum = w ? tw_fma(b, s, scale, sum) : tw_mul(b, s, scale);
        x = w ? tw_fma(b, v, scale, x) : tw_mul(b, v, scale);
    }
    tw_val all = tw_add(b, head, h);
    tw_push_if(b, tw_eq(b, splits, tw_i32(b, 1)));
    tw_val y = tw_op_emit(b, TW_OP_div_f32, x, sum, TW_NONE);
    tw_val to = tw_mega_at(g, tw_mega_at(g, out, position, p->heads * d * 4), all, d * 4);
    tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_mega_at(g, to, e, 4), &y);
    tw_push_else(b);
    tw_val slots = tw_mul_imm(b, splits, p->heads), slot = tw_fma(b, all, splits, split);
    slot = tw_fma(b, position, slots, slot);
    to = tw_mega_at(g, out, slot, (d + 2) * 4);
    tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_mega_at(g, to, e, 4), &x);
    tw_push_if(b, tw_eq(b, e, tw_i32(b, 0)));
    tw_st(b, (tw_attrs){.type = TW_T_f32, .vec = 2, .offset = 4 * d}, to, (tw_val[]){most, sum});
    tw_pop(b);
    tw_pop(b);
    tw_pop(b);
}

/* The part of what a position sees that a split covers. */
static void range(tw_mega_gen *g, tw_val position, tw_val window, tw_val split, tw_val splits, tw_val *first,
                  tw_val *last) {
    tw_builder *b = g->b;
    tw_val end = tw_add_imm(b, position, 1);
    tw_val far = tw_max(b, tw_sub(b, end, window), tw_i32(b, 0));
    tw_val start = tw_select(b, tw_lt(b, tw_i32(b, 0), window), far, tw_i32(b, 0)), n = tw_sub(b, end, start);
    tw_val low = tw_op_emit(b, TW_OP_div_u32, tw_mul(b, n, split), splits, TW_NONE);
    tw_val high = tw_op_emit(b, TW_OP_div_u32, tw_mul(b, n, tw_add_imm(b, split, 1)), splits, TW_NONE);
    *first = tw_add(b, start, low);
    *last = tw_add(b, start, high);
}

/* A key/value head's number in the cache of the row's sequence. */
static tw_val of_sequence(tw_mega_gen *g, tw_val kv_head, tw_val row) {
    tw_builder *b = g->b;
    return g->p->sequences > 1 ? tw_add(b, kv_head, tw_mul_imm(b, row, g->p->kv_heads)) : kv_head;
}

void tw_mega_build_attend(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    attention a = {.g = g, .lanes = 1};
    while (a.lanes * WIDE < p->head_dim) a.lanes *= 2;
    tw_val part = tw_rem(b, g->lane, a.lanes);
    a.mine = tw_mul_imm(b, part, WIDE);
    a.inside = tw_lt(b, a.mine, tw_i32(b, (int)p->head_dim));
    a.sub = tw_div(b, g->lane, a.lanes);
    const int per = (int)(p->heads / p->kv_heads), es = (int)tw_dtype_bits(p->kv) / 8;
    tw_val from = tw_mega_word(g, TW_W_FROM), end = tw_add(b, from, tw_mega_word(g, TW_W_COUNT));
    tw_val split = tw_mega_word(g, TW_W_STAGES), splits = tw_mega_word(g, TW_W_CHUNKS),
           window = tw_mega_word(g, TW_W_K);
    tw_val q = tw_mega_address(g, TW_W_IN), out = tw_mega_address(g, TW_W_OUT);
    tw_val k = tw_mega_address(g, TW_W_K_CACHE), v = tw_mega_address(g, TW_W_V_CACHE);
    tw_val first_row = tw_i32(b, 0), rows = g->arg[TW_MEGA_ARG_N];
    if (p->tokens > 1) {
        first_row = tw_mega_word(g, TW_W_UNITS);
        rows = tw_min(b, rows, tw_mega_word(g, TW_W_GROUP));
    }
    const int64_t of_head = p->max_seq * p->head_dim * es;
    batch x[2];
    declare(&a, &x[0]);
    declare(&a, &x[1]);
    /* What earlier steps left of the first batch is fetched before this step's is there. */
    tw_val before = p->sequences > 1 ? tw_mega_position(g, first_row) : g->pos;
    tw_val cached = of_sequence(g, tw_div(b, from, per), first_row);
    past now = {tw_mega_at(g, k, cached, of_head), tw_mega_at(g, v, cached, of_head), TW_NONE, TW_NONE};
    range(g, tw_mega_position(g, first_row), window, split, splits, &now.first, &now.last);
    fetch(&a, &now, start_of(&a, &now), TW_NONE, before, &x[0]);
    tw_mega_wait(g);
    tw_mega_mark(g, 2);
    tw_val fresh = tw_var_of(b, before); /* the first batch lacks what is from here on */
    tw_val row = tw_push_for(b, first_row, rows, tw_i32(b, 1), false), position = tw_mega_position(g, row);
    tw_val head = tw_var_of(b, from);
    tw_push_while(b);
    tw_push_while_body(b, tw_lt(b, head, end));
    /* As many heads as share this one's keys, at most TW_MEGA_HEADS. */
    tw_val kv_head = tw_div(b, head, per), shared = tw_sub(b, tw_mul_imm(b, tw_add_imm(b, kv_head, 1), per), head);
    tw_val heads = tw_min(b, tw_min(b, shared, tw_sub(b, end, head)), tw_i32(b, TW_MEGA_HEADS));
    cached = of_sequence(g, kv_head, row);
    past seen = {tw_mega_at(g, k, cached, of_head), tw_mega_at(g, v, cached, of_head), TW_NONE, TW_NONE};
    range(g, position, window, split, splits, &seen.first, &seen.last);
    /* What does not wait for the queries goes first. */
    fetch(&a, &seen, start_of(&a, &seen), fresh, seen.last, &x[0]);
    load_queries(&a, q, row, head, heads);
    tw_assign(b, fresh, tw_i32(b, 0));
    walk(&a, &seen, x);
    leave(&a);
    tw_mega_barrier(g);
    finish(&a, out, row, head, heads, split, splits);
    tw_op_to(b, head, TW_OP_add_i32, head, heads, TW_NONE);
    /* What the next heads leave goes where these are being read. */
    tw_mega_barrier(g);
    tw_pop(b);
    tw_pop(b);
}

/* A thread has an element of a head of a position, and adds up the splits' parts of it. */
void tw_mega_build_merge(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    enum { AT_ONCE = 16 };
    const int d = (int)p->head_dim, row = (d + 2) * 4;
    tw_val from = tw_mega_word(g, TW_W_FROM), count = tw_mega_word(g, TW_W_COUNT),
           splits = tw_mega_word(g, TW_W_CHUNKS);
    tw_val in = tw_mega_address(g, TW_W_IN), out = tw_mega_address(g, TW_W_OUT);
    tw_val elements = tw_mul_imm(b, count, d);
    tw_mega_wait(g);
    tw_mega_mark(g, 2);
    tw_val i = tw_mega_thread_loop(g, p->tokens > 1 ? tw_mul(b, elements, g->arg[TW_MEGA_ARG_N]) : elements);
    tw_val position = tw_i32(b, 0), in_row = i;
    if (p->tokens > 1) {
        position = tw_op_emit(b, TW_OP_div_u32, i, elements, TW_NONE);
        in_row = tw_sub(b, i, tw_mul(b, position, elements));
    }
    tw_val head = tw_add(b, from, tw_div(b, in_row, d)), e = tw_rem(b, in_row, d);
    tw_val slot = tw_mul(b, tw_fma(b, position, tw_i32(b, (int)p->heads), head), splits);
    tw_val at = tw_mega_at(g, in, slot, row);
    tw_val most = tw_var_of(b, tw_f32(b, LOWEST)), sum = tw_var_of(b, tw_f32(b, 0)), x = tw_var_of(b, tw_f32(b, 0));
    tw_val s = tw_push_for(b, tw_i32(b, 0), splits, tw_i32(b, AT_ONCE), false);
    tw_val there[AT_ONCE], v[AT_ONCE], ml[AT_ONCE][2] = {{{0}}}, m[AT_ONCE], l[AT_ONCE], max = most;
    for (int u = 0; u < AT_ONCE; u++) {
        tw_val one = tw_add_imm(b, s, u), head_of = tw_mega_at(g, at, one, row), mine = tw_mega_at(g, head_of, e, 4);
        there[u] = tw_lt(b, one, splits);
        tw_when(b, there[u]);
        v[u] = tw_ld(b, (tw_attrs){.type = TW_T_f32, .cache = TW_CACHE_cg}, mine);
        tw_when(b, there[u]);
        tw_ld_vec(b, (tw_attrs){.type = TW_T_f32, .vec = 2, .offset = 4 * d, .cache = TW_CACHE_cg}, head_of, ml[u]);
    }
    for (int u = 0; u < AT_ONCE; u++) {
        m[u] = tw_select(b, there[u], ml[u][0], tw_f32(b, LOWEST));
        l[u] = ml[u][1];
        max = tw_max(b, max, m[u]);
    }
    tw_val keep = exp2_of(b, tw_sub(b, most, max));
    tw_op_to(b, sum, TW_OP_mul_f32, sum, keep, TW_NONE);
    tw_op_to(b, x, TW_OP_mul_f32, x, keep, TW_NONE);
    for (int u = 0; u < AT_ONCE; u++) {
        tw_val weight = exp2_of(b, tw_sub(b, m[u], max));
        tw_op_to(b, sum, TW_OP_fma_f32, weight, l[u], sum);
        tw_op_to(b, x, TW_OP_fma_f32, weight, v[u], x);
    }
    tw_assign(b, most, max);
    tw_pop(b);
    tw_val y = tw_op_emit(b, TW_OP_div_f32, x, sum, TW_NONE);
    tw_val to = tw_mega_at(g, tw_mega_at(g, out, position, p->heads * d * 4), head, d * 4);
    tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_mega_at(g, to, e, 4), &y);
    tw_pop(b);
}
