/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_draw.h"

#include "base/team.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

int tw_gemm_drawn_by_score(const void *a, const void *b) {
    double x = ((const tw_gemm_drawn *)a)->score, y = ((const tw_gemm_drawn *)b)->score;
    return (x > y) - (x < y);
}

bool tw_gemm_drawer_allows(const tw_gemm_drawer *d, const tw_gemm_config *c) {
    tw_gemm_resources need;
    const tw_target *t = d->space.device->target;
    if (d->options->deterministic && c->split == TW_JOIN_ATOMIC) return false;
    /* Serial splits only pay with few parts, since their blocks wait for one another. */
    if (c->kg > 16 && c->split == TW_JOIN_SERIAL) return false;
    return tw_gemm_legal(d->space.problem, c, t, &need, NULL) && need.grid < 1 << 22 && tw_gemm_rig_fits(d->rig, &need);
}

static int pick(tw_gemm_drawer *d, const int *values, int n) {
    return values[tw_random_below(&d->random, (uint64_t)n)];
}
#define PICK(d, ...) pick(d, (const int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

/* Draws a configuration for warpgroups: few wide tiles, or many small ones with much data in flight. */
static tw_gemm_config draw_warpgroups(tw_gemm_drawer *d) {
    tw_gemm_config c = {.mma = 2,
                        .ms = PICK(d, 64, 64, 64, 128),
                        .nl = PICK(d, 8, 16, 24, 32, 40, 64, 64, 80, 96, 112, 128, 128, 144, 160, 176, 192, 224, 256),
                        .u = PICK(d, 32, 64, 64, 64, 128) * (d->space.problem->type == TW_GEMM_E4M3 ? 2 : 1),
                        .ks = 1,
                        .kl = 1,
                        .kg = 1,
                        .vec = 16,
                        .frag = 16,
                        .stages = PICK(d, 2, 3, 4, 5, 6, 8, 10, 12),
                        .split = PICK(d, 0, 2, 3, 3),
                        .swap = PICK(d, 0, 1),
                        .group = PICK(d, 1, 4, 8, 16),
                        .staged = PICK(d, 0, 1, 2, 3, 3),
                        .early = PICK(d, 0, 1, 2),
                        .blocks = PICK(d, 0, 0, 1, 2, 3)};
    if (PICK(d, 0, 1)) c.multicast = PICK(d, 2, 2, 4);
    if (PICK(d, 0, 0, 1)) {
        c.persistent = d->space.device->sms * PICK(d, 1, 1, 2);
        c.pingpong = PICK(d, 0, 1);
        c.stream = c.pingpong ? 0 : PICK(d, 0, 1, 2);
        c.multicast = c.split = 0;
    }
    if (c.split == TW_JOIN_CLUSTER) c.staged = c.multicast = 0;
    if (d->space.problem->tape.warps) c.u = PICK(d, 32, 64, 64, 128);
    if (d->space.problem->narrow) {
        c.swap = 1;
        c.u = PICK(d, 64, 128, 128, 256);
    }
    const bool terms = d->space.problem->type == TW_GEMM_TF32X3;
    if (terms) {
        c.ms = 64;
        c.nl = PICK(d, 8, 16, 24, 32, 48, 64, 64, 80, 96, 128, 128, 160);
        c.u = 32;
        c.multicast = 0;
    }
    c.ns = c.nl;
    c.ml = c.ms * (terms ? PICK(d, 1, 2, 2, 3) : PICK(d, 1, 1, 2));
    return c;
}

/* Draws from configurations that usually do well: nearly square tiles of a thread or warp, one to four of them along
   each side of a block, wide copies, and as many splits along k as fill the device once or twice. */
static bool draw_regular(tw_gemm_drawer *d, tw_gemm_config *c) {
    const tw_gemm_problem *p = d->space.problem;
    const tw_cuda_info *info = d->space.device;
    const bool mma = p->type != TW_GEMM_F32;
    *c = (tw_gemm_config){.mma = mma,
                          .ms = mma ? PICK(d, 16, 32, 32, 64, 64) : PICK(d, 2, 4, 8, 8, 16),
                          .ns = mma ? PICK(d, 8, 16, 32, 32, 64) : PICK(d, 2, 4, 8, 8, 16),
                          .u = PICK(d, 8, 16, 32, 64, 128),
                          .ks = 1,
                          .kl = PICK(d, 1, 1, 1, 2, 4),
                          .kg = 1,
                          .vec = PICK(d, 16, 16, 16, 1), /* 1: a single element. */
                          .frag = PICK(d, 4, 8, 16),
                          .copy = mma ? 0 : PICK(d, 0, 1),
                          .stages = PICK(d, 2, 3, 4, 5, 6),
                          .split = PICK(d, 0, 2, 3, 3),
                          .swap = PICK(d, 0, 1),
                          .group = PICK(d, 1, 4, 8),
                          .blocks = PICK(d, 0, 1, 2, 3)};
    if (c->copy) c->stages = PICK(d, 1, 2, 2);
    c->ml = c->ms * (mma ? PICK(d, 1, 2, 4) : PICK(d, 4, 8, 16));
    c->nl = c->ns * (mma ? PICK(d, 1, 2, 4) : PICK(d, 4, 8, 16));
    const int kept_mma = d->options->keep ? d->options->keep->mma : -1;
    const bool bytes = p->type == TW_GEMM_E4M3;
    const bool groups =
        (p->type == TW_GEMM_F16 || p->type == TW_GEMM_BF16 || p->type == TW_GEMM_TF32X3) && info->target->sm == 90;
    if (kept_mma == 2 || (kept_mma < 0 && (bytes || p->narrow || p->tape.warps || (groups && PICK(d, 0, 1)))))
        *c = draw_warpgroups(d);
    for (int i = 0; i < tw_gemm_space.n; i++)
        if (d->keep[i] >= 0) tw_space_set(&tw_gemm_space, c, i, d->keep[i]);
    const tw_gemm_config drawn = *c; /* The plain spelling of one part forgets how parts are joined. */
    *c = tw_gemm_config_plain(p, *c);
    tw_gemm_resources need;
    if (!tw_gemm_legal(p, c, info->target, &need, NULL)) return false;
    int fit = tw_target_blocks(info->target, need.threads, need.registers, (int)need.shared_bytes);
    int64_t slots = (int64_t)info->sms * (fit < 1 ? 1 : fit) * PICK(d, 1, 1, 2) / PICK(d, 1, 1, 2);
    int64_t kg = c->persistent ? 1 : slots / need.tiles;
    if (drawn.split == TW_JOIN_CLUSTER && kg > TW_JOIN_BLOCKS) kg = TW_JOIN_BLOCKS;
    const bool kept = d->options->keep && d->options->keep->kg >= 0;
    if (kg > 1 && kg < 512 && !kept) {
        *c = drawn;
        c->kg = (int)kg;
        *c = tw_gemm_config_plain(p, *c);
    }
    return tw_gemm_legal(p, c, info->target, NULL, NULL);
}

