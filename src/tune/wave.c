/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/wave.h"

#include "base/diag.h"
#include "base/least.h"

#include <math.h>
#include <stdlib.h>

enum { TERMS = 4, LAST = 10 };
static const double LONGEST = 1.1;

/* ---- where to measure */

/* Finds the factors of G that are nearest to one another. */
static void factor(tw_wave_point *p) {
    for (int64_t rows = 1; rows * rows <= p->grid; rows++)
        if (p->grid % rows == 0) p->rows = rows;
    p->columns = p->grid / p->rows;
}

static double length(const tw_wave_point *p) {
    return (double)p->columns / (double)p->rows;
}

/* Finds the point of grids `first` to `last`. */
static bool find_point(const tw_wave_grid *g, int64_t first, int64_t last, tw_wave_point *out) {
    const double longest = g->longest > 0 ? g->longest : LONGEST;
    if (g->heads) {
        out->grid = last / g->heads * g->heads;
        out->columns = g->heads;
        out->rows = out->grid / g->heads;
        return out->grid >= first;
    }
    for (int64_t grid = last; grid >= first; grid--) {
        tw_wave_point p = {.wave = out->wave, .grid = grid};
        factor(&p);
        if (grid == last || length(&p) < length(out)) *out = p;
        if (length(&p) <= longest) break;
    }
    return true;
}

int tw_wave_points(const tw_wave_grid *g, tw_wave_point *points) {
    int n = 0;
    for (int w = 0; w < g->waves; w++)
        for (int i = 0; i < g->parts; i++) {
            const int64_t first = w * g->slots + i * g->slots / g->parts + 1;
            tw_wave_point p = {.wave = w + 1};
            if (find_point(g, first, w * g->slots + (i + 1) * g->slots / g->parts, &p)) points[n++] = p;
        }
    return n;
}

/* ---- the model */

typedef struct anchor {
    int64_t loops;
    int micro;
} anchor;

typedef struct fit {
    double c[TERMS]; /* Of GL, G, L, 1. */
    const anchor *anchors;
    int n; /* Number of anchors, by `loops`. 0: there are no samples. */
} fit;

typedef struct macro {
    int64_t slots;
    int waves;    /* Waves that have a place in `by_wave`. */
    fit *by_wave; /* [waves] */
    fit beyond;   /* For waves without samples. */
} macro;

struct tw_wave_model {
    tw_wave_form form;
    int n_macros;
    macro *macros;
    fit *fits;       /* What by_wave points into. */
    anchor *anchors; /* What anchors point into. */
    int n_anchors;
};

static int64_t waves_of(int64_t slots, int64_t grid) {
    return (grid - 1) / slots + 1;
}

static void terms(const tw_wave_model *m, int64_t slots, int64_t grid, int64_t loops, double x[TERMS]) {
    const double g = (double)(m->form == TW_WAVE_STEP ? waves_of(slots, grid) : grid), l = (double)loops;
    x[0] = g * l;
    x[1] = g;
    x[2] = l;
    x[3] = 1;
}

static int by_place(const void *a, const void *b) {
    const tw_wave_sample *x = a, *y = b;
    if (x->macro != y->macro) return x->macro < y->macro ? -1 : 1;
    if (x->loops != y->loops) return x->loops < y->loops ? -1 : 1;
    if (x->micro != y->micro) return x->micro < y->micro ? -1 : 1;
    return (x->grid > y->grid) - (x->grid < y->grid);
}

/* Tells whether a sample is of waves `first` to `last`. */
static bool is_of(const macro *k, const tw_wave_sample *s, int64_t first, int64_t last) {
    const int64_t w = waves_of(k->slots, s->grid);
    return w >= first && w <= last;
}

/* Finds the micro parameters that are shared by the samples of an L, n of them in the order of by_place: those that
   were measured at the most grids, and of these the fastest in the mean. Returns -1 if no sample is of these waves. */
