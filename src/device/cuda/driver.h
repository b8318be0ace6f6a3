/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/device/cuda: the driver's library, opened at run time, and its numbers. */
#ifndef TW_DEVICE_CUDA_DRIVER_H
#define TW_DEVICE_CUDA_DRIVER_H

#include "device/cuda/cuda.h"

#include <stdatomic.h>

/* Numbers of the driver's interface; they are part of its binary compatibility and do not change. */
enum {
    TW_DRV_OUT_OF_MEMORY = 2,
    TW_DRV_NO_DEVICE = 100,
    TW_DRV_INVALID_DEVICE = 101,
    TW_DRV_INVALID_CONTEXT = 201, /* The calling thread has no context. */
    TW_DRV_INVALID_HANDLE = 400,  /* Also for a function or stream of a context that is not the current one. */
    TW_DRV_NOT_READY = 600,

    TW_DRV_MAX_SHARED_BLOCK = 97, /* device attributes */
    TW_DRV_CLOCK_RATE = 13,
    TW_DRV_MULTIPROCESSORS = 16,
    TW_DRV_MEMORY_CLOCK_RATE = 36,
    TW_DRV_MEMORY_BUS_BITS = 37,
    TW_DRV_L2_BYTES = 38,
    TW_DRV_THREADS_SM = 39,
    TW_DRV_MAJOR = 75,
    TW_DRV_MINOR = 76,
    TW_DRV_SHARED_SM = 81,
    TW_DRV_REGISTERS_SM = 82,

    TW_DRV_FUNC_MAX_THREADS = 0, /* function attributes */
    TW_DRV_FUNC_SHARED = 1,
    TW_DRV_FUNC_LOCAL = 3,
    TW_DRV_FUNC_REGISTERS = 4,
    TW_DRV_FUNC_MAX_DYNAMIC_SHARED = 8,
    TW_DRV_FUNC_LARGE_CLUSTERS = 14, /* more than 8 blocks, which not every device of a kind has */

    TW_DRV_JIT_INFO_LOG = 3, /* options of the compiler */
    TW_DRV_JIT_INFO_LOG_BYTES = 4,
    TW_DRV_JIT_ERROR_LOG = 5,
    TW_DRV_JIT_ERROR_LOG_BYTES = 6,
    TW_DRV_JIT_TARGET = 9,
    TW_DRV_JIT_ACCELERATED = 0x10000, /* with a capability: its target whose name ends in 'a' */
    TW_DRV_JIT_LOG_VERBOSE = 12,
    TW_DRV_JIT_INPUT_PTX = 1,

    TW_DRV_HOST_PORTABLE_MAPPED = 3, /* for every context, and the device sees it */
    TW_DRV_STREAM_NON_BLOCKING = 1,
    TW_DRV_CAPTURE_RELAXED = 2, /* other calls, a vendor library's for one, stay allowed meanwhile */
    TW_DRV_ATTR_COOPERATIVE = 2,
    TW_DRV_ATTR_CLUSTER = 4,
    TW_DRV_ATTR_PROGRAMMATIC = 6, /* programmatic stream serialisation */

    TW_DRV_MAP_U8 = 0, /* tensor maps */
    TW_DRV_MAP_U16 = 1,
    TW_DRV_MAP_U32 = 2,
    TW_DRV_MAP_S32 = 3,
    TW_DRV_MAP_U64 = 4,
    TW_DRV_MAP_S64 = 5,
    TW_DRV_MAP_F16 = 6,
    TW_DRV_MAP_F32 = 7,
    TW_DRV_MAP_F64 = 8,
    TW_DRV_MAP_BF16 = 9,
    TW_DRV_MAP_PROMOTE_256 = 3, /* L2 fetches 256 bytes at a time */
};

typedef struct tw_driver_attribute {
    int id;
    char pad[4];
    union {
        char pad[64];
        int cooperative, programmatic;
        struct {
            unsigned x, y, z;
        } cluster;
    } value;
} tw_driver_attribute;

typedef struct tw_driver_launch {
    unsigned grid[3], block[3], shared;
    void *stream;
    tw_driver_attribute *attributes;
    unsigned n_attributes;
} tw_driver_launch;

typedef struct tw_driver {
    void *library;
#define FN(needed, name, symbol, parameters) int(*name) parameters;
#include "device/cuda/driver.def"
#undef FN
} tw_driver;

/* A kernel's name. It lives as long as its tw_cuda, since a fault may be named after the module was unloaded. */
typedef struct tw_cuda_name {
    struct tw_cuda_name *next;
    char text[128];
} tw_cuda_name;

struct tw_cuda {
    tw_driver driver;
    int device;
    void *context, *stream;
    void *start, *end; /* events */
    tw_cuda_info info;
    bool capturing;
    _Atomic bool name_target; /* the compiler does not take the device's target by itself */
    /* The driver's first code that made the context useless. 0: none. */
    _Atomic int fault;
    /* Every name of a loaded kernel, once. */
    tw_cuda_name *names;
    /* The name of the kernel launched last since the stream was last known to be idle. NULL: none. */
    _Atomic(const char *) last;
};

struct tw_cuda_module {
    tw_cuda *cuda;
    void *module, *function;
    int64_t dynamic_shared;      /* most that a launch may ask for */
    _Atomic bool large_clusters; /* Clusters above the portable size are allowed. */
    const char *kernel;          /* Owned by `cuda`. */
};

struct tw_cuda_graph {
    tw_cuda *cuda;
    void *graph, *exec;
};

/* Notes that the stream is idle. */
static inline void tw_cuda_idle(tw_cuda *c) {
    atomic_store_explicit(&c->last, NULL, memory_order_relaxed);
}

/* Opens the library and starts the driver. */
tw_status tw_driver_open(tw_driver *d, tw_diag *diag);
void tw_driver_close(tw_driver *d);

/* "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)" */
void tw_driver_explain(const tw_driver *d, int code, char *out, size_t size);

/* The status of a call: TW_OK for 0; else "cannot <what>: <explanation>". A code that says that an earlier launch broke
   the context is remembered, and said so from then on. */
tw_status tw_cuda_result(tw_cuda *c, int code, const char *what, tw_diag *diag);

/* The part of `tw_cuda_info` that comes from the driver. */
tw_status tw_driver_describe(const tw_driver *d, int index, int *device, tw_cuda_info *info, tw_diag *diag);

#endif
