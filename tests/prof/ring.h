/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated kernel: in each block a producer loads stages of a ring, and consumers multiply them and work on the
   result. Its trace is known beforehand, and so is that of an edited kernel, for which the same times are drawn. */
#ifndef TW_TESTS_PROF_RING_H
#define TW_TESTS_PROF_RING_H

#include "prof/trace.h"

typedef struct ring {
    uint64_t seed;
    int iterations, stages, consumers;
    int blocks, sms, resident; /* Blocks are dealt to multiprocessors in turn; so many stay on one at once. */
    double issue;              /* A producer's work for a load. */
    double load;               /* From its issue until a load is done, */
    double gap;                /* but not sooner after the one before. */
    double product, alu;       /* Of a consumer, one after the other. */
    double prologue, epilogue; /* Of each track. */
    double spread;             /* Each time is drawn from 1 - spread to 1 + spread times the above. */
    double pass, lag;          /* What a wait takes itself; from an arrival until a wait ends. */
    bool hidden;               /* Loads that were done before anybody waited are only known to end before that. */
    bool iterate;              /* Iterations are recorded. */
} ring;

/* NULL: out of memory. The caller frees it. */
tw_trace *ring_trace(const ring *r);
/* How long the kernel takes. */
double ring_length(const ring *r);
/* A kernel of one block that all others here differ from: one consumer, 3 stages, 40 iterations, exact times. */
ring ring_of(double issue, double load, double product, double alu);

#endif
