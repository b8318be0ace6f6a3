/* SPDX-License-Identifier: Apache-2.0 */
/* What packages have beside graphs: machine code, packed constants, the model; and checks of what is read. */
#define _GNU_SOURCE
#include "support/support.h"

#include "device/fake_cuda.h"
#include "engine/network.h"
#include "engine/package.h"
#include "graph/build.h"
#include "graph/run.h"
#include "graph/specialize.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENCODER TEST_DATA "/onnx/encoder/"

static char *folder;
static char package[1024];

static void succeed(tw_status st, const tw_diag *d) {
    if (st != TW_OK) fail_msg("%s", d->message);
}

static tw_network *opened(const char *path, const char *device) {
    const tw_network_options o = {.device = device, .threads = 2};
    tw_network *n;
    tw_diag d = {0};
    succeed(tw_network_open(&n, path, &o, &d), &d);
    return n;
}

static tw_status prepare(tw_network *n, int batch, int length, tw_diag *d) {
    tw_tensors *in;
    succeed(tw_tensors_new(&in, n, d), d);
    succeed(tw_tensors_extent(in, "batch", batch, d), d);
    succeed(tw_tensors_extent(in, "length", length, d), d);
    succeed(tw_tensors_complete(in, true, d), d);
    const tw_status st = tw_network_prepare(n, tw_tensors_list(in), d);
    tw_tensors_free(in);
    return st;
}

static void agrees(tw_network *n) {
    tw_network_verdict v;
    tw_diag d = {0};
    char why[512];
    succeed(tw_network_verify(n, ENCODER "case.npz", &v, why, sizeof why, &d), &d);
    if (!v.agrees) fail_msg("%s", why);
}

static tw_status build(const char *device, const char *dtype, const tw_package_options *o, tw_diag *d) {
    const tw_network_options how = {.device = device, .dtype = dtype, .threads = 2};
    tw_network *n;
    succeed(tw_network_open(&n, ENCODER "model.onnx", &how, d), d);
    succeed(prepare(n, 2, 5, d), d);
    const tw_status st = tw_network_save_with(n, package, o, d);
    tw_network_close(n);
    return st;
}

static void says(tw_network *n, const char *what) {
    tw_diag d = {0};
    char *text = tw_network_text(n, TW_NETWORK_FUSIONS, &d);
    if (!text) fail_msg("%s", d.message);
    if (!strstr(text, what)) fail_msg("\"%s\" is not in:\n%s", what, text);
    free(text);
}

/* Changes a byte of the package's file. */
static void flip(int64_t at) {
    FILE *f = fopen(package, "r+b");
    assert_non_null(f);
    fseek(f, (long)at, SEEK_SET);
    const int c = fgetc(f);
    fseek(f, (long)at, SEEK_SET);
    fputc(c ^ 4, f);
    fclose(f);
}

/* Where data lie in the file. */
static int64_t place_of(const tw_package *p, const void *data) {
    return (int64_t)((const unsigned char *)data - p->map.data);
}

static void damaged(const char *device, bool found) {
    tw_network *n = opened(package, device);
    tw_diag d = {0};
    const tw_status st = prepare(n, 2, 5, &d);
    if (found) {
        assert_int_equal(st, TW_ERR_FORMAT);
        assert_string_equal(d.message, "a constant does not have its checksum");
        assert_string_equal(d.path, package);
    } else {
        succeed(st, &d);
    }
    assert_int_equal(tw_network_check_file(n, &d), TW_ERR_FORMAT);
    tw_network_close(n);
}

/* ---- machine code */

/* Every folder of machine code is another, so that none remembers. */
static void forget(void) {
    static int number;
    char path[1100];
    snprintf(path, sizeof path, "%s/cache%d", folder, number++);
    setenv("TILEWRIGHT_CACHE", path, 1);
    fake_cuda_reset();
}

static void build_for_cuda(void) {
    tw_diag d = {0};
    forget();
    succeed(build("cuda", "f16", NULL, &d), &d);
    forget();
}

