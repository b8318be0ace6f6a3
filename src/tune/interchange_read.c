/* SPDX-License-Identifier: Apache-2.0 */
/* Reads measurements of T4 and of a cache of Kernel Tuner. */
#define _DEFAULT_SOURCE
#include "tune/interchange.h"

#include "base/diag.h"
#include "base/json.h"
#include "base/utf8.h"
#include "tune/interchange_parts.h"
#include "tune/lines.h"
#include "tune/trials.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct reading {
    const char *path; /* Path of the file, for messages. */
    const tw_interchange_names *names;
    const char *from;                      /* The protocol of other tuners' measurements. */
    json_t *environment, *space, *problem; /* Fields of each measurement. */
    double scale;                          /* Microseconds in the file's unit of time. */
    char where[200];                       /* Place of the current result or entry, for messages. */
    tw_status (*take)(void *context, const tw_measurement *m, tw_diag *diag);
    void *context;
} reading;

#define REFUSE(r, diag, ...) tw_fail_at(diag, TW_ERR_FORMAT, (r)->path, -1, __VA_ARGS__)

/* ---- names */

/* Sets the names of the file's measurements. They are those that the caller gives; else those of the file's field
   `own`; else `device`, `space` and `problem`, which are the format's own fields; else those of the description. */
static tw_status set_names(reading *r, const json_t *own, const char *device, const char *space, const char *problem,
                           tw_diag *diag) {
    const tw_t1 *t = r->names->space_of;
    const struct {
        json_t **to;
        const char *field, *name, *given, *of_format, *described;
    } all[] = {{&r->environment, "environment", "device", r->names->device, device, t ? t->device : NULL},
               {&r->space, "space", "space", r->names->space, space, t ? t->kernel : NULL},
               {&r->problem, "problem", "problem", r->names->problem, problem, t ? t->problem : NULL}};
    for (int i = 0; i < 3; i++) {
        json_t *has = all[i].given ? NULL : json_object_get(own, all[i].field);
        const char *text = all[i].given ? all[i].given : all[i].of_format ? all[i].of_format : all[i].described;
        if (!has && !text)
            return tw_fail_at(diag, TW_ERR_USAGE, r->path, -1, "it does not say its %s: say it with --%s", all[i].name,
                              all[i].name);
        if (!has && tw_utf8_check(text, strlen(text)) != strlen(text))
            return tw_fail(diag, TW_ERR_USAGE, "--%s: it is no UTF-8", all[i].name);
        *all[i].to = has ? json_incref(has) : i ? json_string(text) : json_pack("{s:s}", "device", text);
        if (!*all[i].to) return tw_fail_memory(diag);
    }
    return TW_OK;
}

/* ---- values */

/* Makes the configuration of a line from an object of values. Parameters that are null are left out. */
static tw_status words_of(const reading *r, const json_t *config, json_t **out, tw_diag *diag) {
    const char *name;
    json_t *v;
    *out = json_object();
    if (!*out) return tw_fail_memory(diag);
    json_object_foreach((json_t *)(uintptr_t)config, name, v) {
        tw_buf word = {0};
        if (json_is_null(v)) continue;
        const bool spelled = tw_interchange_spell(&word, v), failed = word.failed;
        const bool good = spelled && word.size && strlen(word.data) == word.size && !strpbrk(word.data, " =") &&
                          *name && !strpbrk(name, " =");
        const bool set =
            good && !json_object_set_new(*out, name, json_is_integer(v) ? json_copy(v) : json_string(word.data));
        tw_buf_free(&word);
        if (!good && !failed)
            return REFUSE(r, diag, "%s: parameter \"%.60s\" is no number or word, which has no space and no \"=\"",
                          r->where, name);
        if (!set) return tw_fail_memory(diag);
    }
    return TW_OK;
}

