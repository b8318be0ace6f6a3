/* SPDX-License-Identifier: Apache-2.0 */
/* Every element of every buffer, at concrete positions: who touches it, and, along one run, what has been written. */
#ifndef TW_SOUNDNESS_MEMORY_H
#define TW_SOUNDNESS_MEMORY_H

#include "soundness/order.h"
#include "soundness/touch.h"

typedef struct memory {
    const order *o;
    const touch_space *space;
    touch_step step[ORDER_MAX_STEPS];
    touch_list list;
    int *touch_first;         /* [instance + 1], into the list */
    uint64_t *reads, *writes; /* [instance][words]: one bit an element */
    size_t words;
    int *stamp; /* [element]: the step (from 1) of its last write along the run; 0: none */
    int *times; /* [element]: how often that step has written it */
    int rooms[3];
} memory;

/* What every instance touches when step i is at step[i]. HAZARD_NONE or HAZARD_BOUNDS, with the instance in *who. */
hazard memory_set(memory *m, const order *o, const touch_space *space, const touch_step *step, int *who);
void memory_free(memory *m);

/* Whether the two touch an element that one of them writes; it goes to *element. */
bool memory_conflict(const memory *m, int a, int b, int *element);

/* Whether an instance writes an element that it reaches through another operand too. */
bool memory_self(const memory *m, int instance, int *element);

/* A run: from the start, then instance after instance. Reading says what is wrong with what is found. */
void memory_restart(memory *m);
hazard memory_read(const memory *m, int instance, int *element);
void memory_write(memory *m, int instance);
hazard memory_step_end(const memory *m, int step, int *element);

/* "attended[1][0][3]" */
void memory_name_element(const memory *m, int element, char out[96]);

#endif
