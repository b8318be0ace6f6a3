/* SPDX-License-Identifier: Apache-2.0 */
/* Sums by key. */
#ifndef TW_PROF_TALLY_H
#define TW_PROF_TALLY_H

#include <stdbool.h>
#include <stdint.h>

enum { TW_TALLY_KEYS = 8 };

typedef struct tw_tally_row {
    int32_t key[TW_TALLY_KEYS];
    double sum;
    int64_t count;
    double longest;
    int32_t where; /* Of the longest addend. */
} tw_tally_row;

/* Start from {0}. tw_tally_free frees it. */
typedef struct tw_tally {
    tw_tally_row *rows;
    int n, room;
    int32_t *slots; /* A hash table of indices of rows. -1: free. */
    int n_slots;
} tw_tally;

/* Adds to the sum of a key. False: out of memory. */
bool tw_tally_add(tw_tally *t, const int32_t key[TW_TALLY_KEYS], double x, int32_t where);
/* Sorts rows by sum, the greatest first, those of the same sum by key. Nothing may be added afterwards. */
void tw_tally_sort(tw_tally *t);
void tw_tally_free(tw_tally *t);

#endif
