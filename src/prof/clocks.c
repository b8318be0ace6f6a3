/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/clocks.h"

#include "base/diag.h"

#include <math.h>
#include <stdlib.h>

/* The timer's tick: the greatest number of nanoseconds that divides all differences of times. */
static double find_tick(const tw_prof_anchor *a, int n) {
    uint64_t tick = 0;
    for (int i = 1; i < n; i++) {
        uint64_t x = a[i].time > a[0].time ? a[i].time - a[0].time : a[0].time - a[i].time, y = tick;
        while (y) {
            const uint64_t rest = x % y;
            x = y;
            y = rest;
        }
        tick = x;
    }
    return tick ? (double)tick : 1;
}

typedef struct span {
    int64_t first, last; /* Clocks of a multiprocessor's first and last anchor. */
    uint64_t begin, end; /* Their times. */
    bool any;
} span;

/* The rate: clocks over nanoseconds, from the first to the last anchor of each multiprocessor, summed up. */
static double find_rate(const span *spans, int n) {
    double clocks = 0, time = 0;
    for (int i = 0; i < n; i++) {
        if (!spans[i].any || spans[i].end <= spans[i].begin) continue;
        clocks += (double)(spans[i].last - spans[i].first);
        time += (double)(spans[i].end - spans[i].begin);
    }
    return clocks > 0 && time > 0 ? clocks / time : 1;
}

static void find_spans(span *spans, const tw_prof_anchor *a, int n) {
    for (int i = 0; i < n; i++) {
        span *s = &spans[a[i].sm];
        if (!s->any || a[i].clock < s->first) {
            s->first = a[i].clock;
            s->begin = a[i].time;
        }
        if (!s->any || a[i].clock > s->last) {
            s->last = a[i].clock;
            s->end = a[i].time;
        }
        s->any = true;
    }
}

/* Narrows each offset's bounds by each anchor. Bounds that contradict one another, since the rate is not exact, leave
   the middle between them. */
static void find_offsets(tw_prof_clocks *c, const tw_prof_anchor *a, int n) {
    for (int sm = 0; sm < c->n; sm++) {
        double low = -INFINITY, high = INFINITY;
        for (int i = 0; i < n; i++) {
            if (a[i].sm != sm) continue;
            const double at =
                (double)(int64_t)(a[i].time - c->origin) - (double)(a[i].clock - c->reference[sm]) / c->ghz;
            low = fmax(low, at);
            high = fmin(high, at + c->tick);
        }
        if (low == -INFINITY) continue;
        c->offset[sm] = (low + high) / 2;
        c->uncertain[sm] = fabs(high - low) / 2;
    }
}

tw_status tw_prof_clocks_fit(tw_prof_clocks *c, const tw_prof_anchor *a, int n, double ghz, tw_diag *diag) {
    int sms = 0;
    *c = (tw_prof_clocks){.origin = a[0].time};
    for (int i = 0; i < n; i++) {
        if (a[i].sm >= sms) sms = a[i].sm + 1;
        if (a[i].time < c->origin) c->origin = a[i].time;
    }
    span *spans = calloc((size_t)sms, sizeof *spans);
    c->n = sms;
    c->offset = calloc((size_t)sms, sizeof *c->offset);
    c->uncertain = calloc((size_t)sms, sizeof *c->uncertain);
    c->reference = calloc((size_t)sms, sizeof *c->reference);
    if (!spans || !c->offset || !c->uncertain || !c->reference) {
        free(spans);
        tw_prof_clocks_free(c);
        return tw_fail_memory(diag);
    }
    find_spans(spans, a, n);
    c->tick = find_tick(a, n);
    c->ghz = ghz > 0 ? ghz : find_rate(spans, sms);
    for (int i = 0; i < sms; i++) c->reference[i] = spans[i].first;
    find_offsets(c, a, n);
    free(spans);
    return TW_OK;
}

void tw_prof_clocks_free(tw_prof_clocks *c) {
    free(c->offset);
    free(c->uncertain);
    free(c->reference);
    *c = (tw_prof_clocks){0};
}

/* The difference is taken before it is rounded: a clock may have more digits than a double. */
double tw_prof_time_at(const tw_prof_clocks *c, int sm, int64_t clock, double late) {
    return c->offset[sm] + ((double)(clock - c->reference[sm]) - late) / c->ghz;
}
