/* SPDX-License-Identifier: Apache-2.0 */
/* What operators share. */
#include "graph/ops/op.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

tw_status tw_call_fail(const tw_call *c, tw_status st, const char *why, ...) {
    char node[256], text[512];
    va_list args;
    va_start(args, why);
    vsnprintf(text, sizeof text, why, args);
    va_end(args);
    tw_node_describe(c->node, node, sizeof node);
    return tw_fail(c->diag, st, "%s: %s", node, text);
}

tw_status tw_call_refuse_type(const tw_call *c, tw_element t) {
    return tw_call_fail(c, TW_ERR_UNSUPPORTED, "is not computed for %s", tw_element_name(t));
}

tw_status tw_call_integers(const tw_call *c, int operand, int64_t *out, int *n) {
    const tw_array *a = tw_call_in(c, operand);
    if (!a) return tw_call_fail(c, TW_ERR_FORMAT, "operand %d is left out", operand);
    if (tw_element_kind(a->type) != TW_KIND_integer || a->rank > 1)
        return tw_call_fail(c, TW_ERR_FORMAT, "operand %d is no list of integers", operand);
    const int64_t all = tw_array_elements(a);
    if (all > *n) return tw_call_fail(c, TW_ERR_UNSUPPORTED, "operand %d has more than %d integers", operand, *n);
    if (all && !a->data) return tw_call_fail(c, TW_ERR_USAGE, "extents depend on the content of operand %d", operand);
    *n = (int)all;
    tw_array_get_integers(a, 0, all, out);
    return TW_OK;
}

tw_status tw_call_integers_or(const tw_call *c, int operand, const char *attribute, int64_t *out, int *n, bool *given) {
    const tw_attribute *x = tw_node_attribute(c->node, attribute);
    *given = true;
    if (tw_call_in(c, operand)) return tw_call_integers(c, operand, out, n);
    if (x && x->kind == TW_ATTRIBUTE_ARRAY && x->array->type == TW_E_i64) {
        const int64_t all = tw_array_elements(x->array);
        if (all > *n) return tw_call_fail(c, TW_ERR_UNSUPPORTED, "%s has more than %d integers", attribute, *n);
        *n = (int)all;
        tw_array_get_integers(x->array, 0, all, out);
        return TW_OK;
    }
    *given = false;
    *n = 0;
    return TW_OK;
}

tw_status tw_call_one(const tw_call *c, int operand, int64_t usual, int64_t *out) {
    const tw_array *a = tw_call_in(c, operand);
    *out = usual;
    if (!a) return TW_OK;
    if (tw_element_kind(a->type) == TW_KIND_other || tw_array_elements(a) != 1)
        return tw_call_fail(c, TW_ERR_FORMAT, "operand %d is no single number", operand);
    if (!a->data) return tw_call_fail(c, TW_ERR_USAGE, "operand %d has no known content", operand);
    *out = tw_array_integer(a, 0);
    return TW_OK;
}

int tw_call_compare(const tw_array *a, int64_t i, int64_t j) {
    if (tw_element_kind(a->type) == TW_KIND_real) {
        const double x = tw_array_real(a, i), y = tw_array_real(a, j);
        return (x > y) - (x < y);
    }
    const int64_t x = tw_array_integer(a, i), y = tw_array_integer(a, j);
    if (a->type == TW_E_u64) return ((uint64_t)x > (uint64_t)y) - ((uint64_t)x < (uint64_t)y);
    return (x > y) - (x < y);
}

bool tw_broadcast(const tw_array *a, const tw_array *b, tw_array *out) {
    const int rank = a->rank > b->rank ? a->rank : b->rank;
    tw_array r = {.type = a->type, .rank = rank};
    for (int i = 0; i < rank; i++) {
        const int ia = i - rank + a->rank, ib = i - rank + b->rank;
        const int64_t da = ia < 0 ? 1 : a->dims[ia], db = ib < 0 ? 1 : b->dims[ib];
        if (da != db && da != 1 && db != 1) return false;
        r.dims[i] = da == 1 ? db : da;
    }
    *out = r;
    return true;
}

void tw_strides(const tw_array *a, int64_t strides[TW_ARRAY_RANK]) {
    int64_t n = 1;
    for (int i = a->rank - 1; i >= 0; i--) {
        strides[i] = n;
        n *= a->dims[i];
    }
}

void tw_broadcast_strides(const tw_array *a, const tw_array *out, int64_t strides[TW_ARRAY_RANK]) {
    int64_t own[TW_ARRAY_RANK] = {0};
    tw_strides(a, own);
    for (int i = 0; i < out->rank; i++) {
        const int at = i - out->rank + a->rank;
        strides[i] = at < 0 || a->dims[at] == 1 ? 0 : own[at];
    }
}

int64_t tw_extent(const tw_array *a, int from, int below) {
    int64_t n = 1;
    for (int i = from; i < below; i++) n *= a->dims[i];
    return n;
}

bool tw_index_next(const tw_array *a, int64_t index[TW_ARRAY_RANK]) {
    for (int i = a->rank - 1; i >= 0; i--) {
        if (++index[i] < a->dims[i]) return true;
        index[i] = 0;
    }
    return false;
}

double *tw_call_reals(const tw_call *c, const tw_array *a) {
    const int64_t n = tw_array_elements(a);
    double *x = tw_arena_array(c->arena, (size_t)n + 1, sizeof *x);
    if (x) tw_array_get_reals(a, 0, n, x);
    return x;
}

int64_t *tw_call_wholes(const tw_call *c, const tw_array *a) {
    const int64_t n = tw_array_elements(a);
    int64_t *x = tw_arena_array(c->arena, (size_t)n + 1, sizeof *x);
    if (x) tw_array_get_integers(a, 0, n, x);
    return x;
}
