/* SPDX-License-Identifier: Apache-2.0 */
/* Products by wgmma. A producer warp issues tensor copies of tiles into a ring of stages. Consumer warpgroups multiply
   the tiles, each 64 or 128 rows. A stage has two mbarriers: `full` counts bytes that arrive, and `empty` counts warps
   that are done with the stage. */
#include "kernels/gemm/wgmma.h"
#include "kernels/gemm/epilogue.h"
#include "kernels/gemm/terms.h"

enum { ROWS = TW_WGMMA_ROWS, WARPS = TW_GEMM_WARPS, MBARRIERS = TW_GEMM_MBARRIERS };

/* Opens the loop over the tiles of a persistent block, or over those of one of its teams. TW_NONE: of all. */
static tw_scope push_tiles(tw_gemm_gen *g, tw_val team) {
    tw_builder *b = g->b;
    tw_scope tiles = TW_NO_BLOCK;
    if (!g->c->persistent) return tiles;
    if (g->c->stream) {
        g->stream = (tw_stream){.tiles = g->arg.tiles, .streamed = g->arg.streamed, .stages = g->all_stages};
        tiles = tw_stream_push(b, &g->stream);
        g->k_begin = tw_mul_imm(b, g->stream.first, g->c->u);
        g->stages = g->stream.count;
        g->frame->find_tile(g, g->stream.tile);
        return tiles;
    }
    tw_val block = tw_sreg(b, TW_SREG_ctaid_x), blocks = tw_sreg(b, TW_SREG_nctaid_x), from = block, step = blocks;
    if (team.id) {
        from = tw_fma(b, team, step, from);
        step = tw_mul_imm(b, step, g->plan.teams);
    }
    tiles = tw_push_for(b, from, g->arg.tiles, step, false);
    g->frame->find_tile(g, tiles.i);
    tw_val next = tw_add(b, tiles.i, blocks);
    if (team.id) g->turn = (tw_gemm_turn){.is_first = tw_eq(b, tiles.i, block), .more = tw_lt(b, next, g->arg.tiles)};
    return tiles;
}

/* Tells whether a tile is the block's first. `number` is the variable of push_tiles. */
static tw_val is_first(tw_gemm_gen *g, tw_val number) {
    tw_builder *b = g->b;
    if (!g->c->persistent) return tw_const(b, TW_T_pred, 1);
    if (!g->c->stream) return tw_eq(b, number, tw_sreg(b, TW_SREG_ctaid_x));
    return g->stream.is_first;
}

/* A block of a cluster may exit only when no other block still signals its mbarriers. */
static void end(tw_gemm_gen *g, bool stores) {
    if (g->c->staged == TW_GEMM_BOXED && stores) tw_gemm_boxed_end(g);
    if (g->c->persistent && g->c->multicast) tw_do(g->b, TW_OP_cluster_sync, (tw_attrs){0}, TW_NONE, TW_NONE);
}

/* -- the warp that copies */

/* Waits in a consumer until the mbarriers are initialised. In a cluster all warps wait, since other blocks signal the
   mbarriers. */
static void begin(tw_gemm_gen *g) {
    const tw_attrs at = {.count = g->plan.threads};
    if (g->c->multicast)
        tw_do(g->b, TW_OP_cluster_sync, (tw_attrs){0}, TW_NONE, TW_NONE);
    else
        tw_do(g->b, TW_OP_barrier_sync, at, tw_i32(g->b, TW_GEMM_BEGIN), TW_NONE);
}

/* Tells the consumers that the producer has initialised the mbarriers, without waiting for them. `shared`: warps of the
   producer beside the first one use the mbarriers, and wait for it. They do so at a barrier of their own, since PTX
   wants all threads that wait at a barrier to do so in one place of the code. */
static void let_begin(tw_gemm_gen *g, bool shared) {
    tw_builder *b = g->b;
    const tw_attrs all = {.count = g->plan.threads}, mine = {.count = all.count - g->plan.group * g->plan.teams};
    if (g->c->multicast) {
        begin(g);
        return;
    }
    if (shared) tw_do(b, TW_OP_barrier_sync, mine, tw_i32(b, TW_GEMM_PRODUCER), TW_NONE);
    tw_do(b, TW_OP_barrier_arrive, all, tw_i32(b, TW_GEMM_BEGIN), TW_NONE);
}

