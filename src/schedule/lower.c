/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers a model to a schedule. Every stage is dealt out to the workers, and ends in one counter that the next stage
   waits for: five edges a layer. A stage waits for the whole stage before it, and thereby for all earlier stages, so
   layers may use the same buffers. The check proves it. */
#include "base/diag.h"
#include "base/divide.h"
#include "model/model.h"
#include "schedule/builder.h"
#include "schedule/config.h"

#include <stdio.h>
#include <string.h>

typedef struct lowering {
    tw_schedule *s;
    const tw_model *m;
    tw_lowering l;
    int64_t T, sequences;
    int tokens, rope, rope_local, x, q, y, raw_q, raw_k, attended, part, h, scores, logits, best,
        token;                 /* Buffers. -1: none. */
    int route[TW_MAX_WORKERS]; /* The choice of experts; with scores one for each worker. */
    int ready;                 /* The counter that the next stage waits for. */
    int64_t arrivals;          /* Arrivals of that counter in a step. */
    int64_t pending;           /* Arrivals of the stage that is built. */
    int stage_counter;         /* Counter of the stage that is built. */
    int turn;                  /* The worker that gets the first remainder. It rotates from stage to stage. */
    int64_t splits, row_blocks;
    bool attend_norms; /* True: the attention instruction norms and rotates queries and keys. */
    int64_t parts;     /* Parts that the columns of the feed-forward layer's second product are split in. */
    int sums;          /* Buffer of the parts' sums. -1: there is one part. */
} lowering;

static int weight(lowering *b, const char *name, const tw_weight *w, bool matrix, int64_t outer) {
    if (!w->rows) return -1;
    tw_dtype t = w->dtype;
    int group = 0;
    if (matrix && b->l.weights != TW_F32) {
        t = b->l.weights;
        group = b->l.group;
    }
    return tw_schedule_add_buffer(b->s, name, TW_BUFFER_WEIGHT, t, group, outer, w->rows, w->cols);
}

/* Adds a weight of layer `layer` (-1: of the model) under its canonical name. */
static int named(lowering *b, int64_t layer, const char *what, bool matrix) {
    char name[96];
    if (layer < 0)
        snprintf(name, sizeof name, "%s", what);
    else
        snprintf(name, sizeof name, "layers.%lld.%s", (long long)layer, what);
    const tw_weight *w = tw_model_find(b->m, name);
    return w ? weight(b, name, w, matrix, 1) : -1;
}

/* Adds all experts' matrices of one kind as one buffer [experts][rows][cols]. */
static int experts(lowering *b, int64_t layer, const char *what, const tw_weight *first) {
    char name[96];
    snprintf(name, sizeof name, "layers.%lld.experts.%s", (long long)layer, what);
    return weight(b, name, first, true, b->m->n_experts);
}

static void stage_begin(lowering *b, int64_t layer, const char *name) {
    char full[96];
    if (layer < 0)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "%lld.%s", (long long)layer, name);
    b->stage_counter = tw_schedule_add_counter(b->s, full);
    b->pending = 0;
}

static tw_instr *stage_instr(lowering *b, int worker, tw_instr_op op) {
    tw_instr *in = tw_schedule_add_instr(b->s, worker, op);
    if (!in) return NULL;
    if (b->arrivals) tw_schedule_add_wait(b->s, in, b->ready, b->arrivals);
    in->arrive = b->stage_counter;
    b->pending++;
    return in;
}

static void next_turn(lowering *b) {
    b->turn = (b->turn + 1) % b->l.workers;
}

static void stage_end(lowering *b) {
    b->ready = b->stage_counter;
    b->arrivals = b->pending;
    next_turn(b);
}

/* Computes share w of n of `units`, in order. Remainders go to the shares from `turn` on. */
static void share_of(int64_t units, int64_t n, int64_t turn, int64_t w, int64_t *from, int64_t *to) {
    int64_t base = units / n, extra = units % n, start = 0;
    for (int64_t i = 0; i < w; i++) start += base + ((i - turn + n) % n < extra);
    *from = start;
    *to = start + base + ((w - turn + n) % n < extra);
}

/* Computes worker w's share of `units`. */
static void share(const lowering *b, int64_t units, int w, int64_t *from, int64_t *to) {
    share_of(units, b->l.workers, b->turn, w, from, to);
}

/* An instruction's first buffers, in the order of ops.def. The others are absent. */
typedef struct operands {
    const int *buffer;
    size_t count;
} operands;
#define OPERANDS(...) ((operands){(const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int)})

