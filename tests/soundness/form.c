/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that an instruction has before anything runs: names of nothing, buffers that are not what the op addresses. */
#include "soundness/touch.h"

const char *hazard_name(hazard h) {
    static const char *const names[HAZARD_COUNT] = {
        "none",     "reference", "kind", "read-only", "shape",    "bounds", "structure",
        "deadlock", "step end",  "race", "undefined", "coverage", "output", "self overlap",
    };
    return names[h];
}

typedef struct form {
    const tw_schedule *s;
    const tw_instr *in;
    const tw_instr_op_info *info;
    hazard fault;
} form;

static void fail(form *f, hazard h) {
    if (f->fault == HAZARD_NONE) f->fault = h;
}

static const tw_buffer *operand_of(const form *f, int i) {
    return f->in->operand[i] < 0 ? NULL : &f->s->buffers[f->in->operand[i]];
}

static int64_t extent(const form *f, int operand, int dimension) {
    return operand_of(f, operand)->shape[dimension];
}

enum { ANY = -1 };

static void shape(form *f, int operand, int64_t a, int64_t b, int64_t c) {
    const tw_buffer *x = operand_of(f, operand);
    const int64_t want[3] = {a, b, c};
    for (int i = 0; x && i < 3; i++)
        if (x->shape[i] < 1 || (want[i] != ANY && x->shape[i] != want[i])) fail(f, HAZARD_SHAPE);
    /* What is not a weight is 4 bytes an element, and is addressed so. */
    if (x && x->kind != TW_BUFFER_WEIGHT && x->dtype != TW_F32 && x->dtype != TW_I32) fail(f, HAZARD_SHAPE);
}

static void vector(form *f, int operand, int64_t n) {
    shape(f, operand, 1, n, 1);
}

static void bounded(form *f, int64_t from, int64_t to, int64_t limit) {
    if (from < 0 || from > to || to > limit) fail(f, HAZARD_BOUNDS);
}

static void range(form *f, int64_t limit) {
    bounded(f, f->in->param[TW_FROM], f->in->param[TW_TO], limit);
}

static void form_qkv(form *f) {
    int64_t T = f->s->tokens, dim = extent(f, TW_QKV_X, 2), heads = extent(f, TW_QKV_Q, 1), d = extent(f, TW_QKV_Q, 2),
            S = f->s->sequences, kv = extent(f, TW_QKV_V, 0) / S;
    const bool raw = operand_of(f, TW_QKV_RAW_K), cached = operand_of(f, TW_QKV_K);
    if (raw == cached || (raw && operand_of(f, TW_QKV_Q_NORM))) {
        fail(f, HAZARD_REFERENCE);
        return;
    }
    shape(f, TW_QKV_RAW_K, T, kv, d);
    shape(f, TW_QKV_X, T, 1, ANY);
    shape(f, TW_QKV_Q, T, ANY, ANY);
    for (int i = TW_QKV_K; i <= TW_QKV_V; i++) shape(f, i, S * kv, f->s->max_seq, d);
    vector(f, TW_QKV_NORM, dim);
    vector(f, TW_QKV_NORM_BIAS, dim);
    for (int i = 0; i < 3; i++) {
        shape(f, TW_QKV_WQ + i, 1, (i ? kv : heads) * d, dim);
        vector(f, TW_QKV_BQ + i, (i ? kv : heads) * d);
    }
    vector(f, TW_QKV_Q_NORM, d);
    vector(f, TW_QKV_K_NORM, d);
    shape(f, TW_QKV_ROPE, T, 2, ANY);
    range(f, (heads + 2 * kv) * d);
    if (f->fault != HAZARD_NONE || !operand_of(f, TW_QKV_ROPE)) return;
    int64_t turns = 2 * extent(f, TW_QKV_ROPE, 2);
    if (turns > d) fail(f, HAZARD_SHAPE);
    /* Half a pair cannot be rotated. */
    for (int i = TW_FROM; i <= TW_TO; i++) {
        int64_t at = f->in->param[i];
        if (at / d < heads + kv && at % d < turns && at % 2) fail(f, HAZARD_BOUNDS);
    }
}

