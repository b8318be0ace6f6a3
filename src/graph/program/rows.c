/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, softmaxes and reductions: steps of rows. Expressions before them are computed in the same step. */
#include "graph/program/lower.h"

#include "graph/ops/op.h"

typedef struct rows {
    tw_rows_of of;
    double eps;
    int gain, bias; /* Values. -1: there are none. */
    int keep;       /* Dimensions that the expression numbers, and the last. */
    int kept;       /* A value that x is, and that others want as well. -1: there is none. */
} rows;

/* Strides of a vector, or of more, along the dimensions of x, the last of which is its last. */
static bool along(const tw_view *v, const tw_lazy *x, int64_t strides[TW_ARRAY_RANK]) {
    tw_lazy spread = tw_lazy_of_view(v);
    if (v->rank > x->rank) return false;
    for (int i = 1; i <= v->rank; i++)
        if (v->dims[v->rank - i] != 1 && v->dims[v->rank - i] != x->dims[x->rank - i]) return false;
    tw_lazy_expand(&spread, x->rank, x->dims);
    memcpy(strides, spread.of[0].strides, sizeof spread.of[0].strides);
    return true;
}

/* A vector of a norm. Its extents may be those of all dimensions that x's last one has joined. */
static bool vector(tw_lowering *l, int value, const tw_lazy *x, tw_view *out, int64_t strides[TW_ARRAY_RANK]) {
    if (value < 0) return true;
    if (!tw_lower_in_memory(l, value, out)) return false;
    const int64_t last = x->dims[x->rank - 1];
    if (tw_view_elements(out) == last && out->rank > 1 && out->dims[out->rank - 1] != last) {
        tw_lazy flat = tw_lazy_of_view(out);
        if (!tw_lazy_reshape(&flat, 1, &last)) return false;
        *out = tw_lazy_view(&flat);
    }
    return along(out, x, strides);
}

/* Emits the step: rows are x's last dimension. `to` has x's dimensions, without the last of a reduction. */
static bool emit(tw_lowering *l, const rows *r, const tw_lazy *x, const tw_view *to) {
    tw_rows_problem *p = tw_arena_alloc(&l->p->arena, sizeof *p);
    int64_t strides[4][TW_ARRAY_RANK] = {{0}};
    int64_t *const also[4] = {strides[0], strides[1], strides[2], strides[3]};
    tw_view in[TW_STEP_IN], out[2] = {*to}, gain = {.buffer = -1}, bias = {.buffer = -1};
    l->failed |= !p;
    if (!p || tw_element_kind(x->type) != TW_KIND_real) return false;
    p->of = r->of;
    p->eps = (float)r->eps;
    p->has_gain = r->gain >= 0;
    p->has_bias = r->bias >= 0;
    if (!vector(l, r->gain, x, &gain, strides[1]) || !vector(l, r->bias, x, &bias, strides[2])) return false;
    memcpy(strides[0], to->strides, (size_t)to->rank * sizeof *to->strides);
    if (r->kept >= 0) {
        out[1] = tw_lower_target(l, r->kept);
        memcpy(strides[3], out[1].strides, sizeof strides[3]);
        if (out[1].rank != x->rank || l->failed) return false;
        p->has_kept = true;
    }
    int n = tw_lower_point_views(x, in);
    if (!tw_lower_points(l, x, r->keep > 1 ? r->keep : 1, also, 4, &p->x)) return false;
    p->out = tw_lower_operand(l, to, p->x.rank, strides[0]);
    if (p->has_gain) p->gain = tw_lower_operand(l, &gain, p->x.rank, strides[1]);
    if (p->has_bias) p->bias = tw_lower_operand(l, &bias, p->x.rank, strides[2]);
    if (p->has_kept) p->kept = tw_lower_operand(l, &out[1], p->x.rank, strides[3]);
    if (p->has_gain) in[n++] = gain;
    if (p->has_bias) in[n++] = bias;
    tw_lower_step(l, TW_STEP_ROWS, &(tw_step){.of.rows = p}, in, n, out, p->has_kept ? 2 : 1);
    if (p->has_kept) tw_lower_set_view(l, r->kept, &out[1]);
    return !l->failed;
}

