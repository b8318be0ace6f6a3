/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/path.h"

#include "base/diag.h"
#include "base/grow.h"
#include "prof/tally.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- the critical path */

typedef struct finder {
    tw_path *out;
    const tw_dag *f;
    tw_tally tally;
    int room;
} finder;

static bool add_piece(void *context, const tw_dag_piece *piece) {
    finder *x = context;
    const tw_trace *t = x->f->trace;
    const int32_t key[TW_TALLY_KEYS] = {piece->cause, piece->event >= 0 ? t->events[piece->event].name : -1,
                                        t->tracks[piece->track].role};
    tw_dag_piece *last = x->out->n_pieces ? &x->out->pieces[x->out->n_pieces - 1] : NULL;
    if (last && last->cause == piece->cause && last->track == piece->track && last->event == piece->event) {
        last->begin = piece->begin;
    } else {
        tw_dag_piece *grown = tw_grow(x->out->pieces, x->out->n_pieces, &x->room, 64, sizeof *grown);
        if (!grown) return false;
        x->out->pieces = grown;
        x->out->pieces[x->out->n_pieces++] = *piece;
    }
    return tw_tally_add(&x->tally, key, piece->end - piece->begin, piece->event);
}

static bool copy_parts(tw_path *out, tw_tally *tally) {
    tw_tally_sort(tally);
    out->parts = malloc(((size_t)tally->n + 1) * sizeof *out->parts);
    if (!out->parts) return false;
    for (int i = 0; i < tally->n; i++) {
        const tw_tally_row *r = &tally->rows[i];
        out->parts[out->n_parts++] = (tw_path_part){(tw_dag_cause)r->key[0], r->key[1], r->key[2], r->sum, r->count};
    }
    return true;
}

tw_status tw_path_find(tw_path *out, const tw_trace *t, tw_diag *diag) {
    *out = (tw_path){.length = tw_trace_length(t)};
    tw_dag *f = tw_dag_new(t);
    tw_dag_run run = {.last = -1};
    finder x = {.out = out, .f = f};
    bool fine = f && tw_dag_play(f, NULL, NULL, &run);
    if (fine && run.last >= 0) {
        fine = tw_dag_walk(f, &f->edges, &run, f->first[run.last + 1] - 1, -INFINITY, add_piece, &x) &&
               copy_parts(out, &x.tally);
        out->ignored = f->odd + run.ignored;
        for (int i = 0, j = out->n_pieces - 1; i < j; i++, j--) {
            const tw_dag_piece piece = out->pieces[i];
            out->pieces[i] = out->pieces[j];
            out->pieces[j] = piece;
        }
        out->start = out->n_pieces ? out->pieces[0].begin : out->length;
    }
    tw_tally_free(&x.tally);
    tw_dag_run_free(&run);
    tw_dag_free(f);
    if (fine) return TW_OK;
    tw_path_free(out);
    return tw_fail_memory(diag);
}

void tw_path_free(tw_path *p) {
    free(p->parts);
    free(p->pieces);
    *p = (tw_path){0};
}

/* -- what if */

/* Edges as they are edited. Room for more is made as they grow. */
typedef struct edited {
    const tw_dag *f;
    tw_dag_edges edges, next;
    int room_from, room_lag;
} edited;

static bool is_named(const tw_dag *f, int event, const char *name) {
    return !strcmp(f->trace->names[f->trace->events[event].name].text, name);
}

static bool is_wait(const tw_dag *f, int event, const char *name) {
    return f->trace->events[event].kind == TW_EVENT_WAIT && is_named(f, event, name);
}

static bool add_edge(edited *x, int n, int from, double lag) {
    int32_t *f = tw_grow(x->next.from, n, &x->room_from, 64, sizeof *f);
    if (!f) return false;
    x->next.from = f;
    double *g = tw_grow(x->next.lag, n, &x->room_lag, 64, sizeof *g);
    if (!g) return false;
    x->next.lag = g;
    f[n] = from;
    g[n] = lag;
    return true;
}

/* The event `n` after `event` of its name and kind on its track. -1: there is none. */
static int later(const tw_trace *t, int event, int n) {
    const tw_trace_event *e = &t->events[event];
    for (int i = event + 1; i < t->n_events && t->events[i].track == e->track; i++)
        if (t->events[i].name == e->name && t->events[i].kind == e->kind && --n == 0) return i;
    return -1;
}

/* Whether a wait is for what its own track issued, as in a loop that loads ahead. */
static bool is_ahead(const edited *x, int wait) {
    const tw_trace *t = x->f->trace;
    for (int k = x->edges.first[wait]; k < x->edges.first[wait + 1]; k++)
        if (t->events[x->edges.from[k]].track == t->events[wait].track) return true;
    return false;
}

