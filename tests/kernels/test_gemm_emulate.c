/* SPDX-License-Identifier: Apache-2.0 */
/* Hundreds of random legal configurations of matrix products in the emulator, every checker on: no finding, every cell
   right. What fails is printed as a command that shows it again. */
#include "support/support.h"

#include "kernels/gemm/generate.h"
#include "kernels/gemm/reference.h"
#include "kernels/random_gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = TEST_SANITIZED ? 30 : 320, WARPGROUP_CASES = TEST_SANITIZED ? 16 : 480, SHOWN = 10 };

static tw_status emulate(const gemm_case *c, tw_diag *diag) {
    tw_gemm_data d;
    tw_status st = tw_gemm_data_make(&d, &c->problem, c->seed, diag);
    if (st != TW_OK) return st;
    st = tw_gemm_emulate(&d, &c->config, c->target, c->seed, NULL, diag);
    tw_gemm_data_free(&d);
    return st;
}

static void random_configurations_are_right(void **state) {
    (void)state;
    static const char *const targets[] = {"sm_80", "sm_90a"};
    const gemm_limits most = {.m = 100, .n = 100, .k = 150, .parts = 6, .work = 1e6, .code = 2048};
    const char *first = getenv("GEMM_FIRST"), *count = getenv("GEMM_COUNT");
    const int from = first ? atoi(first) : 0, n = count ? atoi(count) : CASES;
    gemm_coverage v = {0};
    int failed = 0;
    for (int i = from; i < from + n; i++) {
        gemm_case c;
        tw_diag d;
        char text[800];
        if (!gemm_case_draw(&c, (uint64_t)i, tw_target_find(targets[i / 5 % 2]), &most)) {
            print_message("case %d: nothing legal was found\n", i);
            continue;
        }
        gemm_cover(&v, &c);
        if (emulate(&c, &d) == TW_OK) continue;
        gemm_case_print(&c, text, sizeof text);
        if (failed++ < SHOWN) print_message("%s --emulate\n  %s\n", text, d.message);
    }
    print_message("%d cases, %d failed\n", v.cases, failed);
    assert_int_equal(failed, 0);
    assert_true(v.cases >= n * 9 / 10);
    for (int i = 0; i < gemm_features() && v.cases >= 300; i++) {
        if (v.of[i] * 1000 >= v.cases * gemm_feature_least(i)) continue;
        print_message("%s: %d of %d cases, at least %d in 1000 wanted\n", gemm_feature_name(i), v.of[i], v.cases,
                      gemm_feature_least(i));
        failed++;
    }
    assert_int_equal(failed, 0);
}

