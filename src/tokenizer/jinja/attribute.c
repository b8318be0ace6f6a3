/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates x.name, x[key] and slices. x.name looks for an attribute of Python's object first, x[key] for an item
   first. */
#include "tokenizer/jinja/jinja.h"
#include "tokenizer/unicode.h"

#include <string.h>

static jinja_value bind(jinja_env *env, jinja_value self, const jinja_method_info *info) {
    jinja_method *m = jinja_alloc(env, 1, sizeof *m);
    if (!m) return JINJA_NULL;
    *m = (jinja_method){self, info};
    return (jinja_value){.kind = JINJA_METHOD, .method = m};
}

/* Copies the name as C text, cut to more than the length of any attribute's name. */
static const char *short_name(const jinja_string *name, char out[32]) {
    size_t n = name->size < 31 ? name->size : 31;
    memcpy(out, name->data, n);
    out[n] = 0;
    return memchr(out, 0, n) ? "" : out;
}

static bool number_attribute(jinja_value v, const char *name, jinja_value *out) {
    bool whole = jinja_is_int(v);
    if (!strcmp(name, "real") || (whole && !strcmp(name, "numerator")))
        *out = whole ? jinja_int(jinja_as_int(v)) : v;
    else if (!strcmp(name, "imag"))
        *out = whole ? jinja_int(0) : jinja_float(0);
    else if (whole && !strcmp(name, "denominator"))
        *out = jinja_int(1);
    else
        return false;
    return true;
}

static bool macro_attribute(jinja_env *env, const jinja_macro *m, const char *name, jinja_value *out) {
    const jinja_node *n = m->node;
    if (!strcmp(name, "name"))
        *out = n->type == JN_MACRO ? (jinja_value){.kind = JINJA_STRING, .s = env->t->names.v[n->name]} : JINJA_NULL;
    else if (!strcmp(name, "arguments")) {
        *out = jinja_list_new(env, JINJA_TUPLE, n->list.n);
        for (size_t i = 0; i < n->list.n; i++)
            jinja_push(env, *out, (jinja_value){.kind = JINJA_STRING, .s = env->t->names.v[n->list.v[i]->name]});
    } else if (!strcmp(name, "catch_kwargs"))
        *out = jinja_bool(n->kwargs);
    else if (!strcmp(name, "catch_varargs"))
        *out = jinja_bool(n->varargs);
    else if (!strcmp(name, "caller"))
        *out = jinja_bool(n->caller);
    else
        return false;
    return true;
}

static bool field(jinja_env *env, jinja_value v, const jinja_string *name, const char *word, jinja_value *out) {
    jinja_entry *e;
    switch (v.kind) {
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_FLOAT:
        return number_attribute(v, word, out);
    case JINJA_TUPLE:
        if (!v.list->group || (strcmp(word, "grouper") != 0 && strcmp(word, "list") != 0)) return false;
        *out = v.list->v[word[0] == 'l'];
        return true;
    case JINJA_RANGE:
        if (!strcmp(word, "start"))
            *out = jinja_int(v.range->start);
        else if (!strcmp(word, "stop"))
            *out = jinja_int(v.range->stop);
        else if (!strcmp(word, "step"))
            *out = jinja_int(v.range->step);
        else
            return false;
        return true;
    case JINJA_NAMESPACE:
        e = jinja_dict_find(env, NULL, v.names->names, (jinja_value){.kind = JINJA_STRING, .s = name});
        if (e) *out = e->value;
        return e != NULL;
    case JINJA_CYCLER:
        if (!strcmp(word, "current"))
            *out = v.cycler->items->v[v.cycler->at];
        else if (!strcmp(word, "pos"))
            *out = jinja_int((int64_t)v.cycler->at);
        else if (!strcmp(word, "items"))
            *out = (jinja_value){.kind = JINJA_TUPLE, .list = v.cycler->items};
        else
            return false;
        return true;
    case JINJA_JOINER:
        if (!strcmp(word, "sep"))
            *out = v.joiner->separator;
        else if (!strcmp(word, "used"))
            *out = jinja_bool(v.joiner->used);
        else
            return false;
        return true;
    case JINJA_MACRO:
        return macro_attribute(env, v.macro, word, out);
    case JINJA_LOOP:
        *out = jinja_loop_attribute(env, v.loop, name);
        return out->kind != JINJA_MISSING;
    default:
        return false;
    }
}

bool jinja_own_attribute(jinja_env *env, jinja_value v, const jinja_string *name, jinja_value *out) {
    char word[32];
    short_name(name, word);
    if (field(env, v, name, word, out)) {
        if (word[0] == '_') *out = jinja_undefined("an attribute that the sandbox hides");
        return true;
    }
    const jinja_method_info *m = jinja_find_method(v, word);
    if (!m) return false;
    *out = m->unsafe ? jinja_undefined("a method that would change its object") : bind(env, v, m);
    return true;
}

