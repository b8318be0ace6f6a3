/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of all values except strings. The sandbox has none that would change its object. */
#include "tokenizer/jinja/jinja.h"

#include <string.h>

#define BIND(what, names, needed)                                                                                      \
    jinja_value a[JINJA_BOUND];                                                                                        \
    if (!jinja_bind(env, args, what, names, needed, a)) return JINJA_NULL

/* Refuses arguments by name, which most of Python's own methods do not take. */
static bool positional(jinja_env *env, const jinja_args *args, const char *what) {
    if (args->n_keywords) jinja_fail(env, args->at, "%s takes no arguments by name", what);
    return !env->failed;
}

/* ---- lists, tuples, ranges ---- */

static jinja_value list_copy(jinja_env *env, jinja_value self, const jinja_args *args) {
    BIND("copy", "", 0);
    jinja_value out = jinja_list_new(env, JINJA_LIST, self.list->n);
    for (size_t i = 0; i < self.list->n && jinja_step(env, args->at, 1); i++) jinja_push(env, out, self.list->v[i]);
    return out;
}

static jinja_value count(jinja_env *env, jinja_value self, const jinja_args *args) {
    int64_t n = 0;
    if (!positional(env, args, "count")) return JINJA_NULL;
    BIND("count", "value", 1);
    if (self.kind == JINJA_RANGE) return jinja_int(jinja_contains(env, args->at, self, a[0]));
    for (size_t i = 0; i < self.list->n && !env->failed; i++)
        n += jinja_same(self.list->v[i], a[0]) || jinja_equal(env, args->at, self.list->v[i], a[0]);
    return jinja_int(n);
}

static jinja_value index_of(jinja_env *env, jinja_value self, const jinja_args *args) {
    if (!positional(env, args, "index")) return JINJA_NULL;
    BIND("index", "value start stop", 1);
    int64_t n = jinja_length(env, args->at, self), from = 0, to = n;
    if (a[1].kind != JINJA_MISSING && !jinja_index(env, args->at, a[1], &from)) return JINJA_NULL;
    if (a[2].kind != JINJA_MISSING && !jinja_index(env, args->at, a[2], &to)) return JINJA_NULL;
    if (self.kind == JINJA_RANGE && (a[1].kind != JINJA_MISSING || a[2].kind != JINJA_MISSING))
        return jinja_fail(env, args->at, "a range's index takes one argument");
    from = from < 0 ? from + n < 0 ? 0 : from + n : from;
    to = to < 0 ? to + n < 0 ? 0 : to + n : to;
    for (int64_t i = from; i < to && i < n && !env->failed; i++) {
        jinja_value v =
            self.kind == JINJA_RANGE ? jinja_int(self.range->start + i * self.range->step) : self.list->v[i];
        if (jinja_same(v, a[0]) || jinja_equal(env, args->at, v, a[0])) return jinja_int(i);
    }
    return jinja_fail(env, args->at, "the value is not in the list");
}

/* ---- dictionaries ---- */

static jinja_value view(jinja_env *env, jinja_value self, const jinja_args *args, jinja_part part) {
    BIND("the method", "", 0);
    jinja_view *v = jinja_alloc(env, 1, sizeof *v);
    if (!v) return JINJA_NULL;
    *v = (jinja_view){self.dict, part};
    return (jinja_value){.kind = JINJA_VIEW, .view = v};
}

static jinja_value dict_keys(jinja_env *env, jinja_value self, const jinja_args *args) {
    return view(env, self, args, JINJA_KEYS);
}

static jinja_value dict_values(jinja_env *env, jinja_value self, const jinja_args *args) {
    return view(env, self, args, JINJA_VALUES);
}

static jinja_value dict_items(jinja_env *env, jinja_value self, const jinja_args *args) {
    return view(env, self, args, JINJA_ITEMS);
}

static jinja_value dict_get(jinja_env *env, jinja_value self, const jinja_args *args) {
    if (!positional(env, args, "get")) return JINJA_NULL;
    BIND("get", "key default", 1);
    const jinja_entry *e = jinja_dict_find(env, args->at, self.dict, a[0]);
    return e ? e->value : a[1].kind == JINJA_MISSING ? JINJA_NULL : a[1];
}

static jinja_value dict_copy(jinja_env *env, jinja_value self, const jinja_args *args) {
    BIND("copy", "", 0);
    jinja_value out = jinja_dict_new(env);
    for (size_t i = 0; i < self.dict->n && !env->failed; i++)
        jinja_dict_put(env, args->at, out.dict, self.dict->v[i].key, self.dict->v[i].value);
    return out;
}

jinja_value jinja_dict_fromkeys(jinja_env *env, jinja_value self, const jinja_args *args) {
    (void)self;
    if (!positional(env, args, "fromkeys")) return JINJA_NULL;
    BIND("fromkeys", "iterable value", 1);
    jinja_value out = jinja_dict_new(env), key;
    jinja_iterator *it = jinja_iterate(env, args->at, a[0]);
    while (jinja_next(env, it, &key))
        jinja_dict_put(env, args->at, out.dict, key, a[1].kind == JINJA_MISSING ? JINJA_NULL : a[1]);
    return out;
}

