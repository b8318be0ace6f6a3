/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling PTX by a stand-in for the driver and by programs in ptxas's place, one and many at once. */
#define _GNU_SOURCE
#include "support/support.h"

#include "device/fake_cuda.h"
#include "ptx/load.h"
#include "ptx/ptxas.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char good[] = ".entry k(...)\n//! add\n//! registers 33\n//! spill 24\n";
static const char bad[] = ".entry k(...)\n//! complain Unknown symbol 'q'\n";

static char *folder;
static tw_cuda *cuda;

static int setup(void **state) {
    (void)state;
    tw_diag d;
    folder = test_folder_make();
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    setenv("TILEWRIGHT_CACHE", folder, 1);
    setenv("TMPDIR", folder, 1);
    unsetenv("TILEWRIGHT_PTXAS");
    fake_cuda_reset();
    return tw_cuda_open(&cuda, 0, &d) != TW_OK;
}

static int teardown(void **state) {
    (void)state;
    signal(SIGCHLD, SIG_DFL);
    tw_cuda_close(cuda);
    test_folder_remove(folder);
    return fake_cuda_alive();
}

static void the_driver_compiles_and_the_folder_remembers(void **state) {
    (void)state;
    tw_cubin c;
    tw_diag d;
    tw_cuda_module *m;
    const int before = fake_cuda_look()->compiled;
    /* Without an end mark: what follows is not its business. */
    char text[200];
    snprintf(text, sizeof text, "%sX//! complain at this", good);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(tw_ptx_compile(cuda, text, strlen(good), round != 1, &c, &d), TW_OK);
        assert_int_equal(c.cached, round == 2);
        assert_int_equal(c.registers, 33);
        assert_int_equal(c.spill_bytes, 24);
        assert_true(c.seconds >= 0 && c.seconds < 100);
        assert_int_equal(tw_cuda_load(cuda, &m, c.data, c.bytes, "k", 0, &d), TW_OK);
        tw_cuda_unload(m);
        tw_cubin_free(&c);
        assert_null(c.data);
    }
    assert_int_equal(fake_cuda_look()->compiled - before, 2);
}

/* The driver's linker would ignore setmaxnreg. A word that only begins so is another. */
static void kernels_that_move_registers_stay_text(void **state) {
    (void)state;
    static const char moves[] = ".entry k(...)\n//! add\nsetmaxnreg.dec.sync.aligned.u32 40;\n";
    static const char none[] = ".entry k(...)\n//! add\n// setmaxnreg_ setmaxnreg";
    tw_cubin c;
    tw_diag d;
    const int before = fake_cuda_look()->compiled;
    assert_int_equal(tw_ptx_compile(cuda, moves, strlen(moves), false, &c, &d), TW_OK);
    assert_int_equal(fake_cuda_look()->compiled, before);
    assert_true(c.bytes == sizeof moves && !memcmp(c.data, moves, sizeof moves));
    assert_true(c.registers == -1 && c.spill_bytes == -1);
    tw_cubin_free(&c);
    assert_int_equal(tw_ptx_compile(cuda, none, strlen(none), false, &c, &d), TW_OK);
    assert_int_equal(fake_cuda_look()->compiled, before + 1);
    tw_cubin_free(&c);
}

static void complaints_are_passed_on(void **state) {
    (void)state;
    tw_cubin c;
    tw_diag d;
    assert_int_equal(tw_ptx_compile(cuda, bad, strlen(bad), true, &c, &d), TW_ERR_FORMAT);
    assert_null(c.data);
    assert_string_equal(d.message, "ptxas application ptx input, line 3; error   : Unknown symbol 'q'");
    fake_cuda_fail("cuLinkComplete", 0, 2);
    assert_int_equal(tw_ptx_compile(cuda, good, strlen(good), true, &c, &d), TW_ERR_MEMORY);
    fake_cuda_fail("cuLinkCreate_v2", 0, 999);
    assert_int_equal(tw_ptx_compile(cuda, good, strlen(good), true, &c, &d), TW_ERR_IO);
    assert_non_null(strstr(d.message, "cannot compile PTX"));
}

