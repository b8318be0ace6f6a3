/* SPDX-License-Identifier: Apache-2.0 */
/* What matches one character of a pattern, as PCRE2 spells it: escapes, properties and [...] classes. */
#include "tokenizer/pattern_parts.h"

#include "tokenizer/unicode.h"

#include <ctype.h>
#include <string.h>

#define SPACES                                                                                                         \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

/* ---- sets of characters ---- */

void tw_regex_set_free(tw_regex_set *s) {
    tw_buf_free(&s->members);
    tw_buf_free(&s->parts);
}

static void set_members(tw_regex_set *s, const char *members) {
    tw_buf_str(&s->members, members);
    s->any = true;
}

static void set_point(tw_regex_set *s, uint32_t a, uint32_t b) {
    if (a == b)
        tw_buf_printf(&s->members, "\\x{%x}", a);
    else
        tw_buf_printf(&s->members, "\\x{%x}-\\x{%x}", a, b);
    s->any = true;
}

static void set_part(tw_regex_set *s, const char *matcher) {
    if (s->parts.size) tw_buf_str(&s->parts, "|");
    tw_buf_str(&s->parts, matcher);
}

/* Adds the members, or all other characters if `negated`. */
static void set_class(tw_regex_set *s, const char *members, bool negated) {
    if (!negated) {
        set_members(s, members);
        return;
    }
    tw_buf m = {0};
    tw_buf_printf(&m, "[^%s]", members);
    if (m.failed)
        s->parts.failed = true;
    else
        set_part(s, m.data);
    tw_buf_free(&m);
}

void tw_regex_set_emit(const tw_regex_set *s, bool negated, tw_buf *out) {
    if (s->members.failed || s->parts.failed) out->failed = true;
    if (out->failed) return;
    if (!s->parts.size) {
        if (s->any)
            tw_buf_printf(out, "[%s%s]", negated ? "^" : "", s->members.data);
        else
            tw_buf_str(out, negated ? "[\\x{0}-\\x{10ffff}]" : "(?!)");
        return;
    }
    tw_buf_str(out, negated ? "(?:(?!" : "(?:");
    if (s->any) tw_buf_printf(out, "[%s]|", s->members.data);
    tw_buf_str(out, s->parts.data);
    tw_buf_str(out, negated ? ")[\\x{0}-\\x{10ffff}])" : ")");
}

/* ---- properties ---- */

/* Members of a property that PCRE2's edition of Unicode lacks. */
static const char *extra(const char *name) {
    for (size_t i = 0; i < tw_n_property_extras; i++)
        if (!strcmp(tw_property_extras[i].name, name)) return tw_property_extras[i].members;
    return "";
}

/* Makes a name plain. The engine compares letters without case, and ignores spaces, hyphens and underscores. */
static void plain_name(const char *s, size_t n, char *out, size_t size) {
    size_t k = 0;
    for (size_t i = 0; i < n && k + 1 < size; i++)
        if (s[i] != ' ' && s[i] != '-' && s[i] != '_') out[k++] = (char)tolower((unsigned char)s[i]);
    out[k] = 0;
}

