/* SPDX-License-Identifier: Apache-2.0 */
/* The machine itself, event by event: an instruction begins when its waits are met, takes its time, and ends with its
   arrival. It replays what the oracle claims, and looks for faults on its own: along random runs, and in all runs of
   programs that are small enough. */
#ifndef TW_SOUNDNESS_MACHINE_H
#define TW_SOUNDNESS_MACHINE_H

#include "base/random.h"
#include "soundness/memory.h"

/* A run in which `a` and `b` are both running: found by letting everything else go on. */
bool machine_meet(const order *o, int a, int b);

/* A run in which `first` begins though `held` has not ended. */
bool machine_begins_without(const order *o, int first, int held);

/* One random run: workers have priorities that change a few times, so that some are delayed for long. The first fault
   it meets, or HAZARD_NONE. Form must be good. */
hazard machine_random(memory *m, tw_random *r);

/* All runs, state by state. A state is how far each worker is and whether it is within an instruction: what may begin,
   and who runs at the same time, depends on nothing else. Deadlocks, races and early ends of steps, not what depends on
   contents. *complete: all states were seen, not only the first `limit`. */
hazard machine_all(const memory *m, int limit, bool *complete);

#endif
