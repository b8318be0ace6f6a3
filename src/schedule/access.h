/* SPDX-License-Identifier: Apache-2.0 */
/* What the check sees of an instruction, in every format: the boxes of bytes that it accesses, and its waits. */
#ifndef TW_SCHEDULE_ACCESS_H
#define TW_SCHEDULE_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

/* A box of a buffer: [lo, hi) in its first two dimensions and in bytes of its last. For key/value buffers the second
   dimension counts from the step's first position `pos`: append writes rows [0, tokens), attention reads from a
   negative row (all of the past, or a window of it) to `tokens`. What lies below row -pos does not exist and is not
   read. The claim holds for every 0 <= pos <= max_seq - tokens. With n < tokens positions in a step, every access
   shrinks to the first n of the dimension that counts positions, writes and reads alike.
   With several sequences the first dimension of a key/value buffer counts the heads of the first sequence, then those
   of the second, and so on, and rows of a head count from the position of the sequence that it belongs to: each
   appends row 0 of its own heads and reads what lies below. Heads of different sequences are different bytes wherever
   their positions are, and of one head rows only move together, so the claim holds for all choices of a position
   0 <= pos <= max_seq - 1 for each sequence, independent of each other. */
typedef struct tw_access {
    int buffer;
    bool write;
    int64_t lo[3], hi[3];
} tw_access;

/* The past is read from here on when there is no window. */
#define TW_KV_PAST (-(INT64_C(1) << 40))

typedef struct tw_access_list {
    tw_access *item;
    int count, room;
} tw_access_list;

/* False: no memory. */
bool tw_access_list_add(tw_access_list *list, const tw_access *a);
void tw_access_list_free(tw_access_list *list);

typedef struct tw_wait {
    int counter;
    int64_t threshold; /* Arrivals in one step. A machine waits for threshold * the number of steps begun. */
} tw_wait;

#endif
