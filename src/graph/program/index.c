/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose results depend on where elements stand, or on places that operands give. */
#include "graph/program/lower.h"

#include "graph/ops/move.h"

int tw_lower_index(tw_lowering *l, tw_lazy *x, int axis) {
    static const char name[] = "indices";
    const int64_t n = x->dims[axis];
    int buffer = -1;
    if (x->n == TW_POINT_OPERANDS || n > INT32_MAX) return -1;
    for (int i = 0; i < l->p->n_buffers && buffer < 0; i++) {
        const tw_program_buffer *b = &l->p->buffers[i];
        if (b->name == name && b->bytes == n * 4) buffer = i; /* A value of that name is another. */
    }
    if (buffer < 0) {
        int32_t *all = tw_arena_array(&l->p->arena, (size_t)n + 1, sizeof *all);
        if (!all) return -1;
        for (int64_t i = 0; i < n; i++) all[i] = (int32_t)i;
        buffer = tw_lower_constant(l, name, all, n * 4);
    }
    if (buffer < 0) return -1;
    x->of[x->n] = (tw_source){.buffer = buffer, .type = TW_E_i32, .by = -1};
    x->of[x->n].strides[axis] = 1;
    return tw_cells_operand(&x->cells, x->n++, TW_M_i32);
}

/* Zero, of the class of another cell. */
static int zero_like(tw_cells *c, int cell) {
    const int class = cell < 0 ? 0 : c->of[cell].class;
    return class == TW_CLASS_real      ? tw_cells_real(c, 0)
           : class == TW_CLASS_double  ? tw_cells_double(c, 0)
           : class == TW_CLASS_integer ? tw_cells_integer(c, 0)
                                       : tw_cells_truth(c, false);
}

/* The only element of an operand. Without the operand it is `usual`. */
static int single(tw_lowering *l, const tw_node *n, int operand, tw_lazy *to, int64_t usual) {
    const int value = operand < n->n_in ? n->in[operand] : -1;
    if (value < 0) return tw_cells_integer(&to->cells, usual);
    const tw_array *known = tw_lower_of(l, value)->content;
    if (known && tw_element_kind(known->type) == TW_KIND_integer)
        return tw_cells_integer(&to->cells, tw_array_integer(known, 0));
    const tw_lazy *x = tw_lower_take(l, value);
    if (!x) return -1;
    tw_lazy one = *x;
    return tw_lazy_reshape(&one, 0, NULL) ? tw_lazy_add(to, &one) : -1;
}

static bool finish(tw_lowering *l, int value, tw_lazy *x, int cell) {
    if (cell < 0 || x->cells.failed) return false;
    x->cells.value = cell;
    tw_lower_set(l, value, x);
    return !l->failed;
}

static bool trilu(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->out[0]);
    const tw_lazy *from = tw_lower_take(l, n->in[0]);
    tw_lazy x = tw_lazy_begin(v->type, v->rank, v->dims);
    tw_cells *c = &x.cells;
    tw_memory_type type;
    if (!from || !tw_memory_of(v->type, &type)) return false;
    const int element = tw_lazy_add(&x, from), k = single(l, n, 1, &x, 0);
    const int row = tw_lower_index(l, &x, v->rank - 2), column = tw_lower_index(l, &x, v->rank - 1);
    const int off = tw_cells_apply(c, TW_CELL_sub, column, row, -1);
    const bool upper = tw_node_integer(n, "upper", 1);
    const int kept = tw_cells_apply(c, upper ? TW_CELL_greater_equal : TW_CELL_less_equal, off, k, -1);
    return finish(l, n->out[0], &x, tw_cells_apply(c, TW_CELL_where, kept, element, zero_like(c, element)));
}

/* ---- gathers */

bool tw_lower_gathered(const tw_view *table, int axis, const tw_view *by, tw_lazy *out) {
    tw_memory_type type;
    out->n = 2;
    out->of[0] = (tw_source){.buffer = by->buffer, .offset = by->offset, .type = by->type, .by = -1};
    out->of[1] = (tw_source){.buffer = table->buffer,
                             .offset = table->offset,
                             .type = table->type,
                             .by = 0,
                             .gather_stride = table->strides[axis],
                             .table = {.dims = {table->dims[axis]}}};
    return tw_memory_of(table->type, &type) && tw_cells_operand(&out->cells, 1, type) >= 0;
}

