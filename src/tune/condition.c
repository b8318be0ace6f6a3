/* SPDX-License-Identifier: Apache-2.0 */
/* A recursive descent over the text, which evaluates as it reads. */
#define _POSIX_C_SOURCE 200809L
#include "tune/condition.h"

#include "base/diag.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH = 100,   /* The most levels of nested parentheses and operators. */
    VALUES = 4096, /* The most values of a list. */
    ARGUMENTS = 16 /* The most arguments of a function. */
};

/* A number or a string. */
typedef struct value {
    const char *text; /* The string, which is n bytes long and not ended by 0. NULL: the value is a number. */
    size_t n;
    double number; /* Truth values are 0 and 1. */
} value;

typedef struct parser {
    const char *text;    /* The whole text. */
    const char *at;      /* What is read next. */
    const json_t *names; /* Object of the names' values. NULL: there are no names. */
    const char *wrong;   /* Message of the first error. NULL: there is no error so far. */
    bool failed;         /* True: memory ran out. */
    int depth;           /* Number of levels around `at`. */
} parser;

static value parse_or(parser *p);
static value parse_unary(parser *p);

static value number(double x) {
    return (value){.number = x};
}

/* Records an error. An error that is recorded already stays. Returns the number 0, with which parsing continues. */
static value fail(parser *p, const char *wrong) {
    if (!p->wrong) p->wrong = wrong;
    return number(0);
}

static void skip(parser *p) {
    while (isspace((unsigned char)*p->at)) p->at++;
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* Skips a symbol if it comes next. False: it does not, or there was an error. A symbol of letters must be a whole word.
 */
static bool take(parser *p, const char *symbol) {
    const size_t n = strlen(symbol);
    skip(p);
    if (p->wrong || strncmp(p->at, symbol, n) != 0 || (is_word(*symbol) && is_word(p->at[n]))) return false;
    p->at += n;
    return true;
}

static void expect(parser *p, const char *symbol, const char *wrong) {
    if (!take(p, symbol)) fail(p, wrong);
}

static bool is_true(value v) {
    return v.text ? v.n > 0 : v.number != 0;
}

/* Returns -1, 0 or 1, as a is less than, equal to or more than b. 2: one is a number, and the other a string. */
static int compare(value a, value b) {
    if (!a.text != !b.text) return 2;
    if (!a.text) return (a.number > b.number) - (a.number < b.number);
    const int by = memcmp(a.text, b.text, a.n < b.n ? a.n : b.n);
    return by ? (by > 0) - (by < 0) : (a.n > b.n) - (a.n < b.n);
}

/* Returns the number of a value. A string is an error. */
static double numeric(parser *p, value v) {
    if (v.text) fail(p, "a string where a number belongs");
    return v.number;
}

/* ---- atoms */

static value parse_string(parser *p) {
    const char quote = *p->at++, *first = p->at;
    while (*p->at && *p->at != quote && *p->at != '\\') p->at++;
    if (*p->at != quote) return fail(p, "a string that does not end, or has a backslash");
    return (value){first, (size_t)(p->at++ - first), 0};
}

static value parse_number(parser *p) {
    char *end;
    const double x = strtod(p->at, &end);
    if (end == p->at || is_word(*end) || !isfinite(x)) return fail(p, "a number is not spelled so");
    p->at = end;
    return number(x);
}

/* Reads the arguments of a function and the closing parenthesis, and computes the function. `name` has n characters.
 */
static value call(parser *p, const char *name, size_t n) {
    static const char *const names[] = {"min", "max", "abs", "int"};
    double x[ARGUMENTS] = {0};
    int count = 0, f = 0;
    while (f < 4 && (strlen(names[f]) != n || memcmp(name, names[f], n) != 0)) f++;
    if (f == 4) return fail(p, "the function is not min, max, abs or int");
    do {
        if (count == ARGUMENTS) return fail(p, "too many arguments");
        x[count++] = numeric(p, parse_or(p));
    } while (take(p, ","));
    expect(p, ")", "a \")\" is missing");
    if (f >= 2 && count != 1) return fail(p, "the function has one argument");
    double out = x[0];
    for (int i = 1; i < count; i++) out = f ? fmax(out, x[i]) : fmin(out, x[i]);
    return number(f == 2 ? fabs(out) : f == 3 ? trunc(out) : out);
}

static value parse_name(parser *p) {
    const char *name = p->at;
    while (is_word(*p->at)) p->at++;
    const size_t n = (size_t)(p->at - name);
    if (n == 4 && !memcmp(name, "True", 4)) return number(1);
    if (n == 5 && !memcmp(name, "False", 5)) return number(0);
    if (take(p, "(")) return call(p, name, n);
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)p->names, key, v) {
        if (strlen(key) != n || memcmp(key, name, n) != 0) continue;
        if (json_is_string(v)) return (value){json_string_value(v), json_string_length(v), 0};
        if (json_is_boolean(v)) return number(json_is_true(v));
        if (json_is_number(v)) return number(json_number_value(v));
    }
    p->at = name;
    return fail(p, "the name is unknown");
}

