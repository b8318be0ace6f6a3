/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ops/op.h"
#include "graph/shapes/rules.h"

#include <string.h>

/* A rule sets the extents of results whose rank is known. They are not known before. */
typedef void rule(tw_inference *x);

bool tw_infer_numbers(const tw_inference *x, int operand, const char *attribute, int64_t *out, int *n) {
    const tw_fact *f = tw_infer_in(x, operand);
    const tw_attribute *a = attribute ? tw_node_attribute(x->node, attribute) : NULL;
    *n = -1;
    if (f) {
        if (!f->content || f->n > TW_FACT_ELEMENTS) return false;
        *n = f->n;
        for (int i = 0; i < f->n; i++)
            if (!tw_formula_is_number(f->content[i], &out[i])) return false;
        return true;
    }
    if (!a) return true;
    if (a->kind != TW_ATTRIBUTE_ARRAY || a->array->type != TW_E_i64 || tw_array_elements(a->array) > TW_FACT_ELEMENTS)
        return false;
    *n = (int)tw_array_elements(a->array);
    tw_array_get_integers(a->array, 0, *n, out);
    return true;
}

/* Finds the axes of a node, as bits. False: they are not known. */
static bool find_axes(const tw_inference *x, int operand, int rank, unsigned *axes) {
    int64_t list[TW_FACT_ELEMENTS];
    int n;
    *axes = 0;
    if (!tw_infer_numbers(x, operand, "axes", list, &n)) return false;
    for (int i = 0; i < n; i++) {
        const int axis = tw_axis(list[i], rank);
        if (axis < 0) return false;
        *axes |= 1u << axis;
    }
    return true;
}

static const tw_formula *one(const tw_inference *x) {
    return tw_formula_number(x->arena, 1);
}

/* Returns the extent of two that are broadcast. NULL: it depends on the symbols. */
static const tw_formula *broadcast(const tw_inference *x, const tw_formula *a, const tw_formula *b) {
    int64_t n;
    if (tw_formula_is(a, 1)) return b;
    if (tw_formula_is(b, 1) || tw_formula_equal(a, b)) return a;
    /* Where the smaller of a number and a is not a itself, it is the number, which fits a only if it is 1. */
    if (tw_least_of(x->symbols, b, a)) return a;
    if (tw_least_of(x->symbols, a, b)) return b;
    /* A number other than 1 wins: the other is 1, or the same. */
    if (tw_formula_is_number(a, &n)) return a;
    return tw_formula_is_number(b, &n) ? b : NULL;
}

/* Joins the extents of a value, from dimension `from` to `below`, counted from their ends, with a result's. */
static void join(const tw_inference *x, const tw_fact *a, int below, tw_fact *out, int out_below, bool first) {
    for (int i = 0; i < out_below; i++) {
        const int at = below - out_below + i;
        const tw_formula *d = at < 0 ? one(x) : a->dims[at];
        out->dims[i] = first ? d : broadcast(x, out->dims[i], d);
    }
}

/* ---- rules */

static void like_first(tw_inference *x) {
    const tw_fact *a = x->in[0];
    const bool mask = !strcmp(x->node->op, "Dropout"), sum = !strncmp(x->node->op, "Skip", 4);
    /* Queries, keys and values may be packed in the first operand. */
    if (!strcmp(x->node->op, "GroupQueryAttention") && !tw_infer_in(x, 1)) return;
    for (int i = 0; i < x->n_out; i++)
        if (x->out[i].rank == a->rank && (i == 0 || mask || (sum && i == 3)))
            memcpy(x->out[i].dims, a->dims, sizeof a->dims);
}

static void elementwise(tw_inference *x) {
    for (int i = 0; i < x->n_in; i++) {
        if (!x->in[i] || x->in[i]->rank < 0) {
            memset(x->out->dims, 0, sizeof x->out->dims);
            return;
        }
        join(x, x->in[i], x->in[i]->rank, x->out, x->out->rank, !i);
    }
}

