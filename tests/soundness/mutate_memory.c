/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of memory: buffers, ranges, parameters, instructions that are missing or there twice. */
#include "soundness/mutate.h"

#include <string.h>

/* Bit masks of the table of ops: which operands there are, and which are written. */
static const struct {
    int operands;
    unsigned written;
} ops[TW_INSTR_COUNT] = {
    [TW_INSTR_INPUT] = {3, 7},
    [TW_INSTR_EMBED] = {4, 1u << TW_EMBED_X},
    [TW_INSTR_QKV] = {16, 1u << TW_QKV_Q | 1u << TW_QKV_K | 1u << TW_QKV_V | 1u << TW_QKV_RAW_K},
    [TW_INSTR_TURN] = {7, 1u << TW_TURN_Q | 1u << TW_TURN_K},
    [TW_INSTR_ATTEND] = {10, 1u << TW_ATTEND_OUT | 1u << TW_ATTEND_PART | 1u << TW_ATTEND_APPEND},
    [TW_INSTR_MERGE] = {2, 1u << TW_MERGE_OUT},
    [TW_INSTR_PROJECT] = {5, 1u << TW_PROJECT_X | 1u << TW_PROJECT_Y},
    [TW_INSTR_RESIDUAL] = {3, 1u << TW_RESIDUAL_X},
    [TW_INSTR_PARTIAL] = {3, 1u << TW_PARTIAL_SUMS},
    [TW_INSTR_SUM] = {4, 1u << TW_SUM_X | 1u << TW_SUM_Y},
    [TW_INSTR_FFN] = {8, 1u << TW_FFN_H},
    [TW_INSTR_ROUTE] = {4, 1u << TW_ROUTE_ROUTE},
    [TW_INSTR_SCORE] = {4, 1u << TW_SCORE_SCORES},
    [TW_INSTR_CHOOSE] = {2, 1u << TW_CHOOSE_ROUTE},
    [TW_INSTR_EXPERTS_UP] = {6, 1u << TW_EXPERTS_UP_H},
    [TW_INSTR_EXPERTS_DOWN] = {4, 1u << TW_EXPERTS_DOWN_X},
    [TW_INSTR_HEAD] = {6, 1u << TW_HEAD_LOGITS | 1u << TW_HEAD_BEST},
    [TW_INSTR_OUTPUT] = {3, 1u << TW_OUTPUT_TOKEN},
};

int op_operands(tw_instr_op op) {
    return ops[op].operands;
}

bool op_writes(tw_instr_op op, int operand) {
    return ops[op].written >> operand & 1;
}

static bool ranged(const tw_instr *in) {
    switch (in->op) {
    case TW_INSTR_EMBED:
    case TW_INSTR_QKV:
    case TW_INSTR_PROJECT:
    case TW_INSTR_RESIDUAL:
    case TW_INSTR_PARTIAL:
    case TW_INSTR_SUM:
    case TW_INSTR_FFN:
    case TW_INSTR_SCORE:
    case TW_INSTR_EXPERTS_UP:
    case TW_INSTR_EXPERTS_DOWN:
    case TW_INSTR_HEAD:
        return true;
    default:
        return false;
    }
}
static bool attends(const tw_instr *in) {
    return in->op == TW_INSTR_ATTEND;
}
static bool attends_part(const tw_instr *in) {
    return in->op == TW_INSTR_ATTEND && in->param[TW_ATTEND_SPLITS] > 1;
}
static bool merges(const tw_instr *in) {
    return in->op == TW_INSTR_MERGE;
}
static bool has_params(const tw_instr *in) {
    return ranged(in) || attends(in) || merges(in);
}
static bool heads(const tw_instr *in) {
    return in->op == TW_INSTR_HEAD;
}

static int present_operand(const tw_instr *in, tw_random *r) {
    int at = -1;
    for (int i = 0, n = 0; i < op_operands(in->op); i++)
        if (in->operand[i] >= 0 && draw_once_in(r, ++n)) at = i;
    return at;
}

static bool bad_buffer(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, NULL);
    int at = present_operand(p.in, r);
    p.in->operand[at] = draw_once_in(r, 4) ? -1 : s->n_buffers + draw_below(r, 3);
    return true;
}

