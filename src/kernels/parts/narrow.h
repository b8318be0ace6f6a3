/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of 8- or 4-bit integers that wgmma multiplies from registers. The integers are packed in the order of the
   registers of wgmma's A (ir/ops.def, wgmma_rs), so that threads fetch them by 16-byte loads without bank conflicts and
   need no exchange. A block has 64 rows of 64 integers. A packed matrix has the blocks of 64 rows one behind another
   along k, and then those of the next 64 rows. Rows are padded to a whole number of blocks, and k to a multiple of 256.

   A matrix has one scale for every so many elements along k of a row, its group. Blocks of 64 scales, one for each row
   of a block of integers, follow one another in the order of groups, and then of rows. */
#ifndef TW_KERNELS_PARTS_NARROW_H
#define TW_KERNELS_PARTS_NARROW_H

#include "kernels/parts/tile.h"

enum {
    TW_NARROW_ROWS = 64,  /* Rows of a block. */
    TW_NARROW_K = 64,     /* Elements of a block along k. */
    TW_NARROW_DEPTH = 256 /* Elements that k is padded to a multiple of. */
};

typedef struct tw_narrow {
    int bits;     /* Bits of an integer: 8 or 4, two's complement. */
    tw_type type; /* Element type of the product: f16 or bf16. Scales of groups have it, too. */
    int group;    /* Elements along k with a common scale, 32 or a multiple of 64. 0: integers are multiplied alone. */
    /* Scales multiply the sums of a group in f32. False: they multiply the integers, rounded to `type`. */
    bool on_sums;
} tw_narrow;

/* Sizes in bytes of a block of integers, and of the scales of a group of 64 rows. */
int tw_narrow_block_bytes(const tw_narrow *n);
enum { TW_NARROW_SCALE_BYTES = TW_NARROW_ROWS * 2 };
/* Counts the blocks of integers along k, and the groups. */
int64_t tw_narrow_blocks(int64_t k);
int64_t tw_narrow_groups(const tw_narrow *n, int64_t k);
/* Computes an integer's place in its block in bits, and the place of a row's scale in its block in elements. */
int tw_narrow_bit(const tw_narrow *n, int row, int k);
int tw_narrow_scale(int row);

/* A tile in a stage of shared memory: `extent` rows, `depth` elements along k. */
typedef struct tw_narrow_tile {
    tw_narrow of;
    int extent; /* A multiple of 64. */
    int depth;  /* 64, 128 or 256. Groups have a part of it, or a multiple. */
} tw_narrow_tile;
int tw_narrow_tile_bytes(const tw_narrow_tile *t);
/* Sizes in bytes of a tile's scales. */
int tw_narrow_tile_scale_bytes(const tw_narrow_tile *t);

typedef struct tw_narrow_copy {
    tw_val integers, scales; /* Global addresses of the packed matrix, and of its scales. */
    tw_val rows, k_extent;   /* Extents of the matrix (i32). */
    tw_val row, k;           /* The tile's first row, a multiple of 64, and its first element along k (i32). */
    tw_val to, scales_to;    /* Shared addresses of the tile and of its scales. */
    tw_val full;             /* Address of the mbarrier that counts the bytes. */
} tw_narrow_copy;
/* Fetches a tile and its scales by bulk copies. One thread calls it. Rows behind the last block arrive as those of the
   last block. */
void tw_narrow_fetch(tw_builder *b, const tw_narrow_tile *t, const tw_narrow_copy *c);

enum {
    TW_NARROW_FRAGMENTS = 32, /* Registers of the fragments of two parts. */
    TW_NARROW_VECTORS = 8,    /* The most 16-byte vectors of 64 rows that a thread loads from a tile. */
    TW_NARROW_GROUPS = 8      /* The most groups of 64 rows in a tile. */
};

/* A warpgroup's product of some rows of a tile with a tile of B. It is issued in parts. While the tensor cores
   multiply a part, threads convert the next one. */
typedef struct tw_narrow_product {
    const tw_narrow_tile *x;
    const tw_tile *y;       /* Tile of B. All of its columns are multiplied. */
    int rows;               /* Rows to multiply: 64 or 128. */
    tw_val x_at;            /* Shared address of the thread's first 16 bytes of the first row's block. */
    tw_val scales_at;       /* Shared address of the scales of the thread's first rows. */
    tw_val y_at;            /* Descriptor of B, from tw_tile_descriptor. */
    tw_val add;             /* Predicate: add to the sums. False: the sums start from zero. Unused with `on_sums`. */
    tw_val *sums;           /* Variables: rows / 64 * tw_wgmma_registers() sums. */
    const tw_val *fragment; /* Variables (i32): TW_NARROW_FRAGMENTS registers of A. */
    tw_val *partial;        /* Variables: the sums of one group, as many as `sums`. Only with `on_sums`. */
    const tw_val *pending;  /* Variables (f32): the scales of `partial`, two for every 64 rows. Only with `on_sums`. */
    /* Integers and scales that the thread has loaded of the stage. They are zero before the stage's first part. */
    tw_val words[2][TW_NARROW_VECTORS][4];
    tw_val scales[2][TW_NARROW_GROUPS][2];
} tw_narrow_product;

/* Computes the offsets in bytes of a warpgroup's thread for x_at and scales_at. `thread` (i32) is its number in the
   warpgroup. */
tw_val tw_narrow_thread(tw_builder *b, tw_val thread);
tw_val tw_narrow_thread_scales(tw_builder *b, tw_val thread);

/* Parts of a stage's product, an even number. */
int tw_narrow_parts(const tw_narrow_product *p);
/* Starts all sums from zero, if scales multiply sums. Called before the first stage. */
void tw_narrow_begin(tw_builder *b, const tw_narrow_product *p);
/* Adds what is pending to the sums. Called when the last stage's products are over. */
void tw_narrow_finish(tw_builder *b, const tw_narrow_product *p);
/* Issues parts `from` to `to` - 1. After each, all products before it are over. */
void tw_narrow_multiply(tw_builder *b, tw_narrow_product *p, int from, int to);

#endif
