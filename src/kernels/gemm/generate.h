/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the generator share. The kernel computes X * Y. X has the rows of a tile of the result, Y its
   columns. X is A and Y is B. With swapped operands X is B transposed and Y is A transposed. */
#ifndef TW_KERNELS_GEMM_GENERATE_H
#define TW_KERNELS_GEMM_GENERATE_H

#include "ir/builder.h"
#include "kernels/gemm/gemm.h"
#include "kernels/parts/meet.h"
#include "kernels/parts/narrow.h"
#include "kernels/parts/scheduler.h"
#include "kernels/parts/tile.h"

/* Returns why a configuration is not legal. */
#define REFUSE(condition, reason)                                                                                      \
    do {                                                                                                               \
        if (condition) return reason;                                                                                  \
    } while (0)

enum { TW_GEMM_MAX_ACC = 256, TW_GEMM_MAX_COPIES = 32 };
/* Numbers of barriers that some threads of a block pass: consumers that wait for the producer to begin, the threads of
   a team that hold sums, a team that waits for its turn, and the producer's warps. */
enum {
    TW_GEMM_TEAMS = 2,
    TW_GEMM_BEGIN = 1,
    TW_GEMM_SUMS = 2,
    TW_GEMM_TURN = TW_GEMM_SUMS + TW_GEMM_TEAMS,
    TW_GEMM_PRODUCER = TW_GEMM_TURN + TW_GEMM_TEAMS
};

enum { TW_GEMM_GAINS_KEPT = 4 /* Columns of C that a thread has with swapped operands. */ };

enum { TW_GEMM_PARTS = 32 /* The most parts of sums that a thread loads ahead. */ };

/* Stages of the ring that tells warps of tiles, a multiple of the teams. */
enum { TW_GEMM_TOLD = 4 };

/* The layout of an operand's tile. In global memory it is `outer` rows of `inner` contiguous elements. */
typedef struct tw_gemm_tile {
    bool k_major;    /* Elements are contiguous along k in global memory. */
    bool k_stored;   /* Elements are contiguous along k in shared memory. */
    bool transposed; /* k_major, but not k_stored. */
    int extent;      /* Rows of X, or columns of Y. */
    int es;          /* Bytes per element. */
    int vec;         /* Bytes per copy. */
    int outer;       /* Rows in global memory. */
    int inner;       /* Elements per row in global memory. */
    int width;       /* Elements of a row that neighbouring threads copy: all, or 8 if the copy transposes. */
    int per_row;     /* Copies per `width` elements. */
    int total;       /* Copies per tile. */
    int per_thread;  /* Copies per thread. */
    int pitch;       /* Bytes from row to row in shared memory. */
    int bytes;       /* Bytes of the tile in a stage. */
    int threads;     /* Threads of a group along the extent. With tensor cores: warps. */
    int v;           /* SIMT: elements per fragment load. */
} tw_gemm_tile;

