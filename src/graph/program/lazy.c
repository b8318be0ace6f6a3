/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays whose elements are expressions of strided sources. */
#include "graph/program/lower.h"

bool tw_memory_of(tw_element t, tw_memory_type *out) {
    return tw_memory_from_name(tw_element_name(t), out);
}

tw_lazy tw_lazy_begin(tw_element type, int rank, const int64_t *dims) {
    tw_lazy x = {.type = type, .rank = rank};
    if (rank) memcpy(x.dims, dims, (size_t)rank * sizeof *dims);
    return x;
}

tw_lazy tw_lazy_of_view(const tw_view *v) {
    tw_lazy x = tw_lazy_begin(v->type, v->rank, v->dims);
    x.n = 1;
    x.of[0] = (tw_source){.buffer = v->buffer, .offset = v->offset, .type = v->type, .by = -1};
    memcpy(x.of[0].strides, v->strides, sizeof v->strides);
    return x;
}

tw_view tw_lazy_view(const tw_lazy *x) {
    const tw_source *s = &x->of[0];
    tw_view v = {.buffer = s->buffer, .offset = s->offset, .type = s->type, .rank = x->rank};
    memcpy(v.dims, x->dims, sizeof v.dims);
    memcpy(v.strides, s->strides, sizeof v.strides);
    return v;
}

/* Strides along the dimensions of an array that x is broadcast to. */
static void broadcast(const tw_lazy *x, const int64_t *strides, const tw_lazy *to, int64_t *out) {
    const int more = to->rank - x->rank;
    for (int i = 0; i < to->rank; i++)
        out[i] = i < more || (x->dims[i - more] == 1 && to->dims[i] != 1) ? 0 : strides[i - more];
}

static bool same_source(const tw_lazy *x, const tw_source *a, const tw_source *b) {
    if (a->buffer != b->buffer || a->offset != b->offset || a->type != b->type || a->by != b->by) return false;
    if (a->by >= 0 && (a->gather_stride != b->gather_stride || a->table.dims[0] != b->table.dims[0])) return false;
    for (int i = 0; i < x->rank; i++)
        if (x->dims[i] != 1 && a->strides[i] != b->strides[i]) return false;
    return true;
}

/* Adds a source unless it is there. -1: there is no room. */
static int add_source(tw_lazy *to, const tw_source *s) {
    for (int i = 0; i < to->n; i++)
        if (same_source(to, &to->of[i], s)) return i;
    if (to->n == TW_POINT_OPERANDS) return -1;
    to->of[to->n] = *s;
    return to->n++;
}

/* Adds x's sources. numbers[] becomes what they are called in `to`. */
static bool add_sources(tw_lazy *to, const tw_lazy *x, int numbers[TW_POINT_OPERANDS]) {
    for (int pass = 0; pass < 2; pass++) /* What is gathered by others comes behind them. */
        for (int i = 0; i < x->n; i++) {
            tw_source s = x->of[i];
            if ((s.by >= 0) != pass) continue;
            memset(s.strides, 0, sizeof s.strides);
            broadcast(x, x->of[i].strides, to, s.strides);
            if (s.by >= 0) s.by = numbers[s.by];
            numbers[i] = add_source(to, &s);
            if (numbers[i] < 0) return false;
        }
    return true;
}

static int copy_cell(tw_cells *to, const tw_cell *c, const int *cells, const int *numbers, const tw_lazy *x) {
    tw_memory_type type;
    switch (c->op) {
    case TW_CELL_operand:
        return tw_memory_of(x->of[c->of[0]].type, &type) ? tw_cells_operand(to, numbers[c->of[0]], type) : -1;
    case TW_CELL_index:
        return -1;
    case TW_CELL_number:
        return tw_cells_constant(to, c);
    default:
        return tw_cells_apply(to, (tw_cell_op)c->op, cells[c->of[0]], cells[c->of[1]], cells[c->of[2]]);
    }
}

