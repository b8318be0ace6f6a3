/* SPDX-License-Identifier: Apache-2.0 */
/* Template: maps and rows, compiled once for each VARIANT that is defined before it. */
#include "kernels/cpu/pointwise_blocks.h"
#include "kernels/cpu/pointwise_choice.h"
#include "kernels/cpu/variants.h"

/* -- maps */

static void store_block(const tw_points *p, const tw_point_operand *o, int place, void *base, const segment *s,
                        int n_segments, const void *values) {
    const int64_t step = tw_points_step(p, o);
    const size_t each = class_bytes(tw_memory_class(o->type));
    for (int k = 0; k < n_segments; k++)
        store_run(o->type, (char *)base + (s[k].place[place] + s[k].column * step) * tw_memory_bytes(o->type), step,
                  s[k].n, (const char *)values + (size_t)s[k].from * each);
}

/* The walk of an array whose operands come first. */
static walk walk_of(const tw_points *p) {
    walk w = {.p = p, .n = p->n_operands};
    for (int i = 0; i < p->n_operands; i++) w.of[i] = &p->operands[i];
    return w;
}

/* Joined dimensions keep the order of elements. */
void VARIANT(tw_map_run)(const tw_map_problem *problem, const tw_point_data *data, int64_t from, int64_t to) {
    const int64_t columns = tw_points_columns(&problem->x);
    tw_map_problem q = *problem;
    tw_point_operand *others[] = {&q.out};
    program g;
    choice by_rows;
    segment s[SEGMENTS];
    int64_t left = (to - from) * columns;
    if (left <= 0) return;
    tw_points_join(&q.x, others, 1, true);
    const bool copies = find_choice(&by_rows, &q, data);
    if (!copies && !program_make(&g, &q.x, data)) {
        tw_map_run(problem, data, from, to);
        return;
    }
    walk w = walk_of(&q.x);
    const int out = w.n;
    w.of[w.n++] = &q.out;
    const int64_t joined = tw_points_columns(&q.x), step = tw_points_step(&q.x, &q.out);
    walk_begin(&w, from * columns / joined, from * columns % joined);
    while (left > 0) {
        int n;
        const int n_segments = walk_take(&w, left, s, &n);
        left -= n;
        for (int k = 0; k < n_segments && copies; k++) choose(&by_rows, &s[k], s[k].place[out]);
        if (copies) continue;
        const bool direct = n_segments == 1 && is_block(&q.out, step);
        void *there = (char *)data->out + (s->place[out] + s->column * step) * tw_memory_bytes(q.out.type);
        const void *values = program_run(&g, s, n_segments, n, direct ? there : NULL);
        if (values != there) store_block(&q.x, &q.out, out, data->out, s, n_segments, values);
    }
}

/* -- rows */

enum { ROW = 8192 /* Elements of a row whose values are kept. Of a longer one every pass computes them anew. */ };

typedef struct row {
    const tw_rows_problem *p; /* Joined. */
    const tw_point_data *data;
    program *g;
    segment at; /* Of the row's first element. */
    int64_t n;
    const float *x; /* The row's values. NULL: they are not kept. */
    float *room;    /* For ROW elements. */
} row;

/* The values of a row from a column on, of which there are n. */
static const float *values_of(row *r, int64_t column, int n, float *to) {
    if (r->x) return r->x + column;
    segment s = r->at;
    s.from = 0;
    s.n = n;
    s.column = column;
    return program_run(r->g, &s, 1, n, to);
}

/* Computes a row once, unless it lies in memory as it is. */
static void keep(row *r) {
    float *to = r->room;
    const tw_cell *c = &r->p->x.cells.of[r->p->x.cells.value];
    r->x = NULL;
    if (r->n > ROW) return;
    if (c->op == TW_CELL_operand &&
        is_block(&r->p->x.operands[c->of[0]], tw_points_step(&r->p->x, &r->p->x.operands[c->of[0]]))) {
        r->x = (const float *)r->data->operands[c->of[0]] + r->at.place[c->of[0]];
        return;
    }
    for (int64_t i = 0; i < r->n; i += BLOCK) {
        const int n = (int)(r->n - i < BLOCK ? r->n - i : BLOCK);
        const float *x = values_of(r, i, n, to + i);
        if (x != to + i) memcpy(to + i, x, (size_t)n * sizeof *to);
    }
    r->x = to;
}

/* Sums of blocks are floats, and those of a row doubles. */
static float sum_block(const float *x, int n) {
    float sum = 0;
    _Pragma("omp simd reduction(+ : sum)") for (int i = 0; i < n; i++) sum += x[i];
    return sum;
}

