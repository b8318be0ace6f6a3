/* SPDX-License-Identifier: Apache-2.0 */
/* Derives what follows from a configuration, and decides whether it is legal. */
#include "kernels/gemm/generate.h"

#include <limits.h>

const tw_gemm_way *tw_gemm_way_of(const tw_gemm_config *c) {
    static const tw_gemm_way *const ways[] = {&tw_gemm_simt, &tw_gemm_mma, &tw_gemm_wgmma};
    return ways[c->mma >= 0 && c->mma < 3 ? c->mma : 0]; /* A configuration that is not legal may have any number. */
}

static bool power_of_two(int x) {
    return x > 0 && !(x & (x - 1));
}

const char *tw_gemm_plan_of(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p) {
    *p = (tw_gemm_plan){0};
    REFUSE(c->ml < 1 || c->nl < 1 || c->u < 1 || c->ms < 1 || c->ns < 1 || c->kl < 1 || c->kg < 1 || c->ks < 1 ||
               c->ks > 2 || c->group < 1 || c->stages < 1 || c->stages > 16 || c->blocks < 0 || c->kg > 65535,
           "a parameter is out of range");
    REFUSE(c->split < 0 || c->split >= TW_GEMM_SPLITS, "no such way to split");
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
    return tw_gemm_way_of(c)->plan(v, c, t, p);
}

bool tw_gemm_legal(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t, tw_gemm_resources *r,
                   const char **why) {
    tw_gemm_plan plan;
    const char *reason = NULL;
    /* This check comes first, since the variant's derivation divides by the tile. */
    if (c->ml < 1 || c->nl < 1 || c->u < 1) reason = "a parameter is out of range";
    tw_gemm_variant v = {0};
    if (!reason) {
        v = tw_gemm_variant_of(p, c);
        reason = tw_gemm_plan_of(&v, c, t, &plan);
    }
    const int64_t stages = reason ? 1 : (p->k + c->u - 1) / c->u;
    if (!reason && c->kg > stages) reason = "more splits than stages along k";
    const int64_t m = c->swap ? p->n : p->m, n = c->swap ? p->m : p->n;
    /* Kernels number tiles, parts and groups of tiles in 32 bits; extents are below 2^30, so no product here wraps. */
    const int64_t rows = reason ? 0 : (m + c->ml - 1) / c->ml, columns = reason ? 0 : (n + c->nl - 1) / c->nl;
    const int64_t most = INT32_MAX / 16;
    if (!reason && (rows * columns > most || rows * columns * p->batch > most / c->kg))
        reason = "more blocks than a grid holds";
    if (!reason && c->multicast && (c->group == 1 ? columns : rows) % c->multicast)
        reason = "tiles that fetch together are no whole number of clusters";
    if (!reason && columns * c->group > INT32_MAX) reason = "a group of tiles is too large";
    const int64_t tiles = reason ? 0 : rows * columns * p->batch;
    if (why) *why = reason;
    if (reason) return false;
    if (!r) return true;
    const int64_t part = (int64_t)plan.accumulators * plan.group * tw_type_bits(tw_gemm_accumulator(v.type)) / 8;
    const bool alone = c->kg == 1 || c->split == TW_GEMM_SPLIT_CLUSTER; /* Blocks exchange nothing through memory. */
    *r = (tw_gemm_resources){
        .threads = plan.threads,
        .registers = tw_gemm_way_of(c)->registers(&v, c, &plan),
        .shared_bytes = plan.shared_bytes,
        .tiles = tiles,
        .grid = (c->persistent > 1 ? (tiles + c->persistent - 1) / c->persistent : tiles) * c->kg,
        .stages_of_k = (stages + c->kg - 1) / c->kg,
        .workspace_bytes = alone ? 0 : tiles * part * (c->split == TW_GEMM_SPLIT_LAST ? c->kg : 1),
        .counter_bytes = alone ? 0 : tiles * 4,
    };
    return true;
}