static void machine_code_is_taken(void **state) {
    (void)state;
    tw_diag d = {0};
    build_for_cuda();
    const int before = fake_cuda_look()->compiled;
    tw_network *n = opened(package, "cuda");
    succeed(prepare(n, 2, 5, &d), &d);
    assert_int_equal(fake_cuda_look()->compiled, before);
    says(n, "kernels by the package's machine code, 0 by the cache, 0 compiled\n");
    char *launches = tw_network_text(n, TW_NETWORK_LAUNCHES, &d);
    assert_non_null(launches);
    assert_non_null(strstr(launches, "; by the package\n"));
    free(launches);
    tw_network_close(n);
    assert_int_equal(fake_cuda_alive(), 0);
}

/* The driver takes none of another driver's. */
static void what_is_refused_is_compiled(void **state) {
    (void)state;
    tw_diag d = {0};
    build_for_cuda();
    tw_network *n = opened(package, "cuda");
    fake_cuda_fail("cuModuleLoadDataEx", 1, 209);
    const int before = fake_cuda_look()->compiled;
    succeed(prepare(n, 2, 5, &d), &d);
    assert_int_equal(fake_cuda_look()->compiled, before + 1);
    says(n, " 0 by the cache, 1 compiled\n");
    tw_network_close(n);
    assert_int_equal(fake_cuda_alive(), 0);
}

/* Code for another target has other keys. */
static void code_for_others_is_left(void **state) {
    (void)state;
    tw_diag d = {0};
    tw_package *p;
    build_for_cuda();
    succeed(tw_package_open(&p, package, &d), &d);
    const int kernels = p->n_code;
    assert_true(kernels > 3);
    for (int i = 0; i < kernels; i++) p->code[i].key.word[0] ^= 1;
    const tw_package_parts parts = {.dtype = p->dtype,
                                    .plan = p->plan,
                                    .plan_bytes = p->plan_bytes,
                                    .code = p->code,
                                    .n_code = p->n_code,
                                    .interface = p->interface,
                                    .graphs = (const tw_graph *const *)p->graphs,
                                    .n_graphs = p->n_graphs};
    succeed(tw_package_write(&parts, package, &d), &d);
    tw_package_close(p);
    tw_network *n = opened(package, "cuda");
    succeed(prepare(n, 2, 5, &d), &d);
    says(n, "      0  kernels by the package's machine code, 0 by the cache, ");
    tw_network_close(n);
}

static void damaged_code_is_found(void **state) {
    (void)state;
    tw_diag d = {0};
    tw_package *p;
    build_for_cuda();
    succeed(tw_package_open(&p, package, &d), &d);
    const int64_t code = place_of(p, p->code[p->n_code - 1].data) + 20, mark = place_of(p, p->code[0].data);
    tw_package_close(p);
    flip(code);
    damaged("cuda", true);
    damaged("cpu", false);
    flip(code);
    flip(mark); /* It is no machine code then. */
    assert_int_equal(tw_package_open(&p, package, &d), TW_ERR_FORMAT);
    assert_string_equal(d.message, "a kernel is no machine code");
}

static void a_target_needs_no_gpu(void **state) {
    (void)state;
    static const char program[] = "#!/bin/sh\n"
                                  "while [ $# -gt 1 ]; do case $1 in -o) out=$2; shift ;; esac; shift; done\n"
                                  "{ printf '\\177ELF FAKE CUBIN\\n'; cat $1; printf '\\0'; } >$out\n";
    char path[1100];
    tw_diag d = {0};
    test_write(folder, "ptxas-to-test", program, sizeof program - 1);
    snprintf(path, sizeof path, "%s/ptxas-to-test", folder);
    assert_int_equal(chmod(path, 0755), 0);
    setenv("TILEWRIGHT_PTXAS", path, 1);
    forget();
    succeed(build("emulator", "f16", &(tw_package_options){.target = "sm_90a"}, &d), &d);
    assert_int_equal(build("emulator", "f16", &(tw_package_options){.target = "sm_80"}, &d), TW_ERR_USAGE);
    assert_int_equal(build("cpu", "f16", &(tw_package_options){.target = "sm_90a"}, &d), TW_ERR_USAGE);
    setenv("TILEWRIGHT_PTXAS", "/no/such/ptxas", 1);
    assert_int_equal(build("emulator", "f16", &(tw_package_options){.target = "sm_90a"}, &d), TW_ERR_UNSUPPORTED);
    unsetenv("TILEWRIGHT_PTXAS");
    forget();
    const int before = fake_cuda_look()->compiled;
    tw_network *n = opened(package, "cuda");
    succeed(prepare(n, 2, 5, &d), &d);
    assert_int_equal(fake_cuda_look()->compiled, before);
    says(n, "  kernels of sm_90a (");
    tw_network_close(n);
}

