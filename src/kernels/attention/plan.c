/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a configuration is legal, and derives its plan: threads, registers and the layout of shared memory. */
#include "base/divide.h"
#include "kernels/attention/generate.h"
#include "kernels/parts/fragment.h"

enum {
    QUARTER = 512, /* Registers of a quarter of an SM for each lane. A quarter runs one warp of each warpgroup. */
    UNIT = 8,      /* Registers are given out in multiples of it. */
    OTHERS = 24,   /* Registers that a thread needs beside scores, weights and sums. */
    ARRAY = 16,    /* Registers for the mask's array. */
    GATHER = 72,   /* Registers of a producer that gathers. */
    MOST_SPLITS = 256,
    PRODUCT = 28 /* Registers that ptxas needs beside the sums of one product. */,
    FRAGMENTS = 16 /* By mma.sync: registers of B's fragments. */,
    CONVERTED = 8 /* By mma.sync: registers of conversions of e4m3. */,
    ADDRESSES = 32 /* By mma.sync: registers of all else. */
};

#define REFUSE(condition, reason)                                                                                      \
    do {                                                                                                               \
        if (condition) return reason;                                                                                  \
    } while (0)

static const char *check(const tw_attention_problem *p, const tw_attention_config *c, const tw_target *t) {
    const bool groups = c->mma == TW_ATTENTION_BY_WARPGROUPS;
    REFUSE(c->mma != TW_ATTENTION_BY_WARPS && !groups, "tensor cores are used by warps (1) or by warpgroups (2)");
    REFUSE(t && groups && t->sm != 90, "warpgroups' products (mma=2) are of sm_90a alone");
    REFUSE(groups && p->kv, "keys and values of e4m3 need mma=1");
    REFUSE(groups && c->strips != 1, "strips need mma=1");
    REFUSE(groups && (c->slices < 1 || c->slices > 2), "one or two warpgroups have the same queries");
    REFUSE(groups && c->slices > 1 && (c->rows != TW_WGMMA_ROWS || c->early == TW_ATTENTION_BESIDE),
           "warpgroups that share queries have 64, and a multiprocessor");
    REFUSE(groups && c->columns % (TW_ATTENTION_STRIP * c->slices), "a warpgroup's slice has whole sixteens of keys");
    REFUSE(groups && c->rows < TW_WGMMA_ROWS, "a warpgroup has 64 queries");
    REFUSE(!groups && (c->overlap || c->pingpong || c->persistent), "overlap, pingpong and persistent need mma=2");
    REFUSE(!groups && (c->strips < 1 || c->strips > TW_ATTENTION_STRIPS), "a warp has one or two strips");
    REFUSE(!groups && c->early == TW_ATTENTION_BESIDE, "early=2 needs mma=2");
    REFUSE(t && t->sm < 90 && c->early, "launches of this target begin late");
    REFUSE(c->rows != 16 && c->rows != 32 && c->rows != 64 && c->rows != 128 && c->rows != 192,
           "a tile has 16, 32, 64, 128 or 192 queries");
    REFUSE(c->columns < 16 || c->columns > 256 || c->columns % 16, "a block has 16 to 256 keys, whole sixteens");
    REFUSE(c->stages < 1 || c->stages > 8, "there are 1 to 8 stages");
    REFUSE(c->overlap && c->stages < 2 && p->keys > c->columns, "overlap takes two stages");
    REFUSE(c->pingpong && c->rows == 64, "one warpgroup takes no turns");
    REFUSE(c->early < 0 || c->early > 2, "a launch begins late (early=0), early (1), or beside the one before (2)");
    REFUSE(c->early == TW_ATTENTION_BESIDE && (p->ragged || p->page),
           "which keys come first is not known before the launch before is over");
    REFUSE(c->early == TW_ATTENTION_BESIDE && c->rows != 64, "blocks of several warpgroups have no room beside others");
    REFUSE(c->persistent < 0 || c->persistent > 65535, "a persistent grid has 65535 blocks at most");
    REFUSE(c->band < 1, "a band has a head at least");
    REFUSE(c->splits < 1 || c->splits > MOST_SPLITS, "keys are split into 1 to 256 parts");
    const int64_t pack = c->pack ? p->heads / p->kv_heads : 1;
    REFUSE(c->rows % pack || (pack < 16 ? 16 % pack : pack % 16),
           "heads that share keys do not fill the rows of a tile and of a warp");
    return NULL;
}

