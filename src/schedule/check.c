/* SPDX-License-Identifier: Apache-2.0 */
/* The static check. What an instruction may name and access is checked here, one by one. Then the schedule becomes a
   flow, and flow.c and memory.c prove what workers may do to each other. */
#include "schedule/check.h"

#include "base/diag.h"
#include "base/file.h"
#include "schedule/dot.h"
#include "schedule/effects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tw_checked {
    tw_schedule *schedule;
};

typedef struct check {
    const tw_schedule *s;
    tw_report *report;
    tw_access_list effects; /* Accesses of all instructions, one after the other. */
    tw_flow flow;
    tw_arena arena;
    bool mixture; /* Some instruction is an expert's. */
    bool failed;  /* An allocation failed. */
} check;

/* The instruction that is checked. Its name is written only for a finding. */
typedef struct place {
    const tw_schedule *s;
    int worker, index;
} place;

static const char *where_of(const place *at, char out[96]) {
    snprintf(out, 96, "workers[%d][%d] %s", at->worker, at->index,
             tw_instr_op_describe(at->s->workers[at->worker].list[at->index].op)->name);
    return out;
}

/* ---- structure: references, arity, kinds ---- */

static bool operands_ok(check *c, const place *at, const tw_instr *in, const tw_instr_op_info *info) {
    char where[96];
    bool ok = true;
    for (int i = info->n_operands; i < TW_MAX_OPERANDS; i++) {
        if (in->operand[i] < 0) continue;
        tw_report_add(c->report, "arity", where_of(at, where), "operand %d, of %d", i + 1, info->n_operands);
        ok = false;
    }
    for (int i = 0; i < info->n_operands; i++) {
        int b = in->operand[i];
        const tw_operand_info *o = &info->operands[i];
        if (b < 0 && !o->optional) {
            tw_report_add(c->report, "arity", where_of(at, where), "operand %s is missing", o->name);
            ok = false;
        } else if (b >= c->s->n_buffers) {
            tw_report_add(c->report, "reference", where_of(at, where), "operand %s names buffer %d of %d", o->name, b,
                          c->s->n_buffers);
            ok = false;
        } else if (b >= 0 && c->s->buffers[b].kind != o->kind) {
            bool writes = o->access != 'r';
            tw_buffer_kind k = c->s->buffers[b].kind;
            tw_report_add(c->report, writes && k == TW_BUFFER_WEIGHT ? "read-only" : "kind", where_of(at, where),
                          "operand %s must be of kind %s, but %s is of kind %s", o->name, tw_buffer_kind_name(o->kind),
                          c->s->buffers[b].name, tw_buffer_kind_name(k));
            ok = false;
        }
    }
    return ok;
}

/* Tells whether an operand that is written is another one, too, because the instruction writes rows that it does not
   read: attention appends a key to those before it. */
static bool is_appended(const tw_instr *in, int written, int other) {
    return in->op == TW_INSTR_ATTEND && written == TW_ATTEND_APPEND && other == TW_ATTEND_K;
}

/* Checks that the buffer of an operand that is written is not another operand of the instruction too, since the
   instruction's reads and writes have no order. */
static bool apart_ok(check *c, const place *at, const tw_instr *in, const tw_instr_op_info *info) {
    char where[96];
    for (int i = 0; i < info->n_operands; i++) {
        if (info->operands[i].access == 'r' || in->operand[i] < 0) continue;
        for (int j = 0; j < info->n_operands; j++) {
            if (j == i || in->operand[i] != in->operand[j] || is_appended(in, i, j)) continue;
            tw_report_add(c->report, "self overlap", where_of(at, where),
                          "operands %s and %s are both %s, which it writes while it uses it", info->operands[i].name,
                          info->operands[j].name, c->s->buffers[in->operand[i]].name);
            return false;
        }
    }
    return true;
}

static bool waits_ok(check *c, const place *at, const tw_instr *in) {
    char where[96];
    bool ok = true;
    if (in->arrive < -1 || in->arrive >= c->s->n_counters) {
        tw_report_add(c->report, "reference", where_of(at, where), "arrives at counter %d of %d", in->arrive,
                      c->s->n_counters);
        ok = false;
    }
    for (int i = 0; i < in->n_waits; i++)
        if (in->waits[i].counter < 0 || in->waits[i].counter >= c->s->n_counters) {
            tw_report_add(c->report, "reference", where_of(at, where), "waits for counter %d of %d",
                          in->waits[i].counter, c->s->n_counters);
            ok = false;
        }
    return ok;
}

