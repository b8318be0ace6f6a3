/* SPDX-License-Identifier: Apache-2.0 */
/* The walk through the ring's stages: a stage is taken into registers, given back, and multiplied. */
#include "vm/cuda/multiply.h"

/* ---- from the ring */

/* Counts the words of a stage's scales that a lane loads. */
static int scale_words(const tw_mega_multiply *o) {
    return (o->g->p->tuning.blocks * o->f->scale_bytes + o->f->row_bytes) / 32;
}

/* Waits for the ring's next stage, and loads this warp's pieces into registers. */
static void take_stage(tw_mega_multiply *o, tw_mega_taken *t) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_val full = tw_ring_full(b, &g->ring, &g->next);
    tw_assign(b, t->empty, tw_ring_empty(b, &g->ring, &g->next));
    tw_val at = tw_ring_data(b, &g->ring, &g->next, o->ring);
    tw_ring_wait(b, &g->ring, full, &g->next);
    for (int i = 0; i < g->p->tuning.blocks; i++)
        tw_ld_vec(b, tw_mega_shared(TW_T_i32, 4, i * TW_MEGA_PIECE), at, t->w[i]);
    const int words = scale_words(o), vec = words % 4 == 0 ? 4 : words % 2 == 0 ? 2 : 1;
    tw_val scales = tw_ring_data(b, &g->ring, &g->next, o->scales);
    for (int i = 0; i < words; i += vec) tw_ld_vec(b, tw_mega_shared(TW_T_i32, vec, 4 * i), scales, t->scale + i);
    tw_ring_advance(b, &g->ring, &g->next);
    tw_op_to(b, o->stream->left, TW_OP_add_i32, o->stream->left, tw_i32(b, -1), TW_NONE);
}

/* Returns the stage. The arrival depends on the loaded registers; a proxy fence instead would cost 8 % of a step in the
   producer, and a third of one here. Every lane arrives, since racecheck reports a hazard if one lane arrives for its
   warp. */
static void give_back(const tw_mega_multiply *o, const tw_mega_taken *t) {
    const int blocks = o->g->p->tuning.blocks, words = scale_words(o);
    tw_val loaded[TW_MEGA_BLOCKS + 2 * TW_MEGA_BLOCKS];
    for (int i = 0; i < blocks; i++) loaded[i] = t->w[i][3];
    for (int i = 0; i < words; i++) loaded[blocks + i] = t->scale[i];
    const tw_ring_return back = {
        .ring = &o->g->ring, .empty = t->empty, .loaded = loaded, .n = blocks + words, .nothing = o->g->nothing};
    tw_ring_give_back(o->g->b, &back);
}

/* ---- the walk */

/* Computes the warp's first column of the next stage. */
static tw_val next_column(const tw_mega_multiply *o) {
    return tw_add(o->g->b, o->first, tw_mul_imm(o->g->b, o->stage, o->g->p->tuning.blocks * o->f->depth));
}

/* Multiplies a stage whose pieces are in registers. After a unit's last stage its sums are stored. */
static void step(tw_mega_multiply *o, const tw_mega_taken *t) {
    tw_builder *b = o->g->b;
    o->way->multiply(o, t, next_column(o));
    tw_op_to(b, o->stage, TW_OP_add_i32, o->stage, tw_i32(b, 1), TW_NONE);
    TW_IF (b, tw_eq(b, o->stage, o->u->stages)) {
        o->way->leave(o, t);
        for (int i = 0; i < 4 * o->sums; i++) tw_assign(b, o->acc[i / 4][i % 4], tw_f32(b, 0));
        tw_assign(b, o->stage, tw_i32(b, 0));
        tw_op_to(b, o->unit, TW_OP_add_i32, o->unit, tw_i32(b, o->f->units), TW_NONE);
    }
    if (!tw_mega_keeps(o)) return;
    TW_IF (b, tw_lt(b, tw_i32(b, 1), o->u->stages)) tw_mega_load_kept(o, next_column(o));
}

/* Computes which 16 bytes of a piece the lane takes. Of floats they are swizzled as in tw_mega_quarter. */
static tw_val place_of_lane(tw_mega_gen *g, const tw_mega_format *f) {
    tw_builder *b = g->b;
    if (tw_mega_is_integer(f)) return g->lane;
    return tw_xor(b, g->lane, tw_and(b, tw_shr(b, g->lane, 3), tw_i32(b, 3)));
}

