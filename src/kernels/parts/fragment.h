/* SPDX-License-Identifier: Apache-2.0 */
/* Fragments of mma.sync's m16n8k16 from tiles in shared memory (parts/tile.h), whose boxes are swizzled. An ldmatrix
   loads four matrices of 8 lines by 16 bytes, which are 16 lines by 32 bytes of a tile.

   B may be of e4m3, which are converted behind the load. Two products' B is loaded at once. A thread then has four
   neighbours along a line where 16-bit elements have pairs, and neighbours along the lines are two products' columns.
 */
#ifndef TW_KERNELS_PARTS_FRAGMENT_H
#define TW_KERNELS_PARTS_FRAGMENT_H

#include "kernels/parts/tile.h"

enum {
    TW_FRAGMENT = 16,          /* Lines of a load. */
    TW_FRAGMENT_BYTES = 32,    /* Bytes of a line of a load. */
    TW_FRAGMENT_REGISTERS = 4, /* Registers of A, and of B's 16 columns, for 16 elements along k. */
    TW_FRAGMENT_PRODUCTS = 2   /* The most such B of a load. */
};

/* What the registers of a load become. */
typedef enum tw_fragment_order {
    TW_FRAGMENT_A, /* A whose rows are lines: the registers of one product. */
    /* The same, with k in the order in which B of e4m3 has it: of every 16, element 4 t + 2 i + j is where others have
       2 t + i + 8 j. */
    TW_FRAGMENT_A_FOURS,
    TW_FRAGMENT_B, /* B whose columns are lines: two registers of the first eight columns, then two of the others. */
    /* B whose rows along k are lines: the same. Of every 16 e4m3 of a line the first eight columns are the even ones.
     */
    TW_FRAGMENT_B_ACROSS
} tw_fragment_order;

/* Computes the offset in bytes of the line that a lane addresses in the tile's first load. */
tw_val tw_fragment_lane(tw_builder *b, const tw_tile *t, tw_fragment_order order, tw_val lane);
/* Loads the 16 lines, and 32 bytes of each, from `line` and `element` on. `at` is the tile's address, a multiple of
   128, plus what tw_fragment_lane returned. All lanes of a warp call it. `type` is f16x2 or bf16x2; e4m3 are converted
   to it by tw_part_e4m3_pairs. Elements of 8 bits are two products, of the first 16 elements along a line and of the
   others.
 */
void tw_fragment_load(tw_builder *b, const tw_tile *t, tw_fragment_order order, tw_val at, int line, int element,
                      tw_type type, tw_val out[TW_FRAGMENT_PRODUCTS][TW_FRAGMENT_REGISTERS]);

/* Computes the offset in bytes of 16 bytes in a line of a box: piece `piece` of line `line`, both i32. */
tw_val tw_tile_piece(tw_builder *b, const tw_tile *t, tw_val line, tw_val piece);

#endif
