/* SPDX-License-Identifier: Apache-2.0 */
/* Where an instruction's rows lie on the tapes of a decode program. */
#include "base/diag.h"
#include "base/divide.h"
#include "base/dtype.h"
#include "kernels/gemm/gemm.h"
#include "vm/prefill/program.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(tw_prefill_unit) == sizeof(tw_gemm_unit), "products and unpack read one table");

static const tw_buffer *first_matrix(const tw_schedule *s, const tw_instr *in) {
    return &s->buffers[tw_instr_matrices_of(in).matrix[0]];
}

/* Returns the number of the matrix's row that the instruction has at `row`, of gate (0) or up (1). */
static int64_t place_of(const tw_instr *in, int64_t row, int which) {
    if (!tw_mega_gated(in)) return row;
    return row / TW_MEGA_ROWS * 2 * TW_MEGA_ROWS + which * TW_MEGA_ROWS + row % TW_MEGA_ROWS;
}

/* Tells whether an instruction of the decode program multiplies by the first matrix of an instruction of prompts, which
   has that name. */
static bool shares(const tw_schedule *s, const tw_instr *decode, const tw_instr *in, const char *name) {
    const bool parts = in->op == TW_INSTR_PROJECT && decode->op == TW_INSTR_PARTIAL;
    return (decode->op == in->op || parts) && !strcmp(first_matrix(s, decode)->name, name);
}

/* Finds the instruction of the decode program that has a part of the matrix's columns. NULL: columns are not in
   parts. */
static const tw_instr *find_partial(const tw_prefill *p, const tw_instr *in) {
    const tw_schedule *s = p->decode->s;
    const char *name = first_matrix(p->s, in)->name;
    for (int w = 0; w < s->n_workers && p->decode->plan.parts; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *d = &s->workers[w].list[i];
            if (d->op == TW_INSTR_PARTIAL && shares(s, d, in, name)) return d;
        }
    return NULL;
}

/* Enters the units of an instruction of the decode program, whose stages begin at `stages`. */
static tw_status enter(const tw_prefill *p, const tw_instr *in, uint64_t stages, tw_prefill_unit *units,
                       tw_diag *diag) {
    const tw_mega_plan *plan = &p->decode->plan;
    const tw_mega_format *f = tw_mega_format_for(plan, in->op);
    const tw_mega_shape shape = tw_mega_shape_of(plan, p->decode->s, in);
    const int64_t bytes = tw_mega_stage_bytes(plan, in->op), from = in->param[TW_FROM];
    const int of = tw_mega_gated(in) ? 2 : 1;
    if (from % TW_MEGA_ROWS) return tw_fail(diag, TW_ERR_UNSUPPORTED, "rows of a matrix are not dealt out in eights");
    const bool parts = in->op == TW_INSTR_PARTIAL;
    const int64_t part = parts ? in->param[TW_PARTIAL_PART] : 0, chunks = parts ? shape.chunks : 1;
    const int64_t entries = parts ? plan->parts * chunks : 1; /* Of a unit. */
    for (int u = 0; u < shape.units; u++) {
        const tw_mega_unit at = tw_mega_unit_of(plan, f, &shape, u);
        const int64_t place = place_of(in, from + u / of * TW_MEGA_ROWS, u % of) / TW_MEGA_ROWS;
        for (int64_t c = 0; c < chunks; c++)
            units[place * entries + part * chunks + c] =
                (tw_prefill_unit){.first = stages + (uint64_t)((at.first + c * at.chunk) * bytes),
                                  .chunk = parts ? 0 : (int32_t)(at.chunk * bytes),
                                  .second = at.second};
    }
    return TW_OK;
}

