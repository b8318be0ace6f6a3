/* SPDX-License-Identifier: Apache-2.0 */
/* The order of accesses, by vector clocks.

   A warp advances its own clock whenever it releases something or its lanes meet. An access is remembered with the
   warp's clock at that time. To know clock c of a thread is to know all that it did at clocks below c. Lanes of a warp
   are not ordered by executing together, but only where they meet (warp_sync, a barrier). So a warp knows of itself the
   clock of the last meeting. Each lane also knows what it did itself. What one lane acquired or released is kept apart
   until the next meeting. */
#include "emu/machine.h"

#include "base/grow.h"

#include <stdlib.h>

bool emu_grow(emu_launch *l, void **list, int n, int *room, size_t size) {
    if (n < *room) return true;
    void *const grown = tw_grow(*list, n, room, 8, size);
    if (grown)
        *list = grown;
    else
        l->failed = l->stop = true;
    return grown;
}

void emu_clock_free(emu_clock *c) {
    free(c->own);
    free(c->more);
    *c = (emu_clock){.block = c->block};
}

void emu_clock_clear(emu_clock *c) {
    c->n = 0;
    c->has = 0;
    free(c->own);
    c->own = NULL;
}

static bool own(emu_launch *l, emu_clock *c) {
    if (!c->own) c->own = calloc((size_t)l->stride, sizeof *c->own);
    if (!c->own) l->failed = l->stop = true;
    return c->own;
}

