/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/panel.h"

#include "base/dtype.h"

#include <string.h>

enum { ROWS = TW_PANEL_ROWS, LINE = 64, WIDE = 64 /* Columns that are unpacked at a time. */ };

static int64_t round_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

static int64_t group_count(tw_panel_format f, int64_t cols) {
    return f.group ? tw_panel_cols(f, cols) / f.group : 1;
}

int64_t tw_panel_cols(tw_panel_format f, int64_t cols) {
    return round_up(cols, f.group ? round_up(f.group, TW_PANEL_K) : TW_PANEL_K);
}

size_t tw_panel_scale_bytes(tw_panel_format f, int64_t cols) {
    if (f.dtype == TW_I8) return (size_t)(group_count(f, cols) * ROWS * 4);
    if (f.dtype == TW_I4) return (size_t)round_up(group_count(f, cols) * ROWS * 2, LINE);
    return 0;
}

size_t tw_panel_bytes(tw_panel_format f, int64_t cols) {
    size_t bits = (size_t)tw_panel_cols(f, cols) * ROWS * tw_dtype_bits(f.dtype);
    return tw_panel_scale_bytes(f, cols) + bits / 8;
}

/* Returns where element (row, column) is after the scales, in elements of 4, 2 or 1 bytes. For i4: the byte that has
   it. */
static size_t place(tw_dtype t, int row, int64_t k) {
    size_t r = (size_t)row, c = (size_t)k;
    if (t == TW_BF16) return (c / 2 * ROWS + r) * 2 + c % 2;
    if (t == TW_I8) return (c / 4 * ROWS + r) * 4 + c % 4;
    if (t == TW_I4) return (c / 8 * ROWS + r) * 4 + c % 4;
    return c * ROWS + r;
}

static void pack_float(tw_panel_format f, int64_t cols, int rows, const unsigned char *data, unsigned char *panel) {
    int64_t padded = tw_panel_cols(f, cols);
    size_t size = tw_dtype_bits(f.dtype) / 8;
    if (rows < ROWS || cols < padded) memset(panel, 0, tw_panel_bytes(f, cols));
    /* Columns are packed in blocks, so that the lines that are written stay in the first-level cache for all rows. */
    for (int64_t k0 = 0; k0 < cols; k0 += WIDE)
        for (int r = 0; r < rows; r++)
            for (int64_t k = k0; k < cols && k < k0 + WIDE; k++)
                memcpy(panel + place(f.dtype, r, k) * size, data + (size_t)(r * cols + k) * size, size);
}

static void pack_scales(tw_panel_format f, int64_t cols, int rows, const float *scales, unsigned char *panel) {
    int64_t groups = group_count(f, cols);
    memset(panel, 0, tw_panel_scale_bytes(f, cols));
    for (int64_t g = 0; g < groups; g++)
        for (int r = 0; r < rows; r++) {
            float s = scales[r * groups + g];
            uint16_t h = tw_f32_to_f16(s);
            size_t at = (size_t)(g * ROWS + r);
            if (f.dtype == TW_I8)
                memcpy(panel + at * 4, &s, 4);
            else
                memcpy(panel + at * 2, &h, 2);
        }
}

static void pack_integers(tw_panel_format f, int64_t cols, int rows, const int8_t *data, unsigned char *out) {
    bool nibbles = f.dtype == TW_I4;
    memset(out, nibbles ? 0x88 : 0x80, (size_t)tw_panel_cols(f, cols) * ROWS / (nibbles ? 2 : 1));
    for (int64_t k0 = 0; k0 < cols; k0 += WIDE)
        for (int r = 0; r < rows; r++)
            for (int64_t k = k0; k < cols && k < k0 + WIDE; k++) {
                int w = data[r * cols + k];
                unsigned char *b = out + place(f.dtype, r, k);
                if (!nibbles)
                    *b = (unsigned char)(w + 128);
                else if (k % 8 < 4)
                    *b = (unsigned char)((*b & 0xf0) | (w + 8));
                else
                    *b = (unsigned char)((*b & 0x0f) | (w + 8) << 4);
            }
}

void tw_panel_pack(tw_panel_format f, int64_t cols, int rows, const void *data, const float *scales, void *panel) {
    if (f.dtype != TW_I8 && f.dtype != TW_I4) {
        pack_float(f, cols, rows, data, panel);
        return;
    }
    pack_scales(f, cols, rows, scales, panel);
    pack_integers(f, cols, rows, data, (unsigned char *)panel + tw_panel_scale_bytes(f, cols));
}

static void scales_at(tw_panel_format f, const unsigned char *panel, int64_t k, float *out) {
    size_t g = f.group ? (size_t)(k / f.group) : 0;
    if (f.dtype == TW_I8)
        memcpy(out, panel + g * ROWS * 4, ROWS * 4);
    else
        tw_to_f32(TW_F16, panel + g * ROWS * 2, out, ROWS);
}

/* Widens eight columns, the smallest step that is whole in every format. */
static void widen_step(tw_panel_format f, int64_t cols, const unsigned char *panel, int64_t k, float *out) {
    const unsigned char *data = panel + tw_panel_scale_bytes(f, cols);
    float scale[ROWS];
    if (f.dtype == TW_F32 || f.dtype == TW_F16) {
        tw_to_f32(f.dtype, data + (size_t)k * ROWS * tw_dtype_bits(f.dtype) / 8, out, ROWS * TW_PANEL_K);
        return;
    }
    if (f.dtype != TW_BF16) scales_at(f, panel, k, scale);
    for (int c = 0; c < TW_PANEL_K; c++)
        for (int r = 0; r < ROWS; r++) {
            size_t at = place(f.dtype, r, k + c);
            uint16_t h;
            if (f.dtype == TW_BF16) {
                memcpy(&h, data + 2 * at, 2);
                out[c * ROWS + r] = tw_bf16_to_f32(h);
            } else if (f.dtype == TW_I8) {
                out[c * ROWS + r] = (float)(data[at] - 128) * scale[r];
            } else {
                out[c * ROWS + r] = (float)((data[at] >> (c < 4 ? 0 : 4) & 15) - 8) * scale[r];
            }
        }
}

void tw_panel_widen(tw_panel_format f, int64_t cols, const void *panel, int64_t k, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i += TW_PANEL_K) widen_step(f, cols, panel, k + i, out + i * ROWS);
}

void tw_panel_unpack_row(tw_panel_format f, int64_t cols, const void *panel, int row, float *out) {
    float step[TW_PANEL_K * ROWS];
    for (int64_t k = 0; k < cols; k += TW_PANEL_K) {
        widen_step(f, cols, panel, k, step);
        for (int c = 0; c < TW_PANEL_K && k + c < cols; c++) out[k + c] = step[c * ROWS + row];
    }
}

void tw_panel_unpack(tw_panel_format f, int64_t cols, const void *panels, int64_t n_panels, float *out, int64_t ldo) {
    const unsigned char *panel = panels;
    float step[WIDE * ROWS];
    for (int64_t p = 0; p < n_panels; p++, panel += tw_panel_bytes(f, cols), out += ROWS * ldo)
        for (int64_t k = 0; k < cols; k += WIDE) {
            int64_t n = cols - k < WIDE ? cols - k : WIDE;
            tw_panel_widen(f, cols, panel, k, round_up(n, TW_PANEL_K), step);
            for (int r = 0; r < ROWS; r++)
                for (int64_t c = 0; c < n; c++) out[r * ldo + k + c] = step[c * ROWS + r];
        }
}
