/* SPDX-License-Identifier: Apache-2.0 */
/* Products by wgmma. A producer warp issues tensor copies of tiles into a ring of stages. Consumer warpgroups multiply
   the tiles, each 64 or 128 rows. A stage has two mbarriers: `full` counts bytes that arrive, and `empty` counts warps
   that are done with the stage. */
#include "kernels/gemm/generate.h"
#include "kernels/parts/ring.h"

enum { ROWS = TW_WGMMA_ROWS, WARPS = 4 };

int tw_gemm_fetchers(const tw_gemm_config *c, bool is_x) {
    return c->multicast && (c->group == 1) == is_x ? c->multicast : 1;
}

static const char *plan(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p) {
    REFUSE(t->sm != 90, "warpgroups' products are of sm_90a alone");
    REFUSE(v->type != TW_GEMM_F16 && v->type != TW_GEMM_BF16, "warpgroups multiply f16 and bf16");
    REFUSE(v->batched, "warpgroups' kernels have no batches");
    REFUSE(c->ks != 1 || c->kl != 1 || c->copy || c->ns != c->nl || c->vec != 16,
           "with warpgroups ks, kl and copy say nothing, ns is nl and vec is 16");
    REFUSE(v->vec_a < 16 || v->vec_b < 16, "the copy engine needs rows that are aligned to 16 bytes");
    REFUSE(c->ms != ROWS && c->ms != 2 * ROWS, "a warpgroup has 64 or 128 rows");
    REFUSE(c->ml > 256 || c->nl > 256 || c->nl % 8,
           "a warpgroup's tile is 256 rows and 256 columns at most, of whole eights");
    REFUSE(c->u < 16 || ((v->a_k_major || v->b_k_major) && c->u % TW_TILE_WIDTH),
           "a stage is no whole number of what the copy engine swizzles");
    p->tile_x = tw_tile_of(v->a_k_major, c->ml, c->u);
    p->tile_y = tw_tile_of(v->b_k_major, c->nl, c->u);
    p->x = (tw_gemm_tile){.es = 2, .vec = 16, .bytes = tw_tile_bytes(&p->tile_x)};
    p->y = (tw_gemm_tile){.es = 2, .vec = 16, .bytes = tw_tile_bytes(&p->tile_y)};
    REFUSE(p->x.bytes % TW_TILE_ALIGN || p->y.bytes % TW_TILE_ALIGN, "tiles do not end where the swizzle begins anew");
    p->group = c->ml / c->ms * WARPS * 32;
    p->threads = p->group + 32;
    p->accumulators = c->ms / ROWS * c->nl / 2;
    p->stage_bytes = p->x.bytes + p->y.bytes;
    p->registers = p->accumulators + 40; /* 40: two descriptors and the epilogue's registers. */
    const bool cluster = tw_gemm_splits_in_cluster(c);
    REFUSE(c->multicast && c->multicast != 2 && c->multicast != 4, "multicast is to 2 or 4 blocks, or to none");
    REFUSE(c->multicast && cluster, "a cluster multicasts or splits k, not both");
    REFUSE(c->multicast && c->group > 1 && c->group % c->multicast, "a group of tiles is no whole number of clusters");
    REFUSE(c->multicast && (c->group == 1 ? &p->tile_x : &p->tile_y)->lines % (8 * c->multicast),
           "a tile cannot be dealt to the blocks that fetch it together");
    REFUSE(c->staged < 0 || c->staged > TW_GEMM_EXCHANGED, "the epilogue is staged (1), exchanged (2) or neither (0)");
    REFUSE(c->staged && cluster, "a cluster's blocks share the sums out already");
    REFUSE(c->staged == TW_GEMM_EXCHANGED && (c->swap || c->nl % 32),
           "lanes exchange sums of 32 columns, with operands as they are");
    REFUSE(c->staged == TW_GEMM_STAGED && p->group % ((c->swap ? c->ml : c->nl) / 4), "lines of C cannot be dealt to the threads");
    REFUSE(c->persistent < 0 || c->persistent > 64, "a persistent block has 64 tiles at most");
    REFUSE(c->persistent > 1 && (c->kg > 1 || c->multicast), "persistent blocks have all of k, and no multicast");
    return NULL;
}

/* Opens the loop over the tiles of a persistent block. */
static tw_scope push_tiles(tw_gemm_gen *g) {
    if (g->c->persistent < 2) return TW_NO_BLOCK;
    const tw_scope tiles = g->frame->each_tile(g);
    g->frame->find_tile(g, tiles.i);
    return tiles;
}

/* -- the warp that copies */

/* Passes the barrier that follows the initialisation of the mbarriers. The producer does not wait there (`waits`
   false). In a cluster all warps wait, since other blocks signal the mbarriers. */
static void begin(tw_gemm_gen *g, bool waits) {
    const tw_attrs at = {.count = g->plan.threads};
    if (g->c->multicast)
        tw_do(g->b, TW_OP_cluster_sync, (tw_attrs){0}, TW_NONE, TW_NONE);
    else
        tw_do(g->b, waits ? TW_OP_barrier_sync : TW_OP_barrier_arrive, at, tw_i32(g->b, TW_GEMM_BEGIN), TW_NONE);
}

