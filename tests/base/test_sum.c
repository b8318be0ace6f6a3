/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of contents of any length: of parts of words, words, and blocks. */
#include "support/support.h"

#include "base/sum.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 2 * TW_SUM_BLOCK + 77 };

static void every_byte_counts(void **state) {
    (void)state;
    static const size_t lengths[] = {1, 7, 8, 63, 64, 65, 200, TW_SUM_BLOCK, TW_SUM_BLOCK + 1, MOST};
    unsigned char *x = calloc(MOST, 1);
    assert_non_null(x);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t n = lengths[i], step = n < 1000 ? 1 : n / 5;
        const uint64_t zeros = tw_sum(x, n);
        for (size_t at = 0; at < n; at += step) {
            x[at] = 1;
            assert_true(tw_sum(x, n) != zeros);
            x[at] = 0;
        }
        x[n - 1] = 128;
        assert_true(tw_sum(x, n) != zeros);
        x[n - 1] = 0;
    }
    free(x);
}

/* Zeros at the end, and what stands where, are part of a content. */
static void lengths_and_places_count(void **state) {
    (void)state;
    unsigned char *x = calloc(MOST, 1), *y = calloc(MOST, 1);
    assert_true(x && y);
    for (size_t n = 0; n < 300; n++) assert_true(tw_sum(x, n) != tw_sum(x, n + 1));
    assert_true(tw_sum(x, TW_SUM_BLOCK) != tw_sum(x, TW_SUM_BLOCK + 1));
    static const size_t apart[] = {1, 8, 64, TW_SUM_BLOCK};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        x[0] = y[apart[i]] = 3;
        x[apart[i]] = y[0] = 5;
        assert_true(tw_sum(x, MOST) != tw_sum(y, MOST));
        x[apart[i]] = y[apart[i]] = 0;
    }
    free(x);
    free(y);
}

/* Files have these: other sums are another version of packages. */
static void sums_stay_what_they_are(void **state) {
    (void)state;
    static const char text[] = "a content of a package";
    assert_int_equal(tw_sum(NULL, 0), 0);
    assert_int_equal(tw_sum(text, sizeof text), UINT64_C(0x4d2c8675112280a5));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_byte_counts), cmocka_unit_test(lengths_and_places_count),
                                       cmocka_unit_test(sums_stay_what_they_are)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
