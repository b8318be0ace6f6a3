/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpu.h"

#include "base/diag.h"
#include "device/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tw_status open_emulator(tw_gpu *g, const char *target, tw_diag *diag) {
    g->target = tw_target_find(target);
    if (!g->target) return tw_fail(diag, TW_ERR_USAGE, "device: the emulator knows no target \"%s\"", target);
    snprintf(g->name, sizeof g->name, "emulator of %s", g->target->name);
    g->emu = tw_emu_new();
    return g->emu ? TW_OK : tw_fail_memory(diag);
}

static tw_status open_cuda(tw_gpu *g, int number, tw_diag *diag) {
    const tw_status st = tw_cuda_open(&g->cuda, number, diag);
    if (st != TW_OK) return st;
    g->target = tw_cuda_describe(g->cuda)->target;
    snprintf(g->name, sizeof g->name, "%s", tw_cuda_describe(g->cuda)->name);
    return TW_OK;
}

static tw_status open_named(tw_gpu *g, const char *device, tw_diag *diag) {
    int number;
    if (!strcmp(device, "auto")) {
        const tw_status st = open_cuda(g, 0, diag);
        return st == TW_ERR_UNSUPPORTED ? open_emulator(g, "sm_90a", diag) : st;
    }
    if (!strcmp(device, "emulator")) return open_emulator(g, "sm_90a", diag);
    if (!strncmp(device, "emulator:", 9)) return open_emulator(g, device + 9, diag);
    if (tw_device_gpu_number(device, &number)) return open_cuda(g, number, diag);
    return tw_fail(diag, TW_ERR_USAGE, "device: \"%s\" is not auto, cuda, cuda:N, emulator or emulator:TARGET", device);
}

tw_status tw_gpu_open(tw_gpu **out, const char *device, tw_diag *diag) {
    tw_gpu *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g) return tw_fail_memory(diag);
    const tw_status st = open_named(g, device ? device : "auto", diag);
    if (st == TW_OK)
        *out = g;
    else
        tw_gpu_close(g);
    return st;
}

void tw_gpu_close(tw_gpu *g) {
    if (!g) return;
    if (g->cuda) tw_cuda_close(g->cuda);
    tw_emu_free(g->emu);
    free(g);
}

const char *tw_gpu_name(const tw_gpu *g) {
    return g->name;
}

bool tw_gpu_emulated(const tw_gpu *g) {
    return g->emu;
}

/* -- memory */

tw_status tw_gpu_alloc_named(tw_gpu *g, const char *name, size_t bytes, uint64_t *address, tw_diag *diag) {
    if (g->cuda) return tw_cuda_alloc(g->cuda, bytes, address, diag);
    *address = tw_emu_alloc(g->emu, name, NULL, bytes, false);
    return *address ? TW_OK : tw_fail_memory(diag);
}

tw_status tw_gpu_alloc(tw_gpu *g, size_t bytes, uint64_t *address, tw_diag *diag) {
    return tw_gpu_alloc_named(g, "memory", bytes, address, diag);
}

void tw_gpu_release(tw_gpu *g, uint64_t address) {
    if (g->cuda)
        tw_cuda_release(g->cuda, address);
    else
        tw_emu_release(g->emu, address);
}

static tw_status within(bool inside, uint64_t address, size_t bytes, tw_diag *diag) {
    if (inside) return TW_OK;
    return tw_fail(diag, TW_ERR_USAGE, "%zu bytes at 0x%llx are not within one allocation", bytes,
                   (unsigned long long)address);
}

tw_status tw_gpu_upload(tw_gpu *g, uint64_t to, const void *from, size_t bytes, tw_diag *diag) {
    if (g->cuda) return tw_cuda_upload(g->cuda, to, from, bytes, diag);
    return within(tw_emu_write(g->emu, to, from, bytes), to, bytes, diag);
}

tw_status tw_gpu_download(tw_gpu *g, void *to, uint64_t from, size_t bytes, tw_diag *diag) {
    if (g->cuda) return tw_cuda_download(g->cuda, to, from, bytes, diag);
    return within(tw_emu_read(g->emu, from, to, bytes), from, bytes, diag);
}

tw_status tw_gpu_wait(tw_gpu *g, tw_diag *diag) {
    return g->cuda ? tw_cuda_sync(g->cuda, diag) : TW_OK;
}
