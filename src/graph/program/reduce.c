/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, and what is made of them: steps of rows, whose values are expressions, and expressions of their results.
   Whole numbers are reduced as reals where all that may come fits into 24 bits, and are summed in parts of which that
   is so. */
#include "graph/program/lower.h"

#include "graph/ops/op.h"

#include <math.h>

/* The axes of a reduction. False: they are not known. */
static bool axes_of(const tw_lowering *l, const tw_node *n, int rank, bool axes[TW_ARRAY_RANK]) {
    int64_t list[TW_ARRAY_RANK];
    const int count = tw_lower_integers(l, n, 1, "axes", list, TW_ARRAY_RANK);
    if (count < 0) return false;
    const bool none = !count && tw_node_integer(n, "noop_with_empty_axes", 0);
    for (int i = 0; i < rank; i++) axes[i] = !count && !none;
    for (int i = 0; i < count; i++) {
        const int axis = tw_axis(list[i], rank);
        if (axis < 0) return false;
        axes[axis] = true;
    }
    return true;
}

/* Tells whether a type's numbers, one by one, are the same as reals of 32 bits. */
static bool is_short(tw_element t) {
    return tw_element_kind(t) == TW_KIND_real || tw_element_kind(t) == TW_KIND_truth || tw_element_bits(t) <= 16;
}

/* Lines along axes: the array with these axes joined, as its last dimension. Returns the number of the others, or -1.
 */
static int lines_of(tw_lowering *l, const tw_lazy *from, const bool *axes, tw_lazy *out) {
    int order[TW_ARRAY_RANK] = {0}, rest = 0;
    int64_t dims[TW_ARRAY_RANK] = {0};
    tw_lazy x = *from;
    for (int i = 0; i < x.rank; i++)
        if (!axes[i]) order[rest++] = i;
    for (int i = 0, at = rest; i < x.rank; i++)
        if (axes[i]) order[at++] = i;
    tw_lazy_transpose(&x, order);
    if (rest == TW_ARRAY_RANK) return -1;
    memcpy(dims, x.dims, (size_t)rest * sizeof *dims);
    dims[rest] = 1;
    for (int i = rest; i < x.rank; i++) dims[rest] *= x.dims[i];
    if (!tw_lower_reshape(l, &x, rest + 1, dims)) return -1;
    *out = x;
    return rest;
}

/* Makes the elements reals. */
static bool make_real(tw_lazy *x) {
    if (tw_element_kind(x->type) == TW_KIND_real) return true;
    if (!tw_lazy_open(x)) return false;
    x->type = TW_E_f32;
    return tw_cells_apply(&x->cells, TW_CELL_real, x->cells.value, -1, -1) >= 0;
}

/* Returns the type that an array's reals are computed in: f32, or f64 for doubles. */
static tw_element reals_of(const tw_lazy *x) {
    return tw_lazy_has_doubles(x) ? TW_E_f64 : TW_E_f32;
}

bool tw_lower_reduced(tw_lowering *l, tw_rows_of of, const tw_lazy *lines, tw_view *out) {
    const int last = lines->rank - 1;
    *out = tw_lower_scratch(l, tw_rows_name(of), reals_of(lines), last, lines->dims, NULL);
    if (l->failed || !tw_lower_reduction(l, of, lines, out)) return false;
    out->dims[out->rank++] = 1;
    return true;
}

int tw_lower_with_each(const tw_lazy *lines, const tw_view *each, tw_lazy *x, int *number) {
    const tw_lazy of_line = tw_lazy_of_view(each);
    *x = tw_lazy_begin(reals_of(lines), lines->rank, lines->dims);
    const int element = tw_lazy_add(x, lines);
    *number = element < 0 ? -1 : tw_lazy_add(x, &of_line);
    return *number < 0 ? -1 : element;
}

/* Sets a result, whose extents are brought to those of the value. */
static bool set_result(tw_lowering *l, int value, tw_lazy *x) {
    const tw_value *v = tw_lower_of(l, value);
    if (x->cells.failed || !tw_lazy_reshape(x, v->rank, v->dims)) return false;
    x->type = v->type;
    tw_lower_set(l, value, x);
    return !l->failed;
}

