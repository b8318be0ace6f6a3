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

/* More likely first; equals by id, so that a seed gives the same text everywhere. */
static bool before(const candidate *a, const candidate *b) {
    return a->logit != b->logit ? a->logit > b->logit : a->id < b->id;
}

/* Sinks list[at] into a heap of n whose root comes before all. */
static void sink(candidate *list, int64_t n, int64_t at) {
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(&list[child + 1], &list[child])) child++;
        if (!before(&list[child], &list[at])) return;
        candidate t = list[at];
        list[at] = list[child];
        list[child] = t;
    }
}

static int32_t greedy(const float *logits, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[best] || (isnan(logits[best]) && !isnan(logits[i]))) best = i;
    return (int32_t)best;
}

/* Candidates that do not round away in the sum, in no order; *sum is that of their p, relative to the best. */
static int64_t collect(tw_sampler *s, const float *logits, double *sum) {
    float max = -INFINITY;
    for (int64_t i = 0; i < s->vocab; i++) max = logits[i] > max ? logits[i] : max;
    double lowest = (double)max - 40 * s->how.temperature;
    int64_t n = 0;
    *sum = 0;
    for (int64_t i = 0; i < s->vocab; i++) {
        if (!((double)logits[i] >= lowest)) continue;
        double p = exp(((double)logits[i] - max) / s->how.temperature);
        s->list[n++] = (candidate){logits[i], (int32_t)i, p};
        *sum += p;
    }
    return n;
}

/* The k best, best first, at the end of the list: a whole sort of a vocabulary would cost more than a small model's
   step. Returns where they begin; stops early once `mass` is reached. */
static int64_t select_best(candidate *list, int64_t n, int64_t k, double mass, double *sum) {
    int64_t left = n;
    for (int64_t i = n / 2; i-- > 0;) sink(list, n, i);
    *sum = 0;
    while (left > 0 && n - left < k && *sum < mass) {
        candidate t = list[0];
        list[0] = list[--left];
        list[left] = t;
        sink(list, left, 0);
        *sum += t.p;
    }
    return left;
}

/* Leaves the candidates that top-k and top-p allow at the list's end. */
static int64_t cut(tw_sampler *s, int64_t n, double *sum) {
    const tw_sampling *how = &s->how;
    int64_t k = how->top_k && how->top_k < n ? how->top_k : n;
    bool nucleus = how->top_p > 0 && how->top_p < 1;
    if (k == n && !nucleus) return 0;
    int64_t from = select_best(s->list, n, k, nucleus && k == n ? how->top_p * *sum : INFINITY, sum);
    if (!nucleus || k == n) return from;
    /* Top-p among the k best: from the best downwards, which lie from the end backwards. */
    double kept = 0, mass = how->top_p * *sum;
    int64_t at = n;
    while (at > from && kept < mass) kept += s->list[--at].p;
    *sum = kept;
    return at;
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
    double sum, least = s->how.min_p;
    int64_t n = collect(s, logits, &sum);
    if (!n) return greedy(logits, s->vocab); /* all NaN */
    int64_t from = cut(s, n, &sum), last = n - 1;
    for (int64_t i = from; i < n && least > 0; i++)
        if (s->list[i].p < least) {
            sum -= s->list[i].p;
            s->list[i].p = 0;
        }
    double at = tw_random_unit(&s->random) * sum;
    for (int64_t i = from; i < n; i++) {
        if (s->list[i].p <= 0) continue;
        last = i;
        if ((at -= s->list[i].p) < 0) break;
    }
    return s->list[last].id;
}
