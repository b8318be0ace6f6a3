/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts that the megakernel's generator, the tape's packer, the records' writer and the machine share.

   A block owns an SM. Its first warp copies the block's tape of weights, stage by stage, into a ring in shared memory.
   The other warps multiply. A stage has `warps` x `blocks` pieces of 512 bytes. A piece has 8 rows of `depth` columns,
   and lane 4 g + t takes 16 bytes of row g. Of floats the 16 bytes lie swizzled (tw_mega_quarter), so that wgmma can
   read a piece of 16-bit floats, too: it is 8 rows of an operand that is contiguous along k, with the swizzle of 64
   bytes (ir/wgmma.def). A piece of integers has 16 rows; the lane takes columns 16 s + 4 t to
   16 s + 4 t + 3 of rows g and g + 8, for every run s of 16 columns.

   A unit has 8 whole rows of a matrix. A piece of integers has two units, the second of which may be empty. A group has
   up to PART_ROWS rows, whose sums are joined and handed on together. A chunk has the columns whose activations are in
   shared memory at the same time. The tape is ordered by group, then chunk, then unit, then stage. Warp w has the w-th
   run of a chunk's pieces. */
#ifndef TW_VM_CUDA_MEGA_H
#define TW_VM_CUDA_MEGA_H

#include "device/target.h"
#include "ir/ir.h"
#include "model/model.h"
#include "schedule/schedule.h"
#include "vm/cuda/vm.h"

enum {
    TW_MEGA_PIECE = 512,     /* Bytes of a piece. */
    TW_MEGA_ROWS = 8,        /* Rows of a unit. */
    TW_MEGA_PART_ROWS = 128, /* The most rows of a group. */
    TW_MEGA_WARPS = 16,      /* The most warps that multiply. */
    TW_MEGA_PARTS = 16,      /* The most parts of a product. */
    TW_MEGA_BLOCK = 128,     /* Activations that share a scale, if weights are integers. */
    TW_MEGA_HEADS = 4,       /* Query heads that attention by lanes takes at once. */
    TW_MEGA_RECORD = 128,    /* Bytes of a record. */
    TW_MEGA_EXPERTS = 512,   /* The most experts of a mixture. */
    TW_MEGA_CHOSEN = 32,     /* The most experts that a position uses. */
};

/* How weights lie in pieces. Scales follow a stage's pieces. Scales of groups are ordered by warp, row g, piece and
   set; rows g and g + 8 are neighbours. Scales of whole rows are there once, for all pieces of the stage. */
typedef struct tw_mega_format {
    tw_dtype dtype;  /* Element type of the weights. */
    int group;       /* Columns of a group, which share a scale. 0: whole rows share one, or there are no scales. */
    int depth;       /* Columns of a piece. */
    int steps;       /* Runs of 16 columns in a piece. */
    int units;       /* Units in a piece: 2 for integers, else 1. */
    tw_type pair;    /* Floats: type of a pair of elements as it is multiplied, f16x2 or bf16x2. */
    tw_mma_kind mma; /* Kind of the tensor-core product. */
    int sets;        /* Groups' scales in a row of a piece: 1, or 2 if a group is half a piece. 0: no groups. */
    int scale_bytes; /* Bytes of the groups' scales of a piece. */
    int row_bytes;   /* Bytes of the whole rows' scales of a stage. */
} tw_mega_format;
bool tw_mega_format_of(tw_dtype dtype, int group, tw_mega_format *f); /* False: there is no such format. */
static inline bool tw_mega_is_integer(const tw_mega_format *f) {
    return f->units > 1;
}
/* Computes where quarter t of a row of floats lies in the row's 64 bytes of a piece. `g` is the row in the piece. */
static inline int tw_mega_quarter(int g, int t) {
    return t ^ (g >> 1 & 3);
}
static inline bool tw_mega_same_format(const tw_mega_format *a, const tw_mega_format *b) {
    return a->dtype == b->dtype && a->group == b->group;
}

/* An instruction's part of a matrix, or of several matrices with one input. */
typedef struct tw_mega_shape {
    int64_t columns;        /* Columns of the matrix. */
    int chunks;             /* Chunks that the columns are divided into. */
    int run;                /* Pieces of a chunk and unit that one warp multiplies, a multiple of `blocks`. */
    int64_t chunk_columns;  /* Columns of a chunk, rounded up to whole stages. */
    int units, group_units; /* Units of the instruction's rows, and of a group. */
    int stages;             /* Number of the instruction's stages on the tape. */
} tw_mega_shape;

