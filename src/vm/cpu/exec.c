/* SPDX-License-Identifier: Apache-2.0 */
/* Executing the instructions of dense layers. A step has n <= tokens positions; every loop over positions ends at n. */
#include "vm/cpu/exec.h"

#include "base/dtype.h"
#include "vm/cpu/choice.h"

#include <math.h>
#include <string.h>

void tw_exec_norm(const tw_lane *lane, const float *x, const float *w, const float *b, int64_t n, int64_t dim,
                  float *y) {
    const tw_vm *vm = lane->vm;
    static const float none = 0;
    for (int64_t t = 0; t < n; t++, x += dim, y += dim)
        if (vm->m->norm == TW_NORM_RMS)
            vm->k.norm_rms(x, w, vm->m->norm_eps, dim, y);
        else
            vm->k.norm_layer(x, w, b ? b : &none, vm->m->norm_eps, dim, y);
}

void tw_exec_activate(const tw_lane *lane, const float *gate, const float *up, int64_t n, float *y) {
    const tw_kernels *k = &lane->vm->k;
    switch (lane->vm->m->activation) {
    case TW_ACT_SILU:
        if (gate) {
            k->silu_mul(gate, up, n, y);
            return;
        }
        for (int64_t i = 0; i < n; i++) y[i] = up[i] / (1 + expf(-up[i]));
        return;
    case TW_ACT_GELU:
        k->gelu(gate ? gate : up, n, y);
        break;
    case TW_ACT_GELU_TANH:
        k->gelu_tanh(gate ? gate : up, n, y);
        break;
    case TW_ACT_RELU:
        for (int64_t i = 0; i < n; i++) {
            float v = gate ? gate[i] : up[i];
            y[i] = v > 0 ? v : 0;
        }
        break;
    }
    for (int64_t i = 0; gate && i < n; i++) y[i] *= up[i];
}

void tw_exec_product(tw_lane *lane, tw_scratch scratch, const tw_strip *s, int64_t copy, const float *x, int64_t ldx,
                     int64_t n, float *y) {
    const tw_kernels *k = &lane->vm->k;
    const unsigned char *panels = (const unsigned char *)s->panels + (size_t)copy * s->copy_bytes;
    tw_dtype t = s->format.dtype;
    if (n == 1) {
        void *prepared = tw_scratch_take(&scratch, k->prepared_bytes[t](s->format, s->cols));
        k->prepare[t](s->format, x, s->cols, prepared);
        k->gemv[t](s->format, panels, s->n_panels, s->cols, prepared, y);
    } else if (s->choice && !lane->vm->own_only) {
        tw_choice_product(lane, scratch, s, panels, x, ldx, n, y);
    } else {
        void *room = tw_scratch_take(&scratch, k->gemm_scratch[t](s->format, s->n_panels, s->cols, n));
        k->gemm[t](s->format, panels, s->n_panels, s->cols, x, ldx, n, y, tw_strip_width(s), room);
    }
}

size_t tw_exec_product_scratch(const tw_vm *vm, const tw_strip *s, int64_t n) {
    tw_dtype t = s->format.dtype;
    size_t most = tw_lines(vm->k.prepared_bytes[t](s->format, s->cols));
    /* A step may hold fewer positions than it has room for, and fewer may need more: small blocks are packed
     * differently. */
    for (int64_t rows = 2; rows <= n; rows++) {
        size_t one = tw_lines(vm->k.gemm_scratch[t](s->format, s->n_panels, s->cols, rows));
        if (one > most) most = one;
    }
    size_t vendor = vm->choices && n > 1 ? tw_choice_scratch(s) : 0;
    return vendor > most ? vendor : most;
}

static void add_bias(const float *bias, int64_t count, float *y) {
    for (int64_t i = 0; bias && i < count; i++) y[i] += bias[i];
}

