/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/models.h"

#include "base/diag.h"
#include "tune/analytic.h"
#include "tune/linear.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tw_model {
    tw_model_form form;
    const tw_family *family;
    tw_features *features;
    bool *allowed; /* [configs]: true if the configuration may be chosen. */
    tw_spline *spline;
    tw_mlp *mlp;
    tw_boost *boost;
    tw_policy *policy;
    tw_linear *linear;
    tw_rates rates; /* Constants of the analytic model. */
    /* Room for a decision. */
    float *rows;    /* [configs][columns]: rows of the configurations that may be chosen. */
    float *y;       /* [configs]: prediction of each row. */
    int *of;        /* [configs]: index of each row's configuration. */
    double *scores; /* [configs]: score of each configuration, for tw_model_rank. */
};

const char *tw_model_name(tw_model_form form) {
    static const char *const names[] = {"mlp",      "trees", "tree",      "near",     "spline",
                                        "residual", "mix",   "distilled", "analytic", "linear"};
    return names[form];
}

bool tw_model_form_find(const char *name, size_t length, tw_model_form *out) {
    for (int i = 0; i < TW_MODEL_FORMS; i++) {
        const char *other = tw_model_name((tw_model_form)i);
        if (strlen(other) != length || memcmp(other, name, length) != 0) continue;
        *out = (tw_model_form)i;
        return true;
    }
    return false;
}

tw_model_options tw_model_defaults(void) {
    return (tw_model_options){
        .held = 0.1,
        .distilled = 2000,
        .seed = 1,
        .mlp = {{64, 128, 192, 256, 192, 128, 64}, 7, 40, 10, 256, 2e-3, 1},
        .boost = {.trees = 600, .depth = 10, .rate = 0.05, .subsample = 0.8, .seed = 1},
        .policy = {.depth = 15, .to_split = 30, .leaf = 15},
    };
}

/* ---- fitting */

static bool uses_spline(tw_model_form f) {
    return f == TW_MODEL_SPLINE || f == TW_MODEL_RESIDUAL || f == TW_MODEL_MIX;
}

static bool uses_boost(tw_model_form f) {
    return f == TW_MODEL_TREES || f == TW_MODEL_RESIDUAL || f == TW_MODEL_MIX;
}

static bool uses_mlp(tw_model_form f) {
    return f == TW_MODEL_MLP || f == TW_MODEL_MIX || f == TW_MODEL_DISTILLED;
}

void tw_model_allow(tw_model *m, const tw_trials *t, bool all, bool own) {
    const tw_trial_list *lists[] = {&t->spread, &t->screens};
    const int least = all || !t->spread.n ? 1 : TW_SPLINE_LEAST;
    for (int k = 0; k < m->features->configs; k++) {
        m->allowed[k] = false;
        m->of[k] = 0; /* Counts trials. */
    }
    for (int i = 0; i < m->family->n_macros && m->form == TW_MODEL_ANALYTIC && all; i++)
        for (int j = 0; j < m->family->macros[i].n_micros; j++)
            m->allowed[tw_model_index(m, i, j)] = !own || !tw_family_is_vendor(m->family, i);
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < lists[l]->n && (!l || all || !t->spread.n); i++) {
            const int macro = lists[l]->at[i].macro, k = tw_model_index(m, macro, lists[l]->at[i].micro);
            if (own && tw_family_is_vendor(m->family, macro)) continue;
            if (++m->of[k] >= least) m->allowed[k] = true;
        }
}

/* Writes the spline's score of each configuration. Infinity: the spline does not model it. */
static void score_spline(const tw_model *m, const int64_t *problem, double *scores) {
    for (int i = 0; i < m->features->configs; i++) scores[i] = (double)INFINITY;
    for (int i = 0; i < m->spline->n; i++) {
        const tw_spline_config *c = &m->spline->configs[i];
        const int k = tw_model_index(m, c->macro, c->micro);
        if (m->allowed[k]) scores[k] = log(tw_spline_time(m->spline, i, problem));
    }
}

/* Replaces each y of a table by its difference from the spline's prediction. Removes rows that the spline does not
   model. */
