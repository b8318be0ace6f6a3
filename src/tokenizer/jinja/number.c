/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic, parsing and printing of numbers, with Python's results. An integer that does not fit 64 bits ends the
   evaluation with an error. */
#include "tokenizer/jinja/jinja.h"
#include "tokenizer/unicode.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool jinja_is_whole(double f) {
    return isfinite(f) && f == trunc(f);
}

double jinja_as_float(jinja_env *env, const jinja_node *at, jinja_value v) {
    if (v.kind == JINJA_FLOAT) return v.f;
    if (jinja_is_int(v)) return (double)jinja_as_int(v);
    jinja_fail(env, at, "a %s is no number", jinja_type_name(v));
    return 0;
}

bool jinja_index(jinja_env *env, const jinja_node *at, jinja_value v, int64_t *out) {
    *out = 0;
    if (jinja_is_int(v)) {
        *out = jinja_as_int(v);
        return true;
    }
    jinja_fail(env, at, "a %s is no whole number", jinja_type_name(v));
    return false;
}

/* ---- arithmetic ---- */

static jinja_value too_large(jinja_env *env, const jinja_node *at) {
    return jinja_refuse(env, at, "a whole number beyond 64 bits");
}

static jinja_value int_power(jinja_env *env, const jinja_node *at, int64_t a, int64_t b) {
    if (b < 0) {
        if (!a) return jinja_fail(env, at, "0 to a negative power");
        return jinja_float(pow((double)a, (double)b));
    }
    int64_t r = 1;
    if (a == 0 || a == 1) return jinja_int(b ? a : 1);
    if (a == -1) return jinja_int(b % 2 ? -1 : 1);
    for (; b; b--)
        if (__builtin_mul_overflow(r, a, &r)) return too_large(env, at);
    return jinja_int(r);
}

static jinja_value int_arithmetic(jinja_env *env, const jinja_node *at, jinja_type op, int64_t a, int64_t b) {
    int64_t r = 0;
    bool over = false;
    switch (op) {
    case JN_ADD:
        over = __builtin_add_overflow(a, b, &r);
        break;
    case JN_SUB:
        over = __builtin_sub_overflow(a, b, &r);
        break;
    case JN_MUL:
        over = __builtin_mul_overflow(a, b, &r);
        break;
    case JN_POW:
        return int_power(env, at, a, b);
    default:
        if (!b) return jinja_fail(env, at, "division by zero");
        if (op == JN_DIV) return jinja_float((double)((long double)a / (long double)b));
        if (b == -1) {
            over = op == JN_FLOORDIV && __builtin_sub_overflow((int64_t)0, a, &r);
            break;
        }
        r = op == JN_MOD ? a % b : a / b;
        if (a % b && (a < 0) != (b < 0)) r += op == JN_MOD ? b : -1;
        break;
    }
    return over ? too_large(env, at) : jinja_int(r);
}

static double float_mod(double a, double b, double *quotient) {
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else
        mod = copysign(0, b);
    if (div != 0) {
        double down = floor(div);
        *quotient = div - down > 0.5 ? down + 1 : down;
    } else
        *quotient = copysign(0, a / b);
    return mod;
}

static jinja_value float_arithmetic(jinja_env *env, const jinja_node *at, jinja_type op, double a, double b) {
    double q, r;
    switch (op) {
    case JN_ADD:
        return jinja_float(a + b);
    case JN_SUB:
        return jinja_float(a - b);
    case JN_MUL:
        return jinja_float(a * b);
    case JN_POW:
        if (a == 0 && b < 0) return jinja_fail(env, at, "0 to a negative power");
        if (a < 0 && isfinite(a) && isfinite(b) && !jinja_is_whole(b)) return jinja_refuse(env, at, "a complex number");
        r = pow(a, b);
        if (isinf(r) && isfinite(a) && isfinite(b)) return jinja_fail(env, at, "the result is too large");
        return jinja_float(r);
    default:
        if (b == 0) return jinja_fail(env, at, "division by zero");
        if (op == JN_DIV) return jinja_float(a / b);
        r = float_mod(a, b, &q);
        return jinja_float(op == JN_MOD ? r : q);
    }
}

static jinja_value repeat(jinja_env *env, const jinja_node *at, jinja_value v, int64_t n) {
    if (n < 0) n = 0;
    if (v.kind == JINJA_STRING) {
        jinja_buffer b = {0};
        for (int64_t i = 0; i < n && v.s->size && !env->failed; i++) jinja_add_string(env, &b, v.s);
        return jinja_with_safe(env, jinja_take(env, &b), v.s->safe);
    }
    jinja_value out = jinja_list_new(env, v.kind, 0);
    for (int64_t i = 0; i < n && v.list->n && jinja_step(env, at, (int64_t)v.list->n); i++)
        for (size_t k = 0; k < v.list->n; k++) jinja_push(env, out, v.list->v[k]);
    return out;
}

