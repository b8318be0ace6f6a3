/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that measures a GPU's reads reads everything once, and every target's compiler takes it. */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/buf.h"
#include "base/random.h"
#include "device/fake_cuda.h"
#include "emu/emu.h"
#include "ir/passes/passes.h"
#include "ptx/ptx.h"
#include "tune/gpu_bandwidth.h"

#include <stdlib.h>

static void every_word_is_read(void **state) {
    (void)state;
    enum { CHUNKS = 5, BLOCKS = 2, WORDS = CHUNKS * TW_READ_CHUNK / 4 };
    tw_diag d;
    tw_emu_report report;
    tw_random r = tw_random_seed(1);
    uint32_t *data = malloc(WORDS * sizeof *data), want = 0, got = 0, sums[BLOCKS * TW_READ_THREADS];
    for (int i = 0; i < WORDS; i++) want ^= data[i] = (uint32_t)tw_random_u64(&r);
    tw_kernel *k = tw_cuda_read_kernel(80);
    assert_non_null(k);
    assert_int_equal(tw_pipeline_default(k, true, &d), TW_OK);
    tw_emu *e = tw_emu_new();
    uint64_t from = tw_emu_alloc(e, "from", data, WORDS * sizeof *data, true),
             to = tw_emu_alloc(e, "to", NULL, sizeof sums, false);
    const uint64_t arguments[] = {from, to, CHUNKS, BLOCKS};
    const tw_emu_options o = {.grid = {BLOCKS}};
    if (tw_emu_launch(e, k, arguments, &o, &report, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(tw_emu_read(e, to, sums, sizeof sums));
    for (int i = 0; i < BLOCKS * TW_READ_THREADS; i++) got ^= sums[i];
    assert_int_equal(got, want);
    tw_emu_free(e);
    tw_kernel_free(k);
    free(data);
}

static void every_target_has_it(void **state) {
    (void)state;
    const tw_target *t;
    for (int i = 0; (t = tw_target_at(i)); i++) {
        tw_diag d;
        tw_buf ptx = {0};
        tw_kernel *k = tw_cuda_read_kernel(t->sm);
        assert_non_null(k);
        assert_int_equal(tw_pipeline_default(k, true, &d), TW_OK);
        if (tw_ptx_print(&ptx, k, t, &d) != TW_OK) fail_msg("%s: %s", t->name, d.message);
        tw_buf_free(&ptx);
        tw_kernel_free(k);
    }
}

static void a_device_that_is_not_there(void **state) {
    (void)state;
    double rate;
    tw_diag d;
    assert_int_equal(tw_cuda_measure_bandwidth(4711, &rate, &d), TW_ERR_UNSUPPORTED);
}

/* The stand-in has an L2 of 50 MiB, and whatever a kernel does takes ten microseconds. */
static void much_more_than_the_l2_is_read(void **state) {
    (void)state;
    double rate;
    tw_diag d;
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    fake_cuda_reset();
    if (tw_cuda_measure_bandwidth(0, &rate, &d) != TW_OK) fail_msg("%s", d.message);
    const double read = rate * 10e-6 / (50 << 20);
    if (!(read > 31.9 && read < 32.1)) fail_msg("%.2f times the L2 was read", read);
    assert_int_equal(fake_cuda_alive(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_word_is_read),
        cmocka_unit_test(every_target_has_it),
        cmocka_unit_test(a_device_that_is_not_there),
        cmocka_unit_test(much_more_than_the_l2_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
