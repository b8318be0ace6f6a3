/* SPDX-License-Identifier: Apache-2.0 */
/* Derives what follows from a configuration, and decides whether it is legal. */
#include "base/divide.h"
#include "kernels/gemm/generate.h"

#include <limits.h>

const tw_gemm_way *tw_gemm_way_of(const tw_gemm_config *c) {
    static const tw_gemm_way *const ways[] = {&tw_gemm_simt, &tw_gemm_mma, &tw_gemm_wgmma};
    return ways[c->mma >= 0 && c->mma < 3 ? c->mma : 0]; /* A configuration that is not legal may have any number. */
}

enum { FLAG = 16 /* Bytes of shared memory by which a block tells its threads that it was the last to arrive. */ };

static bool power_of_two(int x) {
    return x > 0 && !(x & (x - 1));
}

const char *tw_gemm_plan_of(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p) {
    *p = (tw_gemm_plan){.teams = 1};
    REFUSE(c->ml < 1 || c->nl < 1 || c->u < 1 || c->ms < 1 || c->ns < 1 || c->kl < 1 || c->kg < 1 || c->ks < 1 ||
               c->ks > 2 || c->group < 1 || c->stages < 1 || c->stages > 16 || c->blocks < 0 || c->kg > 65535,
           "a parameter is out of range");
    REFUSE(c->split < 0 || c->split >= TW_JOIN_WAYS, "no such way to split");
    REFUSE(v->addends && c->split != TW_JOIN_LAST, "addends are not joined: split is 0");
    REFUSE(c->copy < 0 || c->copy > 1, "copies are asynchronous (0) or go through registers (1)");
    REFUSE(c->copy ? c->stages > 2 : c->stages < 2,
           "asynchronous copies need 2 stages at least, and those through registers have 1 or 2");
    REFUSE(!power_of_two(c->vec) || c->vec > 16, "copies move 1, 2, 4, 8 or 16 bytes");
    REFUSE(c->frag != 4 && c->frag != 8 && c->frag != 16, "fragments are 4, 8 or 16 bytes");
    REFUSE(!power_of_two(c->u) || !power_of_two(c->kl), "u and kl are powers of two");
    REFUSE(c->ml > 512 || c->nl > 512 || c->u > 256, "a block's tile is too large");
    REFUSE(c->ml % c->ms || c->nl % c->ns, "a block's tile is no whole number of smaller ones");
    REFUSE(c->u % c->kl, "a stage cannot be dealt to kl groups");
    REFUSE(c->mma < 0 || c->mma > 2, "tensor cores are used by warps (1), by warpgroups (2), or not at all (0)");
    REFUSE(v->narrow && (c->mma != 2 || !c->swap), "a narrow B is multiplied by warpgroups (mma=2, swap=1)");
    REFUSE(v->tape.warps && c->mma != 2, "tapes are multiplied by warpgroups (mma=2)");
    const tw_gemm_way *way = tw_gemm_way_of(c);
    const bool cluster = tw_gemm_splits_in_cluster(c);
    REFUSE(cluster && t->sm < 90, "the target has no clusters");
    REFUSE(cluster && c->kg > TW_JOIN_BLOCKS, "a cluster has no more than 8 blocks");
    const char *why = way->plan(v, c, t, p);
    if (why) return why;
    REFUSE(p->threads > 1024, "more than 1024 threads");
    /* The exchange of sums reuses the ring's memory, unless the ring is in use at the same time. */
    p->part_bytes = p->accumulators * p->group * tw_type_bits(tw_gemm_types[v->type].accumulator) / 8;
    int join = (c->kl > 1 ? c->kl / 2 : cluster) * p->part_bytes;
    if (c->staged == TW_GEMM_STAGED) p->team_exchange = tw_gemm_staged_bytes(c);
    if (c->staged == TW_GEMM_BOXED) p->team_exchange = tw_gemm_boxed_bytes(c, v->epilogue.gated);
    if (p->team_exchange) join = p->teams * p->team_exchange;
    const int flag = c->staged == TW_GEMM_BOXED ? join : 0; /* Boxes may be in flight when a block reads the flag. */
    if (c->stream || flag) join = flag + FLAG > join ? flag + FLAG : join;
    const int ring = p->stage_bytes * c->stages;
    /* Warps fill their boxes while others may still multiply. */
    const bool beside = c->persistent || c->staged == TW_GEMM_BOXED;
    p->shared_bytes = beside ? ring + join : join > ring ? join : ring;
    p->exchange = beside ? ring : 0;
    p->join = p->exchange + flag;
    p->shared_bytes += p->scale_bytes * c->stages + p->mbarrier_bytes;
    REFUSE(p->shared_bytes > t->shared_block, "more shared memory than a block may have");
    REFUSE(p->registers > t->thread_registers, "more registers than a thread may have");
    p->blocks = tw_target_blocks(t, p->threads, p->registers, p->shared_bytes);
    REFUSE(p->blocks < 1 || p->blocks < c->blocks, "an SM cannot hold the blocks");
    return NULL;
}