/* What the generator derives from a configuration. */
typedef struct tw_gemm_plan {
    tw_gemm_tile x, y;
    tw_tile tile_x, tile_y; /* The tiles of tensor copies. */
    tw_narrow_tile narrow;  /* The tile of X if B is narrow, in the place of tile_x. */
    tw_mma_kind mma;
    int lanes_m;            /* SIMT: lanes of a warp along rows. */
    int group;              /* Threads that hold the sums of a tile. A block has kl such groups, or `teams`. */
    int teams;              /* Number of groups with tiles of their own. 1: all groups compute one tile. */
    int threads;            /* Threads per block. */
    int accumulators;       /* Registers of a thread's sums, of each of the ks parts. */
    int partial;            /* Registers of a thread's sums of a stage, which are then promoted. 0: there are none. */
    int part_bytes;         /* Bytes of the sums of a group of threads. */
    int stage_bytes;        /* Shared memory per stage. */
    int scale_bytes;        /* Shared memory per stage of a narrow X's scales, which precede the mbarriers. */
    int fetched_bytes;      /* Bytes of a stage that are fetched. */
    int mbarrier_bytes;     /* Shared memory of mbarriers, the ring that tells of tiles, and sums of squares. */
    int told;               /* Bytes from the first mbarrier to this ring. Only if the product has groups. */
    int sums;               /* Bytes from the first mbarrier to where teams have sums of squares of A's rows. */
    int squares;            /* Bytes from there to where warps leave sums of squares of C's rows. */
    int fetchers;           /* Warps of the producer that fetch tiles. */
    int splitters;          /* Warps beside the producer that split elements into terms. */
    tw_tile terms;          /* The tile of each term of Y. Only with splitters. */
    int high, low;          /* Bytes from the start of a stage to Y's terms. */
    int shared_bytes;       /* Shared memory per block. */
    int exchange;           /* Bytes from the start of shared memory to where threads exchange sums. */
    int join;               /* Bytes from the start of shared memory to what blocks use to join sums. */
    int team_exchange;      /* Bytes that a team needs to exchange sums. */
    int registers;          /* Registers per thread at launch, estimated. */
    int blocks;             /* Blocks that an SM holds, by the estimate of registers. */
    int consumer_registers; /* Registers of a thread with sums, once the producer has given up most of its own. */
    int producer_registers; /* Registers that a producer's thread keeps. 0: registers are not moved, and the producer is
                               one warp. */
    int depth;              /* Elements along k that a group takes from a stage. */
    int step;               /* Elements along k that a step takes. */
} tw_gemm_plan;

/* Returns the columns of C that a block stores of a tile, with operands as they are. */
static inline int tw_gemm_stored_columns(const tw_gemm_config *c, bool gated) {
    return gated ? c->nl / 2 : c->nl;
}

/* Tells whether the blocks of a tile join their parts of k in a cluster. */
static inline bool tw_gemm_splits_in_cluster(const tw_gemm_config *c) {
    return c->kg > 1 && c->split == TW_JOIN_CLUSTER;
}

/* Derives the plan. Returns NULL, or why the configuration is illegal. */
const char *tw_gemm_plan_of(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p);

/* An operand: a thread's copies of it, and the rows of X (columns of Y) of the thread's sums. */
typedef struct tw_gemm_operand {
    const tw_gemm_tile *tile;
    bool whole;                         /* Rows (columns of Y) need no bounds check. */
    tw_val limit;                       /* m for X, n for Y. */
    tw_val matrix;                      /* Address of the block's matrix in the batch. */
    tw_val origin;                      /* The tile's first row (column of Y). */
    tw_val present;                     /* Parts of the tile to fetch. Only with tw_gemm_cuts_rows. */
    tw_val ld;                          /* Bytes from row to row (i64). */
    tw_val pointer;                     /* Variable: address of the thread's first copy of the next stage. */
    tw_val advance;                     /* Bytes from stage to stage (i64). */
    bool regular;                       /* The distances between a thread's copies are constants. */
    int rows[TW_GEMM_MAX_COPIES];       /* Regular: rows from the first copy to each. */
    int elements[TW_GEMM_MAX_COPIES];   /* Regular: elements along the row from the first copy to each. */
    tw_val step;                        /* Regular: bytes of rows[1] rows (i64). Unset if rows[1] is 0. */
    tw_val outer[TW_GEMM_MAX_COPIES];   /* Row of each copy in the tile. */
    tw_val inner[TW_GEMM_MAX_COPIES];   /* First element of each copy in its row. */
    tw_val offset[TW_GEMM_MAX_COPIES];  /* Irregular: bytes from `pointer` to each copy (i64). */
    tw_val inside[TW_GEMM_MAX_COPIES];  /* Predicate: the copy's row is within bounds. TW_NONE if `whole`. */
    tw_val to[TW_GEMM_MAX_COPIES];      /* Shared address of each copy in stage 0 (i32). */
    int to_offset[TW_GEMM_MAX_COPIES];  /* Bytes to add to that address. */
    tw_val last;                        /* Predicate: the thread has a last copy. TW_NONE: all threads have. */
    tw_val held[TW_GEMM_MAX_COPIES][4]; /* Variables that hold a copy between its load and its store. */
    tw_val row;                         /* The row of the previous copy. */
    tw_val base;                        /* Address of the thread's first fragment in stage 0. */
    tw_val first;                       /* Row (column of Y) in the tile of the thread's first sum. */
    int of[TW_GEMM_MAX_ACC];            /* Rows (columns of Y) from `first` to each sum. */
} tw_gemm_operand;