/* Sets a result to numbers of lines, converted. */
static bool set_lines(tw_lowering *l, int value, const tw_view *each, tw_cell_op behind) {
    tw_lazy x = tw_lazy_of_view(each);
    return tw_lazy_open(&x) && tw_cells_apply(&x.cells, behind, x.cells.value, -1, -1) >= 0 && set_result(l, value, &x);
}

/* A reduction of an expression of elements, and what is computed of its results. */
typedef struct reduction {
    const char *op;
    tw_rows_of of;
    tw_cell_op each;   /* What is reduced; mul: squares. TW_CELL_operand: the elements. */
    tw_cell_op behind; /* TW_CELL_operand: the results. */
} reduction;

static bool apply_each(tw_lazy *x, const reduction *of) {
    if (of->each == TW_CELL_operand) return true;
    if (!tw_lazy_open(x)) return false;
    const int value = x->cells.value;
    return (x->cells.value = tw_cells_apply(&x->cells, of->each, value, value, -1)) >= 0;
}

/* The largest or the least of short whole numbers. Of products it is not known that they are short. */
static bool of_wholes(const tw_lowering *l, const tw_node *n, tw_rows_of of) {
    return is_short(tw_lower_of(l, n->in[0])->type) && (of == TW_ROWS_max || of == TW_ROWS_min);
}

/* Adds up parts of the whole numbers of each line, as [i][line]. Part i is their bits from `step * i` on, so few that
   sums in f32 are exact. */
static bool sum_parts(tw_lowering *l, const tw_lazy *lines, int step, int parts, tw_view *out) {
    int64_t dims[TW_ARRAY_RANK] = {parts};
    const int rank = lines->rank;
    if (rank == TW_ARRAY_RANK) return false;
    memcpy(dims + 1, lines->dims, (size_t)rank * sizeof *dims);
    tw_lazy y = tw_lazy_begin(TW_E_f32, rank + 1, dims);
    tw_cells *c = &y.cells;
    const int element = tw_lazy_add(&y, lines), part = tw_lower_index(l, &y, 0);
    const int from = tw_cells_apply(c, TW_CELL_mul, part, tw_cells_integer(c, step), -1);
    const int low = tw_cells_apply(c, TW_CELL_shr, element, from, -1);
    const int few = tw_cells_apply(c, TW_CELL_bit_and, low, tw_cells_integer(c, (1 << step) - 1), -1);
    c->value = tw_cells_apply(c, TW_CELL_real, few, -1, -1);
    if (c->failed || !tw_lower_reduced(l, TW_ROWS_sum, &y, out)) return false;
    out->rank--; /* A line has one number. */
    return true;
}

/* Sums of whole numbers of a type: those of their parts, put together. */
static bool sum_wholes(tw_lowering *l, const tw_lazy *lines, tw_element type, tw_lazy *out) {
    enum { EXACT = 24 /* Bits of a real's whole numbers. */ };
    const int rest = lines->rank - 1, bits = tw_element_bits(type);
    int step = EXACT, sum;
    tw_view sums;
    tw_cell_op cut;
    while (step > 0 && lines->dims[rest] > 1 << (EXACT - step)) step--;
    const int parts = step ? (bits + step - 1) / step : 0;
    if (!parts || parts > TW_POINT_OPERANDS || !sum_parts(l, lines, step, parts, &sums)) return false;
    tw_lazy y = tw_lazy_begin(type, rest, lines->dims);
    tw_cells *c = &y.cells;
    sum = tw_cells_integer(c, 0);
    for (int i = 0; i < parts; i++) {
        tw_lazy part = tw_lazy_of_view(&sums);
        tw_lazy_slice(&part, 0, i, 1, 1);
        if (!tw_lazy_reshape(&part, rest, lines->dims)) return false;
        const int whole = tw_cells_apply(c, TW_CELL_integer, tw_lazy_add(&y, &part), -1, -1);
        const int high = tw_cells_apply(c, TW_CELL_shl, whole, tw_cells_integer(c, i * step), -1);
        sum = tw_cells_apply(c, TW_CELL_add, sum, high, -1);
    }
    if (bits < 64) sum = tw_cell_from_name(tw_element_name(type), &cut) ? tw_cells_apply(c, cut, sum, -1, -1) : -1;
    c->value = sum;
    *out = y;
    return sum >= 0 && !c->failed;
}

