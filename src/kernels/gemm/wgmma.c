/* SPDX-License-Identifier: Apache-2.0 */
/* Products by wgmma. A producer warp issues tensor copies of tiles into a ring of stages. Consumer warpgroups multiply
   the tiles, each 64 or 128 rows. A stage has two mbarriers: `full` counts bytes that arrive, and `empty` counts warps
   that are done with the stage. */
#include "kernels/gemm/epilogue.h"
#include "kernels/gemm/terms.h"

enum { ROWS = TW_WGMMA_ROWS, WARPS = 4 };
enum { TOLD = 4 /* Tiles that the ring holds which tells of them. A multiple of the teams. */, LAST_END = -2 };
enum { MBARRIERS = 16 /* Bytes of the mbarriers of a ring's stage. */ };

enum {
    QUARTER = 512,    /* Registers of a quarter of an SM for each lane. A quarter runs one warp of each warpgroup. */
    UNIT = 8,         /* Registers are given out in multiples of it. */
    BLOCK_SCALES = 8, /* Registers for scales of blocks, with operands as they are. */
    NARROW = TW_NARROW_FRAGMENTS, /* Registers that a thread needs to convert narrow elements. */
    OTHERS = 40,                  /* Registers that a thread needs beside its sums. */
    PRODUCT = 28,                 /* Registers that ptxas needs beside the sums of one product. */
    TERMS = 32,                   /* Registers of the terms of a thread's elements. */
    SPLITTING = 40,               /* Registers of a thread that splits elements. */
    FINDER = 40,                  /* Registers of a producer that finds tiles of groups. */
    GATHERER = 72                 /* Registers of a producer that gathers rows, too. */
};

/* Returns the products of a type, or TW_WGMMA_none. */
static tw_wgmma_kind kind_of(tw_gemm_type t) {
    return t == TW_GEMM_F16      ? TW_WGMMA_f16
           : t == TW_GEMM_BF16   ? TW_WGMMA_bf16
           : t == TW_GEMM_E4M3   ? TW_WGMMA_e4m3
           : t == TW_GEMM_TF32X3 ? TW_WGMMA_tf32
                                 : TW_WGMMA_none;
}

/* Decides whether registers are moved from the producer to the threads that need them for sums. `scales` are registers
   for scales of blocks. */
static const char *plan_registers(const tw_gemm_variant *v, const tw_gemm_config *c, int scales, tw_gemm_plan *p) {
    const int partial = p->narrow.of.on_sums ? p->accumulators : p->partial;
    const int more = p->splitters ? TERMS : p->narrow.extent ? NARROW : scales;
    const int needed = p->accumulators + partial + OTHERS + more, groups = p->group / (WARPS * 32) * p->teams;
    p->registers = needed;
    p->threads = (groups * WARPS + (v->gather ? WARPS : 1) + p->splitters) * 32;
    if (needed <= QUARTER / (groups + 1) / UNIT * UNIT || groups < 2) return NULL;
    REFUSE(groups > 3, "more registers than an SM has");
    p->threads = (groups + 1) * WARPS * 32;
    p->registers = QUARTER / (groups + 1) / UNIT * UNIT;
    p->producer_registers = v->gather      ? GATHERER
                            : p->splitters ? SPLITTING
                            : v->grouped   ? FINDER
                            : groups == 2  ? 24
                                           : 32;
    p->consumer_registers = (QUARTER - p->producer_registers) / groups / UNIT * UNIT;
    /* ptxas wants the registers of one product to fit those of the launch. */
    REFUSE(c->nl / 2 + PRODUCT > p->registers, "a product takes more registers than a thread has at launch");
    REFUSE(needed > p->consumer_registers, "more registers than a thread may have");
    REFUSE(c->blocks > 1, "registers are moved within a block that is alone on its SM");
    return NULL;
}

bool tw_gemm_cuts_rows(const tw_gemm_variant *v, const tw_gemm_config *c) {
    return v->grouped && !c->swap && v->type != TW_GEMM_TF32X3; /* Splitters take whole tiles. */
}

int tw_gemm_fetchers(const tw_gemm_config *c, bool is_x) {
    return c->multicast && (c->group == 1) == is_x ? c->multicast : 1;
}

