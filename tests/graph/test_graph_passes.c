/* SPDX-License-Identifier: Apache-2.0 */
/* Passes: what they make of a graph, and that it still computes the same. */
#include "base/diag.h"
#include "graph/check.h"
#include "graph/passes/passes.h"
#include "graph/text.h"
#include "support/graphs.h"
#include "support/support.h"
#include "tilewright/graph.h"

#include <stdio.h>
#include <string.h>

/* Simplifies a graph, whose inputs have types, and compares the lines of its nodes and outputs. */
static void simplifies(const char *text, const char *want) {
    tw_diag diag = {0};
    tw_graph *g = test_graph(text), *before = test_concrete(g, ""), *after = test_concrete(g, "");
    tw_buf shown = {0}, lines = {0};
    if (tw_graph_simplify(after, &diag) != TW_OK) fail_msg("%s", diag.message);
    tw_graph_print(after, &shown);
    for (char *line = strtok(shown.data, "\n"); line; line = strtok(NULL, "\n"))
        if (strstr(line, " = ") || strstr(line, "  output")) tw_buf_printf(&lines, "%s\n", line + 2);
    assert_string_equal(lines.data ? lines.data : "", want);
    test_same_on_drawn(before, after, 0);
    tw_buf_free(&shown);
    tw_buf_free(&lines);
    tw_graph_free(g);
    tw_graph_free(before);
    tw_graph_free(after);
}

/* A graph of nodes between an input x: f32[2, 3] and an output z = Neg(y). */
static void around(const char *constants, const char *nodes, const char *want) {
    char text[2000], all[2000];
    snprintf(text, sizeof text,
             "graph g @20\n input %%x: f32[2, 3]\n input %%c: bool[2, 3]\n%s%s %%z = Neg(%%y)\n output %%z\n",
             constants, nodes);
    snprintf(all, sizeof all, "%soutput %%z\n", want);
    simplifies(text, all);
}

static void identities_go(void **state) {
    (void)state;
    static const char gone[] = "%z: f32[2, 3] = Neg(%x)\n";
    around("", " %y = Identity(%x)\n", gone);
    around("", " %y, %mask = Dropout(%x)\n", gone);
    around("", " %y = Cast(%x) to=1\n", gone);
    around("", " %y = CastLike(%x, %x)\n", gone);
    around("", " %y = Transpose(%x) perm={0, 1}\n", gone);
    around("", " %y = Concat(%x) axis=0\n", gone);
    around("", " %y = Split(%x) axis=0 num_outputs=1\n", gone);
    around("", " %y = Sum(%x)\n", gone);
    around(" constant %s: i64[2] {2, -1}\n", " %y = Reshape(%x, %s)\n", gone);
    around(" constant %s: i64[2] {1, 3}\n", " %y = Expand(%x, %s)\n", gone);
    around(" constant %s: i64[2] {1, 1}\n", " %y = Tile(%x, %s)\n", gone);
    around(" constant %a: i64[2] {0, 0}\n constant %b: i64[2] {9, 9}\n", " %y = Slice(%x, %a, %b)\n", gone);
    around(" constant %p: i64[4] {0, 0, 0, 0}\n", " %y = Pad(%x, %p)\n", gone);
    around(" constant %o: f32[3] {0.0, 0.0, 0.0}\n", " %y = Add(%o, %x)\n", gone);
    around(" constant %o: f32[] {0.0}\n", " %y = Sub(%x, %o)\n", gone);
    around(" constant %o: f32[1] {1.0}\n", " %y = Mul(%x, %o)\n", gone);
    around(" constant %o: f32[1] {1.0}\n", " %y = Div(%x, %o)\n", gone);
    around(" constant %o: f32[1] {1.0}\n", " %y = Pow(%x, %o)\n", gone);
    around(" constant %o: bool[1] {1}\n constant %q: f32[1] {7.0}\n", " %y = Where(%o, %x, %q)\n", gone);
    around(" constant %o: bool[1] {1}\n", " %d = And(%c, %o)\n %f = Cast(%d) to=1\n %y = Add(%f, %x)\n",
           "%f: f32[2, 3] = Cast(%c) to=1\n%y: f32[2, 3] = Add(%f, %x)\n%z: f32[2, 3] = Neg(%y)\n");
}

