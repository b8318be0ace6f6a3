/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for a task, a buffer or a page that do not depend on the order in which tasks run. */
#include "schedule/amk/ir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Larger sizes could not be added up safely. */
static const int64_t MAX_BYTES = INT64_C(1) << 50;

typedef struct rules {
    tw_amk *p;
    tw_report *report;
    bool failed;
} rules;

static bool ids_ok(rules *r) {
    const tw_amk *p = r->p;
    char where[96];
    bool ok = true;
#define CHECK_IDS(list, count, name)                                                                                   \
    for (int i = 0; i < (count); i++)                                                                                  \
        if ((list)[i].id != i) {                                                                                       \
            snprintf(where, sizeof where, "%s[%d]", name, i);                                                          \
            tw_report_add(r->report, "reference", where, "has id %lld: ids are the places in the list, and unique",    \
                          (long long)(list)[i].id);                                                                    \
            ok = false;                                                                                                \
        }
    CHECK_IDS(p->buffers, p->n_buffers, "buffers")
    CHECK_IDS(p->counters, p->n_counters, "counters")
    CHECK_IDS(p->tasks, p->n_tasks, "tasks")
    CHECK_IDS(p->pages, p->n_pages, "pages")
#undef CHECK_IDS
    return ok;
}

static void name_buffer(const amk_buffer *b, char out[96]) {
    snprintf(out, 96, "buffer %lld %.64s", (long long)b->id, b->name);
}

static bool buffer_ok(rules *r, amk_buffer *b) {
    char where[96];
    name_buffer(b, where);
    int64_t n = 1;
    if (b->rank > AMK_MAX_RANK) {
        tw_report_add(r->report, "capacity", where, "has %d dimensions; there is room for %d", b->rank, AMK_MAX_RANK);
        return false;
    }
    for (int d = 0; d < b->rank; d++) {
        if (b->shape[d] < 1 || b->shape[d] > MAX_BYTES / n) {
            tw_report_add(r->report, "shape", where, "dimension %d is %lld, which is %s", d, (long long)b->shape[d],
                          b->shape[d] < 1 ? "not positive" : "too large");
            return false;
        }
        n *= b->shape[d];
    }
    b->bytes = (n * amk_dtype_bits(b->dtype) + 7) / 8;
    if (b->kind == AMK_KV_CACHE && b->rank != 3 && b->rank != 4) {
        tw_report_add(r->report, "shape", where,
                      "a cache is [rows, heads, head size], or that for each of a batch; this has %d dimensions",
                      b->rank);
        return false;
    }
    if (b->kind == AMK_KV_CACHE && amk_dtype_bits(b->dtype) % 8) {
        tw_report_add(r->report, "shape", where, "a cache whose elements are parts of bytes");
        return false;
    }
    return true;
}

static void check_counters(rules *r) {
    char where[96];
    for (int i = 0; i < r->p->n_counters; i++) {
        const amk_counter *c = &r->p->counters[i];
        if (!c->init) continue;
        snprintf(where, sizeof where, "%.95s", c->name);
        tw_report_add(r->report, "counter init", where, "starts at %lld: waits would pass before their producers ran",
                      (long long)c->init);
    }
}

static bool references_ok(rules *r, const amk_task *t, const char *where) {
    const tw_amk *p = r->p;
    bool ok = true;
    for (int i = 0; i < t->n_inputs + t->n_outputs; i++) {
        bool in = i < t->n_inputs;
        int b = in ? t->inputs[i] : t->outputs[i - t->n_inputs];
        if (b >= 0 && b < p->n_buffers) continue;
        tw_report_add(r->report, "reference", where, "%s buffer %d of %d", in ? "reads" : "writes", b, p->n_buffers);
        ok = false;
    }
    if (t->out_counter < 0 || t->out_counter >= p->n_counters) {
        tw_report_add(r->report, "reference", where, "arrives at counter %d of %d", t->out_counter, p->n_counters);
        ok = false;
    }
    for (int i = 0; i < t->n_waits; i++)
        if (t->waits[i].counter < 0 || t->waits[i].counter >= p->n_counters) {
            tw_report_add(r->report, "reference", where, "waits for counter %d of %d", t->waits[i].counter,
                          p->n_counters);
            ok = false;
        }
    return ok;
}

