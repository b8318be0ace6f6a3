/* SPDX-License-Identifier: Apache-2.0 */
#include "soundness/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *room(void *old, int *have, size_t want, size_t size) {
    if (want <= (size_t)*have) return old;
    *have = (int)(2 * want);
    void *p = realloc(old, (size_t)*have * size);
    if (!p) abort(); /* a test program: nothing to save */
    return p;
}

static void mark(uint64_t *bits, touch t) {
    for (int e = t.first; e < t.first + t.count; e++) bits[e / 64] |= UINT64_C(1) << e % 64;
}

hazard memory_set(memory *m, const order *o, const touch_space *space, const touch_step *step, int *who) {
    int have;
    m->o = o;
    m->space = space;
    m->words = ((size_t)space->count + 63) / 64;
    memcpy(m->step, step, (size_t)o->steps * sizeof *step);
    size_t bits = (size_t)o->total * m->words;
    have = m->rooms[0];
    m->reads = room(m->reads, &have, bits, sizeof *m->reads);
    m->writes = room(m->writes, &m->rooms[0], bits, sizeof *m->writes);
    m->touch_first = room(m->touch_first, &m->rooms[1], (size_t)o->total + 1, sizeof *m->touch_first);
    have = m->rooms[2];
    m->stamp = room(m->stamp, &have, (size_t)space->count, sizeof *m->stamp);
    m->times = room(m->times, &m->rooms[2], (size_t)space->count, sizeof *m->times);
    memset(m->reads, 0, bits * sizeof *m->reads);
    memset(m->writes, 0, bits * sizeof *m->writes);
    m->list.count = 0;
    for (int i = 0; i < o->total; i++) {
        m->touch_first[i] = m->list.count;
        hazard h = touch_instr(space, order_instr(o, i), step[order_step(o, i)], &m->list);
        if (h != HAZARD_NONE) {
            *who = i;
            return h;
        }
        for (int t = m->touch_first[i]; t < m->list.count; t++)
            mark((m->list.item[t].write ? m->writes : m->reads) + (size_t)i * m->words, m->list.item[t]);
    }
    m->touch_first[o->total] = m->list.count;
    return HAZARD_NONE;
}

void memory_free(memory *m) {
    free(m->list.item);
    free(m->touch_first);
    free(m->reads);
    free(m->writes);
    free(m->stamp);
    free(m->times);
    *m = (memory){0};
}

bool memory_conflict(const memory *m, int a, int b, int *element) {
    const uint64_t *ra = m->reads + (size_t)a * m->words, *wa = m->writes + (size_t)a * m->words,
                   *rb = m->reads + (size_t)b * m->words, *wb = m->writes + (size_t)b * m->words;
    for (size_t i = 0; i < m->words; i++) {
        uint64_t both = (wa[i] & (rb[i] | wb[i])) | (ra[i] & wb[i]);
        if (!both) continue;
        *element = (int)(64 * i) + __builtin_ctzll(both);
        return true;
    }
    return false;
}

static bool names_twice(const tw_instr *in) {
    for (int i = 0; i < TW_MAX_OPERANDS; i++)
        for (int j = 0; j < i && in->operand[i] >= 0; j++)
            if (in->operand[i] == in->operand[j]) return true;
    return false;
}

bool memory_self(const memory *m, int instance, int *element) {
    if (!names_twice(order_instr(m->o, instance))) return false;
    for (int i = m->touch_first[instance]; i < m->touch_first[instance + 1]; i++)
        for (int j = m->touch_first[instance]; j < m->touch_first[instance + 1]; j++) {
            const touch *a = &m->list.item[i], *b = &m->list.item[j];
            bool meet = a->first < b->first + b->count && b->first < a->first + a->count;
            if (!a->write || a->operand == b->operand || !meet) continue;
            *element = a->first > b->first ? a->first : b->first;
            return true;
        }
    return false;
}

void memory_restart(memory *m) {
    memset(m->stamp, 0, (size_t)m->space->count * sizeof *m->stamp);
    memset(m->times, 0, (size_t)m->space->count * sizeof *m->times);
}

