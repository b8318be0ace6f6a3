/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel IR: a kernel is a tree of blocks of operations on typed virtual registers.

   A register is assigned by one operation, and may be used after it in its block and in every block inside; or it is a
   variable, which `undef` or `set` declares and any operation of that scope may assign again by naming it as a result.
   Registers belong to a lane, predicates too. Control flow is structured: `if`, `for`, `while` and `roles` hold blocks.
   Constants, parameters and shared objects are values that no operation makes.

   Everything lives in the kernel's arena, whose failure sticks: test tw_kernel_failed once at the end of building. */
#ifndef TW_IR_IR_H
#define TW_IR_IR_H

#include "base/arena.h"
#include "tilewright/base.h"

typedef enum tw_type {
#define TYPE(name, bits, ptx) TW_T_##name,
#include "ir/types.def"
#undef TYPE
    TW_T_COUNT
} tw_type;

typedef enum tw_opcode {
#define OP(name, ...)  TW_OP_##name,
#define MOP(name, ...) TW_OP_##name,
#include "ir/ops.def"
#undef OP
#undef MOP
    TW_OPCODES
} tw_opcode;

typedef enum tw_op_flags {
    TW_F_0 = 0,
    TW_F_COMMUTES = 1,
    TW_F_APPROX = 2,
    TW_F_PURE = 4,
    TW_F_READS = 8,
    TW_F_WRITES = 16,
    TW_F_GUARD = 32,
    TW_F_SYNC = 64,
    TW_F_BLOCKS = 128
} tw_op_flags;

#define SPACE(name, ptx) TW_SPACE_##name,
enum {
#include "ir/attrs.def"
    TW_SPACES
};
#define CACHE(name, ptx) TW_CACHE_##name,
enum {
#include "ir/attrs.def"
    TW_CACHES
};
#define ORDER(name, ptx) TW_ORDER_##name,
enum {
#include "ir/attrs.def"
    TW_ORDERS
};
#define SCOPE(name, ptx) TW_SCOPE_##name,
enum {
#include "ir/attrs.def"
    TW_SCOPES
};
#define RMW(name, ptx) TW_RMW_##name,
enum {
#include "ir/attrs.def"
    TW_RMWS
};
#define MODE(name, ptx) TW_MODE_##name,
enum {
#include "ir/attrs.def"
    TW_MODES
};
#define SREG(name, ptx) TW_SREG_##name,
enum {
#include "ir/attrs.def"
    TW_SREGS
};
#define LEVEL(name, ptx) TW_LEVEL_##name,
enum {
#include "ir/attrs.def"
    TW_LEVELS
};
#define PROXY(name, ptx) TW_PROXY_##name,
enum {
#include "ir/attrs.def"
    TW_PROXIES
};
#define ENGINE(name, ptx) TW_ENGINE_OF_##name,
enum {
#include "ir/attrs.def"
    TW_ENGINES_OF
};
#define WAIT(name, ptx) TW_WAIT_##name,
enum {
#include "ir/attrs.def"
    TW_WAITS
};
#define ARRIVAL(name, ptx) TW_ARRIVAL_##name,
enum {
#include "ir/attrs.def"
    TW_ARRIVALS
};

/* tw_mma_kind 0 is no shape, so that a forgotten one shows. */
typedef enum tw_mma_kind {
    TW_MMA_none,
#define MMA(name, ...) TW_MMA_##name,
#include "ir/mma.def"
#undef MMA
    TW_MMAS
} tw_mma_kind;

typedef enum tw_wgmma_kind {
    TW_WGMMA_none,
#define WGMMA(name, ...) TW_WGMMA_##name,
#include "ir/wgmma.def"
#undef WGMMA
    TW_WGMMAS
} tw_wgmma_kind;

/* Attributes of an operation; designated initialisers make the defaults disappear. */
typedef struct tw_attrs {
#define ATTR(name, kind) int32_t name;
#include "ir/attrs.def"
} tw_attrs;

enum {
#define ATTR(name, kind) TW_ATTR_##name,
#include "ir/attrs.def"
    TW_ATTRS
};

/* A value: an index into the kernel's table. 0 is none. */
typedef struct tw_val {
    int id;
} tw_val;
#define TW_NONE ((tw_val){0})

typedef enum tw_value_kind { TW_V_REGISTER, TW_V_VARIABLE, TW_V_CONSTANT, TW_V_PARAMETER } tw_value_kind;

typedef struct tw_ir_value {
    tw_value_kind kind;
    tw_type type;
    uint64_t bits;    /* a constant's, zero-extended; a parameter's index */
    const char *name; /* for readers; NULL when nobody gave one */
} tw_ir_value;

typedef struct tw_block {
    struct tw_ir_op *first, *last;
    struct tw_ir_op *owner; /* NULL for a kernel's body */
} tw_block;

typedef struct tw_ir_op {
    uint16_t code; /* tw_opcode */
    uint16_t n_results, n_operands, n_blocks;
    bool guard_not; /* the guard is negated */
    tw_val guard;   /* none: always */
    tw_attrs at;
    const char *name; /* shared_address: the object; records: the region, channel or mark */
    tw_val *results, *operands;
    tw_block *blocks; /* n_blocks of them */
    tw_block *block;  /* that holds this */
    struct tw_ir_op *prev, *next;
} tw_ir_op;

