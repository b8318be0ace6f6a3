/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs: a chain of stages over three activations of one shape, each stage dealt out to any workers, scratch
   used again at once. Unlike a lowering, stages overlap: an instruction waits for the instructions it shares elements
   with, and for no others. */
#include "schedule/builder.h"
#include "soundness/memory.h"
#include "soundness/program.h"

#include <stdio.h>
#include <stdlib.h>

enum { DIM = 4, SCRATCH = 3, MAX_INSTRS = 96 };

typedef struct random_maker {
    tw_schedule *s;
    tw_random *r;
    int64_t T, S; /* sequences */
    int tokens, rope, scratch[SCRATCH], q, k, v, logits, best, token, slots;
    int table, vector, square, narrow; /* weights */
    bool defined[SCRATCH];
    int worker[MAX_INSTRS], index[MAX_INSTRS], count; /* in the order in which they were made */
} random_maker;

static tw_instr *instr(random_maker *b, int worker, tw_instr_op op) {
    tw_instr *in = tw_schedule_add_instr(b->s, worker, op);
    if (!in || b->count == MAX_INSTRS) abort();
    b->worker[b->count] = worker;
    b->index[b->count++] = b->s->workers[worker].count - 1;
    char name[16];
    snprintf(name, sizeof name, "n%d", b->count);
    in->arrive = tw_schedule_add_counter(b->s, name);
    return in;
}

static int any_worker(random_maker *b) {
    return draw_below(b->r, b->s->n_workers);
}

/* A scratch buffer that holds something, other than `not`; -1: there is none. */
static int defined_one(random_maker *b, int not ) {
    int i = draw_below(b->r, SCRATCH);
    for (int n = 0; n < SCRATCH; n++, i = (i + 1) % SCRATCH)
        if (b->defined[i] && i != not ) return i;
    return -1;
}

static void set(tw_instr *in, int operand, int buffer) {
    in->operand[operand] = buffer;
}

static tw_instr *piece(random_maker *b, tw_instr_op op, int64_t from, int64_t to) {
    tw_instr *in = instr(b, any_worker(b), op);
    in->param[TW_FROM] = from;
    in->param[TW_TO] = to;
    return in;
}

static void fill_piece(random_maker *b, tw_instr_op op, int from_buffer, int to_buffer, int64_t from, int64_t to) {
    tw_instr *in = piece(b, op, from, to);
    switch (op) {
    case TW_INSTR_EMBED:
        set(in, TW_EMBED_TOKENS, b->tokens);
        set(in, TW_EMBED_TABLE, b->table);
        set(in, TW_EMBED_X, b->scratch[to_buffer]);
        break;
    case TW_INSTR_FFN:
        set(in, TW_FFN_X, b->scratch[from_buffer]);
        set(in, TW_FFN_NORM, b->vector);
        set(in, TW_FFN_UP, b->square);
        set(in, TW_FFN_H, b->scratch[to_buffer]);
        break;
    case TW_INSTR_PROJECT:
        set(in, TW_PROJECT_IN, b->scratch[from_buffer]);
        set(in, TW_PROJECT_W, b->square);
        set(in, TW_PROJECT_X, b->scratch[to_buffer]);
        break;
    case TW_INSTR_QKV:
        set(in, TW_QKV_X, b->scratch[from_buffer]);
        set(in, TW_QKV_NORM, b->vector);
        set(in, TW_QKV_WQ, b->square);
        set(in, TW_QKV_WK, b->narrow);
        set(in, TW_QKV_WV, b->narrow);
        if (b->rope >= 0) set(in, TW_QKV_ROPE, b->rope);
        set(in, TW_QKV_Q, b->q);
        set(in, TW_QKV_K, b->k);
        set(in, TW_QKV_V, b->v);
        break;
    default: /* head */
        set(in, TW_HEAD_X, b->scratch[from_buffer]);
        set(in, TW_HEAD_NORM, b->vector);
        set(in, TW_HEAD_W, b->square);
        set(in, TW_HEAD_LOGITS, b->logits);
        set(in, TW_HEAD_BEST, b->best);
        in->param[TW_HEAD_SLOT] = from * b->slots / DIM;
    }
}

