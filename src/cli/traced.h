/* SPDX-License-Identifier: Apache-2.0 */
/* A generated kernel and random data for it. The kernel runs without and with records. */
#ifndef TW_CLI_TRACED_H
#define TW_CLI_TRACED_H

#include "cli/trace.h"
#include "kernels/kernel.h"

typedef struct cli_traced_as {
    const char *device; /* "auto", "cuda:N" or "emulator:TARGET". */
    int64_t seed;       /* Seed of the random data. */
    bool memory;        /* True: the use of memory is observed. Only the emulator can. */
    tw_trace_options options;
} cli_traced_as;

/* A kernel with a launch. All of its buffers are bound. */
typedef struct cli_traced {
    const cli_traced_as *as; /* The options of the kernel. */
    const char *problem;     /* The words of the problem. */
    tw_gpu *gpu;
    tw_gpu_kernel *kernel;
    tw_gpu_launch *launch;
    uint64_t addresses[TW_PLAN_BUFFERS]; /* The buffers' addresses. */
    void *result; /* The result, C or `out`, of the run without records. NULL before cli_traced_run. */
    size_t bytes; /* Bytes of `result`. */
} cli_traced;

/* Opens the kernel of a problem's words and a configuration's words. `as` and `problem` must stay as they are until the
   kernel is closed. The caller closes it, also after a failure. */
tw_status cli_traced_open(cli_traced *x, const cli_traced_as *as, const char *problem, const char *configuration,
                          tw_diag *diag);
void cli_traced_close(cli_traced *x);

/* Runs the kernel without records, then with records, and makes a trace of the second run. The caller frees the trace.
   On a GPU both kernels are timed, and the trace has the times. `used` is NULL, unless as->memory is true. Then *used
   becomes the use of memory of the first run, and the caller frees it. The function may be called once.
   TW_ERR_MISMATCH: the two runs have different results. */
tw_status cli_traced_run(cli_traced *x, tw_trace **t, tw_prof_memory_report *used, tw_diag *diag);

#endif
