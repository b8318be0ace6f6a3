/* SPDX-License-Identifier: Apache-2.0 */
/* Global and shared memory: objects with gaps between them, and the checks of every access. */
#include "base/diag.h"
#include "base/grow.h"
#include "emu/machine.h"

#include <stdlib.h>

enum { ALIGN = 256, APART = 64 << 20, SHARED_APART = 1024 };

tw_emu *tw_emu_new(void) {
    tw_emu *e = calloc(1, sizeof *e);
    if (e) e->next = 1ull << 33;
    return e;
}

static void object_free(emu_object *o) {
    if (!o) return;
    free((char *)(uintptr_t)o->name);
    free(o->data);
    free(o->written);
    free(o);
}

void tw_emu_free(tw_emu *e) {
    if (!e) return;
    for (int i = 0; i < e->n; i++) object_free(e->objects[i]);
    free(e->objects);
    free(e);
}

uint64_t tw_emu_alloc(tw_emu *e, const char *name, const void *data, size_t bytes, bool read_only) {
    emu_object **const objects = tw_grow(e->objects, e->n, &e->room, 16, sizeof *objects);
    if (!objects) return 0;
    e->objects = objects;
    emu_object *o = calloc(1, sizeof *o);
    if (!o) return 0;
    char *copy = malloc(strlen(name) + 1);
    if (copy) strcpy(copy, name);
    o->name = copy;
    o->data = malloc(bytes + 1);
    o->written = data ? NULL : calloc(bytes + 1, 1);
    if (!o->name || !o->data || (!data && !o->written)) {
        object_free(o);
        return 0;
    }
    if (data && bytes)
        memcpy(o->data, data, bytes);
    else
        memset(o->data, 0xa5, bytes + 1);
    /* The base is an odd multiple of the alignment, so that nobody gets more than was promised. */
    o->base = (e->next / (2 * ALIGN) + 1) * (2 * ALIGN) + ALIGN;
    o->bytes = bytes;
    o->block = -1;
    o->read_only = read_only;
    e->next = o->base + bytes + (bytes > APART ? bytes : APART);
    e->objects[e->n++] = o;
    return o->base;
}

