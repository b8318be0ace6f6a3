/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions with weights: activations into shared memory, where all warps' products find them; the sums of the warps
   meet there too. */
#include "vm/cuda/generate.h"

enum {
    AHEAD = 4 /* loads of activations on their way at once, */,
    ROWS = 8,   /* and where there are several positions: so many of them, */
    COLUMNS = 2 /* and so many of each, where there are registers for them */
};

typedef struct product {
    tw_mega_gen *g;
    tw_val kind, in, norm, columns, stages, chunks, positions;
    tw_val is_head;
    tw_val width;     /* columns of a chunk */
    tw_val tag, mask; /* of what it reads, with plan.flags */
    tw_type pair;
} product;

/* ---- activations into shared memory */

/* Four activations as a lane's fragment wants them: where weights are floats each pair's upper halves and then what
   they leave, where they are integers the upper halves of both pairs first. */
static void store_four(product *o, const tw_val *x, tw_val at) {
    tw_builder *b = o->g->b;
    const int apart = o->g->p->body.units > 1 ? 2 : 1, next = 3 - apart;
    tw_val pair[4];
    for (int i = 0; i < 2; i++)
        tw_mega_split(o->g, o->pair, x[2 * i], x[2 * i + 1], &pair[i * next], &pair[i * next + apart]);
    tw_st(b, (tw_attrs){.type = o->pair, .vec = 4, .space = TW_SPACE_shared}, at, pair);
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

/* One position's columns of a chunk; where they are normed, times the norm's weights, and this thread's squares are
   added to `squares`. */
static void stage_columns(product *o, tw_val from, tw_val row, tw_val to, tw_val squares, bool normed) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    enum { MOST = 2 * AHEAD };
    const int threads = tw_mega_threads(g->p), span = 4 * threads, ahead = normed ? AHEAD : MOST;
    tw_val first = tw_push_for(b, tw_mul_imm(b, g->thread, 4), o->width, tw_i32(b, span * ahead), false);
    tw_val x[MOST][4] = {{{0}}}, w[MOST][4] = {{{0}}}, k[MOST], at[MOST], there[MOST];
    for (int i = 0; i < ahead; i++) {
        k[i] = tw_add_imm(b, first, (int64_t)i * span);
        tw_val column = tw_add(b, from, k[i]);
        there[i] = tw_and(b, tw_lt(b, column, o->columns), tw_lt(b, k[i], o->width));
        at[i] = tw_mega_at(g, row, column, 4);
        if (!normed) continue;
        tw_val weights = tw_mega_at(g, o->norm, column, 4);
        tw_when(b, there[i]);
        tw_ld_vec(b, (tw_attrs){.type = TW_T_f32, .vec = 4, .cache = TW_CACHE_nc}, weights, w[i]);
    }
    load_columns(o, at, there, ahead, x);
    for (int i = 0; i < ahead; i++) {
        for (int e = 0; e < 4 && normed; e++) {
            tw_op_to(b, squares, TW_OP_fma_f32, x[i][e], x[i][e], squares);
            x[i][e] = tw_mul(b, x[i][e], w[i][e]);
        }
        tw_push_if(b, tw_lt(b, k[i], o->width));
        store_four(o, x[i], tw_mega_at(g, to, k[i], 4));
        tw_pop(b);
    }
    tw_pop(b);
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

/* Up to ROWS positions of a step of several. */
typedef struct several {
    tw_val row[ROWS], to[ROWS], there[ROWS], squares[ROWS]; /* addresses, predicate, variable */
} several;

/* The same for them: their loads are on their way together. */
static void stage_rows(product *o, tw_val from, const several *s, bool normed) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const int span = 4 * tw_mega_threads(g->p), columns = g->p->roomy && g->p->body.units == 1 ? COLUMNS : 1;
    const tw_attrs four = {.type = TW_T_f32, .vec = 4, .cache = TW_CACHE_cg};
    tw_val first = tw_push_for(b, tw_mul_imm(b, g->thread, 4), o->width, tw_i32(b, span * columns), false);
    tw_val x[COLUMNS][ROWS][4] = {{{{0}}}}, w[COLUMNS][4] = {{{0}}}, k[COLUMNS];
    for (int i = 0; i < columns; i++) {
        k[i] = tw_add_imm(b, first, (int64_t)i * span);
        tw_val column = tw_add(b, from, k[i]);
        tw_val inside = tw_and(b, tw_lt(b, column, o->columns), tw_lt(b, k[i], o->width));
        for (int u = 0; u < ROWS; u++) {
            tw_val at = tw_mega_at(g, s->row[u], column, 4);
            tw_when(b, tw_and(b, inside, s->there[u]));
            tw_ld_vec(b, four, at, x[i][u]);
        }
        if (!normed) continue;
        tw_val weights = tw_mega_at(g, o->norm, column, 4);
        tw_when(b, inside);
        tw_ld_vec(b, (tw_attrs){.type = TW_T_f32, .vec = 4, .cache = TW_CACHE_nc}, weights, w[i]);
    }
    for (int i = 0; i < columns; i++)
        for (int u = 0; u < ROWS; u++) {
            for (int e = 0; e < 4 && normed; e++) {
                tw_op_to(b, s->squares[u], TW_OP_fma_f32, x[i][u][e], x[i][u][e], s->squares[u]);
                x[i][u][e] = tw_mul(b, x[i][u][e], w[i][e]);
            }
            tw_push_if(b, tw_and(b, tw_lt(b, k[i], o->width), s->there[u]));
            store_four(o, x[i][u], tw_mega_at(g, s->to[u], k[i], 4));
            tw_pop(b);
        }
    tw_pop(b);
}

