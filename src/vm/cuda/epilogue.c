/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the warps' parts of a group's sums into the instruction's results. A thread takes a row, or a pair of rows if
   rope rotates pairs. */
#include "kernels/parts/activation.h"
#include "vm/cuda/generate.h"

typedef struct rows {
    tw_mega_gen *g;
    const tw_mega_sums *s;
    tw_val bias; /* Address of the bias of the group's first row. 0: no bias. */
} rows;

/* Computes the address of a row's cell in the first warp's part. */
static tw_val cell(const rows *r, tw_val row, tw_val position) {
    return tw_mega_at(r->g->b, tw_mega_at(r->g->b, r->s->part, position, TW_MEGA_PART_ROWS * 4), row, 4);
}

/* Adds n numbers pairwise. */
static tw_val sum_of(tw_builder *b, tw_val *x, int n) {
    for (int d = 1; d < n; d *= 2)
        for (int i = 0; i + d < n; i += 2 * d) x[i] = tw_add(b, x[i], x[i + d]);
    return x[0];
}

/* Adds up n adjacent cells of all warps. Warps are `apart` bytes apart. Cells are read where `when` holds. */
static void add_warps(tw_mega_gen *g, tw_val at, int apart, tw_val when, int n, tw_val *y) {
    tw_val x[2][TW_MEGA_WARPS];
    for (int w = 0; w < g->p->tuning.warps; w++) {
        tw_val cells[2] = {{0}};
        tw_when(g->b, when);
        tw_ld_vec(g->b, tw_mega_shared(TW_T_f32, n, w * apart), at, cells);
        for (int i = 0; i < n; i++) x[i][w] = cells[i];
    }
    for (int i = 0; i < n; i++) y[i] = sum_of(g->b, x[i], g->p->tuning.warps);
}

/* Computes 1 / rms of a position's activations if the input has RMS norm, else 1. */
static tw_val find_factor(tw_mega_gen *g, const tw_mega_sums *s, tw_val position) {
    tw_builder *b = g->b;
    if (g->p->layer_norm) return tw_f32(b, 1);
    tw_val at = tw_add_imm(b, g->shared, g->p->sums), squares;
    add_warps(g, tw_mega_at(b, at, position, 4 * g->p->tuning.warps), 4, s->normed, 1, &squares);
    tw_val mean = tw_mul(b, squares, s->share);
    tw_val factor = tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, mean, tw_f32(b, g->p->m->norm_eps)));
    return tw_select(b, s->normed, factor, tw_f32(b, 1));
}

static tw_val norm_factor(const rows *r, tw_val position) {
    return r->g->p->flags ? r->s->factor : find_factor(r->g, r->s, position);
}

void tw_mega_build_factor(tw_mega_gen *g, const tw_mega_sums *s) {
    tw_assign(g->b, s->factor, find_factor(g, s, tw_i32(g->b, 0)));
}

/* Computes n neighbouring rows: sums over the warps, times the norm's factor, plus the bias. */
static void join(const rows *r, tw_val row, tw_val position, tw_val factor, int n, tw_val *y) {
    tw_builder *b = r->g->b;
    add_warps(r->g, cell(r, row, position), r->g->p->tokens * TW_MEGA_PART_ROWS * 4, TW_NONE, n, y);
    tw_val bias[2] = {{0}}, in_group = tw_mega_at(b, r->bias, row, 4);
    tw_when(b, tw_binary(b, TW_OP_ne_i64, r->bias, tw_i64(b, 0)));
    tw_ld_vec(b, tw_mega_fixed(TW_T_f32, n, 0), in_group, bias);
    for (int i = 0; i < n; i++) y[i] = tw_fma(b, y[i], factor, bias[i]);
}

/* ---- qkv */

typedef struct place {
    tw_val part, head, index; /* Part 0, 1, 2: q, k, v. The head's number in its part, the row's in its head. */
    tw_val turned; /* Predicate: rope rotates the row, which the tape has beside the other one of its pair. */
} place;