static int64_t whole_clusters(int64_t tiles, int blocks) {
    return blocks > 1 ? tw_ceil_div(tiles, blocks) * blocks : tiles;
}

tw_gemm_tiling tw_gemm_tiling_of(const tw_gemm_problem *p, const tw_gemm_config *c) {
    tw_gemm_tiling t = {
        .rows = whole_clusters(tw_ceil_div(c->swap ? p->n : p->m, c->ml), tw_gemm_fetchers(c, false)),
        .columns = whole_clusters(tw_ceil_div(c->swap ? p->m : p->n, c->nl), tw_gemm_fetchers(c, true)),
    };
    /* Each group may end in a tile of its own. */
    if (p->groups && c->swap) t.columns += p->groups;
    if (p->groups && !c->swap) t.rows += p->groups;
    t.tiles = t.rows * t.columns * p->batch;
    const int64_t most = c->persistent, rest = most ? t.tiles % most : 0;
    if (c->stream == TW_GEMM_STREAM_ALL) t.streamed = t.tiles;
    if (c->stream == TW_GEMM_STREAM_REST && rest) t.streamed = t.tiles < most ? t.tiles : rest + most;
    t.blocks = t.streamed ? t.tiles * tw_ceil_div(tw_gemm_depth(p), c->u) : t.tiles;
    if (most && t.blocks > most) t.blocks = most;
    return t;
}

/* Computes the registers, threads and shared memory that a configuration needs for a problem. Returns the reason, in
   words, if the configuration is illegal. Otherwise returns NULL. */
static const char *resources_of(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t,
                                tw_gemm_resources *r) {
    tw_gemm_plan plan;
    /* This check comes first, since the variant's derivation divides by the tile. */
    REFUSE(c->ml < 1 || c->nl < 1 || c->u < 1, "a parameter is out of range");
    const tw_gemm_variant v = tw_gemm_variant_of(p, c);
    const char *why = tw_gemm_plan_of(&v, c, t, &plan);
    if (why) return why;
    const int64_t stages = tw_ceil_div(tw_gemm_depth(p), c->u);
    REFUSE(c->kg > stages, "more splits than stages along k");
    REFUSE(p->addends && c->kg != p->addends, "each block along k has an addend: kg is their number");
    const int64_t es = tw_type_bits(tw_gemm_types[p->type].element) / 8;
    REFUSE(p->gather && p->k * es % 16, "rows that are gathered have whole 16 bytes along k");
    REFUSE(p->gather && p->lda * es > INT32_MAX, "rows that are gathered are too long");
    /* Kernels number tiles, parts and groups of tiles in 32 bits; extents are below 2^30, so no product here wraps. */
    const tw_gemm_tiling tiling = tw_gemm_tiling_of(p, c);
    const int64_t tiles = tiling.tiles, most = INT32_MAX / 16;
    REFUSE(tiling.rows * tiling.columns > most || tiles > most / c->kg, "more blocks than a grid holds");
    /* Tiles of groups are in bands of A's rows. */
    const int64_t across = p->groups && c->swap ? tiling.rows : tiling.columns;
    REFUSE(across * c->group > INT32_MAX, "a group of tiles is too large");
    REFUSE(c->stream && tiles * stages > INT32_MAX / (c->persistent + 1), "more stages than tiles can be cut into");
    /* True: blocks exchange nothing through global memory. */
    const bool alone = !c->stream && (c->kg == 1 || c->split == TW_JOIN_CLUSTER || p->addends);
    const int64_t parts = c->stream ? 2 * tiling.blocks : tiles * (c->split == TW_JOIN_LAST ? c->kg : 1);
    *r = (tw_gemm_resources){
        .threads = plan.threads,
        .registers = plan.registers,
        .shared_bytes = plan.shared_bytes,
        .tiles = tiles,
        .grid = tiling.blocks * c->kg,
        .stages_of_k = tw_ceil_div(stages, c->kg),
        .workspace_bytes = alone ? 0 : parts * plan.part_bytes,
        .counter_bytes = p->groups ? 4
                         : alone   ? 0
                                   : tiles * 4, /* Groups: tw_deal.counter. */
    };
    return NULL;
}

bool tw_gemm_legal(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t, tw_gemm_resources *r,
                   const char **why) {
    tw_gemm_resources unseen;
    const char *reason = resources_of(p, c, t, r ? r : &unseen);
    if (why) *why = reason;
    return !reason;
}
