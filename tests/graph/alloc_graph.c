/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, printing and comparing a graph with the n-th allocation failing, for every n. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "graph/decoder.h"
#include "tilewright/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char model[] = TEST_DATA "/onnx/encoder/model.onnx", golden[] = TEST_DATA "/onnx/encoder/case.npz";

/* Out of memory, and said so; a map that fails is an error of the file, in the system's words. */
static int result(tw_status s, const tw_diag *diag) {
    if (s == TW_OK) return 0;
    if (s == TW_ERR_IO) return strstr(diag->message, "cannot map: ") ? 1 : 3;
    return s == TW_ERR_MEMORY && diag->message[0] ? 1 : 4;
}

static int attempt_open(void *context) {
    (void)context;
    tw_graph *g;
    tw_diag diag = {0};
    const tw_status s = tw_graph_open(&g, model, &diag);
    if ((s == TW_OK) != (g != NULL)) return 2;
    tw_graph_close(g);
    return result(s, &diag);
}

static int attempt_text(void *context) {
    char *text = tw_graph_text(context);
    const bool good = text != NULL;
    free(text);
    return good ? 0 : 1;
}

static int attempt_verify(void *context) {
    tw_graph_verdict v;
    tw_diag diag = {0};
    return result(tw_graph_verify(context, golden, &v, &diag), &diag);
}

static int attempt_decoder(void *context) {
    tw_graph *g = NULL;
    tw_diag diag = {0};
    const tw_status s = tw_graph_of_model(&g, context, &diag);
    if ((s == TW_OK) != (g != NULL)) return 2;
    tw_graph_free(g);
    return result(s, &diag);
}

static void test_decoder(void **state) {
    (void)state;
    tw_model *m;
    tw_diag diag = {0};
    assert_int_equal(tw_model_open(&m, TEST_DATA "/models/phi3-long", &diag), TW_OK);
    alloc_fail_exhaust(attempt_decoder, m);
    tw_model_close(m);
}

static void test_open(void **state) {
    (void)state;
    alloc_fail_exhaust(attempt_open, NULL);
}

static void test_run(void **state) {
    (void)state;
    tw_graph *g;
    tw_diag diag = {0};
    assert_int_equal(tw_graph_open(&g, model, &diag), TW_OK);
    alloc_fail_exhaust(attempt_text, g);
    alloc_fail_exhaust(attempt_verify, g);
    tw_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_decoder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
