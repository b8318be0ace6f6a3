/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions with weights: activations into shared memory, where all warps' products find them; the sums of the warps
   meet there too. */
#include "vm/cuda/generate.h"

enum {
    AHEAD = 4,        /* loads of normed activations on their way at once, */
    MOST = 2 * AHEAD, /* and of others, */
    COLUMNS = 2,      /* and of each of several positions, where there are registers for them */
    MANY = MOST       /* positions, or runs of columns, that are stored together */
};

/* Where activations of a chunk come from and go to, and what this thread's are normed with: found before the wait. */
typedef struct source {
    tw_val from, limit; /* variables: its first column, and how many there are from there on */
    tw_val w[AHEAD][4]; /* variables: the norm's weights of the thread's first columns */
    tw_val row[TW_CUDA_VM_TOKENS], to[TW_CUDA_VM_TOKENS], there[TW_CUDA_VM_TOKENS]; /* of each position */
} source;

typedef struct product {
    tw_mega_gen *g;
    tw_val kind, in, norm, columns, stages, chunks, positions;
    tw_val is_head, normed;
    tw_val width;     /* columns of a chunk */
    tw_val tag, mask; /* of what it reads, with plan.flags */
    tw_type pair;
    source of;
    tw_mega_stream stream;
} product;

/* ---- activations into shared memory */

/* A digit of four columns, lowest first: byte `d` of each. */
static tw_val digit_of(tw_builder *b, const tw_val *y, int d) {
    tw_val pair[2], pick = tw_i32(b, d | (d + 4) << 4);
    for (int i = 0; i < 2; i++) pair[i] = tw_op_emit(b, TW_OP_prmt_i32, y[2 * i], y[2 * i + 1], pick);
    return tw_op_emit(b, TW_OP_prmt_i32, pair[0], pair[1], tw_i32(b, 0x5410));
}

/* Four activations of a position: columns k + shift and on of the chunk, k the thread's and shift a number of whole
   blocks, if the warp has `there` any. */
typedef struct four {
    tw_val *x, k, there;
    int position, shift;
} four;

/* The largest magnitude of the warp's 128 activations, as bits. */
static tw_val largest(tw_builder *b, const tw_val *x) {
    tw_val most = TW_NONE;
    for (int i = 0; i < 4; i++) {
        tw_val size = tw_and(b, tw_bitcast(b, TW_T_i32, x[i]), tw_i32(b, INT32_MAX));
        most = i ? tw_max(b, most, size) : size;
    }
    return tw_get(b, TW_OP_redux_max_u32, (tw_attrs){0}, TW_T_i32, most, tw_i32(b, -1));
}

enum { INFINITE = 0x7f800000 };

/* As integers x / 2^e of 22 bits and a sign, where 2^e is above `most`; of base 256 with digits of -128 to 127. */
static void store_digits(product *o, const four *f, tw_val exponent) {
    enum { NUMBER = 0x4b400000 /* the float 1.5 * 2^23, behind whose point there are no bits */, MIDDLE = 0x8080 };
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_val scale = tw_bitcast(b, TW_T_f32, tw_sub(b, tw_i32(b, (int32_t)(275u << 23)), exponent)), y[4];
    for (int i = 0; i < 4; i++) {
        tw_val whole = tw_fma(b, f->x[i], scale, tw_bitcast(b, TW_T_f32, tw_i32(b, NUMBER)));
        y[i] = tw_add_imm(b, tw_bitcast(b, TW_T_i32, whole), MIDDLE - NUMBER);
    }
    tw_val half_block = tw_shr(b, f->k, 6), to = tw_mega_at(g, o->of.to[f->position], half_block, 256);
    to = tw_mega_at(g, tw_mega_at(g, to, tw_rem(b, tw_shr(b, f->k, 2), 4), 16), tw_rem(b, tw_shr(b, f->k, 4), 4), 4);
    for (int d = 0; d < TW_MEGA_DIGITS; d++) {
        tw_val word = digit_of(b, y, 2 - d), place = tw_xor(b, tw_rem(b, half_block, 2), tw_i32(b, d));
        if (d) word = tw_xor(b, word, tw_i32(b, (int32_t)0x80808080));
        tw_val at = tw_mega_at(g, to, place, 64);
        tw_when(b, f->there);
        tw_st(b, (tw_attrs){.type = TW_T_i32, .space = TW_SPACE_shared, .offset = 4 * f->shift}, at, &word);
    }
}

