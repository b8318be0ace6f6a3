/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a device, compiling and launching with the n-th allocation failing, for every n. */
#define _GNU_SOURCE
#include "device/fake_cuda.h"
#include "support/alloc_fail.h"
#include "support/support.h"

#include "device/cuda/time.h"
#include "ptx/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char text[] = ".entry k(...)\n//! add\n//! registers 33\n";

static tw_cuda_launch launch;
static tw_status enqueue(void *c, int i, tw_diag *d) {
    (void)i;
    return tw_cuda_run(c, &launch, d);
}

static tw_status use(tw_cuda *c, const tw_cubin *cubin, tw_diag *d) {
    uint64_t a, arguments[3] = {0, 4, 1};
    const int bytes[3] = {8, 4, 4};
    double us;
    tw_cuda_module *m;
    tw_status st = tw_cuda_alloc(c, 16, &a, d);
    if (st != TW_OK) return st;
    arguments[0] = a;
    st = tw_cuda_fill(c, a, 0, 4, d);
    if (st == TW_OK) {
        st = tw_cuda_load(c, &m, cubin->data, cubin->bytes, "k", 0, d);
        if (st == TW_OK) {
            launch = (tw_cuda_launch){.module = m,
                                      .grid = {1, 1, 1},
                                      .threads = 32,
                                      .arguments = arguments,
                                      .argument_bytes = bytes,
                                      .n_arguments = 3};
            st = tw_cuda_time(c, enqueue, c, 2, 1, &us, d);
            tw_cuda_unload(m);
        }
    }
    tw_cuda_release(c, a);
    return st;
}

static int result(tw_status st, const tw_diag *d) {
    if (st == TW_OK) return 0;
    return st == TW_ERR_MEMORY && d->message[0] ? 1 : 10 + (int)st;
}

/* By the driver, twice, the second time from the folder unless that had no memory. */
static int attempt(void *context) {
    (void)context;
    tw_diag d;
    tw_cuda *c;
    tw_cubin cubin = {0};
    tw_status st = tw_cuda_open(&c, 0, &d);
    for (int round = 0; round < 2 && st == TW_OK; round++) {
        st = tw_ptx_compile(c, text, strlen(text), true, &cubin, &d);
        if (st == TW_OK) st = use(c, &cubin, &d);
        tw_cubin_free(&cubin);
    }
    tw_cuda_close(c);
    if (fake_cuda_alive() != 0) return 5;
    return result(st, &d);
}

/* By a program, several on one thread (which allocation fails must not depend on luck). */
static int attempt_many(void *context) {
    tw_ptx_compiler by = {.target = "sm_90a", .ptxas = context};
    static tw_ptx_job jobs[3];
    int worst = 0;
    for (int i = 0; i < 3; i++) jobs[i] = (tw_ptx_job){.ptx = text, .bytes = strlen(text)};
    tw_ptx_compile_all_by(&by, jobs, 3, 1);
    for (int i = 0; i < 3; i++) {
        int r = result(jobs[i].status, &jobs[i].diag);
        if (r > worst) worst = r;
        tw_cubin_free(&jobs[i].cubin);
    }
    return worst;
}

static void by_the_driver(void **state) {
    (void)state;
    char *folder = test_folder_make();
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    setenv("TILEWRIGHT_CACHE", folder, 1);
    unsetenv("TILEWRIGHT_PTXAS");
    alloc_fail_exhaust(attempt, NULL);
    test_folder_remove(folder);
}

static void by_a_program(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[1024];
    static const char program[] = "#!/bin/sh\necho Used 5 registers\nwhile [ $1 != -o ]; do shift; done; echo x >$2\n";
    test_write(folder, "program", program, strlen(program));
    snprintf(path, sizeof path, "%s/program", folder);
    assert_int_equal(chmod(path, 0755), 0);
    setenv("TMPDIR", folder, 1);
    alloc_fail_exhaust(attempt_many, path);
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_the_driver), cmocka_unit_test(by_a_program)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
