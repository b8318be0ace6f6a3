/* SPDX-License-Identifier: Apache-2.0 */
/* Which keys a query sees: by its place, and by an array with a number for each query and key. Scores are in the
   registers in which wgmma leaves them: a thread has two rows, 8 apart, and of every eight columns two neighbours. */
#include "kernels/attention/generate.h"
#include "kernels/parts/convert.h"

#include <math.h>

enum { ROWS = 2 /* Rows of a thread. */, EIGHT = 8 /* Columns of which a thread has two in each row. */ };

/* The row, and the column less the thread's first one, of score i. */
static int row_of(int i) {
    return i / 2 % 2;
}

static int column_of(int i) {
    return i / 4 * EIGHT + i % 2;
}

bool tw_attention_scales_first(const tw_attention_problem *p) {
    return p->cap > 0 || (p->mask && p->mask != TW_T_i8);
}

/* Computes the address of column `first` in the mask's row of a row of the tile. Rows behind the last query have that
   of the last one. */
static tw_val mask_row(tw_attention_gen *g, const tw_attention_tile *t, tw_val row, tw_val first) {
    tw_builder *b = g->b;
    const tw_attention_problem *p = g->p;
    const tw_attention_row of = tw_attention_row_of(g, t, row);
    const int64_t bytes = tw_type_bits(p->mask) / 8;
    tw_val query = tw_min(b, of.query, tw_i32(b, (int)p->queries - 1)), matrix = tw_i32(b, 0);
    if (p->mask_heads > 1) matrix = of.head;
    if (p->mask_batch > 1) matrix = tw_add(b, tw_mul_imm(b, t->sequence, p->mask_heads), matrix);
    tw_val at = tw_add(b, tw_mul_imm(b, tw_widen(b, matrix), p->queries), tw_widen(b, query));
    at = tw_add(b, tw_mul_imm(b, at, p->ldm), tw_widen(b, first));
    return tw_add(b, g->arg.mask, tw_mul_imm(b, at, bytes));
}

tw_attention_sight tw_attention_sight_of(tw_attention_gen *g, const tw_attention_tile *t,
                                         const tw_attention_blocks *blocks) {
    tw_builder *b = g->b;
    const int window = (int)g->p->window, behind = g->p->causal ? 0 : window ? window - 1 : -1;
    tw_val row = tw_add(b, tw_mul_imm(b, g->strip, TW_ATTENTION_STRIP), tw_shr(b, g->lane, 2));
    tw_val first = tw_mul_imm(b, tw_rem(b, g->lane, 4), 2); /* The thread's first column. */
    tw_attention_sight s;
    for (int r = 0; r < ROWS; r++) {
        tw_val of_tile = tw_add_imm(b, row, (int64_t)8 * r);
        tw_val query = tw_div(b, of_tile, g->plan.pack);
        tw_val position = tw_add(b, blocks->position, query), below = t->keys;
        if (behind >= 0) below = tw_min(b, below, tw_add_imm(b, position, (int64_t)1 + behind));
        s.below[r] = tw_sub(b, below, first);
        s.from[r] = window ? tw_sub(b, tw_add_imm(b, position, (int64_t)1 - window), first) : TW_NONE;
        s.mask[r] = g->p->mask ? mask_row(g, t, of_tile, first) : TW_NONE;
    }
    return s;
}

/* Loads two neighbouring numbers of the mask. Of i8 they are i32, of other types f32. */
static void load_pair(tw_attention_gen *g, tw_val at, int offset, tw_val out[2]) {
    tw_builder *b = g->b;
    const bool half = g->p->mask == TW_T_f16 || g->p->mask == TW_T_bf16;
    const tw_attrs pair = {.type = g->p->mask, .vec = 2, .offset = offset}, word = {.type = TW_T_i32, .offset = offset};
    if (!half) {
        tw_ld_vec(b, pair, at, out);
        return;
    }
    tw_val both = tw_ld(b, word, at);
    for (int i = 0; i < 2; i++) out[i] = tw_part_half(b, g->p->mask == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2, both, i);
}

/* Applies the array. At an edge, eights of columns behind the array's rows are taken from the rows' last ones: nobody
   sees their keys. */
static void apply_array(tw_attention_gen *g, const tw_attention_sight *s, tw_val key, bool edge) {
    tw_builder *b = g->b;
    const int bytes = tw_type_bits(g->p->mask) / 8;
    tw_val none = tw_f32(b, -INFINITY), scale = tw_attention_times_scale(g, (float)g->p->scale), zero = tw_i32(b, 0),
           row[ROWS];
    for (int r = 0; r < ROWS; r++)
        row[r] = edge ? s->mask[r] : tw_add(b, s->mask[r], tw_mul_imm(b, tw_widen(b, key), bytes));
    for (int i = 0; i < g->plan.scores; i += 2) {
        const int r = row_of(i), column = column_of(i);
        tw_val at = row[r], x[2] = {{0}};
        if (edge) {
            tw_val inside = tw_min(b, tw_add_imm(b, key, column), tw_i32(b, (int)g->p->ldm - EIGHT));
            at = tw_add(b, at, tw_mul_imm(b, tw_widen(b, inside), bytes));
        }
        load_pair(g, at, edge ? 0 : column * bytes, x);
        for (int j = 0; j < 2; j++) {
            tw_val score = g->scores[i + j];
            if (g->p->mask == TW_T_i8)
                score = tw_select(b, tw_eq(b, x[j], zero), none, score);
            else if (g->p->cap > 0)
                score = tw_add(b, score, x[j]);
            else
                score = tw_fma(b, score, scale, x[j]);
            tw_assign(b, g->scores[i + j], score);
        }
    }
}

void tw_attention_mask(tw_attention_gen *g, const tw_attention_sight *s, tw_val key, bool edge) {
    tw_builder *b = g->b;
    tw_val below[ROWS], from[ROWS], none = tw_f32(b, -INFINITY);
    if (g->p->mask) apply_array(g, s, key, edge);
    if (!edge) return;
    for (int r = 0; r < ROWS; r++) {
        below[r] = tw_sub(b, s->below[r], key);
        if (g->p->window) from[r] = tw_sub(b, s->from[r], key);
    }
    for (int i = 0; i < g->plan.scores; i++) {
        const int r = row_of(i);
        tw_val column = tw_i32(b, column_of(i)), sees = tw_lt(b, column, below[r]);
        if (g->p->window) sees = tw_and(b, sees, tw_le(b, from[r], column));
        tw_assign(b, g->scores[i], tw_select(b, sees, g->scores[i], none));
    }
}