static void a_folder_that_cannot_be_is_no_error(void **state) {
    (void)state;
    tw_cubin c;
    tw_diag d;
    setenv("TILEWRIGHT_CACHE", "/dev/null/nowhere", 1);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(tw_ptx_compile(cuda, good, strlen(good), true, &c, &d), TW_OK);
        assert_false(c.cached);
        tw_cubin_free(&c);
    }
}

/* A program in ptxas's place: its "machine code" is the PTX behind a mark. */
static void write_program(const char *name, const char *body, char *path, size_t size) {
    char text[2000];
    snprintf(text, sizeof text, "#!/bin/sh\n%s", body);
    test_write(folder, name, text, strlen(text));
    snprintf(path, size, "%s/%s", folder, name);
    assert_int_equal(chmod(path, 0755), 0);
}
static const char working[] = "while [ $# -gt 1 ]; do\n"
                              "case $1 in -o) out=$2; shift ;; --gpu-name) target=$2; shift ;; esac; shift; done\n"
                              "if grep -q complain $1; then echo \"ptxas $1, line 2; error   : no\" >&2; exit 255; fi\n"
                              "echo \"ptxas info    : Used 77 registers, 0 bytes spill stores for $target\" >&2\n"
                              "{ printf 'FAKE CUBIN\\n'; cat $1; printf '\\0'; } >$out\n";

static void ptxas_may_compile_instead(void **state) {
    (void)state;
    char path[1024], search[4096];
    tw_cubin c;
    tw_diag d;
    tw_cuda_module *m;
    write_program("ptxas-to-test", working, path, sizeof path);
    setenv("TILEWRIGHT_PTXAS", path, 1);
    for (int round = 0; round < 2; round++) {
        if (tw_ptx_compile(cuda, good, strlen(good), true, &c, &d) != TW_OK) fail_msg("%s", d.message);
        assert_int_equal(c.cached, round);
        assert_int_equal(c.registers, 77);
        assert_int_equal(c.spill_bytes, 0);
        assert_int_equal(tw_cuda_load(cuda, &m, c.data, c.bytes, "k", 0, &d), TW_OK);
        tw_cuda_unload(m);
        tw_cubin_free(&c);
    }
    assert_int_equal(tw_ptx_compile(cuda, bad, strlen(bad), true, &c, &d), TW_ERR_FORMAT);
    assert_non_null(strstr(d.message, "line 2; error   : no"));
    /* By its name, and with no device at all. */
    const char *old = getenv("PATH");
    char *kept = strdup(old ? old : "");
    snprintf(search, sizeof search, "/nowhere::%s:%s", folder, kept);
    setenv("PATH", search, 1);
    tw_ptx_compiler by = {.target = "sm_100a", .ptxas = "ptxas-to-test"};
    assert_int_equal(tw_ptx_compile_by(&by, good, strlen(good), &c, &d), TW_OK);
    tw_cubin_free(&c);
    setenv("PATH", kept, 1);
    free(kept);
    assert_int_equal(tw_ptx_compile_by(&by, good, strlen(good), &c, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "ptxas-to-test: no such program"));
    by.ptxas = NULL;
    assert_int_equal(tw_ptx_compile_by(&by, good, strlen(good), &c, &d), TW_ERR_UNSUPPORTED);
    by.target = NULL;
    assert_int_equal(tw_ptx_compile_by(&by, good, strlen(good), &c, &d), TW_ERR_USAGE);
}

static void programs_that_misbehave_are_errors(void **state) {
    (void)state;
    char path[1024];
    tw_cubin c;
    tw_diag d;
    tw_ptx_compiler by = {.target = "sm_90a", .ptxas = path};
    write_program("silent", "exit 0\n", path, sizeof path);
    assert_int_equal(tw_ptx_compile_by(&by, good, strlen(good), &c, &d), TW_ERR_IO);
    write_program("dying", "kill -9 $$\n", path, sizeof path);
    assert_int_equal(tw_ptx_compile_by(&by, good, strlen(good), &c, &d), TW_ERR_IO);
    assert_non_null(strstr(d.message, "signal 9"));
    write_program("wordless", "exit 4\n", path, sizeof path);
    assert_int_equal(tw_ptx_compile_by(&by, good, strlen(good), &c, &d), TW_ERR_FORMAT);
    assert_non_null(strstr(d.message, "status 4"));
    test_write(folder, "no-program",
               "\x7f"
               "ELF",
               4);
    snprintf(path, sizeof path, "%s/no-program", folder);
    assert_int_equal(tw_ptx_compile_by(&by, good, strlen(good), &c, &d), TW_ERR_UNSUPPORTED);
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(tw_ptx_compile_by(&by, good, strlen(good), &c, &d), TW_ERR_IO);
    assert_non_null(strstr(d.message, "cannot run"));
    write_program("fine", working, path, sizeof path);
    setenv("TMPDIR", "/dev/null", 1);
    assert_int_equal(tw_ptx_compile_by(&by, good, strlen(good), &c, &d), TW_ERR_IO);
    assert_int_equal(strncmp(d.path, "/dev/null/tilewright.", 21), 0);
}