static bool reduce(tw_lowering *l, const tw_node *n, const reduction *as) {
    const tw_value *v = tw_lower_of(l, n->in[0]), *v_out = tw_lower_of(l, n->out[0]);
    const tw_kind kind = tw_element_kind(v->type);
    bool axes[TW_ARRAY_RANK];
    tw_lazy x;
    tw_memory_type type;
    const bool wholes = (kind == TW_KIND_integer || kind == TW_KIND_natural) && !strcmp(as->op, "ReduceSum");
    if ((kind != TW_KIND_real && !wholes && !of_wholes(l, n, as->of)) || !axes_of(l, n, v->rank, axes) ||
        (wholes && !tw_memory_of(v->type, &type)))
        return false;
    const tw_lazy *from = tw_lower_take(l, n->in[0]);
    const int rest = from ? lines_of(l, from, axes, &x) : -1;
    tw_lazy sums;
    if (wholes)
        return rest >= 0 && x.dims[rest] && sum_wholes(l, &x, v->type, &sums) && set_result(l, n->out[0], &sums);
    if (rest < 0 || !make_real(&x) || !apply_each(&x, as)) return false;
    const tw_cell_op behind = kind == TW_KIND_real    ? as->behind
                              : kind == TW_KIND_truth ? TW_CELL_truth
                                                      : TW_CELL_integer;
    if (behind != TW_CELL_operand) { /* Results are stored elsewhere before. */
        tw_view each;
        return tw_lower_reduced(l, as->of, &x, &each) && set_lines(l, n->out[0], &each, behind);
    }
    const tw_view to = tw_lower_target(l, n->out[0]);
    tw_lazy out = tw_lazy_of_view(&to);
    if (l->failed || !tw_lazy_reshape(&out, rest, x.dims)) return false;
    out.type = v_out->type;
    const tw_view at = tw_lazy_view(&out);
    if (!tw_lower_reduction(l, as->of, &x, &at)) return false;
    tw_lower_set_view(l, n->out[0], &to);
    return true;
}

/* log(sum of e^x) = m + log(sum of e^(x - m)), where m is the largest if that is finite. */
static int finite_or_zero(tw_cells *c, int m) {
    const int size = tw_cells_apply(c, TW_CELL_abs, m, -1, -1);
    const int finite = tw_cells_apply(c, TW_CELL_less, size, tw_cells_like(c, m, INFINITY), -1);
    return tw_cells_apply(c, TW_CELL_where, finite, m, tw_cells_like(c, m, 0));
}

static bool log_sum_exp(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->in[0]);
    bool axes[TW_ARRAY_RANK];
    tw_view stored, most, sum;
    tw_lazy x, y, z;
    int m;
    if (tw_element_kind(v->type) != TW_KIND_real || !axes_of(l, n, v->rank, axes)) return false;
    if (!tw_lower_in_memory(l, n->in[0], &stored)) return false;
    const tw_lazy from = tw_lazy_of_view(&stored);
    if (lines_of(l, &from, axes, &x) < 0 || !tw_lower_reduced(l, TW_ROWS_max, &x, &most)) return false;
    const int element = tw_lower_with_each(&x, &most, &y, &m);
    const int off = tw_cells_apply(&y.cells, TW_CELL_sub, element, finite_or_zero(&y.cells, m), -1);
    y.cells.value = tw_cells_apply(&y.cells, TW_CELL_exp, off, -1, -1);
    if (y.cells.failed || !tw_lower_reduced(l, TW_ROWS_sum, &y, &sum)) return false;
    const tw_lazy sums = tw_lazy_of_view(&sum);
    const int log = tw_cells_apply(&z.cells, TW_CELL_log, tw_lower_with_each(&sums, &most, &z, &m), -1, -1);
    z.cells.value = tw_cells_apply(&z.cells, TW_CELL_add, log, finite_or_zero(&z.cells, m), -1);
    return set_result(l, n->out[0], &z);
}

