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
    TW_FILL_NEAR = 2 * TW_FILL_KINDS /* Cells of the two nodes around a fill. They are adjacent. */
};

/* Finds the cells of the two nodes around a fill of `waves` waves, and the weight of each. `empty` has the empty part
   of the last tile along each ragged axis. Returns the index of the first cell. */
static inline int tw_fill_find(double fill, double waves, const double empty[TW_FILL_AXES],
                               double weight[TW_FILL_NEAR]) {
    const int part = waves <= 1 ? 0 : waves <= 2 ? 1 : waves <= 4 ? 2 : 3;
    const double at = fill * (TW_FILL_NODES - 1);
    const int node = at < TW_FILL_NODES - 2 ? (int)at : TW_FILL_NODES - 2;
    for (int i = 0; i < 2; i++) {
        double *w = &weight[i * TW_FILL_KINDS];
        w[0] = i ? at - node : 1 - (at - node);
        for (int k = 0; k < TW_FILL_AXES; k++) w[1 + k] = w[0] * empty[k];
    }
    return (part * TW_FILL_NODES + node) * TW_FILL_KINDS;
}
#endif