static void product(tw_inference *x) {
    const tw_fact *a = x->in[0], *b = x->in[1];
    tw_fact *y = x->out;
    const int vectors = (a->rank == 1) + (b->rank == 1), batch = y->rank - 2 + vectors;
    if (batch > 0) {
        join(x, a, a->rank - 2, y, batch, true);
        join(x, b, b->rank - 2, y, batch, false);
    }
    int at = batch < 0 ? 0 : batch;
    if (a->rank > 1) y->dims[at++] = a->dims[a->rank - 2];
    if (b->rank > 1) y->dims[at] = b->dims[b->rank - 1];
}

static void gemm(tw_inference *x) {
    x->out->dims[0] = x->in[0]->dims[tw_node_integer(x->node, "transA", 0) ? 1 : 0];
    x->out->dims[1] = x->in[1]->dims[tw_node_integer(x->node, "transB", 0) ? 0 : 1];
}

static void transpose(tw_inference *x) {
    const tw_attribute *perm = tw_node_attribute(x->node, "perm");
    for (int i = 0; i < x->out->rank; i++)
        x->out->dims[i] = x->in[0]->dims[perm ? tw_array_integer(perm->array, i) : x->out->rank - 1 - i];
}

static const tw_formula *product_of(const tw_inference *x, const tw_fact *f, int from, int below) {
    const tw_formula *n = one(x);
    for (int i = from; i < below; i++) n = tw_formula_multiply(x->arena, n, f->dims[i]);
    return n;
}

static void reshape(tw_inference *x) {
    const tw_fact *a = x->in[0], *s = x->in[1];
    const bool zeros = tw_node_integer(x->node, "allowzero", 0) != 0;
    const tw_formula *rest = product_of(x, a, 0, a->rank);
    int open = -1, holes = 0;
    if (!s->content || s->n != x->out->rank) return;
    for (int i = 0; i < s->n; i++) {
        const tw_formula **d = &x->out->dims[i];
        *d = s->content[i];
        if (tw_formula_is(*d, -1)) {
            open = i;
            *d = NULL;
            continue;
        }
        if (tw_formula_is(*d, 0) && !zeros) *d = i < a->rank ? a->dims[i] : NULL;
        /* A symbol may be 0, and stands for the operand's extent then, which is the same or makes no elements. */
        if (*d && !tw_at_least(x->symbols, *d, tw_formula_number(x->arena, 0))) *d = NULL;
        holes += !*d;
        rest = *d ? tw_formula_divide(x->arena, rest, *d) : rest;
    }
    if (holes == 0 && open >= 0) x->out->dims[open] = rest;
    if (holes == 1 && open < 0)
        for (int i = 0; i < s->n; i++)
            if (!x->out->dims[i]) x->out->dims[i] = rest;
}

static void flatten(tw_inference *x) {
    const int rank = x->in[0]->rank;
    const int64_t axis = tw_node_integer(x->node, "axis", 1);
    const int at = axis == rank ? rank : tw_axis(axis, rank);
    if (at < 0) return;
    x->out->dims[0] = product_of(x, x->in[0], 0, at);
    x->out->dims[1] = product_of(x, x->in[0], at, rank);
}

static void squeeze(tw_inference *x) {
    unsigned axes;
    int at = 0;
    if (!find_axes(x, 1, x->in[0]->rank, &axes) || !axes) return;
    for (int i = 0; i < x->in[0]->rank && at < x->out->rank; i++)
        if (!(axes >> i & 1)) x->out->dims[at++] = x->in[0]->dims[i];
}

static void unsqueeze(tw_inference *x) {
    unsigned axes;
    int at = 0;
    if (!find_axes(x, 1, x->out->rank, &axes)) return;
    for (int i = 0; i < x->out->rank; i++)
        x->out->dims[i] = axes >> i & 1 ? one(x) : at < x->in[0]->rank ? x->in[0]->dims[at++] : NULL;
}

