/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of a prompt's step that are no products. Each is generated for a shape. A step has n positions from `pos`
   on, numbers that kernels read from memory, so that one kernel serves all steps. A step of many sequences has rows of
   any of them, each row with a position of its own. */
#ifndef TW_VM_PREFILL_GENERATE_H
#define TW_VM_PREFILL_GENERATE_H

#include "ir/builder.h"
#include "kernels/kernel.h"
#include "model/model.h"
#include "vm/cuda/mega.h"

/* Words (i32) of the buffer "step". */
enum {
    TW_STEP_COUNT,  /* Number of positions of the step, all of one sequence. */
    TW_STEP_POS,    /* Position of the first one. */
    TW_STEP_HEAD,   /* The sequence's first head among those of a cache. */
    TW_STEP_STARTS, /* [sequences + 1]: where each sequence's rows of the step begin, and where the last one's end. */
    TW_STEP_LENGTHS = TW_STEP_STARTS + TW_CUDA_VM_TOKENS + 1, /* [sequences]: positions of each after the step. */
    TW_STEP_TOKENS = TW_STEP_LENGTHS + TW_CUDA_VM_TOKENS      /* The step's tokens. */
};

/* Words (i32) of the buffer "step" of a step of many sequences. The first one is TW_STEP_COUNT, the number of rows.
   Rows are in the order of their sequences, and those of a sequence in the order of their positions. */
enum {
    TW_MANY_SEQUENCES = 128, /* The most sequences. */
    TW_MANY_MODE = 1,        /* Of a tail: all modes (TW_SAMPLE_) of the ends' rules. */
    TW_MANY_OUT,             /* Of a tail: the first i32 of "out" that this step writes, one for each end. */
    TW_MANY_STARTS = 4,      /* [sequences + 1]: as TW_STEP_STARTS. */
    TW_MANY_LENGTHS = TW_MANY_STARTS + TW_MANY_SEQUENCES + 4, /* [sequences]: as TW_STEP_LENGTHS. */
    TW_MANY_ROWS = TW_MANY_LENGTHS + TW_MANY_SEQUENCES        /* [rows] of TW_ROW_WORDS. */
};
/* Words of a row. */
enum {
    TW_ROW_TOKEN,    /* The token. Below 0: the one that the step before found for the row's sequence. */
    TW_ROW_POSITION, /* Its position. */
    TW_ROW_HEAD,     /* As TW_STEP_HEAD. */
    TW_ROW_SEQUENCE, /* Its sequence. */
    TW_ROW_WORDS
};

/* An end is a row whose next token is wanted, the last one of its sequence. Behind the last layer's keys and values
   only ends are computed. The launches of that tail have a step of their own, whose rows are the ends. Where other
   steps have tokens, a tail has the number of the end's row in the step. Its words lie before those of the step. */
enum {
    TW_STEP_TAIL = TW_STEP_TOKENS + 4, /* Number of words of the tail of one sequence. */
    /* Of many sequences. */
    TW_TAIL_POSITIONS = TW_MANY_ROWS + TW_MANY_SEQUENCES * TW_ROW_WORDS, /* [ends]: the position of each. */
    TW_TAIL_RULES = TW_TAIL_POSITIONS + TW_MANY_SEQUENCES,               /* [ends]: its tw_sample_rules. */
    TW_TAIL_WORDS = TW_TAIL_RULES + TW_MANY_SEQUENCES * 16               /* Number of words. */
};

/* What a kernel is generated for. Fields that a kernel does not use are 0, and so is padding: equal shapes have equal
   bytes. */
