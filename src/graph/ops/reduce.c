/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ops/reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a reduction does with an element, and with the result. */
typedef enum way { SUM, MEAN, MAX, MIN, PROD, L1, L2, LOG_SUM, LOG_SUM_EXP, SUM_SQUARE, WAYS } way;

static way way_of(const tw_call *c) {
    static const char *const names[WAYS] = {"ReduceSum",       "ReduceMean",     "ReduceMax", "ReduceMin",
                                            "ReduceProd",      "ReduceL1",       "ReduceL2",  "ReduceLogSum",
                                            "ReduceLogSumExp", "ReduceSumSquare"};
    int w = 0;
    while (w < WAYS && strcmp(names[w], c->node->op) != 0) w++;
    return (way)w;
}

static tw_status axes_of(const tw_call *c, bool reduced[TW_ARRAY_RANK], bool *none) {
    const int rank = c->in[0]->rank;
    int64_t axes[TW_ARRAY_RANK];
    int n = TW_ARRAY_RANK;
    bool given;
    const tw_status st = tw_call_integers_or(c, 1, "axes", axes, &n, &given);
    if (st != TW_OK) return st;
    *none = !n && tw_node_integer(c->node, "noop_with_empty_axes", 0);
    for (int i = 0; i < rank; i++) reduced[i] = !n && !*none;
    for (int i = 0; i < n; i++) {
        const int axis = tw_axis(axes[i], rank);
        if (axis < 0) return tw_call_fail(c, TW_ERR_FORMAT, "has no axis %lld", (long long)axes[i]);
        reduced[axis] = true;
    }
    return TW_OK;
}

tw_status tw_reduce_shape(tw_call *c) {
    const tw_array *a = c->in[0];
    const bool keep = tw_node_integer(c->node, "keepdims", 1);
    bool reduced[TW_ARRAY_RANK], none;
    const tw_status st = axes_of(c, reduced, &none);
    if (st != TW_OK) return st;
    c->out[0] = (tw_array){.type = a->type};
    for (int i = 0; i < a->rank; i++)
        if (!reduced[i] || keep) c->out[0].dims[c->out[0].rank++] = reduced[i] ? 1 : a->dims[i];
    return tw_element_kind(a->type) == TW_KIND_other ? tw_call_refuse_type(c, a->type) : TW_OK;
}

static double start_of(way w) {
    return w == MAX ? -INFINITY : w == MIN ? INFINITY : w == PROD;
}

static double step(way w, double sum, double x) {
    switch (w) {
    case MAX:
        return isnan(x) || x > sum ? x : sum;
    case MIN:
        return isnan(x) || x < sum ? x : sum;
    case PROD:
        return sum * x;
    case L1:
        return sum + fabs(x);
    case L2:
    case SUM_SQUARE:
        return sum + x * x;
    default:
        return sum + x;
    }
}

/* Reduces integers of 64 bits, which doubles do not hold. */
static int64_t step_whole(way w, int64_t sum, int64_t x) {
    const uint64_t u = (uint64_t)sum, v = (uint64_t)x;
    switch (w) {
    case MAX:
        return x > sum ? x : sum;
    case MIN:
        return x < sum ? x : sum;
    case PROD:
        return (int64_t)(u * v);
    case L1:
        return (int64_t)(u + (x < 0 ? 0 - v : v));
    case L2:
    case SUM_SQUARE:
        return (int64_t)(u + v * v);
    default:
        return (int64_t)(u + v);
    }
}

static double end_of(way w, double sum, double n) {
    return w == MEAN ? sum / n : w == L2 ? sqrt(sum) : w == LOG_SUM ? log(sum) : sum;
}

