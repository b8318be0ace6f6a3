/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/network/cpu.h"

#include "base/diag.h"
#include "kernels/cpu/kernels.h"
#include "schedule/report.h"
#include "tilewright/device.h"
#include "vm/cpu/pages.h"
#include "vm/network/cpu_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening */

/* Tells whether a step reads a constant as it is. A product's B alone is packed. */
static bool read_as_is(const tw_program *p, int buffer) {
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_in; k++)
            if (p->steps[i].in[k].buffer == buffer && (k != 1 || p->steps[i].kind != TW_STEP_PRODUCT)) return true;
    for (int i = 0; i < p->n_outputs; i++)
        if (p->outputs[i] == buffer) return true;
    return false;
}

/* Constants that lie as kernels want them stay where they are. */
static bool is_copied(const tw_program *p, int buffer) {
    const tw_program_buffer *b = &p->buffers[buffer];
    return b->kind == TW_PROGRAM_CONSTANT && b->content && (uintptr_t)b->content % 64 && read_as_is(p, buffer);
}

static size_t aligned(int64_t bytes) {
    return ((size_t)bytes + TW_PROGRAM_ALIGN - 1) / TW_PROGRAM_ALIGN * TW_PROGRAM_ALIGN;
}

/* Scratch buffers lie first in memory, and then copies of constants. */
static tw_status place_buffers(tw_cpu_network *n, tw_diag *diag) {
    const tw_program *p = n->p;
    n->memory_bytes = aligned(n->ranges->scratch);
    for (int i = 0; i < p->n_buffers; i++)
        if (is_copied(p, i)) n->memory_bytes += aligned(p->buffers[i].bytes);
    n->base = tw_arena_array(&n->arena, (size_t)p->n_buffers + 1, sizeof *n->base);
    if (!n->base) return tw_fail_memory(diag);
    tw_status st = tw_cpu_pages(n->memory_bytes, "values", &n->memory, diag);
    size_t at = aligned(n->ranges->scratch);
    for (int i = 0; i < p->n_buffers && st == TW_OK; i++) {
        const tw_program_buffer *b = &p->buffers[i];
        if (b->kind == TW_PROGRAM_SCRATCH) n->base[i] = n->memory + n->ranges->buffers[i].offset;
        if (b->kind == TW_PROGRAM_CONSTANT) n->base[i] = (unsigned char *)b->content;
        if (!is_copied(p, i)) continue;
        memcpy(n->memory + at, b->content, (size_t)b->bytes);
        n->base[i] = n->memory + at;
        at += aligned(b->bytes);
    }
    return st;
}

/* Constants that the pool lacked, which workers pack side by side. */
typedef struct packing {
    const tw_cpu_network *n;
    int *steps;
    int count;
    _Atomic int next;
    unsigned char *panels; /* Room for a panel of floats for each worker. */
    size_t of_panel;
    int64_t available; /* Bytes of memory that the machine has left. */
} packing;

static void pack_some(void *context, int member) {
    packing *p = context;
    float *panel = (float *)(void *)(p->panels + (size_t)member * p->of_panel);
    for (int i; (i = atomic_fetch_add(&p->next, 1)) < p->count;)
        tw_cpu_product_pack(p->n, &p->n->steps[p->steps[i]], panel);
}

/* Finds a step's B in the pool, or notes that it is to be packed. */
static tw_status find_packed(tw_cpu_network *n, int step, packing *all, tw_diag *diag) {
    tw_cpu_step *s = &n->steps[step];
    uint64_t name[2];
    bool found = true;
    tw_cpu_product_plan(n, s);
    const size_t bytes = tw_cpu_product_packed(n, s, name), of_panel = tw_cpu_product_panel(s);
    if (!bytes) return TW_OK;
    if (!n->p->buffers[s->of->in[1].buffer].content) return tw_fail(diag, TW_ERR_USAGE, "a constant has no content");
    const tw_status st = tw_cpu_pool_packed(n->pool, name, bytes, &s->product.panels, &found, diag);
    if (st != TW_OK || found) return st;
    /* Pages are taken as they are written, and a system that has none left ends processes. */
    all->available -= (int64_t)bytes;
    all->steps[all->count++] = step;
    if (all->available < 0)
        return tw_fail(diag, TW_ERR_MEMORY, "packed constants take %.1f GB more than there is memory",
                       -(double)all->available / 1e9);
    if (of_panel > all->of_panel) all->of_panel = of_panel;
    return TW_OK;
}

