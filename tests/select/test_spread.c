/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are spread over groups: expectations against means of random draws. */
#include "support/support.h"

#include "base/random.h"
#include "select/format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 128, DRAWS = 200 };

/* Draws the rows of groups. Returns the number of groups that have rows; *tiles gets the number of tiles. */
static int draw(tw_random *r, int rows, int groups, int tile, int *tiles) {
    int of[GROUPS] = {0}, used = 0;
    *tiles = 0;
    for (int i = 0; i < rows; i++) of[tw_random_below(r, (uint64_t)groups)]++;
    for (int g = 0; g < groups; g++) {
        used += of[g] > 0;
        *tiles += (of[g] + tile - 1) / tile;
    }
    return used;
}

static void expectations_are_means(void **state) {
    (void)state;
    static const struct {
        int rows, groups, tile;
        double off; /* How far off the tiles may be, relatively: rows of a group near a tile's are worst. */
    } cases[] = {{1, 128, 8, 0.01},     {8, 128, 8, 0.05},  {128, 128, 16, 0.01},   {128, 128, 1, 0.4},
                 {512, 8, 64, 0.35},    {700, 8, 64, 0.1},  {4096, 128, 128, 0.01}, {9000, 64, 64, 0.1},
                 {20000, 16, 256, 0.1}, {1000, 1, 64, 0.1}, {3000, 100, 16, 0.1}};
    tw_random r = tw_random_seed(3);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double used = 0, tiles = 0;
        for (int i = 0; i < DRAWS; i++) {
            int n;
            used += (double)draw(&r, cases[c].rows, cases[c].groups, cases[c].tile, &n) / DRAWS;
            tiles += (double)n / DRAWS;
        }
        const int64_t expected = tw_spread_used(cases[c].rows, cases[c].groups);
        assert_true(fabs((double)expected - used) < 1.2);
        const int64_t many = tw_spread_tiles(cases[c].rows, expected, cases[c].tile);
        if (fabs((double)many / tiles - 1) > cases[c].off)
            fail_msg("%d rows, %d groups: %lld tiles, and %g on the mean", cases[c].rows, cases[c].groups,
                     (long long)many, tiles);
        assert_int_equal(tw_spread_share(cases[c].rows, cases[c].groups), (cases[c].rows + expected - 1) / expected);
    }
}

/* There are neither more groups with rows than rows or groups, nor fewer tiles than such groups. */
static void ends_hold(void **state) {
    (void)state;
    tw_random r = tw_random_seed(4);
    for (int i = 0; i < 100000; i++) {
        const int64_t rows = 1 + (int64_t)tw_random_below(&r, UINT64_C(1) << (1 + tw_random_below(&r, 20)));
        const int64_t groups = 1 + (int64_t)tw_random_below(&r, 256), tile = 8 * (1 + (int64_t)tw_random_below(&r, 32));
        const int64_t used = tw_spread_used(rows, groups), tiles = tw_spread_tiles(rows, used, tile);
        assert_true(used >= 1 && used <= rows && used <= groups);
        assert_true(tiles >= used && tiles * tile >= rows);
        assert_true(select_spread((float)rows, (float)used, (float)tile) == (float)tiles);
    }
    assert_int_equal(tw_spread_used(TW_SELECT_MOST, TW_SELECT_MOST), 10605223 /* (1 - 1 / e) of them. */);
    assert_int_equal(tw_spread_used(1, TW_SELECT_MOST), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(expectations_are_means), cmocka_unit_test(ends_hold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
