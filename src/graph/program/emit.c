/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that store arrays, and the buffers that they store to. */
#include "graph/program/lower.h"
#include "graph/program/norms.h"

#include <stdlib.h>

tw_view tw_lower_scratch(tw_lowering *l, const char *name, tw_element type, int rank, const int64_t *dims,
                         const int *order) {
    tw_view v = {.type = type, .rank = rank};
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        const int d = order ? order[i] : i;
        v.dims[d] = dims[d];
        v.strides[d] = stride;
        stride *= dims[d];
    }
    const tw_program_buffer b = {.name = name,
                                 .kind = TW_PROGRAM_SCRATCH,
                                 .bytes = stride * (tw_element_bits(type) / 8),
                                 .number = -1,
                                 .offset = -1};
    v.buffer = tw_program_add_buffer(l->p, &b);
    l->failed |= v.buffer < 0;
    return v;
}

int tw_lower_constant(tw_lowering *l, const char *name, const void *content, int64_t bytes) {
    return tw_lower_made(l, name, tw_made_copy(l->made, content, bytes), bytes);
}

int tw_lower_made(tw_lowering *l, const char *name, const void *content, int64_t bytes) {
    const tw_program_buffer b = {.name = name,
                                 .kind = TW_PROGRAM_CONSTANT,
                                 .bytes = bytes,
                                 .content = content,
                                 .own = l->made == &l->p->made,
                                 .number = -1,
                                 .offset = -1};
    const int number = content ? tw_program_add_buffer(l->p, &b) : -1;
    l->failed |= number < 0;
    return number;
}

bool tw_lower_keep(tw_lowering *l, tw_made *m) {
    if (l->failed)
        tw_made_drop(m);
    else
        l->failed = !tw_made_add(l->made, m);
    return !l->failed && m->data;
}

/* The order in memory of a value that only a transposition wants, after which it is dense. NULL: there is none. */
static const int *order_for(const tw_lowering *l, int value, int order[TW_ARRAY_RANK]) {
    const tw_value *v = tw_lower_of(l, value);
    if (l->uses[value] != 1 || l->consumers[value] < 0) return NULL;
    const tw_node *n = &l->g->nodes[l->consumers[value]];
    const tw_attribute *a = tw_node_attribute(n, "perm");
    if (!tw_is_op(n, "", "Transpose") || !a || a->kind != TW_ATTRIBUTE_ARRAY || a->array->dims[0] != v->rank)
        return NULL;
    for (int i = 0; i < v->rank; i++) order[i] = (int)tw_array_integer(a->array, i);
    return v->rank && order[v->rank - 1] == v->rank - 1 ? order : NULL;
}

tw_view tw_lower_target(tw_lowering *l, int value) {
    const tw_value *v = tw_lower_of(l, value);
    int order[TW_ARRAY_RANK];
    if (l->targets[value].buffer >= 0) return l->targets[value];
    return tw_lower_scratch(l, v->name, v->type, v->rank, v->dims, order_for(l, value, order));
}

void tw_lower_step(tw_lowering *l, tw_step_kind kind, const tw_step *s, const tw_view *in, int n_in, const tw_view *out,
                   int n_out) {
    tw_step step = *s;
    step.kind = kind;
    step.in = (tw_view *)in;
    step.n_in = n_in;
    step.out = (tw_view *)out;
    step.n_out = n_out;
    step.origin = tw_lower_node(l);
    l->failed |= tw_program_add_step(l->p, &step) < 0;
}

tw_point_operand tw_lower_operand(const tw_lowering *l, const tw_view *v, int rank, const int64_t *strides) {
    enum { MOST = 16 };
    tw_point_operand o = {.align = MOST};
    tw_memory_of(v->type, &o.type);
    while (v->offset % o.align) o.align /= 2;
    o.constant = l->p->buffers[v->buffer].kind == TW_PROGRAM_CONSTANT;
    if (rank) memcpy(o.strides, strides, (size_t)rank * sizeof *strides);
    return o;
}

/* Cuts a long row into several, so that workers share it. */
static int cut(int rank, int64_t *dims, int64_t *const *strides, int n) {
    enum { LONG = 4096, ROW = 2048, EIGHT = 8, LEAST = 64 };
    if (!rank || rank == TW_POINT_RANK || dims[rank - 1] <= LONG) return rank;
    int64_t row = 0;
    for (int64_t c = ROW; c >= LEAST && !row; c--)
        if (dims[rank - 1] % c == 0 && c % EIGHT == 0) row = c;
    for (int64_t c = ROW; c >= LEAST && !row; c--)
        if (dims[rank - 1] % c == 0) row = c;
    if (!row) return rank;
    dims[rank] = row;
    dims[rank - 1] /= row;
    for (int s = 0; s < n; s++) {
        strides[s][rank] = strides[s][rank - 1];
        strides[s][rank - 1] *= row;
    }
    return rank + 1;
}

