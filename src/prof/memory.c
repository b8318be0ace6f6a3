/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/memory.h"

#include "base/diag.h"
#include "base/divide.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

enum { LANES = 32, SECTOR = 32, WORD = 4, BANKS = 32, GROUP = 128 };

/* What a site or an object is found again by. */
typedef struct key {
    const void *op;
    uint64_t base;
    int space;
} key;

struct tw_prof_memory {
    tw_prof_memory_report r;
    int room_sites, room_objects;
    key *site_keys, *object_keys;
    int room_site_keys, room_object_keys;
    int *site_slots; /* A hash table of indices of sites. -1: free. */
    int n_site_slots;
    uint64_t *sorted; /* Room for what an access has of sectors or words. */
    int room_sorted;
    int64_t began; /* Of the launch under way, in the time of the report. */
    int64_t last;  /* The time of its last access in it. */
    bool failed;
};

tw_prof_memory *tw_prof_memory_new(void) {
    tw_prof_memory *m = calloc(1, sizeof *m);
    if (m) m->r.slot = 1;
    return m;
}

void tw_prof_memory_free(tw_prof_memory *m) {
    if (!m) return;
    tw_prof_memory_report_free(&m->r);
    free(m->site_keys);
    free(m->object_keys);
    free(m->site_slots);
    free(m->sorted);
    free(m);
}

void tw_prof_memory_report_free(tw_prof_memory_report *r) {
    for (int i = 0; i < r->n_sites; i++) free(r->sites[i].object);
    for (int i = 0; i < r->n_objects; i++) free(r->objects[i].name);
    free(r->sites);
    free(r->objects);
    *r = (tw_prof_memory_report){0};
}

static char *copy_of(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

/* -- finding sites and objects */

static int *slot_of(const tw_prof_memory *m, const void *op, int space) {
    uint64_t h = ((uint64_t)(uintptr_t)op >> 4) * 0x9e3779b97f4a7c15ull + (uint64_t)space * 0xbf58476d1ce4e5b9ull;
    for (h ^= h >> 29;; h++) {
        int *s = &m->site_slots[h & (uint64_t)(m->n_site_slots - 1)];
        if (*s < 0 || (m->site_keys[*s].op == op && m->site_keys[*s].space == space)) return s;
    }
}

/* At most half of the slots are taken. */
static bool make_slots(tw_prof_memory *m) {
    if (2 * (m->r.n_sites + 1) <= m->n_site_slots) return true;
    const int n = m->n_site_slots ? 2 * m->n_site_slots : 64;
    int *slots = malloc((size_t)n * sizeof *slots);
    if (!slots) return false;
    free(m->site_slots);
    m->site_slots = slots;
    m->n_site_slots = n;
    for (int i = 0; i < n; i++) slots[i] = -1;
    for (int i = 0; i < m->r.n_sites; i++) *slot_of(m, m->site_keys[i].op, m->site_keys[i].space) = i;
    return true;
}

/* NULL: out of memory. */
static tw_prof_memory_site *find_site(tw_prof_memory *m, const tw_emu_access *a) {
    if (!make_slots(m)) return NULL;
    int *slot = slot_of(m, a->op, a->space);
    if (*slot >= 0) return &m->r.sites[*slot];
    tw_prof_memory_site *sites = tw_grow(m->r.sites, m->r.n_sites, &m->room_sites, 32, sizeof *sites);
    if (sites) m->r.sites = sites;
    key *keys = tw_grow(m->site_keys, m->r.n_sites, &m->room_site_keys, 32, sizeof *keys);
    if (keys) m->site_keys = keys;
    char *object = copy_of(a->pieces[0].object);
    if (!sites || !keys || !object) {
        free(object);
        return NULL;
    }
    tw_prof_memory_site *s = &sites[m->r.n_sites];
    *s = (tw_prof_memory_site){.object = object, .space = a->space, .engine = a->engine};
    tw_emu_place(a->op, s->place, sizeof s->place);
    keys[m->r.n_sites] = (key){a->op, a->pieces[0].address - a->pieces[0].offset, a->space};
    *slot = m->r.n_sites++;
    return s;
}

/* There are few objects, and the last one is mostly it. NULL: out of memory. */
static tw_prof_memory_object *find_object(tw_prof_memory *m, const tw_emu_access *a, const tw_emu_piece *p, int *last) {
    const uint64_t base = p->address - p->offset;
    for (int i = *last, n = 0; n < m->r.n_objects; n++, i = (i + 1) % m->r.n_objects) {
        const key *k = &m->object_keys[i];
        if (k->base != base || k->space != a->space || strcmp(m->r.objects[i].name, p->object) != 0) continue;
        *last = i;
        return &m->r.objects[i];
    }
    tw_prof_memory_object *objects = tw_grow(m->r.objects, m->r.n_objects, &m->room_objects, 16, sizeof *objects);
    if (objects) m->r.objects = objects;
    key *keys = tw_grow(m->object_keys, m->r.n_objects, &m->room_object_keys, 16, sizeof *keys);
    if (keys) m->object_keys = keys;
    char *name = copy_of(p->object);
    if (!objects || !keys || !name) {
        free(name);
        return NULL;
    }
    keys[m->r.n_objects] = (key){NULL, base, a->space};
    objects[m->r.n_objects] =
        (tw_prof_memory_object){.name = name, .space = a->space, .size = (int64_t)p->object_bytes};
    *last = m->r.n_objects;
    return &objects[m->r.n_objects++];
}

/* -- an access */

static int ascending(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts n numbers and leaves each once. Returns how many are left. */
static int unite(uint64_t *x, int n) {
    if (!n) return 0;
    qsort(x, (size_t)n, sizeof *x, ascending);
    int last = 0;
    for (int i = 1; i < n; i++)
        if (x[i] != x[last]) x[++last] = x[i];
    return last + 1;
}

/* Notes the units of a size that pieces [from, until) touch, each once. Returns how many, or -1: out of memory. */
static int units_of(tw_prof_memory *m, const tw_emu_piece *pieces, const int *which, int n, int size) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        const tw_emu_piece *p = &pieces[which ? which[i] : i];
        for (uint64_t u = p->address / (uint64_t)size; u <= (p->address + p->bytes - 1) / (uint64_t)size; u++) {
            uint64_t *sorted = tw_grow(m->sorted, count, &m->room_sorted, 256, sizeof *sorted);
            if (!sorted) return -1;
            m->sorted = sorted;
            sorted[count++] = u;
        }
    }
    return unite(m->sorted, count);
}

