/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_vendor.h"

static tw_status enqueue(void *context, const tw_gemm_buffers *b, tw_diag *diag) {
    const tw_gemm_vendor *v = context;
    const uint64_t *const of = b->of;
    tw_status st = TW_OK;
    if (of[TW_GEMM_SCALE_A]) st = tw_cublaslt_scale(v->plan, of[TW_GEMM_SCALE_B], of[TW_GEMM_SCALE_A], diag);
    if (of[TW_GEMM_SCALE_ROWS])
        st = tw_cublaslt_scale(v->plan, of[TW_GEMM_SCALE_COLUMNS], of[TW_GEMM_SCALE_ROWS], diag);
    if (st != TW_OK) return st;
    /* cuBLASLt is column-major: a row-major product is its product with exchanged factors. */
    const uint64_t matrix = b->matrix_b ? b->matrix_b : of[TW_GEMM_B];
    return tw_cublaslt_run(v->plan, v->index, matrix, b->of[TW_GEMM_A], b->of[TW_GEMM_C], NULL, diag);
}

tw_gemm_candidate tw_gemm_vendor_candidate(tw_gemm_vendor *v) {
    return (tw_gemm_candidate){.enqueue = enqueue, .context = v};
}

/* Finds the library's scales of a problem. Returns false if it has none like them. */
static bool scales_of(const tw_gemm_problem *p, tw_cublaslt_scales *out) {
    const bool rows = p->epilogue.scale_rows, columns = p->epilogue.scale_columns;
    *out = p->scale_blocks ? TW_CUBLASLT_BLOCKS : rows ? TW_CUBLASLT_OUTER : TW_CUBLASLT_UNSCALED;
    if (p->scale_blocks) return !rows && !columns && p->k % (4 * TW_GEMM_BLOCK) == 0;
    return rows == columns && (!rows || (p->type == TW_GEMM_E4M3 && p->batch == 1));
}

bool tw_gemm_vendor_problem(const tw_gemm_problem *p, tw_cublaslt_problem *out) {
    static const tw_cublaslt_type types[TW_GEMM_TYPES] = {
        [TW_GEMM_F32] = TW_CUBLASLT_F32,   [TW_GEMM_F64] = TW_CUBLASLT_F64,   [TW_GEMM_F16] = TW_CUBLASLT_F16,
        [TW_GEMM_BF16] = TW_CUBLASLT_BF16, [TW_GEMM_TF32] = TW_CUBLASLT_TF32, [TW_GEMM_S8] = TW_CUBLASLT_S8,
        [TW_GEMM_E4M3] = TW_CUBLASLT_E4M3, [TW_GEMM_TF32X3] = TW_CUBLASLT_F32};
    /* cuBLASLt writes one type of C for each type of A, and for f16, bf16 and e4m3 also f32. */
    const bool f32_too = p->type == TW_GEMM_F16 || p->type == TW_GEMM_BF16 || p->type == TW_GEMM_E4M3,
               c_f32 = f32_too && p->out == TW_T_f32;
    const tw_gemm_epilogue *e = &p->epilogue;
    tw_cublaslt_scales scales;
    if (p->groups || p->pointers || p->sets > 1 || p->epilogue.gated || p->narrow || p->addends ||
        !scales_of(p, &scales))
        return false;
    *out = (tw_cublaslt_problem){
        .type = types[p->type],
        .m = p->n,
        .n = p->m,
        .k = p->k,
        .trans_a = p->trans_b,
        .trans_b = p->trans_a,
        .c_f32 = c_f32,
        .lda = p->ldb,
        .ldb = p->lda,
        .ldc = p->ldc,
        .batch = (int)p->batch,
        .stride_a = p->stride_b > 0 ? p->stride_b : 0,
        .stride_b = p->stride_a > 0 ? p->stride_a : 0,
        .stride_c = p->stride_c,
        .alpha = p->alpha,
        .beta = p->beta,
        .scales = scales,
        .fast_sums = !p->promote,
    };
    if (p->out != tw_gemm_types[p->type].out && !c_f32) return false;
    return !(e->bias || e->mul || e->residual || e->activation || e->squares || e->scaled || p->sums);
}

tw_status tw_gemm_vendor_plan(tw_cublaslt *vendor, const tw_gemm_problem *p, tw_cublaslt_plan **plan, tw_diag *diag) {
    tw_cublaslt_problem v;
    *plan = NULL;
    if (!vendor || !tw_gemm_vendor_problem(p, &v)) return TW_OK;
    const tw_status st =
        tw_cublaslt_plan_make(vendor, &v, TW_GEMM_VENDOR_ALGORITHMS, TW_GEMM_VENDOR_WORKSPACE, plan, diag);
    return st == TW_ERR_UNSUPPORTED ? TW_OK : st;
}
