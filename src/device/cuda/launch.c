/* SPDX-License-Identifier: Apache-2.0 */
/* Launches that are prepared once and run many times. */
#include "device/cuda/driver.h"

#include "base/diag.h"
#include "device/tensor_map.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    PORTABLE_CLUSTER = 8, /* Larger clusters need the module's permission. */
    MAX_ARGUMENTS = 128,
    MAX_MAPS = 8,
    MAX_ATTRIBUTES = 3
};

struct tw_cuda_ready {
    _Alignas(64) unsigned char map[MAX_MAPS][TW_TENSOR_MAP_BYTES]; /* Encoded tensor maps. */
    int n_maps;
    tw_cuda_module *module;
    tw_driver_launch config; /* All but the stream. */
    tw_driver_attribute attributes[MAX_ATTRIBUTES];
    int n_arguments;
    uint64_t words[MAX_ARGUMENTS];
    void *parameters[MAX_ARGUMENTS]; /* Points into `words` or, for a tensor map, into `map`. */
};

/* True if the launch needs cuLaunchKernelEx. */
static bool has_attributes(const tw_cuda_launch *l) {
    return l->cluster > 1 || l->cooperative || l->programmatic;
}

static tw_status check_launch(const tw_cuda *c, const tw_cuda_launch *l, tw_diag *diag) {
    if (l->module->cuda != c) return tw_fail(diag, TW_ERR_USAGE, "kernel %s is on another GPU", l->module->kernel);
    if (l->n_arguments < 0 || l->n_arguments > MAX_ARGUMENTS)
        return tw_fail(diag, TW_ERR_USAGE, "%d arguments, at most %d are possible", l->n_arguments, MAX_ARGUMENTS);
    if (l->threads < 1 || l->grid[0] < 1 || l->grid[1] < 1 || l->grid[2] < 1)
        return tw_fail(diag, TW_ERR_USAGE, "a grid of %d x %d x %d blocks of %d threads", l->grid[0], l->grid[1],
                       l->grid[2], l->threads);
    if (l->dynamic_shared < 0 || l->dynamic_shared > l->module->dynamic_shared)
        return tw_fail(diag, TW_ERR_USAGE, "kernel %s was loaded for %lld bytes of shared memory, not %lld",
                       l->module->kernel, (long long)l->module->dynamic_shared, (long long)l->dynamic_shared);
    if (has_attributes(l) && !c->driver.cuLaunchKernelEx)
        return tw_fail(diag, TW_ERR_UNSUPPORTED,
                       "this NVIDIA driver is too old for clusters, cooperative and programmatic launches");
    return TW_OK;
}

/* Encodes a tensor map for the device. */
static tw_status encode(tw_cuda *c, const tw_tensor_map *m, void *out, tw_diag *diag) {
    static const int types[TW_TENSOR_ELEMENTS] = {TW_DRV_MAP_U8,  TW_DRV_MAP_U16, TW_DRV_MAP_U32, TW_DRV_MAP_S32,
                                                  TW_DRV_MAP_U64, TW_DRV_MAP_S64, TW_DRV_MAP_F16, TW_DRV_MAP_F32,
                                                  TW_DRV_MAP_F64, TW_DRV_MAP_BF16};
    const tw_driver *d = &c->driver;
    uint64_t extents[TW_TENSOR_DIMS], strides[TW_TENSOR_DIMS] = {0};
    unsigned box[TW_TENSOR_DIMS], steps[TW_TENSOR_DIMS];
    if (!d->cuTensorMapEncodeTiled || !d->cuTensorMapEncodeIm2col)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "this NVIDIA driver is too old for tensor maps");
    if (!tw_tensor_map_valid(m)) return tw_fail(diag, TW_ERR_USAGE, "a tensor map that no device takes");
    for (int i = 0; i < m->dims; i++) {
        extents[i] = (uint64_t)m->extent[i];
        if (i) strides[i - 1] = (uint64_t)m->stride[i];
        box[i] = (unsigned)m->box[i];
        steps[i] = (unsigned)tw_tensor_map_step(m, i);
    }
    const int type = types[m->element], swizzle = m->swizzle ? m->swizzle == 32 ? 1 : m->swizzle / 64 + 1 : 0;
    const unsigned dims = (unsigned)m->dims;
    int code = m->im2col ? d->cuTensorMapEncodeIm2col(out, type, dims, m->address, extents, strides, m->lower, m->upper,
                                                      (unsigned)m->channels, (unsigned)m->pixels, steps, 0, swizzle,
                                                      TW_DRV_MAP_PROMOTE_256, 0)
                         : d->cuTensorMapEncodeTiled(out, type, dims, m->address, extents, strides, box, steps, 0,
                                                     swizzle, TW_DRV_MAP_PROMOTE_256, 0);
    return tw_cuda_result(c, code, "describe an array to the copy engine", diag);
}

