/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the description of a foreign family. */
#include "base/diag.h"
#include "base/json.h"
#include "tune/foreign.h"
#include "tune/foreign_parts.h"
#include "tune/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AXIS = 16 /* The most characters of an axis. */, VALUES = 64, WORDS = 16, TIMEOUT = 600 };

#define REFUSE(g, diag, ...) tw_fail_at(diag, TW_ERR_FORMAT, (g)->path, -1, __VA_ARGS__)

/* Checks that an object has no fields but those of a list that ends with NULL. */
static tw_status check_fields(const tw_foreign *g, const json_t *o, const char *what, const char *const *fields,
                              tw_diag *diag) {
    const char *key;
    json_t *v;
    if (!json_is_object(o)) return REFUSE(g, diag, "%s is not a JSON object", what);
    json_object_foreach((json_t *)(uintptr_t)o, key, v) {
        int i = 0;
        while (fields[i] && strcmp(key, fields[i]) != 0) i++;
        if (!fields[i]) return REFUSE(g, diag, "%s: \"%.80s\" is an unknown field", what, key);
    }
    return TW_OK;
}

/* Returns a text without control characters, or NULL. */
static const char *text_in(const json_t *v) {
    const char *s = json_string_value(v);
    if (!s || strlen(s) != json_string_length(v)) return NULL;
    for (const char *at = s; *at; at++)
        if ((unsigned char)*at < ' ') return NULL;
    return s;
}

/* Tells whether a text can be a value in the words of a configuration. */
static bool is_value(const char *s) {
    return s && *s && strlen(s) < 64 && !strpbrk(s, " ,=|\"\\");
}

static int find_axis(const tw_foreign *g, const char *name) {
    for (int a = 0; a < g->n_axes && name; a++)
        if (!strcmp(g->axes[a], name)) return a;
    return -1;
}

static int find_parameter(const tw_foreign *g, const char *name) {
    for (int i = 0; i < g->space.n && name; i++)
        if (!strcmp(g->space.params[i].name, name)) return i;
    return -1;
}

/* ---- the name and the command */

static bool is_name(const char *s) {
    if (!s || !*s || strlen(s) >= TW_FOREIGN_NAME || strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != strlen(s))
        return false;
    return !tw_identity_device(s);
}

static tw_status find_name(const tw_foreign *g, const char **out, tw_diag *diag) {
    *out = text_in(json_object_get(g->json, "name"));
    return is_name(*out) ? TW_OK
                         : REFUSE(g, diag,
                                  "\"name\" is not a name of small letters, digits, \"-\", \"_\" and \".\" that "
                                  "no family of Tilewright's has");
}

tw_status tw_foreign_name(const char *path, char out[TW_FOREIGN_NAME], tw_diag *diag) {
    tw_foreign g = {.path = path};
    const char *name;
    tw_status st = tw_json_load(&g.json, path, diag);
    if (st == TW_OK) st = find_name(&g, &name, diag);
    if (st == TW_OK) snprintf(out, TW_FOREIGN_NAME, "%s", name);
    json_decref(g.json);
    return st;
}

static tw_status read_command(tw_foreign *g, tw_diag *diag) {
    const json_t *list = json_object_get(g->json, "command"), *timeout = json_object_get(g->json, "timeout");
    const size_t n = json_array_size(list);
    const char *slash = strrchr(g->path, '/');
    g->folder = !slash ? "." : slash == g->path ? "/" : tw_arena_strndup(&g->arena, g->path, (size_t)(slash - g->path));
    g->argv = tw_arena_array(&g->arena, n + 1, sizeof *g->argv);
    g->shown = "";
    if (!n || n > 100) return REFUSE(g, diag, "\"command\" is not a list of a program and its arguments");
    for (size_t i = 0; i < n; i++) {
        const char *word = text_in(json_array_get(list, i));
        if (!word || (!i && !*word)) return REFUSE(g, diag, "\"command\": word %zu is not a text of a line", i + 1);
        g->shown = tw_arena_printf(&g->arena, "%s%s%s", g->shown ? g->shown : "", i ? " " : "", word);
        if (g->argv) g->argv[i] = word;
    }
    g->timeout = timeout ? json_number_value(timeout) : TIMEOUT;
    if (!(g->timeout > 0 && g->timeout <= 1e6))
        return REFUSE(g, diag, "\"timeout\" is not a number of seconds above 0");
    return g->arena.failed ? tw_fail_memory(diag) : TW_OK;
}

