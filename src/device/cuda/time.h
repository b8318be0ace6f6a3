/* SPDX-License-Identifier: Apache-2.0 */
/* How long a launch takes, with the caches cold: launches rotate over sets of buffers, are captured in one graph, and
   the graph is replayed. Whatever enqueues on the device's stream is timed in the same way, ours or a vendor's. */
#ifndef TW_DEVICE_CUDA_TIME_H
#define TW_DEVICE_CUDA_TIME_H

#include "device/cuda/cuda.h"

/* Enqueues launch number `i` on the device's stream, with the buffers of set i mod n_sets. */
typedef tw_status tw_cuda_enqueue(void *context, int i, tw_diag *diag);

/* How many sets of `bytes` each are needed so that a launch finds nothing of its own in the L2: those of the others
   amount to twice its size. At least 2, at most `most`. */
int tw_cuda_sets(const tw_cuda *c, int64_t bytes, int most);

typedef struct tw_cuda_timer tw_cuda_timer;

/* Enqueues every launch once and waits, which loads what is loaded lazily and shows faults; then captures `launches` of
   them (a multiple of n_sets, so that a replay goes on where the last one ended) and replays them once. */
tw_status tw_cuda_timer_make(tw_cuda *c, tw_cuda_timer **out, tw_cuda_enqueue *enqueue, void *context, int launches,
                             tw_diag *diag);
void tw_cuda_timer_free(tw_cuda_timer *t);

/* One replay: the device's microseconds, a launch, gaps between launches included. Samples of several timers may be
   interleaved, which keeps a drift of the clock from favouring one of them. */
tw_status tw_cuda_timer_sample(tw_cuda_timer *t, double *microseconds, tw_diag *diag);

/* All at once: `replays` samples. */
tw_status tw_cuda_time(tw_cuda *c, tw_cuda_enqueue *enqueue, void *context, int launches, int replays, double *samples,
                       tw_diag *diag);

#endif
