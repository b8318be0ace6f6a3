/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_rig_parts.h"

#include "base/diag.h"
#include "base/divide.h"
#include "ir/passes/passes.h"
#include "kernels/gemm/estimate.h"
#include "ptx/load.h"
#include "tune/gemm_compare.h"
#include "tune/gemm_refer.h"

#include <math.h>
#include <stdlib.h>

enum {
    SAMPLE_US = 200, /* What a sample lasts at least. */
    MOST_ROUNDS = 1000,
    SQUARES = 8,    /* The most vectors of sums of the same columns. */
    ALIGNMENT = 16, /* Matrices of a batch by pointers have addresses that are multiples of it. */
};

static tw_status place(tw_gemm_rig *r, const void *from, size_t bytes, uint64_t *at, tw_diag *diag) {
    if (!from) return TW_OK;
    /* tw_cuda_fill needs whole words. */
    tw_status st = tw_cuda_alloc(r->cuda, (bytes + 3) / 4 * 4, at, diag);
    return st == TW_OK ? tw_cuda_upload(r->cuda, *at, from, bytes, diag) : st;
}

int64_t tw_gemm_rig_apart_pitch(tw_gemm_matrix m) {
    m.count = 1;
    return (tw_ceil_div((int64_t)tw_gemm_matrix_bytes(&m), ALIGNMENT) + 1) * ALIGNMENT;
}

tw_gemm_rig_apart tw_gemm_rig_apart_of(tw_gemm_matrix m, int64_t i) {
    const int64_t at = (m.count - 1 - i) * tw_gemm_rig_apart_pitch(m), host = i * m.stride * (tw_type_bits(m.type) / 8);
    m.count = 1;
    return (tw_gemm_rig_apart){at, host, tw_gemm_matrix_bytes(&m)};
}

tw_status tw_gemm_rig_upload_apart(tw_gemm_rig *r, tw_gemm_buffer which, uint64_t to, tw_diag *diag) {
    const tw_gemm_matrix m = tw_gemm_matrix_of(&r->data->problem, which);
    tw_status st = TW_OK;
    for (int64_t i = 0; i < m.count && st == TW_OK; i++) {
        const tw_gemm_rig_apart x = tw_gemm_rig_apart_of(m, i);
        st = tw_cuda_upload(r->cuda, to + (uint64_t)x.at, (const char *)r->data->of[which] + x.host, x.bytes, diag);
    }
    return st;
}

/* Places the matrices of a batch with gaps, and the array of their addresses. */
static tw_status place_apart(tw_gemm_rig *r, int set, tw_gemm_buffer which, tw_diag *diag) {
    const tw_gemm_matrix m = tw_gemm_matrix_of(&r->data->problem, which);
    uint64_t *first = &r->apart[set][which], *addresses = malloc((size_t)m.count * TW_GEMM_POINTER);
    if (!addresses) return tw_fail_memory(diag);
    tw_status st = tw_cuda_alloc(r->cuda, (size_t)(m.count * tw_gemm_rig_apart_pitch(m)), first, diag);
    for (int64_t i = 0; i < m.count; i++) addresses[i] = *first + (uint64_t)tw_gemm_rig_apart_of(m, i).at;
    if (st == TW_OK) st = tw_gemm_rig_upload_apart(r, which, *first, diag);
    if (st == TW_OK) st = place(r, addresses, (size_t)m.count * TW_GEMM_POINTER, &r->set[set].of[which], diag);
    free(addresses);
    return st;
}

/* Packs B's matrices as a tape, and places the tape and the table of its units. */
static tw_status place_tape(tw_gemm_rig *r, int set, const void *b, tw_diag *diag) {
    const tw_gemm_problem *p = &r->data->problem;
    const size_t bytes = tw_gemm_tape_bytes(p), table = (size_t)tw_gemm_tape_entries(p) * sizeof(tw_gemm_unit);
    tw_gemm_unit *units = malloc(table);
    void *tape = malloc(bytes);
    tw_status st = units && tape ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK) st = tw_cuda_alloc(r->cuda, bytes, &r->tape[set], diag);
    if (st == TW_OK) {
        tw_gemm_tape_place(p, (uint64_t)set, r->tape[set], units);
        tw_gemm_tape_pack(p, b, units, r->tape[set], tape);
        st = tw_cuda_upload(r->cuda, r->tape[set], tape, bytes, diag);
    }
    if (st == TW_OK) st = place(r, units, table, &r->set[set].of[TW_GEMM_B], diag);
    free(tape);
    free(units);
    return st;
}

