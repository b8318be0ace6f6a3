/* SPDX-License-Identifier: Apache-2.0 */
/* Traces made by hand, for tests of what writes and analyses them. */
#ifndef TW_TEST_PROF_MADE_H
#define TW_TEST_PROF_MADE_H

#include "prof/trace.h"

/* Adds a track of `role`. Returns its index. */
int made_track(tw_trace *t, int sm, int block, int warp, const char *role, double begin, double end);

/* Adds an event without an iteration, whose duration is known. Returns its index. */
int made_event(tw_trace *t, int track, tw_event_kind kind, const char *name, tw_trace_engine engine, double begin,
               double end);

/* A trace with one of everything, on two SMs: regions in an iteration, a wait with an edge from a mark on the other SM,
   asynchronous events that overlap, values, a duration that is not known exactly, records that were lost, names with
   quotes, "<", a newline and UTF-8, and blocks of which two run one after the other. Finished. */
tw_trace *made_small(void);

/* A product as a warp-specialised kernel would run it: on each of `sms` SMs two thread blocks, one after the other,
   with a producer and two consumers and a ring of four stages. One SM is slower than others. Finished. */
tw_trace *made_product(int sms, int iterations);

/* A trace without tracks and events. Finished. */
tw_trace *made_empty(void);

#endif
