/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels' checks share: masks to run under, inputs of every kind, guarded and poisoned outputs. */
#ifndef TW_TEST_CHECKKERNEL_H
#define TW_TEST_CHECKKERNEL_H

#include "support/support.h"

#include "base/clock.h"
#include "base/random.h"
#include "kernels/cpu/kernels.h"
#include "tilewright/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A fresh seed each run, printed so that a failure can be run again: CHECKKERNEL_SEED=n. */
static inline uint64_t check_seed(void) {
    const char *given = getenv("CHECKKERNEL_SEED");
    uint64_t state = (uint64_t)tw_now_ns(), seed = given ? strtoull(given, NULL, 0) : tw_splitmix64(&state) >> 32;
    printf("CHECKKERNEL_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

enum { CHECK_MASKS = 6 };
static const uint32_t check_masks[CHECK_MASKS] = {
    0,
    TW_CPU_AVX2,
    TW_CPU_AVX2 | TW_CPU_AVX512,
    TW_CPU_AVX2 | TW_CPU_AVX512 | TW_CPU_AVX512VNNI,
    TW_CPU_AVX2 | TW_CPU_AVX512 | TW_CPU_AVX512VNNI | TW_CPU_AVX512BF16,
    ~0u,
};

/* The kernels of mask i, or false when this machine has less. "All" is whatever it has. */
static inline bool check_kernels(int i, tw_kernels *k) {
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    uint32_t mask = check_masks[i] == ~0u ? cpu.isa : check_masks[i];
    if ((mask & cpu.isa) != mask) return false;
    tw_kernels_choose(k, mask);
    return true;
}

/* n floats, 64-byte aligned and all NaN, with a canary on either side. */
enum { CHECK_CANARY = 16 };
static inline float *guard_make(size_t n) {
    size_t bytes = ((n + 2 * CHECK_CANARY) * sizeof(float) + 63) / 64 * 64;
    float *p = aligned_alloc(64, bytes);
    assert_non_null(p);
    memset(p, 0xff, bytes);
    for (int i = 0; i < CHECK_CANARY; i++) p[i] = p[n + CHECK_CANARY + (size_t)i] = 1234.5f;
    return p + CHECK_CANARY;
}

static inline void guard_free(float *p, size_t n) {
    for (int i = 0; i < CHECK_CANARY; i++) {
        assert_true(p[i - CHECK_CANARY] == 1234.5f);
        assert_true(p[n + (size_t)i] == 1234.5f);
    }
    free(p - CHECK_CANARY);
}

static inline void *aligned_make(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(p);
    memset(p, 0xff, (bytes + 127) / 64 * 64);
    return p;
}

enum { INPUT_NORMAL, INPUT_TINY, INPUT_HUGE, INPUT_ZERO, INPUT_ONE_HOT, INPUT_MIXED, INPUT_KINDS };
static const char *const input_names[INPUT_KINDS] = {"normal", "tiny", "huge", "zero", "one-hot", "mixed"};

static inline void input_fill(int kind, float *x, size_t n, tw_random *r) {
    size_t hot = (size_t)tw_random_below(r, n);
    for (size_t i = 0; i < n; i++) {
        float v = tw_random_normal(r);
        if (kind == INPUT_TINY) v *= 1e-28f;
        if (kind == INPUT_HUGE) v *= 1e28f;
        if (kind == INPUT_ZERO) v = 0;
        if (kind == INPUT_ONE_HOT) v = i == hot ? v : 0;
        if (kind == INPUT_MIXED) v *= powf(10, (float)tw_random_below(r, 9) - 4);
        x[i] = v;
    }
}

#endif
