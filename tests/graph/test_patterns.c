/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns: each row of patterns.def finds its test graph, what it becomes gives the same results, and nothing is found
   where it would be wrong. */
#include "base/diag.h"
#include "support/patterns.h"
#include "support/support.h"

#include <string.h>

/* ---- norms */

#define MEAN(x) "ReduceMean(" x ") axes=[-1]"

static void layer_norms_are_found_in_all_spellings(void **state) {
    (void)state;
#define LAYER(body) "x 2,3,8; g! 8; b! 8", "d=Sub(x, " MEAN("x") "); " body, "LayerNormalization", "layer norm"
    static const test_trial t[] = {
        {LAYER("Add(Mul(Div(d, Sqrt(Add(" MEAN("Pow(d, 2)") ", 1e-5))), g), b)")},
        {LAYER("Add(b, Mul(g, Div(d, Sqrt(Add(1e-5, " MEAN("Mul(d, d)") ")))))")},
        {LAYER("Add(Mul(Mul(d, Reciprocal(Sqrt(Add(" MEAN("Mul(d, d)") ", 1e-5)))), g), b)")},
        {LAYER("Add(Mul(Mul(Div(1, Sqrt(Add(" MEAN("Mul(d, d)") ", 1e-5))), d), g), b)")},
        {LAYER("Mul(Div(d, Sqrt(Add(" MEAN("Pow(d, 2)") ", 1e-5))), g)")},
        {LAYER("Div(d, Sqrt(Add(" MEAN("Pow(d, 2)") ", 1e-12)))")},
        {LAYER("Mul(d, Pow(Add(" MEAN("Pow(d, 2)") ", 0.1), -0.5))")},
        {LAYER("Div(d, Pow(Add(" MEAN("Pow(d, 2)") ", 0.1), 0.5))")},
        /* The mean is taken twice. */
        {"x 2,3,8", "d=Sub(x, " MEAN("x") "); Div(Sub(x, " MEAN("x") "), Sqrt(Add(" MEAN("Pow(d, 2)") ", 1e-5)))",
         "LayerNormalization", "layer norm"},
        /* The variance is the mean of squares less the square of the mean. */
        {"x 2,3,8; g! 8; b! 8",
         "m=" MEAN("x") "; s=Sub(" MEAN("Mul(x, x)") ", Mul(m, m)); Add(Mul(Div(Sub(x, m), Sqrt(Add(s, 1e-5))), g), b)",
         "LayerNormalization", "layer norm"},
        {"x 2,3,8",
         "m=" MEAN("x") "; s=Sub(" MEAN("Pow(x, 2)") ", Pow(m, 2)); Mul(Sub(x, m), Reciprocal(Sqrt(Add(s, 0.1))))",
         "LayerNormalization", "layer norm"},
        {"x 2,3,8; g! f64 2,3,1", "s=Sub(" MEAN("Pow(x, 2)") ", Pow(g, 2)); Div(Sub(x, g), Sqrt(Add(s, 9)))",
         "Pow ReduceMean Sub Sub Add Sqrt Div", NULL},
        {"x f16 2,3,8; g! f16 8", "c=Cast(x) to=1; Mul(Cast(LayerNormalization(c, ones(c)) axis=-1) to=10, g)",
         "LayerNormalization", "norm's cast"},
        {"x 2,3,8; s 2,3,8; g! 8; b! 8", "*SkipLayerNormalization(x, s, g, b) epsilon=0.1", "Add LayerNormalization",
         "norm of a sum"},
        {"x 2,3,8; s 2,3,8; g! 8", "*SkipLayerNormalization(x, s, g)", "Add LayerNormalization", "norm of a sum"},
        {"x 2,3,8; s 2,3,8; g! 8; b! 8; c! 8", "*SkipLayerNormalization(x, s, g, b, c)", "Add Add LayerNormalization",
         "norm of a sum"},
    };
    CHECK_ALL(t);
}

