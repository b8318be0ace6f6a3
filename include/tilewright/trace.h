/* SPDX-License-Identifier: Apache-2.0 */
/* Looking inside a kernel. A kernel of tilewright/kernel.h can be traced while it is in use: attach a tracer to it, run
   its launches as before, collect what they did, and detach. The parts that a kernel is made of mark their regions
   themselves. With no tracer attached a kernel is what it would be without them. */
#ifndef TILEWRIGHT_TRACE_H
#define TILEWRIGHT_TRACE_H

#include "tilewright/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct tw_trace_options {
    /* Names of the regions, waits and marks to record, separated by commas. NULL: all. */
    const char *only;
    /* Who records: "warpgroup" (the first warp of every four of a role; NULL means this), "warp", or "block" (the first
       warp of each role). */
    const char *granularity;
    /* What is recorded: "clock" (NULL means this), "globaltimer", or "smid", whose records have no times and become
       values: the multiprocessor's number. */
    const char *metric;
    uint64_t warps;   /* A bit for each warp of a block that may record. 0: all. */
    int first, every; /* Thread blocks first, first + every, ... are recorded. every 0: every block. */
    bool global;      /* Record in global memory at once. Costs more, and needs no shared memory. */
    bool flush;       /* Write the records out when shared memory is full. False: the latest iterations are kept. */
    int frames;       /* Iterations of a loop to keep at most. 0: 64 in shared memory, 1024 in global memory. */
    bool iterations;  /* Events of the loops' iterations as well. */
    /* The kernel's IR as text, to be traced in place of the kernel's own: what `tilewright kernel NAME WORD... --emit
       ir` prints, with records added, moved or removed by hand. Its parameters must be the kernel's. NULL: its own IR.
     */
    const char *ir;
} tw_trace_options;

/* What tracing changes of the kernel. */
typedef struct tw_trace_cost {
    int64_t shared_bytes;            /* Shared memory per block that the records take. */
    int blocks, blocks_traced;       /* Blocks that a multiprocessor holds at once, without and with the records. */
    int registers, registers_traced; /* Registers per thread. -1: unknown, as in the emulator. */
    bool global;                     /* Records go to global memory: as asked, or since shared memory is short. */
    /* Clocks that a record takes, measured on this GPU: between instructions that wait for one another, as in most
       kernels, and between nothing but records. 0: unknown, as in the emulator. */
    double record_clocks, record_clocks_alone;
} tw_trace_cost;

/* Attaches a tracer: the kernel is compiled once more, with records. Launches that run until it is detached run the
   traced kernel, also such as were opened before. The first one of each launch prepares it, and must not be captured by
   a CUDA graph. Results are the same. `o` NULL: the defaults.
   Shared memory for the records is what the kernel leaves without running fewer blocks at once.
   TW_ERR_USAGE: a tracer is attached already, or an option is unknown. TW_ERR_FORMAT: `ir` is no kernel, or one with
   other parameters. TW_ERR_UNSUPPORTED: no record of these names, or more frames than there can be. */
tw_status tw_gpu_kernel_attach(tw_gpu_kernel *k, const tw_trace_options *o, tw_diag *diag);
void tw_gpu_kernel_detach(tw_gpu_kernel *k); /* Without a tracer it does nothing. */
/* What the attached tracer costs. False: none is attached. */
bool tw_gpu_kernel_traced(const tw_gpu_kernel *k, tw_trace_cost *cost);

/* One thing that a thread block did. Texts live until the callback returns. Times are in nanoseconds (in the emulator
   in operations) from the trace's beginning, without what recording cost. */
typedef struct tw_trace_record {
    const char *name;
    const char *kind;   /* "region", "wait", "iteration", "async", "mark" or "value" */
    const char *engine; /* "none", "alu", "tensor", "copy", "memory" or "sync" */
    const char *role;   /* Of the warp. */
    int sm, block, warp;
    int iteration; /* Of the loop around it. -1: none. */
    double begin, end;
    double least, most; /* Bounds of end - begin. They differ where the records leave it open. */
    long long value;    /* Of a value. */
} tw_trace_record;
/* Returns false to stop. */
typedef bool tw_trace_fn(void *user, const tw_trace_record *record);

/* Waits for the GPU, and calls back for each record of the latest launch, by block and warp in the order of time.
   Blocks until the launches on the stream NULL are over; launches on other streams must be. */
tw_status tw_gpu_kernel_collect(tw_gpu_kernel *k, tw_trace_fn *callback, void *user, tw_diag *diag);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
