/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/rows.h"

#include "base/diag.h"
#include "base/grow.h"
#include "base/text.h"
#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double most = (double)(1ll << 52); /* Beyond it doubles are too coarse for whole units. */

/* ---- what can be laid out */

static bool is_time(double x) {
    return x >= -most && x <= most;
}

static bool is_one_of(int i, int n) {
    return i >= 0 && i < n;
}

static tw_status check(const tw_trace *t, tw_diag *diag) {
    for (int i = 0; i < t->n_tracks; i++) {
        const tw_trace_track *k = &t->tracks[i];
        if (!is_one_of(k->role, t->n_names)) return tw_fail(diag, TW_ERR_USAGE, "track %d: there is no such role", i);
        if (!is_time(k->begin) || !is_time(k->end) || k->end < k->begin)
            return tw_fail(diag, TW_ERR_USAGE, "track %d: its times are none", i);
    }
    for (int i = 0; i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        if (!is_one_of(e->track, t->n_tracks) || !is_one_of(e->name, t->n_names) || e->kind >= TW_EVENT_KINDS)
            return tw_fail(diag, TW_ERR_USAGE, "event %d: there is no such track, name or kind", i);
        if (!is_time(e->begin) || !is_time(e->end) || e->end < e->begin)
            return tw_fail(diag, TW_ERR_USAGE, "event %d: its times are none", i);
        if (i && (e[-1].track > e->track || (e[-1].track == e->track && e[-1].begin > e->begin)))
            return tw_fail(diag, TW_ERR_USAGE, "event %d: events are not in order", i);
    }
    for (int i = 0; i < t->n_edges; i++)
        if (!is_one_of(t->edges[i].from, t->n_events) || !is_one_of(t->edges[i].to, t->n_events))
            return tw_fail(diag, TW_ERR_USAGE, "edge %d: there is no such event", i);
    return TW_OK;
}

static double earliest(const tw_trace *t) {
    double first = 0;
    for (int i = 0; i < t->n_tracks; i++) first = fmin(first, t->tracks[i].begin);
    for (int i = 0; i < t->n_events; i++) first = fmin(first, t->events[i].begin);
    return first;
}

/* ---- spans */

typedef struct stack {
    int64_t *ends; /* Of the regions around an event, the innermost last. */
    int depth, room;
} stack;

