/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule IR. The check, the lowering and the machines share these structs. */
#ifndef TW_SCHEDULE_SCHEDULE_H
#define TW_SCHEDULE_SCHEDULE_H

#include "base/arena.h"
#include "schedule/access.h"
#include "tilewright/schedule.h"

enum { TW_MAX_OPERANDS = 16, TW_MAX_PARAMS = 8, TW_MAX_WORKERS = 1024 };

/* The ops of ops.def, such as TW_INSTR_QKV. */
typedef enum tw_instr_op {
#define OP(id, name, operands, params) TW_INSTR_##id,
#include "schedule/ops.def"
#undef OP
    TW_INSTR_COUNT
} tw_instr_op;

/* Indices of an op's operands and parameters, such as TW_QKV_WQ and TW_HEAD_SLOT. */
#define OPERAND(id, ...) TW_##id,
#define PARAM(id, name)  TW_##id,
#define RANGE(op)        TW_##op##_FROM, TW_##op##_TO,
#define OP(id, name, operands, params)                                                                                 \
    enum { operands TW_##id##_OPERANDS };                                                                              \
    enum { params TW_##id##_PARAMS };
#include "schedule/ops.def"
#undef OPERAND
#undef PARAM
#undef RANGE
#undef OP

enum { TW_FROM, TW_TO }; /* Indices of the parameters of every RANGE. */
enum {
    TW_LEAST_SCORES = 3, /* The fewest experts of a router that is dealt out. */
    TW_LEAST_RAW = 4     /* The fewest elements of a head whose keys are raw. */
};

typedef enum tw_buffer_kind {
    TW_BUFFER_WEIGHT,     /* Read-only, and defined from the start. */
    TW_BUFFER_ACTIVATION, /* Undefined until an instruction of the step writes it. */
    TW_BUFFER_KV,         /* Rows below the step's first position are defined when the step begins. */
    TW_BUFFER_INPUT,      /* Only the input instruction writes it. */
    TW_BUFFER_OUTPUT,     /* The whole buffer is written when the step ends. */
    TW_BUFFER_KIND_COUNT
} tw_buffer_kind;

/* Three dimensions, the last one contiguous. */
typedef struct tw_buffer {
    const char *name;
    tw_buffer_kind kind;
    tw_dtype dtype;
    int group; /* Quantised weights: columns that share a scale. 0: all of a row. */
    int64_t shape[3];
} tw_buffer;

typedef struct tw_instr {
    tw_instr_op op;
    int operand[TW_MAX_OPERANDS]; /* Number of each operand's buffer. -1: the operand is absent. */
    int64_t param[TW_MAX_PARAMS];
    tw_wait *waits;
    int n_waits;
    int arrive; /* Number of the counter that the instruction arrives at. -1: none. */
} tw_instr;

typedef struct tw_counter {
    const char *name;
    int64_t init; /* Initial value. The check refuses values other than 0. */
} tw_counter;

typedef struct tw_worker {
    tw_instr *list;
    int count;
} tw_worker;

struct tw_schedule {
    tw_arena arena;
    int64_t tokens, max_seq;
    /* 1: a step's positions follow one another in one sequence. Otherwise as many as `tokens`: a step has the next
       position of each sequence, and every sequence has its own cache and position. */
    int64_t sequences;
    tw_buffer *buffers;
    int n_buffers;
    tw_counter *counters;
    int n_counters;
    tw_worker *workers;
    int n_workers;
};

/* An operand in ops.def. */
typedef struct tw_operand_info {
    const char *name;
    char access; /* 'r', 'w', 'm' or 'a', as in ops.def. */
    tw_buffer_kind kind;
    bool matrix, bias, optional;
} tw_operand_info;

/* An op in ops.def. */
typedef struct tw_instr_op_info {
    const char *name;
    tw_operand_info operands[TW_MAX_OPERANDS];
    const char *params[TW_MAX_PARAMS + 1]; /* Names. NULL ends them. */
    int n_operands, n_params;
} tw_instr_op_info;

const tw_instr_op_info *tw_instr_op_describe(tw_instr_op op);
bool tw_instr_op_from_name(const char *name, tw_instr_op *op);
const char *tw_buffer_kind_name(tw_buffer_kind k);
bool tw_buffer_kind_from_name(const char *name, tw_buffer_kind *k);

/* Bytes of the last dimension, scales included. */
int64_t tw_buffer_row_bytes(const tw_buffer *b);

enum { TW_MAX_MATRICES = 3 };

/* The matrices that an instruction multiplies by, in the order of ops.def. Absent ones are left out. */
typedef struct tw_instr_matrices {
    int n;                       /* Number of matrices. */
    int matrix[TW_MAX_MATRICES]; /* Buffer of each matrix. */
    int bias[TW_MAX_MATRICES];   /* Buffer of each product's bias. -1: none. */
} tw_instr_matrices;
tw_instr_matrices tw_instr_matrices_of(const tw_instr *in);

/* Returns true if instructions of this op multiply by a matrix. */
bool tw_instr_op_multiplies(tw_instr_op op);

/* Where virtual row `row` of a qkv range lies: which of q, k, v (0, 1, 2), the head, and the row within the head.
   `rotated` is how many of a head's rows rope rotates (0: none). */
typedef struct tw_qkv_row {
    int part;
    int64_t head, row;
} tw_qkv_row;
tw_qkv_row tw_qkv_locate(int64_t row, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t rotated);

#endif