/* Reads a time such as "2026-01-31 09:30:00.25+01:00" as nanoseconds since 1970. */
static bool read_time(const char *text, int64_t *out) {
    struct tm at = {0};
    int used = 0, hours = 0, minutes = 0;
    char separator, sign = '+';
    if (sscanf(text, "%4d-%2d-%2d%c%2d:%2d:%2d%n", &at.tm_year, &at.tm_mon, &at.tm_mday, &separator, &at.tm_hour,
               &at.tm_min, &at.tm_sec, &used) != 7 ||
        !strchr("T ", separator))
        return false;
    at.tm_year -= 1900;
    at.tm_mon--;
    text += used;
    int64_t below = 0, unit = 1000000000;
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++) below += (*text - '0') * (unit /= 10);
    if (!strcmp(text, "Z")) text++;
    if (*text) {
        used = 0;
        if (sscanf(text, "%c%2d:%2d%n", &sign, &hours, &minutes, &used) != 3 || !strchr("+-", sign) || text[used])
            return false;
    }
    const int64_t seconds = (int64_t)timegm(&at) - (sign == '-' ? -1 : 1) * (hours * 60 + minutes) * 60LL;
    if (seconds < 0 || seconds > 9000000000) return false;
    *out = seconds * 1000000000 + below;
    return true;
}

/* ---- measurements */

/* Passes a measurement on. `line` has all its fields but the configuration and those of the whole file. It belongs to
   this function. NULL: out of memory. */
static tw_status pass(const reading *r, json_t *line, json_t *config, tw_diag *diag) {
    json_t *words = NULL;
    char key[3 * TW_FAMILY_WORDS];
    tw_line l;
    tw_status st = line ? words_of(r, config, &words, diag) : tw_fail_memory(diag);
    if (st == TW_OK && r->names->space_of) {
        const char *status = json_string_value(json_object_get(line, "status"));
        st = tw_t1_check(r->names->space_of, config, status && !strcmp(status, "rejected"), r->path, r->where, diag);
    }
    bool good = st == TW_OK;
    if (good)
        good = !json_object_set(line, "environment", r->environment) && !json_object_set(line, "space", r->space) &&
               !json_object_set(line, "problem", r->problem) && !json_object_set(line, "config", words);
    json_decref(words);
    if (!good) {
        json_decref(line);
        return st == TW_OK ? tw_fail_memory(diag) : st;
    }
    const bool keyed = json_object_get(line, "key");
    const char *wrong;
    st = tw_lines_take(&l, line, &wrong);
    if (st == TW_ERR_MEMORY) return tw_fail_memory(diag);
    if (st != TW_OK) return REFUSE(r, diag, "%s: no measurement: \"%s\" is missing or out of range", r->where, wrong);
    if (!keyed && r->names->campaign) {
        tw_trials_key(key, sizeof key, r->names->campaign, TW_TRIALS_SPREAD, l.m.problem, l.m.config);
        l.m.key = key;
    }
    st = r->take(r->context, &l.m, diag);
    tw_lines_free(&l);
    return st;
}

/* A measurement of another tuner. */
typedef struct foreign {
    json_t *config;
    const tw_interchange_status *status;
    const char *message; /* The message of a configuration that is not right. */
    const json_t *times; /* List of times. NULL or empty: `time` is the only one. */
    const json_t *time;  /* NULL: there is none. */
    double scale;        /* Microseconds in the unit of the times. */
    const json_t *when;  /* The time of the measurement as text. NULL: unknown. */
    const json_t *clock; /* Clock rate in MHz. NULL or no number: unknown. */
    const json_t *watts; /* Power in watts. NULL or no number: unknown. */
} foreign;

