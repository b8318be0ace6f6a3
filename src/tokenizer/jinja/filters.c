/* SPDX-License-Identifier: Apache-2.0 */
/* The lookup of filters, and those that are neither of text nor of lists. */
#include "tokenizer/jinja/jinja.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FILTER(name) static jinja_value name(jinja_env *env, jinja_value v, const jinja_args *args)
#define BIND(what, names, needed)                                                                                      \
    jinja_value a[JINJA_BOUND];                                                                                        \
    if (!jinja_bind(env, args, what, names, needed, a)) return JINJA_NULL

static bool is_undefined(jinja_value v) {
    return v.kind == JINJA_UNDEFINED || v.kind == JINJA_MISSING;
}

FILTER(default_of) {
    BIND("default", "default_value boolean", 0);
    bool use = is_undefined(v) || (jinja_truth(env, a[1]) && !jinja_truth(env, v));
    if (!use) return v;
    return a[0].kind == JINJA_MISSING ? jinja_text(env, "") : a[0];
}

FILTER(attribute) {
    BIND("attr", "name", 1);
    jinja_value out;
    if (is_undefined(v)) return jinja_fail(env, args->at, "%.80s is undefined", v.why ? v.why : "a value");
    if (a[0].kind != JINJA_STRING) return jinja_fail(env, args->at, "attr needs a name");
    if (jinja_own_attribute(env, v, a[0].s, &out)) return out;
    return jinja_undefined("an attribute that is not there");
}

/* ---- numbers ---- */

FILTER(absolute) {
    BIND("abs", "", 0);
    if (v.kind == JINJA_FLOAT) return jinja_float(fabs(v.f));
    if (!jinja_is_int(v)) return jinja_fail(env, args->at, "a %s has no absolute value", jinja_type_name(v));
    return jinja_negate(env, args->at, v, jinja_as_int(v) < 0);
}

static jinja_value too_large(jinja_env *env, const jinja_args *args) {
    return jinja_refuse(env, args->at, "a whole number beyond 64 bits");
}

/* Computes int(float(text)) if the text is no whole number. */
static jinja_value int_of_text(jinja_env *env, const jinja_args *args, const jinja_string *s, jinja_value otherwise) {
    double f;
    int64_t i;
    if (jinja_parse_float(s, &f) != JINJA_PARSED) return otherwise;
    jinja_parsed p = jinja_float_to_int(f, &i);
    return p == JINJA_PARSED ? jinja_int(i) : p == JINJA_TOO_LARGE ? too_large(env, args) : otherwise;
}

FILTER(to_int) {
    BIND("int", "default base", 0);
    jinja_value otherwise = a[0].kind == JINJA_MISSING ? jinja_int(0) : a[0];
    int64_t i, base = 10;
    if (is_undefined(v)) return jinja_fail(env, args->at, "%.80s is undefined", v.why ? v.why : "a value");
    if (v.kind == JINJA_STRING) {
        bool whole = a[1].kind == JINJA_MISSING || jinja_is_int(a[1]);
        if (jinja_is_int(a[1])) base = jinja_as_int(a[1]);
        jinja_parsed p = whole && base >= 0 && base <= 36 ? jinja_parse_int(v.s, (int)base, &i) : JINJA_NO_NUMBER;
        if (p == JINJA_TOO_LARGE) return too_large(env, args);
        return p == JINJA_PARSED ? jinja_int(i) : int_of_text(env, args, v.s, otherwise);
    }
    if (jinja_is_int(v)) return jinja_int(jinja_as_int(v));
    if (v.kind != JINJA_FLOAT || isnan(v.f)) return otherwise;
    if (isinf(v.f)) return jinja_fail(env, args->at, "infinity is no whole number");
    return jinja_float_to_int(v.f, &i) == JINJA_PARSED ? jinja_int(i) : too_large(env, args);
}

FILTER(to_float) {
    BIND("float", "default", 0);
    double f;
    if (is_undefined(v)) return jinja_fail(env, args->at, "%.80s is undefined", v.why ? v.why : "a value");
    if (v.kind == JINJA_FLOAT) return v;
    if (jinja_is_int(v)) return jinja_float((double)jinja_as_int(v));
    if (v.kind == JINJA_STRING) {
        jinja_parsed p = jinja_parse_float(v.s, &f);
        if (p == JINJA_TOO_LARGE) return jinja_refuse(env, args->at, "a number of more than 1000 characters");
        if (p == JINJA_PARSED) return jinja_float(f);
    }
    return a[0].kind == JINJA_MISSING ? jinja_float(0) : a[0];
}

/* Rounds to a whole number, half to even. */
static jinja_value round_whole(jinja_env *env, const jinja_args *args, jinja_value v) {
    int64_t i;
    jinja_value r = jinja_round(env, args->at, v, 0);
    if (env->failed || r.kind != JINJA_FLOAT) return r;
    if (!isfinite(r.f)) return jinja_fail(env, args->at, "no whole number");
    return jinja_float_to_int(r.f, &i) == JINJA_PARSED ? jinja_int(i) : too_large(env, args);
}

