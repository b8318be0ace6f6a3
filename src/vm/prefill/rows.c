/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels whose blocks have a row each. Threads take four columns at a time. */
#include "base/divide.h"
#include "kernels/parts/meet.h"
#include "kernels/parts/reduce.h"
#include "tilewright/schedule.h"
#include "vm/cuda/generate.h"
#include "vm/prefill/generate.h"

#include <string.h>

enum {
    WIDE = 4,
    MOST_PARTS = TW_PROMPT_PARTS,
    MOST_ROUNDS = 8 /* The most rounds whose columns a thread keeps in registers. */
};

static int64_t row_each(const tw_prefill_shape *s) {
    return s->tokens;
}

/* Returns the columns that a block's threads take together. */
static int round_of(const tw_prefill_gen *g) {
    return WIDE * g->threads;
}

/* Opens a loop over a thread's columns. */
static tw_scope columns_of(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    return tw_push_for(b, tw_mul_imm(b, g->thread, WIDE), tw_i32(b, (int)g->s->columns), tw_i32(b, round_of(g)), false);
}

/* ---- embed: step, table, x, positions, gains, scaled, squares, found */

/* Adds the learned position's columns from c on. */
static void add_position(tw_prefill_gen *g, tw_val c, tw_val *x) {
    tw_builder *b = g->b;
    const tw_type t = tw_prefill_element(g->s->m->positions.dtype);
    tw_val position = tw_prefill_position(g, g->buffer[0], g->block), y[WIDE];
    tw_val row = tw_prefill_at(g, g->buffer[3], position, g->s->columns * tw_prefill_bytes(t));
    tw_prefill_load(g, t, tw_prefill_at(g, row, c, tw_prefill_bytes(t)), WIDE, TW_NONE, y);
    for (int i = 0; i < WIDE; i++) x[i] = tw_add(b, x[i], y[i]);
}

/* Loads the row's token. Of many sequences, the host may not know it yet. */
static tw_val token_of(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    if (!g->s->many)
        return tw_prefill_step(g, tw_prefill_at(g, g->buffer[0], g->block, sizeof(int32_t)), TW_STEP_TOKENS);
    tw_val token = tw_var_of(b, tw_prefill_row_word(g, g->buffer[0], g->block, TW_ROW_TOKEN));
    TW_IF (b, tw_lt(b, token, tw_i32(b, 0))) {
        tw_val sequence = tw_prefill_row_word(g, g->buffer[0], g->block, TW_ROW_SEQUENCE);
        tw_assign(b, token, tw_ld(b, (tw_attrs){.type = TW_T_i32}, tw_prefill_at(g, g->buffer[7], sequence, 4)));
    }
    return token;
}

static void add_squares_of(tw_builder *b, tw_val sum, const tw_val *x) {
    for (int i = 0; i < WIDE; i++) tw_op_to(b, sum, TW_OP_fma_f32, x[i], x[i], sum);
}

/* Stores the columns of a row from c on, times the next norm's weights. */
static void store_gained(tw_prefill_gen *g, tw_val c, const tw_val *x) {
    tw_val gains[WIDE], y[WIDE];
    const int es = tw_prefill_bytes(g->s->type);
    tw_val to = tw_prefill_at(g, g->buffer[5], g->block, g->s->columns * es);
    tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, g->buffer[4], c, 4), WIDE, TW_NONE, gains);
    for (int i = 0; i < WIDE; i++) y[i] = tw_mul(g->b, x[i], gains[i]);
    tw_prefill_store(g, g->s->type, tw_prefill_at(g, to, c, es), WIDE, y);
}

