/* SPDX-License-Identifier: Apache-2.0 */
/* A product y = x W^T cut into tiles, each of which a thread computes alone: with our kernel, or with a vendor's
   library after the tile's weights are unpacked. */
#ifndef TW_KERNELS_CPU_TILED_H
#define TW_KERNELS_CPU_TILED_H

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vendor.h"
#include "space/space.h"

/* x is m x k floats, W is n x k in panels, y is m x n floats. Rows follow each other without gaps. */
typedef struct tw_tiled_problem {
    int64_t m, n, k; /* n is a multiple of TW_PANEL_ROWS. */
    tw_panel_format weights;
} tw_tiled_problem;

/* A configuration of tw_tiled_space. */
typedef struct tw_tiled_config {
    int by;    /* Who computes a tile. 0: our kernel. Otherwise 1 + the number of the vendor. */
    int tm;    /* The most rows of x in a tile. */
    int tn;    /* The most rows of W in a tile, a multiple of TW_PANEL_ROWS. */
    int span;  /* tw_gemm_blocking.span. Our kernel only. */
    int rows;  /* tw_gemm_blocking.rows. Our kernel only. */
    int order; /* 0: tiles of the same rows of W follow each other. 1: those of the same rows of x. */
} tw_tiled_config;

/* What the space checks configurations against. */
typedef struct tw_tiled_context {
    const tw_kernels *kernels;
    int vendors;         /* The number of vendors on this machine. */
    tw_tiled_problem of; /* The problem. m = 0: any problem. */
} tw_tiled_context;

/* The space of tw_tiled_config. A tile size is legal if less than half of it would stay empty, so that no two sizes
   mean the same tiles. */
extern const tw_space tw_tiled_space;

/* Computes the least m and n for which a configuration's tiles are legal. */
void tw_tiled_least(const tw_tiled_config *c, int64_t *m, int64_t *n);

/* The name of who computes: "own", "openblas" or "onednn". */
const char *tw_tiled_by(int by);

/* Counts the tiles. All have the same size, give or take one row of x and one panel of W. */
int64_t tw_tiled_count(const tw_tiled_problem *p, const tw_tiled_config *c);
/* Computes the bytes of scratch memory that a thread needs. */
size_t tw_tiled_scratch(const tw_kernels *k, const tw_tiled_problem *p, const tw_tiled_config *c);

/* The operands of a product. */
typedef struct tw_tiled_operands {
    const float *x;
    const void *panels;
    float *y;
} tw_tiled_operands;

/* Computes tile i. `vendor` belongs to the thread, and so does `scratch`, which is 64-byte aligned. Different tiles may
   be computed at once. False: the vendor refused. */
bool tw_tiled_run(const tw_kernels *k, tw_vendor *vendor, const tw_tiled_problem *p, const tw_tiled_config *c,
                  int64_t i, const tw_tiled_operands *of, void *scratch);

#endif