static void set_operands(tw_instr *in, operands o) {
    memcpy(in->operand, o.buffer, o.count * sizeof *o.buffer);
}

/* Sets an instruction's rows to units [from, to) of rows 0 to rows - 1. */
static void set_rows(tw_instr *in, int64_t from, int64_t to, int64_t unit, int64_t rows) {
    in->param[TW_FROM] = from * unit;
    in->param[TW_TO] = to * unit < rows ? to * unit : rows;
}

/* Gives each worker an instruction over some of rows 0 to rows - 1, in multiples of `unit`. */
static void stage_rows(lowering *b, tw_instr_op op, operands o, int64_t rows, int64_t unit) {
    int64_t units = tw_ceil_div(rows, unit), from, to;
    for (int w = 0, slot = 0; w < b->l.workers; w++) {
        share(b, units, w, &from, &to);
        if (from == to) continue;
        tw_instr *in = stage_instr(b, w, op);
        if (!in) return;
        set_operands(in, o);
        set_rows(in, from, to, unit, rows);
        if (op == TW_INSTR_HEAD) in->param[TW_HEAD_SLOT] = slot++;
    }
}

static int64_t unit_of(const lowering *b) {
    return b->l.row_unit;
}

static void lower_embed(lowering *b) {
    stage_begin(b, -1, "input");
    tw_instr *in = stage_instr(b, 0, TW_INSTR_INPUT);
    if (!in) return;
    in->operand[TW_INPUT_TOKENS] = b->tokens;
    in->operand[TW_INPUT_ROPE] = b->rope;
    in->operand[TW_INPUT_ROPE_LOCAL] = b->rope_local;
    stage_end(b);
    stage_begin(b, -1, "embed");
    stage_rows(b, TW_INSTR_EMBED,
               OPERANDS(b->tokens, named(b, -1, "embed", false), named(b, -1, "positions", false), b->x), b->m->dim,
               unit_of(b));
    stage_end(b);
}

/* Adds an instruction that attends with heads [head, head + heads) over part `split` of the past and block `block` of
   the positions. */
static bool attend(lowering *b, int worker, operands o, int64_t head, int64_t heads, int64_t split, int64_t block,
                   int64_t window) {
    tw_instr *in = stage_instr(b, worker, TW_INSTR_ATTEND);
    if (!in) return false;
    set_operands(in, o);
    int64_t *p = in->param;
    p[TW_ATTEND_HEAD_FROM] = head;
    p[TW_ATTEND_HEAD_TO] = head + heads;
    p[TW_ATTEND_ROW_FROM] = b->T * block / b->row_blocks;
    p[TW_ATTEND_ROW_TO] = b->T * (block + 1) / b->row_blocks;
    p[TW_ATTEND_SPLIT] = split;
    p[TW_ATTEND_SPLITS] = b->splits;
    p[TW_ATTEND_WINDOW] = window;
    return true;
}

/* The angles that a layer rotates by. -1: it has no rope. */
static int rope_of(const lowering *b, int64_t layer) {
    const tw_layer_rope rope = b->m->layers[layer].rope;
    return rope == TW_LAYER_ROPE ? b->rope : rope == TW_LAYER_ROPE_LOCAL ? b->rope_local : -1;
}

/* Lowers attention. Heads are dealt out one by one, or in the groups that share a key/value head. With more workers
   than these, blocks of positions (prefill) or parts of the past (decode) are dealt out too, and a merge joins
   parts. */
static void lower_attention(lowering *b, int64_t layer, int k, int v) {
    const tw_model *m = b->m;
    int64_t group = b->l.group_heads ? m->n_heads / m->n_kv_heads : 1, parts = b->splits * b->row_blocks,
            units = m->n_heads / group * parts, from, to;
    const bool norms = b->attend_norms;
    operands o =
        OPERANDS(norms ? b->raw_q : b->q, k, v, b->splits > 1 ? -1 : b->attended, b->splits > 1 ? b->part : -1,
                 norms ? b->raw_k : -1, norms ? named(b, layer, "attn.q_norm", false) : -1,
                 norms ? named(b, layer, "attn.k_norm", false) : -1, norms ? rope_of(b, layer) : -1, norms ? k : -1);
    stage_begin(b, layer, "attend");
    for (int w = 0; w < b->l.workers; w++) {
        share(b, units, w, &from, &to);
        for (int64_t u = from, run; u < to; u += run) {
            /* A run of whole heads is one instruction, so that a key/value head is read once for all its queries. */
            run = parts == 1 && !b->l.group_heads ? to - u : 1;
            if (!attend(b, w, o, u / parts * group, run * group, u % parts % b->splits, u % parts / b->splits,
                        m->layers[layer].window))
                return;
        }
    }
    stage_end(b);
    if (b->splits == 1) {
        next_turn(b); /* Rows are dealt out as with parts, so that machines have one tape for both programs. */
        return;
    }
    stage_begin(b, layer, "merge");
    for (int w = 0; w < b->l.workers; w++) {
        share(b, m->n_heads, w, &from, &to);
        tw_instr *in = from < to ? stage_instr(b, w, TW_INSTR_MERGE) : NULL;
        if (!in) continue;
        set_operands(in, OPERANDS(b->part, b->attended));
        in->param[TW_MERGE_HEAD_FROM] = from;
        in->param[TW_MERGE_HEAD_TO] = to;
        in->param[TW_MERGE_SPLITS] = b->splits;
    }
    stage_end(b);
}

