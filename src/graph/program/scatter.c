/* SPDX-License-Identifier: Apache-2.0 */
/* Scatters, as gathers: each place of the result looks for the updates that are meant for it. That takes as many
   comparisons as there are places times updates of a line, so that these are steps only where a node by itself would
   have none, and where few are updated or lines are short. */
#include "graph/program/lower.h"

#include "graph/ops/op.h"

#include <math.h>

/* Lines of updates. All have the same dimensions in front, those of the lines. */
typedef struct scatter {
    tw_view data;    /* [lines][place] */
    tw_view places;  /* [lines][update]: integers. */
    tw_view updates; /* [lines][update] */
    tw_view to;      /* [lines][place] */
} scatter;

/* Begins an array [lines][place][update], and adds the places of updates and whether they are the element's own. */
static int begin(tw_lowering *l, const scatter *s, tw_lazy *x) {
    enum { MOST = 1 << 28 };
    const int rank = s->to.rank;
    int64_t dims[TW_ARRAY_RANK], work = 1;
    tw_lazy places = tw_lazy_of_view(&s->places);
    if (rank == TW_ARRAY_RANK) return -1;
    memcpy(dims, s->to.dims, sizeof dims);
    dims[rank] = s->places.dims[rank - 1];
    for (int i = 0; i <= rank; i++)
        if (__builtin_mul_overflow(work, dims[i], &work) || work > MOST) return -1;
    *x = tw_lazy_begin(TW_E_f32, rank + 1, dims);
    dims[rank - 1] = 1;
    if (!tw_lazy_reshape(&places, rank + 1, dims)) return -1;
    tw_cells *c = &x->cells;
    const int given = tw_lazy_add(x, &places), extent = tw_cells_integer(c, s->to.dims[rank - 1]);
    const int negative = tw_cells_apply(c, TW_CELL_less, given, tw_cells_integer(c, 0), -1);
    const int from_end = tw_cells_apply(c, TW_CELL_add, given, extent, -1);
    const int place = tw_cells_apply(c, TW_CELL_where, negative, from_end, given);
    return tw_cells_apply(c, TW_CELL_equal, place, tw_lower_index(l, x, rank - 1), -1);
}

/* An array whose elements are the updates of each place, or `none` where they are another's. */
static bool updates_of(tw_lowering *l, const scatter *s, double none, tw_lazy *x) {
    const int rank = s->to.rank, own = begin(l, s, x);
    tw_lazy updates = tw_lazy_of_view(&s->updates);
    int64_t dims[TW_ARRAY_RANK];
    if (own < 0) return false;
    memcpy(dims, x->dims, sizeof dims);
    dims[rank - 1] = 1;
    if (!tw_lazy_reshape(&updates, rank + 1, dims)) return false;
    const int update = tw_lazy_add(x, &updates);
    const int value = tw_cells_apply(&x->cells, TW_CELL_where, own, update, tw_cells_real(&x->cells, none));
    x->cells.value = value;
    return value >= 0 && !x->cells.failed;
}

/* data and all of a place's updates, combined. */
static bool combine(tw_lowering *l, const scatter *s, tw_rows_of of, tw_cell_op by, double none) {
    tw_lazy x;
    tw_view all;
    if (tw_element_kind(s->data.type) != TW_KIND_real || !updates_of(l, s, none, &x) ||
        !tw_lower_reduced(l, of, &x, &all))
        return false;
    all.rank--;
    const tw_lazy data = tw_lazy_of_view(&s->data), combined = tw_lazy_of_view(&all);
    tw_lazy y = tw_lazy_begin(s->to.type, s->to.rank, s->to.dims);
    const int a = tw_lazy_add(&y, &data), b = tw_lazy_add(&y, &combined);
    y.cells.value = tw_cells_apply(&y.cells, by, a, b, -1);
    return y.cells.value >= 0 && tw_lower_store(l, &y, &s->to);
}

