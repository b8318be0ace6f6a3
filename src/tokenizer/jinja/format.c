/* SPDX-License-Identifier: Apache-2.0 */
/* Python's two ways to format: text % values, and text.format(values). */
#include "base/python.h"
#include "tokenizer/jinja/jinja.h"
#include "tokenizer/unicode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct spec {
    char fill[5]; /* One character. */
    char align;   /* < > ^ =. 0: as the type has it. */
    char sign;    /* +, - or blank. */
    bool alternate, zero;
    char group; /* A comma, _ or 0. */
    int64_t width, precision;
    char type;
} spec;

enum { WIDEST = 1 << 20 };

static void pad(jinja_env *env, jinja_buffer *b, const char *fill, int64_t n) {
    for (int64_t i = 0; i < n && (i % 64 || jinja_step(env, NULL, 1)); i++)
        if (!jinja_add_text(env, b, fill)) return;
}

/* Prints a text, or a number whose sign and prefix come before the padding with '='. */
static void put_padded(jinja_env *env, jinja_buffer *b, const spec *f, const jinja_string *s, size_t chars, size_t head,
                       char align) {
    int64_t n = f->width - (int64_t)chars, left = 0;
    size_t end = jinja_byte_of(s, chars);
    if (f->align) align = f->align;
    if (n < 0) n = 0;
    if (align == '>') left = n;
    if (align == '^') left = n / 2;
    if (align == '=') {
        jinja_add_bytes(env, b, s, 0, head);
        pad(env, b, f->fill, n);
        jinja_add_bytes(env, b, s, head, end);
        return;
    }
    pad(env, b, f->fill, left);
    jinja_add_bytes(env, b, s, 0, end);
    pad(env, b, f->fill, n - left);
}

static void put_number(jinja_env *env, jinja_buffer *b, const spec *f, const char *sign, const char *prefix,
                       const char *digits) {
    char text[1500];
    int n = snprintf(text, sizeof text, "%s%s%s", sign, prefix, digits);
    if (n >= (int)sizeof text) {
        jinja_refuse(env, NULL, "a number of more than %zu characters", sizeof text);
        return;
    }
    jinja_string s = {.data = text, .size = (size_t)n, .chars = (size_t)n};
    spec g = *f;
    if (g.zero && !g.align) {
        g.align = '=';
        strcpy(g.fill, "0");
    }
    put_padded(env, b, &g, &s, s.size, strlen(sign) + strlen(prefix), '>');
}

static const char *sign_of(const spec *f, bool negative) {
    return negative ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "";
}

static void grouped(char *digits, size_t room, char comma, int every) {
    size_t n = strcspn(digits, ".eE%"), rest = strlen(digits), extra = (n - 1) / (size_t)every;
    if (!n || rest + extra + 1 > room) return;
    memmove(digits + n + extra, digits + n, rest - n + 1);
    for (size_t i = n, o = n + extra; extra; extra--) {
        for (int k = 0; k < every; k++) digits[--o] = digits[--i];
        digits[--o] = comma;
    }
}

