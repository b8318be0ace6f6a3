/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/work.h"

#include <string.h>

enum { LANES = 32, GROUP = 4 /* Warps of a warpgroup. */ };

/* Kinds of work. */
enum {
    ARITHMETIC = 1, /* Ordinary float operations. */
    PRODUCTS = 2,   /* Operations of tensor cores. */
    ACCESSES = 4,   /* Loads, stores and atomic operations of global memory. */
    COPIES = 8,     /* cp.async */
    EXPECTED = 16,  /* Bytes that an mbarrier expects. */
    ALL = 31
};

typedef struct counter {
    const tw_kernel *k;
    int warps;
    int kinds;    /* The kinds that count. */
    bool unknown; /* The bounds of a loop that counts, or the bytes that an mbarrier expects, are no constants. */
} counter;

static tw_prof_work sum(tw_prof_work a, tw_prof_work b) {
    return (tw_prof_work){.flops = a.flops + b.flops, .bytes = a.bytes + b.bytes};
}

/* ---- operations */

/* Returns the float operations of a lane. The operation's name tells them, such as "fma_f32" or "add_bf16x2". */
static double lane_flops(const tw_ir_op *op) {
    static const char *const kinds[] = {"fma_", "add_", "sub_", "mul_"};
    const char *name = tw_op_describe(op->code)->name;
    for (int i = 0; i < 4; i++) {
        if (strncmp(name, kinds[i], 4) != 0) continue;
        const bool is_float = name[4] == 'f' || name[4] == 'b';
        return is_float ? (i ? 1 : 2) * (strstr(name, "x2") ? 2 : 1) : 0;
    }
    return 0;
}

/* Returns the operations of tensor cores that all warps issue. */
static double product_flops(const counter *c, const tw_ir_op *op) {
    if (op->code == TW_OP_mma) {
        const tw_mma_info *m = tw_mma_describe(op->at.mma);
        return 2.0 * m->m * m->n * m->k * c->warps;
    }
    if (op->code != TW_OP_wgmma && op->code != TW_OP_wgmma_rs) return 0;
    return 2.0 * TW_WGMMA_ROWS * op->at.columns * tw_wgmma_describe(op->at.wgmma)->k * c->warps / GROUP;
}

/* Returns the bytes of global memory that a lane accesses. */
static double lane_bytes(const tw_ir_op *op) {
    const bool accesses =
        op->code == TW_OP_ld || op->code == TW_OP_st || op->code == TW_OP_red || op->code == TW_OP_atom;
    if (!accesses || op->at.space != TW_SPACE_global) return 0;
    return tw_type_bits(op->at.type) / 8.0 * (op->at.vec > 1 ? op->at.vec : 1);
}

/* Returns the bytes that an mbarrier is told to expect. */
static double expected(counter *c, const tw_ir_op *op) {
    uint64_t bytes = 0;
    if (op->code != TW_OP_mbarrier_expect) return 0;
    if (!tw_value_constant(c->k, op->operands[1], &bytes)) c->unknown = true;
    return (double)bytes;
}

/* Counts the work of an operation without its blocks. */
static tw_prof_work of_itself(counter *c, const tw_ir_op *op) {
    const double lanes = LANES * c->warps;
    tw_prof_work all = {0};
    if (c->kinds & ARITHMETIC) all.flops += lane_flops(op) * lanes;
    if (c->kinds & PRODUCTS) all.flops += product_flops(c, op);
    if (c->kinds & ACCESSES) all.bytes += lane_bytes(op) * lanes;
    if (c->kinds & COPIES && op->code == TW_OP_cp_async) all.bytes += op->at.bytes * lanes;
    if (c->kinds & EXPECTED) all.bytes += expected(c, op);
    return all;
}

/* ---- blocks of operations */

static tw_prof_work of_op(counter *c, const tw_ir_op *op);

static tw_prof_work of_block(counter *c, const tw_block *block) {
    tw_prof_work all = {0};
    for (const tw_ir_op *op = block->first; op; op = op->next) all = sum(all, of_op(c, op));
    return all;
}