/* Packs the B of a set whose matrices are in a pool. */
static tw_status pack_pooled(tw_gemm_rig *r, int set, tw_diag *diag) {
    const tw_gemm_matrix m = tw_gemm_matrix_of(&r->data->problem, TW_GEMM_B);
    const size_t bytes = tw_gemm_matrix_bytes(&m);
    void *b = malloc(bytes);
    if (!b) return tw_fail_memory(diag);
    r->set[set].matrix_b = r->set[set].of[TW_GEMM_B];
    r->set[set].of[TW_GEMM_B] = 0;
    tw_status st = tw_cuda_download(r->cuda, b, r->set[set].matrix_b, bytes, diag);
    if (st == TW_OK) st = place_tape(r, set, b, diag);
    free(b);
    return st;
}

static tw_status place_set(tw_gemm_rig *r, int set, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < TW_GEMM_MATRICES && st == TW_OK; i++)
        st = tw_gemm_by_pointers(&r->data->problem, (tw_gemm_buffer)i)
                 ? place_apart(r, set, (tw_gemm_buffer)i, diag)
                 : place(r, r->data->of[i], r->data->bytes[i], &r->set[set].of[i], diag);
    if (st != TW_OK || !r->data->problem.tape.warps) return st;
    r->set[set].matrix_b = r->set[set].of[TW_GEMM_B];
    r->set[set].of[TW_GEMM_B] = 0;
    return place_tape(r, set, r->data->of[TW_GEMM_B], diag);
}

static tw_status zeros(tw_gemm_rig *r, size_t bytes, uint64_t *at, tw_diag *diag) {
    tw_status st = tw_cuda_alloc(r->cuda, bytes, at, diag);
    return st == TW_OK ? tw_cuda_fill(r->cuda, *at, 0, bytes / 4, diag) : st;
}

static tw_status load_kernel(tw_gemm_rig *r, tw_kernel *k, tw_cuda_module **out, tw_diag *diag) {
    const tw_ptx_compiler by = tw_ptx_compiler_for(r->cuda, true);
    tw_status st = k ? tw_pipeline_default(k, false, diag) : tw_fail_memory(diag);
    if (st == TW_OK) st = tw_ptx_load(&by, k, out, NULL, diag);
    tw_kernel_free(k);
    return st;
}

static tw_status load_compare(tw_gemm_rig *r, tw_diag *diag) {
    const tw_gemm_problem *p = &r->data->problem;
    const int sm = tw_cuda_describe(r->cuda)->target->sm;
    const tw_status st = load_kernel(r, tw_gemm_compare_build(p->out, sm), &r->compare, diag);
    if (st != TW_OK || !tw_gemm_rig_sums_here(p)) return st;
    return load_kernel(r, tw_gemm_compare_sums_build(p->out, p->epilogue.means, sm), &r->compare_sums, diag);
}

size_t tw_gemm_rig_squares_bytes(const tw_gemm_problem *p, const tw_gemm_squares *s) {
    return (size_t)(s->vectors * p->m) * sizeof(float);
}

size_t tw_gemm_rig_scaled_bytes(const tw_gemm_problem *p) {
    return (size_t)(p->m * p->n) * sizeof(uint16_t);
}

/* Allocates what kernels need beside matrices. */
static tw_status make_more(tw_gemm_rig *r, tw_diag *diag) {
    const tw_gemm_problem *p = &r->data->problem;
    const tw_gemm_squares most = {.vectors = SQUARES * tw_ceil_div(tw_gemm_columns(p), 8) * (1 + p->epilogue.means)};
    tw_status st = zeros(r, TW_GEMM_RIG_COUNTERS, &r->counters, diag);
    if (st == TW_OK) st = zeros(r, (size_t)r->workspace_bytes, &r->workspace, diag);
    if (st == TW_OK) st = zeros(r, (size_t)r->workspace_bytes, &r->zero_workspace, diag);
    if (st == TW_OK && p->epilogue.squares) st = zeros(r, tw_gemm_rig_squares_bytes(p, &most), &r->squares, diag);
    if (st == TW_OK && p->epilogue.scaled) st = zeros(r, tw_gemm_rig_scaled_bytes(p), &r->scaled, diag);
    return st;
}

/* Allocates a rig's buffers other than its matrices. */
static tw_status make_rest(tw_gemm_rig *r, tw_diag *diag) {
    tw_status st = zeros(r, 8, &r->verdict, diag);
    if (st == TW_OK) st = make_more(r, diag);
    return st == TW_OK ? load_compare(r, diag) : st;
}

