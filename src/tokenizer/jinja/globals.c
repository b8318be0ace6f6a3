/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that every template has. */
#define _POSIX_C_SOURCE 200809L
#include "tokenizer/jinja/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GLOBAL(name) static jinja_value name(jinja_env *env, const jinja_args *args)

enum { LARGEST_RANGE = 100000 };

GLOBAL(range) {
    int64_t v[3] = {0, 0, 1}, n;
    if (args->n_keywords) return jinja_fail(env, args->at, "range takes no arguments by name");
    if (args->n < 1 || args->n > 3) return jinja_fail(env, args->at, "range takes one to three arguments");
    for (size_t i = 0; i < args->n; i++)
        if (!jinja_index(env, args->at, args->v[i], &v[args->n == 1 ? 1 : i])) return JINJA_NULL;
    if (!v[2]) return jinja_fail(env, args->at, "a range's step is 0");
    jinja_wide distance = v[2] > 0 ? (jinja_wide)v[1] - v[0] : (jinja_wide)v[0] - v[1];
    jinja_wide step = v[2] > 0 ? (jinja_wide)v[2] : -(jinja_wide)v[2],
               count = distance > 0 ? (distance - 1) / step + 1 : 0;
    if (count > LARGEST_RANGE) return jinja_fail(env, args->at, "a range of more than %d numbers", LARGEST_RANGE);
    n = (int64_t)count;
    jinja_range *r = jinja_alloc(env, 1, sizeof *r);
    if (!r) return JINJA_NULL;
    *r = (jinja_range){v[0], v[1], v[2], n};
    return (jinja_value){.kind = JINJA_RANGE, .range = r};
}

/* Computes Python's dict(mapping or pairs, **more). */
static jinja_value dict_from(jinja_env *env, const jinja_args *args) {
    jinja_value out = jinja_dict_new(env), pair, item;
    if (args->n > 1) return jinja_fail(env, args->at, "dict takes one argument at most, not %zu", args->n);
    if (args->n && args->v[0].kind == JINJA_DICT) {
        const jinja_dict *d = args->v[0].dict;
        for (size_t i = 0; i < d->n && !env->failed; i++)
            jinja_dict_put(env, args->at, out.dict, d->v[i].key, d->v[i].value);
    } else if (args->n) {
        if (args->v[0].kind == JINJA_UNDEFINED)
            return jinja_fail(env, args->at, "%.80s is undefined", args->v[0].why ? args->v[0].why : "a value");
        jinja_iterator *it = jinja_iterate(env, args->at, args->v[0]);
        while (jinja_next(env, it, &pair)) {
            jinja_value two[2] = {{0}, {0}};
            size_t n = 0;
            jinja_iterator *in = jinja_iterate(env, args->at, pair);
            for (; n < 3 && jinja_next(env, in, &item); n++)
                if (n < 2) two[n] = item;
            if (!env->failed && n != 2) jinja_fail(env, args->at, "dict needs pairs");
            if (!env->failed) jinja_dict_put(env, args->at, out.dict, two[0], two[1]);
        }
    }
    for (size_t i = 0; i < args->n_keywords && !env->failed; i++)
        jinja_dict_put(env, args->at, out.dict, (jinja_value){.kind = JINJA_STRING, .s = args->keywords[i].name},
                       args->keywords[i].value);
    return out;
}

GLOBAL(dict) {
    return dict_from(env, args);
}

GLOBAL(namespace) {
    jinja_value names = dict_from(env, args);
    jinja_namespace *n = jinja_alloc(env, 1, sizeof *n);
    if (!n || env->failed) return JINJA_NULL;
    for (size_t i = 0; i < names.dict->n; i++)
        if (names.dict->v[i].key.kind == JINJA_STRING && names.dict->v[i].key.s->data[0] == '_')
            return jinja_fail(env, args->at, "a namespace has no names that begin with an underscore");
    n->names = names.dict;
    return (jinja_value){.kind = JINJA_NAMESPACE, .names = n};
}

