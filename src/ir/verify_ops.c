/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of single operations beyond their signatures: verify_<name> for every MOP row of ops.def. */
#include "device/tensor_map.h"
#include "ir/verify_rules.h"

#define OP(name, ...)
#define MOP(name, ...) static void verify_##name(tw_verifier *v, const tw_ir_op *op);
#include "ir/ops.def"
#undef MOP

static bool constant(const tw_verifier *v, const tw_ir_op *op, int operand, uint64_t *c) {
    return operand < op->n_operands && tw_value_constant(v->k, op->operands[operand], c);
}

static void needs(tw_verifier *v, int sm, const char *what) {
    if (v->target < sm) tw_verify_find(v, "%s needs sm_%d, the target is sm_%d", what, sm, v->target);
}

/* Nothing beyond the signature. */
#define PLAIN(name)                                                                                                    \
    static void verify_##name(tw_verifier *v, const tw_ir_op *op) {                                                    \
        (void)v, (void)op;                                                                                             \
    }
PLAIN(fence_mbarrier_init)
PLAIN(cp_async_commit)
PLAIN(cluster_address)
PLAIN(cluster_sync)
PLAIN(cp_async_arrive)
PLAIN(bulk_commit)
PLAIN(barrier)
PLAIN(mbarrier_inval)
PLAIN(warp_sync)
PLAIN(elect)
PLAIN(mbarrier_expect)
PLAIN(mbarrier_test)
PLAIN(mbarrier_wait)
PLAIN(exit)
PLAIN(trap)
PLAIN(nanosleep)
PLAIN(record_mark)
PLAIN(record_value)
PLAIN(cp_async_wait)
PLAIN(bulk_wait)
PLAIN(tensor_prefetch)
PLAIN(tensor_prefetch_box)
PLAIN(tensor_store)
PLAIN(griddep_wait)
PLAIN(griddep_launch)

/* -- records */

static void verify_record_begin(tw_verifier *v, const tw_ir_op *op) {
    if (op->at.count && op->at.wait != TW_WAIT_channel) tw_verify_find(v, "count is for waits on a channel");
}

static void verify_record_end(tw_verifier *v, const tw_ir_op *op) {
    if (op->name && !tw_record_begin_of(op)) tw_verify_find(v, "no record_begin of \"%s\" in this block", op->name);
}

/* -- values of any type */

static void register_type(tw_verifier *v, const tw_ir_op *op) {
    if (op->at.type == TW_T_i8 || op->at.type == TW_T_e4m3)
        tw_verify_find(v, "no register is %s", tw_type_name((tw_type)op->at.type));
}

static void a_variable(tw_verifier *v, const tw_ir_op *op) {
    register_type(v, op);
    if (v->k->values[op->results[0].id].kind != TW_V_VARIABLE) tw_verify_find(v, "the result is no variable");
}

static void verify_set(tw_verifier *v, const tw_ir_op *op) {
    a_variable(v, op);
}

static void verify_undef(tw_verifier *v, const tw_ir_op *op) {
    a_variable(v, op);
}

static void verify_select(tw_verifier *v, const tw_ir_op *op) {
    register_type(v, op);
}

static void verify_bitcast(tw_verifier *v, const tw_ir_op *op) {
    register_type(v, op);
    if (op->n_operands != 1)
        tw_verify_find(v, "has %d operands, not 1", op->n_operands);
    else if (tw_type_bits(tw_value_type(v->k, op->operands[0])) != tw_type_bits((tw_type)op->at.type))
        tw_verify_find(v, "%s and %s differ in width", tw_type_name(tw_value_type(v->k, op->operands[0])),
                       tw_type_name((tw_type)op->at.type));
}

static void verify_sreg(tw_verifier *v, const tw_ir_op *op) {
    tw_type want = op->at.sreg >= TW_SREG_clock64 ? TW_T_i64 : TW_T_i32;
    if ((tw_type)op->at.type != want)
        tw_verify_find(v, "%s is %s", tw_attr_value_name(TW_ATTR_sreg, op->at.sreg), tw_type_name(want));
    if (op->at.sreg == TW_SREG_cluster_rank) needs(v, 90, "the rank in a cluster");
}

