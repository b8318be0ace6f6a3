/* SPDX-License-Identifier: Apache-2.0 */
/* Rotations of heads: a map, which reads the other element of each pair backwards. */
#include "graph/program/lower.h"

typedef struct rotation {
    int64_t half; /* Pairs of a head. */
    bool interleaved;
    int cosine, sine, places; /* Values. places -1: angles are those of each row. */
} rotation;

/* Where the result lies: for keys beside values that are in memory, as far apart as those. */
static tw_view target(tw_lowering *l, const tw_node *n, const tw_view *x) {
    const int out = n->out[0], consumer = l->consumers[out];
    const tw_value *v = tw_lower_of(l, out);
    static const int by_rows[] = {0, 2, 1, 3};
    if (l->targets[out].buffer >= 0) return l->targets[out];
    int64_t row = x->dims[1] * x->dims[3];
    if (l->uses[out] == 1 && consumer >= 0 && tw_is_op(&l->g->nodes[consumer], "", "Attention")) {
        const tw_node *to = &l->g->nodes[consumer];
        const tw_lazy *values = to->in[1] == out && to->n_in > 2 ? tw_lower_peek(l, to->in[2]) : NULL;
        const int64_t ld = values && tw_lazy_is_view(values) && values->rank > 2
                               ? values->of[0].strides[values->rank == 4 ? 2 : 1]
                               : 0;
        if (ld > row && l->options.gpu) row = ld;
    }
    const int64_t dims[] = {x->dims[0], x->dims[2], row};
    tw_view rows = tw_lower_scratch(l, v->name, v->type, 3, dims, NULL);
    rows.dims[2] = x->dims[1] * x->dims[3];
    if (v->rank == 3) return rows;
    const int64_t heads[] = {x->dims[0], x->dims[2], x->dims[1], x->dims[3]};
    tw_lazy turned = tw_lazy_of_view(&rows);
    tw_lazy_reshape(&turned, 4, heads);
    tw_lazy_transpose(&turned, by_rows);
    return tw_lazy_view(&turned);
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
    const int own = tw_cells_apply(c, TW_CELL_mul, cells[0], cells[1], -1);
    const int turned =
        tw_cells_apply(c, TW_CELL_mul, tw_cells_apply(c, TW_CELL_mul, cells[2], cells[3], -1), cells[4], -1);
    y.cells.value = tw_cells_apply(c, TW_CELL_add, own, turned, -1);
    return !c->failed && tw_lower_store(l, &y, &out);
}

/* A part of the elements of all heads. */
static tw_view part_of(const tw_view *v, int64_t from, int64_t count) {
    tw_lazy x = tw_lazy_of_view(v);
    tw_lazy_slice(&x, 3, from, 1, count);
    return tw_lazy_view(&x);
}

bool tw_lower_rotary(tw_lowering *l, const tw_node *n) {
    const bool own = tw_is_op(n, "com.microsoft", "RotaryEmbedding");
    rotation r = {.interleaved = tw_node_integer(n, "interleaved", 0), .places = -1};
    tw_view x;
    if ((!own && !tw_is_op(n, "", "RotaryEmbedding")) || n->n_in < 3 || (own && n->n_in < 4)) return false;
    r.cosine = n->in[own ? 2 : 1];
    r.sine = n->in[own ? 3 : 2];
    if (own || n->n_in > 3) r.places = n->in[own ? 1 : 3];
    const tw_value *cosine = tw_lower_of(l, r.cosine), *in = tw_lower_of(l, n->in[0]);
    /* One position is that of the first row. */
    if (own && tw_lower_of(l, r.places)->rank != 2) return false;
    r.half = cosine->dims[cosine->rank - 1];
    int64_t heads = tw_node_integer(n, "num_heads", 0);
    if (own && in->rank == 3 && !heads) heads = in->dims[2] / (2 * r.half);
    if (in->rank == 4) heads = 0;
    if (!tw_lower_heads(l, n->in[0], heads, &x) || 2 * r.half > x.dims[3]) return false;
    const tw_view stored = target(l, n, &x);
    tw_view to = stored;
    if (l->failed) return false;
    if (stored.rank == 3) {
        static const int by_rows[] = {0, 2, 1, 3};
        const int64_t dims[] = {x.dims[0], x.dims[2], x.dims[1], x.dims[3]};
        tw_lazy turned = tw_lazy_of_view(&stored);
        if (!tw_lazy_reshape(&turned, 4, dims)) return false;
        tw_lazy_transpose(&turned, by_rows);
        to = tw_lazy_view(&turned);
    }
    const tw_view turned = part_of(&x, 0, 2 * r.half), turned_to = part_of(&to, 0, 2 * r.half);
    if (!rotate(l, &r, &turned, &turned_to)) return false;
    if (x.dims[3] > 2 * r.half) {
        const int64_t rest = x.dims[3] - 2 * r.half;
        const tw_view left = part_of(&x, 2 * r.half, rest), left_to = part_of(&to, 2 * r.half, rest);
        const tw_lazy still = tw_lazy_of_view(&left);
        if (!tw_lower_store(l, &still, &left_to)) return false;
    }
    tw_lower_set_view(l, n->out[0], &stored);
    return true;
}