/* In a process whose ended children nobody can ask for, what ptxas made tells how it went. */
static void nobody_says_how_ptxas_ended(void **state) {
    (void)state;
    char path[1024];
    tw_cubin c;
    tw_diag d;
    tw_ptx_compiler by = {.target = "sm_90a", .ptxas = path};
    const struct sigaction untold = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    assert_int_equal(sigaction(SIGCHLD, &untold, NULL), 0);
    write_program("fine", working, path, sizeof path);
    if (tw_ptx_compile_by(&by, good, strlen(good), &c, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(c.registers, 77);
    tw_cubin_free(&c);
    assert_int_equal(tw_ptx_compile_by(&by, bad, strlen(bad), &c, &d), TW_ERR_FORMAT);
    assert_non_null(strstr(d.message, "line 2; error   : no"));
    write_program("empty", "for x; do [ \"$y\" = -o ] && : >$x; y=$x; done\n", path, sizeof path);
    assert_int_equal(tw_ptx_compile_by(&by, good, strlen(good), &c, &d), TW_ERR_FORMAT);
    assert_null(c.data);
}

static void compile_many(bool by_program, int n) {
    char path[1024], (*texts)[100] = calloc((size_t)n, sizeof *texts);
    tw_ptx_job *jobs = calloc((size_t)n, sizeof *jobs);
    write_program("fine", working, path, sizeof path);
    tw_ptx_compiler by = {.cuda = cuda, .ptxas = by_program ? path : NULL, .remember = true};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < n; i++) {
            snprintf(texts[i], sizeof *texts, ".entry k(...)\n//! %s %d\n", i % 7 == 3 ? "complain" : "registers", i);
            jobs[i] = (tw_ptx_job){.ptx = texts[i], .bytes = strlen(texts[i])};
        }
        tw_ptx_compile_all_by(&by, jobs, n, 8);
        for (int i = 0; i < n; i++) {
            if (i % 7 == 3) {
                assert_int_equal(jobs[i].status, TW_ERR_FORMAT);
                assert_non_null(strstr(jobs[i].diag.message, "error   :"));
                continue;
            }
            if (jobs[i].status != TW_OK) fail_msg("%s", jobs[i].diag.message);
            assert_int_equal(jobs[i].cubin.registers, by_program ? 77 : i);
            assert_int_equal(jobs[i].cubin.cached, round);
            tw_cubin_free(&jobs[i].cubin);
        }
    }
    free(jobs);
    free(texts);
}

static void machine_code_is_disassembled(void **state) {
    (void)state;
    static const char *const names[] = {"nvdisasm", "cuobjdump"};
    const char *old = getenv("PATH");
    char *kept = strdup(old ? old : ""), path[1024], search[1100];
    tw_buf text = {0};
    tw_diag d;
    assert_non_null(kept);
    setenv("PATH", "/nowhere", 1);
    assert_int_equal(tw_ptxas_disassemble("code", 4, &text, &d), TW_ERR_UNSUPPORTED);
    snprintf(search, sizeof search, "%s:/usr/bin:/bin", folder);
    setenv("PATH", search, 1);
    for (int i = 0; i < 2; i++) {
        char want[64];
        write_program(names[i], "echo aside >&2\necho $0 $# | sed 's|.*/||'\nfor x; do :; done\ncat $x\n", path,
                      sizeof path);
        snprintf(want, sizeof want, "%s %d\ncode", names[i], i + 1);
        if (tw_ptxas_disassemble("code", 4, &text, &d) != TW_OK) fail_msg("%s", d.message);
        assert_int_equal(text.size, strlen(want));
        assert_memory_equal(text.data, want, text.size);
        tw_buf_free(&text);
        text = (tw_buf){0};
    }
    write_program(names[1], "echo what is this >&2; echo more >&2; exit 3\n", path, sizeof path);
    assert_int_equal(tw_ptxas_disassemble("code", 4, &text, &d), TW_ERR_FORMAT);
    assert_non_null(strstr(d.message, "cuobjdump: what is this"));
    assert_null(strstr(d.message, "more"));
    setenv("PATH", kept, 1);
    free(kept);
    tw_buf_free(&text);
}