/* Everything the kernel is generated for. Offsets are bytes from the start of a block's shared memory. */
typedef struct tw_mega_plan {
    const tw_model *m;
    const tw_target *target;
    tw_cuda_vm_tuning tuning;    /* The machine's tuning. All fields are chosen. */
    int tokens;                  /* The most positions of a step. */
    int sequences;               /* Sequences of a step: 1 or `tokens`. */
    bool all_logits;             /* True: the head computes logits of every position. False: of the last one. */
    int64_t vocab;               /* Size of the model's vocabulary. */
    int max_columns;             /* The most columns of a matrix. */
    bool gated;                  /* True: an ffn has a gate and up. False: it has up alone. */
    bool layer_norm;             /* True: norms are layer norms. False: RMS norms. */
    bool qk_norm;                /* True: each head of queries and keys has RMS norm. */
    bool apart;                  /* True: queries and keys are not normed and rotated by qkv. */
    bool turns;                  /* True: attention norms and rotates queries and keys, which qkv leaves raw. */
    bool pairs;                  /* True: rows of q and k that rope rotates are on the tape in the order of pairs. */
    bool post_norm;              /* True: products of project are normed before they are added to x. */
    bool two_ropes;              /* True: layers differ in rope. A position has angles of one, then of the other. */
    tw_dtype kv;                 /* Element type of the cache. */
    bool attend_tensor;          /* Attention uses tensor cores. False: lanes. */
    int attend_heads;            /* Query heads that attention takes at once. */
    bool roomy;                  /* The compiler finds registers for the widest heads and the most loads at once. */
    int64_t max_seq;             /* Positions of the cache. */
    tw_mega_format body, head;   /* Formats of the layers' matrices and of the head's matrix. */
    bool head_last;              /* The head's stages are the last ones of every worker's tape. */
    int head_bytes, stage_bytes; /* Bytes of the head's stages on the tape, and of all others and the ring's. */
    int shared_bytes;            /* Bytes of a block's shared memory. */
    int ring, full, empty;       /* Offsets of the ring's stages, their full mbarriers and their empty mbarriers. */
    int x, x_pitch;              /* Offset of a chunk's activations, and bytes between positions. */
    int scales, scales_pitch;    /* Offset of scales of activations that are integers, and bytes between positions. */
    int part, part_buffers; /* Offset of the warps' sums of a group, and how many such buffers there are: 1 or 2. */
    /* Offset of the queries that attention has normed and rotated. They overlap `part`. Only where it does so. */
    int turned;
    int sums;           /* Offset of the warps' sums of squares, which their bests follow. */
    int queries;        /* Offset of attention's queries. Queries and the warps' results, at x, overlap x. */
    int64_t chunk_most; /* The most columns of a chunk. */
    bool one_chunk;     /* Every instruction has a single chunk. */
    bool paces;         /* True: tuning.ahead is less than tuning.window. */
    /* With `paces`: offset of a word (i32). It counts the stages of the launch whose activations are in shared memory.
     */
    int ready;
    int64_t turned_heads; /* The most query heads of an attention. */
    int most_records;     /* The most records of a worker. */
    bool samples;         /* The kernel can draw by vm/sample.h: a step has one position of each sequence. */
    int slots;            /* Slots of the head, one for each head instruction. */
    bool fours;           /* The rows of every slot begin and end at multiples of 4. */
    int cut_list;         /* The most candidates in the list of a cut. The list begins at x and overlaps part. */
    bool usual;           /* True: stages are in the order of their counters' numbers, as lowering makes them. */
    bool flags;           /* True: data is its own flag, and x and the ffn's h carry tags. */
    int uses_x, uses;     /* Writes of x and of h in a step. */
    int parts;            /* Parts that columns of partial are split in. 0: there is no partial and no sum. */
    bool sum_fours;       /* Ranges of sums begin and end at multiples of 4. */
    bool experts;         /* True: the model is a mixture of experts. */
    tw_dtype router;      /* experts: element type of routers. */
    int padded;           /* experts: columns of an expert's down, rounded up to whole segments. */
    int chosen;           /* experts: offset of the chosen experts, i32[used], and of their weights, f32[used]. */
    int routed;           /* experts: offset of the mbarrier that tells the producer of a choice. */
} tw_mega_plan;

