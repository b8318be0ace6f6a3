/* SPDX-License-Identifier: Apache-2.0 */
/* Contents that graphs share. */
#include "base/diag.h"
#include "graph/contents.h"
#include "graph/passes/passes.h"
#include "support/graphs.h"
#include "support/support.h"
#include "tilewright/graph.h"

#include <string.h>

static const tw_value *value(const tw_graph *g, const char *name) {
    for (int i = 0; i < g->n_values; i++)
        if (!strcmp(g->values[i].name, name)) return &g->values[i];
    fail_msg("there is no %s", name);
    return NULL;
}

static void equal_contents_are_one(void **state) {
    (void)state;
    static const char text[] = "graph g @20\n input %x: f32[2]\n constant %a: f32[2] {1.0, 2.0}\n"
                               " constant %b: f32[2] {1.0, 2.0}\n constant %c: f32[2] {1.0, 3.0}\n"
                               " constant %i: i64[1] {1}\n constant %long: f32[5000] random 1\n"
                               " constant %other: f32[5000] random 2\n %y = Add(%x, %a)\n output %y\n";
    tw_contents c = {0};
    tw_diag d = {0};
    tw_graph *g = test_graph(text), *h = test_graph(text);
    assert_int_equal(tw_contents_share(&c, g, &d), TW_OK);
    assert_int_equal(tw_contents_share(&c, h, &d), TW_OK);
    assert_int_equal(c.n, 5);
    assert_int_equal(c.bytes, 8 + 8 + 8 + 2 * 20000);
    assert_ptr_equal(value(g, "a")->content->data, value(g, "b")->content->data);
    assert_ptr_not_equal(value(g, "a")->content->data, value(g, "c")->content->data);
    assert_ptr_not_equal(value(g, "long")->content->data, value(g, "other")->content->data);
    for (int i = 0; i < g->n_values; i++)
        if (g->values[i].content) assert_ptr_equal(g->values[i].content->data, h->values[i].content->data);
    assert_true(tw_array_real(value(h, "c")->content, 1) == 3);
    tw_graph_free(g);
    assert_true(tw_array_real(value(h, "b")->content, 1) == 2);
    tw_graph_free(h);
    tw_contents_free(&c);
    assert_int_equal(c.n, 0);
}

/* Of a model that is converted for several extents, weights are there once, and those of its file stay there. */
static void extents_share_weights(void **state) {
    (void)state;
    tw_contents c = {0};
    tw_diag d = {0};
    tw_graph *g, *made[4];
    assert_int_equal(tw_graph_open(&g, TEST_DATA "/onnx/encoder/model.onnx", &d), TW_OK);
    int64_t bytes = 0;
    for (int i = 0; i < 4; i++) {
        tw_graph *plain = made[i] = test_concrete(g, i & 1 ? "batch=2 length=6" : "batch=1 length=9");
        if (i & 2) assert_int_equal(tw_graph_convert(made[i], TW_E_f16, &d), TW_OK);
        const int blocks = plain->n_blocks;
        assert_int_equal(tw_contents_share(&c, made[i], &d), TW_OK);
        assert_int_equal(made[i]->n_blocks, 0);
        if (i == 1) assert_true(c.bytes < 1000);
        if (i == 2) {
            bytes = c.bytes;
            assert_true(blocks > 0 && bytes > 1000);
        }
    }
    assert_int_equal(c.bytes, bytes);
    for (int i = 0; i < 4; i++) test_same_on_drawn(made[i & 1], made[i], i & 2 ? 1e-2 : 0);
    for (int i = 0; i < 4; i++) tw_graph_free(made[i]);
    tw_graph_free(g);
    tw_contents_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_contents_are_one),
        cmocka_unit_test(extents_share_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