/* Bytes that lanes touch, each once. `room` has room for a number a lane: an address and, below it, how many bytes. */
static int64_t bytes_of(const tw_emu_access *a, uint64_t *room) {
    enum { SIZE = 16 };
    for (int i = 0; i < a->n; i++) room[i] = a->pieces[i].address << SIZE | a->pieces[i].bytes;
    const int n = unite(room, a->n);
    int64_t sum = 0;
    uint64_t end = 0;
    for (int i = 0; i < n; i++) {
        const uint64_t from = room[i] >> SIZE, until = from + (room[i] & ((1u << SIZE) - 1));
        if (until > end) sum += (int64_t)(until - (from > end ? from : end));
        end = until > end ? until : end;
    }
    return sum;
}

static bool count_sectors(tw_prof_memory *m, tw_prof_memory_site *s, const tw_emu_access *a) {
    const int sectors = units_of(m, a->pieces, NULL, a->n, SECTOR);
    if (sectors < 0) return false;
    s->sectors += sectors;
    int64_t bytes = 0;
    /* Rows of a box do not overlap. */
    if (!a->engine)
        bytes = bytes_of(a, m->sorted);
    else
        for (int i = 0; i < a->n; i++) bytes += a->pieces[i].bytes;
    const int64_t least = tw_ceil_div(bytes, SECTOR);
    s->least_sectors += least < sectors ? least : sectors;
    return true;
}

/* Wavefronts of a group of lanes. -1: out of memory. */
static int count_group(tw_prof_memory *m, tw_prof_memory_site *s, const tw_emu_access *a, const int *which, int n) {
    const int words = units_of(m, a->pieces, which, n, WORD);
    if (words < 0) return -1;
    int banks[BANKS] = {0}, most = 0;
    for (int i = 0; i < words; i++) {
        const int in = ++banks[m->sorted[i] % BANKS];
        most = in > most ? in : most;
    }
    s->wavefronts += most;
    s->least_wavefronts += tw_ceil_div(words, BANKS);
    if (most > s->ways) s->ways = most;
    return most;
}

static bool count_wavefronts(tw_prof_memory *m, tw_prof_memory_site *s, const tw_emu_access *a) {
    const int bytes = (int)a->pieces[0].bytes;
    const int per = bytes <= WORD ? LANES : bytes >= GROUP ? 1 : GROUP / bytes;
    int which[LANES];
    for (int first = 0; first < LANES; first += per) {
        int n = 0;
        for (int i = 0; i < a->n && n < LANES; i++)
            if (a->pieces[i].lane >= first && a->pieces[i].lane < first + per) which[n++] = i;
        if (n && count_group(m, s, a, which, n) < 0) return false;
    }
    return true;
}

/* -- heat and density */

