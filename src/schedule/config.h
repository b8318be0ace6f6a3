/* SPDX-License-Identifier: Apache-2.0 */
/* How a model is lowered, and how a GPU's machine is built, as a space of parameters. */
#ifndef TW_SCHEDULE_CONFIG_H
#define TW_SCHEDULE_CONFIG_H

#include "schedule/schedule.h"
#include "space/space.h"

/* What judges a configuration (tw_schedule_config): the model that it would lower, on a machine. */
typedef struct tw_schedule_space_context {
    const tw_model *model;
    int workers; /* that the machine has: what 0 stands for, and the most there may be */
} tw_schedule_space_context;

/* Legal is what tw_schedule_lower takes. Whether a GPU's machine can then be built is known when it is planned. */
extern const tw_space tw_schedule_space;

/* Returns TW_OK, or why the model cannot be lowered so, without lowering it. */
tw_status tw_lowering_check(const tw_model *model, const tw_lowering *l, tw_diag *diag);

#endif
