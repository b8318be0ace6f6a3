/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/policy.h"

#include "base/arena.h"
#include "base/diag.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AXES = TW_SELECT_AXES };

/* Loss of a configuration that was not measured. */
static const float UNKNOWN = 0.6931472f;

/* A node of the tree. */
typedef struct node {
    int axis;    /* Axis of the split. -1: a leaf. */
    float below; /* Threshold: problems with a smaller base-2 logarithm of the axis go to `child`, others to the next
                    node. */
    int child;   /* Of a split: index of the left child. Of a leaf: index of its losses. */
} node;

struct tw_policy {
    tw_arena arena;
    int axes, configs;
    bool tree;
    float (*problems)[AXES]; /* [n]: base-2 logarithms of the problems' axes. */
    int n;                   /* Number of problems. */
    float *losses;           /* [n][configs]: losses of the problems, or, with a tree, means of its leaves. */
    node *nodes;
    int n_nodes, leaves;
};

typedef struct growing {
    tw_policy *p;
    const tw_policy_options *o;
    const float *losses; /* [n][configs]: losses of the problems. */
    int *order;          /* [n]: indices of problems. Those of a node are adjacent. */
    int *sorted;         /* [n]: room for sorting a node's problems. */
    double *left, *all;  /* [configs]: sums of losses. */
} growing;

static void take_logarithms(const tw_policy *p, const int64_t *problem, float *to) {
    for (int a = 0; a < p->axes; a++) to[a] = (float)log2((double)problem[a]);
}

/* ---- the tree */

static const float *losses_of(const growing *g, int problem) {
    return g->losses + (size_t)problem * (size_t)g->p->configs;
}

static double least_of(const double *sums, const double *minus, int n) {
    double least = (double)INFINITY;
    for (int i = 0; i < n; i++) least = fmin(least, sums[i] - (minus ? minus[i] : 0));
    return least;
}

static void add_losses(const growing *g, int problem, double *sums) {
    const float *l = losses_of(g, problem);
    for (int i = 0; i < g->p->configs; i++) sums[i] += (double)l[i];
}

/* Sorts problems by an axis, by insertion into halves (merge sort). */
static void sort_by(const growing *g, int *list, int n, int axis, int *room) {
    if (n < 2) return;
    const int half = n / 2;
    sort_by(g, list, half, axis, room);
    sort_by(g, list + half, n - half, axis, room);
    memcpy(room, list, (size_t)n * sizeof *room);
    for (int i = 0, a = 0, b = half; i < n; i++) {
        const bool from_a = b == n || (a < half && g->p->problems[room[a]][axis] <= g->p->problems[room[b]][axis]);
        list[i] = from_a ? room[a++] : room[b++];
    }
}

/* Finds the split of a node's problems with the least loss. False: none has less than `loss`. */
static bool find_split(const growing *g, int *list, int n, double loss, int *axis, float *below) {
    const size_t configs = (size_t)g->p->configs;
    bool found = false;
    for (int a = 0; a < g->p->axes; a++) {
        sort_by(g, list, n, a, g->sorted);
        memset(g->left, 0, configs * sizeof *g->left);
        for (int i = 1; i < n; i++) {
            const float before = g->p->problems[list[i - 1]][a], at = g->p->problems[list[i]][a];
            add_losses(g, list[i - 1], g->left);
            if (i < g->o->leaf || n - i < g->o->leaf || !(before < at)) continue;
            const double both = least_of(g->left, NULL, (int)configs) + least_of(g->all, g->left, (int)configs);
            if (!(both < loss * (1 - 1e-9))) continue;
            loss = both;
            *axis = a;
            *below = (before + at) / 2;
            if (!(*below > before)) *below = at;
            found = true;
        }
    }
    return found;
}

/* Grows node `at` from its problems. */
static void grow(growing *g, int at, int *list, int n, int depth) {
    tw_policy *p = g->p;
    int axis = -1;
    float below = 0;
    memset(g->all, 0, (size_t)p->configs * sizeof *g->all);
    for (int i = 0; i < n; i++) add_losses(g, list[i], g->all);
    const double loss = least_of(g->all, NULL, p->configs);
    if (n < g->o->to_split || depth == g->o->depth || !find_split(g, list, n, loss, &axis, &below)) {
        float *to = p->losses + (size_t)p->leaves * (size_t)p->configs;
        for (int i = 0; i < p->configs; i++) to[i] = (float)(g->all[i] / n);
        p->nodes[at] = (node){-1, 0, p->leaves++};
        return;
    }
    int left = 0;
    const int child = p->n_nodes;
    sort_by(g, list, n, axis, g->sorted);
    while (p->problems[list[left]][axis] < below) left++;
    p->n_nodes += 2;
    p->nodes[at] = (node){axis, below, child};
    grow(g, child, list, left, depth + 1);
    grow(g, child + 1, list + left, n - left, depth + 1);
}