GLOBAL(cycler) {
    jinja_cycler *c = jinja_alloc(env, 1, sizeof *c);
    jinja_value items = jinja_list_new(env, JINJA_TUPLE, args->n);
    if (args->n_keywords) return jinja_fail(env, args->at, "cycler takes no arguments by name");
    if (!args->n) return jinja_fail(env, args->at, "cycler needs an item");
    for (size_t i = 0; i < args->n; i++) jinja_push(env, items, args->v[i]);
    if (!c || env->failed) return JINJA_NULL;
    c->items = items.list;
    return (jinja_value){.kind = JINJA_CYCLER, .cycler = c};
}

GLOBAL(joiner) {
    jinja_value a[JINJA_BOUND];
    jinja_joiner *j = jinja_alloc(env, 1, sizeof *j);
    if (!jinja_bind(env, args, "joiner", "sep", 0, a) || !j) return JINJA_NULL;
    j->separator = a[0].kind == JINJA_MISSING ? jinja_text(env, ", ") : a[0];
    return (jinja_value){.kind = JINJA_JOINER, .joiner = j};
}

GLOBAL(raise_exception) {
    jinja_value a[JINJA_BOUND];
    if (!jinja_bind(env, args, "raise_exception", "message", 1, a)) return JINJA_NULL;
    jinja_value text = jinja_str(env, args->at, a[0]);
    if (env->failed) return text;
    return jinja_fail(env, args->at, "the template says: %.*s", (int)(text.s->size < 400 ? text.s->size : 400),
                      text.s->data);
}

/* Expands %f, %z and %Z, which Python fills in itself: no microseconds, and a time without zone. */
static bool expand(jinja_env *env, jinja_buffer *b, const jinja_string *s) {
    for (size_t i = 0; i < s->size; i++) {
        char c = s->data[i], next = i + 1 < s->size ? s->data[i + 1] : 0;
        if (!c) {
            jinja_refuse(env, NULL, "strftime_now of a text with a NUL");
            return false;
        }
        if (c != '%' || !next) {
            jinja_add(env, b, &c, 1, NULL);
            continue;
        }
        i++;
        if (next == 'f')
            jinja_add_text(env, b, "000000");
        else if (next != 'z' && next != 'Z')
            jinja_add(env, b, (char[]){'%', next}, 2, NULL);
    }
    return !env->failed;
}

GLOBAL(strftime_now) {
    jinja_value a[JINJA_BOUND];
    if (!jinja_bind(env, args, "strftime_now", "format", 1, a)) return JINJA_NULL;
    if (a[0].kind != JINJA_STRING) return jinja_fail(env, args->at, "strftime_now needs a string");
    time_t now = env->now ? (time_t)env->now : time(NULL);
    struct tm tm;
    if (!localtime_r(&now, &tm)) return jinja_fail(env, args->at, "the time cannot be told");
    tm.tm_isdst = -1;
    jinja_buffer b = {0};
    if (!expand(env, &b, a[0].s)) {
        jinja_drop(&b);
        return JINJA_NULL;
    }
    jinja_value format = jinja_take(env, &b);
    size_t room = 256 + 64 * format.s->size;
    if (room > 1 << 20) return jinja_refuse(env, args->at, "strftime_now of a long text");
    char *text = malloc(room);
    if (!text) {
        jinja_fail_memory(env);
        return JINJA_NULL;
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = format.s->size ? strftime(text, room, format.s->data, &tm) : 0;
#pragma GCC diagnostic pop
    jinja_value out = jinja_text_n(env, text, n, NULL);
    free(text);
    return n || format.s->size < 3 ? out : jinja_refuse(env, args->at, "strftime_now of this format");
}

static const jinja_function all[] = {{"cycler", cycler},       {"dict", dict},
                                     {"joiner", joiner},       {"lipsum", NULL},
                                     {"namespace", namespace}, {"raise_exception", raise_exception},
                                     {"range", range},         {"strftime_now", strftime_now}};

const jinja_function *jinja_find_global(const char *name) {
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].name, name)) return &all[i];
    return NULL;
}
