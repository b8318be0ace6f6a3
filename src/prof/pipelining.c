/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/pipelining.h"

#include <math.h>
#include <stdlib.h>

const char *tw_pipelining_kind_name(tw_pipelining_kind k) {
    return k == TW_PIPELINING_SOFTWARE ? "software pipelining" : "warp specialisation";
}

const char *tw_pipelining_bound_name(tw_pipelining_bound b) {
    static const char *const names[TW_PIPELINING_BOUNDS] = {"compute", "tensor", "latency", "memory", "issue"};
    return b < TW_PIPELINING_BOUNDS ? names[b] : "?";
}

/* A time that varies. */
typedef struct normal {
    double mean, variance;
} normal;

static normal of(tw_pipelining_time t) {
    return (normal){t.mean, t.deviation * t.deviation};
}

static normal always(double x) {
    return (normal){x, 0};
}

static normal sum(normal a, normal b) {
    return (normal){a.mean + b.mean, a.variance + b.variance};
}

static normal scaled(normal a, int n) {
    return (normal){a.mean * n, a.variance * n};
}

/* The later of two independent normal times, by their moments (Clark, The greatest of a finite set of random variables,
   1961). */
static normal later(normal a, normal b) {
    const double spread = sqrt(a.variance + b.variance);
    if (!(spread > 1e-9 * (fabs(a.mean) + fabs(b.mean)))) return a.mean >= b.mean ? a : b;
    const double x = (a.mean - b.mean) / spread;
    const double below = 0.5 * erfc(-x / sqrt(2)), above = 0.5 * erfc(x / sqrt(2));
    const double density = exp(-0.5 * x * x) / sqrt(2 * acos(-1));
    const double mean = a.mean * below + b.mean * above + spread * density;
    const double square = (a.mean * a.mean + a.variance) * below + (b.mean * b.mean + b.variance) * above +
                          (a.mean + b.mean) * spread * density;
    return (normal){mean, fmax(square - mean * mean, 0)};
}

/* Of a step's variance beyond its work's, how much the distance of iterations has. Steps that follow each other are not
   independent: one that waited long is followed by short ones. Found by simulation. */
static const double LASTING = 0.5;

/* The mean step T of w[i] = max(w[i - 1] + step, w[i - n] + round), where w[i - 1] - w[i - n] is n - 1 steps: T is the
   mean of max(step, round - (n - 1) T), which falls as T rises. `*variance`: of a step, and is set to the one found. */
static double steady_with(normal step, normal round, int n, double *variance) {
    double low = step.mean;
    double high = fmax(step.mean, round.mean / n) + 4 * sqrt(step.variance + round.variance);
    normal found = step;
    for (int i = 0; i < 60 && high - low > 1e-12 * high; i++) {
        const double t = (low + high) / 2;
        found = later(step, (normal){round.mean - (n - 1) * t, round.variance + (n - 1) * *variance});
        if (found.mean > t)
            low = t;
        else
            high = t;
    }
    *variance = step.variance + LASTING * fmax(found.variance - step.variance, 0);
    return (low + high) / 2;
}

static double steady(normal step, normal round, int n) {
    double variance = step.variance, used = variance, iteration = steady_with(step, round, n, &variance);
    for (int i = 0; i < 30 && n > 1; i++) {
        variance = used = (used + variance) / 2;
        iteration = steady_with(step, round, n, &variance);
    }
    return iteration;
}

/* A loop as a recurrence: iterations follow each other after `step` at least, and a stage comes round after `round`. */
typedef struct recurrence {
    normal step, round;
    double floor; /* What an iteration takes at least. */
    int stages;   /* Iterations in a round. */
} recurrence;

/* Time of the n steps between the first iteration's begin and the last one's. With times that do not vary, the first
   stages pass at the pace of steps, and each round after them takes the longer of its stages' steps and `round`. What
   varying adds to the mean step is added to each. */
static double all_steps(const recurrence *r, int n, double iteration) {
    const double step = fmax(r->step.mean, r->floor);
    const int rounds = n / r->stages, rest = n % r->stages;
    const double even = rounds * fmax(r->stages * step, r->round.mean) + rest * step;
    return even + n * (iteration - fmax(step, r->round.mean / r->stages));
}

