/* SPDX-License-Identifier: Apache-2.0 */
/* Operators whose places in arrays are operands. Places below 0 count from the end. A place that is none of the array's
   is an error, found when contents are computed. */
#include "graph/ops/move.h"

#include <math.h>
#include <string.h>

static bool are_indices(const tw_array *a) {
    return a->type == TW_E_i32 || a->type == TW_E_i64;
}

/* Reads a place along a dimension of n elements. -1: it is none. */
static int64_t place(const tw_array *indices, int64_t i, int64_t n) {
    const int64_t at = tw_array_integer(indices, i);
    return at < -n || at >= n ? -1 : at < 0 ? at + n : at;
}

static tw_status outside(const tw_call *c, const tw_array *indices, int64_t i) {
    return tw_call_fail(c, TW_ERR_FORMAT, "index %lld is not within its dimension",
                        (long long)tw_array_integer(indices, i));
}

/* ---- Gather */

tw_status tw_gather_shape(tw_call *c) {
    const tw_array *a = c->in[0], *b = c->in[1];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", 0), a->rank);
    if (axis < 0 || !are_indices(b)) return tw_call_fail(c, TW_ERR_FORMAT, "has no such axis, or no indices");
    if (a->rank + b->rank - 1 > TW_ARRAY_RANK) return tw_call_fail(c, TW_ERR_UNSUPPORTED, "has too many dimensions");
    tw_array *out = &c->out[0];
    *out = (tw_array){.type = a->type};
    for (int i = 0; i < axis; i++) out->dims[out->rank++] = a->dims[i];
    for (int i = 0; i < b->rank; i++) out->dims[out->rank++] = b->dims[i];
    for (int i = axis + 1; i < a->rank; i++) out->dims[out->rank++] = a->dims[i];
    return tw_call_whole_bytes(c, a);
}

tw_status tw_gather_compute(tw_call *c) {
    const tw_array *a = c->in[0], *b = c->in[1];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", 0), a->rank);
    const int64_t before = tw_extent(a, 0, axis), n = tw_array_elements(b);
    const size_t row = (size_t)tw_extent(a, axis + 1, a->rank) * tw_element_bytes(a);
    char *to = tw_call_out(c, 0);
    for (int64_t i = 0; i < before; i++)
        for (int64_t j = 0; j < n; j++, to += row) {
            const int64_t at = place(b, j, a->dims[axis]);
            if (at < 0) return outside(c, b, j);
            if (row) memcpy(to, (const char *)a->data + (size_t)(i * a->dims[axis] + at) * row, row);
        }
    return TW_OK;
}

/* ---- GatherElements, ScatterElements */

tw_status tw_gather_elements_shape(tw_call *c) {
    const tw_array *a = c->in[0], *b = c->in[1];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", 0), a->rank);
    if (axis < 0 || b->rank != a->rank || !are_indices(b)) return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    for (int i = 0; i < a->rank; i++)
        if (i != axis && b->dims[i] > a->dims[i]) return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    c->out[0] = *b;
    c->out[0].data = NULL;
    c->out[0].type = a->type;
    return tw_call_whole_bytes(c, a);
}

/* Finds the element of `a` that an index of `b` means. -1: there is none. */
static int64_t element_at(const tw_array *a, const tw_array *b, const int64_t index[TW_ARRAY_RANK], int axis) {
    int64_t of_a[TW_ARRAY_RANK], of_b[TW_ARRAY_RANK], at = 0, in_b = 0;
    tw_strides(a, of_a);
    tw_strides(b, of_b);
    for (int i = 0; i < b->rank; i++) in_b += index[i] * of_b[i];
    const int64_t chosen = place(b, in_b, a->dims[axis]);
    if (chosen < 0) return -1;
    for (int i = 0; i < a->rank; i++) at += (i == axis ? chosen : index[i]) * of_a[i];
    return at;
}