static bool bounds_ok(check *c, const place *at, const tw_access *a) {
    char where[96];
    const tw_buffer *b = &c->s->buffers[a->buffer];
    const int64_t *whole = c->flow.buffers[a->buffer].extent;
    const int64_t extent[3] = {whole[0], b->kind == TW_BUFFER_KV ? c->s->tokens / c->s->sequences : whole[1], whole[2]};
    for (int i = 0; i < 3; i++) {
        bool past = i == 1 && b->kind == TW_BUFFER_KV && !a->write;
        if ((a->lo[i] >= 0 || past) && a->hi[i] <= extent[i]) continue;
        tw_report_add(c->report, "bounds", where_of(at, where), "%s %s: %lld..%lld in dimension %d, which has %lld",
                      a->write ? "writes" : "reads", b->name, (long long)a->lo[i], (long long)a->hi[i], i,
                      (long long)extent[i]);
        return false;
    }
    return true;
}

/* Checks an instruction, and appends its effects to the list from `*first` on. */
static bool instr_ok(check *c, int worker, int i, const tw_instr *in, int *first) {
    const place here = {c->s, worker, i}, *at = &here;
    char where[96];
    tw_diag d;
    *first = c->effects.count;
    const tw_instr_op_info *info = tw_instr_op_describe(in->op);
    bool ok = operands_ok(c, at, in, info);
    ok = waits_ok(c, at, in) && ok && apart_ok(c, at, in, info);
    if (!ok) return false;
    tw_status st = tw_instr_effects(c->s, in, &c->effects, &d);
    if (st == TW_ERR_MEMORY) c->failed = true;
    if (st != TW_OK) {
        if (!c->failed) tw_report_add(c->report, "shape", where_of(at, where), "%s", d.message);
        return false;
    }
    int kept = *first;
    for (int a = *first; a < c->effects.count; a++) {
        tw_access *x = &c->effects.item[a];
        ok = bounds_ok(c, at, x) && ok;
        /* Accesses to weights need no other check. */
        if (c->s->buffers[x->buffer].kind != TW_BUFFER_WEIGHT) c->effects.item[kept++] = *x;
    }
    c->effects.count = kept;
    bool begins = worker == 0 && i == 0, ends = worker == 0 && i == c->s->workers[0].count - 1;
    if ((in->op == TW_INSTR_INPUT) != begins || (in->op == TW_INSTR_OUTPUT) != ends) {
        tw_report_add(c->report, "structure", where_of(at, where),
                      "input is the first instruction of worker 0 and output its last, and they are nowhere else");
        ok = false;
    }
    return ok;
}

static bool counters_ok(check *c) {
    bool ok = true;
    char where[96];
    for (int i = 0; i < c->s->n_counters; i++) {
        if (c->s->counters[i].init == 0) continue;
        snprintf(where, sizeof where, "counter %.80s", c->s->counters[i].name);
        tw_report_add(c->report, "counter init", where, "starts at %lld: waits would pass before their producers ran",
                      (long long)c->s->counters[i].init);
        ok = false;
    }
    return ok;
}

/* Checks that only a router writes `route`, and names no more experts than there are. Experts write the slots that
   `route` names, which are all slots if each has an expert's id. */