/* A stage's scales of blocks, for the rows of X or the columns of Y of a thread's sums. */
typedef struct tw_gemm_side_scales {
    int n;                         /* Number of scales. */
    int offset[TW_GEMM_MAX_ACC];   /* Rows (columns) from the first one to those of each scale. */
    int of[TW_GEMM_MAX_ACC];       /* The number of each sum's scale. */
    tw_val scale[TW_GEMM_MAX_ACC]; /* The scales. */
} tw_gemm_side_scales;

/* A team's turn to multiply. */
typedef struct tw_gemm_turn {
    tw_val is_first; /* Predicate: the tile is the block's first, so that there is nobody to wait for. */
    tw_val more;     /* Predicate: the turn is passed on. */
    tw_val index;    /* Variable: the tile's number among those of the block. Only if the product has groups. */
    tw_val group;    /* Variable: tw_groups_tile.group. Only if the product has groups. */
} tw_gemm_turn;

enum { TW_GEMM_WARP_UNITS = 8 /* The most units of a tile that a warp copies. */ };
/* Where the copies of a tape's stages are. The tape and the other operand each have a place of their own, since one may
   be copied ahead of the other. */
typedef struct tw_gemm_tape_walk {
    tw_val unit[TW_GEMM_WARP_UNITS];  /* Addresses of the tw_gemm_unit of the warp's units. */
    tw_val piece[TW_GEMM_WARP_UNITS]; /* Variables: addresses of these units of the tape's next stage. */
    tw_val in;                        /* Variable: the place of that stage in its chunk, in elements along k. */
    tw_val chunk;  /* Variable: the first element along k of the chunk of the other operand's next stage. */
    tw_val within; /* Variable: the place of that stage in the chunk, in elements of the tape's order. */
} tw_gemm_tape_walk;

