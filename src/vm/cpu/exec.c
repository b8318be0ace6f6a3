/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the instructions of dense layers. A step has n <= tokens positions. Every loop over positions ends at n. */
#include "vm/cpu/exec.h"
#include "vm/cpu/share.h"

#include "base/dtype.h"

#include <math.h>
#include <string.h>

/* Makes the table of a rope for the length that the step reaches. */
static const float *frequencies(tw_vm *vm, int which, const tw_rope *rope) {
    const int64_t length = vm->step.length;
    float *table = vm->rope[which].inv_freq;
    const bool made = vm->rope[which].length && (rope->kind == TW_ROPE_FIXED || vm->rope[which].length == length);
    if (made) return table;
    tw_rope_frequencies(rope, length, table);
    for (int64_t i = 0; i < rope->dims / 2 && vm->options.stored_rope; i++) {
        unsigned char stored[4];
        tw_from_f32(vm->m->embed.dtype, &table[i], stored, 1);
        tw_to_f32(vm->m->embed.dtype, stored, &table[i], 1);
    }
    vm->rope[which].length = length;
    return table;
}

static void run_rope(tw_vm *vm, int which, const tw_rope *rope, float *out) {
    const int64_t half = rope->dims / 2;
    if (!out) return;
    const float *inv_freq = frequencies(vm, which, rope);
    for (int64_t t = 0; t < vm->step.n; t++, out += 2 * half)
        for (int64_t i = 0; i < half; i++) {
            float angle = (float)(vm->step.pos + t) * inv_freq[i];
            out[i] = cosf(angle) * rope->attention_factor;
            out[half + i] = sinf(angle) * rope->attention_factor;
        }
}

static void run_input(tw_vm_thread *thread, const tw_exec *e) {
    tw_vm *vm = thread->vm;
    memcpy(e->buffer[TW_INPUT_TOKENS], vm->step.tokens, (size_t)vm->step.n * sizeof *vm->step.tokens);
    run_rope(vm, 0, &vm->m->rope, e->buffer[TW_INPUT_ROPE]);
    run_rope(vm, 1, &vm->m->rope_local, e->buffer[TW_INPUT_ROPE_LOCAL]);
}

static void run_embed(tw_vm_thread *thread, const tw_exec *e) {
    const tw_vm_step *step = &thread->vm->step;
    int64_t from = e->in->param[TW_FROM], count = e->in->param[TW_TO] - from,
            dim = tw_exec_shape(thread, e, TW_EMBED_X)->shape[2];
    const int32_t *tokens = e->buffer[TW_EMBED_TOKENS];
    float *x = e->buffer[TW_EMBED_X], *position = (float *)(void *)thread->scratch;
    for (int64_t t = 0; t < step->n; t++) {
        float *out = x + t * dim + from;
        tw_weight_read(e->table[TW_EMBED_TABLE], tokens[t], from, count, out);
        if (thread->vm->m->embed_scale != 1)
            for (int64_t i = 0; i < count; i++) out[i] *= thread->vm->m->embed_scale;
        if (!e->table[TW_EMBED_POSITIONS]) continue;
        tw_weight_read(e->table[TW_EMBED_POSITIONS], step->pos + t, from, count, position);
        for (int64_t i = 0; i < count; i++) out[i] += position[i];
    }
}

/* Destinations of qkv's product. `rope` and `out` are those of one position. */
typedef struct qkv_target {
    const tw_exec *e;
    const float *y; /* The product of all positions. */
    int64_t ldy;
    const float *rope; /* Cosines, then sines. NULL: rope does not rotate. */
    float *out[3];     /* Queries, keys and values of head 0. */
    int64_t stride[3]; /* Elements from a head to the next. */
    int64_t heads, kv_heads, d, rotated, pos;
    float eps;
} qkv_target;

