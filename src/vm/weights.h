/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a model's weights by the names that a schedule's buffers have, once, when a program is loaded. */
#ifndef TW_VM_WEIGHTS_H
#define TW_VM_WEIGHTS_H

#include "model/model.h"
#include "schedule/schedule.h"

typedef struct tw_schedule_weights {
    const tw_weight **of; /* The weights of all buffers, a buffer's copies side by side. */
    int *first;           /* [buffer]: index of its first copy in `of`. */
} tw_schedule_weights;

/* Fills *out for every weight buffer of the schedule. The lists are the arena's. TW_ERR_MISMATCH: a buffer is no weight
   of this model, or its type or number of copies is another. */
tw_status tw_weights_resolve(tw_schedule_weights *out, const tw_schedule *s, const tw_model *m, tw_arena *arena,
                             tw_diag *diag);

/* The weight that a buffer names. `copy` is the expert's number; 0 for all others. */
static inline const tw_weight *tw_weight_at(const tw_schedule_weights *w, int buffer, int64_t copy) {
    return w->of[w->first[buffer] + copy];
}

#endif