static void int_digits(char out[70], uint64_t v, unsigned base, bool upper) {
    char back[66];
    int n = 0;
    do back[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[v % base];
    while (v /= base);
    for (int i = 0; i < n; i++) out[i] = back[n - 1 - i];
    out[n] = 0;
}

static void put_int(jinja_env *env, const jinja_node *at, jinja_buffer *b, const spec *f, int64_t v) {
    unsigned base = f->type == 'x' || f->type == 'X' ? 16 : f->type == 'o' ? 8 : f->type == 'b' ? 2 : 10;
    char digits[1400], prefix[3] = {'0', f->type, 0};
    int_digits(digits, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, base, f->type == 'X');
    if (f->precision > 1000) {
        jinja_refuse(env, at, "a number of more than 1000 digits");
        return;
    }
    size_t n = strlen(digits);
    if (f->precision > (int64_t)n) { /* This happens only with %. */
        memmove(digits + f->precision - n, digits, n + 1);
        memset(digits, '0', (size_t)f->precision - n);
    }
    if (f->group) {
        if (f->zero) {
            jinja_refuse(env, at, "zeros and groups of digits in one format");
            return;
        }
        grouped(digits, sizeof digits, f->group, base == 10 ? 3 : 4);
    }
    put_number(env, b, f, sign_of(f, v < 0), f->alternate && base != 10 ? prefix : "", digits);
}

static void put_float(jinja_env *env, const jinja_node *at, jinja_buffer *b, const spec *f, double v) {
    char digits[1400], pattern[16];
    int precision = f->precision < 0 ? 6 : (int)f->precision;
    double x = fabs(v);
    if (f->precision > 1000 || (f->group && f->zero)) {
        jinja_refuse(env, at, "this format of a float");
        return;
    }
    char type = f->type == '%' ? 'f' : f->type;
    if (f->type == '%') x *= 100;
    if (!isfinite(x))
        snprintf(digits, sizeof digits, "%s", isnan(x) ? "nan" : "inf");
    else {
        snprintf(pattern, sizeof pattern, f->alternate ? "%%#.%d%c" : "%%.%d%c", precision, type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(digits, sizeof digits, pattern, x);
#pragma GCC diagnostic pop
    }
    if (!isfinite(x) && f->type >= 'A' && f->type <= 'Z')
        for (char *p = digits; *p; p++) *p = (char)(*p - 32);
    if (f->type == '%') strcat(digits, "%");
    if (f->group && isfinite(x)) grouped(digits, sizeof digits, f->group, 3);
    put_number(env, b, f, sign_of(f, signbit(v) && !isnan(v)), "", digits);
}

/* ---- text % values ---- */

typedef struct printing {
    jinja_env *env;
    const jinja_node *at;
    jinja_value args;
    bool many;
    size_t used;
} printing;

static jinja_value next_arg(printing *p) {
    size_t n = p->many ? p->args.list->n : 1;
    if (p->used >= n) return jinja_fail(p->env, p->at, "not enough values for the format");
    return p->many ? p->args.list->v[p->used++] : (p->used++, p->args);
}

static int64_t star_or_number(printing *p, const jinja_string *s, size_t *i) {
    int64_t n = 0;
    if (*i < s->size && s->data[*i] == '*') {
        ++*i;
        jinja_index(p->env, p->at, next_arg(p), &n);
    } else
        while (*i < s->size && s->data[*i] >= '0' && s->data[*i] <= '9' && n <= WIDEST)
            n = 10 * n + (s->data[(*i)++] - '0');
    if (n > WIDEST || n < -WIDEST) jinja_refuse(p->env, p->at, "a field of more than %d characters", WIDEST);
    return n;
}

static void put_character(printing *p, jinja_buffer *b, const spec *f, jinja_value v) {
    char utf8[4];
    jinja_string s = {.data = utf8, .size = 1, .chars = 1};
    if (v.kind == JINJA_STRING && v.s->chars == 1)
        s = *v.s;
    else if (jinja_is_int(v) && jinja_as_int(v) >= 0 && jinja_as_int(v) < 0xd800)
        s.size = tw_utf8_put(utf8, (uint32_t)jinja_as_int(v));
    else {
        jinja_fail(p->env, p->at, "%%c needs one character");
        return;
    }
    put_padded(p->env, b, f, &s, 1, 0, '>');
}

static void put_conversion(printing *p, jinja_buffer *b, spec *f, jinja_value v, bool safe) {
    jinja_env *env = p->env;
    jinja_buffer t = {0};
    int64_t i = 0;
    if (env->failed) return;
    switch (f->type) {
    case 's':
    case 'r':
        if (f->type == 'r')
            jinja_add_repr(env, p->at, &t, v);
        else if (safe)
            jinja_add_escaped(env, p->at, &t, v);
        else
            jinja_add_value(env, p->at, &t, v);
        v = jinja_take(env, &t);
        strcpy(f->fill, " ");
        put_padded(env, b, f, v.s,
                   f->precision >= 0 && f->precision < (int64_t)v.s->chars ? (size_t)f->precision : v.s->chars, 0, '>');
        return;
    case 'c':
        put_character(p, b, f, v);
        return;
    case 'd':
    case 'i':
    case 'u':
        if (v.kind == JINJA_FLOAT && jinja_float_to_int(v.f, &i) != JINJA_PARSED) {
            jinja_refuse(env, p->at, "a whole number beyond 64 bits");
            return;
        }
        f->type = 'd';
        put_int(env, p->at, b, f, v.kind == JINJA_FLOAT ? i : jinja_index(env, p->at, v, &i) ? i : 0);
        return;
    case 'o':
    case 'x':
    case 'X':
        if (jinja_index(env, p->at, v, &i)) put_int(env, p->at, b, f, i);
        return;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        put_float(env, p->at, b, f, jinja_as_float(env, p->at, v));
        return;
    default:
        if (f->type == 'a')
            jinja_refuse(env, p->at, "the conversion %%a is not supported");
        else
            jinja_fail(env, p->at, "the format has an unknown conversion");
    }
}

/* Finds a conversion's value, by the key in parentheses at *i or in turn. */
static jinja_value keyed_arg(printing *p, const jinja_string *s, size_t *i, bool *keyed) {
    *keyed = *i < s->size && s->data[*i] == '(';
    if (!*keyed) return JINJA_NULL;
    size_t from = ++*i;
    int depth = 1;
    for (; *i < s->size; ++*i) {
        depth += s->data[*i] == '(' ? 1 : s->data[*i] == ')' ? -1 : 0;
        if (!depth) break;
    }
    if (*i >= s->size) return jinja_fail(p->env, p->at, "the format has a key without end");
    if (p->args.kind != JINJA_DICT) return jinja_fail(p->env, p->at, "the format needs a dictionary");
    jinja_entry *e = jinja_dict_find(p->env, p->at, p->args.dict, jinja_slice_bytes(p->env, s, from, *i));
    ++*i;
    return e ? e->value : jinja_fail(p->env, p->at, "the format's key is not there");
}

static void put_one(printing *p, jinja_buffer *b, const jinja_string *s, size_t *i) {
    spec f = {.fill = " ", .sign = '-', .precision = -1};
    bool keyed, left = false;
    jinja_value v = keyed_arg(p, s, i, &keyed);
    for (; *i < s->size && strchr("-+ #0", s->data[*i]) && s->data[*i]; ++*i) {
        char c = s->data[*i];
        left = left || c == '-';
        f.alternate = f.alternate || c == '#';
        f.zero = f.zero || c == '0';
        if (c == '+' || (c == ' ' && f.sign != '+')) f.sign = c;
    }
    f.width = star_or_number(p, s, i);
    if (f.width < 0) {
        left = true;
        f.width = -f.width;
    }
    if (*i < s->size && s->data[*i] == '.') {
        ++*i;
        f.precision = star_or_number(p, s, i);
        if (f.precision < 0) f.precision = 0;
    }
    if (*i < s->size && strchr("hlL", s->data[*i]) && s->data[*i]) ++*i;
    if (p->env->failed) return;
    if (*i >= s->size) {
        jinja_fail(p->env, p->at, "the format ends within a conversion");
        return;
    }
    f.type = s->data[(*i)++];
    if (left) f.align = '<';
    if (left) f.zero = false;
    if (f.type == '%') {
        jinja_add_text(p->env, b, "%");
        return;
    }
    if (!keyed) v = next_arg(p);
    put_conversion(p, b, &f, v, s->safe);
}

jinja_value jinja_printf(jinja_env *env, const jinja_node *at, const jinja_string *format, jinja_value args) {
    printing p = {env, at, args, args.kind == JINJA_TUPLE, 0};
    jinja_buffer b = {0};
    for (size_t i = 0; i < format->size && !env->failed;) {
        size_t from = i;
        while (i < format->size && format->data[i] != '%') i++;
        jinja_add_bytes(env, &b, format, from, i);
        if (i < format->size) {
            i++;
            put_one(&p, &b, format, &i);
        }
    }
    /* If the values can be indexed by a key, some may stay unused. */
    bool optional = args.kind == JINJA_DICT || args.kind == JINJA_LIST || args.kind == JINJA_UNDEFINED ||
                    args.kind == JINJA_MISSING || args.kind == JINJA_RANGE;
    if (!env->failed && !optional && p.used < (p.many ? args.list->n : 1))
        jinja_fail(env, at, "not all values are used by the format");
    return jinja_with_safe(env, jinja_take(env, &b), format->safe);
}

/* ---- text.format(values) ---- */

typedef struct formatting {
    jinja_env *env;
    const jinja_args *args;
    int64_t next; /* The next field without a number. -1: fields have numbers. */
} formatting;

static bool parse_spec(formatting *k, const jinja_string *s, spec *f) {
    size_t i = 0, first = 0;
    *f = (spec){.fill = " ", .sign = '-', .width = 0, .precision = -1};
    if (s->size) tw_utf8_next(s->data, &first);
    if (s->size > first && strchr("<>=^", s->data[first])) {
        memcpy(f->fill, s->data, first);
        f->fill[first] = 0;
        f->align = s->data[first];
        i = first + 1;
    } else if (s->size && strchr("<>=^", s->data[0]) && s->data[0])
        f->align = s->data[i++];
    if (i < s->size && (s->data[i] == '+' || s->data[i] == '-' || s->data[i] == ' ')) f->sign = s->data[i++];
    if (i < s->size && s->data[i] == '#') f->alternate = ++i != 0;
    if (i < s->size && s->data[i] == '0') f->zero = ++i != 0;
    for (; i < s->size && s->data[i] >= '0' && s->data[i] <= '9' && f->width <= WIDEST; i++)
        f->width = 10 * f->width + (s->data[i] - '0');
    if (i < s->size && (s->data[i] == ',' || s->data[i] == '_')) f->group = s->data[i++];
    if (i < s->size && s->data[i] == '.') {
        size_t from = ++i;
        f->precision = 0;
        for (; i < s->size && s->data[i] >= '0' && s->data[i] <= '9' && f->precision <= WIDEST; i++)
            f->precision = 10 * f->precision + (s->data[i] - '0');
        if (i == from) {
            jinja_fail(k->env, k->args->at, "the format has a dot without a precision");
            return false;
        }
    }
    if (i < s->size) f->type = s->data[i++];
    if (i < s->size || f->width > WIDEST || f->precision > WIDEST) {
        jinja_fail(k->env, k->args->at, "the format specification is not understood");
        return false;
    }
    return true;
}

static void put_formatted(formatting *k, jinja_buffer *b, jinja_value v, const jinja_string *text) {
    jinja_env *env = k->env;
    const jinja_node *at = k->args->at;
    spec f;
    if (!text->size) {
        jinja_add_value(env, at, b, v);
        return;
    }
    if (!parse_spec(k, text, &f)) return;
    if (v.kind == JINJA_STRING) {
        if ((f.type && f.type != 's') || f.group || f.sign != '-' || f.alternate || f.align == '=') {
            jinja_fail(env, at, "the format specification is not one of a string");
            return;
        }
        if (f.zero && !f.align) strcpy(f.fill, "0");
        put_padded(env, b, &f, v.s,
                   f.precision >= 0 && f.precision < (int64_t)v.s->chars ? (size_t)f.precision : v.s->chars, 0, '<');
        return;
    }
    bool whole = jinja_is_int(v);
    if (!whole && v.kind != JINJA_FLOAT) {
        jinja_fail(env, at, "a %s takes no format specification", jinja_type_name(v));
        return;
    }
    if (whole && (!f.type || (strchr("bdoxX", f.type)))) {
        if (f.precision >= 0) {
            jinja_fail(env, at, "a whole number has no precision");
            return;
        }
        put_int(env, at, b, &f, jinja_as_int(v));
    } else if (f.type && strchr("eEfFgG%", f.type))
        put_float(env, at, b, &f, jinja_as_float(env, at, v));
    else if (!whole && !f.type && f.precision < 0 && !f.group) {
        char digits[TW_PYTHON_FLOAT];
        tw_python_float(digits, fabs(v.f));
        put_number(env, b, &f, sign_of(&f, signbit(v.f) && !isnan(v.f)), "", digits);
    } else if (f.type && !strchr("ncs", f.type))
        jinja_fail(env, at, "the format specification is not understood");
    else
        jinja_refuse(env, at, "this format of a number is not supported");
}

static jinja_value named_arg(formatting *k, jinja_value name) {
    jinja_env *env = k->env;
    int64_t number = -1;
    bool digits = name.s->size > 0;
    for (size_t i = 0; i < name.s->size; i++) digits = digits && name.s->data[i] >= '0' && name.s->data[i] <= '9';
    if (!name.s->size) {
        if (k->next < 0) return jinja_fail(env, k->args->at, "fields with and without numbers are mixed");
        number = k->next++;
    } else if (digits) {
        if (k->next > 0 || jinja_parse_int(name.s, 10, &number) != JINJA_PARSED)
            return jinja_fail(env, k->args->at, "fields with and without numbers are mixed");
        k->next = -1;
    }
    if (number >= 0) {
        if ((size_t)number < k->args->n) return k->args->v[number];
        return jinja_fail(env, k->args->at, "the format has a field %lld that is not given", (long long)number);
    }
    for (size_t i = 0; i < k->args->n_keywords; i++) {
        const jinja_string *s = k->args->keywords[i].name;
        if (s->size == name.s->size && !memcmp(s->data, name.s->data, s->size)) return k->args->keywords[i].value;
    }
    return jinja_fail(env, k->args->at, "the format has a field that is not given");
}

/* Evaluates name.attribute[item]… */
static jinja_value field_value(formatting *k, const jinja_string *field) {
    jinja_env *env = k->env;
    size_t i = 0;
    while (i < field->size && field->data[i] != '.' && field->data[i] != '[') i++;
    jinja_value v = named_arg(k, jinja_slice_bytes(env, field, 0, i));
    while (i < field->size && !env->failed) {
        bool item = field->data[i++] == '[';
        size_t from = i;
        while (i < field->size && (item ? field->data[i] != ']' : field->data[i] != '.' && field->data[i] != '[')) i++;
        jinja_value key = jinja_slice_bytes(env, field, from, i);
        if (i == from || (item && i >= field->size))
            return jinja_fail(env, k->args->at, "a field of the format is empty");
        int64_t number;
        bool digits = true;
        for (size_t j = from; j < i; j++) digits = digits && field->data[j] >= '0' && field->data[j] <= '9';
        if (item && digits && jinja_parse_int(key.s, 10, &number) == JINJA_PARSED) key = jinja_int(number);
        v = item ? jinja_get_item(env, k->args->at, v, key) : jinja_get_attribute(env, k->args->at, v, key.s);
        i += item;
        if (item && i < field->size && field->data[i] != '.' && field->data[i] != '[')
            return jinja_fail(env, k->args->at, "only . or [ may follow ] in the format");
    }
    return v;
}

static void put_text(formatting *k, jinja_buffer *b, const jinja_string *s, int depth);

/* Prints a replacement field of str.format, the bytes `from` to `to` - 1 of `s` that stand between braces. The value is
   looked up, converted by !s or !r, and formatted by what follows the colon. */
static void put_field(formatting *k, jinja_buffer *b, const jinja_string *s, size_t from, size_t to, int depth) {
    jinja_env *env = k->env;
    size_t name = from, nested = 0;
    for (; name < to; name++) { /* Within [ ] no other character counts. */
        char c = s->data[name];
        nested = c == '[' ? 1 : c == ']' ? 0 : nested;
        if (!nested && (c == '!' || c == ':')) break;
    }
    size_t i = name;
    char conversion = 0;
    if (i < to && s->data[i] == '!') {
        conversion = i + 1 < to ? s->data[i + 1] : 0;
        i += 2;
        if (!conversion || (i < to && s->data[i] != ':') || !strchr("rsa", conversion)) {
            jinja_fail(env, k->args->at, "the conversion of a field is not understood");
            return;
        }
    }
    jinja_value v = field_value(k, jinja_slice_bytes(env, s, from, name).s);
    jinja_buffer t = {0};
    if (env->failed) return;
    if (conversion == 'a') {
        jinja_refuse(env, k->args->at, "the conversion !a is not supported");
        return;
    }
    if (conversion) {
        if (conversion == 'r')
            jinja_add_repr(env, k->args->at, &t, v);
        else
            jinja_add_value(env, k->args->at, &t, v);
        v = jinja_take(env, &t);
    }
    if (i < to) put_text(k, &t, jinja_slice_bytes(env, s, i + 1, to).s, depth + 1);
    jinja_value text = jinja_take(env, &t);
    if (!env->failed) put_formatted(k, b, v, text.s);
}

/* Finds the brace that closes the field at s[i]. s->size: none. */
static size_t field_end(const jinja_string *s, size_t i) {
    for (int open = 1; i < s->size; i++) {
        open += s->data[i] == '{' ? 1 : s->data[i] == '}' ? -1 : 0;
        if (!open) break;
    }
    return i;
}

static void put_text(formatting *k, jinja_buffer *b, const jinja_string *s, int depth) {
    if (depth > 1) {
        jinja_fail(k->env, k->args->at, "the fields of the format are nested too deeply");
        return;
    }
    for (size_t i = 0; i < s->size && !k->env->failed;) {
        size_t from = i;
        while (i < s->size && s->data[i] != '{' && s->data[i] != '}') i++;
        jinja_add_bytes(k->env, b, s, from, i);
        if (i >= s->size) break;
        if (i + 1 < s->size && s->data[i + 1] == s->data[i]) {
            jinja_add_bytes(k->env, b, s, i, i + 1);
            i += 2;
            continue;
        }
        size_t end = s->data[i] == '{' ? field_end(s, i + 1) : s->size;
        if (end >= s->size) {
            jinja_fail(k->env, k->args->at, "a brace stands alone in the format");
            return;
        }
        put_field(k, b, s, i + 1, end, depth);
        i = end + 1;
    }
}

jinja_value jinja_format(jinja_env *env, const jinja_string *format, const jinja_args *args) {
    formatting k = {env, args, 0};
    jinja_buffer b = {0};
    put_text(&k, &b, format, 0);
    return jinja_take(env, &b);
}
