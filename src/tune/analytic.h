/* SPDX-License-Identifier: Apache-2.0 */
/* Fits the constants of the analytic model (kernels/demand.h) to measurements. */
#ifndef TW_TUNE_ANALYTIC_H
#define TW_TUNE_ANALYTIC_H

#include "device/cuda/cuda.h"
#include "kernels/demand.h"
#include "tune/family.h"
#include "tune/store.h"

/* A measured launch. */
typedef struct tw_analytic_sample {
    tw_demand demand;
    double time; /* Time in the unit of the rates, above 0. */
} tw_analytic_sample;

/* Finds the constants with the least mean squared error of the logarithms of n times, and returns that error. Every
   unit counts equally, however many samples it has. Constants that no sample depends on stay as they are in *r. */
double tw_analytic_fit(tw_rates *r, const tw_analytic_sample *samples, int n);

/* Gets the demand of a choice of a family. False: the choice cannot compute the problem. A family without
   tw_family_calls.demand asks for its work, in equal parts for each block and round. */
bool tw_analytic_demand(const tw_family *f, int macro, int micro, const int64_t *problem, tw_demand *out);

/* Products on a GPU that a store has measured: those of searches and those of the families of tune/gemm_gpu.h. */
typedef struct tw_analytic_products {
    tw_cuda_info device; /* The device. Memory's clock and width are 0. */
    tw_analytic_sample *of;
    int n, room;                /* Number of samples, and capacity. */
    int units[TW_DEMAND_UNITS]; /* Number of samples of each unit. */
} tw_analytic_products;

/* Reads right products of the first device that the store has any of. At most
   TW_ANALYTIC_MOST of each unit are taken, evenly from all of it. The caller frees p->of, also after a failure. TW_ERR_USAGE: the store has none. */
enum { TW_ANALYTIC_MOST = 10000 };
tw_status tw_analytic_read(tw_analytic_products *p, tw_store *s, tw_diag *diag);

#endif
