/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of products by wgmma share. */
#ifndef TW_KERNELS_GEMM_WGMMA_H
#define TW_KERNELS_GEMM_WGMMA_H

#include "kernels/gemm/generate.h"

enum {
    TW_GEMM_WARPS = 4,      /* Warps of a warpgroup. */
    TW_GEMM_MBARRIERS = 16, /* Bytes of the mbarriers of a ring's stage. */
    TW_GEMM_LAST_END = -2   /* The group that the second team is told behind the last tile. */
};

/* wgmma_plan.c: returns the products of a type. TW_WGMMA_none: there are none. */
tw_wgmma_kind tw_gemm_wgmma_kind(tw_gemm_type t);
/* Is tw_gemm_way.plan. */
const char *tw_gemm_wgmma_plan(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p);

/* How a producer finds tiles of groups. */
typedef struct tw_gemm_dealer {
    tw_groups groups;
    tw_deal deal;
    tw_ring_cursor told; /* The next place in the ring that tells of tiles. */
    tw_val lowest;       /* Predicate: the thread that copies, which is lane 0 of the first warp. */
} tw_gemm_dealer;

/* deal.c: opens the loop of the producer over the tiles of groups. Its first warp finds them (`first_warp`). If more of
   its warps fetch, all are told. `lowest` is as in tw_gemm_dealer. */
tw_scope tw_gemm_push_groups(tw_gemm_gen *g, tw_gemm_dealer *d, tw_val lowest, tw_val first_warp);
/* Opens the loop over the tiles of groups that a team is told. TW_NONE: over all tiles. */
tw_scope tw_gemm_push_told(tw_gemm_gen *g, tw_val team);

#endif
