/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ops/op.h"
#include "graph/shapes/rules.h"

#include <string.h>

/* A rule finds the elements of the first result, which has as many as `out` says. */
typedef void rule(tw_inference *x);

static bool is_op(const tw_inference *x, const char *op) {
    return !strcmp(x->node->op, op);
}

/* Begins the content of the first result. False: it is not followed. */
static bool begin(tw_inference *x) {
    tw_fact *y = x->out;
    const tw_kind kind = tw_element_kind(y->type);
    int64_t n = 1;
    if (y->rank < 0 || y->rank > 1 || (kind != TW_KIND_integer && kind != TW_KIND_truth)) return false;
    if (y->rank == 1 && !tw_formula_is_number(y->dims[0], &n)) return false;
    if (n < 0 || n > TW_FACT_ELEMENTS) return false;
    y->content = tw_arena_array(x->arena, (size_t)n + 1, sizeof(const tw_formula *));
    y->n = (int)n;
    return y->content;
}

/* Returns an element of an operand that is broadcast to a list. NULL: it is not known. */
static const tw_formula *element(const tw_inference *x, int operand, int i) {
    const tw_fact *f = x->in[operand];
    if (!f || !f->content) return NULL;
    return f->n == 1 ? f->content[0] : i < f->n ? f->content[i] : NULL;
}

static void shape(tw_inference *x) {
    int from, below;
    tw_infer_range(x, &from, &below);
    for (int i = 0; i < x->out->n && from + i < below; i++) x->out->content[i] = x->in[0]->dims[from + i];
}

static void size(tw_inference *x) {
    const tw_formula *n = tw_formula_number(x->arena, 1);
    if (x->in[0]->rank < 0) return;
    for (int i = 0; i < x->in[0]->rank; i++) n = tw_formula_multiply(x->arena, n, x->in[0]->dims[i]);
    x->out->content[0] = n;
}

static void copy(tw_inference *x) {
    const tw_kind from = tw_element_kind(x->in[0]->type), to = tw_element_kind(x->out->type);
    /* Reals may be no integers, and a truth may stand for any. */
    if (from != to && !(from == TW_KIND_truth && to == TW_KIND_integer)) return;
    if (from == TW_KIND_integer && tw_element_bits(x->out->type) < 32) return;
    for (int i = 0; i < x->out->n && x->in[0]->n == x->out->n; i++) x->out->content[i] = element(x, 0, i);
}

static void fill(tw_inference *x) {
    const tw_attribute *a = tw_node_attribute(x->node, "value");
    if (!a || a->kind != TW_ATTRIBUTE_ARRAY) return;
    for (int i = 0; i < x->out->n; i++) x->out->content[i] = tw_formula_number(x->arena, tw_array_integer(a->array, 0));
}

static void concat(tw_inference *x) {
    int at = 0;
    for (int i = 0; i < x->n_in; i++) {
        int64_t n = 0;
        if (!x->in[i] || x->in[i]->rank != 1 || !tw_formula_is_number(x->in[i]->dims[0], &n)) return;
        for (int j = 0; j < n && at < x->out->n; j++, at++)
            x->out->content[at] = x->in[i]->content && j < x->in[i]->n ? x->in[i]->content[j] : NULL;
    }
}

static void gather(tw_inference *x) {
    const tw_fact *a = x->in[0];
    int64_t indices[TW_FACT_ELEMENTS];
    int n;
    if (a->rank != 1 || !a->content || !tw_infer_numbers(x, 1, NULL, indices, &n)) return;
    for (int i = 0; i < x->out->n && n == x->out->n; i++) {
        const int at = tw_axis(indices[i], a->n);
        x->out->content[i] = at < 0 ? NULL : a->content[at];
    }
}

static void slice(tw_inference *x) {
    int64_t from, step = 1, list[TW_FACT_ELEMENTS];
    int n;
    const tw_fact *a = x->in[0];
    if (x->n_in < 3 || !a->content || !tw_infer_numbers(x, 1, NULL, list, &n) || n != 1) return;
    from = list[0];
    if (!tw_infer_numbers(x, 4, NULL, list, &n)) return;
    if (n == 1) step = list[0];
    if (from < 0) from += a->n;
    if (from < 0) from = 0;
    for (int i = 0; i < x->out->n && step == 1 && from + i < a->n; i++) x->out->content[i] = a->content[from + i];
}

/* Divides as integers are: what is not negative, and what is known. */
static const tw_formula *quotient(const tw_inference *x, const tw_formula *a, const tw_formula *b) {
    int64_t p, q;
    if (tw_formula_is_number(a, &p) && tw_formula_is_number(b, &q))
        return q == 0 || q == -1 ? NULL : tw_formula_number(x->arena, p / q);
    return tw_formula_divide(x->arena, a, b);
}

static const tw_formula *truth(const tw_inference *x, bool yes, bool no) {
    return yes ? tw_formula_number(x->arena, 1) : no ? tw_formula_number(x->arena, 0) : NULL;
}