tw_status tw_gather_elements_compute(tw_call *c) {
    const tw_array *a = c->in[0], *b = c->in[1];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", 0), a->rank);
    const size_t es = tw_element_bytes(a);
    int64_t index[TW_ARRAY_RANK] = {0}, i = 0;
    char *to = tw_call_out(c, 0);
    if (!tw_array_elements(b)) return TW_OK;
    do {
        const int64_t at = element_at(a, b, index, axis);
        if (at < 0) return outside(c, b, i);
        memcpy(to + (size_t)i++ * es, (const char *)a->data + (size_t)at * es, es);
    } while (tw_index_next(b, index));
    return TW_OK;
}

typedef enum reduction { REDUCE_none, REDUCE_add, REDUCE_mul, REDUCE_max, REDUCE_min, REDUCTIONS } reduction;

static reduction reduction_of(const tw_call *c) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    int r = 0;
    while (r < REDUCTIONS && strcmp(names[r], tw_node_text(c->node, "reduction", "none")) != 0) r++;
    return (reduction)r;
}

/* Combines element `at` of a result with element i of the updates. */
static void update(tw_call *c, reduction r, int64_t at, const tw_array *updates, int64_t i) {
    tw_array *out = &c->out[0];
    const size_t es = tw_element_bytes(out);
    if (r == REDUCE_none) {
        memcpy((char *)tw_call_out(c, 0) + (size_t)at * es, (const char *)updates->data + (size_t)i * es, es);
    } else if (tw_element_kind(out->type) == TW_KIND_real) {
        double x = tw_array_real(out, at);
        const double y = tw_array_real(updates, i);
        if (r == REDUCE_add || isnan(x) || isnan(y))
            x += y;
        else
            x = r == REDUCE_mul ? x * y : r == REDUCE_max ? fmax(x, y) : fmin(x, y);
        tw_array_set_reals(out->type, tw_call_out(c, 0), at, 1, &x);
    } else {
        const int64_t x = tw_array_integer(out, at), y = tw_array_integer(updates, i);
        const bool more = out->type == TW_E_u64 ? (uint64_t)x > (uint64_t)y : x > y;
        const int64_t z = r == REDUCE_add   ? (int64_t)((uint64_t)x + (uint64_t)y)
                          : r == REDUCE_mul ? (int64_t)((uint64_t)x * (uint64_t)y)
                          : r == REDUCE_max ? (more ? x : y)
                                            : (more ? y : x);
        tw_array_set_integers(out->type, tw_call_out(c, 0), at, 1, &z);
    }
}

static tw_status scatter_shape(tw_call *c) {
    const tw_array *a = c->in[0];
    c->out[0] = *a;
    c->out[0].data = NULL;
    if (c->in[2]->type != a->type || !are_indices(c->in[1]) || reduction_of(c) == REDUCTIONS)
        return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    return tw_element_kind(a->type) == TW_KIND_other ? tw_call_refuse_type(c, a->type) : TW_OK;
}

tw_status tw_scatter_elements_shape(tw_call *c) {
    const tw_array *a = c->in[0], *b = c->in[1], *updates = c->in[2];
    bool fits =
        tw_axis(tw_node_integer(c->node, "axis", 0), a->rank) >= 0 && b->rank == a->rank && updates->rank == a->rank;
    for (int i = 0; i < a->rank && fits; i++) fits = b->dims[i] == updates->dims[i];
    return fits ? scatter_shape(c) : tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
}

tw_status tw_scatter_elements_compute(tw_call *c) {
    const tw_array *a = c->in[0], *b = c->in[1];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", 0), a->rank);
    int64_t index[TW_ARRAY_RANK] = {0}, i = 0;
    if (tw_array_bytes(a)) memcpy(tw_call_out(c, 0), a->data, (size_t)tw_array_bytes(a));
    if (!tw_array_elements(b)) return TW_OK;
    do {
        for (int d = 0; d < a->rank; d++)
            if (d != axis && index[d] >= a->dims[d]) return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
        const int64_t at = element_at(a, b, index, axis);
        if (at < 0) return outside(c, b, i);
        update(c, reduction_of(c), at, c->in[2], i++);
    } while (tw_index_next(b, index));
    return TW_OK;
}

/* ---- GatherND, ScatterND */

