/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations of products: those that a search found, or else tiles that were measured, or else estimates. */
#include "base/diag.h"
#include "kernels/gemm/estimate.h"
#include "vm/network/machine.h"
#include "vm/prefill/program.h"

#include <stdio.h>
#include <string.h>

/* The best configuration so far. */
typedef struct best {
    const tw_cuda_network *n;
    const tw_gemm_problem *problem;
    tw_gemm_config config;
    double time; /* Its estimated time. 1e30: there is none yet. */
} best;

/* Takes a configuration with as many stages as possible, if it is legal and estimated to be faster. */
static void consider(best *o, tw_gemm_config c) {
    enum { MOST = 8 };
    for (c.stages = MOST; c.stages >= 2; c.stages--) {
        if (!tw_gemm_legal(o->problem, &c, o->n->gpu->target, NULL, NULL)) continue;
        const double time = tw_gemm_estimate(o->problem, &c, &o->n->info);
        if (time >= o->time) return;
        o->config = c;
        o->time = time;
        return;
    }
}

/* Considers the ways to share a tile's work among blocks. */
static void consider_tile(best *o, tw_gemm_config c) {
    static const int splits[] = {1, 2, 3, 4, 6, 8};
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        c.kg = splits[i];
        if (c.kg > 1 && o->n->options.unsplit) continue;
        c.split = c.kg > 1 ? TW_JOIN_CLUSTER : 0;
        consider(o, c);
        c.split = c.kg > 1 ? TW_JOIN_SERIAL : 0;
        if (c.kg > 1) consider(o, c);
    }
    if (c.mma != 2) return;
    c.kg = 1;
    c.split = 0;
    c.persistent = o->n->info.sms;
    for (int way = 0; way < 4; way++) {
        c.pingpong = way % 2;
        c.staged = way < 2 ? TW_GEMM_EXCHANGED : TW_GEMM_DIRECT;
        consider(o, c);
    }
}

/* Chooses by estimates among tiles of warpgroups, or if there are none of warps. */
static bool estimate(const tw_cuda_network *n, const tw_gemm_problem *p, tw_gemm_config *out) {
    static const int rows[] = {64, 128, 256}, columns[] = {16, 32, 64, 96, 128, 192, 256};
    best o = {.n = n, .problem = p, .time = 1e30};
    for (int i = 0; i < 2 * 3 * 7; i++) {
        const tw_gemm_config c = {.mma = 2,
                                  .ms = 64,
                                  .ns = columns[i % 7],
                                  .ml = rows[i / 7 % 3],
                                  .nl = columns[i % 7],
                                  .u = p->type == TW_GEMM_TF32X3 ? 32 : 64,
                                  .ks = 1,
                                  .kl = 1,
                                  .kg = 1,
                                  .vec = 16,
                                  .frag = 16,
                                  .swap = i / 21,
                                  .group = 8};
        consider_tile(&o, c);
    }
    static const int sides[] = {16, 32, 64, 128};
    for (int i = 0; i < 64 && o.time >= 1e30; i++) {
        const tw_gemm_config c = {.mma = 1,
                                  .ms = sides[i % 4] > 32 ? sides[i % 4] / 2 : sides[i % 4],
                                  .ns = sides[i / 4 % 4] > 32 ? sides[i / 4 % 4] / 2 : sides[i / 4 % 4],
                                  .ml = sides[i % 4],
                                  .nl = sides[i / 4 % 4],
                                  .u = i / 16 % 2 ? 32 : 16,
                                  .ks = 1,
                                  .kl = 1,
                                  .kg = 1,
                                  .vec = 16,
                                  .frag = 16,
                                  .copy = i / 32,
                                  .group = 8};
        consider_tile(&o, c);
    }
    *out = o.config;
    return o.time < 1e30;
}

/* Chooses when a product begins. */
static int start_of(const tw_cuda_network *n, const tw_gemm_problem *p, const tw_gemm_config *c) {
    if (c->mma != 2 || n->options.late) return TW_GEMM_LATE;
    return p->weights ? TW_GEMM_AHEAD : TW_GEMM_EARLY;
}

/* Settles a configuration. False: no kernel computes the problem so. */
static bool settle(const tw_cuda_network *n, const tw_gemm_problem *p, tw_gemm_config *c) {
    c->early = start_of(n, p, c);
    if (tw_gemm_legal(p, c, n->gpu->target, NULL, NULL)) return true;
    c->early = TW_GEMM_LATE;
    return tw_gemm_legal(p, c, n->gpu->target, NULL, NULL);
}

static bool by_estimates(const tw_cuda_network *n, const tw_gemm_problem *p, tw_gemm_config *out) {
    const bool tile = !p->pointers && n->gpu->target->sm == 90 &&
                      tw_prefill_tile(p, NULL, n->gpu->target, n->info.sms, out) &&
                      (out->kg == 1 || !n->options.unsplit);
    if (tile && settle(n, p, out)) return true;
    if (estimate(n, p, out) && settle(n, p, out)) return true;
    *out = tw_gemm_config_default(p);
    return tw_gemm_legal(p, out, n->gpu->target, NULL, NULL);
}

/* Takes a choice of the plan. False: it does not compute this problem. */
static bool take(tw_cuda_network *n, const tw_gemm_problem *p, const tw_network_choice *c, tw_network_chosen *out) {
    out->vendor = false;
    if (strcmp(c->kind, "gemm") != 0) return false;
    out->config = tw_gemm_config_default(p);
    if (tw_gemm_config_parse(&out->config, c->configuration, NULL) != TW_OK) return false;
    if (n->options.unsplit && (out->config.kg > 1 || out->config.stream)) return false;
    return settle(n, p, &out->config);
}

tw_status tw_network_choose(tw_cuda_network *n, const tw_gemm_problem *p, tw_network_chosen *out, tw_diag *diag) {
    char words[512];
    tw_gemm_problem plain = *p;
    plain.epilogue = (tw_gemm_epilogue){0};
    plain.weights = false;
    tw_gemm_problem_print(&plain, words, sizeof words);
    for (int i = n->plan ? tw_network_plan_find(n->plan, words, 0) : -1; i >= 0;
         i = tw_network_plan_find(n->plan, words, i + 1))
        if (take(n, p, &n->plan->choices[i], out)) return TW_OK;
    out->vendor = false;
    if (by_estimates(n, p, &out->config)) return TW_OK;
    return tw_fail(diag, TW_ERR_UNSUPPORTED, "no kernel computes \"%s\"", words);
}
