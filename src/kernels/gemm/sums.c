/* SPDX-License-Identifier: Apache-2.0 */
/* The roots of means of squares by which rows of A lack a division. A row's sum of squares came in parts, from the
   tiles of the product before. A team adds up those of its tile's rows of C while the first stages are fetched. Threads
   take rows in turn, and a row's parts in turn if there are more threads than rows. Each sum is of the same parts in
   the same order in every launch. */
#include "kernels/gemm/generate.h"

enum { TOGETHER = 16 /* Parts whose loads are issued before the first addition. */ };

/* Returns the rows of C of a tile. */
static int lines_of(const tw_gemm_config *c) {
    return c->swap ? c->nl : c->ml;
}

/* Returns the number of threads that share a row. */
static int ways_of(const tw_gemm_config *c, const tw_gemm_plan *p) {
    return p->group > lines_of(c) ? p->group / lines_of(c) : 1;
}

int tw_gemm_sums_bytes(const tw_gemm_config *c, const tw_gemm_plan *p) {
    return lines_of(c) * ways_of(c, p) * 4;
}

static tw_val shared_of(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    tw_val all = tw_add_imm(b, tw_shared_base(b, "barriers"), g->plan.sums);
    const int bytes = tw_gemm_sums_bytes(g->c, &g->plan);
    return g->team.id ? tw_add(b, all, tw_mul_imm(b, g->team, bytes)) : all;
}

/* Adds up every `ways`-th part of a row from number `way` on. */
static tw_val add_up(tw_gemm_gen *g, tw_val row, tw_val way, int ways, tw_val inside) {
    tw_builder *b = g->b;
    tw_val rows = g->c->swap ? g->arg.n : g->arg.m, sum = tw_var_of(b, tw_f32(b, 0));
    tw_val apart = tw_mul_imm(b, tw_widen(b, rows), (int64_t)ways * 4);
    tw_val first = tw_add(b, tw_binary(b, TW_OP_mul_wide_u32, way, rows), tw_widen(b, row));
    tw_val at = tw_var_of(b, tw_add(b, g->arg.sums, tw_mul_imm(b, first, 4)));
    TW_FOR (b, i, way, g->arg.parts, tw_i32(b, TOGETHER * ways), false) {
        tw_val x[TOGETHER], from = at;
        for (int j = 0; j < TOGETHER; j++) {
            tw_val there = tw_lt(b, tw_add_imm(b, i, (int64_t)j * ways), g->arg.parts);
            if (inside.id) there = tw_and(b, there, inside);
            tw_when(b, there);
            x[j] = tw_ld(b, (tw_attrs){.type = TW_T_f32}, from);
            from = tw_add(b, from, apart);
        }
        for (int j = 0; j < TOGETHER; j++) tw_add_to(b, sum, x[j]);
        tw_assign(b, at, from);
    }
    return sum;
}

void tw_gemm_sums_find(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const tw_gemm_operand *o = g->c->swap ? &g->y : &g->x;
    const int lines = lines_of(g->c), ways = ways_of(g->c, &g->plan), threads = g->plan.group;
    const tw_meeting meeting = {.threads = threads, .number = TW_GEMM_SUMS, .team = g->team};
    const tw_attrs shared = {.type = TW_T_f32, .space = TW_SPACE_shared};
    tw_val base = shared_of(g), way = tw_div(b, g->group_tid, lines), first = tw_rem(b, g->group_tid, lines);
    /* The team's threads have read those of the tile before. */
    if (g->c->persistent) tw_part_meet(b, &meeting);
    for (int from = 0; from < lines; from += threads) {
        tw_val line = lines > threads ? tw_add_imm(b, g->group_tid, from) : first, inside = TW_NONE;
        if (lines > threads) way = tw_i32(b, 0);
        if (ways * lines < threads) inside = tw_lt(b, way, tw_i32(b, ways));
        if (from + threads > lines && lines > threads) inside = tw_lt(b, line, tw_i32(b, lines));
        tw_val row = tw_add(b, o->origin, line), reads = inside;
        if (!o->whole) reads = tw_lt(b, row, o->limit);
        if (!o->whole && inside.id) reads = tw_and(b, reads, inside);
        tw_val sum = add_up(g, row, way, ways, reads), place = tw_add(b, tw_mul_imm(b, way, lines), line);
        tw_val to = tw_add(b, base, tw_mul_imm(b, place, 4));
        if (inside.id) tw_when(b, inside);
        tw_st(b, shared, to, &sum);
    }
    tw_part_meet(b, &meeting);
}

tw_val tw_gemm_sums_factor(tw_gemm_gen *g, int row) {
    tw_builder *b = g->b;
    const tw_gemm_operand *o = g->c->swap ? &g->y : &g->x;
    const int lines = lines_of(g->c), ways = ways_of(g->c, &g->plan);
    tw_val at = tw_add(b, shared_of(g), tw_mul_imm(b, tw_add_imm(b, o->first, row), 4)), sum = TW_NONE;
    for (int i = 0; i < ways; i++) {
        tw_val x = tw_ld(b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared, .offset = i * lines * 4}, at);
        sum = i ? tw_add(b, sum, x) : x;
    }
    return tw_unary(b, TW_OP_rsqrt_f32, tw_fma(b, sum, g->arg.share, g->arg.eps));
}