static void leave_residual(const tw_model *m, const tw_trial_list *const *lists, int n_lists, tw_table *t) {
    const size_t columns = (size_t)t->columns;
    int *of = m->of, from = 0, to = 0;
    for (int k = 0; k < m->features->configs; k++) of[k] = -1;
    for (int i = 0; i < m->spline->n; i++)
        of[tw_model_index(m, m->spline->configs[i].macro, m->spline->configs[i].micro)] = i;
    for (int l = 0; l < n_lists; l++)
        for (int i = 0; i < lists[l]->n; i++, from++) {
            const tw_trial *x = &lists[l]->at[i];
            const int config = of[tw_model_index(m, x->macro, x->micro)];
            if (config < 0) continue;
            memmove(t->x + (size_t)to * columns, t->x + (size_t)from * columns, columns * sizeof *t->x);
            t->held[to] = t->held[from];
            t->y[to++] = (float)log(x->time / tw_spline_time(m->spline, config, x->problem));
        }
    t->n = to;
}

static int list_rows(tw_model *m, const int64_t *problem);

/* Adds the times that the network predicts for random problems to a copy of the spread trials, and fits the spline to
   all of them. Then it frees the network. */
static tw_status distil(tw_model *m, const tw_trials *t, const tw_model_options *o, tw_diag *diag) {
    const size_t room = (size_t)t->spread.n + (size_t)o->distilled * (size_t)m->features->configs + 1;
    tw_trials more = {.screens = t->screens, .spread = {malloc(room * sizeof *more.spread.at), t->spread.n, (int)room}};
    tw_random r = tw_random_seed(o->seed);
    if (!more.spread.at) return tw_fail_memory(diag);
    if (t->spread.n) memcpy(more.spread.at, t->spread.at, (size_t)t->spread.n * sizeof *more.spread.at);
    for (int i = 0; i < o->distilled; i++) {
        int64_t problem[TW_SELECT_AXES] = {0};
        tw_family_draw(m->family, &r, problem);
        const double work = tw_family_work(m->family, problem);
        const int rows = list_rows(m, problem);
        tw_mlp_predict(m->mlp, m->rows, rows, m->y);
        for (int k = 0; k < rows; k++) {
            tw_trial x = {.macro = 0, .time = work * exp((double)m->y[k])};
            memcpy(x.problem, problem, sizeof problem);
            while (x.macro + 1 < m->family->n_macros && m->features->first[x.macro + 1] <= m->of[k]) x.macro++;
            x.micro = m->of[k] - m->features->first[x.macro];
            more.spread.at[more.spread.n++] = x;
        }
    }
    tw_mlp_free(m->mlp);
    m->mlp = NULL;
    const tw_status st = tw_spline_fit(&m->spline, m->family, &more, diag);
    free(more.spread.at);
    return st;
}

/* Fits the analytic model to the trials of the lists. Of more than ANALYTIC trials it takes ANALYTIC, evenly spaced. */
static tw_status fit_analytic(tw_model *m, const tw_trial_list *const *lists, int n_lists, tw_diag *diag) {
    enum { ANALYTIC = 10000 };
    tw_analytic_sample *samples = malloc(ANALYTIC * sizeof *samples);
    int all = 0, at = 0, n = 0;
    if (!samples) return tw_fail_memory(diag);
    for (int l = 0; l < n_lists; l++) all += lists[l]->n;
    const int step = all / ANALYTIC + 1;
    for (int l = 0; l < n_lists; l++)
        for (int i = 0; i < lists[l]->n; i++) {
            const tw_trial *t = &lists[l]->at[i];
            if (at++ % step || !tw_analytic_demand(m->family, t->macro, t->micro, t->problem, &samples[n].demand))
                continue;
            samples[n++].time = t->time;
        }
    for (int i = 0; i < TW_RATES; i++) ((double *)&m->rates)[i] = 1;
    if (n) tw_analytic_fit(&m->rates, samples, n);
    free(samples);
    return n ? TW_OK : tw_fail(diag, TW_ERR_USAGE, "there is nothing that an analytic model can be fitted to");
}

