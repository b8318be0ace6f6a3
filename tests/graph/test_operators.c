/* SPDX-License-Identifier: Apache-2.0 */
/* Operators at their edges: extents that are 0 or huge, operands and attributes of other kinds, integers at their
   limits. ONNX's own node tests have the usual cases. */
#include "base/diag.h"
#include "graph/run.h"
#include "support/support.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A node of constants, which is run. */
typedef struct trial {
    tw_graph *g;
    tw_node node;
    int in[12], out[4];
    tw_attribute attributes[8];
    tw_arena arena;
    tw_array results[4];
    tw_diag diag;
} trial;

static void begin(trial *t, const char *op, int results) {
    memset(t, 0, sizeof *t);
    t->g = tw_graph_new();
    const bool theirs = *op == '*'; /* Of com.microsoft. */
    t->node = (tw_node){.op = op + theirs,
                        .domain = theirs ? "com.microsoft" : "",
                        .name = "",
                        .version = theirs ? 1 : 24,
                        .in = t->in,
                        .out = t->out,
                        .attributes = t->attributes,
                        .n_out = results};
}

/* Adds an operand with dimensions; data NULL: it is left out. */
static void operand(trial *t, tw_element type, const void *data, int rank, ...) {
    tw_array a = {.type = type, .rank = rank, .data = data};
    va_list dims;
    va_start(dims, rank);
    for (int i = 0; i < rank; i++) a.dims[i] = va_arg(dims, int64_t);
    va_end(dims);
    int *value = &t->in[t->node.n_in++];
    *value = data ? tw_graph_add_value(t->g, "operand") : -1;
    if (data) tw_graph_set_content(t->g, *value, &a);
}

static void integer(trial *t, const char *name, int64_t x) {
    t->attributes[t->node.n_attributes++] = (tw_attribute){.name = name, .kind = TW_ATTRIBUTE_INT, .integer = x};
}

static void real(trial *t, const char *name, double x) {
    t->attributes[t->node.n_attributes++] = (tw_attribute){.name = name, .kind = TW_ATTRIBUTE_REAL, .real = x};
}

static void array(trial *t, const char *name, const tw_array *a) {
    t->attributes[t->node.n_attributes++] = (tw_attribute){.name = name, .kind = TW_ATTRIBUTE_ARRAY, .array = a};
}

static tw_status run(trial *t) {
    for (int i = 0; i < t->node.n_out; i++) t->out[i] = tw_graph_add_value(t->g, "result");
    t->g->outputs = t->out;
    t->g->n_outputs = t->node.n_out;
    assert_true(tw_graph_add_node(t->g, &t->node) >= 0);
    tw_status st = tw_graph_resolve(t->g, "m", &t->diag);
    return st == TW_OK ? tw_graph_run(t->g, NULL, &t->arena, t->results, &t->diag) : st;
}

static void end(trial *t) {
    tw_arena_free(&t->arena);
    tw_graph_free(t->g);
}

static void refused(trial *t, const char *words) {
    const tw_status st = run(t);
    if (st == TW_OK) fail_msg("%s is computed", t->node.op);
    if (!strstr(t->diag.message, words)) fail_msg("%s: \"%s\" lacks \"%s\"", t->node.op, t->diag.message, words);
    end(t);
}

static void text(trial *t, const char *name, const char *x) {
    t->attributes[t->node.n_attributes++] = (tw_attribute){.name = name, .kind = TW_ATTRIBUTE_TEXT, .text = x};
}

/* Checks a result's integers. */
static void gives(trial *t, int result, const int64_t *want, int64_t n) {
    if (t->results[result].type == TW_E_none && run(t) != TW_OK) fail_msg("%s", t->diag.message);
    assert_int_equal(tw_array_elements(&t->results[result]), n);
    for (int64_t i = 0; i < n; i++) assert_int_equal(tw_array_integer(&t->results[result], i), want[i]);
}

#define ONE(...) ((const int64_t[]){__VA_ARGS__})
#define DIM(n)   ((int64_t)(n))

/* ---- */

static void no_numbers_are_read_where_there_are_none(void **state) {
    (void)state;
    static const float x[16] = {0};
    trial t;
    begin(&t, "OneHot", 1);
    operand(&t, TW_E_i64, x, 1, DIM(2));
    operand(&t, TW_E_i64, x, 1, DIM(0));
    operand(&t, TW_E_f32, x, 1, DIM(2));
    refused(&t, "operand 1 is no single number");
    begin(&t, "CumSum", 1);
    operand(&t, TW_E_f32, x, 1, DIM(2));
    operand(&t, TW_E_i64, x, 1, DIM(0));
    refused(&t, "has no axis");
    begin(&t, "Trilu", 1);
    operand(&t, TW_E_f32, x, 2, DIM(2), DIM(2));
    operand(&t, TW_E_i64, x, 1, DIM(0));
    refused(&t, "operand 1 is no single number");
    begin(&t, "Dropout", 1);
    operand(&t, TW_E_f32, x, 1, DIM(2));
    operand(&t, TW_E_f32, NULL, 0);
    operand(&t, TW_E_bool, x, 1, DIM(0));
    refused(&t, "operand 2 is no single number");
}