static void run_input(tw_lane *lane, const tw_exec *e) {
    tw_vm *vm = lane->vm;
    const tw_rope *rope = &vm->m->rope;
    const tw_vm_step *step = &vm->step;
    memcpy(e->buffer[TW_INPUT_TOKENS], step->tokens, (size_t)step->n * sizeof *step->tokens);
    float *out = e->buffer[TW_INPUT_ROPE];
    if (!out) return;
    int64_t half = rope->dims / 2;
    if (vm->inv_freq_length != step->length && (rope->kind == TW_ROPE_DYNAMIC || !vm->inv_freq_length)) {
        tw_rope_frequencies(rope, step->length, vm->inv_freq);
        for (int64_t i = 0; i < half && vm->options.stored_rope; i++) {
            unsigned char stored[4];
            tw_from_f32(vm->m->embed.dtype, &vm->inv_freq[i], stored, 1);
            tw_to_f32(vm->m->embed.dtype, stored, &vm->inv_freq[i], 1);
        }
        vm->inv_freq_length = step->length;
    }
    for (int64_t t = 0; t < step->n; t++, out += 2 * half)
        for (int64_t i = 0; i < half; i++) {
            float angle = (float)(step->pos + t) * vm->inv_freq[i];
            out[i] = cosf(angle) * rope->attention_factor;
            out[half + i] = sinf(angle) * rope->attention_factor;
        }
}

static void run_embed(tw_lane *lane, const tw_exec *e) {
    const tw_vm_step *step = &lane->vm->step;
    int64_t from = e->in->param[TW_FROM], count = e->in->param[TW_TO] - from,
            dim = tw_exec_shape(lane, e, TW_EMBED_X)->shape[2];
    const int32_t *tokens = e->buffer[TW_EMBED_TOKENS];
    float *x = e->buffer[TW_EMBED_X], *position = (float *)(void *)lane->scratch;
    for (int64_t t = 0; t < step->n; t++) {
        float *out = x + t * dim + from;
        tw_weight_read(e->table[TW_EMBED_TABLE], tokens[t], from, count, out);
        if (!e->table[TW_EMBED_POSITIONS]) continue;
        tw_weight_read(e->table[TW_EMBED_POSITIONS], step->pos + t, from, count, position);
        for (int64_t i = 0; i < count; i++) out[i] += position[i];
    }
}

/* Where the rows of one position's product go. */
typedef struct qkv_target {
    const tw_exec *e;
    const float *rope; /* cos, then sin; NULL: not rotated */
    float *out[3];     /* q of this position; k, v of head 0 at this position */
    int64_t stride[3]; /* from head to head */
    int64_t heads, kv_heads, d, rotated;
    float eps;
} qkv_target;

static void normalise_head(float *y, int64_t d, const float *w, float eps) {
    float sum = 0;
    for (int64_t i = 0; i < d; i++) sum += y[i] * y[i];
    float scale = 1 / sqrtf(sum / (float)d + eps);
    for (int64_t i = 0; i < d; i++) y[i] *= scale * w[i];
}

/* `count` virtual rows from `row` on, all of one head; `y` holds them in virtual order. */
static void place_head(const qkv_target *q, int64_t row, int64_t count, const float *y) {
    static const int bias[3] = {TW_QKV_BQ, TW_QKV_BK, TW_QKV_BV};
    tw_qkv_row first = tw_qkv_locate(row, q->heads, q->kv_heads, q->d, q->rotated);
    float *out = q->out[first.part] + first.head * q->stride[first.part];
    const float *b = q->e->vector[bias[first.part]], *norm = NULL;
    if (first.part < 2) norm = q->e->vector[first.part ? TW_QKV_K_NORM : TW_QKV_Q_NORM];
    int64_t in_head = row % q->d;
    for (int64_t i = 0; i < count; i++) {
        int64_t r = tw_qkv_locate(row + i, q->heads, q->kv_heads, q->d, q->rotated).row;
        out[r] = y[i] + (b ? b[first.head * q->d + r] : 0);
    }
    if (norm) normalise_head(out, q->d, norm, q->eps);
    if (first.part == 2 || !q->rope) return;
    int64_t half = q->rotated / 2, to = in_head + count < q->rotated ? in_head + count : q->rotated;
    for (int64_t p = in_head / 2; p < to / 2; p++) {
        float c = q->rope[p], s = q->rope[half + p], a = out[p], z = out[p + half];
        out[p] = a * c - z * s;
        out[p + half] = z * c + a * s;
    }
}