/* What makes the integers activations again; of what is no number, no number. */
static void store_scale(product *o, const four *f, tw_val most, tw_val exponent) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_val finite = tw_lt(b, most, tw_i32(b, INFINITE));
    tw_val scale = tw_select(b, finite, tw_add_imm(b, exponent, -(21 << 23)), tw_i32(b, INT32_MAX));
    tw_val cells = tw_add_imm(b, g->shared, g->p->scales + f->position * g->p->scales_pitch);
    tw_val at = tw_mega_at(g, cells, tw_shr(b, f->k, 7), 4), first = tw_eq(b, g->lane, tw_i32(b, 0));
    tw_when(b, tw_and(b, f->there, first));
    tw_st(b, (tw_attrs){.type = TW_T_i32, .space = TW_SPACE_shared, .offset = f->shift / TW_MEGA_BLOCK * 4}, at, &scale);
}

static void store_integers(product *o, const four *f, int n) {
    enum { LEAST = 32 << 23 /* so that neither scale is subnormal */ };
    tw_builder *b = o->g->b;
    tw_val most[MANY];
    for (int i = 0; i < n; i++) most[i] = largest(b, f[i].x);
    for (int i = 0; i < n; i++) {
        tw_val exponent = tw_max(b, tw_and(b, most[i], tw_i32(b, INFINITE)), tw_i32(b, LEAST));
        store_digits(o, &f[i], exponent);
        store_scale(o, &f[i], most[i], exponent);
    }
}

/* Each pair's upper halves and then what they leave, as a lane's fragment wants them. */
static void store_floats(product *o, const four *f, int n) {
    tw_builder *b = o->g->b;
    for (int i = 0; i < n; i++) {
        tw_val pair[4], at = tw_mega_at(o->g, o->of.to[f[i].position], f[i].k, 4);
        for (int e = 0; e < 4; e += 2)
            tw_mega_split(o->g, o->pair, f[i].x[e], f[i].x[e + 1], &pair[e], &pair[e + 1]);
        tw_when(b, f[i].there);
        tw_st(b, (tw_attrs){.type = o->pair, .vec = 4, .space = TW_SPACE_shared, .offset = 4 * f[i].shift}, at, pair);
    }
}

static void store(product *o, const four *f, int n) {
    if (o->g->p->body.units > 1)
        store_integers(o, f, n);
    else
        store_floats(o, f, n);
}

/* Activations of the thread's next columns, all on their way at once. */
static void load_columns(product *o, const tw_val *address, const tw_val *there, int n, tw_val (*x)[4]) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    if (!g->p->flags) {
        for (int i = 0; i < n; i++) {
            tw_when(b, there[i]);
            tw_ld_vec(b, (tw_attrs){.type = TW_T_f32, .vec = 4, .cache = TW_CACHE_cg}, address[i], x[i]);
        }
        return;
    }
    tw_mega_words w = {.width = 4, .tag = o->tag, .mask = o->mask};
    for (int i = 0; i < n; i++) {
        w.at[i] = address[i];
        w.there[i] = there[i];
    }
    tw_mega_poll(g, &w, n);
    for (int i = 0; i < n; i++)
        for (int e = 0; e < 4; e++) x[i][e] = tw_select(b, there[i], tw_mega_word_f32(g, &w, i, e), tw_f32(b, 0));
}

static int span(const product *o) { /* columns that all threads take at once */
    return 4 * tw_mega_threads(o->g->p);
}

/* Most columns of a chunk, those that fill its last stage among them. Normed is what has the model's width. */
static int64_t most_columns(const product *o, bool normed) {
    const tw_mega_plan *p = o->g->p;
    const int64_t of_body = tw_mega_stage_columns(p, &p->body), of_head = tw_mega_stage_columns(p, &p->head);
    const int64_t stage = of_body > of_head ? of_body : of_head, all = (p->dim + stage - 1) / stage * stage;
    return normed && all < p->chunk_most ? all : p->chunk_most;
}

