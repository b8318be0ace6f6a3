/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of f32 that compute in 16 bits. */
#include "base/diag.h"
#include "graph/check.h"
#include "graph/passes/passes.h"
#include "graph/run.h"
#include "graph/text.h"
#include "support/graphs.h"
#include "support/support.h"
#include "tilewright/graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tw_graph *converted(const tw_graph *g, tw_element to) {
    tw_diag diag = {0};
    tw_graph *c = test_concrete(g, "batch=2 seq=6");
    if (tw_graph_convert(c, to, &diag) != TW_OK) fail_msg("%s", diag.message);
    if (tw_graph_check(c, &diag) != TW_OK) fail_msg("%s", diag.message);
    for (int i = 0; i < g->n_outputs; i++)
        assert_string_equal(g->values[g->outputs[i]].name, c->values[c->outputs[i]].name);
    return c;
}

/* Converts a graph to f16, and compares the lines of its constants and nodes. */
static void becomes(const char *text, const char *want) {
    tw_graph *g = test_graph(text), *before = test_concrete(g, ""), *after = converted(g, TW_E_f16);
    tw_buf shown = {0}, lines = {0};
    tw_graph_print(after, &shown);
    for (char *line = strtok(shown.data, "\n"); line; line = strtok(NULL, "\n"))
        if (strncmp(line, "graph", 5) != 0 && !strstr(line, "  input") && !strstr(line, "  output"))
            tw_buf_printf(&lines, "%s\n", line + 2);
    assert_string_equal(lines.data ? lines.data : "", want);
    test_same_on_drawn(before, after, 1e-2);
    tw_buf_free(&shown);
    tw_buf_free(&lines);
    tw_graph_free(g);
    tw_graph_free(before);
    tw_graph_free(after);
}

static void values_are_narrow(void **state) {
    (void)state;
    becomes("graph g @20\n input %x: f32[2]\n constant %c: f32[2] {1.0, 0.5}\n %p = Mul(%x, %c)\n %q = Tanh(%p)\n"
            " %y = Add(%q, %x)\n %z = Neg(%y)\n output %y\n output %z\n",
            "constant %c~1: f16[2] {1.0, 0.5}\n"
            "%Cast~0: f16[2] = Cast(%x) to=10\n"
            "%p: f16[2] = Mul(%Cast~0, %c~1)\n"
            "%q: f16[2] = Tanh(%p)\n"
            "%y~2: f16[2] = Add(%q, %Cast~0)\n"
            "%y: f32[2] = Cast(%y~2) to=1\n"
            "%z~3: f16[2] = Neg(%y~2)\n"
            "%z: f32[2] = Cast(%z~3) to=1\n");
}

/* The first sets have no casts that know types of 16 bits. */
static void old_sets_are_converted(void **state) {
    (void)state;
    for (int version = 1; version <= 13; version += 4) {
        char text[128];
        snprintf(text, sizeof text, "graph g @%d\n input %%x: f32[2]\n %%y = Identity(%%x)\n output %%y\n", version);
        for (int i = 0; i < 2; i++) {
            tw_graph *g = test_graph(text), *before = test_concrete(g, ""),
                     *after = converted(g, i ? TW_E_bf16 : TW_E_f16);
            test_same_on_drawn(before, after, i ? 0.1 : 0.01);
            tw_graph_free(g);
            tw_graph_free(before);
            tw_graph_free(after);
        }
    }
}

static void other_types_stay(void **state) {
    (void)state;
    becomes("graph g @20\n input %x: f32[2]\n input %i: i64[2]\n constant %one: i64[1] {1}\n %p = Cast(%i) to=1\n"
            " %q = Add(%p, %x)\n %y = Cast(%q) to=7\n %s = Shape(%q)\n %z = Add(%i, %one)\n output %y\n output %z\n",
            "constant %one: i64[1] {1}\n"
            "%p: f16[2] = Cast(%i) to=10\n"
            "%Cast~0: f16[2] = Cast(%x) to=10\n"
            "%q: f16[2] = Add(%p, %Cast~0)\n"
            "%y: i64[2] = Cast(%q) to=7\n"
            "%z: i64[2] = Add(%i, %one)\n");
}

