/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of attaching a tracer, of a traced launch and of collecting its records fails once. */
#define _GNU_SOURCE
#include "support/alloc_fail.h"
#include "support/support.h"

#include "device/fake_cuda.h"
#include "kernels/kernel.h"

#include <stdlib.h>

static bool count(void *user, const tw_trace_record *x) {
    ++*(int *)user;
    return x->name != NULL;
}

typedef struct used {
    const char *device, *words, *configuration;
    tw_trace_options options;
    int records; /* Of the first whole use. 0: there was none. */
} used;

static int use(void *context) {
    used *u = context;
    tw_gpu *gpu = NULL;
    tw_gpu_kernel *kernel = NULL;
    tw_gpu_launch *launch = NULL;
    uint64_t at[8] = {0};
    static const char zeros[1 << 16];
    tw_diag d = {.message = ""};
    int records = 0;
    tw_status st = tw_gpu_open(&gpu, u->device, &d);
    if (st == TW_OK) st = tw_gpu_kernel_open(&kernel, gpu, u->words, u->configuration, &d);
    if (st == TW_OK) st = tw_gpu_launch_open(&launch, kernel, &d);
    for (int i = 0; st == TW_OK && i < tw_gpu_kernel_buffers(kernel); i++) {
        const tw_gpu_buffer *b = tw_gpu_kernel_buffer(kernel, i);
        assert_true(b->bytes <= sizeof zeros);
        st = tw_gpu_alloc(gpu, b->bytes, &at[i], &d);
        if (st == TW_OK) st = tw_gpu_upload(gpu, at[i], zeros, b->bytes, &d);
        if (st == TW_OK) st = tw_gpu_launch_bind(launch, b->name, at[i], &d);
    }
    if (st == TW_OK) {
        st = tw_gpu_kernel_attach(kernel, &u->options, &d);
        tw_trace_cost cost;
        assert_true(tw_gpu_kernel_traced(kernel, &cost) == (st == TW_OK)); /* What failed is not attached. */
    }
    if (st == TW_OK) st = tw_gpu_launch_run(launch, NULL, &d);
    tw_trace_times times;
    if (st == TW_OK) st = tw_kernel_trace_times(kernel, launch, &times, &d);
    if (st == TW_OK) st = tw_gpu_kernel_collect(kernel, count, &records, &d);
    if (kernel) tw_gpu_kernel_detach(kernel);
    tw_gpu_launch_close(launch);
    tw_gpu_kernel_close(kernel);
    for (int i = 0; gpu && i < 8; i++) tw_gpu_release(gpu, at[i]);
    tw_gpu_close(gpu);
    if (st != TW_OK) return st == TW_ERR_MEMORY && d.message[0] ? 1 : 2;
    if (!u->records) u->records = records;
    return records == u->records ? 0 : 3;
}

static void every_failure_is_told(void **state) {
    (void)state;
    used warps = {"emulator",
                  "gemm type=f16 m=64 n=64 k=64 tb=1",
                  "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=2 vec=16 kg=1",
                  {.granularity = "warp", .iterations = true, .flush = true},
                  0};
    used global = {"emulator", "gemm m=16 n=16 k=16", "kg=1", {.only = "multiply,copies,store", .global = true}, 0};
    alloc_fail_exhaust(use, &warps);
    alloc_fail_exhaust(use, &global);
    assert_true(warps.records && global.records);
}

/* A stand-in for the driver, which runs no kernel: compiling, calibrating and timing come to it. */
static void every_failure_on_a_device_is_told(void **state) {
    (void)state;
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    used u = {"cuda", "gemm m=16 n=16 k=16", "kg=1", {0}, 0};
    alloc_fail_exhaust(use, &u);
    assert_int_equal(u.records, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_failure_is_told),
                                       cmocka_unit_test(every_failure_on_a_device_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
