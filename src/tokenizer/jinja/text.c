/* SPDX-License-Identifier: Apache-2.0 */
/* Text under construction, and values as Python's str and repr write them. All text is made by appending stretches of
   other text, with their marks of what was typed. */
#define _GNU_SOURCE
#include "base/python.h"
#include "tokenizer/jinja/jinja.h"
#include "tokenizer/unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool grow(jinja_env *env, jinja_buffer *b, size_t n) {
    size_t room = b->room ? b->room : 64;
    while (room < b->size + n) room *= 2;
    char *data = realloc(b->data, room);
    if (data) b->data = data;
    unsigned char *typed = data && b->typed ? realloc(b->typed, room) : NULL;
    if (typed) b->typed = typed;
    if (!data || (b->typed && !typed)) {
        jinja_fail_memory(env);
        return false;
    }
    b->room = room;
    return true;
}

static bool any_typed(const unsigned char *typed, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (typed[i]) return true;
    return false;
}

bool jinja_add(jinja_env *env, jinja_buffer *b, const char *s, size_t n, const unsigned char *typed) {
    if (env->failed) return false;
    if (!n) return true;
    if (n > (size_t)env->output_limit || b->size + n > (size_t)env->output_limit) {
        jinja_refuse(env, NULL, "a text of more than %lld bytes", (long long)env->output_limit);
        return false;
    }
    if (n >= 256 && !jinja_step(env, NULL, (int64_t)(n / 256))) return false;
    if (b->size + n > b->room && !grow(env, b, n)) return false;
    if (typed && !b->typed && any_typed(typed, n)) {
        b->typed = calloc(1, b->room);
        if (!b->typed) {
            jinja_fail_memory(env);
            return false;
        }
    }
    memcpy(b->data + b->size, s, n);
    if (b->typed) {
        if (typed)
            memcpy(b->typed + b->size, typed, n);
        else
            memset(b->typed + b->size, 0, n);
    }
    b->size += n;
    return true;
}

bool jinja_add_text(jinja_env *env, jinja_buffer *b, const char *s) {
    return jinja_add(env, b, s, strlen(s), NULL);
}

bool jinja_add_bytes(jinja_env *env, jinja_buffer *b, const jinja_string *s, size_t from, size_t to) {
    return from >= to || jinja_add(env, b, s->data + from, to - from, s->typed ? s->typed + from : NULL);
}

bool jinja_add_string(jinja_env *env, jinja_buffer *b, const jinja_string *s) {
    return jinja_add(env, b, s->data, s->size, s->typed);
}

bool jinja_add_char(jinja_env *env, jinja_buffer *b, uint32_t c, const jinja_string *s, size_t like) {
    char utf8[4];
    unsigned char mark = s && s->typed ? s->typed[like] : 0, marks[4] = {mark, mark, mark, mark};
    return jinja_add(env, b, utf8, tw_utf8_put(utf8, c), mark ? marks : NULL);
}

void jinja_drop(jinja_buffer *b) {
    free(b->data);
    free(b->typed);
    *b = (jinja_buffer){0};
}

jinja_value jinja_take(jinja_env *env, jinja_buffer *b) {
    jinja_value v = {.kind = JINJA_STRING, .s = &jinja_empty};
    if (!env->failed && b->size) v = jinja_text_n(env, b->data, b->size, b->typed);
    jinja_drop(b);
    return v;
}

/* ---- repr ---- */

static bool add_escape(jinja_env *env, jinja_buffer *b, uint32_t c, const jinja_string *s, size_t at) {
    char text[16];
    const char *simple = c == '\\' ? "\\\\" : c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : NULL;
    if (simple)
        snprintf(text, sizeof text, "%s", simple);
    else
        snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
    unsigned char mark = s->typed ? s->typed[at] : 0, marks[16];
    memset(marks, mark, sizeof marks);
    return jinja_add(env, b, text, strlen(text), mark ? marks : NULL);
}