static const char *plan_narrow(const tw_gemm_variant *v, const tw_gemm_config *c, tw_gemm_plan *p) {
    REFUSE(c->u < TW_NARROW_K, "a stage of narrow elements is 64, 128 or 256 deep");
    REFUSE(v->scales && v->scales % c->u && c->u % v->scales,
           "a stage is no whole number of scales, nor a part of one");
    REFUSE(tw_gemm_fetchers(c, true) > 1, "narrow elements are not multicast");
    p->narrow = (tw_narrow_tile){
        .of = tw_gemm_narrow_of(v->type, v->narrow, v->scales, v->scale_sums), .extent = c->ml, .depth = c->u};
    p->x.bytes = tw_narrow_tile_bytes(&p->narrow);
    p->scale_bytes = tw_narrow_tile_scale_bytes(&p->narrow);
    return NULL;
}

static const char *plan(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p) {
    REFUSE(t->sm != 90, "warpgroups' products are of sm_90a alone");
    const int es = tw_type_bits(tw_gemm_types[v->type].element) / 8;
    REFUSE(kind_of(v->type) == TW_WGMMA_none, "warpgroups multiply f16, bf16, e4m3 and tf32x3");
    REFUSE(v->pointers, "a tensor map is of one matrix, and pointers are of many");
    REFUSE(v->grouped && (!c->persistent || c->stream || c->multicast),
           "groups need a persistent grid, whose tiles are whole, without multicast");
    REFUSE(v->scatter && c->staged == TW_GEMM_BOXED,
           "boxes have rows of C that follow one another, and scattered ones do not");
    REFUSE(c->ks != 1 || c->kl != 1 || c->copy || c->ns != c->nl || c->vec != 16,
           "with warpgroups ks, kl and copy say nothing, ns is nl and vec is 16");
    REFUSE(v->vec_a < 16 || v->vec_b < 16, "the copy engine needs rows that are aligned to 16 bytes");
    REFUSE(c->ms != ROWS && c->ms != 2 * ROWS, "a warpgroup has 64 or 128 rows");
    REFUSE(c->ml > 256 || c->nl > 256 || c->nl % 8,
           "a warpgroup's tile is 256 rows and 256 columns at most, of whole eights");
    REFUSE(c->u * es < 32, "a stage is less than what the copy engine swizzles");
    REFUSE(v->promote && c->u > TW_GEMM_BLOCK, "tensor cores add up more than 128 elements of a stage");
    REFUSE(v->scale_blocks && c->u != TW_GEMM_BLOCK, "a stage is a block of scales along k, of 128");
    REFUSE(v->scale_blocks && !c->swap && c->nl % 64 && TW_GEMM_BLOCK % c->nl,
           "columns of a tile are halves of blocks of scales, or an equal part of one");
    p->tile_x = tw_tile_of(v->a_k_major, es, c->ml, c->u);
    p->tile_y = tw_tile_of(v->b_k_major, es, c->nl, c->u);
    p->x = (tw_gemm_tile){.es = es, .vec = 16, .bytes = tw_tile_bytes(&p->tile_x)};
    p->y = (tw_gemm_tile){.es = es, .vec = 16, .bytes = tw_tile_bytes(&p->tile_y)};
    const char *why = v->narrow ? plan_narrow(v, c, p) : NULL;
    if (why) return why;
    REFUSE(p->x.bytes % TW_TILE_ALIGN || p->y.bytes % TW_TILE_ALIGN, "tiles do not end where the swizzle begins anew");
    p->group = c->ml / c->ms * WARPS * 32;
    p->teams = c->pingpong ? TW_GEMM_TEAMS : 1;
    p->accumulators = c->ms / ROWS * c->nl / 2;
    p->partial = v->promote ? p->accumulators : 0;
    p->stage_bytes = p->x.bytes + p->y.bytes;
    p->fetched_bytes = p->stage_bytes + p->scale_bytes;
    p->mbarrier_bytes = MBARRIERS * c->stages;
    if (v->type == TW_GEMM_TF32X3) why = tw_gemm_terms_plan(v, c, p);
    REFUSE(v->gather && v->type == TW_GEMM_TF32X3, "tf32x3 gathers no rows");
    REFUSE(v->gather && c->u * es % TW_TILE_LINE, "rows are gathered in lines of 128 bytes along k");
    if (v->grouped) {
        p->told = (p->mbarrier_bytes + TW_GROUPS_BYTES - 1) / TW_GROUPS_BYTES * TW_GROUPS_BYTES;
        p->mbarrier_bytes = p->told + TOLD * (TW_GROUPS_BYTES + MBARRIERS);
    }
    if (!why) why = plan_registers(v, c, v->scale_blocks ? (c->swap ? c->nl / 2 : BLOCK_SCALES) : 0, p);
    if (why) return why;
    const bool cluster = tw_gemm_splits_in_cluster(c);
    REFUSE(c->multicast && c->multicast != 2 && c->multicast != 4, "multicast is to 2 or 4 blocks, or to none");
    REFUSE(c->multicast && cluster, "a cluster multicasts or splits k, not both");
    REFUSE(c->multicast && c->group > 1 && c->group % c->multicast, "a group of tiles is no whole number of clusters");
    REFUSE(c->multicast && (c->group == 1 ? &p->tile_x : &p->tile_y)->lines % (8 * c->multicast),
           "a tile cannot be dealt to the blocks that fetch it together");
    const int columns = tw_gemm_stored_columns(c, v->epilogue.gated);
    REFUSE(c->staged < 0 || c->staged > TW_GEMM_BOXED,
           "the epilogue is staged (1), exchanged (2), boxed (3) or none of these (0)");
    REFUSE(c->staged == TW_GEMM_BOXED &&
               (c->swap || columns % 16 || (v->out != TW_T_f16 && v->out != TW_T_bf16) || v->vec_c < 16),
           "boxes have whole sixteens of columns of a C of 16-bit elements, whose rows are aligned to 16 bytes, with "
           "operands as they are");
    REFUSE(c->staged && cluster, "a cluster's blocks share the sums out already");
    REFUSE(v->epilogue.gated && (cluster || c->staged == TW_GEMM_STAGED || (!c->swap && c->nl % 16)),
           "gates and values are in one thread, eight columns each: no split in a cluster, no staging");
    REFUSE(v->epilogue.squares && (c->swap || cluster || c->staged == TW_GEMM_STAGED),
           "four lanes have a row whose squares are summed: operands as they are, no split in a cluster, no staging");
    REFUSE(c->staged == TW_GEMM_EXCHANGED && (c->swap || columns % 32),
           "lanes exchange sums of 32 columns, with operands as they are");
    REFUSE(c->staged == TW_GEMM_STAGED && p->group % ((c->swap ? c->ml : c->nl) / 4),
           "lines of C cannot be dealt to the threads");
    REFUSE(c->persistent < 0 || c->persistent > 65535, "a persistent grid has 65535 blocks at most");
    REFUSE(c->persistent && c->kg > 1, "persistent blocks have all of k");
    REFUSE(c->multicast && c->persistent % c->multicast, "a persistent grid is no whole number of clusters");
    REFUSE(c->pingpong < 0 || c->pingpong > 1 || c->stream < 0 || c->stream > TW_GEMM_STREAM_REST,
           "there are one or two teams, and tiles are cut not at all (0), all (1) or the rest (2)");
    REFUSE((c->pingpong || c->stream) && !c->persistent, "teams, and tiles that are cut, are of persistent blocks");
    REFUSE(c->early < 0 || c->early > TW_GEMM_AHEAD, "a launch is late (0), early (1), or early and ahead (2)");
    REFUSE(c->stream && (c->pingpong || c->multicast), "tiles that are cut have one team and no multicast");
    return NULL;
}