tw_status tw_gemm_rig_make(tw_gemm_rig **out, tw_cuda *c, const tw_gemm_data *d, int64_t workspace, tw_diag *diag) {
    return tw_gemm_rig_make_sets(out, c, d, workspace, TW_GEMM_RIG_SETS, diag);
}

tw_status tw_gemm_rig_make_sets(tw_gemm_rig **out, tw_cuda *c, const tw_gemm_data *d, int64_t workspace, int most,
                                tw_diag *diag) {
    tw_gemm_rig *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r) return tw_fail_memory(diag);
    r->cuda = c;
    r->data = d;
    r->workspace_bytes = workspace;
    int64_t bytes = 0;
    for (int i = 0; i < TW_GEMM_MATRICES; i++) bytes += (int64_t)d->bytes[i];
    r->sets = tw_cuda_sets(c, bytes, most < TW_GEMM_RIG_SETS ? most : TW_GEMM_RIG_SETS);
    tw_status st = TW_OK;
    for (int i = 0; i < r->sets && st == TW_OK; i++) st = place_set(r, i, diag);
    if (st == TW_OK) st = place(r, d->want, (size_t)d->cells * sizeof *d->want, &r->want, diag);
    if (st == TW_OK) st = place(r, d->tolerance, (size_t)d->cells * sizeof *d->tolerance, &r->tolerance, diag);
    if (st == TW_OK) st = place(r, d->twice, (size_t)d->cells * sizeof *d->twice, &r->twice, diag);
    if (st == TW_OK) st = make_rest(r, diag);
    if (st == TW_OK)
        *out = r;
    else
        tw_gemm_rig_free(r);
    return st;
}

/* Computes the reference of rows of A from `row` on, with a matrix of B. The problem's m is the number of rows. */
static tw_status refer(tw_gemm_rig *r, tw_gemm_pool *pool, const tw_gemm_problem *p, int64_t row, int64_t matrix,
                       tw_diag *diag) {
    const uint64_t es = (uint64_t)tw_type_bits(tw_gemm_types[p->type].element) / 8;
    const uint64_t cell = (uint64_t)(row * tw_gemm_columns(p));
    tw_gemm_buffers from = r->set[0];
    from.of[TW_GEMM_A] += es * (uint64_t)(row * p->k);
    if (from.matrix_b) from.of[TW_GEMM_B] = from.matrix_b;
    from.of[TW_GEMM_B] += es * (uint64_t)(matrix * p->n * p->k);
    /* Matrices like C have elements like A's. */
    if (from.of[TW_GEMM_MUL]) from.of[TW_GEMM_MUL] += es * cell;
    if (from.of[TW_GEMM_RESIDUAL]) from.of[TW_GEMM_RESIDUAL] += es * cell;
    const uint64_t twice = r->twice ? r->twice + 4 * cell : 0;
    return tw_gemm_pool_refer(pool, p, &from, r->want + 8 * cell, r->tolerance + 4 * cell, twice, diag);
}

/* Draws the groups of a problem, and computes the reference of each. */
static tw_status refer_groups(tw_gemm_rig *r, tw_gemm_pool *pool, double skew, tw_diag *diag) {
    enum { SEED = 1 };
    tw_gemm_problem p = r->of_pool.problem;
    const size_t bytes = (size_t)p.groups * sizeof(int32_t);
    int32_t *ends = malloc((size_t)r->sets * bytes);
    if (!ends) return tw_fail_memory(diag);
    /* Sets differ in the groups that have rows, so that few rows do not find their matrices in the L2. */
    for (int i = 0; i < r->sets; i++) tw_gemm_ends_draw(&p, SEED + (uint64_t)i, skew, ends + i * p.groups);
    tw_status st = place(r, ends, (size_t)r->sets * bytes, &r->ends, diag);
    for (int i = 0; i < r->sets; i++) r->set[i].of[TW_GEMM_ENDS] = r->ends + (uint64_t)i * bytes;
    for (int64_t g = 0, row = 0; g < p.groups && st == TW_OK; row = ends[g++]) {
        p.m = ends[g] - row;
        if (p.m) st = refer(r, pool, &p, row, g, diag);
    }
    free(ends);
    return st;
}

