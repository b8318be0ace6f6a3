/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_refer.h"

#include "kernels/parts/convert.h"

enum { ROWS = TW_GEMM_REFER_ROWS, WORDS = 4 /* Words of a vector load. */ };

typedef struct refer {
    tw_builder *b;
    tw_gemm_type type;
    int es; /* Bytes of an element. */
    tw_val a, x, want, tolerance, m, n, k, promote;
    tw_val first, column; /* The thread's first row and its column. */
    tw_val sum[ROWS];     /* Sums of products, f64. */
    tw_val size[ROWS];    /* Sums of the products' magnitudes, f32. */
} refer;

static tw_val absolute(tw_builder *b, tw_val x) {
    return tw_max(b, x, tw_unary(b, TW_OP_neg_f64, x));
}

static tw_val row_at(const refer *r, tw_val base, tw_val row) {
    return tw_add(r->b, base, tw_mul_imm(r->b, tw_binary(r->b, TW_OP_mul_wide_u32, row, r->k), r->es));
}

/* Returns row i of the thread, or the matrix's last row if row i is beyond it. */
static tw_val row_of(const refer *r, int i) {
    return tw_min(r->b, tw_add_imm(r->b, r->first, i), tw_add_imm(r->b, r->m, -1));
}

static void load(const refer *r, tw_val at, tw_val words[WORDS]) {
    tw_ld_vec(r->b, (tw_attrs){.type = TW_T_i32, .vec = WORDS}, at, words);
}

/* Returns element `e` of a vector as f32. */
static tw_val element(const refer *r, const tw_val *words, int e) {
    if (r->es == 4) return tw_bitcast(r->b, TW_T_f32, words[e]);
    if (r->es == 1) return tw_part_e4m3(r->b, words[e / 4], e % 4);
    return tw_part_half(r->b, r->type == TW_GEMM_F16 ? TW_T_f16x2 : TW_T_bf16x2, words[e / 2], e % 2);
}

/* Adds the products of a vector's columns. A product of two elements is exact in f64, and of elements of less than 32
   bits in f32, too. */
static void multiply(const refer *r, const tw_val *a, const tw_val *x, int i) {
    tw_builder *b = r->b;
    for (int e = 0; e < 4 * WORDS / r->es; e++) {
        tw_val left = element(r, a, e), right = element(r, x, e), product = tw_mul(b, left, right), exact;
        if (r->es == 4)
            exact = tw_mul(b, tw_unary(b, TW_OP_cvt_f64_f32, left), tw_unary(b, TW_OP_cvt_f64_f32, right));
        else
            exact = tw_unary(b, TW_OP_cvt_f64_f32, product);
        tw_assign(b, r->sum[i], tw_add(b, r->sum[i], exact));
        tw_assign(b, r->size[i], tw_add(b, r->size[i], tw_unary(b, TW_OP_abs_f32, product)));
    }
}

/* Computes what tensor cores may truncate. */
static tw_val cut_off(const refer *r, tw_val size, tw_val magnitude) {
    tw_builder *b = r->b;
    tw_val steps = tw_mul(b, tw_unary(b, TW_OP_cvt_f64_s32, r->k), tw_f64(b, 1.0 / 8 * 0x1p-24));
    tw_val root = tw_unary(b, TW_OP_sqrt_f64, size);
    return tw_mul(b, steps, tw_add(b, tw_add(b, root, root), magnitude));
}

static tw_val cut_off_e4m3(const refer *r, tw_val size, tw_val magnitude) {
    tw_builder *b = r->b;
    tw_val k = tw_unary(b, TW_OP_cvt_f64_s32, r->k), promoted = tw_ne(b, r->promote, tw_i32(b, 0));
    tw_val part = tw_select(b, promoted, tw_f64(b, 128), k);
    part = tw_binary(b, TW_OP_div_f64, tw_min(b, part, k), k);
    tw_val root = tw_unary(b, TW_OP_sqrt_f64, tw_mul(b, size, part));
    tw_val largest = tw_add(b, tw_f64(b, 1), tw_add(b, root, root));
    largest = tw_add(b, largest, tw_select(b, promoted, tw_f64(b, 0), magnitude));
    tw_val steps = tw_mul(b, k, tw_f64(b, 1.0 / 32)),
           deviations = tw_mul(b, tw_unary(b, TW_OP_sqrt_f64, k), tw_f64(b, 4));
    return tw_mul(b, tw_mul(b, tw_add(b, steps, deviations), largest), tw_f64(b, 0x1p-13));
}

/* Computes the largest error of a correct kernel: sixteen roundings of the sum of magnitudes, the bits that tensor
   cores truncate, and the rounding of C. */
static tw_val allowed(const refer *r, int i) {
    tw_builder *b = r->b;
    const bool half = r->type == TW_GEMM_F16;
    const double unit = r->es == 4 ? 0x1p-24 : half ? 0x1p-11 : 0x1p-8;
    tw_val size = tw_unary(b, TW_OP_cvt_f64_f32, r->size[i]), magnitude = absolute(b, r->sum[i]);
    tw_val sums = tw_mul(b, size, tw_f64(b, 16 * 0x1p-24));
    /* Tensor cores lose nothing that counts of f32, whose sums are promoted. */
    if (r->es < 4) sums = tw_add(b, sums, (r->type == TW_GEMM_E4M3 ? cut_off_e4m3 : cut_off)(r, size, magnitude));
    tw_val rounding = tw_mul(b, magnitude, tw_f64(b, 1.01 * unit));
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
    TW_FOR (b, k, tw_i32(b, 0), r->k, tw_i32(b, 4 * WORDS / r->es), false) {
        tw_val offset = tw_widen(b, tw_mul_imm(b, k, r->es));
        tw_val right[WORDS] = {TW_NONE}, left[ROWS][WORDS] = {{TW_NONE}};
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

tw_kernel *tw_gemm_refer_build(tw_gemm_type type, int sm) {
    tw_kernel *k = tw_kernel_new("refer", sm, TW_GEMM_REFER_THREADS);
    if (!k) return NULL;
    tw_builder builder = tw_builder_of(k), *b = &builder;
    refer r = {.b = b, .type = type, .es = tw_type_bits(tw_gemm_types[type].element) / 8};
    r.a = tw_pointer_add(b, "a", 16, true);
    r.x = tw_pointer_add(b, "b", 16, true);
    r.want = tw_pointer_add(b, "want", 8, false);
    r.tolerance = tw_pointer_add(b, "tolerance", 4, false);
    r.m = tw_parameter_add(b, "m", TW_T_i32);
    r.n = tw_parameter_add(b, "n", TW_T_i32);
    r.k = tw_parameter_add(b, "k", TW_T_i32);
    r.promote = tw_parameter_add(b, "promote", TW_T_i32);
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