/* Makes the list of samples in microseconds. */
static tw_status make_samples(const reading *r, const foreign *f, json_t **out, tw_diag *diag) {
    const size_t listed = json_array_size(f->times), n = listed ? listed : f->time != NULL;
    bool good = n && (!f->times || json_is_array(f->times));
    *out = json_array();
    for (size_t i = 0; i < n && good; i++) {
        const json_t *v = listed ? json_array_get(f->times, i) : f->time;
        const double x = json_number_value(v) * f->scale;
        good = json_is_number(v) && isfinite(x);
        if (good) json_array_append_new(*out, json_real(x));
    }
    if (good && json_array_size(*out) == n) return TW_OK;
    json_decref(*out);
    *out = NULL;
    return good ? tw_fail_memory(diag) : REFUSE(r, diag, "%s: its times are no numbers", r->where);
}

/* Passes a measurement of another tuner on. */
static tw_status pass_foreign(const reading *r, const foreign *f, tw_diag *diag) {
    const bool right = !f->status->cache;
    json_t *samples = NULL;
    int64_t began = 0;
    const tw_status st = right ? make_samples(r, f, &samples, diag) : TW_OK;
    if (st != TW_OK) return st;
    if (f->when && (!json_is_string(f->when) || !read_time(json_string_value(f->when), &began))) {
        json_decref(samples);
        return REFUSE(r, diag, "%s: \"timestamp\" is no time", r->where);
    }
    json_t *line = json_pack("{s:s, s:s, s:s, s:o, s:s, s:I}", "protocol", r->from, "unit", "us", "status",
                             f->status->word, "samples", right ? samples : json_array(), "message",
                             right ? "" : f->message, "began_ns", (json_int_t)began);
    bool good = line != NULL;
    if (good && json_is_number(f->clock))
        good = !json_object_set_new(line, "clock_mhz", json_real(json_number_value(f->clock)));
    if (good && json_is_number(f->watts))
        good = !json_object_set_new(line, "watts", json_real(json_number_value(f->watts)));
    if (good) return pass(r, line, f->config, diag);
    json_decref(line);
    return tw_fail_memory(diag);
}

/* Passes on a measurement that this program wrote. `rest` is its field "tilewright". */
static tw_status pass_own(const reading *r, const json_t *rest, json_t *config, tw_diag *diag) {
    if (!json_is_object(rest)) return REFUSE(r, diag, "%s: \"%s\" is no object", r->where, TW_INTERCHANGE_REST);
    json_t *own = json_object_get(rest, "config");
    return pass(r, json_copy((json_t *)(uintptr_t)rest), json_is_object(own) ? own : config, diag);
}

/* ---- T4 */

/* Returns the value of a result's measurement, and sets *unit, which may be NULL, to its unit. NULL: it has none of
   this name. */
static const json_t *measured(const json_t *result, const char *name, const char **unit) {
    const json_t *list = json_object_get(result, "measurements");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        const char *has = json_string_value(json_object_get(o, "name"));
        if (!has || strcmp(has, name) != 0) continue;
        if (unit) *unit = json_string_value(json_object_get(o, "unit"));
        return json_object_get(o, "value");
    }
    return NULL;
}

/* Returns how many microseconds a unit has. 0: the unit is unknown. */
static double unit_of(const char *word) {
    static const struct {
        const char *word;
        double us;
    } units[] = {{"nanoseconds", 1e-3}, {"ns", 1e-3}, {"microseconds", 1}, {"us", 1},
                 {"milliseconds", 1e3}, {"ms", 1e3},  {"seconds", 1e6},    {"s", 1e6}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(units[i].word, word)) return units[i].us;
    return 0;
}

