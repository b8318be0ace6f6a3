/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/driver.h"

#include "base/diag.h"

#include <stdio.h>
#include <stdlib.h>

tw_status tw_cuda_count(int *count, tw_diag *diag) {
    tw_driver d;
    *count = 0;
    tw_status st = tw_driver_open(&d, diag);
    if (st != TW_OK) return st;
    int code = d.cuDeviceGetCount(count);
    if (code != 0) {
        char text[256];
        tw_driver_explain(&d, code, text, sizeof text);
        *count = 0;
        st = tw_fail(diag, TW_ERR_UNSUPPORTED, "cannot count the GPUs: %s", text);
    }
    tw_driver_close(&d);
    return st;
}

tw_status tw_cuda_query(int index, tw_cuda_info *info, tw_diag *diag) {
    tw_driver d;
    int device;
    *info = (tw_cuda_info){0};
    tw_status st = tw_driver_open(&d, diag);
    if (st != TW_OK) return st;
    st = tw_driver_describe(&d, index, &device, info, diag);
    tw_driver_close(&d);
    return st;
}

static tw_status open_context(tw_cuda *c, tw_diag *diag) {
    const tw_driver *d = &c->driver;
    void *context = NULL;
    int code = d->cuDevicePrimaryCtxRetain(&context, c->device);
    if (code != 0) return tw_cuda_result(c, code, "open the GPU", diag);
    c->context = context;
    code = d->cuCtxSetCurrent(context);
    /* One that does not wait for the default stream's work, as nobody else orders anything with us through it. */
    if (code == 0) code = d->cuStreamCreate(&c->stream, TW_DRV_STREAM_NON_BLOCKING);
    if (code == 0) code = d->cuEventCreate(&c->start, 0);
    if (code == 0) code = d->cuEventCreate(&c->end, 0);
    return tw_cuda_result(c, code, "make a stream on the GPU", diag);
}

tw_status tw_cuda_open(tw_cuda **out, int index, tw_diag *diag) {
    *out = NULL;
    tw_cuda *c = calloc(1, sizeof *c);
    if (!c) return tw_fail_memory(diag);
    tw_status st = tw_driver_open(&c->driver, diag);
    if (st == TW_OK) st = tw_driver_describe(&c->driver, index, &c->device, &c->info, diag);
    if (st == TW_OK && !c->info.target)
        st = tw_fail(diag, TW_ERR_UNSUPPORTED, "%s has compute capability %d.%d, for which there is no target",
                     c->info.name, c->info.sm / 10, c->info.sm % 10);
    if (st == TW_OK) st = open_context(c, diag);
    if (st != TW_OK) {
        tw_cuda_close(c);
        return st;
    }
    *out = c;
    return TW_OK;
}

void tw_cuda_close(tw_cuda *c) {
    if (!c) return;
    const tw_driver *d = &c->driver;
    if (c->context && d->cuCtxSetCurrent(c->context) == 0) {
        if (c->end) d->cuEventDestroy(c->end);
        if (c->start) d->cuEventDestroy(c->start);
        if (c->stream) d->cuStreamDestroy(c->stream);
        d->cuCtxSetCurrent(NULL);
    }
    if (c->context) d->cuDevicePrimaryCtxRelease(c->device);
    tw_driver_close(&c->driver);
    for (tw_cuda_name *n = c->names, *next; n; n = next) {
        next = n->next;
        free(n);
    }
    free(c);
}

const tw_cuda_info *tw_cuda_describe(const tw_cuda *c) {
    return &c->info;
}

void *tw_cuda_stream(tw_cuda *c) {
    return c->stream;
}

tw_status tw_cuda_enter(tw_cuda *c, tw_diag *diag) {
    if (c->fault) return tw_cuda_result(c, c->fault, "use the GPU", diag);
    return tw_cuda_result(c, c->driver.cuCtxSetCurrent(c->context), "use the GPU", diag);
}

/* Enters, for what cannot become a part of a graph. */
static tw_status enter_now(tw_cuda *c, const char *what, tw_diag *diag) {
    if (c->capturing) return tw_fail(diag, TW_ERR_USAGE, "cannot %s while launches are captured", what);
    return tw_cuda_enter(c, diag);
}

tw_status tw_cuda_alloc(tw_cuda *c, size_t bytes, uint64_t *address, tw_diag *diag) {
    *address = 0;
    tw_status st = tw_cuda_enter(c, diag);
    if (st != TW_OK) return st;
    char what[96];
    snprintf(what, sizeof what, "allocate %zu bytes on the GPU", bytes);
    st = tw_cuda_result(c, c->driver.cuMemAlloc(address, bytes ? bytes : 1), what, diag);
    if (st != TW_OK) *address = 0;
    return st;
}

