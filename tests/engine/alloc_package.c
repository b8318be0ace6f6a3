/* SPDX-License-Identifier: Apache-2.0 */
/* Building, opening and running packages with the n-th allocation failing, for every n. */
#include "support/alloc_fail.h"
#include "support/support.h"
#include "tilewright/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char model[] = TEST_DATA "/onnx/encoder/model.onnx", golden[] = TEST_DATA "/onnx/encoder/case.npz";
static char package[1024];

/* Out of memory, and said so; a map that fails is an error of the file, in the system's words. */
static int result(tw_status s, const tw_diag *diag) {
    if (s == TW_OK) return 0;
    if (s == TW_ERR_IO) return strstr(diag->message, "cannot ") ? 1 : 3;
    return s == TW_ERR_MEMORY && diag->message[0] ? 1 : 4;
}

static tw_status prepare(tw_network *n, int batch, tw_diag *diag) {
    tw_tensors *in;
    tw_status s = tw_tensors_new(&in, n, diag);
    if (s == TW_OK) s = tw_tensors_extent(in, "batch", batch, diag);
    if (s == TW_OK) s = tw_tensors_extent(in, "length", 5, diag);
    if (s == TW_OK) s = tw_tensors_complete(in, true, diag);
    if (s == TW_OK) s = tw_network_prepare(n, tw_tensors_list(in), diag);
    tw_tensors_free(in);
    return s;
}

static int attempt_build(void *context) {
    const tw_network_options o = {.device = "plain", .dtype = context};
    tw_network *n;
    tw_diag diag = {0};
    tw_status s = tw_network_open(&n, model, &o, &diag);
    if ((s == TW_OK) != (n != NULL)) return 2;
    if (s == TW_OK) s = prepare(n, 2, &diag);
    if (s == TW_OK) s = tw_network_save(n, package, &diag);
    tw_network_close(n);
    return result(s, &diag);
}

static int attempt_open(void *context) {
    const tw_network_options o = {.device = context};
    tw_network *n;
    tw_network_verdict v = {.agrees = true};
    tw_diag diag = {0};
    tw_status s = tw_network_open(&n, package, &o, &diag);
    if ((s == TW_OK) != (n != NULL)) return 2;
    if (s == TW_OK) s = tw_network_verify(n, golden, &v, NULL, 0, &diag);
    tw_network_close(n);
    return v.agrees || s != TW_OK ? result(s, &diag) : 5;
}

static void building(void **state) {
    (void)state;
    alloc_fail_exhaust(attempt_build, "f32");
    alloc_fail_exhaust(attempt_build, "f16");
}

/* Makes a package of a model, or of a package that has it, with panels and the model. */
static int attempt_parts(void *context) {
    static const tw_package_options all = {.packed = true, .model = true};
    const tw_network_options o = {.device = "cpu", .threads = 1};
    tw_network *n;
    tw_diag diag = {0};
    tw_status s = tw_network_open(&n, context, &o, &diag);
    if ((s == TW_OK) != (n != NULL)) return 2;
    if (s == TW_OK) s = prepare(n, 3, &diag);
    if (s == TW_OK) s = tw_network_save_with(n, package, &all, &diag);
    tw_network_close(n);
    return result(s, &diag);
}

static void parts(void **state) {
    (void)state;
    char of_model[sizeof model];
    memcpy(of_model, model, sizeof model);
    assert_int_equal(attempt_parts(of_model), 0);
    alloc_fail_exhaust(attempt_parts, package);
}

static void opening(void **state) {
    (void)state;
    assert_int_equal(attempt_build("f32"), 0);
    alloc_fail_exhaust(attempt_open, "plain");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(building), cmocka_unit_test(opening), cmocka_unit_test(parts)};
    char *folder = test_folder_make();
    snprintf(package, sizeof package, "%s/m.tw", folder);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_folder_remove(folder);
    return failed;
}
