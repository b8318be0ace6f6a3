/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing a graph with a file of NumPy's. The graph gives back what it is given. */
#include "base/diag.h"
#include "graph/graph.h"
#include "graph/numpy.h"
#include "graph/run.h"
#include "support/support.h"
#include "tilewright/graph.h"

#include <minizip/zip.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    tw_graph graph;
    tw_node node;
    tw_value values[2];
    int in[1], out[1];
    char *folder, path[1024];
    zipFile zip;
    tw_diag diag;
} fixture;

static void begin(fixture *f) {
    *f = (fixture){.in = {0}, .out = {1}};
    f->values[0] = (tw_value){.name = "x", .rank = TW_RANK_UNKNOWN, .producer = -1};
    f->values[1] = (tw_value){.name = "y", .rank = TW_RANK_UNKNOWN, .producer = 0};
    f->node = (tw_node){
        .op = "Identity", .domain = "", .name = "", .version = 20, .in = f->in, .out = f->out, .n_in = 1, .n_out = 1};
    f->graph = (tw_graph){.values = f->values,
                          .n_values = 2,
                          .nodes = &f->node,
                          .n_nodes = 1,
                          .inputs = f->in,
                          .n_inputs = 1,
                          .outputs = f->out,
                          .n_outputs = 1};
    assert_int_equal(tw_graph_resolve(&f->graph, "m", &f->diag), TW_OK);
    f->folder = test_folder_make();
    snprintf(f->path, sizeof f->path, "%s/case.npz", f->folder);
    f->zip = zipOpen(f->path, APPEND_STATUS_CREATE);
    assert_non_null(f->zip);
}

/* Adds an array of one dimension, whose elements are of 8 bytes. */
static void add(fixture *f, const char *name, const char *descr, const void *data, int n) {
    unsigned char npy[128] = "\x93NUMPY\x01";
    char file[700];
    const int length = snprintf((char *)npy + 10, sizeof npy - 10,
                                "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }\n", descr, n);
    npy[8] = (unsigned char)length;
    memcpy(npy + 10 + length, data, (size_t)n * 8);
    snprintf(file, sizeof file, "%s.npy", name);
    assert_int_equal(zipOpenNewFileInZip(f->zip, file, NULL, NULL, 0, NULL, 0, NULL, 0, 0), ZIP_OK);
    assert_int_equal(zipWriteInFileInZip(f->zip, npy, (unsigned)(10 + length + n * 8)), ZIP_OK);
    assert_int_equal(zipCloseFileInZip(f->zip), ZIP_OK);
}

/* Compares, and checks what is said. */
static void says(fixture *f, tw_status want, const char *words) {
    tw_graph_verdict v;
    zipClose(f->zip, NULL);
    const tw_status st = tw_graph_verify(&f->graph, f->path, &v, &f->diag);
    if (st != want) fail_msg("%s", f->diag.message);
    if (st != TW_OK && !strstr(f->diag.message, words)) fail_msg("\"%s\" lacks \"%s\"", f->diag.message, words);
    if (st == TW_ERR_MISMATCH) assert_string_equal(f->diag.path, f->path);
    tw_arena_free(&f->graph.arena);
    test_folder_remove(f->folder);
}

static void integers_compare_exactly(void **state) {
    (void)state;
    const int64_t ours[] = {1, INT64_MAX}, theirs[] = {1, INT64_MAX - 1};
    fixture f;
    begin(&f);
    add(&f, "in_x", "<i8", ours, 2);
    add(&f, "out_y", "<i8", ours, 2);
    says(&f, TW_OK, "");
    begin(&f);
    add(&f, "in_x", "<i8", ours, 2);
    add(&f, "out_0", "<i8", theirs, 2);
    says(&f, TW_ERR_MISMATCH, "element 1");
}

/* The scale of what may differ stays finite, though squares are not. */
static void large_reals_compare(void **state) {
    (void)state;
    const double ours[] = {1e200, 2e200}, theirs[] = {1e200, 3e200};
    fixture f;
    begin(&f);
    add(&f, "in_x", "<f8", ours, 2);
    add(&f, "out_y", "<f8", theirs, 2);
    says(&f, TW_ERR_MISMATCH, "element 1 is 2e+200 here and 3e+200 in the file");
}

static void shapes_compare(void **state) {
    (void)state;
    const double x[] = {1, 2, 3};
    fixture f;
    begin(&f);
    add(&f, "in_x", "<f8", x, 2);
    add(&f, "out_y", "<f8", x, 3);
    says(&f, TW_ERR_MISMATCH, "output \"y\" is f64[2] here and f64[3] in the file");
}

static void every_array_is_compared(void **state) {
    (void)state;
    const double x[] = {1, 2};
    fixture f;
    begin(&f);
    add(&f, "in_x", "<f8", x, 2);
    says(&f, TW_ERR_USAGE, "no array of an output");
    begin(&f);
    add(&f, "in_x", "<f8", x, 2);
    add(&f, "out_y", "<f8", x, 2);
    add(&f, "out_z", "<f8", x, 2);
    says(&f, TW_ERR_USAGE, "out_z is no output of the model");
    begin(&f);
    add(&f, "out_y", "<f8", x, 2);
    says(&f, TW_ERR_USAGE, "there is no array in_x");
}

static void long_names_end(void **state) {
    (void)state;
    const double x[] = {1, 2};
    char name[600];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    fixture f;
    begin(&f);
    add(&f, "in_x", "<f8", x, 2);
    add(&f, "out_y", "<f8", x, 2);
    add(&f, name, "<f8", x, 2);
    says(&f, TW_OK, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_compare_exactly), cmocka_unit_test(large_reals_compare),
        cmocka_unit_test(shapes_compare),           cmocka_unit_test(every_array_is_compared),
        cmocka_unit_test(long_names_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
