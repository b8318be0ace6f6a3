/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that only move elements: their results are other views of their operands, except of Concat. */
#include "graph/program/lower.h"

#include "graph/ops/op.h"

/* Sets a result to an array whose extents are changed. What has no such strides is stored first. */
static bool set_reshaped(tw_lowering *l, int in, int out) {
    const tw_value *v = tw_lower_of(l, out);
    const tw_lazy *from = tw_lower_take(l, in);
    tw_view stored;
    if (!from) return false;
    tw_lazy x = *from;
    if (!tw_lazy_reshape(&x, v->rank, v->dims)) {
        if (!tw_lazy_is_view(&x) ? !tw_lower_in_memory(l, in, &stored) : false) return false;
        x = *tw_lower_peek(l, in);
        if (!tw_lazy_reshape(&x, v->rank, v->dims)) {
            /* The view has gaps: copy it. */
            stored = tw_lower_scratch(l, v->name, x.type, x.rank, x.dims, NULL);
            if (l->failed || !tw_lower_store(l, &x, &stored)) return false;
            x = tw_lazy_of_view(&stored);
            if (!tw_lazy_reshape(&x, v->rank, v->dims)) return false;
        }
    }
    tw_lower_set(l, out, &x);
    return true;
}

static bool transpose(tw_lowering *l, const tw_node *n) {
    const tw_attribute *perm = tw_node_attribute(n, "perm");
    const tw_lazy *from = tw_lower_take(l, n->in[0]);
    int order[TW_ARRAY_RANK];
    if (!from) return false;
    tw_lazy x = *from;
    for (int i = 0; i < x.rank; i++) order[i] = perm ? (int)tw_array_integer(perm->array, i) : x.rank - 1 - i;
    tw_lazy_transpose(&x, order);
    tw_lower_set(l, n->out[0], &x);
    return true;
}

static bool expand(tw_lowering *l, const tw_node *n) {
    const tw_lazy *from = tw_lower_take(l, n->in[0]);
    const tw_value *v = tw_lower_of(l, n->out[0]);
    if (!from) return false;
    tw_lazy x = *from;
    tw_lazy_expand(&x, v->rank, v->dims);
    tw_lower_set(l, n->out[0], &x);
    return true;
}

int tw_lower_integers(const tw_lowering *l, const tw_node *n, int operand, const char *attribute, int64_t *out,
                      int most) {
    const tw_attribute *a = tw_node_attribute(n, attribute);
    const tw_array *from = a && a->kind == TW_ATTRIBUTE_ARRAY ? a->array : NULL;
    if (operand < n->n_in && n->in[operand] >= 0) {
        const tw_value *v = tw_lower_of(l, n->in[operand]);
        from = v->content;
        if (!from && v->rank == 1 && !v->dims[0]) return 0;
        if (!from) return -1;
    }
    const int64_t count = from ? tw_array_elements(from) : 0;
    if (count > most) return -1;
    for (int64_t i = 0; i < count; i++) out[i] = tw_array_integer(from, i);
    return (int)count;
}

static bool slice(tw_lowering *l, const tw_node *n) {
    const tw_lazy *from = tw_lower_take(l, n->in[0]);
    const tw_value *v = tw_lower_of(l, n->out[0]);
    int64_t starts[TW_ARRAY_RANK], axes[TW_ARRAY_RANK], steps[TW_ARRAY_RANK];
    const int n_starts = tw_lower_integers(l, n, 1, "starts", starts, TW_ARRAY_RANK);
    const int n_axes = tw_lower_integers(l, n, 3, "axes", axes, TW_ARRAY_RANK),
              n_steps = tw_lower_integers(l, n, 4, "steps", steps, TW_ARRAY_RANK);
    if (!from || n_starts < 1 || n_axes < 0 || n_steps < 0) return false;
    tw_lazy x = *from;
    for (int i = 0; i < n_starts; i++) {
        const int axis = n_axes ? tw_axis(axes[i], x.rank) : i;
        const int64_t step = n_steps ? steps[i] : 1, extent = x.dims[axis], last = step < 0 ? extent - 1 : extent;
        int64_t start = starts[i] < 0 ? starts[i] + extent : starts[i];
        start = start < 0 ? 0 : start > last ? last : start;
        tw_lazy_slice(&x, axis, start, step, v->dims[axis]);
    }
    tw_lower_set(l, n->out[0], &x);
    return true;
}

/* The extent of a part of a Split, also of one that nobody wants. -1: it is not known. */
static int64_t part_extent(const tw_lowering *l, const tw_node *n, int part, int64_t whole) {
    const tw_attribute *a = tw_node_attribute(n, "split");
    const tw_array *sizes = a && a->kind == TW_ATTRIBUTE_ARRAY ? a->array : NULL;
    if (n->n_in > 1 && n->in[1] >= 0 && !(sizes = tw_lower_of(l, n->in[1])->content)) return -1;
    if (sizes) return part < tw_array_elements(sizes) ? tw_array_integer(sizes, part) : -1;
    const int64_t parts = tw_node_integer(n, "num_outputs", n->n_out), each = (whole + parts - 1) / parts;
    return part + 1 < parts ? each : whole - each * (parts - 1);
}

