/* SPDX-License-Identifier: Apache-2.0 */
/* A generated kernel that `trace kernel` runs on data of its own, without and with records. */
#ifndef TW_CLI_TRACED_H
#define TW_CLI_TRACED_H

#include "cli/trace.h"
#include "kernels/kernel.h"

typedef struct cli_traced_as {
    const char *device; /* "auto", "cuda:N" or "emulator:TARGET". */
    int64_t seed;       /* Decides the data. */
    bool memory;        /* True: memory use will be asked for. Only in the emulator. */
    tw_trace_options options;
} cli_traced_as;

/* A kernel with a launch. All of its buffers are bound. */
typedef struct cli_traced {
    const cli_traced_as *as; /* How it was opened. */
    const char *problem;     /* The words of the problem that it was opened with. */
    tw_gpu *gpu;
    tw_gpu_kernel *kernel;
    tw_gpu_launch *launch;
    uint64_t addresses[TW_PLAN_BUFFERS]; /* Addresses of the buffers. */
    void *result;                        /* C after the run without records. NULL before cli_traced_run. */
    size_t bytes;                        /* Bytes of `result`. */
} cli_traced;

/* Opens the kernel of a problem's words and a configuration's words. `as` and `problem` must stay as they are until the
   kernel is closed. The caller closes it, also after a failure. */
tw_status cli_traced_open(cli_traced *x, const cli_traced_as *as, const char *problem, const char *configuration,
                          tw_diag *diag);
void cli_traced_close(cli_traced *x);

/* Runs the kernel without records, then with them, and makes the trace. On a GPU the trace has the times of both
   (`clean` and `traced`). With as->memory the run without records fills *used; otherwise `used` is NULL. It may be
   called once. The caller frees the trace and *used. TW_ERR_MISMATCH: the results of the two runs differ. */
tw_status cli_traced_run(cli_traced *x, tw_trace **t, tw_prof_memory_report *used, tw_diag *diag);

#endif
