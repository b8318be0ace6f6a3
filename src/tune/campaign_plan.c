/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/campaign.h"

#include "base/diag.h"
#include "base/divide.h"
#include "base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct planning {
    const tw_family *f;
    const tw_campaign_options *o;
    tw_campaign_job *jobs;
    int n;    /* Number of jobs. */
    int room; /* Capacity in jobs. */
    bool failed;
} planning;

static bool add_job(planning *p, int macro, const tw_wave_point *at, int64_t rounds) {
    const tw_family *f = p->f;
    const tw_artefact_macro *m = &f->macros[macro];
    tw_campaign_job job = {.macro = macro};
    job.problem[f->rows] = at->rows * m->grid[f->rows];
    job.problem[f->columns] = at->columns * m->grid[f->columns];
    job.problem[f->loops] = rounds * m->rounds[f->loops];
    for (int a = 0; a < f->n_axes; a++)
        if (job.problem[a] < f->least[a] || job.problem[a] > f->most[a]) return true;
    if (f->most_work > 0 && tw_family_work(f, job.problem) > f->most_work) return true;
    if (!tw_family_divide(f, macro, job.problem).grid) return true;
    /* Points may coincide where the grid's sides are limited. */
    for (int64_t i = p->n; i-- > 0 && p->jobs[i].macro == macro;)
        if (!memcmp(p->jobs[i].problem, job.problem, sizeof job.problem)) return true;
    tw_campaign_job *const jobs = tw_grow(p->jobs, p->n, &p->room, 256, sizeof *jobs);
    if (!jobs) return false;
    p->jobs = jobs;
    jobs[p->n++] = job;
    return true;
}

/* Finds the values of L: a geometric sequence from the least to the largest L of usual problems. Returns their
   number. */
static int find_rounds(const planning *p, int macro, int64_t *rounds) {
    const int a = p->f->loops;
    const int64_t tile = p->f->macros[macro].rounds[a];
    const int64_t least = tw_ceil_div(p->f->least[a], tile), most = p->f->most[a] / tile;
    int n = 0;
    for (int i = 0; i < p->o->rounds && least <= most; i++) {
        const double at = p->o->rounds > 1 ? (double)i / (p->o->rounds - 1) : 0.5;
        const int64_t value = (int64_t)(0.5 + (double)least * pow((double)most / (double)least, at));
        if (!n || value > rounds[n - 1]) rounds[n++] = value;
    }
    return n;
}

/* Plans the points of a macro choice: dense in the first waves, sparse in later ones. */
static bool plan_macro(planning *p, int macro, tw_wave_point *points, int64_t *rounds) {
    const tw_family *f = p->f;
    const tw_artefact_macro *m = &f->macros[macro];
    const int64_t times = m->times ? m->times : 1, slots = tw_ceil_div(m->slots, times);
    const int parts = p->o->parts < slots ? p->o->parts : (int)slots;
    tw_wave_grid g = {.slots = slots,
                      .waves = p->o->waves,
                      .parts = parts,
                      .most_rows = f->most[f->rows] / m->grid[f->rows],
                      .most_columns = f->most[f->columns] / m->grid[f->columns]};
    const int n_rounds = find_rounds(p, macro, rounds);
    if (!g.most_rows || !g.most_columns) return true;
    /* Grids are far from square where one side is short. */
    if (g.most_rows * g.most_rows < slots * p->o->waves) g.longest = INFINITY;
    int n = tw_wave_points(&g, points);
    const int64_t most = g.most_rows * g.most_columns;
    double grid = (double)(slots * p->o->waves);
    for (int i = 0; i < p->o->far && grid < (double)most; i++) {
        grid = fmin(grid * 1.5, (double)most);
        const tw_wave_grid one = {.slots = (int64_t)grid,
                                  .waves = 1,
                                  .parts = 1,
                                  .longest = g.longest,
                                  .most_rows = g.most_rows,
                                  .most_columns = g.most_columns};
        n += tw_wave_points(&one, &points[n]);
    }
    for (int i = 0; i < n; i++)
        for (int l = 0; l < n_rounds; l++)
            if (!add_job(p, macro, &points[i], rounds[l])) return false;
    return true;
}

