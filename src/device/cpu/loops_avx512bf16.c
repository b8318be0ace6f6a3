/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpu/loops.h"
#include "device/cpu/unroll.h"

#include <immintrin.h>
#include <string.h>

int64_t tw_cpu_bf16_avx512bf16(int64_t n, float *sink) {
    enum { CHAINS = 20 };
    __m512 acc[CHAINS];
    __m512i ones = _mm512_set1_epi16(0x3f80); /* 1 in bf16 */
    __m512bh one;
    memcpy(&one, &ones, sizeof one);
    TW_UNROLL for (int i = 0; i < CHAINS; i++) {
        acc[i] = _mm512_setzero_ps();
        __asm__ volatile("" : "+v"(acc[i])); /* chains known to be equal would become one */
    }
    for (int64_t r = 0; r < n; r++)
        TW_UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_dpbf16_ps(acc[i], one, one);
    TW_UNROLL for (int i = 1; i < CHAINS; i++) acc[0] = _mm512_add_ps(acc[0], acc[i]);
    *sink += _mm512_reduce_add_ps(acc[0]);
    return 2 * 32 * CHAINS;
}
