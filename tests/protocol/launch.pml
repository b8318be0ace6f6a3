/* SPDX-License-Identifier: Apache-2.0 */
/* Launching, settling and closing as src/vm/cpu/vm.c does them: the caller, who is lane 0, runs LAUNCHES jobs and steps in
   any order, then closes; the other lanes wait for launches. What a launch is about (job, epoch) is plain memory: the
   caller writes it while nobody else may read. With SPARE the last lane has nothing to do in a step, so that the step's own
   counters do not wait for it. To hold: everybody performs each launch once, and as what it was published; the
   caller never writes while a lane may read; all lanes leave. */
#ifndef N
#define N 3
#endif
#ifndef LAUNCHES
#define LAUNCHES 5
#endif
#ifndef MOD
#define MOD 4
#endif
#define CELLS 4
#define me _pid
#define LAUNCH 0
#define IDLE 1
#define BEGUN 2 /* of the program: lane 0 has written what the others read */
#define DONE 3  /* of the program: they have written what lane 0 reads */
#include "cell.pml"

#ifdef SPARE
#define BUSY (N - 1)
#else
#define BUSY N
#endif

bool job, quit;
byte epoch;        /* steps begun */
byte launches;     /* by the caller alone */
byte performed[N]; /* launches that a lane is through with */
byte lane_number;  /* for `publishable` */

byte slot[1 + N];
byte unread[1 + N];

/* Nobody else is between a launch and its arrival at IDLE. */
inline publishable() {
    d_step {
        lane_number = 1;
        do
        :: lane_number < N -> assert(performed[lane_number] == launches); lane_number++
        :: lane_number == N -> break
        od;
        lane_number = 0
    }
}

inline settle() {
    wait_for(IDLE, (launches * (N - 1)) % MOD)
}

inline publish() {
    atomic {
        publishable();
        if
        :: job = true
        :: job = false; epoch++
        fi
    }
}

active [N] proctype lane() {
    byte seen, w, now, turn = 1;
    if
    :: me == 0 ->
       do
       :: launches < LAUNCHES ->
#ifndef BROKEN_RUN_UNSETTLED
          settle();
#endif
#ifdef BROKEN_PUBLISH_LATE
          launches++;
          arrive(LAUNCH);
          publish();
#else
          publish();
          launches++;
          arrive(LAUNCH);
#endif
          if
          :: job ->
#ifndef BROKEN_JOB_UNSETTLED
             settle();
#endif
             atomic { publishable(); job = false }
          :: !job ->
             fill(0, epoch, BUSY - 1);
             arrive(BEGUN);
             wait_for(DONE, ((BUSY - 1) * epoch) % MOD);
             w = 1;
             do
             :: w < BUSY -> take(w, epoch); w++
             :: w == BUSY -> w = 0; break
             od
          fi
       :: launches == LAUNCHES -> break
       od;
#ifndef BROKEN_QUIT_UNSETTLED
       settle();
#endif
       quit = true;
       arrive(LAUNCH)
    :: me != 0 ->
       do
       :: wait_for(LAUNCH, turn % MOD);
          if
          :: quit -> break
          :: !quit
          fi;
          assert(launches == turn);
          if
          :: job
          :: !job ->
             now = epoch;
             if
             :: me < BUSY ->
                wait_for(BEGUN, now % MOD);
                take(0, now);
                fill(me, now, 1);
                arrive(DONE)
             :: me >= BUSY
             fi
          fi;
          performed[me] = turn;
          arrive(IDLE);
          turn++
       od;
       assert(performed[me] == LAUNCHES)
    fi
}
