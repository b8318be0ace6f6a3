/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that compute each element from elements in the same place. */
#include "graph/ops/elementwise.h"

#include <math.h>
#include <string.h>

/* The functions of elementwise.def, by the kind of elements. */
typedef double real_function(double a, double b);
typedef int64_t whole_function(int64_t a, int64_t b);
typedef struct functions {
    const char *name;
    real_function *real;
    whole_function *whole, *natural; /* NULL: there is none. */
} functions;

#define NONE        0
#define wrap(op)    (int64_t)((uint64_t)a op(uint64_t) b)
#define negative(a) (int64_t)(0 - (uint64_t)(a))
/* A function whose value is NONE is never called: the table says so by its text. */
#define REAL(name, value)                                                                                              \
    static double name##_real(double a, double b) {                                                                    \
        (void)a, (void)b;                                                                                              \
        return (double)(value);                                                                                        \
    }
#define WHOLE(name, kind, value)                                                                                       \
    static int64_t name##_##kind(int64_t a, int64_t b) {                                                               \
        (void)a, (void)b;                                                                                              \
        return (int64_t)(value);                                                                                       \
    }
#define UNARY(name, first, r, w, n)  REAL(name, r) WHOLE(name, whole, w) WHOLE(name, natural, n)
#define BINARY(name, first, r, w, n) REAL(name, r) WHOLE(name, whole, w) WHOLE(name, natural, n)
#define COMPARE(name, first, value)                                                                                    \
    REAL(name, value) WHOLE(name, whole, value) static int64_t name##_natural(int64_t x, int64_t y) {                  \
        const uint64_t a = (uint64_t)x, b = (uint64_t)y;                                                               \
        return value;                                                                                                  \
    }
#define LOGIC(name, first, value) WHOLE(name, whole, value)
#include "graph/ops/elementwise.def"

