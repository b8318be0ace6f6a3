/* SPDX-License-Identifier: Apache-2.0 */
/* Epilogues in which threads exchange sums before they store them.

   Staged, through shared memory: afterwards each thread has runs of four elements of a line of C, and neighbouring
   threads have neighbouring runs.

   Exchanged, among the four lanes that have the columns of the same rows: a product leaves each lane two columns of
   every eight, so that a lane's stores would be of two elements. Of every four such groups of eight columns each lane
   gets one whole, and stores eight elements together. Elements of four bytes are exchanged by pairs of lanes: of every
   two groups a lane gets half of one, so that the four lanes' stores of 16 bytes are whole sectors of memory. No shared
   memory takes part, and no other warp. */
#include "kernels/gemm/generate.h"

enum {
    RUN = 4,
    GROUP = 4,  /* A thread's sums of eight columns: two of one row, and two of another. */
    LANES = 4,  /* Lanes that have the columns of a row. */
    COLUMNS = 8 /* Columns of a group. */
};

/* Chooses the floats from line to line in shared memory, so that a warp's stores have no bank conflicts. A half-warp
   stores pairs of four lines. With swapped operands it stores eight neighbours of every other line. */
static int pitch_of(const tw_gemm_config *c) {
    int pitch = c->swap ? c->ml : c->nl;
    const int period = c->swap ? 16 : 32;
    while (pitch % period != period / 4 && pitch % period != 3 * period / 4) pitch += 4;
    return pitch;
}

int tw_gemm_staged_bytes(const tw_gemm_config *c) {
    return pitch_of(c) * (c->swap ? c->nl : c->ml) * 4;
}

tw_val tw_gemm_exchange(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    tw_val all = tw_add_imm(b, g->shared, g->plan.exchange);
    return g->team.id ? tw_add(b, all, tw_mul_imm(b, g->team, g->plan.team_exchange)) : all;
}

/* Computes the shared address of an element of a line. */
static tw_val place(tw_gemm_gen *g, int pitch, tw_val line, tw_val along) {
    tw_builder *b = g->b;
    tw_val base = tw_gemm_exchange(g), x = tw_mul_imm(b, along, 4), y = tw_mul_imm(b, line, pitch);
    return tw_add(b, base, tw_add(b, y, x));
}

/* Exchanges two registers with the lane whose number differs in the bit `by`, where `upper` says that this lane's bit
   is set: the lower lane keeps its first and gets the other's first as its second. */
static void exchange(tw_builder *b, int by, tw_val upper, tw_val *first, tw_val *second) {
    tw_val sent = tw_select(b, upper, *first, *second);
    tw_val got = tw_shfl(b, TW_MODE_bfly, sent, tw_i32(b, by), tw_i32(b, -1));
    *first = tw_select(b, upper, got, *first);
    *second = tw_select(b, upper, *second, got);
}

/* Four groups of columns are a matrix of four lanes by four groups, whose elements are pairs of columns. Transposing it
   gives each lane a group. `sums` are the sums of the first group's first column; the next group's are `apart` behind.
 */
static void transpose(tw_builder *b, tw_val *sums, int apart, tw_val odd, tw_val high) {
    for (int column = 0; column < 2; column++) {
        tw_val x[4];
        for (int i = 0; i < 4; i++) x[i] = sums[i * apart + column];
        exchange(b, 1, odd, &x[0], &x[1]);
        exchange(b, 1, odd, &x[2], &x[3]);
        exchange(b, 2, high, &x[0], &x[2]);
        exchange(b, 2, high, &x[1], &x[3]);
        for (int i = 0; i < 4; i++) tw_assign(b, sums[i * apart + column], x[i]);
    }
}

/* Exchanges sums of 32 columns among four lanes, so that each has eight. */
static void exchange_eights(tw_gemm_gen *g, int sums, tw_val odd, tw_val high) {
    tw_builder *b = g->b;
    for (int i = 0; i < sums; i += GROUP * LANES)
        for (int row = 0; row < GROUP; row += 2) transpose(b, &g->acc[0][i + row], GROUP, odd, high);
    g->y.first = tw_mul_imm(b, tw_rem(b, g->lane, LANES), COLUMNS);
}

