/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/spline.h"

#include "base/arena.h"
#include "base/diag.h"
#include "base/divide.h"
#include "base/stats.h"

#include <f77blas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TERMS = TW_SPLINE_TERMS, WAVES = 6, SWEEPS = 20000, NEAR = TW_LATTICE_CORNERS + TW_FILL_NEAR };

static const double NODES_AN_OCTAVE = 1; /* Nodes of the lattice in an octave of an axis. */
static const double SCREENED = 0.3;      /* Weight of a screened trial. A spread trial has weight 1. */
static const double RIDGE = 1e-5;        /* Ridge penalty of each c, relative to its term's sum of squares. */
static const double PRIOR = 1e-3;        /* Ridge penalty of r at each node. */
static const double PENALTY = 0.03;      /* Penalty of a squared first or second difference of r, per node. */
static const double FILLED = 1;          /* Ridge penalty of each cell of s, multiplied by the smoothing. */
static const double FILL_MOST = 0.9;     /* Cells of s are between -FILL_MOST and FILL_MOST. */
static const double WORST = 0.3;         /* Larger errors count as this one when smoothings are compared. */
static const double FEWER = 0.97; /* Other slots are taken if they lower the mean squared error by this factor. */
/* Numbers of slots that are tried, relative to the family's. */
static const double slots[] = {1, 2, 3, 0.97, 0.94, 0.91, 0.88, 0.85};
static const double smoothings[] = {0.3, 1, 3, 10};

/* A trial in the fit of its configuration. */
typedef struct sample {
    const tw_trial *trial;
    double weight;
    double base; /* Time by the terms alone, divided by the measured time. */
    double left; /* Relative error of the prediction by all other samples. */
    int near;    /* Number of nodes and cells around the problem. */
    uint32_t node[NEAR];
    double share[NEAR]; /* Their weights. Those of nodes sum up to 1. */
} sample;

typedef struct fitting {
    tw_spline *s;
    const tw_family *f;
    sample *samples; /* Samples, ordered by configuration. */
    int n;           /* Number of samples. */
    int nodes;       /* Number of nodes of the lattice. */
    int all;         /* Number of nodes and cells. */
    double *penalty; /* [all][all]: symmetric matrix P of the smoothness penalty r'Pr. */
    double *h;       /* [all][all]: left side of the normal equations, then its inverse. */
    double *g;       /* [all]: right side of the normal equations. */
} fitting;

struct owner {
    tw_spline spline;
    tw_arena arena;
};

/* ---- problems */

/* What a macro choice makes of a problem. */
typedef struct shape {
    double grid, rounds, x, waves;
    double tiles[TW_FILL_AXES]; /* Number of tiles along each tiled axis. */
    double empty[TW_FILL_AXES]; /* Empty part of the last tile along each tiled axis. 0: the axis shrinks. */
    double lean[TW_FILL_AXES];  /* Size of a tile divided by a block's extent. 0: the axis does not shrink. */
} shape;

static shape shape_of(const tw_spline *s, const tw_spline_config *c, const int64_t *problem) {
    const tw_artefact_macro *m = &s->family->macros[c->macro];
    const tw_wave_division d = tw_family_divide(s->family, c->macro, problem);
    const double x = (double)d.grid / (double)c->slots;
    shape out = {.grid = (double)d.grid, .rounds = d.loops, .x = x, .waves = ceil(x)};
    for (int k = 0; k < TW_FILL_AXES; k++) {
        const int a = s->tiled[k] - 1;
        const int64_t tile = a >= 0 ? m->grid[a] : 0;
        const int64_t tiles = tile ? tw_family_tiles(s->family, c->macro, a, problem) : 1;
        const bool equal = a >= 0 && s->family->shrinks[a], spread = a >= 0 && a == s->family->spread - 1;
        out.tiles[k] = (double)tiles;
        out.empty[k] = tile && !equal && !spread ? (double)(tiles * tile - problem[a]) / (double)tile : 0;
        out.lean[k] = !equal ? 0 : tile ? (double)(tiles * tile) / (double)problem[a] : 1;
    }
    return out;
}

