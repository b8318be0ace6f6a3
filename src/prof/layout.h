/* SPDX-License-Identifier: Apache-2.0 */
/* Where an instrumented kernel leaves its records: made by the pass that lowers records (lower.h), read by the decoder
   (decode.h).

   A kernel's scopes are its body and each block of its roles. Units record: warps, every warpgroup's first warp, or the
   first warp of a scope. In the profile buffer each recorded thread block has a part of `block_bytes`, in which each
   scope has a segment for each of its units:

     header    TW_PROF_HEADER bytes (the words below), then the count of each of the scope's loops, u32
     statics   a word for each site that stands in no loop
     rings     for each loop a ring of frames, one an iteration, with a word for each site of the loop

   A count is the number of bytes of frames that the loop would have filled without end: frame i of the loop lies at
   i * frame bytes, modulo the ring's size. */
#ifndef TW_PROF_LAYOUT_H
#define TW_PROF_LAYOUT_H

#include "base/arena.h"
#include "prof/work.h"

/* What a record holds. */
typedef enum tw_prof_metric {
    TW_PROF_CLOCK,       /* %clock: cycles of the multiprocessor, 32 bits. */
    TW_PROF_GLOBALTIMER, /* %globaltimer: nanoseconds, the low 32 bits. */
    TW_PROF_SMID         /* %smid + 1: where the unit runs. Such records have no times. */
} tw_prof_metric;

/* Words of a segment's header, 8 bytes each. */
enum {
    TW_PROF_BEGIN_CLOCK, /* %clock64 when the scope began. */
    TW_PROF_BEGIN_TIME,  /* %globaltimer then. */
    TW_PROF_END_CLOCK,   /* %clock64 when the scope ended. 0: the unit never came there. */
    TW_PROF_END_TIME,
    TW_PROF_SM, /* %smid. */
    TW_PROF_HEADER_WORDS,
    TW_PROF_HEADER = 8 * TW_PROF_HEADER_WORDS
};

typedef struct tw_prof_site {
    int code; /* tw_opcode of the record. */
    const char *name;
    int engine, wait, arrival, count; /* Attributes of the record. */
    int scope;
    int loop;          /* Index of the loop around it. -1: none. */
    int offset;        /* Bytes from the statics, or from the loop's frame. A value has two words: clock, value. */
    int pair;          /* Of an end: the site of its begin. Else -1. */
    bool conditional;  /* The record may be left out: it stands in an `if`, or has a guard. */
    tw_prof_work work; /* Work of the event that begins here. The unit is counted with all of its warps. */
} tw_prof_site;

typedef struct tw_prof_loop {
    int scope;
    int parent;   /* The loop around it. -1: none. */
    bool stamped; /* The first word of a frame is the iteration's beginning, since the first site is conditional. */
    bool apart;   /* Lanes of a warp may be apart at its iterations, so that the first one flushes alone. */
    int count;    /* Bytes from the segment to the loop's count. */
    int ring;     /* Bytes from the segment to the loop's ring. */
    int frame;    /* Bytes of a frame, a power of two. */
    int frames;   /* Frames of the ring, a power of two. */
    int kept;     /* Frames of the ring in shared memory, a power of two. Differs with the strategy flush alone. */
    int near;     /* Bytes from the unit's part of shared memory to that ring. */
} tw_prof_loop;

typedef struct tw_prof_scope {
    const char *role; /* NULL: the role has no name, or the scope is the body. */
    int parent;       /* The scope that it stands in. -1: it is the body. */
    int from, below;  /* Its warps. */
    int group;        /* Warps of a unit. */
    int units;
    int segment; /* Bytes from the block's part to the first unit's segment. */
    int bytes;   /* Bytes of a segment. */
    int statics; /* Bytes from the segment to the statics. */
    int near;    /* Bytes from the shared object to the first unit's part. */
    int near_bytes;
    int n_sites;
} tw_prof_scope;

typedef struct tw_prof_layout {
    tw_arena arena; /* Of everything below. */
    tw_prof_metric metric;
    bool global;      /* Records go to global memory at once. */
    bool flush;       /* Rings in shared memory are written out when they are full. */
    int first, every; /* Thread blocks first, first + every, ... are recorded. */
    int64_t block_bytes;
    int64_t shared_bytes; /* Added to the kernel's dynamic shared memory. */
    tw_prof_site *sites;  /* In the order of the program. */
    tw_prof_loop *loops;
    tw_prof_scope *scopes;
    int n_sites, n_loops, n_scopes;
} tw_prof_layout;

void tw_prof_layout_free(tw_prof_layout *l); /* Leaves an empty one. */

/* Number of thread blocks of a grid that are recorded, and bytes of the profile buffer for them. */
int64_t tw_prof_blocks(const tw_prof_layout *l, int64_t blocks);
int64_t tw_prof_bytes(const tw_prof_layout *l, int64_t blocks);
/* Bytes from the buffer to the part of recorded block i, and that block's number in the grid. */
int64_t tw_prof_part(const tw_prof_layout *l, int64_t i);
int64_t tw_prof_block(const tw_prof_layout *l, int64_t i);

#endif