/* ---- axes */

static tw_status read_axis(tw_foreign *g, tw_family *f, const json_t *o, tw_diag *diag) {
    static const char *const fields[] = {"name", "least", "most", "step", "shrinks", NULL};
    const int a = g->n_axes;
    const json_t *step = json_object_get(o, "step"), *shrinks = json_object_get(o, "shrinks");
    const char *name = text_in(json_object_get(o, "name"));
    tw_status st = check_fields(g, o, "\"axes\"", fields, diag);
    if (st != TW_OK) return st;
    if (!name || strlen(name) > AXIS || !tw_expression_is_name(name) || find_axis(g, name) >= 0)
        return REFUSE(g, diag,
                      "axis %d: \"name\" is not a name of at most %d letters and digits that no other axis has", a + 1,
                      AXIS);
    f->step[a] = 1;
    if (!tw_json_int(json_object_get(o, "least"), 1, TW_SELECT_MOST, &f->least[a]) ||
        !tw_json_int(json_object_get(o, "most"), f->least[a], TW_SELECT_MOST, &f->most[a]) ||
        (step && !tw_json_int(step, 1, f->most[a], &f->step[a])))
        return REFUSE(g, diag, "axis \"%s\": \"least\", \"most\" and \"step\" are not numbers from 1 to %d", name,
                      TW_SELECT_MOST);
    if (shrinks && !json_is_boolean(shrinks))
        return REFUSE(g, diag, "axis \"%s\": \"shrinks\" is not true or false", name);
    f->shrinks[a] = json_is_true(shrinks);
    g->axes[g->n_axes++] = f->axes[a] = name;
    return TW_OK;
}

/* Reads which axis is that of the rows, the columns or the rounds. */
static tw_status read_place(const tw_foreign *g, const char *field, int otherwise, int *out, tw_diag *diag) {
    const json_t *v = json_object_get(g->json, field);
    *out = v ? find_axis(g, json_string_value(v)) : otherwise;
    return *out >= 0 ? TW_OK : REFUSE(g, diag, "\"%s\" is not an axis", field);
}

static tw_status read_axes(tw_foreign *g, tw_family *f, tw_diag *diag) {
    const json_t *list = json_object_get(g->json, "axes");
    const size_t n = json_array_size(list);
    tw_status st = TW_OK;
    if (!n || n > TW_SELECT_AXES) return REFUSE(g, diag, "\"axes\" is not a list of 1 to %d axes", TW_SELECT_AXES);
    for (size_t i = 0; i < n && st == TW_OK; i++) st = read_axis(g, f, json_array_get(list, i), diag);
    f->n_axes = g->n_axes;
    if (st == TW_OK) st = read_place(g, "rows", 0, &f->rows, diag);
    if (st == TW_OK) st = read_place(g, "columns", n > 1, &f->columns, diag);
    if (st == TW_OK) st = read_place(g, "loops", (int)n - 1, &f->loops, diag);
    return st;
}

/* ---- parameters */

/* Reads the values: whole numbers, or words. */
static tw_status read_values(tw_foreign *g, tw_param *p, const json_t *list, tw_diag *diag) {
    const size_t n = json_array_size(list);
    const bool words = json_is_string(json_array_get(list, 0));
    int *values = tw_arena_array(&g->arena, n + 1, sizeof *values);
    const char **texts = tw_arena_array(&g->arena, n + 1, sizeof *texts);
    if (!n || n > VALUES) return REFUSE(g, diag, "parameter \"%s\": not 1 to %d values", p->name, VALUES);
    if (!values || !texts) return tw_fail_memory(diag);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        int64_t x = 0;
        texts[i] = text_in(v);
        if (words ? !is_value(texts[i]) : !tw_json_int(v, INT32_MIN, INT32_MAX, &x))
            return REFUSE(g, diag, "parameter \"%s\": value %zu is not a %s", p->name, i + 1,
                          words ? "word" : "whole number");
        values[i] = (int)x;
        for (size_t k = 0; k < i; k++)
            if (words ? !strcmp(texts[k], texts[i]) : values[k] == values[i])
                return REFUSE(g, diag, "parameter \"%s\": value %zu is there already", p->name, i + 1);
    }
    if (words)
        p->words = texts;
    else
        p->values = values;
    p->n_values = (int)n;
    p->form = words ? TW_SPACE_WORD : TW_SPACE_INT64;
    p->least = INT32_MIN;
    p->most = INT32_MAX;
    return TW_OK;
}

