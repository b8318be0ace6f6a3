/* SPDX-License-Identifier: Apache-2.0 */
/* The space of configurations (tw_schedule_config): how a model is lowered, and how a GPU's machine is built. */
#ifndef TW_SCHEDULE_CONFIG_H
#define TW_SCHEDULE_CONFIG_H

#include "schedule/schedule.h"
#include "space/space.h"

/* What tw_schedule_space checks configurations against. */
typedef struct tw_schedule_space_context {
    const tw_model *model; /* The model to lower. */
    int workers;           /* The machine's workers: the default and the limit of the parameter. */
} tw_schedule_space_context;

/* The space of tw_schedule_config. Legal configurations are those that tw_schedule_lower accepts. A GPU's machine may
   still refuse one. */
extern const tw_space tw_schedule_space;

/* Checks whether tw_schedule_lower accepts a lowering. */
tw_status tw_lowering_check(const tw_model *model, const tw_lowering *l, tw_diag *diag);

#endif
