/* SPDX-License-Identifier: Apache-2.0 */
/* The register tile of every float product, for each vector_*.h included before it: up to TILE_ROWS rows of y, two
   vectors wide, in accumulators that stay in registers over the whole depth. */
#ifndef TW_KERNELS_CPU_TILE_VECTOR_H
#define TW_KERNELS_CPU_TILE_VECTOR_H

#include "device/cpu/unroll.h"

#include <stdbool.h>

/* 12 x 2 accumulators of 32 registers, 6 x 2 of 16: enough chains to cover the multiply-add's latency, and fewer loads
   than two for every two multiply-adds. */
enum { TILE_ROWS = TW_TILE_ROWS, TILE_COLS = 2 * LANES };

/* y[r][v] = (or, unless `first`, +=) sum over k of a[r * row + k * col] b[v][k * step]. */
typedef struct tile_args {
    const float *a, *b[2];
    int64_t step, depth;
    float *y;
    int64_t ldy;
    bool first;
} tile_args;

static inline __attribute__((always_inline)) void tile_fixed(const tile_args *t, int rows, int vectors, int64_t row,
                                                             int64_t col) {
    vf acc[TILE_ROWS][2];
    const float *a = t->a, *b0 = t->b[0], *b1 = t->b[1];
    const int64_t step = t->step, depth = t->depth;
    /* y comes from far: asked for now, needed when the depth is done. */
    TW_UNROLL for (int r = 0; r < rows; r++) {
        TW_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] = v_zero();
        _mm_prefetch((const char *)(t->y + r * t->ldy), _MM_HINT_T0);
        _mm_prefetch((const char *)(t->y + r * t->ldy + TILE_COLS - 1), _MM_HINT_T0);
    }
    TW_UNROLL_BY4 for (int64_t k = 0; k < depth; k++) {
        vf w0 = v_load(b0 + k * step), w1 = vectors > 1 ? v_load(b1 + k * step) : w0;
        TW_UNROLL for (int r = 0; r < rows; r++) {
            vf x = v_set(a[r * row + k * col]);
            acc[r][0] = v_fma(x, w0, acc[r][0]);
            if (vectors > 1) acc[r][1] = v_fma(x, w1, acc[r][1]);
        }
    }
    TW_UNROLL for (int r = 0; r < rows; r++) {
        TW_UNROLL for (int v = 0; v < vectors; v++) {
            float *y = t->y + r * t->ldy + v * LANES;
            v_store(y, t->first ? acc[r][v] : v_add(v_load(y), acc[r][v]));
        }
    }
}

/* `row` and `col` are constants where this is used, so that every address is one register and a displacement. */
static inline __attribute__((always_inline)) void tile_rows(const tile_args *t, int rows, int vectors, int64_t row,
                                                            int64_t col) {
    switch (rows) {
    case 1:
        tile_fixed(t, 1, vectors, row, col);
        break;
    case 2:
        tile_fixed(t, 2, vectors, row, col);
        break;
    case 3:
        tile_fixed(t, 3, vectors, row, col);
        break;
    case 4:
        tile_fixed(t, 4, vectors, row, col);
        break;
    case 5:
        tile_fixed(t, 5, vectors, row, col);
        break;
    case 6:
        tile_fixed(t, 6, vectors, row, col);
        break;
#if TW_TILE_ROWS == 12
    case 7:
        tile_fixed(t, 7, vectors, row, col);
        break;
    case 8:
        tile_fixed(t, 8, vectors, row, col);
        break;
    case 9:
        tile_fixed(t, 9, vectors, row, col);
        break;
    case 10:
        tile_fixed(t, 10, vectors, row, col);
        break;
    case 11:
        tile_fixed(t, 11, vectors, row, col);
        break;
    default:
        tile_fixed(t, 12, vectors, row, col);
        break;
#endif
    }
}

#endif
