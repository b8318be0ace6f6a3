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

/* Problems that chance seldom makes. */
static void special_maps_are_right(void **state) {
    (void)state;
    static const char *const of[] = {
        "dims=1x3x4x5 x0=f32 expr=add(real(d1),mul(x0,real(d3))) out=f32",
        "dims=3x1x4x5 x0=f32 expr=add(real(d2),mul(x0,real(d1))) out=f32",
        "dims=2x8 x0=f32[8,1] x1=f32[1,0]@2*1/3 x2=i32[1,0] expr=add(x0,x1) out=f32[8,1] early=1",
        "dims=20000x8 expr=add(mul(d0,8),d1) out=i32",
        "dims=30000x3 x0=f16 out=f32",
        "dims=6 expr=true out=bool",
        "dims= x0=f32 expr=exp(x0) out=f32",
        "dims=500 x0=f32 expr=mul(1000.0,log(f16(add(1.0,mul(x0,0.01))))) out=f32",
        "dims=500 x0=f32 expr=mul(1e6,log1p(mul(x0,1e-6))) out=f32",
        /* Exponents beyond 63 and below 0, of bases that have such powers. */
        "dims=50x50 x0=i64[1,0] x1=i64[0,1] expr=powi(x0,add(mul(x1,5),60)) out=u64",
        "dims=50x50 x0=i32[1,0] x1=i64[0,1] expr=powi(sub(bit_and(x0,3),2),x1) out=i64",
        "dims=50x50 x0=u64[1,0] x1=i8[0,1] expr=add(divu(x0,bit_and(x1,15)),remu(x0,x1)) out=u64",
        /* Numbers closer to 0 than normal ones. Those below 0 have no logarithm. */
        "dims=500 x0=f64 x1=f64 expr=max(sqrt(x0),x1) out=f64",
        /* Remainders of what has many times as much in it, or nothing of an infinity. */
        "dims=500 x0=f32 x1=f32 expr=rem(mul(x0,1073741824.0),x1) out=f32",
        "dims=500 x0=f64 x1=f64 expr=rem(mul(x0,1267650600228229401496703205376.0),x1) out=f64",
        "dims=500 x0=f32 x1=f32 expr=rem(x0,where(less(x1,0),inf,mul(x1,0))) out=f32",
        "dims=500 x0=f64 x1=f64 expr=rem(x0,where(less(x1,0),neg(inf),mul(x1,0))) out=f64",
        /* Beyond what f64 holds, and what it has no exponent for. */
        "dims=500 x0=f64 expr=exp(mul(x0,380)) out=f64",
        "dims=500 x0=f64 expr=log(mul(mul(x0,1e-200),1e-115)) out=f64",
        "dims=500 x0=f64[2] expr=log(add(1,mul(x0,1e-9))) out=f64[2]",
        "dims=60x3 x0=f64 x1=f64[0,1]@2*3/4 x2=i32[3,1] expr=add(x0,x1) out=f64",
        "dims=500 x0=f32 expr=isnan(log(mul(mul(x0,1e-30),1e-10))) out=bool",
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char words[200];
        tw_map_problem p;
        tw_diag d;
        snprintf(words, sizeof words, "%s", of[i]);
        if (tw_map_parse(&p, words, &d) != TW_OK) fail_msg("%s: %s", of[i], d.message);
        if (tw_map_emulate(&p, tw_target_find("sm_90a"), i, NULL, &d) != TW_OK) fail_msg("%s: %s", of[i], d.message);
    }
}