tw_status tw_cuda_available(tw_cuda *c, int64_t *bytes, tw_diag *diag) {
    size_t available = 0, all;
    tw_status st = tw_cuda_enter(c, diag);
    if (st == TW_OK) st = tw_cuda_result(c, c->driver.cuMemGetInfo(&available, &all), "ask for the GPU's memory", diag);
    *bytes = (int64_t)available;
    return st;
}

void tw_cuda_release(tw_cuda *c, uint64_t address) {
    if (address && tw_cuda_enter(c, NULL) == TW_OK) c->driver.cuMemFree(address);
}

tw_status tw_cuda_sync(tw_cuda *c, tw_diag *diag) {
    tw_status st = enter_now(c, "wait for the GPU", diag);
    if (st == TW_OK) st = tw_cuda_result(c, c->driver.cuStreamSynchronize(c->stream), "wait for the GPU", diag);
    if (st == TW_OK) tw_cuda_idle(c);
    return st;
}

tw_status tw_cuda_look(tw_cuda *c, bool *over, tw_diag *diag) {
    *over = false;
    tw_status st = enter_now(c, "wait for the GPU", diag);
    if (st != TW_OK) return st;
    const int code = c->driver.cuStreamQuery(c->stream);
    if (code == TW_DRV_NOT_READY) return TW_OK;
    st = tw_cuda_result(c, code, "wait for the GPU", diag);
    *over = st == TW_OK;
    if (*over) tw_cuda_idle(c);
    return st;
}

tw_status tw_cuda_alloc_shared(tw_cuda *c, size_t bytes, void **host, uint64_t *address, tw_diag *diag) {
    *host = NULL;
    *address = 0;
    tw_status st = tw_cuda_enter(c, diag);
    if (st != TW_OK) return st;
    char what[96];
    snprintf(what, sizeof what, "allocate %zu bytes that the GPU shares", bytes);
    int code = c->driver.cuMemHostAlloc(host, bytes ? bytes : 1, TW_DRV_HOST_PORTABLE_MAPPED);
    if (code != 0) *host = NULL;
    if (code == 0) code = c->driver.cuMemHostGetDevicePointer(address, *host, 0);
    st = tw_cuda_result(c, code, what, diag);
    if (st != TW_OK && *host) {
        c->driver.cuMemFreeHost(*host);
        *host = NULL;
    }
    return st;
}

void tw_cuda_release_shared(tw_cuda *c, void *host) {
    if (host && tw_cuda_enter(c, NULL) == TW_OK) c->driver.cuMemFreeHost(host);
}

tw_status tw_cuda_send(tw_cuda *c, uint64_t to, const void *from, size_t bytes, tw_diag *diag) {
    tw_status st = tw_cuda_enter(c, diag);
    if (st != TW_OK || bytes == 0) return st;
    return tw_cuda_result(c, c->driver.cuMemcpyHtoDAsync(to, from, bytes, c->stream), "copy to the GPU", diag);
}

tw_status tw_cuda_upload(tw_cuda *c, uint64_t to, const void *from, size_t bytes, tw_diag *diag) {
    tw_status st = enter_now(c, "copy to the GPU", diag);
    if (st != TW_OK || bytes == 0) return st;
    st = tw_cuda_result(c, c->driver.cuMemcpyHtoDAsync(to, from, bytes, c->stream), "copy to the GPU", diag);
    return st == TW_OK ? tw_cuda_sync(c, diag) : st;
}

tw_status tw_cuda_download(tw_cuda *c, void *to, uint64_t from, size_t bytes, tw_diag *diag) {
    tw_status st = enter_now(c, "copy from the GPU", diag);
    if (st != TW_OK || bytes == 0) return st;
    st = tw_cuda_result(c, c->driver.cuMemcpyDtoHAsync(to, from, bytes, c->stream), "copy from the GPU", diag);
    return st == TW_OK ? tw_cuda_sync(c, diag) : st;
}

tw_status tw_cuda_fill(tw_cuda *c, uint64_t to, uint32_t word, size_t words, tw_diag *diag) {
    tw_status st = tw_cuda_enter(c, diag);
    if (st != TW_OK || words == 0) return st;
    return tw_cuda_result(c, c->driver.cuMemsetD32Async(to, word, words, c->stream), "fill memory of the GPU", diag);
}