/* Workers that share rows of a product in parts: each has one part of their columns. */
typedef struct team {
    int64_t from, to; /* Units of rows. */
    int counter;      /* Counter of the team's partial sums. */
} team;

/* Returns the worker of a team's part. If there are fewer workers than parts, some have several. */
static int member(const lowering *b, int64_t n_teams, int64_t number, int64_t part) {
    return (int)((b->turn + part * n_teams + number) % b->l.workers);
}

/* Gives the workers of team `number` a partial product each. */
static void lower_partial(lowering *b, int64_t n_teams, int64_t number, const team *t, operands o) {
    for (int64_t part = 0; part < b->parts; part++) {
        tw_instr *in = stage_instr(b, member(b, n_teams, number, part), TW_INSTR_PARTIAL);
        if (!in) return;
        set_operands(in, o);
        set_rows(in, t->from, t->to, unit_of(b), b->m->dim);
        in->param[TW_PARTIAL_PART] = part;
    }
}

/* Gives the workers of team `number` a share each of the sum of the team's rows. */
static void lower_sum(lowering *b, int64_t n_teams, int64_t number, const team *t, operands o) {
    const int64_t units = t->to - t->from, n = b->l.workers < b->parts ? b->l.workers : b->parts;
    b->ready = t->counter;
    b->arrivals = b->parts;
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = t->from + units * i / n, to = t->from + units * (i + 1) / n;
        tw_instr *in = from < to ? stage_instr(b, member(b, n_teams, number, i), TW_INSTR_SUM) : NULL;
        if (!in) continue;
        set_operands(in, o);
        set_rows(in, from, to, unit_of(b), b->m->dim);
    }
}

/* Lowers a product in parts along its columns: partial sums, then their sum. A worker reads the activations of its part
   alone. As many workers as there are parts are a team, with rows and a counter of its own, so the sum of its rows
   waits for nobody else. */
static void lower_parts(lowering *b, int64_t layer, const char *stage, operands of_part, operands of_sum) {
    const int64_t units = tw_ceil_div(b->m->dim, unit_of(b)), whole = b->l.workers / b->parts;
    const int64_t most = whole < 1 ? 1 : whole, n = most < units ? most : units;
    team *teams = tw_arena_array(&b->s->arena, (size_t)n, sizeof *teams);
    char name[64];
    for (int64_t t = 0; t < n && teams; t++) {
        share_of(units, n, b->turn % n, t, &teams[t].from, &teams[t].to);
        snprintf(name, sizeof name, "%s.team%lld", stage, (long long)t);
        stage_begin(b, layer, name);
        teams[t].counter = b->stage_counter;
        lower_partial(b, n, t, &teams[t], of_part);
    }
    stage_begin(b, layer, stage);
    for (int64_t t = 0; t < n && teams; t++) lower_sum(b, n, t, &teams[t], of_sum);
    next_turn(b);
    stage_end(b);
}

/* Lowers what attention or the feed-forward layer adds to the residual stream: a product, whose columns may be in
   parts, and a norm's stage if it is normed. */
