/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of text. */
#include "tokenizer/jinja/jinja.h"
#include "tokenizer/jinja/wrap.h"
#include "tokenizer/unicode.h"

#include <stdio.h>
#include <string.h>

#define FILTER(name) static jinja_value name(jinja_env *env, jinja_value v, const jinja_args *args)
#define BIND(what, names, needed)                                                                                      \
    jinja_value a[JINJA_BOUND];                                                                                        \
    if (!jinja_bind(env, args, what, names, needed, a)) return JINJA_NULL

static bool given(jinja_value v) {
    return v.kind != JINJA_MISSING;
}

/* ---- cases ---- */

static jinja_value cased(jinja_env *env, jinja_value v, const jinja_args *args, jinja_case how) {
    BIND("the filter", "", 0);
    return jinja_cased(env, jinja_soft_str(env, args->at, v).s, how);
}

FILTER(upper) {
    return cased(env, v, args, JINJA_UPPER);
}
FILTER(lower) {
    return cased(env, v, args, JINJA_LOWER);
}
FILTER(capitalize) {
    return cased(env, v, args, JINJA_CAPITALIZE);
}

/* Tells whether a word may begin behind a character. */
static bool separates(uint32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || jinja_is_space(c);
}

FILTER(title) {
    BIND("title", "", 0);
    jinja_value t = jinja_soft_str(env, args->at, v);
    jinja_buffer b = {0};
    for (size_t i = 0; i < t.s->size && !env->failed;) {
        size_t from = i, first = i;
        bool between = separates(tw_utf8_next(t.s->data, &first));
        for (i = first; i < t.s->size;) {
            size_t k = i;
            if (separates(tw_utf8_next(t.s->data, &k)) != between) break;
            i = k;
        }
        jinja_add_cased(env, &b, t.s, from, first, JINJA_UPPER);
        jinja_add_cased(env, &b, t.s, first, i, JINJA_LOWER);
    }
    return jinja_take(env, &b);
}

/* ---- HTML ---- */

FILTER(escape) {
    BIND("escape", "", 0);
    return jinja_escape(env, args->at, v);
}

FILTER(forceescape) {
    BIND("forceescape", "", 0);
    return jinja_escape(env, args->at, jinja_str(env, args->at, v));
}

FILTER(safe) {
    BIND("safe", "", 0);
    return jinja_with_safe(env, jinja_soft_str(env, args->at, v), true);
}

/* Removes stretches from `open` to `close`, each time the leftmost one, until none is left. */
static jinja_value cut(jinja_env *env, jinja_value v, const char *open, const char *close) {
    jinja_string begin = {.data = open, .size = strlen(open)}, end = {.data = close, .size = strlen(close)};
    jinja_buffer b = {0};
    jinja_add_string(env, &b, v.s);
    size_t from = 0; /* No `open` begins before this byte. */
    while (jinja_step(env, NULL, (int64_t)(b.size / 256) + 1)) {
        jinja_string s = {.data = b.data, .size = b.size};
        int64_t i = jinja_find(&s, &begin, from, s.size), k = i < 0 ? -1 : jinja_find(&s, &end, (size_t)i, s.size);
        if (k < 0) break;
        size_t to = (size_t)k + end.size;
        memmove(b.data + i, b.data + to, b.size - to);
        if (b.typed) memmove(b.typed + i, b.typed + to, b.size - to);
        b.size -= to - (size_t)i;
        /* The cut may have joined the halves of an `open`. */
        from = (size_t)i > begin.size ? (size_t)i - begin.size : 0;
    }
    return jinja_take(env, &b);
}

