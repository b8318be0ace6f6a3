/* SPDX-License-Identifier: Apache-2.0 */
/* Norms that become part of the products that read them: which do, with what constants, and that programs compute what
   their graphs do. */
#include "base/diag.h"
#include "base/random.h"
#include "graph/contents.h"
#include "graph/run.h"
#include "graph/run_program.h"
#include "support/graphs.h"
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_status(tw_status st, const tw_diag *diag) {
    if (st != TW_OK) fail_msg("%s", diag->message);
}

static double element(const tw_program *p, const tw_view *v, int64_t at) {
    const tw_array a = {.type = v->type, .data = (const char *)p->buffers[v->buffer].content + v->offset};
    return tw_array_real(&a, at);
}

/* Columns have a mean of 0, as far as elements of B's type can have it. */
static void check_means_of_columns(const tw_program *p, const tw_step *s) {
    const tw_program_product *x = &s->of.product;
    const double unit = x->type == TW_E_f16 ? 0x1p-12 : 0x1p-9;
    for (int64_t j = 0; j < x->n; j++) {
        double sum = 0, sizes = 0;
        for (int64_t k = 0; k < x->k; k++) {
            const double b = element(p, &s->in[1], x->trans_b ? j * x->ldb + k : k * x->ldb + j);
            sum += b;
            sizes += fabs(b);
        }
        assert_true(fabs(sum) <= unit * sizes + 1e-6);
    }
}

/* What reads sums of rows, and what has them. */
static void check_steps(const tw_program *p) {
    for (int i = 0; i < p->n_steps; i++) {
        const tw_step *s = &p->steps[i], *from = NULL;
        const tw_program_product *x = &s->of.product;
        bool wanted = false, moments = false;
        if (s->kind != TW_STEP_PRODUCT) continue;
        assert_int_equal(s->n_in, TW_PROGRAM_PRODUCT_IN);
        for (int k = 0; k < p->n_steps; k++) {
            const tw_step *t = &p->steps[k];
            if (t->kind != TW_STEP_PRODUCT) continue;
            if (t->n_out > 1 && t->out[1].buffer == s->in[5].buffer) from = t;
            if (s->n_out < 2 || t->in[5].buffer != s->out[1].buffer) continue;
            wanted = true;
            moments |= t->of.product.norm == TW_PROGRAM_NORM_LAYER;
        }
        assert_int_equal(s->n_out, wanted ? 2 : 1);
        assert_int_equal(x->moments, moments);
        if (wanted) {
            assert_int_equal(s->out[1].rank, 2);
            assert_int_equal(s->out[1].dims[0], 2 * ((x->n + 31) / 32 + 8));
            assert_int_equal(s->out[1].dims[1], x->m);
            assert_true(tw_view_is_dense(&s->out[1]));
        }
        assert_int_equal(s->in[5].buffer >= 0, x->norm != TW_PROGRAM_NORM_NONE);
        assert_int_equal(s->in[6].buffer >= 0, x->norm_residual);
        if (x->norm == TW_PROGRAM_NORM_NONE) continue;
        if (!from) {
            fail_msg("step %d reads sums that no product stores", i);
            return;
        }
        assert_int_equal(s->in[x->norm_residual ? 4 : 0].buffer, from->out[0].buffer);
        if (x->norm == TW_PROGRAM_NORM_LAYER && !x->norm_residual) check_means_of_columns(p, s);
    }
}

static void compare(const tw_graph *g, const tw_array *a, const tw_array *b, double share) {
    for (int o = 0; o < g->n_outputs; o++) {
        const int64_t n = tw_array_elements(&a[o]);
        double sum = 0;
        assert_int_equal(n, tw_array_elements(&b[o]));
        for (int64_t i = 0; i < n; i++) sum += tw_array_real(&a[o], i) * tw_array_real(&a[o], i);
        const double least = sqrt(sum / (double)n);
        if (!isfinite(sum)) continue; /* What is drawn may leave the type's range. */
        for (int64_t i = 0; i < n; i++) {
            const double x = tw_array_real(&a[o], i), y = tw_array_real(&b[o], i);
            if (!(fabs(x - y) <= share * fmax(least, fabs(x))))
                fail_msg("%s: output %d: element %lld is %g instead of %g", g->name, o, (long long)i, y, x);
        }
    }
}

