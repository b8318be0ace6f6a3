/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/random_kernel.h"

#include "base/random.h"
#include "ir/builder.h"

#include <string.h>

enum { POOL = 48, MAX_DEPTH = 4 };

typedef struct generator {
    tw_random r;
    tw_kernel *k;
    tw_builder b;
    const random_kernel_options *o;
    /* What may be used here, by type: values, and variables among them. A block's own disappear at its end. */
    tw_val values[TW_T_COUNT][POOL], variables[TW_T_COUNT][POOL];
    int n_values[TW_T_COUNT], n_variables[TW_T_COUNT];
    tw_val map;          /* none where the target has no tensor maps */
    tw_val in, out, own; /* own: where this thread's results go */
    int left, slots;
    bool uniform; /* all lanes get here together */
} generator;

typedef struct scope {
    int n_values[TW_T_COUNT], n_variables[TW_T_COUNT];
    bool uniform;
} scope;

static scope enter(const generator *g) {
    scope s;
    memcpy(s.n_values, g->n_values, sizeof s.n_values);
    memcpy(s.n_variables, g->n_variables, sizeof s.n_variables);
    s.uniform = g->uniform;
    return s;
}

static void leave(generator *g, const scope *s) {
    memcpy(g->n_values, s->n_values, sizeof s->n_values);
    memcpy(g->n_variables, s->n_variables, sizeof s->n_variables);
    g->uniform = s->uniform;
}

static int below(generator *g, int n) {
    return (int)tw_random_below(&g->r, (uint64_t)n);
}

static bool chance(generator *g, int percent) {
    return below(g, 100) < percent;
}

/* -- values */

static tw_val random_constant(generator *g, tw_type t) {
    uint64_t bits = tw_random_u64(&g->r);
    if (chance(g, 50)) bits = (uint64_t)below(g, 9) - 4;
    switch (t) { /* finite numbers, mostly of a size where arithmetic means something */
    case TW_T_f32:
        return tw_f32(&g->b, (float)(below(g, 4000) + 1) / (chance(g, 50) ? 256 : -256));
    case TW_T_f64:
        return tw_f64(&g->b, (double)(below(g, 4000) + 1) / (chance(g, 50) ? 256 : -256));
    case TW_T_f16:
        return tw_const(&g->b, t, 0x3000 + (bits & 0x9fff));
    case TW_T_bf16:
        return tw_const(&g->b, t, 0x3f00 + (bits & 0x80ff));
    case TW_T_f16x2:
        return tw_const(&g->b, t, 0x30003000 + (bits & 0x8fff8fff));
    case TW_T_bf16x2:
        return tw_const(&g->b, t, 0x3f003f00 + (bits & 0x80ff80ff));
    default:
        return tw_const(&g->b, t, bits);
    }
}

static void add_value(generator *g, tw_val v) {
    if (tw_kernel_failed(g->k)) return;
    tw_type t = tw_value_type(g->k, v);
    if (g->n_values[t] < POOL) g->values[t][g->n_values[t]++] = v;
    if (chance(g, 15)) {
        static const char *const names[] = {"acc", "i", "row_0", "x1"};
        tw_ir_value *x = &g->k->values[v.id];
        if (!x->name) x->name = names[below(g, 4)];
    }
}

static tw_val pick(generator *g, tw_type t) {
    if (!g->n_values[t] || chance(g, 20)) return random_constant(g, t);
    return g->values[t][below(g, g->n_values[t])];
}

/* What an operation's result goes to: a variable there is, or nothing yet. */
static tw_val target(generator *g, tw_type t) {
    if (g->n_variables[t] && chance(g, 25)) return g->variables[t][below(g, g->n_variables[t])];
    return TW_NONE;
}

static tw_type random_type(generator *g) {
    static const tw_type types[] = {TW_T_pred, TW_T_i16,    TW_T_i32, TW_T_i32, TW_T_i64, TW_T_f16,
                                    TW_T_bf16, TW_T_bf16x2, TW_T_f32, TW_T_f32, TW_T_f64, TW_T_f16x2};
    return types[below(g, sizeof types / sizeof *types)];
}

static void emit(generator *g, tw_opcode code, tw_attrs at, const tw_type *types, int n_results, const tw_val *operands,
                 int n) {
    tw_val results[8] = {{0}};
    for (int i = 0; i < n_results; i++) {
        results[i] = target(g, types[i]);
        for (int j = 0; j < i; j++)
            if (results[j].id == results[i].id) results[i] = TW_NONE;
    }
    bool fresh[8];
    for (int i = 0; i < n_results; i++) fresh[i] = !results[i].id;
    if ((tw_op_describe(code)->flags & TW_F_GUARD) && chance(g, 30)) {
        tw_val p = pick(g, TW_T_pred);
        if (chance(g, 50))
            tw_when(&g->b, p);
        else
            tw_unless(&g->b, p);
    }
    tw_emit(&g->b, code, at, results, types, n_results, operands, n);
    for (int i = 0; i < n_results; i++)
        if (fresh[i]) add_value(g, results[i]);
}