/* Computes the terms of a problem. False: the configuration cannot compute it. */
static bool find_terms(const tw_spline *s, const tw_spline_config *c, const int64_t *problem, double *t) {
    const shape p = shape_of(s, c, problem);
    const double l = p.rounds, waves[WAVES] = {p.waves * l, p.waves, l, 1, p.x * l, p.x};
    memcpy(t, waves, sizeof waves);
    for (int k = 0; k < TW_FILL_AXES; k++) {
        t[WAVES + k] = (p.empty[k] + p.lean[k] * p.waves) * l;
        t[WAVES + TW_FILL_AXES + k] = (p.empty[k] + p.lean[k]) * l * p.x / p.tiles[k];
        t[WAVES + 2 * TW_FILL_AXES + k] = p.lean[k] > 0 || !s->tiled[k] ? 0 : l * p.x / p.tiles[k];
    }
    return p.grid > 0;
}

/* Finds the nodes of the lattice and the cells of s around a problem, and their weights. Returns their number. */
static int find_near(const tw_spline *s, const tw_spline_config *c, const int64_t *problem, uint32_t *node,
                     double *share) {
    const shape p = shape_of(s, c, problem);
    double point[TW_SELECT_AXES];
    float axes[TW_SELECT_AXES];
    int16_t weights[TW_LATTICE_CORNERS];
    tw_family_point(s->family, problem, point);
    for (int a = 0; a < s->family->n_axes; a++) axes[a] = (float)point[a];
    int n = tw_lattice_corners(&s->lattice, s->family->n_axes, axes, node, weights);
    for (int k = 0; k < n; k++) share[k] = (double)weights[k] / TW_LATTICE_UNITS;
    if (!(p.grid > 0)) return n;
    const int nodes = tw_lattice_count(&s->lattice, s->family->n_axes);
    const tw_fill_place at = tw_fill_find((float)(p.x / p.waves), (float)p.waves);
    for (int k = 0; k < TW_FILL_NEAR; k++) {
        const int kind = k % TW_FILL_KINDS;
        const double near = k < TW_FILL_KINDS ? 1 - (double)at.part : (double)at.part;
        share[n] = kind ? near * p.empty[kind - 1] : near;
        node[n++] = (uint32_t)(nodes + at.cell + k);
    }
    return n;
}

/* ---- samples */

static int by_config(const void *a, const void *b) {
    const sample *x = a, *y = b;
    if (x->trial->macro != y->trial->macro) return x->trial->macro < y->trial->macro ? -1 : 1;
    if (x->trial->micro != y->trial->micro) return x->trial->micro < y->trial->micro ? -1 : 1;
    return memcmp(x->trial->problem, y->trial->problem, sizeof x->trial->problem);
}

static void add_samples(fitting *m, const tw_trial_list *l, double weight) {
    for (int i = 0; i < l->n; i++) {
        sample *s = &m->samples[m->n++];
        *s = (sample){.trial = &l->at[i], .weight = weight};
    }
}

static bool same_config(const sample *a, const sample *b) {
    return a->trial->macro == b->trial->macro && a->trial->micro == b->trial->micro;
}

/* ---- the terms */

/* Fits c >= 0 by weighted least squares of (terms c / time - 1), with coordinate descent. */
static void fit_terms(const fitting *m, const sample *s, int n, tw_spline_config *out) {
    double h[TERMS][TERMS] = {{0}}, g[TERMS] = {0}, scale[TERMS] = {0}, x[TERMS] = {0}, t[TERMS];
    for (int i = 0; i < n; i++) {
        find_terms(m->s, out, s[i].trial->problem, t);
        for (int a = 0; a < TERMS; a++) {
            for (int b = 0; b < TERMS; b++)
                h[a][b] += s[i].weight * t[a] * t[b] / (s[i].trial->time * s[i].trial->time);
            g[a] += s[i].weight * t[a] / s[i].trial->time;
        }
    }
    for (int a = 0; a < TERMS; a++) scale[a] = sqrt(h[a][a]);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double moved = 0;
        for (int a = 0; a < TERMS; a++) {
            if (!(scale[a] > 0)) continue;
            double sum = g[a] / scale[a];
            for (int b = 0; b < TERMS; b++)
                if (b != a && x[b] > 0) sum -= h[a][b] / (scale[a] * scale[b]) * x[b];
            const double next = fmax(sum / (1 + RIDGE), 0);
            moved = fmax(moved, fabs(next - x[a]));
            x[a] = next;
        }
        if (moved < 1e-10) break;
    }
    for (int a = 0; a < TERMS; a++) out->c[a] = scale[a] > 0 ? x[a] / scale[a] : 0;
}