bool tw_lower_points(tw_lowering *l, const tw_lazy *x, int keep, int64_t *const *also, int n_also, tw_points *out) {
    enum { MOST = TW_POINT_OPERANDS + 8 };
    int64_t dims[TW_ARRAY_RANK], own[TW_POINT_OPERANDS][TW_ARRAY_RANK], *strides[MOST];
    tw_lazy opened = *x;
    if (!tw_lazy_open(&opened) || n_also > MOST - TW_POINT_OPERANDS) return false;
    memcpy(dims, x->dims, sizeof dims);
    for (int i = 0; i < x->n; i++) {
        memcpy(own[i], x->of[i].strides, sizeof own[i]);
        strides[i] = own[i];
    }
    for (int i = 0; i < n_also; i++) strides[x->n + i] = also[i];
    int rank = tw_collapse(x->rank, dims, strides, x->n + n_also, x->rank - keep);
    if (!keep) rank = cut(rank, dims, strides, x->n + n_also);
    if (rank > TW_POINT_RANK) return false;
    *out = (tw_points){.rank = rank, .n_operands = x->n, .cells = opened.cells};
    if (rank) memcpy(out->dims, dims, (size_t)rank * sizeof *dims);
    for (int i = 0; i < out->cells.n; i++)
        if (out->cells.of[i].op == TW_CELL_index)
            out->cells.of[i].of[0] = (uint8_t)(out->cells.of[i].of[0] - (x->rank - rank));
    for (int i = 0; i < x->n; i++) {
        const tw_source *s = &x->of[i];
        const tw_view at = {.buffer = s->buffer, .offset = s->offset, .type = s->type};
        out->operands[i] = tw_lower_operand(l, &at, rank, own[i]);
        if (s->by < 0) continue;
        out->operands[i].gathers = true;
        out->operands[i].by = s->by;
        out->operands[i].gather_stride = s->gather_stride;
        out->operands[i].gather_extent = s->table.dims[0];
    }
    return true;
}

/* All that a source may read that gathers: the gathered dimension, and those that it is walked along. */
static tw_view gathered_view(const tw_lazy *x, const tw_source *s) {
    int64_t dims[TW_ARRAY_RANK], own[TW_ARRAY_RANK], *const strides[] = {own};
    tw_view v = {.buffer = s->buffer, .offset = s->offset, .type = s->type, .rank = 1};
    memcpy(dims, x->dims, sizeof dims);
    memcpy(own, s->strides, sizeof own);
    const int rank = tw_collapse(x->rank, dims, strides, 1, x->rank);
    v.dims[0] = s->table.dims[0];
    v.strides[0] = s->gather_stride;
    for (int i = 0; i < rank && v.rank < TW_ARRAY_RANK; i++) {
        if (!own[i]) continue;
        v.dims[v.rank] = dims[i];
        v.strides[v.rank++] = own[i];
    }
    return v;
}

int tw_lower_point_views(const tw_lazy *x, tw_view *out) {
    for (int i = 0; i < x->n; i++) {
        const tw_source *s = &x->of[i];
        out[i] = (tw_view){.buffer = s->buffer, .offset = s->offset, .type = s->type, .rank = x->rank};
        memcpy(out[i].dims, x->dims, sizeof x->dims);
        memcpy(out[i].strides, s->strides, sizeof s->strides);
        if (s->by >= 0) out[i] = gathered_view(x, s);
    }
    return x->n;
}

/* Converts an array's value to the class that a type has in memory. */
static bool convert(tw_lazy *x, tw_element to) {
    return tw_lazy_open(x) && (x->cells.value = tw_lazy_cast(x, x->cells.value, x->type, to)) >= 0;
}

/* Tells whether elements are copied as integers of their size. That holds for types that kernels do not know, and for
   f64, which processors have no vectors of. */
static bool moves_as_bits(const tw_lazy *x, tw_element to) {
    tw_memory_type unused;
    return !tw_memory_of(to, &unused) || (to == TW_E_f64 && x->type == to && tw_lazy_is_view(x));
}

/* Stores a view of such elements. */
static bool store_bits(tw_lowering *l, const tw_lazy *x, const tw_view *to) {
    tw_lazy bits = *x;
    tw_view bits_to = *to;
    if (!tw_lazy_is_view(x) || x->type != to->type || tw_element_bits(to->type) != 64) return false;
    bits.type = bits.of[0].type = bits_to.type = TW_E_i64;
    return tw_lower_store(l, &bits, &bits_to);
}

