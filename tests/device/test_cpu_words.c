/* SPDX-License-Identifier: Apache-2.0 */
/* What processors that this machine is not would be taken for. */
#include "support/support.h"

#include "device/cpu/detect.h"
#include "tilewright/device.h"

#include <stdio.h>
#include <string.h>

enum { AVX512 = TW_CPU_AVX2 | TW_CPU_AVX512 };

/* A processor with everything, under a system that saves everything. */
static tw_cpu_words everything(void) {
    return (tw_cpu_words){.c1 = 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29,
                          .b7 = 1u << 5 | 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31,
                          .c7 = 1u << 11,
                          .d7 = 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25,
                          .a71 = 1u << 5,
                          .saved = 0x60000 | 0xe0 | 0x6};
}

static void a_bit_less_is_a_set_less(void **state) {
    (void)state;
    const uint32_t all = AVX512 | TW_CPU_AVX512VNNI | TW_CPU_AVX512BF16 | TW_CPU_AVX512FP16 | TW_CPU_AMX;
    tw_cpu_words w = everything();
    assert_int_equal(tw_cpu_isa_of(&w), all);
    const struct {
        char word;
        int bit;
        uint32_t left;
    } cases[] = {
        {'c', 12, 0},
        {'c', 27, 0},
        {'c', 28, 0},
        {'c', 29, 0},
        {'b', 5, 0},
        {'s', 1, 0},
        {'s', 2, 0},
        {'b', 16, TW_CPU_AVX2},
        {'b', 17, TW_CPU_AVX2},
        {'b', 30, TW_CPU_AVX2},
        {'b', 31, TW_CPU_AVX2},
        {'s', 5, TW_CPU_AVX2},
        {'s', 6, TW_CPU_AVX2},
        {'s', 7, TW_CPU_AVX2},
        {'7', 11, all & ~(uint32_t)(TW_CPU_AVX512VNNI | TW_CPU_AMX)},
        {'a', 5, all & ~(uint32_t)(TW_CPU_AVX512BF16 | TW_CPU_AMX)},
        {'d', 23, all & ~(uint32_t)TW_CPU_AVX512FP16},
        {'d', 22, all & ~(uint32_t)TW_CPU_AMX},
        {'d', 24, all & ~(uint32_t)TW_CPU_AMX},
        {'d', 25, all & ~(uint32_t)TW_CPU_AMX},
        {'s', 17, all & ~(uint32_t)TW_CPU_AMX},
        {'s', 18, all & ~(uint32_t)TW_CPU_AMX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        w = everything();
        const uint32_t without = ~(1u << cases[i].bit);
        switch (cases[i].word) {
        case 'c':
            w.c1 &= without;
            break;
        case 'b':
            w.b7 &= without;
            break;
        case '7':
            w.c7 &= without;
            break;
        case 'd':
            w.d7 &= without;
            break;
        case 'a':
            w.a71 &= without;
            break;
        default:
            w.saved &= without;
            break;
        }
        if (tw_cpu_isa_of(&w) != cases[i].left) fail_msg("case %zu: %x", i, tw_cpu_isa_of(&w));
    }
}

/* Bits around those that count say nothing. */
static void other_bits_do_not_count(void **state) {
    (void)state;
    const tw_cpu_words w = everything();
    tw_cpu_words others = {~w.c1, ~w.b7, ~w.c7, ~w.d7, ~w.a71, ~w.saved};
    assert_int_equal(tw_cpu_isa_of(&others), 0);
    others = (tw_cpu_words){~0u, ~0u, ~0u, ~0u, ~0u, ~(uint64_t)0};
    assert_int_equal(tw_cpu_isa_of(&others), tw_cpu_isa_of(&w));
}

/* Ways, partitions, line and sets, each stored less one. */
static void a_cache_is_the_product_of_its_parts(void **state) {
    (void)state;
    assert_int_equal(tw_cpu_cache_of(11u << 22 | 0u << 12 | 63, 63), 12 * 64 * 64);
    assert_int_equal(tw_cpu_cache_of(7u << 22 | 1u << 12 | 127, 1023), 8 * 2 * 128 * 1024);
    assert_int_equal(tw_cpu_cache_of(1023u << 22 | 1023u << 12 | 4095, 0x3fffffffu), INT64_C(1) << 62);
    assert_int_equal(tw_cpu_cache_of(0, 0), 1);
}

static void sizes_have_units(void **state) {
    (void)state;
    assert_int_equal(tw_cpu_size_of("48K"), 48 << 10);
    assert_int_equal(tw_cpu_size_of("32M"), 32 << 20);
    assert_int_equal(tw_cpu_size_of("3G"), INT64_C(3) << 30);
    assert_int_equal(tw_cpu_size_of("512"), 512);
}

/* The kernel's own list, where it has one, names what was found; and the processor's name is the one it tells. */
static void linux_agrees(void **state) {
    (void)state;
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[8192], *flags = NULL, *model = NULL;
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    static char found[8192], name[256];
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *value = strchr(line, ':');
        if (!value) continue;
        if (!flags && !strncmp(line, "flags", 5)) snprintf(flags = found, sizeof found, "%s ", value + 1);
        if (!model && !strncmp(line, "model name", 10)) snprintf(model = name, sizeof name, "%.200s", value + 2);
    }
    if (f) fclose(f);
    if (model) assert_string_equal(cpu.model, model);
    const struct {
        const char *flag;
        uint32_t bit;
    } sets[] = {{" avx2 ", TW_CPU_AVX2},
                {" avx512dq ", TW_CPU_AVX512},
                {" avx512_vnni ", TW_CPU_AVX512VNNI},
                {" avx512_bf16 ", TW_CPU_AVX512BF16},
                {" avx512_fp16 ", TW_CPU_AVX512FP16},
                {" amx_tile ", TW_CPU_AMX}};
    for (size_t i = 0; flags && i < sizeof sets / sizeof *sets; i++)
        if (cpu.isa & sets[i].bit) assert_non_null(strstr(flags, sets[i].flag));
    if (flags && strstr(flags, " avx2 ") && strstr(flags, " fma ") && strstr(flags, " f16c "))
        assert_true(cpu.isa & TW_CPU_AVX2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bit_less_is_a_set_less),
        cmocka_unit_test(other_bits_do_not_count),
        cmocka_unit_test(a_cache_is_the_product_of_its_parts),
        cmocka_unit_test(sizes_have_units),
        cmocka_unit_test(linux_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
