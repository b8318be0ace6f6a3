/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/program/program.h"

#include "base/divide.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

const char *const tw_step_kind_names[] = {"product", "attention", "map", "rows", "plain"};

tw_program *tw_program_new(const tw_graph *g) {
    tw_program *p = calloc(1, sizeof *p);
    if (p) p->graph = g;
    return p;
}

void tw_program_free(tw_program *p) {
    if (!p) return;
    free(p->buffers);
    free(p->steps);
    tw_program_made_free(&p->made);
    tw_arena_free(&p->arena);
    free(p);
}

int tw_program_add_buffer(tw_program *p, const tw_program_buffer *b) {
    tw_program_buffer *grown =
        p->arena.failed ? NULL : tw_grow(p->buffers, p->n_buffers, &p->room_buffers, 32, sizeof *p->buffers);
    if (!grown) {
        p->arena.failed = true;
        return -1;
    }
    p->buffers = grown;
    p->buffers[p->n_buffers] = *b;
    return p->n_buffers++;
}

static tw_view *copy_views(tw_program *p, const tw_view *views, int n) {
    tw_view *copy = tw_arena_array(&p->arena, (size_t)n, sizeof *copy);
    if (copy && n) memcpy(copy, views, (size_t)n * sizeof *copy);
    return copy;
}

int tw_program_add_step(tw_program *p, const tw_step *s) {
    tw_view *in = copy_views(p, s->in, s->n_in), *out = copy_views(p, s->out, s->n_out);
    tw_step *grown = p->arena.failed ? NULL : tw_grow(p->steps, p->n_steps, &p->room_steps, 32, sizeof *p->steps);
    if (!grown) {
        p->arena.failed = true;
        return -1;
    }
    p->steps = grown;
    p->steps[p->n_steps] = *s;
    p->steps[p->n_steps].in = in;
    p->steps[p->n_steps].out = out;
    return p->n_steps++;
}

int64_t tw_program_parts(int64_t n) {
    enum { LEAST = 32 /* Cells of a part. */, MORE = 8 };
    return tw_ceil_div(n, LEAST) + MORE;
}

tw_view tw_view_dense(int buffer, tw_element type, int rank, const int64_t *dims) {
    tw_view v = {.buffer = buffer, .type = type, .rank = rank};
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        v.dims[i] = dims[i];
        v.strides[i] = stride;
        stride *= dims[i];
    }
    return v;
}

bool tw_view_is_dense(const tw_view *v) {
    int64_t stride = 1;
    for (int i = v->rank - 1; i >= 0; i--) {
        if (v->dims[i] != 1 && v->strides[i] != stride) return false;
        stride *= v->dims[i];
    }
    return true;
}

int64_t tw_view_elements(const tw_view *v) {
    int64_t n = 1;
    for (int i = 0; i < v->rank; i++) n *= v->dims[i];
    return n;
}

void tw_view_span(const tw_view *v, int64_t *from, int64_t *below) {
    const int64_t size = tw_element_bits(v->type) / 8;
    *from = *below = v->offset;
    if (v->buffer < 0 || !tw_view_elements(v)) return;
    for (int i = 0; i < v->rank; i++) {
        const int64_t reach = (v->dims[i] - 1) * v->strides[i] * size;
        *(reach < 0 ? from : below) += reach;
    }
    *below += size;
}
