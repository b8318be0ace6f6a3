/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions of many elements are those of one. */
#include "base/dtype.h"
#include "base/random.h"
#include "support/support.h"

#include <string.h>

static void many_are_as_one(void **state) {
    (void)state;
    enum { N = 1 << 16 };
    static float x[N];
    static uint16_t f16[N], bf16[N];
    tw_random r = tw_random_seed(3);
    for (int i = 0; i < N; i++) {
        /* Any bits, and every second one near f16's range. */
        uint32_t u = (uint32_t)tw_random_u64(&r);
        if (i & 1) u = (u & 0x807fffffu) | (100 + u / 0x800000u % 48) << 23;
        memcpy(&x[i], &u, sizeof u);
    }
    for (size_t n = 0; n < 40; n++) {
        memset(f16, 0xee, sizeof f16);
        tw_from_f32(TW_F16, x + n, f16, n == 39 ? N - 39 : n);
        tw_from_f32(TW_BF16, x + n, bf16, N - 39);
        for (size_t i = 0; i < (n == 39 ? N - 39 : n); i++) {
            assert_int_equal(f16[i], tw_f32_to_f16(x[n + i]));
            assert_int_equal(bf16[i], tw_f32_to_bf16(x[n + i]));
        }
        assert_int_equal(f16[n == 39 ? N - 39 : n], 0xeeee);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_are_as_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
