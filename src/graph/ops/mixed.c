/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators with attributes, several operands, or results of another type. */
#include "graph/ops/elementwise.h"

#include <math.h>
#include <string.h>

static bool is(const tw_call *c, const char *op) {
    return !strcmp(c->node->op, op);
}

static bool is_real(const tw_array *a) {
    return tw_element_kind(a->type) == TW_KIND_real;
}

tw_status tw_same_shape(tw_call *c) {
    c->out[0] = *c->in[0];
    c->out[0].data = NULL;
    return TW_OK;
}

tw_status tw_same_compute(tw_call *c) {
    const int64_t bytes = tw_array_bytes(c->in[0]);
    if (bytes > 0) memcpy(tw_call_out(c, 0), c->in[0]->data, (size_t)bytes);
    return TW_OK;
}

/* ---- of a real, with parameters */

typedef struct parameters {
    double alpha, beta;
} parameters;

typedef double activation(double x, const parameters *p);

static double leaky_relu(double x, const parameters *p) {
    return x < 0 ? p->alpha * x : x;
}
static double elu(double x, const parameters *p) {
    return x < 0 ? p->alpha * expm1(x) : x;
}
static double selu(double x, const parameters *p) {
    return p->beta * (x > 0 ? x : p->alpha * expm1(x));
}
static double celu(double x, const parameters *p) {
    return isnan(x) ? x : fmax(0, x) + fmin(0, p->alpha * expm1(x / p->alpha));
}
static double thresholded_relu(double x, const parameters *p) {
    return x > p->alpha ? x : 0;
}
static double hard_sigmoid(double x, const parameters *p) {
    return isnan(x) ? x : fmax(0, fmin(1, p->alpha * x + p->beta));
}
static double shrink(double x, const parameters *p) { /* alpha: lambd. beta: bias. */
    return x < -p->alpha ? x + p->beta : x > p->alpha ? x - p->beta : 0;
}
static double swish(double x, const parameters *p) {
    return x / (1 + exp(-p->alpha * x));
}
static const double sqrt_half = 0.70710678118654752440, two_by_sqrt_pi = 1.12837916709551257390;

static double gelu_erf(double x, const parameters *p) {
    (void)p;
    return 0.5 * x * (1 + erf(x * sqrt_half));
}
static double gelu_tanh(double x, const parameters *p) {
    (void)p;
    return 0.5 * x * (1 + tanh(two_by_sqrt_pi * sqrt_half * (x + 0.044715 * x * x * x)));
}

static const struct {
    const char *name;
    activation *of;
    const char *alpha, *beta; /* Names of attributes. */
    parameters usual;
} activations[] = {
    {"LeakyRelu", leaky_relu, "alpha", "", {0.01, 0}},
    {"Elu", elu, "alpha", "", {1, 0}},
    {"Selu", selu, "alpha", "gamma", {1.67326319217681884765625, 1.05070102214813232421875}},
    {"Celu", celu, "alpha", "", {1, 0}},
    {"ThresholdedRelu", thresholded_relu, "alpha", "", {1, 0}},
    {"HardSigmoid", hard_sigmoid, "alpha", "beta", {0.2, 0.5}},
    {"Shrink", shrink, "lambd", "bias", {0.5, 0}},
    {"Swish", swish, "alpha", "", {1, 0}},
    {"Gelu", gelu_erf, "", "", {0, 0}},
};

tw_status tw_activation_shape(tw_call *c) {
    return is_real(c->in[0]) ? tw_same_shape(c) : tw_call_refuse_type(c, c->in[0]->type);
}

tw_status tw_activation_compute(tw_call *c) {
    enum { N = sizeof activations / sizeof *activations };
    int i = 0;
    while (i < N && strcmp(activations[i].name, c->node->op) != 0) i++;
    if (i == N) return tw_call_fail(c, TW_ERR_UNSUPPORTED, "is not supported");
    const parameters p = {tw_node_real(c->node, activations[i].alpha, activations[i].usual.alpha),
                          tw_node_real(c->node, activations[i].beta, activations[i].usual.beta)};
    activation *of = activations[i].of;
    if (of == gelu_erf && !strcmp(tw_node_text(c->node, "approximate", "none"), "tanh")) of = gelu_tanh;
    const int64_t n = tw_array_elements(c->in[0]);
    double *x = tw_call_reals(c, c->in[0]);
    if (!x) return tw_fail_memory(c->diag);
    for (int64_t k = 0; k < n; k++) x[k] = of(x[k], &p);
    tw_array_set_reals(c->out[0].type, tw_call_out(c, 0), 0, n, x);
    return TW_OK;
}