/* Lowers a graph, and compares the program with it. */
static tw_program *check_graph(const tw_graph *g, const tw_program_options *o, double share) {
    tw_arena arena = {0};
    tw_array want[4], have[4];
    tw_program *p = NULL;
    tw_diag diag = {0};
    assert_in_range(g->n_outputs, 1, 4);
    const tw_array *const *in = test_draw(g, &arena, 7);
    assert_status(tw_program_lower(&p, g, o, &diag), &diag);
    check_steps(p);
    assert_status(tw_graph_run(g, in, &arena, want, &diag), &diag);
    assert_status(run_program(p, in, &arena, have, &diag), &diag);
    compare(g, want, have, share);
    tw_arena_free(&arena);
    return p;
}

static const tw_program_options folding = {.gpu = true, .norms = true};

typedef struct counts {
    int products, normed, residual, rows, all;
} counts;

static counts count(const tw_program *p) {
    counts c = {.all = p->n_steps};
    for (int i = 0; i < p->n_steps; i++) {
        const tw_step *s = &p->steps[i];
        const bool product = s->kind == TW_STEP_PRODUCT, normed = product && s->of.product.norm != TW_PROGRAM_NORM_NONE;
        c.products += product;
        c.rows += s->kind == TW_STEP_ROWS;
        c.residual += normed && s->of.product.norm_residual;
        c.normed += normed && !s->of.product.norm_residual;
    }
    return c;
}

static void assert_counts(const char *what, counts c, counts want) {
    if (memcmp(&c, &want, sizeof c) != 0)
        fail_msg("%d products, %d with a norm of A, %d with one of a residual, %d steps of rows, %d in all: %s",
                 c.products, c.normed, c.residual, c.rows, c.all, what);
}

/* Checks the graph "graph g @23" whose lines are given, in a type, and counts its steps. */
static tw_program *check(const char *lines, const char *type, counts want, double share, tw_graph **kept) {
    char text[8192];
    size_t n = (size_t)snprintf(text, sizeof text, "graph \"%s\" @23\n", type);
    for (const char *at = lines; *at && n < sizeof text - 8; at++) {
        if (*at == '$')
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", type);
        else
            text[n++] = *at;
    }
    text[n] = 0;
    tw_graph *before = test_graph(text), *g = *kept = test_concrete(before, "");
    tw_graph_free(before);
    tw_program *p = check_graph(g, &folding, share);
    assert_counts(lines, count(p), want);
    return p;
}

static void check_types(const char *lines, counts want) {
    static const struct {
        const char *type;
        double share;
    } all[] = {{"f16", 6e-3}, {"bf16", 5e-2}};
    for (int i = 0; i < 2; i++) {
        tw_graph *g;
        tw_program_free(check(lines, all[i].type, want, all[i].share, &g));
        tw_graph_free(g);
    }
}

/* ---- blocks of models */

#define VECTORS                                                                                                        \
    " constant %g: $[16] random 11\n constant %be: $[16] random 12\n constant %h: $[16] random 13\n"                   \
    " constant %ce: $[16] {3.0, 2.5, 3.0, 3.5, 4.0, 2.0, 2.5, 3.0, 3.0, 3.5, 2.5, 2.0, 3.0, 3.5, 4.0, 3.0}\n"
#define MATRICES                                                                                                       \
    " constant %w: $[16, 16] random 1\n constant %up: $[16, 48] random 2\n constant %upt: $[48, 16] random 3\n"        \
    " constant %down: $[48, 16] random 4\n constant %ub: $[48] random 5\n constant %db: $[16] random 6\n"
#define OTHERS                                                                                                         \
    " constant %odd: $[16, 12] random 8\n constant %gh: $[8] random 14\n"                                              \
    " constant %wh: $[8, 8] random 15\n constant %sixteen: i64[1] {16}\n constant %zero: i64[1] {0}\n"                 \
    " constant %two: i64[1] {2}\n constant %last: i64[1] {1}\n constant %six: i64[3] {2, 16, 3}\n"                     \
    " constant %halves: i64[3] {2, 6, 8}\n constant %turned: i64[3] {3, 2, 16}\n"