static double base_time(const tw_spline *s, const tw_spline_config *c, const int64_t *problem) {
    double t[TERMS], sum = 0;
    if (!find_terms(s, c, problem, t)) return (double)INFINITY;
    for (int a = 0; a < TERMS; a++) sum += c->c[a] * t[a];
    return sum;
}

/* Fits the terms with the number of slots that explains the samples best, and computes each sample's base. */
static void fit_slots(const fitting *m, sample *s, int n, tw_spline_config *out) {
    const int64_t usual = m->f->macros[out->macro].slots;
    tw_spline_config best = *out;
    double least = (double)INFINITY;
    for (size_t k = 0; k < sizeof slots / sizeof *slots; k++) {
        double sum = 0;
        out->slots = llrint((double)usual * slots[k]);
        if (k && (out->slots < 1 || out->slots == usual || out->slots > TW_ARTEFACT_TILE)) continue;
        fit_terms(m, s, n, out);
        for (int i = 0; i < n; i++) {
            const double off = base_time(m->s, out, s[i].trial->problem) / s[i].trial->time - 1;
            sum += s[i].weight * fmin(off * off, WORST * WORST);
        }
        if (k && sum >= least * (best.slots == usual ? FEWER : 1)) continue;
        least = sum;
        best = *out;
    }
    *out = best;
    for (int i = 0; i < n; i++) {
        s[i].base = base_time(m->s, out, s[i].trial->problem) / s[i].trial->time;
        s[i].near = find_near(m->s, out, s[i].trial->problem, s[i].node, s[i].share);
    }
}

/* ---- the lattice */

/* Sets the tiled axes. They are the family's axis of rows and its axis of columns. */
static void find_tiled(tw_spline *s) {
    const tw_family *f = s->family;
    const int axes[TW_FILL_AXES] = {f->rows, f->columns};
    for (int k = 0; k < TW_FILL_AXES; k++)
        if (!k || axes[k] != axes[0]) s->tiled[k] = axes[k] + 1;
}

/* Returns the number of nodes along an axis that has `density` nodes an octave. */
static int nodes_along(const tw_lattice *l, int axis, double density) {
    const double span = (double)(l->high[axis] - l->low[axis]);
    const int nodes = span > 0 ? 1 + (int)ceil(span * density) : 1;
    return nodes < TW_LATTICE_NODES ? nodes : TW_LATTICE_NODES;
}

/* Sets the ends of each axis to those of usual problems as models know them (tw_family_point). */
static void find_ends(tw_lattice *l, const tw_family *f) {
    double least[TW_SELECT_AXES], most[TW_SELECT_AXES];
    tw_family_point(f, f->least, least);
    tw_family_point(f, f->most, most);
    if (f->spread) {
        /* A group has the fewest rows where there are many groups, and the most where there are few. */
        least[f->spread - 1] = fmax(1, (double)f->least[f->spread - 1] / (double)f->most[f->groups - 1]);
        most[f->spread - 1] = fmax(least[f->spread - 1], (double)f->most[f->spread - 1] / least[f->groups - 1]);
    }
    for (int a = 0; a < f->n_axes; a++) {
        l->low[a] = tw_lattice_octave((float)least[a]);
        l->high[a] = tw_lattice_octave((float)most[a]);
    }
}

static void make_lattice(tw_lattice *l, const tw_family *f) {
    int all = 1, wide = 0;
    double density = NODES_AN_OCTAVE;
    for (int a = 0; a < TW_SELECT_AXES; a++) l->nodes[a] = 1;
    find_ends(l, f);
    for (int a = 0; a < f->n_axes; a++) all *= nodes_along(l, a, density);
    if (all > TW_LATTICE_ALL / 4) density /= 2;
    all = 1;
    for (int a = 0; a < f->n_axes; a++) {
        int nodes = nodes_along(l, a, density);
        if (wide == TW_LATTICE_AXES || all * nodes > TW_LATTICE_ALL / 4) nodes = 1;
        l->nodes[a] = nodes;
        all *= nodes;
        wide += nodes > 1;
    }
}

/* Adds w (sum of k[i] r[node[i]])^2 to a quadratic form of r. */
static void add_square(double *h, int all, const int *node, const double *k, int n, double w) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) h[(size_t)node[i] * (size_t)all + (size_t)node[j]] += w * k[i] * k[j];
}

