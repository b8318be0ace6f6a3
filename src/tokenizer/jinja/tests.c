/* SPDX-License-Identifier: Apache-2.0 */
/* Tests: what follows `is`. */
#include "tokenizer/jinja/jinja.h"

#include <string.h>

#define TEST(name) static bool name(jinja_env *env, jinja_value v, const jinja_args *args)

static bool none(jinja_env *env, const jinja_args *args) {
    jinja_value a[JINJA_BOUND];
    return jinja_bind(env, args, "the test", "", 0, a);
}

#define SIMPLE(name, expression)                                                                                       \
    TEST(name) {                                                                                                       \
        return none(env, args) && (expression);                                                                        \
    }

static bool is_undefined(jinja_value v) {
    return v.kind == JINJA_UNDEFINED || v.kind == JINJA_MISSING;
}

SIMPLE(defined, !is_undefined(v))
SIMPLE(undefined, is_undefined(v))
SIMPLE(is_none, v.kind == JINJA_NONE)
SIMPLE(boolean, v.kind == JINJA_BOOL)
SIMPLE(is_true, v.kind == JINJA_BOOL && v.b)
SIMPLE(is_false, v.kind == JINJA_BOOL && !v.b)
SIMPLE(integer, v.kind == JINJA_INT)
SIMPLE(is_float, v.kind == JINJA_FLOAT)
SIMPLE(number, jinja_is_int(v) || v.kind == JINJA_FLOAT)
SIMPLE(string, v.kind == JINJA_STRING)
SIMPLE(mapping, v.kind == JINJA_DICT)
SIMPLE(iterable, jinja_is_iterable(v))
SIMPLE(callable, jinja_is_callable(v) || (v.kind == JINJA_UNDEFINED))
SIMPLE(escaped, v.kind == JINJA_STRING && v.s->safe)

TEST(sequence) {
    return none(env, args) && jinja_has_length(v) && v.kind != JINJA_VIEW && v.kind != JINJA_LOOP;
}

/* ---- numbers ---- */

static bool remainder_is(jinja_env *env, jinja_value v, const jinja_args *args, jinja_value by, int64_t want) {
    jinja_value r = jinja_arithmetic(env, args->at, JN_MOD, v, by);
    return !env->failed && jinja_equal(env, args->at, r, jinja_int(want));
}

TEST(odd) {
    return none(env, args) && remainder_is(env, v, args, jinja_int(2), 1);
}
TEST(even) {
    return none(env, args) && remainder_is(env, v, args, jinja_int(2), 0);
}

TEST(divisibleby) {
    jinja_value a[JINJA_BOUND];
    return jinja_bind(env, args, "divisibleby", "num", 1, a) && remainder_is(env, v, args, a[0], 0);
}

/* ---- comparisons ---- */

static bool other(jinja_env *env, const jinja_args *args, const char *name, jinja_value *out) {
    jinja_value a[JINJA_BOUND];
    if (!jinja_bind(env, args, "the test", name, 1, a)) return false;
    *out = a[0];
    return true;
}

/* Reads the operand of a test that is an operator of Python's, which takes no arguments by name. */
static bool operand(jinja_env *env, const jinja_args *args, jinja_value *out) {
    if (args->n_keywords) jinja_fail(env, args->at, "the test takes no arguments by name");
    return other(env, args, "other", out);
}

TEST(equal) {
    jinja_value b;
    return operand(env, args, &b) && jinja_equal(env, args->at, v, b);
}
TEST(unequal) {
    jinja_value b;
    return operand(env, args, &b) && !jinja_equal(env, args->at, v, b);
}

#define ORDER(name, op)                                                                                                \
    TEST(name) {                                                                                                       \
        jinja_value b;                                                                                                 \
        return operand(env, args, &b) && jinja_order(env, args->at, v, b, op);                                         \
    }
ORDER(less, JO_LT)
ORDER(less_or_equal, JO_LE)
ORDER(greater, JO_GT)
ORDER(greater_or_equal, JO_GE)

TEST(same) {
    jinja_value b;
    if (!other(env, args, "other", &b)) return false;
    bool single = v.kind == JINJA_NONE || v.kind == JINJA_BOOL || b.kind == JINJA_NONE || b.kind == JINJA_BOOL;
    if (v.kind == b.kind && !single && v.kind != JINJA_LIST && v.kind != JINJA_DICT && v.kind != JINJA_NAMESPACE)
        jinja_refuse(env, args->at, "whether a %s is the same object", jinja_type_name(v));
    return jinja_same(v, b);
}

TEST(in) {
    jinja_value b;
    return other(env, args, "seq", &b) && jinja_contains(env, args->at, b, v);
}

/* ---- text ---- */

static bool text_is(jinja_env *env, jinja_value v, const jinja_args *args, const char *method) {
    jinja_value s = jinja_str(env, args->at, v);
    if (!none(env, args) || env->failed) return false;
    return jinja_truth(env, jinja_find_method(s, method)->call(env, s, &(jinja_args){.at = args->at}));
}

TEST(lower) {
    return text_is(env, v, args, "islower");
}
TEST(upper) {
    return text_is(env, v, args, "isupper");
}

static const char *short_name(jinja_env *env, jinja_value v, const jinja_args *args, char out[32]) {
    if (v.kind == JINJA_LIST || v.kind == JINJA_DICT)
        jinja_fail(env, args->at, "a %s cannot be a key", jinja_type_name(v));
    size_t n = v.kind == JINJA_STRING && v.s->size < 32 ? v.s->size : 0;
    if (n) memcpy(out, v.s->data, n);
    out[n] = 0;
    return out;
}

TEST(filter) {
    char name[32];
    return none(env, args) && jinja_find_filter(short_name(env, v, args, name)) != NULL;
}
TEST(test) {
    char name[32];
    return none(env, args) && jinja_find_test(short_name(env, v, args, name)) != NULL;
}

static const jinja_test all[] = {{"!=", unequal},
                                 {"<", less},
                                 {"<=", less_or_equal},
                                 {"==", equal},
                                 {">", greater},
                                 {">=", greater_or_equal},
                                 {"boolean", boolean},
                                 {"callable", callable},
                                 {"defined", defined},
                                 {"divisibleby", divisibleby},
                                 {"eq", equal},
                                 {"equalto", equal},
                                 {"escaped", escaped},
                                 {"even", even},
                                 {"false", is_false},
                                 {"filter", filter},
                                 {"float", is_float},
                                 {"ge", greater_or_equal},
                                 {"greaterthan", greater},
                                 {"gt", greater},
                                 {"in", in},
                                 {"integer", integer},
                                 {"iterable", iterable},
                                 {"le", less_or_equal},
                                 {"lessthan", less},
                                 {"lower", lower},
                                 {"lt", less},
                                 {"mapping", mapping},
                                 {"ne", unequal},
                                 {"none", is_none},
                                 {"number", number},
                                 {"odd", odd},
                                 {"sameas", same},
                                 {"sequence", sequence},
                                 {"string", string},
                                 {"test", test},
                                 {"true", is_true},
                                 {"undefined", undefined},
                                 {"upper", upper}};

const jinja_test *jinja_find_test(const char *name) {
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].name, name)) return &all[i];
    return NULL;
}