/* Waits until the launch before is over, if this one is early. */
static void wait_for_launch(tw_gemm_gen *g) {
    if (g->c->early) tw_do(g->b, TW_OP_griddep_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
}

/* Computes the shared address of a stage's scales. TW_NONE: there are none. */
static tw_val scales_at(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c) {
    enum { MBARRIER = TW_RING_MBARRIER };
    tw_builder *b = g->b;
    const int bytes = g->plan.scale_bytes, first = g->plan.shared_bytes - g->plan.mbarrier_bytes - bytes * ring->stages;
    if (!bytes) return TW_NONE;
    return tw_add(b, tw_add_imm(b, g->shared, first), tw_mul_imm(b, c->barrier, bytes / MBARRIER));
}

static void fetch(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c, bool is_x, tw_val k, tw_val full) {
    tw_val to = tw_ring_data(g->b, ring, c, TW_NONE);
    if (!is_x) to = tw_add_imm(g->b, to, g->plan.x.bytes);
    g->frame->fetch(g, is_x, to, scales_at(g, ring, c), k, full);
}

/* Readies the cursor's stage for copies of `bytes` bytes, and returns its `full`. */
static tw_val ready_stage(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c, tw_val bytes) {
    tw_builder *b = g->b;
    if (!g->v->tape.warps) return tw_ring_fill(b, ring, c, bytes);
    tw_val full = tw_ring_fill(b, ring, c, TW_NONE);
    tw_gemm_tape_expect(g, full, bytes);
    return full;
}

/* Fills the ring for the block's first tile: at once with the operand that is ready, and with the other one when the
   launch before is over. Returns the number of stages. */
static tw_val fill_early(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c) {
    tw_builder *b = g->b;
    const bool x_first = g->v->ready_x;
    tw_val n = tw_min(b, g->stages, tw_i32(b, ring->stages)), k = tw_var_of(b, g->k_begin);
    const tw_ring_cursor again = tw_ring_begin(b, ring, 1);
    TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), false) {
        fetch(g, ring, c, x_first, k, ready_stage(g, ring, c, tw_i32(b, g->plan.fetched_bytes)));
        tw_add_to(b, k, tw_i32(b, g->c->u));
        tw_ring_advance(b, ring, c);
    }
    wait_for_launch(g);
    tw_assign(b, k, g->k_begin);
    TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), false) {
        fetch(g, ring, &again, !x_first, k, tw_ring_full(b, ring, &again));
        tw_add_to(b, k, tw_i32(b, g->c->u));
        tw_ring_advance(b, ring, &again);
    }
    return n;
}

/* Splits the elements of all stages, in the warps behind the one that copies. */
static void split(tw_gemm_gen *g, const tw_ring *ring) {
    tw_builder *b = g->b;
    const int first = g->plan.group * g->plan.teams / 32 + 1;
    TW_IF (b, tw_le(b, tw_i32(b, first), tw_sreg(b, TW_SREG_warpid))) {
        const tw_ring_cursor c = tw_ring_begin(b, ring, 0);
        TW_BLOCK (b, g->v->grouped ? tw_gemm_push_told(g, TW_NONE) : push_tiles(g, TW_NONE)) {
            TW_FOR (b, i, tw_i32(b, 0), g->stages, tw_i32(b, 1), false) {
                tw_ring_wait(b, ring, tw_ring_full(b, ring, &c), &c);
                tw_gemm_terms_split(g, ring, &c);
                tw_ring_advance(b, ring, &c);
            }
        }
    }
}

/* Returns the bytes of a stage of the current tile: without rows of A in whole 64 that are behind its group's end. */
static tw_val bytes_of_stage(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const int rows = g->c->ml, part = ROWS * g->c->u * g->plan.x.es;
    if (!tw_gemm_cuts_rows(g->v, g->c)) return tw_i32(b, g->plan.fetched_bytes);
    tw_val used = tw_min(b, tw_sub(b, g->x.limit, g->x.origin), tw_i32(b, rows));
    g->x.present = tw_div(b, tw_add_imm(b, used, ROWS - 1), ROWS);
    return tw_add_imm(b, tw_mul_imm(b, g->x.present, part), g->plan.y.bytes);
}

