/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_bench.h"

#include "base/clock.h"
#include "base/diag.h"
#include "kernels/gemm/estimate.h"
#include "ptx/ptx.h"
#include "tune/gemm_vendor.h"
#include "tune/measure.h"

enum { FINALISTS = 12, QUICK_SAMPLES = 3, VENDOR_ALGORITHMS = TW_GEMM_VENDOR_ALGORITHMS };

/* ---- candidates on a rig */

/* A kernel of ours, or an algorithm of the vendor. */
typedef struct contender {
    tw_gemm_candidate candidate;
    bool vendor; /* True: an algorithm of the vendor. */
    tw_cuda_timer *timer;
    tw_gemm_timed timed;
    double worst; /* The largest error that its check found, as tw_gemm_timed has it. */
} contender;

typedef struct contest {
    tw_gemm_rig *rig;
    contender *of;
    int rounds; /* How often a sample launches the kernel on each set of buffers. */
    /* What every contender must do; otherwise the measurement ends with an error. */
    enum { MAY_FAIL, MUST_RUN, MUST_BE_RIGHT } need;
} contest;

static tw_status check(void *context, int i, tw_diag *diag) {
    const contest *k = context;
    const tw_status st = tw_gemm_rig_check(k->rig, &k->of[i].candidate, diag);
    k->of[i].worst = tw_gemm_rig_worst(k->rig);
    return st;
}

static tw_status warm(void *context, int i, tw_diag *diag) {
    const contest *k = context;
    return tw_gemm_rig_timer(k->rig, &k->of[i].candidate, k->rounds, &k->of[i].timer, diag);
}

static tw_status sample(void *context, int i, double *us, tw_diag *diag) {
    const contest *k = context;
    return tw_cuda_timer_sample(k->of[i].timer, us, diag);
}

static void close(void *context, int i) {
    const contest *k = context;
    tw_cuda_timer_free(k->of[i].timer);
    k->of[i].timer = NULL;
}

static tw_status take(void *context, const tw_measured *m, tw_diag *diag) {
    const contest *k = context;
    contender *c = &k->of[m->candidate];
    c->timed = (tw_gemm_timed){m->status == TW_OK, c->worst, m->time};
    const bool wrong = m->status == TW_ERR_MISMATCH, ran = m->time.n || wrong;
    if (k->need == MAY_FAIL || (k->need == MUST_RUN ? ran : m->status == TW_OK)) return TW_OK;
    if (diag) *diag = *m->diag;
    return m->status;
}

static const tw_measure_calls calls = {.check = check, .warm = warm, .sample = sample, .close = close, .result = take};

/* The vendor's times are reported even if its output is wrong. A wrong kernel of ours may leave its counters and its
   workspace dirty, and the next launch may then wait for ever. */
static bool time_wrong(void *context, int i) {
    const contest *k = context;
    return k->of[i].vendor;
}

/* Samples all contenders in turn, except our wrong ones. */
static tw_status race(tw_gemm_rig *rig, contender *of, int n, double guess, tw_diag *diag) {
    static const tw_measure_protocol in_turn = {.samples = TW_GEMM_BENCH_ROUNDS, .turns = true};
    tw_measure_calls racing = calls;
    racing.time_wrong = time_wrong;
    contest k = {rig, of, tw_gemm_rig_rounds(rig, guess), MUST_RUN};
    return tw_measure(&racing, &k, n, &in_turn, NULL, diag);
}

tw_status tw_gemm_time(tw_gemm_rig *rig, const tw_gemm_candidate *x, tw_stats *us, tw_diag *diag) {
    const tw_measure_protocol quick = {.samples = QUICK_SAMPLES}, full = {.samples = TW_GEMM_BENCH_ROUNDS};
    contender of = {.candidate = *x};
    contest k = {rig, &of, 1, MUST_BE_RIGHT};
    tw_status st = tw_measure(&calls, &k, 1, &quick, NULL, diag);
    if (st != TW_OK) return st;
    k.rounds = tw_gemm_rig_rounds(rig, of.timed.us.median);
    st = tw_measure(&calls, &k, 1, &full, NULL, diag);
    *us = of.timed.us;
    return st;
}

