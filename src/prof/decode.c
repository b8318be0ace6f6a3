/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/decode.h"

#include "base/diag.h"
#include "base/grow.h"
#include "prof/clocks.h"
#include "prof/records.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NANOSECONDS = 1000000000 };

/* When a recorded block ran, by its multiprocessor's clock. */
typedef struct span {
    int64_t index; /* Among the recorded blocks. */
    int sm;
    int64_t begin, end;
    double late; /* Clocks that recording delayed its end by. */
} span;

typedef struct decoder {
    const tw_prof_layout *l;
    const tw_prof_decoding *how;
    const unsigned char *buffer;
    int64_t blocks;
    tw_trace *t;
    tw_prof_clocks clocks;
    tw_prof_block_records r;
    int *tracks; /* By unit of the block. */
    int *events; /* By record of the block: the event that it begins. -1: none. */
    int *worked; /* For each name: how many of its events were counted so far. -1: the work of an event is unknown. */
    int room_tracks, room_events, room_worked;
    double origin;
    double cost; /* Of a record, in the clock that it read. */
    span *spans; /* Of all blocks. */
    int64_t n_spans;
} decoder;

static bool room(int **list, int *have, int need) {
    if (need <= *have) return true;
    int *grown = realloc(*list, (size_t)need * 2 * sizeof *grown);
    if (!grown) return false;
    *list = grown;
    *have = need * 2;
    return true;
}

/* -- clocks */

typedef struct anchors {
    tw_prof_anchor *list;
    int n, room;
} anchors;

static bool add_anchor(anchors *a, int sm, int64_t clock, uint64_t time) {
    tw_prof_anchor *grown = tw_grow(a->list, a->n, &a->room, 256, sizeof *a->list);
    if (!grown) return false;
    a->list = grown;
    a->list[a->n++] = (tw_prof_anchor){sm, clock, time};
    return true;
}

static tw_status read_block(decoder *d, int64_t i, tw_diag *diag) {
    tw_prof_records_clear(&d->r);
    d->r.layout = d->l;
    return tw_prof_read(&d->r, d->buffer + tw_prof_part(d->l, i), diag);
}

static tw_status fit_clocks(decoder *d, tw_diag *diag) {
    anchors a = {0};
    tw_status st = TW_OK;
    for (int64_t i = 0; i < d->blocks && st == TW_OK; i++) {
        st = read_block(d, i, diag);
        span at = {.index = i, .begin = INT64_MAX};
        for (int u = 0; u < d->r.n_units && st == TW_OK; u++) {
            const tw_prof_unit *x = &d->r.units[u];
            at.sm = x->sm;
            if (x->begin_clock < at.begin) at.begin = x->begin_clock;
            if (x->end_clock > at.end) at.end = x->end_clock;
            if (!add_anchor(&a, x->sm, x->begin_clock, x->begin_time) ||
                !add_anchor(&a, x->sm, x->end_clock, x->end_time))
                st = tw_fail_memory(diag);
        }
        d->spans[d->n_spans++] = at;
    }
    const bool units = d->how->emulated || d->l->metric == TW_PROF_GLOBALTIMER; /* Nothing is converted. */
    if (st == TW_OK && a.n) st = tw_prof_clocks_fit(&d->clocks, a.list, a.n, units ? 1 : d->how->ghz, diag);
    if (st == TW_OK && a.n) {
        d->origin = INFINITY;
        for (int i = 0; i < a.n; i++)
            d->origin = fmin(d->origin, tw_prof_time_at(&d->clocks, a.list[i].sm, a.list[i].clock, 0));
        d->t->ghz = units ? 0 : d->clocks.ghz;
        d->t->began_unix = d->how->emulated ? 0 : (double)d->clocks.origin / NANOSECONDS;
    }
    free(a.list);
    return st;
}

static double time_of(const decoder *d, int unit, int64_t clock, double late) {
    return tw_prof_time_at(&d->clocks, d->r.units[unit].sm, clock, late) - d->origin;
}

static double when(const decoder *d, int record) {
    const tw_prof_record *x = &d->r.records[record];
    return time_of(d, x->unit, x->clock, x->shift);
}

/* -- tracks */