static bool routes_ok(check *c) {
    const tw_schedule *s = c->s;
    /* experts[b]: the most experts that a router of buffer b chooses from. 0: nothing writes b. -1: another op does. */
    int64_t *experts = tw_arena_array(&c->arena, (size_t)s->n_buffers + 1, sizeof *experts);
    bool ok = experts != NULL;
    char where[96];
    for (int w = 0; w < s->n_workers && ok; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            const tw_instr_op_info *info = tw_instr_op_describe(in->op);
            for (int k = 0; k < info->n_operands; k++) {
                int b = in->operand[k];
                if (b < 0 || info->operands[k].access == 'r' || experts[b] < 0) continue;
                int64_t n = in->op == TW_INSTR_ROUTE    ? s->buffers[in->operand[TW_ROUTE_ROUTER]].shape[1]
                            : in->op == TW_INSTR_CHOOSE ? s->buffers[in->operand[TW_CHOOSE_SCORES]].shape[2]
                                                        : -1;
                experts[b] = n < 0 || n > experts[b] ? n : experts[b];
            }
        }
    for (int w = 0; w < s->n_workers && experts; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            bool up = in->op == TW_INSTR_EXPERTS_UP;
            if (!up && in->op != TW_INSTR_EXPERTS_DOWN) continue;
            int route = in->operand[up ? TW_EXPERTS_UP_ROUTE : TW_EXPERTS_DOWN_ROUTE];
            int64_t there = s->buffers[in->operand[up ? TW_EXPERTS_UP_UP : TW_EXPERTS_DOWN_W]].shape[0];
            if (experts[route] > 0 && experts[route] <= there) continue;
            tw_report_add(c->report, "shape", where_of(&(place){s, w, i}, where),
                          "%s does not hold a router's choice among these %lld experts", s->buffers[route].name,
                          (long long)there);
            ok = false;
        }
    if (!experts) c->failed = true;
    return ok;
}

/* ---- the flow ---- */

static void name_task(const void *context, int task, char out[96]) {
    const check *c = context;
    int w = 0;
    while (task >= c->flow.first[w + 1]) w++;
    where_of(&(place){c->s, w, task - c->flow.first[w]}, out);
}

static const char *name_counter(const void *context, int counter) {
    return ((const check *)context)->s->counters[counter].name;
}

static bool make_buffers(check *c) {
    static const tw_flow_kind kinds[TW_BUFFER_KIND_COUNT] = {
        [TW_BUFFER_WEIGHT] = TW_FLOW_CONSTANT, [TW_BUFFER_ACTIVATION] = TW_FLOW_FRESH, [TW_BUFFER_KV] = TW_FLOW_CACHE,
        [TW_BUFFER_INPUT] = TW_FLOW_FRESH,     [TW_BUFFER_OUTPUT] = TW_FLOW_OUTPUT,
    };
    const tw_schedule *s = c->s;
    tw_flow *f = &c->flow;
    f->buffers = tw_arena_array(&c->arena, (size_t)s->n_buffers + 1, sizeof *f->buffers);
    f->n_buffers = s->n_buffers;
    for (int i = 0; i < s->n_buffers && f->buffers; i++) {
        const tw_buffer *b = &s->buffers[i];
        if (b->shape[0] < 1 || b->shape[1] < 1 || b->shape[2] < 1)
            tw_report_add(c->report, "shape", b->name, "[%lld, %lld, %lld] holds nothing", (long long)b->shape[0],
                          (long long)b->shape[1], (long long)b->shape[2]);
        f->buffers[i] = (tw_flow_buffer){
            .name = b->name, .kind = kinds[b->kind], .extent = {b->shape[0], b->shape[1], tw_buffer_row_bytes(b)}};
    }
    return f->buffers != NULL;
}

/* Allocates everything that has a place for each task. */
static bool make_flow(check *c) {
    const tw_schedule *s = c->s;
    tw_flow *f = &c->flow;
    size_t tasks = 0, waits = 0;
    for (int w = 0; w < s->n_workers; w++) {
        tasks += (size_t)s->workers[w].count;
        for (int i = 0; i < s->workers[w].count; i++) waits += (size_t)s->workers[w].list[i].n_waits;
    }
    *f = (tw_flow){.n_workers = s->n_workers,
                   .n_counters = s->n_counters,
                   .repeats = true,
                   .last = s->workers[0].count - 1,
                   .name_task = name_task,
                   .name_counter = name_counter,
                   .context = c};
    f->first = tw_arena_array(&c->arena, (size_t)s->n_workers + 1, sizeof *f->first);
    f->tasks = tw_arena_array(&c->arena, tasks + 1, sizeof *f->tasks);
    f->waits = tw_arena_array(&c->arena, waits + 1, sizeof *f->waits);
    if (make_buffers(c) && !c->arena.failed) return true;
    return !(c->failed = true);
}

