/* SPDX-License-Identifier: Apache-2.0 */
/* Takes out what recording cost, after the fact.

   A record costs its unit some clocks, so whatever the unit does next is late by as much, and by the cost of all its
   records before. A wait absorbs that: if a unit waited at all, the wait ended because an arrival came, and without
   records it would have ended as much earlier as that arrival would have come. So the records of a block are walked in
   the order of their clocks, and each gets a shift:

     after a record        its unit's shift grows by the cost
     at a wait's end       if it waited: the shift of the arrival's record. If it did not: its unit's

   A wait that took no longer than a record costs did not wait, as far as can be seen. An asynchronous arrival counts
   from its issue, since what was issued runs at its own pace: without records it would have been issued, and would
   have been done, that much earlier. */
#include "base/diag.h"
#include "prof/records.h"

#include <stdlib.h>

static int by_clock(const void *a, const void *b) {
    const tw_prof_record *const *x = a, *const *y = b;
    if ((*x)->clock != (*y)->clock) return (*x)->clock < (*y)->clock ? -1 : 1;
    return *x < *y ? -1 : *x > *y;
}

static double end_of_wait(const tw_prof_block_records *r, const tw_prof_record *end, double own, double cost) {
    const tw_prof_record *begin = &r->records[end->other];
    if (begin->cause < 0) return own;
    const double waited = (double)(end->clock - begin->clock) - cost;
    const tw_prof_record *cause = &r->records[begin->cause];
    if (waited <= cost || cause->clock > end->clock) return own;
    /* The unit cannot have come to the wait's end before it came to its begin. */
    const double by_arrival = cause->shift, most = (double)end->clock - tw_prof_when(begin);
    return by_arrival < most ? by_arrival : most;
}

tw_status tw_prof_replay(tw_prof_block_records *r, double cost, double before, double *after, tw_diag *diag) {
    const size_t n = (size_t)r->n_records;
    tw_prof_record **order = malloc((n + 1) * sizeof *order);
    double *late = calloc((size_t)r->n_units + 1, sizeof *late);
    const bool room = order && late;
    *after = before;
    if (room) {
        for (int i = 0; i < r->n_units; i++) late[i] = before;
        for (size_t i = 0; i < n; i++) order[i] = &r->records[i];
        qsort(order, n, sizeof(*order), by_clock);
        for (size_t i = 0; i < n; i++) {
            tw_prof_record *x = order[i];
            const tw_prof_site *s = &r->layout->sites[x->site];
            double shift = late[x->unit];
            if (s->code == TW_OP_record_end && x->other >= 0 && tw_prof_is_wait(&r->layout->sites[s->pair]))
                shift = end_of_wait(r, x, shift, cost);
            x->shift = shift;
            late[x->unit] = shift + cost;
        }
        /* A block ends with its last unit. */
        for (int i = 0, last = 0; i < r->n_units; i++) {
            if (r->units[i].end_clock >= r->units[last].end_clock) last = i;
            *after = late[last];
        }
    }
    free(order);
    free(late);
    return room ? TW_OK : tw_fail_memory(diag);
}