/* ---- truths of a real */

tw_status tw_test_shape(tw_call *c) {
    tw_same_shape(c);
    c->out[0].type = TW_E_bool;
    const bool good = is(c, "Not") ? c->in[0]->type == TW_E_bool : is_real(c->in[0]);
    return good ? TW_OK : tw_call_refuse_type(c, c->in[0]->type);
}

tw_status tw_test_compute(tw_call *c) {
    const int64_t n = tw_array_elements(c->in[0]);
    const bool below = tw_node_integer(c->node, "detect_negative", 1),
               above = tw_node_integer(c->node, "detect_positive", 1);
    uint8_t *out = tw_call_out(c, 0);
    for (int64_t i = 0; i < n; i++) {
        const double x = tw_array_real(c->in[0], i);
        out[i] = is(c, "Not")     ? x == 0
                 : is(c, "IsNaN") ? isnan(x) != 0
                                  : isinf(x) && ((x < 0 && below) || (x > 0 && above));
    }
    return TW_OK;
}

/* ---- Cast. A real becomes an integer without its fraction. */

static tw_status cast_to(tw_call *c, tw_element to) {
    tw_same_shape(c);
    c->out[0].type = to;
    if (tw_element_kind(to) == TW_KIND_other) return tw_call_refuse_type(c, to);
    return tw_element_kind(c->in[0]->type) == TW_KIND_other ? tw_call_refuse_type(c, c->in[0]->type) : TW_OK;
}

tw_status tw_cast_shape(tw_call *c) {
    tw_element to;
    if (!tw_element_from_onnx(tw_node_integer(c->node, "to", 0), &to) || to == TW_E_none)
        return tw_call_fail(c, TW_ERR_FORMAT, "has no type to cast to");
    return cast_to(c, to);
}

tw_status tw_cast_like_shape(tw_call *c) {
    return cast_to(c, c->in[1]->type);
}

tw_status tw_cast_compute(tw_call *c) {
    const int64_t n = tw_array_elements(c->in[0]);
    void *to = tw_call_out(c, 0);
    /* Integers of 64 bits are signed here: those without a sign become reals as reals. */
    if (is_real(c->in[0]) || (c->in[0]->type == TW_E_u64 && is_real(&c->out[0]))) {
        double *x = tw_call_reals(c, c->in[0]);
        if (!x) return tw_fail_memory(c->diag);
        tw_array_set_reals(c->out[0].type, to, 0, n, x);
    } else {
        int64_t *x = tw_call_wholes(c, c->in[0]);
        if (!x) return tw_fail_memory(c->diag);
        tw_array_set_integers(c->out[0].type, to, 0, n, x);
    }
    return TW_OK;
}

/* ---- several operands of one type */

tw_status tw_several_shape(tw_call *c) {
    tw_array all = *c->in[0];
    for (int i = 1; i < c->n_in; i++) {
        if (!c->in[i] || c->in[i]->type != all.type || !tw_broadcast(&all, c->in[i], &all))
            return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    }
    if (tw_element_kind(all.type) == TW_KIND_other) return tw_call_refuse_type(c, all.type);
    c->out[0] = all;
    c->out[0].data = NULL;
    return TW_OK;
}

static double combine_reals(const tw_call *c, double x, double y) {
    if (is(c, "Min")) return isnan(x) || isnan(y) ? NAN : x < y ? x : y;
    if (is(c, "Max")) return isnan(x) || isnan(y) ? NAN : x > y ? x : y;
    return x + y;
}

static bool less(tw_element t, int64_t x, int64_t y) {
    return t == TW_E_u64 ? (uint64_t)x < (uint64_t)y : x < y;
}

