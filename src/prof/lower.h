/* SPDX-License-Identifier: Apache-2.0 */
/* The pass that lowers records to readings of a counter and stores.

   A record in straight code is a reading and a store to a fixed place, a record in a loop a reading and a store to a
   fixed place in the iteration's frame; the frame moves on once an iteration. Nothing is counted, compared or tagged at
   a record: what a word means is known from its place (layout.h). */
#ifndef TW_PROF_LOWER_H
#define TW_PROF_LOWER_H

#include "prof/layout.h"

typedef enum tw_prof_units {
    TW_PROF_WARPGROUPS, /* The first warp of every four of a scope. */
    TW_PROF_WARPS,
    TW_PROF_BLOCKS /* The first warp of each scope. */
} tw_prof_units;

typedef struct tw_prof_options {
    tw_prof_metric metric;
    tw_prof_units units;
    uint64_t warps; /* A bit for each warp of the block that may record. 0: all. */
    int first;      /* The first thread block that is recorded. */
    int every;      /* Every so many blocks from there on. 0: all. */
    bool global;    /* Store records in global memory, which costs more and has no bound. */
    bool flush;     /* Write full rings in shared memory out to global memory, so that no record is lost. */
    /* Shared memory that the records may take, in bytes. With too little for two frames of each ring, records go to
       global memory. */
    int64_t shared_bytes;
    int frames;       /* Most frames of a ring. 0: 64 in shared memory, 1024 in global memory. */
    bool apart;       /* Each record reads the counter itself, also right behind another one. */
    const char *only; /* Names of the records that are lowered, separated by commas. NULL: all. */
} tw_prof_options;

/* What the lowered records add to a kernel: a parameter, and a dynamic shared object. */
#define TW_PROF_PARAMETER "profile"
#define TW_PROF_SHARED    "records"

/* Lowers the records of a kernel. Needs: verified IR, no exit. Keeps: control flow, and everything that is no record.
   Adds a parameter "profile", the address of a zeroed buffer of tw_prof_bytes(), and a dynamic shared object "records".
   With no record in the kernel (or none that `only` names) it changes nothing: the PTX is the same byte for byte, and
   layout->n_sites is 0. Afterwards the kernel has no records.
   TW_ERR_UNSUPPORTED: the kernel has an exit, a record in a loop's predicate, threads that are no whole warps, or
   something of these names; or a thread block's records would take more than 1 GiB. The caller frees the layout. */
tw_status tw_prof_lower(tw_kernel *k, const tw_prof_options *o, tw_prof_layout *layout, tw_diag *diag);

#endif