/* Draws the sums of rows that a norm is made of. All sets share them: the launch before has just written them. */
static tw_status place_sums(tw_gemm_rig *r, tw_diag *diag) {
    const tw_gemm_problem *p = &r->of_pool.problem;
    const tw_gemm_matrix m = tw_gemm_matrix_of(p, TW_GEMM_ROW_SUMS);
    const size_t bytes = tw_gemm_matrix_bytes(&m);
    if (!bytes) return TW_OK;
    float *sums = malloc(bytes);
    if (!sums) return tw_fail_memory(diag);
    tw_gemm_sums_draw(p, 1, sums);
    const tw_status st = place(r, sums, bytes, &r->sums, diag);
    for (int i = 0; i < r->sets; i++) r->set[i].of[TW_GEMM_ROW_SUMS] = r->sums;
    free(sums);
    return st;
}

/* Computes the reference of each product. */
static tw_status refer_batch(tw_gemm_rig *r, tw_gemm_pool *pool, tw_diag *diag) {
    const tw_gemm_problem *p = &r->of_pool.problem;
    tw_status st = TW_OK;
    for (int64_t i = 0; i < p->batch && st == TW_OK; i++) st = refer(r, pool, p, i * p->m, i, diag);
    return st;
}

tw_status tw_gemm_rig_make_of(tw_gemm_rig **out, tw_cuda *c, tw_gemm_pool *pool, const tw_gemm_problem *p, double skew,
                              int64_t workspace, tw_diag *diag) {
    *out = NULL;
    tw_status st = tw_gemm_pool_covers(pool, p, diag);
    if (st != TW_OK) return st;
    tw_gemm_rig *r = calloc(1, sizeof *r);
    if (!r) return tw_fail_memory(diag);
    const tw_gemm_matrix c_of = tw_gemm_matrix_of(p, TW_GEMM_C);
    const size_t cells = (size_t)(p->batch * p->m * tw_gemm_columns(p)), c_bytes = tw_gemm_matrix_bytes(&c_of);
    r->cuda = c;
    r->data = &r->of_pool;
    r->of_pool = (tw_gemm_data){.problem = *p, .bytes[TW_GEMM_C] = c_bytes, .cells = (int64_t)cells};
    r->workspace_bytes = workspace;
    r->sets = tw_cuda_sets(c, (int64_t)tw_gemm_bytes(p), TW_GEMM_RIG_SETS);
    uint64_t outputs[TW_GEMM_RIG_SETS] = {0};
    st = tw_gemm_pool_outputs(pool, p, r->sets, outputs, diag);
    for (int i = 0; i < r->sets; i++) {
        tw_gemm_pool_place(pool, p, i, &r->set[i]);
        r->set[i].of[TW_GEMM_C] = outputs[i];
        if (p->tape.warps && st == TW_OK) st = pack_pooled(r, i, diag);
    }
    if (st == TW_OK) st = place_sums(r, diag);
    if (st == TW_OK) st = tw_cuda_alloc(c, cells * sizeof(double), &r->want, diag);
    if (st == TW_OK) st = tw_cuda_alloc(c, cells * sizeof(float), &r->tolerance, diag);
    if (st == TW_OK && tw_gemm_refer_rounds_twice(p)) st = tw_cuda_alloc(c, cells * sizeof(float), &r->twice, diag);
    if (st == TW_OK) st = p->groups ? refer_groups(r, pool, skew, diag) : refer_batch(r, pool, diag);
    if (st == TW_OK) st = make_rest(r, diag);
    if (st == TW_OK)
        *out = r;
    else
        tw_gemm_rig_free(r);
    return st;
}

/* Gives all sets zeros for what the product has beside A, B and C. */
static tw_status place_others(tw_gemm_rig *r, tw_diag *diag) {
    const tw_gemm_problem *p = &r->of_pool.problem;
    tw_status st = TW_OK;
    for (int i = TW_GEMM_C + 1; i < TW_GEMM_MATRICES && st == TW_OK; i++) {
        const tw_gemm_matrix m = tw_gemm_matrix_of(p, (tw_gemm_buffer)i);
        if (m.count) st = zeros(r, (tw_gemm_matrix_bytes(&m) + 3) / 4 * 4, &r->others[i], diag);
        for (int set = 0; set < r->sets; set++) r->set[set].of[i] = r->others[i];
    }
    return st == TW_OK ? make_more(r, diag) : st;
}

