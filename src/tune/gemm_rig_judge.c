/* SPDX-License-Identifier: Apache-2.0 */
/* Judges what a candidate computed: on the device where C's rows are equally far apart, and else on the host. */
#include "tune/gemm_rig_parts.h"

#include "base/diag.h"
#include "base/divide.h"
#include "tune/gemm_compare.h"

#include <stdlib.h>
#include <string.h>

/* Gives the C of set 0 what it has before a launch: with beta 0, garbage. */
static tw_status reset_c(tw_gemm_rig *r, tw_diag *diag) {
    const tw_gemm_data *d = r->data;
    const tw_gemm_matrix m = tw_gemm_matrix_of(&d->problem, TW_GEMM_C);
    const bool pointers = d->problem.pointers, beta = d->problem.beta != 0;
    const uint64_t c = pointers ? r->apart[0][TW_GEMM_C] : r->set[0].of[TW_GEMM_C];
    const size_t bytes = pointers ? (size_t)(m.count * tw_gemm_rig_apart_pitch(m)) : d->bytes[TW_GEMM_C];
    if (!beta) return tw_cuda_fill(r->cuda, c, 0xffffffffu, (bytes + 3) / 4, diag);
    return pointers ? tw_gemm_rig_upload_apart(r, TW_GEMM_C, c, diag)
                    : tw_cuda_upload(r->cuda, c, d->of[TW_GEMM_C], bytes, diag);
}

/* Downloads the C of set 0. What lies between matrices that are apart becomes garbage. */
static tw_status fetch_c(tw_gemm_rig *r, unsigned char *c, tw_diag *diag) {
    const size_t bytes = r->data->bytes[TW_GEMM_C];
    if (!r->data->problem.pointers) return tw_cuda_download(r->cuda, c, r->set[0].of[TW_GEMM_C], bytes, diag);
    const tw_gemm_matrix m = tw_gemm_matrix_of(&r->data->problem, TW_GEMM_C);
    tw_status st = TW_OK;
    memset(c, 0xff, bytes);
    for (int64_t i = 0; i < m.count && st == TW_OK; i++) {
        const tw_gemm_rig_apart x = tw_gemm_rig_apart_of(m, i);
        st = tw_cuda_download(r->cuda, c + x.host, r->apart[0][TW_GEMM_C] + (uint64_t)x.at, x.bytes, diag);
    }
    return st;
}

/* Tells whether C's rows are equally far apart, and what lies between them is known. Such a C is compared on the
   device. */
static bool regular(const tw_gemm_problem *p) {
    const bool sets = p->sets > 1 && p->set_c != p->stride_c * (p->batch / p->sets);
    const bool gaps = p->ldc != tw_gemm_columns(p);
    return !p->pointers && !sets && !p->addends && !(gaps && p->beta != 0) &&
           (p->batch == 1 || p->stride_c == p->m * p->ldc);
}

/* Runs a kernel that adds to words of r->verdict, from 0, and fetches them. */
static tw_status ask(tw_gemm_rig *r, const tw_cuda_launch *l, void *said, size_t bytes, tw_diag *diag) {
    tw_status st = tw_cuda_fill(r->cuda, r->verdict, 0, bytes / 4, diag);
    if (st == TW_OK) st = tw_cuda_run(r->cuda, l, diag);
    if (st == TW_OK) st = tw_cuda_sync(r->cuda, diag);
    return st == TW_OK ? tw_cuda_download(r->cuda, said, r->verdict, bytes, diag) : st;
}

static tw_status count_here(tw_gemm_rig *r, bool twice, int64_t *wrong, tw_diag *diag) {
    struct {
        int32_t wrong;
        float worst;
    } said = {0};
    const tw_gemm_problem *p = &r->data->problem;
    const int64_t columns = tw_gemm_columns(p), elements = r->data->cells / columns * p->ldc - (p->ldc - columns);
    const uint64_t arguments[] = {
        r->set[0].of[TW_GEMM_C], r->want,         twice ? r->twice : r->tolerance, r->verdict, (uint64_t)elements,
        (uint64_t)columns,       (uint64_t)p->ldc};
    const int bytes[] = {8, 8, 8, 8, 8, 8, 8};
    int64_t blocks = tw_ceil_div(elements, TW_GEMM_COMPARE_THREADS);
    const tw_cuda_launch l = {.module = r->compare,
                              .grid = {(int)(blocks < 2048 ? blocks : 2048), 1, 1},
                              .threads = TW_GEMM_COMPARE_THREADS,
                              .arguments = arguments,
                              .argument_bytes = bytes,
                              .n_arguments = sizeof bytes / sizeof *bytes};
    const tw_status st = ask(r, &l, &said, sizeof said, diag);
    *wrong = said.wrong;
    if (said.worst > r->worst) r->worst = said.worst;
    return st;
}

static tw_status count_fetched(tw_gemm_rig *r, bool twice, int64_t *wrong, tw_diag *diag) {
    tw_gemm_data judge = *r->data;
    const size_t bytes = r->data->bytes[TW_GEMM_C];
    void *c = malloc(bytes);
    if (!c) return tw_fail_memory(diag);
    tw_status st = fetch_c(r, c, diag);
    double worst = 0;
    if (twice) judge.tolerance = judge.twice;
    if (st == TW_OK) *wrong = tw_gemm_data_compare(&judge, c, &worst, NULL);
    if (worst > r->worst) r->worst = worst;
    /* The gaps between C's rows have garbage, and so do those of the host's copy. */
    const int64_t gaps = st == TW_OK ? tw_gemm_data_gaps(r->data, c, r->data->of[TW_GEMM_C]) : 0;
    free(c);
    if (gaps < 0) return tw_fail_memory(diag);
    *wrong += gaps;
    return st;
}

