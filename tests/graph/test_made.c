/* SPDX-License-Identifier: Apache-2.0 */
/* Constants that lowering makes, and that programs of one model share. */
#include "base/diag.h"
#include "graph/contents.h"
#include "graph/passes/passes.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/run_program.h"
#include "support/graphs.h"
#include "support/support.h"
#include "tilewright/graph.h"

#include <math.h>
#include <string.h>

static void good(tw_status st, const tw_diag *diag) {
    if (st != TW_OK) fail_msg("%s", diag->message);
}

/* A graph for extents, with contents that outlive it. */
static tw_graph *concrete(tw_contents *c, const char *text, const char *extents) {
    tw_diag diag = {0};
    tw_graph *before = test_graph(text), *g = test_concrete(before, extents);
    tw_graph_free(before);
    good(tw_contents_share(c, g, &diag), &diag);
    return g;
}

static tw_program *lower(const tw_graph *g, tw_program_made *made) {
    const tw_program_options o = {.gpu = true, .norms = true, .made = made};
    tw_program *p = NULL;
    tw_diag diag = {0};
    good(tw_program_lower(&p, g, &o, &diag), &diag);
    return p;
}

static bool is_made(const tw_program_made *made, const void *content) {
    bool found = false;
    for (int i = 0; i < made->n; i++) found |= made->list[i].data == content;
    return found;
}

static const tw_program_buffer *constant(const tw_program *p, int *i) {
    for (; *i < p->n_buffers; (*i)++)
        if (p->buffers[*i].kind == TW_PROGRAM_CONSTANT) return &p->buffers[(*i)++];
    return NULL;
}

/* Programs have the same constants in the same order. Returns how many of them are made. */
static int count_same(const tw_program *p, const tw_program *q, const tw_program_made *made) {
    const tw_program_buffer *a, *b;
    int n = 0, i = 0, k = 0;
    while ((a = constant(p, &i))) {
        b = constant(q, &k);
        assert_non_null(b);
        assert_ptr_equal(a->content, b->content);
        assert_int_equal(a->bytes, b->bytes);
        assert_false(a->own || b->own);
        n += is_made(made, a->content);
    }
    assert_null(constant(q, &k));
    return n;
}

static void runs(const tw_program *p, double share) {
    tw_arena arena = {0};
    tw_array want[2], have[2];
    tw_diag diag = {0};
    const tw_array *const *in = test_draw(p->graph, &arena, 7);
    assert_in_range(p->graph->n_outputs, 1, 2);
    good(tw_graph_run(p->graph, in, &arena, want, &diag), &diag);
    good(run_program(p, in, &arena, have, &diag), &diag);
    for (int o = 0; o < p->graph->n_outputs; o++) {
        const int64_t n = tw_array_elements(&want[o]);
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += tw_array_real(&want[o], i) * tw_array_real(&want[o], i);
        for (int64_t i = 0; i < n; i++)
            assert_true(fabs(tw_array_real(&want[o], i) - tw_array_real(&have[o], i)) <=
                        share * fmax(sqrt(sum / (double)n), fabs(tw_array_real(&want[o], i))));
    }
    tw_arena_free(&arena);
}

/* Of each kind that is made: scaled, with and without beta, gates, rows that are padded, and vectors. */
static const char all[] =
    "graph g @23\n input %x: f16[n, 16]\n constant %w: f16[16, 16] random 1\n constant %g: f16[16] random 2\n"
    " constant %be: f16[16] random 3\n constant %odd: f16[16, 12] random 4\n constant %b: f32[12] random 5\n"
    " %o = MatMul(%x, %w)\n %n = LayerNormalization(%o, %g, %be)\n %p = tilewright::Product(%n, %w, %be)\n"
    " %q = tilewright::Product(%p, %w, _, _, %n)\n %m = RMSNormalization(%q, %g)\n"
    " %s = tilewright::Product(%m, %w) activation=\"silu\"\n %t = tilewright::Product(%m, %w, _, %s)\n"
    " %u = tilewright::Product(%t, %w) activation=\"silu\"\n %v = tilewright::Product(%t, %w, _, %u)\n"
    " %y = MatMul(%v, %odd)\n output %y\n";