static void lower_add(lowering *b, int64_t i, const char *stage, int in, const char *matrix, const char *norm,
                      bool parts) {
    char bias[32], second[32];
    snprintf(bias, sizeof bias, "%s.bias", matrix);
    snprintf(second, sizeof second, "%s.add", stage);
    const int w = named(b, i, norm, false), x = w < 0 ? b->x : -1, y = w < 0 ? -1 : b->y;
    const int of = named(b, i, matrix, true), added = named(b, i, bias, false);
    if (parts) {
        lower_parts(b, i, stage, OPERANDS(in, of, b->sums), OPERANDS(b->sums, added, x, y));
    } else {
        stage_begin(b, i, stage);
        stage_rows(b, TW_INSTR_PROJECT, OPERANDS(in, of, added, x, y), b->m->dim, unit_of(b));
        stage_end(b);
    }
    if (w < 0) return;
    stage_begin(b, i, second);
    stage_rows(b, TW_INSTR_RESIDUAL, OPERANDS(b->y, w, b->x), b->m->dim, unit_of(b));
    stage_end(b);
}

static void lower_dense(lowering *b, int64_t i) {
    const tw_layer *y = &b->m->layers[i];
    stage_begin(b, i, "ffn");
    stage_rows(b, TW_INSTR_FFN,
               OPERANDS(b->x, named(b, i, "mlp_norm", false), named(b, i, "mlp_norm.bias", false),
                        named(b, i, "mlp.gate", true), named(b, i, "mlp.up", true), named(b, i, "mlp.gate.bias", false),
                        named(b, i, "mlp.up.bias", false), b->h),
               y->up.weight.rows, unit_of(b));
    stage_end(b);
    lower_add(b, i, "down", b->h, "mlp.down", "mlp_post_norm", b->parts > 1);
}

/* Returns the rows of an expert that are dealt out at once: fewer where workers would be left without any. */
static int64_t expert_unit(const lowering *b) {
    const int64_t unit = unit_of(b);
    return b->scores >= 0 && unit == 16 && tw_ceil_div(b->m->expert_dim, unit) < b->l.workers ? 8 : unit;
}

/* Tells whether worker w has rows of a stage of so many units, `later` stages from now. */
static bool has_share(const lowering *b, int64_t units, int w, int later) {
    const int64_t n = b->l.workers;
    return units >= n || (w - b->turn - later + 2 * n) % n < units;
}

/* How rows of the chosen experts are dealt out: each of `groups` groups of experts to `parts` workers. */
typedef struct grid {
    int64_t groups, parts;
    int64_t units; /* Units of an expert's rows. */
} grid;

/* Chooses the grid whose largest share is smallest, of several the one with the fewest groups. With a single group each
   worker has rows of all chosen experts. */
static grid grid_of(const lowering *b, int64_t unit) {
    const int64_t used = b->m->n_experts_used, workers = b->l.workers;
    grid best = {1, workers, tw_ceil_div(b->m->expert_dim, unit)};
    int64_t least = tw_ceil_div(best.units, workers) * used;
    for (int64_t n = 2; n <= used && n <= workers && b->scores >= 0; n++) {
        const int64_t most = tw_ceil_div(best.units, workers / n) * tw_ceil_div(used, n);
        if (most >= least) continue;
        least = most;
        best.groups = n;
        best.parts = workers / n;
    }
    if (best.groups > 1 && best.parts > best.units) best.parts = best.units;
    return best;
}

/* Lowers the choice of experts to one instruction. */
static void lower_route(lowering *b, int64_t i, int norm) {
    stage_begin(b, i, "route");
    tw_instr *in = stage_instr(b, (int)(i % b->l.workers), TW_INSTR_ROUTE);
    if (in) set_operands(in, OPERANDS(b->x, norm, named(b, i, "router", false), b->route[0]));
    stage_end(b);
}

/* Lowers the choice to scores, which are dealt out, and a choice by each worker with rows of experts, for itself. */
static void lower_scores(lowering *b, int64_t i, int norm) {
    stage_begin(b, i, "score");
    stage_rows(b, TW_INSTR_SCORE, OPERANDS(b->x, norm, named(b, i, "router", false), b->scores), b->m->n_experts, 1);
    stage_end(b);
    const grid g = grid_of(b, expert_unit(b));
    const int64_t up = g.groups > 1 ? g.groups * g.parts : g.units, down = tw_ceil_div(b->m->dim, unit_of(b));
    for (int w = 0; w < b->l.workers; w++) {
        if (!has_share(b, up, w, 0) && !has_share(b, down, w, 1)) continue;
        tw_instr *in = tw_schedule_add_instr(b->s, w, TW_INSTR_CHOOSE);
        if (!in) return;
        tw_schedule_add_wait(b->s, in, b->ready, b->arrivals);
        set_operands(in, OPERANDS(b->scores, b->route[w]));
    }
    b->arrivals = 0; /* Who has chosen has waited for all that experts_up reads. */
}

