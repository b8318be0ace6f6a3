/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns: each row of patterns.def finds its test graph, what it becomes gives the same results, and nothing is found
   where it would be wrong. Graphs are written in the words of the patterns. */
#include "base/diag.h"
#include "base/random.h"
#include "graph/patterns/fuse.h"
#include "graph/patterns/make.h"
#include "graph/run.h"
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 16 };

/* A graph of one expression. */
typedef struct made {
    tw_graph *g;
    tw_term_names names;
    int values[VALUES]; /* Of names. */
    tw_arena arena;
} made;

/* ---- values: "x 2,3,4; mask bool 2,1,1,5; gain! 8; shape! = 2,12"; types other than f64 are said, ! is a constant */

static double number_of(const char *kind, int64_t i, const int64_t *dims, int rank, tw_random *r) {
    const int64_t columns = rank ? dims[rank - 1] : 1, rows = rank > 1 ? dims[rank - 2] : 1;
    const int64_t row = i / columns % rows, column = i % columns;
    const bool seen = column <= row + columns - rows;
    if (!strcmp(kind, "causal")) return seen;
    if (!strcmp(kind, "hidden")) return seen ? 0 : -1e9;
    if (!strcmp(kind, "visible")) return 0;
    if (!strcmp(kind, "tenth")) return 0.1;
    if (!strcmp(kind, "blind")) return row ? 0 : -INFINITY; /* The first row sees nothing. */
    if (!strcmp(kind, "least")) return seen ? 0 : -INFINITY;
    if (!strcmp(kind, "infinite")) return -INFINITY;
    if (!strcmp(kind, "nearly")) return seen || i == columns - 1 ? 0 : -1e9;
    if (!strcmp(kind, "true")) return 1;
    if (!strcmp(kind, "length")) return 4;
    if (!strcmp(kind, "total")) return 5;
    if (!strcmp(kind, "places")) return (double)((column + 2) % 9);
    if (!strcmp(kind, "cosine")) return cos((double)(row * (column + 1)));
    if (!strcmp(kind, "sine")) return sin((double)(row * (column + 1)));
    if (!strcmp(kind, "bool")) return !column || tw_random_below(r, 2);
    if (!strcmp(kind, "count")) return (double)i;
    if (!strcmp(kind, "twice")) return sin((double)(column % (columns / 2) + 7 * row)); /* Halves are alike. */
    return tw_random_normal(r);
}

