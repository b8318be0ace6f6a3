/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/run_program.h"

#include "base/diag.h"
#include "graph/step.h"
#include "kernels/rows/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    const tw_program *p;
    char **at; /* By buffer: where it lies. */
    tw_arena *arena;
    tw_diag *diag;
} run;

static void *place(const run *r, const tw_view *v) {
    return v->buffer < 0 ? NULL : r->at[v->buffer] + v->offset;
}

static double get(const run *r, const tw_view *v, int64_t at) {
    const tw_array a = {.type = v->type, .data = place(r, v)};
    return tw_array_real(&a, at);
}

static void set(const run *r, const tw_view *v, int64_t at, double x) {
    tw_array_set_reals(v->type, place(r, v), at, 1, &x);
}

static double activate(tw_gemm_activation a, double x) {
    switch (a) {
    case TW_GEMM_GELU:
        return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case TW_GEMM_SILU:
        return x / (1 + exp(-x));
    case TW_GEMM_GELU_ERF:
        return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    default:
        return x;
    }
}

typedef struct norm {
    double mean, scale;
} norm;

/* The norm of a row: of sums of parts of operand 5, or of pairs of sums, squares first. */
static norm norm_of(const run *r, const tw_step *s, int64_t i) {
    const tw_program_product *p = &s->of.product;
    const bool layer = p->norm == TW_PROGRAM_NORM_LAYER;
    const int64_t n = p->norm_residual ? p->n : p->k;
    double squares = 0, cells = 0;
    if (p->norm == TW_PROGRAM_NORM_NONE) return (norm){0, 1};
    for (int64_t part = 0; part < tw_program_parts(n); part++) {
        const int64_t at = part * p->m + i;
        squares += get(r, &s->in[5], layer ? 2 * at : at);
        cells += layer ? get(r, &s->in[5], 2 * at + 1) : 0;
    }
    const double mean = cells / (double)n;
    return (norm){mean, 1 / sqrt(squares / (double)n - mean * mean + p->eps)};
}

/* Stores the sums of each row's parts, and nothing of cells if nobody wants it. */
static void store_sums(const run *r, const tw_step *s) {
    enum { PART = 32 };
    const tw_program_product *p = &s->of.product;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t part = 0; part < tw_program_parts(p->n); part++) {
            double squares = 0, cells = 0;
            for (int64_t j = part * PART; j < p->n && j < (part + 1) * PART; j++) {
                const double x = get(r, &s->out[0], i * p->ldc + j);
                squares += x * x;
                cells += x;
            }
            const int64_t at = part * p->m + i;
            set(r, &s->out[1], p->moments ? 2 * at : at, squares);
            if (p->moments) set(r, &s->out[1], 2 * at + 1, cells);
        }
}

/* The sum of a cell of op(A) op(B), whose matrices begin at elements a0 and b0, with the norm of A's row. */
static double sum_of(const run *r, const tw_step *s, int64_t a0, int64_t b0, int64_t i, int64_t j, norm of_row) {
    const tw_program_product *p = &s->of.product;
    const bool normed = p->norm != TW_PROGRAM_NORM_NONE && !p->norm_residual;
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++)
        sum += get(r, &s->in[0], a0 + (p->trans_a ? k * p->lda + i : i * p->lda + k)) *
               get(r, &s->in[1], b0 + (p->trans_b ? j * p->ldb + k : k * p->ldb + j));
    return p->alpha * (normed ? of_row.scale * sum : sum);
}

