/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline along k of kernels whose threads copy by themselves: SIMT and mma.sync. */
#include "kernels/gemm/generate.h"

tw_val tw_gemm_element_offset(tw_builder *b, const tw_gemm_tile *t, tw_val row, tw_val k) {
    tw_val inner = tw_mul_imm(b, t->k_stored ? k : row, t->es);
    tw_val outer = tw_mul_imm(b, t->k_stored ? row : k, t->pitch);
    return tw_add(b, outer, inner);
}

static tw_val stage_after(tw_gemm_gen *g, tw_val stage) {
    tw_builder *b = g->b;
    tw_val next = tw_add_imm(b, stage, g->plan.stage_bytes);
    return tw_select(b, tw_eq(b, next, tw_i32(b, g->plan.stage_bytes * g->c->stages)), tw_i32(b, 0), next);
}

/* Builds the loop with asynchronous copies. stages - 1 copies are in flight while one stage is computed. There is one
   barrier per stage. After it the stage has arrived for all threads, and all threads are done with the previous stage,
   which the next copy overwrites. */
static void asynchronous(tw_gemm_gen *g, const tw_gemm_way *way) {
    tw_builder *b = g->b;
    const int ahead = g->c->stages - 1;
    for (int s = 0; s < ahead; s++) {
        TW_IF (b, tw_lt(b, tw_i32(b, s), g->stages))
            tw_gemm_copy_issue(g, tw_i32(b, s * g->plan.stage_bytes), TW_NONE, 0, 1);
        tw_gemm_copy_advance(g);
        tw_do(b, TW_OP_cp_async_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
    }
    tw_val read = tw_var_of(b, tw_i32(b, 0)), write = tw_var_of(b, tw_i32(b, ahead * g->plan.stage_bytes));
    TW_FOR (b, i, tw_i32(b, 0), g->stages, tw_i32(b, 1), false) {
        tw_do(b, TW_OP_cp_async_wait, (tw_attrs){.count = ahead - 1}, TW_NONE, TW_NONE);
        tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
        g->more = tw_lt(b, tw_add_imm(b, i, ahead), g->stages);
        /* Copies are issued in small parts between the steps, so that they do not delay the loads of fragments. */
        if (g->v->whole_k) {
            g->next_stage = write;
        } else {
            TW_IF (b, g->more) tw_gemm_copy_issue(g, write, TW_NONE, 0, 1);
        }
        way->stage(g, read);
        tw_gemm_copy_advance(g);
        tw_do(b, TW_OP_cp_async_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
        tw_assign(b, write, stage_after(g, write));
        tw_assign(b, read, stage_after(g, read));
    }
    tw_do(b, TW_OP_cp_async_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
}

/* Builds the loop with copies through registers. The next stage is loaded into registers while the current one is
   computed. With two stages in shared memory it is stored at once. With one, all threads must be done with it first. */
static void through_registers(tw_gemm_gen *g, const tw_gemm_way *way) {
    tw_builder *b = g->b;
    const bool two = g->c->stages == 2;
    tw_val zero = tw_i32(b, 0), read = two ? tw_var_of(b, zero) : zero;
    tw_gemm_copy_declare(g);
    TW_IF (b, tw_lt(b, zero, g->stages)) {
        tw_gemm_copy_load(g);
        tw_gemm_copy_store(g, zero);
    }
    TW_FOR (b, i, zero, g->stages, tw_i32(b, 1), false) {
        tw_val more = tw_lt(b, tw_add_imm(b, i, 1), g->stages);
        tw_gemm_copy_advance(g);
        tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
        TW_IF (b, more) tw_gemm_copy_load(g);
        way->stage(g, read);
        if (two) tw_assign(b, read, stage_after(g, read));
        if (!two) tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
        TW_IF (b, more) tw_gemm_copy_store(g, read);
    }
}

void tw_gemm_pipeline(tw_gemm_gen *g) {
    const tw_gemm_way *way = tw_gemm_way_of(g->c);
    tw_gemm_copy_prepare(g, &g->x, 0);
    tw_gemm_copy_prepare(g, &g->y, g->plan.x.bytes);
    way->prepare(g);
    for (int s = 0; s < g->c->ks; s++)
        for (int i = 0; i < g->plan.accumulators; i++) g->acc[s][i] = tw_var_of(g->b, tw_zero(g->b, g->acc_type));
    (g->c->copy ? through_registers : asynchronous)(g, way);
    g->frame->finish(g);
}
