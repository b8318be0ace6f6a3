/* SPDX-License-Identifier: Apache-2.0 */
/* Maps in the emulator against values in double precision. */
#include "support/support.h"

#include "kernels/pointwise/map_kernel.h"
#include "kernels/random_points.h"

#include <stdio.h>
#include <string.h>

static void random_maps_are_right(void **state) {
    (void)state;
    enum { PROBLEMS = 400 };
    tw_random r = tw_random_seed(11);
    random_points_seen seen = {0};
    for (int i = 0; i < PROBLEMS; i++) {
        char words[4096];
        tw_map_problem p = {.early = i % 3 == 0};
        tw_diag d;
        random_points(&r, &p.x, 0, i % 2, &seen);
        p.out = random_points_result(&r, &p.x, tw_cells_class(&p.x.cells));
        tw_map_print(&p, words, sizeof words);
        if (tw_map_emulate(&p, tw_target_find("sm_90a"), (uint64_t)i, NULL, &d) != TW_OK)
            fail_msg("%d: %s: %s", i, words, d.message);
    }
    assert_true(seen.gathers > 40 && seen.backward > 40 && seen.broadcast > 100 && seen.vectors > 100 &&
                seen.indices > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_maps_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
