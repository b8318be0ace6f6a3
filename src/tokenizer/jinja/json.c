/* SPDX-License-Identifier: Apache-2.0 */
/* Reads values from JSON, and writes them as Python's json.dumps does. */
#include "base/python.h"
#include "tokenizer/jinja/jinja.h"
#include "tokenizer/unicode.h"

#include <stdio.h>
#include <string.h>

/* ---- from ---- */

static jinja_value text_from(jinja_env *env, const char *s, size_t n, bool typed) {
    jinja_value v = jinja_text_n(env, s, n, NULL);
    unsigned char *marks = typed && n ? jinja_alloc(env, n, 1) : NULL;
    if (!marks) return v;
    memset(marks, 1, n);
    ((jinja_string *)(uintptr_t)v.s)->typed = marks; /* The string was made above, so nobody else has it. */
    return v;
}

jinja_value jinja_from_json(jinja_env *env, const json_t *o, bool typed) {
    jinja_value v = JINJA_NULL;
    if (env->failed) return v;
    switch (json_typeof(o)) {
    case JSON_OBJECT: {
        const char *key;
        json_t *item;
        v = jinja_dict_new(env);
        for (void *i = json_object_iter((json_t *)(uintptr_t)o); i && !env->failed;
             i = json_object_iter_next((json_t *)(uintptr_t)o, i)) {
            key = json_object_iter_key(i);
            item = json_object_iter_value(i);
            jinja_value name = text_from(env, key, json_object_iter_key_len(i), typed);
            if (!env->failed) jinja_dict_put(env, NULL, v.dict, name, jinja_from_json(env, item, typed));
        }
        return v;
    }
    case JSON_ARRAY:
        v = jinja_list_new(env, JINJA_LIST, json_array_size(o));
        for (size_t i = 0; i < json_array_size(o) && !env->failed; i++)
            jinja_push(env, v, jinja_from_json(env, json_array_get(o, i), typed));
        return v;
    case JSON_STRING:
        return text_from(env, json_string_value(o), json_string_length(o), typed);
    case JSON_INTEGER:
        return jinja_int(json_integer_value(o));
    case JSON_REAL:
        return jinja_float(json_real_value(o));
    case JSON_TRUE:
        return jinja_bool(true);
    case JSON_FALSE:
        return jinja_bool(false);
    default:
        return v;
    }
}

/* ---- to ---- */

typedef struct writer {
    jinja_env *env;
    const jinja_node *at;
    jinja_buffer b;
    const jinja_string *item, *key, *indent; /* Separators. `indent` NULL: one line. */
    bool ascii, sorted;
} writer;

static void put_escape(writer *w, const jinja_string *s, size_t at, const char *text) {
    for (; *text; text++) jinja_add_char(w->env, &w->b, (unsigned char)*text, s, at);
}

static void put_text(writer *w, const jinja_string *s) {
    size_t from = 0;
    jinja_add_text(w->env, &w->b, "\"");
    for (size_t i = 0; i < s->size && !w->env->failed;) {
        size_t at = i;
        uint32_t c = tw_utf8_next(s->data, &i);
        if (c >= 0x20 && c != '"' && c != '\\' && !(w->ascii && c > 0x7e)) continue;
        jinja_add_bytes(w->env, &w->b, s, from, at);
        from = i;
        char text[16];
        static const char names[] = "\"\"\\\\\nn\rr\tt\bb\ff";
        const char *name = NULL;
        for (const char *p = names; *p; p += 2)
            if ((unsigned char)*p == c) name = p + 1;
        if (name)
            snprintf(text, sizeof text, "\\%c", *name);
        else if (c < 0x10000)
            snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
        else
            snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((c - 0x10000) >> 10)),
                     (unsigned)(0xdc00 + ((c - 0x10000) & 0x3ff)));
        put_escape(w, s, at, text);
    }
    jinja_add_bytes(w->env, &w->b, s, from, s->size);
    jinja_add_text(w->env, &w->b, "\"");
}

static void put_newline(writer *w, int level) {
    if (!w->indent) return;
    jinja_add_text(w->env, &w->b, "\n");
    for (int i = 0; i < level; i++) jinja_add_string(w->env, &w->b, w->indent);
}

static void put_float(writer *w, double f) {
    char text[TW_PYTHON_FLOAT];
    tw_python_json_float(text, f);
    jinja_add_text(w->env, &w->b, text);
}

static void put(writer *w, jinja_value v, int level);

static void put_list(writer *w, const jinja_list *l, int level) {
    jinja_add_text(w->env, &w->b, "[");
    for (size_t i = 0; i < l->n && jinja_step(w->env, w->at, 1); i++) {
        if (i) jinja_add_string(w->env, &w->b, w->item);
        put_newline(w, level + 1);
        put(w, l->v[i], level + 1);
    }
    if (l->n) put_newline(w, level);
    jinja_add_text(w->env, &w->b, "]");
}

