/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_pool.h"

#include "base/diag.h"
#include "base/divide.h"
#include "base/dtype.h"
#include "base/random.h"
#include "ir/passes/passes.h"
#include "ptx/load.h"
#include "tune/gemm_refer.h"

#include <stdlib.h>
#include <string.h>

enum {
    ALIGN = 256,              /* Bytes of which each matrix's address is a multiple. */
    LEAST_OUTPUTS = 64 << 20, /* Least size of the block of outputs in bytes. */
    REPEAT = 8000009,         /* Period of the elements: a prime, so that rows begin anywhere in it. */
    /* The most rows of a launch of the reference. CUDA's grids have at most 65535 blocks in y. */
    SLAB = 65535 * TW_GEMM_REFER_ROWS
};

struct tw_gemm_pool {
    tw_cuda *cuda;
    tw_gemm_type type;
    uint64_t at;         /* Address of the elements. */
    size_t bytes;        /* Size of the elements. */
    uint64_t outputs;    /* Address of the block of outputs. 0: there is none. */
    size_t output_bytes; /* Size of the block of outputs. */
    tw_cuda_module *refer;
    tw_gemm_problem referred; /* What `refer` was built for. */
};

/* Tells whether two problems have the same reference kernel. */
static bool alike(const tw_gemm_problem *p, const tw_gemm_problem *q) {
    const tw_gemm_epilogue *a = &p->epilogue, *b = &q->epilogue;
    return p->trans_b == q->trans_b && p->narrow == q->narrow && p->scales == q->scales &&
           p->scale_sums == q->scale_sums && a->scale_columns == b->scale_columns && a->bias == b->bias &&
           a->activation == b->activation && a->mul == b->mul && a->residual == b->residual && a->gated == b->gated &&
           !p->sums == !q->sums && p->centred == q->centred && p->norm_residual == q->norm_residual;
}

/* Loads the reference kernel of a problem, unless it is loaded. */
static tw_status load_refer(tw_gemm_pool *p, const tw_gemm_problem *q, tw_diag *diag) {
    const tw_ptx_compiler by = tw_ptx_compiler_for(p->cuda, true);
    if (p->refer && alike(&p->referred, q)) return TW_OK;
    if (p->refer) tw_cuda_unload(p->refer);
    p->refer = NULL;
    p->referred = *q;
    tw_kernel *k = tw_gemm_refer_build(q, tw_cuda_describe(p->cuda)->target->sm);
    tw_status st = k ? tw_pipeline_default(k, false, diag) : tw_fail_memory(diag);
    if (st == TW_OK) st = tw_ptx_load(&by, k, &p->refer, NULL, diag);
    tw_kernel_free(k);
    return st;
}

static size_t element_bytes(tw_gemm_type t) {
    return (size_t)tw_type_bits(tw_gemm_types[t].element) / 8;
}

static void element_write(tw_gemm_type t, unsigned char *at, float value) {
    const uint16_t half = t == TW_GEMM_F16 ? tw_f32_to_f16(value) : tw_f32_to_bf16(value);
    if (t == TW_GEMM_E4M3)
        *at = tw_f32_to_e4m3(value);
    else if (element_bytes(t) == 4)
        memcpy(at, &value, sizeof value);
    else
        memcpy(at, &half, sizeof half);
}

static tw_status fill(tw_gemm_pool *p, uint64_t seed, tw_diag *diag) {
    const size_t es = element_bytes(p->type), elements = p->bytes / es, most = elements < REPEAT ? elements : REPEAT;
    unsigned char *some = malloc(most * es);
    tw_random r = tw_random_seed(seed);
    tw_status st = some ? tw_cuda_alloc(p->cuda, p->bytes, &p->at, diag) : tw_fail_memory(diag);
    for (size_t i = 0; i < most && some; i++) {
        const float value = (float)tw_random_unit(&r) * 2 - 1;
        element_write(p->type, some + i * es, value);
    }
    for (size_t i = 0; i < elements && st == TW_OK; i += most) {
        const size_t n = elements - i < most ? elements - i : most;
        st = tw_cuda_upload(p->cuda, p->at + es * i, some, es * n, diag);
    }
    free(some);
    return st;
}

bool tw_gemm_pool_has(tw_gemm_type type) {
    return type != TW_GEMM_F64 && type != TW_GEMM_TF32 && type != TW_GEMM_S8;
}

