/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace.h"

#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
#include "cli/results.h"
#include "cli/trace_improve.h"
#include "prof/analysis.h"
#include "prof/chrome.h"
#include "prof/perfetto.h"
#include "prof/report.h"
#include "prof/summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- the summary */

static tw_status put_summary(const tw_trace *t, const char *path, tw_diag *diag) {
    tw_summary s;
    tw_buf b = {0};
    tw_status st = tw_summary_make(&s, t, diag);
    if (st == TW_OK) {
        tw_summary_text(&b, &s, t);
        st = b.failed ? tw_fail_memory(diag) : tw_file_write(path, b.data, b.size, diag);
    }
    tw_buf_free(&b);
    tw_summary_free(&s);
    return st;
}

enum { ROWS = 8 }; /* The most rows that are printed of each list. */

static tw_status add_analysis(json_t *o, const tw_trace *t, tw_diag *diag) {
    tw_analysis a;
    tw_status st = tw_analysis_make(&a, t, NULL, diag);
    if (st != TW_OK) return st;
    if (json_object_set_new(o, "analysis", tw_analysis_json(&a, t, ROWS))) st = tw_fail_memory(diag);
    tw_analysis_free(&a);
    return st;
}

static tw_status add_prediction(json_t *o, const tw_trace *t, const char *edits, tw_diag *diag) {
    tw_prediction p;
    tw_status st = cli_trace_predict(t, edits, &p, diag);
    if (st != TW_OK) return st;
    json_t *x = json_pack("{s:s, s:f, s:f}", "edits", edits, "before", p.before, "after", p.after);
    return json_object_set_new(o, "predicted", x) ? tw_fail_memory(diag) : TW_OK;
}

static tw_status print_json(const tw_trace *t, const cli_trace_flags *f, tw_diag *diag) {
    tw_summary s;
    json_t *o = NULL;
    tw_status st = tw_summary_make(&s, t, diag);
    if (st == TW_OK && !(o = tw_summary_json(&s, t))) st = tw_fail_memory(diag);
    if (st == TW_OK && (json_object_set_new(o, "edges", json_integer(t->n_edges)) ||
                        (f->as && json_object_set_new(o, "file", json_string(f->file)))))
        st = tw_fail_memory(diag);
    if (st == TW_OK && f->analyse) st = add_analysis(o, t, diag);
    if (st == TW_OK && f->analyse) st = cli_trace_add_orders(o, t, diag);
    if (st == TW_OK && f->edits) st = add_prediction(o, t, f->edits, diag);
    if (st == TW_OK && f->improvements &&
        (json_object_set_new(o, "improvements", cli_improvements_json(f->improvements)) ||
         json_object_set_new(o, "configuration", json_string(f->improvements->configuration))))
        st = tw_fail_memory(diag);
    if (st == TW_OK && f->memory && json_object_set_new(o, "memory", tw_prof_memory_json(f->memory)))
        st = tw_fail_memory(diag);
    if (st == TW_OK)
        cli_results_print(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    else
        json_decref(o);
    tw_summary_free(&s);
    return st;
}

static tw_status print_analysis(const tw_trace *t, tw_diag *diag) {
    tw_analysis a;
    tw_buf b = {0};
    tw_status st = tw_analysis_make(&a, t, NULL, diag);
    if (st != TW_OK) return st;
    if (tw_analysis_lines(&a, t, ROWS, &b))
        st = tw_file_write("-", b.data, b.size, diag);
    else
        st = tw_fail_memory(diag);
    tw_buf_free(&b);
    tw_analysis_free(&a);
    return st;
}

static tw_status print_prediction(const tw_trace *t, const char *edits, tw_diag *diag) {
    tw_prediction p;
    const tw_status st = cli_trace_predict(t, edits, &p, diag);
    if (st != TW_OK) return st;
    const double change = p.before > 0 ? 100 * (p.after / p.before - 1) : 0;
    printf("\nwith %s: %.1f %s instead of %.1f, %+.1f %%\n", edits, p.after, t->unit, p.before, change);
    return TW_OK;
}

static tw_status print_memory(const tw_prof_memory_report *r, tw_diag *diag) {
    tw_buf b = {0};
    tw_buf_str(&b, "\n");
    const tw_status st =
        tw_prof_memory_lines(r, ROWS, &b) ? tw_file_write("-", b.data, b.size, diag) : tw_fail_memory(diag);
    tw_buf_free(&b);
    return st;
}

static tw_status write_report(const tw_trace *t, const cli_trace_flags *f, tw_diag *diag) {
    return tw_trace_report(t, f->memory, f->file, cli_plots(), diag);
}

static tw_status write_perfetto(const tw_trace *t, const cli_trace_flags *f, tw_diag *diag) {
    return tw_perfetto_write(t, f->file, diag);
}

static tw_status write_chrome(const tw_trace *t, const cli_trace_flags *f, tw_diag *diag) {
    return tw_chrome_write(t, f->file, diag);
}

static tw_status write_summary(const tw_trace *t, const cli_trace_flags *f, tw_diag *diag) {
    return put_summary(t, f->file, diag);
}

/* -- files */

/* A kind of file. A file whose name says nothing is of the first. */
static const struct cli_trace_format {
    const char *name, *suffix;
    tw_status (*write)(const tw_trace *t, const cli_trace_flags *f, tw_diag *diag);
} formats[] = {
    {"perfetto", ".pftrace", write_perfetto},
    {"chrome", ".json", write_chrome},
    {"html", ".html", write_report},
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
    snprintf(diag->message, sizeof diag->message, "--format: \"%s\" is not perfetto, chrome, html or summary",
             f->format);
    return TW_ERR_USAGE;
}

tw_status cli_trace_print(const tw_trace *t, const cli_trace_flags *f, tw_diag *diag) {
    tw_status st = f->as ? f->as->write(t, f, diag) : TW_OK;
    if (st != TW_OK || (f->as && !strcmp(f->file, "-"))) return st;
    if (f->json) return print_json(t, f, diag);
    if (f->improvements) cli_improvements_print(f->improvements);
    st = put_summary(t, "-", diag);
    if (st == TW_OK && f->analyse) st = print_analysis(t, diag);
    if (st == TW_OK && f->analyse) cli_trace_print_orders(t);
    if (st == TW_OK && f->edits) st = print_prediction(t, f->edits, diag);
    return st == TW_OK && f->memory ? print_memory(f->memory, diag) : st;
}

/* -- the verb */

/* Kinds of traces. Anything else is a model. */
static const struct {
    const char *object;
    int (*run)(const cli_verb *verb, int argc, char **argv);
} kinds[] = {
    {"kernel", cli_trace_kernel},
    {NULL, cli_trace_model},
};

static int run(const cli_verb *verb, int argc, char **argv) {
    size_t i = 0;
    while (kinds[i].object && (!argc || strcmp(argv[0], kinds[i].object))) i++;
    return kinds[i].object ? kinds[i].run(verb, argc - 1, argv + 1) : kinds[i].run(verb, argc, argv);
}

const cli_verb cli_trace = {"trace", "MODEL|kernel gemm|attention WORD...",
                            "when each warp of a kernel or worker of a model's step did what, and what it waited for",
                            "tilewright trace models/demo --context 100 -o step.pftrace", run};
