/* SPDX-License-Identifier: Apache-2.0 */
#include "select/cache.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 6, KEY = 3 };

typedef struct entry {
    /* Sequence number of a sequence lock. 0: the entry was never written. Odd: a thread is writing the entry. */
    alignas(64) _Atomic uint64_t turn;
    /* The key and the answer: three words of two axes each, a word of flags and choice, the time, the error. */
    _Atomic uint64_t words[WORDS];
} entry;
_Static_assert(sizeof(entry) == 64, "a cache line");

struct select_cache {
    entry entries[SELECT_ENTRIES];
};

select_cache *select_cache_open(void) {
    select_cache *c = aligned_alloc(64, sizeof *c);
    if (c) memset(c, 0, sizeof *c);
    return c;
}

void select_cache_close(select_cache *c) {
    free(c);
}

static void fill(uint64_t w[WORDS], const uint32_t *problem, unsigned flags, const select_answer *a) {
    for (int i = 0; i < KEY; i++) w[i] = problem[2 * i] | (uint64_t)problem[2 * i + 1] << 32;
    uint32_t error;
    memcpy(&error, &a->error, sizeof error);
    w[KEY] = (uint64_t)flags << 32 | (uint64_t)a->source << 24 | (uint64_t)a->micro << 16 | a->macro;
    memcpy(&w[KEY + 1], &a->time, sizeof a->time);
    w[KEY + 2] = error;
}

/* The acquire loads of the words order the second load of the turn after them. A word that a later writer stored makes
   that writer's turn visible, too. */
bool select_cache_get(const select_cache *c, uint64_t hash, const uint32_t *problem, unsigned flags,
                      select_answer *out) {
    const entry *e = &c->entries[hash % SELECT_ENTRIES];
    uint64_t w[WORDS];
    const uint64_t turn = atomic_load_explicit(&e->turn, memory_order_acquire);
    for (int i = 0; i < WORDS; i++) w[i] = atomic_load_explicit(&e->words[i], memory_order_acquire);
    if (!turn || turn & 1 || atomic_load_explicit(&e->turn, memory_order_relaxed) != turn) return false;
    for (int i = 0; i < KEY; i++)
        if (w[i] != (problem[2 * i] | (uint64_t)problem[2 * i + 1] << 32)) return false;
    if (w[KEY] >> 32 != flags) return false;
    out->source = (uint8_t)(w[KEY] >> 24);
    out->micro = (uint8_t)(w[KEY] >> 16);
    out->macro = (uint16_t)w[KEY];
    const uint32_t error = (uint32_t)w[KEY + 2];
    memcpy(&out->error, &error, sizeof error);
    memcpy(&out->time, &w[KEY + 1], sizeof out->time);
    return true;
}

void select_cache_put(select_cache *c, uint64_t hash, const uint32_t *problem, unsigned flags, const select_answer *a) {
    entry *e = &c->entries[hash % SELECT_ENTRIES];
    uint64_t w[WORDS], turn = atomic_load_explicit(&e->turn, memory_order_relaxed);
    if (turn & 1 ||
        !atomic_compare_exchange_strong_explicit(&e->turn, &turn, turn + 1, memory_order_acquire, memory_order_relaxed))
        return;
    fill(w, problem, flags, a);
    for (int i = 0; i < WORDS; i++) atomic_store_explicit(&e->words[i], w[i], memory_order_release);
    atomic_store_explicit(&e->turn, turn + 2, memory_order_release);
}
