/* SPDX-License-Identifier: Apache-2.0 */
/* Checks each buffer, step and task by itself. Then the schedule becomes a flow, and flow.c and memory.c prove what
   workers may do to each other. Workers meet between two runs, so a run alone is looked at. */
#include "base/diag.h"
#include "base/file.h"
#include "schedule/dot.h"
#include "schedule/ranges/ranges.h"
#include "schedule/report.h"

#include <stdio.h>
#include <string.h>

typedef struct check {
    const tw_ranges *r;
    tw_report *report;
    tw_access_list boxes;
    tw_arena arena;
    tw_flow flow;
} check;

static const char *where_of(const check *c, int worker, int index, char out[96]) {
    snprintf(out, 96, "workers[%d][%d] %.60s", worker, index, c->r->steps[c->r->workers[worker].list[index].step].name);
    return out;
}

static bool buffer_ok(const check *c, const tw_range_buffer *b) {
    if (b->rows < 1 || b->bytes < 1) {
        tw_report_add(c->report, "shape", b->name, "%lld rows of %lld bytes hold nothing", (long long)b->rows,
                      (long long)b->bytes);
        return false;
    }
    if (b->kind == TW_RANGE_SCRATCH && (b->offset < 0 || b->offset > c->r->scratch - b->rows * b->bytes)) {
        tw_report_add(c->report, "bounds", b->name, "lies beyond the %lld bytes of scratch memory",
                      (long long)c->r->scratch);
        return false;
    }
    return true;
}

/* Tells whether all units are within `limit`. Products of what a file says may not fit 64 bits. */
static bool span_ok(const tw_range_step *s, const tw_range_span *x, int64_t limit) {
    double end = (double)x->first + (double)x->extent;
    bool ok = x->first >= 0 && x->extent >= 1;
    for (int a = 0; a < TW_RANGE_AXES; a++) {
        ok = ok && x->step[a] >= 0;
        end += (double)x->step[a] * (double)(s->units[a] - 1);
    }
    return ok && end <= (double)limit;
}

static bool step_ok(const check *c, const tw_range_step *s) {
    bool ok = true;
    for (int a = 0; a < TW_RANGE_AXES; a++)
        if (s->units[a] < 1) {
            tw_report_add(c->report, "shape", s->name, "has no units along axis %d", a);
            return false;
        }
    for (int i = 0; i < s->n_accesses; i++) {
        const tw_range_access *a = &s->accesses[i];
        if (a->buffer < 0 || a->buffer >= c->r->n_buffers) {
            tw_report_add(c->report, "reference", s->name, "names buffer %d of %d", a->buffer, c->r->n_buffers);
            ok = false;
            continue;
        }
        const tw_range_buffer *b = &c->r->buffers[a->buffer];
        if (a->write && b->kind == TW_RANGE_CONSTANT) {
            tw_report_add(c->report, "read-only", s->name, "writes %s, which is constant", b->name);
            ok = false;
        }
        if (!span_ok(s, &a->rows, b->rows) || !span_ok(s, &a->bytes, b->bytes)) {
            tw_report_add(c->report, "bounds", s->name, "%s %s outside its %lld rows of %lld bytes",
                          a->write ? "writes" : "reads", b->name, (long long)b->rows, (long long)b->bytes);
            ok = false;
        }
    }
    return ok;
}

