/* SPDX-License-Identifier: Apache-2.0 */
/* Releases and acquires through memory. A strong read acquires what the last strong write at its address released. A
   relaxed write releases what a fence before it covers. A relaxed read acquires at the next fence. A read-modify-write
   carries on what was released before it, and a plain write ends it. */
#include "emu/machine.h"

#include <stdlib.h>

static uint64_t key_of(const emu_object *o, uint64_t from) {
    /* Shared addresses are below 2^32, global ones above. */
    uint64_t address = (o->base + from) & ~3ull;
    return o->block >= 0 ? address | (uint64_t)(uint32_t)o->block << 32 | 1ull << 63 : address;
}

/* Returns how far two blocks are apart. */
static int distance(const emu_launch *l, int a, int b) {
    return a == b ? EMU_NEAR : a / l->cluster == b / l->cluster ? EMU_CLUSTER : EMU_FAR;
}

/* Returns how far a scope reaches. */
static int reach_of(int scope) {
    return scope >= TW_SCOPE_gpu ? EMU_FAR : scope == TW_SCOPE_cluster ? EMU_CLUSTER : EMU_NEAR;
}

/* Returns the least scope that reaches that far. */
static int scope_to(int distance) {
    return distance == EMU_FAR ? TW_SCOPE_gpu : distance == EMU_CLUSTER ? TW_SCOPE_cluster : TW_SCOPE_cta;
}

static void free_clocks(emu_sync *s) {
    for (int i = 0; i < EMU_DISTANCES; i++) emu_clock_free(&s->to[i]);
    free(s);
}

static uint32_t slot_of(const emu_launch *l, uint64_t key) {
    return (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 32) & (l->room_syncs - 1);
}

static emu_sync *find(const emu_launch *l, uint64_t key) {
    if (!l->n_syncs) return NULL;
    emu_sync *s = l->syncs[slot_of(l, key)];
    while (s && s->key != key) s = s->next;
    return s;
}

static bool widen(emu_launch *l) {
    uint32_t room = l->room_syncs ? l->room_syncs * 2 : 64, old = l->room_syncs;
    emu_sync **table = calloc(room, sizeof *table), **was = l->syncs;
    if (!table) {
        l->failed = l->stop = true;
        return false;
    }
    l->syncs = table;
    l->room_syncs = room;
    for (uint32_t i = 0; i < old; i++)
        for (emu_sync *s = was[i], *next; s; s = next) {
            next = s->next;
            uint32_t at = slot_of(l, s->key);
            s->next = table[at];
            table[at] = s;
        }
    free(was);
    return true;
}

static emu_sync *make(emu_launch *l, uint64_t key, int block, emu_object *o) {
    if (l->n_syncs >= l->room_syncs && !widen(l)) return NULL;
    emu_sync *s = calloc(1, sizeof *s);
    if (!s) {
        l->failed = l->stop = true;
        return NULL;
    }
    uint32_t at = slot_of(l, key);
    *s = (emu_sync){.key = key, .block = block, .next = l->syncs[at]};
    for (int i = 0; i < EMU_DISTANCES; i++) s->to[i].block = block;
    l->syncs[at] = s;
    l->n_syncs++;
    o->syncs++;
    return s;
}

static void drop(emu_launch *l, uint64_t key, emu_object *o) {
    emu_sync **p = &l->syncs[slot_of(l, key)];
    while (*p && (*p)->key != key) p = &(*p)->next;
    emu_sync *s = *p;
    if (!s) return;
    *p = s->next;
    free_clocks(s);
    l->n_syncs--;
    o->syncs--;
}

void emu_syncs_free(emu_launch *l) {
    for (uint32_t i = 0; i < l->room_syncs; i++)
        for (emu_sync *s = l->syncs[i], *next; s; s = next) {
            next = s->next;
            free_clocks(s);
        }
    free(l->syncs);
}

static bool releases(int order) {
    return order == TW_ORDER_release || order == TW_ORDER_acq_rel || order == TW_ORDER_sc;
}
static bool acquires(int order) {
    return order == TW_ORDER_acquire || order == TW_ORDER_acq_rel || order == TW_ORDER_sc;
}