static void stage_several(product *o, tw_val chunk) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_val from = tw_mul(b, chunk, o->width);
    tw_val position = tw_push_for(b, tw_i32(b, 0), o->positions, tw_i32(b, ROWS), false), one[ROWS];
    several s;
    for (int u = 0; u < ROWS; u++) {
        one[u] = tw_add_imm(b, position, u);
        s.there[u] = tw_lt(b, one[u], o->positions);
        s.row[u] = tw_op_emit(b, TW_OP_mad_wide_s32, one[u], tw_mul_imm(b, o->columns, 4), o->in);
        s.to[u] = tw_mega_at(g, tw_add_imm(b, g->shared, g->p->x), one[u], g->p->x_pitch);
    }
    tw_push_if(b, tw_op_emit(b, TW_OP_ne_i64, o->norm, tw_i64(b, 0), TW_NONE));
    for (int u = 0; u < ROWS; u++) s.squares[u] = tw_var_of(b, tw_f32(b, 0));
    stage_rows(o, from, &s, true);
    for (int u = 0; u < ROWS; u++) {
        tw_push_if(b, s.there[u]);
        leave_squares(o, s.squares[u], one[u], chunk);
        tw_pop(b);
    }
    tw_push_else(b);
    stage_rows(o, from, &s, false);
    tw_pop(b);
    tw_pop(b);
}

static void stage_chunk(product *o, tw_val chunk) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    if (g->p->tokens > 1) {
        stage_several(o, chunk);
        return;
    }
    tw_val from = tw_mul(b, chunk, o->width);
    tw_val position = tw_i32(b, 0), row = o->in, to = tw_add_imm(b, g->shared, g->p->x);
    tw_push_if(b, tw_op_emit(b, TW_OP_ne_i64, o->norm, tw_i64(b, 0), TW_NONE));
    tw_val squares = tw_var_of(b, tw_f32(b, 0));
    stage_columns(o, from, row, to, squares, true);
    leave_squares(o, squares, position, chunk);
    tw_push_else(b);
    stage_columns(o, from, row, to, TW_NONE, false);
    tw_pop(b);
}

/* ---- the products */

static void units(product *o, tw_val part, tw_val chunk, tw_val count) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    const tw_mega_units u = {
        .part = part, .chunk = chunk, .count = count, .stages = o->stages, .positions = o->positions};
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