/* The bytes of a string, with room at their end, so that a loop that appends by + does not copy the whole text each
   time. */
typedef struct jinja_store {
    char *data;
    unsigned char *typed; /* NULL: nothing was typed so far. */
    size_t used, room;
} jinja_store;

static bool store_typed(jinja_env *env, jinja_store *k, size_t at, const jinja_string *s) {
    if (s->typed && !k->typed && !(k->typed = jinja_alloc(env, k->room, 1))) return false;
    if (s->typed) memcpy(k->typed + at, s->typed, s->size);
    return true;
}

static jinja_store *store_new(jinja_env *env, const jinja_string *s, size_t room) {
    jinja_store *k = jinja_alloc(env, 1, sizeof *k);
    char *data = jinja_alloc(env, room, 1);
    if (!k || !data) return NULL;
    *k = (jinja_store){.data = data, .used = s->size, .room = room};
    memcpy(data, s->data, s->size);
    return store_typed(env, k, 0, s) ? k : NULL;
}

/* Appends b to a. Neither is empty. */
static jinja_value append(jinja_env *env, const jinja_node *at, const jinja_string *a, const jinja_string *b) {
    jinja_store *k = a->store;
    size_t size = a->size + b->size;
    if (size > (size_t)env->output_limit)
        return jinja_refuse(env, at, "a text of more than %lld bytes", (long long)env->output_limit);
    if (!jinja_step(env, at, (int64_t)(b->size / 256))) return JINJA_NULL;
    if (!k || a->data + a->size != k->data + k->used || k->room - k->used <= b->size) {
        if (!jinja_step(env, at, (int64_t)(a->size / 256))) return JINJA_NULL;
        k = store_new(env, a, 2 * size);
    }
    jinja_string *s = jinja_alloc(env, 1, sizeof *s);
    if (!k || !s || !store_typed(env, k, k->used, b)) return JINJA_NULL;
    const char *from = k->data + k->used - a->size;
    memcpy(k->data + k->used, b->data, b->size);
    k->used += b->size;
    *s = (jinja_string){.data = from,
                        .typed = k->typed ? k->typed + (from - k->data) : NULL,
                        .size = size,
                        .chars = a->chars + b->chars,
                        .store = k};
    return (jinja_value){.kind = JINJA_STRING, .s = s};
}

static jinja_value join_text(jinja_env *env, const jinja_node *at, jinja_value a, jinja_value b) {
    bool safe = a.s->safe || b.s->safe;
    jinja_buffer t = {0};
    if (!safe) return !a.s->size ? b : !b.s->size ? a : append(env, at, a.s, b.s);
    jinja_add_escaped(env, at, &t, a);
    jinja_add_escaped(env, at, &t, b);
    return jinja_with_safe(env, jinja_take(env, &t), safe);
}

static bool is_sequence(jinja_value v) {
    return v.kind == JINJA_STRING || v.kind == JINJA_LIST || v.kind == JINJA_TUPLE;
}

static bool is_undefined(jinja_value v) {
    return v.kind == JINJA_UNDEFINED || v.kind == JINJA_MISSING;
}

