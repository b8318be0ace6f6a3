/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/wave.h"

#include "base/diag.h"
#include "base/least.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TERMS = 4, LAST = 10 };
static const double LONGEST = 1.1;

/* ---- where to measure */

/* Returns the ratio of the longer side to the shorter one. */
static double length(const tw_wave_point *p) {
    const double ratio = (double)p->columns / (double)p->rows;
    return ratio < 1 ? 1 / ratio : ratio;
}

static bool is_within(const tw_wave_grid *g, int64_t rows, int64_t columns) {
    return (!g->most_rows || rows <= g->most_rows) && (!g->most_columns || columns <= g->most_columns);
}

/* Finds the two factors of a number of blocks that are nearest to each other within the limits. The larger factor
   becomes the columns if the limits allow it. False: no factors are within the limits. */
static bool factor(const tw_wave_grid *g, int64_t blocks, tw_wave_point *p) {
    p->rows = 0;
    for (int64_t least = 1; least * least <= blocks; least++) {
        const int64_t most = blocks / least;
        if (blocks % least) continue;
        if (is_within(g, least, most)) {
            p->rows = least;
            p->columns = most;
        } else if (is_within(g, most, least)) {
            p->rows = most;
            p->columns = least;
        }
    }
    return p->rows > 0;
}

/* Finds the point of grids `first` to `last` that have heads: the largest grid that is a multiple of heads times
   groups. False: none is. */
static bool find_aligned(const tw_wave_grid *g, int64_t groups, int64_t first, int64_t last, tw_wave_point *out) {
    out->columns = g->heads;
    out->rows = last / (g->heads * groups);
    if (g->most_rows && out->rows > g->most_rows) out->rows = g->most_rows;
    out->grid = out->rows * g->heads * groups;
    return out->grid >= first;
}

/* Finds the point of grids `first` to `last`. False: none is possible. */
static bool find_point(const tw_wave_grid *g, int64_t first, int64_t last, tw_wave_point *out) {
    const double longest = g->longest > 0 ? g->longest : LONGEST;
    const int64_t groups = g->groups ? g->groups : 1;
    if (g->heads) return find_aligned(g, groups, first, last, out);
    bool found = false;
    for (int64_t blocks = last / groups; blocks * groups >= first; blocks--) {
        tw_wave_point p = {.wave = out->wave, .grid = blocks * groups};
        if (!factor(g, blocks, &p)) continue;
        if (!found || length(&p) < length(out)) *out = p;
        found = true;
        if (length(&p) <= longest) break;
    }
    return found;
}

bool tw_wave_point_at(const tw_wave_grid *g, int wave, int part, tw_wave_point *point) {
    assert(g->slots >= 1 && g->parts >= 1 && g->parts <= g->slots);
    const int64_t below = wave * g->slots;
    *point = (tw_wave_point){.wave = wave + 1};
    return find_point(g, below + part * g->slots / g->parts + 1, below + (part + 1) * g->slots / g->parts, point);
}

int tw_wave_points(const tw_wave_grid *g, tw_wave_point *points) {
    int n = 0;
    for (int w = 0; w < g->waves; w++)
        for (int i = 0; i < g->parts; i++) n += tw_wave_point_at(g, w, i, &points[n]);
    return n;
}

/* ---- the model */

/* The coefficients and micro choices of one wave, or of several waves that share them. */
typedef struct fit {
    int64_t wave;
    double c[TERMS];      /* Coefficients of GL, G, L and 1. */
    const double *rounds; /* L of each anchor, ascending. */
    const int *micros;    /* Micro choice of each anchor. */
    int n;                /* Number of anchors. 0: the fit has no samples. */
} fit;

typedef struct macro {
    int64_t slots;
    const fit *waves; /* Fits of the waves that have samples, in ascending order. */
    int n;            /* Number of `waves`. */
    fit beyond;       /* The fit of all waves after the last one in `waves`. */
} macro;

struct tw_wave_model {
    tw_wave_form form;
    int n_macros;
    macro *macros;
    fit *fits; /* What macro.waves points into. */
    int n_fits;
    double *rounds; /* Memory of fit.rounds and fit.micros. */
    int *micros;
    int n_anchors;
};

/* What the fits of a model have in common. */
typedef struct fitting {
    tw_wave_model *m;
    const tw_wave_options *o;
    tw_wave_sample *used; /* The samples that the current fit uses. */
    double *rows;         /* Rows of the least squares for `used`. */
} fitting;

static int64_t waves_of(int64_t slots, int64_t grid) {
    return (grid - 1) / slots + 1;
}