static const char *plan_registers(tw_attention_plan *p, bool array, int blocks) {
    const int needed = p->scores + p->scores / 2 + p->sums + OTHERS + (array ? ARRAY : 0), all = p->groups + 1;
    p->threads = all * TW_ATTENTION_WARPS * 32;
    p->registers = QUARTER / all / blocks / UNIT * UNIT;
    if (p->registers > 255) p->registers = 255;
    if (p->groups > 1 || blocks > 1) {
        p->producer_registers = p->gathers ? GATHER : p->groups == 2 ? 40 : 32;
        p->consumer_registers = (QUARTER / blocks - p->producer_registers) / p->groups / UNIT * UNIT;
    }
    const int most = p->consumer_registers ? p->consumer_registers : p->registers;
    const int product = p->scores > p->sums ? p->scores : p->sums;
    REFUSE(product + PRODUCT > p->registers, "a product takes more registers than a thread has at launch");
    REFUSE(needed > most, "more registers than a thread may have");
    return NULL;
}

int tw_attention_slices_bytes(const tw_attention_problem *p, const tw_attention_config *c) {
    enum { LINE = 512 /* Bytes of four values of each lane. */ };
    const int sums = (int)tw_ceil_div(p->head, 16) * 16 / 2;
    return c->rows / TW_ATTENTION_STRIP * (c->slices - 1) * (sums / 4 + 1) * LINE;
}

/* A thread holds its scores, sums and queries, or loads queries for each block. */
static const char *plan_warps(tw_attention_plan *p, const tw_attention_problem *of, const tw_attention_config *c,
                              const tw_target *t) {
    enum { REGISTERS = 65536 /* Of an SM. */, MOST = 255 };
    enum { MOST_WARPS = 16 };
    REFUSE(c->slices < 1 || c->columns % (TW_FRAGMENT * c->slices), "a warp's slice has whole sixteens of keys");
    REFUSE(p->strips % c->strips, "a warp has more strips than the tile");
    p->own = c->strips;
    p->warps = p->strips / p->own * c->slices;
    p->scores = c->columns / c->slices / 2;
    REFUSE(p->warps < 2 || p->warps > MOST_WARPS, "a block has 2 to 16 warps");
    p->threads = p->warps * 32;
    p->registers = REGISTERS / p->threads / UNIT * UNIT;
    if (p->registers > MOST) p->registers = MOST;
    const int queries = p->depth / 4 * p->own;
    const int needed =
        p->own * (p->scores + p->sums) + FRAGMENTS + ADDRESSES + (of->mask ? ARRAY : 0) + (of->kv ? CONVERTED : 0);
    p->holds = needed + queries + FRAGMENTS <= p->registers;
    REFUSE(needed + p->own * 4 > p->registers, "more registers than a thread may have");
    const int stage = tw_tile_bytes(&p->k);
    p->shared_bytes = tw_tile_bytes(&p->q) + 2 * c->stages * stage + TW_ATTENTION_TILE_BYTES;
    REFUSE(tw_attention_slices_bytes(of, c) > 2 * c->stages * stage,
           "sums of slices take more room than keys and values");
    REFUSE(t && p->shared_bytes > t->shared_block, "more shared memory than a block may have");
    REFUSE(t && tw_target_blocks(t, p->threads, p->registers, p->shared_bytes) < 1, "an SM cannot hold the block");
    return NULL;
}

/* Returns the most heads of a band that divide all heads. */
static int band_of(const tw_attention_problem *p, const tw_attention_config *c) {
    const int64_t heads = p->batch * (c->pack ? p->kv_heads : p->heads);
    int64_t band = c->band < heads ? c->band : heads;
    while (heads % band) band--;
    return (int)band;
}

/* Blocks have whole sixteens of keys. A page of an odd number of eights never has whole blocks. */
bool tw_attention_gathers(const tw_attention_problem *p, int columns) {
    return p->page % TW_ATTENTION_EIGHT || (p->page % TW_ATTENTION_STRIP && columns % p->page);
}

