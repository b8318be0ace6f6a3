/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a kernel: its parameters, its tile and its part of k. The configuration's tw_gemm_way builds the rest. */
#include "base/diag.h"
#include "kernels/gemm/generate.h"

/* Parameters are named after the problem's matrices. With swapped operands X is b. */
static void declare_parameters(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const bool wide = g->v->out == TW_T_f64, swap = g->c->swap, pointers = g->v->pointers;
    g->arg.x = tw_pointer_add(b, swap ? "b" : "a", pointers ? TW_GEMM_POINTER : g->v->vec_a, true);
    g->arg.y = tw_pointer_add(b, swap ? "a" : "b", pointers ? TW_GEMM_POINTER : g->v->vec_b, true);
    g->arg.c = tw_pointer_add(b, "c", pointers ? TW_GEMM_POINTER : g->v->vec_c, pointers);
    g->arg.bias = tw_pointer_add(b, "bias", g->v->vec_c, true);
    g->arg.mul = tw_pointer_add(b, "mul", g->v->vec_c, true);
    g->arg.residual = tw_pointer_add(b, "residual", g->v->vec_c, true);
    if (g->v->scales) g->arg.scales = tw_pointer_add(b, "scales", 16, true);
    g->arg.workspace = tw_pointer_add(b, "workspace", 16, false);
    g->arg.counters = tw_pointer_add(b, "counters", 4, false);
    g->arg.m = tw_parameter_add(b, swap ? "n" : "m", TW_T_i32);
    g->arg.n = tw_parameter_add(b, swap ? "m" : "n", TW_T_i32);
    g->arg.k = tw_parameter_add(b, "k", TW_T_i32);
    g->arg.chunk = tw_parameter_add(b, "chunk", TW_T_i32);
    g->arg.tiles_m = tw_parameter_add(b, "tiles_m", TW_T_i32);
    g->arg.tiles_n = tw_parameter_add(b, "tiles_n", TW_T_i32);
    g->arg.tiles = tw_parameter_add(b, "tiles", TW_T_i32);
    g->arg.streamed = tw_parameter_add(b, "streamed", TW_T_i32);
    g->arg.ldx = tw_parameter_add(b, swap ? "ldb" : "lda", TW_T_i64);
    g->arg.ldy = tw_parameter_add(b, swap ? "lda" : "ldb", TW_T_i64);
    g->arg.ldc = tw_parameter_add(b, "ldc", TW_T_i64);
    g->arg.stride_x = tw_parameter_add(b, swap ? "stride_b" : "stride_a", TW_T_i64);
    g->arg.stride_y = tw_parameter_add(b, swap ? "stride_a" : "stride_b", TW_T_i64);
    g->arg.stride_c = tw_parameter_add(b, "stride_c", TW_T_i64);
    if (g->v->sets) {
        g->arg.of_set = tw_parameter_add(b, "of_set", TW_T_i32);
        g->arg.set_x = tw_parameter_add(b, swap ? "set_b" : "set_a", TW_T_i64);
        g->arg.set_y = tw_parameter_add(b, swap ? "set_a" : "set_b", TW_T_i64);
        g->arg.set_c = tw_parameter_add(b, "set_c", TW_T_i64);
    }
    g->arg.alpha = tw_parameter_add(b, "alpha", wide ? TW_T_f64 : TW_T_f32);
    g->arg.beta = tw_parameter_add(b, "beta", wide ? TW_T_f64 : TW_T_f32);
    if (g->v->grouped) {
        g->arg.ends = tw_pointer_add(b, g->v->masked ? "counts" : "ends", 4, false);
        g->arg.groups = tw_parameter_add(b, "groups", TW_T_i32);
    }
    if (g->v->gather) {
        g->arg.rows = tw_pointer_add(b, "rows", 4, false);
        g->arg.rows_a = tw_parameter_add(b, "rows_a", TW_T_i32);
    }
    if (g->v->scatter) {
        g->arg.places = tw_pointer_add(b, "places", 4, false);
        g->arg.factors = tw_pointer_add(b, "factors", 4, false);
    }
    if (g->v->epilogue.scale_rows) {
        g->arg.scale_rows = tw_pointer_add(b, "scale_rows", 8, true);
        g->arg.stride_scale_rows = tw_parameter_add(b, "stride_scale_rows", TW_T_i64);
    }
    if (g->v->epilogue.scale_columns) {
        g->arg.scale_columns = tw_pointer_add(b, "scale_columns", 8, true);
        g->arg.stride_scale_columns = tw_parameter_add(b, "stride_scale_columns", TW_T_i64);
    }
    if (g->v->sums) {
        g->arg.sums = tw_pointer_add(b, "sums", g->v->centred ? 8 : 4, false);
        g->arg.parts = tw_parameter_add(b, "parts", TW_T_i32);
        g->arg.share = tw_parameter_add(b, "share", TW_T_f32);
        g->arg.eps = tw_parameter_add(b, "eps", TW_T_f32);
    }
    if (g->v->norm_residual) g->arg.residual_gains = tw_pointer_add(b, "residual_gains", g->v->vec_c, true);
    if (g->v->epilogue.scaled) {
        g->arg.gains = tw_pointer_add(b, "gains", 16, true);
        g->arg.scaled = tw_pointer_add(b, "scaled", 8, false);
    }
    if (g->v->epilogue.squares) g->arg.squares = tw_pointer_add(b, "squares", g->v->epilogue.means ? 8 : 4, false);
    if (g->v->scale_blocks) {
        g->arg.scale_a = tw_pointer_add(b, "scale_a", 8, true);
        g->arg.scale_b = tw_pointer_add(b, "scale_b", 4, true);
    }
    if (g->v->tape.warps) {
        g->arg.tape_chunk = tw_parameter_add(b, "tape_chunk", TW_T_i32);
        g->arg.tape_run = tw_parameter_add(b, "tape_run", TW_T_i32);
        if (g->v->tape.apart) g->arg.tape_chunks = tw_parameter_add(b, "tape_chunks", TW_T_i32);
    }
    if (g->frame && g->frame->declare) g->frame->declare(g);
    if (!tw_gemm_way_of(g->c)->tensor_copies) return;
    if (!g->v->narrow && !tw_gemm_is_tape(g->v, g->c, true)) g->arg.map_x = tw_map_add(b, "map_x");
    if (!tw_gemm_is_tape(g->v, g->c, false)) g->arg.map_y = tw_map_add(b, "map_y");
    if (g->c->staged == TW_GEMM_BOXED && tw_gemm_boxes_sent(g->v)) g->arg.map_c = tw_map_add(b, "map_c");
}