static bool add_entity(jinja_env *env, jinja_buffer *b, const jinja_string *s, size_t *i) {
    static const struct {
        const char *name, *text;
    } known[] = {{"&amp;", "&"},  {"&lt;", "<"},  {"&gt;", ">"},   {"&quot;", "\""},
                 {"&#34;", "\""}, {"&#39;", "'"}, {"&apos;", "'"}, {"&nbsp;", "\xc2\xa0"}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        size_t n = strlen(known[k].name);
        if (s->size - *i < n || memcmp(s->data + *i, known[k].name, n) != 0) continue;
        size_t c = 0;
        uint32_t cp = tw_utf8_next(known[k].text, &c);
        jinja_add_char(env, b, cp, s, *i);
        *i += n;
        return true;
    }
    /* Hundreds of names need no end mark. Only text that cannot be an entity stays as it is. */
    unsigned char next = *i + 1 < s->size ? (unsigned char)s->data[*i + 1] : 0;
    if (next == '#' || ((next | 32) >= 'a' && (next | 32) <= 'z')) jinja_refuse(env, NULL, "striptags: this entity");
    return false;
}

FILTER(striptags) {
    BIND("striptags", "", 0);
    jinja_value t = cut(env, cut(env, jinja_str(env, args->at, v), "<!--", "-->"), "<", ">");
    jinja_buffer b = {0};
    bool blank = false;
    for (size_t i = 0; i < t.s->size && !env->failed;) {
        size_t at = i;
        if (jinja_is_space(tw_utf8_next(t.s->data, &i))) {
            blank = true;
            continue;
        }
        if (blank && b.size) jinja_add_text(env, &b, " ");
        blank = false;
        i = at;
        if (t.s->data[at] == '&' && add_entity(env, &b, t.s, &i)) continue;
        i = at;
        tw_utf8_next(t.s->data, &i);
        jinja_add_bytes(env, &b, t.s, at, i);
    }
    return jinja_take(env, &b);
}

FILTER(xmlattr) {
    BIND("xmlattr", "autospace", 0);
    bool space = !given(a[0]) || jinja_truth(env, a[0]);
    jinja_buffer b = {0};
    if (v.kind != JINJA_DICT) return jinja_fail(env, args->at, "a %s is no dictionary", jinja_type_name(v));
    for (size_t i = 0; i < v.dict->n && !env->failed; i++) {
        const jinja_entry *e = &v.dict->v[i];
        if (e->value.kind == JINJA_NONE || e->value.kind == JINJA_UNDEFINED) continue;
        if (e->key.kind != JINJA_STRING) {
            jinja_fail(env, args->at, "the name of an attribute is no string");
            break;
        }
        for (size_t k = 0; k < e->key.s->size; k++)
            if (strchr(" \t\n\r\f\v/>=", e->key.s->data[k]) && e->key.s->data[k])
                jinja_fail(env, args->at, "the name of an attribute has a character that it cannot have");
        if (b.size || space) jinja_add_text(env, &b, " ");
        jinja_add_escaped(env, args->at, &b, e->key);
        jinja_add_text(env, &b, "=\"");
        jinja_add_escaped(env, args->at, &b, e->value);
        jinja_add_text(env, &b, "\"");
    }
    return jinja_take(env, &b);
}

/* ---- URLs ---- */

static void add_quoted(jinja_env *env, const jinja_node *at, jinja_buffer *b, jinja_value v, bool query) {
    const jinja_string *s = jinja_soft_str(env, at, v).s;
    for (size_t i = 0; i < s->size && !env->failed; i++) {
        unsigned char c = (unsigned char)s->data[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr("_.-~", c)) ||
                     (c == '/' && !query);
        char text[8];
        snprintf(text, sizeof text, "%%%02X", c);
        if (plain || (query && c == ' '))
            jinja_add_char(env, b, plain ? c : '+', s, i);
        else
            for (const char *p = text; *p; p++) jinja_add_char(env, b, (unsigned char)*p, s, i);
    }
}

FILTER(urlencode) {
    BIND("urlencode", "", 0);
    jinja_buffer b = {0};
    jinja_value pair, item;
    if (v.kind == JINJA_STRING || !jinja_is_iterable(v)) {
        add_quoted(env, args->at, &b, v, false);
        return jinja_take(env, &b);
    }
    jinja_view view = {v.kind == JINJA_DICT ? v.dict : NULL, JINJA_ITEMS};
    jinja_iterator *it =
        jinja_iterate(env, args->at, v.kind == JINJA_DICT ? (jinja_value){.kind = JINJA_VIEW, .view = &view} : v);
    while (jinja_next(env, it, &pair)) {
        jinja_value part[2] = {{0}, {0}};
        size_t n = 0;
        jinja_iterator *two = jinja_iterate(env, args->at, pair);
        for (; n < 3 && jinja_next(env, two, &item); n++)
            if (n < 2) part[n] = item;
        if (!env->failed && n != 2) jinja_fail(env, args->at, "urlencode needs pairs");
        if (env->failed) break;
        if (b.size) jinja_add_text(env, &b, "&");
        add_quoted(env, args->at, &b, part[0], true);
        jinja_add_text(env, &b, "=");
        add_quoted(env, args->at, &b, part[1], true);
    }
    return jinja_take(env, &b);
}