#define CONSTANTS VECTORS MATRICES OTHERS
#define BEGIN     " input %x: $[2, 3, 16]\n input %t: $[2, 3, 16]\n" CONSTANTS
#define FLAT      " input %x: $[16, 16]\n input %t: $[16, 16]\n input %bi: $[16]\n" CONSTANTS
/* A product whose rows have a mean that is not 0. */
#define PRODUCT " %o = tilewright::Product(%t, %w, %ce, _, %x)\n"
#define FIRST   BEGIN PRODUCT

static void norms_behind_sums(void **state) {
    (void)state;
    check_types(FIRST " %n = LayerNormalization(%o, %g, %be)\n"
                      " %u = tilewright::Product(%n, %up, %ub) activation=\"gelu_erf\"\n"
                      " %d = tilewright::Product(%u, %down, %db, _, %n)\n"
                      " %m = LayerNormalization(%d, %h, %ce) epsilon=0.5\n"
                      " %y = tilewright::Product(%m, %upt, %ub) trans_b=1 alpha=0.25\n output %y\n",
                (counts){4, 2, 1, 0, 4});
}

static void norms_before_gemms(void **state) {
    (void)state;
    check_types(FLAT PRODUCT " %n = LayerNormalization(%o, %g, %be)\n %y = Gemm(%n, %w, %db) transB=1 alpha=2.0\n"
                             " output %y\n",
                (counts){2, 1, 0, 0, 2});
}

static void norms_before_layers(void **state) {
    (void)state;
    check_types(FIRST " %n = LayerNormalization(%o, %g, %be)\n"
                      " %qkv = tilewright::Product(%n, %upt) trans_b=1 alpha=0.5\n"
                      " %q, %k, %v = Split(%qkv) axis=-1 num_outputs=3\n"
                      " %qk = Mul(%q, %k)\n %s = Mul(%qk, %v)\n"
                      " %a = tilewright::Product(%s, %w, %db, _, %o)\n"
                      " %m = LayerNormalization(%a, %h)\n"
                      " %u = tilewright::Product(%m, %up) activation=\"gelu\"\n"
                      " %y = tilewright::Product(%u, %down, %db, _, %a)\n output %y\n",
                (counts){5, 2, 0, 0, 6});
}

/* Gates and values are packed, and then have the gains. */
static void norms_before_gates(void **state) {
    (void)state;
    check_types(FIRST " %n = SimplifiedLayerNormalization(%o, %g)\n"
                      " %a = tilewright::Product(%n, %up) activation=\"silu\"\n"
                      " %b = tilewright::Product(%n, %up, _, %a)\n"
                      " %c = tilewright::Product(%b, %down, _, _, %o)\n"
                      " %m = RMSNormalization(%c, %h) epsilon=0.25\n"
                      " %d = tilewright::Product(%m, %upt) activation=\"gelu\" trans_b=1\n"
                      " %e = tilewright::Product(%m, %upt, _, %d) trans_b=1\n"
                      " %f = tilewright::Product(%e, %down, _, _, %c)\n"
                      " %l = LayerNormalization(%f, %ce)\n"
                      " %i = tilewright::Product(%l, %up) activation=\"silu\"\n"
                      " %j = tilewright::Product(%l, %up, _, %i)\n %y = MatMul(%j, %down)\n output %y\n",
                (counts){7, 3, 0, 0, 7});
}

/* A beta would be another bias for gates than for values. */
static void gates_have_no_beta(void **state) {
    (void)state;
    check_types(FIRST " %n = LayerNormalization(%o, %g, %be)\n"
                      " %p = tilewright::Product(%n, %w)\n"
                      " %a = tilewright::Product(%n, %up) activation=\"silu\"\n"
                      " %b = tilewright::Product(%n, %up, _, %a)\n %y = MatMul(%b, %down)\n output %y\n output %p\n",
                (counts){4, 1, 0, 1, 5});
}

/* A product leaves sums for norms of one kind, the first that is found. */
static void norms_of_two_kinds(void **state) {
    (void)state;
    check_types(FIRST " %n = RMSNormalization(%o, %g)\n %m = LayerNormalization(%o, %h, %be)\n"
                      " %a = tilewright::Product(%n, %w)\n %c = Add(%a, %t)\n"
                      " %y = tilewright::Product(%m, %w, _, %c, %o)\n output %y\n",
                (counts){3, 1, 0, 1, 5});
    check_types(FIRST " %n = RMSNormalization(%o, %g)\n %m = LayerNormalization(%o, %h, %be)\n"
                      " %a = tilewright::Product(%m, %w)\n %c = Add(%a, %t)\n"
                      " %y = tilewright::Product(%n, %w, _, %c, %o)\n output %y\n",
                (counts){3, 1, 0, 1, 5});
}