bool tw_lower_moments(tw_lowering *l, const tw_lazy *lines, double eps, int mean, int deviation) {
    tw_view means, variances;
    tw_lazy y;
    tw_cells *c = &y.cells;
    int m;
    if (!tw_lower_reduced(l, TW_ROWS_mean, lines, &means)) return false;
    if (mean >= 0) {
        y = tw_lazy_of_view(&means);
        if (!set_result(l, mean, &y)) return false;
    }
    if (deviation < 0) return true;
    const int element = tw_lower_with_each(lines, &means, &y, &m), off = tw_cells_apply(c, TW_CELL_sub, element, m, -1);
    c->value = tw_cells_apply(c, TW_CELL_mul, off, off, -1);
    if (c->failed || !tw_lower_reduced(l, TW_ROWS_mean, &y, &variances)) return false;
    y = tw_lazy_of_view(&variances);
    if (!tw_lazy_open(&y)) return false;
    const int variance = c->value, sum = tw_cells_apply(c, TW_CELL_add, variance, tw_cells_like(c, variance, eps), -1);
    c->value = tw_cells_apply(c, TW_CELL_rsqrt, sum, -1, -1);
    return set_result(l, deviation, &y);
}

/* ---- of one axis */

/* Lines of an operand, which is stored before, since they are read more than once. */
static bool lines_along(tw_lowering *l, int value, int axis, tw_lazy *out) {
    bool axes[TW_ARRAY_RANK] = {false};
    tw_view stored;
    if (axis < 0 || !tw_lower_in_memory(l, value, &stored)) return false;
    const tw_lazy x = tw_lazy_of_view(&stored);
    axes[axis] = true;
    return lines_of(l, &x, axes, out) >= 0;
}

/* Sets a result whose last dimension is to be `axis`. */
static bool set_along(tw_lowering *l, int value, int axis, tw_lazy *x) {
    int order[TW_ARRAY_RANK];
    if (x->cells.failed) return false;
    for (int i = 0; i < x->rank; i++) order[i] = i < axis ? i : i == axis ? x->rank - 1 : i - 1;
    tw_lazy_transpose(x, order);
    return set_result(l, value, x);
}

/* Finds the place of each line's largest or least element, the first or the last of equals, as a real. */
static bool place_of(tw_lowering *l, const tw_lazy *lines, tw_rows_of of, bool last, tw_view *place) {
    tw_lazy x = *lines, y;
    tw_view extreme;
    tw_cells *c = &y.cells;
    int m;
    if (x.dims[x.rank - 1] > TW_LOWER_WHOLES || !make_real(&x) || !tw_lower_reduced(l, of, &x, &extreme)) return false;
    const int element = tw_lower_with_each(&x, &extreme, &y, &m),
              nan = tw_cells_apply(c, TW_CELL_isnan, element, -1, -1);
    const int hit = tw_cells_apply(c, TW_CELL_or, tw_cells_apply(c, TW_CELL_equal, element, m, -1), nan, -1);
    const int at = tw_cells_apply(c, TW_CELL_real, tw_lower_index(l, &y, y.rank - 1), -1, -1);
    c->value = tw_cells_apply(c, TW_CELL_where, hit, at, tw_cells_real(c, last ? -1 : INFINITY));
    return !c->failed && tw_lower_reduced(l, last ? TW_ROWS_max : TW_ROWS_min, &y, place);
}

static bool arg(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->in[0]);
    const tw_rows_of of = !strcmp(n->op, "ArgMax") ? TW_ROWS_max : TW_ROWS_min;
    tw_lazy x;
    tw_view place;
    if (!is_short(v->type) || !lines_along(l, n->in[0], tw_axis(tw_node_integer(n, "axis", 0), v->rank), &x))
        return false;
    return place_of(l, &x, of, tw_node_integer(n, "select_last_index", 0), &place) &&
           set_lines(l, n->out[0], &place, TW_CELL_integer);
}

static bool hardmax(tw_lowering *l, const tw_node *n) {
    enum { ALONE = 13 /* From this version on it is of one dimension. */ };
    const tw_value *v = tw_lower_of(l, n->in[0]);
    const int axis = tw_axis(tw_node_integer(n, "axis", -1), v->rank);
    tw_lazy x;
    tw_view place;
    if (n->version < ALONE || !lines_along(l, n->in[0], axis, &x) || !place_of(l, &x, TW_ROWS_max, false, &place))
        return false;
    const tw_lazy places = tw_lazy_of_view(&place);
    tw_lazy y = tw_lazy_begin(v->type, x.rank, x.dims);
    tw_cells *c = &y.cells;
    const int best = tw_lazy_add(&y, &places), at = tw_lower_index(l, &y, y.rank - 1);
    const int hit = tw_cells_apply(c, TW_CELL_equal, tw_cells_apply(c, TW_CELL_real, at, -1, -1), best, -1);
    c->value = tw_lazy_cast(&y, hit, TW_E_bool, v->type);
    return c->value >= 0 && set_along(l, n->out[0], axis, &y);
}

