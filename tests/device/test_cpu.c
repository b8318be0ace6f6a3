/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpu/measure.h"
#include "support/support.h"

#include "device/cpu/loops.h"
#include "tilewright/device.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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

/* With address space for a few stacks, not for 64. */
static void threads_that_cannot_start_are_counted(void **state) {
    (void)state;
    enum { THREADS = 64, ROOM = 32 << 20 };
    double flops = 0;
    long pages;
    int made = -1, of = 0;
    tw_diag d = {0};
    struct rlimit old;
    if (TEST_SANITIZED) skip(); /* which takes more than any limit */
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld", &pages), 1);
    fclose(f);
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    const struct rlimit tight = {(rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ROOM, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    const tw_status st = tw_cpu_measure_flops(THREADS, &flops, &d);
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_int_equal(st, TW_ERR_MEMORY);
    assert_int_equal(sscanf(d.message, "no more than %d of %d threads", &made, &of), 2);
    assert_true(made >= 0 && made < THREADS && of == THREADS);
}

static void what_is_read_fits_the_caches_or_none(void **state) {
    (void)state;
    const tw_cpu small = {.l3_bytes = 32 << 20, .available_bytes = (int64_t)8 << 30};
    assert_int_equal(tw_cpu_read_bytes(&small, 2, 0), 256 << 20);
    assert_int_equal(tw_cpu_read_bytes(&small, 1, 1 << 16), (1 << 16) + 4096);
    assert_int_equal(tw_cpu_read_bytes(&small, 2, 10000), 8192);
    assert_int_equal(tw_cpu_read_bytes(&small, 2, (int64_t)5 << 30), 256 << 20);
    const tw_cpu large = {.l3_bytes = 300 << 20, .available_bytes = (int64_t)100 << 30};
    assert_int_equal(tw_cpu_read_bytes(&large, 2, 0), 1200 << 20);
    assert_int_equal(tw_cpu_read_bytes(&large, 64, 0), 400 << 20); /* a quarter of what is free, a 64th of it each */
}

/* That a cache is faster is the machine's affair, and not so where others use it. */
static void sets_of_any_size_are_read(void **state) {
    (void)state;
    double cache = 0;
    tw_diag d;
    assert_int_equal(tw_cpu_measure_reads(1, 1 << 16, &cache, &d), TW_OK);
    assert_true(cache > 1e8 && cache < 1e13);
    assert_int_equal(tw_cpu_measure_reads(2, 1, &cache, &d), TW_OK);
    assert_true(cache > 1e8 && cache < 1e13);
}

static void units_are_those_of_the_sets(void **state) {
    (void)state;
    const uint32_t avx512 = TW_CPU_AVX2 | TW_CPU_AVX512, vnni = avx512 | TW_CPU_AVX512VNNI;
    const uint32_t all = vnni | TW_CPU_AVX512BF16 | TW_CPU_AVX512FP16 | TW_CPU_AMX;
    static const char *const names[] = {"f32", "i8", "bf16", "amx-bf16", "amx-i8"};
    for (int u = 0; u < TW_CPU_UNIT_COUNT; u++) {
        assert_string_equal(tw_cpu_unit_name((tw_cpu_unit)u), names[u]);
        assert_true(tw_cpu_unit_present((tw_cpu_unit)u, all));
        assert_int_equal(tw_cpu_unit_present((tw_cpu_unit)u, 0), u == TW_CPU_UNIT_F32);
        assert_int_equal(tw_cpu_unit_present((tw_cpu_unit)u, vnni), u <= TW_CPU_UNIT_I8);
    }
    assert_true(tw_cpu_unit_present(TW_CPU_UNIT_I8, TW_CPU_AVX2));
    assert_true(tw_cpu_unit_present(TW_CPU_UNIT_BF16, avx512 | TW_CPU_AVX512BF16));
    assert_false(tw_cpu_unit_present(TW_CPU_UNIT_AMX_I8, all & ~(uint32_t)TW_CPU_AMX));
    assert_string_equal(tw_cpu_unit_name(TW_CPU_UNIT_COUNT), "unknown");
}

static void units_of_this_processor_are_measured(void **state) {
    (void)state;
    tw_cpu cpu;
    tw_diag d;
    tw_cpu_detect(&cpu);
    for (int u = 0; u < TW_CPU_UNIT_COUNT; u++) {
        double rate = 0;
        tw_status st = tw_cpu_measure_unit((tw_cpu_unit)u, 1, &rate, &d);
        bool there = tw_cpu_unit_present((tw_cpu_unit)u, cpu.isa);
        assert_int_equal(st, there ? TW_OK : TW_ERR_UNSUPPORTED);
        if (there) assert_true(rate > 1e8 && rate < 1e15);
        if (!there) assert_non_null(strstr(d.message, tw_cpu_unit_name((tw_cpu_unit)u)));
    }
}

/* What a loop returns is what its ceiling is multiplied with. */
static void loops_count_what_they_add(void **state) {
    (void)state;
    static const struct {
        uint32_t needs;
        tw_cpu_fma_fn *run;
    } loops[] = {{TW_CPU_AVX2, tw_cpu_i8_avx2},
                 {TW_CPU_AVX512VNNI, tw_cpu_i8_avx512vnni},
                 {TW_CPU_AVX512BF16, tw_cpu_bf16_avx512bf16},
                 {TW_CPU_AMX, tw_cpu_bf16_amx},
                 {TW_CPU_AMX, tw_cpu_i8_amx}};
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        for (int64_t n = 0; n <= 64 && (cpu.isa & loops[i].needs); n += 16) {
            float sum = 0;
            int64_t operations = loops[i].run(n, &sum);
            assert_true(operations > 0 && (double)sum == (double)(operations / 2 * n));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(detects_what_every_machine_has),
        cmocka_unit_test(a_set_comes_with_what_it_is_built_on),
        cmocka_unit_test(names_that_are_none_are_refused),
        cmocka_unit_test(ceilings_are_measured),
        cmocka_unit_test(threads_that_cannot_start_are_counted),
        cmocka_unit_test(what_is_read_fits_the_caches_or_none),
        cmocka_unit_test(sets_of_any_size_are_read),
        cmocka_unit_test(units_are_those_of_the_sets),
        cmocka_unit_test(units_of_this_processor_are_measured),
        cmocka_unit_test(loops_count_what_they_add),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
