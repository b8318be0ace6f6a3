/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/calibrate.h"

#include "base/diag.h"
#include "ir/builder.h"
#include "ir/passes/passes.h"
#include "ptx/load.h"

#include <math.h>
#include <stdlib.h>

enum { POINTS = TW_PROF_POINTS, THREADS = 128, WORK = 96, ROUNDS = 256, SHARED = 32768, TRIES = 5 };
static const int marks_of[POINTS] = {1, 5, 9, 13};

/* An iteration has WORK products, each of which waits for the one before, and among which the marks are dealt out
   evenly. The last one's result is stored, so that no compiler can leave them out. */
tw_kernel *tw_prof_calibration_kernel(int target, tw_prof_between between, int marks) {
    const int work = between == TW_PROF_WORK ? WORK : marks;
    tw_kernel *k = tw_kernel_new("calibrate", target, THREADS);
    if (!k) return NULL;
    tw_builder b = tw_builder_of(k);
    tw_val out = tw_pointer_add(&b, "out", 4, false), x = tw_parameter_add(&b, "x", TW_T_f32);
    tw_val rounds = tw_parameter_add(&b, "rounds", TW_T_i32), sum = tw_var_of(&b, x);
    TW_FOR (&b, i, tw_i32(&b, 0), rounds, tw_i32(&b, 1), true) {
        for (int j = 0; j < work; j++) {
            if (j == 0 || j * marks / work != (j - 1) * marks / work) tw_record_mark(&b, "mark");
            /* One product stays, since nothing keeps a loop of records alone. */
            if (between == TW_PROF_WORK || j == 0) tw_op_to(&b, sum, TW_OP_fma_f32, sum, x, x);
        }
    }
    tw_val at = tw_op_emit(&b, TW_OP_mad_wide_s32, tw_sreg(&b, TW_SREG_tid_x), tw_i32(&b, 4), out);
    tw_st(&b, (tw_attrs){.type = TW_T_f32}, at, &sum);
    if (!tw_kernel_failed(k)) return k;
    tw_kernel_free(k);
    return NULL;
}

typedef struct bench {
    tw_cuda *cuda;
    bool global;
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

static tw_status open_bench(bench *m, tw_prof_between between, int marks, tw_diag *diag) {
    const tw_prof_options o = {.shared_bytes = SHARED, .global = m->global};
    const tw_ptx_compiler by = tw_ptx_compiler_for(m->cuda, true);
    m->kernel = tw_prof_calibration_kernel(tw_cuda_describe(m->cuda)->target->sm, between, marks);
    if (!m->kernel) return tw_fail_memory(diag);
    tw_status st = tw_pipeline_default(m->kernel, false, diag);
    if (st == TW_OK) st = tw_prof_lower(m->kernel, &o, &m->layout, diag);
    if (st == TW_OK) st = tw_ptx_load(&by, m->kernel, &m->module, NULL, diag);
    if (st == TW_OK) st = tw_cuda_alloc(m->cuda, 4 * THREADS, &m->out, diag);
    if (st == TW_OK) st = tw_cuda_alloc(m->cuda, (size_t)tw_prof_bytes(&m->layout, 1), &m->profile, diag);
    return st;
}

static tw_status launch(bench *m, tw_diag *diag) {
    const int bytes[4] = {8, 4, 4, 8};
    const uint64_t arguments[4] = {m->out, 0x3f000000 /* 0.5f */, ROUNDS, m->profile};
    const tw_cuda_launch l = {.module = m->module,
                              .grid = {1, 1, 1},
                              .threads = THREADS,
                              .dynamic_shared = tw_kernel_shared_layout(m->kernel, NULL),
                              .arguments = arguments,
                              .argument_bytes = bytes,
                              .n_arguments = 4};
    return tw_cuda_run(m->cuda, &l, diag);
}

/* The least clocks of an iteration over some launches. */
static tw_status measure(bench *m, double *clocks, tw_diag *diag) {
    uint64_t words[TW_PROF_HEADER_WORDS];
    *clocks = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        tw_status st = launch(m, diag);
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
        bench m = {.cuda = c, .global = global};
        s->records[i] = marks_of[i];
        st = open_bench(&m, between, marks_of[i], diag);
        if (st == TW_OK) st = measure(&m, &s->measured[i], diag);
        close_bench(&m);
    }
    if (st == TW_OK) fit(s);
    return st;
}

tw_status tw_prof_calibrate(tw_prof_calibration *out, tw_cuda *cuda, bool global, tw_diag *diag) {
    tw_status st = TW_OK;
    *out = (tw_prof_calibration){0};
    for (int i = 0; i < TW_PROF_BETWEENS && st == TW_OK; i++)
        st = measure_records(&out->of[i], cuda, (tw_prof_between)i, global, diag);
    return st;
}
