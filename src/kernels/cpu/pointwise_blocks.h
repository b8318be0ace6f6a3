/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of blocks: elements that follow each other, of one row or of several short ones. */
#ifndef TW_KERNELS_CPU_POINTWISE_BLOCKS_H
#define TW_KERNELS_CPU_POINTWISE_BLOCKS_H

#include "kernels/cpu/pointwise_memory.h"
#include "kernels/cpu/pointwise_ops.h"
#include "kernels/pointwise/shape.h"

#include <string.h>

enum {
    BLOCK = 512,
    SLOTS = 20,    /* Blocks of values that are there at the same time, at most. */
    SEGMENTS = 32, /* Rows of a block at most. */
    PLACES = TW_POINT_OPERANDS + 4
};

/* Neighbouring elements of one row. */
typedef struct segment {
    int from, n;                  /* Where they are in the block. */
    int64_t column;               /* Of the first of them. */
    int64_t index[TW_POINT_RANK]; /* Of all dimensions but the last. */
    int64_t place[PLACES];        /* Of the row's first element, in elements, for each operand of the walk. */
} segment;

/* Goes through rows from some element on. */
typedef struct walk {
    const tw_points *p;
    const tw_point_operand *of[PLACES];
    int n;
    segment at; /* The next element. `from` and `n` are unused. */
} walk;

static void walk_begin(walk *w, int64_t row, int64_t column) {
    for (int d = w->p->rank - 2; d >= 0; d--) {
        w->at.index[d] = row % w->p->dims[d];
        row /= w->p->dims[d];
    }
    for (int k = 0; k < w->n; k++) {
        w->at.place[k] = 0;
        for (int d = 0; d + 1 < w->p->rank; d++) w->at.place[k] += w->at.index[d] * w->of[k]->strides[d];
    }
    w->at.column = column;
}

static void walk_next_row(walk *w) {
    w->at.column = 0;
    for (int d = w->p->rank - 2; d >= 0; d--) {
        const bool wraps = ++w->at.index[d] == w->p->dims[d];
        const int64_t by = wraps ? 1 - w->p->dims[d] : 1;
        for (int k = 0; k < w->n; k++) w->at.place[k] += by * w->of[k]->strides[d];
        if (!wraps) return;
        w->at.index[d] = 0;
    }
}

/* Takes up to `most` elements. Returns the number of segments; *n gets that of elements. */
static int walk_take(walk *w, int64_t most, segment *s, int *n) {
    const int64_t columns = tw_points_columns(w->p);
    int count = 0;
    *n = 0;
    if (most > BLOCK) most = BLOCK;
    while (count < SEGMENTS && *n < most) {
        const int64_t left = columns - w->at.column, take = left < most - *n ? left : most - *n;
        s[count] = w->at;
        s[count].from = *n;
        s[count++].n = (int)take;
        *n += (int)take;
        w->at.column += take;
        if (w->at.column == columns) walk_next_row(w);
    }
    return count;
}

typedef union block {
    float real[BLOCK];
    int64_t whole[BLOCK];
    uint8_t truth[BLOCK];
} block;

/* An expression whose cells have functions and slots. */
typedef struct program {
    const tw_points *p;
    const tw_point_data *data;
    unsigned used;
    bool needed[TW_CELLS];
    uint8_t slot[TW_CELLS];
    block_fn *fn[TW_CELLS];
    _Alignas(64) block slots[SLOTS];
} program;

static int operands_of(const tw_cell *c) {
    return c->op <= TW_CELL_number ? 0 : (int)strlen(tw_cell_classes((tw_cell_op)c->op)) - 1;
}

static void fill_number(const tw_cell *c, block *b) {
    for (int i = 0; i < BLOCK; i++) {
        if (c->class == TW_CLASS_real)
            b->real[i] = (float)c->value.real;
        else if (c->class == TW_CLASS_integer)
            b->whole[i] = c->value.whole;
        else
            b->truth[i] = (uint8_t)c->value.whole;
    }
}

/* Gives cells their slots: a slot is free again behind the last cell that needs its value. Numbers keep theirs. False:
   there are not enough, or cells are doubles, which blocks have not. */