static bool lp_norm(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->in[0]);
    const int axis = tw_axis(tw_node_integer(n, "axis", -1), v->rank);
    const bool squares = tw_node_integer(n, "p", 2) == 2;
    const reduction as = {"", TW_ROWS_sum, squares ? TW_CELL_mul : TW_CELL_abs, TW_CELL_operand};
    tw_lazy x, y;
    tw_view sum;
    tw_cells *c = &y.cells;
    int norm;
    if (!lines_along(l, n->in[0], axis, &x)) return false;
    tw_lazy each = x;
    if (!apply_each(&each, &as) || !tw_lower_reduced(l, TW_ROWS_sum, &each, &sum)) return false;
    const int element = tw_lower_with_each(&x, &sum, &y, &norm), zero = tw_cells_like(c, element, 0);
    if (squares) norm = tw_cells_apply(c, TW_CELL_sqrt, norm, -1, -1);
    const int none = tw_cells_apply(c, TW_CELL_equal, norm, zero, -1);
    c->value = tw_cells_apply(c, TW_CELL_where, none, zero, tw_cells_apply(c, TW_CELL_div, element, norm, -1));
    return set_along(l, n->out[0], axis, &y);
}

/* ---- what takes the square of a line's elements: only where there is no step for a single node */

/* Lines that are compared with themselves: a dimension before the last has their elements once more. False: that would
   be too much work. */
static bool squared(tw_lowering *l, const tw_lazy *lines, int64_t extent, tw_lazy *once, tw_lazy *again) {
    enum { MOST = 1 << 28 };
    const int last = lines->rank - 1;
    int64_t dims[TW_ARRAY_RANK], work = extent;
    if (!l->options.gpu || lines->rank == TW_ARRAY_RANK) return false;
    memcpy(dims, lines->dims, sizeof dims);
    for (int i = 0; i <= last; i++)
        if (__builtin_mul_overflow(work, dims[i], &work) || work > MOST) return false;
    *once = *again = *lines;
    dims[last] = 1;
    dims[last + 1] = lines->dims[last];
    if (!tw_lazy_reshape(once, last + 2, dims)) return false;
    dims[last] = extent;
    tw_lazy_expand(once, last + 2, dims);
    if (extent != lines->dims[last]) return true;
    dims[last + 1] = 1;
    if (!tw_lazy_reshape(again, last + 2, dims)) return false;
    dims[last + 1] = lines->dims[last];
    tw_lazy_expand(again, last + 2, dims);
    return true;
}

/* Which elements of a line each element accumulates. */
typedef struct accumulation {
    tw_lazy once; /* [lines][element][what it accumulates] */
    tw_cell_op seen;
    tw_rows_of of;
} accumulation;

/* Makes elements of what each accumulates, and of what changes nothing elsewhere. */
static bool accumulated(tw_lowering *l, const accumulation *a, tw_element type, tw_lazy *y) {
    *y = tw_lazy_begin(type, a->once.rank, a->once.dims);
    tw_cells *c = &y->cells;
    const bool real = tw_element_kind(type) == TW_KIND_real;
    const int element = tw_lazy_add(y, &a->once);
    const int at = tw_lower_index(l, y, y->rank - 1), to = tw_lower_index(l, y, y->rank - 2);
    const int none = real ? tw_cells_like(c, element, a->of == TW_ROWS_prod) : tw_cells_integer(c, 0);
    const int within = tw_cells_apply(c, a->seen, at, to, -1);
    c->value = tw_cells_apply(c, TW_CELL_where, within, element, none);
    return c->value >= 0 && !c->failed;
}