static tw_pipelining_bound bound_of(const tw_pipelining_times *t, const recurrence *r, double compute, double tensor,
                                    double issue) {
    const double round = r->round.mean / r->stages;
    const double longest = fmax(fmax(fmax(compute, tensor), fmax(round, t->gap)), issue);
    return longest == compute  ? TW_PIPELINING_COMPUTE
           : longest == tensor ? TW_PIPELINING_TENSOR
           : longest == round  ? TW_PIPELINING_LATENCY
           : longest == t->gap ? TW_PIPELINING_MEMORY
                               : TW_PIPELINING_ISSUE;
}

static double first_of(double a, double b) {
    return a < b ? a : b;
}

/* One warp's iteration: pass the wait, issue the load for S - 1 iterations later, multiply, work. The round of a stage:
   the issue, then the latency; the iteration that waits for it is the (S - 1)-th from there. */
static void predict_software(tw_pipelining_prediction *out, const tw_pipelining_times *t) {
    const int ahead = out->stages - 1;
    const normal work = sum(scaled(of(t->product), t->consumers), of(t->alu));
    const normal load = sum(of(t->issue), of(t->latency));
    if (!ahead) {
        const double loaded = t->issue.mean + fmax(t->latency.mean, t->pass);
        out->iteration = fmax(loaded + work.mean, t->gap);
        out->total = t->before + loaded + (t->iterations - 1) * out->iteration + work.mean + t->after;
        out->bound = out->iteration > t->gap ? TW_PIPELINING_LATENCY : TW_PIPELINING_MEMORY;
        return;
    }
    const recurrence r = {sum(work, sum(of(t->issue), always(t->pass))), load, t->gap, ahead};
    out->iteration = steady(later(r.step, always(r.floor)), r.round, ahead);
    double steps = all_steps(&r, t->iterations - 1, out->iteration);
    /* The last S - 1 iterations have nothing more to load. It shows where nobody waits for loads. */
    if (ahead * r.step.mean >= r.round.mean && r.step.mean > t->gap)
        steps -= first_of(ahead - 1, t->iterations - 1) * t->issue.mean;
    const double first = fmax(first_of(ahead, t->iterations) * t->issue.mean + t->pass, load.mean);
    out->total = t->before + first + steps + work.mean + t->after;
    out->bound = bound_of(t, &r, r.step.mean, 0, 0);
}

/* Consumers: pass the wait, multiply, return the stage, work. The round of a stage: issue, latency, news to the
   consumer, the products of all consumers, and news of the return; S iterations later the producer fills it again. */
static void predict_specialised(tw_pipelining_prediction *out, const tw_pipelining_times *t) {
    const normal compute = sum(sum(of(t->product), of(t->alu)), always(t->pass));
    const normal tensor = t->consumers > 1 ? scaled(of(t->product), t->consumers) : always(0);
    const double issue = t->issue.mean + t->pass;
    const normal round =
        sum(sum(of(t->issue), of(t->latency)), sum(scaled(of(t->product), t->consumers), always(2 * t->lag)));
    recurrence r = {compute.mean >= tensor.mean ? compute : tensor, round, fmax(t->gap, issue), out->stages};
    out->iteration = steady(later(later(compute, tensor), always(r.floor)), round, out->stages);
    const double steps = all_steps(&r, t->iterations - 1, out->iteration);
    const double first = issue + t->latency.mean + t->lag;
    out->total = t->before + first + steps + t->consumers * t->product.mean + t->alu.mean + t->after;
    out->bound = bound_of(t, &r, compute.mean, tensor.mean, issue);
}

tw_pipelining_prediction tw_pipelining_predict(const tw_pipelining_times *t, tw_pipelining_kind kind, int stages) {
    tw_pipelining_prediction out = {.kind = kind, .stages = stages};
    if (kind == TW_PIPELINING_SOFTWARE)
        predict_software(&out, t);
    else
        predict_specialised(&out, t);
    return out;
}

static int fastest_first(const void *a, const void *b) {
    const tw_pipelining_prediction *x = a, *y = b;
    if (x->total != y->total) return x->total < y->total ? -1 : 1;
    if (x->stages != y->stages) return x->stages < y->stages ? -1 : 1;
    return x->kind < y->kind ? -1 : x->kind > y->kind;
}

int tw_pipelining_choose(const tw_pipelining_times *t, int most_stages, tw_pipelining_prediction *out) {
    int n = 0;
    for (int stages = 2; stages <= most_stages; stages++) {
        out[n++] = tw_pipelining_predict(t, TW_PIPELINING_SOFTWARE, stages);
        out[n++] = tw_pipelining_predict(t, TW_PIPELINING_SPECIALISED, stages);
    }
    if (n) qsort(out, (size_t)n, sizeof *out, fastest_first);
    return n;
}
