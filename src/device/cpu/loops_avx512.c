/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpu/loops.h"
#include "device/cpu/unroll.h"

#include <immintrin.h>

uint64_t tw_cpu_read_avx512(const void *data, size_t bytes, size_t streams, size_t ahead) {
    size_t part = bytes / streams;
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (size_t i = 0; i < part; i += 256)
        for (size_t s = 0; s < streams; s++) {
            const char *p = (const char *)data + s * part + i;
            for (size_t k = 0; ahead && k < 256; k += 64) _mm_prefetch(p + ahead + k, _MM_HINT_T0);
            a = _mm512_or_si512(a, _mm512_load_si512(p));
            b = _mm512_or_si512(b, _mm512_load_si512(p + 64));
            c = _mm512_or_si512(c, _mm512_load_si512(p + 128));
            d = _mm512_or_si512(d, _mm512_load_si512(p + 192));
        }
    a = _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d));
    return (uint64_t)_mm512_reduce_or_epi64(a);
}

int64_t tw_cpu_fma_avx512(int64_t n, float *sink) {
    enum { CHAINS = 20 };
    __m512 acc[CHAINS], m = _mm512_set1_ps(0.999f);
    TW_UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_set1_ps((float)i);
    for (int64_t r = 0; r < n; r++) TW_UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_fmadd_ps(acc[i], m, m);
    TW_UNROLL for (int i = 1; i < CHAINS; i++) acc[0] = _mm512_add_ps(acc[0], acc[i]);
    *sink += _mm512_reduce_add_ps(acc[0]);
    return 2 * 16 * CHAINS;
}
