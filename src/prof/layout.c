/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/layout.h"

void tw_prof_layout_free(tw_prof_layout *l) {
    tw_arena_free(&l->arena);
    *l = (tw_prof_layout){0};
}

static bool selects(const tw_prof_layout *l) {
    return l->first > 0 || l->every > 1;
}

int64_t tw_prof_blocks(const tw_prof_layout *l, int64_t blocks) {
    if (blocks <= l->first) return 0;
    return (blocks - l->first + l->every - 1) / l->every;
}

/* Records in global memory of blocks that are not selected go to a part of their own, the first. */
static int64_t spare(const tw_prof_layout *l) {
    return l->global && selects(l);
}

int64_t tw_prof_bytes(const tw_prof_layout *l, int64_t blocks) {
    return (tw_prof_blocks(l, blocks) + spare(l)) * l->block_bytes;
}

int64_t tw_prof_part(const tw_prof_layout *l, int64_t i) {
    return (i + spare(l)) * l->block_bytes;
}

int64_t tw_prof_block(const tw_prof_layout *l, int64_t i) {
    return l->first + i * l->every;
}
