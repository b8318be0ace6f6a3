/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a foreign family that depend on the environment: configurations with grids, rounds and slots. */
#include "tune/foreign.h"

#include "base/diag.h"
#include "base/json.h"
#include "tune/foreign_parts.h"
#include "tune/macros.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 1000000 /* The most combinations of values. */ };
static const double GRACE = 2; /* Seconds that a command has to end by itself. */

/* ---- names of expressions */

/* The values of the names in an expression. Whole numbers of the environment always have a name. */
typedef struct scope {
    const tw_foreign *g;
    const int64_t *config;  /* Values of the parameters. NULL: parameters have no name here. */
    const int64_t *problem; /* Values of the axes. NULL: axes have no name here. */
    bool macro;             /* True: of the parameters, macro ones alone have a name. */
} scope;

static bool is(const char *name, const char *at, size_t n) {
    return strlen(name) == n && !memcmp(name, at, n);
}

static bool find_value(void *context, const char *name, size_t n, int64_t *value) {
    const scope *s = context;
    const tw_foreign *g = s->g;
    char key[80];
    for (int i = 0; i < g->space.n && s->config; i++) {
        const tw_param *p = &g->space.params[i];
        if (!is(p->name, name, n)) continue;
        *value = s->config[i];
        return !p->words && (!s->macro || p->role == TW_SPACE_MACRO);
    }
    for (int a = 0; a < g->n_axes; a++) {
        if (!is(g->axes[a], name, n)) continue;
        if (s->problem) *value = s->problem[a];
        return s->problem;
    }
    snprintf(key, sizeof key, "%.*s", (int)(n < sizeof key ? n : sizeof key - 1), name);
    return tw_json_int(json_object_get(g->told, key), INT64_MIN, INT64_MAX, value);
}

/* Names the field of the description in an expression's error. */
static tw_status blame(const tw_foreign *g, const char *field, tw_status st, const tw_diag *why, tw_diag *diag) {
    return st == TW_OK ? TW_OK : tw_fail_at(diag, st, g->path, -1, "\"%s\": %.1000s", field, why->message);
}

/* Computes a field that is a number or an expression. `v` NULL: 0. */
static tw_status compute(const tw_foreign *g, const char *field, const json_t *v, const scope *s, int64_t least,
                         int64_t most, int64_t *out, tw_diag *diag) {
    const tw_names names = {find_value, (void *)(uintptr_t)s};
    tw_diag why;
    tw_status st = TW_OK;
    *out = 0;
    if (!v) return TW_OK;
    if (json_is_integer(v))
        *out = (int64_t)json_integer_value(v);
    else if (json_is_string(v))
        st = blame(g, field, tw_expression(json_string_value(v), &names, out, &why), &why, diag);
    else
        return tw_fail_at(diag, TW_ERR_FORMAT, g->path, -1, "\"%s\" is not a number or an expression", field);
    if (st == TW_OK && (*out < least || *out > most))
        st = tw_fail_at(diag, TW_ERR_FORMAT, g->path, -1, "\"%s\" is %lld, not from %lld to %lld", field,
                        (long long)*out, (long long)least, (long long)most);
    return st;
}

/* ---- configurations */

/* A configuration is legal if no constraint is 0. */
static tw_status legal(const void *context, const void *config, tw_diag *diag) {
    tw_foreign *g = (tw_foreign *)(uintptr_t)context;
    const json_t *list = json_object_get(g->json, "constraints");
    const scope s = {.g = g, .config = config};
    for (size_t i = 0; i < json_array_size(list); i++) {
        int64_t value;
        const tw_status st = compute(g, "constraints", json_array_get(list, i), &s, INT64_MIN, INT64_MAX, &value, diag);
        if (st != TW_OK) return g->computed = st;
        if (!value) return tw_fail(diag, TW_ERR_UNSUPPORTED, "constraint %zu does not hold", i + 1);
    }
    return TW_OK;
}

