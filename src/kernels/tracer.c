/* SPDX-License-Identifier: Apache-2.0 */
/* A tracer: the same kernel with its records lowered, and the buffer that it leaves them in. */
#define _POSIX_C_SOURCE 200809L
#include "base/diag.h"
#include "ir/passes/passes.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "kernels/kernel.h"
#include "prof/calibrate.h"
#include "prof/decode.h"
#include "prof/lower.h"

#include <stdlib.h>
#include <string.h>

typedef struct tw_tracer {
    tw_gpu *gpu;
    tw_gpu_kernel *kernel; /* With records. */
    tw_prof_options options;
    tw_prof_layout layout;
    char *only; /* What options.only points to. */
    char *ir;   /* The IR to trace. NULL: the kernel's own. */
    bool iterations;
    int64_t blocks; /* Of the grid. */
    size_t bytes;
    uint64_t buffer;
    char *data;     /* What the buffer had when it was read last. */
    int min_blocks; /* Blocks that a multiprocessor must hold at once. 0: as they come. */
    tw_trace_cost cost;
    struct tw_tracer *detached; /* The tracer before it, whose kernel launches may still refer to. */
} tw_tracer;

const tw_gpu_kernel *tw_tracer_kernel(const tw_tracer *t) {
    return t->kernel;
}

uint64_t tw_tracer_buffer(const tw_tracer *t) {
    return t->buffer;
}

void tw_tracer_free(tw_tracer *t) {
    while (t) {
        tw_tracer *next = t->detached;
        if (t->buffer) tw_gpu_release(t->gpu, t->buffer);
        tw_gpu_kernel_close(t->kernel);
        tw_prof_layout_free(&t->layout);
        free(t->data);
        free(t->only);
        free(t->ir);
        free(t);
        t = next;
    }
}

/* -- options */

static const char *const metrics[] = {"clock", "globaltimer", "smid"};
static const char *const granularities[] = {"warpgroup", "warp", "block"};
enum { CHOICES = 3 };

static tw_status choose(int *out, const char *word, const char *const choices[CHOICES], const char *what,
                        tw_diag *diag) {
    *out = 0;
    if (!word) return TW_OK;
    for (int i = 0; i < CHOICES; i++) {
        *out = i;
        if (!strcmp(word, choices[i])) return TW_OK;
    }
    return tw_fail(diag, TW_ERR_USAGE, "%s: \"%s\" is not %s, %s or %s", what, word, choices[0], choices[1],
                   choices[2]);
}

static tw_status take_options(tw_tracer *t, const tw_trace_options *o, tw_diag *diag) {
    int metric, units;
    tw_status st = choose(&metric, o->metric, metrics, "metric", diag);
    if (st == TW_OK) st = choose(&units, o->granularity, granularities, "granularity", diag);
    if (st != TW_OK) return st;
    if (o->first < 0 || o->every < 0) return tw_fail(diag, TW_ERR_USAGE, "blocks are counted from 0");
    if (o->frames < 0) return tw_fail(diag, TW_ERR_USAGE, "frames: %d is no number of iterations", o->frames);
    if (o->only && !(t->only = strdup(o->only))) return tw_fail_memory(diag);
    if (o->ir && !(t->ir = strdup(o->ir))) return tw_fail_memory(diag);
    t->iterations = o->iterations;
    t->options = (tw_prof_options){.metric = (tw_prof_metric)metric,
                                   .units = (tw_prof_units)units,
                                   .warps = o->warps,
                                   .first = o->first,
                                   .every = o->every,
                                   .global = o->global,
                                   .flush = o->flush,
                                   .frames = o->frames,
                                   .only = t->only};
    return TW_OK;
}

/* -- what the kernel leaves */

/* Blocks that a multiprocessor holds at once. Registers that are unknown are no bound. */
static int blocks_of(const tw_gpu_kernel *k, int64_t shared) {
    const int registers = k->info.registers > 0 ? k->info.registers : 1;
    return tw_target_blocks(k->gpu->target, k->info.threads, registers, (int)shared);
}

/* The most shared memory that can be added to a block without fewer blocks at once. */
static int64_t room_beside(const tw_gpu_kernel *k) {
    const int64_t used = k->info.shared_bytes;
    const int now = blocks_of(k, used);
    int64_t least = 0, most = k->gpu->target->shared_block - used;
    while (least < most) {
        const int64_t middle = (least + most + 1) / 2;
        if (blocks_of(k, used + middle) >= now)
            least = middle;
        else
            most = middle - 1;
    }
    return least;
}