/* Finds the first element of the row of `a` that tuple number `i` of the indices means, behind `batch` dimensions. */
static int64_t row_at(const tw_array *a, const tw_array *b, int64_t i, int64_t batch_at, int batch) {
    const int64_t depth = b->dims[b->rank - 1];
    int64_t strides[TW_ARRAY_RANK], at = batch_at;
    tw_strides(a, strides);
    for (int64_t d = 0; d < depth; d++) {
        const int64_t x = place(b, i * depth + d, a->dims[batch + d]);
        if (x < 0) return -1;
        at += x * strides[batch + d];
    }
    return at;
}

tw_status tw_gather_nd_shape(tw_call *c) {
    const tw_array *a = c->in[0], *b = c->in[1];
    const int64_t batch = tw_node_integer(c->node, "batch_dims", 0);
    const int64_t depth = b->rank ? b->dims[b->rank - 1] : 0;
    bool fits = b->rank > 0 && are_indices(b) && batch >= 0 && batch < b->rank && batch + depth <= a->rank && depth > 0;
    for (int i = 0; i < batch && fits; i++) fits = a->dims[i] == b->dims[i];
    if (!fits || b->rank - 1 + a->rank - batch - depth > TW_ARRAY_RANK)
        return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    tw_array *out = &c->out[0];
    *out = (tw_array){.type = a->type};
    for (int i = 0; i < b->rank - 1; i++) out->dims[out->rank++] = b->dims[i];
    for (int i = (int)(batch + depth); i < a->rank; i++) out->dims[out->rank++] = a->dims[i];
    return tw_call_whole_bytes(c, a);
}

tw_status tw_gather_nd_compute(tw_call *c) {
    const tw_array *a = c->in[0], *b = c->in[1];
    const int batch = (int)tw_node_integer(c->node, "batch_dims", 0), depth = (int)b->dims[b->rank - 1];
    const int64_t batches = tw_extent(a, 0, batch), of_batch = tw_extent(a, batch, a->rank);
    const int64_t tuples = tw_extent(b, batch, b->rank - 1);
    const size_t es = tw_element_bytes(a), row = (size_t)tw_extent(a, batch + depth, a->rank) * es;
    char *to = tw_call_out(c, 0);
    for (int64_t i = 0; i < batches * tuples; i++, to += row) {
        const int64_t at = row_at(a, b, i, i / tuples * of_batch, batch);
        if (at < 0) return tw_call_fail(c, TW_ERR_FORMAT, "an index is not within its dimension");
        if (row) memcpy(to, (const char *)a->data + (size_t)at * es, row);
    }
    return TW_OK;
}

tw_status tw_scatter_nd_shape(tw_call *c) {
    const tw_array *a = c->in[0], *b = c->in[1], *updates = c->in[2];
    const int64_t depth = b->rank ? b->dims[b->rank - 1] : 0;
    int64_t n;
    if (!b->rank || depth < 1 || depth > a->rank ||
        __builtin_mul_overflow(tw_extent(b, 0, b->rank - 1), tw_extent(a, (int)depth, a->rank), &n) ||
        tw_array_elements(updates) != n)
        return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    return scatter_shape(c);
}

tw_status tw_scatter_nd_compute(tw_call *c) {
    const tw_array *a = c->in[0], *b = c->in[1];
    const int64_t tuples = tw_extent(b, 0, b->rank - 1), row = tw_extent(a, (int)b->dims[b->rank - 1], a->rank);
    if (tw_array_bytes(a)) memcpy(tw_call_out(c, 0), a->data, (size_t)tw_array_bytes(a));
    for (int64_t i = 0; i < tuples; i++) {
        const int64_t at = row_at(a, b, i, 0, 0);
        if (at < 0) return tw_call_fail(c, TW_ERR_FORMAT, "an index is not within its dimension");
        for (int64_t j = 0; j < row; j++) update(c, reduction_of(c), at + j, c->in[2], i * row + j);
    }
    return TW_OK;
}

/* ---- OneHot, EyeLike, CumSum */

tw_status tw_one_hot_shape(tw_call *c) {
    const tw_array *a = c->in[0], *values = c->in[2];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", -1), a->rank + 1);
    int64_t depth;
    const tw_status st = tw_call_one(c, 1, 0, &depth);
    if (st != TW_OK) return st;
    if (axis < 0 || a->rank == TW_ARRAY_RANK || depth < 0 || tw_array_elements(values) != 2 ||
        tw_element_kind(a->type) == TW_KIND_other)
        return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    tw_array *out = &c->out[0];
    *out = (tw_array){.type = values->type};
    for (int i = 0; i <= a->rank; i++)
        out->dims[out->rank++] = i < axis ? a->dims[i] : i == axis ? depth : a->dims[i - 1];
    return tw_call_whole_bytes(c, values);
}

