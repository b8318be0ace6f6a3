/* SPDX-License-Identifier: Apache-2.0 */
#include "soundness/touch.h"

#include <stdlib.h>

typedef struct toucher {
    const touch_space *space;
    const tw_instr *in;
    touch_step step;
    touch_list *out;
    hazard fault;
} toucher;

static const tw_buffer *shape_of(const toucher *t, int operand) {
    return &t->space->s->buffers[t->in->operand[operand]];
}

static bool has(const toucher *t, int operand) {
    return t->in->operand[operand] >= 0;
}

static void add(toucher *t, touch one) {
    touch_list *l = t->out;
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 256;
        l->item = realloc(l->item, (size_t)l->room * sizeof *l->item);
        if (!l->item) abort(); /* a test program: nothing to save */
    }
    l->item[l->count++] = one;
}

/* Elements [i0, i1) x [j0, j1) x [k0, k1) of an operand. An index beyond an extent is outside the buffer even where the
   address happens to be another of its elements. */
static void cube(toucher *t, int operand, bool write, int64_t i0, int64_t i1, int64_t j0, int64_t j1, int64_t k0,
                 int64_t k1) {
    if (!has(t, operand) || i0 >= i1 || j0 >= j1 || k0 >= k1) return;
    const tw_buffer *b = shape_of(t, operand);
    const int64_t *n = b->shape;
    if (i0 < 0 || j0 < 0 || k0 < 0 || i1 > n[0] || j1 > n[1] || k1 > n[2]) {
        t->fault = HAZARD_BOUNDS;
        return;
    }
    int base = t->space->base[t->in->operand[operand]];
    for (int64_t i = i0; i < i1; i++)
        for (int64_t j = j0; j < j1; j++)
            add(t, (touch){base + (int)((i * n[1] + j) * n[2] + k0), (int)(k1 - k0), operand, write});
}

/* All of the first `rows` of an activation, as positions go. */
static void positions(toucher *t, int operand, bool write, int64_t rows) {
    if (has(t, operand))
        cube(t, operand, write, 0, rows, 0, shape_of(t, operand)->shape[1], 0, shape_of(t, operand)->shape[2]);
}

/* Columns [from, to) of each of this step's positions. */
static void strip(toucher *t, int operand, bool write) {
    cube(t, operand, write, 0, t->step.n, 0, shape_of(t, operand)->shape[1], t->in->param[TW_FROM],
         t->in->param[TW_TO]);
}

static int64_t sequences(const toucher *t) {
    return t->space->s->sequences;
}

/* Positions that a sequence goes on by. */
static int64_t appended(const toucher *t) {
    return sequences(t) > 1 ? 1 : t->step.n;
}

static void run_input(toucher *t) {
    add(t, (touch){0, 1, -1, true});
    positions(t, TW_INPUT_TOKENS, true, t->step.n);
    positions(t, TW_INPUT_ROPE, true, t->step.n);
    positions(t, TW_INPUT_ROPE_LOCAL, true, t->step.n);
}

static void run_embed(toucher *t) {
    positions(t, TW_EMBED_TOKENS, false, t->step.n);
    for (int64_t i = 0; i < sequences(t) && has(t, TW_EMBED_POSITIONS); i++)
        if (touch_position(&t->step, i) + appended(t) > shape_of(t, TW_EMBED_POSITIONS)->shape[1])
            t->fault = HAZARD_BOUNDS;
    strip(t, TW_EMBED_X, true);
}

typedef struct head_row {
    int operand; /* q, k or v */
    int64_t head, row;
    bool turned; /* by rope */
} head_row;

