/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that hold every operation of the table in every form, and random ones. */
#ifndef TW_TEST_PTX_EVERY_H
#define TW_TEST_PTX_EVERY_H

#include "base/random.h"
#include "ir/builder.h"
#include "ir/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A form of an operation that is no scalar one: what is said beside its name, and the least target. */
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

/* What a kernel has to compute with: registers of every type. */
typedef struct pool {
    tw_builder b;
    tw_random *r;               /* NULL: registers alone, in turn */
    tw_val global, shared, map; /* map: none where the target has none */
    tw_val of[TW_T_COUNT][16];
    int n[TW_T_COUNT], turn;
} pool;

static inline tw_val pool_take(pool *p, tw_type t) {
    if (!p->n[t]) t = TW_T_i32; /* no registers are of this type */
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
    for (int t = TW_T_i16; t < TW_T_COUNT; t++)
        for (int i = 0; i < 2; i++) {
            char name[16];
            snprintf(name, sizeof name, "%s_%d", tw_type_name((tw_type)t), i);
            pool_put(&p, (tw_type)t, tw_parameter_add(&p.b, name, (tw_type)t));
        }
    if (k->target >= 90) p.map = tw_map_add(&p.b, "map");
    p.shared = tw_shared_base(&p.b, "second");
    pool_put(&p, TW_T_i32, tw_shared_base(&p.b, "fixed"));
    for (int i = 0; i < 3; i++) pool_put(&p, TW_T_pred, tw_lt(&p.b, p.of[TW_T_i32][i], p.of[TW_T_i32][(i + 1) % 3]));
    return p;
}

static inline void pool_scalar(pool *p, tw_opcode code, bool keep) {
    const tw_op_info *info = tw_op_describe(code);
    tw_val v[3], d = TW_NONE;
    if (info->sm > p->b.kernel->target) return;
    for (int i = 0; i < info->n_operands; i++) v[i] = pool_take(p, info->operand[i]);
    tw_emit(&p->b, code, (tw_attrs){0}, &d, &info->result, 1, v, info->n_operands);
    if (keep) pool_keep(p, info->result, d);
    pool_put(p, info->result, d);
}

