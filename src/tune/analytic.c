/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "tune/analytic.h"

#include "base/diag.h"
#include "base/divide.h"
#include "base/grow.h"
#include "kernels/gemm/estimate.h"
#include "tune/gemm_kind.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- fitting */

static const double FIRST = 1.5;  /* Factor by which the search first moves a constant. */
static const double LAST = 1.005; /* The search ends when its factor is not above this. */
static const double FAR = 1e4;    /* The search changes a constant by at most this factor, up or down. */

/* Returns the mean over units of the mean squared error of the logarithms of the unit's times. */
static double error_of(const tw_rates *r, const tw_analytic_sample *s, int n) {
    double squares[TW_DEMAND_UNITS] = {0}, sum = 0;
    int of[TW_DEMAND_UNITS] = {0}, units = 0;
    for (int i = 0; i < n; i++) {
        const double off = log(tw_demand_time(&s[i].demand, r) / s[i].time);
        squares[s[i].demand.unit] += off * off;
        of[s[i].demand.unit]++;
    }
    for (int u = 0; u < TW_DEMAND_UNITS; u++) {
        if (!of[u]) continue;
        sum += squares[u] / of[u];
        units++;
    }
    return units ? sum / units : 0;
}

static void raise(double *rate, double amount, double time) {
    *rate = fmax(*rate, amount / time);
}

/* Sets the constants that the search begins from. A rate is the highest that a sample shows to be possible. A time that
   every launch, block or fetch takes is a share of the least one in the samples. Constants that no sample depends on
   stay. */
static void begin(tw_rates *r, const tw_analytic_sample *samples, int n) {
    tw_rates seen = {.launch = (double)INFINITY, .latency = (double)INFINITY, .block = (double)INFINITY};
    for (int i = 0; i < n; i++) {
        const tw_demand *d = &samples[i].demand;
        const double time = samples[i].time, clocks = time * d->clock, waves = ceil(d->blocks / d->together);
        raise(&seen.share[d->unit], d->blocks * d->rounds * d->busy, clocks);
        raise(&seen.store, d->blocks * d->stored, clocks);
        raise(&seen.memory, d->memory, time);
        seen.launch = fmin(seen.launch, time / 4);
        seen.block = fmin(seen.block, clocks / waves / 4);
        seen.latency = fmin(seen.latency, clocks / (waves * d->rounds) * d->ahead);
        if (d->chain > 0) seen.step = 20; /* About the latency of shared memory. */
        if (d->turns > 0) seen.turn = seen.launch;
    }
    const double *from = (const double *)&seen;
    double *to = (double *)r;
    for (int i = 0; i < TW_RATES; i++)
        if (from[i] > 0 && isfinite(from[i])) to[i] = from[i];
}

/* A pattern search: each constant in turn is multiplied and divided by a factor, which is kept if the error falls. When
   no move helps, the search goes on with the factor's square root. */
double tw_analytic_fit(tw_rates *r, const tw_analytic_sample *samples, int n) {
    begin(r, samples, n);
    const tw_rates began = *r;
    const double *const origin = (const double *)&began;
    double *const at = (double *)r;
    double least = error_of(r, samples, n), factor = FIRST;
    while (factor > LAST) {
        for (bool better = true; better;) {
            better = false;
            for (int i = 0; i < 2 * TW_RATES; i++) {
                const double was = at[i / 2], now = i % 2 ? was / factor : was * factor;
                if (now > origin[i / 2] * FAR || now < origin[i / 2] / FAR) continue;
                at[i / 2] = now;
                const double error = error_of(r, samples, n);
                if (error < least * (1 - 1e-6)) {
                    least = error;
                    better = true;
                } else {
                    at[i / 2] = was;
                }
            }
        }
        factor = sqrt(factor);
    }
    return least;
}

/* ---- families */

bool tw_analytic_demand(const tw_family *f, int macro, int micro, const int64_t *problem, tw_demand *out) {
    const tw_artefact_macro *m = &f->macros[macro];
    const tw_wave_division d = tw_family_divide(f, macro, problem);
    if (d.grid < 1) return false;
    if (f->calls->demand) return f->calls->demand(f->self, macro, micro, problem, out);
    *out = (tw_demand){.unit = m->properties & TW_MACRO_VENDOR ? TW_DEMAND_VENDOR : TW_DEMAND_SIMT,
                       .clock = 1,
                       .blocks = (double)tw_ceil_div(d.grid, m->slots),
                       .together = 1,
                       .rounds = d.loops,
                       .busy = tw_family_work(f, problem) / ((double)d.grid * d.loops),
                       .ahead = 1,
                       .stored = (double)m->grid[f->rows] * (double)m->grid[f->columns]};
    return true;
}

