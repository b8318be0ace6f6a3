/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "base/divide.h"
#include "kernels/gemm/generate.h"

#include <string.h>

const struct tw_gemm_type_info tw_gemm_types[TW_GEMM_TYPES] = {
    [TW_GEMM_F32] = {"f32", TW_T_f32, TW_T_f32, TW_T_f32},
    [TW_GEMM_F64] = {"f64", TW_T_f64, TW_T_f64, TW_T_f64},
    [TW_GEMM_F16] = {"f16", TW_T_f16, TW_T_f32, TW_T_f16},
    [TW_GEMM_BF16] = {"bf16", TW_T_bf16, TW_T_f32, TW_T_bf16},
    [TW_GEMM_TF32] = {"tf32", TW_T_f32, TW_T_f32, TW_T_f32},
    [TW_GEMM_S8] = {"s8", TW_T_i8, TW_T_i32, TW_T_i32},
    [TW_GEMM_TF32X3] = {"tf32x3", TW_T_f32, TW_T_f32, TW_T_f32},
    [TW_GEMM_E4M3] = {"e4m3", TW_T_e4m3, TW_T_f32, TW_T_bf16},
};

bool tw_gemm_type_from_name(const char *name, tw_gemm_type *t) {
    for (int i = 0; i < TW_GEMM_TYPES; i++)
        if (!strcmp(tw_gemm_types[i].name, name)) {
            *t = (tw_gemm_type)i;
            return true;
        }
    return false;
}

static const char *const activations[TW_GEMM_ACTIVATIONS] = {
    [TW_GEMM_LINEAR] = "none", [TW_GEMM_GELU] = "gelu", [TW_GEMM_SILU] = "silu", [TW_GEMM_GELU_ERF] = "gelu_erf"};

const char *tw_gemm_activation_name(tw_gemm_activation a) {
    return activations[a];
}

bool tw_gemm_activation_from_name(const char *name, tw_gemm_activation *a) {
    for (int i = 0; i < TW_GEMM_ACTIVATIONS; i++)
        if (!strcmp(activations[i], name)) {
            *a = (tw_gemm_activation)i;
            return true;
        }
    return false;
}

static bool out_fits(tw_gemm_type t, tw_type out) {
    if (t == TW_GEMM_F64) return out == TW_T_f64;
    if (t == TW_GEMM_S8) return out == TW_T_i32 || out == TW_T_i8 || out == TW_T_f32;
    return out == TW_T_f32 || out == TW_T_f16 || out == TW_T_bf16 || (out == TW_T_e4m3 && t == TW_GEMM_E4M3);
}

const char *const tw_gemm_narrow_names[TW_GEMM_NARROWS] = {"none", "i8", "i4"};

const char *const tw_gemm_buffer_names[TW_GEMM_BUFFERS] = {"a",
                                                           "b",
                                                           "c",
                                                           "bias",
                                                           "mul",
                                                           "residual",
                                                           "scale_rows",
                                                           "scale_columns",
                                                           "scale_a",
                                                           "scale_b",
                                                           "scales",
                                                           "ends",
                                                           "counts",
                                                           "rows",
                                                           "places",
                                                           "factors",
                                                           "sums",
                                                           "gains",
                                                           "residual_gains",
                                                           "squares",
                                                           "scaled",
                                                           "workspace",
                                                           "counters"};

int64_t tw_gemm_columns(const tw_gemm_problem *p) {
    return p->epilogue.gated ? p->n / 2 : p->n;
}

static tw_gemm_matrix one_of(tw_type type, int64_t rows, int64_t columns, int64_t ld) {
    return (tw_gemm_matrix){type, rows, columns, ld, 1, 0, 1, 0};
}

static tw_gemm_matrix batch_of(const tw_gemm_problem *p, tw_type type, int64_t rows, int64_t columns, int64_t ld,
                               int64_t stride, int64_t apart) {
    tw_gemm_matrix m = one_of(type, rows, columns, ld);
    const int64_t sets = p->sets > 1 ? p->sets : 1;
    if (stride != TW_GEMM_SHARED) m.count = p->batch / sets, m.stride = stride;
    if (sets > 1 && apart != TW_GEMM_SHARED) m.sets = sets, m.apart = apart;
    return m;
}

