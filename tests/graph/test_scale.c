/* SPDX-License-Identifier: Apache-2.0 */
/* Constant matrices whose rows are multiplied by gains, and whose columns are given a mean of 0. */
#include "base/dtype.h"
#include "base/random.h"
#include "graph/program/scale.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

/* Matrices of any extents, at any address, and in place. */
static void matrices_are_scaled(void **state) {
    (void)state;
    enum { K = 1037, N = 37 };
    static unsigned char from[2 * K * N + 1], to[2 * K * N + 1];
    static float gain[K];
    static double beta[K], means[N], shift[N], want_shift[N];
    tw_random r = tw_random_seed(3);
    for (int k = 0; k < K; k++) gain[k] = (float)(4 * tw_random_unit(&r) - 2), beta[k] = tw_random_unit(&r) - 0.5;
    for (int way = 0; way < 16; way++) {
        const bool trans = way & 1, place = way & 4, centred = way & 8;
        const tw_dtype t = way & 2 ? TW_BF16 : TW_F16;
        const tw_scaling s = {t, K, N, trans, gain, beta, centred ? means : NULL, shift};
        unsigned char *at = place ? from + 1 : to + 1, before[sizeof from];
        for (int i = 0; i < K * N; i++) {
            const float x = (float)(2 * tw_random_unit(&r) - 1);
            tw_from_f32(t, &x, from + 1 + 2 * i, 1);
        }
        memcpy(before, from, sizeof from);
        const float unit = t == TW_F16 ? 0x1p-10f : 0x1p-7f;
        double want_means[N] = {0}, off[N] = {0};
        int moved = 0;
        for (int j = 0; j < N; j++) means[j] = 0, shift[j] = want_shift[j] = -j;
        assert_true(tw_scale_rows(&s, from + 1, at));
        for (int i = 0; i < K * N && centred; i++) {
            const int k = trans ? i % K : i / N, j = trans ? i / K : i % N;
            float x;
            tw_to_f32(t, before + 1 + 2 * i, &x, 1);
            want_means[j] += (double)(x * gain[k]) / K;
        }
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++) {
                const int i = trans ? j * K + k : k * N + j;
                float x, y;
                uint16_t h;
                tw_to_f32(t, before + 1 + 2 * i, &x, 1);
                want_shift[j] += beta[k] * (double)x;
                x = x * gain[k] - (float)(centred ? means[j] : 0);
                tw_to_f32(t, at + 2 * i, &y, 1);
                off[j] += (double)x - (double)y;
                /* Columns keep their means, for which an element may be off by more than rounding takes. */
                const float most = 5 * fabsf(x) * unit;
                tw_from_f32(t, &x, &h, 1);
                tw_to_f32(t, &h, &x, 1);
                moved += x != y;
                assert_true(centred ? fabsf(x - y) <= most : x == y);
            }
        /* Rounding alone takes nearly ten times a unit from 1,037 elements. */
        double all = 0;
        for (int j = 0; j < N && centred; j++) all += off[j] * off[j] / N;
        assert_true(sqrt(all) < 1.5 * (double)unit && moved < K * N / 3);
        for (int j = 0; j < N; j++) {
            assert_true(fabs(means[j] - want_means[j]) < 1e-10);
            assert_true(fabs(shift[j] - want_shift[j]) < 1e-10);
        }
    }
    gain[K - 1] = INFINITY;
    assert_false(tw_scale_rows(&(tw_scaling){.type = TW_F16, .k = K, .n = N, .gain = gain}, from + 1, to));
    assert_false(
        tw_scale_rows(&(tw_scaling){.type = TW_BF16, .k = K, .n = N, .trans = true, .gain = gain}, from + 1, to));
}

/* Numbers below f16's normal ones have few bits, and those of bf16 do not. */
static void elements_keep_their_bits(void **state) {
    (void)state;
    enum { K = 37, N = 1037 };
    static const float gains[] = {0, 1e-5f, 1e-4f};
    static unsigned char from[2 * K * N], to[2 * K * N];
    static float gain[K];
    static double means[N];
    tw_random r = tw_random_seed(5);
    for (int way = 0; way < 24; way++) {
        const tw_dtype t = way & 1 ? TW_BF16 : TW_F16;
        const bool trans = way & 2, centred = way & 4;
        for (int i = 0; i < K * N; i++) {
            const float x = (float)(2 * tw_random_unit(&r) - 1);
            tw_from_f32(t, &x, from + 2 * i, 1);
        }
        for (int k = 0; k < K; k++) gain[k] = gains[way / 8];
        memset(means, 0, sizeof means);
        const tw_scaling s = {t, K, N, trans, gain, NULL, centred ? means : NULL, NULL};
        assert_int_equal(tw_scale_rows(&s, from, to), t == TW_BF16 || way / 8 != 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(matrices_are_scaled),
                                       cmocka_unit_test(elements_keep_their_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
