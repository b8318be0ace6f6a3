/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks of multiprocessors, made comparable. Each unit read both its multiprocessor's clock and the GPU's timer when
   it began and when it ended. The timer says nanoseconds, but moves on in ticks, so that a reading t means a moment
   between t and t + tick. All multiprocessors run at one rate during a launch; each clock has an offset of its own,
   which lies where the bounds of all its readings allow. */
#ifndef TW_PROF_CLOCKS_H
#define TW_PROF_CLOCKS_H

#include "tilewright/base.h"

typedef struct tw_prof_anchor {
    int sm;
    int64_t clock;
    uint64_t time; /* Nanoseconds. */
} tw_prof_anchor;

typedef struct tw_prof_clocks {
    double ghz;         /* Clocks per nanosecond. */
    double tick;        /* Of the timer, nanoseconds. */
    uint64_t origin;    /* The first anchor's time, which `offset` counts from. */
    int n;              /* Multiprocessors: 0 to n - 1. */
    double *offset;     /* Of each: nanoseconds at its clock 0. */
    double *uncertain;  /* Of each: the offset may be wrong by so much. */
    int64_t *reference; /* Of each: a clock near its anchors. */
} tw_prof_clocks;

/* Fits `n` anchors, of which there must be one. `ghz` 0: the rate is found from the anchors; a single anchor, or
   several at one clock, have the rate 1. TW_ERR_MEMORY. The caller frees what is made. */
tw_status tw_prof_clocks_fit(tw_prof_clocks *c, const tw_prof_anchor *anchors, int n, double ghz, tw_diag *diag);
void tw_prof_clocks_free(tw_prof_clocks *c);

/* Nanoseconds after the origin, `late` clocks before a multiprocessor's clock says `clock`. */
double tw_prof_time_at(const tw_prof_clocks *c, int sm, int64_t clock, double late);

#endif