/* ---- products */

/* Reads the GPU that a store's environment describes. False: it describes none. Without a field `target` the GPU is
   taken for an sm_90a. */
static bool read_device(const char *environment, tw_cuda_info *out) {
    const char *name, *target = "sm_90a";
    int sms, clock;
    json_t *o = json_loads(environment, 0, NULL);
    const bool good =
        !json_unpack(o, "{s:s, s:i, s:i, s?s}", "device", &name, "sms", &sms, "clock_khz", &clock, "target", &target) &&
        sms > 0 && clock > 0 && tw_target_find(target);
    if (good) {
        *out = (tw_cuda_info){.sms = sms, .clock_khz = clock, .target = tw_target_find(target)};
        snprintf(out->name, sizeof out->name, "%s", name);
    }
    json_decref(o);
    return good;
}

/* Reads the problem of a measurement. False: it is no product on a GPU. */
static bool read_problem(const tw_measurement *m, tw_gemm_problem *p) {
    char words[400], *rest = NULL;
    tw_gemm_kind kind;
    tw_status st = TW_OK;
    *p = (tw_gemm_problem){.alpha = 1};
    if (tw_gemm_kind_from_name(m->space, &kind)) {
        p->type = kind.type;
        p->trans_b = true;
    } else if (strcmp(m->space, "gemm") != 0) {
        return false;
    }
    snprintf(words, sizeof words, "%s", m->problem);
    for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        if (!tw_gemm_problem_word(p, w, &st, NULL)) return false;
    return tw_gemm_problem_complete(p, NULL) == TW_OK;
}

/* Adds a measurement if it is a right own product of p->device. The first one decides which device that is. */
static tw_status take(void *context, const tw_measurement *m, tw_diag *diag) {
    tw_analytic_products *p = context;
    tw_gemm_problem problem;
    tw_analytic_sample sample;
    tw_cuda_info device;
    tw_stats s;
    if (m->status != TW_OK || strcmp(m->unit, "us") != 0 || !strncmp(m->config, "by=", 3)) return TW_OK;
    if (!read_problem(m, &problem) || !read_device(m->environment, &device)) return TW_OK;
    if (!p->n) p->device = device;
    tw_gemm_config c = tw_gemm_config_default(&problem);
    if (strcmp(device.name, p->device.name) != 0 || tw_gemm_config_parse(&c, m->config, NULL) != TW_OK) return TW_OK;
    if (!tw_gemm_demand(&problem, &c, &device, &sample.demand)) return TW_OK;
    const tw_status st = tw_store_stats(m, &s, diag);
    if (st != TW_OK || !(s.median > 0)) return st;
    tw_analytic_sample *const of = tw_grow(p->of, p->n, &p->room, 4096, sizeof *of);
    if (!of) return tw_fail_memory(diag);
    sample.time = s.median;
    p->of = of;
    of[p->n++] = sample;
    p->units[sample.demand.unit]++;
    return TW_OK;
}

tw_status tw_analytic_read(tw_analytic_products *p, tw_store *s, tw_diag *diag) {
    *p = (tw_analytic_products){.n = 0};
    int seen[TW_DEMAND_UNITS] = {0}, left[TW_DEMAND_UNITS] = {0}, n = 0;
    const tw_status st = tw_store_read(s, NULL, take, p, NULL, diag);
    for (int i = 0; i < p->n; i++) {
        const tw_demand_unit u = p->of[i].demand.unit;
        const int step = (p->units[u] - 1) / TW_ANALYTIC_MOST + 1;
        if (seen[u]++ % step) continue;
        left[u]++;
        p->of[n++] = p->of[i];
    }
    p->n = n;
    memcpy(p->units, left, sizeof left);
    if (st != TW_OK || n) return st;
    return tw_fail(diag, TW_ERR_USAGE, "the store has no right products of a GPU");
}