static bool bad_counter(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, NULL);
    int bad = draw_once_in(r, 2) ? s->n_counters + draw_below(r, 3) : -2 - draw_below(r, 3);
    if (p.in->n_waits && draw_once_in(r, 2))
        p.in->waits[draw_below(r, p.in->n_waits)].counter = bad;
    else
        p.in->arrive = bad;
    return true;
}

static int params_of(tw_instr_op op) {
    if (op == TW_INSTR_EXPERTS_UP) return 4;
    return op == TW_INSTR_ATTEND ? 7 : op == TW_INSTR_MERGE || op == TW_INSTR_HEAD || op == TW_INSTR_PARTIAL ? 3 : 2;
}

static bool bad_param(tw_schedule *s, tw_random *r) {
    static const int64_t values[] = {-1, 0, 1, 2, 3, 7, 1000, -3, INT64_C(1) << 20, INT64_C(1) << 40};
    place p = pick(s, r, has_params);
    if (!p.in) return false;
    int64_t *at = &p.in->param[draw_below(r, params_of(p.in->op))], old = *at;
    *at = draw_once_in(r, 3) ? old + (draw_once_in(r, 2) ? 1 : -1)
                             : values[draw_below(r, (int)(sizeof values / sizeof *values))];
    return *at != old;
}

static bool gap(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, ranged);
    if (!p.in) return false;
    int64_t n = p.in->param[TW_TO] - p.in->param[TW_FROM], by = 1 + draw_below(r, 2);
    if (n <= by) return false;
    if (draw_once_in(r, 2))
        p.in->param[TW_FROM] += by;
    else
        p.in->param[TW_TO] -= by;
    return true;
}

static bool overlap(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, ranged);
    if (!p.in) return false;
    int64_t by = 1 + draw_below(r, 3);
    if (p.in->param[TW_FROM] >= by && draw_once_in(r, 2))
        p.in->param[TW_FROM] -= by;
    else
        p.in->param[TW_TO] += by;
    return true;
}

static bool same_range(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, ranged), q = pick(s, r, ranged);
    if (!p.in || p.in->op != q.in->op || !memcmp(p.in->param, q.in->param, 2 * sizeof *p.in->param)) return false;
    if (p.in->op == TW_INSTR_PROJECT && p.in->operand[TW_PROJECT_W] != q.in->operand[TW_PROJECT_W]) return false;
    memcpy(p.in->param, q.in->param, 2 * sizeof *p.in->param);
    return true;
}

static bool out_of_bounds(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, ranged);
    if (!p.in) return false;
    int64_t n = p.in->param[TW_TO] - p.in->param[TW_FROM];
    switch (draw_below(r, 4)) {
    case 0:
        p.in->param[TW_TO] += 1 << draw_below(r, 24);
        break;
    case 1:
        p.in->param[TW_FROM] -= 2 + draw_below(r, 64);
        break;
    case 2:
        p.in->param[TW_FROM] += 32;
        p.in->param[TW_TO] = p.in->param[TW_FROM] + n;
        break;
    default:
        p.in->param[TW_TO] = p.in->param[TW_FROM] - 2;
    }
    return true;
}

static int buffer_of_kind(const tw_schedule *s, tw_random *r, bool same, tw_buffer_kind kind) {
    int at = -1;
    for (int b = 0, n = 0; b < s->n_buffers; b++)
        if ((s->buffers[b].kind == kind) == same && draw_once_in(r, ++n)) at = b;
    return at;
}

static bool write_weight(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, NULL);
    for (int i = 0; i < op_operands(p.in->op); i++)
        if (p.in->operand[i] >= 0 && op_writes(p.in->op, i)) {
            p.in->operand[i] = buffer_of_kind(s, r, true, TW_BUFFER_WEIGHT);
            return p.in->operand[i] >= 0;
        }
    return false;
}

static bool wrong_kind(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, NULL);
    int at = present_operand(p.in, r);
    p.in->operand[at] = buffer_of_kind(s, r, false, s->buffers[p.in->operand[at]].kind);
    return true;
}

static bool same_shape(const tw_buffer *a, const tw_buffer *b) {
    return a->kind == b->kind && !memcmp(a->shape, b->shape, sizeof a->shape) && a->dtype == b->dtype;
}

