/* SPDX-License-Identifier: Apache-2.0 */
/* Reasoning apart from the answer, while both stream: a text that begins with <think> is reasoning up to </think>. */
#ifndef TW_ENGINE_REASONING_H
#define TW_ENGINE_REASONING_H

#include "base/buf.h"
#include "tilewright/engine.h"

typedef enum tw_split_state {
    TW_SPLIT_START, /* nothing but white space and perhaps the beginning of <think> so far */
    TW_SPLIT_REASONING,
    TW_SPLIT_BETWEEN, /* behind </think>, where line ends belong to neither */
    TW_SPLIT_ANSWER
} tw_split_state;

typedef struct tw_split {
    tw_split_state state;
    tw_buf held; /* what may turn out to be a tag, or line ends before one */
    tw_buf reasoning, answer;
    bool begun; /* the reasoning has a character */
    bool said;  /* `emit` was called for the text under way */
    tw_turn_emit_fn *emit;
    void *user;
} tw_split;

/* Whether a prompt ends within reasoning: its template has opened <think> itself. */
bool tw_split_is_open(const char *prompt);

/* More text, perhaps empty: `emit` is called at least once, be it with nothing. False: `emit` said so, or an allocation
 * failed (the buffers' `failed`). */
bool tw_split_text(tw_split *s, const char *text);
bool tw_split_end(tw_split *s); /* what was held turns out to be what it looks like */
bool tw_split_failed(const tw_split *s);
void tw_split_free(tw_split *s);

#endif
