/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "ir/value.h"
#include "kernels/gemm/generate.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    tw_type element, accumulator, out;
} types[TW_GEMM_TYPES] = {
    [TW_GEMM_F32] = {"f32", TW_T_f32, TW_T_f32, TW_T_f32},   [TW_GEMM_F64] = {"f64", TW_T_f64, TW_T_f64, TW_T_f64},
    [TW_GEMM_F16] = {"f16", TW_T_f16, TW_T_f32, TW_T_f16},   [TW_GEMM_BF16] = {"bf16", TW_T_bf16, TW_T_f32, TW_T_bf16},
    [TW_GEMM_TF32] = {"tf32", TW_T_f32, TW_T_f32, TW_T_f32}, [TW_GEMM_S8] = {"s8", TW_T_i8, TW_T_i32, TW_T_i32},
};

const char *tw_gemm_type_name(tw_gemm_type t) {
    return types[t].name;
}

bool tw_gemm_type_from_name(const char *name, tw_gemm_type *t) {
    for (int i = 0; i < TW_GEMM_TYPES; i++)
        if (!strcmp(types[i].name, name)) {
            *t = (tw_gemm_type)i;
            return true;
        }
    return false;
}

static const char *const activations[TW_GEMM_ACTIVATIONS] = {
    [TW_GEMM_LINEAR] = "none", [TW_GEMM_GELU] = "gelu", [TW_GEMM_SILU] = "silu"};

const char *tw_gemm_activation_name(tw_gemm_activation a) {
    return activations[a];
}

bool tw_gemm_activation_from_name(const char *name, tw_gemm_activation *a) {
    for (int i = 0; i < TW_GEMM_ACTIVATIONS; i++)
        if (!strcmp(activations[i], name)) {
            *a = (tw_gemm_activation)i;
            return true;
        }
    return false;
}

tw_type tw_gemm_element(tw_gemm_type t) {
    return types[t].element;
}

tw_type tw_gemm_accumulator(tw_gemm_type t) {
    return types[t].accumulator;
}

tw_type tw_gemm_usual_out(tw_gemm_type t) {
    return types[t].out;
}

static bool out_fits(tw_gemm_type t, tw_type out) {
    if (t == TW_GEMM_F64) return out == TW_T_f64;
    if (t == TW_GEMM_S8) return out == TW_T_i32 || out == TW_T_i8 || out == TW_T_f32;
    return out == TW_T_f32 || out == TW_T_f16 || out == TW_T_bf16;
}

static const struct {
    const char *name;
    size_t at;
} extents[] = {
    {"m", offsetof(tw_gemm_problem, m)}, {"n", offsetof(tw_gemm_problem, n)}, {"k", offsetof(tw_gemm_problem, k)}};

/* Refuses a matrix that no machine can hold. The bytes of a smaller one, and what is derived from them, fit 64 bits. */
static tw_status too_large(const char *name, int64_t rows, int64_t columns, int64_t ld, int64_t count, int64_t stride,
                           tw_diag *diag) {
    const double apart = stride > 0 ? (double)stride : 0;
    const double span = (double)(rows - 1) * (double)ld + (double)columns + (double)(count - 1) * apart;
    if (span <= 0x1p42) return TW_OK;
    return tw_fail(diag, TW_ERR_USAGE, "%s spans %.3g elements, and 2^42 are more than any machine holds", name, span);
}

/* Sets strides that are 0 to dense ones. Without a batch all strides are made dense, since they have no meaning. */
static tw_status complete_strides(tw_gemm_problem *p, tw_diag *diag) {
    const int64_t rows_a = p->trans_a ? p->k : p->m, rows_b = p->trans_b ? p->n : p->k;
    if (p->batch == 1) p->stride_a = p->stride_b = p->stride_c = 0;
    if (!p->stride_a) p->stride_a = p->lda * rows_a;
    if (!p->stride_b) p->stride_b = p->ldb * rows_b;
    if (!p->stride_c) p->stride_c = p->ldc * p->m;
    if (p->stride_a < TW_GEMM_SHARED || p->stride_b < TW_GEMM_SHARED || p->stride_c < 0)
        return tw_fail(diag, TW_ERR_USAGE, "strides of a batch cannot be negative");
    tw_status st = too_large("A", rows_a, p->trans_a ? p->m : p->k, p->lda, p->batch, p->stride_a, diag);
    if (st == TW_OK) st = too_large("B", rows_b, p->trans_b ? p->k : p->n, p->ldb, p->batch, p->stride_b, diag);
    if (st == TW_OK) st = too_large("C", p->m, p->n, p->ldc, p->batch, p->stride_c, diag);
    if (st != TW_OK) return st;
    /* Products follow one another in C, or lie side by side within its rows. */
    if (p->batch > 1 && p->stride_c < (p->m - 1) * p->ldc + p->n &&
        (p->stride_c < p->n || (p->batch - 1) * p->stride_c + p->n > p->ldc))
        return tw_fail(diag, TW_ERR_USAGE, "the products of a batch overlap in C");
    return TW_OK;
}