static tw_status compute_tiles(const tw_foreign *g, const char *field, const scope *s, int64_t *tile, int64_t *times,
                               tw_diag *diag) {
    const tw_names names = {find_value, (void *)(uintptr_t)s};
    const char *text = json_string_value(json_object_get(g->json, field));
    tw_diag why;
    if (!text) return tw_fail_at(diag, TW_ERR_FORMAT, g->path, -1, "\"%s\" is not a product of tiles", field);
    tw_status st = tw_expression_tiles(text, g->axes, g->n_axes, &names, tile, times, &why);
    if (st != TW_OK) return blame(g, field, st, &why, diag);
    bool good = *times >= 1 && *times <= TW_ARTEFACT_TILE;
    for (int a = 0; a < g->n_axes; a++) good = good && tile[a] <= TW_ARTEFACT_TILE;
    return good ? TW_OK
                : tw_fail_at(diag, TW_ERR_FORMAT, g->path, -1, "\"%s\" has tiles or factors that are not from 1 to %d",
                             field, TW_ARTEFACT_TILE);
}

static tw_status describe_rules(const tw_foreign *g, tw_artefact_macro *m, const scope *s, tw_diag *diag) {
    const json_t *rules = json_object_get(g->json, "rules");
    const char *axis, *rule;
    json_t *of, *v;
    if (rules && !json_is_object(rules)) return tw_fail_at(diag, TW_ERR_FORMAT, g->path, -1, "\"rules\" is no object");
    json_object_foreach((json_t *)(uintptr_t)rules, axis, of) {
        int a = 0;
        while (a < g->n_axes && strcmp(g->axes[a], axis) != 0) a++;
        if (a == g->n_axes || !json_is_object(of))
            return tw_fail_at(diag, TW_ERR_FORMAT, g->path, -1, "\"rules\": \"%.80s\" is not an axis with rules", axis);
        json_object_foreach(of, rule, v) {
            int64_t *to = !strcmp(rule, "multiple") ? &m->multiple[a]
                          : !strcmp(rule, "least")  ? &m->least[a]
                          : !strcmp(rule, "most")   ? &m->most[a]
                                                    : NULL;
            if (!to)
                return tw_fail_at(diag, TW_ERR_FORMAT, g->path, -1,
                                  "\"rules\": \"%.80s\" is not multiple, least or most", rule);
            const tw_status st = compute(g, "rules", v, s, 0, TW_SELECT_MOST, to, diag);
            if (st != TW_OK) return st;
        }
    }
    return TW_OK;
}

/* Fills in the tiles, slots and rules of a macro choice. */
static tw_status describe_macro(const tw_foreign *g, tw_artefact_macro *m, const int64_t *config, tw_diag *diag) {
    const scope s = {.g = g, .config = config, .macro = true};
    const json_t *slots = json_object_get(g->json, "slots");
    int64_t times;
    tw_status st = compute_tiles(g, "grid", &s, m->grid, &m->times, diag);
    if (st == TW_OK) st = compute_tiles(g, "rounds", &s, m->rounds, &times, diag);
    if (st == TW_OK && times != 1)
        st = tw_fail_at(diag, TW_ERR_FORMAT, g->path, -1, "\"rounds\" has a factor that is no axis");
    if (st == TW_OK && !slots) st = tw_fail_at(diag, TW_ERR_FORMAT, g->path, -1, "\"slots\" is missing");
    if (st == TW_OK) st = compute(g, "slots", slots, &s, 1, TW_ARTEFACT_TILE, &m->slots, diag);
    if (st == TW_OK) st = describe_rules(g, m, &s, diag);
    return st;
}