static void terms(const tw_wave_model *m, int64_t slots, int64_t grid, double loops, double x[TERMS]) {
    const double g = (double)(m->form == TW_WAVE_STEP ? waves_of(slots, grid) : grid);
    x[0] = g * loops;
    x[1] = g;
    x[2] = loops;
    x[3] = 1;
}

static int by_place(const void *a, const void *b) {
    const tw_wave_sample *x = a, *y = b;
    if (x->macro != y->macro) return x->macro < y->macro ? -1 : 1;
    if (x->loops != y->loops) return x->loops < y->loops ? -1 : 1;
    if (x->micro != y->micro) return x->micro < y->micro ? -1 : 1;
    return (x->grid > y->grid) - (x->grid < y->grid);
}

/* Makes one sample, the mean, of several that differ in nothing but their time. Returns how many are left. */
static int merge_repeats(tw_wave_sample *s, int n) {
    int left = 0;
    for (int i = 0, end; i < n; i = end) {
        double sum = 0;
        for (end = i; end < n && !by_place(&s[end], &s[i]); end++) sum += s[end].time;
        s[left] = s[i];
        s[left++].time = sum / (end - i);
    }
    return left;
}

/* Tells whether a sample is of waves `first` to `last`. */
static bool is_of(const macro *k, const tw_wave_sample *s, int64_t first, int64_t last) {
    const int64_t w = waves_of(k->slots, s->grid);
    return w >= first && w <= last;
}

/* Finds the least time of any micro parameters at a grid. */
static double least_at(const tw_wave_sample *s, int n, int64_t grid) {
    double least = (double)INFINITY;
    for (int i = 0; i < n; i++)
        if (s[i].grid == grid) least = fmin(least, s[i].time);
    return least;
}

/* Finds the micro parameters that are shared by the samples of an L, n of them in the order of by_place: those that
   were measured at the most grids, and of these the nearest to the fastest in the mean. -1: no sample is of these
   waves. */
static int shared_micro(const fitting *f, const macro *k, const tw_wave_sample *s, int n, int64_t first, int64_t last) {
    int best = -1, most = 0;
    double least = 0;
    for (int i = 0; i < n;) {
        const int micro = s[i].micro;
        int grids = 0;
        double sum = 0;
        for (; i < n && s[i].micro == micro; i++) {
            if (!is_of(k, &s[i], first, last)) continue;
            grids++;
            sum += f->o->absolute ? s[i].time : s[i].time / least_at(s, n, s[i].grid);
        }
        if (!grids || grids < most || (grids == most && sum / grids >= least)) continue;
        best = micro;
        most = grids;
        least = sum / grids;
    }
    return best;
}

/* Fits the coefficients to n samples. If all samples have the same G, the coefficients of G are 0, and likewise for
   L. */
static void find_coefficients(const fitting *f, const macro *k, int n, fit *out) {
    double first[TERMS] = {0};
    bool grids_differ = false, loops_differ = false;
    for (int i = 0; i < n; i++) {
        const tw_wave_sample *s = &f->used[i];
        double x[TERMS], *row = f->rows + i * (TERMS + 1);
        terms(f->m, k->slots, s->grid, s->loops, x);
        if (!i) memcpy(first, x, sizeof x);
        grids_differ |= x[1] != first[1];
        loops_differ |= x[2] != first[2];
        const double weight = f->o->absolute ? 1 : 1 / s->time;
        for (int t = 0; t < TERMS; t++) row[t] = x[t] * weight;
        row[TERMS] = s->time * weight;
    }
    for (int i = 0; i < n; i++) {
        double *row = f->rows + i * (TERMS + 1);
        if (!grids_differ) row[0] = row[1] = 0;
        if (!loops_differ) row[0] = row[2] = 0;
    }
    tw_least_squares(f->rows, n, TERMS, out->c);
}

/* Fits the samples of waves `first` to `last` of a macro choice, n of them in the order of by_place. */
static void fit_waves(const fitting *f, const macro *k, const tw_wave_sample *s, int n, int64_t first, int64_t last,
                      fit *out) {
    tw_wave_model *m = f->m;
    int used = 0;
    out->wave = last;
    out->rounds = &m->rounds[m->n_anchors];
    out->micros = &m->micros[m->n_anchors];
    for (int i = 0, end; i < n; i = end) {
        for (end = i; end < n && s[end].loops == s[i].loops;) end++;
        const int micro = shared_micro(f, k, s + i, end - i, first, last);
        if (micro < 0) continue;
        m->rounds[m->n_anchors] = s[i].loops;
        m->micros[m->n_anchors++] = micro;
        out->n++;
        for (int j = i; j < end; j++)
            if (s[j].micro == micro && is_of(k, &s[j], first, last)) f->used[used++] = s[j];
    }
    find_coefficients(f, k, used, out);
}

