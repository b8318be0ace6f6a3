/* SPDX-License-Identifier: Apache-2.0 */
/* A rig checks and times what computes a product, our kernels or a vendor's. It has the problem's matrices on a device,
   in as many copies, called sets, as it takes to find the L2 cold. */
#ifndef TW_TUNE_GEMM_RIG_H
#define TW_TUNE_GEMM_RIG_H

#include "device/cuda/time.h"
#include "kernels/gemm/reference.h"
#include "tune/gemm_pool.h"

typedef struct tw_gemm_rig tw_gemm_rig;

/* Makes a rig whose workspace for splits has `workspace` bytes, all zero. The data must outlive the rig. */
tw_status tw_gemm_rig_make(tw_gemm_rig **out, tw_cuda *c, const tw_gemm_data *d, int64_t workspace, tw_diag *diag);
/* Makes a rig of at most `most` sets. One set is enough to check. */
tw_status tw_gemm_rig_make_sets(tw_gemm_rig **out, tw_cuda *c, const tw_gemm_data *d, int64_t workspace, int most,
                                tw_diag *diag);
/* Makes a rig of a problem with matrices of a pool (tune/gemm_pool.h), whose reference the device computes. The pool
   must outlive the rig. `skew` is how much groups differ, as in tw_gemm_ends_draw. */
tw_status tw_gemm_rig_make_of(tw_gemm_rig **out, tw_cuda *c, tw_gemm_pool *pool, const tw_gemm_problem *p, double skew,
                              int64_t workspace, tw_diag *diag);
/* Makes a rig that only times, since it has no reference. Its sets share A and C, which then stay in the L2 as what one
   layer leaves for the next does. Of a tape the contents are whatever the pool has. */
tw_status tw_gemm_rig_make_timed(tw_gemm_rig **out, tw_cuda *c, tw_gemm_pool *pool, const tw_gemm_problem *p,
                                 int64_t workspace, tw_diag *diag);
void tw_gemm_rig_free(tw_gemm_rig *r);

int tw_gemm_rig_sets(const tw_gemm_rig *r);
tw_gemm_buffers tw_gemm_rig_buffers(const tw_gemm_rig *r, int set);

/* Computes the problem with the buffers of a set. `enqueue` launches it on the device's stream. */
typedef struct tw_gemm_candidate {
    tw_status (*enqueue)(void *context, const tw_gemm_buffers *buffers, tw_diag *diag);
    void *context;
    tw_gemm_squares squares; /* Sums of squares that it leaves. No vectors: it leaves none. */
    bool scaled;             /* It leaves cells times gains. */
    bool rounds_twice;       /* It rounds C before its epilogue, too. */
} tw_gemm_candidate;

/* Runs the candidate twice, each time on a poisoned C, and compares. TW_ERR_MISMATCH says how many cells are wrong. */
tw_status tw_gemm_rig_check(tw_gemm_rig *r, const tw_gemm_candidate *x, tw_diag *diag);

/* Returns the largest error that the last check found, as a multiple of what is allowed. A right result's is below 1.
   The device does not count cells that are not numbers. */
double tw_gemm_rig_worst(const tw_gemm_rig *r);

/* Returns the rounds, at most 1000, that make a sample last at least 200 microseconds if a launch takes `us`. */
int tw_gemm_rig_rounds(const tw_gemm_rig *r, double us);

/* Makes a timer of the candidate, in microseconds of a launch. A sample is a graph that uses every set `rounds` times.
   With beta, a launch adds to the C that the one before left. Samples may be taken in turn with those of other timers
   (device/cuda/time.h). */
tw_status tw_gemm_rig_timer(tw_gemm_rig *r, const tw_gemm_candidate *x, int rounds, tw_cuda_timer **out, tw_diag *diag);

/* Returns true if the rig's workspace and counters are large enough. */
bool tw_gemm_rig_fits(const tw_gemm_rig *r, const tw_gemm_resources *need);

/* One of our kernels as a candidate. */
typedef struct tw_gemm_own {
    tw_gemm_rig *rig;
    tw_gemm_config config;
    tw_gemm_resources need;
    tw_signature signature;
    tw_cuda_module *module;
    tw_gemm_squares squares; /* As tw_gemm_candidate.squares. */
} tw_gemm_own;
tw_status tw_gemm_own_load(tw_gemm_own *own, tw_gemm_rig *r, const tw_gemm_config *c, const void *cubin, size_t bytes,
                           tw_diag *diag);
void tw_gemm_own_unload(tw_gemm_own *own);
tw_gemm_candidate tw_gemm_own_candidate(tw_gemm_own *own);

#endif
