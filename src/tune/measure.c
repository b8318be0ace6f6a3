/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/measure.h"

#include "base/clock.h"
#include "base/diag.h"

#include <stdlib.h>
#include <string.h>

/* The state of a candidate. */
typedef struct runner {
    bool open;       /* The candidate is open and has no result yet. */
    tw_status check; /* The result of its check. */
    tw_diag why;
    double *samples; /* Its times, at most p->samples. */
    int64_t began;
} runner;

typedef struct measuring {
    const tw_measure_calls *calls;
    void *context;
    const tw_measure_protocol *p;
    tw_measure_report report;
    int64_t began;
    runner *group;  /* The candidates that are sampled in turn, or a single one. */
    double *sorted; /* Room for p->samples times. */
    double least;   /* The least median so far. 0: there is none. */
    bool interrupted;
    tw_diag *diag;
} measuring;

static bool interrupted(measuring *m) {
    if (!m->interrupted && m->calls->interrupted) m->interrupted = m->calls->interrupted(m->context);
    m->report.cut |= m->interrupted;
    return m->interrupted;
}

static bool spent(measuring *m) {
    const double seconds = (double)(tw_now_ns() - m->began) * 1e-9;
    const bool late = m->p->seconds > 0 && seconds >= m->p->seconds;
    const bool many = m->p->most_samples > 0 && m->report.samples >= m->p->most_samples;
    m->report.cut |= late || many;
    return late || many;
}

static void close_runner(measuring *m, int first, int k) {
    if (m->group[k].open && m->calls->close) m->calls->close(m->context, first + k);
    m->group[k].open = false;
}

static tw_status tell(measuring *m, int first, int k, tw_status status, int taken) {
    runner *r = &m->group[k];
    if (status == TW_OK) tw_diag_clear(&r->why);
    if (taken) memcpy(m->sorted, r->samples, (size_t)taken * sizeof *m->sorted);
    const tw_measured of = {.candidate = first + k,
                            .status = status,
                            .diag = &r->why,
                            .time = tw_stats_of(m->sorted, (size_t)taken),
                            .samples = r->samples,
                            .began = r->began};
    if (status == TW_OK && (!(m->least > 0) || of.time.median < m->least)) m->least = of.time.median;
    m->report.right += status == TW_OK;
    m->report.wrong += status == TW_ERR_MISMATCH;
    m->report.failed += status != TW_OK && status != TW_ERR_MISMATCH;
    close_runner(m, first, k);
    return m->calls->result ? m->calls->result(m->context, &of, m->diag) : TW_OK;
}

/* Opens, checks and warms a candidate. If one of these fails, reports its result and closes it. */
static tw_status begin(measuring *m, int first, int k) {
    const tw_measure_calls *c = m->calls;
    runner *r = &m->group[k];
    tw_status st = TW_OK;
    r->open = true;
    r->began = tw_clock_ns();
    if (c->open) st = c->open(m->context, first + k, &r->why);
    r->check = TW_OK;
    if (st == TW_OK && c->check) st = r->check = c->check(m->context, first + k, &r->why);
    if (r->check == TW_ERR_MISMATCH && c->time_wrong && c->time_wrong(m->context, first + k)) st = TW_OK;
    tw_diag warming;
    if (st == TW_OK && c->warm && (st = c->warm(m->context, first + k, &warming)) != TW_OK) r->why = warming;
    return st == TW_OK ? TW_OK : tell(m, first, k, st, 0);
}

/* Runs a candidate until the counter of energy has changed at least `seconds` seconds after the call. *joules and *at
   are the reading after this change and its time, *sum is the sum of the runs' times, and *runs is their number. An
   interruption ends it, too. Readings are PAUSE nanoseconds apart, because the device does nothing during a reading. */
static tw_status run_until(measuring *m, int i, double seconds, double *joules, int64_t *at, double *sum, int64_t *runs,
                           tw_diag *why) {
    enum {
        PAUSE = 10000000, /* Least time between two readings of the counter, in nanoseconds. */
        STILL = 5,        /* Seconds beyond `seconds` after which a counter that has not changed is given up. */
    };
    double before, time;
    int64_t began, last; /* Times of the first reading, and of the first reading after the last change. */
    tw_power *const p = m->p->power;
    *sum = 0;
    *runs = 0;
    if (!tw_power_energy(p, &before, &began)) return tw_fail(why, TW_ERR_IO, "the counter of energy cannot be read");
    for (last = *at = began; !interrupted(m); *runs += 1) {
        const tw_status st = m->calls->sample(m->context, i, &time, why);
        if (st != TW_OK) return st;
        *sum += time;
        if (tw_power_now(p) - *at < PAUSE) continue;
        if (!tw_power_energy(p, joules, at)) return tw_fail(why, TW_ERR_IO, "the counter of energy cannot be read");
        const bool changed = *joules != before, late = (double)(*at - began) * 1e-9 >= seconds;
        if (changed && late) {
            *runs += 1;
            return TW_OK;
        }
        if (changed) last = *at;
        if ((double)(*at - last) * 1e-9 > STILL + seconds)
            return tw_fail(why, TW_ERR_UNSUPPORTED, "the counter of energy stands still");
        before = *joules;
    }
    return TW_OK;
}

