/* SPDX-License-Identifier: Apache-2.0 */
/* The megakernel's inside: what the generator, the tape's packer, the table's writer and the machine agree on.

   A block owns an SM. Its first warp feeds a ring of stages in shared memory from the block's weight tape; the others
   multiply what lies there. A stage is `warps` x `blocks` pieces of 512 bytes, each the weights of 8 rows along some
   columns, in the order in which the lanes of a warp want them:

     unit      8 rows of a matrix, whole; integers go in pairs of units, the second of an odd last one empty
     group     up to PART_ROWS rows, whose sums are joined and handed on together
     chunk     columns whose activations lie in shared memory at once
     piece     8 rows x `depth` columns: lane (g, t) = lane / 4, lane % 4 has 16 bytes of row g. Of integers 16 rows:
               the lane has columns 16 s + 4 t ... + 3 of rows g and g + 8 for each 16 columns s

   The tape runs through groups, their chunks, the chunk's units, and for each unit through its stages; of a chunk's
   pieces warp w has the w-th run. */
#ifndef TW_VM_CUDA_MEGA_H
#define TW_VM_CUDA_MEGA_H

#include "device/target.h"
#include "ir/ir.h"
#include "model/model.h"
#include "schedule/schedule.h"
#include "vm/cuda/vm.h"

enum {
    TW_MEGA_PIECE = 512, /* bytes */
    TW_MEGA_ROWS = 8,    /* of a unit */
    TW_MEGA_PART_ROWS = 128,
    TW_MEGA_WARPS = 16,   /* most that multiply */
    TW_MEGA_BLOCK = 128,  /* activations that share a scale, where weights are integers */
    TW_MEGA_HEADS = 4,    /* query heads that attention by lanes takes at once */
    TW_MEGA_RECORD = 128, /* bytes of an instruction's record */
};

/* How weights lie in pieces. */
typedef struct tw_mega_format {
    tw_dtype dtype;
    int group;
    int depth; /* columns of a piece */
    int steps; /* runs of 16 columns in it */
    int units; /* of a piece's rows: 1 or, integers, 2 */
    bool half; /* multiplied as f16, else as bf16 */
    /* Scales lie behind a stage's pieces. Of groups each warp has its pieces': by row, piece and set, those of rows g
       and g + 8. A scale a row is there once for all. */
    int sets;        /* that a piece has: with groups of 32 columns it may be two; 0: a scale a row, or none */
    int scale_bytes; /* of a piece's */
    int row_bytes;   /* of the rows' */
} tw_mega_format;
bool tw_mega_format_of(tw_dtype dtype, int group, tw_mega_format *f); /* false: there is none */
static inline bool tw_mega_is_integer(const tw_mega_format *f) {
    return f->units > 1;
}
static inline bool tw_mega_same_format(const tw_mega_format *a, const tw_mega_format *b) {
    return a->dtype == b->dtype && a->group == b->group;
}

/* A matrix (or several that share an input) as an instruction has it. */
typedef struct tw_mega_shape {
    int64_t columns;
    int chunks, run; /* run: pieces of a chunk that a warp has, a multiple of `blocks` */
    int64_t chunk_columns;
    int units, group_units;
    int of_piece; /* units */
} tw_mega_shape;

