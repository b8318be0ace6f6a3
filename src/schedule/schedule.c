/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *operands, *params;
} ops[TW_OP_COUNT] = {
#define OP(id, name, operands, params) {name, operands, params},
#include "schedule/ops.def"
#undef OP
};

static const char *const kind_names[TW_BUFFER_KIND_COUNT] = {"weight", "activation", "kv", "input", "output"};
static const char kind_letters[] = "WAKIO";

/* Copies the word at *p (up to a space or `stop`) and steps over it. */
static void take_word(const char **p, char stop, char *out, size_t size) {
    size_t n = 0;
    while (**p && **p != ' ' && **p != stop && n + 1 < size) out[n++] = *(*p)++;
    out[n] = 0;
}

static tw_schedule_op_info infos[TW_OP_COUNT];
static pthread_once_t infos_made = PTHREAD_ONCE_INIT;

static void make_info(tw_op op) {
    tw_schedule_op_info *info = &infos[op];
    info->name = ops[op].name;
    for (const char *p = ops[op].operands; *p;) {
        tw_operand_info *o = &info->operands[info->n_operands++];
        o->access = p[0];
        o->kind = (tw_buffer_kind)(strchr(kind_letters, p[1]) - kind_letters);
        p += 3;
        take_word(&p, '?', o->name, sizeof o->name);
        o->optional = *p == '?';
        p += o->optional;
        p += *p == ' ';
    }
    for (const char *p = ops[op].params; *p;) {
        take_word(&p, ' ', info->params[info->n_params++], sizeof info->params[0]);
        p += *p == ' ';
    }
}

static void make_infos(void) {
    for (int op = 0; op < TW_OP_COUNT; op++) make_info((tw_op)op);
}

const tw_schedule_op_info *tw_schedule_op_describe(tw_op op) {
    pthread_once(&infos_made, make_infos);
    return &infos[op];
}

bool tw_op_from_name(const char *name, tw_op *op) {
    for (int i = 0; i < TW_OP_COUNT; i++)
        if (!strcmp(name, ops[i].name)) {
            *op = (tw_op)i;
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
    int64_t groups = b->group > 0 ? (cols + b->group - 1) / b->group : 1;
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