/* Finds the next wave after `wave` that has samples. INT64_MAX: there is none that counts. */
static int64_t next_wave(const fitting *f, const macro *k, const tw_wave_sample *s, int n, int64_t wave) {
    int64_t next = INT64_MAX;
    for (int i = 0; i < n; i++) {
        const int64_t w = waves_of(k->slots, s[i].grid);
        if (w > wave && w < next && (!f->o->waves || w <= f->o->waves)) next = w;
    }
    return next;
}

/* Fits the macro choice of samples 0 to n - 1. */
static void fit_macro(const fitting *f, const tw_wave_sample *s, int n) {
    tw_wave_model *m = f->m;
    macro *k = &m->macros[s->macro];
    const int last = f->o->last ? f->o->last : LAST;
    int64_t first = 0, w = 0;
    fit *waves = &m->fits[m->n_fits];
    k->waves = waves;
    while (m->form != TW_WAVE_LINEAR && (w = next_wave(f, k, s, n, w)) != INT64_MAX &&
           (!f->o->alone || w <= f->o->alone))
        fit_waves(f, k, s, n, w, w, &waves[k->n++]);
    m->n_fits += k->n;
    if (k->n > last) first = waves[k->n - last].wave;
    if (f->o->alone && w != INT64_MAX && w > first) first = w;
    fit_waves(f, k, s, n, first, f->o->waves ? f->o->waves : INT64_MAX, &k->beyond);
}

static tw_status check(const tw_wave_sample *s, int n, const int64_t *slots, int macros, const tw_wave_options *o,
                       tw_diag *diag) {
    if (n < 0 || macros < 0 || o->waves < 0 || o->last < 0 || o->alone < 0)
        return tw_fail(diag, TW_ERR_USAGE, "a number of samples, choices or waves is negative");
    for (int i = 0; i < macros; i++)
        if (slots[i] < 1) return tw_fail(diag, TW_ERR_USAGE, "macro choice %d has no slots", i);
    for (int i = 0; i < n; i++)
        if (s[i].macro < 0 || s[i].macro >= macros || s[i].micro < 0 || s[i].grid < 1 || !(s[i].loops > 0) ||
            isinf(s[i].loops) || !(s[i].time > 0) || isinf(s[i].time))
            return tw_fail(diag, TW_ERR_USAGE, "sample %d is out of range", i);
    return TW_OK;
}

static void fit_all(const fitting *f, tw_wave_sample *s, int n) {
    qsort(s, (size_t)n, sizeof *s, by_place);
    n = merge_repeats(s, n);
    for (int i = 0, end; i < n; i = end) {
        for (end = i; end < n && s[end].macro == s[i].macro;) end++;
        fit_macro(f, s + i, end - i);
    }
}

tw_status tw_wave_fit(tw_wave_model **out, const tw_wave_sample *samples, int n, const int64_t *slots, int macros,
                      const tw_wave_options *o, tw_diag *diag) {
    *out = NULL;
    tw_status st = check(samples, n, slots, macros, o, diag);
    if (st != TW_OK) return st;
    const size_t room = (size_t)n + 1;
    tw_wave_model *m = calloc(1, sizeof *m);
    tw_wave_sample *s = malloc(room * sizeof *s);
    fitting f = {m, o, malloc(room * sizeof *f.used), malloc(room * (TERMS + 1) * sizeof *f.rows)};
    if (m) {
        m->form = o->form;
        m->n_macros = macros;
        m->macros = calloc((size_t)macros + 1, sizeof *m->macros);
        m->fits = calloc(room, sizeof *m->fits);
        /* A sample makes at most an anchor of its wave, and one of the waves beyond. */
        m->rounds = calloc(2 * room, sizeof *m->rounds);
        m->micros = calloc(2 * room, sizeof *m->micros);
    }
    if (m && s && f.used && f.rows && m->macros && m->fits && m->rounds && m->micros) {
        for (int i = 0; i < macros; i++) m->macros[i].slots = slots[i];
        for (int i = 0; i < n; i++) s[i] = samples[i];
        fit_all(&f, s, n);
        *out = m;
    } else {
        tw_wave_free(m);
        st = tw_fail_memory(diag);
    }
    free(f.used);
    free(f.rows);
    free(s);
    return st;
}

void tw_wave_free(tw_wave_model *m) {
    if (!m) return;
    free(m->macros);
    free(m->fits);
    free(m->rounds);
    free(m->micros);
    free(m);
}

