/* SPDX-License-Identifier: Apache-2.0 */
/* Least squares for a few unknowns. */
#ifndef TW_BASE_LEAST_H
#define TW_BASE_LEAST_H

enum { TW_LEAST_UNKNOWNS = 8 };

/* Finds x[0] to x[n - 1] that make the sum of squares of a x - b least. Each of the `m` rows is n numbers of a and then
   one of b; the rows are overwritten. Unknowns that the rows do not determine become 0. n is at most
   TW_LEAST_UNKNOWNS. Numbers are within 1e150 and, but for 0, beyond 1e-150. */
void tw_least_squares(double *rows, int m, int n, double *x);

#endif
