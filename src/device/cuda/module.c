/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/driver.h"

#include "base/diag.h"
#include "device/tensor_map.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FREE_SHARED = 48 << 10, /* bytes of shared memory a block may have without asking */
    PORTABLE_CLUSTER = 8,   /* blocks a cluster may have without asking */
    MAX_ARGUMENTS = 128,
    MAX_MAPS = 8,
};

typedef struct encoded {
    _Alignas(64) unsigned char map[MAX_MAPS][TW_TENSOR_MAP_BYTES];
    int n;
} encoded;

static tw_status load(tw_cuda_module *m, const void *cubin, const char *kernel, tw_diag *diag) {
    tw_cuda *c = m->cuda;
    const tw_driver *d = &c->driver;
    char what[192];
    int fixed = 0;
    snprintf(what, sizeof what, "load kernel %.100s", kernel);
    tw_status st = tw_cuda_result(c, d->cuModuleLoadDataEx(&m->module, cubin, 0, NULL, NULL), what, diag);
    if (st != TW_OK) {
        m->module = NULL;
        return st;
    }
    int code = d->cuModuleGetFunction(&m->function, m->module, kernel);
    if (code == 0) code = d->cuFuncGetAttribute(&fixed, TW_DRV_FUNC_SHARED, m->function);
    if ((st = tw_cuda_result(c, code, what, diag)) != TW_OK) return st;
    if (m->dynamic_shared + fixed <= FREE_SHARED) return TW_OK;
    if (m->dynamic_shared + fixed > c->info.shared_block)
        return tw_fail(diag, TW_ERR_UNSUPPORTED,
                       "kernel %s needs %lld bytes of shared memory, and a block of %s has %d", m->kernel,
                       (long long)m->dynamic_shared + fixed, c->info.name, c->info.shared_block);
    code = d->cuFuncSetAttribute(m->function, TW_DRV_FUNC_MAX_DYNAMIC_SHARED, (int)m->dynamic_shared);
    return tw_cuda_result(c, code, "get so much shared memory", diag);
}

tw_status tw_cuda_load(tw_cuda *c, tw_cuda_module **out, const void *cubin, size_t bytes, const char *kernel,
                       int64_t dynamic_shared, tw_diag *diag) {
    *out = NULL;
    if (bytes == 0) return tw_fail(diag, TW_ERR_USAGE, "no machine code for kernel %s", kernel);
    if (dynamic_shared < 0 || dynamic_shared > INT_MAX)
        return tw_fail(diag, TW_ERR_USAGE, "%lld bytes of shared memory", (long long)dynamic_shared);
    tw_status st = tw_cuda_enter(c, diag);
    if (st != TW_OK) return st;
    tw_cuda_module *m = calloc(1, sizeof *m);
    if (!m) return tw_fail_memory(diag);
    m->cuda = c;
    m->dynamic_shared = dynamic_shared;
    snprintf(m->kernel, sizeof m->kernel, "%s", kernel);
    st = load(m, cubin, kernel, diag);
    if (st != TW_OK) {
        tw_cuda_unload(m);
        return st;
    }
    *out = m;
    return TW_OK;
}

void tw_cuda_unload(tw_cuda_module *m) {
    if (!m) return;
    if (m->module && tw_cuda_enter(m->cuda, NULL) == TW_OK) m->cuda->driver.cuModuleUnload(m->module);
    free(m);
}

tw_status tw_cuda_module_resources(tw_cuda_module *m, int threads, int64_t dynamic_shared, tw_cuda_resources *r,
                                   tw_diag *diag) {
    const tw_driver *d = &m->cuda->driver;
    *r = (tw_cuda_resources){0};
    tw_status st = tw_cuda_enter(m->cuda, diag);
    if (st != TW_OK) return st;
    int code = d->cuFuncGetAttribute(&r->registers, TW_DRV_FUNC_REGISTERS, m->function);
    if (code == 0) code = d->cuFuncGetAttribute(&r->shared_bytes, TW_DRV_FUNC_SHARED, m->function);
    if (code == 0) code = d->cuFuncGetAttribute(&r->local_bytes, TW_DRV_FUNC_LOCAL, m->function);
    if (code == 0) code = d->cuFuncGetAttribute(&r->max_threads, TW_DRV_FUNC_MAX_THREADS, m->function);
    if (code == 0)
        code = d->cuOccupancyMaxActiveBlocksPerMultiprocessor(&r->blocks_per_sm, m->function, threads,
                                                              (size_t)dynamic_shared);
    return tw_cuda_result(m->cuda, code, "ask for a kernel's resources", diag);
}

