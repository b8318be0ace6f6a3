/* SPDX-License-Identifier: Apache-2.0 */
/* Models with If and with functions of their own. onnxruntime made the cases. */
#include "base/diag.h"
#include "graph/check.h"
#include "graph/graft.h"
#include "graph/graph.h"
#include "graph/inputs.h"
#include "graph/passes/passes.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "support/graphs.h"
#include "support/support.h"
#include "tilewright/graph.h"

#include <string.h>

static tw_graph *open(const char *name, tw_arena *arena, tw_npz_entry **entries, int *n) {
    tw_graph *g;
    tw_diag d = {0};
    tw_graph_verdict v;
    char *path = tw_arena_printf(arena, TEST_DATA "/onnx/%s/model.onnx", name),
         *golden = tw_arena_printf(arena, TEST_DATA "/onnx/%s/case.npz", name);
    if (tw_graph_open(&g, path, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_graph_verify(g, golden, &v, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(v.outputs, g->n_outputs);
    if (tw_graph_check(g, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_npz_open(arena, golden, entries, n, &d), TW_OK);
    return g;
}

/* Each branch is taken, at build time or as the graph runs, with the same result. */
static void branches_are_taken(void **state) {
    (void)state;
    tw_arena arena = {0};
    tw_npz_entry *entries;
    int n;
    tw_graph *g = open("branches", &arena, &entries, &n);
    const tw_array *given[3], *in[3];
    tw_graph_pick(g, entries, n, given);
    for (int i = 0; i < 8; i++) {
        tw_array x = *given[0], up = *given[1];
        const uint8_t truth = i & 1;
        tw_graph *c, *whole;
        tw_diag d = {0};
        x.dims[0] = i & 2 ? 5 : 2;
        up.data = &truth;
        in[0] = &x;
        in[1] = &up;
        in[2] = given[2];
        const bool known[] = {false, true, i & 4}, all[] = {true, true, true};
        if (tw_graph_specialize_known(&c, g, in, known, &d) != TW_OK) fail_msg("%s", d.message);
        if (tw_graph_check(c, &d) != TW_OK) fail_msg("%s", d.message);
        for (int j = 0; j < c->n_nodes; j++) assert_string_not_equal(c->nodes[j].op, "If");
        assert_int_equal(c->values[c->outputs[0]].dims[0], 5);
        test_same_outputs(g, c, in, 0);
        if (tw_graph_simplify(c, &d) != TW_OK) fail_msg("%s", d.message);
        test_same_outputs(g, c, in, 0);
        if (tw_graph_specialize_known(&whole, g, in, all, &d) != TW_OK) fail_msg("%s", d.message);
        assert_int_equal(whole->n_nodes, 0);
        test_same_outputs(c, whole, in, 0);
        tw_graph_free(whole);
        tw_graph_free(c);
    }
    tw_graph *c;
    tw_diag d = {0};
    assert_int_equal(tw_graph_specialize(&c, g, given, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "If: extents depend on the content of operand 0"));
    tw_graph_free(g);
    tw_arena_free(&arena);
}

/* A node without the graphs that its name promises. */
static void an_if_needs_its_branches(void **state) {
    (void)state;
    tw_graph *c, *g = test_graph("graph g @20\n input %c: bool[]\n %y = If(%c)\n output %y\n");
    const uint8_t truth = 1;
    const tw_array condition = {.type = TW_E_bool, .data = &truth}, *in[] = {&condition};
    tw_arena arena = {0};
    tw_array out;
    tw_diag d = {0};
    assert_int_equal(tw_graph_run(g, in, &arena, &out, &d), TW_ERR_FORMAT);
    assert_non_null(strstr(d.message, "has not the branches that its operands are for"));
    assert_int_equal(tw_graph_specialize(&c, g, in, &d), TW_ERR_FORMAT);
    tw_graph_free(g);
    tw_arena_free(&arena);
}

static void functions_are_put_in(void **state) {
    (void)state;
    tw_arena arena = {0};
    tw_npz_entry *entries;
    int n;
    tw_diag d = {0};
    tw_graph *g = open("functions", &arena, &entries, &n), *c = test_concrete(g, "n=3");
    const tw_array *in[2];
    tw_graph_pick(g, entries, n, in);
    if (tw_graph_simplify(c, &d) != TW_OK) fail_msg("%s", d.message);
    test_same_outputs(g, c, in, 0);
    int products = 0;
    for (int i = 0; i < c->n_nodes; i++) {
        assert_string_not_equal(c->nodes[i].op, "Identity");
        products += !strcmp(c->nodes[i].op, "Mul");
    }
    assert_int_equal(products, 5);
    tw_graph_free(c);
    tw_graph_free(g);
    tw_arena_free(&arena);
}

/* A graph that is put into another may give its inputs and its constants, and one value twice. */
static void any_output_is_put(void **state) {
    (void)state;
    tw_diag d = {0};
    tw_graph *to = test_graph("graph g @20\n input %x: f32[2]\n %a: f32[2] = Neg(%x)\n output %a\n"),
             *from =
                 test_graph("graph h @20\n input %p: f32[2]\n constant %c: f32[2] {1.0, 2.0}\n %q: f32[2] = Exp(%p)\n"
                            " %r: f32[2] = Add(%q, %c)\n output %p\n output %q\n output %q\n output %c\n"
                            " output %r\n");
    const int in = to->outputs[0];
    const void *const lent[] = {NULL};
    const tw_array *constants[5];
    int out[5];
    for (int i = 0; i < 5; i++) {
        out[i] = tw_graph_add_value(to, (const char *[]){"y0", "y1", "y2", "y3", "y4"}[i]);
        to->values[out[i]] = from->values[from->outputs[i]];
        to->values[out[i]].name = (const char *[]){"y0", "y1", "y2", "y3", "y4"}[i];
        to->values[out[i]].content = NULL;
    }
    assert_int_equal(tw_graph_graft(to, from, &in, lent, out, 5, constants, &d), TW_OK);
    tw_graph_set_content(to, out[3], constants[3]);
    to->outputs = out;
    to->n_outputs = 5;
    assert_int_equal(tw_graph_compact(to, &d), TW_OK);
    if (tw_graph_check(to, &d) != TW_OK) fail_msg("%s", d.message);
    test_prints(to, "graph g @20\n  input %x: f32[2]\n  constant %y3: f32[2] {1.0, 2.0}\n"
                    "  constant %c~0: f32[2] {1.0, 2.0}\n  %a: f32[2] = Neg(%x)\n  %y1: f32[2] = Exp(%a)\n"
                    "  %y4: f32[2] = Add(%y1, %c~0)\n  %y0: f32[2] = Identity@13(%a)\n"
                    "  %y2: f32[2] = Identity@13(%y1)\n  output %y0\n  output %y1\n  output %y2\n  output %y3\n"
                    "  output %y4\n");
    tw_graph_free(to);
    tw_graph_free(from);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_are_taken),
        cmocka_unit_test(an_if_needs_its_branches),
        cmocka_unit_test(functions_are_put_in),
        cmocka_unit_test(any_output_is_put),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