static void rms_norms_are_found_in_all_spellings(void **state) {
    (void)state;
#define RMS(body) "x 2,3,8; g! 8", body, "RMSNormalization", "RMS norm"
    static const test_trial t[] = {
        {RMS("Mul(g, Mul(x, Reciprocal(Sqrt(Add(" MEAN("Pow(x, 2)") ", 1e-5)))))")},
        {RMS("Mul(Div(x, Sqrt(Add(" MEAN("Mul(x, x)") ", 0.1))), g)")},
        {RMS("Mul(x, Pow(Add(" MEAN("Pow(x, 2)") ", 0.1), -0.5))")},
        {RMS("Mul(Mul(x, Div(1, Sqrt(Add(" MEAN("Mul(x, x)") ", 0.1)))), g)")},
        {RMS("SimplifiedLayerNormalization(x, g) epsilon=0.1")},
        {"x f16 2,3,8; g! f16 8; e! tenth",
         "c=Cast(x) to=1; Mul(g, Cast(Mul(c, Reciprocal(Sqrt(Add(" MEAN("Mul(c, c)") ", e))))) to=10)",
         "RMSNormalization", "norm's cast"},
        {"x 2,3,8; s 2,3,8; g! 8", "*SkipSimplifiedLayerNormalization(x, s, g) epsilon=0.1", "Add RMSNormalization",
         "norm of a sum"},
        {"x 2,3,8; s 2,3,8; g! 8; b! 8", "*SkipSimplifiedLayerNormalization(x, s, g, b)", "Add Add RMSNormalization",
         "norm of a sum"},
    };
    CHECK_ALL(t);
}

static void what_is_no_norm_stays(void **state) {
    (void)state;
    static const test_trial t[] = {
        /* Over another axis, with another power, with a root of something else. */
        {"x 2,3,8", "Mul(x, Reciprocal(Sqrt(Add(ReduceMean(Pow(x, 2)) axes=[1], 0.1))))",
         "Pow ReduceMean Add Sqrt Reciprocal Mul", NULL},
        {"x 2,3,8", "Mul(x, Reciprocal(Sqrt(Add(ReduceMean(Pow(x, 2)) axes=[1, 2], 0.1))))",
         "Pow ReduceMean Add Sqrt Reciprocal Mul", NULL},
        {"x 2,3,8", "Mul(x, Reciprocal(Sqrt(Add(" MEAN("Pow(x, 3)") ", 0.1))))",
         "Pow ReduceMean Add Sqrt Reciprocal Mul", NULL},
        {"x 2,3,8; y 2,3,8", "Mul(x, Reciprocal(Sqrt(Add(" MEAN("Pow(y, 2)") ", 0.1))))",
         "Pow ReduceMean Add Sqrt Reciprocal Mul", NULL},
        /* Others want what is within. */
        {"x 2,3,8", "r=Reciprocal(Sqrt(Add(" MEAN("Pow(x, 2)") ", 0.1)))@0; Mul(x, r)",
         "Pow ReduceMean Add Sqrt Reciprocal Mul", NULL},
        {"x 2,3,8", "r=Sqrt(Add(" MEAN("Pow(x, 2)") ", 0.1)); Add(Div(x, r), r)", "Pow ReduceMean Add Sqrt Div Add",
         NULL},
    };
    CHECK_ALL(t);
}

/* ---- activations */

static void activations_are_found_in_all_spellings(void **state) {
    (void)state;
#define GATE          "Add(Erf(Div(x, 1.4142135623730951)), 1)"
#define TANH          "Add(1, Tanh(Mul(Add(x, Mul(Pow(x, 3), 0.044715)), 0.7978845608028654)))"
#define ERF(body)     "x 2,3,8", body, "Gelu", "GELU (erf)"
#define BY_TANH(body) "x 2,3,8", body, "Gelu", "GELU (tanh)"
    static const test_trial t[] = {
        {ERF("Mul(Mul(x, " GATE "), 0.5)")},
        {ERF("Mul(0.5, Mul(" GATE ", x))")},
        {ERF("Mul(x, Mul(0.5, " GATE "))")},
        {ERF("Mul(Mul(0.5, x), Add(1, Erf(Mul(x, 0.70710678))))")},
        {ERF("*Gelu(x)")},
        {BY_TANH("Mul(Mul(x, 0.5), " TANH ")")},
        {BY_TANH("Mul(x, Mul(" TANH ", 0.5))")},
        {BY_TANH("Mul(Mul(x, " TANH "), 0.5)")},
        {BY_TANH("Mul(Mul(x, 0.5), Add(Tanh(Mul(Add(x, Mul(Mul(x, Mul(x, x)), 0.044715)), 0.79788456)), 1))")},
        {BY_TANH("Mul(Mul(x, 0.5), Add(Tanh(Mul(Mul(x, 0.79788456), Add(1, Mul(Mul(x, 0.044715), x)))), 1))")},
        {BY_TANH("Mul(Mul(x, 0.5), Add(Tanh(Mul(Mul(x, 0.79788456), Add(1, Mul(Mul(x, x), 0.044715)))), 1))")},
        {BY_TANH("Mul(Mul(x, 0.5), Add(Tanh(Mul(Mul(x, Add(1, Mul(Mul(x, x), 0.044715))), 0.79788456)), 1))")},
        {BY_TANH("*FastGelu(x)")},
        {"x 2,3,8; b! 8", "*FastGelu(x, b)", "Add Gelu", "GELU (tanh)"},
        {"x 2,3,8; b! 8", "*BiasGelu(x, b)", "Add Gelu", "GELU (erf)"},
        {"x 2,3,8", "Mul(Sigmoid(x), x)", "Swish", "SiLU"},
        {"x 2,3,8", "Div(x, Add(1, Exp(Neg(x))))", "Swish", "SiLU"},
        /* Other numbers. */
        {"x 2,3,8", "Mul(Mul(x, " GATE "), 0.51)", "Div Erf Add Mul Mul", NULL},
        {"x 2,3,8; y 2,3,8", "Mul(Mul(y, " GATE "), 0.5)", "Div Erf Add Mul Mul", NULL},
    };
    CHECK_ALL(t);
}