/* The name of a warp's role: that of the innermost scope which is one. */
static int role_of(decoder *d, int unit) {
    const tw_prof_scope *s = &d->l->scopes[d->r.units[unit].scope];
    char text[64];
    if (s->role || s->parent < 0) return tw_trace_add_name(d->t, s->role ? s->role : "warps", TW_ENGINE_NONE);
    snprintf(text, sizeof text, "warps %d to %d", s->from, s->below - 1);
    return tw_trace_add_name(d->t, text, TW_ENGINE_NONE);
}

/* Units of the same warp share a track: the body's and its role's. */
static bool add_tracks(decoder *d, int block) {
    if (!room(&d->tracks, &d->room_tracks, d->r.n_units + 1)) return false;
    const int before = d->t->n_tracks;
    for (int i = 0; i < d->r.n_units; i++) {
        const tw_prof_unit *u = &d->r.units[i];
        tw_trace_track x = {.sm = u->sm,
                            .block = block,
                            .warp = u->warp,
                            .role = role_of(d, i),
                            .begin = time_of(d, i, u->begin_clock, u->begin_shift),
                            .end = time_of(d, i, u->end_clock, u->end_shift),
                            .dropped = u->dropped,
                            .uncertainty = d->how->emulated ? 0 : d->clocks.uncertain[u->sm]};
        if (x.role < 0) return false;
        int at = before;
        while (at < d->t->n_tracks && d->t->tracks[at].warp != x.warp) at++;
        d->tracks[i] = at;
        if (at == d->t->n_tracks) {
            if (tw_trace_add_track(d->t, &x) < 0) return false;
            continue;
        }
        tw_trace_track *y = &d->t->tracks[at];
        if (d->l->scopes[u->scope].parent >= 0) y->role = x.role;
        y->begin = fmin(y->begin, x.begin);
        y->end = fmax(y->end, x.end);
        y->dropped += x.dropped;
    }
    return true;
}

/* -- events */

/* Adds an event's work to its name, which has the mean over its events. If the work of one event is unknown, the name
   has none. */
static bool add_work(decoder *d, tw_event_kind kind, int name, const tw_prof_work *work) {
    if (kind != TW_EVENT_REGION && kind != TW_EVENT_ASYNC) return true;
    const int before = d->room_worked;
    if (!room(&d->worked, &d->room_worked, name + 1)) return false;
    for (int i = before; i < d->room_worked; i++) d->worked[i] = 0;
    tw_trace_name *x = &d->t->names[name];
    if (work->unknown || d->worked[name] < 0) {
        d->worked[name] = -1;
        x->flops = x->bytes = 0;
        return true;
    }
    const double n = ++d->worked[name];
    x->flops += (work->flops - x->flops) / n;
    x->bytes += (work->bytes - x->bytes) / n;
    return true;
}

static int add_event(decoder *d, int record, tw_event_kind kind, double begin, double end) {
    const tw_prof_record *x = &d->r.records[record];
    const tw_prof_site *s = &d->l->sites[x->site];
    const int name = tw_trace_add_name(d->t, s->name, (tw_trace_engine)s->engine);
    if (end < begin) end = begin;
    const tw_trace_event e = {.track = d->tracks[x->unit],
                              .name = name,
                              .kind = kind,
                              .iteration = s->loop < 0 ? -1 : (int32_t)x->iteration,
                              .loop = s->loop,
                              .begin = begin,
                              .end = end,
                              .least = end - begin,
                              .most = end - begin,
                              .value = x->value};
    if (name < 0 || !add_work(d, kind, name, &s->work)) return -1;
    return tw_trace_add_event(d->t, &e);
}

/* Whether a wait is seen to have waited: it took longer than records cost. */
static bool waited(const decoder *d, const tw_prof_record *begin) {
    const tw_prof_record *end = &d->r.records[begin->other];
    return (double)(end->clock - begin->clock) > 2 * d->cost;
}

/* A wait that did not wait may have waited without records, if these delayed its unit more than its arrival. */
static void bound_wait(const decoder *d, const tw_prof_record *begin, tw_trace_event *e) {
    if (begin->cause < 0 || waited(d, begin)) return;
    const double more = (begin->shift - d->r.records[begin->cause].shift) / d->clocks.ghz;
    e->least = 0;
    e->most = fmax(e->most, more);
}

static bool add_region(decoder *d, int record) {
    const tw_prof_record *x = &d->r.records[record];
    const tw_prof_site *s = &d->l->sites[x->site];
    if (x->other < 0) return true;
    const bool wait = s->wait != TW_WAIT_none;
    const int e = add_event(d, record, wait ? TW_EVENT_WAIT : TW_EVENT_REGION, when(d, record), when(d, x->other));
    if (e >= 0 && wait) bound_wait(d, x, &d->t->events[e]);
    d->events[record] = e;
    return e >= 0;
}

