/* SPDX-License-Identifier: Apache-2.0 */
/* Maps that copy: all elements of a row come from one operand, or are one number, and what decides which is the same
   for all of them. Rows of a cache are such. */
#ifndef TW_KERNELS_CPU_POINTWISE_CHOICE_H
#define TW_KERNELS_CPU_POINTWISE_CHOICE_H

#include "kernels/cpu/pointwise_blocks.h"

typedef struct choice {
    const tw_map_problem *q;
    const tw_point_data *data;
    bool decides[TW_CELLS];     /* Of each cell: what is copied depends on its value. */
    uint8_t operands[TW_CELLS]; /* Of each cell: how many it has. */
} choice;

/* Tells whether a cell's value is the same all along a row. `steady`: of the cells before it. */
static bool is_steady(const choice *c, int at, const bool *steady) {
    const tw_points *p = &c->q->x;
    const tw_cell *cell = &p->cells.of[at];
    if (cell->op == TW_CELL_operand) {
        const tw_point_operand *o = &p->operands[cell->of[0]];
        return !o->gathers && tw_points_step(p, o) == 0;
    }
    if (cell->op == TW_CELL_index) return cell->of[0] != p->rank - 1;
    for (int i = 0; i < c->operands[at]; i++)
        if (!steady[cell->of[i]]) return false;
    return true;
}

/* Tells whether a cell copies rows. `copied`: of the cells before it. */
static bool is_copied(const choice *c, int at, const bool *steady, const bool *copied) {
    const tw_points *p = &c->q->x;
    const tw_cell *cell = &p->cells.of[at];
    if (cell->op == TW_CELL_where) return steady[cell->of[0]] && copied[cell->of[1]] && copied[cell->of[2]];
    if (cell->op != TW_CELL_operand) return cell->op == TW_CELL_number;
    const tw_point_operand *o = &p->operands[cell->of[0]];
    return o->type == c->q->out.type && (!o->gathers || tw_points_step(p, &p->operands[o->by]) == 0);
}

/* Tells whether a map is such. */
static bool find_choice(choice *c, const tw_map_problem *q, const tw_point_data *data) {
    const tw_cells *e = &q->x.cells;
    bool steady[TW_CELLS] = {0}, copied[TW_CELLS] = {0}, chosen[TW_CELLS] = {0};
    *c = (choice){.q = q, .data = data};
    if (e->of[e->value].op != TW_CELL_where || q->out.type == TW_M_bool) return false;
    for (int i = 0; i <= e->value; i++) {
        c->operands[i] = (uint8_t)operands_of(&e->of[i]);
        steady[i] = is_steady(c, i, steady);
        copied[i] = is_copied(c, i, steady, copied);
    }
    if (!copied[e->value]) return false;
    chosen[e->value] = true;
    for (int i = e->value; i >= 0; i--) {
        const uint8_t *of = e->of[i].of;
        if (chosen[i] && e->of[i].op == TW_CELL_where) c->decides[of[0]] = chosen[of[1]] = chosen[of[2]] = true;
        for (int k = 0; c->decides[i] && k < c->operands[i]; k++) c->decides[of[k]] = true;
    }
    return true;
}

/* Computes the cells that decide. Reals are rounded to f32, as those of blocks are. */
static void decide(const choice *c, const segment *s, tw_cell_value *values) {
    const tw_cells *e = &c->q->x.cells;
    for (int at = 0; at < e->value; at++) {
        const tw_cell *cell = &e->of[at];
        const int n = c->operands[at], i = cell->of[0];
        if (!c->decides[at]) continue;
        if (cell->op == TW_CELL_number)
            values[at] = cell->value;
        else if (cell->op == TW_CELL_index)
            values[at].whole = s->index[i];
        else if (cell->op == TW_CELL_operand)
            values[at] = tw_memory_read(c->q->x.operands[i].type, c->data->operands[i], s->place[i]);
        else
            values[at] = tw_cell_apply(cell, (tw_class)e->of[i].class, values[i], values[cell->of[n > 1]],
                                       values[n > 2 ? cell->of[2] : i]);
        if (cell->class == TW_CLASS_real) values[at].real = (double)(float)values[at].real;
    }
}

/* Repeats the first of n elements, which are `step` apart. */
static void repeat(char *to, size_t bytes, int64_t step, int n) {
    if (step == 1)
        for (int done = 1; done < n; done *= 2)
            memcpy(to + (size_t)done * bytes, to, (size_t)(done < n - done ? done : n - done) * bytes);
    else
        for (int64_t i = 1; i < n; i++) memcpy(to + i * step * (int64_t)bytes, to, bytes);
}

/* Where an operand's elements of a segment begin. NULL: they are gathered from no place that there is. */
static const char *source_of(const choice *c, const segment *s, int i) {
    const tw_point_operand *o = &c->q->x.operands[i];
    int64_t at = s->place[i] + s->column * tw_points_step(&c->q->x, o);
    if (o->gathers) {
        const tw_point_operand *by = &c->q->x.operands[o->by];
        int64_t which = tw_memory_read(by->type, c->data->operands[o->by], s->place[o->by]).whole;
        if (which < 0) which += o->gather_extent;
        if (which < 0 || which >= o->gather_extent) return NULL;
        at += which * o->gather_stride;
    }
    return element(o, c->data->operands[i], at);
}

/* Computes a segment, whose place in the result is `at`. */
static void choose(const choice *c, const segment *s, int64_t at) {
    const tw_cells *e = &c->q->x.cells;
    const tw_point_operand *out = &c->q->out;
    const int64_t step = tw_points_step(&c->q->x, out);
    const size_t bytes = (size_t)tw_memory_bytes(out->type);
    char *to = (char *)c->data->out + (at + s->column * step) * (int64_t)bytes;
    tw_cell_value values[TW_CELLS];
    int value = e->value;
    decide(c, s, values);
    while (e->of[value].op == TW_CELL_where) {
        const tw_cell *cell = &e->of[value];
        value = values[cell->of[0]].whole ? cell->of[1] : cell->of[2];
    }
    const bool number = e->of[value].op == TW_CELL_number;
    const char *from = number ? NULL : source_of(c, s, e->of[value].of[0]);
    const int64_t from_step = number ? 0 : tw_points_step(&c->q->x, &c->q->x.operands[e->of[value].of[0]]);
    if (!from) {
        const bool real = tw_class_is_real(tw_memory_class(out->type));
        const tw_cell_value none = {.whole = 0}, nan = {.real = (double)NAN};
        tw_memory_write(out->type, to, 0, number ? e->of[value].value : real ? nan : none);
        repeat(to, bytes, step, s->n);
    } else if (from_step == 1 && step == 1) {
        if (to != from) memcpy(to, from, (size_t)s->n * bytes); /* A result may replace its operand. */
    } else {
        for (int64_t i = 0; i < s->n && to != from; i++)
            memcpy(to + i * step * (int64_t)bytes, from + i * from_step * (int64_t)bytes, bytes);
    }
}

#endif
