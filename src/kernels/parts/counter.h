/* SPDX-License-Identifier: Apache-2.0 */
/* Counters in global memory, by which blocks of a grid wait for one another. One thread of a block waits: many would
   keep the memory from the blocks that arrive. A barrier of the block then lets the others go on, and they see what the
   one has seen. Likewise one thread counts, after a barrier of the threads whose writes it publishes. */
#ifndef TW_KERNELS_PARTS_COUNTER_H
#define TW_KERNELS_PARTS_COUNTER_H

#include "ir/builder.h"

/* What a thread that waits does between two looks. */
typedef struct tw_patience {
    void (*between)(void *context, tw_val seen); /* Emits it. Never NULL. `seen` is the last look's value. */
    void *context;
    tw_val gave_up; /* Variable (i32): not 0 once nothing is waited for any more. TW_NONE: the wait has no end. */
} tw_patience;

/* Computes the predicate that a thread looks again: `early`, and it has not given up. */
tw_val tw_patience_left(tw_builder *b, const tw_patience *p, tw_val early);

typedef struct tw_counter_wait {
    tw_val counter; /* Address of the counter (i32). */
    tw_val target;  /* The value to wait for (i32). */
    bool exact;     /* True: this value. False: this or a later one; counters may wrap round. */
    tw_val seen;    /* Variable (i32) that gets the values. TW_NONE: the caller needs none. */
    const tw_patience *patience;
} tw_counter_wait;
/* Waits in one thread. The thread then sees all writes that the arrivals published, unless it gave up. */
void tw_counter_poll(tw_builder *b, const tw_counter_wait *w);

/* Adds 1, in one thread. With `publish` the block's writes before the barrier are visible to those who see the sum. */
void tw_counter_add(tw_builder *b, tw_val counter, bool publish);
/* Sets the counter, in one thread, and publishes likewise. No other block may write it at that time. */
void tw_counter_set(tw_builder *b, tw_val counter, tw_val value);

#endif