/* Floats of a position's angles: cosines and sines of one rope, or of both. */
static inline int64_t tw_mega_angles_of(const tw_model *m) {
    return m->rope.dims * (m->rope_local.kind == TW_ROPE_NONE ? 1 : 2);
}
/* Plans the kernel of a checked schedule. TW_ERR_UNSUPPORTED with the reason: the machine does not cover it. */
tw_status tw_mega_plan_of(tw_mega_plan *p, const tw_schedule *s, const tw_model *m, const tw_target *t,
                          const tw_cuda_vm_options *options, tw_diag *diag);
/* Chooses tw_lowering.down_splits. More than 1 where the unsplit product's activations would be in more than two
   chunks: of several positions every worker reads all of them, and with parts one chunk. */
int64_t tw_mega_down_splits(const tw_model *m, const tw_target *t, const tw_cuda_vm_options *options,
                            const tw_lowering *l);
/* Finds an instruction's TW_W_USES. Writes of a buffer are counted from 0 within a step. An input without tags is
   TW_MEGA_UNTAGGED. `of` is from tw_mega_stages_of. */
int32_t tw_mega_uses(const tw_schedule *s, const tw_instr *in, const tw_instr *const *of);
/* Sets of[counter] to an instruction that arrives there. False: none does, or some differ in op, input or output. */
bool tw_mega_stages_of(const tw_schedule *s, const tw_instr **of);
bool tw_mega_gated(const tw_instr *in); /* Tells whether units of the instruction alternate between gate and up. */
tw_mega_shape tw_mega_shape_of(const tw_mega_plan *p, const tw_schedule *s, const tw_instr *in);
/* Counts the chosen experts that an experts_up has rows of. */
static inline int tw_mega_slots(const tw_instr *in) {
    return (int)(in->param[TW_EXPERTS_UP_SLOT_TO] - in->param[TW_EXPERTS_UP_SLOT_FROM]);
}

/* A mixture's experts lie in pools, which all workers and programs share: a pool has a matrix (or gate and up) of all
   experts of a layer, expert by expert and unit by unit. A pool for experts_up has a unit's stages in order. Columns of
   experts_down are those of the chosen experts one behind the other, each with zeros up to plan.padded. The columns of
   a stage that a warp takes are a segment, which lies in one expert. A pool for experts_down has a unit's segments in
   order, each with its scales. */
static inline bool tw_mega_is_pooled(tw_instr_op op) {
    return op == TW_INSTR_EXPERTS_UP || op == TW_INSTR_EXPERTS_DOWN;
}
/* Tells whether an instruction's matrices are on its worker's tape. */
static inline bool tw_mega_is_taped(tw_instr_op op) {
    return tw_instr_op_multiplies(op) && !tw_mega_is_pooled(op) && op != TW_INSTR_ROUTE && op != TW_INSTR_SCORE;
}
/* Tells whether an instruction multiplies stages of the ring. */
static inline bool tw_mega_is_product(tw_instr_op op) {
    return tw_mega_is_taped(op) || tw_mega_is_pooled(op);
}
/* The plan and the shape by which a pool is packed, for all rows of one expert. */
typedef struct tw_mega_pool {
    tw_mega_plan plan;
    tw_mega_shape shape;
    int stage_bytes;      /* Bytes of a stage, or of a segment. */
    int64_t unit_bytes;   /* Bytes of the units of a row of pieces. */
    int64_t expert_bytes; /* Bytes of an expert. */
} tw_mega_pool;
tw_mega_pool tw_mega_pool_of(const tw_mega_plan *p, const tw_schedule *s, const tw_instr *in);

/* What the producer takes next: stages of the tape, or those of an instruction with experts. A worker has a list of
   legs for a step: 64 bytes each. */
typedef enum tw_mega_leg_kind { TW_MEGA_LEG_TAPE, TW_MEGA_LEG_UP, TW_MEGA_LEG_DOWN } tw_mega_leg_kind;
typedef struct tw_mega_leg {
    int32_t kind;   /* tw_mega_leg_kind */
    int32_t hears;  /* 1: the leg begins with a new choice of experts, which the producer waits for. */
    int32_t stages; /* Number of stages: of a tape's leg in all, of an UP leg for each expert, of a DOWN leg for each
                       unit. */
    int32_t bytes;  /* Bytes of a stage. */
    uint64_t from;  /* Address of the first stage or segment; of experts, in expert 0. */
    int64_t expert; /* Bytes from an expert to the next. */
    int64_t unit;   /* DOWN: bytes from a unit to the next. */
    int32_t units;  /* DOWN: units. */
    int32_t early;  /* Bytes that are copied to the L2 cache before the choice is known, a multiple of 16. */
    uint64_t later; /* Where these bytes begin: the stages of the tape that follow the experts. */
    int32_t slot;   /* UP: the first of the chosen experts. Else 0. */
    int32_t slots;  /* UP: how many of them the leg has. Else 1. */
} tw_mega_leg;
/* Where a unit's pieces are. Piece i is in chunk i / (warps * run), where warp w has the w-th `run` pieces, `blocks` in
   each of run / blocks stages. */
