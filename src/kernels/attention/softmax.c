/* SPDX-License-Identifier: Apache-2.0 */
/* The online softmax of a block's scores, in the registers in which wgmma leaves them: a thread has two rows, 8 apart,
   and of every eight columns two neighbours. Scores that a query does not see become -infinity. */
#include "kernels/parts/softmax.h"
#include "kernels/attention/generate.h"
#include "kernels/parts/convert.h"
#include "kernels/parts/reduce.h"

#include <math.h>

enum { ROWS = 2 /* Rows of a thread. */, CHAINS = 2 /* Independent maxima, or sums, of a row. */ };

/* The row of score i. */
static int row_of(int i) {
    return i / 2 % 2;
}

tw_val tw_attention_times_scale(tw_attention_gen *g, float x) {
    return g->p->kv ? tw_mul(g->b, g->key_scale, tw_f32(g->b, x)) : tw_f32(g->b, x);
}

tw_val tw_attention_factor(tw_attention_gen *g, float sign) {
    const bool scaled = tw_attention_scales_first(g->p);
    const float factor = (float)((scaled ? 1 : g->p->scale) * (double)TW_SOFTMAX_LOG2E) * sign;
    return scaled ? tw_f32(g->b, factor) : tw_attention_times_scale(g, factor);
}

void tw_attention_load_scales(tw_attention_gen *g, const tw_attention_tile *t) {
    tw_builder *b = g->b;
    const float unit = g->p->type == TW_T_f16 ? TW_PART_E4M3_F16 : 1;
    tw_val head = tw_div(b, t->head, g->plan.heads / (int)g->p->kv_heads);
    tw_val offset = tw_mul_imm(b, tw_widen(b, head), 4), scale = tw_f32(b, unit);
    const tw_attrs at = {.type = TW_T_f32};
    g->key_scale = tw_mul(b, tw_ld(b, at, tw_add(b, g->arg.k_scales, offset)), scale);
    g->value_scale = tw_mul(b, tw_ld(b, at, tw_add(b, g->arg.v_scales, offset)), scale);
}

void tw_attention_turn_to(tw_attention_gen *g, int strip) {
    tw_attention_registers *of = &g->of[strip];
    g->strip = tw_add_imm(g->b, tw_mul_imm(g->b, g->team, g->plan.own), strip);
    g->scores = of->scores;
    g->weights = of->weights;
    g->sums = of->sums;
    g->max = of->max;
    g->sum = of->sum;
}

void tw_attention_declare(tw_attention_gen *g) {
    tw_builder *b = g->b;
    for (int strip = g->plan.own - 1; strip >= 0; strip--) {
        tw_attention_turn_to(g, strip);
        for (int i = 0; i < g->plan.scores; i++) g->scores[i] = tw_var_of(b, tw_f32(b, 0));
        for (int i = 0; i < g->plan.scores / 2; i++) g->weights[i] = tw_var_of(b, tw_i32(b, 0));
        for (int i = 0; i < g->plan.sums; i++) g->sums[i] = tw_var_of(b, tw_f32(b, 0));
        for (int r = 0; r < ROWS; r++) {
            g->max[r] = tw_var_of(b, tw_f32(b, 0));
            g->sum[r] = tw_var_of(b, tw_f32(b, 0));
        }
    }
}

void tw_attention_reset(tw_attention_gen *g) {
    tw_builder *b = g->b;
    for (int i = 0; i < g->plan.sums; i++) tw_assign(b, g->sums[i], tw_f32(b, 0));
    for (int r = 0; r < ROWS; r++) {
        tw_assign(b, g->max[r], tw_f32(b, -INFINITY));
        tw_assign(b, g->sum[r], tw_f32(b, 0));
    }
}