/* Joins the dimensions of x and of a view from `axis` on. */
static bool join(tw_lazy *x, tw_view *to, int axis) {
    int64_t dims[TW_ARRAY_RANK], last = 1;
    memcpy(dims, x->dims, sizeof dims);
    for (int i = axis; i < x->rank; i++) last *= x->dims[i];
    dims[axis] = last;
    tw_lazy flat = tw_lazy_of_view(to);
    if (!tw_lazy_reshape(x, axis + 1, dims)) return false;
    if (!tw_lazy_reshape(&flat, axis + 1, dims)) return false;
    *to = tw_lazy_view(&flat);
    return true;
}

/* x as it is, unless others want it and nobody has stored it: then the step stores it as well, if it can. */
static const tw_lazy *take(tw_lowering *l, int value, bool keeps, rows *r) {
    const tw_lazy *x = tw_lower_peek(l, value);
    r->kept = -1;
    if (!x || !keeps || tw_lazy_is_view(x) || l->uses[value] < 2) return x ? tw_lower_take(l, value) : NULL;
    r->kept = value;
    return x;
}

static bool norm(tw_lowering *l, const tw_node *n, bool layer) {
    rows r = {.of = layer ? TW_ROWS_layer_norm : TW_ROWS_rms_norm,
              .eps = tw_node_real(n, "epsilon", 1e-5),
              .gain = n->in[1],
              .bias = layer && n->n_in > 2 ? n->in[2] : -1};
    const tw_value *v = tw_lower_of(l, n->in[0]);
    const int axis = tw_axis(tw_node_integer(n, "axis", -1), v->rank);
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] >= 0 && l->uses[n->out[i]]) return false;
    const tw_lazy *from = take(l, n->in[0], axis == v->rank - 1, &r);
    if (!from || axis < 0) return false;
    tw_lazy x = *from;
    const tw_view to = tw_lower_target(l, n->out[0]);
    tw_view joined = to;
    if (l->failed || (axis < x.rank - 1 && !join(&x, &joined, axis)) || !emit(l, &r, &x, &joined)) return false;
    tw_lower_set_view(l, n->out[0], &to);
    return true;
}

/* Microsoft's norms of a sum, which is their last result. */
static bool skip_norm(tw_lowering *l, const tw_node *n, bool layer) {
    const tw_value *v = tw_lower_of(l, n->in[0]);
    const int bias = layer ? 4 : 3, sum = n->n_out > 3 ? n->out[3] : -1;
    const int terms[] = {n->in[0], n->in[1], bias < n->n_in ? n->in[bias] : -1};
    rows r = {.of = layer ? TW_ROWS_layer_norm : TW_ROWS_rms_norm,
              .eps = tw_node_real(n, "epsilon", 1e-12),
              .gain = n->in[2],
              .bias = layer && n->n_in > 3 ? n->in[3] : -1,
              .kept = sum >= 0 && l->uses[sum] ? sum : -1};
    for (int i = 1; i < 3 && i < n->n_out; i++)
        if (n->out[i] >= 0 && l->uses[n->out[i]]) return false;
    tw_lazy x = tw_lazy_begin(v->type, v->rank, v->dims);
    int cell = -1;
    for (int i = 0; i < 3; i++) {
        const tw_lazy *term = terms[i] < 0 ? NULL : tw_lower_take(l, terms[i]);
        if (terms[i] < 0) continue;
        const int added = term ? tw_lazy_add(&x, term) : -1;
        if (added < 0) return false;
        cell = cell < 0 ? added : tw_cells_apply(&x.cells, TW_CELL_add, cell, added, -1);
    }
    x.cells.value = cell;
    const tw_view to = tw_lower_target(l, n->out[0]);
    if (cell < 0 || l->failed || !emit(l, &r, &x, &to)) return false;
    tw_lower_set_view(l, n->out[0], &to);
    return true;
}

