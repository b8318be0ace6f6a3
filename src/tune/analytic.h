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
    double time; /* Measured time, above 0, in the unit of time of demand.clock. */
} tw_analytic_sample;

/* Fits the constants *r to n samples: they get the least mean squared error of the logarithms of the times, which is
   returned. Each tw_demand_unit among the samples has the same weight, however many samples it has. Constants that no
   sample depends on stay as they are in *r. */
double tw_analytic_fit(tw_rates *r, const tw_analytic_sample *samples, int n);

/* Gets the demand of a configuration of a family. False: the configuration cannot compute the problem. Where a family
   has no tw_family_calls.demand, its work is divided equally among blocks and rounds. */
bool tw_analytic_demand(const tw_family *f, int macro, int micro, const int64_t *problem, tw_demand *out);

/* Own products of one GPU, read from a store. Times are in microseconds. */
typedef struct tw_analytic_products {
    tw_cuda_info device; /* The GPU, as the store describes it. memory_clock_khz and memory_bus_bits are 0. */
    tw_analytic_sample *of;
    int n, room;                /* Number of elements of `of`, and its capacity in elements. */
    int units[TW_DEMAND_UNITS]; /* By unit: the number of samples. */
} tw_analytic_products;

enum { TW_ANALYTIC_MOST = 10000 /* The most samples of a unit that are kept. */ };
/* Reads products with a right result, both those of `bench gemm` and those of the families of tune/gemm_gpu.h, that
   were measured on the GPU of the store's first such product. Of a unit with more than TW_ANALYTIC_MOST samples every
   second, every third and so on is kept. The caller frees p->of, also after a failure. TW_ERR_USAGE: there are no such
   products. */
tw_status tw_analytic_read(tw_analytic_products *p, tw_store *s, tw_diag *diag);

#endif