static void emit0(generator *g, tw_opcode code, tw_attrs at, const tw_val *operands, int n) {
    emit(g, code, at, NULL, 0, operands, n);
}

static void emit1(generator *g, tw_opcode code, tw_attrs at, tw_type t, const tw_val *operands, int n) {
    emit(g, code, at, &t, 1, operands, n);
}

static void scalar(generator *g, tw_opcode code) {
    const tw_op_info *info = tw_op_describe(code);
    tw_val v[3];
    if (g->k->target < info->sm) return;
    for (int i = 0; i < info->n_operands; i++) v[i] = pick(g, info->operand[i]);
    if (chance(g, 10) && info->n_operands > 1 && info->operand[0] == info->operand[1]) v[1] = v[0];
    emit1(g, code, (tw_attrs){0}, info->result, v, info->n_operands);
}

/* -- a function for every row of the table: what it emits the verifier accepts. Those that a runnable kernel cannot
   have return at once there. */
#define OP(name, ...)
#define MOP(name, ...) static void make_##name(generator *g);
#include "ir/ops.def"
#undef MOP

static bool has(const generator *g, int sm) {
    return g->k->target >= sm;
}

static tw_val i32(generator *g, int x) {
    return tw_i32(&g->b, x);
}

static tw_val lane_mask(generator *g) {
    return i32(g, -1);
}

static tw_val shared_address(generator *g) {
    tw_val v = tw_shared_base(&g->b, chance(g, 50) ? "still" : "stages");
    return chance(g, 50) ? tw_add_imm(&g->b, v, 16 * below(g, 64)) : v;
}

static tw_val global_address(generator *g) {
    return tw_add_imm(&g->b, chance(g, 50) ? g->in : g->out, 16 * below(g, 64));
}

static void make_set(generator *g) {
    tw_type t = random_type(g);
    if (g->n_variables[t] && chance(g, 60)) {
        tw_assign(&g->b, g->variables[t][below(g, g->n_variables[t])], pick(g, t));
    } else {
        tw_val v = tw_var_of(&g->b, pick(g, t));
        add_value(g, v);
        if (g->n_variables[t] < POOL) g->variables[t][g->n_variables[t]++] = v;
    }
}

/* Declared, and assigned on every path at once or not at all. */
static void make_undef(generator *g) {
    tw_type t = random_type(g);
    tw_val v = tw_var(&g->b, t);
    if (chance(g, 10)) return;
    if (chance(g, 50)) {
        const tw_scope if_pick = tw_push_if(&g->b, pick(g, TW_T_pred));
        tw_assign(&g->b, v, pick(g, t));
        tw_push_else(&g->b, if_pick);
        tw_assign(&g->b, v, pick(g, t));
        tw_pop(&g->b, if_pick);
    } else {
        tw_assign(&g->b, v, pick(g, t));
    }
    add_value(g, v);
    if (g->n_variables[t] < POOL) g->variables[t][g->n_variables[t]++] = v;
}

static void make_select(generator *g) {
    tw_type t = random_type(g);
    emit1(g, TW_OP_select, (tw_attrs){.type = t}, t, (tw_val[]){pick(g, t), pick(g, t), pick(g, TW_T_pred)}, 3);
}

static void make_bitcast(generator *g) {
    static const tw_type same[][2] = {{TW_T_i32, TW_T_f32},    {TW_T_i64, TW_T_f64},     {TW_T_i32, TW_T_f16x2},
                                      {TW_T_i32, TW_T_bf16x2}, {TW_T_i16, TW_T_f16},     {TW_T_i16, TW_T_bf16},
                                      {TW_T_f32, TW_T_i32},    {TW_T_f16x2, TW_T_f16x2}, {TW_T_bf16, TW_T_f16}};
    /* Bits of a NaN would show. */
    const tw_type *t = same[below(g, g->o->runnable ? 6 : 9)];
    tw_val v = pick(g, t[0]);
    emit1(g, TW_OP_bitcast, (tw_attrs){.type = t[1]}, t[1], &v, 1);
}

static void make_sreg(generator *g) {
    static const int plain[] = {TW_SREG_tid_x,    TW_SREG_ntid_x,   TW_SREG_ctaid_x,  TW_SREG_laneid,
                                TW_SREG_warpid,   TW_SREG_nctaid_x, TW_SREG_tid_y,    TW_SREG_ctaid_y,
                                TW_SREG_nctaid_z, TW_SREG_ctaid_z,  TW_SREG_nctaid_y, TW_SREG_tid_z};
    int sreg = g->o->runnable ? plain[below(g, 12)] : below(g, TW_SREGS);
    if (sreg == TW_SREG_cluster_rank && !has(g, 90)) return;
    tw_type t = sreg >= TW_SREG_clock64 ? TW_T_i64 : TW_T_i32;
    emit1(g, TW_OP_sreg, (tw_attrs){.sreg = sreg, .type = t}, t, NULL, 0);
}

static void make_shared_address(generator *g) {
    if (g->o->runnable) return; /* other threads use it too */
    add_value(g, shared_address(g));
}

