/* SPDX-License-Identifier: Apache-2.0 */
/* Fragments of mma.sync's m16n8k16 from tiles of 16-bit elements in shared memory (parts/tile.h), whose boxes are
   swizzled. An ldmatrix loads four matrices of 8 lines by 8 elements, which are 16 lines by 16 elements of a tile. */
#ifndef TW_KERNELS_PARTS_FRAGMENT_H
#define TW_KERNELS_PARTS_FRAGMENT_H

#include "kernels/parts/tile.h"

enum { TW_FRAGMENT = 16 /* Lines, and elements, of a load. */, TW_FRAGMENT_REGISTERS = 4 };

/* What the registers of a load become. */
typedef enum tw_fragment_order {
    TW_FRAGMENT_A, /* A whose rows are lines: the registers of one product. */
    TW_FRAGMENT_B, /* B whose columns are lines: two registers of the first eight columns, then two of the others. */
    TW_FRAGMENT_B_ACROSS /* B whose rows along k are lines: the same. */
} tw_fragment_order;

/* Computes the offset in bytes of the line that a lane addresses in the tile's first load. */
tw_val tw_fragment_lane(tw_builder *b, const tw_tile *t, tw_fragment_order order, tw_val lane);
/* Loads the 16 lines and elements from `line` and `element` on, multiples of 16. `at` is the tile's address, a multiple
   of 128, plus what tw_fragment_lane returned. All lanes of a warp call it. `type` is f16x2 or bf16x2. */
void tw_fragment_load(tw_builder *b, const tw_tile *t, tw_fragment_order order, tw_val at, int line, int element,
                      tw_type type, tw_val out[TW_FRAGMENT_REGISTERS]);

/* Computes the offset in bytes of 16 bytes in a line of a box: piece `piece` of line `line`, both i32. */
tw_val tw_tile_piece(tw_builder *b, const tw_tile *t, tw_val line, tw_val piece);

#endif
