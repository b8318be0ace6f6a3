/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that hold every operation of the table in every form, and random ones. */
#ifndef TW_TEST_PTX_EVERY_H
#define TW_TEST_PTX_EVERY_H

#include "base/random.h"
#include "ir/builder.h"

#include <stdlib.h>
#include <string.h>

/* A form of an operation that is no scalar one: what must be said beside its name, and the least target. */
typedef struct form {
    tw_opcode code;
    tw_attrs at;
    int sm;
    bool absent; /* the operand that may be */
} form;
typedef struct forms {
    form *of;
    int n, room;
} forms;

static inline void add_form(forms *f, tw_opcode code, tw_attrs at, int sm) {
    if (f->n + 2 > f->room) f->of = realloc(f->of, (size_t)(f->room = 2 * f->room + 64) * sizeof *f->of);
    int least = tw_op_describe(code)->sm;
    f->of[f->n++] = (form){code, at, sm > least ? sm : least, false};
    if (strchr(tw_op_describe(code)->operands, '?') && !(code == TW_OP_atom)) {
        f->of[f->n] = f->of[f->n - 1];
        f->of[f->n++].absent = true;
    }
}

static inline void add_accesses(forms *f) {
    static const tw_type types[] = {TW_T_i8,   TW_T_i16,   TW_T_i32,    TW_T_i64, TW_T_f16,
                                    TW_T_bf16, TW_T_f16x2, TW_T_bf16x2, TW_T_f32, TW_T_f64};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int vec = 1; vec <= 8; vec *= 2)
            for (int space = TW_SPACE_global; space <= TW_SPACE_shared; space++) {
                int bits = vec * tw_type_bits(types[t]), sm = bits > 128 ? 100 : 80;
                if (bits > 256 || (bits == 256 && space != TW_SPACE_global)) continue;
                for (int cache = 0; cache < TW_CACHES; cache++) {
                    tw_attrs at = {.type = types[t], .vec = vec, .space = space, .cache = cache, .offset = 32 * cache};
                    add_form(f, TW_OP_ld, at, sm);
                    if (cache != TW_CACHE_nc) add_form(f, TW_OP_st, at, sm);
                }
            }
    for (int space = TW_SPACE_global; space <= TW_SPACE_shared; space++)
        for (int order = 0; order < TW_ORDERS; order++)
            for (int scope = 0; scope < TW_SCOPES; scope++)
                for (int vec = 1; vec <= 2; vec++) {
                    tw_attrs at = {.type = TW_T_i32, .order = order, .scope = scope, .space = space, .vec = vec};
                    bool scoped = order != TW_ORDER_weak && order != TW_ORDER_volatile;
                    int sm = scoped && scope == TW_SCOPE_cluster ? 90 : 80;
                    if (order != TW_ORDER_release && order != TW_ORDER_acq_rel) add_form(f, TW_OP_ld, at, sm);
                    if (order != TW_ORDER_acquire && order != TW_ORDER_acq_rel) add_form(f, TW_OP_st, at, sm);
                }
    for (int cache = 0; cache < TW_CACHES; cache++) {
        tw_attrs at = {.type = TW_T_f32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_gpu, .cache = cache};
        add_form(f, TW_OP_ld, at, 80);
        if (cache != TW_CACHE_nc) add_form(f, TW_OP_st, at, 80);
    }
}

static inline int rmw_sm(int rmw, tw_type t) {
    bool integer = t == TW_T_i32 || t == TW_T_i64;
    switch (rmw) {
    case TW_RMW_add:
        return t == TW_T_bf16 || t == TW_T_bf16x2 ? 90 : integer || tw_type_is_float(t) ? 80 : 0;
    case TW_RMW_exch:
        return tw_type_bits(t) >= 32 ? 80 : 0;
    case TW_RMW_cas:
        return tw_type_bits(t) >= 16 ? 80 : 0;
    case TW_RMW_inc:
    case TW_RMW_dec:
        return t == TW_T_i32 ? 80 : 0;
    default:
        return integer ? 80 : 0;
    }
}