/* Rows run over q's heads, k's, v's; the rotated ones of a head as pairs (0, r/2), (1, r/2 + 1), ... */
static head_row row_of(const toucher *t, int64_t i) {
    int64_t d = shape_of(t, TW_QKV_Q)->shape[2], heads = shape_of(t, TW_QKV_Q)->shape[1],
            kv = shape_of(t, TW_QKV_V)->shape[0] / sequences(t),
            turns = has(t, TW_QKV_ROPE) ? 2 * shape_of(t, TW_QKV_ROPE)->shape[2] : 0;
    head_row r = {TW_QKV_Q, i / d, i % d, false};
    if (r.head >= heads) {
        const bool key = r.head - heads < kv;
        r.operand = !key ? TW_QKV_V : has(t, TW_QKV_K) ? TW_QKV_K : TW_QKV_RAW_K;
        r.head -= key ? heads : heads + kv;
    }
    r.turned = r.operand != TW_QKV_V && r.row < turns;
    if (r.turned) r.row = r.row % 2 ? turns / 2 + r.row / 2 : r.row / 2;
    return r;
}

/* One row of q, k or v for every position of the step: `to` is exclusive in columns of the head. */
static void head_elements(toucher *t, head_row r, bool write, int64_t from, int64_t to) {
    const bool kept = shape_of(t, r.operand)->kind == TW_BUFFER_KV;
    if (!kept) cube(t, r.operand, write, 0, t->step.n, r.head, r.head + 1, from, to);
    for (int64_t i = 0; i < sequences(t) && kept; i++) {
        int64_t pos = touch_position(&t->step, i),
                head = i * (shape_of(t, r.operand)->shape[0] / sequences(t)) + r.head;
        cube(t, r.operand, write, head, head + 1, pos, pos + appended(t), from, to);
    }
}

static bool own_row(const toucher *t, head_row r, int64_t column, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) {
        head_row other = row_of(t, i);
        if (other.operand == r.operand && other.head == r.head && other.row == column) return true;
    }
    return false;
}

/* A head is normalised as a whole, in place: what the instruction did not compute itself is read and written too. */
static void normalised_head(toucher *t, head_row r, int64_t from, int64_t to) {
    int64_t d = shape_of(t, TW_QKV_Q)->shape[2];
    for (int64_t c = 0; c < d; c++)
        if (!own_row(t, r, c, from, to)) {
            head_elements(t, r, false, c, c + 1);
            head_elements(t, r, true, c, c + 1);
        }
}

