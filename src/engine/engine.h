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
};

#endif