/* ---- packed constants */

static int64_t memory_of(const tw_network *n) {
    tw_network_info info;
    tw_network_describe(n, &info);
    return info.memory_bytes;
}

static void packed_constants_are_taken(void **state) {
    (void)state;
    tw_diag d = {0};
    int64_t memory[2];
    for (int packed = 0; packed < 2; packed++) {
        succeed(build("cpu", NULL, &(tw_package_options){.packed = packed}, &d), &d);
        tw_network *n = opened(package, "cpu");
        agrees(n);
        memory[packed] = memory_of(n);
        succeed(tw_network_check_file(n, &d), &d);
        tw_network_close(n);
    }
    assert_true(memory[1] < memory[0]);
    tw_network *n = opened(package, "plain");
    agrees(n);
    says(n, "4  constants as a processor reads them (");
    tw_network_close(n);
    assert_int_equal(build("plain", NULL, &(tw_package_options){.packed = true}, &d), TW_ERR_USAGE);
}

/* Places in the file: of the first product's B, whose panels lie otherwise; of these; of a vector. */
typedef struct places {
    int64_t b, panels, gain;
} places;

static places find_places(void) {
    tw_diag d = {0};
    tw_package *p;
    places x = {-1, -1, -1};
    succeed(tw_package_open(&p, package, &d), &d);
    const tw_graph *g = p->graphs[0];
    for (int i = 0; i < g->n_values; i++) {
        const tw_array *a = g->values[i].content;
        if (a && a->rank == 1 && a->type == TW_E_f32) x.gain = place_of(p, a->data);
    }
    for (int i = 0; i < g->n_nodes && x.b < 0; i++) {
        const tw_array *a = g->nodes[i].n_in > 1 ? g->values[g->nodes[i].in[1]].content : NULL;
        if (a && !strcmp(g->nodes[i].op, "Product")) x.b = place_of(p, a->data);
    }
    if (p->n_panels) x.panels = place_of(p, p->panels[0].data) + 70;
    tw_package_close(p);
    assert_true(x.b > 0 && x.gain > 0);
    return x;
}

static void damage_is_found_where_it_is_read(void **state) {
    (void)state;
    tw_diag d = {0};
    succeed(build("cpu", NULL, &(tw_package_options){.packed = true}, &d), &d);
    places x = find_places();
    flip(x.panels);
    damaged("cpu", true);
    damaged("plain", false);
    flip(x.panels);
    flip(x.b);
    damaged("cpu", false);
    damaged("plain", true);
    flip(x.b);
    flip(x.gain); /* A small one is looked at first. */
    const tw_network_options how = {.device = "cpu"};
    tw_network *n;
    assert_int_equal(tw_network_open(&n, package, &how, &d), TW_ERR_FORMAT);
    assert_string_equal(d.message, "a constant does not have its checksum");
    assert_int_equal(d.offset, x.gain);
    succeed(build("cpu", NULL, NULL, &d), &d);
    x = find_places();
    flip(x.b);
    damaged("cpu", true);
}

enum { ROWS = 4, DEPTH = 8, WIDE = 200 };

/* Writes a package of a product in f16 that is stored in f32. Its bias is, too, and is made as the program is. Returns
   where the bias lies in the file. */