/* Gives workers with rows of experts their own choice. */
static void use_choices(lowering *b, tw_instr_op op, int operand) {
    for (int w = 0; w < b->l.workers && b->scores >= 0; w++) {
        const tw_worker *of = &b->s->workers[w];
        if (of->count && of->list[of->count - 1].op == op) of->list[of->count - 1].operand[operand] = b->route[w];
    }
}

/* Sets the slots of the choice that an experts_up has rows of. */
static void set_slots(tw_instr *in, int64_t from, int64_t to) {
    in->param[TW_EXPERTS_UP_SLOT_FROM] = from;
    in->param[TW_EXPERTS_UP_SLOT_TO] = to;
}

/* Deals the chosen experts' rows out. */
static void lower_up(lowering *b, operands o) {
    const int64_t unit = expert_unit(b), rows = b->m->expert_dim, used = b->m->n_experts_used;
    const grid g = grid_of(b, unit);
    if (g.groups == 1) {
        stage_rows(b, TW_INSTR_EXPERTS_UP, o, rows, unit);
        for (int w = 0; w < b->l.workers; w++) {
            const tw_worker *of = &b->s->workers[w];
            if (of->count && of->list[of->count - 1].op == TW_INSTR_EXPERTS_UP)
                set_slots(&of->list[of->count - 1], 0, used);
        }
    }
    for (int64_t i = 0; i < g.groups * g.parts && g.groups > 1; i++) {
        const int64_t group = i / g.parts, part = i % g.parts, to = g.units * (part + 1) / g.parts * unit;
        tw_instr *in = stage_instr(b, (int)((b->turn + i) % b->l.workers), TW_INSTR_EXPERTS_UP);
        if (!in) return;
        set_operands(in, o);
        in->param[TW_FROM] = g.units * part / g.parts * unit;
        in->param[TW_TO] = to < rows ? to : rows;
        set_slots(in, used * group / g.groups, used * (group + 1) / g.groups);
    }
    use_choices(b, TW_INSTR_EXPERTS_UP, TW_EXPERTS_UP_ROUTE);
}

static void lower_experts(lowering *b, int64_t i, int moe_h) {
    const tw_layer *y = &b->m->layers[i];
    int norm = named(b, i, "mlp_norm", false);
    if (b->scores >= 0)
        lower_scores(b, i, norm);
    else
        lower_route(b, i, norm);
    stage_begin(b, i, "experts_up");
    lower_up(b, OPERANDS(b->x, norm, b->route[0], experts(b, i, "gate", &y->experts[0].gate.weight),
                         experts(b, i, "up", &y->experts[0].up.weight), moe_h));
    stage_end(b);
    stage_begin(b, i, "experts_down");
    stage_rows(b, TW_INSTR_EXPERTS_DOWN,
               OPERANDS(moe_h, b->route[0], experts(b, i, "down", &y->experts[0].down.weight), b->x), b->m->dim,
               unit_of(b));
    use_choices(b, TW_INSTR_EXPERTS_DOWN, TW_EXPERTS_DOWN_ROUTE);
    stage_end(b);
}

/* Tells whether turn norms queries and keys. Of norms of heads it does so where whole heads would give a worker of qkv
   many more bytes than an even share has. */
static bool norms_apart(const lowering *b) {
    /* What a worker reads while another instruction waits and is waited for, and while attention norms. */
    enum { TURN_BYTES = 256 << 10, ATTEND_BYTES = 128 << 10 };
    const tw_model *m = b->m;
    const tw_weight *q = &m->layers[0].q.weight;
    if (tw_model_norms_apart(m)) return true;
    if (!m->layers[0].q_norm.rows || m->head_dim < TW_LEAST_RAW || b->l.head_norms == TW_HEAD_NORMS_QKV) return false;
    if (b->l.head_norms != TW_HEAD_NORMS_AUTO) return true;
    const int64_t heads = m->n_heads + 2 * m->n_kv_heads, workers = b->l.workers, unit = unit_of(b);
    const int64_t whole = tw_ceil_div(heads, workers) * m->head_dim;
    const int64_t even = tw_ceil_div(tw_ceil_div(heads * m->head_dim, unit), workers) * unit;
    const tw_dtype type = b->l.weights == TW_F32 ? q->dtype : b->l.weights;
    return b->l.group_heads &&
           (whole - even) * q->cols * (int64_t)tw_dtype_bits(type) / 8 > (b->T == 1 ? ATTEND_BYTES : TURN_BYTES);
}

