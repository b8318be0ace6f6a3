/* SPDX-License-Identifier: Apache-2.0 */
/* A counter cell: waiting and arriving as wait_fetching and arrive_at of src/vm/cpu/vm.c do it, one step of the model for
   each access to memory that others can see. The includer gives
     N      processes; `me`, 0..N-1, is the one that runs
     CELLS  counters
     MOD    what a counter counts modulo, a power of two: 2^32 in the machine, small here so that it wraps
     EARLY  how often, in all, the kernel lets a sleeper go for no reason (endless, it would hide what is lost)
   and each process a local `byte seen`. Names defined with -D that begin with BROKEN_ change one thing each. */
#ifndef EARLY
#define EARLY 1
#endif
#define AWAKE CELLS

byte value[CELLS];
byte sleepers[CELLS];
byte bed[N] = AWAKE; /* the kernel's queues: the counter that a process sleeps on */
byte early = EARLY;

/* (int32_t)(value - target) >= 0 */
#ifdef BROKEN_COMPARE
#define REACHED(v, t) ((v) >= (t))
#else
#define REACHED(v, t) (((v) + MOD - (t)) % MOD < MOD / 2)
#endif

/* futex(WAIT): under its lock the kernel compares, and queues whom it puts to sleep. */
inline sleep_on(i) {
    if
#ifdef BROKEN_BLIND /* what is expected is read again just before: the comparison always holds */
    :: bed[me] = i;
#else
    :: atomic { value[i] == seen -> bed[me] = i };
#endif
       if
       :: bed[me] == AWAKE
       :: atomic { early > 0 && bed[me] != AWAKE -> early--; bed[me] = AWAKE }
       fi
#ifndef BROKEN_BLIND
    :: value[i] != seen
#endif
    fi
}

/* futex(WAKE) */
inline wake_all(i) {
    d_step {
        sleeper = 0;
        do
        :: sleeper < N && bed[sleeper] == i ->
           bed[sleeper] = AWAKE;
#ifdef BROKEN_WAKE_ONE
           break
#else
           sleeper++
#endif
        :: sleeper < N && bed[sleeper] != i -> sleeper++
        :: sleeper == N -> break
        od;
        sleeper = 0
    }
}
hidden byte sleeper;

#ifdef BROKEN_SILENT /* sleeps without a word */
#define ANNOUNCE(i) skip
#define WITHDRAW(i) skip
#else
#define ANNOUNCE(i) sleepers[i]++
#define WITHDRAW(i) sleepers[i]--
#endif

/* With LATE the sleeper announces itself after its last look. That is as good: the kernel's comparison is one more. */
inline sleep_until(i, target) {
#ifndef LATE
    ANNOUNCE(i);
#endif
    do
    :: seen = value[i];
       if
       :: REACHED(seen, target) -> break
       :: else ->
#ifdef LATE
          ANNOUNCE(i);
#endif
          sleep_on(i)
#ifdef LATE
          ;
          WITHDRAW(i)
#endif
       fi
    od;
#ifndef LATE
    WITHDRAW(i);
#endif
    seen = 0
}

/* Looks that find nothing leave no trace, so spinning is either the look that succeeds, or giving up, at any time.
   With SPIN_ONLY nobody sleeps. */
inline wait_for(i, target) {
#ifdef SPIN_ONLY
    REACHED(value[i], target)
#else
    if
    :: REACHED(value[i], target)
    :: sleep_until(i, target)
    fi
#endif
#ifdef BROKEN_RESET /* whoever has waited clears the counter for the next round */
    ;
    value[i] = 0
#endif
}

#define ADD(i) value[i] = (value[i] + 1) % MOD

inline arrive(i) {
#ifdef SPIN_ONLY
    ADD(i)
#else
#ifdef BROKEN_LOOK_FIRST
    if
    :: sleepers[i] > 0 -> ADD(i); wake_all(i)
    :: sleepers[i] == 0 -> ADD(i)
    fi
#else
    ADD(i);
    if
    :: sleepers[i] > 0 -> wake_all(i)
    :: sleepers[i] == 0
    fi
#endif
#endif
}

/* Memory that is written and read: which round's contents a slot holds, and how many have yet to read it. A write takes
   two steps, so that whoever reads meanwhile finds it torn. */
#define TORN 255

inline fill(k, round, readers) {
    assert(unread[k] == 0); /* else: overwritten before it was read */
    atomic { slot[k] = TORN; unread[k] = readers };
    slot[k] = round
}
inline take(k, round) {
    atomic {
        assert(slot[k] == round); /* else: read before it was written, or too late */
        unread[k]--
    }
}
