/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace_improve.h"

#include "base/diag.h"
#include "base/stats.h"
#include "kernels/gemm/space.h"
#include "prof/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Differences below these are taken for noise. */
#define LEAST_PREDICTED 0.01  /* The least gain that a trace must predict, as a part of the time. */
#define LEAST_MEASURED  0.005 /* The least gain that must be measured, as a part of the time. */

enum { TURNS = 5 };

/* An edit of a parameter, and the edit of the trace that predicts it. */
static const struct {
    const char *kernel; /* The first word of the kernel's problem. */
    const char *word;
    int add; /* Added to the value. 0: the edit sets the value from `from` to `to`. */
    int from, to;
    const char *with; /* The edit is for configurations with this word. NULL: for all. */
    const char *edit;
} edits[] = {
    {"gemm", "stages", 1, 0, 0, NULL, "tiles.empty=+1"}, /* Kernels with tensor copies. */
    {"gemm", "stages", 1, 0, 0, NULL, "copies=+1"},      /* Kernels with cp.async. */
    /* On an H200 the store took 0.1333 of its time with exchanged sums (docs/prof-records.md). */
    {"gemm", "staged", 0, TW_GEMM_DIRECT, TW_GEMM_EXCHANGED, "mma=2", "store=0.1333"},
    {"attention", "overlap", 0, 0, 1, NULL, "overlap=1"},
    {"attention", "pingpong", 0, 0, 1, NULL, "pingpong=1"},
    {"attention", "pingpong", 0, 1, 0, NULL, "pingpong=0"},
    {"attention", "stages", 1, 0, 0, NULL, "keys.empty=+1,values.empty=+1"},
};
enum { EDITS = sizeof edits / sizeof *edits };

/* ---- choosing */

/* Finds a parameter's value in a configuration's words. NULL: the parameter is not there. */
static const char *value_of(const char *configuration, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = configuration; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (!strncmp(at, word, n) && at[n] == '=') return at + n + 1;
    }
    return NULL;
}

static bool has(const char *configuration, const char *with) {
    char word[CLI_IMPROVEMENT_TEXT];
    const char *equals = strchr(with, '=');
    snprintf(word, sizeof word, "%.*s", (int)(equals - with), with);
    const char *value = value_of(configuration, word);
    return value && strtol(value, NULL, 10) == strtol(equals + 1, NULL, 10);
}

static bool tried(const cli_improvements *done, const char *word, int to) {
    for (int i = 0; i < done->n; i++)
        if (!strcmp(done->list[i].word, word) && (done->list[i].to == to || done->list[i].from == to)) return true;
    return false;
}

/* Finds the untried edit with the largest predicted gain. `next` becomes the configuration with that edit. x->word is
   NULL if no edit gains enough. */
static tw_status choose(const cli_traced *kernel, const tw_trace *t, const cli_improvements *done, cli_improvement *x,
                        char next[CLI_CONFIGURATION], tw_diag *diag) {
    tw_gpu_kernel_info info;
    tw_gpu_kernel_describe(kernel->kernel, &info);
    tw_status st = TW_OK;
    *x = (cli_improvement){.predicted = 1 - LEAST_PREDICTED};
    for (int i = 0; i < EDITS && st == TW_OK; i++) {
        const char *value = value_of(info.configuration, edits[i].word);
        tw_prediction p;
        if (strncmp(kernel->problem, edits[i].kernel, strlen(edits[i].kernel)) != 0 || !value) continue;
        if (edits[i].with && !has(info.configuration, edits[i].with)) continue;
        const int from = (int)strtol(value, NULL, 10), to = edits[i].add ? from + edits[i].add : edits[i].to;
        if ((!edits[i].add && from != edits[i].from) || tried(done, edits[i].word, to)) continue;
        st = cli_trace_predict(t, edits[i].edit, &p, diag);
        if (st == TW_ERR_USAGE) { /* The trace has nothing of that name. */
            st = TW_OK;
            continue;
        }
        if (st != TW_OK || !(p.before > 0) || p.after / p.before > x->predicted) continue;
        *x = (cli_improvement){.word = edits[i].word, .from = from, .to = to, .edit = edits[i].edit};
        x->predicted = p.after / p.before;
        snprintf(next, CLI_CONFIGURATION, "%.*s%d%s", (int)(value - info.configuration), info.configuration, to,
                 value + strcspn(value, " "));
    }
    return st;
}

/* ---- trying */