/* Of one product both could be normed: one is. */
static void one_norm_a_product(void **state) {
    (void)state;
    check_types(FIRST " %n = LayerNormalization(%o, %g, %be)\n"
                      " %p = tilewright::Product(%x, %w)\n %m = LayerNormalization(%p, %h, %ce)\n"
                      " %y = tilewright::Product(%n, %w, _, _, %m)\n output %y\n",
                (counts){3, 1, 0, 1, 4});
}

/* ---- what does not become part of a product */

static void norms_that_are_stored(void **state) {
    (void)state;
#define NORM " %n = LayerNormalization(%o, %g, %be)\n"
#define END  " %y = MatMul(%n, %w)\n output %y\n"
    static const struct {
        const char *lines;
        counts want;
    } all[] = {
        {FIRST NORM END " output %n\n", {2, 0, 0, 1, 3}},
        {FIRST " %a = Abs(%t)\n %f = ReduceMax(%a) keepdims=0\n %v = Expand(%f, %sixteen)\n"
               " %n = LayerNormalization(%o, %v)\n" END,
         {2, 0, 0, 2, 4}},
        {FIRST " %s = Add(%o, %t)\n %n = LayerNormalization(%s, %g, %be)\n" END, {2, 0, 0, 1, 3}},
        {BEGIN " %n = LayerNormalization(%x, %g, %be)\n" END, {1, 0, 0, 1, 2}},
        {FIRST NORM " %z = Tanh(%n)\n %q = MatMul(%n, %w)\n %y = Mul(%z, %q)\n output %y\n", {2, 0, 0, 1, 4}},
        {FIRST NORM " %b = Reshape(%t, %six)\n %y = MatMul(%n, %b)\n output %y\n", {2, 0, 0, 1, 4}},
        {FIRST " %n = LayerNormalization(%o, %g) axis=1\n" END, {2, 0, 0, 1, 4}},
        {FIRST " %n, %mean = LayerNormalization(%o, %g)\n" END " output %mean\n", {2, 0, 0, 2, 5}},
        {FIRST " %n = RMSNormalization(%o, %g)\n %y = tilewright::Product(%t, %w, _, _, %n)\n output %y\n",
         {2, 0, 0, 1, 3}},
        {FIRST NORM " %y = tilewright::Product(%t, %w, _, _, %n) activation=\"silu\"\n output %y\n", {2, 0, 0, 1, 3}},
        {FIRST NORM " %y = tilewright::Product(%t, %w, _, %t, %n)\n output %y\n", {2, 0, 0, 1, 3}},
        {FIRST NORM " %y = tilewright::Product(%n, %w, _, _, %n)\n output %y\n", {2, 0, 0, 1, 3}},
        {FIRST NORM " %y = tilewright::Product(%n, %w, _, %n)\n output %y\n", {2, 0, 0, 1, 3}},
        {FIRST NORM " %y = tilewright::Product(%n, %w) activation=\"tanh\"\n output %y\n", {2, 0, 0, 1, 4}},
        {FLAT PRODUCT NORM " %y = Gemm(%n, %w, %db) beta=0.5\n output %y\n", {2, 0, 0, 1, 4}},
        {FLAT PRODUCT NORM " %y = Gemm(%n, %w, %db) transA=1\n output %y\n", {2, 0, 0, 1, 3}},
        {FLAT PRODUCT NORM " %y = Gemm(%n, %w, %bi)\n output %y\n", {2, 0, 0, 1, 3}},
        {FLAT PRODUCT NORM " %y = Gemm(%w, %n)\n output %y\n", {2, 0, 0, 1, 3}},
        {FIRST NORM " %q = MatMul(%n, %w)\n %y = Cast(%q) to=1\n output %y\n", {2, 0, 0, 1, 3}},
        {FIRST NORM " %y = MatMul(%n, %odd)\n output %y\n", {2, 0, 0, 1, 3}},
        {FIRST " %s = Slice(%o, %zero, %two, %last)\n %n = LayerNormalization(%s, %g, %be)\n" END, {2, 0, 0, 1, 3}},
        {FLAT PRODUCT " %s = Slice(%o, %zero, %two, %zero)\n %n = LayerNormalization(%s, %g, %be)\n" END,
         {2, 0, 0, 1, 3}},
        /* Rows of A are no rows of one matrix. */
        {BEGIN " %a = Transpose(%t) perm={1, 0, 2}\n %r = Reshape(%x, %turned)\n %o = MatMul(%r, %w)\n" NORM
               " %y = tilewright::Product(%a, %w, _, _, %n)\n output %y\n",
         {2, 0, 0, 1, 3}},
        {FIRST " %s = Reshape(%o, %halves)\n %n = LayerNormalization(%s, %gh)\n %y = MatMul(%n, %wh)\n output %y\n",
         {2, 0, 0, 1, 3}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        check_types(all[i].lines, all[i].want);
    }
}

static void only_where_it_is_asked_for(void **state) {
    (void)state;
    static const tw_program_options others[] = {
        {.gpu = true}, {.norms = true}, {.gpu = true, .norms = true, .norm_rows = 5}};
    static const char text[] = "graph g @23\n input %x: %s[4, 16]\n constant %w: %s[16, 16] random 1\n"
                               " constant %g: %s[16] random 2\n %o = MatMul(%x, %w)\n"
                               " %n = LayerNormalization(%o, %g)\n %y = MatMul(%n, %w)\n output %y\n";
    for (int i = 0; i < 4; i++) {
        char made[1024];
        size_t n = 0;
        for (const char *at = text; *at; at++) {
            if (strncmp(at, "%s[", 3) != 0) {
                made[n++] = *at;
                continue;
            }
            n += (size_t)snprintf(made + n, sizeof made - n, "%s", i < 3 ? "f16" : "f32");
            at++;
        }
        made[n] = 0;
        tw_graph *before = test_graph(made), *g = test_concrete(before, "");
        tw_program *p = check_graph(g, i < 3 ? &others[i] : &folding, 6e-3);
        assert_counts(made, count(p), (counts){2, 0, 0, 1, 3});
        tw_program_free(p);
        tw_graph_free(g);
        tw_graph_free(before);
    }
}

/* Weights are as they were. */
static void check_finite(const tw_program *p) {
    for (int i = 0; i < p->n_steps; i++) {
        const tw_view *b = &p->steps[i].in[1];
        const bool product = p->steps[i].kind == TW_STEP_PRODUCT;
        for (int64_t k = 0; product && k < tw_view_elements(b); k++) assert_true(isfinite(element(p, b, k)));
    }
}

/* Weights times gains leave f16's range: the norm is stored. */
static void gains_that_are_too_large(void **state) {
    (void)state;
    for (int gated = 0; gated < 2; gated++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "graph g @23\n input %%x: f16[4, 8]\n constant %%w: f16[8, 8] random 1\n"
                 " constant %%b: f16[8, 1] {1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0}\n constant %%to: i64[2] {8, 8}\n"
                 " constant %%g: f16[8] {1.0, 60000.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0}\n"
                 " %%v = Expand(%%b, %%to)\n %%o = MatMul(%%x, %%w)\n"
                 " %%n = RMSNormalization(%%o, %%g)\n %%z = tilewright::Product(%%n, %%v) activation=\"silu\"\n"
                 " %%e = tilewright::Product(%%n, %%v, _, %s)\n %%y = MatMul(%%e, %%w)\n output %%y\n%s",
                 gated ? "%z" : "_", gated ? "" : " output %z\n");
        tw_graph *before = test_graph(text), *g = test_concrete(before, "");
        tw_program *p = NULL;
        tw_diag diag = {0};
        assert_status(tw_program_lower(&p, g, &folding, &diag), &diag);
        assert_counts(text, count(p), gated ? (counts){3, 0, 0, 1, 4} : (counts){4, 0, 0, 1, 5});
        check_steps(p);
        check_finite(p);
        tw_program_free(p);
        tw_graph_free(g);
        tw_graph_free(before);
    }
}

