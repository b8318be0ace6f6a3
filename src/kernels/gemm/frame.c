/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a plain product. It chooses a block's tile, locates the operands, and joins the sums, which are computed
   in parts along k: in a thread (ks), in groups of a block's threads (kl), and in blocks (kg). */
#include "kernels/gemm/epilogue.h"

#include <string.h>

static tw_scheduler scheduler_of(const tw_gemm_gen *g) {
    return (tw_scheduler){.rows = g->arg.tiles_m, .columns = g->arg.tiles_n, .band = g->c->group};
}

static void find_tile(tw_gemm_gen *g, tw_val number) {
    tw_builder *b = g->b;
    const bool cluster = tw_gemm_splits_in_cluster(g->c);
    const tw_scheduler order = scheduler_of(g);
    tw_val t = cluster ? tw_div(b, number, g->c->kg) : number;
    const bool folded = g->v->batched && tw_gemm_way_of(g->c)->tensor_copies;
    g->tile = t;
    if (folded) {
        tw_val product = tw_mul(b, g->arg.tiles_m, g->arg.tiles_n);
        g->batch = tw_binary(b, TW_OP_div_u32, t, product);
        t = tw_sub(b, t, tw_mul(b, g->batch, product));
    }
    const tw_scheduler_tile at = tw_scheduler_find(b, &order, t);
    g->x.origin = tw_mul_imm(b, at.row, g->c->ml);
    g->y.origin = tw_mul_imm(b, at.column, g->c->nl);
    g->split = g->c->kg == 1 ? tw_i32(b, 0) : tw_sreg(b, cluster ? TW_SREG_cluster_rank : TW_SREG_ctaid_z);
    if (g->v->batched && !folded) {
        g->batch = tw_sreg(b, TW_SREG_ctaid_y);
        g->tile = tw_fma(b, g->batch, tw_mul(b, g->arg.tiles_m, g->arg.tiles_n), t);
    }
    if (!g->v->sets) return;
    g->set = tw_binary(b, TW_OP_div_u32, g->batch, g->arg.of_set);
    g->batch = tw_sub(b, g->batch, tw_mul(b, g->set, g->arg.of_set));
}

tw_val tw_gemm_batch_offset(tw_gemm_gen *g, tw_val stride, tw_val set) {
    tw_builder *b = g->b;
    tw_val at = tw_mul(b, tw_widen(b, g->batch), stride);
    return g->v->sets ? tw_add(b, at, tw_mul(b, tw_widen(b, g->set), set)) : at;
}

tw_val tw_gemm_batch_matrix(tw_gemm_gen *g, tw_val first, tw_val stride, tw_val set) {
    tw_builder *b = g->b;
    tw_val at = tw_add(b, first, tw_gemm_batch_offset(g, stride, set));
    return g->v->pointers ? tw_ld(b, (tw_attrs){.type = TW_T_i64}, at) : at;
}

static void locate(tw_gemm_gen *g) {
    g->x.matrix = g->arg.x;
    g->y.matrix = g->arg.y;
    if (!g->v->batched) return;
    g->x.matrix = tw_gemm_batch_matrix(g, g->arg.x, g->arg.stride_x, g->arg.set_x);
    g->y.matrix = tw_gemm_batch_matrix(g, g->arg.y, g->arg.stride_y, g->arg.set_y);
}

/* Returns the number of X or Y in its tensor map, which has one if all products share it. TW_NONE: the map has no third
   dimension. */
static tw_val matrix_of(tw_gemm_gen *g, bool is_x) {
    tw_builder *b = g->b;
    if (g->v->grouped) return is_x == (bool)g->c->swap ? g->matrix : TW_NONE;
    if (!g->v->batched) return TW_NONE;
    tw_val stride = is_x ? g->arg.stride_x : g->arg.stride_y;
    return tw_select(b, tw_binary(b, TW_OP_eq_i64, stride, tw_i64(b, 0)), tw_i32(b, 0), g->batch);
}

/* Returns the number of X's or Y's set in its tensor map. TW_NONE: the map has no fourth dimension. */
static tw_val set_of(tw_gemm_gen *g, bool is_x) {
    tw_builder *b = g->b;
    if (!g->v->sets) return TW_NONE;
    tw_val apart = is_x ? g->arg.set_x : g->arg.set_y;
    return tw_select(b, tw_binary(b, TW_OP_eq_i64, apart, tw_i64(b, 0)), tw_i32(b, 0), g->set);
}

static void fetch_narrow(tw_gemm_gen *g, tw_val to, tw_val scales_to, tw_val k, tw_val full) {
    const tw_narrow_copy copy = {.integers = g->arg.x,
                                 .scales = g->arg.scales,
                                 .rows = g->arg.m,
                                 .k_extent = g->arg.k,
                                 .row = g->x.origin,
                                 .k = k,
                                 .to = to,
                                 .scales_to = scales_to,
                                 .full = full};
    tw_narrow_fetch(g->b, &g->plan.narrow, &copy);
}

/* Fetches the next stage's tile of the operand that is no tape, by the producer's first warp. */
static void fetch_beside_tape(tw_gemm_gen *g, tw_tile_copy copy, const tw_tile *t) {
    tw_builder *b = g->b;
    const int block = g->v->tape.blocks * TW_TILE_PIECE_LINE / 2;
    copy.k = tw_gemm_tape_element(g);
    if (g->c->u > block) {
        copy.run = block;
        copy.apart = g->arg.tape_run;
    }
    TW_IF (b, tw_eq(b, tw_gemm_tape_fetcher(g), tw_i32(b, 0))) {
        TW_BLOCK (b, tw_gemm_tape_elect(g)) tw_tile_fetch(b, t, &copy);
    }
    tw_gemm_tape_advance(g);
}

