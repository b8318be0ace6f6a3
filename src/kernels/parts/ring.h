/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of stages in shared memory between a producer and its consumers. A stage has two mbarriers. `full` completes
   when the producer's data has arrived; `empty` completes when every consumer has returned the stage. Each side walks
   the ring with a cursor: a stage, and the parity of the phase to wait for.

   A bulk or tensor copy overtakes earlier ordinary loads, and an mbarrier arrival does not wait for them. A consumer
   that returned a stage before its loads are done could read the next stage's data. The arrival must therefore depend
   on the loaded registers, which the consumer names in tw_ring_return.loaded. Reads by wgmma are done when wgmma_wait
   returns, and need no such dependency. */
#ifndef TW_KERNELS_PARTS_RING_H
#define TW_KERNELS_PARTS_RING_H

#include "ir/builder.h"

enum { TW_RING_NAME = 16, TW_RING_MBARRIER = 8 /* Bytes of an mbarrier. */ };

typedef struct tw_ring {
    /* For the profiler, whose channels are NAME.full and NAME.empty. At most TW_RING_NAME letters. NULL: the ring has
       no records, as one that is used in a loop's predicate. */
    const char *name;
    tw_val data;     /* Shared address (i32) that `first` counts from. */
    tw_val barriers; /* Shared address (i32) that `full` and `empty` count from. */
    int first;       /* Bytes from `data` to the first stage. */
    int full;        /* Bytes from `barriers` to the first stage's `full`. The next stage's is 8 bytes further. */
    int empty;       /* Bytes from `barriers` to the first stage's `empty`. The next stage's is 8 bytes further. */
    int stages;      /* Number of stages. */
    int bytes;       /* Bytes from a stage to the next. */
    bool offsets;    /* Cursors hold byte offsets. This takes one more register and saves multiplications. */
} tw_ring;

/* A place in the ring. All fields are IR variables. */
typedef struct tw_ring_cursor {
    tw_val stage;   /* The stage's number; with tw_ring.offsets its offset in bytes. */
    tw_val barrier; /* The offset of the stage's mbarriers in bytes. Only with tw_ring.offsets. */
    tw_val parity;  /* The parity of the phase to wait for. */
} tw_ring_cursor;

/* Initialises and fences the mbarriers: `fills` arrivals complete a `full`, `returns` an `empty`. One thread calls it.
   All threads must meet at a barrier between this and their first use of the ring. */
void tw_ring_init(tw_builder *b, const tw_ring *r, int target, int fills, int returns);

/* Makes a cursor at the first stage. A consumer begins with parity 0. The producer begins with parity 1, since all
   stages are empty in its first round. */
tw_ring_cursor tw_ring_begin(tw_builder *b, const tw_ring *r, int parity);
void tw_ring_advance(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c);
/* Moves a cursor over `n` stages (i32) that others use. Only with tw_ring.offsets. */
void tw_ring_skip(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c, tw_val n);

/* Addresses of the cursor's stage and of its two mbarriers. `from` is the address of the first stage. TW_NONE stands
   for data + first. */
tw_val tw_ring_data(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c, tw_val from);
tw_val tw_ring_full(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c);
tw_val tw_ring_empty(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c);
/* Readies the cursor's stage for a producer's copies, in the thread that issues them: waits until the stage is empty,
   and tells its `full` to expect `bytes` (i32). TW_NONE: the copies arrive by themselves. Returns `full`. */
tw_val tw_ring_fill(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c, tw_val bytes);
/* Waits until the cursor's stage is full. `full` is the address of its mbarrier. */
void tw_ring_wait(tw_builder *b, const tw_ring *r, tw_val full, const tw_ring_cursor *c);

typedef struct tw_ring_return {
    const tw_ring *ring;
    tw_val empty;         /* Address of the stage's `empty`. */
    const tw_val *loaded; /* The i32 registers that ordinary loads filled from the stage. */
    int n;                /* Number of `loaded`. */
    tw_val nothing;       /* An i32 that is 0 at run time and that no compiler can know. Only where n > 0. */
    /* Who arrives. 0: every lane, in its own block. 1: lane 0, in its own block. More: lanes 0 to blocks - 1 of the
       warp, each in another block of the cluster, since all of them fill the stage by multicast. */
    int blocks;
    tw_val lane; /* The lane's number. Only where blocks > 0. */
    tw_val when; /* A predicate for the arrival. TW_NONE: always. */
} tw_ring_return;
/* Arrives at `empty`. */
void tw_ring_give_back(tw_builder *b, const tw_ring_return *x);

#endif