/* A place's last update, or data where there is none. */
static bool replace(tw_lowering *l, const scatter *s) {
    const int rank = s->to.rank;
    tw_lazy x;
    tw_view last;
    const int own = begin(l, s, &x);
    if (own < 0 || x.dims[rank] > TW_LOWER_WHOLES) return false;
    const int at = tw_cells_apply(&x.cells, TW_CELL_real, tw_lower_index(l, &x, rank), -1, -1);
    x.cells.value = tw_cells_apply(&x.cells, TW_CELL_where, own, at, tw_cells_real(&x.cells, -1));
    if (x.cells.value < 0 || !tw_lower_reduced(l, TW_ROWS_max, &x, &last)) return false;
    last.rank--;
    tw_lazy whole = tw_lazy_of_view(&last);
    const tw_view by = tw_lower_scratch(l, "updates", TW_E_i32, rank, s->to.dims, NULL);
    if (!tw_lazy_open(&whole) || tw_cells_apply(&whole.cells, TW_CELL_integer, whole.cells.value, -1, -1) < 0 ||
        l->failed || !tw_lower_store(l, &whole, &by))
        return false;
    /* A place of -1 would be the last update. */
    tw_lazy y = tw_lazy_begin(s->to.type, rank, s->to.dims);
    const tw_lazy data = tw_lazy_of_view(&s->data);
    if (!tw_lower_gathered(&s->updates, rank - 1, &by, &y)) return false;
    memcpy(y.of[0].strides, by.strides, sizeof by.strides);
    for (int i = 0; i + 1 < rank; i++) y.of[1].strides[i] = s->updates.strides[i];
    const int update = y.cells.value, which = tw_cells_operand(&y.cells, 0, TW_M_i32);
    const int some = tw_cells_apply(&y.cells, TW_CELL_less, tw_cells_integer(&y.cells, -1), which, -1);
    y.cells.value = tw_cells_apply(&y.cells, TW_CELL_where, some, update, tw_lazy_add(&y, &data));
    return y.cells.value >= 0 && tw_lower_store(l, &y, &s->to);
}

static bool by_reduction(tw_lowering *l, const tw_node *n, const scatter *s) {
    static const struct {
        const char *name;
        tw_rows_of of;
        tw_cell_op by;
        double none;
    } all[] = {{"add", TW_ROWS_sum, TW_CELL_add, 0},
               {"mul", TW_ROWS_prod, TW_CELL_mul, 1},
               {"max", TW_ROWS_max, TW_CELL_max, -INFINITY},
               {"min", TW_ROWS_min, TW_CELL_min, INFINITY}};
    const char *name = tw_node_text(n, "reduction", "none");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i].name)) return combine(l, s, all[i].of, all[i].by, all[i].none);
    return !strcmp(name, "none") && replace(l, s);
}

/* A view whose dimension `axis` comes last. */
static tw_view turned(const tw_view *v, int axis) {
    int order[TW_ARRAY_RANK];
    tw_lazy x = tw_lazy_of_view(v);
    for (int i = 0; i < v->rank; i++) order[i] = i < axis ? i : i + 1 < v->rank ? i + 1 : axis;
    tw_lazy_transpose(&x, order);
    return tw_lazy_view(&x);
}

/* Lines along an axis. What lies beyond the indices' extents in another dimension is data alone. */
static bool elements(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->in[0]);
    const int axis = tw_axis(tw_node_integer(n, "axis", 0), v->rank);
    scatter s;
    tw_memory_type type;
    if (!tw_memory_of(v->type, &type) || !tw_lower_in_memory(l, n->in[0], &s.data) ||
        !tw_lower_in_memory(l, n->in[1], &s.places) || !tw_lower_in_memory(l, n->in[2], &s.updates))
        return false;
    const tw_view to = tw_lower_target(l, n->out[0]);
    tw_lazy rest = tw_lazy_of_view(&s.data), within = tw_lazy_of_view(&to);
    if (l->failed || axis < 0) return false;
    for (int i = 0; i < v->rank; i++) {
        const int64_t have = v->dims[i], few = s.places.dims[i];
        if (i == axis || few == have) continue;
        tw_lazy part = rest, part_to = within;
        tw_lazy_slice(&part, i, few, 1, have - few);
        tw_lazy_slice(&part_to, i, few, 1, have - few);
        const tw_view at = tw_lazy_view(&part_to);
        if (!tw_lower_store(l, &part, &at)) return false;
        tw_lazy_slice(&rest, i, 0, 1, few);
        tw_lazy_slice(&within, i, 0, 1, few);
    }
    const tw_view data = tw_lazy_view(&rest), inner = tw_lazy_view(&within);
    s = (scatter){turned(&data, axis), turned(&s.places, axis), turned(&s.updates, axis), turned(&inner, axis)};
    if (tw_view_elements(&s.to) &&
        !(tw_view_elements(&s.places) ? by_reduction(l, n, &s) : tw_lower_store(l, &rest, &inner)))
        return false;
    tw_lower_set_view(l, n->out[0], &to);
    return true;
}

/* Makes a view of two dimensions: the first `count` of v are joined to one, and so are the others. False: strides of v
   do not allow it. */
static bool as_rows(tw_lowering *l, const tw_view *v, int count, tw_view *out) {
    tw_view first, second;
    if (!tw_lower_joined(l, v, 0, count, &first)) return false;
    if (first.rank == 1) {
        first.dims[1] = 1;
        first.strides[1] = 0;
        first.rank = 2;
    }
    if (!tw_lower_joined(l, &first, 1, first.rank - 1, &second)) return false;
    *out = turned(&second, 0); /* A line is all places of an element of rows. */
    return true;
}