static tw_mega_multiply multiply_of(tw_mega_gen *g, const tw_mega_format *f, tw_mega_stream *s) {
    tw_builder *b = g->b;
    const int blocks = g->p->tuning.blocks, pieces = g->p->tuning.warps * blocks;
    tw_mega_multiply o = {.g = g,
                          .f = f,
                          .way = tw_mega_is_integer(f) ? &tw_mega_integers : &tw_mega_floats,
                          .stream = s,
                          .sums = tw_mega_is_integer(f) ? (g->p->tokens + 1) / 2 : TW_MEGA_SUMS};
    tw_val ring = tw_add_imm(b, g->shared, g->p->ring);
    o.ring = tw_mega_at(b, tw_mega_at(b, ring, g->warp, (int64_t)blocks * TW_MEGA_PIECE), place_of_lane(g, f), 16);
    tw_val scales =
        tw_mega_at(b, tw_add_imm(b, ring, (int64_t)pieces * TW_MEGA_PIECE), g->warp, (int64_t)blocks * f->scale_bytes);
    o.scales = tw_mega_at(b, scales, g->row, (blocks * f->scale_bytes + f->row_bytes) / 8);
    return o;
}

/* Multiplies units whose first stage is taken. NULL: takes that stage. Loads of a stage into registers overlap the
   multiplication of the stage before. With the last stage the next units' first stage is loaded: before the
   multiplication if the number of stages is even, else after it. */
static void multiply_units(tw_mega_gen *g, const tw_mega_format *f, tw_mega_stream *s, const tw_mega_units *u) {
    tw_builder *b = g->b;
    tw_mega_multiply o = multiply_of(g, f, s);
    tw_mega_taken *t = s->taken;
    if (!u) {
        take_stage(&o, &t[0]);
        give_back(&o, &t[0]);
        return;
    }
    o.u = u;
    o.way->begin(&o);
    o.first = tw_mul(b, g->warp, u->stages);
    o.first = tw_mul_imm(b, o.first, (int64_t)g->p->tuning.blocks * f->depth);
    o.unit = tw_var_of(b, tw_i32(b, 0));
    o.stage = tw_var_of(b, tw_i32(b, 0));
    for (int i = 0; i < 4 * o.sums; i++) o.acc[i / 4][i % 4] = tw_var_of(b, tw_f32(b, 0));
    if (tw_mega_keeps(&o)) tw_mega_load_kept(&o, next_column(&o));
    tw_val rows = tw_mega_is_integer(f) ? tw_shr(b, tw_add_imm(b, u->count, 1), 1) : u->count,
           all = tw_mul(b, rows, u->stages);
    TW_FOR (b, i, tw_i32(b, 1), all, tw_i32(b, 2), false) {
        take_stage(&o, &t[1]);
        step(&o, &t[0]);
        give_back(&o, &t[1]);
        tw_val more = tw_lt(b, tw_i32(b, 0), s->left);
        TW_IF (b, more) take_stage(&o, &t[0]);
        step(&o, &t[1]);
        TW_IF (b, more) give_back(&o, &t[0]);
    }
    /* The loop leaves the last stage if their number is odd. */
    TW_IF (b, tw_eq(b, tw_rem(b, all, 2), tw_i32(b, 1))) {
        step(&o, &t[0]);
        TW_IF (b, tw_lt(b, tw_i32(b, 0), s->left)) {
            take_stage(&o, &t[0]);
            give_back(&o, &t[0]);
        }
    }
}

void tw_mega_build_units(tw_mega_gen *g, tw_mega_stream *s, tw_val is_head, const tw_mega_units *u) {
    const tw_mega_plan *p = g->p;
    if (tw_mega_same_format(&p->body, &p->head)) {
        multiply_units(g, &p->body, s, u);
        return;
    }
    TW_IF (g->b, is_head) {
        multiply_units(g, &p->head, s, u);
    } else {
        multiply_units(g, &p->body, s, u);
    }
}

void tw_mega_begin_stream(tw_mega_gen *g, tw_mega_stream *s, tw_val stages) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    const int blocks = p->tuning.blocks;
    s->left = tw_var_of(b, stages);
    for (int n = 0; n < 2; n++) {
        s->taken[n].empty = tw_var_of(b, tw_i32(b, 0));
        for (int i = 0; i < 4 * blocks; i++) s->taken[n].w[i / 4][i % 4] = tw_var_of(b, tw_i32(b, 0));
        for (int i = 0; i < 2 * blocks; i++) s->taken[n].scale[i] = tw_var_of(b, tw_i32(b, 0));
    }
    const bool integers = tw_mega_is_integer(&p->body);
    const int fragments = integers ? (p->tokens + 1) / 2 : p->body.steps;
    for (int i = 0; i < blocks; i++)
        for (int n = 0; n < fragments; n++) {
            for (int e = 0; e < 4; e++)
                s->x[i][n][e] = tw_var_of(b, integers ? tw_i32(b, 0) : tw_zero(b, p->body.pair));
            if (integers) s->x_scale[i][n] = tw_var_of(b, tw_f32(b, 0));
        }
}