emu_object *emu_object_at(const tw_emu *e, uint64_t address) {
    int low = 0, high = e->n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (e->objects[middle]->base + e->objects[middle]->bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < e->n && e->objects[low]->base <= address ? e->objects[low] : NULL;
}

void tw_emu_release(tw_emu *e, uint64_t address) {
    for (int i = 0; i < e->n; i++) {
        if (e->objects[i]->base != address) continue;
        object_free(e->objects[i]);
        memmove(e->objects + i, e->objects + i + 1, (size_t)(--e->n - i) * sizeof *e->objects);
        return;
    }
}

static emu_object *within(const tw_emu *e, uint64_t address, size_t bytes) {
    emu_object *o = emu_object_at(e, address);
    return o && bytes <= o->bytes - (address - o->base) ? o : NULL;
}

bool tw_emu_read(const tw_emu *e, uint64_t address, void *data, size_t bytes) {
    const emu_object *o = within(e, address, bytes);
    if (o && bytes) memcpy(data, o->data + (address - o->base), bytes);
    return o;
}

bool tw_emu_write(tw_emu *e, uint64_t address, const void *data, size_t bytes) {
    emu_object *o = within(e, address, bytes);
    if (!o) return false;
    if (bytes) memcpy(o->data + (address - o->base), data, bytes);
    if (o->written) memset(o->written + (address - o->base), EMU_WRITTEN, bytes);
    return true;
}

bool tw_emu_written(const tw_emu *e, uint64_t address, size_t bytes) {
    const emu_object *o = within(e, address, bytes);
    if (!o) return false;
    for (size_t i = 0; i < bytes && o->written; i++)
        if (!o->written[address - o->base + i]) return false;
    return true;
}

/* -- shared memory */

tw_status emu_shared_layout(emu_launch *l) {
    const tw_kernel *k = l->kernel;
    uint64_t at = SHARED_APART;
    l->shared = tw_arena_array(&l->arena, (size_t)k->n_shared + 1, sizeof *l->shared);
    if (!l->shared) return tw_fail_memory(l->diag);
    for (int i = 0; i < k->n_shared; i++) {
        const tw_shared *s = &k->shared[i];
        uint64_t align = s->align > 0 ? (uint64_t)s->align : 1;
        /* The base is an odd multiple of the alignment, so that an alignment that is too low shows. */
        uint64_t base = (at / (2 * align) + 1) * (2 * align) + align;
        l->shared[i] = (emu_object){.name = s->name, .base = base, .bytes = (uint64_t)s->bytes};
        at = base + (uint64_t)s->bytes + SHARED_APART + (uint64_t)s->bytes / 2;
        if (at >> EMU_RANK_SHIFT)
            return tw_fail(l->diag, TW_ERR_UNSUPPORTED,
                           "\"%.40s\", of %lld bytes, is beyond the shared memory that the emulator has addresses for",
                           s->name, (long long)s->bytes);
        l->shared_bytes += ((size_t)s->bytes + 15) & ~(size_t)15;
    }
    l->shared_end = (uint32_t)at;
    l->shared_map = tw_arena_array(&l->arena, (size_t)(at >> 4) + 1, sizeof *l->shared_map);
    if (!l->shared_map) return tw_fail_memory(l->diag);
    for (int i = 0; i < k->n_shared; i++)
        for (uint64_t a = l->shared[i].base >> 4; a <= (l->shared[i].base + l->shared[i].bytes - 1) >> 4; a++)
            l->shared_map[a] = (uint16_t)(i + 1);
    return TW_OK;
}

emu_object *emu_shared_at(const emu_launch *l, const emu_block *b, uint64_t address) {
    if (address >= l->shared_end) return NULL;
    int i = l->shared_map[address >> 4];
    if (!i) return NULL;
    emu_object *o = &b->shared[i - 1];
    return address - o->base < o->bytes ? o : NULL;
}

/* -- accesses */

emu_block *emu_block_of(const emu_warp *w, uint64_t address) {
    const emu_launch *l = w->launch;
    int rank = emu_rank(address), number = w->block->number / l->cluster * l->cluster + rank;
    if (rank < 0) return w->block;
    for (int i = 0; rank < l->cluster && i < l->n_resident; i++)
        if (l->resident[i]->number == number) return l->resident[i];
    return NULL;
}

static void out_of_bounds(emu_warp *w, const emu_op *op, const emu_how *how, int lane, int space, uint64_t address,
                          uint32_t bytes) {
    const emu_launch *l = w->launch;
    char where[96], there[96];
    const char *mine = how->write ? "writes" : "reads";
    bool cluster = space == TW_SPACE_cluster;
    const emu_object *o =
        emu_object_below(l, cluster ? TW_SPACE_shared : space, cluster ? address & EMU_RANK_MASK : address);
    emu_address_text(l, w->block, space, address, where, sizeof where);
    emu_address_text(l, w->block, TW_SPACE_cluster, address, there, sizeof there);
    if (cluster && emu_rank(address) < l->cluster && !emu_block_of(w, address))
        emu_find(w, op, lane, TW_EMU_BOUNDS, "%s %u bytes at %s, which has ended", mine, bytes, where);
    else if (space == TW_SPACE_shared && address > EMU_RANK_MASK && strchr(there, '+'))
        emu_find(w, op, lane, TW_EMU_BOUNDS, "%s %u bytes at %s, where nothing is: it means %s, of space=cluster", mine,
                 bytes, where, there);
    else if (o && strchr(where, '+'))
        emu_find(w, op, lane, TW_EMU_BOUNDS, "%s %u bytes at %s, but %.40s has %llu bytes", mine, bytes, where, o->name,
                 (unsigned long long)o->bytes);
    else
        emu_find(w, op, lane, TW_EMU_BOUNDS, "%s %u bytes at %s, where nothing is", mine, bytes, where);
}

/* Checks that bytes are written before they are read, and that they are not an mbarrier's. */
static void check_written(emu_warp *w, const emu_op *op, const emu_how *how, int lane, emu_object *o, uint64_t from,
                          uint32_t bytes) {
    uint8_t *p = o->written + from;
    bool missing = false, mbarrier = false;
    for (uint32_t i = 0; i < bytes; i++) {
        missing |= p[i] == EMU_NOT_WRITTEN;
        mbarrier |= p[i] == EMU_MBARRIER;
    }
    if (mbarrier) emu_mbarrier_over(w, op, lane, o, from, bytes);
    if (how->read && missing) {
        uint32_t first = 0;
        while (p[first]) first++;
        char where[96];
        emu_object_text(w->launch, w->block, o, from + first, where, sizeof where);
        emu_find(w, op, lane, TW_EMU_UNINITIALISED, "reads %s, which nothing has written", where);
    }
    if (how->write) memset(p, EMU_WRITTEN, bytes);
}

static emu_object *find_object(const emu_warp *w, int space, uint64_t *address) {
    emu_launch *l = w->launch;
    if (space == TW_SPACE_shared) return emu_shared_at(l, w->block, *address);
    if (space == TW_SPACE_cluster) {
        const emu_block *b = emu_block_of(w, *address);
        *address &= EMU_RANK_MASK;
        return b ? emu_shared_at(l, b, *address) : NULL;
    }
    if (l->last_object && *address - l->last_object->base < l->last_object->bytes) return l->last_object;
    return l->last_object = emu_object_at(l->emu, *address);
}

/* Checks an access's alignment, and that it does not write a read-only object. False: the access cannot happen. */
static bool allowed(emu_warp *w, const emu_op *op, const emu_how *how, int lane, const emu_object *o, uint64_t from,
                    uint32_t bytes) {
    char where[96];
    uint32_t align = how->align ? how->align : bytes;
    if ((o->base + from) & (align - 1)) {
        emu_object_text(w->launch, w->block, o, from, where, sizeof where);
        emu_find(w, op, lane, TW_EMU_ALIGNMENT, "accesses %u bytes at %s, which is not aligned to %u", bytes, where,
                 align);
    }
    if (!how->write || !o->read_only) return true;
    emu_object_text(w->launch, w->block, o, from, where, sizeof where);
    emu_find(w, op, lane, TW_EMU_READ_ONLY, "writes %s", where);
    return false;
}

/* Checks that the other block of the cluster has started: something that it did must come before. Blocks of a cluster
   are resident together, but one may begin long before another. */
static void check_started(emu_warp *w, const emu_op *op, const emu_how *how, int lane, const emu_object *o,
                          uint64_t from) {
    const emu_launch *l = w->launch;
    int bit = 1 << o->block % l->cluster;
    if (w->started[lane] & bit) return;
    for (int i = 0; i < l->n_warps && !(w->started[lane] & bit); i++)
        for (int of = 0; of < EMU_LANES; of++)
            if (emu_known_of(w, lane, (uint32_t)o->block << l->stride_log2 | (uint32_t)(i * EMU_AGENTS), of)) {
                w->started[lane] |= (uint16_t)bit;
                return;
            }
    char where[96];
    emu_object_text(l, w->block, o, from, where, sizeof where);
    emu_find(w, op, lane, TW_EMU_BOUNDS, "%s %s, which may not have started yet: nothing that it did comes before",
             how->write ? "writes" : "reads", where);
}

/* The previous launch counts as reading and writing all memory that is not read-only, until a griddep_wait. */
static void check_before(emu_warp *w, const emu_op *op, const emu_how *how, int lane, const emu_object *o,
                         uint64_t from) {
    if (emu_knows(w, lane, w->launch->before, 1, 0)) return;
    char where[96];
    emu_object_text(w->launch, w->block, o, from, where, sizeof where);
    emu_find(w, op, lane, TW_EMU_RACE, "%s %s, which the launch before may still use: no griddep_wait comes before",
             how->write ? "writes" : "reads", where);
}

uint8_t *emu_access(emu_warp *w, const emu_op *op, const emu_how *how, int lane, int space, uint64_t address,
                    uint32_t bytes, emu_object **object) {
    uint64_t at = address;
    emu_object *o = find_object(w, space, &at);
    uint64_t from = o ? at - o->base : 0;
    if (!o || bytes > o->bytes - from) {
        out_of_bounds(w, op, how, lane, space, address, bytes);
        return NULL;
    }
    if (!allowed(w, op, how, lane, o, from, bytes)) return NULL;
    if (object) *object = o;
    if (w->launch->checked) {
        if (o->block >= 0 && o->block != w->block->number) check_started(w, op, how, lane, o, from);
        if (o->block < 0 && !o->read_only && w->launch->options->overlaps) check_before(w, op, how, lane, o, from);
        /* Races are checked first, since what a copy in flight will write counts as written. */
        if (!o->read_only) emu_shadow(w, op, how, lane, o, from, bytes);
        if (o->written) check_written(w, op, how, lane, o, from, bytes);
        if (how->write && o->syncs && !how->strength) emu_weak_write(w, o, from, bytes);
    } else if (how->write && o->written) {
        memset(o->written + from, EMU_WRITTEN, bytes);
    }
    if (w->launch->observed) emu_note(w, op, how, lane, o, from, bytes);
    return o->data + from;
}
