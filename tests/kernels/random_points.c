/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/random_points.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int below(tw_random *r, int n) {
    return (int)tw_random_below(r, (uint64_t)n);
}

static tw_memory_type type_of(tw_random *r, tw_class class) {
    static const tw_memory_type reals[] = {TW_M_f32, TW_M_f16, TW_M_bf16, TW_M_f16},
                                integers[] = {TW_M_i64, TW_M_i32, TW_M_i16, TW_M_i8,
                                              TW_M_u64, TW_M_u32, TW_M_u16, TW_M_u8};
    return class == TW_CLASS_real      ? reals[below(r, 4)]
           : class == TW_CLASS_double  ? TW_M_f64
           : class == TW_CLASS_integer ? integers[below(r, 8)]
                                       : TW_M_bool;
}

/* Strides of a dense array, with some dimensions in another order, some broadcast, and some backward. */
static void strides(tw_random *r, const tw_points *p, tw_point_operand *o, bool result, random_points_seen *seen) {
    int order[TW_POINT_RANK];
    int64_t each = 1;
    for (int d = 0; d < p->rank; d++) order[d] = d;
    if (p->rank > 1 && below(r, 5) == 0) {
        const int x = below(r, p->rank), y = below(r, p->rank);
        order[x] = y;
        order[y] = x;
    }
    for (int i = p->rank - 1; i >= 0; i--) {
        const int d = order[i];
        const bool broadcast = !result && below(r, 5) == 0, backward = below(r, 12) == 0;
        o->strides[d] = broadcast ? 0 : backward ? -each : each;
        if (seen && backward && !broadcast && p->dims[d] > 1) seen->backward++;
        if (seen && broadcast && p->dims[d] > 1) seen->broadcast++;
        if (!broadcast) each *= p->dims[d];
        if (below(r, 10) == 0) each += result || below(r, 2) ? 8 : 1;
    }
    /* Going backward, the first element is not the one that is aligned. */
    bool aligned = true;
    for (int d = 0; d < p->rank; d++) aligned = aligned && o->strides[d] >= 0;
    o->align = aligned && below(r, 4) ? 16 : 0;
}

tw_point_operand random_points_result(tw_random *r, const tw_points *p, tw_class class) {
    tw_point_operand o = {.type = type_of(r, class)};
    strides(r, p, &o, true, NULL);
    return o;
}

static void add_operand(tw_random *r, tw_points *p, tw_class class, random_points_seen *seen) {
    tw_point_operand *o = &p->operands[p->n_operands++];
    *o = (tw_point_operand){.type = type_of(r, class), .constant = below(r, 4) == 0};
    strides(r, p, o, false, seen);
    seen->vectors += p->rank && o->align == 16 && o->strides[p->rank - 1] == 1 && p->dims[p->rank - 1] % 8 == 0;
}

/* Makes an operand gather by a further one, of integers. */
static void make_gather(tw_random *r, tw_points *p, int i, random_points_seen *seen) {
    tw_point_operand *o = &p->operands[i];
    o->gathers = true;
    o->by = p->n_operands;
    o->gather_extent = 1 + below(r, 9);
    o->gather_stride = below(r, 8) ? p->dims[p->rank - 1] : -3;
    if (o->gather_stride < 0) o->align = 0;
    add_operand(r, p, TW_CLASS_integer, seen);
    if (below(r, 2)) p->operands[o->by].strides[p->rank - 1] = 0;
    seen->gathers++;
}

