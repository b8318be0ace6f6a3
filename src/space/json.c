/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes configurations as JSON, and writes their JSON Schema. */
#include "base/json.h"

#include "base/diag.h"
#include "space/list.h"
#include "space/space.h"

#include <string.h>

/* ---- reading */

static tw_status refuse(const tw_param *p, const json_t *v, const char *path, tw_diag *diag) {
    const char *of = p->object ? p->object : "", *dot = p->object ? "." : "";
    if (p->form == TW_SPACE_FLAG)
        return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s%s%s: not true or false", of, dot, p->name);
    if (p->form != TW_SPACE_WORD)
        return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s%s%s: not a whole number within %lld..%lld", of, dot,
                          p->name, (long long)p->least, (long long)p->most);
    char list[TW_SPACE_LIST];
    tw_space_list(p->words, list, sizeof list);
    const char *text = json_string_value(v);
    if (!text) return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s%s%s: not %s", of, dot, p->name, list);
    return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s%s%s: \"%s\" is not %s", of, dot, p->name, text, list);
}

static bool value_of(const tw_param *p, const json_t *v, int64_t *x) {
    if (p->form == TW_SPACE_FLAG) {
        *x = json_is_true(v);
        return json_is_boolean(v);
    }
    if (p->form != TW_SPACE_WORD) return tw_json_int(v, p->least, p->most, x);
    const char *text = json_string_value(v);
    for (int k = 0; text && p->words[k]; k++)
        if (!strcmp(text, p->words[k])) {
            *x = k;
            return true;
        }
    return false;
}

static bool same_object(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

/* True if the space has an object of this name. */
static bool is_object(const tw_space *s, const char *name) {
    for (int i = 0; i < s->n; i++)
        if (same_object(s->params[i].object, name)) return true;
    return false;
}

/* Reads the fields of an object. `object` is its name, or NULL for the outermost. */
static tw_status read_object(const tw_space *s, void *config, const json_t *o, const char *object, const char *path,
                             tw_diag *diag) {
    const char *key;
    json_t *v;
    if (!json_is_object(o))
        return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s: not a JSON object", object ? object : "configuration");
    json_object_foreach((json_t *)(uintptr_t)o, key, v) {
        int64_t x;
        int i = 0;
        if (!object && is_object(s, key)) {
            tw_status st = read_object(s, config, v, key, path, diag);
            if (st != TW_OK) return st;
            continue;
        }
        while (i < s->n && (!same_object(s->params[i].object, object) || strcmp(key, s->params[i].name))) i++;
        if (i == s->n)
            return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s%s%s: unknown field", object ? object : "",
                              object ? "." : "", key);
        if (!value_of(&s->params[i], v, &x)) return refuse(&s->params[i], v, path, diag);
        tw_space_set(s, config, i, x);
    }
    return TW_OK;
}

tw_status tw_space_read_json(const tw_space *s, void *config, const char *path, tw_diag *diag) {
    _Alignas(8) char read[TW_SPACE_CONFIG_BYTES];
    json_t *root;
    tw_status st = tw_json_load(&root, path, diag);
    if (st != TW_OK) return st;
    memcpy(read, config, s->bytes);
    st = read_object(s, read, root, NULL, path, diag);
    if (st == TW_OK) memcpy(config, read, s->bytes);
    json_decref(root);
    return st;
}

/* ---- writing */

static void put_value(const tw_space *s, const void *config, int i, tw_buf *out) {
    const char *quote = s->params[i].form == TW_SPACE_WORD ? "\"" : "";
    tw_buf_str(out, quote);
    tw_space_put_value(s, i, tw_space_get(s, config, i), out);
    tw_buf_str(out, quote);
}

static void put_schema(const tw_param *p, tw_buf *out) {
    if (p->form == TW_SPACE_WORD) {
        tw_buf_str(out, "{\"enum\": [");
        for (int k = 0; p->words[k]; k++) tw_buf_printf(out, "%s\"%s\"", k ? ", " : "", p->words[k]);
        tw_buf_printf(out, "], \"default\": \"%s\"", p->words[0]);
    } else if (p->form == TW_SPACE_FLAG) {
        tw_buf_str(out, "{\"type\": \"boolean\", \"default\": false");
    } else {
        tw_buf_printf(out, "{\"type\": \"integer\", \"minimum\": %lld, \"maximum\": %lld, \"default\": 0",
                      (long long)p->least, (long long)p->most);
    }
    if (p->meaning) tw_buf_printf(out, ", \"description\": \"%s\"", p->meaning);
    tw_buf_str(out, "}");
}

/* Appends the parameters of one object, one per line: their values in `config`, or their schemas if it is NULL. */
static void put_params(const tw_space *s, const void *config, const char *object, int indent, tw_buf *out) {
    const char *comma = "";
    for (int i = 0; i < s->n; i++) {
        const tw_param *p = &s->params[i];
        if (!same_object(p->object, object)) continue;
        tw_buf_printf(out, "%s\n%*s\"%s\": ", comma, indent, "", p->name);
        if (config)
            put_value(s, config, i, out);
        else
            put_schema(p, out);
        comma = ",";
    }
}

/* True if parameter i is the first of an inner object. */
static bool opens_object(const tw_space *s, int i) {
    if (!s->params[i].object) return false;
    for (int j = 0; j < i; j++)
        if (same_object(s->params[j].object, s->params[i].object)) return false;
    return true;
}

void tw_space_put_json(const tw_space *s, const void *config, tw_buf *out) {
    tw_buf_str(out, "{");
    put_params(s, config, NULL, 2, out);
    for (int i = 0; i < s->n; i++) {
        if (!opens_object(s, i)) continue;
        tw_buf_printf(out, ",\n  \"%s\": {", s->params[i].object);
        put_params(s, config, s->params[i].object, 4, out);
        tw_buf_str(out, "\n  }");
    }
    tw_buf_str(out, "\n}\n");
}

void tw_space_put_schema(const tw_space *s, tw_buf *out) {
    tw_buf_printf(out,
                  "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \"title\": \"%s\",\n"
                  "  \"type\": \"object\",\n  \"additionalProperties\": false,\n  \"properties\": {",
                  s->title ? s->title : s->name);
    put_params(s, NULL, NULL, 4, out);
    for (int i = 0; i < s->n; i++) {
        if (!opens_object(s, i)) continue;
        tw_buf_printf(out,
                      ",\n    \"%s\": {\n      \"type\": \"object\",\n      \"additionalProperties\": false,\n"
                      "      \"properties\": {",
                      s->params[i].object);
        put_params(s, NULL, s->params[i].object, 8, out);
        tw_buf_str(out, "\n      }\n    }");
    }
    tw_buf_str(out, "\n  }\n}\n");
}