/* Gives each part of the object its share of a piece. */
static void heat(tw_prof_memory_object *o, const tw_emu_piece *p, int64_t times) {
    uint64_t from = p->offset;
    const uint64_t until = p->offset + p->bytes;
    while (from < until && o->size > 0) {
        const uint64_t part = from * TW_PROF_MEMORY_PARTS / (uint64_t)o->size;
        uint64_t end = ((part + 1) * (uint64_t)o->size + TW_PROF_MEMORY_PARTS - 1) / TW_PROF_MEMORY_PARTS;
        if (end > until) end = until;
        o->parts[part] += (int64_t)(end - from) * times;
        from = end;
    }
}

/* The slot of a moment. Slots double until there are few enough. */
static tw_prof_memory_slot *slot_at(tw_prof_memory *m, int64_t time) {
    tw_prof_memory_report *r = &m->r;
    while (time / r->slot >= TW_PROF_MEMORY_SLOTS) {
        for (int i = 0; i < TW_PROF_MEMORY_SLOTS; i++) {
            const tw_prof_memory_slot s = r->slots[i];
            r->slots[i] = (tw_prof_memory_slot){{0}, {0}};
            for (int k = 0; k < 2; k++) {
                r->slots[i / 2].read[k] += s.read[k];
                r->slots[i / 2].written[k] += s.written[k];
            }
        }
        r->slot *= 2;
    }
    const int i = (int)(time / r->slot);
    int n = 0;
    for (int k = 0; k < TW_PROF_MEMORY_SLOTS; k++)
        if (k <= i || k < r->n_slots) n = k + 1;
    r->n_slots = n;
    return &r->slots[i];
}

static bool note(tw_prof_memory *m, const tw_emu_access *a) {
    tw_prof_memory_site *s = find_site(m, a);
    if (!s) return false;
    const int in = a->space == TW_SPACE_global ? 0 : 1;
    if (a->time + m->began < m->last) m->began = m->last + 1; /* Another launch. */
    m->last = a->time + m->began;
    tw_prof_memory_slot *slot = slot_at(m, m->last);
    int last = 0;
    s->read |= a->read;
    s->write |= a->write;
    s->requests++;
    s->lanes += a->n;
    for (int i = 0; i < a->n; i++) {
        const tw_emu_piece *p = &a->pieces[i];
        tw_prof_memory_object *o = find_object(m, a, p, &last);
        if (!o) return false;
        s->bytes += p->bytes;
        s->mixed |= strcmp(p->object, s->object) != 0;
        if (a->read) o->read += p->bytes, slot->read[in] += p->bytes;
        if (a->write) o->written += p->bytes, slot->written[in] += p->bytes;
        heat(o, p, a->read + a->write);
    }
    if (!in) return count_sectors(m, s, a);
    return a->engine || count_wavefronts(m, s, a);
}

void tw_prof_memory_observe(void *memory, const tw_emu_access *a) {
    tw_prof_memory *m = memory;
    if (!m->failed && !note(m, a)) m->failed = true;
}

/* -- the report */

static int64_t waste_of(const tw_prof_memory_site *s) {
    return s->space == TW_SPACE_global ? s->sectors - s->least_sectors : s->wavefronts - s->least_wavefronts;
}

static int most_wasted_first(const void *a, const void *b) {
    const tw_prof_memory_site *x = a, *y = b;
    if (x->space != y->space) return x->space == TW_SPACE_global ? -1 : 1;
    if (waste_of(x) != waste_of(y)) return waste_of(x) > waste_of(y) ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->place, y->place);
}

static int hottest_first(const void *a, const void *b) {
    const tw_prof_memory_object *x = a, *y = b;
    if (x->space != y->space) return x->space == TW_SPACE_global ? -1 : 1;
    const int64_t p = x->read + x->written, q = y->read + y->written;
    if (p != q) return p > q ? -1 : 1;
    return strcmp(x->name, y->name);
}

tw_status tw_prof_memory_finish(tw_prof_memory *m, tw_prof_memory_report *out, tw_diag *diag) {
    const bool failed = m->failed;
    *out = m->r;
    m->r = (tw_prof_memory_report){.slot = 1};
    m->room_sites = m->room_objects = 0;
    for (int i = 0; i < m->n_site_slots; i++) m->site_slots[i] = -1;
    m->began = m->last = 0;
    m->failed = false;
    if (failed) {
        tw_prof_memory_report_free(out);
        return tw_fail_memory(diag);
    }
    if (out->n_sites) qsort(out->sites, (size_t)out->n_sites, sizeof *out->sites, most_wasted_first);
    if (out->n_objects) qsort(out->objects, (size_t)out->n_objects, sizeof *out->objects, hottest_first);
    return TW_OK;
}
