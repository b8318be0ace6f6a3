/* SPDX-License-Identifier: Apache-2.0 */
/* Values as Python has them: truth, equality, order, membership and dictionaries. */
#include "tokenizer/jinja/jinja.h"
#include "tokenizer/unicode.h"

#include <math.h>
#include <string.h>

const jinja_string jinja_empty = {.data = "", .typed = NULL};

jinja_value jinja_text_n(jinja_env *env, const char *s, size_t n, const unsigned char *typed) {
    jinja_value v = {.kind = JINJA_STRING, .s = &jinja_empty};
    if (!n) return v;
    jinja_string *t = jinja_alloc(env, 1, sizeof *t);
    char *data = jinja_alloc(env, n + 1, 1);
    unsigned char *marks = typed ? jinja_alloc(env, n, 1) : NULL;
    if (!t || !data || (typed && !marks)) return v;
    memcpy(data, s, n);
    if (typed) memcpy(marks, typed, n);
    *t = (jinja_string){.data = data, .typed = marks, .size = n};
    for (size_t i = 0; i < n; i++) t->chars += ((unsigned char)s[i] & 0xc0) != 0x80;
    v.s = t;
    return v;
}

jinja_value jinja_text(jinja_env *env, const char *s) {
    return jinja_text_n(env, s, strlen(s), NULL);
}

jinja_value jinja_slice_bytes(jinja_env *env, const jinja_string *s, size_t from, size_t to) {
    jinja_value v = {.kind = JINJA_STRING, .s = &jinja_empty};
    if (from >= to) return s->safe ? jinja_with_safe(env, v, true) : v;
    if (from == 0 && to == s->size) {
        v.s = s;
        return v;
    }
    jinja_string *t = jinja_alloc(env, 1, sizeof *t);
    if (!t || !jinja_step(env, NULL, (int64_t)((to - from) / 256))) return v;
    *t = (jinja_string){
        .data = s->data + from, .typed = s->typed ? s->typed + from : NULL, .size = to - from, .safe = s->safe};
    for (size_t i = from; i < to; i++) t->chars += ((unsigned char)s->data[i] & 0xc0) != 0x80;
    v.s = t;
    return v;
}

jinja_value jinja_with_safe(jinja_env *env, jinja_value s, bool safe) {
    if (s.kind != JINJA_STRING || s.s->safe == safe) return s;
    jinja_string *t = jinja_alloc(env, 1, sizeof *t);
    if (!t) return s;
    *t = *s.s;
    t->safe = safe;
    return (jinja_value){.kind = JINJA_STRING, .s = t};
}

bool jinja_is_text(jinja_value v, const char *text) {
    return v.kind == JINJA_STRING && v.s->size == strlen(text) && !memcmp(v.s->data, text, v.s->size);
}

/* ---- lists ---- */

jinja_value jinja_list_new(jinja_env *env, jinja_kind kind, size_t room) {
    jinja_list *l = jinja_alloc(env, 1, sizeof *l);
    jinja_value *v = room ? jinja_alloc(env, room, sizeof *v) : NULL;
    if (!l || (room && !v)) return jinja_undefined(NULL);
    *l = (jinja_list){.v = v, .room = room};
    return (jinja_value){.kind = kind, .list = l};
}

void jinja_push(jinja_env *env, jinja_value list, jinja_value v) {
    if (list.kind != JINJA_LIST && list.kind != JINJA_TUPLE) return; /* The list's allocation failed. */
    jinja_list *l = list.list;
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 4;
        jinja_value *more = jinja_alloc(env, room, sizeof *more);
        if (!more) return;
        if (l->n) memcpy(more, l->v, l->n * sizeof *more);
        l->v = more;
        l->room = room;
    }
    l->v[l->n++] = v;
}

jinja_value jinja_pair(jinja_env *env, jinja_value a, jinja_value b) {
    jinja_value t = jinja_list_new(env, JINJA_TUPLE, 2);
    jinja_push(env, t, a);
    jinja_push(env, t, b);
    return t;
}

