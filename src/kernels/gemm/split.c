/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up sums that were computed in parts: in a thread (ks), in groups of a block's threads (kl), in blocks (kg). */
#include "kernels/gemm/generate.h"
#include "kernels/parts/join.h"

/* All threads take part, except those of a producer warp. */
tw_meeting tw_gemm_meeting(const tw_gemm_gen *g) {
    const bool all = g->plan.threads == g->plan.group * g->c->kl;
    return all ? (tw_meeting){0} : (tw_meeting){.threads = g->plan.group, .number = TW_GEMM_SUMS};
}

static void store(void *context, int from, int below) {
    tw_gemm_gen *g = context;
    if (g->c->staged) tw_gemm_stage_sums(g);
    tw_gemm_epilogue_store(g, from, below);
}

void tw_gemm_finish(tw_gemm_gen *g) {
    static const tw_join_way ways[TW_GEMM_SPLITS] = {[TW_GEMM_SPLIT_LAST] = TW_JOIN_LAST,
                                                     [TW_GEMM_SPLIT_SERIAL] = TW_JOIN_SERIAL,
                                                     [TW_GEMM_SPLIT_ATOMIC] = TW_JOIN_ATOMIC,
                                                     [TW_GEMM_SPLIT_CLUSTER] = TW_JOIN_CLUSTER};
    const tw_join j = {.sums = g->acc[0],
                       .n = g->plan.accumulators,
                       .type = g->acc_type,
                       .meeting = tw_gemm_meeting(g),
                       .tid = g->tid,
                       .threads = g->plan.group,
                       .thread = g->group_tid,
                       .groups = g->c->kl,
                       .group = g->group,
                       .shared = g->shared,
                       .target = g->target->sm,
                       .parts = g->c->kg,
                       .way = ways[g->c->split],
                       .part = g->split,
                       .tile = g->tile,
                       .workspace = g->arg.workspace,
                       .counters = g->arg.counters};
    for (int s = 1; s < g->c->ks; s++)
        for (int i = 0; i < g->plan.accumulators; i++) tw_add_to(g->b, g->acc[0][i], g->acc[s][i]);
    tw_join_sums(g->b, &j, store, g);
}