/* Turns an array and where it is stored so that rows follow one another as they lie in memory. Elements of a row stay
   together. */
static void turn_to_memory(tw_lazy *x, tw_view *to) {
    int order[TW_ARRAY_RANK];
    for (int i = 0; i < x->rank; i++) {
        int at = i;
        for (; i + 1 < x->rank && at > 0 && llabs(to->strides[order[at - 1]]) < llabs(to->strides[i]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    tw_lazy turned = tw_lazy_of_view(to);
    tw_lazy_transpose(x, order);
    tw_lazy_transpose(&turned, order);
    *to = tw_lazy_view(&turned);
}

bool tw_lower_store(tw_lowering *l, const tw_lazy *x, const tw_view *place) {
    tw_map_problem *map = tw_arena_alloc(&l->p->arena, sizeof *map);
    tw_lazy converted = *x;
    tw_view to = *place;
    int64_t strides[TW_ARRAY_RANK], *also[] = {strides};
    l->failed |= !map;
    if (!map) return false;
    if (!tw_view_elements(&to)) return true;
    if (moves_as_bits(x, to.type)) return store_bits(l, x, place);
    if (!convert(&converted, to.type)) return false;
    turn_to_memory(&converted, &to);
    memcpy(strides, to.strides, sizeof strides);
    if (!tw_lower_points(l, &converted, 0, also, 1, &map->x)) return false;
    map->out = tw_lower_operand(l, &to, map->x.rank, strides);
    map->out.constant = false;
    tw_view in[TW_POINT_OPERANDS];
    const int n = tw_lower_point_views(&converted, in);
    tw_lower_step(l, TW_STEP_MAP, &(tw_step){.of.map = map}, in, n, &to, 1);
    return true;
}

void tw_lower_set(tw_lowering *l, int value, const tw_lazy *x) {
    if (!l->values[value]) l->values[value] = tw_arena_alloc(&l->p->arena, sizeof *x);
    if (l->values[value])
        *l->values[value] = *x;
    else
        l->failed = true;
}

void tw_lower_set_view(tw_lowering *l, int value, const tw_view *v) {
    const tw_lazy x = tw_lazy_of_view(v);
    tw_lower_set(l, value, &x);
}

const tw_lazy *tw_lower_peek(tw_lowering *l, int value) {
    if (value < 0) return NULL;
    if (l->norms[value]) tw_norm_store(l, value);
    if (l->values[value] || !l->g->values[value].content) return l->values[value];
    const tw_array *a = l->g->values[value].content;
    const tw_program_buffer b = {.name = l->g->values[value].name,
                                 .kind = TW_PROGRAM_CONSTANT,
                                 .bytes = tw_array_bytes(a),
                                 .content = a->data,
                                 .number = -1,
                                 .offset = -1};
    const tw_view v = tw_view_dense(tw_program_add_buffer(l->p, &b), a->type, a->rank, a->dims);
    l->failed |= v.buffer < 0;
    if (v.buffer >= 0) tw_lower_set_view(l, value, &v);
    return l->values[value];
}

bool tw_lower_in_memory(tw_lowering *l, int value, tw_view *out) {
    const tw_lazy *x = tw_lower_peek(l, value);
    if (!x) return false;
    if (!tw_lazy_is_view(x)) {
        const tw_view to = tw_lower_target(l, value);
        if (l->failed || !tw_lower_store(l, x, &to)) return false;
        tw_lower_set_view(l, value, &to);
    }
    *out = tw_lazy_view(l->values[value]);
    return !l->failed;
}

const tw_lazy *tw_lower_take(tw_lowering *l, int value) {
    const tw_lazy *x = tw_lower_peek(l, value);
    tw_view unused;
    if (x && l->uses[value] > 1 && !tw_lazy_is_view(x) && !tw_lower_in_memory(l, value, &unused)) return NULL;
    return x ? l->values[value] : NULL;
}

bool tw_lower_reshape(tw_lowering *l, tw_lazy *x, int rank, const int64_t *dims) {
    if (tw_lazy_reshape(x, rank, dims)) return true;
    const tw_view copy = tw_lower_scratch(l, "copy", x->type, x->rank, x->dims, NULL);
    if (l->failed || !tw_lower_store(l, x, &copy)) return false;
    *x = tw_lazy_of_view(&copy);
    return tw_lazy_reshape(x, rank, dims);
}

bool tw_lower_stored(tw_lowering *l, const tw_lazy *x, const char *name, const int *order, tw_view *out) {
    if (tw_lazy_is_view(x)) {
        *out = tw_lazy_view(x);
        return true;
    }
    *out = tw_lower_scratch(l, name, x->type, x->rank, x->dims, order);
    return !l->failed && tw_lower_store(l, x, out);
}