/* A stage over `rows` rows, dealt out in one to three pieces of an even number of rows. */
static void fill(random_maker *b, tw_instr_op op, int from_buffer, int to_buffer, int rows) {
    int pieces = op == TW_INSTR_HEAD ? b->slots : 1 + draw_below(b->r, rows / 2);
    for (int i = 0; i < pieces; i++)
        fill_piece(b, op, from_buffer, to_buffer, rows / 2 * i / pieces * 2, rows / 2 * (i + 1) / pieces * 2);
    if (to_buffer >= 0) b->defined[to_buffer] = true;
}

static void attention(random_maker *b, int from_buffer) {
    int to_buffer = draw_below(b->r, SCRATCH), window = draw_below(b->r, 3);
    fill(b, TW_INSTR_QKV, from_buffer, -1, 2 * DIM);
    for (int h = 0; h < 2; h++) {
        tw_instr *in = instr(b, any_worker(b), TW_INSTR_ATTEND);
        set(in, TW_ATTEND_Q, b->q);
        set(in, TW_ATTEND_K, b->k);
        set(in, TW_ATTEND_V, b->v);
        set(in, TW_ATTEND_OUT, b->scratch[to_buffer]);
        in->param[TW_ATTEND_HEAD_FROM] = h;
        in->param[TW_ATTEND_HEAD_TO] = h + 1;
        in->param[TW_ATTEND_ROW_TO] = b->T;
        in->param[TW_ATTEND_SPLITS] = 1;
        in->param[TW_ATTEND_WINDOW] = window;
    }
    b->defined[to_buffer] = true;
}

static void stages(random_maker *b) {
    tw_instr *in = instr(b, 0, TW_INSTR_INPUT);
    set(in, TW_INPUT_TOKENS, b->tokens);
    if (b->rope >= 0) set(in, TW_INPUT_ROPE, b->rope);
    fill(b, TW_INSTR_EMBED, -1, draw_below(b->r, SCRATCH), DIM);
    int layers = 2; /* over one cache: the second appends again */
    for (int n = 2 + draw_below(b->r, 6); n > 0; n--) {
        int from = defined_one(b, -1), to = (from + 1 + draw_below(b->r, SCRATCH - 1)) % SCRATCH;
        if (draw_once_in(b->r, 5))
            fill(b, TW_INSTR_EMBED, -1, to, DIM);
        else if (b->defined[to] && draw_once_in(b->r, 2))
            fill(b, TW_INSTR_PROJECT, from, to, DIM);
        else if (layers && draw_once_in(b->r, 3)) {
            attention(b, from);
            layers--;
        } else
            fill(b, TW_INSTR_FFN, from, to, DIM);
    }
    fill(b, TW_INSTR_HEAD, defined_one(b, -1), -1, DIM);
    in = instr(b, 0, TW_INSTR_OUTPUT);
    set(in, TW_OUTPUT_LOGITS, b->logits);
    set(in, TW_OUTPUT_BEST, b->best);
    set(in, TW_OUTPUT_TOKEN, b->token);
    in->arrive = -1;
}