static void attributes_have_their_kinds(void **state) {
    (void)state;
    static const int64_t two[] = {2, 2};
    static const float x[4] = {0};
    const tw_array list = {.type = TW_E_i64, .rank = 1, .dims = {2}, .data = two},
                   long_list = {.type = TW_E_f32, .rank = 1, .dims = {4}, .data = x};
    trial t;
    begin(&t, "ConstantOfShape", 1);
    operand(&t, TW_E_i64, two, 1, DIM(2));
    integer(&t, "value", 7);
    refused(&t, "the value is no tensor of one element");
    begin(&t, "Transpose", 1);
    operand(&t, TW_E_f32, x, 2, DIM(2), DIM(2));
    integer(&t, "perm", 7);
    refused(&t, "perm does not have");
    /* The result has the extents of the attribute that it is. */
    begin(&t, "Constant", 1);
    array(&t, "value_of_others", &long_list);
    array(&t, "value", &list);
    gives(&t, 0, two, 2);
    end(&t);
}

static void extents_do_not_overflow(void **state) {
    (void)state;
    static const float x[4] = {0};
    static const int64_t huge[] = {INT64_MIN, INT64_MAX, INT64_MAX};
    trial t;
    assert_int_equal(tw_array_elements(&(tw_array){.rank = 3, .dims = {0, DIM(1) << 40, DIM(1) << 40}}), -1);
    assert_int_equal(tw_array_elements(&(tw_array){.rank = 3, .dims = {DIM(1) << 40, 0, 3}}), 0);
    /* Nothing is computed for no elements, however many batches there are. */
    begin(&t, "MatMul", 1);
    operand(&t, TW_E_f32, x, 3, DIM(1) << 40, DIM(0), DIM(3));
    operand(&t, TW_E_f32, x, 2, DIM(3), DIM(0));
    gives(&t, 0, NULL, 0);
    end(&t);
    begin(&t, "Range", 1);
    for (int i = 0; i < 3; i++) operand(&t, TW_E_i64, &huge[i], 0);
    gives(&t, 0, ONE(INT64_MIN, -1, INT64_MAX - 1), 3);
    end(&t);
    begin(&t, "Split", 2);
    operand(&t, TW_E_f32, x, 1, DIM(4));
    operand(&t, TW_E_i64, &huge[1], 1, DIM(2));
    refused(&t, "has a part of 9223372036854775807, of 4");
    begin(&t, "Pad", 1);
    operand(&t, TW_E_f32, x, 1, DIM(4));
    operand(&t, TW_E_i64, huge, 1, DIM(2));
    refused(&t, "pads are no sizes");
    begin(&t, "Attention", 1);
    for (int i = 0; i < 3; i++) operand(&t, TW_E_f32, x, 3, DIM(1), DIM(1), DIM(0));
    integer(&t, "q_num_heads", DIM(1) << 62);
    integer(&t, "kv_num_heads", DIM(1) << 62);
    refused(&t, "operands do not fit");
}

static void operands_of_attention_fit(void **state) {
    (void)state;
    static const float x[64] = {0};
    static const int32_t keys[2] = {0, 0}, total = 1;
    trial t;
    begin(&t, "Attention", 1);
    for (int i = 0; i < 3; i++) operand(&t, TW_E_f32, x, 4, DIM(2), DIM(1), DIM(1), DIM(4));
    for (int i = 0; i < 3; i++) operand(&t, TW_E_f32, NULL, 0);
    operand(&t, TW_E_i64, x, 1, DIM(1));
    refused(&t, "operands do not fit");
    for (int wrong = 0; wrong < 6; wrong++) {
        begin(&t, "*GroupQueryAttention", 3);
        integer(&t, "num_heads", 2);
        integer(&t, "kv_num_heads", 2);
        operand(&t, TW_E_f32, x, 3, DIM(2), DIM(1), DIM(8));
        for (int i = 0; i < 2; i++) operand(&t, TW_E_f32, x, 3, DIM(2), DIM(1), DIM(8));
        operand(&t, TW_E_f32, x, 4, DIM(2), DIM(2), DIM(1), DIM(4));
        operand(&t, TW_E_f32, x, wrong == 1 ? 5 : 4, DIM(2), DIM(2), DIM(1), DIM(4), DIM(0));
        operand(&t, TW_E_i32, keys, 1, DIM(2));
        operand(&t, TW_E_i32, &total, 0);
        for (int i = 0; i < 2; i++) operand(&t, TW_E_f32, NULL, 0);
        operand(&t, TW_E_i64, x, 2, wrong == 2 ? DIM(1) : DIM(2), DIM(1));
        operand(&t, wrong == 4 ? TW_E_bool : TW_E_f32, x, 4, wrong == 3 ? DIM(0) : DIM(1), DIM(2), DIM(1), DIM(1));
        if (wrong == 5) {
            integer(&t, "local_window_size", 2);
            integer(&t, "causal", 0);
        }
        if (wrong) {
            refused(&t, wrong == 5   ? "a window that is not causal is not supported"
                        : wrong >= 3 ? "attention_bias does not fit"
                                     : "operands do not fit");
        } else {
            assert_int_equal(run(&t), TW_OK);
            end(&t);
        }
    }
}

