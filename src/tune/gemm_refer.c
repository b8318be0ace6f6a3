/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_refer.h"

#include "kernels/parts/convert.h"

enum { ROWS = TW_GEMM_REFER_ROWS, ELEMENTS = 8 /* Elements of a vector load. */ };

typedef struct refer {
    tw_builder *b;
    tw_type type, pair;
    tw_val a, x, want, tolerance, m, n, k;
    tw_val first, column; /* The thread's first row and its column. */
    tw_val sum[ROWS];     /* Sums of products, f64. */
    tw_val size[ROWS];    /* Sums of the products' magnitudes, f32. */
} refer;

static tw_val absolute(tw_builder *b, tw_val x) {
    return tw_max(b, x, tw_unary(b, TW_OP_neg_f64, x));
}

static tw_val row_at(const refer *r, tw_val base, tw_val row) {
    return tw_add(r->b, base, tw_mul_imm(r->b, tw_binary(r->b, TW_OP_mul_wide_u32, row, r->k), 2));
}

/* Returns row i of the thread, or the matrix's last row if row i is beyond it. */
static tw_val row_of(const refer *r, int i) {
    return tw_min(r->b, tw_add_imm(r->b, r->first, i), tw_add_imm(r->b, r->m, -1));
}

static void load(const refer *r, tw_val at, tw_val words[ELEMENTS / 2]) {
    tw_ld_vec(r->b, (tw_attrs){.type = TW_T_i32, .vec = ELEMENTS / 2}, at, words);
}

/* Adds the products of ELEMENTS columns. A product of two elements is exact in f32. */
static void multiply(const refer *r, const tw_val *a, const tw_val *x, int i) {
    tw_builder *b = r->b;
    for (int e = 0; e < ELEMENTS; e++) {
        tw_val left = tw_part_half(b, r->pair, a[e / 2], e % 2);
        tw_val right = tw_part_half(b, r->pair, x[e / 2], e % 2);
        tw_val product = tw_mul(b, left, right);
        tw_assign(b, r->sum[i], tw_add(b, r->sum[i], tw_unary(b, TW_OP_cvt_f64_f32, product)));
        tw_assign(b, r->size[i], tw_add(b, r->size[i], tw_unary(b, TW_OP_abs_f32, product)));
    }
}

/* Computes the largest error of a correct kernel: sixteen roundings of the sum of magnitudes, the bits that tensor
   cores truncate, and the rounding of C. */
static tw_val allowed(const refer *r, int i) {
    tw_builder *b = r->b;
    const bool half = r->type == TW_T_f16;
    tw_val size = tw_unary(b, TW_OP_cvt_f64_f32, r->size[i]), magnitude = absolute(b, r->sum[i]);
    tw_val steps = tw_mul(b, tw_unary(b, TW_OP_cvt_f64_s32, r->k), tw_f64(b, 1.0 / 128));
    tw_val root = tw_unary(b, TW_OP_sqrt_f64, size);
    tw_val cut = tw_mul(b, steps, tw_add(b, tw_add(b, root, root), magnitude));
    tw_val sums = tw_mul(b, tw_add(b, size, cut), tw_f64(b, 16 * 0x1p-24));
    tw_val rounding = tw_mul(b, magnitude, tw_f64(b, 1.01 * (half ? 0x1p-11 : 0x1p-8)));
    tw_val all = tw_add(b, tw_add(b, sums, rounding), tw_f64(b, half ? 0x1p-24 : 0));
    all = tw_add(b, tw_mul(b, all, tw_f64(b, 1.001)), tw_f64(b, 1e-30));
    return tw_unary(b, TW_OP_cvt_f32_f64, all);
}

static void store(const refer *r, int i) {
    tw_builder *b = r->b;
    tw_val row = tw_add_imm(b, r->first, i), tolerance = allowed(r, i);
    TW_IF (b, tw_lt(b, row, r->m)) {
        tw_val at = tw_add(b, tw_binary(b, TW_OP_mul_wide_u32, row, r->n), tw_widen(b, r->column));
        tw_val want = tw_add(b, r->want, tw_mul_imm(b, at, 8));
        tw_st(b, (tw_attrs){.type = TW_T_f64}, want, &r->sum[i]);
        tw_val most = tw_add(b, r->tolerance, tw_mul_imm(b, at, 4));
        tw_st(b, (tw_attrs){.type = TW_T_f32}, most, &tolerance);
    }
}

static void compute(refer *r) {
    tw_builder *b = r->b;
    tw_val rows[ROWS];
    for (int i = 0; i < ROWS; i++) {
        rows[i] = row_at(r, r->a, row_of(r, i));
        r->sum[i] = tw_var_of(b, tw_f64(b, 0));
        r->size[i] = tw_var_of(b, tw_f32(b, 0));
    }
    tw_val x = row_at(r, r->x, r->column);
    TW_FOR (b, k, tw_i32(b, 0), r->k, tw_i32(b, ELEMENTS), false) {
        tw_val offset = tw_widen(b, tw_mul_imm(b, k, 2));
        tw_val right[ELEMENTS / 2] = {TW_NONE}, left[ROWS][ELEMENTS / 2] = {{TW_NONE}};
        tw_val at = tw_add(b, x, offset);
        load(r, at, right);
        for (int i = 0; i < ROWS; i++) {
            tw_val row = tw_add(b, rows[i], offset);
            load(r, row, left[i]);
        }
        for (int i = 0; i < ROWS; i++) multiply(r, left[i], right, i);
    }
    for (int i = 0; i < ROWS; i++) store(r, i);
}

tw_kernel *tw_gemm_refer_build(tw_type type, int sm) {
    tw_kernel *k = tw_kernel_new("refer", sm, TW_GEMM_REFER_THREADS);
    if (!k) return NULL;
    tw_builder builder = tw_builder_of(k), *b = &builder;
    refer r = {.b = b, .type = type, .pair = type == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2};
    r.a = tw_pointer_add(b, "a", 16, true);
    r.x = tw_pointer_add(b, "b", 16, true);
    r.want = tw_pointer_add(b, "want", 8, false);
    r.tolerance = tw_pointer_add(b, "tolerance", 4, false);
    r.m = tw_parameter_add(b, "m", TW_T_i32);
    r.n = tw_parameter_add(b, "n", TW_T_i32);
    r.k = tw_parameter_add(b, "k", TW_T_i32);
    tw_val block = tw_mul_imm(b, tw_sreg(b, TW_SREG_ctaid_x), TW_GEMM_REFER_THREADS);
    r.column = tw_add(b, block, tw_sreg(b, TW_SREG_tid_x));
    r.first = tw_mul_imm(b, tw_sreg(b, TW_SREG_ctaid_y), ROWS);
    TW_IF (b, tw_lt(b, r.column, r.n)) {
        compute(&r);
    }
    if (!tw_kernel_failed(k)) return k;
    tw_kernel_free(k);
    return NULL;
}
