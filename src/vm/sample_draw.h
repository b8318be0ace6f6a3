/* SPDX-License-Identifier: Apache-2.0 */
/* The processor's draw, compiled once for each instruction set with DRAW its name: fused operations are calls where
   there is no instruction for them. */
#ifndef TW_VM_SAMPLE_DRAW_H
#define TW_VM_SAMPLE_DRAW_H

#include "vm/sample.h"

typedef struct tw_sample_candidate {
    uint64_t rank;
    float z;
    uint32_t mass;
} tw_sample_candidate;

typedef int32_t tw_sample_drawer(const tw_sample_rules *r, const float *logits, const uint32_t *counts, int64_t vocab,
                                 int64_t position, void *room);
tw_sample_drawer tw_sample_draw_c, tw_sample_draw_avx2;

#ifdef DRAW

/* Sinks list[at] into a heap of n whose root comes before all. */
static void sink(tw_sample_candidate *list, int64_t n, int64_t at) {
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && list[child + 1].rank < list[child].rank) child++;
        if (list[at].rank < list[child].rank) return;
        tw_sample_candidate t = list[at];
        list[at] = list[child];
        list[child] = t;
    }
}

/* A draw in progress: the best score so far, and above which bits no candidate can reach it. */
typedef struct draw {
    const tw_sample_rules *rules;
    tw_sample_key key;
    float largest, score;
    uint32_t most;
    int32_t id;
} draw;
static void consider(draw *d, float z, int32_t id) {
    enum { HIGHEST = 33 /* noise is below it */ };
    if (fmaf(z, d->rules->scale, (float)HIGHEST) < d->score) return;
    const uint32_t bits = tw_sample_bits(d->key, (uint32_t)id);
    if (bits > d->most) return;
    const float score = fmaf(z, d->rules->scale, tw_sample_noise(bits));
    if (!(score > d->score || (score == d->score && id < d->id))) return;
    d->score = score;
    d->id = id;
    /* The largest logit itself would need noise of so much, and noise is below -log2 of the bits' share. */
    const float needed = score - d->largest * d->rules->scale;
    if (needed > 1 && fabsf(d->largest * d->rules->scale) < 0x1p20f)
        d->most = (uint32_t)(exp2(33 - (double)needed) + 2);
}

static int32_t draw_all(draw *d, const float *z, int64_t vocab) {
    for (int64_t i = 0; i < vocab; i++)
        if (z[i] > TW_SAMPLE_LEAST) consider(d, z[i], (int32_t)i);
    return d->id;
}

static int32_t draw_cut(draw *d, const float *z, int64_t vocab, tw_sample_candidate *list) {
    const tw_sample_rules *r = d->rules;
    int64_t n = 0;
    uint64_t sum = 0;
    for (int64_t i = 0; i < vocab; i++) {
        if (!(z[i] > TW_SAMPLE_LEAST)) continue;
        const int32_t far = tw_sample_distance(r, d->largest, z[i]);
        const uint32_t mass = r->top_p ? tw_sample_mass(far) : 0;
        if (r->top_p ? !mass : far > r->min_p) continue; /* no cut leaves it */
        list[n++] = (tw_sample_candidate){tw_sample_rank(d->largest, z[i], (uint32_t)i), z[i], mass};
        sum += mass;
    }
    int64_t k = r->top_k && r->top_k < n ? r->top_k : n, from = 0;
    uint64_t before = 0;
    if (k < n || r->top_p) {
        /* The first k, or until the mass is reached, at the list's end, the first last. */
        for (int64_t i = n / 2; i-- > 0;) sink(list, n, i);
        if (k < n) sum = 0;
        const uint64_t enough = k == n && r->top_p ? tw_sample_share(sum, r->top_p) : UINT64_MAX;
        for (from = n; from > 0 && n - from < k && before < enough;) {
            tw_sample_candidate t = list[0];
            list[0] = list[--from];
            list[from] = t;
            sink(list, from, 0);
            before += t.mass;
        }
        if (k < n && r->top_p) {
            const uint64_t share = tw_sample_share(before, r->top_p);
            int64_t at = n;
            for (before = 0; at > from && before < share;) before += list[--at].mass;
            from = at;
        }
    }
    for (int64_t i = n; i-- > from;)
        if (tw_sample_distance(r, d->largest, list[i].z) <= r->min_p)
            consider(d, list[i].z, (int32_t)(list[i].rank & UINT32_MAX));
    return d->id;
}

int32_t DRAW(const tw_sample_rules *r, const float *logits, const uint32_t *counts, int64_t vocab, int64_t position,
             void *room) {
    tw_sample_candidate *list = room;
    float *penalised = (float *)(void *)(list + vocab);
    if (r->mode & TW_SAMPLE_PENALISES && counts) {
        for (int64_t i = 0; i < vocab; i++) penalised[i] = tw_sample_penalise(r, logits[i], counts[i]);
        logits = penalised;
    }
    draw d = {.rules = r, .largest = TW_SAMPLE_LEAST, .score = TW_SAMPLE_LEAST, .most = UINT32_MAX};
    for (int64_t i = 0; i < vocab; i++)
        if (logits[i] > d.largest) {
            d.largest = logits[i];
            d.id = (int32_t)i;
        }
    if (!(r->mode & TW_SAMPLE_DRAWS) || !(d.largest > TW_SAMPLE_LEAST)) return d.id;
    d.key = tw_sample_key_of(r, position);
    consider(&d, d.largest, d.id); /* what follows is seldom better, and then not looked at for long */
    return r->mode & TW_SAMPLE_CUTS ? draw_cut(&d, logits, vocab, list) : draw_all(&d, logits, vocab);
}

#endif
#endif