/* The product of a query and a key is 6, of which a cap of 1/4 leaves little. */
static void scores_are_those_of_a_stage(void **state) {
    (void)state;
    static const float q = 2, k = 3;
    static const int64_t none = 0;
    for (int mode = 0; mode < 2; mode++) {
        trial t;
        begin(&t, "Attention", 4);
        operand(&t, TW_E_f32, &q, 4, DIM(1), DIM(1), DIM(1), DIM(1));
        for (int i = 0; i < 2; i++) operand(&t, TW_E_f32, &k, 4, DIM(1), DIM(1), DIM(1), DIM(1));
        real(&t, "softcap", 0.25);
        integer(&t, "qk_matmul_output_mode", mode);
        gives(&t, 3, mode ? &none : ONE(6), 1);
        end(&t);
    }
}

static void integers_at_their_limits(void **state) {
    (void)state;
    static const int64_t least = INT64_MIN, many[] = {INT64_MAX - 1, INT64_MAX, INT64_MAX - 2};
    static const uint64_t most = UINT64_MAX, two[] = {1, UINT64_MAX};
    static const int64_t one = 1;
    trial t;
    begin(&t, "Abs", 1);
    operand(&t, TW_E_i64, &least, 0);
    gives(&t, 0, &least, 1);
    end(&t);
    static const char *const keep[] = {"Abs", "Relu"};
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++) {
        begin(&t, keep[i], 1);
        operand(&t, TW_E_u64, &most, 0);
        gives(&t, 0, ONE(-1), 1);
        end(&t);
    }
    begin(&t, "ReduceMax", 1);
    operand(&t, TW_E_u64, two, 1, DIM(2));
    gives(&t, 0, ONE(-1), 1);
    end(&t);
    begin(&t, "ReduceMin", 1); /* Of nothing. */
    operand(&t, TW_E_i32, two, 1, DIM(0));
    gives(&t, 0, ONE(INT32_MAX), 1);
    end(&t);
    begin(&t, "Cast", 1);
    operand(&t, TW_E_u64, &most, 0);
    integer(&t, "to", 11);
    assert_int_equal(run(&t), TW_OK);
    assert_true(tw_array_real(&t.results[0], 0) == 18446744073709551616.0);
    end(&t);
    /* Doubles hold none of these. */
    begin(&t, "ArgMax", 1);
    operand(&t, TW_E_i64, many, 1, DIM(3));
    gives(&t, 0, &one, 1);
    end(&t);
    begin(&t, "TopK", 2);
    operand(&t, TW_E_i64, many, 1, DIM(3));
    operand(&t, TW_E_i64, ONE(3), 1, DIM(1));
    gives(&t, 1, ONE(1, 0, 2), 3);
    end(&t);
}

static void slices_backwards_begin_within(void **state) {
    (void)state;
    static const int64_t x[] = {10, 11, 12};
    trial t;
    begin(&t, "Slice", 1);
    operand(&t, TW_E_i64, x, 1, DIM(3));
    operand(&t, TW_E_i64, ONE(-9), 1, DIM(1));
    operand(&t, TW_E_i64, ONE(-99), 1, DIM(1));
    operand(&t, TW_E_i64, ONE(0), 1, DIM(1));
    operand(&t, TW_E_i64, ONE(-1), 1, DIM(1));
    gives(&t, 0, ONE(10), 1);
    end(&t);
}

static void blocks_begin_with_a_byte(void **state) {
    (void)state;
    static const uint8_t x[128] = {0};
    trial t;
    begin(&t, "*MatMulNBits", 1);
    operand(&t, TW_E_f32, x, 2, DIM(1), DIM(17));
    operand(&t, TW_E_u8, x, 3, DIM(1), DIM(1), DIM(8));
    operand(&t, TW_E_f32, x, 2, DIM(1), DIM(1));
    integer(&t, "K", 17);
    integer(&t, "N", 1);
    integer(&t, "block_size", 17);
    refused(&t, "operands do not fit");
}