/* Tuples of indices are places of rows. */
static bool nd(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->in[0]);
    tw_view data, tuples, updates, places;
    scatter s;
    tw_memory_type type;
    if (!tw_memory_of(v->type, &type) || !tw_lower_in_memory(l, n->in[0], &data) ||
        !tw_lower_in_memory(l, n->in[1], &tuples) || !tw_lower_in_memory(l, n->in[2], &updates))
        return false;
    const int depth = (int)tuples.dims[tuples.rank - 1], before = tuples.rank - 1;
    if (!tw_view_elements(&data) || !tw_view_elements(&updates) || before < 1 || before > updates.rank) return false;
    const tw_view to = tw_lower_scratch(l, "scattered", v->type, v->rank, v->dims, NULL);
    if (l->failed || !tw_lower_tuples(l, &tuples, v->dims, &places) || !as_rows(l, &data, depth, &s.data) ||
        !as_rows(l, &updates, before, &s.updates) || !as_rows(l, &to, depth, &s.to))
        return false;
    const int64_t count = tw_view_elements(&places);
    tw_lazy flat = tw_lazy_of_view(&places);
    if (!tw_lazy_reshape(&flat, 1, &count)) return false;
    tw_lazy_expand(&flat, 2, (const int64_t[]){s.to.dims[0], count});
    s.places = tw_lazy_view(&flat);
    if (!by_reduction(l, n, &s)) return false;
    tw_lower_set_view(l, n->out[0], &to);
    return true;
}

/* Rows of a cache from a place on that each sequence has, which may go round. */
static bool tensor(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->out[0]);
    const int axis = tw_axis(tw_node_integer(n, "axis", -2), v->rank), first = n->n_in > 2 ? n->in[2] : -1;
    const bool circular = !strcmp(tw_node_text(n, "mode", "linear"), "circular");
    tw_view data, updates, starts;
    tw_memory_type type;
    if (axis < 1 || !tw_memory_of(v->type, &type) || !tw_lower_in_memory(l, n->in[0], &data) ||
        !tw_lower_in_memory(l, n->in[1], &updates))
        return false;
    const int64_t rows[] = {v->dims[0], v->dims[axis]}, of_each[] = {v->dims[0], 1};
    tw_lazy x = tw_lazy_begin(TW_E_i64, 2, rows);
    tw_cells *c = &x.cells;
    int start = tw_cells_integer(c, 0);
    if (first >= 0) {
        if (!tw_lower_in_memory(l, first, &starts)) return false;
        tw_lazy each = tw_lazy_of_view(&starts);
        if (!tw_lazy_reshape(&each, 2, of_each)) return false;
        start = tw_lazy_add(&x, &each);
    }
    int at = tw_cells_apply(c, TW_CELL_sub, tw_lower_index(l, &x, 1), start, -1);
    if (circular) at = tw_cells_apply(c, TW_CELL_mod, at, tw_cells_integer(c, rows[1]), -1);
    /* What lies before the first row is none, and not one from the end. */
    const int before = tw_cells_apply(c, TW_CELL_less, at, tw_cells_integer(c, 0), -1);
    c->value = tw_cells_apply(c, TW_CELL_where, before, tw_cells_integer(c, INT32_MAX), at);
    tw_view by = tw_lower_scratch(l, "rows", TW_E_i64, 2, rows, NULL);
    if (c->value < 0 || l->failed || !tw_lower_store(l, &x, &by)) return false;
    tw_lazy y = tw_lazy_begin(v->type, v->rank, v->dims);
    const tw_lazy old = tw_lazy_of_view(&data);
    if (!tw_lower_gathered(&updates, axis, &by, &y)) return false;
    y.of[0].strides[0] = by.strides[0];
    y.of[0].strides[axis] = by.strides[1];
    for (int i = 0; i < v->rank; i++) y.of[1].strides[i] = i == axis ? 0 : updates.strides[i];
    c = &y.cells;
    const int update = c->value, which = tw_cells_operand(c, 0, TW_M_i64);
    const int some = tw_cells_apply(c, TW_CELL_less, which, tw_cells_integer(c, updates.dims[axis]), -1);
    c->value = tw_cells_apply(c, TW_CELL_where, some, update, tw_lazy_add(&y, &old));
    if (c->value < 0) return false;
    tw_lower_set(l, n->out[0], &y);
    return true;
}

/* Places of a cache, or their number where they are beyond `known`, so that what gathers by them reads no more: 0 <
   known < places. Layers share them. */
