/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "kernels/attention/attention.h"

#include <stdlib.h>
#include <string.h>

typedef struct run {
    tw_emu *emu;
    tw_gpu_buffer buffers[TW_ATTENTION_BUFFERS];
    uint64_t at[TW_ATTENTION_BUFFERS];
} run;

/* With `early` the launch before may still write whatever is read. */
static bool allocate(run *r, const tw_attention_data *d, bool early) {
    for (int i = 0; i < TW_ATTENTION_BUFFERS; i++) {
        const tw_gpu_buffer *x = &r->buffers[i];
        if (!x->bytes) continue;
        void *zeros = x->zeroed ? calloc(1, x->bytes) : NULL;
        if (x->zeroed && !zeros) return false;
        r->at[i] = tw_emu_alloc(r->emu, x->name, x->written ? zeros : d->of[i], x->bytes, !x->written && !early);
        free(zeros);
        if (!r->at[i]) return false;
    }
    return true;
}

/* Overwrites the results, so that those of an earlier launch are not taken for this one's. */
static void poison(const run *r, void *out, float *lse) {
    memset(out, 0xff, r->buffers[TW_ATTENTION_OUT].bytes);
    tw_emu_write(r->emu, r->at[TW_ATTENTION_OUT], out, r->buffers[TW_ATTENTION_OUT].bytes);
    if (!lse) return;
    memset(lse, 0xff, r->buffers[TW_ATTENTION_LSE].bytes);
    tw_emu_write(r->emu, r->at[TW_ATTENTION_LSE], lse, r->buffers[TW_ATTENTION_LSE].bytes);
}

static tw_status judge(const run *r, const tw_attention_data *d, void *out, float *lse, tw_diag *diag) {
    uint32_t counter = 0;
    tw_emu_read(r->emu, r->at[TW_ATTENTION_OUT], out, r->buffers[TW_ATTENTION_OUT].bytes);
    if (lse) tw_emu_read(r->emu, r->at[TW_ATTENTION_LSE], lse, r->buffers[TW_ATTENTION_LSE].bytes);
    for (size_t at = 0; at < r->buffers[TW_ATTENTION_COUNTERS].bytes; at += sizeof counter) {
        tw_emu_read(r->emu, r->at[TW_ATTENTION_COUNTERS] + at, &counter, sizeof counter);
        if (counter) return tw_fail(diag, TW_ERR_MISMATCH, "counter %zu is not zero after the launch", at / 4);
    }
    return tw_attention_data_judge(d, out, lse, 1, diag);
}

tw_status tw_attention_emulate_kernel(const tw_attention_data *d, const tw_attention_config *c, const tw_kernel *k,
                                      uint64_t seed, tw_emu_report *report, tw_diag *diag) {
    tw_emu_report unseen;
    run r = {.emu = tw_emu_new()};
    if (!report) report = &unseen;
    *report = (tw_emu_report){0};
    tw_attention_describe_buffers(&d->problem, c, r.buffers);
    void *out = malloc(r.buffers[TW_ATTENTION_OUT].bytes);
    float *lse = d->problem.lse ? malloc(r.buffers[TW_ATTENTION_LSE].bytes) : NULL;
    const bool room = r.emu && out && (lse || !d->problem.lse) && allocate(&r, d, c->early);
    tw_status st = room ? TW_OK : tw_fail_memory(diag);
    tw_launch_values l;
    uint64_t words[TW_ARGUMENTS];
    const tw_signature signature = tw_signature_of(k);
    tw_attention_launch_of(&d->problem, c, r.at, &l);
    tw_arguments_place(&l.arguments, &signature, words);
    for (int i = 0; st == TW_OK && i < (r.buffers[TW_ATTENTION_COUNTERS].bytes ? 2 : 1); i++) {
        const tw_emu_options o = {.seed = seed + (uint64_t)i, .grid = {l.grid[0], 1, 1}, .overlaps = l.early};
        poison(&r, out, lse);
        st = tw_emu_launch(r.emu, k, words, &o, report, diag);
        if (st == TW_ERR_REJECTED) st = tw_emu_explain(report, diag);
        if (st == TW_OK) st = judge(&r, d, out, lse, diag);
    }
    free(out);
    free(lse);
    if (r.emu) tw_emu_free(r.emu);
    return st;
}

tw_status tw_attention_emulate(const tw_attention_data *d, const tw_attention_config *c, const tw_target *t,
                               uint64_t seed, tw_emu_report *report, tw_diag *diag) {
    tw_diag own;
    if (!diag) diag = &own;
    tw_kernel *k = tw_attention_make(&d->problem, c, t, true, diag);
    tw_status st = k ? TW_OK : diag->status;
    if (st == TW_OK) st = tw_attention_emulate_kernel(d, c, k, seed, report, diag);
    tw_kernel_free(k);
    return st;
}
