/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a kernel without and with its records, in turn. */
#include "base/diag.h"
#include "base/stats.h"
#include "kernels/kernel.h"

#include <stdlib.h>

enum { ROUNDS = 9, LAUNCHES = 20, NANOSECONDS = 1000 };

/* Captures LAUNCHES launches that follow one another. */
static tw_status capture(tw_cuda *c, tw_gpu_launch *l, tw_cuda_graph **out, tw_diag *diag) {
    tw_status st = tw_gpu_launch_run(l, NULL, diag); /* Prepares the launch, which a capture cannot. */
    if (st == TW_OK) st = tw_cuda_sync(c, diag);
    if (st == TW_OK) st = tw_cuda_capture_begin(c, diag);
    if (st != TW_OK) return st;
    for (int i = 0; i < LAUNCHES && st == TW_OK; i++) st = tw_gpu_launch_run(l, NULL, diag);
    tw_diag unused;
    const tw_status ended = tw_cuda_capture_end(c, out, st == TW_OK ? diag : &unused);
    return st == TW_OK ? ended : st;
}

static tw_status measure(tw_cuda *c, tw_cuda_graph *const graphs[2], tw_trace_times *t, tw_diag *diag) {
    double samples[2][ROUNDS];
    tw_status st = TW_OK;
    for (int i = -1; i < ROUNDS; i++) /* The first round warms up. */
        for (int j = 0; j < 2 && st == TW_OK; j++) {
            double us;
            st = tw_cuda_graph_time(c, graphs[(i + j) & 1], 1, &us, diag);
            if (i >= 0) samples[(i + j) & 1][i] = us * NANOSECONDS / LAUNCHES;
        }
    if (st != TW_OK) return st;
    t->clean = tw_stats_of(samples[0], ROUNDS).median;
    t->traced = tw_stats_of(samples[1], ROUNDS).median;
    return TW_OK;
}

tw_status tw_kernel_trace_times(tw_gpu_kernel *k, tw_gpu_launch *l, tw_trace_times *out, tw_diag *diag) {
    tw_cuda *c = k->gpu->cuda;
    struct tw_tracer *tracer = k->tracer;
    tw_cuda_graph *graphs[2] = {NULL, NULL};
    *out = (tw_trace_times){0};
    if (!c || !tracer) return TW_OK;
    k->tracer = NULL;
    tw_status st = capture(c, l, &graphs[0], diag);
    k->tracer = tracer;
    if (st == TW_OK) st = capture(c, l, &graphs[1], diag);
    if (st == TW_OK) st = measure(c, graphs, out, diag);
    /* Leaves an empty buffer: in global memory, records that code left out would be those of these launches. */
    if (st == TW_OK) st = tw_kernel_read_trace(k, diag);
    for (int i = 0; i < 2; i++) tw_cuda_graph_free(graphs[i]);
    return st;
}
