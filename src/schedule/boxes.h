/* SPDX-License-Identifier: Apache-2.0 */
/* The distinct boxes that a flow's accesses touch, and which of them overlap. Models use few boxes often: every worker
   reads all of x, and each writes its own columns of it in every layer. */
#ifndef TW_SCHEDULE_BOXES_H
#define TW_SCHEDULE_BOXES_H

#include "schedule/flow.h"

typedef struct tw_box {
    int64_t lo[3], hi[3];
    int buffer;
    bool written;
    int n_near, n_far;
    const int
        *near;      /* boxes that share a byte with this one, itself included, where one of the two is written; by lo */
    const int *far; /* of a cache: the same when rows are not told apart */
} tw_box;

typedef struct tw_boxes {
    tw_box *box; /* by buffer, then by lo */
    int count;
    int *of; /* [access]: its box; -1: of a constant */
    tw_arena arena;
} tw_boxes;

/* TW_OK or TW_ERR_MEMORY; freed in either case by tw_boxes_free. */
tw_status tw_boxes_find(tw_boxes *b, const tw_flow *f);
void tw_boxes_free(tw_boxes *b);

#endif
