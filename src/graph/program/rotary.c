/* SPDX-License-Identifier: Apache-2.0 */
/* Rotations of heads: a map, which reads the other element of each pair backwards. Those of an attention's queries and
   keys wait for it, so that what lies side by side is rotated at once, and keys come to lie as far apart as values. */
#include "graph/program/lower.h"

typedef struct rotation {
    int64_t heads; /* Heads of a row. 0: heads are a dimension of the array. */
    int64_t half;  /* Pairs of a head. */
    bool interleaved;
    int cosine, sine, places; /* Values. places -1: angles are those of each row. */
} rotation;

/* Elements from a row of values to the next, which a GPU's keys have, too. 0: values are copied to where keys say, or
   may lie anywhere. -1: values are still an expression. */
static int64_t row_of_values(tw_lowering *l, const tw_node *to) {
    const tw_lazy *values = to->n_in > 2 ? tw_lower_peek(l, to->in[2]) : NULL;
    if (!l->options.gpu) return 0;
    if (!values || !tw_lazy_is_view(values) || values->rank < 3) return -1;
    const tw_view v = tw_lazy_view(values);
    if (v.rank == 4) return tw_heads_fit(&v) ? v.strides[2] : 0;
    /* Where rows of other sequences lie between those of one, keys would get room for them, too. */
    return v.dims[0] == 1 || v.strides[0] == v.dims[1] * v.strides[1] ? v.strides[1] : 0;
}

/* Numbers the heads of rows. */
static tw_view heads_of(const tw_view *rows, int64_t heads, int64_t head) {
    static const int by_rows[] = {0, 2, 1, 3};
    const int64_t dims[] = {rows->dims[0], rows->dims[1], heads, head};
    tw_lazy turned = tw_lazy_of_view(rows);
    tw_lazy_reshape(&turned, 4, dims); /* Heads are neighbours in a row. */
    tw_lazy_transpose(&turned, by_rows);
    return tw_lazy_view(&turned);
}

/* New rows for heads, `row` elements apart, or as close as may be. */
static tw_view rows_for(tw_lowering *l, const char *name, const tw_view *x, int64_t row) {
    const int64_t own = x->dims[1] * x->dims[3], dims[] = {x->dims[0], x->dims[2], row > own ? row : own};
    tw_view rows = tw_lower_scratch(l, name, x->type, 3, dims, NULL);
    rows.dims[2] = own;
    return heads_of(&rows, x->dims[1], x->dims[3]);
}

/* Splits the last dimension into pairs: [..][which of the pair][pair], or the other way round. */
static tw_view pairs_of(const tw_view *x, const rotation *r) {
    tw_view v = *x;
    const int64_t s = x->strides[3];
    v.rank = 5;
    v.dims[3] = r->interleaved ? r->half : 2;
    v.dims[4] = r->interleaved ? 2 : r->half;
    v.strides[3] = r->interleaved ? 2 * s : r->half * s;
    v.strides[4] = s;
    return v;
}

/* The angles' cosines or sines of a row, for each pair. */
static bool angles(tw_lowering *l, int value, const rotation *r, const tw_view *x, tw_lazy *out) {
    tw_view table, by;
    const int pair = r->interleaved ? 3 : 4;
    tw_memory_type type;
    if (!tw_lower_in_memory(l, value, &table) || !tw_memory_of(table.type, &type)) return false;
    *out = tw_lazy_begin(table.type, 5, x->dims);
    if (r->places < 0) {
        out->n = 1;
        out->of[0] = (tw_source){.buffer = table.buffer, .offset = table.offset, .type = table.type, .by = -1};
        /* One table may serve all sequences. */
        out->of[0].strides[0] = table.dims[0] == 1 ? 0 : table.strides[0];
        out->of[0].strides[2] = table.dims[1] == 1 ? 0 : table.strides[1];
        out->of[0].strides[pair] = table.strides[2];
        return true;
    }
    if (!tw_lower_in_memory(l, r->places, &by)) return false;
    out->n = 2;
    out->of[0] = (tw_source){.buffer = by.buffer, .offset = by.offset, .type = by.type, .by = -1};
    out->of[0].strides[0] = by.strides[0];
    out->of[0].strides[2] = by.strides[1];
    out->of[1] = (tw_source){.buffer = table.buffer,
                             .offset = table.offset,
                             .type = table.type,
                             .by = 0,
                             .gather_stride = table.strides[0],
                             .table = table};
    out->of[1].strides[pair] = table.strides[1];
    return tw_cells_operand(&out->cells, 1, type) >= 0;
}

