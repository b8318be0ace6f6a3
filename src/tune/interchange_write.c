/* SPDX-License-Identifier: Apache-2.0 */
/* Writes measurements as T4 and as a cache of Kernel Tuner. */
#define _POSIX_C_SOURCE 200809L
#include "tune/interchange.h"

#include "base/diag.h"
#include "base/json.h"
#include "tune/interchange_parts.h"
#include "tune/lines.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Fields of a measurement that are the same in a whole file. */
static const char *const common[] = {"environment", "space", "problem"};
enum { COMMON = sizeof common / sizeof *common };

tw_status tw_interchange_add(json_t **all, const tw_measurement *m, tw_diag *diag) {
    json_t *o = tw_lines_object(m);
    const json_t *first = *all ? json_array_get(*all, 0) : o;
    if (!*all) *all = json_array();
    for (int i = 0; i < COMMON && o && first; i++) {
        const json_t *is = json_object_get(o, common[i]), *was = json_object_get(first, common[i]);
        if (json_equal(is, was)) continue;
        char *text = tw_json_text(was, 0);
        tw_fail(diag, TW_ERR_USAGE, "the format has one %s a file: say which with --%s '%.300s'", common[i], common[i],
                !text                 ? ""
                : json_is_string(was) ? json_string_value(was)
                                      : text);
        free(text);
        json_decref(o);
        return TW_ERR_USAGE;
    }
    if (o && *all) return json_array_append_new(*all, o) ? tw_fail_memory(diag) : TW_OK;
    json_decref(o);
    return tw_fail_memory(diag);
}

/* ---- parts of a measurement */

/* Makes an object of the fields that are the same in a whole file. NULL: out of memory. */
static json_t *common_of(const json_t *first) {
    json_t *o = json_object();
    bool good = o != NULL;
    for (int i = 0; i < COMMON && good; i++) good = !json_object_set(o, common[i], json_object_get(first, common[i]));
    if (good) return o;
    json_decref(o);
    return NULL;
}

/* Makes an object of a measurement's fields, without those of common_of and without the configuration. NULL: out of
   memory. */
static json_t *rest_of(const json_t *line) {
    json_t *o = json_copy((json_t *)(uintptr_t)line);
    for (int i = 0; i < COMMON; i++) json_object_del(o, common[i]);
    json_object_del(o, "config");
    return o;
}

/* Makes the configuration with the values of the other formats, which have fractions and truth values. NULL: out of
   memory. */
static json_t *values_of(const json_t *line) {
    json_t *config = json_deep_copy(json_object_get(line, "config")), *v;
    const char *name;
    void *next;
    bool good = true;
    json_object_foreach_safe(config, next, name, v) {
        if (json_is_string(v)) good &= !json_object_set_new(config, name, tw_interchange_value(json_string_value(v)));
    }
    if (good) return config;
    json_decref(config);
    return NULL;
}

static const char *text_of(const json_t *line, const char *field) {
    return json_string_value(json_object_get(line, field));
}

static const tw_interchange_status *status_of(const json_t *line) {
    const tw_interchange_status *s = tw_interchange_status_find(text_of(line, "status"), NULL, NULL);
    return s ? s : tw_interchange_status_find("io", NULL, NULL);
}

/* What the other formats call the samples of a measurement. */
typedef struct quantity {
    const char *of;    /* Unit of the measurement. */
    const char *t4;    /* Name in T4. */
    const char *cache; /* Name in a cache. */
    const char *unit;  /* Unit of both formats. */
    double scale;      /* The measurement's unit in theirs: samples are multiplied by it. */
} quantity;

/* A unit that the formats do not know is also the name of the quantity. */
static quantity quantity_of(const json_t *line) {
    static const quantity all[] = {{"us", "time", "time", "ms", 1e-3},
                                   {"J", "energy", "nvml_energy", "J", 1},
                                   {"uJ", "energy", "nvml_energy", "J", 1e-6}};
    const char *unit = text_of(line, "unit");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(unit, all[i].of)) return all[i];
    return (quantity){unit, unit, unit, unit, 1};
}

/* Tells whether samples are times. */
static bool is_timed(const json_t *line) {
    return !strcmp(text_of(line, "unit"), "us");
}

/* A number that the formats have beside the samples. */
typedef struct figure {
    const char *name, *unit;
    double value;
} figure;
enum { FIGURES = 3 };

/* Lists the numbers that the formats have beside the samples: the samples' mean, under `name`, if the configuration is
   right; and the clock rate and the power if they are known. Returns how many there are. */
