/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash(const char *s, size_t n) {
    uint64_t h = 0x9e3779b97f4a7c15u ^ n;
    for (; n >= 8; s += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, s, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    uint64_t w = 0;
    if (n) memcpy(&w, s, n);
    h = (h ^ w) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
    h *= 0xc4ceb9fe1a85ec53u;
    return (uint32_t)(h >> 32);
}

static bool same(const tw_vocab *v, int32_t id, const char *piece, size_t size) {
    return v->lengths[id] == size && !memcmp(v->pieces[id], piece, size);
}

static bool grow_slots(tw_vocab *v) {
    uint32_t slots = v->mask ? (v->mask + 1) * 2 : 1024;
    int32_t *s = malloc(slots * sizeof *s);
    if (!s) return false;
    memset(s, 0xff, slots * sizeof *s);
    for (uint32_t i = 0; v->mask && i <= v->mask; i++) {
        int32_t id = v->slots[i];
        if (id < 0) continue;
        uint32_t h = hash(v->pieces[id], v->lengths[id]) & (slots - 1);
        while (s[h] >= 0) h = (h + 1) & (slots - 1);
        s[h] = id;
    }
    free(v->slots);
    v->slots = s;
    v->mask = slots - 1;
    return true;
}

static bool grow_ids(tw_vocab *v, int64_t need) {
    int64_t room = v->room ? v->room : 256;
    while (room < need) room *= 2;
    const char **pieces = realloc(v->pieces, (size_t)room * sizeof *pieces);
    if (!pieces) return false;
    v->pieces = pieces;
    uint32_t *lengths = realloc(v->lengths, (size_t)room * sizeof *lengths);
    if (!lengths) return false;
    v->lengths = lengths;
    uint8_t *flags = realloc(v->flags, (size_t)room);
    if (!flags) return false;
    v->flags = flags;
    for (int64_t i = v->room; i < room; i++) {
        pieces[i] = NULL;
        lengths[i] = 0;
        flags[i] = 0;
    }
    v->room = room;
    return true;
}

tw_vocab_result tw_vocab_add(tw_vocab *v, const char *piece, size_t size, int64_t id, uint8_t flags) {
    if (id >= v->room && !grow_ids(v, id + 1)) return TW_VOCAB_MEMORY;
    if (v->pieces[id]) return TW_VOCAB_ID_TAKEN;
    if ((!v->mask || v->used * 2 > v->mask) && !grow_slots(v)) return TW_VOCAB_MEMORY;
    uint32_t h = hash(piece, size) & v->mask;
    for (; v->slots[h] >= 0; h = (h + 1) & v->mask)
        if (same(v, v->slots[h], piece, size)) return TW_VOCAB_PIECE_TAKEN;
    v->slots[h] = (int32_t)id;
    v->used++;
    v->pieces[id] = piece;
    v->lengths[id] = (uint32_t)size;
    v->flags[id] = flags;
    if (id >= v->size) v->size = id + 1;
    return TW_VOCAB_OK;
}

int32_t tw_vocab_find(const tw_vocab *v, const char *piece, size_t size) {
    if (!v->mask) return -1;
    for (uint32_t h = hash(piece, size) & v->mask; v->slots[h] >= 0; h = (h + 1) & v->mask)
        if (same(v, v->slots[h], piece, size)) return v->slots[h];
    return -1;
}

int32_t tw_vocab_model(const tw_vocab *v, const char *piece, size_t size) {
    int32_t id = tw_vocab_find(v, piece, size);
    return id >= 0 && v->flags[id] & TW_TOKEN_MODEL ? id : -1;
}

void tw_vocab_free(tw_vocab *v) {
    free(v->pieces);
    free(v->lengths);
    free(v->flags);
    free(v->slots);
    *v = (tw_vocab){0};
}
