/* SPDX-License-Identifier: Apache-2.0 */
/* Growing arrays: capacities, and what is refused. */
#include "support/support.h"

#include "base/grow.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

static void a_full_array_doubles(void **state) {
    (void)state;
    int *list = NULL, room = 0;
    for (int n = 0; n < 100; n++) {
        const int before = room;
        int *const grown = tw_grow(list, n, &room, 3, sizeof *list);
        assert_non_null(grown);
        assert_int_equal(room, n < before ? before : n ? 2 * n : 3);
        if (n < before) assert_ptr_equal(grown, list);
        list = grown;
        list[n] = 7 * n;
    }
    for (int n = 0; n < 100; n++) assert_int_equal(list[n], 7 * n);
    free(list);
}

/* The array and its capacity stay as they are if there is no room. */
static void too_much_is_refused(void **state) {
    (void)state;
    char one;
    int room = INT_MAX;
    assert_null(tw_grow(&one, INT_MAX, &room, 1, 1));
    assert_int_equal(room, INT_MAX);
    room = 1 << 20;
    assert_null(tw_grow(&one, room, &room, 1, SIZE_MAX >> 20));
    assert_int_equal(room, 1 << 20);
    if (TEST_SANITIZED) return; /* Sanitizers end a program that asks for more than there can be. */
    room = 0;
    assert_null(tw_grow(NULL, 0, &room, 2, SIZE_MAX / 2));
    assert_int_equal(room, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_array_doubles),
        cmocka_unit_test(too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
