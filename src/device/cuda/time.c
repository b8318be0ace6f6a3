/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/time.h"

#include "base/diag.h"
#include "base/divide.h"

#include <stdlib.h>

struct tw_cuda_timer {
    tw_cuda *cuda;
    tw_cuda_graph *graph;
    int launches;
};

int tw_cuda_sets(const tw_cuda *c, int64_t bytes, int most) {
    int64_t cold = 2 * tw_cuda_describe(c)->l2_bytes;
    int64_t sets = 1 + (bytes > 0 ? tw_ceil_div(cold, bytes) : most);
    if (sets < 2) sets = 2;
    return sets > most ? most : (int)sets;
}

static tw_status enqueue_all(tw_cuda_enqueue *enqueue, void *context, int launches, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < launches && st == TW_OK; i++) st = enqueue(context, i, diag);
    return st;
}

static tw_status capture(tw_cuda_timer *t, tw_cuda_enqueue *enqueue, void *context, tw_diag *diag) {
    tw_status st = tw_cuda_capture_begin(t->cuda, diag);
    if (st != TW_OK) return st;
    st = enqueue_all(enqueue, context, t->launches, diag);
    /* A capture that was begun must be ended, and the first reason is the one that counts. */
    tw_status end = tw_cuda_capture_end(t->cuda, &t->graph, st == TW_OK ? diag : NULL);
    return st == TW_OK ? end : st;
}

tw_status tw_cuda_timer_make(tw_cuda *c, tw_cuda_timer **out, tw_cuda_enqueue *enqueue, void *context, int launches,
                             tw_diag *diag) {
    double first;
    *out = NULL;
    if (launches < 1) return tw_fail(diag, TW_ERR_USAGE, "%d launches to time", launches);
    tw_cuda_timer *t = calloc(1, sizeof *t);
    if (!t) return tw_fail_memory(diag);
    *t = (tw_cuda_timer){c, NULL, launches};
    tw_status st = enqueue_all(enqueue, context, launches, diag);
    if (st == TW_OK) st = tw_cuda_sync(c, diag);
    if (st == TW_OK) st = capture(t, enqueue, context, diag);
    if (st == TW_OK) st = tw_cuda_timer_sample(t, &first, diag);
    if (st != TW_OK) {
        tw_cuda_timer_free(t);
        return st;
    }
    *out = t;
    return TW_OK;
}

void tw_cuda_timer_free(tw_cuda_timer *t) {
    if (!t) return;
    tw_cuda_graph_free(t->graph);
    free(t);
}

tw_status tw_cuda_timer_sample(tw_cuda_timer *t, double *microseconds, tw_diag *diag) {
    tw_status st = tw_cuda_graph_time(t->cuda, t->graph, 1, microseconds, diag);
    *microseconds /= t->launches;
    return st;
}

tw_status tw_cuda_time(tw_cuda *c, tw_cuda_enqueue *enqueue, void *context, int launches, int replays, double *samples,
                       tw_diag *diag) {
    tw_cuda_timer *t;
    tw_status st = tw_cuda_timer_make(c, &t, enqueue, context, launches, diag);
    if (st != TW_OK) return st;
    for (int i = 0; i < replays && st == TW_OK; i++) st = tw_cuda_timer_sample(t, &samples[i], diag);
    tw_cuda_timer_free(t);
    return st;
}
