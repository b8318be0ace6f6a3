/* SPDX-License-Identifier: Apache-2.0 */
#include "support/patterns.h"

#include "base/diag.h"
#include "base/random.h"
#include "graph/patterns/make.h"
#include "graph/run.h"
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values: "x 2,3,4; mask bool 2,1,1,5; gain! 8; shape! = 2,12"; types other than f64 are said, ! is a constant */

static double number_of(const char *kind, int64_t i, const int64_t *dims, int rank, tw_random *r) {
    const int64_t columns = rank ? dims[rank - 1] : 1, rows = rank > 1 ? dims[rank - 2] : 1;
    const int64_t row = i / columns % rows, column = i % columns;
    const bool seen = column <= row + columns - rows;
    if (!strcmp(kind, "causal")) return seen;
    if (!strcmp(kind, "hidden")) return seen ? 0 : -1e9;
    if (!strcmp(kind, "sloping")) return seen ? -0.1 * (double)(row - column) : -1e9;
    if (!strcmp(kind, "visible")) return 0;
    if (!strcmp(kind, "tenth")) return 0.1;
    if (!strcmp(kind, "blind")) return row ? 0 : -INFINITY; /* The first row sees nothing. */
    if (!strcmp(kind, "least")) return seen ? 0 : -INFINITY;
    if (!strcmp(kind, "infinite")) return -INFINITY;
    if (!strcmp(kind, "nearly")) return seen || i == columns - 1 ? 0 : -1e9;
    if (!strcmp(kind, "true") || !strcmp(kind, "i64")) return 1;
    if (!strcmp(kind, "pairs")) return (double)(i % 2 ? i / 2 % 3 : i / 6); /* Places of [2, 3], in order. */
    if (!strcmp(kind, "length")) return 4;
    if (!strcmp(kind, "total")) return 5;
    if (!strcmp(kind, "places")) return (double)((column + 2) % 9);
    if (!strcmp(kind, "cosine")) return cos((double)(row * (column + 1)));
    if (!strcmp(kind, "sine")) return sin((double)(row * (column + 1)));
    if (!strcmp(kind, "bool")) return !column || tw_random_below(r, 2);
    if (!strcmp(kind, "count")) return (double)i;
    if (!strcmp(kind, "twice")) return sin((double)(column % (columns / 2) + 7 * row));  /* Halves are alike. */
    if (!strcmp(kind, "pair")) return sin((double)(column / 2 + 7 * (i / columns) + 5)); /* Neighbours are alike. */
    return tw_random_normal(r);
}

static tw_element type_of(const char *kind) {
    tw_element t = TW_E_f64;
    if (!strcmp(kind, "causal") || !strcmp(kind, "true")) return TW_E_bool;
    if (!strcmp(kind, "count")) return TW_E_i64;
    if (!strcmp(kind, "tenth") || !strcmp(kind, "cosine") || !strcmp(kind, "sine")) return TW_E_f32;
    if (!strcmp(kind, "length") || !strcmp(kind, "total")) return TW_E_i32;
    if (!strcmp(kind, "places") || !strcmp(kind, "pairs")) return TW_E_i64;
    tw_element_from_name(kind, &t);
    return t;
}

static void *contents(tw_arena *arena, const char *kind, tw_array *a, tw_random *r) {
    const int64_t n = tw_array_elements(a);
    void *data = tw_arena_array(arena, (size_t)n + 1, 8);
    for (int64_t i = 0; i < n; i++) {
        const double x = number_of(kind, i, a->dims, a->rank, r);
        tw_array_set_reals(a->type, data, i, 1, &x);
    }
    return data;
}

static void declare(test_pattern *m, char *text, tw_random *r) {
    char kind[32] = "f64", *name = text + strspn(text, " "), *p = name + strcspn(name, "! ");
    const bool constant = *p == '!';
    *p++ = 0;
    p += strspn(p, " ");
    const bool list = *p == '=';
    if (list) p++;
    if (*p >= 'a') sscanf(p, "%31s", kind);
    if (*p >= 'a') p += strlen(kind);
    tw_array a = {.type = list ? TW_E_i64 : type_of(kind)};
    int64_t numbers[TW_ARRAY_RANK] = {0};
    int n = 0;
    for (char *at = p; *at && n < TW_ARRAY_RANK;) {
        char *end;
        numbers[n] = strtoll(at, &end, 10);
        if (end == at) break;
        n++;
        at = end + strspn(end, ", ");
    }
    const int v = tw_graph_add_value(m->g, tw_arena_strdup(&m->g->arena, name));
    a.rank = list ? 1 : n;
    if (list) a.dims[0] = n;
    if (!list) memcpy(a.dims, numbers, sizeof numbers);
    tw_value *value = &m->g->values[v];
    value->type = a.type;
    value->rank = a.rank;
    memcpy(value->dims, a.dims, sizeof a.dims);
    a.data = contents(&m->g->arena, kind, &a, r);
    if (list) tw_array_set_integers(TW_E_i64, (void *)a.data, 0, n, numbers);
    if (constant || list)
        tw_graph_set_content(m->g, v, &a);
    else
        m->g->inputs[m->g->n_inputs++] = v;
    m->values[m->names.n] = v;
    m->names.names[m->names.n++] = value->name;
}