/* Threads of large arrays compute several indices of a dimension: of the one along which they load least. */
static void several_indices_of_a_thread(void **state) {
    (void)state;
    static const struct {
        const char *words;
        int blocks;
    } of[] = {
        /* Of dimension 1, whose number the value depends on. A block is not full. */
        {"dims=22600x4x3 x0=f16 x1=f32[3,0,1]! expr=add(mul(x0,x1),real(d1)) out=f16 early=1", 530},
        /* Of dimension 0, along which nobody gathers. */
        {"dims=2x45076x3 x0=f32[3,0,1]@1*6/40000 x1=i32[0,1,0] x2=f16 expr=add(x0,x2) out=f32[135240,3,1]", 529},
        /* Of dimension 0, along which both operands are the same. */
        {"dims=2x2x45061x3 x0=f16[0,3,6,1] x1=f32[0,3,0,1]! expr=sub(x0,x1) out=f16[270366,3,6,1] early=1", 1057},
        /* Each thread has one index: too few threads would remain. */
        {"dims=22500x4x3 x0=f16 x1=f32[3,0,1] expr=mul(x0,x1) out=f16", 1055},
    };
    for (size_t i = 0; i < (TEST_SANITIZED ? 1 : sizeof of / sizeof *of); i++) {
        char words[200];
        tw_map_problem p;
        tw_plan plan = {0};
        tw_diag d;
        snprintf(words, sizeof words, "%s", of[i].words);
        if (tw_map_parse(&p, words, &d) != TW_OK) fail_msg("%s: %s", of[i].words, d.message);
        assert_int_equal(tw_map_plan(&p, &plan, tw_target_find("sm_90a"), &d), TW_OK);
        if (plan.launch.grid[0] != of[i].blocks) fail_msg("%s: %d blocks", of[i].words, plan.launch.grid[0]);
        tw_kernel_free(plan.kernel);
        if (tw_map_emulate(&p, tw_target_find("sm_90a"), i, NULL, &d) != TW_OK)
            fail_msg("%s: %s", of[i].words, d.message);
    }
}

static void words_are_written_as_they_are_read(void **state) {
    (void)state;
    static const struct {
        const char *words, *again;
    } of[] = {
        {"dims=4x8 x0=f16 expr=add(x0,1) out=f16", "dims=4x8 x0=f16 expr=add(x0,1.0) out=f16 early=0"},
        {"out=f32[1,4] x1=i64[1,0]! early=1 x0=f32[0,1]@1*8/30 expr=x0 dims=4x8",
         "dims=4x8 x0=f32[0,1]@1*8/30 x1=i64[1,0]! expr=x0 out=f32[1,4] early=1"},
        {"dims= x0=i8:1 out=i8:4", "dims= x0=i8:1 expr=x0 out=i8:4 early=0"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char words[200], again[200];
        tw_map_problem p;
        tw_diag d;
        snprintf(words, sizeof words, "%s", of[i].words);
        if (tw_map_parse(&p, words, &d) != TW_OK) fail_msg("%s: %s", of[i].words, d.message);
        tw_map_print(&p, again, sizeof again);
        assert_string_equal(again, of[i].again);
    }
}

static void words_without_sense_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *words, *why;
    } of[] = {{"x0=f16 out=f16", "dims is missing"},
              {"dims=4x x0=f16 out=f16", "extents are wanted"},
              {"dims=1x1x1x1x1x1x1 x0=f16 out=f16", "extents are wanted"},
              {"dims=4x-1 x0=f16 out=f16", "extents are wanted"},
              {"dims=4 x0=f16", "out is missing"},
              {"dims=4 x1=f16 expr=x1 out=f16", "x0 is missing"},
              {"dims=4 x0=f8 out=f16", "no such type"},
              {"dims=4 x0=f64 out=f16", "cannot hold"},
              {"dims=4 x0=f64 expr=tanh(x0) out=f64", "wrong classes"},
              {"dims=4x4 x0=f16[1] out=f16", "a stride a dimension"},
              {"dims=4 x0=f16[1,2] out=f16", "a stride a dimension"},
              {"dims=4 x0=f16@1 x1=i32 out=f16", "is wanted"},
              {"dims=4 x0=f16@1*2/3 x1=f16 out=f16", "no integer operand"},
              {"dims=4 x0=f16@0*2/3 out=f16", "no integer operand"},
              {"dims=4 x0=f16:3 out=f16", "no such alignment"},
              {"dims=4 x0=f16?! out=f16", "no such type"},
              {"dims=4 x0=f16!! out=f16", "something follows"},
              {"dims=4 x0=f16 out=i32", "cannot hold"},
              {"dims=4 x0=f16 expr=less(x0,1) out=f16", "cannot hold"},
              {"dims=4 x0=f16 expr=real(d1) out=f16", "no dimension 1"},
              {"dims=4 x0=f16 expr=add(x0 out=f16", "another operand is missing"},
              {"dims=4 x0=f16 out=f16 early=2", "0 or 1"},
              {"dims=4 x0=f16 out=f16 late=1", "no such word"},
              {"dims=4 x0=f16 out", "a word is a name"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char words[200];
        tw_map_problem p;
        tw_diag d;
        snprintf(words, sizeof words, "%s", of[i].words);
        if (tw_map_parse(&p, words, &d) != TW_ERR_USAGE) fail_msg("%s", of[i].words);
        if (!strstr(d.message, of[i].why)) fail_msg("%s: %s", of[i].words, d.message);
    }
    tw_map_problem p;
    tw_diag d;
    assert_int_equal(tw_map_parse(&p, (char[]){"dims=4 x0=f16 out=f16 early=1"}, &d), TW_OK);
    assert_null(tw_map_make(&p, tw_target_find("sm_80"), true, &d));
    assert_non_null(strstr(d.message, "no early launches"));
    assert_int_equal(tw_map_parse(&p, (char[]){"dims=4x0 x0=f16 out=f16"}, &d), TW_OK);
    assert_null(tw_map_make(&p, tw_target_find("sm_80"), true, &d));
    assert_non_null(strstr(d.message, "no elements"));
    assert_int_equal(tw_map_parse(&p, (char[]){"dims=65536x65536 x0=f16[0,0] expr=real(d1) out=f32[0,0]"}, &d), TW_OK);
    assert_null(tw_map_make(&p, tw_target_find("sm_80"), true, &d));
    assert_non_null(strstr(d.message, "32 bits"));
}

