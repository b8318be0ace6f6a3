/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of moments, as intervals of time. */
#ifndef TW_PROF_SPANS_H
#define TW_PROF_SPANS_H

#include <stdbool.h>

typedef struct tw_interval {
    double begin, end;
} tw_interval;

/* A set. Start from {0}. tw_spans_free frees it. */
typedef struct tw_spans {
    tw_interval *list;
    int n, room;
} tw_spans;

/* Appends an interval, in any order and over others. Intervals without length are left out. False: out of memory. */
bool tw_spans_add(tw_spans *s, double begin, double end);
/* Sorts the intervals and unites those that overlap or touch. The functions below need united sets. */
void tw_spans_unite(tw_spans *s);
void tw_spans_free(tw_spans *s);

/* How long the set is. */
double tw_spans_length(const tw_spans *s);
/* How long the intersection of two sets is. */
double tw_spans_common(const tw_spans *a, const tw_spans *b);
/* Appends to `out`, which is united then, what of [begin, end) is not in `s`. False: out of memory. */
bool tw_spans_complement(const tw_spans *s, double begin, double end, tw_spans *out);
/* The first interval that ends after `time`. s->n: there is none. */
int tw_spans_after(const tw_spans *s, double time);

#endif
