/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ops/move.h"

#include <string.h>

/* Copies elements of `a` to a result in order, from the places that strides and a beginning give. */
static void copy_strided(tw_call *c, int result, const tw_array *a, const int64_t strides[TW_ARRAY_RANK],
                         int64_t begin) {
    const tw_array *out = &c->out[result];
    const size_t es = tw_element_bytes(a);
    int64_t index[TW_ARRAY_RANK] = {0};
    char *to = tw_call_out(c, result);
    if (!tw_array_elements(out)) return;
    do {
        int64_t at = begin;
        for (int i = 0; i < out->rank; i++) at += index[i] * strides[i];
        memcpy(to, (const char *)a->data + (size_t)at * es, es);
        to += es;
    } while (tw_index_next(out, index));
}

/* ---- Transpose */

/* Finds the operand's dimension that each dimension of the result is. */
static tw_status order_of(const tw_call *c, int order[TW_ARRAY_RANK]) {
    const tw_attribute *perm = tw_node_attribute(c->node, "perm");
    const int rank = c->in[0]->rank;
    bool seen[TW_ARRAY_RANK] = {false};
    for (int i = 0; i < rank; i++) order[i] = rank - 1 - i;
    if (!perm) return TW_OK;
    if (perm->kind != TW_ATTRIBUTE_ARRAY || tw_array_elements(perm->array) != rank)
        return tw_call_fail(c, TW_ERR_FORMAT, "perm does not have the operand's %d dimensions", rank);
    for (int i = 0; i < rank; i++) {
        const int axis = tw_axis(tw_array_integer(perm->array, i), rank);
        if (axis < 0 || seen[axis]) return tw_call_fail(c, TW_ERR_FORMAT, "perm is no permutation");
        seen[axis] = true;
        order[i] = axis;
    }
    return TW_OK;
}

tw_status tw_transpose_shape(tw_call *c) {
    int order[TW_ARRAY_RANK];
    const tw_status st = order_of(c, order);
    if (st != TW_OK) return st;
    c->out[0] = (tw_array){.type = c->in[0]->type, .rank = c->in[0]->rank};
    for (int i = 0; i < c->in[0]->rank; i++) c->out[0].dims[i] = c->in[0]->dims[order[i]];
    return tw_call_whole_bytes(c, c->in[0]);
}

tw_status tw_transpose_compute(tw_call *c) {
    int order[TW_ARRAY_RANK];
    int64_t own[TW_ARRAY_RANK], strides[TW_ARRAY_RANK];
    order_of(c, order);
    tw_strides(c->in[0], own);
    for (int i = 0; i < c->in[0]->rank; i++) strides[i] = own[order[i]];
    copy_strided(c, 0, c->in[0], strides, 0);
    return TW_OK;
}

/* ---- Concat, Split */

tw_status tw_concat_shape(tw_call *c) {
    const tw_array *a = c->in[0];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", 1), a->rank);
    if (axis < 0) return tw_call_fail(c, TW_ERR_FORMAT, "has no such axis");
    c->out[0] = *a;
    c->out[0].data = NULL;
    for (int i = 1; i < c->n_in; i++) {
        const tw_array *b = c->in[i];
        bool fits = b && b->type == a->type && b->rank == a->rank;
        for (int d = 0; d < a->rank && fits; d++) fits = d == axis || b->dims[d] == a->dims[d];
        if (!fits) return tw_call_fail(c, TW_ERR_FORMAT, "operand %d does not fit", i);
        c->out[0].dims[axis] += b->dims[axis];
    }
    return tw_call_whole_bytes(c, a);
}

tw_status tw_concat_compute(tw_call *c) {
    const tw_array *out = &c->out[0];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", 1), out->rank);
    const int64_t before = tw_extent(out, 0, axis);
    const size_t es = tw_element_bytes(out), row = (size_t)tw_extent(out, axis, out->rank) * es;
    char *to = tw_call_out(c, 0);
    for (int i = 0; i < c->n_in; i++) {
        const size_t part = (size_t)tw_extent(c->in[i], axis, out->rank) * es;
        for (int64_t b = 0; b < before && part; b++)
            memcpy(to + (size_t)b * row, (const char *)c->in[i]->data + (size_t)b * part, part);
        to += part;
    }
    return TW_OK;
}