/* Lowers the norms of queries and keys to a stage of their own, in which each worker has some heads. */
static void lower_turn(lowering *b, int64_t i, int k) {
    const int64_t heads = b->m->n_heads + b->m->n_kv_heads;
    const operands o = OPERANDS(b->raw_q, b->raw_k, named(b, i, "attn.q_norm", false),
                                named(b, i, "attn.k_norm", false), rope_of(b, i), b->q, k);
    int64_t from, to;
    stage_begin(b, i, "turn");
    for (int w = 0; w < b->l.workers; w++) {
        share(b, heads, w, &from, &to);
        tw_instr *in = from < to ? stage_instr(b, w, TW_INSTR_TURN) : NULL;
        if (!in) continue;
        set_operands(in, o);
        in->param[TW_TURN_HEAD_FROM] = from;
        in->param[TW_TURN_HEAD_TO] = to;
    }
    stage_end(b);
}

static void lower_layer(lowering *b, int64_t i, int moe_h) {
    const tw_model *m = b->m;
    char name[96];
    snprintf(name, sizeof name, "layers.%lld.k", (long long)i);
    const int64_t heads = b->sequences * m->n_kv_heads;
    int k = tw_schedule_add_buffer(b->s, name, TW_BUFFER_KV, b->l.kv, 0, heads, b->l.max_seq, m->head_dim);
    snprintf(name, sizeof name, "layers.%lld.v", (long long)i);
    int v = tw_schedule_add_buffer(b->s, name, TW_BUFFER_KV, b->l.kv, 0, heads, b->l.max_seq, m->head_dim);
    stage_begin(b, i, "qkv");
    const bool apart = b->raw_q >= 0;
    int64_t unit = m->layers[i].q_norm.rows && !apart ? m->head_dim : unit_of(b);
    stage_rows(b, TW_INSTR_QKV,
               OPERANDS(b->x, named(b, i, "attn_norm", false), named(b, i, "attn_norm.bias", false),
                        named(b, i, "attn.q", true), named(b, i, "attn.k", true), named(b, i, "attn.v", true),
                        named(b, i, "attn.q.bias", false), named(b, i, "attn.k.bias", false),
                        named(b, i, "attn.v.bias", false), apart ? -1 : named(b, i, "attn.q_norm", false),
                        apart ? -1 : named(b, i, "attn.k_norm", false), tw_model_norms_apart(m) ? -1 : rope_of(b, i),
                        apart ? b->raw_q : b->q, apart ? -1 : k, v, apart ? b->raw_k : -1),
               (m->n_heads + 2 * m->n_kv_heads) * m->head_dim, unit);
    stage_end(b);
    if (apart && !b->attend_norms) lower_turn(b, i, k);
    lower_attention(b, i, k, v);
    lower_add(b, i, "project", b->attended, "attn.o", "attn_post_norm", false);
    if (m->layers[i].experts)
        lower_experts(b, i, moe_h);
    else
        lower_dense(b, i);
}

static void lower_head(lowering *b) {
    /* The head stays at int8. With fewer bits it costs more perplexity than all the rest together. */
    tw_lowering saved = b->l;
    if (b->l.weights == TW_I4) {
        b->l.weights = TW_I8;
        b->l.group = 0;
    }
    int w = named(b, -1, "head", true);
    b->l = saved;
    stage_begin(b, -1, "head");
    stage_rows(b, TW_INSTR_HEAD,
               OPERANDS(b->x, named(b, -1, "final_norm", false), named(b, -1, "final_norm.bias", false), w, b->logits,
                        b->best),
               b->m->vocab, unit_of(b));
    stage_end(b);
    stage_begin(b, -1, "output");
    tw_instr *in = stage_instr(b, 0, TW_INSTR_OUTPUT);
    if (in) set_operands(in, OPERANDS(b->logits, b->best, b->token));
}

