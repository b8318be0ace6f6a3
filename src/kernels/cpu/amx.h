/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels with AMX share: the shape of tiles, and their configuration. */
#ifndef TW_KERNELS_CPU_AMX_H
#define TW_KERNELS_CPU_AMX_H

#include "base/divide.h"
#include "kernels/cpu/variants.h"

#include <immintrin.h>
#include <string.h>

enum {
    TW_AMX_TILE = 1024, /* Bytes of a tile: 16 rows of 64. */
    TW_AMX_STEP = 32,   /* Columns of bf16 in a tile. */
};

/* Returns the columns of x that one tile has (pack_amx.c). */
int64_t tw_amx_step(tw_panel_format f, int terms);

/* gcc does not know that loading a tile or the configuration reads memory. After this call the memory has its
   contents. */
static inline void tw_amx_settle(const void *p) {
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* Configures all tiles at full size. */
static inline void tw_amx_configure(void) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } c;
    memset(&c, 0, sizeof c);
    c.palette = 1;
    for (int i = 0; i < 8; i++) {
        c.bytes[i] = 64;
        c.rows[i] = 16;
    }
    tw_amx_settle(&c);
    _tile_loadconfig(&c);
}

/* A mask of the first n lanes. */
static inline __mmask16 tw_amx_first(int64_t n) {
    return n >= 16 ? 0xffff : n > 0 ? (__mmask16)((1u << n) - 1) : 0;
}

/* Computes the second term of x: x less its first term. It is 0 for infinities and NaN. */
static inline __m512 tw_amx_rest(__m512 x, __m256i term) {
    const __m512 t = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(term), 16));
    const __mmask16 odd = _mm512_fpclass_ps_mask(t, 0x99);
    return _mm512_mask_sub_ps(_mm512_setzero_ps(), (__mmask16)~odd, x, t);
}

/* Rounds `a` and `b` to bf16, side by side, and with two terms what is left of them again. */
static inline void tw_amx_terms(__m512 a, __m512 b, int terms, __m512i *high, __m512i *low) {
    *high = (__m512i)_mm512_cvtne2ps_pbh(b, a);
    if (terms < 2) return;
    a = tw_amx_rest(a, _mm512_castsi512_si256(*high));
    b = tw_amx_rest(b, _mm512_extracti64x4_epi64(*high, 1));
    *low = (__m512i)_mm512_cvtne2ps_pbh(b, a);
}

#endif