static int another(const tw_schedule *s, tw_random *r, int buffer) {
    int at = -1;
    for (int b = 0, n = 0; b < s->n_buffers; b++)
        if (b != buffer && same_shape(&s->buffers[b], &s->buffers[buffer]) && draw_once_in(r, ++n)) at = b;
    return at;
}

/* One operand becomes another buffer of the same shape. */
static bool wrong_operand(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, NULL);
    int at = present_operand(p.in, r), b = p.in->operand[at];
    if (s->buffers[b].kind == TW_BUFFER_WEIGHT) return false; /* safe by itself: wrong numbers, well defined */
    b = another(s, r, b);
    p.in->operand[at] = b;
    return b >= 0;
}

/* Two buffers become one, everywhere. */
static bool alias(tw_schedule *s, tw_random *r) {
    int a = draw_below(r, s->n_buffers), b = another(s, r, a);
    if (b < 0 || s->buffers[a].kind == TW_BUFFER_WEIGHT) return false;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            for (int o = 0; o < TW_MAX_OPERANDS; o++)
                if (s->workers[w].list[i].operand[o] == a) s->workers[w].list[i].operand[o] = b;
    return true;
}

static bool wrong_shape(tw_schedule *s, tw_random *r) {
    tw_buffer *b = &s->buffers[draw_below(r, s->n_buffers)];
    int64_t *at = &b->shape[draw_below(r, 3)];
    if (draw_once_in(r, 8)) {
        if (b->kind == TW_BUFFER_WEIGHT) return false;
        b->dtype = TW_F16;
    } else if (draw_once_in(r, 8))
        *(draw_once_in(r, 2) ? &s->tokens : &s->max_seq) += 1;
    else
        *at = draw_once_in(r, 3) ? *at * 2 : draw_once_in(r, 2) ? *at + 1 : *at - 1;
    return *at > 0; /* no file can say less */
}

/* Sequences that are not there, or are one: the same program over other caches. */
static bool wrong_sequences(tw_schedule *s, tw_random *r) {
    int64_t old = s->sequences;
    s->sequences = draw_once_in(r, 2) ? s->tokens : draw_below(r, 4);
    return s->sequences != old;
}

static bool drop_instr(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, NULL);
    if (p.in->arrive >= 0 && draw_below(r, 4)) change_waits(s, p.in->arrive, -1);
    program_remove(s, p.worker, p.index);
    return true;
}

/* The same instruction twice, with the waits of the first; whoever waits for it waits for both, or for any. */
static bool duplicate_instr(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, NULL);
    tw_instr twin = *p.in;
    int worker = draw_once_in(r, 2) ? p.worker : draw_below(r, s->n_workers);
    int at = worker == p.worker ? p.index + 1 : draw_below(r, s->workers[worker].count + 1);
    if (twin.arrive >= 0 && draw_once_in(r, 2))
        change_waits(s, twin.arrive, 1);
    else if (draw_once_in(r, 2))
        twin.arrive = -1;
    program_insert(s, worker, at, twin);
    return true;
}

static bool split_gap(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, attends_part);
    if (!p.in) return false;
    if (p.in->arrive >= 0) change_waits(s, p.in->arrive, -1);
    program_remove(s, p.worker, p.index);
    return true;
}

static bool split_twice(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, attends_part);
    if (!p.in) return false;
    int64_t *split = &p.in->param[TW_ATTEND_SPLIT], splits = p.in->param[TW_ATTEND_SPLITS];
    *split = (*split + 1 + draw_below(r, (int)splits - 1)) % splits;
    return true;
}

static bool wrong_splits(tw_schedule *s, tw_random *r) {
    place p = draw_once_in(r, 2) ? pick(s, r, merges) : pick(s, r, attends_part);
    if (!p.in) return false;
    int64_t *splits = &p.in->param[p.in->op == TW_INSTR_MERGE ? TW_MERGE_SPLITS : TW_ATTEND_SPLITS], old = *splits;
    *splits = draw_once_in(r, 3) ? 2 * old : old + (draw_once_in(r, 2) ? 1 : -1);
    return *splits != old;
}

