/* SPDX-License-Identifier: Apache-2.0 */
/* What formats of other autotuners have in common: their values, and the names of their fields. */
#define _POSIX_C_SOURCE 200809L
#include "tune/interchange.h"
#include "tune/interchange_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Spells a number as Python does: with the fewest digits that give it back, with an exponent below 1e-4 and from 1e16
   on. */
static bool spell_real(tw_buf *out, double x) {
    char text[40];
    int digits = 1;
    if (!isfinite(x)) return false;
    do snprintf(text, sizeof text, "%.*e", digits - 1, x);
    while (strtod(text, NULL) != x && ++digits <= 17);
    const int exponent = atoi(strchr(text, 'e') + 1);
    if (exponent < -4 || exponent >= 16) return tw_buf_str(out, text);
    return tw_buf_printf(out, "%.*f", digits - 1 > exponent ? digits - 1 - exponent : 1, x);
}

bool tw_interchange_spell(tw_buf *out, const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_STRING:
        return tw_buf_add(out, json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
        return tw_buf_printf(out, "%lld", (long long)json_integer_value(value));
    case JSON_REAL:
        return spell_real(out, json_real_value(value));
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
    char spelled[32];
    snprintf(spelled, sizeof spelled, "%lld", strtoll(word, NULL, 10));
    if (!strcmp(spelled, word)) return json_integer(strtoll(word, NULL, 10));
    if (!strcmp(word, "True") || !strcmp(word, "False")) return json_boolean(*word == 'T');
    char *end;
    const double x = strtod(word, &end);
    tw_buf real = {0};
    const bool is_real = end != word && !*end && spell_real(&real, x) && !strcmp(real.data, word);
    const bool failed = real.failed;
    tw_buf_free(&real);
    return failed ? NULL : is_real ? json_real(x) : json_string(word);
}

/* Returns the format that has a field. TW_INTERCHANGE_LINES: none has it. */
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
