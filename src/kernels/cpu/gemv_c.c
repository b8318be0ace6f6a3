/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/variants.h"

#include "base/dtype.h"

#include <string.h>

enum { ROWS = TW_PANEL_ROWS };

static void panel_float(tw_panel_format f, const char *panel, int64_t cols, const float *x, float *y) {
    float w[TW_PANEL_K * ROWS], acc[ROWS] = {0};
    int64_t padded = tw_panel_cols(f, cols);
    for (int64_t k = 0; k < padded; k += TW_PANEL_K) {
        tw_panel_widen(f, cols, panel, k, TW_PANEL_K, w);
        for (int c = 0; c < TW_PANEL_K; c++)
            for (int r = 0; r < ROWS; r++) acc[r] += w[c * ROWS + r] * x[k + c];
    }
    memcpy(y, acc, sizeof acc);
}

void tw_gemv_float_c(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const void *x, float *y) {
    const char *panel = panels;
    for (int64_t p = 0; p < n_panels; p++, panel += tw_panel_bytes(f, cols))
        panel_float(f, panel, cols, x, y + p * ROWS);
}

/* Computes the dot products of a block in integers. `k` is its first column. */
static void block_dots(tw_panel_format f, const unsigned char *data, const int32_t *q, int64_t k, int64_t n,
                       int64_t *dot) {
    for (int r = 0; r < ROWS; r++) dot[r] = 0;
    for (int64_t c = k; c < k + n; c++)
        for (int r = 0; r < ROWS; r++) {
            if (f.dtype == TW_I8) {
                dot[r] += (int64_t)(data[c / 4 * 64 + r * 4 + c % 4] - 128) * q[c];
            } else {
                int b = data[c / 8 * 64 + r * 4 + c % 4];
                dot[r] += (int64_t)((c % 8 < 4 ? b & 15 : b >> 4) - 8) * q[c];
            }
        }
}

static void panel_fixed(tw_panel_format f, const char *panel, int64_t cols, const tw_prepared *x, float *y) {
    int64_t padded = tw_panel_cols(f, cols), block = tw_block_of(f);
    const unsigned char *data = (const unsigned char *)panel + tw_panel_scale_bytes(f, cols);
    float acc[ROWS] = {0}, scale[ROWS];
    for (int64_t b = 0, k = 0; k < padded; b++, k += block) {
        int64_t dot[ROWS];
        size_t g = f.group ? (size_t)b * ROWS : 0;
        block_dots(f, data, x->values, k, padded - k < block ? padded - k : block, dot);
        if (f.dtype == TW_I8)
            memcpy(scale, panel + g * 4, sizeof scale);
        else
            tw_to_f32(TW_F16, panel + g * 2, scale, ROWS);
        for (int r = 0; r < ROWS; r++) acc[r] += (float)dot[r] * (x->scales[b] * scale[r]);
    }
    memcpy(y, acc, sizeof acc);
}

void tw_gemv_fixed_c(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const void *x, float *y) {
    const char *panel = panels;
    tw_prepared p = tw_prepared_at(f, cols, x);
    for (int64_t i = 0; i < n_panels; i++, panel += tw_panel_bytes(f, cols))
        panel_fixed(f, panel, cols, &p, y + i * ROWS);
}
