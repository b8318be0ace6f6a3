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
        double want_means[N] = {0};
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
                tw_from_f32(t, &x, &h, 1);
                tw_to_f32(t, &h, &x, 1);
                tw_to_f32(t, at + 2 * i, &y, 1);
                assert_true(x == y);
            }
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(matrices_are_scaled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