static bool accumulate(tw_lowering *l, const tw_node *n) {
    static const tw_cell_op seen[] = {TW_CELL_less_equal, TW_CELL_less, TW_CELL_greater_equal, TW_CELL_greater};
    const tw_value *v = tw_lower_of(l, n->in[0]);
    const tw_kind kind = tw_element_kind(v->type);
    const bool product = !strcmp(n->op, "CumProd"), whole = kind == TW_KIND_integer || kind == TW_KIND_natural;
    const int way = (tw_node_integer(n, "exclusive", 0) != 0) + 2 * (tw_node_integer(n, "reverse", 0) != 0);
    accumulation a = {.seen = seen[way], .of = product ? TW_ROWS_prod : TW_ROWS_sum};
    int64_t given;
    tw_lazy x, y, again, out;
    tw_view sums;
    tw_memory_type type;
    if (tw_lower_integers(l, n, 1, "", &given, 1) != 1 || !tw_memory_of(v->type, &type) ||
        (!whole && kind != TW_KIND_real))
        return false;
    const int axis = tw_axis(given, v->rank);
    if (whole && product) return tw_lower_products(l, n, axis);
    if (!lines_along(l, n->in[0], axis, &x) || !squared(l, &x, x.dims[x.rank - 1], &a.once, &again)) return false;
    if (!accumulated(l, &a, whole ? v->type : reals_of(&x), &y)) return false;
    if (whole) return sum_wholes(l, &y, v->type, &out) && set_along(l, n->out[0], axis, &out);
    if (!tw_lower_reduced(l, a.of, &y, &sums)) return false;
    sums.rank--; /* A line's number for each of its elements. */
    out = tw_lazy_of_view(&sums);
    return set_along(l, n->out[0], axis, &out);
}

/* How many elements of a line come before each: larger ones, or smaller ones, and equal ones that stand before it. No
   numbers are larger than others. */
static bool rank_all(tw_lowering *l, const tw_lazy *lines, bool largest, tw_view *ranks) {
    tw_lazy once, again;
    if (!squared(l, lines, lines->dims[lines->rank - 1], &once, &again)) return false;
    tw_lazy y = tw_lazy_begin(TW_E_f32, once.rank, once.dims);
    tw_cells *c = &y.cells;
    int other = tw_lazy_add(&y, &once), own = tw_lazy_add(&y, &again);
    if (lines->type == TW_E_u64) { /* Flipping the highest bit makes i64 of the same order. */
        other = tw_cells_apply(c, TW_CELL_bit_xor, other, tw_cells_integer(c, INT64_MIN), -1);
        own = tw_cells_apply(c, TW_CELL_bit_xor, own, tw_cells_integer(c, INT64_MIN), -1);
    }
    const int before =
        tw_cells_apply(c, TW_CELL_less, tw_lower_index(l, &y, y.rank - 1), tw_lower_index(l, &y, y.rank - 2), -1);
    int more = tw_cells_apply(c, TW_CELL_less, largest ? own : other, largest ? other : own, -1);
    int same = tw_cells_apply(c, TW_CELL_equal, own, other, -1);
    if (tw_element_kind(lines->type) == TW_KIND_real) {
        const int nan = tw_cells_apply(c, TW_CELL_isnan, other, -1, -1),
                  own_nan = tw_cells_apply(c, TW_CELL_isnan, own, -1, -1);
        const int apart =
            largest ? tw_cells_apply(c, TW_CELL_and, nan, tw_cells_apply(c, TW_CELL_not, own_nan, -1, -1), -1)
                    : tw_cells_apply(c, TW_CELL_and, own_nan, tw_cells_apply(c, TW_CELL_not, nan, -1, -1), -1);
        more = tw_cells_apply(c, TW_CELL_or, more, apart, -1);
        same = tw_cells_apply(c, TW_CELL_or, same, tw_cells_apply(c, TW_CELL_and, nan, own_nan, -1), -1);
    }
    same = tw_cells_apply(c, TW_CELL_and, same, before, -1);
    c->value = tw_cells_apply(c, TW_CELL_real, tw_cells_apply(c, TW_CELL_or, more, same, -1), -1, -1);
    if (c->failed || !tw_lower_reduced(l, TW_ROWS_sum, &y, ranks)) return false;
    ranks->rank--;
    return true;
}

