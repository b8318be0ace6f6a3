/* SPDX-License-Identifier: Apache-2.0 */
/* The roots of means of squares by which rows of A lack a division. A row's sum of squares came in parts, from the
   tiles of the product before. Each sum is of the same parts in the same order in every launch. With layer norms there
   are sums of elements beside those of squares, and roots of variances. Rows may be the residual's in place of A's.

   With operands as they are, the four lanes that have a row of C take its parts in turn. The first ones are loaded
   before the tile is multiplied, and added up behind it, so that nobody waits for memory. With swapped operands many
   threads have cells of a row. A team adds up the parts of its tile's rows while the first stages are fetched, and
   leaves the sums in shared memory. Threads take rows in turn, and a row's parts in turn if there are more threads than
   rows. */
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

/* Returns the rows from the thread's first to its row number i. */
static int row_of(int i) {
    return i / 2 * TW_WGMMA_ROWS + i % 2 * 8;
}

/* Returns the sums of a row: of squares, and of elements if there are such. */
static int kinds_of(const tw_gemm_gen *g) {
    return g->v->centred ? 2 : 1;
}

/* Returns the sums of a thread: those of its first row, and so on. */
static int sums_of(const tw_gemm_gen *g) {
    return rows_of(g) * kinds_of(g);
}

/* Returns the parts of a row that a lane loads ahead. */
static int ahead_of(const tw_gemm_gen *g) {
    const int parts = g->v->centred ? TW_GEMM_PARTS / 2 : TW_GEMM_PARTS, most = parts / sums_of(g);
    const int left = (REGISTERS - OTHERS - g->plan.accumulators) / sums_of(g);
    return left >= most ? most : most / 2;
}

/* Computes the bytes between the parts that a lane takes one after another. */
static tw_val step_of(tw_gemm_gen *g) {
    return tw_mul_imm(g->b, tw_widen(g->b, g->arg.m), (int64_t)LANES * kinds_of(g) * 4);
}

/* Loads a part of each of the thread's sums. `at` is the address of the part of its first row. */
static void load_parts(tw_gemm_gen *g, tw_val at, tw_val there, tw_val *out) {
    tw_builder *b = g->b;
    const int kinds = kinds_of(g);
    tw_val first = tw_add(b, g->x.origin, g->x.first);
    for (int i = 0; i < rows_of(g); i++) {
        tw_val inside = there;
        if (!g->x.whole) inside = tw_and(b, inside, tw_lt(b, tw_add_imm(b, first, row_of(i)), g->x.limit));
        tw_val x[2] = {{0}};
        tw_when(b, inside);
        tw_ld_vec(b, (tw_attrs){.type = TW_T_f32, .vec = kinds, .offset = 4 * kinds * row_of(i)}, at, x);
        for (int k = 0; k < kinds; k++) out[kinds * i + k] = x[k];
    }
}

static void load_ahead(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    tw_val part = tw_rem(b, g->lane, LANES), row = tw_add(b, g->x.origin, g->x.first), apart = step_of(g);
    tw_val at = tw_add(b, tw_binary(b, TW_OP_mul_wide_u32, part, g->arg.m), tw_widen(b, row));
    at = tw_add(b, g->arg.sums, tw_mul_imm(b, at, 4 * kinds_of(g)));
    for (int i = 0; i < ahead_of(g); i++) {
        load_parts(g, at, tw_lt(b, tw_add_imm(b, part, (int64_t)i * LANES), g->arg.parts), g->parts + i * sums_of(g));
        at = tw_add(b, at, apart);
    }
    g->next_part = at;
}

/* Adds up the sums of the lanes that share a row. */
static tw_val join_lanes(tw_builder *b, tw_val sum) {
    for (int by = 1; by < LANES; by *= 2)
        sum = tw_add(b, sum, tw_shfl(b, TW_MODE_bfly, sum, tw_i32(b, by), tw_i32(b, -1)));
    return sum;
}

/* Finds what row number i is multiplied by, and what is then added to it, from the sum of its squares, and that of its
   elements. A variance that is not a number stays so. */
static void find_factor(tw_gemm_gen *g, int i, tw_val squares, tw_val elements) {
    tw_builder *b = g->b;
    tw_val variance = tw_fma(b, squares, g->arg.share, g->arg.eps), mean = TW_NONE, zero = tw_f32(b, 0);
    if (elements.id) {
        mean = tw_mul(b, elements, g->arg.share);
        variance = tw_sub(b, tw_mul(b, squares, g->arg.share), tw_mul(b, mean, mean));
        variance = tw_add(b, tw_select(b, tw_lt(b, variance, zero), zero, variance), g->arg.eps);
    }
    g->factors[i] = tw_unary(b, TW_OP_rsqrt_f32, variance);
    if (g->v->norm_residual) g->offsets[i] = tw_mul(b, tw_sub(b, zero, mean), g->factors[i]);
    if (tw_gemm_sums_late(g)) g->factors[i] = tw_mul(b, g->factors[i], g->arg.alpha);
}

/* Adds up the parts that were loaded, and the others. */
static void add_lanes(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    enum { MOST = 8 };
    const int rows = rows_of(g), n = sums_of(g), ahead = ahead_of(g);
    tw_val sums[MOST], at = tw_var_of(b, g->next_part), apart = step_of(g);
    for (int i = 0; i < n; i++) sums[i] = tw_var_of(b, g->parts[i]);
    for (int i = n; i < n * ahead; i++) tw_add_to(b, sums[i % n], g->parts[i]);
    tw_val part = tw_add_imm(b, tw_rem(b, g->lane, LANES), (int64_t)ahead * LANES);
    TW_FOR (b, i, part, g->arg.parts, tw_i32(b, LANES), false) {
        tw_val x[MOST];
        load_parts(g, at, tw_const(b, TW_T_pred, 1), x);
        for (int j = 0; j < n; j++) tw_add_to(b, sums[j], x[j]);
        tw_add_to(b, at, apart);
    }
    for (int i = 0; i < rows; i++) {
        const tw_val *of_row = sums + i * kinds_of(g);
        find_factor(g, i, join_lanes(b, of_row[0]), n > rows ? join_lanes(b, of_row[1]) : TW_NONE);
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
