/* SPDX-License-Identifier: Apache-2.0 */
/* What formats of other autotuners have in common: their values, and the names of their fields. */
#define _POSIX_C_SOURCE 200809L
#include "tune/interchange.h"

#include "base/json.h"
#include "base/python.h"
#include "base/text.h"
#include "tune/interchange_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tw_interchange_spell(tw_buf *out, const json_t *value) {
    char text[TW_PYTHON_FLOAT];
    switch (json_typeof(value)) {
    case JSON_STRING:
        return tw_buf_add(out, json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
        return tw_buf_printf(out, "%lld", (long long)json_integer_value(value));
    case JSON_REAL:
        tw_python_float(text, json_real_value(value));
        return tw_buf_str(out, text);
    case JSON_TRUE:
        return tw_buf_str(out, "True");
    case JSON_FALSE:
        return tw_buf_str(out, "False");
    case JSON_NULL:
        return tw_buf_str(out, "None");
    default:
        return false;
    }
}

json_t *tw_interchange_value(const char *word) {
    char spelled[TW_PYTHON_FLOAT];
    const long long whole = strtoll(word, NULL, 10);
    snprintf(spelled, sizeof spelled, "%lld", whole);
    if (!strcmp(spelled, word)) return json_integer(whole);
    if (!strcmp(word, "True") || !strcmp(word, "False")) return json_boolean(*word == 'T');
    const double x = strtod(word, NULL);
    tw_python_float(spelled, x);
    return isfinite(x) && !strcmp(spelled, word) ? json_real(x) : json_string(word);
}

const tw_interchange_status *tw_interchange_status_find(const char *word, const char *t4, const char *cache) {
    /* The first one with a name is found. */
    static const tw_interchange_status all[] = {{"right", "correct", NULL},
                                                {"rejected", "constraints", "InvalidConfig"},
                                                {"unsupported", "compile", "CompilationFailedConfig"},
                                                {"io", "runtime", "RuntimeFailedConfig"},
                                                {"io", "timeout", "ErrorConfig"},
                                                {"wrong", "correctness", "RuntimeFailedConfig"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((word && !strcmp(word, all[i].word)) || (t4 && !strcmp(t4, all[i].t4)) ||
            (cache && all[i].cache && !strcmp(cache, all[i].cache)))
            return &all[i];
    return NULL;
}

bool tw_interchange_sizes(const json_t *sizes, char *out, size_t size) {
    const size_t n = json_is_array(sizes) ? json_array_size(sizes) : 1;
    tw_text text = {out, size, 0};
    for (size_t i = 0; i < n; i++) {
        int64_t x;
        if (!tw_json_int(json_is_array(sizes) ? json_array_get(sizes, i) : sizes, INT64_MIN, INT64_MAX, &x))
            return false;
        if (i) tw_text_add(&text, " ");
        if (i < 3)
            tw_text_add(&text, "%c=%lld", "xyz"[i], (long long)x);
        else
            tw_text_add(&text, "d%zu=%lld", i, (long long)x);
    }
    return n && text.used < size;
}

/* Returns the format that a field belongs to. TW_INTERCHANGE_LINES: it belongs to none of the others. */
static tw_interchange format_of(const char *name, size_t n) {
    static const struct {
        const char *name;
        tw_interchange format;
    } fields[] = {{"cache", TW_INTERCHANGE_CACHE},
                  {"tune_params_keys", TW_INTERCHANGE_CACHE},
                  {"results", TW_INTERCHANGE_T4},
                  {"schema_version", TW_INTERCHANGE_T4},
                  {"ConfigurationSpace", TW_INTERCHANGE_T1},
                  {"KernelSpecification", TW_INTERCHANGE_T1}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strlen(fields[i].name) == n && !memcmp(fields[i].name, name, n)) return fields[i].format;
    return TW_INTERCHANGE_LINES;
}

tw_interchange tw_interchange_detect(const char *text, size_t size) {
    int depth = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"') {
            const size_t first = ++i;
            while (i < size && text[i] != '"') i += 1 + (text[i] == '\\');
            const tw_interchange format = i < size && depth == 1 ? format_of(text + first, i - first) : 0;
            size_t next = i + 1;
            while (next < size && strchr(" \t\r\n", text[next])) next++;
            if (format && next < size && text[next] == ':') return format;
        }
        if (i >= size) break;
        depth += (text[i] == '{' || text[i] == '[') - (text[i] == '}' || text[i] == ']');
        if (!depth && text[i] == '}') break;
    }
    return TW_INTERCHANGE_LINES;
}