/* Places the units of a tape, whose memory is where a set's B is in the pool. */
static tw_status place_units(tw_gemm_rig *r, int set, tw_diag *diag) {
    const tw_gemm_problem *p = &r->of_pool.problem;
    const size_t bytes = (size_t)tw_gemm_tape_entries(p) * sizeof(tw_gemm_unit);
    tw_gemm_unit *units = malloc(bytes);
    if (!units) return tw_fail_memory(diag);
    tw_gemm_tape_place(p, (uint64_t)set, r->set[set].of[TW_GEMM_B], units);
    const tw_status st = place(r, units, bytes, &r->table[set], diag);
    free(units);
    r->set[set].of[TW_GEMM_B] = r->table[set];
    return st;
}

tw_status tw_gemm_rig_make_timed(tw_gemm_rig **out, tw_cuda *c, tw_gemm_pool *pool, const tw_gemm_problem *p,
                                 int64_t workspace, tw_diag *diag) {
    *out = NULL;
    tw_gemm_rig *r = calloc(1, sizeof *r);
    if (!r) return tw_fail_memory(diag);
    const tw_gemm_matrix of_c = tw_gemm_matrix_of(p, TW_GEMM_C);
    const size_t bytes = tw_gemm_matrix_bytes(&of_c);
    uint64_t output = 0;
    r->cuda = c;
    r->data = &r->of_pool;
    r->of_pool = (tw_gemm_data){.problem = *p, .bytes[TW_GEMM_C] = bytes};
    r->workspace_bytes = workspace;
    tw_gemm_problem of_set = *p; /* A set's B has the bytes of its tape. */
    if (p->tape.warps) of_set.k = of_set.lda = of_set.ldb = tw_gemm_depth(p);
    r->sets = tw_cuda_sets(c, p->n * of_set.k * (tw_type_bits(tw_gemm_types[p->type].element) / 8), TW_GEMM_RIG_SETS);
    tw_status st = tw_gemm_pool_outputs(pool, p, 1, &output, diag);
    if (st == TW_OK) st = tw_cuda_fill(c, output, 0, (bytes + 3) / 4, diag);
    for (int i = 0; i < r->sets && st == TW_OK; i++) {
        tw_gemm_pool_place(pool, &of_set, i, &r->set[i]);
        r->set[i].of[TW_GEMM_A] = r->set[0].of[TW_GEMM_A];
        r->set[i].of[TW_GEMM_C] = output;
        if (p->tape.warps) st = place_units(r, i, diag);
    }
    if (st == TW_OK) st = place_others(r, diag);
    if (st == TW_OK)
        *out = r;
    else
        tw_gemm_rig_free(r);
    return st;
}

void tw_gemm_rig_free(tw_gemm_rig *r) {
    if (!r) return;
    for (int i = 0; i < r->sets && r->data != &r->of_pool; i++)
        for (int j = 0; j < TW_GEMM_MATRICES; j++) {
            if (r->set[i].of[j]) tw_cuda_release(r->cuda, r->set[i].of[j]);
            if (j <= TW_GEMM_C && r->apart[i][j]) tw_cuda_release(r->cuda, r->apart[i][j]);
        }
    const bool pooled = r->data == &r->of_pool;
    for (int i = 0; i < r->sets && r->data->problem.tape.warps; i++) {
        const uint64_t units = r->set[i].of[TW_GEMM_B], matrix = r->set[i].matrix_b;
        if (r->tape[i]) tw_cuda_release(r->cuda, r->tape[i]);
        if (pooled && r->tape[i] && units) tw_cuda_release(r->cuda, units);
        if (!pooled && matrix) tw_cuda_release(r->cuda, matrix);
    }
    for (int i = 0; i < r->sets; i++)
        if (r->table[i]) tw_cuda_release(r->cuda, r->table[i]);
    for (int i = 0; i < TW_GEMM_MATRICES; i++)
        if (r->others[i]) tw_cuda_release(r->cuda, r->others[i]);
    const uint64_t rest[] = {r->ends,     r->sums,      r->want,           r->tolerance, r->twice, r->verdict,
                             r->counters, r->workspace, r->zero_workspace, r->squares,   r->scaled};
    for (size_t j = 0; j < sizeof rest / sizeof *rest; j++)
        if (rest[j]) tw_cuda_release(r->cuda, rest[j]);
    if (r->compare) tw_cuda_unload(r->compare);
    if (r->compare_sums) tw_cuda_unload(r->compare_sums);
    free(r);
}

int tw_gemm_rig_sets(const tw_gemm_rig *r) {
    return r->sets;
}