static void run_qkv(tw_lane *lane, const tw_exec *e) {
    const tw_vm_step *step = &lane->vm->step;
    tw_scratch scratch = {lane->scratch};
    int64_t n = step->n, dim = e->strip.cols, width = tw_strip_width(&e->strip);
    float *normed = tw_scratch_take(&scratch, (size_t)(n * dim) * 4),
          *y = tw_scratch_take(&scratch, (size_t)(n * width) * 4);
    tw_exec_norm(lane, e->buffer[TW_QKV_X], e->vector[TW_QKV_NORM], e->vector[TW_QKV_NORM_BIAS], n, dim, normed);
    tw_exec_product(lane, scratch, &e->strip, 0, normed, dim, n, y);
    const tw_buffer *q = tw_exec_shape(lane, e, TW_QKV_Q), *k = tw_exec_shape(lane, e, TW_QKV_K);
    int64_t d = q->shape[2], max_seq = k->shape[1];
    qkv_target to = {.e = e, .heads = q->shape[1], .kv_heads = k->shape[0], .d = d, .eps = lane->vm->m->norm_eps};
    to.stride[0] = d;
    to.stride[1] = to.stride[2] = max_seq * d;
    const float *rope = e->buffer[TW_QKV_ROPE];
    if (rope) to.rotated = lane->vm->m->rope.dims;
    for (int64_t t = 0; t < n; t++, y += width) {
        to.rope = rope ? rope + t * to.rotated : NULL;
        to.out[0] = (float *)e->buffer[TW_QKV_Q] + t * to.heads * d;
        to.out[1] = (float *)e->buffer[TW_QKV_K] + (step->pos + t) * d;
        to.out[2] = (float *)e->buffer[TW_QKV_V] + (step->pos + t) * d;
        for (int64_t from = e->in->param[TW_FROM], row = from, end; row < e->in->param[TW_TO]; row = end) {
            end = (row / d + 1) * d < e->in->param[TW_TO] ? (row / d + 1) * d : e->in->param[TW_TO];
            place_head(&to, row, end - row, y + (row - from));
        }
    }
}

static void run_project(tw_lane *lane, const tw_exec *e) {
    tw_scratch scratch = {lane->scratch};
    int64_t n = lane->vm->step.n, width = tw_strip_width(&e->strip), from = e->in->param[TW_FROM];
    int64_t count = e->in->param[TW_TO] - from, dim = tw_exec_shape(lane, e, TW_PROJECT_X)->shape[2];
    float *y = tw_scratch_take(&scratch, (size_t)(n * width) * 4);
    const float *bias = e->vector[TW_PROJECT_BIAS];
    tw_exec_product(lane, scratch, &e->strip, 0, e->buffer[TW_PROJECT_IN], e->strip.cols, n, y);
    for (int64_t t = 0; t < n; t++, y += width) {
        add_bias(bias ? bias + from : NULL, count, y);
        lane->vm->k.add((float *)e->buffer[TW_PROJECT_X] + t * dim + from, y, count);
    }
}

static void run_ffn(tw_lane *lane, const tw_exec *e) {
    tw_scratch scratch = {lane->scratch};
    int64_t n = lane->vm->step.n, dim = e->strip.cols, width = tw_strip_width(&e->strip), from = e->in->param[TW_FROM];
    int64_t count = e->in->param[TW_TO] - from, ffn = tw_exec_shape(lane, e, TW_FFN_H)->shape[2];
    bool gated = e->in->operand[TW_FFN_GATE] >= 0;
    float *normed = tw_scratch_take(&scratch, (size_t)(n * dim) * 4),
          *y = tw_scratch_take(&scratch, (size_t)(n * width) * 4);
    const float *gate_bias = e->vector[TW_FFN_GATE_BIAS], *up_bias = e->vector[TW_FFN_UP_BIAS];
    tw_exec_norm(lane, e->buffer[TW_FFN_X], e->vector[TW_FFN_NORM], e->vector[TW_FFN_NORM_BIAS], n, dim, normed);
    tw_exec_product(lane, scratch, &e->strip, 0, normed, dim, n, y);
    for (int64_t t = 0; t < n; t++, y += width) {
        float *up = gated ? y + width / 2 : y;
        if (gated) add_bias(gate_bias ? gate_bias + from : NULL, count, y);
        add_bias(up_bias ? up_bias + from : NULL, count, up);
        tw_exec_activate(lane, gated ? y : NULL, up, count, (float *)e->buffer[TW_FFN_H] + t * ffn + from);
    }
}

