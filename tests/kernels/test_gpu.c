/* SPDX-License-Identifier: Apache-2.0 */
/* The same on a real GPU, where there is one; skipped elsewhere. Prints what it measures. */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/clock.h"
#include "device/cuda/time.h"
#include "kernels/vendor/cublaslt.h"
#include "ptx/load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77 };

/* Adds x to n words at p, each thread to one, `times` over, which makes as much code for a compiler. */
static void print_kernel(char *out, size_t size, const tw_target *t, int times) {
    int n = snprintf(out, size,
                     ".version %s\n.target %s\n.address_size 64\n"
                     ".visible .entry add_k(.param .u64 p, .param .u32 n, .param .u32 x)\n{\n"
                     ".reg .pred %%q;\n.reg .b32 %%r<7>;\n.reg .b64 %%a<3>;\n"
                     "ld.param.u64 %%a0, [p];\nld.param.u32 %%r0, [n];\nld.param.u32 %%r1, [x];\n"
                     "mov.u32 %%r2, %%ctaid.x;\nmov.u32 %%r3, %%ntid.x;\nmov.u32 %%r4, %%tid.x;\n"
                     "mad.lo.u32 %%r5, %%r2, %%r3, %%r4;\nsetp.ge.u32 %%q, %%r5, %%r0;\n@%%q ret;\n"
                     "cvta.to.global.u64 %%a1, %%a0;\nmul.wide.u32 %%a2, %%r5, 4;\nadd.u64 %%a1, %%a1, %%a2;\n",
                     t->ptx, t->name);
    for (int i = 0; i < times; i++)
        n += snprintf(out + n, size - (size_t)n,
                      "ld.volatile.global.u32 %%r6, [%%a1];\nadd.u32 %%r6, %%r6, %%r1;\n"
                      "st.volatile.global.u32 [%%a1], %%r6;\n");
    snprintf(out + n, size - (size_t)n, "ret;\n}\n");
}

static tw_cuda *cuda;
static char *folder;

static tw_cuda *device(void) {
    if (!cuda) skip();
    return cuda;
}

static tw_cuda_module *loaded(tw_cuda *c, int64_t shared) {
    static char text[8192];
    tw_cubin cubin;
    tw_cuda_module *m;
    tw_diag d;
    print_kernel(text, sizeof text, tw_cuda_describe(c)->target, 1);
    if (tw_ptx_compile(c, text, strlen(text), true, &cubin, &d) != TW_OK) fail_msg("%s", d.message);
    print_message("compiled in %.1f ms%s: %d registers, %d bytes spilt\n", cubin.seconds * 1e3,
                  cubin.cached ? ", from the folder" : "", cubin.registers, cubin.spill_bytes);
    assert_true(cubin.registers > 0);
    assert_int_equal(cubin.spill_bytes, 0);
    if (tw_cuda_load(c, &m, cubin.data, cubin.bytes, "add_k", shared, &d) != TW_OK) fail_msg("%s", d.message);
    tw_cubin_free(&cubin);
    return m;
}

typedef struct adding {
    tw_cuda *c;
    uint64_t arguments[3], sets[64];
    int n_sets, bytes[3];
    tw_cuda_launch launch;
} adding;

static void adding_set(adding *x, tw_cuda *c, tw_cuda_module *m, uint64_t address, int n, int by) {
    *x = (adding){.c = c, .arguments = {address, (uint64_t)n, (uint64_t)by}, .bytes = {8, 4, 4}};
    x->launch = (tw_cuda_launch){.module = m,
                                 .grid = {(n + 255) / 256, 1, 1},
                                 .threads = 256,
                                 .arguments = x->arguments,
                                 .argument_bytes = x->bytes,
                                 .n_arguments = 3};
}