/* What leaves the range, with what is made of it alone. */
static void sums_stay(void **state) {
    (void)state;
    becomes("graph g @20\n input %x: f32[2, 3]\n constant %two: f32[] {2.0}\n constant %axis: i64[1] {-1}\n"
            " constant %e: f32[] {1e-12}\n %h = Tanh(%x)\n %p = Pow(%h, %two)\n %m = ReduceMean(%p, %axis)\n"
            " %a = Add(%m, %e)\n %r = Sqrt(%a)\n %d = Div(%h, %r)\n %y = Neg(%d)\n output %y\n",
            "constant %two: f32[] {2.0}\n"
            "constant %axis: i64[1] {-1}\n"
            "constant %e: f32[] {9.99999996e-13}\n"
            "%Cast~0: f16[2, 3] = Cast(%x) to=10\n"
            "%h: f16[2, 3] = Tanh(%Cast~0)\n"
            "%Cast~1: f32[2, 3] = Cast(%h) to=1\n"
            "%p: f32[2, 3] = Pow(%Cast~1, %two)\n"
            "%m: f32[2, 1] = ReduceMean(%p, %axis)\n"
            "%a: f32[2, 1] = Add(%m, %e)\n"
            "%r: f32[2, 1] = Sqrt(%a)\n"
            "%Cast~2: f16[2, 1] = Cast(%r) to=10\n"
            "%d: f16[2, 3] = Div(%h, %Cast~2)\n"
            "%y~3: f16[2, 3] = Neg(%d)\n"
            "%y: f32[2, 3] = Cast(%y~3) to=1\n");
}

/* Positions have no room in 16 bits. */
static void angles_stay(void **state) {
    (void)state;
    becomes("graph g @20\n input %x: f32[2]\n input %i: i64[2]\n constant %f: f32[1] {1000.0}\n %p = Cast(%i) to=1\n"
            " %q = Mul(%p, %f)\n %c = Cos(%q)\n %y = Mul(%c, %x)\n output %y\n",
            "constant %f: f32[1] {1000.0}\n"
            "%p: f32[2] = Cast(%i) to=1\n"
            "%q: f32[2] = Mul(%p, %f)\n"
            "%c: f32[2] = Cos(%q)\n"
            "%Cast~0: f16[2] = Cast(%c) to=10\n"
            "%Cast~1: f16[2] = Cast(%x) to=10\n"
            "%y~2: f16[2] = Mul(%Cast~0, %Cast~1)\n"
            "%y: f32[2] = Cast(%y~2) to=1\n");
    /* Nor have they where doubles are computed of them. */
    becomes(
        "graph g @20\n input %x: f32[2]\n input %i: i64[2]\n constant %f: f64[1] {1000.0}\n %p = Cast(%i) to=1\n"
        " %d = Cast(%p) to=11\n %q = Mul(%d, %f)\n %a = Cast(%q) to=1\n %c = Cos(%a)\n %y = Mul(%c, %x)\n output %y\n",
        "constant %f: f64[1] {1000.0}\n"
        "%p: f32[2] = Cast(%i) to=1\n"
        "%d: f64[2] = Cast(%p) to=11\n"
        "%q: f64[2] = Mul(%d, %f)\n"
        "%a: f32[2] = Cast(%q) to=1\n"
        "%c: f32[2] = Cos(%a)\n"
        "%Cast~0: f16[2] = Cast(%c) to=10\n"
        "%Cast~1: f16[2] = Cast(%x) to=10\n"
        "%y~2: f16[2] = Mul(%Cast~0, %Cast~1)\n"
        "%y: f32[2] = Cast(%y~2) to=1\n");
}