static bool same_parameters(const tw_kernel *a, const tw_kernel *b) {
    bool same = a->n_parameters == b->n_parameters && a->threads == b->threads && a->cluster == b->cluster;
    for (int i = 0; i < a->n_parameters && same; i++) {
        const tw_parameter *x = &a->parameters[i], *y = &b->parameters[i];
        same = !strcmp(x->name, y->name) && x->type == y->type && x->map == y->map;
    }
    return same;
}

/* Replaces a plan's kernel by the text's. */
static tw_status take_ir(tw_plan *plan, const char *text, tw_diag *diag) {
    tw_kernel *k = NULL;
    tw_status st = tw_kernel_parse(&k, text, strlen(text), "(text)", diag);
    if (st != TW_OK) return st;
    st = tw_kernel_verify(k, plan->kernel->target, diag);
    if (st == TW_ERR_REJECTED) st = diag->status = TW_ERR_FORMAT;
    if (st == TW_OK && !same_parameters(k, plan->kernel))
        st = tw_fail(diag, TW_ERR_FORMAT, "ir: the kernel has other parameters, threads or clusters than %s",
                     plan->kernel->name);
    if (st == TW_OK) {
        tw_kernel_free(plan->kernel);
        plan->kernel = k;
    } else {
        tw_kernel_free(k);
    }
    return st;
}

static tw_status instrument(void *context, tw_plan *plan, tw_diag *diag) {
    tw_tracer *t = context;
    const tw_status replaced = t->ir ? take_ir(plan, t->ir, diag) : TW_OK;
    if (replaced != TW_OK) return replaced;
    if (t->min_blocks > plan->kernel->min_blocks) plan->kernel->min_blocks = t->min_blocks;
    tw_status st = tw_prof_lower(plan->kernel, &t->options, &t->layout, diag);
    if (st != TW_OK) return st;
    if (!t->layout.n_sites)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "the kernel has no record%s%s", t->only ? " of the names " : "",
                       t->only ? t->only : "");
    if ((st = tw_pipeline_default(plan->kernel, true, diag)) != TW_OK) return st;
    const int *grid = plan->launch.grid;
    t->blocks = (int64_t)grid[0] * grid[1] * grid[2];
    t->bytes = (size_t)tw_prof_bytes(&t->layout, t->blocks);
    if (!t->bytes)
        return tw_fail(diag, TW_ERR_USAGE, "the first recorded block is %d, and there are %lld blocks",
                       t->options.first, (long long)t->blocks);
    plan->buffers[plan->n_buffers++] =
        (tw_gpu_buffer){.name = TW_TRACER_BUFFER, .bytes = t->bytes, .align = 16, .written = true};
    tw_argument_buffer(&plan->launch.arguments, TW_TRACER_BUFFER, 0);
    return TW_OK;
}

static tw_status clear(tw_tracer *t, tw_diag *diag) {
    if (t->gpu->cuda) return tw_cuda_fill(t->gpu->cuda, t->buffer, 0, t->bytes / 4, diag);
    void *zeros = calloc(1, t->bytes);
    if (!zeros) return tw_fail_memory(diag);
    const tw_status st = tw_gpu_upload(t->gpu, t->buffer, zeros, t->bytes, diag);
    free(zeros);
    return st;
}

/* Where records take so many registers that fewer blocks run at once, the compiler is held to what the kernel has. */
static tw_status open_traced(tw_gpu_kernel *k, tw_tracer *t, tw_diag *diag) {
    const int blocks = blocks_of(k, k->info.shared_bytes);
    tw_status st = tw_kernel_open_changed(&t->kernel, k->gpu, k->words, k->chosen, instrument, t, diag);
    if (st != TW_OK || blocks_of(t->kernel, t->kernel->info.shared_bytes) >= blocks) return st;
    tw_gpu_kernel_close(t->kernel);
    tw_prof_layout_free(&t->layout);
    t->min_blocks = blocks;
    return tw_kernel_open_changed(&t->kernel, k->gpu, k->words, k->chosen, instrument, t, diag);
}

