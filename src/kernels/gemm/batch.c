/* SPDX-License-Identifier: Apache-2.0 */
/* Where the matrices of a batch lie: its products are in sets, and have a stride within a set and one from set to set.
 */
#include "base/diag.h"
#include "kernels/gemm/generate.h"

int64_t tw_gemm_matrix_place(const tw_gemm_problem *p, const tw_gemm_matrix *m, int64_t product) {
    if (p->sets <= 1) return product * m->stride;
    const int64_t of_set = p->batch / p->sets;
    return product / of_set * m->apart + product % of_set * m->stride;
}

int64_t tw_gemm_next_set(const tw_gemm_problem *p, int64_t stride) {
    return stride == TW_GEMM_SHARED ? stride : stride * (p->batch / (p->sets > 1 ? p->sets : 1));
}

/* Makes one set of sets that continue one another, and of those that have one product each. */
static void join_sets(tw_gemm_problem *p) {
    if (p->batch == p->sets) {
        p->stride_a = p->set_a;
        p->stride_b = p->set_b;
        p->stride_c = p->set_c;
    } else if (p->set_a != tw_gemm_next_set(p, p->stride_a) || p->set_b != tw_gemm_next_set(p, p->stride_b) ||
               p->set_c != tw_gemm_next_set(p, p->stride_c)) {
        return;
    }
    p->sets = 1;
    p->set_a = tw_gemm_next_set(p, p->stride_a);
    p->set_b = tw_gemm_next_set(p, p->stride_b);
    p->set_c = tw_gemm_next_set(p, p->stride_c);
}

/* Tells whether no two products have a cell of C in common. Sorted by their strides, each dimension of the cells steps
   over all that those before it span. */
static bool lie_apart(const tw_gemm_matrix *c) {
    struct {
        int64_t stride, extent;
    } dims[] = {{c->ld, c->rows}, {c->stride, c->count}, {c->apart, c->sets}}, swapped;
    int64_t span = c->columns;
    for (int i = 0; i < 3; i++)
        for (int j = 2; j > i; j--) {
            if (dims[j].stride >= dims[j - 1].stride) continue;
            swapped = dims[j];
            dims[j] = dims[j - 1];
            dims[j - 1] = swapped;
        }
    for (int i = 0; i < 3; i++) {
        if (dims[i].extent == 1) continue;
        if (dims[i].stride < span) return false;
        span += (dims[i].extent - 1) * dims[i].stride;
    }
    return true;
}

/* Without a batch all strides are made dense, since they have no meaning, and so are those of matrices that lie
   anywhere. */
static void make_dense(tw_gemm_problem *p) {
    if (p->batch == 1 || p->pointers) p->stride_c = 0;
    if (p->batch == 1 || (p->pointers && p->stride_a != TW_GEMM_SHARED)) p->stride_a = 0;
    if ((p->batch == 1 && !p->groups) || (p->pointers && p->stride_b != TW_GEMM_SHARED)) p->stride_b = 0;
    if (!p->stride_a) p->stride_a = p->lda * (p->trans_a ? p->k : p->m);
    if (!p->stride_b) p->stride_b = p->ldb * (p->trans_b ? p->n : p->k);
    if (!p->stride_c) p->stride_c = p->ldc * p->m;
}

/* Checks limits under which sizes in bytes, and values derived from them, fit 64 bits. */
static tw_status check_spans(const tw_gemm_problem *p, tw_diag *diag) {
    for (int i = TW_GEMM_A; i <= TW_GEMM_C; i++) {
        const tw_gemm_matrix m = tw_gemm_matrix_of(p, (tw_gemm_buffer)i);
        const double span = (double)(m.rows - 1) * (double)m.ld + (double)m.columns +
                            (double)(m.count - 1) * (double)m.stride + (double)(m.sets - 1) * (double)m.apart;
        if (span > 0x1p42)
            return tw_fail(diag, TW_ERR_USAGE, "%c spans %.3g elements, and 2^42 are more than any machine holds",
                           "ABC"[i], span);
    }
    return TW_OK;
}

static tw_status check_sets(const tw_gemm_problem *p, tw_diag *diag) {
    if (p->sets < 1 || p->batch % p->sets)
        return tw_fail(diag, TW_ERR_USAGE, "the sets of a batch have equally many products");
    if (p->sets > 1 && (p->pointers || p->epilogue.scale_rows || p->epilogue.scale_columns))
        return tw_fail(diag, TW_ERR_USAGE, "a batch with sets has no pointers, and no scales of rows or columns");
    if (p->set_a < TW_GEMM_SHARED || p->set_b < TW_GEMM_SHARED || p->set_c < 0)
        return tw_fail(diag, TW_ERR_USAGE, "strides of sets cannot be negative");
    return TW_OK;
}

tw_status tw_gemm_batch_complete(tw_gemm_problem *p, tw_diag *diag) {
    make_dense(p);
    if (p->stride_a < TW_GEMM_SHARED || p->stride_b < TW_GEMM_SHARED || p->stride_c < 0)
        return tw_fail(diag, TW_ERR_USAGE, "strides of a batch cannot be negative");
    if (p->batch == 1 || !p->sets) p->sets = 1;
    if (p->sets == 1) p->set_a = p->set_b = p->set_c = 0;
    tw_status st = check_sets(p, diag);
    if (st == TW_OK) st = check_spans(p, diag); /* What follows multiplies strides. */
    if (st != TW_OK) return st;
    if (!p->set_a) p->set_a = tw_gemm_next_set(p, p->stride_a);
    if (!p->set_b) p->set_b = tw_gemm_next_set(p, p->stride_b);
    if (!p->set_c) p->set_c = tw_gemm_next_set(p, p->stride_c);
    st = check_spans(p, diag);
    if (st != TW_OK) return st;
    const tw_gemm_matrix c = tw_gemm_matrix_of(p, TW_GEMM_C);
    if (p->batch > 1 && !lie_apart(&c)) return tw_fail(diag, TW_ERR_USAGE, "the products of a batch overlap in C");
    join_sets(p);
    return TW_OK;
}
