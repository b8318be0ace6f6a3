/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel as a whole: which tile, the pipeline along k, then what is done with the sums. */
#include "base/diag.h"
#include "kernels/gemm/generate.h"

/* Parameters are named after the problem's matrices. With swapped operands X is b. */
static void declare_parameters(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const bool wide = g->v->out == TW_T_f64, swap = g->c->swap;
    g->arg.x = tw_pointer_add(b, swap ? "b" : "a", g->v->vec_a, true);
    g->arg.y = tw_pointer_add(b, swap ? "a" : "b", g->v->vec_b, true);
    g->arg.c = tw_pointer_add(b, "c", g->v->vec_c, false);
    g->arg.bias = tw_pointer_add(b, "bias", g->v->vec_c, true);
    g->arg.mul = tw_pointer_add(b, "mul", g->v->vec_c, true);
    g->arg.residual = tw_pointer_add(b, "residual", g->v->vec_c, true);
    g->arg.workspace = tw_pointer_add(b, "workspace", 16, false);
    g->arg.counters = tw_pointer_add(b, "counters", 4, false);
    g->arg.m = tw_parameter_add(b, swap ? "n" : "m", TW_T_i32);
    g->arg.n = tw_parameter_add(b, swap ? "m" : "n", TW_T_i32);
    g->arg.k = tw_parameter_add(b, "k", TW_T_i32);
    g->arg.chunk = tw_parameter_add(b, "chunk", TW_T_i32);
    g->arg.tiles_m = tw_parameter_add(b, "tiles_m", TW_T_i32);
    g->arg.tiles_n = tw_parameter_add(b, "tiles_n", TW_T_i32);
    g->arg.ldx = tw_parameter_add(b, swap ? "ldb" : "lda", TW_T_i64);
    g->arg.ldy = tw_parameter_add(b, swap ? "lda" : "ldb", TW_T_i64);
    g->arg.ldc = tw_parameter_add(b, "ldc", TW_T_i64);
    g->arg.stride_x = tw_parameter_add(b, swap ? "stride_b" : "stride_a", TW_T_i64);
    g->arg.stride_y = tw_parameter_add(b, swap ? "stride_a" : "stride_b", TW_T_i64);
    g->arg.stride_c = tw_parameter_add(b, "stride_c", TW_T_i64);
    g->arg.alpha = tw_parameter_add(b, "alpha", wide ? TW_T_f64 : TW_T_f32);
    g->arg.beta = tw_parameter_add(b, "beta", wide ? TW_T_f64 : TW_T_f32);
    if (g->c->mma != 2) return;
    g->arg.map_x = tw_map_add(b, "map_x");
    g->arg.map_y = tw_map_add(b, "map_y");
}

static tw_val binary(tw_gemm_gen *g, tw_opcode code, tw_val x, tw_val y) {
    return tw_op_emit(g->b, code, x, y, TW_NONE);
}

/* Tiles are walked along columns, or, in groups of `group` rows of tiles, down these before the next column. */
void tw_gemm_find_tile(tw_gemm_gen *g, tw_val number) {
    tw_builder *b = g->b;
    const bool cluster = g->c->kg > 1 && g->c->split == TW_GEMM_SPLIT_CLUSTER;
    tw_val t = number, tile_m, tile_n;
    if (cluster) t = tw_div(b, t, g->c->kg);
    if (g->c->group == 1) {
        tile_m = binary(g, TW_OP_div_u32, t, g->arg.tiles_n);
        tile_n = tw_sub(b, t, tw_mul(b, tile_m, g->arg.tiles_n));
    } else {
        tw_val width = tw_mul_imm(b, g->arg.tiles_n, g->c->group);
        tw_val of = binary(g, TW_OP_div_u32, t, width), in = tw_sub(b, t, tw_mul(b, of, width));
        tw_val first = tw_mul_imm(b, of, g->c->group);
        tw_val rows = tw_min(b, tw_sub(b, g->arg.tiles_m, first), tw_i32(b, g->c->group));
        tile_n = binary(g, TW_OP_div_u32, in, rows);
        tile_m = tw_add(b, first, tw_sub(b, in, tw_mul(b, tile_n, rows)));
    }
    g->x.origin = tw_mul_imm(b, tile_m, g->c->ml);
    g->y.origin = tw_mul_imm(b, tile_n, g->c->nl);
    g->tile = t;
    g->split = g->c->kg == 1 ? tw_i32(b, 0) : tw_sreg(b, cluster ? TW_SREG_cluster_rank : TW_SREG_ctaid_z);
    if (g->v->batched) {
        g->batch = tw_sreg(b, TW_SREG_ctaid_y);
        g->tile = tw_fma(b, g->batch, tw_mul(b, g->arg.tiles_m, g->arg.tiles_n), t);
    }
}