static tw_status pack_products(tw_cpu_network *n, tw_diag *diag) {
    const tw_program *p = n->p;
    packing all = {.n = n, .steps = tw_arena_array(&n->arena, (size_t)p->n_steps + 1, sizeof *all.steps)};
    tw_status st = TW_OK;
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    all.available = cpu.available_bytes;
    n->steps = tw_arena_array(&n->arena, (size_t)p->n_steps + 1, sizeof *n->steps);
    if (!n->steps || !all.steps) return tw_fail_memory(diag);
    for (int i = 0; i < p->n_steps && st == TW_OK; i++) {
        n->steps[i].of = &p->steps[i];
        if (p->steps[i].kind == TW_STEP_PRODUCT) st = find_packed(n, i, &all, diag);
    }
    const size_t room = all.of_panel * (size_t)tw_team_size(n->pool->team);
    if (st == TW_OK && all.count) st = tw_cpu_pages(room, "panels", &all.panels, diag);
    if (st == TW_OK && all.count) tw_team_run(n->pool->team, pack_some, &all);
    /* What was not packed must not be found later. */
    if (st != TW_OK) tw_cpu_pool_forget(n->pool, all.count);
    tw_pages_free(all.panels, room);
    return st;
}

static size_t scratch_of(const tw_cpu_network *n, const tw_range_task *t) {
    const tw_cpu_step *s = &n->steps[t->step];
    if (s->of->kind == TW_STEP_PRODUCT) return tw_cpu_product_scratch(n, s, t);
    return s->of->kind == TW_STEP_ATTENTION ? tw_cpu_attention_scratch(n, s->of, t) : 0;
}

static tw_status make_worker(tw_cpu_network *n, int worker, tw_diag *diag) {
    const tw_range_worker *from = &n->ranges->workers[worker];
    tw_cpu_worker *w = &n->workers[worker];
    w->tasks = tw_arena_array(&n->arena, (size_t)from->count + 1, sizeof *w->tasks);
    for (int i = 0; i < from->count && w->tasks; i++) {
        const tw_range_task *t = &from->list[i];
        tw_cpu_task *to = &w->tasks[i];
        to->of = t;
        to->arrive = t->arrive < 0 ? NULL : &n->counters[t->arrive];
        to->waits = tw_arena_array(&n->arena, (size_t)t->n_waits + 1, sizeof *to->waits);
        for (int k = 0; k < t->n_waits && to->waits; k++) to->waits[k] = &n->counters[t->waits[k].counter];
        const size_t bytes = scratch_of(n, t);
        if (bytes > w->scratch_bytes) w->scratch_bytes = bytes;
    }
    if (n->arena.failed) return tw_fail_memory(diag);
    return tw_cpu_pages(w->scratch_bytes, "a worker's memory", &w->scratch, diag);
}

static tw_status make_workers(tw_cpu_network *n, tw_diag *diag) {
    const size_t counters = ((size_t)n->ranges->n_counters + 1) * sizeof *n->counters;
    n->workers = tw_arena_array(&n->arena, (size_t)n->ranges->n_workers, sizeof *n->workers);
    n->counters = aligned_alloc(_Alignof(tw_counter_cell), counters);
    if (!n->workers || !n->counters) return tw_fail_memory(diag);
    memset(n->counters, 0, counters);
    tw_status st = TW_OK;
    for (int i = 0; i < n->ranges->n_workers && st == TW_OK; i++) st = make_worker(n, i, diag);
    return st;
}

/* Nothing runs that the check has not accepted. */
static tw_status prove(const tw_ranges *r, tw_diag *diag) {
    tw_report report;
    if (tw_report_start(&report) != TW_OK) return tw_fail_memory(diag);
    tw_status st = tw_ranges_check(r, &report) == TW_OK ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK && (report.count || report.cut))
        st = tw_fail(diag, TW_ERR_REJECTED, "the schedule is unsafe: %s: %s: %s",
                     report.count ? report.findings[0].where : "", report.count ? report.findings[0].rule : "",
                     report.count ? report.findings[0].text : "");
    tw_report_free(&report);
    return st;
}

tw_status tw_cpu_network_open(tw_cpu_network **out, const tw_program *p, tw_cpu_pool *pool, tw_diag *diag) {
    tw_cpu_network *n = calloc(1, sizeof *n);
    *out = NULL;
    if (!n) return tw_fail_memory(diag);
    n->p = p;
    n->pool = pool;
    n->k = pool->k;
    tw_status st = tw_network_deal(&n->ranges, p, tw_team_size(pool->team), diag);
    if (st == TW_OK) st = prove(n->ranges, diag);
    if (st == TW_OK) st = place_buffers(n, diag);
    if (st == TW_OK) st = pack_products(n, diag);
    if (st == TW_OK) st = make_workers(n, diag);
    if (st == TW_OK)
        *out = n;
    else
        tw_cpu_network_close(n);
    return st;
}

