/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_kernels.h"

#include "base/diag.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_LEAST = 256 };

/* A compiled kernel. */
typedef struct kernel {
    tw_gemm_config config;
    tw_gemm_variant variant;
    tw_cubin cubin;
    tw_status status; /* Result of the compilation. TW_ERR_MEMORY until it is done. */
    tw_diag *why;     /* The compiler's error. NULL: there is none. */
} kernel;

struct tw_gemm_kernels {
    tw_cuda *cuda;
    tw_ptx_compiler by;
    kernel **slots; /* A hash table with open addressing. */
    size_t room, n;
};

tw_status tw_gemm_kernels_make(tw_gemm_kernels **out, tw_cuda *c, tw_diag *diag) {
    tw_gemm_kernels *k = calloc(1, sizeof *k);
    *out = k;
    if (!k) return tw_fail_memory(diag);
    k->cuda = c;
    k->by = tw_ptx_compiler_for(c, true);
    return TW_OK;
}

static void drop(kernel *x) {
    if (!x) return;
    tw_cubin_free(&x->cubin);
    free(x->why);
    free(x);
}

void tw_gemm_kernels_free(tw_gemm_kernels *k) {
    if (!k) return;
    for (size_t i = 0; i < k->room; i++) drop(k->slots[i]);
    free(k->slots);
    free(k);
}

/* Finds the slot of a kernel, or the free slot where it belongs. */
static size_t find(kernel *const *slots, size_t room, const tw_gemm_config *c, const tw_gemm_variant *v) {
    uint64_t sum[2];
    tw_hash h = tw_hash_begin();
    tw_hash_add(&h, c, sizeof *c);
    tw_hash_end(&h, sum);
    for (size_t i = sum[0] % room;; i = (i + 1) % room)
        if (!slots[i] || (!memcmp(&slots[i]->config, c, sizeof *c) && !memcmp(&slots[i]->variant, v, sizeof *v)))
            return i;
}

static bool grow(tw_gemm_kernels *k) {
    if (2 * k->n < k->room) return true;
    const size_t room = k->room ? 2 * k->room : SLOTS_LEAST;
    kernel **wider = calloc(room, sizeof(kernel *));
    if (!wider) return false;
    for (size_t i = 0; i < k->room; i++)
        if (k->slots[i]) wider[find(wider, room, &k->slots[i]->config, &k->slots[i]->variant)] = k->slots[i];
    free(k->slots);
    k->slots = wider;
    k->room = room;
    return true;
}

/* Adds the kernels that the table lacks, and lists them. */
static tw_status list_new(tw_gemm_kernels *k, const tw_gemm_problem *p, const tw_gemm_config *configs, int n,
                          kernel **fresh, int *count, tw_diag *diag) {
    for (int i = 0; i < n; i++) {
        if (!tw_gemm_legal(p, &configs[i], tw_cuda_describe(k->cuda)->target, NULL, NULL)) continue;
        const tw_gemm_variant v = tw_gemm_variant_of(p, &configs[i]);
        if (!grow(k)) return tw_fail_memory(diag);
        const size_t at = find(k->slots, k->room, &configs[i], &v);
        if (k->slots[at]) continue;
        kernel *x = calloc(1, sizeof *x);
        if (!x) return tw_fail_memory(diag);
        x->config = configs[i];
        x->variant = v;
        x->status = TW_ERR_MEMORY;
        k->slots[at] = x;
        k->n++;
        fresh[(*count)++] = x;
    }
    return TW_OK;
}

tw_status tw_gemm_kernels_prepare(tw_gemm_kernels *k, const tw_gemm_problem *p, const tw_gemm_config *configs, int n,
                                  tw_diag *diag) {
    kernel **fresh = calloc((size_t)n + 1, sizeof(kernel *));
    tw_buf *ptx = calloc((size_t)n + 1, sizeof *ptx);
    tw_ptx_job *jobs = calloc((size_t)n + 1, sizeof *jobs);
    const tw_target *target = tw_cuda_describe(k->cuda)->target;
    int count = 0;
    tw_status st = fresh && ptx && jobs ? list_new(k, p, configs, n, fresh, &count, diag) : tw_fail_memory(diag);
    for (int i = 0; i < count && st == TW_OK; i++) {
        st = tw_gemm_ptx(p, &fresh[i]->config, target, &ptx[i], diag);
        jobs[i] = (tw_ptx_job){.ptx = ptx[i].data, .bytes = ptx[i].size};
    }
    if (st == TW_OK) tw_ptx_compile_all_by(&k->by, jobs, count, 0);
    for (int i = 0; i < count && st == TW_OK; i++) {
        fresh[i]->cubin = jobs[i].cubin;
        fresh[i]->status = jobs[i].status;
        if (jobs[i].status != TW_OK && (fresh[i]->why = malloc(sizeof *fresh[i]->why))) *fresh[i]->why = jobs[i].diag;
    }
    for (int i = 0; i < n && ptx; i++) tw_buf_free(&ptx[i]);
    free(fresh);
    free(ptx);
    free(jobs);
    return st;
}

tw_status tw_gemm_kernels_load(tw_gemm_kernels *k, tw_gemm_rig *rig, const tw_gemm_problem *p, const tw_gemm_config *c,
                               tw_gemm_own *own, tw_diag *diag) {
    const tw_gemm_variant v = tw_gemm_variant_of(p, c);
    const kernel *x = k->room ? k->slots[find(k->slots, k->room, c, &v)] : NULL;
    const char *why = NULL;
    *own = (tw_gemm_own){0};
    if (!tw_gemm_legal(p, c, tw_cuda_describe(k->cuda)->target, NULL, &why))
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "the configuration is not legal: %s", why);
    if (!x) return tw_fail(diag, TW_ERR_USAGE, "the kernel was not prepared");
    if (x->status != TW_OK) {
        if (!x->why) return tw_fail_memory(diag);
        if (diag) *diag = *x->why;
        return x->status;
    }
    return tw_gemm_own_load(own, rig, c, x->cubin.data, x->cubin.bytes, diag);
}
