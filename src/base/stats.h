/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of a set of samples. */
#ifndef TW_BASE_STATS_H
#define TW_BASE_STATS_H

#include <stddef.h>

typedef struct tw_stats {
    size_t n;
    double mean, stddev; /* sample standard deviation; 0 for one sample */
    double min, p10, median, p90, max;
} tw_stats;

void tw_stats_sort(double *samples, size_t n);   /* Sorts in ascending order. */
/* Interpolates linearly between the two nearest ranks. `samples` ascend; 0 <= q <= 1. Without samples 0. */
double tw_stats_quantile(const double *samples, size_t n, double q);
tw_stats tw_stats_of(double *samples, size_t n); /* sorts `samples`; all zero when n is 0 */

#endif
