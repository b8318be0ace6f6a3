/* SPDX-License-Identifier: Apache-2.0 */
/* Constant parts of addresses. Needs: verified IR; best after folding, which puts constants to the right. Keeps: every
   address, modulo 2^32 in shared memory and 2^64 elsewhere.

   An access to x + c becomes one to x with c added to its `offset`, where that fits the 24 bits that instructions have
   for it; so the unrolled accesses of a tile share one register. Looks through chains of additions, and through
   products and shifts by constants, of which a copy without the constant is made: (i + 2) * 4 becomes i * 4 and an
   offset of 8. Not through widening: with i = 2^31 - 1, sext(i + 1) * 4 is far from sext(i) * 4 + 4. Also joins (x + c)
   + d.

   A variable may have changed between the addition and the access:

       %2:i64 = add_i64 $1, 16:i64
       $1 = add_i64 $1, 64:i64
       %3:f32 = ld(type=f32) %2

   So each addition is stamped with the time at which the walk met it, and each variable with that of its last
   assignment; a loop assigns, at its beginning, what it assigns anywhere. Only where the stamps say that $1 is still
   what it was may the access name it. */
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"

#include <stdlib.h>

enum { OFFSET_LIMIT = 1 << 23, DEPTH = 64 };

/* What is known of a register, or of a variable. */
typedef struct fact {
    tw_ir_op *def; /* of a register */
    int64_t part;  /* constant part of its value: it is base + part */
    tw_val base;   /* once made; none for what is constant as a whole */
    int variable;  /* the base is this variable, as it was at `stamp` */
    int stamp;     /* a register: when its operation was met; a variable: when it was assigned last */
    bool known, made;
} fact;

typedef struct addresses {
    tw_kernel *k;
    fact *facts;
    int n; /* of them; values that the pass makes have none and need none */
    int clock;
    bool changed;
} addresses;

static tw_ir_op *definition(const addresses *a, tw_val v) {
    return v.id < a->n && a->k->values[v.id].kind == TW_V_REGISTER ? a->facts[v.id].def : NULL;
}

static bool wide(const tw_ir_op *op) {
    return tw_op_describe((tw_opcode)op->code)->result == TW_T_i64;
}

static int64_t truncated(const tw_ir_op *op, uint64_t x) {
    return wide(op) ? (int64_t)x : (int64_t)(int32_t)(uint32_t)x;
}

static bool constant(const addresses *a, tw_val v, int64_t *c) {
    uint64_t bits;
    if (!tw_value_constant(a->k, v, &bits)) return false;
    *c = tw_value_type(a->k, v) == TW_T_i32 ? (int64_t)(int32_t)(uint32_t)bits : (int64_t)bits;
    return true;
}

/* -- the constant part of a value */

static int64_t part_of(addresses *a, tw_val v, int depth);

/* The same for an operand of an operation that is made anew: a variable stays the operand that it is. */
static int64_t solid_part(addresses *a, tw_val v, int depth) {
    int64_t part = part_of(a, v, depth);
    return v.id < a->n && a->facts[v.id].variable ? 0 : part;
}

/* Base + constant where the operation is an addition of a constant: no new operation is needed. */
static bool plain_sum(const addresses *a, const tw_ir_op *op, tw_val *x, int64_t *c) {
    switch (op->code) {
    case TW_OP_add_i32:
    case TW_OP_add_i64:
        *x = op->operands[0];
        if (constant(a, op->operands[1], c)) return true;
        *x = op->operands[1];
        return constant(a, op->operands[0], c);
    case TW_OP_sub_i32:
    case TW_OP_sub_i64:
        *x = op->operands[0];
        if (!constant(a, op->operands[1], c)) return false;
        *c = (int64_t)(0 - (uint64_t)*c);
        return true;
    default:
        return false;
    }
}

