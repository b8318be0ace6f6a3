/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/value.h"

#include <stdlib.h>

static const struct {
    const char *name;
    int bits;
    const char *ptx;
} types[] = {
#define TYPE(name, bits, ptx) {#name, bits, ptx},
#include "ir/types.def"
#undef TYPE
};

const char *tw_type_name(tw_type t) {
    return t >= 0 && t < TW_T_COUNT ? types[t].name : "?";
}

int tw_type_bits(tw_type t) {
    return types[t].bits;
}

const char *tw_type_ptx(tw_type t) {
    return types[t].ptx;
}

bool tw_type_is_float(tw_type t) {
    return t >= TW_T_f16;
}

tw_type tw_type_register(tw_type t) {
    return t == TW_T_i8 ? TW_T_i32 : t;
}

/* The flags of a row are written as bare names. */
enum {
    COMMUTES = TW_F_COMMUTES,
    APPROX = TW_F_APPROX,
    PURE = TW_F_PURE,
    READS = TW_F_READS,
    WRITES = TW_F_WRITES,
    GUARD = TW_F_GUARD,
    SYNC = TW_F_SYNC,
    BLOCKS = TW_F_BLOCKS
};

static const tw_op_info ops[] = {
#define OP(name, r, a, b, c, flags, sm, ptx, value)                                                                    \
    {#name,                                                                                                            \
     true,                                                                                                             \
     (tw_type)TW_VIEW_##r,                                                                                             \
     {(tw_type)TW_VIEW_##a, (tw_type)TW_VIEW_##b, (tw_type)TW_VIEW_##c},                                               \
     (TW_VIEW_##a != 0) + (TW_VIEW_##b != 0) + (TW_VIEW_##c != 0),                                                     \
     "",                                                                                                               \
     "",                                                                                                               \
     "",                                                                                                               \
     (flags) | PURE,                                                                                                   \
     sm,                                                                                                               \
     ptx},
#define MOP(name, results, operands, attrs, flags, sm)                                                                 \
    {#name, false, TW_T_none, {TW_T_none, TW_T_none, TW_T_none}, 0, results, operands, attrs, flags, sm, ""},
#include "ir/ops.def"
#undef OP
#undef MOP
};

const tw_op_info *tw_op_describe(tw_opcode code) {
    return &ops[code];
}

int tw_opcode_from_name(const char *name) {
    for (int i = 0; i < TW_OPCODES; i++)
        if (!strcmp(ops[i].name, name)) return i;
    return -1;
}

bool tw_op_allows(tw_opcode code, int attr) {
    const char *at = ops[code].attrs;
    while (*at) {
        const char *name = tw_attr_name(attr);
        while (*name && *name == *at) name++, at++;
        if (!*name && (!*at || *at == ' ')) return true;
        while (*at && *at++ != ' ') {
        }
    }
    return false;
}

static const tw_mma_info mmas[] = {
    {"none", 0, 0, 0, TW_T_none, 0, 0, TW_T_none, 0, "", 0},
#define MMA(name, m, n, k, ab, a, b, cd, c, ptx, sm) {#name, m, n, k, TW_T_##ab, a, b, TW_T_##cd, c, ptx, sm},
#include "ir/mma.def"
#undef MMA
};

const tw_mma_info *tw_mma_describe(tw_mma_kind kind) {
    return &mmas[kind];
}

static const tw_wgmma_info wgmmas[] = {
    {"none", TW_WGMMA_OF_none, TW_WGMMA_OF_none, 0, TW_T_none, ""},
#define WGMMA(name, a, b, k, d, ptx) {#name, TW_WGMMA_OF_##a, TW_WGMMA_OF_##b, k, TW_T_##d, ptx},
#include "ir/wgmma.def"
#undef WGMMA
};

const tw_wgmma_info *tw_wgmma_describe(tw_wgmma_kind kind) {
    return &wgmmas[kind];
}

int tw_wgmma_registers(tw_wgmma_kind kind, int columns) {
    return wgmmas[kind].d == TW_T_f16x2 ? columns / 4 : columns / 2;
}

typedef struct named {
    const char *name, *ptx;
} named;
#define SPACE(name, ptx) {#name, ptx},
static const named spaces[] = {
#include "ir/attrs.def"
};
#define CACHE(name, ptx) {#name, ptx},
static const named caches[] = {
#include "ir/attrs.def"
};
#define ORDER(name, ptx) {#name, ptx},
static const named orders[] = {
#include "ir/attrs.def"
};
#define SCOPE(name, ptx) {#name, ptx},
static const named scopes[] = {
#include "ir/attrs.def"
};
#define RMW(name, ptx) {#name, ptx},
static const named rmws[] = {
#include "ir/attrs.def"
};
#define MODE(name, ptx) {#name, ptx},
static const named modes[] = {
#include "ir/attrs.def"
};
#define SREG(name, ptx) {#name, ptx},
static const named sregs[] = {
#include "ir/attrs.def"
};
#define LEVEL(name, ptx) {#name, ptx},
static const named levels[] = {
#include "ir/attrs.def"
};
#define PROXY(name, ptx) {#name, ptx},
static const named proxies[] = {
#include "ir/attrs.def"
};
#define ENGINE(name, ptx) {#name, ptx},
static const named engines[] = {
#include "ir/attrs.def"
};
#define WAIT(name, ptx) {#name, ptx},
static const named waits[] = {
#include "ir/attrs.def"
};
#define ARRIVAL(name, ptx) {#name, ptx},
static const named arrivals[] = {
#include "ir/attrs.def"
};
static const named type_names[] = {
#define TYPE(name, bits, ptx) {#name, #name},
#include "ir/types.def"
#undef TYPE
};
static const named mma_names[] = {
    {"none", ""},
#define MMA(name, m, n, k, ab, a, b, cd, c, ptx, sm) {#name, ptx},
#include "ir/mma.def"
#undef MMA
};
static const named wgmma_names[] = {
    {"none", ""},
#define WGMMA(name, a, b, k, d, ptx) {#name, ptx},
#include "ir/wgmma.def"
#undef WGMMA
};

static const struct {
    const char *name;
    const named *values; /* NULL: a number */
    int count;
} attrs[] = {
#define COUNT(list)      (int)(sizeof(list) / sizeof *(list))
#define KIND_INT         NULL, 0
#define KIND_TYPE        type_names, COUNT(type_names)
#define KIND_SPACE       spaces, COUNT(spaces)
#define KIND_CACHE       caches, COUNT(caches)
#define KIND_ORDER       orders, COUNT(orders)
#define KIND_SCOPE       scopes, COUNT(scopes)
#define KIND_RMW         rmws, COUNT(rmws)
#define KIND_MODE        modes, COUNT(modes)
#define KIND_SREG        sregs, COUNT(sregs)
#define KIND_LEVEL       levels, COUNT(levels)
#define KIND_PROXY       proxies, COUNT(proxies)
#define KIND_ENGINE      engines, COUNT(engines)
#define KIND_WAIT        waits, COUNT(waits)
#define KIND_ARRIVAL     arrivals, COUNT(arrivals)
#define KIND_MMA         mma_names, COUNT(mma_names)
#define KIND_WGMMA       wgmma_names, COUNT(wgmma_names)
#define ATTR(name, kind) {#name, KIND_##kind},
#include "ir/attrs.def"
};

const char *tw_attr_name(int attr) {
    return attrs[attr].name;
}

const char *tw_attr_value_name(int attr, int32_t value) {
    return attrs[attr].values && value >= 0 && value < attrs[attr].count ? attrs[attr].values[value].name : NULL;
}

const char *tw_attr_value_ptx(int attr, int32_t value) {
    return attrs[attr].values && value >= 0 && value < attrs[attr].count ? attrs[attr].values[value].ptx : NULL;
}

bool tw_attr_value_from_name(int attr, const char *name, int32_t *value) {
    for (int i = 0; i < attrs[attr].count; i++)
        if (!strcmp(attrs[attr].values[i].name, name)) {
            *value = i;
            return true;
        }
    return false;
}

/* tw_attrs is an array of int32_t by construction. */
int32_t tw_attr_get(const tw_attrs *at, int attr) {
    return ((const int32_t *)at)[attr];
}

void tw_attr_set(tw_attrs *at, int attr, int32_t value) {
    ((int32_t *)at)[attr] = value;
}

tw_kernel *tw_kernel_new(const char *name, int target, int threads) {
    tw_kernel *k = calloc(1, sizeof *k);
    if (!k) return NULL;
    k->name = tw_arena_strdup(&k->arena, name);
    k->target = target;
    k->threads = threads;
    k->n_values = 1; /* 0 is none */
    k->room_values = 256;
    k->values = malloc((size_t)k->room_values * sizeof *k->values);
    if (!k->values || !k->name) {
        tw_kernel_free(k);
        return NULL;
    }
    k->values[0] = (tw_ir_value){.type = TW_T_none};
    return k;
}

void tw_kernel_free(tw_kernel *k) {
    if (!k) return;
    free(k->values);
    free(k->parameters);
    free(k->shared);
    tw_arena_free(&k->arena);
    free(k);
}

tw_type tw_value_type(const tw_kernel *k, tw_val v) {
    return k->values[v.id].type;
}

bool tw_value_constant(const tw_kernel *k, tw_val v, uint64_t *bits) {
    if (!v.id || k->values[v.id].kind != TW_V_CONSTANT) return false;
    *bits = k->values[v.id].bits;
    return true;
}

int64_t tw_kernel_shared_layout(tw_kernel *k, int64_t *fixed) {
    int64_t dynamic = 0, still = 0;
    for (int i = 0; i < k->n_shared; i++) {
        tw_shared *s = &k->shared[i];
        int64_t *end = s->dynamic ? &dynamic : &still;
        s->offset = (*end + s->align - 1) / s->align * s->align;
        *end = s->offset + s->bytes;
    }
    if (fixed) *fixed = still;
    return dynamic;
}

const tw_shared *tw_kernel_shared_find(const tw_kernel *k, const char *name) {
    for (int i = 0; i < k->n_shared; i++)
        if (!strcmp(k->shared[i].name, name)) return &k->shared[i];
    return NULL;
}

const tw_ir_op *tw_record_begin_of(const tw_ir_op *end) {
    int ends = 0;
    for (const tw_ir_op *op = end->prev; op; op = op->prev) {
        if (!tw_is_record(op) || strcmp(op->name, end->name) != 0) continue;
        if (op->code == TW_OP_record_end) ends++;
        if (op->code == TW_OP_record_begin && !ends--) return op;
    }
    return NULL;
}
