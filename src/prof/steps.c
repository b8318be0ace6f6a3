/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/steps.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

bool tw_edge_is_drawn(const tw_layout *l, const tw_trace *t, const tw_trace_edge *e) {
    const int64_t from = l->events[e->from].begin, to = l->events[e->to].end;
    if (t->events[e->from].kind == TW_EVENT_VALUE || t->events[e->to].kind == TW_EVENT_VALUE) return false;
    return from < to || (from == to && t->events[e->from].kind == TW_EVENT_MARK);
}

typedef struct list {
    tw_step *steps;
    size_t n;
    bool *is_source; /* Of each event: it is a mark, and an edge begins at it. */
    int *open;       /* Regions that have not ended, the innermost last. */
    int depth, room;
} list;

static void add(list *l, int64_t time, int index, tw_step_kind kind, bool first) {
    l->steps[l->n++] = (tw_step){(uint64_t)time * 2 + !first, index, kind};
}

/* Ends regions that are over at `time`. */
static void close_until(list *s, const tw_layout *l, int64_t time) {
    for (; s->depth && l->events[s->open[s->depth - 1]].end <= time; s->depth--)
        add(s, l->events[s->open[s->depth - 1]].end, s->open[s->depth - 1], TW_STEP_END, false);
}

static bool add_event(list *s, const tw_layout *l, const tw_trace *t, int i) {
    const tw_layout_span *x = &l->events[i];
    if (t->events[i].kind == TW_EVENT_ASYNC) {
        add(s, x->begin, i, TW_STEP_BEGIN, false);
        add(s, x->end, i, TW_STEP_END, false);
        return true;
    }
    close_until(s, l, x->begin);
    if (tw_is_moment(t->events[i].kind)) {
        add(s, x->begin, i, TW_STEP_MOMENT, s->is_source[i]);
        return true;
    }
    add(s, x->begin, i, TW_STEP_BEGIN, false);
    int *grown = tw_grow(s->open, s->depth, &s->room, 16, sizeof *s->open);
    if (!grown) return false;
    s->open = grown;
    s->open[s->depth++] = i;
    return true;
}

/* Sorts by time, 11 bits at a time from the lowest. Steps of equal times keep their order. Returns the sorted ones,
   which are `from` or `to`. */
static tw_step *sort(tw_step *from, tw_step *to, size_t n, uint64_t last) {
    enum { BITS = 11, BINS = 1 << BITS };
    for (int shift = 0; shift < 64 && last >> shift; shift += BITS) {
        size_t bins[BINS + 1] = {0};
        for (size_t i = 0; i < n; i++) bins[(from[i].when >> shift) % BINS + 1]++;
        for (int i = 0; i < BINS; i++) bins[i + 1] += bins[i];
        for (size_t i = 0; i < n; i++) to[bins[(from[i].when >> shift) % BINS]++] = from[i];
        tw_step *other = from;
        from = to;
        to = other;
    }
    return from;
}

static bool add_all(list *s, const tw_layout *l, const tw_trace *t) {
    for (int i = 0; i < t->n_edges; i++)
        if (t->events[t->edges[i].from].kind == TW_EVENT_MARK) s->is_source[t->edges[i].from] = true;
    for (int k = 0; k < t->n_tracks; k++) {
        const int track = l->order[k];
        add(s, l->tracks[track].begin, track, TW_STEP_TRACK_BEGIN, false);
        for (int i = l->firsts[track]; i < l->firsts[track + 1]; i++)
            if (!add_event(s, l, t, i)) return false;
        close_until(s, l, INT64_MAX);
        add(s, l->tracks[track].end, track, TW_STEP_TRACK_END, false);
    }
    return true;
}

tw_step *tw_steps_make(const tw_layout *l, const tw_trace *t, size_t *n) {
    const size_t most = 2 * ((size_t)t->n_events + (size_t)t->n_tracks) + 1;
    list s = {.steps = malloc(most * sizeof *s.steps),
              .is_source = calloc((size_t)t->n_events + 1, sizeof *s.is_source)};
    tw_step *spare = malloc(most * sizeof *spare), *sorted = NULL;
    if (s.steps && spare && s.is_source && add_all(&s, l, t))
        sorted = sort(s.steps, spare, s.n, (uint64_t)l->end * 2 + 1);
    if (s.steps != sorted) free(s.steps);
    if (spare != sorted) free(spare);
    free(s.is_source);
    free(s.open);
    *n = s.n;
    return sorted;
}