tw_gemm_matrix tw_gemm_matrix_of(const tw_gemm_problem *p, tw_gemm_buffer which) {
    const tw_gemm_epilogue *e = &p->epilogue;
    const bool used[TW_GEMM_MATRICES] = {true,
                                         true,
                                         true,
                                         e->bias,
                                         e->mul,
                                         e->residual,
                                         e->scale_rows,
                                         e->scale_columns,
                                         p->scale_blocks,
                                         p->scale_blocks,
                                         p->scales > 0,
                                         p->groups && !p->masked,
                                         p->masked,
                                         p->gather,
                                         p->scatter,
                                         p->scatter,
                                         p->sums > 0,
                                         e->scaled,
                                         p->norm_residual};
    const bool ta = p->trans_a, tb = p->trans_b;
    const tw_type in = tw_gemm_types[p->type].element;
    tw_gemm_matrix m = batch_of(p, p->out, p->m, tw_gemm_columns(p), p->ldc, p->stride_c, p->set_c);
    if (which == TW_GEMM_C && p->addends) m.count = p->addends, m.stride = p->stride_c;
    if (which == TW_GEMM_A && p->gather)
        m = one_of(in, p->rows_a, p->k, p->lda);
    else if (which == TW_GEMM_A)
        m = batch_of(p, in, ta ? p->k : p->rows_a ? p->rows_a : p->m, ta ? p->m : p->k, p->lda, p->stride_a, p->set_a);
    if (which == TW_GEMM_B) m = batch_of(p, in, tb ? p->n : p->k, tb ? p->k : p->n, p->ldb, p->stride_b, p->set_b);
    if (which == TW_GEMM_B && p->groups) m.count = p->groups;
    if (which == TW_GEMM_B && p->narrow) m = tw_gemm_packed_matrix(p);
    if (which == TW_GEMM_SCALES && p->scales) m = tw_gemm_scales_matrix(p);
    if (which == TW_GEMM_ENDS || which == TW_GEMM_COUNTS) m = one_of(TW_T_i32, 1, p->groups, p->groups);
    if (which == TW_GEMM_ROWS || which == TW_GEMM_PLACES || which == TW_GEMM_FACTORS)
        m = one_of(which == TW_GEMM_FACTORS ? TW_T_f32 : TW_T_i32, 1, p->m, p->m);
    if (which == TW_GEMM_BIAS) m = one_of(p->out, 1, p->n, p->n);
    /* Scales are shared as the matrix is whose rows or columns they are of. */
    if (which == TW_GEMM_SCALE_ROWS) m = batch_of(p, TW_T_f32, 1, p->m, p->m, p->stride_a < 0 ? p->stride_a : p->m, 0);
    if (which == TW_GEMM_SCALE_COLUMNS)
        m = batch_of(p, TW_T_f32, 1, p->n, p->n, p->stride_b < 0 ? p->stride_b : p->n, 0);
    if (which == TW_GEMM_SCALE_COLUMNS && p->groups) m.count = p->groups;
    if (which == TW_GEMM_ROW_SUMS) m = one_of(TW_T_f32, p->sums, p->m * (1 + p->centred), p->m * (1 + p->centred));
    if (which == TW_GEMM_GAINS) m = one_of(TW_T_f32, 1, p->n, p->n);
    if (which == TW_GEMM_RESIDUAL_GAINS) m = one_of(p->out, 1, p->n, p->n);
    const int64_t along_k = tw_ceil_div(p->k, TW_GEMM_BLOCK), along_n = tw_ceil_div(p->n, TW_GEMM_BLOCK);
    if (which == TW_GEMM_SCALE_A) m = one_of(TW_T_f32, along_k, p->m, p->m);
    if (which == TW_GEMM_SCALE_B)
        m = (tw_gemm_matrix){TW_T_f32, along_n, along_k, along_k, p->groups ? p->groups : 1, along_n * along_k, 1, 0};
    if (!used[which]) m.count = 0;
    return m;
}

