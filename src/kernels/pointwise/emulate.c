/* SPDX-License-Identifier: Apache-2.0 */
/* Maps and rows in the emulator, on random data, against what is computed in double precision. */
#include "base/diag.h"
#include "kernels/pointwise/trial.h"

#include <string.h>

typedef struct run {
    const tw_point_emulated *e;
    tw_point_trial got, want; /* Of the same data. */
    uint64_t device[TW_POINT_BUFFERS];
    tw_emu *emu;
} run;

static tw_status prepare(run *r, uint64_t seed, tw_diag *diag) {
    tw_status st = tw_point_trial_make(&r->got, r->e->p, r->e->buffers, seed, diag);
    if (st == TW_OK) st = tw_point_trial_make(&r->want, r->e->p, r->e->buffers, seed, diag);
    for (int i = 0; i < r->got.n && st == TW_OK; i++) {
        const tw_point_memory *m = &r->got.of[i];
        r->device[i] = tw_emu_alloc(r->emu, m->f->name, m->f->written ? NULL : m->host, m->bytes, m->f->o->constant);
        if (!r->device[i]) st = tw_fail_memory(diag);
    }
    return st;
}

static tw_status launch(run *r, uint64_t seed, tw_emu_report *report, tw_diag *diag) {
    tw_plan *plan = r->e->plan;
    uint64_t words[TW_ARGUMENTS];
    const tw_signature signature = tw_signature_of(plan->kernel);
    tw_arguments_place(&plan->launch.arguments, &signature, words);
    for (int i = 0; i < signature.n; i++)
        for (int k = 0; k < r->got.n; k++) {
            const tw_point_memory *m = &r->got.of[k];
            const int64_t before = m->span.least * tw_memory_bytes(m->f->o->type);
            if (!strcmp(signature.names[i], m->f->name)) words[i] = r->device[k] - (uint64_t)before;
        }
    const tw_emu_options o = {.seed = seed, .grid = {plan->launch.grid[0], 1, 1}, .overlaps = plan->launch.early};
    tw_status st = tw_emu_launch(r->emu, plan->kernel, words, &o, report, diag);
    if (st == TW_ERR_REJECTED) st = tw_emu_explain(report, diag);
    for (int i = 0; i < r->got.n && st == TW_OK; i++)
        tw_emu_read(r->emu, r->device[i], r->got.of[i].host, r->got.of[i].bytes);
    return st;
}

tw_status tw_point_emulate(const tw_point_emulated *e, uint64_t seed, tw_emu_report *report, tw_diag *diag) {
    tw_emu_report unseen;
    run r = {.e = e, .emu = tw_emu_new()};
    tw_status st = r.emu ? prepare(&r, seed, diag) : tw_fail_memory(diag);
    if (st == TW_OK) st = launch(&r, seed, report ? report : &unseen, diag);
    if (st == TW_OK) {
        e->run(e->problem, &r.want.data, 0, tw_points_rows(e->p));
        st = tw_point_trial_compare(&r.got, &r.want, e->error, diag);
    }
    tw_point_trial_free(&r.got);
    tw_point_trial_free(&r.want);
    if (r.emu) tw_emu_free(r.emu);
    return st;
}