static void run_qkv(toucher *t) {
    int64_t from = t->in->param[TW_FROM], to = t->in->param[TW_TO], d = shape_of(t, TW_QKV_Q)->shape[2];
    positions(t, TW_QKV_X, false, t->step.n);
    for (int64_t i = from; i < to; i++) {
        head_row r = row_of(t, i);
        if (r.turned) {
            int64_t half = shape_of(t, TW_QKV_ROPE)->shape[2], angle = r.row % half;
            cube(t, TW_QKV_ROPE, false, 0, t->step.n, 0, 2, angle, angle + 1);
        }
    }
    for (int64_t i = from; i < to; i++) {
        head_row r = row_of(t, i);
        head_elements(t, r, true, r.row, r.row + 1);
    }
    for (int64_t i = from; i < to && has(t, TW_QKV_Q_NORM); i = (i / d + 1) * d) {
        head_row r = row_of(t, i);
        int64_t head_end = (i / d + 1) * d;
        bool partial = i % d || head_end > to;
        if (r.operand != TW_QKV_V && partial) normalised_head(t, r, from, to);
    }
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Heads [h0, h1) of keys and values of a sequence, at positions [first, last). Of its own raw key attention knows what
   it appends. */
static void past(toucher *t, int64_t sequence, int64_t first, int64_t last) {
    int64_t h0 = t->in->param[TW_ATTEND_HEAD_FROM], h1 = t->in->param[TW_ATTEND_HEAD_TO],
            kv = shape_of(t, TW_ATTEND_K)->shape[0] / sequences(t), d = shape_of(t, TW_ATTEND_Q)->shape[2],
            per = shape_of(t, TW_ATTEND_Q)->shape[1] / kv;
    for (int operand = TW_ATTEND_K; operand <= TW_ATTEND_V; operand++)
        for (int64_t h = h0; h < h1; h++)
            if (h == h0 || h / per != (h - 1) / per)
                cube(t, operand, false, sequence * kv + h / per, sequence * kv + h / per + 1, first,
                     operand == TW_ATTEND_K && has(t, TW_ATTEND_RAW_K) ? least(last, t->step.pos) : last, 0, d);
}

/* What attention reads to norm and rotate queries and keys, and the keys that the last split appends. */
static void raw_keys(toucher *t) {
    const int64_t *p = t->in->param, d = shape_of(t, TW_ATTEND_Q)->shape[2], kv = shape_of(t, TW_ATTEND_K)->shape[0],
                  per = shape_of(t, TW_ATTEND_Q)->shape[1] / kv;
    for (int64_t h = p[TW_ATTEND_HEAD_FROM] / per; h < p[TW_ATTEND_HEAD_TO] / per; h++) {
        if (p[TW_ATTEND_SPLIT] < p[TW_ATTEND_SPLITS] - 1) break;
        cube(t, TW_ATTEND_RAW_K, false, 0, 1, h, h + 1, 0, d);
        cube(t, TW_ATTEND_APPEND, true, h, h + 1, t->step.pos, t->step.pos + 1, 0, d);
    }
    positions(t, TW_ATTEND_ROPE, false, 1);
}

/* A row of several sequences sees its own past, up to itself. */
static void own_past(toucher *t, int64_t sequence) {
    const int64_t *p = t->in->param;
    int64_t pos = touch_position(&t->step, sequence), window = p[TW_ATTEND_WINDOW], splits = p[TW_ATTEND_SPLITS];
    int64_t start = window ? most(0, pos + 1 - window) : 0, length = pos + 1 - start;
    past(t, sequence, start + length * p[TW_ATTEND_SPLIT] / splits, start + length * (p[TW_ATTEND_SPLIT] + 1) / splits);
}

/* The past that all positions see together is cut into parts; of its part each position sees up to itself, from its
   window on. */
static void run_attend(toucher *t) {
    const int64_t *p = t->in->param;
    int64_t r0 = p[TW_ATTEND_ROW_FROM], r1 = least(p[TW_ATTEND_ROW_TO], t->step.n), pos = t->step.pos;
    int64_t h0 = p[TW_ATTEND_HEAD_FROM], h1 = p[TW_ATTEND_HEAD_TO], d = shape_of(t, TW_ATTEND_Q)->shape[2];
    int64_t window = p[TW_ATTEND_WINDOW], split = p[TW_ATTEND_SPLIT], splits = p[TW_ATTEND_SPLITS];
    if (r0 >= r1) return;
    if (has(t, TW_ATTEND_RAW_K)) raw_keys(t);
    int64_t start = window ? most(0, pos + 1 - window) : 0, length = pos + t->step.n - start;
    int64_t first = start + length * split / splits, last = start + length * (split + 1) / splits;
    if (window) first = most(first, pos + r0 + 1 - window);
    last = least(last, pos + r1);
    cube(t, TW_ATTEND_Q, false, r0, r1, h0, h1, 0, d);
    if (sequences(t) == 1) past(t, 0, first, last);
    for (int64_t i = r0; i < r1 && sequences(t) > 1; i++) own_past(t, i);
    for (int64_t h = h0; h < h1; h++)
        if (splits == 1)
            cube(t, TW_ATTEND_OUT, true, r0, r1, 0, 1, h * d, (h + 1) * d);
        else
            cube(t, TW_ATTEND_PART, true, r0, r1, h * splits + split, h * splits + split + 1, 0, d + 2);
}

static void run_merge(toucher *t) {
    const int64_t *p = t->in->param;
    int64_t h0 = p[TW_MERGE_HEAD_FROM], h1 = p[TW_MERGE_HEAD_TO], splits = p[TW_MERGE_SPLITS],
            d = shape_of(t, TW_MERGE_PART)->shape[2] - 2;
    for (int64_t h = h0; h < h1; h++)
        for (int64_t i = 0; i < splits; i++)
            cube(t, TW_MERGE_PART, false, 0, t->step.n, h * splits + i, h * splits + i + 1, 0, d + 2);
    for (int64_t h = h0; h < h1; h++) cube(t, TW_MERGE_OUT, true, 0, t->step.n, 0, 1, h * d, (h + 1) * d);
}

static void run_project(toucher *t) {
    positions(t, TW_PROJECT_IN, false, t->step.n);
    if (has(t, TW_PROJECT_X)) strip(t, TW_PROJECT_X, false);
    strip(t, has(t, TW_PROJECT_X) ? TW_PROJECT_X : TW_PROJECT_Y, true);
}

static void run_residual(toucher *t) {
    positions(t, TW_RESIDUAL_Y, false, t->step.n);
    strip(t, TW_RESIDUAL_X, false);
    strip(t, TW_RESIDUAL_X, true);
}

/* A part of each position's columns becomes the part's sums. */
static void run_partial(toucher *t) {
    const int64_t *n = shape_of(t, TW_PARTIAL_SUMS)->shape, part = t->in->param[TW_PARTIAL_PART];
    const int64_t columns = shape_of(t, TW_PARTIAL_IN)->shape[2] / n[1];
    cube(t, TW_PARTIAL_IN, false, 0, t->step.n, 0, 1, part * columns, (part + 1) * columns);
    cube(t, TW_PARTIAL_SUMS, true, 0, t->step.n, part, part + 1, t->in->param[TW_FROM], t->in->param[TW_TO]);
}

static void run_sum(toucher *t) {
    strip(t, TW_SUM_SUMS, false);
    if (has(t, TW_SUM_X)) strip(t, TW_SUM_X, false);
    strip(t, has(t, TW_SUM_X) ? TW_SUM_X : TW_SUM_Y, true);
}

/* A head's norm is over all heads of its kind. */
static void run_turn(toucher *t) {
    const int64_t heads = shape_of(t, TW_TURN_RAW_Q)->shape[1], d = shape_of(t, TW_TURN_RAW_Q)->shape[2];
    for (int64_t h = t->in->param[TW_TURN_HEAD_FROM]; h < t->in->param[TW_TURN_HEAD_TO]; h++) {
        const bool key = h >= heads;
        positions(t, key ? TW_TURN_RAW_K : TW_TURN_RAW_Q, false, t->step.n);
        positions(t, TW_TURN_ROPE, false, t->step.n);
        head_elements(t, (head_row){key ? TW_TURN_K : TW_TURN_Q, key ? h - heads : h, 0, false}, true, 0, d);
    }
}

static void run_ffn(toucher *t) {
    positions(t, TW_FFN_X, false, t->step.n);
    strip(t, TW_FFN_H, true);
}

static void run_route(toucher *t) {
    positions(t, TW_ROUTE_X, false, t->step.n);
    positions(t, TW_ROUTE_ROUTE, true, t->step.n);
}

static void run_score(toucher *t) {
    positions(t, TW_SCORE_X, false, t->step.n);
    strip(t, TW_SCORE_SCORES, true);
}

static void run_choose(toucher *t) {
    positions(t, TW_CHOOSE_SCORES, false, t->step.n);
    positions(t, TW_CHOOSE_ROUTE, true, t->step.n);
}

static void run_experts_up(toucher *t) {
    positions(t, TW_EXPERTS_UP_X, false, t->step.n);
    positions(t, TW_EXPERTS_UP_ROUTE, false, t->step.n);
    const int64_t *p = t->in->param;
    cube(t, TW_EXPERTS_UP_H, true, 0, t->step.n, p[TW_EXPERTS_UP_SLOT_FROM], p[TW_EXPERTS_UP_SLOT_TO], p[TW_FROM],
         p[TW_TO]);
}

static void run_experts_down(toucher *t) {
    positions(t, TW_EXPERTS_DOWN_H, false, t->step.n);
    positions(t, TW_EXPERTS_DOWN_ROUTE, false, t->step.n);
    strip(t, TW_EXPERTS_DOWN_X, false);
    strip(t, TW_EXPERTS_DOWN_X, true);
}

static void run_head(toucher *t) {
    int64_t rows = shape_of(t, TW_HEAD_LOGITS)->shape[0] > 1 ? t->step.n : 1, slot = t->in->param[TW_HEAD_SLOT];
    cube(t, TW_HEAD_X, false, t->step.n - rows, t->step.n, 0, 1, 0, shape_of(t, TW_HEAD_X)->shape[2]);
    cube(t, TW_HEAD_LOGITS, true, 0, rows, 0, 1, t->in->param[TW_FROM], t->in->param[TW_TO]);
    cube(t, TW_HEAD_BEST, true, slot, slot + 1, 0, sequences(t), 0, 2);
}

/* The logits are handed to the caller: as good as read. */
static void run_output(toucher *t) {
    int64_t rows = shape_of(t, TW_OUTPUT_LOGITS)->shape[0];
    positions(t, TW_OUTPUT_LOGITS, false, rows > 1 ? t->step.n : rows);
    positions(t, TW_OUTPUT_BEST, false, shape_of(t, TW_OUTPUT_BEST)->shape[0]);
    positions(t, TW_OUTPUT_TOKEN, true, sequences(t));
}

hazard touch_instr(const touch_space *space, const tw_instr *in, touch_step step, touch_list *out) {
    static void (*const run[TW_INSTR_COUNT])(toucher *) = {
        [TW_INSTR_INPUT] = run_input,
        [TW_INSTR_EMBED] = run_embed,
        [TW_INSTR_QKV] = run_qkv,
        [TW_INSTR_ATTEND] = run_attend,
        [TW_INSTR_MERGE] = run_merge,
        [TW_INSTR_PROJECT] = run_project,
        [TW_INSTR_RESIDUAL] = run_residual,
        [TW_INSTR_PARTIAL] = run_partial,
        [TW_INSTR_SUM] = run_sum,
        [TW_INSTR_TURN] = run_turn,
        [TW_INSTR_FFN] = run_ffn,
        [TW_INSTR_ROUTE] = run_route,
        [TW_INSTR_SCORE] = run_score,
        [TW_INSTR_CHOOSE] = run_choose,
        [TW_INSTR_EXPERTS_UP] = run_experts_up,
        [TW_INSTR_EXPERTS_DOWN] = run_experts_down,
        [TW_INSTR_HEAD] = run_head,
        [TW_INSTR_OUTPUT] = run_output,
    };
    toucher t = {space, in, step, out, HAZARD_NONE};
    if (in->op != TW_INSTR_INPUT) add(&t, (touch){0, 1, -1, false});
    run[in->op](&t);
    return t.fault;
}

bool touch_space_set(touch_space *space, const tw_schedule *s) {
    if (!space->ops[0].name)
        for (int i = 0; i < TW_INSTR_COUNT; i++) space->ops[i] = *tw_instr_op_describe((tw_instr_op)i);
    if (s->n_buffers > space->buffers_room) {
        space->buffers_room = 2 * s->n_buffers;
        space->base = realloc(space->base, (size_t)space->buffers_room * sizeof *space->base);
        if (!space->base) abort();
    }
    space->s = s;
    int64_t count = 1;
    if (s->sequences > TOUCH_MAX_SEQUENCES) return false;
    for (int b = 0; b < s->n_buffers; b++) {
        const int64_t *n = s->buffers[b].shape;
        bool weight = s->buffers[b].kind == TW_BUFFER_WEIGHT;
        space->base[b] = weight ? -1 : (int)count;
        if (weight || n[0] <= 0 || n[1] <= 0 || n[2] <= 0) continue;
        if (n[0] > TOUCH_MAX_ELEMENTS || n[1] > TOUCH_MAX_ELEMENTS || n[2] > TOUCH_MAX_ELEMENTS) return false;
        if (n[0] * n[1] > TOUCH_MAX_ELEMENTS) return false;
        count += n[0] * n[1] * n[2];
        if (count > TOUCH_MAX_ELEMENTS) return false;
    }
    space->count = (int)count;
    return true;
}

void touch_space_free(touch_space *space) {
    free(space->base);
    *space = (touch_space){0};
}