static tw_groups groups_of(const tw_gemm_gen *g) {
    const bool swap = g->c->swap;
    tw_val rows = swap ? g->arg.n : g->arg.m;
    return (tw_groups){
        .ends = g->arg.ends,
        .rows = rows,
        .reserved = g->v->masked ? tw_binary(g->b, TW_OP_div_u32, rows, g->arg.groups) : TW_NONE,
        .count = g->arg.groups,
        .matrix = {.columns = swap ? g->arg.tiles_m : g->arg.tiles_n, .band = g->c->group},
        .height = swap ? g->c->nl : g->c->ml,
        .lane = g->lane,
    };
}

/* Makes variables for a tile, which a loop's predicate assigns and its body uses. */
static tw_groups_tile tile_variables(tw_builder *b) {
    tw_val zero = tw_i32(b, 0);
    return (tw_groups_tile){tw_var_of(b, zero), tw_var_of(b, zero), tw_var_of(b, zero), tw_var_of(b, zero)};
}

static void assign_tile(tw_builder *b, const tw_groups_tile *variables, tw_groups_tile t) {
    tw_assign(b, variables->group, t.group);
    tw_assign(b, variables->row, t.row);
    tw_assign(b, variables->end, t.end);
    tw_assign(b, variables->column, t.column);
}