static void build_embed(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const tw_type t = tw_prefill_element(g->s->m->embed.dtype);
    const int64_t columns = g->s->columns;
    TW_IF (b, tw_lt(b, g->block, tw_prefill_step(g, g->buffer[0], TW_STEP_COUNT))) {
        tw_val token = token_of(g);
        tw_val from = tw_prefill_at(g, g->buffer[1], token, columns * tw_prefill_bytes(t));
        tw_val to = tw_prefill_at(g, g->buffer[2], g->block, columns * 4), sum = tw_var_of(b, tw_f32(b, 0));
        TW_LOOP (b, c, columns_of(g)) {
            tw_val x[WIDE];
            tw_prefill_load(g, t, tw_prefill_at(g, from, c, tw_prefill_bytes(t)), WIDE, TW_NONE, x);
            for (int i = 0; i < WIDE && g->s->m->embed_scale != 1; i++)
                x[i] = tw_mul(b, x[i], tw_f32(b, g->s->m->embed_scale));
            if (g->s->m->positions.rows) add_position(g, c, x);
            tw_prefill_store(g, TW_T_f32, tw_prefill_at(g, to, c, 4), WIDE, x);
            if (!g->s->fused) continue;
            store_gained(g, c, x);
            add_squares_of(b, sum, x);
        }
        if (g->s->fused) {
            sum = tw_prefill_sum(g, sum, "sums");
            tw_val at = tw_prefill_at(g, g->buffer[6], g->block, 4);
            tw_when(b, tw_eq(b, g->thread, tw_i32(b, 0)));
            tw_st(b, (tw_attrs){.type = TW_T_f32}, at, &sum);
        }
    }
}

const tw_prefill_kind tw_prefill_embed = {"prefill_embed",
                                          build_embed,
                                          row_each,
                                          {{"step", false},
                                           {"table", false},
                                           {"x", true},
                                           {"positions", false},
                                           {"gains", false},
                                           {"scaled", true},
                                           {"squares", true},
                                           {"found", false}}};

/* ---- norm: step, x, weight, y, bias */

tw_val tw_prefill_sum(tw_prefill_gen *g, tw_val x, const char *name) {
    tw_builder *b = g->b;
    const int warps = g->threads / 32;
    tw_shared_add(b, name, warps * 4, 16, false);
    tw_val shared = tw_shared_base(b, name), of_warp = tw_part_warp_sum(b, x, 1, 32);
    tw_val sums[TW_PREFILL_MOST_WARPS] = {{0}};
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) {
        tw_val to = tw_add(b, shared, tw_mul_imm(b, g->warp, 4));
        tw_st(b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared}, to, &of_warp);
    }
    tw_part_meet(b, &(tw_meeting){0});
    for (int i = 0; i < warps; i += 4)
        tw_ld_vec(b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared, .vec = 4, .offset = 4 * i}, shared,
                  sums + i);
    tw_val sum = sums[0];
    for (int i = 1; i < warps; i++) sum = tw_add(b, sum, sums[i]);
    return sum;
}

/* A thread's columns of a row, four in each round of the block. Rows of more are loaded anew by every pass. */
typedef struct row {
    tw_val from; /* Address of the row. */
    bool kept;   /* All of the thread's columns are in registers. */
    tw_val x[MOST_ROUNDS][WIDE];
} row;

/* Returns the thread's column of a round. *inside becomes whether the row has it, or TW_NONE: it does. */
static tw_val column_of(tw_prefill_gen *g, int round, tw_val *inside) {
    tw_builder *b = g->b;
    tw_val c = tw_add_imm(b, tw_mul_imm(b, g->thread, WIDE), (int64_t)round * round_of(g));
    const bool whole = (round + 1) * round_of(g) <= g->s->columns;
    *inside = whole ? TW_NONE : tw_lt(b, c, tw_i32(b, (int)g->s->columns));
    return c;
}

static int rounds_of(const tw_prefill_gen *g) {
    return (int)tw_ceil_div(g->s->columns, round_of(g));
}

static void load_row(tw_prefill_gen *g, tw_val from, row *r) {
    *r = (row){.from = from, .kept = rounds_of(g) <= MOST_ROUNDS};
    for (int i = 0; r->kept && i < rounds_of(g); i++) {
        tw_val inside, c = column_of(g, i, &inside);
        tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, from, c, 4), WIDE, inside, r->x[i]);
    }
}

