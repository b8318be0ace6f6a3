/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of values that have items. */
#include "tokenizer/jinja/jinja.h"

#include <string.h>

#define FILTER(name) static jinja_value name(jinja_env *env, jinja_value v, const jinja_args *args)
#define BIND(what, names, needed)                                                                                      \
    jinja_value a[JINJA_BOUND];                                                                                        \
    if (!jinja_bind(env, args, what, names, needed, a)) return JINJA_NULL

static bool given(jinja_value v) {
    return v.kind != JINJA_MISSING && v.kind != JINJA_NONE;
}

/* ---- ends and lengths ---- */

FILTER(first) {
    BIND("first", "", 0);
    jinja_value item;
    jinja_iterator *it = jinja_iterate(env, args->at, v);
    return jinja_next(env, it, &item) ? item : jinja_undefined("the first item of nothing");
}

FILTER(last) {
    BIND("last", "", 0);
    jinja_value item;
    if (v.kind == JINJA_UNDEFINED || v.kind == JINJA_MISSING) return jinja_undefined("the last item of nothing");
    if (v.kind == JINJA_STRING) return jinja_get_item(env, args->at, v, jinja_int(-1));
    jinja_value back = jinja_reversed(env, args->at, v);
    if (back.kind != JINJA_ITERATOR)
        return jinja_fail(env, args->at, "a %s cannot be read from its end", jinja_type_name(v));
    return jinja_next(env, back.iterator, &item) ? item : jinja_undefined("the last item of nothing");
}

FILTER(length) {
    BIND("length", "", 0);
    return jinja_int(jinja_length(env, args->at, v));
}

FILTER(to_list) {
    BIND("list", "", 0);
    return jinja_to_list(env, args->at, v);
}

FILTER(reverse) {
    BIND("reverse", "", 0);
    if (v.kind == JINJA_STRING) return jinja_get_slice(env, args->at, v, JINJA_NULL, JINJA_NULL, jinja_int(-1));
    if (v.kind == JINJA_UNDEFINED || v.kind == JINJA_MISSING)
        return jinja_reversed(env, args->at, jinja_list_new(env, JINJA_LIST, 0));
    jinja_value back = jinja_reversed(env, args->at, v);
    if (back.kind == JINJA_ITERATOR || env->failed) return back;
    jinja_value list = jinja_to_list(env, args->at, v);
    for (size_t i = 0; !env->failed && i < list.list->n / 2; i++) {
        jinja_value t = list.list->v[i];
        list.list->v[i] = list.list->v[list.list->n - 1 - i];
        list.list->v[list.list->n - 1 - i] = t;
    }
    return list;
}

FILTER(items) {
    BIND("items", "", 0);
    return jinja_generator(env, (jinja_iterator){.type = JI_ITEMS, .source = v, .node = args->at});
}

FILTER(join) {
    BIND("join", "d attribute", 0);
    jinja_buffer b = {0};
    jinja_path path;
    jinja_value item, between = a[0].kind == JINJA_MISSING ? jinja_text(env, "") : jinja_str(env, args->at, a[0]);
    jinja_path_of(env, a[1], &path);
    jinja_iterator *it = jinja_iterate(env, args->at, v);
    for (size_t i = 0; jinja_next(env, it, &item); i++) {
        if (i) jinja_add_string(env, &b, between.s);
        jinja_add_value(env, args->at, &b, jinja_get_path(env, args->at, item, &path));
    }
    return jinja_take(env, &b);
}

/* ---- order ---- */

typedef struct keyed {
    jinja_value key, item;
} keyed;

/* Sorts by merging runs of 1, 2, 4 and so on. The order is stable, as in Python's sort. */
static void sort(jinja_env *env, const jinja_node *at, keyed *v, size_t n, bool reverse) {
    keyed *from = v, *to = jinja_alloc(env, n, sizeof *to);
    for (size_t run = 1; to && run < n && !env->failed; run *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * run) {
            size_t mid = lo + run < n ? lo + run : n, hi = lo + 2 * run < n ? lo + 2 * run : n;
            size_t i = lo, k = mid;
            for (size_t o = lo; o < hi; o++) {
                bool right = k < hi && (i >= mid || (reverse ? jinja_order(env, at, from[i].key, from[k].key, JO_LT)
                                                             : jinja_order(env, at, from[k].key, from[i].key, JO_LT)));
                to[o] = right ? from[k++] : from[i++];
            }
        }
        keyed *t = from;
        from = to;
        to = t;
    }
    if (from != v && !env->failed) memcpy(v, from, n * sizeof *v);
}

static keyed *keyed_items(jinja_env *env, const jinja_args *args, jinja_value list, const jinja_path *paths,
                          size_t n_paths) {
    keyed *v = env->failed ? NULL : jinja_alloc(env, list.list->n, sizeof *v);
    for (size_t i = 0; v && i < list.list->n && !env->failed; i++) {
        v[i].item = list.list->v[i];
        v[i].key = jinja_list_new(env, JINJA_LIST, n_paths);
        for (size_t k = 0; k < n_paths && !env->failed; k++)
            jinja_push(env, v[i].key, jinja_get_path(env, args->at, v[i].item, &paths[k]));
    }
    return env->failed ? NULL : v;
}