static void normalise_head(float *y, int64_t d, const float *w, float eps) {
    float sum = 0;
    for (int64_t i = 0; i < d; i++) sum += y[i] * y[i];
    float scale = 1 / sqrtf(sum / (float)d + eps);
    for (int64_t i = 0; i < d; i++) y[i] *= scale * w[i];
}

/* Separates virtual rows. They alternate between the two halves of a head's rotated rows, since rope rotates one row of
   each half as a pair. */
static void part_pairs(const float *restrict y, int64_t n, float *restrict low, float *restrict high) {
    for (int64_t i = 0; i < n; i++) {
        low[i] = y[2 * i];
        high[i] = y[2 * i + 1];
    }
}

static void turn_pairs(const float *restrict c, const float *restrict s, int64_t n, float *restrict low,
                       float *restrict high) {
    for (int64_t i = 0; i < n; i++) {
        float a = low[i], z = high[i];
        low[i] = a * c[i] - z * s[i];
        high[i] = z * c[i] + a * s[i];
    }
}

/* Stores `count` virtual rows of one head, from `row` on. `y` has them in virtual order. */
static void place_head(const qkv_target *q, int64_t row, int64_t count, const float *y) {
    static const int bias[3] = {TW_QKV_BQ, TW_QKV_BK, TW_QKV_BV};
    tw_qkv_row first = tw_qkv_locate(row, q->heads, q->kv_heads, q->d, q->rotated);
    int64_t in_head = row % q->d, half = q->rotated / 2, paired = first.part < 2 ? q->rotated - in_head : 0;
    if (paired < 0) paired = 0;
    if (paired > count) paired = count;
    float *out = q->out[first.part] + first.head * q->stride[first.part], *low = out + in_head / 2, *high = low + half,
          *rest = out + in_head + paired;
    const float *b = q->e->vector[bias[first.part]], *norm = NULL;
    if (first.part < 2) norm = q->e->vector[first.part ? TW_QKV_K_NORM : TW_QKV_Q_NORM];
    part_pairs(y, paired / 2, low, high);
    memcpy(rest, y + paired, (size_t)(count - paired) * sizeof *rest);
    if (b) {
        b += first.head * q->d;
        tw_exec_add_bias(b + in_head / 2, paired / 2, low);
        tw_exec_add_bias(b + in_head / 2 + half, paired / 2, high);
        tw_exec_add_bias(b + in_head + paired, count - paired, rest);
    }
    if (norm) normalise_head(out, q->d, norm, q->eps);
    if (q->rope) turn_pairs(q->rope + in_head / 2, q->rope + half + in_head / 2, paired / 2, low, high);
}

static void take_qkv(void *context, int64_t row, int64_t rows, int64_t col, int64_t cols) {
    qkv_target to = *(const qkv_target *)context;
    const tw_exec *e = to.e;
    int64_t d = to.d, first = e->in->param[TW_FROM], last = tw_least(first + col + cols, e->in->param[TW_TO]);
    const float *rope = e->buffer[TW_QKV_K] ? e->buffer[TW_QKV_ROPE] : NULL; /* Raw keys are rotated later. */
    for (int64_t t = row; t < row + rows; t++) {
        to.rope = rope ? rope + t * to.rotated : NULL;
        to.out[0] = (float *)e->buffer[TW_QKV_Q] + t * to.heads * d;
        to.out[1] = e->buffer[TW_QKV_K] ? (float *)e->buffer[TW_QKV_K] + (to.pos + t) * d
                                        : (float *)e->buffer[TW_QKV_RAW_K] + t * to.kv_heads * d;
        to.out[2] = (float *)e->buffer[TW_QKV_V] + (to.pos + t) * d;
        for (int64_t r = first + col, end; r < last; r = end) {
            end = tw_least((r / d + 1) * d, last);
            place_head(&to, r, end - r, to.y + t * to.ldy + (r - first));
        }
    }
}

