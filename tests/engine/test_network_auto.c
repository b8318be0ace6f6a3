/* SPDX-License-Identifier: Apache-2.0 */
/* Networks that begin on a GPU, which lacks a kernel, and go on with a processor. */
#define _GNU_SOURCE
#include "support/support.h"

#include "device/fake_cuda.h"
#include "support/wire.h"
#include "tilewright/graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Adds an input or output of three f64. */
static void info(tw_buf *graph, int field, const char *name) {
    tw_buf v = {0}, type = {0}, tensor = {0}, dims = {0}, dim = {0};
    wire_number(&dim, 1, 3);
    wire_message(&dims, 1, &dim);
    wire_number(&tensor, 1, 11);
    wire_message(&tensor, 2, &dims);
    wire_message(&type, 1, &tensor);
    wire_text(&v, 1, name);
    wire_message(&v, 2, &type);
    wire_message(graph, field, &v);
}

/* Writes a model of f64 with a function that no GPU has a kernel for. */
static void write_model(const char *folder, const char *name) {
    tw_buf model = {0}, set = {0}, graph = {0}, node = {0};
    wire_text(&node, 1, "x");
    wire_text(&node, 2, "y");
    wire_text(&node, 4, "Tanh");
    wire_message(&graph, 1, &node);
    info(&graph, 11, "x");
    info(&graph, 12, "y");
    wire_number(&model, 1, 8);
    wire_message(&model, 7, &graph);
    wire_number(&set, 2, 17);
    wire_message(&model, 8, &set);
    test_write(folder, name, model.data, model.size);
    tw_buf_free(&model);
}

static void processors_compute_what_gpus_do_not(void **state) {
    (void)state;
    static const int threads[] = {1, 1 << 20 /* So many there cannot be. */};
    const double x[] = {-1, 2, -3};
    const tw_tensor in = {.type = "f64", .rank = 1, .dims = {3}, .data = x};
    char *folder = test_folder_make(), path[1024];
    write_model(folder, "m.onnx");
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    for (int i = 0; i < 2; i++) {
        const tw_network_options o = {.threads = threads[i]};
        tw_network *n;
        tw_network_info about;
        tw_tensor out;
        tw_diag d = {0};
        assert_int_equal(tw_network_open(&n, path, &o, &d), TW_OK);
        tw_network_describe(n, &about);
        assert_string_equal(about.device, "cuda");
        /* Whoever tries again is told the same again. */
        for (int k = 0; k < 2; k++) assert_int_equal(tw_network_run(n, &in, &out, &d), i ? TW_ERR_USAGE : TW_OK);
        tw_network_describe(n, &about);
        if (!i) assert_string_equal(about.device, "cpu");
        if (!i) assert_true(fabs(tw_tensor_real(&out, 1) - tanh(2)) < 1e-12);
        tw_network_close(n);
        assert_int_equal(fake_cuda_alive(), 0);
    }
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(processors_compute_what_gpus_do_not)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