static void verify_shared_address(tw_verifier *v, const tw_ir_op *op) {
    for (int i = 0; i < v->k->n_shared; i++)
        if (!v->k->shared[i].name) return; /* already a finding */
    if (!tw_kernel_shared_find(v->k, op->name)) tw_verify_find(v, "there is no shared object %s", op->name);
}

/* -- memory */

static int access_bytes(const tw_ir_op *op) {
    return tw_type_bits((tw_type)op->at.type) / 8 * (op->at.vec ? op->at.vec : 1);
}

static void check_space(tw_verifier *v, const tw_ir_op *op) {
    if (op->at.space == TW_SPACE_cluster) needs(v, 90, "the space of a cluster");
    if (op->at.scope == TW_SCOPE_cluster) needs(v, 90, "the scope of a cluster");
}

/* What loads and stores have in common. */
static void check_access(tw_verifier *v, const tw_ir_op *op) {
    const tw_attrs *at = &op->at;
    if (at->type == TW_T_pred) tw_verify_find(v, "a predicate is not kept in memory");
    if (at->type == TW_T_e4m3) tw_verify_find(v, "e4m3 is moved as i8");
    check_space(v, op);
    if (access_bytes(op) > 32 || (access_bytes(op) > 16 && at->space != TW_SPACE_global))
        tw_verify_find(v, "%d bytes at once: 16 at most", access_bytes(op));
    else if (access_bytes(op) > 16)
        needs(v, 100, "an access of 32 bytes");
    if (at->cache && at->space != TW_SPACE_global) tw_verify_find(v, "cache policies are for global memory");
    if ((at->cache == TW_CACHE_nc || at->cache == TW_CACHE_cg || at->cache == TW_CACHE_cs) &&
        at->order != TW_ORDER_weak)
        tw_verify_find(v, "cache=%s is for weak accesses", tw_attr_value_name(TW_ATTR_cache, at->cache));
    if (at->space == TW_SPACE_local && at->order != TW_ORDER_weak && at->order != TW_ORDER_volatile)
        tw_verify_find(v, "local memory is nobody else's: no order");
    if (at->scope && (at->order == TW_ORDER_weak || at->order == TW_ORDER_volatile))
        tw_verify_find(v, "a scope means nothing to a %s access", tw_attr_value_name(TW_ATTR_order, at->order));
}

static void check_order(tw_verifier *v, const tw_ir_op *op, unsigned allowed) {
    if (!(allowed >> op->at.order & 1))
        tw_verify_find(v, "order=%s is not one of its", tw_attr_value_name(TW_ATTR_order, op->at.order));
}

enum {
    WEAK = 1 << TW_ORDER_weak,
    RELAXED = 1 << TW_ORDER_relaxed,
    ACQUIRE = 1 << TW_ORDER_acquire,
    RELEASE = 1 << TW_ORDER_release,
    ACQ_REL = 1 << TW_ORDER_acq_rel,
    SC = 1 << TW_ORDER_sc,
    VOLATILE = 1 << TW_ORDER_volatile
};

static void verify_ld(tw_verifier *v, const tw_ir_op *op) {
    check_access(v, op);
    check_order(v, op, WEAK | RELAXED | ACQUIRE | VOLATILE);
}

static void verify_st(tw_verifier *v, const tw_ir_op *op) {
    check_access(v, op);
    check_order(v, op, WEAK | RELAXED | RELEASE | VOLATILE);
    if (op->at.cache == TW_CACHE_nc) tw_verify_find(v, "cache=nc is for what nobody writes");
}

/* Which types an atomic operation has. */
static bool rmw_type(int rmw, tw_type t) {
    bool i32 = t == TW_T_i32, i64 = t == TW_T_i64;
    switch (rmw) {
    case TW_RMW_add:
        return i32 || i64 || (tw_type_is_float(t));
    case TW_RMW_and:
    case TW_RMW_or:
    case TW_RMW_xor:
    case TW_RMW_exch:
    case TW_RMW_cas:
        return i32 || i64;
    default:
        return i32;
    }
}