static tw_status fit_parts(tw_model *m, const tw_trials *t, const tw_model_options *o, tw_diag *diag) {
    const tw_trial_list *lists[] = {&t->spread, &t->screens};
    tw_mlp_options mlp = o->mlp;
    tw_boost_options boost = o->boost;
    tw_policy_options policy = o->policy;
    tw_table table = {0};
    mlp.seed = boost.seed = o->seed;
    policy.tree = m->form == TW_MODEL_TREE;
    tw_status st = TW_OK;
    if (uses_spline(m->form)) st = tw_spline_fit(&m->spline, m->family, t, diag);
    if (st == TW_OK && uses_spline(m->form) && !m->spline)
        st = tw_fail(diag, TW_ERR_USAGE, "there are too few measurements for a spline");
    if (st == TW_OK && (uses_mlp(m->form) || uses_boost(m->form) || m->form == TW_MODEL_LINEAR))
        st = tw_table_make(&table, m->features, lists, 2, o->held, o->seed, diag);
    if (st == TW_OK && m->form == TW_MODEL_RESIDUAL) leave_residual(m, lists, 2, &table);
    if (st == TW_OK && uses_boost(m->form)) st = tw_boost_fit(&m->boost, &table, &boost, diag);
    if (st == TW_OK && uses_mlp(m->form)) st = tw_mlp_fit(&m->mlp, &table, &mlp, diag);
    if (st == TW_OK && m->form == TW_MODEL_LINEAR) st = tw_linear_fit(&m->linear, &table, diag);
    if (st == TW_OK && (m->form == TW_MODEL_TREE || m->form == TW_MODEL_NEAR))
        st = tw_policy_fit(&m->policy, m->features, lists, 2, m->allowed, &policy, diag);
    if (st == TW_OK && m->form == TW_MODEL_DISTILLED) st = distil(m, t, o, diag);
    if (st == TW_OK && m->form == TW_MODEL_ANALYTIC) st = fit_analytic(m, lists, 2, diag);
    tw_table_free(&table);
    return st;
}

static bool make_room(tw_model *m) {
    const size_t n = (size_t)m->features->configs + 1, columns = (size_t)m->features->columns;
    m->allowed = calloc(n, sizeof *m->allowed);
    m->rows = malloc(n * columns * sizeof *m->rows);
    m->y = malloc(n * sizeof *m->y);
    m->of = calloc(n, sizeof *m->of);
    m->scores = malloc(n * sizeof *m->scores);
    return m->allowed && m->rows && m->y && m->of && m->scores;
}

tw_status tw_model_fit(tw_model **out, tw_model_form form, const tw_family *f, const tw_trials *t,
                       const tw_model_options *o, tw_diag *diag) {
    tw_model *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return tw_fail_memory(diag);
    m->form = form;
    m->family = f;
    tw_status st = tw_features_make(&m->features, f, !o->plain, diag);
    if (st == TW_OK && !make_room(m)) st = tw_fail_memory(diag);
    if (st == TW_OK) {
        tw_model_allow(m, t, o->all, o->own);
        st = fit_parts(m, t, o, diag);
    }
    if (st == TW_OK) *out = m;
    if (st != TW_OK) tw_model_free(m);
    return st;
}

void tw_model_free(tw_model *m) {
    if (!m) return;
    tw_features_free(m->features);
    tw_spline_free(m->spline);
    tw_mlp_free(m->mlp);
    tw_boost_free(m->boost);
    tw_policy_free(m->policy);
    tw_linear_free(m->linear);
    free(m->allowed);
    free(m->rows);
    free(m->y);
    free(m->of);
    free(m->scores);
    free(m);
}

/* ---- decisions */

int tw_model_configs(const tw_model *m) {
    return m->features->configs;
}

int tw_model_index(const tw_model *m, int macro, int micro) {
    return m->features->first[macro] + micro;
}

bool tw_model_predicts(const tw_model *m) {
    return !m->policy;
}

/* Writes the rows of all configurations that may be chosen for a problem. Returns their number. */
static int list_rows(tw_model *m, const int64_t *problem) {
    const size_t columns = (size_t)m->features->columns;
    int n = 0;
    for (int i = 0; i < m->family->n_macros; i++)
        for (int j = 0; j < m->family->macros[i].n_micros; j++) {
            const int k = tw_model_index(m, i, j);
            if (!m->allowed[k]) continue;
            if (!tw_features_row(m->features, problem, i, j, m->rows + (size_t)n * columns)) break;
            m->of[n++] = k;
        }
    return n;
}

/* Writes a policy's losses as scores. Of equal scores the first configuration is chosen. */
static void score_policy(tw_model *m, const int64_t *problem, double *scores) {
    const float *losses = tw_policy_losses(m->policy, problem);
    for (int i = 0; i < m->family->n_macros; i++) {
        const bool legal = tw_family_divide(m->family, i, problem).grid > 0;
        for (int j = 0; j < m->family->macros[i].n_micros; j++) {
            const int k = tw_model_index(m, i, j);
            scores[k] = legal && m->allowed[k] ? (double)losses[k] : (double)INFINITY;
        }
    }
}