static int64_t write_product(void) {
    static const uint16_t w[DEPTH * WIDE] = {0x3c00}, bias[WIDE] = {0x3c00, 0x4000};
    const tw_array of_w = {.type = TW_E_f16, .rank = 2, .dims = {DEPTH, WIDE}, .data = w},
                   of_bias = {.type = TW_E_f16, .rank = 1, .dims = {WIDE}, .data = bias},
                   of_x = {.type = TW_E_f16, .rank = 2, .dims = {ROWS, DEPTH}}, *in[] = {&of_x};
    tw_graph *g = tw_graph_new(), *concrete;
    tw_package *p;
    tw_diag d = {0};
    const int x = tw_graph_input(g, "x", TW_E_f16, 2, of_x.dims);
    const int product = tw_graph_op(
        g, "Gemm", TW_OPERANDS(x, tw_graph_constant(g, &of_w), tw_graph_constant(g, &of_bias)), TW_NO_ATTRIBUTES);
    tw_graph_output(g, tw_graph_op(g, "Cast", TW_OPERANDS(product), TW_ATTRIBUTES(TW_INT("to", 1))), "y");
    succeed(tw_graph_resolve(g, "", &d), &d);
    succeed(tw_graph_specialize(&concrete, g, in, &d), &d);
    const tw_graph *const graphs[] = {concrete};
    const tw_package_parts parts = {.dtype = "f16", .plan = "", .interface = concrete, .graphs = graphs, .n_graphs = 1};
    succeed(tw_package_write(&parts, package, &d), &d);
    tw_graph_free(concrete);
    tw_graph_free(g);
    succeed(tw_package_open(&p, package, &d), &d);
    int64_t at = -1;
    for (int64_t i = 0; i < p->n_constants; i++)
        if (p->constants[i].bytes == sizeof bias) at = place_of(p, p->data + p->constants[i].at);
    tw_package_close(p);
    assert_true(at > 0);
    return at;
}

/* What a program is made of is read, although its steps read copies. */
static void damage_of_what_is_copied_is_found(void **state) {
    (void)state;
    flip(write_product());
    tw_network *n = opened(package, "cpu");
    const tw_tensor x = {.type = "f16", .rank = 2, .dims = {ROWS, DEPTH}};
    tw_diag d = {0};
    assert_int_equal(tw_network_prepare(n, &x, &d), TW_ERR_FORMAT);
    assert_string_equal(d.message, "a constant does not have its checksum");
    tw_network_close(n);
}

/* A package of a damaged one would have sums of what is there. */
static void damage_is_not_built_upon(void **state) {
    (void)state;
    tw_diag d = {0};
    succeed(build("cpu", NULL, &(tw_package_options){.packed = true}, &d), &d);
    flip(find_places().b); /* A processor does not read it. */
    tw_network *n = opened(package, "cpu");
    succeed(prepare(n, 2, 5, &d), &d);
    assert_int_equal(tw_network_save(n, package, &d), TW_ERR_FORMAT);
    assert_string_equal(d.message, "a constant does not have its checksum");
    tw_network_close(n);
}

/* Nodes computed one by one read what panels stand for. */
static void damage_is_no_difference(void **state) {
    (void)state;
    tw_diag d = {0};
    tw_network_verdict v;
    succeed(build("cpu", NULL, &(tw_package_options){.packed = true}, &d), &d);
    flip(find_places().b);
    tw_network *n = opened(package, "cpu");
    agrees(n);
    assert_int_equal(tw_network_check(n, &v, NULL, 0, &d), TW_ERR_FORMAT);
    tw_network_close(n);
}

/* ---- the model */