static void find_thread(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    g->tid = tw_sreg(b, TW_SREG_tid_x);
    g->lane = tw_rem(b, g->tid, 32);
    tw_val warp = tw_sreg(b, TW_SREG_warpid);
    const int warps = g->plan.group / 32;
    const bool alone = g->c->kl == 1;
    g->group = alone ? tw_i32(b, 0) : tw_div(b, warp, warps);
    g->warp = alone ? warp : tw_rem(b, warp, warps);
    g->group_tid = alone ? g->tid : tw_rem(b, g->tid, g->plan.group);
    if (g->plan.teams < 2) return;
    g->team = tw_div(b, warp, warps);
    g->warp = tw_rem(b, warp, warps);
    g->group_tid = tw_rem(b, g->tid, g->plan.group);
}

static void build(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const tw_gemm_variant *v = g->v;
    const tw_gemm_way *way = tw_gemm_way_of(g->c);
    declare_parameters(g);
    if (!way->tensor_copies) tw_shared_add(b, "tiles", g->plan.shared_bytes, 128, true);
    find_thread(g);
    g->x = (tw_gemm_operand){.tile = &g->plan.x, .whole = v->whole_m, .limit = g->arg.m, .ld = g->arg.ldx};
    g->y = (tw_gemm_operand){.tile = &g->plan.y, .whole = v->whole_n, .limit = g->arg.n, .ld = g->arg.ldy};
    /* A persistent block has no split, and its loop finds the tiles. */
    if (!g->c->persistent)
        g->frame->find_tile(g, tw_sreg(b, TW_SREG_ctaid_x));
    else
        g->split = tw_i32(b, 0);
    if (!way->tensor_copies) {
        g->shared = tw_shared_base(b, "tiles");
        g->frame->locate(g);
    }
    g->k_begin = tw_mul(b, g->split, g->arg.chunk);
    g->k_end = g->c->kg > 1 ? tw_min(b, g->arg.k, tw_add(b, g->k_begin, g->arg.chunk)) : g->arg.k;
    g->k_position = tw_var_of(b, g->k_begin);
    tw_val left = tw_max(b, tw_sub(b, g->k_end, g->k_begin), tw_i32(b, 0));
    g->stages = tw_div(b, tw_add_imm(b, left, g->c->u - 1), g->c->u);
    g->all_stages = g->stages;
    way->build(g);
}

tw_status tw_gemm_signature(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_signature *s,
                            tw_diag *diag) {
    tw_gemm_gen g = {.v = v, .c = c};
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
    return tw_gemm_build_frame(&tw_gemm_plain_frame, v, c, t);
}

tw_kernel *tw_gemm_build_frame(const tw_gemm_frame *f, const tw_gemm_variant *v, const tw_gemm_config *c,
                               const tw_target *t) {
    tw_gemm_gen g = {.frame = f, .v = v, .c = c, .acc_type = tw_gemm_types[v->type].accumulator};
    if (tw_gemm_plan_of(v, c, t, &g.plan)) return NULL;
    tw_kernel *k = tw_kernel_new("gemm", t->sm, g.plan.threads);
    if (!k) return NULL;
    k->min_blocks = g.plan.producer_registers ? 0 : c->blocks;
    if (g.plan.producer_registers) k->max_registers = g.plan.registers;
    k->cluster = tw_gemm_splits_in_cluster(c) ? c->kg : c->multicast;
    tw_builder b = tw_builder_of(k);
    g.b = &b;
    build(&g);
    if (!tw_kernel_failed(k)) return k;
    tw_kernel_free(k);
    return NULL;
}
