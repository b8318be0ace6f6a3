/* SPDX-License-Identifier: Apache-2.0 */
/* Template: what ways to compute attention share, for each vector_*.h included before it: which keys a token sees, and
   the softmax of a part of its scores. */
#ifndef TW_KERNELS_CPU_ATTENTION_SOFT_H
#define TW_KERNELS_CPU_ATTENTION_SOFT_H

#include "kernels/cpu/variants.h"
#include "kernels/cpu/vector_exp.h"

#include <math.h>

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static int64_t round_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

/* The keys that token i sees. */
static int64_t keys_from(const tw_attention *a, int64_t i) {
    return most(a->first, a->window ? most(0, a->pos + i + 1 - a->window) : 0);
}
static int64_t keys_to(const tw_attention *a, int64_t i) {
    return least(a->last, a->pos + i + 1);
}

/* tanh x = 1 - 2 / (e^2x + 1): within 1e-7 of it, relative to 1, which is what a capped score needs. */
static void cap_scores(float cap, float *scores, int64_t n) {
    const vf one = v_set(1), two = v_set(2), by = v_set(2 / cap), of = v_set(cap);
    for (int64_t i = 0; i < n; i += LANES) {
        vf e = v_exp(v_mul(v_load_part(scores + i, n - i), by));
        v_store_part(scores + i, n - i, v_mul(of, v_sub(one, v_div(two, v_add(e, one)))));
    }
}

/* scores[0 .. n - 1] become exponentials relative to the running maximum; what was summed before is to be scaled by the
   result. */
static float soften(float *scores, int64_t n, float *largest, float *total) {
    vf top = v_set(*largest), sum = v_zero();
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) top = v_max(v_load(scores + i), top);
    float now = v_largest(top);
    for (int64_t j = i; j < n; j++) now = scores[j] > now ? scores[j] : now;
    /* If all scores are -inf, all weights are 0. Subtracting a maximum of -inf from them would give NaN. */
    vf shift = v_set(now == -INFINITY ? 0 : now);
    for (i = 0; i + LANES <= n; i += LANES) {
        vf e = v_exp(v_sub(v_load(scores + i), shift));
        v_store(scores + i, e);
        sum = v_add(sum, e);
    }
    if (i < n) {
        float tail[LANES];
        v_store(tail, v_exp(v_sub(v_load_part(scores + i, n - i), shift)));
        for (int64_t j = 0; j < n - i; j++) scores[i + j] = tail[j];
        sum = v_add(sum, v_load_part(tail, n - i));
    }
    float factor = now == *largest ? 1 : expf(*largest - now);
    *total = *total * factor + v_sum(sum);
    *largest = now;
    return factor;
}

static void finish(const tw_attention *a, int64_t i, const float *sums, float largest, float total) {
    float *out = a->out + i * a->ldo, inverse = 1;
    if (a->partial) {
        a->partial[2 * i] = largest;
        a->partial[2 * i + 1] = total;
    } else if (total > 0) {
        inverse = 1 / total;
    }
    for (int64_t d = 0; d < a->dim; d += LANES)
        v_store_part(out + d, a->dim - d, v_mul(v_load_part(sums + d, a->dim - d), v_set(inverse)));
}

#endif