/* Exchanges sums of 16 columns between two lanes. Even lanes have halves of the first eight columns, odd lanes of the
   others. */
static void exchange_fours(tw_gemm_gen *g, int sums, tw_val odd, tw_val high) {
    tw_builder *b = g->b;
    for (int i = 0; i < sums; i += 2 * GROUP)
        for (int j = 0; j < GROUP; j++) {
            tw_val first = g->acc[0][i + j], second = g->acc[0][i + GROUP + j];
            exchange(b, 1, odd, &first, &second);
            tw_assign(b, g->acc[0][i + j], first);
            tw_assign(b, g->acc[0][i + GROUP + j], second);
        }
    tw_val eight = tw_select(b, odd, tw_i32(b, COLUMNS), tw_i32(b, 0));
    g->y.first = tw_add(b, eight, tw_select(b, high, tw_i32(b, COLUMNS / 2), tw_i32(b, 0)));
}

/* A thread's sums are, for each 64 rows and each eight columns, two columns of one row and then two of another. */
static void exchange_sums(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const bool fours = !g->frame->eights && tw_type_bits(g->v->out) == 32;
    const int wide = g->columns / 2, sums = g->c->ms / TW_WGMMA_ROWS * wide, groups = fours ? 2 : LANES;
    tw_val lane = tw_rem(b, g->lane, LANES), zero = tw_i32(b, 0);
    tw_val odd = tw_ne(b, tw_and(b, lane, tw_i32(b, 1)), zero), high = tw_ne(b, tw_and(b, lane, tw_i32(b, 2)), zero);
    (fours ? exchange_fours : exchange_eights)(g, sums, odd, high);
    for (int i = 0; i < sums; i++) {
        const int column = i % wide, group = column / GROUP;
        g->y.of[i] = group / groups * groups * COLUMNS + group % groups * 2 + column % 2;
    }
}

static void stage_sums(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const bool swap = g->c->swap;
    tw_gemm_operand *line = swap ? &g->y : &g->x, *along = swap ? &g->x : &g->y;
    const int pitch = pitch_of(g->c) * 4, per_line = (swap ? g->c->ml : g->c->nl) / RUN;
    const int lines = g->plan.group / per_line; /* Lines that a group stores together. */
    tw_val at = place(g, pitch, line->first, along->first);
    const tw_meeting meeting = tw_gemm_meeting(g);
    tw_part_meet(b, &meeting);
    for (int i = 0; i < g->plan.accumulators; i += swap ? 1 : 2) {
        const int offset = line->of[i] * pitch + along->of[i] * 4;
        tw_attrs to = {.type = TW_T_f32, .vec = swap ? 1 : 2, .space = TW_SPACE_shared, .offset = offset};
        tw_st(b, to, at, &g->acc[0][i]);
    }
    tw_part_meet(b, &meeting);
    line->first = tw_div(b, g->group_tid, per_line);
    along->first = tw_mul_imm(b, tw_rem(b, g->group_tid, per_line), RUN);
    at = place(g, pitch, line->first, along->first);
    for (int i = 0; i < g->plan.accumulators; i += RUN) {
        tw_attrs from = {.type = TW_T_f32, .vec = RUN, .space = TW_SPACE_shared, .offset = i / RUN * lines * pitch};
        tw_val x[RUN] = {{0}};
        tw_ld_vec(b, from, at, x);
        for (int e = 0; e < RUN; e++) {
            tw_assign(b, g->acc[0][i + e], x[e]);
            line->of[i + e] = i / RUN * lines;
            along->of[i + e] = e;
        }
    }
}

void tw_gemm_rearrange_sums(tw_gemm_gen *g) {
    if (g->c->staged == TW_GEMM_STAGED) stage_sums(g);
    if (g->c->staged == TW_GEMM_EXCHANGED) exchange_sums(g);
}
