/* SPDX-License-Identifier: Apache-2.0 */
/* Which configurations are legal for products by wgmma, and what follows from them. */
#include "kernels/gemm/terms.h"
#include "kernels/gemm/wgmma.h"

enum { ROWS = TW_WGMMA_ROWS, WARPS = TW_GEMM_WARPS, MBARRIERS = TW_GEMM_MBARRIERS };

enum {
    QUARTER = 512,    /* Registers of a quarter of an SM for each lane. A quarter runs one warp of each warpgroup. */
    UNIT = 8,         /* Registers are given out in multiples of it. */
    BLOCK_SCALES = 8, /* Registers for scales of blocks, with operands as they are. */
    NARROW = TW_NARROW_FRAGMENTS, /* Registers that a thread needs to convert narrow elements. */
    OTHERS = 40,                  /* Registers that a thread needs beside its sums. */
    EPILOGUE = 40,    /* Registers of what prompts' products do with their sums, and of what boxes fetch ahead, without
                         which ptxas spills. */
    PRODUCT = 28,     /* Registers that ptxas needs beside the sums of one product. */
    TERMS = 32,       /* Registers of the terms of a thread's elements. */
    SPLITTING = 40,   /* Registers of a thread that splits elements. */
    FINDER = 40,      /* Registers of a producer that finds tiles of groups, or the units of a tape. */
    TAPE_FINDER = 56, /* Registers of a producer that finds both. */
    GATHERER = 72     /* Registers of a producer that gathers rows, too. */
};