static inline void add_atomics(forms *f) {
    for (int rmw = 0; rmw < TW_RMWS; rmw++)
        for (int t = TW_T_i8; t < TW_T_COUNT; t++)
            for (int space = TW_SPACE_global; space <= TW_SPACE_shared; space++) {
                int sm = rmw_sm(rmw, (tw_type)t);
                tw_attrs at = {.type = t, .rmw = rmw, .space = space, .offset = 16};
                if (!sm) continue;
                add_form(f, TW_OP_atom, at, sm);
                if (rmw != TW_RMW_exch && rmw != TW_RMW_cas) add_form(f, TW_OP_red, at, sm);
            }
    for (int order = 0; order < TW_ORDERS; order++)
        for (int scope = 0; scope < TW_SCOPES; scope++) {
            tw_attrs at = {.type = TW_T_i32, .order = order, .scope = scope};
            int sm = scope == TW_SCOPE_cluster ? 90 : 80;
            if (order != TW_ORDER_volatile) add_form(f, TW_OP_atom, at, sm);
            if (order != TW_ORDER_volatile && order != TW_ORDER_acquire && order != TW_ORDER_acq_rel)
                add_form(f, TW_OP_red, at, sm);
        }
    for (int vec = 2; vec <= 8; vec *= 2) {
        static const tw_type types[] = {TW_T_f32, TW_T_f16, TW_T_bf16, TW_T_f16x2, TW_T_bf16x2};
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            if (vec * tw_type_bits(types[t]) <= 128)
                add_form(f, TW_OP_red, (tw_attrs){.type = types[t], .vec = vec, .scope = TW_SCOPE_gpu}, 90);
    }
}

static inline void add_copies(forms *f) {
    for (int bytes = 4; bytes <= 16; bytes *= 2)
        for (int cache = 0; cache < TW_CACHES; cache++)
            if (cache != TW_CACHE_nc)
                add_form(f, TW_OP_cp_async, (tw_attrs){.bytes = bytes, .cache = cache, .offset = bytes}, 80);
    add_form(f, TW_OP_cp_async_commit, (tw_attrs){0}, 80);
    add_form(f, TW_OP_cp_async_wait, (tw_attrs){.count = 2}, 80);
    add_form(f, TW_OP_cp_async_arrive, (tw_attrs){0}, 80);
    add_form(f, TW_OP_prefetch, (tw_attrs){.offset = 128}, 80);
    add_form(f, TW_OP_bulk_load, (tw_attrs){0}, 90);
    add_form(f, TW_OP_bulk_store, (tw_attrs){0}, 90);
    add_form(f, TW_OP_bulk_commit, (tw_attrs){0}, 90);
    add_form(f, TW_OP_bulk_wait, (tw_attrs){.count = 1}, 90);
    add_form(f, TW_OP_bulk_wait, (tw_attrs){.read = 1}, 90);
    add_form(f, TW_OP_bulk_prefetch, (tw_attrs){0}, 90);
    for (int cache = 0; cache < TW_CACHES; cache++) add_form(f, TW_OP_policy, (tw_attrs){.cache = cache}, 80);
}

static inline void add_barriers(forms *f) {
    for (int scope = 0; scope < TW_SCOPES; scope++)
        for (int order = TW_ORDER_acq_rel; order <= TW_ORDER_sc; order++)
            add_form(f, TW_OP_fence, (tw_attrs){.order = order, .scope = scope}, scope == TW_SCOPE_cluster ? 90 : 80);
    for (int proxy = TW_PROXY_async_shared; proxy < TW_PROXIES; proxy++)
        add_form(f, TW_OP_fence_proxy, (tw_attrs){.proxy = proxy}, 90);
    add_form(f, TW_OP_fence_mbarrier_init, (tw_attrs){0}, 90);
    add_form(f, TW_OP_barrier, (tw_attrs){0}, 80);
    add_form(f, TW_OP_barrier_sync, (tw_attrs){.count = 64}, 80);
    add_form(f, TW_OP_barrier_arrive, (tw_attrs){.count = 64}, 80);
    add_form(f, TW_OP_warp_sync, (tw_attrs){0}, 80);
    add_form(f, TW_OP_mbarrier_init, (tw_attrs){0}, 80);
    add_form(f, TW_OP_mbarrier_inval, (tw_attrs){0}, 80);
    add_form(f, TW_OP_mbarrier_arrive, (tw_attrs){0}, 80);
    add_form(f, TW_OP_mbarrier_arrive, (tw_attrs){.count = 4}, 90);
    add_form(f, TW_OP_mbarrier_expect, (tw_attrs){0}, 90);
    add_form(f, TW_OP_mbarrier_test, (tw_attrs){0}, 80);
    add_form(f, TW_OP_mbarrier_wait, (tw_attrs){0}, 80);
}

