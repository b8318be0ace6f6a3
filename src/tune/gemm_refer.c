/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_refer.h"

#include "kernels/parts/convert.h"
#include "tune/gemm_refer_activate.h"

#include <string.h>

enum { ROWS = TW_GEMM_REFER_ROWS, WORDS = 4 /* Words of a vector load. */ };
static const double ROUNDINGS = 16 * 0x1p-24; /* Of f32 that a sum's magnitudes may suffer. */

typedef struct refer {
    tw_builder *b;
    tw_gemm_type type;
    int es; /* Bytes of an element. */
    tw_gemm_narrow narrow;
    int group;  /* Narrow: elements along k with a common scale. 0: there are no scales. */
    bool exact; /* Narrow: elements are not rounded. */
    bool tall;  /* B is k x n. */
    tw_gemm_epilogue epilogue;
    bool normed, centred, norm_residual; /* There are sums of rows: tw_gemm_problem.sums, and what they are of. */
    tw_val sums, parts, apart, eps;
    tw_val bias, mul, residual, residual_gains;
    tw_val scales, scale_columns;
    tw_val a, x, want, tolerance, twice, m, n, k, promote, ldb;
    tw_val first, column;  /* The thread's first row, and its column of B. */
    tw_val place, columns; /* Its column of C, which has so many. */
    tw_val sum[ROWS];      /* Sums of products, f64. */
    tw_val size[ROWS];     /* Sums of the products' magnitudes, f32. */
    /* Gated: the gates' sums. The others are then the values'. */
    tw_val gate_sum[ROWS], gate_size[ROWS];
} refer;

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

/* Adds the products of a vector's columns. `x` has elements of B. A product of two elements is exact in f64, and of
   elements of less than 32 bits in f32, too. */
