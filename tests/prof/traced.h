/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels made by hand whose records are lowered, run in the emulator and decoded. */
#ifndef TW_TEST_TRACED_H
#define TW_TEST_TRACED_H

#include "ir/builder.h"
#include "prof/lower.h"
#include "prof/trace.h"

enum { TRACED_THREADS = 96, TRACED_WARPS = 3 };

/* Builds the body of a kernel with the parameters out (an i32 for each thread of the grid) and n. */
typedef void traced_build(tw_builder *b, tw_val out, tw_val n);
tw_kernel *traced_kernel(traced_build *build);

/* The kernel of a kernel's text with all records removed: what it would be had nobody placed any. */
tw_kernel *traced_without_records(const tw_kernel *k);
/* A kernel's PTX for a target, which the caller frees. */
char *traced_ptx(const tw_kernel *k, const char *target);
/* Fails unless the passes make the same PTX, byte for byte, of a kernel whose records nobody lowers as of that kernel
   without them. `k` goes through the passes. Returns whether it had records. */
bool traced_check_off(tw_kernel *k, const char *target);

/* A sum that takes so many operations. */
tw_val traced_work(tw_builder *b, int operations);
/* Stores the thread's result. */
void traced_store(tw_builder *b, tw_val out, tw_val x);

typedef struct traced {
    tw_trace *t;
    tw_prof_layout layout;
    unsigned char *buffer;
    size_t bytes;
} traced;

/* Lowers, runs a grid of `blocks` blocks with every checker on, and decodes. 0 bytes of shared memory stand for 16384.
 */
traced traced_run(traced_build *build, int n, int blocks, tw_prof_options o);
traced traced_run_grid(traced_build *build, int n, const int grid[3], tw_prof_options o);
void traced_end(traced *x);

int traced_count(const tw_trace *t, tw_event_kind kind, const char *name);
/* The n-th event of a kind and name in a track. */
const tw_trace_event *traced_nth(const tw_trace *t, int track, tw_event_kind kind, const char *name, int n);

#endif
