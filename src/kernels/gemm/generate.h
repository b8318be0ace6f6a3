/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the generator share. The kernel computes X * Y: X has the tile's rows and Y its columns; X is A and
   Y is B, or, swapped, X is B and Y is A, both transposed. */
#ifndef TW_KERNELS_GEMM_GENERATE_H
#define TW_KERNELS_GEMM_GENERATE_H

#include "ir/builder.h"
#include "kernels/gemm/gemm.h"
#include "kernels/parts/meet.h"
#include "kernels/parts/walk.h"

/* Returns why a configuration is not legal. */
#define REFUSE(condition, reason)                                                                                      \
    do {                                                                                                               \
        if (condition) return reason;                                                                                  \
    } while (0)

static inline int tw_gemm_round_up(int x, int to) {
    return (x + to - 1) / to * to;
}

enum { TW_GEMM_MAX_ACC = 256, TW_GEMM_MAX_COPIES = 32 };
/* Numbers of barriers where not every thread of a block takes part: those who wait for a warp that copies to have
   begun, those who hold sums. */
enum { TW_GEMM_BEGIN = 1, TW_GEMM_SUMS = 2 };

/* The shape of an operand's tile: in global memory `outer` rows of `inner` contiguous elements, in shared memory rows
   of k
   (`k_stored`) or columns of it. Both legality and the generator derive it with tw_gemm_tile_of. */
typedef struct tw_gemm_tile {
    bool k_major, k_stored;
    bool transposed;  /* k_major, and yet stored by columns of k */
    int extent;       /* rows of X or columns of Y */
    int es;           /* bytes an element */
    int vec;          /* bytes a copy moves */
    int outer, inner; /* elements */
    int width; /* elements of a row that neighbouring threads copy: all, or 8 where the tile is transposed on the way */
    int per_row, total, per_thread; /* copies: of `width` elements, of all, of a thread */
    int pitch;                      /* bytes between rows in shared memory */
    int bytes;                      /* of a stage */
} tw_gemm_tile;

/* What follows from a configuration. */
typedef struct tw_gemm_plan {
    tw_gemm_tile x, y;
    tw_mma_kind mma;
    int tm, tn;  /* threads of a group along rows and columns, or warps with tensor cores */
    int lanes_m; /* of a warp along rows (plain threads) */
    int group;   /* threads of one of the kl groups */
    int threads;
    int accumulators; /* registers of one sum; ks times as many in all */
    int stage_bytes, shared_bytes;
    int vx, vy; /* plain threads: elements a fragment load brings, along k where the tile is stored so */
    int depth;  /* of k that a group takes from a stage */
    int step;   /* of k that a step takes */
} tw_gemm_plan;

/* NULL, or why it cannot be. */
const char *tw_gemm_plan_of(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p);

typedef struct tw_gemm_operand {
    const tw_gemm_tile *tile;
    bool whole;     /* no bounds along rows (columns) */
    tw_val limit;   /* m or n */
    tw_val origin;  /* of the tile */
    tw_val ld;      /* i64, bytes */
    tw_val pointer; /* variable: the next stage's first copy of this thread */
    tw_val advance; /* i64, bytes from stage to stage */
    bool regular;   /* copies lie apart by constants: so many rows, and so many elements */
    int rows[TW_GEMM_MAX_COPIES], elements[TW_GEMM_MAX_COPIES];
    tw_val step; /* i64, regular: bytes of the least number of rows above 0 */
    int step_rows;
    tw_val outer[TW_GEMM_MAX_COPIES], inner[TW_GEMM_MAX_COPIES]; /* of each copy */
    tw_val offset[TW_GEMM_MAX_COPIES];                           /* irregular: i64 bytes from `pointer` */
    tw_val inside[TW_GEMM_MAX_COPIES];                           /* predicate: along rows; none where whole */
    tw_val to[TW_GEMM_MAX_COPIES];                               /* i32 address in stage 0 */
    int to_offset[TW_GEMM_MAX_COPIES];
    tw_val last;                        /* predicate: the thread takes part in the last copy; none: all do */
    tw_val held[TW_GEMM_MAX_COPIES][4]; /* through registers: variables on their way */
    tw_val row;                         /* that the copy before came from */
} tw_gemm_operand;

typedef struct tw_gemm_gen {
    tw_builder *b;
    const tw_gemm_variant *v;
    const tw_gemm_config *c;
    const tw_target *target;
    tw_gemm_plan plan;
    tw_type acc_type;
    struct {
        tw_val x, y, c, bias, mul, residual, workspace, counters;
        tw_val map_x, map_y; /* mma 2 */
        tw_val m, n, k, ldx, ldy, ldc, stride_x, stride_y, stride_c, chunk, tiles_m, tiles_n, alpha, beta;
    } arg;
    tw_val tid, lane, warp; /* warp: within its group */
    tw_val group;           /* which of the kl */
    tw_val group_tid;
    tw_val tile, split, batch; /* block's */
    tw_val shared;
    tw_val next_stage, more;  /* what the copies between steps are for */
    tw_val k_position, k_end; /* k_position: variable, of the next stage to be fetched */
    tw_gemm_operand x, y;
    tw_val acc[2][TW_GEMM_MAX_ACC];                          /* variables, [ks] */
    tw_val row, column;                                      /* of the thread's first cell in the block's tile */
    int row_of[TW_GEMM_MAX_ACC], column_of[TW_GEMM_MAX_ACC]; /* each accumulator's, from there */
    tw_val x_base, y_base;                                   /* addresses of the thread's first fragment in stage 0 */
} tw_gemm_gen;