/* Fetches a tile's stages from number `from` on. */
static void fetch_stages(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c, tw_val from) {
    tw_builder *b = g->b;
    tw_val k = tw_var_of(b, tw_add(b, g->k_begin, tw_mul_imm(b, from, g->c->u))), bytes = bytes_of_stage(g);
    TW_FOR (b, i, from, g->stages, tw_i32(b, 1), false) {
        tw_val full = ready_stage(g, ring, c, bytes);
        fetch(g, ring, c, true, k, full);
        fetch(g, ring, c, false, k, full);
        tw_add_to(b, k, tw_i32(b, g->c->u));
        tw_ring_advance(b, ring, c);
    }
}

/* Opens the block of those who fetch the stages of a tile. */
static tw_scope push_fetchers(tw_gemm_gen *g, tw_val copies) {
    return g->v->grouped && !g->v->tape.warps ? tw_push_if(g->b, copies) : TW_NO_BLOCK;
}

static void copy(tw_gemm_gen *g, const tw_ring *ring) {
    tw_builder *b = g->b;
    const int first = g->plan.group * g->plan.teams; /* The thread that copies. */
    if (g->plan.producer_registers)
        tw_do(b, TW_OP_setmaxnreg_dec, (tw_attrs){.count = g->plan.producer_registers}, TW_NONE, TW_NONE);
    tw_val copies = tw_eq(b, g->tid, tw_i32(b, first));
    TW_IF (b, copies) {
        /* The copy engine reads a map before it can begin. */
        if (g->arg.map_x.id) tw_do(b, TW_OP_tensor_prefetch, (tw_attrs){0}, g->arg.map_x, TW_NONE);
        if (g->arg.map_y.id) tw_do(b, TW_OP_tensor_prefetch, (tw_attrs){0}, g->arg.map_y, TW_NONE);
        const int fills = g->v->gather ? 1 + WARPS : g->plan.fetchers;
        if (g->plan.splitters) tw_gemm_terms_init(g, ring);
        tw_ring_init(b, ring, b->kernel->target, fills, g->plan.group / 32 * (g->c->multicast ? g->c->multicast : 1));
        /* Warps that are told a tile. */
        const int told = g->plan.group / 32 + g->plan.splitters + (g->plan.fetchers > 1 ? g->plan.fetchers : 0);
        if (g->v->grouped) tw_ring_init(b, &g->told, b->kernel->target, 1, 32 * told);
    }
    let_begin(g, g->plan.fetchers > 1 || g->plan.splitters);
    if (g->plan.splitters) split(g, ring);
    const bool grouped = g->v->grouped;
    const int behind = first + 32 * g->plan.fetchers;
    tw_val fetches = tw_and(b, tw_le(b, tw_i32(b, first), g->tid), tw_lt(b, g->tid, tw_i32(b, behind)));
    TW_IF (b, grouped || g->v->tape.warps ? fetches : copies) {
        const tw_ring_cursor c = tw_ring_begin(b, ring, 1);
        const bool ready = g->v->ready_x || g->v->ready_y;
        tw_val fetched = tw_var_of(b, tw_i32(b, 0));
        if (g->c->early) tw_do(b, TW_OP_griddep_launch, (tw_attrs){0}, TW_NONE, TW_NONE);
        if (!ready) wait_for_launch(g);
        tw_gemm_gather gather = {0};
        if (g->v->gather) gather = tw_gemm_gather_begin(g, ring, &c, first);
        tw_gemm_dealer deals = {0};
        tw_val first_warp = tw_lt(b, g->tid, tw_i32(b, first + 32));
        TW_LOOP (b, number, grouped ? tw_gemm_push_groups(g, &deals, copies, first_warp) : push_tiles(g, TW_NONE)) {
            if (g->v->tape.warps) tw_gemm_tape_find(g);
            if (ready) {
                /* The ring is empty at the block's first tile alone. */
                tw_assign(b, fetched, tw_i32(b, 0));
                TW_IF (b, is_first(g, number)) tw_assign(b, fetched, fill_early(g, ring, &c));
            }
            if (g->v->gather) {
                tw_gemm_gather_tile(g, &gather, copies);
            } else {
                TW_BLOCK (b, push_fetchers(g, copies)) fetch_stages(g, ring, &c, fetched);
            }
        }
        if (grouped) tw_deal_end(b, &deals.deal, copies, deals.groups.tiles);
        if (g->v->gather) tw_gemm_gather_end(g, &gather);
    }
    end(g, false);
}

/* -- the warpgroups that multiply */