/* Makes the penalty: squared first and second differences along each axis, at all nodes, and squared cells. */
static void make_penalty(fitting *m) {
    static const double slope[] = {-1, 1}, bend[] = {1, -2, 1};
    const tw_lattice *l = &m->s->lattice;
    int pitch = m->nodes;
    for (int a = 0; a < m->f->n_axes; a++) {
        const int n = l->nodes[a];
        pitch /= n;
        const double h = n > 1 ? (double)(l->high[a] - l->low[a]) / (n - 1) : 1;
        for (int i = 0; i < m->nodes; i++) {
            const int at = i / pitch % n, node[] = {i, i + pitch, i + 2 * pitch};
            if (at + 1 < n) add_square(m->penalty, m->all, node, slope, 2, PENALTY / h);
            if (at + 2 < n) add_square(m->penalty, m->all, node, bend, 3, PENALTY / (h * h * h));
        }
    }
    for (int i = m->nodes; i < m->all; i++) m->penalty[(size_t)i * (size_t)m->all + (size_t)i] += FILLED;
}

/* Fits r, and computes each sample's error without the sample: its residual divided by 1 - h, with h the sample's
   diagonal element of the hat matrix. False: the normal equations are singular. */
static bool fit_lattice(fitting *m, sample *s, int n, double smoothing, double *r) {
    const size_t all = (size_t)m->all;
    blasint order = m->all, one = 1, info = 0;
    char lower = 'L';
    for (size_t i = 0; i < all * all; i++) m->h[i] = smoothing * m->penalty[i];
    for (size_t i = 0; i < all; i++) {
        m->h[i * all + i] += PRIOR;
        m->g[i] = 0;
    }
    for (int i = 0; i < n; i++) {
        const double w = s[i].weight * s[i].base * s[i].base, b = s[i].weight * s[i].base * (1 - s[i].base);
        for (int j = 0; j < s[i].near; j++) {
            for (int k = 0; k < s[i].near; k++)
                m->h[s[i].node[j] * all + s[i].node[k]] += w * s[i].share[j] * s[i].share[k];
            m->g[s[i].node[j]] += b * s[i].share[j];
        }
    }
    BLASFUNC(dpotrf)(&lower, &order, m->h, &order, &info);
    if (info) return false;
    memcpy(r, m->g, all * sizeof *r);
    BLASFUNC(dpotrs)(&lower, &order, &one, m->h, &order, r, &order, &info);
    BLASFUNC(dpotri)(&lower, &order, m->h, &order, &info);
    /* dpotri writes the lower triangle of columns, which is the upper triangle of rows. */
    for (int i = 0; i < n; i++) {
        double own = 0, sum = 0;
        for (int j = 0; j < s[i].near; j++) {
            sum += s[i].share[j] * r[s[i].node[j]];
            for (int k = 0; k < s[i].near; k++) {
                const size_t u = s[i].node[j] < s[i].node[k] ? s[i].node[j] : s[i].node[k],
                             v = s[i].node[j] < s[i].node[k] ? s[i].node[k] : s[i].node[j];
                own += s[i].share[j] * s[i].share[k] * m->h[u * all + v];
            }
        }
        own *= s[i].weight * s[i].base * s[i].base;
        s[i].left = (s[i].base * (1 + sum) - 1) / fmax(1 - own, 0.05);
    }
    return true;
}

/* ---- all configurations */

/* Lists the modelled configurations. With `spread` they are those with a spread trial, else all. Returns their
   number. */
static int find_configs(fitting *m, bool spread, tw_spline_config *out) {
    int n = 0;
    for (int i = 0, end; i < m->n; i = end) {
        bool wanted = !spread;
        for (end = i; end < m->n && same_config(&m->samples[i], &m->samples[end]); end++)
            wanted = wanted || m->samples[end].weight == 1;
        if (!wanted || end - i < TW_SPLINE_LEAST) continue;
        out[n++] = (tw_spline_config){
            .macro = m->samples[i].trial->macro, .micro = m->samples[i].trial->micro, .samples = end - i};
    }
    return n;
}

/* Returns the first sample of a configuration. The search begins at `from`, since configurations and samples have the
   same order. */
static sample *find_samples(const fitting *m, const tw_spline_config *c, sample *from) {
    while (from < m->samples + m->n && (from->trial->macro != c->macro || from->trial->micro != c->micro)) from++;
    return from;
}