/* Reads a parameter if it has a role. */
static tw_status read_parameter(tw_foreign *g, tw_param *p, const json_t *o, tw_space_role only, tw_diag *diag) {
    static const char *const fields[] = {"name", "role", "values", NULL};
    const char *name = text_in(json_object_get(o, "name")), *role = text_in(json_object_get(o, "role"));
    tw_status st = check_fields(g, o, "\"parameters\"", fields, diag);
    if (st != TW_OK) return st;
    if (!role || (strcmp(role, "macro") != 0 && strcmp(role, "micro") != 0))
        return REFUSE(g, diag, "\"parameters\": a \"role\" is not macro or micro");
    if (strcmp(role, tw_space_role_name(only)) != 0) return TW_OK;
    if (!name || strlen(name) > 32 || !tw_expression_is_name(name) || find_axis(g, name) >= 0 ||
        find_parameter(g, name) >= 0)
        return REFUSE(g, diag, "\"parameters\": a \"name\" is not a name that no axis and no other parameter has");
    p->name = name;
    p->at = (size_t)g->space.n * sizeof(int64_t);
    p->role = only;
    st = read_values(g, p, json_object_get(o, "values"), diag);
    g->space.n += st == TW_OK;
    return st;
}

/* Returns the number of characters of the longest configuration. */
static size_t longest_config(const tw_foreign *g) {
    size_t all = 0;
    for (int i = 0; i < g->space.n; i++) {
        const tw_param *p = &g->space.params[i];
        size_t longest = 11;
        for (int k = 0; k < p->n_values && p->words; k++) {
            const size_t n = strlen(p->words[k]);
            longest = n > longest ? n : longest;
        }
        all += strlen(p->name) + longest + 2;
    }
    return all;
}

/* Reads the parameters, macro parameters first: so are the words of a family's configurations. */
static tw_status read_parameters(tw_foreign *g, tw_diag *diag) {
    static const tw_space_role roles[] = {TW_SPACE_MACRO, TW_SPACE_MICRO};
    const json_t *list = json_object_get(g->json, "parameters");
    const size_t n = json_array_size(list);
    tw_status st = TW_OK;
    if (!n || n > WORDS) return REFUSE(g, diag, "\"parameters\" is not a list of 1 to %d parameters", WORDS);
    tw_param *params = tw_arena_array(&g->arena, n + 1, sizeof *params);
    if (!params) return tw_fail_memory(diag);
    g->space.params = params;
    g->space.bytes = n * sizeof(int64_t);
    for (int r = 0; r < 2 && st == TW_OK; r++) {
        for (size_t i = 0; i < n && st == TW_OK; i++)
            st = read_parameter(g, &params[g->space.n], json_array_get(list, i), roles[r], diag);
        if (st == TW_OK && !g->space.n) return REFUSE(g, diag, "\"parameters\": none is macro");
    }
    if (st != TW_OK) return st;
    if (longest_config(g) >= TW_FAMILY_WORDS) return REFUSE(g, diag, "\"parameters\": a configuration is too long");
    return TW_OK;
}

/* ---- the default and the baselines */

static tw_status check_config(const tw_foreign *g, const char *what, const json_t *o, tw_diag *diag) {
    const char *key;
    size_t all = 0;
    json_t *v;
    if (!json_object_size(o)) return REFUSE(g, diag, "%s: the configuration is not an object of values", what);
    json_object_foreach((json_t *)(uintptr_t)o, key, v) {
        if (!tw_expression_is_name(key) || strlen(key) > 32 || (!json_is_integer(v) && !is_value(text_in(v))))
            return REFUSE(g, diag, "%s: \"%.80s\" is not a name with a whole number or a word", what, key);
        all += strlen(key) + (json_is_integer(v) ? 20 : json_string_length(v)) + 2;
    }
    return all < TW_FAMILY_WORDS ? TW_OK : REFUSE(g, diag, "%s: the configuration is too long", what);
}

