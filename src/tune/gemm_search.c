/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_search.h"

#include "base/clock.h"
#include "base/diag.h"
#include "kernels/gemm/space.h"
#include "tune/gemm_draw.h"
#include "tune/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARENTS = 12, BATCH = 256 };

typedef struct search {
    tw_gemm_rig *rig;
    tw_cuda *cuda;
    const tw_gemm_data *data;
    const tw_gemm_search_options *options;
    tw_gemm_drawer drawer;
    tw_gemm_search_report *report;
    tw_random random;
    tw_gemm_drawn *seen; /* Everything that was measured. Failures have score 1e30. */
    int n_seen;
    tw_gemm_found *best;
    int n_best, top;
    int64_t began;
    tw_diag *diag;
} search;

static bool contains(const tw_gemm_drawn *e, int n, const tw_gemm_config *c) {
    for (int i = 0; i < n; i++)
        if (!memcmp(&e[i].config, c, sizeof *c)) return true;
    return false;
}

static void complain(search *s, const tw_gemm_config *c, const tw_diag *d) {
    char text[300];
    if (s->report->complaint[0]) return;
    tw_gemm_config_print(c, text, sizeof text);
    snprintf(s->report->complaint, sizeof s->report->complaint, "%s: %.190s", text, d->message);
}

/* Keeps the cubins of the fastest so far, in order. */
static void keep_best(search *s, const tw_gemm_config *c, double us, tw_ptx_job *job) {
    int at = s->n_best;
    while (at > 0 && s->best[at - 1].us > us) at--;
    if (at == s->top) return;
    if (s->n_best == s->top) tw_cubin_free(&s->best[--s->n_best].cubin);
    memmove(&s->best[at + 1], &s->best[at], (size_t)(s->n_best - at) * sizeof *s->best);
    s->best[at] = (tw_gemm_found){*c, us, job->cubin, job->cubin.registers, job->cubin.spill_bytes};
    job->cubin = (tw_cubin){.seconds = job->cubin.seconds};
    s->n_best++;
}

/* ---- measuring: batches of configurations are compiled, then checked and timed one by one */

/* What a job prints. */
typedef struct printed {
    const search *s;
    const tw_gemm_config *config;
} printed;

typedef struct batch {
    search *s;
    const tw_gemm_drawn *e; /* All configurations to measure. */
    int first;              /* Index of the batch's first configuration. */
    printed *prints;
    tw_ptx_job *jobs;
    tw_ptx_crew *crew; /* Compiles while others are measured. */
    int64_t since;     /* When the present phase began. */
    tw_gemm_own own;   /* The kernel that is measured now. */
    tw_gemm_candidate candidate;
    tw_cuda_timer *timer;
} batch;

static tw_status print(const void *context, tw_buf *ptx, tw_diag *diag) {
    const printed *p = context;
    return tw_gemm_ptx(&p->s->data->problem, p->config, tw_cuda_describe(p->s->cuda)->target, ptx, diag);
}

/* Ends a phase, which took *seconds more. */
static void pass(batch *b, double *seconds) {
    const int64_t now = tw_now_ns();
    *seconds += (double)(now - b->since) * 1e-9;
    b->since = now;
}

/* Begins to compile. */
static tw_status compile(void *context, int first, int n, tw_diag *diag) {
    batch *b = context;
    b->first = first;
    b->prints = calloc((size_t)n, sizeof *b->prints);
    b->jobs = calloc((size_t)n, sizeof *b->jobs);
    if (!b->prints || !b->jobs) return tw_fail_memory(diag);
    for (int i = 0; i < n; i++) {
        b->prints[i] = (printed){b->s, &b->e[first + i].config};
        b->jobs[i].print = print;
        b->jobs[i].context = &b->prints[i];
    }
    return tw_ptx_crew_start(&b->crew, &b->s->options->compiler, b->jobs, n, 0, diag);
}

static void release(void *context, int first, int n) {
    batch *b = context;
    (void)first;
    tw_ptx_crew_end(b->crew);
    b->crew = NULL;
    for (int i = 0; i < n && b->jobs; i++) {
        b->s->report->build_seconds += b->jobs[i].print_seconds;
        b->s->report->compile_seconds += b->jobs[i].cubin.seconds;
        tw_cubin_free(&b->jobs[i].cubin);
    }
    free(b->jobs);
    free(b->prints);
}