static const fit *fit_of(const tw_wave_model *m, int number, int64_t grid, double loops) {
    assert(number >= 0 && number < m->n_macros && grid >= 1 && loops > 0);
    const macro *k = &m->macros[number];
    const int64_t w = waves_of(k->slots, grid);
    int from = 0, below = k->n; /* The first wave that is not before w. */
    while (from < below) {
        const int middle = (from + below) / 2;
        if (k->waves[middle].wave < w)
            from = middle + 1;
        else
            below = middle;
    }
    return from < k->n ? &k->waves[from] : &k->beyond;
}

int tw_wave_fits(const tw_wave_model *m, int number) {
    return m->macros[number].n + 1;
}

tw_wave_fit_view tw_wave_fit_at(const tw_wave_model *m, int number, int i) {
    const macro *k = &m->macros[number];
    const fit *f = i < k->n ? &k->waves[i] : &k->beyond;
    return (tw_wave_fit_view){f->wave, i == k->n, f->c, f->n, f->rounds, f->micros};
}

double tw_wave_time(const tw_wave_model *m, int number, int64_t grid, double loops) {
    const fit *f = fit_of(m, number, grid, loops);
    if (!f->n) return (double)INFINITY;
    double x[TERMS], time = 0;
    terms(m, m->macros[number].slots, grid, loops, x);
    for (int t = 0; t < TERMS; t++) time += f->c[t] * x[t];
    return time > 0 ? time : (double)INFINITY;
}

int tw_wave_micro(const tw_wave_model *m, int number, int64_t grid, double loops) {
    const fit *f = fit_of(m, number, grid, loops);
    int best = -1;
    double least = (double)INFINITY;
    for (int i = 0; i < f->n; i++) {
        const double apart = fabs(f->rounds[i] - loops);
        if (apart >= least) continue;
        least = apart;
        best = f->micros[i];
    }
    return best;
}

tw_wave_choice tw_wave_select(const tw_wave_model *m, const tw_wave_division *divisions) {
    tw_wave_choice best = {-1, -1, (double)INFINITY};
    for (int i = 0; i < m->n_macros; i++) {
        if (!divisions[i].grid) continue;
        const double time = tw_wave_time(m, i, divisions[i].grid, divisions[i].loops);
        if (time < best.time) best = (tw_wave_choice){i, -1, time};
    }
    if (best.macro >= 0)
        best.micro = tw_wave_micro(m, best.macro, divisions[best.macro].grid, divisions[best.macro].loops);
    return best;
}

/* Tells whether a sample counts: the model would choose its micro parameters. */
static bool counts(const tw_wave_model *m, const tw_wave_sample *s) {
    return tw_wave_micro(m, s->macro, s->grid, s->loops) == s->micro;
}

tw_wave_quality tw_wave_judge(const tw_wave_model *m, const tw_wave_sample *samples, int n) {
    tw_wave_quality q = {0};
    double sum = 0, variance = 0, left = 0;
    for (int i = 0; i < n; i++) {
        const tw_wave_sample *s = &samples[i];
        if (!counts(m, s)) continue;
        const double off = tw_wave_time(m, s->macro, s->grid, s->loops) - s->time, error = fabs(off) / s->time;
        if (isinf(off)) {
            q.without++;
            continue;
        }
        q.n++;
        sum += s->time;
        left += off * off;
        q.mean += error;
        q.worst = fmax(q.worst, error);
    }
    for (int i = 0; i < n; i++) {
        const tw_wave_sample *s = &samples[i];
        if (!counts(m, s) || isinf(tw_wave_time(m, s->macro, s->grid, s->loops))) continue;
        variance += (s->time - sum / q.n) * (s->time - sum / q.n);
    }
    if (q.n) q.mean /= q.n;
    if (variance > 0) q.r2 = 1 - left / variance;
    return q;
}

/* ---- why waves fade */

tw_status tw_wave_simulate(int64_t slots, int64_t blocks, double mean, double deviation, tw_random *random,
                           double *time, tw_diag *diag) {
    assert(slots >= 1);
    double *heap = calloc((size_t)slots, sizeof *heap); /* When each slot is free, the first one first. */
    if (!heap) return tw_fail_memory(diag);
    *time = 0;
    for (int64_t i = 0; i < blocks; i++) {
        const double drawn = mean + deviation * (double)tw_random_normal(random), end = heap[0] + fmax(drawn, 0);
        int64_t at = 0;
        for (int64_t child = 1; child < slots; child = 2 * at + 1) {
            if (child + 1 < slots && heap[child + 1] < heap[child]) child++;
            if (heap[child] >= end) break;
            heap[at] = heap[child];
            at = child;
        }
        heap[at] = end;
        *time = fmax(*time, end);
    }
    free(heap);
    return TW_OK;
}
