/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the command of a foreign family, sends requests to it and reads its results. */
#include "base/clock.h"
#include "base/diag.h"
#include "base/json.h"
#include "tune/foreign_parts.h"
#include "tune/lines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 100 /* Characters of a line that messages show. */ };

/* Ends the command at once. The diagnostic says why. */
static tw_status give_up(tw_foreign *g, tw_diag *diag, const char *what) {
    tw_child_end(g->child, 0);
    g->child = NULL;
    return tw_fail_at(diag, TW_ERR_IO, g->path, -1, "the command \"%.200s\" %s", g->shown, what);
}

static tw_status give_up_line(tw_foreign *g, const char *line, const char *what, tw_diag *diag) {
    char shown[SHOWN + 1], message[SHOWN + 200];
    size_t n = 0;
    for (; n < SHOWN && line[n]; n++) shown[n] = line[n] >= ' ' && line[n] < 127 ? line[n] : '?';
    shown[n] = 0;
    snprintf(message, sizeof message, "wrote \"%s%s\": %s", shown, line[n] ? "..." : "", what);
    return give_up(g, diag, message);
}

/* Receives a line as an object, which the caller releases. NULL without an error: interrupted. *said is its text. */
static tw_status receive(tw_foreign *g, bool (*interrupted)(void *context), void *context, json_t **out,
                         const char **said, tw_diag *diag) {
    tw_child_event event;
    char what[200], end[64];
    size_t size = 0;
    *out = NULL;
    tw_status st = tw_child_receive(g->child, g->timeout, interrupted, context, &event, said, &size, diag);
    if (st != TW_OK) return st;
    switch (event) {
    case TW_CHILD_SAID:
        break;
    case TW_CHILD_INTERRUPTED:
        tw_child_end(g->child, 0);
        g->child = NULL;
        return TW_OK;
    case TW_CHILD_SILENT:
        snprintf(what, sizeof what, "said nothing for %g s", g->timeout);
        return give_up(g, diag, what);
    case TW_CHILD_LONG:
        snprintf(what, sizeof what, "wrote a line of more than %d bytes", TW_CHILD_LINE);
        return give_up(g, diag, what);
    case TW_CHILD_ENDED:
        tw_child_describe_end(g->child, end, sizeof end);
        snprintf(what, sizeof what, "ended too early, %s", end);
        return give_up(g, diag, what);
    }
    tw_diag why;
    st = tw_json_parse(out, *said, size, NULL, -1, &why);
    if (st == TW_ERR_MEMORY) return tw_fail_memory(diag);
    if (st == TW_OK && json_is_object(*out)) return TW_OK;
    json_decref(*out);
    *out = NULL;
    return give_up_line(g, *said, "that is no JSON object", diag);
}

/* ---- the start */

static tw_status keep_environment(tw_foreign *g, const json_t *line, const char *said, tw_diag *diag) {
    json_t *told = json_object_get(line, "environment");
    const char *device = json_string_value(json_object_get(told, "device"));
    if (!device || !*device) return give_up_line(g, said, "the first line tells no environment with a device", diag);
    char *text = tw_json_text(told, JSON_SORT_KEYS);
    if (!text) return tw_fail_memory(diag);
    const bool same = !g->text || !strcmp(g->text, text);
    if (!g->text) {
        g->text = tw_arena_strdup(&g->arena, text);
        g->told = json_incref(told);
    }
    free(text);
    if (!same) return give_up_line(g, said, "the environment is not the one it told before", diag);
    return g->text ? TW_OK : tw_fail_memory(diag);
}

tw_status tw_foreign_start(tw_foreign *g, bool (*interrupted)(void *context), void *context, tw_diag *diag) {
    tw_diag why;
    json_t *line;
    const char *said;
    if (g->child) return TW_OK;
    tw_status st = tw_child_start(&g->child, g->argv, g->folder, &why);
    if (st == TW_ERR_MEMORY) return tw_fail_memory(diag);
    if (st != TW_OK) return tw_fail_at(diag, st, g->path, -1, "the command \"%.200s\": %.300s", g->shown, why.message);
    st = receive(g, interrupted, context, &line, &said, diag);
    if (st != TW_OK || !line) return st;
    st = keep_environment(g, line, said, diag);
    json_decref(line);
    return st;
}

/* ---- requests */