static void run_product(const run *r, const tw_step *s) {
    enum { TOGETHER = 8 };
    const tw_program_product *p = &s->of.product;
    for (int64_t b = 0; b < p->batch[0] * p->batch[1] * p->batch[2]; b++) {
        const int64_t index[] = {b / p->batch[2] / p->batch[1], b / p->batch[2] % p->batch[1], b % p->batch[2]};
        int64_t a0 = 0, b0 = 0, c0 = 0;
        for (int i = 0; i < TW_PROGRAM_BATCH; i++) {
            a0 += index[i] * p->stride_a[i];
            b0 += index[i] * p->stride_b[i];
            c0 += index[i] * p->stride_c[i];
        }
        for (int64_t i = 0; i < p->m; i++) {
            const norm of_row = norm_of(r, s, i);
            for (int64_t j = 0; j < (p->gated ? p->n / 2 : p->n); j++) {
                const int64_t c = c0 + i * p->ldc + j, gate = j / TOGETHER * 2 * TOGETHER + j % TOGETHER;
                double y = sum_of(r, s, a0, b0, i, p->gated ? gate : j, of_row);
                if (s->in[2].buffer >= 0) y += get(r, &s->in[2], j);
                y = activate(p->activation, y);
                if (p->gated) y *= sum_of(r, s, a0, b0, i, gate + TOGETHER, of_row);
                if (s->in[3].buffer >= 0) y *= get(r, &s->in[3], c);
                if (s->in[4].buffer >= 0 && p->norm_residual)
                    y += (get(r, &s->in[4], c) - of_row.mean) * of_row.scale * get(r, &s->in[6], j);
                else if (s->in[4].buffer >= 0)
                    y += get(r, &s->in[4], c);
                set(r, &s->out[0], c, y);
            }
        }
    }
    if (s->n_out > 1) store_sums(r, s);
}

static double mask_at(const run *r, const tw_step *s, const int64_t at[4]) {
    const tw_view *m = &s->in[3];
    if (s->of.attention.causal && at[3] > at[2] + s->of.attention.keys - s->of.attention.queries) return -INFINITY;
    if (m->buffer < 0) return 0;
    int64_t place_of = 0;
    for (int i = 0; i < 4; i++) place_of += at[i] * m->strides[i];
    const double x = get(r, m, place_of);
    return m->type == TW_E_bool ? (x != 0 ? 0 : -INFINITY) : x;
}

static void run_attention(const run *r, const tw_step *s) {
    const tw_program_attention *p = &s->of.attention;
    const tw_view *q = &s->in[0], *k = &s->in[1], *v = &s->in[2], *y = &s->out[0];
    double *w = tw_arena_array(r->arena, (size_t)p->keys, sizeof *w);
    for (int64_t row = 0; row < p->batch * p->heads * p->queries; row++) {
        int64_t at[] = {row / p->queries / p->heads, row / p->queries % p->heads, row % p->queries, 0};
        const int64_t kv = at[1] / (p->heads / p->kv_heads);
        double most = -INFINITY, sum = 0;
        for (at[3] = 0; at[3] < p->keys; at[3]++) {
            double dot = 0;
            for (int64_t e = 0; e < p->head; e++)
                dot +=
                    get(r, q,
                        at[0] * q->strides[0] + at[1] * q->strides[1] + at[2] * q->strides[2] + e * q->strides[3]) *
                    get(r, k, at[0] * k->strides[0] + kv * k->strides[1] + at[3] * k->strides[2] + e * k->strides[3]);
            dot *= p->scale;
            if (p->cap > 0) dot = p->cap * tanh(dot / p->cap);
            w[at[3]] = dot + mask_at(r, s, at);
            most = fmax(most, w[at[3]]);
        }
        for (int64_t j = 0; j < p->keys; j++) sum += w[j] = exp(w[j] - most);
        for (int64_t e = 0; e < p->head_v; e++) {
            double x = 0;
            for (int64_t j = 0; j < p->keys; j++)
                x += w[j] / sum *
                     get(r, v, at[0] * v->strides[0] + kv * v->strides[1] + j * v->strides[2] + e * v->strides[3]);
            set(r, y, at[0] * y->strides[0] + at[1] * y->strides[1] + at[2] * y->strides[2] + e * y->strides[3], x);
        }
    }
}