size_t tw_gemm_matrix_bytes(const tw_gemm_matrix *m) {
    const int64_t elements =
        m->count ? (m->sets - 1) * m->apart + (m->count - 1) * m->stride + (m->rows - 1) * m->ld + m->columns : 0;
    return (size_t)elements * (size_t)tw_type_bits(m->type) / 8;
}

bool tw_gemm_by_pointers(const tw_gemm_problem *p, tw_gemm_buffer which) {
    return p->pointers && which <= TW_GEMM_C;
}

/* Checks a narrow B. TW_ERR_USAGE: no kernel reads such a B. */
static tw_status check_narrow(const tw_gemm_problem *p, tw_diag *diag) {
    if (!p->narrow && (p->scales || p->scale_sums))
        return tw_fail(diag, TW_ERR_USAGE, "scales are of a narrow B: say narrow=i8 or narrow=i4");
    if (!p->narrow) return TW_OK;
    if (p->type != TW_GEMM_F16 && p->type != TW_GEMM_BF16)
        return tw_fail(diag, TW_ERR_USAGE, "a narrow B is multiplied as f16 or bf16, not as %s",
                       tw_gemm_types[p->type].name);
    if (!p->trans_b || p->ldb != p->k || p->batch > 1 || p->groups)
        return tw_fail(diag, TW_ERR_USAGE, "a narrow B is stored n x k (tb=1) without gaps, once, and has no groups");
    if (p->scales % 64 && p->scales != 32)
        return tw_fail(diag, TW_ERR_USAGE, "scales = %lld is neither 32 nor a multiple of 64", (long long)p->scales);
    if (p->epilogue.squares) return tw_fail(diag, TW_ERR_USAGE, "a narrow B's product leaves no squares");
    if (p->scale_sums && !p->scales) return tw_fail(diag, TW_ERR_USAGE, "there are no scales that could multiply sums");
    return TW_OK;
}

/* Checks a tape. TW_ERR_USAGE: no kernel reads such a B. */
static tw_status check_tape(const tw_gemm_problem *p, tw_diag *diag) {
    enum { MOST = 1 << 20 /* Pieces of a chunk. */ };
    const tw_gemm_tape *t = &p->tape;
    if (!t->warps && !t->blocks && !t->run && !t->apart) return TW_OK;
    if (t->apart < 0 || t->apart > 1 || t->warps < 1 || t->blocks < 1 || t->run < 1 || t->run % t->blocks ||
        (int64_t)t->warps * t->run > MOST)
        return tw_fail(diag, TW_ERR_USAGE, "a tape's run has whole blocks, and its chunk at most %d pieces", MOST);
    if (p->type != TW_GEMM_F16 && p->type != TW_GEMM_BF16)
        return tw_fail(diag, TW_ERR_USAGE, "a tape has f16 or bf16, not %s", tw_gemm_types[p->type].name);
    if (p->trans_a || !p->trans_b || p->ldb != p->k || p->batch > 1 || p->narrow || p->gather)
        return tw_fail(diag, TW_ERR_USAGE,
                       "a tape has a B that is stored n x k (tb=1) without gaps, once or in groups, and "
                       "A is not transposed (ta=0), nor gathered");
    return TW_OK;
}