static void form_attend(form *f) {
    const int64_t *p = f->in->param;
    int64_t T = f->s->tokens, heads = extent(f, TW_ATTEND_Q, 1), d = extent(f, TW_ATTEND_Q, 2), S = f->s->sequences,
            kv = extent(f, TW_ATTEND_K, 0) / S, splits = p[TW_ATTEND_SPLITS];
    shape(f, TW_ATTEND_Q, T, ANY, ANY);
    for (int i = TW_ATTEND_K; i <= TW_ATTEND_V; i++) shape(f, i, S * kv, f->s->max_seq, d);
    if (f->fault != HAZARD_NONE) return;
    if (kv < 1 || heads < kv || heads % kv) fail(f, HAZARD_SHAPE);
    bounded(f, p[TW_ATTEND_HEAD_FROM], p[TW_ATTEND_HEAD_TO], heads);
    bounded(f, p[TW_ATTEND_ROW_FROM], p[TW_ATTEND_ROW_TO], T);
    if (splits < 1 || p[TW_ATTEND_SPLIT] < 0 || p[TW_ATTEND_SPLIT] >= splits || p[TW_ATTEND_WINDOW] < 0)
        fail(f, HAZARD_BOUNDS);
    const bool raw = operand_of(f, TW_ATTEND_RAW_K);
    if (!operand_of(f, TW_ATTEND_Q_NORM) == raw || !operand_of(f, TW_ATTEND_K_NORM) == raw ||
        !operand_of(f, TW_ATTEND_APPEND) == raw || (operand_of(f, TW_ATTEND_ROPE) && !raw))
        fail(f, HAZARD_REFERENCE);
    if (f->fault != HAZARD_NONE) return;
    if (raw) {
        const int64_t per = heads / kv;
        shape(f, TW_ATTEND_RAW_K, 1, kv, d);
        vector(f, TW_ATTEND_Q_NORM, d);
        vector(f, TW_ATTEND_K_NORM, d);
        shape(f, TW_ATTEND_ROPE, 1, 2, ANY);
        if (T != 1 || p[TW_ATTEND_HEAD_FROM] % per || p[TW_ATTEND_HEAD_TO] % per) fail(f, HAZARD_SHAPE);
        if (operand_of(f, TW_ATTEND_ROPE) && 2 * extent(f, TW_ATTEND_ROPE, 2) > d) fail(f, HAZARD_SHAPE);
        if (f->in->operand[TW_ATTEND_APPEND] != f->in->operand[TW_ATTEND_K]) fail(f, HAZARD_REFERENCE);
    }
    int target = splits == 1 ? TW_ATTEND_OUT : TW_ATTEND_PART;
    if (!operand_of(f, target))
        fail(f, HAZARD_REFERENCE);
    else if (splits == 1)
        shape(f, TW_ATTEND_OUT, T, 1, heads * d);
    else
        shape(f, TW_ATTEND_PART, T, heads * splits, d + 2);
}

static void form_merge(form *f) {
    int64_t T = f->s->tokens, splits = f->in->param[TW_MERGE_SPLITS], slots = extent(f, TW_MERGE_PART, 1),
            d = extent(f, TW_MERGE_PART, 2) - 2;
    shape(f, TW_MERGE_PART, T, ANY, ANY);
    if (splits < 1 || slots % splits || d < 1) {
        fail(f, HAZARD_SHAPE);
        return;
    }
    shape(f, TW_MERGE_OUT, T, 1, slots / splits * d);
    bounded(f, f->in->param[TW_MERGE_HEAD_FROM], f->in->param[TW_MERGE_HEAD_TO], slots / splits);
}

static void form_input(form *f) {
    shape(f, TW_INPUT_TOKENS, f->s->tokens, 1, 1);
    shape(f, TW_INPUT_ROPE, f->s->tokens, 2, ANY);
    shape(f, TW_INPUT_ROPE_LOCAL, f->s->tokens, 2, ANY);
}

