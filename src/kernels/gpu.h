/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_KERNELS_GPU_H
#define TW_KERNELS_GPU_H

#include "device/cuda/cuda.h"
#include "emu/emu.h"
#include "ptx/load.h"
#include "tilewright/kernel.h"

/* One of `cuda` and `emu` is NULL. */
struct tw_gpu {
    tw_cuda *cuda;
    tw_emu *emu;
    const tw_target *target;
    char name[160];
    const tw_machine_code *code; /* Is taken instead of compiling. The owner is whoever set it. */
    int n_code;
    struct tw_shared_module *modules; /* Machine code of the open kernels (kernels/module.h). */
    tw_emu_observer *observer;        /* Is called for each access of memory in the emulator. NULL: nobody observes. */
    void *observer_context;
};

/* Allocates memory like tw_gpu_alloc, with a name for the emulator's findings and observers. The function copies the
   name. */
tw_status tw_gpu_alloc_named(tw_gpu *g, const char *name, size_t bytes, uint64_t *address, tw_diag *diag);

#endif