static place locate(tw_mega_gen *g, tw_val row) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    place at;
    tw_val head = tw_div(b, row, (int)p->m->head_dim);
    at.index = tw_rem(b, row, (int)p->m->head_dim);
    tw_val is_q = tw_lt(b, head, tw_i32(b, (int)p->m->n_heads));
    tw_val is_k = tw_lt(b, head, tw_i32(b, (int)(p->m->n_heads + p->m->n_kv_heads)));
    tw_val others = tw_select(b, is_k, tw_i32(b, 1), tw_i32(b, 2));
    at.part = tw_select(b, is_q, tw_i32(b, 0), others);
    tw_val before =
        tw_select(b, is_k, tw_i32(b, (int)p->m->n_heads), tw_i32(b, (int)(p->m->n_heads + p->m->n_kv_heads)));
    at.head = tw_sub(b, head, tw_select(b, is_q, tw_i32(b, 0), before));
    at.turned = p->pairs ? tw_and(b, is_k, tw_lt(b, at.index, tw_i32(b, (int)p->m->rope.dims))) : tw_zero(b, TW_T_pred);
    return at;
}

/* Computes 1 / rms of a head's rows, whose joined sums are in the first warp's part. */
static tw_val head_factor(const rows *r, tw_val row, tw_val position) {
    tw_builder *b = r->g->b;
    const int d = (int)r->g->p->m->head_dim;
    tw_val start = tw_mul_imm(b, tw_div(b, row, d), d), at = cell(r, start, position);
    tw_val sum = tw_var_of(b, tw_f32(b, 0));
    for (int i = 0; i < d; i += 4) {
        tw_val x[4] = {{0}};
        tw_ld_vec(b, tw_mega_shared(TW_T_f32, 4, 4 * i), at, x);
        for (int e = 0; e < 4; e++) tw_op_to(b, sum, TW_OP_fma_f32, x[e], x[e], sum);
    }
    tw_val mean = tw_mul(b, sum, tw_f32(b, 1.0f / (float)d));
    return tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, mean, tw_f32(b, r->g->p->m->norm_eps)));
}

/* Applies a head's RMS norm to a pair of rows of a query or key. `of` has the norms' weights for q and for k. */
static void norm_head(const rows *r, const place *at, tw_val row, tw_val position, const tw_val *index,
                      const tw_val *of, tw_val *y) {
    tw_builder *b = r->g->b;
    TW_IF (b, tw_lt(b, at->part, tw_i32(b, 2))) {
        tw_val factor = head_factor(r, row, position);
        tw_val w = tw_select(b, tw_eq(b, at->part, tw_i32(b, 0)), of[0], of[1]);
        for (int i = 0; i < 2; i++) {
            tw_val x = tw_ld(b, tw_mega_fixed(TW_T_f32, 1, 0), tw_mega_at(b, w, index[i], 4));
            tw_op_to(b, y[i], TW_OP_mul_f32, y[i], tw_mul(b, factor, x), TW_NONE);
        }
    }
}

/* Tells whether this thread read the operands of a row (or pair of rows) before the wait. TW_NONE: it never does. */
static tw_val is_early(const rows *r, tw_val number) {
    tw_builder *b = r->g->b;
    if (r->g->p->tokens > 1) return TW_NONE;
    return tw_and(b, tw_and(b, r->s->early, tw_eq(b, r->s->first, tw_i32(b, 0))), tw_eq(b, number, r->g->thread));
}