static int list_figures(const json_t *line, const char *name, double mean, figure out[FIGURES]) {
    static const struct {
        const char *field, *name, *unit;
    } others[FIGURES - 1] = {{"clock_mhz", "core_freq", "MHz"}, {"watts", "nvml_power", "W"}};
    int n = 0;
    if (!status_of(line)->cache) out[n++] = (figure){name, quantity_of(line).unit, mean};
    for (int i = 0; i < FIGURES - 1; i++) {
        const json_t *v = json_object_get(line, others[i].field);
        if (v) out[n++] = (figure){others[i].name, others[i].unit, json_number_value(v)};
    }
    return n;
}

/* Makes a list of the samples in the unit of the other formats, and computes their mean. NULL: out of memory. */
static json_t *samples_of(const json_t *line, double *mean) {
    const json_t *from = json_object_get(line, "samples");
    const double scale = quantity_of(line).scale;
    const size_t n = json_array_size(from);
    json_t *to = json_array();
    *mean = 0;
    for (size_t i = 0; i < n; i++) {
        const double x = json_number_value(json_array_get(from, i)) * scale;
        *mean += x / (double)n;
        json_array_append_new(to, json_real(x));
    }
    if (json_array_size(to) == n) return to;
    json_decref(to);
    return NULL;
}

/* Makes the time at which a measurement began, as Python spells a time. NULL: out of memory. */
static json_t *began_of(const json_t *line) {
    const json_int_t ns = json_integer_value(json_object_get(line, "began_ns"));
    const json_int_t below = (ns % 1000000000 + 1000000000) % 1000000000;
    const time_t seconds = (time_t)((ns - below) / 1000000000);
    struct tm utc;
    char text[64] = "";
    if (gmtime_r(&seconds, &utc)) strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &utc);
    return json_sprintf("%s.%06d+00:00", text, (int)(below / 1000));
}

/* ---- T4 */

/* Makes the list of a result's measurements. NULL: out of memory. */
static json_t *measurements_of(const json_t *line, double mean) {
    figure all[FIGURES];
    const size_t n = (size_t)list_figures(line, quantity_of(line).t4, mean, all);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:f, s:s}", "name", all[i].name, "value", all[i].value, "unit", all[i].unit));
    if (json_array_size(list) == n) return list;
    json_decref(list);
    return NULL;
}

/* Makes a result. NULL: out of memory. */
static json_t *result_of(const json_t *line) {
    const tw_interchange_status *status = status_of(line);
    double mean;
    json_t *samples = samples_of(line, &mean), *measured = measurements_of(line, mean);
    if (!is_timed(line)) json_array_clear(samples);
    return json_pack("{s:o, s:o, s:{s:f, s:o, s:f, s:f, s:f}, s:s, s:f, s:o, s:[s], s:o}", "timestamp", began_of(line),
                     "configuration", values_of(line), "times", "compilation_time", 0.0, "runtimes", samples,
                     "framework", 0.0, "search_algorithm", 0.0, "validation", 0.0, "invalidity", status->t4,
                     "correctness", status->cache ? 0.0 : 1.0, "measurements", measured, "objectives",
                     quantity_of(line).t4, TW_INTERCHANGE_REST, rest_of(line));
}

/* Appends a value as JSON. `o` belongs to this function. NULL: memory ran out before. */
static tw_status put(tw_buf *out, json_t *o, size_t flags, tw_diag *diag) {
    const bool good = tw_json_append(out, o, flags | JSON_REAL_PRECISION(17));
    json_decref(o);
    return good ? TW_OK : tw_fail_memory(diag);
}

tw_status tw_interchange_write_t4(tw_buf *out, const json_t *all, tw_diag *diag) {
    json_t *results = json_array(), *metadata = json_pack("{s:s}", "timeunit", "milliseconds"), *o = NULL;
    bool good = results && metadata;
    for (size_t i = 0; i < json_array_size(all) && good; i++)
        good = !json_array_append_new(results, result_of(json_array_get(all, i)));
    if (good && json_array_size(all))
        good = !json_object_set_new(metadata, TW_INTERCHANGE_REST, common_of(json_array_get(all, 0)));
    if (good) o = json_pack("{s:s, s:O, s:O}", "schema_version", "1.0.0", "metadata", metadata, "results", results);
    json_decref(results);
    json_decref(metadata);
    const tw_status st = put(out, o, JSON_INDENT(1), diag);
    return st == TW_OK && !tw_buf_str(out, "\n") ? tw_fail_memory(diag) : st;
}

/* ---- Kernel Tuner's cache */

/* Makes the object whose fields are the parameters, each with the list of its values: in ascending order where they are
   numbers. A configuration that lacks a parameter has the value null for it. NULL: out of memory. */