/* Everything the kernel is generated for. */
typedef struct tw_mega_plan {
    const tw_target *target;
    tw_cuda_vm_tuning tuning; /* complete */
    int tokens;               /* positions a step holds at most */
    int sequences;            /* 1, or as many as tokens */
    bool all_logits;
    /* the model */
    int64_t dim, heads, kv_heads, head_dim, rotated, vocab;
    int max_columns;
    bool qk_norm;
    float norm_eps, attn_scale;
    tw_dtype kv, embed;
    bool attend_tensor; /* attention on tensor cores, else by lanes */
    int attend_heads;   /* query heads that it takes at once */
    bool roomy;         /* the target's compiler finds registers for the widest heads and the most loads at once */
    int64_t max_seq;
    tw_mega_format body, head; /* the matrices of layers, and the head's */
    bool head_last;            /* of every worker's tape */
    /* shared memory, bytes from the start of one dynamic object */
    int head_bytes; /* of the head's stages in the tape; the others have stage_bytes */
    int stage_bytes, ring, full, empty, x, x_pitch, part, part_buffers, sums, scratch, queries, shared_bytes;
    int scales, scales_pitch; /* of activations that are integers */
    int64_t chunk_most;       /* columns of activations that fit */
    bool one_chunk;           /* all of every instruction's do */
    int n_workers;
    bool trace;
    int trace_records;
    /* Draws by vm/sample.h's rules: of programs whose step is a position of each sequence. */
    bool samples;
    int slots;         /* the head's instructions */
    bool fours;        /* their rows go in fours */
    int cut, cut_list; /* in shared memory, while nothing else needs it; candidates that a cut's list has room for */
    bool usual;        /* the schedule's stages follow one another as lowering makes them, by their counters' numbers */
    /* Data as its own flag, of x and h: how often a step writes x, and h. */
    bool flags;
    int uses_x, uses;
} tw_mega_plan;

/* From a checked schedule: TW_ERR_UNSUPPORTED with the reason when the machine does not cover it. */
tw_status tw_mega_plan_of(tw_mega_plan *p, const tw_schedule *s, const tw_model *m, const tw_target *t,
                          const tw_cuda_vm_options *options, tw_diag *diag);
/* With plan.flags: the how-manieth writing in its step what the instruction reads and writes is, from 0. */
void tw_mega_uses(const tw_schedule *s, const tw_instr *in, const tw_instr *const *of, int *reads, int *writes);
/* Fills of[counter] with an instruction that arrives there; false where they are of several kinds. */
bool tw_mega_stages_of(const tw_schedule *s, const tw_instr **of);
void tw_mega_shape_of(const tw_mega_plan *p, const tw_schedule *s, const tw_instr *in, tw_mega_shape *out);
const tw_mega_format *tw_mega_format_for(const tw_mega_plan *p, tw_instr_op op);
int tw_mega_stages(const tw_mega_plan *p, const tw_mega_shape *s); /* of the tape */
static inline int tw_mega_stage_bytes(const tw_mega_plan *p, tw_instr_op op) {
    return op == TW_INSTR_HEAD ? p->head_bytes : p->stage_bytes;
}
int64_t tw_mega_stage_columns(const tw_mega_plan *p, const tw_mega_format *f); /* that all warps have of a stage */

/* An instruction's record: words of 32 bits. Addresses take two. */
typedef enum tw_mega_kind {
    TW_MEGA_WAIT, /* for a counter, and nothing else: instructions that wait for several have these before them */
    TW_MEGA_INPUT,
    TW_MEGA_EMBED,
    TW_MEGA_QKV,
    TW_MEGA_ATTEND,
    TW_MEGA_MERGE,
    TW_MEGA_PROJECT,
    TW_MEGA_FFN,
    TW_MEGA_HEAD,
    TW_MEGA_OUTPUT
} tw_mega_kind;

/* Among the uses: what is read has no tags, but counters. */
enum { TW_MEGA_UNTAGGED = 0xffff };

/* Beside the kind: an instruction before it waited for what it adds to, and for the step's angles. */
enum { TW_MEGA_EARLY = 256 };