static tw_element type_of(const char *kind) {
    tw_element t = TW_E_f64;
    if (!strcmp(kind, "causal") || !strcmp(kind, "true")) return TW_E_bool;
    if (!strcmp(kind, "count")) return TW_E_i64;
    if (!strcmp(kind, "tenth") || !strcmp(kind, "cosine") || !strcmp(kind, "sine")) return TW_E_f32;
    if (!strcmp(kind, "length") || !strcmp(kind, "total")) return TW_E_i32;
    if (!strcmp(kind, "places")) return TW_E_i64;
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

static void declare(made *m, char *text, tw_random *r) {
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
static made graph_of(const char *declared, const char *expression) {
    made m = {.g = tw_graph_new()};
    tw_random r = tw_random_seed(1);
    tw_diag diag = {0};
    char *text = tw_arena_strdup(&m.arena, declared);
    m.g->inputs = tw_arena_array(&m.g->arena, VALUES, sizeof(int));
    m.g->outputs = tw_arena_array(&m.g->arena, VALUES, sizeof(int));
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

static void end(made *m) {
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
        if (!(fabs(a - b) <= allowed * most) && !(isnan(a) && isnan(b)))
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

/* Rewrites a graph, compares its results with those it had, and returns its operators. */
static void check(const char *declared, const char *expression, const char *want, const char *pattern) {
    made plain = graph_of(declared, expression), fused = graph_of(declared, expression);
    tw_fusions found = {0};
    tw_diag diag = {0};
    char ops[512];
    if (tw_graph_fuse(fused.g, &found, &diag) != TW_OK) fail_msg("%s", diag.message);
    operators(fused.g, ops, sizeof ops);
    if (strcmp(ops, want) != 0) fail_msg("%s is %s, not %s", expression, ops, want);
    if (pattern && !tw_fusions_count(&found, pattern)) fail_msg("%s is no %s", expression, pattern);
    tw_arena arena = {0};
    tw_random r = tw_random_seed(2);
    const tw_array *in[VALUES];
    tw_array inputs[VALUES], x[VALUES], y[VALUES];
    for (int i = 0; i < plain.g->n_inputs; i++) {
        const tw_value *v = &plain.g->values[plain.g->inputs[i]];
        inputs[i] = (tw_array){.type = v->type, .rank = v->rank};
        memcpy(inputs[i].dims, v->dims, sizeof v->dims);
        inputs[i].data = contents(&arena, tw_element_name(v->type), &inputs[i], &r);
        in[i] = &inputs[i];
    }
    assert_int_equal(tw_graph_resolve(fused.g, "m", &diag), TW_OK);
    run(plain.g, &arena, in, x);
    run(fused.g, &arena, in, y);
    for (int i = 0; i < plain.g->n_outputs; i++) compare(expression, &x[i], &y[i]);
    tw_fusions_free(&found);
    tw_arena_free(&arena);
    end(&plain);
    end(&fused);
}

typedef struct trial {
    const char *declared, *expression, *want, *pattern;
} trial;

static void check_all(const trial *t, size_t n) {
    for (size_t i = 0; i < n; i++) check(t[i].declared, t[i].expression, t[i].want, t[i].pattern);
}

#define CHECK_ALL(table) check_all(table, sizeof table / sizeof *table)

/* ---- norms */

#define MEAN(x) "ReduceMean(" x ") axes=[-1]"

static void layer_norms_are_found_in_all_spellings(void **state) {
    (void)state;
#define LAYER(body) "x 2,3,8; g! 8; b! 8", "d=Sub(x, " MEAN("x") "); " body, "LayerNormalization", "layer norm"
    static const trial t[] = {
        {LAYER("Add(Mul(Div(d, Sqrt(Add(" MEAN("Pow(d, 2)") ", 1e-5))), g), b)")},
        {LAYER("Add(b, Mul(g, Div(d, Sqrt(Add(1e-5, " MEAN("Mul(d, d)") ")))))")},
        {LAYER("Add(Mul(Mul(d, Reciprocal(Sqrt(Add(" MEAN("Mul(d, d)") ", 1e-5)))), g), b)")},
        {LAYER("Add(Mul(Mul(Div(1, Sqrt(Add(" MEAN("Mul(d, d)") ", 1e-5))), d), g), b)")},
        {LAYER("Mul(Div(d, Sqrt(Add(" MEAN("Pow(d, 2)") ", 1e-5))), g)")},
        {LAYER("Div(d, Sqrt(Add(" MEAN("Pow(d, 2)") ", 1e-12)))")},
        {LAYER("Mul(d, Pow(Add(" MEAN("Pow(d, 2)") ", 0.1), -0.5))")},
        {LAYER("Div(d, Pow(Add(" MEAN("Pow(d, 2)") ", 0.1), 0.5))")},
        /* The mean is taken twice. */
        {"x 2,3,8", "d=Sub(x, " MEAN("x") "); Div(Sub(x, " MEAN("x") "), Sqrt(Add(" MEAN("Pow(d, 2)") ", 1e-5)))",
         "LayerNormalization", "layer norm"},
        {"x f16 2,3,8; g! f16 8", "c=Cast(x) to=1; Mul(Cast(LayerNormalization(c, ones(c)) axis=-1) to=10, g)",
         "LayerNormalization", "norm's cast"},
        {"x 2,3,8; s 2,3,8; g! 8; b! 8", "*SkipLayerNormalization(x, s, g, b) epsilon=0.1", "Add LayerNormalization",
         "norm of a sum"},
        {"x 2,3,8; s 2,3,8; g! 8; b! 8; c! 8", "*SkipLayerNormalization(x, s, g, b, c)", "Add Add LayerNormalization",
         "norm of a sum"},
    };
    CHECK_ALL(t);
}

static void rms_norms_are_found_in_all_spellings(void **state) {
    (void)state;
#define RMS(body) "x 2,3,8; g! 8", body, "RMSNormalization", "RMS norm"
    static const trial t[] = {
        {RMS("Mul(g, Mul(x, Reciprocal(Sqrt(Add(" MEAN("Pow(x, 2)") ", 1e-5)))))")},
        {RMS("Mul(Div(x, Sqrt(Add(" MEAN("Mul(x, x)") ", 0.1))), g)")},
        {RMS("Mul(x, Pow(Add(" MEAN("Pow(x, 2)") ", 0.1), -0.5))")},
        {RMS("Mul(Mul(x, Div(1, Sqrt(Add(" MEAN("Mul(x, x)") ", 0.1)))), g)")},
        {RMS("SimplifiedLayerNormalization(x, g) epsilon=0.1")},
        {"x f16 2,3,8; g! f16 8; e! tenth",
         "c=Cast(x) to=1; Mul(g, Cast(Mul(c, Reciprocal(Sqrt(Add(" MEAN("Mul(c, c)") ", e))))) to=10)",
         "RMSNormalization", "norm's cast"},
        {"x 2,3,8; s 2,3,8; g! 8", "*SkipSimplifiedLayerNormalization(x, s, g) epsilon=0.1", "Add RMSNormalization",
         "norm of a sum"},
        {"x 2,3,8; s 2,3,8; g! 8; b! 8", "*SkipSimplifiedLayerNormalization(x, s, g, b)", "Add Add RMSNormalization",
         "norm of a sum"},
    };
    CHECK_ALL(t);
}

static void what_is_no_norm_stays(void **state) {
    (void)state;
    static const trial t[] = {
        /* Over another axis, with another power, with a root of something else. */
        {"x 2,3,8", "Mul(x, Reciprocal(Sqrt(Add(ReduceMean(Pow(x, 2)) axes=[1], 0.1))))",
         "Pow ReduceMean Add Sqrt Reciprocal Mul", NULL},
        {"x 2,3,8", "Mul(x, Reciprocal(Sqrt(Add(" MEAN("Pow(x, 3)") ", 0.1))))",
         "Pow ReduceMean Add Sqrt Reciprocal Mul", NULL},
        {"x 2,3,8; y 2,3,8", "Mul(x, Reciprocal(Sqrt(Add(" MEAN("Pow(y, 2)") ", 0.1))))",
         "Pow ReduceMean Add Sqrt Reciprocal Mul", NULL},
        /* Others want what is within. */
        {"x 2,3,8", "r=Reciprocal(Sqrt(Add(" MEAN("Pow(x, 2)") ", 0.1)))@0; Mul(x, r)",
         "Pow ReduceMean Add Sqrt Reciprocal Mul", NULL},
        {"x 2,3,8", "r=Sqrt(Add(" MEAN("Pow(x, 2)") ", 0.1)); Add(Div(x, r), r)", "Pow ReduceMean Add Sqrt Div Add",
         NULL},
    };
    CHECK_ALL(t);
}

/* ---- activations */

static void activations_are_found_in_all_spellings(void **state) {
    (void)state;
#define GATE          "Add(Erf(Div(x, 1.4142135623730951)), 1)"
#define TANH          "Add(1, Tanh(Mul(Add(x, Mul(Pow(x, 3), 0.044715)), 0.7978845608028654)))"
#define ERF(body)     "x 2,3,8", body, "Gelu", "GELU (erf)"
#define BY_TANH(body) "x 2,3,8", body, "Gelu", "GELU (tanh)"
    static const trial t[] = {
        {ERF("Mul(Mul(x, " GATE "), 0.5)")},
        {ERF("Mul(0.5, Mul(" GATE ", x))")},
        {ERF("Mul(x, Mul(0.5, " GATE "))")},
        {ERF("Mul(Mul(0.5, x), Add(1, Erf(Mul(x, 0.70710678))))")},
        {ERF("*Gelu(x)")},
        {BY_TANH("Mul(Mul(x, 0.5), " TANH ")")},
        {BY_TANH("Mul(x, Mul(" TANH ", 0.5))")},
        {BY_TANH("Mul(Mul(x, " TANH "), 0.5)")},
        {BY_TANH("Mul(Mul(x, 0.5), Add(Tanh(Mul(Add(x, Mul(Mul(x, Mul(x, x)), 0.044715)), 0.79788456)), 1))")},
        {BY_TANH("Mul(Mul(x, 0.5), Add(Tanh(Mul(Mul(x, 0.79788456), Add(1, Mul(Mul(x, 0.044715), x)))), 1))")},
        {BY_TANH("Mul(Mul(x, 0.5), Add(Tanh(Mul(Mul(x, 0.79788456), Add(1, Mul(Mul(x, x), 0.044715)))), 1))")},
        {BY_TANH("Mul(Mul(x, 0.5), Add(Tanh(Mul(Mul(x, Add(1, Mul(Mul(x, x), 0.044715))), 0.79788456)), 1))")},
        {BY_TANH("*FastGelu(x)")},
        {"x 2,3,8; b! 8", "*FastGelu(x, b)", "Add Gelu", "GELU (tanh)"},
        {"x 2,3,8; b! 8", "*BiasGelu(x, b)", "Add Gelu", "GELU (erf)"},
        {"x 2,3,8", "Mul(Sigmoid(x), x)", "Swish", "SiLU"},
        {"x 2,3,8", "Div(x, Add(1, Exp(Neg(x))))", "Swish", "SiLU"},
        /* Other numbers. */
        {"x 2,3,8", "Mul(Mul(x, " GATE "), 0.51)", "Div Erf Add Mul Mul", NULL},
        {"x 2,3,8; y 2,3,8", "Mul(Mul(y, " GATE "), 0.5)", "Div Erf Add Mul Mul", NULL},
    };
    CHECK_ALL(t);
}

/* ---- views */

static void views_are_joined(void **state) {
    (void)state;
    static const trial t[] = {
        {"x 2,3,8; s! = 6,8; t! = 2,3,8", "Sqrt(Reshape(Reshape(x, s), t))", "Sqrt", NULL},
        {"x 2,3,8; s! = 6,8; t! = 2,24", "Sqrt(Reshape(Reshape(x, s), t))", "Reshape Sqrt", NULL},
        {"x 2,3,8", "Sqrt(Transpose(Transpose(x) perm=[1, 2, 0]) perm=[2, 0, 1])", "Sqrt", NULL},
        {"x 2,3,8", "Sqrt(Transpose(Transpose(x) perm=[1, 2, 0]) perm=[1, 0, 2])", "Transpose Sqrt", NULL},
        {"x 2,3,4,5; s! = 6,4,5; t! = 2,3,5,4", "Sqrt(Reshape(Transpose(Reshape(x, s)) perm=[0, 2, 1], t))",
         "Transpose Sqrt", NULL},
        {"x 2,3,1,4,5; s! = 6,4,5; t! = 2,3,5,4", "Sqrt(Reshape(Transpose(Reshape(x, s)) perm=[0, 2, 1], t))",
         "Reshape Transpose Sqrt", "transpose"},
        /* An output keeps its name, and an input stays one. */
        {"x 2,3,8; s! = 2,3,8", "Reshape(Sqrt(x), s)", "Sqrt", NULL},
        {"x 2,3,8; s! = 2,3,8", "Reshape(x, s)", "Reshape", NULL},
    };
    CHECK_ALL(t);
}

/* ---- products */

static void products_take_what_is_around_them(void **state) {
    (void)state;
#define OF "x 2,3,8; w! 8,4; b! 4; r 2,3,4; c! 1,1,4; "
    static const trial t[] = {
        {OF, "MatMul(x, w)", "Product", "product"},
        {OF, "Add(MatMul(x, w), b)", "Product", "product and bias"},
        {OF, "Add(c, MatMul(x, w))", "Product", "product and bias"},
        {OF, "Add(r, Add(MatMul(x, w), b))", "Product", "product and residual"},
        {OF, "Add(Add(MatMul(x, w), b), r)", "Product", "product and residual"},
        {OF, "Gelu(Add(MatMul(x, w), b)) approximate=\"none\"", "Product", "product and activation"},
        {OF, "Gelu(Add(MatMul(x, w), b)) approximate=\"tanh\"", "Product", "product and activation"},
        {OF, "Relu(MatMul(x, w))", "Product", "product and activation"},
        {OF, "Tanh(Add(MatMul(x, w), b))", "Product", "product and activation"},
        {OF, "q=Add(MatMul(x, w), b); Mul(q, Sigmoid(q))", "Product", "product and activation"},
        {OF, "Add(Mul(Relu(Add(MatMul(x, w), b)), r), r)", "Product", "product and factors"},
        {OF, "Add(Mul(MatMul(x, w), 0.5), b)", "Product", NULL},
        {OF, "Div(MatMul(x, w), 4)", "Product", "product's factor"},
        {OF "y 2,3,4", "Add(Mul(Add(MatMul(x, w), b), r), y)", "Product", "product and residual"},
        {"x 6,8; w! 4,8; b! 4", "Gemm(x, w, b) transB=1", "Product", "product and bias"},
        {"x 8,6; w! 8,4; b! 4", "Gemm(x, w, b) transA=1 alpha=0.5 beta=2", "Product", "product and bias"},
        {"x 8,6; w! 8,4; b 6,4", "Gemm(x, w, b) transA=1 beta=0.5", "Mul Product", "product and bias"},
        {"x 6,8; w! 8,4", "Gemm(x, w) alpha=3", "Product", "product"},
        {"x 2,3,8; w 4,8", "MatMul(x, Transpose(w) perm=[1, 0])", "Product", "product"},
        {"x 2,8,3; w! 8,4", "MatMul(Transpose(x) perm=[0, 2, 1], w)", "Product", "product"},
        {"x 2,3,4,8; y 2,3,5,8", "MatMul(x, Transpose(y) perm=[0, 1, 3, 2])", "Product", "product"},
        {OF "s! = 6,8; t! = 2,3,4", "Add(Reshape(Gemm(Reshape(x, s), w, b), t), r)", "Product", "product's rows"},
        /* A residual, of which there is one already. */
        {OF, "Add(Add(Add(MatMul(x, w), b), r), Sqrt(Mul(r, r)))", "Product Mul Sqrt Add", NULL},
        /* A bias that is no row. */
        {"x 2,3,8; w! 8,4; b! 3,1", "Add(MatMul(x, w), b)", "Product Add", NULL},
        /* A gated layer: the gate's activation, and the other's factor. */
        {OF "u! 8,4", "q=MatMul(x, w); Mul(Mul(q, Sigmoid(q)), MatMul(x, u))", "Product Product",
         "product and factors"},
    };
    CHECK_ALL(t);
}

static void products_of_one_operand_are_joined(void **state) {
    (void)state;
#define THREE "x 2,3,8; a! 8,4; b! 8,2; c! 8,6; i! 4; j! 2; k! 6; "
    static const trial t[] = {
        {THREE, "p=Add(MatMul(x, a), i)@0; q=Add(MatMul(x, b), j)@0; Add(MatMul(x, c), k)", "Product Split",
         "products joined"},
        {THREE, "p=MatMul(x, a)@0; MatMul(x, b)", "Product Split", "products joined"},
        /* One of them has no bias. */
        {THREE, "p=MatMul(x, a)@0; Add(MatMul(x, b), j)", "Product Split", "products joined"},
        {"x 6,8; a! 8,4; b! 2,8; i! 4; j! 2", "p=Gemm(x, a, i)@0; Gemm(x, b, j) transB=1", "Product Product", NULL},
        {"x 6,8; a! 4,8; b! 2,8; i! 4; j! 2", "p=Gemm(x, a, i) transB=1@0; Gemm(x, b, j) transB=1", "Product Split",
         "products joined"},
        /* Other operands, and activations. */
        {THREE "y 2,3,8", "p=MatMul(x, a)@0; MatMul(y, b)", "Product Product", NULL},
        {THREE, "p=Relu(MatMul(x, a))@0; MatMul(x, b)", "Product Product", NULL},
    };
    CHECK_ALL(t);
}

/* ---- attention */

#define HEADS         "q 2,2,3,4; k 2,2,3,4; v 2,2,3,4; "
#define DOTS          "MatMul(q, Transpose(k) perm=[0, 1, 3, 2])"
#define MIXED(scores) "MatMul(Softmax(" scores ") axis=-1, v)"

static void attention_is_found_with_all_scales_and_masks(void **state) {
    (void)state;
    static const trial t[] = {
        {HEADS, MIXED(DOTS), "Attention", "attention"},
        {HEADS, MIXED("Div(" DOTS ", 2)"), "Attention", "attention"},
        {HEADS, MIXED("Mul(0.5, " DOTS ")"), "Attention", "attention"},
        {HEADS, MIXED("MatMul(Mul(q, 0.7), Mul(Transpose(k) perm=[0, 1, 3, 2], 0.6))"), "Attention", "attention"},
        {HEADS, MIXED("MatMul(Mul(q, 0.7), Transpose(k) perm=[0, 1, 3, 2])"), "Attention", "attention"},
        {HEADS "m 2,1,1,3", MIXED("Add(m, Div(" DOTS ", 2))"), "Attention", "attention"},
        {HEADS "m 2,1,1,3; s! = 2,1,3,3", MIXED("Add(" DOTS ", Expand(m, s))"), "Attention", "attention's mask"},
        {HEADS "m! hidden 3,3", MIXED("Add(Mul(" DOTS ", 0.5), m)"), "Attention", "attention's mask"},
        {HEADS "m! least 1,1,3,3", MIXED("Add(Mul(" DOTS ", 0.5), m)"), "Attention", "attention's mask"},
        {HEADS "m! visible 1,1,3,3", MIXED("Add(Mul(" DOTS ", 0.5), m)"), "Attention", NULL},
        {HEADS "m! visible 3,3", "Attention(q, k, v, m)", "Attention", "attention's mask"},
        {HEADS "m! nearly 3,3", MIXED("Add(Mul(" DOTS ", 0.5), m)"), "Attention", "attention"},
        {HEADS "b! causal 1,1,3,3", MIXED("Where(b, " DOTS ", -10000)"), "Attention", "attention's mask"},
        {HEADS "b! causal 3,3", MIXED("Where(Not(b), -1000000000, Div(" DOTS ", 2))"), "Attention", "attention's mask"},
        {HEADS "b! causal 3,3; m 2,1,1,3", MIXED("Add(Where(b, " DOTS ", -10000), m)"), "Add Attention", "attention"},
        {HEADS "b bool 2,1,1,3; n! infinite", MIXED("Where(b, " DOTS ", n)"), "Where Attention", "attention"},
        {HEADS "b bool 2,1,1,3; n! infinite", MIXED("Where(Not(b), n, " DOTS ")"), "Not Where Attention", "attention"},
        {HEADS "b bool 2,1,1,3; n! infinite; z! visible; s! = 2,1,3,3; t! true 1,1,3,1",
         MIXED("Add(" DOTS ", Where(Expand(And(b, t), s), z, n))"), "Where Attention", "masks"},
        {HEADS "b bool 2,1,1,3; t! causal 3,3; n! infinite; z! visible", MIXED("Add(" DOTS ", Where(And(t, b), z, n))"),
         "Where Attention", "attention's mask"},
        {HEADS "b bool 2,1,1,3; t! causal 3,3", MIXED("Add(" DOTS ", Where(And(t, b), 0, -1e30))"),
         "And Where Attention", "attention"},
        {HEADS "b bool 2,1,1,3; t! causal 3,3", "Attention(q, k, v, And(t, b))", "Attention", "attention's mask"},
        {HEADS "b bool 2,1,1,3; t! causal 3,3",
         "m=And(t, b); Add(Attention(q, k, v, m) is_causal=0, Attention(k, q, v, m) is_causal=0)",
         "Attention Attention Add", "attention's mask"},
        {HEADS "m 2,3; i! count 2,1,1,3; s! = 6; f! = 2,1,1,3", MIXED("Add(" DOTS ", Gather(Reshape(m, s), i))"),
         "Reshape Attention", "masks"},
        /* Queries that see nothing: guarded, and not. */
        {HEADS "m! blind 3,3", "p=Softmax(Add(" DOTS ", m)) axis=-1; MatMul(Where(IsNaN(p), 0, p), v)", "Attention",
         "attention"},
        {HEADS "m! blind 3,3", MIXED("Add(" DOTS ", m)"), "Attention", "attention"},
        {"q f16 2,2,3,4; k f16 2,2,3,4; v f16 2,2,3,4",
         "MatMul(Cast(Softmax(Cast(Div(" DOTS ", 2)) to=1) axis=-1) to=10, v)", "Attention", "attention"},
        /* Keys of few heads. */
        {"q 2,4,3,4; k 2,2,3,4; v 2,2,3,4; u! = 2; e! = 2,2,2,3,4; s! = 2,4,3,4",
         "i=Reshape(Expand(Unsqueeze(k, u), e), s); j=Reshape(Expand(Unsqueeze(v, u), e), s); MatMul(Softmax(MatMul(q, "
         "Transpose(i) perm=[0, 1, 3, 2])) axis=-1, j)",
         "Attention", "attention's groups"},
        /* New rows behind those of a cache see them all, and each other. */
        {"q 1,2,2,4; k 1,2,5,4; v 1,2,5,4; m! hidden 2,5", MIXED("Add(" DOTS ", m)"), "Attention", "attention"},
    };
    CHECK_ALL(t);
}

static void scores_may_have_a_cap(void **state) {
    (void)state;
    static const trial t[] = {
        {HEADS "m 2,1,1,3", MIXED("Add(Mul(Tanh(Div(Div(" DOTS ", 2), 30)), 30), m)"), "Attention", "attention"},
        {HEADS, MIXED("Mul(Tanh(Div(" DOTS ", 3)), 3)"), "Attention", "attention"},
        {HEADS, MIXED("Mul(Tanh(Div(" DOTS ", 3)), 4)"), "Product Mul Softmax Product", NULL},
    };
    CHECK_ALL(t);
}

static void group_query_attention_of_a_prompt_is_attention(void **state) {
    (void)state;
#define GROUPS     "q f32 2,5,16; k f32 2,5,8; v f32 2,5,8; n! length 2; t! total 1; c! cosine 9,2; s! sine 9,2; "
#define NODE(more) " num_heads=4 kv_num_heads=2 " more
    static const trial t[] = {
        {GROUPS, "*GroupQueryAttention(q, k, v, _, _, n, t)" NODE(""), "Attention", "attention of a prompt"},
        {GROUPS, "*GroupQueryAttention(q, k, v, _, _, n, t)" NODE("scale=0.3 softcap=5"), "Attention",
         "attention of a prompt"},
        {GROUPS, "*GroupQueryAttention(q, k, v, _, _, n, t, c, s)" NODE("do_rotary=1"),
         "RotaryEmbedding RotaryEmbedding Attention", "attention of a prompt"},
        {GROUPS "p! places 2,5",
         "*GroupQueryAttention(q, k, v, _, _, n, t, c, s, p)" NODE("do_rotary=1 rotary_interleaved=1"),
         "RotaryEmbedding RotaryEmbedding Attention", "attention of a prompt"},
        {"x f32 2,5,32; n! length 2; t! total 1; c! cosine 9,2; s! sine 9,2",
         "*GroupQueryAttention(x, _, _, _, _, n, t, c, s)" NODE("do_rotary=1"),
         "Slice RotaryEmbedding Slice RotaryEmbedding Slice Attention", "attention of a prompt"},
        /* A window, and rows of a past. */
        {GROUPS, "*GroupQueryAttention(q, k, v, _, _, n, t)" NODE("local_window_size=2"), "GroupQueryAttention", NULL},
        {"q f32 2,1,16; k f32 2,1,8; v f32 2,1,8; n! length 2; t! total 1; a f32 2,2,5,4; b f32 2,2,5,4",
         "*GroupQueryAttention(q, k, v, a, b, n, t)" NODE(""), "GroupQueryAttention", NULL},
        {"x f32 2,5,16; p! places 2,5; c! cosine 9,2; s! sine 9,2", "*RotaryEmbedding(x, p, c, s) num_heads=4",
         "RotaryEmbedding", "rotary embedding"},
    };
    CHECK_ALL(t);
}

static void attention_takes_rows_of_heads(void **state) {
    (void)state;
#define ROWS          "x 2,3,8; y 2,3,8; z 2,3,8; s! = 2,3,2,4; t! = 2,3,8; f! = 6,8; "
#define HEAD(x, perm) "Transpose(Reshape(" x ", s)) perm=" perm
#define SPLIT(of_k)                                                                                                    \
    "q=" HEAD("x", "[0, 2, 1, 3]") "; v=" HEAD("z", "[0, 2, 1, 3]") "; a=MatMul(Softmax(MatMul(q, " of_k               \
                                                                    ")) axis=-1, v); "
    static const trial t[] = {
        {ROWS, SPLIT(HEAD("y", "[0, 2, 3, 1]")) "Reshape(Transpose(a) perm=[0, 2, 1, 3], t)", "Attention",
         "attention's heads"},
        {ROWS,
         SPLIT(
             "Transpose(" HEAD("y", "[0, 2, 1, 3]") ") perm=[0, 1, 3, 2]") "Reshape(Transpose(a) perm=[0, 2, 1, 3], t)",
         "Attention", "attention's heads"},
        {ROWS, SPLIT(HEAD("y", "[0, 2, 3, 1]")) "Reshape(Transpose(a) perm=[0, 2, 1, 3], f)", "Attention Reshape",
         "attention's heads"},
    };
    CHECK_ALL(t);
}

static void masks_are_not_taken_for_others(void **state) {
    (void)state;
    static const trial t[] = {
        /* What is hidden by a bias that is little, or that is not constant, counts where nothing else is seen. */
        {HEADS "b! causal 3,3", MIXED("Where(b, " DOTS ", -10)"), "Transpose MatMul Where Softmax MatMul", NULL},
        {HEADS "b bool 2,1,1,3", MIXED("Where(b, " DOTS ", -10000)"), "Transpose MatMul Where Softmax MatMul", NULL},
        {HEADS, "MatMul(Softmax(" DOTS ") axis=2, v)", "Transpose MatMul Softmax MatMul", NULL},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        made m = graph_of(t[i].declared, t[i].expression);
        tw_diag diag = {0};
        assert_int_equal(tw_graph_fuse(m.g, NULL, &diag), TW_OK);
        for (int j = 0; j < m.g->n_nodes; j++) assert_string_not_equal(m.g->nodes[j].op, "Attention");
        end(&m);
    }
}

/* Returns an attribute of the first node of its kind. */
static double attribute_of(const char *declared, const char *expression, const char *op, const char *name) {
    made m = graph_of(declared, expression);
    tw_diag diag = {0};
    double x = NAN;
    assert_int_equal(tw_graph_fuse(m.g, NULL, &diag), TW_OK);
    for (int i = 0; i < m.g->n_nodes; i++)
        if (!strcmp(m.g->nodes[i].op, op) && tw_node_attribute(&m.g->nodes[i], name)) {
            const tw_attribute *a = tw_node_attribute(&m.g->nodes[i], name);
            x = a->kind == TW_ATTRIBUTE_INT ? (double)a->integer : a->real;
        }
    end(&m);
    return x;
}

static void constant_masks_become_words(void **state) {
    (void)state;
    const char *scores = MIXED("Add(Mul(" DOTS ", 0.5), m)");
    assert_true(attribute_of(HEADS "m! hidden 3,3", scores, "Attention", "is_causal") == 1);
    assert_true(attribute_of(HEADS "m! least 1,1,3,3", scores, "Attention", "is_causal") == 1);
    assert_true(isnan(attribute_of(HEADS "m! nearly 3,3", scores, "Attention", "is_causal")));
    assert_true(isnan(attribute_of(HEADS "m! visible 3,3", scores, "Attention", "is_causal")));
    assert_true(attribute_of(HEADS "m! visible 3,3", scores, "Attention", "scale") == 0.5);
    assert_true(
        isnan(attribute_of("q 1,2,2,4; k 1,2,5,4; v 1,2,5,4; m! hidden 2,5", scores, "Attention", "is_causal")));
}

/* ---- rotation */

static void rotations_are_found(void **state) {
    (void)state;
#define HALVES  "o! = 0; h! = 2; w! = 4; l! = -1; "
#define TURN(x) "Add(Mul(" x ", c), Mul(Concat(Neg(Slice(" x ", h, w, l)), Slice(" x ", o, h, l)) axis=-1, s))"
    static const trial t[] = {
        {"x 2,2,3,4; c! twice 1,1,3,4; s! twice 1,1,3,4; " HALVES, TURN("x"), "RotaryEmbedding", "rotary embedding"},
        {"x 2,2,3,4; c! twice 3,4; s! twice 3,4; " HALVES, TURN("x"), "RotaryEmbedding", "rotary embedding"},
        {"x 2,2,3,4; c! twice 2,1,3,4; s! twice 2,1,3,4; " HALVES, TURN("x"), "RotaryEmbedding", "rotary embedding"},
        {"x 2,2,3,4; a 2,1,3,2; " HALVES, "b=Concat(a, a) axis=-1; c=Cos(b); s=Mul(Sin(b), 1.5); " TURN("x"),
         "Concat Cos Sin Mul Slice Reshape Slice Reshape RotaryEmbedding", "rotary embedding"},
        {"y 2,3,8; c! twice 1,1,3,4; s! twice 1,1,3,4; p! = 2,3,2,4; t! = 2,3,8; " HALVES,
         "x=Transpose(Reshape(y, p)) perm=[0, 2, 1, 3]; r=" TURN("x") "; Reshape(Transpose(r) perm=[0, 2, 1, 3], t)",
         "RotaryEmbedding", "rotary embedding"},
        /* Angles that differ in the halves, or between heads. */
        {"x 2,2,3,4; c! 1,1,3,4; s! twice 1,1,3,4; " HALVES, TURN("x"), "Mul Slice Neg Slice Concat Mul Add", NULL},
        {"x 2,2,3,4; c! twice 1,2,3,4; s! twice 1,2,3,4; " HALVES, TURN("x"), "Mul Slice Neg Slice Concat Mul Add",
         NULL},
    };
    CHECK_ALL(t);
}

/* ---- the table, and what is shown */

static void what_was_found_is_shown(void **state) {
    (void)state;
    made m = graph_of("x 2,3,8; w! 8,4; b! 4", "Relu(Add(MatMul(x, w), b))");
    tw_fusions found = {0};
    tw_diag diag = {0};
    tw_buf out = {0};
    assert_int_equal(tw_graph_fuse(m.g, &found, &diag), TW_OK);
    tw_fusions_print(&found, true, &out);
    assert_string_equal(out.data, "    1  product (1 nodes)\n         (no name)\n"
                                  "    1  product and bias (2 nodes)\n         (no name)\n"
                                  "    1  product and activation (2 nodes)\n         (no name)\n");
    tw_buf_clear(&out);
    tw_graph_dot(m.g, &out);
    assert_non_null(strstr(out.data, "n0 [label=\"Product\\nactivation relu\"]"));
    assert_non_null(strstr(out.data, "[label=\"f64 2x3x8\"]"));
    tw_buf_free(&out);
    tw_fusions_free(&found);
    end(&m);
}

static void rows_that_cannot_be_read_say_where(void **state) {
    (void)state;
    static const char *const texts[] = {"Add(x", "Add(x, y))",      "Add:never(x)", "x[1:y]",
                                        "{x|y",  "Add(x, y) axis=", "1 2"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tw_arena arena = {0};
        tw_term_names names = {0};
        tw_diag diag = {0};
        tw_term *t;
        assert_int_equal(tw_term_read(&t, texts[i], &names, &arena, &diag), TW_ERR_FORMAT);
        assert_non_null(strstr(diag.message, texts[i]));
        tw_arena_free(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norms_are_found_in_all_spellings),
        cmocka_unit_test(rms_norms_are_found_in_all_spellings),
        cmocka_unit_test(what_is_no_norm_stays),
        cmocka_unit_test(activations_are_found_in_all_spellings),
        cmocka_unit_test(views_are_joined),
        cmocka_unit_test(products_take_what_is_around_them),
        cmocka_unit_test(products_of_one_operand_are_joined),
        cmocka_unit_test(attention_is_found_with_all_scales_and_masks),
        cmocka_unit_test(scores_may_have_a_cap),
        cmocka_unit_test(group_query_attention_of_a_prompt_is_attention),
        cmocka_unit_test(attention_takes_rows_of_heads),
        cmocka_unit_test(masks_are_not_taken_for_others),
        cmocka_unit_test(constant_masks_become_words),
        cmocka_unit_test(rotations_are_found),
        cmocka_unit_test(what_was_found_is_shown),
        cmocka_unit_test(rows_that_cannot_be_read_say_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