static int shared_micro(const macro *k, const tw_wave_sample *s, int n, int64_t first, int64_t last) {
    int best = -1, most = 0;
    double least = 0;
    for (int i = 0; i < n;) {
        const int micro = s[i].micro;
        int grids = 0, times = 0;
        double sum = 0;
        int64_t before = 0;
        for (; i < n && s[i].micro == micro; i++) {
            if (!is_of(k, &s[i], first, last)) continue;
            grids += s[i].grid != before;
            before = s[i].grid;
            sum += s[i].time;
            times++;
        }
        if (!grids || grids < most || (grids == most && sum / times >= least)) continue;
        best = micro;
        most = grids;
        least = sum / times;
    }
    return best;
}

/* Fits the samples of waves `first` to `last` of a macro choice, n of them in the order of by_place. `rows` has room
   for n rows. */
static void fit_waves(tw_wave_model *m, const macro *k, const tw_wave_sample *s, int n, int64_t first, int64_t last,
                      bool absolute, double *rows, fit *out) {
    int used = 0;
    out->anchors = &m->anchors[m->n_anchors];
    for (int i = 0, end; i < n; i = end) {
        for (end = i; end < n && s[end].loops == s[i].loops;) end++;
        const int micro = shared_micro(k, s + i, end - i, first, last);
        if (micro < 0) continue;
        m->anchors[m->n_anchors++] = (anchor){s[i].loops, micro};
        out->n++;
        for (int j = i; j < end; j++) {
            if (s[j].micro != micro || !is_of(k, &s[j], first, last)) continue;
            double *row = rows + used++ * (TERMS + 1);
            const double weight = absolute ? 1 : 1 / s[j].time;
            terms(m, k->slots, s[j].grid, s[j].loops, row);
            for (int t = 0; t < TERMS; t++) row[t] *= weight;
            row[TERMS] = s[j].time * weight;
        }
    }
    tw_least_squares(rows, used, TERMS, out->c);
}

static tw_status check_samples(const tw_wave_sample *s, int n, const int64_t *slots, int macros, tw_diag *diag) {
    for (int i = 0; i < macros; i++)
        if (slots[i] < 1) return tw_fail(diag, TW_ERR_USAGE, "macro choice %d has no slots", i);
    for (int i = 0; i < n; i++)
        if (s[i].macro < 0 || s[i].macro >= macros || s[i].micro < 0 || s[i].grid < 1 || s[i].loops < 1 ||
            !(s[i].time > 0) || isinf(s[i].time))
            return tw_fail(diag, TW_ERR_USAGE, "sample %d is out of range", i);
    return TW_OK;
}

/* Counts the waves that have a fit of their own. */
static int count_waves(const macro *k, const tw_wave_sample *s, int n, const tw_wave_options *o) {
    int64_t most = 0;
    for (int i = 0; i < n; i++)
        if (waves_of(k->slots, s[i].grid) > most) most = waves_of(k->slots, s[i].grid);
    if (o->waves && most > o->waves) most = o->waves;
    return o->form == TW_WAVE_LINEAR ? 0 : (int)most;
}

/* Fits the macro choice of samples 0 to n - 1. Returns the fits that it took from `fits`. */
static int fit_macro(tw_wave_model *m, const tw_wave_sample *s, int n, const tw_wave_options *o, fit *fits,
                     double *rows) {
    macro *k = &m->macros[s->macro];
    const int64_t last = o->last ? o->last : LAST;
    k->waves = count_waves(k, s, n, o);
    k->by_wave = fits;
    for (int w = 0; w < k->waves; w++) fit_waves(m, k, s, n, w + 1, w + 1, o->absolute, rows, &fits[w]);
    const int64_t first = k->waves > last ? k->waves - last + 1 : 1;
    fit_waves(m, k, s, n, first, k->waves ? k->waves : INT64_MAX, o->absolute, rows, &k->beyond);
    return k->waves;
}