static void turn(const rows *r, tw_val rope, tw_val position, tw_val pair, tw_val turned, tw_val early, tw_val *y) {
    tw_builder *b = r->g->b;
    const int half = (int)r->g->p->m->rope.dims / 2;
    if (!half || r->g->p->apart) return;
    TW_IF (b, turned) {
        tw_val at = tw_mega_at(b, tw_mega_at(b, rope, position, 8 * half), pair, 4);
        tw_val angle[2];
        for (int i = 0; i < 2; i++) {
            if (early.id) tw_unless(b, early);
            angle[i] = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 4 * half * i), at);
        }
        for (int i = 0; i < 2 && early.id; i++) angle[i] = tw_select(b, early, r->s->angle[i], angle[i]);
        tw_val first = tw_fma(b, y[1], tw_unary(b, TW_OP_neg_f32, angle[1]), tw_mul(b, y[0], angle[0]));
        tw_val second = tw_fma(b, y[1], angle[0], tw_mul(b, y[0], angle[1]));
        tw_assign(b, y[0], first);
        tw_assign(b, y[1], second);
    }
}

/* Stores two elements of a row of an activation. */
static void put_pair(tw_builder *b, tw_val row, const tw_val *index, const tw_val *y) {
    for (int i = 0; i < 2; i++) tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_mega_at(b, row, index[i], 4), &y[i]);
}

void tw_mega_put_cached(tw_mega_gen *g, tw_val cache, tw_val head, tw_val position, const tw_val *index,
                        const tw_val *y) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    const tw_dtype t = p->kv;
    const int es = (int)tw_dtype_bits(t) / 8;
    if (p->sequences > 1) head = tw_add(b, head, tw_mul_imm(b, position, p->m->n_kv_heads));
    tw_val row = tw_mega_at(b, cache, head, p->max_seq * p->m->head_dim * es);
    row = tw_mega_at(b, row, tw_mega_position(g, position), p->m->head_dim * es);
    for (int i = 0; i < 2; i++) {
        tw_val x = y[i];
        if (t != TW_F32) x = tw_unary(b, t == TW_F16 ? TW_OP_cvt_f16_f32 : TW_OP_cvt_bf16_f32, x);
        tw_st(b, (tw_attrs){.type = tw_mega_element(t)}, tw_mega_at(b, row, index[i], es), &x);
    }
}

/* Stores queries in their buffer, and keys and values in the cache. Keys that an instruction `turn` norms later go to
 * raw_k. */
static void put_qkv(tw_mega_gen *g, const place *at, tw_val position, tw_val q, tw_val k, tw_val v, const tw_val *index,
                    const tw_val *y) {
    tw_builder *b = g->b;
    const tw_model *m = g->p->m;
    const int64_t head = m->head_dim * 4;
    tw_val is_q = tw_eq(b, at->part, tw_i32(b, 0)), is_k = tw_eq(b, at->part, tw_i32(b, 1));
    if (!g->p->apart) {
        TW_IF (b, is_q) {
            put_pair(b, tw_mega_at(b, tw_mega_at(b, q, position, m->n_heads * head), at->head, head), index, y);
        } else {
            tw_mega_put_cached(g, tw_select(b, is_k, k, v), at->head, position, index, y);
        }
        return;
    }
    TW_IF (b, tw_or(b, is_q, is_k)) {
        tw_val heads = tw_select(b, is_q, tw_i32(b, (int)m->n_heads), tw_i32(b, (int)m->n_kv_heads));
        tw_val number = tw_add(b, tw_mul(b, position, heads), at->head);
        put_pair(b, tw_mega_at(b, tw_select(b, is_q, q, k), number, head), index, y);
    } else {
        tw_mega_put_cached(g, v, at->head, position, index, y);
    }
}

/* A loop over a thread's units of rows. The inner block runs for units that exist. */
typedef struct turns {
    tw_scope loop, inside;
    tw_val position;
    tw_val row; /* The unit's first row. */
} turns;

static void end_turns(tw_builder *b, const turns *t) {
    tw_pop(b, t->inside);
    tw_pop(b, t->loop);
}