static void check_atomic(tw_verifier *v, const tw_ir_op *op) {
    tw_type t = (tw_type)op->at.type;
    check_space(v, op);
    if (op->at.space == TW_SPACE_local) tw_verify_find(v, "local memory is nobody else's: no atomics");
    if (!rmw_type(op->at.rmw, t))
        tw_verify_find(v, "there is no rmw=%s of %s", tw_attr_value_name(TW_ATTR_rmw, op->at.rmw), tw_type_name(t));
    if (t == TW_T_bf16 || t == TW_T_bf16x2) needs(v, 90, "an atomic bf16 addition");
}

static void verify_atom(tw_verifier *v, const tw_ir_op *op) {
    check_atomic(v, op);
    check_order(v, op, WEAK | RELAXED | ACQUIRE | RELEASE | ACQ_REL);
    if ((op->at.rmw == TW_RMW_cas) != (op->n_operands == 3))
        tw_verify_find(v, "cas has two values, everything else one");
}

static void verify_red(tw_verifier *v, const tw_ir_op *op) {
    check_atomic(v, op);
    check_order(v, op, WEAK | RELAXED | RELEASE);
    if (op->at.rmw == TW_RMW_cas || op->at.rmw == TW_RMW_exch)
        tw_verify_find(v, "cas and exch give something back: atom");
    if (op->at.vec > 1) {
        needs(v, 90, "a reduction of vectors");
        const tw_type t = (tw_type)op->at.type;
        if (op->at.rmw != TW_RMW_add || !tw_type_is_float(t) || t == TW_T_f64 || op->at.space != TW_SPACE_global ||
            access_bytes(op) > 16)
            tw_verify_find(v, "vectors are reduced by additions of floating-point numbers other than f64 in global "
                              "memory alone, 16 bytes at most");
    }
}

static void verify_fence(tw_verifier *v, const tw_ir_op *op) {
    check_order(v, op, ACQ_REL | SC);
    check_space(v, op);
}

static void verify_fence_proxy(tw_verifier *v, const tw_ir_op *op) {
    const tw_attrs *at = &op->at;
    const bool acquires = at->order == TW_ORDER_acquire;
    if (at->proxy == TW_PROXY_generic) tw_verify_find(v, "needs a proxy other than the generic one");
    if (at->proxy != TW_PROXY_tensormap) {
        if (at->order || at->scope || at->bytes || op->n_operands)
            tw_verify_find(v, "order, scope, bytes and an address are for tensor maps");
        return;
    }
    check_order(v, op, ACQUIRE | RELEASE);
    if (acquires != (op->n_operands == 1) || at->bytes != (acquires ? TW_TENSOR_MAP_BYTES : 0))
        tw_verify_find(v, "acquires %d bytes at an address, or releases none", TW_TENSOR_MAP_BYTES);
}

static void verify_prefetch(tw_verifier *v, const tw_ir_op *op) {
    const int cache = op->at.cache;
    if (cache != TW_CACHE_default && (cache != TW_CACHE_evict_last || op->at.level != TW_LEVEL_L2))
        tw_verify_find(v, "cache is default, or evict_last in L2");
}

/* -- asynchronous copies */

static void verify_cp_async(tw_verifier *v, const tw_ir_op *op) {
    const tw_attrs *at = &op->at;
    if (at->bytes != 4 && at->bytes != 8 && at->bytes != 16)
        tw_verify_find(v, "bytes is 4, 8 or 16, not %d", at->bytes);
    if (at->cache == TW_CACHE_nc || at->cache == TW_CACHE_cs)
        tw_verify_find(v, "cache is default, cg or an eviction policy, not %s",
                       tw_attr_value_name(TW_ATTR_cache, at->cache));
    if (at->cache == TW_CACHE_cg && at->bytes != 16) tw_verify_find(v, "cache=cg is for 16 bytes");
    uint64_t c;
    if (constant(v, op, 2, &c) && c > (uint64_t)at->bytes)
        tw_verify_find(v, "%llu source bytes, %d are copied", (unsigned long long)c, at->bytes);
}