/* ---- views */

static void views_are_joined(void **state) {
    (void)state;
    static const test_trial t[] = {
        {"x 2,3,8; s! = 6,8; t! = 2,3,8", "Sqrt(Reshape(Reshape(x, s), t))", "Sqrt", NULL},
        {"x 2,3,8; s! = 6,8; t! = 2,24", "Sqrt(Reshape(Reshape(x, s), t))", "Reshape Sqrt", NULL},
        {"x 2,3,8", "Sqrt(Transpose(Transpose(x) perm=[1, 2, 0]) perm=[2, 0, 1])", "Sqrt", NULL},
        {"x 2,3,8", "Sqrt(Transpose(Transpose(x) perm=[1, 2, 0]) perm=[1, 0, 2])", "Transpose Sqrt", NULL},
        {"x 2,3,4,5; s! = 6,4,5; t! = 2,3,5,4", "Sqrt(Reshape(Transpose(Reshape(x, s)) perm=[0, 2, 1], t))",
         "Transpose Sqrt", NULL},
        {"x 2,3,1,4,5; s! = 6,4,5; t! = 2,3,5,4", "Sqrt(Reshape(Transpose(Reshape(x, s)) perm=[0, 2, 1], t))",
         "Reshape Transpose Sqrt", "transpose"},
        {"x 2,3,8; a! = 1", "Sqrt(Unsqueeze(x, a))", "Reshape Sqrt", NULL},
        {"x 2,1,8; a! = 1", "Sqrt(Squeeze(x, a))", "Reshape Sqrt", NULL},
        {"x 2,3,8", "Sqrt(Flatten(x) axis=2)", "Reshape Sqrt", NULL},
        {"x 2,3,8; y 8", "Sum(x, y)", "Add", "sum"},
        {"x 2,1,8; r! = 1,3,1", "Sqrt(Tile(x, r))", "Expand Sqrt", "expand"},
        {"x 2,2,8; r! = 1,3,1", "Sqrt(Tile(x, r))", "Tile Sqrt", NULL},
        {"x 5,8; i! count 2,2,1", "Sqrt(GatherND(x, i))", "Gather Sqrt", "gather"},
        {"x 2,4,8; i! count 2,2,1", "Sqrt(GatherND(x, i) batch_dims=1)", "GatherND Sqrt", NULL},
        /* An output keeps its name, and an input stays one. */
        {"x 2,3,8; s! = 2,3,8", "Reshape(Sqrt(x), s)", "Sqrt", NULL},
        {"x 2,3,8; s! = 2,3,8", "Reshape(x, s)", "Reshape", NULL},
    };
    CHECK_ALL(t);
}

/* ---- products */

