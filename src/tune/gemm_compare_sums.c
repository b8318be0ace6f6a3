/* SPDX-License-Identifier: Apache-2.0 */
/* A thread has a row of C, and as many of its columns as some vectors of sums are of. */
#include "kernels/parts/convert.h"
#include "tune/gemm_compare.h"

/* The sums of what a thread has, f64. */
typedef struct sums {
    tw_val squares, cells, sizes; /* sizes: of the cells' magnitudes. */
} sums;

static tw_val magnitude(tw_builder *b, tw_val x) {
    return tw_max(b, x, tw_unary(b, TW_OP_neg_f64, x));
}

/* Adds up columns from `from` to below `below` of a row, whose first cell lies at `row`. */
static sums add_up(tw_builder *b, tw_type type, tw_val row, tw_val from, tw_val below) {
    const sums s = {tw_var_of(b, tw_f64(b, 0)), tw_var_of(b, tw_f64(b, 0)), tw_var_of(b, tw_f64(b, 0))};
    TW_FOR (b, j, from, below, tw_i32(b, 1), false) {
        tw_val at = tw_add(b, row, tw_mul_imm(b, tw_widen(b, j), tw_type_bits(type) / 8));
        tw_val x = tw_unary(b, TW_OP_cvt_f64_f32, tw_part_widen(b, type, tw_ld(b, (tw_attrs){.type = type}, at)));
        tw_assign(b, s.squares, tw_fma(b, x, x, s.squares));
        tw_assign(b, s.cells, tw_add(b, s.cells, x));
        tw_assign(b, s.sizes, tw_add(b, s.sizes, magnitude(b, x)));
    }
    return s;
}

/* Tells whether a sum is what it should be, as far as sums in f32 of terms of such sizes are
   (kernels/gemm/reference.c), which may have been off by `unit` of themselves. A NaN is not. */
static tw_val is_right(tw_builder *b, tw_val sum, tw_val want, tw_val size, double unit) {
    tw_val most = tw_fma(b, size, tw_f64(b, 70 * 0x1p-24 + unit), tw_f64(b, unit > 0 ? 257 * 0x1p-24 : 257 * 0x1p-149));
    return tw_lt(b, magnitude(b, tw_sub(b, sum, want)), most);
}

tw_kernel *tw_gemm_compare_sums_build(tw_type type, bool means, int sm) {
    tw_kernel *k = tw_kernel_new("compare_sums", sm, TW_GEMM_COMPARE_THREADS);
    if (!k) return NULL;
    tw_builder builder = tw_builder_of(k), *b = &builder;
    const int es = tw_type_bits(type) / 8, kinds = 1 + means;
    tw_val c = tw_pointer_add(b, "c", es, true), from = tw_pointer_add(b, "sums", 4, true),
           verdict = tw_pointer_add(b, "verdict", 4, false), m = tw_parameter_add(b, "m", TW_T_i32),
           n = tw_parameter_add(b, "n", TW_T_i32), pitch = tw_parameter_add(b, "pitch", TW_T_i64),
           columns = tw_parameter_add(b, "columns", TW_T_i32), parts = tw_parameter_add(b, "parts", TW_T_i32);
    tw_val row = tw_add(b, tw_mul_imm(b, tw_sreg(b, TW_SREG_ctaid_x), TW_GEMM_COMPARE_THREADS),
                        tw_sreg(b, TW_SREG_tid_x)),
           group = tw_sreg(b, TW_SREG_ctaid_y), first = tw_mul(b, group, columns);
    TW_IF (b, tw_lt(b, row, m)) {
        tw_val of_row = tw_add(b, c, tw_mul_imm(b, tw_mul(b, tw_widen(b, row), pitch), es));
        const sums want = add_up(b, type, of_row, first, tw_min(b, n, tw_add(b, first, columns)));
        tw_val have[2] = {tw_var_of(b, tw_f64(b, 0)), tw_var_of(b, tw_f64(b, 0))};
        TW_FOR (b, i, tw_i32(b, 0), parts, tw_i32(b, 1), false) {
            tw_val vector = tw_add(b, tw_mul(b, group, parts), i);
            tw_val at = tw_add(b, tw_binary(b, TW_OP_mul_wide_u32, vector, m), tw_widen(b, row));
            at = tw_add(b, from, tw_mul_imm(b, at, 4 * kinds));
            for (int kind = 0; kind < kinds; kind++) {
                tw_val x = tw_ld(b, (tw_attrs){.type = TW_T_f32, .offset = 4 * kind}, at);
                tw_assign(b, have[kind], tw_add(b, have[kind], tw_unary(b, TW_OP_cvt_f64_f32, x)));
            }
        }
        /* Of layer norms cells were not rounded yet. */
        const double unit = !means || type == TW_T_f32 ? 0 : 1.01 * (type == TW_T_f16 ? 0x1p-11 : 0x1p-8);
        tw_val right = is_right(b, have[0], want.squares, want.squares, 3 * unit);
        if (means) right = tw_and(b, right, is_right(b, have[1], want.cells, want.sizes, unit));
        tw_val one = tw_i32(b, 1);
        tw_when(b, tw_not(b, right));
        tw_red(b, (tw_attrs){.rmw = TW_RMW_add, .type = TW_T_i32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_gpu},
               verdict, &one);
    }
    if (!tw_kernel_failed(k)) return k;
    tw_kernel_free(k);
    return NULL;
}
