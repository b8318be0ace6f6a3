/* SPDX-License-Identifier: Apache-2.0 */
/* What an instruction reads and writes: the one function that the check, the lowering and the machine's debug mode
   share. */
#ifndef TW_SCHEDULE_EFFECTS_H
#define TW_SCHEDULE_EFFECTS_H

#include "schedule/schedule.h"

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

typedef struct tw_access_list {
    tw_access *item;
    int count, room;
} tw_access_list;

/* The past is read from here on when there is no window. */
#define TW_KV_PAST (-(INT64_C(1) << 40))

/* Appends to `list` the accesses of `in`, whose operands and parameters must be in range as references (the check's
   first rule). TW_ERR_FORMAT with a message when shapes or parameters do not fit the op; TW_ERR_MEMORY. */
tw_status tw_instr_effects(const tw_schedule *s, const tw_instr *in, tw_access_list *list, tw_diag *diag);

void tw_access_list_free(tw_access_list *list);

#endif