static tw_status read_result(reading *r, const json_t *o, tw_diag *diag) {
    const json_t *times = json_object_get(o, "times"), *rest = json_object_get(o, TW_INTERCHANGE_REST);
    const char *unit = NULL;
    foreign f = {.config = json_object_get(o, "configuration"),
                 .message = json_string_value(json_object_get(o, "invalidity")),
                 .times = json_object_get(times, "runtimes"),
                 .time = measured(o, "time", &unit),
                 .when = json_object_get(o, "timestamp"),
                 .clock = measured(o, "core_freq", NULL),
                 .watts = measured(o, "nvml_power", NULL)};
    if (!json_is_object(o)) return REFUSE(r, diag, "%s is no object", r->where);
    if (!json_is_object(f.config)) return REFUSE(r, diag, "%s: \"configuration\" is no object", r->where);
    if (rest) return pass_own(r, rest, f.config, diag);
    if (!json_is_object(times)) return REFUSE(r, diag, "%s: \"times\" is no object", r->where);
    f.status = tw_interchange_status_find(NULL, f.message, NULL);
    if (!f.status)
        return REFUSE(r, diag,
                      "%s: \"invalidity\" is not correct, correctness, constraints, compile, runtime or timeout",
                      r->where);
    if (f.times && !json_is_array(f.times)) return REFUSE(r, diag, "%s: \"runtimes\" is no list", r->where);
    f.scale = json_array_size(f.times) || !unit || !*unit ? r->scale : unit_of(unit);
    if (!f.scale) return REFUSE(r, diag, "%s: the unit of \"time\" is not ns, us, ms or s", r->where);
    return pass_foreign(r, &f, diag);
}

static tw_status read_t4(reading *r, const json_t *root, tw_diag *diag) {
    const json_t *results = json_object_get(root, "results"), *metadata = json_object_get(root, "metadata");
    const json_t *unit = json_object_get(metadata, "timeunit");
    const char *version = json_string_value(json_object_get(root, "schema_version"));
    if (!version || strncmp(version, "1.", 2) != 0)
        return REFUSE(r, diag, "\"schema_version\" is not 1.0.0 or a later version 1");
    if (!json_is_array(results)) return REFUSE(r, diag, "\"results\" is no list");
    r->from = "from=t4";
    r->scale = json_is_string(unit) ? unit_of(json_string_value(unit)) : 1e3;
    if (!r->scale || (unit && !json_is_string(unit)))
        return REFUSE(r, diag, "metadata: \"timeunit\" is not nanoseconds, microseconds, milliseconds or seconds");
    tw_status st = set_names(r, json_object_get(metadata, TW_INTERCHANGE_REST), NULL, NULL, NULL, diag);
    for (size_t i = 0; i < json_array_size(results) && st == TW_OK; i++) {
        snprintf(r->where, sizeof r->where, "results[%zu]", i);
        st = read_result(r, json_array_get(results, i), diag);
    }
    return st;
}

/* ---- Kernel Tuner's cache */

/* Returns what became of an entry. Older versions have the name of the error in place of the time. */
static const tw_interchange_status *status_of(const json_t *entry) {
    static const char *const fields[] = {"__error__", "time"};
    const tw_interchange_status *found = NULL;
    for (size_t i = 0; i < sizeof fields / sizeof *fields && !found; i++)
        found = tw_interchange_status_find(NULL, NULL, json_string_value(json_object_get(entry, fields[i])));
    return found ? found : tw_interchange_status_find("right", NULL, NULL);
}

/* Makes the configuration of an entry. */
static tw_status make_config(const reading *r, const json_t *keys, const json_t *entry, json_t **out, tw_diag *diag) {
    tw_status st = TW_OK;
    *out = json_object();
    for (size_t i = 0; i < json_array_size(keys) && st == TW_OK; i++) {
        const char *name = json_string_value(json_array_get(keys, i));
        json_t *v = json_object_get(entry, name);
        if (!v)
            st = REFUSE(r, diag, "%s: it has no value of \"%.60s\"", r->where, name);
        else if (json_object_set(*out, name, v))
            st = tw_fail_memory(diag);
    }
    return st;
}

