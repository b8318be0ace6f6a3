/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/builder.h"

#include <stdlib.h>
#include <string.h>

tw_schedule *tw_schedule_begin(int workers, int64_t tokens, int64_t max_seq) {
    tw_schedule *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->tokens = tokens;
    s->max_seq = max_seq;
    s->sequences = 1;
    s->n_workers = workers;
    s->workers = tw_arena_array(&s->arena, (size_t)workers, sizeof *s->workers);
    return s;
}

/* Makes room for one more than `count` elements. Arrays double within the arena when `count` is a power of two. */
static void *grow(tw_schedule *s, void *old, int count, size_t size) {
    if (count & (count - 1)) return s->arena.failed ? NULL : old;
    void *p = tw_arena_array(&s->arena, count ? 2 * (size_t)count : 1, size);
    if (p && count) memcpy(p, old, (size_t)count * size);
    return p;
}

int tw_schedule_add_buffer(tw_schedule *s, const char *name, tw_buffer_kind kind, tw_dtype dtype, int group, int64_t a,
                           int64_t b, int64_t c) {
    tw_buffer *p = grow(s, s->buffers, s->n_buffers, sizeof *p);
    char *copy = tw_arena_strdup(&s->arena, name);
    if (!p || !copy) return -1;
    s->buffers = p;
    p[s->n_buffers] = (tw_buffer){copy, kind, dtype, group, {a, b, c}};
    return s->n_buffers++;
}

int tw_schedule_add_counter(tw_schedule *s, const char *name) {
    tw_counter *p = grow(s, s->counters, s->n_counters, sizeof *p);
    char *copy = tw_arena_strdup(&s->arena, name);
    if (!p || !copy) return -1;
    s->counters = p;
    p[s->n_counters] = (tw_counter){copy, 0};
    return s->n_counters++;
}

tw_instr *tw_schedule_add_instr(tw_schedule *s, int worker, tw_instr_op op) {
    if (s->arena.failed) return NULL;
    tw_worker *w = &s->workers[worker];
    tw_instr *p = grow(s, w->list, w->count, sizeof *p);
    if (!p) return NULL;
    w->list = p;
    tw_instr *in = &p[w->count++];
    *in = (tw_instr){.op = op, .arrive = -1};
    for (int i = 0; i < TW_MAX_OPERANDS; i++) in->operand[i] = -1;
    return in;
}

void tw_schedule_add_wait(tw_schedule *s, tw_instr *in, int counter, int64_t threshold) {
    if (!in) return;
    tw_wait *p = grow(s, in->waits, in->n_waits, sizeof *p);
    if (!p) return;
    in->waits = p;
    p[in->n_waits++] = (tw_wait){counter, threshold};
}