/* ---- the vendor's algorithms */

/* Times each of the vendor's algorithms briefly and returns the fastest correct one. Number 0 is its first choice. */
static int best_of_vendor(tw_gemm_rig *rig, tw_cublaslt_plan *plan) {
    static const tw_measure_protocol quick = {.samples = QUICK_SAMPLES};
    tw_gemm_vendor v[VENDOR_ALGORITHMS];
    contender of[VENDOR_ALGORITHMS] = {0};
    contest k = {rig, of, 1, MAY_FAIL};
    int n = tw_cublaslt_algorithms(plan), best = -1;
    if (n > VENDOR_ALGORITHMS) n = VENDOR_ALGORITHMS;
    for (int i = 0; i < n; i++) {
        v[i] = (tw_gemm_vendor){plan, i};
        of[i].candidate = tw_gemm_vendor_candidate(&v[i]);
    }
    tw_measure(&calls, &k, n, &quick, NULL, NULL);
    for (int i = 0; i < n; i++)
        if (of[i].timed.correct && (best < 0 || of[i].timed.us.median < of[best].timed.us.median)) best = i;
    return best < 0 ? 0 : best;
}

/* ---- the comparison */

/* Compiles and loads a configuration. `fresh` is a number that no earlier compilation had, which makes the text new,
   since the driver caches compilations by text. 0: a cached one will do. */
static tw_status load(tw_gemm_own *own, tw_gemm_rig *rig, tw_cuda *cuda, const tw_ptx_compiler *by,
                      const tw_gemm_problem *p, const tw_gemm_config *c, int64_t fresh, tw_diag *diag) {
    tw_buf ptx = {0};
    tw_cubin cubin = {0};
    tw_status st = tw_gemm_ptx(p, c, tw_cuda_describe(cuda)->target, &ptx, diag);
    if (st == TW_OK && fresh && !tw_buf_printf(&ptx, "// %lld\n", (long long)fresh)) st = tw_fail_memory(diag);
    if (st == TW_OK) st = tw_ptx_compile_by(by, ptx.data, ptx.size, &cubin, diag);
    if (st == TW_OK) st = tw_gemm_own_load(own, rig, c, cubin.data, cubin.bytes, diag);
    tw_cubin_free(&cubin);
    tw_buf_free(&ptx);
    return st;
}

/* Samples all contenders, and the power meanwhile. */
static tw_status race_with_meter(tw_gemm_bench_result *out, tw_power *power, tw_gemm_rig *rig, contender *of, int n,
                                 double guess, tw_diag *diag) {
    double before, after;
    int64_t began, ended;
    const bool metered = power && tw_power_energy(power, &before, &began);
    const tw_status st = race(rig, of, n, guess, diag);
    out->clock_mhz = tw_power_clock(power);
    if (metered && tw_power_energy(power, &after, &ended) && ended > began)
        out->watts = (after - before) / ((double)(ended - began) * 1e-9);
    return st;
}

static double milliseconds_to_load(tw_gemm_rig *rig, tw_cuda *cuda, const tw_ptx_compiler *by, const tw_gemm_problem *p,
                                   const tw_gemm_config *c) {
    const int64_t begin = tw_now_ns();
    tw_gemm_own own = {0};
    const tw_status st = load(&own, rig, cuda, by, p, c, begin, NULL);
    const double ms = (double)(tw_now_ns() - begin) * 1e-6;
    tw_gemm_own_unload(&own);
    return st == TW_OK ? ms : -1;
}