static tw_status load(void *context, int i, tw_diag *diag) {
    batch *b = context;
    const tw_ptx_job *job = &b->jobs[i - b->first];
    b->since = tw_now_ns();
    tw_ptx_crew_wait(b->crew, i - b->first);
    pass(b, &b->s->report->wait_seconds);
    b->s->report->built++;
    if (job->status != TW_OK) {
        *diag = job->diag;
        return job->status;
    }
    const tw_cubin *cubin = &job->cubin;
    tw_status st = tw_gemm_own_load(&b->own, b->s->rig, &b->e[i].config, cubin->data, cubin->bytes, diag);
    b->candidate = tw_gemm_own_candidate(&b->own);
    pass(b, &b->s->report->load_seconds);
    return st;
}

static tw_status check(void *context, int i, tw_diag *diag) {
    batch *b = context;
    (void)i;
    const tw_status st = tw_gemm_rig_check(b->s->rig, &b->candidate, diag);
    pass(b, &b->s->report->check_seconds);
    return st;
}

static tw_status warm(void *context, int i, tw_diag *diag) {
    batch *b = context;
    (void)i;
    return tw_gemm_rig_timer(b->s->rig, &b->candidate, 1, &b->timer, diag);
}

static tw_status sample(void *context, int i, double *us, tw_diag *diag) {
    const batch *b = context;
    (void)i;
    return tw_cuda_timer_sample(b->timer, us, diag);
}

static void unload(void *context, int i) {
    batch *b = context;
    (void)i;
    tw_cuda_timer_free(b->timer);
    b->timer = NULL;
    tw_gemm_own_unload(&b->own);
    pass(b, &b->s->report->time_seconds);
}

/* Counts a wrong result. Ends the search if the device faulted. */
static tw_status take(void *context, const tw_measured *m, tw_diag *diag) {
    batch *b = context;
    search *s = b->s;
    const tw_gemm_config *c = &b->e[m->candidate].config;
    tw_ptx_job *job = &b->jobs[m->candidate - b->first];
    const double us = m->status == TW_OK ? m->time.median : 1e30;
    if (m->status == TW_OK) {
        keep_best(s, c, us, job);
    } else {
        complain(s, c, m->diag);
        s->report->wrong += m->status == TW_ERR_MISMATCH;
        s->report->failed += m->status != TW_ERR_MISMATCH;
    }
    const bool compiled = job->status == TW_OK;
    tw_status st = TW_OK;
    if (compiled && s->options->measured_one) st = s->options->measured_one(s->options->context, c, m, diag);
    if (st != TW_OK) return st;
    s->seen[s->n_seen++] = (tw_gemm_drawn){*c, us};
    if (m->status != TW_ERR_IO || !compiled) return TW_OK;
    if (diag) *diag = *m->diag;
    return m->status;
}

/* Returns how much of the limit is left. 0: there is no limit. */
static double seconds_left(search *s) {
    const double limit = s->options->seconds, spent = (double)(tw_now_ns() - s->began) * 1e-9;
    if (!(limit > 0)) return 0;
    s->report->cut |= spent >= limit;
    return spent < limit ? limit - spent : 1e-9;
}

/* With `limited` the limit ends it. */
static tw_status try_all(search *s, const tw_gemm_drawn *e, int n, bool limited) {
    static const tw_measure_calls calls = {.prepare = compile,
                                           .open = load,
                                           .check = check,
                                           .warm = warm,
                                           .sample = sample,
                                           .close = unload,
                                           .result = take,
                                           .release = release};
    const tw_measure_protocol protocol = {.batch = BATCH,
                                          .samples = TW_GEMM_SCREENS,
                                          .give_up = s->options->give_up,
                                          .seconds = limited ? seconds_left(s) : 0};
    tw_measure_report report;
    batch b = {.s = s, .e = e};
    tw_gemm_drawn *seen = realloc(s->seen, ((size_t)s->n_seen + (size_t)n + 1) * sizeof *seen);
    if (!seen) return tw_fail_memory(s->diag);
    s->seen = seen;
    const tw_status st = tw_measure(&calls, &b, n, &protocol, &report, s->diag);
    s->report->cut |= report.cut;
    return st;
}

