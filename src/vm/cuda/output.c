/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a step finds the token of each sequence. It is the best of all workers' bests, whose values may be drawn
   scores. Under top-k, top-p or min-p it is drawn from the candidates that these cuts leave (cut.c). */
#include "vm/cuda/cut.h"

enum { AT_ONCE = 5 }; /* Slots that a lane loads at once. A warp loads those of 160 workers. */

static tw_val rules_at(tw_mega_gen *g, tw_val sequence) {
    return tw_mega_at(g->b, g->arg[TW_MEGA_ARG_RULES], sequence, sizeof(tw_sample_rules));
}

tw_draw_key tw_mega_draw_key(tw_mega_gen *g, tw_val rules, tw_val sequence) {
    const tw_val seed[2] = {TW_MEGA_RULE(g, rules, TW_T_i32, seed[0]), TW_MEGA_RULE(g, rules, TW_T_i32, seed[1])};
    return tw_draw_key_of(g->b, seed, tw_mega_position(g, sequence));
}

static tw_val has(tw_builder *b, tw_val mode, int bits) {
    return tw_ne(b, tw_and(b, mode, tw_i32(b, bits)), tw_i32(b, 0));
}

/* ---- in the head: what a row's logit becomes */

/* Tells whether rows have values other than their logits: with penalties, or in a draw from all of them. */
static tw_val has_values(tw_builder *b, tw_val mode) {
    tw_val draws = tw_and(b, mode, tw_i32(b, TW_SAMPLE_DRAWS | TW_SAMPLE_CUTS));
    return tw_or(b, has(b, mode, TW_SAMPLE_PENALISES), tw_eq(b, draws, tw_i32(b, TW_SAMPLE_DRAWS)));
}

void tw_mega_build_value(tw_mega_gen *g, tw_val sequence, tw_val id, tw_val *z, tw_val *value) {
    tw_builder *b = g->b;
    *z = tw_var_of(b, *z);
    *value = tw_var_of(b, *value);
    tw_val rules = rules_at(g, sequence), mode = TW_MEGA_RULE(g, rules, TW_T_i32, mode);
    TW_IF (b, has(b, mode, TW_SAMPLE_PENALISES)) {
        tw_val counts = tw_mega_at(b, g->arg[TW_MEGA_ARG_COUNTS], sequence, 4 * g->p->vocab);
        tw_val count = tw_ld(b, tw_mega_l2(TW_T_i32, 1, 0), tw_mega_at(b, counts, id, 4));
        tw_assign(b, *z,
                  tw_draw_penalise(b, TW_MEGA_RULE(g, rules, TW_T_f32, repetition),
                                   TW_MEGA_RULE(g, rules, TW_T_f32, presence),
                                   TW_MEGA_RULE(g, rules, TW_T_f32, frequency), *z, count));
        tw_assign(b, *value, *z);
    }
    tw_val draws = tw_and(b, mode, tw_i32(b, TW_SAMPLE_DRAWS | TW_SAMPLE_CUTS));
    TW_IF (b, tw_eq(b, draws, tw_i32(b, TW_SAMPLE_DRAWS)))
        tw_assign(
            b, *value,
            tw_draw_score(b, tw_mega_draw_key(g, rules, sequence), TW_MEGA_RULE(g, rules, TW_T_f32, scale), *z, id));
}

/* Begins a loop over sequences if there are several. The scope's `i` is the sequence. */
static tw_scope push_sequences(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const int n = g->p->sequences;
    tw_val zero = tw_i32(b, 0);
    return n > 1 ? tw_push_for(b, zero, tw_i32(b, n), tw_i32(b, 1), false) : TW_NO_LOOP(zero);
}

/* Applies each sequence's rules to the logits of the block's rows, and finds the largest values. The logits are read
   back from memory: while rows are multiplied, no registers are left for this. */
void tw_mega_build_values(tw_mega_gen *g, tw_mega_sums *s) {
    tw_builder *b = g->b;
    const int n = g->p->sequences;
    if (!g->p->samples) return;
    tw_val logits = tw_mega_address(g, TW_W_OUT), from = tw_mega_word(g, TW_W_FROM);
    tw_val count = tw_mega_word(g, TW_W_COUNT);
    TW_IF (b, has(b, g->arg[TW_MEGA_ARG_MODE], TW_SAMPLE_DRAWS | TW_SAMPLE_PENALISES)) {
        tw_mega_barrier(g);
        TW_LOOP (b, sequence, push_sequences(g)) {
            TW_IF (b, has_values(b, TW_MEGA_RULE(g, rules_at(g, sequence), TW_T_i32, mode))) {
                for (int u = 0; u < n; u++)
                    TW_IF (b, tw_eq(b, sequence, tw_i32(b, u))) {
                        tw_assign(b, s->best[u].value, tw_f32(b, TW_SAMPLE_LEAST));
                        tw_assign(b, s->best[u].number, tw_i32(b, INT32_MAX));
                    }
                TW_LOOP (b, i, tw_mega_thread_loop(g, count)) {
                    tw_val id = tw_add(b, from, i);
                    tw_val cell = tw_mega_at(b, tw_mega_at(b, logits, sequence, 4 * g->p->vocab), id, 4);
                    tw_val z = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), cell), value = z;
                    tw_mega_build_value(g, sequence, id, &z, &value);
                    tw_st(b, (tw_attrs){.type = TW_T_f32}, cell, &z);
                    for (int u = 0; u < n; u++)
                        TW_IF (b, tw_and(b, tw_eq(b, sequence, tw_i32(b, u)), tw_lt(b, s->best[u].value, value))) {
                            tw_assign(b, s->best[u].value, value);
                            tw_assign(b, s->best[u].number, id);
                        }
                }
            }
        }
    }
}

