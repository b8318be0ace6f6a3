/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `export` prints the measurements of a store as text. */
#include "base/diag.h"
#include "base/file.h"
#include "cli/cli.h"
#include "tune/interchange.h"
#include "tune/lines.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

typedef struct exporting {
    tw_interchange format;
    const char *environment; /* Value of --environment: a device's name, or an environment as JSON. NULL: any. */
    json_t *parsed;          /* `environment` as JSON. NULL: it is no JSON. */
    json_t *all;             /* Measurements of a file that is not lines (tw_interchange_add). */
    tw_buf out;              /* The text that is written. */
} exporting;

/* Tells whether --environment selects an environment. */
static bool is_asked(const exporting *e, const char *environment) {
    if (!e->environment || !strcmp(e->environment, environment)) return true;
    json_t *has = json_loads(environment, 0, NULL);
    const char *device = json_string_value(json_object_get(has, "device"));
    const bool asked = (device && !strcmp(device, e->environment)) || (e->parsed && json_equal(e->parsed, has));
    json_decref(has);
    return asked;
}

static tw_status take(void *context, const tw_measurement *m, tw_diag *diag) {
    exporting *e = context;
    if (!is_asked(e, m->environment)) return TW_OK;
    return e->format == TW_INTERCHANGE_LINES ? tw_lines_write(&e->out, m, diag) : tw_interchange_add(&e->all, m, diag);
}

static tw_status finish(exporting *e, tw_diag *diag) {
    switch (e->format) {
    case TW_INTERCHANGE_T4:
        return tw_interchange_write_t4(&e->out, e->all, diag);
    case TW_INTERCHANGE_CACHE:
        return tw_interchange_write_cache(&e->out, e->all, diag);
    default:
        return TW_OK;
    }
}

static tw_status export_store(exporting *e, const char *path, const char *to, const tw_store_filter *f, tw_diag *diag) {
    tw_store_report report = {0};
    tw_store *s;
    tw_status st = tw_store_open(&s, path, true, diag);
    if (st != TW_OK) return st;
    st = tw_store_read(s, f, take, e, &report, diag);
    if (st == TW_OK) st = finish(e, diag);
    if (st == TW_OK && report.damaged)
        fprintf(stderr, "tilewright: %s: %lld damaged measurements are left out\n", path, (long long)report.damaged);
    if (st == TW_OK) st = tw_file_write(to, e->out.data ? e->out.data : "", e->out.size, diag);
    tw_store_close(s);
    return st;
}

/* Reads the name of a format. */
static bool read_format(const char *word, tw_interchange *out) {
    static const struct {
        const char *word;
        tw_interchange format;
    } all[] = {{"jsonl", TW_INTERCHANGE_LINES}, {"t4", TW_INTERCHANGE_T4}, {"kernel-tuner", TW_INTERCHANGE_CACHE}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(word, all[i].word)) {
            *out = all[i].format;
            return true;
        }
    return false;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *path = NULL, *to = "-", *format = "jsonl";
    tw_store_filter f = {0};
    exporting e = {0};
    const cli_flag flags[] = {
        {"--format", CLI_TEXT, &format, "jsonl|t4|kernel-tuner",
         "a line of JSON each, autotuners' T4, or Kernel Tuner's cache (default jsonl)"},
        {"--space", CLI_TEXT, &f.space, "NAME", "only of this space, e.g. gemm"},
        {"--problem", CLI_TEXT, &f.problem, "WORDS", "only of this problem, in the words of the lines"},
        {"--environment", CLI_TEXT, &e.environment, "DEVICE|JSON", "only of this device, or of this environment"},
        {"-o", CLI_TEXT, &to, "FILE", "where to write (default: standard output)"},
    };
    int n, status;
    tw_diag d;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, &path, 1, 1, &n, &status)) return status;
    if (!read_format(format, &e.format))
        return cli_usage("export: --format: \"%s\" is not jsonl, t4 or kernel-tuner", format);
    if (e.environment) e.parsed = json_loads(e.environment, 0, NULL);
    const tw_status st = export_store(&e, path, to, &f, &d);
    json_decref(e.parsed);
    json_decref(e.all);
    tw_buf_free(&e.out);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_export = {
    "export", "STORE", "the measurements of a store as text",
    "tilewright export tuned.db\n"
    "  tilewright export tuned.db --format kernel-tuner --problem \"m=64 n=64 k=64\" -o c.json",
    run};
