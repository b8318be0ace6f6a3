/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a fast configuration for one problem on one device: thousands of legal ones are drawn, a rough estimate of
   their time picks those that are built, checked and timed, and the best are varied for a few generations. */
#ifndef TW_TUNE_GEMM_SEARCH_H
#define TW_TUNE_GEMM_SEARCH_H

#include "base/buf.h"
#include "ptx/load.h"
#include "tune/gemm_rig.h"

enum { TW_GEMM_SAMPLED = 20000, TW_GEMM_MEASURED = 256, TW_GEMM_GENERATIONS = 4, TW_GEMM_OFFSPRING = 128 }; /* usual */

typedef struct tw_gemm_search_options {
    int sampled;                 /* legal configurations drawn */
    int measured;                /* of them built and timed */
    int generations;             /* of variations */
    int offspring;               /* in each */
    const tw_gemm_config *known; /* tried first, where legal: from earlier searches or by hand */
    int n_known;
    uint64_t seed;
    bool deterministic;         /* no atomic splits */
    const tw_gemm_config *keep; /* parameters that are not -1 stay as they are; NULL: all are free */
    tw_ptx_compiler compiler;   /* as tw_ptx_compiler_for fills it */
    /* Told of everything that was timed, in microseconds; -1: it was wrong or did not run. NULL: nobody listens. */
    void (*measured_one)(void *context, const tw_gemm_config *c, double us);
    void *context;
} tw_gemm_search_options;

typedef struct tw_gemm_found {
    tw_gemm_config config;
    double us; /* median of the screening samples */
    tw_cubin cubin;
    int registers, spill_bytes;
} tw_gemm_found;

typedef struct tw_gemm_search_report {
    int sampled, built, wrong, failed; /* wrong: results; failed: did not compile or run */
    char complaint[512];               /* the first of those, with its configuration */
    double build_seconds, compile_seconds;
} tw_gemm_search_report;

/* The `top` fastest, best first; returns how many in *n. Free each cubin. */
tw_status tw_gemm_search(tw_gemm_rig *r, tw_cuda *c, const tw_gemm_data *d, const tw_gemm_search_options *o, int top,
                         tw_gemm_found *found, int *n, tw_gemm_search_report *report, tw_diag *diag);

#endif
