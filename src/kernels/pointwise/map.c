/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/pointwise/map.h"

#include "kernels/pointwise/shape.h"

#include <math.h>

int64_t tw_points_columns(const tw_points *p) {
    return p->rank ? p->dims[p->rank - 1] : 1;
}

int64_t tw_points_rows(const tw_points *p) {
    int64_t n = 1;
    for (int i = 0; i + 1 < p->rank; i++) n *= p->dims[i];
    return n;
}

int64_t tw_points_place(const tw_points *p, const int64_t strides[TW_POINT_RANK], int64_t row) {
    int64_t at = 0;
    for (int i = p->rank - 2; i >= 0; i--) {
        at += row % p->dims[i] * strides[i];
        row /= p->dims[i];
    }
    return at;
}

/* Reads an operand's element, gathered or not. */
static tw_cell_value read(const tw_points *p, const tw_point_data *data, int i, int64_t row, int64_t column) {
    const tw_point_operand *o = &p->operands[i];
    int64_t at = tw_points_place(p, o->strides, row) + column * tw_points_step(p, o);
    if (o->gathers) {
        int64_t which = read(p, data, o->by, row, column).whole;
        if (which < 0) which += o->gather_extent;
        if (which < 0 || which >= o->gather_extent)
            return tw_class_is_real(tw_memory_class(o->type)) ? (tw_cell_value){.real = (double)NAN}
                                                              : (tw_cell_value){.whole = 0};
        at += which * o->gather_stride;
    }
    return tw_memory_read(o->type, data->operands[i], at);
}

tw_cell_value tw_points_value(const tw_points *p, const tw_point_data *data, int64_t row, int64_t column) {
    tw_cell_value x[TW_POINT_OPERANDS];
    int64_t index[TW_POINT_RANK] = {0}, rest = row;
    for (int i = p->rank - 2; i >= 0; i--) {
        index[i] = rest % p->dims[i];
        rest /= p->dims[i];
    }
    if (p->rank) index[p->rank - 1] = column;
    const unsigned used = tw_points_used(p);
    for (int i = 0; i < p->n_operands; i++)
        if (used >> i & 1) x[i] = read(p, data, i, row, column);
    return tw_cells_compute(&p->cells, x, index);
}

static tw_status check_operand(const tw_points *p, int i, tw_diag *diag) {
    const tw_point_operand *o = &p->operands[i];
    if ((unsigned)o->type >= TW_MEMORY_TYPES) return tw_fail(diag, TW_ERR_USAGE, "x%d has no type", i);
    if (!o->gathers) return TW_OK;
    if (o->by < 0 || o->by >= p->n_operands || p->operands[o->by].gathers ||
        tw_memory_class(p->operands[o->by].type) != TW_CLASS_integer)
        return tw_fail(diag, TW_ERR_USAGE, "x%d is gathered by x%d, which is no integer operand that lies still", i,
                       o->by);
    return o->gather_extent >= 0 ? TW_OK : tw_fail(diag, TW_ERR_USAGE, "x%d is gathered from less than nothing", i);
}

tw_status tw_points_check(const tw_points *p, tw_diag *diag) {
    if (p->rank < 0 || p->rank > TW_POINT_RANK)
        return tw_fail(diag, TW_ERR_USAGE, "%d dimensions: at most %d can be", p->rank, TW_POINT_RANK);
    int64_t all = 1;
    for (int i = 0; i < p->rank; i++)
        if (p->dims[i] < 0 || __builtin_mul_overflow(all, p->dims[i], &all))
            return tw_fail(diag, TW_ERR_USAGE, "dimension %d, of %lld, cannot be", i, (long long)p->dims[i]);
    if (p->n_operands < 0 || p->n_operands > TW_POINT_OPERANDS)
        return tw_fail(diag, TW_ERR_USAGE, "%d operands: at most %d can be", p->n_operands, TW_POINT_OPERANDS);
    for (int i = 0; i < p->n_operands; i++) {
        const tw_status st = check_operand(p, i, diag);
        if (st != TW_OK) return st;
    }
    const tw_cells *e = &p->cells;
    if (e->failed || e->value >= e->n) return tw_fail(diag, TW_ERR_USAGE, "there is no expression");
    for (int i = 0; i < e->n; i++) {
        const int number = e->of[i].of[0];
        if (e->of[i].op == TW_CELL_index && number >= p->rank)
            return tw_fail(diag, TW_ERR_USAGE, "there is no dimension %d", number);
        if (e->of[i].op == TW_CELL_operand &&
            (number >= p->n_operands || tw_memory_class(p->operands[number].type) != (tw_class)e->of[i].class))
            return tw_fail(diag, TW_ERR_USAGE, "there is no such operand x%d", number);
    }
    return TW_OK;
}

tw_status tw_map_check(const tw_map_problem *p, tw_diag *diag) {
    const tw_status st = tw_points_check(&p->x, diag);
    if (st != TW_OK) return st;
    if ((unsigned)p->out.type >= TW_MEMORY_TYPES || tw_memory_class(p->out.type) != tw_cells_class(&p->x.cells) ||
        p->out.gathers)
        return tw_fail(diag, TW_ERR_USAGE, "the result cannot hold the expression's value");
    return TW_OK;
}

void tw_map_run(const tw_map_problem *p, const tw_point_data *data, int64_t from, int64_t to) {
    const int64_t n = tw_points_columns(&p->x), stride = tw_points_step(&p->x, &p->out);
    for (int64_t row = from; row < to; row++) {
        const int64_t at = tw_points_place(&p->x, p->out.strides, row);
        for (int64_t i = 0; i < n; i++)
            tw_memory_write(p->out.type, data->out, at + i * stride, tw_points_value(&p->x, data, row, i));
    }
}
