/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that run a function together, each on a processor of its own. */
#ifndef TW_BASE_TEAM_H
#define TW_BASE_TEAM_H

#include "tilewright/base.h"

typedef struct tw_team tw_team;

enum { TW_TEAM_MOST = 1024 /* The most threads of a team. */ };

/* Starts a team. The calling thread is member 0. `threads` 0: as many as there are processors that this process may
   use. The caller stops the team. */
tw_status tw_team_start(tw_team **out, int threads, tw_diag *diag);
void tw_team_stop(tw_team *t); /* NULL is fine. */

int tw_team_size(const tw_team *t);

/* Calls work(context, i) on each member i, and returns when all have returned. Only the thread that started the team
   may call it. */
void tw_team_run(tw_team *t, void (*work)(void *context, int member), void *context);

#endif
