/* SPDX-License-Identifier: Apache-2.0 */
/* Turns sums into C: scale, add, activate, convert, store. A thread takes its cells line by line. A line is contiguous
   in C: a row of the tile, or a column if operands are swapped. Neighbouring cells of a line are moved together as a
   run. */
#include "kernels/gemm/generate.h"
#include "kernels/parts/activation.h"
#include "kernels/parts/convert.h"

enum { RUN = 4 };

/* Returns the type and width that move a run of `n` elements of C. */
static tw_attrs run_of(const tw_gemm_gen *g, int n) {
    tw_type t = g->v->out;
    if (t == TW_T_f16 && n > 1) return (tw_attrs){.type = TW_T_f16x2, .vec = n / 2};
    if (t == TW_T_bf16 && n > 1) return (tw_attrs){.type = TW_T_bf16x2, .vec = n / 2};
    return (tw_attrs){.type = t, .vec = n};
}

/* Returns the type that the epilogue computes with: f32, f64, or i32 if C has integers. */
static tw_type working_type(const tw_gemm_gen *g) {
    return g->v->out == TW_T_f64 ? TW_T_f64 : g->v->out == TW_T_i32 || g->v->out == TW_T_i8 ? TW_T_i32 : TW_T_f32;
}

/* Loads and widens n elements of C's type from `address`. They are zeros where `inside` does not hold. */
static void load_run(tw_gemm_gen *g, tw_val address, int offset, int n, tw_val inside, bool read_only, tw_val *out) {
    tw_builder *b = g->b;
    tw_attrs at = run_of(g, n);
    at.offset = offset;
    if (read_only) at.cache = TW_CACHE_nc;
    tw_val raw[RUN] = {{0}};
    if (inside.id) tw_when(b, inside);
    tw_ld_vec(b, at, address, raw);
    const bool pairs = at.type == TW_T_f16x2 || at.type == TW_T_bf16x2;
    for (int i = 0; i < n; i++)
        out[i] = pairs ? tw_part_half(b, (tw_type)at.type, raw[i / 2], i % 2) : tw_part_widen(b, g->v->out, raw[i]);
}

static void store_run(tw_gemm_gen *g, tw_val address, int offset, int n, tw_val inside, const tw_val *x) {
    tw_builder *b = g->b;
    tw_attrs at = run_of(g, n);
    tw_val raw[RUN];
    for (int i = 0; i < n; i++) switch (g->v->out) {
        case TW_T_f16:
            if (n == 1) raw[0] = tw_unary(b, TW_OP_cvt_f16_f32, x[0]);
            if (n > 1 && i % 2) raw[i / 2] = tw_part_pair(b, TW_T_f16x2, x[i - 1], x[i]);
            break;
        case TW_T_bf16:
            if (n == 1) raw[0] = tw_unary(b, TW_OP_cvt_bf16_f32, x[0]);
            if (n > 1 && i % 2) raw[i / 2] = tw_part_pair(b, TW_T_bf16x2, x[i - 1], x[i]);
            break;
        case TW_T_i8:
            raw[i] = tw_unary(b, TW_OP_sat_s8_s32, x[i]);
            break;
        default:
            raw[i] = x[i];
        }
    at.offset = offset;
    if (inside.id) tw_when(b, inside);
    tw_st(b, at, address, raw);
}

typedef struct line {
    tw_val address[3]; /* Addresses in C, mul and residual of the thread's first cell of the line. */
    tw_val inside;     /* Predicate: the line is within C. TW_NONE: always. */
} line;

/* Stores `count` cells of a line. Their accumulators are `stride` apart, from `first` on. The first is `along` elements
   into the line. */
