/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that attention sees each key of [0, kv_len) once, by one task or by those whose partial results one
   ATTENTION_COMBINE merges. Even if all bytes that are read are defined, a window may be too short or counted twice. */
#include "schedule/amk/ir.h"

#include <stdlib.h>
#include <string.h>

typedef struct windows {
    const tw_amk *p;
    tw_report *report;
    int *writer, *writers;  /* [buffer]: a task that writes it, and how many do. */
    const amk_task **shard; /* Tasks of one merge, by where their windows start. */
} windows;

static bool attends(const amk_task *t) {
    return t->sound && !strcmp(t->op->name, "ATTENTION_TILE");
}

static bool partial(const amk_task *t) {
    return attends(t) && t->param[AMK_P_flags] & 2;
}

static bool combines(const amk_task *t) {
    return t->sound && !strcmp(t->op->name, "ATTENTION_COMBINE");
}

/* Returns the rows that attention must see. For a cache the schedule says it. Otherwise it is all rows. */
static int64_t rows_of(const tw_amk *p, const amk_task *t) {
    const amk_buffer *k = &p->buffers[t->inputs[1]];
    return k->kind == AMK_KV_CACHE ? p->kv_len : k->rank > 2 ? k->shape[k->rank - 3] : 0;
}

static int by_start(const void *a, const void *b) {
    const amk_task *x = *(const amk_task *const *)a, *y = *(const amk_task *const *)b;
    int32_t i = x->param[AMK_P_kv_start], j = y->param[AMK_P_kv_start];
    if (i != j) return i < j ? -1 : 1;
    i = x->param[AMK_P_kv_len], j = y->param[AMK_P_kv_len];
    return i < j ? -1 : i > j;
}

/* Finds the tasks whose results `t` merges, and stores them in w->shard. */
static bool find_shards(windows *w, const amk_task *t, const char *where) {
    for (int i = 0; i < t->n_inputs; i++) {
        int b = t->inputs[i];
        const amk_task *s = w->writers[b] == 1 ? &w->p->tasks[w->writer[b]] : NULL;
        w->shard[i] = s;
        if (s && partial(s)) continue;
        if (w->writers[b] > 1)
            tw_report_add(w->report, "coverage", where, "merges %s, which %d tasks write: whose windows is not known",
                          w->p->buffers[b].name, w->writers[b]);
        else
            tw_report_add(w->report, "coverage", where, "merges %s, which is not a partial result of attention",
                          w->p->buffers[b].name);
        return false;
    }
    return true;
}

static void check_merge(windows *w, const amk_task *t) {
    char where[96];
    int64_t to = 0;
    amk_name_task(t, where);
    if (!find_shards(w, t, where)) return;
    qsort(w->shard, (size_t)t->n_inputs, sizeof *w->shard, by_start);
    for (int i = 0; i < t->n_inputs; i++) {
        const amk_task *s = w->shard[i];
        int64_t start = s->param[AMK_P_kv_start], length = s->param[AMK_P_kv_len];
        if (s->param[AMK_P_head_dim] != t->param[AMK_P_head_dim]) {
            tw_report_add(w->report, "coverage", where,
                          "merges heads of %lld, and task %lld attends with heads of %lld",
                          (long long)t->param[AMK_P_head_dim], (long long)s->id, (long long)s->param[AMK_P_head_dim]);
            return;
        }
        for (int k = 0; k < 3; k++)
            if (s->inputs[k] != w->shard[0]->inputs[k]) {
                tw_report_add(w->report, "coverage", where, "merges tasks %lld and %lld, which attend with %s and %s",
                              (long long)w->shard[0]->id, (long long)s->id, w->p->buffers[w->shard[0]->inputs[k]].name,
                              w->p->buffers[s->inputs[k]].name);
                return;
            }
        if (length > 0 && start != to) {
            tw_report_add(w->report, "coverage", where, "merges windows that leave rows %lld..%lld %s",
                          (long long)(start < to ? start : to), (long long)(start < to ? to : start),
                          start < to ? "to be counted twice" : "out");
            return;
        }
        to += length > 0 ? length : 0;
    }
    if (to != rows_of(w->p, w->shard[0]))
        tw_report_add(w->report, "coverage", where, "merges windows up to row %lld of %lld", (long long)to,
                      (long long)rows_of(w->p, w->shard[0]));
}

static void check_task(windows *w, const amk_task *t) {
    char where[96];
    amk_name_task(t, where);
    if (combines(t)) check_merge(w, t);
    if (attends(t) && !partial(t) && (t->param[AMK_P_kv_start] != 0 || t->param[AMK_P_kv_len] != rows_of(w->p, t)))
        tw_report_add(w->report, "coverage", where, "attends to rows %lld..%lld, alone, of %lld",
                      (long long)t->param[AMK_P_kv_start], (long long)t->param[AMK_P_kv_start] + t->param[AMK_P_kv_len],
                      (long long)rows_of(w->p, t));
    for (int i = 0; t->sound && !combines(t) && i < t->n_inputs; i++) {
        int b = t->inputs[i];
        if (w->writers[b] && partial(&w->p->tasks[w->writer[b]]))
            tw_report_add(w->report, "coverage", where, "reads %s, a partial result of attention that is not merged",
                          w->p->buffers[b].name);
    }
}

tw_status amk_check_windows(const tw_amk *p, tw_arena *arena, tw_report *report) {
    windows w = {.p = p, .report = report};
    w.writer = tw_arena_array(arena, (size_t)p->n_buffers + 1, sizeof *w.writer);
    w.writers = tw_arena_array(arena, (size_t)p->n_buffers + 1, sizeof *w.writers);
    w.shard = tw_arena_array(arena, AMK_MAX_INPUTS, sizeof *w.shard);
    if (arena->failed) return TW_ERR_MEMORY;
    for (int i = 0; i < p->n_tasks; i++)
        for (int k = 0; p->tasks[i].sound && k < p->tasks[i].n_outputs; k++) {
            int b = p->tasks[i].outputs[k];
            if (!w.writers[b]++ || partial(&p->tasks[i])) w.writer[b] = i;
        }
    for (int i = 0; i < p->n_tasks; i++) check_task(&w, &p->tasks[i]);
    return TW_OK;
}
