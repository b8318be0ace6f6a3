/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule.h"

#include "base/divide.h"

#include <stdlib.h>
#include <string.h>

enum { MATRIX = 1, BIAS = 2, OPTIONAL = 4 };

static const tw_instr_op_info infos[TW_INSTR_COUNT] = {
#define OPERAND(id, name, access, kind, what)                                                                          \
    {name, access, TW_BUFFER_##kind, ((what)&MATRIX) != 0, ((what)&BIAS) != 0, ((what)&OPTIONAL) != 0},
#define PARAM(id, name)                name,
#define RANGE(op)                      "from", "to",
#define OP(id, name, operands, params) {name, {operands}, {params NULL}, TW_##id##_OPERANDS, TW_##id##_PARAMS},
#include "schedule/ops.def"
#undef OPERAND
#undef PARAM
#undef RANGE
#undef OP
};

#define OPERAND(...)
#define PARAM(...)
#define RANGE(op) _Static_assert((int)TW_##op##_FROM == (int)TW_FROM && (int)TW_##op##_TO == (int)TW_TO, "range first");
#define OP(id, name, operands, params)                                                                                 \
    _Static_assert((int)TW_##id##_OPERANDS <= (int)TW_MAX_OPERANDS && (int)TW_##id##_PARAMS <= (int)TW_MAX_PARAMS,     \
                   #id);                                                                                               \
    params
#include "schedule/ops.def"
#undef OPERAND
#undef PARAM
#undef RANGE
#undef OP

static const char *const kind_names[TW_BUFFER_KIND_COUNT] = {"weight", "activation", "kv", "input", "output"};

const tw_instr_op_info *tw_instr_op_describe(tw_instr_op op) {
    return &infos[op];
}

tw_instr_matrices tw_instr_matrices_of(const tw_instr *in) {
    const tw_instr_op_info *info = &infos[in->op];
    tw_instr_matrices all = {0};
    int biases[TW_MAX_MATRICES] = {-1, -1, -1}, matrices = 0, n = 0;
    for (int i = 0; i < info->n_operands; i++)
        if (info->operands[i].bias) biases[n++] = in->operand[i];
    for (int i = 0; i < info->n_operands; i++) {
        if (!info->operands[i].matrix) continue;
        const int bias = biases[matrices++];
        if (in->operand[i] < 0) continue;
        all.matrix[all.n] = in->operand[i];
        all.bias[all.n++] = bias;
    }
    return all;
}

bool tw_instr_op_multiplies(tw_instr_op op) {
    for (int i = 0; i < infos[op].n_operands; i++)
        if (infos[op].operands[i].matrix) return true;
    return false;
}

bool tw_instr_op_from_name(const char *name, tw_instr_op *op) {
    for (int i = 0; i < TW_INSTR_COUNT; i++)
        if (!strcmp(name, infos[i].name)) {
            *op = (tw_instr_op)i;
            return true;
        }
    return false;
}

const char *tw_buffer_kind_name(tw_buffer_kind k) {
    return kind_names[k];
}

bool tw_buffer_kind_from_name(const char *name, tw_buffer_kind *k) {
    for (int i = 0; i < TW_BUFFER_KIND_COUNT; i++)
        if (!strcmp(name, kind_names[i])) {
            *k = (tw_buffer_kind)i;
            return true;
        }
    return false;
}

int64_t tw_buffer_row_bytes(const tw_buffer *b) {
    if (b->dtype == TW_F32) return 4 * b->shape[2];
    if (b->dtype == TW_F16 || b->dtype == TW_BF16) return 2 * b->shape[2];
    int64_t cols = b->shape[2], data = (cols * (int64_t)tw_dtype_bits(b->dtype) + 7) / 8;
    if (b->dtype != TW_I8 && b->dtype != TW_I4) return data;
    int64_t groups = b->group > 0 ? tw_ceil_div(cols, b->group) : 1;
    return data + groups * (b->dtype == TW_I8 ? 4 : 2);
}

void tw_schedule_free(tw_schedule *s) {
    if (!s) return;
    tw_arena_free(&s->arena);
    free(s);
}

void tw_schedule_describe(const tw_schedule *s, tw_schedule_info *info) {
    *info = (tw_schedule_info){.workers = s->n_workers,
                               .counters = s->n_counters,
                               .buffers = s->n_buffers,
                               .tokens = s->tokens,
                               .max_seq = s->max_seq,
                               .sequences = s->sequences};
    for (int w = 0; w < s->n_workers; w++) info->instructions += s->workers[w].count;
}

tw_qkv_row tw_qkv_locate(int64_t row, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t rotated) {
    int64_t head = row / head_dim, i = row % head_dim;
    tw_qkv_row r = {.part = head < heads ? 0 : head < heads + kv_heads ? 1 : 2, .row = i};
    r.head = head - (r.part == 0 ? 0 : r.part == 1 ? heads : heads + kv_heads);
    if (r.part < 2 && i < rotated) r.row = i / 2 + (i & 1) * (rotated / 2);
    return r;
}
