/* SPDX-License-Identifier: Apache-2.0 */
/* Many generations in one engine. A lane is a sequence of the engine's programs and the generation that has it. */
#ifndef TW_ENGINE_BATCH_H
#define TW_ENGINE_BATCH_H

#include "engine/engine.h"
#include "engine/outlet.h"
#include "engine/sample.h"
#include "vm/prefill/prefill.h"

typedef struct tw_lane {
    tw_generation *g; /* NULL: the lane is idle. */
    tw_outlet outlet;
    tw_sampler *sampler;
    int64_t fed;  /* Ids in the cache. */
    int32_t next; /* Id that is fed next, if the prompt has been. */
    bool counted; /* The device has the sampler's counts. */
    bool decodes; /* The first token is known. */
    int64_t since;
    uint64_t number; /* Number of the generation among all. */
    int64_t sent;    /* Many sequences: ids that begun steps put in the cache. */
    int64_t wanted;  /* Many sequences: tokens that begun steps find. */
} tw_lane;

/* Generations, first in, first out. */
typedef struct tw_fifo {
    tw_generation **at;
    size_t first, n, room;
} tw_fifo;

enum { TW_BATCH_FLIGHTS = 2 /* The most steps of many sequences that are under way. */ };

/* A token that a step of many sequences finds. */
typedef struct tw_batch_end {
    int lane;
    uint64_t number; /* The lane's, when the step began. */
    int64_t fed;     /* The lane's `fed` after the step. */
} tw_batch_end;

typedef struct tw_batch_flight {
    tw_batch_end *ends; /* [sequences] */
    int n;
} tw_batch_flight;

struct tw_batch {
    tw_engine *e;
    const tw_tokenizer *tokenizer;
    tw_lane *lanes; /* [n] */
    int n;
    tw_fifo waiting, ended;
    uint64_t entered; /* Generations that have had a lane. */
    /* Many sequences. */
    tw_prefill_part *parts; /* [n]: of the step that is composed. */
    int32_t *tokens;        /* [n]: of the step that is over. */
    tw_batch_flight flights[TW_BATCH_FLIGHTS];
    int64_t begun, over; /* Numbers of steps. */
    tw_status st;        /* Status of a launch's takes. */
    tw_diag *diag;       /* Where they report. */
};

/* batch.c. Gives idle lanes to the generations that wait. */
tw_status tw_batch_fill(tw_batch *b, tw_diag *diag);
/* Sends the counts of a lane that begins to draw with penalties. The device adds what it draws. */
tw_status tw_batch_count(tw_batch *b, int at, tw_diag *diag);
/* Tells a lane the token that follows what it has fed. */
tw_status tw_batch_take(tw_batch *b, tw_lane *l, int32_t id, tw_diag *diag);

/* batch_many.c. Begins a step of all lanes that have something to do, and takes the tokens of an earlier one. */
tw_status tw_batch_many(tw_batch *b, tw_diag *diag);

#endif
