/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations of attention with two blocks, or few tiles, on SMs: what is measured, expected and chosen, on a
   stand-in for the driver whose kernels do nothing. */
#define _GNU_SOURCE
#include "device/fake_cuda.h"
#include "vm/network_stand_in.h"

#include <stdio.h>
#include <sys/stat.h>

enum {
    SMS = 132,
    WARPGROUP = 128, /* Threads. */
    FEW = 4          /* Heads whose tiles leave SMs idle. */
};

static tw_attention_problem problem_of(int64_t heads, int64_t length, bool causal) {
    tw_attention_problem p = {.type = TW_T_f16,
                              .heads = heads,
                              .kv_heads = heads,
                              .head = 64,
                              .queries = length,
                              .keys = length,
                              .batch = 1,
                              .scale = 0.125,
                              .causal = causal};
    good(tw_attention_complete(&p, NULL), NULL);
    return p;
}

/* Returns the `early` of a problem's attention where the plan has this configuration. */
static int early_of(const char *configuration, bool late) {
    tw_gpu gpu = {.target = tw_target_find("sm_90a")};
    tw_network_plan plan = {0};
    tw_cuda_network n = {
        .gpu = &gpu, .plan = &plan, .options.late = late, .info = {.sm = 90, .sms = SMS, .target = gpu.target}};
    const tw_attention_problem p = problem_of(12, 512, false);
    tw_network_attending c;
    char words[512];
    tw_attention_print(&p, words, sizeof words);
    good(tw_network_plan_add(&plan, &(tw_network_choice){"attention", words, configuration, 1, false}, NULL), NULL);
    good(tw_network_choose_attention(&n, &p, &c, NULL), NULL);
    assert_int_equal(c.entry, 1);
    assert_true(tw_attention_legal(&p, &c.config, gpu.target, NULL, NULL));
    tw_network_plan_free(&plan);
    return c.config.early;
}

static void blocks_beside_others_stay_there(void **state) {
    (void)state;
    assert_int_equal(early_of("rows=64 columns=64 slices=1 pingpong=0 early=2", false), TW_ATTENTION_BESIDE);
    assert_int_equal(early_of("rows=64 columns=64 slices=1 pingpong=0 early=0", false), 1);
    assert_int_equal(early_of("rows=64 columns=64 slices=1 pingpong=0 early=2", true), 0);
    assert_int_equal(early_of("rows=64 columns=64 slices=1 pingpong=0 early=1", true), 0);
}

/* Two blocks with a warpgroup each take the time of one with two, if there are tiles for them. */
static void two_blocks_are_as_two_warpgroups(void **state) {
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        for (int few = 0; few < 2; few++) {
            const tw_attention_problem p = problem_of(few ? 4 : 40, few ? 512 : 4096, causal);
            const tw_attention_config two = {.rows = 128, .columns = 64, .splits = 1},
                                      one = {.rows = 64, .columns = 64, .splits = 1},
                                      beside = {.rows = 64, .columns = 64, .splits = 1, .early = TW_ATTENTION_BESIDE};
            const double time = tw_network_attention_time(&p, &beside, SMS);
            assert_true(time == tw_network_attention_time(&p, few ? &one : &two, SMS));
            assert_true(time != tw_network_attention_time(&p, few ? &two : &one, SMS));
        }
    }
}

/* Two warpgroups that share queries take more than half of the time of one. Warps that do take what others take. */
static void warpgroups_that_share_are_sooner_over(void **state) {
    (void)state;
    const tw_attention_problem p = problem_of(4, 4096, false);
    for (int mma = 1; mma <= 2; mma++) {
        const tw_attention_config one = {.rows = 64, .columns = 64, .splits = 1, .mma = mma, .slices = 1},
                                  two = {.rows = 64, .columns = 64, .splits = 1, .mma = mma, .slices = 2};
        const double alone = tw_network_attention_time(&p, &one, SMS),
                     shared = tw_network_attention_time(&p, &two, SMS);
        assert_true(mma == TW_ATTENTION_BY_WARPS ? shared == alone : shared < alone && shared > alone / 2);
    }
}