static jinja_value view_isdisjoint(jinja_env *env, jinja_value self, const jinja_args *args) {
    if (!positional(env, args, "isdisjoint")) return JINJA_NULL;
    BIND("isdisjoint", "other", 1);
    jinja_iterator *it = jinja_iterate(env, args->at, a[0]);
    jinja_value v;
    while (jinja_next(env, it, &v))
        if (jinja_contains(env, args->at, self, v)) return jinja_bool(false);
    return jinja_bool(true);
}

/* ---- numbers ---- */

static jinja_value bit_length(jinja_env *env, jinja_value self, const jinja_args *args) {
    BIND("bit_length", "", 0);
    int64_t v = jinja_as_int(self), n = 0;
    for (uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v; u; u >>= 1) n++;
    return jinja_int(n);
}

static jinja_value conjugate(jinja_env *env, jinja_value self, const jinja_args *args) {
    BIND("conjugate", "", 0);
    return self.kind == JINJA_FLOAT ? self : jinja_int(jinja_as_int(self));
}

static jinja_value is_integer(jinja_env *env, jinja_value self, const jinja_args *args) {
    BIND("is_integer", "", 0);
    return jinja_bool(jinja_is_whole(self.f));
}

/* ---- Jinja's own ---- */

static jinja_value cycler_next(jinja_env *env, jinja_value self, const jinja_args *args) {
    BIND("next", "", 0);
    jinja_cycler *c = self.cycler;
    jinja_value v = c->items->v[c->at];
    c->at = (c->at + 1) % c->items->n;
    return v;
}

static jinja_value cycler_reset(jinja_env *env, jinja_value self, const jinja_args *args) {
    BIND("reset", "", 0);
    self.cycler->at = 0;
    return JINJA_NULL;
}

/* ---- tables ---- */

static const jinja_method_info list_methods[] = {
    {"append", NULL, true}, {"clear", NULL, true},      {"copy", list_copy, false}, {"count", count, false},
    {"extend", NULL, true}, {"index", index_of, false}, {"insert", NULL, true},     {"pop", NULL, true},
    {"remove", NULL, true}, {"reverse", NULL, true},    {"sort", NULL, true},       {NULL, NULL, false}};
static const jinja_method_info tuple_methods[] = {
    {"count", count, false}, {"index", index_of, false}, {NULL, NULL, false}};
static const jinja_method_info dict_methods[] = {
    {"clear", NULL, true},    {"copy", dict_copy, false},     {"fromkeys", jinja_dict_fromkeys, false},
    {"get", dict_get, false}, {"items", dict_items, false},   {"keys", dict_keys, false},
    {"pop", NULL, true},      {"popitem", NULL, true},        {"setdefault", NULL, true},
    {"update", NULL, true},   {"values", dict_values, false}, {NULL, NULL, false}};
static const jinja_method_info set_methods[] = {
    {"isdisjoint", view_isdisjoint, false}, {"mapping", NULL, false}, {NULL, NULL, false}};
static const jinja_method_info values_methods[] = {{"mapping", NULL, false}, {NULL, NULL, false}};
static const jinja_method_info int_methods[] = {{"as_integer_ratio", NULL, false},
                                                {"bit_count", NULL, false},
                                                {"bit_length", bit_length, false},
                                                {"conjugate", conjugate, false},
                                                {"from_bytes", NULL, false},
                                                {"to_bytes", NULL, false},
                                                {NULL, NULL, false}};
static const jinja_method_info float_methods[] = {{"as_integer_ratio", NULL, false}, {"conjugate", conjugate, false},
                                                  {"fromhex", NULL, false},          {"hex", NULL, false},
                                                  {"is_integer", is_integer, false}, {NULL, NULL, false}};
static const jinja_method_info loop_methods[] = {
    {"changed", jinja_loop_changed, false}, {"cycle", jinja_loop_cycle, false}, {NULL, NULL, false}};
static const jinja_method_info cycler_methods[] = {
    {"next", cycler_next, false}, {"reset", cycler_reset, false}, {NULL, NULL, false}};
static const jinja_method_info dict_type_methods[] = {{"fromkeys", jinja_dict_fromkeys, false}, {NULL, NULL, false}};

const jinja_method_info *jinja_find_method(jinja_value v, const char *name) {
    const jinja_method_info *m = NULL;
    switch (v.kind) {
    case JINJA_STRING:
        m = jinja_text_methods;
        break;
    case JINJA_LIST:
        m = list_methods;
        break;
    case JINJA_TUPLE:
    case JINJA_RANGE:
        m = tuple_methods;
        break;
    case JINJA_DICT:
        m = dict_methods;
        break;
    case JINJA_VIEW:
        m = v.view->part == JINJA_VALUES ? values_methods : set_methods;
        break;
    case JINJA_BOOL:
    case JINJA_INT:
        m = int_methods;
        break;
    case JINJA_FLOAT:
        m = float_methods;
        break;
    case JINJA_LOOP:
        m = loop_methods;
        break;
    case JINJA_CYCLER:
        m = cycler_methods;
        break;
    case JINJA_FUNCTION:
        if (!strcmp(v.function->name, "dict")) m = dict_type_methods;
        break;
    default:
        break;
    }
    for (; m && m->name; m++)
        if (!strcmp(m->name, name)) return m;
    return NULL;
}