/* Beside the others: among all that there is they would come up too rarely. */
static void warpgroups_are_right(void **state) {
    (void)state;
    const gemm_limits most = {.m = 200, .n = 150, .k = 300, .parts = 6, .work = 4e6, .code = 256};
    const char *first = getenv("GEMM_FIRST"), *count = getenv("GEMM_COUNT");
    const int from = first ? atoi(first) : 0, n = count ? atoi(count) : WARPGROUP_CASES;
    int failed = 0, splits[TW_JOIN_WAYS] = {0}, swapped = 0, deep = 0, together = 0, exchanged = 0, boxed = 0;
    int persistent = 0, teams = 0, streamed = 0, early = 0, batches = 0, sets = 0, split_sets = 0, groups = 0;
    int moved = 0, ahead = 0, boxed_groups = 0, swapped_groups = 0, teams_together = 0, gated = 0;
    int bytes = 0, promoted = 0, scaled = 0, blocks = 0, squares = 0, terms = 0;
    int narrow[TW_GEMM_NARROWS] = {0}, shared_scales = 0, many_scales = 0, narrow_ahead = 0, narrow_together = 0,
        sums = 0;
    int centred = 0, residuals = 0, means = 0;             /* Layer norms: of A, of the residual, and sums for such. */
    int masked = 0, gathered[2] = {0}, scattered[2] = {0}; /* As they are, and with swapped operands. */
    int by_lanes[16] = {0}, batches_by_lanes = 0;          /* Boxes by the bytes that a lane stores. */
    for (int i = from; i < from + n; i++) {
        gemm_case c;
        tw_diag d;
        char text[800];
        assert_true(gemm_case_draw_warpgroups(&c, (uint64_t)i, tw_target_find("sm_90a"), &most));
        assert_int_equal(c.config.mma, 2);
        splits[c.config.split] += c.config.kg > 1;
        swapped += c.config.swap;
        together += c.config.multicast > 0;
        exchanged += c.config.staged > 0;
        boxed += c.config.staged == TW_GEMM_BOXED;
        persistent += c.config.persistent > 0;
        teams += c.config.pingpong;
        streamed += c.config.stream > 0;
        early += c.config.early > 0;
        batches += c.problem.batch > 1;
        sets += c.problem.sets > 1;
        split_sets += c.problem.sets > 1 && (c.config.kg > 1 || c.config.stream);
        groups += c.problem.groups > 0;
        gated += c.problem.epilogue.gated;
        bytes += c.problem.type == TW_GEMM_E4M3;
        promoted += c.problem.promote;
        squares += c.problem.epilogue.squares;
        centred += c.problem.centred && !c.problem.norm_residual;
        residuals += c.problem.norm_residual;
        means += c.problem.epilogue.means;
        blocks += c.problem.scale_blocks;
        narrow[c.problem.narrow]++;
        shared_scales += c.problem.scales > c.config.u;
        many_scales += c.problem.scales && c.problem.scales < c.config.u;
        sums += c.problem.scale_sums;
        terms += c.problem.type == TW_GEMM_TF32X3;
        scaled += c.problem.epilogue.scale_rows || c.problem.epilogue.scale_columns;
        boxed_groups += c.problem.groups && c.config.staged == TW_GEMM_BOXED;
        swapped_groups += c.problem.groups && c.config.swap;
        masked += c.problem.masked;
        gathered[c.config.swap] += c.problem.gather;
        scattered[c.config.swap] += c.problem.scatter;
        teams_together += c.config.pingpong && c.config.multicast;
        tw_gemm_plan plan;
        const tw_gemm_variant v = tw_gemm_variant_of(&c.problem, &c.config);
        assert_null(tw_gemm_plan_of(&v, &c.config, c.target, &plan));
        if (c.config.staged == TW_GEMM_BOXED && v.vec_c < 16) {
            by_lanes[v.vec_c]++;
            batches_by_lanes += v.batched;
        }
        moved += plan.producer_registers > 0;
        ahead += v.ready_x || v.ready_y;
        narrow_ahead += v.narrow && v.ready_x;
        narrow_together += v.narrow && c.config.multicast;
        deep += c.config.stages * c.config.u * c.config.kg < c.problem.k; /* the ring goes round */
        if (emulate(&c, &d) == TW_OK) continue;
        gemm_case_print(&c, text, sizeof text);
        if (failed++ < SHOWN) print_message("%s --emulate\n  %s\n", text, d.message);
    }
    print_message("%d cases, %d failed; splits %d %d %d %d, swapped %d, deep %d, multicast %d, exchanged %d, boxed %d, "
                  "persistent %d, teams %d, streamed %d, early %d, batches %d (sets %d, split %d), groups %d "
                  "(boxed %d, swapped %d), moved registers %d, ahead %d, teams with multicast %d, gated %d, "
                  "e4m3 %d (promoted %d, scales of blocks %d), scaled %d, squares %d, tf32x3 %d, "
                  "i8 %d, i4 %d (scale of several stages %d, scales in a stage %d, ahead %d, multicast %d, sums %d), "
                  "masked %d, gathered %d %d, scattered %d %d, boxes by lanes: 2 bytes %d, 4 %d, 8 %d (batches %d), "
                  "layer norms %d, of residuals %d, sums for them %d\n",
                  n, failed, splits[0], splits[1], splits[2], splits[3], swapped, deep, together, exchanged, boxed,
                  persistent, teams, streamed, early, batches, sets, split_sets, groups, boxed_groups, swapped_groups,
                  moved, ahead, teams_together, gated, bytes, promoted, blocks, scaled, squares, terms,
                  narrow[TW_GEMM_I8], narrow[TW_GEMM_I4], shared_scales, many_scales, narrow_ahead, narrow_together,
                  sums, masked, gathered[0], gathered[1], scattered[0], scattered[1], by_lanes[2], by_lanes[4],
                  by_lanes[8], batches_by_lanes, centred, residuals, means);
    assert_int_equal(failed, 0);
    for (int i = 0; i < TW_JOIN_WAYS && n >= 300; i++) assert_true(splits[i] >= 20);
    assert_true(n < 300 || (swapped >= 80 && deep >= 20 && together >= 40 && exchanged >= 40 && boxed >= 20));
    assert_true(n < 300 ||
                (persistent >= 60 && teams >= 20 && streamed >= 20 && early >= 80 && batches >= 40 && groups >= 30));
    assert_true(n < 300 || (sets >= 20 && split_sets >= 8));
    assert_true(n < 300 || (by_lanes[2] >= 10 && by_lanes[4] >= 4 && by_lanes[8] >= 4 && batches_by_lanes >= 3));
    assert_true(n < 300 || boxed - by_lanes[2] - by_lanes[4] - by_lanes[8] >= 20);
    assert_true(n < 300 || (boxed_groups >= 10 && swapped_groups >= 10 && moved >= 10 && ahead >= 20));
    assert_true(n < 300 ||
                (teams_together >= 5 && gated >= 30 && bytes >= 70 && promoted >= 30 && scaled >= 100 && terms >= 60));
    assert_true(n < 300 || (blocks >= 8 && squares >= 30));
    assert_true(n < 300 || (centred >= 10 && residuals >= 5 && means >= 10));
    assert_true(n < 300 || (narrow[TW_GEMM_I8] >= 15 && narrow[TW_GEMM_I4] >= 15 && shared_scales >= 3));
    assert_true(n < 300 || (many_scales >= 3 && narrow_ahead >= 3 && narrow_together >= 3 && sums >= 4));
    assert_true(n < 300 || (masked >= 10 && gathered[0] >= 10 && gathered[1] >= 5));
    assert_true(n < 300 || (scattered[0] >= 8 && scattered[1] >= 8));
}

