/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/campaign.h"

#include "base/diag.h"
#include "base/divide.h"
#include "base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 3 /* Number of values that a further axis takes in a plan. */ };

typedef struct planning {
    const tw_family *f;
    const tw_campaign_options *o;
    int64_t *rounds; /* [o->rounds]: room for the values of L of a macro choice. */
    tw_campaign_job *jobs;
    int n;    /* Number of jobs. */
    int room; /* Capacity in jobs. */
} planning;

/* ---- further axes */

/* Tells whether each value of the axis of columns is a block in all macro choices, as heads of attention are. */
static bool has_heads(const tw_family *f) {
    bool heads = f->rows != f->loops && f->columns != f->loops;
    for (int m = 0; m < f->n_macros; m++) heads = heads && f->macros[m].grid[f->columns] == 1;
    return heads;
}

/* Tells whether a point and an L decide the value of an axis. An axis for which they do not is a further axis. */
static bool is_of_points(const tw_family *f, int a) {
    return a == f->rows || a == f->loops || (a == f->columns && !has_heads(f));
}

/* Returns value i, below VALUES, of an axis: a geometric sequence from the least to the largest usual value, rounded up
   to the axis's steps. */
static int64_t value_of(const tw_family *f, int a, int i) {
    const double least = (double)f->least[a], ratio = (double)f->most[a] / least;
    const int64_t near = (int64_t)(0.5 + least * pow(ratio, (double)i / (VALUES - 1)));
    const int64_t value = tw_ceil_div(near, f->step[a]) * f->step[a];
    return value <= f->most[a] ? value : f->most[a];
}

/* Sets the further axes to combination c of their values. Returns the number of combinations. */
static int combine(const tw_family *f, int c, int64_t *problem) {
    int n = 1;
    for (int a = 0; a < f->n_axes; a++) {
        const int values = is_of_points(f, a) || f->least[a] == f->most[a] ? 1 : VALUES;
        if (!is_of_points(f, a)) problem[a] = value_of(f, a, c / n % values);
        n *= values;
    }
    return n;
}

/* ---- jobs */

/* Adds a job if its problem is a usual one that its macro choice can compute, and the job is not planned already.
   False: it was not added. If memory ran out, *st says so. */