static void axes_come_once(void **state) {
    (void)state;
    static const int64_t x[] = {1, 2, 3};
    trial t;
    begin(&t, "Slice", 1);
    operand(&t, TW_E_i64, x, 1, DIM(3));
    operand(&t, TW_E_i64, ONE(1, 0), 1, DIM(2));
    operand(&t, TW_E_i64, ONE(3, 3), 1, DIM(2));
    operand(&t, TW_E_i64, ONE(0, -1), 1, DIM(2));
    refused(&t, "has an axis twice");
    begin(&t, "Pad", 1);
    operand(&t, TW_E_i64, x, 1, DIM(3));
    operand(&t, TW_E_i64, ONE(1, 2, 0, 0), 1, DIM(4));
    operand(&t, TW_E_i64, NULL, 0);
    operand(&t, TW_E_i64, ONE(0, -1), 1, DIM(2));
    refused(&t, "has an axis twice");
}

static void what_is_cut_pads_nothing(void **state) {
    (void)state;
    static const struct {
        const char *mode;
        int64_t want[6];
    } of[] = {{"constant", {2, 3, 4, 0, 0, 0}},
              {"edge", {2, 3, 4, 4, 4, 4}},
              {"wrap", {2, 3, 4, 2, 3, 4}},
              {"reflect", {2, 3, 4, 3, 2, 3}}};
    static const int64_t x[] = {1, 2, 3, 4};
    trial t;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        begin(&t, "Pad", 1);
        text(&t, "mode", of[i].mode);
        operand(&t, TW_E_i64, x, 1, DIM(4));
        operand(&t, TW_E_i64, ONE(-1, 3), 1, DIM(2));
        gives(&t, 0, of[i].want, 6);
        end(&t);
    }
    begin(&t, "Pad", 1);
    text(&t, "mode", "wrap");
    operand(&t, TW_E_i64, x, 1, DIM(4));
    operand(&t, TW_E_i64, ONE(-4, 1), 1, DIM(2));
    refused(&t, "there is nothing to pad with");
}

static void checks_no_number(trial *t) {
    assert_int_equal(run(t), TW_OK);
    assert_true(isnan(tw_array_real(&t->results[0], 0)));
    end(t);
}

static void no_numbers_are_not_lost(void **state) {
    (void)state;
    static const float nan[] = {NAN}, one[] = {1}, line[] = {NAN, 2, NAN, 3};
    static const char *const activations[] = {"Celu", "HardSigmoid", "Elu", "Selu", "LeakyRelu", "HardSwish", "Relu"},
                             *const reductions[] = {"add", "mul", "max", "min"}, *const places[] = {"ArgMax", "ArgMin"};
    trial t;
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        begin(&t, activations[i], 1);
        operand(&t, TW_E_f32, nan, 1, DIM(1));
        checks_no_number(&t);
    }
    for (int i = 0; i < 8; i++) {
        begin(&t, "ScatterElements", 1);
        text(&t, "reduction", reductions[i / 2]);
        operand(&t, TW_E_f32, i % 2 ? nan : one, 1, DIM(1));
        operand(&t, TW_E_i64, ONE(0), 1, DIM(1));
        operand(&t, TW_E_f32, i % 2 ? one : nan, 1, DIM(1));
        checks_no_number(&t);
    }
    for (int i = 0; i < 4; i++) {
        begin(&t, places[i / 2], 1);
        integer(&t, "select_last_index", i % 2);
        operand(&t, TW_E_f32, line + 1, 1, DIM(3));
        gives(&t, 0, ONE(1), 1);
        end(&t);
        begin(&t, places[i / 2], 1);
        integer(&t, "select_last_index", i % 2);
        operand(&t, TW_E_f32, line, 1, DIM(4));
        gives(&t, 0, ONE(i % 2 ? 2 : 0), 1);
        end(&t);
    }
    begin(&t, "Hardmax", 1);
    operand(&t, TW_E_f32, line + 1, 1, DIM(3));
    assert_int_equal(run(&t), TW_OK);
    for (int i = 0; i < 3; i++) assert_true(tw_array_real(&t.results[0], i) == (i == 1));
    end(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_numbers_are_read_where_there_are_none),
        cmocka_unit_test(attributes_have_their_kinds),
        cmocka_unit_test(extents_do_not_overflow),
        cmocka_unit_test(operands_of_attention_fit),
        cmocka_unit_test(scores_are_those_of_a_stage),
        cmocka_unit_test(integers_at_their_limits),
        cmocka_unit_test(slices_backwards_begin_within),
        cmocka_unit_test(axes_come_once),
        cmocka_unit_test(what_is_cut_pads_nothing),
        cmocka_unit_test(no_numbers_are_not_lost),
        cmocka_unit_test(blocks_begin_with_a_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