static void bulk_bytes(tw_verifier *v, const tw_ir_op *op, int operand) {
    uint64_t c;
    if (constant(v, op, operand, &c) && (c % 16 || !c)) tw_verify_find(v, "bytes are a multiple of 16");
}

static void verify_bulk_load(tw_verifier *v, const tw_ir_op *op) {
    bulk_bytes(v, op, 2);
}

static void verify_bulk_store(tw_verifier *v, const tw_ir_op *op) {
    bulk_bytes(v, op, 2);
}

/* Bulk reductions have no packed types. */
static void bulk_rmw(tw_verifier *v, const tw_ir_op *op) {
    const tw_type t = (tw_type)op->at.type;
    const bool gives = op->at.rmw == TW_RMW_cas || op->at.rmw == TW_RMW_exch;
    if (gives || !rmw_type(op->at.rmw, t) || t == TW_T_f16x2 || t == TW_T_bf16x2)
        tw_verify_find(v, "there is no bulk rmw=%s of %s", tw_attr_value_name(TW_ATTR_rmw, op->at.rmw),
                       tw_type_name(t));
}

static void verify_bulk_reduce(tw_verifier *v, const tw_ir_op *op) {
    bulk_bytes(v, op, 2);
    bulk_rmw(v, op);
}

static void verify_bulk_prefetch(tw_verifier *v, const tw_ir_op *op) {
    bulk_bytes(v, op, 1);
}

static void verify_policy(tw_verifier *v, const tw_ir_op *op) {
    if (op->at.cache != TW_CACHE_default && op->at.cache != TW_CACHE_evict_first && op->at.cache != TW_CACHE_evict_last)
        tw_verify_find(v, "an L2 policy is default, evict_first or evict_last");
}

static void verify_tensor_load(tw_verifier *v, const tw_ir_op *op) {
    const int most = v->k->cluster > 1 ? 1 << v->k->cluster : 1;
    if (op->at.ranks < 0 || (op->at.ranks && op->at.ranks >= most))
        tw_verify_find(v, "ranks 0x%x are not all in a cluster of %d", (unsigned)op->at.ranks, v->k->cluster);
}

static void verify_tensor_reduce(tw_verifier *v, const tw_ir_op *op) {
    bulk_rmw(v, op);
}

/* -- barriers */

static void named_barrier(tw_verifier *v, const tw_ir_op *op) {
    uint64_t c;
    if (constant(v, op, 0, &c) && c > 15) tw_verify_find(v, "barriers are 0 to 15, not %llu", (unsigned long long)c);
    if (op->at.count < 32 || op->at.count % 32 || op->at.count > (v->k->threads + 31) / 32 * 32)
        tw_verify_find(v, "count is a multiple of 32 up to the block's threads, not %d", op->at.count);
}

static void verify_barrier_sync(tw_verifier *v, const tw_ir_op *op) {
    if (op->at.apart & ~1) tw_verify_find(v, "apart is 0 or 1");
    named_barrier(v, op);
}

static void verify_barrier_arrive(tw_verifier *v, const tw_ir_op *op) {
    named_barrier(v, op);
}

enum { MBARRIER_COUNT = (1 << 20) - 1 };

static void verify_mbarrier_init(tw_verifier *v, const tw_ir_op *op) {
    uint64_t c;
    if (constant(v, op, 1, &c) && (c < 1 || c > MBARRIER_COUNT))
        tw_verify_find(v, "an mbarrier counts 1 to %d", MBARRIER_COUNT);
}

static void verify_mbarrier_arrive(tw_verifier *v, const tw_ir_op *op) {
    if (op->at.count > MBARRIER_COUNT) tw_verify_find(v, "an mbarrier counts 1 to %d", MBARRIER_COUNT);
    if (op->at.count > 1) needs(v, 90, "an arrival for several");
    if (op->at.space != TW_SPACE_global && op->at.space != TW_SPACE_cluster)
        tw_verify_find(v, "space is of this block (none given) or cluster");
    check_space(v, op);
}