/* Bytes of n normalised positions, or of a tile of them, whose rows are further apart. */
static size_t norm_bytes(int64_t n, int64_t dim) {
    return (size_t)((n > TW_PACKED_TILE ? n : TW_PACKED_TILE) * (dim + TW_PANEL_ROWS)) * sizeof(float);
}

/* Multiplies all positions of x, normalised if there are `norm` weights, by the instruction's rows. `room` is for the
   normalised positions. */
static void multiply(tw_vm_thread *thread, tw_scratch scratch, const tw_exec *e, const float *x, const float *norm,
                     const float *bias, float *room, float *y, const tw_gemm_sink *sink) {
    const int64_t n = thread->vm->step.n, dim = e->strip.cols;
    const void *packed = tw_share_rows(thread, e, x, norm, bias, n, dim, room);
    if (packed) {
        tw_product_packed(thread, scratch, &e->strip, packed, n, y, sink);
        return;
    }
    if (norm) tw_exec_norm(thread, x, norm, bias, n, dim, room);
    tw_product(thread, scratch, &e->strip, 0, norm ? room : x, dim, n, y, sink);
}

static void run_qkv(tw_vm_thread *thread, const tw_exec *e) {
    tw_scratch scratch = {thread->scratch};
    int64_t n = thread->vm->step.n, dim = e->strip.cols;
    float *normed = tw_scratch_take(&scratch, norm_bytes(n, dim)),
          *y = tw_scratch_take(&scratch, tw_strip_product_bytes(&e->strip, n));
    const tw_buffer *q = tw_exec_shape(thread, e, TW_QKV_Q), *v = tw_exec_shape(thread, e, TW_QKV_V);
    int64_t d = q->shape[2];
    qkv_target to = {.e = e, .y = y, .ldy = tw_strip_stride(&e->strip), .heads = q->shape[1], .kv_heads = v->shape[0]};
    to.d = d;
    to.pos = thread->vm->step.pos;
    to.eps = thread->vm->m->norm_eps;
    to.stride[0] = d;
    to.stride[2] = v->shape[1] * d;
    to.stride[1] = e->buffer[TW_QKV_K] ? to.stride[2] : d;
    if (e->buffer[TW_QKV_ROPE]) to.rotated = thread->vm->m->rope.dims;
    /* The RMS norm of a head needs all of its rows. The instruction has whole heads then, but a part of its product may
       end inside one. */
    bool parts = !e->vector[TW_QKV_Q_NORM] || TW_SINK_COLS % d == 0;
    tw_gemm_sink sink = {take_qkv, &to};
    multiply(thread, scratch, e, e->buffer[TW_QKV_X], e->vector[TW_QKV_NORM], e->vector[TW_QKV_NORM_BIAS], normed, y,
             parts ? &sink : NULL);
    if (!parts) take_qkv(&to, 0, n, 0, tw_strip_width(&e->strip));
}

/* Destination of a product: `out` of every position, after biases. */
typedef struct target {
    const tw_vm_thread *thread;
    const tw_exec *e;
    float *y, *out; /* Addresses of the instruction's first row. */
    int64_t ldy, ldo, count;
} target;

static void take_project(void *context, int64_t row, int64_t rows, int64_t col, int64_t cols) {
    const target *to = context;
    const float *bias = to->e->vector[TW_PROJECT_BIAS];
    int64_t n = tw_least(cols, to->count - col);
    for (int64_t t = row; t < row + rows; t++) {
        float *y = to->y + t * to->ldy + col;
        if (bias) tw_exec_add_bias(bias + to->e->in->param[TW_FROM] + col, n, y);
        if (to->e->buffer[TW_PROJECT_X])
            to->thread->vm->k.add(to->out + t * to->ldo + col, y, n);
        else
            memcpy(to->out + t * to->ldo + col, y, (size_t)n * sizeof *y);
    }
}

