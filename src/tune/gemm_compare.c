/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_compare.h"

#include "kernels/parts/convert.h"

/* Converts the low byte of an i32, an e4m3, to f32. A NaN stays a NaN. */
static tw_val e4m3_to_f32(tw_builder *b, tw_val x) {
    tw_val all = tw_i32(b, 0x7f), nan = tw_bitcast(b, TW_T_f32, tw_i32(b, 0x7fffffff));
    return tw_select(b, tw_eq(b, tw_and(b, x, all), all), nan, tw_part_e4m3(b, x, 0));
}

static tw_val as_double(tw_builder *b, tw_type t, tw_val x) {
    x = t == TW_T_e4m3 ? e4m3_to_f32(b, x) : tw_part_widen(b, t, x);
    if (t == TW_T_f64) return x;
    const bool whole = t == TW_T_i8 || t == TW_T_i32;
    return tw_unary(b, whole ? TW_OP_cvt_f64_s32 : TW_OP_cvt_f64_f32, x);
}

tw_kernel *tw_gemm_compare_build(tw_type type, int sm) {
    tw_kernel *k = tw_kernel_new("compare", sm, TW_GEMM_COMPARE_THREADS);
    if (!k) return NULL;
    tw_builder builder = tw_builder_of(k), *b = &builder;
    const int es = tw_type_bits(type) / 8;
    const bool whole = type == TW_T_i8 || type == TW_T_i32;
    const tw_type loaded = type == TW_T_e4m3 ? TW_T_i8 : type;
    tw_val c = tw_pointer_add(b, "c", es, true), want = tw_pointer_add(b, "want", 8, true);
    tw_val tolerance = tw_pointer_add(b, "tolerance", 4, true), verdict = tw_pointer_add(b, "verdict", 4, false);
    tw_val elements = tw_parameter_add(b, "elements", TW_T_i64), columns = tw_parameter_add(b, "columns", TW_T_i64),
           pitch = tw_parameter_add(b, "pitch", TW_T_i64);
    tw_val block = tw_sreg(b, TW_SREG_ctaid_x), blocks = tw_sreg(b, TW_SREG_nctaid_x),
           thread = tw_sreg(b, TW_SREG_tid_x);
    tw_val threads = tw_i32(b, TW_GEMM_COMPARE_THREADS);
    tw_val from = tw_add(b, tw_binary(b, TW_OP_mul_wide_u32, block, threads), tw_widen(b, thread));
    tw_val step = tw_binary(b, TW_OP_mul_wide_u32, blocks, threads);
    tw_val wrong = tw_var_of(b, tw_i32(b, 0)), worst = tw_var_of(b, tw_f32(b, 0));
    tw_val cell = tw_var_of(b, tw_const(b, TW_T_i64, 0)), column = tw_var_of(b, tw_const(b, TW_T_i64, 0));
    tw_val apart = tw_ne(b, pitch, columns), no = tw_const(b, TW_T_i64, 0);
    TW_FOR (b, i, from, elements, step, false) {
        tw_assign(b, cell, i);
        TW_IF (b, apart) {
            tw_val row = tw_binary(b, TW_OP_div_s64, i, pitch);
            tw_assign(b, column, tw_sub(b, i, tw_mul(b, row, pitch)));
            tw_assign(b, cell, tw_add(b, tw_mul(b, row, columns), column));
        }
        tw_val gap = tw_and(b, apart, tw_not(b, tw_lt(b, column, columns))), at = tw_select(b, gap, no, cell);
        tw_val x = as_double(b, type, tw_ld(b, (tw_attrs){.type = loaded}, tw_add(b, c, tw_mul_imm(b, i, es))));
        tw_val y = tw_ld(b, (tw_attrs){.type = TW_T_f64}, tw_add(b, want, tw_mul_imm(b, at, 8)));
        tw_val most = tw_ld(b, (tw_attrs){.type = TW_T_f32}, tw_add(b, tolerance, tw_mul_imm(b, at, 4)));
        tw_val error = tw_sub(b, x, y);
        error = tw_max(b, error, tw_unary(b, TW_OP_neg_f64, error));
        /* Comparisons with NaN are false, so NaN counts as wrong. */
        tw_val right = tw_lt(b, error, tw_unary(b, TW_OP_cvt_f64_f32, most));
        /* Bytes of 0xff are a NaN, or -1. */
        tw_val untouched = whole ? tw_eq(b, x, tw_f64(b, -1)) : tw_not(b, tw_eq(b, x, x));
        tw_val fine = tw_or(b, tw_and(b, gap, untouched), tw_and(b, tw_not(b, gap), right));
        tw_add_to(b, wrong, tw_select(b, fine, tw_i32(b, 0), tw_i32(b, 1)));
        tw_val share = tw_binary(b, TW_OP_div_f32, tw_unary(b, TW_OP_cvt_f32_f64, error), most);
        tw_assign(b, worst, tw_max(b, worst, tw_select(b, gap, tw_f32(b, 0), share)));
    }
    tw_attrs at = {.rmw = TW_RMW_add, .type = TW_T_i32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_gpu};
    tw_when(b, tw_ne(b, wrong, tw_i32(b, 0)));
    tw_red(b, at, verdict, &wrong);
    /* Floats that are not negative have the order of their bits. */
    tw_val bits = tw_bitcast(b, TW_T_i32, worst);
    at.rmw = TW_RMW_max_s32;
    at.offset = 4;
    tw_red(b, at, verdict, &bits);
    if (!tw_kernel_failed(k)) return k;
    tw_kernel_free(k);
    return NULL;
}