tw_status tw_one_hot_compute(tw_call *c) {
    const tw_array *a = c->in[0], *out = &c->out[0], *values = c->in[2];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", -1), a->rank + 1);
    const int64_t depth = out->dims[axis], behind = tw_extent(out, axis + 1, out->rank), n = tw_array_elements(out);
    const size_t es = tw_element_bytes(values);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i / behind % depth, from = i / behind / depth * behind + i % behind;
        int64_t x = tw_array_integer(a, from);
        if (x < 0) x += depth;
        memcpy((char *)tw_call_out(c, 0) + (size_t)i * es, (const char *)values->data + (x == at ? es : 0), es);
    }
    return TW_OK;
}

tw_status tw_eye_like_shape(tw_call *c) {
    const int64_t number = tw_node_integer(c->node, "dtype", 0);
    c->out[0] = *c->in[0];
    c->out[0].data = NULL;
    if (number && !tw_element_from_onnx(number, &c->out[0].type)) return tw_call_fail(c, TW_ERR_FORMAT, "has no type");
    if (c->in[0]->rank != 2) return tw_call_fail(c, TW_ERR_FORMAT, "the operand is no matrix");
    return tw_element_kind(c->out[0].type) == TW_KIND_other ? tw_call_refuse_type(c, c->out[0].type) : TW_OK;
}

tw_status tw_eye_like_compute(tw_call *c) {
    const int64_t k = tw_node_integer(c->node, "k", 0), columns = c->out[0].dims[1], n = tw_array_elements(&c->out[0]);
    for (int64_t i = 0; i < n; i++) {
        const int64_t x = i % columns - i / columns == k;
        tw_array_set_integers(c->out[0].type, tw_call_out(c, 0), i, 1, &x);
    }
    return TW_OK;
}

tw_status tw_cum_sum_shape(tw_call *c) {
    c->out[0] = *c->in[0];
    c->out[0].data = NULL;
    if (!are_indices(c->in[1]) || tw_array_elements(c->in[1]) != 1)
        return tw_call_fail(c, TW_ERR_FORMAT, "has no axis");
    return tw_element_kind(c->in[0]->type) == TW_KIND_other ? tw_call_refuse_type(c, c->in[0]->type) : TW_OK;
}

tw_status tw_cum_sum_compute(tw_call *c) {
    const tw_array *a = c->in[0];
    const int axis = tw_axis(tw_array_integer(c->in[1], 0), a->rank);
    const bool exclusive = tw_node_integer(c->node, "exclusive", 0), reverse = tw_node_integer(c->node, "reverse", 0);
    const bool product = !strcmp(c->node->op, "CumProd"), real = tw_element_kind(a->type) == TW_KIND_real;
    if (axis < 0) return tw_call_fail(c, TW_ERR_FORMAT, "has no such axis");
    const int64_t n = a->dims[axis], behind = tw_extent(a, axis + 1, a->rank), lines = n ? tw_array_elements(a) / n : 0;
    for (int64_t line = 0; line < lines; line++) {
        const int64_t first = line / behind * behind * n + line % behind;
        double sum = product;
        int64_t whole = product;
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = first + (reverse ? n - 1 - i : i) * behind;
            const double before = sum, x = tw_array_real(a, at);
            const int64_t whole_before = whole, y = tw_array_integer(a, at);
            sum = product ? sum * x : sum + x;
            whole = (int64_t)(product ? (uint64_t)whole * (uint64_t)y : (uint64_t)whole + (uint64_t)y);
            if (real)
                tw_array_set_reals(a->type, tw_call_out(c, 0), at, 1, exclusive ? &before : &sum);
            else
                tw_array_set_integers(a->type, tw_call_out(c, 0), at, 1, exclusive ? &whole_before : &whole);
        }
    }
    return TW_OK;
}