FILTER(round_to) {
    BIND("round", "precision method", 0);
    int64_t digits = 0, i;
    bool common = a[1].kind == JINJA_MISSING || jinja_is_text(a[1], "common"), up = jinja_is_text(a[1], "ceil");
    if (!common && !up && !jinja_is_text(a[1], "floor"))
        return jinja_fail(env, args->at, "round: the method is common, ceil or floor");
    if (common && a[0].kind == JINJA_NONE) return round_whole(env, args, v);
    if (a[0].kind != JINJA_MISSING && !jinja_index(env, args->at, a[0], &digits)) return v;
    if (common) return jinja_round(env, args->at, v, digits);
    jinja_value unit = jinja_arithmetic(env, args->at, JN_POW, jinja_int(10), jinja_int(digits));
    jinja_value scaled = jinja_arithmetic(env, args->at, JN_MUL, v, unit);
    if (scaled.kind == JINJA_FLOAT && !env->failed) {
        double f = up ? ceil(scaled.f) : floor(scaled.f);
        if (!isfinite(f)) return jinja_fail(env, args->at, "round: no whole number");
        if (jinja_float_to_int(f, &i) != JINJA_PARSED) return too_large(env, args);
        scaled = jinja_int(i);
    } else if (!env->failed && !jinja_is_int(scaled))
        return jinja_fail(env, args->at, "a %s cannot be rounded", jinja_type_name(v));
    return jinja_arithmetic(env, args->at, JN_DIV, scaled, unit);
}

FILTER(file_size) {
    BIND("filesizeformat", "binary", 0);
    bool binary = jinja_truth(env, a[0]);
    static const char *const names[] = {"k", "M", "G", "T", "P", "E", "Z", "Y"};
    static const char *const binaries[] = {"Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"};
    double bytes = 0, base = binary ? 1024 : 1000, unit = base;
    char text[400];
    if (v.kind != JINJA_STRING)
        bytes = jinja_as_float(env, args->at, v);
    else if (jinja_parse_float(v.s, &bytes) != JINJA_PARSED)
        return jinja_fail(env, args->at, "filesizeformat needs a number");
    if (!isfinite(bytes)) return jinja_fail(env, args->at, "filesizeformat needs a number");
    if (bytes == 1) return jinja_text(env, "1 Byte");
    if (bytes < base) {
        snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes) == 0 ? 0 : trunc(bytes));
        return jinja_text(env, text);
    }
    int i = 0;
    for (unit = base * base; i < 7 && bytes >= unit; i++) unit *= base;
    snprintf(text, sizeof text, "%.1f %sB", base * bytes / unit, binary ? binaries[i] : names[i]);
    return jinja_text(env, text);
}

/* ---- printing ---- */

/* Copies a value, with the keys of every dictionary sorted. */
static jinja_value sorted_copy(jinja_env *env, const jinja_node *at, jinja_value v) {
    jinja_value out = v;
    if (v.kind != JINJA_LIST && v.kind != JINJA_TUPLE && v.kind != JINJA_DICT) return v;
    if (!jinja_deeper(env, at)) return v;
    if (v.kind == JINJA_DICT) {
        jinja_entry *e = jinja_alloc(env, v.dict->n, sizeof *e);
        out = jinja_dict_new(env);
        for (size_t i = 0; e && i < v.dict->n && jinja_step(env, at, 1); i++) {
            size_t k = i;
            if (v.dict->v[i].key.kind != JINJA_STRING && v.dict->n > 1)
                jinja_refuse(env, at, "pprint of keys that are no strings");
            for (; k && !env->failed && jinja_order(env, at, v.dict->v[i].key, e[k - 1].key, JO_LT); k--)
                e[k] = e[k - 1];
            e[k] = v.dict->v[i];
        }
        for (size_t i = 0; e && i < v.dict->n && !env->failed; i++)
            jinja_dict_put(env, at, out.dict, e[i].key, sorted_copy(env, at, e[i].value));
    } else {
        out = jinja_list_new(env, v.kind, v.list->n);
        for (size_t i = 0; i < v.list->n && jinja_step(env, at, 1); i++)
            jinja_push(env, out, sorted_copy(env, at, v.list->v[i]));
    }
    env->depth--;
    return out;
}

FILTER(pretty) {
    BIND("pprint", "", 0);
    jinja_buffer b = {0};
    jinja_add_repr(env, args->at, &b, sorted_copy(env, args->at, v));
    jinja_value line = jinja_take(env, &b);
    return line.s->chars > 80 ? jinja_refuse(env, args->at, "pprint of more than a line") : line;
}

/* ---- the lookup ---- */

static const jinja_filter plain_filters[] = {{"abs", absolute},
                                             {"attr", attribute},
                                             {"d", default_of},
                                             {"default", default_of},
                                             {"filesizeformat", file_size},
                                             {"float", to_float},
                                             {"int", to_int},
                                             {"pprint", pretty},
                                             {"random", NULL},
                                             {"round", round_to},
                                             {"tojson", jinja_to_json},
                                             {"urlize", NULL},
                                             {NULL, NULL}};

const jinja_filter *jinja_find_filter(const char *name) {
    const jinja_filter *const tables[] = {plain_filters, jinja_text_filters, jinja_list_filters};
    for (int i = 0; i < 3; i++)
        for (const jinja_filter *f = tables[i]; f->name; f++)
            if (!strcmp(f->name, name)) return f;
    return NULL;
}
