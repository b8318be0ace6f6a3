/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of cuDNN: its functions, and the descriptors that a problem is told by. */
#ifndef TW_KERNELS_VENDOR_CUDNN_PARTS_H
#define TW_KERNELS_VENDOR_CUDNN_PARTS_H

#include "kernels/vendor/cudnn.h"

/* Numbers of the library's interface. */
enum {
    TW_CUDNN_NO_HOST_MEMORY = 4003, /* A status. */

    /* Types of attributes. */
    TW_CUDNN_HANDLE = 0,
    TW_CUDNN_DATA_TYPE = 1,
    TW_CUDNN_BOOLEAN = 2,
    TW_CUDNN_INT64 = 3,
    TW_CUDNN_POINTER = 6,
    TW_CUDNN_HEURISTICS = 8,
    TW_CUDNN_KNOB = 9,
    TW_CUDNN_POINTWISE = 14,
    TW_CUDNN_DESCRIPTOR = 15,
    TW_CUDNN_REDUCTION = 18,
};

/* Tensors that have an address, or a value that a run gives. Others are between operations. */
typedef enum tw_cudnn_tensor {
    TW_CUDNN_Q = 1,
    TW_CUDNN_K,
    TW_CUDNN_V,
    TW_CUDNN_OUT,
    TW_CUDNN_MASK,
    TW_CUDNN_SCALE,
    TW_CUDNN_LOWEST, /* Score of a key that a query does not see. */
    TW_CUDNN_KEYS,   /* KEYS and QUERIES: as the problem has them. */
    TW_CUDNN_QUERIES,
    TW_CUDNN_TENSORS
} tw_cudnn_tensor;

#define TW_CUDNN_FUNCTIONS(FN)                                                                                         \
    FN(cudnnCreate, (void **handle))                                                                                   \
    FN(cudnnDestroy, (void *handle))                                                                                   \
    FN(cudnnSetStream, (void *handle, void *stream))                                                                   \
    FN(cudnnBackendCreateDescriptor, (int type, void **descriptor))                                                    \
    FN(cudnnBackendDestroyDescriptor, (void *descriptor))                                                              \
    FN(cudnnBackendFinalize, (void *descriptor))                                                                       \
    FN(cudnnBackendSetAttribute, (void *descriptor, int attribute, int type, int64_t count, const void *values))       \
    FN(cudnnBackendGetAttribute,                                                                                       \
       (void *descriptor, int attribute, int type, int64_t room, int64_t *count, void *values))                        \
    FN(cudnnBackendExecute, (void *handle, void *plan, void *pack))

struct tw_cudnn {
    void *library, *handle;
    tw_cuda *cuda;
    size_t (*cudnnGetVersion)(void);
    void (*cudnnGetLastErrorString)(char *out, size_t size);
#define TW_CUDNN_MEMBER(name, parameters) int(*name) parameters;
    TW_CUDNN_FUNCTIONS(TW_CUDNN_MEMBER)
#undef TW_CUDNN_MEMBER
};

enum { TW_CUDNN_OPERATIONS = 20 /* More than a graph has. */ };

/* Makes descriptors. After the first failure, which it keeps, it makes nothing more. */
typedef struct tw_cudnn_maker {
    const tw_cudnn *dnn;
    const tw_cudnn_problem *p;
    void **made; /* Descriptors, in the order they were made in. */
    int n, room;
    int status;       /* The library's. */
    const char *what; /* What the library did not do. */
    void *operations[TW_CUDNN_OPERATIONS];
    int n_operations;
    int64_t id; /* Of the next tensor between operations. */
} tw_cudnn_maker;

/* Keeps a failure, if it is the first. */
void tw_cudnn_note(tw_cudnn_maker *m, int status, const char *what);
/* Makes a descriptor of a type. NULL after a failure. */
void *tw_cudnn_create(tw_cudnn_maker *m, int type);
/* Sets an attribute of a descriptor: `count` values, a number of 32 bits, or a descriptor. */
void tw_cudnn_set(tw_cudnn_maker *m, void *d, int attribute, int type, int64_t count, const void *values);
void tw_cudnn_set_number(tw_cudnn_maker *m, void *d, int attribute, int type, int32_t value);
void tw_cudnn_set_descriptor(tw_cudnn_maker *m, void *d, int attribute, void *value);
/* Ends setting attributes. `what` is what the library then knows to do. */
void tw_cudnn_finish(tw_cudnn_maker *m, void *d, const char *what);
/* Destroys all descriptors. */
void tw_cudnn_destroy(tw_cudnn_maker *m);

/* Makes the graph of the problem's operations. */
void *tw_cudnn_graph(tw_cudnn_maker *m);

#endif
