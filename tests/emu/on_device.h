/* SPDX-License-Identifier: Apache-2.0 */
/* The emulator's tests on a GPU, where there is one of the kernel's kind: what is emulated is what a device does. */
#ifndef TW_TESTS_EMU_ON_DEVICE_H
#define TW_TESTS_EMU_ON_DEVICE_H

#include "emu/emu_test.h"

#include "device/tensor_map.h"
#include "ptx/load.h"

static inline void fine(tw_status st, const tw_diag *d) {
    if (st != TW_OK) fail_msg("%s", d->message);
}

/* NULL: none of compute capability `sm`. */
static inline tw_cuda *gpu_open(int sm) {
    tw_cuda *c;
    tw_diag d;
    int n;
    if (tw_cuda_count(&n, &d) != TW_OK || n == 0) return NULL;
    fine(tw_cuda_open(&c, 0, &d), &d);
    if (tw_cuda_describe(c)->sm == sm) return c;
    tw_cuda_close(c);
    return NULL;
}

static inline uint64_t gpu_upload(tw_cuda *c, const void *data, size_t bytes) {
    uint64_t at;
    tw_diag d;
    fine(tw_cuda_alloc(c, bytes, &at, &d), &d);
    fine(tw_cuda_upload(c, at, data, bytes, &d), &d);
    return at;
}

/* A grid of `blocks`; arguments are words, addresses of tensor maps where the kernel has such. */
static inline void gpu_run(tw_cuda *c, tw_kernel *k, int blocks, const uint64_t *arguments) {
    const tw_ptx_compiler by = tw_ptx_compiler_for(c, false);
    tw_cuda_module *m;
    tw_diag d;
    int bytes[16];
    for (int i = 0; i < k->n_parameters; i++)
        bytes[i] = k->parameters[i].map ? TW_TENSOR_MAP_BYTES : tw_type_bits(k->parameters[i].type) / 8;
    fine(tw_ptx_load(&by, k, &m, NULL, &d), &d);
    const tw_cuda_launch l = {.module = m,
                              .grid = {blocks, 1, 1},
                              .threads = k->threads,
                              .dynamic_shared = tw_kernel_shared_layout(k, NULL),
                              .arguments = arguments,
                              .argument_bytes = bytes,
                              .n_arguments = k->n_parameters};
    fine(tw_cuda_run(c, &l, &d), &d);
    fine(tw_cuda_sync(c, &d), &d);
    tw_cuda_unload(m);
}

#endif