/* Opens a loop over units of `in` rows of the group. A unit makes `out` rows of the result: `in` or 1. */
static turns begin_units(const rows *r, int in, int out) {
    tw_builder *b = r->g->b;
    const tw_mega_sums *s = r->s;
    if (r->g->p->tokens > 1) {
        tw_val rest = tw_sub(b, tw_mega_word(r->g, TW_W_COUNT), s->first);
        tw_val made = tw_min(b, tw_div(b, s->rows, in / out), rest),
               units = tw_div(b, tw_add_imm(b, made, out - 1), out);
        turns t = {.loop = tw_mega_thread_loop(r->g, tw_mul(b, s->positions, units))};
        t.position = tw_binary(b, TW_OP_div_u32, t.loop.i, units);
        tw_val unit = tw_sub(b, t.loop.i, tw_mul(b, t.position, units));
        t.inside = tw_push_if(b, tw_lt(b, unit, units));
        t.row = tw_mul_imm(b, unit, out);
        return t;
    }
    const int most = TW_MEGA_PART_ROWS / in;
    turns t = {.loop = tw_mega_thread_loop(r->g, tw_mul_imm(b, s->positions, most))};
    t.position = tw_div(b, t.loop.i, most);
    t.row = tw_mul_imm(b, tw_rem(b, t.loop.i, most), out);
    tw_val count = tw_mega_word(r->g, TW_W_COUNT), there = tw_lt(b, tw_add(b, s->first, t.row), count);
    t.inside = tw_push_if(b, tw_and(b, there, tw_lt(b, tw_mul_imm(b, t.row, in / out), s->rows)));
    return t;
}

static void qkv(const rows *r) {
    tw_mega_gen *g = r->g;
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    tw_val q = tw_mega_address(g, TW_W_OUT), k = tw_mega_address(g, TW_W_K_CACHE), v = tw_mega_address(g, TW_W_V_CACHE);
    tw_val rope = tw_mega_address(g, TW_W_ROPE), from = tw_add(b, tw_mega_word(g, TW_W_FROM), r->s->first);
    tw_val norms[2] = {{0}};
    for (int i = 0; i < 2 && p->qk_norm; i++) norms[i] = tw_mega_address(g, i ? TW_W_K_NORM : TW_W_Q_NORM);
    const tw_attrs two = tw_mega_shared(TW_T_f32, 2, 0);
    if (p->qk_norm) {
        tw_val y[2];
        const turns t = begin_units(r, 2, 2);
        join(r, t.row, t.position, norm_factor(r, t.position), 2, y);
        tw_st(b, two, cell(r, t.row, t.position), y);
        end_turns(b, &t);
        tw_mega_barrier(g);
    }
    const turns t = begin_units(r, 2, 2);
    tw_val y[2] = {{0}}, index[2];
    if (p->qk_norm)
        tw_ld_vec(b, two, cell(r, t.row, t.position), y);
    else
        join(r, t.row, t.position, norm_factor(r, t.position), 2, y);
    for (int i = 0; i < 2; i++) y[i] = tw_var_of(b, y[i]);
    place at = locate(g, tw_add(b, from, t.row));
    tw_val pair = tw_shr(b, at.index, 1);
    index[0] = tw_select(b, at.turned, pair, at.index);
    index[1] = tw_select(b, at.turned, tw_add_imm(b, pair, p->m->rope.dims / 2), tw_add_imm(b, at.index, 1));
    if (p->qk_norm) norm_head(r, &at, t.row, t.position, index, norms, y);
    turn(r, rope, t.position, pair, at.turned, is_early(r, tw_shr(b, t.row, 1)), y);
    put_qkv(g, &at, t.position, q, k, v, index, y);
    end_turns(b, &t);
}

/* ---- the others */

/* Computes the tag of the write of x that precedes this projection's. */
static tw_val before_tag(tw_mega_gen *g) {
    tw_builder *b = g->b;
    if (!g->p->flags) return TW_NONE;
    return tw_and(b, tw_add_imm(b, tw_mega_tag(g, true, g->p->uses_x), -1), tw_i32(b, TW_FLAG_TAG));
}

