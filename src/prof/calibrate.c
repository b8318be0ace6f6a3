/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/calibrate.h"

#include "base/diag.h"
#include "ir/builder.h"
#include "ir/passes/passes.h"
#include "ptx/load.h"

#include <math.h>
#include <stdlib.h>

enum { IDLE_THREADS = 128, BUSY_THREADS = 1024, WORK = 96, CHAINS = 4, ROUNDS = 256, SHARED = 32768, TRIES = 5 };
enum { POINTS = TW_PROF_POINTS, FEW_FRAMES = 2, MANY_FRAMES = 64, WAVES = 16 };
static const int marks_of[POINTS] = {1, 5, 9, 13};

/* An iteration has WORK products for each thread, among which the marks are dealt out evenly. The sums are stored, so
   that no compiler can leave them out. */
tw_kernel *tw_prof_calibration_kernel(int target, tw_prof_between between, int marks) {
    const int threads = between == TW_PROF_BUSY ? BUSY_THREADS : IDLE_THREADS;
    const int chains = between == TW_PROF_BUSY ? CHAINS : 1, work = between == TW_PROF_ALONE ? marks : WORK;
    tw_kernel *k = tw_kernel_new("calibrate", target, threads);
    if (!k) return NULL;
    tw_builder b = tw_builder_of(k);
    tw_val out = tw_pointer_add(&b, "out", 4, false), x = tw_parameter_add(&b, "x", TW_T_f32);
    tw_val rounds = tw_parameter_add(&b, "rounds", TW_T_i32), sums[CHAINS];
    for (int i = 0; i < chains; i++) sums[i] = tw_var_of(&b, tw_mul(&b, x, tw_f32(&b, (float)(i + 1))));
    TW_FOR (&b, i, tw_i32(&b, 0), rounds, tw_i32(&b, 1), true) {
        for (int j = 0; j < work; j++) {
            if (j * marks / work != (j - 1) * marks / work || j == 0) tw_record_mark(&b, "mark");
            if (between == TW_PROF_ALONE) continue;
            tw_val *sum = &sums[j % chains];
            tw_op_to(&b, *sum, TW_OP_fma_f32, *sum, x, x);
        }
    }
    for (int i = 1; i < chains; i++) tw_add_to(&b, sums[0], sums[i]);
    tw_val at = tw_op_emit(&b, TW_OP_mad_wide_s32, tw_sreg(&b, TW_SREG_tid_x), tw_i32(&b, 4), out);
    tw_st(&b, (tw_attrs){.type = TW_T_f32}, at, &sums[0]);
    if (!tw_kernel_failed(k)) return k;
    tw_kernel_free(k);
    return NULL;
}

typedef struct bench {
    tw_cuda *cuda;
    bool global;
    int blocks; /* Of the grid. */
    tw_kernel *kernel;
    tw_prof_layout layout;
    tw_cuda_module *module;
    uint64_t out, profile;
} bench;

static void close_bench(bench *m) {
    if (m->module) tw_cuda_unload(m->module);
    if (m->out) tw_cuda_release(m->cuda, m->out);
    if (m->profile) tw_cuda_release(m->cuda, m->profile);
    if (m->kernel) tw_kernel_free(m->kernel);
    tw_prof_layout_free(&m->layout);
}

/* `frames` 0: records are left out. */
static tw_status open_bench(bench *m, tw_prof_between between, int marks, int frames, tw_diag *diag) {
    static const char *const nothing = "-";
    const tw_prof_options o = {
        .shared_bytes = SHARED, .global = m->global, .frames = frames, .only = frames ? NULL : nothing};
    const tw_ptx_compiler by = tw_ptx_compiler_for(m->cuda, true);
    m->kernel = tw_prof_calibration_kernel(tw_cuda_describe(m->cuda)->target->sm, between, marks);
    if (!m->kernel) return tw_fail_memory(diag);
    tw_status st = tw_pipeline_default(m->kernel, false, diag);
    if (st == TW_OK) st = tw_prof_lower(m->kernel, &o, &m->layout, diag);
    if (st == TW_OK) st = tw_ptx_load(&by, m->kernel, &m->module, NULL, diag);
    if (st == TW_OK) st = tw_cuda_alloc(m->cuda, 4 * BUSY_THREADS, &m->out, diag);
    if (st == TW_OK && frames)
        st = tw_cuda_alloc(m->cuda, (size_t)tw_prof_bytes(&m->layout, m->blocks), &m->profile, diag);
    return st;
}

static tw_status launch(bench *m, int rounds, tw_diag *diag) {
    const int bytes[4] = {8, 4, 4, 8};
    const uint64_t arguments[4] = {m->out, 0x3f000000 /* 0.5f */, (uint64_t)rounds, m->profile};
    const tw_cuda_launch l = {.module = m->module,
                              .grid = {m->blocks, 1, 1},
                              .threads = m->kernel->threads,
                              .dynamic_shared = tw_kernel_shared_layout(m->kernel, NULL),
                              .arguments = arguments,
                              .argument_bytes = bytes,
                              .n_arguments = m->profile ? 4 : 3};
    return tw_cuda_run(m->cuda, &l, diag);
}