/* ---- the end of a step: the best of the bests */

void tw_mega_leave(tw_mega_gen *g, const tw_mega_output *o, tw_val sequence, tw_val token) {
    tw_builder *b = g->b;
    tw_st(b, (tw_attrs){.type = TW_T_i32}, tw_mega_at(b, o->token, sequence, 4), &token);
    tw_val out = tw_mega_at(b, tw_mega_at(b, g->arg[TW_MEGA_ARG_OUT], g->step, 4 * g->p->sequences), sequence, 4);
    tw_val said = tw_select(b, tw_eq(b, o->aborted, tw_i32(b, 0)), token, tw_i32(b, TW_MEGA_GAVE_UP));
    tw_st(b, (tw_attrs){.type = TW_T_i32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_sys}, out, &said);
    if (!g->p->samples) return;
    TW_IF (b, has(b, g->arg[TW_MEGA_ARG_MODE], TW_SAMPLE_PENALISES)) {
        TW_IF (b, has(b, TW_MEGA_RULE(g, rules_at(g, sequence), TW_T_i32, mode), TW_SAMPLE_PENALISES)) {
            tw_val id = tw_binary(b, TW_OP_min_u32, token, tw_i32(b, (int32_t)g->p->vocab - 1));
            tw_val counts = tw_mega_at(b, g->arg[TW_MEGA_ARG_COUNTS], sequence, 4 * g->p->vocab);
            tw_val cell = tw_mega_at(b, counts, id, 4);
            tw_val count = tw_ld(b, tw_mega_l2(TW_T_i32, 1, 0), cell);
            count = tw_or(b, tw_add_imm(b, count, 1), tw_i32(b, (int32_t)TW_SAMPLE_SEEN));
            tw_st(b, (tw_attrs){.type = TW_T_i32}, cell, &count);
        }
    }
}

tw_val tw_mega_number_or_first(tw_builder *b, tw_val number) {
    return tw_select(b, tw_eq(b, number, tw_i32(b, INT32_MAX)), tw_i32(b, 0), number);
}

/* A warp reduces the workers' bests of a sequence to one; each lane reads some of them. */
static void leave_best(tw_mega_gen *g, const tw_mega_output *o, tw_val sequence) {
    tw_builder *b = g->b;
    const tw_argmax mine = tw_argmax_of(b, TW_SAMPLE_LEAST);
    TW_FOR (b, i, g->lane, o->slots, tw_i32(b, 32 * AT_ONCE), false) {
        tw_val v[AT_ONCE], one[AT_ONCE], there[AT_ONCE];
        for (int u = 0; u < AT_ONCE; u++) {
            tw_val slot = tw_add_imm(b, i, 32 * u);
            tw_val from = tw_mega_at(b, tw_mega_at(b, o->best, slot, 8 * g->p->sequences), sequence, 8);
            there[u] = tw_lt(b, slot, o->slots);
            tw_when(b, there[u]);
            v[u] = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), from);
            tw_when(b, there[u]);
            one[u] = tw_ld(b, tw_mega_l2(TW_T_i32, 1, 4), from);
        }
        for (int u = 0; u < AT_ONCE; u++) {
            TW_IF (b, tw_and(b, there[u], tw_lt(b, mine.value, v[u]))) {
                tw_assign(b, mine.value, v[u]);
                tw_assign(b, mine.number, one[u]);
            }
        }
    }
    tw_val token = tw_mega_number_or_first(b, tw_argmax_warp(b, &mine).number);
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) tw_mega_leave(g, o, sequence, token);
}

void tw_mega_build_output_one(tw_mega_gen *g, const tw_mega_output *o, tw_val sequence) {
    tw_builder *b = g->b;
    tw_val rules = rules_at(g, sequence), mode = TW_MEGA_RULE(g, rules, TW_T_i32, mode);
    TW_IF (b, has(b, mode, TW_SAMPLE_CUTS)) {
        tw_mega_build_cut(g, o, sequence, rules);
    } else {
        TW_IF (b, tw_eq(b, g->warp, tw_i32(b, 0))) leave_best(g, o, sequence);
    }
}

/* Each warp takes some of the sequences. */
static void leave_bests(tw_mega_gen *g, const tw_mega_output *o) {
    tw_val n = tw_i32(g->b, g->p->sequences), warps = tw_i32(g->b, g->p->tuning.warps);
    TW_FOR (g->b, i, g->warp, n, warps, false) leave_best(g, o, i);
}

void tw_mega_build_output_of(tw_mega_gen *g, const tw_mega_output *o) {
    tw_builder *b = g->b;
    if (!g->p->samples) {
        leave_bests(g, o);
        return;
    }
    TW_IF (b, tw_not(b, has(b, g->arg[TW_MEGA_ARG_MODE], TW_SAMPLE_CUTS))) {
        leave_bests(g, o);
    } else {
        TW_LOOP (b, sequence, push_sequences(g)) tw_mega_build_output_one(g, o, sequence);
    }
}

void tw_mega_build_output(tw_mega_gen *g) {
    tw_mega_output o = {.slots = tw_mega_word(g, TW_W_COUNT), .best = tw_mega_address(g, TW_W_IN)};
    o.token = tw_mega_address(g, TW_W_OUT);
    if (g->p->samples) {
        o.logits = tw_mega_address(g, TW_W_LOGITS);
        o.rows = tw_mega_address(g, TW_W_SLOT_ROWS);
    }
    tw_mega_wait_alone(g);
    tw_attrs look = {.type = TW_T_i32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_gpu};
    o.aborted = tw_ld(g->b, look, g->arg[TW_MEGA_ARG_ABORT]);
    tw_mega_build_output_of(g, &o);
}