void tw_mega_build_before(tw_mega_gen *g, tw_mega_sums *s) {
    tw_builder *b = g->b;
    tw_val out = tw_mega_address(g, TW_W_OUT), from = tw_mega_word(g, TW_W_FROM), count = tw_mega_word(g, TW_W_COUNT);
    tw_val projects = tw_eq(b, s->kind, tw_i32(b, TW_MEGA_PROJECT));
    if (g->p->experts) projects = tw_or(b, projects, tw_eq(b, s->kind, tw_i32(b, TW_MEGA_EXPERTS_DOWN)));
    tw_flag_words w = {.width = 1, .tag = before_tag(g), .at = {tw_mega_at(b, out, tw_add(b, from, g->thread), 4)}};
    w.there[0] = tw_and(b, tw_and(b, projects, s->early), tw_lt(b, g->thread, count));
    if (g->p->flags) {
        tw_mega_poll(g, &w, 1);
        s->before = tw_flag_value(g->b, &w, 0, 0);
    } else {
        tw_when(b, w.there[0]);
        s->before = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), w.at[0]);
    }
    const int half = (int)g->p->m->rope.dims / 2;
    if (!half || g->p->apart) return;
    tw_val rope = tw_mega_address(g, TW_W_ROPE);
    tw_val row = tw_add(b, from, tw_shl(b, g->thread, 1)), index = tw_rem(b, row, (int)g->p->m->head_dim);
    tw_val turned = tw_and(b, tw_lt(b, index, tw_i32(b, 2 * half)), tw_eq(b, s->kind, tw_i32(b, TW_MEGA_QKV)));
    tw_val at = tw_mega_at(b, rope, tw_shr(b, index, 1), 4);
    turned = tw_and(b, turned, s->early);
    for (int i = 0; i < 2; i++) {
        tw_when(b, turned);
        s->angle[i] = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 4 * half * i), at);
    }
}

/* Stores the rows, which are normed or added up before they are added. Positions are `pitch` floats apart. */
static void store_rows(const rows *r, int64_t pitch) {
    tw_mega_gen *g = r->g;
    tw_builder *b = g->b;
    tw_val out = tw_mega_address(g, TW_W_OUT), from = tw_add(b, tw_mega_word(g, TW_W_FROM), r->s->first);
    const turns t = begin_units(r, 1, 1);
    tw_val at = tw_mega_at(b, tw_mega_at(b, out, t.position, pitch * 4), tw_add(b, from, t.row), 4), y[1];
    join(r, t.row, t.position, tw_f32(b, 1), 1, y);
    tw_st(b, (tw_attrs){.type = TW_T_f32}, at, y);
    end_turns(b, &t);
}

static void partial(const rows *r) {
    store_rows(r, r->g->p->parts * r->g->p->m->dim);
}

/* Adds the rows to the residual stream. */
static void project(const rows *r) {
    if (r->g->p->post_norm) {
        store_rows(r, r->g->p->m->dim);
        return;
    }
    tw_mega_gen *g = r->g;
    tw_builder *b = g->b;
    tw_val out = tw_mega_address(g, TW_W_OUT), from = tw_add(b, tw_mega_word(g, TW_W_FROM), r->s->first);
    tw_val tag = tw_mega_tag(g, true, g->p->uses_x), old = before_tag(g);
    const turns t = begin_units(r, 1, 1);
    tw_val at = tw_mega_at(b, tw_mega_at(b, out, t.position, g->p->m->dim * 4), tw_add(b, from, t.row), 4), y[1], x;
    tw_val known = is_early(r, t.row);
    if (g->p->flags) {
        tw_flag_words w = {.width = 1, .tag = old, .at = {at}};
        w.there[0] = tw_not(b, known);
        tw_mega_poll(g, &w, 1);
        x = tw_flag_value(g->b, &w, 0, 0);
    } else {
        if (g->p->tokens == 1) tw_unless(b, known);
        x = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), at);
    }
    if (g->p->tokens == 1) x = tw_select(b, known, r->s->before, x);
    join(r, t.row, t.position, tw_f32(b, 1), 1, y);
    tw_mega_put(g, at, tw_add(b, x, y[0]), tag);
    end_turns(b, &t);
}

