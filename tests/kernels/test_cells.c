/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of elements: their text both ways, their values, and what makes no sense. */
#include "support/support.h"

#include "kernels/pointwise/expression.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Operands of every class. */
static const tw_memory_type types[] = {TW_M_f32, TW_M_f16, TW_M_i64, TW_M_u8, TW_M_bool, TW_M_f64};
enum { TYPES = sizeof types / sizeof *types };

static void texts_are_read_and_written(void **state) {
    (void)state;
    static const struct {
        const char *text, *again;
    } of[] = {
        {"add(mul(x0,0.5),x1)", NULL},
        {" add( mul(x0, 5e-1) ,x1 ) ", "add(mul(x0,0.5),x1)"},
        {"c0=exp(x0);div(c0,add(c0,1.0))", NULL},
        {"c0=exp(x0);c1=add(c0,c0);mul(c1,c1)", NULL},
        {"mul(exp(x0),exp(x0))", "c0=exp(x0);mul(c0,c0)"},
        {"where(less(x2,d1),x0,-inf)", NULL},
        {"where(x4,x0,2)", "where(x4,x0,2.0)"},
        {"and(x4,not(equal(x2,-3)))", NULL},
        {"add(x2,3)", NULL},
        {"add(x0,3)", "add(x0,3.0)"},
        {"add(add(1,2),x2)", "add(3,x2)"},
        {"pow(x0,2)", "mul(x0,x0)"},
        {"pow(x0,0.5)", "sqrt(x0)"},
        {"pow(x0,2.5)", NULL},
        {"powi(x2,0)", "1"},
        {"powi(x2,1)", "x2"},
        {"powi(x2,2)", "mul(x2,x2)"},
        {"powi(x2,3)", "mul(mul(x2,x2),x2)"},
        {"powi(x2,4)", NULL},
        {"powi(x2,-1)", NULL},
        {"real(real(x2))", "real(x2)"},
        {"where(true,x0,nan)", NULL},
        {"exp(1)", "2.71828175"},
        {"add(x5,0.1)", "add(x5,0.10000000000000001d)"},
        {"add(1,mul(x5,-2))", "add(1d,mul(x5,-2d))"},
        {"where(x4,x5,inf)", "where(x4,x5,infd)"},
        {"add(x5,exp(1d))", "add(x5,2.7182818284590451d)"},
        {"add(real(x5),x0)", NULL},
        {"add(x5,double(x0))", NULL},
        {"double(0.1)", "0.10000000149011612d"},
        {"c0=neg(3);add(x5,c0)", "add(x5,-3d)"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char text[TW_CELLS_TEXT];
        tw_cells e;
        tw_diag d;
        if (tw_cells_parse(&e, of[i].text, types, TYPES, &d) != TW_OK) fail_msg("%s: %s", of[i].text, d.message);
        const size_t n = tw_cells_print(&e, text, sizeof text);
        assert_string_equal(text, of[i].again ? of[i].again : of[i].text);
        assert_int_equal(n, strlen(text));
    }
}

static void senseless_texts_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
    } of[] = {{"", "missing"},
              {"x9", "no such operand"},
              {"add(x0)", "another operand"},
              {"add(x0,x2)", "wrong classes"},
              {"add(x0,x5)", "wrong classes"},
              {"tanh(x5)", "wrong classes"},
              {"and(x0,x4)", "wrong classes"},
              {"add(x4,x4)", "wrong classes"},
              {"where(x0,x0,x0)", "wrong classes"},
              {"where(x4,x0,x2)", "wrong classes"},
              {"exp(x2)", "wrong classes"},
              {"mod(x0,x1)", "wrong classes"},
              {"c0", "no such name"},
              {"c0=x0", "\";\" is missing"},
              {"c1=x0;c1", "no such name"},
              {"exp(x0", "\")\" is missing"},
              {"exp x0", "\"(\" is missing"},
              {"x0 x1", "has ended"},
              {"frobnicate(x0)", "missing"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        tw_cells e;
        tw_diag d;
        assert_int_equal(tw_cells_parse(&e, of[i].text, types, TYPES, &d), TW_ERR_USAGE);
        if (!strstr(d.message, of[i].why)) fail_msg("%s: %s", of[i].text, d.message);
        assert_true(e.failed);
    }
    char deep[2000] = "", *at = deep;
    for (int i = 0; i < 200; i++) at += snprintf(at, 9, "neg(");
    tw_cells e;
    tw_diag d;
    assert_int_equal(tw_cells_parse(&e, deep, types, TYPES, &d), TW_ERR_USAGE);
    assert_non_null(strstr(d.message, "too deep"));
    /* One cell more than there may be. */
    at = deep + snprintf(deep, sizeof deep, "x0");
    for (int i = 1; i < TW_CELLS + 1; i++) {
        char all[sizeof deep];
        snprintf(all, sizeof all, "add(%.1900s,%d.5)", deep, i);
        snprintf(deep, sizeof deep, "%s", all);
        if (strlen(deep) > 1500) break;
    }
    assert_int_equal(tw_cells_parse(&e, deep, types, TYPES, &d), TW_ERR_USAGE);
}

static double value_of(const char *text, double x, int64_t whole, bool truth) {
    tw_cells e;
    tw_diag d;
    const tw_cell_value operands[] = {{.real = x}, {.real = 2}, {.whole = whole}, {.whole = 7}, {.whole = truth}};
    if (tw_cells_parse(&e, text, types, TYPES, &d) != TW_OK) fail_msg("%s: %s", text, d.message);
    const tw_cell_value y = tw_cells_compute(&e, operands, (int64_t[]){5, 6});
    return tw_cells_class(&e) == TW_CLASS_real ? y.real : (double)y.whole;
}