enum {
    TW_W_KIND,   /* The tw_mega_kind. */
    TW_W_WAIT,   /* Low 16 bits: the counter's number. High 16 bits: the threshold. -1: no wait. */
    TW_W_USES,   /* plan.flags: the number of the writing that is read (low 16 bits), and that is written: tw_mega_uses.
                  */
    TW_W_ARRIVE, /* Bytes from the first counter. -1: no arrival. */
    TW_W_FROM,   /* The first row; of attend and merge the first head. */
    TW_W_COUNT,  /* Rows or heads; of output slots. */
    TW_W_UNITS,  /* Units of a product's rows. */
    TW_W_GROUP,  /* Units of a group. */
    TW_W_STAGES, /* Stages of a unit in a chunk. */
    TW_W_CHUNKS, /* Chunks of a product's columns. */
    TW_W_K,      /* Columns of a product. */
    TW_W_SLOT,   /* head: the slot. */
    TW_W_IN = 12,
    TW_W_NORM = 14,
    TW_W_BIAS = 16,
    TW_W_ALL = 18, /* Stages of the instruction on the tape. */
    TW_W_OUT = 20,
    TW_W_K_CACHE = 22,
    TW_W_V_CACHE = 24,
    TW_W_Q_NORM = 26,
    TW_W_K_NORM = 28,
    TW_W_ROPE = 30,
    /* The same words in other kinds of instructions. */
    TW_W_ROW_FROM = TW_W_UNITS, /* attend: the first row. */
    TW_W_ROW_TO = TW_W_GROUP,   /* attend: the row behind the last. */
    TW_W_SPLIT = TW_W_STAGES,   /* attend: the split's number. */
    TW_W_SPLITS = TW_W_CHUNKS,  /* attend, merge: the number of splits. */
    TW_W_WINDOW = TW_W_K,       /* attend: positions of the sliding window. */
    TW_W_WIDTH = TW_W_SLOT,     /* ffn: columns of what it writes. */
    TW_W_TABLE = TW_W_NORM,     /* embed: the table. */
    TW_W_SLOT_ROWS = TW_W_NORM, /* output: i32[slots][2], the first row and the number of rows. */
    TW_W_BEST = TW_W_K_CACHE,   /* head: each slot's best. */
    TW_W_LOGITS = TW_W_K_CACHE, /* output: the logits. */
};

/* A worker's entry in the table of workers: 32 bytes. */
typedef struct tw_mega_worker {
    uint64_t tape, records;
    int32_t stages, count; /* of a step */
    int32_t before_head;   /* of its stages */
    int32_t reserved;
} tw_mega_worker;

/* Who waited for what when the machine gave up. */
typedef struct tw_mega_abort {
    int32_t flag, worker, record, counter, target, seen, reserved[2];
} tw_mega_abort;

/* Kernel parameters, in order. */
enum {
    TW_MEGA_ARG_WORKERS,  /* tw_mega_worker[] */
    TW_MEGA_ARG_COUNTERS, /* a line of 128 bytes each */
    TW_MEGA_ARG_TOKENS,   /* i32[tokens]: the first step's; of several sequences as many positions follow */
    TW_MEGA_ARG_ANGLES,   /* f32[max_seq][2][rotated / 2] */
    TW_MEGA_ARG_OUT,      /* i32[steps][sequences]: the tokens found, which the host may watch; TW_MEGA_GAVE_UP */
    TW_MEGA_ARG_ABORT,    /* tw_mega_abort, its flag 0 */
    TW_MEGA_ARG_RULES,    /* tw_sample_rules[sequences]; unused where the mode is 0 */
    TW_MEGA_ARG_COUNTS,   /* u32[sequences][vocab]: what penalties count; unused without */
    TW_MEGA_ARG_TRACE,    /* i64[workers][trace_records][TW_MEGA_MARKS]: clocks; unused without plan.trace */
    TW_MEGA_ARG_POS,      /* of the first step; unused with several sequences */
    TW_MEGA_ARG_N,        /* positions of the step */
    TW_MEGA_ARG_STEPS,    /* more than one: greedy, of one position (of each sequence) each */
    TW_MEGA_ARG_EPOCH,    /* steps begun before this launch */
    TW_MEGA_ARG_TOKEN,    /* of one position a step: the first step's, in place of TOKENS */
    TW_MEGA_ARG_MODE,     /* the modes of all rules; 0: greedy */
    TW_MEGA_ARGS
};
enum { TW_MEGA_GAVE_UP = -2 /* among the tokens found: see the abort record */ };
enum { TW_MEGA_MARKS = 8 /* TW_CUDA_VM_PHASES + 1 are used */ };
enum { TW_MEGA_COUNTER = 128 /* bytes of a counter's line */ };

tw_kernel *tw_mega_build(const tw_mega_plan *p); /* NULL: out of memory */

#endif