static json_t *params_of(const json_t *configs) {
    json_t *params = json_object();
    bool good = params != NULL;
    for (size_t i = 0; i < json_array_size(configs); i++) {
        const char *name;
        json_t *v;
        json_object_foreach(json_array_get(configs, i), name, v) {
            if (!json_object_get(params, name)) good = good && !json_object_set_new(params, name, json_array());
        }
    }
    if (good) return params;
    json_decref(params);
    return NULL;
}

/* Inserts a value into a list, if it is not there. False: out of memory. */
static bool add_to_values(json_t *values, const json_t *v) {
    size_t at = 0;
    while (at < json_array_size(values)) {
        const json_t *other = json_array_get(values, at);
        if (json_equal(other, v)) return true;
        if (json_is_number(v) && (!json_is_number(other) || json_number_value(v) < json_number_value(other))) break;
        at++;
    }
    return !json_array_insert(values, at, (json_t *)(uintptr_t)v);
}

static bool fill_values(json_t *params, const json_t *configs) {
    const char *name;
    json_t *values;
    bool good = true;
    json_t *none = json_null();
    json_object_foreach(params, name, values) for (size_t i = 0; i < json_array_size(configs) && good; i++) {
        json_t *v = json_object_get(json_array_get(configs, i), name);
        good = add_to_values(values, v ? v : none);
    }
    return good;
}

/* Makes the sizes of the problem: its words that are whole numbers, without their names. A problem without sizes has a
   single 1. NULL: out of memory. */
static json_t *sizes_of(const json_t *line) {
    json_t *words = tw_lines_words(text_of(line, "problem")), *sizes = json_array(), *v;
    const char *name;
    bool good = words && sizes;
    json_object_foreach(words, name, v) if (json_is_integer(v)) good = good && !json_array_append(sizes, v);
    if (good && !json_array_size(sizes)) good = !json_array_append_new(sizes, json_integer(1));
    json_decref(words);
    if (good) return sizes;
    json_decref(sizes);
    return NULL;
}

/* Sets the figures of a cache's entry to those of a measurement. False: out of memory. */
static bool set_figures(json_t *entry, const json_t *line) {
    const tw_interchange_status *status = status_of(line);
    figure all[FIGURES];
    double mean;
    json_t *samples = samples_of(line, &mean);
    const int n = list_figures(line, quantity_of(line).cache, mean, all);
    const bool timed = is_timed(line);
    const double spent = timed ? mean * (double)json_array_size(samples) : 0;
    bool good = samples != NULL;
    for (int i = 0; i < n; i++) good &= !json_object_set_new(entry, all[i].name, json_real(all[i].value));
    if (status->cache)
        good &= !json_object_set_new(entry, "__error__", json_string(status->cache));
    else if (timed)
        good = good && !json_object_set(entry, "times", samples);
    good &= !json_object_set_new(entry, "compile_time", json_integer(0));
    good &= !json_object_set_new(entry, "verification_time", json_integer(0));
    good &= !json_object_set_new(entry, "benchmark_time", json_real(spent));
    good &= !json_object_set_new(entry, "timestamp", began_of(line));
    json_decref(samples);
    return good;
}

/* Makes the key of an entry: its parameters' values. Returns NULL if memory ran out. */
static json_t *key_of(const json_t *params, const json_t *config) {
    tw_buf key = {0};
    const char *name;
    json_t *v, *none = json_null(), *out = NULL;
    bool good = true;
    json_object_foreach((json_t *)(uintptr_t)params, name, v) {
        const json_t *value = json_object_get(config, name);
        if (key.size) good &= tw_buf_str(&key, ",");
        good &= tw_interchange_spell(&key, value ? value : none);
    }
    if (good) out = json_stringn(key.data ? key.data : "", key.size);
    tw_buf_free(&key);
    return out;
}

/* Makes an entry without figures. NULL: out of memory. */
static json_t *make_entry(const json_t *params, const json_t *config) {
    json_t *entry = json_object(), *v, *value;
    const char *name;
    bool good = entry != NULL;
    json_object_foreach((json_t *)(uintptr_t)params, name, v) {
        value = json_object_get(config, name);
        good = good && !json_object_set(entry, name, value ? value : json_null());
    }
    if (good && !json_object_set_new(entry, TW_INTERCHANGE_REST, json_array())) return entry;
    json_decref(entry);
    return NULL;
}

/* Tells whether an entry has a configuration's values. A word "None" has the key of a parameter that is left out. */
static bool has_values(const json_t *entry, const json_t *params, const json_t *config) {
    json_t *v, *none = json_null();
    const char *name;
    json_object_foreach((json_t *)(uintptr_t)params, name, v) {
        const json_t *value = json_object_get(config, name);
        if (!json_equal(json_object_get(entry, name), value ? value : none)) return false;
    }
    return true;
}

