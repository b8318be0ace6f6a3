/* SPDX-License-Identifier: Apache-2.0 */
/* Where the tail of a step begins, and the kernel that begins it: rows that are ends are copied next to one another. */
#include "base/divide.h"
#include "vm/prefill/program.h"

int tw_prefill_tail(const tw_schedule *s) {
    const tw_worker *w = &s->workers[0];
    int last = 0;
    for (int i = 0; i < w->count; i++)
        if (w->list[i].op == TW_INSTR_QKV || w->list[i].op == TW_INSTR_TURN) last = i;
    return last + 1;
}

/* ---- take: step, x, q, tail_x, tail_q. A block has a part of a row. */

enum { STEP, X, Q, TAIL_X, TAIL_Q };
enum { PART = 16 * TW_PREFILL_THREADS /* Bytes of a block: 16 for each thread. */ };

static int64_t x_bytes(const tw_prefill_shape *s) {
    return s->m->dim * (int64_t)sizeof(float);
}

static int64_t q_bytes(const tw_prefill_shape *s) {
    return s->m->n_heads * s->m->head_dim * tw_prefill_bytes(s->type);
}

/* Returns the number of blocks of a row. Those of x come first. */
static int parts_of(const tw_prefill_shape *s) {
    return (int)(tw_ceil_div(x_bytes(s), PART) + tw_ceil_div(q_bytes(s), PART));
}

static int64_t grid(const tw_prefill_shape *s) {
    return s->tokens * parts_of(s);
}

/* Loads the number of an end's row in the step. */
static tw_val row_of(tw_prefill_gen *g, tw_val end) {
    if (g->s->many) return tw_prefill_row_word(g, g->buffer[STEP], end, TW_ROW_TOKEN);
    return tw_prefill_step(g, tw_prefill_at(g, g->buffer[STEP], end, sizeof(int32_t)), TW_STEP_TOKENS);
}

static void build(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const tw_attrs words = {.type = TW_T_i32, .vec = 4};
    const int parts = parts_of(g->s), of_x = (int)tw_ceil_div(x_bytes(g->s), PART);
    tw_val end = tw_div(b, g->block, parts), part = tw_rem(b, g->block, parts);
    TW_IF (b, tw_lt(b, end, tw_prefill_step(g, g->buffer[STEP], TW_STEP_COUNT))) {
        tw_val row = row_of(g, end), is_x = tw_lt(b, part, tw_i32(b, of_x));
        tw_val bytes = tw_select(b, is_x, tw_i32(b, (int)x_bytes(g->s)), tw_i32(b, (int)q_bytes(g->s)));
        tw_val number = tw_select(b, is_x, part, tw_add_imm(b, part, -of_x));
        tw_val at = tw_add(b, tw_mul_imm(b, number, PART), tw_mul_imm(b, g->thread, 16));
        TW_IF (b, tw_lt(b, at, bytes)) {
            tw_val from = tw_select(b, is_x, tw_prefill_at(g, g->buffer[X], row, x_bytes(g->s)),
                                    tw_prefill_at(g, g->buffer[Q], row, q_bytes(g->s)));
            tw_val to = tw_select(b, is_x, tw_prefill_at(g, g->buffer[TAIL_X], end, x_bytes(g->s)),
                                  tw_prefill_at(g, g->buffer[TAIL_Q], end, q_bytes(g->s)));
            tw_val x[4] = {{0}};
            tw_ld_vec(b, words, tw_prefill_at(g, from, at, 1), x);
            tw_st(b, words, tw_prefill_at(g, to, at, 1), x);
        }
    }
}

const tw_prefill_kind tw_prefill_take = {
    "prefill_take", build, grid, {{"step", false}, {"x", false}, {"q", false}, {"tail_x", true}, {"tail_q", true}}};
