/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for a fast configuration of a problem on a device. Thousands of legal configurations are drawn. An estimate
   of their time picks those that are built, checked and timed. The fastest are varied for a few generations. */
#ifndef TW_TUNE_GEMM_SEARCH_H
#define TW_TUNE_GEMM_SEARCH_H

#include "base/buf.h"
#include "ptx/load.h"
#include "tune/gemm_rig.h"
#include "tune/measure.h"

/* Usual values of the options. */
enum { TW_GEMM_SCREENS = 3 /* Samples of each configuration. */ };
enum { TW_GEMM_SAMPLED = 20000, TW_GEMM_MEASURED = 256, TW_GEMM_GENERATIONS = 4, TW_GEMM_OFFSPRING = 128 };

typedef struct tw_gemm_search_options {
    int sampled;                  /* Legal configurations to draw. */
    int measured;                 /* Drawn configurations to build and time. */
    int generations;              /* Generations of variations. */
    int offspring;                /* Variations in a generation. */
    const tw_gemm_config *known;  /* Configurations to time first, if they are legal. */
    int n_known;                  /* Number of `known`. */
    const tw_gemm_config *chosen; /* tw_gemm_bench: a configuration to compare with what was found. NULL: none. */
    tw_power *power;              /* tw_gemm_bench: the device's meter. NULL: there is none. */
    uint64_t seed;                /* Decides what is drawn. */
    double give_up;               /* As tw_measure_protocol.give_up. */
    double seconds;               /* Time after which nothing more is measured. 0: no limit. */
    bool deterministic;           /* Leave out atomic splits. */
    const tw_gemm_config *keep;   /* Parameters that are not -1 are fixed. NULL: all are free. */
    tw_ptx_compiler compiler;     /* From tw_ptx_compiler_for. */
    /* Called with the result of each configuration that compiled, in microseconds. An error ends the search. May be
       NULL. */
    tw_status (*measured_one)(void *context, const tw_gemm_config *c, const tw_measured *m, tw_diag *diag);
    void *context; /* Passed to `measured_one`. */
} tw_gemm_search_options;

typedef struct tw_gemm_found {
    tw_gemm_config config;
    double us;                  /* Median of the screening samples in microseconds. */
    tw_cubin cubin;             /* The kernel. The caller frees it. */
    int registers, spill_bytes; /* Registers and spilled bytes per thread. */
} tw_gemm_found;

typedef struct tw_gemm_search_report {
    int sampled;            /* Legal configurations that were drawn. */
    int built;              /* Configurations that were tried, those that did not compile included. */
    int wrong;              /* Configurations with a wrong result. */
    int failed;             /* Configurations that did not compile or run. */
    char complaint[512];    /* The first configuration that was wrong or failed, and why. "": none. */
    double draw_seconds;    /* Time to draw and to estimate. */
    double build_seconds;   /* Time to print the kernels' PTX, of all threads together. */
    double compile_seconds; /* Time to compile it, of all threads together. */
    double wait_seconds;    /* Time in which the device waited for a kernel. */
    double load_seconds;    /* Time to load kernels. The driver compiles some of them then. */
    double check_seconds;   /* Time to compare results. */
    double time_seconds;    /* Time to take samples. */
    bool cut;               /* The limit ended it. */
} tw_gemm_search_report;

/* Finds the `top` fastest configurations, the fastest first. *n is how many there are. */
tw_status tw_gemm_search(tw_gemm_rig *r, tw_cuda *c, const tw_gemm_data *d, const tw_gemm_search_options *o, int top,
                         tw_gemm_found *found, int *n, tw_gemm_search_report *report, tw_diag *diag);

#endif
