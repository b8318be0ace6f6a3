/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores, atomics and asynchronous copies. */
#include "ptx/print.h"

#include <stdio.h>
#include <string.h>

enum { LANES = 8 };

const char *tw_ptx_memory_type(int type) {
    static const char *const spelled[TW_T_COUNT] = {
        [TW_T_i8] = "u8",    [TW_T_i16] = "b16",   [TW_T_i32] = "b32",    [TW_T_i64] = "b64", [TW_T_f16] = "b16",
        [TW_T_bf16] = "b16", [TW_T_f16x2] = "b32", [TW_T_bf16x2] = "b32", [TW_T_f32] = "f32", [TW_T_f64] = "f64",
    };
    return spelled[type];
}

bool tw_ptx_scope(tw_ptx_printer *p, int scope) {
    if (scope != TW_SCOPE_cluster || p->target->sm >= 90) return true;
    tw_ptx_unsupported(p, "of cluster scope");
    return false;
}

/* Everything between "ld" or "st" and the type. */
typedef struct qualifiers {
    char order[24]; /* ".relaxed.gpu" */
    const char *space, *cache;
    tw_val policy;
} qualifiers;

/* Hints are dropped where PTX has no place for them: they change nothing but speed. */
static void spell_cache(tw_ptx_printer *p, const tw_ir_op *op, bool load, qualifiers *q) {
    int order = op->at.order;
    q->cache = "";
    q->policy = TW_NONE;
    if (op->at.space != TW_SPACE_global || order == TW_ORDER_volatile) return;
    switch (op->at.cache) {
    case TW_CACHE_nc:
        q->cache = load && order == TW_ORDER_weak ? ".nc" : "";
        break;
    case TW_CACHE_cg:
        q->cache = order == TW_ORDER_weak ? ".cg" : "";
        break;
    case TW_CACHE_cs:
        q->cache = order == TW_ORDER_weak ? ".cs" : "";
        break;
    case TW_CACHE_evict_first:
        q->cache = ".L1::evict_first.L2::cache_hint";
        break;
    case TW_CACHE_evict_last:
        q->cache = ".L1::evict_last.L2::cache_hint";
        break;
    case TW_CACHE_no_allocate:
        q->cache = ".L1::no_allocate";
        break;
    }
    q->policy = tw_ptx_policy(p, op->at.cache);
}

static bool spell_order(tw_ptx_printer *p, const tw_ir_op *op, int strongest, qualifiers *q) {
    int order = op->at.order;
    q->order[0] = 0;
    if (order == TW_ORDER_weak || op->at.space == TW_SPACE_local) return true; /* nobody else sees local memory */
    if (order == TW_ORDER_volatile) {
        strcpy(q->order, ".volatile");
        return true;
    }
    if (order != TW_ORDER_relaxed && order != strongest) {
        tw_ptx_unsupported(p, "of this order");
        return false;
    }
    snprintf(q->order, sizeof q->order, ".%s.%s", tw_attr_value_ptx(TW_ATTR_order, order),
             tw_attr_value_ptx(TW_ATTR_scope, op->at.scope));
    return tw_ptx_scope(p, op->at.scope);
}

static bool has_space(tw_ptx_printer *p, int space) {
    if (space != TW_SPACE_cluster || p->target->sm >= 90) return true;
    tw_ptx_unsupported(p, "of a cluster's memory");
    return false;
}

static bool spell(tw_ptx_printer *p, const tw_ir_op *op, qualifiers *q) {
    bool load = op->code == TW_OP_ld;
    q->space = tw_attr_value_ptx(TW_ATTR_space, op->at.space);
    spell_cache(p, op, load, q);
    return has_space(p, op->at.space) && spell_order(p, op, load ? TW_ORDER_acquire : TW_ORDER_release, q);
}

static const char *vector(int n) {
    return n == 8 ? ".v8" : n == 4 ? ".v4" : n == 2 ? ".v2" : "";
}

