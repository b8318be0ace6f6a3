/* SPDX-License-Identifier: Apache-2.0 */
/* CumProd of integers. A line of n elements takes about log2(n) rounds. In each, an element is multiplied by the one
   that lies 1, 2, 4, ... before it. Products wrap, as integers do. */
#include "graph/program/lower.h"

/* Returns `count` elements of each line, from element `from` on. */
static tw_lazy part(const tw_lazy *x, int axis, int64_t from, int64_t count) {
    tw_lazy y = *x;
    tw_lazy_slice(&y, axis, from, 1, count);
    return y;
}

static bool store_part(tw_lowering *l, const tw_lazy *x, const tw_lazy *to, int axis, int64_t from) {
    const tw_lazy at = part(to, axis, from, x->dims[axis]);
    const tw_view view = tw_lazy_view(&at);
    return tw_lower_store(l, x, &view);
}

/* Allocates scratch memory for an array of the same type and extents. */
static tw_lazy room(tw_lowering *l, const tw_lazy *x) {
    const tw_view v = tw_lower_scratch(l, "products", x->type, x->rank, x->dims, NULL);
    return tw_lazy_of_view(&v);
}

/* Multiplies all elements but the first `by` with those that lie `by` before them. */
static bool multiply(tw_lowering *l, tw_lazy *x, int axis, int64_t by) {
    const int64_t rest = x->dims[axis] - by;
    const tw_lazy to = room(l, x), first = part(x, axis, 0, by), a = part(x, axis, by, rest),
                  b = part(x, axis, 0, rest);
    tw_lazy y = tw_lazy_begin(x->type, x->rank, a.dims);
    const int own = tw_lazy_add(&y, &a), before = tw_lazy_add(&y, &b);
    y.cells.value = tw_cells_apply(&y.cells, TW_CELL_mul, own, before, -1);
    if (l->failed || y.cells.failed || !store_part(l, &first, &to, axis, 0) || !store_part(l, &y, &to, axis, by))
        return false;
    *x = to;
    return true;
}

/* Moves each element of a line to the next place. The first becomes 1. */
static bool leave_out(tw_lowering *l, tw_lazy *x, int axis) {
    const int64_t rest = x->dims[axis] - 1;
    const tw_lazy to = room(l, x), others = part(x, axis, 0, rest);
    int64_t dims[TW_ARRAY_RANK];
    memcpy(dims, x->dims, sizeof dims);
    dims[axis] = 1;
    tw_lazy one = tw_lazy_begin(x->type, x->rank, dims);
    tw_cells_integer(&one.cells, 1);
    if (l->failed || !store_part(l, &one, &to, axis, 0) || !store_part(l, &others, &to, axis, 1)) return false;
    *x = to;
    return true;
}

bool tw_lower_products(tw_lowering *l, const tw_node *n, int axis) {
    tw_view stored;
    if (!l->options.gpu || axis < 0 || !tw_lower_in_memory(l, n->in[0], &stored)) return false;
    const int64_t extent = stored.dims[axis];
    const bool some = tw_view_elements(&stored), back = tw_node_integer(n, "reverse", 0);
    tw_lazy x = tw_lazy_of_view(&stored);
    if (some && back) tw_lazy_slice(&x, axis, extent - 1, -1, extent);
    for (int64_t by = 1; some && by < extent; by *= 2)
        if (!multiply(l, &x, axis, by)) return false;
    if (some && tw_node_integer(n, "exclusive", 0) && !leave_out(l, &x, axis)) return false;
    if (some && back) tw_lazy_slice(&x, axis, extent - 1, -1, extent);
    tw_lower_set(l, n->out[0], &x);
    return !l->failed;
}
