/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of strings. The result of a safe string (Markup) is safe, and its arguments are escaped. */
#include "tokenizer/jinja/jinja.h"
#include "tokenizer/unicode.h"

#include <string.h>

/* Binds arguments by position only, as most of Python's own methods take them. */
#define BIND(what, names, needed)                                                                                      \
    jinja_value a[JINJA_BOUND];                                                                                        \
    if (args->n_keywords) return jinja_fail(env, args->at, "%s takes no arguments by name", what);                     \
    if (!jinja_bind(env, args, what, names, needed, a)) return JINJA_NULL
#define BIND_NAMED(what, names, needed)                                                                                \
    jinja_value a[JINJA_BOUND];                                                                                        \
    if (!jinja_bind(env, args, what, names, needed, a)) return JINJA_NULL
#define METHOD(name) static jinja_value name(jinja_env *env, jinja_value self, const jinja_args *args)

static bool given(jinja_value v) {
    return v.kind != JINJA_MISSING;
}

/* Reads a string argument. NULL: a failure. */
static const jinja_string *text_arg(jinja_env *env, const jinja_args *args, jinja_value v) {
    if (v.kind == JINJA_STRING) return v.s;
    jinja_fail(env, args->at, "a %s where a string is needed", jinja_type_name(v));
    return NULL;
}

static bool int_arg(jinja_env *env, const jinja_args *args, jinja_value v, int64_t otherwise, int64_t *out) {
    *out = otherwise;
    return !given(v) || jinja_index(env, args->at, v, out);
}

static jinja_value part(jinja_env *env, jinja_value self, size_t from, size_t to) {
    return jinja_slice_bytes(env, self.s, from, to);
}

static jinja_value done(jinja_env *env, jinja_value self, jinja_buffer *b) {
    return jinja_with_safe(env, jinja_take(env, b), self.s->safe);
}

/* ---- stripping ---- */

static bool strips(const jinja_string *chars, uint32_t c) {
    if (!chars) return jinja_is_space(c);
    for (size_t i = 0; i < chars->size;)
        if (tw_utf8_next(chars->data, &i) == c) return true;
    return false;
}

static jinja_value stripped(jinja_env *env, jinja_value self, const jinja_args *args, bool left, bool right) {
    BIND("strip", "chars", 0);
    const jinja_string *s = self.s, *chars = NULL;
    if (given(a[0]) && a[0].kind != JINJA_NONE && !(chars = text_arg(env, args, a[0]))) return JINJA_NULL;
    size_t from = 0, to = s->size;
    if (!jinja_step(env, args->at, (int64_t)(s->size / 256 * (chars ? chars->size : 1)))) return JINJA_NULL;
    while (left && from < to) {
        size_t k = from;
        if (!strips(chars, tw_utf8_next(s->data, &k))) break;
        from = k;
    }
    while (right && to > from) {
        size_t k = tw_utf8_before(s->data, to), next = k;
        if (!strips(chars, tw_utf8_next(s->data, &next))) break;
        to = k;
    }
    return part(env, self, from, to);
}

METHOD(strip) {
    return stripped(env, self, args, true, true);
}
METHOD(lstrip) {
    return stripped(env, self, args, true, false);
}
METHOD(rstrip) {
    return stripped(env, self, args, false, true);
}

METHOD(removeprefix) {
    BIND("removeprefix", "prefix", 1);
    const jinja_string *p = text_arg(env, args, a[0]);
    if (!p) return JINJA_NULL;
    bool has = p->size <= self.s->size && !memcmp(self.s->data, p->data, p->size);
    return part(env, self, has ? p->size : 0, self.s->size);
}

METHOD(removesuffix) {
    BIND("removesuffix", "suffix", 1);
    const jinja_string *p = text_arg(env, args, a[0]);
    if (!p) return JINJA_NULL;
    bool has = p->size && p->size <= self.s->size && !memcmp(self.s->data + self.s->size - p->size, p->data, p->size);
    return part(env, self, 0, self.s->size - (has ? p->size : 0));
}

/* ---- splitting ---- */

static size_t space_end(const jinja_string *s, size_t i) {
    while (i < s->size) {
        size_t k = i;
        if (!jinja_is_space(tw_utf8_next(s->data, &k))) break;
        i = k;
    }
    return i;
}

