/* SPDX-License-Identifier: Apache-2.0 */
/* Constant folding. Needs: verified IR. Keeps: every result, bit by bit.

   Computes operations on constants, drops those that change nothing (x + 0, x * 1, a select of a constant, ...), and
   resolves control flow on constants: an `if` becomes one of its branches, a `for` that never runs disappears and one
   that runs once becomes its body, a `while` that never runs becomes what computes its predicate, a guard disappears or
   takes its operation with it.

   Only registers are replaced, and only by what is the same at every use. With

       $1:i32 = set(type=i32) @n
       %2:i32 = add_i32 $1, 0:i32
       $1 = set(type=i32) 7:i32
       st(type=i32) @p, %2

   %2 is not $1: the addition stays, as a copy. What computes into a variable becomes an assignment.
   Left alone: results that the device approximates, and NaN, whose bits differ between machines. */
#include "ir/builder.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"
#include "ir/value.h"

#include <stdlib.h>

typedef struct folder {
    tw_kernel *k;
    tw_replacements r;
    tw_ir_op **def; /* of registers, r.n of them */
    bool changed;
} folder;

/* -- constants */

static bool is(const folder *f, tw_val v, uint64_t bits) {
    uint64_t c;
    return tw_value_constant(f->k, v, &c) && c == bits;
}

static tw_val constant(folder *f, tw_type t, uint64_t bits) {
    return tw_edit_constant(f->k, t, bits);
}

static bool is_nan(tw_type t, uint64_t bits) {
    uint32_t low = (uint32_t)bits, half = low & 0x7fff, high = low >> 16 & 0x7fff;
    switch (t) {
    case TW_T_f32:
        return isnan(tw_read_f32(bits));
    case TW_T_f64:
        return isnan(tw_read_f64(bits));
    case TW_T_f16:
        return half > 0x7c00;
    case TW_T_bf16:
        return half > 0x7f80;
    case TW_T_f16x2:
        return half > 0x7c00 || high > 0x7c00;
    case TW_T_bf16x2:
        return half > 0x7f80 || high > 0x7f80;
    default:
        return false;
    }
}

static tw_val evaluate(folder *f, const tw_ir_op *op, const tw_op_info *info) {
    uint64_t c[3] = {0, 0, 0}, result;
    if (info->flags & TW_F_APPROX) return TW_NONE;
    for (int i = 0; i < op->n_operands; i++)
        if (!tw_value_constant(f->k, op->operands[i], &c[i])) return TW_NONE;
    if (!tw_op_evaluate((tw_opcode)op->code, c[0], c[1], c[2], &result) || is_nan(info->result, result)) return TW_NONE;
    return constant(f, info->result, result);
}

/* -- identities of integers and predicates */

static tw_val zero_of(folder *f, const tw_ir_op *op) {
    return constant(f, tw_op_describe((tw_opcode)op->code)->result, 0);
}

static tw_val true_of(folder *f) {
    return constant(f, TW_T_pred, 1);
}

/* What makes a register, by its code; NULL for anything else. */
static const tw_ir_op *made_by(const folder *f, tw_val v, tw_opcode code) {
    const tw_ir_op *op = v.id < f->r.n ? f->def[v.id] : NULL;
    return op && op->code == code ? op : NULL;
}

static tw_val operand_of(const folder *f, tw_val v, tw_opcode code, int i) {
    const tw_ir_op *op = made_by(f, v, code);
    return op && !tw_is_variable(f->k, op->operands[i]) ? op->operands[i] : TW_NONE;
}

/* x op x */
static tw_val of_same(folder *f, const tw_ir_op *op) {
    switch (op->code) {
    case TW_OP_sub_i32:
    case TW_OP_sub_i64:
    case TW_OP_xor_i32:
    case TW_OP_xor_i64:
    case TW_OP_xor_pred:
    case TW_OP_ne_i32:
    case TW_OP_ne_i64:
    case TW_OP_lt_s32:
    case TW_OP_lt_u32:
    case TW_OP_lt_s64:
    case TW_OP_lt_u64:
    case TW_OP_gt_s32:
    case TW_OP_gt_u32:
        return zero_of(f, op);
    case TW_OP_eq_i32:
    case TW_OP_eq_i64:
    case TW_OP_le_s32:
    case TW_OP_le_u32:
    case TW_OP_ge_s32:
    case TW_OP_ge_u32:
        return true_of(f);
    case TW_OP_and_i32:
    case TW_OP_or_i32:
    case TW_OP_and_i64:
    case TW_OP_or_i64:
    case TW_OP_and_pred:
    case TW_OP_or_pred:
    case TW_OP_min_s32:
    case TW_OP_max_s32:
    case TW_OP_min_u32:
    case TW_OP_max_u32:
    case TW_OP_min_s64:
    case TW_OP_max_s64:
        return op->operands[0];
    default:
        return TW_NONE;
    }
}