/* Tensor copies fetch pages, or parts of them. A block of a launch that begins beside another has half an SM. */
static const char *plan_groups(tw_attention_plan *plan, const tw_attention_problem *p, const tw_attention_config *c,
                               const tw_target *t) {
    enum { MBARRIERS = 2 * TW_RING_MBARRIER };
    const int blocks = c->early == TW_ATTENTION_BESIDE ? 2 : 1;
    const char *why;
    plan->groups = c->rows / TW_WGMMA_ROWS * c->slices;
    plan->warps = plan->strips * c->slices;
    plan->scores /= c->slices;
    plan->own = 1;
    plan->gathers = tw_attention_gathers(p, c->columns);
    if (p->page && p->page < c->columns && !plan->gathers) plan->lines = (int)p->page;
    REFUSE(p->page && !plan->gathers && p->page % plan->lines, "blocks do not lie within a page");
    REFUSE(c->columns % plan->lines, "pages do not lie within a block");
    if ((why = plan_registers(plan, p->mask, blocks))) return why;
    const int stage = tw_tile_bytes(&plan->k) + tw_tile_bytes(&plan->v), q = tw_tile_bytes(&plan->q);
    REFUSE(stage % (2 * TW_TILE_ALIGN), "blocks do not end where the swizzle begins anew");
    plan->barrier_bytes = TW_ATTENTION_TOLD * (TW_ATTENTION_TILE_BYTES + MBARRIERS) + (1 + 2 * c->stages) * MBARRIERS;
    plan->exchange = q + stage * c->stages;
    const int tiles = plan->exchange + tw_attention_slices_bytes(p, c);
    plan->shared_bytes = tiles + plan->barrier_bytes;
    if (plan->shared_bytes + q <= t->shared_block / blocks) {
        plan->results = tiles;
        plan->shared_bytes += q;
    }
    REFUSE(plan->shared_bytes > t->shared_block, "more shared memory than a block may have");
    REFUSE(tw_target_blocks(t, plan->threads, plan->registers, plan->shared_bytes) < blocks,
           blocks > 1 ? "an SM cannot hold two blocks" : "an SM cannot hold the block");
    return NULL;
}

const char *tw_attention_plan_of(const tw_attention_problem *p, const tw_attention_config *c, const tw_target *t,
                                 tw_attention_plan *plan) {
    enum { ELEMENT = 2 };
    const char *why = check(p, c, t);
    if (why) return why;
    const int depth = (int)tw_ceil_div(p->head, 16) * 16, pack = c->pack ? (int)(p->heads / p->kv_heads) : 1;
    *plan = (tw_attention_plan){.strips = c->rows / TW_ATTENTION_STRIP,
                                .pack = pack,
                                .heads = (int)p->heads / pack,
                                .height = c->rows / pack,
                                .depth = depth,
                                .q = tw_tile_of(true, ELEMENT, c->rows, depth),
                                .k = tw_tile_of(true, p->kv ? 1 : ELEMENT, c->columns, depth),
                                .v = tw_tile_of(false, ELEMENT, depth, c->columns),
                                .lines = c->columns,
                                .scores = c->columns / 2,
                                .sums = depth / 2,
                                .upper = !p->ragged && p->queries * pack <= 8,
                                .band = band_of(p, c)};
    why = c->mma == TW_ATTENTION_BY_WARPS ? plan_warps(plan, p, c, t)
                                          : plan_groups(plan, p, c, t ? t : tw_target_find("sm_90a"));
    if (why) return why;
    plan->row_tiles = tw_ceil_div(p->queries, plan->height);
    /* Each ragged sequence may end in a tile of its own. */
    plan->tiles = p->ragged ? (plan->row_tiles + p->batch) * plan->heads : plan->row_tiles * p->batch * plan->heads;
    REFUSE(plan->tiles > INT32_MAX / MOST_SPLITS / 16, "more tiles than are numbered in 32 bits");
    const int64_t all = plan->tiles * c->splits, strips = plan->strips;
    plan->grid = c->persistent && c->persistent < all ? c->persistent : all;
    if (c->persistent || c->splits > 1) plan->counters = 4;
    if (c->splits == 1) return NULL;
    plan->counters += plan->tiles * strips * 4;
    plan->workspace = all * strips * (plan->sums / (plan->upper ? 2 : 1) + 4) * 32 * 4;
    return NULL;
}

bool tw_attention_legal(const tw_attention_problem *p, const tw_attention_config *c, const tw_target *t,
                        tw_attention_resources *r, const char **why) {
    tw_attention_plan plan;
    const char *reason = tw_attention_plan_of(p, c, t, &plan);
    if (why) *why = reason;
    if (!reason && r)
        *r = (tw_attention_resources){plan.threads, plan.registers, plan.shared_bytes, plan.tiles, plan.grid};
    return !reason;
}