static target target_of(const tw_vm_thread *thread, const tw_exec *e, int out, float *y) {
    int64_t from = e->in->param[TW_FROM];
    return (target){.thread = thread,
                    .e = e,
                    .y = y,
                    .out = (float *)e->buffer[out] + from,
                    .ldy = tw_strip_stride(&e->strip),
                    .ldo = tw_exec_shape(thread, e, out)->shape[2],
                    .count = e->in->param[TW_TO] - from};
}

static void run_project(tw_vm_thread *thread, const tw_exec *e) {
    tw_scratch scratch = {thread->scratch};
    int64_t n = thread->vm->step.n;
    float *y = tw_scratch_take(&scratch, tw_strip_product_bytes(&e->strip, n));
    target to = target_of(thread, e, e->buffer[TW_PROJECT_X] ? TW_PROJECT_X : TW_PROJECT_Y, y);
    tw_gemm_sink sink = {take_project, &to};
    multiply(thread, scratch, e, e->buffer[TW_PROJECT_IN], NULL, NULL, NULL, y, &sink);
}

static void run_residual(tw_vm_thread *thread, const tw_exec *e) {
    const int64_t dim = tw_exec_shape(thread, e, TW_RESIDUAL_X)->shape[2], from = e->in->param[TW_FROM];
    float *normed = (float *)(void *)thread->scratch;
    for (int64_t t = 0; t < thread->vm->step.n; t++) {
        tw_exec_norm(thread, (const float *)e->buffer[TW_RESIDUAL_Y] + t * dim, e->vector[TW_RESIDUAL_NORM], NULL, 1,
                     dim, normed);
        thread->vm->k.add((float *)e->buffer[TW_RESIDUAL_X] + t * dim + from, normed + from,
                          e->in->param[TW_TO] - from);
    }
}

static float norm_scale(const tw_vm *vm, const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return 1 / sqrtf((float)(sum / (double)n) + vm->m->norm_eps);
}

/* Norms, rotates and stores head `head` of a position's queries or keys, all of which are at `raw`. `scale` is that of
   a norm over all heads. */
static void turn_head(const tw_vm *vm, const float *raw, int64_t head, int64_t d, float scale, const float *w,
                      const float *rope, int64_t rotated, float *out) {
    raw += head * d;
    if (vm->m->qk_norm_whole)
        w += head * d;
    else
        scale = norm_scale(vm, raw, d);
    for (int64_t i = 0; i < d; i++) out[i] = raw[i] * scale * w[i];
    if (rope) turn_pairs(rope, rope + rotated / 2, rotated / 2, out, out + rotated / 2);
}

static void run_turn(tw_vm_thread *thread, const tw_exec *e) {
    const tw_vm *vm = thread->vm;
    const tw_buffer *q = tw_exec_shape(thread, e, TW_TURN_Q), *k = tw_exec_shape(thread, e, TW_TURN_K);
    const int64_t heads = q->shape[1], d = q->shape[2], kv_heads = k->shape[0];
    const int64_t from = e->in->param[TW_TURN_HEAD_FROM], to = e->in->param[TW_TURN_HEAD_TO];
    const int64_t rotated = e->buffer[TW_TURN_ROPE] ? 2 * tw_exec_shape(thread, e, TW_TURN_ROPE)->shape[2] : 0;
    for (int64_t t = 0; t < vm->step.n; t++) {
        const float *raw_q = (const float *)e->buffer[TW_TURN_RAW_Q] + t * heads * d,
                    *raw_k = (const float *)e->buffer[TW_TURN_RAW_K] + t * kv_heads * d,
                    *rope = e->buffer[TW_TURN_ROPE] ? (const float *)e->buffer[TW_TURN_ROPE] + t * rotated : NULL;
        float *out_q = (float *)e->buffer[TW_TURN_Q] + t * heads * d,
              *out_k = (float *)e->buffer[TW_TURN_K] + (vm->step.pos + t) * d;
        const float of_q = from < heads ? norm_scale(vm, raw_q, heads * d) : 0,
                    of_k = to > heads ? norm_scale(vm, raw_k, kv_heads * d) : 0;
        for (int64_t h = from; h < tw_least(to, heads); h++)
            turn_head(vm, raw_q, h, d, of_q, e->vector[TW_TURN_Q_NORM], rope, rotated, out_q + h * d);
        for (int64_t h = from > heads ? from - heads : 0; h < to - heads; h++)
            turn_head(vm, raw_k, h, d, of_k, e->vector[TW_TURN_K_NORM], rope, rotated, out_k + h * k->shape[1] * d);
    }
}