static float squares_block(const float *x, int n, float mean) {
    float sum = 0;
    _Pragma("omp simd reduction(+ : sum)") for (int i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

static double product_block(const float *x, int n) {
    double product = 1;
    for (int i = 0; i < n; i++) product *= (double)x[i];
    return product;
}

static float exponentials_block(const float *x, int n, float most) {
    float sum = 0;
    _Pragma("omp simd reduction(+ : sum)") for (int i = 0; i < n; i++) sum += p_exp(x[i] - most);
    return sum;
}

/* Stores the exponentials as well. */
static float exponentials_to(const float *x, int n, float most, float *y) {
    float sum = 0;
    _Pragma("omp simd reduction(+ : sum)") for (int i = 0; i < n; i++) {
        const float e = p_exp(x[i] - most);
        y[i] = e;
        sum += e;
    }
    return sum;
}

static float largest_block(const float *x, int n, bool *has_nan) {
    float most = -INFINITY;
    int nan = 0;
    _Pragma("omp simd reduction(max : most) reduction(| : nan)") for (int i = 0; i < n; i++) {
        most = x[i] > most ? x[i] : most;
        nan |= x[i] != x[i];
    }
    *has_nan = *has_nan || nan;
    return most;
}

static float least_block(const float *x, int n, bool *has_nan) {
    float least = INFINITY;
    int nan = 0;
    _Pragma("omp simd reduction(min : least) reduction(| : nan)") for (int i = 0; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        nan |= x[i] != x[i];
    }
    *has_nan = *has_nan || nan;
    return least;
}

typedef enum measure { SUM, SQUARES, EXPONENTIALS, LARGEST, LEAST, PRODUCT } measure;

static double measure_row(row *r, measure of, float centre) {
    float buffer[BLOCK];
    double total = of == LARGEST ? -(double)INFINITY : of == LEAST ? (double)INFINITY : of == PRODUCT;
    bool nan = false;
    for (int64_t i = 0; i < r->n; i += BLOCK) {
        const int n = (int)(r->n - i < BLOCK ? r->n - i : BLOCK);
        const float *x = values_of(r, i, n, buffer);
        double part;
        switch (of) {
        case SUM:
            total += (double)sum_block(x, n);
            break;
        case SQUARES:
            total += (double)squares_block(x, n, centre);
            break;
        case EXPONENTIALS:
            total += (double)exponentials_block(x, n, centre);
            break;
        case PRODUCT:
            total *= product_block(x, n);
            break;
        case LARGEST:
            part = (double)largest_block(x, n, &nan);
            total = part > total ? part : total;
            break;
        default:
            part = (double)least_block(x, n, &nan);
            total = part < total ? part : total;
        }
    }
    return nan && tw_rows_reduces(r->p->of) ? (double)NAN : total;
}

/* (x - centre) * scale, or what it is of softmaxes. */
static void finish_block(tw_rows_of of, const float *x, int n, float centre, float scale, float *y) {
    if (of == TW_ROWS_softmax)
        _Pragma("omp simd") for (int i = 0; i < n; i++) y[i] = p_exp(x[i] - centre) * scale;
    else if (of == TW_ROWS_log_softmax)
        _Pragma("omp simd") for (int i = 0; i < n; i++) y[i] = x[i] - centre - scale;
    else
        _Pragma("omp simd") for (int i = 0; i < n; i++) y[i] = (x[i] - centre) * scale;
}

/* Elements of gain or bias from a column on. */
static const float *parameters(const row *r, const tw_point_operand *o, const void *data, int place, int64_t column,
                               int n, float *to) {
    const int64_t step = tw_points_step(&r->p->x, o), at = r->at.place[place] + column * step;
    if (is_block(o, step)) return (const float *)data + at;
    load_run(o->type, element(o, data, at), step, n, to);
    return to;
}

/* Places in a walk, behind the operands. */
enum { OUT, KEPT, GAIN, BIAS };

/* Where a block of results is computed: in memory itself, if that holds floats next to one another. */
static float *room_of(const row *r, const tw_point_operand *o, int place, void *base, int64_t column,
                      float *otherwise) {
    const bool direct = is_block(o, tw_points_step(&r->p->x, o));
    return direct ? (float *)base + r->at.place[r->p->x.n_operands + place] + column : otherwise;
}

static void store_part(const row *r, const tw_point_operand *o, int place, void *base, int64_t column, int n,
                       const float *values) {
    const int64_t step = tw_points_step(&r->p->x, o);
    const int64_t at = r->at.place[r->p->x.n_operands + place] + column * step;
    char *to = (char *)base + at * tw_memory_bytes(o->type);
    if (to != (const char *)values) store_run(o->type, to, step, n, values);
}

static void scale_block(const float *x, int n, float centre, float scale, const float *gain, const float *bias,
                        float *y) {
    _Pragma("omp simd") for (int i = 0; i < n; i++) y[i] = (x[i] - centre) * scale * gain[i] + bias[i];
}

static void finish_row(row *r, float centre, float scale) {
    const tw_rows_problem *p = r->p;
    const int first = p->x.n_operands;
    float values[BLOCK], own[BLOCK], gains[BLOCK], biases[BLOCK];
    for (int64_t i = 0; i < r->n; i += BLOCK) {
        const int n = (int)(r->n - i < BLOCK ? r->n - i : BLOCK);
        const float *x = values_of(r, i, n, values);
        if (p->has_kept) store_part(r, &p->kept, KEPT, r->data->kept, i, n, x);
        if (tw_rows_reduces(p->of)) continue;
        float *y = room_of(r, &p->out, OUT, r->data->out, i, own);
        const float *gain = p->has_gain ? parameters(r, &p->gain, r->data->gain, first + GAIN, i, n, gains) : NULL;
        const float *bias = p->has_bias ? parameters(r, &p->bias, r->data->bias, first + BIAS, i, n, biases) : NULL;
        if (gain && bias)
            scale_block(x, n, centre, scale, gain, bias, y);
        else
            finish_block(p->of, x, n, centre, scale, y);
        if (gain && !bias) _Pragma("omp simd") for (int k = 0; k < n; k++) y[k] *= gain[k];
        if (bias && !gain) _Pragma("omp simd") for (int k = 0; k < n; k++) y[k] += bias[k];
        store_part(r, &p->out, OUT, r->data->out, i, n, y);
    }
}

/* A softmax whose exponentials are computed once. */
static void softmax_row(row *r) {
    const tw_rows_problem *p = r->p;
    const float most = (float)measure_row(r, LARGEST, 0);
    double sum = 0;
    for (int64_t i = 0; i < r->n; i += BLOCK) {
        const int n = (int)(r->n - i < BLOCK ? r->n - i : BLOCK);
        if (p->has_kept) store_part(r, &p->kept, KEPT, r->data->kept, i, n, r->x + i);
        sum += (double)exponentials_to(r->x + i, n, most, r->room + i);
    }
    const float scale = (float)(1 / sum);
    for (int64_t i = 0; i < r->n; i += BLOCK) {
        const int n = (int)(r->n - i < BLOCK ? r->n - i : BLOCK);
        float *y = room_of(r, &p->out, OUT, r->data->out, i, r->room + i);
        _Pragma("omp simd") for (int k = 0; k < n; k++) y[k] = r->room[i + k] * scale;
        store_part(r, &p->out, OUT, r->data->out, i, n, y);
    }
}

static void reduce_row(row *r) {
    const tw_rows_of of = r->p->of;
    const measure by = of == TW_ROWS_max ? LARGEST : of == TW_ROWS_min ? LEAST : of == TW_ROWS_prod ? PRODUCT : SUM;
    const double total = measure_row(r, by, 0);
    const double y = of == TW_ROWS_mean ? total / (double)r->n : total;
    if (r->p->has_kept) finish_row(r, 0, 0);
    tw_memory_write(r->p->out.type, r->data->out, r->at.place[r->p->x.n_operands + OUT], (tw_cell_value){.real = y});
}

static void compute_row(row *r) {
    const tw_rows_of of = r->p->of;
    if (tw_rows_reduces(of)) {
        reduce_row(r);
    } else if (of == TW_ROWS_softmax && r->x) {
        softmax_row(r);
    } else if (of <= TW_ROWS_rms_norm) {
        const double mean = of == TW_ROWS_layer_norm ? measure_row(r, SUM, 0) / (double)r->n : 0;
        const double variance = measure_row(r, SQUARES, (float)mean) / (double)r->n;
        finish_row(r, (float)mean, (float)(1 / sqrt(variance + (double)r->p->eps)));
    } else {
        const float most = (float)measure_row(r, LARGEST, 0);
        const double sum = measure_row(r, EXPONENTIALS, most);
        finish_row(r, most, (float)(of == TW_ROWS_softmax ? 1 / sum : log(sum)));
    }
}

void VARIANT(tw_rows_run)(const tw_rows_problem *problem, const tw_point_data *data, int64_t from, int64_t to) {
    tw_rows_problem q = *problem;
    tw_point_operand *others[] = {&q.out, &q.kept, &q.gain, &q.bias};
    program g;
    _Alignas(64) float values[ROW];
    if (from >= to) return;
    if (tw_rows_reduces(q.of)) q.out.strides[q.x.rank - 1] = 0;
    tw_points_join(&q.x, others, 4, false);
    if (!program_make(&g, &q.x, data)) {
        tw_rows_run(problem, data, from, to);
        return;
    }
    walk w = walk_of(&q.x);
    for (int i = 0; i < 4; i++) w.of[w.n++] = others[i];
    row r = {.p = &q, .data = data, .g = &g, .n = tw_points_columns(&q.x), .room = values};
    walk_begin(&w, from, 0);
    for (int64_t i = from; i < to; i++) {
        r.at = w.at;
        keep(&r);
        compute_row(&r);
        walk_next_row(&w);
    }
}