static bool gather_elements(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->out[0]);
    const int axis = tw_axis(tw_node_integer(n, "axis", 0), v->rank);
    tw_view table, by;
    tw_lazy x = tw_lazy_begin(v->type, v->rank, v->dims);
    if (!tw_lower_in_memory(l, n->in[0], &table) || !tw_lower_in_memory(l, n->in[1], &by)) return false;
    if (!tw_lower_gathered(&table, axis, &by, &x)) return false;
    memcpy(x.of[0].strides, by.strides, sizeof by.strides);
    for (int i = 0; i < v->rank; i++) x.of[1].strides[i] = i == axis ? 0 : table.strides[i];
    tw_lower_set(l, n->out[0], &x);
    return true;
}

bool tw_lower_tuples(tw_lowering *l, const tw_view *tuples, const int64_t *dims, tw_view *out) {
    const int64_t nowhere = -((int64_t)1 << 50);
    const int rank = tuples->rank - 1;
    tw_lazy x = tw_lazy_begin(TW_E_i64, rank, tuples->dims);
    tw_cells *c = &x.cells;
    int sum = tw_cells_integer(c, 0), outside = tw_cells_truth(c, false);
    if (tuples->dims[rank] > TW_POINT_OPERANDS) return false;
    for (int i = 0; i < tuples->dims[rank]; i++) {
        tw_lazy part = tw_lazy_of_view(tuples);
        tw_lazy_slice(&part, rank, i, 1, 1);
        if (!tw_lazy_reshape(&part, rank, tuples->dims)) return false;
        const int given = tw_lazy_add(&x, &part), extent = tw_cells_integer(c, dims[i]);
        const int from_end = tw_cells_apply(c, TW_CELL_add, given, extent, -1);
        const int negative = tw_cells_apply(c, TW_CELL_less, given, tw_cells_integer(c, 0), -1);
        const int at = tw_cells_apply(c, TW_CELL_where, negative, from_end, given);
        const int low = tw_cells_apply(c, TW_CELL_less, at, tw_cells_integer(c, 0), -1);
        const int high = tw_cells_apply(c, TW_CELL_greater_equal, at, extent, -1);
        outside = tw_cells_apply(c, TW_CELL_or, outside, tw_cells_apply(c, TW_CELL_or, low, high, -1), -1);
        sum = tw_cells_apply(c, TW_CELL_add, tw_cells_apply(c, TW_CELL_mul, sum, extent, -1), at, -1);
    }
    /* Arrays have fewer elements. */
    c->value = tw_cells_apply(c, TW_CELL_where, outside, tw_cells_integer(c, nowhere), sum);
    *out = tw_lower_scratch(l, "places", TW_E_i64, rank, tuples->dims, NULL);
    return !c->failed && !l->failed && tw_lower_store(l, &x, out);
}

bool tw_lower_joined(tw_lowering *l, const tw_view *v, int from, int count, tw_view *out) {
    int64_t dims[TW_ARRAY_RANK];
    int rank = 0;
    for (int i = 0; i < v->rank; i++)
        if (i > from && i < from + count)
            dims[rank - 1] *= v->dims[i];
        else
            dims[rank++] = v->dims[i];
    tw_lazy x = tw_lazy_of_view(v);
    if (!tw_lower_reshape(l, &x, rank, dims)) return false;
    *out = tw_lazy_view(&x);
    return true;
}