/* An end below the one before counts as that, and one beyond the last row as the last row's. There are more groups than
   a warp loads at a time. */
static void ends_that_are_wrong_are_bounded(void **state) {
    (void)state;
    static const char *const configs[] = {
        "mma=2 ms=64 ns=32 ml=64 nl=32 u=64 stages=2 kg=1 vec=16 persistent=3 pingpong=1 staged=3 group=2",
        "mma=2 ms=64 ns=16 ml=64 nl=16 u=64 stages=2 kg=1 vec=16 persistent=3 swap=1"};
    enum { ROWS = 200, GROUPS = 300 };
    for (int i = 0; i < 2; i++) {
        tw_gemm_problem p = {
            .type = TW_GEMM_F16, .m = ROWS, .n = 32, .k = 64, .groups = GROUPS, .trans_b = true, .alpha = 1};
        tw_gemm_data d;
        tw_diag diag;
        assert_int_equal(tw_gemm_problem_complete(&p, &diag), TW_OK);
        tw_gemm_config c = tw_gemm_config_default(&p);
        assert_int_equal(tw_gemm_config_parse(&c, configs[i], &diag), TW_OK);
        assert_int_equal(tw_gemm_data_make(&d, &p, 3, &diag), TW_OK);
        int32_t *ends = d.of[TW_GEMM_ENDS];
        int lower = 0, beyond = 0;
        for (int g = GROUPS - 1; g > 0; g--) {
            beyond += ends[g] == ROWS;
            if (ends[g] == ROWS) {
                ends[g] += 1000 * g;
            } else if (ends[g] == ends[g - 1]) {
                ends[g] = -g;
                lower++;
            }
        }
        assert_true(lower > 5 && beyond > 0);
        if (tw_gemm_emulate(&d, &c, tw_target_find("sm_90a"), 5, NULL, &diag) != TW_OK) fail_msg("%s", diag.message);
        tw_gemm_data_free(&d);
    }
}