static void form_turn(form *f) {
    const int64_t T = f->s->tokens, heads = extent(f, TW_TURN_RAW_Q, 1), d = extent(f, TW_TURN_RAW_Q, 2),
                  kv = extent(f, TW_TURN_RAW_K, 1);
    shape(f, TW_TURN_RAW_Q, T, ANY, ANY);
    shape(f, TW_TURN_RAW_K, T, ANY, d);
    const bool each = extent(f, TW_TURN_Q_NORM, 1) == d; /* A norm of each head. */
    vector(f, TW_TURN_Q_NORM, each ? d : heads * d);
    vector(f, TW_TURN_K_NORM, each ? d : kv * d);
    shape(f, TW_TURN_ROPE, T, 2, ANY);
    shape(f, TW_TURN_Q, T, heads, d);
    shape(f, TW_TURN_K, f->s->sequences * kv, f->s->max_seq, d);
    if (operand_of(f, TW_TURN_ROPE) && 2 * extent(f, TW_TURN_ROPE, 2) > d) fail(f, HAZARD_SHAPE);
    bounded(f, f->in->param[TW_TURN_HEAD_FROM], f->in->param[TW_TURN_HEAD_TO], heads + kv);
}

static void form_embed(form *f) {
    int64_t T = f->s->tokens, dim = extent(f, TW_EMBED_X, 2);
    shape(f, TW_EMBED_X, T, 1, ANY);
    shape(f, TW_EMBED_TOKENS, T, 1, 1);
    shape(f, TW_EMBED_TABLE, 1, ANY, dim);
    shape(f, TW_EMBED_POSITIONS, 1, ANY, dim);
    range(f, dim);
}

static void form_project(form *f) {
    const bool adds = operand_of(f, TW_PROJECT_X), writes = operand_of(f, TW_PROJECT_Y);
    if (adds == writes) {
        fail(f, HAZARD_REFERENCE);
        return;
    }
    const int out = adds ? TW_PROJECT_X : TW_PROJECT_Y;
    int64_t T = f->s->tokens, dim = extent(f, out, 2);
    shape(f, TW_PROJECT_IN, T, 1, ANY);
    shape(f, out, T, 1, ANY);
    shape(f, TW_PROJECT_W, 1, dim, extent(f, TW_PROJECT_IN, 2));
    vector(f, TW_PROJECT_BIAS, dim);
    range(f, dim);
}

static void form_residual(form *f) {
    const int64_t T = f->s->tokens, dim = extent(f, TW_RESIDUAL_X, 2);
    shape(f, TW_RESIDUAL_X, T, 1, ANY);
    shape(f, TW_RESIDUAL_Y, T, 1, dim);
    vector(f, TW_RESIDUAL_NORM, dim);
    range(f, dim);
}

static void form_partial(form *f) {
    const int64_t T = f->s->tokens, parts = extent(f, TW_PARTIAL_SUMS, 1), dim = extent(f, TW_PARTIAL_SUMS, 2),
                  in = extent(f, TW_PARTIAL_IN, 2), part = f->in->param[TW_PARTIAL_PART];
    shape(f, TW_PARTIAL_IN, T, 1, ANY);
    shape(f, TW_PARTIAL_SUMS, T, ANY, ANY);
    shape(f, TW_PARTIAL_W, 1, dim, in);
    range(f, dim);
    if (f->fault == HAZARD_NONE && (in % parts || part < 0 || part >= parts)) fail(f, HAZARD_BOUNDS);
}

static void form_sum(form *f) {
    const bool adds = operand_of(f, TW_SUM_X), writes = operand_of(f, TW_SUM_Y);
    if (adds == writes) {
        fail(f, HAZARD_REFERENCE);
        return;
    }
    const int out = adds ? TW_SUM_X : TW_SUM_Y;
    const int64_t T = f->s->tokens, dim = extent(f, out, 2);
    shape(f, TW_SUM_SUMS, T, ANY, dim);
    shape(f, out, T, 1, ANY);
    vector(f, TW_SUM_BIAS, dim);
    range(f, dim);
}