static int64_t part_of_op(addresses *a, const tw_ir_op *op, int depth) {
    uint64_t x, y, z;
    int64_t c;
    switch (op->code) {
    case TW_OP_add_i32:
    case TW_OP_add_i64:
        x = (uint64_t)solid_part(a, op->operands[0], depth);
        return truncated(op, x + (uint64_t)solid_part(a, op->operands[1], depth));
    case TW_OP_sub_i32:
    case TW_OP_sub_i64:
        x = (uint64_t)solid_part(a, op->operands[0], depth);
        return truncated(op, x - (uint64_t)solid_part(a, op->operands[1], depth));
    case TW_OP_shl_i32:
    case TW_OP_shl_i64:
        if (!constant(a, op->operands[1], &c) || c < 0 || c > 31) return 0;
        return truncated(op, (uint64_t)solid_part(a, op->operands[0], depth) << c);
    case TW_OP_mul_i32:
    case TW_OP_mul_i64:
        if (!constant(a, op->operands[1], &c)) return 0;
        return truncated(op, (uint64_t)solid_part(a, op->operands[0], depth) * (uint64_t)c);
    case TW_OP_mad_i32:
        y = constant(a, op->operands[1], &c) ? (uint64_t)c : 0;
        x = y ? (uint64_t)solid_part(a, op->operands[0], depth) : 0;
        z = (uint64_t)solid_part(a, op->operands[2], depth);
        return truncated(op, x * y + z);
    case TW_OP_mad_wide_s32:
    case TW_OP_mad_wide_u32:
        return solid_part(a, op->operands[2], depth);
    default:
        return 0;
    }
}

/* A constant is all constant; anything that nothing is known of has no part. */
static int64_t part_of(addresses *a, tw_val v, int depth) {
    tw_val x;
    int64_t c;
    if (constant(a, v, &c)) return c;
    tw_ir_op *op = definition(a, v);
    if (!op || depth == DEPTH) return 0;
    fact *f = &a->facts[v.id];
    if (f->known) return f->part;
    if (plain_sum(a, op, &x, &c)) {
        int64_t below = part_of(a, x, depth + 1);
        fact *of = x.id < a->n ? &a->facts[x.id] : NULL;
        f->part = truncated(op, (uint64_t)below + (uint64_t)c);
        if (of && tw_is_variable(a->k, x)) {
            f->variable = x.id;
        } else if (of && of->variable) { /* as it was at the first addition */
            f->variable = of->variable;
            f->stamp = of->stamp;
        }
    } else {
        f->part = part_of_op(a, op, depth + 1);
    }
    /* Not worth an operation, nor possible as an offset. */
    if (f->part >= OFFSET_LIMIT || f->part < -OFFSET_LIMIT) {
        f->part = 0;
        f->variable = 0;
    }
    f->known = true;
    return f->part;
}

/* -- what is left without it */

static tw_val base_of(addresses *a, tw_val v);

static tw_val solid_base(addresses *a, tw_val v) {
    return v.id < a->n && a->facts[v.id].variable ? v : base_of(a, v);
}

/* x + y of which either may be none. */
static tw_val sum(addresses *a, tw_ir_op *op, tw_opcode code, tw_type t, tw_val x, tw_val y) {
    if (!x.id || !y.id) return x.id ? x : y;
    return tw_edit_insert(a->k, op, code, t, x, y, TW_NONE);
}

static tw_val product(addresses *a, tw_ir_op *op, tw_opcode code, tw_type t, tw_val x, tw_val y) {
    return x.id ? tw_edit_insert(a->k, op, code, t, x, y, TW_NONE) : TW_NONE;
}

/* The operation again, before itself, with operands that lack their constant parts. */
static tw_val remake(addresses *a, tw_ir_op *op) {
    tw_opcode code = (tw_opcode)op->code;
    tw_type t = tw_op_describe(code)->result;
    tw_val x, z;
    switch (code) {
    case TW_OP_add_i32:
    case TW_OP_add_i64:
        x = solid_base(a, op->operands[0]);
        return sum(a, op, code, t, x, solid_base(a, op->operands[1]));
    case TW_OP_sub_i32:
    case TW_OP_sub_i64:
        x = solid_base(a, op->operands[0]);
        z = solid_base(a, op->operands[1]);
        if (!z.id) return x;
        return tw_edit_insert(a->k, op, code, t, x.id ? x : tw_edit_constant(a->k, t, 0), z, TW_NONE);
    case TW_OP_shl_i32:
    case TW_OP_shl_i64:
    case TW_OP_mul_i32:
    case TW_OP_mul_i64:
        return product(a, op, code, t, solid_base(a, op->operands[0]), op->operands[1]);
    default: /* mad_i32, mad_wide_s32, mad_wide_u32 */
        x = op->operands[0];
        z = solid_base(a, op->operands[2]);
        int64_t c;
        if (code == TW_OP_mad_i32 && constant(a, op->operands[1], &c) && c) x = solid_base(a, x);
        if (!x.id) return z;
        if (z.id) return tw_edit_insert(a->k, op, code, t, x, op->operands[1], z);
        return tw_edit_insert(a->k, op,
                              code == TW_OP_mad_i32        ? TW_OP_mul_i32
                              : code == TW_OP_mad_wide_s32 ? TW_OP_mul_wide_s32
                                                           : TW_OP_mul_wide_u32,
                              t, x, op->operands[1], TW_NONE);
    }
}