/* A warpgroup that has no rows of a tile meets the others where they exchange sums. */
static void warpgroups_without_rows_meet_others(void **state) {
    (void)state;
    tw_gemm_problem p = {.type = TW_GEMM_BF16, .m = 100, .n = 32, .k = 64, .groups = 3, .trans_b = true, .alpha = 1};
    tw_gemm_data d;
    tw_diag diag;
    assert_int_equal(tw_gemm_problem_complete(&p, &diag), TW_OK);
    tw_gemm_config c = tw_gemm_config_default(&p);
    const char text[] = "mma=2 ms=64 ns=32 ml=128 nl=32 u=64 stages=2 kg=1 vec=16 persistent=2 staged=1";
    assert_int_equal(tw_gemm_config_parse(&c, text, &diag), TW_OK);
    for (uint64_t seed = 1; seed <= (TEST_SANITIZED ? 1 : 4); seed++) {
        assert_int_equal(tw_gemm_data_make(&d, &p, seed, &diag), TW_OK);
        const int32_t *ends = d.of[TW_GEMM_ENDS];
        bool few = false;
        for (int g = 0; g < 3; g++) few |= (ends[g] - (g ? ends[g - 1] : 0) + 127) % 128 < 64;
        assert_true(few);
        if (tw_gemm_emulate(&d, &c, tw_target_find("sm_90a"), seed, NULL, &diag) != TW_OK) fail_msg("%s", diag.message);
        tw_gemm_data_free(&d);
    }
}

/* What cells are combined with is loaded before the tile is multiplied: all of it, a part, or nothing, as there are
   registers. */
static void boxes_load_ahead_what_fits(void **state) {
    (void)state;
    static const char *const configs[] = {
        "ms=64 ns=32 ml=64 nl=32", "ms=64 ns=256 ml=64 nl=256", "ms=64 ns=128 ml=128 nl=128 kg=2",
        "ms=64 ns=96 ml=64 nl=96 persistent=2 pingpong=1", "ms=128 ns=192 ml=128 nl=192 persistent=2 pingpong=1"};
    enum { CONFIGS = sizeof configs / sizeof *configs, KINDS = 3 /* Of epilogues. */ };
    for (int i = 0; i < CONFIGS * KINDS; i += TEST_SANITIZED ? 4 : 1) {
        const bool gated = i % KINDS == 0, all = i % KINDS == 1;
        tw_gemm_problem p = {.type = TW_GEMM_F16,
                             .m = 150,
                             .n = gated ? 544 : 276,
                             .k = 72,
                             .ldb = gated ? 544 : 280,
                             .alpha = 1,
                             .beta = all ? 0.5 : 0,
                             .epilogue = {.gated = gated, .bias = !gated, .mul = all, .residual = true}};
        tw_gemm_data d;
        tw_diag diag;
        assert_int_equal(tw_gemm_problem_complete(&p, &diag), TW_OK);
        tw_gemm_config c = tw_gemm_config_default(&p);
        assert_int_equal(tw_gemm_config_parse(&c, "mma=2 u=64 vec=16 stages=2 staged=3 kg=1", &diag), TW_OK);
        assert_int_equal(tw_gemm_config_parse(&c, configs[i / KINDS], &diag), TW_OK);
        assert_int_equal(tw_gemm_data_make(&d, &p, 3, &diag), TW_OK);
        if (tw_gemm_emulate(&d, &c, tw_target_find("sm_90a"), 5, NULL, &diag) != TW_OK)
            fail_msg("%s, epilogue %d: %s", configs[i / KINDS], i % KINDS, diag.message);
        tw_gemm_data_free(&d);
    }
}

