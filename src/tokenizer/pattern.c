/* SPDX-License-Identifier: Apache-2.0 */
/* Translates Oniguruma's Ruby syntax, in which tokenizer.json patterns are written, to PCRE2's. They differ: ^ and $
   match at lines, (?m) makes the dot match newlines, \h is a hexadecimal digit, \w has other characters, {n}+ repeats a
   repetition, classes nest and intersect, and the editions of Unicode are not the same. Syntax that is not known to
   mean the same is refused, so nothing of PCRE2's own syntax passes. */
#include "tokenizer/pattern_parts.h"

#include "tokenizer/unicode.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool tw_regex_refuse(tw_regex_translator *t, const char *fmt, ...) {
    if (t->bad) return false;
    t->bad = true;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->why, t->why_size, fmt, ap);
    va_end(ap);
    return false;
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
static bool read_interval(tw_regex_translator *t, long *lo, long *hi) {
    size_t k = t->i + 1;
    long v[2] = {-1, -1};
    bool comma = false;
    for (int part = 0; part < 2; part++) {
        while (k < t->n && isdigit((unsigned char)t->s[k])) {
            v[part] = (v[part] < 0 ? 0 : v[part]) * 10 + (t->s[k++] - '0');
            if (v[part] > 65535) return tw_regex_refuse(t, "a repetition of more than 65535");
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
    if (*hi >= 0 && *hi < *lo) return tw_regex_refuse(t, "a repetition {%ld,%ld}", *lo, *hi);
    t->i = k + 1;
    return true;
}

/* Reads the quantifiers at t->i. They repeat the atom that `out` has from `start` on. */
static void read_quantifiers(tw_regex_translator *t, size_t start, bool can_repeat) {
    for (bool first = true; tw_regex_more(t) && !t->bad; first = false) {
        char c = tw_regex_peek(t, 0);
        long lo = 0, hi = 0;
        if (c == '*' || c == '+' || c == '?') {
            if (!can_repeat) {
                tw_regex_refuse(t, "a %c with nothing to repeat", c);
                return;
            }
            if (!first) wrap(t->out, start);
            tw_buf_add(t->out, &c, 1);
            t->i++;
            if (tw_regex_peek(t, 0) == '?' || tw_regex_peek(t, 0) == '+') { /* Lazy or possessive. */
                char d = tw_regex_peek(t, 0);
                tw_buf_add(t->out, &d, 1);
                t->i++;
            }
        } else if (c == '{' && read_interval(t, &lo, &hi)) {
            if (!can_repeat) {
                tw_regex_refuse(t, "a repetition with nothing to repeat");
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
            if (hi != lo && tw_regex_peek(t, 0) == '?') {
                tw_buf_str(t->out, "?");
                t->i++;
            }
        } else
            return;
    }
}

static bool read_alternatives(tw_regex_translator *t, int depth);

/* Reads (?imx-imx) or (?imx-imx: …), with i behind the question mark. */
static bool read_options(tw_regex_translator *t, bool at_start, int depth) {
    bool off = false;
    tw_buf_str(t->out, "(?");
    for (; tw_regex_more(t); t->i++) {
        char c = tw_regex_peek(t, 0);
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
            if (!at_start) return tw_regex_refuse(t, "options set in the middle of a group");
            t->i++;
            tw_buf_str(t->out, ")");
            return true;
        } else if (c == ':') {
            t->i++;
            tw_buf_str(t->out, ":");
            if (!read_alternatives(t, depth + 1)) return false;
            if (tw_regex_peek(t, 0) != ')') return tw_regex_refuse(t, "a group that does not end");
            t->i++;
            tw_buf_str(t->out, ")");
            return true;
        } else
            return tw_regex_refuse(t, "the group (?%s%c", off ? "-" : "", c);
    }
    return tw_regex_refuse(t, "a group that does not end");
}

/* Reads a group. t->i is the index behind its opening parenthesis. `*repeats` is set to whether a quantifier may
   follow. `*invisible` is set if the group matches nothing itself, as a comment or a change of options does. */
static bool read_group(tw_regex_translator *t, bool at_start, int depth, bool *repeats, bool *invisible) {
    static const char *const plain[] = {"?:", "?=", "?!", "?<=", "?<!", "?>"};
    if (depth > TW_REGEX_MAX_DEPTH) return tw_regex_refuse(t, "groups nested more than %d deep", TW_REGEX_MAX_DEPTH);
    if (tw_regex_peek(t, 0) == '*') return tw_regex_refuse(t, "(*");
    if (tw_regex_looks_at(t, "?#")) {
        const char *close = memchr(t->s + t->i, ')', t->n - t->i);
        if (!close) return tw_regex_refuse(t, "a comment that does not end");
        t->i = (size_t)(close - t->s) + 1;
        *invisible = true;
        return true;
    }
    if (tw_regex_peek(t, 0) != '?') {
        t->groups++;
        tw_buf_str(t->out, "(");
    } else {
        bool found = false;
        for (size_t k = 0; k < sizeof plain / sizeof *plain && !found; k++)
            if (tw_regex_looks_at(t, plain[k])) {
                tw_buf_printf(t->out, "(%s", plain[k]);
                t->i += strlen(plain[k]);
                found = true;
                *repeats = strchr("!=", plain[k][strlen(plain[k]) - 1]) == NULL;
            }
        if (!found && tw_regex_looks_at(t, "?<") &&
            (isalpha((unsigned char)tw_regex_peek(t, 2)) || tw_regex_peek(t, 2) == '_')) {
            const char *close = memchr(t->s + t->i, '>', t->n - t->i);
            if (!close) return tw_regex_refuse(t, "a group's name that does not end");
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
    if (tw_regex_peek(t, 0) != ')') return tw_regex_refuse(t, "a group that does not end");
    t->i++;
    tw_buf_str(t->out, ")");
    return true;
}

/* Reads an escape outside brackets, with i at the letter. */
static bool read_escape(tw_regex_translator *t, bool *repeats) {
    char c = tw_regex_peek(t, 0);
    if (!tw_regex_more(t)) return tw_regex_refuse(t, "a pattern that ends in a backslash");
    tw_regex_set s = {0};
    uint32_t cp;
    bool ok = true;
    if (c == 'p' || c == 'P') {
        t->i++;
        ok = tw_regex_read_property(t, c == 'P', &s);
        if (ok) tw_regex_set_emit(&s, false, t->out);
    } else if (tw_regex_letter_class(c, false, &s)) {
        t->i++;
        tw_regex_set_emit(&s, false, t->out);
    } else if (c == 'b' || c == 'B') {
        /* \b is spelled out, since \w is not PCRE2's. */
        t->i++;
        tw_regex_letter_class('w', false, &s);
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
    } else if (c >= '1' && c <= '9' && !isdigit((unsigned char)tw_regex_peek(t, 1))) {
        t->i++;
        t->references = true;
        if (c - '0' > t->highest) t->highest = c - '0';
        tw_buf_printf(t->out, "\\g{%c}", c);
    } else if (tw_regex_read_point(t, &cp))
        tw_buf_printf(t->out, "\\x{%x}", cp);
    else
        ok = tw_regex_refuse(t, "\\%c", c);
    if (s.members.failed || s.parts.failed) t->out->failed = true;
    tw_regex_set_free(&s);
    return ok;
}

static bool read_alternatives(tw_regex_translator *t, int depth) {
    bool at_start = true;
    while (tw_regex_more(t) && tw_regex_peek(t, 0) != ')') {
        size_t start = t->out->size;
        bool repeats = true, invisible = false, ok = true;
        char c = tw_regex_peek(t, 0);
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
            ok = tw_regex_read_class(t, t->out, 0);
        } else if (c == '\\') {
            t->i++;
            ok = read_escape(t, &repeats);
        } else if (c == '.' || c == '^' || c == '$') {
            t->i++;
            repeats = c == '.';
            tw_buf_add(t->out, &c, 1);
        } else if (c == '*' || c == '+' || c == '?')
            ok = tw_regex_refuse(t, "a %c with nothing to repeat", c);
        else {
            long lo = 0, hi = 0;
            if (c == '{' && read_interval(t, &lo, &hi)) ok = tw_regex_refuse(t, "a repetition with nothing to repeat");
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
    tw_regex_translator t = {.s = pattern, .n = size, .out = out, .why = why, .why_size = why_size};
    if (memchr(pattern, 0, size)) tw_regex_refuse(&t, "a NUL character");
    if (!t.bad && read_alternatives(&t, 0) && tw_regex_more(&t)) tw_regex_refuse(&t, "a ) without its (");
    if (!t.bad && !out->failed) {
        if (t.references && t.names) tw_regex_refuse(&t, "numbered references beside named groups");
        if (t.highest > t.groups) tw_regex_refuse(&t, "a reference to a group that is not there");
    }
    if (out->failed) return TW_ERR_MEMORY;
    return t.bad ? TW_ERR_UNSUPPORTED : TW_OK;
}
