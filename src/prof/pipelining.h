/* SPDX-License-Identifier: Apache-2.0 */
/* How long a loop of loads, products and ordinary work takes when they overlap: serial, software-pipelined, or with
   warps that only load (after the model of KPerfIR, section 6.2.2). docs/prof.md derives the formulas. */
#ifndef TW_PROF_PIPELINING_H
#define TW_PROF_PIPELINING_H

#include "prof/trace.h"

typedef struct tw_pipelining_time {
    double mean, deviation; /* Over iterations. */
} tw_pipelining_time;

/* Times of an iteration, and of what is around the loop. All in one unit. */
typedef struct tw_pipelining_times {
    tw_pipelining_time issue;   /* Work of the warp that issues an iteration's loads. */
    tw_pipelining_time latency; /* From there until its data are in shared memory. */
    tw_pipelining_time product; /* Tensor cores, for one consumer, alone. */
    tw_pipelining_time alu;     /* A consumer's other work, after the product and before the next one. */
    double gap;                 /* Between the ends of two loads at least: what memory allows. */
    double pass;                /* What a wait takes itself. */
    double lag;                 /* From an arrival until another warp's wait ends. */
    int consumers;              /* Warpgroups that each multiply every stage. Tensor cores are theirs in turn. */
    int iterations;
    double before, after; /* From the begin of the kernel to the loop, and from the loop to the end. */
} tw_pipelining_times;

typedef enum tw_pipelining_kind {
    TW_PIPELINING_SOFTWARE,   /* Each warp loads for an iteration `stages` - 1 later. Consumers keep step. One stage:
                               load,   wait, compute. */
    TW_PIPELINING_SPECIALISED /* A producer loads into a ring of `stages`; consumers return a stage after their product.
                               */
} tw_pipelining_kind;
const char *tw_pipelining_kind_name(tw_pipelining_kind k); /* "software pipelining", "warp specialisation" */

/* What an iteration in steady state takes its time for. */
typedef enum tw_pipelining_bound {
    TW_PIPELINING_COMPUTE, /* One consumer's iteration. */
    TW_PIPELINING_TENSOR,  /* Tensor cores, with several consumers. */
    TW_PIPELINING_LATENCY, /* A load's round through the stages. */
    TW_PIPELINING_MEMORY,  /* The gap between loads. */
    TW_PIPELINING_ISSUE,   /* The producer. */
    TW_PIPELINING_BOUNDS
} tw_pipelining_bound;
const char *tw_pipelining_bound_name(tw_pipelining_bound b); /* "compute", "tensor", "latency", "memory", "issue" */

typedef struct tw_pipelining_prediction {
    tw_pipelining_kind kind;
    int stages;
    double iteration; /* In steady state. */
    double total;     /* Of the whole kernel. */
    tw_pipelining_bound bound;
} tw_pipelining_prediction;

/* `stages` is at least 1, and so are consumers and iterations. */
tw_pipelining_prediction tw_pipelining_predict(const tw_pipelining_times *t, tw_pipelining_kind kind, int stages);

/* Predicts both kinds with 2 to `most_stages` stages. `out` has room for 2 * (most_stages - 1). Returns how many there
   are; the fastest is first, and of equal ones the one with fewer stages, then software pipelining. */
int tw_pipelining_choose(const tw_pipelining_times *t, int most_stages, tw_pipelining_prediction *out);

/* Measures the times in a trace: of the iterations of `loop`, or, if that is below 0, of the loop that takes most time.
   Tracks that use tensor cores in it are consumers. Loads are asynchronous events of the copy engine; where a load's
   end is not known, only others count. Products are taken as if each consumer had tensor cores alone.
   TW_ERR_UNSUPPORTED: the loop has no iterations, no loads or no products. TW_ERR_MEMORY. */
tw_status tw_pipelining_measure(tw_pipelining_times *out, const tw_trace *t, int loop, tw_diag *diag);

#endif
