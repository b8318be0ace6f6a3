/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as text: what is printed whole is read as the same. */
#include "base/diag.h"
#include "graph/text.h"
#include "support/support.h"
#include "tilewright/graph.h"

#include <stdlib.h>
#include <string.h>

static tw_graph *parse(const char *text, tw_diag *diag) {
    tw_graph *g;
    *diag = (tw_diag){0};
    const tw_status st = tw_graph_parse(&g, text, strlen(text), "t", diag);
    assert_int_equal(st == TW_OK, g != NULL);
    return g;
}

static const char all[] =
    "graph \"a name\" @20\n"
    "  input %x: f32[batch, 2, \"seq len\"]\n"
    "  input %\"y:0\": ?[?, 3]\n"
    "  input %z\n"
    "  constant %w: f32[2, 2] {0.5, -1.0, 3.00000001e+38, 1.40129846e-45}\n"
    "  constant %d: f64[3] {0.10000000000000001, inf, nan}\n"
    "  constant %many: i64[9] {1, 2, 3, 4, 5, 6, 7, 8, -9223372036854775808}\n"
    "  constant %top: u64[] {18446744073709551615}\n"
    "  constant %none: bool[0, 4] {}\n"
    "  %a: f32[batch, 2], _, %b = Split(%x) axis=-1 num_outputs=3 \"/first/Split\"\n"
    "  %c: f16 = MatMul@13(%a, %w)\n"
    "  %q = com.microsoft::Odd@7(_, %c, %\"y:0\") alpha=1.0 list={1, 2} none={} reals=f32[1]{0.25} t=i64[]{3} "
    "text=\"a \\\"b\\\" \\\\ \\0a\" texts=(\"x\", \"y z\")\n"
    "  %r = tilewright::Product(%q)\n"
    "  output %q\n"
    "  output %q\n";

static void texts_come_back(void **state) {
    (void)state;
    tw_diag diag;
    tw_graph *g = parse(all, &diag);
    if (!g) fail_msg("%d:%d: %s", diag.line, diag.column, diag.message);
    tw_buf shown = {0};
    tw_graph_print_whole(g, &shown);
    assert_string_equal(shown.data, all);
    assert_int_equal(g->nodes[0].version, 20);
    assert_int_equal(g->nodes[1].version, 13);
    assert_int_equal(g->nodes[3].version, 1);
    assert_int_equal(g->values[g->nodes[1].in[0]].producer, 0);
    assert_string_equal(tw_node_text(&g->nodes[2], "text", ""), "a \"b\" \\ \n");
    tw_buf_clear(&shown);
    tw_graph_print(g, &shown);
    assert_non_null(strstr(shown.data, "%many: i64[9] ...\n"));
    tw_buf_free(&shown);
    tw_graph_free(g);
}

static void a_model_comes_back(void **state) {
    (void)state;
    tw_graph *g, *h;
    tw_diag diag = {0};
    tw_buf once = {0}, twice = {0};
    assert_int_equal(tw_graph_open(&g, TEST_DATA "/onnx/encoder/model.onnx", &diag), TW_OK);
    tw_graph_print_whole(g, &once);
    h = parse(once.data, &diag);
    if (!h) fail_msg("%d:%d: %s", diag.line, diag.column, diag.message);
    tw_graph_print_whole(h, &twice);
    assert_string_equal(once.data, twice.data);
    tw_buf_free(&once);
    tw_buf_free(&twice);
    tw_graph_free(g);
    tw_graph_free(h);
}

/* Contents may be drawn, which tests of large ones want. */
static void contents_are_drawn(void **state) {
    (void)state;
    tw_diag diag;
    tw_graph *g =
        parse("graph g\n# made up\n\n constant %w: f16[40, 50] random 7\n constant %i: i64[4] random 1\n", &diag);
    assert_non_null(g);
    double least = 2, most = -2;
    for (int i = 0; i < 2000; i++) {
        const double x = tw_array_real(g->values[0].content, i);
        least = x < least ? x : least;
        most = x > most ? x : most;
    }
    assert_true(least >= -1 && least < -0.9 && most <= 1 && most > 0.9);
    for (int i = 0; i < 4; i++) assert_in_range(tw_array_integer(g->values[1].content, i), 0, 1);
    tw_graph_free(g);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
        int line, column;
    } cases[] = {
        {"", "expected 'graph', not the end", 1, 1},
        {"graph g @x\n", "expected an integer, not 'x'", 1, 10},
        {"graph g\ninput %x: f33\n", "expected a type, not 'f33'", 2, 11},
        {"graph g\ninput %x\ninput %x\n", "expected a name that is new", 3, 7},
        {"graph g\nconstant %x: f32\n", "expected a type with extents", 2, 17},
        {"graph g\nconstant %x: f32[2] {1}\n", "expected ',', not '}'", 2, 23},
        {"graph g\nconstant %x: f32[b] {1}\n", "expected as many elements", 2, 21},
        {"graph g\nconstant %x: f32[9999999999] {1}\n", "expected as many elements", 2, 30},
        {"graph g\nconstant %x: string[1] {1}\n", "expected a type that is computed with", 2, 24},
        {"graph g\nconstant %x: f32[1] {1a}\n", "expected a number, not '1a'", 2, 22},
        {"graph g\nconstant %x: i64[1] ...\n", "expected '{', not '...'", 2, 21},
        {"graph g\ninput %x: f32[1, 1, 1, 1, 1, 1, 1, 1, 1]\n", "expected no more dimensions", 2, 39},
        {"graph g\n%y = Neg(%x)\n", "expected a value that is known here", 2, 10},
        {"graph g\n%y = Neg(%y)\n", "expected a value that is known here", 2, 10},
        {"graph g\ninput %x\n%y, %y = Split(%x)\n", "expected a name that is new", 3, 1},
        {"graph g\ninput %x\n%y = Neg(%x) a\n", "expected '=', not the end", 3, 15},
        {"graph g\ninput %x\n%y = Neg(%x) a=(a b)\n", "expected ',', not 'b'", 3, 19},
        {"graph g\ninput %x\n%y = Neg@1000000(%x)\n", "expected a version", 3, 10},
        {"graph g\noutput %x\n", "expected a value that is known here", 2, 8},
        {"graph g\nnonsense\n", "expected an output, or the end", 2, 1},
        {"graph \"g\n", "expected a name", 1, 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_diag diag;
        assert_null(parse(cases[i].text, &diag));
        if (!strstr(diag.message, cases[i].words) || diag.line != cases[i].line || diag.column != cases[i].column)
            fail_msg("case %zu: %d:%d: %s", i, diag.line, diag.column, diag.message);
    }
}

/* Any beginning of a text is read, or refused, without harm. */
static void beginnings_do_no_harm(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof all; n++) {
        tw_graph *g;
        tw_diag diag = {0};
        char *text = malloc(n ? n : 1); /* Nothing behind its end. */
        assert_non_null(text);
        memcpy(text, all, n);
        if (tw_graph_parse(&g, text, n, "t", &diag) == TW_OK) tw_graph_free(g);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_come_back),       cmocka_unit_test(a_model_comes_back),
        cmocka_unit_test(contents_are_drawn),    cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(beginnings_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