static const float *bias_at(const float *bias, int64_t i) {
    return bias ? bias + i : NULL;
}

static void take_ffn(void *context, int64_t row, int64_t rows, int64_t col, int64_t cols) {
    const target *to = context;
    bool gated = to->e->in->operand[TW_FFN_GATE] >= 0;
    int64_t first = gated ? col / 2 : col, n = tw_least(gated ? cols / 2 : cols, to->count - first),
            at = to->e->in->param[TW_FROM] + first;
    const float *gate_bias = bias_at(to->e->vector[TW_FFN_GATE_BIAS], at),
                *up_bias = bias_at(to->e->vector[TW_FFN_UP_BIAS], at);
    for (int64_t t = row; t < row + rows; t++) {
        float *y = to->y + t * to->ldy + col, *out = to->out + t * to->ldo + first;
        if (gated) {
            tw_exec_activate_gated(to->thread, y, n, gate_bias, up_bias, out);
            continue;
        }
        tw_exec_add_bias(up_bias, n, y);
        tw_exec_activate(to->thread, NULL, y, n, out);
    }
}

static void run_ffn(tw_vm_thread *thread, const tw_exec *e) {
    tw_scratch scratch = {thread->scratch};
    int64_t n = thread->vm->step.n, dim = e->strip.cols;
    float *normed = tw_scratch_take(&scratch, norm_bytes(n, dim)),
          *y = tw_scratch_take(&scratch, tw_strip_product_bytes(&e->strip, n));
    target to = target_of(thread, e, TW_FFN_H, y);
    tw_gemm_sink sink = {take_ffn, &to};
    multiply(thread, scratch, e, e->buffer[TW_FFN_X], e->vector[TW_FFN_NORM], e->vector[TW_FFN_NORM_BIAS], normed, y,
             &sink);
}

static void run_head(tw_vm_thread *thread, const tw_exec *e) {
    tw_scratch scratch = {thread->scratch};
    const tw_buffer *logits = tw_exec_shape(thread, e, TW_HEAD_LOGITS);
    int64_t n = thread->vm->step.n, dim = e->strip.cols, ldy = tw_strip_stride(&e->strip), from = e->in->param[TW_FROM];
    int64_t count = e->in->param[TW_TO] - from, rows = logits->shape[0] > 1 ? n : 1;
    float *normed = tw_scratch_take(&scratch, (size_t)(rows * dim) * 4),
          *y = tw_scratch_take(&scratch, tw_strip_product_bytes(&e->strip, rows));
    const float *x = (const float *)e->buffer[TW_HEAD_X] + (n - rows) * dim;
    tw_exec_norm(thread, x, e->vector[TW_HEAD_NORM], e->vector[TW_HEAD_NORM_BIAS], rows, dim, normed);
    tw_product(thread, scratch, &e->strip, 0, normed, dim, rows, y, NULL);
    for (int64_t t = 0; t < rows && thread->vm->m->logit_cap > 0; t++)
        tw_exec_cap(thread->vm->m->logit_cap, y + t * ldy, count);
    for (int64_t t = 0; t < rows; t++)
        memcpy((float *)e->buffer[TW_HEAD_LOGITS] + t * logits->shape[2] + from, y + t * ldy, (size_t)count * 4);
    y += (rows - 1) * ldy;
    int64_t at = thread->vm->k.argmax(y, count);
    float *best = (float *)e->buffer[TW_HEAD_BEST] + 2 * e->in->param[TW_HEAD_SLOT];
    int32_t id = (int32_t)(from + at);
    best[0] = y[at];
    memcpy(&best[1], &id, sizeof id);
}