static void prepare(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const int wide = g->c->nl / 2;
    g->columns = tw_gemm_stored_columns(g->c, g->v->epilogue.gated);
    tw_val first = tw_mul_imm(b, tw_shr(b, g->warp, 2), g->c->ms);
    tw_val within = tw_add(b, tw_mul_imm(b, tw_rem(b, g->warp, WARPS), 16), tw_shr(b, g->lane, 2));
    g->x.first = tw_add(b, first, within);
    g->y.first = tw_shl(b, tw_rem(b, g->lane, 4), 1);
    for (int i = 0; i < g->plan.accumulators; i++) {
        g->x.of[i] = i / wide * ROWS + i / 2 % 2 * 8;
        g->y.of[i] = i % wide / 4 * 8 + i % 2;
        g->acc[0][i] = tw_var_of(b, tw_f32(b, 0));
        if (g->plan.partial || g->v->scale_sums) g->acc[1][i] = tw_var_of(b, tw_f32(b, 0));
    }
    for (int i = 0; i < TW_NARROW_FRAGMENTS && g->v->narrow; i++) g->fragment[i] = tw_var_of(b, tw_i32(b, 0));
    for (int i = 0; i < 4 && g->v->scale_sums; i++) g->pending[i] = tw_var_of(b, tw_f32(b, 0));
    if (g->plan.splitters) tw_gemm_terms_declare(g);
}

/* Returns a stage to all blocks that fill it, if `again`. A cluster must not return a stage that is not filled again,
   since another block may have exited. */
static void give_back(tw_gemm_gen *g, const tw_ring *ring, tw_val empty, tw_val again) {
    const int blocks = g->c->multicast ? g->c->multicast : 1;
    /* A lane arrives for its warp, whose other lanes have loaded narrow elements of their own. */
    if (g->v->narrow) tw_do(g->b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(g->b, -1), TW_NONE);
    tw_ring_give_back(
        g->b, &(tw_ring_return){.ring = ring, .empty = empty, .blocks = blocks, .lane = g->lane, .when = again});
}

/* Waits until the other team has waited for all stages of its tile. Only a parity tells the phases of an mbarrier
   apart, so that a team must not wait two phases ahead. The block's first tile has none before it. */
static void take_turn(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const tw_attrs at = {.count = g->plan.group * g->plan.teams};
    tw_val mine = tw_add_imm(b, g->team, TW_GEMM_TURN);
    TW_IF (b, tw_not(b, g->turn.is_first)) tw_do(b, TW_OP_barrier_sync, at, mine, TW_NONE);
}

/* Lets the other team begin its tile, if the block has another. */
static void pass_turn(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const tw_attrs at = {.count = g->plan.group * g->plan.teams};
    tw_val other = tw_sub(b, tw_i32(b, TW_GEMM_TURN + 1), g->team);
    TW_IF (b, g->turn.more) tw_do(b, TW_OP_barrier_arrive, at, other, TW_NONE);
}

/* Teams that are told their tiles do not know whether another one follows. Each tile passes the turn on, so that the
   two ends take turns, too. The second end passes it to nobody. */
static void take_last_turn(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    g->turn.is_first = tw_eq(b, g->turn.index, tw_i32(b, 0));
    g->turn.more = tw_ne(b, g->turn.group, tw_i32(b, TW_GEMM_LAST_END));
    take_turn(g);
    pass_turn(g);
}

/* Clears the tile's sums, to which promoted sums are added. */
static void clear(tw_gemm_gen *g) {
    for (int i = 0; i < g->plan.partial; i++) tw_assign(g->b, g->acc[0][i], tw_f32(g->b, 0));
}

/* Adds the sums of a stage to those of the tile. */
static void promote(tw_gemm_gen *g) {
    for (int i = 0; i < g->plan.partial; i++) tw_add_to(g->b, g->acc[0][i], g->acc[1][i]);
}

