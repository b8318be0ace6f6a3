/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of whole numbers: values, errors with their places, and tiles. */
#include "support/support.h"

#include "base/random.h"
#include "tune/expression.h"

#include <string.h>

/* Finds BM = 64, BN = 100, one = 1 and low = INT64_MIN. */
static bool find(void *context, const char *name, size_t n, int64_t *value) {
    static const struct {
        const char *name;
        int64_t value;
    } all[] = {{"BM", 64}, {"BN", 100}, {"one", 1}, {"low", INT64_MIN}};
    (void)context;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strlen(all[i].name) == n && !memcmp(all[i].name, name, n)) {
            *value = all[i].value;
            return true;
        }
    return false;
}

static const tw_names names = {find, NULL};

static void values_follow_precedence(void **state) {
    static const struct {
        const char *text;
        int64_t value;
    } all[] = {{"7", 7},
               {" 2 + 3*4 ", 14},
               {"(2+3)*4", 20},
               {"10 - 2 - 3", 5},
               {"100 / 7 / 2", 7},
               {"100 % 7 * 2", 4},
               {"-7 / 2", -3},
               {"--3", 3},
               {"!3 + !0", 1},
               {"BM * BN", 6400},
               {"1 < 2 && 3 >= 3 && 4 != 5", 1},
               {"1 > 2 || 2 == 2", 1},
               {"0 || 1 && 0", 0},
               {"2 <= 1 || 5 < 5 || 7 > 7 || 1 != 1", 0},
               {"1 + 1 == 2", 1},
               {"7 || 0", 1},
               {"3 && 2", 1},
               {"0 && 5", 0},
               {"ceil(100 / BM)", 2},
               {"ceil(128 / BM)", 2},
               {"ceil(-100 / 64)", -1},
               {"ceil(100 / -64)", -1},
               {"ceil(128 / -64)", -2},
               {"ceil(2 * BN / (BM + one))", 4},
               {"min(BM, BN) + max(BM, BN) * 2", 264},
               {"min(2, 2) * max(3, 3)", 6},
               {"low + 1 < 0", 1},
               {"9223372036854775807", INT64_MAX}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tw_diag d;
        int64_t value;
        if (tw_expression(all[i].text, &names, &value, &d) != TW_OK) fail_msg("%s", d.message);
        if (value != all[i].value) fail_msg("%s is %lld", all[i].text, (long long)value);
    }
}

static void errors_have_a_place(void **state) {
    static const struct {
        const char *text, *message;
    } all[] = {
        {"", "\"\": a value is missing at character 1"},
        {"1 +", "\"1 +\": a value is missing at character 4"},
        {"(1", "\"(1\": a \")\" is missing at character 3"},
        {"1)", "\"1)\": text that does not belong to it at character 2"},
        {"1 2", "\"1 2\": text that does not belong to it at character 3"},
        {"BK", "\"BK\": an unknown name at character 1"},
        {"ceil", "\"ceil\": an unknown name at character 1"},
        {"2BM", "\"2BM\": a letter in a number at character 2"},
        {"1 / (BM - 64)", "\"1 / (BM - 64)\": a division by 0 at character 14"},
        {"1 % 0", "\"1 % 0\": a division by 0 at character 6"},
        {"ceil(1 / 0)", "\"ceil(1 / 0)\": a division by 0 at character 11"},
        {"ceil(1)", "\"ceil(1)\": ceil needs a quotient at character 7"},
        {"min(1)", "\"min(1)\": an operator is missing at character 6"},
        {"9223372036854775808", "\"9223372036854775808\": a value that does not fit into 64 bits at character 19"},
        {"low / -1", "\"low / -1\": a value that does not fit into 64 bits at character 9"},
        {"-low", "\"-low\": a value that does not fit into 64 bits at character 5"},
        {"low - 1", "\"low - 1\": a value that does not fit into 64 bits at character 8"}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tw_diag d;
        int64_t value;
        assert_int_equal(tw_expression(all[i].text, &names, &value, &d), TW_ERR_FORMAT);
        assert_string_equal(d.message, all[i].message);
        assert_int_equal(tw_expression(all[i].text, &names, &value, NULL), TW_ERR_FORMAT);
    }
}