static inline void add_warp(forms *f) {
    for (int t = TW_T_pred; t < TW_T_COUNT; t++) {
        if (t == TW_T_i8) continue;
        for (int mode = TW_MODE_idx; mode <= TW_MODE_bfly; mode++)
            add_form(f, TW_OP_shfl, (tw_attrs){.mode = mode, .type = t}, 80);
        add_form(f, TW_OP_set, (tw_attrs){.type = t}, 80);
        add_form(f, TW_OP_select, (tw_attrs){.type = t}, 80);
        add_form(f, TW_OP_bitcast, (tw_attrs){.type = t}, 80);
    }
    for (int mode = TW_MODE_any; mode <= TW_MODE_ballot; mode++) add_form(f, TW_OP_vote, (tw_attrs){.mode = mode}, 80);
    for (int vec = 1; vec <= 4; vec *= 2)
        for (int trans = 0; trans < 2; trans++) {
            add_form(f, TW_OP_ldmatrix, (tw_attrs){.vec = vec, .trans = trans, .offset = 64}, 80);
            add_form(f, TW_OP_stmatrix, (tw_attrs){.vec = vec, .trans = trans, .offset = 64}, 90);
        }
    for (int kind = 1; kind < TW_MMAS; kind++)
        add_form(f, TW_OP_mma, (tw_attrs){.mma = kind}, tw_mma_describe((tw_mma_kind)kind)->sm);
    for (int sreg = 0; sreg < TW_SREGS; sreg++)
        add_form(f, TW_OP_sreg, (tw_attrs){.sreg = sreg, .type = sreg >= TW_SREG_clock64 ? TW_T_i64 : TW_T_i32}, 80);
    add_form(f, TW_OP_nanosleep, (tw_attrs){0}, 80);
    add_form(f, TW_OP_exit, (tw_attrs){0}, 80);
    add_form(f, TW_OP_trap, (tw_attrs){0}, 80);
}

/* The caller frees `of`. */
static inline forms every_form(void) {
    forms f = {0};
    add_accesses(&f);
    add_atomics(&f);
    add_copies(&f);
    add_barriers(&f);
    add_warp(&f);
    return f;
}

/* -- kernels of them */

/* What a kernel has to compute with: registers of every type. */
typedef struct pool {
    tw_builder b;
    tw_random *r; /* NULL: registers alone, in turn */
    tw_val global, shared;
    tw_val of[TW_T_COUNT][16];
    int n[TW_T_COUNT], turn;
} pool;

static inline tw_val pool_take(pool *p, tw_type t) {
    if (p->r && t != TW_T_pred && tw_random_below(p->r, 6) == 0)
        return tw_const(&p->b, t, tw_random_u64(p->r) >> tw_random_below(p->r, 64));
    return p->of[t][p->r ? (int)tw_random_below(p->r, (uint64_t)p->n[t]) : p->turn++ % p->n[t]];
}

static inline void pool_put(pool *p, tw_type t, tw_val v) {
    if (p->n[t] < 16)
        p->of[t][p->n[t]++] = v;
    else
        p->of[t][p->r ? tw_random_below(p->r, 16) : 15] = v;
}

/* Stores it, so that nothing which computed it is dead. */
static inline void pool_keep(pool *p, tw_type t, tw_val v) {
    if (t == TW_T_pred) {
        v = tw_select(&p->b, v, tw_i32(&p->b, 1), tw_i32(&p->b, 2));
        t = TW_T_i32;
    }
    tw_st(&p->b, (tw_attrs){.type = t, .order = TW_ORDER_volatile}, p->global, &v);
}