bool tw_lower_softmax(tw_lowering *l, const tw_lazy *x, const tw_view *to) {
    return emit(l, &(rows){.of = TW_ROWS_softmax, .gain = -1, .bias = -1, .kept = -1, .keep = 2}, x, to);
}

static bool softmax(tw_lowering *l, const tw_node *n, tw_rows_of of) {
    enum { ALONE = 13 /* From this version on, a softmax is of one dimension. */ };
    rows r = {.of = of, .gain = -1, .bias = -1};
    const tw_value *v = tw_lower_of(l, n->in[0]);
    const bool alone = n->version >= ALONE;
    const int axis = tw_axis(tw_node_integer(n, "axis", alone ? -1 : 1), v->rank);
    const tw_lazy *from = take(l, n->in[0], axis == v->rank - 1, &r);
    if (!from || axis < 0) return false;
    tw_lazy x = *from;
    const tw_view to = tw_lower_target(l, n->out[0]);
    tw_view rows_of = to;
    if (l->failed) return false;
    if (!alone && axis < x.rank - 1 && !join(&x, &rows_of, axis)) return false;
    if (alone && axis < x.rank - 1) {
        int order[TW_ARRAY_RANK];
        for (int i = 0; i < x.rank; i++) order[i] = i < axis ? i : i + 1 < x.rank ? i + 1 : axis;
        tw_lazy turned = tw_lazy_of_view(&to);
        tw_lazy_transpose(&x, order);
        tw_lazy_transpose(&turned, order);
        rows_of = tw_lazy_view(&turned);
    }
    if (!emit(l, &r, &x, &rows_of)) return false;
    tw_lower_set_view(l, n->out[0], &to);
    return true;
}

/* The axes of a reduction. False: they are not known. */
static bool axes_of(const tw_lowering *l, const tw_node *n, int rank, bool axes[TW_ARRAY_RANK]) {
    const tw_attribute *a = tw_node_attribute(n, "axes");
    const tw_array *list = a && a->kind == TW_ATTRIBUTE_ARRAY ? a->array : NULL;
    if (n->n_in > 1 && n->in[1] >= 0 && !(list = tw_lower_of(l, n->in[1])->content)) return false;
    const int64_t count = list ? tw_array_elements(list) : 0;
    if (!count && tw_node_integer(n, "noop_with_empty_axes", 0)) return false;
    for (int i = 0; i < rank; i++) axes[i] = !count;
    for (int64_t i = 0; i < count; i++) {
        const int axis = tw_axis(tw_array_integer(list, i), rank);
        if (axis < 0) return false;
        axes[axis] = true;
    }
    return true;
}

/* A reduction of an expression of elements, and what is computed of its results. */
typedef struct reduction {
    const char *op;
    tw_rows_of of;
    tw_cell_op each;   /* What is reduced; mul: squares. TW_CELL_operand: the elements. */
    tw_cell_op behind; /* TW_CELL_operand: the results. */
} reduction;

static bool apply_each(tw_lazy *x, const reduction *of) {
    if (of->each == TW_CELL_operand) return true;
    if (!tw_lazy_open(x)) return false;
    const int value = x->cells.value;
    return (x->cells.value = tw_cells_apply(&x->cells, of->each, value, value, -1)) >= 0;
}

