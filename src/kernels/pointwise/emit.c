/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/pointwise/emit.h"

#include "kernels/parts/activation.h"
#include "kernels/parts/convert.h"

tw_type tw_class_register(tw_class c) {
    static const tw_type types[] = {[TW_CLASS_real] = TW_T_f32,
                                    [TW_CLASS_double] = TW_T_f64,
                                    [TW_CLASS_integer] = TW_T_i64,
                                    [TW_CLASS_truth] = TW_T_pred};
    return types[c];
}

/* -- what the table's columns are made of */

tw_val tw_cell_extreme(tw_builder *b, tw_val x, tw_val y, tw_val wins) {
    return tw_select(b, tw_or(b, wins, tw_ne(b, x, x)), x, y);
}

/* Multiplying by the inverse of a power of two is exact, and far cheaper. */
static tw_val real_div(tw_builder *b, tw_val x, tw_val y) {
    uint64_t bits;
    const bool constant = tw_value_constant(b->kernel, y, &bits);
    const uint32_t exponent = constant ? (uint32_t)bits >> 23 & 0xff : 0;
    if (!constant || (bits & 0x7fffff) || exponent < 2 || exponent > 252) return tw_binary(b, TW_OP_div_f32, x, y);
    return tw_mul(b, x, tw_const(b, TW_T_f32, (bits & 0x80000000u) | (uint64_t)(254 - exponent) << 23));
}

static tw_val real_sign(tw_builder *b, tw_val x) {
    tw_val one = tw_f32(b, 1), above = tw_select(b, tw_lt(b, tw_f32(b, 0), x), one, x);
    return tw_select(b, tw_lt(b, x, tw_f32(b, 0)), tw_f32(b, -1), above);
}

tw_val tw_cell_remainder(tw_builder *b, tw_val x, tw_val y) {
    const bool wide = tw_value_type(b->kernel, x) == TW_T_f64;
    const tw_opcode abs = wide ? TW_OP_abs_f64 : TW_OP_abs_f32, neg = wide ? TW_OP_neg_f64 : TW_OP_neg_f32,
                    div = wide ? TW_OP_div_f64 : TW_OP_div_f32, trunc = wide ? TW_OP_trunc_f64 : TW_OP_trunc_f32;
    tw_val none = wide ? tw_f64(b, 0) : tw_f32(b, 0), size = tw_unary(b, abs, y), some = tw_lt(b, none, size);
    tw_val nan = wide ? tw_const(b, TW_T_f64, 0x7ff8000000000000) : tw_const(b, TW_T_f32, 0x7fc00000);
    tw_val r = tw_var_of(b, x);
    TW_WHILE (b, tw_and(b, some, tw_le(b, size, tw_unary(b, abs, r)))) {
        tw_val times = tw_unary(b, trunc, tw_binary(b, div, r, y));
        tw_assign(b, r, tw_fma(b, tw_unary(b, neg, times), y, r));
    }
    tw_val low = tw_and(b, tw_lt(b, r, none), tw_lt(b, none, x)),
           high = tw_and(b, tw_lt(b, none, r), tw_lt(b, x, none));
    tw_val less = tw_unary(b, neg, size), up = tw_select(b, low, tw_add(b, r, size), r);
    return tw_select(b, some, tw_select(b, high, tw_add(b, r, less), up), nan);
}

/* 2^(y log2|x|). Of a negative x there are only whole powers, and the odd ones are negative. */
static tw_val power(tw_builder *b, tw_val x, tw_val y) {
    tw_val none = tw_f32(b, 0), half = tw_mul(b, y, tw_f32(b, 0.5f));
    tw_val size = tw_unary(b, TW_OP_log2_f32, tw_unary(b, TW_OP_abs_f32, x));
    tw_val p = tw_unary(b, TW_OP_exp2_f32, tw_mul(b, y, size));
    p = tw_select(b, tw_eq(b, y, none), tw_f32(b, 1), p);
    tw_val odd = tw_ne(b, tw_unary(b, TW_OP_floor_f32, half), half),
           whole = tw_eq(b, tw_unary(b, TW_OP_floor_f32, y), y);
    tw_val of_negative = tw_select(b, odd, tw_unary(b, TW_OP_neg_f32, p), p);
    of_negative = tw_select(b, whole, of_negative, tw_const(b, TW_T_f32, 0x7fc00000)); /* NaN */
    return tw_select(b, tw_lt(b, x, none), of_negative, p);
}