/* Makes a group's tile the current one. A's rows are those of X, or columns of Y with swapped operands. */
static void set_tile(tw_gemm_gen *g, const tw_groups_tile *t) {
    const bool swap = g->c->swap;
    tw_gemm_operand *rows = swap ? &g->y : &g->x, *weights = swap ? &g->x : &g->y;
    g->matrix = t->group;
    rows->origin = t->row;
    rows->limit = t->end;
    weights->origin = tw_mul_imm(g->b, t->column, swap ? g->c->ml : g->c->nl);
}

/* How a producer finds tiles of groups. */
typedef struct dealer {
    tw_groups groups;
    tw_deal deal;
    tw_ring_cursor told; /* The next place in the ring that tells of tiles. */
    tw_val lowest;       /* Predicate: the thread that copies, which is lane 0 of the first warp. */
} dealer;

/* Finds the next tile and tells it to the other warps, in the end each team that there are no more. */
static tw_groups_tile find_and_tell(tw_gemm_gen *g, dealer *d) {
    tw_builder *b = g->b;
    tw_val zero = tw_i32(b, 0);
    const tw_groups_tile t = tw_groups_find(b, &d->groups, tw_deal_number(b, &d->deal));
    TW_IF (b, d->lowest) {
        tw_groups_tell(b, &g->told, &d->told, &t);
        if (g->plan.teams > 1) {
            TW_IF (b, tw_lt(b, t.group, zero))
                tw_groups_tell(b, &g->told, &d->told, &(tw_groups_tile){tw_i32(b, LAST_END), zero, zero, zero});
        }
    }
    return t;
}

/* Opens the loop of the producer over the tiles of groups. Its first warp finds them. Where there are more warps, all
   of them are told. */
static tw_scope push_groups(tw_gemm_gen *g, dealer *d, tw_val lowest, tw_val first_warp) {
    tw_builder *b = g->b;
    *d = (dealer){.groups = groups_of(g), .lowest = lowest, .told = tw_ring_begin(b, &g->told, 1)};
    tw_groups_begin(b, &d->groups);
    d->deal = tw_deal_begin(b, g->arg.counters);
    const tw_ring_cursor heard = tw_ring_begin(b, &g->told, 0);
    const tw_groups_tile t = tile_variables(b);
    const tw_scope loop = tw_push_while(b);
    if (g->v->gather) {
        TW_IF (b, first_warp) find_and_tell(g, d);
        assign_tile(b, &t, tw_groups_hear(b, &g->told, &heard));
    } else {
        assign_tile(b, &t, find_and_tell(g, d));
    }
    tw_push_while_body(b, loop, tw_le(b, tw_i32(b, 0), t.group));
    tw_deal_next(b, &d->deal, lowest);
    set_tile(g, &t);
    return loop;
}

