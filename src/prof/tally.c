/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/tally.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash(const int32_t *key) {
    uint32_t h = 2166136261u;
    for (int i = 0; i < TW_TALLY_KEYS; i++) h = (h ^ (uint32_t)key[i]) * 16777619u, h ^= h >> 15;
    return h;
}

static int32_t *slot_of(const tw_tally *t, const int32_t *key) {
    for (uint32_t i = hash(key);; i++) {
        int32_t *s = &t->slots[i & (uint32_t)(t->n_slots - 1)];
        if (*s < 0 || !memcmp(t->rows[*s].key, key, sizeof t->rows->key)) return s;
    }
}

/* At most half of the slots are taken. */
static bool make_room(tw_tally *t) {
    tw_tally_row *grown = tw_grow(t->rows, t->n, &t->room, 16, sizeof *t->rows);
    if (!grown) return false;
    t->rows = grown;
    if (2 * (t->n + 1) <= t->n_slots) return true;
    const int n = t->n_slots ? 2 * t->n_slots : 64;
    int32_t *slots = malloc((size_t)n * sizeof *slots);
    if (!slots) return false;
    free(t->slots);
    t->slots = slots;
    t->n_slots = n;
    for (int i = 0; i < n; i++) slots[i] = -1;
    for (int i = 0; i < t->n; i++) *slot_of(t, t->rows[i].key) = i;
    return true;
}

bool tw_tally_add(tw_tally *t, const int32_t key[TW_TALLY_KEYS], double x, int32_t where) {
    if (!make_room(t)) return false;
    int32_t *s = slot_of(t, key);
    if (*s < 0) {
        *s = t->n;
        tw_tally_row *r = &t->rows[t->n++];
        *r = (tw_tally_row){.longest = -1};
        memcpy(r->key, key, sizeof r->key);
    }
    tw_tally_row *r = &t->rows[*s];
    r->sum += x;
    r->count++;
    if (x > r->longest) {
        r->longest = x;
        r->where = where;
    }
    return true;
}

static int greatest_first(const void *a, const void *b) {
    const tw_tally_row *x = a, *y = b;
    if (x->sum != y->sum) return x->sum > y->sum ? -1 : 1;
    for (int i = 0; i < TW_TALLY_KEYS; i++)
        if (x->key[i] != y->key[i]) return x->key[i] < y->key[i] ? -1 : 1;
    return 0;
}

void tw_tally_sort(tw_tally *t) {
    if (t->n) qsort(t->rows, (size_t)t->n, sizeof *t->rows, greatest_first);
}

void tw_tally_free(tw_tally *t) {
    free(t->rows);
    free(t->slots);
    *t = (tw_tally){0};
}
