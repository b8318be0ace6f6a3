/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/driver.h"

#include "base/diag.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FREE_SHARED = 48 << 10 /* More shared memory than this needs a function attribute. */ };

/* Returns the name of a kernel, kept by `c`. NULL: no memory. */
static const char *name_of(tw_cuda *c, const char *kernel) {
    tw_cuda_name *n;
    for (n = c->names; n; n = n->next)
        if (!strncmp(n->text, kernel, sizeof n->text - 1)) return n->text;
    n = malloc(sizeof *n);
    if (!n) return NULL;
    snprintf(n->text, sizeof n->text, "%s", kernel);
    n->next = c->names;
    c->names = n;
    return n->text;
}

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
    m->kernel = name_of(c, kernel);
    st = m->kernel ? load(m, cubin, kernel, diag) : tw_fail_memory(diag);
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