/* ---- hashes and dictionaries ---- */

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static bool whole(double f, int64_t *i) {
    return jinja_is_whole(f) && jinja_float_to_int(f, i) == JINJA_PARSED;
}

static bool hash_tuple(jinja_env *env, const jinja_node *at, const jinja_list *l, uint64_t *out) {
    uint64_t h = mix(JINJA_TUPLE, l->n);
    if (!jinja_deeper(env, at)) return false;
    bool good = true;
    for (size_t i = 0; i < l->n && good; i++) {
        uint64_t x;
        good = jinja_hash(env, at, l->v[i], &x);
        if (good) h = mix(h, x);
    }
    env->depth--;
    *out = h;
    return good;
}

bool jinja_hash(jinja_env *env, const jinja_node *at, jinja_value v, uint64_t *out) {
    uint64_t h = mix(0x51, v.kind);
    int64_t i;
    switch (v.kind) {
    case JINJA_NONE:
    case JINJA_UNDEFINED:
    case JINJA_MISSING:
        break;
    case JINJA_BOOL:
    case JINJA_INT:
        h = mix(7, (uint64_t)jinja_as_int(v));
        break;
    case JINJA_FLOAT:
        if (whole(v.f, &i))
            h = mix(7, (uint64_t)i);
        else {
            memcpy(&i, &v.f, sizeof i);
            h = mix(h, (uint64_t)i);
        }
        break;
    case JINJA_STRING:
        if (!jinja_step(env, at, (int64_t)(v.s->size / 256))) return false;
        for (size_t k = 0; k < v.s->size; k++) h = (h ^ (unsigned char)v.s->data[k]) * 1099511628211u;
        h = mix(h, v.s->size);
        break;
    case JINJA_TUPLE:
        return hash_tuple(env, at, v.list, out);
    case JINJA_RANGE:
        h = mix(mix(mix(h, (uint64_t)v.range->n), v.range->n ? (uint64_t)v.range->start : 0),
                v.range->n > 1 ? (uint64_t)v.range->step : 0);
        break;
    case JINJA_LIST:
    case JINJA_DICT:
        jinja_fail(env, at, "a %s cannot be a key", jinja_type_name(v));
        return false;
    case JINJA_VIEW:
        if (v.view->part != JINJA_VALUES) {
            jinja_fail(env, at, "%s cannot be a key", jinja_type_name(v));
            return false;
        }
        /* fall through */
    default:
        h = mix(h, (uint64_t)(uintptr_t)v.any);
        break;
    }
    *out = h;
    return true;
}

jinja_value jinja_dict_new(jinja_env *env) {
    jinja_dict *d = jinja_alloc(env, 1, sizeof *d);
    return d ? (jinja_value){.kind = JINJA_DICT, .dict = d} : jinja_undefined(NULL);
}

enum { SMALL = 8 };

static jinja_entry *find_hashed(jinja_env *env, const jinja_node *at, const jinja_dict *d, jinja_value key,
                                uint64_t h) {
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++)
            if (d->v[i].hash == h && jinja_equal(env, at, d->v[i].key, key)) return &d->v[i];
        return NULL;
    }
    for (size_t k = h & d->mask; d->index[k]; k = (k + 1) & d->mask) {
        jinja_entry *e = &d->v[d->index[k] - 1];
        if (e->hash == h && jinja_equal(env, at, e->key, key)) return e;
    }
    return NULL;
}

jinja_entry *jinja_dict_find(jinja_env *env, const jinja_node *at, const jinja_dict *d, jinja_value key) {
    uint64_t h;
    return jinja_hash(env, at, key, &h) ? find_hashed(env, at, d, key, h) : NULL;
}

jinja_value *jinja_dict_get(const jinja_dict *d, const char *name) {
    for (size_t i = 0; i < d->n; i++)
        if (jinja_is_text(d->v[i].key, name)) return &d->v[i].value;
    return NULL;
}

