/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/ranges/ranges.h"

#include <stdlib.h>
#include <string.h>

tw_ranges *tw_ranges_new(int workers) {
    tw_ranges *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->workers = tw_arena_array(&r->arena, (size_t)workers, sizeof *r->workers);
    r->n_workers = workers;
    if (r->workers) return r;
    tw_ranges_free(r);
    return NULL;
}

void tw_ranges_free(tw_ranges *r) {
    if (!r) return;
    tw_arena_free(&r->arena);
    free(r);
}

/* Makes room for one more than `count` elements. Arrays double within the arena when `count` is a power of two. */
static void *grow(tw_ranges *r, void *old, int count, size_t size) {
    if (count & (count - 1)) return r->arena.failed ? NULL : old;
    void *p = tw_arena_array(&r->arena, count ? 2 * (size_t)count : 1, size);
    if (p && count) memcpy(p, old, (size_t)count * size);
    return p;
}

int tw_ranges_add_buffer(tw_ranges *r, const tw_range_buffer *b) {
    tw_range_buffer *p = grow(r, r->buffers, r->n_buffers, sizeof *p);
    const char *name = tw_arena_strdup(&r->arena, b->name);
    if (!p || !name) return -1;
    r->buffers = p;
    p[r->n_buffers] = *b;
    p[r->n_buffers].name = name;
    return r->n_buffers++;
}

tw_range_step *tw_ranges_add_step(tw_ranges *r, const char *name, int n_axes, const int64_t *units) {
    tw_range_step *p = grow(r, r->steps, r->n_steps, sizeof *p);
    const char *copy = tw_arena_strdup(&r->arena, name);
    if (!p || !copy) return NULL;
    r->steps = p;
    tw_range_step *s = &p[r->n_steps++];
    *s = (tw_range_step){.name = copy, .n_axes = n_axes};
    for (int a = 0; a < TW_RANGE_AXES; a++) s->units[a] = a < n_axes ? units[a] : 1;
    return s;
}

tw_range_access *tw_ranges_add_access(tw_ranges *r, tw_range_step *s, int buffer, bool write) {
    tw_range_access *p = s ? grow(r, s->accesses, s->n_accesses, sizeof *p) : NULL;
    if (!p) return NULL;
    s->accesses = p;
    p[s->n_accesses] = (tw_range_access){.buffer = buffer, .write = write};
    return &p[s->n_accesses++];
}

int tw_ranges_add_counter(tw_ranges *r, const char *name) {
    const char **p = grow(r, r->counters, r->n_counters, sizeof *p), *copy = tw_arena_strdup(&r->arena, name);
    if (!p || !copy) return -1;
    r->counters = p;
    p[r->n_counters] = copy;
    return r->n_counters++;
}

tw_range_task *tw_ranges_add_task(tw_ranges *r, int worker, int step) {
    tw_range_worker *w = &r->workers[worker];
    tw_range_task *p = grow(r, w->list, w->count, sizeof *p);
    if (!p) return NULL;
    w->list = p;
    p[w->count] = (tw_range_task){.step = step, .arrive = -1};
    for (int a = 0; a < TW_RANGE_AXES; a++) p[w->count].to[a] = r->steps[step].units[a];
    return &p[w->count++];
}

void tw_ranges_add_wait(tw_ranges *r, tw_range_task *t, int counter, int64_t threshold) {
    tw_wait *p = t ? grow(r, t->waits, t->n_waits, sizeof *p) : NULL;
    if (!p) return;
    t->waits = p;
    p[t->n_waits++] = (tw_wait){counter, threshold};
}