static value parse_atom(parser *p) {
    skip(p);
    if (*p->at == '"' || *p->at == '\'') return parse_string(p);
    if (isdigit((unsigned char)*p->at) || *p->at == '.') return parse_number(p);
    if (is_word(*p->at)) return parse_name(p);
    if (!take(p, "(")) return fail(p, "a value is missing");
    const value v = parse_or(p);
    expect(p, ")", "a \")\" is missing");
    return v;
}

/* ---- operators */

static value parse_power(parser *p) {
    const value v = parse_atom(p);
    if (!take(p, "**")) return v;
    const double base = numeric(p, v);
    const double power = pow(base, numeric(p, parse_unary(p)));
    return isfinite(power) ? number(power) : fail(p, "a power is no number");
}

static value parse_unary(parser *p) {
    if (p->depth >= DEPTH) return fail(p, "too deeply nested");
    p->depth++;
    value v;
    if (take(p, "-"))
        v = number(-numeric(p, parse_unary(p)));
    else if (take(p, "+"))
        v = number(numeric(p, parse_unary(p)));
    else
        v = parse_power(p);
    p->depth--;
    return v;
}

static value parse_product(parser *p) {
    value v = parse_unary(p);
    while (!p->wrong) {
        const bool times = take(p, "*"), whole = !times && take(p, "//"), over = !times && !whole && take(p, "/");
        if (!times && !whole && !over && !take(p, "%")) break;
        const double a = numeric(p, v), b = numeric(p, parse_unary(p));
        if (!times && b == 0) return fail(p, "a division by 0");
        v = number(times ? a * b : over ? a / b : whole ? floor(a / b) : a - floor(a / b) * b);
    }
    return v;
}

static value parse_sum(parser *p) {
    value v = parse_product(p);
    while (!p->wrong) {
        const bool plus = take(p, "+");
        if (!plus && !take(p, "-")) break;
        const double a = numeric(p, v), b = numeric(p, parse_product(p));
        v = number(plus ? a + b : a - b);
    }
    return v;
}

/* Reads a list or tuple, and tells whether a value is in it. */
static bool parse_in(parser *p, value v) {
    const bool list = take(p, "[");
    bool found = false;
    if (!list && !take(p, "(")) fail(p, "`in` has no list behind it");
    const char *end = list ? "]" : ")";
    while (!p->wrong && !take(p, end)) {
        found |= !compare(v, parse_sum(p));
        if (!take(p, ",")) {
            expect(p, end, "the list does not end");
            break;
        }
    }
    return found;
}

static value parse_comparison(parser *p) {
    static const char *const signs[] = {"<=", ">=", "==", "!=", "<", ">"};
    value v = parse_sum(p);
    bool compared = false, holds = true;
    while (!p->wrong) {
        int s = 0;
        const char *before = p->at;
        const bool negative = take(p, "not");
        if (take(p, "in")) {
            holds &= parse_in(p, v) != negative;
            compared = true;
            break;
        }
        p->at = before;
        while (s < 6 && !take(p, signs[s])) s++;
        if (s == 6) break;
        const value next = parse_sum(p);
        const int by = compare(v, next);
        if (by == 2 && s != 2 && s != 3) return fail(p, "a string is compared with a number");
        const bool is[] = {by <= 0, by >= 0, by == 0, by != 0, by<0, by> 0};
        holds &= is[s];
        compared = true;
        v = next;
    }
    return compared ? number(holds) : v;
}

static value parse_not(parser *p) {
    if (!take(p, "not")) return parse_comparison(p);
    if (p->depth >= DEPTH) return fail(p, "too deeply nested");
    p->depth++;
    const value v = parse_not(p);
    p->depth--;
    return number(!is_true(v));
}