static void access(tw_ptx_printer *p, const tw_ir_op *op, const qualifiers *q, int type, tw_val address, int offset,
                   const tw_val *v, int n) {
    const char *t = tw_ptx_memory_type(type), *space = q->space;
    if (op->code == TW_OP_ld)
        tw_ptx_line(p, "ld%s.%s%s%s.%s %V, [%r%o]%c;", q->order, space, q->cache, vector(n), t, v, n, address, offset,
                    q->policy);
    else
        tw_ptx_line(p, "st%s.%s%s%s.%s [%r%o], %V%c;", q->order, space, q->cache, vector(n), t, address, offset, v, n,
                    q->policy);
}

/* More than 128 bits at once is for global memory of the newest targets. */
static bool wide_enough(tw_ptx_printer *p, const tw_ir_op *op, int bits) {
    if (bits <= 128 || (bits == 256 && p->target->sm >= 100 && op->at.space == TW_SPACE_global)) return true;
    tw_ptx_unsupported(p, bits == 256 ? "of 256 bits" : "of this width");
    return false;
}

/* Eight of 16 bits: PTX's vectors go to four, so they travel as four pairs. */
static void access_pairs(tw_ptx_printer *p, const tw_ir_op *op, const qualifiers *q, tw_val address, const tw_val *v) {
    tw_val pair[LANES / 2];
    for (int i = 0; i < LANES / 2; i++) {
        pair[i] = tw_ptx_scratch(p, TW_T_i32);
        if (op->code == TW_OP_st) tw_ptx_line(p, "mov.b32 %r, %V;", pair[i], v + 2 * i, 2);
    }
    access(p, op, q, TW_T_i32, address, op->at.offset, pair, LANES / 2);
    for (int i = 0; i < LANES / 2; i++)
        if (op->code == TW_OP_ld) tw_ptx_line(p, "mov.b32 %V, %r;", v + 2 * i, 2, pair[i]);
}

static void access_any(tw_ptx_printer *p, const tw_ir_op *op, const qualifiers *q, tw_val address, const tw_val *v) {
    int n = op->at.vec ? op->at.vec : 1, bits = tw_type_bits((tw_type)op->at.type);
    if (!wide_enough(p, op, n * bits)) return;
    if (n == 8 && bits == 16)
        access_pairs(p, op, q, address, v);
    else if (n == 8 && bits == 8) {
        access(p, op, q, op->at.type, address, op->at.offset, v, 4);
        access(p, op, q, op->at.type, address, op->at.offset + 4, v + 4, 4);
    } else
        access(p, op, q, op->at.type, address, op->at.offset, v, n);
}

void tw_ptx_emit_ld(tw_ptx_printer *p, const tw_ir_op *op) {
    qualifiers q;
    tw_val address = op->operands[0];
    if (!spell(p, op, &q)) return;
    tw_ptx_zero_results(p, op, &address, 1);
    access_any(p, op, &q, address, op->results);
}

void tw_ptx_emit_st(tw_ptx_printer *p, const tw_ir_op *op) {
    qualifiers q;
    if (spell(p, op, &q)) access_any(p, op, &q, op->operands[0], op->operands + 1);
}

/* -- atomics */

static const char *sized(tw_type t, bool small) {
    int bits = tw_type_bits(t);
    return bits == 32 ? "b32" : bits == 64 ? "b64" : bits == 16 && small ? "b16" : NULL;
}

static const char *integer(tw_type t, const char *narrow, const char *wide) {
    return t == TW_T_i32 ? narrow : t == TW_T_i64 ? wide : NULL;
}