typedef struct tw_prefill_shape {
    const tw_model *m;
    tw_type type;           /* Element type of activations between kernels, and of unpacked weights. */
    tw_dtype kv;            /* Element type of the cache. */
    int64_t tokens;         /* The most positions of a step. */
    int64_t max_seq;        /* Positions of the cache. */
    int64_t rows, columns;  /* Extents of a matrix, or of rows of activations. */
    int64_t window;         /* Attention: positions of the sliding window. 0: all. */
    bool bias;              /* A bias is added. */
    bool fused;             /* embed: rows of x are readied for a norm in the next product. */
    bool bare;              /* norm: rows are converted and not normed. */
    tw_dtype router;        /* score: element type of the router. */
    bool gated;             /* gate: rows have gates and values. False: values alone. */
    bool many;              /* The step is one of many sequences. */
    int cut_list;           /* pick: as in tw_mega_plan. */
    int parts;              /* sum_norm: parts of a product that are added to a row. */
    bool early;             /* The launch begins, and waits, before the one before it is over. */
    tw_mega_format format;  /* unpack: how weights lie in pieces. */
    int warps, blocks, run; /* unpack: as in tw_machine_tuning and tw_mega_shape. */
    int chunks;      /* unpack: chunks of a unit, which lie anywhere. 0: they are equally far from one another. */
    int stage_bytes; /* unpack: bytes of a stage of the tape. */
} tw_prefill_shape;

enum { TW_PREFILL_HEAD = 256 /* The most elements of a head. */ };
enum { TW_PREFILL_ROW = 10240 /* The most elements of a row of x. */ };
enum { TW_PREFILL_BUFFERS = 10, TW_PREFILL_THREADS = 128, TW_PREFILL_WARPS = TW_PREFILL_THREADS / 32 };
enum { TW_PREFILL_MOST_WARPS = 16 /* Of a block whose rows have parts. */ };

/* A kernel that is built. */
typedef struct tw_prefill_gen {
    tw_builder *b;
    const tw_prefill_shape *s;
    tw_val buffer[TW_PREFILL_BUFFERS]; /* Addresses of the kind's buffers. */
    tw_val block, thread, warp, lane;  /* Numbers. */
    int threads;                       /* Threads of a block. */
} tw_prefill_gen;

/* A kind of kernel. */
typedef struct tw_prefill_kind {
    const char *name;
    void (*build)(tw_prefill_gen *g);
    int64_t (*grid)(const tw_prefill_shape *s); /* Returns the number of blocks. */
    struct {
        const char *name; /* NULL ends the list. */
        bool written;     /* False: the kernel only reads it. */
    } buffers[TW_PREFILL_BUFFERS];
} tw_prefill_kind;

/* Kinds. Rows are those of a step; a row of x has `columns` f32, other activations have elements of `type`.
   take    Rows of x and q that are ends become the rows of a tail's.
   embed   Rows of the table become rows of x. With `fused` also sums of squares, one of each row, and rows times gains.
   norm    The model's norm: rows of x, normed and times the weights, become rows of y.
   sum_norm  Parts of a product are added to rows of x, whose norm is as "norm" has it.
   residual  An RMS norm of y's f32 rows is added to rows of x.
   rope    A product's f32 rows, of q, k and v as tw_qkv_locate orders them, get biases, norms of heads and rope.
           Queries go to q, [tokens][heads][head], keys and values to the cache.
   factors What rope's norms multiply by where they go over all heads: 1 / rms of each row of q, and of k.
   attend  Attention of all heads over the cache.
   gate    act(gate) * up of a product's f32 rows, which have eight gates, their eight values, and so on; or act(up).
   score, choose, sort, gather, sum_experts: experts.c.
   unpack  A matrix, from tapes to rows that are densely packed.
   head    The model's norm of the tail's only row, times a matrix on tapes: logits, and the argmax of each block's.
   best    The argmax of those: the token.
   values  Logits of ends, [ends][rows]: what the rules make of them, and the best of each slot of TW_PREFILL_SLOT ids.
   pick    The tokens of ends: the best of the bests, or of what the rules' cuts leave. */
extern const tw_prefill_kind tw_prefill_embed, tw_prefill_norm, tw_prefill_rope, tw_prefill_attend, tw_prefill_gate,
    tw_prefill_residual, tw_prefill_factors, tw_prefill_unpack, tw_prefill_score, tw_prefill_route, tw_prefill_sort,
    tw_prefill_gather, tw_prefill_sum_experts, tw_prefill_head, tw_prefill_best, tw_prefill_values, tw_prefill_pick,
    tw_prefill_take, tw_prefill_sum_norm;

enum { TW_PREFILL_SLOT = 2048 };
static inline int tw_prefill_slots(const tw_model *m) {
    return (int)((m->vocab + TW_PREFILL_SLOT - 1) / TW_PREFILL_SLOT);
}

