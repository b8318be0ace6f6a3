/* SPDX-License-Identifier: Apache-2.0 */
/* Which arrival ended each wait. The k-th wait of a unit on a channel is for the arrivals of number k - lag of every
   unit that arrives there. Work that a thread issues for itself (TW_ARRIVAL_own) is counted at the wait: it is for all
   but the last `count` pieces issued before. */
#include "base/diag.h"
#include "base/grow.h"
#include "prof/records.h"

#include <stdlib.h>
#include <string.h>

/* The records of one unit on one channel, in order. */
typedef struct lane {
    const char *channel;
    int unit;
    int32_t *arrivals, *waits;
    int n_arrivals, n_waits, room_arrivals, room_waits;
} lane;

/* Records on a channel that a ring lost, of one site: `n` of them, all before record `at`, the loop's first. */
typedef struct gap {
    int loop;
    int32_t at;
    int64_t n;
} gap;

typedef struct finder {
    tw_prof_block_records *r;
    lane *lanes;
    gap *gaps; /* Of the lane whose own work is linked. */
    int n, room, n_gaps, room_gaps;
} finder;

static lane *lane_of(finder *f, int unit, const char *channel) {
    for (int i = 0; i < f->n; i++)
        if (f->lanes[i].unit == unit && !strcmp(f->lanes[i].channel, channel)) return &f->lanes[i];
    lane *grown = tw_grow(f->lanes, f->n, &f->room, 16, sizeof *f->lanes);
    if (!grown) return NULL;
    f->lanes = grown;
    f->lanes[f->n] = (lane){.channel = channel, .unit = unit};
    return &f->lanes[f->n++];
}

static bool push(int32_t **list, int *n, int *room, int32_t x) {
    int32_t *grown = tw_grow(*list, *n, room, 64, sizeof *grown);
    if (!grown) return false;
    *list = grown;
    (*list)[(*n)++] = x;
    return true;
}

/* The first record of a loop in a unit. -1: there is none. */
static int32_t first_of(const tw_prof_block_records *r, const tw_prof_unit *u, int loop) {
    for (int i = u->first; i < u->first + u->n; i++)
        if (r->layout->sites[r->records[i].site].loop == loop) return i;
    return -1;
}

/* What rings lost of a unit's arrivals or waits on a channel. */
typedef struct losses {
    int64_t n;     /* So many, had every iteration made one. */
    int32_t until; /* All of them lie before this record of the unit. Numbers of earlier records are not known. */
} losses;

static losses find_losses(const tw_prof_block_records *r, int unit, const char *channel, bool wait) {
    const tw_prof_layout *l = r->layout;
    const tw_prof_unit *u = &r->units[unit];
    losses x = {0, -1};
    for (int i = 0; i < l->n_sites; i++) {
        const tw_prof_site *s = &l->sites[i];
        if (s->scope != u->scope || s->loop < 0 || strcmp(s->name, channel) != 0) continue;
        if (!(wait ? tw_prof_is_wait(s) : tw_prof_is_arrival(s) || s->wait == TW_WAIT_meet)) continue;
        const int32_t first = first_of(r, u, s->loop);
        if (first < 0 || !r->records[first].iteration) continue;
        x.n += r->records[first].iteration;
        if (first > x.until) x.until = first;
    }
    return x;
}

static bool collect(finder *f) {
    tw_prof_block_records *r = f->r;
    for (int i = 0; i < r->n_records; i++) {
        const tw_prof_site *s = tw_prof_site_of(r, i);
        const bool waits = tw_prof_is_wait(s), arrives = tw_prof_is_arrival(s) || (waits && s->wait == TW_WAIT_meet);
        if (!waits && !arrives) continue;
        lane *at = lane_of(f, r->records[i].unit, s->name);
        if (!at) return false;
        r->records[i].ordinal = waits ? at->n_waits : at->n_arrivals;
        if (waits && !push(&at->waits, &at->n_waits, &at->room_waits, i)) return false;
        if (arrives && !push(&at->arrivals, &at->n_arrivals, &at->room_arrivals, i)) return false;
    }
    return true;
}