static const tw_formula *pair(const tw_inference *x, const tw_formula *a, const tw_formula *b) {
    const tw_formula *next = tw_formula_add(x->arena, b, tw_formula_number(x->arena, 1));
    if (!a || !b) return NULL;
    if (is_op(x, "Add")) return tw_formula_add(x->arena, a, b);
    if (is_op(x, "Sub")) return tw_formula_subtract(x->arena, a, b);
    if (is_op(x, "Mul")) return tw_formula_multiply(x->arena, a, b);
    if (is_op(x, "Div")) return quotient(x, a, b);
    if (is_op(x, "Max")) return tw_at_least(x->symbols, a, b) ? a : tw_at_least(x->symbols, b, a) ? b : NULL;
    if (is_op(x, "Min")) return tw_at_least(x->symbols, a, b) ? b : tw_at_least(x->symbols, b, a) ? a : NULL;
    if (is_op(x, "Equal")) return truth(x, tw_formula_equal(a, b), tw_differs(x->symbols, a, b));
    if (is_op(x, "Greater")) return truth(x, tw_at_least(x->symbols, a, next), tw_at_least(x->symbols, b, a));
    if (is_op(x, "GreaterOrEqual"))
        return truth(x, tw_at_least(x->symbols, a, b),
                     tw_at_least(x->symbols, b, tw_formula_add(x->arena, a, tw_formula_number(x->arena, 1))));
    if (is_op(x, "And")) return tw_formula_is(a, 0) ? a : tw_formula_is(a, 1) ? b : NULL;
    if (is_op(x, "Or")) return tw_formula_is(a, 1) ? a : tw_formula_is(a, 0) ? b : NULL;
    return NULL;
}

static void pairs(tw_inference *x) {
    if (x->n_in != 2 || tw_element_kind(x->in[0]->type) == TW_KIND_real) return;
    if (tw_element_bits(x->in[0]->type) < 32 && x->in[0]->type != TW_E_bool) return;
    for (int i = 0; i < x->out->n; i++) x->out->content[i] = pair(x, element(x, 0, i), element(x, 1, i));
}

static void negate(tw_inference *x) {
    for (int i = 0; i < x->out->n; i++)
        x->out->content[i] = tw_formula_multiply(x->arena, element(x, 0, i), tw_formula_number(x->arena, -1));
}

static void not(tw_inference * x) {
    for (int i = 0; i < x->out->n; i++) {
        const tw_formula *a = element(x, 0, i);
        x->out->content[i] = truth(x, tw_formula_is(a, 0), tw_formula_is(a, 1));
    }
}

static void where(tw_inference *x) {
    for (int i = 0; i < x->out->n; i++) {
        const tw_formula *c = element(x, 0, i), *a = element(x, 1, i), *b = element(x, 2, i);
        x->out->content[i] = tw_formula_is(c, 1) || tw_formula_equal(a, b) ? a : tw_formula_is(c, 0) ? b : NULL;
    }
}

/* All elements of a list, as a sum or a product. */
static void reduce(tw_inference *x) {
    const tw_fact *a = x->in[0];
    const bool sum = is_op(x, "ReduceSum");
    const tw_formula *y = tw_formula_number(x->arena, !sum);
    if (a->rank != 1 || !a->content || x->out->n != 1 || tw_node_integer(x->node, "noop_with_empty_axes", 0)) return;
    for (int i = 0; i < a->n; i++)
        y = sum ? tw_formula_add(x->arena, y, a->content[i]) : tw_formula_multiply(x->arena, y, a->content[i]);
    x->out->content[0] = y;
}

static void split(tw_inference *x) {
    const tw_fact *a = x->in[0];
    int at = x->out->n;
    if (a->rank != 1 || !a->content) return;
    for (int i = 0; i < x->out->n && i < a->n; i++) x->out->content[i] = a->content[i];
    for (int k = 1; k < x->n_out; k++) {
        tw_fact *y = &x->out[k];
        int64_t n;
        if (y->rank != 1 || !tw_formula_is_number(y->dims[0], &n) || n < 0 || at + n > a->n) return;
        y->content = tw_arena_array(x->arena, (size_t)n + 1, sizeof(const tw_formula *));
        y->n = y->content ? (int)n : 0;
        for (int i = 0; i < y->n; i++) y->content[i] = a->content[at + i];
        at += (int)n;
    }
}

static const struct {
    const char *op;
    rule *rule;
} rules[] = {
    {"Shape", shape},
    {"Size", size},
    {"Identity", copy},
    {"Cast", copy},
    {"Reshape", copy},
    {"Squeeze", copy},
    {"Unsqueeze", copy},
    {"Flatten", copy},
    {"Concat", concat},
    {"Gather", gather},
    {"Slice", slice},
    {"ConstantOfShape", fill},
    {"Add", pairs},
    {"Sub", pairs},
    {"Mul", pairs},
    {"Div", pairs},
    {"Max", pairs},
    {"Min", pairs},
    {"Equal", pairs},
    {"Greater", pairs},
    {"And", pairs},
    {"Or", pairs},
    {"GreaterOrEqual", pairs},
    {"Neg", negate},
    {"Not", not },
    {"Where", where},
    {"ReduceProd", reduce},
    {"ReduceSum", reduce},
    {"Split", split},
};

void tw_infer_contents(tw_inference *x) {
    if (*x->node->domain || !x->n_in || !x->n_out) return;
    for (int i = 0; i < x->n_in; i++)
        if (!x->in[i] && i == 0) return;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(rules[i].op, x->node->op) && begin(x)) rules[i].rule(x);
}
