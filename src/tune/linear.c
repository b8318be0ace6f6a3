/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/linear.h"

#include "base/diag.h"

#include <math.h>
#include <stdlib.h>

/* What a weight's square costs, as a share of the rows. */
static const double RIDGE = 1e-6;

struct tw_linear {
    int columns;
    double constant;
    double weights[]; /* [columns] */
};

/* Sums of the rows that are learned from. */
typedef struct sums {
    int columns, rows;
    double *mean;  /* [columns]: means of the columns. */
    double *scale; /* [columns]: 1 over the standard deviation of each column. 0: the column is constant. */
    double *left;  /* [columns][columns]: products of columns, then the lower triangle of Cholesky's factor. */
    double *right; /* [columns]: products of columns and y, then the weights. */
    double y;      /* Mean of y. */
} sums;

static void find_means(sums *s, const tw_table *t) {
    for (int i = 0; i < t->n; i++) {
        if (t->held[i]) continue;
        for (int c = 0; c < s->columns; c++) s->mean[c] += (double)t->x[(size_t)i * (size_t)s->columns + (size_t)c];
        s->y += (double)t->y[i];
        s->rows++;
    }
    for (int c = 0; c < s->columns; c++) s->mean[c] /= s->rows ? s->rows : 1;
    s->y /= s->rows ? s->rows : 1;
}

static void find_scales(sums *s, const tw_table *t) {
    for (int i = 0; i < t->n; i++)
        for (int c = 0; c < s->columns && !t->held[i]; c++) {
            const double x = (double)t->x[(size_t)i * (size_t)s->columns + (size_t)c] - s->mean[c];
            s->scale[c] += x * x / s->rows;
        }
    for (int c = 0; c < s->columns; c++)
        s->scale[c] = s->scale[c] > 1e-12 * (1 + s->mean[c] * s->mean[c]) ? 1 / sqrt(s->scale[c]) : 0;
}

/* Adds up the products of scaled columns. `row` has room for a row. */
static void multiply(sums *s, const tw_table *t, double *row) {
    const size_t n = (size_t)s->columns;
    for (int i = 0; i < t->n; i++) {
        if (t->held[i]) continue;
        for (size_t c = 0; c < n; c++) row[c] = ((double)t->x[(size_t)i * n + c] - s->mean[c]) * s->scale[c];
        for (size_t c = 0; c < n; c++) {
            for (size_t d = 0; d <= c; d++) s->left[c * n + d] += row[c] * row[d];
            s->right[c] += row[c] * ((double)t->y[i] - s->y);
        }
    }
    for (size_t c = 0; c < n; c++) s->left[c * n + c] += RIDGE * s->rows;
}

/* Solves left x = right in place. The ridge makes `left` positive definite. */
static void solve(sums *s) {
    const size_t n = (size_t)s->columns;
    double *a = s->left, *x = s->right;
    for (size_t c = 0; c < n; c++)
        for (size_t d = 0; d <= c; d++) {
            double left = a[c * n + d];
            for (size_t k = 0; k < d; k++) left -= a[c * n + k] * a[d * n + k];
            a[c * n + d] = c == d ? sqrt(fmax(left, RIDGE * RIDGE)) : left / a[d * n + d];
        }
    for (size_t c = 0; c < n; c++) {
        for (size_t k = 0; k < c; k++) x[c] -= a[c * n + k] * x[k];
        x[c] /= a[c * n + c];
    }
    for (size_t c = n; c-- > 0;) {
        for (size_t k = c + 1; k < n; k++) x[c] -= a[k * n + c] * x[k];
        x[c] /= a[c * n + c];
    }
}

tw_status tw_linear_fit(tw_linear **out, const tw_table *t, tw_diag *diag) {
    const size_t n = (size_t)t->columns;
    double *room = calloc(n * n + 4 * n + 1, sizeof *room);
    tw_linear *l = calloc(1, sizeof *l + n * sizeof l->weights[0]);
    *out = NULL;
    tw_status st = room && l ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK) {
        sums s = {t->columns, 0, room, room + n, room + 4 * n, room + 2 * n, 0};
        find_means(&s, t);
        if (!s.rows) st = tw_fail(diag, TW_ERR_USAGE, "there is nothing that a linear model can learn from");
        find_scales(&s, t);
        multiply(&s, t, room + 3 * n);
        solve(&s);
        l->columns = t->columns;
        l->constant = s.y;
        for (size_t c = 0; c < n; c++) {
            l->weights[c] = s.right[c] * s.scale[c];
            l->constant -= l->weights[c] * s.mean[c];
        }
    }
    free(room);
    if (st == TW_OK)
        *out = l;
    else
        free(l);
    return st;
}

void tw_linear_free(tw_linear *l) {
    free(l);
}

void tw_linear_predict(const tw_linear *l, const float *x, int n, float *y) {
    for (int i = 0; i < n; i++) {
        double sum = l->constant;
        for (int c = 0; c < l->columns; c++)
            sum += l->weights[c] * (double)x[(size_t)i * (size_t)l->columns + (size_t)c];
        y[i] = (float)sum;
    }
}

int64_t tw_linear_weights(const tw_linear *l) {
    return l->columns + 1;
}
