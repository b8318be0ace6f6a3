/* SPDX-License-Identifier: Apache-2.0 */
/* How long an engine takes, in seconds by the host's clock. Every function begins at the engine's position and leaves
   the tokens in its cache. Decoding begins with token 1, or 0 where there is no other. */
#ifndef TW_ENGINE_TIMING_H
#define TW_ENGINE_TIMING_H

#include "base/random.h"
#include "tilewright/engine.h"

/* n random tokens, untimed. */
tw_status tw_feed_random(tw_engine *e, tw_random *r, int64_t n, tw_diag *diag);
/* A prompt of n random tokens, read at once. */
tw_status tw_time_prompt(tw_engine *e, tw_random *r, int64_t n, double *seconds, tw_diag *diag);
/* n tokens, each fed by a call of its own. `microseconds` has room for n, what each took, or is NULL. */
tw_status tw_time_steps(tw_engine *e, int64_t n, double *microseconds, double *seconds, tw_diag *diag);
/* n tokens by one call; on a GPU, one launch. `ids` has room for n. */
tw_status tw_time_greedy(tw_engine *e, int64_t n, int32_t *ids, double *seconds, tw_diag *diag);
/* n tokens by tw_generate, after a first one that is not timed. */
tw_status tw_time_generation(tw_engine *e, const tw_sampling *how, int64_t n, double *seconds, tw_diag *diag);

#endif