tw_status tw_split_shape(tw_call *c) {
    const tw_array *a = c->in[0];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", 0), a->rank);
    int64_t sizes[TW_OP_OPERANDS], sum = 0;
    int n = TW_OP_OPERANDS;
    bool given;
    if (axis < 0) return tw_call_fail(c, TW_ERR_FORMAT, "has no such axis");
    const tw_status st = tw_call_integers_or(c, 1, "split", sizes, &n, &given);
    if (st != TW_OK) return st;
    const int64_t all = a->dims[axis], parts = tw_node_integer(c->node, "num_outputs", c->n_out);
    if (!given) {
        if (parts < 1 || parts > TW_OP_OPERANDS) return tw_call_fail(c, TW_ERR_FORMAT, "has no parts");
        const int64_t size = (all + parts - 1) / parts; /* The last part may be smaller. */
        n = (int)parts;
        for (int i = 0; i < n; i++) sizes[i] = all - i * size < size ? (all - i * size > 0 ? all - i * size : 0) : size;
    }
    if (n != c->n_out) return tw_call_fail(c, TW_ERR_FORMAT, "has %d sizes for %d results", n, c->n_out);
    for (int i = 0; i < n; i++) {
        if (sizes[i] < 0 || sizes[i] > all - sum)
            return tw_call_fail(c, TW_ERR_FORMAT, "has a part of %lld, of %lld", (long long)sizes[i], (long long)all);
        sum += sizes[i];
        c->out[i] = *a;
        c->out[i].data = NULL;
        c->out[i].dims[axis] = sizes[i];
    }
    if (sum != all)
        return tw_call_fail(c, TW_ERR_FORMAT, "has parts of %lld in all, of %lld", (long long)sum, (long long)all);
    return tw_call_whole_bytes(c, a);
}

tw_status tw_split_compute(tw_call *c) {
    const tw_array *a = c->in[0];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", 0), a->rank);
    const int64_t before = tw_extent(a, 0, axis);
    const size_t es = tw_element_bytes(a), row = (size_t)tw_extent(a, axis, a->rank) * es;
    const char *from = a->data;
    for (int i = 0; i < c->n_out; i++) {
        const size_t part = (size_t)tw_extent(&c->out[i], axis, a->rank) * es;
        for (int64_t b = 0; b < before && part; b++)
            memcpy((char *)tw_call_out(c, i) + (size_t)b * part, from + (size_t)b * row, part);
        from += part;
    }
    return TW_OK;
}

/* ---- Slice */

typedef struct slice {
    int64_t begin[TW_ARRAY_RANK], step[TW_ARRAY_RANK], n[TW_ARRAY_RANK];
} slice;

static int64_t clamp(int64_t x, int64_t least, int64_t most) {
    return x < least ? least : x > most ? most : x;
}