static bool add_job(planning *p, const tw_campaign_job *job, tw_status *st) {
    const tw_family *f = p->f;
    for (int a = 0; a < f->n_axes; a++)
        if (job->problem[a] < f->least[a] || job->problem[a] > f->most[a]) return false;
    if (f->most_work > 0 && tw_family_work(f, job->problem) > f->most_work) return false;
    if (!tw_family_fits(f, job->problem)) return false;
    if (!tw_family_divide(f, job->macro, job->problem).grid) return false;
    /* Limits on the sides of a grid can give two points the same grid. The job is added once. */
    for (int64_t i = p->n; i-- > 0 && p->jobs[i].macro == job->macro;)
        if (!memcmp(p->jobs[i].problem, job->problem, sizeof job->problem)) return false;
    tw_campaign_job *const jobs = tw_grow(p->jobs, p->n, &p->room, 256, sizeof *jobs);
    if (!jobs) {
        *st = TW_ERR_MEMORY;
        return false;
    }
    p->jobs = jobs;
    jobs[p->n++] = *job;
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

/* Sets the limits of a job's grid:
   - most_rows and most_columns, from the largest usual problem;
   - groups, from the further axes;
   - heads, if the columns are heads.
   If rounds divide the axis of rows or the axis of columns, L decides the blocks along that axis. Their number becomes
   `heads`, `most_rows` becomes the limit of the other axis, and the other axis is returned. Otherwise -1 is returned.
 */
static int limit(const planning *p, const tw_campaign_job *job, tw_wave_grid *g) {
    const tw_family *f = p->f;
    const tw_artefact_macro *m = &f->macros[job->macro];
    const int free_side = f->loops == f->rows ? f->columns : f->loops == f->columns ? f->rows : -1;
    g->most_rows = f->most[f->rows] / m->grid[f->rows];
    g->most_columns = f->most[f->columns] / m->grid[f->columns];
    g->groups = 1;
    for (int a = 0; a < f->n_axes; a++) {
        if (m->grid[a] && a != f->rows && a != f->columns) g->groups *= tw_ceil_div(job->problem[a], m->grid[a]);
        /* No point has so many blocks. */
        if (g->groups > INT32_MAX) g->groups = INT32_MAX;
    }
    if (has_heads(f)) g->heads = job->problem[f->columns];
    if (free_side < 0) return -1;
    g->heads = tw_ceil_div(job->problem[f->loops], m->grid[f->loops]);
    g->most_rows = f->most[free_side] / m->grid[free_side];
    return free_side;
}

/* Sets the sides of a job's problem to those of a point: point `part` of wave `wave`, or with `most` above 0 the
   largest grid of at most `most` blocks. False: no usual problem has such a grid. */
static bool place(const planning *p, int wave, int part, int64_t most, tw_campaign_job *job) {
    const tw_family *f = p->f;
    const tw_artefact_macro *m = &f->macros[job->macro];
    const int64_t times = m->times ? m->times : 1, slots = most ? most : tw_ceil_div(m->slots, times);
    tw_wave_grid g = {.slots = slots, .parts = most ? 1 : p->o->parts < slots ? p->o->parts : (int)slots};
    tw_wave_point at;
    const int free_side = limit(p, job, &g);
    if (!g.most_rows || !g.most_columns || part >= g.parts) return false;
    /* Where usual sides are so short that square grids do not reach the waves, grids of any form count. */
    const double square = (double)g.most_rows * (double)g.most_rows * (double)g.groups;
    if (square < (double)(tw_ceil_div(m->slots, times) * p->o->waves)) g.longest = INFINITY;
    if (!tw_wave_point_at(&g, wave, part, &at)) return false;
    if (free_side >= 0) {
        job->problem[free_side] = at.rows * m->grid[free_side];
        return true;
    }
    job->problem[f->rows] = at.rows * m->grid[f->rows];
    if (!g.heads) job->problem[f->columns] = at.columns * m->grid[f->columns];
    return true;
}

/* Rounds an extent of the axis of rounds up to whole blocks, or down if that is no usual extent. */
static int64_t whole(const tw_family *f, const tw_artefact_macro *m, int64_t extent) {
    const int64_t tile = m->grid[f->loops], up = tw_ceil_div(extent, tile) * tile;
    return up > f->most[f->loops] ? up - tile : up;
}

/* Adds the job of a point (see place) and of an L of `rounds`. The further axes take the first combination, from number
   `turn` on, with which there is such a problem. Without one no job is added. */
static tw_status plan_point(planning *p, int macro, int wave, int part, int64_t most, int64_t rounds, int turn) {
    const tw_family *f = p->f;
    const tw_artefact_macro *m = &f->macros[macro];
    tw_campaign_job job = {.macro = macro};
    const int n = combine(f, 0, job.problem);
    tw_status st = TW_OK;
    for (int c = 0; c < n; c++) {
        combine(f, (turn + c) % n, job.problem);
        job.problem[f->loops] = rounds * m->rounds[f->loops];
        if (f->loops == f->rows || f->loops == f->columns) job.problem[f->loops] = whole(f, m, job.problem[f->loops]);
        if (place(p, wave, part, most, &job) && add_job(p, &job, &st)) return TW_OK;
        if (st != TW_OK) return st;
    }
    return TW_OK;
}

/* Returns the largest number of blocks that a usual problem has in a macro choice, without the factor `times`. */
static double most_blocks(const tw_family *f, const tw_artefact_macro *m) {
    double blocks = 1;
    for (int a = 0; a < f->n_axes; a++)
        if (m->grid[a]) blocks *= (double)(f->most[a] / m->grid[a] ? f->most[a] / m->grid[a] : 1);
    return blocks;
}

/* Plans the points of a macro choice: dense in the first waves, sparse in later ones. */
static tw_status plan_macro(planning *p, int macro) {
    const tw_artefact_macro *m = &p->f->macros[macro];
    const int n_rounds = find_rounds(p, macro, p->rounds);
    const double most = most_blocks(p->f, m);
    double grid = (double)(tw_ceil_div(m->slots, m->times ? m->times : 1) * p->o->waves);
    tw_status st = TW_OK;
    const int near = p->o->waves * p->o->parts;
    for (int i = 0; i < near && st == TW_OK; i++)
        for (int l = 0; l < n_rounds && st == TW_OK; l++)
            st = plan_point(p, macro, i / p->o->parts, i % p->o->parts, 0, p->rounds[l], i);
    for (int i = 0; i < p->o->far && grid < most && st == TW_OK; i++) {
        grid = fmin(grid * 1.5, most);
        for (int l = 0; l < n_rounds && st == TW_OK; l++)
            st = plan_point(p, macro, 0, 0, (int64_t)grid, p->rounds[l], near + i);
    }
    return st;
}

/* ---- the order */

/* Tells whether job a comes before job b, by their grids and, if these are equal, by their rounds. `grid` and `rounds`
   are 1 if the larger one comes first, and -1 if the smaller one does. */
static bool comes_before(const tw_family *f, const tw_campaign_job *a, const tw_campaign_job *b, int grid, int rounds) {
    const tw_wave_division x = tw_family_divide(f, a->macro, a->problem), y = tw_family_divide(f, b->macro, b->problem);
    return x.grid != y.grid ? (x.grid > y.grid) == (grid > 0) : (x.loops - y.loops) * rounds > 0;
}

static void swap(tw_campaign_job *a, tw_campaign_job *b) {
    const tw_campaign_job kept = *a;
    *a = *b;
    *b = kept;
}

/* Orders a macro choice's jobs: the four corners, then the rest at random. */
static void order(const tw_family *f, tw_campaign_job *jobs, int64_t n, tw_random *r) {
    static const int corners[][2] = {{-1, -1}, {1, 1}, {-1, 1}, {1, -1}};
    int64_t first = 0;
    for (int c = 0; c < 4 && n; c++) {
        int64_t at = 0;
        for (int64_t i = 1; i < n; i++)
            if (comes_before(f, &jobs[i], &jobs[at], corners[c][0], corners[c][1])) at = i;
        if (jobs[at].corner) continue;
        jobs[at].corner = true;
        swap(&jobs[first++], &jobs[at]);
    }
    for (int64_t i = n - 1; i > first; i--)
        swap(&jobs[i], &jobs[first + (int64_t)tw_random_below(r, (uint64_t)(i - first + 1))]);
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
    bool good = f->rows != f->columns;
    for (int m = 0; m < f->n_macros && good; m++)
        good = f->macros[m].grid[f->rows] && f->macros[m].grid[f->columns] && f->macros[m].rounds[f->loops];
    return good ? TW_OK
                : tw_fail(
                      diag, TW_ERR_USAGE,
                      "%s has no points by waves, which need tiles of rows and of columns on two axes, and of rounds",
                      f->name);
}

tw_status tw_campaign_plan(const tw_family *f, const tw_campaign_options *o, const bool *keep, tw_campaign_job **jobs,
                           int64_t *n, tw_diag *diag) {
    *jobs = NULL;
    *n = 0;
    if (o->waves < 1 || o->parts < 1 || o->rounds < 1 || o->far < 0)
        return tw_fail(diag, TW_ERR_USAGE, "a campaign needs at least a wave, a part and a number of rounds");
    tw_status st = tw_campaign_check_points(f, diag);
    if (st != TW_OK) return st;
    planning p = {.f = f, .o = o, .rounds = calloc((size_t)o->rounds, sizeof *p.rounds)};
    tw_random r = tw_random_seed(o->seed);
    if (!p.rounds) st = TW_ERR_MEMORY;
    for (int m = 0; m < f->n_macros && st == TW_OK; m++) {
        const int64_t first = p.n;
        if (!keep[m]) continue;
        st = plan_macro(&p, m);
        if (st == TW_OK && p.n > first) order(f, p.jobs + first, p.n - first, &r);
    }
    st = st == TW_OK ? take_turns(&p, jobs, diag) : tw_fail_memory(diag);
    if (st == TW_OK) *n = p.n;
    free(p.jobs);
    free(p.rounds);
    return st;
}