static void run_output(tw_vm_thread *thread, const tw_exec *e) {
    const float *best = e->buffer[TW_OUTPUT_BEST];
    int64_t slots = tw_exec_shape(thread, e, TW_OUTPUT_BEST)->shape[0], win = 0;
    /* Slots have ascending ranges of ids, so the first of equals is the lowest id. NaN never wins. */
    for (int64_t i = 1; i < slots; i++)
        if (best[2 * i] > best[2 * win] || (isnan(best[2 * win]) && !isnan(best[2 * i]))) win = i;
    int32_t id;
    memcpy(&id, &best[2 * win + 1], sizeof id);
    *(int32_t *)e->buffer[TW_OUTPUT_TOKEN] = id;
    thread->vm->step.token = id;
    thread->vm->step.logits = e->buffer[TW_OUTPUT_LOGITS];
}

void tw_exec_run(tw_vm_thread *thread, const tw_exec *e) {
    static void (*const run[TW_INSTR_COUNT])(tw_vm_thread *, const tw_exec *) = {
        [TW_INSTR_INPUT] = run_input,
        [TW_INSTR_EMBED] = run_embed,
        [TW_INSTR_QKV] = run_qkv,
        [TW_INSTR_ATTEND] = tw_exec_attend,
        [TW_INSTR_MERGE] = tw_exec_merge,
        [TW_INSTR_PROJECT] = run_project,
        [TW_INSTR_RESIDUAL] = run_residual,
        [TW_INSTR_TURN] = run_turn,
        [TW_INSTR_FFN] = run_ffn,
        [TW_INSTR_ROUTE] = tw_exec_route,
        [TW_INSTR_SCORE] = tw_exec_score,
        [TW_INSTR_CHOOSE] = tw_exec_choose,
        [TW_INSTR_EXPERTS_UP] = tw_exec_experts_up,
        [TW_INSTR_EXPERTS_DOWN] = tw_exec_experts_down,
        [TW_INSTR_HEAD] = run_head,
        [TW_INSTR_OUTPUT] = run_output,
    };
    run[e->in->op](thread, e);
}

size_t tw_exec_scratch(const tw_vm *vm, const tw_schedule *s, const tw_exec *e) {
    int64_t T = s->tokens;
    switch (e->in->op) {
    case TW_INSTR_EMBED:
        return (size_t)s->buffers[e->in->operand[TW_EMBED_X]].shape[2] * 4;
    case TW_INSTR_RESIDUAL:
        return (size_t)s->buffers[e->in->operand[TW_RESIDUAL_X]].shape[2] * 4;
    case TW_INSTR_ATTEND:
        return tw_exec_attend_scratch(vm, s, e);
    case TW_INSTR_CHOOSE:
        return (size_t)s->buffers[e->in->operand[TW_CHOOSE_SCORES]].shape[2] * 4;
    case TW_INSTR_SCORE:
    case TW_INSTR_ROUTE:
    case TW_INSTR_EXPERTS_UP:
    case TW_INSTR_EXPERTS_DOWN:
        return tw_exec_experts_scratch(vm, s, e);
    case TW_INSTR_QKV:
    case TW_INSTR_PROJECT:
    case TW_INSTR_FFN:
    case TW_INSTR_HEAD:
        break;
    default:
        return 0;
    }
    if (e->in->op == TW_INSTR_HEAD && s->buffers[e->in->operand[TW_HEAD_LOGITS]].shape[0] == 1) T = 1;
    const size_t normed = e->in->op == TW_INSTR_PROJECT ? 0 : tw_lines(norm_bytes(T, e->strip.cols));
    return normed + tw_lines(tw_strip_product_bytes(&e->strip, T)) + tw_product_scratch(vm, &e->strip, T);
}
