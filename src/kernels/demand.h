/* SPDX-License-Identifier: Apache-2.0 */
/* An analytic model of a kernel's time. A tw_demand counts what a launch asks of a device. A tw_rates holds how fast a
   device does that: constants that tune/analytic.h fits to measurements. */
#ifndef TW_KERNELS_DEMAND_H
#define TW_KERNELS_DEMAND_H

/* The instructions that a kernel multiplies with. Each reaches a share of its own of the hardware's peak rate. */
typedef enum tw_demand_unit {
    TW_DEMAND_SIMT,       /* Multiply-adds of single threads. */
    TW_DEMAND_WARPS,      /* Tensor cores by mma.sync, an instruction of a warp, in every type but f64. */
    TW_DEMAND_DOUBLE,     /* Tensor cores by mma.sync in f64. */
    TW_DEMAND_WARPGROUPS, /* Tensor cores by wgmma, an instruction of a warpgroup. */
    TW_DEMAND_VENDOR,     /* Whatever a vendor's library uses. */
    TW_DEMAND_UNITS       /* Number of units. */
} tw_demand_unit;

/* What a launch asks of a device. Blocks are counted on the multiprocessor that has the most of them. A multiprocessor
   runs its blocks in waves of `together` blocks. The main loop of a block has rounds. Each round fetches one stage of
   the inputs and multiplies another one. */
typedef struct tw_demand {
    tw_demand_unit unit; /* What multiplies. */
    double clock;        /* Clock rate in clocks per unit of time. Predicted times have this unit. */
    double blocks;       /* Blocks of the multiprocessor in all, at least 1. */
    double together;     /* Blocks that the multiprocessor runs at once, from 1 to `blocks`. */
    double rounds;       /* Rounds of a block's main loop. */
    double busy;   /* Clocks of a round at peak rates: the largest of its clocks in the unit, in issue slots and in
                      shared memory. */
    double chain;  /* Dependent reads of shared memory in a round, each of which the block waits for. */
    double ahead;  /* Number of stages in flight to shared memory while a block multiplies a stage, at least 1. */
    double stored; /* Bytes of accumulators that a block writes. */
    double memory; /* Bytes that the whole launch moves to and from device memory. */
    double parts;  /* Bytes of partial sums that the whole launch writes to device memory and reads. 0: k is not
                      split, or its parts are joined within a cluster. */
    double turns;  /* Number of successive waits for the partial sums of other blocks. 0: k is not split. */
} tw_demand;

/* How fast a device is. All constants are above 0. */
typedef struct tw_rates {
    double share[TW_DEMAND_UNITS]; /* By unit: the share of the peak rate that it reaches. */
    double step;                   /* Clocks of a dependent read of shared memory, with what is computed on it. */
    double latency;                /* Clocks from the request of a stage to its arrival. */
    double store;                  /* Bytes of accumulators that a multiprocessor writes in a clock. */
    double block;                  /* Clocks of a block outside its rounds and its writes of accumulators. */
    double memory;                 /* Bytes that device memory moves in a unit of time. */
    double launch;                 /* Time that a launch takes whatever it computes. */
    double turn;                   /* Time of a wait for partial sums. */
} tw_rates;
enum { TW_RATES = (int)(sizeof(tw_rates) / sizeof(double)) /* Number of constants: a tw_rates is such an array. */ };

/* Returns the predicted time of a launch. */
double tw_demand_time(const tw_demand *d, const tw_rates *r);

#endif
