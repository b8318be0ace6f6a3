/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpu/loops.h"

uint64_t tw_cpu_read_c(const void *data, size_t bytes) {
    const uint64_t *p = data;
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (size_t i = 0; i < bytes / 8; i += 4) {
        a ^= p[i];
        b ^= p[i + 1];
        c ^= p[i + 2];
        d ^= p[i + 3];
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