static void multiply(const refer *r, const tw_val *a, const tw_val *x, int i) {
    tw_builder *b = r->b;
    for (int e = 0; e < 4 * WORDS / r->es; e++) {
        tw_val left = element(r, a, e), product = tw_mul(b, left, x[e]), exact;
        if (r->es == 4)
            exact = tw_mul(b, tw_unary(b, TW_OP_cvt_f64_f32, left), tw_unary(b, TW_OP_cvt_f64_f32, x[e]));
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
    const double largest = r->narrow == TW_GEMM_I8 ? 128 : r->narrow ? 8 : 1; /* The largest element of B. */
    tw_val root = tw_unary(b, TW_OP_sqrt_f64, tw_mul(b, size, tw_f64(b, largest)));
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

/* A cell, all f64. */
typedef struct cell {
    tw_val value;
    tw_val error;   /* The largest error that the value may have before C is rounded. */
    tw_val between; /* That of rounding the product to C's type before its epilogue. */
} cell;

/* The largest error of rounding a value to C's type. */
static tw_val rounding(const refer *r, tw_val value) {
    tw_builder *b = r->b;
    const bool half = r->type == TW_GEMM_F16;
    const double unit = r->es == 4 ? 0x1p-24 : half ? 0x1p-11 : 0x1p-8;
    tw_val of_value = tw_mul(b, tw_gemm_refer_abs(b, value), tw_f64(b, 1.01 * unit));
    return tw_add(b, of_value, tw_f64(b, half ? 0x1p-24 : 0));
}

/* Computes a sum, whose error is sixteen roundings of the sum of magnitudes and the bits that tensor cores truncate. */
static cell sum_of(const refer *r, tw_val sum, tw_val magnitudes) {
    tw_builder *b = r->b;
    tw_val size = tw_unary(b, TW_OP_cvt_f64_f32, magnitudes), magnitude = tw_gemm_refer_abs(b, sum);
    tw_val error = tw_mul(b, size, tw_f64(b, ROUNDINGS));
    /* Tensor cores lose nothing that counts of f32, whose sums are promoted. */
    if (r->es < 4) error = tw_add(b, error, (r->type == TW_GEMM_E4M3 ? cut_off_e4m3 : cut_off)(r, size, magnitude));
    return (cell){sum, error, rounding(r, sum)};
}

/* Loads an element of C's type as f64. */
static tw_val operand(const refer *r, tw_val from, tw_val index) {
    const tw_type t = tw_gemm_types[r->type].out;
    tw_val at = tw_add(r->b, from, tw_mul_imm(r->b, index, r->es));
    tw_val x = tw_ld(r->b, (tw_attrs){.type = t}, at);
    return tw_unary(r->b, TW_OP_cvt_f64_f32, t == TW_T_f32 ? x : tw_part_widen(r->b, t, x));
}

/* Adds a term, whose rounding and whose sum's count like those of the products. */
static void add_term(const refer *r, cell *c, tw_val term) {
    tw_builder *b = r->b;
    c->value = tw_add(b, c->value, term);
    c->error = tw_add(b, c->error, tw_mul(b, tw_gemm_refer_abs(b, term), tw_f64(b, ROUNDINGS)));
}

/* The slope of an activation is below 1.2. */
static void activate(const refer *r, cell *c) {
    tw_builder *b = r->b;
    if (!r->epilogue.activation) return;
    c->value = tw_gemm_refer_activate(b, r->epilogue.activation, c->value);
    c->error = tw_mul(b, c->error, tw_f64(b, 1.2));
    c->between = tw_mul(b, c->between, tw_f64(b, 1.2));
}

/* Multiplies a gate and a value, neither of which is rounded before. */
static cell gated(const refer *r, const cell *gate, const cell *value) {
    tw_builder *b = r->b;
    tw_val of_gate = tw_mul(b, gate->error, tw_gemm_refer_abs(b, value->value)),
           of_value = tw_mul(b, value->error, tw_gemm_refer_abs(b, gate->value));
    return (cell){tw_mul(b, gate->value, value->value), tw_add(b, of_gate, of_value), tw_f64(b, 0)};
}

/* The norm of a row of A, or of the residual: x becomes (x - mean) * factor, all f64. */
typedef struct norm {
    tw_val mean, factor;
} norm;

/* Finds it from the sums of the row's parts. */
static norm norm_of(const refer *r, tw_val row) {
    tw_builder *b = r->b;
    const int kinds = 1 + r->centred;
    tw_val sums[2] = {tw_var_of(b, tw_f64(b, 0)), tw_var_of(b, tw_f64(b, 0))};
    tw_val extent = tw_unary(b, TW_OP_cvt_f64_s32, r->norm_residual ? r->n : r->k);
    TW_FOR (b, part, tw_i32(b, 0), r->parts, tw_i32(b, 1), false) {
        tw_val vector = tw_add(b, tw_binary(b, TW_OP_mul_wide_u32, part, r->apart), tw_widen(b, row));
        tw_val at = tw_add(b, r->sums, tw_mul_imm(b, vector, 4 * kinds));
        for (int i = 0; i < kinds; i++) {
            tw_val x = tw_ld(b, (tw_attrs){.type = TW_T_f32, .offset = 4 * i}, at);
            tw_assign(b, sums[i], tw_add(b, sums[i], tw_unary(b, TW_OP_cvt_f64_f32, x)));
        }
    }
    tw_val mean = tw_binary(b, TW_OP_div_f64, sums[1], extent);
    tw_val variance = tw_sub(b, tw_binary(b, TW_OP_div_f64, sums[0], extent), tw_mul(b, mean, mean));
    tw_val root = tw_unary(b, TW_OP_sqrt_f64, tw_add(b, variance, tw_unary(b, TW_OP_cvt_f64_f32, r->eps)));
    return (norm){mean, tw_binary(b, TW_OP_div_f64, tw_f64(b, 1), root)};
}

/* Adds a residual that lacks its norm. */
static void add_normed(const refer *r, cell *c, tw_val x, const norm *of_row) {
    tw_builder *b = r->b;
    tw_val gain = tw_mul(b, operand(r, r->residual_gains, tw_widen(b, r->place)), of_row->factor);
    tw_val size = tw_add(b, tw_gemm_refer_abs(b, x), tw_gemm_refer_abs(b, of_row->mean));
    c->value = tw_add(b, c->value, tw_mul(b, tw_sub(b, x, of_row->mean), gain));
    size = tw_mul(b, tw_mul(b, size, tw_gemm_refer_abs(b, gain)), tw_f64(b, ROUNDINGS));
    c->error = tw_add(b, c->error, size);
}

/* Computes the epilogue of the cell at `index` of C. */
static void finish(const refer *r, tw_val index, const norm *of_row, cell *c) {
    tw_builder *b = r->b;
    const tw_gemm_epilogue *e = &r->epilogue;
    if (e->bias) add_term(r, c, operand(r, r->bias, tw_widen(b, r->place)));
    if (!e->gated) activate(r, c);
    if (e->mul) {
        tw_val by = operand(r, r->mul, index);
        c->value = tw_mul(b, c->value, by);
        c->error = tw_mul(b, c->error, tw_gemm_refer_abs(b, by));
        c->between = tw_mul(b, c->between, tw_gemm_refer_abs(b, by));
    }
    if (!e->residual) return;
    tw_val residual = operand(r, r->residual, index);
    if (r->norm_residual)
        add_normed(r, c, residual, of_row);
    else
        add_term(r, c, residual);
}

/* Stores the largest |C - want| of a correct kernel: `error`, and the rounding of C. */
static void store_allowed(const refer *r, tw_val to, tw_val at, const cell *c, tw_val error) {
    tw_builder *b = r->b;
    tw_val all = tw_add(b, error, rounding(r, c->value));
    all = tw_add(b, tw_mul(b, all, tw_f64(b, 1.001)), tw_f64(b, 1e-30));
    tw_val most = tw_unary(b, TW_OP_cvt_f32_f64, all);
    tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_add(b, to, tw_mul_imm(b, at, 4)), &most);
}

/* The sum of a row of A, or of what its norm makes of it. */
static cell row_sum(const refer *r, tw_val sum, tw_val size, const norm *of_row) {
    tw_builder *b = r->b;
    if (!r->normed || r->norm_residual) return sum_of(r, sum, size);
    return sum_of(r, tw_mul(b, sum, of_row->factor), tw_mul(b, size, tw_unary(b, TW_OP_cvt_f32_f64, of_row->factor)));
}

static void store(const refer *r, int i) {
    tw_builder *b = r->b;
    tw_val row = tw_add_imm(b, r->first, i);
    TW_IF (b, tw_lt(b, row, r->m)) {
        const norm of_row = r->normed ? norm_of(r, row) : (norm){TW_NONE, TW_NONE};
        tw_val at = tw_add(b, tw_binary(b, TW_OP_mul_wide_u32, row, r->columns), tw_widen(b, r->place));
        cell c = row_sum(r, r->sum[i], r->size[i], &of_row);
        if (r->epilogue.gated) {
            cell gate = row_sum(r, r->gate_sum[i], r->gate_size[i], &of_row);
            activate(r, &gate);
            c = gated(r, &gate, &c);
        }
        finish(r, at, &of_row, &c);
        tw_st(b, (tw_attrs){.type = TW_T_f64}, tw_add(b, r->want, tw_mul_imm(b, at, 8)), &c.value);
        store_allowed(r, r->tolerance, at, &c, c.error);
        if (r->twice.id) store_allowed(r, r->twice, at, &c, tw_add(b, c.error, c.between));
    }
}

/* Loads a vector of elements of a column from k on, as f32. */
static void load_wide(const refer *r, tw_val k, tw_val *out) {
    tw_builder *b = r->b;
    tw_val words[WORDS] = {TW_NONE};
    load(r, tw_add(b, row_at(r, r->x, r->column), tw_widen(b, tw_mul_imm(b, k, r->es))), words);
    for (int e = 0; e < 4 * WORDS / r->es; e++) out[e] = element(r, words, e);
}

/* Loads the same of a B that is k x n. */
static void load_tall(const refer *r, tw_val k, tw_val *out) {
    tw_builder *b = r->b;
    const tw_type t = tw_gemm_types[r->type].element;
    for (int e = 0; e < 4 * WORDS / r->es; e++) {
        tw_val row = tw_binary(b, TW_OP_mul_wide_u32, tw_add_imm(b, k, e), r->ldb);
        tw_val at = tw_add(b, r->x, tw_mul_imm(b, tw_add(b, row, tw_widen(b, r->column)), r->es));
        tw_val x = tw_ld(b, (tw_attrs){.type = t}, at);
        out[e] = t == TW_T_f32 ? x : tw_part_widen(b, t, x);
    }
}

/* Loads the scale of the group of k, as f32. `deep` is k's extent with its padding. */
static tw_val load_scale(const refer *r, tw_val k, tw_val deep) {
    tw_builder *b = r->b;
    const tw_type t = tw_gemm_types[r->type].element;
    tw_val groups = tw_div(b, tw_add_imm(b, deep, r->group - 1), r->group), row = tw_rem(b, r->column, 64);
    tw_val block = tw_fma(b, tw_div(b, r->column, 64), groups, tw_div(b, k, r->group));
    tw_val within = tw_add(b, tw_mul_imm(b, tw_div(b, row, 16), 16), tw_div(b, tw_rem(b, row, 16), 8));
    within = tw_add(b, within, tw_mul_imm(b, tw_rem(b, row, 8), 2));
    tw_val at = tw_add(b, tw_mul_imm(b, block, 64), within);
    at = tw_add(b, r->scales, tw_mul_imm(b, tw_widen(b, at), 2));
    return tw_part_widen(b, t, tw_ld(b, (tw_attrs){.type = t}, at));
}

static tw_val round_to_type(const refer *r, tw_val x) {
    const tw_opcode narrow = r->type == TW_GEMM_F16 ? TW_OP_cvt_f16_f32 : TW_OP_cvt_bf16_f32;
    return tw_part_widen(r->b, tw_gemm_types[r->type].element, tw_unary(r->b, narrow, x));
}

/* Loads eight elements of a column of a narrow B from k on, a multiple of eight. They are pairs in the same word of
   four threads, as kernels/parts/narrow.h says. Elements of 8 bits have 512 words for every 32 along k, those of 4 bits
   for every 64. */
static void load_narrow(const refer *r, tw_val k, tw_val *out) {
    tw_builder *b = r->b;
    const int bits = r->narrow == TW_GEMM_I8 ? 8 : 4, deep = 256 / bits;
    tw_val padded = tw_mul_imm(b, tw_div(b, tw_add_imm(b, r->k, 255), 256), 256), row = tw_rem(b, r->column, 64);
    tw_val vector = tw_fma(b, tw_div(b, r->column, 64), tw_div(b, padded, deep), tw_div(b, k, deep));
    tw_val thread = tw_add(b, tw_mul_imm(b, tw_div(b, row, 16), 32), tw_mul_imm(b, tw_rem(b, row, 8), 4));
    /* A register has two elements, and a step of 16 along k has four: for its halves, and for rows eight apart. */
    tw_val half = tw_div(b, tw_rem(b, k, 16), 8), below = tw_div(b, tw_rem(b, row, 16), 8);
    tw_val number =
        tw_add(b, tw_mul_imm(b, tw_div(b, tw_rem(b, k, deep), 16), 4), tw_add(b, tw_mul_imm(b, half, 2), below));
    tw_val word = tw_div(b, number, 16 / bits), shift = tw_mul_imm(b, tw_rem(b, number, 16 / bits), bits);
    tw_val first = tw_add(b, tw_mul_imm(b, vector, 512), tw_add(b, tw_mul_imm(b, thread, 4), word));
    tw_val at = tw_add(b, r->x, tw_mul_imm(b, tw_widen(b, first), 4));
    tw_val scale = r->group ? load_scale(r, k, padded) : TW_NONE;
    for (int e = 0; e < 8; e++) {
        tw_val x = tw_ld(b, (tw_attrs){.type = TW_T_i32, .offset = e / 2 * 16}, at);
        x = tw_binary(b, TW_OP_shr_u32, tw_shr(b, x, e % 2 * 16), shift);
        x = tw_binary(b, TW_OP_shr_s32, tw_shl(b, x, 32 - bits), tw_i32(b, 32 - bits));
        out[e] = tw_unary(b, TW_OP_cvt_f32_s32, x);
        if (!r->group) continue;
        out[e] = tw_mul(b, out[e], scale);
        if (!r->exact) out[e] = round_to_type(r, out[e]);
    }
}

/* Multiplies the sums by the column's scale. */
static void scale_sums(refer *r) {
    tw_builder *b = r->b;
    tw_val at = tw_add(b, r->scale_columns, tw_mul_imm(b, tw_widen(b, r->column), 4));
    tw_val scale = tw_ld(b, (tw_attrs){.type = TW_T_f32}, at), wide = tw_unary(b, TW_OP_cvt_f64_f32, scale);
    for (int i = 0; i < ROWS; i++) {
        tw_assign(b, r->sum[i], tw_mul(b, r->sum[i], wide));
        tw_assign(b, r->size[i], tw_mul(b, r->size[i], tw_unary(b, TW_OP_abs_f32, scale)));
    }
}

/* Computes the sums of a column of B. */
static void sum_column(refer *r, tw_val column) {
    tw_builder *b = r->b;
    tw_val rows[ROWS];
    r->column = column;
    for (int i = 0; i < ROWS; i++) {
        rows[i] = row_at(r, r->a, row_of(r, i));
        r->sum[i] = tw_var_of(b, tw_f64(b, 0));
        r->size[i] = tw_var_of(b, tw_f32(b, 0));
    }
    TW_FOR (b, k, tw_i32(b, 0), r->k, tw_i32(b, 4 * WORDS / r->es), false) {
        tw_val offset = tw_widen(b, tw_mul_imm(b, k, r->es));
        tw_val right[4 * WORDS] = {TW_NONE}, left[ROWS][WORDS] = {{TW_NONE}};
        (r->narrow ? load_narrow : r->tall ? load_tall : load_wide)(r, k, right);
        for (int i = 0; i < ROWS; i++) {
            tw_val row = tw_add(b, rows[i], offset);
            load(r, row, left[i]);
        }
        for (int i = 0; i < ROWS; i++) multiply(r, left[i], right, i);
    }
    if (r->scale_columns.id) scale_sums(r);
}

static void compute(refer *r) {
    enum { TOGETHER = 8 /* Columns of gates, and of values, that follow one another. */ };
    tw_builder *b = r->b;
    tw_val column = r->place;
    if (r->epilogue.gated) {
        column = tw_add(b, tw_mul_imm(b, tw_div(b, column, TOGETHER), 2 * TOGETHER), tw_rem(b, column, TOGETHER));
        sum_column(r, column);
        memcpy(r->gate_sum, r->sum, sizeof r->sum);
        memcpy(r->gate_size, r->size, sizeof r->size);
        column = tw_add_imm(b, column, TOGETHER);
    }
    sum_column(r, column);
    for (int i = 0; i < ROWS; i++) store(r, i);
}

bool tw_gemm_refer_rounds_twice(const tw_gemm_problem *p) {
    const tw_gemm_epilogue *e = &p->epilogue;
    return !e->gated && (e->bias || e->activation || e->mul || e->residual);
}

tw_kernel *tw_gemm_refer_build(const tw_gemm_problem *p, int sm) {
    tw_kernel *k = tw_kernel_new("refer", sm, TW_GEMM_REFER_THREADS);
    if (!k) return NULL;
    tw_builder builder = tw_builder_of(k), *b = &builder;
    refer r = {.b = b,
               .type = p->type,
               .es = tw_type_bits(tw_gemm_types[p->type].element) / 8,
               .narrow = p->narrow,
               .group = (int)p->scales,
               .exact = p->scale_sums,
               .tall = !p->trans_b,
               .epilogue = p->epilogue,
               .normed = p->sums > 0,
               .centred = p->centred,
               .norm_residual = p->norm_residual};
    r.a = tw_pointer_add(b, "a", 16, true);
    r.x = tw_pointer_add(b, "b", 16, true);
    r.want = tw_pointer_add(b, "want", 8, false);
    r.tolerance = tw_pointer_add(b, "tolerance", 4, false);
    r.m = tw_parameter_add(b, "m", TW_T_i32);
    r.n = tw_parameter_add(b, "n", TW_T_i32);
    r.k = tw_parameter_add(b, "k", TW_T_i32);
    r.promote = tw_parameter_add(b, "promote", TW_T_i32);
    r.scales = tw_pointer_add(b, "scales", 4, true);
    tw_val scale_columns = tw_pointer_add(b, "scale_columns", 4, true);
    if (p->epilogue.scale_columns) r.scale_columns = scale_columns;
    r.ldb = tw_parameter_add(b, "ldb", TW_T_i32);
    r.bias = tw_pointer_add(b, "bias", r.es, true);
    r.mul = tw_pointer_add(b, "mul", r.es, true);
    r.residual = tw_pointer_add(b, "residual", r.es, true);
    tw_val twice = tw_pointer_add(b, "twice", 4, false);
    if (tw_gemm_refer_rounds_twice(p)) r.twice = twice;
    r.residual_gains = tw_pointer_add(b, "residual_gains", r.es, true);
    r.sums = tw_pointer_add(b, "sums", 4, true);
    r.parts = tw_parameter_add(b, "parts", TW_T_i32);
    r.apart = tw_parameter_add(b, "apart", TW_T_i32);
    r.eps = tw_parameter_add(b, "eps", TW_T_f32);
    tw_val block = tw_mul_imm(b, tw_sreg(b, TW_SREG_ctaid_x), TW_GEMM_REFER_THREADS);
    r.place = tw_add(b, block, tw_sreg(b, TW_SREG_tid_x));
    r.columns = p->epilogue.gated ? tw_div(b, r.n, 2) : r.n;
    r.first = tw_mul_imm(b, tw_sreg(b, TW_SREG_ctaid_y), ROWS);
    TW_IF (b, tw_lt(b, r.place, r.columns)) {
        compute(&r);
    }
    if (!tw_kernel_failed(k)) return k;
    tw_kernel_free(k);
    return NULL;
}