static tw_status check_extents(const tw_gemm_problem *p, int64_t least_a, int64_t least_b, tw_diag *diag) {
    const struct {
        const char *name;
        int64_t is, least, most;
    } ranges[] = {{"m", p->m, 1, INT32_MAX / 2},       {"n", p->n, 1, INT32_MAX / 2},
                  {"k", p->k, 1, INT32_MAX / 2},       {"batch", p->batch, 1, 65535},
                  {"groups", p->groups, 0, 65535},     {"rows_a", p->rows_a, 0, INT32_MAX / 2},
                  {"lda", p->lda, least_a, INT32_MAX}, {"ldb", p->ldb, least_b, INT32_MAX},
                  {"scales", p->scales, 0, p->k},      {"sums", p->sums, 0, p->k},
                  {"addends", p->addends, 0, p->k},    {"ldc", p->ldc, tw_gemm_columns(p), INT32_MAX}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].is < ranges[i].least || ranges[i].is > ranges[i].most)
            return tw_fail(diag, TW_ERR_USAGE, "%s = %lld is not within %lld..%lld", ranges[i].name,
                           (long long)ranges[i].is, (long long)ranges[i].least, (long long)ranges[i].most);
    return TW_OK;
}

/* Checks the groups, and the fields that need groups. TW_ERR_USAGE: no kernel computes such groups. */
static tw_status check_groups(const tw_gemm_problem *p, tw_diag *diag) {
    const tw_gemm_epilogue *e = &p->epilogue;
    if (p->groups && (p->batch > 1 || p->trans_a))
        return tw_fail(diag, TW_ERR_USAGE, "groups need batch=1, and rows of A that are stored as such");
    if (p->pointers && (p->batch == 1 || p->epilogue.mul || p->epilogue.residual))
        return tw_fail(diag, TW_ERR_USAGE, "pointers are of a batch without mul and residual");
    if (p->groups && p->stride_b == TW_GEMM_SHARED)
        return tw_fail(diag, TW_ERR_USAGE, "each group has a B of its own, so they cannot share one");
    if ((p->masked || p->gather || p->scatter) && !p->groups)
        return tw_fail(diag, TW_ERR_USAGE, "masked, gather and scatter are of products with groups");
    if (p->masked && p->m % p->groups)
        return tw_fail(diag, TW_ERR_USAGE, "masked groups have equally many rows reserved: m is a multiple of groups");
    if (p->rows_a && !p->gather && (p->rows_a < p->m || p->groups || p->batch > 1 || p->trans_a))
        return tw_fail(diag, TW_ERR_USAGE, "rows_a is of rows that are gathered, or of one product of fewer rows");
    if (p->gather && p->type == TW_GEMM_TF32X3) return tw_fail(diag, TW_ERR_USAGE, "tf32x3 gathers no rows");
    if (p->gather && p->scale_blocks)
        return tw_fail(diag, TW_ERR_USAGE, "scales of blocks are of rows of A that are not gathered");
    if (p->scatter && (p->beta != 0 || e->mul || e->residual || e->squares))
        return tw_fail(diag, TW_ERR_USAGE, "a product that scatters its rows has no beta, mul, residual or squares");
    return TW_OK;
}

/* Checks addends. TW_ERR_USAGE: what is done to the product cannot be done to its addends. */
static tw_status check_addends(const tw_gemm_problem *p, tw_diag *diag) {
    const tw_gemm_epilogue *e = &p->epilogue;
    if (!p->addends) return TW_OK;
    if (p->out != TW_T_f32 || p->batch > 1 || p->groups)
        return tw_fail(diag, TW_ERR_USAGE, "addends are f32, of one product without groups");
    if (p->beta != 0 || e->bias || e->activation || e->mul || e->residual || e->gated || e->squares || e->scaled)
        return tw_fail(diag, TW_ERR_USAGE, "addends are scaled, and nothing else is done to them");
    return TW_OK;
}

/* Checks e4m3, and the fields that need e4m3. TW_ERR_USAGE: no kernel computes such a product. */
static tw_status check_e4m3(const tw_gemm_problem *p, tw_diag *diag) {
    const tw_gemm_epilogue *e = &p->epilogue;
    if (p->type == TW_GEMM_E4M3 && (p->trans_a || !p->trans_b))
        return tw_fail(diag, TW_ERR_USAGE, "tensor cores take e4m3 that is contiguous along k: ta=0 tb=1");
    if (p->out == TW_T_e4m3 && (p->beta != 0 || e->bias || e->mul || e->residual))
        return tw_fail(diag, TW_ERR_USAGE,
                       "a C of e4m3 needs beta 0, and no bias, mul or residual, which have its type");
    if (p->scale_blocks && (p->type != TW_GEMM_E4M3 || p->batch > 1))
        return tw_fail(diag, TW_ERR_USAGE, "blocks of e4m3 alone have scales, in one product or in groups");
    if (p->promote && p->type != TW_GEMM_E4M3) return tw_fail(diag, TW_ERR_USAGE, "sums of e4m3 alone are promoted");
    return TW_OK;
}