/* How many runs of columns a thread loads at once. */
static int at_once(const product *o, bool normed) {
    const bool roomy = o->g->p->roomy && o->g->p->body.units == 1;
    const int most = o->g->p->tokens == 1 ? normed ? AHEAD : MOST : roomy ? COLUMNS : 1;
    const int64_t n = (most_columns(o, normed) + span(o) - 1) / span(o);
    return n < most ? (int)n : most;
}

/* The norm's weights of a thread's columns `k` and on of the chunk, where it has them. */
static void load_weights(product *o, tw_val k) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    for (int i = 0; i < at_once(o, true); i++) {
        tw_val column = tw_add_imm(b, k, i * span(o)), at = tw_mega_at(g, o->norm, tw_add(b, o->of.from, column), 4);
        tw_when(b, tw_and(b, o->normed, tw_lt(b, column, o->of.limit)));
        tw_ld_vec(b, (tw_attrs){.type = TW_T_f32, .vec = 4, .cache = TW_CACHE_nc}, at, o->of.w[i]);
    }
}

/* The thread's first columns, and after pop_columns those behind them, if a chunk has so many. */
static tw_val push_columns(const product *o, bool normed) {
    tw_builder *b = o->g->b;
    const int step = at_once(o, normed) * span(o);
    tw_val first = tw_shl(b, o->g->thread, 2);
    if (most_columns(o, normed) <= step) return first;
    tw_val end = tw_and(b, tw_add_imm(b, o->width, TW_MEGA_BLOCK - 1), tw_i32(b, -TW_MEGA_BLOCK));
    return tw_push_for(b, first, end, tw_i32(b, step), false);
}

static void pop_columns(product *o, tw_val k, bool normed) {
    const int step = at_once(o, normed) * span(o);
    if (most_columns(o, normed) <= step) return;
    if (normed) load_weights(o, tw_add_imm(o->g->b, k, step));
    tw_pop(o->g->b);
}

/* All that can be known of a chunk before its values are there. */
static void find_chunk(product *o, tw_val chunk) {
    tw_builder *b = o->g->b;
    tw_assign(b, o->of.from, tw_mul(b, chunk, o->width));
    tw_assign(b, o->of.limit, tw_min(b, o->width, tw_sub(b, o->columns, o->of.from)));
    load_weights(o, tw_shl(b, o->g->thread, 2));
}

static void find_source(product *o) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    source *s = &o->of;
    s->from = tw_var_of(b, tw_i32(b, 0));
    s->limit = tw_var_of(b, tw_i32(b, 0));
    for (int i = 0; i < 4 * at_once(o, true); i++) s->w[i / 4][i % 4] = tw_var_of(b, tw_f32(b, 0));
    for (int u = 0; u < g->p->tokens; u++) {
        tw_val position = tw_i32(b, u);
        s->row[u] = u ? tw_op_emit(b, TW_OP_mad_wide_s32, position, tw_mul_imm(b, o->columns, 4), o->in) : o->in;
        s->to[u] = tw_add_imm(b, g->shared, g->p->x + u * (int64_t)g->p->x_pitch);
        s->there[u] = tw_lt(b, position, o->positions);
    }
    find_chunk(o, tw_i32(b, 0));
}

/* Adds squares, and norms. */
static void norm_four(const product *o, tw_val squares, const tw_val *w, tw_val *x) {
    tw_builder *b = o->g->b;
    for (int e = 0; e < 4; e++) {
        tw_op_to(b, squares, TW_OP_fma_f32, x[e], x[e], squares);
        x[e] = tw_mul(b, x[e], w[e]);
    }
}

/* Each warp's squares of a position go to its own cell; a later chunk adds to it. */
static void leave_squares(product *o, tw_val squares, tw_val position, tw_val chunk) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_val sum = tw_mega_warp_sum(g, tw_add(b, squares, tw_f32(b, 0)), 1, 32);
    tw_push_if(b, tw_eq(b, g->lane, tw_i32(b, 0)));
    tw_val at = tw_add_imm(b, g->shared, g->p->sums);
    at = tw_mega_at(g, tw_mega_at(g, at, position, 4 * g->p->tuning.warps), g->warp, 4);
    const tw_attrs cell = {.type = TW_T_f32, .space = TW_SPACE_shared};
    tw_val again = tw_lt(b, tw_i32(b, 0), chunk);
    tw_when(b, again);
    tw_val before = tw_ld(b, cell, at);
    tw_st(b, cell, at, (tw_val[]){tw_add(b, sum, before)});
    tw_pop(b);
}