/* An asynchronous event has no end before a wait that is linked to it gives it one (end_async). */
static bool add_mark(decoder *d, int record) {
    const tw_prof_site *s = tw_prof_site_of(&d->r, record);
    const bool async = s->arrival == TW_ARRIVAL_later || s->arrival == TW_ARRIVAL_own;
    const tw_event_kind kind = s->code == TW_OP_record_value ? TW_EVENT_VALUE : async ? TW_EVENT_ASYNC : TW_EVENT_MARK;
    const double at = when(d, record);
    d->events[record] = add_event(d, record, kind, at, async ? INFINITY : at);
    return d->events[record] >= 0;
}

/* What a record of kind %smid says: where its warp ran. */
static bool add_smid(decoder *d, int record) {
    return add_event(d, record, TW_EVENT_VALUE, when(d, record), when(d, record)) >= 0;
}

/* Ends an asynchronous event where a wait saw that it was done. If that wait waited, it was done then; if not, at some
   moment before. So was what an earlier wait saw (`bound`). */
static void end_async(decoder *d, int event, int wait, bool bound) {
    tw_trace_event *e = &d->t->events[event];
    const tw_prof_record *w = &d->r.records[wait];
    if (e->kind != TW_EVENT_ASYNC || w->other < 0) return;
    const double end = when(d, w->other);
    if (end >= e->end) return;
    e->end = fmax(end, e->begin);
    e->most = e->end - e->begin;
    e->least = waited(d, w) && !bound ? e->most : 0;
}

/* Asynchronous events of which no wait saw the end last as long as their track, for all that is known. */
static void end_unseen(decoder *d, int from) {
    for (int i = from; i < d->t->n_events; i++) {
        tw_trace_event *e = &d->t->events[i];
        if (e->end < INFINITY) continue;
        e->end = fmax(e->begin, d->t->tracks[e->track].end);
        e->least = 0;
        e->most = e->end - e->begin;
    }
}

static bool add_links(decoder *d) {
    for (int i = 0; i < d->r.n_links; i++) {
        const tw_prof_link *k = &d->r.links[i];
        int from = d->events[k->from];
        const int to = d->events[k->to];
        if (from < 0 || to < 0) continue;
        /* At a barrier the arrival is the other's beginning to wait, which becomes a mark. */
        if (tw_prof_site_of(&d->r, k->from)->wait == TW_WAIT_meet) {
            from = add_event(d, k->from, TW_EVENT_MARK, when(d, k->from), when(d, k->from));
            if (from < 0) return false;
        }
        end_async(d, from, k->to, k->bound);
        if (k->bound) continue;
        if (tw_trace_add_edge(d->t, from, to) < 0) return false;
    }
    return true;
}

static bool is_within(const tw_prof_layout *l, int loop, int outer) {
    while (loop >= 0 && loop != outer) loop = l->loops[loop].parent;
    return loop == outer;
}

static bool add_iteration(decoder *d, int first, double end) {
    const int e = add_event(d, first, TW_EVENT_ITERATION, when(d, first), end);
    if (e < 0) return false;
    d->t->events[e].name = tw_trace_add_name(d->t, "iteration", TW_ENGINE_NONE);
    return d->t->events[e].name >= 0;
}

/* An iteration lasts from its first record to the next one's. The last one lasts to its last record. */
static bool add_iterations(decoder *d, int unit, int loop) {
    const tw_prof_unit *u = &d->r.units[unit];
    int first = -1, last = -1;
    for (int i = u->first; i < u->first + u->n; i++) {
        const tw_prof_record *x = &d->r.records[i];
        const int of = d->l->sites[x->site].loop;
        if (of != loop && is_within(d->l, of, loop)) continue;
        const bool same = of == loop && first >= 0 && x->iteration == d->r.records[first].iteration;
        if (first >= 0 && !same) {
            if (!add_iteration(d, first, when(d, of == loop ? i : last))) return false;
            first = -1;
        }
        if (of == loop && first < 0) first = i;
        if (of == loop) last = i;
    }
    return first < 0 || add_iteration(d, first, when(d, last));
}