static tw_status read_entry(reading *r, const json_t *keys, const json_t *entry, tw_diag *diag) {
    const json_t *rest = json_object_get(entry, TW_INTERCHANGE_REST);
    foreign f = {.status = status_of(entry),
                 .times = json_object_get(entry, "times"),
                 .time = json_object_get(entry, "time"),
                 .scale = r->scale,
                 .when = json_object_get(entry, "timestamp"),
                 .clock = json_object_get(entry, "core_freq"),
                 .watts = json_object_get(entry, "nvml_power")};
    if (!json_is_object(entry)) return REFUSE(r, diag, "%s is no object", r->where);
    f.message = f.status->cache;
    tw_status st = make_config(r, keys, entry, &f.config, diag);
    for (size_t i = 0; i < json_array_size(rest) && st == TW_OK; i++)
        st = pass_own(r, json_array_get(rest, i), f.config, diag);
    if (st == TW_OK && !json_array_size(rest)) st = pass_foreign(r, &f, diag);
    json_decref(f.config);
    return st;
}

static tw_status read_cache(reading *r, const json_t *root, tw_diag *diag) {
    const json_t *keys = json_object_get(root, "tune_params_keys");
    json_t *cache = json_object_get(root, "cache"), *entry;
    const char *device = json_string_value(json_object_get(root, "device_name")), *key;
    const char *kernel = json_string_value(json_object_get(root, "kernel_name"));
    char problem[200];
    bool good = json_array_size(keys);
    for (size_t i = 0; i < json_array_size(keys); i++) good &= json_is_string(json_array_get(keys, i));
    if (!good) return REFUSE(r, diag, "\"tune_params_keys\" is no list of names");
    if (!json_is_object(cache)) return REFUSE(r, diag, "\"cache\" is no object");
    const bool sized = tw_interchange_sizes(json_object_get(root, "problem_size"), problem, sizeof problem);
    r->from = "from=kernel-tuner";
    r->scale = 1e3;
    tw_status st =
        set_names(r, json_object_get(root, TW_INTERCHANGE_REST), device, kernel, sized ? problem : NULL, diag);
    json_object_foreach(cache, key, entry) {
        if (st != TW_OK) break;
        snprintf(r->where, sizeof r->where, "cache \"%.120s\"", key);
        st = read_entry(r, keys, entry, diag);
    }
    return st;
}

/* Parses a cache. One whose writer was interrupted ends after an entry and a comma, or before the first entry. */
static tw_status parse_cache(json_t **root, const char *text, size_t size, const char *path, tw_diag *diag) {
    while (size && strchr(" \t\r\n", text[size - 1])) size--;
    const bool open = size && (text[size - 1] == ',' || text[size - 1] == '{');
    tw_buf closed = {0};
    if (!open) return tw_json_parse(root, text, size, path, -1, diag);
    const bool good = tw_buf_add(&closed, text, size - (text[size - 1] == ',')) && tw_buf_str(&closed, "}}");
    const tw_status st = good ? tw_json_parse(root, closed.data, closed.size, path, -1, diag) : tw_fail_memory(diag);
    tw_buf_free(&closed);
    return st;
}

tw_status tw_interchange_read(const char *text, size_t size, const char *path, const tw_interchange_names *names,
                              tw_status (*take)(void *context, const tw_measurement *m, tw_diag *diag), void *context,
                              tw_diag *diag) {
    static const tw_interchange_names none = {0};
    reading r = {.path = path, .names = names ? names : &none, .take = take, .context = context};
    const tw_interchange format = tw_interchange_detect(text, size);
    const bool cache = format == TW_INTERCHANGE_CACHE;
    json_t *root = NULL;
    if (!cache && format != TW_INTERCHANGE_T4) return REFUSE(&r, diag, "neither T4 nor a cache of Kernel Tuner");
    tw_status st =
        cache ? parse_cache(&root, text, size, path, diag) : tw_json_parse(&root, text, size, path, -1, diag);
    if (st == TW_OK) st = cache ? read_cache(&r, root, diag) : read_t4(&r, root, diag);
    json_decref(root);
    json_decref(r.environment);
    json_decref(r.space);
    json_decref(r.problem);
    return st;
}
