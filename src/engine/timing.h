/* SPDX-License-Identifier: Apache-2.0 */
/* Times an engine, in seconds by the host's clock. Every function begins at the engine's position and leaves its tokens
   in the cache. Decoding begins with token 1; a vocabulary of one has only token 0. */
#ifndef TW_ENGINE_TIMING_H
#define TW_ENGINE_TIMING_H

#include "base/random.h"
#include "tilewright/engine.h"

/* Computes the bytes of weights, keys and values that a prompt of n tokens after `depth` others streams. A step has as
   many tokens as the machine takes at once. */
double tw_prompt_streamed_bytes(const tw_engine *e, int64_t depth, int64_t n);

/* Feeds n random tokens. */
tw_status tw_feed_random(tw_engine *e, tw_random *r, int64_t n, tw_diag *diag);
/* Times a prompt of n random tokens, fed by one call. */
tw_status tw_time_prompt(tw_engine *e, tw_random *r, int64_t n, double *seconds, tw_diag *diag);
/* Times n tokens, each fed by a call of its own. microseconds[n], which may be NULL, gets each token's time. */
tw_status tw_time_steps(tw_engine *e, int64_t n, double *microseconds, double *seconds, tw_diag *diag);
/* Times n greedy tokens by one call, which is one launch on a GPU. `ids` has room for n. */
tw_status tw_time_greedy(tw_engine *e, int64_t n, int32_t *ids, double *seconds, tw_diag *diag);
/* Times n tokens of tw_generate. The token before them is not timed. */
tw_status tw_time_generation(tw_engine *e, const tw_sampling *how, int64_t n, double *seconds, tw_diag *diag);

typedef struct tw_batch_times {
    double seconds;        /* From the beginning until all is known. */
    double prompt_seconds; /* Of these, until the first tokens are known. */
    double decode_seconds; /* The rest, for n more tokens of each sequence. */
} tw_batch_times;
/* Times as many greedy generations as the batch has sequences, all at once. Each has a random prompt of that many ids,
   at least 1, and 1 + n tokens. TW_ERR_USAGE: the context has no room for the ids and n tokens. */
tw_status tw_time_batch(tw_batch *b, tw_random *r, int64_t prompt, int64_t n, tw_batch_times *out, tw_diag *diag);

#endif