jinja_value jinja_arithmetic(jinja_env *env, const jinja_node *at, jinja_type op, jinja_value a, jinja_value b) {
    static const char *const names[] = {[JN_ADD] = "+", [JN_SUB] = "-",       [JN_MUL] = "*", [JN_DIV] = "/",
                                        [JN_MOD] = "%", [JN_FLOORDIV] = "//", [JN_POW] = "**"};
    bool number_a = jinja_is_int(a) || a.kind == JINJA_FLOAT, number_b = jinja_is_int(b) || b.kind == JINJA_FLOAT;
    if (env->failed) return a;
    if (jinja_is_int(a) && jinja_is_int(b)) return int_arithmetic(env, at, op, jinja_as_int(a), jinja_as_int(b));
    if (number_a && number_b)
        return float_arithmetic(env, at, op, jinja_as_float(env, at, a), jinja_as_float(env, at, b));
    if (op == JN_MOD && a.kind == JINJA_STRING) return jinja_printf(env, at, a.s, b);
    if (op == JN_ADD && a.kind == JINJA_STRING && b.kind == JINJA_STRING) return join_text(env, at, a, b);
    if (op == JN_ADD && a.kind == b.kind && is_sequence(a)) {
        jinja_value out = jinja_list_new(env, a.kind, a.list->n + b.list->n);
        if (!jinja_step(env, at, (int64_t)(a.list->n + b.list->n))) return out;
        for (size_t i = 0; i < a.list->n; i++) jinja_push(env, out, a.list->v[i]);
        for (size_t i = 0; i < b.list->n; i++) jinja_push(env, out, b.list->v[i]);
        return out;
    }
    if (op == JN_MUL && is_sequence(a) && jinja_is_int(b)) return repeat(env, at, a, jinja_as_int(b));
    if (op == JN_MUL && is_sequence(b) && jinja_is_int(a)) return repeat(env, at, b, jinja_as_int(a));
    for (int i = 0; i < 2; i++) {
        jinja_value v = i ? b : a;
        if (is_undefined(v)) return jinja_fail(env, at, "%.80s is undefined", v.why ? v.why : "a value");
    }
    if (a.kind == JINJA_VIEW || a.kind == JINJA_DICT || b.kind == JINJA_VIEW)
        return jinja_refuse(env, at, "%s %s %s", jinja_type_name(a), names[op], jinja_type_name(b));
    return jinja_fail(env, at, "%s %s %s cannot be computed", jinja_type_name(a), names[op], jinja_type_name(b));
}

jinja_value jinja_negate(jinja_env *env, const jinja_node *at, jinja_value v, bool minus) {
    int64_t r;
    if (v.kind == JINJA_FLOAT) return jinja_float(minus ? -v.f : v.f);
    if (!jinja_is_int(v)) return jinja_fail(env, at, "a %s has no sign", jinja_type_name(v));
    if (!minus) return jinja_int(jinja_as_int(v));
    return __builtin_sub_overflow((int64_t)0, jinja_as_int(v), &r) ? too_large(env, at) : jinja_int(r);
}

/* ---- rounding ---- */

static jinja_value round_int(jinja_env *env, const jinja_node *at, int64_t v, int64_t digits) {
    if (digits >= 0) return jinja_int(v);
    if (digits < -19) return jinja_int(0);
    jinja_wide unit = 1;
    for (int64_t i = 0; i > digits; i--) unit *= 10;
    jinja_wide rest = v % unit, down = v - rest, twice = 2 * (rest < 0 ? -rest : rest);
    bool odd = down / unit % 2 != 0;
    if (twice > unit || (twice == unit && odd)) down += v < 0 ? -unit : unit;
    if (down > INT64_MAX || down < INT64_MIN) return too_large(env, at);
    return jinja_int((int64_t)down);
}

/* Rounds to tens and more, half to even, by the exact decimal digits. */
static double round_up_there(double f, int64_t digits) {
    char text[400];
    double size = fabs(f), below = floor(size);
    int n = snprintf(text, sizeof text, "%.0f", below), drop = (int)-digits;
    if (drop > n) return copysign(0, f);
    int half = drop == n ? 0 : n - drop; /* The first digit that is dropped. */
    bool exact = text[half] == '5' && size == below;
    for (int i = half + 1; i < n && exact; i++) exact = text[i] == '0';
    bool odd = half > 0 && (text[half - 1] - '0') % 2, up = exact ? odd : text[half] >= '5';
    for (int i = half; i < n; i++) text[i] = '0';
    char out[402] = "0";
    memcpy(out + 1, text, (size_t)n + 1);
    for (int i = half; up && i >= 0; i--) { /* out[half] is the last digit that stays. */
        up = out[i] == '9';
        out[i] = up ? '0' : (char)(out[i] + 1);
    }
    return copysign(strtod(out, NULL), f);
}

jinja_value jinja_round(jinja_env *env, const jinja_node *at, jinja_value v, int64_t digits) {
    if (jinja_is_int(v)) return round_int(env, at, jinja_as_int(v), digits);
    if (v.kind != JINJA_FLOAT) return jinja_fail(env, at, "a %s cannot be rounded", jinja_type_name(v));
    if (!isfinite(v.f) || digits > 323) return v;
    if (digits < -308) return jinja_float(copysign(0, v.f));
    if (digits < 0) return jinja_float(round_up_there(v.f, digits));
    char text[700];
    snprintf(text, sizeof text, "%.*f", (int)digits, v.f);
    double r = strtod(text, NULL);
    return isinf(r) ? jinja_fail(env, at, "the rounded number is too large") : jinja_float(r);
}

/* ---- reading ---- */