static void products_take_what_is_around_them(void **state) {
    (void)state;
#define OF "x 2,3,8; w! 8,4; b! 4; r 2,3,4; c! 1,1,4; "
    static const test_trial t[] = {
        {OF, "MatMul(x, w)", "Product", "product"},
        {OF, "Add(MatMul(x, w), b)", "Product", "product and bias"},
        {OF, "Add(c, MatMul(x, w))", "Product", "product and bias"},
        {OF, "Add(r, Add(MatMul(x, w), b))", "Product", "product and residual"},
        {OF, "Add(Add(MatMul(x, w), b), r)", "Product", "product and residual"},
        {OF, "Gelu(Add(MatMul(x, w), b)) approximate=\"none\"", "Product", "product and activation"},
        {OF, "Gelu(Add(MatMul(x, w), b)) approximate=\"tanh\"", "Product", "product and activation"},
        {OF, "Relu(MatMul(x, w))", "Product", "product and activation"},
        {OF, "Tanh(Add(MatMul(x, w), b))", "Product", "product and activation"},
        {OF, "q=Add(MatMul(x, w), b); Mul(q, Sigmoid(q))", "Product", "product and activation"},
        {OF, "Add(Mul(Relu(Add(MatMul(x, w), b)), r), r)", "Product", "product and factors"},
        {OF, "Add(Mul(MatMul(x, w), 0.5), b)", "Product", NULL},
        {OF, "Div(MatMul(x, w), 4)", "Product", "product's factor"},
        {OF "y 2,3,4", "Add(Mul(Add(MatMul(x, w), b), r), y)", "Product", "product and residual"},
        {"x 6,8; w! 4,8; b! 4", "Gemm(x, w, b) transB=1", "Product", "product and bias"},
        {"x 8,6; w! 8,4; b! 4", "Gemm(x, w, b) transA=1 alpha=0.5 beta=2", "Product", "product and bias"},
        {"x 8,6; w! 8,4; b 6,4", "Gemm(x, w, b) transA=1 beta=0.5", "Mul Product", "product and bias"},
        {"x 6,8; w! 8,4", "Gemm(x, w) alpha=3", "Product", "product"},
        {"x 2,3,8; w 4,8", "MatMul(x, Transpose(w) perm=[1, 0])", "Product", "product"},
        {"x 2,8,3; w! 8,4", "MatMul(Transpose(x) perm=[0, 2, 1], w)", "Product", "product"},
        {"x 2,3,4,8; y 2,3,5,8", "MatMul(x, Transpose(y) perm=[0, 1, 3, 2])", "Product", "product"},
        {OF "s! = 6,8; t! = 2,3,4", "Add(Reshape(Gemm(Reshape(x, s), w, b), t), r)", "Product", "product's rows"},
        {OF, "Add(Add(r, MatMul(x, w)), b)", "Product", "product and bias"},
        /* A residual, of which there is one already. */
        {OF, "Add(Add(Add(MatMul(x, w), b), r), Sqrt(Mul(r, r)))", "Product Mul Sqrt Add", NULL},
        /* An activation of a product that has a factor. */
        {OF, "Relu(Mul(MatMul(x, w), r))", "Product Relu", NULL},
        {OF "s! = 6,8; t! = 2,3,4", "Reshape(Gemm(Reshape(x, s), w, b), t)", "Product", "product's rows"},
        /* A bias that is no row. */
        {"x 2,3,8; w! 8,4; b! 3,1", "Add(MatMul(x, w), b)", "Product Add", NULL},
        /* A gated layer: the gate's activation, and the other's factor. */
        {OF "u! 8,4", "q=MatMul(x, w); Mul(Mul(q, Sigmoid(q)), MatMul(x, u))", "Product Product",
         "product and factors"},
    };
    CHECK_ALL(t);
}

static void gates_and_values_of_one_product_are_two(void **state) {
    (void)state;
#define BOTH "x 2,3,8; w! 8,12; b! 12; o! = 0; h! = 6; e! = 12; l! = -1; i! = 2; "
    static const test_trial t[] = {
        {BOTH, "p=MatMul(x, w); Mul(Swish(Slice(p, o, h, l)), Slice(p, h, e, i))", "Product Product",
         "gates and values"},
        {BOTH, "p=Add(MatMul(x, w), b); Mul(Slice(p, o, h, l), Gelu(Slice(p, h, e, l)))", "Product Product",
         "gates and values"},
        {"x 6,8; w! 12,8; b! 12; o! = 0; h! = 6; e! = 12; l! = -1",
         "p=Gemm(x, w, b) transB=1; Mul(Swish(Slice(p, o, h, l)), Slice(p, h, e, l))", "Product Product",
         "gates and values"},
        /* Others want a part, or all. */
        {BOTH, "p=MatMul(x, w); g=Slice(p, o, h, l); Add(Mul(Swish(g), Slice(p, h, e, l)), g)",
         "Product Slice Swish Slice Mul Add", NULL},
        {BOTH, "p=MatMul(x, w)@0; Mul(Swish(Slice(p, o, h, l)), Slice(p, h, e, l))", "Product Slice Swish Slice Mul",
         NULL},
        /* Another axis. */
        {"x 2,6,8; w! 8,12; o! = 0; h! = 3; e! = 6; l! = 1",
         "p=MatMul(x, w); Mul(Swish(Slice(p, o, h, l)), Slice(p, h, e, l))", "Product Slice Swish Slice Mul", NULL},
    };
    CHECK_ALL(t);
}