/* The type as the operation spells it; NULL where PTX has no such. */
static const char *rmw_type(const tw_ptx_printer *p, int rmw, tw_type t) {
    bool bf16 = p->target->sm >= 90;
    switch (rmw) {
    case TW_RMW_add:
        if (t == TW_T_bf16 || t == TW_T_bf16x2) return bf16 ? tw_type_name(t) : NULL;
        return tw_type_is_float(t) ? tw_type_name(t) : integer(t, "u32", "u64");
    case TW_RMW_min_s32:
    case TW_RMW_max_s32:
        return integer(t, "s32", "s64");
    case TW_RMW_min_u32:
    case TW_RMW_max_u32:
        return integer(t, "u32", "u64");
    case TW_RMW_and:
    case TW_RMW_or:
    case TW_RMW_xor:
        return integer(t, "b32", "b64");
    case TW_RMW_exch:
        return sized(t, false);
    case TW_RMW_cas:
        return sized(t, true);
    default: /* inc, dec */
        return integer(t, "u32", NULL);
    }
}

static const char *no_flush(const tw_ir_op *op, tw_type t) {
    return op->at.rmw == TW_RMW_add && tw_type_is_float(t) && t != TW_T_f32 && t != TW_T_f64 ? ".noftz" : "";
}

/* "relaxed", ... of an atomic, which is what a weak one is to PTX; NULL where there is none. */
static const char *rmw_order(tw_ptx_printer *p, const tw_ir_op *op) {
    if (!tw_ptx_scope(p, op->at.scope) || !has_space(p, op->at.space)) return NULL;
    switch (op->at.order) {
    case TW_ORDER_weak:
    case TW_ORDER_relaxed:
        return "relaxed";
    case TW_ORDER_release:
        return "release";
    case TW_ORDER_acquire:
    case TW_ORDER_acq_rel:
        return op->code == TW_OP_atom ? tw_attr_value_ptx(TW_ATTR_order, op->at.order) : NULL;
    default:
        return NULL;
    }
}

void tw_ptx_emit_atom(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_type t = (tw_type)op->at.type;
    const char *type = rmw_type(p, op->at.rmw, t), *order = type ? rmw_order(p, op) : NULL;
    if (!type || !order) {
        tw_ptx_unsupported(p, type ? "of this order" : "of this kind and type");
        return;
    }
    tw_val v[3] = {op->operands[0], op->operands[1], op->n_operands > 2 ? op->operands[2] : TW_NONE};
    tw_ptx_zero_results(p, op, v, op->n_operands);
    const char *scope = tw_attr_value_ptx(TW_ATTR_scope, op->at.scope),
               *space = tw_attr_value_ptx(TW_ATTR_space, op->at.space),
               *rmw = tw_attr_value_ptx(TW_ATTR_rmw, op->at.rmw), *noftz = no_flush(op, t);
    tw_ptx_line(p, "atom.%s.%s.%s.%s%s.%s %r, [%r%o], %v%c;", order, scope, space, rmw, noftz, type, op->results[0],
                v[0], op->at.offset, v[1], v[2]);
}

void tw_ptx_emit_red(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_type t = (tw_type)op->at.type;
    int n = op->at.vec ? op->at.vec : 1;
    bool possible = op->at.rmw != TW_RMW_exch && op->at.rmw != TW_RMW_cas;
    if (n > 1)
        possible = p->target->sm >= 90 && op->at.rmw == TW_RMW_add && op->at.space == TW_SPACE_global &&
                   tw_type_is_float(t) && t != TW_T_f64 && n * tw_type_bits(t) <= 128;
    const char *type = possible ? rmw_type(p, op->at.rmw, t) : NULL, *order = type ? rmw_order(p, op) : NULL;
    if (!type || !order) {
        tw_ptx_unsupported(p, type ? "of this order" : "of this kind, type and width");
        return;
    }
    const char *scope = tw_attr_value_ptx(TW_ATTR_scope, op->at.scope),
               *space = tw_attr_value_ptx(TW_ATTR_space, op->at.space),
               *rmw = tw_attr_value_ptx(TW_ATTR_rmw, op->at.rmw);
    tw_ptx_line(p, "red.%s.%s.%s.%s%s%s.%s [%r%o], %V;", order, scope, space, rmw, no_flush(op, t), vector(n), type,
                op->operands[0], op->at.offset, op->operands + 1, n);
}

