/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA GPUs through the driver alone: libcuda is opened at run time, with our own declarations. */
#ifndef TW_DEVICE_CUDA_CUDA_H
#define TW_DEVICE_CUDA_CUDA_H

#include "device/target.h"
#include "tilewright/base.h"

typedef struct tw_cuda tw_cuda;               /* a device with its primary context and a stream */
typedef struct tw_cuda_module tw_cuda_module; /* a loaded cubin with one kernel */
typedef struct tw_cuda_graph tw_cuda_graph;   /* launches captured, to be replayed */

typedef struct tw_cuda_info {
    char name[128];
    char driver[32]; /* version, "580.159" or CUDA's number when the former is not to be had */
    int sm;          /* compute capability, major * 10 + minor */
    int sms, clock_khz, memory_clock_khz;
    int64_t memory_bytes, l2_bytes;
    int shared_block, shared_sm, registers_sm, threads_sm;
    const tw_target *target;
} tw_cuda_info;

/* Device `index`. TW_ERR_UNSUPPORTED with the reason where there is no driver or no device. */
tw_status tw_cuda_open(tw_cuda **out, int index, tw_diag *diag);
void tw_cuda_close(tw_cuda *c);
const tw_cuda_info *tw_cuda_describe(const tw_cuda *c);

/* Memory of the device; addresses are plain 64-bit numbers. */
tw_status tw_cuda_alloc(tw_cuda *c, size_t bytes, uint64_t *address, tw_diag *diag);
void tw_cuda_release(tw_cuda *c, uint64_t address);
tw_status tw_cuda_upload(tw_cuda *c, uint64_t to, const void *from, size_t bytes, tw_diag *diag);
tw_status tw_cuda_download(tw_cuda *c, void *to, uint64_t from, size_t bytes, tw_diag *diag);
tw_status tw_cuda_fill(tw_cuda *c, uint64_t to, uint32_t word, size_t words, tw_diag *diag); /* on the stream */

/* Machine code. */
tw_status tw_cuda_load(tw_cuda *c, tw_cuda_module **out, const void *cubin, size_t bytes, const char *kernel,
                       int64_t dynamic_shared, tw_diag *diag);
void tw_cuda_unload(tw_cuda_module *m);
typedef struct tw_cuda_resources {
    int registers, shared_bytes /* static */, local_bytes /* stack and spills, a thread */, max_threads;
    int blocks_per_sm; /* occupancy at the kernel's threads and dynamic shared memory */
} tw_cuda_resources;
tw_status tw_cuda_module_resources(tw_cuda_module *m, int threads, int64_t dynamic_shared, tw_cuda_resources *r,
                                   tw_diag *diag);

typedef struct tw_cuda_launch {
    tw_cuda_module *module;
    int grid[3], threads;
    int64_t dynamic_shared;
    int cluster; /* 0 or 1: none */
    bool cooperative;
    const uint64_t *arguments; /* one word a parameter, low bytes used */
    const int *argument_bytes; /* 4 or 8 each */
    int n_arguments;
} tw_cuda_launch;
tw_status tw_cuda_run(tw_cuda *c, const tw_cuda_launch *l, tw_diag *diag); /* asynchronous */
tw_status tw_cuda_sync(tw_cuda *c, tw_diag *diag);                         /* also reports faults of earlier launches */

/* Everything launched on the stream between begin and end goes into a graph instead. */
tw_status tw_cuda_capture_begin(tw_cuda *c, tw_diag *diag);
tw_status tw_cuda_capture_end(tw_cuda *c, tw_cuda_graph **out, tw_diag *diag);
void tw_cuda_graph_free(tw_cuda_graph *g);
/* Replays `times` back to back and gives the device's microseconds between events around all of them. */
tw_status tw_cuda_graph_time(tw_cuda *c, tw_cuda_graph *g, int times, double *microseconds, tw_diag *diag);

void *tw_cuda_stream(tw_cuda *c); /* CUstream, for vendor libraries */

#endif
