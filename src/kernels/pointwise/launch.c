/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/pointwise/launch.h"

#include "kernels/pointwise/shape.h"

#include <string.h>

void tw_point_buffers_inputs(tw_point_buffers *all, const tw_points *p) {
    static const char *const names[TW_POINT_OPERANDS] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"};
    const unsigned used = tw_points_used(p);
    for (int i = 0; i < p->n_operands; i++)
        if (used >> i & 1) tw_point_buffers_add(all, names[i], &p->operands[i], false, false);
}

void tw_point_buffers_add(tw_point_buffers *all, const char *name, const tw_point_operand *o, bool written, bool row) {
    all->of[all->n++] = (tw_point_buffer){name, o, written, row};
}

tw_point_operand tw_point_buffer_operand(const tw_point_buffer *f, const tw_points *p) {
    tw_point_operand o = *f->o;
    if (f->row && p->rank) o.strides[p->rank - 1] = 0;
    return o;
}

static tw_point_span span_of(const tw_point_buffer *f, const tw_points *p) {
    const tw_point_operand o = tw_point_buffer_operand(f, p);
    return tw_point_span_of(p, &o);
}

void tw_point_buffers_plan(const tw_point_buffers *all, const tw_points *p, const int *align, tw_plan *out) {
    for (int i = 0; i < all->n; i++) {
        const tw_point_buffer *f = &all->of[i];
        const size_t elements = (size_t)(span_of(f, p).most + 1);
        out->buffers[out->n_buffers++] = (tw_gpu_buffer){.name = f->name,
                                                         .bytes = elements * (size_t)tw_memory_bytes(f->o->type),
                                                         .align = align[i],
                                                         .written = f->written};
        tw_argument_buffer(&out->launch.arguments, f->name, 0);
    }
}

tw_status tw_point_buffers_forward(const tw_point_buffers *all, const tw_points *p, tw_diag *diag) {
    for (int i = 0; i < all->n; i++)
        if (span_of(&all->of[i], p).least < 0)
            return tw_fail(diag, TW_ERR_USAGE,
                           "%s: a buffer begins with the element of all indices 0; this one goes back",
                           all->of[i].name);
    return TW_OK;
}