void tw_ptx_emit_prefetch(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "prefetch.global.%s%s [%r%o];", tw_attr_value_ptx(TW_ATTR_level, op->at.level),
                op->at.cache == TW_CACHE_evict_last ? "::evict_last" : "", op->operands[0], op->at.offset);
}

/* -- asynchronous copies */

/* The offset is the destination's. */
void tw_ptx_emit_cp_async(tw_ptx_printer *p, const tw_ir_op *op) {
    const tw_val *v = op->operands;
    const char *level = op->at.cache == TW_CACHE_cg ? "cg" : "ca";
    tw_ptx_line(p, "cp.async.%s.shared.global [%r%o], [%r], %d%c;", level, v[0], op->at.offset, v[1], op->at.bytes,
                op->n_operands > 2 ? v[2] : TW_NONE);
}

void tw_ptx_emit_cp_async_commit(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)op;
    tw_ptx_line(p, "cp.async.commit_group;");
}

void tw_ptx_emit_cp_async_wait(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "cp.async.wait_group %d;", op->at.count);
}

void tw_ptx_emit_cp_async_arrive(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "cp.async.mbarrier.arrive.noinc.shared.b64 [%r];", op->operands[0]);
}

/* Returns the L2 policy, an optional operand after the first `n`. */
static tw_val policy_behind(const tw_ir_op *op, int n) {
    return op->n_operands > n ? op->operands[n] : TW_NONE;
}

static const char *hint(tw_val policy) {
    return policy.id ? ".L2::cache_hint" : "";
}

void tw_ptx_emit_bulk_load(tw_ptx_printer *p, const tw_ir_op *op) {
    const tw_val *v = op->operands, policy = policy_behind(op, 4);
    tw_ptx_line(p, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes%s [%r], [%r], %v, [%r]%c;",
                hint(policy), v[0], v[1], v[2], v[3], policy);
}

void tw_ptx_emit_bulk_store(tw_ptx_printer *p, const tw_ir_op *op) {
    const tw_val *v = op->operands, policy = policy_behind(op, 3);
    tw_ptx_line(p, "cp.async.bulk.global.shared::cta.bulk_group%s [%r], [%r], %v%c;", hint(policy), v[0], v[1], v[2],
                policy);
}

void tw_ptx_emit_bulk_reduce(tw_ptx_printer *p, const tw_ir_op *op) {
    const tw_val *v = op->operands, policy = policy_behind(op, 3);
    const tw_type t = (tw_type)op->at.type;
    const char *type = rmw_type(p, op->at.rmw, t);
    if (!type) {
        tw_ptx_unsupported(p, "of this kind and type");
        return;
    }
    tw_ptx_line(p, "cp.reduce.async.bulk.global.shared::cta.bulk_group%s.%s%s.%s [%r], [%r], %v%c;", hint(policy),
                tw_attr_value_ptx(TW_ATTR_rmw, op->at.rmw), no_flush(op, t), type, v[0], v[1], v[2], policy);
}

void tw_ptx_emit_bulk_commit(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)op;
    tw_ptx_line(p, "cp.async.bulk.commit_group;");
}

void tw_ptx_emit_bulk_wait(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "cp.async.bulk.wait_group%s %d;", op->at.read ? ".read" : "", op->at.count);
}

void tw_ptx_emit_bulk_prefetch(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "cp.async.bulk.prefetch.L2.global [%r], %v;", op->operands[0], op->operands[1]);
}

static int dims_of(const tw_ir_op *op) {
    return op->at.dims ? op->at.dims : 2;
}