static void extents_share_what_is_made(void **state) {
    (void)state;
    tw_contents c = {0};
    tw_program_made made = {0};
    tw_graph *few = concrete(&c, all, "n=3"), *many = concrete(&c, all, "n=40");
    tw_program *p = lower(few, &made);
    const int n = made.n;
    tw_program *q = lower(many, &made);
    /* B of the first norm, its bias, the residual's gains and bias, gates with and without gains, and rows of 12. */
    assert_int_equal(n, 7);
    assert_int_equal(made.n, n);
    assert_int_equal(count_same(p, q, &made), n);
    /* What the first had made stays. */
    tw_program_free(p);
    tw_graph_free(few);
    runs(q, 6e-3);
    p = lower(many, &made);
    assert_int_equal(count_same(p, q, &made), n);
    tw_program_free(p);
    tw_program_free(q);
    tw_graph_free(many);
    tw_program_made_free(&made);
    assert_int_equal(made.n, 0);
    tw_contents_free(&c);
}

static void without_a_list_all_is_the_programs_own(void **state) {
    (void)state;
    tw_contents c = {0};
    tw_graph *g = concrete(&c, all, "n=3");
    tw_program *p = lower(g, NULL), *q = lower(g, NULL);
    const tw_program_buffer *b;
    int own = 0, i = 0;
    while ((b = constant(p, &i))) {
        assert_int_equal(b->own, is_made(&p->made, b->content));
        assert_false(is_made(&q->made, b->content));
        own += b->own;
    }
    assert_int_equal(own, 7);
    tw_program_free(q);
    runs(p, 6e-3);
    tw_program_free(p);
    tw_graph_free(g);
    tw_contents_free(&c);
}

#define BEGIN                                                                                                          \
    "graph g @23\n input %x: f16[5, 16]\n constant %w: f16[16, 16] random 1\n constant %v: f16[16, 16] random 6\n"     \
    " constant %g: f16[16] random 2\n constant %h: f16[16] random 7\n constant %be: f16[16] random 3\n"                \
    " constant %ce: f16[16] random 8\n constant %odd: f16[16, 12] random 4\n constant %sq: f16[12, 12] random 9\n"     \
    " %o = MatMul(%x, %w)\n"
#define LAYER BEGIN " %n = LayerNormalization(%o, %g, %be)\n"
#define GATES(norm, gate, value)                                                                                       \
    BEGIN norm " %s = tilewright::Product(%n, " gate " activation=\"silu\"\n %y = tilewright::Product(%n, " value      \
               "\n %z = MatMul(%y, %w)\n output %z\n"

/* Constants that differ in one thing are others. */
static void what_differs_is_made_anew(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int made; /* That the ones before have not. */
    } graphs[] = {
        {LAYER " %y = MatMul(%n, %w)\n output %y\n", 2},
        {LAYER " %y = MatMul(%n, %v)\n output %y\n", 2},
        {LAYER " %y = Gemm(%n, %w) transB=1\n output %y\n", 2},
        {LAYER " %y = Gemm(%n, %w) alpha=0.5\n output %y\n", 1},
        {LAYER " %y = Gemm(%n, %w, %ce)\n output %y\n", 1},
        {BEGIN " %n = LayerNormalization(%o, %h, %be)\n %y = MatMul(%n, %w)\n output %y\n", 1},
        {BEGIN " %n = LayerNormalization(%o, %g, %ce)\n %y = MatMul(%n, %w)\n output %y\n", 2},
        {BEGIN " %n = LayerNormalization(%o, %g)\n %y = MatMul(%n, %w)\n output %y\n", 1},
        {BEGIN " %n = LayerNormalization(%o, %g) epsilon=0.5\n %y = MatMul(%n, %w)\n output %y\n", 0},
        {BEGIN " %n = RMSNormalization(%o, %g)\n %y = MatMul(%n, %w)\n output %y\n", 1},
        {LAYER " %y = MatMul(%n, %w)\n output %y\n", 0},
        {GATES(" %n = RMSNormalization(%o, %g)\n", "%w)", "%v, _, %s)"), 1},
        {GATES(" %n = RMSNormalization(%o, %g)\n", "%v)", "%w, _, %s)"), 1},
        {GATES(" %n = RMSNormalization(%o, %g)\n", "%w)", "%w, _, %s)"), 1},
        {GATES(" %n = RMSNormalization(%o, %g)\n", "%w) trans_b=1", "%v, _, %s) trans_b=1"), 1},
        {GATES(" %n = RMSNormalization(%o, %h)\n", "%w)", "%v, _, %s)"), 1},
        {GATES(" %n = LayerNormalization(%o, %g)\n", "%w)", "%v, _, %s)"), 1},
        {GATES(" %n = Relu(%o)\n", "%w)", "%v, _, %s)"), 1},
        {BEGIN " %y = MatMul(%o, %odd)\n output %y\n", 1},
        {BEGIN " %a = MatMul(%o, %odd)\n %y = MatMul(%a, %sq)\n output %y\n", 1},
        {BEGIN " %a = MatMul(%o, %odd)\n %y = Gemm(%a, %sq) transB=1\n output %y\n", 1},
        {BEGIN " %a = MatMul(%o, %odd)\n %y = MatMul(%a, %sq)\n output %y\n", 0},
    };
    tw_contents c = {0};
    tw_program_made made = {0};
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        tw_graph *g = concrete(&c, graphs[i].text, "");
        const int before = made.n;
        tw_program *p = lower(g, &made);
        if (made.n - before != graphs[i].made) fail_msg("%d made: %s", made.n - before, graphs[i].text);
        runs(p, 6e-3);
        tw_program_free(p);
        tw_graph_free(g);
    }
    tw_program_made_free(&made);
    tw_contents_free(&c);
}

