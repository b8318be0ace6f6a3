/* SPDX-License-Identifier: Apache-2.0 */
/* How the CPU keeps weight matrices: panels of 16 rows, columns in order, so that one vector register holds one step
   of 16 dot products and a worker's bytes are read in exactly the order in which they lie.

   For K columns (padded with zeros to a multiple of TW_PANEL_K), a panel is, by element type:
     f32       [K][16]
     f16       [K][16]
     bf16      [K/2][16][2]   pairs of columns, as vdpbf16ps and AMX take them
     i8        scales, then [K/4][16][4] bytes w + 128, as vpdpbusd and AMX take them
     i4        scales, then [K/8][16][4] bytes: low nibble column 8b + j, high nibble column 8b + 4 + j, each w + 8
   Scales: i8 [groups][16] f32; i4 [groups][16] f16; groups = K / group, or 1 when group is 0 (a scale a row).
   Every panel begins on a 64-byte line and is a multiple of 64 bytes; so do the data after the scales. */
#ifndef TW_KERNELS_CPU_PANEL_H
#define TW_KERNELS_CPU_PANEL_H

#include "tilewright/base.h"

enum {
    TW_PANEL_ROWS = 16,
    TW_PANEL_K = 8, /* columns are padded to this; with groups, to the group */
};

typedef struct tw_panel_format {
    tw_dtype dtype; /* TW_F32, TW_F16, TW_BF16, TW_I8, TW_I4 */
    int group;      /* columns that share a scale (32, 64, 128); 0: the whole row (i8 only) */
} tw_panel_format;

int64_t tw_panel_cols(tw_panel_format f, int64_t cols);       /* padded K */
size_t tw_panel_scale_bytes(tw_panel_format f, int64_t cols); /* at the head of a panel, padded to 64 */
size_t tw_panel_bytes(tw_panel_format f, int64_t cols);       /* of one panel */

/* Packs `rows` (1..16) rows into one panel; missing rows and columns are zero.
   float types: `data` is rows x cols in that type, row-major.
   i8, i4: `data` is rows x cols signed integers, one a byte, row-major; `scales` is rows x groups floats. */
void tw_panel_pack(tw_panel_format f, int64_t cols, int rows, const void *data, const float *scales, void *panel);

/* One row of a panel back as float: integers times their scale, exactly as the kernels see them. */
void tw_panel_unpack_row(tw_panel_format f, int64_t cols, const void *panel, int row, float *out);

/* Panels that follow each other back as row-major float: 16 n_panels rows of `cols`, ldo apart. */
void tw_panel_unpack(tw_panel_format f, int64_t cols, const void *panels, int64_t n_panels, float *out, int64_t ldo);

/* Columns k .. k + n - 1 of a panel as float, [n][16]; k and n are multiples of TW_PANEL_K and, with groups, lie
   anywhere within them. */
void tw_panel_widen(tw_panel_format f, int64_t cols, const void *panel, int64_t k, int64_t n, float *out);

#endif
