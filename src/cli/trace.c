/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace.h"

#include "base/buf.h"
#include "base/file.h"
#include "cli/results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- the summary: a row for each kind of region and wait */

typedef struct row {
    int name;
    tw_event_kind kind;
    int64_t events;
    double total; /* Time of all events. */
} row;

static int by_total(const void *a, const void *b) {
    const row *x = a, *y = b;
    if (x->total != y->total) return x->total > y->total ? -1 : 1;
    return x->name - y->name;
}

/* The rows, those that take most first. NULL: out of memory. */
static row *summarise(const tw_trace *t, int *n, tw_diag *diag) {
    row *rows = calloc((size_t)t->n_names + 1, sizeof *rows);
    *n = 0;
    if (!rows) {
        *diag = (tw_diag){.status = TW_ERR_MEMORY, .offset = -1, .line = -1, .message = "out of memory"};
        return NULL;
    }
    for (int i = 0; i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->kind != TW_EVENT_REGION && e->kind != TW_EVENT_WAIT) continue;
        rows[e->name].name = e->name;
        rows[e->name].kind = e->kind;
        rows[e->name].events++;
        rows[e->name].total += e->end - e->begin;
    }
    for (int i = 0; i < t->n_names; i++)
        if (rows[i].events) rows[(*n)++] = rows[i];
    qsort(rows, (size_t)*n, sizeof *rows, by_total);
    return rows;
}

/* Time of all tracks together. */
static double time_of_tracks(const tw_trace *t) {
    double sum = 0;
    for (int i = 0; i < t->n_tracks; i++) sum += t->tracks[i].end - t->tracks[i].begin;
    return sum;
}

/* A unit of work a nanosecond is 1e9 a second. */
static double rate(double work, const row *r) {
    return r->total > 0 ? work * (double)r->events / r->total : 0;
}

static void print_rate(tw_buf *b, double work, const row *r) {
    if (work > 0)
        tw_buf_printf(b, " %9.1f", rate(work, r));
    else
        tw_buf_str(b, "          ");
}

static tw_status summary_text(const tw_trace *t, tw_buf *b, tw_diag *diag) {
    int n;
    row *rows = summarise(t, &n, diag);
    if (!rows) return diag->status;
    const double all = time_of_tracks(t);
    tw_buf_printf(b, "%s, %s\n%d tracks, %d events, %d edges, %.1f µs", t->title, t->device, t->n_tracks, t->n_events,
                  t->n_edges, tw_trace_length(t) * 1e-3);
    if (t->clean > 0 && t->traced > 0)
        tw_buf_printf(b, "; %.1f µs with records, %.1f µs without", t->traced * 1e-3, t->clean * 1e-3);
    tw_buf_printf(b, "\n\n%-20s %8s %12s %10s %7s %9s %9s\n", "region", "events", "total µs", "mean µs", "share",
                  "GFLOP/s", "GB/s");
    for (int i = 0; i < n; i++) {
        const tw_trace_name *name = &t->names[rows[i].name];
        tw_buf_printf(b, "%-20s %8lld %11.1f %9.2f %5.1f %%", name->text, (long long)rows[i].events,
                      rows[i].total * 1e-3, rows[i].total * 1e-3 / (double)rows[i].events,
                      all > 0 ? 100 * rows[i].total / all : 0);
        print_rate(b, name->flops, &rows[i]);
        print_rate(b, name->bytes, &rows[i]);
        while (b->size && b->data[b->size - 1] == ' ') b->data[--b->size] = 0;
        tw_buf_str(b, "\n");
    }
    free(rows);
    if (!b->failed) return TW_OK;
    *diag = (tw_diag){.status = TW_ERR_MEMORY, .offset = -1, .line = -1, .message = "out of memory"};
    return TW_ERR_MEMORY;
}

static tw_status write_summary(const tw_trace *t, const char *path, tw_diag *diag) {
    tw_buf b = {0};
    tw_status st = summary_text(t, &b, diag);
    if (st == TW_OK) st = tw_file_write(path, b.data, b.size, diag);
    tw_buf_free(&b);
    return st;
}