static void concat(tw_inference *x) {
    const int axis = tw_axis(tw_node_integer(x->node, "axis", 0), x->out->rank);
    if (axis < 0) return;
    for (int i = 0; i < x->n_in; i++) {
        const tw_fact *a = x->in[i];
        if (!a || a->rank != x->out->rank) {
            memset(x->out->dims, 0, sizeof x->out->dims);
            return;
        }
        for (int d = 0; d < a->rank; d++) {
            const tw_formula **y = &x->out->dims[d];
            if (d == axis)
                *y = i ? tw_formula_add(x->arena, *y, a->dims[d]) : a->dims[d];
            else if (!*y)
                *y = a->dims[d]; /* All are the same, whichever is known. */
        }
    }
}

static void split(tw_inference *x) {
    const tw_fact *a = x->in[0];
    const int axis = tw_axis(tw_node_integer(x->node, "axis", 0), a->rank);
    int64_t list[TW_FACT_ELEMENTS];
    int n;
    if (axis < 0) return;
    const bool known = tw_infer_numbers(x, 1, "split", list, &n);
    const tw_formula *part = tw_formula_divide(x->arena, a->dims[axis], tw_formula_number(x->arena, x->n_out));
    for (int i = 0; i < x->n_out; i++) {
        memcpy(x->out[i].dims, a->dims, sizeof a->dims);
        x->out[i].dims[axis] = !known ? NULL : n < 0 ? part : i < n ? tw_formula_number(x->arena, list[i]) : NULL;
    }
}

static void expand(tw_inference *x) {
    const tw_fact *a = x->in[0], *s = x->in[1];
    for (int i = 0; i < x->out->rank; i++) {
        const int at = i - x->out->rank + a->rank, to = s->content ? i - x->out->rank + s->n : -2;
        const tw_formula *d = at < 0 ? one(x) : a->dims[at];
        x->out->dims[i] = to == -2 ? NULL : broadcast(x, d, to < 0 ? one(x) : s->content[to]);
    }
}

static void tile(tw_inference *x) {
    for (int i = 0; i < x->out->rank && x->in[1]->content && x->in[1]->n == x->out->rank; i++)
        x->out->dims[i] = tw_formula_multiply(x->arena, x->in[0]->dims[i], x->in[1]->content[i]);
}

static void pad(tw_inference *x) {
    int64_t pads[TW_FACT_ELEMENTS];
    int n;
    const int rank = x->in[0]->rank;
    if (tw_infer_in(x, 3) || !tw_infer_numbers(x, 1, "pads", pads, &n) || n != 2 * rank) return;
    for (int i = 0; i < rank; i++)
        x->out->dims[i] =
            tw_formula_add(x->arena, x->in[0]->dims[i], tw_formula_number(x->arena, pads[i] + pads[i + rank]));
}

static void gather(tw_inference *x) {
    const tw_fact *a = x->in[0], *indices = x->in[1];
    const int axis = tw_axis(tw_node_integer(x->node, "axis", 0), a->rank);
    int at = 0;
    if (axis < 0 || x->out->rank != a->rank - 1 + indices->rank) return;
    for (int i = 0; i < a->rank; i++) {
        for (int j = 0; i == axis && j < indices->rank; j++) x->out->dims[at++] = indices->dims[j];
        if (i != axis) x->out->dims[at++] = a->dims[i];
    }
}

static void like_second(tw_inference *x) {
    if (x->in[1] && x->in[1]->rank == x->out->rank) memcpy(x->out->dims, x->in[1]->dims, sizeof x->out->dims);
}

static void gather_nd(tw_inference *x) {
    const tw_fact *a = x->in[0], *indices = x->in[1];
    const int64_t batch = tw_node_integer(x->node, "batch_dims", 0);
    int64_t depth;
    if (indices->rank < 1 || !tw_formula_is_number(indices->dims[indices->rank - 1], &depth)) return;
    const int64_t rest = a->rank - batch - depth;
    if (rest < 0 || x->out->rank != indices->rank - 1 + rest) return;
    for (int i = 0; i < indices->rank - 1; i++) x->out->dims[i] = indices->dims[i];
    for (int i = 0; i < rest; i++) x->out->dims[indices->rank - 1 + i] = a->dims[batch + depth + i];
}

