/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "tune/lines.h"

#include "base/diag.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The word of each tw_status. */
static const char *const statuses[] = {[TW_OK] = "right",
                                       [TW_ERR_USAGE] = "usage",
                                       [TW_ERR_IO] = "io",
                                       [TW_ERR_FORMAT] = "format",
                                       [TW_ERR_UNSUPPORTED] = "unsupported",
                                       [TW_ERR_MEMORY] = "memory",
                                       [TW_ERR_REJECTED] = "rejected",
                                       [TW_ERR_MISMATCH] = "wrong"};
enum { STATUSES = sizeof statuses / sizeof *statuses };

/* ---- writing */

/* Makes the value of a word: a number if the text is a whole number in its shortest spelling, else a string. */
static json_t *value_of(const char *text, size_t n) {
    char spelled[32];
    const long long whole = strtoll(text, NULL, 10);
    const int length = snprintf(spelled, sizeof spelled, "%lld", whole);
    return (size_t)length == n && !memcmp(spelled, text, n) ? json_integer(whole) : json_stringn(text, n);
}

json_t *tw_lines_words(const char *words) {
    json_t *o = json_object();
    for (const char *at = words + strspn(words, " "); *at && o; at += strspn(at, " ")) {
        const size_t n = strcspn(at, " "), name = strcspn(at, "= ");
        if (name < n && json_object_setn_new(o, at, name, value_of(at + name + 1, n - name - 1))) {
            json_decref(o);
            return NULL;
        }
        at += n;
    }
    return o;
}

/* Makes a list. NULL: out of memory. */
static json_t *numbers(const double *x, int n) {
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, json_real(x[i]));
    if (json_array_size(a) == (size_t)n) return a;
    json_decref(a);
    return NULL;
}

