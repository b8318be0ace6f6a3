/* SPDX-License-Identifier: Apache-2.0 */
/* A graph's program for the workers of a processor: its steps, each dealt out in ranges of units, and counters where
   data flows from one worker to another. */
#ifndef TW_VM_NETWORK_DEAL_H
#define TW_VM_NETWORK_DEAL_H

#include "graph/program/program.h"
#include "kernels/pointwise/map.h"
#include "schedule/ranges/ranges.h"

/* Axes of a step's units:
     product     the dimensions of the batch, rows, columns
     attention   sequences, heads, queries
     map, rows   dimensions before the last. Neighbours that all views walk through alike are one axis.
     plain       one unit */
enum { TW_PRODUCT_ROWS = TW_PROGRAM_BATCH, TW_PRODUCT_COLS };
enum { TW_ATTENTION_BATCH, TW_ATTENTION_HEADS, TW_ATTENTION_QUERIES };

/* Makes the schedule of a program, and plans its memory anew. Step i of the program is step i of the schedule, and so
   with buffers. */
tw_status tw_network_deal(tw_ranges **out, const tw_program *p, int workers, tw_diag *diag);

/* table.c: steps and buffers of the schedule, without tasks. */
tw_status tw_network_table(tw_ranges *r, const tw_program *p, tw_diag *diag);
/* waits.c: counters and waits for tasks that are there. `order` has all tasks in an order in which one worker could run
   them. */
typedef struct tw_network_place {
    int worker, index;
} tw_network_place;
tw_status tw_network_waits(tw_ranges *r, const tw_network_place *order, int n, tw_diag *diag);

/* reuse.c: gives scratch buffers offsets, so that they share memory where the order of tasks allows it. `use` has an
   element for each buffer. */
typedef struct tw_network_use {
    int32_t *last;   /* [worker]: the last task that accesses the buffer, index + 1. NULL: nothing accesses it. */
    int32_t *before; /* [worker]: so many of the worker's tasks come before all accesses. */
} tw_network_use;
tw_status tw_network_reuse(tw_ranges *r, const tw_network_use *use, tw_diag *diag);

#endif
