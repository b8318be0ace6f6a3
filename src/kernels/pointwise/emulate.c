/* SPDX-License-Identifier: Apache-2.0 */
/* Maps and rows in the emulator, on random data, against what is computed in double precision. */
#include "base/diag.h"
#include "base/random.h"
#include "kernels/pointwise/launch.h"
#include "kernels/pointwise/shape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A buffer on the host and in the emulator, exactly as long as its places. */
typedef struct memory {
    const tw_point_buffer *f;
    tw_point_span span;
    size_t bytes;
    unsigned char *host;
    uint64_t device;
} memory;

typedef struct run {
    const tw_point_emulated *e;
    memory of[TW_POINT_BUFFERS];
    tw_point_data data;
    tw_emu *emu;
} run;

static tw_point_operand as_stored(const tw_point_buffer *f, const tw_points *p) {
    tw_point_operand o = *f->o;
    if (f->row && p->rank) o.strides[p->rank - 1] = 0;
    return o;
}

/* The operand that is gathered by this one. NULL: none is. */
static const tw_point_operand *gathered_by(const tw_points *p, const tw_point_operand *o) {
    for (int i = 0; i < p->n_operands; i++)
        if (p->operands[i].gathers && &p->operands[p->operands[i].by] == o) return &p->operands[i];
    return NULL;
}

/* Reals between -2 and 2, integers of two digits, and places of which some are not there. */
static void fill(const run *r, memory *m, tw_random *random) {
    const tw_memory_type t = m->f->o->type;
    const tw_point_operand *gathered = gathered_by(r->e->p, m->f->o);
    const int64_t n = m->span.most - m->span.least + 1, extent = gathered ? gathered->gather_extent : 50;
    for (int64_t i = 0; i < n; i++) {
        tw_cell_value x = {.whole = (int64_t)tw_random_below(random, (uint64_t)(2 * extent + 2)) - extent - 1};
        if (tw_memory_class(t) == TW_CLASS_real) x.real = 4 * tw_random_unit(random) - 2;
        if (t == TW_M_bool) x.whole &= 1;
        tw_memory_write(t, m->host, i, x);
    }
}

static tw_status prepare(run *r, uint64_t seed, tw_diag *diag) {
    const tw_point_buffers *all = r->e->buffers;
    tw_random random = tw_random_seed(seed);
    for (int i = 0; i < all->n; i++) {
        memory *m = &r->of[i];
        m->f = &all->of[i];
        const tw_point_operand o = as_stored(m->f, r->e->p);
        const size_t each = (size_t)tw_memory_bytes(o.type);
        m->span = tw_point_span_of(r->e->p, &o);
        m->bytes = (size_t)(m->span.most - m->span.least + 1) * each;
        m->host = malloc(m->bytes);
        if (!m->host) return tw_fail_memory(diag);
        if (!m->f->written) fill(r, m, &random);
        m->device = tw_emu_alloc(r->emu, m->f->name, m->f->written ? NULL : m->host, m->bytes, m->f->o->constant);
        if (!m->device) return tw_fail_memory(diag);
        unsigned char *first = m->host - m->span.least * (int64_t)each;
        if (m->f->name[0] == 'x') r->data.operands[m->f->name[1] - '0'] = first;
        if (!strcmp(m->f->name, "gain")) r->data.gain = first;
        if (!strcmp(m->f->name, "bias")) r->data.bias = first;
        if (!strcmp(m->f->name, "out")) r->data.out = first;
        if (!strcmp(m->f->name, "kept")) r->data.kept = first;
    }
    return TW_OK;
}

static tw_status launch(run *r, uint64_t seed, tw_emu_report *report, tw_diag *diag) {
    tw_plan *plan = r->e->plan;
    uint64_t words[TW_ARGUMENTS];
    const tw_signature signature = tw_signature_of(plan->kernel);
    tw_arguments_place(&plan->launch.arguments, &signature, words);
    for (int i = 0; i < signature.n; i++)
        for (int k = 0; k < r->e->buffers->n; k++) {
            const memory *m = &r->of[k];
            const int64_t each = tw_memory_bytes(m->f->o->type);
            if (!strcmp(signature.names[i], m->f->name)) words[i] = m->device - (uint64_t)(m->span.least * each);
        }
    const tw_emu_options o = {.seed = seed, .grid = {plan->launch.grid[0], 1, 1}, .overlaps = plan->launch.early};
    const tw_status st = tw_emu_launch(r->emu, plan->kernel, words, &o, report, diag);
    return st == TW_ERR_REJECTED ? tw_emu_explain(report, diag) : st;
}

/* What is wanted was rounded too, and may have been rounded the other way. */
static bool agree(double got, double want, tw_memory_type t, double error) {
    const double unit = t == TW_M_f32 ? 0x1p-24 : t == TW_M_f16 ? 0x1p-11 : 0x1p-8;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want)) return got == want;
    return fabs(got - want) <= (2 * unit + error) * fabs(want) + error + (t == TW_M_f16 ? 0x1p-24 : 0);
}

static tw_status compare(const run *r, const memory *m, const unsigned char *want, tw_diag *diag) {
    const tw_points *p = r->e->p;
    const tw_point_operand o = as_stored(m->f, p);
    const int64_t n = m->f->row ? 1 : tw_points_columns(p);
    for (int64_t row = 0; row < tw_points_rows(p); row++)
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = tw_points_place(p, o.strides, row) + i * tw_points_step(p, &o) - m->span.least;
            const tw_cell_value x = tw_memory_read(o.type, m->host, at), y = tw_memory_read(o.type, want, at);
            const bool real = tw_memory_class(o.type) == TW_CLASS_real;
            if (real ? agree(x.real, y.real, o.type, r->e->error) : x.whole == y.whole) continue;
            return tw_fail(diag, TW_ERR_MISMATCH, "%s at row %lld, column %lld is %.9g, not %.9g", m->f->name,
                           (long long)row, (long long)i, real ? x.real : (double)x.whole,
                           real ? y.real : (double)y.whole);
        }
    return TW_OK;
}

/* Computes the same on the host, and compares what was written. */
static tw_status judge(run *r, tw_diag *diag) {
    r->e->run(r->e->problem, &r->data, 0, tw_points_rows(r->e->p));
    tw_status st = TW_OK;
    for (int i = 0; i < r->e->buffers->n && st == TW_OK; i++) {
        memory *m = &r->of[i];
        if (!m->f->written) continue;
        unsigned char *want = m->host;
        m->host = malloc(m->bytes);
        st = m->host ? TW_OK : tw_fail_memory(diag);
        if (m->host) tw_emu_read(r->emu, m->device, m->host, m->bytes);
        if (st == TW_OK) st = compare(r, m, want, diag);
        free(want);
    }
    return st;
}

tw_status tw_point_emulate(const tw_point_emulated *e, uint64_t seed, tw_emu_report *report, tw_diag *diag) {
    tw_emu_report unseen;
    run r = {.e = e, .emu = tw_emu_new()};
    tw_status st = r.emu ? prepare(&r, seed, diag) : tw_fail_memory(diag);
    if (st == TW_OK) st = launch(&r, seed, report ? report : &unseen, diag);
    if (st == TW_OK) st = judge(&r, diag);
    for (int i = 0; i < TW_POINT_BUFFERS; i++) free(r.of[i].host);
    if (r.emu) tw_emu_free(r.emu);
    return st;
}