/* Fits r of all configurations with a smoothing. Returns the mean squared error of leave-one-out predictions. */
static double fit_all(fitting *m, double smoothing) {
    double sum = 0, weights = 0;
    sample *at = m->samples;
    for (int i = 0; i < m->s->n; i++) {
        tw_spline_config *c = &m->s->configs[i];
        at = find_samples(m, c, at);
        if (!fit_lattice(m, at, c->samples, smoothing, c->r)) return (double)INFINITY;
        for (int k = 0; k < c->samples; k++) {
            sum += at[k].weight * fmin(at[k].left * at[k].left, WORST * WORST);
            weights += at[k].weight;
        }
    }
    return sum / weights;
}

static int by_problem(const void *a, const void *b) {
    const sample *const *x = a, *const *y = b;
    return tw_trials_by_problem((*x)->trial, (*y)->trial);
}

/* What choices gain over the default where another configuration must promise to take less than 1 / (1 + caution) of
   its time. */
typedef struct caution {
    double by, sum, squares; /* Sums of logarithms over problems. */
} caution;

static double mean_gain(const caution *c, int n, double *error) {
    const double mean = n > 1 ? c->sum / n : 0;
    *error = n > 1 ? sqrt(fmax(c->squares / n - mean * mean, 0) / (n - 1)) : (double)INFINITY;
    return mean;
}

static bool is_default(const fitting *m, const sample *x) {
    return x->trial->macro == m->f->macro && x->trial->micro == m->f->micro;
}

static double guess_of(const sample *x) {
    return x->trial->time * (1 + x->left);
}

/* Adds what a problem's choice gains. `own` is the default's time. */
static void add_gain(const fitting *m, caution *c, sample *const *order, int n, double own) {
    double predicted = (double)INFINITY, time = own;
    for (int i = 0; i < n; i++) {
        const double guess = guess_of(order[i]) * (is_default(m, order[i]) ? 1 : 1 + c->by);
        if (guess >= predicted) continue;
        predicted = guess;
        time = order[i]->trial->time;
    }
    const double gain = log(own / time);
    c->sum += gain;
    c->squares += gain * gain;
}

/* Takes the caution whose gain is surest: the most above its own standard error. */
static void take_caution(tw_spline *s, const caution *list, int n, int problems) {
    double best = -(double)INFINITY;
    for (int i = 0; i < n; i++) {
        double error;
        const double gain = mean_gain(&list[i], problems, &error);
        if (i && gain - error <= best) continue;
        best = gain - error;
        s->caution = list[i].by;
        s->gain = gain;
        s->gain_error = error;
    }
}

/* Computes the error, the share and the caution of the model from leave-one-out predictions. */
static void judge_choices(fitting *m, sample **order) {
    tw_spline *s = m->s;
    caution cautions[] = {{.by = 0}, {.by = 0.01}, {.by = 0.02}, {.by = 0.03}, {.by = 0.05}, {.by = 0.08}};
    enum { CAUTIONS = sizeof cautions / sizeof *cautions };
    double sum = 0, errors = 0, off = 0, times = 0, squares = 0;
    int n = 0, usual = 0; /* Number of problems with a trial of the default. */
    sample *at = m->samples;
    for (int i = 0; i < s->n; i++) {
        sample *first = find_samples(m, &s->configs[i], at);
        for (int k = 0; k < s->configs[i].samples; k++) order[n++] = &first[k];
        at = first;
    }
    qsort(order, (size_t)n, sizeof *order, by_problem);
    for (int i = 0, end; i < n; i = end) {
        double least = (double)INFINITY, predicted = (double)INFINITY, time = 0, own = 0;
        for (end = i; end < n && !by_problem(&order[i], &order[end]); end++) {
            const sample *x = order[end];
            const double guess = guess_of(x);
            errors += fabs(x->left);
            off += (guess - x->trial->time) * (guess - x->trial->time);
            times += x->trial->time;
            squares += x->trial->time * x->trial->time;
            least = fmin(least, x->trial->time);
            if (is_default(m, x)) own = x->trial->time;
            if (guess >= predicted) continue;
            predicted = guess;
            time = x->trial->time;
        }
        sum += log(least / time);
        s->problems++;
        if (!(own > 0)) continue;
        usual++;
        for (int k = 0; k < CAUTIONS; k++) add_gain(m, &cautions[k], order + i, end - i, own);
    }
    take_caution(s, cautions, CAUTIONS, usual);
    s->r2 = n && squares > times * times / n ? 1 - off / (squares - times * times / n) : 0;
    s->error = n ? errors / n : 0;
    s->share = s->problems ? exp(sum / s->problems) : 0;
}

