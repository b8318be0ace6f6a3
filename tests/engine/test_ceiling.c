/* SPDX-License-Identifier: Apache-2.0 */
/* Which unit's ceiling bounds a step: that of the kernels that are chosen, never one that they could pass. */
#include "support/support.h"

#include "engine/engine.h"
#include "tilewright/engine.h"
#include "vm/cpu/vm.h"

#include <string.h>

enum {
    AVX512 = TW_CPU_AVX2 | TW_CPU_AVX512,
    VNNI = AVX512 | TW_CPU_AVX512VNNI,
    ALL = VNNI | TW_CPU_AVX512BF16 | TW_CPU_AMX
};

static void is_on(tw_kernel_unit u, tw_cpu_unit unit, int passes) {
    assert_int_equal(u.unit, unit);
    assert_int_equal(u.passes, passes);
}

static void kernels_say_what_they_run_on(void **state) {
    (void)state;
    static const uint32_t sets[] = {0, TW_CPU_AVX2, AVX512, VNNI, ALL};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        tw_kernels k;
        tw_kernels_choose_products(&k, sets[i]);
        for (int t = TW_F32; t <= TW_I4; t++) {
            if (t != TW_F32 && t != TW_F16 && t != TW_BF16 && t != TW_I8 && t != TW_I4) continue;
            bool integer = t == TW_I8 || t == TW_I4, tiles = sets[i] == ALL && t != TW_F16;
            is_on(k.gemm_unit[t], tiles ? TW_CPU_UNIT_AMX_BF16 : TW_CPU_UNIT_F32, !tiles ? 1 : t == TW_F32 ? 6 : 2);
            assert_int_equal(k.packed_rows[t], !tiles ? 0 : t == TW_F32 ? 32 : 8);
            bool bytes = integer && sets[i];
            int passes = !bytes ? 1 : t == TW_I8 && !(sets[i] & TW_CPU_AVX512VNNI) ? 4 : 3;
            is_on(k.gemv_unit[t], bytes ? TW_CPU_UNIT_I8 : TW_CPU_UNIT_F32, passes);
        }
    }
}

static tw_engine *engine(const tw_model *m, tw_dtype weights, bool limit, uint32_t isa) {
    tw_engine *e;
    tw_diag d;
    tw_engine_options o = {.workers = 2, .context = 128, .weights = weights, .limit_isa = limit, .isa = isa};
    if (tw_engine_open(&e, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    return e;
}

static void a_prompt_is_bounded_by_the_units_in_use(void **state) {
    (void)state;
    tw_model *m;
    tw_diag d;
    tw_cpu cpu;
    char what[48];
    double rate = 0;
    tw_cpu_detect(&cpu);
    assert_int_equal(tw_model_synthetic(&m, "llama-tiny", TW_BF16, 1, &d), TW_OK);
    for (int weights = 0; weights < 3; weights++) {
        static const tw_dtype types[] = {TW_F32, TW_I8, TW_I4};
        tw_engine *e = engine(m, types[weights], true, TW_CPU_AVX2);
        assert_int_equal(tw_engine_measure_arithmetic(e, 64, &rate, what, sizeof what, &d), TW_OK);
        assert_string_equal(what, "f32");
        assert_true(rate > 1e8 && rate < 1e15);
        tw_engine_close(e);
        e = engine(m, types[weights], false, 0);
        assert_int_equal(tw_engine_measure_arithmetic(e, 64, &rate, what, sizeof what, &d), TW_OK);
        if (!(cpu.isa & TW_CPU_AMX)) assert_string_equal(what, "f32");
        if (cpu.isa & TW_CPU_AMX) assert_string_equal(what, "amx-bf16 in 2 passes");
        /* The head of the last position is a product of bytes, which may be faster than floats. */
        assert_int_equal(tw_engine_measure_arithmetic(e, 1, &rate, what, sizeof what, &d), TW_OK);
        if (!types[weights] && !(cpu.isa & TW_CPU_AMX)) assert_string_equal(what, "f32");
        assert_true(rate > 1e8 && rate < 1e15);
        tw_engine_close(e);
    }
    tw_model_close(m);
}

/* Beside floats: the head's bytes, unless a long prompt makes little of them. */
static void a_long_prompts_head_does_not_count(void **state) {
    (void)state;
    static const int64_t positions[] = {1, 63, 64, 1000};
    tw_model *m;
    tw_diag d;
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    if (!(cpu.isa & TW_CPU_AVX2)) skip();
    assert_int_equal(tw_model_synthetic(&m, "llama-tiny", TW_BF16, 1, &d), TW_OK);
    tw_engine *e = engine(m, TW_I8, true, TW_CPU_AVX2);
    for (int i = 0; i < 4; i++) {
        int passes[TW_CPU_UNIT_COUNT];
        tw_vm_units(e->machine.vm, positions[i], passes);
        assert_int_equal(passes[TW_CPU_UNIT_F32], 1);
        assert_int_equal(passes[TW_CPU_UNIT_I8], positions[i] < 64 ? 4 : 0);
    }
    tw_engine_close(e);
    tw_model_close(m);
}

/* Products of f32 as six of bf16 each, from so many positions on that tiles pay. */
static void few_positions_have_no_tiles(void **state) {
    (void)state;
    static const int64_t positions[] = {1, 31, 32, 1000};
    tw_model *m;
    tw_diag d;
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    if (!(cpu.isa & TW_CPU_AMX)) skip();
    assert_int_equal(tw_model_synthetic(&m, "llama-tiny", TW_F32, 1, &d), TW_OK);
    tw_engine *e = engine(m, 0, false, 0);
    for (int i = 0; i < 4; i++) {
        int passes[TW_CPU_UNIT_COUNT];
        tw_vm_units(e->machine.vm, positions[i], passes);
        assert_int_equal(passes[TW_CPU_UNIT_F32], 1);
        assert_int_equal(passes[TW_CPU_UNIT_AMX_BF16], positions[i] < 32 ? 0 : 6);
    }
    tw_engine_close(e);
    tw_model_close(m);
}

static void reads_of_what_a_token_streams_are_measured(void **state) {
    (void)state;
    tw_model *m;
    tw_diag d;
    double rate = 0;
    assert_int_equal(tw_model_synthetic(&m, "llama-tiny", TW_BF16, 1, &d), TW_OK);
    tw_engine *e = engine(m, TW_F32, false, 0);
    assert_int_equal(tw_engine_measure_bandwidth(e, &rate, &d), TW_OK);
    assert_true(rate > 1e8 && rate < 1e14);
    tw_engine_close(e);
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_say_what_they_run_on),
        cmocka_unit_test(a_prompt_is_bounded_by_the_units_in_use),
        cmocka_unit_test(a_long_prompts_head_does_not_count),
        cmocka_unit_test(few_positions_have_no_tiles),
        cmocka_unit_test(reads_of_what_a_token_streams_are_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