/* Checks the epilogue. TW_ERR_USAGE: no kernel computes it for C's type. */
static tw_status check_epilogue(const tw_gemm_problem *p, tw_diag *diag) {
    const tw_gemm_epilogue *e = &p->epilogue;
    if (e->gated && (p->n % 16 || e->bias || e->mul || p->beta != 0))
        return tw_fail(diag, TW_ERR_USAGE, "a gated product has whole sixteens of columns, and no bias, mul or beta");
    bool integer = p->out == TW_T_i32 || p->out == TW_T_i8;
    if (integer && (p->alpha != 1 || (p->beta != 0 && p->beta != 1)))
        return tw_fail(diag, TW_ERR_USAGE, "an integer C needs alpha 1 and beta 0 or 1");
    if (e->scaled && (p->out != TW_T_f32 || (p->type != TW_GEMM_F16 && p->type != TW_GEMM_BF16) || e->gated ||
                      p->batch > 1 || p->groups > 1 || p->scatter || p->ldc != p->n))
        return tw_fail(diag, TW_ERR_USAGE,
                       "scaled cells are of one product of f16 or bf16, whose C has f32 without gaps, and no gates");
    if (p->sums && (integer || p->out == TW_T_f64 || p->batch > 1 || p->gather || !(p->eps >= 0)))
        return tw_fail(diag, TW_ERR_USAGE, "sums of squares are f32, of rows of one A that are not gathered");
    if ((p->centred || p->norm_residual) && !p->sums)
        return tw_fail(diag, TW_ERR_USAGE, "a layer norm needs sums of its rows");
    if (p->norm_residual && (!p->centred || !e->residual || e->gated))
        return tw_fail(diag, TW_ERR_USAGE, "a residual's norm is a layer norm, of a product without gates");
    if (e->means && !e->squares) return tw_fail(diag, TW_ERR_USAGE, "means come with squares");
    if (e->squares && (integer || p->out == TW_T_f64 || p->batch > 1))
        return tw_fail(diag, TW_ERR_USAGE, "squares are summed in f32, of one product or of groups");
    if ((integer || p->out == TW_T_f64) && (e->scale_rows || e->scale_columns))
        return tw_fail(diag, TW_ERR_USAGE, "scales are f32: C cannot be %s", tw_type_name(p->out));
    if ((integer || p->out == TW_T_f64) && p->epilogue.activation)
        return tw_fail(diag, TW_ERR_USAGE, "activations are computed in f32: C cannot be %s", tw_type_name(p->out));
    return TW_OK;
}

tw_status tw_gemm_problem_complete(tw_gemm_problem *p, tw_diag *diag) {
    const int64_t least_a = p->trans_a ? p->m : p->k, least_b = p->trans_b ? p->k : p->n;
    if (!p->batch) p->batch = 1;
    if (!p->lda) p->lda = least_a;
    if (!p->ldb) p->ldb = least_b;
    if (!p->ldc) p->ldc = tw_gemm_columns(p);
    if (p->gather && !p->rows_a) p->rows_a = p->m;
    if (p->out == TW_T_none) p->out = tw_gemm_types[p->type].out;
    if (p->scale_blocks && p->type == TW_GEMM_E4M3) p->promote = true;
    tw_status st = check_extents(p, least_a, least_b, diag);
    if (st != TW_OK) return st;
    if (!out_fits(p->type, p->out))
        return tw_fail(diag, TW_ERR_USAGE, "C cannot be %s for %s", tw_type_name(p->out), tw_gemm_types[p->type].name);
    st = check_groups(p, diag);
    if (st == TW_OK) st = check_addends(p, diag);
    if (st == TW_OK) st = check_e4m3(p, diag);
    if (st == TW_OK) st = check_epilogue(p, diag);
    if (st == TW_OK) st = check_narrow(p, diag);
    if (st == TW_OK) st = check_tape(p, diag);
    return st == TW_OK ? tw_gemm_batch_complete(p, diag) : st;
}

