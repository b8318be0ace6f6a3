/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of kernels. Each kind has a name, and turns the words of a problem into a kernel with its launch. */
#ifndef TW_KERNELS_PLAN_H
#define TW_KERNELS_PLAN_H

#include "device/target.h"
#include "kernels/arguments.h"
#include "tilewright/kernel.h"

enum { TW_PLAN_BUFFERS = 16, TW_PLAN_TEXT = 512 };

/* A kernel before compilation, and its launch. Must not be copied. */
typedef struct tw_plan {
    tw_kernel *kernel;       /* All passes have run. The caller frees it. */
    tw_launch_values launch; /* Addresses of buffers are 0. */
    tw_gpu_buffer buffers[TW_PLAN_BUFFERS];
    int n_buffers;
    char problem[TW_PLAN_TEXT], configuration[TW_PLAN_TEXT];
} tw_plan;

typedef struct tw_kernel_kind {
    const char *name;
    /* Plans a kernel. `words` and `configuration` may be empty. The function may overwrite both. */
    tw_status (*plan)(tw_plan *out, char *words, char *configuration, const tw_target *target, tw_diag *diag);
} tw_kernel_kind;

tw_status tw_gemm_plan_words(tw_plan *out, char *words, char *configuration, const tw_target *target, tw_diag *diag);
tw_status tw_attention_plan_words(tw_plan *out, char *words, char *configuration, const tw_target *target,
                                  tw_diag *diag);
tw_status tw_combine_plan_words(tw_plan *out, char *words, char *configuration, const tw_target *target, tw_diag *diag);
tw_status tw_map_plan_words(tw_plan *out, char *words, char *configuration, const tw_target *target, tw_diag *diag);
tw_status tw_rows_plan_words(tw_plan *out, char *words, char *configuration, const tw_target *target, tw_diag *diag);

/* Plan the kernel of a tw_map_problem and of a tw_rows_problem. Buffers are "x0", "x1", ... for the operands that the
   value needs, "out", and where the problem has them "gain", "bias" and "kept". The address of each is that of the
   element with all indices 0. There must be something to compute. */
tw_status tw_map_plan(const void *problem, tw_plan *out, const tw_target *target, tw_diag *diag);
tw_status tw_rows_plan(const void *problem, tw_plan *out, const tw_target *target, tw_diag *diag);

#endif
