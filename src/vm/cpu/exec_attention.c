/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, and the merging of its parts. */
#include "vm/cpu/exec.h"

#include <math.h>
#include <string.h>

/* Computes the part of the visible past that split `i` of `n` covers. It is the same for all heads. */
static void split_range(const tw_vm_step *step, int64_t window, int64_t i, int64_t n, int64_t *first, int64_t *last) {
    int64_t end = step->pos + step->n, start = window && step->pos + 1 > window ? step->pos + 1 - window : 0;
    *first = start + (end - start) * i / n;
    *last = start + (end - start) * (i + 1) / n;
}

void tw_exec_attend(tw_vm_thread *thread, const tw_exec *e) {
    const tw_vm *vm = thread->vm;
    const int64_t *p = e->in->param;
    const tw_buffer *qs = tw_exec_shape(thread, e, TW_ATTEND_Q), *ks = tw_exec_shape(thread, e, TW_ATTEND_K);
    int64_t heads = qs->shape[1], d = qs->shape[2], head_stride = ks->shape[1] * d, per = heads / ks->shape[0];
    int64_t r0 = p[TW_ATTEND_ROW_FROM], r1 = p[TW_ATTEND_ROW_TO], splits = p[TW_ATTEND_SPLITS];
    if (r1 > vm->step.n) r1 = vm->step.n;
    if (r0 >= r1) return;
    tw_scratch scratch = {thread->scratch};
    tw_attention a = {.ldq = heads * d,
                      .dim = d,
                      .pos = vm->step.pos + r0,
                      .n = r1 - r0,
                      .scale = vm->m->attn_scale,
                      .cap = vm->m->attn_cap};
    a.terms = tw_vm_terms(vm, TW_BF16);
    a.window = p[TW_ATTEND_WINDOW];
    split_range(&vm->step, a.window, p[TW_ATTEND_SPLIT], splits, &a.first, &a.last);
    float *sums = tw_scratch_take(&scratch, (size_t)(2 * a.n) * 4);
    a.scratch = scratch.at;
    for (int64_t h = p[TW_ATTEND_HEAD_FROM]; h < p[TW_ATTEND_HEAD_TO]; h++) {
        a.q = (const float *)e->buffer[TW_ATTEND_Q] + (r0 * heads + h) * d;
        a.k = (const float *)e->buffer[TW_ATTEND_K] + h / per * head_stride;
        a.v = (const float *)e->buffer[TW_ATTEND_V] + h / per * head_stride;
        if (splits == 1) {
            a.ldo = heads * d;
            a.out = (float *)e->buffer[TW_ATTEND_OUT] + (r0 * heads + h) * d;
            vm->k.attention(&a);
            continue;
        }
        int64_t slots = heads * splits, slot = h * splits + p[TW_ATTEND_SPLIT];
        a.ldo = slots * (d + 2);
        a.out = (float *)e->buffer[TW_ATTEND_PART] + (r0 * slots + slot) * (d + 2);
        a.partial = sums;
        vm->k.attention(&a);
        for (int64_t t = 0; t < a.n; t++) memcpy(a.out + t * a.ldo + d, &sums[2 * t], 2 * sizeof *sums);
    }
}

void tw_exec_merge(tw_vm_thread *thread, const tw_exec *e) {
    const int64_t *p = e->in->param;
    const tw_buffer *part = tw_exec_shape(thread, e, TW_MERGE_PART);
    int64_t slots = part->shape[1], width = part->shape[2], d = width - 2, splits = p[TW_MERGE_SPLITS],
            heads = slots / splits;
    for (int64_t t = 0; t < thread->vm->step.n; t++)
        for (int64_t h = p[TW_MERGE_HEAD_FROM]; h < p[TW_MERGE_HEAD_TO]; h++) {
            const float *in = (const float *)e->buffer[TW_MERGE_PART] + (t * slots + h * splits) * width;
            float *out = (float *)e->buffer[TW_MERGE_OUT] + (t * heads + h) * d, max = -INFINITY, sum = 0;
            for (int64_t i = 0; i < splits; i++) max = fmaxf(max, in[i * width + d]);
            memset(out, 0, (size_t)d * sizeof *out);
            for (int64_t i = 0; i < splits; i++) {
                const float *one = in + i * width;
                if (!(one[d + 1] > 0)) continue; /* The split has no positions. */
                float w = expf(one[d] - max);
                sum += w * one[d + 1];
                thread->vm->k.axpy(out, one, w, d);
            }
            for (int64_t i = 0; i < d; i++) out[i] /= sum;
        }
}

size_t tw_exec_attend_scratch(const tw_vm *vm, const tw_schedule *s, const tw_exec *e) {
    const tw_buffer *q = &s->buffers[e->in->operand[TW_ATTEND_Q]];
    int64_t n = e->in->param[TW_ATTEND_ROW_TO] - e->in->param[TW_ATTEND_ROW_FROM];
    return tw_lines((size_t)(2 * n) * 4) + tw_lines(vm->k.attention_scratch(q->shape[2], n, s->max_seq));
}