/* The least clocks of an iteration over some launches of one block. */
static tw_status measure(bench *m, double *clocks, tw_diag *diag) {
    uint64_t words[TW_PROF_HEADER_WORDS];
    *clocks = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        tw_status st = launch(m, ROUNDS, diag);
        if (st == TW_OK) st = tw_cuda_sync(m->cuda, diag);
        if (st == TW_OK) st = tw_cuda_download(m->cuda, words, m->profile, sizeof words, diag);
        if (st != TW_OK) return st;
        const double took = (double)(words[TW_PROF_END_CLOCK] - words[TW_PROF_BEGIN_CLOCK]);
        *clocks = fmin(*clocks, took / ROUNDS);
    }
    return TW_OK;
}

/* The slope of the points by least squares. */
static void fit(tw_prof_slope *s) {
    const double n = POINTS;
    double x = 0, y = 0, xx = 0, xy = 0;
    for (int i = 0; i < POINTS; i++) {
        x += s->records[i];
        y += s->measured[i];
        xx += (double)s->records[i] * s->records[i];
        xy += s->records[i] * s->measured[i];
    }
    s->clocks = (n * xy - x * y) / (n * xx - x * x);
    const double at = (y - s->clocks * x) / n;
    for (int i = 0; i < POINTS; i++) s->error = fmax(s->error, fabs(s->measured[i] - at - s->clocks * s->records[i]));
    if (s->clocks < 0) s->clocks = 0;
}

static tw_status measure_records(tw_prof_slope *s, tw_cuda *c, tw_prof_between between, bool global, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < POINTS && st == TW_OK; i++) {
        bench m = {.cuda = c, .global = global, .blocks = 1};
        s->records[i] = marks_of[i];
        st = open_bench(&m, between, marks_of[i], FEW_FRAMES, diag);
        if (st == TW_OK) st = measure(&m, &s->measured[i], diag);
        close_bench(&m);
    }
    if (st == TW_OK) fit(s);
    return st;
}

/* Nanoseconds of a grid of WAVES blocks for each multiprocessor, one after another. */
static tw_status time_blocks(tw_cuda *c, bool global, int frames, double *ns, int64_t *shared, tw_diag *diag) {
    bench m = {.cuda = c, .global = global, .blocks = tw_cuda_describe(c)->sms * WAVES};
    tw_cuda_graph *g = NULL;
    double us;
    tw_status st = open_bench(&m, TW_PROF_BUSY, 1, frames, diag);
    *ns = INFINITY;
    *shared = m.layout.shared_bytes;
    if (st == TW_OK) st = launch(&m, ROUNDS, diag);
    if (st == TW_OK) st = tw_cuda_sync(c, diag);
    if (st == TW_OK) st = tw_cuda_capture_begin(c, diag);
    if (st == TW_OK) {
        const tw_status ran = launch(&m, ROUNDS / 8, diag);
        st = tw_cuda_capture_end(c, &g, diag);
        if (st == TW_OK) st = ran;
    }
    for (int i = 0; i < TRIES && st == TW_OK; i++) {
        st = tw_cuda_graph_time(c, g, 4, &us, diag);
        if (st == TW_OK) *ns = fmin(*ns, us * 1000 / 4);
    }
    tw_cuda_graph_free(g);
    close_bench(&m);
    return st;
}

/* A block's own cost, from grids without records, with small rings and with large ones. A multiprocessor has two blocks
   of this size at once. */
static tw_status measure_blocks(tw_prof_calibration *out, tw_cuda *c, bool global, tw_diag *diag) {
    static const int frames[3] = {0, FEW_FRAMES, MANY_FRAMES};
    double ns[3];
    int64_t shared[3];
    tw_status st = TW_OK;
    for (int i = 0; i < 3 && st == TW_OK; i++) st = time_blocks(c, global, frames[i], &ns[i], &shared[i], diag);
    if (st != TW_OK) return st;
    const double clocks = tw_cuda_describe(c)->clock_khz * 1e-6 / (WAVES / 2.0);
    out->block = fmax(0, (ns[1] - ns[0]) * clocks);
    if (shared[2] > shared[1]) out->block_byte = fmax(0, (ns[2] - ns[1]) * clocks / (double)(shared[2] - shared[1]));
    return TW_OK;
}

tw_status tw_prof_calibrate(tw_prof_calibration *out, tw_cuda *cuda, bool global, tw_diag *diag) {
    tw_status st = TW_OK;
    *out = (tw_prof_calibration){0};
    for (int i = 0; i < TW_PROF_BETWEENS && st == TW_OK; i++)
        st = measure_records(&out->of[i], cuda, (tw_prof_between)i, global, diag);
    out->idle = out->of[TW_PROF_IDLE].clocks;
    out->busy = out->of[TW_PROF_BUSY].clocks;
    out->alone = out->of[TW_PROF_ALONE].clocks;
    return st == TW_OK ? measure_blocks(out, cuda, global, diag) : st;
}

double tw_prof_block_cost(const tw_prof_calibration *c, const tw_prof_layout *l) {
    return c->block + c->block_byte * (double)l->shared_bytes;
}
