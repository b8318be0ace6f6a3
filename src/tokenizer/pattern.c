/* SPDX-License-Identifier: Apache-2.0 */
/* Translates Oniguruma's Ruby syntax, in which tokenizer.json patterns are written, to PCRE2's. They differ: ^ and $
   match at lines, (?m) makes the dot match newlines, \h is a hexadecimal digit, \w has other characters, {n}+ repeats a
   repetition, classes nest and intersect, and the editions of Unicode are not the same. Syntax that is not known to
   mean the same is refused, so nothing of PCRE2's own syntax passes. */
#include "tokenizer/tokenizer.h"

#include "tokenizer/unicode.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SPACES                                                                                                         \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define MAX_DEPTH 64

typedef struct translator {
    const char *s;
    size_t n, i;
    tw_buf *out;
    char *why;
    size_t why_size;
    bool bad;
    bool names, references; /* The pattern has named groups, or back references. */
    int groups, highest;    /* Number of capturing groups, and the highest reference. */
} translator;

static bool refuse(translator *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(translator *t, const char *fmt, ...) {
    if (t->bad) return false;
    t->bad = true;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->why, t->why_size, fmt, ap);
    va_end(ap);
    return false;
}

static bool more(const translator *t) {
    return t->i < t->n;
}
static char peek(const translator *t, size_t ahead) {
    return t->i + ahead < t->n ? t->s[t->i + ahead] : 0;
}
static bool looks_at(const translator *t, const char *s) {
    size_t n = strlen(s);
    return t->n - t->i >= n && !memcmp(t->s + t->i, s, n);
}

static const char *extra(const char *name) {
    for (size_t i = 0; i < tw_n_property_extras; i++)
        if (!strcmp(tw_property_extras[i].name, name)) return tw_property_extras[i].members;
    return "";
}

/* A set of characters. `members` are in PCRE2's class syntax. `parts` are complete matchers of one character. */
typedef struct set {
    tw_buf members, parts;
    bool any; /* `members` is not empty. */
} set;

static void set_free(set *s) {
    tw_buf_free(&s->members);
    tw_buf_free(&s->parts);
}

static void set_members(set *s, const char *members) {
    tw_buf_str(&s->members, members);
    s->any = true;
}

static void set_point(set *s, uint32_t a, uint32_t b) {
    if (a == b)
        tw_buf_printf(&s->members, "\\x{%x}", a);
    else
        tw_buf_printf(&s->members, "\\x{%x}-\\x{%x}", a, b);
    s->any = true;
}

static void set_part(set *s, const char *matcher) {
    if (s->parts.size) tw_buf_str(&s->parts, "|");
    tw_buf_str(&s->parts, matcher);
}

