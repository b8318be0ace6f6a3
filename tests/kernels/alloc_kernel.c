/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of opening, binding and emulating a kernel fails once; and a launch on a device makes none, takes no
   lock and formats no text. */
#define _GNU_SOURCE
#include "support/alloc_fail.h"
#include "support/support.h"
#include "support/taken.h"

#include "device/fake_cuda.h"
#include "tilewright/kernel.h"

#include <stdlib.h>
#include <string.h>

typedef struct used {
    const char *device, *words, *configuration;
} used;

static int use(void *context) {
    const used *u = context;
    tw_gpu *gpu = NULL;
    tw_gpu_kernel *kernel = NULL;
    tw_gpu_launch *launch = NULL;
    uint64_t at[8] = {0};
    static const char zeros[1 << 18];
    tw_diag d;
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
    if (st == TW_OK) st = tw_gpu_launch_run(launch, NULL, &d);
    if (st == TW_OK && !tw_gpu_emulated(gpu)) {
        const int locked = taken_locks(), written = taken_texts();
        alloc_fail_after(0, true);
        for (int i = 0; i < 10 && st == TW_OK; i++) st = tw_gpu_launch_run(launch, NULL, &d);
        assert_false(alloc_fail_hit());
        alloc_fail_after(-1, false);
        assert_int_equal(taken_locks(), locked);
        assert_int_equal(taken_texts(), written);
    }
    tw_gpu_launch_close(launch);
    tw_gpu_kernel_close(kernel);
    for (int i = 0; gpu && i < 8; i++) tw_gpu_release(gpu, at[i]);
    tw_gpu_close(gpu);
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

static void every_failure_is_told(void **state) {
    (void)state;
    static const char words[] = "gemm m=5 n=9 k=16", configuration[] = "kg=2 u=8 split=0";
    alloc_fail_exhaust(use, &(used){"emulator:sm_80", words, configuration});
    /* The emulator again, since there is no GPU. */
    setenv("TILEWRIGHT_LIBCUDA", "/no/such/library.so", 1);
    alloc_fail_exhaust(use, &(used){"auto", words, configuration});
}

static void a_launch_takes_nothing(void **state) {
    (void)state;
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    /* By cuLaunchKernel, also with tensor maps; by cuLaunchKernelEx. */
    static const char *const launched[][2] = {
        {"gemm m=5 n=9 k=16", "kg=2 u=8 split=0"},
        {"gemm type=f16 m=512 n=256 k=256 tb=1", "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=4 kg=1"},
        {"gemm type=f16 m=512 n=256 k=256 tb=1", "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=4 kg=1 multicast=2"},
    };
    for (size_t i = 0; i < sizeof launched / sizeof *launched; i++) {
        fake_cuda_reset();
        assert_int_equal(use(&(used){"cuda", launched[i][0], launched[i][1]}), 0);
        assert_int_equal(fake_cuda_alive(), 0);
        assert_true(taken_texts() > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_failure_is_told),
                                       cmocka_unit_test(a_launch_takes_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
