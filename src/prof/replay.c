/* SPDX-License-Identifier: Apache-2.0 */
/* Takes out what recording cost, after the fact.

   A record costs its warp some clocks, so whatever the warp does next is late by as much, and by the cost of all its
   records before. A wait absorbs that: if a warp waited at all, the wait ended because an arrival came, and without
   records it would have ended as much earlier as that arrival would have come. So the records of a block are walked in
   the order of their clocks, and each gets a shift:

     after a record        its warp's shift grows by the cost
     at a wait's end       if it waited: the shift behind the arrival's record. If it did not: its warp's

   A wait that took no longer than a record costs did not wait, as far as can be seen. An asynchronous arrival counts
   from its issue, since what was issued runs at its own pace: without records it would have been issued, and would
   have been done, that much earlier.

   Records that are closer to one another than a record costs share a reading, or part of their cost. No record is put
   before the one that its warp made before it. */
#include "base/diag.h"
#include "prof/records.h"

#include <math.h>
#include <stdlib.h>

/* A moment of a unit. */
typedef struct step {
    int64_t clock;
    enum { BEGINS, RECORDS, ENDS } what;
    int32_t unit, record;
} step;

/* A warp, which may have units of several scopes. */
typedef struct strand {
    bool began;
    int64_t clock; /* Of its last step. */
    double shift;  /* Of its last step. */
    double late;   /* What its next step is shifted by. */
} strand;

static int by_clock(const void *a, const void *b) {
    const step *x = a, *y = b;
    if (x->clock != y->clock) return x->clock < y->clock ? -1 : 1;
    if (x->what != y->what) return x->what < y->what ? -1 : 1;
    if (x->unit != y->unit) return x->unit < y->unit ? -1 : 1;
    return x->record < y->record ? -1 : x->record > y->record;
}

static double end_of_wait(const tw_prof_block_records *r, const tw_prof_record *end, double own, double cost) {
    const tw_prof_record *begin = &r->records[end->other];
    if (begin->cause < 0) return own;
    const double waited = (double)(end->clock - begin->clock) - cost;
    const tw_prof_record *cause = &r->records[begin->cause];
    return waited <= cost || cause->clock >= end->clock ? own : cause->shift + cost;
}

/* Takes a step by `shift`, or by less if the step would come before the last one. */
static double take(strand *w, int64_t clock, double shift) {
    if (w->began) shift = fmin(shift, (double)(clock - w->clock) + w->shift);
    *w = (strand){.began = true, .clock = clock, .shift = shift, .late = shift};
    return shift;
}

static void walk(tw_prof_block_records *r, const step *x, strand *w, double cost) {
    if (x->what == BEGINS) {
        r->units[x->unit].begin_shift = take(w, x->clock, w->late);
    } else if (x->what == ENDS) {
        r->units[x->unit].end_shift = take(w, x->clock, w->late);
    } else {
        tw_prof_record *y = &r->records[x->record];
        const tw_prof_site *s = tw_prof_site_of(r, x->record);
        const bool ends = s->code == TW_OP_record_end && y->other >= 0 && tw_prof_is_wait(&r->layout->sites[s->pair]);
        y->shift = take(w, x->clock, ends ? end_of_wait(r, y, w->late, cost) : w->late);
        w->late += cost;
    }
}

/* The first unit of the same warp. */
static int strand_of(const tw_prof_block_records *r, int unit) {
    int i = 0;
    while (r->units[i].warp != r->units[unit].warp) i++;
    return i;
}

static size_t find_steps(const tw_prof_block_records *r, step *steps) {
    size_t n = 0;
    for (int i = 0; i < r->n_units; i++) {
        steps[n++] = (step){.clock = r->units[i].begin_clock, .what = BEGINS, .unit = i};
        steps[n++] = (step){.clock = r->units[i].end_clock, .what = ENDS, .unit = i};
    }
    for (int i = 0; i < r->n_records; i++)
        steps[n++] = (step){.clock = r->records[i].clock, .what = RECORDS, .unit = r->records[i].unit, .record = i};
    if (n) qsort(steps, n, sizeof *steps, by_clock);
    return n;
}

tw_status tw_prof_replay(tw_prof_block_records *r, double cost, double before, double *after, tw_diag *diag) {
    step *steps = malloc(((size_t)r->n_records + 2 * (size_t)r->n_units + 1) * sizeof *steps);
    strand *strands = calloc((size_t)r->n_units + 1, sizeof *strands);
    const bool room = steps && strands;
    *after = before;
    if (room) {
        const size_t n = find_steps(r, steps);
        for (int i = 0; i < r->n_units; i++) strands[i].late = before;
        for (size_t i = 0; i < n; i++) walk(r, &steps[i], &strands[strand_of(r, steps[i].unit)], cost);
        /* A block ends with its last unit. */
        for (int i = 0, last = 0; i < r->n_units; i++) {
            if (r->units[i].end_clock >= r->units[last].end_clock) last = i;
            *after = r->units[last].end_shift;
        }
    }
    free(steps);
    free(strands);
    return room ? TW_OK : tw_fail_memory(diag);
}