static int64_t whole(const tw_layout *l, double time) {
    return (int64_t)floor(time - l->origin + 0.5);
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Places an event in time. Returns false if memory runs out. */
static bool place_event(tw_layout_span *s, tw_layout_span *track, tw_event_kind kind, stack *k) {
    if (track->begin > s->begin) track->begin = s->begin;
    track->end = later(track->end, s->begin);
    if (kind == TW_EVENT_ASYNC) return true;
    while (k->depth && k->ends[k->depth - 1] <= s->begin) k->depth--;
    if (tw_is_moment(kind)) s->end = s->begin;
    if (k->depth && s->end > k->ends[k->depth - 1]) s->end = k->ends[k->depth - 1];
    track->end = later(track->end, s->end);
    if (s->end == s->begin) return true; /* Nothing is inside. */
    int64_t *grown = tw_grow(k->ends, k->depth, &k->room, 16, sizeof *k->ends);
    if (!grown) return false;
    k->ends = grown;
    k->ends[k->depth++] = s->end;
    return true;
}

static bool place_in_time(tw_layout *l, const tw_trace *t) {
    stack k = {0};
    bool good = true;
    for (int i = 0; i < t->n_tracks; i++)
        l->tracks[i] = (tw_layout_span){whole(l, t->tracks[i].begin), whole(l, t->tracks[i].end), -1};
    for (int i = 0; i < t->n_events && good; i++) {
        const tw_trace_event *e = &t->events[i];
        if (!i || e[-1].track != e->track) k.depth = 0;
        l->events[i] = (tw_layout_span){whole(l, e->begin), whole(l, e->end), -1};
        good = place_event(&l->events[i], &l->tracks[e->track], e->kind, &k);
        l->end = later(l->end, l->events[i].end);
    }
    for (int i = 0; i < t->n_tracks; i++) l->end = later(l->end, l->tracks[i].end);
    free(k.ends);
    return good;
}

/* ---- rows */

typedef struct item {
    int sm, block, warp, role, track;
    int place;          /* Of its block. */
    int64_t begin, end; /* Of its block until places are known, and then its own. */
} item;

#define DIFFER(a, b)                                                                                                   \
    if ((a) != (b)) return (a) < (b) ? -1 : 1

static int by_block(const void *a, const void *b) {
    const item *x = a, *y = b;
    DIFFER(x->sm, y->sm);
    DIFFER(x->block, y->block);
    DIFFER(x->track, y->track);
    return 0;
}

static int by_block_begin(const void *a, const void *b) {
    const item *x = a, *y = b;
    DIFFER(x->sm, y->sm);
    DIFFER(x->begin, y->begin);
    DIFFER(x->block, y->block);
    DIFFER(x->track, y->track);
    return 0;
}

static int by_place(const void *a, const void *b) {
    const item *x = a, *y = b;
    DIFFER(x->sm, y->sm);
    DIFFER(x->place, y->place);
    DIFFER(x->warp, y->warp);
    DIFFER(x->role, y->role);
    DIFFER(x->begin, y->begin);
    DIFFER(x->track, y->track);
    return 0;
}

/* Gives the items of a block the time of the whole block. */
static void spread_blocks(item *items, int n) {
    for (int i = 0, next; i < n; i = next) {
        int64_t begin = items[i].begin, end = items[i].end;
        for (next = i; next < n && items[next].sm == items[i].sm && items[next].block == items[i].block; next++) {
            if (items[next].begin < begin) begin = items[next].begin;
            end = later(end, items[next].end);
        }
        for (int k = i; k < next; k++) {
            items[k].begin = begin;
            items[k].end = end;
        }
    }
}

/* Takes the first of n turns that ended by `begin`, or the one after them, until `end`. */
static int take(int64_t *ends, int *n, int64_t begin, int64_t end) {
    int i = 0;
    while (i < *n && ends[i] > begin) i++;
    if (i == *n) ++*n;
    ends[i] = end;
    return i;
}

/* Gives blocks of an SM that overlap different places. `ends` has room for each block. */
static void give_places(tw_layout *l, item *items, int n, int64_t *ends) {
    int places = 0;
    for (int i = 0; i < n; i++) {
        const bool same_sm = i && items[i - 1].sm == items[i].sm;
        if (!same_sm) places = 0;
        items[i].place = same_sm && items[i - 1].block == items[i].block
                             ? items[i - 1].place
                             : take(ends, &places, items[i].begin, items[i].end);
        if (places > 1) l->places = true;
        if (items[i].block != items[0].block) l->blocks = true;
    }
}

static int add_row(tw_layout *l, int *room, const tw_layout_row *row) {
    tw_layout_row *grown = tw_grow(l->rows, l->n_rows, room, 64, sizeof *l->rows);
    if (!grown) return -1;
    l->rows = grown;
    l->rows[l->n_rows] = *row;
    return l->n_rows++;
}

/* ---- lanes of asynchronous events */

typedef struct lane {
    int64_t end;
    int row;
} lane;

typedef struct lanes {
    lane *heap; /* The one that ends first is at the root. */
    int n, room;
} lanes;

static bool is_before(const lane *a, const lane *b) {
    return a->end != b->end ? a->end < b->end : a->row < b->row;
}

/* Puts `x` into the heap's root and lets it sink. */
static void sink(lanes *h, lane x) {
    int i = 0;
    for (int child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && is_before(&h->heap[child + 1], &h->heap[child])) child++;
        if (!is_before(&h->heap[child], &x)) break;
        h->heap[i] = h->heap[child];
    }
    h->heap[i] = x;
}

/* Adds a lane that ends after those of the heap's root. */
static bool rise(lanes *h, lane x) {
    lane *grown = tw_grow(h->heap, h->n, &h->room, 16, sizeof *h->heap);
    if (!grown) return false;
    h->heap = grown;
    int i = h->n++;
    for (; i && is_before(&x, &h->heap[(i - 1) / 2]); i = (i - 1) / 2) h->heap[i] = h->heap[(i - 1) / 2];
    h->heap[i] = x;
    return true;
}

static bool place_async(tw_layout *l, int *room, lanes *h, tw_layout_span *s, int row) {
    if (h->n && h->heap[0].end <= s->begin) {
        s->row = h->heap[0].row;
        sink(h, (lane){s->end, s->row});
        return true;
    }
    tw_layout_row r = l->rows[row];
    r.lane = h->n + 1;
    s->row = add_row(l, room, &r);
    return s->row >= 0 && rise(h, (lane){s->end, s->row});
}

/* ---- */

typedef struct groups {
    item *items;
    int64_t *ends;
    int *turns; /* Of items. */
    lanes lanes;
} groups;

static bool lay_track(tw_layout *l, const tw_trace *t, int *room, groups *g, int track, int row) {
    l->tracks[track].row = row;
    for (int i = l->firsts[track]; i < l->firsts[track + 1]; i++) {
        l->events[i].row = row;
        if (t->events[i].kind == TW_EVENT_ASYNC && !place_async(l, room, &g->lanes, &l->events[i], row)) return false;
    }
    return true;
}