tw_status tw_gemm_problem_complete(tw_gemm_problem *p, tw_diag *diag) {
    for (int i = 0; i < 3; i++) {
        int64_t x = *(const int64_t *)((const char *)p + extents[i].at);
        if (x < 1 || x > INT32_MAX / 2)
            return tw_fail(diag, TW_ERR_USAGE, "%s = %lld is not within 1..%d", extents[i].name, (long long)x,
                           INT32_MAX / 2);
    }
    if (p->batch == 0) p->batch = 1;
    if (p->batch < 1 || p->batch > 65535)
        return tw_fail(diag, TW_ERR_USAGE, "batch = %lld is not within 1..65535", (long long)p->batch);
    if (p->out == TW_T_none) p->out = types[p->type].out;
    if (!out_fits(p->type, p->out))
        return tw_fail(diag, TW_ERR_USAGE, "C cannot be %s for %s", tw_type_name(p->out), types[p->type].name);
    bool integer = p->out == TW_T_i32 || p->out == TW_T_i8;
    if (integer && (p->alpha != 1 || (p->beta != 0 && p->beta != 1)))
        return tw_fail(diag, TW_ERR_USAGE, "an integer C needs alpha 1 and beta 0 or 1");
    if ((integer || p->out == TW_T_f64) && p->epilogue.activation)
        return tw_fail(diag, TW_ERR_USAGE, "activations are computed in f32: C cannot be %s", tw_type_name(p->out));
    const int64_t least_a = p->trans_a ? p->m : p->k, least_b = p->trans_b ? p->k : p->n;
    if (!p->lda) p->lda = least_a;
    if (!p->ldb) p->ldb = least_b;
    if (!p->ldc) p->ldc = p->n;
    const struct {
        const char *name;
        int64_t is, least;
    } leading[] = {{"lda", p->lda, least_a}, {"ldb", p->ldb, least_b}, {"ldc", p->ldc, p->n}};
    for (int i = 0; i < 3; i++)
        if (leading[i].is < leading[i].least || leading[i].is > INT32_MAX)
            return tw_fail(diag, TW_ERR_USAGE, "%s = %lld is not within %lld..%d", leading[i].name,
                           (long long)leading[i].is, (long long)leading[i].least, INT32_MAX);
    return complete_strides(p, diag);
}

void tw_gemm_problem_print(const tw_gemm_problem *p, char *out, size_t size) {
    const bool batched = p->batch > 1;
    const struct {
        const char *name;
        int64_t value, usual;
    } numbers[] = {
        {"ta", p->trans_a, 0},
        {"tb", p->trans_b, 0},
        {"lda", p->lda, p->trans_a ? p->m : p->k},
        {"ldb", p->ldb, p->trans_b ? p->k : p->n},
        {"ldc", p->ldc, p->n},
        {"batch", p->batch, 1},
        {"sa", p->stride_a, batched ? p->lda * (p->trans_a ? p->k : p->m) : p->stride_a},
        {"sb", p->stride_b, batched ? p->ldb * (p->trans_b ? p->n : p->k) : p->stride_b},
        {"sc", p->stride_c, batched ? p->ldc * p->m : p->stride_c},
        {"bias", p->epilogue.bias, 0},
        {"mul", p->epilogue.mul, 0},
        {"residual", p->epilogue.residual, 0},
    };
    size_t n = (size_t)snprintf(out, size, "type=%s m=%lld n=%lld k=%lld", types[p->type].name, (long long)p->m,
                                (long long)p->n, (long long)p->k);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && n < size; i++)
        if (numbers[i].value && numbers[i].value != numbers[i].usual)
            n += (size_t)snprintf(out + n, size - n, " %s=%lld", numbers[i].name, (long long)numbers[i].value);
    if (n < size && p->out != TW_T_none && p->out != types[p->type].out)
        n += (size_t)snprintf(out + n, size - n, " out=%s", tw_type_name(p->out));
    if (n < size && p->alpha != 1) n += (size_t)snprintf(out + n, size - n, " alpha=%.17g", p->alpha);
    if (n < size && p->beta != 0) n += (size_t)snprintf(out + n, size - n, " beta=%.17g", p->beta);
    if (n < size && p->epilogue.activation)
        snprintf(out + n, size - n, " activation=%s", activations[p->epilogue.activation]);
}

/* Computes the largest power of two, at most `most`, that divides all of these bytes. */
static int alignment(int most, int64_t a, int64_t b, int64_t c) {
    int64_t all = a | b | c;
    while (most > 1 && all % most) most /= 2;
    return most;
}