/* Takes the energy of a run in microjoules. After an interruption *uj is not set. */
static tw_status sample_energy(measuring *m, int i, double *uj, tw_diag *why) {
    double from, to = 0, sum;
    int64_t began, ended = 0, runs;
    tw_status st = run_until(m, i, 0, &from, &began, &sum, &runs, why);
    if (st == TW_OK && !m->interrupted) st = run_until(m, i, m->p->power_seconds, &to, &ended, &sum, &runs, why);
    if (st != TW_OK || m->interrupted) return st;
    *uj = (to - from) / ((double)(ended - began) * 1e-9) * (sum / (double)runs);
    return TW_OK;
}

static tw_status sample(measuring *m, int first, int k, int round) {
    runner *r = &m->group[k];
    const int kept = round - m->p->warmups;
    double thrown;
    tw_diag why;
    m->report.samples++;
    double *const to = kept < 0 ? &thrown : &r->samples[kept];
    const bool energy = m->p->power && kept >= 0;
    tw_status st = energy ? sample_energy(m, first + k, to, &why) : m->calls->sample(m->context, first + k, to, &why);
    if (st == TW_OK) return TW_OK;
    r->why = why;
    return tell(m, first, k, st, 0);
}

/* Tells whether a candidate's first sample is so long that more would not make it the best. */
static bool hopeless(const measuring *m, int taken) {
    const runner *r = &m->group[0];
    return r->open && taken == 1 && m->p->give_up > 0 && m->least > 0 && r->samples[0] > m->p->give_up * m->least;
}

/* Measures n candidates from number `first` on. Several are sampled in turn. */
static tw_status measure_group(measuring *m, int first, int n) {
    const int rounds = m->p->warmups + m->p->samples;
    tw_status st = TW_OK;
    int done = 0;
    for (int k = 0; k < n && st == TW_OK && !interrupted(m); k++) st = begin(m, first, k);
    while (done < rounds && st == TW_OK && !m->interrupted) {
        /* A limit ends turns between rounds, so that all candidates have equally many samples, and at least one. */
        if (n > 1 && done > m->p->warmups && spent(m)) break;
        if (!m->p->turns && hopeless(m, done - m->p->warmups)) break;
        for (int i = 0; i < n && st == TW_OK && !m->interrupted; i++) {
            const int k = (i + done) % n;
            if (m->group[k].open && !interrupted(m)) st = sample(m, first, k, done);
        }
        done += !m->interrupted;
    }
    for (int k = 0; k < n; k++) {
        if (m->group[k].open && st == TW_OK && !m->interrupted)
            st = tell(m, first, k, m->group[k].check, done - m->p->warmups);
        close_runner(m, first, k);
    }
    return st;
}

static tw_status measure_batch(measuring *m, int first, int n) {
    const int group = m->p->turns ? n : 1;
    tw_status st = m->calls->prepare ? m->calls->prepare(m->context, first, n, m->diag) : TW_OK;
    for (int i = 0; i < n && st == TW_OK && !interrupted(m) && !spent(m); i += group)
        st = measure_group(m, first + i, group);
    if (m->calls->release) m->calls->release(m->context, first, n);
    return st;
}

tw_status tw_measure(const tw_measure_calls *calls, void *context, int n, const tw_measure_protocol *p,
                     tw_measure_report *report, tw_diag *diag) {
    measuring m = {.calls = calls, .context = context, .p = p, .began = tw_now_ns(), .diag = diag};
    const int batch = p->batch > 0 && p->batch < n ? p->batch : n, runners = p->turns ? batch : 1;
    tw_status st = TW_OK;
    m.group = calloc((size_t)runners + 1, sizeof *m.group);
    double *samples = malloc(((size_t)(runners + 1) * (size_t)p->samples + 1) * sizeof *samples);
    if (!m.group || !samples) st = tw_fail_memory(diag);
    if (samples) m.sorted = samples + (size_t)runners * (size_t)p->samples;
    for (int k = 0; k < runners && st == TW_OK; k++) m.group[k].samples = samples + (size_t)k * (size_t)p->samples;
    for (int i = 0; i < n && st == TW_OK && !interrupted(&m) && !spent(&m); i += batch)
        st = measure_batch(&m, i, n - i < batch ? n - i : batch);
    free(samples);
    free(m.group);
    m.report.seconds = (double)(tw_now_ns() - m.began) * 1e-9;
    if (report) *report = m.report;
    return st;
}