/* Finds the first entry of this thread, or of one after it. */
static int find(const emu_clock *c, uint32_t thread) {
    int low = 0, high = c->n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (c->more[middle].thread < thread)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void emu_clock_put(emu_launch *l, emu_clock *c, uint32_t thread, uint32_t mask, uint32_t clock) {
    if (thread >> l->stride_log2 == (uint32_t)c->block) {
        uint32_t slot = thread & (uint32_t)(l->stride - 1);
        if (!own(l, c) || c->own[slot] >= clock) return;
        if (mask == EMU_ALL) {
            c->own[slot] = clock;
            if (!c->n) return;
        }
    }
    bool whole = mask == EMU_ALL && thread >> l->stride_log2 == (uint32_t)c->block;
    int at = find(c, thread), keep = at;
    for (int i = at; i < c->n && c->more[i].thread == thread; i++) {
        const emu_entry *e = &c->more[i];
        if (!whole && !(mask & ~e->mask) && e->clock >= clock) return;
        if (!(e->mask & ~mask) && e->clock <= clock) continue;
        if (e->clock == clock) {
            mask |= e->mask;
            continue;
        }
        c->more[keep++] = *e;
    }
    int end = at;
    while (end < c->n && c->more[end].thread == thread) end++;
    /* Entries below `keep` stay, and [keep, end) is free. */
    if (!whole) {
        if (keep == end) {
            if (!emu_grow(l, (void **)&c->more, c->n, &c->room, sizeof *c->more)) return;
            memmove(c->more + end + 1, c->more + end, (size_t)(c->n - end) * sizeof *c->more);
            c->n++;
            end++;
        }
        c->more[keep++] = (emu_entry){thread, mask, clock};
        c->has |= emu_thread_bit(thread);
    }
    memmove(c->more + keep, c->more + end, (size_t)(c->n - end) * sizeof *c->more);
    c->n -= end - keep;
}

void emu_clock_join(emu_launch *l, emu_clock *to, const emu_clock *from) {
    if (from->own && from->block == to->block) {
        if (!own(l, to)) return;
        for (int i = 0; i < l->stride; i++) to->own[i] = to->own[i] > from->own[i] ? to->own[i] : from->own[i];
    } else if (from->own) {
        uint32_t base = (uint32_t)from->block << l->stride_log2;
        for (int i = 0; i < l->stride; i++)
            if (from->own[i]) emu_clock_put(l, to, base + (uint32_t)i, EMU_ALL, from->own[i]);
    }
    for (int i = 0; i < from->n && !l->failed; i++)
        emu_clock_put(l, to, from->more[i].thread, from->more[i].mask, from->more[i].clock);
}

/* Returns the lanes of `mask` of which less than `clock` is known. */
static uint32_t unknown(const emu_launch *l, const emu_clock *c, uint32_t thread, uint32_t mask, uint32_t clock) {
    if (thread >> l->stride_log2 == (uint32_t)c->block && c->own && c->own[thread & (uint32_t)(l->stride - 1)] > clock)
        return 0;
    if (!(c->has & emu_thread_bit(thread))) return mask;
    for (int i = find(c, thread); i < c->n && c->more[i].thread == thread && mask; i++)
        if (c->more[i].clock > clock) mask &= ~c->more[i].mask;
    return mask;
}

bool emu_knows(const emu_warp *w, int lane, uint32_t thread, uint32_t mask, uint32_t clock) {
    uint32_t agent = thread - w->thread;
    if (agent < EMU_AGENTS && (agent == EMU_WARP || w->waited[agent][lane] > clock)) mask &= ~(1u << lane);
    if (mask) mask = unknown(w->launch, &w->known, thread, mask, clock);
    for (int i = 0; i < w->apart.n && mask; i++)
        if (w->apart.list[i].mask >> lane & 1) mask = unknown(w->launch, &w->apart.list[i].clock, thread, mask, clock);
    return !mask;
}

static uint32_t latest(const emu_launch *l, const emu_clock *c, uint32_t thread, int of_lane) {
    uint32_t clock = 0;
    if (thread >> l->stride_log2 == (uint32_t)c->block && c->own) clock = c->own[thread & (uint32_t)(l->stride - 1)];
    if (!(c->has & emu_thread_bit(thread))) return clock;
    for (int i = find(c, thread); i < c->n && c->more[i].thread == thread; i++)
        if (c->more[i].mask >> of_lane & 1 && c->more[i].clock > clock) clock = c->more[i].clock;
    return clock;
}

/* Returns the clock of a thread (of one of its lanes) that a lane knows. */
uint32_t emu_known_of(const emu_warp *w, int lane, uint32_t thread, int of_lane) {
    uint32_t clock = latest(w->launch, &w->known, thread, of_lane), agent = thread - w->thread;
    if (agent && agent < EMU_AGENTS && of_lane == lane && w->waited[agent][lane] > clock)
        clock = w->waited[agent][lane];
    for (int i = 0; i < w->apart.n; i++)
        if (w->apart.list[i].mask >> lane & 1) {
            uint32_t c = latest(w->launch, &w->apart.list[i].clock, thread, of_lane);
            if (c > clock) clock = c;
        }
    return clock;
}

/* -- what some lanes know */

void emu_aparts_free(emu_aparts *a) {
    for (int i = 0; i < a->n; i++) emu_clock_free(&a->list[i].clock);
    free(a->list);
    *a = (emu_aparts){0};
}

static void drop(emu_aparts *a, int i) {
    emu_clock_free(&a->list[i].clock);
    a->list[i] = a->list[--a->n];
}

/* Finds or makes the entry of exactly these lanes. */
static emu_apart *apart(emu_warp *w, emu_aparts *a, uint32_t mask, int scope) {
    for (int i = 0; i < a->n; i++)
        if (a->list[i].mask == mask && a->list[i].scope == scope) return &a->list[i];
    if (!emu_grow(w->launch, (void **)&a->list, a->n, &a->room, sizeof *a->list)) return NULL;
    a->list[a->n] = (emu_apart){.mask = mask, .scope = scope, .clock = {.block = w->block->number}};
    return &a->list[a->n++];
}

static bool everyone(const emu_warp *w, uint32_t mask) {
    return !(w->live & ~mask);
}

void emu_acquire(emu_warp *w, uint32_t mask, const emu_clock *c) {
    if (everyone(w, mask)) {
        emu_clock_join(w->launch, &w->known, c);
        return;
    }
    emu_apart *a = apart(w, &w->apart, mask, 0);
    if (a) emu_clock_join(w->launch, &a->clock, c);
}

/* Adds to `c` what these lanes have waited for of their own copies. */
static void tell_waited(emu_warp *w, uint32_t mask, emu_clock *c) {
    for (int agent = EMU_COPIER; agent < EMU_AGENTS; agent++)
        for (uint32_t left = mask; left;) {
            uint32_t clock = w->waited[agent][__builtin_ctz(left)], same = 0;
            EMU_EACH(lane, left) same |= (uint32_t)(w->waited[agent][lane] == clock) << lane;
            if (clock) emu_clock_put(w->launch, c, emu_agent(w, agent), !(w->all & ~same) ? EMU_ALL : same, clock);
            left &= ~same;
        }
}

/* Adds to `c` what these lanes know, and what they did so far. */
void emu_release(emu_warp *w, uint32_t mask, emu_clock *c) {
    emu_launch *l = w->launch;
    emu_clock_join(l, c, &w->known);
    for (int i = 0; i < w->apart.n; i++)
        if (w->apart.list[i].mask & mask) emu_clock_join(l, c, &w->apart.list[i].clock);
    if (w->waited_apart) tell_waited(w, mask, c);
    w->now++;
    emu_clock_put(l, c, w->thread, !(w->all & ~mask) ? EMU_ALL : mask, w->now);
}

/* Lets lanes meet: each learns what the others did and know. */
void emu_converge(emu_warp *w, uint32_t mask) {
    emu_launch *l = w->launch;
    w->now++;
    if (everyone(w, mask)) {
        for (int i = 0; i < w->apart.n; i++) {
            emu_clock_join(l, &w->known, &w->apart.list[i].clock);
            emu_clock_free(&w->apart.list[i].clock);
        }
        w->apart.n = 0;
        if (w->waited_apart) tell_waited(w, w->all, &w->known);
        w->waited_apart = false;
        emu_clock_put(l, &w->known, w->thread, EMU_ALL, w->now);
        return;
    }
    emu_clock met = {.block = w->block->number};
    for (int i = 0; i < w->apart.n;) {
        emu_apart *a = &w->apart.list[i];
        if (a->mask & mask) emu_clock_join(l, &met, &a->clock);
        if (!(a->mask & ~mask))
            drop(&w->apart, i);
        else
            i++;
    }
    if (w->waited_apart) tell_waited(w, mask, &met);
    emu_clock_put(l, &met, w->thread, mask, w->now);
    emu_acquire(w, mask, &met);
    emu_clock_free(&met);
}

/* A fence: relaxed reads before it acquire, and relaxed writes after it release. */
void emu_fence(emu_warp *w, uint32_t mask, int scope) {
    for (int i = 0; i < w->unfenced.n;) {
        emu_apart *a = &w->unfenced.list[i];
        uint32_t both = a->mask & mask;
        if (both && scope >= a->scope) {
            emu_acquire(w, both, &a->clock);
            a->mask &= ~mask;
        }
        if (!a->mask)
            drop(&w->unfenced, i);
        else
            i++;
    }
    /* Earlier fences that reach no further than this one add nothing to it. */
    for (int i = 0; i < w->fenced.n;) {
        emu_apart *a = &w->fenced.list[i];
        if (a->scope <= scope) a->mask &= ~mask;
        if (!a->mask)
            drop(&w->fenced, i);
        else
            i++;
    }
    emu_apart *a = apart(w, &w->fenced, mask, scope);
    if (!a) return;
    emu_clock_join(w->launch, &a->clock, &w->known);
    for (int i = 0; i < w->apart.n; i++)
        if (w->apart.list[i].mask & mask) emu_clock_join(w->launch, &a->clock, &w->apart.list[i].clock);
    a->at = ++w->now;
}
