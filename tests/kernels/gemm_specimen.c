/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gemm_specimen.h"

#include "support/support.h"

gemm_specimen gemm_specimen_make(int has, int variant) {
    static const tw_gemm_type plain[] = {TW_GEMM_F32, TW_GEMM_F64, TW_GEMM_F32, TW_GEMM_S8, TW_GEMM_F16},
                              tensor[] = {TW_GEMM_F16, TW_GEMM_BF16, TW_GEMM_TF32, TW_GEMM_S8, TW_GEMM_F16};
    gemm_specimen s = {.target = tw_target_find(variant & 1 && !(has & CLUSTER) ? "sm_80" : "sm_90a")};
    const bool mma = has & TENSOR, split = has & (LAST | SERIAL | ATOMIC | CLUSTER);
    const int kl = has & KL ? 2 << variant % 2 : 1, stages = has & ONE ? 1 : has & TWO ? 2 : 2 + (variant + 1) % 3;
    const int u = (mma ? 32 : 8) * kl, kg = split ? 2 + variant % 3 : 1;
    /* The last stage is the first one's place, where the groups join. */
    s.count = 2 * stages + 1;
    s.config = (tw_gemm_config){.mma = mma,
                                .ms = mma ? 16 : 4,
                                .ns = mma ? 16 : 4,
                                .ml = 32,
                                .nl = 32,
                                .u = u,
                                .ks = 1,
                                .kl = kl,
                                .kg = kg,
                                .vec = 16,
                                .frag = 16,
                                .copy = has & (ONE | TWO) ? 1 : 0,
                                .stages = stages,
                                .split = has & SERIAL    ? TW_JOIN_SERIAL
                                         : has & ATOMIC  ? TW_JOIN_ATOMIC
                                         : has & CLUSTER ? TW_JOIN_CLUSTER
                                                         : TW_JOIN_LAST,
                                .group = 1 + variant % 2};
    tw_gemm_problem *p = &s.problem;
    *p = (tw_gemm_problem){.type = has & F32 ? TW_GEMM_F32 : (mma ? tensor : plain)[variant],
                           .m = has & RAGGED_M ? 60 : 64,
                           .n = has & RAGGED_N ? 60 : 64,
                           .k = (int64_t)u * s.count * kg - (has & RAGGED_K ? 4 : 0),
                           .alpha = 1,
                           .beta = variant % 2,
                           .batch = has & BATCH ? 2 : 1,
                           .epilogue.bias = has & BIAS};
    if (!(has & VECTORS)) {
        p->trans_a = variant >> 1 & 1;
        p->trans_b = variant & 1;
    }
    /* Rows of whole vectors, or, in turn, of single copies; C's with room for what is beyond a ragged edge. */
    const int64_t pad = variant % 3 == 2 && !(has & VECTORS) ? 4 : 16;
    p->lda = ((p->trans_a ? p->m : p->k) + pad - 1) / pad * pad;
    p->ldb = ((p->trans_b ? p->k : p->n) + pad - 1) / pad * pad;
    p->ldc = p->n + 8;
    tw_diag d;
    const char *why = NULL;
    if (tw_gemm_problem_complete(p, &d) != TW_OK) fail_msg("%s", d.message);
    if (!tw_gemm_legal(p, &s.config, s.target, NULL, &why)) fail_msg("variant %d: %s", variant, why);
    tw_gemm_variant v = tw_gemm_variant_of(p, &s.config);
    tw_gemm_plan_of(&v, &s.config, s.target, &s.plan);
    s.whole_k = v.whole_k;
    return s;
}