/* Weights that leave f16's range with their gains are not tried again. */
static void what_cannot_be_made_is_known(void **state) {
    (void)state;
    static const char text[] =
        "graph g @23\n input %x: f16[n, 8]\n constant %w: f16[8, 8] random 1\n"
        " constant %b: f16[8, 1] {1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0}\n"
        " constant %to: i64[2] {8, 8}\n"
        " constant %g: f16[8] {1.0, 60000.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0}\n"
        " %v = Expand(%b, %to)\n %o = MatMul(%x, %w)\n %n = RMSNormalization(%o, %g)\n %y = MatMul(%n, %v)\n"
        " %s = tilewright::Product(%n, %v) activation=\"silu\"\n"
        " %t = tilewright::Product(%n, %v, _, %s)\n %z = MatMul(%t, %v)\n output %y\n output %z\n";
    tw_contents c = {0};
    tw_program_made made = {0};
    for (int i = 0; i < 2; i++) {
        tw_graph *g = concrete(&c, text, i ? "n=3" : "n=4");
        tw_program *p = lower(g, &made);
        assert_int_equal(made.n, 2);
        assert_true(!made.list[0].data && made.list[1].data);
        for (int k = 0; k < p->n_steps; k++)
            if (p->steps[k].kind == TW_STEP_PRODUCT) assert_int_equal(p->steps[k].of.product.norm, 0);
        tw_program_free(p);
        tw_graph_free(g);
    }
    tw_program_made_free(&made);
    tw_contents_free(&c);
}

/* What passes convert, join and fold has one place for all extents, and so does what is made of it. */
static void extents_of_a_model(void **state) {
    (void)state;
    tw_contents c = {0};
    tw_program_made made = {0};
    tw_program *p[2];
    tw_graph *g[2], *model;
    tw_diag d = {0};
    int normed = 0;
    good(tw_graph_open(&model, TEST_DATA "/onnx/encoder/model.onnx", &d), &d);
    for (int i = 0; i < 2; i++) {
        g[i] = test_concrete(model, i ? "batch=2 length=6" : "batch=1 length=9");
        good(tw_graph_fuse(g[i], NULL, &d), &d);
        good(tw_graph_convert(g[i], TW_E_f16, &d), &d);
        good(tw_graph_simplify(g[i], &d), &d);
        good(tw_contents_share(&c, g[i], &d), &d);
        good(tw_graph_resolve(g[i], "", &d), &d);
        p[i] = lower(g[i], &made);
    }
    for (int i = 0; i < p[0]->n_steps; i++)
        if (p[0]->steps[i].kind == TW_STEP_PRODUCT) normed += p[0]->steps[i].of.product.norm != TW_PROGRAM_NORM_NONE;
    assert_int_equal(normed, 1);
    assert_int_equal(count_same(p[0], p[1], &made), 2); /* Its B and its bias. */
    assert_int_equal(made.n, 2);
    for (int i = 0; i < 2; i++) {
        tw_program_free(p[i]);
        tw_graph_free(g[i]);
    }
    tw_graph_free(model);
    tw_program_made_free(&made);
    tw_contents_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extents_share_what_is_made), cmocka_unit_test(without_a_list_all_is_the_programs_own),
        cmocka_unit_test(what_differs_is_made_anew),  cmocka_unit_test(what_cannot_be_made_is_known),
        cmocka_unit_test(extents_of_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