tw_gemm_buffers tw_gemm_rig_buffers(const tw_gemm_rig *r, int set) {
    tw_gemm_buffers b = r->set[set];
    b.of[TW_GEMM_WORKSPACE] = r->workspace;
    b.of[TW_GEMM_COUNTERS] = r->counters;
    b.of[TW_GEMM_SQUARES] = r->squares;
    b.of[TW_GEMM_SCALED] = r->scaled;
    return b;
}

typedef struct rotation {
    tw_gemm_rig *rig;
    const tw_gemm_candidate *candidate;
} rotation;

static tw_status enqueue_next(void *context, int i, tw_diag *diag) {
    const rotation *o = context;
    tw_gemm_buffers b = tw_gemm_rig_buffers(o->rig, i % o->rig->sets);
    return o->candidate->enqueue(o->candidate->context, &b, diag);
}

int tw_gemm_rig_rounds(const tw_gemm_rig *r, double us) {
    const double once = us * r->sets;
    if (!(once < SAMPLE_US)) return 1;
    /* A measured time may also be 0. */
    return once * MOST_ROUNDS > SAMPLE_US ? (int)ceil(SAMPLE_US / once) : MOST_ROUNDS;
}

tw_status tw_gemm_rig_timer(tw_gemm_rig *r, const tw_gemm_candidate *x, int rounds, tw_cuda_timer **out,
                            tw_diag *diag) {
    /* The launches are captured here, so `o` is not needed later. */
    rotation o = {r, x};
    return tw_cuda_timer_make(r->cuda, out, enqueue_next, &o, rounds * r->sets, diag);
}

bool tw_gemm_rig_fits(const tw_gemm_rig *r, const tw_gemm_resources *need) {
    return need->workspace_bytes <= r->workspace_bytes && need->counter_bytes <= TW_GEMM_RIG_COUNTERS;
}

tw_status tw_gemm_own_load(tw_gemm_own *own, tw_gemm_rig *r, const tw_gemm_config *c, const void *cubin, size_t bytes,
                           tw_diag *diag) {
    const char *why = NULL;
    *own = (tw_gemm_own){.rig = r, .config = *c};
    if (!tw_gemm_legal(&r->data->problem, c, tw_cuda_describe(r->cuda)->target, &own->need, &why))
        return tw_fail(diag, TW_ERR_USAGE, "the configuration is not legal: %s", why);
    if (!tw_gemm_rig_fits(r, &own->need))
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "the split needs %lld bytes of workspace, of %lld",
                       (long long)own->need.workspace_bytes, (long long)r->workspace_bytes);
    if (r->data->problem.epilogue.squares) own->squares = tw_gemm_squares_of(&r->data->problem, c);
    const tw_gemm_variant v = tw_gemm_variant_of(&r->data->problem, c);
    tw_status st = tw_gemm_signature(&v, c, tw_cuda_describe(r->cuda)->target, &own->signature, diag);
    return st == TW_OK ? tw_cuda_load(r->cuda, &own->module, cubin, bytes, "gemm", own->need.shared_bytes, diag) : st;
}

void tw_gemm_own_unload(tw_gemm_own *own) {
    if (own->module) tw_cuda_unload(own->module);
    own->module = NULL;
}

static tw_status enqueue_own(void *context, const tw_gemm_buffers *buffers, tw_diag *diag) {
    const tw_gemm_own *own = context;
    tw_gemm_buffers b = *buffers;
    if (own->config.kg > 1 && own->config.split == TW_JOIN_ATOMIC) b.of[TW_GEMM_WORKSPACE] = own->rig->zero_workspace;
    tw_launch_values l;
    uint64_t words[TW_ARGUMENTS];
    tw_gemm_launch_of(&own->rig->data->problem, &own->config, &b, &l);
    tw_arguments_place(&l.arguments, &own->signature, words);
    const tw_cuda_launch launch = {.module = own->module,
                                   .grid = {l.grid[0], l.grid[1], l.grid[2]},
                                   .threads = own->need.threads,
                                   .dynamic_shared = own->need.shared_bytes,
                                   .cluster = l.cluster,
                                   .programmatic = l.early,
                                   .arguments = words,
                                   .argument_bytes = own->signature.bytes,
                                   .n_arguments = own->signature.n};
    return tw_cuda_run(own->rig->cuda, &launch, diag);
}

tw_gemm_candidate tw_gemm_own_candidate(tw_gemm_own *own) {
    return (tw_gemm_candidate){.enqueue = enqueue_own,
                               .context = own,
                               .squares = own->squares,
                               .scaled = own->rig->data->problem.epilogue.scaled};
}
