/* SPDX-License-Identifier: Apache-2.0 */
/* The fastest own kernel for a product beside a vendor's: the search's finalists and the vendor's algorithms, checked
   and timed again in turn. */
#ifndef TW_KERNELS_GEMM_BENCH_H
#define TW_KERNELS_GEMM_BENCH_H

#include "base/stats.h"
#include "kernels/gemm/search.h"
#include "kernels/vendor/cublaslt.h"

enum { TW_GEMM_BENCH_ROUNDS = 24 }; /* samples of each */

/* What became of one that took part. */
typedef struct tw_gemm_timed {
    bool correct;
    tw_stats us;
} tw_gemm_timed;

typedef struct tw_gemm_bench_result {
    tw_gemm_search_report search; /* Filled even where the bench fails. */
    tw_gemm_config config;        /* of the fastest right kernel */
    int registers, spill_bytes;
    tw_gemm_timed ours;
    bool has_vendor;
    tw_gemm_timed first, best; /* the vendor's first choice and its fastest right algorithm */
    int best_algorithm;
    double load_ms; /* From parameters to a loaded module, nothing remembered. -1: it could not be loaded again. */
    double floor_us;
    bool bytes_bound; /* The floor is the memory's, not the arithmetic's. */
} tw_gemm_bench_result;

/* Searches and compares. `vendor` NULL: there is none. Messages name the product by `name`. TW_ERR_UNSUPPORTED: no
   configuration works. TW_ERR_MISMATCH: all finalists are wrong on a second look, or a time is below the device's
   floor. */
tw_status tw_gemm_bench(tw_gemm_bench_result *out, const char *name, tw_gemm_rig *rig, tw_cuda *cuda,
                        tw_cublaslt *vendor, const tw_gemm_data *d, const tw_gemm_search_options *o, tw_diag *diag);

#endif
