/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/names.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a with a seed, whose upper bits reach the lower ones in the end. The seed, a place in memory, differs from run
   to run, so that no file has names that all collide. */
static uint32_t hash_of(const tw_names *names, const char *name) {
    uint32_t h = 2166136261u ^ (uint32_t)((uintptr_t)names->slots >> 4);
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 16777619u;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    return h ^ h >> 13;
}

/* Returns the slot of a name: its own, or the empty one where it belongs. */
static tw_name *slot_of(const tw_names *names, const char *name) {
    const uint32_t mask = (uint32_t)names->room - 1;
    for (uint32_t at = hash_of(names, name) & mask;; at = (at + 1) & mask) {
        tw_name *slot = &names->slots[at];
        if (!slot->name || !strcmp(slot->name, name)) return slot;
    }
}

static bool grow(tw_names *names) {
    const tw_names old = *names;
    if (old.n < old.room / 2) return true;
    if (old.room > INT_MAX / 2) return false;
    names->room = old.room ? 2 * old.room : 64;
    names->slots = calloc((size_t)names->room, sizeof *names->slots);
    if (!names->slots) {
        *names = old;
        return false;
    }
    for (int i = 0; i < old.room; i++)
        if (old.slots[i].name) *slot_of(names, old.slots[i].name) = old.slots[i];
    free(old.slots);
    return true;
}

int tw_names_find(const tw_names *names, const char *name) {
    const tw_name *slot = names->room ? slot_of(names, name) : NULL;
    return slot && slot->name ? slot->number : -1;
}

bool tw_names_add(tw_names *names, const char *name, int number) {
    if (!grow(names)) return false;
    *slot_of(names, name) = (tw_name){name, number};
    names->n++;
    return true;
}

void tw_names_free(tw_names *names) {
    free(names->slots);
    *names = (tw_names){0};
}
