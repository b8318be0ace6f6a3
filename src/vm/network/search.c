/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring how to compute a product with a cold L2: our own configurations, drawn and pruned by estimates. */
#include "base/clock.h"
#include "base/diag.h"
#include "tune/gemm_bench.h"
#include "vm/network/machine.h"

#include <math.h>
#include <stdio.h>

enum {
    MEASURED = 64,        /* Configurations that are built. */
    SAMPLED = 6400,       /* Those from which they are taken. */
    GENERATIONS = 2,      /* Of variations of the fastest. */
    FINALISTS = 8,        /* Timed again, and entered into the plan. */
    WORKSPACE = 64 << 20, /* Bytes of splits. */
    LEAST_POOL = 256 << 20,
};

/* Configurations that are this many times slower than the fastest so far are sampled once. */
static const double give_up = 1.5;

static double since(int64_t began) {
    return (double)(tw_now_ns() - began) * 1e-9;
}

tw_cublaslt *tw_network_library(tw_cuda_network *n) {
    tw_network_weights *w = n->weights;
    if (!w->asked && n->gpu->cuda) tw_cublaslt_open(&w->vendor, n->gpu->cuda, NULL);
    w->asked = true;
    return w->vendor;
}

/* Enters a way into the plan. */
static tw_status enter(tw_cuda_network *n, const char *kind, const char *words, const char *configuration, double us,
                       tw_diag *diag) {
    return tw_network_plan_add(n->plan, &(tw_network_choice){kind, words, configuration, us, false}, diag);
}

/* Enters the finalists, the fastest first. What cannot be timed again is left out. */
static tw_status enter_own(tw_cuda_network *n, tw_gemm_rig *rig, tw_gemm_found *found, int count, const char *words,
                           tw_diag *diag) {
    const int64_t began = tw_now_ns();
    double us[FINALISTS];
    tw_status st = TW_OK;
    for (int i = 0; i < count; i++) {
        tw_gemm_own own = {0};
        tw_stats stats = {0};
        us[i] = 1e30;
        if (tw_gemm_own_load(&own, rig, &found[i].config, found[i].cubin.data, found[i].cubin.bytes, NULL) == TW_OK) {
            const tw_gemm_candidate x = tw_gemm_own_candidate(&own);
            if (tw_gemm_time(rig, &x, &stats, NULL) == TW_OK) us[i] = stats.median;
        }
        tw_gemm_own_unload(&own);
    }
    for (int k = 0; k < count && st == TW_OK; k++) {
        char text[512];
        int best = 0;
        for (int i = 1; i < count; i++)
            if (us[i] < us[best]) best = i;
        if (us[best] >= 1e30) break;
        tw_gemm_config_print(&found[best].config, text, sizeof text);
        st = enter(n, "gemm", words, text, us[best], diag);
        us[best] = 1e30;
    }
    n->plan->costs.again += since(began);
    return st;
}

static void count_costs(tw_network_plan *p, const tw_gemm_search_report *r) {
    p->measured += r->built;
    p->cut += r->cut;
    p->costs.draw += r->draw_seconds;
    p->costs.wait += r->wait_seconds;
    p->costs.load += r->load_seconds;
    p->costs.check += r->check_seconds;
    p->costs.time += r->time_seconds;
    p->costs.threads += r->build_seconds + r->compile_seconds;
}

/* Keeps what all configurations of products with norms have, of which few others would be legal. */
static void keep_norms(const tw_gemm_problem *p, tw_gemm_config *keep) {
    if (!p->sums && !p->epilogue.squares) return;
    keep->mma = 2;
    if (p->centred || p->epilogue.means) keep->swap = 0;
}