/* -- a warp */

static void verify_shfl(tw_verifier *v, const tw_ir_op *op) {
    if (op->at.mode > TW_MODE_bfly) tw_verify_find(v, "mode is idx, up, down or bfly");
    if (tw_type_bits((tw_type)op->at.type) != 32)
        tw_verify_find(v, "registers of 32 bits are exchanged, not %s", tw_type_name((tw_type)op->at.type));
    uint64_t c;
    if (constant(v, op, 1, &c) && c > 31) tw_verify_find(v, "lane or delta is 0 to 31");
}

static void verify_vote(tw_verifier *v, const tw_ir_op *op) {
    if (op->at.mode < TW_MODE_any) {
        tw_verify_find(v, "mode is any, all or ballot");
        return;
    }
    tw_type want = op->at.mode == TW_MODE_ballot ? TW_T_i32 : TW_T_pred;
    if (op->n_results != 1 || tw_value_type(v->k, op->results[0]) != want)
        tw_verify_find(v, "has one result, of type %s", tw_type_name(want));
}

static void verify_redux_max_u32(tw_verifier *v, const tw_ir_op *op) {
    (void)v;
    (void)op;
}

static void matrices(tw_verifier *v, const tw_ir_op *op) {
    v->warps = true;
    if (op->at.vec > 4) tw_verify_find(v, "1, 2 or 4 matrices, not %d", op->at.vec);
}

static void verify_ldmatrix(tw_verifier *v, const tw_ir_op *op) {
    matrices(v, op);
}

static void verify_stmatrix(tw_verifier *v, const tw_ir_op *op) {
    matrices(v, op);
}

static void verify_mma(tw_verifier *v, const tw_ir_op *op) {
    const tw_mma_info *m = tw_mma_describe((tw_mma_kind)op->at.mma);
    v->warps = true;
    needs(v, m->sm, m->name);
}

/* -- a warpgroup */

/* Later targets have another instruction in its place. */
static void warpgroup(tw_verifier *v) {
    v->warps = true;
    if (v->target != 90) tw_verify_find(v, "is of sm_90a alone, the target is sm_%d", v->target);
    if (v->k->threads < 128) tw_verify_find(v, "needs four warps, a block has %d threads", v->k->threads);
}

static void verify_wgmma_fence(tw_verifier *v, const tw_ir_op *op) {
    (void)op;
    warpgroup(v);
}

static void verify_wgmma_commit(tw_verifier *v, const tw_ir_op *op) {
    (void)op;
    warpgroup(v);
}

static void verify_wgmma_wait(tw_verifier *v, const tw_ir_op *op) {
    warpgroup(v);
    if (op->at.count > 7) tw_verify_find(v, "count is 0 to 7, not %d", op->at.count);
}

static bool is_variable(const tw_verifier *v, tw_val x) {
    return v->k->values[x.id].kind == TW_V_VARIABLE;
}

/* Checks a wgmma. Its accumulators are the operands from `first` on. */
static void check_product(tw_verifier *v, const tw_ir_op *op, int first) {
    const tw_wgmma_info *m = tw_wgmma_describe((tw_wgmma_kind)op->at.wgmma);
    warpgroup(v);
    if (m->k != 16 && (op->at.trans_a || op->at.trans_b))
        tw_verify_find(v, "only types of 16 bits lie across k, not %s", m->name);
    if (m->d == TW_T_i32 && op->at.columns % 16 && op->at.columns > 24)
        tw_verify_find(v, "columns of integers are 8, 24 or a multiple of 16, not %d", op->at.columns);
    for (int i = 0; i < op->n_results; i++) {
        if (op->results[i].id != op->operands[first + i].id || !is_variable(v, op->results[i])) {
            tw_verify_find(v, "result %d is not the variable that it is added to", i);
            return;
        }
        for (int j = 0; j < i; j++)
            if (op->results[j].id == op->results[i].id) {
                tw_verify_find(v, "results %d and %d are the same variable", j, i);
                return;
            }
    }
}