/* Operands of one kind are registers of their own, so that exchanging two would show. */
static inline int signature(pool *p, const form *f, const char *letters, bool results, tw_type *types, tw_val *values) {
    const tw_mma_info *m = tw_mma_describe((tw_mma_kind)f->at.mma);
    int n = 0, n_shared = 0, n_numbers = 0;
    for (const char *c = letters; *c; c++) {
        if (f->absent && c[1] == '?') {
            c++;
            continue;
        }
        int count = *c == 'V' || *c == 'M' ? (f->at.vec ? f->at.vec : 1)
                    : *c == 'X'            ? m->a
                    : *c == 'Y'            ? m->b
                    : *c == 'C'            ? m->c
                    : *c == 'N'            ? (f->at.dims ? f->at.dims : 2)
                    : *c == 'O'            ? (f->at.im2col ? f->at.dims - 2 : 0)
                    : *c == '?'            ? 0
                                           : 1;
        tw_type t = *c == 'V' || *c == 'T'   ? tw_type_register((tw_type)f->at.type)
                    : *c == 'p'              ? TW_T_pred
                    : *c == 'l' || *c == 'g' ? TW_T_i64
                    : *c == 'm'              ? TW_T_i64
                    : *c == 'O'              ? TW_T_i16
                    : *c == 'X' || *c == 'Y' ? m->ab
                    : *c == 'C'              ? m->cd
                                             : TW_T_i32;
        if (*c == 'A') t = f->at.space == TW_SPACE_shared || f->at.space == TW_SPACE_cluster ? TW_T_i32 : TW_T_i64;
        if (*c == '.') {
            count = c[1] == '.';
            t = f->code == TW_OP_vote ? (f->at.mode == TW_MODE_ballot ? TW_T_i32 : TW_T_pred) : (tw_type)f->at.type;
        }
        for (int i = 0; i < count; i++, n++) {
            types[n] = t;
            if (!results)
                values[n] = *c == 'g' || (*c == 'A' && t == TW_T_i64) ? p->global
                            : *c == 'A'                               ? p->shared
                            : *c == 'm'                               ? (p->map.id ? p->map : p->of[t][0])
                            : *c == 's'                               ? (n_shared++ ? p->of[t][2] : p->shared)
                            : *c == 'i'                               ? p->of[t][++n_numbers % 2]
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
    if (f->code == TW_OP_set) d[0] = tw_var(b, (tw_type)f->at.type);
    if (guard && info->flags & TW_F_GUARD) {
        b->guard = pool_take(p, TW_T_pred);
        b->guard_not = guard == 2;
    }
    tw_ir_op *op = tw_emit(b, f->code, f->at, d, result_types, n_results, v, n);
    if (op && strstr(info->attrs, "name")) op->name = "second";
    for (int i = 0; i < n_results; i++) {
        if (keep) pool_keep(p, result_types[i], d[i]);
        pool_put(p, result_types[i], d[i]);
    }
}

/* -- which forms there are: whatever the verifier takes */

static inline void forms_add(forms *f, const form *x) {
    if (f->n == f->room) f->of = realloc(f->of, (size_t)(f->room = 2 * f->room + 64) * sizeof *f->of);
    f->of[f->n++] = *x;
}

static inline bool form_is_legal(const form *x, int sm) {
    tw_kernel *k = tw_kernel_new("form", sm, 128);
    pool p = pool_of(k, NULL);
    tw_diag d;
    pool_form(&p, x, 0, false);
    bool ok = tw_kernel_verify(k, sm, &d) == TW_OK;
    tw_kernel_free(k);
    return ok;
}

/* What an attribute is tried with: all of a list, or some numbers. */
static inline int attr_values(int attr, const int32_t **values) {
    static const int32_t vec[] = {1, 2, 4, 8}, bytes[] = {4, 8, 16, 0, 128}, count[] = {0, 1, 5, 64}, flag[] = {0, 1},
                         dims[] = {0, 1, 3, 4, 5}, nobody[] = {0}, offset[] = {64},
                         list[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                   16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    int n = 0;
#define VALUES(of) (*values = (of), (int)(sizeof(of) / sizeof *(of)))
    switch (attr) {
    case TW_ATTR_vec:
        return VALUES(vec);
    case TW_ATTR_bytes:
        return VALUES(bytes);
    case TW_ATTR_count:
        return VALUES(count);
    case TW_ATTR_ranks: /* others need a cluster */
        return VALUES(nobody);
    case TW_ATTR_dims:
        return VALUES(dims);
    case TW_ATTR_im2col:
    case TW_ATTR_trans:
    case TW_ATTR_read:
    case TW_ATTR_unroll:
    case TW_ATTR_apart:
        return VALUES(flag);
    case TW_ATTR_offset:
        return VALUES(offset);
    default:
        *values = list;
        while (n < 32 && tw_attr_value_name(attr, n)) n++;
        return n;
    }
#undef VALUES
}

static inline void forms_try(forms *f, form x, int attr) {
    const int32_t *values;
    for (; attr < TW_ATTRS; attr++) {
        if (!tw_op_allows(x.code, attr)) continue;
        int n = attr_values(attr, &values);
        /* Not every pair: hints with the two plainest orders, scopes where there is an order. */
        if (attr == TW_ATTR_order && (x.at.cache || x.at.vec > 1)) n = TW_ORDER_relaxed + 1;
        if (attr == TW_ATTR_scope && x.at.order == TW_ORDER_weak) n = 1;
        for (int i = 0; i < n; i++) {
            tw_attr_set(&x.at, attr, values[i]);
            forms_try(f, x, attr + 1);
        }
        return;
    }
    bool may = strchr(tw_op_describe(x.code)->operands, '?') && x.code != TW_OP_atom;
    for (int absent = 0; absent <= may; absent++) {
        x.absent = absent;
        if (!form_is_legal(&x, 120)) continue;
        static const int targets[] = {80, 89, 90, 100, 120};
        int i = 0;
        while (!form_is_legal(&x, targets[i])) i++;
        x.sm = targets[i];
        forms_add(f, &x);
    }
}

/* Every form that is legal on the newest target; the caller frees `of`. */
static inline forms every_form(void) {
    forms f = {0};
    for (int c = 0; c < TW_OPCODES; c++) {
        const tw_op_info *info = tw_op_describe((tw_opcode)c);
        if (!info->scalar && !(info->flags & TW_F_BLOCKS) && c != TW_OP_undef)
            forms_try(&f, (form){.code = (tw_opcode)c}, 0);
    }
    return f;
}

#endif