/* In a process of its own, and before this one starts the driver, which does not survive a fork. */
static void a_fault_is_named(void **state) {
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        tw_diag d;
        tw_cuda *c;
        adding x;
        if (tw_cuda_open(&c, 0, &d) != TW_OK) _exit(SKIPPED);
        tw_cuda_module *m = loaded(c, 0);
        adding_set(&x, c, m, 64, 1000, 1);
        if (tw_cuda_run(c, &x.launch, &d) != TW_OK) _exit(1);
        if (tw_cuda_sync(c, &d) != TW_ERR_IO || !strstr(d.message, "faulted in kernel add_k")) _exit(2);
        fprintf(stderr, "%s\n", d.message);
        if (tw_cuda_fill(c, 64, 0, 1, &d) != TW_ERR_IO || !strstr(d.message, "faulted in kernel add_k")) _exit(3);
        tw_cuda_unload(m);
        tw_cuda_close(c);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void kernels_run(void **state) {
    (void)state;
    tw_cuda *c = device();
    const tw_cuda_info *i = tw_cuda_describe(c);
    enum { N = 10000 };
    static uint32_t words[N];
    tw_diag d;
    uint64_t a;
    adding x;
    tw_cuda_resources r;
    print_message("%s, driver %s, %s, %d SMs, %d KiB L2\n", i->name, i->driver, i->target->name, i->sms,
                  (int)(i->l2_bytes >> 10));
    tw_cuda_module *m = loaded(c, 100 << 10);
    assert_int_equal(tw_cuda_module_resources(m, 256, 100 << 10, &r, &d), TW_OK);
    print_message("%d registers, %d local, %d blocks an SM with 100 KiB\n", r.registers, r.local_bytes,
                  r.blocks_per_sm);
    assert_true(r.registers > 0 && r.blocks_per_sm >= 1);
    assert_int_equal(tw_cuda_alloc(c, sizeof words, &a, &d), TW_OK);
    assert_int_equal(tw_cuda_fill(c, a, 5, N, &d), TW_OK);
    adding_set(&x, c, m, a, N, 1);
    for (int way = 0; way < 4; way++) {
        x.launch.dynamic_shared = way == 1 ? 100 << 10 : 0;
        x.launch.cooperative = way == 2;
        x.launch.cluster = way == 3 && i->sm >= 90 && i->sm < 120 ? 8 : 0;
        x.launch.grid[0] = (N + 2047) / 2048 * 8;
        if (tw_cuda_run(c, &x.launch, &d) != TW_OK) fail_msg("launch %d: %s", way, d.message);
    }
    assert_int_equal(tw_cuda_download(c, words, a, sizeof words, &d), TW_OK);
    for (int k = 0; k < N; k++) assert_int_equal(words[k], 9);
    tw_cuda_release(c, a);
    tw_cuda_unload(m);
}

static void complaints_are_passed_on(void **state) {
    (void)state;
    tw_cuda *c = device();
    char text[8192];
    tw_cubin cubin;
    tw_diag d;
    print_kernel(text, sizeof text, tw_cuda_describe(c)->target, 1);
    memcpy(strstr(text, "%r6, [%a1]"), "%z6", 3);
    assert_int_equal(tw_ptx_compile(c, text, strlen(text), true, &cubin, &d), TW_ERR_FORMAT);
    print_message("%s\n", d.message);
    assert_non_null(strstr(d.message, "error"));
}

static tw_status enqueue(void *context, int i, tw_diag *d) {
    adding *x = context;
    x->arguments[0] = x->sets[i % x->n_sets];
    return tw_cuda_run(x->c, &x->launch, d);
}

static void launches_are_timed_cold_and_warm(void **state) {
    (void)state;
    tw_cuda *c = device();
    enum { N = 2 << 20, REPLAYS = 5 };
    adding x;
    tw_diag d;
    double us[REPLAYS];
    tw_cuda_module *m = loaded(c, 0);
    adding_set(&x, c, m, 0, N, 1);
    int sets = tw_cuda_sets(c, (int64_t)N * 4, 64);
    for (int i = 0; i < sets; i++) {
        assert_int_equal(tw_cuda_alloc(c, (size_t)N * 4, &x.sets[i], &d), TW_OK);
        assert_int_equal(tw_cuda_fill(c, x.sets[i], 0, N, &d), TW_OK);
    }
    for (int cold = 0; cold < 2; cold++) {
        x.n_sets = cold ? sets : 1;
        if (tw_cuda_time(c, enqueue, &x, sets * 2, REPLAYS, us, &d) != TW_OK) fail_msg("%s", d.message);
        for (int i = 0; i < REPLAYS; i++) {
            print_message("%s: %.2f us, %.0f GB/s\n", cold ? "cold" : "warm", us[i], N * 8.0 / us[i] * 1e-3);
            assert_true(us[i] > 0.1 && us[i] < 1e6);
        }
    }
    for (int i = 0; i < sets; i++) tw_cuda_release(c, x.sets[i]);
    tw_cuda_unload(m);
}

static void compile_together(tw_cuda *c, const char *ptxas, int threads) {
    enum { N = 64, ROOM = 24 << 10 };
    tw_ptx_job *jobs = calloc(N, sizeof *jobs);
    char *text = malloc((size_t)N * ROOM);
    assert_true(jobs && text);
    for (int i = 0; i < N; i++) {
        print_kernel(text + (size_t)i * ROOM, ROOM, tw_cuda_describe(c)->target, 60 + i + (int)(tw_now_ns() % 97));
        jobs[i] = (tw_ptx_job){.ptx = text + (size_t)i * ROOM, .bytes = strlen(text + (size_t)i * ROOM)};
    }
    tw_ptx_compiler by = {.cuda = c, .ptxas = ptxas};
    int64_t start = tw_now_ns();
    tw_ptx_compile_all_by(&by, jobs, N, threads);
    double seconds = (double)(tw_now_ns() - start) * 1e-9;
    bool missing = jobs[0].status == TW_ERR_UNSUPPORTED;
    for (int i = 0; i < N && !missing; i++) {
        if (jobs[i].status != TW_OK) fail_msg("%s", jobs[i].diag.message);
        tw_cubin_free(&jobs[i].cubin);
    }
    if (!missing)
        print_message("%s, %d threads: %.1f ms a kernel\n", ptxas ? ptxas : "driver", threads, seconds / N * 1e3);
    free(jobs);
    free(text);
}

static void many_are_compiled_at_once(void **state) {
    (void)state;
    tw_cuda *c = device();
    for (int threads = 1; threads <= 16; threads *= 4) {
        compile_together(c, NULL, threads);
        compile_together(c, "ptxas", threads);
    }
}

static void cublaslt_multiplies(void **state) {
    (void)state;
    tw_cuda *c = device();
    enum { M = 192, N = 80, K = 100 };
    static float a[M * K], b[K * N], out[M * N];
    tw_cublaslt *lt;
    tw_cublaslt_plan *plan;
    tw_diag d;
    char version[32];
    uint64_t da, db, dc;
    if (tw_cublaslt_open(&lt, c, &d) != TW_OK) {
        print_message("%s\n", d.message);
        skip();
    }
    tw_cublaslt_version(lt, version, sizeof version);
    for (int i = 0; i < M * K; i++) a[i] = (float)(i * 37 % 101) / 101 + 1e-4f;
    for (int i = 0; i < K * N; i++) b[i] = (float)(i * 53 % 97) / 97 - 0.5f;
    assert_int_equal(tw_cuda_alloc(c, sizeof a, &da, &d), TW_OK);
    assert_int_equal(tw_cuda_alloc(c, sizeof b, &db, &d), TW_OK);
    assert_int_equal(tw_cuda_alloc(c, sizeof out, &dc, &d), TW_OK);
    assert_int_equal(tw_cuda_upload(c, da, a, sizeof a, &d), TW_OK);
    assert_int_equal(tw_cuda_upload(c, db, b, sizeof b, &d), TW_OK);
    for (int way = 0; way < 8; way++) {
        const tw_cublaslt_type type = way < 4 ? TW_CUBLASLT_F32 : TW_CUBLASLT_TF32;
        const bool ta = way & 1, tb = way & 2;
        const tw_cublaslt_problem p = {.type = type,
                                       .m = M,
                                       .n = N,
                                       .k = K,
                                       .trans_a = ta,
                                       .trans_b = tb,
                                       .lda = ta ? K : M,
                                       .ldb = tb ? N : K,
                                       .ldc = M,
                                       .alpha = 1};
        if (tw_cublaslt_plan_make(lt, &p, 16, 32 << 20, &plan, &d) != TW_OK) fail_msg("%s", d.message);
        double worst = 0;
        for (int how = 0; how < tw_cublaslt_algorithms(plan); how++) {
            assert_int_equal(tw_cuda_fill(c, dc, 0x7fc00000, M * N, &d), TW_OK);
            if (tw_cublaslt_run(plan, how, da, db, dc, NULL, &d) != TW_OK) fail_msg("%s", d.message);
            if (tw_cuda_download(c, out, dc, sizeof out, &d) != TW_OK) fail_msg("%s", d.message);
            for (int i = 0; i < M; i++)
                for (int j = 0; j < N; j++) {
                    double sum = 0;
                    for (int k = 0; k < K; k++)
                        sum += (double)a[ta ? k + i * K : i + k * M] * (double)b[tb ? j + k * N : k + j * K];
                    double error = fabs(sum - (double)out[i + j * M]);
                    if (!(error <= worst)) worst = error;
                }
        }
        print_message("cuBLASLt %s %s %c%c: %d algorithms, worst error %g\n", version, way < 4 ? "f32" : "tf32",
                      ta ? 'T' : 'N', tb ? 'T' : 'N', tw_cublaslt_algorithms(plan), worst);
        assert_true(worst < (way < 4 ? 3e-5 : 3e-2)); /* f32 with TF32 in it would show */
        tw_cublaslt_plan_free(plan);
    }
    tw_cuda_release(c, da);
    tw_cuda_release(c, db);
    tw_cuda_release(c, dc);
    tw_cublaslt_close(lt);
}

/* Proposals are rebuilt from their attributes to the bit, and checked as they were proposed. */
static void cublaslt_rebuilds_algorithms(void **state) {
    (void)state;
    tw_cuda *c = device();
    static const int64_t sizes[][3] = {{8192, 4096, 4096}, {512, 64, 8192}, {4096, 1000, 2048}};
    tw_cublaslt *lt;
    tw_diag d;
    if (tw_cublaslt_open(&lt, c, &d) != TW_OK) {
        print_message("%s\n", d.message);
        skip();
    }
    for (int s = 0; s < 3; s++) {
        const int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
        const tw_cublaslt_problem p = {.type = TW_CUBLASLT_BF16,
                                       .m = m,
                                       .n = n,
                                       .k = k,
                                       .trans_a = true,
                                       .lda = k,
                                       .ldb = k,
                                       .ldc = m,
                                       .alpha = 1};
        tw_cublaslt_plan *plan;
        if (tw_cublaslt_plan_make(lt, &p, 8, 64 << 20, &plan, &d) != TW_OK) fail_msg("%s", d.message);
        const int proposed = tw_cublaslt_algorithms(plan);
        for (int i = 0; i < proposed; i++) {
            tw_cublaslt_algorithm a;
            tw_cublaslt_check check;
            int again = -1;
            if (tw_cublaslt_describe(plan, i, &a, &d) != TW_OK || tw_cublaslt_fits(lt, &p, &a, &check, &d) != TW_OK ||
                tw_cublaslt_plan_add(plan, &a, &again, &d) != TW_OK)
                fail_msg("%s", d.message);
            assert_int_equal(again, i);
            assert_int_equal(check.workspace, tw_cublaslt_workspace(plan, i));
            assert_true(check.waves > 0);
        }
        assert_int_equal(tw_cublaslt_algorithms(plan), proposed);
        tw_cublaslt_plan_free(plan);
    }
    tw_cublaslt_close(lt);
}

static int open_device(void **state) {
    tw_diag d;
    (void)state;
    if (tw_cuda_open(&cuda, 0, &d) != TW_OK) {
        print_message("%s\n", d.message);
        cuda = NULL;
    }
    return 0;
}

int main(void) {
    const struct CMUnitTest first[] = {cmocka_unit_test(a_fault_is_named)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_run),
        cmocka_unit_test(complaints_are_passed_on),
        cmocka_unit_test(launches_are_timed_cold_and_warm),
        cmocka_unit_test(many_are_compiled_at_once),
        cmocka_unit_test(cublaslt_multiplies),
        cmocka_unit_test(cublaslt_rebuilds_algorithms),
    };
    folder = test_folder_make();
    setenv("TILEWRIGHT_CACHE", folder, 1);
    int bad = cmocka_run_group_tests_name("a process of its own", first, NULL, NULL);
    bad += cmocka_run_group_tests_name("this process", tests, open_device, NULL);
    if (cuda) tw_cuda_close(cuda);
    test_folder_remove(folder);
    return bad;
}