static void many_at_once_by_the_driver(void **state) {
    (void)state;
    compile_many(false, 300);
}

static void many_at_once_by_ptxas(void **state) {
    (void)state;
    compile_many(true, 24);
}

static void many_that_cannot_begin_all_say_why(void **state) {
    (void)state;
    tw_ptx_job jobs[3] = {
        {.ptx = good, .bytes = sizeof good - 1}, {.ptx = good, .bytes = 3}, {.ptx = good, .bytes = 4}};
    setenv("TILEWRIGHT_PTXAS", "/nowhere/ptxas", 1);
    tw_ptx_compile_all(cuda, jobs, 3, 0, true);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(jobs[i].status, TW_ERR_UNSUPPORTED);
        assert_non_null(strstr(jobs[i].diag.message, "/nowhere/ptxas"));
    }
    unsetenv("TILEWRIGHT_PTXAS");
    fake_cuda_fail("cuLinkCreate_v2", 0, 2);
    tw_ptx_compile_all(cuda, jobs, 3, 1, false);
    for (int i = 0; i < 3; i++) assert_int_equal(jobs[i].status, TW_ERR_MEMORY);
    tw_ptx_compile_all(cuda, jobs, 0, 0, false);
}

/* Where the toolkit is installed: its ptxas takes what it should. */
static void the_real_ptxas(void **state) {
    (void)state;
    static const char real[] = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                               ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %a<3>;\n.reg .b32 %x;\n"
                               "ld.param.u64 %a1, [p];\ncvta.to.global.u64 %a2, %a1;\nmov.u32 %x, %tid.x;\n"
                               "st.global.u32 [%a2], %x;\nret;\n}\n";
    tw_cubin c;
    tw_diag d;
    char text[1000];
    tw_ptx_compiler by = {.target = "sm_90a", .ptxas = "ptxas", .remember = true};
    tw_status st = tw_ptx_compile_by(&by, real, strlen(real), &c, &d);
    if (st == TW_ERR_UNSUPPORTED) skip();
    if (st != TW_OK) fail_msg("%s", d.message);
    assert_memory_equal(c.data,
                        "\x7f"
                        "ELF",
                        4);
    assert_true(c.registers > 0 && c.registers < 32);
    assert_int_equal(c.spill_bytes, 0);
    tw_cubin_free(&c);
    snprintf(text, sizeof text, "%s", real);
    memcpy(strstr(text, "%x;\nret"), "%q;", 3);
    assert_int_equal(tw_ptx_compile_by(&by, text, strlen(text), &c, &d), TW_ERR_FORMAT);
    assert_non_null(strstr(d.message, "line "));
    assert_non_null(strstr(d.message, "error"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_driver_compiles_and_the_folder_remembers, setup, teardown),
        cmocka_unit_test_setup_teardown(kernels_that_move_registers_stay_text, setup, teardown),
        cmocka_unit_test_setup_teardown(complaints_are_passed_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_cannot_be_is_no_error, setup, teardown),
        cmocka_unit_test_setup_teardown(ptxas_may_compile_instead, setup, teardown),
        cmocka_unit_test_setup_teardown(programs_that_misbehave_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_says_how_ptxas_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(machine_code_is_disassembled, setup, teardown),
        cmocka_unit_test_setup_teardown(many_at_once_by_the_driver, setup, teardown),
        cmocka_unit_test_setup_teardown(many_at_once_by_ptxas, setup, teardown),
        cmocka_unit_test_setup_teardown(many_that_cannot_begin_all_say_why, setup, teardown),
        cmocka_unit_test_setup_teardown(the_real_ptxas, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