/* The state of the generator. */
typedef struct tw_gemm_gen {
    tw_builder *b;
    const struct tw_gemm_frame *frame;
    const tw_gemm_variant *v;
    const tw_gemm_config *c;
    tw_gemm_plan plan;
    tw_type acc_type; /* Type of the sums. */

    struct {
        tw_val x, y, c, bias, mul, residual, workspace, counters;
        tw_val map_x, map_y, map_c; /* Tensor maps. Only with wgmma. map_c: only if tw_gemm_boxes_sent. */
        tw_val m, n, k, ldx, ldy, ldc, stride_x, stride_y, stride_c, chunk, tiles_m, tiles_n, tiles, streamed;
        tw_val alpha, beta, ends, groups, rows, rows_a, places, factors, squares;
        tw_val scale_rows, scale_columns, scale_a, scale_b, scales;
        tw_val sums, parts, share, eps; /* parts: vectors of sums (i32). share: 1 / k, or 1 / n (f32). */
        tw_val gains, scaled, residual_gains;
        tw_val stride_scale_rows, stride_scale_columns; /* Bytes from vector to vector (i64). */
        tw_val of_set;                                  /* Products of a set (i32). Only if the batch has sets. */
        tw_val set_x, set_y, set_c;                     /* Bytes from set to set (i64). */
        tw_val tape_chunk, tape_run;                    /* Elements along k of a tape's chunk, and of its runs (i32). */
        tw_val tape_chunks;                             /* With tape.apart: chunks of a unit (i32). */
    } arg;                                              /* The kernel's parameters. */
    tw_val tid;                                         /* The thread's number in the block. */
    tw_val lane;                                        /* Its number in the warp. */
    tw_val warp;                                        /* The warp's number in its group. */
    tw_val group;                                       /* The group's number, below kl. */
    tw_val team;                                        /* The team's number. TW_NONE: there is one team. */
    tw_val group_tid;                                   /* The thread's number in its group. */
    tw_val tile, split, batch; /* Numbers of the block's tile, its part of k, and its product in its set. */
    tw_val set;                /* The number of this set. TW_NONE: the batch has no sets. */
    tw_val shared;             /* Address of the block's shared memory. */
    tw_val next_stage;         /* The stage that copies between steps fill. TW_NONE: there are no such copies. */
    tw_val more;               /* Predicate: there is such a stage. */
    tw_val k_position;         /* Variable: the first k of the next stage to fetch. */
    tw_val k_begin, k_end;     /* The block's part of k. */
    tw_val stages;             /* Number of stages of the block's part of k. */
    tw_val all_stages;         /* Number of stages of all of k. */
    tw_stream stream;          /* The current tile. Only if tiles are cut along k. */
    tw_ring told;              /* How other warps are told of tiles. Only if the product has groups. */
    tw_val matrix;             /* The group of the current tile. Only if the product has groups. */
    tw_gemm_turn turn;         /* Only with teams. */
    tw_gemm_operand x, y;      /* The operands. */
    int columns;               /* Columns of C that a block stores of a tile. Only with wgmma. */
    tw_gemm_tape_walk walk;    /* The next stages of a tape. Only in its producer. */
    tw_val squares[TW_GEMM_MAX_ACC / 4];     /* Variables: sums of squares of the thread's rows of C in a tile. */
    tw_val means[4];                         /* Variables: sums of the cells of the thread's rows of C in a tile. */
    int n_squares;                           /* Elements of `squares` in use. Only with swapped operands. */
    int line_of_square[TW_GEMM_MAX_ACC / 4]; /* Columns of Y from `first` to each sum's. */
    struct tw_gemm_ahead *ahead;             /* Operands of the epilogue. Only with boxes. */
    tw_val parts[TW_GEMM_PARTS];             /* Parts of sums of the thread's rows that were loaded ahead. */
    tw_val next_part;                        /* Address of the next one of the thread's first row. */
    tw_val factors[4];                       /* What the thread's rows are multiplied by. */
    tw_val offsets[4];                       /* What is added to the thread's rows of a residual, after the factors. */
    struct {
        int offset; /* Bytes from the thread's first column of C to the column. */
        tw_val of;
    } gains[TW_GEMM_GAINS_KEPT]; /* Gains that were loaded. Only with swapped operands. */
    int n_gains;
    tw_gemm_side_scales scales[2]; /* The scales of blocks, of X and Y. */
    /* Variables: the sums, of each of the ks parts. If sums are promoted, acc[1] has those of a stage; if sums of a
       narrow B are scaled, those of a group. */
    tw_val acc[2][TW_GEMM_MAX_ACC];
    tw_val fragment[TW_NARROW_FRAGMENTS]; /* Variables: registers of A. Only if B is narrow. */
    tw_val pending[4];                    /* Variables: scales of the sums of a group of a narrow B. */
    tw_val terms[2][16]; /* Variables: high and low terms of a thread's elements of X. Only of tf32x3 with wgmma. */
} tw_gemm_gen;

/* copy.c: prepares the copies of an operand's tile from global to shared memory. */
void tw_gemm_copy_prepare(tw_gemm_gen *g, tw_gemm_operand *o, int shared_offset);
/* Issues asynchronous copies: part `part` of `parts` of the next stage, if `more` holds. TW_NONE: always. */
void tw_gemm_copy_issue(tw_gemm_gen *g, tw_val stage, tw_val more, int part, int parts);
/* Issues a part of the copies of the next stage, after step `step` of the `steps` steps of a stage. */
void tw_gemm_copy_between(tw_gemm_gen *g, int step, int steps);
/* Goes on to the following stage, after all parts were issued. */
void tw_gemm_copy_advance(tw_gemm_gen *g);
/* Copies through registers: declares their variables, loads a stage into them, and stores them to a stage. */
void tw_gemm_copy_declare(tw_gemm_gen *g);
void tw_gemm_copy_load(tw_gemm_gen *g);
void tw_gemm_copy_store(tw_gemm_gen *g, tw_val stage);