/* x op c, for a constant c */
static tw_val with_constant(folder *f, const tw_ir_op *op, tw_val x, uint64_t c) {
    switch (op->code) {
    case TW_OP_add_i32:
    case TW_OP_sub_i32:
    case TW_OP_or_i32:
    case TW_OP_xor_i32:
    case TW_OP_shl_i32:
    case TW_OP_shr_u32:
    case TW_OP_shr_s32:
    case TW_OP_add_i64:
    case TW_OP_sub_i64:
    case TW_OP_or_i64:
    case TW_OP_xor_i64:
    case TW_OP_shl_i64:
    case TW_OP_shr_u64:
    case TW_OP_xor_pred:
        return c == 0 ? x : TW_NONE;
    case TW_OP_mul_i32:
    case TW_OP_mul_i64:
        return c == 1 ? x : c == 0 ? zero_of(f, op) : TW_NONE;
    case TW_OP_mul_wide_u32:
    case TW_OP_mul_wide_s32:
    case TW_OP_mulhi_u32:
        return c == 0 ? zero_of(f, op) : TW_NONE;
    case TW_OP_div_u32:
    case TW_OP_div_s32:
        return c == 1 ? x : TW_NONE;
    case TW_OP_rem_u32:
    case TW_OP_rem_s32:
        return c == 1 ? zero_of(f, op) : TW_NONE;
    case TW_OP_and_i32:
        return c == 0 ? zero_of(f, op) : c == UINT32_MAX ? x : TW_NONE;
    case TW_OP_and_i64:
        return c == 0 ? zero_of(f, op) : c == UINT64_MAX ? x : TW_NONE;
    case TW_OP_and_pred:
        return c ? x : zero_of(f, op);
    case TW_OP_or_pred:
        return c ? true_of(f) : x;
    default:
        return TW_NONE;
    }
}

/* An operation that takes apart what another one put together. */
static tw_val unpacked(const folder *f, const tw_ir_op *op) {
    tw_val x = op->operands[0], v = TW_NONE;
    switch (op->code) {
    case TW_OP_not_pred:
    case TW_OP_not_i32:
    case TW_OP_neg_i32:
        return operand_of(f, x, (tw_opcode)op->code, 0);
    case TW_OP_trunc_i32_i64:
        v = operand_of(f, x, TW_OP_zext_i64_i32, 0);
        return v.id ? v : operand_of(f, x, TW_OP_sext_i64_i32, 0);
    case TW_OP_low_i32_i64:
        return operand_of(f, x, TW_OP_pack_i64_i32, 0);
    case TW_OP_high_i32_i64:
        return operand_of(f, x, TW_OP_pack_i64_i32, 1);
    case TW_OP_low_i16_i32:
        return operand_of(f, x, TW_OP_pack_i32_i16, 0);
    case TW_OP_high_i16_i32:
        return operand_of(f, x, TW_OP_pack_i32_i16, 1);
    default:
        return TW_NONE;
    }
}

static void rewrite(folder *f, tw_ir_op *op, tw_opcode code, tw_val x, tw_val y) {
    op->code = (uint16_t)code;
    op->operands[0] = x;
    op->operands[1] = y;
    op->n_operands = 2;
    f->changed = true;
}