static bool top_k(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->in[0]);
    const int axis = tw_axis(tw_node_integer(n, "axis", -1), v->rank), out = n->out[0] >= 0 ? n->out[0] : n->out[1];
    const int64_t k = tw_lower_of(l, out)->dims[axis];
    tw_lazy x, once, again;
    tw_view ranks, places;
    if (!lines_along(l, n->in[0], axis, &x) || !rank_all(l, &x, tw_node_integer(n, "largest", 1), &ranks)) return false;
    /* The place of rank i is the sum of all places whose rank it is. */
    const tw_lazy of_ranks = tw_lazy_of_view(&ranks);
    if (!squared(l, &of_ranks, k, &once, &again)) return false;
    tw_lazy y = tw_lazy_begin(TW_E_f32, once.rank, once.dims);
    tw_cells *c = &y.cells;
    const int rank = tw_lazy_add(&y, &once);
    const int wanted = tw_cells_apply(c, TW_CELL_real, tw_lower_index(l, &y, y.rank - 2), -1, -1);
    const int at = tw_cells_apply(c, TW_CELL_real, tw_lower_index(l, &y, y.rank - 1), -1, -1);
    const int hit = tw_cells_apply(c, TW_CELL_equal, rank, wanted, -1);
    c->value = tw_cells_apply(c, TW_CELL_where, hit, at, tw_cells_real(c, 0));
    if (c->failed || !tw_lower_reduced(l, TW_ROWS_sum, &y, &places)) return false;
    places.rank--;
    tw_lazy whole = tw_lazy_of_view(&places);
    if (!tw_lazy_open(&whole) || tw_cells_apply(&whole.cells, TW_CELL_integer, whole.cells.value, -1, -1) < 0)
        return false;
    const tw_view by = tw_lower_scratch(l, "places", TW_E_i64, places.rank, places.dims, NULL),
                  table = tw_lazy_view(&x);
    if (l->failed || !tw_lower_store(l, &whole, &by)) return false;
    tw_lazy values = tw_lazy_begin(v->type, places.rank, places.dims), indices = tw_lazy_of_view(&by);
    if (!tw_lower_gathered(&table, table.rank - 1, &by, &values)) return false;
    memcpy(values.of[0].strides, by.strides, sizeof by.strides);
    for (int i = 0; i + 1 < table.rank; i++) values.of[1].strides[i] = table.strides[i];
    return (n->out[0] < 0 || set_along(l, n->out[0], axis, &values)) &&
           (n->n_out < 2 || n->out[1] < 0 || set_along(l, n->out[1], axis, &indices));
}

bool tw_lower_reduce(tw_lowering *l, const tw_node *n) {
    static const reduction reductions[] = {
        {"ReduceSum", TW_ROWS_sum, TW_CELL_operand, TW_CELL_operand},
        {"ReduceMean", TW_ROWS_mean, TW_CELL_operand, TW_CELL_operand},
        {"ReduceMax", TW_ROWS_max, TW_CELL_operand, TW_CELL_operand},
        {"ReduceMin", TW_ROWS_min, TW_CELL_operand, TW_CELL_operand},
        {"ReduceProd", TW_ROWS_prod, TW_CELL_operand, TW_CELL_operand},
        {"ReduceSumSquare", TW_ROWS_sum, TW_CELL_mul, TW_CELL_operand},
        {"ReduceL1", TW_ROWS_sum, TW_CELL_abs, TW_CELL_operand},
        {"ReduceL2", TW_ROWS_sum, TW_CELL_mul, TW_CELL_sqrt},
        {"ReduceLogSum", TW_ROWS_sum, TW_CELL_operand, TW_CELL_log},
    };
    static const struct {
        const char *op;
        tw_lower_fn *lower;
    } others[] = {{"ReduceLogSumExp", log_sum_exp},
                  {"ArgMax", arg},
                  {"ArgMin", arg},
                  {"Hardmax", hardmax},
                  {"TopK", top_k},
                  {"LpNormalization", lp_norm},
                  {"CumSum", accumulate},
                  {"CumProd", accumulate}};
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        if (tw_is_op(n, "", reductions[i].op)) return reduce(l, n, &reductions[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (tw_is_op(n, "", others[i].op)) return others[i].lower(l, n);
    return false;
}