/* How many columns the chunk has from the first of the warp's on, whose k is this thread's. A warp stores all of its
   columns, zeros behind the last. */
static tw_val of_warp(const product *o, tw_val k) {
    tw_builder *b = o->g->b;
    return tw_sub(b, o->width, tw_sub(b, k, tw_shl(b, o->g->lane, 2)));
}

/* ---- one position */

/* The thread's next columns, all on their way at once. */
static void stage_columns(product *o, tw_val k, int n, tw_val squares) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_val x[MOST][4] = {{{0}}}, at[MOST], there[MOST], rest = tw_sub(b, o->of.limit, k), have = of_warp(o, k);
    tw_val first = tw_mega_at(g, o->of.row[0], tw_add(b, o->of.from, k), 4);
    four f[MOST];
    for (int i = 0; i < n; i++) {
        at[i] = tw_add_imm(b, first, 4 * i * span(o));
        there[i] = tw_lt(b, tw_i32(b, i * span(o)), rest);
        f[i] = (four){.x = x[i], .k = k, .shift = i * span(o), .there = tw_lt(b, tw_i32(b, i * span(o)), have)};
    }
    load_columns(o, at, there, n, x);
    for (int i = 0; i < n && squares.id; i++) norm_four(o, squares, o->of.w[i], x[i]);
    store(o, f, n);
}

static void stage_plain(product *o) {
    tw_builder *b = o->g->b;
    const int most = at_once(o, false), few = at_once(o, true);
    /* Attention's are hardly more than the model's width, an ffn's several times that. */
    if (few < most) {
        tw_push_if(b, tw_le(b, o->width, tw_i32(b, few * span(o))));
        stage_columns(o, tw_shl(b, o->g->thread, 2), few, TW_NONE);
        tw_push_else(b);
    }
    tw_val k = push_columns(o, false);
    stage_columns(o, k, most, TW_NONE);
    pop_columns(o, k, false);
    if (few < most) tw_pop(b);
}

static void stage_one(product *o, tw_val chunk) {
    tw_builder *b = o->g->b;
    tw_push_if(b, o->normed);
    tw_val squares = tw_var_of(b, tw_f32(b, 0)), k = push_columns(o, true);
    stage_columns(o, k, at_once(o, true), squares);
    pop_columns(o, k, true);
    leave_squares(o, squares, tw_i32(b, 0), chunk);
    tw_push_else(b);
    stage_plain(o);
    tw_pop(b);
}

/* ---- several positions */

/* Their loads are on their way together. squares: of each position, or NULL where they are not normed. */
static void stage_rows(product *o, const tw_val *squares) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const int columns = at_once(o, squares), T = g->p->tokens;
    const tw_attrs how = {.type = TW_T_f32, .vec = 4, .cache = TW_CACHE_cg};
    tw_val x[COLUMNS][TW_CUDA_VM_TOKENS][4] = {{{{0}}}}, first = push_columns(o, squares), k[COLUMNS];
    for (int i = 0; i < columns; i++) {
        k[i] = tw_add_imm(b, first, i * span(o));
        tw_val column = tw_add(b, o->of.from, k[i]), inside = tw_lt(b, k[i], o->of.limit);
        for (int u = 0; u < T; u++) {
            tw_val at = tw_mega_at(g, o->of.row[u], column, 4);
            tw_when(b, tw_and(b, inside, o->of.there[u]));
            tw_ld_vec(b, how, at, x[i][u]);
        }
    }
    for (int i = 0; i < columns; i++) {
        four f[TW_CUDA_VM_TOKENS];
        tw_val have = tw_lt(b, tw_i32(b, 0), of_warp(o, k[i]));
        for (int u = 0; u < T; u++) {
            if (squares) norm_four(o, squares[u], o->of.w[i], x[i][u]);
            f[u] = (four){.x = x[i][u], .position = u, .k = k[i], .there = tw_and(b, have, o->of.there[u])};
        }
        store(o, f, T);
    }
    pop_columns(o, first, squares);
}