static char *request_of(const tw_foreign *g, const int64_t *problem, const char *const *configs, int n,
                        const tw_measure_protocol *p) {
    json_t *at = json_object(), *list = json_array();
    bool good = at && list;
    for (int a = 0; a < g->n_axes && good; a++)
        good = !json_object_set_new(at, g->axes[a], json_integer((json_int_t)problem[a]));
    for (int i = 0; i < n && good; i++) good = !json_array_append_new(list, tw_lines_words(configs[i]));
    json_t *o = good ? json_pack("{s:O, s:O, s:i, s:i, s:b}", "problem", at, "configs", list, "samples", p->samples,
                                 "warmups", p->warmups, "turns", p->turns)
                     : NULL;
    json_decref(at);
    json_decref(list);
    if (o && json_object_set_new(o, "seconds", p->seconds > 0 ? json_real(p->seconds) : json_null())) good = false;
    char *text = good ? tw_json_text(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}

/* ---- results */

/* The answers to a request. */
typedef struct answers {
    tw_foreign *g;
    const tw_measure_protocol *p;
    const tw_family_listener *l;
    int n, left;     /* Configurations in all, and those without a result. */
    bool *had;       /* [n]: true if the configuration has a result. */
    double *samples; /* [p->samples]: samples of the current result. */
    double *sorted;  /* [p->samples]: the same in ascending order. */
    int64_t began;   /* Time of day of the last result, in nanoseconds. */
} answers;

/* Reads the samples of a result. Returns their number, or -1. */
static int read_samples(const answers *a, const json_t *list) {
    const size_t n = json_array_size(list);
    if (n > (size_t)a->p->samples) return -1;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        a->samples[i] = json_number_value(v);
        if (!json_is_number(v) || !isfinite(a->samples[i]) || a->samples[i] <= 0) return -1;
    }
    return (int)n;
}

/* Passes a result on. *wrong is what is wrong with the line, or NULL. */
static tw_status take(answers *a, const json_t *line, const char **wrong, tw_diag *diag) {
    static const struct {
        const char *name;
        tw_status status;
    } all[] = {{"right", TW_OK}, {"wrong", TW_ERR_MISMATCH}, {"unsupported", TW_ERR_UNSUPPORTED}};
    const char *name = json_string_value(json_object_get(line, "status"));
    const char *message = json_string_value(json_object_get(line, "message"));
    int64_t config;
    size_t s = 0;
    tw_diag why;
    *wrong = NULL;
    if (!tw_json_int(json_object_get(line, "config"), 0, a->n - 1, &config))
        *wrong = "\"config\" is no number of a configuration";
    else if (a->had[config])
        *wrong = "the configuration has a result already";
    while (s < 3 && (!name || strcmp(name, all[s].name) != 0)) s++;
    if (!*wrong && s == 3) *wrong = "\"status\" is not right, wrong or unsupported";
    const int n = s ? 0 : read_samples(a, json_object_get(line, "samples"));
    if (!*wrong && !s && n < 1) *wrong = "\"samples\" are not as many times above 0 as were asked for";
    if (*wrong) return TW_OK;
    if (n) memcpy(a->sorted, a->samples, (size_t)n * sizeof *a->sorted);
    a->had[config] = true;
    a->left--;
    tw_diag_clear(&why);
    if (s) tw_fail(&why, all[s].status, "%.1000s", message ? message : name);
    const tw_measured m = {.candidate = (int)config,
                           .status = all[s].status,
                           .diag = &why,
                           .time = tw_stats_of(a->sorted, (size_t)n),
                           .samples = a->samples,
                           .began = a->began};
    a->began = tw_clock_ns();
    return a->l->result(a->l->context, &m, diag);
}

/* Takes results until the command says that there are no more. */
static tw_status take_all(answers *a, tw_diag *diag) {
    for (;;) {
        json_t *line;
        const char *said, *wrong = NULL;
        tw_status st = receive(a->g, a->l->interrupted, a->l->context, &line, &said, diag);
        if (st != TW_OK || !line) return st;
        const bool end = json_is_true(json_object_get(line, "end"));
        if (!end && !json_object_get(line, "busy")) st = take(a, line, &wrong, diag);
        if (end && a->left && !(a->p->seconds > 0)) wrong = "there are configurations without a result";
        if (st == TW_OK && wrong) st = give_up_line(a->g, said, wrong, diag);
        json_decref(line);
        if (st != TW_OK || end) return st;
    }
}

tw_status tw_foreign_measure(void *self, const int64_t *problem, const char *const *configs, int n,
                             const tw_measure_protocol *p, const tw_family_listener *l, tw_diag *diag) {
    tw_foreign *g = self;
    answers a = {.g = g, .p = p, .l = l, .n = n, .left = n, .began = tw_clock_ns()};
    tw_status st = tw_foreign_start(g, l->interrupted, l->context, diag);
    if (st != TW_OK || !g->child) return st;
    char *request = request_of(g, problem, configs, n, p);
    a.had = calloc((size_t)n + 1, sizeof *a.had);
    a.samples = calloc((size_t)p->samples + 1, sizeof *a.samples);
    a.sorted = calloc((size_t)p->samples + 1, sizeof *a.sorted);
    st = request && a.had && a.samples && a.sorted && tw_child_send(g->child, request) ? take_all(&a, diag)
                                                                                       : tw_fail_memory(diag);
    /* A request that is not answered to its end leaves lines that nobody waits for. */
    if (st != TW_OK) {
        tw_child_end(g->child, 0);
        g->child = NULL;
    }
    free(request);
    free(a.had);
    free(a.samples);
    free(a.sorted);
    return st;
}