static void shared_buffers(lowering *b) {
    const tw_model *m = b->m;
    tw_schedule *s = b->s;
    int64_t T = b->T, unit = unit_of(b), parts = tw_ceil_div(m->vocab, unit);
    tw_buffer_kind A = TW_BUFFER_ACTIVATION;
    b->tokens = tw_schedule_add_buffer(s, "tokens", TW_BUFFER_INPUT, TW_I32, 0, T, 1, 1);
    b->rope = m->rope.kind == TW_ROPE_NONE
                  ? -1
                  : tw_schedule_add_buffer(s, "rope", TW_BUFFER_INPUT, TW_F32, 0, T, 2, m->rope.dims / 2);
    b->rope_local =
        m->rope_local.kind == TW_ROPE_NONE
            ? -1
            : tw_schedule_add_buffer(s, "rope_local", TW_BUFFER_INPUT, TW_F32, 0, T, 2, m->rope_local.dims / 2);
    b->x = tw_schedule_add_buffer(s, "x", A, TW_F32, 0, T, 1, m->dim);
    const bool apart = norms_apart(b);
    b->attend_norms =
        apart && !tw_model_norms_apart(m) && T == 1 && b->l.group_heads && b->l.head_norms != TW_HEAD_NORMS_TURN;
    if (!b->attend_norms) b->q = tw_schedule_add_buffer(s, "q", A, TW_F32, 0, T, m->n_heads, m->head_dim);
    if (m->layers[0].attn_post_norm.weight.rows) b->y = tw_schedule_add_buffer(s, "y", A, TW_F32, 0, T, 1, m->dim);
    if (apart) {
        b->raw_q = tw_schedule_add_buffer(s, "raw_q", A, TW_F32, 0, T, m->n_heads, m->head_dim);
        b->raw_k = tw_schedule_add_buffer(s, "raw_k", A, TW_F32, 0, T, m->n_kv_heads, m->head_dim);
    }
    b->attended = tw_schedule_add_buffer(s, "attended", A, TW_F32, 0, T, 1, m->n_heads * m->head_dim);
    if (b->splits > 1)
        b->part = tw_schedule_add_buffer(s, "part", A, TW_F32, 0, T, m->n_heads * b->splits, m->head_dim + 2);
    if (b->parts > 1) b->sums = tw_schedule_add_buffer(s, "sums", A, TW_F32, 0, T, b->parts, m->dim);
    if (m->ffn_dim) b->h = tw_schedule_add_buffer(s, "h", A, TW_F32, 0, T, 1, m->ffn_dim);
    b->logits = tw_schedule_add_buffer(s, "logits", TW_BUFFER_OUTPUT, TW_F32, 0, b->l.all_logits ? T : 1, 1, m->vocab);
    b->best =
        tw_schedule_add_buffer(s, "best", A, TW_F32, 0, parts < b->l.workers ? parts : b->l.workers, b->sequences, 2);
    b->token = tw_schedule_add_buffer(s, "token", TW_BUFFER_OUTPUT, TW_I32, 0, b->sequences, 1, 1);
}

/* Chooses parts if there are too few heads for the workers. Decode splits the past, and prefill the positions. Groups
   of heads split the past in both, since a group exists to read its keys and values once. Each of several sequences has
   its own past. */
static void choose_parts(lowering *b, const tw_lowering *l) {
    int64_t heads = l->group_heads ? b->m->n_kv_heads : b->m->n_heads;
    b->splits = l->kv_splits;
    b->row_blocks = l->row_blocks;
    if (b->sequences > 1) {
        if (!b->row_blocks || b->row_blocks > b->sequences) b->row_blocks = b->sequences;
        heads *= b->row_blocks;
        if (!b->splits) b->splits = l->workers > heads ? l->workers / heads : 1;
    }
    int64_t most = tw_ceil_div(l->workers, heads), least = l->workers > heads ? l->workers / heads : 1;
    if (l->group_heads) {
        if (!b->row_blocks) b->row_blocks = 1;
        if (!b->splits) b->splits = least;
    }
    if (!b->splits) b->splits = b->T == 1 ? most : 1;
    if (!b->row_blocks) b->row_blocks = b->T == 1 ? 1 : most;
}