static void products_of_one_operand_are_joined(void **state) {
    (void)state;
#define THREE "x 2,3,8; a! 8,4; b! 8,2; c! 8,6; i! 4; j! 2; k! 6; "
    static const test_trial t[] = {
        {THREE, "p=Add(MatMul(x, a), i)@0; q=Add(MatMul(x, b), j)@0; Add(MatMul(x, c), k)", "Product Split",
         "products joined"},
        {THREE, "p=MatMul(x, a)@0; MatMul(x, b)", "Product Split", "products joined"},
        /* One of them has no bias. */
        {THREE, "p=MatMul(x, a)@0; Add(MatMul(x, b), j)", "Product Split", "products joined"},
        {"x 6,8; a! 8,4; b! 2,8; i! 4; j! 2", "p=Gemm(x, a, i)@0; Gemm(x, b, j) transB=1", "Product Product", NULL},
        {"x 6,8; a! 4,8; b! 2,8; i! 4; j! 2", "p=Gemm(x, a, i) transB=1@0; Gemm(x, b, j) transB=1", "Product Split",
         "products joined"},
        /* Other operands, and activations. */
        {THREE "y 2,3,8", "p=MatMul(x, a)@0; MatMul(y, b)", "Product Product", NULL},
        {THREE, "p=Relu(MatMul(x, a))@0; MatMul(x, b)", "Product Product", NULL},
    };
    CHECK_ALL(t);
}

/* ---- the table, and what is shown */

static void what_was_found_is_shown(void **state) {
    (void)state;
    test_pattern m = test_pattern_make("x 2,3,8; w! 8,4; b! 4", "Relu(Add(MatMul(x, w), b))");
    tw_fusions found = {0};
    tw_diag diag = {0};
    tw_buf out = {0};
    assert_int_equal(tw_graph_fuse(m.g, &found, &diag), TW_OK);
    tw_fusions_print(&found, true, &out);
    assert_string_equal(out.data, "    1  product (1 nodes)\n         (no name)\n"
                                  "    1  product and bias (2 nodes)\n         (no name)\n"
                                  "    1  product and activation (2 nodes)\n         (no name)\n");
    tw_buf_clear(&out);
    tw_graph_dot(m.g, &out);
    assert_non_null(strstr(out.data, "n0 [label=\"Product\\nactivation relu\"]"));
    assert_non_null(strstr(out.data, "[label=\"f64 2x3x8\"]"));
    tw_buf_free(&out);
    tw_fusions_free(&found);
    test_pattern_end(&m);
}

static void rows_that_cannot_be_read_say_where(void **state) {
    (void)state;
    static const char *const texts[] = {"Add(x", "Add(x, y))",      "Add:never(x)", "x[1:y]",
                                        "{x|y",  "Add(x, y) axis=", "1 2"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tw_arena arena = {0};
        tw_term_names names = {0};
        tw_diag diag = {0};
        tw_term *t;
        assert_int_equal(tw_term_read(&t, texts[i], &names, &arena, &diag), TW_ERR_FORMAT);
        assert_non_null(strstr(diag.message, texts[i]));
        tw_arena_free(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norms_are_found_in_all_spellings),
        cmocka_unit_test(rms_norms_are_found_in_all_spellings),
        cmocka_unit_test(what_is_no_norm_stays),
        cmocka_unit_test(activations_are_found_in_all_spellings),
        cmocka_unit_test(views_are_joined),
        cmocka_unit_test(products_take_what_is_around_them),
        cmocka_unit_test(gates_and_values_of_one_product_are_two),
        cmocka_unit_test(products_of_one_operand_are_joined),
        cmocka_unit_test(what_was_found_is_shown),
        cmocka_unit_test(rows_that_cannot_be_read_say_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
