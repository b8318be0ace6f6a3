/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/rows/rows.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {"layer_norm", "rms_norm", "softmax", "log_softmax", "sum",
                                    "mean",       "max",      "min",     "prod"};

const char *tw_rows_name(tw_rows_of of) {
    return names[of];
}

static bool holds(const tw_point_operand *o, tw_class of) {
    return (unsigned)o->type < TW_MEMORY_TYPES && tw_memory_class(o->type) == of && !o->gathers;
}

tw_status tw_rows_check(const tw_rows_problem *p, tw_diag *diag) {
    const tw_status st = tw_points_check(&p->x, diag);
    if (st != TW_OK) return st;
    const bool norm = p->of <= TW_ROWS_rms_norm;
    if ((unsigned)p->of >= TW_ROWS_OPS) return tw_fail(diag, TW_ERR_USAGE, "rows have no such function");
    if (p->x.rank < 1) return tw_fail(diag, TW_ERR_USAGE, "a row needs a dimension");
    const tw_class of = tw_cells_class(&p->x.cells);
    if (!tw_class_is_real(of)) return tw_fail(diag, TW_ERR_USAGE, "the values of a row are no reals");
    if (of == TW_CLASS_double && !tw_rows_reduces(p->of))
        return tw_fail(diag, TW_ERR_USAGE, "rows of doubles are reduced, and not normed");
    if (!holds(&p->out, of) || (p->has_kept && !holds(&p->kept, of)) || (p->has_gain && !holds(&p->gain, of)) ||
        (p->has_bias && !holds(&p->bias, of)))
        return tw_fail(diag, TW_ERR_USAGE, "results, gain and bias are reals as the values are, and do not gather");
    if (!norm && (p->has_gain || p->has_bias)) return tw_fail(diag, TW_ERR_USAGE, "only norms have a gain or a bias");
    return TW_OK;
}

/* What a row's values amount to: the mean or the largest, and the inverse deviation or the sum. */
typedef struct statistics {
    double centre, scale;
} statistics;

static double value(const tw_rows_problem *p, const tw_point_data *data, int64_t row, int64_t i) {
    return tw_points_value(&p->x, data, row, i).real;
}

static statistics measure(const tw_rows_problem *p, const tw_point_data *data, int64_t row) {
    const int64_t n = tw_points_columns(&p->x);
    const bool low = p->of == TW_ROWS_min, extreme = p->of >= TW_ROWS_softmax && p->of != TW_ROWS_sum &&
                                                     p->of != TW_ROWS_mean && p->of != TW_ROWS_prod;
    double sum = 0, product = 1, most = low ? (double)INFINITY : -(double)INFINITY, square = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = value(p, data, row, i);
        sum += x;
        product *= x;
        if (isnan(x) || (low ? x < most : x > most)) most = x;
    }
    const double centre = p->of == TW_ROWS_rms_norm ? 0 : extreme ? most : p->of == TW_ROWS_sum ? sum : sum / (double)n;
    if (tw_rows_reduces(p->of)) return (statistics){p->of == TW_ROWS_prod ? product : centre, 0};
    for (int64_t i = 0; i < n; i++) {
        const double x = value(p, data, row, i) - centre;
        square += extreme ? exp(x) : x * x;
    }
    return (statistics){centre, extreme ? square : 1 / sqrt(square / (double)n + (double)p->eps)};
}

static double part(const tw_point_operand *o, const void *data, const tw_points *x, int64_t row, int64_t i) {
    return tw_memory_read(o->type, data, tw_points_place(x, o->strides, row) + i * o->strides[x->rank - 1]).real;
}

static double finish(const tw_rows_problem *p, const tw_point_data *data, const statistics *s, int64_t row, int64_t i) {
    double y = value(p, data, row, i) - s->centre;
    if (p->of == TW_ROWS_softmax) return exp(y) / s->scale;
    if (p->of == TW_ROWS_log_softmax) return y - log(s->scale);
    y *= s->scale;
    if (p->has_gain) y *= part(&p->gain, data->gain, &p->x, row, i);
    return p->has_bias ? y + part(&p->bias, data->bias, &p->x, row, i) : y;
}

static void store(const tw_point_operand *o, void *data, const tw_points *x, int64_t row, int64_t i, double y) {
    const int64_t at = tw_points_place(x, o->strides, row) + i * o->strides[x->rank - 1];
    tw_memory_write(o->type, data, at, (tw_cell_value){.real = y});
}

void tw_rows_run(const tw_rows_problem *p, const tw_point_data *data, int64_t from, int64_t to) {
    const int64_t n = tw_points_columns(&p->x);
    for (int64_t row = from; row < to; row++) {
        const statistics s = measure(p, data, row);
        if (tw_rows_reduces(p->of)) store(&p->out, data->out, &p->x, row, 0, s.centre);
        for (int64_t i = 0; i < n; i++) {
            const double x = p->has_kept ? value(p, data, row, i) : 0;
            if (!tw_rows_reduces(p->of)) store(&p->out, data->out, &p->x, row, i, finish(p, data, &s, row, i));
            if (p->has_kept) store(&p->kept, data->kept, &p->x, row, i, x);
        }
    }
}