static void fetch(tw_gemm_gen *g, bool is_x, tw_val to, tw_val scales_to, tw_val k, tw_val full) {
    if (tw_gemm_is_tape(g->v, g->c, is_x)) {
        tw_gemm_tape_fetch(g, to, full);
        return;
    }
    if (is_x && g->v->narrow) {
        fetch_narrow(g, to, scales_to, k, full);
        return;
    }
    const tw_tile_copy copy = {.map = is_x ? g->arg.map_x : g->arg.map_y,
                               .to = to,
                               .origin = is_x ? g->x.origin : g->y.origin,
                               .k = k,
                               .matrix = matrix_of(g, is_x),
                               .set = set_of(g, is_x),
                               .full = full,
                               .blocks = tw_gemm_fetchers(g->c, is_x),
                               .parts = is_x && tw_gemm_cuts_rows(g->v, g->c) ? g->c->ml / TW_WGMMA_ROWS : 1,
                               .present = g->x.present};
    const tw_tile *t = is_x ? &g->plan.tile_x : &g->plan.tile_y;
    if (g->v->tape.warps)
        fetch_beside_tape(g, copy, t);
    else
        tw_tile_fetch(g->b, t, &copy);
}

/* The barrier is for all threads except those of a producer warp. Warpgroups that compute fewer rows of a tile have
   an epilogue of their own. */
tw_meeting tw_gemm_meeting(const tw_gemm_gen *g) {
    const bool all = g->plan.threads == g->plan.group * g->c->kl;
    return all ? (tw_meeting){0}
               : (tw_meeting){.threads = g->plan.group,
                              .number = TW_GEMM_SUMS,
                              .apart = tw_gemm_cuts_rows(g->v, g->c) && g->c->ml > g->c->ms,
                              .team = g->team};
}

static void store_sums(tw_gemm_gen *g, int from, int below) {
    if (g->c->staged == TW_GEMM_BOXED) {
        tw_gemm_boxed_store(g);
        return;
    }
    tw_gemm_rearrange_sums(g);
    g->frame->store(g, from, below);
}

/* Stores sums that were scaled, if they are. Sums are of other rows and columns after they were rearranged or gated.
   The operands are put back for whatever is built next. */
static void store_scaled(tw_gemm_gen *g, int from, int below) {
    const tw_gemm_operand x = g->x, y = g->y;
    const bool gated = g->v->epilogue.gated;
    if (gated) tw_gemm_gate(g);
    store_sums(g, from, gated ? below / 2 : below);
    g->x = x;
    g->y = y;
}

static void store(void *context, int from, int below) {
    tw_gemm_gen *g = context;
    const tw_gemm_epilogue *e = &g->v->epilogue;
    if (!e->scale_rows && !e->scale_columns && (!g->v->sums || g->v->norm_residual || tw_gemm_sums_late(g))) {
        store_scaled(g, from, below);
        return;
    }
    const tw_type type = g->acc_type;
    tw_val sums[TW_GEMM_MAX_ACC];
    memcpy(sums, g->acc[0], sizeof sums);
    tw_gemm_scale(g, from, below);
    store_scaled(g, from, below);
    memcpy(g->acc[0], sums, sizeof sums);
    g->acc_type = type;
}

static tw_join_share share_of(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const tw_stream *s = &g->stream;
    tw_val from = tw_mul(b, s->tile, s->stages), last = tw_add_imm(b, tw_add(b, from, s->stages), -1);
    tw_val first = tw_stream_block(b, s, from);
    return (tw_join_share){
        .whole = tw_eq(b, s->count, s->stages),
        .begins = tw_eq(b, s->first, tw_i32(b, 0)),
        .block = tw_sreg(b, TW_SREG_ctaid_x),
        .first = first,
        .blocks = tw_add_imm(b, tw_sub(b, tw_stream_block(b, s, last), first), 1),
    };
}

static void finish(tw_gemm_gen *g) {
    const tw_join j = {.sums = g->acc[0],
                       .n = g->plan.accumulators,
                       .type = g->acc_type,
                       .meeting = tw_gemm_meeting(g),
                       .tid = g->tid,
                       .threads = g->plan.group,
                       .thread = g->group_tid,
                       .groups = g->c->kl,
                       .group = g->group,
                       .shared = tw_add_imm(g->b, g->shared, g->plan.join),
                       .parts = g->v->addends ? 1 : g->c->kg,
                       .way = (tw_join_way)g->c->split,
                       .part = g->split,
                       .tile = g->tile,
                       .workspace = g->arg.workspace,
                       .counters = g->arg.counters};
    for (int s = 1; s < g->c->ks; s++)
        for (int i = 0; i < g->plan.accumulators; i++) tw_add_to(g->b, g->acc[0][i], g->acc[s][i]);
    if (g->c->stream) {
        const tw_join_share share = share_of(g);
        tw_join_shares(g->b, &j, &share, store, g);
    } else {
        tw_join_sums(g->b, &j, store, g);
    }
}

const tw_gemm_frame tw_gemm_plain_frame = {
    .find_tile = find_tile, .locate = locate, .fetch = fetch, .finish = finish, .store = tw_gemm_epilogue_store};