/* What a plain launch cannot say. */
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

static int launch_with_attributes(tw_cuda *c, const tw_cuda_launch *l, void **parameters) {
    tw_driver_attribute attributes[3] = {{0}};
    unsigned n = 0;
    if (l->cluster > PORTABLE_CLUSTER && !l->module->large_clusters) {
        int code = c->driver.cuFuncSetAttribute(l->module->function, TW_DRV_FUNC_LARGE_CLUSTERS, 1);
        if (code != 0) return code;
        l->module->large_clusters = true;
    }
    if (l->cluster > 1) {
        attributes[n].id = TW_DRV_ATTR_CLUSTER;
        attributes[n].value.cluster.x = (unsigned)l->cluster;
        attributes[n].value.cluster.y = attributes[n].value.cluster.z = 1;
        n++;
    }
    if (l->cooperative) {
        attributes[n].id = TW_DRV_ATTR_COOPERATIVE;
        attributes[n].value.cooperative = 1;
        n++;
    }
    if (l->programmatic) {
        attributes[n].id = TW_DRV_ATTR_PROGRAMMATIC;
        attributes[n].value.programmatic = 1;
        n++;
    }
    tw_driver_launch config = {{(unsigned)l->grid[0], (unsigned)l->grid[1], (unsigned)l->grid[2]},
                               {(unsigned)l->threads, 1, 1},
                               (unsigned)l->dynamic_shared,
                               c->stream,
                               attributes,
                               n};
    return c->driver.cuLaunchKernelEx(&config, l->module->function, parameters, NULL);
}

/* A tensor map as the device has it. */
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

/* The driver copies as many bytes of each argument as the kernel's parameter has; a word's low ones come first. */
static tw_status place_arguments(tw_cuda *c, const tw_cuda_launch *l, uint64_t *words, encoded *maps, void **parameters,
                                 tw_diag *diag) {
    for (int i = 0; i < l->n_arguments; i++) {
        words[i] = l->arguments[i];
        parameters[i] = &words[i];
        if (l->argument_bytes[i] != TW_TENSOR_MAP_BYTES) continue;
        if (maps->n == MAX_MAPS) return tw_fail(diag, TW_ERR_USAGE, "more than %d tensor maps", MAX_MAPS);
        parameters[i] = maps->map[maps->n++];
        tw_status st = encode(c, (const tw_tensor_map *)(uintptr_t)words[i], parameters[i], diag);
        if (st != TW_OK) return st;
    }
    return TW_OK;
}

tw_status tw_cuda_run(tw_cuda *c, const tw_cuda_launch *l, tw_diag *diag) {
    void *parameters[MAX_ARGUMENTS];
    uint64_t words[MAX_ARGUMENTS];
    tw_status st = check_launch(c, l, diag);
    encoded maps = {.n = 0};
    if (st == TW_OK) st = tw_cuda_enter(c, diag);
    if (st == TW_OK) st = place_arguments(c, l, words, &maps, parameters, diag);
    if (st != TW_OK) return st;
    int code = has_attributes(l)
                   ? launch_with_attributes(c, l, parameters)
                   : c->driver.cuLaunchKernel(l->module->function, (unsigned)l->grid[0], (unsigned)l->grid[1],
                                              (unsigned)l->grid[2], (unsigned)l->threads, 1, 1,
                                              (unsigned)l->dynamic_shared, c->stream, parameters, NULL);
    if (code == 0) {
        snprintf(c->launched, sizeof c->launched, "%s", l->module->kernel);
        return TW_OK;
    }
    char what[192];
    snprintf(what, sizeof what, "launch kernel %s", l->module->kernel);
    return tw_cuda_result(c, code, what, diag);
}