static value parse_and(parser *p) {
    value v = parse_not(p);
    while (take(p, "and") || take(p, "&&")) {
        const value next = parse_not(p);
        if (is_true(v)) v = next;
    }
    return v;
}

static value parse_or(parser *p) {
    if (p->depth >= DEPTH) return fail(p, "too deeply nested");
    p->depth++;
    value v = parse_and(p);
    while (take(p, "or") || take(p, "||")) {
        const value next = parse_and(p);
        if (!is_true(v)) v = next;
    }
    p->depth--;
    return v;
}

static tw_status refuse(const parser *p, tw_diag *diag) {
    if (p->failed) return tw_fail_memory(diag);
    return tw_fail(diag, TW_ERR_FORMAT, "\"%.200s\", character %d: %s", p->text, (int)(p->at - p->text) + 1, p->wrong);
}

tw_status tw_condition(const char *text, const json_t *values, bool *holds, tw_diag *diag) {
    parser p = {.text = text, .at = text, .names = values};
    const value v = parse_or(&p);
    skip(&p);
    if (*p.at) fail(&p, "the expression should end here");
    *holds = is_true(v);
    return p.wrong ? refuse(&p, diag) : TW_OK;
}

/* ---- lists */

/* Reads a value of a list. A number that is spelled without fraction and exponent becomes an integer. NULL: the value
   is wrong, and the error is recorded; or memory ran out. */
static json_t *item(parser *p) {
    skip(p);
    const char *first = p->at;
    const value v = parse_unary(p);
    if (v.text) return json_stringn(v.text, v.n);
    const size_t n = (size_t)(p->at - first);
    if (!isfinite(v.number)) fail(p, "a number is too large");
    if (p->wrong) return NULL;
    if (n >= 4 && (!memcmp(first, "True", 4) || !memcmp(first, "Fals", 4))) return json_boolean(v.number != 0);
    const bool real = memchr(first, '.', n) || memchr(first, 'e', n) || memchr(first, 'E', n) || fabs(v.number) > 9e15;
    return real ? json_real(v.number) : json_integer((json_int_t)v.number);
}

/* Appends the value `v`, which then belongs to the list. If `v` is NULL and no error is recorded, memory ran out. */
static void append(parser *p, json_t *out, json_t *v) {
    if (json_array_size(out) == VALUES) {
        json_decref(v);
        fail(p, "too many values");
    } else if (json_array_append_new(out, v)) {
        p->failed = !p->wrong;
        fail(p, "memory ran out");
    }
}

/* Reads the arguments of range, and appends its values. */
static void read_range(parser *p, json_t *out) {
    double x[3] = {0, 0, 1};
    int n = 0;
    do x[n++] = numeric(p, parse_sum(p));
    while (n < 3 && take(p, ","));
    expect(p, ")", "a \")\" is missing");
    if (n == 1) {
        x[1] = x[0];
        x[0] = 0;
    }
    for (int i = 0; i < 3; i++)
        if (x[i] != trunc(x[i]) || fabs(x[i]) > 1e9) fail(p, "range has whole numbers");
    if (x[2] == 0) fail(p, "a range has a step that is not 0");
    for (double v = x[0]; !p->wrong && (x[2] > 0 ? v < x[1] : v > x[1]); v += x[2])
        append(p, out, json_integer((json_int_t)v));
}

static void read_list(parser *p, json_t *out) {
    if (take(p, "range")) {
        expect(p, "(", "a \"(\" is missing");
        read_range(p, out);
        return;
    }
    const bool list = take(p, "[");
    if (!list) expect(p, "(", "neither a list, a tuple nor range(...)");
    const char *end = list ? "]" : ")";
    while (!p->wrong && !take(p, end)) {
        append(p, out, item(p));
        if (!take(p, ",")) {
            expect(p, end, "the list does not end");
            break;
        }
    }
}

tw_status tw_condition_list(const char *text, json_t **out, tw_diag *diag) {
    parser p = {.text = text, .at = text};
    *out = json_array();
    if (!*out) return tw_fail_memory(diag);
    const bool inside = take(&p, "list");
    if (inside) expect(&p, "(", "a \"(\" is missing");
    read_list(&p, *out);
    if (inside) expect(&p, ")", "a \")\" is missing");
    skip(&p);
    if (*p.at) fail(&p, "the list should end here");
    if (!p.wrong) return TW_OK;
    json_decref(*out);
    *out = NULL;
    return refuse(&p, diag);
}
