/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_KERNELS_GPU_H
#define TW_KERNELS_GPU_H

#include "device/cuda/cuda.h"
#include "emu/emu.h"
#include "tilewright/kernel.h"

/* One of `cuda` and `emu` is NULL. */
struct tw_gpu {
    tw_cuda *cuda;
    tw_emu *emu;
    const tw_target *target;
    char name[160];
};

#endif