static int64_t combine_wholes(const tw_call *c, tw_element t, int64_t x, int64_t y) {
    if (is(c, "Min")) return less(t, x, y) ? x : y;
    if (is(c, "Max")) return less(t, x, y) ? y : x;
    return (int64_t)((uint64_t)x + (uint64_t)y);
}

tw_status tw_several_compute(tw_call *c) {
    tw_array *out = &c->out[0];
    int64_t index[TW_ARRAY_RANK] = {0}, at = 0;
    tw_places p[TW_OP_OPERANDS];
    if (!tw_array_elements(out)) return TW_OK;
    for (int i = 0; i < c->n_in; i++) tw_places_of(c->in[i], out, &p[i]);
    do {
        if (is_real(out)) {
            double x = tw_array_real(p[0].array, tw_place(&p[0], out, index));
            for (int i = 1; i < c->n_in; i++)
                x = combine_reals(c, x, tw_array_real(p[i].array, tw_place(&p[i], out, index)));
            if (is(c, "Mean")) x /= c->n_in;
            tw_array_set_reals(out->type, tw_call_out(c, 0), at++, 1, &x);
        } else {
            int64_t x = tw_array_integer(p[0].array, tw_place(&p[0], out, index));
            for (int i = 1; i < c->n_in; i++)
                x = combine_wholes(c, out->type, x, tw_array_integer(p[i].array, tw_place(&p[i], out, index)));
            tw_array_set_integers(out->type, tw_call_out(c, 0), at++, 1, &x);
        }
    } while (tw_index_next(out, index));
    return TW_OK;
}

/* ---- Pow, Mod, BitShift, PRelu: two operands, of which the second may have a type of its own (Pow) */

tw_status tw_pair_shape(tw_call *c) {
    if (!is(c, "Pow") && c->in[0]->type != c->in[1]->type)
        return tw_call_fail(c, TW_ERR_FORMAT, "operands have different types");
    if (!tw_broadcast(c->in[0], c->in[1], &c->out[0])) return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    if (is(c, "BitShift") && tw_element_kind(c->in[0]->type) != TW_KIND_natural)
        return tw_call_refuse_type(c, c->in[0]->type);
    for (int i = 0; i < 2; i++)
        if (tw_element_kind(c->in[i]->type) == TW_KIND_other) return tw_call_refuse_type(c, c->in[i]->type);
    return TW_OK;
}