bool tw_lazy_open(tw_lazy *x) {
    tw_memory_type type;
    if (!tw_lazy_is_view(x)) return true;
    return tw_memory_of(x->type, &type) && tw_cells_operand(&x->cells, 0, type) >= 0;
}

bool tw_lazy_has_doubles(const tw_lazy *x) {
    return tw_lazy_is_view(x) ? x->type == TW_E_f64 : tw_cells_class(&x->cells) == TW_CLASS_double;
}

int tw_lazy_add(tw_lazy *to, const tw_lazy *x) {
    tw_lazy opened = *x;
    int numbers[TW_POINT_OPERANDS], cells[TW_CELLS] = {0};
    if (!tw_lazy_open(&opened) || !add_sources(to, &opened, numbers)) return -1;
    for (int i = 0; i < opened.cells.n; i++) {
        cells[i] = copy_cell(&to->cells, &opened.cells.of[i], cells, numbers, &opened);
        if (cells[i] < 0) return -1;
    }
    return to->cells.failed ? -1 : cells[opened.cells.value];
}

/* Converts u64 to a real. Numbers from 2^63 on are halved, converted as i64, and doubled. The bit that halving drops is
   kept in the lowest bit, so that the result is rounded once. */
static int real_of_u64(tw_cells *c, int x, tw_class want) {
    const tw_cell_op to = want == TW_CLASS_double ? TW_CELL_double : TW_CELL_real;
    const int one = tw_cells_integer(c, 1), high = tw_cells_apply(c, TW_CELL_shr, x, one, -1);
    const int half = tw_cells_apply(c, TW_CELL_bit_or, high, tw_cells_apply(c, TW_CELL_bit_and, x, one, -1), -1);
    const int real = tw_cells_apply(c, to, half, -1, -1);
    const int large = tw_cells_apply(c, TW_CELL_less, x, tw_cells_integer(c, 0), -1);
    const int twice = tw_cells_apply(c, TW_CELL_mul, real, tw_cells_number(c, want, 2), -1);
    return tw_cells_apply(c, TW_CELL_where, large, twice, tw_cells_apply(c, to, x, -1, -1));
}

/* Converts a real to u64. Reals from 2^63 on are converted less 2^63, and get the highest bit. Reals from 2^64 on have
   that bit alone. */
static int u64_of_real(tw_cells *c, int x) {
    const tw_class have = (tw_class)c->of[x].class;
    const int none = tw_cells_integer(c, 0), bit = tw_cells_integer(c, INT64_MIN),
              end = tw_cells_number(c, have, 0x1p63);
    const int low = tw_cells_apply(c, TW_CELL_integer, x, -1, -1);
    const int rest = tw_cells_apply(c, TW_CELL_integer, tw_cells_apply(c, TW_CELL_sub, x, end, -1), -1, -1);
    const int within = tw_cells_apply(c, TW_CELL_less, x, tw_cells_number(c, have, 0x1p64), -1);
    const int high = tw_cells_apply(c, TW_CELL_bit_or, tw_cells_apply(c, TW_CELL_where, within, rest, none), bit, -1);
    return tw_cells_apply(c, TW_CELL_where, tw_cells_apply(c, TW_CELL_less, x, end, -1), low, high);
}

int tw_lazy_cast(tw_lazy *x, int cell, tw_element from, tw_element to) {
    static const tw_cell_op ops[] = {[TW_CLASS_real] = TW_CELL_real,
                                     [TW_CLASS_double] = TW_CELL_double,
                                     [TW_CLASS_integer] = TW_CELL_integer,
                                     [TW_CLASS_truth] = TW_CELL_truth};
    tw_cells *c = &x->cells;
    tw_memory_type type;
    if (cell < 0 || !tw_memory_of(to, &type)) return -1;
    const tw_class have = (tw_class)c->of[cell].class, want = tw_memory_class(type);
    if (from == TW_E_u64 && have == TW_CLASS_integer && tw_class_is_real(want)) return real_of_u64(c, cell, want);
    if (to == TW_E_u64 && tw_class_is_real(have)) return u64_of_real(c, cell);
    return tw_cells_apply(c, ops[want], cell, -1, -1);
}