static bool add_quoted(jinja_env *env, jinja_buffer *b, const jinja_string *s) {
    char quote = memchr(s->data, '\'', s->size) && !memchr(s->data, '"', s->size) ? '"' : '\'';
    if (s->safe) jinja_add_text(env, b, "Markup(");
    jinja_add(env, b, &quote, 1, NULL);
    for (size_t i = 0, from = 0; i <= s->size && !env->failed;) {
        size_t at = i;
        uint32_t c = i < s->size ? tw_utf8_next(s->data, &i) : 0;
        bool end = at == s->size, plain = !end && c != '\\' && c != (unsigned char)quote && jinja_is_printable(c);
        if (plain) continue;
        jinja_add_bytes(env, b, s, from, at);
        if (end) break;
        if (c == (unsigned char)quote) {
            jinja_add_char(env, b, '\\', s, at);
            jinja_add_char(env, b, c, s, at);
        } else
            add_escape(env, b, c, s, at);
        from = i;
    }
    jinja_add(env, b, &quote, 1, NULL);
    return s->safe ? jinja_add_text(env, b, ")") : !env->failed;
}

static bool add_items(jinja_env *env, const jinja_node *at, jinja_buffer *b, const jinja_list *l) {
    for (size_t i = 0; i < l->n && jinja_step(env, at, 1); i++) {
        if (i) jinja_add_text(env, b, ", ");
        jinja_add_repr(env, at, b, l->v[i]);
    }
    return !env->failed;
}

static bool add_dict(jinja_env *env, const jinja_node *at, jinja_buffer *b, const jinja_dict *d) {
    jinja_add_text(env, b, "{");
    for (size_t i = 0; i < d->n && jinja_step(env, at, 1); i++) {
        if (i) jinja_add_text(env, b, ", ");
        jinja_add_repr(env, at, b, d->v[i].key);
        jinja_add_text(env, b, ": ");
        jinja_add_repr(env, at, b, d->v[i].value);
    }
    return jinja_add_text(env, b, "}");
}

static bool add_view(jinja_env *env, const jinja_node *at, jinja_buffer *b, jinja_value v) {
    const jinja_dict *d = v.view->dict;
    jinja_add_text(env, b, jinja_type_name(v));
    jinja_add_text(env, b, "([");
    for (size_t i = 0; i < d->n && jinja_step(env, at, 1); i++) {
        if (i) jinja_add_text(env, b, ", ");
        if (v.view->part == JINJA_ITEMS) jinja_add_text(env, b, "(");
        if (v.view->part != JINJA_VALUES) jinja_add_repr(env, at, b, d->v[i].key);
        if (v.view->part == JINJA_ITEMS) jinja_add_text(env, b, ", ");
        if (v.view->part != JINJA_KEYS) jinja_add_repr(env, at, b, d->v[i].value);
        if (v.view->part == JINJA_ITEMS) jinja_add_text(env, b, ")");
    }
    return jinja_add_text(env, b, "])");
}

static bool add_namespace(jinja_env *env, const jinja_node *at, jinja_buffer *b, jinja_namespace *n) {
    jinja_add_text(env, b, "<Namespace ");
    if (n->printing)
        jinja_add_text(env, b, "{...}");
    else {
        n->printing = true;
        add_dict(env, at, b, n->names);
        n->printing = false;
    }
    return jinja_add_text(env, b, ">");
}

static bool add_nested(jinja_env *env, const jinja_node *at, jinja_buffer *b, jinja_value v) {
    char text[100];
    switch (v.kind) {
    case JINJA_LIST:
        jinja_add_text(env, b, "[");
        add_items(env, at, b, v.list);
        return jinja_add_text(env, b, "]");
    case JINJA_TUPLE:
        jinja_add_text(env, b, "(");
        add_items(env, at, b, v.list);
        return jinja_add_text(env, b, v.list->n == 1 ? ",)" : ")");
    case JINJA_DICT:
        return add_dict(env, at, b, v.dict);
    case JINJA_VIEW:
        return add_view(env, at, b, v);
    case JINJA_NAMESPACE:
        return add_namespace(env, at, b, v.names);
    case JINJA_RANGE:
        snprintf(text, sizeof text, v.range->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
                 (long long)v.range->start, (long long)v.range->stop, (long long)v.range->step);
        return jinja_add_text(env, b, text);
    case JINJA_LOOP:
        snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)v.loop->index0 + 1,
                 (long long)jinja_loop_length(env, v.loop));
        return jinja_add_text(env, b, text);
    case JINJA_MACRO:
        if (v.macro->node->type != JN_MACRO) return jinja_add_text(env, b, "<Macro anonymous>");
        jinja_add_text(env, b, "<Macro '");
        jinja_add_string(env, b, env->t->names.v[v.macro->node->name]);
        return jinja_add_text(env, b, "'>");
    default:
        jinja_refuse(env, at, "a %s is printed, which shows an address", jinja_type_name(v));
        return false;
    }
}