tw_val tw_mega_activate(tw_builder *b, tw_activation activation, tw_val x) {
    switch (activation) {
    case TW_ACT_GELU:
        return tw_part_gelu_erf(b, x);
    case TW_ACT_GELU_TANH:
        return tw_part_gelu(b, x);
    case TW_ACT_RELU:
        return tw_part_relu(b, x);
    case TW_ACT_SILU:
        break;
    }
    return tw_part_silu(b, x);
}

/* Computes a row of an ffn: act(gate) * up, or act(up) if there is no gate. Units of the matrix alternate between gate
   and up. */
static tw_val ffn_row(const rows *r, const turns *t) {
    tw_builder *b = r->g->b;
    const tw_activation activation = r->g->p->m->activation;
    tw_val gate[1], up[1];
    if (!r->g->p->gated) {
        join(r, t->row, t->position, norm_factor(r, t->position), 1, up);
        return tw_mega_activate(b, activation, up[0]);
    }
    tw_val unit = tw_shr(b, t->row, 3), within = tw_rem(b, t->row, TW_MEGA_ROWS);
    tw_val gate_row = tw_add(b, tw_mul_imm(b, unit, 2 * TW_MEGA_ROWS), within);
    tw_val factor = norm_factor(r, t->position);
    join(r, gate_row, t->position, factor, 1, gate);
    join(r, tw_add_imm(b, gate_row, TW_MEGA_ROWS), t->position, factor, 1, up);
    return tw_mul(b, tw_mega_activate(b, activation, gate[0]), up[0]);
}

static void ffn(const rows *r) {
    tw_mega_gen *g = r->g;
    tw_builder *b = g->b;
    tw_val out = tw_mega_address(g, TW_W_OUT), from = tw_add(b, tw_mega_word(g, TW_W_FROM), r->s->first);
    tw_val width = tw_mega_word(g, TW_W_WIDTH), tag = tw_mega_tag(g, true, g->p->uses);
    const turns t = begin_units(r, g->p->gated ? 2 : 1, 1);
    tw_val h = ffn_row(r, &t);
    tw_val at = tw_op_emit(b, TW_OP_mad_wide_s32, t.position, tw_mul_imm(b, width, 4), out);
    tw_mega_put(g, tw_mega_at(b, at, tw_add(b, from, t.row), 4), h, tag);
    end_turns(b, &t);
}

/* Computes act(gate) * up of the chosen experts, times their weights. The rows of each expert follow those of the one
   before it. */
static void experts_up(const rows *r) {
    tw_mega_gen *g = r->g;
    tw_builder *b = g->b;
    const tw_model *m = g->p->m;
    tw_val out = tw_mega_address(g, TW_W_OUT), from = tw_mega_word(g, TW_W_FROM), per = tw_mega_word(g, TW_W_WIDTH);
    tw_val first_slot = tw_mega_word(g, TW_W_CHOSEN);
    const turns t = begin_units(r, 2, 1);
    tw_val row = tw_add(b, r->s->first, t.row), nth = tw_binary(b, TW_OP_div_u32, row, per);
    tw_val slot = tw_add(b, first_slot, nth);
    tw_val weights = tw_add_imm(b, g->shared, g->p->chosen + 4 * m->n_experts_used);
    tw_val weight = tw_ld(b, tw_mega_shared(TW_T_f32, 1, 0), tw_mega_at(b, weights, slot, 4));
    tw_val h = tw_mul(b, ffn_row(r, &t), weight), at = tw_mega_at(b, out, slot, m->expert_dim * 4);
    row = tw_add(b, from, tw_sub(b, row, tw_mul(b, nth, per)));
    tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_mega_at(b, at, row, 4), &h);
    end_turns(b, &t);
}