/* Finds a narrow X in the ring's first stage. `y_at` is Y's descriptor there. */
static tw_narrow_product narrow_product_of(tw_gemm_gen *g, tw_val y_at) {
    tw_builder *b = g->b;
    tw_val group = tw_shr(b, g->warp, 2), thread = tw_rem(b, g->group_tid, WARPS * 32);
    tw_val at = tw_add(b, g->shared, tw_narrow_thread(b, thread));
    tw_val scales = tw_mul_imm(b, group, g->plan.scale_bytes / g->c->ml * g->c->ms);
    return (tw_narrow_product){.x = &g->plan.narrow,
                               .y = &g->plan.tile_y,
                               .rows = g->c->ms,
                               .x_at = tw_add(b, at, tw_mul_imm(b, group, g->plan.x.bytes / g->c->ml * g->c->ms)),
                               .scales_at = tw_add(b, scales, tw_narrow_thread_scales(b, thread)),
                               .y_at = y_at,
                               .sums = g->acc[0],
                               .fragment = g->fragment,
                               .partial = g->acc[1],
                               .pending = g->pending};
}

/* Moves a product from the first stage to the cursor's. */
static void move_to_stage(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c, tw_narrow_product *p) {
    tw_builder *b = g->b;
    p->x_at = tw_add(b, p->x_at, c->stage);
    if (g->plan.scale_bytes) p->scales_at = tw_add(b, p->scales_at, scales_at(g, ring, c));
}

/* Multiplies `rows` rows by all stages. The previous stage is given back while the tensor cores multiply this one, or
   the first part of it if X is narrow. If sums are promoted, each stage is given back when it has been multiplied. */
static void multiply(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c, int rows) {
    tw_builder *b = g->b;
    const bool persistent = g->c->persistent, partial = g->plan.partial, narrow = g->v->narrow;
    const bool terms = g->plan.splitters; /* Their products are waited for where they are issued. */
    const tw_tile *x = &g->plan.tile_x, *y = &g->plan.tile_y;
    tw_val group = tw_shr(b, g->warp, 2), zero = tw_i32(b, 0), yes = tw_const(b, TW_T_pred, 1);
    const int apart = tw_tile_offset(x, g->c->ms, 0);
    tw_val x0 = tw_tile_descriptor(b, x, tw_add(b, g->shared, tw_mul_imm(b, group, apart)));
    tw_val y0 = tw_tile_descriptor(b, y, tw_add_imm(b, g->shared, g->plan.x.bytes));
    tw_val before = tw_var_of(b, zero), last = tw_add_imm(b, g->stages, 1 - g->c->stages);
    tw_narrow_product of_first = {0}, parts = {0};
    if (narrow) of_first = narrow_product_of(g, y0);
    if (narrow) tw_narrow_begin(b, &of_first);
    clear(g);
    TW_FOR (b, i, zero, g->stages, tw_i32(b, 1), false) {
        tw_val stage = tw_shr(b, c->stage, 4);
        if (g->v->scale_blocks) tw_gemm_blocks_load(g, i);
        tw_ring_wait(b, ring, tw_ring_full(b, ring, c), c);
        tw_val first = tw_eq(b, i, zero), y_at = tw_add(b, y0, stage), x_at = tw_add(b, x0, stage);
        const tw_tile_product product = {.kind = tw_gemm_wgmma_kind(g->v->type),
                                         .x = x,
                                         .y = y,
                                         .rows = rows,
                                         .x_at = x_at,
                                         .y_at = y_at,
                                         .add = partial ? tw_not(b, yes) : tw_not(b, first),
                                         .sums = partial ? g->acc[1] : g->acc[0]};
        if (terms)
            tw_gemm_terms_multiply(g, ring, c);
        else if (narrow) {
            parts = of_first;
            parts.y_at = y_at;
            parts.add = tw_not(b, first);
            move_to_stage(g, ring, c, &parts);
            tw_narrow_multiply(b, &parts, 0, 1);
        } else if (rows)
            tw_tile_multiply(b, &product);
        if (rows && !narrow && !terms) tw_tile_wait(b, partial ? 0 : 1);
        if (partial) {
            tw_val again = tw_lt(b, tw_add_imm(b, i, 1), last);
            give_back(g, ring, tw_ring_empty(b, ring, c), persistent ? yes : again);
            if (rows) (g->v->scale_blocks ? tw_gemm_blocks_promote : promote)(g);
        } else {
            tw_val filled = tw_lt(b, zero, i);
            give_back(g, ring, before, persistent ? filled : tw_and(b, filled, tw_lt(b, i, last)));
            if (narrow) tw_narrow_multiply(b, &parts, 1, tw_narrow_parts(&parts));
            tw_assign(b, before, tw_ring_empty(b, ring, c));
        }
        tw_ring_advance(b, ring, c);
    }
    if (g->team.id) pass_turn(g);
    if (partial) return;
    if (rows) tw_tile_wait(b, 0);
    if (narrow) tw_narrow_finish(b, &of_first);
    if (persistent) give_back(g, ring, before, yes);
}

