/* SPDX-License-Identifier: Apache-2.0 */
/* Maps, rows, and nodes that are computed plainly. */
#include "base/dtype.h"
#include "graph/step.h"
#include "kernels/rows/rows.h"
#include "vm/network/cpu_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float one(tw_element type, const void *data, int64_t at) {
    float x;
    uint16_t bits;
    switch (type) {
    case TW_E_f32:
        memcpy(&x, (const char *)data + 4 * at, sizeof x);
        return x;
    case TW_E_f16:
    case TW_E_bf16:
        memcpy(&bits, (const char *)data + 2 * at, sizeof bits);
        tw_to_f32(type == TW_E_f16 ? TW_F16 : TW_BF16, &bits, &x, 1);
        return x;
    default:
        return ((const unsigned char *)data)[at] ? 0 : -INFINITY;
    }
}

void tw_cpu_read(tw_element type, const void *data, int64_t at, int64_t stride, int64_t count, float *out) {
    if (stride == 1 && type == TW_E_f32)
        memcpy(out, (const char *)data + 4 * at, (size_t)count * sizeof *out);
    else if (stride == 1 && (type == TW_E_f16 || type == TW_E_bf16))
        tw_to_f32(type == TW_E_f16 ? TW_F16 : TW_BF16, (const char *)data + 2 * at, out, (size_t)count);
    else
        for (int64_t i = 0; i < count; i++) out[i] = one(type, data, at + i * stride);
}

void tw_cpu_write(tw_element type, void *data, int64_t at, int64_t count, const float *x) {
    uint16_t *out = (uint16_t *)data + at;
    if (type == TW_E_f32)
        memcpy((char *)data + 4 * at, x, (size_t)count * sizeof *x);
    else
        for (int64_t i = 0; i < count; i++) out[i] = type == TW_E_f16 ? tw_f32_to_f16(x[i]) : tw_f32_to_bf16(x[i]);
}

/* The rows of a task, which follow each other: axes behind one of which it has a part are whole. */
static void rows_of(const tw_points *x, const tw_range_step *s, const tw_range_task *t, int64_t *from, int64_t *to) {
    int64_t units = 1, first = 0, count = 1;
    for (int a = 0; a < s->n_axes; a++) {
        units *= s->units[a];
        first = first * s->units[a] + t->from[a];
        count *= t->to[a] - t->from[a];
    }
    const int64_t of_unit = tw_points_rows(x) / units;
    *from = first * of_unit;
    *to = (first + count) * of_unit;
}

static void run_points(const tw_cpu_network *n, const tw_cpu_step *s, const tw_range_task *t) {
    const tw_step *of = s->of;
    const bool map = of->kind == TW_STEP_MAP;
    const tw_points *x = map ? &of->of.map->x : &of->of.rows->x;
    tw_point_data data = {.out = n->base[of->out[0].buffer] + of->out[0].offset};
    int64_t from, to;
    int i = 0;
    for (; i < x->n_operands; i++) data.operands[i] = tw_cpu_at(n, &of->in[i]);
    if (!map) {
        if (of->of.rows->has_gain) data.gain = tw_cpu_at(n, &of->in[i++]);
        if (of->of.rows->has_bias) data.bias = tw_cpu_at(n, &of->in[i++]);
        if (of->of.rows->has_kept) data.kept = n->base[of->out[1].buffer] + of->out[1].offset;
    }
    rows_of(x, &n->ranges->steps[t->step], t, &from, &to);
    if (map)
        n->k.map(of->of.map, &data, from, to);
    else
        n->k.rows(of->of.rows, &data, from, to);
}

/* ---- a node */

static tw_array array_of(const tw_cpu_network *n, const tw_view *v) {
    tw_array a = {.type = v->type, .rank = v->rank, .data = tw_cpu_at(n, v)};
    memcpy(a.dims, v->dims, sizeof a.dims);
    return a;
}

static tw_status run_plain(const tw_cpu_network *n, const tw_step *s, tw_diag *diag) {
    const tw_node *node = s->of.node;
    tw_arena arena = {0};
    tw_array *values = tw_arena_array(&arena, (size_t)n->p->graph->n_values + 1, sizeof *values);
    tw_call *c = NULL;
    if (!values) return tw_fail_memory(diag);
    for (int i = 0; i < s->n_in; i++)
        if (s->in[i].buffer >= 0) values[node->in[i]] = array_of(n, &s->in[i]);
    tw_status st = tw_step_begin(&c, node, values, &arena, diag);
    if (st == TW_OK) st = tw_step_compute(c, INT64_MAX);
    for (int i = 0; i < node->n_out && c && st == TW_OK; i++) {
        const int64_t bytes = tw_array_bytes(&c->out[i]);
        if (i < s->n_out && s->out[i].buffer >= 0 && bytes > 0)
            memcpy(n->base[s->out[i].buffer] + s->out[i].offset, c->out[i].data, (size_t)bytes);
        free((void *)c->out[i].data);
    }
    tw_arena_free(&arena);
    return st;
}

tw_status tw_cpu_other(const tw_cpu_network *n, const tw_cpu_step *s, const tw_range_task *t, tw_diag *diag) {
    if (s->of->kind == TW_STEP_PLAIN) return run_plain(n, s->of, diag);
    run_points(n, s, t);
    return TW_OK;
}