static tw_status list_macros(tw_foreign *g, tw_family *f, tw_diag *diag) {
    tw_artefact_macro *list = NULL;
    int64_t config[TW_SPACE_PARAMS] = {0};
    tw_status st = TW_OK;
    if (tw_space_points(&g->space, TW_SPACE_ROLES) > POINTS)
        return tw_fail_at(diag, TW_ERR_FORMAT, g->path, -1, "\"parameters\": more than %d combinations of values",
                          POINTS);
    for (uint64_t i = 0; tw_space_point(&g->space, i, config) && st == TW_OK; i++) {
        bool added = false;
        const bool good = tw_space_judge(&g->space, g, config, diag) == TW_OK;
        if (g->computed != TW_OK) return g->computed;
        if (!good) continue;
        tw_artefact_macro *m = tw_macros_add(&g->arena, &list, &f->n_macros, &g->space, config, &added);
        if (!m && g->arena.failed) return tw_fail_memory(diag);
        if (!m)
            return tw_fail_at(diag, TW_ERR_FORMAT, g->path, -1,
                              "more than %d macro choices, or %d micro choices of one of them", TW_ARTEFACT_MACROS,
                              TW_ARTEFACT_MICROS);
        if (added) st = describe_macro(g, m, config, diag);
    }
    f->macros = list;
    if (st == TW_OK && !f->n_macros)
        st = tw_fail_at(diag, TW_ERR_FORMAT, g->path, -1, "no configuration fulfils all constraints");
    return st;
}

/* ---- work */

/* Computes the operations of a problem. TW_ERR_FORMAT: they are not at least 1. */
static tw_status compute_work(const tw_foreign *g, const int64_t *problem, int64_t *out, tw_diag *diag) {
    const scope s = {.g = g, .problem = problem};
    return compute(g, "work", json_object_get(g->json, "work"), &s, 1, INT64_MAX, out, diag);
}

static double work_of(const void *self, const int64_t *problem) {
    int64_t work;
    /* The expression was computed for the least and the largest usual problem. Others may still divide by 0. */
    return compute_work(self, problem, &work, NULL) == TW_OK ? (double)work : 1;
}

static tw_status describe_work(const tw_foreign *g, tw_family *f, tw_diag *diag) {
    int64_t work;
    if (!json_object_get(g->json, "work")) return TW_OK;
    f->work = work_of;
    const tw_status st = compute_work(g, f->least, &work, diag);
    return st == TW_OK ? compute_work(g, f->most, &work, diag) : st;
}

/* ---- baselines */

/* Appends a value of a configuration. Returns the length of the text, as snprintf does. */
static size_t put_value(char *out, size_t size, size_t used, const char *name, const json_t *v) {
    char number[24] = "";
    if (!v || used >= size) return used;
    if (json_is_integer(v)) snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
    return used + (size_t)snprintf(out + used, size - used, "%s%s=%s", used ? " " : "", name,
                                   *number ? number : json_string_value(v));
}

/* Writes a configuration of the description: parameters in the order of the space, then what else it has. */
static void print_config(const tw_foreign *g, const json_t *config, char *out, size_t size) {
    const char *key;
    json_t *v;
    size_t used = 0;
    *out = 0;
    for (int i = 0; i < g->space.n; i++) {
        const char *name = g->space.params[i].name;
        used = put_value(out, size, used, name, json_object_get(config, name));
    }
    json_object_foreach((json_t *)(uintptr_t)config, key, v) {
        int i = 0;
        while (i < g->space.n && strcmp(g->space.params[i].name, key) != 0) i++;
        if (i == g->space.n) used = put_value(out, size, used, key, v);
    }
}

void tw_foreign_baseline(const void *self, int i, const int64_t *problem, char *out, size_t size) {
    const tw_foreign *g = self;
    const scope s = {.g = g, .problem = problem};
    const tw_names names = {find_value, (void *)(uintptr_t)&s};
    const json_t *config = g->rules[i];
    for (size_t k = 0; json_is_array(g->rules[i]); k++) {
        const json_t *rule = json_array_get(g->rules[i], k), *when = json_object_get(rule, "when");
        int64_t value = 1;
        config = json_object_get(rule, "config");
        if (!when) break;
        /* A rule that cannot be computed for the problem does not apply. */
        if (tw_expression(json_string_value(when), &names, &value, NULL) == TW_OK && value) break;
    }
    print_config(g, config, out, size);
}