/* Loads four columns of a row and of all parts of a product, and adds them up in the parts' order. */
static void add_parts(tw_prefill_gen *g, tw_val from, tw_val c, tw_val inside, tw_val x[WIDE]) {
    tw_builder *b = g->b;
    const int parts = g->s->parts;
    const int64_t bytes = g->s->columns * 4;
    tw_val y[MOST_PARTS][WIDE], at = tw_prefill_at(g, tw_prefill_at(g, g->buffer[5], g->block, bytes), c, 4);
    tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, from, c, 4), WIDE, inside, x);
    for (int i = 0; i < parts; i++)
        tw_prefill_load(g, TW_T_f32, tw_add_imm(b, at, i * g->s->tokens * bytes), WIDE, inside, y[i]);
    for (int i = 0; i < parts; i++)
        for (int j = 0; j < WIDE; j++) x[j] = tw_add(b, x[j], y[i][j]);
}

/* Adds the parts to a row of x, whose columns the block keeps. All loads come first, since none passes a store. */
static void load_sum(tw_prefill_gen *g, tw_val from, row *r) {
    tw_builder *b = g->b;
    tw_val inside;
    *r = (row){.from = from, .kept = true};
    for (int i = 0; i < rounds_of(g); i++) {
        tw_val c = column_of(g, i, &inside);
        add_parts(g, from, c, inside, r->x[i]);
    }
    for (int i = 0; i < rounds_of(g); i++) {
        tw_val c = column_of(g, i, &inside);
        const tw_scope scope = inside.id ? tw_push_if(b, inside) : TW_NO_BLOCK;
        tw_prefill_store(g, TW_T_f32, tw_prefill_at(g, from, c, 4), WIDE, r->x[i]);
        if (inside.id) tw_pop(b, scope);
    }
}

/* What a pass does with four columns from c on, in a round (-1: any). */
typedef void visit(tw_prefill_gen *g, int round, tw_val c, tw_val x[WIDE], void *context);

/* Visits the thread's columns. */
static void pass(tw_prefill_gen *g, row *r, visit *each, void *context) {
    tw_builder *b = g->b;
    for (int i = 0; r->kept && i < rounds_of(g); i++) {
        tw_val inside, c = column_of(g, i, &inside);
        const tw_scope scope = inside.id ? tw_push_if(b, inside) : TW_NO_BLOCK;
        each(g, i, c, r->x[i], context);
        if (inside.id) tw_pop(b, scope);
    }
    if (r->kept) return;
    TW_LOOP (b, c, columns_of(g)) {
        tw_val x[WIDE];
        tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, r->from, c, 4), WIDE, TW_NONE, x);
        each(g, -1, c, x, context);
    }
}

/* A row that is being normed. */
typedef struct normed {
    tw_val sum;    /* The sum that a pass adds to. */
    tw_val center; /* The row's mean. TW_NONE: 0. */
    tw_val factor; /* What elements are multiplied by. */
    tw_val to;     /* Address of the row's result. */
    /* The norm's weights and biases of the thread's columns. Only if the row is kept. */
    tw_val weight[MOST_ROUNDS][WIDE], bias[MOST_ROUNDS][WIDE];
} normed;

static void add_up(tw_prefill_gen *g, int round, tw_val c, tw_val x[WIDE], void *context) {
    const normed *n = context;
    (void)round, (void)c;
    for (int i = 0; i < WIDE; i++) tw_op_to(g->b, n->sum, TW_OP_add_f32, n->sum, x[i], TW_NONE);
}

static tw_val centered(tw_prefill_gen *g, const normed *n, tw_val x) {
    return n->center.id ? tw_sub(g->b, x, n->center) : x;
}

