/* SPDX-License-Identifier: Apache-2.0 */
/* Refuses a model that does not fit in memory before anything is packed. Without this, Linux would overcommit and kill
   the process later. */
#ifndef TW_VM_MEMORY_H
#define TW_VM_MEMORY_H

#include "model/model.h"
#include "schedule/schedule.h"

/* Bytes that a model takes. Weights are counted as packed. Weights read directly from the mapped checkpoint count as
   none. */
typedef struct tw_memory_need {
    int64_t weights, caches, scratch;
    int64_t sequences; /* Sequences that have caches. 0: 1. */
} tw_memory_need;

int64_t tw_memory_sum(const tw_memory_need *need);
void tw_memory_add(tw_memory_need *to, const tw_memory_need *need);

/* TW_OK if `need` is at most `available` bytes. Else TW_ERR_MEMORY; the message has both numbers and says what would
   need less. `available` of 0 is unknown, and everything fits. `weights` is the type of the packed matrices. `whose`
   names the memory in the message: "memory", or that of a GPU. */
tw_status tw_memory_fits(const tw_memory_need *need, int64_t available, const tw_model *model, tw_dtype weights,
                         const char *whose, tw_diag *diag);

/* TW_I8 or TW_I4 if any matrix of the schedule has that type, else TW_F32, which means as stored. */
tw_dtype tw_memory_weights(const tw_schedule *s);

/* Bytes that a buffer takes. */
int64_t tw_memory_buffer(const tw_buffer *b);

#endif
