/* SPDX-License-Identifier: Apache-2.0 */
/* Multilinear interpolation over problems. A lattice has a number at each node. Nodes are evenly spaced along the
   octaves of each axis. */
#ifndef TW_SELECT_LATTICE_H
#define TW_SELECT_LATTICE_H

#include "base/dtype.h"
#include "tilewright/select.h"

enum {
    TW_LATTICE_NODES = 16,   /* The most nodes along an axis. */
    TW_LATTICE_ALL = 4096,   /* The most nodes of a lattice. */
    TW_LATTICE_CORNERS = 16, /* The most nodes around a problem: at most four axes have more than one node. */
    TW_LATTICE_AXES = 4,
    TW_LATTICE_UNITS = 128 /* Sum of the weights of the nodes around a problem. */
};

typedef struct tw_lattice {
    int nodes[TW_SELECT_AXES];  /* Number of nodes along each axis, at least 1. The last axis varies fastest. */
    float low[TW_SELECT_AXES];  /* Octave of each axis's first node. */
    float high[TW_SELECT_AXES]; /* Octave of each axis's last node, above that of the first if there are several. */
} tw_lattice;

/* Returns the octave of a value above 0. It is the base-2 logarithm at powers of two, and linear between them. */
static inline float tw_lattice_octave(float value) {
    return (float)tw_f32_bits(value) * 0x1p-23f - 127;
}

/* Finds the nodes around a problem, and the weight of each, in units of 1 / TW_LATTICE_UNITS. The weights sum up to
   TW_LATTICE_UNITS. Beyond an end of an axis that end counts. Returns the number of nodes. */
static inline int tw_lattice_corners(const tw_lattice *l, int axes, const float *problem,
                                     uint32_t node[TW_LATTICE_CORNERS], int16_t weight[TW_LATTICE_CORNERS]) {
    int n = 1;
    node[0] = 0;
    weight[0] = TW_LATTICE_UNITS;
    for (int a = 0; a < axes; a++) {
        const int nodes = l->nodes[a], last = nodes - 1;
        for (int i = 0; i < n; i++) node[i] *= (uint32_t)nodes;
        if (!last) continue;
        const float at = (tw_lattice_octave(problem[a]) - l->low[a]) * ((float)last / (l->high[a] - l->low[a]));
        const float inside = at > 0 ? at < (float)last ? at : (float)last : 0;
        const int first = (int)inside < last ? (int)inside : last - 1;
        const float part = inside - (float)first;
        for (int i = 0; i < n; i++) {
            node[i] += (uint32_t)first;
            node[n + i] = node[i] + 1;
            weight[n + i] = (int16_t)((float)weight[i] * part + 0.5f);
            weight[i] = (int16_t)(weight[i] - weight[n + i]);
        }
        n *= 2;
    }
    return n;
}

/* Returns the number of nodes of a lattice. */
static inline int tw_lattice_count(const tw_lattice *l, int axes) {
    int n = 1;
    for (int a = 0; a < axes; a++) n *= l->nodes[a];
    return n;
}
#endif