static void add_squares(tw_prefill_gen *g, int round, tw_val c, tw_val x[WIDE], void *context) {
    const normed *n = context;
    (void)round, (void)c;
    for (int i = 0; i < WIDE; i++) {
        tw_val y = centered(g, n, x[i]);
        tw_op_to(g->b, n->sum, TW_OP_fma_f32, y, y, n->sum);
    }
}

/* Loads the norm's weights, and its biases if there are any, of four columns. */
static void load_weights(tw_prefill_gen *g, tw_val c, tw_val inside, tw_val w[WIDE], tw_val bias[WIDE]) {
    tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, g->buffer[2], c, 4), WIDE, inside, w);
    if (g->s->bias) tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, g->buffer[4], c, 4), WIDE, inside, bias);
}

/* Loads those of all columns of a row that is kept, so that they are there when its sums are. */
static void load_ahead(tw_prefill_gen *g, const row *r, normed *n) {
    for (int i = 0; r->kept && !g->s->bare && i < rounds_of(g); i++) {
        tw_val inside, c = column_of(g, i, &inside);
        load_weights(g, c, inside, n->weight[i], n->bias[i]);
    }
}

static void store_normed(tw_prefill_gen *g, int round, tw_val c, tw_val x[WIDE], void *context) {
    tw_builder *b = g->b;
    const normed *n = context;
    tw_val w[WIDE], bias[WIDE], y[WIDE];
    if (g->s->bare) {
        tw_prefill_store(g, g->s->type, tw_prefill_at(g, n->to, c, tw_prefill_bytes(g->s->type)), WIDE, x);
        return;
    }
    if (round < 0)
        load_weights(g, c, TW_NONE, w, bias);
    else
        memcpy(w, n->weight[round], sizeof w), memcpy(bias, n->bias[round], sizeof bias);
    for (int i = 0; i < WIDE; i++) {
        y[i] = tw_mul(b, tw_mul(b, centered(g, n, x[i]), n->factor), w[i]);
        if (g->s->bias) y[i] = tw_add(b, y[i], bias[i]);
    }
    tw_prefill_store(g, g->s->type, tw_prefill_at(g, n->to, c, tw_prefill_bytes(g->s->type)), WIDE, y);
}

static void build_norm(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const int64_t columns = g->s->columns;
    TW_IF (b, tw_lt(b, g->block, tw_prefill_step(g, g->buffer[0], TW_STEP_COUNT))) {
        normed n = {.sum = tw_var_of(b, tw_f32(b, 0))};
        tw_val part = tw_f32(b, 1.0f / (float)columns);
        row r;
        (g->s->parts ? load_sum : load_row)(g, tw_prefill_at(g, g->buffer[1], g->block, columns * 4), &r);
        load_ahead(g, &r, &n);
        if (g->s->m->norm == TW_NORM_LAYER) {
            pass(g, &r, add_up, &n);
            n.center = tw_mul(b, tw_prefill_sum(g, n.sum, "means"), part);
            n.sum = tw_var_of(b, tw_f32(b, 0));
        }
        if (!g->s->bare) {
            pass(g, &r, add_squares, &n);
            tw_val mean = tw_mul(b, tw_prefill_sum(g, n.sum, "sums"), part);
            n.factor = tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, mean, tw_f32(b, g->s->m->norm_eps)));
        }
        n.to = tw_prefill_at(g, g->buffer[3], g->block, columns * tw_prefill_bytes(g->s->type));
        pass(g, &r, store_normed, &n);
    }
}

const tw_prefill_kind tw_prefill_norm = {
    "prefill_norm",
    build_norm,
    row_each,
    {{"step", false}, {"x", false}, {"weight", false}, {"y", true}, {"bias", false}}};

_Static_assert(TW_PREFILL_ROW <= MOST_ROUNDS * WIDE * 32 * TW_PREFILL_MOST_WARPS, "blocks keep rows that have parts");

