/* SPDX-License-Identifier: Apache-2.0 */
/* The ends of a step of many sequences: from logits to tokens, by the rules of each (vm/sample.h). The step is the
   tail, whose rows are the ends. The code is that of the persistent kernel, whose slots are parts of the vocabulary,
   too. */
#include "base/divide.h"
#include "kernels/parts/activation.h"
#include "kernels/parts/meet.h"
#include "vm/cuda/generate.h"
#include "vm/prefill/generate.h"

enum { STEP, LOGITS, COUNTS, CELLS };

/* A plan of what the persistent kernel would have to do with the ends. Its sequences are ends. */
static tw_mega_plan plan_of(const tw_prefill_shape *s) {
    tw_mega_plan p = {.tuning = {.warps = TW_PREFILL_WARPS},
                      .tokens = TW_MANY_SEQUENCES,
                      .sequences = TW_MANY_SEQUENCES,
                      .vocab = s->m->vocab,
                      .slots = tw_prefill_slots(s->m),
                      .samples = true,
                      .fours = s->m->vocab % 4 == 0,
                      .cut_list = s->cut_list};
    p.shared_bytes = (int)tw_mega_cut_bytes(&p);
    return p;
}

/* Makes a generator for an end. The persistent kernel finds counts by the number of a sequence, which is an end's
   number here, so that they begin as many rows earlier. */
static tw_mega_gen generator_of(tw_prefill_gen *g, const tw_mega_plan *p, tw_val end, tw_val sequence) {
    tw_builder *b = g->b;
    tw_mega_gen m = {.b = b, .p = p, .thread = g->thread, .warp = g->warp, .lane = g->lane, .step = tw_i32(b, 0)};
    tw_val step = g->buffer[STEP];
    m.arg[TW_MEGA_ARG_RULES] = tw_add_imm(b, step, 4 * TW_TAIL_RULES);
    m.arg[TW_MEGA_ARG_TOKENS] = tw_add_imm(b, step, 4 * (TW_TAIL_POSITIONS - TW_MANY_SEQUENCES));
    m.arg[TW_MEGA_ARG_MODE] = tw_prefill_step(g, step, TW_MANY_MODE);
    m.arg[TW_MEGA_ARG_COUNTS] = tw_prefill_at(g, g->buffer[COUNTS], tw_sub(b, sequence, end), 4 * p->vocab);
    return m;
}

static tw_val sequence_of(tw_prefill_gen *g, tw_val end) {
    return tw_prefill_row_word(g, g->buffer[STEP], end, TW_ROW_SEQUENCE);
}

static tw_val is_end(tw_prefill_gen *g, tw_val end) {
    return tw_lt(g->b, end, tw_prefill_step(g, g->buffer[STEP], TW_STEP_COUNT));
}

/* ---- values: step, logits, counts, cells. A block has a slot of an end. */

static int64_t values_grid(const tw_prefill_shape *s) {
    return s->tokens * tw_prefill_slots(s->m);
}

enum { FOUR = 4, AT_ONCE = 4, ROUND = FOUR * TW_PREFILL_THREADS };
_Static_assert(TW_PREFILL_SLOT == AT_ONCE * ROUND, "a thread has the same logits in every slot");

/* Tells whether an end's rules make other values of logits before anything is cut. */
static tw_val has_values(tw_prefill_gen *g, tw_val end) {
    tw_builder *b = g->b;
    tw_val mode = tw_prefill_step(g, tw_prefill_at(g, g->buffer[STEP], end, sizeof(tw_sample_rules)), TW_TAIL_RULES);
    tw_val draws = tw_and(b, mode, tw_i32(b, TW_SAMPLE_DRAWS | TW_SAMPLE_CUTS));
    return tw_or(b, tw_ne(b, tw_and(b, mode, tw_i32(b, TW_SAMPLE_PENALISES)), tw_i32(b, 0)),
                 tw_eq(b, draws, tw_i32(b, TW_SAMPLE_DRAWS)));
}

/* Caps a logit, if the model caps logits. The head's product does not. */
static tw_val cap(const tw_prefill_gen *g, tw_val z) {
    const float most = g->s->m->logit_cap;
    return most > 0 ? tw_part_cap(g->b, z, most) : z;
}

/* Takes logits as they are, and leaves those that are capped. All loads of a thread are under way together. */
static void take_logits(tw_prefill_gen *g, tw_val logits, tw_val from, const tw_argmax *best) {
    tw_builder *b = g->b;
    tw_val z[AT_ONCE][FOUR], id[AT_ONCE], last = tw_i32(b, (int)g->s->rows);
    for (int i = 0; i < AT_ONCE; i++) {
        id[i] = tw_add(b, from, tw_add_imm(b, tw_mul_imm(b, g->thread, FOUR), (int64_t)i * ROUND));
        tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, logits, id[i], 4), FOUR, tw_lt(b, id[i], last), z[i]);
    }
    for (int i = 0; i < AT_ONCE && g->s->m->logit_cap > 0; i++) {
        for (int e = 0; e < FOUR; e++) z[i][e] = cap(g, z[i][e]);
        TW_IF (b, tw_lt(b, id[i], last)) tw_prefill_store(g, TW_T_f32, tw_prefill_at(g, logits, id[i], 4), FOUR, z[i]);
    }
    for (int i = 0; i < AT_ONCE; i++)
        for (int e = 0; e < FOUR; e++) {
            tw_val one = tw_add_imm(b, id[i], e);
            TW_IF (b, tw_lt(b, one, tw_i32(b, (int)g->s->m->vocab))) tw_argmax_take(b, best, z[i][e], one);
        }
}