static void finish_run(tw_gemm_gen *g, const line *l, tw_val bias_at, int first, int stride, int count, int along,
                       tw_val inside) {
    tw_builder *b = g->b;
    const tw_gemm_variant *v = g->v;
    const int es = tw_type_bits(v->out) / 8;
    const tw_type t = working_type(g);
    tw_val x[RUN], y[RUN];
    for (int i = 0; i < count; i++) {
        x[i] = g->acc[0][first + i * stride];
        if (g->acc_type == TW_T_i32 && t == TW_T_f32) x[i] = tw_unary(b, TW_OP_cvt_f32_s32, x[i]);
        if (t != TW_T_i32) x[i] = tw_mul(b, x[i], g->arg.alpha);
    }
    if (v->beta) {
        load_run(g, l->address[0], along * es, count, inside, false, y);
        for (int i = 0; i < count; i++)
            x[i] = t == TW_T_i32 ? tw_add(b, x[i], y[i]) : tw_fma(b, y[i], g->arg.beta, x[i]);
    }
    if (v->epilogue.bias) {
        load_run(g, bias_at, along * es, count, inside, true, y);
        for (int i = 0; i < count; i++) x[i] = tw_add(b, x[i], y[i]);
    }
    for (int i = 0; i < count; i++) {
        if (v->epilogue.activation == TW_GEMM_SILU) x[i] = tw_part_silu(b, x[i]);
        if (v->epilogue.activation == TW_GEMM_GELU) x[i] = tw_part_gelu(b, x[i]);
    }
    if (v->epilogue.mul) {
        load_run(g, l->address[1], along * es, count, inside, true, y);
        for (int i = 0; i < count; i++) x[i] = tw_mul(b, x[i], y[i]);
    }
    if (v->epilogue.residual) {
        load_run(g, l->address[2], along * es, count, inside, true, y);
        for (int i = 0; i < count; i++) x[i] = tw_add(b, x[i], y[i]);
    }
    store_run(g, l->address[0], along * es, count, inside, x);
}

void tw_gemm_epilogue_store(tw_gemm_gen *g, int from, int to) {
    tw_builder *b = g->b;
    const bool swap = g->c->swap;
    const int es = tw_type_bits(g->v->out) / 8;
    /* A line is a row of the tile, or a column if operands are swapped. */
    const int *line_of = swap ? g->column_of : g->row_of, *along_of = swap ? g->row_of : g->column_of;
    const tw_gemm_operand *line_side = swap ? &g->y : &g->x, *along_side = swap ? &g->x : &g->y;
    tw_val line0 = tw_add(b, line_side->origin, swap ? g->column : g->row);
    tw_val along0 = tw_add(b, along_side->origin, swap ? g->row : g->column);
    tw_val at = tw_add(b, tw_mul(b, tw_widen(b, line0), g->arg.ldc), tw_mul_imm(b, tw_widen(b, along0), es));
    const tw_val matrix[3] = {g->arg.c, g->arg.mul, g->arg.residual};
    const bool used[3] = {true, g->v->epilogue.mul, g->v->epilogue.residual};
    if (g->v->batched) at = tw_add(b, at, tw_mul(b, tw_widen(b, g->batch), g->arg.stride_c));
    /* The bias belongs to C's columns, which are along a line in either case. */
    tw_val bias_at = tw_add(b, g->arg.bias, tw_mul_imm(b, tw_widen(b, along0), es));
    bool done[TW_GEMM_MAX_ACC] = {false};
    for (int first = from; first < to; first++) {
        if (done[first]) continue;
        line l = {.inside = TW_NONE};
        tw_val offset = tw_add(b, at, tw_mul_imm(b, g->arg.ldc, line_of[first]));
        for (int i = 0; i < 3; i++)
            if (used[i]) l.address[i] = tw_add(b, matrix[i], offset);
        if (!line_side->whole) l.inside = tw_lt(b, tw_add_imm(b, line0, line_of[first]), line_side->limit);
        for (int i = first; i < to; i++) {
            if (done[i] || line_of[i] != line_of[first]) continue;
            /* The line's next cells, if the thread has them, are a fixed number of accumulators apart. */
            int count = 1, stride = 0;
            for (int j = i + 1; j < to && !stride; j++)
                if (!done[j] && line_of[j] == line_of[i] && along_of[j] == along_of[i] + 1) stride = j - i;
            while (stride && count < RUN && (count + 1) * es <= g->v->vec_c && i + count * stride < to &&
                   line_of[i + count * stride] == line_of[i] && along_of[i + count * stride] == along_of[i] + count)
                count++;
            /* A run's length is a power of two, and its place is a multiple of that. */
            while (count & (count - 1) || along_of[i] % count) count--;
            tw_val inside = l.inside;
            if (!along_side->whole) {
                tw_val p = tw_lt(b, tw_add_imm(b, along0, along_of[i]), along_side->limit);
                inside = inside.id ? tw_and(b, inside, p) : p;
            }
            finish_run(g, &l, bias_at, i, stride, count, along_of[i], inside);
            for (int e = 0; e < count; e++) done[i + e * stride] = true;
        }
    }
}