/* ---- layout ---- */

/* Calls a method of strings on a value, with these arguments. */
static jinja_value method(jinja_env *env, const jinja_args *args, jinja_value v, const char *name, jinja_value *a,
                          size_t n) {
    jinja_args given = {.at = args->at, .v = a, .n = n};
    return env->failed ? v : jinja_find_method(v, name)->call(env, v, &given);
}

FILTER(center) {
    BIND("center", "width", 0);
    if (!given(a[0])) a[0] = jinja_int(80);
    return method(env, args, jinja_soft_str(env, args->at, v), "center", a, 1);
}

FILTER(trim) {
    BIND("trim", "chars", 0);
    return method(env, args, jinja_soft_str(env, args->at, v), "strip", a, given(a[0]));
}

FILTER(replace) {
    BIND("replace", "old new count", 2);
    jinja_value b[3] = {jinja_str(env, args->at, a[0]), jinja_str(env, args->at, a[1]), a[2]};
    return method(env, args, jinja_str(env, args->at, v), "replace", b, given(a[2]) && a[2].kind != JINJA_NONE ? 3 : 2);
}

FILTER(string) {
    BIND("string", "", 0);
    return jinja_soft_str(env, args->at, v);
}

FILTER(format) {
    jinja_value values;
    if (args->n && args->n_keywords)
        return jinja_fail(env, args->at, "format takes arguments by position or by name, not both");
    if (args->n_keywords) {
        values = jinja_dict_new(env);
        for (size_t i = 0; i < args->n_keywords && !env->failed; i++)
            jinja_dict_put(env, args->at, values.dict, (jinja_value){.kind = JINJA_STRING, .s = args->keywords[i].name},
                           args->keywords[i].value);
    } else {
        values = jinja_list_new(env, JINJA_TUPLE, args->n);
        for (size_t i = 0; i < args->n; i++) jinja_push(env, values, args->v[i]);
    }
    return env->failed ? v : jinja_printf(env, args->at, jinja_soft_str(env, args->at, v).s, values);
}

static bool text_only(jinja_env *env, const jinja_args *args, jinja_value v, const char *what) {
    if (v.kind == JINJA_STRING) return true;
    if (v.kind == JINJA_UNDEFINED || v.kind == JINJA_MISSING)
        jinja_fail(env, args->at, "%.80s is undefined", v.why ? v.why : "a value");
    else
        jinja_fail(env, args->at, "%s needs a string, not a %s", what, jinja_type_name(v));
    return false;
}

FILTER(indent) {
    BIND("indent", "width first blank", 0);
    if (!text_only(env, args, v, "indent")) return v;
    jinja_buffer b = {0};
    int64_t width = 4;
    if (a[0].kind == JINJA_STRING)
        b = (jinja_buffer){0};
    else if (given(a[0]) && !jinja_index(env, args->at, a[0], &width))
        return v;
    for (int64_t i = 0; a[0].kind != JINJA_STRING && i < width && !env->failed; i++) jinja_add_text(env, &b, " ");
    jinja_value by = a[0].kind == JINJA_STRING ? a[0] : jinja_take(env, &b);
    bool first = jinja_truth(env, a[1]), blank = jinja_truth(env, a[2]);
    if (v.s->safe) by = jinja_with_safe(env, by, true);
    jinja_value end =
        jinja_arithmetic(env, args->at, JN_ADD, v, jinja_with_safe(env, jinja_text(env, "\n"), v.s->safe));
    jinja_value lines = method(env, args, end, "splitlines", NULL, 0);
    for (size_t i = 0; !env->failed && i < lines.list->n; i++) {
        const jinja_string *line = lines.list->v[i].s;
        if (i) jinja_add_text(env, &b, "\n");
        if (i ? blank || line->size : first) jinja_add_string(env, &b, by.s);
        jinja_add_string(env, &b, line);
    }
    return jinja_with_safe(env, jinja_take(env, &b), v.s->safe);
}