static bool structure_ok(check *c) {
    const tw_schedule *s = c->s;
    tw_flow *f = &c->flow;
    int waits = 0, task = 0;
    if (!s->workers[0].count) {
        tw_report_add(c->report, "structure", "workers[0]", "has no instructions: input and output belong there");
        return false;
    }
    if (s->sequences != 1 && (s->sequences < 1 || s->sequences != s->tokens)) {
        tw_report_add(c->report, "structure", "sequences",
                      "%lld sequences in steps of %lld positions: of several, each has one", (long long)s->sequences,
                      (long long)s->tokens);
        return false;
    }
    if (!make_flow(c) || c->report->count || c->report->cut) return false;
    bool ok = true;
    for (int w = 0; w < s->n_workers && !c->failed; w++) {
        f->first[w] = task;
        for (int i = 0; i < s->workers[w].count && !c->failed; i++, task++) {
            const tw_instr *in = &s->workers[w].list[i];
            tw_flow_task *t = &f->tasks[task];
            c->mixture = c->mixture || in->op == TW_INSTR_EXPERTS_UP || in->op == TW_INSTR_EXPERTS_DOWN;
            *t = (tw_flow_task){.first_wait = waits, .n_waits = in->n_waits, .arrive = in->arrive};
            ok = instr_ok(c, w, i, in, &t->first_access) && ok;
            t->n_accesses = c->effects.count - t->first_access;
            if (in->n_waits) memcpy(&f->waits[waits], in->waits, (size_t)in->n_waits * sizeof *in->waits);
            waits += in->n_waits;
        }
    }
    f->first[s->n_workers] = task;
    f->accesses = c->effects.item;
    f->n_accesses = c->effects.count;
    return !c->failed && counters_ok(c) && ok && (!c->mixture || routes_ok(c));
}

tw_status tw_schedule_examine(const tw_schedule *s, tw_report *report, tw_diag *diag) {
    check c = {.s = s, .report = report};
    if (structure_ok(&c)) c.failed = tw_flow_check(&c.flow, report) != TW_OK;
    tw_arena_free(&c.arena);
    tw_access_list_free(&c.effects);
    if (c.failed) return tw_fail_memory(diag);
    if (!report->count && !report->cut) return TW_OK;
    const tw_finding *f = report->count ? report->findings : NULL;
    return tw_fail(diag, TW_ERR_REJECTED, "the schedule is unsafe: %s: %s: %s", f ? f->where : "", f ? f->rule : "",
                   f ? f->text : "");
}

tw_status tw_schedule_dot(const tw_schedule *s, const tw_report *report, const char *path, tw_diag *diag) {
    tw_report own;
    tw_buf text = {0};
    if (tw_report_start(&own) != TW_OK) return tw_fail_memory(diag);
    check c = {.s = s, .report = &own};
    tw_status st = TW_OK;
    structure_ok(&c);
    if (!c.failed && own.count)
        st = tw_fail(diag, TW_ERR_REJECTED, "%s: not drawn: %s: %s", path, own.findings[0].where, own.findings[0].text);
    else if (c.failed || !tw_flow_dot(&c.flow, report, &text))
        st = tw_fail_memory(diag);
    else
        st = tw_file_write(path, text.data, text.size, diag);
    tw_buf_free(&text);
    tw_arena_free(&c.arena);
    tw_access_list_free(&c.effects);
    tw_report_free(&own);
    return st;
}

tw_status tw_schedule_check(tw_checked **out, tw_schedule **s, tw_report *report, tw_diag *diag) {
    tw_report own;
    tw_report *r = report ? report : &own;
    *out = NULL;
    if (tw_report_start(r) != TW_OK) return tw_fail_memory(diag);
    tw_status st = tw_schedule_examine(*s, r, diag);
    if (st == TW_OK) {
        *out = malloc(sizeof **out);
        if (!*out) st = tw_fail_memory(diag);
    }
    if (st == TW_OK) {
        (*out)->schedule = *s;
        *s = NULL;
    }
    if (!report) tw_report_free(&own);
    return st;
}

void tw_checked_free(tw_checked *c) {
    if (!c) return;
    tw_schedule_free(c->schedule);
    free(c);
}

const tw_schedule *tw_checked_schedule(const tw_checked *c) {
    return c->schedule;
}