static size_t word_end(const jinja_string *s, size_t i) {
    while (i < s->size) {
        size_t k = i;
        if (jinja_is_space(tw_utf8_next(s->data, &k))) break;
        i = k;
    }
    return i;
}

static size_t space_start(const jinja_string *s, size_t i) {
    while (i) {
        size_t k = tw_utf8_before(s->data, i), next = k;
        if (!jinja_is_space(tw_utf8_next(s->data, &next))) break;
        i = k;
    }
    return i;
}

static size_t word_start(const jinja_string *s, size_t i) {
    while (i) {
        size_t k = tw_utf8_before(s->data, i), next = k;
        if (jinja_is_space(tw_utf8_next(s->data, &next))) break;
        i = k;
    }
    return i;
}

static void split_words(jinja_env *env, jinja_value self, int64_t most, jinja_value out) {
    const jinja_string *s = self.s;
    size_t i = space_end(s, 0);
    for (int64_t n = 0; i < s->size && jinja_step(env, NULL, 1); n++) {
        if (most >= 0 && n == most) {
            jinja_push(env, out, part(env, self, i, s->size));
            return;
        }
        size_t end = word_end(s, i);
        jinja_push(env, out, part(env, self, i, end));
        i = space_end(s, end);
    }
}

static void split_at(jinja_env *env, jinja_value self, const jinja_string *by, int64_t most, jinja_value out) {
    size_t from = 0;
    for (int64_t n = 0; (most < 0 || n < most) && jinja_step(env, NULL, 1); n++) {
        int64_t at = jinja_find(self.s, by, from, self.s->size);
        if (at < 0) break;
        jinja_push(env, out, part(env, self, from, (size_t)at));
        from = (size_t)at + by->size;
    }
    jinja_push(env, out, part(env, self, from, self.s->size));
}

/* Splits from the right. The caller puts the parts in order. */
static void split_back(jinja_env *env, jinja_value self, const jinja_string *by, int64_t most, jinja_value out) {
    const jinja_string *s = self.s;
    size_t to = by ? s->size : space_start(s, s->size);
    for (int64_t n = 0; (by || to) && jinja_step(env, NULL, 1); n++) {
        if (most >= 0 && n == most) break;
        int64_t at = by ? jinja_rfind(s, by, 0, to) : (int64_t)word_start(s, to);
        if (at < 0) break;
        jinja_push(env, out, part(env, self, (size_t)at + (by ? by->size : 0), to));
        to = by ? (size_t)at : space_start(s, (size_t)at);
    }
    if (by || to) jinja_push(env, out, part(env, self, 0, to));
}

static jinja_value split_common(jinja_env *env, jinja_value self, const jinja_args *args, bool back) {
    BIND_NAMED("split", "sep maxsplit", 0);
    const jinja_string *by = NULL;
    int64_t most;
    if (given(a[0]) && a[0].kind != JINJA_NONE && !(by = text_arg(env, args, a[0]))) return JINJA_NULL;
    if (by && !by->size) return jinja_fail(env, args->at, "an empty separator");
    if (!int_arg(env, args, a[1], -1, &most)) return JINJA_NULL;
    jinja_value out = jinja_list_new(env, JINJA_LIST, 0);
    if (back)
        split_back(env, self, by, most, out);
    else if (by)
        split_at(env, self, by, most, out);
    else
        split_words(env, self, most, out);
    for (size_t i = 0; back && !env->failed && i < out.list->n / 2; i++) {
        jinja_value v = out.list->v[i];
        out.list->v[i] = out.list->v[out.list->n - 1 - i];
        out.list->v[out.list->n - 1 - i] = v;
    }
    return out;
}

METHOD(split) {
    return split_common(env, self, args, false);
}
METHOD(rsplit) {
    return split_common(env, self, args, true);
}