/* Tiles of several blocks of scales, whole ones and halves, along either side. */
static void tiles_have_several_blocks_of_scales(void **state) {
    (void)state;
    static const char *const configs[] = {"ms=64 ns=192 ml=64 nl=192",        "ms=64 ns=192 ml=64 nl=192 kg=2",
                                          "ms=64 ns=128 ml=128 nl=128",       "ms=64 ns=16 ml=256 nl=16 swap=1",
                                          "ms=128 ns=24 ml=256 nl=24 swap=1", "ms=64 ns=32 ml=192 nl=32 swap=1"};
    for (int i = 0; i < (int)(sizeof configs / sizeof *configs); i += TEST_SANITIZED ? 3 : 1) {
        tw_gemm_problem p = {.type = TW_GEMM_E4M3,
                             .m = 70,
                             .n = 420,
                             .k = 272,
                             .trans_b = true,
                             .alpha = 1,
                             .scale_blocks = true,
                             .groups = i % 2 ? 0 : 2};
        tw_gemm_data d;
        tw_diag diag;
        assert_int_equal(tw_gemm_problem_complete(&p, &diag), TW_OK);
        tw_gemm_config c = tw_gemm_config_default(&p);
        assert_int_equal(tw_gemm_config_parse(&c, configs[i], &diag), TW_OK);
        if (p.groups) c.persistent = 2;
        c.stages = 2;
        assert_int_equal(tw_gemm_data_make(&d, &p, 3, &diag), TW_OK);
        if (tw_gemm_emulate(&d, &c, tw_target_find("sm_90a"), 5, NULL, &diag) != TW_OK)
            fail_msg("%s: %s", configs[i], diag.message);
        tw_gemm_data_free(&d);
    }
}

/* Tiles of one stage, of which more fit the ring than are told ahead. */
static void gathered_tiles_of_one_stage_land(void **state) {
    (void)state;
    static const char *const configs[] = {"stages=7", "stages=10", "stages=10 pingpong=1", "stages=10 swap=1"};
    for (int i = 0; i < (int)(sizeof configs / sizeof *configs); i += TEST_SANITIZED ? 3 : 1) {
        tw_gemm_problem p = {.type = TW_GEMM_BF16,
                             .m = 1000,
                             .n = 64,
                             .k = 64,
                             .groups = 2,
                             .gather = true,
                             .rows_a = 30,
                             .trans_b = true,
                             .alpha = 1};
        tw_gemm_data d;
        tw_diag diag;
        assert_int_equal(tw_gemm_problem_complete(&p, &diag), TW_OK);
        tw_gemm_config c = tw_gemm_config_default(&p);
        c.persistent = 1;
        assert_int_equal(tw_gemm_config_parse(&c, configs[i], &diag), TW_OK);
        assert_int_equal(tw_gemm_data_make(&d, &p, 3, &diag), TW_OK);
        if (tw_gemm_emulate(&d, &c, tw_target_find("sm_90a"), 5, NULL, &diag) != TW_OK)
            fail_msg("%s: %s", configs[i], diag.message);
        tw_gemm_data_free(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_configurations_are_right),     cmocka_unit_test(warpgroups_are_right),
        cmocka_unit_test(ends_that_are_wrong_are_bounded),     cmocka_unit_test(boxes_load_ahead_what_fits),
        cmocka_unit_test(tiles_have_several_blocks_of_scales), cmocka_unit_test(gathered_tiles_of_one_stage_land),
        cmocka_unit_test(warpgroups_without_rows_meet_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
