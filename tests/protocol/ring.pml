/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of STAGES slots. Process 0 copies TILES tiles in, in order; N - 1 consumers each read every tile, and arrive to free its
   slot. Tile t lies in slot t % STAGES in round t / STAGES. Each slot has two counters that only grow: `full`, one arrival a
   round, and `empty`, one arrival of each consumer a round. The producer's credit for round r is that all consumers
   have arrived for the rounds before. To hold: no deadlock; everybody reads every tile, in order; nothing unread is
   overwritten; no more than STAGES tiles are in flight. */
#ifndef N
#define N 3
#endif
#ifndef STAGES
#define STAGES 2
#endif
#ifndef TILES
#define TILES 8
#endif
#ifndef MOD
#define MOD 4
#endif
#define CELLS (2 * STAGES)
#define me _pid
#define CONSUMERS (N - 1)
#define FULL(k) (k)
#define EMPTY(k) (STAGES + (k))
#include "cell.pml"

byte slot[STAGES] = TORN;
byte unread[STAGES];
byte taken[N]; /* tiles that a consumer has read */

#define K (tile % STAGES)
#ifdef BROKEN_RESET
#define ROUND 0
#define CREDIT (tile < STAGES -> 0 : CONSUMERS)
#else
#define ROUND (tile / STAGES)
#define CREDIT ((CONSUMERS * ROUND) % MOD)
#endif

inline in_flight() {
    d_step {
        consumer = 1;
        do
        :: consumer < N -> assert(tile - taken[consumer] < STAGES); consumer++
        :: consumer == N -> break
        od;
        consumer = 0
    }
}
hidden byte consumer;

active [N] proctype party() {
    byte tile, seen;
    do
    :: tile < TILES ->
       if
       :: me == 0 ->
#if defined BROKEN_CREDIT_EARLY /* all consumers but one */
          wait_for(EMPTY(K), (tile < STAGES -> 0 : (CONSUMERS * ROUND + MOD - 1) % MOD));
#elif defined BROKEN_WINDOW /* the credit of the round before */
          wait_for(EMPTY(K), (tile < 2 * STAGES -> 0 : (CONSUMERS * (ROUND - 1)) % MOD));
#else
          wait_for(EMPTY(K), CREDIT);
#endif
          in_flight();
#ifdef BROKEN_FULL_EARLY
          arrive(FULL(K));
          fill(K, tile, CONSUMERS)
#else
          fill(K, tile, CONSUMERS);
          arrive(FULL(K))
#endif
       :: me != 0 ->
#ifdef BROKEN_READ_EARLY /* does not count this round's arrival */
          wait_for(FULL(K), ROUND % MOD);
#else
          wait_for(FULL(K), (ROUND + 1) % MOD);
#endif
#ifdef BROKEN_FREE_EARLY
          arrive(EMPTY(K));
          take(K, tile);
          taken[me]++
#else
          atomic { take(K, tile); taken[me]++ };
          arrive(EMPTY(K))
#endif
       fi;
       tile++
    :: tile == TILES -> break
    od
}