static bool grow_tree(tw_policy *p, const tw_policy_options *o, const float *losses) {
    tw_arena scratch = {0};
    const size_t n = (size_t)p->n;
    growing g = {.p = p, .o = o, .losses = losses};
    g.order = tw_arena_array(&scratch, n, sizeof *g.order);
    g.sorted = tw_arena_array(&scratch, n, sizeof *g.sorted);
    g.left = tw_arena_array(&scratch, (size_t)p->configs, sizeof *g.left);
    g.all = tw_arena_array(&scratch, (size_t)p->configs, sizeof *g.all);
    p->nodes = tw_arena_array(&p->arena, 2 * n + 1, sizeof *p->nodes);
    p->losses = tw_arena_array(&p->arena, n * (size_t)p->configs, sizeof *p->losses);
    const bool good = !scratch.failed && !p->arena.failed;
    if (good) {
        for (int i = 0; i < p->n; i++) g.order[i] = i;
        p->n_nodes = 1;
        grow(&g, 0, g.order, p->n, 0);
    }
    tw_arena_free(&scratch);
    return good;
}

/* ---- losses */

/* Writes the losses of all problems. Problems of different lists are different ones. */
static void find_losses(tw_policy *p, const tw_features *x, const tw_trial_list *const *lists, int n_lists,
                        const bool *allowed, float *losses) {
    for (int l = 0; l < n_lists; l++)
        for (int i = 0, end; i < lists[l]->n; i = end) {
            double least = (double)INFINITY, any;
            bool some = false;
            float *row = losses + (size_t)p->n * (size_t)p->configs;
            end = tw_trials_end(lists[l], i, tw_trials_by_problem, &any);
            for (int k = 0; k < p->configs; k++) row[k] = UNKNOWN;
            for (int pass = 0; pass < 2; pass++)
                for (int k = i; k < end; k++) {
                    const tw_trial *t = &lists[l]->at[k];
                    const int config = x->first[t->macro] + t->micro;
                    if (allowed && !allowed[config]) continue;
                    if (!pass) least = fmin(least, t->time);
                    if (pass) row[config] = (float)log(t->time / least);
                    some = true;
                }
            if (!some) continue;
            take_logarithms(p, lists[l]->at[i].problem, p->problems[p->n++]);
        }
}

tw_status tw_policy_fit(tw_policy **out, const tw_features *x, const tw_trial_list *const *lists, int n_lists,
                        const bool *allowed, const tw_policy_options *o, tw_diag *diag) {
    tw_policy *p = calloc(1, sizeof *p);
    size_t problems = 1;
    *out = NULL;
    if (!p) return tw_fail_memory(diag);
    p->axes = x->family->n_axes;
    p->configs = x->configs;
    p->tree = o->tree;
    for (int l = 0; l < n_lists; l++)
        for (int i = 0; i < lists[l]->n; i++)
            problems += !i || tw_trials_by_problem(&lists[l]->at[i - 1], &lists[l]->at[i]) != 0;
    p->problems = tw_arena_array(&p->arena, problems, sizeof *p->problems);
    float *losses = calloc(problems * (size_t)p->configs + 1, sizeof *losses);
    tw_status st = losses && p->problems ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK) find_losses(p, x, lists, n_lists, allowed, losses);
    if (st == TW_OK && !p->n) st = tw_fail(diag, TW_ERR_USAGE, "there is nothing that a policy can learn from");
    if (st == TW_OK && o->tree && !grow_tree(p, o, losses)) st = tw_fail_memory(diag);
    if (st == TW_OK && !o->tree) {
        const size_t bytes = (size_t)p->n * (size_t)p->configs * sizeof *losses;
        p->losses = tw_arena_alloc(&p->arena, bytes);
        p->leaves = p->n;
        if (p->losses) memcpy(p->losses, losses, bytes);
        if (!p->losses) st = tw_fail_memory(diag);
    }
    free(losses);
    if (st == TW_OK) *out = p;
    if (st != TW_OK) tw_policy_free(p);
    return st;
}

void tw_policy_free(tw_policy *p) {
    if (!p) return;
    tw_arena_free(&p->arena);
    free(p);
}

/* ---- decisions */

static int find_nearest(const tw_policy *p, const float *at) {
    float least = INFINITY;
    int best = 0;
    for (int i = 0; i < p->n; i++) {
        float d = 0;
        for (int a = 0; a < p->axes; a++) d += (p->problems[i][a] - at[a]) * (p->problems[i][a] - at[a]);
        if (!(d < least)) continue;
        least = d;
        best = i;
    }
    return best;
}

const float *tw_policy_losses(const tw_policy *p, const int64_t *problem) {
    float at[AXES] = {0};
    take_logarithms(p, problem, at);
    int leaf;
    if (p->tree) {
        const node *n = p->nodes;
        while (n->axis >= 0) n = p->nodes + n->child + !(at[n->axis] < n->below);
        leaf = n->child;
    } else {
        leaf = find_nearest(p, at);
    }
    return p->losses + (size_t)leaf * (size_t)p->configs;
}

int tw_policy_leaves(const tw_policy *p) {
    return p->leaves;
}

int64_t tw_policy_bytes(const tw_policy *p) {
    const int64_t losses = (int64_t)p->leaves * p->configs * (int64_t)sizeof *p->losses;
    return losses + (p->tree ? p->n_nodes * (int64_t)sizeof(node) : p->n * (int64_t)sizeof *p->problems);
}