/* A group: its chunks' activations and products, then its epilogue. */
static void group(product *o, tw_val first_unit, tw_val count, tw_val part, tw_mega_sums *sums) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_val chunk = tw_push_for(b, tw_i32(b, 0), o->chunks, tw_i32(b, 1), false);
    /* One chunk stays there for all groups. */
    tw_val many = tw_lt(b, tw_i32(b, 1), o->chunks), first = tw_eq(b, first_unit, tw_i32(b, 0));
    tw_push_if(b, tw_or(b, many, first));
    /* The chunk before is still being multiplied by warps that are behind, and the group before being joined. */
    tw_push_if(b, many);
    tw_mega_barrier(g);
    tw_pop(b);
    stage_chunk(o, chunk);
    tw_mega_barrier(g);
    if (g->p->flags) tw_mega_build_factor(g, sums);
    tw_pop(b);
    tw_mega_mark(g, 2);
    units(o, part, chunk, count);
    tw_pop(b);
    tw_mega_mark(g, 3);
    tw_mega_barrier(g);
    sums->part = part;
    tw_val paired = tw_eq(b, o->kind, tw_i32(b, TW_MEGA_FFN));
    tw_val first_row = tw_mul_imm(b, first_unit, TW_MEGA_ROWS), rows = tw_mul_imm(b, count, TW_MEGA_ROWS);
    sums->first = tw_select(b, paired, tw_shr(b, first_row, 1), first_row);
    sums->rows = rows;
    tw_mega_build_epilogue(g, sums);
}

void tw_mega_build_product(tw_mega_gen *g, tw_val kind) {
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
    const int64_t of_body = tw_mega_stage_columns(p, &p->body), of_head = tw_mega_stage_columns(p, &p->head);
    o.width = tw_mul_imm(b, o.stages, of_body);
    if (of_body != of_head) o.width = tw_select(b, o.is_head, tw_mul_imm(b, o.stages, of_head), o.width);
    tw_val count = tw_mega_word(g, TW_W_UNITS), group_units = tw_mega_word(g, TW_W_GROUP);
    if (p->tokens > 1 && !p->all_logits) {
        /* The head takes the last position alone. */
        tw_val last = tw_select(b, o.is_head, tw_add_imm(b, o.positions, -1), tw_i32(b, 0));
        o.in = tw_op_emit(b, TW_OP_mad_wide_s32, last, tw_mul_imm(b, o.columns, 4), o.in);
        o.positions = tw_select(b, o.is_head, tw_i32(b, 1), o.positions);
    }
    tw_mega_sums sums = {.kind = kind,
                         .positions = o.positions,
                         .columns = o.columns,
                         .normed = tw_op_emit(b, TW_OP_ne_i64, o.norm, tw_i64(b, 0), TW_NONE)};
    for (int i = 0; i < p->sequences; i++) {
        sums.best[i] = tw_var_of(b, tw_f32(b, -3.4e38f));
        sums.best_row[i] = tw_var_of(b, tw_i32(b, INT32_MAX));
    }
    if (p->flags) {
        tw_val of_x = tw_mega_tag(g, false, p->uses_x), of_rest = tw_mega_tag(g, false, p->uses);
        o.tag = tw_select(b, tw_eq(b, kind, tw_i32(b, TW_MEGA_PROJECT)), of_rest, of_x);
        o.mask = tw_mega_mask(g);
        sums.factor = tw_var_of(b, tw_f32(b, 1));
    }
    if (p->tokens == 1) {
        tw_val early = tw_and(b, tw_mega_word(g, TW_W_KIND), tw_i32(b, TW_MEGA_EARLY));
        sums.early = tw_ne(b, early, tw_i32(b, 0));
        tw_mega_build_before(g, &sums);
    }
    tw_mega_wait(g);
    tw_val part = tw_var_of(b, tw_add_imm(b, g->shared, p->part));
    const int part_bytes = p->tuning.warps * p->tokens * TW_MEGA_PART_ROWS * 4;
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