tw_status tw_gemm_pool_make(tw_gemm_pool **out, tw_cuda *c, tw_gemm_type type, size_t bytes, uint64_t seed,
                            tw_diag *diag) {
    *out = NULL;
    if (!tw_gemm_pool_has(type))
        return tw_fail(diag, TW_ERR_UNSUPPORTED,
                       "%s: only f16, bf16, e4m3, f32 and tf32x3 have a reference on the device",
                       tw_gemm_types[type].name);
    tw_gemm_pool *p = calloc(1, sizeof *p);
    if (!p) return tw_fail_memory(diag);
    p->cuda = c;
    p->type = type;
    p->bytes = bytes / ALIGN * ALIGN;
    tw_status st = fill(p, seed, diag);
    if (st == TW_OK) st = load_refer(p, &(tw_gemm_problem){.type = type, .trans_b = true}, diag);
    if (st == TW_OK)
        *out = p;
    else
        tw_gemm_pool_free(p);
    return st;
}

void tw_gemm_pool_free(tw_gemm_pool *p) {
    if (!p) return;
    if (p->at) tw_cuda_release(p->cuda, p->at);
    if (p->outputs) tw_cuda_release(p->cuda, p->outputs);
    if (p->refer) tw_cuda_unload(p->refer);
    free(p);
}

/* Returns the bytes of a buffer's matrices, rounded up to a multiple of ALIGN. */
static size_t room(const tw_gemm_problem *q, tw_gemm_buffer which) {
    const tw_gemm_matrix m = tw_gemm_matrix_of(q, which);
    return (tw_gemm_matrix_bytes(&m) + ALIGN - 1) / ALIGN * ALIGN;
}

/* The buffers that are cut from a pool, one behind another. A scale of a column (f32) consists of two 16-bit elements.
 */
static const tw_gemm_buffer inputs[] = {TW_GEMM_A,    TW_GEMM_B,   TW_GEMM_SCALES,   TW_GEMM_SCALE_COLUMNS,
                                        TW_GEMM_BIAS, TW_GEMM_MUL, TW_GEMM_RESIDUAL, TW_GEMM_RESIDUAL_GAINS};
enum { INPUTS = sizeof inputs / sizeof *inputs };

size_t tw_gemm_pool_need(const tw_gemm_problem *q) {
    size_t bytes = 0;
    for (int i = 0; i < INPUTS; i++) bytes += room(q, inputs[i]);
    return bytes;
}

/* Tells whether matrices lie without gaps between their rows, and between one another. Two have gaps that the reference
   knows: a single B that is k x n, and a single C without mul and residual. */
static bool dense(const tw_gemm_problem *q) {
    const int64_t columns = tw_gemm_columns(q);
    const bool close =
        q->batch == 1 || (q->sets <= 1 && !q->narrow && q->stride_a == q->m * q->k && q->stride_c == q->m * columns);
    const bool single = q->batch == 1 && !q->groups;
    const bool alone = single && !q->epilogue.mul && !q->epilogue.residual;
    return q->lda == q->k && (q->ldb == (q->trans_b ? q->k : q->n) || (single && !q->trans_b)) &&
           (q->ldc == columns || alone) && close && (single || q->stride_b == q->n * q->k);
}

/* Tells whether the reference kernel computes a problem's epilogue. It reads elements of C's type as those of A's. */
static bool has_epilogue(const tw_gemm_problem *q) {
    const tw_gemm_epilogue *e = &q->epilogue;
    const bool single = q->batch == 1 && !q->groups;
    if ((e->squares || q->sums) && !single) return false;
    if ((e->gated && q->narrow) || e->scaled || e->scale_rows || (e->scale_columns && !q->narrow)) return false;
    return q->out == tw_gemm_types[q->type].element || !(e->bias || e->mul || e->residual);
}

tw_status tw_gemm_pool_covers(const tw_gemm_pool *p, const tw_gemm_problem *q, tw_diag *diag) {
    if (q->type != p->type || q->out != tw_gemm_types[q->type].out || q->trans_a ||
        (!q->trans_b && (q->narrow || p->type == TW_GEMM_E4M3)) || !dense(q) || q->pointers || q->alpha != 1 ||
        q->beta != 0 || !has_epilogue(q) || q->scale_blocks || q->masked || q->gather || q->scatter || q->addends ||
        q->k * (int64_t)element_bytes(q->type) % 16)
        return tw_fail(diag, TW_ERR_UNSUPPORTED,
                       "only dense products whose rows of A have whole 16 bytes have a reference on the device");
    if (tw_gemm_pool_need(q) > p->bytes)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "the pool of %lld bytes is too small", (long long)p->bytes);
    return TW_OK;
}

