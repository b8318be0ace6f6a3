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

/* Returns the least integer of a type, or the greatest. */
static int64_t limit_of(tw_element t, bool least) {
    const int bits = tw_element_bits(t);
    const int64_t all = bits == 64 ? -1 : ((int64_t)1 << bits) - 1;
    if (tw_element_kind(t) == TW_KIND_truth) return !least;
    if (tw_element_kind(t) == TW_KIND_natural) return least ? 0 : all;
    return least ? -(int64_t)((uint64_t)all >> 1) - 1 : (int64_t)((uint64_t)all >> 1);
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
static int64_t step_whole(way w, tw_element t, int64_t sum, int64_t x) {
    const uint64_t u = (uint64_t)sum, v = (uint64_t)x;
    const bool natural = tw_element_kind(t) == TW_KIND_natural;
    switch (w) {
    case MAX:
        return (natural ? v > u : x > sum) ? x : sum;
    case MIN:
        return (natural ? v < u : x < sum) ? x : sum;
    case PROD:
        return (int64_t)(u * v);
    case L1:
        return (int64_t)(u + (x < 0 && !natural ? 0 - v : v));
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
    /* The least of no integers is the type's greatest. */
    for (int64_t i = 0; i < n_out; i++) {
        sums[i] = start_of(w);
        most[i] = -INFINITY;
        wholes[i] = w == MAX || w == MIN ? limit_of(a->type, w == MAX) : w == PROD;
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
                wholes[to] = step_whole(w, a->type, wholes[to], tw_array_integer(a, at));
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
            if (w == MEAN && n && a->type == TW_E_u64)
                wholes[i] = (int64_t)((uint64_t)wholes[i] / (uint64_t)(n / n_out));
            if (w == MEAN && n && a->type != TW_E_u64) wholes[i] /= n / n_out;
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

/* Above 0: element i is found rather than element j. NaN is taken for the largest, and for the least. */
static int order_of(const tw_array *a, int64_t i, int64_t j, bool most) {
    const bool real = tw_element_kind(a->type) == TW_KIND_real;
    const int x = real && isnan(tw_array_real(a, i)), y = real && isnan(tw_array_real(a, j));
    return x || y ? x - y : most ? tw_call_compare(a, i, j) : tw_call_compare(a, j, i);
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
            const int order = order_of(a, first + i * behind, first + best * behind, most);
            if (order > 0 || (last && order == 0)) best = i;
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
        if (x[i * step_by] > most || (isnan(x[i * step_by]) && !isnan(most))) most = x[i * step_by], at = i;
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

/* What elements of a line are ordered by. Reals are ordered as reals, integers as integers without a sign. */
typedef struct ranked {
    double real;
    uint64_t whole;
    int64_t at;
} ranked;

/* The greatest first. Of equals the first one comes first, and NaN is greater than all. */
static int order(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (isnan(a->real) != isnan(b->real)) return isnan(a->real) ? -1 : 1;
    if (a->real > b->real || a->real < b->real) return a->real > b->real ? -1 : 1;
    if (a->whole != b->whole) return a->whole > b->whole ? -1 : 1;
    return a->at < b->at ? -1 : 1;
}

static void rank_line(const tw_array *a, int64_t first, int64_t behind, bool largest, ranked *line, int64_t n) {
    const tw_kind kind = tw_element_kind(a->type);
    const uint64_t sign = kind == TW_KIND_integer ? (uint64_t)1 << 63 : 0;
    for (int64_t i = 0; i < n; i++) {
        line[i] = (ranked){.at = i};
        if (kind == TW_KIND_real)
            line[i].real = (largest ? 1 : -1) * tw_array_real(a, first + i * behind);
        else
            line[i].whole = ((uint64_t)tw_array_integer(a, first + i * behind) ^ sign) ^ (largest ? 0 : UINT64_MAX);
    }
    qsort(line, (size_t)n, sizeof *line, order);
}

tw_status tw_top_k_compute(tw_call *c) {
    const tw_array *a = c->in[0];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", -1), a->rank);
    const bool largest = tw_node_integer(c->node, "largest", 1);
    const int64_t n = a->dims[axis], k = c->out[0].dims[axis], behind = tw_extent(a, axis + 1, a->rank);
    const int64_t lines = n ? tw_array_elements(a) / n : 0;
    const size_t es = (size_t)tw_element_bits(a->type) / 8;
    ranked *ranks = tw_arena_array(c->arena, (size_t)n + 1, sizeof *ranks);
    if (!ranks) return tw_fail_memory(c->diag);
    for (int64_t line = 0; line < lines; line++) {
        const int64_t first = line / behind * behind * n + line % behind,
                      to = line / behind * behind * k + line % behind;
        rank_line(a, first, behind, largest, ranks, n);
        for (int64_t i = 0; i < k; i++) {
            const int64_t at = to + i * behind, from = first + ranks[i].at * behind;
            memcpy((char *)tw_call_out(c, 0) + (size_t)at * es, (const char *)a->data + (size_t)from * es, es);
            if (c->n_out > 1) ((int64_t *)tw_call_out(c, 1))[at] = ranks[i].at;
        }
    }
    return TW_OK;
}
