/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule IR: plain structs, read by the check, the lowering and the machines alike. */
#ifndef TW_SCHEDULE_SCHEDULE_H
#define TW_SCHEDULE_SCHEDULE_H

#include "base/arena.h"
#include "tilewright/schedule.h"

enum { TW_MAX_OPERANDS = 16, TW_MAX_PARAMS = 8, TW_MAX_WORKERS = 1024 };

typedef enum tw_op {
#define OP(id, name, operands, params) TW_OP_##id,
#include "schedule/ops.def"
#undef OP
    TW_OP_COUNT
} tw_op;

typedef enum tw_buffer_kind {
    TW_BUFFER_WEIGHT,     /* read-only, defined from the start */
    TW_BUFFER_ACTIVATION, /* defined by this step's writes alone */
    TW_BUFFER_KV,         /* rows below the step's first position are defined at its start */
    TW_BUFFER_INPUT,      /* written by the input instruction alone */
    TW_BUFFER_OUTPUT,     /* written whole by the end of the step */
    TW_BUFFER_KIND_COUNT
} tw_buffer_kind;

/* Three dimensions, the last one contiguous. */
typedef struct tw_buffer {
    const char *name;
    tw_buffer_kind kind;
    tw_dtype dtype;
    int group; /* quantised weights: columns a scale, 0: a row */
    int64_t shape[3];
} tw_buffer;

typedef struct tw_wait {
    int counter;
    int64_t threshold; /* arrivals a step; the machine waits for threshold * steps begun */
} tw_wait;

typedef struct tw_instr {
    tw_op op;
    int operand[TW_MAX_OPERANDS]; /* buffers; -1: absent */
    int64_t param[TW_MAX_PARAMS];
    tw_wait *waits;
    int n_waits;
    int arrive; /* counter; -1: none */
} tw_instr;

typedef struct tw_counter {
    const char *name;
    int64_t init; /* must be 0; kept so that the check can say otherwise */
} tw_counter;

typedef struct tw_worker {
    tw_instr *list;
    int count;
} tw_worker;

struct tw_schedule {
    tw_arena arena;
    int64_t tokens, max_seq;
    int64_t sequences; /* 1: a step's positions follow one another in one sequence; else as many as tokens: they are
                          the next ones of that many sequences, each with a cache and a position of its own */
    tw_buffer *buffers;
    int n_buffers;
    tw_counter *counters;
    int n_counters;
    tw_worker *workers;
    int n_workers;
};

/* What ops.def says of an op, parsed. */
typedef struct tw_operand_info {
    char name[16];
    char access; /* r, w, m, a */
    tw_buffer_kind kind;
    bool optional;
} tw_operand_info;

typedef struct tw_schedule_op_info {
    const char *name;
    tw_operand_info operands[TW_MAX_OPERANDS];
    char params[TW_MAX_PARAMS][16];
    int n_operands, n_params;
} tw_schedule_op_info;

const tw_schedule_op_info *tw_schedule_op_describe(tw_op op);
bool tw_op_from_name(const char *name, tw_op *op);
const char *tw_buffer_kind_name(tw_buffer_kind k);
bool tw_buffer_kind_from_name(const char *name, tw_buffer_kind *k);

/* Bytes of the last dimension, scales included. */
int64_t tw_buffer_row_bytes(const tw_buffer *b);

/* Operands and parameters by position in ops.def, named. */
enum { TW_INPUT_TOKENS, TW_INPUT_ROPE };
enum { TW_EMBED_TOKENS, TW_EMBED_TABLE, TW_EMBED_POSITIONS, TW_EMBED_X };
enum {
    TW_QKV_X,
    TW_QKV_NORM,
    TW_QKV_NORM_BIAS,
    TW_QKV_WQ,
    TW_QKV_WK,
    TW_QKV_WV,
    TW_QKV_BQ,
    TW_QKV_BK,
    TW_QKV_BV,
    TW_QKV_Q_NORM,
    TW_QKV_K_NORM,
    TW_QKV_ROPE,
    TW_QKV_Q,
    TW_QKV_K,
    TW_QKV_V
};
enum { TW_ATTEND_Q, TW_ATTEND_K, TW_ATTEND_V, TW_ATTEND_OUT, TW_ATTEND_PART };
enum {
    TW_ATTEND_HEAD_FROM,
    TW_ATTEND_HEAD_TO,
    TW_ATTEND_ROW_FROM,
    TW_ATTEND_ROW_TO,
    TW_ATTEND_SPLIT,
    TW_ATTEND_SPLITS,
    TW_ATTEND_WINDOW
};
enum { TW_MERGE_PART, TW_MERGE_OUT };
enum { TW_MERGE_HEAD_FROM, TW_MERGE_HEAD_TO, TW_MERGE_SPLITS };
enum { TW_PROJECT_IN, TW_PROJECT_W, TW_PROJECT_BIAS, TW_PROJECT_X };
enum { TW_FFN_X, TW_FFN_NORM, TW_FFN_NORM_BIAS, TW_FFN_GATE, TW_FFN_UP, TW_FFN_GATE_BIAS, TW_FFN_UP_BIAS, TW_FFN_H };
enum { TW_ROUTE_X, TW_ROUTE_NORM, TW_ROUTE_ROUTER, TW_ROUTE_ROUTE };
enum {
    TW_EXPERTS_UP_X,
    TW_EXPERTS_UP_NORM,
    TW_EXPERTS_UP_ROUTE,
    TW_EXPERTS_UP_GATE,
    TW_EXPERTS_UP_UP,
    TW_EXPERTS_UP_H
};
enum { TW_EXPERTS_DOWN_H, TW_EXPERTS_DOWN_ROUTE, TW_EXPERTS_DOWN_W, TW_EXPERTS_DOWN_X };
enum { TW_HEAD_X, TW_HEAD_NORM, TW_HEAD_NORM_BIAS, TW_HEAD_W, TW_HEAD_LOGITS, TW_HEAD_BEST };
enum { TW_OUTPUT_LOGITS, TW_OUTPUT_BEST, TW_OUTPUT_TOKEN };
enum { TW_FROM, TW_TO, TW_HEAD_SLOT };

/* Where virtual row `row` of a qkv range lies: which of q, k, v (0, 1, 2), the head, and the row within the head.
   `rotated` is how many of a head's rows rope rotates (0: none). */
typedef struct tw_qkv_row {
    int part;
    int64_t head, row;
} tw_qkv_row;
tw_qkv_row tw_qkv_locate(int64_t row, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t rotated);

#endif
