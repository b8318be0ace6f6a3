/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that run a function together. A thread spins for a while after a run, and then sleeps until the next one. */
#ifndef TW_BASE_TEAM_H
#define TW_BASE_TEAM_H

#include "tilewright/base.h"

typedef struct tw_team tw_team;

enum { TW_TEAM_MOST = 1024 /* The most threads of a team. */ };

/* Starts a team. The calling thread is member 0. `threads` 0: as many as there are processors that this process may
   use. With `pin` every other member stays on a processor of its own, if there are enough, and a launch moves
   member 0 off these processors; where else it may run is not changed. The caller stops the team. */
tw_status tw_team_start(tw_team **out, int threads, bool pin, tw_diag *diag);
void tw_team_stop(tw_team *t); /* NULL is fine. */

int tw_team_size(const tw_team *t);

/* Calls work(context, i) on each member i, and returns when all calls have returned. Only the thread that started the
   team may call this function, and the two below. */
void tw_team_run(tw_team *t, void (*work)(void *context, int member), void *context);

/* Does what tw_team_run does, but returns as soon as member 0's call has returned. */
void tw_team_launch(tw_team *t, void (*work)(void *context, int member), void *context);
/* Waits until all calls of the last launch have returned. */
void tw_team_settle(tw_team *t);

#endif
