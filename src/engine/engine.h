/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ENGINE_ENGINE_H
#define TW_ENGINE_ENGINE_H

#include "engine/machine.h"
#include "model/model.h"

/* The programs that an engine may load; those that decode at once, the others when first needed. */
typedef enum tw_program_kind {
    TW_PROGRAM_DECODE,
    TW_PROGRAM_SHORT, /* decodes while the past is short: attention in one part */
    TW_PROGRAM_PREFILL,
    TW_PROGRAM_SCORE,
    TW_PROGRAM_COUNT
} tw_program_kind;

struct tw_engine {
    const tw_model *model;
    tw_engine_options options; /* completed by what `config` says */
    tw_schedule_config config;
    tw_machine machine;
    tw_schedule *given; /* the decode schedule that the caller named, until it is checked */
    tw_checked *checked[TW_PROGRAM_COUNT];
    int program[TW_PROGRAM_COUNT]; /* the machine's number; -1: not loaded */
    int64_t position, context;
    int64_t short_past; /* positions up to which TW_PROGRAM_SHORT decodes; 0: never */
    /* Of the counts that a device has: how often others came, and the changes that they have seen. */
    uint64_t counts_stamp, counts_changes;
};

/* What decodes the token at a position. */
tw_program_kind tw_engine_decoder(const tw_engine *e, int64_t position);
/* Whether tw_engine_draw draws where the logits are. */
bool tw_engine_draws(const tw_engine *e);
/* TW_ERR_USAGE where n more positions do not fit. */
tw_status tw_engine_check_fit(const tw_engine *e, int64_t n, tw_diag *diag);

#endif
