/* SPDX-License-Identifier: Apache-2.0 */
/* What can run before what, over a few steps that follow each other without a barrier.

   Why a run or two for each instruction is exact, and no tree of interleavings is needed. A worker has one next
   instruction, and it may begin as soon as counters are high enough. Counters only grow with what has run, whatever the
   thresholds are, so (1) what may begin stays possible until it does, and no choice of one worker ever takes one away
   from another; (2) if one run leads to a state and another run to another state, some run leads to their join, each
   worker as far as it came in either: follow the first, then of the second what is missing, in its order. Hence among
   all runs in which an instruction `a` never ends there is one that goes furthest in every worker, and a greedy walk
   that holds `a` back finds it. `b` may begin before `a` has ended exactly if it does in that walk: nothing is assumed
   about joins, and partial waits, counters that start high and arrivals of other steps are all in it. If, too, `a` may
   begin before `b` has ended, then (2) some run has both running at once: join the state in which `a` has just begun
   and `b` has not ended with its mirror image. A walk that ends early ends so in every interleaving: a deadlock. */
#ifndef TW_SOUNDNESS_ORDER_H
#define TW_SOUNDNESS_ORDER_H

#include "schedule/schedule.h"

enum { ORDER_MAX_STEPS = 4 };

/* An instance is one instruction in one step; worker w's are first[w] ..., step after step. */
typedef struct order {
    const tw_schedule *s;
    int steps, total, ran;
    int *first;  /* [workers + 1] */
    int *worker; /* [instance] */
    int *run;    /* [ran]: one whole run */
    int *reach;  /* [instance][workers]: how many of each worker's instances may begin while this one has not ended */
    int *at;     /* [worker]: instances done; scratch */
    int64_t *value; /* [counter]; scratch */
    int rooms[4];
} order;

/* Instances of `steps` steps and one run of them; false: it ends in a deadlock, and `at` says where. */
bool order_run(order *o, const tw_schedule *s, int steps);

/* Fills `reach`; only after a run without deadlock. */
void order_reach(order *o);

void order_free(order *o);

const tw_instr *order_instr(const order *o, int instance);
int order_step(const order *o, int instance); /* from 0 */

/* Whether a wait has been met in step `step` (from 0) when its counter stands at `value`. */
bool order_wait_met(tw_wait wait, int64_t value, int step);

/* Some run has both running at once. They must be of different workers. */
bool order_concurrent(const order *o, int a, int b);

#endif