void tw_cpu_network_close(tw_cpu_network *n) {
    if (!n) return;
    for (int i = 0; n->workers && i < n->ranges->n_workers; i++)
        tw_pages_free(n->workers[i].scratch, n->workers[i].scratch_bytes);
    tw_pages_free(n->memory, n->memory_bytes);
    free(n->counters);
    tw_ranges_free(n->ranges);
    tw_arena_free(&n->arena);
    free(n);
}

/* ---- running */

void tw_cpu_run_task(tw_cpu_network *n, int worker, const tw_range_task *t) {
    tw_cpu_worker *w = &n->workers[worker];
    const tw_cpu_step *s = &n->steps[t->step];
    const tw_cpu_room room = {w->scratch};
    tw_status st = TW_OK;
    if (s->of->kind == TW_STEP_PRODUCT)
        tw_cpu_product(n, s, t, room);
    else if (s->of->kind == TW_STEP_ATTENTION)
        tw_cpu_attention(n, s->of, t, room);
    else
        st = tw_cpu_other(n, s, t, &w->diag);
    if (st == TW_OK) return;
    w->status = st;
    atomic_store(&n->failed, true);
}

/* After a failure workers still wait and arrive, but compute nothing. */
static void run_worker(void *context, int member) {
    tw_cpu_network *n = context;
    tw_cpu_worker *w = &n->workers[member];
    w->status = TW_OK;
    for (int i = 0; i < n->ranges->workers[member].count; i++) {
        const tw_cpu_task *t = &w->tasks[i];
        for (int k = 0; k < t->of->n_waits; k++)
            tw_counter_wait(t->waits[k], (uint32_t)t->of->waits[k].threshold * n->runs, NULL, NULL);
        if (!atomic_load_explicit(&n->failed, memory_order_relaxed)) tw_cpu_run_task(n, member, t->of);
        if (t->arrive) tw_counter_arrive(t->arrive);
    }
}

void tw_cpu_place(tw_cpu_network *n, const void *const *in, void *const *out) {
    const tw_program *p = n->p;
    for (int i = 0; i < p->n_inputs; i++) n->base[p->inputs[i]] = (unsigned char *)in[i];
    for (int i = 0; i < p->n_outputs; i++)
        if (p->buffers[p->outputs[i]].kind == TW_PROGRAM_OUTPUT) n->base[p->outputs[i]] = out[i];
}

tw_status tw_cpu_network_run(tw_cpu_network *n, const void *const *in, void *const *out, tw_diag *diag) {
    const tw_program *p = n->p;
    tw_cpu_place(n, in, out);
    n->runs++;
    atomic_store(&n->failed, false);
    tw_team_run(n->pool->team, run_worker, n);
    for (int i = 0; i < n->ranges->n_workers; i++)
        if (n->workers[i].status != TW_OK) {
            if (diag) *diag = n->workers[i].diag;
            return n->workers[i].status;
        }
    /* An output that is an input, or a constant, or another output, has no step that writes it. */
    for (int i = 0; i < p->n_outputs; i++) {
        const tw_program_buffer *b = &p->buffers[p->outputs[i]];
        if (n->base[p->outputs[i]] != out[i] && b->bytes > 0) memcpy(out[i], n->base[p->outputs[i]], (size_t)b->bytes);
    }
    return TW_OK;
}

/* Tells whether a step's B is read as it is, by each task or by packing. */
static bool reads_b(const tw_cpu_network *n, const tw_cpu_step *s) {
    const tw_cpu_pool *p = n->pool;
    for (int i = 0; s->product.panels && i < p->n_packed; i++)
        if (p->packed[i].panels == s->product.panels) return !p->packed[i].lent;
    return true;
}

bool tw_cpu_network_takes(const tw_cpu_network *n, const void *panels) {
    for (int i = 0; i < n->p->n_steps; i++)
        if (n->steps[i].product.panels == panels) return true;
    return false;
}

bool tw_cpu_network_reads(const tw_cpu_network *n, const void *content) {
    const tw_program *p = n->p;
    bool lent = false;
    for (int i = 0; i < p->n_buffers; i++) {
        if (p->buffers[i].kind != TW_PROGRAM_CONSTANT || p->buffers[i].content != content) continue;
        if (read_as_is(p, i)) return true;
        for (int k = 0; k < p->n_steps; k++) {
            if (p->steps[k].kind != TW_STEP_PRODUCT || p->steps[k].in[1].buffer != i) continue;
            if (reads_b(n, &n->steps[k])) return true;
            lent = true;
        }
    }
    return !lent;
}

const tw_ranges *tw_cpu_network_schedule(const tw_cpu_network *n) {
    return n->ranges;
}

int64_t tw_cpu_network_bytes(const tw_cpu_network *n) {
    int64_t sum = (int64_t)n->memory_bytes;
    for (int i = 0; i < n->ranges->n_workers; i++) sum += (int64_t)n->workers[i].scratch_bytes;
    return sum;
}