typedef struct tw_mega_unit {
    int64_t first; /* The stage of the unit's first piece, counted from the instruction's first stage. */
    int64_t chunk; /* Stages from a chunk to the next one. */
    int second;    /* Integers: 0 if its rows are rows g of pieces, 1 if they are rows g + 8. */
} tw_mega_unit;
tw_mega_unit tw_mega_unit_of(const tw_mega_plan *p, const tw_mega_format *f, const tw_mega_shape *s, int64_t unit);
const tw_mega_format *tw_mega_format_for(const tw_mega_plan *p, tw_instr_op op);
static inline int tw_mega_stage_bytes(const tw_mega_plan *p, tw_instr_op op) {
    return op == TW_INSTR_HEAD ? p->head_bytes : p->stage_bytes;
}
int64_t tw_mega_stage_columns(const tw_mega_plan *p, const tw_mega_format *f); /* Columns of a stage, of all warps. */

/* A record describes an instruction in words of 32 bits. An address takes two words. */
typedef enum tw_mega_kind {
    TW_MEGA_WAIT, /* Only waits for a counter. Such records precede an instruction that waits for several counters. */
    TW_MEGA_INPUT,
    TW_MEGA_EMBED,
    TW_MEGA_QKV,
    TW_MEGA_ATTEND,
    TW_MEGA_MERGE,
    TW_MEGA_PROJECT,
    TW_MEGA_FFN,
    TW_MEGA_HEAD,
    TW_MEGA_OUTPUT,
    TW_MEGA_SCORE,
    TW_MEGA_CHOOSE,
    TW_MEGA_RESIDUAL,
    TW_MEGA_TURN,
    TW_MEGA_EXPERTS_UP,
    TW_MEGA_EXPERTS_DOWN,
    TW_MEGA_PARTIAL,
    TW_MEGA_SUM
} tw_mega_kind;

/* Stands for the number of a write whose data has no tags. */
enum { TW_MEGA_UNTAGGED = 0xffff };

/* Added to the kind if the worker has waited in this step for what project adds to, or for qkv's angles. */
enum { TW_MEGA_EARLY = 256 };

enum {
    TW_W_KIND,   /* The tw_mega_kind. */
    TW_W_WAIT,   /* Low 16 bits: the counter's number. High 16 bits: the threshold. -1: no wait. */
    TW_W_USES,   /* plan.flags: numbers of the write that is read (low 16 bits) and that is made: tw_mega_uses. */
    TW_W_ARRIVE, /* Bytes from the first counter. -1: no arrival. */
    TW_W_FROM,   /* The first row. attend, merge: the first head. */
    TW_W_COUNT,  /* The number of rows. attend, merge: of heads. output: of slots. */
    TW_W_UNITS,  /* Units of a product's rows. */
    TW_W_GROUP,  /* Units of a group. */
    TW_W_STAGES, /* Stages of a unit in a chunk. */
    TW_W_CHUNKS, /* Chunks of a product's columns. */
    TW_W_K,      /* Columns of a product. */
    TW_W_SLOT,   /* head: the slot. */
    TW_W_IN = 12,
    TW_W_NORM = 14,
    TW_W_BIAS = 16,
    TW_W_ALL = 18, /* Number of the instruction's stages on the tape. */
    TW_W_OUT = 20,
    TW_W_K_CACHE = 22,
    TW_W_V_CACHE = 24,
    TW_W_Q_NORM = 26,
    TW_W_K_NORM = 28,
    TW_W_ROPE = 30,
    /* The same words in other kinds of instructions. */
    TW_W_ROW_FROM = TW_W_UNITS,   /* attend: the first row. */
    TW_W_ROW_TO = TW_W_GROUP,     /* attend: the row behind the last. */
    TW_W_SPLIT = TW_W_STAGES,     /* attend: the split's number. */
    TW_W_SPLITS = TW_W_CHUNKS,    /* attend, merge: the number of splits. */
    TW_W_WINDOW = TW_W_K,         /* attend: positions of the sliding window. */
    TW_W_WIDTH = TW_W_SLOT,       /* ffn: columns of what it writes. experts_up: rows of each chosen expert. */
    TW_W_CHOSEN = TW_W_K_CACHE,   /* experts_up: the first of the chosen experts. */
    TW_W_PITCH = TW_W_SLOT,       /* partial: columns of what it reads a part of. */
    TW_W_TABLE = TW_W_NORM,       /* embed: the table. */
    TW_W_ROPE_LOCAL = TW_W_NORM,  /* input: angles of the model's other rope. */
    TW_W_RAW_K = TW_W_V_CACHE,    /* turn: keys as they are multiplied. qkv has them in place of the cache's keys. */
    TW_W_FRESH_K = TW_W_NORM,     /* attend: keys as they are multiplied. 0: they are in the cache. */
    TW_W_POSITIONS = TW_W_BIAS,   /* embed: the table of positions. 0: there is none. */
    TW_W_NORM_BIAS = TW_W_Q_NORM, /* plan.layer_norm: the norm's biases. 0: there are none. */
    TW_W_ROUTER = TW_W_BIAS,      /* score: the router. */
    TW_W_ROUTES = TW_W_OUT,       /* choose: f32[2][used], where the choice is entered. 0: another worker does it. */
    TW_W_SLOT_ROWS = TW_W_NORM,   /* output: i32[slots][2], the first row and the number of rows. */
    TW_W_BEST = TW_W_K_CACHE,     /* head: each slot's best. */
    TW_W_LOGITS = TW_W_K_CACHE,   /* output: the logits. */
};