/* x * cosine + (the other of the pair) * sine, which is negative for the first of a pair. */
static bool rotate(tw_lowering *l, const rotation *r, const tw_view *from, const tw_view *to) {
    static const float signs[] = {-1, 1};
    const tw_view x = pairs_of(from, r), out = pairs_of(to, r);
    const int which = r->interleaved ? 4 : 3;
    tw_view other = x, sign = {.type = TW_E_f32, .rank = 5};
    tw_lazy y = tw_lazy_begin(to->type, 5, x.dims), cosine, sine;
    other.offset += other.strides[which] * (tw_element_bits(x.type) / 8);
    other.strides[which] = -other.strides[which];
    sign.buffer = tw_lower_constant(l, "signs", signs, sizeof signs);
    memcpy(sign.dims, x.dims, sizeof sign.dims);
    sign.strides[which] = 1;
    if (l->failed || !angles(l, r->cosine, r, &x, &cosine) || !angles(l, r->sine, r, &x, &sine)) return false;
    const tw_lazy parts[] = {tw_lazy_of_view(&x), tw_lazy_of_view(&other), tw_lazy_of_view(&sign)};
    const tw_lazy *const all[] = {&parts[0], &cosine, &parts[1], &sine, &parts[2]};
    int cells[5];
    for (int i = 0; i < 5; i++)
        if ((cells[i] = tw_lazy_add(&y, all[i])) < 0) return false;
    tw_cells *c = &y.cells;
    /* The sine and its sign are the same for all heads. */
    const int own = tw_cells_apply(c, TW_CELL_mul, cells[0], cells[1], -1),
              sine_of = tw_cells_apply(c, TW_CELL_mul, cells[3], cells[4], -1),
              turned = tw_cells_apply(c, TW_CELL_mul, cells[2], sine_of, -1);
    y.cells.value = tw_cells_apply(c, TW_CELL_add, own, turned, -1);
    return !c->failed && tw_lower_store(l, &y, &out);
}

/* A part of the elements of all heads. */
static tw_view part_of(const tw_view *v, int64_t from, int64_t count) {
    tw_lazy x = tw_lazy_of_view(v);
    tw_lazy_slice(&x, 3, from, 1, count);
    return tw_lazy_view(&x);
}

/* Rotates heads, and copies what is behind the rotated elements. */
static bool turn(tw_lowering *l, const rotation *r, const tw_view *x, const tw_view *to) {
    const int64_t turned = 2 * r->half, rest = x->dims[3] - turned;
    const tw_view from = part_of(x, 0, turned), from_to = part_of(to, 0, turned);
    if (l->failed || !rotate(l, r, &from, &from_to)) return false;
    if (!rest) return true;
    const tw_view left = part_of(x, turned, rest), left_to = part_of(to, turned, rest);
    const tw_lazy still = tw_lazy_of_view(&left);
    return tw_lower_store(l, &still, &left_to);
}

/* Lets a node's result be heads that lie in rows. */
static void set_heads(tw_lowering *l, const tw_node *n, const tw_view *heads) {
    tw_view v = *heads;
    if (tw_lower_of(l, n->out[0])->rank == 3) {
        v.rank = 3;
        v.dims[1] = heads->dims[2];
        v.strides[1] = heads->strides[2];
        v.dims[2] = heads->dims[1] * heads->dims[3];
        v.strides[2] = heads->strides[3];
    }
    tw_lower_set_view(l, n->out[0], &v);
}

/* Lowers one rotation. `row`: elements from a row of the result to the next, at least. */
static bool turn_one(tw_lowering *l, const tw_node *n, const rotation *r, int64_t row) {
    const int out = n->out[0];
    tw_view x, to = l->targets[out];
    if (!tw_lower_heads(l, n->in[0], r->heads, &x)) return false;
    if (to.buffer < 0) to = rows_for(l, tw_lower_of(l, out)->name, &x, row);
    if (to.rank == 3) to = heads_of(&to, x.dims[1], x.dims[3]);
    if (!turn(l, r, &x, &to)) return false;
    set_heads(l, n, &to);
    return true;
}

/* Puts the heads of two views beside one another. False: they do not lie so. */
static bool beside(const tw_view *x, const tw_view *y, tw_view *both) {
    *both = *x;
    both->dims[1] += y->dims[1];
    bool fits = x->buffer == y->buffer && x->type == y->type && x->dims[0] == y->dims[0];
    for (int i = 0; i < 4; i++) fits = fits && (x->strides[i] == y->strides[i] || x->dims[i] == 1);
    for (int i = 2; i < 4; i++) fits = fits && x->dims[i] == y->dims[i];
    return fits && y->offset - x->offset == x->dims[1] * x->strides[1] * (tw_element_bits(x->type) / 8);
}

