/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are spread over groups at random, each row over all groups with the same chance: how many groups have rows,
   and how many tiles these rows take. A tile has rows of one group. Both are expectations, rounded to whole numbers. */
#ifndef TW_SELECT_SPREAD_H
#define TW_SELECT_SPREAD_H

#include <stdint.h>

/* Returns the number of groups that have rows, from 1 to the lesser of both arguments, which are at least 1. */
static inline int64_t tw_spread_used(int64_t rows, int64_t groups) {
    double empty = 1, factor = 1 - 1 / (double)groups; /* `empty` becomes the chance that a group has no row. */
    for (int64_t n = rows; n; n >>= 1, factor *= factor)
        if (n & 1) empty *= factor;
    const int64_t used = (int64_t)((double)groups * (1 - empty) + 0.5);
    return used > 1 ? used : 1;
}

/* Returns the number of tiles of `tile` rows. The last tile of a group is half full, and a group has one at least. */
static inline int64_t tw_spread_tiles(int64_t rows, int64_t used, int64_t tile) {
    const int64_t tiles = (2 * rows + used * tile + 2 * tile - 1) / (2 * tile);
    return tiles > used ? tiles : used;
}

/* Returns the rows of a group that has rows, rounded up. */
static inline int64_t tw_spread_share(int64_t rows, int64_t groups) {
    const int64_t used = tw_spread_used(rows, groups);
    return (rows + used - 1) / used;
}

#endif
