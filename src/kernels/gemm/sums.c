/* SPDX-License-Identifier: Apache-2.0 */
/* The roots of means of squares by which rows of A lack a division. A row's sum of squares came in parts, from the
   tiles of the product before. Each sum is of the same parts in the same order in every launch. With layer norms there
   are sums of elements beside those of squares, and roots of variances. Rows may be the residual's in place of A's.

   With operands as they are, four lanes have the same two or four rows of C. Each adds up the parts of one of them, or
   every other one, and tells the others. The first ones are loaded before the tile is multiplied, and added up behind
   it, so that nobody waits for memory. With swapped operands many threads have cells of a row. A team adds up the parts
   of its tile's rows while the first stages are fetched, and leaves the sums in shared memory. Threads take rows in
   turn, and a row's parts in turn if there are more threads than rows. */
#include "kernels/gemm/generate.h"

enum {
    TOGETHER = 32, /* Swapped: parts whose loads are issued before the first addition. */
    LANES = 4,     /* Lanes that share a row with operands as they are. */
    OTHERS = 40,   /* Registers that a thread needs beside sums and parts, and those that it has. */
    REGISTERS = 232
};

/* ---- operands as they are */

static int rows_of(const tw_gemm_gen *g) {
    return g->c->ms / TW_WGMMA_ROWS * 2;
}

/* Returns the lanes that share the parts of a row. */
static int ways_of_row(const tw_gemm_gen *g) {
    return LANES / rows_of(g);
}

/* Returns the sums of a part: of squares, and of elements if there are such. */
static int kinds_of(const tw_gemm_gen *g) {
    return g->v->centred ? 2 : 1;
}

/* Returns the parts that a lane loads ahead. */
static int ahead_of(const tw_gemm_gen *g) {
    const int kinds = kinds_of(g), most = (g->v->centred ? TW_GEMM_PARTS / 2 : TW_GEMM_PARTS) / kinds;
    return g->plan.accumulators + kinds * most + OTHERS <= REGISTERS ? most : most / 2;
}

/* A lane's row of the four lanes', and its part of it. */
typedef struct mine {
    tw_val inside; /* Predicate: C has the row. TW_NONE: it does. */
    tw_val row;    /* Number of the row (i32). */
    tw_val part;   /* The lane's first part. */
    tw_val step;   /* Bytes from a part of the lane's to the next. */
} mine;

static mine mine_of(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const int rows = rows_of(g), bytes = 4 * kinds_of(g);
    tw_val lane = tw_rem(b, g->lane, LANES), of = rows < LANES ? tw_rem(b, lane, rows) : lane;
    tw_val from = tw_mul_imm(b, tw_rem(b, of, 2), 8);
    if (rows > 2) from = tw_add(b, from, tw_mul_imm(b, tw_div(b, of, 2), TW_WGMMA_ROWS));
    mine x = {.row = tw_add(b, tw_add(b, g->x.origin, g->x.first), from)};
    x.part = rows < LANES ? tw_div(b, lane, rows) : tw_i32(b, 0);
    x.step = tw_mul_imm(b, tw_widen(b, g->arg.m), (int64_t)ways_of_row(g) * bytes);
    x.inside = g->x.whole ? TW_NONE : tw_lt(b, x.row, g->x.limit);
    return x;
}

/* Loads the sums of a part of the lane's row. `there` is a predicate that there is such a part. TW_NONE: there is. */
static void load_part(tw_gemm_gen *g, const mine *x, tw_val at, tw_val there, tw_val *out) {
    tw_builder *b = g->b;
    const int kinds = kinds_of(g);
    tw_val sums[2] = {{0}}, loads = there.id && x->inside.id ? tw_and(b, there, x->inside)
                                    : there.id               ? there
                                                             : x->inside;
    if (loads.id) tw_when(b, loads);
    tw_ld_vec(b, (tw_attrs){.type = TW_T_f32, .vec = kinds}, at, sums);
    for (int i = 0; i < kinds; i++) out[i] = sums[i];
}

