/* SPDX-License-Identifier: Apache-2.0 */
/* Draws configurations of products for a search, with estimates of their time. */
#ifndef TW_TUNE_GEMM_DRAW_H
#define TW_TUNE_GEMM_DRAW_H

#include "base/random.h"
#include "kernels/gemm/space.h"
#include "tune/gemm_search.h"

typedef struct tw_gemm_drawn {
    tw_gemm_config config;
    double score; /* Estimated or measured microseconds. */
} tw_gemm_drawn;

/* What is drawn for. */
typedef struct tw_gemm_drawer {
    const tw_gemm_rig *rig;
    const tw_gemm_search_options *options;
    tw_gemm_space_context space;
    int64_t keep[TW_SPACE_PARAMS]; /* Values of fixed parameters. -1: the parameter is free. */
    tw_random random;              /* Each part of the draws sets its own. */
} tw_gemm_drawer;

/* Tells whether the search's options and its rig allow a legal configuration. `c` is in canonical form
   (tw_gemm_config_plain). */
bool tw_gemm_drawer_allows(const tw_gemm_drawer *d, const tw_gemm_config *c);

/* Draws `sampled` times, on all processors, and estimates what is legal. Returns how many `out` has then. -1: there is
   not enough memory. What is drawn depends on the seed, and not on the number of processors. */
int tw_gemm_draw(const tw_gemm_drawer *d, uint64_t seed, int sampled, tw_gemm_drawn *out);

/* Moves the `wanted` that are to be measured to the front: most by their estimates, and the rest at random. */
void tw_gemm_drawn_sort(tw_gemm_drawn *e, int n, int wanted, tw_random *random);

/* For qsort: the least score first. */
int tw_gemm_drawn_by_score(const void *a, const void *b);

#endif