static jinja_value cannot(jinja_env *env, const jinja_node *at, jinja_value v) {
    return jinja_fail(env, at, "%.80s is undefined", v.why ? v.why : "a value");
}

jinja_value jinja_get_attribute(jinja_env *env, const jinja_node *at, jinja_value v, const jinja_string *name) {
    jinja_value out;
    if (env->failed) return v;
    if (v.kind == JINJA_UNDEFINED || v.kind == JINJA_MISSING) return cannot(env, at, v);
    if (jinja_own_attribute(env, v, name, &out)) return out;
    if (v.kind == JINJA_DICT) {
        jinja_entry *e = jinja_dict_find(env, at, v.dict, (jinja_value){.kind = JINJA_STRING, .s = name});
        return e ? e->value : jinja_undefined(name->data);
    }
    if (v.kind == JINJA_ITERATOR) return jinja_refuse(env, at, "an attribute of a generator");
    return jinja_undefined(name->data);
}

/* ---- items ---- */

static bool in_bounds(int64_t *i, int64_t n) {
    if (*i < 0) *i += n;
    return *i >= 0 && *i < n;
}

static bool get_element(jinja_env *env, const jinja_node *at, jinja_value v, jinja_value key, jinja_value *out) {
    int64_t i = jinja_is_int(key) ? jinja_as_int(key) : 0;
    bool index = jinja_is_int(key);
    uint64_t h;
    switch (v.kind) {
    case JINJA_STRING:
        if (!index || !in_bounds(&i, (int64_t)v.s->chars)) return false;
        if (!jinja_step(env, at, (int64_t)(v.s->size / 256))) return false;
        *out = jinja_slice_bytes(env, v.s, jinja_byte_of(v.s, (size_t)i), jinja_byte_of(v.s, (size_t)i + 1));
        return true;
    case JINJA_LIST:
    case JINJA_TUPLE:
        if (!index || !in_bounds(&i, (int64_t)v.list->n)) return false;
        *out = v.list->v[i];
        return true;
    case JINJA_RANGE:
        if (!index || !in_bounds(&i, v.range->n)) return false;
        *out = jinja_int(v.range->start + i * v.range->step);
        return true;
    case JINJA_DICT: {
        if (key.kind == JINJA_LIST || key.kind == JINJA_DICT) return false; /* Neither can be a key. */
        if (!jinja_hash(env, at, key, &h)) return false;
        const jinja_entry *e = jinja_dict_find(env, at, v.dict, key);
        if (e) *out = e->value;
        return e != NULL;
    }
    default:
        return false;
    }
}

jinja_value jinja_get_item(jinja_env *env, const jinja_node *at, jinja_value v, jinja_value key) {
    jinja_value out = JINJA_NULL;
    if (env->failed) return v;
    if (v.kind == JINJA_UNDEFINED || v.kind == JINJA_MISSING) return cannot(env, at, v);
    if (get_element(env, at, v, key, &out) || env->failed) return out;
    if (key.kind == JINJA_STRING && jinja_own_attribute(env, v, key.s, &out)) return out;
    if (v.kind == JINJA_ITERATOR && key.kind == JINJA_STRING)
        return jinja_refuse(env, at, "an attribute of a generator");
    if (key.kind == JINJA_STRING && key.s->size < 80) {
        jinja_value name = jinja_text_n(env, key.s->data, key.s->size, NULL);
        return jinja_undefined(name.s->data);
    }
    return jinja_undefined("an element that is not there");
}

/* Computes Python's slice.indices. False: a failure. */
static bool indices(jinja_env *env, const jinja_node *at, const jinja_value part[3], int64_t n, int64_t out[3]) {
    out[2] = 1;
    if (part[2].kind != JINJA_NONE && !jinja_index(env, at, part[2], &out[2])) return false;
    if (!out[2]) {
        jinja_fail(env, at, "a slice's step is 0");
        return false;
    }
    bool back = out[2] < 0;
    if (out[2] < -INT64_MAX) out[2] = -INT64_MAX;
    for (int k = 0; k < 2; k++) {
        if (part[k].kind == JINJA_NONE) {
            out[k] = (k == 0) == back ? (k == 0 ? n - 1 : n) : (k == 0 ? 0 : -1);
            continue;
        }
        if (!jinja_index(env, at, part[k], &out[k])) return false;
        if (out[k] < 0) {
            out[k] += n;
            if (out[k] < 0) out[k] = back ? -1 : 0;
        } else if (out[k] >= n)
            out[k] = back ? n - 1 : n;
    }
    return true;
}