tw_status tw_wave_fit(tw_wave_model **out, const tw_wave_sample *samples, int n, const int64_t *slots, int macros,
                      const tw_wave_options *o, tw_diag *diag) {
    *out = NULL;
    tw_status st = check_samples(samples, n, slots, macros, diag);
    if (st != TW_OK) return st;
    tw_wave_model *m = calloc(1, sizeof *m);
    tw_wave_sample *s = malloc(((size_t)n + 1) * sizeof *s);
    double *rows = malloc(((size_t)n + 1) * (TERMS + 1) * sizeof *rows);
    int64_t fits = 0;
    if (m) m->macros = calloc((size_t)macros + 1, sizeof *m->macros);
    if (!m || !s || !rows || !m->macros) goto no_memory;
    m->form = o->form;
    m->n_macros = macros;
    for (int i = 0; i < macros; i++) m->macros[i].slots = slots[i];
    for (int i = 0; i < n; i++) s[i] = samples[i];
    qsort(s, (size_t)n, sizeof *s, by_place);
    for (int i = 0, end; i < n; i = end) {
        for (end = i; end < n && s[end].macro == s[i].macro;) end++;
        fits += count_waves(&m->macros[s[i].macro], s + i, end - i, o);
    }
    m->fits = calloc((size_t)fits + 1, sizeof *m->fits);
    /* A sample makes at most an anchor of its wave, and one for the waves beyond. */
    m->anchors = calloc(2 * (size_t)n + 1, sizeof *m->anchors);
    if (!m->fits || !m->anchors) goto no_memory;
    fit *next = m->fits;
    for (int i = 0, end; i < n; i = end) {
        for (end = i; end < n && s[end].macro == s[i].macro;) end++;
        next += fit_macro(m, s + i, end - i, o, next, rows);
    }
    free(rows);
    free(s);
    *out = m;
    return TW_OK;
no_memory:
    free(rows);
    free(s);
    tw_wave_free(m);
    return tw_fail_memory(diag);
}

void tw_wave_free(tw_wave_model *m) {
    if (!m) return;
    free(m->macros);
    free(m->fits);
    free(m->anchors);
    free(m);
}

static const fit *fit_of(const macro *k, int64_t grid) {
    const int64_t w = waves_of(k->slots, grid);
    return w <= k->waves && k->by_wave[w - 1].n ? &k->by_wave[w - 1] : &k->beyond;
}

double tw_wave_time(const tw_wave_model *m, int number, int64_t grid, int64_t loops) {
    const macro *k = &m->macros[number];
    const fit *f = fit_of(k, grid);
    if (!f->n) return (double)INFINITY;
    double x[TERMS], time = 0;
    terms(m, k->slots, grid, loops, x);
    for (int t = 0; t < TERMS; t++) time += f->c[t] * x[t];
    return time > 0 ? time : (double)INFINITY;
}

int tw_wave_micro(const tw_wave_model *m, int number, int64_t grid, int64_t loops) {
    const fit *f = fit_of(&m->macros[number], grid);
    int best = -1;
    int64_t least = INT64_MAX;
    for (int i = 0; i < f->n; i++) {
        const int64_t apart = llabs(f->anchors[i].loops - loops);
        if (apart >= least) continue;
        least = apart;
        best = f->anchors[i].micro;
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

tw_wave_quality tw_wave_judge(const tw_wave_model *m, const tw_wave_sample *samples, int n) {
    tw_wave_quality q = {0};
    double sum = 0, squares = 0, left = 0;
    for (int i = 0; i < n; i++) {
        const tw_wave_sample *s = &samples[i];
        if (tw_wave_micro(m, s->macro, s->grid, s->loops) != s->micro) continue;
        const double off = tw_wave_time(m, s->macro, s->grid, s->loops) - s->time, error = fabs(off) / s->time;
        q.n++;
        sum += s->time;
        squares += s->time * s->time;
        left += off * off;
        q.mean += error;
        if (error > q.worst) q.worst = error;
    }
    if (!q.n) return q;
    const double variance = squares - sum * sum / q.n;
    q.mean /= q.n;
    q.r2 = variance > 0 ? 1 - left / variance : left == 0;
    return q;
}

/* ---- why waves fade */

tw_status tw_wave_simulate(int64_t slots, int64_t blocks, double mean, double deviation, tw_random *random,
                           double *time, tw_diag *diag) {
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