static bool gather_nd(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->out[0]);
    const int batch = (int)tw_node_integer(n, "batch_dims", 0);
    tw_view given, tuples, table, by;
    tw_lazy x = tw_lazy_begin(v->type, v->rank, v->dims);
    if (!tw_lower_in_memory(l, n->in[0], &given) || !tw_lower_in_memory(l, n->in[1], &tuples)) return false;
    const int depth = (int)tuples.dims[tuples.rank - 1];
    if (!tw_lower_joined(l, &given, batch, depth, &table) || !tw_lower_tuples(l, &tuples, &given.dims[batch], &by))
        return false;
    if (!tw_lower_gathered(&table, batch, &by, &x)) return false;
    for (int i = 0; i < by.rank; i++) x.of[0].strides[i] = by.strides[i];
    for (int i = 0; i < batch; i++) x.of[1].strides[i] = table.strides[i];
    for (int i = batch + 1; i < table.rank; i++) x.of[1].strides[by.rank + i - batch - 1] = table.strides[i];
    tw_lower_set(l, n->out[0], &x);
    return true;
}

/* ---- Pad: a gather along each axis that is padded */

/* x with a dimension padded. */
static bool pad_axis(tw_lowering *l, const tw_node *n, tw_lazy *x, int axis, int64_t before, int64_t behind,
                     tw_pad_mode mode) {
    const int64_t from = x->dims[axis], extent = from + before + behind;
    int64_t dims[TW_ARRAY_RANK];
    tw_view table, by = {.type = TW_E_i32};
    int32_t *places = tw_arena_array(&l->p->arena, (size_t)extent + 1, sizeof *places);
    if (!places || from > INT32_MAX || extent > INT32_MAX || !tw_lower_stored(l, x, "padded", NULL, &table))
        return false;
    for (int64_t i = 0; i < extent; i++) {
        const int64_t at = tw_pad_source(i, from, before, behind, mode);
        places[i] = (int32_t)(at < 0 ? from : at);
    }
    by.buffer = tw_lower_constant(l, "places", places, extent * 4);
    memcpy(dims, x->dims, sizeof dims);
    dims[axis] = extent;
    tw_lazy y = tw_lazy_begin(x->type, x->rank, dims);
    if (by.buffer < 0 || !tw_lower_gathered(&table, axis, &by, &y)) return false;
    y.of[0].strides[axis] = 1;
    for (int i = 0; i < x->rank; i++) y.of[1].strides[i] = i == axis ? 0 : table.strides[i];
    if (mode == TW_PAD_CONSTANT) {
        tw_cells *c = &y.cells;
        const int element = c->value, at = tw_cells_operand(c, 0, TW_M_i32);
        const int inside = tw_cells_apply(c, TW_CELL_less, at, tw_cells_integer(c, from), -1);
        const bool given = n->n_in > 2 && n->in[2] >= 0;
        const double usual = tw_node_real(n, "value", 0);
        const int with = given                                              ? single(l, n, 2, &y, 0)
                         : tw_class_is_real((tw_class)c->of[element].class) ? tw_cells_like(c, element, usual)
                                                                            : zero_like(c, element);
        c->value = tw_cells_apply(c, TW_CELL_where, inside, element, with);
        if (c->value < 0) return false;
    }
    *x = y;
    return true;
}

static bool pad(tw_lowering *l, const tw_node *n) {
    const tw_pad_mode mode = tw_pad_mode_of(n);
    const tw_value *v = tw_lower_of(l, n->out[0]);
    int64_t pads[2 * TW_ARRAY_RANK], axes[2 * TW_ARRAY_RANK];
    const int n_pads = tw_lower_integers(l, n, 1, "pads", pads, 2 * TW_ARRAY_RANK),
              n_axes = tw_lower_integers(l, n, 3, "", axes, TW_ARRAY_RANK);
    const tw_lazy *from = tw_lower_take(l, n->in[0]);
    tw_memory_type type;
    if (!from || n_pads < 0 || n_axes < 0 || mode == TW_PAD_MODES || !tw_memory_of(v->type, &type)) return false;
    const int count = n_pads / 2;
    tw_lazy x = *from;
    for (int i = 0; i < x.rank; i++)
        if (!x.dims[i]) return false;
    for (int i = 0; i < count; i++) {
        const int axis = tw_axis(n_axes ? axes[i] : i, x.rank);
        if (axis < 0) return false;
        if ((pads[i] || pads[count + i]) && !pad_axis(l, n, &x, axis, pads[i], pads[count + i], mode)) return false;
    }
    tw_lower_set(l, n->out[0], &x);
    return true;
}