static bool grow_dict(jinja_env *env, jinja_dict *d) {
    size_t room = d->room ? 2 * d->room : 4;
    jinja_entry *v = jinja_alloc(env, room, sizeof *v);
    if (!v) return false;
    if (d->n) memcpy(v, d->v, d->n * sizeof *v);
    d->v = v;
    d->room = room;
    if (room <= SMALL) return true;
    uint32_t *index = jinja_alloc(env, 2 * room, sizeof *index);
    if (!index) return false;
    d->mask = 2 * room - 1;
    for (size_t i = 0; i < d->n; i++) {
        size_t k = v[i].hash & d->mask;
        while (index[k]) k = (k + 1) & d->mask;
        index[k] = (uint32_t)i + 1;
    }
    d->index = index;
    return true;
}

void jinja_dict_put(jinja_env *env, const jinja_node *at, jinja_dict *d, jinja_value key, jinja_value v) {
    uint64_t h;
    if (!d || !jinja_hash(env, at, key, &h)) return;
    jinja_entry *e = find_hashed(env, at, d, key, h);
    if (e) {
        e->value = v;
        return;
    }
    if (env->failed || (d->n == d->room && !grow_dict(env, d))) return;
    d->v[d->n++] = (jinja_entry){key, v, h};
    if (!d->index) return;
    size_t k = h & d->mask;
    while (d->index[k]) k = (k + 1) & d->mask;
    d->index[k] = (uint32_t)d->n;
}

/* ---- asking ---- */

const char *jinja_type_name(jinja_value v) {
    static const char *const names[] = {[JINJA_MISSING] = "Undefined", [JINJA_UNDEFINED] = "Undefined",
                                        [JINJA_NONE] = "NoneType",     [JINJA_BOOL] = "bool",
                                        [JINJA_INT] = "int",           [JINJA_FLOAT] = "float",
                                        [JINJA_STRING] = "str",        [JINJA_LIST] = "list",
                                        [JINJA_TUPLE] = "tuple",       [JINJA_DICT] = "dict",
                                        [JINJA_RANGE] = "range",       [JINJA_VIEW] = "view",
                                        [JINJA_ITERATOR] = "iterator", [JINJA_NAMESPACE] = "namespace",
                                        [JINJA_CYCLER] = "cycler",     [JINJA_JOINER] = "joiner",
                                        [JINJA_MACRO] = "macro",       [JINJA_LOOP] = "loop",
                                        [JINJA_FUNCTION] = "function", [JINJA_METHOD] = "method"};
    static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
    if (v.kind == JINJA_VIEW) return views[v.view->part];
    if (v.kind == JINJA_STRING && v.s->safe) return "Markup";
    return names[v.kind];
}

bool jinja_truth(jinja_env *env, jinja_value v) {
    switch (v.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return v.b;
    case JINJA_INT:
        return v.i != 0;
    case JINJA_FLOAT:
        return v.f != 0;
    case JINJA_STRING:
        return v.s->size != 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return v.list->n != 0;
    case JINJA_DICT:
        return v.dict->n != 0;
    case JINJA_RANGE:
        return v.range->n != 0;
    case JINJA_VIEW:
        return v.view->dict->n != 0;
    case JINJA_LOOP:
        return jinja_loop_length(env, v.loop) != 0;
    default:
        return true;
    }
}

/* Compares a whole number with a float: -1, 0 or 1. 2: the float is NaN. */
static int compare_mixed(int64_t i, double f) {
    if (isnan(f)) return 2;
    if (f >= 0x1p63) return -1;
    if (f < -0x1p63) return 1;
    int64_t t = (int64_t)f;
    if (i != t) return i < t ? -1 : 1;
    double rest = f - (double)t;
    return rest > 0 ? -1 : rest < 0;
}

static bool is_number(jinja_value v) {
    return jinja_is_int(v) || v.kind == JINJA_FLOAT;
}