static void head(const rows *r) {
    tw_mega_gen *g = r->g;
    tw_builder *b = g->b;
    tw_val out = tw_mega_address(g, TW_W_OUT), from = tw_add(b, tw_mega_word(g, TW_W_FROM), r->s->first);
    const turns t = begin_units(r, 1, 1);
    tw_val y[1], id = tw_add(b, from, t.row);
    join(r, t.row, t.position, norm_factor(r, t.position), 1, y);
    if (g->p->m->logit_cap > 0) y[0] = tw_part_cap(b, y[0], g->p->m->logit_cap);
    tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_mega_at(b, tw_mega_at(b, out, t.position, g->p->vocab * 4), id, 4), y);
    for (int i = 0; i < g->p->sequences; i++) {
        tw_val which = g->p->sequences > 1 ? tw_i32(b, i) : tw_add_imm(b, r->s->positions, -1);
        TW_IF (b, tw_and(b, tw_eq(b, t.position, which), tw_lt(b, r->s->best[i].value, y[0]))) {
            tw_assign(b, r->s->best[i].value, y[0]);
            tw_assign(b, r->s->best[i].number, id);
        }
    }
    end_turns(b, &t);
}

void tw_mega_build_epilogue(tw_mega_gen *g, const tw_mega_sums *s) {
    tw_builder *b = g->b;
    static const struct {
        tw_mega_kind kind;
        void (*build)(const rows *r);
    } of[] = {{TW_MEGA_PROJECT, project},
              {TW_MEGA_FFN, ffn},
              {TW_MEGA_QKV, qkv},
              {TW_MEGA_HEAD, head},
              {TW_MEGA_EXPERTS_UP, experts_up},
              {TW_MEGA_EXPERTS_DOWN, project}};
    rows r = {.g = g, .s = s};
    tw_val first = s->first;
    if (g->p->gated) first = tw_select(b, tw_eq(b, s->kind, tw_i32(b, TW_MEGA_FFN)), tw_shl(b, first, 1), first);
    /* Experts have no biases. */
    tw_val bias = tw_mega_address(g, TW_W_BIAS), none = tw_binary(b, TW_OP_eq_i64, bias, tw_i64(b, 0));
    r.bias = tw_select(b, none, bias, tw_mega_at(b, bias, first, 4));
    for (int i = 0; i < (g->p->experts ? 6 : 4); i++)
        TW_IF (b, tw_eq(b, s->kind, tw_i32(b, of[i].kind))) of[i].build(&r);
    if (g->p->parts)
        TW_IF (b, tw_eq(b, s->kind, tw_i32(b, TW_MEGA_PARTIAL))) partial(&r);
}

/* The threads' bests meet in shared memory, [sequence][warp]. A single sequence has the best of its last position. */
void tw_mega_build_best(tw_mega_gen *g, const tw_mega_sums *s) {
    tw_builder *b = g->b;
    const int warps = g->p->tuning.warps, n = g->p->sequences;
    tw_val cells = tw_add_imm(b, g->shared, g->p->sums + 4 * warps * g->p->tokens);
    for (int i = 0; i < n; i++) {
        const tw_argmax best = tw_argmax_warp(b, &s->best[i]);
        TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) {
            const tw_attrs to = {.space = TW_SPACE_shared, .offset = TW_ARGMAX_BYTES * i * warps};
            tw_argmax_store(b, &best, to, tw_mega_at(b, cells, g->warp, TW_ARGMAX_BYTES));
        }
    }
    tw_mega_barrier(g);
    tw_val slot = tw_mega_word(g, TW_W_SLOT), out = tw_mega_address(g, TW_W_BEST);
    TW_IF (b, tw_lt(b, g->thread, tw_i32(b, n))) {
        if (n > 1) {
            cells = tw_mega_at(b, cells, g->thread, TW_ARGMAX_BYTES * warps);
            slot = tw_add(b, tw_mul_imm(b, slot, n), g->thread);
        }
        const tw_argmax best = tw_argmax_of(b, TW_SAMPLE_LEAST);
        tw_argmax_take_cells(b, &best, cells, 0, warps);
        tw_argmax_store(b, &best, (tw_attrs){0}, tw_mega_at(b, out, slot, TW_ARGMAX_BYTES));
    }
}
