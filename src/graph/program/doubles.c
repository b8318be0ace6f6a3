/* SPDX-License-Identifier: Apache-2.0 */
/* Products and softmaxes of f64 on a GPU. They are made of maps and reductions. A product reads its operands once for
   each multiplication, so large products are slow. */
#include "graph/program/lower.h"

/* Spreads a matrix to [batch][row][column][k]. `order` puts its dimensions into that order, and it lacks dimension
   `without`. */
static bool spread(const tw_view *v, const int *order, int without, const int64_t *dims, int rank, tw_lazy *out) {
    int64_t own[TW_ARRAY_RANK];
    tw_lazy x = tw_lazy_of_view(v);
    tw_lazy_transpose(&x, order);
    for (int i = 0, at = 0; i < rank; i++) own[i] = i == without ? 1 : x.dims[at++];
    if (!tw_lazy_reshape(&x, rank, own)) return false;
    tw_lazy_expand(&x, rank, dims);
    *out = x;
    return true;
}

bool tw_lower_multiply_doubles(tw_lowering *l, const tw_view *a, const tw_view *b, double alpha, const tw_view *to) {
    const int rank = to->rank + 1, last = to->rank - 1;
    int64_t dims[TW_ARRAY_RANK] = {0};
    int as_is[TW_ARRAY_RANK], turned[TW_ARRAY_RANK];
    tw_lazy x, y;
    if (rank > TW_ARRAY_RANK || a->rank != to->rank || b->rank != to->rank || last < 1) return false;
    memcpy(dims, to->dims, sizeof *dims * (size_t)to->rank);
    dims[rank - 1] = a->dims[last];
    for (int i = 0; i <= last; i++) as_is[i] = turned[i] = i;
    turned[last] = last - 1;
    turned[last - 1] = last;
    if (!spread(a, as_is, last, dims, rank, &x) || !spread(b, turned, last - 1, dims, rank, &y)) return false;
    tw_lazy z = tw_lazy_begin(TW_E_f64, rank, dims);
    tw_cells *c = &z.cells;
    const int product = tw_cells_apply(c, TW_CELL_mul, tw_lazy_add(&z, &x), tw_lazy_add(&z, &y), -1);
    c->value = alpha == 1 ? product : tw_cells_apply(c, TW_CELL_mul, product, tw_cells_double(c, alpha), -1);
    return c->value >= 0 && !c->failed && tw_lower_reduction(l, TW_ROWS_sum, &z, to);
}

/* Stores an array, whose value is cell `value`. */
static bool store(tw_lowering *l, tw_lazy *x, int value, const tw_view *to) {
    x->cells.value = value;
    return value >= 0 && !x->cells.failed && tw_lower_store(l, x, to);
}

bool tw_lower_softmax_doubles(tw_lowering *l, const tw_lazy *x, bool log, const tw_view *to) {
    tw_view most, sum, off = tw_lower_scratch(l, "off", TW_E_f64, x->rank, x->dims, NULL);
    tw_lazy y;
    int number;
    if (l->failed || !tw_lower_reduced(l, TW_ROWS_max, x, &most)) return false;
    int element = tw_lower_with_each(x, &most, &y, &number);
    if (!store(l, &y, tw_cells_apply(&y.cells, TW_CELL_sub, element, number, -1), &off)) return false;
    const tw_lazy moved = tw_lazy_of_view(&off);
    tw_lazy z = moved;
    if (!tw_lazy_open(&z)) return false;
    z.cells.value = tw_cells_apply(&z.cells, TW_CELL_exp, z.cells.value, -1, -1);
    if (z.cells.failed || !tw_lower_reduced(l, TW_ROWS_sum, &z, &sum)) return false;
    element = tw_lower_with_each(&moved, &sum, &y, &number);
    tw_cells *c = &y.cells;
    return log ? store(l, &y,
                       tw_cells_apply(c, TW_CELL_sub, element, tw_cells_apply(c, TW_CELL_log, number, -1, -1), -1), to)
               : store(l, &y,
                       tw_cells_apply(c, TW_CELL_div, tw_cells_apply(c, TW_CELL_exp, element, -1, -1), number, -1), to);
}
