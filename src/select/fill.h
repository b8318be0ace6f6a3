/* SPDX-License-Identifier: Apache-2.0 */
/* Corrections over how the blocks of a problem fill the device. A macro choice has a row of cells. The row has four
   parts: for 1 wave, 2 waves, 3 or 4, and more. A part has evenly spaced nodes of the fill x / W, from 0 to 1, with x =
   G / slots and W = ceil(x) waves. A node has a cell for whole tiles, and one for each ragged axis, which is multiplied
   by the empty part of that axis's last tile. */
#ifndef TW_SELECT_FILL_H
#define TW_SELECT_FILL_H

enum {
    TW_FILL_AXES = 2,  /* The most ragged axes. */
    TW_FILL_NODES = 4, /* Nodes of the fill. */
    TW_FILL_PARTS = 4,
    TW_FILL_KINDS = 1 + TW_FILL_AXES, /* Cells of a node. */
    TW_FILL_CELLS = TW_FILL_PARTS * TW_FILL_NODES * TW_FILL_KINDS,
    TW_FILL_NEAR = 2 * TW_FILL_KINDS /* Cells of the two nodes around a fill. */
};

/* A place between two nodes. */
typedef struct tw_fill_place {
    int cell;   /* Index of the first cell of the lower node. Those of the upper node follow its cells. */
    float part; /* Distance from the lower node to the upper one, of which the distance between them is 1. */
} tw_fill_place;

/* Finds the nodes around a fill of `waves` waves. */
static inline tw_fill_place tw_fill_find(float fill, float waves) {
    const int part = waves <= 1 ? 0 : waves <= 2 ? 1 : waves <= 4 ? 2 : 3;
    const float at = fill * (TW_FILL_NODES - 1);
    const int node = at < TW_FILL_NODES - 2 ? (int)at : TW_FILL_NODES - 2;
    return (tw_fill_place){(part * TW_FILL_NODES + node) * TW_FILL_KINDS, at - (float)node};
}
#endif