/* After part_of(v). None for a constant. */
static tw_val base_of(addresses *a, tw_val v) {
    tw_val x;
    int64_t c;
    if (constant(a, v, &c)) return TW_NONE;
    tw_ir_op *op = definition(a, v);
    if (!op || !a->facts[v.id].part) return v;
    fact *f = &a->facts[v.id];
    if (!f->made) {
        f->base = plain_sum(a, op, &x, &c) ? base_of(a, x) : remake(a, op);
        f->made = true;
    }
    return f->base;
}

/* -- the walk */

static bool has_address(const tw_ir_op *op) {
    switch (op->code) {
    case TW_OP_ld:
    case TW_OP_st:
    case TW_OP_atom:
    case TW_OP_red:
    case TW_OP_prefetch:
    case TW_OP_cp_async: /* its destination's */
    case TW_OP_ldmatrix:
    case TW_OP_stmatrix:
        return true;
    default:
        return false;
    }
}

static void fold_address(addresses *a, tw_ir_op *op) {
    tw_val v = op->operands[0];
    if (!definition(a, v)) return;
    int64_t part = part_of(a, v, 0), offset = op->at.offset + part;
    const fact *f = &a->facts[v.id];
    if (!part || offset >= OFFSET_LIMIT || offset < -OFFSET_LIMIT) return;
    if (f->variable && a->facts[f->variable].stamp >= f->stamp) return;
    tw_val base = base_of(a, v);
    if (!base.id || a->k->arena.failed) return;
    op->operands[0] = base;
    op->at.offset = (int32_t)offset;
    a->changed = true;
}

/* (x + c) + d as x + (c + d) */
static void join_sums(addresses *a, tw_ir_op *op) {
    tw_val x, y;
    int64_t c, d, ignored;
    if (!plain_sum(a, op, &x, &d)) return;
    tw_ir_op *inner = definition(a, x);
    if (!inner || !plain_sum(a, inner, &y, &c) || tw_is_variable(a->k, y) || constant(a, y, &ignored)) return;
    bool i64 = wide(op);
    op->code = i64 ? TW_OP_add_i64 : TW_OP_add_i32;
    op->operands[0] = y;
    op->operands[1] = tw_edit_constant(a->k, i64 ? TW_T_i64 : TW_T_i32, (uint64_t)c + (uint64_t)d);
    a->changed = true;
}

static void assigned_within(addresses *a, const tw_block *block) {
    for (const tw_ir_op *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->n_results; i++)
            if (tw_is_variable(a->k, op->results[i])) a->facts[op->results[i].id].stamp = a->clock;
        for (int i = 0; i < op->n_blocks; i++) assigned_within(a, &op->blocks[i]);
    }
}

static void walk(addresses *a, tw_block *block) {
    for (tw_ir_op *op = block->first; op && !a->k->arena.failed; op = op->next) {
        a->clock++;
        join_sums(a, op);
        if (has_address(op)) fold_address(a, op);
        if (op->code == TW_OP_for || op->code == TW_OP_while)
            for (int i = 0; i < op->n_blocks; i++) assigned_within(a, &op->blocks[i]);
        for (int i = 0; i < op->n_blocks; i++) walk(a, &op->blocks[i]);
        for (int i = 0; i < op->n_results; i++) {
            fact *f = &a->facts[op->results[i].id];
            f->stamp = a->clock;
            if (!tw_is_variable(a->k, op->results[i]) && op->n_results == 1) f->def = op;
        }
    }
}

bool tw_pass_addresses(tw_kernel *k) {
    if (tw_kernel_failed(k)) return false;
    addresses a = {.k = k, .n = k->n_values, .facts = calloc((size_t)k->n_values, sizeof *a.facts)};
    if (a.facts)
        walk(&a, &k->body);
    else
        k->arena.failed = true;
    free(a.facts);
    return a.changed;
}