/* Version 1 has starts, ends and axes as attributes. */
static tw_status slice_of(const tw_call *c, slice *s) {
    const tw_array *a = c->in[0];
    int64_t from[TW_ARRAY_RANK], to[TW_ARRAY_RANK], axes[TW_ARRAY_RANK], steps[TW_ARRAY_RANK];
    int n = TW_ARRAY_RANK, n_to = TW_ARRAY_RANK, n_axes = TW_ARRAY_RANK, n_steps = TW_ARRAY_RANK;
    bool given, has_axes, has_steps, seen[TW_ARRAY_RANK] = {false};
    tw_status st = tw_call_integers_or(c, 1, "starts", from, &n, &given);
    if (st == TW_OK) st = tw_call_integers_or(c, 2, "ends", to, &n_to, &given);
    if (st == TW_OK) st = tw_call_integers_or(c, 3, "axes", axes, &n_axes, &has_axes);
    if (st == TW_OK) st = tw_call_integers_or(c, 4, "steps", steps, &n_steps, &has_steps);
    if (st != TW_OK) return st;
    if (n_to != n || (has_axes && n_axes != n) || (has_steps && n_steps != n))
        return tw_call_fail(c, TW_ERR_FORMAT, "has not as many ends as starts");
    for (int i = 0; i < a->rank; i++) {
        s->begin[i] = 0;
        s->step[i] = 1;
        s->n[i] = a->dims[i];
    }
    for (int i = 0; i < n; i++) {
        const int axis = tw_axis(has_axes ? axes[i] : i, a->rank);
        const int64_t step = has_steps ? steps[i] : 1;
        if (axis < 0 || !step || step == INT64_MIN) return tw_call_fail(c, TW_ERR_FORMAT, "has no such axis or step");
        if (seen[axis]) return tw_call_fail(c, TW_ERR_FORMAT, "has an axis twice");
        seen[axis] = true;
        const int64_t all = a->dims[axis];
        int64_t begin = from[i] < 0 ? (from[i] < -all ? 0 : from[i] + all) : from[i];
        int64_t end = to[i] < 0 ? (to[i] < -all ? -1 : to[i] + all) : to[i];
        begin = step > 0 ? clamp(begin, 0, all) : clamp(begin, -1, all - 1);
        end = step > 0 ? clamp(end, 0, all) : clamp(end, -1, all - 1);
        const int64_t span = step > 0 ? end - begin : begin - end, by = step > 0 ? step : -step;
        s->begin[axis] = begin < 0 ? 0 : begin;
        s->n[axis] = span > 0 ? (span - 1) / by + 1 : 0;
        s->step[axis] = s->n[axis] > 1 ? step : 0; /* A step that is never taken may be too large to multiply. */
    }
    return TW_OK;
}

tw_status tw_slice_shape(tw_call *c) {
    slice s;
    const tw_status st = slice_of(c, &s);
    if (st != TW_OK) return st;
    c->out[0] = (tw_array){.type = c->in[0]->type, .rank = c->in[0]->rank};
    memcpy(c->out[0].dims, s.n, sizeof(int64_t) * (size_t)c->in[0]->rank);
    return tw_call_whole_bytes(c, c->in[0]);
}

tw_status tw_slice_compute(tw_call *c) {
    slice s;
    int64_t strides[TW_ARRAY_RANK], begin = 0;
    slice_of(c, &s);
    tw_strides(c->in[0], strides);
    for (int i = 0; i < c->in[0]->rank; i++) {
        begin += s.begin[i] * strides[i];
        strides[i] *= s.step[i];
    }
    copy_strided(c, 0, c->in[0], strides, begin);
    return TW_OK;
}

/* ---- Expand, Tile */

tw_status tw_expand_shape(tw_call *c) {
    tw_array to = {.type = c->in[0]->type};
    int n = TW_ARRAY_RANK;
    const tw_status st = tw_call_integers(c, 1, to.dims, &n);
    if (st != TW_OK) return st;
    to.rank = n;
    if (tw_array_elements(&to) < 0 || !tw_broadcast(c->in[0], &to, &c->out[0]))
        return tw_call_fail(c, TW_ERR_FORMAT, "is to extents that the operand does not fit");
    return tw_call_whole_bytes(c, c->in[0]);
}

tw_status tw_expand_compute(tw_call *c) {
    int64_t strides[TW_ARRAY_RANK];
    tw_broadcast_strides(c->in[0], &c->out[0], strides);
    copy_strided(c, 0, c->in[0], strides, 0);
    return TW_OK;
}

tw_status tw_tile_shape(tw_call *c) {
    int64_t times[TW_ARRAY_RANK];
    int n = TW_ARRAY_RANK;
    const tw_status st = tw_call_integers(c, 1, times, &n);
    if (st != TW_OK) return st;
    if (n != c->in[0]->rank) return tw_call_fail(c, TW_ERR_FORMAT, "has not a number for each dimension");
    c->out[0] = *c->in[0];
    c->out[0].data = NULL;
    for (int i = 0; i < n; i++) {
        if (times[i] < 0 || __builtin_mul_overflow(c->in[0]->dims[i], times[i], &c->out[0].dims[i]))
            return tw_call_fail(c, TW_ERR_FORMAT, "repeats %lld times", (long long)times[i]);
    }
    return tw_call_whole_bytes(c, c->in[0]);
}

