/* SPDX-License-Identifier: Apache-2.0 */
/* `tilewright export`: measurements of a store as text. */
#define _POSIX_C_SOURCE 200809L
#include "base/diag.h"
#include "base/file.h"
#include "cli/cli.h"
#include "tune/store.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct exporting {
    json_t *results; /* T4: what was read so far. NULL: a line each is written. */
    char *problem;   /* T4: the problem of the results. */
    tw_buf out;
} exporting;

/* "ml=64 mma=1" as an object. Values that are no numbers stay texts. */
static json_t *words_object(const char *words) {
    json_t *o = json_object();
    while (*words) {
        const size_t n = strcspn(words, " "), name = strcspn(words, "= ");
        if (name < n) {
            char value[256], *end;
            snprintf(value, sizeof value, "%.*s", (int)(n - name - 1), words + name + 1);
            const long long whole = strtoll(value, &end, 10);
            json_t *v = *value && !*end ? json_integer(whole) : json_string(value);
            json_object_setn_new(o, words, name, v);
        }
        words += n + (words[n] == ' ');
    }
    return o;
}

static json_t *numbers(const double *x, int n, double scale) {
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, json_real(x[i] * scale));
    return a;
}

static json_t *timestamp(int64_t ns) {
    char text[64] = "";
    const time_t seconds = (time_t)(ns / 1000000000);
    struct tm utc;
    if (gmtime_r(&seconds, &utc)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_string(text);
}

static double mean(const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return n ? sum / n : 0;
}

/* The open format of autotuners' results, version 1.0.0. Its times are milliseconds. */
static json_t *t4_result(const tw_measurement *m) {
    const double scale = !strcmp(m->unit, "us") ? 1e-3 : 1;
    const char *invalidity = m->status == TW_OK ? "correct" : m->status == TW_ERR_MISMATCH ? "correctness" : "runtime";
    json_t *measured = json_array();
    if (m->status == TW_OK)
        json_array_append_new(measured, json_pack("{s:s, s:f, s:s}", "name", "time", "value",
                                                  mean(m->samples, m->n) * scale, "unit", scale < 1 ? "ms" : m->unit));
    return json_pack("{s:o, s:o, s:{s:f, s:o, s:f, s:f, s:f}, s:s, s:f, s:o, s:[s]}", "timestamp", timestamp(m->began),
                     "configuration", words_object(m->config), "times", "compilation_time", 0.0, "runtimes",
                     numbers(m->samples, m->n, scale), "framework", 0.0, "search_algorithm", 0.0, "validation", 0.0,
                     "invalidity", invalidity, "correctness", m->status == TW_OK ? 1.0 : 0.0, "measurements", measured,
                     "objectives", "time");
}

static json_t *line_of(const tw_measurement *m) {
    json_t *environment = json_loads(m->environment, 0, NULL);
    json_t *o =
        json_pack("{s:o, s:s, s:s, s:o, s:s, s:s, s:b, s:o, s:o}", "environment",
                  environment ? environment : json_string(m->environment), "space", m->space, "problem", m->problem,
                  "config", words_object(m->config), "protocol", m->protocol, "unit", m->unit, "correct",
                  m->status == TW_OK, "samples", numbers(m->samples, m->n, 1), "began", timestamp(m->began));
    if (m->key) json_object_set_new(o, "key", json_string(m->key));
    if (*m->message) json_object_set_new(o, "message", json_string(m->message));
    if (m->clock_mhz > 0) json_object_set_new(o, "clock_mhz", json_real(m->clock_mhz));
    if (m->watts > 0) json_object_set_new(o, "watts", json_real(m->watts));
    return o;
}

static tw_status put(exporting *e, json_t *o, size_t flags, tw_diag *diag) {
    char *text = o ? json_dumps(o, flags) : NULL;
    const bool good = text && tw_buf_str(&e->out, text) && tw_buf_str(&e->out, "\n");
    free(text);
    json_decref(o);
    return good ? TW_OK : tw_fail_memory(diag);
}

static tw_status take(void *context, const tw_measurement *m, tw_diag *diag) {
    exporting *e = context;
    if (!e->results) return put(e, line_of(m), JSON_REAL_PRECISION(9), diag);
    if (!e->problem && !(e->problem = strdup(m->problem))) return tw_fail_memory(diag);
    if (strcmp(e->problem, m->problem) != 0)
        return tw_fail(diag, TW_ERR_USAGE, "T4 has one problem a file: say which with --problem \"%s\"", e->problem);
    json_t *o = t4_result(m);
    return o && !json_array_append_new(e->results, o) ? TW_OK : tw_fail_memory(diag);
}

static tw_status export_store(const char *path, const char *to, bool t4, const tw_store_filter *f, tw_diag *diag) {
    exporting e = {.results = t4 ? json_array() : NULL};
    tw_store_report report = {0};
    tw_store *s;
    tw_status st = tw_store_open(&s, path, true, diag);
    if (st != TW_OK) {
        json_decref(e.results);
        return st;
    }
    st = tw_store_read(s, f, take, &e, &report, diag);
    if (st == TW_OK && t4)
        st = put(&e, json_pack("{s:s, s:O}", "schema_version", "1.0.0", "results", e.results),
                 JSON_INDENT(1) | JSON_REAL_PRECISION(9), diag);
    if (st == TW_OK && report.damaged)
        fprintf(stderr, "tilewright: %s: %lld damaged measurements are left out\n", path, (long long)report.damaged);
    if (st == TW_OK) st = tw_file_write(to, e.out.data ? e.out.data : "", e.out.size, diag);
    json_decref(e.results);
    free(e.problem);
    tw_buf_free(&e.out);
    tw_store_close(s);
    return st;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *path = NULL, *to = "-", *format = "jsonl";
    tw_store_filter f = {0};
    const cli_flag flags[] = {
        {"--format", CLI_TEXT, &format, "jsonl|t4", "a line of JSON each, or the autotuners' T4 (default jsonl)"},
        {"--space", CLI_TEXT, &f.space, "NAME", "only of this space, e.g. gemm"},
        {"--problem", CLI_TEXT, &f.problem, "WORDS", "only of this problem, in the words of the lines"},
        {"-o", CLI_TEXT, &to, "FILE", "where to write (default: standard output)"},
    };
    int n, status;
    tw_diag d;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, &path, 1, 1, &n, &status)) return status;
    const bool t4 = !strcmp(format, "t4");
    if (!t4 && strcmp(format, "jsonl") != 0) return cli_usage("export: --format: \"%s\" is not jsonl or t4", format);
    return export_store(path, to, t4, &f, &d) == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_export = {"export", "STORE", "the measurements of a store as text",
                             "tilewright export tuned.db\n  tilewright export tuned.db --format t4 -o results.json",
                             run};
