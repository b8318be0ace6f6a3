/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of a tensor map: checked whole where they are issued, as bulk copies are, and copied row by row when they land.
 */
#include "emu/machine.h"

enum { PIECE = 16, PATTERN = 8 /* rows after which the swizzle begins anew */ };

bool emu_map_usable(const tw_tensor_map *m) {
    if (!m || m->address % 16 || m->row_bytes % 16 || m->row_bytes < 0 || m->row_bytes >> 40) return false;
    if (m->element_bytes < 1 || m->element_bytes > 8 || (m->element_bytes & (m->element_bytes - 1))) return false;
    for (int i = 0; i < 2; i++)
        if (m->extent[i] < 1 || m->extent[i] >> 32 || m->box[i] < 1 || m->box[i] > 256) return false;
    const int row = m->box[0] * m->element_bytes;
    const bool known = m->swizzle == 32 || m->swizzle == 64 || m->swizzle == 128;
    return m->swizzle ? known && row == m->swizzle : row % 16 == 0;
}

/* What of a box's row is within the matrix: elements [*from, the result). */
static int64_t clip(const tw_tensor_map *m, int64_t x, int64_t y, int64_t *from) {
    int64_t below = m->extent[0] - x;
    *from = x < 0 ? -x : 0;
    if (y < 0 || y >= m->extent[1]) return 0;
    return below < m->box[0] ? below : m->box[0];
}

static uint32_t swizzled(const tw_tensor_map *m, uint32_t address) {
    return m->swizzle ? address ^ (address >> 3 & (uint32_t)(m->swizzle - PIECE)) : address;
}

void emu_box_land(const emu_copy *c, int lane) {
    const tw_tensor_map *m = c->map;
    const int row = m->box[0] * m->element_bytes;
    unsigned char line[2048];
    for (int i = 0; i < m->box[1]; i++) {
        int64_t from, below = clip(m, c->box_at[0], c->box_at[1] + i, &from);
        memset(line, 0, (size_t)row);
        if (from < below) {
            const int64_t at = (c->box_at[1] + i) * m->row_bytes + (c->box_at[0] + from) * m->element_bytes;
            tw_emu_read(c->warp->launch->emu, m->address + (uint64_t)at, line + from * m->element_bytes,
                        (size_t)((below - from) * m->element_bytes));
        }
        for (int p = 0; p < row; p += PIECE) {
            uint32_t to = c->box_to + (uint32_t)(i * row + p);
            memcpy(c->to[lane] + (swizzled(m, to) - c->box_to), line + p, PIECE);
        }
    }
}

/* Whether all that a box takes from memory may be read. */
static bool readable(emu_warp *w, const emu_op *op, int lane, const tw_tensor_map *m, const int64_t at[2],
                     const emu_how *how) {
    for (int i = 0; i < m->box[1]; i++) {
        int64_t from, below = clip(m, at[0], at[1] + i, &from);
        if (from >= below) continue;
        const int64_t offset = (at[1] + i) * m->row_bytes + (at[0] + from) * m->element_bytes;
        const uint32_t bytes = (uint32_t)((below - from) * m->element_bytes);
        if (!emu_access(w, op, how, lane, TW_SPACE_global, m->address + (uint64_t)offset, bytes, NULL)) return false;
    }
    return true;
}

typedef struct box {
    const tw_tensor_map *map;
    int64_t at[2];
    uint32_t to, full; /* in shared memory: its place and its mbarrier */
} box;

/* To this block (rank < 0), or to one of its cluster. */
static void load_box(emu_warp *w, const emu_op *op, int lane, const box *x, int rank) {
    const tw_tensor_map *map = x->map;
    const uint64_t in_cluster = rank < 0 ? 0 : (uint64_t)(rank + 1) << EMU_RANK_SHIFT;
    const int bytes = map->box[0] * map->box[1] * map->element_bytes;
    emu_block *home = emu_block_of(w, in_cluster | x->to);
    if (!home) {
        emu_find(w, op, lane, TW_EMU_BOUNDS, "copies to block rank %d of its cluster, which has ended", rank);
        return;
    }
    emu_mbarrier *m = emu_mbarrier_usable_in(w, home, op, lane, x->full);
    if (!m) return;
    const uint32_t thread = (uint32_t)home->number << w->launch->stride_log2 | (uint32_t)m->slot;
    emu_how into = {.write = true, .async = true, .thread = thread, .clock = m->phase};
    emu_how out_of = {.read = true, .async = true, .thread = thread, .clock = m->phase, .align = 1};
    into.align = map->swizzle ? (uint32_t)(PATTERN * map->swizzle) : 128;
    uint8_t *p = emu_access(w, op, &into, lane, rank < 0 ? TW_SPACE_shared : TW_SPACE_cluster, in_cluster | x->to,
                            (uint32_t)bytes, NULL);
    if (!p || !readable(w, op, lane, map, x->at, &out_of)) return;
    emu_copy *c = emu_copy_issue(w, op, EMU_WARP, 0);
    if (!c) return;
    c->mask = 1u << lane;
    c->home = home;
    c->map = map;
    memcpy(c->box_at, x->at, sizeof x->at);
    c->box_to = x->to;
    c->to[lane] = p;
    c->bytes[lane] = c->source[lane] = bytes;
    c->mbarrier[lane] = x->full;
    c->phase[lane] = m->phase;
    m->copied = m->phase + 1;
    m->copies++;
    emu_copy_launch(w->launch, c);
}

emu_next emu_exec_tensor_load(emu_warp *w, const emu_op *op) {
    const int ranks = op->ir->at.ranks;
    EMU_EACH(lane, emu_guarded(w, op)) {
        const int i = (int)lane;
        const box x = {.map = (const tw_tensor_map *)(uintptr_t)emu_get(w, op->in[1], i),
                       .at = {(int32_t)emu_get(w, op->in[2], i), (int32_t)emu_get(w, op->in[3], i)},
                       .to = (uint32_t)emu_get(w, op->in[0], i),
                       .full = (uint32_t)emu_get(w, op->in[4], i)};
        if (!ranks) load_box(w, op, i, &x, -1);
        for (int r = 0; ranks >> r; r++)
            if (ranks >> r & 1) load_box(w, op, i, &x, r);
    }
    return EMU_GO;
}

emu_next emu_exec_tensor_prefetch(emu_warp *w, const emu_op *op) {
    (void)w, (void)op;
    return EMU_GO;
}