static void print_time(int64_t ns, char text[64]) {
    const time_t seconds = (time_t)(ns / 1000000000);
    struct tm utc;
    *text = 0;
    if (gmtime_r(&seconds, &utc)) strftime(text, 64, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* Makes the environment: an object, or a string if the text is no JSON. NULL: out of memory. */
static json_t *environment_of(const tw_measurement *m) {
    json_error_t e;
    json_t *o = json_loads(m->environment, 0, &e);
    return o || tw_json_lacks_memory(&e) ? o : json_string(m->environment);
}

/* Makes the message. Each byte that is not part of a character, such as those of one that was cut, becomes "?". NULL:
   out of memory. */
static json_t *message_of(const tw_measurement *m) {
    char *text = strdup(m->message);
    if (text) tw_utf8_mend(text);
    json_t *o = text ? json_string(text) : NULL;
    free(text);
    return o;
}

json_t *tw_lines_object(const tw_measurement *m) {
    char began[64];
    print_time(m->began, began);
    json_t *o = json_pack("{s:o, s:s, s:s, s:o, s:s, s:s, s:s, s:o, s:s, s:I}", "environment", environment_of(m),
                          "space", m->space, "problem", m->problem, "config", tw_lines_words(m->config), "protocol",
                          m->protocol, "unit", m->unit, "status", statuses[m->status], "samples",
                          numbers(m->samples, m->n), "began", began, "began_ns", (json_int_t)m->began);
    bool good = o != NULL;
    if (good && *m->message) good = !json_object_set_new(o, "message", message_of(m));
    if (good && m->clock_mhz > 0) good = !json_object_set_new(o, "clock_mhz", json_real(m->clock_mhz));
    if (good && m->watts > 0) good = !json_object_set_new(o, "watts", json_real(m->watts));
    if (good && m->key) good = !json_object_set_new(o, "key", json_string(m->key));
    if (good) return o;
    json_decref(o);
    return NULL;
}

tw_status tw_lines_write(tw_buf *out, const tw_measurement *m, tw_diag *diag) {
    json_t *o = tw_lines_object(m);
    const bool good = tw_json_append(out, o, JSON_REAL_PRECISION(17)) && tw_buf_str(out, "\n");
    json_decref(o);
    return good ? TW_OK : tw_fail_memory(diag);
}

/* ---- reading */

/* Makes words of a JSON object of numbers and strings. NULL: the object has other values, or memory ran out, which sets
 *failed. */
static char *object_words(json_t *o, bool *failed) {
    const char *name;
    json_t *v;
    tw_buf b = {0};
    bool good = json_is_object(o);
    if (good) json_object_foreach(o, name, v) {
            if (json_is_integer(v))
                good &= tw_buf_printf(&b, "%s%s=%lld", b.size ? " " : "", name, (long long)json_integer_value(v));
            else
                good &= json_is_string(v) && !strpbrk(json_string_value(v), " =") &&
                        tw_buf_printf(&b, "%s%s=%s", b.size ? " " : "", name, json_string_value(v));
            good &= *name && !strpbrk(name, " =");
        }
    good = good && tw_buf_add(&b, "", 1);
    if (good) return b.data;
    *failed |= b.failed;
    tw_buf_free(&b);
    return NULL;
}

static const char *text_of(const json_t *o, const char *name) {
    return json_string_value(json_object_get(o, name));
}

/* Reads a number that may be absent. Returns false if the field has another type. */
static bool real_of(const json_t *o, const char *name, double *out) {
    const json_t *v = json_object_get(o, name);
    *out = v ? json_number_value(v) : 0;
    return !v || json_is_number(v);
}

static bool take_samples(tw_line *l) {
    const json_t *all = json_object_get(l->json, "samples");
    const size_t n = json_array_size(all);
    if (!json_is_array(all) || n > TW_STORE_SAMPLES) return false;
    l->samples = malloc((n + 1) * sizeof *l->samples);
    if (!l->samples) return !(l->failed = true);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(all, i);
        if (!json_is_number(v)) return false;
        l->samples[i] = json_number_value(v);
    }
    l->m.samples = l->samples;
    l->m.n = (int)n;
    return true;
}

/* Returns the status that a word stands for. STATUSES: the word is unknown. */
static tw_status status_of(const char *word) {
    int i = 0;
    while (i < STATUSES && (!word || strcmp(word, statuses[i]) != 0)) i++;
    return (tw_status)i;
}

/* Returns the name of a field that is wrong. NULL: all fields are right. */
static const char *take_fields(tw_line *l) {
    const json_t *o = l->json;
    json_t *environment = json_object_get(o, "environment");
    tw_measurement *m = &l->m;
    int64_t began;
    l->environment = json_is_string(environment) ? strdup(json_string_value(environment))
                                                 : tw_json_text(environment, JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    l->failed = environment && !l->environment;
    l->config = object_words(json_object_get(o, "config"), &l->failed);
    if (!(m->environment = l->environment)) return "environment";
    if (!(m->config = l->config)) return "config";
    if (!(m->space = text_of(o, "space"))) return "space";
    if (!(m->problem = text_of(o, "problem"))) return "problem";
    if (!(m->protocol = text_of(o, "protocol"))) return "protocol";
    if (!(m->unit = text_of(o, "unit"))) return "unit";
    m->status = status_of(text_of(o, "status"));
    if (!take_samples(l)) return "samples";
    if (!real_of(o, "clock_mhz", &m->clock_mhz)) return "clock_mhz";
    if (!real_of(o, "watts", &m->watts)) return "watts";
    if (!tw_json_int(json_object_get(o, "began_ns"), INT64_MIN / 2, INT64_MAX / 2, &began)) return "began_ns";
    m->began = began;
    m->message = json_object_get(o, "message") ? text_of(o, "message") : "";
    if (!m->message) return "message";
    m->key = text_of(o, "key");
    return json_object_get(o, "key") && !m->key ? "key" : tw_store_wrong(m);
}

tw_status tw_lines_take(tw_line *out, json_t *object, const char **wrong) {
    *out = (tw_line){.json = object};
    *wrong = json_is_object(object) ? take_fields(out) : "object";
    if (*wrong) {
        const bool failed = out->failed;
        tw_lines_free(out);
        return failed ? TW_ERR_MEMORY : TW_ERR_FORMAT;
    }
    if (out->m.key) return TW_OK;
    uint64_t sum[2];
    tw_store_checksum(&out->m, sum);
    snprintf(out->key, sizeof out->key, "%016llx%016llx", (unsigned long long)sum[0], (unsigned long long)sum[1]);
    out->m.key = out->key;
    return TW_OK;
}

tw_status tw_lines_read(tw_line *out, const char *text, size_t size, const char *path, int number, tw_diag *diag) {
    json_error_t e;
    json_t *object = json_loadb(text, size, JSON_REJECT_DUPLICATES, &e);
    const char *wrong;
    *out = (tw_line){0};
    if (!object && tw_json_lacks_memory(&e)) return tw_fail_memory(diag);
    if (!object) return tw_fail_line(diag, TW_ERR_FORMAT, path, number, e.column, "%s", e.text);
    const tw_status st = tw_lines_take(out, object, &wrong);
    if (st == TW_ERR_MEMORY) return tw_fail_memory(diag);
    return st == TW_OK ? TW_OK
                       : tw_fail_line(diag, TW_ERR_FORMAT, path, number, 1,
                                      "no measurement: \"%s\" is missing or out of range", wrong);
}

void tw_lines_free(tw_line *l) {
    json_decref(l->json);
    free(l->environment);
    free(l->config);
    free(l->samples);
    *l = (tw_line){0};
}