/* Opens the loop over the tiles of groups that a team is told, or over all of them. TW_NONE: over all. */
static tw_scope push_told(tw_gemm_gen *g, tw_val team) {
    tw_builder *b = g->b;
    const tw_ring_cursor c = tw_ring_begin(b, &g->told, 0);
    if (team.id) tw_ring_skip(b, &g->told, &c, team);
    tw_val zero = tw_i32(b, 0), index = tw_var_of(b, team.id ? team : zero);
    const tw_groups_tile t = tile_variables(b);
    const tw_scope loop = tw_push_while(b);
    assign_tile(b, &t, tw_groups_hear(b, &g->told, &c));
    if (team.id) tw_ring_advance(b, &g->told, &c); /* The other team's tile. */
    tw_push_while_body(b, loop, tw_le(b, zero, t.group));
    if (team.id) g->turn = (tw_gemm_turn){tw_eq(b, index, zero), tw_const(b, TW_T_pred, 1), index, t.group};
    if (team.id) tw_add_to(b, index, tw_i32(b, g->plan.teams));
    set_tile(g, &t);
    return loop;
}

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

/* Passes the barrier that follows the initialisation of the mbarriers. The producer does not wait there (`waits`
   false). In a cluster all warps wait, since other blocks signal the mbarriers. */
static void begin(tw_gemm_gen *g, bool waits) {
    const tw_attrs at = {.count = g->plan.threads};
    if (g->c->multicast)
        tw_do(g->b, TW_OP_cluster_sync, (tw_attrs){0}, TW_NONE, TW_NONE);
    else
        tw_do(g->b, waits ? TW_OP_barrier_sync : TW_OP_barrier_arrive, at, tw_i32(g->b, TW_GEMM_BEGIN), TW_NONE);
}

