/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of floats as tiles of 1 KiB. Missing rows and columns are zeros.
   Terms: [16 rows][step of 32 columns][term].
   Bytes: [16 rows], and in each [step] and then scales [block][16 rows] of f32. A step has 64 columns, or 32 and zeros
   where weights have groups of 32, and does not cross blocks. */
#include "kernels/cpu/amx.h"

#include <math.h>

enum { ROWS = TW_PANEL_ROWS, TILE = TW_AMX_TILE, STEP = TW_AMX_STEP };

int64_t tw_amx_step(tw_panel_format f, int terms) {
    if (terms != TW_PACK_BYTES) return STEP;
    return tw_byte_block(f) < 2 * STEP ? tw_byte_block(f) : 2 * STEP;
}

size_t tw_gemm_pack_bytes_amx(tw_panel_format f, int64_t rows, int64_t cols, int terms) {
    if (f.dtype == TW_F32) return tw_split_amx.bytes(rows, cols);
    const int64_t steps = tw_ceil_div(cols, tw_amx_step(f, terms)), blocks = tw_ceil_div(cols, tw_byte_block(f));
    const int64_t each = terms == TW_PACK_BYTES ? steps * TILE + blocks * ROWS * 4 : steps * terms * TILE;
    return (size_t)(tw_ceil_div(rows, ROWS) * each);
}

/* Rounds 32 columns to bf16, and what is left of them again. */
static inline void store_terms(__m512 a, __m512 b, int terms, char *to) {
    __m512i high, low;
    tw_amx_terms(a, b, terms, &high, &low);
    _mm512_store_si512(to, high);
    if (terms > 1) _mm512_store_si512(to + TILE, low);
}

/* Finds the largest magnitude of n floats. NaN if one is infinite or NaN. */
static inline float largest(const float *x, int64_t n) {
    __m512 most = _mm512_setzero_ps();
    __mmask16 odd = 0;
    for (int64_t k = 0; k < n; k += 16) {
        const __m512 v = _mm512_maskz_loadu_ps(tw_amx_first(n - k), x + k);
        odd |= _mm512_fpclass_ps_mask(v, 0x99);
        most = _mm512_max_ps(most, _mm512_abs_ps(v));
    }
    return odd ? NAN : _mm512_reduce_max_ps(most);
}

/* Rounds a row of a block to bytes. tw_product_round gives the same. `to` is its row of the first tile. */
static inline float store_bytes(const float *x, int64_t n, int64_t step, int64_t steps, char *to) {
    const tw_byte_scale s = tw_byte_scale_of(largest(x, n));
    const __m512 by = _mm512_set1_ps(s.inverse);
    for (int64_t t = 0; t < steps; t++, to += TILE)
        for (int64_t k = 0; k < 64; k += 16) {
            const int64_t left = k < step ? n - t * step - k : 0;
            const __m512 v = _mm512_maskz_loadu_ps(tw_amx_first(left), x + t * step + k);
            _mm_store_si128((__m128i *)(void *)(to + k),
                            _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(v, by))));
        }
    return s.scale;
}

static void pack_bytes(tw_panel_format f, const float *x, int64_t ldx, int64_t rows, int64_t cols, char *to) {
    const int64_t block = tw_byte_block(f), step = tw_amx_step(f, TW_PACK_BYTES),
                  tiles = tw_ceil_div(cols, step) * TILE;
    for (int64_t m = 0; m < rows; m += ROWS, to += tw_gemm_pack_bytes_amx(f, ROWS, cols, TW_PACK_BYTES)) {
        float *scales = (float *)(void *)(to + tiles);
        for (int64_t k = 0; k < cols; k += block, scales += ROWS)
            for (int64_t r = 0; r < ROWS; r++) {
                const int64_t n = m + r >= rows ? 0 : cols - k < block ? cols - k : block;
                const int64_t steps = tw_ceil_div(cols - k < block ? cols - k : block, step);
                scales[r] = store_bytes(x + (m + r) * ldx + k, n, step, steps, to + k / step * TILE + r * 64);
            }
    }
}

void tw_gemm_pack_amx(tw_panel_format f, const float *x, int64_t ldx, int64_t rows, int64_t cols, int terms,
                      void *out) {
    char *to = out;
    if (terms == TW_PACK_BYTES) {
        pack_bytes(f, x, ldx, rows, cols, to);
        return;
    }
    if (f.dtype == TW_F32) {
        tw_split_amx.pack_x(x, ldx, rows, cols, terms > 1, out);
        return;
    }
    for (int64_t m = 0; m < rows; m += ROWS)
        for (int64_t k = 0; k < cols; k += STEP, to += terms * TILE)
            for (int64_t r = 0; r < ROWS; r++) {
                const float *from = x + (m + r) * ldx + k;
                __m512 a = _mm512_setzero_ps(), b = a;
                if (m + r < rows && k + STEP <= cols) {
                    a = _mm512_loadu_ps(from);
                    b = _mm512_loadu_ps(from + 16);
                } else if (m + r < rows) {
                    a = _mm512_maskz_loadu_ps(tw_amx_first(cols - k), from);
                    if (cols - k > 16) b = _mm512_maskz_loadu_ps(tw_amx_first(cols - k - 16), from + 16);
                }
                store_terms(a, b, terms, to + r * 64);
            }
}
