/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "emu/emu.h"
#include "kernels/gemm/reference.h"

#include <stdlib.h>
#include <string.h>

typedef struct run {
    tw_emu *emu;
    tw_gemm_buffers at;
    tw_gemm_resources need;
} run;

static bool allocate(run *r, const tw_gemm_data *d, const tw_gemm_config *c) {
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
    /* Only atomic splits may rely on the workspace's contents. */
    const void *parts = c->split == TW_GEMM_SPLIT_ATOMIC ? zeros : NULL;
    ok &= (r->at.workspace = tw_emu_alloc(r->emu, "workspace", parts, (size_t)r->need.workspace_bytes, false)) != 0;
    ok &= (r->at.counters = tw_emu_alloc(r->emu, "counters", zeros, (size_t)r->need.counter_bytes, false)) != 0;
    free(zeros);
    return ok;
}

static tw_status judge(const run *r, const tw_gemm_data *d, unsigned char *now, const unsigned char *before,
                       tw_diag *diag) {
    int64_t first = 0;
    double worst;
    tw_emu_read(r->emu, r->at.c, now, d->bytes_c);
    int64_t wrong = tw_gemm_data_compare(d, now, &worst, &first), gaps = tw_gemm_data_gaps(d, now, before);
    if (wrong)
        return tw_fail(
            diag, TW_ERR_MISMATCH,
            "%lld of %lld cells are wrong, the first at row %lld, column %lld; the worst by %.3g times what is allowed",
            (long long)wrong, (long long)d->cells, (long long)(first / d->problem.n % d->problem.m),
            (long long)(first % d->problem.n), worst);
    if (gaps) return tw_fail(diag, TW_ERR_MISMATCH, "%lld elements between C's rows were written", (long long)gaps);
    return TW_OK;
}

/* Checks that what blocks share is zero again, as the next launch needs it. */
static tw_status judge_zeros(const run *r, const tw_gemm_config *c, tw_diag *diag) {
    const struct {
        const char *name;
        uint64_t at;
        int64_t bytes;
    } zero[] = {{"counters", r->at.counters, r->need.counter_bytes},
                {"the workspace", r->at.workspace, c->split == TW_GEMM_SPLIT_ATOMIC ? r->need.workspace_bytes : 0}};
    for (int i = 0; i < 2; i++)
        for (int64_t at = 0; at < zero[i].bytes; at += 4) {
            uint32_t word = 0;
            tw_emu_read(r->emu, zero[i].at + (uint64_t)at, &word, sizeof word);
            if (word)
                return tw_fail(diag, TW_ERR_MISMATCH, "%s: not zero after the launch, at byte %lld", zero[i].name,
                               (long long)at);
        }
    return TW_OK;
}

tw_status tw_gemm_emulate_kernel(const tw_gemm_data *d, const tw_gemm_config *c, const tw_target *t, const tw_kernel *k,
                                 uint64_t seed, tw_emu_report *report, tw_diag *diag) {
    const char *why;
    run r = {.emu = NULL};
    tw_emu_report unseen;
    if (!report) report = &unseen;
    *report = (tw_emu_report){0};
    if (!tw_gemm_legal(&d->problem, c, t, &r.need, &why))
        return tw_fail(diag, TW_ERR_USAGE, "the configuration is not legal: %s", why);
    r.emu = tw_emu_new();
    unsigned char *now = malloc(d->bytes_c), *before = malloc(d->bytes_c);
    tw_status st = now && before && r.emu && allocate(&r, d, c) ? TW_OK : tw_fail_memory(diag);
    tw_launch_values l;
    tw_gemm_launch_of(&d->problem, c, &r.at, &l);
    const tw_signature signature = tw_signature_of(k);
    uint64_t words[TW_ARGUMENTS];
    tw_arguments_place(&l.arguments, &signature, words);
    for (int i = 0; st == TW_OK && i < (c->kg > 1 ? 2 : 1); i++) {
        tw_emu_options o = {.seed = seed + (uint64_t)i, .grid = {l.grid[0], l.grid[1], l.grid[2]}};
        /* C has what beta needs. With beta 0 it has garbage, and nothing of the launch before. */
        if (d->problem.beta != 0) {
            tw_emu_write(r.emu, r.at.c, d->c, d->bytes_c);
        } else if (i) {
            memset(now, 0xff, d->bytes_c);
            tw_emu_write(r.emu, r.at.c, now, d->bytes_c);
        }
        tw_emu_read(r.emu, r.at.c, before, d->bytes_c);
        st = tw_emu_launch(r.emu, k, words, &o, report, diag);
        if (st == TW_ERR_REJECTED) st = tw_emu_explain(report, diag);
        if (st == TW_OK) st = judge(&r, d, now, before, diag);
        if (st == TW_OK) st = judge_zeros(&r, c, diag);
    }
    free(now);
    free(before);
    if (r.emu) tw_emu_free(r.emu);
    return st;
}

tw_status tw_gemm_emulate(const tw_gemm_data *d, const tw_gemm_config *c, const tw_target *t, uint64_t seed,
                          tw_emu_report *report, tw_diag *diag) {
    const char *why;
    if (!tw_gemm_legal(&d->problem, c, t, NULL, &why))
        return tw_fail(diag, TW_ERR_USAGE, "the configuration is not legal: %s", why);
    tw_diag own;
    if (!diag) diag = &own;
    tw_kernel *k = tw_gemm_make(&d->problem, c, t, true, diag);
    tw_status st = k ? TW_OK : diag->status;
    if (st == TW_OK) st = tw_gemm_emulate_kernel(d, c, t, k, seed, report, diag);
    tw_kernel_free(k);
    return st;
}
