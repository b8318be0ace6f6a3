/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of expressions in f64. */
#include "kernels/parts/double.h"
#include "kernels/pointwise/emit.h"

static tw_val divide(tw_builder *b, tw_val x, tw_val y) {
    return tw_binary(b, TW_OP_div_f64, x, y);
}

static tw_val negative(tw_builder *b, tw_val x) {
    return tw_unary(b, TW_OP_neg_f64, x);
}

static tw_val sign(tw_builder *b, tw_val x) {
    tw_val zero = tw_f64(b, 0), above = tw_select(b, tw_lt(b, zero, x), tw_f64(b, 1), x);
    return tw_select(b, tw_lt(b, x, zero), tw_f64(b, -1), above);
}

static tw_val to_integer(tw_builder *b, tw_val x) {
    return tw_select(b, tw_eq(b, x, x), tw_unary(b, TW_OP_cvt_s64_f64, x), tw_i64(b, 0));
}

/* 1 / (1 + e^-x). */
static tw_val sigmoid(tw_builder *b, tw_val x) {
    tw_val one = tw_f64(b, 1);
    return divide(b, one, tw_add(b, one, tw_part_exp_f64(b, negative(b, x))));
}

static tw_val compute(tw_builder *b, tw_cell_op op, tw_val x, tw_val y) {
    switch ((int)op) {
    case TW_CELL_add:
        return tw_add(b, x, y);
    case TW_CELL_sub:
        return tw_sub(b, x, y);
    case TW_CELL_mul:
        return tw_mul(b, x, y);
    case TW_CELL_div:
        return divide(b, x, y);
    case TW_CELL_min:
        return tw_cell_extreme(b, x, y, tw_lt(b, x, y));
    case TW_CELL_max:
        return tw_cell_extreme(b, x, y, tw_lt(b, y, x));
    case TW_CELL_rem:
        return tw_cell_remainder(b, x, y);
    case TW_CELL_neg:
        return negative(b, x);
    case TW_CELL_abs:
        return tw_unary(b, TW_OP_abs_f64, x);
    case TW_CELL_sign:
        return sign(b, x);
    case TW_CELL_relu:
        return tw_select(b, tw_lt(b, x, tw_f64(b, 0)), tw_f64(b, 0), x);
    case TW_CELL_sqrt:
        return tw_unary(b, TW_OP_sqrt_f64, x);
    case TW_CELL_rsqrt:
        return divide(b, tw_f64(b, 1), tw_unary(b, TW_OP_sqrt_f64, x));
    case TW_CELL_reciprocal:
        return divide(b, tw_f64(b, 1), x);
    case TW_CELL_exp:
        return tw_part_exp_f64(b, x);
    case TW_CELL_log:
        return tw_part_log_f64(b, x);
    case TW_CELL_sigmoid:
        return sigmoid(b, x);
    case TW_CELL_silu:
        return tw_mul(b, x, sigmoid(b, x));
    case TW_CELL_floor:
        return tw_unary(b, TW_OP_floor_f64, x);
    case TW_CELL_ceil:
        return tw_unary(b, TW_OP_ceil_f64, x);
    case TW_CELL_round:
        return tw_unary(b, TW_OP_rint_f64, x);
    default:
        return TW_NONE;
    }
}

tw_val tw_cell_emit_double(tw_builder *b, tw_cell_op op, tw_val x, tw_val y) {
    switch ((int)op) {
    case TW_CELL_less:
        return tw_lt(b, x, y);
    case TW_CELL_less_equal:
        return tw_le(b, x, y);
    case TW_CELL_greater:
        return tw_lt(b, y, x);
    case TW_CELL_greater_equal:
        return tw_le(b, y, x);
    case TW_CELL_equal:
        return tw_eq(b, x, y);
    case TW_CELL_not_equal:
        return tw_ne(b, x, y);
    case TW_CELL_isnan:
        return tw_ne(b, x, x);
    case TW_CELL_real:
        return tw_unary(b, TW_OP_cvt_f32_f64, x);
    case TW_CELL_double:
        return x;
    case TW_CELL_integer:
        return to_integer(b, x);
    case TW_CELL_truth:
        return tw_ne(b, x, tw_f64(b, 0));
    default:
        return compute(b, op, x, y);
    }
}