/* A thread accesses 16 bytes at once where the problem's strides and alignments allow it. */
static void accesses_are_as_wide_as_they_can_be(void **state) {
    (void)state;
    static const struct {
        const char *words;
        int align; /* Of x0. */
    } of[] = {{"dims=4x64 x0=f16 out=f16", 16},
              {"dims=4x64 x0=f32 out=f32", 16},
              {"dims=4x64 x0=i8 out=i8", 8},
              {"dims=4x64 x0=f16[65,1] out=f16", 2},
              {"dims=4x64 x0=f16[68,1] out=f16", 8},
              {"dims=4x64 x0=f16:4 out=f16", 4},
              {"dims=4x63 x0=f16 out=f16", 8},
              {"dims=4x63 x0=f16[64,1] out=f16", 2},
              {"dims=4x64 x0=f16[1,4] out=f16", 2},
              {"dims=4x64 x0=f16[0,1]@1*8/9 x1=i32[1,0] out=f16", 16},
              {"dims=4x64 x0=f16[0,1]@1*2/9 x1=i32[1,0] out=f16", 4}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char words[200];
        tw_plan plan = {0};
        tw_diag d;
        snprintf(words, sizeof words, "%s", of[i].words);
        assert_int_equal(tw_map_plan_words(&plan, words, (char[]){""}, tw_target_find("sm_90a"), &d), TW_OK);
        if (plan.buffers[0].align != of[i].align) fail_msg("%s: %d", of[i].words, plan.buffers[0].align);
        tw_kernel_free(plan.kernel);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_maps_are_right),           cmocka_unit_test(special_maps_are_right),
        cmocka_unit_test(several_indices_of_a_thread),     cmocka_unit_test(words_are_written_as_they_are_read),
        cmocka_unit_test(words_without_sense_are_refused), cmocka_unit_test(accesses_are_as_wide_as_they_can_be)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
