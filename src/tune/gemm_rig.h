/* SPDX-License-Identifier: Apache-2.0 */
/* A problem's matrices on a device, in as many copies as it takes to find the L2 cold, ready to check and to time
   whatever computes the product: own kernels and a vendor's alike. */
#ifndef TW_TUNE_GEMM_RIG_H
#define TW_TUNE_GEMM_RIG_H

#include "device/cuda/time.h"
#include "kernels/gemm/reference.h"

typedef struct tw_gemm_rig tw_gemm_rig;

/* `workspace` is the most that a split product may use; it is zero to begin with. The data must outlive the rig. */
tw_status tw_gemm_rig_make(tw_gemm_rig **out, tw_cuda *c, const tw_gemm_data *d, int64_t workspace, tw_diag *diag);
/* The same with at most so many copies: one is enough to check. */
tw_status tw_gemm_rig_make_sets(tw_gemm_rig **out, tw_cuda *c, const tw_gemm_data *d, int64_t workspace, int most,
                                tw_diag *diag);
void tw_gemm_rig_free(tw_gemm_rig *r);

int tw_gemm_rig_sets(const tw_gemm_rig *r);
tw_gemm_buffers tw_gemm_rig_buffers(const tw_gemm_rig *r, int set);

/* Something that computes the problem with the buffers of a set, on the device's stream. */
typedef struct tw_gemm_candidate {
    tw_status (*enqueue)(void *context, const tw_gemm_buffers *buffers, tw_diag *diag);
    void *context;
} tw_gemm_candidate;

/* Poisons C, runs twice, compares both times. TW_ERR_MISMATCH says how many cells are wrong. */
tw_status tw_gemm_rig_check(tw_gemm_rig *r, const tw_gemm_candidate *x, tw_diag *diag);

/* Microseconds a launch, `samples` of them, each over a graph in which every set is used `rounds` times. With beta, C
   goes on from launch to launch. */
tw_status tw_gemm_rig_time(tw_gemm_rig *r, const tw_gemm_candidate *x, int rounds, int samples, double *us,
                           tw_diag *diag);

/* Rounds that make a sample last 200 microseconds at least, by a first guess of a launch's time; 1000 at most. */
int tw_gemm_rig_rounds(const tw_gemm_rig *r, double us);

/* The same as a timer, whose samples may be taken in turn with those of others (device/cuda/time.h). */
tw_status tw_gemm_rig_timer(tw_gemm_rig *r, const tw_gemm_candidate *x, int rounds, tw_cuda_timer **out, tw_diag *diag);

/* Whether the rig has the workspace and the counters. */
bool tw_gemm_rig_fits(const tw_gemm_rig *r, const tw_gemm_resources *need);

/* An own kernel as a candidate. */
typedef struct tw_gemm_own {
    tw_gemm_rig *rig;
    tw_gemm_config config;
    tw_gemm_resources need;
    tw_signature signature;
    tw_cuda_module *module;
} tw_gemm_own;
tw_status tw_gemm_own_load(tw_gemm_own *own, tw_gemm_rig *r, const tw_gemm_config *c, const void *cubin, size_t bytes,
                           tw_diag *diag);
void tw_gemm_own_unload(tw_gemm_own *own);
tw_gemm_candidate tw_gemm_own_candidate(tw_gemm_own *own);

#endif