static inline pool pool_of(tw_kernel *k, tw_random *r) {
    pool p = {.b = tw_builder_of(k), .r = r};
    p.global = tw_pointer_add(&p.b, "out", 16, false);
    tw_shared_add(&p.b, "fixed", 1024, 16, false);
    tw_shared_add(&p.b, "first", 100, 4, true);
    tw_shared_add(&p.b, "second", 4096, 128, true);
    for (int t = TW_T_i16; t < TW_T_COUNT; t++) pool_put(&p, (tw_type)t, tw_parameter_add(&p.b, "x", (tw_type)t));
    p.shared = tw_shared_base(&p.b, "second");
    pool_put(&p, TW_T_i32, tw_shared_base(&p.b, "fixed"));
    for (int t = TW_T_i16; t < TW_T_COUNT; t++)
        for (int i = 0; i < 2; i++)
            pool_put(&p, (tw_type)t, tw_ld(&p.b, (tw_attrs){.type = t, .offset = 64 * t + 8 * i}, p.global));
    for (int i = 0; i < 3; i++) pool_put(&p, TW_T_pred, tw_lt(&p.b, p.of[TW_T_i32][i], p.of[TW_T_i32][(i + 1) % 3]));
    return p;
}

static inline void pool_scalar(pool *p, tw_opcode code, bool keep) {
    const tw_op_info *info = tw_op_describe(code);
    tw_val v[3], d = TW_NONE;
    for (int i = 0; i < info->n_operands; i++) v[i] = pool_take(p, info->operand[i]);
    tw_emit(&p->b, code, (tw_attrs){0}, &d, &info->result, 1, v, info->n_operands);
    if (keep) pool_keep(p, info->result, d);
    pool_put(p, info->result, d);
}

static inline int signature(pool *p, const form *f, const char *letters, bool results, tw_type *types, tw_val *values) {
    const tw_mma_info *m = tw_mma_describe((tw_mma_kind)f->at.mma);
    int n = 0;
    for (const char *c = letters; *c; c++) {
        if (f->absent && c[1] == '?') {
            c++;
            continue;
        }
        int count = *c == 'V' || *c == 'M' ? (f->at.vec ? f->at.vec : 1)
                    : *c == 'X'            ? m->a
                    : *c == 'Y'            ? m->b
                    : *c == 'C'            ? m->c
                    : *c == '?'            ? 0
                                           : 1;
        tw_type t = *c == 'V' || *c == 'T'   ? tw_type_register((tw_type)f->at.type)
                    : *c == 'p'              ? TW_T_pred
                    : *c == 'l' || *c == 'g' ? TW_T_i64
                    : *c == 'X' || *c == 'Y' ? m->ab
                    : *c == 'C'              ? m->cd
                                             : TW_T_i32;
        if (*c == 'A') t = f->at.space == TW_SPACE_shared ? TW_T_i32 : TW_T_i64;
        if (*c == '.') {
            count = c[1] == '.';
            t = f->code == TW_OP_vote ? (f->at.mode == TW_MODE_ballot ? TW_T_i32 : TW_T_pred) : (tw_type)f->at.type;
        }
        for (int i = 0; i < count; i++, n++) {
            types[n] = t;
            if (!results)
                values[n] = *c == 'g' || (*c == 'A' && t == TW_T_i64) ? p->global
                            : *c == 's' || *c == 'A'                  ? p->shared
                                                                      : pool_take(p, t);
        }
    }
    return n;
}

/* `guard`: 0 none, 1 and 2 by a predicate and its negation, where the operation allows one. */
static inline void pool_form(pool *p, const form *f, int guard, bool keep) {
    const tw_op_info *info = tw_op_describe(f->code);
    tw_type types[32], result_types[32];
    tw_val v[32] = {{0}}, d[32] = {{0}};
    tw_builder *b = &p->b;
    int n_results = signature(p, f, info->results, true, result_types, d);
    int n = signature(p, f, info->operands, false, types, v);
    if (f->code == TW_OP_atom && f->at.rmw != TW_RMW_cas) n = 2;
    if (f->code == TW_OP_barrier_sync || f->code == TW_OP_barrier_arrive) v[0] = tw_i32(b, 3);
    if (guard && info->flags & TW_F_GUARD) {
        b->guard = pool_take(p, TW_T_pred);
        b->guard_not = guard == 2;
    }
    tw_emit(b, f->code, f->at, d, result_types, n_results, v, n);
    for (int i = 0; i < n_results; i++) {
        if (keep) pool_keep(p, result_types[i], d[i]);
        pool_put(p, result_types[i], d[i]);
    }
}

#endif