/* a * b + c where one of the three is nothing: a product or a sum. */
static tw_val multiply_add(folder *f, tw_ir_op *op) {
    tw_val a = op->operands[0], b = op->operands[1], c = op->operands[2];
    bool wide = op->code != TW_OP_mad_i32;
    tw_opcode product = op->code == TW_OP_mad_i32        ? TW_OP_mul_i32
                        : op->code == TW_OP_mad_wide_u32 ? TW_OP_mul_wide_u32
                                                         : TW_OP_mul_wide_s32;
    uint64_t x, y, p;
    if (is(f, b, 0)) return c;
    if (is(f, c, 0))
        rewrite(f, op, product, a, b);
    else if (is(f, b, 1) && !wide)
        rewrite(f, op, TW_OP_add_i32, a, c);
    else if (tw_value_constant(f->k, a, &x) && tw_value_constant(f->k, b, &y) && tw_op_evaluate(product, x, y, 0, &p))
        rewrite(f, op, wide ? TW_OP_add_i64 : TW_OP_add_i32, c, constant(f, wide ? TW_T_i64 : TW_T_i32, p));
    return TW_NONE;
}

/* Constants to the right, so that the rules need look there alone. */
static void order_operands(folder *f, tw_ir_op *op, const tw_op_info *info) {
    uint64_t c;
    if (!(info->flags & TW_F_COMMUTES) || !tw_value_constant(f->k, op->operands[0], &c) ||
        tw_value_constant(f->k, op->operands[1], &c))
        return;
    tw_val x = op->operands[0];
    op->operands[0] = op->operands[1];
    op->operands[1] = x;
    f->changed = true;
}

/* What a scalar operation comes to, if that is simpler. */
static tw_val simplify(folder *f, tw_ir_op *op) {
    const tw_op_info *info = tw_op_describe((tw_opcode)op->code);
    uint64_t c;
    order_operands(f, op, info);
    tw_val v = evaluate(f, op, info);
    if (v.id) return v;
    if (op->n_operands == 1) return unpacked(f, op);
    if (op->code == TW_OP_mad_i32 || op->code == TW_OP_mad_wide_s32 || op->code == TW_OP_mad_wide_u32)
        return multiply_add(f, op);
    if (op->n_operands != 2) return TW_NONE;
    if (op->operands[0].id == op->operands[1].id && (v = of_same(f, op)).id) return v;
    return tw_value_constant(f->k, op->operands[1], &c) ? with_constant(f, op, op->operands[0], c) : TW_NONE;
}

static tw_val simplify_other(folder *f, const tw_ir_op *op) {
    uint64_t c;
    switch (op->code) {
    case TW_OP_select:
        if (tw_value_constant(f->k, op->operands[2], &c)) return op->operands[c ? 0 : 1];
        return op->operands[0].id == op->operands[1].id ? op->operands[0] : TW_NONE;
    case TW_OP_bitcast:
        if (tw_value_constant(f->k, op->operands[0], &c)) return constant(f, (tw_type)op->at.type, c);
        return tw_value_type(f->k, op->operands[0]) == (tw_type)op->at.type ? op->operands[0] : TW_NONE;
    case TW_OP_set: /* to itself: nothing */
        return op->operands[0].id == op->results[0].id ? op->operands[0] : TW_NONE;
    default:
        return TW_NONE;
    }
}

/* -- an operation whose value is known */

/* True when it is gone. */
static bool settle(folder *f, tw_ir_op *op, tw_val v) {
    tw_val result = op->results[0];
    if (tw_is_variable(f->k, result)) {
        if (v.id != result.id) {
            op->code = TW_OP_set;
            op->at = (tw_attrs){.type = (int32_t)tw_value_type(f->k, result)};
            op->operands[0] = v;
            op->n_operands = 1;
            f->changed = true;
            return false;
        }
    } else {
        if (tw_is_variable(f->k, v)) return false;
        f->r.with[result.id] = v;
    }
    tw_edit_remove(op);
    f->changed = true;
    return true;
}

/* A guard that never holds: results are zero, and nothing else happens. */
static void drop_guarded(folder *f, tw_ir_op *op) {
    tw_builder b = tw_builder_of(f->k);
    tw_block zeros = {.owner = NULL};
    b.open[0] = &zeros;
    for (int i = 0; i < op->n_results; i++) {
        tw_val zero = tw_zero(&b, tw_value_type(f->k, op->results[i]));
        if (tw_is_variable(f->k, op->results[i]))
            tw_assign(&b, op->results[i], zero);
        else
            f->r.with[op->results[i].id] = zero;
    }
    tw_edit_splice(op, &zeros);
    tw_edit_remove(op);
    f->changed = true;
}

