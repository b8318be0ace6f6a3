/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/work.h"

#include "schedule/effects.h"

typedef struct step {
    const tw_schedule *s;
    const tw_instr *in;
    int64_t n, pos;
} step;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static const tw_buffer *operand(const step *t, int i) {
    return &t->s->buffers[t->in->operand[i]];
}

static int64_t extent(const step *t, int i, int dimension) {
    return operand(t, i)->shape[dimension];
}

/* Positions of logits that a step computes. */
static int64_t logit_rows(const step *t) {
    return extent(t, TW_HEAD_LOGITS, 0) > 1 ? t->n : 1;
}

/* The positions that an attend instruction covers for its query rows `from` to `to`: their union. */
static void attended(const step *t, int64_t from, int64_t to, int64_t *first, int64_t *last) {
    const int64_t *p = t->in->param, window = p[TW_ATTEND_WINDOW], splits = p[TW_ATTEND_SPLITS];
    const bool apart = t->s->sequences > 1; /* Each row is a sequence's only one. */
    const int64_t low = t->pos + (apart ? 0 : from), high = t->pos + (apart ? 1 : to);
    const int64_t end = t->pos + (apart ? 1 : t->n), start = window ? most(0, t->pos + 1 - window) : 0;
    *first = most(window ? most(0, low + 1 - window) : 0, start + (end - start) * p[TW_ATTEND_SPLIT] / splits);
    *last = least(high, start + (end - start) * (p[TW_ATTEND_SPLIT] + 1) / splits);
}

static double attend_flops(const step *t) {
    const int64_t *p = t->in->param;
    double pairs = 0;
    for (int64_t row = p[TW_ATTEND_ROW_FROM]; row < least(p[TW_ATTEND_ROW_TO], t->n); row++) {
        int64_t first, last;
        attended(t, row, row + 1, &first, &last);
        pairs += (double)most(0, last - first);
    }
    const double heads = (double)(p[TW_ATTEND_HEAD_TO] - p[TW_ATTEND_HEAD_FROM]);
    return 4 * pairs * heads * (double)extent(t, TW_ATTEND_Q, 2);
}

static double product(int64_t positions, int64_t rows, int64_t cols) {
    return 2 * (double)positions * (double)rows * (double)cols;
}

/* Chosen experts of a position that experts_up has rows of. */
static int64_t slots_of(const tw_instr *in) {
    return in->param[TW_EXPERTS_UP_SLOT_TO] - in->param[TW_EXPERTS_UP_SLOT_FROM];
}

static double flops_of(const step *t) {
    const int64_t n = t->n, rows = t->in->param[TW_TO] - t->in->param[TW_FROM];
    switch (t->in->op) {
    case TW_INSTR_QKV:
        return product(n, rows, extent(t, TW_QKV_X, 2));
    case TW_INSTR_ATTEND:
        return attend_flops(t);
    case TW_INSTR_PROJECT:
        return product(n, rows, extent(t, TW_PROJECT_IN, 2));
    case TW_INSTR_PARTIAL:
        return product(n, rows, extent(t, TW_PARTIAL_IN, 2) / extent(t, TW_PARTIAL_SUMS, 1));
    case TW_INSTR_FFN:
        return product(n, t->in->operand[TW_FFN_GATE] >= 0 ? 2 * rows : rows, extent(t, TW_FFN_X, 2));
    case TW_INSTR_ROUTE:
        return product(n, extent(t, TW_ROUTE_ROUTER, 1), extent(t, TW_ROUTE_X, 2));
    case TW_INSTR_SCORE:
        return product(n, rows, extent(t, TW_SCORE_X, 2));
    case TW_INSTR_EXPERTS_UP:
        return product(n * slots_of(t->in), 2 * rows, extent(t, TW_EXPERTS_UP_X, 2));
    case TW_INSTR_EXPERTS_DOWN:
        return product(n * extent(t, TW_EXPERTS_DOWN_ROUTE, 2), rows, extent(t, TW_EXPERTS_DOWN_H, 2));
    case TW_INSTR_HEAD:
        return product(logit_rows(t), rows, extent(t, TW_HEAD_X, 2));
    default:
        return 0;
    }
}

/* Rows of the first two dimensions that an access covers in this step. Weights and caches but for attention's are
   covered as effects.h says. */
static double rows_of(const step *t, const tw_access *a) {
    const tw_instr *in = t->in;
    const tw_buffer_kind kind = t->s->buffers[a->buffer].kind;
    int64_t outer = a->hi[0] - a->lo[0], inner = a->hi[1] - a->lo[1];
    if (kind == TW_BUFFER_KV) {
        if (a->write) return (double)outer * (double)least(inner, t->n);
        int64_t first, last;
        attended(t, in->param[TW_ATTEND_ROW_FROM], least(in->param[TW_ATTEND_ROW_TO], t->n), &first, &last);
        return (double)outer * (double)most(0, last - first);
    }
    if (kind == TW_BUFFER_WEIGHT) {
        if (in->op == TW_INSTR_EMBED) inner = least(inner, t->n);
        if (in->op == TW_INSTR_EXPERTS_UP) outer = least(outer, t->n * slots_of(in));
        if (in->op == TW_INSTR_EXPERTS_DOWN) outer = least(outer, t->n * extent(t, TW_EXPERTS_DOWN_ROUTE, 2));
        return (double)outer * (double)inner;
    }
    /* Output passes the logits on, and has no positions. Neither have the candidates for the token. */
    if (in->op == TW_INSTR_OUTPUT)
        return a->buffer == in->operand[TW_OUTPUT_LOGITS] ? 0 : (double)outer * (double)inner;
    if (in->op == TW_INSTR_HEAD && a->buffer == in->operand[TW_HEAD_BEST]) return (double)outer * (double)inner;
    const int64_t positions = in->op == TW_INSTR_HEAD ? logit_rows(t) : t->n;
    return (double)most(0, least(a->hi[0], positions) - a->lo[0]) * (double)inner;
}

static double bytes_of(const step *t, const tw_access *a) {
    double columns = (double)(a->hi[2] - a->lo[2]);
    /* An embedding's worker gathers its own columns of the table. */
    if (t->in->op == TW_INSTR_EMBED && t->s->buffers[a->buffer].kind == TW_BUFFER_WEIGHT)
        columns *= (double)(t->in->param[TW_TO] - t->in->param[TW_FROM]) / (double)extent(t, TW_EMBED_X, 2);
    return rows_of(t, a) * columns;
}

tw_status tw_instr_work_of(const tw_schedule *s, const tw_instr *in, int64_t n, int64_t pos, tw_instr_work *work,
                           tw_diag *diag) {
    const step t = {s, in, n, pos};
    tw_access_list list = {0};
    const tw_status st = tw_instr_effects(s, in, &list, diag);
    *work = (tw_instr_work){0};
    if (st == TW_OK) {
        work->flops = flops_of(&t);
        for (int i = 0; i < list.count; i++) work->bytes += bytes_of(&t, &list.item[i]);
    }
    tw_access_list_free(&list);
    return st;
}
