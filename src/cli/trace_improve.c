/* SPDX-License-Identifier: Apache-2.0 */
/* Edits a kernel's configuration where its trace says that it pays: a stage more in a ring that is waited for, another
   epilogue where the store is critical. Each edit is made, traced and timed, and kept if it is faster. */
#include "base/diag.h"
#include "cli/traced.h"
#include "prof/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 1024 };

/* LEAST_GAIN: what the trace must predict, and LEAST_MEASURED what must be measured, as parts of the time. Below them a
   difference is noise. */
#define LEAST_GAIN     0.01
#define LEAST_MEASURED 0.005

/* An edit of a parameter, and what a trace is asked about it. */
static const struct {
    const char *word;
    int add; /* Added to the value. 0: the value becomes `to`, if it is `from`. */
    int from, to;
    const char *only; /* A word of the configurations that have the edit. */
    const char *edit;
} edits[] = {
    {"stages", 1, 0, 0, "mma=2", "tiles.empty=+1"}, /* Tiles of the copy engine. */
    {"stages", 1, 0, 0, "copy=0", "copies=+1"},     /* A thread's own copies. */
    {"staged", 0, 0, 2, "mma=2", "store=0.15"}, /* Lanes exchange sums. Measured on an H200: docs/prof-records.md. */
};
enum { EDITS = sizeof edits / sizeof *edits };

/* Finds "word=value" in a configuration. NULL: it is not there. */
static const char *find(const char *configuration, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = configuration; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (!strncmp(at, word, n) && at[n] == '=') return at + n + 1;
    }
    return NULL;
}

static bool has(const char *configuration, const char *word) {
    const char *at = strstr(configuration, word);
    return at && (at == configuration || at[-1] == ' ') && (!at[strlen(word)] || at[strlen(word)] == ' ');
}

/* Writes the configuration with another value of a word. */
static void change(char out[TEXT], const char *configuration, const char *word, int value) {
    const char *at = find(configuration, word), *rest = at + strcspn(at, " ");
    snprintf(out, TEXT, "%.*s%d%s", (int)(at - configuration), configuration, value, rest);
}

static double time_of(const tw_trace *t) {
    return t->clean > 0 ? t->clean : tw_trace_length(t);
}

static bool tried(const cli_improvements *done, const char *word, int to) {
    for (int i = 0; i < done->n; i++)
        if (!strcmp(done->list[i].word, word) && done->list[i].to == to) return true;
    return false;
}

/* Finds the edit that gains most by the trace. TW_OK with x->word NULL: none gains enough. */
static tw_status choose(const cli_traced *kernel, const tw_trace *t, const cli_improvements *done, cli_improvement *x,
                        tw_diag *diag) {
    tw_gpu_kernel_info info;
    tw_gpu_kernel_describe(kernel->kernel, &info);
    *x = (cli_improvement){.predicted = 1 - LEAST_GAIN};
    for (int i = 0; i < EDITS; i++) {
        const char *value = find(info.configuration, edits[i].word);
        tw_prediction p;
        if (!value || !has(info.configuration, edits[i].only)) continue;
        const int from = atoi(value), to = edits[i].add ? from + edits[i].add : edits[i].to;
        if ((!edits[i].add && from != edits[i].from) || tried(done, edits[i].word, to)) continue;
        const tw_status st = cli_trace_predict(t, edits[i].edit, &p, diag);
        if (st == TW_ERR_USAGE) continue; /* The kernel has nothing of the name. */
        if (st != TW_OK) return st;
        const double predicted = p.before > 0 ? p.after / p.before : 1;
        if (predicted > x->predicted) continue;
        *x = (cli_improvement){.word = edits[i].word, .from = from, .to = to, .edit = edits[i].edit};
        x->predicted = predicted;
    }
    return TW_OK;
}

/* Builds and traces the kernel with the edit. If it is faster, it takes the place of the one before. */
static tw_status try_edit(cli_traced *kernel, tw_trace **t, cli_improvement *x, tw_diag *diag) {
    cli_traced other;
    tw_gpu_kernel_info info;
    tw_trace *traced = NULL;
    char configuration[TEXT];
    tw_gpu_kernel_describe(kernel->kernel, &info);
    change(configuration, info.configuration, x->word, x->to);
    tw_status st = cli_traced_open(&other, kernel->as, kernel->problem, configuration, diag);
    if (st == TW_ERR_USAGE || st == TW_ERR_UNSUPPORTED) {
        snprintf(x->why, sizeof x->why, "%.*s", CLI_IMPROVEMENT_TEXT - 1, diag->message);
        cli_traced_close(&other);
        return TW_OK;
    }
    if (st == TW_OK) st = cli_traced_run(&other, &traced, NULL, diag);
    if (st == TW_OK && (other.bytes != kernel->bytes || memcmp(other.result, kernel->result, other.bytes) != 0))
        st = tw_fail(diag, TW_ERR_MISMATCH, "%s=%d gives other results than %s=%d", x->word, x->to, x->word, x->from);
    if (st == TW_OK) {
        x->measured = time_of(traced) / time_of(*t);
        x->kept = x->measured <= 1 - LEAST_MEASURED;
    }
    if (x->kept) {
        tw_trace *before = *t;
        const cli_traced slower = *kernel;
        *t = traced;
        *kernel = other;
        traced = before;
        other = slower;
    }
    tw_trace_free(traced);
    cli_traced_close(&other);
    return st;
}

tw_status cli_trace_improve(cli_traced *kernel, tw_trace **t, cli_improvements *out, tw_diag *diag) {
    tw_status st = TW_OK;
    while (st == TW_OK && out->n < CLI_IMPROVEMENTS) {
        cli_improvement *x = &out->list[out->n];
        st = choose(kernel, *t, out, x, diag);
        if (st != TW_OK || !x->word) break;
        out->n++;
        st = try_edit(kernel, t, x, diag);
    }
    return st;
}