/* Where a unit of 8 rows lies on the tapes: an entry of unpack's buffer "units". Where columns of a matrix are in parts
   on several tapes, a unit has an entry for each chunk, whose field `chunk` is 0. */
typedef struct tw_prefill_unit {
    uint64_t first; /* Address of the stage with the unit's first piece. */
    int32_t
        chunk; /* Bytes from a chunk's stages to the next chunk's. Of floats, this and 0 are a tw_gemm_unit's stride. */
    int32_t second; /* 1: the unit has the second half of a piece of integers. */
} tw_prefill_unit;

/* A piece of a unit, as a lane sees it. Lane 4 g + t has 16 bytes of row g (vm/cuda/mega.h). */
typedef struct tw_prefill_piece {
    tw_val stage;  /* Address of the stage. */
    tw_val number; /* Number of the piece in its stage. */
    tw_val column; /* The piece's first column. */
    tw_val second; /* Integers: i32, as in tw_prefill_unit. */
    tw_val words[4];
} tw_prefill_piece;
enum { TW_PREFILL_FOURS = 4 /* The most runs of four columns that a lane has of a piece. */ };

/* Loads a unit's address, chunk and second: entry `unit` of the table. Where chunks lie anywhere, the address is that
   of the unit's first entry. */
void tw_prefill_unit_load(tw_prefill_gen *g, tw_val table, tw_val unit, tw_val out[3]);
/* Loads piece number i of a unit. */
tw_prefill_piece tw_prefill_piece_load(tw_prefill_gen *g, const tw_val unit[3], tw_val i);
/* Computes the lane's elements (f32), and the first column of each four of them. Returns the number of fours. */
int tw_prefill_piece_values(tw_prefill_gen *g, const tw_prefill_piece *p, tw_val column[TW_PREFILL_FOURS],
                            tw_val x[4 * TW_PREFILL_FOURS]);
int64_t tw_prefill_head_blocks(const tw_model *m); /* Blocks of the kind "head". */
/* Returns the number of pieces of a unit. */
int tw_prefill_pieces(const tw_prefill_shape *s);

/* What a kernel is opened by (tw_kernel_make). */
typedef struct tw_prefill_problem {
    const tw_prefill_kind *kind;
    tw_prefill_shape shape;
} tw_prefill_problem;
tw_status tw_prefill_make(const void *problem, tw_plan *out, const tw_target *target, tw_diag *diag);

/* Adds up a number (f32) of all threads, through shared memory of that name. */
tw_val tw_prefill_sum(tw_prefill_gen *g, tw_val x, const char *name);
/* Loads a word of the step. */
tw_val tw_prefill_step(tw_prefill_gen *g, tw_val step, int word);
/* Computes the position of a row of the step, and the first head of the row's sequence. */
tw_val tw_prefill_position(tw_prefill_gen *g, tw_val step, tw_val row);
tw_val tw_prefill_first_head(tw_prefill_gen *g, tw_val step, tw_val row);
/* Loads a word of a row of a step of many sequences. */
tw_val tw_prefill_row_word(tw_prefill_gen *g, tw_val step, tw_val row, int word);
/* Loads n elements (2, 4 or 8) of a type as f32, where `when` holds (TW_NONE: always). Others are 0. */
void tw_prefill_load(tw_prefill_gen *g, tw_type t, tw_val address, int n, tw_val when, tw_val *out);
/* Stores n f32 (2, 4 or 8) as elements of a type. */
void tw_prefill_store(tw_prefill_gen *g, tw_type t, tw_val address, int n, const tw_val *x);
/* Stores one f32 as an element of a type. */
void tw_prefill_store_one(tw_prefill_gen *g, tw_type t, tw_val address, tw_val x);
tw_val tw_prefill_at(tw_prefill_gen *g, tw_val base, tw_val i, int64_t bytes); /* Computes base + i * bytes. */
tw_type tw_prefill_element(tw_dtype t);                                        /* The IR's type of stored elements. */
static inline int tw_prefill_bytes(tw_type t) {
    return tw_type_bits(t) / 8;
}

#endif