static void remove_axes(tw_inference *x, unsigned axes) {
    const bool keeps = tw_node_integer(x->node, "keepdims", 1) != 0;
    int at = 0;
    for (int i = 0; i < x->in[0]->rank; i++) {
        const bool gone = axes >> i & 1;
        if (!gone || keeps) x->out->dims[at++] = gone ? one(x) : x->in[0]->dims[i];
    }
}

static void reduce(tw_inference *x) {
    unsigned axes;
    if (!find_axes(x, 1, x->in[0]->rank, &axes)) return;
    if (!axes && !tw_node_integer(x->node, "noop_with_empty_axes", 0)) axes = (1u << x->in[0]->rank) - 1;
    remove_axes(x, axes);
}

static void arg(tw_inference *x) {
    const int axis = tw_axis(tw_node_integer(x->node, "axis", 0), x->in[0]->rank);
    if (axis >= 0) remove_axes(x, 1u << axis);
}

static void of_content(tw_inference *x) {
    for (int i = 0; i < x->out->rank && x->in[0]->content && x->in[0]->n == x->out->rank; i++)
        x->out->dims[i] = x->in[0]->content[i];
}

/* Range from one number to another by 1. */
static void range(tw_inference *x) {
    const tw_fact *const *in = x->in;
    if (!in[0]->content || !in[1]->content || !in[2]->content || !tw_formula_is(in[2]->content[0], 1)) return;
    if (tw_at_least(x->symbols, in[1]->content[0], in[0]->content[0]))
        x->out->dims[0] = tw_formula_subtract(x->arena, in[1]->content[0], in[0]->content[0]);
}

static void attention(tw_inference *x) {
    const tw_fact *q = x->in[0], *v = x->in[2];
    if (x->out->rank != q->rank || v->rank != q->rank) return;
    for (int i = 0; i < q->rank - 1; i++) x->out->dims[i] = q->dims[i];
    if (q->rank == 4) x->out->dims[3] = v->dims[3];
    if (q->rank != 3) return;
    /* Rows of V have as many values a head, and heads may be fewer. */
    const tw_formula *heads = tw_formula_number(x->arena, tw_node_integer(x->node, "q_num_heads", 0)),
                     *fewer = tw_formula_number(x->arena, tw_node_integer(x->node, "kv_num_heads", 0));
    x->out->dims[2] = tw_formula_multiply(x->arena, tw_formula_divide(x->arena, v->dims[2], fewer), heads);
}

static void product_of_bits(tw_inference *x) {
    const int rank = x->in[0]->rank;
    memcpy(x->out->dims, x->in[0]->dims, sizeof x->out->dims);
    x->out->dims[rank - 1] = tw_formula_number(x->arena, tw_node_integer(x->node, "N", 0));
}

void tw_infer_range(const tw_inference *x, int *from, int *below) {
    const int64_t rank = x->in[0]->rank;
    int64_t a = tw_node_integer(x->node, "start", 0), b = tw_node_integer(x->node, "end", rank);
    a += a < 0 ? rank : 0;
    b += b < 0 ? rank : 0;
    *from = (int)(a < 0 ? 0 : a > rank ? rank : a);
    *below = (int)(b < *from ? *from : b > rank ? rank : b);
}

static void shape(tw_inference *x) {
    int from, below;
    tw_infer_range(x, &from, &below);
    x->out->dims[0] = tw_formula_number(x->arena, below - from);
}

