/* SPDX-License-Identifier: Apache-2.0 */
#include "device/target.h"

#include <stddef.h>
#include <string.h>

static const tw_target targets[] = {
#define TARGET(...) {__VA_ARGS__},
#include "device/targets.def"
#undef TARGET
};
enum { TARGETS = sizeof targets / sizeof *targets };

static bool exact(const tw_target *t) {
    return t->name[strlen(t->name) - 1] == 'a';
}

const tw_target *tw_target_find(const char *name) {
    size_t n = strlen(name);
    for (int i = 0; i < TARGETS; i++) {
        const char *theirs = targets[i].name;
        if (!strcmp(theirs, name)) return &targets[i];
        if (exact(&targets[i]) && n + 1 == strlen(theirs) && !strncmp(theirs, name, n)) return &targets[i];
    }
    return NULL;
}

const tw_target *tw_target_at(int index) {
    return index >= 0 && index < TARGETS ? &targets[index] : NULL;
}

const tw_target *tw_target_for(int sm) {
    for (int i = TARGETS - 1; i >= 0; i--)
        if (targets[i].sm == sm || (targets[i].sm < sm && !exact(&targets[i]))) return &targets[i];
    return NULL;
}

static int up(int x, int unit) {
    return (x + unit - 1) / unit * unit;
}

static int least(int a, int b) {
    return a < b ? a : b;
}

int tw_target_blocks(const tw_target *t, int threads, int registers, int shared_bytes) {
    int warps = (threads + 31) / 32;
    if (threads < 1 || threads > 1024 || registers > t->thread_registers || shared_bytes > t->shared_block ||
        shared_bytes < 0)
        return 0;
    int blocks = least(t->blocks, t->warps / warps);
    if (registers > 0) {
        /* Warps go to the parts in turn, so a block must fit as if it had a multiple of their number. */
        int of_warp = up(registers * 32, t->register_unit), resident = t->registers / t->parts / of_warp * t->parts;
        if (up(warps, t->parts) > resident) return 0;
        blocks = least(blocks, resident / warps);
    }
    return least(blocks, t->shared_sm / up(shared_bytes + t->shared_reserved, t->shared_unit));
}