tw_status tw_reduce_compute(tw_call *c) {
    const tw_array *a = c->in[0], *out = &c->out[0];
    const way w = way_of(c);
    const tw_kind kind = tw_element_kind(a->type);
    const bool real = kind == TW_KIND_real || w == LOG_SUM || w == LOG_SUM_EXP || w == L2;
    bool reduced[TW_ARRAY_RANK], none;
    int64_t index[TW_ARRAY_RANK] = {0}, strides[TW_ARRAY_RANK] = {0}, at = 0, by = 1;
    const int64_t n = tw_array_elements(a), n_out = tw_array_elements(out);
    axes_of(c, reduced, &none);
    for (int i = a->rank - 1; i >= 0; i--) {
        strides[i] = reduced[i] ? 0 : by;
        if (!reduced[i]) by *= a->dims[i];
    }
    double *sums = tw_arena_array(c->arena, (size_t)n_out + 1, sizeof *sums);
    double *most = tw_arena_array(c->arena, (size_t)n_out + 1, sizeof *most);
    int64_t *wholes = tw_arena_array(c->arena, (size_t)n_out + 1, sizeof *wholes);
    if (!sums || !most || !wholes) return tw_fail_memory(c->diag);
    /* The least of no integers is the type's greatest, which only truths and bytes have here. */
    for (int64_t i = 0; i < n_out; i++) {
        sums[i] = start_of(w);
        most[i] = -INFINITY;
        wholes[i] = w == MAX   ? (kind == TW_KIND_integer ? INT64_MIN : 0)
                    : w == MIN ? (kind == TW_KIND_truth ? 1 : INT64_MAX)
                               : w == PROD;
    }
    for (int pass = w == LOG_SUM_EXP ? 0 : 1; pass < 2; pass++) {
        memset(index, 0, sizeof index);
        for (at = 0; at < n; at++) {
            int64_t to = 0;
            for (int i = 0; i < a->rank; i++) to += index[i] * strides[i];
            const double x = tw_array_real(a, at);
            if (pass == 0)
                most[to] = x > most[to] ? x : most[to];
            else if (w == LOG_SUM_EXP)
                sums[to] += exp(x - (isfinite(most[to]) ? most[to] : 0));
            else if (real)
                sums[to] = step(w, sums[to], x);
            else
                wholes[to] = step_whole(w, wholes[to], tw_array_integer(a, at));
            tw_index_next(a, index);
        }
    }
    const double of_each = n_out ? (double)n / (double)n_out : 1;
    for (int64_t i = 0; i < n_out; i++) {
        if (w == LOG_SUM_EXP) sums[i] = log(sums[i]) + (isfinite(most[i]) ? most[i] : 0);
        if (real) {
            sums[i] = end_of(w, sums[i], of_each);
            tw_array_set_reals(out->type, tw_call_out(c, 0), i, 1, &sums[i]);
        } else {
            if (w == MEAN && n) wholes[i] /= n / n_out;
            tw_array_set_integers(out->type, tw_call_out(c, 0), i, 1, &wholes[i]);
        }
    }
    return TW_OK;
}

/* ---- ArgMax, ArgMin */

tw_status tw_arg_shape(tw_call *c) {
    const tw_array *a = c->in[0];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", 0), a->rank);
    const bool keep = tw_node_integer(c->node, "keepdims", 1);
    if (axis < 0 || a->dims[axis] == 0) return tw_call_fail(c, TW_ERR_FORMAT, "has no such axis");
    c->out[0] = (tw_array){.type = TW_E_i64};
    for (int i = 0; i < a->rank; i++)
        if (i != axis || keep) c->out[0].dims[c->out[0].rank++] = i == axis ? 1 : a->dims[i];
    return tw_element_kind(a->type) == TW_KIND_other ? tw_call_refuse_type(c, a->type) : TW_OK;
}

tw_status tw_arg_compute(tw_call *c) {
    const tw_array *a = c->in[0];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", 0), a->rank);
    const bool most = !strcmp(c->node->op, "ArgMax"), last = tw_node_integer(c->node, "select_last_index", 0);
    const int64_t n = a->dims[axis], behind = tw_extent(a, axis + 1, a->rank), lines = tw_array_elements(a) / n;
    int64_t *out = tw_call_out(c, 0);
    for (int64_t line = 0; line < lines; line++) {
        const int64_t first = line / behind * behind * n + line % behind;
        int64_t best = 0;
        for (int64_t i = 1; i < n; i++) {
            const double x = tw_array_real(a, first + i * behind), y = tw_array_real(a, first + best * behind);
            if (most ? x > y : x < y) best = i;
            if (last && x == y) best = i;
        }
        out[line] = best;
    }
    return TW_OK;
}

/* ---- Softmax, LogSoftmax, Hardmax. Until version 13 they were of all dimensions from an axis on. */