static void values_are_what_they_say(void **state) {
    (void)state;
    assert_float_equal(value_of("gelu_erf(x0)", 1, 0, false), 0.8413447, 1e-6f);
    assert_float_equal(value_of("gelu(x0)", 1, 0, false), 0.8411920, 1e-6f);
    assert_float_equal(value_of("silu(x0)", 1, 0, false), 0.7310586, 1e-6f);
    assert_float_equal(value_of("rsqrt(x0)", 4, 0, false), 0.5, 1e-6f);
    assert_float_equal(value_of("round(x0)", 2.5, 0, false), 2, 0);
    assert_float_equal(value_of("rem(x0,x1)", -3, 0, false), -1, 0);
    assert_float_equal(value_of("f16(x0)", 1.0001, 0, false), 1, 0);
    assert_true(isnan(value_of("max(x0,x1)", (double)NAN, 0, false)));
    assert_true(isnan(value_of("max(x1,x0)", (double)NAN, 0, false)));
    assert_true(isnan(value_of("relu(x0)", (double)NAN, 0, false)));
    assert_float_equal(value_of("mod(x2,x3)", 0, -3, false), 4, 0);
    assert_float_equal(value_of("rem(x2,x3)", 0, -3, false), -3, 0);
    assert_float_equal(value_of("div(x2,sub(x3,7))", 0, -3, false), 0, 0);
    assert_float_equal(value_of("sub(divu(x2,x3),2635249153387078802)", 0, -1, false), 0, 0);
    assert_float_equal(value_of("remu(x2,x3)", 0, -1, false), 1, 0);
    assert_float_equal(value_of("divu(x2,sub(x3,7))", 0, -1, false), 0, 0);
    assert_float_equal(value_of("remu(x2,sub(x3,7))", 0, -1, false), 0, 0);
    assert_float_equal(value_of("u8(x2)", 0, -1, false), 255, 0);
    assert_float_equal(value_of("i8(x2)", 0, 200, false), -56, 0);
    assert_float_equal(value_of("integer(x0)", -2.9, 0, false), -2, 0);
    assert_float_equal(value_of("integer(x0)", (double)NAN, 0, false), 0, 0);
    assert_float_equal(value_of("where(x4,x2,x3)", 0, 9, true), 9, 0);
    assert_float_equal(value_of("where(x4,x2,x3)", 0, 9, false), 7, 0);
    assert_float_equal(value_of("real(and(less(x2,x3),x4))", 0, 3, true), 1, 0);
    assert_float_equal(value_of("add(mul(d0,10),d1)", 0, 0, false), 56, 0);
    /* What numbers amount to is found at once, and is the same as at last. */
    assert_float_equal(value_of("mul(2,div(7,2))", 0, 0, false), 6, 0);
    assert_float_equal(value_of("integer(less(1.5,2))", 0, 0, false), 1, 0);
}

/* Exponents below 0 and of any size. */
static void whole_powers_wrap(void **state) {
    (void)state;
    assert_float_equal(value_of("powi(x2,x3)", 0, -2, false), -128, 0);
    assert_float_equal(value_of("powi(x2,sub(x3,7))", 0, 0, false), 1, 0);
    assert_float_equal(value_of("powi(2,x2)", 0, 62, false), 0x1p62, 0);
    assert_float_equal(value_of("powi(2,x2)", 0, 63, false), -0x1p63, 0);
    assert_float_equal(value_of("powi(2,x2)", 0, 64, false), 0, 0);
    assert_float_equal(value_of("sub(powi(3,x2),-2984622845537545263)", 0, 100, false), 0, 0);
    assert_float_equal(value_of("powi(-1,x2)", 0, INT64_MAX, false), -1, 0);
    assert_float_equal(value_of("powi(-1,x2)", 0, INT64_MIN, false), 1, 0);
    assert_float_equal(value_of("powi(-1,x2)", 0, -3, false), -1, 0);
    assert_float_equal(value_of("powi(1,x2)", 0, -3, false), 1, 0);
    assert_float_equal(value_of("powi(x2,-1)", 0, 2, false), 0, 0);
    assert_float_equal(value_of("powi(x2,-1)", 0, 0, false), 0, 0);
}

static void memory_holds_every_type(void **state) {
    (void)state;
    for (int t = 0; t < TW_MEMORY_TYPES; t++) {
        const tw_memory_type type = (tw_memory_type)t;
        tw_memory_type found;
        uint64_t data[2] = {0};
        const bool real = tw_memory_class(type) == TW_CLASS_real;
        assert_true(tw_memory_from_name(tw_memory_name(type), &found) && found == type);
        tw_memory_write(type, data, 1, real ? (tw_cell_value){.real = -1.5} : (tw_cell_value){.whole = 1});
        const tw_cell_value x = tw_memory_read(type, data, 1), none = tw_memory_read(type, data, 0);
        assert_true(real ? x.real == -1.5 && none.real == 0 : x.whole == 1 && none.whole == 0);
        if (tw_memory_class(type) != TW_CLASS_integer) continue;
        tw_memory_write(type, data, 0, (tw_cell_value){.whole = -1});
        const int64_t back = tw_memory_read(type, data, 0).whole;
        assert_true(tw_memory_name(type)[0] == 'i' || tw_memory_bytes(type) == 8
                        ? back == -1
                        : back == (int64_t)(1ull << 8 * tw_memory_bytes(type)) - 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_are_read_and_written),
                                       cmocka_unit_test(senseless_texts_are_refused),
                                       cmocka_unit_test(values_are_what_they_say), cmocka_unit_test(whole_powers_wrap),
                                       cmocka_unit_test(memory_holds_every_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
