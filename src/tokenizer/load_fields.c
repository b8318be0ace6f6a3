/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of tokenizer.json by type, and the reasons against a file. */
#include "tokenizer/load_parts.h"

#include "tokenizer/unicode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void tw_loader_against(tw_loader *l, tw_status s, const char *fmt, ...) {
    char text[480];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (l->status == TW_OK) l->status = s;
    if (l->status != TW_ERR_MEMORY) tw_diag_add(l->diag, s, l->path, "%s", text);
}

void tw_loader_no_memory(tw_loader *l) {
    l->status = tw_fail_memory(l->diag);
}

const char *tw_loader_kind(const json_t *v) {
    switch (v ? json_typeof(v) : JSON_NULL) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_NULL:
        break;
    }
    return v ? "null" : "missing";
}

void tw_loader_wrong(tw_loader *l, const char *where, const char *key, const json_t *v, const char *want) {
    tw_loader_against(l, TW_ERR_FORMAT, "%s.%s is %s, not %s", where, key, tw_loader_kind(v), want);
}

void tw_loader_only(tw_loader *l, const json_t *object, const char *where, const char *known) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v) {
        char spaced[80];
        int n = snprintf(spaced, sizeof spaced, " %s ", key);
        if (json_is_null(v) || (n < (int)sizeof spaced && strstr(known, spaced))) continue;
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "%s.%s is not known", where, key);
    }
}

bool tw_loader_bool(tw_loader *l, const json_t *o, const char *where, const char *key, tw_need need, bool otherwise) {
    const json_t *v = json_object_get(o, key);
    if (json_is_boolean(v)) return json_is_true(v);
    if (need == TW_REQUIRED || (v && !json_is_null(v))) tw_loader_wrong(l, where, key, v, "a boolean");
    return otherwise;
}

const char *tw_loader_string(tw_loader *l, const json_t *o, const char *where, const char *key, tw_need need,
                             size_t *size) {
    const json_t *v = json_object_get(o, key);
    *size = 0;
    if (!json_is_string(v)) {
        if (need == TW_REQUIRED || (v && !json_is_null(v))) tw_loader_wrong(l, where, key, v, "a string");
        return NULL;
    }
    *size = json_string_length(v);
    char *s = tw_arena_alloc(&l->t->arena, *size + 1);
    if (!s)
        tw_loader_no_memory(l);
    else
        memcpy(s, json_string_value(v), *size);
    return s;
}

int64_t tw_loader_int(tw_loader *l, const json_t *o, const char *where, const char *key, int64_t lo, int64_t hi) {
    const json_t *v = json_object_get(o, key);
    int64_t n = 0;
    if (!tw_json_int(v, lo, hi, &n)) {
        if (json_is_number(v))
            tw_loader_against(l, TW_ERR_FORMAT, "%s.%s is out of range", where, key);
        else
            tw_loader_wrong(l, where, key, v, "a number");
    }
    return n;
}

static bool one_char(const char *s, size_t n) {
    size_t i = 0;
    if (!n) return false;
    tw_utf8_next(s, &i);
    return i == n;
}

const char *tw_loader_char(tw_loader *l, const json_t *o, const char *where, const char *key, size_t *size) {
    const char *s = tw_loader_string(l, o, where, key, TW_REQUIRED, size);
    if (s && !one_char(s, *size)) tw_loader_against(l, TW_ERR_FORMAT, "%s.%s is not one character", where, key);
    return s;
}

tw_regex *tw_loader_pattern(tw_loader *l, const json_t *o, const char *where) {
    const json_t *p = json_object_get(o, "pattern"), *s = json_object_get(p, "String"),
                 *r = json_object_get(p, "Regex");
    const json_t *v = s ? s : r;
    tw_regex *out = NULL;
    char why[400] = "";
    if (!json_is_string(v) || json_object_size(p) != 1) {
        tw_loader_wrong(l, where, "pattern", p, "{\"String\": …} or {\"Regex\": …}");
        return NULL;
    }
    tw_status st = s ? tw_regex_literal(&out, json_string_value(v), json_string_length(v))
                     : tw_regex_compile(&out, json_string_value(v), json_string_length(v), why, sizeof why);
    if (st == TW_ERR_MEMORY)
        tw_loader_no_memory(l);
    else if (st != TW_OK)
        tw_loader_against(l, st, "%s.pattern has %s", where, why);
    return out;
}