static tw_status attach(tw_gpu_kernel *k, tw_tracer *t, const tw_trace_options *o, tw_diag *diag) {
    tw_status st = take_options(t, o, diag);
    if (st != TW_OK) return st;
    t->options.shared_bytes = room_beside(k);
    st = open_traced(k, t, diag);
    if (st == TW_OK) st = tw_gpu_alloc(t->gpu, t->bytes, &t->buffer, diag);
    if (st == TW_OK) st = clear(t, diag);
    if (st == TW_OK && !(t->data = calloc(1, t->bytes))) st = tw_fail_memory(diag);
    if (st != TW_OK) return st;
    t->cost = (tw_trace_cost){.shared_bytes = t->layout.shared_bytes,
                              .blocks = blocks_of(k, k->info.shared_bytes),
                              .blocks_traced = blocks_of(t->kernel, t->kernel->info.shared_bytes),
                              .registers = k->info.registers,
                              .registers_traced = t->kernel->info.registers,
                              .global = t->layout.global};
    if (!t->gpu->cuda) return TW_OK;
    tw_prof_calibration c;
    st = tw_prof_calibrate(&c, t->gpu->cuda, t->layout.global, diag);
    t->cost.record_clocks = c.of[TW_PROF_WORK].clocks;
    t->cost.record_clocks_alone = c.of[TW_PROF_NOTHING].clocks;
    return st;
}

tw_status tw_gpu_kernel_attach(tw_gpu_kernel *k, const tw_trace_options *o, tw_diag *diag) {
    static const tw_trace_options usual = {0};
    if (k->tracer) return tw_fail(diag, TW_ERR_USAGE, "a tracer is attached already");
    tw_tracer *t = calloc(1, sizeof *t);
    if (!t) return tw_fail_memory(diag);
    t->gpu = k->gpu;
    const tw_status st = attach(k, t, o ? o : &usual, diag);
    if (st != TW_OK) {
        tw_tracer_free(t);
        return st;
    }
    t->detached = k->detached;
    k->detached = NULL;
    k->tracer = t;
    return TW_OK;
}

void tw_gpu_kernel_detach(tw_gpu_kernel *k) {
    tw_tracer *t = k->tracer;
    if (!t) return;
    tw_gpu_wait(t->gpu, NULL);
    tw_gpu_release(t->gpu, t->buffer);
    t->buffer = 0;
    k->detached = t;
    k->tracer = NULL;
}

bool tw_gpu_kernel_traced(const tw_gpu_kernel *k, tw_trace_cost *cost) {
    if (k->tracer) *cost = k->tracer->cost;
    return k->tracer;
}

/* -- what launches did */

tw_status tw_kernel_read_trace(tw_gpu_kernel *k, tw_diag *diag) {
    tw_tracer *t = k->tracer;
    if (!t) return tw_fail(diag, TW_ERR_USAGE, "no tracer is attached");
    tw_status st = tw_gpu_wait(t->gpu, diag);
    if (st == TW_OK) st = tw_gpu_download(t->gpu, t->data, t->buffer, t->bytes, diag);
    return st == TW_OK ? clear(t, diag) : st;
}

tw_status tw_kernel_decode_trace(const tw_gpu_kernel *k, bool correct, tw_trace **out, tw_diag *diag) {
    const tw_tracer *t = k->tracer;
    const tw_prof_decoding how = {.title = k->plan.problem,
                                  .device = tw_gpu_name(k->gpu),
                                  .emulated = tw_gpu_emulated(k->gpu),
                                  .cost = correct ? t->cost.record_clocks : 0,
                                  .iterations = t->iterations};
    const tw_status st = tw_prof_decode(out, &t->layout, t->data, t->blocks, &how, diag);
    if (st == TW_OK && k->gpu->cuda) tw_trace_set_peaks(*out, tw_cuda_describe(k->gpu->cuda));
    return st;
}

tw_status tw_kernel_trace(tw_gpu_kernel *k, tw_trace **out, tw_diag *diag) {
    *out = NULL;
    const tw_status st = tw_kernel_read_trace(k, diag);
    return st == TW_OK ? tw_kernel_decode_trace(k, true, out, diag) : st;
}

tw_status tw_gpu_kernel_collect(tw_gpu_kernel *k, tw_trace_fn *callback, void *user, tw_diag *diag) {
    tw_trace *t;
    const tw_status st = tw_kernel_trace(k, &t, diag);
    if (st != TW_OK) return st;
    for (int i = 0; i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        const tw_trace_track *track = &t->tracks[e->track];
        const tw_trace_record record = {.name = t->names[e->name].text,
                                        .kind = tw_event_kind_name(e->kind),
                                        .engine = tw_trace_engine_name(t->names[e->name].engine),
                                        .role = t->names[track->role].text,
                                        .sm = track->sm,
                                        .block = track->block,
                                        .warp = track->warp,
                                        .iteration = e->iteration,
                                        .begin = e->begin,
                                        .end = e->end,
                                        .least = e->least,
                                        .most = e->most,
                                        .value = e->value};
        if (!callback(user, &record)) break;
    }
    tw_trace_free(t);
    return TW_OK;
}
