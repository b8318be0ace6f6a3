/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, printing and comparing a graph with the n-th allocation failing, for every n. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "graph/contents.h"
#include "graph/decoder.h"
#include "graph/passes/passes.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "graph/text.h"
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
    tw_graph *g;
    tw_diag diag = {0};
    const tw_status s = tw_graph_open(&g, context, &diag);
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

/* Reads a graph, makes it concrete, simplifies it, and converts it. */
static int attempt_concrete(void *context) {
    tw_graph *g = NULL, *c = NULL;
    tw_contents contents = {0};
    tw_diag diag = {0};
    const tw_array x = {.type = TW_E_f32, .rank = 2, .dims = {2, 3}}, *in[] = {&x};
    tw_status s = tw_graph_parse(&g, context, strlen(context), "text", &diag);
    if (s == TW_OK) s = tw_graph_resolve(g, "text", &diag);
    if (s == TW_OK) s = tw_graph_specialize(&c, g, in, &diag);
    tw_graph_free(g);
    if (s == TW_OK) s = tw_graph_simplify(c, &diag);
    if (s == TW_OK) s = tw_graph_convert(c, TW_E_f16, &diag);
    if (s == TW_OK) s = tw_contents_share(&contents, c, &diag);
    tw_graph_free(c);
    tw_contents_free(&contents);
    return result(s, &diag);
}

/* Makes a graph with branches concrete. */
static int attempt_branches(void *context) {
    tw_graph *c = NULL;
    tw_diag diag = {0};
    const uint8_t up = 1;
    const tw_array x = {.type = TW_E_f32, .rank = 2, .dims = {5, 3}}, w = {.type = TW_E_f32, .rank = 1, .dims = {3}},
                   known = {.type = TW_E_bool, .data = &up};
    const tw_array *in[] = {&x, &known, &w};
    const tw_status s = tw_graph_specialize_known(&c, context, in, (const bool[]){false, true, false}, &diag);
    if ((s == TW_OK) != (c != NULL)) return 2;
    tw_graph_free(c);
    return result(s, &diag);
}

static void test_branches(void **state) {
    (void)state;
    tw_graph *g;
    tw_diag diag = {0};
    assert_int_equal(tw_graph_open(&g, TEST_DATA "/onnx/branches/model.onnx", &diag), TW_OK);
    alloc_fail_exhaust(attempt_branches, g);
    tw_graph_close(g);
}

static void test_concrete(void **state) {
    (void)state;
    static char text[] = "graph g @20\n input %x: f32[batch, 3]\n constant %a: i64[1] {-1}\n"
                         " constant %w: f32[3] {1.0, 2.0, 4.0}\n %s = Shape(%x)\n %p = Reshape(%x, %a)\n"
                         " %q = Reshape(%p, %s)\n %r = Add(%q, %w)\n %t = Add(%x, %w)\n %u = Transpose(%r)\n"
                         " %v = Transpose(%u)\n %y = Sub(%v, %t) texts=(\"a\", \"b\")\n %z = Unsqueeze(%y, %a)\n"
                         " output %z\n";
    alloc_fail_exhaust(attempt_concrete, text);
}

/* Opens a model, makes it concrete, fuses it, and shows what was found. */
static int attempt_fuse(void *context) {
    (void)context;
    tw_graph *g = NULL, *c = NULL;
    tw_fusions found = {0};
    tw_buf out = {0};
    tw_diag diag = {0};
    const tw_array x = {.type = TW_E_f32, .rank = 3, .dims = {2, 5, 16}},
                   m = {.type = TW_E_i64, .rank = 2, .dims = {2, 5}};
    const tw_array *in[] = {&x, &m};
    tw_status s = tw_graph_open(&g, model, &diag);
    if (s == TW_OK) s = tw_graph_specialize(&c, g, in, &diag);
    tw_graph_free(g);
    if (s == TW_OK) s = tw_graph_fuse(c, &found, &diag);
    if (s == TW_OK) {
        tw_fusions_print(&found, true, &out);
        tw_graph_dot(c, &out);
    }
    const bool shown = s == TW_OK && !out.failed;
    tw_buf_free(&out);
    tw_fusions_free(&found);
    tw_graph_free(c);
    return s == TW_OK && !shown ? 1 : result(s, &diag);
}

static void test_fuse(void **state) {
    (void)state;
    alloc_fail_exhaust(attempt_fuse, NULL);
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
    static char encoder[] = TEST_DATA "/onnx/encoder/model.onnx", functions[] = TEST_DATA "/onnx/functions/model.onnx",
                branches[] = TEST_DATA "/onnx/branches/model.onnx";
    alloc_fail_exhaust(attempt_open, encoder);
    alloc_fail_exhaust(attempt_open, functions);
    alloc_fail_exhaust(attempt_open, branches);
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
        cmocka_unit_test(test_open),     cmocka_unit_test(test_run),      cmocka_unit_test(test_decoder),
        cmocka_unit_test(test_concrete), cmocka_unit_test(test_branches), cmocka_unit_test(test_fuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