static tw_val is_zero(tw_builder *b, tw_val x) {
    return tw_eq(b, x, tw_i64(b, 0));
}

static tw_val whole_div(tw_builder *b, tw_val x, tw_val y) {
    return tw_select(b, is_zero(b, y), tw_i64(b, 0), tw_binary(b, TW_OP_div_s64, x, y));
}

static tw_val whole_rem(tw_builder *b, tw_val x, tw_val y) {
    return tw_select(b, is_zero(b, y), tw_i64(b, 0), tw_binary(b, TW_OP_rem_s64, x, y));
}

static tw_val whole_divu(tw_builder *b, tw_val x, tw_val y) {
    return tw_select(b, is_zero(b, y), tw_i64(b, 0), tw_binary(b, TW_OP_div_u64, x, y));
}

static tw_val whole_remu(tw_builder *b, tw_val x, tw_val y) {
    return tw_select(b, is_zero(b, y), tw_i64(b, 0), tw_binary(b, TW_OP_rem_u64, x, y));
}

/* Computes an integer power by squaring. The loop runs once for each bit of the exponent. */
static tw_val whole_pow(tw_builder *b, tw_val x, tw_val n) {
    tw_val none = tw_i64(b, 0), one = tw_i64(b, 1), negative = tw_lt(b, n, none), even = is_zero(b, tw_and(b, n, one));
    tw_val unit = tw_or(b, tw_eq(b, x, one), tw_eq(b, x, tw_i64(b, -1)));
    tw_val inverse = tw_select(b, unit, tw_select(b, even, one, x), none);
    tw_val left = tw_var_of(b, tw_select(b, negative, none, n)), by = tw_var_of(b, x), power = tw_var_of(b, one);
    TW_WHILE (b, tw_ne(b, left, none)) {
        tw_val taken = tw_ne(b, tw_and(b, left, one), none);
        tw_assign(b, power, tw_select(b, taken, tw_mul(b, power, by), power));
        tw_assign(b, by, tw_mul(b, by, by));
        tw_assign(b, left, tw_shr(b, left, 1));
    }
    return tw_select(b, negative, inverse, power);
}

static tw_val whole_mod(tw_builder *b, tw_val x, tw_val y) {
    tw_val r = whole_rem(b, x, y), apart = tw_lt(b, tw_xor(b, r, y), tw_i64(b, 0));
    return tw_select(b, tw_and(b, apart, tw_not(b, is_zero(b, r))), tw_add(b, r, y), r);
}

static tw_val shift(tw_builder *b, tw_opcode code, tw_val x, tw_val y) {
    tw_val bits = tw_i64(b, 64), by = tw_select(b, tw_binary(b, TW_OP_lt_u64, y, bits), y, bits);
    return tw_binary(b, code, x, tw_unary(b, TW_OP_trunc_i32_i64, by));
}

/* The lowest bits of an integer, with their sign or without one. */
static tw_val cut(tw_builder *b, tw_val x, int bits, bool sign) {
    tw_val low = tw_unary(b, TW_OP_trunc_i32_i64, x);
    if (bits == 16)
        low = tw_unary(b, sign ? TW_OP_sext_i32_i16 : TW_OP_zext_i32_i16, tw_unary(b, TW_OP_trunc_i16_i32, low));
    if (bits == 8) low = sign ? tw_unary(b, TW_OP_sext_i32_i8, low) : tw_and(b, low, tw_i32(b, 0xff));
    return tw_unary(b, sign ? TW_OP_sext_i64_i32 : TW_OP_zext_i64_i32, low);
}

static bool is_truth(tw_builder *b, tw_val x) {
    return tw_value_type(b->kernel, x) == TW_T_pred;
}