/* Computes the time of `b` over the time of `a`. A GPU runs the two in turn. */
static tw_status compare(cli_traced *a, const tw_trace *of_a, cli_traced *b, const tw_trace *of_b, double *ratio,
                         tw_diag *diag) {
    double times[2][TURNS];
    *ratio = tw_trace_length(of_b) / tw_trace_length(of_a);
    if (!a->gpu->cuda) return TW_OK;
    for (int i = 0; i < TURNS; i++)
        for (int j = 0; j < 2; j++) {
            const int which = (i + j) & 1;
            cli_traced *x = which ? b : a;
            tw_trace_times one;
            const tw_status st = tw_kernel_trace_times(x->kernel, x->launch, &one, diag);
            if (st != TW_OK) return st;
            times[which][i] = one.clean;
        }
    *ratio = tw_stats_of(times[1], TURNS).median / tw_stats_of(times[0], TURNS).median;
    return TW_OK;
}

/* Builds, traces and times the kernel with the configuration `next`. *t is its trace. */
static tw_status measure(cli_traced *before, const tw_trace *of_before, cli_traced *after, tw_trace **t,
                         const char *next, cli_improvement *x, tw_diag *diag) {
    tw_status st = cli_traced_open(after, before->as, before->problem, next, diag);
    if (st == TW_OK) st = cli_traced_run(after, t, NULL, diag);
    if (st == TW_OK && (after->bytes != before->bytes || memcmp(after->result, before->result, after->bytes) != 0))
        st = tw_fail(diag, TW_ERR_MISMATCH, "the results are not those with %s=%d", x->word, x->from);
    if (st == TW_OK) st = compare(before, of_before, after, *t, &x->measured, diag);
    return st;
}

/* Tries an edit. *kernel and *t become the new kernel and its trace if the edit is kept. */
static tw_status try_edit(cli_traced *kernel, tw_trace **t, const char *next, cli_improvement *x, tw_diag *diag) {
    cli_traced other;
    tw_trace *of_other = NULL;
    tw_status st = measure(kernel, *t, &other, &of_other, next, x, diag);
    if (st == TW_ERR_USAGE || st == TW_ERR_UNSUPPORTED || st == TW_ERR_MEMORY) {
        snprintf(x->why, sizeof x->why, "%.*s", CLI_IMPROVEMENT_TEXT - 1, diag->message);
        st = TW_OK;
    } else if (st != TW_OK) {
        const tw_diag reason = *diag;
        tw_fail(diag, st, "with %s=%d: %s", x->word, x->to, reason.message);
    } else if (x->measured <= 1 - LEAST_MEASURED) {
        const cli_traced slower = *kernel;
        tw_trace *of_slower = *t;
        x->kept = true;
        *kernel = other;
        *t = of_other;
        other = slower;
        of_other = of_slower;
    }
    tw_trace_free(of_other);
    cli_traced_close(&other);
    return st;
}

tw_status cli_trace_improve(cli_traced *kernel, tw_trace **t, cli_improvements *out, tw_diag *diag) {
    tw_status st = TW_OK;
    tw_gpu_kernel_info info;
    while (st == TW_OK && out->n < CLI_IMPROVEMENTS) {
        cli_improvement *x = &out->list[out->n];
        char next[CLI_CONFIGURATION];
        st = choose(kernel, *t, out, x, next, diag);
        if (st != TW_OK || !x->word) break;
        out->n++;
        st = try_edit(kernel, t, next, x, diag);
    }
    tw_gpu_kernel_describe(kernel->kernel, &info);
    snprintf(out->configuration, sizeof out->configuration, "%s", info.configuration);
    return st;
}

/* ---- results */

static json_t *improvement_json(const cli_improvement *x) {
    json_t *o = json_pack("{s:s, s:i, s:i, s:s, s:f, s:b}", "word", x->word, "from", x->from, "to", x->to, "edit",
                          x->edit, "predicted", x->predicted, "kept", x->kept);
    const int failed = *x->why ? json_object_set_new(o, "why", json_string(x->why))
                               : json_object_set_new(o, "measured", json_real(x->measured));
    if (!failed) return o;
    json_decref(o);
    return NULL;
}

json_t *cli_improvements_json(const cli_improvements *x) {
    json_t *list = json_array();
    bool fine = list != NULL;
    for (int i = 0; fine && i < x->n; i++) fine = json_array_append_new(list, improvement_json(&x->list[i])) == 0;
    if (fine) return list;
    json_decref(list);
    return NULL;
}

void cli_improvements_print(const cli_improvements *x) {
    if (!x->n) printf("no edit is predicted to be worth it\n");
    for (int i = 0; i < x->n; i++) {
        const cli_improvement *e = &x->list[i];
        printf("%s=%d for %d (%s): predicted %+.1f %%, ", e->word, e->to, e->from, e->edit, 100 * (e->predicted - 1));
        if (*e->why)
            printf("not possible: %s\n", e->why);
        else
            printf("measured %+.1f %%: %s\n", 100 * (e->measured - 1), e->kept ? "kept" : "not kept");
    }
    printf("configuration: %s\n\n", x->configuration);
    fflush(stdout); /* What is printed next does not go through stdio. */
}
