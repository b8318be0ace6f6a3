/* SPDX-License-Identifier: Apache-2.0 */
/* Each thread computes a run of neighbouring elements, or several runs: of several indices of one dimension where the
   array is large, so that what these share is loaded, and places are computed, once; or a block's width apart where
   runs are short. */
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
enum {
    TOGETHER = 8,       /* Runs of a thread along a dimension, at most. */
    BYTES = 128,        /* Bytes that a thread loads for its runs, at most. */
    REMAIN = 132 * 1024 /* Threads that a kernel has at least: half of those that an H100 keeps. */
};

/* The problem as it is computed. */
typedef struct shape {
    tw_map_problem p; /* Joined. */
    int run;          /* Neighbouring elements that a thread computes together. */
    int runs;         /* Such runs of a thread. */
    int along;        /* The dimension whose indices these have. -1: they are a block's width apart. */
    int64_t pieces;   /* Runs of a row. */
    int64_t all;      /* Runs of all rows, those of a thread along a dimension counted as one. */
    int threads;
} shape;

/* Bytes that one more run along a dimension loads. -1: a thread cannot have several. */
static int loads_along(const tw_points *p, int d, int run) {
    const unsigned used = tw_points_used(p);
    int bytes = 0;
    for (int i = 0; i < p->n_operands; i++) {
        const tw_point_operand *o = &p->operands[i];
        if (!(used >> i & 1)) continue;
        if (o->gathers && p->operands[o->by].strides[d]) return -1;
        if (o->strides[d]) bytes += run * tw_memory_bytes(o->type);
    }
    return bytes;
}

/* Gives a thread several indices of the dimension along which it loads least, the innermost of these. */
static void run_along(shape *s) {
    const tw_points *p = &s->p.x;
    int least = BYTES;
    s->runs = 1;
    s->along = -1;
    for (int d = p->rank - 2; d >= 0; d--) {
        const int bytes = loads_along(p, d, s->run);
        int runs = TOGETHER;
        while (runs > 1 && (p->dims[d] % runs || runs * bytes > BYTES || s->all / runs < REMAIN)) runs /= 2;
        if (bytes < 0 || bytes >= least || runs == 1) continue;
        least = bytes;
        s->runs = runs;
        s->along = d;
    }
    s->all /= s->runs;
}

static tw_status shape_of(const tw_map_problem *p, shape *s, tw_diag *diag) {
    const tw_status st = tw_map_check(p, diag);
    if (st != TW_OK) return st;
    s->p = *p;
    tw_point_operand *others[] = {&s->p.out};
    tw_points_join(&s->p.x, others, 1, true);
    s->run = tw_points_run(&s->p.x, (const tw_point_operand *const[]){&s->p.out}, 1);
    s->pieces = tw_points_columns(&s->p.x) / s->run;
    s->all = tw_points_rows(&s->p.x) * s->pieces;
    if (s->all < 1) return tw_fail(diag, TW_ERR_USAGE, "the array has no elements");
    for (int d = 0; d < s->p.x.rank; d++)
        if (s->p.x.dims[d] > INT32_MAX) s->all = INT64_MAX;
    if (s->all > INT32_MAX / 2) return tw_fail(diag, TW_ERR_USAGE, "more elements than are numbered in 32 bits");
    run_along(s);
    s->threads = s->all < FEW ? FEW_THREADS : THREADS;
    if (s->along < 0) s->runs = s->run >= 4 || s->all < 4 * FEW ? 1 : 4;
    return TW_OK;
}

/* Threads of a block times the runs that lie a block's width apart. */
static int width(const shape *s) {
    return s->along < 0 ? s->threads * s->runs : s->threads;
}

/* Where a thread's run number n begins, the first of those along a dimension. */
static tw_point_at place(tw_builder *b, const shape *s, tw_val n) {
    tw_points p = s->p.x;
    tw_point_at at = {0};
    if (s->along >= 0) p.dims[s->along] /= s->runs;
    if (s->all % width(s)) at.there = tw_lt(b, n, tw_i32(b, (int32_t)s->all));
    at.column = tw_mul_imm(b, tw_rem(b, n, (int)s->pieces), s->run);
    tw_point_at_row(b, &p, tw_div(b, n, (int)s->pieces), &at);
    return at;
}

/* Operands whose elements may be loaded before the launch before this one is over. */
static unsigned constants(const tw_points *p) {
    unsigned all = 0;
    for (int i = 0; i < p->n_operands; i++)
        if (p->operands[i].constant && !p->operands[i].gathers) all |= 1u << i;
    return all;
}

/* Whether places depend on no memory. */
static bool is_placed(const tw_points *p) {
    for (int i = 0; i < p->n_operands; i++)
        if (p->operands[i].gathers) return false;
    return true;
}

static void wait(tw_builder *b) {
    tw_do(b, TW_OP_griddep_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
}

/* Computes runs, all of which are loaded before one is stored. Threads next to one another have neighbouring indices of
   the dimension, so a thread's are as far apart as they can be. */
static void compute(tw_builder *b, const shape *s, tw_point_inputs *in, tw_point_view *to, tw_point_at *at,
                    bool waits) {
    const int d = s->along, runs = d < 0 ? 1 : s->runs;
    const int64_t apart = d < 0 ? 0 : s->p.x.dims[d] / runs;
    const unsigned all = tw_point_inputs_elements(in), first = waits ? constants(&s->p.x) & all : 0;
    tw_point_loads loads[TOGETHER] = {0};
    tw_point_inputs_load(b, in, 0, at->there, first, &loads[0]);
    if (waits) wait(b);
    tw_point_inputs_load(b, in, 0, at->there, all & ~first, &loads[0]);
    for (int i = 1; i < runs; i++) {
        loads[i] = loads[0];
        tw_point_inputs_move(in, d, apart);
        tw_point_inputs_load(b, in, 0, at->there, tw_point_inputs_varying(in, d), &loads[i]);
    }
    tw_val index = d < 0 ? TW_NONE : at->index[d];
    for (int i = 0; i < runs; i++) {
        tw_val values[TW_POINT_RUN];
        if (i) at->index[d] = tw_add_imm(b, index, i * apart);
        tw_point_inputs_compute(b, in, at, 0, &loads[i], values);
        tw_point_store(b, to, 0, at->there, values);
        if (d >= 0) to->shift += apart * s->p.out.strides[d] * tw_memory_bytes(s->p.out.type);
    }
}

static void build(tw_builder *b, const shape *s) {
    const tw_points *p = &s->p.x;
    const bool placed = is_placed(p);
    tw_point_inputs in;
    tw_point_inputs_declare(b, p, s->run, &in);
    tw_val out = tw_pointer_add(b, "out", tw_point_align(p, &s->p.out, s->run), false);
    tw_val block = tw_mul_imm(b, tw_sreg(b, TW_SREG_ctaid_x), width(s));
    tw_val number = tw_add(b, block, tw_sreg(b, TW_SREG_tid_x));
    if (s->p.early) tw_do(b, TW_OP_griddep_launch, (tw_attrs){0}, TW_NONE, TW_NONE);
    if (s->p.early && !placed) wait(b);
    for (int i = 0; i < width(s) / s->threads; i++) {
        tw_point_at at = place(b, s, tw_add_imm(b, number, (int64_t)i * s->threads));
        tw_point_inputs_view(b, &in, &at);
        tw_point_view to = tw_point_view_of(b, p, &s->p.out, s->run, out, &at, NULL);
        compute(b, s, &in, &to, &at, s->p.early && placed && !i);
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
    out->launch.grid[0] = (int)tw_ceil_div(s.all, width(&s));
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
