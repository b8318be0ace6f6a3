/* SPDX-License-Identifier: Apache-2.0 */
/* Corrections by fill: corrections of a macro choice's time that depend on how its blocks fill the device. G blocks, of
   which `slots` run at once, take W = ceil(x) waves with x = G / slots. The fill is x / W.
   A macro choice has a row of cells. The row consists of parts, a part of nodes, and a node of cells:
   - The parts are for problems of 1 wave, of 2, of 3 or 4, and of more waves.
   - The nodes of a part are evenly spaced, from a fill of 0 to a fill of 1. Between two nodes cells are interpolated.
   - The cells of a node are one for whole tiles, and one for each tiled axis (tw_artefact.tiled). The correction is
     the sum of the former and of each of the latter times the empty part of the last tile along its axis. */
#ifndef TW_SELECT_FILL_H
#define TW_SELECT_FILL_H

enum {
    TW_FILL_AXES = 2,                                              /* The most tiled axes. */
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

/* Finds the place of a fill among the nodes of the part for `waves` waves. */
static inline tw_fill_place tw_fill_find(float fill, float waves) {
    const int part = waves <= 1 ? 0 : waves <= 2 ? 1 : waves <= 4 ? 2 : 3;
    const float at = fill * (TW_FILL_NODES - 1);
    const int node = at < TW_FILL_NODES - 2 ? (int)at : TW_FILL_NODES - 2;
    return (tw_fill_place){(part * TW_FILL_NODES + node) * TW_FILL_KINDS, at - (float)node};
}
#endif