static void find_thread(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    g->tid = tw_sreg(b, TW_SREG_tid_x);
    g->lane = tw_rem(b, g->tid, 32);
    tw_val warp = tw_sreg(b, TW_SREG_warpid);
    g->group = tw_i32(b, 0);
    g->group_tid = g->tid;
    g->warp = warp;
    if (g->c->kl == 1) return;
    const int warps = g->plan.group / 32;
    g->group = tw_div(b, warp, warps);
    g->warp = tw_rem(b, warp, warps);
    g->group_tid = tw_rem(b, g->tid, g->plan.group);
}

static tw_val stage_after(tw_gemm_gen *g, tw_val stage) {
    tw_builder *b = g->b;
    tw_val next = tw_add_imm(b, stage, g->plan.stage_bytes);
    return tw_select(b, tw_eq(b, next, tw_i32(b, g->plan.stage_bytes * g->c->stages)), tw_i32(b, 0), next);
}

static void sum_stage(tw_gemm_gen *g, tw_val stage, tw_gemm_between *between) {
    if (g->c->mma)
        tw_gemm_tensor_stage(g, stage, between);
    else
        tw_gemm_simt_stage(g, stage, between);
}

static void copy_between(tw_gemm_gen *g, int step, int steps) {
    tw_gemm_copy_issue(g, g->next_stage, g->more, step, steps);
}

/* stages - 1 copies are in flight while one stage is summed; one barrier a stage says both that the stage has landed
   for everybody and that everybody is done with the one before, whose place the next copy takes. */
