/* SPDX-License-Identifier: Apache-2.0 */
/* Compares our fastest kernel for a product with a vendor's library. The finalists of a search and the vendor's
   algorithms are checked again and timed in turn. Of the wrong ones only the vendor's are timed. */
#ifndef TW_TUNE_GEMM_BENCH_H
#define TW_TUNE_GEMM_BENCH_H

#include "base/stats.h"
#include "kernels/vendor/cublaslt.h"
#include "tune/gemm_search.h"

enum { TW_GEMM_BENCH_ROUNDS = 24 }; /* Samples of each contender. */

/* The result of a contender. */
typedef struct tw_gemm_timed {
    bool correct; /* Its output is right. */
    double worst; /* Its largest error, as a multiple of what is allowed. */
    tw_stats us;  /* Its times in microseconds. */
} tw_gemm_timed;

typedef struct tw_gemm_bench_result {
    tw_gemm_search_report search; /* The report of the search, also if the bench fails. */
    tw_gemm_config config;        /* The configuration of our fastest correct kernel. */
    int registers;                /* Its registers per thread. */
    int spill_bytes;              /* Its spilled bytes per thread. */
    tw_gemm_timed ours;           /* Its result. */
    bool has_vendor;              /* The vendor computes this product. */
    tw_gemm_timed first;          /* The result of the vendor's first choice. */
    tw_gemm_timed best;           /* The result of the vendor's fastest correct algorithm. */
    int best_algorithm;           /* The number of that algorithm, from 0. */
    bool has_chosen;              /* tw_gemm_search_options.chosen was legal, and loaded. */
    tw_gemm_timed chosen;         /* The result of the chosen configuration. It has no times if it is wrong. */
    double clock_mhz;             /* The device's clock at the end of the comparison. 0: unknown. */
    double watts;                 /* The device's mean power during the comparison. 0: unknown. */
    double load_ms;               /* Time from parameters to a loaded module, without caches. -1: loading failed. */
    double floor_us;              /* The device's lower bound for the product. */
    bool bytes_bound;             /* The bound is memory bandwidth. Otherwise it is arithmetic. */
} tw_gemm_bench_result;

/* Checks a candidate and times it alone: TW_GEMM_BENCH_ROUNDS samples in microseconds, with a cold L2. TW_ERR_MISMATCH:
   its output is wrong. */
tw_status tw_gemm_time(tw_gemm_rig *rig, const tw_gemm_candidate *x, tw_stats *us, tw_diag *diag);

/* Searches and compares. `vendor` may be NULL. Messages name the product by `name`. TW_ERR_UNSUPPORTED: no
   configuration works. TW_ERR_MISMATCH: the second check finds no correct finalist, or a time is below the device's
   lower bound. */
tw_status tw_gemm_bench(tw_gemm_bench_result *out, const char *name, tw_gemm_rig *rig, tw_cuda *cuda,
                        tw_cublaslt *vendor, const tw_gemm_data *d, const tw_gemm_search_options *o, tw_diag *diag);

#endif