/* Computes the largest power of two, at most `most`, that divides the bytes from row to row, from matrix to matrix and
   from set to set, and with `ends` those of a row. */
static int alignment(const tw_gemm_matrix *m, int most, bool ends) {
    const int64_t bytes = (m->ld | m->stride | m->apart | (ends ? m->columns : 0)) * (tw_type_bits(m->type) / 8);
    while (most > 1 && bytes % most) most /= 2;
    return most;
}

tw_gemm_variant tw_gemm_variant_of(const tw_gemm_problem *p, const tw_gemm_config *c) {
    const tw_gemm_matrix x = tw_gemm_matrix_of(p, c->swap ? TW_GEMM_B : TW_GEMM_A);
    const tw_gemm_matrix y = tw_gemm_matrix_of(p, c->swap ? TW_GEMM_A : TW_GEMM_B);
    const tw_gemm_matrix out = tw_gemm_matrix_of(p, TW_GEMM_C);
    const int es = tw_type_bits(x.type) / 8, most = c->vec > es ? c->vec : es;
    /* A copy is either whole or absent, so it must divide the contiguous extent and the distance between rows.
       (Asynchronous copies can be cut short, but memory checkers count the bytes that are cut off.) The copy engine
       checks the ends of rows by itself. */
    const bool ends = !tw_gemm_way_of(c)->tensor_copies;
    tw_gemm_variant v;
    memset(&v, 0, sizeof v);
    v.type = p->type;
    v.out = p->out;
    v.a_k_major = c->swap ? p->trans_b : !p->trans_a;
    v.b_k_major = c->swap ? !p->trans_a : p->trans_b;
    v.vec_a = alignment(&x, most, ends);
    v.vec_b = alignment(&y, most, ends);
    v.vec_c = alignment(&out, 16, true);
    v.whole_m = (c->swap ? p->n : p->m) % ((int64_t)c->ml * tw_gemm_fetchers(c, false)) == 0;
    v.whole_n = (c->swap ? p->m : p->n) % ((int64_t)c->nl * tw_gemm_fetchers(c, true)) == 0;
    if (p->tape.warps) *(c->swap ? &v.vec_a : &v.vec_b) = 16; /* Units lie anywhere. */
    v.whole_k = p->k % c->u == 0;
    v.beta = p->beta != 0;
    v.batched = p->batch > 1;
    v.sets = p->sets > 1;
    v.sums = p->sums > 0;
    v.centred = p->centred;
    v.norm_residual = p->norm_residual;
    v.addends = p->addends > 0;
    v.pointers = p->pointers;
    v.promote = p->promote;
    v.scale_blocks = p->scale_blocks;
    v.narrow = p->narrow;
    v.scales = (int)p->scales;
    v.scale_sums = p->scale_sums;
    v.tape.warps = p->tape.warps;
    v.tape.blocks = p->tape.blocks;
    v.tape.apart = p->tape.apart;
    v.grouped = p->groups > 0;
    v.masked = p->masked;
    v.gather = p->gather;
    v.scatter = p->scatter;
    if (v.grouped && c->swap) v.whole_n = false;
    if (v.grouped && !c->swap) v.whole_m = false;
    /* Which matrix of a group comes first is known only when the launch before has written the groups' ends. */
    const bool ready = c->early == TW_GEMM_AHEAD && p->weights && !v.grouped;
    v.ready_x = ready && c->swap;
    v.ready_y = ready && !c->swap;
    /* Assigning the whole struct would also copy its padding. */
    v.epilogue.bias = p->epilogue.bias;
    v.epilogue.activation = p->epilogue.activation;
    v.epilogue.mul = p->epilogue.mul;
    v.epilogue.residual = p->epilogue.residual;
    v.epilogue.gated = p->epilogue.gated;
    v.epilogue.squares = p->epilogue.squares;
    v.epilogue.means = p->epilogue.means;
    v.epilogue.scaled = p->epilogue.scaled;
    v.epilogue.scale_rows = p->epilogue.scale_rows;
    v.epilogue.scale_columns = p->epilogue.scale_columns;
    return v;
}