/* A way to compute products. tw_gemm_config.mma selects it: SIMT (simt.c), mma.sync (tensor.c) or wgmma (wgmma.c). */
typedef struct tw_gemm_way {
    bool tensor_copies; /* Tensor copies fetch A and B. */
    /* Sets the plan except its shared memory. Returns NULL, or why the configuration is illegal. */
    const char *(*plan)(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p);
    void (*build)(tw_gemm_gen *g);

    int most_code; /* Pipeline: limit of accumulators * depth, since a stage is unrolled. */
    /* Pipeline: sets the plan's threads, accumulators and steps. Returns NULL, or why the configuration is illegal. */
    const char *(*shape)(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p);
    /* Pipeline: counts the values of one step's fragments. */
    int (*fragments)(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_gemm_plan *p);
    /* Pipeline: sets base, first and of in both operands. */
    void (*prepare)(tw_gemm_gen *g);
    /* Pipeline: adds a stage to the sums, and calls tw_gemm_copy_between after each step. */
    void (*stage)(tw_gemm_gen *g, tw_val stage);
} tw_gemm_way;
extern const tw_gemm_way tw_gemm_simt, tw_gemm_mma, tw_gemm_wgmma;
const tw_gemm_way *tw_gemm_way_of(const tw_gemm_config *c);

/* pipeline.c: tw_gemm_way.plan and build of SIMT and mma.sync, whose threads copy tiles themselves. */
const char *tw_gemm_pipeline_plan(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t,
                                  tw_gemm_plan *p);
void tw_gemm_pipeline(tw_gemm_gen *g);
/* Computes the offset in bytes of an element in a tile in shared memory. `row` is X's row, or Y's column. */
tw_val tw_gemm_element_offset(tw_builder *b, const tw_gemm_tile *t, tw_val row, tw_val k);

/* boxed.c: boxes of C in shared memory. */
int tw_gemm_boxed_bytes(const tw_gemm_config *c, bool gated); /* Shared memory of the boxes of a team's warps. */
bool tw_gemm_boxes_sent(const tw_gemm_variant *v);            /* The copy engine stores boxes, and not lanes. */
/* Makes the tensor map of C. `stored_columns` is from tw_gemm_stored_columns. */
tw_tensor_map tw_gemm_box_map(const tw_gemm_matrix *m, uint64_t address, int stored_columns, const tw_gemm_variant *v);
/* staged.c: rearranges sums for their stores, as tw_gemm_config.staged says. */
void tw_gemm_rearrange_sums(tw_gemm_gen *g);
int tw_gemm_staged_bytes(const tw_gemm_config *c); /* Shared memory that it takes. */
tw_val tw_gemm_exchange(tw_gemm_gen *g);           /* Shared address where the thread's team exchanges sums. */

/* scale.c: multiplies sums from to below - 1 by the scales of their rows and columns. Integer sums are replaced by new
   variables, so that acc[0] and acc_type must be put back afterwards. */
void tw_gemm_scale(tw_gemm_gen *g, int from, int below);
/* Returns the attributes of a load of `n` scales. An early launch must not count on read-only memory, since the launch
   before may write scales while this one runs. */
tw_attrs tw_gemm_scales_access(const tw_gemm_gen *g, int offset, int n);

/* sums.c: begins to find what the tile's rows of C are divided by, if the product has sums. All threads of a team call
   it before they multiply the tile. */
void tw_gemm_sums_begin(tw_gemm_gen *g);
int tw_gemm_sums_registers(const tw_gemm_gen *g); /* Registers that it takes until the tile is multiplied. */
void tw_gemm_sums_end(tw_gemm_gen *g); /* Ends that. All threads of a warp call it when the tile is multiplied. */
/* Returns the factor of a row of X (with swapped operands: column of Y) of the thread, `row` behind its first. */
tw_val tw_gemm_sums_factor(tw_gemm_gen *g, int row);
/* Tells whether factors of A's rows have alpha in them, so that sums are multiplied by both at once, where alpha is. */
bool tw_gemm_sums_late(const tw_gemm_gen *g);
/* Returns what a sum is multiplied by in the place of alpha: alpha, or with tw_gemm_sums_late its row's factor, too. */
tw_val tw_gemm_alpha(tw_gemm_gen *g, int sum);
tw_val tw_gemm_sums_offset(tw_gemm_gen *g, int row); /* What is added to a row of a residual that was multiplied. */
int tw_gemm_sums_bytes(const tw_gemm_config *c, const tw_gemm_plan *p); /* Shared memory of a team. */