/* Accesses of the cluster's space have theirs from here: see address_in. */
static tw_val cluster_address(generator *g) {
    tw_val v[] = {shared_address(g), i32(g, below(g, 2))}, result = TW_NONE;
    tw_type t = TW_T_i32;
    tw_emit(&g->b, TW_OP_cluster_address, (tw_attrs){0}, &result, &t, 1, v, 2);
    return result;
}

static void make_cluster_address(generator *g) {
    if (has(g, 90) && !g->o->runnable) add_value(g, cluster_address(g));
}

static int32_t random_space(generator *g, int percent) {
    if (!chance(g, percent)) return TW_SPACE_global;
    return has(g, 90) && chance(g, 30) ? TW_SPACE_cluster : TW_SPACE_shared;
}

static tw_val address_in(generator *g, int32_t space) {
    if (space == TW_SPACE_cluster) return cluster_address(g);
    return space == TW_SPACE_shared ? shared_address(g) : global_address(g);
}

static tw_type memory_type(generator *g) {
    tw_type t;
    do t = random_type(g);
    while (t == TW_T_pred);
    return chance(g, 10) ? TW_T_i8 : t;
}

static int random_vec(generator *g, tw_type t) {
    int vec = 1 << below(g, 4);
    while (vec * tw_type_bits(t) > 128) vec /= 2;
    return vec == 1 && chance(g, 50) ? 0 : vec;
}

static tw_attrs access(generator *g, bool store) {
    tw_attrs at = {.type = (int32_t)memory_type(g)};
    at.vec = random_vec(g, (tw_type)at.type);
    if (g->o->runnable) return at;
    at.space = random_space(g, 30);
    if (chance(g, 50)) at.offset = below(g, 1 << 20) - (1 << 19);
    if (chance(g, 30)) {
        static const int orders[] = {TW_ORDER_relaxed, TW_ORDER_volatile};
        at.order = chance(g, 30) ? (store ? TW_ORDER_release : TW_ORDER_acquire) : orders[below(g, 2)];
        if (at.order != TW_ORDER_volatile) at.scope = chance(g, 50) ? TW_SCOPE_gpu : TW_SCOPE_sys;
    } else if (at.space == TW_SPACE_global && chance(g, 50)) {
        do at.cache = below(g, TW_CACHES);
        while (store && at.cache == TW_CACHE_nc);
    }
    return at;
}

/* A multiple of the access within the input, in ways that give the passes something to do: constants in the sum, in
   what is multiplied, and added to a variable that goes on afterwards. */
static tw_val input_address(generator *g, const tw_attrs *at) {
    int bytes = tw_type_bits((tw_type)at->type) / 8 * (at->vec ? at->vec : 1);
    tw_val x = tw_and(&g->b, pick(g, TW_T_i32), i32(g, RANDOM_IN_BYTES / 8 - bytes));
    x = tw_unary(&g->b, TW_OP_zext_i64_i32, x);
    if (chance(g, 50)) {
        x = tw_add_imm(&g->b, x, bytes * below(g, 8));
        x = chance(g, 50) ? tw_shl(&g->b, x, 1) : tw_mul(&g->b, x, tw_i64(&g->b, 3));
    }
    tw_val address = tw_add(&g->b, g->in, x);
    if (chance(g, 30)) {
        tw_val moving = tw_var_of(&g->b, address);
        address = tw_add_imm(&g->b, moving, bytes * below(g, 4));
        if (chance(g, 50)) tw_op_to(&g->b, moving, TW_OP_add_i64, moving, tw_i64(&g->b, bytes), TW_NONE);
        if (chance(g, 30)) address = moving;
    }
    return tw_add_imm(&g->b, address, bytes * below(g, 8));
}

static void make_ld(generator *g) {
    tw_attrs at = access(g, false);
    tw_type t = tw_type_register((tw_type)at.type), types[8] = {t, t, t, t, t, t, t, t};
    tw_val address = g->o->runnable ? input_address(g, &at) : address_in(g, at.space);
    if (g->o->runnable && chance(g, 30)) at.cache = TW_CACHE_nc;
    emit(g, TW_OP_ld, at, types, at.vec ? at.vec : 1, &address, 1);
}

/* The value in a form that does not tell one NaN from another. */
static tw_val without_nan(generator *g, tw_val v) {
    tw_type t = tw_value_type(g->k, v);
    if (t == TW_T_f16 || t == TW_T_bf16) v = tw_unary(&g->b, t == TW_T_f16 ? TW_OP_cvt_f32_f16 : TW_OP_cvt_f32_bf16, v);
    t = tw_value_type(g->k, v);
    if (t != TW_T_f32 && t != TW_T_f64) return v;
    return tw_select(&g->b, tw_eq(&g->b, v, v), v, tw_const(&g->b, t, 0x3f));
}

static void store_result(generator *g, tw_val v) {
    tw_type t = tw_value_type(g->k, v);
    if (g->slots == RANDOM_OUT_SLOTS || t == TW_T_f16x2 || t == TW_T_bf16x2) return;
    if (t == TW_T_pred) v = tw_select(&g->b, v, i32(g, 1), i32(g, 0));
    v = without_nan(g, v);
    tw_attrs at = {.type = (int32_t)tw_value_type(g->k, v), .offset = 16 * g->slots++};
    if (chance(g, 20)) tw_when(&g->b, pick(g, TW_T_pred));
    tw_st(&g->b, at, g->own, &v);
}