/* What looks like an identity, and is none. */
static void others_stay(void **state) {
    (void)state;
    around(" constant %a: i64[1] {-1}\n constant %b: i64[1] {-9}\n constant %i: i64[1] {0}\n",
           " %y = Slice(%x, %a, %b, %i, %a)\n", "%y: f32[2, 3] = Slice(%x, %a, %b, %i, %a)\n%z: f32[2, 3] = Neg(%y)\n");
    around(" constant %p: i64[4] {0, 1, 0, -1}\n", " %y = Pad(%x, %p)\n",
           "%y: f32[2, 3] = Pad(%x, %p)\n%z: f32[2, 3] = Neg(%y)\n");
    around(" constant %o: f32[1, 1, 1] {1.0}\n constant %s: i64[2] {2, 3}\n",
           " %m = Mul(%x, %o)\n %y = Reshape(%m, %s)\n",
           "%m: f32[1, 2, 3] = Mul(%x, %o)\n%y: f32[2, 3] = Reshape(%m, %s)\n%z: f32[2, 3] = Neg(%y)\n");
    around(" constant %o: f32[2, 1] {1.0, 2.0}\n", " %y = Div(%x, %o)\n",
           "%y: f32[2, 3] = Div(%x, %o)\n%z: f32[2, 3] = Neg(%y)\n");
    around(" constant %o: f32[1] {1.0}\n", " %y = Div(%o, %x)\n",
           "%y: f32[2, 3] = Div(%o, %x)\n%z: f32[2, 3] = Neg(%y)\n");
    around("", " %t = Transpose(%x)\n %y = Transpose(%t) perm={0, 1}\n",
           "%t: f32[3, 2] = Transpose(%x)\n%z: f32[3, 2] = Neg(%t)\n");
}

/* Before version 5, Reshape's extents are no operand. */
static void old_sets_have_no_reshape(void **state) {
    (void)state;
    simplifies("graph g @4\n input %x: f32[2, 3, 4]\n %y = Flatten(%x) axis=2\n output %y\n",
               "%y: f32[6, 4] = Flatten(%x) axis=2\noutput %y\n");
    simplifies("graph g @5\n input %x: f32[2, 3, 4]\n %y = Flatten(%x) axis=2\n output %y\n",
               "%y: f32[6, 4] = Reshape(%x, %constant~0)\noutput %y\n");
}

/* Outputs keep their names. */
static void outputs_keep_their_names(void **state) {
    (void)state;
    simplifies("graph g @20\n input %x: f32[2]\n %n = Neg(%x)\n %y = Identity(%n)\n output %y\n",
               "%y: f32[2] = Neg(%x)\noutput %y\n");
    simplifies("graph g @20\n input %x: f32[2]\n %y = Identity(%x)\n %z = Identity(%x)\n output %y\n output %z\n",
               "%y: f32[2] = Identity(%x)\n%z: f32[2] = Identity(%x)\noutput %y\noutput %z\n");
    simplifies("graph g @20\n input %x: f32[2]\n %y = Neg(%x)\n %z = Identity(%y)\n output %y\n output %z\n",
               "%y: f32[2] = Neg(%x)\n%z: f32[2] = Identity(%y)\noutput %y\noutput %z\n");
    simplifies("graph g @20\n input %x: f32[2]\n %n = Neg(%x)\n %y = Identity(%n)\n output %y\n output %y\n",
               "%y: f32[2] = Neg(%x)\noutput %y\noutput %y\n");
}

static void chains_merge(void **state) {
    (void)state;
    around(" constant %a: i64[1] {-1}\n constant %b: i64[2] {3, 2}\n",
           " %p = Reshape(%x, %a)\n %q = Unsqueeze(%p, %a)\n %y = Reshape(%q, %b)\n",
           "%y: f32[3, 2] = Reshape(%x, %b)\n%z: f32[3, 2] = Neg(%y)\n");
    around("", " %p = Transpose(%x)\n %y = Transpose(%p)\n", "%z: f32[2, 3] = Neg(%x)\n");
    simplifies("graph g @20\n input %x: f32[2, 3, 4]\n %p = Transpose(%x) perm={1, 2, 0}\n"
               " %y = Transpose(%p) perm={0, 2, 1}\n output %y\n",
               "%y: f32[3, 2, 4] = Transpose(%x) perm={1, 0, 2}\noutput %y\n");
    around("", " %p = Cast(%x) to=11\n %q = Cast(%p) to=10\n %y = Cast(%q) to=1\n",
           "%q: f16[2, 3] = Cast(%x) to=10\n%y: f32[2, 3] = Cast(%q) to=1\n%z: f32[2, 3] = Neg(%y)\n");
    around("", " %y = CastLike(%c, %x)\n", "%y: f32[2, 3] = Cast(%c) to=1\n%z: f32[2, 3] = Neg(%y)\n");
    simplifies("graph g @20\n input %x: f32[2]\n input %none: f32[0]\n %y = Concat(%none, %x, %none, %x) axis=0\n"
               " output %y\n",
               "%y: f32[4] = Concat(%x, %x) axis=0\noutput %y\n");
    simplifies("graph g @20\n input %x: f32[2]\n input %none: f32[0]\n %p = Concat(%none, %x) axis=0\n %y = Neg(%p)\n"
               " output %y\n",
               "%y: f32[2] = Neg(%x)\noutput %y\n");
}