static int known_places(tw_lowering *l, int64_t known, int64_t places) {
    static const char name[] = "known places";
    for (int i = 0; i < l->p->n_buffers; i++) {
        const tw_program_buffer *b = &l->p->buffers[i];
        const int32_t *old = b->name == name ? b->content : NULL;
        if (old && b->bytes == places * 4 && old[known - 1] < known && old[known] == places) return i;
    }
    int32_t *all = tw_arena_array(&l->p->arena, (size_t)places + 1, sizeof *all);
    if (!all || places > INT32_MAX) return -1;
    for (int64_t i = 0; i < places; i++) all[i] = (int32_t)(i < known ? i : places);
    return tw_lower_constant(l, name, all, places * 4);
}

/* Adds the rows of the past as a cell, and zeros where there are none. */
static int past_of(tw_lowering *l, tw_lazy *y, int value) {
    tw_view past;
    tw_memory_type type;
    if (value < 0) return tw_cells_real(&y->cells, 0);
    if (!tw_lower_in_memory(l, value, &past) || !tw_memory_of(past.type, &type)) return -1;
    const tw_lazy all = tw_lazy_of_view(&past);
    const int64_t known = past.dims[2], places = y->dims[2];
    if (known == places) return tw_lazy_add(y, &all);
    if (!known) return tw_cells_real(&y->cells, 0);
    const int buffer = known_places(l, known, places), at = y->n;
    if (buffer < 0 || at + 2 > TW_POINT_OPERANDS) return -1;
    y->of[at] = (tw_source){.buffer = buffer, .type = TW_E_i32, .by = -1};
    y->of[at].strides[2] = 1;
    y->of[at + 1] = (tw_source){.buffer = past.buffer,
                                .offset = past.offset,
                                .type = past.type,
                                .by = at,
                                .gather_stride = past.strides[2],
                                .table = {.dims = {known}}};
    for (int i = 0; i < 4; i++) y->of[at + 1].strides[i] = i == 2 ? 0 : past.strides[i];
    y->n += 2;
    const int row = tw_cells_operand(&y->cells, at + 1, type), place = tw_cells_operand(&y->cells, at, TW_M_i32);
    const int some = tw_cells_apply(&y->cells, TW_CELL_less, place, tw_cells_integer(&y->cells, known), -1);
    return tw_cells_apply(&y->cells, TW_CELL_where, some, row, tw_cells_real(&y->cells, 0));
}

/* Keys or values of a cache: new rows from a place on that each sequence has, and those of the past before them. */
static bool cache(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->out[0]);
    tw_view fresh, by;
    tw_memory_type type;
    if (tw_element_kind(v->type) != TW_KIND_real || !tw_memory_of(v->type, &type) ||
        !tw_lower_heads(l, n->in[0], tw_node_integer(n, "kv_num_heads", 0), &fresh) ||
        !tw_lower_in_memory(l, n->in[1], &by) || !tw_memory_of(by.type, &type))
        return false;
    tw_lazy y = tw_lazy_begin(v->type, 4, v->dims);
    if (!tw_lower_gathered(&fresh, 2, &by, &y)) return false;
    y.of[0].strides[0] = by.dims[0] == 1 ? 0 : by.strides[0];
    y.of[0].strides[2] = by.strides[1];
    for (int i = 0; i < 4; i++) y.of[1].strides[i] = i == 2 ? 0 : fresh.strides[i];
    tw_cells *c = &y.cells;
    const int row = c->value, which = tw_cells_operand(c, 0, type), none = tw_cells_integer(c, 0);
    const int past = past_of(l, &y, n->n_in > 2 ? n->in[2] : -1);
    const int before = tw_cells_apply(c, TW_CELL_less, which, none, -1);
    const int some = tw_cells_apply(c, TW_CELL_less, which, tw_cells_integer(c, fresh.dims[2]), -1);
    const int behind = tw_cells_apply(c, TW_CELL_where, some, row, tw_cells_real(c, 0));
    c->value = tw_cells_apply(c, TW_CELL_where, before, past, behind);
    if (past < 0 || c->value < 0 || c->failed) return false;
    tw_lower_set(l, n->out[0], &y);
    return !l->failed;
}

bool tw_lower_scatter(tw_lowering *l, const tw_node *n) {
    if (tw_is_op(n, "tilewright", "Cache")) return cache(l, n);
    if (tw_is_op(n, "", "TensorScatter")) return tensor(l, n);
    if (!l->options.gpu) return false;
    if (tw_is_op(n, "", "ScatterElements") || tw_is_op(n, "", "Scatter")) return elements(l, n);
    return tw_is_op(n, "", "ScatterND") && nd(l, n);
}