/* Adds the members, or all other characters if `negated`. */
static void set_class(set *s, const char *members, bool negated) {
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

/* Writes the set's matcher. */
static void set_emit(const set *s, bool negated, tw_buf *out) {
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

/* Reads \p{…} or \P{…}, with i behind the letter. */
static bool read_property(translator *t, bool negated, set *s) {
    const char *close = peek(t, 0) == '{' ? memchr(t->s + t->i, '}', t->n - t->i) : NULL;
    if (!close) return refuse(t, "\\p without a name in braces");
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
    return known || refuse(t, "the property \\p{%.*s}", (int)(n > 40 ? 40 : n), name);
}

static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads an escape that stands for one character, with i at the letter. False: it is another escape. */
static bool read_escaped_point(translator *t, uint32_t *cp) {
    static const char letters[] = "tnrfvae";
    static const char points[] = "\t\n\r\f\v\a\x1b";
    char c = peek(t, 0);
    const char *known = c ? strchr(letters, c) : NULL;
    if (known) {
        *cp = (uint32_t)points[known - letters];
        t->i++;
        return true;
    }
    if (c == 'x' && peek(t, 1) == '{') {
        size_t k = t->i + 2;
        uint32_t v = 0;
        while (k < t->n && hex(t->s[k]) >= 0 && v < 0x110000) v = v * 16 + (uint32_t)hex(t->s[k++]);
        if (k == t->i + 2 || k >= t->n || t->s[k] != '}' || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
            return refuse(t, "a \\x{…} that is no character");
        t->i = k + 1;
        *cp = v;
        return true;
    }
    if (c == 'x' || c == 'u') {
        size_t digits = c == 'x' ? 2 : 4;
        uint32_t v = 0;
        for (size_t k = 1; k <= digits; k++) {
            if (hex(peek(t, k)) < 0) return refuse(t, "\\%c without %zu hexadecimal digits", c, digits);
            v = v * 16 + (uint32_t)hex(peek(t, k));
        }
        if ((c == 'x' && v > 0x7f) || (v >= 0xd800 && v < 0xe000)) return refuse(t, "\\%c that is no character", c);
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

/* Adds the class of a letter: w W d D s S h H. Outside brackets \w also has the superscripts and fractions of
   Latin-1. */
static bool letter_class(char c, bool in_brackets, set *s) {
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

/* Reads [:name:] or [:^name:], with i at the bracket. */
static bool read_posix(translator *t, set *s) {
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
    if (!known) return refuse(t, "a [: :] class that is not known");
    t->i = (size_t)(end - t->s) + 2;
    return true;
}

/* Reads one character of a class, with i at it or at its backslash. */
static bool read_class_point(translator *t, uint32_t *cp) {
    if (peek(t, 0) != '\\') {
        *cp = tw_utf8_next(t->s, &t->i);
        return true;
    }
    t->i++;
    if (peek(t, 0) == 'b') { /* In a class \b is a backspace. */
        t->i++;
        *cp = 8;
        return true;
    }
    return (more(t) && read_escaped_point(t, cp)) || refuse(t, "\\%c in a class", peek(t, 0));
}

/* Reads a character or a range of characters. */
static bool read_range(translator *t, set *s) {
    uint32_t a, b;
    if (!read_class_point(t, &a)) return false;
    b = a;
    bool range = peek(t, 0) == '-' && t->i + 1 < t->n && peek(t, 1) != ']' && !(peek(t, 1) == '&' && peek(t, 2) == '&');
    if (range) {
        t->i++;
        if (peek(t, 0) == '[') return refuse(t, "a range that ends in a class");
        if (!read_class_point(t, &b)) return false;
        if (b < a) return refuse(t, "an empty range in a class");
    }
    set_point(s, a, b);
    return true;
}

static bool read_class(translator *t, tw_buf *out, int depth);

/* Reads one member of a class. */
static bool read_member(translator *t, set *s, int depth) {
    if (looks_at(t, "[:")) return read_posix(t, s);
    if (peek(t, 0) == '[') {
        t->i++;
        tw_buf inner = {0};
        bool ok = read_class(t, &inner, depth + 1);
        if (inner.failed)
            s->parts.failed = true;
        else if (ok)
            set_part(s, inner.data);
        tw_buf_free(&inner);
        return ok;
    }
    if (peek(t, 0) == '\\') {
        char c = peek(t, 1);
        if (c == 'p' || c == 'P') {
            t->i += 2;
            return read_property(t, c == 'P', s);
        }
        if (letter_class(c, true, s)) {
            t->i += 2;
            return true;
        }
    }
    return read_range(t, s);
}

/* Reads a [...] class and writes its matcher. t->i is the index behind the bracket. The intersection A && B becomes a
   lookahead for A, then B. */
static bool read_class(translator *t, tw_buf *out, int depth) {
    if (depth > MAX_DEPTH) return refuse(t, "classes nested more than %d deep", MAX_DEPTH);
    set s = {0};
    tw_buf ahead = {0};
    bool negated = peek(t, 0) == '^', ok = true;
    t->i += negated;
    if (peek(t, 0) == ']') return refuse(t, "a class that begins with ]");
    while (ok && more(t) && peek(t, 0) != ']') {
        if (!looks_at(t, "&&")) {
            ok = read_member(t, &s, depth);
            continue;
        }
        t->i += 2;
        tw_buf_str(&ahead, "(?=");
        set_emit(&s, false, &ahead);
        tw_buf_str(&ahead, ")");
        set_free(&s);
        s = (set){0};
    }
    if (ok && !more(t)) ok = refuse(t, "a class that does not end");
    t->i++;
    if (ahead.failed || s.members.failed || s.parts.failed) out->failed = true;
    if (ok && ahead.size && !ahead.failed) {
        tw_buf_printf(out, "(?:%s%s", negated ? "(?!" : "", ahead.data);
        set_emit(&s, false, out);
        tw_buf_str(out, negated ? ")[\\x{0}-\\x{10ffff}])" : ")");
    } else if (ok)
        set_emit(&s, negated, out);
    set_free(&s);
    tw_buf_free(&ahead);
    return ok && !out->failed;
}

/* Puts a non-capturing group around what `out` has from `start` on, so that one more quantifier may follow. */
static void wrap(tw_buf *out, size_t start) {
    if (out->failed) return;
    tw_buf tail = {0};
    tw_buf_add(&tail, out->data + start, out->size - start);
    out->size = start;
    tw_buf_str(out, "(?:");
    if (tail.failed)
        out->failed = true;
    else
        tw_buf_add(out, tail.data, tail.size);
    tw_buf_str(out, ")");
    tw_buf_free(&tail);
}

/* Reads {n}, {n,}, {,m} or {n,m} at i. False: the brace is a literal character. */
static bool read_interval(translator *t, long *lo, long *hi) {
    size_t k = t->i + 1;
    long v[2] = {-1, -1};
    bool comma = false;
    for (int part = 0; part < 2; part++) {
        while (k < t->n && isdigit((unsigned char)t->s[k])) {
            v[part] = (v[part] < 0 ? 0 : v[part]) * 10 + (t->s[k++] - '0');
            if (v[part] > 65535) return refuse(t, "a repetition of more than 65535");
        }
        if (part == 0 && k < t->n && t->s[k] == ',') {
            comma = true;
            k++;
        } else
            break;
    }
    if (k >= t->n || t->s[k] != '}' || (v[0] < 0 && v[1] < 0)) return false;
    *lo = v[0] < 0 ? 0 : v[0];
    *hi = comma ? v[1] : v[0];
    if (*hi >= 0 && *hi < *lo) return refuse(t, "a repetition {%ld,%ld}", *lo, *hi);
    t->i = k + 1;
    return true;
}

/* Reads the quantifiers at t->i. They repeat the atom that `out` has from `start` on. */
static void read_quantifiers(translator *t, size_t start, bool can_repeat) {
    for (bool first = true; more(t) && !t->bad; first = false) {
        char c = peek(t, 0);
        long lo = 0, hi = 0;
        if (c == '*' || c == '+' || c == '?') {
            if (!can_repeat) {
                refuse(t, "a %c with nothing to repeat", c);
                return;
            }
            if (!first) wrap(t->out, start);
            tw_buf_add(t->out, &c, 1);
            t->i++;
            if (peek(t, 0) == '?' || peek(t, 0) == '+') { /* Lazy or possessive. */
                char d = peek(t, 0);
                tw_buf_add(t->out, &d, 1);
                t->i++;
            }
        } else if (c == '{' && read_interval(t, &lo, &hi)) {
            if (!can_repeat) {
                refuse(t, "a repetition with nothing to repeat");
                return;
            }
            if (!first) wrap(t->out, start);
            if (hi == lo)
                tw_buf_printf(t->out, "{%ld}", lo);
            else if (hi < 0)
                tw_buf_printf(t->out, "{%ld,}", lo);
            else
                tw_buf_printf(t->out, "{%ld,%ld}", lo, hi);
            /* {n,m}? is lazy, {n}? is optional, and {…}+ repeats. Only the first is the same in PCRE2. */
            if (hi != lo && peek(t, 0) == '?') {
                tw_buf_str(t->out, "?");
                t->i++;
            }
        } else
            return;
    }
}

static bool read_alternatives(translator *t, int depth);

/* Reads (?imx-imx) or (?imx-imx: …), with i behind the question mark. */
static bool read_options(translator *t, bool at_start, int depth) {
    bool off = false;
    tw_buf_str(t->out, "(?");
    for (; more(t); t->i++) {
        char c = peek(t, 0);
        if (c == '-') {
            off = true;
            tw_buf_str(t->out, "-");
        } else if (c == 'i')
            tw_buf_str(t->out, "i");
        else if (c == 'm')
            tw_buf_str(t->out, "s");
        else if (c == ')') {
            /* In the middle of a group, options would bind the alternatives after them together. PCRE2 does not do
               that. */
            if (!at_start) return refuse(t, "options set in the middle of a group");
            t->i++;
            tw_buf_str(t->out, ")");
            return true;
        } else if (c == ':') {
            t->i++;
            tw_buf_str(t->out, ":");
            if (!read_alternatives(t, depth + 1)) return false;
            if (peek(t, 0) != ')') return refuse(t, "a group that does not end");
            t->i++;
            tw_buf_str(t->out, ")");
            return true;
        } else
            return refuse(t, "the group (?%s%c", off ? "-" : "", c);
    }
    return refuse(t, "a group that does not end");
}

/* Reads a group. t->i is the index behind its opening parenthesis. `*repeats` is set to whether a quantifier may
   follow. `*invisible` is set if the group matches nothing itself, as a comment or a change of options does. */
static bool read_group(translator *t, bool at_start, int depth, bool *repeats, bool *invisible) {
    static const char *const plain[] = {"?:", "?=", "?!", "?<=", "?<!", "?>"};
    if (depth > MAX_DEPTH) return refuse(t, "groups nested more than %d deep", MAX_DEPTH);
    if (peek(t, 0) == '*') return refuse(t, "(*");
    if (looks_at(t, "?#")) {
        const char *close = memchr(t->s + t->i, ')', t->n - t->i);
        if (!close) return refuse(t, "a comment that does not end");
        t->i = (size_t)(close - t->s) + 1;
        *invisible = true;
        return true;
    }
    if (peek(t, 0) != '?') {
        t->groups++;
        tw_buf_str(t->out, "(");
    } else {
        bool found = false;
        for (size_t k = 0; k < sizeof plain / sizeof *plain && !found; k++)
            if (looks_at(t, plain[k])) {
                tw_buf_printf(t->out, "(%s", plain[k]);
                t->i += strlen(plain[k]);
                found = true;
                *repeats = strchr("!=", plain[k][strlen(plain[k]) - 1]) == NULL;
            }
        if (!found && looks_at(t, "?<") && (isalpha((unsigned char)peek(t, 2)) || peek(t, 2) == '_')) {
            const char *close = memchr(t->s + t->i, '>', t->n - t->i);
            if (!close) return refuse(t, "a group's name that does not end");
            t->i = (size_t)(close - t->s) + 1;
            t->names = true;
            tw_buf_str(t->out, "(?:");
            found = true;
        }
        if (!found) {
            size_t here = t->i++;
            if (!read_options(t, at_start, depth)) return false;
            *invisible = !memchr(t->s + here, ':', t->i - here);
            return true;
        }
    }
    if (!read_alternatives(t, depth + 1)) return false;
    if (peek(t, 0) != ')') return refuse(t, "a group that does not end");
    t->i++;
    tw_buf_str(t->out, ")");
    return true;
}

/* Reads an escape outside brackets, with i at the letter. */
static bool read_escape(translator *t, bool *repeats) {
    char c = peek(t, 0);
    if (!more(t)) return refuse(t, "a pattern that ends in a backslash");
    set s = {0};
    uint32_t cp;
    bool ok = true;
    if (c == 'p' || c == 'P') {
        t->i++;
        ok = read_property(t, c == 'P', &s);
        if (ok) set_emit(&s, false, t->out);
    } else if (letter_class(c, false, &s)) {
        t->i++;
        set_emit(&s, false, t->out);
    } else if (c == 'b' || c == 'B') {
        /* \b is spelled out, since \w is not PCRE2's. */
        t->i++;
        letter_class('w', false, &s);
        if (!s.members.failed) {
            const char *w = s.members.data;
            if (c == 'b')
                tw_buf_printf(t->out, "(?:(?<=[%s])(?![%s])|(?<![%s])(?=[%s]))", w, w, w, w);
            else
                tw_buf_printf(t->out, "(?:(?<=[%s])(?=[%s])|(?<![%s])(?![%s]))", w, w, w, w);
        }
        *repeats = false;
    } else if (c == 'A' || c == 'z' || c == 'Z' || c == 'G') {
        t->i++;
        tw_buf_printf(t->out, "\\%c", c);
        *repeats = false;
    } else if (c == 'R') {
        t->i++;
        tw_buf_str(t->out, "\\R");
    } else if (c >= '1' && c <= '9' && !isdigit((unsigned char)peek(t, 1))) {
        t->i++;
        t->references = true;
        if (c - '0' > t->highest) t->highest = c - '0';
        tw_buf_printf(t->out, "\\g{%c}", c);
    } else if (read_escaped_point(t, &cp))
        tw_buf_printf(t->out, "\\x{%x}", cp);
    else
        ok = refuse(t, "\\%c", c);
    if (s.members.failed || s.parts.failed) t->out->failed = true;
    set_free(&s);
    return ok;
}

static bool read_alternatives(translator *t, int depth) {
    bool at_start = true;
    while (more(t) && peek(t, 0) != ')') {
        size_t start = t->out->size;
        bool repeats = true, invisible = false, ok = true;
        char c = peek(t, 0);
        if (c == '|') {
            t->i++;
            tw_buf_str(t->out, "|");
            at_start = false;
            continue;
        }
        if (c == '(') {
            t->i++;
            ok = read_group(t, at_start, depth, &repeats, &invisible);
        } else if (c == '[') {
            t->i++;
            ok = read_class(t, t->out, 0);
        } else if (c == '\\') {
            t->i++;
            ok = read_escape(t, &repeats);
        } else if (c == '.' || c == '^' || c == '$') {
            t->i++;
            repeats = c == '.';
            tw_buf_add(t->out, &c, 1);
        } else if (c == '*' || c == '+' || c == '?')
            ok = refuse(t, "a %c with nothing to repeat", c);
        else {
            long lo = 0, hi = 0;
            if (c == '{' && read_interval(t, &lo, &hi)) ok = refuse(t, "a repetition with nothing to repeat");
            if (ok) tw_buf_printf(t->out, "\\x{%x}", tw_utf8_next(t->s, &t->i));
        }
        if (!ok || t->bad || t->out->failed) return false;
        if (invisible) continue;
        at_start = false;
        read_quantifiers(t, start, repeats);
    }
    return !t->bad;
}

tw_status tw_regex_translate(tw_buf *out, const char *pattern, size_t size, char *why, size_t why_size) {
    translator t = {.s = pattern, .n = size, .out = out, .why = why, .why_size = why_size};
    if (memchr(pattern, 0, size)) refuse(&t, "a NUL character");
    if (!t.bad && read_alternatives(&t, 0) && more(&t)) refuse(&t, "a ) without its (");
    if (!t.bad && !out->failed) {
        if (t.references && t.names) refuse(&t, "numbered references beside named groups");
        if (t.highest > t.groups) refuse(&t, "a reference to a group that is not there");
    }
    if (out->failed) return TW_ERR_MEMORY;
    return t.bad ? TW_ERR_UNSUPPORTED : TW_OK;
}