static void verify_wgmma(tw_verifier *v, const tw_ir_op *op) {
    check_product(v, op, 3);
}

static void verify_wgmma_rs(tw_verifier *v, const tw_ir_op *op) {
    check_product(v, op, 6);
    for (int i = 0; i < 4; i++) {
        if (!is_variable(v, op->operands[i])) tw_verify_find(v, "operand %d, of A, is no variable", i);
        for (int j = 0; j < op->n_results; j++)
            if (op->results[j].id == op->operands[i].id) tw_verify_find(v, "operand %d, of A, is a sum too", i);
    }
}

static void check_registers(tw_verifier *v, const tw_ir_op *op) {
    v->warps = true;
    if (op->at.count < 24 || op->at.count > 256 || op->at.count % 8)
        tw_verify_find(v, "count is a multiple of 8 from 24 to 256, not %d", op->at.count);
    if (!v->k->max_registers) tw_verify_find(v, "needs a kernel that says max_registers");
    if (v->k->threads % 128) tw_verify_find(v, "needs whole warpgroups, a block has %d threads", v->k->threads);
}

static void verify_setmaxnreg_dec(tw_verifier *v, const tw_ir_op *op) {
    check_registers(v, op);
}

static void verify_setmaxnreg_inc(tw_verifier *v, const tw_ir_op *op) {
    check_registers(v, op);
}

/* -- control */

static void verify_if(tw_verifier *v, const tw_ir_op *op) {
    if (op->n_blocks != 2) tw_verify_find(v, "has %d blocks, not 2", op->n_blocks);
}

static void verify_for(tw_verifier *v, const tw_ir_op *op) {
    uint64_t step;
    tw_type t = (tw_type)op->at.type;
    if (op->n_blocks != 1) tw_verify_find(v, "has %d blocks, not 1", op->n_blocks);
    if (t != TW_T_i32 && t != TW_T_i64)
        tw_verify_find(v, "counts in i32 or i64, not %s", tw_type_name(t));
    else if (constant(v, op, 2, &step) && (t == TW_T_i32 ? (int64_t)(int32_t)step : (int64_t)step) <= 0)
        tw_verify_find(v, "the step is not positive");
}

static void verify_while(tw_verifier *v, const tw_ir_op *op) {
    if (op->n_blocks != 2) tw_verify_find(v, "has %d blocks, not 2", op->n_blocks);
}

/* Ascending and disjoint, so that the parts of a block's warps are plain to see. */
static void verify_roles(tw_verifier *v, const tw_ir_op *op) {
    uint64_t from, below, end = 0;
    v->warps = true;
    if (!op->n_blocks || op->n_operands != 2 * op->n_blocks) {
        tw_verify_find(v, "has %d operands for %d blocks, not two for each", op->n_operands, op->n_blocks);
        return;
    }
    for (int i = 0; i < op->n_blocks; i++) {
        if (!constant(v, op, 2 * i, &from) || !constant(v, op, 2 * i + 1, &below) ||
            tw_value_type(v->k, op->operands[2 * i]) != TW_T_i32 ||
            tw_value_type(v->k, op->operands[2 * i + 1]) != TW_T_i32)
            tw_verify_find(v, "role %d is of warps that are no i32 constants", i);
        else if (from >= below || from < end || below > (uint64_t)(v->k->threads + 31) / 32)
            tw_verify_find(v, "role %d is of warps %llu to %llu: ascending, apart, and of %d warps", i,
                           (unsigned long long)from, (unsigned long long)below, (v->k->threads + 31) / 32);
        else
            end = below;
    }
}

typedef void rule(tw_verifier *v, const tw_ir_op *op);
void tw_verify_op(tw_verifier *v, const tw_ir_op *op) {
    static rule *const rules[TW_OPCODES] = {
#define MOP(name, ...) [TW_OP_##name] = verify_##name,
#include "ir/ops.def"
#undef MOP
    };
    rules[op->code](v, op);
}