static void a_model_makes_other_programs(void **state) {
    (void)state;
    static const char *const devices[] = {"plain", "cpu", "emulator"}, *const types[] = {NULL, "f16"};
    tw_diag d = {0};
    for (int t = 0; t < 2; t++) {
        const tw_network_options how = {.device = "plain", .dtype = types[t]};
        tw_network *n;
        succeed(tw_network_open(&n, ENCODER "model.onnx", &how, &d), &d);
        succeed(prepare(n, 1, 3, &d), &d);
        succeed(tw_network_save_with(n, package, &(tw_package_options){.model = true}, &d), &d);
        tw_network_close(n);
        for (int i = 0; i < 3; i++) {
            n = opened(package, devices[i]);
            agrees(n);
            succeed(prepare(n, 1, 3, &d), &d);
            says(n, "1  model for other extents (");
            tw_network_close(n);
        }
    }
    /* A package of a package keeps it, or has none to keep. */
    tw_network *n = opened(package, "plain");
    succeed(prepare(n, 3, 4, &d), &d);
    succeed(tw_network_save_with(n, package, &(tw_package_options){.model = true}, &d), &d);
    tw_network_close(n);
    n = opened(package, "cpu");
    agrees(n);
    succeed(tw_network_save(n, package, &d), &d);
    tw_network_close(n);
    n = opened(package, "cpu");
    assert_int_equal(prepare(n, 3, 4, &d), TW_ERR_UNSUPPORTED);
    agrees(n);
    assert_int_equal(tw_network_save_with(n, package, &(tw_package_options){.model = true}, &d), TW_ERR_USAGE);
    tw_network_close(n);
}

/* Changes a byte of each constant in turn. What a program is made of is checked before. */
static void damage_of_the_model_is_found(void **state) {
    (void)state;
    tw_diag d = {0};
    tw_package *p;
    succeed(build("plain", "f16", &(tw_package_options){.model = true}, &d), &d);
    succeed(tw_package_open(&p, package, &d), &d);
    int64_t at = -1;
    for (int i = 0; i < p->model->n_values; i++) {
        const tw_array *a = p->model->values[i].content;
        if (a && a->type == TW_E_f32 && a->rank == 2) at = place_of(p, a->data);
    }
    tw_package_close(p);
    assert_true(at > 0);
    flip(at);
    damaged("cpu", false);
    tw_network *n = opened(package, "cpu");
    assert_int_equal(prepare(n, 3, 4, &d), TW_ERR_FORMAT);
    tw_network_close(n);
}

/* ---- writing */

static int files(void) {
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) n += !strncmp(e->d_name, "m.tw", 4);
    closedir(d);
    return n;
}

/* A process that dies while it writes leaves the file that was there, and none beside it. */
static void a_kill_leaves_no_half_file(void **state) {
    (void)state;
    tw_diag d = {0};
    unlink(package);
    for (int there = 0; there < 2; there++) {
        const pid_t child = fork();
        if (!child) {
            const struct rlimit none = {0}, few = {.rlim_cur = 5000, .rlim_max = 5000};
            setrlimit(RLIMIT_CORE, &none);
            setrlimit(RLIMIT_FSIZE, &few);
            signal(SIGXFSZ, SIG_DFL);
            build("plain", NULL, NULL, &d);
            _exit(3);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
        assert_int_equal(files(), there);
        if (there) break;
        succeed(build("plain", NULL, NULL, &d), &d);
    }
    tw_network *n = opened(package, "cpu");
    agrees(n);
    tw_network_close(n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(machine_code_is_taken),
                                       cmocka_unit_test(what_is_refused_is_compiled),
                                       cmocka_unit_test(code_for_others_is_left),
                                       cmocka_unit_test(damaged_code_is_found),
                                       cmocka_unit_test(a_target_needs_no_gpu),
                                       cmocka_unit_test(packed_constants_are_taken),
                                       cmocka_unit_test(damage_is_found_where_it_is_read),
                                       cmocka_unit_test(damage_of_what_is_copied_is_found),
                                       cmocka_unit_test(damage_is_not_built_upon),
                                       cmocka_unit_test(damage_is_no_difference),
                                       cmocka_unit_test(a_model_makes_other_programs),
                                       cmocka_unit_test(damage_of_the_model_is_found),
                                       cmocka_unit_test(a_kill_leaves_no_half_file)};
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    unsetenv("TILEWRIGHT_PTXAS");
    folder = test_folder_make();
    snprintf(package, sizeof package, "%s/m.tw", folder);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_folder_remove(folder);
    return failed;
}