static void buffers(random_maker *b) {
    tw_schedule *s = b->s;
    tw_buffer_kind A = TW_BUFFER_ACTIVATION, W = TW_BUFFER_WEIGHT;
    static const char *const names[SCRATCH] = {"a", "b", "c"};
    int64_t T = b->T, rows = draw_once_in(b->r, 2) && b->S == 1 ? 1 : T;
    b->tokens = tw_schedule_add_buffer(s, "tokens", TW_BUFFER_INPUT, TW_I32, 0, T, 1, 1);
    b->rope = draw_once_in(b->r, 2) ? -1 : tw_schedule_add_buffer(s, "rope", TW_BUFFER_INPUT, TW_F32, 0, T, 2, 1);
    for (int i = 0; i < SCRATCH; i++) b->scratch[i] = tw_schedule_add_buffer(s, names[i], A, TW_F32, 0, T, 1, DIM);
    b->q = tw_schedule_add_buffer(s, "q", A, TW_F32, 0, T, 2, DIM / 2);
    b->k = tw_schedule_add_buffer(s, "k", TW_BUFFER_KV, TW_F32, 0, b->S, s->max_seq, DIM / 2);
    b->v = tw_schedule_add_buffer(s, "v", TW_BUFFER_KV, TW_F32, 0, b->S, s->max_seq, DIM / 2);
    b->logits = tw_schedule_add_buffer(s, "logits", TW_BUFFER_OUTPUT, TW_F32, 0, rows, 1, DIM);
    b->best = tw_schedule_add_buffer(s, "best", A, TW_F32, 0, b->slots, b->S, 2);
    b->token = tw_schedule_add_buffer(s, "token", TW_BUFFER_OUTPUT, TW_I32, 0, b->S, 1, 1);
    b->table = tw_schedule_add_buffer(s, "table", W, TW_F32, 0, 1, DIM, DIM);
    b->vector = tw_schedule_add_buffer(s, "norm", W, TW_F32, 0, 1, DIM, 1);
    b->square = tw_schedule_add_buffer(s, "square", W, TW_F32, 0, 1, DIM, DIM);
    b->narrow = tw_schedule_add_buffer(s, "narrow", W, TW_F32, 0, 1, DIM / 2, DIM);
}

/* How much is left out of what the elements ask for. */
typedef struct forgetting {
    bool reuse; /* waits for earlier readers, as a program of reads and writes alone would have it */
    int one_in; /* of the waits, and of output's joins; 0: none */
} forgetting;

/* Each instruction waits for those made before it that it shares an element with, unless it comes after them anyway;
   output for everything. `before[i]` are the instructions that i comes after. */
static void joins(random_maker *b, forgetting f) {
    uint64_t before[MAX_INSTRS][2] = {{0}};
    order o = {0};
    touch_space space = {0};
    memory mem = {0};
    touch_step step = {.n = b->T};
    int who, element, id[MAX_INSTRS];
    if (!touch_space_set(&space, b->s)) abort();
    order_run(&o, b->s, 1);
    if (memory_set(&mem, &o, &space, &step, &who) != HAZARD_NONE) abort();
    for (int i = 0; i < b->count; i++) id[i] = o.first[b->worker[i]] + b->index[i];
    for (int i = 0; i < b->count; i++) {
        tw_instr *in = &b->s->workers[b->worker[i]].list[b->index[i]];
        bool last = i == b->count - 1;
        for (int p = i - 1; p >= 0; p--) {
            bool own = b->worker[p] == b->worker[i], known = before[i][p / 64] >> p % 64 & 1;
            bool needed = own || last || memory_conflict(&mem, id[p], id[i], &element);
            if (known || !needed) continue;
            bool reads = false; /* whether i reads what p writes */
            for (size_t k = 0; k < mem.words; k++)
                reads = reads || (mem.writes[(size_t)id[p] * mem.words + k] & mem.reads[(size_t)id[i] * mem.words + k]);
            bool drop = !own && ((f.reuse && !reads && !last) || (f.one_in && draw_once_in(b->r, f.one_in)));
            if (drop) continue;
            if (!own) program_add_wait(b->s, in, (tw_wait){b->s->workers[b->worker[p]].list[b->index[p]].arrive, 1});
            before[i][p / 64] |= UINT64_C(1) << p % 64;
            for (int k = 0; k < 2; k++) before[i][k] |= before[p][k];
        }
    }
    order_free(&o);
    touch_space_free(&space);
    memory_free(&mem);
}

tw_schedule *random_program(tw_random *r, bool forget) {
    random_maker b = {.r = r, .T = 1 + draw_below(r, 2), .slots = 1 + draw_below(r, 2)};
    b.S = draw_once_in(r, 2) ? b.T : 1;
    b.s = tw_schedule_begin(2 + draw_below(r, 3), b.T, 5);
    if (!b.s) abort();
    b.s->sequences = b.S;
    buffers(&b);
    stages(&b);
    if (b.s->arena.failed) abort();
    forgetting f = {false, 0};
    if (forget) {
        f.reuse = draw_once_in(r, 2);
        f.one_in = f.reuse ? 0 : 2 + draw_below(r, 12);
    }
    joins(&b, f);
    return b.s;
}