tw_status tw_tile_compute(tw_call *c) {
    const tw_array *a = c->in[0], *out = &c->out[0];
    const size_t es = tw_element_bytes(a);
    int64_t index[TW_ARRAY_RANK] = {0}, strides[TW_ARRAY_RANK];
    char *to = tw_call_out(c, 0);
    if (!tw_array_elements(out)) return TW_OK;
    tw_strides(a, strides);
    do {
        int64_t at = 0;
        for (int i = 0; i < out->rank; i++) at += index[i] % a->dims[i] * strides[i];
        memcpy(to, (const char *)a->data + (size_t)at * es, es);
        to += es;
    } while (tw_index_next(out, index));
    return TW_OK;
}

/* ---- Pad */

tw_pad_mode tw_pad_mode_of(const tw_node *n) {
    static const char *const names[TW_PAD_MODES] = {"constant", "reflect", "edge", "wrap"};
    const char *name = tw_node_text(n, "mode", "constant");
    int m = 0;
    while (m < TW_PAD_MODES && strcmp(names[m], name) != 0) m++;
    return (tw_pad_mode)m;
}

static tw_status pads_of(const tw_call *c, int64_t before[TW_ARRAY_RANK], int64_t behind[TW_ARRAY_RANK]) {
    const tw_array *a = c->in[0];
    int64_t pads[2 * TW_ARRAY_RANK], axes[TW_ARRAY_RANK];
    int n = 2 * TW_ARRAY_RANK, n_axes = TW_ARRAY_RANK;
    const tw_pad_mode mode = tw_pad_mode_of(c->node);
    bool given, has_axes = false, seen[TW_ARRAY_RANK] = {false};
    tw_status st = tw_call_integers_or(c, 1, "pads", pads, &n, &given);
    if (st == TW_OK) st = tw_call_integers_or(c, 3, "", axes, &n_axes, &has_axes);
    if (st != TW_OK) return st;
    if (mode == TW_PAD_MODES) return tw_call_fail(c, TW_ERR_FORMAT, "mode \"%s\"", tw_node_text(c->node, "mode", ""));
    const int of = has_axes ? n_axes : a->rank;
    if (n != 2 * of) return tw_call_fail(c, TW_ERR_FORMAT, "has not two pads for each axis");
    memset(before, 0, sizeof(int64_t) * TW_ARRAY_RANK);
    memset(behind, 0, sizeof(int64_t) * TW_ARRAY_RANK);
    for (int i = 0; i < of; i++) {
        const int axis = tw_axis(has_axes ? axes[i] : i, a->rank);
        if (axis < 0) return tw_call_fail(c, TW_ERR_FORMAT, "has no such axis");
        if (seen[axis]) return tw_call_fail(c, TW_ERR_FORMAT, "has an axis twice");
        seen[axis] = true;
        if (pads[i] < -INT32_MAX || pads[i] > INT32_MAX || pads[of + i] < -INT32_MAX || pads[of + i] > INT32_MAX)
            return tw_call_fail(c, TW_ERR_FORMAT, "pads are no sizes");
        before[axis] = pads[i];
        behind[axis] = pads[of + i];
        const int64_t least = a->dims[axis] + (pads[i] < 0 ? pads[i] : 0) + (pads[of + i] < 0 ? pads[of + i] : 0);
        if (least < 0) return tw_call_fail(c, TW_ERR_FORMAT, "pads take more than there is");
        if (mode != TW_PAD_CONSTANT && (pads[i] > 0 || pads[of + i] > 0) && least == 0)
            return tw_call_fail(c, TW_ERR_FORMAT, "there is nothing to pad with");
    }
    return TW_OK;
}