/* A row that is hidden whole gives no NaN, limits keep the end of the range, and infinities stay. */
static void masks_are_finite(void **state) {
    (void)state;
    static const char text[] =
        "graph g @20\n input %x: f32[2, 4]\n input %hide: bool[2, 4]\n constant %least: f32[1] {-3.40282347e+38}\n"
        " constant %most: f32[] {3e38}\n constant %none: f32[1] {0.0}\n constant %inf: f32[] {inf}\n"
        " constant %scale: f32[] {40.0}\n constant %low: f32[] {-3e38}\n %l = Mul(%x, %scale)\n"
        " %p = Where(%hide, %least, %none)\n %m = Add(%l, %p)\n %y = Softmax(%m)\n %z = Clip(%x, %low, %most)\n"
        " %w = Min(%x, %inf)\n output %y\n output %z\n output %w\n";
    static const float x[] = {-1, 1, 0, 1, 1, 2, -1, -2};
    static const uint8_t hide[] = {1, 1, 1, 1, 0, 1, 0, 0};
    const tw_array a = {.type = TW_E_f32, .rank = 2, .dims = {2, 4}, .data = x},
                   b = {.type = TW_E_bool, .rank = 2, .dims = {2, 4}, .data = hide};
    const tw_array *in[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        tw_arena arena = {0};
        tw_diag diag = {0};
        tw_array out[3];
        tw_graph *g = test_graph(text), *c = converted(g, i ? TW_E_bf16 : TW_E_f16);
        assert_int_equal(tw_graph_run(c, in, &arena, out, &diag), TW_OK);
        double sum[2] = {0};
        for (int k = 0; k < 8; k++) sum[k / 4] += tw_array_real(&out[0], k);
        assert_true(fabs(sum[0] - 1) < 0.02 && fabs(sum[1] - 1) < 0.02);
        assert_true(tw_array_real(&out[0], 5) == 0);
        for (int k = 0; k < 8; k++)
            assert_true(tw_array_real(&out[1], k) == (double)x[k] && tw_array_real(&out[2], k) == (double)x[k]);
        int found = 0;
        for (int v = 0; v < c->n_values; v++) {
            const tw_array *k = c->values[v].content;
            if (!k) continue;
            const double first = tw_array_real(k, 0);
            if (!strncmp(c->values[v].name, "most~", 5)) found += first == (i ? 3.3895313892515355e38 : 65504);
            if (!strncmp(c->values[v].name, "least~", 6)) found += first == (i ? -3.3895313892515355e38 / 4 : -16376);
            if (!strncmp(c->values[v].name, "inf~", 4)) found += isinf(first);
        }
        assert_int_equal(found, i ? 2 : 3);
        tw_graph_free(c);
        tw_graph_free(g);
        tw_arena_free(&arena);
    }
}

static void models_are_close(void **state) {
    (void)state;
    tw_diag diag = {0};
    tw_graph *g;
    assert_int_equal(tw_graph_open(&g, TEST_DATA "/onnx/encoder/model.onnx", &diag), TW_OK);
    tw_graph *plain = test_concrete(g, "batch=2 seq=6");
    for (int i = 0; i < 2; i++) {
        tw_graph *c = converted(g, i ? TW_E_bf16 : TW_E_f16);
        for (int v = 0; v < c->n_values; v++)
            if (c->values[v].content && c->values[v].type == TW_E_f32)
                assert_int_equal(tw_array_elements(c->values[v].content), 1);
        test_same_on_drawn(plain, c, i ? 0.1 : 0.01);
        tw_graph_free(c);
    }
    assert_int_equal(tw_graph_convert(plain, TW_E_f64, &diag), TW_ERR_USAGE);
    tw_graph_free(plain);
    tw_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_narrow), cmocka_unit_test(old_sets_are_converted),
        cmocka_unit_test(other_types_stay),  cmocka_unit_test(sums_stay),
        cmocka_unit_test(angles_stay),       cmocka_unit_test(masks_are_finite),
        cmocka_unit_test(models_are_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