bool jinja_add_repr(jinja_env *env, const jinja_node *at, jinja_buffer *b, jinja_value v) {
    char text[TW_PYTHON_FLOAT];
    switch (v.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
        return jinja_add_text(env, b, "Undefined");
    case JINJA_NONE:
        return jinja_add_text(env, b, "None");
    case JINJA_BOOL:
        return jinja_add_text(env, b, v.b ? "True" : "False");
    case JINJA_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.i);
        return jinja_add_text(env, b, text);
    case JINJA_FLOAT:
        tw_python_float(text, v.f);
        return jinja_add_text(env, b, text);
    case JINJA_STRING:
        return add_quoted(env, b, v.s);
    default:
        break;
    }
    if (!jinja_deeper(env, at)) return false;
    bool good = add_nested(env, at, b, v);
    env->depth--;
    return good;
}

bool jinja_add_value(jinja_env *env, const jinja_node *at, jinja_buffer *b, jinja_value v) {
    if (v.kind == JINJA_STRING) return jinja_add_string(env, b, v.s);
    if (v.kind == JINJA_UNDEFINED || v.kind == JINJA_MISSING) return !env->failed;
    return jinja_add_repr(env, at, b, v);
}

static jinja_value plain(jinja_env *env, const jinja_node *at, jinja_value v) {
    jinja_buffer b = {0};
    jinja_add_value(env, at, &b, v);
    return jinja_take(env, &b);
}

jinja_value jinja_str(jinja_env *env, const jinja_node *at, jinja_value v) {
    return v.kind == JINJA_STRING ? jinja_with_safe(env, v, false) : plain(env, at, v);
}

jinja_value jinja_soft_str(jinja_env *env, const jinja_node *at, jinja_value v) {
    return v.kind == JINJA_STRING ? v : plain(env, at, v);
}

bool jinja_add_escaped(jinja_env *env, const jinja_node *at, jinja_buffer *b, jinja_value v) {
    jinja_value t = jinja_soft_str(env, at, v);
    if (t.s->safe) return jinja_add_string(env, b, t.s);
    size_t from = 0;
    for (size_t i = 0; i <= t.s->size && !env->failed; i++) {
        char c = i < t.s->size ? t.s->data[i] : 0;
        const char *as = i == t.s->size ? ""
                         : c == '&'     ? "&amp;"
                         : c == '<'     ? "&lt;"
                         : c == '>'     ? "&gt;"
                         : c == '"'     ? "&#34;"
                         : c == '\''    ? "&#39;"
                                        : NULL;
        if (!as) continue;
        jinja_add_bytes(env, b, t.s, from, i);
        for (; *as; as++) jinja_add_char(env, b, (unsigned char)*as, t.s, i);
        from = i + 1;
    }
    return !env->failed;
}

jinja_value jinja_escape(jinja_env *env, const jinja_node *at, jinja_value v) {
    jinja_buffer b = {0};
    if (v.kind == JINJA_STRING && v.s->safe) return v;
    jinja_add_escaped(env, at, &b, v);
    return jinja_with_safe(env, jinja_take(env, &b), true);
}

/* ---- looking into text ---- */

size_t jinja_byte_of(const jinja_string *s, size_t chars) {
    if (chars >= s->chars) return s->size;
    if (s->chars == s->size) return chars;
    size_t i = 0;
    for (; chars; chars--) tw_utf8_next(s->data, &i);
    return i;
}

int64_t jinja_find(const jinja_string *s, const jinja_string *what, size_t from, size_t to) {
    if (from > to || to - from < what->size) return -1;
    if (!what->size) return (int64_t)from;
    const char *p = memmem(s->data + from, to - from, what->data, what->size);
    return p ? p - s->data : -1;
}

int64_t jinja_rfind(const jinja_string *s, const jinja_string *what, size_t from, size_t to) {
    if (from > to || to - from < what->size) return -1;
    if (!what->size) return (int64_t)to;
    for (size_t i = to - what->size + 1; i-- > from;)
        if (s->data[i] == what->data[0] && !memcmp(s->data + i, what->data, what->size)) return (int64_t)i;
    return -1;
}