static void stage_several(product *o, tw_val chunk) {
    tw_builder *b = o->g->b;
    tw_val squares[TW_CUDA_VM_TOKENS];
    tw_push_if(b, o->normed);
    for (int u = 0; u < o->g->p->tokens; u++) squares[u] = tw_var_of(b, tw_f32(b, 0));
    stage_rows(o, squares);
    for (int u = 0; u < o->g->p->tokens; u++) {
        tw_push_if(b, o->of.there[u]);
        leave_squares(o, squares[u], tw_i32(b, u), chunk);
        tw_pop(b);
    }
    tw_push_else(b);
    stage_rows(o, NULL);
    tw_pop(b);
}

/* A chunk's activations for all warps. */
static void stage_chunk(product *o, tw_val chunk, tw_mega_sums *sums) {
    if (o->g->p->tokens > 1)
        stage_several(o, chunk);
    else
        stage_one(o, chunk);
    tw_mega_barrier(o->g);
    if (o->g->p->flags) tw_mega_build_factor(o->g, sums);
}

/* ---- the products */

static void units(product *o, tw_val part, tw_val chunk, tw_val count) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    const tw_mega_units u = {.stream = &o->stream,
                             .part = part,
                             .chunk = chunk,
                             .count = count,
                             .stages = o->stages,
                             .positions = o->positions};
    if (tw_mega_same_format(&p->body, &p->head)) {
        tw_mega_build_units(g, &p->body, &u);
        return;
    }
    tw_push_if(b, o->is_head);
    tw_mega_build_units(g, &p->head, &u);
    tw_push_else(b);
    tw_mega_build_units(g, &p->body, &u);
    tw_pop(b);
}

/* A group's chunks, whose activations come one after another to the same place. */
static void chunks(product *o, tw_val first_unit, tw_val count, tw_val part, tw_mega_sums *sums) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_val chunk = tw_push_for(b, tw_i32(b, 0), o->chunks, tw_i32(b, 1), false);
    /* One chunk stays there for all groups. */
    tw_val many = tw_lt(b, tw_i32(b, 1), o->chunks), first = tw_eq(b, tw_or(b, first_unit, chunk), tw_i32(b, 0));
    tw_push_if(b, tw_or(b, many, first));
    tw_push_if(b, tw_not(b, first));
    find_chunk(o, chunk);
    /* The chunk before is still being multiplied by warps that are behind, and the group before being joined. */
    tw_mega_barrier(g);
    tw_pop(b);
    stage_chunk(o, chunk, sums);
    tw_pop(b);
    tw_mega_mark(g, 2);
    units(o, part, chunk, count);
    tw_pop(b);
}

/* A group: its products, then its epilogue. */
static void group(product *o, tw_val first_unit, tw_val count, tw_val part, tw_mega_sums *sums) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    if (g->p->one_chunk)
        units(o, part, tw_i32(b, 0), count);
    else
        chunks(o, first_unit, count, part, sums);
    tw_mega_mark(g, 3);
    tw_mega_barrier(g);
    sums->part = part;
    tw_val paired = tw_eq(b, o->kind, tw_i32(b, TW_MEGA_FFN));
    tw_val first_row = tw_mul_imm(b, first_unit, TW_MEGA_ROWS), rows = tw_mul_imm(b, count, TW_MEGA_ROWS);
    sums->first = tw_select(b, paired, tw_shr(b, first_row, 1), first_row);
    sums->rows = rows;
    tw_mega_build_epilogue(g, sums);
}