static int compare_numbers(jinja_value a, jinja_value b) {
    if (jinja_is_int(a) && jinja_is_int(b)) {
        int64_t x = jinja_as_int(a), y = jinja_as_int(b);
        return (x > y) - (x < y);
    }
    if (jinja_is_int(a)) return compare_mixed(jinja_as_int(a), b.f);
    if (jinja_is_int(b)) {
        int c = compare_mixed(jinja_as_int(b), a.f);
        return c == 2 ? 2 : -c;
    }
    return isnan(a.f) || isnan(b.f) ? 2 : (a.f > b.f) - (a.f < b.f);
}

static bool equal_lists(jinja_env *env, const jinja_node *at, const jinja_list *a, const jinja_list *b) {
    if (a == b) return true;
    if (a->n != b->n || !jinja_deeper(env, at)) return false;
    size_t i = 0;
    while (i < a->n && !env->failed && jinja_equal(env, at, a->v[i], b->v[i])) i++;
    env->depth--;
    return i == a->n;
}

/* Compares two dictionaries as sets: of keys, or with `values` of keys and their values. */
static bool equal_dicts(jinja_env *env, const jinja_node *at, const jinja_dict *a, const jinja_dict *b, bool values) {
    if (a == b) return true;
    if (a->n != b->n || !jinja_deeper(env, at)) return false;
    size_t i = 0;
    for (; i < a->n && !env->failed; i++) {
        const jinja_entry *e = find_hashed(env, at, b, a->v[i].key, a->v[i].hash);
        if (!e || (values && !jinja_equal(env, at, a->v[i].value, e->value))) break;
    }
    env->depth--;
    return i == a->n;
}

static bool equal_ranges(const jinja_range *a, const jinja_range *b) {
    return a->n == b->n && (!a->n || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

bool jinja_equal(jinja_env *env, const jinja_node *at, jinja_value a, jinja_value b) {
    if (!jinja_step(env, at, 1)) return false;
    if (is_number(a) && is_number(b)) return compare_numbers(a, b) == 0;
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case JINJA_NONE:
    case JINJA_UNDEFINED:
    case JINJA_MISSING:
        return true;
    case JINJA_STRING:
        return a.s->size == b.s->size && (a.s->data == b.s->data || !memcmp(a.s->data, b.s->data, a.s->size));
    case JINJA_LIST:
    case JINJA_TUPLE:
        return equal_lists(env, at, a.list, b.list);
    case JINJA_DICT:
        return equal_dicts(env, at, a.dict, b.dict, true);
    case JINJA_RANGE:
        return equal_ranges(a.range, b.range);
    case JINJA_VIEW:
        if (a.view->part != b.view->part) {
            jinja_refuse(env, at, "%s compared with %s", jinja_type_name(a), jinja_type_name(b));
            return false;
        }
        if (a.view->part == JINJA_VALUES) return a.view == b.view;
        return equal_dicts(env, at, a.view->dict, b.view->dict, a.view->part == JINJA_ITEMS);
    case JINJA_METHOD:
        return a.method->info == b.method->info && jinja_same(a.method->self, b.method->self);
    default:
        return a.any == b.any;
    }
}

bool jinja_same(jinja_value a, jinja_value b) {
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case JINJA_NONE:
        return true;
    case JINJA_BOOL:
        return a.b == b.b;
    case JINJA_INT:
        return a.i == b.i;
    case JINJA_FLOAT:
        return a.f == b.f;
    default:
        return a.any == b.any;
    }
}

static bool satisfies(int c, jinja_op op) {
    if (c == 2) return false;
    return op == JO_LT ? c < 0 : op == JO_LE ? c <= 0 : op == JO_GT ? c > 0 : c >= 0;
}

static bool order_lists(jinja_env *env, const jinja_node *at, const jinja_list *a, const jinja_list *b, jinja_op op) {
    size_t i = 0, n = a->n < b->n ? a->n : b->n;
    if (!jinja_deeper(env, at)) return false;
    while (i < n && !env->failed && (jinja_same(a->v[i], b->v[i]) || jinja_equal(env, at, a->v[i], b->v[i]))) i++;
    bool r = i < n ? jinja_order(env, at, a->v[i], b->v[i], op) : satisfies((a->n > b->n) - (a->n < b->n), op);
    env->depth--;
    return r;
}