/* Enters all units of a pool of the decode program, expert by expert. */
static tw_status enter_pool(const tw_prefill *p, const tw_instr *in, tw_prefill_unit *units, tw_diag *diag) {
    const tw_mega_plan *plan = &p->decode->plan;
    const tw_mega_pool pool = tw_mega_pool_of(plan, p->decode->s, in);
    const tw_mega_tape *t = tw_mega_pool_find(p->vm, p->decode, in);
    if (!t) return tw_fail(diag, TW_ERR_UNSUPPORTED, "the decode program lacks experts");
    for (int64_t e = 0; e < p->vm->m->n_experts; e++)
        for (int64_t u = 0; u < pool.shape.units; u++)
            units[e * pool.shape.units + u] = (tw_prefill_unit){
                .first = t->address + (uint64_t)(e * pool.expert_bytes + u / plan->body.units * pool.unit_bytes),
                .second = (int32_t)(u % plan->body.units)};
    return TW_OK;
}

/* Enters all units of a matrix, from the tapes of all workers. */
static tw_status enter_all(const tw_prefill *p, const tw_instr *in, tw_prefill_unit *units, tw_diag *diag) {
    const tw_schedule *s = p->decode->s;
    const char *name = first_matrix(p->s, in)->name;
    tw_status st = TW_OK;
    for (int w = 0; w < s->n_workers && st == TW_OK; w++) {
        uint64_t at = p->decode->tapes[w]->address;
        for (int i = 0; i < s->workers[w].count && st == TW_OK; i++) {
            const tw_instr *d = &s->workers[w].list[i];
            if (tw_mega_is_pooled(d->op) && shares(s, d, in, name)) return enter_pool(p, d, units, diag);
            if (!tw_mega_is_taped(d->op)) continue;
            if (shares(s, d, in, name)) st = enter(p, d, at, units, diag);
            const tw_mega_shape shape = tw_mega_shape_of(&p->decode->plan, s, d);
            at += (uint64_t)shape.stages * (uint64_t)tw_mega_stage_bytes(&p->decode->plan, d->op);
        }
    }
    return st;
}

static tw_status find_matrix(tw_prefill *p, const tw_instr *in, tw_prefill_matrix *out, tw_diag *diag) {
    const tw_mega_plan *plan = &p->decode->plan;
    const bool pooled = tw_mega_is_pooled(in->op);
    const tw_mega_pool pool = tw_mega_pool_of(plan, p->s, in);
    const tw_instr *partial = find_partial(p, in);
    const tw_mega_shape of_part = partial ? tw_mega_shape_of(plan, p->decode->s, partial) : (tw_mega_shape){0};
    tw_mega_shape shape = pooled ? pool.shape : tw_mega_shape_of(plan, p->s, in);
    if (partial) shape.run = of_part.run;
    int64_t of_one = in->param[TW_TO] * (tw_mega_gated(in) ? 2 : 1);
    /* The last unit of a vocabulary may have rows to spare. */
    if (in->op == TW_INSTR_HEAD) of_one = tw_ceil_div(of_one, TW_MEGA_ROWS) * TW_MEGA_ROWS;
    memset(out, 0, sizeof *out);
    out->groups = pooled ? p->vm->m->n_experts : 0;
    const int64_t rows = of_one * (pooled ? out->groups : 1), units = rows / TW_MEGA_ROWS;
    if (of_part.chunks * of_part.chunk_columns != of_part.columns)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "prompts: parts of a matrix that are not whole chunks");
    out->rows = rows;
    out->columns = shape.columns;
    out->shape.rows = rows;
    out->shape.columns = shape.columns;
    out->shape.type = p->type;
    out->shape.format = *tw_mega_format_for(plan, in->op);
    out->shape.warps = pooled ? pool.plan.tuning.warps : plan->tuning.warps;
    out->shape.blocks = plan->tuning.blocks;
    out->shape.run = shape.run;
    out->shape.chunks = partial ? plan->parts * of_part.chunks : 0;
    out->shape.stage_bytes = pooled ? pool.stage_bytes : tw_mega_stage_bytes(plan, in->op);
    if (of_one % TW_MEGA_ROWS || shape.columns % TW_MEGA_ROWS)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "prompts: a matrix of %lld x %lld is not divided into eights",
                       (long long)rows, (long long)shape.columns);
    /* Products read one entry behind the last where chunks lie anywhere. */
    const int64_t entries = units * (partial ? out->shape.chunks : 1), all = entries + (partial ? 1 : 0);
    tw_prefill_unit *table = calloc((size_t)all, sizeof *table);
    if (!table) return tw_fail_memory(diag);
    tw_status st = enter_all(p, in, table, diag);
    for (int64_t i = 0; i < entries && st == TW_OK; i++)
        if (!table[i].first) st = tw_fail(diag, TW_ERR_UNSUPPORTED, "the decode program lacks rows of a matrix");
    if (st == TW_OK) st = tw_mega_alloc(p->vm, p, "units", table, (size_t)all * sizeof *table, true, &out->table, diag);
    free(table);
    return st;
}

