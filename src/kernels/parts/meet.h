/* SPDX-License-Identifier: Apache-2.0 */
/* A barrier that some or all threads of a block pass together. */
#ifndef TW_KERNELS_PARTS_MEET_H
#define TW_KERNELS_PARTS_MEET_H

#include "ir/builder.h"

typedef struct tw_meeting {
    int threads; /* Threads that take part. 0: all threads of the block, by barrier 0. */
    int number;  /* The barrier's number, 1 to 15, where `threads` is not 0. */
} tw_meeting;

/* Waits until all threads of the meeting are here. What they wrote before to shared memory is visible afterwards. */
void tw_part_meet(tw_builder *b, const tw_meeting *m);

#endif