static tw_status choose(lowering *b, const tw_lowering *l, tw_diag *diag) {
    const tw_model *m = b->m;
    b->l = *l;
    if (l->workers < 1 || l->workers > TW_MAX_WORKERS)
        return tw_fail(diag, TW_ERR_USAGE, "workers: %d is not within 1..%d", l->workers, TW_MAX_WORKERS);
    if (!b->l.max_seq) b->l.max_seq = m->max_seq;
    if (b->l.max_seq < 1 || (m->positions.rows && b->l.max_seq > m->positions.rows))
        return tw_fail(diag, TW_ERR_USAGE, "max_seq: %lld is not within 1..%lld", (long long)b->l.max_seq,
                       (long long)m->max_seq);
    b->sequences = l->sequences ? l->sequences : 1;
    b->T = l->tokens ? l->tokens : b->sequences;
    if (b->sequences < 1 || (b->sequences > 1 && b->T != b->sequences))
        return tw_fail(diag, TW_ERR_USAGE, "sequences: %lld of them do not make a step of %lld tokens, one of each",
                       (long long)b->sequences, (long long)b->T);
    if (b->sequences > 1) b->l.all_logits = true;
    if (b->T < 1 || b->T / b->sequences > b->l.max_seq)
        return tw_fail(diag, TW_ERR_USAGE, "tokens: %lld is not within 1..max_seq (%lld)", (long long)b->T,
                       (long long)b->l.max_seq);
    if (!b->l.row_unit) b->l.row_unit = 16;
    if (b->l.row_unit < 2 || b->l.row_unit & 1)
        return tw_fail(diag, TW_ERR_USAGE, "row_unit: %lld is not an even number above 0", (long long)b->l.row_unit);
    if (l->weights != TW_F32 && l->weights != TW_I8 && l->weights != TW_I4)
        return tw_fail(diag, TW_ERR_USAGE, "weights: %s is not native, int8 or int4", tw_dtype_name(l->weights));
    if (l->weights == TW_I4 && !l->group) b->l.group = 64;
    bool known = b->l.group == 32 || b->l.group == 64 || b->l.group == 128;
    if (b->l.group && !known) return tw_fail(diag, TW_ERR_USAGE, "group: %d is not 32, 64 or 128", b->l.group);
    if (l->kv != TW_F32 && l->kv != TW_F16 && l->kv != TW_BF16)
        return tw_fail(diag, TW_ERR_USAGE, "kv: %s is not f32, bf16 or f16", tw_dtype_name(l->kv));
    b->parts = b->T > 1 && l->down_splits && m->ffn_dim ? l->down_splits : 1;
    if (b->parts < 1 || m->ffn_dim % b->parts)
        return tw_fail(diag, TW_ERR_USAGE, "down_splits: %lld must be a number of equal parts of %lld columns",
                       (long long)b->parts, (long long)m->ffn_dim);
    choose_parts(b, l);
    if (b->row_blocks > b->T) b->row_blocks = b->T;
    if (b->splits < 1 || b->splits > 4096 || b->row_blocks < 1)
        return tw_fail(diag, TW_ERR_USAGE, "kv_splits: %lld is not within 1..4096", (long long)b->splits);
    return TW_OK;
}

tw_status tw_lowering_check(const tw_model *model, const tw_lowering *l, tw_diag *diag) {
    lowering b = {.m = model};
    return choose(&b, l, diag);
}

/* Adds buffers for the choice of experts. With `group_heads` the router's scores are dealt out to all workers, unless
   they are few, and have a buffer of their own. */
static void add_routes(lowering *b) {
    const int64_t used = b->m->n_experts_used;
    char name[32];
    if (!b->l.group_heads || b->m->n_experts < TW_LEAST_SCORES) {
        b->route[0] = tw_schedule_add_buffer(b->s, "route", TW_BUFFER_ACTIVATION, TW_F32, 0, b->T, 2, used);
        return;
    }
    b->scores = tw_schedule_add_buffer(b->s, "scores", TW_BUFFER_ACTIVATION, TW_F32, 0, b->T, 1, b->m->n_experts);
    for (int w = 0; w < b->l.workers; w++) {
        snprintf(name, sizeof name, "route.%d", w);
        b->route[w] = tw_schedule_add_buffer(b->s, name, TW_BUFFER_ACTIVATION, TW_F32, 0, b->T, 2, used);
    }
}

tw_status tw_schedule_lower(tw_schedule **out, const tw_model *model, const tw_lowering *l, tw_diag *diag) {
    lowering b = {.m = model, .part = -1, .h = -1, .scores = -1, .y = -1, .raw_q = -1, .raw_k = -1, .sums = -1};
    *out = NULL;
    tw_status st = choose(&b, l, diag);
    if (st != TW_OK) return st;
    b.s = tw_schedule_begin(b.l.workers, b.T, b.l.max_seq);
    if (!b.s) return tw_fail_memory(diag);
    b.s->sequences = b.sequences;
    shared_buffers(&b);
    int moe_h = -1;
    if (model->n_experts) {
        add_routes(&b);
        moe_h = tw_schedule_add_buffer(b.s, "moe_h", TW_BUFFER_ACTIVATION, TW_F32, 0, b.T, model->n_experts_used,
                                       model->expert_dim);
    }
    lower_embed(&b);
    for (int64_t i = 0; i < model->n_layers && !b.s->arena.failed; i++) lower_layer(&b, i, moe_h);
    lower_head(&b);
    if (b.s->arena.failed) {
        tw_schedule_free(b.s);
        return tw_fail_memory(diag);
    }
    *out = b.s;
    return TW_OK;
}