void tw_ptx_emit_tensor_load(tw_ptx_printer *p, const tw_ir_op *op) {
    const int dims = dims_of(op), offsets = op->at.im2col ? dims - 2 : 0;
    const tw_val *v = op->operands, policy = policy_behind(op, dims + 3 + offsets);
    const char *cast = op->at.ranks ? ".multicast::cluster" : "";
    tw_val ranks = TW_NONE;
    if (op->at.ranks) {
        ranks = tw_ptx_scratch(p, TW_T_i16);
        tw_ptx_line(p, "mov.b16 %r, %d;", ranks, op->at.ranks);
    }
    if (offsets)
        tw_ptx_line(p,
                    "cp.async.bulk.tensor.%dd.shared::cluster.global.im2col.mbarrier::complete_tx::bytes%s%s [%r], "
                    "[%r, %B], [%r], %B%c%c;",
                    dims, cast, hint(policy), v[0], v[1], v + 2, dims, v[2 + dims], v + 3 + dims, offsets, ranks,
                    policy);
    else
        tw_ptx_line(p,
                    "cp.async.bulk.tensor.%dd.shared::cluster.global.tile.mbarrier::complete_tx::bytes%s%s [%r], "
                    "[%r, %B], [%r]%c%c;",
                    dims, cast, hint(policy), v[0], v[1], v + 2, dims, v[2 + dims], ranks, policy);
}

void tw_ptx_emit_tensor_store(tw_ptx_printer *p, const tw_ir_op *op) {
    const int dims = dims_of(op);
    const tw_val *v = op->operands, policy = policy_behind(op, dims + 2);
    tw_ptx_line(p, "cp.async.bulk.tensor.%dd.global.shared::cta.%s.bulk_group%s [%r, %B], [%r]%c;", dims,
                op->at.im2col ? "im2col_no_offs" : "tile", hint(policy), v[0], v + 1, dims, v[1 + dims], policy);
}

void tw_ptx_emit_tensor_reduce(tw_ptx_printer *p, const tw_ir_op *op) {
    const int dims = dims_of(op);
    const tw_val *v = op->operands, policy = policy_behind(op, dims + 2);
    tw_ptx_line(p, "cp.reduce.async.bulk.tensor.%dd.global.shared::cta.%s.%s.bulk_group%s [%r, %B], [%r]%c;", dims,
                tw_attr_value_ptx(TW_ATTR_rmw, op->at.rmw), op->at.im2col ? "im2col_no_offs" : "tile", hint(policy),
                v[0], v + 1, dims, v[1 + dims], policy);
}

void tw_ptx_emit_tensor_prefetch_box(tw_ptx_printer *p, const tw_ir_op *op) {
    const int dims = dims_of(op), offsets = op->at.im2col ? dims - 2 : 0;
    const tw_val *v = op->operands, policy = policy_behind(op, dims + 1 + offsets);
    if (offsets)
        tw_ptx_line(p, "cp.async.bulk.prefetch.tensor.%dd.L2.global.im2col%s [%r, %B], %B%c;", dims, hint(policy), v[0],
                    v + 1, dims, v + 1 + dims, offsets, policy);
    else
        tw_ptx_line(p, "cp.async.bulk.prefetch.tensor.%dd.L2.global.tile%s [%r, %B]%c;", dims, hint(policy), v[0],
                    v + 1, dims, policy);
}

void tw_ptx_emit_tensor_prefetch(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "prefetch.tensormap [%r];", op->operands[0]);
}

void tw_ptx_emit_policy(tw_ptx_printer *p, const tw_ir_op *op) {
    int cache = op->at.cache;
    const char *level = cache == TW_CACHE_evict_last                                     ? "evict_last"
                        : cache == TW_CACHE_evict_first || cache == TW_CACHE_no_allocate ? "evict_first"
                                                                                         : "evict_unchanged";
    tw_ptx_line(p, "createpolicy.fractional.L2::%s.b64 %r, 1.0;", level, op->results[0]);
}