static bool program_make(program *g, const tw_points *p, const tw_point_data *data) {
    const tw_cells *e = &p->cells;
    int last[TW_CELLS] = {0};
    if (tw_cells_has_doubles(e)) return false;
    bool taken[SLOTS] = {0};
    g->p = p;
    g->data = data;
    g->used = tw_points_used(p);
    memset(g->needed, 0, sizeof g->needed);
    g->needed[e->value] = true;
    last[e->value] = TW_CELLS;
    for (int i = e->value; i >= 0; i--)
        for (int k = 0; g->needed[i] && k < operands_of(&e->of[i]); k++) {
            const int of = e->of[i].of[k];
            g->needed[of] = true;
            if (last[of] < i) last[of] = i;
        }
    /* Numbers are filled in once, so no other cell may have had their slots. */
    int numbers = 0;
    for (int i = 0; i <= e->value; i++) {
        if (!g->needed[i] || e->of[i].op != TW_CELL_number) continue;
        if (numbers == SLOTS) return false;
        fill_number(&e->of[i], &g->slots[numbers]);
        g->slot[i] = (uint8_t)numbers++;
    }
    for (int i = 0; i <= e->value; i++) {
        const tw_cell *c = &e->of[i];
        if (!g->needed[i] || c->op == TW_CELL_number) continue;
        int s = numbers;
        while (s < SLOTS && taken[s]) s++;
        if (s == SLOTS) return false;
        taken[s] = true;
        g->slot[i] = (uint8_t)s;
        if (c->op > TW_CELL_number) g->fn[i] = block_function(c, (tw_class)e->of[c->of[0]].class);
        for (int k = 0; k < operands_of(c); k++)
            if (last[c->of[k]] == i && e->of[c->of[k]].op != TW_CELL_number) taken[g->slot[c->of[k]]] = false;
    }
    return true;
}

static size_t class_bytes(int class) {
    return class == TW_CLASS_real ? sizeof(float) : class == TW_CLASS_integer ? sizeof(int64_t) : sizeof(uint8_t);
}

/* Whether a run of an operand in memory is a block as it is. */
static bool is_block(const tw_point_operand *o, int64_t step) {
    return (o->type == TW_M_f32 || o->type == TW_M_i64 || o->type == TW_M_u64) && step == 1 && !o->gathers;
}

static const char *element(const tw_point_operand *o, const void *base, int64_t at) {
    return (const char *)base + at * tw_memory_bytes(o->type);
}

/* Loads a segment of an operand that gathers. */
static void load_gathered(const program *g, int i, const segment *s, char *to) {
    const tw_point_operand *o = &g->p->operands[i], *by = &g->p->operands[o->by];
    const int64_t step = tw_points_step(g->p, o), by_step = tw_points_step(g->p, by);
    const size_t each = class_bytes(tw_memory_class(o->type));
    const int run = by_step ? 1 : s->n; /* Elements of one gathered place. */
    for (int k = 0; k < s->n; k += run) {
        int64_t which =
            tw_memory_read(by->type, g->data->operands[o->by], s->place[o->by] + (s->column + k) * by_step).whole;
        if (which < 0) which += o->gather_extent;
        const int64_t at = s->place[i] + (s->column + k) * step + which * o->gather_stride;
        if (which >= 0 && which < o->gather_extent)
            load_run(o->type, element(o, g->data->operands[i], at), step, run, to + (size_t)k * each);
        else
            fill_missing(tw_memory_class(o->type), run, to + (size_t)k * each);
    }
}

/* Loads an operand's elements of a block, unless they are one in memory. */
static const void *load(program *g, int i, const segment *s, int n_segments, block *slot) {
    const tw_point_operand *o = &g->p->operands[i];
    const int64_t step = tw_points_step(g->p, o);
    const size_t each = class_bytes(tw_memory_class(o->type));
    if (n_segments == 1 && is_block(o, step)) return element(o, g->data->operands[i], s->place[i] + s->column);
    for (int k = 0; k < n_segments; k++) {
        char *to = (char *)slot + (size_t)s[k].from * each;
        if (o->gathers)
            load_gathered(g, i, &s[k], to);
        else
            load_run(o->type, element(o, g->data->operands[i], s[k].place[i] + s[k].column * step), step, s[k].n, to);
    }
    return slot;
}

static const void *indices(const program *g, int d, const segment *s, int n_segments, block *slot) {
    const bool last = d == g->p->rank - 1;
    for (int k = 0; k < n_segments; k++)
        for (int i = 0; i < s[k].n; i++) slot->whole[s[k].from + i] = last ? s[k].column + i : s[k].index[d];
    return slot;
}

/* Computes the values of a block. The walk's first operands are the expression's. They are written to `to`, unless that
   is NULL or they lie in memory already. Returns where they are. */
static const void *program_run(program *g, const segment *s, int n_segments, int n, void *to) {
    const tw_cells *e = &g->p->cells;
    const void *at[TW_CELLS] = {0};
    for (int i = 0; i <= e->value; i++) {
        const tw_cell *c = &e->of[i];
        if (!g->needed[i]) continue;
        block *slot = &g->slots[g->slot[i]];
        if (c->op == TW_CELL_operand) {
            at[i] = load(g, c->of[0], s, n_segments, slot);
        } else if (c->op == TW_CELL_index) {
            at[i] = indices(g, c->of[0], s, n_segments, slot);
        } else if (c->op == TW_CELL_number) {
            at[i] = slot;
        } else {
            void *out = i == e->value && to ? to : slot;
            const int m = operands_of(c);
            g->fn[i](at[c->of[0]], at[c->of[m > 1]], at[c->of[m > 2 ? 2 : 0]], out, n);
            at[i] = out;
        }
    }
    return at[e->value];
}

#endif
