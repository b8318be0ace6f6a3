/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a model fits, said before anything is packed: overcommit would let it run until the kernel kills it. */
#ifndef TW_VM_MEMORY_H
#define TW_VM_MEMORY_H

#include "model/model.h"
#include "schedule/schedule.h"

/* Bytes. Weights are as packed; those that are read where the checkpoint's file is mapped take none. */
typedef struct tw_memory_need {
    int64_t weights, caches, scratch;
} tw_memory_need;

/* TW_ERR_MEMORY with both numbers, and what would need less, unless it fits. `available` of 0: unknown, it fits.
   `weights` is the type of the packed matrices; `whose` is "memory", or a GPU's. */
tw_status tw_memory_fits(const tw_memory_need *need, int64_t available, const tw_model *model, tw_dtype weights,
                         const char *whose, tw_diag *diag);

/* The type of a schedule's matrices: TW_I8 or TW_I4 if any is, else TW_F32, which stands for all as stored. */
tw_dtype tw_memory_weights(const tw_schedule *s);

int64_t tw_memory_buffer(const tw_buffer *b); /* bytes */

#endif