static bool ends_line(uint32_t c) {
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

METHOD(splitlines) {
    BIND_NAMED("splitlines", "keepends", 0);
    bool keep = given(a[0]) && jinja_truth(env, a[0]);
    jinja_value out = jinja_list_new(env, JINJA_LIST, 0);
    const jinja_string *s = self.s;
    for (size_t i = 0; i < s->size && jinja_step(env, args->at, 1);) {
        size_t from = i, end = i;
        bool ended = false;
        while (i < s->size && !ended) {
            end = i;
            uint32_t c = tw_utf8_next(s->data, &i);
            ended = ends_line(c);
            if (c == '\r' && i < s->size && s->data[i] == '\n') i++;
        }
        jinja_push(env, out, part(env, self, from, keep || !ended ? i : end));
    }
    return out;
}

static jinja_value partitioned(jinja_env *env, jinja_value self, const jinja_args *args, bool back) {
    BIND("partition", "sep", 1);
    const jinja_string *by = text_arg(env, args, a[0]), *s = self.s;
    if (!by) return JINJA_NULL;
    if (!by->size) return jinja_fail(env, args->at, "an empty separator");
    int64_t at = back ? jinja_rfind(s, by, 0, s->size) : jinja_find(s, by, 0, s->size);
    size_t from = at < 0 ? back ? 0 : s->size : (size_t)at, to = at < 0 ? from : from + by->size;
    jinja_value out = jinja_list_new(env, JINJA_TUPLE, 3);
    jinja_push(env, out, part(env, self, 0, from));
    jinja_push(env, out, at < 0 ? part(env, self, 0, 0) : jinja_with_safe(env, a[0], s->safe));
    jinja_push(env, out, part(env, self, to, s->size));
    return out;
}

METHOD(partition) {
    return partitioned(env, self, args, false);
}
METHOD(rpartition) {
    return partitioned(env, self, args, true);
}

/* ---- finding ---- */

/* Finds the bytes between the optional arguments start and end. False: a failure, or nothing can be there. */
static bool bounds(jinja_env *env, const jinja_args *args, const jinja_string *s, const jinja_value *a, size_t *from,
                   size_t *to) {
    int64_t n = (int64_t)s->chars, at[2] = {0, n};
    for (int k = 0; k < 2; k++) {
        if (!given(a[k]) || a[k].kind == JINJA_NONE) continue;
        if (!jinja_index(env, args->at, a[k], &at[k])) return false;
        if (at[k] < 0) at[k] = at[k] + n < 0 ? 0 : at[k] + n;
    }
    if (at[1] > n) at[1] = n;
    if (at[0] > at[1]) return false;
    *from = jinja_byte_of(s, (size_t)at[0]);
    *to = jinja_byte_of(s, (size_t)at[1]);
    return jinja_step(env, args->at, (int64_t)((*to - *from) / 256));
}

static int64_t chars_before(const jinja_string *s, int64_t byte) {
    int64_t n = 0;
    if (s->chars == s->size || byte < 0) return byte;
    for (int64_t i = 0; i < byte; i++) n += ((unsigned char)s->data[i] & 0xc0) != 0x80;
    return n;
}

static jinja_value found(jinja_env *env, jinja_value self, const jinja_args *args, bool back, bool must) {
    BIND("find", "sub start end", 1);
    const jinja_string *what = text_arg(env, args, a[0]);
    size_t from, to;
    int64_t at = -1;
    if (!what) return JINJA_NULL;
    if (bounds(env, args, self.s, a + 1, &from, &to))
        at = back ? jinja_rfind(self.s, what, from, to) : jinja_find(self.s, what, from, to);
    if (at < 0 && must) return jinja_fail(env, args->at, "the text is not there");
    return jinja_int(chars_before(self.s, at));
}

METHOD(find) {
    return found(env, self, args, false, false);
}
METHOD(rfind) {
    return found(env, self, args, true, false);
}
METHOD(index_of) {
    return found(env, self, args, false, true);
}
METHOD(rindex) {
    return found(env, self, args, true, true);
}

METHOD(count) {
    BIND("count", "sub start end", 1);
    const jinja_string *what = text_arg(env, args, a[0]);
    size_t from, to;
    int64_t n = 0, at;
    if (!what || !bounds(env, args, self.s, a + 1, &from, &to)) return jinja_int(0);
    if (!what->size) {
        for (size_t i = from; i < to; n++) tw_utf8_next(self.s->data, &i);
        return jinja_int(n + 1);
    }
    for (; (at = jinja_find(self.s, what, from, to)) >= 0; n++) from = (size_t)at + what->size;
    return jinja_int(n);
}

static jinja_value borders(jinja_env *env, jinja_value self, const jinja_args *args, bool end) {
    BIND(end ? "endswith" : "startswith", "prefix start end", 1);
    jinja_list one = {.v = a, .n = 1};
    const jinja_list *list = a[0].kind == JINJA_TUPLE ? a[0].list : &one;
    size_t from, to;
    bool inside = bounds(env, args, self.s, a + 1, &from, &to);
    for (size_t i = 0; i < list->n; i++) {
        const jinja_string *p = text_arg(env, args, list->v[i]);
        if (!p) return JINJA_NULL;
        if (inside && p->size <= to - from && !memcmp(self.s->data + (end ? to - p->size : from), p->data, p->size))
            return jinja_bool(true);
    }
    return jinja_bool(false);
}

METHOD(startswith) {
    return borders(env, self, args, false);
}
METHOD(endswith) {
    return borders(env, self, args, true);
}

/* ---- building ---- */

METHOD(replace) {
    BIND("replace", "old new count", 2);
    const jinja_string *old = text_arg(env, args, a[0]), *s = self.s;
    if (!old || !text_arg(env, args, a[1])) return JINJA_NULL;
    const jinja_string *new = s->safe ? jinja_escape(env, args->at, a[1]).s : a[1].s;
    int64_t most, n = 0, at;
    if (!int_arg(env, args, a[2], -1, &most)) return JINJA_NULL;
    jinja_buffer b = {0};
    size_t from = 0;
    if (!old->size) {
        for (; from <= s->size && (most < 0 || n < most) && jinja_step(env, args->at, 1); n++) {
            jinja_add_string(env, &b, new);
            size_t next = from;
            if (from == s->size) {
                from++;
                break;
            }
            tw_utf8_next(s->data, &next);
            jinja_add_bytes(env, &b, s, from, next);
            from = next;
        }
    } else
        while ((most < 0 || n < most) && (at = jinja_find(s, old, from, s->size)) >= 0 &&
               jinja_step(env, args->at, 1)) {
            jinja_add_bytes(env, &b, s, from, (size_t)at);
            jinja_add_string(env, &b, new);
            from = (size_t)at + old->size;
            n++;
        }
    if (from < s->size) jinja_add_bytes(env, &b, s, from, s->size);
    return done(env, self, &b);
}

METHOD(join) {
    BIND("join", "iterable", 1);
    jinja_buffer b = {0};
    jinja_value item;
    jinja_iterator *it = jinja_iterate(env, args->at, a[0]);
    for (int64_t i = 0; jinja_next(env, it, &item); i++) {
        if (i) jinja_add_string(env, &b, self.s);
        if (self.s->safe)
            jinja_add_escaped(env, args->at, &b, item);
        else if (text_arg(env, args, item))
            jinja_add_string(env, &b, item.s);
    }
    return done(env, self, &b);
}

static bool pad(jinja_env *env, const jinja_args *args, jinja_buffer *b, const jinja_string *fill, int64_t n) {
    for (int64_t i = 0; i < n && (i % 64 || jinja_step(env, args->at, 1)); i++)
        if (!jinja_add_string(env, b, fill)) break;
    return !env->failed;
}

static jinja_value padded(jinja_env *env, jinja_value self, const jinja_args *args, int side) {
    BIND(side < 0 ? "ljust" : side ? "rjust" : "center", "width fillchar", 1);
    static const jinja_string blank = {.data = " ", .size = 1, .chars = 1};
    const jinja_string *fill = &blank;
    int64_t width;
    if (!int_arg(env, args, a[0], 0, &width)) return JINJA_NULL;
    if (given(a[1]) && !(fill = text_arg(env, args, a[1]))) return JINJA_NULL;
    if (self.s->safe) fill = jinja_escape(env, args->at, (jinja_value){.kind = JINJA_STRING, .s = fill}).s;
    if (fill->chars != 1) return jinja_fail(env, args->at, "the fill is not one character");
    int64_t n = width - (int64_t)self.s->chars;
    if (n <= 0) return self;
    int64_t left = side > 0 ? n : side < 0 ? 0 : n / 2 + (n & width & 1);
    jinja_buffer b = {0};
    pad(env, args, &b, fill, left);
    jinja_add_string(env, &b, self.s);
    pad(env, args, &b, fill, n - left);
    return done(env, self, &b);
}

METHOD(center) {
    return padded(env, self, args, 0);
}
METHOD(ljust) {
    return padded(env, self, args, -1);
}
METHOD(rjust) {
    return padded(env, self, args, 1);
}

METHOD(zfill) {
    BIND("zfill", "width", 1);
    static const jinja_string zero = {.data = "0", .size = 1, .chars = 1};
    int64_t width;
    if (!int_arg(env, args, a[0], 0, &width)) return JINJA_NULL;
    const jinja_string *s = self.s;
    if (width <= (int64_t)s->chars) return self;
    size_t sign = s->size && (s->data[0] == '-' || s->data[0] == '+');
    jinja_buffer b = {0};
    jinja_add_bytes(env, &b, s, 0, sign);
    pad(env, args, &b, &zero, width - (int64_t)s->chars);
    jinja_add_bytes(env, &b, s, sign, s->size);
    return done(env, self, &b);
}

METHOD(expandtabs) {
    BIND_NAMED("expandtabs", "tabsize", 0);
    static const jinja_string blank = {.data = " ", .size = 1, .chars = 1};
    int64_t size, column = 0;
    if (!int_arg(env, args, a[0], 8, &size)) return JINJA_NULL;
    jinja_buffer b = {0};
    for (size_t i = 0; i < self.s->size && !env->failed;) {
        size_t at = i;
        uint32_t c = tw_utf8_next(self.s->data, &i);
        if (c == '\t') {
            int64_t n = size > 0 ? size - column % size : 0;
            column += n;
            pad(env, args, &b, &blank, n);
            continue;
        }
        column = c == '\n' || c == '\r' ? 0 : column + 1;
        jinja_add_bytes(env, &b, self.s, at, i);
    }
    return done(env, self, &b);
}

/* ---- cases and classes ---- */

#define CASE(name, how)                                                                                                \
    METHOD(name) {                                                                                                     \
        BIND(#name, "", 0);                                                                                            \
        return jinja_cased(env, self.s, how);                                                                          \
    }
CASE(upper, JINJA_UPPER)
CASE(lower, JINJA_LOWER)
CASE(title, JINJA_TITLE)
CASE(capitalize, JINJA_CAPITALIZE)
CASE(swapcase, JINJA_SWAP)
CASE(casefold, JINJA_FOLD)

static bool all_are(const jinja_string *s, jinja_class k) {
    for (size_t i = 0; i < s->size;)
        if (!jinja_is(tw_utf8_next(s->data, &i), k)) return false;
    return s->size != 0;
}

#define CLASS(name, k)                                                                                                 \
    METHOD(name) {                                                                                                     \
        BIND(#name, "", 0);                                                                                            \
        return jinja_bool(all_are(self.s, k));                                                                         \
    }
CLASS(is_alpha, JC_ALPHA)
CLASS(is_decimal, JC_DECIMAL)
CLASS(is_digit, JC_DIGIT)
CLASS(is_numeric, JC_NUMERIC)

METHOD(is_alnum) {
    BIND("isalnum", "", 0);
    for (size_t i = 0; i < self.s->size;) {
        uint32_t c = tw_utf8_next(self.s->data, &i);
        if (!jinja_is(c, JC_ALPHA) && !jinja_is(c, JC_NUMERIC)) return jinja_bool(false);
    }
    return jinja_bool(self.s->size != 0);
}

METHOD(is_space) {
    BIND("isspace", "", 0);
    return jinja_bool(self.s->size && space_end(self.s, 0) == self.s->size);
}

METHOD(is_ascii) {
    BIND("isascii", "", 0);
    return jinja_bool(self.s->chars == self.s->size);
}

METHOD(is_printable) {
    BIND("isprintable", "", 0);
    for (size_t i = 0; i < self.s->size;)
        if (!jinja_is_printable(tw_utf8_next(self.s->data, &i))) return jinja_bool(false);
    return jinja_bool(true);
}

METHOD(is_identifier) {
    BIND("isidentifier", "", 0);
    for (size_t i = 0; i < self.s->size;) {
        bool first = i == 0;
        if (!jinja_is(tw_utf8_next(self.s->data, &i), first ? JC_ID_START : JC_ID_CONTINUE)) return jinja_bool(false);
    }
    return jinja_bool(self.s->size != 0);
}

static jinja_value one_case(jinja_value self, jinja_class yes, jinja_class no) {
    bool any = false;
    for (size_t i = 0; i < self.s->size;) {
        uint32_t c = tw_utf8_next(self.s->data, &i);
        if (jinja_is(c, no) || jinja_is(c, JC_TITLE)) return jinja_bool(false);
        any = any || jinja_is(c, yes);
    }
    return jinja_bool(any);
}

METHOD(is_lower) {
    BIND("islower", "", 0);
    return one_case(self, JC_LOWER, JC_UPPER);
}

METHOD(is_upper) {
    BIND("isupper", "", 0);
    return one_case(self, JC_UPPER, JC_LOWER);
}

METHOD(is_title) {
    BIND("istitle", "", 0);
    bool cased = false, any = false;
    for (size_t i = 0; i < self.s->size;) {
        uint32_t c = tw_utf8_next(self.s->data, &i);
        bool up = jinja_is(c, JC_UPPER) || jinja_is(c, JC_TITLE), low = jinja_is(c, JC_LOWER);
        if ((up && cased) || (!up && low && !cased)) return jinja_bool(false);
        cased = up || low;
        any = any || cased;
    }
    return jinja_bool(any);
}

/* ---- formatting ---- */

METHOD(format) {
    if (self.s->safe) return jinja_refuse(env, args->at, "format of a safe string");
    return jinja_format(env, self.s, args);
}

METHOD(format_map) {
    BIND("format_map", "mapping", 1);
    if (self.s->safe) return jinja_refuse(env, args->at, "format_map of a safe string");
    if (a[0].kind != JINJA_DICT) return jinja_fail(env, args->at, "format_map needs a dictionary");
    jinja_args named = {.at = args->at, .n_keywords = a[0].dict->n};
    named.keywords = jinja_alloc(env, named.n_keywords, sizeof *named.keywords);
    for (size_t i = 0; i < named.n_keywords && named.keywords; i++) {
        const jinja_entry *e = &a[0].dict->v[i];
        named.keywords[i] = (jinja_keyword){e->key.kind == JINJA_STRING ? e->key.s : &jinja_empty, e->value};
    }
    return env->failed ? JINJA_NULL : jinja_format(env, self.s, &named);
}

const jinja_method_info jinja_text_methods[] = {{"capitalize", capitalize, false},
                                                {"casefold", casefold, false},
                                                {"center", center, false},
                                                {"count", count, false},
                                                {"encode", NULL, false},
                                                {"endswith", endswith, false},
                                                {"expandtabs", expandtabs, false},
                                                {"find", find, false},
                                                {"format", format, false},
                                                {"format_map", format_map, false},
                                                {"index", index_of, false},
                                                {"isalnum", is_alnum, false},
                                                {"isalpha", is_alpha, false},
                                                {"isascii", is_ascii, false},
                                                {"isdecimal", is_decimal, false},
                                                {"isdigit", is_digit, false},
                                                {"isidentifier", is_identifier, false},
                                                {"islower", is_lower, false},
                                                {"isnumeric", is_numeric, false},
                                                {"isprintable", is_printable, false},
                                                {"isspace", is_space, false},
                                                {"istitle", is_title, false},
                                                {"isupper", is_upper, false},
                                                {"join", join, false},
                                                {"ljust", ljust, false},
                                                {"lower", lower, false},
                                                {"lstrip", lstrip, false},
                                                {"maketrans", NULL, false},
                                                {"partition", partition, false},
                                                {"removeprefix", removeprefix, false},
                                                {"removesuffix", removesuffix, false},
                                                {"replace", replace, false},
                                                {"rfind", rfind, false},
                                                {"rindex", rindex, false},
                                                {"rjust", rjust, false},
                                                {"rpartition", rpartition, false},
                                                {"rsplit", rsplit, false},
                                                {"rstrip", rstrip, false},
                                                {"split", split, false},
                                                {"splitlines", splitlines, false},
                                                {"startswith", startswith, false},
                                                {"strip", strip, false},
                                                {"swapcase", swapcase, false},
                                                {"title", title, false},
                                                {"translate", NULL, false},
                                                {"upper", upper, false},
                                                {"zfill", zfill, false},
                                                {NULL, NULL, false}};
