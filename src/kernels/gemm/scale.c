/* SPDX-License-Identifier: Apache-2.0 */
/* Scales of C's rows and columns. Sums are multiplied by them before anything else happens to them, so that gates,
   threads that exchange sums, and stores of every kind find scaled sums. */
#include "kernels/gemm/generate.h"

/* The scales of an operand's rows (columns of Y): a vector in memory, and what a thread has loaded of it. */
typedef struct scales {
    const tw_gemm_operand *of;
    tw_val at;                      /* Address of the scale of the thread's first sum. */
    tw_val first;                   /* Number of the row of that sum (i32). */
    int together;                   /* Scales of a load: 2 if a thread has neighbours, and whole tiles. */
    int n;                          /* Number of scales loaded. */
    int offset[TW_GEMM_MAX_ACC];    /* Rows from `first` to each. */
    tw_val loaded[TW_GEMM_MAX_ACC]; /* The scales. */
} scales;

/* The bytes from the first vector to the one of the block's product, or of its group. TW_NONE: there is one vector. */
static tw_val vector_of(tw_gemm_gen *g, bool rows) {
    tw_builder *b = g->b;
    tw_val number = g->v->batched ? g->batch : g->v->grouped && !rows ? g->matrix : TW_NONE;
    if (!number.id) return TW_NONE;
    return tw_mul(b, tw_widen(b, number), rows ? g->arg.stride_scale_rows : g->arg.stride_scale_columns);
}

/* `rows` tells whether the scales are of C's rows. These are Y's columns if operands are swapped. */
static scales scales_of(tw_gemm_gen *g, bool rows) {
    tw_builder *b = g->b;
    scales s = {.of = rows == (bool)g->c->swap ? &g->y : &g->x};
    tw_val base = rows ? g->arg.scale_rows : g->arg.scale_columns, apart = vector_of(g, rows);
    if (apart.id) base = tw_add(b, base, apart);
    s.first = tw_add(b, s.of->origin, s.of->first);
    s.at = tw_add(b, base, tw_mul_imm(b, tw_widen(b, s.first), 4));
    s.together = g->c->mma && s.of == &g->y && s.of->whole ? 2 : 1;
    return s;
}

tw_attrs tw_gemm_scales_access(const tw_gemm_gen *g, int offset, int n) {
    return (tw_attrs){.type = TW_T_f32, .vec = n, .offset = offset, .cache = g->c->early ? 0 : TW_CACHE_nc};
}

/* Returns the scale of a row that is so far from the thread's first. */
static tw_val scale_of(tw_gemm_gen *g, scales *s, int row) {
    tw_builder *b = g->b;
    for (int i = 0; i < s->n; i++)
        if (s->offset[i] == row) return s->loaded[i];
    const int n = s->together, from = row / n * n, at = s->n + row - from;
    if (!s->of->whole) tw_when(b, tw_lt(b, tw_add_imm(b, s->first, row), s->of->limit));
    tw_ld_vec(b, tw_gemm_scales_access(g, 4 * from, n), s->at, &s->loaded[s->n]);
    for (int i = 0; i < n; i++) s->offset[s->n++] = from + i;
    return s->loaded[at];
}

/* Returns what a row of C lacks, of its sums of squares. `row` is as in scale_of. */
static tw_val factor_of(tw_gemm_gen *g, scales *s, int row) {
    for (int i = 0; i < s->n; i++)
        if (s->offset[i] == row) return s->loaded[i];
    s->offset[s->n] = row;
    return s->loaded[s->n++] = tw_gemm_sums_factor(g, row);
}

void tw_gemm_scale(tw_gemm_gen *g, int from, int below) {
    tw_builder *b = g->b;
    const tw_gemm_epilogue *e = &g->v->epilogue;
    const bool factors = g->v->sums && !g->v->norm_residual && !tw_gemm_sums_late(g);
    scales rows, columns, sums = {.of = g->c->swap ? &g->y : &g->x};
    if (e->scale_rows) rows = scales_of(g, true);
    if (e->scale_columns) columns = scales_of(g, false);
    for (int i = from; i < below; i++) {
        tw_val x = g->acc[0][i];
        if (g->acc_type == TW_T_i32) x = tw_unary(b, TW_OP_cvt_f32_s32, x);
        if (factors) x = tw_mul(b, x, factor_of(g, &sums, sums.of->of[i]));
        if (e->scale_rows) x = tw_mul(b, x, scale_of(g, &rows, rows.of->of[i]));
        if (e->scale_columns) x = tw_mul(b, x, scale_of(g, &columns, columns.of->of[i]));
        if (g->acc_type == TW_T_i32)
            g->acc[0][i] = tw_var_of(b, x);
        else
            tw_assign(b, g->acc[0][i], x);
    }
    g->acc_type = TW_T_f32;
}