tw_status tw_pad_shape(tw_call *c) {
    int64_t before[TW_ARRAY_RANK], behind[TW_ARRAY_RANK];
    const tw_array *value = tw_call_in(c, 2);
    const tw_status st = pads_of(c, before, behind);
    if (st != TW_OK) return st;
    if (value && (value->type != c->in[0]->type || tw_array_elements(value) != 1))
        return tw_call_fail(c, TW_ERR_FORMAT, "the value is no single element of the operand's type");
    c->out[0] = *c->in[0];
    c->out[0].data = NULL;
    for (int i = 0; i < c->in[0]->rank; i++) c->out[0].dims[i] += before[i] + behind[i];
    return tw_element_kind(c->in[0]->type) == TW_KIND_other ? tw_call_refuse_type(c, c->in[0]->type) : TW_OK;
}

int64_t tw_pad_source(int64_t i, int64_t n, int64_t before, int64_t behind, tw_pad_mode mode) {
    const int64_t cut = before < 0 ? -before : 0, left = n - cut - (behind < 0 ? -behind : 0);
    const int64_t at = before > 0 ? i - before : i;
    if (at >= 0 && at < left) return cut + at;
    if (mode == TW_PAD_CONSTANT) return -1;
    if (mode == TW_PAD_EDGE) return at < 0 ? cut : cut + left - 1;
    if (mode == TW_PAD_WRAP) return cut + (at % left + left) % left;
    if (left == 1) return cut;
    const int64_t period = 2 * (left - 1), turned = (at % period + period) % period;
    return cut + (turned < left ? turned : period - turned);
}

tw_status tw_pad_compute(tw_call *c) {
    const tw_array *a = c->in[0], *out = &c->out[0], *given = tw_call_in(c, 2);
    int64_t before[TW_ARRAY_RANK], behind[TW_ARRAY_RANK], index[TW_ARRAY_RANK] = {0}, strides[TW_ARRAY_RANK];
    const size_t es = tw_element_bytes(a);
    char *to = tw_call_out(c, 0), value[16] = {0};
    const double attribute = tw_node_real(c->node, "value", 0);
    const tw_pad_mode mode = tw_pad_mode_of(c->node);
    pads_of(c, before, behind);
    if (given)
        memcpy(value, given->data, es);
    else
        tw_array_set_reals(a->type, value, 0, 1, &attribute);
    if (!tw_array_elements(out)) return TW_OK;
    tw_strides(a, strides);
    do {
        int64_t at = 0;
        bool inside = true;
        for (int i = 0; i < out->rank && inside; i++) {
            const int64_t from = tw_pad_source(index[i], a->dims[i], before[i], behind[i], mode);
            inside = from >= 0;
            at += from * strides[i];
        }
        memcpy(to, inside ? (const char *)a->data + (size_t)at * es : value, es);
        to += es;
    } while (tw_index_next(out, index));
    return TW_OK;
}

/* ---- Trilu */

tw_status tw_trilu_shape(tw_call *c) {
    c->out[0] = *c->in[0];
    c->out[0].data = NULL;
    int64_t k;
    if (c->in[0]->rank < 2) return tw_call_fail(c, TW_ERR_FORMAT, "the operand is no matrix");
    const tw_status st = tw_call_one(c, 1, 0, &k);
    if (st != TW_OK) return st;
    return tw_call_whole_bytes(c, c->in[0]);
}

tw_status tw_trilu_compute(tw_call *c) {
    const tw_array *a = c->in[0], *by = tw_call_in(c, 1);
    const bool upper = tw_node_integer(c->node, "upper", 1);
    const int64_t k = by ? tw_array_integer(by, 0) : 0, rows = a->dims[a->rank - 2], columns = a->dims[a->rank - 1];
    const int64_t n = tw_array_elements(a);
    const size_t es = tw_element_bytes(a);
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = i / columns % rows, column = i % columns;
        const bool kept = upper ? column - row >= k : column - row <= k;
        char *to = (char *)tw_call_out(c, 0) + (size_t)i * es;
        if (kept)
            memcpy(to, (const char *)a->data + (size_t)i * es, es);
        else
            memset(to, 0, es);
    }
    return TW_OK;
}