/* Makes the rows of items i to next, which have place, warp and role in common. */
static bool lay_group(tw_layout *l, const tw_trace *t, int *room, groups *g, int i, int next, int *placed) {
    int turns = 0;
    for (int k = i; k < next; k++) g->turns[k] = take(g->ends, &turns, g->items[k].begin, g->items[k].end);
    for (int turn = 0; turn < turns; turn++) {
        int row = -1;
        g->lanes.n = 0;
        for (int k = i; k < next; k++) {
            if (g->turns[k] != turn) continue;
            const item *x = &g->items[k];
            const tw_layout_row r = {x->sm, x->place, x->warp, x->role, turn, 0};
            if (row < 0) row = add_row(l, room, &r);
            if (row < 0 || !lay_track(l, t, room, g, x->track, row)) return false;
            l->order[(*placed)++] = x->track;
        }
    }
    return true;
}

static bool share_rows(const item *a, const item *b) {
    return a->sm == b->sm && a->place == b->place && a->warp == b->warp && a->role == b->role;
}

static bool lay(tw_layout *l, const tw_trace *t, groups *g) {
    const int n = t->n_tracks;
    item *items = g->items;
    int room = 0, placed = 0;
    for (int i = 0; i < n; i++) {
        const tw_trace_track *k = &t->tracks[i];
        items[i] = (item){k->sm, k->block, k->warp, k->role, i, 0, l->tracks[i].begin, l->tracks[i].end};
    }
    qsort(items, (size_t)n, sizeof *items, by_block);
    spread_blocks(items, n);
    qsort(items, (size_t)n, sizeof *items, by_block_begin);
    give_places(l, items, n, g->ends);
    for (int i = 0; i < n; i++) {
        items[i].begin = l->tracks[items[i].track].begin;
        items[i].end = l->tracks[items[i].track].end;
    }
    qsort(items, (size_t)n, sizeof *items, by_place);
    for (int i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n; next++)
            if (!share_rows(&items[next], &items[i])) break;
        if (!lay_group(l, t, &room, g, i, next, &placed)) return false;
    }
    return true;
}

static void find_firsts(const tw_trace *t, int *firsts) {
    int at = 0;
    for (int k = 0; k <= t->n_tracks; k++) {
        while (at < t->n_events && t->events[at].track < k) at++;
        firsts[k] = at;
    }
}

tw_status tw_layout_make(tw_layout *l, const tw_trace *t, tw_diag *diag) {
    *l = (tw_layout){0};
    const tw_status st = check(t, diag);
    if (st != TW_OK) return st;
    const size_t tracks = (size_t)t->n_tracks + 1, events = (size_t)t->n_events + 1;
    groups g = {.items = malloc(tracks * sizeof *g.items),
                .ends = malloc(tracks * sizeof *g.ends),
                .turns = malloc(tracks * sizeof *g.turns)};
    l->tracks = malloc(tracks * sizeof *l->tracks);
    l->events = malloc(events * sizeof *l->events);
    l->order = malloc(tracks * sizeof *l->order);
    l->firsts = malloc(tracks * sizeof *l->firsts);
    bool good = g.items && g.ends && g.turns && l->tracks && l->events && l->order && l->firsts;
    if (good) {
        l->origin = earliest(t);
        find_firsts(t, l->firsts);
        good = place_in_time(l, t) && lay(l, t, &g);
    }
    free(g.items);
    free(g.ends);
    free(g.turns);
    free(g.lanes.heap);
    return good ? TW_OK : tw_fail_memory(diag);
}

void tw_layout_free(tw_layout *l) {
    free(l->rows);
    free(l->tracks);
    free(l->events);
    free(l->order);
    free(l->firsts);
    *l = (tw_layout){0};
}

/* A double of so many nanoseconds is 256 of them wide: seconds and the rest are apart. */
int64_t tw_layout_began(const tw_layout *l, const tw_trace *t) {
    const double began = t->began_unix, seconds = floor(began);
    if (!(began > 0 && began < 9e9)) return 0;
    const int64_t ns = (int64_t)seconds * 1000000000 + (int64_t)floor((began - seconds) * 1e9 + l->origin + 0.5);
    return later(ns, 0);
}

/* ---- names */

void tw_layout_name(const tw_layout *l, const tw_trace *t, int row, char out[TW_ROW_NAME]) {
    const tw_layout_row *r = &l->rows[row];
    tw_text text = {out, TW_ROW_NAME, 0};
    if (l->places) tw_text_add(&text, "place %d, ", r->place);
    tw_text_add(&text, t->on_processor ? "thread %d, " : "warp %d, ", r->warp);
    tw_text_add(&text, "%.*s", TW_ROW_NAME / 2, t->names[r->role].text);
    if (r->turn) tw_text_add(&text, " (%d)", r->turn + 1);
    if (r->lane) tw_text_add(&text, ", async %d", r->lane);
    tw_utf8_mend(out);
}

void tw_layout_group_name(const tw_trace *t, int sm, char out[TW_ROW_NAME]) {
    tw_text text = {out, TW_ROW_NAME, 0};
    tw_text_add(&text, t->on_processor ? "core %d" : "SM %d", sm);
}