/* Writes the members of a property in class syntax. False: the property is unknown. */
static bool property(const char *name, size_t n, tw_buf *members) {
    static const struct {
        const char *name, *category;
    } categories[] = {{"l", "L"},
                      {"letter", "L"},
                      {"n", "N"},
                      {"number", "N"},
                      {"p", "P"},
                      {"punct", "P"},
                      {"punctuation", "P"},
                      {"s", "S"},
                      {"symbol", "S"},
                      {"m", "M"},
                      {"mark", "M"},
                      {"combiningmark", "M"},
                      {"z", "Z"},
                      {"separator", "Z"},
                      {"lu", "Lu"},
                      {"uppercaseletter", "Lu"},
                      {"ll", "Ll"},
                      {"lowercaseletter", "Ll"},
                      {"lt", "Lt"},
                      {"titlecaseletter", "Lt"},
                      {"lm", "Lm"},
                      {"modifierletter", "Lm"},
                      {"lo", "Lo"},
                      {"otherletter", "Lo"},
                      {"mn", "Mn"},
                      {"nonspacingmark", "Mn"},
                      {"mc", "Mc"},
                      {"spacingmark", "Mc"},
                      {"me", "Me"},
                      {"enclosingmark", "Me"},
                      {"nd", "Nd"},
                      {"decimalnumber", "Nd"},
                      {"digit", "Nd"},
                      {"nl", "Nl"},
                      {"letternumber", "Nl"},
                      {"no", "No"},
                      {"othernumber", "No"},
                      {"pc", "Pc"},
                      {"connectorpunctuation", "Pc"},
                      {"pd", "Pd"},
                      {"dashpunctuation", "Pd"},
                      {"ps", "Ps"},
                      {"openpunctuation", "Ps"},
                      {"pe", "Pe"},
                      {"closepunctuation", "Pe"},
                      {"pi", "Pi"},
                      {"initialpunctuation", "Pi"},
                      {"pf", "Pf"},
                      {"finalpunctuation", "Pf"},
                      {"po", "Po"},
                      {"otherpunctuation", "Po"},
                      {"sm", "Sm"},
                      {"mathsymbol", "Sm"},
                      {"sc", "Sc"},
                      {"currencysymbol", "Sc"},
                      {"sk", "Sk"},
                      {"modifiersymbol", "Sk"},
                      {"so", "So"},
                      {"othersymbol", "So"},
                      {"zs", "Zs"},
                      {"spaceseparator", "Zs"},
                      {"zl", "Zl"},
                      {"lineseparator", "Zl"},
                      {"zp", "Zp"},
                      {"paragraphseparator", "Zp"},
                      {"cc", "Cc"},
                      {"control", "Cc"},
                      {"cntrl", "Cc"}};
    static const char *const scripts[] = {"Arabic", "Cyrillic", "Devanagari", "Greek", "Han", "Hangul",
                                          "Hebrew", "Hiragana", "Katakana",   "Latin", "Thai"};
    char plain[48];
    plain_name(name, n, plain, sizeof plain);
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (!strcmp(plain, categories[i].name)) {
            tw_buf_printf(members, "\\p{%s}%s", categories[i].category, extra(categories[i].category));
            return true;
        }
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        char script[48];
        plain_name(scripts[i], strlen(scripts[i]), script, sizeof script);
        if (!strcmp(plain, script)) return tw_buf_printf(members, "\\p{sc:%s}%s", scripts[i], extra(scripts[i])), true;
    }
    if (!strcmp(plain, "alpha") || !strcmp(plain, "alphabetic"))
        return tw_buf_printf(members, "\\p{Alphabetic}%s", extra("Alphabetic")), true;
    if (!strcmp(plain, "upper") || !strcmp(plain, "uppercase"))
        return tw_buf_printf(members, "\\p{Uppercase}%s", extra("Uppercase")), true;
    if (!strcmp(plain, "lower") || !strcmp(plain, "lowercase"))
        return tw_buf_printf(members, "\\p{Lowercase}%s", extra("Lowercase")), true;
    if (!strcmp(plain, "space") || !strcmp(plain, "whitespace")) return tw_buf_str(members, SPACES), true;
    if (!strcmp(plain, "alnum"))
        return tw_buf_printf(members, "\\p{Alphabetic}%s\\p{Nd}%s", extra("Alphabetic"), extra("Nd")), true;
    if (!strcmp(plain, "xdigit")) return tw_buf_str(members, "0-9A-Fa-f"), true;
    if (!strcmp(plain, "blank")) return tw_buf_str(members, "\\p{Zs}\\x{9}"), true;
    if (!strcmp(plain, "word"))
        return tw_buf_printf(members, "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}%s", extra("word")), true;
    return false;
}

bool tw_regex_read_property(tw_regex_translator *t, bool negated, tw_regex_set *s) {
    const char *close = tw_regex_peek(t, 0) == '{' ? memchr(t->s + t->i, '}', t->n - t->i) : NULL;
    if (!close) return tw_regex_refuse(t, "\\p without a name in braces");
    const char *name = t->s + t->i + 1;
    size_t n = (size_t)(close - name);
    t->i = (size_t)(close - t->s) + 1;
    if (n && *name == '^') {
        negated = !negated;
        name++;
        n--;
    }
    tw_buf members = {0};
    bool known = property(name, n, &members);
    if (known && !members.failed) set_class(s, members.data, negated);
    if (members.failed) s->members.failed = true;
    tw_buf_free(&members);
    return known || tw_regex_refuse(t, "the property \\p{%.*s}", (int)(n > 40 ? 40 : n), name);
}