/* Writes the analytic model's scores. */
static void score_analytic(const tw_model *m, const int64_t *problem, double *scores) {
    tw_demand d;
    for (int i = 0; i < m->family->n_macros; i++)
        for (int j = 0; j < m->family->macros[i].n_micros; j++) {
            const int k = tw_model_index(m, i, j);
            scores[k] = m->allowed[k] && tw_analytic_demand(m->family, i, j, problem, &d)
                            ? log(tw_demand_time(&d, &m->rates))
                            : (double)INFINITY;
        }
}

/* Adds `weight` times the predictions of the rows to the scores. */
static void add_scores(const tw_model *m, int rows, double weight, double offset, double *scores) {
    for (int i = 0; i < rows; i++) scores[m->of[i]] += weight * ((double)m->y[i] + offset);
}

void tw_model_score(tw_model *m, const int64_t *problem, double *scores) {
    if (m->policy) {
        score_policy(m, problem, scores);
        return;
    }
    if (m->form == TW_MODEL_ANALYTIC) {
        score_analytic(m, problem, scores);
        return;
    }
    const double work = log(tw_family_work(m->family, problem)), part = m->form == TW_MODEL_MIX ? 1.0 / 3 : 1;
    const int rows = m->boost || m->mlp || m->linear ? list_rows(m, problem) : 0;
    if (m->spline) {
        score_spline(m, problem, scores);
        for (int i = 0; i < m->features->configs; i++) scores[i] *= part;
    } else {
        for (int i = 0; i < m->features->configs; i++) scores[i] = (double)INFINITY;
        for (int i = 0; i < rows; i++) scores[m->of[i]] = 0;
    }
    if (m->boost) {
        tw_boost_predict(m->boost, m->rows, rows, m->y);
        add_scores(m, rows, part, m->form == TW_MODEL_RESIDUAL ? 0 : work, scores);
    }
    if (m->mlp) {
        tw_mlp_predict(m->mlp, m->rows, rows, m->y);
        add_scores(m, rows, part, work, scores);
    }
    if (m->linear) {
        tw_linear_predict(m->linear, m->rows, rows, m->y);
        add_scores(m, rows, part, work, scores);
    }
}

int tw_model_rank(tw_model *m, const int64_t *problem, int most, tw_choice *out) {
    int n = 0;
    tw_model_score(m, problem, m->scores);
    for (int i = 0; i < m->family->n_macros; i++)
        for (int j = 0; j < m->family->macros[i].n_micros; j++) {
            const double score = m->scores[tw_model_index(m, i, j)];
            if (!isfinite(score)) continue;
            int at = n < most ? n++ : most;
            /* The configuration is inserted into the ordered list. In a full one most scores belong behind the end. */
            for (; at > 0 && score < m->scores[tw_model_index(m, out[at - 1].macro, out[at - 1].micro)]; at--)
                if (at < most) out[at] = out[at - 1];
            if (at < most) out[at] = (tw_choice){i, j};
        }
    return n;
}

bool tw_model_choose(tw_model *m, const int64_t *problem, char *out, size_t size) {
    tw_choice c;
    if (!tw_model_rank(m, problem, 1, &c)) return false;
    tw_family_config(m->family, c.macro, c.micro, out, size);
    return true;
}

/* ---- sizes */

int64_t tw_model_weights(const tw_model *m) {
    return (m->mlp ? tw_mlp_weights(m->mlp) : 0) + (m->boost ? tw_boost_nodes(m->boost) : 0) +
           (m->linear ? tw_linear_weights(m->linear) : 0);
}

static int64_t spline_bytes(const tw_spline *s) {
    int64_t nodes = 1;
    for (int a = 0; a < s->family->n_axes; a++) nodes *= s->lattice.nodes[a];
    return s->n * (nodes + TW_SPLINE_TERMS) * (int64_t)sizeof(double);
}

int64_t tw_model_bytes(const tw_model *m) {
    const int64_t features = (int64_t)m->features->configs * m->features->params * (int64_t)sizeof(float);
    return (m->mlp || m->boost || m->linear ? features : 0) +
           (m->linear ? tw_linear_weights(m->linear) * (int64_t)sizeof(double) : 0) +
           (m->mlp ? tw_mlp_weights(m->mlp) * (int64_t)sizeof(float) : 0) + (m->boost ? tw_boost_bytes(m->boost) : 0) +
           (m->policy ? tw_policy_bytes(m->policy) : 0) + (m->spline ? spline_bytes(m->spline) : 0) +
           (m->form == TW_MODEL_ANALYTIC ? (int64_t)sizeof m->rates : 0);
}

tw_mlp *tw_model_network(tw_model *m) {
    return m->mlp;
}
