/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a generation's tokens: ids, text that is emitted as soon as it is certain, and the reason of the end.
 */
#ifndef TW_ENGINE_OUTLET_H
#define TW_ENGINE_OUTLET_H

#include "base/buf.h"
#include "tilewright/engine.h"

typedef struct tw_outlet {
    tw_generation *g;
    tw_token_stream *stream; /* NULL: there is no text. */
    tw_buf held;             /* Text that may become a stop string. */
    bool stopped;            /* A stop string came. */
    bool aborted;            /* The caller's function ended the generation. */
} tw_outlet;

/* TW_OK: the generation can be made, as far as its limit and stop strings go. `tokenizer` may be NULL. */
tw_status tw_outlet_check(const tw_generation *g, const tw_tokenizer *tokenizer, tw_diag *diag);

/* Sets the results of `g` to those of no tokens, and makes room for its ids. tw_outlet_close ends what was opened, also
   if opening failed. */
tw_status tw_outlet_open(tw_outlet *o, tw_generation *g, const tw_tokenizer *tokenizer, tw_diag *diag);

/* Takes a token. `room`: the context has room to feed it. False: the generation is over, as o->g->finish says, or
   failed, as *st says. */
bool tw_outlet_take(tw_outlet *o, const tw_model *model, int32_t id, bool room, tw_status *st, tw_diag *diag);

/* Emits what is left, if `st` is TW_OK. Returns the status of the generation. Unless it is TW_OK, the ids are freed. */
tw_status tw_outlet_close(tw_outlet *o, tw_status st, tw_diag *diag);

#endif