/* ---- escapes ---- */

static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool tw_regex_read_point(tw_regex_translator *t, uint32_t *cp) {
    static const char letters[] = "tnrfvae";
    static const char points[] = "\t\n\r\f\v\a\x1b";
    char c = tw_regex_peek(t, 0);
    const char *known = c ? strchr(letters, c) : NULL;
    if (known) {
        *cp = (uint32_t)points[known - letters];
        t->i++;
        return true;
    }
    if (c == 'x' && tw_regex_peek(t, 1) == '{') {
        size_t k = t->i + 2;
        uint32_t v = 0;
        while (k < t->n && hex(t->s[k]) >= 0 && v < 0x110000) v = v * 16 + (uint32_t)hex(t->s[k++]);
        if (k == t->i + 2 || k >= t->n || t->s[k] != '}' || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
            return tw_regex_refuse(t, "a \\x{…} that is no character");
        t->i = k + 1;
        *cp = v;
        return true;
    }
    if (c == 'x' || c == 'u') {
        size_t digits = c == 'x' ? 2 : 4;
        uint32_t v = 0;
        for (size_t k = 1; k <= digits; k++) {
            if (hex(tw_regex_peek(t, k)) < 0)
                return tw_regex_refuse(t, "\\%c without %zu hexadecimal digits", c, digits);
            v = v * 16 + (uint32_t)hex(tw_regex_peek(t, k));
        }
        if ((c == 'x' && v > 0x7f) || (v >= 0xd800 && v < 0xe000))
            return tw_regex_refuse(t, "\\%c that is no character", c);
        t->i += digits + 1;
        *cp = v;
        return true;
    }
    if (!isalnum((unsigned char)c)) { /* Punctuation and characters beyond ASCII stand for themselves. */
        *cp = tw_utf8_next(t->s, &t->i);
        return true;
    }
    return false;
}

bool tw_regex_letter_class(char c, bool in_brackets, tw_regex_set *s) {
    tw_buf m = {0};
    switch (tolower((unsigned char)c)) {
    case 's':
        tw_buf_str(&m, SPACES);
        break;
    case 'd':
        tw_buf_printf(&m, "\\p{Nd}%s", extra("Nd"));
        break;
    case 'h':
        tw_buf_str(&m, "0-9A-Fa-f");
        break;
    case 'w':
        property("word", 4, &m);
        if (!in_brackets) tw_buf_str(&m, "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}");
        break;
    default:
        return false;
    }
    if (m.failed)
        s->members.failed = true;
    else
        set_class(s, m.data, isupper((unsigned char)c));
    tw_buf_free(&m);
    return true;
}

/* ---- classes ---- */

/* Reads [:name:] or [:^name:], with i at the bracket. */
static bool read_posix(tw_regex_translator *t, tw_regex_set *s) {
    static const char *const names[] = {"alpha", "space", "upper",  "lower", "digit", "alnum",
                                        "cntrl", "word",  "xdigit", "blank", "punct"};
    const char *name = t->s + t->i + 2, *end = strstr(name, ":]");
    bool negated = *name == '^', known = false;
    name += negated;
    size_t n = end && end >= name ? (size_t)(end - name) : 0;
    tw_buf members = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (n == strlen(names[i]) && !memcmp(name, names[i], n)) known = property(name, n, &members);
    /* POSIX punctuation includes symbols. */
    if (known && !memcmp(name, "punct", 5)) tw_buf_printf(&members, "\\p{S}%s", extra("S"));
    if (members.failed) s->members.failed = true;
    if (known && !members.failed) set_class(s, members.data, negated);
    tw_buf_free(&members);
    if (!known) return tw_regex_refuse(t, "a [: :] class that is not known");
    t->i = (size_t)(end - t->s) + 2;
    return true;
}

/* Reads one character of a class, with i at it or at its backslash. */
static bool read_class_point(tw_regex_translator *t, uint32_t *cp) {
    if (tw_regex_peek(t, 0) != '\\') {
        *cp = tw_utf8_next(t->s, &t->i);
        return true;
    }
    t->i++;
    if (tw_regex_peek(t, 0) == 'b') { /* In a class \b is a backspace. */
        t->i++;
        *cp = 8;
        return true;
    }
    return (tw_regex_more(t) && tw_regex_read_point(t, cp)) ||
           tw_regex_refuse(t, "\\%c in a class", tw_regex_peek(t, 0));
}

/* Reads a character or a range of characters. */
static bool read_range(tw_regex_translator *t, tw_regex_set *s) {
    uint32_t a = 0, b;
    if (!read_class_point(t, &a)) return false;
    b = a;
    bool range = tw_regex_peek(t, 0) == '-' && t->i + 1 < t->n && tw_regex_peek(t, 1) != ']' &&
                 !(tw_regex_peek(t, 1) == '&' && tw_regex_peek(t, 2) == '&');
    if (range) {
        t->i++;
        if (tw_regex_peek(t, 0) == '[') return tw_regex_refuse(t, "a range that ends in a class");
        if (!read_class_point(t, &b)) return false;
        if (b < a) return tw_regex_refuse(t, "an empty range in a class");
    }
    set_point(s, a, b);
    return true;
}

/* Reads one member of a class. */
static bool read_member(tw_regex_translator *t, tw_regex_set *s, int depth) {
    if (tw_regex_looks_at(t, "[:")) return read_posix(t, s);
    if (tw_regex_peek(t, 0) == '[') {
        t->i++;
        tw_buf inner = {0};
        bool ok = tw_regex_read_class(t, &inner, depth + 1);
        if (inner.failed)
            s->parts.failed = true;
        else if (ok)
            set_part(s, inner.data);
        tw_buf_free(&inner);
        return ok;
    }
    if (tw_regex_peek(t, 0) == '\\') {
        char c = tw_regex_peek(t, 1);
        if (c == 'p' || c == 'P') {
            t->i += 2;
            return tw_regex_read_property(t, c == 'P', s);
        }
        if (tw_regex_letter_class(c, true, s)) {
            t->i += 2;
            return true;
        }
    }
    return read_range(t, s);
}

/* The intersection A && B becomes a lookahead for A, then B. */
bool tw_regex_read_class(tw_regex_translator *t, tw_buf *out, int depth) {
    if (depth > TW_REGEX_MAX_DEPTH) return tw_regex_refuse(t, "classes nested more than %d deep", TW_REGEX_MAX_DEPTH);
    tw_regex_set s = {0};
    tw_buf ahead = {0};
    bool negated = tw_regex_peek(t, 0) == '^', ok = true;
    t->i += negated;
    if (tw_regex_peek(t, 0) == ']') return tw_regex_refuse(t, "a class that begins with ]");
    while (ok && tw_regex_more(t) && tw_regex_peek(t, 0) != ']') {
        if (!tw_regex_looks_at(t, "&&")) {
            ok = read_member(t, &s, depth);
            continue;
        }
        t->i += 2;
        tw_buf_str(&ahead, "(?=");
        tw_regex_set_emit(&s, false, &ahead);
        tw_buf_str(&ahead, ")");
        tw_regex_set_free(&s);
        s = (tw_regex_set){0};
    }
    if (ok && !tw_regex_more(t)) ok = tw_regex_refuse(t, "a class that does not end");
    t->i++;
    if (ahead.failed || s.members.failed || s.parts.failed) out->failed = true;
    if (ok && ahead.size && !ahead.failed) {
        tw_buf_printf(out, "(?:%s%s", negated ? "(?!" : "", ahead.data);
        tw_regex_set_emit(&s, false, out);
        tw_buf_str(out, negated ? ")[\\x{0}-\\x{10ffff}])" : ")");
    } else if (ok)
        tw_regex_set_emit(&s, negated, out);
    tw_regex_set_free(&s);
    tw_buf_free(&ahead);
    return ok && !out->failed;
}