/* Waits until the launch before is over, if this one is early. */
static void wait_for_launch(tw_gemm_gen *g) {
    if (g->c->early) tw_do(g->b, TW_OP_griddep_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
}

/* Computes the shared address of a stage's scales. TW_NONE: there are none. */
static tw_val scales_at(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c) {
    enum { MBARRIER = 8 /* Bytes from a stage's mbarrier to the next one's. */ };
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

/* Fills the ring for the block's first tile: at once with the operand that is ready, and with the other one when the
   launch before is over. Returns the number of stages. */
static tw_val fill_early(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c) {
    tw_builder *b = g->b;
    const bool x_first = g->v->ready_x;
    tw_val n = tw_min(b, g->stages, tw_i32(b, ring->stages)), k = tw_var_of(b, g->k_begin);
    const tw_ring_cursor again = tw_ring_begin(b, ring, 1);
    TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), false) {
        fetch(g, ring, c, x_first, k, tw_ring_fill(b, ring, c, tw_i32(b, g->plan.fetched_bytes)));
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
        TW_BLOCK (b, g->v->grouped ? push_told(g, TW_NONE) : push_tiles(g, TW_NONE)) {
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
        tw_val full = tw_ring_fill(b, ring, c, bytes);
        fetch(g, ring, c, true, k, full);
        fetch(g, ring, c, false, k, full);
        tw_add_to(b, k, tw_i32(b, g->c->u));
        tw_ring_advance(b, ring, c);
    }
}

/* Opens the block of those who fetch the stages of a tile. */
static tw_scope push_fetchers(tw_gemm_gen *g, tw_val copies) {
    return g->v->grouped ? tw_push_if(g->b, copies) : TW_NO_BLOCK;
}

static void copy(tw_gemm_gen *g, const tw_ring *ring) {
    tw_builder *b = g->b;
    const int first = g->plan.group * g->plan.teams; /* The thread that copies. */
    if (g->plan.producer_registers)
        tw_do(b, TW_OP_setmaxnreg_dec, (tw_attrs){.count = g->plan.producer_registers}, TW_NONE, TW_NONE);
    tw_val copies = tw_eq(b, g->tid, tw_i32(b, first));
    TW_IF (b, copies) {
        /* The copy engine reads a map before it can begin. */
        if (!g->v->narrow) tw_do(b, TW_OP_tensor_prefetch, (tw_attrs){0}, g->arg.map_x, TW_NONE);
        tw_do(b, TW_OP_tensor_prefetch, (tw_attrs){0}, g->arg.map_y, TW_NONE);
        const int fills = g->v->gather ? 1 + WARPS : 1;
        if (g->plan.splitters) tw_gemm_terms_init(g, ring);
        tw_ring_init(b, ring, b->kernel->target, fills, g->plan.group / 32 * (g->c->multicast ? g->c->multicast : 1));
        /* Warps that are told a tile. */
        const int told = g->plan.group / 32 + g->plan.splitters + (g->v->gather ? WARPS : 0);
        if (g->v->grouped) tw_ring_init(b, &g->told, b->kernel->target, 1, 32 * told);
    }
    /* Other warps of the producer than the one that makes the mbarriers wait for them. */
    begin(g, g->v->gather || g->plan.splitters);
    if (g->plan.splitters) split(g, ring);
    const bool grouped = g->v->grouped;
    const int warps = g->v->gather ? WARPS : 1; /* The warps that fetch. */
    tw_val fetches = tw_and(b, tw_le(b, tw_i32(b, first), g->tid), tw_lt(b, g->tid, tw_i32(b, first + 32 * warps)));
    TW_IF (b, grouped ? fetches : copies) {
        const tw_ring_cursor c = tw_ring_begin(b, ring, 1);
        const bool ready = g->v->ready_x || g->v->ready_y;
        tw_val fetched = tw_var_of(b, tw_i32(b, 0));
        if (g->c->early) tw_do(b, TW_OP_griddep_launch, (tw_attrs){0}, TW_NONE, TW_NONE);
        if (!ready) wait_for_launch(g);
        tw_gemm_gather gather = {0};
        if (g->v->gather) gather = tw_gemm_gather_begin(g, ring, &c, first);
        dealer deals = {0};
        tw_val first_warp = tw_lt(b, g->tid, tw_i32(b, first + 32));
        TW_LOOP (b, number, grouped ? push_groups(g, &deals, copies, first_warp) : push_tiles(g, TW_NONE)) {
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
    g->turn.more = tw_ne(b, g->turn.group, tw_i32(b, LAST_END));
    take_turn(g);
    pass_turn(g);
}

/* Begins the tile's sums of promoted ones. */
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
        const tw_tile_product product = {.kind = kind_of(g->v->type),
                                         .x = x,
                                         .y = y,
                                         .rows = rows,
                                         .x_at = x_at,
                                         .y_at = y_at,
                                         .add = partial ? tw_not(b, yes) : tw_not(b, first),
                                         .sums = partial ? g->acc[1] : g->acc[0]};
        if (g->plan.splitters)
            tw_gemm_terms_multiply(g, ring, c);
        else if (narrow) {
            parts = of_first;
            parts.y_at = y_at;
            parts.add = tw_not(b, first);
            move_to_stage(g, ring, c, &parts);
            tw_narrow_multiply(b, &parts, 0, 1);
        } else if (rows)
            tw_tile_multiply(b, &product);
        if (rows && !narrow) tw_tile_wait(b, partial ? 0 : 1);
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
    /* Whoever has no rows still meets the others. */
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
                        .full = mine + TOLD * TW_GROUPS_BYTES,
                        .empty = mine + TOLD * (TW_GROUPS_BYTES + MBARRIERS / 2),
                        .stages = TOLD,
                        .bytes = TW_GROUPS_BYTES,
                        .offsets = true};
    const tw_scope roles = tw_push_roles(b, ranges, 2);
    tw_name_roles(b, roles, "consumer producer");
    if (g->plan.consumer_registers)
        tw_do(b, TW_OP_setmaxnreg_inc, (tw_attrs){.count = g->plan.consumer_registers}, TW_NONE, TW_NONE);
    prepare(g);
    const tw_ring_cursor c = tw_ring_begin(b, &ring, 0);
    begin(g, true);
    wait_for_launch(g); /* Before sums are stored. */
    if (g->team.id) tw_ring_skip(b, &ring, &c, tw_mul(b, g->team, g->stages));
    TW_BLOCK (b, g->v->grouped ? push_told(g, g->team) : push_tiles(g, g->team)) {
        if (g->team.id) take_turn(g);
        compute(g, &ring, &c);
    }
    if (g->v->grouped && g->team.id) take_last_turn(g);
    end(g, true);
    tw_next_role(b, roles);
    copy(g, &ring);
    tw_pop(b, roles);
}

const tw_gemm_way tw_gemm_wgmma = {.tensor_copies = true, .plan = plan, .build = build};
