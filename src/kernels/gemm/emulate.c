/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "emu/emu.h"
#include "ir/passes/passes.h"
#include "kernels/gemm/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    tw_emu *emu;
    tw_gemm_buffers at;
    tw_gemm_resources need;
} run;

static bool allocate(run *r, const tw_gemm_data *d) {
    r->at.a = tw_emu_alloc(r->emu, "A", d->a, d->bytes_a, true);
    r->at.b = tw_emu_alloc(r->emu, "B", d->b, d->bytes_b, true);
    r->at.c = tw_emu_alloc(r->emu, "C", NULL, d->bytes_c, false);
    bool ok = r->at.a && r->at.b && r->at.c;
    if (d->bias) ok &= (r->at.bias = tw_emu_alloc(r->emu, "bias", d->bias, d->bytes_bias, true)) != 0;
    if (d->mul) ok &= (r->at.mul = tw_emu_alloc(r->emu, "mul", d->mul, d->bytes_mul, true)) != 0;
    if (d->residual) ok &= (r->at.residual = tw_emu_alloc(r->emu, "residual", d->residual, d->bytes_mul, true)) != 0;
    if (!r->need.counter_bytes) return ok;
    void *zeros = calloc(1, (size_t)(r->need.workspace_bytes + r->need.counter_bytes));
    if (!zeros) return false;
    ok &= (r->at.workspace = tw_emu_alloc(r->emu, "workspace", zeros, (size_t)r->need.workspace_bytes, false)) != 0;
    ok &= (r->at.counters = tw_emu_alloc(r->emu, "counters", zeros, (size_t)r->need.counter_bytes, false)) != 0;
    free(zeros);
    return ok;
}

static tw_status judge(const run *r, const tw_gemm_data *d, tw_diag *diag) {
    void *c = malloc(d->bytes_c);
    if (!c) return tw_fail_memory(diag);
    int64_t first = 0;
    double worst;
    tw_emu_read(r->emu, r->at.c, c, d->bytes_c);
    int64_t wrong = tw_gemm_data_compare(d, c, &worst, &first);
    free(c);
    if (!wrong) return TW_OK;
    return tw_fail(
        diag, TW_ERR_MISMATCH,
        "%lld of %lld cells are wrong, the first at row %lld, column %lld; the worst by %.3g times what is allowed",
        (long long)wrong, (long long)d->cells, (long long)(first / d->problem.n % d->problem.m),
        (long long)(first % d->problem.n), worst);
}

static tw_status findings(const tw_emu_report *report, tw_diag *diag) {
    tw_diag_clear(diag);
    for (int i = 0; i < report->n; i++)
        tw_diag_add(diag, TW_ERR_REJECTED, "", "%s: %s", tw_emu_rule_name(report->findings[i].rule),
                    report->findings[i].text);
    return TW_ERR_REJECTED;
}

tw_status tw_gemm_emulate(const tw_gemm_data *d, const tw_gemm_config *c, const tw_target *t, uint64_t seed,
                          int64_t *lane_operations, double *seconds, tw_diag *diag) {
    const char *why;
    run r = {.emu = NULL};
    if (!tw_gemm_legal(&d->problem, c, t, &r.need, &why))
        return tw_fail(diag, TW_ERR_USAGE, "the configuration is not legal: %s", why);
    tw_gemm_variant v = tw_gemm_variant_of(&d->problem, c);
    tw_kernel *k = tw_gemm_build(&v, c, t);
    r.emu = tw_emu_new();
    tw_status st = k && r.emu && allocate(&r, d) ? tw_pipeline_default(k, true, diag) : tw_fail_memory(diag);
    tw_gemm_launch l;
    tw_gemm_launch_of(&d->problem, c, &r.at, &l);
    for (int i = 0; st == TW_OK && i < (c->kg > 1 ? 2 : 1); i++) {
        tw_emu_report report = {0};
        tw_emu_options o = {.seed = seed + (uint64_t)i, .grid = {l.grid[0], l.grid[1], l.grid[2]}};
        /* C holds what beta needs, or nothing at all. */
        if (d->problem.beta != 0) tw_emu_write(r.emu, r.at.c, d->c, d->bytes_c);
        st = tw_emu_launch(r.emu, k, l.arguments, &o, &report, diag);
        if (st == TW_ERR_REJECTED) st = findings(&report, diag);
        if (st == TW_OK) st = judge(&r, d, diag);
        if (lane_operations) *lane_operations = report.lane_operations;
        if (seconds) *seconds = report.seconds;
    }
    if (r.emu) tw_emu_free(r.emu);
    tw_kernel_free(k);
    return st;
}
