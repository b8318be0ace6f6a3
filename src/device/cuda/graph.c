/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/driver.h"

#include "base/diag.h"

#include <stdlib.h>

tw_status tw_cuda_capture_begin(tw_cuda *c, tw_diag *diag) {
    if (c->capturing) return tw_fail(diag, TW_ERR_USAGE, "launches are captured already");
    tw_status st = tw_cuda_enter(c, diag);
    if (st != TW_OK) return st;
    st = tw_cuda_result(c, c->driver.cuStreamBeginCapture(c->stream, TW_DRV_CAPTURE_RELAXED), "begin a graph", diag);
    c->capturing = st == TW_OK;
    return st;
}

static tw_status instantiate(tw_cuda_graph *g, tw_diag *diag) {
    tw_cuda *c = g->cuda;
    tw_status st = tw_cuda_result(c, c->driver.cuGraphInstantiate(&g->exec, g->graph, 0), "prepare a graph", diag);
    if (st != TW_OK) {
        g->exec = NULL;
        return st;
    }
    /* Else the first replay would carry the graph's way to the device. */
    int code = c->driver.cuGraphUpload ? c->driver.cuGraphUpload(g->exec, c->stream) : 0;
    return tw_cuda_result(c, code, "send a graph to the GPU", diag);
}

tw_status tw_cuda_capture_end(tw_cuda *c, tw_cuda_graph **out, tw_diag *diag) {
    *out = NULL;
    if (!c->capturing) return tw_fail(diag, TW_ERR_USAGE, "no launches are captured");
    c->capturing = false;
    /* Whatever is wrong, the capture must end. */
    void *graph = NULL;
    tw_status st = tw_cuda_enter(c, diag);
    int code = c->driver.cuStreamEndCapture(c->stream, &graph);
    if (st != TW_OK) {
        if (code == 0 && graph) c->driver.cuGraphDestroy(graph);
        return st;
    }
    if (code == 0 && !graph) return tw_fail(diag, TW_ERR_IO, "a launch could not be captured in a graph");
    if (code != 0) return tw_cuda_result(c, code, "finish a graph", diag);
    tw_cuda_graph *g = calloc(1, sizeof *g);
    if (!g) {
        c->driver.cuGraphDestroy(graph);
        return tw_fail_memory(diag);
    }
    *g = (tw_cuda_graph){c, graph, NULL};
    st = instantiate(g, diag);
    if (st != TW_OK) {
        tw_cuda_graph_free(g);
        return st;
    }
    *out = g;
    return TW_OK;
}

void tw_cuda_graph_free(tw_cuda_graph *g) {
    if (!g) return;
    if (tw_cuda_enter(g->cuda, NULL) == TW_OK) {
        if (g->exec) g->cuda->driver.cuGraphExecDestroy(g->exec);
        if (g->graph) g->cuda->driver.cuGraphDestroy(g->graph);
    }
    free(g);
}

tw_status tw_cuda_graph_run(tw_cuda *c, tw_cuda_graph *g, tw_diag *diag) {
    if (c->capturing) return tw_fail(diag, TW_ERR_USAGE, "cannot replay a graph while launches are captured");
    const tw_status st = tw_cuda_enter(c, diag);
    return st == TW_OK ? tw_cuda_result(c, c->driver.cuGraphLaunch(g->exec, c->stream), "replay a graph", diag) : st;
}

tw_status tw_cuda_graph_time(tw_cuda *c, tw_cuda_graph *g, int times, double *microseconds, tw_diag *diag) {
    const tw_driver *d = &c->driver;
    float milliseconds = 0;
    *microseconds = 0;
    if (c->capturing) return tw_fail(diag, TW_ERR_USAGE, "cannot time a graph while launches are captured");
    if (times < 1) return tw_fail(diag, TW_ERR_USAGE, "a graph timed over %d replays", times);
    tw_status st = tw_cuda_enter(c, diag);
    if (st != TW_OK) return st;
    int code = d->cuEventRecord(c->start, c->stream);
    for (int i = 0; i < times && code == 0; i++) code = d->cuGraphLaunch(g->exec, c->stream);
    if (code == 0) code = d->cuEventRecord(c->end, c->stream);
    if (code == 0) code = d->cuEventSynchronize(c->end);
    if (code == 0) code = d->cuEventElapsedTime(&milliseconds, c->start, c->end);
    st = tw_cuda_result(c, code, "replay a graph", diag);
    if (st != TW_OK) return st;
    tw_cuda_idle(c);
    *microseconds = (double)milliseconds * 1e3;
    return TW_OK;
}