static const struct {
    const char *op;
    rule *rule;
} rules[] = {
    {"MatMul", product},
    {"Gemm", gemm},
    {"Transpose", transpose},
    {"Reshape", reshape},
    {"Flatten", flatten},
    {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze},
    {"Concat", concat},
    {"Split", split},
    {"Slice", tw_infer_slice},
    {"Expand", expand},
    {"Tile", tile},
    {"Pad", pad},
    {"Gather", gather},
    {"GatherElements", like_second},
    {"GatherND", gather_nd},
    {"ReduceSum", reduce},
    {"ReduceMean", reduce},
    {"ReduceMax", reduce},
    {"ReduceMin", reduce},
    {"ReduceProd", reduce},
    {"ReduceL1", reduce},
    {"ReduceL2", reduce},
    {"ReduceLogSum", reduce},
    {"ReduceLogSumExp", reduce},
    {"ReduceSumSquare", reduce},
    {"ArgMax", arg},
    {"ArgMin", arg},
    {"ConstantOfShape", of_content},
    {"Range", range},
    {"Attention", attention},
    {"MatMulNBits", product_of_bits},
    {"Shape", shape},
};

/* Operators whose first result is like their first operand, beside those of one operand. */
static const char *const alike[] = {"CastLike",
                                    "Clip",
                                    "Dropout",
                                    "Softmax",
                                    "LogSoftmax",
                                    "Hardmax",
                                    "LayerNormalization",
                                    "RMSNormalization",
                                    "SimplifiedLayerNormalization",
                                    "SkipLayerNormalization",
                                    "SkipSimplifiedLayerNormalization",
                                    "RotaryEmbedding",
                                    "GroupQueryAttention",
                                    "GroupNormalization",
                                    "InstanceNormalization",
                                    "BatchNormalization",
                                    "LpNormalization",
                                    "Trilu",
                                    "CumSum",
                                    "CumProd",
                                    "ScatterElements",
                                    "Scatter",
                                    "ScatterND",
                                    "TensorScatter",
                                    "FastGelu",
                                    "BiasGelu",
                                    "QuickGelu",
                                    "Gelu",
                                    "LeakyRelu",
                                    "Elu",
                                    "Selu",
                                    "Celu",
                                    "ThresholdedRelu",
                                    "HardSigmoid",
                                    "Shrink",
                                    "Swish",
                                    "Identity",
                                    "Not",
                                    "IsNaN",
                                    "IsInf",
                                    "Cast",
                                    "EyeLike",
                                    NULL};
static const char *const broadcasts[] = {"Min", "Max", "Sum", "Mean", "Pow", "Mod", "BitShift", "PRelu", "Where", NULL};

static bool is_one_of(const tw_node *n, const char *const *list) {
    for (int i = 0; list[i]; i++)
        if (!strcmp(list[i], n->op)) return true;
    return false;
}

static bool is_unary(const char *op) {
    static const char *const list[] = {
#define UNARY(name, first, r, w, n) #name,
#define BINARY(name, first, r, w, n)
#define COMPARE(name, first, value)
#define LOGIC(name, first, value)
#include "graph/ops/elementwise.def"
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(list[i], op)) return true;
    return false;
}

static bool is_binary(const char *op) {
    static const char *const list[] = {
#define UNARY(name, first, r, w, n)
#define BINARY(name, first, r, w, n) #name,
#define COMPARE(name, first, value)  #name,
#define LOGIC(name, first, value)    #name,
#include "graph/ops/elementwise.def"
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(list[i], op)) return true;
    return false;
}

static rule *rule_of(const tw_node *n) {
    if (is_unary(n->op) || is_one_of(n, alike)) return like_first;
    if (is_binary(n->op) || is_one_of(n, broadcasts)) return elementwise;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(rules[i].op, n->op)) return rules[i].rule;
    return NULL;
}

bool tw_infer_dims(tw_inference *x) {
    rule *r = rule_of(x->node);
    for (int i = 0; i < x->n_in && r; i++)
        if (x->in[i] && x->in[i]->rank < 0) return false;
    if (!r || !x->n_in || !x->in[0] || x->out->rank < 0) return false;
    r(x);
    return true;
}