/* squares.c: shared memory of a team. */
int tw_gemm_squares_bytes(const tw_gemm_config *c, const tw_gemm_plan *p);

/* blocks.c: loads the blocks' scales of a stage of the block's part of k. */
void tw_gemm_blocks_load(tw_gemm_gen *g, tw_val stage);
/* Multiplies the stage's sums by them, and adds them to the tile's. */
void tw_gemm_blocks_promote(tw_gemm_gen *g);

/* gate.c: multiplies gates and values. Half as many sums are left, and half as many rows of X or columns of Y. */
void tw_gemm_gate(tw_gemm_gen *g);

/* What a kind of product may replace, so that its kernel keeps the loops of every way to multiply: which tile is next,
   where its operands lie, and what becomes of its sums. */
typedef struct tw_gemm_frame {
    /* Sets x.origin, y.origin, tile, split and batch from a tile's number. */
    void (*find_tile)(tw_gemm_gen *g, tw_val number);
    /* Sets x.matrix and y.matrix. Unused with tensor copies. */
    void (*locate)(tw_gemm_gen *g);
    /* Fetches a tile of X or Y by tensor copies: to a shared address, from the element k on. One thread calls it.
       `scales_to` is the shared address of a narrow X's scales. */
    void (*fetch)(tw_gemm_gen *g, bool is_x, tw_val to, tw_val scales_to, tw_val k, tw_val full);
    void (*finish)(tw_gemm_gen *g); /* Joins the sums' parts, and stores them. All threads with sums call it. */
    /* Stores sums from to to - 1, which are scaled, gated and exchanged among lanes. Not of boxed stores. */
    void (*store)(tw_gemm_gen *g, int from, int to);
    void (*declare)(tw_gemm_gen *g); /* Adds parameters of the frame's own. NULL: there are none. */
    bool eights;                     /* Lanes that exchange sums get eight columns each, whatever C's type. */
    void *context;                   /* For these functions. */
} tw_gemm_frame;
extern const tw_gemm_frame tw_gemm_plain_frame; /* frame.c: the frame of a plain product. */
/* Sets the strides of a batch that are 0, and makes one set of sets that continue one another. TW_ERR_USAGE: they make
   no sense. */
tw_status tw_gemm_batch_complete(tw_gemm_problem *p, tw_diag *diag);

/* Computes the elements from a set to the next if sets continue one another. `stride` is from product to product. */
int64_t tw_gemm_next_set(const tw_gemm_problem *p, int64_t stride);

/* Returns the bytes from the first of the batch's matrices to the tile's. `stride` is the bytes from one to the next,
   `set` from set to set. */
tw_val tw_gemm_batch_offset(tw_gemm_gen *g, tw_val stride, tw_val set);
/* Returns the address of the tile's matrix in a batch. `stride` is the bytes from one to the next. With pointers both
   parameters are of the matrices' addresses. */
tw_val tw_gemm_batch_matrix(tw_gemm_gen *g, tw_val first, tw_val stride, tw_val set);
/* Builds a kernel as tw_gemm_build does, with another frame. */
tw_kernel *tw_gemm_build_frame(const tw_gemm_frame *f, const tw_gemm_variant *v, const tw_gemm_config *c,
                               const tw_target *t);

/* kind.c: plans a kernel with another frame, as tw_gemm_plan_words does. */
struct tw_plan;
tw_status tw_gemm_plan_frame(struct tw_plan *out, const tw_gemm_frame *f, char *words, char *configuration,
                             const tw_target *target, tw_diag *diag);

/* narrow.c: how a narrow B and its scales are stored. */
tw_narrow tw_gemm_narrow_of(tw_gemm_type type, tw_gemm_narrow narrow, int64_t scales, bool scale_sums);
tw_gemm_matrix tw_gemm_packed_matrix(const tw_gemm_problem *p);
tw_gemm_matrix tw_gemm_scales_matrix(const tw_gemm_problem *p);

