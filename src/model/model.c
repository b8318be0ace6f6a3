/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"
#include "base/file.h"
#include "model/parts.h"

#include <stdlib.h>

void tw_model_close(tw_model *m) {
    if (!m) return;
    for (int i = 0; i < m->n_maps; i++) tw_map_close(&m->maps[i]);
    tw_arena_free(&m->arena);
    free(m);
}

const tw_rope *tw_model_rope(const tw_model *m, int64_t layer) {
    const tw_rope *of = m->layers[layer].rope == TW_LAYER_ROPE         ? &m->rope
                        : m->layers[layer].rope == TW_LAYER_ROPE_LOCAL ? &m->rope_local
                                                                       : NULL;
    return of && of->kind != TW_ROPE_NONE ? of : NULL;
}

static int64_t matrix_bytes(const tw_weight *w) {
    return w->rows * w->cols * (int64_t)(tw_dtype_bits(w->dtype) / 8);
}

static int64_t layer_bytes(const tw_model *m, const tw_layer *l) {
    int64_t n = matrix_bytes(&l->q.weight) + matrix_bytes(&l->k.weight) + matrix_bytes(&l->v.weight) +
                matrix_bytes(&l->o.weight) + matrix_bytes(&l->gate.weight) + matrix_bytes(&l->up.weight) +
                matrix_bytes(&l->down.weight) + matrix_bytes(&l->router);
    const tw_expert *e = l->experts;
    if (e)
        n += m->n_experts_used *
             (matrix_bytes(&e->gate.weight) + matrix_bytes(&e->up.weight) + matrix_bytes(&e->down.weight));
    return n;
}

void tw_model_describe(const tw_model *m, tw_model_info *info) {
    *info = (tw_model_info){
        .family = m->family,
        .name = m->name,
        .dtype = m->layers[0].q.weight.dtype,
        .layers = m->n_layers,
        .dim = m->dim,
        .heads = m->n_heads,
        .kv_heads = m->n_kv_heads,
        .head_dim = m->head_dim,
        .vocab = m->vocab,
        .max_seq = m->max_seq,
        .experts = m->n_experts,
        .parameters = m->parameters,
        .weight_bytes = m->weight_bytes,
        .streamed_bytes = matrix_bytes(&m->head.weight),
    };
    for (int64_t i = 0; i < m->n_layers; i++) info->streamed_bytes += layer_bytes(m, &m->layers[i]);
}

typedef struct count {
    int64_t found;
    const char *first;
} count;

static bool count_in(void *context, const tw_weight *w) {
    count *c = context;
    if (!w->data) return true;
    /* Along the contiguous direction, so that a transposed matrix is read as fast as another. */
    bool across = w->row_stride == 1 && w->col_stride != 1;
    tw_weight line = *w;
    if (across) {
        line.rows = w->cols;
        line.cols = w->rows;
        line.row_stride = w->col_stride;
        line.col_stride = w->row_stride;
    }
    float buf[1024];
    for (int64_t r = 0; r < line.rows; r++)
        for (int64_t at = 0; at < line.cols; at += 1024) {
            int64_t n = line.cols - at < 1024 ? line.cols - at : 1024, bad = 0;
            tw_weight_read(&line, r, at, n, buf);
            for (int64_t i = 0; i < n; i++) bad += (tw_f32_bits(buf[i]) & 0x7f800000u) == 0x7f800000u;
            if (bad && !c->found) c->first = w->name;
            c->found += bad;
        }
    return true;
}

int64_t tw_model_count_nonfinite(const tw_model *m, const char **first) {
    count c = {0, NULL};
    tw_model_each(m, count_in, &c);
    if (first) *first = c.first;
    return c.found;
}