/* Lowers the rotations of queries and keys as one, where they lie beside one another. False: they do not. */
static bool turn_both(tw_lowering *l, const tw_node *const n[2], const rotation r[2], int64_t row, bool *done) {
    tw_view x[2], both;
    if (r[0].half != r[1].half || r[0].interleaved != r[1].interleaved || r[0].cosine != r[1].cosine ||
        r[0].sine != r[1].sine || r[0].places != r[1].places)
        return false;
    for (int i = 0; i < 2; i++)
        if (!tw_lower_heads(l, n[i]->in[0], r[i].heads, &x[i])) return false;
    if (!beside(&x[0], &x[1], &both)) return false;
    /* Rows lie as far apart as those of values. Both queries and keys must fit in between. */
    if (row && row < both.dims[1] * both.dims[3]) return false;
    const tw_view to = rows_for(l, tw_lower_of(l, n[0]->out[0])->name, &both, row);
    *done = turn(l, &r[0], &both, &to);
    for (int i = 0; i < 2; i++) {
        tw_lazy part = tw_lazy_of_view(&to);
        tw_lazy_slice(&part, 1, i ? x[0].dims[1] : 0, 1, x[i].dims[1]);
        const tw_view heads = tw_lazy_view(&part);
        set_heads(l, n[i], &heads);
    }
    return true;
}

/* Reads what a node rotates. False: it rotates nothing that a map does. */
static bool read_rotation(const tw_lowering *l, const tw_node *n, rotation *r) {
    const bool own = tw_is_op(n, "com.microsoft", "RotaryEmbedding");
    tw_memory_type type;
    *r = (rotation){.interleaved = tw_node_integer(n, "interleaved", 0), .places = -1};
    if ((!own && !tw_is_op(n, "", "RotaryEmbedding")) || n->n_in < 3 || (own && n->n_in < 4)) return false;
    r->cosine = n->in[own ? 2 : 1];
    r->sine = n->in[own ? 3 : 2];
    if (own || n->n_in > 3) r->places = n->in[own ? 1 : 3];
    const tw_value *cosine = tw_lower_of(l, r->cosine), *in = tw_lower_of(l, n->in[0]);
    /* One position is that of the first row. */
    if (own && tw_lower_of(l, r->places)->rank != 2) return false;
    r->half = cosine->dims[cosine->rank - 1];
    r->heads = in->rank == 4 ? 0 : tw_node_integer(n, "num_heads", 0);
    if (own && in->rank == 3 && !r->heads) r->heads = in->dims[2] / (2 * r->half);
    if (in->rank == 3 && (r->heads < 1 || in->dims[2] % r->heads)) return false;
    const int64_t head = in->rank == 4 ? in->dims[3] : in->rank == 3 ? in->dims[2] / r->heads : 0;
    return 2 * r->half <= head && tw_memory_of(in->type, &type) && tw_memory_of(cosine->type, &type) &&
           tw_memory_of(tw_lower_of(l, r->sine)->type, &type);
}

/* The attention that alone reads a node's result, as queries or keys. NULL: there is none. */
static const tw_node *attention_of(const tw_lowering *l, const tw_node *n) {
    const int out = n->out[0], consumer = l->consumers[out];
    const tw_node *to = consumer < 0 || l->uses[out] != 1 ? NULL : &l->g->nodes[consumer];
    if (!to || !tw_is_op(to, "", "Attention") || l->targets[out].buffer >= 0) return NULL;
    return to->in[0] == out || to->in[1] == out ? to : NULL;
}

bool tw_lower_rotations(tw_lowering *l, const tw_node *to) {
    const tw_node *n[2];
    rotation r[2];
    int found = 0;
    bool done = true;
    for (int i = 0; i < 2 && i < to->n_in; i++) {
        const int node = to->in[i] < 0 ? -1 : tw_lower_of(l, to->in[i])->producer;
        if (node < 0 || l->values[to->in[i]] || !read_rotation(l, &l->g->nodes[node], &r[found])) continue;
        n[found++] = &l->g->nodes[node];
    }
    const int before = l->node;
    const int64_t row = found ? row_of_values(l, to) : 0;
    if (found) l->node = (int)(n[0] - l->g->nodes);
    if (found < 2 || !turn_both(l, n, r, row, &done))
        for (int i = 0; i < found && done; i++) {
            l->node = (int)(n[i] - l->g->nodes);
            done = turn_one(l, n[i], &r[i], n[i]->out[0] == to->in[1] ? row : 0);
        }
    l->node = before;
    return done;
}

bool tw_lower_rotary(tw_lowering *l, const tw_node *n) {
    rotation r;
    if (!read_rotation(l, n, &r)) return false;
    return attention_of(l, n) || turn_one(l, n, &r, 0);
}
