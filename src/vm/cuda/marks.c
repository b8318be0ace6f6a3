/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of the machine's instructions: the kernel's records, and what the last step left of them. */
#include "base/diag.h"
#include "prof/lower.h"
#include "prof/records.h"
#include "vm/cuda/machine.h"
#include "vm/cuda/timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first warp of the workers' role records. Rings keep a step of the worker with the most records. */
tw_status tw_mega_lower_marks(tw_cuda_vm *vm, tw_mega_program *p, tw_kernel *k, tw_diag *diag) {
    char only[128];
    size_t n = 0;
    for (int i = 0; i < TW_MEGA_MARKS; i++)
        n += (size_t)snprintf(only + n, sizeof only - n, "%s%s", i ? "," : "", tw_mega_marks[i]);
    const tw_prof_options o = {
        .units = TW_PROF_BLOCKS, .global = true, .frames = p->plan.most_records + 1, .only = only};
    tw_status st = tw_prof_lower(k, &o, &p->profile, diag);
    const size_t bytes = st == TW_OK ? (size_t)tw_prof_bytes(&p->profile, p->s->n_workers) : 0;
    if (st == TW_OK) st = tw_mega_alloc_zeros(vm, p, "profile", bytes, &p->arguments[TW_MEGA_ARGS], diag);
    return st;
}

static int mark_of(const char *name) {
    int i = 0;
    while (i < TW_MEGA_MARKS && strcmp(name, tw_mega_marks[i]) != 0) i++;
    return i;
}

/* Sorts a worker's records into its instructions. Marks belong to the instruction that was begun before them; the
   last one of a kind counts. */
static void take_marks(const tw_prof_block_records *r, int count, int64_t (*marks)[TW_MEGA_MARKS]) {
    int64_t *at = NULL;
    for (int i = 0; i < r->n_records; i++) {
        const tw_prof_record *x = &r->records[i];
        const int mark = mark_of(tw_prof_site_of(r, i)->name);
        if (mark == 0) at = marks[x->iteration % count];
        if (at) at[mark] = x->clock;
    }
}

tw_status tw_mega_read_marks(tw_cuda_vm *vm, const tw_mega_program *p, int64_t (*marks)[TW_MEGA_MARKS],
                             tw_mega_anchor *anchors, tw_diag *diag) {
    const int rows = p->plan.most_records, workers = p->s->n_workers;
    const size_t bytes = (size_t)tw_prof_bytes(&p->profile, workers);
    memset(marks, 0, (size_t)workers * (size_t)rows * sizeof *marks);
    unsigned char *buffer = malloc(bytes);
    if (!buffer) return tw_fail_memory(diag);
    tw_prof_block_records r = {.layout = &p->profile};
    tw_status st = tw_mega_read(vm, buffer, p->arguments[TW_MEGA_ARGS], bytes, diag);
    for (int w = 0; w < workers && st == TW_OK; w++) {
        tw_prof_records_clear(&r);
        st = tw_prof_read(&r, buffer + tw_prof_part(&p->profile, w), diag);
        if (st != TW_OK || !r.n_units) continue;
        const tw_prof_unit *u = &r.units[0];
        const int count = tw_mega_records(p->s, w);
        if (count) take_marks(&r, count, marks + (ptrdiff_t)w * rows);
        anchors[w] = (tw_mega_anchor){
            .sm = u->sm, .clock = {u->begin_clock, u->end_clock}, .time = {u->begin_time, u->end_time}};
    }
    tw_prof_records_free(&r);
    free(buffer);
    return st;
}

/* -- by kind of instruction */

static void add_times(tw_cuda_vm_times *t, const int64_t c[TW_MEGA_MARKS]) {
    t->count++;
    for (int i = 0; i < TW_CUDA_VM_PHASES; i++) {
        const double clocks = (double)(c[i + 1] - c[i]);
        t->clocks[i] += clocks;
        t->most[i] = fmax(t->most[i], clocks);
    }
}

tw_status tw_mega_sum_marks(tw_cuda_vm *vm, const tw_mega_program *p, tw_cuda_vm_times times[TW_CUDA_VM_KINDS],
                            tw_diag *diag) {
    static const char *const names[TW_CUDA_VM_KINDS] = {
        "input", "embed",  "qkv",      "attend", "merge",      "project",      "ffn",     "head", "output",
        "score", "choose", "residual", "turn",   "experts_up", "experts_down", "partial", "sum"};
    const int rows = p->plan.most_records, workers = p->s->n_workers;
    int64_t(*marks)[TW_MEGA_MARKS] = calloc((size_t)workers * (size_t)rows, sizeof *marks);
    tw_mega_anchor *anchors = calloc((size_t)workers, sizeof *anchors);
    tw_status st = marks && anchors ? tw_mega_read_marks(vm, p, marks, anchors, diag) : tw_fail_memory(diag);
    for (int k = 0; k < TW_CUDA_VM_KINDS; k++) times[k] = (tw_cuda_vm_times){.name = names[k]};
    for (int i = 0; i < workers * rows && st == TW_OK; i++)
        if (p->kinds[i] >= TW_MEGA_INPUT) add_times(&times[p->kinds[i] - TW_MEGA_INPUT], marks[i]);
    for (int k = 0; k < TW_CUDA_VM_KINDS; k++)
        for (int i = 0; i < TW_CUDA_VM_PHASES && times[k].count; i++) times[k].clocks[i] /= times[k].count;
    free(marks);
    free(anchors);
    return st;
}

tw_status tw_mega_trace_marks(tw_cuda_vm *vm, const tw_mega_program *p, int64_t n, int64_t pos, const char *title,
                              tw_trace **out, tw_diag *diag) {
    const int rows = p->plan.most_records, workers = p->s->n_workers;
    int64_t(*marks)[TW_MEGA_MARKS] = calloc((size_t)workers * (size_t)rows, sizeof *marks);
    tw_mega_anchor *anchors = calloc((size_t)workers, sizeof *anchors);
    tw_status st = marks && anchors ? tw_mega_read_marks(vm, p, marks, anchors, diag) : tw_fail_memory(diag);
    const tw_mega_clocks c = {(const int64_t(*)[TW_MEGA_MARKS])marks, anchors, rows, vm->emu != NULL};
    if (st == TW_OK) st = tw_mega_timeline(out, p->s, &c, n, pos, title, tw_cuda_vm_device(vm), diag);
    free(marks);
    free(anchors);
    return st;
}
