/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/pointwise/trial.h"

#include "base/diag.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The operand that is gathered by this one. NULL: none is. */
static const tw_point_operand *gathered_by(const tw_points *p, const tw_point_operand *o) {
    for (int i = 0; i < p->n_operands; i++)
        if (p->operands[i].gathers && &p->operands[p->operands[i].by] == o) return &p->operands[i];
    return NULL;
}

static void fill(const tw_points *p, tw_point_memory *m, tw_random *random) {
    const tw_memory_type t = m->f->o->type;
    const tw_point_operand *gathered = gathered_by(p, m->f->o);
    const int64_t n = m->span.most - m->span.least + 1, extent = gathered ? gathered->gather_extent : 50;
    for (int64_t i = 0; i < n; i++) {
        tw_cell_value x = {.whole = (int64_t)tw_random_below(random, (uint64_t)(2 * extent + 2)) - extent - 1};
        if (tw_class_is_real(tw_memory_class(t))) x.real = 4 * tw_random_unit(random) - 2;
        if (t == TW_M_bool) x.whole &= 1;
        tw_memory_write(t, m->host, i, x);
    }
}

static void point(tw_point_data *data, const char *name, unsigned char *first) {
    if (name[0] == 'x') data->operands[name[1] - '0'] = first;
    if (!strcmp(name, "gain")) data->gain = first;
    if (!strcmp(name, "bias")) data->bias = first;
    if (!strcmp(name, "out")) data->out = first;
    if (!strcmp(name, "kept")) data->kept = first;
}

tw_status tw_point_trial_make(tw_point_trial *t, const tw_points *p, const tw_point_buffers *all, uint64_t seed,
                              tw_diag *diag) {
    tw_random random = tw_random_seed(seed);
    *t = (tw_point_trial){.p = p};
    for (int i = 0; i < all->n; i++) {
        tw_point_memory *m = &t->of[t->n++];
        m->f = &all->of[i];
        const tw_point_operand o = tw_point_buffer_operand(m->f, p);
        const int64_t each = tw_memory_bytes(o.type);
        m->span = tw_point_span_of(p, &o);
        m->bytes = (size_t)((m->span.most - m->span.least + 1) * each);
        m->host = malloc(m->bytes);
        if (!m->host) return tw_fail_memory(diag);
        memset(m->host, 0xff, m->bytes);
        if (!m->f->written) fill(p, m, &random);
        point(&t->data, m->f->name, m->host - m->span.least * each);
    }
    return TW_OK;
}

void tw_point_trial_free(tw_point_trial *t) {
    for (int i = 0; i < t->n; i++) free(t->of[i].host);
}

static bool agree(double got, double want, tw_memory_type t, double error) {
    const double unit = t == TW_M_f64 ? 0x1p-53 : t == TW_M_f32 ? 0x1p-24 : t == TW_M_f16 ? 0x1p-11 : 0x1p-8;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want)) return got == want;
    return fabs(got - want) <= (2 * unit + error) * fabs(want) + error + (t == TW_M_f16 ? 0x1p-24 : 0);
}

static tw_status compare(const tw_points *p, const tw_point_memory *m, const tw_point_memory *want, double error,
                         tw_diag *diag) {
    const tw_point_operand o = tw_point_buffer_operand(m->f, p);
    const bool real = tw_class_is_real(tw_memory_class(o.type));
    const int64_t n = m->f->row ? 1 : tw_points_columns(p);
    for (int64_t row = 0; row < tw_points_rows(p); row++)
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = tw_points_place(p, o.strides, row) + i * tw_points_step(p, &o) - m->span.least;
            const tw_cell_value x = tw_memory_read(o.type, m->host, at), y = tw_memory_read(o.type, want->host, at);
            if (real ? agree(x.real, y.real, o.type, o.type == TW_M_f64 ? error * 0x1p-26 : error) : x.whole == y.whole)
                continue;
            return tw_fail(diag, TW_ERR_MISMATCH, "%s at row %lld, column %lld is %.9g, not %.9g", m->f->name,
                           (long long)row, (long long)i, real ? x.real : (double)x.whole,
                           real ? y.real : (double)y.whole);
        }
    return TW_OK;
}

tw_status tw_point_trial_compare(const tw_point_trial *got, const tw_point_trial *want, double error, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < got->n && st == TW_OK; i++)
        if (got->of[i].f->written) st = compare(got->p, &got->of[i], &want->of[i], error, diag);
    return st;
}
