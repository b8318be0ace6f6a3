/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpu/loops.h"
#include "device/cpu/unroll.h"

#include <immintrin.h>

int64_t tw_cpu_i8_avx512vnni(int64_t n, float *sink) {
    enum { CHAINS = 20 };
    __m512i acc[CHAINS], one = _mm512_set1_epi8(1);
    TW_UNROLL for (int i = 0; i < CHAINS; i++) {
        acc[i] = _mm512_setzero_si512();
        __asm__ volatile("" : "+v"(acc[i])); /* chains known to be equal would become one */
    }
    for (int64_t r = 0; r < n; r++)
        TW_UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_dpbusd_epi32(acc[i], one, one);
    TW_UNROLL for (int i = 1; i < CHAINS; i++) acc[0] = _mm512_add_epi32(acc[0], acc[i]);
    *sink += (float)_mm512_reduce_add_epi32(acc[0]);
    return 2 * 64 * CHAINS;
}
