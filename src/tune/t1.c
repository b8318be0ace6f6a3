/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/t1.h"

#include "base/diag.h"
#include "base/json.h"
#include "tune/condition.h"
#include "tune/interchange_parts.h"

#include <string.h>

enum { PARAMS = 64 /* The most parameters. */, CONDITIONS = 1000 /* The most conditions. */ };

#define REFUSE(t, diag, ...) tw_fail_at(diag, TW_ERR_FORMAT, (t)->path, -1, __VA_ARGS__)

static const char *text_of(const json_t *o, const char *name) {
    return json_string_value(json_object_get(o, name));
}

static tw_status read_param(tw_t1 *t, size_t i, const json_t *o, tw_diag *diag) {
    static const char *const types[] = {"int", "uint", "float", "bool", "string"};
    const char *name = text_of(o, "Name"), *type = text_of(o, "Type"), *values = text_of(o, "Values");
    tw_diag why;
    size_t k = 0;
    if (!name || !*name) return REFUSE(t, diag, "TuningParameters[%zu]: \"Name\" is no name", i);
    for (int j = 0; j < t->n_params; j++)
        if (!strcmp(t->params[j].name, name))
            return REFUSE(t, diag, "TuningParameters[%zu]: \"%.60s\" is there already", i, name);
    while (k < sizeof types / sizeof *types && (!type || strcmp(type, types[k]) != 0)) k++;
    if (k == sizeof types / sizeof *types)
        return REFUSE(t, diag, "TuningParameters \"%.60s\": \"Type\" is not int, uint, float, bool or string", name);
    if (!values) return REFUSE(t, diag, "TuningParameters \"%.60s\": \"Values\" is no text", name);
    const tw_status st = tw_condition_list(values, &t->params[t->n_params].values, &why);
    if (st == TW_ERR_MEMORY) return tw_fail_memory(diag);
    if (st != TW_OK) return REFUSE(t, diag, "TuningParameters \"%.60s\": \"Values\": %s", name, why.message);
    t->params[t->n_params++].name = name;
    return TW_OK;
}

static tw_status read_space(tw_t1 *t, const json_t *space, tw_diag *diag) {
    const json_t *params = json_object_get(space, "TuningParameters"),
                 *conditions = json_object_get(space, "Conditions");
    const size_t n = json_array_size(params), c = json_array_size(conditions);
    tw_status st = TW_OK;
    if (!n || n > PARAMS)
        return REFUSE(t, diag, "ConfigurationSpace: \"TuningParameters\" is no list of 1 to %d parameters", PARAMS);
    if ((conditions && !json_is_array(conditions)) || c > CONDITIONS)
        return REFUSE(t, diag, "ConfigurationSpace: \"Conditions\" is no list of at most %d conditions", CONDITIONS);
    t->params = tw_arena_array(&t->arena, n, sizeof *t->params);
    t->conditions = tw_arena_array(&t->arena, c + 1, sizeof *t->conditions);
    if (t->arena.failed) return tw_fail_memory(diag);
    for (size_t i = 0; i < n && st == TW_OK; i++) st = read_param(t, i, json_array_get(params, i), diag);
    for (size_t i = 0; i < c && st == TW_OK; i++) {
        const char *text = text_of(json_array_get(conditions, i), "Expression");
        if (!text) return REFUSE(t, diag, "Conditions[%zu]: \"Expression\" is no text", i);
        t->conditions[t->n_conditions++] = text;
    }
    return st;
}

/* Reads the sizes of the problem, which Kernel Tuner has beside the fields of the schema. */
static tw_status read_problem(tw_t1 *t, const json_t *sizes, tw_diag *diag) {
    char out[200];
    if (!sizes) return TW_OK;
    if (json_array_size(sizes) > 3 || !tw_interchange_sizes(sizes, out, sizeof out))
        return REFUSE(t, diag, "KernelSpecification: \"ProblemSize\" is not 1 to 3 whole numbers");
    t->problem = tw_arena_strdup(&t->arena, out);
    return t->problem ? TW_OK : tw_fail_memory(diag);
}

tw_status tw_t1_read(tw_t1 *out, const char *path, tw_diag *diag) {
    *out = (tw_t1){.path = path};
    tw_status st = tw_json_load(&out->json, path, diag);
    const json_t *kernel = json_object_get(out->json, "KernelSpecification");
    const json_t *space = json_object_get(out->json, "ConfigurationSpace");
    out->kernel = text_of(kernel, "KernelName");
    out->device = text_of(json_object_get(kernel, "Device"), "Name");
    if (st == TW_OK && !json_is_object(space)) st = REFUSE(out, diag, "no T1: \"ConfigurationSpace\" is no object");
    if (st == TW_OK && (!out->kernel || !*out->kernel))
        st = REFUSE(out, diag, "KernelSpecification: \"KernelName\" is no name");
    if (st == TW_OK) st = read_space(out, space, diag);
    if (st == TW_OK) st = read_problem(out, json_object_get(kernel, "ProblemSize"), diag);
    if (st != TW_OK) tw_t1_free(out);
    return st;
}

void tw_t1_free(tw_t1 *t) {
    for (int i = 0; i < t->n_params; i++) json_decref(t->params[i].values);
    json_decref(t->json);
    tw_arena_free(&t->arena);
    *t = (tw_t1){0};
}

/* Tells whether a value is in a list. An integer and a real number may be equal. */
static bool is_value(const json_t *values, const json_t *v) {
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *other = json_array_get(values, i);
        if (json_equal(other, v)) return true;
        if (json_is_number(v) && json_is_number(other) && json_number_value(v) == json_number_value(other)) return true;
    }
    return false;
}

tw_status tw_t1_check(const tw_t1 *t, const json_t *config, bool illegal, const char *path, const char *where,
                      tw_diag *diag) {
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)config, name, v) {
        int i = 0;
        while (i < t->n_params && strcmp(t->params[i].name, name) != 0) i++;
        if (i == t->n_params)
            return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s: %s has no parameter \"%.60s\"", where, t->path, name);
    }
    for (int i = 0; i < t->n_params; i++) {
        json_t *has = json_object_get(config, t->params[i].name);
        if (has && is_value(t->params[i].values, has)) continue;
        return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s: its \"%.60s\" is no value that %s has", where,
                          t->params[i].name, t->path);
    }
    for (int i = 0; i < t->n_conditions && !illegal; i++) {
        bool holds;
        tw_diag why;
        if (tw_condition(t->conditions[i], config, &holds, &why) != TW_OK)
            return REFUSE(t, diag, "Conditions[%d]: %s", i, why.message);
        if (!holds)
            return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s: it does not meet \"%.200s\" of %s", where,
                              t->conditions[i], t->path);
    }
    return TW_OK;
}