/* Makes a graph of declarations and expressions, the last of which is the output. Others that have names are, too. */
test_pattern test_pattern_make(const char *declared, const char *expression) {
    test_pattern m = {.g = tw_graph_new()};
    tw_random r = tw_random_seed(1);
    tw_diag diag = {0};
    char *text = tw_arena_strdup(&m.arena, declared);
    m.g->inputs = tw_arena_array(&m.g->arena, TEST_PATTERN_VALUES, sizeof(int));
    m.g->outputs = tw_arena_array(&m.g->arena, TEST_PATTERN_VALUES, sizeof(int));
    while (text) {
        char *behind = strchr(text, ';');
        if (behind) *behind++ = 0;
        if (text[strspn(text, " ")]) declare(&m, text, &r);
        text = behind;
    }
    tw_match match = {.g = m.g};
    for (int i = 0; i < TW_TERM_SLOTS; i++) match.bound[i] = i < m.names.n ? m.values[i] : -1;
    /* Numbers have the type of this node's result. */
    int *of = tw_arena_array(&m.g->arena, 2, sizeof *of);
    of[0] = m.values[0];
    of[1] = m.values[0];
    tw_graph_add_node(
        m.g,
        &(tw_node){
            .op = "Identity", .domain = "", .name = "", .version = 24, .in = of, .out = of + 1, .n_in = 1, .n_out = 1});
    int serial = 0;
    tw_maker k = {.g = m.g, .match = &match, .name = "", .serial = &serial};
    tw_term *t;
    if (tw_term_read(&t, expression, &m.names, &m.arena, &diag) != TW_OK) fail_msg("%s", diag.message);
    for (; t; t = t->next) {
        const int v = tw_make(&k, t, -1);
        if (v < 0) fail_msg("%s is not made", expression);
        if (!t->next || t->result >= 0) m.g->outputs[m.g->n_outputs++] = v;
    }
    m.g->nodes[0].n_in = m.g->nodes[0].n_out = 0; /* It is needed no longer, and computes nothing. */
    assert_int_equal(tw_graph_compact(m.g, &diag), TW_OK);
    assert_int_equal(tw_graph_resolve(m.g, "m", &diag), TW_OK);
    return m;
}

void test_pattern_end(test_pattern *m) {
    tw_graph_free(m->g);
    tw_arena_free(&m->arena);
}

/* ---- comparing */

static void run(const tw_graph *g, tw_arena *arena, const tw_array *const *in, tw_array *out) {
    tw_diag diag = {0};
    if (tw_graph_run(g, in, arena, out, &diag) != TW_OK) fail_msg("%s", diag.message);
}

static void compare(const char *what, const tw_array *x, const tw_array *y) {
    const int64_t n = tw_array_elements(x);
    const double allowed = x->type == TW_E_f64 ? 1e-9 : x->type == TW_E_f32 ? 1e-5 : 2e-3;
    double most = 0;
    assert_int_equal(n, tw_array_elements(y));
    assert_int_equal(x->type, y->type);
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(tw_array_real(x, i)));
    for (int64_t i = 0; i < n; i++) {
        const double a = tw_array_real(x, i), b = tw_array_real(y, i);
        if (a != b && !(fabs(a - b) <= allowed * most) && !(isnan(a) && isnan(b)))
            fail_msg("%s: element %d is %.17g and not %.17g", what, (int)i, b, a);
    }
}

/* Writes the operators of a graph, in order, by their names. */
static void operators(const tw_graph *g, char *out, size_t size) {
    size_t at = 0;
    *out = 0;
    for (int i = 0; i < g->n_nodes && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? " " : "", g->nodes[i].op);
}

/* Runs both graphs on the same inputs, and compares their outputs, which have the same names. */
static void compare_graphs(const char *what, const tw_graph *plain, tw_graph *fused) {
    tw_diag diag = {0};
    tw_arena arena = {0};
    tw_random r = tw_random_seed(2);
    const tw_array *in[TEST_PATTERN_VALUES];
    tw_array inputs[TEST_PATTERN_VALUES], x[TEST_PATTERN_VALUES], y[TEST_PATTERN_VALUES];
    for (int i = 0; i < plain->n_inputs; i++) {
        const tw_value *v = &plain->values[plain->inputs[i]];
        inputs[i] = (tw_array){.type = v->type, .rank = v->rank};
        memcpy(inputs[i].dims, v->dims, sizeof v->dims);
        inputs[i].data = contents(&arena, tw_element_name(v->type), &inputs[i], &r);
        in[i] = &inputs[i];
    }
    assert_int_equal(tw_graph_resolve(fused, "m", &diag), TW_OK);
    run(plain, &arena, in, x);
    run(fused, &arena, in, y);
    for (int i = 0; i < plain->n_outputs; i++) {
        compare(what, &x[i], &y[i]);
        assert_string_equal(plain->values[plain->outputs[i]].name, fused->values[fused->outputs[i]].name);
    }
    tw_arena_free(&arena);
}

