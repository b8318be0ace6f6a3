/* SPDX-License-Identifier: Apache-2.0 */
/* Products with weights of f16, bf16 and f32. */
#include "vm/cuda/multiply.h"

static void begin(tw_mega_multiply *o) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    o->active = tw_lt(b, g->row, o->u->positions);
    tw_val position = tw_min(b, g->row, tw_add_imm(b, o->u->positions, -1));
    tw_val x = tw_mega_at(b, tw_add_imm(b, g->shared, g->p->x), position, g->p->x_pitch);
    o->x = tw_mega_at(b, x, g->column, o->f->dtype == TW_F32 ? 16 : 32);
}

/* Loads the activations of a stage's columns, from `from` on. Lanes without a position load nothing, which spares three
   quarters of a single position's traffic. Their registers only reach sums that nobody reads. */
static void load_floats(tw_mega_multiply *o, tw_val from) {
    tw_builder *b = o->g->b;
    const bool idle = o->g->p->tokens < TW_MEGA_ROWS;
    tw_val x = tw_mega_at(b, o->x, from, 4);
    TW_BLOCK (b, idle ? tw_push_if(b, o->active) : TW_NO_BLOCK)
        for (int i = 0; i < o->g->p->tuning.blocks; i++)
            for (int s = 0; s < o->f->steps; s++)
                tw_ld_vec(b, tw_mega_shared(o->f->pair, 4, i * o->f->depth * 4 + s * 16), x, o->stream->x[i][s]);
}

static void multiply(tw_mega_multiply *o, const tw_mega_taken *t, tw_val from) {
    load_floats(o, from);
    /* Both halves of f32 weights are multiplied by the same activations. */
    for (int i = 0; i < o->g->p->tuning.blocks; i++)
        for (int s = 0; s < 2; s++) {
            tw_val *sum = o->acc[(2 * i + s) % TW_MEGA_SUMS], w[2];
            for (int e = 0; e < 2; e++) w[e] = tw_bitcast(o->g->b, o->f->pair, t->w[i][2 * s + e]);
            tw_mma(o->g->b, o->f->mma, sum, o->stream->x[i][s % o->f->steps], w, sum);
        }
}

static void leave(tw_mega_multiply *o, const tw_mega_taken *t) {
    (void)t;
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const int T = g->p->tokens;
    TW_IF (b, tw_lt(b, g->row, o->u->positions)) {
        tw_val at = tw_mega_at(b, o->u->part, g->warp, (int64_t)T * TW_MEGA_PART_ROWS * 4);
        if (T > 1) at = tw_mega_at(b, at, g->row, TW_MEGA_PART_ROWS * 4);
        at = tw_mega_at(b, tw_mega_at(b, at, o->unit, TW_MEGA_ROWS * 4), g->column, 8);
        const tw_attrs cell = tw_mega_shared(TW_T_f32, 2, 0);
        tw_val sum[2], before[2] = {{0}};
        tw_when(b, tw_lt(b, tw_i32(b, 0), o->u->chunk));
        tw_ld_vec(b, cell, at, before);
        for (int i = 0; i < 2; i++) {
            sum[i] = tw_add(b, o->acc[0][i], o->acc[0][i + 2]);
            for (int s = 1; s < TW_MEGA_SUMS; s++)
                sum[i] = tw_add(b, sum[i], tw_add(b, o->acc[s][i], o->acc[s][i + 2]));
            sum[i] = tw_add(b, sum[i], before[i]);
        }
        tw_st(b, cell, at, sum);
    }
}

const tw_mega_way tw_mega_floats = {begin, multiply, leave};