/* copy.c: from global to shared memory. */
void tw_gemm_copy_prepare(tw_gemm_gen *g, tw_gemm_operand *o, const tw_gemm_tile *t, tw_val matrix, tw_val k_begin,
                          int shared_offset);
/* Asynchronous: part `part` of `parts` of the next stage's copies, where `more` holds (none: always). */
void tw_gemm_copy_issue(tw_gemm_gen *g, tw_val stage, tw_val more, int part, int parts);
/* After all of its parts: on to the stage after it. */
void tw_gemm_copy_advance(tw_gemm_gen *g);
/* Through registers: declared once, loaded, and stored. */
void tw_gemm_copy_declare(tw_gemm_gen *g);
void tw_gemm_copy_load(tw_gemm_gen *g);
void tw_gemm_copy_store(tw_gemm_gen *g, tw_val stage);

/* Where a kernel begins along k. */
typedef struct tw_gemm_range {
    tw_val x, y;    /* Addresses of this batch's matrices. */
    tw_val k_begin; /* The first k of this split. */
    tw_val count;   /* Stages. */
} tw_gemm_range;

/* Called after each of `steps` steps of a stage's sums: copies are dealt out among them. */
typedef void tw_gemm_between(tw_gemm_gen *g, int step, int steps);

/* simt.c, tensor.c: how warps of the pipeline compute sums. */
typedef struct tw_gemm_sums {
    bool tensor;   /* By mma.sync. */
    int most_code; /* The most that accumulators times depth may be: a stage is unrolled. */
    /* Sets what a plan says of threads, accumulators and steps. Returns NULL, or why that cannot be. */
    const char *(*shape)(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p);
    void (*prepare)(tw_gemm_gen *g); /* Sets acc, row, column, row_of, column_of and the bases. */
    void (*stage)(tw_gemm_gen *g, tw_val stage, tw_gemm_between *between);
} tw_gemm_sums;

/* pipeline.c: the kernel of warps that copy by themselves. */
void tw_gemm_pipeline(tw_gemm_gen *g, const tw_gemm_sums *sums, const tw_gemm_range *r);
/* pipeline_plan.c: its plan, as tw_gemm_plan_of; and its registers, with those of a step's fragments. */
const char *tw_gemm_pipeline_plan(const tw_gemm_sums *sums, const tw_gemm_variant *v, const tw_gemm_config *c,
                                  const tw_target *t, tw_gemm_plan *p);
int tw_gemm_pipeline_registers(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_gemm_plan *p, int fragments);

/* A way to compute products, by tw_gemm_config.mma: SIMT, mma.sync or wgmma. */
typedef struct tw_gemm_way {
    bool tensor_copies; /* A and B are fetched by tensor copies. */
    const char *(*plan)(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p);
    int (*registers)(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_gemm_plan *p); /* Of a thread. */
    void (*build)(tw_gemm_gen *g, const tw_gemm_range *r);
} tw_gemm_way;
extern const tw_gemm_way tw_gemm_simt, tw_gemm_mma, tw_gemm_wgmma;
const tw_gemm_way *tw_gemm_way_of(const tw_gemm_config *c);

/* wgmma.c: the tensor map of an operand as stored. Its boxes are as wide as the swizzle. */
tw_tensor_map tw_gemm_wgmma_map(uint64_t address, int64_t extent, int64_t k, int64_t row_bytes, bool k_major,
                                const tw_gemm_config *c, bool is_x);

/* staged.c: sums change places, so that neighbouring threads hold neighbours of a line of C. */
void tw_gemm_stage_sums(tw_gemm_gen *g);
int tw_gemm_staged_bytes(const tw_gemm_config *c); /* Shared memory that this takes. */

/* tile.c: the order of tiles; and where the tile of this number is: origins, split and batch. */
tw_walk tw_gemm_walk(const tw_gemm_gen *g);
void tw_gemm_find_tile(tw_gemm_gen *g, tw_val number);

/* The barrier of the threads that hold sums. */
tw_meeting tw_gemm_meeting(const tw_gemm_gen *g);

/* split.c: brings the parts of ks, kl and kg together, and has them stored by whoever holds the sums. */
void tw_gemm_finish(tw_gemm_gen *g);

/* epilogue.c: stores the cells of accumulators from..to-1. */
void tw_gemm_epilogue_store(tw_gemm_gen *g, int from, int to);

#endif