static tw_status print_json(const tw_trace *t, const cli_trace_flags *f, tw_diag *diag) {
    int n;
    row *rows = summarise(t, &n, diag);
    if (!rows) return diag->status;
    int64_t dropped = 0;
    json_t *list = json_array();
    for (int i = 0; i < t->n_tracks; i++) dropped += t->tracks[i].dropped;
    for (int i = 0; i < n; i++) {
        const tw_trace_name *name = &t->names[rows[i].name];
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f}", "name", name->text, "kind",
                                              tw_event_kind_name(rows[i].kind), "events", (json_int_t)rows[i].events,
                                              "total", rows[i].total, "mean", rows[i].total / (double)rows[i].events,
                                              "flops", name->flops, "bytes", name->bytes));
    }
    free(rows);
    json_t *o = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:f, s:f, s:f, s:o}", "title", t->title, "device",
                          t->device, "unit", t->unit, "tracks", t->n_tracks, "events", t->n_events, "edges", t->n_edges,
                          "dropped", (json_int_t)dropped, "length", tw_trace_length(t), "clean", t->clean, "traced",
                          t->traced, "regions", list);
    if (o && f->as) json_object_set_new(o, "file", json_string(f->file));
    cli_results_print(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    return TW_OK;
}

/* -- files */

/* A kind of file. Writers of src/prof are added here and to CLI_TRACE_FORMATS, the default's first. */
static const struct cli_trace_format {
    const char *name, *suffix;
    tw_status (*write)(const tw_trace *t, const char *path, tw_diag *diag);
} formats[] = {
    {"summary", ".txt", write_summary},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static bool ends_with(const char *text, const char *suffix) {
    const size_t n = strlen(text), m = strlen(suffix);
    return n >= m && !strcmp(text + n - m, suffix);
}

tw_status cli_trace_check(cli_trace_flags *f, tw_diag *diag) {
    *diag = (tw_diag){.status = TW_ERR_USAGE, .offset = -1, .line = -1};
    f->as = NULL;
    if (f->format && !f->file) {
        snprintf(diag->message, sizeof diag->message, "--format is of the file that -o names");
        return TW_ERR_USAGE;
    }
    if (!f->file) return TW_OK;
    for (int i = FORMATS - 1; i >= 0; i--)
        if (f->format ? !strcmp(f->format, formats[i].name) : !i || ends_with(f->file, formats[i].suffix)) {
            f->as = &formats[i];
            return strcmp(f->file, "-") ? tw_file_check(f->file, diag) : TW_OK;
        }
    snprintf(diag->message, sizeof diag->message, "--format: \"%s\" is not " CLI_TRACE_FORMATS, f->format);
    return TW_ERR_USAGE;
}

tw_status cli_trace_print(const tw_trace *t, const cli_trace_flags *f, tw_diag *diag) {
    tw_status st = f->as ? f->as->write(t, f->file, diag) : TW_OK;
    if (st != TW_OK || (f->as && !strcmp(f->file, "-"))) return st;
    if (f->json) return print_json(t, f, diag);
    return write_summary(t, "-", diag);
}

/* -- the verb */

/* Kinds of traces. Anything else is a model. */
static const struct {
    const char *object;
    int (*run)(const cli_verb *verb, int argc, char **argv);
} kinds[] = {
    {NULL, cli_trace_model},
};

static int run(const cli_verb *verb, int argc, char **argv) {
    size_t i = 0;
    while (kinds[i].object && (!argc || strcmp(argv[0], kinds[i].object))) i++;
    return kinds[i].object ? kinds[i].run(verb, argc - 1, argv + 1) : kinds[i].run(verb, argc, argv);
}

const cli_verb cli_trace = {"trace", "MODEL", "when each worker did what in a model's step, and what it waited for",
                            "tilewright trace models/demo --context 100 -o step.txt", run};