/* Rewrites a graph, compares its results with those it had, and looks at its operators. */
static void check(const char *declared, const char *expression, const char *want, const char *pattern) {
    test_pattern plain = test_pattern_make(declared, expression), fused = test_pattern_make(declared, expression);
    tw_fusions found = {0};
    tw_diag diag = {0};
    char ops[512];
    if (tw_graph_fuse(fused.g, &found, &diag) != TW_OK) fail_msg("%s", diag.message);
    operators(fused.g, ops, sizeof ops);
    if (strcmp(ops, want) != 0) fail_msg("%s is %s, not %s", expression, ops, want);
    if (pattern && !tw_fusions_count(&found, pattern)) fail_msg("%s is no %s", expression, pattern);
    compare_graphs(expression, plain.g, fused.g);
    tw_fusions_free(&found);
    test_pattern_end(&plain);
    test_pattern_end(&fused);
}

/* ---- graphs that are nearly those of patterns */

static bool are_alike(const tw_value *a, const tw_value *b) {
    return a->type == b->type && a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof(int64_t) * (size_t)a->rank);
}

/* Gives an operand's place to another value of its type and extents that is there before the node. */
static void exchange(tw_graph *g, tw_random *r) {
    const int at = (int)tw_random_below(r, (uint64_t)g->n_nodes);
    tw_node *n = &g->nodes[at];
    if (!n->n_in) return;
    int *in = &n->in[tw_random_below(r, (uint64_t)n->n_in)];
    const int by = (int)tw_random_below(r, (uint64_t)g->n_values);
    const bool extents = *in >= 0 && g->values[*in].type == TW_E_i64; /* With others, nodes would not fit any longer. */
    if (*in >= 0 && by != *in && !extents && are_alike(&g->values[*in], &g->values[by]) && g->values[by].producer < at)
        *in = by;
}

/* Makes some value an output, too. */
static void show(tw_graph *g, tw_random *r) {
    const int at = (int)tw_random_below(r, (uint64_t)g->n_nodes);
    const int value = g->nodes[at].out[0];
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i] == value) return;
    if (g->n_outputs < TEST_PATTERN_VALUES) g->outputs[g->n_outputs++] = value;
}

/* Changes an element of a constant of reals. */
static void disturb(tw_graph *g, tw_random *r) {
    tw_value *v = &g->values[tw_random_below(r, (uint64_t)g->n_values)];
    const int64_t n = v->content ? tw_array_elements(v->content) : 0;
    if (n < 1 || tw_element_kind(v->type) != TW_KIND_real) return;
    const int64_t i = (int64_t)tw_random_below(r, (uint64_t)n);
    const double x = tw_array_real(v->content, i) * (1 + tw_random_unit(r)) + 0.01;
    tw_array_set_reals(v->type, (void *)v->content->data, i, 1, &x);
}

static void change(tw_graph *g, uint64_t seed) {
    tw_random r = tw_random_seed(seed);
    for (int i = 1 + (int)tw_random_below(&r, 3); i; i--) {
        const uint64_t what = tw_random_below(&r, 8);
        if (what < 5) exchange(g, &r);
        if (what == 5 || what == 6) disturb(g, &r);
        if (what == 7) show(g, &r);
    }
}

void test_patterns_change(const test_trial *t, size_t n, int times) {
    for (size_t i = 0; i < n * (size_t)times; i++) {
        const test_trial *of = &t[i % n];
        test_pattern plain = test_pattern_make(of->declared, of->expression),
                     fused = test_pattern_make(of->declared, of->expression);
        tw_diag diag = {0};
        char what[1024];
        snprintf(what, sizeof what, "%s, changed by %d", of->expression, (int)i);
        change(plain.g, i);
        change(fused.g, i);
        if (plain.g->values[plain.g->outputs[0]].type == TW_E_f64) { /* In others, roundings add up. */
            if (tw_graph_fuse(fused.g, NULL, &diag) != TW_OK) fail_msg("%s: %s", what, diag.message);
            compare_graphs(what, plain.g, fused.g);
        }
        test_pattern_end(&plain);
        test_pattern_end(&fused);
    }
}

void test_patterns_check(const test_trial *t, size_t n) {
    for (size_t i = 0; i < n; i++) check(t[i].declared, t[i].expression, t[i].want, t[i].pattern);
}
