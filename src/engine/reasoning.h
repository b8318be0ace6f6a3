/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a streamed answer into reasoning and answer. A text that begins with <think> is reasoning up to </think>. */
#ifndef TW_ENGINE_REASONING_H
#define TW_ENGINE_REASONING_H

#include "base/buf.h"
#include "tilewright/engine.h"

typedef enum tw_split_state {
    TW_SPLIT_START, /* so far only white space, or a prefix of <think> */
    TW_SPLIT_REASONING,
    TW_SPLIT_BETWEEN, /* after </think>: line ends here belong to neither part */
    TW_SPLIT_ANSWER
} tw_split_state;

typedef struct tw_split {
    tw_split_state state;
    tw_buf held; /* bytes that may still become a tag, or line ends before one */
    tw_buf reasoning, answer;
    bool begun; /* the reasoning is no longer empty */
    bool said;  /* `emit` was called during this tw_split_text */
    tw_turn_emit_fn *emit;
    void *user;
} tw_split;

/* True if a prompt ends inside reasoning: its template has opened <think>. */
bool tw_split_is_open(const char *prompt);

/* More text, perhaps empty: `emit` is called at least once, be it with nothing. False: `emit` said so, or an allocation
 * failed (the buffers' `failed`). */
bool tw_split_text(tw_split *s, const char *text);
bool tw_split_end(tw_split *s); /* emits what was held, as no tag can follow */
bool tw_split_failed(const tw_split *s);
void tw_split_free(tw_split *s);

#endif