/* Weights times gains, and beta's shares of a bias, that f16 has no good numbers for. */
static void what_f16_has_no_numbers_for(void **state) {
    (void)state;
#define SIZES                                                                                                          \
    BEGIN " constant %small: $[1] {0.00001}\n constant %large: $[1] {40000.0}\n constant %one: $[1] {1.0}\n"           \
          " constant %rows: i64[3] {2, 3, 16}\n constant %square: i64[2] {16, 16}\n constant %tiny: $[1] "             \
          "{0.001}\n" PRODUCT " %ones = Expand(%one, %square)\n %l = Expand(%large, %sixteen)\n"
    static const struct {
        const char *lines;
        counts f16, bf16;
    } all[] = {
        {SIZES " %s = Expand(%small, %sixteen)\n %n = RMSNormalization(%o, %s)\n" END,
         {2, 0, 0, 1, 3},
         {2, 1, 0, 0, 2}},
        {SIZES " %n = LayerNormalization(%o, %g, %l)\n %y = tilewright::Product(%n, %ones) alpha=0.001\n output %y\n",
         {2, 1, 0, 0, 2},
         {2, 1, 0, 0, 2}},
        {SIZES " %n = LayerNormalization(%o, %g, %l)\n %m = Expand(%tiny, %rows)\n"
               " %y = tilewright::Product(%n, %ones, _, %m)\n output %y\n",
         {2, 0, 0, 1, 3},
         {2, 1, 0, 0, 2}},
        {SIZES " %n = LayerNormalization(%o, %g, %l)\n %y = tilewright::Product(%t, %w, %l, _, %n)\n output %y\n",
         {2, 0, 0, 1, 3},
         {2, 0, 1, 0, 2}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (int k = 0; k < 2; k++) {
            tw_graph *g;
            const counts want = k ? all[i].bf16 : all[i].f16;
            tw_program_free(check(all[i].lines, k ? "bf16" : "f16", want, k ? 5e-2 : 6e-3, &g));
            tw_graph_free(g);
        }
    }
}

/* A norm that is stored after all is stored once, and is what the step computes. */
static void norms_are_stored_late(void **state) {
    (void)state;
    tw_graph *g;
    tw_program *p = check(FIRST NORM " %p = MatMul(%n, %up)\n %q = MatMul(%n, %w)\n %c = Cast(%q) to=1\n"
                                     " %r = MatMul(%n, %w)\n %s = Cast(%r) to=1\n output %p\n output %c\n output %s\n",
                          "f16", (counts){4, 1, 0, 1, 5}, 6e-3, &g);
    assert_int_equal(p->steps[2].kind, TW_STEP_ROWS);
    assert_string_equal(p->steps[2].origin->op, "LayerNormalization");
    assert_string_equal(p->steps[3].origin->op, "MatMul");
    tw_program_free(p);
    tw_graph_free(g);
}

static void steps_say_what_they_have(void **state) {
    (void)state;
    tw_graph *g;
    static const char *const want[] = {" bias residual row sums", " bias norm=layer row sums",
                                       " bias residual residual normed", " norm=rms"};
    tw_program *p = check(FIRST NORM " %p = MatMul(%n, %w)\n %q = tilewright::Product(%t, %w, _, _, %n)\n"
                                     " %m = RMSNormalization(%p, %g)\n %r = MatMul(%m, %w)\n output %q\n output %r\n",
                          "f16", (counts){4, 2, 1, 0, 4}, 6e-3, &g);
    for (int i = 0; i < 4; i++) {
        char line[512];
        tw_step_describe(p, &p->steps[i], line, sizeof line);
        if (!strstr(line, want[i]) || strcmp(strstr(line, want[i]), want[i]) != 0) fail_msg("%d: %s", i, line);
    }
    tw_program_free(p);
    tw_graph_free(g);
}

/* ---- what is drawn */

static int pick(tw_random *r, int below) {
    return (int)tw_random_below(r, (uint64_t)below);
}

/* Adds the next value: a norm or a product, mostly in turn, of values before it, mostly of the last. */
static size_t draw_value(tw_random *r, int value, char *out, size_t size) {
    static const char *const biases[] = {"_", "%b", "%ce"}, *const activations[] = {"none", "none", "silu", "gelu"};
    static const char *const weights[] = {"%w trans_b=1", "%w", "%v", "%v trans_b=1"};
    char terms[3][16];
    for (int i = 0; i < 3; i++) snprintf(terms[i], sizeof terms[i], "%%%d", pick(r, 12) ? value - 1 : pick(r, value));
    const char *weight = weights[pick(r, 4)], *more = weight + 2, *gain = pick(r, 2) ? "%g" : "%h";
    const bool norm = (value % 2) ^ !pick(r, 8);
    const int kind = pick(r, norm ? 12 : 8);
    if (!norm)
        return kind < 3 ? (size_t)snprintf(out, size, " %%%d = RMSNormalization(%s, %s)\n", value, terms[0], gain)
                        : (size_t)snprintf(out, size, " %%%d = LayerNormalization(%s, %s%s)\n", value, terms[0], gain,
                                           pick(r, 2) ? ", %be" : "");
    if (kind < 2)
        return (size_t)snprintf(out, size,
                                " %%t%d = tilewright::Product(%s, %.2s)%s activation=\"silu\"\n"
                                " %%%d = tilewright::Product(%s, %%w, _, %%t%d)%s\n",
                                value, terms[0], weight, more, value, terms[0], value, more);
    const bool residual = kind < 5;
    return (size_t)snprintf(out, size,
                            " %%%d = tilewright::Product(%s, %.2s, %s, %s, %s)%s alpha=0.25 activation=\"%s\"\n", value,
                            residual ? "%0" : terms[0], weight, biases[pick(r, 3)], pick(r, 8) ? "_" : terms[1],
                            residual ? terms[2] : "_", more, activations[pick(r, residual ? 2 : 4)]);
}

/* Whatever is folded, programs compute what graphs do. Half of them share what is made. */
static void drawn_norms(void **state) {
    (void)state;
    enum { GRAPHS = TEST_SANITIZED ? 200 : 2000, NODES = 9 };
    counts all = {0};
    tw_contents contents = {0};
    tw_program_made made = {0};
    tw_diag diag = {0};
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        char text[8192];
        tw_random r = tw_random_seed(seed);
        size_t n =
            (size_t)snprintf(text, sizeof text,
                             "graph \"%llu\" @23\n input %%0: f16[5, 16]\n constant %%w: f16[16, 16] random 1\n"
                             " constant %%v: f16[16, 16] random 2\n constant %%g: f16[16] random 11\n"
                             " constant %%h: f16[16] random 13\n constant %%be: f16[16] random 12\n"
                             " constant %%b: f16[16] random 6\n constant %%ce: f16[16] {3.0, 2.5, 3.0, 3.5, 4.0, "
                             "2.0, 2.5, 3.0, 3.0, 3.5, 2.5, 2.0, 3.0, 3.5, 4.0, 3.0}\n",
                             (unsigned long long)seed);
        for (int i = 1; i < NODES; i++) n += draw_value(&r, i, text + n, sizeof text - n);
        snprintf(text + n, sizeof text - n, " %%a = Relu(%%%d)\n output %%a\n output %%%d\n", NODES - 1,
                 pick(&r, 2) ? NODES - 1 : pick(&r, NODES - 1) + 1);
        tw_graph *before = test_graph(text), *g = test_concrete(before, "");
        tw_program_options o = folding;
        o.made = seed % 2 ? &made : NULL;
        if (o.made) assert_status(tw_contents_share(&contents, g, &diag), &diag);
        tw_program *p = check_graph(g, &o, 0.1);
        const counts c = count(p);
        all.normed += c.normed;
        all.residual += c.residual;
        all.rows += c.rows;
        tw_program_free(p);
        tw_graph_free(g);
        tw_graph_free(before);
    }
    assert_in_range(made.n, 32, 200);
    tw_program_made_free(&made);
    tw_contents_free(&contents);
    assert_true(all.normed > GRAPHS / 2 && all.residual > GRAPHS / 20 && all.rows > GRAPHS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_behind_sums),           cmocka_unit_test(norms_before_gemms),
        cmocka_unit_test(norms_before_layers),         cmocka_unit_test(norms_before_gates),
        cmocka_unit_test(gates_have_no_beta),          cmocka_unit_test(norms_of_two_kinds),
        cmocka_unit_test(one_norm_a_product),          cmocka_unit_test(norms_that_are_stored),
        cmocka_unit_test(only_where_it_is_asked_for),  cmocka_unit_test(gains_that_are_too_large),
        cmocka_unit_test(what_f16_has_no_numbers_for), cmocka_unit_test(norms_are_stored_late),
        cmocka_unit_test(steps_say_what_they_have),    cmocka_unit_test(drawn_norms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