static tw_val same(tw_builder *b, tw_val x, tw_val y) {
    return is_truth(b, x) ? tw_not(b, tw_xor(b, x, y)) : tw_eq(b, x, y);
}

static tw_val to_real(tw_builder *b, tw_val x) {
    return is_truth(b, x) ? tw_select(b, x, tw_f32(b, 1), tw_f32(b, 0)) : tw_unary(b, TW_OP_cvt_f32_s64, x);
}

static tw_val to_double(tw_builder *b, tw_val x) {
    return is_truth(b, x) ? tw_select(b, x, tw_f64(b, 1), tw_f64(b, 0)) : tw_unary(b, TW_OP_cvt_f64_s64, x);
}

static tw_val real_to_whole(tw_builder *b, tw_val x) {
    return tw_select(b, tw_eq(b, x, x), tw_unary(b, TW_OP_cvt_s64_f32, x), tw_i64(b, 0));
}

static tw_val to_integer(tw_builder *b, tw_val x) {
    return is_truth(b, x) ? tw_select(b, x, tw_i64(b, 1), tw_i64(b, 0)) : x;
}

static tw_val to_truth(tw_builder *b, tw_val x) {
    return is_truth(b, x) ? x : tw_ne(b, x, tw_i64(b, 0));
}

/* -- cells */

#define NONE TW_NONE
static tw_val emit_real(tw_builder *b, tw_cell_op op, tw_val x, tw_val y) {
    switch ((int)op) {
#define CELL(name, classes, real, whole, ir_real, ir_whole)                                                            \
    case TW_CELL_##name:                                                                                               \
        return ir_real;
#include "kernels/pointwise/expression.def"
    default:
        return TW_NONE;
    }
}

static tw_val emit_whole(tw_builder *b, tw_cell_op op, tw_val x, tw_val y) {
    switch ((int)op) {
#define CELL(name, classes, real, whole, ir_real, ir_whole)                                                            \
    case TW_CELL_##name:                                                                                               \
        return ir_whole;
#include "kernels/pointwise/expression.def"
    default:
        return TW_NONE;
    }
}

static tw_val number(tw_builder *b, const tw_cell *c) {
    return c->class == TW_CLASS_real      ? tw_f32(b, (float)c->value.real)
           : c->class == TW_CLASS_double  ? tw_f64(b, c->value.real)
           : c->class == TW_CLASS_integer ? tw_i64(b, c->value.whole)
                                          : tw_const(b, TW_T_pred, (uint64_t)c->value.whole);
}

static tw_val choose(tw_builder *b, tw_val p, tw_val yes, tw_val no) {
    if (!is_truth(b, yes)) return tw_select(b, p, yes, no);
    return tw_or(b, tw_and(b, p, yes), tw_and(b, tw_not(b, p), no));
}

tw_val tw_cells_emit(tw_builder *b, const tw_cells *e, const tw_val *operands, const tw_val *index) {
    tw_val v[TW_CELLS];
    for (int i = 0; i <= e->value && !tw_kernel_failed(b->kernel); i++) {
        const tw_cell *c = &e->of[i];
        const tw_cell_op op = (tw_cell_op)c->op;
        const int a = c->of[0];
        if (op == TW_CELL_operand)
            v[i] = operands[a];
        else if (op == TW_CELL_index)
            v[i] = tw_widen(b, index[a]);
        else if (op == TW_CELL_number)
            v[i] = number(b, c);
        else if (op == TW_CELL_where)
            v[i] = choose(b, v[a], v[c->of[1]], v[c->of[2]]);
        else if (e->of[a].class == TW_CLASS_double)
            v[i] = tw_cell_emit_double(b, op, v[a], v[c->of[1]]);
        else if (e->of[a].class == TW_CLASS_real)
            v[i] = emit_real(b, op, v[a], v[c->of[1]]);
        else
            v[i] = emit_whole(b, op, v[a], v[c->of[1]]);
    }
    return tw_kernel_failed(b->kernel) ? TW_NONE : v[e->value];
}
