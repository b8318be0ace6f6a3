/* SPDX-License-Identifier: Apache-2.0 */
/* What an instruction reads and writes, element by element, in one concrete step: written from the table of ops and
   from what the machine executes, and on purpose without a line of the check's own description. */
#ifndef TW_SOUNDNESS_TOUCH_H
#define TW_SOUNDNESS_TOUCH_H

#include "schedule/schedule.h"

/* Ways to be unsafe. The first six are faults of form: they are there before anything runs. */
typedef enum hazard {
    HAZARD_NONE,
    HAZARD_REFERENCE, /* a buffer, counter or operand that is not there */
    HAZARD_KIND,      /* a buffer of another kind than the op works on */
    HAZARD_READ_ONLY, /* a weight is written */
    HAZARD_SHAPE,     /* the op addresses its buffer with other extents than it has */
    HAZARD_BOUNDS,    /* an element outside its buffer */
    HAZARD_STRUCTURE, /* a step that does not begin or end, or does so twice */
    HAZARD_DEADLOCK,
    HAZARD_STEP_END, /* a step ends before some instruction of it has run */
    HAZARD_RACE,
    HAZARD_UNDEFINED, /* a read of what this step has not written */
    HAZARD_COVERAGE,  /* one read finds elements written once and elements written twice */
    HAZARD_OUTPUT,    /* an output is not written whole when its step ends */
    HAZARD_SELF,      /* an instruction writes an element that it reaches through another operand too: nothing says
                         that a machine reads all before it writes any, though today's kernels do */
    HAZARD_COUNT
} hazard;
const char *hazard_name(hazard h);

enum { TOUCH_MAX_SEQUENCES = 4 };

/* A step: its first position and how many there are (at most the schedule's tokens). Of several sequences every one has
   a position: `pos` is the first one's, and n is the schedule's tokens. */
typedef struct touch_step {
    int64_t pos, n;
    int64_t others[TOUCH_MAX_SEQUENCES - 1];
} touch_step;
static inline int64_t touch_position(const touch_step *step, int64_t sequence) {
    return sequence ? step->others[sequence - 1] : step->pos;
}
/* The sequence that a head of a cache belongs to: its heads lie behind those of the sequence before it. */
static inline int64_t touch_sequence(const tw_schedule *s, const tw_buffer *cache, int64_t head) {
    return head / (cache->shape[0] / s->sequences);
}

/* A run of elements. Operands are numbered as in the table; -1 is the step's own data (position and count). */
typedef struct touch {
    int first, count, operand;
    bool write;
} touch;

typedef struct touch_list {
    touch *item;
    int count, room;
} touch_list;

/* Elements of all buffers but weights, numbered through. Element 0 is the step's own data: `input` sets it, everything
   else reads it. */
typedef struct touch_space {
    const tw_schedule *s;
    int *base; /* [buffer]: its first element; -1: a weight */
    int buffers_room, count;
    tw_instr_op_info ops[TW_INSTR_COUNT];
} touch_space;

enum { TOUCH_MAX_ELEMENTS = 1 << 16 };

/* False when the buffers hold more elements than are worth simulating, or the schedule more sequences. May be called
 * again with another schedule. */
bool touch_space_set(touch_space *space, const tw_schedule *s);
void touch_space_free(touch_space *space);

/* The form of one instruction: HAZARD_NONE, or what is wrong. */
hazard touch_form(const touch_space *space, const tw_instr *in);

/* Appends what `in`, whose form is good, touches in `step`. HAZARD_NONE or HAZARD_BOUNDS. */
hazard touch_instr(const touch_space *space, const tw_instr *in, touch_step step, touch_list *out);

#endif
