/* SPDX-License-Identifier: Apache-2.0 */
/* A few configurations for a problem, with the times that a store has of them. */
#ifndef TW_TUNE_SHORTLIST_H
#define TW_TUNE_SHORTLIST_H

#include "tune/cover.h"
#include "tune/store.h"

typedef struct tw_shortlist {
    const tw_family *f;
    tw_choice *of; /* The configurations. The caller owns the memory. */
    double *time;  /* Time of each by tw_family_time. 0: none is known. The caller owns the memory. */
    int n;         /* Number of configurations. */
} tw_shortlist;

/* Returns the index of a configuration. -1: it is not in the list. */
int tw_shortlist_index(const tw_shortlist *l, int macro, int micro);

/* Sets the times to those that a store has for a problem: of each configuration the last measurement with a right
   result. With `campaign`, only measurements of that campaign's phase count (tune/trials.h). NULL: all count. */
tw_status tw_shortlist_read(tw_shortlist *l, tw_store *s, const int64_t *problem, const char *campaign,
                            const char *phase, tw_diag *diag);

/* Returns the index of the fastest configuration, leaving out index `but` (-1: none is left out). -1: no other one has
   a time. */
int tw_shortlist_fastest(const tw_shortlist *l, int but);

#endif
