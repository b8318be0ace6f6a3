/* SPDX-License-Identifier: Apache-2.0 */
/* Checks AutoMegaKernel's schedules: first each task, and then, if all are sound, the flow. */
#include "base/diag.h"
#include "base/file.h"
#include "schedule/amk/ir.h"
#include "schedule/dot.h"

/* Tasks in the order in which workers have them. Flow task i is the file's task at[i]. */
typedef struct naming {
    const tw_amk *p;
    const int *at;
} naming;

static void name_task(const void *context, int task, char out[96]) {
    const naming *n = context;
    amk_name_task(&n->p->tasks[n->at[task]], out);
}

static const char *name_counter(const void *context, int counter) {
    const naming *n = context;
    return n->p->counters[counter].name;
}

typedef struct assembly {
    const tw_amk *p;
    tw_arena arena;
    tw_report *report;
    amk_placing placing;
    tw_access_list found; /* Accesses by the file's tasks. */
    int *first;           /* [task + 1]: indices into `found`. */
    tw_access_list used;  /* Accesses by the flow's tasks, and beside them those to shared pages. */
    naming naming;
    tw_flow flow;
} assembly;

/* A tile of more rows counts as all bytes from the first to the last, which demands more order than is needed. */
enum { MAX_STRETCHES = 4096 };

/* Adds an access to a shared page. Buffers on one page start at its first byte. The page is another buffer of the flow,
   so that accesses to the same bytes must be ordered. The check that each occupant is written before it is read is that
   of its own buffer. To the page, bytes are old rows of a cache, which are always defined. */
static bool push_page(assembly *a, const tw_access *x) {
    const amk_buffer *b = &a->p->buffers[x->buffer];
    int64_t extent[3];
    amk_extents(b, extent);
    int64_t n = x->hi[1] - x->lo[1];
    bool rows = x->hi[2] - x->lo[2] < extent[2] && n <= MAX_STRETCHES;
    tw_access page = {a->p->n_buffers + b->page, x->write, {0, -1, 0}, {1, 0, 0}};
    for (int64_t i = 0; i < (rows ? n : 1); i++) {
        page.lo[2] = (x->lo[1] + i) * extent[2] + x->lo[2];
        page.hi[2] = ((rows ? x->lo[1] + i + 1 : x->hi[1]) - 1) * extent[2] + x->hi[2];
        if (!tw_access_list_add(&a->used, &page)) return false;
    }
    return true;
}

static bool start_buffers(assembly *a) {
    const tw_amk *p = a->p;
    tw_flow *f = &a->flow;
    f->n_buffers = p->n_buffers + p->n_pages;
    f->buffers = tw_arena_array(&a->arena, (size_t)f->n_buffers + 1, sizeof *f->buffers);
    if (!f->buffers) return false;
    for (int i = 0; i < p->n_buffers; i++) {
        const amk_buffer *b = &p->buffers[i];
        f->buffers[i] = (tw_flow_buffer){.name = b->name,
                                         .kind = amk_read_only(b->kind)     ? TW_FLOW_CONSTANT
                                                 : b->kind == AMK_KV_CACHE  ? TW_FLOW_CACHE
                                                 : b->kind == AMK_IO_OUTPUT ? TW_FLOW_OUTPUT
                                                                            : TW_FLOW_FRESH};
        amk_extents(b, f->buffers[i].extent);
    }
    for (int i = 0; i < p->n_pages; i++)
        f->buffers[p->n_buffers + i] = (tw_flow_buffer){.name = tw_arena_printf(&a->arena, "page %d", i),
                                                        .kind = TW_FLOW_CACHE,
                                                        .extent = {1, 1, p->pages[i].bytes}};
    return !a->arena.failed;
}

static bool add_task(assembly *a, int index, int task) {
    const amk_task *t = &a->p->tasks[task];
    tw_flow *f = &a->flow;
    tw_flow_task *to = &f->tasks[index];
    to->first_access = a->used.count;
    for (int i = a->first[task]; i < a->first[task + 1]; i++) {
        const tw_access *x = &a->found.item[i];
        if (!tw_access_list_add(&a->used, x) || (a->p->buffers[x->buffer].shares && !push_page(a, x))) return false;
    }
    to->n_accesses = a->used.count - to->first_access;
    to->first_wait = index ? f->tasks[index - 1].first_wait + f->tasks[index - 1].n_waits : 0;
    to->n_waits = t->n_waits;
    for (int i = 0; i < t->n_waits; i++) f->waits[to->first_wait + i] = t->waits[i];
    to->arrive = t->out_counter;
    return true;
}