static void skip_other_team(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c) {
    if (g->team.id) tw_ring_skip(g->b, ring, c, g->stages);
}

static void finish(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c) {
    skip_other_team(g, ring, c);
    tw_gemm_sums_end(g);
    g->frame->finish(g);
}

/* Tells whether a row of the warpgroup is within the tile's group. */
static tw_val has_row(tw_gemm_gen *g, int row) {
    tw_builder *b = g->b;
    tw_val first = tw_add(b, g->x.origin, tw_mul_imm(b, tw_shr(b, g->warp, 2), g->c->ms));
    return tw_lt(b, tw_add_imm(b, first, row), g->x.limit);
}

/* Computes the 64 or 128 rows of the warpgroup, without those 64 that are all behind the end of the tile's group. Sums
   are stored where they were multiplied: ptxas waits after each product if sums come together from several places. */
static void compute(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c) {
    tw_builder *b = g->b;
    int rows = g->c->ms;
    tw_scope some[2], *at = some;
    for (; tw_gemm_cuts_rows(g->v, g->c) && rows; rows -= ROWS) {
        *at = tw_push_if(b, has_row(g, rows - ROWS));
        multiply(g, ring, c, rows);
        finish(g, ring, c);
        tw_push_else(b, *at++);
    }
    multiply(g, ring, c, rows);
    /* A warpgroup without rows still meets the others, which exchange sums. */
    if (rows || g->c->staged == TW_GEMM_STAGED)
        finish(g, ring, c);
    else
        skip_other_team(g, ring, c);
    while (at > some) tw_pop(b, *--at);
}

static void build(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const int warps = g->plan.group / 32 * g->plan.teams, ranges[4] = {0, warps, warps, g->plan.threads / 32};
    const int bytes = g->plan.mbarrier_bytes, mine = g->plan.told;
    tw_shared_add(b, "tiles", g->plan.shared_bytes - bytes, TW_TILE_ALIGN, true);
    tw_shared_add(b, "barriers", bytes, 16, true);
    g->shared = tw_shared_base(b, "tiles");
    const tw_ring ring = {.name = "tiles",
                          .data = g->shared,
                          .barriers = tw_shared_base(b, "barriers"),
                          .empty = MBARRIERS / 2 * g->c->stages,
                          .stages = g->c->stages,
                          .bytes = g->plan.stage_bytes,
                          .offsets = true};
    g->told = (tw_ring){.name = "told",
                        .data = ring.barriers,
                        .first = mine,
                        .barriers = ring.barriers,
                        .full = mine + TW_GEMM_TOLD * TW_GROUPS_BYTES,
                        .empty = mine + TW_GEMM_TOLD * (TW_GROUPS_BYTES + MBARRIERS / 2),
                        .stages = TW_GEMM_TOLD,
                        .bytes = TW_GROUPS_BYTES,
                        .offsets = true};
    const tw_scope roles = tw_push_roles(b, ranges, 2);
    tw_name_roles(b, roles, "consumer producer");
    if (g->plan.consumer_registers)
        tw_do(b, TW_OP_setmaxnreg_inc, (tw_attrs){.count = g->plan.consumer_registers}, TW_NONE, TW_NONE);
    prepare(g);
    const tw_ring_cursor c = tw_ring_begin(b, &ring, 0);
    tw_gemm_ahead ahead;
    begin(g);
    wait_for_launch(g); /* Before sums are stored. */
    if (g->team.id) tw_ring_skip(b, &ring, &c, tw_mul(b, g->team, g->stages));
    TW_BLOCK (b, g->v->grouped ? tw_gemm_push_told(g, g->team) : push_tiles(g, g->team)) {
        tw_gemm_sums_begin(g);
        if (g->c->staged == TW_GEMM_BOXED) tw_gemm_boxed_begin(g, &ahead);
        if (g->team.id) take_turn(g);
        compute(g, &ring, &c);
    }
    if (g->v->grouped && g->team.id) take_last_turn(g);
    end(g, true);
    tw_next_role(b, roles);
    copy(g, &ring);
    tw_pop(b, roles);
}

const tw_gemm_way tw_gemm_wgmma = {.tensor_copies = true, .plan = tw_gemm_wgmma_plan, .build = build};