/* Computes cap * tanh(s * scale / cap). */
static void cap(tw_attention_gen *g) {
    tw_builder *b = g->b;
    tw_val before = tw_attention_times_scale(g, (float)(g->p->scale / g->p->cap)), behind = tw_f32(b, (float)g->p->cap);
    for (int i = 0; i < g->plan.scores; i++) {
        tw_val bent = tw_unary(b, TW_OP_tanh_f32, tw_mul(b, g->scores[i], before));
        tw_assign(b, g->scores[i], tw_mul(b, bent, behind));
    }
}

void tw_attention_weigh(tw_attention_gen *g, const tw_attention_sight *s, tw_val key, bool edge, tw_val keep[2]) {
    tw_builder *b = g->b;
    const bool masks = edge || g->p->mask;
    tw_val most[ROWS][CHAINS] = {{{0}}}, total[ROWS][CHAINS] = {{{0}}}, shift[ROWS];
    tw_val by = tw_attention_factor(g, 1), zero = tw_f32(b, 0);
    if (g->p->cap > 0) cap(g);
    if (masks) tw_attention_mask(g, s, key, edge);
    for (int i = 0; i < g->plan.scores; i++) {
        tw_val *m = &most[row_of(i)][i % CHAINS];
        *m = m->id ? tw_max(b, *m, g->scores[i]) : g->scores[i];
    }
    for (int r = 0; r < ROWS; r++) {
        tw_val m = tw_part_warp_max(b, tw_max(b, most[r][0], most[r][1]), 1, 4);
        m = tw_max(b, m, g->max[r]);
        /* The maximum of no scores is -infinity, whose differences are no numbers. */
        tw_val finite = masks ? tw_select(b, tw_eq(b, m, tw_f32(b, -INFINITY)), zero, m) : m;
        shift[r] = tw_mul(b, finite, tw_attention_factor(g, -1));
        keep[r] = tw_unary(b, TW_OP_exp2_f32, tw_mul(b, tw_sub(b, g->max[r], finite), by)); /* 1 if it stays. */
        tw_assign(b, g->max[r], m);
    }
    for (int i = 0; i < g->plan.scores; i++) {
        tw_val x = tw_unary(b, TW_OP_exp2_f32, tw_fma(b, g->scores[i], by, shift[row_of(i)]));
        tw_assign(b, g->scores[i], x);
        tw_val *t = &total[row_of(i)][i % CHAINS];
        *t = t->id ? tw_add(b, *t, x) : x;
    }
    for (int r = 0; r < ROWS; r++)
        tw_op_to(b, g->sum[r], TW_OP_fma_f32, g->sum[r], keep[r], tw_add(b, total[r][0], total[r][1]));
}

void tw_attention_convert(tw_attention_gen *g) {
    const tw_type pair = g->p->type == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2;
    for (int i = 0; i < g->plan.scores / 2; i++) {
        tw_val both = tw_part_pair(g->b, pair, g->scores[2 * i], g->scores[2 * i + 1]);
        tw_assign(g->b, g->weights[i], tw_bitcast(g->b, TW_T_i32, both));
    }
}

void tw_attention_rescale(tw_attention_gen *g, const tw_val keep[2]) {
    tw_builder *b = g->b;
    tw_scope some = TW_NO_BLOCK;
    tw_record_begin(b, TW_ATTENTION_RESCALE, TW_ENGINE_OF_alu);
    tw_attention_convert(g);
    if (g->c->lazy) {
        tw_val one = tw_f32(b, 1), raised = tw_or(b, tw_lt(b, keep[0], one), tw_lt(b, keep[1], one));
        some = tw_push_if(b, tw_get(b, TW_OP_vote, (tw_attrs){.mode = TW_MODE_any}, TW_T_pred, raised, tw_i32(b, -1)));
    }
    for (int i = 0; i < g->plan.sums; i++)
        tw_op_to(g->b, g->sums[i], TW_OP_mul_f32, g->sums[i], keep[row_of(i)], TW_NONE);
    if (g->c->lazy) tw_pop(b, some);
    tw_record_end(b, TW_ATTENTION_RESCALE);
}