/* Finds the text without white space around it. */
static void trimmed(const jinja_string *s, size_t *from, size_t *to) {
    *from = 0;
    *to = s->size;
    while (*from < *to) {
        size_t k = *from;
        if (!jinja_is_space(tw_utf8_next(s->data, &k))) break;
        *from = k;
    }
    while (*to > *from) {
        size_t k = tw_utf8_before(s->data, *to), next = k;
        if (!jinja_is_space(tw_utf8_next(s->data, &next))) break;
        *to = k;
    }
}

static int digit_of(uint32_t c) {
    if (c < 0x80)
        return c >= '0' && c <= '9' ? (int)c - '0' : (c | 32) >= 'a' && (c | 32) <= 'z' ? (int)(c | 32) - 87 : -1;
    return jinja_decimal(c);
}

jinja_parsed jinja_parse_int(const jinja_string *s, int base, int64_t *out) {
    size_t i, end;
    trimmed(s, &i, &end);
    if (base && (base < 2 || base > 36)) return JINJA_NO_NUMBER;
    bool minus = i < end && s->data[i] == '-', any = false, under = false;
    if (i < end && (s->data[i] == '-' || s->data[i] == '+')) i++;
    char kind = end - i > 1 && s->data[i] == '0' ? (char)(s->data[i + 1] | 32) : 0;
    int named = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    bool zeros = false; /* With base 0, a number that begins with 0 is 0. */
    if (named && (!base || base == named)) {
        i += 2;
        base = named;
        if (i < end && s->data[i] == '_') i++;
    } else if (!base) {
        base = 10;
        zeros = i < end && s->data[i] == '0';
    }
    int64_t v = 0;
    bool large = false;
    while (i < end) {
        if (s->data[i] == '_') {
            if (!any || under) return JINJA_NO_NUMBER;
            under = true;
            i++;
            continue;
        }
        int d = digit_of(tw_utf8_next(s->data, &i));
        if (d < 0 || d >= base) return JINJA_NO_NUMBER;
        any = true;
        under = false;
        large = large || __builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, minus ? -d : d, &v);
    }
    if (!any || under) return JINJA_NO_NUMBER;
    if (zeros && v) return JINJA_NO_NUMBER;
    if (large) return JINJA_TOO_LARGE;
    *out = v;
    return JINJA_PARSED;
}

static bool is_word(const char *s, const char *word) {
    for (; *word; s++, word++)
        if ((*s | 32) != *word) return false;
    return !*s;
}

/* Tells whether a text is [sign] digits [. digits] [e [sign] digits]. Underscores are gone. */
static bool is_float(const char *s) {
    bool any = false;
    s += *s == '+' || *s == '-';
    for (; *s >= '0' && *s <= '9'; s++) any = true;
    if (*s == '.')
        for (s++; *s >= '0' && *s <= '9'; s++) any = true;
    if (!any) return false;
    if ((*s | 32) == 'e') {
        s++;
        s += *s == '+' || *s == '-';
        if (*s < '0' || *s > '9') return false;
        while (*s >= '0' && *s <= '9') s++;
    }
    return !*s;
}

jinja_parsed jinja_parse_float(const jinja_string *s, double *out) {
    size_t i, end;
    char text[1024];
    size_t n = 0;
    trimmed(s, &i, &end);
    bool digit = false;
    while (i < end) {
        uint32_t c = tw_utf8_next(s->data, &i);
        int d = c < 0x80 ? -1 : jinja_decimal(c);
        if (c >= 0x80 && d < 0) return JINJA_NO_NUMBER;
        if (d >= 0) c = (uint32_t)('0' + d);
        if (c == '_') {
            size_t k = i;
            uint32_t next = i < end ? tw_utf8_next(s->data, &k) : 0;
            if (!digit || !(next >= '0' && next <= '9')) return JINJA_NO_NUMBER;
            continue;
        }
        digit = c >= '0' && c <= '9';
        if (!c) return JINJA_NO_NUMBER;
        if (n + 1 == sizeof text) return JINJA_TOO_LARGE;
        text[n++] = (char)c;
    }
    text[n] = 0;
    const char *word = text + (*text == '+' || *text == '-');
    if (is_word(word, "inf") || is_word(word, "infinity"))
        *out = *text == '-' ? -INFINITY : INFINITY;
    else if (is_word(word, "nan"))
        *out = NAN;
    else if (is_float(text))
        *out = strtod(text, NULL);
    else
        return JINJA_NO_NUMBER;
    return JINJA_PARSED;
}

jinja_parsed jinja_float_to_int(double f, int64_t *out) {
    if (!isfinite(f)) return JINJA_NO_NUMBER;
    if (!(f >= -0x1p63 && f < 0x1p63)) return JINJA_TOO_LARGE;
    *out = (int64_t)f;
    return JINJA_PARSED;
}
