/* SPDX-License-Identifier: Apache-2.0 */
/* An analytic model of a kernel's time: what a launch asks of a device, and what the device can do. The former is
   counted. The latter are constants of the device, which tune/analytic.h fits to measurements. */
#ifndef TW_KERNELS_DEMAND_H
#define TW_KERNELS_DEMAND_H

/* Who multiplies. */
typedef enum tw_demand_unit {
    TW_DEMAND_SIMT,       /* Multiply-add pipes. */
    TW_DEMAND_WARPS,      /* Tensor cores, by instructions of a warp. */
    TW_DEMAND_DOUBLE,     /* The same in double precision. */
    TW_DEMAND_WARPGROUPS, /* Tensor cores, by instructions of a warpgroup. */
    TW_DEMAND_VENDOR,     /* A vendor's library. */
    TW_DEMAND_UNITS
} tw_demand_unit;

/* What a launch asks of its busiest multiprocessor. Blocks run in waves of `together` blocks. A block has rounds, in
   each of which it fetches a stage and multiplies one. */
typedef struct tw_demand {
    tw_demand_unit unit;
    double clock;    /* Clocks per unit of time. */
    double blocks;   /* Blocks of the multiprocessor, at least 1. */
    double together; /* Blocks that it runs at once, from 1 to `blocks`. */
    double rounds;   /* Rounds of a block. */
    double busy;     /* Clocks of a round at the peak rate of what limits it: the unit, issue slots or shared memory. */
    double chain;    /* Steps of a round that each wait for data from shared memory. */
    double ahead;    /* Stages that are on their way while one is multiplied, at least 1. */
    double stored;   /* Bytes of sums that a block writes. */
    double memory;   /* Bytes that the launch moves from and to memory. */
    double parts;    /* Bytes of sums of parts of k that the launch writes and reads. */
    double turns;    /* How many times in succession blocks wait for others' parts. */
} tw_demand;

/* What a device can do. All constants are above 0. */
typedef struct tw_rates {
    double share[TW_DEMAND_UNITS]; /* Share of the peak rate by which `busy` is counted, for each unit. */
    double step;                   /* Clocks of a step that waits for shared memory. */
    double latency;                /* Clocks from asking for a stage to its arrival. */
    double store;                  /* Bytes that a multiprocessor writes in a clock. */
    double block;                  /* Clocks of a block beside its rounds and its sums. */
    double memory;                 /* Bytes that memory moves in a unit of time. */
    double launch;                 /* Time of a launch. */
    double turn;                   /* Time of a turn. */
} tw_rates;
enum { TW_RATES = (int)(sizeof(tw_rates) / sizeof(double)) /* Number of constants: a tw_rates is such an array. */ };

/* Computes the time of a launch. */
double tw_demand_time(const tw_demand *d, const tw_rates *r);

#endif
