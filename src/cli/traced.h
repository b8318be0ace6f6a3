/* SPDX-License-Identifier: Apache-2.0 */
/* A generated kernel that `trace kernel` runs on data of its own, without and with records. */
#ifndef TW_CLI_TRACED_H
#define TW_CLI_TRACED_H

#include "cli/trace.h"
#include "kernels/kernel.h"

typedef struct cli_traced_as {
    const char *device; /* "auto", "cuda:N" or "emulator:TARGET". */
    int64_t seed;       /* Decides the data. */
    bool memory;        /* Report how the kernel uses memory. Needs the emulator. */
    tw_trace_options options;
} cli_traced_as;

/* A kernel with a launch, all of its buffers bound. */
typedef struct cli_traced {
    const cli_traced_as *as;
    const char *problem; /* The words that it was opened by. */
    tw_gpu *gpu;
    tw_gpu_kernel *kernel;
    tw_gpu_launch *launch;
    uint64_t addresses[TW_PLAN_BUFFERS];
    void *result; /* C, after it was traced. */
    size_t bytes;
} cli_traced;

/* Opens the kernel of a problem's words and a configuration's. `as` and `problem` must outlive it. The caller closes
   it, also after a failure. */
tw_status cli_traced_open(cli_traced *x, const cli_traced_as *as, const char *problem, const char *configuration,
                          tw_diag *diag);
void cli_traced_close(cli_traced *x);

/* Runs the kernel without and with records, and times both where there is a GPU. TW_ERR_MISMATCH: their results differ.
   `used` tells how the kernel uses memory, and the caller frees it; NULL: nobody asks, and with as->memory false it
   must be NULL. The caller frees the trace. */
tw_status cli_traced_run(cli_traced *x, tw_trace **t, tw_prof_memory_report *used, tw_diag *diag);

/* trace_improve.c: edits of the configuration that the traces predict to be worth it, in the order in which they were
   made and measured. */
enum { CLI_IMPROVEMENTS = 8, CLI_IMPROVEMENT_TEXT = 160 };
typedef struct cli_improvement {
    const char *word;               /* The parameter that is changed. */
    int from, to;                   /* Its values. */
    const char *edit;               /* What the trace was asked, as --what-if has it. */
    double predicted;               /* The time that the trace predicts, of that before. */
    double measured;                /* The time that was measured, of that before. 0: it could not be built. */
    bool kept;                      /* It was faster. */
    char why[CLI_IMPROVEMENT_TEXT]; /* Why it could not be built. */
} cli_improvement;
typedef struct cli_improvements {
    cli_improvement list[CLI_IMPROVEMENTS];
    int n;
} cli_improvements;
/* Edits the kernel as long as its trace predicts that it becomes faster and it does. `x` and `*t` become the fastest
   kernel's. TW_ERR_MISMATCH: an edit changed the results. */
tw_status cli_trace_improve(cli_traced *x, tw_trace **t, cli_improvements *out, tw_diag *diag);

#endif
