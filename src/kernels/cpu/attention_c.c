/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/variants.h"

#include <math.h>

size_t tw_attention_scratch_c(int64_t dim, int64_t n, int64_t span) {
    (void)dim, (void)n;
    return ((size_t)(span > 0 ? span : 0) * sizeof(float) + 127) & ~(size_t)63;
}

static float score_keys(const tw_attention *a, const float *q, int64_t from, int64_t to, float *scores) {
    float largest = -INFINITY;
    for (int64_t t = from; t < to; t++) {
        const float *k = a->k + t * a->dim;
        double dot = 0;
        for (int64_t d = 0; d < a->dim; d++) dot += (double)q[d] * k[d];
        scores[t - from] = (float)(dot * a->scale);
        if (a->cap > 0) scores[t - from] = a->cap * tanhf(scores[t - from] / a->cap);
        if (scores[t - from] > largest) largest = scores[t - from];
    }
    return largest;
}

static void one_token(const tw_attention *a, int64_t i) {
    int64_t to = a->pos + i + 1, from = a->window && to > a->window ? to - a->window : 0;
    float *scores = a->scratch, *out = a->out + i * a->ldo;
    double sum = 0;
    if (from < a->first) from = a->first;
    if (to > a->last) to = a->last;
    float largest = score_keys(a, a->q + i * a->ldq, from, to, scores);
    for (int64_t d = 0; d < a->dim; d++) out[d] = 0;
    for (int64_t t = from; t < to; t++) {
        float e = expf(scores[t - from] - largest);
        const float *v = a->v + t * a->dim;
        sum += e;
        for (int64_t d = 0; d < a->dim; d++) out[d] += e * v[d];
    }
    if (a->partial) {
        a->partial[2 * i] = largest;
        a->partial[2 * i + 1] = (float)sum;
    } else if (from < to) {
        for (int64_t d = 0; d < a->dim; d++) out[d] = (float)(out[d] / sum);
    }
}

void tw_attention_c(const tw_attention *a) {
    for (int64_t i = 0; i < a->n; i++) one_token(a, i);
}