static void copy(tw_gemm_gen *g, const tw_ring *ring) {
    tw_builder *b = g->b;
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) {
        /* The copy engine reads a map before it can begin. */
        tw_do(b, TW_OP_tensor_prefetch, (tw_attrs){0}, g->arg.map_x, TW_NONE);
        tw_do(b, TW_OP_tensor_prefetch, (tw_attrs){0}, g->arg.map_y, TW_NONE);
        tw_ring_init(b, ring, b->kernel->target, 1, g->plan.group / 32 * (g->c->multicast ? g->c->multicast : 1));
    }
    begin(g, false);
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) {
        const tw_ring_cursor c = tw_ring_begin(b, ring, 1);
        TW_BLOCK (b, push_tiles(g)) {
            tw_val k = tw_var_of(b, g->k_begin);
            TW_FOR (b, i, tw_i32(b, 0), g->stages, tw_i32(b, 1), false) {
                tw_val full = tw_ring_fill(b, ring, &c, tw_i32(b, g->plan.stage_bytes)),
                       to = tw_ring_data(b, ring, &c, TW_NONE);
                g->frame->fetch(g, true, to, k, full);
                g->frame->fetch(g, false, tw_add_imm(b, to, g->plan.x.bytes), k, full);
                tw_add_to(b, k, tw_i32(b, g->c->u));
                tw_ring_advance(b, ring, &c);
            }
        }
    }
}

/* -- the warpgroups that multiply */

static void prepare(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const int wide = g->c->nl / 2;
    tw_val first = tw_mul_imm(b, tw_shr(b, g->warp, 2), g->c->ms);
    tw_val within = tw_add(b, tw_mul_imm(b, tw_rem(b, g->warp, WARPS), 16), tw_shr(b, g->lane, 2));
    g->x.first = tw_add(b, first, within);
    g->y.first = tw_shl(b, tw_rem(b, g->lane, 4), 1);
    for (int i = 0; i < g->plan.accumulators; i++) {
        g->x.of[i] = i / wide * ROWS + i / 2 % 2 * 8;
        g->y.of[i] = i % wide / 4 * 8 + i % 2;
        g->acc[0][i] = tw_var_of(b, tw_f32(b, 0));
    }
}

/* Returns a stage to all blocks that fill it, if `again`. A cluster must not return a stage that is not filled again,
   since another block may have exited. */
static void give_back(tw_gemm_gen *g, const tw_ring *ring, tw_val empty, tw_val again) {
    const int blocks = g->c->multicast ? g->c->multicast : 1;
    tw_ring_give_back(g->b, &(tw_ring_return){.ring = ring, .empty = empty, .blocks = blocks, .lane = g->lane, .when = again});
}

/* Multiplies all stages. The previous stage is given back while the tensor cores multiply this one. */
static void sum(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c) {
    tw_builder *b = g->b;
    const bool persistent = g->c->persistent > 1;
    const tw_tile *x = &g->plan.tile_x, *y = &g->plan.tile_y;
    tw_val group = tw_shr(b, g->warp, 2), zero = tw_i32(b, 0);
    const int apart = tw_tile_offset(x, g->c->ms, 0);
    tw_val x0 = tw_tile_descriptor(b, x, tw_add(b, g->shared, tw_mul_imm(b, group, apart)));
    tw_val y0 = tw_tile_descriptor(b, y, tw_add_imm(b, g->shared, g->plan.x.bytes));
    tw_val before = tw_var_of(b, zero), last = tw_add_imm(b, g->stages, 1 - g->c->stages);
    TW_FOR (b, i, zero, g->stages, tw_i32(b, 1), false) {
        tw_val stage = tw_shr(b, c->stage, 4);
        tw_ring_wait(b, ring, tw_ring_full(b, ring, c), c);
        tw_val first = tw_eq(b, i, zero), y_at = tw_add(b, y0, stage), x_at = tw_add(b, x0, stage);
        tw_tile_multiply(b, &(tw_tile_product){.kind = g->v->type == TW_GEMM_F16 ? TW_WGMMA_f16 : TW_WGMMA_bf16,
                                               .x = x,
                                               .y = y,
                                               .rows = g->c->ms,
                                               .x_at = x_at,
                                               .y_at = y_at,
                                               .add = tw_not(b, first),
                                               .sums = g->acc[0]});
        tw_tile_wait(b, 1);
        tw_val filled = tw_lt(b, zero, i);
        give_back(g, ring, before, persistent ? filled : tw_and(b, filled, tw_lt(b, i, last)));
        tw_assign(b, before, tw_ring_empty(b, ring, c));
        tw_ring_advance(b, ring, c);
    }
    tw_tile_wait(b, 0);
    if (persistent) give_back(g, ring, before, tw_const(b, TW_T_pred, 1));
}

static void build(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const int warps = g->plan.group / 32, ranges[4] = {0, warps, warps, warps + 1};
    const int bytes = 16 * g->c->stages;
    tw_shared_add(b, "tiles", g->plan.shared_bytes - bytes, TW_TILE_ALIGN, true);
    tw_shared_add(b, "barriers", bytes, 8, true);
    g->shared = tw_shared_base(b, "tiles");
    const tw_ring ring = {.name = "tiles",
                          .data = g->shared,
                          .barriers = tw_shared_base(b, "barriers"),
                          .empty = 8 * g->c->stages,
                          .stages = g->c->stages,
                          .bytes = g->plan.stage_bytes,
                          .offsets = true};
    const tw_scope roles = tw_push_roles(b, ranges, 2);
    tw_name_roles(b, roles, "consumer producer");
    prepare(g);
    const tw_ring_cursor c = tw_ring_begin(b, &ring, 0);
    begin(g, true);
    TW_BLOCK (b, push_tiles(g)) {
        sum(g, &ring, &c);
        g->frame->finish(g);
    }
    tw_next_role(b, roles);
    copy(g, &ring);
    tw_pop(b, roles);
}

const tw_gemm_way tw_gemm_wgmma = {.tensor_copies = true, .plan = plan, .build = build};
