/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of kernels by name, and what each makes of the words that describe a problem. */
#ifndef TW_KERNELS_PLAN_H
#define TW_KERNELS_PLAN_H

#include "device/target.h"
#include "kernels/arguments.h"
#include "tilewright/kernel.h"

enum { TW_PLAN_BUFFERS = 8, TW_PLAN_TEXT = 512 };

/* A kernel ready to be compiled, and how it is launched. */
typedef struct tw_plan {
    tw_kernel *kernel;       /* passes have run; the caller frees it */
    tw_launch_values launch; /* buffers at address 0. Not to be copied. */
    tw_gpu_buffer buffers[TW_PLAN_BUFFERS];
    int n_buffers;
    char problem[TW_PLAN_TEXT], configuration[TW_PLAN_TEXT];
} tw_plan;

typedef struct tw_kernel_kind {
    const char *name;
    /* `words` and `configuration` may be empty, and are the callee's to cut up. */
    tw_status (*plan)(tw_plan *out, char *words, char *configuration, const tw_target *target, tw_diag *diag);
} tw_kernel_kind;

tw_status tw_gemm_plan_words(tw_plan *out, char *words, char *configuration, const tw_target *target, tw_diag *diag);

#endif