bool tw_reshape_strides(int rank, const int64_t *dims, const int64_t *strides, int new_rank, const int64_t *new_dims,
                        int64_t *new_strides) {
    int i = 0, j = 0;
    while (i < rank || j < new_rank) {
        /* The least runs of dimensions, i to i2 and j to j2, that have as many elements. */
        int i2 = i, j2 = j;
        int64_t have = 1, want = 1;
        if (i2 < rank) have = dims[i2++];
        if (j2 < new_rank) want = new_dims[j2++];
        while (have != want)
            if (have < want && i2 < rank)
                have *= dims[i2++];
            else if (want < have && j2 < new_rank)
                want *= new_dims[j2++];
            else
                return false;
        int64_t stride = 0, extent = 1; /* Of the innermost dimension, and elements that are walked with it. */
        for (int d = i2 - 1; d >= i; d--) {
            if (dims[d] == 1) continue;
            if (extent == 1)
                stride = strides[d];
            else if (strides[d] != stride * extent)
                return false;
            extent *= dims[d];
        }
        int64_t step = stride;
        for (int d = j2 - 1; d >= j; d--) {
            new_strides[d] = step;
            step *= new_dims[d];
        }
        i = i2;
        j = j2;
    }
    return true;
}

bool tw_lazy_reshape(tw_lazy *x, int rank, const int64_t *dims) {
    int64_t strides[TW_POINT_OPERANDS][TW_ARRAY_RANK] = {{0}};
    for (int i = 0; i < x->n; i++)
        if (!tw_reshape_strides(x->rank, x->dims, x->of[i].strides, rank, dims, strides[i])) return false;
    for (int i = 0; i < x->n; i++) memcpy(x->of[i].strides, strides[i], sizeof strides[i]);
    x->rank = rank;
    memset(x->dims, 0, sizeof x->dims);
    if (rank) memcpy(x->dims, dims, (size_t)rank * sizeof *dims);
    return true;
}

void tw_lazy_transpose(tw_lazy *x, const int *order) {
    const tw_lazy before = *x;
    for (int i = 0; i < x->rank; i++) {
        x->dims[i] = before.dims[order[i]];
        for (int s = 0; s < x->n; s++) x->of[s].strides[i] = before.of[s].strides[order[i]];
    }
}

void tw_lazy_slice(tw_lazy *x, int axis, int64_t start, int64_t step, int64_t count) {
    for (int s = 0; s < x->n; s++) {
        x->of[s].offset += count ? start * x->of[s].strides[axis] * (tw_element_bits(x->of[s].type) / 8) : 0;
        x->of[s].strides[axis] *= step;
    }
    x->dims[axis] = count;
}

void tw_lazy_expand(tw_lazy *x, int rank, const int64_t *dims) {
    tw_lazy to = *x;
    to.rank = rank;
    memcpy(to.dims, dims, (size_t)rank * sizeof *dims);
    for (int s = 0; s < x->n; s++) broadcast(x, x->of[s].strides, &to, to.of[s].strides);
    *x = to;
}

int tw_collapse(int rank, int64_t *dims, int64_t *const *strides, int n, int keep) {
    int out = 0;
    for (int i = 0; i < rank; i++) {
        if (dims[i] == 1 && i < keep) continue;
        bool joins = out > 0 && i < keep;
        for (int s = 0; s < n && joins; s++) joins = strides[s][out - 1] == strides[s][i] * dims[i];
        const int64_t extent = joins ? dims[out - 1] * dims[i] : dims[i];
        if (joins) out--;
        for (int s = 0; s < n; s++) strides[s][out] = strides[s][i];
        dims[out++] = extent;
    }
    for (int i = out; i < rank; i++) {
        dims[i] = 0;
        for (int s = 0; s < n; s++) strides[s][i] = 0;
    }
    return out;
}