tw_status tw_softmax_shape(tw_call *c) {
    c->out[0] = *c->in[0];
    c->out[0].data = NULL;
    const int64_t axis = tw_node_integer(c->node, "axis", c->node->version < 13 ? 1 : -1);
    if (tw_axis(axis, c->in[0]->rank) < 0 && !(c->node->version < 13 && axis == c->in[0]->rank))
        return tw_call_fail(c, TW_ERR_FORMAT, "has no such axis");
    return tw_element_kind(c->in[0]->type) == TW_KIND_real ? TW_OK : tw_call_refuse_type(c, c->in[0]->type);
}

static void softmax_line(const char *op, double *x, int64_t n, int64_t step_by) {
    double most = -INFINITY, sum = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++)
        if (x[i * step_by] > most) most = x[i * step_by], at = i;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i * step_by] - most);
    for (int64_t i = 0; i < n; i++) {
        double *y = &x[i * step_by];
        *y = !strcmp(op, "Softmax") ? exp(*y - most) / sum : !strcmp(op, "LogSoftmax") ? *y - most - log(sum) : i == at;
    }
}

tw_status tw_softmax_compute(tw_call *c) {
    const tw_array *a = c->in[0];
    const bool old = c->node->version < 13;
    const int64_t given = tw_node_integer(c->node, "axis", old ? 1 : -1);
    const int axis = old && given == a->rank ? a->rank : tw_axis(given, a->rank);
    const int64_t behind = old ? 1 : tw_extent(a, axis + 1, a->rank);
    const int64_t n = old ? tw_extent(a, axis, a->rank) : a->dims[axis], all = tw_array_elements(a);
    double *x = tw_call_reals(c, a);
    if (!x) return tw_fail_memory(c->diag);
    for (int64_t line = 0; n && line < all / n; line++)
        softmax_line(c->node->op, &x[line / behind * behind * n + line % behind], n, behind);
    tw_array_set_reals(a->type, tw_call_out(c, 0), 0, all, x);
    return TW_OK;
}

/* ---- TopK */

tw_status tw_top_k_shape(tw_call *c) {
    const tw_array *a = c->in[0];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", -1), a->rank);
    int64_t k = tw_node_integer(c->node, "k", 0);
    int n = 1;
    if (tw_call_in(c, 1)) {
        const tw_status st = tw_call_integers(c, 1, &k, &n);
        if (st != TW_OK) return st;
    }
    if (axis < 0 || k < 0 || k > a->dims[axis])
        return tw_call_fail(c, TW_ERR_FORMAT, "has no such axis, or too few elements");
    c->out[0] = *a;
    c->out[0].data = NULL;
    c->out[0].dims[axis] = k;
    c->out[1] = c->out[0];
    c->out[1].type = TW_E_i64;
    return tw_element_kind(a->type) == TW_KIND_other ? tw_call_refuse_type(c, a->type) : TW_OK;
}

tw_status tw_top_k_compute(tw_call *c) {
    const tw_array *a = c->in[0];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", -1), a->rank);
    const bool largest = tw_node_integer(c->node, "largest", 1);
    const int64_t n = a->dims[axis], k = c->out[0].dims[axis], behind = tw_extent(a, axis + 1, a->rank);
    const int64_t lines = n ? tw_array_elements(a) / n : 0;
    const size_t es = (size_t)tw_element_bits(a->type) / 8;
    bool *taken = tw_arena_alloc(c->arena, (size_t)n + 1);
    if (!taken) return tw_fail_memory(c->diag);
    for (int64_t line = 0; line < lines; line++) {
        const int64_t first = line / behind * behind * n + line % behind,
                      to = line / behind * behind * k + line % behind;
        memset(taken, 0, (size_t)n);
        for (int64_t rank = 0; rank < k; rank++) {
            int64_t best = -1;
            for (int64_t i = 0; i < n; i++) {
                if (taken[i]) continue;
                const int64_t x = first + i * behind, y = first + best * behind;
                if (best < 0 ||
                    (largest ? tw_array_real(a, x) > tw_array_real(a, y) : tw_array_real(a, x) < tw_array_real(a, y)))
                    best = i;
            }
            taken[best] = true;
            const int64_t at = to + rank * behind;
            memcpy((char *)tw_call_out(c, 0) + (size_t)at * es,
                   (const char *)a->data + (size_t)(first + best * behind) * es, es);
            if (c->n_out > 1) ((int64_t *)tw_call_out(c, 1))[at] = best;
        }
    }
    return TW_OK;
}
