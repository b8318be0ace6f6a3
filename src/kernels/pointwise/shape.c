/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/pointwise/shape.h"

#include <string.h>

/* Whether the expression uses the index along a dimension. */
static bool indexed(const tw_points *p, int d) {
    for (int i = 0; i < p->cells.n; i++)
        if (p->cells.of[i].op == TW_CELL_index && p->cells.of[i].of[0] == d) return true;
    return false;
}

static bool even(const tw_points *p, const tw_point_operand *o, int d) {
    return o->strides[d] == o->strides[d + 1] * p->dims[d + 1];
}

static bool joins(const tw_points *p, tw_point_operand *const *others, int n, int d) {
    bool all = !indexed(p, d) && !indexed(p, d + 1);
    for (int i = 0; i < p->n_operands; i++) all = all && even(p, &p->operands[i], d);
    for (int i = 0; i < n; i++) all = all && even(p, others[i], d);
    return all;
}

static void shift(const tw_points *p, tw_point_operand *o, int d) {
    memmove(&o->strides[d], &o->strides[d + 1], sizeof *o->strides * (size_t)(p->rank - d - 1));
    o->strides[p->rank - 1] = 0;
}

/* Takes dimension d away, of which only index 0 is left. */
static void drop(tw_points *p, tw_point_operand *const *others, int n, int d) {
    for (int i = 0; i < p->n_operands; i++) shift(p, &p->operands[i], d);
    for (int i = 0; i < n; i++) shift(p, others[i], d);
    memmove(&p->dims[d], &p->dims[d + 1], sizeof *p->dims * (size_t)(p->rank - d - 1));
    p->rank--;
    for (int i = 0; i < p->cells.n; i++) {
        tw_cell *c = &p->cells.of[i];
        if (c->op != TW_CELL_index || c->of[0] < d) continue;
        if (c->of[0] > d)
            c->of[0]--;
        else
            *c = (tw_cell){.op = TW_CELL_number, .class = TW_CLASS_integer};
    }
}

void tw_points_join(tw_points *p, tw_point_operand *const *others, int n, bool columns) {
    if (!p->rank) {
        p->dims[p->rank++] = 1;
        for (int i = 0; i < p->n_operands; i++) p->operands[i].strides[0] = 0;
        for (int i = 0; i < n; i++) others[i]->strides[0] = 0;
    }
    for (int d = p->rank - 1 - !columns; d >= 0 && p->rank > 1; d--)
        if (p->dims[d] == 1) drop(p, others, n, d);
    for (int d = p->rank - 2 - !columns; d >= 0; d--) {
        if (!joins(p, others, n, d)) continue;
        p->dims[d + 1] *= p->dims[d];
        drop(p, others, n, d);
    }
}

unsigned tw_points_used(const tw_points *p) {
    bool needed[TW_CELLS] = {0};
    unsigned used = 0;
    needed[p->cells.value] = true;
    for (int i = p->cells.value; i >= 0; i--) {
        const tw_cell *c = &p->cells.of[i];
        if (!needed[i]) continue;
        if (c->op == TW_CELL_operand) used |= 1u << c->of[0];
        if (c->op <= TW_CELL_number) continue;
        const int n = (int)strlen(tw_cell_classes((tw_cell_op)c->op)) - 1;
        for (int k = 0; k < n; k++) needed[c->of[k]] = true;
    }
    for (int i = 0; i < p->n_operands; i++)
        if (used >> i & 1 && p->operands[i].gathers) used |= 1u << p->operands[i].by;
    return used;
}

tw_point_span tw_point_span_of(const tw_points *p, const tw_point_operand *o) {
    tw_point_span s = {0, 0};
    for (int d = 0; d < p->rank; d++) {
        const int64_t far = o->strides[d] * (p->dims[d] - 1);
        s.least += far < 0 ? far : 0;
        s.most += far > 0 ? far : 0;
    }
    if (!o->gathers || o->gather_extent < 1) return s;
    const int64_t far = o->gather_stride * (o->gather_extent - 1);
    s.least += far < 0 ? far : 0;
    s.most += far > 0 ? far : 0;
    return s;
}
