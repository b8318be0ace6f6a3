/* SPDX-License-Identifier: Apache-2.0 */
/* The records of one thread block on their way from the profile buffer to a trace. Each file does one step:
   read.c finds the records and unwraps their clocks, channels.c says which arrival each wait waited for, replay.c takes
   out what recording cost, clocks.c makes multiprocessors' clocks comparable, decode.c makes the events. */
#ifndef TW_PROF_RECORDS_H
#define TW_PROF_RECORDS_H

#include "prof/layout.h"

/* What one site left in one iteration. */
typedef struct tw_prof_record {
    int64_t clock;     /* Unwrapped: as %clock64, or %globaltimer. Of an %smid: its unit's beginning. */
    int64_t iteration; /* Of the site's loop, from 0. */
    double shift;      /* Clocks that recording delayed it by (replay.c). */
    int32_t unit, site;
    int32_t value;   /* Of a value, or an %smid. */
    int32_t other;   /* Of a begin and an end: the record of the region's other side. -1: it is not there. */
    int32_t ordinal; /* Of an arrival or a wait: the number on its channel, in this unit, from 0. */
    int32_t cause;   /* Of a wait's begin: the arrival that ended the wait. -1: unknown. */
} tw_prof_record;

/* A unit of a scope of the block. */
typedef struct tw_prof_unit {
    int scope, warp; /* The first of its warps. */
    int sm;
    int64_t begin_clock, end_clock; /* As the records': %clock64, or %globaltimer. */
    double begin_shift, end_shift;  /* As a record's. */
    uint64_t begin_time, end_time;
    int first, n;    /* Its records. */
    int64_t dropped; /* Records that its rings lost. */
} tw_prof_unit;

/* An arrival that a wait waited for. A wait at a barrier has one for each unit there. */
typedef struct tw_prof_link {
    int32_t from, to; /* Records: the arrival, and the wait's begin. */
    bool bound;       /* Own work that an earlier wait has seen done, whose record a ring lost: it ended by this one. */
} tw_prof_link;

typedef struct tw_prof_block_records {
    const tw_prof_layout *layout;
    tw_prof_unit *units;
    tw_prof_record *records; /* By unit, then by clock. */
    tw_prof_link *links;     /* Ascending by `to`. */
    int n_units, n_records, n_links;
    int room_units, room_records, room_links;
} tw_prof_block_records;

void tw_prof_records_clear(tw_prof_block_records *r); /* Keeps the memory. */
void tw_prof_records_free(tw_prof_block_records *r);

/* Reads a block's part of the profile buffer. Units that did not come to their scope's end are left out.
   TW_ERR_FORMAT: the part is none of this layout. */
tw_status tw_prof_read(tw_prof_block_records *r, const void *part, tw_diag *diag);

/* Sets `ordinal` and `cause`, and finds the links. */
tw_status tw_prof_find_links(tw_prof_block_records *r, tw_diag *diag);

/* Sets the shifts of records and units, from a record's cost in clocks. A record delays what its warp does next. A wait
   that really waited ends when its arrival comes, so there the delay is the arrival's. The block's own beginning was
   delayed by `before` clocks; *after gets what its end was delayed by. Needs links. */
tw_status tw_prof_replay(tw_prof_block_records *r, double cost, double before, double *after, tw_diag *diag);

static inline const tw_prof_site *tw_prof_site_of(const tw_prof_block_records *r, int record) {
    return &r->layout->sites[r->records[record].site];
}
static inline bool tw_prof_is_wait(const tw_prof_site *s) {
    return s->code == TW_OP_record_begin && s->wait != TW_WAIT_none;
}
static inline bool tw_prof_is_arrival(const tw_prof_site *s) {
    return s->code == TW_OP_record_mark && s->arrival != TW_ARRIVAL_none;
}
#endif
