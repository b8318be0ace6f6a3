/* SPDX-License-Identifier: Apache-2.0 */
/* Each thread computes a run of neighbouring elements, or several runs a block's width apart where runs are short. */
#include "kernels/pointwise/map_kernel.h"
#include "base/diag.h"
#include "base/divide.h"
#include "ir/passes/passes.h"
#include "kernels/pointwise/access.h"
#include "kernels/pointwise/launch.h"
#include "kernels/pointwise/shape.h"
#include "kernels/pointwise/words.h"

#include <stdio.h>
#include <string.h>

/* Launches of fewer runs have smaller blocks, so that every SM gets some. */
enum { THREADS = 256, FEW_THREADS = 128, FEW = 132 * 2 * THREADS };

/* The problem as it is computed. */
typedef struct shape {
    tw_map_problem p; /* Joined. */
    int run, runs;    /* Neighbouring elements that a thread computes together, and how many such runs it has. */
    int64_t pieces;   /* Runs of a row. */
    int64_t all;      /* Runs of all rows. */
    int threads;
} shape;

static tw_status shape_of(const tw_map_problem *p, shape *s, tw_diag *diag) {
    const tw_status st = tw_map_check(p, diag);
    if (st != TW_OK) return st;
    s->p = *p;
    tw_point_operand *others[] = {&s->p.out};
    tw_points_join(&s->p.x, others, 1, true);
    s->run = tw_points_run(&s->p.x, (const tw_point_operand *const[]){&s->p.out}, 1);
    s->pieces = tw_points_columns(&s->p.x) / s->run;
    s->all = tw_points_rows(&s->p.x) * s->pieces;
    s->threads = s->all < FEW ? FEW_THREADS : THREADS;
    s->runs = s->run >= 4 || s->all < 4 * FEW ? 1 : 4;
    if (s->all < 1) return tw_fail(diag, TW_ERR_USAGE, "the array has no elements");
    for (int d = 0; d < s->p.x.rank; d++)
        if (s->p.x.dims[d] > INT32_MAX) s->all = INT64_MAX;
    if (s->all > INT32_MAX / 2) return tw_fail(diag, TW_ERR_USAGE, "more elements than are numbered in 32 bits");
    return TW_OK;
}

static void build(tw_builder *b, const shape *s) {
    const tw_points *p = &s->p.x;
    const int rest = (int)(s->all % (s->threads * s->runs));
    tw_point_inputs in;
    tw_point_inputs_declare(b, p, s->run, &in);
    tw_val out = tw_pointer_add(b, "out", tw_point_align(p, &s->p.out, s->run), false);
    tw_val block = tw_mul_imm(b, tw_sreg(b, TW_SREG_ctaid_x), s->threads * s->runs);
    tw_val number = tw_add(b, block, tw_sreg(b, TW_SREG_tid_x));
    if (s->p.early) {
        tw_do(b, TW_OP_griddep_launch, (tw_attrs){0}, TW_NONE, TW_NONE);
        tw_do(b, TW_OP_griddep_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
    }
    for (int i = 0; i < s->runs; i++) {
        tw_point_at at = {0};
        tw_val values[TW_POINT_RUN], n = tw_add_imm(b, number, (int64_t)i * s->threads);
        if (rest) at.there = tw_lt(b, n, tw_i32(b, (int32_t)s->all));
        at.column = tw_mul_imm(b, tw_rem(b, n, (int)s->pieces), s->run);
        tw_point_at_row(b, p, tw_div(b, n, (int)s->pieces), &at);
        tw_point_inputs_view(b, &in, &at);
        const tw_point_view to = tw_point_view_of(b, p, &s->p.out, s->run, out, &at, NULL);
        tw_point_inputs_values(b, &in, &at, 0, at.there, values);
        tw_point_store(b, &to, 0, at.there, values);
    }
}

static tw_kernel *make(const shape *s, const tw_target *t, bool verify, tw_diag *diag) {
    if (s->p.early && t->sm < 90) {
        tw_fail(diag, TW_ERR_USAGE, "the target has no early launches");
        return NULL;
    }
    tw_kernel *k = tw_kernel_new("map", t->sm, s->threads);
    if (!k) {
        tw_fail_memory(diag);
        return NULL;
    }
    tw_builder b = tw_builder_of(k);
    build(&b, s);
    const tw_status st = tw_kernel_failed(k) ? tw_fail_memory(diag) : tw_pipeline_default(k, verify, diag);
    if (st == TW_OK) return k;
    tw_kernel_free(k);
    return NULL;
}

void tw_map_buffers(const tw_map_problem *p, tw_point_buffers *all) {
    *all = (tw_point_buffers){0};
    tw_point_buffers_inputs(all, &p->x);
    tw_point_buffers_add(all, "out", &p->out, true, false);
}

static tw_status plan(const tw_map_problem *p, tw_plan *out, const tw_target *target, bool verify, tw_diag *diag) {
    shape s;
    tw_point_buffers buffers, joined;
    int align[TW_POINT_BUFFERS];
    const tw_status st = shape_of(p, &s, diag);
    if (st != TW_OK) return st;
    out->kernel = make(&s, target, verify, diag);
    if (!out->kernel) return diag->status;
    tw_map_buffers(p, &buffers);
    tw_map_buffers(&s.p, &joined);
    for (int i = 0; i < joined.n; i++) align[i] = tw_point_align(&s.p.x, joined.of[i].o, s.run);
    out->launch.grid[0] = (int)tw_ceil_div(s.all, s.threads * s.runs);
    out->launch.grid[1] = out->launch.grid[2] = 1;
    out->launch.early = p->early;
    tw_point_buffers_plan(&buffers, &p->x, align, out);
    return TW_OK;
}

tw_status tw_map_plan(const void *problem, tw_plan *out, const tw_target *target, tw_diag *diag) {
    return plan(problem, out, target, false, diag);
}

tw_status tw_map_plan_words(tw_plan *out, char *words, char *configuration, const tw_target *target, tw_diag *diag) {
    tw_map_problem p;
    tw_point_buffers buffers;
    if (configuration[strspn(configuration, " ")])
        return tw_fail(diag, TW_ERR_USAGE, "\"%s\": a map has no configuration", configuration);
    tw_status st = tw_map_parse(&p, words, diag);
    if (st != TW_OK) return st;
    tw_map_buffers(&p, &buffers);
    st = tw_point_buffers_forward(&buffers, &p.x, diag);
    if (st == TW_OK) st = tw_map_plan(&p, out, target, diag);
    if (st == TW_OK) tw_map_print(&p, out->problem, sizeof out->problem);
    return st;
}

static void run(const void *problem, const tw_point_data *data, int64_t from, int64_t to) {
    tw_map_run(problem, data, from, to);
}

tw_kernel *tw_map_make(const tw_map_problem *p, const tw_target *t, bool verify, tw_diag *diag) {
    shape s;
    return shape_of(p, &s, diag) == TW_OK ? make(&s, t, verify, diag) : NULL;
}

tw_status tw_map_emulate(const tw_map_problem *p, const tw_target *t, uint64_t seed, tw_emu_report *report,
                         tw_diag *diag) {
    static const double error = 0x1p-18;
    tw_plan made = {0};
    tw_point_buffers buffers;
    tw_status st = plan(p, &made, t, true, diag);
    tw_map_buffers(p, &buffers);
    const tw_point_emulated e = {&p->x, &made, &buffers, run, p, error};
    if (st == TW_OK) st = tw_point_emulate(&e, seed, report, diag);
    tw_kernel_free(made.kernel);
    return st;
}
