/* SPDX-License-Identifier: Apache-2.0 */
/* Stages of tf32x3 on warpgroups. The ring's mbarriers are followed by one more for each stage, which completes when
   Y's terms are there. */
#ifndef TW_KERNELS_GEMM_TERMS_H
#define TW_KERNELS_GEMM_TERMS_H

#include "kernels/gemm/generate.h"
#include "kernels/parts/ring.h"

enum {
    TW_GEMM_TERMS_U = 32,   /* Elements of a stage along k, and of a line of a tile. */
    TW_GEMM_TERMS_WARPS = 3 /* Warps that split, the last ones of the block. */
};

/* Plans the stages, after their tiles and mbarriers were planned. Returns NULL, or why the configuration is illegal. */
const char *tw_gemm_terms_plan(const tw_gemm_variant *v, const tw_gemm_config *c, tw_gemm_plan *p);
/* Initialises the further mbarriers. The thread that calls it initialises the ring afterwards. */
void tw_gemm_terms_init(tw_gemm_gen *g, const tw_ring *ring);
/* Writes the terms of Y's tile in the cursor's stage, which is full. The warps that split call it. */
void tw_gemm_terms_split(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c);

void tw_gemm_terms_declare(tw_gemm_gen *g); /* Declares the variables of a thread that multiplies. */
/* Multiplies the tiles of the cursor's stage, which is full, into acc[1]. The products are over when it returns,
   and the stage may be returned. */
void tw_gemm_terms_multiply(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c);

#endif