/* Returns how often a loop runs its body. */
static double rounds(counter *c, const tw_ir_op *loop) {
    uint64_t x[3] = {0};
    bool known = loop->code == TW_OP_for;
    for (int i = 0; known && i < 3; i++) known = tw_value_constant(c->k, loop->operands[i], &x[i]);
    if (!known) c->unknown = true;
    const bool wide = loop->at.type == TW_T_i64;
    const int64_t from = wide ? (int64_t)x[0] : (int32_t)x[0], below = wide ? (int64_t)x[1] : (int32_t)x[1];
    const int64_t step = wide ? (int64_t)x[2] : (int32_t)x[2];
    return known && below > from ? (double)((below - from + step - 1) / step) : 0;
}

static tw_prof_work of_op(counter *c, const tw_ir_op *op) {
    tw_prof_work all = of_itself(c, op);
    if (op->code == TW_OP_if) {
        const tw_prof_work yes = of_block(c, &op->blocks[0]);
        const tw_prof_work no = op->n_blocks > 1 ? of_block(c, &op->blocks[1]) : (tw_prof_work){0};
        return sum(all, yes.flops + yes.bytes < no.flops + no.bytes ? no : yes);
    }
    for (int i = 0; i < op->n_blocks; i++) {
        const tw_prof_work body = of_block(c, &op->blocks[i]);
        if (!(body.flops > 0) && !(body.bytes > 0)) continue;
        const double n = rounds(c, op);
        all = sum(all, (tw_prof_work){.flops = n * body.flops, .bytes = n * body.bytes});
    }
    return all;
}

/* ---- events */

static tw_prof_work of_region(counter *c, const tw_ir_op *begin) {
    tw_prof_work all = {0};
    int depth = 1;
    for (const tw_ir_op *op = begin->next; op; op = op->next) {
        const bool same = tw_is_record(op) && !strcmp(op->name, begin->name);
        if (same && op->code == TW_OP_record_begin) depth++;
        if (same && op->code == TW_OP_record_end && !--depth) break;
        all = sum(all, of_op(c, op));
    }
    return all;
}

/* Counts the products between an arrival's record and the end of their group. */
static tw_prof_work of_products(counter *c, const tw_ir_op *arrival) {
    tw_prof_work all = {0};
    c->kinds = PRODUCTS;
    for (const tw_ir_op *op = arrival->next; op && op->code != TW_OP_wgmma_commit; op = op->next)
        all = sum(all, of_op(c, op));
    return all;
}

/* Counts a thread's copies between the end of the group before and their arrival's record. */
static tw_prof_work of_copies(counter *c, const tw_ir_op *arrival) {
    tw_prof_work all = {0};
    c->kinds = COPIES;
    for (const tw_ir_op *op = arrival->prev; op && op->code != TW_OP_cp_async_commit; op = op->prev)
        all = sum(all, of_op(c, op));
    return all;
}

/* Counts the bytes that are expected between an arrival's record and the next record. */
static tw_prof_work of_expected(counter *c, const tw_ir_op *arrival) {
    tw_prof_work all = {0};
    c->kinds = EXPECTED;
    for (const tw_ir_op *op = arrival->next; op && !tw_is_record(op); op = op->next) all = sum(all, of_op(c, op));
    return all;
}

tw_prof_work tw_prof_work_of(const tw_kernel *k, const tw_ir_op *record, int warps) {
    counter c = {.k = k, .warps = warps, .kinds = ALL};
    tw_prof_work all = {0};
    const bool arrives = record->code == TW_OP_record_mark && record->at.arrival;
    if (record->code == TW_OP_record_begin && !record->at.wait)
        all = of_region(&c, record);
    else if (arrives && record->at.arrival == TW_ARRIVAL_later)
        all = of_expected(&c, record);
    else if (arrives && record->at.arrival == TW_ARRIVAL_own)
        all = record->at.engine == TW_ENGINE_OF_tensor ? of_products(&c, record) : of_copies(&c, record);
    return c.unknown ? (tw_prof_work){.unknown = true} : all;
}
