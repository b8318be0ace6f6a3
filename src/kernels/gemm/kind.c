/* SPDX-License-Identifier: Apache-2.0 */
/* The kind of kernel "gemm": turns words into a kernel, its buffers and its launch. */
#define _POSIX_C_SOURCE 200809L
#include "base/diag.h"
#include "ir/passes/passes.h"
#include "kernels/gemm/generate.h"
#include "kernels/plan.h"
#include "ptx/ptx.h"

#include <string.h>

tw_kernel *tw_gemm_make(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t, bool verify,
                        tw_diag *diag) {
    const tw_gemm_variant v = tw_gemm_variant_of(p, c);
    tw_kernel *k = tw_gemm_build(&v, c, t);
    if (!k) tw_fail_memory(diag);
    if (!k || tw_pipeline_default(k, verify, diag) == TW_OK) return k;
    tw_kernel_free(k);
    return NULL;
}

tw_status tw_gemm_ptx(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t, tw_buf *ptx,
                      tw_diag *diag) {
    tw_diag own;
    if (!diag) diag = &own;
    tw_kernel *k = tw_gemm_make(p, c, t, false, diag);
    const tw_status st = k ? tw_ptx_print(ptx, k, t, diag) : diag->status;
    tw_kernel_free(k);
    return st;
}

static tw_status parse(tw_gemm_problem *p, tw_gemm_config *c, char *words, char *configuration, tw_diag *diag) {
    char *save = NULL;
    tw_status st = TW_OK;
    *p = (tw_gemm_problem){.alpha = 1};
    for (char *w = strtok_r(words, " ", &save); w && st == TW_OK; w = strtok_r(NULL, " ", &save))
        if (!tw_gemm_problem_word(p, w, &st, diag) && st == TW_OK)
            st = tw_fail(diag, TW_ERR_USAGE, "\"%s\": says nothing of a product", w);
    if (st == TW_OK) st = tw_gemm_problem_complete(p, diag);
    if (st != TW_OK) return st;
    *c = tw_gemm_config_default(p);
    return tw_gemm_config_parse(c, configuration, diag);
}

static void add_buffer(tw_plan *plan, const char *name, size_t bytes, int align, bool written, bool zeroed) {
    plan->buffers[plan->n_buffers++] =
        (tw_gpu_buffer){.name = name, .bytes = bytes, .align = align, .written = written, .zeroed = zeroed};
}

/* Computes the bytes of a matrix, or of a batch of them, from the first element to the last. */
static size_t extent(int64_t rows, int64_t columns, int64_t ld, int64_t batch, int64_t stride, int element) {
    const int64_t between = stride > 0 && batch > 1 ? (batch - 1) * stride : 0;
    return (size_t)((between + (rows - 1) * ld + columns) * element);
}

static void add_buffers(tw_plan *plan, const tw_gemm_problem *p, const tw_gemm_config *c,
                        const tw_gemm_resources *need) {
    const tw_gemm_variant v = tw_gemm_variant_of(p, c);
    const int es = tw_type_bits(tw_gemm_element(p->type)) / 8, out = tw_type_bits(p->out) / 8;
    const bool aligned = tw_gemm_way_of(c)->tensor_copies;
    const int vec_a = aligned ? 16 : c->swap ? v.vec_b : v.vec_a, vec_b = aligned ? 16 : c->swap ? v.vec_a : v.vec_b;
    const size_t bytes_c = extent(p->m, p->n, p->ldc, p->batch, p->stride_c, out);
    add_buffer(plan, "a", extent(p->trans_a ? p->k : p->m, p->trans_a ? p->m : p->k, p->lda, p->batch, p->stride_a, es),
               vec_a, false, false);
    add_buffer(plan, "b", extent(p->trans_b ? p->n : p->k, p->trans_b ? p->k : p->n, p->ldb, p->batch, p->stride_b, es),
               vec_b, false, false);
    add_buffer(plan, "c", bytes_c, v.vec_c, true, false);
    if (p->epilogue.bias) add_buffer(plan, "bias", (size_t)(p->n * out), v.vec_c, false, false);
    if (p->epilogue.mul) add_buffer(plan, "mul", bytes_c, v.vec_c, false, false);
    if (p->epilogue.residual) add_buffer(plan, "residual", bytes_c, v.vec_c, false, false);
    if (!need->counter_bytes) return;
    add_buffer(plan, "workspace", (size_t)need->workspace_bytes, 16, true, c->split == TW_GEMM_SPLIT_ATOMIC);
    add_buffer(plan, "counters", (size_t)need->counter_bytes, 4, true, true);
}

tw_status tw_gemm_plan_words(tw_plan *out, char *words, char *configuration, const tw_target *target, tw_diag *diag) {
    tw_gemm_problem p;
    tw_gemm_config c;
    tw_gemm_resources need;
    const char *why = NULL;
    tw_status st = parse(&p, &c, words, configuration, diag);
    if (st != TW_OK) return st;
    if (!tw_gemm_legal(&p, &c, target, &need, &why))
        return tw_fail(diag, TW_ERR_USAGE, "the configuration is not legal: %s", why);
    const tw_gemm_buffers nowhere = {0};
    tw_gemm_launch_of(&p, &c, &nowhere, &out->launch);
    add_buffers(out, &p, &c, &need);
    tw_gemm_problem_print(&p, out->problem, sizeof out->problem);
    tw_gemm_config_print(&c, out->configuration, sizeof out->configuration);
    out->kernel = tw_gemm_make(&p, &c, target, false, diag);
    return out->kernel ? TW_OK : diag->status;
}