static bool references_ok(const check *c, const tw_range_task *t, int worker, int index) {
    const tw_ranges *r = c->r;
    char where[96];
    bool ok = true;
    if (t->step < 0 || t->step >= r->n_steps) {
        snprintf(where, sizeof where, "workers[%d][%d]", worker, index);
        tw_report_add(c->report, "reference", where, "names step %d of %d", t->step, r->n_steps);
        return false;
    }
    const tw_range_step *s = &r->steps[t->step];
    for (int a = 0; a < TW_RANGE_AXES; a++)
        if (t->from[a] < 0 || t->from[a] >= t->to[a] || t->to[a] > s->units[a]) {
            tw_report_add(c->report, "range", where_of(c, worker, index, where), "%lld..%lld is not within 0..%lld",
                          (long long)t->from[a], (long long)t->to[a], (long long)s->units[a]);
            ok = false;
        }
    if (t->arrive < -1 || t->arrive >= r->n_counters) {
        tw_report_add(c->report, "reference", where_of(c, worker, index, where), "arrives at counter %d of %d",
                      t->arrive, r->n_counters);
        ok = false;
    }
    for (int i = 0; i < t->n_waits; i++)
        if (t->waits[i].counter < 0 || t->waits[i].counter >= r->n_counters) {
            tw_report_add(c->report, "reference", where_of(c, worker, index, where), "waits for counter %d of %d",
                          t->waits[i].counter, r->n_counters);
            ok = false;
        }
    return ok;
}

static bool meet(const tw_access *x, const tw_access *y) {
    if (x->buffer != y->buffer) return false;
    for (int d = 0; d < 3; d++)
        if (x->lo[d] >= y->hi[d] || y->lo[d] >= x->hi[d]) return false;
    return true;
}

/* A task's own accesses have no order. */
static bool apart_ok(const check *c, int first, int worker, int index) {
    char where[96];
    for (int i = first; i < c->boxes.count; i++)
        for (int k = first; k < c->boxes.count && c->boxes.item[i].write; k++) {
            const tw_access *x = &c->boxes.item[i], *y = &c->boxes.item[k];
            if (i == k || (y->write && k < i) || !meet(x, y)) continue;
            tw_report_add(c->report, "self overlap", where_of(c, worker, index, where),
                          "writes bytes of %s that it also %s", c->r->buffers[x->buffer].name,
                          y->write ? "writes" : "reads");
            return false;
        }
    return true;
}

/* ---- the flow ---- */

static void name_task(const void *context, int task, char out[96]) {
    const check *c = context;
    int w = 0;
    while (task >= c->flow.first[w + 1]) w++;
    where_of(c, w, task - c->flow.first[w], out);
}

static const char *name_counter(const void *context, int counter) {
    return ((const check *)context)->r->counters[counter];
}

static bool make_flow(check *c) {
    static const tw_flow_kind kinds[] = {
        [TW_RANGE_CONSTANT] = TW_FLOW_CONSTANT, [TW_RANGE_SCRATCH] = TW_FLOW_FRESH, [TW_RANGE_OUTPUT] = TW_FLOW_OUTPUT};
    const tw_ranges *r = c->r;
    size_t tasks = 0, waits = 0;
    for (int w = 0; w < r->n_workers; w++) {
        tasks += (size_t)r->workers[w].count;
        for (int i = 0; i < r->workers[w].count; i++) waits += (size_t)r->workers[w].list[i].n_waits;
    }
    tw_flow *f = &c->flow;
    *f = (tw_flow){.n_buffers = r->n_buffers,
                   .n_workers = r->n_workers,
                   .n_counters = r->n_counters,
                   .last = -1,
                   .name_task = name_task,
                   .name_counter = name_counter,
                   .context = c};
    f->buffers = tw_arena_array(&c->arena, (size_t)r->n_buffers + 1, sizeof *f->buffers);
    f->first = tw_arena_array(&c->arena, (size_t)r->n_workers + 1, sizeof *f->first);
    f->tasks = tw_arena_array(&c->arena, tasks + 1, sizeof *f->tasks);
    f->waits = tw_arena_array(&c->arena, waits + 1, sizeof *f->waits);
    if (c->arena.failed) return false;
    for (int i = 0; i < r->n_buffers; i++) {
        const tw_range_buffer *b = &r->buffers[i];
        f->buffers[i] = (tw_flow_buffer){.name = b->name, .kind = kinds[b->kind], .extent = {1, b->rows, b->bytes}};
        if (b->kind != TW_RANGE_SCRATCH) continue;
        f->buffers[i].at = b->offset;
        f->buffers[i].below = b->offset + b->rows * b->bytes;
    }
    return true;
}

