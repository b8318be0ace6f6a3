/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes configurations as words, "name=value". */
#include "base/diag.h"
#include "space/list.h"
#include "space/space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tw_space_put_name(const tw_space *s, int i, tw_buf *out) {
    const tw_param *p = &s->params[i];
    tw_buf_printf(out, "%s%s%s", p->object ? p->object : "", p->object ? "." : "", p->name);
}

/* Converts a value to text. The text may be in `number`. */
static const char *text_of(const tw_param *p, int64_t value, char *number, size_t size) {
    if (p->form == TW_SPACE_WORD) return p->words[value];
    if (p->form == TW_SPACE_FLAG) return value ? "true" : "false";
    snprintf(number, size, "%lld", (long long)value);
    return number;
}

void tw_space_put_value(const tw_space *s, int i, int64_t value, tw_buf *out) {
    char number[24];
    tw_buf_str(out, text_of(&s->params[i], value, number, sizeof number));
}

void tw_space_print(const tw_space *s, const void *config, char *out, size_t size) {
    tw_space_print_role(s, config, TW_SPACE_ROLES, out, size);
}

void tw_space_print_role(const tw_space *s, const void *config, tw_space_role role, char *out, size_t size) {
    size_t n = 0;
    if (size) out[0] = 0;
    for (int i = 0; i < s->n && n < size; i++) {
        const tw_param *p = &s->params[i];
        char number[24];
        if (role != TW_SPACE_ROLES && p->role != role) continue;
        n += (size_t)snprintf(out + n, size - n, "%s%s%s%s=%s", n ? " " : "", p->object ? p->object : "",
                              p->object ? "." : "", p->name,
                              text_of(p, tw_space_get(s, config, i), number, sizeof number));
    }
}

void tw_space_list(const char *const *words, char *out, size_t size) {
    size_t n = 0;
    out[0] = 0;
    for (int k = 0; words[k] && n < size; k++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", !k ? "" : words[k + 1] ? ", " : " or ", words[k]);
}

static bool equal(const char *text, size_t size, const char *word) {
    return strlen(word) == size && !strncmp(text, word, size);
}

/* Finds a parameter by its full name of `size` characters. Returns the number of parameters if there is none. */
static int find(const tw_space *s, const char *text, size_t size) {
    for (int i = 0; i < s->n; i++) {
        const char *object = s->params[i].object;
        const size_t of = object ? strlen(object) + 1 : 0;
        if (object && (size < of || strncmp(text, object, of - 1) || text[of - 1] != '.')) continue;
        if (equal(text + of, size - of, s->params[i].name)) return i;
    }
    return s->n;
}

/* Parses a value of `size` characters. */
static bool value_of(const tw_param *p, const char *text, size_t size, int64_t *x) {
    if (p->form == TW_SPACE_FLAG) {
        *x = equal(text, size, "true");
        return *x || equal(text, size, "false");
    }
    if (p->form == TW_SPACE_WORD) {
        for (int k = 0; p->words[k]; k++)
            if (equal(text, size, p->words[k])) {
                *x = k;
                return true;
            }
        return false;
    }
    char *end;
    *x = strtoll(text, &end, 10);
    return size && end == text + size && *x >= p->least && *x <= p->most;
}

static tw_status refuse(const tw_param *p, const char *word, int size, tw_diag *diag) {
    if (p->form == TW_SPACE_FLAG)
        return tw_fail(diag, TW_ERR_USAGE, "\"%.*s\": the value is not true or false", size, word);
    if (p->form != TW_SPACE_WORD)
        return tw_fail(diag, TW_ERR_USAGE, "\"%.*s\": the value is not a number within %lld..%lld", size, word,
                       (long long)p->least, (long long)p->most);
    char list[TW_SPACE_LIST];
    tw_space_list(p->words, list, sizeof list);
    return tw_fail(diag, TW_ERR_USAGE, "\"%.*s\": the value is not %s", size, word, list);
}

tw_status tw_space_parse(const tw_space *s, void *config, const char *text, tw_diag *diag) {
    while (*text) {
        text += strspn(text, " ,");
        if (!*text) break;
        const size_t word = strcspn(text, " ,"), name = strcspn(text, "=");
        const int i = name < word ? find(s, text, name) : s->n;
        if (i == s->n)
            return tw_fail(diag, TW_ERR_USAGE, "\"%.*s\" is not a parameter's name and value, like %s", (int)word, text,
                           s->example);
        int64_t x;
        if (!value_of(&s->params[i], text + name + 1, word - name - 1, &x))
            return refuse(&s->params[i], text, (int)word, diag);
        tw_space_set(s, config, i, x);
        text += word;
    }
    return TW_OK;
}
