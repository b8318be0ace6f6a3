/* SPDX-License-Identifier: Apache-2.0 */
/* N workers walk a small schedule EPOCHS times, one step after the other, joined only by counters:

     x    worker 0 writes slot x; all wait for it
     y    each writes its part of y; all wait for all parts, and read them
     z    each writes its part of z; worker 0 waits for all parts, and reads them; then the next step

   A wait is for threshold * epoch. To hold: nobody waits for ever (no invalid end state), nothing is read that was not written
   in this step, nothing is overwritten that somebody has yet to read. */
#ifndef N
#define N 3
#endif
#ifndef EPOCHS
#define EPOCHS 3
#endif
#ifndef MOD
#define MOD 8
#endif
#define CELLS 3
#define me _pid
#define X 0
#define Y 1
#define Z 2
#include "cell.pml"

#define SLOT_X 0
#define SLOT_Y(w) (1 + (w))
#define SLOT_Z(w) (1 + N + (w))
byte slot[1 + 2 * N];
byte unread[1 + 2 * N];

#ifdef BROKEN_RESET
#define TARGET(threshold) (threshold)
#else
#define TARGET(threshold) (((threshold) * epoch) % MOD)
#endif
#ifdef BROKEN_PARTIAL_JOIN
#define PARTS (N - 1)
#else
#define PARTS N
#endif

active [N] proctype worker() {
    byte epoch = 1, seen, w;
    do
    :: epoch <= EPOCHS ->
       if
       :: me == 0 -> fill(SLOT_X, epoch, N); arrive(X)
       :: me != 0
       fi;
       wait_for(X, TARGET(1));
       take(SLOT_X, epoch);
#ifdef BROKEN_ARRIVE_FIRST
       arrive(Y);
       fill(SLOT_Y(me), epoch, N);
#else
       fill(SLOT_Y(me), epoch, N);
       arrive(Y);
#endif
       wait_for(Y, TARGET(PARTS));
       do
       :: w < N -> take(SLOT_Y(w), epoch); w++
       :: w == N -> w = 0; break
       od;
       fill(SLOT_Z(me), epoch, 1);
       arrive(Z);
       if
       :: me == 0 ->
#ifndef BROKEN_STEPS_OVERLAP
          wait_for(Z, TARGET(N));
          do
          :: w < N -> take(SLOT_Z(w), epoch); w++
          :: w == N -> w = 0; break
          od
#else
          skip
#endif
       :: me != 0
       fi;
       epoch++
    :: epoch > EPOCHS -> break
    od
}