static bool assemble(assembly *a) {
    const tw_amk *p = a->p;
    tw_flow *f = &a->flow;
    size_t n_waits = 1;
    for (int i = 0; i < p->n_tasks; i++) n_waits += (size_t)p->tasks[i].n_waits;
    f->n_workers = a->placing.n_workers ? a->placing.n_workers : 1;
    f->n_counters = p->n_counters;
    f->first = tw_arena_array(&a->arena, (size_t)f->n_workers + 1, sizeof *f->first);
    f->tasks = tw_arena_array(&a->arena, (size_t)p->n_tasks + 1, sizeof *f->tasks);
    f->waits = tw_arena_array(&a->arena, n_waits, sizeof *f->waits);
    int *at = tw_arena_array(&a->arena, (size_t)p->n_tasks + 1, sizeof *at);
    int *next = tw_arena_array(&a->arena, (size_t)f->n_workers + 1, sizeof *next);
    if (!start_buffers(a) || a->arena.failed) return false;
    for (int i = 0; i < p->n_tasks; i++) f->first[a->placing.worker[i] + 1]++;
    for (int w = 0; w < f->n_workers; w++) f->first[w + 1] += f->first[w];
    for (int w = 0; w < f->n_workers; w++) next[w] = f->first[w];
    for (int i = 0; i < p->n_tasks; i++) at[next[a->placing.worker[a->placing.order[i]]]++] = a->placing.order[i];
    for (int i = 0; i < p->n_tasks; i++)
        if (!add_task(a, i, at[i])) return false;
    f->accesses = a->used.item;
    f->n_accesses = a->used.count;
    a->naming = (naming){p, at};
    f->name_task = name_task;
    f->name_counter = name_counter;
    f->context = &a->naming;
    f->last = -1;
    return true;
}

/* Checks that an occupant has its page from its first write to its last read. If the flow has no race, any order in
   which tasks may run is enough, since all orders agree on accesses to the same bytes. */
static bool check_page_owners(assembly *a) {
    const tw_amk *p = a->p;
    int *owner = tw_arena_array(&a->arena, (size_t)p->n_pages + 1, sizeof *owner);
    bool *gone = tw_arena_array(&a->arena, (size_t)p->n_buffers + 1, sizeof *gone);
    char where[96];
    if (!owner || !gone) return false;
    for (int i = 0; i < p->n_pages; i++) owner[i] = -1;
    for (int i = 0; i < a->placing.n_runnable; i++) {
        int task = a->placing.order[i];
        for (int k = a->first[task]; k < a->first[task + 1]; k++) {
            const tw_access *x = &a->found.item[k];
            const amk_buffer *b = &p->buffers[x->buffer];
            if (!b->shares || owner[b->page] == x->buffer) continue;
            if (x->write && !gone[x->buffer]) {
                if (owner[b->page] >= 0) gone[owner[b->page]] = true;
                owner[b->page] = x->buffer;
                continue;
            }
            if (!gone[x->buffer]) continue; /* The buffer was never written, which the flow reports. */
            amk_name_task(&p->tasks[task], where);
            tw_report_add(a->report, "page reuse", where, "%s %s, whose page %d %s has been written to since",
                          x->write ? "writes" : "reads", b->name, b->page, p->buffers[owner[b->page]].name);
        }
    }
    return true;
}

/* Does everything up to the flow. *whole: there were no findings, and the flow is there. */
static tw_status prepare(assembly *a, tw_amk *p, tw_report *report, bool *whole) {
    *a = (assembly){.p = p, .report = report};
    *whole = false;
    tw_status st = amk_check_rules(p, report);
    a->first = tw_arena_array(&a->arena, (size_t)p->n_tasks + 2, sizeof *a->first);
    if (st == TW_OK && !a->first) st = TW_ERR_MEMORY;
    if (st == TW_OK && p->sized) st = amk_check_effects(p, report, &a->found, a->first);
    if (st == TW_OK && p->sized) st = amk_check_windows(p, &a->arena, report);
    if (st != TW_OK || report->count || report->cut) return st;
    st = amk_place(p, &a->arena, &a->placing, report);
    if (st != TW_OK || report->count || report->cut) return st;
    return (*whole = assemble(a)) ? TW_OK : TW_ERR_MEMORY;
}

static void finish(assembly *a) {
    tw_access_list_free(&a->found);
    tw_access_list_free(&a->used);
    tw_arena_free(&a->arena);
}

tw_status tw_amk_check(tw_amk *p, tw_report *report) {
    assembly a;
    bool whole;
    tw_status st = prepare(&a, p, report, &whole);
    if (whole) st = check_page_owners(&a) ? tw_flow_check(&a.flow, report) : TW_ERR_MEMORY;
    finish(&a);
    return st;
}

tw_status tw_amk_dot(tw_amk *p, const tw_report *report, const char *path, tw_diag *diag) {
    tw_report own;
    tw_buf text = {0};
    assembly a;
    bool whole;
    if (tw_report_start(&own) != TW_OK) return tw_fail_memory(diag);
    tw_status st = prepare(&a, p, &own, &whole);
    if (st == TW_OK && own.count)
        st = tw_fail(diag, TW_ERR_REJECTED, "%s: not drawn: %s: %s", path, own.findings[0].where, own.findings[0].text);
    else if (!whole || !tw_flow_dot(&a.flow, report, &text))
        st = tw_fail_memory(diag);
    else
        st = tw_file_write(path, text.data, text.size, diag);
    tw_buf_free(&text);
    finish(&a);
    tw_report_free(&own);
    return st;
}

void tw_amk_describe(const tw_amk *p, tw_schedule_info *info) {
    *info = (tw_schedule_info){
        .workers = p->sms, .counters = p->n_counters, .buffers = p->n_buffers, .instructions = p->n_tasks};
}