/* ---- Tile, OneHot */

/* One axis after the other. */
static bool tile_axes(tw_lowering *l, const tw_node *n, const tw_view *from) {
    const tw_value *v = tw_lower_of(l, n->out[0]);
    tw_lazy x = tw_lazy_of_view(from);
    for (int i = 0; i < v->rank; i++)
        if (v->dims[i] != from->dims[i] && !pad_axis(l, n, &x, i, 0, v->dims[i] - from->dims[i], TW_PAD_WRAP))
            return false;
    tw_lower_set(l, n->out[0], &x);
    return true;
}

static bool tile(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->out[0]);
    tw_view from;
    if (!tw_lower_in_memory(l, n->in[0], &from)) return false;
    tw_lazy x = tw_lazy_begin(from.type, 0, NULL);
    x.n = 1;
    x.of[0] = (tw_source){.buffer = from.buffer, .offset = from.offset, .type = from.type, .by = -1};
    for (int i = 0; i < from.rank; i++) {
        if (!from.dims[i] || !v->dims[i]) return false;
        const int64_t times = v->dims[i] / from.dims[i];
        if (x.rank + 1 + (times > 1) > TW_POINT_RANK) return tile_axes(l, n, &from);
        if (times > 1) x.dims[x.rank++] = times; /* It is read again and again. */
        x.of[0].strides[x.rank] = from.strides[i];
        x.dims[x.rank++] = from.dims[i];
    }
    const tw_view to = tw_lower_target(l, n->out[0]);
    tw_lazy parts = tw_lazy_of_view(&to);
    if (l->failed || !tw_lazy_reshape(&parts, x.rank, x.dims)) return false;
    const tw_view split = tw_lazy_view(&parts);
    if (!tw_lower_store(l, &x, &split)) return false;
    tw_lower_set_view(l, n->out[0], &to);
    return true;
}

static bool one_hot(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->out[0]);
    const int axis = tw_axis(tw_node_integer(n, "axis", -1), v->rank);
    const tw_lazy *from = tw_lower_take(l, n->in[0]);
    int64_t dims[TW_ARRAY_RANK];
    tw_view values;
    if (!from || !tw_lower_in_memory(l, n->in[2], &values) || values.rank != 1) return false;
    tw_lazy indices = *from, x = tw_lazy_begin(v->type, v->rank, v->dims);
    tw_cells *c = &x.cells;
    memcpy(dims, v->dims, sizeof dims);
    dims[axis] = 1;
    if (!tw_lazy_reshape(&indices, v->rank, dims)) return false;
    int at = tw_lazy_add(&x, &indices), choices[2];
    if (at >= 0 && c->of[at].class != TW_CLASS_integer) at = tw_cells_apply(c, TW_CELL_integer, at, -1, -1);
    for (int i = 0; i < 2; i++) {
        tw_lazy one = tw_lazy_of_view(&values);
        tw_lazy_slice(&one, 0, i, 1, 1);
        if (!tw_lazy_reshape(&one, 0, NULL) || (choices[i] = tw_lazy_add(&x, &one)) < 0) return false;
    }
    const int negative = tw_cells_apply(c, TW_CELL_less, at, tw_cells_integer(c, 0), -1);
    const int from_end = tw_cells_apply(c, TW_CELL_add, at, tw_cells_integer(c, v->dims[axis]), -1);
    at = tw_cells_apply(c, TW_CELL_where, negative, from_end, at);
    const int hit = tw_cells_apply(c, TW_CELL_equal, at, tw_lower_index(l, &x, axis), -1);
    return finish(l, n->out[0], &x, tw_cells_apply(c, TW_CELL_where, hit, choices[1], choices[0]));
}

bool tw_lower_places(tw_lowering *l, const tw_node *n) {
    static const struct {
        const char *op;
        tw_lower_fn *lower;
    } all[] = {{"Trilu", trilu},        {"GatherElements", gather_elements},
               {"GatherND", gather_nd}, {"Pad", pad},
               {"Tile", tile},          {"OneHot", one_hot}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (tw_is_op(n, "", all[i].op)) return all[i].lower(l, n);
    return false;
}