const tw_prefill_kind tw_prefill_sum_norm = {
    "prefill_sum_norm",
    build_norm,
    row_each,
    {{"step", false}, {"x", true}, {"weight", false}, {"y", true}, {"bias", false}, {"parts", false}}};

/* ---- residual: step, y, weight, x. x += norm(y) */

static void add_normed(tw_prefill_gen *g, int round, tw_val c, tw_val y[WIDE], void *context) {
    tw_builder *b = g->b;
    const normed *n = context;
    (void)round;
    tw_val w[WIDE], x[WIDE], at = tw_prefill_at(g, n->to, c, 4);
    tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, g->buffer[2], c, 4), WIDE, TW_NONE, w);
    tw_prefill_load(g, TW_T_f32, at, WIDE, TW_NONE, x);
    for (int i = 0; i < WIDE; i++) x[i] = tw_fma(b, tw_mul(b, y[i], n->factor), w[i], x[i]);
    tw_prefill_store(g, TW_T_f32, at, WIDE, x);
}

static void build_residual(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const int64_t columns = g->s->columns;
    TW_IF (b, tw_lt(b, g->block, tw_prefill_step(g, g->buffer[0], TW_STEP_COUNT))) {
        normed n = {.sum = tw_var_of(b, tw_f32(b, 0))};
        row r;
        load_row(g, tw_prefill_at(g, g->buffer[1], g->block, columns * 4), &r);
        pass(g, &r, add_squares, &n);
        tw_val mean = tw_mul(b, tw_prefill_sum(g, n.sum, "sums"), tw_f32(b, 1.0f / (float)columns));
        n.factor = tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, mean, tw_f32(b, g->s->m->norm_eps)));
        n.to = tw_prefill_at(g, g->buffer[3], g->block, columns * 4);
        pass(g, &r, add_normed, &n);
    }
}

const tw_prefill_kind tw_prefill_residual = {
    "prefill_residual", build_residual, row_each, {{"step", false}, {"y", false}, {"weight", false}, {"x", true}}};

/* ---- gate: step, y, h. Columns are those of h. */

static void build_gate(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const int64_t columns = g->s->columns;
    const int es = tw_prefill_bytes(g->s->type);
    const tw_activation activation = g->s->m->activation;
    TW_IF (b, tw_lt(b, g->block, tw_prefill_step(g, g->buffer[0], TW_STEP_COUNT))) {
        tw_val from = tw_prefill_at(g, g->buffer[1], g->block, columns * (g->s->gated ? 8 : 4));
        tw_val to = tw_prefill_at(g, g->buffer[2], g->block, columns * es);
        TW_LOOP (b, c, columns_of(g)) {
            tw_val gate[WIDE], up[WIDE];
            if (!g->s->gated) {
                tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, from, c, 4), WIDE, TW_NONE, up);
                for (int i = 0; i < WIDE; i++) up[i] = tw_mega_activate(b, activation, up[i]);
                tw_prefill_store(g, g->s->type, tw_prefill_at(g, to, c, es), WIDE, up);
                continue;
            }
            tw_val unit = tw_mul_imm(b, tw_div(b, c, TW_MEGA_ROWS), 2 * TW_MEGA_ROWS);
            tw_val at = tw_prefill_at(g, from, tw_add(b, unit, tw_rem(b, c, TW_MEGA_ROWS)), 4);
            tw_prefill_load(g, TW_T_f32, at, WIDE, TW_NONE, gate);
            tw_prefill_load(g, TW_T_f32, tw_add_imm(b, at, 4 * TW_MEGA_ROWS), WIDE, TW_NONE, up);
            for (int i = 0; i < WIDE; i++) up[i] = tw_mul(b, tw_mega_activate(b, activation, gate[i]), up[i]);
            tw_prefill_store(g, g->s->type, tw_prefill_at(g, to, c, es), WIDE, up);
        }
    }
}

const tw_prefill_kind tw_prefill_gate = {
    "prefill_gate", build_gate, row_each, {{"step", false}, {"y", false}, {"h", true}}};
