/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of stages in shared memory, between who fills them and who uses them up. A stage has two mbarriers: `full`,
   which counts what arrives in it, and `empty`, which counts who is done with it. Both sides walk the ring with a
   cursor: a stage and the parity of the phase that is waited for there.

   The rule of giving back: a stage that a bulk or tensor copy will fill must have been read by then, and such a copy
   overtakes ordinary loads that an arrival does not wait for. So who loads from a stage gives it back with the
   registers that were loaded (tw_ring_return.loaded), on which the arrival then depends. What the tensor cores read
   from a stage is through once their products were waited for. */
#ifndef TW_KERNELS_PARTS_RING_H
#define TW_KERNELS_PARTS_RING_H

#include "ir/builder.h"

typedef struct tw_ring {
    tw_val data, barriers; /* i32, addresses in shared memory */
    int first;             /* bytes from `data` to the first stage */
    int full, empty;       /* bytes from `barriers` to the first mbarrier of each kind; they lie 8 apart */
    int stages, bytes;     /* bytes from a stage to the next */
    bool offsets;          /* cursors hold offsets, which takes a register more and saves multiplications */
} tw_ring;

/* Variables. */
typedef struct tw_ring_cursor {
    tw_val stage;   /* its number, or, where the ring says so, its offset in bytes */
    tw_val barrier; /* where it has offsets, its mbarriers' */
    tw_val parity;
} tw_ring_cursor;

/* By one thread, before anybody uses the ring: initialises the mbarriers for so many arrivals a phase, and fences that
   for the copy engine. Everybody meets afterwards. */
void tw_ring_init(tw_builder *b, const tw_ring *r, int target, int fills, int returns);

/* At the first stage. Who fills begins with parity 1: an empty stage need not be waited for the first time round. */
tw_ring_cursor tw_ring_begin(tw_builder *b, const tw_ring *r, int parity);
void tw_ring_advance(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c);

/* Of the cursor's stage: the address of its bytes, counted from `from` where that is given (else from the first stage),
   and of its mbarriers. */
tw_val tw_ring_data(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c, tw_val from);
tw_val tw_ring_full(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c);
tw_val tw_ring_empty(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c);
/* Until the mbarrier's phase of the cursor's parity has ended. */
void tw_ring_wait(tw_builder *b, tw_val barrier, const tw_ring_cursor *c);

typedef struct tw_ring_return {
    tw_val empty;         /* the stage's mbarrier */
    const tw_val *loaded; /* i32 registers that ordinary loads filled from the stage, `n` of them */
    int n;
    tw_val nothing; /* where n > 0: an i32 that is 0, which no compiler can know */
    int blocks;     /* of the cluster that fill the stage and each hear of it: lanes 0 .. blocks - 1 arrive, each at one
                       block's mbarrier; 1: lane 0, here; 0: every lane, here */
    tw_val lane;    /* where blocks > 0 */
    tw_val when;    /* none: always */
} tw_ring_return;
void tw_ring_give_back(tw_builder *b, const tw_ring_return *x);

#endif
