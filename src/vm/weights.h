/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the weights that a schedule's buffers name, once, when a program is loaded. */
#ifndef TW_VM_WEIGHTS_H
#define TW_VM_WEIGHTS_H

#include "model/model.h"
#include "schedule/schedule.h"

/* The weights of a schedule's buffers. */
typedef struct tw_schedule_weights {
    const tw_weight **of; /* The weights. Copies of one buffer (one per expert) are adjacent. */
    int *first;           /* Index in `of` of each buffer's first copy: [buffers]. */
} tw_schedule_weights;

/* Finds the weights of all weight buffers. The arena owns the lists. TW_ERR_MISMATCH: the model has no weight of a
   buffer's name, shape, type and number of copies. */
tw_status tw_weights_resolve(tw_schedule_weights *out, const tw_schedule *s, const tw_model *m, tw_arena *arena,
                             tw_diag *diag);

/* Returns a buffer's weight. `copy` is the number of the expert, or 0 for weights that are no expert's. */
static inline const tw_weight *tw_weight_at(const tw_schedule_weights *w, int buffer, int64_t copy) {
    return w->of[w->first[buffer] + copy];
}

#endif