static void form_ffn(form *f) {
    int64_t T = f->s->tokens, dim = extent(f, TW_FFN_X, 2), n = extent(f, TW_FFN_H, 2);
    shape(f, TW_FFN_X, T, 1, ANY);
    shape(f, TW_FFN_H, T, 1, ANY);
    vector(f, TW_FFN_NORM, dim);
    vector(f, TW_FFN_NORM_BIAS, dim);
    shape(f, TW_FFN_GATE, 1, n, dim);
    shape(f, TW_FFN_UP, 1, n, dim);
    vector(f, TW_FFN_GATE_BIAS, n);
    vector(f, TW_FFN_UP_BIAS, n);
    range(f, n);
}

static void form_route(form *f) {
    int64_t T = f->s->tokens, dim = extent(f, TW_ROUTE_X, 2);
    shape(f, TW_ROUTE_X, T, 1, ANY);
    vector(f, TW_ROUTE_NORM, dim);
    shape(f, TW_ROUTE_ROUTER, 1, ANY, dim);
    shape(f, TW_ROUTE_ROUTE, T, 2, ANY);
    if (extent(f, TW_ROUTE_ROUTE, 2) > extent(f, TW_ROUTE_ROUTER, 1)) fail(f, HAZARD_SHAPE);
}

static void form_score(form *f) {
    int64_t T = f->s->tokens, dim = extent(f, TW_SCORE_X, 2), n = extent(f, TW_SCORE_SCORES, 2);
    shape(f, TW_SCORE_X, T, 1, ANY);
    vector(f, TW_SCORE_NORM, dim);
    shape(f, TW_SCORE_ROUTER, 1, n, dim);
    shape(f, TW_SCORE_SCORES, T, 1, ANY);
    if (n < TW_LEAST_SCORES) fail(f, HAZARD_SHAPE);
    range(f, n);
}

static void form_choose(form *f) {
    int64_t T = f->s->tokens;
    shape(f, TW_CHOOSE_SCORES, T, 1, ANY);
    shape(f, TW_CHOOSE_ROUTE, T, 2, ANY);
    if (extent(f, TW_CHOOSE_ROUTE, 2) > extent(f, TW_CHOOSE_SCORES, 2)) fail(f, HAZARD_SHAPE);
}

static void form_experts_up(form *f) {
    int64_t T = f->s->tokens, dim = extent(f, TW_EXPERTS_UP_X, 2), n = extent(f, TW_EXPERTS_UP_H, 2),
            used = extent(f, TW_EXPERTS_UP_ROUTE, 2), experts = extent(f, TW_EXPERTS_UP_UP, 0);
    shape(f, TW_EXPERTS_UP_X, T, 1, ANY);
    vector(f, TW_EXPERTS_UP_NORM, dim);
    shape(f, TW_EXPERTS_UP_ROUTE, T, 2, ANY);
    shape(f, TW_EXPERTS_UP_GATE, experts, n, dim);
    shape(f, TW_EXPERTS_UP_UP, experts, n, dim);
    shape(f, TW_EXPERTS_UP_H, T, used, ANY);
    range(f, n);
    const int64_t *p = f->in->param;
    if (p[TW_EXPERTS_UP_SLOT_FROM] < 0 || p[TW_EXPERTS_UP_SLOT_FROM] >= p[TW_EXPERTS_UP_SLOT_TO] ||
        p[TW_EXPERTS_UP_SLOT_TO] > used)
        fail(f, HAZARD_BOUNDS);
}