/* Whether a value's text is other than that of NONE, which is "0" here. No other value has one character. */
#define IS(value)                   (sizeof #value != sizeof "0")
#define UNARY(name, first, r, w, n) BINARY(name, first, r, w, n)
#define BINARY(name, first, r, w, n)                                                                                   \
    {#name, IS(r) ? name##_real : NULL, IS(w) ? name##_whole : NULL, IS(n) ? name##_natural : NULL},
#define COMPARE(name, first, value) {#name, name##_real, name##_whole, name##_natural},
#define LOGIC(name, first, value)   {#name, NULL, name##_whole, NULL},
static const functions table[] = {
#include "graph/ops/elementwise.def"
};

static const functions *functions_of(const tw_call *c) {
    size_t i = 0;
    while (i < sizeof table / sizeof *table && strcmp(table[i].name, c->node->op) != 0) i++;
    return i < sizeof table / sizeof *table ? &table[i] : NULL;
}

/* Tells whether the operator is computed for the type. */
static bool covers(const functions *f, tw_element t, bool logic) {
    const tw_kind k = tw_element_kind(t);
    if (logic) return k == TW_KIND_truth;
    if (k == TW_KIND_real) return f->real;
    return k == TW_KIND_integer || k == TW_KIND_natural || k == TW_KIND_truth ? f->whole != NULL : false;
}

tw_status tw_unary_shape(tw_call *c) {
    const functions *f = functions_of(c);
    const tw_array *a = c->in[0];
    if (!f || !covers(f, a->type, false)) return tw_call_refuse_type(c, a->type);
    c->out[0] = *a;
    c->out[0].data = NULL;
    return TW_OK;
}

tw_status tw_unary_compute(tw_call *c) {
    enum { BLOCK = 512 };
    const functions *f = functions_of(c);
    const tw_array *a = c->in[0];
    const int64_t n = tw_array_elements(a);
    const tw_kind kind = tw_element_kind(a->type);
    whole_function *of = kind == TW_KIND_natural && f->natural ? f->natural : f->whole;
    double x[BLOCK];
    int64_t y[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t m = n - at < BLOCK ? n - at : BLOCK;
        if (kind == TW_KIND_real) {
            tw_array_get_reals(a, at, m, x);
            for (int64_t i = 0; i < m; i++) x[i] = f->real(x[i], 0);
            tw_array_set_reals(a->type, tw_call_out(c, 0), at, m, x);
        } else {
            tw_array_get_integers(a, at, m, y);
            for (int64_t i = 0; i < m; i++) y[i] = of(y[i], 0);
            tw_array_set_integers(a->type, tw_call_out(c, 0), at, m, y);
        }
    }
    return TW_OK;
}

static tw_status broadcast(tw_call *c, const tw_array *a, const tw_array *b) {
    if (a->type != b->type)
        return tw_call_fail(c, TW_ERR_FORMAT, "operands have different types, %s and %s", tw_element_name(a->type),
                            tw_element_name(b->type));
    if (tw_broadcast(a, b, &c->out[0])) return TW_OK;
    char x[96], y[96];
    tw_array_describe(a, x, sizeof x);
    tw_array_describe(b, y, sizeof y);
    return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit, %s and %s", x, y);
}

tw_status tw_binary_shape(tw_call *c) {
    const functions *f = functions_of(c);
    const tw_status st = broadcast(c, c->in[0], c->in[1]);
    if (st != TW_OK) return st;
    return f && covers(f, c->in[0]->type, false) ? TW_OK : tw_call_refuse_type(c, c->in[0]->type);
}

tw_status tw_compare_shape(tw_call *c) {
    const tw_status st = tw_binary_shape(c);
    c->out[0].type = TW_E_bool;
    return st;
}

tw_status tw_logic_shape(tw_call *c) {
    const tw_status st = broadcast(c, c->in[0], c->in[1]);
    if (st != TW_OK) return st;
    return c->in[0]->type == TW_E_bool ? TW_OK : tw_call_refuse_type(c, c->in[0]->type);
}

void tw_places_of(const tw_array *a, const tw_array *out, tw_places *p) {
    *p = (tw_places){.array = a};
    tw_broadcast_strides(a, out, p->strides);
}

int64_t tw_place(const tw_places *p, const tw_array *out, const int64_t index[TW_ARRAY_RANK]) {
    int64_t at = 0;
    for (int i = 0; i < out->rank; i++) at += index[i] * p->strides[i];
    return at;
}

tw_status tw_pairs_compute(tw_call *c, bool real, const tw_pairs *of) {
    const tw_array *out = &c->out[0];
    int64_t index[TW_ARRAY_RANK] = {0}, at = 0;
    tw_places a, b;
    if (!tw_array_elements(out)) return TW_OK;
    tw_places_of(c->in[0], out, &a);
    tw_places_of(c->in[1], out, &b);
    do {
        const int64_t i = tw_place(&a, out, index), j = tw_place(&b, out, index);
        if (real) {
            const double x = of->real(of->context, tw_array_real(a.array, i), tw_array_real(b.array, j));
            tw_array_set_reals(out->type, tw_call_out(c, 0), at++, 1, &x);
        } else {
            const int64_t x = of->whole(of->context, tw_array_integer(a.array, i), tw_array_integer(b.array, j));
            tw_array_set_integers(out->type, tw_call_out(c, 0), at++, 1, &x);
        }
    } while (tw_index_next(out, index));
    return TW_OK;
}

static double real_of(const void *context, double a, double b) {
    return ((const functions *)context)->real(a, b);
}

static int64_t whole_of(const void *context, int64_t a, int64_t b) {
    return ((const functions *)context)->whole(a, b);
}

static int64_t natural_of(const void *context, int64_t a, int64_t b) {
    return ((const functions *)context)->natural(a, b);
}

tw_status tw_binary_compute(tw_call *c) {
    const functions *f = functions_of(c);
    const tw_kind kind = tw_element_kind(c->in[0]->type);
    const bool natural = kind == TW_KIND_natural && f->natural;
    return tw_pairs_compute(c, kind == TW_KIND_real, &(tw_pairs){real_of, natural ? natural_of : whole_of, f});
}