/* Adds a measurement to the entry of its configuration, which is made if it is not there. False: out of memory. */
static bool add_to_entry(json_t *cache, const json_t *params, const json_t *config, const json_t *line) {
    json_t *key = key_of(params, config), *rest = rest_of(line);
    json_t *entry = key ? json_object_get(cache, json_string_value(key)) : NULL;
    bool good = key && rest;
    if (good && !entry) good = !json_object_set_new(cache, json_string_value(key), entry = make_entry(params, config));
    json_decref(key);
    /* A new entry that could not be added is freed. */
    if (good && !has_values(entry, params, config))
        good = !json_object_set(rest, "config", json_object_get(line, "config"));
    if (good) return !json_array_append_new(json_object_get(entry, TW_INTERCHANGE_REST), rest);
    json_decref(rest);
    return false;
}

/* Returns the measurement of a list that has the most samples, of equal ones the last. */
static const json_t *find_most(const json_t *list) {
    const json_t *most = NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (json_array_size(json_object_get(one, "samples")) >= json_array_size(json_object_get(most, "samples")))
            most = one;
    }
    return most;
}

static json_t *device_of(const json_t *line) {
    const json_t *environment = json_object_get(line, "environment"), *name = json_object_get(environment, "device");
    if (!json_is_string(name)) name = environment;
    return json_is_string(name) ? json_incref((json_t *)(uintptr_t)name) : json_string("");
}

/* Appends the fields of a cache before its entries. */
static tw_status put_head(tw_buf *out, const json_t *first, const json_t *params, tw_diag *diag) {
    json_t *keys = json_array(), *v;
    const char *name;
    bool good = true;
    json_object_foreach((json_t *)(uintptr_t)params, name, v) good &= !json_array_append_new(keys, json_string(name));
    json_t *head =
        json_pack("{s:o, s:O, s:o, s:o, s:O, s:[s], s:o}", "device_name", device_of(first), "kernel_name",
                  json_object_get(first, "space"), "problem_size", sizes_of(first), "tune_params_keys", keys,
                  "tune_params", params, "objective", quantity_of(first).cache, TW_INTERCHANGE_REST, common_of(first));
    good = good && head && tw_buf_str(out, "{\n");
    tw_status st = TW_OK;
    json_object_foreach(head, name, v) {
        good = good && tw_buf_printf(out, "\"%s\": ", name);
        if (st == TW_OK) st = put(out, json_incref(v), 0, diag);
        good = good && tw_buf_str(out, ",\n");
    }
    json_decref(head);
    return good ? st : tw_fail_memory(diag);
}

/* Appends the entries, a line each. Kernel Tuner itself can continue a cache that ends so. */
static tw_status put_entries(tw_buf *out, json_t *cache, tw_diag *diag) {
    bool good = tw_buf_str(out, "\"cache\": {"), first = true;
    tw_status st = TW_OK;
    const char *key;
    json_t *entry;
    json_object_foreach(cache, key, entry) {
        good = good && tw_buf_str(out, first ? "\n" : ",\n");
        if (st == TW_OK) st = put(out, json_string(key), 0, diag);
        good = good && tw_buf_str(out, ": ");
        if (st == TW_OK) st = put(out, json_incref(entry), 0, diag);
        first = false;
    }
    good = good && tw_buf_str(out, "}\n}\n");
    return good ? st : tw_fail_memory(diag);
}

tw_status tw_interchange_write_cache(tw_buf *out, const json_t *all, tw_diag *diag) {
    const size_t n = json_array_size(all);
    if (!n) return tw_fail(diag, TW_ERR_USAGE, "there are no such measurements: a cache has at least one");
    json_t *configs = json_array(), *cache = json_object(), *entry;
    const char *key;
    bool good = configs && cache;
    for (size_t i = 0; i < n && good; i++) good = !json_array_append_new(configs, values_of(json_array_get(all, i)));
    json_t *params = params_of(configs);
    good = good && params && fill_values(params, configs);
    for (size_t i = 0; i < n && good; i++)
        good = add_to_entry(cache, params, json_array_get(configs, i), json_array_get(all, i));
    json_object_foreach(cache, key, entry) good =
        good && set_figures(entry, find_most(json_object_get(entry, TW_INTERCHANGE_REST)));
    tw_status st = good ? put_head(out, json_array_get(all, 0), params, diag) : tw_fail_memory(diag);
    if (st == TW_OK) st = put_entries(out, cache, diag);
    json_decref(params);
    json_decref(configs);
    json_decref(cache);
    return st;
}
