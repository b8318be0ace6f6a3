/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void tw_stats_sort(double *x, size_t n) {
    if (n) qsort(x, n, sizeof *x, ascending);
}

double tw_stats_quantile(const double *sorted, size_t n, double q) {
    if (!n) return 0;
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;
    double f = at - (double)i;
    return i + 1 < n ? sorted[i] * (1 - f) + sorted[i + 1] * f : sorted[i];
}

tw_stats tw_stats_of(double *x, size_t n) {
    tw_stats s = {.n = n};
    if (!n) return s;
    tw_stats_sort(x, n);
    for (size_t i = 0; i < n; i++) s.mean += x[i];
    s.mean /= (double)n;
    for (size_t i = 0; i < n; i++) s.stddev += (x[i] - s.mean) * (x[i] - s.mean);
    s.stddev = n > 1 ? sqrt(s.stddev / (double)(n - 1)) : 0;
    s.min = x[0];
    s.max = x[n - 1];
    s.p10 = tw_stats_quantile(x, n, 0.1);
    s.median = tw_stats_quantile(x, n, 0.5);
    s.p90 = tw_stats_quantile(x, n, 0.9);
    return s;
}