/* Checks that the rules of baselines can be computed, and finds the default among the configurations. */
static tw_status check_baselines(const tw_foreign *g, tw_family *f, tw_diag *diag) {
    const scope s = {.g = g, .problem = f->most};
    char config[TW_FAMILY_WORDS];
    for (int i = 0; i < g->n_baselines; i++)
        for (size_t k = 0; k < json_array_size(g->rules[i]); k++) {
            int64_t value;
            const tw_status st = compute(g, "when", json_object_get(json_array_get(g->rules[i], k), "when"), &s,
                                         INT64_MIN, INT64_MAX, &value, diag);
            if (st != TW_OK) return st;
        }
    tw_foreign_baseline(g, 0, f->least, config, sizeof config);
    if (tw_family_find(f, config, &f->macro, &f->micro)) return TW_OK;
    return tw_fail_at(diag, TW_ERR_FORMAT, g->path, -1, "\"default\" is none of the configurations");
}

/* ---- the family */

static const char *told_or(const tw_foreign *g, const char *field, const char *otherwise) {
    const char *s = json_string_value(json_object_get(g->told, field));
    return s ? s : otherwise;
}

tw_status tw_foreign_describe(tw_foreign *g, tw_family *f, tw_diag *diag) {
    f->environment = g->text;
    f->device = told_or(g, "device", "");
    f->alike = told_or(g, "alike", f->device);
    f->architecture = told_or(g, "architecture", f->alike);
    const json_t *constraints = json_object_get(g->json, "constraints");
    if (constraints && !json_is_array(constraints))
        return tw_fail_at(diag, TW_ERR_FORMAT, g->path, -1, "\"constraints\" is not a list");
    tw_status st = list_macros(g, f, diag);
    if (st == TW_OK) st = describe_work(g, f, diag);
    return st == TW_OK ? check_baselines(g, f, diag) : st;
}

static void close_family(void *self) {
    tw_foreign *g = self;
    tw_child_end(g->child, GRACE);
    json_decref(g->json);
    json_decref(g->told);
    tw_arena_free(&g->arena);
    free(g);
}

static tw_foreign *make(tw_family *out, const char *path, tw_status *st, tw_diag *diag) {
    tw_foreign *g = calloc(1, sizeof *g);
    if (!g) {
        *st = tw_fail_memory(diag);
        return NULL;
    }
    *out = (tw_family){.self = g};
    g->path = tw_arena_strdup(&g->arena, path);
    g->space = (tw_space){.name = "foreign", .example = "tile=64", .legal = legal};
    *st = g->path ? tw_foreign_read(g, out, diag) : tw_fail_memory(diag);
    return g;
}

tw_status tw_foreign_open(tw_family *out, const char *path, bool (*interrupted)(void *context), void *context,
                          tw_diag *diag) {
    static const tw_family_calls calls = {
        .measure = tw_foreign_measure, .baseline = tw_foreign_baseline, .close = close_family};
    tw_status st;
    tw_foreign *g = make(out, path, &st, diag);
    if (!g) return st;
    out->calls = &calls;
    if (st == TW_OK) st = tw_foreign_start(g, interrupted, context, diag);
    if (st == TW_OK && !g->child) st = tw_fail(diag, TW_ERR_IO, "interrupted");
    if (st == TW_OK) st = tw_foreign_describe(g, out, diag);
    if (st != TW_OK) close_family(g);
    return st;
}

tw_status tw_foreign_recorded(tw_family *out, const char *path, const char *environment, tw_diag *diag) {
    static const tw_family_calls calls = {.baseline = tw_foreign_baseline, .close = close_family};
    tw_status st;
    tw_foreign *g = make(out, path, &st, diag);
    if (!g) return st;
    out->calls = &calls;
    out->recorded = true;
    if (st == TW_OK) {
        g->text = tw_arena_strdup(&g->arena, environment);
        g->told = json_loads(environment, 0, NULL);
        if (!g->text || !json_is_object(g->told))
            st = tw_fail(diag, TW_ERR_FORMAT, "\"%.200s\" is no environment", environment);
    }
    if (st == TW_OK) st = tw_foreign_describe(g, out, diag);
    if (st != TW_OK) close_family(g);
    return st;
}