/* Draws thousands of configurations, and measures the most promising by estimate and some at random. */
static tw_status first_generation(search *s, int sampled, int measured) {
    const int64_t began = tw_now_ns();
    tw_gemm_drawn *e = malloc((size_t)sampled * sizeof *e);
    if (!e) return tw_fail_memory(s->diag);
    const int n = tw_gemm_draw(&s->drawer, s->options->seed, sampled, e), take = n < measured ? n : measured;
    if (n >= 0) tw_gemm_drawn_sort(e, n, take, &s->random);
    s->report->sampled = n < 0 ? 0 : n;
    s->report->draw_seconds += (double)(tw_now_ns() - began) * 1e-9;
    const tw_status st = n < 0 ? tw_fail_memory(s->diag) : try_all(s, e, take, true);
    free(e);
    return st;
}

static tw_status try_known(search *s) {
    const tw_gemm_search_options *o = s->options;
    tw_gemm_drawn *e = malloc((size_t)(o->n_known + 1) * sizeof *e);
    if (!e) return tw_fail_memory(s->diag);
    int n = 0;
    for (int i = 0; i < o->n_known; i++) {
        tw_gemm_config c = tw_gemm_config_plain(&s->data->problem, o->known[i]);
        if (tw_gemm_drawer_allows(&s->drawer, &c) && !contains(e, n, &c)) e[n++] = (tw_gemm_drawn){c, 0};
    }
    tw_status st = try_all(s, e, n, false);
    free(e);
    return st;
}

static tw_status next_generation(search *s, int offspring) {
    if (!s->n_seen) return TW_OK;
    tw_gemm_drawn *parents = malloc((size_t)(s->n_seen + offspring) * sizeof *parents);
    if (!parents) return tw_fail_memory(s->diag);
    tw_gemm_drawn *e = parents + s->n_seen;
    memcpy(parents, s->seen, (size_t)s->n_seen * sizeof *parents);
    qsort(parents, (size_t)s->n_seen, sizeof *parents, tw_gemm_drawn_by_score);
    const int from = s->n_seen < PARENTS ? s->n_seen : PARENTS;
    int n = 0;
    for (int tries = offspring * 200; tries > 0 && n < offspring; tries--) {
        tw_gemm_config c = parents[tw_random_below(&s->random, (uint64_t)from)].config;
        tw_space_vary(&tw_gemm_space, &s->drawer.space, s->drawer.keep, &s->random, &c);
        if (contains(s->seen, s->n_seen, &c) || contains(e, n, &c) || !tw_gemm_drawer_allows(&s->drawer, &c)) continue;
        e[n++] = (tw_gemm_drawn){c, 0};
    }
    tw_status st = try_all(s, e, n, true);
    free(parents);
    return st;
}

tw_status tw_gemm_search(tw_gemm_rig *r, tw_cuda *c, const tw_gemm_data *d, const tw_gemm_search_options *o, int top,
                         tw_gemm_found *found, int *n, tw_gemm_search_report *report, tw_diag *diag) {
    search s = {.rig = r,
                .cuda = c,
                .data = d,
                .options = o,
                .report = report,
                .random = tw_random_seed(o->seed),
                .best = found,
                .top = top,
                .began = tw_now_ns(),
                .diag = diag};
    const tw_cuda_info *info = tw_cuda_describe(c);
    s.drawer = (tw_gemm_drawer){.rig = r, .options = o, .space = {&d->problem, info->target, info}};
    tw_gemm_space_keep(o->keep, s.drawer.keep);
    *report = (tw_gemm_search_report){0};
    tw_status st = try_known(&s);
    if (st == TW_OK) st = first_generation(&s, o->sampled, o->measured);
    for (int i = 0; i < o->generations && st == TW_OK; i++) st = next_generation(&s, o->offspring);
    free(s.seen);
    *n = s.n_best;
    return st;
}