static void check_capacity(rules *r, const amk_task *t, const char *where) {
    const struct {
        const char *what;
        int n, most;
    } room[] = {{"inputs", t->n_inputs, AMK_MAX_INPUTS},
                {"outputs", t->n_outputs, AMK_MAX_OUTPUTS},
                {"waits", t->n_waits, AMK_MAX_WAITS}};
    for (size_t i = 0; i < sizeof room / sizeof *room; i++)
        if (room[i].n > room[i].most)
            tw_report_add(r->report, "capacity", where, "has %d %s; an instruction has room for %d", room[i].n,
                          room[i].what, room[i].most);
}

static bool op_ok(rules *r, const amk_task *t, const char *where) {
    const amk_op *op = t->op;
    bool ok = true;
    if (!op) {
        tw_report_add(r->report, "unknown op", where, "%.64s: what it reads and writes is not known", t->op_name);
        return false;
    }
    if (t->n_inputs < op->min_inputs || t->n_inputs > op->max_inputs || t->n_outputs != op->outputs) {
        tw_report_add(r->report, "arity", where, "%s has %d inputs and %d outputs, not %d to %d and %d", op->name,
                      t->n_inputs, t->n_outputs, op->min_inputs, op->max_inputs, op->outputs);
        ok = false;
    }
    for (int i = 0; i < AMK_PARAM_COUNT; i++) {
        uint32_t bit = UINT32_C(1) << i;
        ok = ok && !(t->bad & bit) && !(op->required & ~t->has & bit);
        if (t->bad & bit)
            tw_report_add(r->report, "parameter", where, "%s is not a %s", amk_param_names[i],
                          i < AMK_INT_PARAM_COUNT ? "32-bit integer" : "number");
        else if (op->required & ~t->has & bit)
            tw_report_add(r->report, "parameter", where, "%s needs %s", op->name, amk_param_names[i]);
    }
    return ok;
}

/* Caches have their own ops, since only those know positions. */
static void check_kinds(rules *r, const amk_task *t, const char *where) {
    const tw_amk *p = r->p;
    bool appends = t->op && !strcmp(t->op->name, "KV_APPEND"),
         attends = t->op && !strcmp(t->op->name, "ATTENTION_TILE");
    for (int i = 0; i < t->n_outputs; i++) {
        const amk_buffer *b = &p->buffers[t->outputs[i]];
        if (amk_read_only(b->kind))
            tw_report_add(r->report, "read-only", where, "writes %s, which is of kind %s", b->name,
                          amk_kind_names[b->kind]);
        else if ((b->kind == AMK_KV_CACHE) != appends)
            tw_report_add(r->report, "kind", where,
                          "writes %s, which is of kind %s: KV_APPEND and a KV_CACHE go together", b->name,
                          amk_kind_names[b->kind]);
        for (int k = 0; k < t->n_inputs; k++) {
            const amk_buffer *in = &p->buffers[t->inputs[k]];
            if (in == b && t->op && !t->op->in_place && !(appends && k == 1))
                tw_report_add(r->report, "in place", where, "writes its input %s: only ops that go row by row may",
                              b->name);
            else if (in != b && b->shares && in->page == b->page)
                tw_report_add(r->report, "page reuse", where, "writes %s over its input %s, which is on the same page",
                              b->name, in->name);
        }
    }
    for (int i = 0; i < t->n_inputs; i++)
        if (p->buffers[t->inputs[i]].kind == AMK_KV_CACHE && !(appends && i == 1) && !(attends && (i == 1 || i == 2)))
            tw_report_add(r->report, "kind", where, "reads the cache %s, which only attention does",
                          p->buffers[t->inputs[i]].name);
}

