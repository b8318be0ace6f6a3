/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "tilewright/device.h"

#include <string.h>

static void detects_what_every_machine_has(void **state) {
    (void)state;
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    assert_true(cpu.cores >= 1);
    assert_true(cpu.model[0]);
    assert_true(cpu.memory_bytes > 0);
    assert_true(cpu.available_bytes > 0 && cpu.available_bytes <= cpu.memory_bytes);
    assert_true(cpu.l1d_bytes > 0 && cpu.l1d_bytes < cpu.l2_bytes);
    tw_cpu again;
    tw_cpu_detect(&again);
    assert_int_equal(cpu.isa, again.isa);
}

static void a_set_comes_with_what_it_is_built_on(void **state) {
    (void)state;
    tw_cpu cpu;
    char names[256];
    uint32_t isa;
    tw_cpu_detect(&cpu);
    tw_cpu_isa_names(cpu.isa, names, sizeof names);
    assert_true(tw_cpu_isa_parse(names, &isa));
    assert_int_equal(isa, cpu.isa);
    assert_true(tw_cpu_isa_parse("avx512vnni", &isa));
    assert_int_equal(isa, TW_CPU_AVX2 | TW_CPU_AVX512 | TW_CPU_AVX512VNNI);
    assert_true(tw_cpu_isa_parse(" amx,", &isa));
    assert_int_equal(isa, TW_CPU_AVX2 | TW_CPU_AVX512 | TW_CPU_AVX512VNNI | TW_CPU_AVX512BF16 | TW_CPU_AMX);
    assert_true(tw_cpu_isa_parse("none", &isa));
    assert_int_equal(isa, 0);
}

static void names_that_are_none_are_refused(void **state) {
    (void)state;
    uint32_t isa = 77;
    assert_false(tw_cpu_isa_parse("", &isa));
    assert_false(tw_cpu_isa_parse("avx", &isa));
    assert_false(tw_cpu_isa_parse("avx2 avx9", &isa));
    assert_int_equal(isa, 77);
    char small[8];
    tw_cpu_isa_names(TW_CPU_AVX2 | TW_CPU_AVX512, small, sizeof small);
    assert_true(strlen(small) < sizeof small);
    tw_cpu_isa_names(0, small, sizeof small);
    assert_string_equal(small, "none");
}

static void ceilings_are_measured(void **state) {
    (void)state;
    double bandwidth = 0, flops = 0;
    tw_diag d;
    assert_int_equal(tw_cpu_measure_bandwidth(1, &bandwidth, &d), TW_OK);
    assert_int_equal(tw_cpu_measure_flops(0, &flops, &d), TW_OK);
    assert_true(bandwidth > 1e8 && bandwidth < 1e13);
    assert_true(flops > 1e8 && flops < 1e15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(detects_what_every_machine_has),
        cmocka_unit_test(a_set_comes_with_what_it_is_built_on),
        cmocka_unit_test(names_that_are_none_are_refused),
        cmocka_unit_test(ceilings_are_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