/* ---- many */

enum { PART = 100 /* Draws that have a generator of their own. */ };

typedef struct drawing {
    const tw_gemm_drawer *drawer;
    uint64_t seed;
    int sampled;
    tw_gemm_drawn *out; /* Part i begins at i * PART. */
    int *counts;        /* By part: configurations that were drawn. */
    _Atomic int next;   /* The next part. */
} drawing;

static int draw_part(tw_gemm_drawer *d, int sampled, tw_gemm_drawn *out) {
    /* Of all that there is, products with norms have too few legal configurations to wait for one. */
    const tw_gemm_problem *p = d->space.problem;
    const bool norms = p->sums || p->epilogue.squares;
    int n = 0;
    for (int i = 0; i < sampled; i++) {
        tw_gemm_config c;
        bool drawn = false;
        for (int tries = 0; (i % 2 || norms) && tries < 200 && !drawn; tries++) drawn = draw_regular(d, &c);
        if (!drawn && norms) continue;
        if (!drawn && !tw_space_draw(&tw_gemm_space, &d->space, d->keep, &d->random, 20000, &c)) continue;
        if (!tw_gemm_drawer_allows(d, &c)) continue;
        out[n++] = (tw_gemm_drawn){c, tw_gemm_space.estimate(&d->space, &c)};
    }
    return n;
}

static void draw_parts(void *context, int member) {
    drawing *of = context;
    (void)member;
    for (int i; (i = atomic_fetch_add(&of->next, 1)) * PART < of->sampled;) {
        tw_gemm_drawer own = *of->drawer;
        const int left = of->sampled - i * PART;
        own.random = tw_random_seed(of->seed + ((uint64_t)i << 32));
        of->counts[i] = draw_part(&own, left < PART ? left : PART, of->out + (size_t)i * PART);
    }
}

int tw_gemm_draw(const tw_gemm_drawer *d, uint64_t seed, int sampled, tw_gemm_drawn *out) {
    const int parts = (sampled + PART - 1) / PART;
    tw_team *team = NULL;
    drawing of = {.drawer = d, .seed = seed, .sampled = sampled, .out = out};
    of.counts = calloc((size_t)parts + 1, sizeof *of.counts);
    if (!of.counts) return -1;
    if (parts > 1 && tw_team_start(&team, 0, false, NULL) == TW_OK)
        tw_team_run(team, draw_parts, &of);
    else
        draw_parts(&of, 0);
    tw_team_stop(team);
    int n = 0;
    for (int i = 0; i < parts; i++) {
        memmove(out + n, out + (size_t)i * PART, (size_t)of.counts[i] * sizeof *out);
        n += of.counts[i];
    }
    free(of.counts);
    return n;
}

/* Tells whether two configurations differ only in details. Their tiles are the same, and so is most of the estimate. */
static bool alike(const tw_gemm_config *a, const tw_gemm_config *b) {
    if (a->mma == 2 && (a->u != b->u || a->swap != b->swap || a->multicast != b->multicast ||
                        a->persistent != b->persistent || a->pingpong != b->pingpong || a->stream != b->stream))
        return false;
    return a->mma == b->mma && a->ms == b->ms && a->ns == b->ns && a->ml == b->ml && a->nl == b->nl && a->kl == b->kl;
}

/* Moves the `wanted` most promising by estimate to the front. At most `most` of them are alike. */
static void put_promising_first(tw_gemm_drawn *e, int n, int wanted, int most) {
    qsort(e, (size_t)n, sizeof *e, tw_gemm_drawn_by_score);
    int have = 0;
    for (int i = 0; i < n && have < wanted; i++) {
        int similar = 0;
        for (int j = 0; j < have; j++) similar += alike(&e[j].config, &e[i].config);
        if (similar >= most) continue;
        tw_gemm_drawn swap = e[have];
        e[have++] = e[i];
        e[i] = swap;
    }
}

void tw_gemm_drawn_sort(tw_gemm_drawn *e, int n, int wanted, tw_random *random) {
    const int promising = wanted * 7 / 8;
    put_promising_first(e, n, promising, 3);
    for (int i = promising; i < wanted; i++) {
        int j = i + (int)tw_random_below(random, (uint64_t)(n - i));
        tw_gemm_drawn swap = e[i];
        e[i] = e[j];
        e[j] = swap;
    }
}
