/* SPDX-License-Identifier: Apache-2.0 */
/* The staged epilogue. Threads exchange sums through shared memory. Afterwards each has runs of four elements of a line
   of C, and neighbouring threads have neighbouring runs. */
#include "kernels/gemm/generate.h"

enum { RUN = 4 };

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

/* Computes the shared address of an element of a line. */
static tw_val place(tw_gemm_gen *g, int pitch, tw_val line, tw_val along) {
    tw_builder *b = g->b;
    const int after = g->c->persistent > 1 ? g->plan.stage_bytes * g->c->stages : 0;
    tw_val base = tw_add_imm(b, g->shared, after), x = tw_mul_imm(b, along, 4), y = tw_mul_imm(b, line, pitch);
    return tw_add(b, base, tw_add(b, y, x));
}

void tw_gemm_stage_sums(tw_gemm_gen *g) {
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
    line->first = tw_div(b, g->tid, per_line);
    along->first = tw_mul_imm(b, tw_rem(b, g->tid, per_line), RUN);
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
