/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of 8-, 16- or 32-bit elements in shared memory. Tensor copies write them, and wgmma reads them (ir/wgmma.def).
   A tile has `extent` rows of A, or columns of B, with `depth` elements of each along k. It consists of consecutive
   boxes. A box has lines of `width` elements, and the swizzle is as wide as a line.

   A tile of pieces has 16-bit elements that bulk copies brought. A piece has eight rows (columns of B) of 32 elements
   along k, as a box of 64-byte lines has eight lines. All pieces of eight rows follow one another. */
#ifndef TW_KERNELS_PARTS_TILE_H
#define TW_KERNELS_PARTS_TILE_H

#include "device/tensor_map.h"
#include "ir/builder.h"

enum {
    TW_TILE_LINE = 128,   /* Bytes of the longest line. */
    TW_TILE_ALIGN = 1024, /* Alignment of a tile's address in bytes. */
    TW_TILE_ROWS = 8,     /* Rows of a piece. */
    TW_TILE_PIECE_LINE = 64,
    TW_TILE_PIECE = TW_TILE_ROWS * TW_TILE_PIECE_LINE /* Bytes of a piece. */
};

typedef struct tw_tile {
    bool k_major; /* True: a line lies along k. False: along rows of A, or columns of B. */
    int es;       /* Bytes of an element: 1, 2 or 4. */
    int extent;   /* Rows of A, or columns of B. */
    int depth;    /* Elements along k. */
    int width;    /* Elements of a line, which has 128, 64 or 32 bytes. */
    int lines;    /* Lines of a box. */
    int boxes;    /* Boxes of the tile. */
    bool pieces;  /* The tile is one of pieces. `lines` and `boxes` then only count its bytes. */
} tw_tile;

/* Makes a tile with the longest possible lines. `es` is the bytes of an element. If lines lie along k, these are a
   power of two times `depth`, at least 32 bytes. Otherwise elements have two bytes. */
tw_tile tw_tile_of(bool k_major, int es, int extent, int depth);
/* Makes a tile of pieces. `depth` is a multiple of 32. */
tw_tile tw_tile_of_pieces(int extent, int depth);
/* Makes a tile's lines, which lie along k, no longer than `most` elements, a multiple of 32 bytes. */
tw_tile tw_tile_cut(tw_tile t, int most);
int tw_tile_bytes(const tw_tile *t);

/* Computes the offset of element (row, k) in bytes. `row` is a multiple of 8, and `k` of 32 bytes. */
int tw_tile_offset(const tw_tile *t, int row, int k);

/* Matrices that tiles are cut from. */
typedef struct tw_tile_matrices {
    uint64_t address;     /* Device address of the first. */
    int64_t extent, k;    /* Elements of each. */
    int64_t row_bytes;    /* Bytes from row to row in memory. */
    int64_t count;        /* Number of matrices: the map's third dimension. 0: one matrix, and no third dimension. */
    int64_t matrix_bytes; /* Bytes from matrix to matrix. Only with a third dimension. */
    int64_t sets;         /* Number of sets of `count` matrices: the map's fourth dimension. 0: no fourth dimension. */
    int64_t set_bytes;    /* Bytes from set to set. Only with a fourth dimension. */
} tw_tile_matrices;
/* Makes their tensor map. A box of the map is one of `parts` parts of a tile's box: those of tw_tile_copy.blocks, or of
   tw_tile_copy.parts. */
tw_tensor_map tw_tile_map(const tw_tile *t, const tw_tile_matrices *m, int parts);

typedef struct tw_tile_copy {
    tw_val map;    /* The tensor map, a parameter. */
    tw_val to;     /* Shared address of the tile. */
    tw_val origin; /* The tile's first row of A, or column of B (i32). */
    tw_val k;      /* The tile's first element along k (i32). */
    tw_val matrix; /* The number of its matrix (i32). TW_NONE: the map has no third dimension. */
    tw_val set;    /* The number of its set of matrices (i32). TW_NONE: the map has no fourth dimension. */
    tw_val full;   /* Address of the mbarrier that counts the bytes. */
    int blocks; /* Blocks of a cluster that fetch the tile together. Each multicasts a part to all. 1: no multicast. */
    int parts;  /* Parts of equally many lines that are copied one by one, without multicast. 0 or 1: none. */
    tw_val present; /* Number of parts to copy, from the first on (i32). Only with parts. */
    int run;        /* Elements along k that are next to one another in memory, whole boxes. 0: all are. */
    tw_val apart;   /* Elements along k from one such run to the next (i32). Only with `run`. */
} tw_tile_copy;

/* Fetches a tile by tensor copies. One thread calls it. Elements outside of the matrix arrive as zeros. */
void tw_tile_fetch(tw_builder *b, const tw_tile *t, const tw_tile_copy *c);

/* Computes the lower word of wgmma's descriptor of a tile at a shared address. Adding n moves the tile by 16 n bytes.
 */
tw_val tw_tile_descriptor(tw_builder *b, const tw_tile *t, tw_val address);

/* Computes wgmma's descriptor of a tile from element (row, k) on. `low` is its lower word from tw_tile_descriptor.
   `row` is a multiple of 8, and `k` of 32 bytes. */
tw_val tw_tile_at(tw_builder *b, const tw_tile *t, tw_val low, int row, int k);

/* Begins a product that the caller issues and commits. */
void tw_tile_begin(tw_builder *b);
/* The same of a product whose records have a name of its own, not "products". */
void tw_tile_begin_named(tw_builder *b, const char *name);

/* A warpgroup's product of two tiles. */
typedef struct tw_tile_product {
    tw_wgmma_kind kind; /* A kind whose elements have the tiles' size. */
    const tw_tile *x;   /* Tile of A. */
    const tw_tile *y;   /* Tile of B. All of its columns are multiplied. */
    int rows;           /* Rows of A to multiply from `x_at` on, a multiple of 64. */
    tw_val x_at;        /* Descriptor of A's first row, from tw_tile_descriptor. */
    tw_val y_at;        /* Descriptor of B. */
    tw_val add;         /* Predicate: add to the sums. False: the sums start from zero. */
    tw_val *sums;       /* Variables: rows / 64 * tw_wgmma_registers() sums. */
    const char *name;   /* For the profiler. NULL: "products". */
} tw_tile_product;

/* Issues a wgmma_fence, the product and a wgmma_commit. The sums may be used after tw_tile_wait. */
void tw_tile_multiply(tw_builder *b, const tw_tile_product *p);
/* Waits until at most `pending` of the products that this warpgroup issued are under way. */
void tw_tile_wait(tw_builder *b, int pending);
/* Waits until at most `pending` products are under way, which leaves none of those of this name. */
void tw_tile_wait_named(tw_builder *b, const char *name, int pending);
/* Waits until none is under way, before the next product is begun. */
void tw_tile_wait_before(tw_builder *b);

#endif
