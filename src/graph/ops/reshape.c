/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ops/elementwise.h"
#include "graph/ops/move.h"

#include <string.h>

tw_status tw_call_whole_bytes(const tw_call *c, const tw_array *a) {
    return tw_element_bits(a->type) < 8 ? tw_call_refuse_type(c, a->type) : TW_OK;
}

static tw_status of(tw_call *c, tw_element type, int rank) {
    if (rank > TW_ARRAY_RANK) return tw_call_fail(c, TW_ERR_UNSUPPORTED, "has more than %d dimensions", TW_ARRAY_RANK);
    c->out[0] = (tw_array){.type = type, .rank = rank};
    return TW_OK;
}

/* ---- Shape, Size */

tw_status tw_shape_shape(tw_call *c) {
    const int rank = c->in[0]->rank;
    int64_t from = tw_node_integer(c->node, "start", 0), to = tw_node_integer(c->node, "end", rank);
    from = from < 0 ? from + rank : from;
    to = to < 0 ? to + rank : to;
    from = from < 0 ? 0 : from > rank ? rank : from;
    to = to < from ? from : to > rank ? rank : to;
    const tw_status st = of(c, TW_E_i64, 1);
    c->out[0].dims[0] = to - from;
    return st;
}

tw_status tw_shape_compute(tw_call *c) {
    const int rank = c->in[0]->rank;
    int64_t from = tw_node_integer(c->node, "start", 0);
    from = from < 0 ? from + rank : from;
    from = from < 0 ? 0 : from > rank ? rank : from;
    memcpy(tw_call_out(c, 0), &c->in[0]->dims[from], (size_t)c->out[0].dims[0] * sizeof(int64_t));
    return TW_OK;
}

tw_status tw_size_shape(tw_call *c) {
    return of(c, TW_E_i64, 0);
}

tw_status tw_size_compute(tw_call *c) {
    const int64_t n = tw_array_elements(c->in[0]);
    memcpy(tw_call_out(c, 0), &n, sizeof n);
    return TW_OK;
}

/* ---- Reshape, Flatten, Squeeze, Unsqueeze */

tw_status tw_reshape_shape(tw_call *c) {
    const tw_array *a = c->in[0];
    const bool zeros = tw_node_integer(c->node, "allowzero", 0);
    int n = TW_ARRAY_RANK, open = -1;
    int64_t to[TW_ARRAY_RANK], rest = 1;
    tw_status st = tw_call_integers(c, 1, to, &n);
    if (st == TW_OK) st = of(c, a->type, n);
    if (st != TW_OK) return st;
    for (int i = 0; i < n; i++) {
        if (to[i] == 0 && !zeros && i >= a->rank)
            return tw_call_fail(c, TW_ERR_FORMAT, "keeps dimension %d, which the operand does not have", i);
        if (to[i] == 0 && !zeros) to[i] = a->dims[i];
        if (to[i] < -1 || (to[i] == -1 && open >= 0)) return tw_call_fail(c, TW_ERR_FORMAT, "is to no shape");
        if (to[i] == -1)
            open = i;
        else if (__builtin_mul_overflow(rest, to[i], &rest))
            return tw_call_fail(c, TW_ERR_FORMAT, "is to too many elements");
        c->out[0].dims[i] = to[i];
    }
    const int64_t all = tw_array_elements(a);
    if (open >= 0) {
        if (rest == 0 || all % rest) return tw_call_fail(c, TW_ERR_FORMAT, "is to a shape of other elements");
        c->out[0].dims[open] = all / rest;
    } else if (rest != all) {
        return tw_call_fail(c, TW_ERR_FORMAT, "makes %lld elements of %lld", (long long)rest, (long long)all);
    }
    return TW_OK;
}

tw_status tw_flatten_shape(tw_call *c) {
    const tw_array *a = c->in[0];
    const int64_t given = tw_node_integer(c->node, "axis", 1), axis = given < 0 ? given + a->rank : given;
    if (axis < 0 || axis > a->rank) return tw_call_fail(c, TW_ERR_FORMAT, "has no axis %lld", (long long)given);
    const tw_status st = of(c, a->type, 2);
    c->out[0].dims[0] = tw_extent(a, 0, (int)axis);
    c->out[0].dims[1] = tw_extent(a, (int)axis, a->rank);
    return st;
}