static void run_points(const run *r, const tw_step *s) {
    tw_point_data d = {.out = place(r, &s->out[0])};
    const bool rows = s->kind == TW_STEP_ROWS;
    const tw_points *x = rows ? &s->of.rows->x : &s->of.map->x;
    int at = x->n_operands;
    for (int i = 0; i < x->n_operands; i++) d.operands[i] = place(r, &s->in[i]);
    if (rows && s->of.rows->has_gain) d.gain = place(r, &s->in[at++]);
    if (rows && s->of.rows->has_bias) d.bias = place(r, &s->in[at++]);
    if (rows && s->of.rows->has_kept) d.kept = place(r, &s->out[1]);
    if (rows)
        tw_rows_run(s->of.rows, &d, 0, tw_points_rows(x));
    else
        tw_map_run(s->of.map, &d, 0, tw_points_rows(x));
}

static tw_status check_points(const tw_step *s, tw_diag *diag) {
    if (s->kind == TW_STEP_ROWS) return tw_rows_check(s->of.rows, diag);
    return s->kind == TW_STEP_MAP ? tw_map_check(s->of.map, diag) : TW_OK;
}

static tw_status run_plain(const run *r, const tw_step *s) {
    const tw_graph *g = r->p->graph;
    const tw_node *n = s->of.node;
    tw_array *values = calloc((size_t)g->n_values + 1, sizeof *values);
    tw_call *c = NULL;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0) {
            const tw_view *v = &s->in[i];
            tw_array a = {.type = v->type, .rank = v->rank, .data = place(r, v)};
            memcpy(a.dims, v->dims, sizeof a.dims);
            values[n->in[i]] = a;
        }
    tw_status st = tw_step_begin(&c, n, values, r->arena, r->diag);
    if (st == TW_OK) st = tw_step_compute(c, INT64_MAX);
    for (int i = 0; i < n->n_out && st == TW_OK; i++) {
        if (n->out[i] >= 0 && s->out[i].buffer >= 0 && tw_array_bytes(&c->out[i]) > 0)
            memcpy(place(r, &s->out[i]), c->out[i].data, (size_t)tw_array_bytes(&c->out[i]));
        free((void *)c->out[i].data);
    }
    free(values);
    return st;
}

tw_status run_program(const tw_program *p, const tw_array *const *in, tw_arena *arena, tw_array *out, tw_diag *diag) {
    char *scratch = tw_arena_alloc(arena, (size_t)p->scratch_bytes + 1);
    const run r = {p, tw_arena_array(arena, (size_t)p->n_buffers + 1, sizeof(char *)), arena, diag};
    memset(scratch, 0xff, (size_t)p->scratch_bytes);
    for (int i = 0; i < p->n_buffers; i++) {
        const tw_program_buffer *b = &p->buffers[i];
        const void *content = b->kind == TW_PROGRAM_CONSTANT ? b->content
                              : b->kind == TW_PROGRAM_INPUT  ? in[b->number]->data
                                                             : NULL;
        r.at[i] = b->kind == TW_PROGRAM_SCRATCH ? scratch + (b->offset < 0 ? 0 : b->offset)
                                                : tw_arena_alloc(arena, (size_t)b->bytes + 1);
        /* Files have contents anywhere, and steps read them where elements are aligned. */
        if (content) memcpy(r.at[i], content, (size_t)b->bytes);
        if (b->kind == TW_PROGRAM_OUTPUT) memset(r.at[i], 0xff, (size_t)b->bytes);
    }
    tw_status st = TW_OK;
    for (int i = 0; i < p->n_steps && st == TW_OK; i++) {
        const tw_step *s = &p->steps[i];
        st = check_points(s, diag);
        if (st != TW_OK) break;
        if (s->kind == TW_STEP_PRODUCT) run_product(&r, s);
        if (s->kind == TW_STEP_ATTENTION) run_attention(&r, s);
        if (s->kind == TW_STEP_MAP || s->kind == TW_STEP_ROWS) run_points(&r, s);
        if (s->kind == TW_STEP_PLAIN) st = run_plain(&r, s);
    }
    for (int i = 0; i < p->n_outputs && st == TW_OK; i++) {
        const tw_value *v = &p->graph->values[p->graph->outputs[i]];
        out[i] = (tw_array){.type = v->type, .rank = v->rank, .data = r.at[p->outputs[i]]};
        memcpy(out[i].dims, v->dims, sizeof out[i].dims);
    }
    return st;
}
