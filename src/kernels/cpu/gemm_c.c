/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/variants.h"

#include <string.h>

enum { ROWS = TW_PANEL_ROWS, DEPTH = 256 /* Columns that are widened at a time: 16 KiB of f32. */ };

size_t tw_gemm_scratch_c(tw_panel_format f, int64_t n_panels, int64_t cols, int64_t rows, tw_gemm_blocking by) {
    (void)f, (void)n_panels, (void)cols, (void)rows, (void)by;
    return DEPTH * ROWS * sizeof(float);
}

static void multiply_block(const float *w, const float *x, int64_t n, float *y) {
    float acc[ROWS];
    memcpy(acc, y, sizeof acc);
    for (int64_t c = 0; c < n; c++)
        for (int r = 0; r < ROWS; r++) acc[r] += w[c * ROWS + r] * x[c];
    memcpy(y, acc, sizeof acc);
}

void tw_gemm_c(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const float *x, int64_t ldx,
               int64_t rows, float *y, int64_t ldy, tw_gemm_blocking by, const tw_gemm_sink *sink, void *scratch) {
    const char *panel = panels;
    (void)by;
    for (int64_t p = 0; p < n_panels; p++, panel += tw_panel_bytes(f, cols), y += ROWS) {
        for (int64_t m = 0; m < rows; m++) memset(y + m * ldy, 0, ROWS * sizeof *y);
        for (int64_t k = 0; k < cols; k += DEPTH) {
            int64_t n = cols - k < DEPTH ? cols - k : DEPTH;
            tw_panel_widen(f, cols, panel, k, (n + TW_PANEL_K - 1) / TW_PANEL_K * TW_PANEL_K, scratch);
            for (int64_t m = 0; m < rows; m++) multiply_block(scratch, x + m * ldx + k, n, y + m * ldy);
        }
    }
    if (sink && rows > 0) sink->take(sink->context, 0, rows, 0, n_panels * ROWS);
}
