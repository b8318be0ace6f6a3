/* SPDX-License-Identifier: Apache-2.0 */
/* Problems in words. */
#include "support/support.h"

#include "tune/axes.h"

#include <string.h>

static const char *const axes[] = {"m", "mm", "k"};

static void words_are_read(void **state) {
    (void)state;
    int64_t problem[3] = {0};
    bool given[3] = {false};
    assert_true(tw_axes_read(axes, 3, "mm=16777216", 11, problem, given));
    assert_true(tw_axes_read(axes, 3, "m=0123", 6, problem, given));
    assert_true(!given[2] && tw_axes_read(axes, 3, "k=19 m=2", 4, problem, given));
    assert_true(problem[0] == 123 && problem[1] == TW_SELECT_MOST && problem[2] == 19);
    assert_true(given[0] && given[1] && given[2]);
    assert_false(tw_axes_read(axes, 3, "k=19", 4, problem, given));
}

static void other_words_are_refused(void **state) {
    (void)state;
    static const char *const words[] = {"",
                                        "=",
                                        "m",
                                        "m=",
                                        "=1",
                                        "n=1",
                                        "mmm=1",
                                        "m=0",
                                        "m=-1",
                                        "m=+1",
                                        "m= 1",
                                        "m=1 ",
                                        "m=1x",
                                        "m=0x1",
                                        "m=1.0",
                                        "m==1",
                                        "M=1",
                                        "m=16777217",
                                        "m=1e3",
                                        " m=1",
                                        "m =1",
                                        "m=18446744073709551617",
                                        "m=9223372036854775808"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        int64_t problem[3] = {0};
        bool given[3] = {false};
        if (tw_axes_read(axes, 3, words[i], strlen(words[i]), problem, given)) fail_msg("\"%s\" is read", words[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_read),
        cmocka_unit_test(other_words_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