static void form_experts_down(form *f) {
    int64_t T = f->s->tokens, dim = extent(f, TW_EXPERTS_DOWN_X, 2);
    shape(f, TW_EXPERTS_DOWN_H, T, extent(f, TW_EXPERTS_DOWN_ROUTE, 2), ANY);
    shape(f, TW_EXPERTS_DOWN_ROUTE, T, 2, ANY);
    shape(f, TW_EXPERTS_DOWN_W, ANY, dim, extent(f, TW_EXPERTS_DOWN_H, 2));
    shape(f, TW_EXPERTS_DOWN_X, T, 1, ANY);
    range(f, dim);
}

static void form_head(form *f) {
    int64_t T = f->s->tokens, dim = extent(f, TW_HEAD_X, 2), n = extent(f, TW_HEAD_LOGITS, 2),
            rows = extent(f, TW_HEAD_LOGITS, 0), slot = f->in->param[TW_HEAD_SLOT];
    shape(f, TW_HEAD_X, T, 1, ANY);
    vector(f, TW_HEAD_NORM, dim);
    vector(f, TW_HEAD_NORM_BIAS, dim);
    shape(f, TW_HEAD_W, 1, n, dim);
    shape(f, TW_HEAD_LOGITS, rows == 1 && f->s->sequences == 1 ? 1 : T, 1, ANY);
    shape(f, TW_HEAD_BEST, ANY, f->s->sequences, 2);
    range(f, n);
    if (slot < 0 || slot >= extent(f, TW_HEAD_BEST, 0)) fail(f, HAZARD_BOUNDS);
}

static void form_output(form *f) {
    int64_t S = f->s->sequences;
    shape(f, TW_OUTPUT_LOGITS, S > 1 ? S : ANY, 1, ANY);
    shape(f, TW_OUTPUT_BEST, ANY, S, 2);
    shape(f, TW_OUTPUT_TOKEN, S, 1, 1);
}

static void references(form *f) {
    for (int i = 0; i < f->info->n_operands; i++) {
        int b = f->in->operand[i];
        if (b >= f->s->n_buffers || (b < 0 && !f->info->operands[i].optional)) {
            fail(f, HAZARD_REFERENCE);
            return;
        }
        if (b < 0 || f->s->buffers[b].kind == f->info->operands[i].kind) continue;
        bool weight = f->s->buffers[b].kind == TW_BUFFER_WEIGHT, writes = f->info->operands[i].access != 'r';
        fail(f, weight && writes ? HAZARD_READ_ONLY : HAZARD_KIND);
    }
    if (f->in->arrive < -1 || f->in->arrive >= f->s->n_counters) fail(f, HAZARD_REFERENCE);
    for (int i = 0; i < f->in->n_waits; i++)
        if (f->in->waits[i].counter < 0 || f->in->waits[i].counter >= f->s->n_counters) fail(f, HAZARD_REFERENCE);
}

hazard touch_form(const touch_space *space, const tw_instr *in) {
    static void (*const of[TW_INSTR_COUNT])(form *) = {
        [TW_INSTR_INPUT] = form_input,
        [TW_INSTR_EMBED] = form_embed,
        [TW_INSTR_QKV] = form_qkv,
        [TW_INSTR_ATTEND] = form_attend,
        [TW_INSTR_MERGE] = form_merge,
        [TW_INSTR_PROJECT] = form_project,
        [TW_INSTR_RESIDUAL] = form_residual,
        [TW_INSTR_PARTIAL] = form_partial,
        [TW_INSTR_SUM] = form_sum,
        [TW_INSTR_TURN] = form_turn,
        [TW_INSTR_FFN] = form_ffn,
        [TW_INSTR_ROUTE] = form_route,
        [TW_INSTR_SCORE] = form_score,
        [TW_INSTR_CHOOSE] = form_choose,
        [TW_INSTR_EXPERTS_UP] = form_experts_up,
        [TW_INSTR_EXPERTS_DOWN] = form_experts_down,
        [TW_INSTR_HEAD] = form_head,
        [TW_INSTR_OUTPUT] = form_output,
    };
    form f = {space->s, in, &space->ops[in->op], HAZARD_NONE};
    references(&f);
    if (f.fault == HAZARD_NONE) of[in->op](&f);
    return f.fault;
}