static void load_ahead(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const mine x = mine_of(g);
    tw_val at = tw_add(b, tw_binary(b, TW_OP_mul_wide_u32, x.part, g->arg.m), tw_widen(b, x.row));
    at = tw_add(b, g->arg.sums, tw_mul_imm(b, at, 4 * kinds_of(g)));
    for (int i = 0; i < ahead_of(g); i++) {
        tw_val there = tw_lt(b, tw_add_imm(b, x.part, (int64_t)i * ways_of_row(g)), g->arg.parts);
        load_part(g, &x, at, there, g->parts + i * kinds_of(g));
        at = tw_add(b, at, x.step);
    }
    g->next_part = at;
}

/* Computes what a norm multiplies the lane's row by, from the sum of the row's squares and, for a layer norm, the sum
   of its elements. For a residual `offset` becomes what is added to the multiplied row. A variance that is not a number
   stays so. */
static tw_val find_factor(tw_gemm_gen *g, const tw_val *sums, tw_val *offset) {
    tw_builder *b = g->b;
    tw_val variance = tw_fma(b, sums[0], g->arg.share, g->arg.eps), mean = TW_NONE, zero = tw_f32(b, 0);
    if (g->v->centred) {
        mean = tw_mul(b, sums[1], g->arg.share);
        variance = tw_sub(b, tw_mul(b, sums[0], g->arg.share), tw_mul(b, mean, mean));
        variance = tw_add(b, tw_select(b, tw_lt(b, variance, zero), zero, variance), g->arg.eps);
    }
    tw_val factor = tw_unary(b, TW_OP_rsqrt_f32, variance);
    if (g->v->norm_residual) *offset = tw_mul(b, tw_sub(b, zero, mean), factor);
    return tw_gemm_sums_late(g) ? tw_mul(b, factor, g->arg.alpha) : factor;
}

/* Adds up the parts that were loaded, and the others, and tells the lanes of each other's rows. */
static void add_lanes(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const int rows = rows_of(g), kinds = kinds_of(g), ahead = ahead_of(g), ways = ways_of_row(g);
    const mine x = mine_of(g);
    tw_val sums[2], at = tw_var_of(b, g->next_part), offset = TW_NONE;
    for (int i = 0; i < kinds; i++) sums[i] = tw_var_of(b, g->parts[i]);
    for (int i = kinds; i < kinds * ahead; i++) tw_add_to(b, sums[i % kinds], g->parts[i]);
    tw_val part = tw_add_imm(b, x.part, (int64_t)ahead * ways);
    TW_FOR (b, i, part, g->arg.parts, tw_i32(b, ways), false) {
        tw_val more[2];
        load_part(g, &x, at, TW_NONE, more);
        for (int k = 0; k < kinds; k++) tw_add_to(b, sums[k], more[k]);
        tw_add_to(b, at, x.step);
    }
    for (int i = 0; i < kinds && ways > 1; i++)
        sums[i] = tw_add(b, sums[i], tw_shfl(b, TW_MODE_bfly, sums[i], tw_i32(b, rows), tw_i32(b, -1)));
    tw_val factor = find_factor(g, sums, &offset), first = tw_sub(b, g->lane, tw_rem(b, g->lane, LANES));
    for (int i = 0; i < rows; i++) {
        tw_val from = tw_add_imm(b, first, i);
        g->factors[i] = tw_shfl(b, TW_MODE_idx, factor, from, tw_i32(b, -1));
        if (offset.id) g->offsets[i] = tw_shfl(b, TW_MODE_idx, offset, from, tw_i32(b, -1));
    }
}

/* ---- swapped operands */

/* Returns the number of threads that share a row. */
static int ways_of(const tw_gemm_config *c, const tw_gemm_plan *p) {
    return p->group > c->nl ? p->group / c->nl : 1;
}