/* Formulas whose values depend smoothly on the operands that are computed with. REAL, then others. */
static const char *const reals[] = {
    "x0",
    "add(x0,x1)",
    "add(mul(x0,x1),x2)",
    "gelu(x0)",
    "gelu_erf(add(x0,x1))",
    "silu(mul(x0,1.5))",
    "c0=sigmoid(x0);sub(c0,mul(c0,tanh(x1)))",
    "where(less(x0,x1),x2,neg(x0))",
    "div(x0,add(abs(x1),0.5))",
    "div(div(x0,-8),div(0.25,3))",
    "mul(erf(x0),exp(sub(x1,x2)))",
    "add(sin(mul(x0,20)),cos(mul(x1,3)))",
    "log(add(mul(x0,x0),0.01))",
    "log1p(mul(0.01,mul(x0,x0)))",
    "sqrt(abs(x0))",
    "rsqrt(add(abs(x0),0.1))",
    "reciprocal(add(abs(x0),1))",
    "pow(abs(x0),1.7)",
    "pow(x0,3)",
    "pow(x0,floor(x1))",
    "max(min(x0,x1),relu(x2))",
    "add(floor(x0),add(ceil(x1),round(x2)))",
    "sub(sign(x0),bf16(x1))",
    "where(isnan(sqrt(x0)),x1,f16(x2))",
    "add(real(d0),x0)",
    "where(greater_equal(d1,d0),x0,-100.0)",
    "mul(x0,real(and(less_equal(x0,x1),not(equal(x0,x2)))))",
    "where(truth(x0),x1,2)",
    "rem(x0,add(abs(x1),0.5))",
};
/* Operands x0 and x1 are integers. */
static const char *const integers[] = {
    "add(x0,x1)",
    "sub(mul(x0,x1),3)",
    "div(x0,x1)",
    "mod(x0,x1)",
    "rem(x0,x1)",
    "divu(x0,x1)",
    "remu(x0,x1)",
    "powi(x0,x1)",
    "powi(i8(x0),add(x1,60))",
    "max(min(x0,x1),sign(x0))",
    "abs(neg(x0))",
    "where(less(x0,x1),x0,relu(x1))",
    "integer(real(add(i8(x0),d0)))",
    "i8(mul(x0,x1))",
    "add(u16(neg(x0)),u8(x1))",
    "add(i32(mul(x0,4000000000)),u32(x1))",
    "i16(mul(x0,1000))",
    "bit_xor(bit_and(x0,x1),bit_or(x0,5))",
    "add(shl(x0,x1),shr(x1,bit_and(x0,63)))",
    "shr(neg(abs(x0)),add(x1,60))",
};
/* Operands are doubles. */
static const char *const doubles[] = {
    "add(mul(x0,x1),x2)",
    "div(x0,add(abs(x1),0.1))",
    "exp(mul(300,x0))",
    "exp(sub(x0,x1))",
    "log(add(mul(x0,x0),1e-300))",
    "log(mul(1e-310,abs(x0)))",
    "sqrt(abs(x0))",
    "rsqrt(add(abs(x0),0.1))",
    "reciprocal(add(abs(x0),1))",
    "add(sigmoid(x0),silu(mul(x1,1.1)))",
    "max(min(x0,x1),relu(x2))",
    "add(floor(x0),add(ceil(x1),round(x2)))",
    "sub(sign(x0),neg(x1))",
    "rem(x0,add(abs(x1),0.1))",
    "where(less(x0,x1),x2,double(d0))",
    "where(isnan(sqrt(x0)),x1,double(real(x2)))",
    "double(integer(mul(x0,1e15)))",
    "where(truth(x0),add(double(greater_equal(x0,x1)),x2),0.1)",
    "real(mul(x0,x1))",
    "and(not_equal(x0,x1),or(less_equal(x0,x2),equal(x1,x1)))",
};
/* Their values are truths. Operands are integers too. */
static const char *const truths[] = {
    "less(x0,x1)",
    "and(greater(x0,x1),not_equal(x0,3))",
    "xor(equal(x0,x1),truth(x0))",
    "or(not(less_equal(x0,x1)),greater_equal(x1,x0))",
    "where(truth(x0),less(x1,0),equal(truth(x0),truth(x1)))",
};

static int extent(tw_random *r, bool last) {
    static const int widths[] = {1, 2, 3, 7, 8, 12, 16, 24, 40, 64, 100};
    return last ? widths[below(r, 11)] : 1 + below(r, 4);
}

void random_points(tw_random *r, tw_points *p, int rank, bool real, random_points_seen *seen) {
    *p = (tw_points){.rank = rank + below(r, TW_POINT_RANK + 1 - rank)};
    if (p->rank > 4 && below(r, 2)) p->rank = rank + 1;
    for (int d = 0; d < p->rank; d++) p->dims[d] = extent(r, d == p->rank - 1);
    const int kind = real ? 0 : below(r, 4);
    const char *text = kind == 0   ? reals[below(r, sizeof reals / sizeof *reals)]
                       : kind == 1 ? integers[below(r, sizeof integers / sizeof *integers)]
                       : kind == 3 ? doubles[below(r, sizeof doubles / sizeof *doubles)]
                                   : truths[below(r, sizeof truths / sizeof *truths)];
    static const tw_class classes[] = {TW_CLASS_real, TW_CLASS_integer, TW_CLASS_integer, TW_CLASS_double};
    for (int i = 0; i < 3; i++) add_operand(r, p, classes[kind], seen);
    for (int i = 0; i < 3 && p->rank; i++)
        if (below(r, 8) == 0) make_gather(r, p, i, seen);
    tw_memory_type types[TW_POINT_OPERANDS];
    tw_diag d;
    for (int i = 0; i < p->n_operands; i++) types[i] = p->operands[i].type;
    if (strstr(text, "d0") && p->rank < 2) text = "x0";
    if (tw_cells_parse(&p->cells, text, types, p->n_operands, &d) != TW_OK) {
        fprintf(stderr, "%s\n", d.message);
        abort();
    }
    for (int i = 0; i < p->cells.n; i++) seen->indices += p->cells.of[i].op == TW_CELL_index;
}
