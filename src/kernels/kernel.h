/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the public kernel object. */
#ifndef TW_KERNELS_KERNEL_H
#define TW_KERNELS_KERNEL_H

#include "kernels/gpu.h"
#include "kernels/plan.h"
#include "prof/trace.h"
#include "tilewright/trace.h"

struct tw_gpu_kernel {
    tw_gpu *gpu;
    char *words, *chosen; /* What the kernel was opened by. */
    tw_plan plan;
    tw_signature signature;
    struct tw_shared_module *module; /* NULL in the emulator. */
    int64_t dynamic_shared;          /* Bytes of dynamic shared memory per block. */
    tw_gpu_kernel_info info;
    struct tw_tracer *tracer;   /* NULL: none is attached. */
    struct tw_tracer *detached; /* While none is attached: earlier ones. */
};

/* Opens a kernel like tw_gpu_kernel_open. `change`, which may be NULL, may change the plan before it is compiled. */
typedef tw_status tw_kernel_change(void *context, tw_plan *plan, tw_diag *diag);
tw_status tw_kernel_open_changed(tw_gpu_kernel **out, tw_gpu *g, const char *words, const char *configuration,
                                 tw_kernel_change *change, void *context, tw_diag *diag);

/* Prints the text that tw_gpu_kernel_open compiles. Threads may call this at the same time. */
tw_status tw_kernel_text(const tw_gpu *g, const char *words, const char *configuration, tw_buf *ptx, tw_diag *diag);

/* Opens a kernel that `make` plans from a problem of its own. It has no words, and no tracer is attached to it. */
typedef tw_status tw_kernel_maker(const void *problem, tw_plan *out, const tw_target *target, tw_diag *diag);
tw_status tw_kernel_open_made(tw_gpu_kernel **out, tw_gpu *g, tw_kernel_maker *make, const void *problem,
                              tw_diag *diag);

/* tracer.c: the kernel with records, and the address of its buffer TW_TRACER_BUFFER. */
#define TW_TRACER_BUFFER "profile"
const tw_gpu_kernel *tw_tracer_kernel(const struct tw_tracer *t);
uint64_t tw_tracer_buffer(const struct tw_tracer *t);
void tw_tracer_free(struct tw_tracer *t); /* NULL is fine. */

/* tracer_time.c: nanoseconds of a launch without and with records, medians of samples in turn, each of launches that
   follow one another. 0 in the emulator, and where no tracer is attached. All buffers are bound. */
typedef struct tw_trace_times {
    double clean, traced;
} tw_trace_times;
tw_status tw_kernel_trace_times(tw_gpu_kernel *k, tw_gpu_launch *l, tw_trace_times *out, tw_diag *diag);

/* Reads and decodes what the latest traced launch did. The caller frees the trace. */
tw_status tw_kernel_trace(tw_gpu_kernel *k, tw_trace **out, tw_diag *diag);
/* Its two steps: reads the records, and decodes what was read last, without what recording cost (`correct`) or as it
   was measured. A tracer is attached. */
tw_status tw_kernel_read_trace(tw_gpu_kernel *k, tw_diag *diag);
tw_status tw_kernel_decode_trace(const tw_gpu_kernel *k, bool correct, tw_trace **out, tw_diag *diag);

#endif