/* Checks a task, and makes it one of the flow. */
static tw_status add_task(check *c, int worker, int index, int *n_tasks, int *n_waits) {
    const tw_range_task *t = &c->r->workers[worker].list[index];
    char where[96];
    tw_diag d;
    if (!references_ok(c, t, worker, index)) return TW_OK;
    tw_flow_task *to = &c->flow.tasks[(*n_tasks)++];
    *to = (tw_flow_task){c->boxes.count, 0, *n_waits, t->n_waits, t->arrive};
    tw_status st = tw_ranges_effects(c->r, t, &c->boxes, &d);
    if (st == TW_ERR_MEMORY) return st;
    if (st != TW_OK) tw_report_add(c->report, "shape", where_of(c, worker, index, where), "%s", d.message);
    apart_ok(c, to->first_access, worker, index);
    to->n_accesses = c->boxes.count - to->first_access;
    if (t->n_waits) memcpy(&c->flow.waits[*n_waits], t->waits, (size_t)t->n_waits * sizeof *t->waits);
    *n_waits += t->n_waits;
    return TW_OK;
}

/* Does everything up to the flow, which is there if there were no findings. */
static tw_status prepare(check *c) {
    const tw_ranges *r = c->r;
    int tasks = 0, waits = 0;
    for (int i = 0; i < r->n_buffers; i++) buffer_ok(c, &r->buffers[i]);
    if (c->report->count || c->report->cut) return TW_OK;
    for (int i = 0; i < r->n_steps; i++) step_ok(c, &r->steps[i]);
    if (c->report->count || c->report->cut) return TW_OK;
    if (!make_flow(c)) return TW_ERR_MEMORY;
    tw_status st = TW_OK;
    for (int w = 0; w < r->n_workers; w++) {
        c->flow.first[w] = tasks;
        for (int i = 0; i < r->workers[w].count && st == TW_OK; i++) st = add_task(c, w, i, &tasks, &waits);
    }
    c->flow.first[r->n_workers] = tasks;
    c->flow.accesses = c->boxes.item;
    c->flow.n_accesses = c->boxes.count;
    return st;
}

static void finish(check *c) {
    tw_arena_free(&c->arena);
    tw_access_list_free(&c->boxes);
}

tw_status tw_ranges_check(const tw_ranges *r, tw_report *report) {
    check c = {.r = r, .report = report};
    tw_status st = prepare(&c);
    if (st == TW_OK && !report->count && !report->cut) st = tw_flow_check(&c.flow, report);
    finish(&c);
    return st;
}

tw_status tw_ranges_dot(const tw_ranges *r, const tw_report *report, const char *path, tw_diag *diag) {
    tw_report own;
    tw_buf text = {0};
    if (tw_report_start(&own) != TW_OK) return tw_fail_memory(diag);
    check c = {.r = r, .report = &own};
    tw_status st = prepare(&c);
    if (st == TW_OK && own.count)
        st = tw_fail(diag, TW_ERR_REJECTED, "%s: not drawn: %s: %s", path, own.findings[0].where, own.findings[0].text);
    else if (st != TW_OK || !tw_flow_dot(&c.flow, report, &text))
        st = tw_fail_memory(diag);
    else
        st = tw_file_write(path, text.data, text.size, diag);
    tw_buf_free(&text);
    finish(&c);
    tw_report_free(&own);
    return st;
}

void tw_ranges_describe(const tw_ranges *r, tw_schedule_info *info) {
    *info = (tw_schedule_info){.workers = r->n_workers, .counters = r->n_counters, .buffers = r->n_buffers};
    for (int w = 0; w < r->n_workers; w++) info->instructions += r->workers[w].count;
}