/* A block that began when another one's end had made room began as much later as that one ended. */
static double delay_of(const decoder *d, int64_t at) {
    const span *s = &d->spans[at], *before = NULL;
    for (int64_t i = at - 1; i >= 0 && d->spans[i].sm == s->sm; i--)
        if (d->spans[i].end <= s->begin && (!before || d->spans[i].end > before->end)) before = &d->spans[i];
    return before ? before->late : 0;
}

/* Adds block `at` of d->spans, whose records were read. */
static tw_status add_block(decoder *d, int64_t at, tw_diag *diag) {
    tw_prof_block_records *r = &d->r;
    const int block = (int)tw_prof_block(d->l, d->spans[at].index);
    const double before = delay_of(d, at);
    const bool times = d->l->metric != TW_PROF_SMID;
    tw_status st = times ? tw_prof_find_links(r, diag) : TW_OK;
    if (st == TW_OK) st = tw_prof_replay(r, d->cost, before, &d->spans[at].late, diag);
    if (st != TW_OK) return st;
    const int first = d->t->n_events;
    bool fine = room(&d->events, &d->room_events, r->n_records + 1) && add_tracks(d, block);
    for (int i = 0; i < r->n_records && fine; i++) {
        const tw_prof_site *s = tw_prof_site_of(r, i);
        d->events[i] = -1;
        if (!times)
            fine = s->code == TW_OP_record_end || add_smid(d, i);
        else if (s->code == TW_OP_record_begin)
            fine = add_region(d, i);
        else if (s->code != TW_OP_record_end)
            fine = add_mark(d, i);
    }
    for (int i = 0; i < r->n_units && fine && times && d->how->iterations; i++)
        for (int loop = 0; loop < d->l->n_loops && fine; loop++) fine = add_iterations(d, i, loop);
    fine = fine && add_links(d);
    end_unseen(d, first);
    return fine ? TW_OK : tw_fail_memory(diag);
}

/* Regions of a track nest. One that ends after another that began earlier and ended later would not, so the later one
   becomes an asynchronous event. */
static tw_status separate(tw_trace *t, tw_diag *diag) {
    double *ends = malloc(((size_t)t->n_events + 1) * sizeof *ends);
    if (!ends) return tw_fail_memory(diag);
    int depth = 0, track = -1;
    for (int i = 0; i < t->n_events; i++) {
        tw_trace_event *e = &t->events[i];
        if (e->track != track) depth = 0;
        track = e->track;
        if (e->kind > TW_EVENT_ITERATION) continue;
        while (depth && ends[depth - 1] <= e->begin) depth--;
        if (depth && e->end > ends[depth - 1])
            e->kind = TW_EVENT_ASYNC;
        else
            ends[depth++] = e->end;
    }
    free(ends);
    return TW_OK;
}

static int by_beginning(const void *a, const void *b) {
    const span *x = a, *y = b;
    if (x->sm != y->sm) return x->sm < y->sm ? -1 : 1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static tw_status decode(decoder *d, tw_diag *diag) {
    d->spans = calloc((size_t)d->blocks + 1, sizeof *d->spans);
    if (!d->spans) return tw_fail_memory(diag);
    tw_status st = fit_clocks(d, diag);
    if (st == TW_OK) qsort(d->spans, (size_t)d->n_spans, sizeof *d->spans, by_beginning);
    for (int64_t i = 0; i < d->n_spans && st == TW_OK; i++) {
        st = read_block(d, d->spans[i].index, diag);
        if (st == TW_OK) st = add_block(d, i, diag);
    }
    if (st == TW_OK) st = tw_trace_finish(d->t, diag);
    return st == TW_OK ? separate(d->t, diag) : st;
}

tw_status tw_prof_decode(tw_trace **out, const tw_prof_layout *l, const void *buffer, int64_t blocks,
                         const tw_prof_decoding *how, tw_diag *diag) {
    decoder d = {.l = l, .how = how, .buffer = buffer, .blocks = tw_prof_blocks(l, blocks)};
    if (l->metric == TW_PROF_CLOCK) d.cost = how->cost;
    *out = NULL;
    d.t = tw_trace_new(how->title, how->device, how->emulated ? "ops" : "ns");
    if (!d.t) return tw_fail_memory(diag);
    const tw_status st = decode(&d, diag);
    tw_prof_records_free(&d.r);
    tw_prof_clocks_free(&d.clocks);
    free(d.tracks);
    free(d.worked);
    free(d.events);
    free(d.spans);
    if (st == TW_OK)
        *out = d.t;
    else
        tw_trace_free(d.t);
    return st;
}