/* Takes what rules make of logits, and leaves what caps and penalties make of them. */
static void take_values(tw_prefill_gen *g, tw_mega_gen *m, tw_val end, tw_val logits, tw_val from,
                        const tw_argmax *best) {
    tw_builder *b = g->b;
    tw_val behind = tw_min(b, tw_add_imm(b, from, TW_PREFILL_SLOT), tw_i32(b, (int)g->s->m->vocab));
    TW_FOR (b, id, tw_add(b, from, g->thread), behind, tw_i32(b, TW_PREFILL_THREADS), false) {
        tw_val at = tw_prefill_at(g, logits, id, 4);
        tw_val z = cap(g, tw_ld(b, (tw_attrs){.type = TW_T_f32}, at)), value = z;
        tw_mega_build_value(m, end, id, &z, &value);
        tw_st(b, (tw_attrs){.type = TW_T_f32}, at, &z);
        tw_argmax_take(b, best, value, id);
    }
}

/* Finds the block's best, which its first thread leaves in a cell. */
static void leave_best(tw_prefill_gen *g, const tw_argmax *best, tw_val cell) {
    tw_builder *b = g->b;
    tw_shared_add(b, "bests", TW_PREFILL_WARPS * TW_ARGMAX_BYTES, 16, false);
    tw_val bests = tw_shared_base(b, "bests");
    const tw_argmax of_warp = tw_argmax_warp(b, best);
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0)))
        tw_argmax_store(b, &of_warp, (tw_attrs){.space = TW_SPACE_shared},
                        tw_add(b, bests, tw_mul_imm(b, g->warp, TW_ARGMAX_BYTES)));
    tw_part_meet(b, &(tw_meeting){0});
    TW_IF (b, tw_eq(b, g->thread, tw_i32(b, 0))) {
        const tw_argmax all = tw_argmax_of(b, TW_SAMPLE_LEAST);
        tw_argmax_take_cells(b, &all, bests, 0, TW_PREFILL_WARPS);
        tw_argmax_store(b, &all, (tw_attrs){0}, cell);
    }
}

static void build_values(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const tw_mega_plan p = plan_of(g->s);
    tw_val end = tw_div(b, g->block, p.slots), slot = tw_rem(b, g->block, p.slots);
    TW_IF (b, is_end(g, end)) {
        tw_mega_gen m = generator_of(g, &p, end, sequence_of(g, end));
        tw_val logits = tw_prefill_at(g, g->buffer[LOGITS], end, 4 * g->s->rows);
        tw_val from = tw_mul_imm(b, slot, TW_PREFILL_SLOT);
        const tw_argmax best = tw_argmax_of(b, TW_SAMPLE_LEAST);
        TW_IF (b, has_values(g, end)) {
            take_values(g, &m, end, logits, from, &best);
        } else {
            take_logits(g, logits, from, &best);
        }
        tw_val cell = tw_prefill_at(g, g->buffer[CELLS], slot, TW_ARGMAX_BYTES * TW_MANY_SEQUENCES);
        leave_best(g, &best, tw_prefill_at(g, cell, end, TW_ARGMAX_BYTES));
    }
}

const tw_prefill_kind tw_prefill_values = {"prefill_values",
                                           build_values,
                                           values_grid,
                                           {{"step", false}, {"logits", true}, {"counts", false}, {"cells", true}}};

/* ---- pick: step, logits, counts, cells, slots, found, out. A block has an end. */

enum { SLOTS = CELLS + 1, FOUND, OUT };

static int64_t pick_grid(const tw_prefill_shape *s) {
    return s->tokens;
}

static void build_pick(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const tw_mega_plan p = plan_of(g->s);
    tw_shared_add(b, "memory", p.shared_bytes, 128, false);
    tw_val end = g->block;
    TW_IF (b, is_end(g, end)) {
        tw_val sequence = sequence_of(g, end);
        tw_mega_gen m = generator_of(g, &p, end, sequence);
        m.shared = tw_shared_base(b, "memory");
        m.arg[TW_MEGA_ARG_OUT] =
            tw_prefill_at(g, g->buffer[OUT], tw_prefill_step(g, g->buffer[STEP], TW_MANY_OUT), sizeof(int32_t));
        const tw_mega_output o = {.slots = tw_i32(b, p.slots),
                                  .best = g->buffer[CELLS],
                                  .token =
                                      tw_prefill_at(g, g->buffer[FOUND], tw_sub(b, sequence, end), sizeof(int32_t)),
                                  /* Rows of logits may be longer than the vocabulary. */
                                  .logits = tw_prefill_at(g, g->buffer[LOGITS], end, 4 * (g->s->rows - p.vocab)),
                                  .rows = g->buffer[SLOTS],
                                  .aborted = tw_i32(b, 0)};
        tw_mega_build_output_one(&m, &o, end);
    }
}

const tw_prefill_kind tw_prefill_pick = {"prefill_pick",
                                         build_pick,
                                         pick_grid,
                                         {{"step", false},
                                          {"logits", false},
                                          {"counts", true},
                                          {"cells", false},
                                          {"slots", false},
                                          {"found", true},
                                          {"out", true}}};
