/* SPDX-License-Identifier: Apache-2.0 */
/* Householder's reflections with the columns in order of what is left of them (Golub and Van Loan, algorithm 5.4.1). */
#include "base/least.h"

#include <math.h>

/* Tolerance of the rank. A column depends linearly on the columns before it if the norm of its part below the current
   row is less than RANK times the norm of the column. */
static const double RANK = 1e-10;

static double norm(const double *a, int pitch, int from, int m) {
    double sum = 0;
    for (int i = from; i < m; i++) sum += a[i * pitch] * a[i * pitch];
    return sqrt(sum);
}

/* Reflects rows `k` to m - 1 so that column `c` has nothing below row k. `order` are the columns that are left. */
static void reflect(double *rows, int m, int pitch, int k, int c, const int *order, int left) {
    double *a = rows + c;
    const double length = a[k * pitch] > 0 ? -norm(a, pitch, k, m) : norm(a, pitch, k, m);
    const double head = a[k * pitch] - length, scale = -1 / (length * head);
    for (int j = 0; j < left; j++) {
        double *y = rows + order[j];
        double dot = head * y[k * pitch];
        for (int i = k + 1; i < m; i++) dot += a[i * pitch] * y[i * pitch];
        y[k * pitch] -= scale * dot * head;
        for (int i = k + 1; i < m; i++) y[i * pitch] -= scale * dot * a[i * pitch];
    }
    a[k * pitch] = length;
}

void tw_least_squares(double *rows, int m, int n, double *x) {
    const int pitch = n + 1;
    int order[TW_LEAST_UNKNOWNS + 1], rank = 0;
    double whole[TW_LEAST_UNKNOWNS];
    for (int i = 0; i <= n; i++) order[i] = i;
    for (int i = 0; i < n; i++) {
        whole[i] = norm(rows + i, pitch, 0, m);
        x[i] = 0;
    }
    for (; rank < n; rank++) {
        int best = -1;
        double most = RANK;
        for (int i = rank; i < n; i++) {
            const double share = whole[order[i]] > 0 ? norm(rows + order[i], pitch, rank, m) / whole[order[i]] : 0;
            if (share > most) {
                most = share;
                best = i;
            }
        }
        if (best < 0) break;
        const int c = order[best];
        order[best] = order[rank];
        order[rank] = c;
        reflect(rows, m, pitch, rank, c, order + rank + 1, n - rank);
    }
    for (int i = rank - 1; i >= 0; i--) {
        double left = rows[i * pitch + n];
        for (int j = i + 1; j < rank; j++) left -= rows[i * pitch + order[j]] * x[order[j]];
        x[order[i]] = left / rows[i * pitch + order[i]];
    }
}