static void pipeline(tw_gemm_gen *g, tw_val count) {
    tw_builder *b = g->b;
    const int ahead = g->c->stages - 1;
    for (int s = 0; s < ahead; s++) {
        tw_push_if(b, tw_lt(b, tw_i32(b, s), count));
        tw_gemm_copy_issue(g, tw_i32(b, s * g->plan.stage_bytes), TW_NONE, 0, 1);
        tw_pop(b);
        tw_gemm_copy_advance(g);
        tw_do(b, TW_OP_cp_async_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
    }
    tw_val read = tw_var_of(b, tw_i32(b, 0)), write = tw_var_of(b, tw_i32(b, ahead * g->plan.stage_bytes));
    tw_val i = tw_push_for(b, tw_i32(b, 0), count, tw_i32(b, 1), false);
    tw_do(b, TW_OP_cp_async_wait, (tw_attrs){.count = ahead - 1}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
    g->next_stage = write;
    g->more = tw_lt(b, tw_add_imm(b, i, ahead), count);
    /* In small parts between the steps of the sums, so that copies and fragments do not wait for one another. */
    if (!g->v->whole_k) {
        tw_push_if(b, g->more);
        tw_gemm_copy_issue(g, write, TW_NONE, 0, 1);
        tw_pop(b);
    }
    sum_stage(g, read, g->v->whole_k ? copy_between : NULL);
    tw_gemm_copy_advance(g);
    tw_do(b, TW_OP_cp_async_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_assign(b, write, stage_after(g, write));
    tw_assign(b, read, stage_after(g, read));
    tw_pop(b);
    tw_do(b, TW_OP_cp_async_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
}

/* The next stage is fetched into registers while this one is summed. With two of them in shared memory it can be stored
   at once; with one, everybody must be done with it first. */
static void through_registers(tw_gemm_gen *g, tw_val count) {
    tw_builder *b = g->b;
    const bool two = g->c->stages == 2;
    tw_val zero = tw_i32(b, 0), read = two ? tw_var_of(b, zero) : zero;
    tw_gemm_copy_declare(g);
    tw_push_if(b, tw_lt(b, zero, count));
    tw_gemm_copy_load(g);
    tw_gemm_copy_store(g, zero);
    tw_pop(b);
    tw_val i = tw_push_for(b, zero, count, tw_i32(b, 1), false);
    tw_val more = tw_lt(b, tw_add_imm(b, i, 1), count);
    tw_gemm_copy_advance(g);
    tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_push_if(b, more);
    tw_gemm_copy_load(g);
    tw_pop(b);
    sum_stage(g, read, NULL);
    if (two) tw_assign(b, read, stage_after(g, read));
    if (!two) tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_push_if(b, more);
    tw_gemm_copy_store(g, read);
    tw_pop(b);
    tw_pop(b);
}

static void build(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const tw_gemm_variant *v = g->v;
    declare_parameters(g);
    const bool engine = g->c->mma == 2;
    if (!engine) tw_shared_add(b, "tiles", g->plan.shared_bytes, 128, true);
    find_thread(g);
    /* Who walks has no split, and finds its tiles on the way. */
    if (g->c->walk < 2)
        tw_gemm_find_tile(g, tw_sreg(b, TW_SREG_ctaid_x));
    else
        g->split = tw_i32(b, 0);
    if (!engine) g->shared = tw_shared_base(b, "tiles");
    g->x.whole = v->whole_m;
    g->y.whole = v->whole_n;
    g->x.limit = g->arg.m;
    g->y.limit = g->arg.n;
    g->x.ld = g->arg.ldx;
    g->y.ld = g->arg.ldy;
    tw_val x = g->arg.x, y = g->arg.y;
    if (v->batched) {
        x = tw_add(b, x, tw_mul(b, tw_widen(b, g->batch), g->arg.stride_x));
        y = tw_add(b, y, tw_mul(b, tw_widen(b, g->batch), g->arg.stride_y));
    }
    tw_val k_begin = tw_mul(b, g->split, g->arg.chunk);
    g->k_end = g->c->kg > 1 ? tw_min(b, g->arg.k, tw_add(b, k_begin, g->arg.chunk)) : g->arg.k;
    g->k_position = tw_var_of(b, k_begin);
    tw_val left = tw_max(b, tw_sub(b, g->k_end, k_begin), tw_i32(b, 0));
    tw_val count = tw_div(b, tw_add_imm(b, left, g->c->u - 1), g->c->u);
    if (engine) {
        tw_gemm_wgmma_run(g, k_begin, count);
        return;
    }
    tw_gemm_copy_prepare(g, &g->x, &g->plan.x, x, k_begin, 0);
    tw_gemm_copy_prepare(g, &g->y, &g->plan.y, y, k_begin, g->plan.x.bytes);
    if (g->c->mma)
        tw_gemm_tensor_prepare(g);
    else
        tw_gemm_simt_prepare(g);
    if (g->c->copy)
        through_registers(g, count);
    else
        pipeline(g, count);
    tw_gemm_finish(g);
}

tw_status tw_gemm_signature(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_signature *s,
                            tw_diag *diag) {
    tw_gemm_gen g = {.v = v, .c = c, .target = t};
    tw_kernel *k = tw_kernel_new("gemm", t->sm, 32);
    if (!k) return tw_fail_memory(diag);
    tw_builder b = tw_builder_of(k);
    g.b = &b;
    declare_parameters(&g);
    const tw_status st = tw_kernel_failed(k) ? tw_fail_memory(diag) : TW_OK;
    if (st == TW_OK) *s = tw_signature_of(k);
    tw_kernel_free(k);
    return st;
}

tw_kernel *tw_gemm_build(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t) {
    tw_gemm_gen g = {.v = v, .c = c, .target = t, .acc_type = tw_gemm_accumulator(v->type)};
    if (tw_gemm_plan_of(v, c, t, &g.plan)) return NULL;
    tw_kernel *k = tw_kernel_new("gemm", t->sm, g.plan.threads);
    if (!k) return NULL;
    k->min_blocks = c->blocks;
    if (c->kg > 1 && c->split == TW_GEMM_SPLIT_CLUSTER)
        k->cluster = c->kg;
    else
        k->cluster = c->cast;
    tw_builder b = tw_builder_of(k);
    g.b = &b;
    build(&g);
    if (!tw_kernel_failed(k)) return k;
    tw_kernel_free(k);
    return NULL;
}
