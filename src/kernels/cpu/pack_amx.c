/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of floats as tiles of bf16 terms: [16 rows][step of 32 columns][term], a tile of 1 KiB each. Missing rows and
   columns are zeros. */
#include "kernels/cpu/amx.h"

enum { ROWS = TW_PANEL_ROWS, TILE = TW_AMX_TILE, STEP = TW_AMX_STEP };

size_t tw_gemm_pack_bytes_amx(int64_t rows, int64_t cols, int terms) {
    return (size_t)(tw_ceil_div(rows, ROWS) * tw_ceil_div(cols, STEP) * terms * TILE);
}

static inline __mmask16 first(int64_t n) {
    return n >= 16 ? 0xffff : n > 0 ? (__mmask16)((1u << n) - 1) : 0;
}

/* Computes the second term of x: x less its first term. It is 0 for infinities and NaN. */
static inline __m512 rest(__m512 x, __m256i term) {
    const __m512 t = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(term), 16));
    const __mmask16 odd = _mm512_fpclass_ps_mask(t, 0x99);
    return _mm512_mask_sub_ps(_mm512_setzero_ps(), (__mmask16)~odd, x, t);
}

/* Rounds 32 columns to bf16, and what is left of them again. */
static inline void store_terms(__m512 a, __m512 b, int terms, char *to) {
    const __m512i high = (__m512i)_mm512_cvtne2ps_pbh(b, a);
    _mm512_store_si512(to, high);
    if (terms < 2) return;
    a = rest(a, _mm512_castsi512_si256(high));
    b = rest(b, _mm512_extracti64x4_epi64(high, 1));
    _mm512_store_si512(to + TILE, (__m512i)_mm512_cvtne2ps_pbh(b, a));
}

void tw_gemm_pack_amx(const float *x, int64_t ldx, int64_t rows, int64_t cols, int terms, void *out) {
    char *to = out;
    for (int64_t m = 0; m < rows; m += ROWS)
        for (int64_t k = 0; k < cols; k += STEP, to += terms * TILE)
            for (int64_t r = 0; r < ROWS; r++) {
                const float *from = x + (m + r) * ldx + k;
                __m512 a = _mm512_setzero_ps(), b = a;
                if (m + r < rows && k + STEP <= cols) {
                    a = _mm512_loadu_ps(from);
                    b = _mm512_loadu_ps(from + 16);
                } else if (m + r < rows) {
                    a = _mm512_maskz_loadu_ps(first(cols - k), from);
                    if (cols - k > 16) b = _mm512_maskz_loadu_ps(first(cols - k - 16), from + 16);
                }
                store_terms(a, b, terms, to + r * 64);
            }
}