static inline bool tw_is_record(const tw_ir_op *op) {
    return op->code == TW_OP_record_begin || op->code == TW_OP_record_end || op->code == TW_OP_record_mark ||
           op->code == TW_OP_record_value;
}
/* The record_begin of a region's record_end: the last one of its name before it in its block that has no end yet. NULL:
   there is none. */
const tw_ir_op *tw_record_begin_of(const tw_ir_op *end);

typedef struct tw_parameter {
    const char *name;
    tw_type type;
    bool pointer;   /* an i64 that points into global memory */
    bool read_only; /* a pointer: nobody writes there during the launch */
    bool map;       /* a tensor map by value, 128 bytes (device/tensor_map.h); the i64 is its address */
    int align;      /* a pointer: bytes it is known to be a multiple of */
    tw_val value;
} tw_parameter;

/* A named object of a block's shared memory. Static ones come to 48 KiB at most; dynamic ones are laid out in order,
   each at its alignment, behind one another (tw_kernel_shared_layout). */
typedef struct tw_shared {
    const char *name;
    int64_t bytes;
    int align;
    bool dynamic;
    int64_t offset; /* a dynamic one's, from tw_kernel_shared_layout */
} tw_shared;

typedef struct tw_kernel {
    tw_arena arena;
    const char *name;
    int target;        /* least compute capability it is meant for: 80, 89, 90, 100, 120 */
    int threads;       /* of a block, in x */
    int min_blocks;    /* resident on an SM, a hint for registers; 0: none */
    int max_registers; /* 0: as the compiler likes */
    int cluster;       /* blocks; 0 or 1: none */
    bool cooperative;  /* needs all its blocks resident at once */
    tw_ir_value *values;
    int n_values, room_values;
    tw_parameter *parameters;
    int n_parameters, room_parameters;
    tw_shared *shared;
    int n_shared, room_shared;
    tw_block body;
} tw_kernel;

/* Facts of the table. */
const char *tw_type_name(tw_type t);
int tw_type_bits(tw_type t);
bool tw_type_is_float(tw_type t);   /* f16, bf16, their pairs, f32, f64 */
const char *tw_type_ptx(tw_type t); /* register class */
/* The type of the register that holds an element of `t`: i32 for i8, else `t`. */
tw_type tw_type_register(tw_type t);

typedef struct tw_op_info {
    const char *name;
    bool scalar; /* an OP row: types below, else signatures */
    tw_type result, operand[3];
    int n_operands;
    const char *results, *operands, *attrs; /* a MOP row's */
    int flags, sm;
    const char *ptx; /* an OP row's */
} tw_op_info;
const tw_op_info *tw_op_describe(tw_opcode code);
int tw_opcode_from_name(const char *name);   /* -1 when unknown */
bool tw_op_allows(tw_opcode code, int attr); /* attr: TW_ATTR_* */

typedef struct tw_mma_info {
    const char *name;
    int m, n, k;
    tw_type ab; /* of the registers of A and B */
    int a, b;   /* how many */
    tw_type cd;
    int c;
    const char *ptx;
    int sm;
} tw_mma_info;
const tw_mma_info *tw_mma_describe(tw_mma_kind kind);

/* Element types of A and B. */
typedef enum tw_wgmma_element {
    TW_WGMMA_OF_none,
    TW_WGMMA_OF_f16,
    TW_WGMMA_OF_bf16,
    TW_WGMMA_OF_tf32,
    TW_WGMMA_OF_e4m3,
    TW_WGMMA_OF_e5m2,
    TW_WGMMA_OF_s8,
    TW_WGMMA_OF_u8
} tw_wgmma_element;
typedef struct tw_wgmma_info {
    const char *name;
    tw_wgmma_element a, b;
    int k; /* Elements along k, each of 32 / k bytes. */
    tw_type d;
    const char *ptx;
} tw_wgmma_info;
enum { TW_WGMMA_ROWS = 64, TW_WGMMA_COLUMNS = 256 /* at most */ };
const tw_wgmma_info *tw_wgmma_describe(tw_wgmma_kind kind);
int tw_wgmma_registers(tw_wgmma_kind kind, int columns); /* Registers per thread of the accumulators. */

/* An attribute by number: its name, and the names of its values (NULL for INT). */
const char *tw_attr_name(int attr);
const char *tw_attr_value_name(int attr, int32_t value); /* NULL for a number, or out of range */
const char *tw_attr_value_ptx(int attr, int32_t value);
bool tw_attr_value_from_name(int attr, const char *name, int32_t *value);
int32_t tw_attr_get(const tw_attrs *at, int attr);
void tw_attr_set(tw_attrs *at, int attr, int32_t value);

/* Kernels. */
tw_kernel *tw_kernel_new(const char *name, int target, int threads); /* NULL: out of memory */
void tw_kernel_free(tw_kernel *k);
static inline bool tw_kernel_failed(const tw_kernel *k) {
    return k->arena.failed;
}
tw_type tw_value_type(const tw_kernel *k, tw_val v);
bool tw_value_constant(const tw_kernel *k, tw_val v, uint64_t *bits);

/* Lays the dynamic objects out; returns the bytes of dynamic shared memory to launch with. `*fixed` (may be NULL) gets
   the bytes of the static ones. */
int64_t tw_kernel_shared_layout(tw_kernel *k, int64_t *fixed);
const tw_shared *tw_kernel_shared_find(const tw_kernel *k, const char *name);

#endif