static void nesting_has_a_limit(void **state) {
    char text[102] = "";
    int64_t value;
    (void)state;
    memset(text, '-', 100);
    text[100] = '1';
    assert_int_equal(tw_expression(text, &names, &value, NULL), TW_ERR_FORMAT);
    assert_int_equal(tw_expression(text + 50, &names, &value, NULL), TW_OK);
    assert_int_equal(value, 1);
    memset(text, '(', 101);
    assert_int_equal(tw_expression(text, &names, &value, NULL), TW_ERR_FORMAT);
}

static void tiles_are_factors(void **state) {
    static const char *const axes[] = {"m", "n", "ceiling"};
    int64_t tile[3], times;
    tw_diag d;
    (void)state;
    assert_int_equal(tw_expression_tiles("ceil(m / BM) * ceil(ceiling / (BN * 2)) * 3 * max(2, one)", axes, 3, &names,
                                         tile, &times, &d),
                     TW_OK);
    assert_int_equal(tile[0], 64);
    assert_int_equal(tile[1], 0);
    assert_int_equal(tile[2], 200);
    assert_int_equal(times, 6);
    assert_int_equal(tw_expression_tiles("n * ceil(BN / BM) * (1 + one)", axes, 3, &names, tile, &times, &d), TW_OK);
    assert_int_equal(tile[1], 1);
    assert_int_equal(tile[0], 0);
    assert_int_equal(times, 4);
    static const struct {
        const char *text, *message;
    } wrong[] = {{"m * m", "\"m * m\": an axis that is a factor already at character 6"},
                 {"ceil(m / 0)", "\"ceil(m / 0)\": a tile below 1 at character 12"},
                 {"ceil(m * 2 / BM)", "\"ceil(m * 2 / BM)\": an operator is missing at character 8"},
                 {"m + 1", "\"m + 1\": text that does not belong to it at character 3"},
                 {"2 * (m)", "\"2 * (m)\": an unknown name at character 6"},
                 {"", "\"\": a value is missing at character 1"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(tw_expression_tiles(wrong[i].text, axes, 3, &names, tile, &times, &d), TW_ERR_FORMAT);
        assert_string_equal(d.message, wrong[i].message);
    }
}

static void names_are_told_apart(void **state) {
    (void)state;
    assert_true(tw_expression_is_name("BM"));
    assert_true(tw_expression_is_name("_1"));
    assert_true(tw_expression_is_name("ceiling"));
    assert_false(tw_expression_is_name("1BM"));
    assert_false(tw_expression_is_name(""));
    assert_false(tw_expression_is_name("B M"));
    assert_false(tw_expression_is_name(" B"));
    assert_false(tw_expression_is_name("ceil"));
    assert_false(tw_expression_is_name("min"));
    assert_false(tw_expression_is_name("max"));
}

/* Random texts of an expression's own parts are computed or refused with a message. */
static void any_text_ends(void **state) {
    static const char *const parts[] = {"BM", "m", "ceil(", "min(", "max(", "(", ")", "*", "/", "%",  "+",
                                        "-",  "!", "<",     "<=",   "==",   ",", "7", "0", " ", "&&", "||"};
    static const char *const axes[] = {"m"};
    tw_random r = tw_random_seed(1);
    int good = 0;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        char text[200] = "";
        int64_t value, tile[1];
        tw_diag d = {0};
        for (uint64_t k = tw_random_below(&r, 12); k > 0; k--)
            strcat(text, parts[tw_random_below(&r, sizeof parts / sizeof *parts)]);
        if (tw_expression(text, &names, &value, &d) == TW_OK)
            good++;
        else if (!*d.message)
            fail_msg("\"%s\" has no message", text);
        if (tw_expression_tiles(text, axes, 1, &names, tile, &value, &d) == TW_OK && tile[0] < 0)
            fail_msg("\"%s\" has a tile below 0", text);
    }
    assert_true(good > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_follow_precedence), cmocka_unit_test(errors_have_a_place),
        cmocka_unit_test(nesting_has_a_limit),      cmocka_unit_test(tiles_are_factors),
        cmocka_unit_test(names_are_told_apart),     cmocka_unit_test(any_text_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
