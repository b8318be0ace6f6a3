/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison of an artefact's device with the processor and with a fake GPU. */
#define _GNU_SOURCE
#include "device/fake_cuda.h"
#include "select/opened.h"

#include "device/identity.h"
#include "tilewright/device.h"
#include "tune/identity.h"

#include <stdlib.h>

static void devices_have_names(void **state) {
    (void)state;
    tw_identity i;
    tw_identity_of_cpu(&i, "A processor", 3, TW_CPU_AVX2);
    assert_string_equal(i.device, "A processor, 3 threads");
    assert_string_equal(i.alike, "x86-64 avx2, 3 threads");
    assert_string_equal(i.architecture, "x86-64 avx2");
    tw_identity_of_gpu(&i, "A GPU", "sm_90a", 132, (50 << 20) + 1);
    assert_string_equal(i.device, "A GPU");
    assert_string_equal(i.alike, "sm_90a, 132 SMs, 50 MiB of L2");
    assert_string_equal(i.architecture, "sm_90a");
}

/* Compares an artefact of a kernel and a device. Returns the status, or -1 - match if it is TW_OK. */
static int compare(const char *kernel, const tw_identity *of, const char *device, int threads, tw_diag *d) {
    static const tw_artefact_anchor anchors[] = {{1, 0}};
    static const tw_artefact_fit fits[] = {
        {.c = {0, 0, 0, 1}, .anchors = anchors, .n_anchors = 1, .samples = 9, .error = 0.1}};
    static const char *const micros[] = {""};
    const tw_artefact_macro macro = {
        .config = "x", .slots = 1, .micros = micros, .n_micros = 1, .fits = fits, .n_fits = 1};
    const tw_artefact a = {.kernel = kernel,
                           .unit = "us",
                           .device = of->device,
                           .alike = of->alike,
                           .architecture = of->architecture,
                           .about = "{}",
                           .axes = {"m"},
                           .n_axes = 1,
                           .macros = &macro,
                           .n_macros = 1};
    fixture f = {0};
    tw_select_match match;
    begin(&f, &a);
    const tw_status st = tw_identity_match(f.s, device, threads, &match, d);
    end(&f);
    return st == TW_OK ? -1 - (int)match : (int)st;
}

static void expect(const char *kernel, const tw_identity *of, const char *device, int threads, tw_select_match match) {
    tw_diag d = {0};
    const int got = compare(kernel, of, device, threads, &d);
    if (got >= 0) fail_msg("%s", d.message);
    assert_int_equal(-1 - got, match);
}

static tw_identity cpu_of(int threads) {
    tw_cpu cpu;
    tw_identity i;
    tw_cpu_detect(&cpu);
    tw_identity_of_cpu(&i, cpu.model, threads ? threads : cpu.cores, cpu.isa);
    return i;
}

static void a_processor_is_compared(void **state) {
    (void)state;
    tw_identity i = cpu_of(0);
    expect("gemm-cpu-f32", &i, "auto", 0, TW_SELECT_SAME);
    expect("gemm-cpu-f32", &i, "cpu", 0, TW_SELECT_SAME);
    expect("gemm-cpu-f32", &i, "auto", 999, TW_SELECT_ARCHITECTURE);
    i = cpu_of(999);
    expect("gemm-cpu-f32", &i, "auto", 999, TW_SELECT_SAME);
    expect("gemm-cpu-f32", &i, "auto", 0, TW_SELECT_ARCHITECTURE);
    snprintf(i.device, sizeof i.device, "another model, 999 threads");
    expect("gemm-cpu-f32", &i, "auto", 999, TW_SELECT_ALIKE);
    snprintf(i.architecture, sizeof i.architecture, "another");
    expect("gemm-cpu-f32", &i, "auto", 0, TW_SELECT_OTHER);
}

static void a_gpu_is_compared(void **state) {
    (void)state;
    tw_identity cpu = cpu_of(0), i;
    tw_diag d;
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    fake_cuda_reset();
    tw_identity_of_gpu(&i, "Fake H100 number 0", "sm_90a", 1, 0);
    expect("gemm-gpu-bf16", &i, "auto", 0, TW_SELECT_SAME);
    expect("gemm-gpu-bf16", &i, "cuda", 0, TW_SELECT_SAME);
    expect("gemm-gpu-bf16", &i, "cuda:0", 0, TW_SELECT_SAME);
    expect("gemm-gpu-bf16", &i, "cpu", 0, TW_SELECT_OTHER);
    expect("gemm-cpu-f32", &cpu, "cuda", 0, TW_SELECT_OTHER);
    snprintf(i.device, sizeof i.device, "NVIDIA H200");
    expect("gemm-gpu-bf16", &i, "auto", 0, TW_SELECT_ARCHITECTURE);
    assert_int_equal(compare("gemm-gpu-bf16", &i, "cuda:99", 0, &d), TW_ERR_UNSUPPORTED);
}

/* Without the artefact's kind of device nothing is compared. A device that is asked for must be here. */
static void unknown_devices_are_not_compared(void **state) {
    (void)state;
    tw_identity i = cpu_of(0);
    tw_diag d;
    setenv("TILEWRIGHT_LIBCUDA", "none", 1);
    expect("gemm-gpu-bf16", &i, "auto", 0, TW_SELECT_UNKNOWN);
    expect("another kernel", &i, "auto", 0, TW_SELECT_UNKNOWN);
    expect("another kernel", &i, "cpu", 0, TW_SELECT_SAME);
    assert_int_equal(compare("gemm-gpu-bf16", &i, "cuda", 0, &d), TW_ERR_UNSUPPORTED);
    for (const char *const *word = (const char *const[]){"cuda:", "cuda:-1", "cuda:1x", "gpu", "", NULL}; *word; word++)
        assert_int_equal(compare("gemm-cpu-f32", &i, *word, 0, &d), TW_ERR_USAGE);
    assert_string_equal(d.message, "--device: \"\" is not auto, cpu, cuda or cuda:N");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_have_names),
        cmocka_unit_test(a_processor_is_compared),
        cmocka_unit_test(a_gpu_is_compared),
        cmocka_unit_test(unknown_devices_are_not_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