/* Fills in the biases of matrix `which` of the instruction. */
static void read_bias(const tw_prefill *p, const tw_instr *in, const tw_weight *bias, int which, float *out) {
    const tw_model *m = p->vm->m;
    for (int64_t row = 0; row < in->param[TW_TO]; row++) {
        int64_t at = row;
        if (in->op == TW_INSTR_QKV) {
            const tw_qkv_row q =
                tw_qkv_locate(row, m->n_heads, m->n_kv_heads, m->head_dim, tw_model_norms_apart(m) ? 0 : m->rope.dims);
            if (q.part != which) continue;
            at = q.head * m->head_dim + q.row;
        }
        tw_weight_read(bias, at, 0, 1, &out[place_of(in, row, which)]);
    }
}

/* Returns the type in which the instruction's biases are uploaded. A product's bias has the type of its result, which
   is f32 unless the product activates it. */
static tw_dtype bias_type(const tw_prefill *p, const tw_instr *in) {
    if (in->op != TW_INSTR_FFN || tw_prefill_gates_apart(p->vm->m, true)) return TW_F32;
    return p->type == TW_T_f32 ? TW_F32 : p->type == TW_T_f16 ? TW_F16 : TW_BF16;
}

static tw_status find_bias(tw_prefill *p, const tw_instr *in, uint64_t *address, tw_diag *diag) {
    const tw_instr_matrices of = tw_instr_matrices_of(in);
    const int64_t rows = in->param[TW_TO] * (tw_mega_gated(in) ? 2 : 1);
    const tw_dtype type = bias_type(p, in);
    bool any = false;
    for (int i = 0; i < of.n; i++) any |= of.bias[i] >= 0;
    if (!any) return TW_OK;
    float *all = calloc((size_t)rows, sizeof *all);
    if (!all) return tw_fail_memory(diag);
    for (int i = 0; i < of.n; i++)
        if (of.bias[i] >= 0) read_bias(p, in, tw_weight_at(&p->weights, of.bias[i], 0), i, all);
    if (type != TW_F32) tw_from_f32(type, all, all, (size_t)rows); /* In place: a half is written behind its float. */
    const size_t bytes = (size_t)rows * tw_dtype_bits(type) / 8;
    const tw_status st = tw_mega_alloc(p->vm, p, "bias", all, bytes, true, address, diag);
    free(all);
    return st;
}

tw_status tw_prefill_find_matrices(tw_prefill *p, tw_diag *diag) {
    const tw_worker *w = &p->s->workers[0];
    p->matrices = tw_arena_array(&p->arena, (size_t)w->count, sizeof *p->matrices);
    if (p->arena.failed) return tw_fail_memory(diag);
    tw_status st = TW_OK;
    for (int i = 0; i < w->count && st == TW_OK; i++) {
        const tw_instr *in = &w->list[i];
        if (!tw_mega_is_product(in->op)) continue;
        const bool head = in->op == TW_INSTR_HEAD;
        st = find_matrix(p, in, head ? &p->head : &p->matrices[i], diag);
        if (st == TW_OK && !head) st = find_bias(p, in, &p->matrices[i].bias, diag);
    }
    return st;
}
