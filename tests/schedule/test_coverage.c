/* SPDX-License-Identifier: Apache-2.0 */
/* How often the bytes of a box were written, against counting each of them. */
#include "schedule/coverage.h"

#include "base/clock.h"
#include "base/random.h"
#include "support/support.h"

#include <string.h>

enum { SIDE = 7, MOST = 12 };

static tw_coverage counted(const tw_cover *c, int n, const int64_t lo[3], const int64_t hi[3]) {
    tw_coverage out = {INT64_MAX, 0};
    for (int64_t i = lo[0]; i < hi[0]; i++)
        for (int64_t j = lo[1]; j < hi[1]; j++)
            for (int64_t k = lo[2]; k < hi[2]; k++) {
                int64_t count = 0, at[3] = {i, j, k};
                for (int b = 0; b < n; b++) {
                    bool in = true;
                    for (int d = 0; d < 3; d++) in = in && at[d] >= c[b].lo[d] && at[d] < c[b].hi[d];
                    count += in ? c[b].count : 0;
                }
                if (count < out.least) out.least = count;
                if (count > out.most) out.most = count;
            }
    return out;
}

/* Ranges of `flat` dimensions are whole, so that boxes differ in one, two or three. */
static void random_range(tw_random *r, bool whole, int64_t *lo, int64_t *hi) {
    *lo = whole ? 0 : (int64_t)tw_random_below(r, SIDE);
    *hi = whole ? SIDE : *lo + 1 + (int64_t)tw_random_below(r, (uint64_t)(SIDE - *lo));
}

static void check_one(tw_random *r, bool sorted) {
    tw_cover c[MOST], held[MOST];
    int64_t lo[3], hi[3];
    int n = (int)tw_random_below(r, MOST + 1), flat = (int)tw_random_below(r, 8);
    for (int d = 0; d < 3; d++) random_range(r, tw_random_below(r, 2), &lo[d], &hi[d]);
    for (int b = 0; b < n; b++) {
        c[b].count = (int64_t)tw_random_below(r, 3);
        for (int d = 0; d < 3; d++) random_range(r, flat >> d & 1, &c[b].lo[d], &c[b].hi[d]);
    }
    for (int a = 0; sorted && a < n; a++)
        for (int b = a + 1; b < n; b++)
            if (memcmp(c[b].lo, c[a].lo, sizeof c->lo) < 0) {
                tw_cover t = c[a];
                c[a] = c[b];
                c[b] = t;
            }
    memcpy(held, c, sizeof held);
    tw_coverage want = counted(held, n, lo, hi), got;
    assert_true(tw_coverage_of(c, n, lo, hi, &got));
    assert_int_equal(got.least, want.least);
    assert_int_equal(got.most, want.most);
}

static void random_boxes_are_counted_right(void **state) {
    (void)state;
    tw_random r = tw_random_seed((uint64_t)tw_now_ns());
    for (int i = 0; i < 30000; i++) check_one(&r, i % 2);
}

static void tiles_cover_once(void **state) {
    (void)state;
    tw_cover c[3] = {{{0, 0, 0}, {1, 1, 16}, 1}, {{0, 0, 16}, {1, 1, 48}, 1}, {{0, 0, 48}, {1, 1, 64}, 1}};
    const int64_t lo[3] = {0, 0, 0}, hi[3] = {1, 1, 64};
    tw_coverage got;
    assert_true(tw_coverage_of(c, 3, lo, hi, &got));
    assert_int_equal(got.least, 1);
    assert_int_equal(got.most, 1);
    assert_true(tw_coverage_of(c, 2, lo, hi, &got));
    assert_int_equal(got.least, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_boxes_are_counted_right),
        cmocka_unit_test(tiles_cover_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
