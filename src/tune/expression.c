/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/expression.h"

#include "base/diag.h"

#include <string.h>

enum { DEPTH = 64 /* The deepest nesting. */ };

/* A position in an expression. */
typedef struct reader {
    const char *text, *at;
    const tw_names *names;
    int depth;
    tw_status status; /* The first error. After it all values are 0. */
    tw_diag *diag;
} reader;

static int64_t fail(reader *r, const char *what) {
    if (r->status == TW_OK)
        r->status = tw_fail(r->diag, TW_ERR_FORMAT, "\"%.200s\": %s at character %d", r->text, what,
                            (int)(r->at - r->text) + 1);
    return 0;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static void skip(reader *r) {
    r->at += strspn(r->at, " \t\n\r");
}

/* Takes an operator if it is next. */
static bool take(reader *r, const char *mark) {
    const size_t n = strlen(mark);
    skip(r);
    if (r->status != TW_OK || strncmp(r->at, mark, n) != 0) return false;
    r->at += n;
    return true;
}

static void expect(reader *r, const char *mark) {
    if (!take(r, mark)) fail(r, *mark == ')' ? "a \")\" is missing" : "an operator is missing");
}

/* Returns the number of characters of the name that is next. 0: there is none. */
static size_t name_here(reader *r) {
    size_t n = 0;
    skip(r);
    while (is_letter(r->at[n]) || (n && is_digit(r->at[n]))) n++;
    return n;
}

static bool is_word(const char *at, size_t n, const char *word) {
    return n == strlen(word) && !memcmp(at, word, n);
}

/* ---- values */

static int64_t any(reader *r);
static int64_t unary(reader *r);

static int64_t combine(reader *r, char mark, int64_t a, int64_t b) {
    int64_t out = 0;
    bool over = false;
    if (r->status != TW_OK) return 0;
    if (mark == '*') over = __builtin_mul_overflow(a, b, &out);
    if (mark == '+') over = __builtin_add_overflow(a, b, &out);
    if (mark == '-') over = __builtin_sub_overflow(a, b, &out);
    if (mark == '/' || mark == '%') {
        if (!b) return fail(r, "a division by 0");
        over = a == INT64_MIN && b == -1;
        if (!over) out = mark == '/' ? a / b : a % b;
    }
    return over ? fail(r, "a value that does not fit into 64 bits") : out;
}

static int64_t number(reader *r) {
    int64_t value = 0;
    while (is_digit(*r->at) && r->status == TW_OK) {
        value = combine(r, '+', combine(r, '*', value, 10), *r->at - '0');
        r->at++;
    }
    return is_letter(*r->at) ? fail(r, "a letter in a number") : value;
}

/* Reads the product before the "/" of ceil, the divisor, and the closing parenthesis. */
static int64_t quotient_up(reader *r, int64_t a) {
    while (take(r, "*")) a = combine(r, '*', a, unary(r));
    if (!take(r, "/")) return fail(r, "ceil needs a quotient");
    const int64_t b = unary(r), low = combine(r, '/', a, b), rest = combine(r, '%', a, b);
    expect(r, ")");
    return rest && (rest > 0) == (b > 0) ? combine(r, '+', low, 1) : low;
}

static int64_t two(reader *r, bool least) {
    const int64_t a = any(r);
    expect(r, ",");
    const int64_t b = any(r);
    expect(r, ")");
    return (a < b) == least ? a : b;
}

static int64_t named(reader *r) {
    const size_t n = name_here(r);
    const char *at = r->at;
    int64_t value = 0;
    r->at += n;
    if (is_word(at, n, "ceil") && take(r, "(")) return quotient_up(r, unary(r));
    if (is_word(at, n, "min") && take(r, "(")) return two(r, true);
    if (is_word(at, n, "max") && take(r, "(")) return two(r, false);
    if (r->names->find(r->names->context, at, n, &value)) return value;
    r->at = at;
    return fail(r, "an unknown name");
}

static int64_t primary(reader *r) {
    if (take(r, "(")) {
        const int64_t value = any(r);
        expect(r, ")");
        return value;
    }
    if (name_here(r)) return named(r);
    return is_digit(*r->at) ? number(r) : fail(r, "a value is missing");
}

static int64_t unary(reader *r) {
    int64_t value;
    if (r->status != TW_OK) return 0;
    if (r->depth == DEPTH) return fail(r, "too deep a nesting");
    r->depth++;
    if (take(r, "-"))
        value = combine(r, '-', 0, unary(r));
    else if (take(r, "!"))
        value = !unary(r);
    else
        value = primary(r);
    r->depth--;
    return value;
}

/* Reads a chain of operands, and combines them from left to right. `operators` has the characters that may stand
   between two of them. */
static int64_t chain(reader *r, const char *operators, int64_t (*operand)(reader *)) {
    int64_t value = operand(r);
    for (const char *o = operators; *o;) {
        const char word[] = {*o, 0};
        if (!take(r, word)) {
            o++;
            continue;
        }
        value = combine(r, *o, value, operand(r));
        o = operators;
    }
    return value;
}

static int64_t term(reader *r) {
    return chain(r, "*/%", unary);
}

static int64_t sum(reader *r) {
    return chain(r, "+-", term);
}

static int64_t comparison(reader *r) {
    const int64_t a = sum(r);
    if (take(r, "<=")) return a <= sum(r);
    if (take(r, ">=")) return a >= sum(r);
    if (take(r, "==")) return a == sum(r);
    if (take(r, "!=")) return a != sum(r);
    if (take(r, "<")) return a < sum(r);
    if (take(r, ">")) return a > sum(r);
    return a;
}

static int64_t all_of(reader *r) {
    int64_t value = comparison(r);
    while (take(r, "&&")) {
        const int64_t next = comparison(r);
        value = value && next;
    }
    return value;
}

static int64_t any(reader *r) {
    int64_t value = all_of(r);
    while (take(r, "||")) {
        const int64_t next = all_of(r);
        value = value || next;
    }
    return value;
}

static void end(reader *r) {
    skip(r);
    if (*r->at) fail(r, "text that does not belong to it");
}

tw_status tw_expression(const char *text, const tw_names *names, int64_t *out, tw_diag *diag) {
    reader r = {.text = text, .at = text, .names = names, .diag = diag};
    *out = any(&r);
    end(&r);
    return r.status;
}

/* ---- tiles */

/* Takes an axis if it is next. Returns its index, or -1. */
static int take_axis(reader *r, const char *const *axes, int n_axes) {
    const size_t n = name_here(r);
    for (int i = 0; i < n_axes && n; i++)
        if (is_word(r->at, n, axes[i])) {
            r->at += n;
            return i;
        }
    return -1;
}

static void factor(reader *r, const char *const *axes, int n_axes, int64_t *tile, int64_t *times) {
    const char *begin;
    int64_t size = 1;
    skip(r);
    begin = r->at;
    int axis = take_axis(r, axes, n_axes);
    if (axis < 0 && is_word(r->at, name_here(r), "ceil")) {
        r->at += strlen("ceil");
        expect(r, "(");
        axis = take_axis(r, axes, n_axes);
        if (axis < 0)
            r->at = begin;
        else {
            expect(r, "/");
            size = unary(r);
            expect(r, ")");
        }
    }
    if (axis < 0)
        *times = combine(r, '*', *times, unary(r));
    else if (tile[axis])
        fail(r, "an axis that is a factor already");
    else if (size < 1)
        fail(r, "a tile below 1");
    else
        tile[axis] = size;
}

tw_status tw_expression_tiles(const char *text, const char *const *axes, int n_axes, const tw_names *names,
                              int64_t *tile, int64_t *times, tw_diag *diag) {
    reader r = {.text = text, .at = text, .names = names, .diag = diag};
    for (int i = 0; i < n_axes; i++) tile[i] = 0;
    *times = 1;
    do factor(&r, axes, n_axes, tile, times);
    while (take(&r, "*"));
    end(&r);
    return r.status;
}

bool tw_expression_is_name(const char *text) {
    reader r = {.text = text, .at = text};
    const size_t n = name_here(&r);
    return n && r.at == text && !text[n] && strcmp(text, "ceil") != 0 && strcmp(text, "min") != 0 &&
           strcmp(text, "max") != 0;
}