/* Orders a macro choice's jobs, n of them by ascending grid and L: the four corners, then the rest at random. */
static void order(tw_campaign_job *jobs, int64_t n, int rounds, tw_random *r) {
    const int64_t corners[] = {0, n - 1, rounds - 1, n - rounds};
    int64_t first = 0;
    for (int i = 0; i < 4; i++) {
        if (corners[i] < first || corners[i] >= n) continue;
        const tw_campaign_job swap = jobs[first];
        jobs[first] = jobs[corners[i]];
        jobs[corners[i]] = swap;
        jobs[first++].corner = true;
    }
    for (int64_t i = n - 1; i > first; i--) {
        const int64_t j = first + (int64_t)tw_random_below(r, (uint64_t)(i - first + 1));
        const tw_campaign_job swap = jobs[i];
        jobs[i] = jobs[j];
        jobs[j] = swap;
    }
}

/* Lists the jobs of the macro choices in turn. In p->jobs the jobs of a macro choice are adjacent. */
static tw_status take_turns(const planning *p, tw_campaign_job **out, tw_diag *diag) {
    const int macros = p->f->n_macros;
    tw_campaign_job *mixed = malloc(((size_t)p->n + 1) * sizeof *mixed);
    int64_t *next = calloc((size_t)macros + 1, sizeof *next), n = 0;
    if (mixed && next) {
        for (int64_t i = p->n; i-- > 0;) next[p->jobs[i].macro] = i;
        while (n < p->n)
            for (int m = 0; m < macros; m++)
                if (next[m] < p->n && p->jobs[next[m]].macro == m) mixed[n++] = p->jobs[next[m]++];
    } else {
        free(mixed);
        mixed = NULL;
    }
    free(next);
    *out = mixed;
    return mixed ? TW_OK : tw_fail_memory(diag);
}

tw_status tw_campaign_check_points(const tw_family *f, tw_diag *diag) {
    bool good = f->n_axes == 3 && f->rows != f->columns && f->columns != f->loops && f->rows != f->loops;
    for (int m = 0; m < f->n_macros && good; m++)
        good = f->macros[m].grid[f->rows] && f->macros[m].grid[f->columns] && f->macros[m].rounds[f->loops];
    return good ? TW_OK
                : tw_fail(diag, TW_ERR_USAGE,
                          "%s has no points by waves, which need tiles of rows, columns and rounds on three axes",
                          f->name);
}

tw_status tw_campaign_plan(const tw_family *f, const tw_campaign_options *o, const bool *keep, tw_campaign_job **jobs,
                           int64_t *n, tw_diag *diag) {
    *jobs = NULL;
    *n = 0;
    if (o->waves < 1 || o->parts < 1 || o->rounds < 1 || o->far < 0)
        return tw_fail(diag, TW_ERR_USAGE, "a campaign needs at least a wave, a part and a number of rounds");
    const tw_status checked = tw_campaign_check_points(f, diag);
    if (checked != TW_OK) return checked;
    planning p = {.f = f, .o = o};
    tw_wave_point *points = calloc((size_t)o->waves * (size_t)o->parts + (size_t)o->far, sizeof *points);
    int64_t *rounds = calloc((size_t)o->rounds, sizeof *rounds);
    tw_random r = tw_random_seed(o->seed);
    bool good = points && rounds;
    for (int m = 0; m < f->n_macros && good; m++) {
        const int64_t first = p.n;
        if (!keep[m]) continue;
        good = plan_macro(&p, m, points, rounds);
        if (good && p.n > first) order(p.jobs + first, p.n - first, find_rounds(&p, m, rounds), &r);
    }
    tw_status st = good ? take_turns(&p, jobs, diag) : tw_fail_memory(diag);
    if (st == TW_OK) *n = p.n;
    free(p.jobs);
    free(points);
    free(rounds);
    return st;
}