tw_wgmma_kind tw_gemm_wgmma_kind(tw_gemm_type t) {
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
    p->fetchers = v->gather ? WARPS : v->tape.warps ? tw_gemm_tape_fetchers(c) : 1;
    p->threads = (groups * WARPS + p->fetchers + p->splitters) * 32;
    const bool ahead =
        c->staged == TW_GEMM_BOXED && c->persistent && (v->beta || v->epilogue.mul || v->epilogue.residual);
    const int each = QUARTER / (groups + 1) / UNIT * UNIT, wanted = needed + (v->tape.warps || ahead ? EPILOGUE : 0);
    const bool may_move = groups < 4 && c->blocks < 2;
    if (groups < 2 || (may_move ? wanted : needed) <= each) return NULL;
    REFUSE(groups > 3, "more registers than an SM has");
    p->threads = (groups + 1) * WARPS * 32;
    p->registers = each;
    p->producer_registers = v->gather                     ? GATHERER
                            : v->grouped && v->tape.warps ? TAPE_FINDER
                            : p->splitters                ? SPLITTING
                            : v->grouped || v->tape.warps ? FINDER
                            : groups == 2                 ? 24
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

static const char *check_tile(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t) {
    REFUSE(t->sm != 90, "warpgroups' products are of sm_90a alone");
    const int es = tw_type_bits(tw_gemm_types[v->type].element) / 8;
    REFUSE(tw_gemm_wgmma_kind(v->type) == TW_WGMMA_none, "warpgroups multiply f16, bf16, e4m3 and tf32x3");
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
    return NULL;
}

/* Plans the tiles of a stage, the sums, and the mbarriers of the ring and of the one that tells of tiles. */
static const char *plan_ring(const tw_gemm_variant *v, const tw_gemm_config *c, tw_gemm_plan *p) {
    const int es = tw_type_bits(tw_gemm_types[v->type].element) / 8;
    p->tile_x = tw_gemm_tile_of(v, c, true);
    p->tile_y = tw_gemm_tile_of(v, c, false);
    p->x = (tw_gemm_tile){.es = es, .vec = 16, .bytes = tw_tile_bytes(&p->tile_x)};
    p->y = (tw_gemm_tile){.es = es, .vec = 16, .bytes = tw_tile_bytes(&p->tile_y)};
    const char *why = v->narrow ? plan_narrow(v, c, p) : v->tape.warps ? tw_gemm_tape_plan(v, c) : NULL;
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
    if (v->sums) {
        p->sums = p->mbarrier_bytes;
        p->mbarrier_bytes += p->teams * tw_gemm_sums_bytes(c, p);
    }
    if (v->epilogue.squares) {
        p->squares = p->mbarrier_bytes;
        p->mbarrier_bytes += p->teams * tw_gemm_squares_bytes(c, p);
    }
    REFUSE(v->gather && c->u * es % TW_TILE_LINE, "rows are gathered in lines of 128 bytes along k");
    if (v->grouped) {
        p->told = (p->mbarrier_bytes + TW_GROUPS_BYTES - 1) / TW_GROUPS_BYTES * TW_GROUPS_BYTES;
        p->mbarrier_bytes = p->told + TW_GEMM_TOLD * (TW_GROUPS_BYTES + MBARRIERS);
    }
    return why;
}

/* Checks the cluster whose blocks fetch tiles together. */
static const char *check_cluster(const tw_gemm_config *c, const tw_gemm_plan *p) {
    const bool cluster = tw_gemm_splits_in_cluster(c);
    REFUSE(c->multicast && c->multicast != 2 && c->multicast != 4, "multicast is to 2 or 4 blocks, or to none");
    REFUSE(c->multicast && cluster, "a cluster multicasts or splits k, not both");
    REFUSE(c->multicast && c->group > 1 && c->group % c->multicast, "a group of tiles is no whole number of clusters");
    REFUSE(c->multicast && (c->group == 1 ? &p->tile_x : &p->tile_y)->lines % (8 * c->multicast),
           "a tile cannot be dealt to the blocks that fetch it together");
    return NULL;
}

static const char *check_epilogue(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_gemm_plan *p) {
    const bool cluster = tw_gemm_splits_in_cluster(c);
    const int columns = tw_gemm_stored_columns(c, v->epilogue.gated);
    REFUSE(c->staged < 0 || c->staged > TW_GEMM_BOXED,
           "the epilogue is staged (1), exchanged (2), boxed (3) or none of these (0)");
    REFUSE(c->staged == TW_GEMM_BOXED && (c->swap || columns % 16 || (v->out != TW_T_f16 && v->out != TW_T_bf16)),
           "boxes have whole sixteens of columns of a C of 16-bit elements, with operands as they are");
    REFUSE(c->staged && cluster, "a cluster's blocks share the sums out already");
    REFUSE(v->epilogue.gated && (cluster || c->staged == TW_GEMM_STAGED || (!c->swap && c->nl % 16)),
           "gates and values are in one thread, eight columns each: no split in a cluster, no staging");
    REFUSE(v->epilogue.squares && c->staged == TW_GEMM_STAGED,
           "lanes sum the squares of a row of their sums: no staging");
    REFUSE(v->epilogue.squares && cluster && (c->swap ? c->ms != ROWS : p->accumulators / 4 < c->kg),
           "each block of a cluster has squares of whole tiles' rows, or of columns of its own");
    REFUSE(v->epilogue.scaled && c->staged == TW_GEMM_STAGED, "scaled cells are not staged");
    REFUSE(c->swap && (v->centred || v->epilogue.means), "layer norms are of rows, with operands as they are");
    REFUSE(v->norm_residual && c->staged == TW_GEMM_STAGED, "a thread has the rows of a residual's norm: no staging");
    REFUSE(c->staged == TW_GEMM_EXCHANGED && (c->swap || columns % 32),
           "lanes exchange sums of 32 columns, with operands as they are");
    REFUSE(c->staged == TW_GEMM_STAGED && p->group % ((c->swap ? c->ml : c->nl) / 4),
           "lines of C cannot be dealt to the threads");
    return NULL;
}

/* Checks how tiles are dealt to blocks and teams, and when a launch begins. */
static const char *check_schedule(const tw_gemm_config *c) {
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

const char *tw_gemm_wgmma_plan(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p) {
    const char *why = check_tile(v, c, t);
    if (!why) why = plan_ring(v, c, p);
    if (!why) why = plan_registers(v, c, v->scale_blocks ? (c->swap ? c->nl / 2 : BLOCK_SCALES) : 0, p);
    if (!why) why = check_cluster(c, p);
    if (!why) why = check_epilogue(v, c, p);
    return why ? why : check_schedule(c);
}