static bool link(finder *f, int32_t from, int32_t to, bool bound) {
    tw_prof_block_records *r = f->r;
    tw_prof_link *grown = tw_grow(r->links, r->n_links, &r->room_links, 256, sizeof *r->links);
    if (!grown) return false;
    r->links = grown;
    r->links[r->n_links++] = (tw_prof_link){from, to, bound};
    return true;
}

/* The latest of a wait's arrivals is its cause. Work that arrives later is behind its issue by an unknown time, so it
   counts as the cause wherever there is any. */
static void blame(tw_prof_block_records *r, int32_t arrival, int32_t wait) {
    tw_prof_record *w = &r->records[wait];
    const bool better = w->cause < 0 || r->records[arrival].clock > r->records[w->cause].clock;
    if (better) w->cause = arrival;
}

static bool find_gaps(finder *f, const lane *at) {
    const tw_prof_block_records *r = f->r;
    const tw_prof_unit *u = &r->units[at->unit];
    f->n_gaps = 0;
    for (int i = 0; i < r->layout->n_sites; i++) {
        const tw_prof_site *s = &r->layout->sites[i];
        if (s->scope != u->scope || s->loop < 0 || !tw_prof_is_arrival(s) || strcmp(s->name, at->channel) != 0)
            continue;
        const int32_t first = first_of(r, u, s->loop);
        if (first < 0 || !r->records[first].iteration) continue;
        gap *grown = tw_grow(f->gaps, f->n_gaps, &f->room_gaps, 8, sizeof *f->gaps);
        if (!grown) return false;
        f->gaps = grown;
        f->gaps[f->n_gaps++] = (gap){s->loop, first, r->records[first].iteration};
    }
    return true;
}

/* Arrivals that rings lost before a record. */
static int64_t lost_before(const finder *f, int32_t record) {
    int64_t n = 0;
    for (int i = 0; i < f->n_gaps; i++) n += f->gaps[i].at <= record ? f->gaps[i].n : 0;
    return n;
}

/* Arrivals that a loop's iteration makes, if wait i of a lane is the loop's first, and the loop lost others. Else 0. */
static int made_since_lost(const finder *f, const lane *at, int i) {
    const int loop = tw_prof_site_of(f->r, at->waits[i])->loop;
    if (loop < 0 || (i && tw_prof_site_of(f->r, at->waits[i - 1])->loop == loop)) return 0;
    int n = 0;
    for (int j = 0; j < f->n_gaps; j++) n += f->gaps[j].loop == loop;
    return n;
}

/* Work is numbered in the order of its issue, with what was lost. A wait has seen done what earlier waits had not. */
static bool link_own(finder *f, const lane *at) {
    tw_prof_block_records *r = f->r;
    int issued = 0, linked = 0;
    if (!find_gaps(f, at)) return false;
    for (int i = 0; i < at->n_waits; i++) {
        const int32_t wait = at->waits[i];
        while (issued < at->n_arrivals && at->arrivals[issued] < wait) issued++;
        const int64_t done = issued + lost_before(f, wait) - tw_prof_site_of(r, wait)->count;
        const int since = made_since_lost(f, at, i);
        for (; linked < issued; linked++) {
            const int32_t arrival = at->arrivals[linked];
            const int64_t number = linked + lost_before(f, arrival);
            if (number >= done) break;
            const bool bound = since && number < done - since;
            if (!link(f, arrival, wait, bound)) return false;
            if (!bound) blame(r, arrival, wait);
        }
    }
    return true;
}

static bool owns(const tw_prof_block_records *r, const lane *at) {
    return at->n_arrivals && tw_prof_site_of(r, at->arrivals[0])->arrival == TW_ARRIVAL_own;
}