/* Of which wait an edited wait takes the edges. -1: it has none. Edges beyond the last wait's are those of the last,
   from events `*beyond` later. Loads ahead of a loop begin with the first one; in a ring with more stages nobody waits
   for one that is free from the start. */
static int source_of(const edited *x, const tw_change *edit, const int *waits, int n, int i, int *beyond) {
    *beyond = 0;
    if (edit->kind == TW_CHANGE_REMOVE) return -1;
    const int64_t j = (int64_t)i - edit->stages;
    if (j < 0) return is_ahead(x, waits[0]) ? waits[0] : -1;
    if (j < n) return waits[j];
    *beyond = (int)(j - (n - 1) < INT32_MAX ? j - (n - 1) : INT32_MAX);
    return waits[n - 1];
}

/* Makes x->next the edges after an edit of waits. */
static bool edit_edges(edited *x, const tw_change *edit) {
    const tw_dag *f = x->f;
    const tw_trace *t = f->trace;
    int *waits = malloc(((size_t)t->n_events + 1) * sizeof *waits);
    int n = 0;
    bool fine = waits != NULL;
    for (int i = 0; fine && i < t->n_events;) {
        int end = i, n_waits = 0, at = 0;
        for (; end < t->n_events && t->events[end].track == t->events[i].track; end++)
            if (is_wait(f, end, edit->name)) waits[n_waits++] = end;
        for (; fine && i < end; i++) {
            x->next.first[i] = n;
            const bool changed = at < n_waits && waits[at] == i;
            int beyond = 0;
            const int source = changed ? source_of(x, edit, waits, n_waits, at++, &beyond) : i;
            if (source < 0) continue;
            for (int k = x->edges.first[source]; fine && k < x->edges.first[source + 1]; k++) {
                const int from = beyond ? later(t, x->edges.from[k], beyond) : x->edges.from[k];
                if (from < 0) continue;
                fine =
                    add_edge(x, n++, from, source == i && !beyond ? x->edges.lag[k] : f->name_lag[t->events[i].name]);
            }
        }
    }
    x->next.first[t->n_events] = n;
    free(waits);
    return fine;
}

static bool apply(edited *x, const tw_change *edit) {
    x->next = (tw_dag_edges){.first = calloc((size_t)x->f->trace->n_events + 1, sizeof *x->next.first)};
    x->room_from = x->room_lag = 0;
    const bool fine = x->next.first && edit_edges(x, edit);
    if (x->edges.first != x->f->edges.first) {
        free(x->edges.first);
        free(x->edges.from);
        free(x->edges.lag);
    }
    x->edges = x->next;
    return fine;
}

tw_status tw_dag_predict(tw_prediction *out, const tw_dag *f, const tw_change *edits, int n, tw_diag *diag) {
    const tw_trace *t = f->trace;
    *out = (tw_prediction){0};
    for (int i = 0; i < n; i++)
        if (edits[i].kind == TW_CHANGE_SCALE && !(edits[i].factor >= 0 && isfinite(edits[i].factor)))
            return tw_fail(diag, TW_ERR_USAGE, "%s cannot take %g times as long: give a factor of at least 0",
                           edits[i].name, edits[i].factor);
    edited x = {.f = f, .edges = f->edges};
    double *factor = malloc(((size_t)t->n_names + 1) * sizeof *factor);
    bool fine = factor != NULL;
    for (int i = 0; fine && i < t->n_names; i++) factor[i] = 1;
    for (int i = 0; fine && i < n; i++) {
        for (int e = 0; e < t->n_events; e++)
            if (edits[i].kind == TW_CHANGE_SCALE ? is_named(f, e, edits[i].name) : is_wait(f, e, edits[i].name))
                out->matched++;
        if (edits[i].kind != TW_CHANGE_SCALE) {
            fine = apply(&x, &edits[i]);
            continue;
        }
        for (int k = 0; k < t->n_names; k++)
            if (!strcmp(t->names[k].text, edits[i].name)) factor[k] *= edits[i].factor;
    }
    tw_dag_run after = {.last = -1};
    fine = fine && tw_dag_play(f, factor, &x.edges, &after);
    if (fine) {
        for (int i = 0; i < t->n_tracks; i++) out->before = fmax(out->before, f->points[f->first[i + 1] - 1].time);
        out->after = after.length;
        out->ignored = f->odd + after.ignored;
    }
    tw_dag_run_free(&after);
    free(factor);
    if (x.edges.first != f->edges.first) {
        free(x.edges.first);
        free(x.edges.from);
        free(x.edges.lag);
    }
    return fine ? TW_OK : tw_fail_memory(diag);
}

tw_status tw_path_predict(tw_prediction *out, const tw_trace *t, const tw_change *edits, int n, tw_diag *diag) {
    tw_dag *f = tw_dag_new(t);
    if (!f) return tw_fail_memory(diag);
    const tw_status st = tw_dag_predict(out, f, edits, n, diag);
    tw_dag_free(f);
    return st;
}
