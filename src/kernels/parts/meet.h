/* SPDX-License-Identifier: Apache-2.0 */
/* A barrier of some or all threads of a block. */
#ifndef TW_KERNELS_PARTS_MEET_H
#define TW_KERNELS_PARTS_MEET_H

#include "ir/builder.h"

typedef struct tw_meeting {
    int threads; /* Number of threads. 0: all threads of the block, at barrier 0. */
    int number;  /* Number of the barrier, 1 to 15. Unused if `threads` is 0. */
    bool apart;  /* True: threads come to the barrier in several places of the code. */
    tw_val team; /* The team's number (i32), which is added to the barrier's. TW_NONE: there are no teams. */
} tw_meeting;

/* Waits until all threads of the meeting arrived. Their earlier writes to shared memory are visible afterwards. */
void tw_part_meet(tw_builder *b, const tw_meeting *m);

#endif