tw_gemm_variant tw_gemm_variant_of(const tw_gemm_problem *p, const tw_gemm_config *c) {
    const int es = tw_type_bits(tw_gemm_element(p->type)) / 8, out = tw_type_bits(p->out) / 8;
    const bool swap = c->swap, batched = p->batch > 1;
    /* A copy is either whole or absent, so it must divide the contiguous extent and the distance between rows.
       (Asynchronous copies can be cut short, but memory checkers count the bytes that are cut off.) */
    const int64_t stride_a = batched && p->stride_a > 0 ? p->stride_a : 0,
                  stride_b = batched && p->stride_b > 0 ? p->stride_b : 0;
    const int most = c->vec > es ? c->vec : es;
    /* The copy engine checks the ends of rows by itself. */
    const bool tensor_copies = tw_gemm_way_of(c)->tensor_copies;
    const int64_t inner_a = tensor_copies ? 0 : (p->trans_a ? p->m : p->k) * es,
                  inner_b = tensor_copies ? 0 : (p->trans_b ? p->k : p->n) * es;
    int vec_a = alignment(most, p->lda * es, stride_a * es, inner_a);
    int vec_b = alignment(most, p->ldb * es, stride_b * es, inner_b);
    const int64_t m = swap ? p->n : p->m, n = swap ? p->m : p->n;
    return (tw_gemm_variant){
        .type = p->type,
        .out = p->out,
        .a_k_major = swap ? p->trans_b : !p->trans_a,
        .b_k_major = swap ? !p->trans_a : p->trans_b,
        .vec_a = swap ? vec_b : vec_a,
        .vec_b = swap ? vec_a : vec_b,
        .vec_c = alignment(16, p->ldc * out, batched ? p->stride_c * out : 0, p->n * out),
        .whole_m = m % c->ml == 0,
        .whole_n = n % c->nl == 0,
        .whole_k = p->k % c->u == 0,
        .beta = p->beta != 0,
        .batched = batched,
        .epilogue = p->epilogue,
    };
}

void tw_gemm_launch_of(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_gemm_buffers *buffers,
                       tw_launch_values *l) {
    const bool swap = c->swap;
    const int64_t es = tw_type_bits(tw_gemm_element(p->type)) / 8, out = tw_type_bits(p->out) / 8;
    const int64_t m = swap ? p->n : p->m, n = swap ? p->m : p->n;
    const int64_t tiles_m = tw_gemm_ceil_div(m, c->ml), tiles_n = tw_gemm_ceil_div(n, c->nl);
    const int64_t stride_a = p->stride_a > 0 ? p->stride_a * es : 0, stride_b = p->stride_b > 0 ? p->stride_b * es : 0;
    const bool cluster = tw_gemm_splits_in_cluster(c);
    const int64_t blocks = c->persistent > 1 ? tw_gemm_ceil_div(tiles_m * tiles_n, c->persistent) : tiles_m * tiles_n;
    *l = (tw_launch_values){.grid = {(int)blocks, (int)p->batch, c->kg}, .cluster = cluster ? c->kg : c->multicast};
    if (cluster) {
        l->grid[0] *= c->kg;
        l->grid[2] = 1;
    }
    tw_arguments *to = &l->arguments;
    tw_argument_buffer(to, "a", buffers->a);
    tw_argument_buffer(to, "b", buffers->b);
    tw_argument_buffer(to, "c", buffers->c);
    tw_argument_buffer(to, "bias", buffers->bias);
    tw_argument_buffer(to, "mul", buffers->mul);
    tw_argument_buffer(to, "residual", buffers->residual);
    tw_argument_buffer(to, "workspace", buffers->workspace);
    tw_argument_buffer(to, "counters", buffers->counters);
    tw_argument_number(to, "m", p->m);
    tw_argument_number(to, "n", p->n);
    tw_argument_number(to, "k", p->k);
    tw_argument_number(to, "chunk", tw_gemm_ceil_div(tw_gemm_ceil_div(p->k, c->u), c->kg) * c->u);
    tw_argument_number(to, "tiles_m", tiles_m);
    tw_argument_number(to, "tiles_n", tiles_n);
    tw_argument_number(to, "lda", p->lda * es);
    tw_argument_number(to, "ldb", p->ldb * es);
    tw_argument_number(to, "ldc", p->ldc * out);
    tw_argument_number(to, "stride_a", stride_a);
    tw_argument_number(to, "stride_b", stride_b);
    tw_argument_number(to, "stride_c", p->stride_c * out);
    tw_argument_float(to, "alpha", p->alpha, p->out == TW_T_f64 ? TW_T_f64 : TW_T_f32);
    tw_argument_float(to, "beta", p->beta, p->out == TW_T_f64 ? TW_T_f64 : TW_T_f32);
    if (!tw_gemm_way_of(c)->tensor_copies) return;
    const tw_tensor_map a = tw_gemm_wgmma_map(buffers->a, p->m, p->k, p->lda * es, !p->trans_a, c, !swap),
                        b = tw_gemm_wgmma_map(buffers->b, p->n, p->k, p->ldb * es, p->trans_b, c, swap);
    tw_argument_map(to, "map_x", swap ? "b" : "a", swap ? &b : &a);
    tw_argument_map(to, "map_y", swap ? "a" : "b", swap ? &a : &b);
}