FILTER(truncate) {
    BIND("truncate", "length killwords end leeway", 0);
    int64_t length = 255, leeway = 5;
    jinja_value end = given(a[2]) ? a[2] : jinja_text(env, "...");
    if (given(a[0]) && !jinja_index(env, args->at, a[0], &length)) return v;
    if (given(a[3]) && a[3].kind != JINJA_NONE && !jinja_index(env, args->at, a[3], &leeway)) return v;
    int64_t tail = jinja_length(env, args->at, end);
    if (!env->failed && (length < tail || leeway < 0))
        return jinja_fail(env, args->at, "truncate: the length is too small");
    int64_t n = jinja_length(env, args->at, v);
    if (env->failed || n - leeway <= length) return v;
    if (!text_only(env, args, v, "truncate")) return v;
    jinja_value head = jinja_get_slice(env, args->at, v, JINJA_NULL, jinja_int(length - tail), JINJA_NULL);
    if (!jinja_truth(env, a[1]) && !env->failed) {
        static const jinja_string blank = {.data = " ", .size = 1, .chars = 1};
        int64_t at = jinja_rfind(head.s, &blank, 0, head.s->size);
        if (at >= 0) head = jinja_slice_bytes(env, head.s, 0, (size_t)at);
    }
    return jinja_arithmetic(env, args->at, JN_ADD, head, end);
}

FILTER(wordwrap) {
    BIND("wordwrap", "width break_long_words wrapstring break_on_hyphens", 0);
    jinja_wrapping w = {.width = 79, .break_words = true, .break_hyphens = true};
    if (given(a[0]) && !jinja_index(env, args->at, a[0], &w.width)) return v;
    if (given(a[1])) w.break_words = jinja_truth(env, a[1]);
    if (given(a[3])) w.break_hyphens = jinja_truth(env, a[3]);
    jinja_value between = given(a[2]) && a[2].kind != JINJA_NONE ? a[2] : jinja_text(env, "\n");
    if (!text_only(env, args, v, "wordwrap") || !text_only(env, args, between, "wordwrap")) return v;
    if (v.s->safe || between.s->safe) return jinja_refuse(env, args->at, "wordwrap of a safe string");
    jinja_value lines = method(env, args, v, "splitlines", NULL, 0);
    jinja_buffer b = {0};
    for (size_t i = 0; !env->failed && i < lines.list->n; i++) {
        if (i) jinja_add_string(env, &b, between.s);
        jinja_wrap(env, args->at, &b, lines.list->v[i].s, &w, between.s);
    }
    return jinja_take(env, &b);
}

FILTER(wordcount) {
    BIND("wordcount", "", 0);
    jinja_value t = jinja_soft_str(env, args->at, v);
    int64_t n = 0;
    bool word = false;
    for (size_t i = 0; i < t.s->size;) {
        bool now = jinja_is(tw_utf8_next(t.s->data, &i), JC_WORD);
        n += now && !word;
        word = now;
    }
    return jinja_int(n);
}

const jinja_filter jinja_text_filters[] = {{"capitalize", capitalize},
                                           {"center", center},
                                           {"e", escape},
                                           {"escape", escape},
                                           {"forceescape", forceescape},
                                           {"format", format},
                                           {"indent", indent},
                                           {"lower", lower},
                                           {"replace", replace},
                                           {"safe", safe},
                                           {"string", string},
                                           {"striptags", striptags},
                                           {"title", title},
                                           {"trim", trim},
                                           {"truncate", truncate},
                                           {"upper", upper},
                                           {"urlencode", urlencode},
                                           {"wordcount", wordcount},
                                           {"wordwrap", wordwrap},
                                           {"xmlattr", xmlattr},
                                           {NULL, NULL}};
