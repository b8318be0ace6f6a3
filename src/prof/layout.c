/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/layout.h"

void tw_prof_layout_free(tw_prof_layout *l) {
    tw_arena_free(&l->arena);
    *l = (tw_prof_layout){0};
}

int64_t tw_prof_blocks(const tw_prof_layout *l, int64_t blocks) {
    if (blocks <= l->first) return 0;
    return (blocks - l->first + l->every - 1) / l->every;
}

int64_t tw_prof_bytes(const tw_prof_layout *l, int64_t blocks) {
    return tw_prof_blocks(l, blocks) * l->block_bytes;
}

int64_t tw_prof_part(const tw_prof_layout *l, int64_t i) {
    return i * l->block_bytes;
}

int64_t tw_prof_block(const tw_prof_layout *l, int64_t i) {
    return l->first + i * l->every;
}