static void run_head(tw_lane *lane, const tw_exec *e) {
    tw_scratch scratch = {lane->scratch};
    const tw_buffer *logits = tw_exec_shape(lane, e, TW_HEAD_LOGITS);
    int64_t n = lane->vm->step.n, dim = e->strip.cols, width = tw_strip_width(&e->strip), from = e->in->param[TW_FROM];
    int64_t count = e->in->param[TW_TO] - from, rows = logits->shape[0] > 1 ? n : 1;
    float *normed = tw_scratch_take(&scratch, (size_t)(rows * dim) * 4),
          *y = tw_scratch_take(&scratch, (size_t)(rows * width) * 4);
    const float *x = (const float *)e->buffer[TW_HEAD_X] + (n - rows) * dim;
    tw_exec_norm(lane, x, e->vector[TW_HEAD_NORM], e->vector[TW_HEAD_NORM_BIAS], rows, dim, normed);
    tw_exec_product(lane, scratch, &e->strip, 0, normed, dim, rows, y);
    for (int64_t t = 0; t < rows; t++)
        memcpy((float *)e->buffer[TW_HEAD_LOGITS] + t * logits->shape[2] + from, y + t * width, (size_t)count * 4);
    y += (rows - 1) * width;
    int64_t at = lane->vm->k.argmax(y, count);
    float *best = (float *)e->buffer[TW_HEAD_BEST] + 2 * e->in->param[TW_HEAD_SLOT];
    int32_t id = (int32_t)(from + at);
    best[0] = y[at];
    memcpy(&best[1], &id, sizeof id);
}

static void run_output(tw_lane *lane, const tw_exec *e) {
    const float *best = e->buffer[TW_OUTPUT_BEST];
    int64_t slots = tw_exec_shape(lane, e, TW_OUTPUT_BEST)->shape[0], win = 0;
    /* Slots hold ascending ranges, so the first of equals is the lowest id; NaN never wins. */
    for (int64_t i = 1; i < slots; i++)
        if (best[2 * i] > best[2 * win] || (isnan(best[2 * win]) && !isnan(best[2 * i]))) win = i;
    int32_t id;
    memcpy(&id, &best[2 * win + 1], sizeof id);
    *(int32_t *)e->buffer[TW_OUTPUT_TOKEN] = id;
    lane->vm->step.token = id;
    lane->vm->step.logits = e->buffer[TW_OUTPUT_LOGITS];
}

void tw_exec_run(tw_lane *lane, const tw_exec *e) {
    static void (*const run[TW_OP_COUNT])(tw_lane *, const tw_exec *) = {
        [TW_OP_INPUT] = run_input,
        [TW_OP_EMBED] = run_embed,
        [TW_OP_QKV] = run_qkv,
        [TW_OP_ATTEND] = tw_exec_attend,
        [TW_OP_MERGE] = tw_exec_merge,
        [TW_OP_PROJECT] = run_project,
        [TW_OP_FFN] = run_ffn,
        [TW_OP_ROUTE] = tw_exec_route,
        [TW_OP_EXPERTS_UP] = tw_exec_experts_up,
        [TW_OP_EXPERTS_DOWN] = tw_exec_experts_down,
        [TW_OP_HEAD] = run_head,
        [TW_OP_OUTPUT] = run_output,
    };
    run[e->in->op](lane, e);
}

size_t tw_exec_scratch(const tw_vm *vm, const tw_schedule *s, const tw_exec *e) {
    int64_t T = s->tokens;
    switch (e->in->op) {
    case TW_OP_EMBED:
        return (size_t)s->buffers[e->in->operand[TW_EMBED_X]].shape[2] * 4;
    case TW_OP_ATTEND:
        return tw_exec_attend_scratch(vm, s, e);
    case TW_OP_ROUTE:
    case TW_OP_EXPERTS_UP:
    case TW_OP_EXPERTS_DOWN:
        return tw_exec_experts_scratch(vm, s, e);
    case TW_OP_QKV:
    case TW_OP_PROJECT:
    case TW_OP_FFN:
    case TW_OP_HEAD:
        break;
    default:
        return 0;
    }
    if (e->in->op == TW_OP_HEAD && s->buffers[e->in->operand[TW_HEAD_LOGITS]].shape[0] == 1) T = 1;
    return tw_lines((size_t)(T * e->strip.cols) * 4) + tw_lines((size_t)(T * tw_strip_width(&e->strip)) * 4) +
           tw_exec_product_scratch(vm, &e->strip, T);
}
