/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/patterns/fuse.h"

#include "base/diag.h"
#include "base/grow.h"
#include "graph/passes/passes.h"
#include "graph/patterns/edit.h"
#include "graph/patterns/join.h"
#include "graph/patterns/make.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef enum stage { views, norms, activations, rotation, attention, products, STAGES } stage;

static const struct row {
    stage stage;
    const char *name, *found, *made;
} rows[] = {
#define PATTERN(stage, name, found, made) {stage, name, found, made},
#include "graph/patterns/patterns.def"
};

enum {
    ROWS = sizeof rows / sizeof *rows,
    RESULTS = 4,      /* Results of a root that may have other users. */
    ROUNDS = 1000000, /* Rewritings of a graph: rows that undo each other end, too. */
};

typedef struct pattern {
    tw_term *found, *made;
} pattern;

typedef struct fuser {
    tw_graph *g;
    tw_edit r;
    tw_arena arena;
    pattern patterns[ROWS];
    tw_fusions *log;
    int found, serial; /* Patterns that were found, and values that were made. */
} fuser;

static tw_status read_rows(fuser *f, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < ROWS && st == TW_OK; i++) {
        tw_term_names names = {0};
        st = tw_term_read(&f->patterns[i].found, rows[i].found, &names, &f->arena, diag);
        if (st == TW_OK) st = tw_term_read(&f->patterns[i].made, rows[i].made, &names, &f->arena, diag);
    }
    return st;
}

static bool note(fuser *f, const char *name, const char *node, int nodes) {
    tw_fusions *log = f->log;
    f->found++;
    if (!log) return true;
    tw_fusion *list = tw_grow(log->list, log->n, &log->room, 16, sizeof *list);
    const char *place = tw_arena_strdup(&log->arena, node);
    if (list) log->list = list;
    if (!list || !place) return false;
    log->list[log->n++] = (tw_fusion){name, place, nodes};
    return true;
}

/* Returns a number that no value's name ends with, nor with any that follows. */
static int first_serial(const tw_graph *g) {
    int most = 0;
    for (int i = 0; i < g->n_values; i++) {
        const char *end = strrchr(g->values[i].name, '.');
        const long n = end ? strtol(end + 1, NULL, 10) : 0;
        if (n >= most && n < INT_MAX / 2) most = (int)n + 1;
    }
    return most;
}

/* ---- one rewriting */

/* A graph as it was before something was made. */
typedef struct before {
    int n_values, n_nodes, root, n_out;
    tw_value results[RESULTS];
} before;

static before remember(const tw_graph *g, int root) {
    before b = {.n_values = g->n_values, .n_nodes = g->n_nodes, .root = root, .n_out = g->nodes[root].n_out};
    for (int i = 0; i < b.n_out && i < RESULTS; i++)
        if (g->nodes[root].out[i] >= 0) b.results[i] = g->values[g->nodes[root].out[i]];
    return b;
}

static void undo(tw_graph *g, const before *b) {
    const tw_node *root = &g->nodes[b->root];
    for (int i = 0; i < b->n_out; i++)
        if (root->out[i] >= 0) g->values[root->out[i]] = b->results[i];
    for (int i = 0; i < b->n_nodes; i++) /* Copies took results of nodes other than the root. */
        for (int j = 0; j < g->nodes[i].n_out; j++)
            if (g->nodes[i].out[j] >= 0 && g->values[g->nodes[i].out[j]].producer >= b->n_nodes)
                g->values[g->nodes[i].out[j]].producer = i;
    g->n_values = b->n_values;
    g->n_nodes = b->n_nodes;
}

/* Tells whether all results of the root that somebody uses are made by others now. */
static bool is_replaced(const fuser *f, int root) {
    const tw_node *n = &f->g->nodes[root];
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] >= 0 && f->r.uses[n->out[i]] && f->g->values[n->out[i]].producer == root) return false;
    return true;
}

static bool is_input(const tw_graph *g, int value) {
    return g->values[value].producer < 0;
}

static bool is_output(const tw_graph *g, int value) {
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i] == value) return true;
    return false;
}

/* The root's result is a value that is there already: its users take that one. An output keeps its name, so that the
   node that computes the value computes the output instead. */
static bool forward(fuser *f, int root, int from, int to) {
    tw_graph *g = f->g;
    for (int j = 1; j < g->nodes[root].n_out; j++)
        if (g->nodes[root].out[j] >= 0 && f->r.uses[g->nodes[root].out[j]]) return false;
    if (is_output(g, from)) {
        if (is_input(g, to) || is_output(g, to)) return false;
        const int p = g->values[to].producer;
        for (int j = 0; j < g->nodes[p].n_out; j++)
            if (g->nodes[p].out[j] == to) g->nodes[p].out[j] = from;
        g->nodes[root].out[0] = to; /* It goes away with its operand, which is what it gives. */
        g->values[from].producer = p;
        g->values[to].producer = -1;
        tw_edit_replace(&f->r, to, from);
    } else {
        g->values[from].producer = -1;
        tw_edit_replace(&f->r, from, to);
    }
    tw_edit_drop(&f->r, root);
    return true;
}