void tw_gemm_pool_place(const tw_gemm_pool *p, const tw_gemm_problem *q, int set, tw_gemm_buffers *out) {
    const size_t all = tw_gemm_pool_need(q);
    uint64_t at = p->at + (size_t)set % (p->bytes / all) * all;
    for (int i = 0; i < INPUTS; i++) {
        const size_t bytes = room(q, inputs[i]);
        if (bytes) out->of[inputs[i]] = at;
        at += bytes;
    }
}

tw_status tw_gemm_pool_outputs(tw_gemm_pool *p, const tw_gemm_problem *q, int n, uint64_t *c, tw_diag *diag) {
    const size_t apart = room(q, TW_GEMM_C), bytes = (size_t)n * apart;
    if (bytes > p->output_bytes) {
        if (p->outputs) tw_cuda_release(p->cuda, p->outputs);
        p->outputs = 0;
        p->output_bytes = 0;
        const size_t most = bytes > LEAST_OUTPUTS ? bytes : LEAST_OUTPUTS;
        const tw_status st = tw_cuda_alloc(p->cuda, most, &p->outputs, diag);
        if (st != TW_OK) return st;
        p->output_bytes = most;
    }
    for (int i = 0; i < n; i++) c[i] = p->outputs + (size_t)i * apart;
    return TW_OK;
}

/* Returns the address of a cell of a matrix like C. 0: there is no such matrix. */
static uint64_t cells_from(const tw_gemm_problem *q, uint64_t at, uint64_t cells) {
    return at ? at + (uint64_t)tw_type_bits(q->out) / 8 * cells : 0;
}

/* Computes the reference of `rows` rows of A from `row` on, at most SLAB. */
static tw_status refer_slab(tw_gemm_pool *p, const tw_gemm_problem *q, const tw_gemm_buffers *from, int64_t row,
                            int64_t rows, uint64_t want, uint64_t tolerance, uint64_t twice, tw_diag *diag) {
    const int64_t columns = tw_gemm_columns(q);
    const uint64_t *of = from->of, cells = (uint64_t)(row * columns);
    const uint64_t arguments[] = {of[TW_GEMM_A] + element_bytes(q->type) * (uint64_t)(row * q->k),
                                  of[TW_GEMM_B],
                                  want + sizeof(double) * cells,
                                  tolerance + sizeof(float) * cells,
                                  (uint64_t)rows,
                                  (uint64_t)q->n,
                                  (uint64_t)q->k,
                                  q->promote,
                                  of[TW_GEMM_SCALES],
                                  of[TW_GEMM_SCALE_COLUMNS],
                                  (uint64_t)q->ldb,
                                  of[TW_GEMM_BIAS],
                                  cells_from(q, of[TW_GEMM_MUL], cells),
                                  cells_from(q, of[TW_GEMM_RESIDUAL], cells),
                                  twice ? twice + sizeof(float) * cells : 0,
                                  of[TW_GEMM_RESIDUAL_GAINS],
                                  of[TW_GEMM_ROW_SUMS] + sizeof(float) * (1 + q->centred) * (uint64_t)row,
                                  (uint64_t)q->sums,
                                  (uint64_t)q->m,
                                  tw_f32_bits((float)q->eps)};
    static const int bytes[] = {8, 8, 8, 8, 4, 4, 4, 4, 8, 8, 4, 8, 8, 8, 8, 8, 8, 4, 4, 4};
    const tw_cuda_launch l = {
        .module = p->refer,
        .grid = {(int)(tw_ceil_div(columns, TW_GEMM_REFER_THREADS)), (int)(tw_ceil_div(rows, TW_GEMM_REFER_ROWS)), 1},
        .threads = TW_GEMM_REFER_THREADS,
        .arguments = arguments,
        .argument_bytes = bytes,
        .n_arguments = sizeof bytes / sizeof *bytes};
    return tw_cuda_run(p->cuda, &l, diag);
}

tw_status tw_gemm_pool_refer(tw_gemm_pool *p, const tw_gemm_problem *q, const tw_gemm_buffers *from, uint64_t want,
                             uint64_t tolerance, uint64_t twice, tw_diag *diag) {
    tw_status st = load_refer(p, q, diag);
    for (int64_t row = 0; row < q->m && st == TW_OK; row += SLAB) {
        const int64_t rows = q->m - row < SLAB ? q->m - row : SLAB;
        st = refer_slab(p, q, from, row, rows, want, tolerance, twice, diag);
    }
    return st;
}