static void make_st(generator *g) {
    if (g->o->runnable) {
        store_result(g, pick(g, random_type(g)));
        return;
    }
    tw_attrs at = access(g, true);
    tw_val v[9] = {address_in(g, at.space)};
    int n = at.vec ? at.vec : 1;
    for (int i = 0; i < n; i++) v[1 + i] = pick(g, tw_type_register((tw_type)at.type));
    emit0(g, TW_OP_st, at, v, 1 + n);
}

static tw_attrs atomic(generator *g, bool result) {
    tw_attrs at = {.type = TW_T_i32, .rmw = below(g, TW_RMWS), .scope = TW_SCOPE_gpu};
    if (!result && (at.rmw == TW_RMW_cas || at.rmw == TW_RMW_exch)) at.rmw = TW_RMW_add;
    if (at.rmw == TW_RMW_add) {
        static const tw_type types[] = {TW_T_i32, TW_T_i64, TW_T_f32, TW_T_f64, TW_T_f16x2};
        at.type = (int32_t)types[below(g, 5)];
    }
    at.space = random_space(g, 50);
    if (chance(g, 50)) at.order = chance(g, 50) ? TW_ORDER_relaxed : TW_ORDER_release;
    return at;
}

static void make_atom(generator *g) {
    if (g->o->runnable) return;
    tw_attrs at = atomic(g, true);
    tw_type t = (tw_type)at.type;
    tw_val v[] = {address_in(g, at.space), pick(g, t), pick(g, t)};
    emit1(g, TW_OP_atom, at, t, v, at.rmw == TW_RMW_cas ? 3 : 2);
}

static void make_red(generator *g) {
    if (g->o->runnable) return;
    tw_attrs at = atomic(g, false);
    if (has(g, 90) && chance(g, 30)) {
        static const tw_type types[] = {TW_T_f32, TW_T_f16, TW_T_bf16, TW_T_f16x2, TW_T_bf16x2};
        const tw_type t = types[below(g, 5)];
        at = (tw_attrs){.type = (int32_t)t, .vec = 4, .scope = TW_SCOPE_gpu};
        tw_val v[] = {global_address(g), pick(g, t), pick(g, t), pick(g, t), pick(g, t)};
        emit0(g, TW_OP_red, at, v, 5);
        return;
    }
    tw_val v[] = {address_in(g, at.space), pick(g, (tw_type)at.type)};
    emit0(g, TW_OP_red, at, v, 2);
}

static void make_prefetch(generator *g) {
    if (g->o->runnable) return;
    tw_attrs at = {.offset = 128, .level = below(g, TW_LEVELS)};
    if (at.level == TW_LEVEL_L2 && chance(g, 50)) at.cache = TW_CACHE_evict_last;
    emit0(g, TW_OP_prefetch, at, (tw_val[]){global_address(g)}, 1);
}

static void make_fence(generator *g) {
    emit0(
        g, TW_OP_fence,
        (tw_attrs){.order = chance(g, 50) ? TW_ORDER_acq_rel : TW_ORDER_sc, .scope = chance(g, 50) ? TW_SCOPE_gpu : 0},
        NULL, 0);
}

static void make_fence_proxy(generator *g) {
    tw_attrs at = {.proxy = 1 + below(g, TW_PROXIES - 1)};
    tw_val address = TW_NONE;
    if (!has(g, 90) || g->o->runnable) return;
    if (at.proxy == TW_PROXY_tensormap) {
        at.scope = below(g, TW_SCOPES);
        at.order = chance(g, 50) ? TW_ORDER_release : TW_ORDER_acquire;
        if (at.order == TW_ORDER_acquire) at.bytes = 128, address = global_address(g);
    }
    emit0(g, TW_OP_fence_proxy, at, &address, address.id ? 1 : 0);
}

static void plain(generator *g, tw_opcode code, int sm, tw_attrs at) {
    if (has(g, sm) && !g->o->runnable) emit0(g, code, at, NULL, 0);
}

static void make_fence_mbarrier_init(generator *g) {
    plain(g, TW_OP_fence_mbarrier_init, 90, (tw_attrs){0});
}

static void make_cp_async(generator *g) {
    if (g->o->runnable) return;
    tw_val v[] = {shared_address(g), global_address(g), i32(g, 4 * below(g, 2))};
    tw_attrs at = {.bytes = 4 << below(g, 3), .offset = 16 * below(g, 8)};
    if (at.bytes == 16 && chance(g, 50)) at.cache = TW_CACHE_cg;
    emit0(g, TW_OP_cp_async, at, v, chance(g, 50) ? 3 : 2);
}

static void make_cp_async_commit(generator *g) {
    plain(g, TW_OP_cp_async_commit, 80, (tw_attrs){0});
}

static void make_cp_async_wait(generator *g) {
    plain(g, TW_OP_cp_async_wait, 80, (tw_attrs){.count = below(g, 3)});
}