/* Makes what a pattern becomes. */
static bool make(fuser *f, const pattern *p, tw_match *m, int root) {
    tw_graph *g = f->g;
    const int value = g->nodes[root].out[0];
    tw_maker k = {.g = g, .match = m, .root = root, .name = g->nodes[root].name, .serial = &f->serial};
    const before b = remember(g, root);
    int made = -1;
    if (b.n_out > RESULTS) return false;
    if (p->made->kind == TW_TERM_VALUE && !p->made->next) return forward(f, root, value, m->bound[p->made->slot]);
    for (const tw_term *t = p->made; t; t = t->next) {
        const int result = t->next ? t->result : 0;
        const bool takes = result >= 0 && result < b.n_out;
        made = tw_make(&k, t, takes ? g->nodes[root].out[result] : -1);
        if (made < 0) break;
    }
    if (made != value || !is_replaced(f, root)) {
        undo(g, &b);
        return false;
    }
    if (!tw_edit_add(&f->r, root)) {
        g->arena.failed = true;
        return false;
    }
    tw_edit_drop(&f->r, root);
    return true;
}

static bool rewrite(fuser *f, int row, int node) {
    const int value = f->g->nodes[node].out[0];
    const tw_term *found = f->patterns[row].found;
    if (value < 0 || (found->kind == TW_TERM_NODE && strcmp(found->op, f->g->nodes[node].op) != 0)) return false;
    tw_match m;
    if (!tw_match_find(&m, f->g, f->r.uses, found, value)) return false;
    const int nodes = m.n_nodes;
    const char *name = f->g->nodes[node].name;
    if (!make(f, &f->patterns[row], &m, node)) return false;
    if (!note(f, rows[row].name, name, nodes)) f->g->arena.failed = true;
    return true;
}

/* Rewrites by the rows of a stage, and of views, until none is found. */
static void run(fuser *f, stage s) {
    bool any = true;
    while (any && f->found < ROUNDS && !f->g->arena.failed) {
        any = false;
        for (int i = 0; i < f->g->n_nodes && !f->g->arena.failed; i++)
            for (int row = 0; row < ROWS && !tw_edit_is_gone(f->g, i); row++)
                if (rows[row].stage == s || rows[row].stage == views) any |= rewrite(f, row, i);
    }
}

static void join(fuser *f) {
    const int n = f->g->n_nodes; /* New nodes are joined already. */
    for (int i = 0; i < n && !f->g->arena.failed; i++) {
        const char *name = f->g->nodes[i].name;
        const int joined = tw_join_products(&f->r, i, &f->serial);
        if (joined < 0 || (joined && !note(f, "products joined", name, joined))) f->g->arena.failed = true;
    }
}

static tw_status fuse(tw_graph *g, tw_fusions *log, tw_diag *diag) {
    fuser *f = calloc(1, sizeof *f);
    if (!f) return tw_fail_memory(diag);
    f->g = g;
    f->log = log;
    f->serial = first_serial(g);
    tw_status st = read_rows(f, diag);
    if (st == TW_OK && !tw_edit_begin(&f->r, g)) st = tw_fail_memory(diag);
    for (int s = 0; s < STAGES && st == TW_OK; s++) {
        run(f, (stage)s);
        if (s == products) join(f);
        if (g->arena.failed) st = tw_fail_memory(diag);
    }
    if (st == TW_OK) st = tw_edit_end(&f->r, diag);
    tw_edit_free(&f->r);
    tw_arena_free(&f->arena);
    free(f);
    return st;
}

tw_status tw_graph_fuse(tw_graph *g, tw_fusions *log, tw_diag *diag) {
    tw_status st = tw_graph_simplify(g, diag);
    if (st == TW_OK) st = fuse(g, log, diag);
    return st == TW_OK ? tw_graph_simplify(g, diag) : st;
}

/* ---- what was found */

int tw_fusions_count(const tw_fusions *f, const char *name) {
    int n = 0;
    for (int i = 0; i < f->n; i++) n += !strcmp(f->list[i].pattern, name);
    return n;
}

static bool is_first(const tw_fusions *f, int i) {
    for (int j = 0; j < i; j++)
        if (!strcmp(f->list[j].pattern, f->list[i].pattern)) return false;
    return true;
}

void tw_fusions_print(const tw_fusions *f, bool each, tw_buf *out) {
    for (int i = 0; i < f->n; i++) {
        if (!is_first(f, i)) continue;
        int times = 0, nodes = 0;
        for (int j = i; j < f->n; j++) {
            const bool same = !strcmp(f->list[j].pattern, f->list[i].pattern);
            times += same;
            nodes += same ? f->list[j].nodes : 0;
        }
        tw_buf_printf(out, "%5d  %s (%d nodes)\n", times, f->list[i].pattern, nodes);
        for (int j = i; j < f->n && each; j++)
            if (!strcmp(f->list[j].pattern, f->list[i].pattern))
                tw_buf_printf(out, "         %s\n", *f->list[j].node ? f->list[j].node : "(no name)");
    }
}

void tw_fusions_free(tw_fusions *f) {
    free(f->list);
    tw_arena_free(&f->arena);
    *f = (tw_fusions){0};
}