tw_status tw_squeeze_shape(tw_call *c) {
    const tw_array *a = c->in[0];
    int64_t axes[TW_ARRAY_RANK];
    bool given, drop[TW_ARRAY_RANK] = {false};
    int n = TW_ARRAY_RANK;
    const tw_status st = tw_call_integers_or(c, 1, "axes", axes, &n, &given);
    if (st != TW_OK) return st;
    for (int i = 0; i < a->rank && !given; i++) drop[i] = a->dims[i] == 1;
    for (int i = 0; i < n; i++) {
        const int axis = tw_axis(axes[i], a->rank);
        if (axis < 0 || a->dims[axis] != 1)
            return tw_call_fail(c, TW_ERR_FORMAT, "axis %lld does not have extent 1", (long long)axes[i]);
        drop[axis] = true;
    }
    c->out[0] = (tw_array){.type = a->type};
    for (int i = 0; i < a->rank; i++)
        if (!drop[i]) c->out[0].dims[c->out[0].rank++] = a->dims[i];
    return TW_OK;
}

tw_status tw_unsqueeze_shape(tw_call *c) {
    const tw_array *a = c->in[0];
    int64_t axes[TW_ARRAY_RANK];
    bool given, added[TW_ARRAY_RANK] = {false};
    int n = TW_ARRAY_RANK;
    tw_status st = tw_call_integers_or(c, 1, "axes", axes, &n, &given);
    if (st == TW_OK && !given) st = tw_call_fail(c, TW_ERR_FORMAT, "has no axes");
    if (st == TW_OK) st = of(c, a->type, a->rank + n);
    if (st != TW_OK) return st;
    const int rank = a->rank + n;
    for (int i = 0; i < n; i++) {
        const int axis = tw_axis(axes[i], rank);
        if (axis < 0 || added[axis])
            return tw_call_fail(c, TW_ERR_FORMAT, "has no axis %lld to add", (long long)axes[i]);
        added[axis] = true;
    }
    for (int i = 0, from = 0; i < rank; i++) c->out[0].dims[i] = added[i] ? 1 : a->dims[from++];
    return TW_OK;
}

/* ---- Constant, ConstantOfShape, Range */

/* Returns a constant's tensor or list of numbers. NULL: it has neither. */
static const tw_array *constant_of(const tw_call *c) {
    static const char *const names[] = {"value", "value_ints", "value_floats"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const tw_attribute *a = tw_node_attribute(c->node, names[i]);
        if (a && a->kind == TW_ATTRIBUTE_ARRAY) return a->array;
    }
    return NULL;
}

tw_status tw_constant_shape(tw_call *c) {
    const tw_array *a = constant_of(c);
    if (a) {
        c->out[0] = *a;
        c->out[0].data = NULL;
        return tw_array_bytes(a) < 0 ? tw_call_refuse_type(c, a->type) : TW_OK;
    }
    if (tw_node_attribute(c->node, "value_int")) return of(c, TW_E_i64, 0);
    if (tw_node_attribute(c->node, "value_float")) return of(c, TW_E_f32, 0);
    return tw_call_fail(c, TW_ERR_UNSUPPORTED, "has a value that is no tensor of numbers");
}

tw_status tw_constant_compute(tw_call *c) {
    const int64_t whole = tw_node_integer(c->node, "value_int", 0);
    const double real = tw_node_real(c->node, "value_float", 0);
    const tw_array *a = constant_of(c);
    if (a && tw_array_bytes(a))
        memcpy(tw_call_out(c, 0), a->data, (size_t)tw_array_bytes(a));
    else if (!a && tw_node_attribute(c->node, "value_int"))
        tw_array_set_integers(TW_E_i64, tw_call_out(c, 0), 0, 1, &whole);
    else if (!a)
        tw_array_set_reals(TW_E_f32, tw_call_out(c, 0), 0, 1, &real);
    return TW_OK;
}

