/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ENGINE_ENGINE_H
#define TW_ENGINE_ENGINE_H

#include "engine/machine.h"
#include "model/model.h"

/* The programs that an engine may load. DECODE and SHORT are loaded at once, the others when first needed. */
typedef enum tw_program_kind {
    TW_PROGRAM_DECODE,  /* Takes one position. */
    TW_PROGRAM_SHORT,   /* Takes one position while the past is short. Attention is in one part. */
    TW_PROGRAM_PREFILL, /* Takes several positions, and has logits of the last one. */
    TW_PROGRAM_PROMPT,  /* Takes many positions, and has logits of the last one. Only a GPU's machine runs it. */
    TW_PROGRAM_MANY,    /* Takes a position of each of many sequences. TW_PROGRAM_PROMPT then serves such steps. */
    TW_PROGRAM_SCORE,   /* Takes several positions, and has logits of all. */
    TW_PROGRAM_COUNT
} tw_program_kind;

struct tw_engine {
    const tw_model *model;
    tw_engine_options options; /* The caller's options, completed from `config`. */
    tw_schedule_config config;
    tw_machine machine;
    tw_schedule *given; /* The decode schedule that the options name. NULL: none, or it has been used. */
    tw_checked *checked[TW_PROGRAM_COUNT];
    int program[TW_PROGRAM_COUNT]; /* The machine's number of each program. -1: not loaded. */
    int64_t sequences;             /* Sequences of the decode programs. More than 1: only tw_batch runs them. */
    /* The most sequences of a batch. Where they are more than `sequences`, TW_PROGRAM_PROMPT serves all of them. */
    int64_t together;
    int64_t position;           /* Position of the next token. */
    int64_t context;            /* Positions of the cache. */
    int64_t short_past;         /* TW_PROGRAM_SHORT decodes positions below this. */
    int64_t prompt_tokens;      /* The most positions of a step of TW_PROGRAM_PROMPT. */
    bool no_prompts;            /* TW_PROGRAM_PROMPT is not to be loaded, or could not be. */
    int32_t *fed;               /* longrope: tokens of the sequence, as many as `position`. NULL: none yet. */
    bool beyond;                /* longrope: keys in the cache are rotated as beyond the original length. */
    struct tw_routing *routing; /* Choices of experts that feeding enters or follows (vm/routing.h). NULL: neither. */
    uint64_t counts_stamp;      /* Changes whenever the device's counts become another sampler's, or unknown. */
    uint64_t counts_changes;    /* tw_sampler.changes of the device's counts. */
};

/* The largest differences at which the engine's results agree with a reference. */
static inline const tw_tolerance *tw_engine_tolerance(const tw_engine *e) {
    return &e->machine.backend->tolerance[e->options.activations];
}

enum { TW_ENGINE_SEQUENCES = 128 /* The most sequences of a batch. */ };

/* Opens an engine as tw_engine_open does, for as many of `sequences` as the machine decodes together. */
tw_status tw_engine_open_for(tw_engine **out, const tw_model *model, const tw_engine_options *options,
                             int64_t sequences, tw_diag *diag);
/* Loads the program of prompts, and what n positions from `pos` on need. False: prompts have no kernels, and are read
   by decode steps. */
tw_status tw_engine_load_prompts(tw_engine *e, int64_t n, int64_t pos, bool *loaded, tw_diag *diag);
/* Returns the program that decodes the token at a position. */
tw_program_kind tw_engine_decoder(const tw_engine *e, int64_t position);
/* Returns the most positions that a step of this program takes. */
int64_t tw_engine_step_tokens(const tw_engine *e, tw_program_kind kind);
/* Returns true if tw_engine_draw draws on the device. */
bool tw_engine_draws(const tw_engine *e);
/* Compares a random prompt of n ids, fed at once, and `greedy` random ids after it with the same ids fed one by one.
   n + greedy is at most the context. Adds to the verdict. Rewinds the engine. */
tw_status tw_engine_compare_steps(tw_engine *e, int64_t n, int64_t greedy, uint64_t seed, tw_verdict *verdict,
                                  tw_diag *diag);
/* Returns TW_ERR_USAGE if n more positions do not fit. */
tw_status tw_engine_check_fit(const tw_engine *e, int64_t n, tw_diag *diag);

#endif