int tw_gemm_sums_bytes(const tw_gemm_config *c, const tw_gemm_plan *p) {
    return c->swap ? c->nl * ways_of(c, p) * 4 : 0;
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
    tw_val rows = g->arg.n, sum = tw_var_of(b, tw_f32(b, 0));
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

static void add_team(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const int lines = g->c->nl, ways = ways_of(g->c, &g->plan), threads = g->plan.group;
    const tw_meeting meeting = tw_gemm_meeting(g);
    tw_val base = shared_of(g), way = tw_div(b, g->group_tid, lines), first = tw_rem(b, g->group_tid, lines);
    /* The sums of the tile before have been read. */
    if (g->c->persistent) tw_part_meet(b, &meeting);
    for (int from = 0; from < lines; from += threads) {
        tw_val line = lines > threads ? tw_add_imm(b, g->group_tid, from) : first, inside = TW_NONE;
        if (lines > threads) way = tw_i32(b, 0);
        if (ways * lines < threads) inside = tw_lt(b, way, tw_i32(b, ways));
        if (from + threads > lines && lines > threads) inside = tw_lt(b, line, tw_i32(b, lines));
        tw_val row = tw_add(b, g->y.origin, line), reads = inside;
        if (!g->y.whole) reads = tw_lt(b, row, g->y.limit);
        if (!g->y.whole && inside.id) reads = tw_and(b, reads, inside);
        tw_val sum = add_up(g, row, way, ways, reads), place = tw_add(b, tw_mul_imm(b, way, lines), line);
        tw_val to = tw_add(b, base, tw_mul_imm(b, place, 4));
        if (inside.id) tw_when(b, inside);
        tw_st(b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared}, to, &sum);
    }
    tw_part_meet(b, &meeting);
}

/* Computes 1 / sqrt(mean + eps) of a column of Y from its sum of squares. */
static tw_val team_factor(tw_gemm_gen *g, int column) {
    tw_builder *b = g->b;
    tw_val at = tw_add(b, shared_of(g), tw_mul_imm(b, tw_add_imm(b, g->y.first, column), 4)), sum = TW_NONE;
    for (int i = 0; i < ways_of(g->c, &g->plan); i++) {
        const tw_attrs from = {.type = TW_T_f32, .space = TW_SPACE_shared, .offset = i * g->c->nl * 4};
        tw_val x = tw_ld(b, from, at);
        sum = i ? tw_add(b, sum, x) : x;
    }
    return tw_unary(b, TW_OP_rsqrt_f32, tw_fma(b, sum, g->arg.share, g->arg.eps));
}

/* ---- both */

bool tw_gemm_sums_late(const tw_gemm_gen *g) {
    return g->v->sums && !g->v->norm_residual && !g->c->swap && g->c->staged != TW_GEMM_STAGED &&
           g->frame->store == tw_gemm_epilogue_store;
}

tw_val tw_gemm_alpha(tw_gemm_gen *g, int sum) {
    return tw_gemm_sums_late(g) ? tw_gemm_sums_factor(g, g->x.of[sum]) : g->arg.alpha;
}

void tw_gemm_sums_begin(tw_gemm_gen *g) {
    if (g->v->sums) (g->c->swap ? add_team : load_ahead)(g);
}

int tw_gemm_sums_registers(const tw_gemm_gen *g) {
    return g->v->sums && !g->c->swap ? kinds_of(g) * ahead_of(g) : 0;
}

void tw_gemm_sums_end(tw_gemm_gen *g) {
    if (g->v->sums && !g->c->swap) add_lanes(g);
}

static int number_of(int row) {
    return row / TW_WGMMA_ROWS * 2 + row % TW_WGMMA_ROWS / 8;
}

tw_val tw_gemm_sums_factor(tw_gemm_gen *g, int row) {
    return g->c->swap ? team_factor(g, row) : g->factors[number_of(row)];
}

tw_val tw_gemm_sums_offset(tw_gemm_gen *g, int row) {
    return g->offsets[number_of(row)];
}
