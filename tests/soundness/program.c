/* SPDX-License-Identifier: Apache-2.0 */
#include "soundness/program.h"

#include "soundness/memory.h"

#include <stdlib.h>
#include <string.h>

/* Never empty, so that a count of zero still has an address. */
static void *array(tw_schedule *s, int count, size_t size) {
    void *p = tw_arena_array(&s->arena, (size_t)count + 1, size);
    if (!p) abort();
    return p;
}

static void *copied(tw_schedule *s, const void *from, int count, int extra, size_t size) {
    void *p = array(s, count + extra, size);
    if (count) memcpy(p, from, (size_t)count * size);
    return p;
}

tw_schedule *program_copy(const tw_schedule *s) {
    tw_schedule *n = malloc(sizeof *n);
    if (!n) abort();
    *n = *s;
    n->arena = (tw_arena){0};
    n->buffers = copied(n, s->buffers, s->n_buffers, 0, sizeof *s->buffers);
    n->counters = copied(n, s->counters, s->n_counters, 0, sizeof *s->counters);
    n->workers = copied(n, s->workers, s->n_workers, 0, sizeof *s->workers);
    for (int w = 0; w < s->n_workers; w++) {
        n->workers[w].list = copied(n, s->workers[w].list, s->workers[w].count, 0, sizeof(tw_instr));
        for (int i = 0; i < s->workers[w].count; i++) {
            tw_instr *in = &n->workers[w].list[i];
            in->waits = copied(n, in->waits, in->n_waits, 0, sizeof *in->waits);
        }
    }
    return n;
}

int program_instructions(const tw_schedule *s) {
    int n = 0;
    for (int w = 0; w < s->n_workers; w++) n += s->workers[w].count;
    return n;
}

void program_add_wait(tw_schedule *s, tw_instr *in, tw_wait wait) {
    in->waits = copied(s, in->waits, in->n_waits, 1, sizeof wait);
    in->waits[in->n_waits++] = wait;
}

void program_drop_wait(tw_instr *in, int i) {
    in->n_waits--;
    memmove(&in->waits[i], &in->waits[i + 1], (size_t)(in->n_waits - i) * sizeof *in->waits);
}

void program_insert(tw_schedule *s, int worker, int at, tw_instr in) {
    tw_worker *w = &s->workers[worker];
    in.waits = copied(s, in.waits, in.n_waits, 0, sizeof *in.waits);
    w->list = copied(s, w->list, w->count, 1, sizeof *w->list);
    memmove(&w->list[at + 1], &w->list[at], (size_t)(w->count - at) * sizeof *w->list);
    w->list[at] = in;
    w->count++;
}

void program_remove(tw_schedule *s, int worker, int at) {
    tw_worker *w = &s->workers[worker];
    w->count--;
    memmove(&w->list[at], &w->list[at + 1], (size_t)(w->count - at) * sizeof *w->list);
}

int program_add_counter(tw_schedule *s) {
    s->counters = copied(s, s->counters, s->n_counters, 1, sizeof *s->counters);
    char *name = tw_arena_printf(&s->arena, "fine.%d", s->n_counters);
    if (!name) abort();
    s->counters[s->n_counters] = (tw_counter){name, 0};
    return s->n_counters++;
}

int program_arrivals(const tw_schedule *s, int counter) {
    int n = 0;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) n += s->workers[w].list[i].arrive == counter;
    return n;
}

/* ---- finer counters ---- */

/* Elements that one step's instructions touch, wherever it is. */
typedef struct sharing {
    order o;
    touch_space space;
    memory mem;
} sharing;

static void sharing_open(sharing *x, tw_schedule *s) {
    int who;
    touch_step step = {.n = s->tokens};
    *x = (sharing){0};
    if (!touch_space_set(&x->space, s)) abort();
    order_run(&x->o, s, 1);
    if (memory_set(&x->mem, &x->o, &x->space, &step, &who) != HAZARD_NONE) abort();
}

static void sharing_close(sharing *x) {
    order_free(&x->o);
    touch_space_free(&x->space);
    memory_free(&x->mem);
}

void program_refine(tw_schedule *s, tw_random *r, int sparse) {
    sharing x;
    int element, total = program_instructions(s);
    sharing_open(&x, s);
    int *stage = malloc(((size_t)total + 1) * sizeof *stage), *own = malloc(((size_t)total + 1) * sizeof *own);
    if (!stage || !own) abort();
    for (int i = 0; i < total; i++) {
        tw_instr *in = &s->workers[x.o.worker[i]].list[i - x.o.first[x.o.worker[i]]];
        stage[i] = in->arrive;
        own[i] = in->arrive < 0 ? -1 : program_add_counter(s);
        in->arrive = own[i];
    }
    for (int i = 0; i < total; i++) {
        tw_instr *in = &s->workers[x.o.worker[i]].list[i - x.o.first[x.o.worker[i]]];
        tw_wait *waits = in->waits;
        int n = in->n_waits;
        in->n_waits = 0;
        in->waits = array(s, total, sizeof *in->waits);
        for (int k = 0; k < n; k++)
            for (int p = 0; p < total; p++) {
                if (stage[p] != waits[k].counter) continue;
                bool needed = in->op == TW_INSTR_OUTPUT || memory_conflict(&x.mem, p, i, &element);
                if (needed || draw_below(r, 4) >= sparse) in->waits[in->n_waits++] = (tw_wait){own[p], 1};
            }
    }
    free(stage);
    free(own);
    sharing_close(&x);
}
