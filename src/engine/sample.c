/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "base/random.h"
#include "tilewright/engine.h"

#include <math.h>
#include <stdlib.h>

typedef struct candidate {
    float logit;
    int32_t id;
    double p;
} candidate;

struct tw_sampler {
    tw_sampling how;
    int64_t vocab;
    tw_random random;
    candidate *list;
    bool *seen; /* with a repetition penalty: the ids of the text so far, and the logits it leaves */
    float *penalised;
};

tw_status tw_sampler_open(tw_sampler **out, const tw_sampling *s, int64_t vocab, tw_diag *diag) {
    *out = NULL;
    if (!(s->repetition_penalty >= 0)) return tw_fail(diag, TW_ERR_USAGE, "a repetition penalty is not negative");
    if (!(s->temperature >= 0) || s->top_k < 0 || !(s->top_p >= 0 && s->top_p <= 1) ||
        !(s->min_p >= 0 && s->min_p <= 1))
        return tw_fail(diag, TW_ERR_USAGE, "temperature and top-k are not negative; top-p and min-p lie within 0..1");
    tw_sampler *p = malloc(sizeof *p);
    if (!p) return tw_fail_memory(diag);
    *p = (tw_sampler){.how = *s, .vocab = vocab, .random = tw_random_seed(s->seed)};
    bool penalty = s->repetition_penalty > 0 && s->repetition_penalty != 1;
    p->list = malloc((size_t)vocab * sizeof *p->list);
    if (penalty) p->seen = calloc((size_t)vocab, sizeof *p->seen);
    if (penalty) p->penalised = malloc((size_t)vocab * sizeof *p->penalised);
    if (!p->list || (penalty && (!p->seen || !p->penalised))) {
        tw_sampler_close(p);
        return tw_fail_memory(diag);
    }
    *out = p;
    return TW_OK;
}

void tw_sampler_close(tw_sampler *s) {
    if (!s) return;
    free(s->list);
    free(s->seen);
    free(s->penalised);
    free(s);
}

/* Largest first; equals by id, so that a seed gives the same text everywhere. */
static int by_logit(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int32_t greedy(const float *logits, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[best] || (isnan(logits[best]) && !isnan(logits[i]))) best = i;
    return (int32_t)best;
}

/* Candidates so far below the best that they round away in the sum are not worth sorting. */
static int64_t collect(tw_sampler *s, const float *logits) {
    float max = -INFINITY;
    for (int64_t i = 0; i < s->vocab; i++) max = logits[i] > max ? logits[i] : max;
    double floor = (double)max - 40 * s->how.temperature;
    int64_t n = 0;
    for (int64_t i = 0; i < s->vocab; i++)
        if ((double)logits[i] >= floor) s->list[n++] = (candidate){logits[i], (int32_t)i, 0};
    qsort(s->list, (size_t)n, sizeof *s->list, by_logit);
    return n;
}

void tw_sampler_see(tw_sampler *s, int32_t id) {
    if (s->seen && id >= 0 && id < s->vocab) s->seen[id] = true;
}

static const float *penalise(tw_sampler *s, const float *logits) {
    float p = (float)s->how.repetition_penalty;
    for (int64_t i = 0; i < s->vocab; i++)
        s->penalised[i] = !s->seen[i] ? logits[i] : logits[i] > 0 ? logits[i] / p : logits[i] * p;
    return s->penalised;
}

int32_t tw_sampler_draw(tw_sampler *s, const float *logits) {
    if (s->seen) logits = penalise(s, logits);
    if (s->how.temperature <= 0) return greedy(logits, s->vocab);
    int64_t n = collect(s, logits);
    if (!n) return greedy(logits, s->vocab); /* all NaN */
    if (s->how.top_k && n > s->how.top_k) n = s->how.top_k;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += s->list[i].p = exp(((double)s->list[i].logit - s->list[0].logit) / s->how.temperature);
    if (s->how.top_p > 0 && s->how.top_p < 1) {
        double kept = 0;
        int64_t m = 0;
        while (m < n && kept < s->how.top_p * sum) kept += s->list[m++].p;
        n = m;
        sum = kept;
    }
    double least = s->how.min_p * s->list[0].p;
    while (n > 1 && s->list[n - 1].p < least) sum -= s->list[--n].p;
    double at = tw_random_unit(&s->random) * sum;
    for (int64_t i = 0; i < n; i++)
        if ((at -= s->list[i].p) < 0) return s->list[i].id;
    return s->list[n - 1].id;
}