/* Dimensions that are joined, moved and set apart. */
static void joined_moves_are_moves(void **state) {
    (void)state;
    simplifies("graph g @20\n input %x: f32[2, 4, 5, 3]\n constant %a: i64[3] {8, 5, 3}\n"
               " constant %b: i64[4] {2, 4, 3, 5}\n %p = Reshape(%x, %a)\n %q = Transpose(%p) perm={0, 2, 1}\n"
               " %y = Reshape(%q, %b)\n output %y\n",
               "%y: f32[2, 4, 3, 5] = Transpose(%x) perm={0, 1, 3, 2}\noutput %y\n");
    /* 4 and 5 do not stay together. */
    simplifies("graph g @20\n input %x: f32[2, 4, 5, 3]\n constant %a: i64[3] {8, 5, 3}\n"
               " constant %b: i64[4] {2, 12, 1, 5}\n %p = Reshape(%x, %a)\n %q = Transpose(%p) perm={0, 2, 1}\n"
               " %y = Reshape(%q, %b)\n output %y\n",
               "%p: f32[8, 5, 3] = Reshape(%x, %a)\n%q: f32[8, 3, 5] = Transpose(%p) perm={0, 2, 1}\n"
               "%y: f32[2, 12, 1, 5] = Reshape(%q, %b)\noutput %y\n");
    simplifies("graph g @20\n input %x: f32[1, 6, 1, 5, 1]\n constant %a: i64[2] {6, 5}\n"
               " constant %b: i64[5] {1, 5, 1, 1, 6}\n %p = Reshape(%x, %a)\n %q = Transpose(%p) perm={1, 0}\n"
               " %y = Reshape(%q, %b)\n output %y\n",
               "%y: f32[1, 5, 1, 1, 6] = Transpose(%x) perm={2, 3, 4, 0, 1}\noutput %y\n");
}

static void the_same_is_computed_once(void **state) {
    (void)state;
    around(" constant %a: f32[1] {2.0}\n constant %b: f32[1] {2.0}\n constant %i: f32[] {2.0}\n",
           " %p = Mul(%x, %a)\n %q = Mul(%x, %b)\n %r = Mul(%x, %i)\n %s = Add(%p, %q)\n %y = Add(%s, %r)\n",
           "%p: f32[2, 3] = Mul(%x, %a)\n%r: f32[2, 3] = Mul(%x, %i)\n%s: f32[2, 3] = Add(%p, %p)\n"
           "%y: f32[2, 3] = Add(%s, %r)\n%z: f32[2, 3] = Neg(%y)\n");
    around("", " %p = Softmax(%x) axis=0\n %q = Softmax(%x) axis=1\n %y = Add(%p, %q)\n",
           "%p: f32[2, 3] = Softmax(%x) axis=0\n%q: f32[2, 3] = Softmax(%x) axis=1\n"
           "%y: f32[2, 3] = Add(%p, %q)\n%z: f32[2, 3] = Neg(%y)\n");
    /* Constants that are longer than what is hashed of them. */
    simplifies("graph g @20\n input %x: f32[2000]\n constant %a: f32[2000] random 7\n constant %b: f32[2000] random 7\n"
               " %p = Add(%x, %a)\n %q = Add(%x, %b)\n %y = Mul(%p, %q)\n output %y\n",
               "%p: f32[2000] = Add(%x, %a)\n%y: f32[2000] = Mul(%p, %p)\noutput %y\n");
    simplifies("graph g @20\n input %x: f32[2000]\n constant %a: f32[2000] random 7\n constant %b: f32[2000] random 8\n"
               " %p = Add(%x, %a)\n %q = Add(%x, %b)\n %y = Mul(%p, %q)\n output %y\n",
               "%p: f32[2000] = Add(%x, %a)\n%q: f32[2000] = Add(%x, %b)\n%y: f32[2000] = Mul(%p, %q)\noutput %y\n");
}

static void a_model_stays_the_same(void **state) {
    (void)state;
    tw_diag diag = {0};
    tw_graph *g;
    assert_int_equal(tw_graph_open(&g, TEST_DATA "/onnx/encoder/model.onnx", &diag), TW_OK);
    tw_graph *before = test_concrete(g, "batch=2 seq=6"), *after = test_concrete(g, "batch=2 seq=6");
    if (tw_graph_simplify(after, &diag) != TW_OK) fail_msg("%s", diag.message);
    assert_true(after->n_nodes <= before->n_nodes);
    test_same_on_drawn(before, after, 0);
    tw_graph_free(g);
    tw_graph_free(before);
    tw_graph_free(after);
}