/* A worker's entry in the table of workers: 32 bytes. */
typedef struct tw_mega_worker {
    uint64_t tape, records; /* Addresses. plan.experts: in place of the tape the legs. */
    int32_t stages, count;  /* Numbers of stages on the tape (plan.experts: of legs), and of records. */
    int32_t before_head;    /* Stages of the tape that are not the head's. */
    int32_t reserved;
} tw_mega_worker;

/* Why the machine gave up, if `flag` is not 0: a record of a worker waited for a counter to reach a target. `seen` is
   the counter's last value. Counter -1: data is its own flag, and target and seen are tags. */
typedef struct tw_mega_abort {
    int32_t flag, worker, record, counter, target, seen, reserved[2];
} tw_mega_abort;

/* Kernel parameters, in order. */
enum {
    TW_MEGA_ARG_WORKERS,  /* tw_mega_worker[workers]. */
    TW_MEGA_ARG_COUNTERS, /* i32[counters], TW_MEGA_COUNTER bytes apart. */
    TW_MEGA_ARG_TOKENS,   /* i32[2][tokens]: the first step's tokens, then their positions if sequences are several. */
    TW_MEGA_ARG_ANGLES,   /* f32[max_seq][2][rotated / 2]: cosines, then sines. */
    TW_MEGA_ARG_OUT,      /* i32[steps][sequences]: tokens, or TW_MEGA_GAVE_UP. The host may watch them. */
    TW_MEGA_ARG_ABORT,    /* tw_mega_abort. Its flag is 0 before the launch. */
    TW_MEGA_ARG_RULES,    /* tw_sample_rules[sequences]. Not read if the mode is 0. */
    TW_MEGA_ARG_COUNTS,   /* u32[sequences][vocab]: TW_SAMPLE_SEEN. Not read if no rule penalises. */
    TW_MEGA_ARG_POS,      /* Position of the first step's first token. Not read if sequences are several. */
    TW_MEGA_ARG_N,        /* Positions of a step. */
    TW_MEGA_ARG_STEPS,    /* Number of steps. More than 1 only if a step has one position of each sequence. */
    TW_MEGA_ARG_EPOCH,    /* Number of steps before this launch. */
    TW_MEGA_ARG_TOKEN,    /* The first step's token, in place of TOKENS, if plan.tokens is 1. */
    TW_MEGA_ARG_MODE,     /* Modes of all rules, combined by or. 0: greedy. */
    TW_MEGA_ARGS
};
enum { TW_MEGA_GAVE_UP = -2 /* Stands for a token. tw_mega_abort says why. */ };
enum { TW_MEGA_MARKS = 6 /* Marks of an instruction: the bounds of its TW_CUDA_VM_PHASES phases. */ };
extern const char *const tw_mega_marks[TW_MEGA_MARKS]; /* Their names, for the profiler. */
enum { TW_MEGA_COUNTER = 128 /* Bytes from a counter to the next. */ };

tw_kernel *tw_mega_build(const tw_mega_plan *p); /* NULL: out of memory. */

#endif