/* A cache's row below the step's position: somebody appended it, and if that was one of the steps played here, it must
   have been done by now, and nobody later may have been there. */
static bool past_row_ok(const memory *m, int step, int64_t sequence, int64_t row, int stamp) {
    if (stamp > step + 1) return false;
    for (int i = 0; i < step; i++) {
        int64_t pos = touch_position(&m->step[i], sequence), n = m->space->s->sequences > 1 ? 1 : m->step[i].n;
        if (row >= pos && row < pos + n && stamp < i + 1) return false;
    }
    return true;
}

/* The row of a cache that a run of elements lies in, and whose; -1: not of a cache. */
static int64_t cache_row(const memory *m, const tw_instr *in, const touch *t, int64_t *sequence) {
    *sequence = 0;
    if (t->operand < 0) return -1;
    int b = in->operand[t->operand];
    const tw_buffer *buffer = &m->space->s->buffers[b];
    if (buffer->kind != TW_BUFFER_KV) return -1;
    int64_t row = (t->first - m->space->base[b]) / buffer->shape[2];
    *sequence = touch_sequence(m->space->s, buffer, row / buffer->shape[1]);
    return row % buffer->shape[1];
}

hazard memory_read(const memory *m, int instance, int *element) {
    const tw_instr *in = order_instr(m->o, instance);
    int step = order_step(m->o, instance), operand = -2, times = 0;
    for (int i = m->touch_first[instance]; i < m->touch_first[instance + 1]; i++) {
        const touch *t = &m->list.item[i];
        if (t->write) continue;
        int64_t sequence, row = cache_row(m, in, t, &sequence);
        bool past = row >= 0 && row < touch_position(&m->step[step], sequence);
        if (t->operand != operand) times = 0;
        operand = t->operand;
        for (int e = t->first; e < t->first + t->count; e++) {
            *element = e;
            if (past && !past_row_ok(m, step, sequence, row, m->stamp[e])) return HAZARD_UNDEFINED;
            if (past) continue;
            if (m->stamp[e] != step + 1) return HAZARD_UNDEFINED;
            if (!times) times = m->times[e];
            if (m->times[e] != times) return HAZARD_COVERAGE;
        }
    }
    return HAZARD_NONE;
}

void memory_write(memory *m, int instance) {
    int step = order_step(m->o, instance) + 1;
    for (int i = m->touch_first[instance]; i < m->touch_first[instance + 1]; i++) {
        const touch *t = &m->list.item[i];
        for (int e = t->first; t->write && e < t->first + t->count; e++) {
            m->times[e] = m->stamp[e] == step ? m->times[e] + 1 : 1;
            m->stamp[e] = step;
        }
    }
}

hazard memory_step_end(const memory *m, int step, int *element) {
    const tw_schedule *s = m->space->s;
    for (int b = 0; b < s->n_buffers; b++) {
        const tw_buffer *x = &s->buffers[b];
        if (x->kind != TW_BUFFER_OUTPUT) continue;
        int64_t rows = x->shape[0] == s->tokens ? m->step[step].n : x->shape[0];
        for (int64_t e = 0; e < rows * x->shape[1] * x->shape[2]; e++) {
            *element = m->space->base[b] + (int)e;
            if (m->stamp[*element] != step + 1) return HAZARD_OUTPUT;
        }
    }
    return HAZARD_NONE;
}

void memory_name_element(const memory *m, int element, char out[96]) {
    const tw_schedule *s = m->space->s;
    snprintf(out, 96, "the step's position");
    for (int b = 0; b < s->n_buffers && element > 0; b++) {
        const int64_t *n = s->buffers[b].shape;
        int64_t at = element - m->space->base[b];
        if (m->space->base[b] < 0 || at < 0 || at >= n[0] * n[1] * n[2]) continue;
        snprintf(out, 96, "%.40s[%lld][%lld][%lld]", s->buffers[b].name, (long long)(at / n[2] / n[1]),
                 (long long)(at / n[2] % n[1]), (long long)(at % n[2]));
        return;
    }
}