/* Whose address operands are all in shared memory at `s`. */
static void at_shared(generator *g, tw_opcode code, int sm, tw_attrs at, tw_val second) {
    if (!has(g, sm) || g->o->runnable) return;
    tw_val v[] = {shared_address(g), second};
    emit0(g, code, at, v, second.id ? 2 : 1);
}

static void make_cp_async_arrive(generator *g) {
    at_shared(g, TW_OP_cp_async_arrive, 80, (tw_attrs){0}, TW_NONE);
}

static void make_bulk_load(generator *g) {
    if (!has(g, 90) || g->o->runnable) return;
    tw_val v[] = {shared_address(g), global_address(g), i32(g, 16), shared_address(g), pick(g, TW_T_i64)};
    emit0(g, TW_OP_bulk_load, (tw_attrs){0}, v, chance(g, 50) ? 5 : 4);
}

static void make_bulk_store(generator *g) {
    if (!has(g, 90) || g->o->runnable) return;
    tw_val v[] = {global_address(g), shared_address(g), i32(g, 32), pick(g, TW_T_i64)};
    emit0(g, TW_OP_bulk_store, (tw_attrs){0}, v, chance(g, 50) ? 4 : 3);
}

static void make_bulk_reduce(generator *g) {
    static const tw_type types[] = {TW_T_i32, TW_T_i64, TW_T_f32, TW_T_f64, TW_T_f16, TW_T_bf16};
    if (!has(g, 90) || g->o->runnable) return;
    tw_val v[] = {global_address(g), shared_address(g), i32(g, 32), pick(g, TW_T_i64)};
    emit0(g, TW_OP_bulk_reduce, (tw_attrs){.rmw = TW_RMW_add, .type = (int32_t)types[below(g, 6)]}, v,
          chance(g, 50) ? 4 : 3);
}

static void make_bulk_commit(generator *g) {
    plain(g, TW_OP_bulk_commit, 90, (tw_attrs){0});
}

static void make_bulk_wait(generator *g) {
    plain(g, TW_OP_bulk_wait, 90, (tw_attrs){.count = below(g, 2), .read = below(g, 2)});
}

static void make_bulk_prefetch(generator *g) {
    if (!has(g, 90) || g->o->runnable) return;
    emit0(g, TW_OP_bulk_prefetch, (tw_attrs){0}, (tw_val[]){global_address(g), i32(g, 64)}, 2);
}

static void make_policy(generator *g) {
    static const int caches[] = {TW_CACHE_default, TW_CACHE_evict_first, TW_CACHE_evict_last};
    if (g->o->runnable) return; /* its bits are nobody's business */
    emit1(g, TW_OP_policy, (tw_attrs){.cache = caches[below(g, 3)]}, TW_T_i64, NULL, 0);
}

static void make_barrier(generator *g) {
    if (g->uniform) emit0(g, TW_OP_barrier, (tw_attrs){0}, NULL, 0);
}

static void make_barrier_sync(generator *g) {
    tw_val number = i32(g, 1 + below(g, 15));
    if (g->uniform) emit0(g, TW_OP_barrier_sync, (tw_attrs){.count = g->k->threads}, &number, 1);
}

static void make_barrier_arrive(generator *g) {
    tw_val number = i32(g, below(g, 16));
    if (!g->o->runnable) emit0(g, TW_OP_barrier_arrive, (tw_attrs){.count = 32}, &number, 1);
}

static void make_cluster_sync(generator *g) {
    if (g->uniform) plain(g, TW_OP_cluster_sync, 90, (tw_attrs){0});
}

static void make_warp_sync(generator *g) {
    tw_val mask = lane_mask(g);
    if (g->uniform) emit0(g, TW_OP_warp_sync, (tw_attrs){0}, &mask, 1);
}

static void make_mbarrier_init(generator *g) {
    at_shared(g, TW_OP_mbarrier_init, 80, (tw_attrs){0}, i32(g, 1 + below(g, 128)));
}

static void make_mbarrier_inval(generator *g) {
    at_shared(g, TW_OP_mbarrier_inval, 80, (tw_attrs){0}, TW_NONE);
}

static void make_mbarrier_arrive(generator *g) {
    at_shared(g, TW_OP_mbarrier_arrive, 80, (tw_attrs){.count = has(g, 90) ? below(g, 4) : 0}, TW_NONE);
}

static void make_mbarrier_expect(generator *g) {
    at_shared(g, TW_OP_mbarrier_expect, 90, (tw_attrs){0}, pick(g, TW_T_i32));
}

static void make_mbarrier_test(generator *g) {
    if (g->o->runnable) return;
    tw_val v[] = {shared_address(g), i32(g, below(g, 2))};
    emit1(g, TW_OP_mbarrier_test, (tw_attrs){0}, TW_T_pred, v, 2);
}

static void make_mbarrier_wait(generator *g) {
    at_shared(g, TW_OP_mbarrier_wait, 80, (tw_attrs){0}, pick(g, TW_T_i32));
}

