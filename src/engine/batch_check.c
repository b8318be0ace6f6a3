/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a batch with the processor's machine, and times it. */
#include "base/clock.h"
#include "base/diag.h"
#include "engine/engine.h"
#include "engine/timing.h"

#include <math.h>
#include <stdlib.h>

/* Generations of all sequences of a batch, with random prompts. */
typedef struct load {
    tw_generation g[TW_ENGINE_SEQUENCES];
    int32_t *ids[TW_ENGINE_SEQUENCES];
    int n;
} load;

static void unload(load *l) {
    for (int i = 0; i < l->n; i++) {
        free(l->ids[i]);
        free(l->g[i].ids);
    }
}

static tw_status add(load *l, tw_batch *b, tw_random *r, int64_t prompt, int64_t n, tw_diag *diag) {
    const int64_t vocab = tw_batch_engine(b)->model->vocab;
    int32_t *ids = l->ids[l->n] = malloc((size_t)prompt * sizeof *ids);
    if (!ids) return tw_fail_memory(diag);
    for (int64_t i = 0; i < prompt; i++) ids[i] = (int32_t)tw_random_below(r, (uint64_t)vocab);
    tw_generation *g = &l->g[l->n++];
    *g = (tw_generation){.prompt = ids, .n_prompt = prompt, .limit = n, .ignore_eos = true};
    return tw_batch_add(b, g, diag);
}

static tw_status run(tw_batch *b, tw_diag *diag) {
    tw_generation *g;
    tw_status st;
    while ((st = tw_batch_next(b, &g, diag)) == TW_OK && g) {
    }
    return st;
}

tw_status tw_time_batch(tw_batch *b, tw_random *r, int64_t prompt, int64_t n, tw_batch_times *out, tw_diag *diag) {
    load l = {0};
    tw_status st = TW_OK;
    *out = (tw_batch_times){0};
    if (prompt < 1) prompt = 1;
    /* The context would end the generations before, in less time. */
    if (prompt + n > tw_engine_context(tw_batch_engine(b)))
        return tw_fail(diag, TW_ERR_USAGE, "a prompt of %lld and %lld tokens do not fit the context of %lld",
                       (long long)prompt, (long long)n, (long long)tw_engine_context(tw_batch_engine(b)));
    for (int64_t i = 0; i < tw_batch_sequences(b) && st == TW_OK; i++) st = add(&l, b, r, prompt, n + 1, diag);
    const int64_t start = tw_now_ns();
    if (st == TW_OK) st = run(b, diag);
    out->seconds = (double)(tw_now_ns() - start) * 1e-9;
    for (int i = 0; i < l.n; i++) out->prompt_seconds = fmax(out->prompt_seconds, l.g[i].prefill_seconds);
    out->decode_seconds = out->seconds - out->prompt_seconds;
    unload(&l);
    return st;
}

/* Has the processor judge a generation. The ids that were generated are fed, so that one that differs does not change
   those after it. */
static tw_status judge(tw_engine *cpu, const tw_tolerance *allowed, const tw_generation *g, int sequence, tw_verdict *v,
                       tw_diag *diag) {
    const int64_t vocab = cpu->model->vocab;
    const float *logits;
    int32_t want;
    tw_engine_rewind(cpu, 0);
    tw_status st = tw_engine_feed(cpu, g->prompt, g->n_prompt, &logits, &want, diag);
    for (int64_t i = 0; i < g->n_ids && st == TW_OK; i++) {
        double largest = 0;
        for (int64_t k = 0; k < vocab; k++) largest = fmax(largest, fabs((double)logits[k]));
        const double tolerance = allowed->logit_relative * largest + allowed->logit_absolute;
        const double gap = ((double)logits[want] - (double)logits[g->ids[i]]) / tolerance;
        if (!(gap <= 2))
            return tw_fail(diag, TW_ERR_MISMATCH, "sequence %d: greedy token %lld is %d here and %d on the processor",
                           sequence, (long long)i, g->ids[i], want);
        *(g->ids[i] == want ? &v->tokens : &v->close) += 1;
        v->worst_logit = fmax(v->worst_logit, gap / 2);
        if (i + 1 < g->n_ids) st = tw_engine_feed(cpu, &g->ids[i], 1, &logits, &want, diag);
    }
    v->cases++;
    return st;
}

tw_status tw_batch_check(tw_batch *b, int64_t prompt, uint64_t seed, tw_verdict *verdict, tw_diag *diag) {
    enum { GREEDY = 4, SHORT = 24 };
    const tw_engine *e = tw_batch_engine(b);
    tw_random r = tw_random_seed(seed);
    load l = {0};
    tw_engine *cpu = NULL;
    const int64_t room = e->context - GREEDY;
    *verdict = (tw_verdict){0};
    tw_status st = room < 1
                       ? tw_fail(diag, TW_ERR_USAGE, "a context of %lld is too short to check", (long long)e->context)
                       : TW_OK;
    for (int64_t i = 0; i < e->together && st == TW_OK; i++) {
        int64_t n = i ? SHORT / i + 1 : prompt; /* Only one is long, since the processor takes its time. */
        n = n < 1 ? 1 : n > room ? room : n;
        st = add(&l, b, &r, n, GREEDY, diag);
    }
    if (st == TW_OK) st = run(b, diag);
    const tw_engine_options o = {.weights = e->options.weights,
                                 .group = e->options.group,
                                 .stored_rope = e->options.stored_rope,
                                 .dequantise = e->options.dequantise,
                                 .context = e->context,
                                 .no_vendor = true};
    if (st == TW_OK) st = tw_engine_open(&cpu, e->model, &o, diag);
    for (int i = 0; i < l.n && st == TW_OK; i++) st = judge(cpu, tw_engine_tolerance(e), &l.g[i], i, verdict, diag);
    tw_engine_close(cpu);
    unload(&l);
    return st;
}