static bool window(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, attends);
    if (!p.in) return false;
    int64_t *at = &p.in->param[TW_ATTEND_WINDOW], old = *at;
    *at = draw_once_in(r, 2) ? -1 - draw_below(r, 100) : draw_below(r, 9);
    return *at != old;
}

static bool attend_range(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, attends);
    if (!p.in) return false;
    p.in->param[draw_below(r, 4)] += draw_once_in(r, 2) ? 1 : -1;
    return true;
}

static bool multiplies_part(const tw_instr *in) {
    return in->op == TW_INSTR_PARTIAL;
}

/* A partial product is left out: of its counter one arrival fewer is waited for. */
static bool part_gap(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, multiplies_part);
    if (!p.in) return false;
    if (p.in->arrive >= 0) change_waits(s, p.in->arrive, -1);
    program_remove(s, p.worker, p.index);
    return true;
}

/* A partial product goes to another part's place. */
static bool part_twice(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, multiplies_part);
    if (!p.in) return false;
    const int parts = (int)s->buffers[p.in->operand[TW_PARTIAL_SUMS]].shape[1];
    int64_t *part = &p.in->param[TW_PARTIAL_PART];
    if (parts < 2) return false;
    *part = (*part + 1 + draw_below(r, parts - 1)) % parts;
    return true;
}

static bool head_slot(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, heads);
    if (!p.in) return false;
    int64_t *at = &p.in->param[TW_HEAD_SLOT], old = *at;
    *at = draw_below(r, 4) - (draw_once_in(r, 4) ? 4 : 0);
    return *at != old;
}

static bool other_cache(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, attends);
    if (!p.in) return false;
    int at = draw_once_in(r, 2) ? TW_ATTEND_K : TW_ATTEND_V, b = another(s, r, p.in->operand[at]);
    p.in->operand[at] = b;
    return b >= 0;
}

/* An output that nobody writes, or nobody writes whole. */
static bool unwritten_output(tw_schedule *s, tw_random *r) {
    tw_buffer extra = {"extra", TW_BUFFER_OUTPUT, TW_F32, 0, {1 + draw_below(r, 2), 1, 1 + draw_below(r, 4)}};
    tw_buffer *b = tw_arena_array(&s->arena, (size_t)s->n_buffers + 1, sizeof *b);
    if (!b) return false;
    memcpy(b, s->buffers, (size_t)s->n_buffers * sizeof *b);
    b[s->n_buffers++] = extra;
    s->buffers = b;
    return true;
}

const mutation mutations_of_memory[] = {
    {"bad buffer", bad_buffer, BASE_ANY},
    {"bad counter", bad_counter, BASE_ANY},
    {"bad parameter", bad_param, BASE_ANY},
    {"coverage gap", gap, BASE_ANY},
    {"overlap", overlap, BASE_ANY},
    {"same range", same_range, BASE_ANY},
    {"out of bounds", out_of_bounds, BASE_ANY},
    {"write a weight", write_weight, BASE_ANY},
    {"wrong kind", wrong_kind, BASE_ANY},
    {"wrong operand", wrong_operand, BASE_ANY},
    {"alias", alias, BASE_ANY},
    {"wrong shape", wrong_shape, BASE_ANY},
    {"wrong sequences", wrong_sequences, BASE_ANY},
    {"drop instruction", drop_instr, BASE_ANY},
    {"instruction twice", duplicate_instr, BASE_ANY},
    {"split gap", split_gap, BASE_LOWERED | BASE_REFINED},
    {"split twice", split_twice, BASE_LOWERED | BASE_REFINED},
    {"wrong splits", wrong_splits, BASE_LOWERED | BASE_REFINED},
    {"part gap", part_gap, BASE_LOWERED | BASE_REFINED},
    {"part twice", part_twice, BASE_LOWERED | BASE_REFINED},
    {"window", window, BASE_ANY},
    {"attend range", attend_range, BASE_ANY},
    {"head slot", head_slot, BASE_ANY},
    {"other cache", other_cache, BASE_ANY},
    {"unwritten output", unwritten_output, BASE_ANY},
};
const int n_mutations_of_memory = sizeof mutations_of_memory / sizeof *mutations_of_memory;