static void make_shfl(generator *g) {
    static const tw_type types[] = {TW_T_i32, TW_T_f32, TW_T_f16x2, TW_T_bf16x2};
    tw_type t = types[below(g, 4)];
    tw_val v[] = {pick(g, t), i32(g, below(g, 32)), lane_mask(g)};
    if (g->uniform) emit1(g, TW_OP_shfl, (tw_attrs){.mode = below(g, 4), .type = t}, t, v, 3);
}

static void make_vote(generator *g) {
    int mode = TW_MODE_any + below(g, 3);
    tw_val v[] = {pick(g, TW_T_pred), lane_mask(g)};
    if (g->uniform) emit1(g, TW_OP_vote, (tw_attrs){.mode = mode}, mode == TW_MODE_ballot ? TW_T_i32 : TW_T_pred, v, 2);
}

static void make_redux_max_u32(generator *g) {
    tw_val v[] = {pick(g, TW_T_i32), lane_mask(g)};
    if (g->uniform) emit1(g, TW_OP_redux_max_u32, (tw_attrs){0}, TW_T_i32, v, 2);
}

static void make_elect(generator *g) {
    tw_val mask = lane_mask(g);
    if (g->uniform && has(g, 90)) emit1(g, TW_OP_elect, (tw_attrs){0}, TW_T_pred, &mask, 1);
}

static void make_ldmatrix(generator *g) {
    if (g->o->runnable) return;
    static const tw_type types[4] = {TW_T_i32, TW_T_i32, TW_T_i32, TW_T_i32};
    tw_val address = shared_address(g);
    int vec = 1 << below(g, 3);
    emit(g, TW_OP_ldmatrix, (tw_attrs){.vec = vec, .trans = below(g, 2), .offset = 16 * below(g, 8)}, types, vec,
         &address, 1);
}

static void make_stmatrix(generator *g) {
    if (!has(g, 90) || g->o->runnable) return;
    tw_val v[5] = {shared_address(g)};
    int vec = 1 << below(g, 3);
    for (int i = 0; i < vec; i++) v[1 + i] = pick(g, TW_T_i32);
    emit0(g, TW_OP_stmatrix, (tw_attrs){.vec = vec, .trans = below(g, 2)}, v, 1 + vec);
}

static void make_mma(generator *g) {
    int kind = 1 + below(g, TW_MMAS - 1), n = 0;
    const tw_mma_info *m = tw_mma_describe((tw_mma_kind)kind);
    if (!has(g, m->sm) || g->o->runnable || !g->uniform) return;
    tw_val v[24];
    tw_type types[8];
    for (int i = 0; i < m->a + m->b; i++) v[n++] = pick(g, m->ab);
    for (int i = 0; i < m->c; i++) v[n++] = pick(g, m->cd);
    for (int i = 0; i < m->c; i++) types[i] = m->cd;
    emit(g, TW_OP_mma, (tw_attrs){.mma = kind}, types, m->c, v, n);
}

/* A box of the map, of any dimensions. */
static tw_box random_box(generator *g, tw_attrs *at) {
    tw_box box = {.map = g->map};
    at->dims = chance(g, 30) ? 0 : 1 + below(g, 5);
    at->im2col = at->dims >= 3 && chance(g, 50);
    for (int i = 0; i < (at->dims ? at->dims : 2); i++) box.at[i] = i ? i32(g, below(g, 9)) : pick(g, TW_T_i32);
    for (int i = 0; i < at->dims - 2; i++) box.offset[i] = pick(g, TW_T_i16);
    return box;
}

static tw_val random_policy(generator *g) {
    return chance(g, 50) ? pick(g, TW_T_i64) : TW_NONE;
}

static void make_tensor_load(generator *g) {
    tw_attrs at = {0};
    if (!g->map.id) return;
    const tw_box box = random_box(g, &at);
    tw_val to = shared_address(g), full = shared_address(g);
    tw_tensor_load_box(&g->b, at, to, &box, full, random_policy(g));
}

static void make_tensor_store(generator *g) {
    tw_attrs at = {0};
    if (!g->map.id) return;
    const tw_box box = random_box(g, &at);
    tw_val from = shared_address(g);
    tw_tensor_store(&g->b, at, &box, from, random_policy(g));
}

static void make_tensor_reduce(generator *g) {
    tw_attrs at = {.type = TW_T_i32, .rmw = chance(g, 50) ? TW_RMW_add : TW_RMW_min_s32};
    if (!g->map.id) return;
    const tw_box box = random_box(g, &at);
    tw_val from = shared_address(g);
    tw_tensor_reduce(&g->b, at, &box, from, random_policy(g));
}

static void make_tensor_prefetch_box(generator *g) {
    tw_attrs at = {0};
    if (!g->map.id) return;
    const tw_box box = random_box(g, &at);
    tw_tensor_prefetch_box(&g->b, at, &box, random_policy(g));
}

static void make_tensor_prefetch(generator *g) {
    if (g->map.id) emit0(g, TW_OP_tensor_prefetch, (tw_attrs){0}, &g->map, 1);
}

static bool has_warpgroups(const generator *g) {
    return g->k->target == 90 && g->k->threads >= 128 && g->uniform && !g->o->runnable;
}