static product product_of(tw_mega_gen *g, tw_val kind) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    product o = {.g = g,
                 .kind = kind,
                 .in = tw_mega_address(g, TW_W_IN),
                 .norm = tw_mega_address(g, TW_W_NORM),
                 .columns = tw_mega_word(g, TW_W_K),
                 .stages = tw_mega_word(g, TW_W_STAGES),
                 .chunks = tw_mega_word(g, TW_W_CHUNKS),
                 .positions = g->arg[TW_MEGA_ARG_N],
                 .is_head = tw_eq(b, kind, tw_i32(b, TW_MEGA_HEAD)),
                 .pair = p->body.half ? TW_T_f16x2 : TW_T_bf16x2};
    o.normed = tw_op_emit(b, TW_OP_ne_i64, o.norm, tw_i64(b, 0), TW_NONE);
    const int64_t of_body = tw_mega_stage_columns(p, &p->body), of_head = tw_mega_stage_columns(p, &p->head);
    o.width = tw_mul_imm(b, o.stages, of_body);
    if (of_body != of_head) o.width = tw_select(b, o.is_head, tw_mul_imm(b, o.stages, of_head), o.width);
    if (p->tokens > 1 && !p->all_logits) {
        /* The head takes the last position alone. */
        tw_val last = tw_select(b, o.is_head, tw_add_imm(b, o.positions, -1), tw_i32(b, 0));
        o.in = tw_op_emit(b, TW_OP_mad_wide_s32, last, tw_mul_imm(b, o.columns, 4), o.in);
        o.positions = tw_select(b, o.is_head, tw_i32(b, 1), o.positions);
    }
    if (p->flags) {
        tw_val of_x = tw_mega_tag(g, false, p->uses_x), of_rest = tw_mega_tag(g, false, p->uses);
        o.tag = tw_select(b, tw_eq(b, kind, tw_i32(b, TW_MEGA_PROJECT)), of_rest, of_x);
        o.mask = tw_mega_mask(g);
    }
    return o;
}

static tw_mega_sums sums_of(const product *o) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_mega_sums sums = {.kind = o->kind, .positions = o->positions, .normed = o->normed};
    tw_val n = tw_op_emit(b, TW_OP_cvt_f32_s32, o->columns, TW_NONE, TW_NONE);
    sums.share = tw_op_emit(b, TW_OP_rcp_f32, n, TW_NONE, TW_NONE);
    for (int i = 0; i < g->p->sequences; i++) {
        sums.best[i] = tw_var_of(b, tw_f32(b, -3.4e38f));
        sums.best_row[i] = tw_var_of(b, tw_i32(b, INT32_MAX));
    }
    if (g->p->flags) sums.factor = tw_var_of(b, tw_f32(b, 1));
    if (g->p->tokens == 1) {
        tw_val early = tw_and(b, tw_mega_word(g, TW_W_KIND), tw_i32(b, TW_MEGA_EARLY));
        sums.early = tw_ne(b, early, tw_i32(b, 0));
        tw_mega_build_before(g, &sums);
    }
    return sums;
}

void tw_mega_build_product(tw_mega_gen *g, tw_val kind) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    product o = product_of(g, kind);
    tw_val count = tw_mega_word(g, TW_W_UNITS), group_units = tw_mega_word(g, TW_W_GROUP);
    tw_mega_sums sums = sums_of(&o);
    find_source(&o);
    tw_mega_begin_stream(g, &o.stream, o.is_head, tw_mega_word(g, TW_W_ALL));
    tw_mega_wait(g);
    tw_val part = tw_var_of(b, tw_add_imm(b, g->shared, p->part));
    const int part_bytes = p->tuning.warps * p->tokens * TW_MEGA_PART_ROWS * 4;
    if (p->one_chunk) {
        stage_chunk(&o, tw_i32(b, 0), &sums);
        tw_mega_mark(g, 2);
    }
    tw_val first = tw_push_for(b, tw_i32(b, 0), count, group_units, false);
    group(&o, first, tw_min(b, group_units, tw_sub(b, count, first)), part, &sums);
    if (p->part_buffers == 2) {
        /* The other half: a warp that is ahead must not overwrite what others still add up. */
        tw_val low = tw_add_imm(b, g->shared, p->part), other = tw_add_imm(b, low, part_bytes);
        tw_assign(b, part, tw_select(b, tw_eq(b, part, low), other, low));
    } else {
        tw_mega_barrier(g);
    }
    tw_pop(b);
    tw_push_if(b, o.is_head);
    tw_mega_build_best(g, &sums);
    tw_pop(b);
}
