/* SPDX-License-Identifier: Apache-2.0 */
/* Which products of a program count as one in a search. Layers have the same products, but those of the first and the
   last one may differ in what is added to them, or in norms. What is measured is what most of them have, so that a
   product of which there is one is not searched by itself. */
#include "base/divide.h"
#include "vm/network/machine.h"

#include <string.h>

/* Tells whether two steps are products of matrices that lie alike, with the same activation. */
static bool same_product(const tw_step *a, const tw_step *b) {
    const tw_program_product *x = &a->of.product, *y = &b->of.product;
    if (a->kind != TW_STEP_PRODUCT || b->kind != TW_STEP_PRODUCT) return false;
    const bool same = x->type == y->type && x->out == y->out && x->m == y->m && x->n == y->n && x->k == y->k &&
                      x->trans_a == y->trans_a && x->trans_b == y->trans_b && x->lda == y->lda && x->ldb == y->ldb &&
                      x->ldc == y->ldc && x->alpha == y->alpha && x->activation == y->activation &&
                      x->gated == y->gated;
    return same && !memcmp(x->batch, y->batch, sizeof x->batch) &&
           !memcmp(x->stride_a, y->stride_a, sizeof x->stride_a) &&
           !memcmp(x->stride_b, y->stride_b, sizeof x->stride_b) &&
           !memcmp(x->stride_c, y->stride_c, sizeof x->stride_c);
}

/* Tells whether such steps have the same operands, norms and results. */
static bool same_epilogue(const tw_step *a, const tw_step *b) {
    const tw_program_product *x = &a->of.product, *y = &b->of.product;
    bool same = a->n_out == b->n_out && x->moments == y->moments && x->norm == y->norm &&
                x->norm_residual == y->norm_residual && x->eps == y->eps;
    for (int i = 2; i < TW_PROGRAM_PRODUCT_IN; i++) same &= (a->in[i].buffer < 0) == (b->in[i].buffer < 0);
    return same;
}

/* Finds the first of the steps that most of a step's like are. */
static const tw_step *most_of(const tw_program *p, const tw_step *s) {
    const tw_step *best = s;
    int most = 0;
    for (int i = 0; i < p->n_steps; i++) {
        int count = 0;
        if (!same_product(s, &p->steps[i])) continue;
        for (int k = 0; k < p->n_steps; k++)
            count += same_product(s, &p->steps[k]) && same_epilogue(&p->steps[i], &p->steps[k]);
        if (count <= most) continue;
        most = count;
        best = &p->steps[i];
    }
    return best;
}

tw_status tw_network_searched(const tw_cuda_network *n, const tw_step *s, tw_gemm_problem *out, tw_diag *diag) {
    enum { WIDE = 128 /* Columns of a usual tile. */ };
    const tw_status st = tw_network_problem(n, most_of(n->p, s), out, diag);
    out->weights = false;
    /* How many sums of a row there are depends on the tiles of the product before. */
    if (out->sums) out->sums = tw_ceil_div(out->norm_residual ? out->n : out->k, WIDE);
    return st;
}