static void check_sm(rules *r, const amk_task *t, const char *where) {
    if (!t->pinned) return;
    if (!r->p->has_target)
        tw_report_add(r->report, "placement", where, "is bound to SM %lld, but no target says how many there are",
                      (long long)t->sm);
    else if (t->sm < 0 || t->sm >= r->p->num_sms)
        tw_report_add(r->report, "placement", where, "is bound to SM %lld of %lld", (long long)t->sm,
                      (long long)r->p->num_sms);
}

/* Finds which page each buffer is on, before tasks are checked. */
static void check_pages(rules *r) {
    tw_amk *p = r->p;
    char where[96];
    for (int i = 0; i < p->n_pages; i++)
        if (p->pages[i].bytes < 0 || p->pages[i].bytes > MAX_BYTES) {
            snprintf(where, sizeof where, "page %d", i);
            tw_report_add(r->report, "page", where, "has %lld bytes", (long long)p->pages[i].bytes);
        }
    for (int i = 0; i < p->n_bindings; i++) {
        const amk_binding *g = &p->bindings[i];
        if (g->buffer >= p->n_buffers || g->page < 0 || g->page >= p->n_pages) {
            snprintf(where, sizeof where, "buffer %lld", (long long)g->buffer);
            tw_report_add(r->report, "page", where, "is bound to page %lld; there are %d buffers and %d pages",
                          (long long)g->page, p->n_buffers, p->n_pages);
            continue;
        }
        amk_buffer *b = &p->buffers[g->buffer];
        name_buffer(b, where);
        if (b->bytes > p->pages[g->page].bytes)
            tw_report_add(r->report, "page", where, "has %lld bytes, and its page %lld has %lld", (long long)b->bytes,
                          (long long)g->page, (long long)p->pages[g->page].bytes);
        b->page = (int)g->page;
        p->pages[b->page].occupants++;
    }
    for (int i = 0; i < p->n_buffers; i++) {
        amk_buffer *b = &p->buffers[i];
        b->shares = b->page >= 0 && p->pages[b->page].occupants > 1;
        name_buffer(b, where);
        if (b->shares && b->kind != AMK_ACTIVATION)
            tw_report_add(r->report, "page", where, "is of kind %s and shares page %d; only activations may",
                          amk_kind_names[b->kind], b->page);
    }
}

static bool on_chip(amk_space s) {
    return s == AMK_SMEM || s == AMK_REGISTER;
}

/* A stretch of shared memory, and its first user. */
typedef struct chip_use {
    int first; /* A task. -1: none. */
    bool told;
} chip_use;

static void check_chip_use(rules *r, chip_use *u, const char *name, int task) {
    const amk_task *t = &r->p->tasks[task];
    char where[96];
    if (u->first < 0) u->first = task;
    const amk_task *f = &r->p->tasks[u->first];
    if (u->told || u->first == task || (t->pinned && f->pinned && t->sm == f->sm)) return;
    u->told = true;
    amk_name_task(t, where);
    if (t->pinned && f->pinned)
        tw_report_add(r->report, "placement", where,
                      "uses %s, which is on one SM, from SM %lld, and task %d from SM %lld", name, (long long)t->sm,
                      u->first, (long long)f->sm);
    else
        tw_report_add(r->report, "placement", where,
                      "uses %s, which is on one SM, as task %d does, and they are not both bound to one", name,
                      u->first);
}

typedef struct chip_bytes {
    int64_t sm, bytes; /* sm -1: any SM. */
} chip_bytes;

static int by_sm(const void *a, const void *b) {
    const chip_bytes *x = a, *y = b;
    return x->sm < y->sm ? -1 : x->sm > y->sm;
}

/* Checks that a stretch on a chip is used from one SM, and that an SM's stretches fit its shared memory. The `n`
   stretches are pages, then buffers without one. */
