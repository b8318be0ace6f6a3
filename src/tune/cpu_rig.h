/* SPDX-License-Identifier: Apache-2.0 */
/* A rig checks and times products y = x W^T on this processor, on all of its cores. Cores take tiles one after the
   other (kernels/cpu/tiled.h). W comes from memory: the rig has so many copies that the caches have forgotten one when
   its turn comes again. x stays in a cache where it fits. */
#ifndef TW_TUNE_CPU_RIG_H
#define TW_TUNE_CPU_RIG_H

#include "kernels/cpu/tiled.h"

typedef struct tw_cpu_rig tw_cpu_rig;

/* Makes a rig for weights of a format. `threads` 0: all cores. The caller frees it. */
tw_status tw_cpu_rig_make(tw_cpu_rig **out, tw_panel_format weights, int threads, tw_diag *diag);
void tw_cpu_rig_free(tw_cpu_rig *r); /* NULL is fine. */

/* What the rig runs on. */
typedef struct tw_cpu_rig_info {
    tw_cpu cpu;
    int threads;
    tw_tiled_context any; /* What the space of tiles checks configurations against, for any problem. */
    const char *openblas; /* Version of OpenBLAS. */
    const char *onednn;   /* Version of oneDNN. "": it is not installed. */
} tw_cpu_rig_info;
const tw_cpu_rig_info *tw_cpu_rig_describe(const tw_cpu_rig *r);

/* Opens a problem: makes its matrices, and its product in double precision. The weights are the rig's. */
tw_status tw_cpu_rig_open(tw_cpu_rig *r, int64_t m, int64_t n, int64_t k, tw_diag *diag);

/* Sets the configuration of the next check or sample. TW_ERR_UNSUPPORTED: it is not possible here. */
tw_status tw_cpu_rig_set(tw_cpu_rig *r, const tw_tiled_config *c, tw_diag *diag);
/* Runs the open problem once on a poisoned y, and compares. TW_ERR_MISMATCH says how many cells are wrong. */
tw_status tw_cpu_rig_check(tw_cpu_rig *r, tw_diag *diag);
/* Runs it for half a millisecond, or once. *us is the mean time of a run in microseconds. */
tw_status tw_cpu_rig_sample(tw_cpu_rig *r, double *us, tw_diag *diag);

#endif