/* ---- what the verifier and the pipeline find */

static const char sound[] =
    "graph g @20\n input %x: f32[2]\n constant %c: f32[2] {1.0, 2.0}\n %y: f32[2] = Add(%x, %c)\n"
    " %z: f32[2] = Neg(%y)\n output %z\n";
enum { X, C, Y, Z };

static void swap_nodes(tw_graph *g) {
    const tw_node n = g->nodes[0];
    g->nodes[0] = g->nodes[1];
    g->nodes[1] = n;
    g->values[Y].producer = 1;
    g->values[Z].producer = 0;
}
static void operand_is_none(tw_graph *g) {
    g->nodes[0].in[0] = 17;
}
static void result_is_none(tw_graph *g) {
    g->nodes[1].out[0] = -2;
}
static void made_twice(tw_graph *g) {
    g->nodes[1].out[0] = Y;
}
static void other_producer(tw_graph *g) {
    g->values[Y].producer = 1;
}
static void other_extent(tw_graph *g) {
    g->values[Y].dims[0] = 3;
}
static void other_type(tw_graph *g) {
    g->values[Z].type = TW_E_f16;
}
static void other_content(tw_graph *g) {
    g->values[C].dims[0] = 1;
}
static void output_is_none(tw_graph *g) {
    g->outputs[0] = 4;
}
static void input_is_made(tw_graph *g) {
    g->inputs[0] = Y;
}
static void output_is_not_made(tw_graph *g) {
    g->n_nodes = 1;
}
static void name_is_taken(tw_graph *g) {
    g->values[Y].name = "x";
}
static void operands_do_not_fit(tw_graph *g) {
    g->values[X].dims[0] = 5;
}

static void the_verifier_finds(void **state) {
    (void)state;
    static const struct {
        void (*spoil)(tw_graph *g);
        const char *words;
    } cases[] = {
        {swap_nodes, "Neg: value 2 (\"y\") is an operand and not made before"},
        {operand_is_none, "Add: value 17 (\"\") is an operand and none"},
        {result_is_none, "Neg: value -2 (\"\") is a result and none"},
        {made_twice, "Neg: value 2 (\"y\") is made twice"},
        {other_producer, "has another producer"},
        {other_extent, "Add makes f32[2], and \"y\" is f32[3]"},
        {other_type, "Neg makes f32[2], and \"z\" is f16[2]"},
        {other_content, "(\"c\") differs from its content"},
        {output_is_none, "is an output and none"},
        {input_is_made, "is an input and made twice"},
        {output_is_not_made, "is an output and not made"},
        {name_is_taken, "has the name of another"},
        {operands_do_not_fit, "Add"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_diag diag = {0};
        tw_graph *g = test_graph(sound);
        assert_int_equal(tw_graph_check(g, &diag), TW_OK);
        cases[i].spoil(g);
        assert_int_equal(tw_graph_check(g, &diag), TW_ERR_REJECTED);
        if (!strstr(diag.message, cases[i].words)) fail_msg("case %zu: %s", i, diag.message);
        tw_graph_free(g);
    }
}

static tw_status spoils(tw_graph *g, bool *changed, tw_diag *diag) {
    (void)diag;
    other_extent(g);
    *changed = true;
    return TW_OK;
}

static tw_status renames(tw_graph *g, bool *changed, tw_diag *diag) {
    (void)diag;
    g->values[Z].name = "other";
    *changed = true;
    return TW_OK;
}

static void passes_are_checked(void **state) {
    (void)state;
    static const tw_graph_pass passes[] = {{"spoils", spoils, TW_KEEPS_ALL}, {"renames", renames, TW_KEEPS_INTERFACE}};
    for (int i = 0; i < 2; i++) {
        tw_diag diag = {0};
        tw_graph *g = test_graph(sound);
        assert_int_equal(tw_graph_passes(g, &passes[i], 1, &diag), TW_ERR_REJECTED);
        assert_non_null(strstr(diag.message, i ? "after pass renames: an input or output is another"
                                               : "after pass spoils: Add makes f32[2]"));
        tw_graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identities_go),
        cmocka_unit_test(others_stay),
        cmocka_unit_test(old_sets_have_no_reshape),
        cmocka_unit_test(outputs_keep_their_names),
        cmocka_unit_test(chains_merge),
        cmocka_unit_test(joined_moves_are_moves),
        cmocka_unit_test(the_same_is_computed_once),
        cmocka_unit_test(a_model_stays_the_same),
        cmocka_unit_test(the_verifier_finds),
        cmocka_unit_test(passes_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