tw_gemm_squares tw_gemm_squares_of(const tw_gemm_problem *p, const tw_gemm_config *c) {
    const bool gated = p->epilogue.gated;
    tw_gemm_squares s = {.columns = tw_gemm_stored_columns(c, gated), .parts = 1};
    if (c->swap) s.columns = gated ? c->ml / 2 : c->ml;
    /* Blocks that join their sums share C's columns out. */
    if (!c->swap && tw_gemm_splits_in_cluster(c)) s.parts = c->kg;
    s.vectors = tw_ceil_div(tw_gemm_columns(p), s.columns) * s.parts * (1 + p->epilogue.means);
    return s;
}

/* Makes the tensor map of an operand. Its boxes are as wide as the swizzle. */
static tw_tensor_map map_of(const tw_gemm_matrix *m, bool k_major, uint64_t address, const tw_gemm_variant *v,
                            const tw_gemm_config *c, bool is_x, bool batched, int parts) {
    const bool sets = v->sets;
    const tw_tile t = tw_gemm_tile_of(v, c, is_x);
    const int64_t extent = k_major ? m->rows : m->columns, k = k_major ? m->columns : m->rows;
    const int64_t es = tw_type_bits(m->type) / 8;
    const tw_tile_matrices of = {.address = address,
                                 .extent = extent,
                                 .k = k,
                                 .row_bytes = m->ld * es,
                                 .count = batched ? m->count : 0,
                                 .matrix_bytes = (m->stride ? m->stride : m->ld) * es,
                                 .sets = sets ? m->sets : 0,
                                 .set_bytes = (m->apart ? m->apart : m->ld) * es};
    return tw_tile_map(&t, &of, parts);
}

/* Computes the bytes from one of a batch's matrices to the next, or from its address to the next. */
static int64_t stride_of(const tw_gemm_problem *p, tw_gemm_buffer which) {
    const tw_gemm_matrix m = tw_gemm_matrix_of(p, which);
    if (which == TW_GEMM_B && p->tape.warps)
        return tw_ceil_div(p->n, TW_TILE_ROWS) * tw_gemm_tape_of_unit(p) * (int64_t)sizeof(tw_gemm_unit);
    return tw_gemm_by_pointers(p, which) && m.stride ? TW_GEMM_POINTER : m.stride * (tw_type_bits(m.type) / 8);
}

