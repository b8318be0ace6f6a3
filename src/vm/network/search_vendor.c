/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring the vendor's algorithms for a product with a cold L2. What the vendor does not compute, a map behind it
   does, as in passes. The map reads what the vendor rounded. */
#include "base/clock.h"
#include "base/diag.h"
#include "tune/gemm_bench.h"
#include "tune/gemm_vendor.h"
#include "vm/network/machine.h"

#include <stdio.h>
#include <stdlib.h>

/* An algorithm and the map behind it. */
typedef struct way {
    tw_gemm_vendor vendor;
    const tw_gemm_epilogue *epilogue;
    tw_gpu_kernel *kernel;
    tw_gpu_launch *map; /* NULL: the vendor computes all. */
} way;

/* The address of a buffer of the map, whose operand 0 and result are C. */
static uint64_t buffer_of(const way *w, const tw_gemm_buffers *b, const char *name) {
    static const tw_gemm_buffer of[] = {TW_GEMM_BIAS, TW_GEMM_MUL, TW_GEMM_RESIDUAL};
    const bool has[] = {w->epilogue->bias, w->epilogue->mul, w->epilogue->residual};
    int at = *name == 'x' ? atoi(name + 1) : 0;
    for (int i = 0; i < 3 && at; i++)
        if (has[i] && !--at) return b->of[of[i]];
    return b->of[TW_GEMM_C];
}

static tw_status enqueue(void *context, const tw_gemm_buffers *b, tw_diag *diag) {
    way *w = context;
    const tw_gemm_candidate product = tw_gemm_vendor_candidate(&w->vendor);
    tw_status st = product.enqueue(product.context, b, diag);
    for (int i = 0; w->map && i < tw_gpu_kernel_buffers(w->kernel) && st == TW_OK; i++) {
        const char *name = tw_gpu_kernel_buffer(w->kernel, i)->name;
        st = tw_gpu_launch_bind(w->map, name, buffer_of(w, b, name), diag);
    }
    return st == TW_OK && w->map ? tw_gpu_launch_run(w->map, NULL, diag) : st;
}

static tw_status open_map(tw_cuda_network *n, const tw_gemm_problem *p, way *w, tw_diag *diag) {
    const tw_map_problem *map = tw_network_epilogue(n, p);
    w->epilogue = &p->epilogue;
    if (n->arena.failed) return tw_fail_memory(diag);
    tw_status st = map ? tw_kernel_open_made(&w->kernel, n->gpu, tw_map_plan, map, diag) : TW_OK;
    return st == TW_OK && map ? tw_gpu_launch_open(&w->map, w->kernel, diag) : st;
}

/* Times the vendor's algorithms, each with the map behind it. Returns the index of the fastest one whose result is
   right, and sets *us to its time. -1: there is none. */
static int fastest(tw_cuda_network *n, tw_gemm_rig *rig, const tw_gemm_problem *p, way *w, double *us) {
    tw_cublaslt_plan *plan = w->vendor.plan;
    const tw_gemm_candidate x = {.enqueue = enqueue, .context = w, .rounds_twice = w->map};
    tw_cublaslt_algorithm a;
    int best = -1;
    *us = 1e30;
    for (int i = 0; i < tw_cublaslt_algorithms(plan); i++) {
        tw_stats stats = {0};
        w->vendor.index = i;
        if (!tw_network_may_split(n, p) && (tw_cublaslt_describe(plan, i, &a, NULL) != TW_OK || a.split > 1)) continue;
        if (tw_gemm_time(rig, &x, &stats, NULL) != TW_OK || stats.median >= *us) continue;
        *us = stats.median;
        best = i;
    }
    n->plan->measured += tw_cublaslt_algorithms(plan);
    return best;
}

static tw_status enter(tw_cuda_network *n, const way *w, int at, const char *words, double us, tw_diag *diag) {
    tw_cublaslt_algorithm a;
    char text[256];
    const tw_status st = tw_cublaslt_describe(w->vendor.plan, at, &a, diag);
    if (st != TW_OK) return st;
    snprintf(text, sizeof text, "%u %u %u %u %u %u %u %u %u", a.id, a.tile, a.split, a.reduction, a.swizzle, a.custom,
             a.stages, a.inner, a.cluster);
    return tw_network_plan_add(n->plan, &(tw_network_choice){"cublaslt", words, text, us, false}, diag);
}

tw_status tw_network_search_vendor(tw_cuda_network *n, tw_gemm_rig *rig, const tw_gemm_problem *p, const char *words,
                                   tw_diag *diag) {
    const int64_t began = tw_now_ns();
    const tw_gemm_problem plain = tw_network_plain(p);
    way w = {{NULL, 0}, NULL, NULL, NULL};
    double us = 1e30;
    if (tw_network_own_alone(p)) return TW_OK;
    tw_status st = tw_gemm_vendor_plan(tw_network_library(n), &plain, &w.vendor.plan, diag);
    if (st != TW_OK || !w.vendor.plan) return st;
    st = open_map(n, p, &w, diag);
    const int best = st == TW_OK ? fastest(n, rig, p, &w, &us) : -1;
    if (best >= 0) st = enter(n, &w, best, words, us, diag);
    tw_gpu_launch_close(w.map);
    tw_gpu_kernel_close(w.kernel);
    tw_cublaslt_plan_free(w.vendor.plan);
    n->plan->costs.vendor += (double)(tw_now_ns() - began) * 1e-9;
    return st;
}