/* Splits "a.b,c" into its paths. */
static size_t several_paths(jinja_env *env, jinja_value attribute, bool fold, jinja_path out[16]) {
    size_t n = 0, from = 0;
    if (attribute.kind != JINJA_STRING) {
        jinja_path_of(env, attribute, &out[0]);
        out[0].fold = fold;
        return 1;
    }
    for (size_t i = 0; i <= attribute.s->size; i++) {
        if (i < attribute.s->size && attribute.s->data[i] != ',') continue;
        if (n == 16) {
            jinja_refuse(env, NULL, "sort by more than 16 attributes");
            return n;
        }
        jinja_path_of(env, jinja_slice_bytes(env, attribute.s, from, i), &out[n]);
        out[n++].fold = fold;
        from = i + 1;
    }
    return n;
}

static jinja_value list_of(jinja_env *env, const keyed *v, size_t n) {
    jinja_value out = jinja_list_new(env, JINJA_LIST, n);
    for (size_t i = 0; v && i < n && !env->failed; i++) jinja_push(env, out, v[i].item);
    return out;
}

FILTER(sorted) {
    BIND("sort", "reverse case_sensitive attribute", 0);
    jinja_path paths[16];
    size_t n = several_paths(env, a[2], !jinja_truth(env, a[1]), paths);
    jinja_value list = jinja_to_list(env, args->at, v);
    keyed *k = keyed_items(env, args, list, paths, n);
    if (!k) return list;
    sort(env, args->at, k, list.list->n, jinja_truth(env, a[0]));
    return list_of(env, k, list.list->n);
}

FILTER(dictsort) {
    BIND("dictsort", "case_sensitive by reverse", 0);
    bool value = jinja_is_text(a[1], "value");
    if (a[1].kind != JINJA_MISSING && !value && !jinja_is_text(a[1], "key"))
        return jinja_fail(env, args->at, "dictsort is by key or by value");
    if (v.kind != JINJA_DICT) return jinja_fail(env, args->at, "a %s is no dictionary", jinja_type_name(v));
    bool fold = !jinja_truth(env, a[0]);
    size_t n = v.dict->n;
    keyed *k = jinja_alloc(env, n, sizeof *k);
    for (size_t i = 0; k && i < n && !env->failed; i++) {
        const jinja_entry *e = &v.dict->v[i];
        k[i].item = jinja_pair(env, e->key, e->value);
        k[i].key = value ? e->value : e->key;
        if (fold && k[i].key.kind == JINJA_STRING) k[i].key = jinja_cased(env, k[i].key.s, JINJA_LOWER);
    }
    if (k) sort(env, args->at, k, n, jinja_truth(env, a[2]));
    return list_of(env, k, n);
}

static jinja_value extreme(jinja_env *env, jinja_value v, const jinja_args *args, jinja_op op) {
    BIND("min and max", "case_sensitive attribute", 0);
    jinja_path path;
    jinja_value best = {0}, key = {0}, item;
    jinja_path_of(env, a[1], &path);
    path.fold = !jinja_truth(env, a[0]);
    jinja_iterator *it = jinja_iterate(env, args->at, v);
    while (jinja_next(env, it, &item)) {
        jinja_value k = jinja_get_path(env, args->at, item, &path);
        if (best.kind != JINJA_MISSING && !jinja_order(env, args->at, k, key, op)) continue;
        best = item;
        key = k;
    }
    return best.kind == JINJA_MISSING ? jinja_undefined("the extreme of nothing") : best;
}

FILTER(smallest) {
    return extreme(env, v, args, JO_LT);
}
FILTER(largest) {
    return extreme(env, v, args, JO_GT);
}

FILTER(groupby) {
    BIND("groupby", "attribute default case_sensitive", 1);
    jinja_path path;
    jinja_path_of(env, a[0], &path);
    path.otherwise = a[1];
    jinja_path folded = path;
    folded.fold = !jinja_truth(env, a[2]);
    jinja_value list = jinja_to_list(env, args->at, v), out = jinja_list_new(env, JINJA_LIST, 0), members = JINJA_NULL;
    keyed *k = keyed_items(env, args, list, &folded, 1);
    for (size_t i = 0; k && i < list.list->n; i++) k[i].key = k[i].key.list->v[0];
    if (k) sort(env, args->at, k, list.list->n, false);
    for (size_t i = 0; k && i < list.list->n && !env->failed; i++) {
        if (!i || !jinja_equal(env, args->at, k[i - 1].key, k[i].key)) {
            members = jinja_list_new(env, JINJA_LIST, 0);
            jinja_value group = jinja_pair(env, jinja_get_path(env, args->at, k[i].item, &path), members);
            if (env->failed) break;
            group.list->group = true;
            jinja_push(env, out, group);
        }
        jinja_push(env, members, k[i].item);
    }
    return out;
}