static bool reduce(tw_lowering *l, const tw_node *n, const reduction *as) {
    const rows r = {.of = as->of, .gain = -1, .bias = -1, .kept = -1};
    const tw_value *v = tw_lower_of(l, n->in[0]);
    bool axes[TW_ARRAY_RANK];
    int order[TW_ARRAY_RANK], rest = 0;
    int64_t dims[TW_ARRAY_RANK] = {0};
    if (tw_element_kind(v->type) != TW_KIND_real || !axes_of(l, n, v->rank, axes)) return false;
    const tw_lazy *from = tw_lower_take(l, n->in[0]);
    if (!from) return false;
    tw_lazy x = *from;
    for (int i = 0; i < x.rank; i++)
        if (!axes[i]) order[rest++] = i;
    for (int i = 0, at = rest; i < x.rank; i++)
        if (axes[i]) order[at++] = i;
    tw_lazy_transpose(&x, order);
    memcpy(dims, x.dims, (size_t)rest * sizeof *dims);
    dims[rest] = 1;
    for (int i = rest; i < x.rank; i++) dims[rest] *= x.dims[i];
    if (!tw_lazy_reshape(&x, rest + 1, dims)) {
        tw_view stored = tw_lower_scratch(l, v->name, x.type, x.rank, x.dims, NULL);
        if (l->failed || !tw_lower_store(l, &x, &stored)) return false;
        x = tw_lazy_of_view(&stored);
        if (!tw_lazy_reshape(&x, rest + 1, dims)) return false;
    }
    const tw_value *v_out = tw_lower_of(l, n->out[0]);
    const bool more = as->behind != TW_CELL_operand; /* Results are stored elsewhere before. */
    const tw_view to = more ? tw_lower_scratch(l, v_out->name, TW_E_f32, v_out->rank, v_out->dims, NULL)
                            : tw_lower_target(l, n->out[0]);
    tw_lazy out = tw_lazy_of_view(&to);
    if (l->failed || !apply_each(&x, as) || !tw_lazy_reshape(&out, rest, dims)) return false;
    const tw_view reduced = tw_lazy_view(&out);
    if (!emit(l, &r, &x, &reduced)) return false;
    out = tw_lazy_of_view(&to);
    if (more && (!tw_lazy_open(&out) || tw_cells_apply(&out.cells, as->behind, out.cells.value, -1, -1) < 0))
        return false;
    out.type = v_out->type;
    tw_lower_set(l, n->out[0], &out);
    return true;
}

bool tw_lower_rows(tw_lowering *l, const tw_node *n) {
    static const struct {
        const char *domain, *op;
        bool (*lower)(tw_lowering *, const tw_node *, bool layer);
        bool layer;
    } norms[] = {{"", "LayerNormalization", norm, true},
                 {"", "RMSNormalization", norm, false},
                 {"", "SimplifiedLayerNormalization", norm, false},
                 {"com.microsoft", "SkipLayerNormalization", skip_norm, true},
                 {"com.microsoft", "SkipSimplifiedLayerNormalization", skip_norm, false}};
    static const reduction reductions[] = {
        {"ReduceSum", TW_ROWS_sum, TW_CELL_operand, TW_CELL_operand},
        {"ReduceMean", TW_ROWS_mean, TW_CELL_operand, TW_CELL_operand},
        {"ReduceMax", TW_ROWS_max, TW_CELL_operand, TW_CELL_operand},
        {"ReduceMin", TW_ROWS_min, TW_CELL_operand, TW_CELL_operand},
        {"ReduceSumSquare", TW_ROWS_sum, TW_CELL_mul, TW_CELL_operand},
        {"ReduceL1", TW_ROWS_sum, TW_CELL_abs, TW_CELL_operand},
        {"ReduceL2", TW_ROWS_sum, TW_CELL_mul, TW_CELL_sqrt},
        {"ReduceLogSum", TW_ROWS_sum, TW_CELL_operand, TW_CELL_log},
    };
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (tw_is_op(n, norms[i].domain, norms[i].op)) return norms[i].lower(l, n, norms[i].layer);
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        if (tw_is_op(n, "", reductions[i].op)) return reduce(l, n, &reductions[i]);
    if (tw_is_op(n, "", "Softmax")) return softmax(l, n, TW_ROWS_softmax);
    return tw_is_op(n, "", "LogSoftmax") && softmax(l, n, TW_ROWS_log_softmax);
}