/* Launches of blocks that have room beside others, and those of them that fill all SMs twice. */
static int paired, persistent;

static void note(void **parameters) {
    const fake_cuda_seen *s = fake_cuda_look();
    (void)parameters;
    if (!s->programmatic) return;
    assert_true(s->block[0] == 2 * WARPGROUP);
    paired++;
    persistent += s->grid[0] == 2 * SMS;
}

/* Launches with two warpgroups that multiply, with one, and with four warps, for each 64 queries. */
static unsigned tiles;
static int sharing, single, four;

static void note_shared(void **parameters) {
    const fake_cuda_seen *s = fake_cuda_look();
    (void)parameters;
    sharing += s->block[0] == 3 * WARPGROUP && s->grid[0] == tiles;
    single += s->block[0] == 2 * WARPGROUP && s->grid[0] == tiles;
    four += s->block[0] == WARPGROUP && s->grid[0] == tiles;
}

/* Writes a compiler whose machine code the stand-in loads: by itself it loads no kernel with setmaxnreg. */
static void write_compiler(const char *folder, char *path, size_t size) {
    static const char text[] = "#!/bin/sh\n"
                               "[ \"$1\" = --version ] && echo none && exit\n"
                               "{ printf 'FAKE CUBIN\\n'; cat \"$6\"; printf '\\0'; } >\"$5\"\n";
    test_write(folder, "compiler", text, sizeof text - 1);
    snprintf(path, size, "%s/compiler", folder);
    assert_int_equal(chmod(path, 0700), 0);
}

/* Searches for a problem's attention, by kernels of a target. The hook notes the launches. */
static void search_for(const tw_attention_problem *p, const char *target, void (*hook)(void **)) {
    char *folder = test_folder_make(), path[1024];
    write_compiler(folder, path, sizeof path);
    tw_network_plan plan = {0};
    tw_diag diag = {0};
    tw_cuda_network n = {.gpu = m.gpu,
                         .plan = &plan,
                         .options.by = TW_NETWORK_OWN,
                         .info = *tw_cuda_describe(m.gpu->cuda),
                         .searching.compiler = {.cuda = m.gpu->cuda, .ptxas = path}};
    const tw_target *own = m.gpu->target;
    m.gpu->target = tw_target_find(target);
    fake_cuda_hook("attention", hook);
    good(tw_network_search_attention(&n, p, "words", &diag), &diag);
    fake_cuda_hook("", NULL);
    m.gpu->target = own;
    tw_network_plan_free(&plan);
    test_folder_remove(folder);
}

static void blocks_beside_others_are_measured(void **state) {
    (void)state;
    const tw_attention_problem p = problem_of(5 * SMS, 64, false);
    paired = persistent = 0;
    search_for(&p, "sm_90a", note);
    assert_true(persistent > 0 && paired > persistent);
}

/* Queries are shared where tiles are few, and warpgroups multiply. */
static void shared_queries_are_measured(void **state) {
    (void)state;
    const tw_attention_problem few = problem_of(FEW, 192, false), many = problem_of(SMS, 192, false);
    sharing = single = four = 0;
    tiles = 3 * FEW;
    search_for(&few, "sm_90a", note_shared);
    assert_true(sharing > 0 && single > 0);
    search_for(&few, "sm_80", note_shared); /* Warps have two strips there. */
    assert_int_equal(four, 0);
    sharing = single = 0;
    tiles = 3 * SMS;
    search_for(&many, "sm_90a", note_shared);
    assert_true(sharing == 0 && single > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_beside_others_stay_there),
        cmocka_unit_test(two_blocks_are_as_two_warpgroups),
        cmocka_unit_test(warpgroups_that_share_are_sooner_over),
        cmocka_unit_test_setup_teardown(blocks_beside_others_are_measured, open_products, close_all),
        cmocka_unit_test_setup_teardown(shared_queries_are_measured, open_products, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