static tw_status check_rules(const tw_foreign *g, const char *name, const json_t *rules, tw_diag *diag) {
    static const char *const fields[] = {"when", "config", NULL};
    const size_t n = json_array_size(rules);
    tw_status st = TW_OK;
    for (size_t i = 0; i < n && st == TW_OK; i++) {
        const json_t *o = json_array_get(rules, i), *when = json_object_get(o, "when");
        st = check_fields(g, o, name, fields, diag);
        if (st == TW_OK && i + 1 < n && !text_in(when))
            return REFUSE(g, diag, "%s: rule %zu has no \"when\"", name, i + 1);
        if (st == TW_OK && i + 1 == n && when) return REFUSE(g, diag, "%s: the last rule has a \"when\"", name);
        if (st == TW_OK) st = check_config(g, name, json_object_get(o, "config"), diag);
    }
    return st == TW_OK && !n ? REFUSE(g, diag, "%s: there are no rules", name) : st;
}

static tw_status read_baseline(tw_foreign *g, const json_t *o, tw_diag *diag) {
    static const char *const fields[] = {"name", "config", "rules", NULL};
    const char *name = text_in(json_object_get(o, "name"));
    const json_t *config = json_object_get(o, "config"), *rules = json_object_get(o, "rules");
    tw_status st = check_fields(g, o, "\"baselines\"", fields, diag);
    if (st != TW_OK) return st;
    if (!is_value(name)) return REFUSE(g, diag, "baseline %d: \"name\" is not a word", g->n_baselines);
    for (int i = 0; i < g->n_baselines; i++)
        if (!strcmp(name, g->baselines[i])) return REFUSE(g, diag, "baseline \"%s\" is there already", name);
    if (!config == !rules) return REFUSE(g, diag, "baseline \"%s\" has not one of \"config\" and \"rules\"", name);
    st = config ? check_config(g, name, config, diag) : check_rules(g, name, rules, diag);
    g->baselines[g->n_baselines] = name;
    g->rules[g->n_baselines++] = config ? config : rules;
    return st;
}

static tw_status read_baselines(tw_foreign *g, tw_diag *diag) {
    const json_t *list = json_object_get(g->json, "baselines");
    const size_t n = json_array_size(list);
    g->baselines[0] = "default";
    g->rules[0] = json_object_get(g->json, "default");
    g->n_baselines = 1;
    if ((list && !json_is_array(list)) || n >= TW_FOREIGN_BASELINES)
        return REFUSE(g, diag, "\"baselines\" is not a list of at most %d", TW_FOREIGN_BASELINES - 1);
    tw_status st = check_config(g, "\"default\"", g->rules[0], diag);
    for (size_t i = 0; i < n && st == TW_OK; i++) st = read_baseline(g, json_array_get(list, i), diag);
    return st;
}

tw_status tw_foreign_read(tw_foreign *g, tw_family *f, tw_diag *diag) {
    static const char *const fields[] = {"name",       "command",     "timeout",   "protocol", "axes",
                                         "rows",       "columns",     "loops",     "work",     "most_work",
                                         "parameters", "constraints", "grid",      "rounds",   "slots",
                                         "rules",      "default",     "baselines", NULL};
    tw_status st = tw_json_load(&g->json, g->path, diag);
    if (st == TW_OK) st = check_fields(g, g->json, "the description", fields, diag);
    if (st == TW_OK) st = find_name(g, &f->name, diag);
    if (st == TW_OK) st = read_command(g, diag);
    if (st == TW_OK) st = read_axes(g, f, diag);
    if (st == TW_OK) st = read_parameters(g, diag);
    if (st == TW_OK) st = read_baselines(g, diag);
    if (st != TW_OK) return st;
    const json_t *protocol = json_object_get(g->json, "protocol"), *work = json_object_get(g->json, "most_work");
    f->unit = "us";
    f->protocol = protocol ? text_in(protocol) : "";
    if (!f->protocol || strlen(f->protocol) > 200) return REFUSE(g, diag, "\"protocol\" is not a text of a line");
    f->most_work = work ? json_number_value(work) : 0;
    if (work && !(f->most_work > 0)) return REFUSE(g, diag, "\"most_work\" is not a number above 0");
    f->baselines = g->baselines;
    f->n_baselines = g->n_baselines;
    return TW_OK;
}