/* Compares contenders 0 to n - 1 of `c`, and the vendor's two after them if it has a plan. */
static tw_status judge(tw_gemm_bench_result *out, const char *name, const tw_gemm_found *found, const contender *c,
                       int n, tw_diag *diag) {
    int best = -1;
    for (int i = 0; i < n; i++)
        if (c[i].timed.correct && (best < 0 || c[i].timed.us.median < c[best].timed.us.median)) best = i;
    if (best < 0) return tw_fail(diag, TW_ERR_MISMATCH, "%s: wrong on a second look", name);
    out->config = found[best].config;
    out->registers = found[best].registers;
    out->spill_bytes = found[best].spill_bytes;
    out->ours = c[best].timed;
    if (out->has_vendor) {
        /* The first choice may be the best algorithm. */
        const tw_gemm_timed *first = &c[n].timed, *other = &c[n + 1].timed;
        const bool better = other->correct && other->us.median < first->us.median;
        out->first = *first;
        out->best = better ? *other : *first;
        if (!better) out->best_algorithm = 0;
    }
    const double us = out->ours.us.median;
    if (us >= out->floor_us) return TW_OK;
    return tw_fail(diag, TW_ERR_MISMATCH, "%s: %.3f us is faster than the device can be (%.3f us)", name, us,
                   out->floor_us);
}

tw_status tw_gemm_bench(tw_gemm_bench_result *out, const char *name, tw_gemm_rig *rig, tw_cuda *cuda,
                        tw_cublaslt *vendor, const tw_gemm_data *d, const tw_gemm_search_options *o, tw_diag *diag) {
    tw_gemm_found found[FINALISTS];
    tw_gemm_own own[FINALISTS];
    tw_gemm_own chosen = {0};
    contender c[FINALISTS + 3] = {0};
    tw_gemm_vendor algorithms[2];
    tw_cublaslt_plan *plan = NULL;
    int n = 0, loaded = 0;
    *out = (tw_gemm_bench_result){0};
    out->floor_us = tw_gemm_floor(&d->problem, tw_cuda_describe(cuda), &out->bytes_bound);
    tw_status st = tw_gemm_search(rig, cuda, d, o, FINALISTS, found, &n, &out->search, diag);
    if (st == TW_OK && !n) st = tw_fail(diag, TW_ERR_UNSUPPORTED, "%s: no configuration works", name);
    for (; loaded < n && st == TW_OK; loaded++) {
        const tw_gemm_found *f = &found[loaded];
        st = tw_gemm_own_load(&own[loaded], rig, &f->config, f->cubin.data, f->cubin.bytes, diag);
        c[loaded].candidate = tw_gemm_own_candidate(&own[loaded]);
    }
    if (st == TW_OK) st = tw_gemm_vendor_plan(vendor, &d->problem, &plan, diag);
    out->has_vendor = plan;
    if (st == TW_OK && plan) {
        out->best_algorithm = best_of_vendor(rig, plan);
        algorithms[0] = (tw_gemm_vendor){plan, 0};
        algorithms[1] = (tw_gemm_vendor){plan, out->best_algorithm};
        for (int i = 0; i < 2; i++)
            c[n + i] = (contender){.candidate = tw_gemm_vendor_candidate(&algorithms[i]), .vendor = true};
    }
    int all = plan ? n + 2 : n;
    const int last = all;
    if (st == TW_OK && o->chosen && tw_gemm_legal(&d->problem, o->chosen, tw_cuda_describe(cuda)->target, NULL, NULL))
        out->has_chosen = load(&chosen, rig, cuda, &o->compiler, &d->problem, o->chosen, 0, NULL) == TW_OK;
    if (out->has_chosen) c[all++] = (contender){.candidate = tw_gemm_own_candidate(&chosen)};
    if (st == TW_OK) st = race_with_meter(out, o->power, rig, c, all, found[0].us, diag);
    if (st == TW_OK) st = judge(out, name, found, c, n, diag);
    if (out->has_chosen) out->chosen = c[last].timed;
    tw_gemm_own_unload(&chosen);
    if (st == TW_OK) out->load_ms = milliseconds_to_load(rig, cuda, &o->compiler, &d->problem, &out->config);
    if (plan) tw_cublaslt_plan_free(plan);
    for (int i = 0; i < n; i++) {
        if (i < loaded) tw_gemm_own_unload(&own[i]);
        tw_cubin_free(&found[i].cubin);
    }
    return st;
}
