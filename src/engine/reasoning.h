/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a streamed answer into reasoning and answer. A text that begins with <think> is reasoning up to </think>. */
#ifndef TW_ENGINE_REASONING_H
#define TW_ENGINE_REASONING_H

#include "base/buf.h"
#include "tilewright/engine.h"

typedef enum tw_split_state {
    TW_SPLIT_START,     /* The text is white space so far, perhaps with a prefix of <think>. */
    TW_SPLIT_REASONING, /* Inside the reasoning. */
    TW_SPLIT_BETWEEN,   /* After </think>. White space here belongs to neither part. */
    TW_SPLIT_ANSWER     /* Inside the answer. */
} tw_split_state;

typedef struct tw_split {
    tw_split_state state;
    tw_buf held;              /* Bytes that may still become a tag, or white space before one. */
    tw_buf reasoning, answer; /* The parts so far. */
    bool begun;               /* The reasoning is not empty. */
    bool said;                /* `emit` was called during this tw_split_text. */
    tw_turn_emit_fn *emit;    /* May be NULL. */
    void *user;               /* Passed to `emit`. */
} tw_split;

/* True if a prompt ends inside reasoning: its template has opened <think>. */
bool tw_split_is_open(const char *prompt);

/* Takes more text, which may be empty. `emit` is called at least once, with empty text if there is none. False: `emit`
   returned false, or an allocation failed. */
bool tw_split_text(tw_split *s, const char *text);
bool tw_split_end(tw_split *s);          /* Emits the held bytes, since no tag can follow. */
bool tw_split_failed(const tw_split *s); /* Returns true if an allocation failed. */
void tw_split_free(tw_split *s);

#endif
