/* SPDX-License-Identifier: Apache-2.0 */
/* Norms and softmaxes: steps of rows. Expressions before them are computed in the same step. */
#include "graph/program/lower.h"
#include "graph/program/norms.h"

#include "graph/ops/op.h"

typedef struct rows {
    tw_rows_of of;
    double eps;
    int gain, bias;         /* Values. -1: there are none. */
    const tw_value *joined; /* The array some of whose dimensions x's last one is. NULL: x has its own. */
    int keep;               /* Dimensions that the expression numbers, and the last. */
    int kept;               /* A value that x is, and that others want as well. -1: there is none. */
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

/* A vector of a norm. */
static bool vector(tw_lowering *l, int value, const tw_value *joined, const tw_lazy *x, tw_view *out,
                   int64_t strides[TW_ARRAY_RANK]) {
    if (value < 0) return true;
    if (!tw_lower_in_memory(l, value, out)) return false;
    if (joined) {
        tw_lazy spread = tw_lazy_of_view(out);
        tw_lazy_expand(&spread, joined->rank, joined->dims);
        if (!tw_lower_reshape(l, &spread, x->rank, x->dims)) return false;
        *out = tw_lazy_view(&spread);
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
    if (!vector(l, r->gain, r->joined, x, &gain, strides[1]) || !vector(l, r->bias, r->joined, x, &bias, strides[2]))
        return false;
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
    if (tw_rows_check(p, NULL) != TW_OK) return false; /* Doubles are not normed. */
    tw_lower_step(l, TW_STEP_ROWS, &(tw_step){.of.rows = p}, in, n, out, p->has_kept ? 2 : 1);
    if (p->has_kept) tw_lower_set_view(l, r->kept, &out[1]);
    return !l->failed;
}

/* Joins the dimensions from `axis` on of x, or of a copy, and of the result's place. Where the place's cannot be
   joined, the result gets another. */
static bool join(tw_lowering *l, tw_lazy *x, int axis, tw_view *to, tw_view *joined) {
    int64_t dims[TW_ARRAY_RANK];
    tw_lazy flat = tw_lazy_of_view(to);
    memcpy(dims, x->dims, sizeof dims);
    for (int i = axis + 1; i < x->rank; i++) dims[axis] *= x->dims[i];
    if (!tw_lazy_reshape(&flat, axis + 1, dims)) {
        *to = tw_lower_scratch(l, "rows", to->type, to->rank, to->dims, NULL);
        flat = tw_lazy_of_view(to);
        if (!tw_lazy_reshape(&flat, axis + 1, dims)) return false;
    }
    *joined = tw_lazy_view(&flat);
    return !l->failed && tw_lower_reshape(l, x, axis + 1, dims);
}

/* x as it is, unless others want it and nobody has stored it: then the step stores it as well, if it can. */
static const tw_lazy *take(tw_lowering *l, int value, bool keeps, rows *r) {
    const tw_lazy *x = tw_lower_peek(l, value);
    r->kept = -1;
    if (!x || !keeps || tw_lazy_is_view(x) || l->uses[value] < 2) return x ? tw_lower_take(l, value) : NULL;
    r->kept = value;
    return x;
}

static bool store_norm(tw_lowering *l, const tw_node *n, bool layer) {
    rows r = {.of = layer ? TW_ROWS_layer_norm : TW_ROWS_rms_norm,
              .eps = tw_node_real(n, "epsilon", 1e-5),
              .gain = n->in[1],
              .bias = layer && n->n_in > 2 ? n->in[2] : -1};
    const tw_value *v = tw_lower_of(l, n->in[0]);
    const int axis = tw_axis(tw_node_integer(n, "axis", -1), v->rank);
    int wanted[] = {-1, -1}; /* Of the mean and the inverse deviation. */
    for (int i = 1; i < n->n_out && i < 3; i++)
        if (n->out[i] >= 0 && l->uses[n->out[i]]) wanted[i - 1] = n->out[i];
    const bool statistics = wanted[0] >= 0 || wanted[1] >= 0;
    tw_view stored;
    if (statistics && (!layer || !tw_lower_in_memory(l, n->in[0], &stored))) return false;
    const tw_lazy *from = take(l, n->in[0], axis == v->rank - 1, &r);
    if (!from || axis < 0) return false;
    tw_lazy x = *from;
    /* Statistics alone may be wanted. */
    tw_view to =
        n->out[0] >= 0 ? tw_lower_target(l, n->out[0]) : tw_lower_scratch(l, "normed", v->type, v->rank, v->dims, NULL);
    tw_view joined = to;
    if (axis < x.rank - 1) r.joined = v;
    if (l->failed || (axis < x.rank - 1 && !join(l, &x, axis, &to, &joined)) || !emit(l, &r, &x, &joined)) return false;
    if (n->out[0] >= 0) tw_lower_set_view(l, n->out[0], &to);
    return !statistics || tw_lower_moments(l, &x, r.eps, wanted[0], wanted[1]);
}

static bool norm(tw_lowering *l, const tw_node *n, bool layer) {
    const int rank = tw_lower_of(l, n->in[0])->rank;
    bool alone = n->out[0] >= 0 && tw_axis(tw_node_integer(n, "axis", -1), rank) == rank - 1;
    for (int i = 1; i < n->n_out; i++) alone &= n->out[i] < 0 || !l->uses[n->out[i]];
    const tw_norm waits = {.value = n->out[0],
                           .node = l->node,
                           .layer = layer,
                           .eps = tw_node_real(n, "epsilon", 1e-5),
                           .gain = n->in[1],
                           .beta = layer && n->n_in > 2 ? n->in[2] : -1};
    return (alone && tw_norm_wait(l, &waits)) || store_norm(l, n, layer);
}

bool tw_lower_norm(tw_lowering *l, const tw_node *n) {
    return store_norm(l, n, tw_is_op(n, "", "LayerNormalization"));
}

/* Adds an operand of a number for each channel, the second of `rank` dimensions. */
static int add_channels(tw_lowering *l, tw_lazy *x, int value, int64_t channels) {
    int64_t dims[TW_ARRAY_RANK];
    tw_view v;
    if (value < 0 || !tw_lower_in_memory(l, value, &v)) return -1;
    tw_lazy each = tw_lazy_of_view(&v);
    for (int i = 0; i < x->rank; i++) dims[i] = i == 1 ? channels : 1;
    return tw_lazy_reshape(&each, x->rank, dims) ? tw_lazy_add(x, &each) : -1;
}

/* (x - mean) / sqrt(variance + eps) * gain + bias, with numbers of each channel. */
static bool batch_norm(tw_lowering *l, const tw_node *n, bool layer) {
    (void)layer;
    const tw_value *v = tw_lower_of(l, n->in[0]);
    const tw_lazy *from = tw_lower_take(l, n->in[0]);
    tw_lazy x = tw_lazy_begin(tw_lower_of(l, n->out[0])->type, v->rank, v->dims);
    tw_cells *c = &x.cells;
    int of[5];
    if (!from || v->rank < 2 || n->n_in < 5 || (of[0] = tw_lazy_add(&x, from)) < 0) return false;
    for (int i = 1; i < 5; i++)
        if ((of[i] = add_channels(l, &x, n->in[i], v->dims[1])) < 0) return false;
    const int sum = tw_cells_apply(c, TW_CELL_add, of[4], tw_cells_real(c, tw_node_real(n, "epsilon", 1e-5)), -1);
    const int scale = tw_cells_apply(c, TW_CELL_mul, tw_cells_apply(c, TW_CELL_rsqrt, sum, -1, -1), of[1], -1);
    const int off = tw_cells_apply(c, TW_CELL_sub, of[0], of[3], -1);
    c->value = tw_cells_apply(c, TW_CELL_add, tw_cells_apply(c, TW_CELL_mul, off, scale, -1), of[2], -1);
    if (c->failed) return false;
    tw_lower_set(l, n->out[0], &x);
    return true;
}

/* A layer norm of groups of channels, whose elements lie behind one another, and then a gain and a bias of each
   channel. */
static bool group_norm(tw_lowering *l, const tw_node *n, bool layer) {
    (void)layer;
    const tw_value *v = tw_lower_of(l, n->in[0]);
    const rows r = {
        .of = TW_ROWS_layer_norm, .eps = tw_node_real(n, "epsilon", 1e-5), .gain = -1, .bias = -1, .kept = -1};
    const bool alone = !strcmp(n->op, "InstanceNormalization");
    const int64_t channels = v->rank > 1 ? v->dims[1] : 0,
                  groups = alone ? channels : tw_node_integer(n, "num_groups", 1);
    tw_view stored;
    if (v->rank < 2 || groups < 1 || channels % groups || n->n_in < 3 || !tw_lower_in_memory(l, n->in[0], &stored))
        return false;
    int64_t dims[2] = {v->dims[0] * groups, channels / groups};
    for (int i = 2; i < v->rank; i++) dims[1] *= v->dims[i];
    tw_view normed = tw_lower_scratch(l, "normed", TW_E_f32, v->rank, v->dims, NULL);
    tw_lazy x = tw_lazy_of_view(&stored), to = tw_lazy_of_view(&normed), y;
    if (l->failed || !tw_lower_reshape(l, &x, 2, dims) || !tw_lazy_reshape(&to, 2, dims)) return false;
    const tw_view lines = tw_lazy_view(&to);
    if (!emit(l, &r, &x, &lines)) return false;
    to = tw_lazy_of_view(&normed);
    y = tw_lazy_begin(tw_lower_of(l, n->out[0])->type, v->rank, v->dims);
    tw_cells *c = &y.cells;
    const int element = tw_lazy_add(&y, &to), gain = add_channels(l, &y, n->in[1], channels),
              bias = add_channels(l, &y, n->in[2], channels);
    c->value = tw_cells_apply(c, TW_CELL_add, tw_cells_apply(c, TW_CELL_mul, element, gain, -1), bias, -1);
    if (c->failed || c->value < 0) return false;
    tw_lower_set(l, n->out[0], &y);
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
    if (n->out[0] < 0) return false;
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

bool tw_lower_reduction(tw_lowering *l, tw_rows_of of, const tw_lazy *x, const tw_view *to) {
    return emit(l, &(rows){.of = of, .gain = -1, .bias = -1, .kept = -1}, x, to);
}

bool tw_lower_softmax(tw_lowering *l, const tw_lazy *x, const tw_view *to) {
    if (tw_lazy_has_doubles(x)) return tw_lower_softmax_doubles(l, x, false, to);
    return emit(l, &(rows){.of = TW_ROWS_softmax, .gain = -1, .bias = -1, .kept = -1, .keep = 2}, x, to);
}

static bool softmax(tw_lowering *l, const tw_node *n, tw_rows_of of) {
    enum { ALONE = 13 /* From this version on, a softmax is of one dimension. */ };
    rows r = {.of = of, .gain = -1, .bias = -1};
    const tw_value *v = tw_lower_of(l, n->in[0]);
    const bool alone = n->version >= ALONE;
    const int axis = tw_axis(tw_node_integer(n, "axis", alone ? -1 : 1), v->rank);
    const bool doubles = v->type == TW_E_f64;
    const tw_lazy *from = take(l, n->in[0], axis == v->rank - 1 && !doubles, &r);
    if (!from || axis < 0) return false;
    tw_lazy x = *from;
    tw_view to = tw_lower_target(l, n->out[0]), rows_of = to;
    if (l->failed) return false;
    if (!alone && axis < x.rank - 1 && !join(l, &x, axis, &to, &rows_of)) return false;
    if (alone && axis < x.rank - 1) {
        int order[TW_ARRAY_RANK];
        for (int i = 0; i < x.rank; i++) order[i] = i < axis ? i : i + 1 < x.rank ? i + 1 : axis;
        tw_lazy turned = tw_lazy_of_view(&to);
        tw_lazy_transpose(&x, order);
        tw_lazy_transpose(&turned, order);
        rows_of = tw_lazy_view(&turned);
    }
    if (!(doubles ? tw_lower_softmax_doubles(l, &x, of == TW_ROWS_log_softmax, &rows_of) : emit(l, &r, &x, &rows_of)))
        return false;
    tw_lower_set_view(l, n->out[0], &to);
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
                 {"", "BatchNormalization", batch_norm, false},
                 {"", "GroupNormalization", group_norm, false},
                 {"", "InstanceNormalization", group_norm, false},
                 {"com.microsoft", "SkipLayerNormalization", skip_norm, true},
                 {"com.microsoft", "SkipSimplifiedLayerNormalization", skip_norm, false}};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (tw_is_op(n, norms[i].domain, norms[i].op)) return norms[i].lower(l, n, norms[i].layer);
    if (tw_is_op(n, "", "Softmax")) return softmax(l, n, TW_ROWS_softmax);
    return tw_is_op(n, "", "LogSoftmax") && softmax(l, n, TW_ROWS_log_softmax);
}