static double pair_reals(const void *context, double x, double y) {
    const tw_call *c = context;
    if (is(c, "Pow")) return pow(x, y);
    if (is(c, "PRelu")) return x < 0 ? x * y : x;
    if (tw_node_integer(c->node, "fmod", 0)) return fmod(x, y);
    const double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static int64_t power(int64_t x, int64_t n) {
    uint64_t r = 1, by = (uint64_t)x;
    if (n < 0) return x == 1 ? 1 : x == -1 ? (n % 2 ? -1 : 1) : 0;
    for (; n; n >>= 1, by *= by)
        if (n & 1) r *= by;
    return (int64_t)r;
}

static int64_t pair_wholes(const void *context, int64_t x, int64_t y) {
    const tw_call *c = context;
    if (is(c, "Pow")) return power(x, y);
    if (is(c, "PRelu")) return x < 0 ? (int64_t)((uint64_t)x * (uint64_t)y) : x;
    if (is(c, "BitShift")) {
        const bool left = !strcmp(tw_node_text(c->node, "direction", ""), "LEFT");
        return y < 0 || y > 63 ? 0 : left ? (int64_t)((uint64_t)x << y) : (int64_t)((uint64_t)x >> y);
    }
    if (y == 0) return 0;
    if (c->in[0]->type == TW_E_u64) return (int64_t)((uint64_t)x % (uint64_t)y);
    if (y == -1) return 0;
    const int64_t r = x % y;
    return !tw_node_integer(c->node, "fmod", 0) && r && (r < 0) != (y < 0) ? r + y : r;
}

tw_status tw_pair_compute(tw_call *c) {
    return tw_pairs_compute(c, is_real(c->in[0]) || is_real(c->in[1]), &(tw_pairs){pair_reals, pair_wholes, c});
}

/* ---- Where: elements are moved, whatever they are */

tw_status tw_where_shape(tw_call *c) {
    tw_array all;
    if (c->in[0]->type != TW_E_bool) return tw_call_refuse_type(c, c->in[0]->type);
    if (c->in[1]->type != c->in[2]->type) return tw_call_fail(c, TW_ERR_FORMAT, "operands have different types");
    if (tw_element_bits(c->in[1]->type) < 8) return tw_call_refuse_type(c, c->in[1]->type);
    if (!tw_broadcast(c->in[1], c->in[2], &all) || !tw_broadcast(&all, c->in[0], &all))
        return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    c->out[0] = all;
    return TW_OK;
}

tw_status tw_where_compute(tw_call *c) {
    tw_array *out = &c->out[0];
    int64_t index[TW_ARRAY_RANK] = {0};
    const size_t es = (size_t)tw_element_bits(out->type) / 8;
    tw_places p[3];
    char *to = tw_call_out(c, 0);
    if (!tw_array_elements(out)) return TW_OK;
    for (int i = 0; i < 3; i++) tw_places_of(c->in[i], out, &p[i]);
    do {
        const uint8_t *condition = p[0].array->data;
        const tw_places *from = &p[condition[tw_place(&p[0], out, index)] ? 1 : 2];
        memcpy(to, (const char *)from->array->data + (size_t)tw_place(from, out, index) * es, es);
        to += es;
    } while (tw_index_next(out, index));
    return TW_OK;
}

/* ---- Clip */

tw_status tw_clip_shape(tw_call *c) {
    for (int i = 1; i < 3; i++) {
        const tw_array *bound = tw_call_in(c, i);
        if (bound && (bound->type != c->in[0]->type || tw_array_elements(bound) != 1))
            return tw_call_fail(c, TW_ERR_FORMAT, "a bound is no single element of the operand's type");
    }
    if (tw_element_kind(c->in[0]->type) == TW_KIND_other) return tw_call_refuse_type(c, c->in[0]->type);
    return tw_same_shape(c);
}

tw_status tw_clip_compute(tw_call *c) {
    const tw_array *a = c->in[0], *least = tw_call_in(c, 1), *most = tw_call_in(c, 2);
    const int64_t n = tw_array_elements(a);
    /* Bounds were attributes until version 11. */
    const bool has_least = least || tw_node_attribute(c->node, "min"),
               has_most = most || tw_node_attribute(c->node, "max");
    if (is_real(a)) {
        const double lo = least ? tw_array_real(least, 0) : tw_node_real(c->node, "min", 0);
        const double hi = most ? tw_array_real(most, 0) : tw_node_real(c->node, "max", 0);
        for (int64_t i = 0; i < n; i++) {
            double x = tw_array_real(a, i);
            if (has_least && x < lo) x = lo;
            if (has_most && x > hi) x = hi;
            tw_array_set_reals(a->type, tw_call_out(c, 0), i, 1, &x);
        }
        return TW_OK;
    }
    const int64_t lo = least ? tw_array_integer(least, 0) : 0, hi = most ? tw_array_integer(most, 0) : 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t x = tw_array_integer(a, i);
        if (least && less(a->type, x, lo)) x = lo;
        if (most && less(a->type, hi, x)) x = hi;
        tw_array_set_integers(a->type, tw_call_out(c, 0), i, 1, &x);
    }
    return TW_OK;
}

/* ---- Dropout, without training: what comes in, and that all of it was kept */

tw_status tw_dropout_shape(tw_call *c) {
    int64_t training;
    const tw_status st = tw_call_one(c, 2, 0, &training);
    if (st != TW_OK) return st;
    if (training) return tw_call_fail(c, TW_ERR_UNSUPPORTED, "training is not supported");
    tw_same_shape(c);
    c->out[1] = c->out[0];
    c->out[1].type = c->node->version < 10 ? c->in[0]->type : TW_E_bool;
    return TW_OK;
}

tw_status tw_dropout_compute(tw_call *c) {
    const int64_t n = tw_array_elements(c->in[0]), one = 1;
    for (int64_t i = 0; i < n && c->n_out > 1; i++)
        tw_array_set_integers(c->out[1].type, tw_call_out(c, 1), i, 1, &one);
    return tw_same_compute(c);
}
