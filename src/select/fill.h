/* SPDX-License-Identifier: Apache-2.0 */
/* Corrections of a macro choice's time that depend on how the blocks fill the device. With x = G / slots and W =
   ceil(x) waves, the fill is x / W. A macro choice has a row of cells. The row has a part for problems of 1 wave, of 2,
   of 3 or 4, and of more. A part has evenly spaced nodes, the first for a fill of 0 and the last for a fill of 1. A
   node has a cell for whole tiles and a cell for each ragged axis. The latter is multiplied by the empty part of the
   axis's last tile. */
#ifndef TW_SELECT_FILL_H
#define TW_SELECT_FILL_H

enum {
    TW_FILL_AXES = 2,                                              /* The most ragged axes. */
    TW_FILL_PARTS = 4,                                             /* Number of parts of a row. */
    TW_FILL_NODES = 4,                                             /* Number of nodes of a part. */
    TW_FILL_KINDS = 1 + TW_FILL_AXES,                              /* Number of cells of a node. */
    TW_FILL_CELLS = TW_FILL_PARTS * TW_FILL_NODES * TW_FILL_KINDS, /* Number of cells of a row. */
    TW_FILL_NEAR = 2 * TW_FILL_KINDS                               /* Number of cells of two nodes. */
};

/* A place between two nodes. */
typedef struct tw_fill_place {
    int cell;   /* Index of the lower node's first cell. The upper node's cells follow the lower node's. */
    float part; /* Position between the nodes. 0: the lower node. 1: the upper node. */
} tw_fill_place;

/* Finds the nodes around a fill of `waves` waves. */
static inline tw_fill_place tw_fill_find(float fill, float waves) {
    const int part = waves <= 1 ? 0 : waves <= 2 ? 1 : waves <= 4 ? 2 : 3;
    const float at = fill * (TW_FILL_NODES - 1);
    const int node = at < TW_FILL_NODES - 2 ? (int)at : TW_FILL_NODES - 2;
    return (tw_fill_place){(part * TW_FILL_NODES + node) * TW_FILL_KINDS, at - (float)node};
}
#endif