/* Writes a key as text. As in Python, keys are sorted before they are converted to text. */
static void put_key(writer *w, jinja_value key) {
    if (key.kind == JINJA_STRING) {
        put_text(w, key.s);
        return;
    }
    if (key.kind != JINJA_NONE && key.kind != JINJA_BOOL && key.kind != JINJA_INT && key.kind != JINJA_FLOAT) {
        jinja_fail(w->env, w->at, "tojson: a key cannot be a %s", jinja_type_name(key));
        return;
    }
    jinja_add_text(w->env, &w->b, "\"");
    put(w, key, 0);
    jinja_add_text(w->env, &w->b, "\"");
}

static void sort_entries(writer *w, jinja_entry *v, size_t n) {
    /* Binary insertion is stable, and needs few comparisons. */
    for (size_t i = 1; i < n && jinja_step(w->env, w->at, (int64_t)i / 64 + 1); i++) {
        jinja_entry e = v[i];
        size_t lo = 0, hi = i;
        while (lo < hi && !w->env->failed) {
            size_t mid = (lo + hi) / 2;
            if (jinja_order(w->env, w->at, e.key, v[mid].key, JO_LT))
                hi = mid;
            else
                lo = mid + 1;
        }
        memmove(v + lo + 1, v + lo, (i - lo) * sizeof *v);
        v[lo] = e;
    }
}

static void put_dict(writer *w, const jinja_dict *d, int level) {
    jinja_entry *v = d->v;
    if (w->sorted && d->n > 1) {
        v = jinja_alloc(w->env, d->n, sizeof *v);
        if (!v) return;
        memcpy(v, d->v, d->n * sizeof *v);
        sort_entries(w, v, d->n);
    }
    jinja_add_text(w->env, &w->b, "{");
    for (size_t i = 0; i < d->n && jinja_step(w->env, w->at, 1); i++) {
        if (i) jinja_add_string(w->env, &w->b, w->item);
        put_newline(w, level + 1);
        put_key(w, v[i].key);
        jinja_add_string(w->env, &w->b, w->key);
        put(w, v[i].value, level + 1);
    }
    if (d->n) put_newline(w, level);
    jinja_add_text(w->env, &w->b, "}");
}

static void put(writer *w, jinja_value v, int level) {
    switch (v.kind) {
    case JINJA_NONE:
        jinja_add_text(w->env, &w->b, "null");
        return;
    case JINJA_BOOL:
        jinja_add_text(w->env, &w->b, v.b ? "true" : "false");
        return;
    case JINJA_INT:
        jinja_add_repr(w->env, w->at, &w->b, v);
        return;
    case JINJA_FLOAT:
        put_float(w, v.f);
        return;
    case JINJA_STRING:
        put_text(w, v.s);
        return;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
        if (!jinja_deeper(w->env, w->at)) return;
        if (v.kind == JINJA_DICT)
            put_dict(w, v.dict, level);
        else
            put_list(w, v.list, level);
        w->env->depth--;
        return;
    default:
        jinja_fail(w->env, w->at, "tojson: a %s has no JSON", jinja_type_name(v));
    }
}

static bool choose_separators(writer *w, jinja_value v) {
    static const jinja_string comma_blank = {.data = ", ", .size = 2, .chars = 2},
                              comma = {.data = ",", .size = 1, .chars = 1},
                              colon = {.data = ": ", .size = 2, .chars = 2};
    w->item = w->indent ? &comma : &comma_blank;
    w->key = &colon;
    if (v.kind == JINJA_MISSING || v.kind == JINJA_NONE) return true;
    jinja_value pair = jinja_to_list(w->env, w->at, v);
    if (w->env->failed) return false;
    if (pair.list->n != 2 || pair.list->v[0].kind != JINJA_STRING || pair.list->v[1].kind != JINJA_STRING) {
        jinja_fail(w->env, w->at, "tojson: separators are two strings");
        return false;
    }
    w->item = pair.list->v[0].s;
    w->key = pair.list->v[1].s;
    return true;
}

static bool choose_indent(writer *w, jinja_value v) {
    if (v.kind == JINJA_MISSING || v.kind == JINJA_NONE) return true;
    if (v.kind == JINJA_STRING) {
        w->indent = v.s;
        return true;
    }
    int64_t n;
    if (!jinja_index(w->env, w->at, v, &n)) return false;
    jinja_buffer b = {0};
    if (n > 1 << 20) jinja_refuse(w->env, w->at, "tojson: an indent of more than %d", 1 << 20);
    for (int64_t i = 0; i < n && !w->env->failed; i++) jinja_add_text(w->env, &b, " ");
    w->indent = jinja_take(w->env, &b).s;
    return !w->env->failed;
}

jinja_value jinja_to_json(jinja_env *env, jinja_value v, const jinja_args *args) {
    jinja_value a[JINJA_BOUND];
    writer w = {.env = env, .at = args->at};
    if (!jinja_bind(env, args, "tojson", "ensure_ascii indent separators sort_keys", 0, a)) return JINJA_NULL;
    w.ascii = jinja_truth(env, a[0]);
    w.sorted = jinja_truth(env, a[3]);
    if (choose_indent(&w, a[1]) && choose_separators(&w, a[2])) put(&w, v, 0);
    return jinja_take(env, &w.b);
}