static tw_status search_own(tw_cuda_network *n, tw_gemm_rig *rig, const tw_gemm_data *d, const char *words,
                            tw_diag *diag) {
    tw_gemm_found found[FINALISTS] = {0};
    tw_gemm_search_report report;
    tw_gemm_config keep = tw_gemm_config_any(), known[1 + TW_NETWORK_OVERLAPPING + TW_NETWORK_SHARED];
    int count = 0;
    if (!tw_network_may_split(n, &d->problem)) keep.kg = 1, keep.stream = 0;
    keep_norms(&d->problem, &keep);
    const int measured = n->options.measured > 0 ? n->options.measured : MEASURED;
    tw_gemm_search_options o = {.sampled = SAMPLED / MEASURED * measured,
                                .measured = measured,
                                .generations = GENERATIONS,
                                .seed = 1,
                                .deterministic = true,
                                .give_up = give_up,
                                .seconds = n->searching.seconds,
                                .compiler = n->searching.compiler,
                                .keep = &keep,
                                .known = known};
    o.offspring = o.measured / 3;
    o.n_known = tw_network_estimate(n, &d->problem, &known[0]);
    if (d->problem.epilogue.activation) o.n_known += tw_network_overlapping(n, &d->problem, &known[o.n_known]);
    if (d->problem.epilogue.residual) o.n_known += tw_network_shared_tiles(n, &d->problem, &known[o.n_known]);
    tw_status st = tw_gemm_search(rig, n->gpu->cuda, d, &o, FINALISTS, found, &count, &report, diag);
    count_costs(n->plan, &report);
    if (st == TW_OK) st = enter_own(n, rig, found, count, words, diag);
    for (int i = 0; i < count; i++) tw_cubin_free(&found[i].cubin);
    return st;
}

/* Makes a pool that is large enough for a problem with a cold L2. False: the device computes no reference of it. */
static bool pool_serves(tw_cuda_network *n, const tw_gemm_problem *p) {
    tw_network_searching *s = &n->searching;
    const size_t need = 2 * tw_gemm_pool_need(p) + 2 * (size_t)n->info.l2_bytes;
    if (!tw_gemm_pool_has(p->type)) return false;
    if (!s->pool || s->type != p->type || s->bytes < need) {
        tw_gemm_pool_free(s->pool);
        s->pool = NULL;
        s->type = p->type;
        s->bytes = need > LEAST_POOL ? need : LEAST_POOL;
        if (tw_gemm_pool_make(&s->pool, n->gpu->cuda, p->type, s->bytes, 1, NULL) != TW_OK) return false;
    }
    return tw_gemm_pool_covers(s->pool, p, NULL) == TW_OK;
}

/* Makes operands and the right result, on the device where it can be. */
static tw_status make_rig(tw_cuda_network *n, const tw_gemm_problem *p, tw_gemm_data *d, tw_gemm_rig **rig,
                          tw_diag *diag) {
    const int64_t began = tw_now_ns();
    *d = (tw_gemm_data){.problem = *p};
    const bool pooled = pool_serves(n, p);
    tw_status st = pooled ? TW_OK : tw_gemm_data_make(d, p, 1, diag);
    if (st == TW_OK && pooled)
        st = tw_gemm_rig_make_of(rig, n->gpu->cuda, n->searching.pool, p, 0, WORKSPACE, diag);
    else if (st == TW_OK)
        st = tw_gemm_rig_make(rig, n->gpu->cuda, d, WORKSPACE, diag);
    n->plan->costs.refer += since(began);
    return st;
}

tw_status tw_network_search(tw_cuda_network *n, const tw_gemm_problem *p, const char *words, tw_diag *diag) {
    const int64_t began = tw_now_ns();
    tw_gemm_data d;
    tw_gemm_rig *rig = NULL;
    const int by = n->options.by ? n->options.by : TW_NETWORK_OWN | TW_NETWORK_VENDOR;
    tw_status st = make_rig(n, p, &d, &rig, diag);
    if (n->searching.seconds > 0) n->searching.seconds = fmax(n->searching.seconds - since(began), 1e-9);
    if (st == TW_OK && by & TW_NETWORK_OWN) st = search_own(n, rig, &d, words, diag);
    if (st == TW_OK && by & TW_NETWORK_VENDOR) st = tw_network_search_vendor(n, rig, p, words, diag);
    tw_gemm_rig_free(rig);
    tw_gemm_data_free(&d);
    n->plan->searched++;
    n->plan->seconds += since(began);
    return st;
}
