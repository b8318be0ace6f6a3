/* SPDX-License-Identifier: Apache-2.0 */
/* The kind of kernel "gemm": turns words into a kernel, its buffers and its launch. */
#define _POSIX_C_SOURCE 200809L
#include "base/diag.h"
#include "base/divide.h"
#include "ir/passes/passes.h"
#include "kernels/gemm/generate.h"
#include "kernels/plan.h"
#include "ptx/ptx.h"

#include <string.h>

static tw_kernel *make(const tw_gemm_frame *f, const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t,
                       bool verify, tw_diag *diag) {
    const char *why;
    if (!tw_gemm_legal(p, c, t, NULL, &why)) {
        tw_fail(diag, TW_ERR_USAGE, "the configuration is not legal: %s", why);
        return NULL;
    }
    const tw_gemm_variant v = tw_gemm_variant_of(p, c);
    tw_kernel *k = tw_gemm_build_frame(f, &v, c, t);
    if (!k) tw_fail_memory(diag);
    if (!k || tw_pipeline_default(k, verify, diag) == TW_OK) return k;
    tw_kernel_free(k);
    return NULL;
}

tw_kernel *tw_gemm_make(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t, bool verify,
                        tw_diag *diag) {
    return make(&tw_gemm_plain_frame, p, c, t, verify, diag);
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

tw_status tw_gemm_problem_parse(tw_gemm_problem *p, char *words, tw_diag *diag) {
    char *save = NULL;
    tw_status st = TW_OK;
    *p = (tw_gemm_problem){.alpha = 1};
    for (char *w = strtok_r(words, " ", &save); w && st == TW_OK; w = strtok_r(NULL, " ", &save))
        if (!tw_gemm_problem_word(p, w, &st, diag) && st == TW_OK)
            st = tw_fail(diag, TW_ERR_USAGE, "\"%s\": says nothing of a product", w);
    return st == TW_OK ? tw_gemm_problem_complete(p, diag) : st;
}

static tw_status parse(tw_gemm_problem *p, tw_gemm_config *c, char *words, char *configuration, tw_diag *diag) {
    const tw_status st = tw_gemm_problem_parse(p, words, diag);
    if (st != TW_OK) return st;
    *c = tw_gemm_config_default(p);
    return tw_gemm_config_parse(c, configuration, diag);
}

static bool is_scale(int buffer) {
    return buffer >= TW_GEMM_SCALE_ROWS && buffer <= TW_GEMM_SCALE_B;
}

void tw_gemm_describe_buffers(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_gemm_resources *need,
                              tw_gpu_buffer out[TW_GEMM_BUFFERS]) {
    const tw_gemm_variant v = tw_gemm_variant_of(p, c);
    for (int i = 0; i < TW_GEMM_MATRICES; i++) {
        const tw_gemm_matrix m = tw_gemm_matrix_of(p, (tw_gemm_buffer)i);
        const bool is_x = i == (c->swap ? TW_GEMM_B : TW_GEMM_A);
        const bool pairs = is_scale(i) || (i == TW_GEMM_ROW_SUMS && p->centred);
        const int align = pairs                                       ? 8 /* They are loaded together. */
                          : i == TW_GEMM_SCALES || i == TW_GEMM_GAINS ? 16
                          : i == TW_GEMM_RESIDUAL_GAINS               ? v.vec_c
                          : i >= TW_GEMM_ENDS                         ? 4
                          : i >= TW_GEMM_C                            ? v.vec_c
                          : tw_gemm_way_of(c)->tensor_copies          ? 16
                          : is_x                                      ? v.vec_a
                                                                      : v.vec_b;
        out[i] = (tw_gpu_buffer){tw_gemm_buffer_names[i], tw_gemm_matrix_bytes(&m), align, .written = i == TW_GEMM_C};
        if (i == TW_GEMM_B && p->tape.warps) out[i].bytes = (size_t)tw_gemm_tape_entries(p) * sizeof(tw_gemm_unit);
        if (tw_gemm_by_pointers(p, (tw_gemm_buffer)i))
            out[i] = (tw_gpu_buffer){tw_gemm_buffer_names[i], (size_t)m.count * TW_GEMM_POINTER, TW_GEMM_POINTER,
                                     .written = false};
    }
    const int64_t vectors = p->epilogue.squares ? tw_gemm_squares_of(p, c).vectors : 0;
    out[TW_GEMM_SQUARES] =
        (tw_gpu_buffer){"squares", (size_t)(vectors * p->m) * 4, p->epilogue.means ? 8 : 4, .written = true};
    out[TW_GEMM_SCALED] =
        (tw_gpu_buffer){"scaled", p->epilogue.scaled ? (size_t)(p->m * p->n) * 2 : 0, 8, .written = true};
    out[TW_GEMM_WORKSPACE] = (tw_gpu_buffer){"workspace", (size_t)need->workspace_bytes, 16, .written = true,
                                             .zeroed = c->kg > 1 && c->split == TW_JOIN_ATOMIC};
    out[TW_GEMM_COUNTERS] =
        (tw_gpu_buffer){"counters", (size_t)need->counter_bytes, 4, .written = true, .zeroed = true};
}

tw_status tw_gemm_plan_words(tw_plan *out, char *words, char *configuration, const tw_target *target, tw_diag *diag) {
    return tw_gemm_plan_frame(out, &tw_gemm_plain_frame, words, configuration, target, diag);
}

tw_status tw_gemm_plan_frame(tw_plan *out, const tw_gemm_frame *f, char *words, char *configuration,
                             const tw_target *target, tw_diag *diag) {
    tw_gemm_problem p;
    tw_gemm_config c;
    tw_gemm_resources need;
    tw_status st = parse(&p, &c, words, configuration, diag);
    if (st != TW_OK) return st;
    out->kernel = make(f, &p, &c, target, false, diag);
    if (!out->kernel) return diag->status;
    tw_gemm_legal(&p, &c, target, &need, NULL);
    const tw_gemm_buffers nowhere = {0};
    tw_gemm_launch_of(&p, &c, &nowhere, &out->launch);
    tw_gpu_buffer buffers[TW_GEMM_BUFFERS];
    tw_gemm_describe_buffers(&p, &c, &need, buffers);
    for (int i = 0; i < TW_GEMM_BUFFERS; i++)
        if (buffers[i].bytes) out->buffers[out->n_buffers++] = buffers[i];
    tw_gemm_problem_print(&p, out->problem, sizeof out->problem);
    tw_gemm_config_print(&c, out->configuration, sizeof out->configuration);
    return TW_OK;
}