static void make_wgmma_fence(generator *g) {
    if (has_warpgroups(g)) plain(g, TW_OP_wgmma_fence, 90, (tw_attrs){0});
}

static void make_wgmma_commit(generator *g) {
    if (has_warpgroups(g)) plain(g, TW_OP_wgmma_commit, 90, (tw_attrs){0});
}

static void make_wgmma_wait(generator *g) {
    if (has_warpgroups(g)) plain(g, TW_OP_wgmma_wait, 90, (tw_attrs){.count = below(g, 8)});
}

static tw_attrs random_product(generator *g, tw_val *acc) {
    tw_attrs at = {.wgmma = 1 + below(g, TW_WGMMAS - 1),
                   .columns = chance(g, 80) ? 8 : 16 * (1 + below(g, TW_WGMMA_COLUMNS / 16))};
    const tw_wgmma_info *m = tw_wgmma_describe((tw_wgmma_kind)at.wgmma);
    at.trans_b = m->k == 16 && chance(g, 50);
    for (int i = 0; i < tw_wgmma_registers((tw_wgmma_kind)at.wgmma, at.columns); i++)
        acc[i] = tw_var_of(&g->b, pick(g, m->d));
    return at;
}

static void make_wgmma(generator *g) {
    tw_val acc[TW_WGMMA_COLUMNS / 2];
    if (!has_warpgroups(g)) return;
    tw_attrs at = random_product(g, acc);
    at.trans_a = at.trans_b && chance(g, 50);
    tw_wgmma(&g->b, at, acc, pick(g, TW_T_i64), pick(g, TW_T_i64), pick(g, TW_T_pred));
    add_value(g, acc[0]);
}

static void make_wgmma_rs(generator *g) {
    tw_val acc[TW_WGMMA_COLUMNS / 2], a[4];
    if (!has_warpgroups(g)) return;
    const tw_attrs at = random_product(g, acc);
    for (int i = 0; i < 4; i++) a[i] = i == 3 ? a[0] : tw_var_of(&g->b, pick(g, TW_T_i32));
    tw_wgmma_rs(&g->b, at, acc, a, pick(g, TW_T_i64), pick(g, TW_T_pred));
    add_value(g, acc[0]);
}

static void set_registers(generator *g, tw_opcode code) {
    if (g->k->max_registers && g->k->threads % 128 == 0 && g->uniform)
        plain(g, code, 90, (tw_attrs){.count = 24 + 8 * below(g, 30)});
}

static void make_setmaxnreg_dec(generator *g) {
    set_registers(g, TW_OP_setmaxnreg_dec);
}

static void make_setmaxnreg_inc(generator *g) {
    set_registers(g, TW_OP_setmaxnreg_inc);
}

static void make_griddep_wait(generator *g) {
    plain(g, TW_OP_griddep_wait, 90, (tw_attrs){0});
}

static void make_griddep_launch(generator *g) {
    plain(g, TW_OP_griddep_launch, 90, (tw_attrs){0});
}

/* -- control */

static void make_some(generator *g, int operations);

static void body(generator *g) {
    scope s = enter(g);
    make_some(g, 2 + below(g, 6));
    leave(g, &s);
}

static bool deep(const generator *g) {
    return g->b.depth > MAX_DEPTH;
}

/* Its lanes part company, unless the predicate is constant. */
static void make_if(generator *g) {
    if (deep(g)) return;
    scope s = enter(g);
    bool constant = chance(g, 20);
    tw_val p = constant ? random_constant(g, TW_T_pred) : pick(g, TW_T_pred);
    g->uniform &= constant;
    const tw_scope if_p = tw_push_if(&g->b, p);
    body(g);
    if (chance(g, 50)) {
        tw_push_else(&g->b, if_p);
        body(g);
    }
    tw_pop(&g->b, if_p);
    leave(g, &s);
}

static void make_for(generator *g) {
    if (deep(g)) return;
    scope s = enter(g);
    bool narrow = chance(g, 80), constant = g->uniform || chance(g, 50);
    int from = below(g, 5) - 2, step = 1 + below(g, 3);
    tw_val x = narrow ? i32(g, from) : tw_i64(&g->b, from), end;
    if (constant)
        end = narrow ? i32(g, from + below(g, 4)) : tw_i64(&g->b, from + below(g, 4));
    else if (narrow)
        end = tw_and(&g->b, pick(g, TW_T_i32), i32(g, 3));
    else
        end = tw_and(&g->b, pick(g, TW_T_i64), tw_i64(&g->b, 3));
    tw_val by = narrow ? i32(g, step) : tw_i64(&g->b, step);
    const tw_scope loop = tw_push_for(&g->b, x, end, by, chance(g, 50));
    add_value(g, loop.i);
    body(g);
    tw_pop(&g->b, loop);
    leave(g, &s);
}

/* Counts down, so that it ends. */
static void make_while(generator *g) {
    if (deep(g)) return;
    scope s = enter(g);
    bool constant = chance(g, 50);
    tw_val count = tw_var_of(&g->b, constant ? i32(g, below(g, 3)) : tw_and(&g->b, pick(g, TW_T_i32), i32(g, 3)));
    g->uniform &= constant;
    const tw_scope poll = tw_push_while(&g->b);
    tw_val p = tw_lt(&g->b, i32(g, 0), count);
    tw_push_while_body(&g->b, poll, p);
    body(g);
    tw_op_to(&g->b, count, TW_OP_sub_i32, count, i32(g, 1), TW_NONE);
    tw_pop(&g->b, poll);
    leave(g, &s);
}