bool tw_gemm_rig_sums_here(const tw_gemm_problem *p) {
    return p->epilogue.squares && !p->groups && p->batch == 1 && p->out != TW_T_e4m3;
}

/* Counts wrong sums of squares of the C of set 0, and of its cells. */
static tw_status count_sums(tw_gemm_rig *r, const tw_gemm_squares *of, int64_t *wrong, tw_diag *diag) {
    const tw_gemm_problem *p = &r->data->problem;
    const int64_t columns = tw_gemm_columns(p);
    int32_t said = 0;
    const uint64_t arguments[] = {r->set[0].of[TW_GEMM_C], r->squares,         r->verdict,
                                  (uint64_t)p->m,          (uint64_t)columns,  (uint64_t)p->ldc,
                                  (uint64_t)of->columns,   (uint64_t)of->parts};
    const int bytes[] = {8, 8, 8, 4, 4, 8, 4, 4};
    const tw_cuda_launch l = {
        .module = r->compare_sums,
        .grid = {(int)tw_ceil_div(p->m, TW_GEMM_COMPARE_THREADS), (int)tw_ceil_div(columns, of->columns), 1},
        .threads = TW_GEMM_COMPARE_THREADS,
        .arguments = arguments,
        .argument_bytes = bytes,
        .n_arguments = sizeof bytes / sizeof *bytes};
    const tw_status st = ask(r, &l, &said, sizeof said, diag);
    *wrong += said;
    return st;
}

/* Counts on the host what is wrong of the sums of squares of the C of set 0, and of its cells times gains. */
static tw_status count_more(tw_gemm_rig *r, const tw_gemm_candidate *x, int64_t *wrong, tw_diag *diag) {
    const size_t squared = r->compare_sums ? 0 : tw_gemm_rig_squares_bytes(&r->data->problem, &x->squares);
    const size_t scaled = x->scaled ? tw_gemm_rig_scaled_bytes(&r->data->problem) : 0;
    void *c = malloc(r->data->bytes[TW_GEMM_C]), *squares = malloc(squared + 1), *cells = malloc(scaled + 1);
    tw_status st = c && squares && cells ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK) st = tw_cuda_download(r->cuda, c, r->set[0].of[TW_GEMM_C], r->data->bytes[TW_GEMM_C], diag);
    if (st == TW_OK && squared) st = tw_cuda_download(r->cuda, squares, r->squares, squared, diag);
    if (st == TW_OK && scaled) st = tw_cuda_download(r->cuda, cells, r->scaled, scaled, diag);
    if (st == TW_OK && squared) *wrong += tw_gemm_data_squares(r->data, c, &x->squares, squares);
    if (st == TW_OK && scaled) *wrong += tw_gemm_data_scaled(r->data, c, cells);
    free(c);
    free(squares);
    free(cells);
    return st;
}

tw_status tw_gemm_rig_check(tw_gemm_rig *r, const tw_gemm_candidate *x, tw_diag *diag) {
    const tw_gemm_data *d = r->data;
    r->worst = 0;
    for (int i = 0; i < 2; i++) {
        int64_t wrong = 0;
        tw_gemm_buffers b = tw_gemm_rig_buffers(r, 0);
        tw_status st = reset_c(r, diag);
        if (st == TW_OK && x->squares.vectors)
            st = tw_cuda_fill(r->cuda, r->squares, 0xffffffffu, tw_gemm_rig_squares_bytes(&d->problem, &x->squares) / 4,
                              diag);
        if (st == TW_OK && x->scaled)
            st = tw_cuda_fill(r->cuda, r->scaled, 0xffffffffu, tw_gemm_rig_scaled_bytes(&d->problem) / 4, diag);
        if (st == TW_OK) st = x->enqueue(x->context, &b, diag);
        if (st == TW_OK) st = tw_cuda_sync(r->cuda, diag);
        /* Rows of no group are left alone, which only the host compares. */
        const bool here = regular(&d->problem) && (!d->problem.groups || d == &r->of_pool);
        if (st == TW_OK) st = (here ? count_here : count_fetched)(r, x->rounds_twice, &wrong, diag);
        const bool sums_here = x->squares.vectors && r->compare_sums;
        if (st == TW_OK && !wrong && sums_here) st = count_sums(r, &x->squares, &wrong, diag);
        if (st == TW_OK && !wrong && ((x->squares.vectors && !sums_here) || x->scaled))
            st = count_more(r, x, &wrong, diag);
        if (st != TW_OK) return st;
        if (!wrong) continue;
        /* A wrong candidate may leave garbage in counters and workspace, which the next candidate must find zero. */
        st = tw_cuda_fill(r->cuda, r->counters, 0, TW_GEMM_RIG_COUNTERS / 4, diag);
        if (st == TW_OK) st = tw_cuda_fill(r->cuda, r->zero_workspace, 0, (size_t)r->workspace_bytes / 4, diag);
        return st != TW_OK ? st
                           : tw_fail(diag, TW_ERR_MISMATCH, "%lld of %lld cells are wrong%s", (long long)wrong,
                                     (long long)d->cells, i ? ", the second time only" : "");
    }
    return TW_OK;
}

double tw_gemm_rig_worst(const tw_gemm_rig *r) {
    return r->worst;
}
