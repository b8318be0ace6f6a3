/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `export` prints the measurements of a store as text. */
#define _POSIX_C_SOURCE 200809L
#include "base/diag.h"
#include "base/file.h"
#include "cli/cli.h"
#include "tune/lines.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct exporting {
    json_t *results; /* T4: what was read so far. NULL: a line each is written. */
    char *problem;   /* T4: the problem of the results. */
    tw_buf out;
} exporting;

static tw_status put_t4(exporting *e, tw_diag *diag) {
    json_t *o = json_pack("{s:s, s:O}", "schema_version", "1.0.0", "results", e->results);
    char *text = o ? json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    const bool good = text && tw_buf_str(&e->out, text) && tw_buf_str(&e->out, "\n");
    free(text);
    json_decref(o);
    return good ? TW_OK : tw_fail_memory(diag);
}

static tw_status take(void *context, const tw_measurement *m, tw_diag *diag) {
    exporting *e = context;
    if (!e->results) return tw_lines_write(&e->out, m, diag);
    if (!e->problem && !(e->problem = strdup(m->problem))) return tw_fail_memory(diag);
    if (strcmp(e->problem, m->problem) != 0)
        return tw_fail(diag, TW_ERR_USAGE, "T4 has one problem a file: say which with --problem \"%s\"", e->problem);
    json_t *o = tw_t4_result(m);
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
    if (st == TW_OK && t4) st = put_t4(&e, diag);
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