static int64_t slice_length(const int64_t s[3]) {
    if (s[2] > 0) return s[0] < s[1] ? (s[1] - s[0] - 1) / s[2] + 1 : 0;
    return s[1] < s[0] ? (s[0] - s[1] - 1) / -s[2] + 1 : 0;
}

static jinja_value slice_text(jinja_env *env, const jinja_node *at, const jinja_string *s, const int64_t r[3],
                              int64_t n) {
    if (!jinja_step(env, at, (int64_t)(s->size / 256) + 1)) return JINJA_NULL;
    if (r[2] == 1)
        return jinja_slice_bytes(env, s, jinja_byte_of(s, (size_t)r[0]),
                                 n ? jinja_byte_of(s, (size_t)(r[0] + n)) : jinja_byte_of(s, (size_t)r[0]));
    jinja_buffer b = {0};
    bool ascii = s->chars == s->size;
    size_t i = n ? jinja_byte_of(s, (size_t)r[0]) : 0;
    for (int64_t k = 0; k < n && jinja_step(env, at, 1); k++) {
        size_t end = i;
        tw_utf8_next(s->data, &end);
        jinja_add_bytes(env, &b, s, i, end);
        if (k + 1 == n) break;
        if (ascii) {
            i = (size_t)((int64_t)i + r[2]);
            continue;
        }
        for (int64_t m = 0; m < (r[2] < 0 ? -r[2] : r[2]); m++) {
            if (r[2] < 0)
                i = tw_utf8_before(s->data, i);
            else
                tw_utf8_next(s->data, &i);
        }
    }
    return jinja_with_safe(env, jinja_take(env, &b), s->safe);
}

jinja_value jinja_get_slice(jinja_env *env, const jinja_node *at, jinja_value v, jinja_value from, jinja_value to,
                            jinja_value step) {
    jinja_value part[3] = {from, to, step}, out;
    int64_t r[3], n;
    if (v.kind == JINJA_UNDEFINED || v.kind == JINJA_MISSING) return cannot(env, at, v);
    if (v.kind != JINJA_STRING && v.kind != JINJA_LIST && v.kind != JINJA_TUPLE && v.kind != JINJA_RANGE)
        return jinja_fail(env, at, "a %s has no slices", jinja_type_name(v));
    if (!indices(env, at, part, jinja_length(env, at, v), r)) return v;
    n = slice_length(r);
    if (v.kind == JINJA_STRING) return slice_text(env, at, v.s, r, n);
    if (v.kind == JINJA_RANGE) {
        jinja_range *range = jinja_alloc(env, 1, sizeof *range);
        if (!range) return v;
        const jinja_range *o = v.range;
        *range = (jinja_range){o->start + r[0] * o->step, o->start + r[1] * o->step, o->step * r[2], n};
        return (jinja_value){.kind = JINJA_RANGE, .range = range};
    }
    out = jinja_list_new(env, v.kind, (size_t)n);
    if (!jinja_step(env, at, n)) return out;
    for (int64_t k = 0; k < n; k++) jinja_push(env, out, v.list->v[r[0] + k * r[2]]);
    return out;
}

/* ---- paths ---- */

void jinja_path_of(jinja_env *env, jinja_value attribute, jinja_path *out) {
    *out = (jinja_path){0};
    if (attribute.kind == JINJA_NONE || attribute.kind == JINJA_MISSING) return;
    if (attribute.kind != JINJA_STRING) {
        out->v = jinja_alloc(env, 1, sizeof *out->v);
        if (out->v) out->v[out->n++] = attribute;
        return;
    }
    const jinja_string *s = attribute.s;
    size_t parts = 1;
    for (size_t i = 0; i < s->size; i++) parts += s->data[i] == '.';
    out->v = jinja_alloc(env, parts, sizeof *out->v);
    for (size_t from = 0, i = 0; out->v && i <= s->size; i++) {
        if (i < s->size && s->data[i] != '.') continue;
        jinja_value part = jinja_slice_bytes(env, s, from, i);
        int64_t number;
        bool digits = i > from;
        for (size_t k = from; k < i && digits; k++) digits = s->data[k] >= '0' && s->data[k] <= '9';
        if (digits && jinja_parse_int(part.s, 10, &number) == JINJA_PARSED) part = jinja_int(number);
        out->v[out->n++] = part;
        from = i + 1;
    }
}

jinja_value jinja_get_path(jinja_env *env, const jinja_node *at, jinja_value v, const jinja_path *path) {
    for (size_t i = 0; i < path->n && !env->failed; i++) {
        v = jinja_get_item(env, at, v, path->v[i]);
        if (v.kind == JINJA_UNDEFINED && path->otherwise.kind != JINJA_MISSING && path->otherwise.kind != JINJA_NONE)
            v = path->otherwise;
    }
    return path->fold && v.kind == JINJA_STRING && !env->failed ? jinja_cased(env, v.s, JINJA_LOWER) : v;
}
