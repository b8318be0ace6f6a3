/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA GPUs through the driver alone: libcuda is opened at run time, with our own declarations. The library is
   $TILEWRIGHT_LIBCUDA where that is set, else libcuda.so.1 or libcuda.so.

   One thread at a time may use a tw_cuda. Meanwhile other threads may call tw_cuda_assemble, and make and use prepared
   launches (tw_cuda_ready), each thread its own. Everything but these launches happens in order on one stream.
   Failures: TW_ERR_UNSUPPORTED where there is no driver or device, or the driver lacks something; TW_ERR_MEMORY when
   the device's or the process's is exhausted; TW_ERR_USAGE for a launch that cannot be; TW_ERR_FORMAT for machine code
   or PTX that is none; TW_ERR_IO for everything else. A fault in a kernel (a wrong address, an illegal instruction)
   shows in a later call, is named with the kernel launched last, and makes the device useless for the process: every
   call from then on fails with it. */
#ifndef TW_DEVICE_CUDA_CUDA_H
#define TW_DEVICE_CUDA_CUDA_H

#include "device/target.h"
#include "tilewright/base.h"

typedef struct tw_cuda tw_cuda;               /* a device with its primary context and a stream */
typedef struct tw_cuda_module tw_cuda_module; /* a loaded cubin with one kernel */
typedef struct tw_cuda_graph tw_cuda_graph;   /* launches captured, to be replayed */

typedef struct tw_cuda_info {
    char name[128];
    char driver[32]; /* version, "580.159", or "CUDA 13.0" where the former is not to be had */
    char bus[32];    /* PCI bus number, "0000:1B:00.0". "": unknown */
    int sm;          /* compute capability, major * 10 + minor */
    int sms;
    int clock_khz, memory_clock_khz, memory_bus_bits; /* 0 when unknown */
    int64_t memory_bytes, l2_bytes;
    int shared_block /* most a block may ask for */, shared_sm, registers_sm, threads_sm;
    const tw_target *target; /* never NULL in an open device; NULL from tw_cuda_query where there is none */
} tw_cuda_info;

/* What there is, without opening it. No driver: TW_ERR_UNSUPPORTED with the reason, and none. */
tw_status tw_cuda_count(int *count, tw_diag *diag);
tw_status tw_cuda_query(int index, tw_cuda_info *info, tw_diag *diag);

/* Device `index`. TW_ERR_UNSUPPORTED with the reason where there is no driver or no device. */
tw_status tw_cuda_open(tw_cuda **out, int index, tw_diag *diag);
void tw_cuda_close(tw_cuda *c); /* modules, graphs and memory must have been given back */
const tw_cuda_info *tw_cuda_describe(const tw_cuda *c);

/* Memory of the device; addresses are plain 64-bit numbers. */
tw_status tw_cuda_alloc(tw_cuda *c, size_t bytes, uint64_t *address, tw_diag *diag);
void tw_cuda_release(tw_cuda *c, uint64_t address);
tw_status tw_cuda_available(tw_cuda *c, int64_t *bytes, tw_diag *diag); /* that nobody has taken */
tw_status tw_cuda_upload(tw_cuda *c, uint64_t to, const void *from, size_t bytes, tw_diag *diag);
tw_status tw_cuda_download(tw_cuda *c, void *to, uint64_t from, size_t bytes, tw_diag *diag);
/* As upload, but does not wait: `from` is memory that the device sees, and stays as it is until the stream is past it.
 */
tw_status tw_cuda_send(tw_cuda *c, uint64_t to, const void *from, size_t bytes, tw_diag *diag);
/* The host's own memory that the device reads and writes, too, at *address, while a kernel runs. */
tw_status tw_cuda_alloc_shared(tw_cuda *c, size_t bytes, void **host, uint64_t *address, tw_diag *diag);
void tw_cuda_release_shared(tw_cuda *c, void *host);
tw_status tw_cuda_fill(tw_cuda *c, uint64_t to, uint32_t word, size_t words, tw_diag *diag); /* on the stream */

/* PTX to machine code by the driver's compiler, for this device; from any number of threads at once. `ptx` needs no end
   mark. The cubin is the caller's, from malloc. `log` gets what the compiler says of registers and spills; with
   TW_ERR_FORMAT, what it complains of. */
tw_status tw_cuda_assemble(tw_cuda *c, const char *ptx, size_t bytes, void **cubin, size_t *cubin_bytes, char *log,
                           size_t log_bytes, tw_diag *diag);

/* Machine code. `dynamic_shared`: the most that a launch will ask for. */
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
    int cluster; /* Blocks per cluster. 0 or 1: no clusters. */
    bool cooperative;
    bool programmatic; /* The launch may begin before the previous one is over. The kernel waits by griddep_wait. */
    const uint64_t *arguments; /* A word per parameter, whose low bytes are used; a tensor map's host address. */
    const int *argument_bytes; /* 4 or 8 per parameter; TW_TENSOR_MAP_BYTES: a tensor map. */
    int n_arguments;
} tw_cuda_launch;
tw_status tw_cuda_run(tw_cuda *c, const tw_cuda_launch *l, tw_diag *diag); /* asynchronous */

/* A prepared launch: its arguments are checked and copied, its tensor maps encoded. It belongs to one thread at a time.
   The module must outlive it. */
typedef struct tw_cuda_ready tw_cuda_ready;
tw_status tw_cuda_ready_make(tw_cuda *c, tw_cuda_ready **out, const tw_cuda_launch *l, tw_diag *diag);
void tw_cuda_ready_free(tw_cuda_ready *r); /* NULL is fine */
/* Replaces an argument's word. The word of a tensor map is its host address; the map is encoded again. */
tw_status tw_cuda_ready_set(tw_cuda_ready *r, int argument, uint64_t word, tw_diag *diag);
/* Launches by one call of the driver. `stream` is a CUstream; NULL: the default stream. If the thread's current context
   is not the device's, the device's becomes the current one and the call is repeated. */
tw_status tw_cuda_ready_run(tw_cuda_ready *r, void *stream, tw_diag *diag);

tw_status tw_cuda_sync(tw_cuda *c, tw_diag *diag); /* also reports faults of earlier launches */

/* Whether everything launched is over, without waiting; faults as tw_cuda_sync. */
tw_status tw_cuda_look(tw_cuda *c, bool *over, tw_diag *diag);

/* Everything launched on the stream between begin and end goes into a graph instead. Once begun, it must be ended. */
tw_status tw_cuda_capture_begin(tw_cuda *c, tw_diag *diag);
tw_status tw_cuda_capture_end(tw_cuda *c, tw_cuda_graph **out, tw_diag *diag);
void tw_cuda_graph_free(tw_cuda_graph *g);
tw_status tw_cuda_graph_run(tw_cuda *c, tw_cuda_graph *g, tw_diag *diag); /* Replays once, without waiting. */
/* Replays `times` back to back and gives the device's microseconds between events around all of them. */
tw_status tw_cuda_graph_time(tw_cuda *c, tw_cuda_graph *g, int times, double *microseconds, tw_diag *diag);

/* For vendor libraries: the stream (a CUstream), and the device made the calling thread's current one. */
void *tw_cuda_stream(tw_cuda *c);
tw_status tw_cuda_enter(tw_cuda *c, tw_diag *diag);

#endif