bool jinja_order(jinja_env *env, const jinja_node *at, jinja_value a, jinja_value b, jinja_op op) {
    static const char *const names[] = {[JO_LT] = "<", [JO_LE] = "<=", [JO_GT] = ">", [JO_GE] = ">="};
    if (!jinja_step(env, at, 1)) return false;
    if (is_number(a) && is_number(b)) return satisfies(compare_numbers(a, b), op);
    if (a.kind == JINJA_STRING && b.kind == JINJA_STRING) {
        size_t n = a.s->size < b.s->size ? a.s->size : b.s->size;
        int c = n ? memcmp(a.s->data, b.s->data, n) : 0;
        return satisfies(c ? (c > 0) - (c < 0) : (a.s->size > b.s->size) - (a.s->size < b.s->size), op);
    }
    if (a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE))
        return order_lists(env, at, a.list, b.list, op);
    if (a.kind == JINJA_VIEW && b.kind == JINJA_VIEW)
        jinja_refuse(env, at, "%s compared with %s by %s", jinja_type_name(a), jinja_type_name(b), names[op]);
    else
        jinja_fail(env, at, "%s and %s cannot be compared by %s", jinja_type_name(a), jinja_type_name(b), names[op]);
    return false;
}

static bool in_range(const jinja_range *r, int64_t v) {
    if (!r->n) return false;
    int64_t last = r->start + (r->n - 1) * r->step;
    if (r->step > 0 ? v < r->start || v > last : v > r->start || v < last) return false;
    return (v - r->start) % r->step == 0;
}

bool jinja_contains(jinja_env *env, const jinja_node *at, jinja_value in, jinja_value v) {
    int64_t i;
    switch (in.kind) {
    case JINJA_STRING:
        if (v.kind != JINJA_STRING) {
            jinja_fail(env, at, "a %s is looked for in a string", jinja_type_name(v));
            return false;
        }
        return jinja_step(env, at, (int64_t)(in.s->size / 256)) && jinja_find(in.s, v.s, 0, in.s->size) >= 0;
    case JINJA_DICT:
        return jinja_dict_find(env, at, in.dict, v) != NULL;
    case JINJA_RANGE:
        if (jinja_is_int(v)) return in_range(in.range, jinja_as_int(v));
        return v.kind == JINJA_FLOAT && whole(v.f, &i) && in_range(in.range, i);
    case JINJA_VIEW:
        if (in.view->part == JINJA_KEYS) return jinja_dict_find(env, at, in.view->dict, v) != NULL;
        break;
    case JINJA_LOOP:
        jinja_refuse(env, at, "something is looked for in a loop");
        return false;
    default:
        break;
    }
    jinja_iterator *it = jinja_iterate(env, at, in);
    jinja_value item;
    while (jinja_next(env, it, &item))
        if (jinja_same(item, v) || jinja_equal(env, at, item, v)) return true;
    return false;
}

bool jinja_has_length(jinja_value v) {
    return jinja_is_iterable(v) && v.kind != JINJA_ITERATOR;
}

int64_t jinja_length(jinja_env *env, const jinja_node *at, jinja_value v) {
    switch (v.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
        return 0;
    case JINJA_STRING:
        return (int64_t)v.s->chars;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return (int64_t)v.list->n;
    case JINJA_DICT:
        return (int64_t)v.dict->n;
    case JINJA_RANGE:
        return v.range->n;
    case JINJA_VIEW:
        return (int64_t)v.view->dict->n;
    case JINJA_LOOP:
        return jinja_loop_length(env, v.loop);
    default:
        jinja_fail(env, at, "a %s has no length", jinja_type_name(v));
        return -1;
    }
}