static void check_chip(rules *r) {
    tw_amk *p = r->p;
    size_t n = (size_t)p->n_pages + (size_t)p->n_buffers;
    chip_use *use = tw_arena_array(&p->arena, n + 1, sizeof *use);
    chip_bytes *held = tw_arena_array(&p->arena, n + 1, sizeof *held);
    size_t n_held = 0;
    char name[96];
    if (!use || !held) {
        r->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++) use[i].first = -1;
    for (int i = 0; i < p->n_tasks; i++)
        for (int k = 0; k < p->tasks[i].n_inputs + p->tasks[i].n_outputs; k++) {
            const amk_task *t = &p->tasks[i];
            const amk_buffer *b = &p->buffers[k < t->n_inputs ? t->inputs[k] : t->outputs[k - t->n_inputs]];
            bool paged = b->page >= 0 && (on_chip(p->pages[b->page].space) || on_chip(b->space));
            if (!paged && !on_chip(b->space)) continue;
            if (paged)
                snprintf(name, sizeof name, "page %d", b->page);
            else
                name_buffer(b, name);
            chip_use *u = &use[paged ? (int64_t)b->page : p->n_pages + b->id];
            if (u->first < 0 && (paged ? p->pages[b->page].space : b->space) != AMK_REGISTER)
                held[n_held++] = (chip_bytes){t->pinned ? t->sm : -1, paged ? p->pages[b->page].bytes : b->bytes};
            check_chip_use(r, u, name, i);
        }
    if (!n_held) return;
    if (!p->has_target) {
        tw_report_add(r->report, "capacity", "target", "is missing: how much shared memory there is is not known");
        return;
    }
    qsort(held, n_held, sizeof *held, by_sm);
    int64_t sum = 0;
    for (size_t i = 0; i < n_held; i++) {
        int64_t bytes = held[i].bytes < MAX_BYTES ? held[i].bytes : MAX_BYTES;
        sum = (i && held[i].sm == held[i - 1].sm && sum < MAX_BYTES ? sum : 0) + bytes;
        if (sum <= p->smem_bytes || (i + 1 < n_held && held[i + 1].sm == held[i].sm)) continue;
        snprintf(name, sizeof name, "SM %lld", (long long)held[i].sm);
        tw_report_add(r->report, "capacity", held[i].sm < 0 ? "an SM" : name,
                      "holds %lld bytes in shared memory; a block may have %lld", (long long)sum,
                      (long long)p->smem_bytes);
    }
}

static void check_meta(rules *r) {
    tw_amk *p = r->p;
    bool caches = false;
    for (int i = 0; i < p->n_buffers; i++) caches = caches || p->buffers[i].kind == AMK_KV_CACHE;
    if (!p->has_kv_len) p->kv_len = p->pos + 1;
    if (caches && !p->has_pos)
        tw_report_add(r->report, "structure", "meta", "pos is missing: which rows of a cache are old is not known");
    else if (caches && (p->pos < 0 || p->pos > INT32_MAX || p->kv_len <= p->pos || p->kv_len > INT32_MAX))
        tw_report_add(r->report, "structure", "meta", "pos %lld and kv_len %lld: 0 <= pos < kv_len does not hold",
                      (long long)p->pos, (long long)p->kv_len);
}

tw_status amk_check_rules(tw_amk *p, tw_report *report) {
    rules r = {p, report, false};
    char where[96];
    bool ok = ids_ok(&r);
    for (int i = 0; i < p->n_buffers; i++) {
        p->buffers[i].page = -1;
        ok = buffer_ok(&r, &p->buffers[i]) && ok;
    }
    for (int i = 0; i < p->n_pages; i++) p->pages[i].occupants = 0;
    for (int i = 0; i < p->n_counters; i++) p->counters[i].producers = 0;
    p->sized = ok;
    if (!ok) return TW_OK;
    check_meta(&r);
    check_counters(&r);
    check_pages(&r);
    for (int i = 0; i < p->n_tasks; i++) {
        amk_task *t = &p->tasks[i];
        amk_name_task(t, where);
        check_capacity(&r, t, where);
        t->sound = op_ok(&r, t, where);
        check_sm(&r, t, where);
        if (!references_ok(&r, t, where)) {
            ok = t->sound = false;
            continue;
        }
        check_kinds(&r, t, where);
        p->counters[t->out_counter].producers++;
    }
    if (ok) check_chip(&r);
    return r.failed ? TW_ERR_MEMORY : TW_OK;
}