/* tape.c: returns why the configuration is not legal for a tape, or NULL. */
const char *tw_gemm_tape_plan(const tw_gemm_variant *v, const tw_gemm_config *c);
/* Tells whether X or Y is a tape. */
bool tw_gemm_is_tape(const tw_gemm_variant *v, const tw_gemm_config *c, bool is_x);
/* Returns the tile of X or Y in a stage. */
tw_tile tw_gemm_tile_of(const tw_gemm_variant *v, const tw_gemm_config *c, bool is_x);
/* Returns the producer's warps that fetch a tape. */
int tw_gemm_tape_fetchers(const tw_gemm_config *c);
/* Returns the number of the warp among those that fetch. All lanes of these warps call this and what follows. */
tw_val tw_gemm_tape_fetcher(tw_gemm_gen *g);
/* Opens the block of a lane of the warp, always the same one. */
tw_scope tw_gemm_tape_elect(tw_gemm_gen *g);
/* Finds the warp's units of the current tile, and the tile's first stage. Units behind the last are the last one. */
void tw_gemm_tape_find(tw_gemm_gen *g);
/* Tells a stage's `full` how many bytes the calling warp brings, of the stage's `bytes` (i32). The first warp brings
   the other operand, too. */
void tw_gemm_tape_expect(tw_gemm_gen *g, tw_val full, tw_val bytes);
/* Copies the warp's units of the tape's next stage to the tile at `to`, and goes on to the stage behind. */
void tw_gemm_tape_fetch(tw_gemm_gen *g, tw_val to, tw_val full);
/* Computes the first element along k of the other operand's next stage (i32). */
tw_val tw_gemm_tape_element(tw_gemm_gen *g);
/* Goes on to the other operand's stage behind. */
void tw_gemm_tape_advance(tw_gemm_gen *g);
int64_t tw_gemm_tape_of_unit(const tw_gemm_problem *p); /* Counts what the table of a tape has for a unit. */
void tw_gemm_tape_arguments(const tw_gemm_problem *p, tw_arguments *to);

/* gather.c: copies rows of A by their numbers. All threads of the producer's warpgroup call these. */
typedef struct tw_gemm_gather {
    const tw_ring *ring;
    const tw_ring_cursor *filled; /* The next stage to fill. */
    tw_ring_cursor landed;        /* The oldest stage whose copies are on their way. */
    tw_val ahead;                 /* Variable: the number of these stages. */
    tw_val thread;                /* The thread's number in the warpgroup. */
} tw_gemm_gather;
/* `first` is the warpgroup's first thread. */
tw_gemm_gather tw_gemm_gather_begin(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c, int first);
/* Fills a stage of the current tile after another. The thread where `copies` holds fetches the other operand. */
void tw_gemm_gather_tile(tw_gemm_gen *g, const tw_gemm_gather *x, tw_val copies);
/* Waits for the copies that are on their way. */
void tw_gemm_gather_end(tw_gemm_gen *g, const tw_gemm_gather *x);

/* plan.c: how the tiles of a problem are dealt to blocks. */
typedef struct tw_gemm_tiling {
    int64_t rows, columns; /* Tiles of a product along X's rows and Y's columns, rounded up to whole clusters. */
    int64_t tiles;         /* Number of tiles of all products. */
    int64_t streamed;      /* Number of tiles that stream-K cuts along k (tw_gemm_stream). */
    int64_t blocks;        /* Number of the grid's blocks, divided by kg. */
} tw_gemm_tiling;
tw_gemm_tiling tw_gemm_tiling_of(const tw_gemm_problem *p, const tw_gemm_config *c);
/* wgmma_plan.c: tells whether X is fetched and multiplied in parts of 64 rows, of which a tile may lack the last ones.
 */
bool tw_gemm_cuts_rows(const tw_gemm_variant *v, const tw_gemm_config *c);
/* wgmma_plan.c: counts the blocks of a cluster that fetch a tile of X, or of Y, together. */
int tw_gemm_fetchers(const tw_gemm_config *c, bool is_x);
/* frame.c: returns the barrier of the threads that hold sums. */
tw_meeting tw_gemm_meeting(const tw_gemm_gen *g);

/* epilogue.c: stores sums from to to - 1. */
void tw_gemm_epilogue_store(tw_gemm_gen *g, int from, int to);

#endif