FILTER(sum) {
    BIND("sum", "attribute start", 0);
    jinja_path path;
    jinja_value total = a[1].kind == JINJA_MISSING ? jinja_int(0) : a[1], item;
    if (total.kind == JINJA_STRING) return jinja_fail(env, args->at, "sum cannot join strings");
    jinja_path_of(env, a[0], &path);
    jinja_iterator *it = jinja_iterate(env, args->at, v);
    while (jinja_next(env, it, &item))
        total = jinja_arithmetic(env, args->at, JN_ADD, total, jinja_get_path(env, args->at, item, &path));
    return total;
}

/* ---- generators ---- */

FILTER(unique) {
    BIND("unique", "case_sensitive attribute", 0);
    jinja_value seen = jinja_dict_new(env);
    jinja_iterator it = {.type = JI_UNIQUE, .source = v, .node = args->at};
    jinja_path_of(env, a[1], &it.path);
    it.path.fold = !jinja_truth(env, a[0]);
    it.seen = seen.dict;
    return env->failed ? JINJA_NULL : jinja_generator(env, it);
}

static jinja_value chunks(jinja_env *env, jinja_value v, const jinja_args *args, jinja_iteration type) {
    BIND("batch and slice", type == JI_BATCH ? "linecount fill_with" : "slices fill_with", 1);
    jinja_iterator it = {.type = type, .source = v, .node = args->at};
    it.fill = given(a[1]) ? a[1] : JINJA_NULL;
    if (!jinja_index(env, args->at, a[0], &it.count)) return JINJA_NULL;
    return jinja_generator(env, it);
}

FILTER(batch) {
    return chunks(env, v, args, JI_BATCH);
}
FILTER(slice) {
    return chunks(env, v, args, JI_SLICE);
}

/* Copies the arguments without the first `n`, for later calls. */
static jinja_args rest_of(const jinja_args *args, size_t n) {
    jinja_args out = *args;
    out.v += n;
    out.n -= n;
    return out;
}

FILTER(map) {
    jinja_iterator it = {.type = JI_MAP, .source = v, .node = args->at};
    jinja_value a[JINJA_BOUND];
    bool get = false;
    for (size_t i = 0; i < args->n_keywords && !args->n; i++)
        get = get || (args->keywords[i].name->size == 9 && !memcmp(args->keywords[i].name->data, "attribute", 9));
    if (get) {
        if (!jinja_bind(env, args, "map", "attribute default", 1, a)) return JINJA_NULL;
        it.type = JI_GET;
        jinja_path_of(env, a[0], &it.path);
        it.path.otherwise = a[1];
        return jinja_generator(env, it);
    }
    if (args->n) {
        char name[32] = "";
        if (args->v[0].kind == JINJA_STRING && args->v[0].s->size < sizeof name)
            memcpy(name, args->v[0].s->data, args->v[0].s->size);
        it.found = jinja_find_filter(name);
        it.args = rest_of(args, 1);
    } else
        it.args = *args;
    return jinja_generator(env, it);
}

static jinja_value choose(jinja_env *env, jinja_value v, const jinja_args *args, bool by_path, bool reject) {
    jinja_iterator it = {.type = JI_SELECT, .source = v, .node = args->at, .by_path = by_path, .reject = reject};
    size_t off = by_path;
    if (by_path && !args->n) {
        if (!jinja_truth(env, v)) return jinja_generator(env, it);
        return jinja_fail(env, args->at, "the name of an attribute is missing");
    }
    if (by_path) jinja_path_of(env, args->v[0], &it.path);
    it.args = *args;
    if (args->n > off) {
        char name[32] = "";
        jinja_value test = args->v[off];
        if (test.kind == JINJA_STRING && test.s->size < sizeof name) memcpy(name, test.s->data, test.s->size);
        it.found = jinja_find_test(name);
        it.named = true;
        it.args = rest_of(args, off + 1);
    }
    return jinja_generator(env, it);
}

FILTER(select) {
    return choose(env, v, args, false, false);
}
FILTER(reject) {
    return choose(env, v, args, false, true);
}
FILTER(selectattr) {
    return choose(env, v, args, true, false);
}
FILTER(rejectattr) {
    return choose(env, v, args, true, true);
}

const jinja_filter jinja_list_filters[] = {{"batch", batch},     {"count", length},    {"dictsort", dictsort},
                                           {"first", first},     {"groupby", groupby}, {"items", items},
                                           {"join", join},       {"last", last},       {"length", length},
                                           {"list", to_list},    {"map", map},         {"max", largest},
                                           {"min", smallest},    {"reject", reject},   {"rejectattr", rejectattr},
                                           {"reverse", reverse}, {"select", select},   {"selectattr", selectattr},
                                           {"slice", slice},     {"sort", sorted},     {"sum", sum},
                                           {"unique", unique},   {NULL, NULL}};
