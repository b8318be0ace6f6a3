/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations of products: those that a search found, or else tiles that were measured, or else estimates. */
#include "base/diag.h"
#include "kernels/gemm/estimate.h"
#include "tune/gemm_vendor.h"
#include "vm/network/machine.h"
#include "vm/prefill/program.h"

#include <stdlib.h>
#include <string.h>

/* The best configuration so far. */
typedef struct best {
    const tw_cuda_network *n;
    const tw_gemm_problem *problem;
    tw_gemm_config config;
    double time; /* Its estimated time. 1e30: there is none yet. */
} best;

/* Tells whether there is a kernel that leaves no more sums of a row than a program has memory for. A configuration from
   a file may have tiles of no columns, of which nothing can be counted. */
static bool computes(const tw_cuda_network *n, const tw_gemm_problem *p, const tw_gemm_config *c) {
    if (!tw_gemm_legal(p, c, n->gpu->target, NULL, NULL)) return false;
    return !p->epilogue.squares || tw_network_parts(p, c) <= tw_program_parts(p->n);
}

bool tw_network_may_split(const tw_cuda_network *n, const tw_gemm_problem *p) {
    return !n->options.unsplit && (p->batch == 1 || !n->options.unsplit_batches);
}

/* Takes a configuration with as many stages as possible, if it is legal and estimated to be faster. */
static void consider(best *o, tw_gemm_config c) {
    enum { MOST = 8 };
    for (c.stages = MOST; c.stages >= 2; c.stages--) {
        if (!computes(o->n, o->problem, &c)) continue;
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
        if (c.kg > 1 && !tw_network_may_split(o->n, o->problem)) continue;
        c.split = c.kg > 1 ? TW_JOIN_CLUSTER : 0;
        consider(o, c);
        c.split = c.kg > 1 ? TW_JOIN_SERIAL : 0;
        if (c.kg > 1) consider(o, c);
    }
    if (c.mma != 2) return;
    c.kg = 1;
    c.split = 0;
    c.persistent = o->n->info.sms;
    static const int stores[] = {TW_GEMM_EXCHANGED, TW_GEMM_DIRECT, TW_GEMM_BOXED};
    for (int way = 0; way < 2 * 3; way++) {
        c.pingpong = way % 2;
        c.staged = stores[way / 2];
        consider(o, c);
    }
}

/* A block's tile of warpgroups, each of `ms` of its rows, with nothing chosen that depends on the problem's extents. */
static tw_gemm_config tile_of(const tw_gemm_problem *p, int ms, int rows, int columns) {
    return (tw_gemm_config){.mma = 2,
                            .ms = ms,
                            .ns = columns,
                            .ml = rows,
                            .nl = columns,
                            .u = p->type == TW_GEMM_TF32X3 ? 32 : 64,
                            .ks = 1,
                            .kl = 1,
                            .kg = 1,
                            .vec = 16,
                            .frag = 16,
                            .group = 8};
}

