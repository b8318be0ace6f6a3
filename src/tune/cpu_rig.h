/* SPDX-License-Identifier: Apache-2.0 */
/* A rig checks and times products y = x W^T on all cores of this processor. Each core takes the next tile when it is
   free (kernels/cpu/tiled.h). W comes from memory: the rig rotates over enough copies for the caches to have evicted
   one before it is used again. x stays in the caches where it fits. */
#ifndef TW_TUNE_CPU_RIG_H
#define TW_TUNE_CPU_RIG_H

#include "kernels/cpu/tiled.h"

typedef struct tw_cpu_rig tw_cpu_rig;

enum { TW_CPU_RIG_TRIES = 4 /* The most times that a sample is taken until it is undisturbed. */ };

/* Makes a rig for weights of a format. `threads` 0: all cores. The caller frees *out. */
tw_status tw_cpu_rig_make(tw_cpu_rig **out, tw_panel_format weights, int threads, tw_diag *diag);
void tw_cpu_rig_free(tw_cpu_rig *r); /* NULL is fine. */

/* The machine and libraries of a rig. */
typedef struct tw_cpu_rig_info {
    tw_cpu cpu;
    int threads;
    tw_tiled_context any; /* Context of tw_tiled_space for any problem. */
    const char *openblas; /* Version of OpenBLAS. */
    const char *onednn;   /* Version of oneDNN. "": it is not installed. */
} tw_cpu_rig_info;
const tw_cpu_rig_info *tw_cpu_rig_describe(const tw_cpu_rig *r);

/* Opens a problem: draws x and W, and computes the product in double precision. Replaces the problem before. */
tw_status tw_cpu_rig_open(tw_cpu_rig *r, int64_t m, int64_t n, int64_t k, tw_diag *diag);

/* Sets the configuration of the next check or sample. TW_ERR_UNSUPPORTED: this machine cannot run it. */
tw_status tw_cpu_rig_set(tw_cpu_rig *r, const tw_tiled_config *c, tw_diag *diag);
/* Runs the open problem once on a poisoned y, and compares. TW_ERR_MISMATCH: y is wrong; the message has the number of
   wrong cells. */
tw_status tw_cpu_rig_check(tw_cpu_rig *r, tw_diag *diag);
/* Runs the open problem for half a millisecond, at least once. *us is the mean time of a run in microseconds. Each
   thread stays on a processor of its own meanwhile, if there are enough. A sample during which a thread waited for its
   processor, because another process had it, is disturbed. It is taken again, up to TW_CPU_RIG_TRIES times. If all
   were disturbed, the least counts. While hardly any try is undisturbed, samples are taken once. */
tw_status tw_cpu_rig_sample(tw_cpu_rig *r, double *us, tw_diag *diag);

#endif