/* True when the operation is gone. */
static bool fold_guard(folder *f, tw_ir_op *op) {
    uint64_t c;
    tw_val inner = operand_of(f, op->guard, TW_OP_not_pred, 0);
    if (inner.id) {
        op->guard = inner;
        op->guard_not = !op->guard_not;
        f->changed = true;
    }
    if (!tw_value_constant(f->k, op->guard, &c)) return false;
    if (!c == !op->guard_not) {
        drop_guarded(f, op);
        return true;
    }
    op->guard = TW_NONE;
    op->guard_not = false;
    f->changed = true;
    return false;
}

/* -- control flow */

static int64_t signed_of(tw_type t, uint64_t bits) {
    return t == TW_T_i32 ? (int32_t)(uint32_t)bits : (int64_t)bits;
}

/* How often a loop between constants runs: 0, 1, or 2 for more or unknown. */
static int trips(const folder *f, const tw_ir_op *op) {
    uint64_t from, below, step;
    tw_type t = (tw_type)op->at.type;
    if (!tw_value_constant(f->k, op->operands[0], &from) || !tw_value_constant(f->k, op->operands[1], &below)) return 2;
    int64_t a = signed_of(t, from), b = signed_of(t, below);
    if (a >= b) return 0;
    if (!tw_value_constant(f->k, op->operands[2], &step)) return 2;
    /* The distance fits 64 bits without sign where the difference would overflow. */
    return (uint64_t)b - (uint64_t)a <= (uint64_t)signed_of(t, step) ? 1 : 2;
}

/* The operation's block in its place; the walk goes on with what is returned. */
static tw_ir_op *inline_block(folder *f, tw_ir_op *op, tw_block *block) {
    tw_ir_op *first = block->first ? block->first : op->next;
    tw_edit_splice(op, block);
    tw_edit_remove(op);
    f->changed = true;
    return first;
}

static void fold_block(folder *f, tw_block *block);

static tw_ir_op *fold_while(folder *f, tw_ir_op *op) {
    tw_ir_op *after = op->next;
    fold_block(f, &op->blocks[0]);
    tw_replace_uses(&f->r, op);
    if (is(f, op->operands[0], 0)) {
        inline_block(f, op, &op->blocks[0]);
        return after;
    }
    fold_block(f, &op->blocks[1]);
    return after;
}

/* Folds an operation with blocks, and returns the one to go on with. */
static tw_ir_op *fold_control(folder *f, tw_ir_op *op) {
    uint64_t c;
    int times;
    switch (op->code) {
    case TW_OP_while:
        return fold_while(f, op);
    case TW_OP_if:
        if (tw_value_constant(f->k, op->operands[0], &c)) return inline_block(f, op, &op->blocks[c ? 0 : 1]);
        break;
    case TW_OP_for:
        times = trips(f, op);
        if (times == 1) {
            f->r.with[op->results[0].id] = op->operands[0];
            return inline_block(f, op, &op->blocks[0]);
        }
        if (times == 0) {
            tw_edit_remove(op);
            f->changed = true;
            return op->next;
        }
        break;
    default:
        break;
    }
    for (int i = 0; i < op->n_blocks; i++) fold_block(f, &op->blocks[i]);
    return op->next;
}

static void fold_block(folder *f, tw_block *block) {
    tw_ir_op *op = block->first;
    while (op && !f->k->arena.failed) {
        tw_replace_uses(&f->r, op);
        if (op->n_blocks) {
            op = fold_control(f, op);
            continue;
        }
        tw_ir_op *after = op->next;
        if (!(op->guard.id && fold_guard(f, op))) {
            bool scalar = tw_op_describe((tw_opcode)op->code)->scalar;
            tw_val v = scalar ? simplify(f, op) : simplify_other(f, op);
            if (!v.id || !settle(f, op, v))
                for (int i = 0; i < op->n_results; i++)
                    if (!tw_is_variable(f->k, op->results[i])) f->def[op->results[i].id] = op;
        }
        op = after;
    }
}

bool tw_pass_fold(tw_kernel *k) {
    folder f = {.k = k};
    if (tw_kernel_failed(k) || !tw_replacements_begin(&f.r, k)) return false;
    f.def = calloc((size_t)f.r.n, sizeof *f.def);
    if (f.def)
        fold_block(&f, &k->body);
    else
        k->arena.failed = true;
    free(f.def);
    tw_replacements_end(&f.r);
    return f.changed;
}