/* Chooses by estimates among tiles of warpgroups, or if there are none of warps. */
static bool estimate(const tw_cuda_network *n, const tw_gemm_problem *p, tw_gemm_config *out) {
    static const int rows[] = {64, 128, 256}, columns[] = {16, 32, 64, 96, 128, 192, 256};
    best o = {.n = n, .problem = p, .time = 1e30};
    for (int i = 0; i < 2 * 3 * 7; i++) {
        tw_gemm_config c = tile_of(p, 64, rows[i / 7 % 3], columns[i % 7]);
        c.swap = i / 21;
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

/* Tells whether each run zeroes a product's counters of splits, which a late start then waits for. */
static bool is_cleared(const tw_cuda_network *n, const tw_gemm_problem *p, const tw_gemm_config *c) {
    tw_gemm_config late = *c;
    tw_gemm_resources need;
    late.early = TW_GEMM_LATE;
    return n->options.clear && tw_gemm_legal(p, &late, n->gpu->target, &need, NULL) && need.counter_bytes;
}

/* Chooses when a product begins. */
static int start_of(const tw_cuda_network *n, const tw_gemm_problem *p, const tw_gemm_config *c) {
    if (c->mma != 2 || n->options.late || is_cleared(n, p, c)) return TW_GEMM_LATE;
    return p->weights ? TW_GEMM_AHEAD : TW_GEMM_EARLY;
}

/* Completes a configuration. False: no kernel computes the problem so. */
static bool complete(const tw_cuda_network *n, const tw_gemm_problem *p, tw_gemm_config *c) {
    c->early = start_of(n, p, c);
    if (computes(n, p, c)) return true;
    c->early = TW_GEMM_LATE;
    return computes(n, p, c);
}

/* Tells whether warpgroups that take tiles by turns have one tile for both. One of them then idles. */
static bool idles(const tw_cuda_network *n, const tw_gemm_problem *p, const tw_gemm_config *c) {
    tw_gemm_resources need;
    return c->pingpong && tw_gemm_legal(p, c, n->gpu->target, &need, NULL) && need.tiles <= n->info.sms;
}

int tw_network_shared_tiles(const tw_cuda_network *n, const tw_gemm_problem *p, tw_gemm_config out[TW_NETWORK_SHARED]) {
    static const int columns[TW_NETWORK_SHARED] = {96, 128, 192, 256};
    int count = 0;
    for (int i = 0; i < TW_NETWORK_SHARED; i++) {
        best o = {.n = n, .problem = p, .time = 1e30};
        tw_gemm_config c = tile_of(p, 64, 128, columns[i]);
        c.staged = TW_GEMM_BOXED;
        consider(&o, c);
        if (o.time < 1e30 && complete(n, p, &o.config)) out[count++] = o.config;
    }
    return count;
}

/* Chooses the best of these tiles by estimates, unless that takes much longer than `time`. What is done to a residual
   takes a good part of a tile's time, of which estimates know nothing. */
static bool share_tile(const tw_cuda_network *n, const tw_gemm_problem *p, double time, tw_gemm_config *out) {
    const double most = 1.15;
    tw_gemm_config all[TW_NETWORK_SHARED];
    double least = most * time;
    bool found = false;
    for (int i = tw_network_shared_tiles(n, p, all) - 1; i >= 0; i--) {
        const double of = tw_gemm_estimate(p, &all[i], &n->info);
        if (of >= least) continue;
        least = of;
        *out = all[i];
        found = true;
    }
    return found;
}

bool tw_network_estimate(const tw_cuda_network *n, const tw_gemm_problem *p, tw_gemm_config *out) {
    const bool tile = !p->pointers && n->gpu->target->sm == 90 &&
                      tw_prefill_tile(p, NULL, n->gpu->target, n->info.sms, out) &&
                      (out->kg == 1 || tw_network_may_split(n, p));
    if (tile && complete(n, p, out)) {
        tw_gemm_config other;
        if (!idles(n, p, out)) return true;
        if (p->epilogue.residual && share_tile(n, p, tw_gemm_estimate(p, out, &n->info), &other))
            *out = other;
        else if (estimate(n, p, &other) && complete(n, p, &other) &&
                 tw_gemm_estimate(p, &other, &n->info) < tw_gemm_estimate(p, out, &n->info))
            *out = other;
        return true;
    }
    if (estimate(n, p, out) && complete(n, p, out)) return true;
    *out = tw_gemm_config_default(p);
    return computes(n, p, out);
}

/* Considers a tile whose epilogue overlaps the products of the next one. */
static best overlap(const tw_cuda_network *n, const tw_gemm_problem *p, int rows, int columns) {
    static const int ways[] = {TW_GEMM_BOXED, TW_GEMM_EXCHANGED};
    best o = {.n = n, .problem = p, .time = 1e30};
    tw_gemm_config c = tile_of(p, rows, rows, columns);
    c.persistent = n->info.sms;
    c.pingpong = 1;
    for (int i = 0; i < 2; i++) {
        c.staged = ways[i];
        consider(&o, c);
    }
    if (o.time < 1e30 && (idles(n, p, &o.config) || !complete(n, p, &o.config))) o.time = 1e30;
    return o;
}

int tw_network_overlapping(const tw_cuda_network *n, const tw_gemm_problem *p,
                           tw_gemm_config out[TW_NETWORK_OVERLAPPING]) {
    enum { ROWS = 2, COLUMNS = 5, ALL = ROWS * COLUMNS };
    static const int rows[ROWS] = {64, 128}, columns[COLUMNS] = {64, 96, 128, 192, 256};
    best all[ALL];
    int count = 0;
    for (int i = 0; i < ALL; i++) all[i] = overlap(n, p, rows[i % ROWS], columns[i / ROWS]);
    for (; count < TW_NETWORK_OVERLAPPING; count++) {
        int at = 0;
        for (int i = 1; i < ALL; i++)
            if (all[i].time < all[at].time) at = i;
        if (all[at].time >= 1e30) break;
        out[count] = all[at].config;
        all[at].time = 1e30;
    }
    return count;
}

/* Reads a choice of our own kernels. False: it does not compute this problem. */
static bool take_own(tw_cuda_network *n, const tw_gemm_problem *p, const tw_network_choice *c, tw_gemm_config *out) {
    *out = tw_gemm_config_default(p);
    if (strcmp(c->kind, "gemm") != 0 || tw_gemm_config_parse(out, c->configuration, NULL) != TW_OK) return false;
    if (!tw_network_may_split(n, p) && (out->kg > 1 || out->stream)) return false;
    return complete(n, p, out);
}

/* Reads a choice of the vendor's algorithms. False: this version of the library does not compute the problem so. */
static bool take_vendor(tw_cuda_network *n, const tw_gemm_problem *p, const tw_network_choice *c,
                        tw_cublaslt_algorithm *out) {
    const tw_gemm_problem plain = tw_network_plain(p);
    tw_cublaslt_problem problem;
    tw_cublaslt_check unused;
    uint32_t *const to[] = {&out->id,     &out->tile,   &out->split, &out->reduction, &out->swizzle,
                            &out->custom, &out->stages, &out->inner, &out->cluster};
    const char *at = c->configuration;
    if (strcmp(c->kind, "cublaslt") != 0 || !tw_network_library(n)) return false;
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        char *end;
        *to[i] = (uint32_t)strtoul(at, &end, 10);
        if (end == at) return false;
        at = end;
    }
    if (!tw_network_may_split(n, p) && out->split > 1) return false;
    return tw_gemm_vendor_problem(&plain, &problem) &&
           tw_cublaslt_fits(n->weights->vendor, &problem, out, &unused, NULL) == TW_OK;
}

/* Estimates the microseconds of a map behind a product by the vendor. */
static double epilogue_us(const tw_gemm_problem *p) {
    const double launch = 1.5, bytes = 4e6 /* That memory moves in a microsecond. */;
    const tw_gemm_epilogue *e = &p->epilogue;
    const double size = p->out == TW_T_f32 ? 4 : 2, passes = 2 + e->mul + e->residual;
    if (!e->bias && !e->mul && !e->residual && !e->activation) return 0;
    return launch + passes * size * (double)(p->m * p->n * p->batch) / bytes;
}

bool tw_network_own_alone(const tw_gemm_problem *p) {
    return p->epilogue.gated || p->pointers || p->sums || p->epilogue.squares;
}

/* Chooses among the plan's entries of a problem. `with_map`: the vendor's times are with the map behind it. False: none
   computes it. */
static bool by_plan(tw_cuda_network *n, const tw_gemm_problem *p, const char *words, bool with_map,
                    tw_network_chosen *out) {
    const int asked = n->options.by ? n->options.by : TW_NETWORK_OWN | TW_NETWORK_VENDOR;
    const int by = tw_network_own_alone(p) ? asked & ~TW_NETWORK_VENDOR : asked;
    const double map_us = with_map ? 0 : epilogue_us(p);
    double least = 1e30;
    for (int i = tw_network_plan_find(n->plan, words, 0); i >= 0; i = tw_network_plan_find(n->plan, words, i + 1)) {
        const tw_network_choice *c = &n->plan->choices[i];
        tw_network_chosen x = {.entry = i + 1};
        const double own_us = c->settled ? 0 : c->us, vendor_us = c->settled ? 0 : c->us + map_us;
        if (by & TW_NETWORK_OWN && own_us < least && take_own(n, p, c, &x.config)) {
            *out = x;
            least = own_us;
        } else if (by & TW_NETWORK_VENDOR && vendor_us < least && take_vendor(n, p, c, &x.algorithm)) {
            x.vendor = true;
            *out = x;
            least = vendor_us;
        }
    }
    return least < 1e30;
}

tw_gemm_problem tw_network_plain(const tw_gemm_problem *p) {
    tw_gemm_problem plain = *p;
    plain.epilogue = (tw_gemm_epilogue){0};
    plain.centred = plain.norm_residual = false;
    plain.sums = 0;
    plain.eps = 0;
    return plain;
}

/* Tells whether something is done to C that the vendor needs a map for. */
static bool has_map(const tw_gemm_problem *p) {
    const tw_gemm_epilogue *e = &p->epilogue;
    return e->bias || e->mul || e->residual || e->activation;
}

tw_status tw_network_choose(tw_cuda_network *n, const tw_gemm_problem *p, const tw_gemm_problem *searched,
                            tw_network_chosen *out, tw_diag *diag) {
    char words[512];
    const tw_gemm_problem plain = tw_network_plain(p);
    tw_cublaslt_problem vendor;
    tw_gemm_problem_print(searched, words, sizeof words);
    if (n->plan && by_plan(n, p, words, has_map(searched), out)) return TW_OK;
    /* Plans of earlier versions have products alone, and only with activations and gates what is done to C. */
    tw_gemm_problem earlier = plain;
    if (p->epilogue.activation || p->epilogue.gated) earlier.epilogue = searched->epilogue;
    earlier.epilogue.squares = earlier.epilogue.means = earlier.weights = false;
    tw_gemm_problem_print(&earlier, words, sizeof words);
    if (n->plan && by_plan(n, p, words, has_map(&earlier), out)) return TW_OK;
    *out = (tw_network_chosen){.vendor = n->options.by == TW_NETWORK_VENDOR, .first = true};
    if (out->vendor && !tw_network_own_alone(p) && tw_gemm_vendor_problem(&plain, &vendor) && tw_network_library(n))
        return TW_OK;
    out->vendor = false;
    if (tw_network_estimate(n, p, &out->config)) return TW_OK;
    return tw_fail(diag, TW_ERR_UNSUPPORTED, "no kernel computes \"%s\"", words);
}