void tw_gemm_launch_of(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_gemm_buffers *buffers,
                       tw_launch_values *l) {
    const bool swap = c->swap;
    const tw_gemm_matrix a = tw_gemm_matrix_of(p, TW_GEMM_A), b = tw_gemm_matrix_of(p, TW_GEMM_B);
    const int64_t es = tw_type_bits(a.type) / 8, out = tw_type_bits(p->out) / 8;
    const tw_gemm_tiling tiling = tw_gemm_tiling_of(p, c);
    /* With tensor copies the products of a batch follow one another in the grid's x. */
    const int y = tw_gemm_way_of(c)->tensor_copies ? 1 : (int)p->batch, x = (int)(tiling.blocks / y);
    *l = (tw_launch_values){.grid = {x, y, c->kg}, .cluster = c->multicast};
    if (tw_gemm_splits_in_cluster(c)) *l = (tw_launch_values){.grid = {x * c->kg, y, 1}, .cluster = c->kg};
    l->early = c->early != TW_GEMM_LATE;
    tw_arguments *to = &l->arguments;
    for (int i = 0; i < TW_GEMM_BUFFERS; i++) tw_argument_buffer(to, tw_gemm_buffer_names[i], buffers->of[i]);
    tw_argument_number(to, "m", p->m);
    tw_argument_number(to, "n", p->n);
    const int64_t k = tw_gemm_depth(p);
    tw_argument_number(to, "k", k);
    tw_argument_number(to, "chunk", tw_ceil_div(tw_ceil_div(k, c->u), c->kg) * c->u);
    tw_argument_number(to, "tiles_m", tiling.rows);
    tw_argument_number(to, "tiles_n", tiling.columns);
    tw_argument_number(to, "tiles", tiling.tiles);
    tw_argument_number(to, "streamed", tiling.streamed);
    tw_argument_number(to, "lda", p->lda * es);
    tw_argument_number(to, "ldb", p->ldb * es);
    tw_argument_number(to, "ldc", p->ldc * out);
    tw_argument_number(to, "stride_a", stride_of(p, TW_GEMM_A));
    tw_argument_number(to, "stride_b", stride_of(p, TW_GEMM_B));
    tw_argument_number(to, "stride_c", stride_of(p, TW_GEMM_C));
    if (p->sets > 1) {
        tw_argument_number(to, "of_set", p->batch / p->sets);
        tw_argument_number(to, "set_a", a.apart * es);
        tw_argument_number(to, "set_b", b.apart * es);
        tw_argument_number(to, "set_c", tw_gemm_matrix_of(p, TW_GEMM_C).apart * out);
    }
    tw_argument_float(to, "alpha", p->alpha, p->out == TW_T_f64 ? TW_T_f64 : TW_T_f32);
    tw_argument_float(to, "beta", p->beta, p->out == TW_T_f64 ? TW_T_f64 : TW_T_f32);
    tw_argument_number(to, "parts", p->sums);
    tw_argument_float(to, "share", 1 / (double)(p->norm_residual ? p->n : p->k), TW_T_f32);
    tw_argument_float(to, "eps", p->eps, TW_T_f32);
    tw_argument_number(to, "stride_scale_rows", tw_gemm_matrix_of(p, TW_GEMM_SCALE_ROWS).stride * 4);
    tw_argument_number(to, "stride_scale_columns", tw_gemm_matrix_of(p, TW_GEMM_SCALE_COLUMNS).stride * 4);
    if (p->tape.warps) tw_gemm_tape_arguments(p, to);
    if (!tw_gemm_way_of(c)->tensor_copies) return;
    tw_argument_number(to, "groups", p->groups);
    tw_argument_number(to, "rows_a", p->rows_a);
    const tw_gemm_variant v = tw_gemm_variant_of(p, c);
    const int parts_b = tw_gemm_fetchers(c, swap),
              parts_a = tw_gemm_cuts_rows(&v, c) ? c->ml / TW_WGMMA_ROWS : tw_gemm_fetchers(c, !swap);
    const bool batched = p->batch > 1;
    const tw_tensor_map map_a = map_of(&a, !p->trans_a, buffers->of[TW_GEMM_A], &v, c, !swap, batched, parts_a);
    const tw_tensor_map map_b =
        map_of(&b, p->trans_b, buffers->of[TW_GEMM_B], &v, c, swap, batched || p->groups, parts_b);
    if (!p->narrow && !tw_gemm_is_tape(&v, c, true))
        tw_argument_map(to, "map_x", swap ? "b" : "a", swap ? &map_b : &map_a);
    const tw_gemm_matrix to_store = tw_gemm_matrix_of(p, TW_GEMM_C);
    const tw_tensor_map map_c =
        tw_gemm_box_map(&to_store, buffers->of[TW_GEMM_C], tw_gemm_stored_columns(c, p->epilogue.gated), &v);
    if (c->staged == TW_GEMM_BOXED && tw_gemm_boxes_sent(&v)) tw_argument_map(to, "map_c", "c", &map_c);
    if (!tw_gemm_is_tape(&v, c, false)) tw_argument_map(to, "map_y", swap ? "a" : "b", swap ? &map_a : &map_b);
}