static bool split(tw_lowering *l, const tw_node *n) {
    const tw_lazy *from = tw_lower_peek(l, n->in[0]);
    tw_view stored;
    if (!from || !tw_lower_in_memory(l, n->in[0], &stored)) return false;
    const int axis = tw_axis(tw_node_integer(n, "axis", 0), stored.rank);
    int64_t start = 0;
    for (int i = 0; i < n->n_out; i++) {
        tw_lazy x = tw_lazy_of_view(&stored);
        const int64_t count =
            n->out[i] < 0 ? part_extent(l, n, i, stored.dims[axis]) : tw_lower_of(l, n->out[i])->dims[axis];
        if (count < 0) return false;
        tw_lazy_slice(&x, axis, start, 1, count);
        if (n->out[i] >= 0) tw_lower_set(l, n->out[i], &x);
        start += count;
    }
    return true;
}

/* A part of a concatenation, as a view of the whole. */
static tw_view part_of(const tw_lowering *l, const tw_view *whole, int axis, int64_t start, int value) {
    tw_lazy part = tw_lazy_of_view(whole);
    tw_lazy_slice(&part, axis, start, 1, tw_lower_of(l, value)->dims[axis]);
    return tw_lazy_view(&part);
}

static bool concat(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->out[0]);
    const int axis = tw_axis(tw_node_integer(n, "axis", 0), v->rank);
    const tw_view whole = tw_lower_target(l, n->out[0]);
    int64_t start = 0;
    if (l->failed) return false;
    for (int i = 0; i < n->n_in; i++) {
        const tw_lazy *x = tw_lower_take(l, n->in[i]);
        if (!x) return false;
        const tw_view part = part_of(l, &whole, axis, start, n->in[i]);
        start += part.dims[axis];
        if (tw_lazy_is_view(x) && x->of[0].buffer == whole.buffer) continue; /* It was stored there. */
        if (!tw_lower_store(l, x, &part)) return false;
    }
    tw_lower_set_view(l, n->out[0], &whole);
    return true;
}

/* A single place that is known is a slice. */
static bool gather_one(tw_lowering *l, const tw_node *n, const tw_array *at, int axis) {
    const tw_lazy *from = tw_lower_take(l, n->in[0]);
    const tw_value *v = tw_lower_of(l, n->out[0]);
    if (!from) return false;
    tw_lazy x = *from;
    const int64_t given = tw_array_integer(at, 0), place = given < 0 ? given + x.dims[axis] : given;
    if (place < 0 || place >= x.dims[axis]) return false;
    tw_lazy_slice(&x, axis, place, 1, 1);
    if (!tw_lazy_reshape(&x, v->rank, v->dims)) return false;
    tw_lower_set(l, n->out[0], &x);
    return true;
}

static bool gather(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->out[0]), *indices = tw_lower_of(l, n->in[1]);
    const int axis = tw_axis(tw_node_integer(n, "axis", 0), tw_lower_of(l, n->in[0])->rank);
    tw_view table, by;
    tw_memory_type type;
    if (indices->content && tw_array_elements(indices->content) == 1) return gather_one(l, n, indices->content, axis);
    if (v->type == TW_E_f64 && !l->options.gpu) return false;
    if (!tw_memory_of(v->type, &type) || !tw_lower_in_memory(l, n->in[0], &table) ||
        !tw_lower_in_memory(l, n->in[1], &by))
        return false;
    tw_lazy x = tw_lazy_begin(v->type, v->rank, v->dims);
    x.n = 2;
    x.of[0] = (tw_source){.buffer = by.buffer, .offset = by.offset, .type = by.type, .by = -1};
    x.of[1] = (tw_source){.buffer = table.buffer,
                          .offset = table.offset,
                          .type = table.type,
                          .by = 0,
                          .gather_stride = table.strides[axis],
                          .table = table};
    for (int i = 0; i < by.rank; i++) x.of[0].strides[axis + i] = by.strides[i];
    for (int i = 0; i < table.rank; i++)
        if (i != axis) x.of[1].strides[i < axis ? i : i + by.rank - 1] = table.strides[i];
    /* The gathered dimension comes first in the table. */
    tw_view *t = &x.of[1].table;
    for (int i = axis; i > 0; i--) {
        t->dims[i] = table.dims[i - 1];
        t->strides[i] = table.strides[i - 1];
    }
    t->dims[0] = table.dims[axis];
    t->strides[0] = table.strides[axis];
    if (tw_cells_operand(&x.cells, 1, type) < 0) return false;
    tw_lower_set(l, n->out[0], &x);
    return true;
}

/* Without training a Dropout keeps all elements. */
static bool all_kept(tw_lowering *l, const tw_node *n) {
    const int mask = n->n_out > 1 ? n->out[1] : -1;
    if (mask < 0 || !l->uses[mask]) return true;
    const tw_value *v = tw_lower_of(l, mask);
    tw_lazy x = tw_lazy_begin(v->type, v->rank, v->dims);
    if (v->type != TW_E_bool || (n->n_in > 2 && n->in[2] >= 0) || tw_cells_truth(&x.cells, true) < 0) return false;
    tw_lower_set(l, mask, &x);
    return true;
}

bool tw_lower_move(tw_lowering *l, const tw_node *n) {
    static const char *const reshapes[] = {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout"};
    static const struct {
        const char *op;
        tw_lower_fn *lower;
    } others[] = {{"Transpose", transpose}, {"Expand", expand}, {"Slice", slice},
                  {"Split", split},         {"Concat", concat}, {"Gather", gather}};
    if (*n->domain && strcmp(n->domain, "ai.onnx")) return false;
    if (n->n_in < 1 || n->in[0] < 0) return false;
    for (size_t i = 0; i < sizeof reshapes / sizeof *reshapes; i++)
        if (!strcmp(n->op, reshapes[i]))
            return all_kept(l, n) && (n->out[0] < 0 || set_reshaped(l, n->in[0], n->out[0]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(n->op, others[i].op)) return others[i].lower(l, n);
    return false;
}
