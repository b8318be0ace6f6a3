/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code on a device, which kernels of a tw_gpu share whose PTX is the same. Kernels are generated for variants
   of problems, and extents are arguments, so that products of many extents have one text. */
#ifndef TW_KERNELS_MODULE_H
#define TW_KERNELS_MODULE_H

#include "base/buf.h"
#include "kernels/gpu.h"
#include "ptx/load.h"

typedef struct tw_shared_module {
    struct tw_shared_module *next;
    tw_buf ptx;             /* The text. */
    tw_cuda_module *module; /* What was loaded. */
    int64_t dynamic_shared; /* Bytes of dynamic shared memory that launches may ask for. */
    int registers;          /* Registers of a thread, or -1: unknown. */
    int spill_bytes;        /* Spilled bytes of a thread, or -1: unknown. */
    const char *code;       /* Where the kernel's machine code came from: "package", "cache" or "compiler". */
    int users;              /* Number of openings that were not closed. */
} tw_shared_module;

/* Compiles and loads a kernel, unless one with the same text is loaded. */
tw_status tw_shared_module_open(tw_shared_module **out, tw_gpu *g, tw_kernel *k, tw_diag *diag);
void tw_shared_module_close(tw_gpu *g, tw_shared_module *m); /* NULL is fine. */

#endif
