/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/variants.h"

#include "base/dtype.h"

#include <math.h>
#include <string.h>

static size_t line_up(size_t n) {
    return (n + 63) & ~(size_t)63;
}

size_t tw_prepared_bytes_float(tw_panel_format f, int64_t cols) {
    return line_up((size_t)tw_panel_cols(f, cols) * sizeof(float));
}

void tw_prepare_float(tw_panel_format f, const float *x, int64_t cols, void *out) {
    size_t n = (size_t)cols * sizeof *x;
    memcpy(out, x, n);
    memset((char *)out + n, 0, (size_t)tw_panel_cols(f, cols) * sizeof *x - n);
}

size_t tw_prepared_bytes_fixed(tw_panel_format f, int64_t cols) {
    size_t blocks = (size_t)tw_block_count(f, cols);
    return line_up((size_t)tw_panel_cols(f, cols) * 4) + line_up(blocks * 4) + line_up(blocks * 8);
}

tw_prepared tw_prepared_at(tw_panel_format f, int64_t cols, const void *x) {
    size_t values = line_up((size_t)tw_panel_cols(f, cols) * 4), scales = line_up((size_t)tw_block_count(f, cols) * 4);
    char *at = (char *)(uintptr_t)x;
    return (tw_prepared){at, (float *)(void *)(at + values), (int32_t *)(void *)(at + values + scales)};
}

/* Computes a block's quantum and its inverse. The largest magnitude counts as 2^-100 at least, or the inverse would
   leave the range of f32. A quantum of 2^-123 is exact enough for anything smaller. A block with an infinity or a NaN
   gets a NaN for its quantum, so that it shows. */
static float quantum(const float *x, int64_t n, float *inverse) {
    uint32_t top = tw_f32_bits(0x1p-100f);
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = tw_f32_bits(x[i]) & 0x7fffffffu;
        if (u > top) top = u;
    }
    *inverse = 0;
    if (top >= 0x7f800000u) return NAN;
    *inverse = (float)TW_FIXED_MAX / tw_bits_f32(top);
    return tw_bits_f32(top) / (float)TW_FIXED_MAX;
}

void tw_prepare_fixed_c(tw_panel_format f, const float *x, int64_t cols, void *out) {
    tw_prepared p = tw_prepared_at(f, cols, out);
    int64_t padded = tw_panel_cols(f, cols), block = tw_block_of(f);
    int32_t *q = p.values;
    for (int64_t b = 0, k = 0; k < padded; b++, k += block) {
        int64_t n = cols - k < block ? cols - k : block, end = padded - k < block ? padded - k : block;
        float inverse;
        if (n < 0) n = 0;
        p.scales[b] = quantum(x + k, n, &inverse);
        for (int64_t i = 0; i < n; i++) q[k + i] = inverse > 0 ? (int32_t)lrintf(x[k + i] * inverse) : 0;
        for (int64_t i = n; i < end; i++) q[k + i] = 0;
    }
}
