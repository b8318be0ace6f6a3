/* SPDX-License-Identifier: Apache-2.0 */
/* Target records, and occupancy against values that NVIDIA's occupancy calculator gives. */
#include "support/support.h"

#include "device/target.h"

#include <string.h>

static void are_found(void **state) {
    (void)state;
    assert_string_equal(tw_target_find("sm_90a")->name, "sm_90a");
    assert_string_equal(tw_target_find("sm_90")->name, "sm_90a");
    assert_string_equal(tw_target_find("sm_80")->name, "sm_80");
    assert_null(tw_target_find("sm_8"));
    assert_null(tw_target_find("sm_80a"));
    assert_null(tw_target_find(""));
    assert_null(tw_target_at(-1));
    for (int i = 0; tw_target_at(i); i++) {
        const tw_target *t = tw_target_at(i);
        assert_ptr_equal(tw_target_find(t->name), t);
        assert_ptr_equal(tw_target_for(t->sm), t);
        assert_true(i == 0 || tw_target_at(i - 1)->sm < t->sm);
    }
    /* Code for sm_90a, sm_100a runs nowhere else; sm_80's and sm_89's on everything later. */
    assert_null(tw_target_for(75));
    assert_string_equal(tw_target_for(86)->name, "sm_80");
    assert_string_equal(tw_target_for(103)->name, "sm_89");
    assert_string_equal(tw_target_for(121)->name, "sm_89");
}

static void occupancy(void **state) {
    (void)state;
    static const struct {
        const char *target;
        int threads, registers, shared, blocks;
    } cases[] = {
        {"sm_80", 256, 32, 0, 8},        /* threads */
        {"sm_80", 32, 16, 0, 32},        /* blocks */
        {"sm_80", 256, 33, 0, 6},        /* 1,280 registers a warp: 12 warps in each quarter */
        {"sm_80", 128, 255, 0, 2},       /* 8,192 a warp: 2 in each quarter */
        {"sm_80", 96, 255, 0, 2},        /* 8 warps make two blocks of 3 */
        {"sm_80", 288, 168, 0, 1},       /* 5,376 a warp: 12 fit, 9 count as 12 */
        {"sm_80", 416, 160, 0, 0},       /* 5,120 a warp: 12 fit, 13 do not */
        {"sm_80", 128, 64, 81 << 10, 2}, /* with the system's 1 KiB each, exactly 164 KiB */
        {"sm_80", 128, 64, 82 << 10, 1},
        {"sm_80", 128, 64, 163 << 10, 1},
        {"sm_80", 128, 64, (163 << 10) + 1, 0},
        {"sm_89", 1024, 32, 0, 1}, /* 48 warps hold one block of 32 */
        {"sm_89", 32, 16, 0, 24},
        {"sm_89", 128, 64, 24 << 10, 4},
        {"sm_90a", 384, 168, 200 << 10, 1},
        {"sm_90a", 128, 128, 113 << 10, 2}, /* exactly 228 KiB */
        {"sm_90a", 128, 128, (113 << 10) + 1, 1},
        {"sm_90a", 1024, 64, 0, 1},
        {"sm_90a", 1024, 65, 0, 0},
        {"sm_90a", 1025, 16, 0, 0},
        {"sm_90a", 128, 256, 0, 0},
        {"sm_100a", 128, 128, 227 << 10, 1},
        {"sm_120a", 256, 40, 0, 6},
        {"sm_120a", 128, 40, 99 << 10, 1},
        {"sm_120a", 128, 40, 100 << 10, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int blocks =
            tw_target_blocks(tw_target_find(cases[i].target), cases[i].threads, cases[i].registers, cases[i].shared);
        if (blocks != cases[i].blocks)
            fail_msg("%s, %d threads, %d registers, %d bytes: %d blocks, not %d", cases[i].target, cases[i].threads,
                     cases[i].registers, cases[i].shared, blocks, cases[i].blocks);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(are_found), cmocka_unit_test(occupancy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