tw_status tw_constant_of_shape_shape(tw_call *c) {
    const tw_attribute *value = tw_node_attribute(c->node, "value");
    int n = TW_ARRAY_RANK;
    int64_t dims[TW_ARRAY_RANK];
    if (value && (value->kind != TW_ATTRIBUTE_ARRAY || tw_array_elements(value->array) != 1))
        return tw_call_fail(c, TW_ERR_FORMAT, "the value is no tensor of one element");
    tw_status st = tw_call_integers(c, 0, dims, &n);
    if (st == TW_OK) st = of(c, value ? value->array->type : TW_E_f32, n);
    for (int i = 0; i < n && st == TW_OK; i++) {
        if (dims[i] < 0) return tw_call_fail(c, TW_ERR_FORMAT, "has an extent of %lld", (long long)dims[i]);
        c->out[0].dims[i] = dims[i];
    }
    return st == TW_OK ? tw_call_whole_bytes(c, &c->out[0]) : st;
}

tw_status tw_constant_of_shape_compute(tw_call *c) {
    const tw_attribute *value = tw_node_attribute(c->node, "value");
    const int64_t n = tw_array_elements(&c->out[0]);
    const size_t es = tw_element_bytes(&c->out[0]);
    char *to = tw_call_out(c, 0);
    if (!value) memset(to, 0, (size_t)n * es);
    for (int64_t i = 0; i < n && value; i++) memcpy(to + (size_t)i * es, value->array->data, es);
    return TW_OK;
}

tw_status tw_range_shape(tw_call *c) {
    const tw_element t = c->in[0]->type;
    for (int i = 0; i < 3; i++) {
        if (c->in[i]->type != t || tw_array_elements(c->in[i]) != 1)
            return tw_call_fail(c, TW_ERR_FORMAT, "operands are not single elements of one type");
        if (!c->in[i]->data) return tw_call_fail(c, TW_ERR_USAGE, "extents depend on operands' contents");
    }
    if (tw_element_kind(t) == TW_KIND_other) return tw_call_refuse_type(c, t);
    int64_t n;
    if (tw_element_kind(t) == TW_KIND_real) {
        const double from = tw_array_real(c->in[0], 0), step = tw_array_real(c->in[2], 0);
        const double steps = (tw_array_real(c->in[1], 0) - from) / step;
        if (!(steps < 1e12)) return tw_call_fail(c, TW_ERR_FORMAT, "has no end");
        n = steps > 0 ? (int64_t)steps + (steps > (double)(int64_t)steps) : 0;
    } else {
        const int64_t from = tw_array_integer(c->in[0], 0), to = tw_array_integer(c->in[1], 0),
                      step = tw_array_integer(c->in[2], 0);
        if (!step) return tw_call_fail(c, TW_ERR_FORMAT, "has no end");
        const uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
        const uint64_t span = step > 0 ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
        const bool any = step > 0 ? from < to : from > to;
        if (any && (span - 1) / by >= (uint64_t)1 << 40) return tw_call_fail(c, TW_ERR_FORMAT, "has too many elements");
        n = any ? (int64_t)((span - 1) / by) + 1 : 0;
    }
    const tw_status st = of(c, t, 1);
    c->out[0].dims[0] = n;
    return st;
}

tw_status tw_range_compute(tw_call *c) {
    const int64_t n = c->out[0].dims[0];
    const tw_element t = c->out[0].type;
    for (int64_t i = 0; i < n; i++) {
        if (tw_element_kind(t) == TW_KIND_real) {
            const double x = tw_array_real(c->in[0], 0) + (double)i * tw_array_real(c->in[2], 0);
            tw_array_set_reals(t, tw_call_out(c, 0), i, 1, &x);
        } else {
            const uint64_t by = (uint64_t)i * (uint64_t)tw_array_integer(c->in[2], 0);
            const int64_t x = (int64_t)((uint64_t)tw_array_integer(c->in[0], 0) + by);
            tw_array_set_integers(t, tw_call_out(c, 0), i, 1, &x);
        }
    }
    return TW_OK;
}