static void judge_errors(fitting *m, double *errors) {
    sample *at = m->samples;
    for (int i = 0; i < m->s->n; i++) {
        tw_spline_config *c = &m->s->configs[i];
        at = find_samples(m, c, at);
        for (int k = 0; k < c->samples; k++) errors[k] = fabs(at[k].left);
        c->error = tw_stats_of(errors, (size_t)c->samples).p90;
        for (int k = 0; k < m->nodes; k++) c->r[k] = fmin(fmax(c->r[k], TW_ARTEFACT_LEAST), TW_ARTEFACT_MOST);
        for (int k = m->nodes; k < m->all; k++) c->r[k] = fmin(fmax(c->r[k], -FILL_MOST), FILL_MOST);
    }
}

static void fit(fitting *m, sample **order, double *errors) {
    double least = (double)INFINITY;
    sample *at = m->samples;
    make_penalty(m);
    for (int i = 0; i < m->s->n; i++) {
        tw_spline_config *c = &m->s->configs[i];
        at = find_samples(m, c, at);
        fit_slots(m, at, c->samples, c);
    }
    for (size_t i = 0; i < sizeof smoothings / sizeof *smoothings; i++) {
        const double error = fit_all(m, smoothings[i]);
        if (error >= least) continue;
        least = error;
        m->s->smoothing = smoothings[i];
    }
    fit_all(m, m->s->smoothing);
    judge_choices(m, order);
    judge_errors(m, errors);
}

static bool make(fitting *m, tw_arena *arena, tw_arena *scratch, const tw_trials *t) {
    const size_t room = (size_t)t->spread.n + (size_t)t->screens.n + 1;
    find_tiled(m->s);
    make_lattice(&m->s->lattice, m->f);
    m->nodes = tw_lattice_count(&m->s->lattice, m->f->n_axes);
    m->all = m->nodes + TW_FILL_CELLS;
    const size_t all = (size_t)m->all;
    m->samples = tw_arena_array(scratch, room, sizeof *m->samples);
    m->penalty = tw_arena_array(scratch, all * all, sizeof *m->penalty);
    m->h = tw_arena_array(scratch, all * all, sizeof *m->h);
    m->g = tw_arena_array(scratch, all, sizeof *m->g);
    sample **order = tw_arena_array(scratch, room, sizeof *order);
    double *errors = tw_arena_array(scratch, room, sizeof *errors);
    m->s->configs = tw_arena_array(arena, room, sizeof *m->s->configs);
    if (scratch->failed || arena->failed) return false;
    add_samples(m, &t->spread, 1);
    add_samples(m, &t->screens, SCREENED);
    qsort(m->samples, (size_t)m->n, sizeof *m->samples, by_config);
    m->s->n = find_configs(m, t->spread.n > 0, m->s->configs);
    for (int i = 0; i < m->s->n; i++) m->s->configs[i].r = tw_arena_array(arena, all, sizeof(double));
    if (arena->failed) return false;
    if (m->s->n) fit(m, order, errors);
    return true;
}

tw_status tw_spline_fit(tw_spline **out, const tw_family *f, const tw_trials *t, tw_diag *diag) {
    struct owner *o = calloc(1, sizeof *o);
    tw_arena scratch = {0};
    *out = NULL;
    if (!o) return tw_fail_memory(diag);
    o->spline.family = f;
    fitting m = {.s = &o->spline, .f = f};
    const bool good = make(&m, &o->arena, &scratch, t);
    tw_arena_free(&scratch);
    if (good && o->spline.n)
        *out = &o->spline;
    else
        tw_spline_free(&o->spline);
    return good ? TW_OK : tw_fail_memory(diag);
}

void tw_spline_free(tw_spline *s) {
    if (!s) return;
    struct owner *o = (struct owner *)(void *)s;
    tw_arena_free(&o->arena);
    free(o);
}

double tw_spline_time(const tw_spline *s, int i, const int64_t *problem) {
    const tw_spline_config *c = &s->configs[i];
    uint32_t node[NEAR];
    double share[NEAR], sum = 0;
    const int n = find_near(s, c, problem, node, share);
    for (int k = 0; k < n; k++) sum += share[k] * c->r[node[k]];
    return base_time(s, c, problem) * fmax(1 + sum, TW_ARTEFACT_FLOOR);
}
