/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of scratch buffers. Where steps were done one after another, a buffer could lie wherever an earlier one was
   last used. But workers do not wait for each other after each step, and waiting so as to share memory would cost more
   than the memory is worth. Two buffers share memory if all tasks that access one come before all that access the other
   anyway. */
#include "base/diag.h"
#include "graph/program/program.h"
#include "vm/network/deal.h"

#include <stdlib.h>

typedef struct planner {
    tw_ranges *r;
    const tw_network_use *use;
    int *placed; /* Buffers that have offsets, by offset. */
    int n_placed;
} planner;

static int64_t bytes_of(const tw_ranges *r, int buffer) {
    const int64_t n = r->buffers[buffer].rows * r->buffers[buffer].bytes;
    return (n + TW_PROGRAM_ALIGN - 1) / TW_PROGRAM_ALIGN * TW_PROGRAM_ALIGN;
}

/* Tells whether all accesses to a buffer come before all those to another. */
static bool precedes(const planner *p, const tw_network_use *a, const tw_network_use *b) {
    for (int w = 0; w < p->r->n_workers; w++)
        if (b->before[w] < a->last[w]) return false;
    return true;
}

static bool may_share(const planner *p, int a, int b) {
    return precedes(p, &p->use[a], &p->use[b]) || precedes(p, &p->use[b], &p->use[a]);
}

/* Finds the lowest offset at which a buffer meets none that it may not share memory with. */
static void place(planner *p, int buffer) {
    tw_ranges *r = p->r;
    const int64_t bytes = bytes_of(r, buffer);
    int64_t at = 0;
    for (int i = 0; i < p->n_placed; i++) {
        const tw_range_buffer *o = &r->buffers[p->placed[i]];
        if (o->offset >= at + bytes) break;
        if (o->offset + bytes_of(r, p->placed[i]) > at && !may_share(p, buffer, p->placed[i]))
            at = o->offset + bytes_of(r, p->placed[i]);
    }
    r->buffers[buffer].offset = at;
    if (at + bytes > r->scratch) r->scratch = at + bytes;
    int i = p->n_placed++;
    for (; i > 0 && r->buffers[p->placed[i - 1]].offset > at; i--) p->placed[i] = p->placed[i - 1];
    p->placed[i] = buffer;
}

/* The largest go first. */
static int by_size(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] < y[0]) - (x[0] > y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

tw_status tw_network_reuse(tw_ranges *r, const tw_network_use *use, tw_diag *diag) {
    int64_t(*order)[2] = calloc((size_t)r->n_buffers + 1, sizeof *order);
    planner p = {r, use, calloc((size_t)r->n_buffers + 1, sizeof *p.placed), 0};
    tw_status st = order && p.placed ? TW_OK : tw_fail_memory(diag);
    int n = 0;
    for (int i = 0; i < r->n_buffers && st == TW_OK; i++) {
        if (r->buffers[i].kind != TW_RANGE_SCRATCH) continue;
        /* What nothing accesses needs no place. */
        if (!use[i].last) r->buffers[i].kind = TW_RANGE_CONSTANT;
        if (!use[i].last) continue;
        order[n][0] = bytes_of(r, i);
        order[n++][1] = i;
    }
    if (n) qsort(order, (size_t)n, sizeof *order, by_size);
    for (int i = 0; i < n; i++) place(&p, (int)order[i][1]);
    free(order);
    free(p.placed);
    return st;
}