static void add_attributes(tw_cuda_ready *r, const tw_cuda_launch *l) {
    unsigned n = 0;
    if (l->cluster > 1) {
        r->attributes[n].id = TW_DRV_ATTR_CLUSTER;
        r->attributes[n].value.cluster.x = (unsigned)l->cluster;
        r->attributes[n].value.cluster.y = r->attributes[n].value.cluster.z = 1;
        n++;
    }
    if (l->cooperative) {
        r->attributes[n].id = TW_DRV_ATTR_COOPERATIVE;
        r->attributes[n].value.cooperative = 1;
        n++;
    }
    if (l->programmatic) {
        r->attributes[n].id = TW_DRV_ATTR_PROGRAMMATIC;
        r->attributes[n].value.programmatic = 1;
        n++;
    }
    r->config.attributes = r->attributes;
    r->config.n_attributes = n;
}

static tw_status allow_cluster(tw_cuda *c, const tw_cuda_launch *l, tw_diag *diag) {
    if (l->cluster <= PORTABLE_CLUSTER || l->module->large_clusters) return TW_OK;
    const int code = c->driver.cuFuncSetAttribute(l->module->function, TW_DRV_FUNC_LARGE_CLUSTERS, 1);
    l->module->large_clusters = code == 0;
    return tw_cuda_result(c, code, "get so large a cluster", diag);
}

tw_status tw_cuda_ready_set(tw_cuda_ready *r, int argument, uint64_t word, tw_diag *diag) {
    const void *at = r->parameters[argument];
    r->words[argument] = word;
    if (at == &r->words[argument]) return TW_OK;
    return encode(r->module->cuda, (const tw_tensor_map *)(uintptr_t)word, r->parameters[argument], diag);
}

/* The driver reads as many bytes of an argument as the parameter has. A word begins with its low bytes. */
static tw_status make_ready(tw_cuda_ready *r, tw_cuda *c, const tw_cuda_launch *l, tw_diag *diag) {
    tw_status st = check_launch(c, l, diag);
    if (st == TW_OK) st = tw_cuda_enter(c, diag);
    if (st == TW_OK) st = allow_cluster(c, l, diag);
    if (st != TW_OK) return st;
    r->module = l->module;
    r->n_arguments = l->n_arguments;
    r->n_maps = 0;
    r->config = (tw_driver_launch){.grid = {(unsigned)l->grid[0], (unsigned)l->grid[1], (unsigned)l->grid[2]},
                                   .block = {(unsigned)l->threads, 1, 1},
                                   .shared = (unsigned)l->dynamic_shared};
    add_attributes(r, l);
    for (int i = 0; i < l->n_arguments && st == TW_OK; i++) {
        const bool map = l->argument_bytes[i] == TW_TENSOR_MAP_BYTES;
        if (map && r->n_maps == MAX_MAPS) return tw_fail(diag, TW_ERR_USAGE, "more than %d tensor maps", MAX_MAPS);
        r->parameters[i] = map ? (void *)r->map[r->n_maps++] : (void *)&r->words[i];
        st = tw_cuda_ready_set(r, i, l->arguments[i], diag);
    }
    return st;
}

static int start(tw_cuda_ready *r, void *stream) {
    const tw_driver *d = &r->module->cuda->driver;
    const tw_driver_launch *l = &r->config;
    r->config.stream = stream;
    if (l->n_attributes) return d->cuLaunchKernelEx(l, r->module->function, r->parameters, NULL);
    return d->cuLaunchKernel(r->module->function, l->grid[0], l->grid[1], l->grid[2], l->block[0], 1, 1, l->shared,
                             stream, r->parameters, NULL);
}

static tw_status started(tw_cuda_ready *r, int code, tw_diag *diag) {
    tw_cuda *c = r->module->cuda;
    char what[192];
    if (code == 0) {
        atomic_store_explicit(&c->last, r->module->kernel, memory_order_release);
        return TW_OK;
    }
    snprintf(what, sizeof what, "launch kernel %s", r->module->kernel);
    return tw_cuda_result(c, code, what, diag);
}

tw_status tw_cuda_run(tw_cuda *c, const tw_cuda_launch *l, tw_diag *diag) {
    tw_cuda_ready r;
    const tw_status st = make_ready(&r, c, l, diag);
    return st == TW_OK ? started(&r, start(&r, c->stream), diag) : st;
}

tw_status tw_cuda_ready_make(tw_cuda *c, tw_cuda_ready **out, const tw_cuda_launch *l, tw_diag *diag) {
    tw_cuda_ready *r = aligned_alloc(64, (sizeof *r + 63) / 64 * 64);
    *out = NULL;
    if (!r) return tw_fail_memory(diag);
    const tw_status st = make_ready(r, c, l, diag);
    if (st == TW_OK)
        *out = r;
    else
        free(r);
    return st;
}

void tw_cuda_ready_free(tw_cuda_ready *r) {
    free(r);
}

tw_status tw_cuda_ready_run(tw_cuda_ready *r, void *stream, tw_diag *diag) {
    tw_cuda *c = r->module->cuda;
    if (c->fault) return tw_cuda_enter(c, diag);
    int code = start(r, stream);
    /* The calling thread's current context is none, or another GPU's. */
    if (code == TW_DRV_INVALID_CONTEXT || code == TW_DRV_INVALID_HANDLE) {
        const tw_status st = tw_cuda_enter(c, diag);
        if (st != TW_OK) return st;
        code = start(r, stream);
    }
    return started(r, code, diag);
}
