/* SPDX-License-Identifier: Apache-2.0 */
/* A product y = x W^T cut into tiles. A thread computes a tile alone, with our kernel, or with a vendor's library after
   unpacking the tile's weights. */
#ifndef TW_KERNELS_CPU_TILED_H
#define TW_KERNELS_CPU_TILED_H

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vendor.h"
#include "space/space.h"

/* The sizes of a product. x is m x k floats, W is n x k in panels, y is m x n floats. Rows are adjacent. */
typedef struct tw_tiled_problem {
    int64_t m, n, k; /* Extents. n is a multiple of TW_PANEL_ROWS. */
    tw_panel_format weights;
} tw_tiled_problem;

/* A configuration of tw_tiled_space. */
typedef struct tw_tiled_config {
    int by;   /* The code that computes tiles. 0: our kernel. i + 1: vendor i. */
    int tm;   /* The most rows of x in a tile. */
    int tn;   /* The most rows of W in a tile, a multiple of TW_PANEL_ROWS. */
    int span; /* tw_gemm_blocking.span of our kernel. Vendors ignore it. */
    int rows; /* tw_gemm_blocking.rows of our kernel. Vendors ignore it. */
    /* Order of tiles. 0: tiles with the same rows of W are adjacent. 1: tiles with the same rows of x are. */
    int order;
} tw_tiled_config;

/* The context in which tw_tiled_space judges configurations. */
typedef struct tw_tiled_context {
    const tw_kernels *kernels;
    int vendors;         /* The number of vendors on this machine. */
    tw_tiled_problem of; /* The problem. m is 0: any problem. */
} tw_tiled_context;

/* The space of tw_tiled_config. A tile size is legal if the problem uses more than half of it, so that no two sizes
   mean the same tiles. */
extern const tw_space tw_tiled_space;

/* Computes the least m and n for which a configuration's tiles are legal. */
void tw_tiled_least(const tw_tiled_config *c, int64_t *m, int64_t *n);

/* Names of the code that tw_tiled_config.by numbers: "own", then the vendors as tw_vendor_name has them. NULL ends the
   list. */
extern const char *const tw_tiled_makers[];

/* Writes the name that measurements and artefacts give to products of a storage format, such as "gemm-cpu-i4-64". With
   `strips` each thread has an equal strip of columns, and the name is "gemm-cpu-i4-64-strips". */
void tw_tiled_name(tw_panel_format weights, bool strips, char *out, size_t size);

/* Counts the tiles. Their sizes differ by at most one row of x and one panel of W. */
int64_t tw_tiled_count(const tw_tiled_problem *p, const tw_tiled_config *c);
/* Returns the bytes of scratch memory that a thread needs. */
size_t tw_tiled_scratch(const tw_kernels *k, const tw_tiled_problem *p, const tw_tiled_config *c);

/* The operands of a product. */
typedef struct tw_tiled_operands {
    const float *x;
    const void *panels;
    float *y;
} tw_tiled_operands;

/* Computes tile i. Threads may compute different tiles at once, each with its own `vendor` and `scratch`, which is
   64-byte aligned. False: the vendor refused. */
bool tw_tiled_run(const tw_kernels *k, tw_vendor *vendor, const tw_tiled_problem *p, const tw_tiled_config *c,
                  int64_t i, const tw_tiled_operands *of, void *scratch);

#endif