/* Which of the arrivals `from` the waits of `to` are for. */
typedef struct match {
    const tw_prof_block_records *r;
    const lane *from, *to;
    int64_t ahead; /* By how much numbers of waits differ from places in the lists more than those of arrivals do. */
    int32_t arrivals, waits; /* Earlier records have unknown numbers. */
} match;

/* The place among the arrivals of the one that wait i is for. -1: there is none. */
static int64_t arrival_for(const match *m, int i) {
    const int64_t at = i + m->ahead - tw_prof_site_of(m->r, m->to->waits[i])->count;
    if (m->to->waits[i] < m->waits || at < 0 || at >= m->from->n_arrivals) return -1;
    return m->from->arrivals[at] < m->arrivals ? -1 : at;
}

/* Whether no wait would have ended before its arrival. */
static bool fits(const match *m) {
    for (int i = 0; i < m->to->n_waits; i++) {
        const int64_t at = arrival_for(m, i);
        const tw_prof_record *wait = &m->r->records[m->to->waits[i]];
        if (at < 0 || wait->other < 0) continue;
        if (m->r->records[m->from->arrivals[at]].clock > m->r->records[wait->other].clock) return false;
    }
    return true;
}

static bool conditional(const tw_prof_block_records *r, const lane *at) {
    for (int i = 0; i < at->n_arrivals; i++)
        if (tw_prof_site_of(r, at->arrivals[i])->conditional) return true;
    return false;
}

/* How many were lost of a conditional site is not known: it is the most arrivals with which no wait ends before its
   own. */
static match find_match(const tw_prof_block_records *r, const lane *from, const lane *to) {
    enum { UNSURE = 4 };
    const losses waits = find_losses(r, to->unit, to->channel, true),
                 arrivals = find_losses(r, from->unit, from->channel, false);
    match m = {r, from, to, waits.n - arrivals.n, arrivals.until, waits.until};
    if (!arrivals.n || !conditional(r, from)) return m;
    for (m.ahead += UNSURE; m.ahead > waits.n - arrivals.n; m.ahead--)
        if (fits(&m)) break;
    return m;
}

static bool link_lanes(finder *f, const lane *from, const lane *to) {
    tw_prof_block_records *r = f->r;
    const bool meets = tw_prof_site_of(r, to->waits[0])->wait == TW_WAIT_meet;
    if (meets && from == to) return true;
    const match m = find_match(r, from, to);
    for (int i = 0; i < to->n_waits; i++) {
        const int32_t wait = to->waits[i];
        const int64_t at = arrival_for(&m, i);
        if (at < 0) continue;
        if (!link(f, from->arrivals[at], wait, false)) return false;
        blame(r, from->arrivals[at], wait);
    }
    return true;
}

static int by_to(const void *a, const void *b) {
    const tw_prof_link *x = a, *y = b;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

static bool find(finder *f) {
    if (!collect(f)) return false;
    for (int i = 0; i < f->n; i++) {
        const lane *to = &f->lanes[i];
        if (!to->n_waits) continue;
        if (owns(f->r, to)) {
            if (!link_own(f, to)) return false;
            continue;
        }
        for (int j = 0; j < f->n; j++) {
            const lane *from = &f->lanes[j];
            if (!from->n_arrivals || owns(f->r, from) || strcmp(from->channel, to->channel) != 0) continue;
            if (!link_lanes(f, from, to)) return false;
        }
    }
    if (f->r->n_links) qsort(f->r->links, (size_t)f->r->n_links, sizeof *f->r->links, by_to);
    return true;
}

tw_status tw_prof_find_links(tw_prof_block_records *r, tw_diag *diag) {
    finder f = {.r = r};
    const bool found = find(&f);
    for (int i = 0; i < f.n; i++) {
        free(f.lanes[i].arrivals);
        free(f.lanes[i].waits);
    }
    free(f.lanes);
    free(f.gaps);
    return found ? TW_OK : tw_fail_memory(diag);
}
