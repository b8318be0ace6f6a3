/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpu/loops.h"

uint64_t tw_cpu_read_c(const void *data, size_t bytes, size_t streams, size_t ahead) {
    size_t part = bytes / streams / 8;
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (size_t i = 0; i < part; i += 8)
        for (size_t s = 0; s < streams; s++) {
            const uint64_t *p = (const uint64_t *)data + s * part + i;
            if (ahead) __builtin_prefetch((const char *)p + ahead);
            a ^= p[0] ^ p[4];
            b ^= p[1] ^ p[5];
            c ^= p[2] ^ p[6];
            d ^= p[3] ^ p[7];
        }
    return a ^ b ^ c ^ d;
}

int64_t tw_cpu_fma_c(int64_t n, float *sink) {
    enum { LANES = 32 };
    float acc[LANES];
    volatile float start = 0.999f;
    float m = start;
    for (int i = 0; i < LANES; i++) acc[i] = (float)i;
    for (int64_t r = 0; r < n; r++)
        for (int i = 0; i < LANES; i++) acc[i] = acc[i] * m + m;
    for (int i = 0; i < LANES; i++) *sink += acc[i];
    return 2 * LANES;
}
