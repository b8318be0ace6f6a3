/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of 16-bit elements in shared memory, as tensor copies write them and wgmma reads them (ir/wgmma.def). A tile
   has `extent` rows of A, or columns of B, and `depth` elements of each along k. It consists of boxes, one behind the
   other. A box has lines of `width` elements, swizzled over their whole length. */
#ifndef TW_KERNELS_PARTS_TILE_H
#define TW_KERNELS_PARTS_TILE_H

#include "device/tensor_map.h"
#include "ir/builder.h"

enum { TW_TILE_WIDTH = 64 /* elements of the longest line */, TW_TILE_ALIGN = 1024 /* of a tile's address */ };

typedef struct tw_tile {
    bool k_major; /* A line lies along k. Else along rows of A, or columns of B. */
    int extent;   /* Rows of A, or columns of B. */
    int depth;    /* Elements along k. */
    int width;    /* Elements of a line: 64, 32 or 16. */
    int lines;    /* Lines of a box. */
    int boxes;    /* Boxes of the tile. */
} tw_tile;

/* The tile with the longest lines. `depth` is a multiple of 64 where lines lie along k. */
tw_tile tw_tile_of(bool k_major, int extent, int depth);
int tw_tile_bytes(const tw_tile *t);

/* Offset in bytes from the tile's beginning to element (row, k). `row` is a multiple of 8, and k of 16. */
int tw_tile_offset(const tw_tile *t, int row, int k);

/* The tensor map of a matrix of `extent` x `k` elements, whose rows in memory are `row_bytes` apart. Where `blocks` is
   more than 1, so many blocks of a cluster fetch a tile together (tw_tile_fetch). */
tw_tensor_map tw_tile_map(const tw_tile *t, uint64_t address, int64_t extent, int64_t k, int64_t row_bytes, int blocks);

typedef struct tw_tile_copy {
    tw_val map;    /* The tensor map, a parameter. */
    tw_val to;     /* Shared address of the tile. */
    tw_val origin; /* The tile's first row of A, or column of B (i32). */
    tw_val k;      /* The tile's first element along k (i32). */
    tw_val full;   /* Address of the mbarrier that counts the bytes. */
    int blocks; /* Blocks that fetch the tile together: each fetches a part, by multicast for all. 1: no multicast. */
} tw_tile_copy;

/* Fetches a tile by tensor copies. One thread calls it. Elements outside of the matrix arrive as zeros. */
void tw_tile_fetch(tw_builder *b, const tw_tile *t, const tw_tile_copy *c);

/* The lower word of wgmma's descriptor for a tile at a shared address. Adding bytes / 16 moves the tile. */
tw_val tw_tile_descriptor(tw_builder *b, const tw_tile *t, tw_val address);

/* A product of two tiles by a warpgroup. */
typedef struct tw_tile_product {
    tw_wgmma_kind kind; /* Of f16 or bf16. */
    const tw_tile *x;   /* A. */
    const tw_tile *y;   /* B; all of its columns are multiplied. */
    int rows;           /* Rows of A, a multiple of 64, from the one that `x_at` names on. */
    tw_val x_at;        /* A's descriptor, from tw_tile_descriptor. */
    tw_val y_at;        /* B's. */
    tw_val add;         /* A predicate: false starts from zeros. */
    tw_val *sums;       /* Variables: rows / 64 times the registers of tw_wgmma_registers(). */
} tw_tile_product;

/* Issues the product between a wgmma fence and a commit. The sums may not be touched before a wgmma_wait. */
void tw_tile_multiply(tw_builder *b, const tw_tile_product *p);

#endif