static void make_roles(generator *g) {
    if (deep(g) || g->k->threads < 128) return;
    scope s = enter(g);
    g->uniform = false;
    const tw_scope roles = tw_push_roles(&g->b, (int[]){0, 1, 2, 4}, 2);
    body(g);
    tw_next_role(&g->b, roles);
    body(g);
    tw_pop(&g->b, roles);
    leave(g, &s);
}

static void make_exit(generator *g) {
    if (g->o->runnable || chance(g, 80)) return;
    tw_when(&g->b, pick(g, TW_T_pred));
    tw_do(&g->b, TW_OP_exit, (tw_attrs){0}, TW_NONE, TW_NONE);
}

static void make_trap(generator *g) {
    if (g->o->runnable || chance(g, 80)) return;
    tw_when(&g->b, pick(g, TW_T_pred));
    tw_do(&g->b, TW_OP_trap, (tw_attrs){0}, TW_NONE, TW_NONE);
}

static void make_nanosleep(generator *g) {
    emit0(g, TW_OP_nanosleep, (tw_attrs){0}, (tw_val[]){i32(g, 20)}, 1);
}

static void make_record_begin(generator *g) {
    const char *name = chance(g, 50) ? "main loop" : "epilogue \"x\"\\";
    const int engine = below(g, TW_ENGINES_OF);
    if (chance(g, 30))
        tw_record_wait(&g->b, name, engine, below(g, 4));
    else if (chance(g, 20))
        tw_record_meet(&g->b, name);
    else
        tw_record_begin(&g->b, name, engine);
}

static void make_record_end(generator *g) {
    tw_record_begin(&g->b, "main loop", TW_ENGINE_OF_tensor);
    tw_record_end(&g->b, "main loop");
}

static void make_record_mark(generator *g) {
    if (chance(g, 30)) tw_when(&g->b, pick(g, TW_T_pred));
    tw_record_arrive(&g->b, "channel", below(g, TW_ARRIVALS), below(g, TW_ENGINES_OF));
}

static void make_record_value(generator *g) {
    tw_record_value(&g->b, "value", pick(g, TW_T_i32));
}

typedef void maker(generator *g);
static maker *const makers[TW_OPCODES] = {
#define MOP(name, ...) [TW_OP_##name] = make_##name,
#include "ir/ops.def"
#undef MOP
};

static void make_some(generator *g, int operations) {
    for (; operations > 0 && g->left > 0 && !tw_kernel_failed(g->k); operations--) {
        tw_opcode code = (tw_opcode)below(g, TW_OPCODES);
        g->left--;
        if (!makers[code])
            scalar(g, code);
        else if (makers[code] != make_exit || g->b.depth > 1)
            makers[code](g);
    }
}

static void declare(generator *g) {
    g->in = tw_pointer_add(&g->b, "in", 256, g->o->runnable);
    g->out = tw_pointer_add(&g->b, "out", 16, false);
    add_value(g, tw_parameter_add(&g->b, "n", TW_T_i32));
    add_value(g, tw_parameter_add(&g->b, "x", TW_T_f32));
    if (has(g, 90) && !g->o->runnable) g->map = tw_map_add(&g->b, "map");
    tw_shared_add(&g->b, "still", 2048, 16, false);
    tw_shared_add(&g->b, "stages", 2048, 128, true);
    tw_val thread =
        tw_fma(&g->b, tw_sreg(&g->b, TW_SREG_ctaid_x), tw_sreg(&g->b, TW_SREG_ntid_x), tw_sreg(&g->b, TW_SREG_tid_x));
    add_value(g, thread);
    g->own = tw_op_emit(&g->b, TW_OP_mad_wide_u32, thread, i32(g, RANDOM_OUT_BYTES), g->out);
}

tw_kernel *random_kernel(const random_kernel_options *o) {
    static const int targets[] = {80, 89, 90, 100, 120}, threads[] = {32, 64, 128, 256};
    generator g = {.r = tw_random_seed(o->seed), .o = o, .left = o->operations ? o->operations : 100, .uniform = true};
    g.k = tw_kernel_new("random", o->target ? o->target : targets[below(&g, 5)], threads[below(&g, 4)]);
    if (!g.k) return NULL;
    g.b = tw_builder_of(g.k);
    if (chance(&g, 30)) g.k->max_registers = 128;
    if (chance(&g, 30)) g.k->min_blocks = 2;
    declare(&g);
    make_some(&g, g.left);
    for (int t = 0; t < TW_T_COUNT && o->runnable; t++)
        for (int i = 0; i < g.n_values[t] && i < 8; i++) store_result(&g, g.values[t][i]);
    if (tw_kernel_failed(g.k)) {
        tw_kernel_free(g.k);
        return NULL;
    }
    return g.k;
}