/* Returns how far a write reaches with the fences before it. -1: there was no fence. */
static int reach_of_fences(const emu_warp *w, int lane, int scope) {
    int reach = -1;
    for (int i = 0; i < w->fenced.n; i++) {
        const emu_apart *a = &w->fenced.list[i];
        int both = a->scope < scope ? a->scope : scope;
        if (a->mask >> lane & 1 && both > reach) reach = both;
    }
    return reach;
}

/* Adds what the fences released that reach that far. */
static void release_fenced(emu_warp *w, int lane, int scope, int reach, emu_clock *c) {
    for (int i = 0; i < w->fenced.n; i++) {
        const emu_apart *a = &w->fenced.list[i];
        int both = a->scope < scope ? a->scope : scope;
        if (!(a->mask >> lane & 1) || both < reach) continue;
        emu_clock_join(w->launch, c, &a->clock);
        emu_clock_put(w->launch, c, w->thread, 1u << lane, a->at);
    }
}

void emu_strong_write(emu_warp *w, uint32_t mask, int lane, emu_object *o, uint64_t from, int order, int scope,
                      bool rmw) {
    emu_launch *l = w->launch;
    uint64_t key = key_of(o, from);
    emu_sync *s = o->syncs ? find(l, key) : NULL;
    int reach = releases(order) ? scope : reach_of_fences(w, lane, scope);
    if (reach < 0) {
        if (s && !rmw) drop(l, key, o);
        if (s && rmw) s->block = w->block->number;
        return;
    }
    if (!s) s = make(l, key, w->block->number, o);
    if (!s) return;
    /* A release that does not reach everybody is kept for the block, or the cluster, of the last writer. */
    int way = reach_of(reach);
    for (int i = 0; i < EMU_DISTANCES; i++)
        if (!rmw || (i == way && i < distance(l, s->to[i].block, w->block->number))) {
            emu_clock_clear(&s->to[i]);
            s->to[i].block = w->block->number;
        }
    emu_clock *c = &s->to[way];
    s->block = w->block->number;
    s->version = l->versions += EMU_DISTANCES;
    if (releases(order))
        emu_release(w, mask, c);
    else
        release_fenced(w, lane, scope, reach, c);
}

/* Acquires a clock, or keeps it for a fence that reaches as far. */
static void acquire(emu_warp *w, uint32_t mask, const emu_clock *c, uint64_t version, int order, int needs) {
    emu_launch *l = w->launch;
    if (acquires(order)) {
        emu_acquired *a = &w->acquired[version & (EMU_ACQUIRED - 1)];
        if (a->version == version && a->mask == mask) return;
        emu_acquire(w, mask, c);
        *a = (emu_acquired){version, mask};
        return;
    }
    emu_aparts *a = &w->unfenced;
    for (int i = 0; i < a->n; i++)
        if (a->list[i].mask == mask && a->list[i].scope == needs) {
            emu_clock_join(l, &a->list[i].clock, c);
            return;
        }
    if (!emu_grow(l, (void **)&a->list, a->n, &a->room, sizeof *a->list)) return;
    a->list[a->n] = (emu_apart){.mask = mask, .scope = needs, .clock = {.block = w->block->number}};
    emu_clock_join(l, &a->list[a->n++].clock, c);
}

void emu_strong_read(emu_warp *w, uint32_t mask, emu_object *o, uint64_t at, int order, int scope) {
    if (!o->syncs) return;
    const emu_launch *l = w->launch;
    const emu_sync *s = find(l, key_of(o, at));
    if (!s) return;
    int away = distance(l, s->block, w->block->number);
    for (int i = 0; i < EMU_DISTANCES; i++) {
        if (distance(l, s->to[i].block, w->block->number) > i) continue; /* This release does not reach the block. */
        int from = away < i ? away : i;
        if (reach_of(scope) >= from) acquire(w, mask, &s->to[i], s->version + (uint64_t)i, order, scope_to(from));
    }
}

void emu_weak_write(emu_warp *w, emu_object *o, uint64_t from, uint32_t bytes) {
    for (uint64_t at = from & ~3ull; at < from + bytes; at += 4) drop(w->launch, key_of(o, at), o);
}
