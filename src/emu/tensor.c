/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor copies. A box is checked as a whole when the copy is issued, and moved row by row when it lands. */
#include "emu/machine.h"

enum {
    PIECE = 16,  /* Bytes that a swizzle moves together. */
    PATTERN = 8, /* Rows after which a swizzle repeats. */
    LINE = 2048  /* The most bytes of a row. */
};

/* -- places of a box's rows */

/* A row of a box in global memory. */
typedef struct row {
    uint64_t address; /* The address of byte 0 of the row, even if that is outside of the array. */
    int from, below;  /* Bytes [from, below) of the row are within the array. */
} row;

/* Computes the coordinates of row i, except c[0]. */
static void tile_row(const emu_box *x, int i, int64_t c[TW_TENSOR_DIMS]) {
    for (int d = 1; d < x->map->dims; d++) {
        const int n = tw_tensor_map_count(x->map, d);
        c[d] = x->at[d] + (int64_t)(i % n) * tw_tensor_map_step(x->map, d);
        i /= n;
    }
}

/* Counts the pixels of the bounding box along a dimension of space. */
static int64_t pixels_along(const tw_tensor_map *m, int d) {
    return (m->extent[d] - 1 + m->upper[d - 1] - m->lower[d - 1]) / tw_tensor_map_step(m, d) + 1;
}

static void pixel_row(const emu_box *x, int64_t i, int64_t c[TW_TENSOR_DIMS]) {
    const tw_tensor_map *m = x->map;
    for (int d = 1; d < m->dims - 1; d++) {
        const int64_t n = pixels_along(m, d), step = tw_tensor_map_step(m, d);
        i += (x->at[d] - m->lower[d - 1]) / step;
        c[d] = m->lower[d - 1] + i % n * step + x->offset[d];
        i /= n;
    }
    c[m->dims - 1] = x->at[m->dims - 1] + i;
}

static row row_of(const emu_box *x, int i) {
    const tw_tensor_map *m = x->map;
    const int bytes = tw_tensor_element_bytes(m->element), width = tw_tensor_map_row_bytes(m) / bytes;
    int64_t c[TW_TENSOR_DIMS] = {x->at[0]}, from = x->at[0] < 0 ? -x->at[0] : 0, below = m->extent[0] - x->at[0];
    if (m->im2col)
        pixel_row(x, i, c);
    else
        tile_row(x, i, c);
    row r = {.address = m->address + (uint64_t)(c[0] * bytes)};
    if (below > width) below = width;
    for (int d = 1; d < m->dims; d++) {
        if (c[d] < 0 || c[d] >= m->extent[d]) return r;
        r.address += (uint64_t)(c[d] * m->stride[d]);
    }
    if (from >= below) return r;
    r.from = (int)from * bytes;
    r.below = (int)below * bytes;
    return r;
}

/* Computes the row that a store writes. A store writes whole pieces, so bytes after the array in its last piece are
   overwritten. This was measured on an H200. No manual says so. */
static row stored_row_of(const emu_box *x, int i) {
    row r = row_of(x, i);
    r.below = (r.below + PIECE - 1) / PIECE * PIECE;
    return r;
}

/* Computes the offset from the beginning of the box in shared memory to byte `at` of row i. */
static uint32_t place_of(const emu_box *x, int i, int at) {
    const uint32_t swizzle = (uint32_t)x->map->swizzle;
    uint32_t address = x->place + (uint32_t)(i * tw_tensor_map_row_bytes(x->map) + at);
    if (swizzle) address ^= address >> 3 & (swizzle - PIECE);
    return address - x->place;
}

/* -- landing */

static void land_load(const emu_copy *c, int lane) {
    const emu_box *x = &c->box;
    const int bytes = tw_tensor_map_row_bytes(x->map), rows = tw_tensor_map_rows(x->map);
    unsigned char line[LINE];
    for (int i = 0; i < rows; i++) {
        const row r = row_of(x, i);
        memset(line, 0, (size_t)bytes);
        if (r.from < r.below)
            tw_emu_read(c->warp->launch->emu, r.address + (uint64_t)r.from, line + r.from, (size_t)(r.below - r.from));
        for (int at = 0; at < bytes; at += PIECE) memcpy(c->to[lane] + place_of(x, i, at), line + at, PIECE);
    }
}

static void land_store(const emu_copy *c, int lane) {
    const emu_box *x = &c->box;
    const int rows = tw_tensor_map_rows(x->map);
    unsigned char line[LINE];
    for (int i = 0; i < rows; i++) {
        const row r = stored_row_of(x, i);
        if (r.from >= r.below) continue;
        for (int at = r.from; at < r.below; at += PIECE) memcpy(line + at, c->from[lane] + place_of(x, i, at), PIECE);
        const uint64_t to = r.address + (uint64_t)r.from;
        const emu_object *o = emu_object_at(c->warp->launch->emu, to);
        const uint32_t bytes = (uint32_t)(r.below - r.from);
        if (c->op->ir->code == TW_OP_tensor_reduce)
            emu_reduce(c->op, o->data + (to - o->base), line + r.from, bytes);
        else
            memcpy(o->data + (to - o->base), line + r.from, bytes);
    }
}

void emu_box_land(const emu_copy *c, int lane) {
    if (c->op->ir->code == TW_OP_tensor_load)
        land_load(c, lane);
    else
        land_store(c, lane);
}

/* -- issue */

/* Reads the map and the coordinates from operand `at` on, and the im2col offsets from operand `offsets` on (0: none).
   Returns false after a finding. */
static bool take_box(emu_warp *w, const emu_op *op, int lane, int at, int offsets, emu_box *x) {
    const int dims = op->ir->at.dims ? op->ir->at.dims : 2;
    *x = (emu_box){.map = (const tw_tensor_map *)(uintptr_t)emu_get(w, op->in[at], lane)};
    const tw_tensor_map *m = x->map;
    if (m->dims != dims || m->im2col != (op->ir->at.im2col != 0)) {
        emu_find(w, op, lane, TW_EMU_ALIGNMENT, "takes a box of %d dimensions%s from a tensor map of %d%s", dims,
                 op->ir->at.im2col ? " by im2col" : "", m->dims, m->im2col ? " by im2col" : "");
        return false;
    }
    for (int d = 0; d < dims; d++) x->at[d] = (int32_t)emu_get(w, op->in[at + 1 + d], lane);
    /* Measured on an H200: any other box ends in an illegal instruction. No manual says so. */
    const int64_t into = x->at[0] * tw_tensor_element_bytes(m->element);
    if (into % PIECE) {
        emu_find(w, op, lane, TW_EMU_ALIGNMENT, "begins %lld bytes into a row: not a multiple of %d", (long long)into,
                 PIECE);
        return false;
    }
    if (!m->im2col) return true;
    for (int d = 1; d < dims - 1; d++) {
        const int64_t from = x->at[d] - m->lower[d - 1], step = tw_tensor_map_step(m, d);
        if (offsets) x->offset[d] = (uint16_t)emu_get(w, op->in[offsets + d - 1], lane);
        if (from >= 0 && from % step == 0 && from / step < pixels_along(m, d)) continue;
        emu_find(w, op, lane, TW_EMU_BOUNDS, "begins at %lld of dimension %d, where its bounding box has no pixel",
                 (long long)x->at[d], d);
        return false;
    }
    return true;
}

static uint32_t align_of(const tw_tensor_map *m) {
    return m->swizzle ? (uint32_t)(PATTERN * m->swizzle) : 128;
}

/* Checks the global accesses of a box. Returns false after a finding. */
static bool reachable(emu_warp *w, const emu_op *op, int lane, const emu_box *x, emu_how how) {
    const int rows = tw_tensor_map_rows(x->map);
    how.align = 1;
    for (int i = 0; i < rows; i++) {
        const row r = how.write ? stored_row_of(x, i) : row_of(x, i);
        if (r.from < r.below && !emu_access(w, op, &how, lane, TW_SPACE_global, r.address + (uint64_t)r.from,
                                            (uint32_t)(r.below - r.from), NULL))
            return false;
    }
    return true;
}

/* Issues a load to block `rank` of the cluster. A negative rank is the warp's own block. */
static void load_box(emu_warp *w, const emu_op *op, int lane, const emu_box *x, uint32_t full, int rank) {
    const uint64_t in_cluster = rank < 0 ? 0 : (uint64_t)(rank + 1) << EMU_RANK_SHIFT;
    const int bytes = tw_tensor_map_rows(x->map) * tw_tensor_map_row_bytes(x->map);
    emu_block *home = emu_block_of(w, in_cluster | x->place);
    if (!home) {
        emu_find(w, op, lane, TW_EMU_BOUNDS, "copies to block rank %d of its cluster, which has ended", rank);
        return;
    }
    emu_mbarrier *m = emu_mbarrier_usable_in(w, home, op, lane, full);
    if (!m) return;
    const uint32_t thread = (uint32_t)home->number << w->launch->stride_log2 | (uint32_t)m->slot;
    const emu_how into = {.write = true, .async = true, .thread = thread, .clock = m->phase, .align = align_of(x->map)};
    const emu_how out_of = {.read = true, .async = true, .thread = thread, .clock = m->phase};
    uint8_t *p = emu_access(w, op, &into, lane, rank < 0 ? TW_SPACE_shared : TW_SPACE_cluster, in_cluster | x->place,
                            (uint32_t)bytes, NULL);
    if (!p || !reachable(w, op, lane, x, out_of)) return;
    emu_copy *c = emu_copy_issue(w, op, EMU_WARP, 0);
    if (!c) return;
    c->mask = 1u << lane;
    c->home = home;
    c->box = *x;
    c->to[lane] = p;
    c->bytes[lane] = c->source[lane] = bytes;
    c->mbarrier[lane] = full;
    c->phase[lane] = m->phase;
    m->copied = m->phase + 1;
    m->copies++;
    emu_copy_launch(w->launch, c);
}

emu_next emu_exec_tensor_load(emu_warp *w, const emu_op *op) {
    const int ranks = op->ir->at.ranks, dims = op->ir->at.dims ? op->ir->at.dims : 2;
    EMU_EACH(lane, emu_guarded(w, op)) {
        const int i = (int)lane;
        emu_box x;
        if (!take_box(w, op, i, 1, dims + 3, &x)) continue;
        x.place = (uint32_t)emu_get(w, op->in[0], i);
        const uint32_t full = (uint32_t)emu_get(w, op->in[2 + dims], i);
        if (!ranks) load_box(w, op, i, &x, full, -1);
        for (int r = 0; ranks >> r; r++)
            if (ranks >> r & 1) load_box(w, op, i, &x, full, r);
    }
    return EMU_GO;
}

/* Checks where a store begins. On an H200 any other box ends in an illegal instruction. This was measured. No manual
   says so. Returns false after a finding. */
static bool storable(emu_warp *w, const emu_op *op, int lane, const emu_box *x) {
    const tw_tensor_map *m = x->map;
    for (int d = 0; d < m->dims; d++) {
        if (x->at[d] >= 0) continue;
        emu_find(w, op, lane, TW_EMU_BOUNDS, "begins at %lld of dimension %d: only a load begins before the array",
                 (long long)x->at[d], d);
        return false;
    }
    for (int d = 1; m->im2col && d < m->dims - 1; d++) {
        if (m->lower[d - 1] >= 0 && m->upper[d - 1] <= 0) continue;
        emu_find(w, op, lane, TW_EMU_BOUNDS,
                 "is by im2col, and its bounding box is larger than the array in dimension %d", d);
        return false;
    }
    return true;
}

/* Checks the shared reads of a store, which skips pieces outside of the array. Returns the box in shared memory, or
   NULL after a finding. */
static uint8_t *read_box(emu_warp *w, const emu_op *op, int lane, const emu_box *x, emu_how how) {
    const int rows = tw_tensor_map_rows(x->map);
    char where[96];
    emu_object *o = emu_shared_at(w->launch, w->block, x->place);
    emu_address_text(w->launch, w->block, TW_SPACE_shared, x->place, where, sizeof where);
    if (x->place % align_of(x->map))
        emu_find(w, op, lane, TW_EMU_ALIGNMENT, "copies a box from %s, which is not aligned to %u", where,
                 align_of(x->map));
    if (!o) {
        emu_find(w, op, lane, TW_EMU_BOUNDS, "copies a box from %s, where nothing is", where);
        return NULL;
    }
    how.align = 1;
    for (int i = 0; i < rows; i++) {
        const row r = stored_row_of(x, i);
        for (int at = r.from; at < r.below; at += PIECE)
            if (!emu_access(w, op, &how, lane, TW_SPACE_shared, x->place + place_of(x, i, at), PIECE, NULL))
                return NULL;
    }
    return o->data + (x->place - o->base);
}

/* Issues stores or reductions, each in a bulk group of its lane. */
static emu_next box_out(emu_warp *w, const emu_op *op, bool reduces) {
    const uint32_t mask = emu_guarded(w, op);
    const int dims = op->ir->at.dims ? op->ir->at.dims : 2;
    if (!mask) return EMU_GO;
    const uint32_t clock = emu_bulk_clock(w);
    EMU_EACH(lane, mask) {
        const int i = (int)lane;
        emu_box x;
        if (!take_box(w, op, i, 0, 0, &x) || !storable(w, op, i, &x)) continue;
        x.place = (uint32_t)emu_get(w, op->in[1 + dims], i);
        uint8_t *from = read_box(w, op, i, &x, emu_bulk_source(w, clock));
        if (!from || !reachable(w, op, i, &x, emu_bulk_target(w, clock, reduces))) continue;
        emu_copy *c = emu_copy_issue(w, op, EMU_BULK_WRITER, clock);
        if (!c) return EMU_GO;
        c->mask = 1u << lane;
        c->box = x;
        c->from[lane] = from;
        w->issued[EMU_BULK_READER][lane] = clock;
        emu_copy_launch(w->launch, c);
    }
    return EMU_GO;
}

emu_next emu_exec_tensor_store(emu_warp *w, const emu_op *op) {
    return box_out(w, op, false);
}

/* True if the element type fits the operation. The device reduces in the map's type; the operation names none. */
static bool combines(const tw_attrs *at, tw_tensor_element e) {
    const bool is_signed = at->rmw == TW_RMW_min_s32 || at->rmw == TW_RMW_max_s32;
    const bool any = at->rmw == TW_RMW_add || at->rmw == TW_RMW_and || at->rmw == TW_RMW_or || at->rmw == TW_RMW_xor;
    switch (at->type) {
    case TW_T_i32:
        return any ? e == TW_TENSOR_U32 || e == TW_TENSOR_S32 : e == (is_signed ? TW_TENSOR_S32 : TW_TENSOR_U32);
    case TW_T_i64:
        return e == TW_TENSOR_U64 || e == TW_TENSOR_S64;
    case TW_T_f16:
        return e == TW_TENSOR_F16;
    case TW_T_bf16:
        return e == TW_TENSOR_BF16;
    case TW_T_f32:
        return e == TW_TENSOR_F32;
    default:
        return e == TW_TENSOR_F64;
    }
}

emu_next emu_exec_tensor_reduce(emu_warp *w, const emu_op *op) {
    EMU_EACH(lane, emu_guarded(w, op)) {
        const tw_tensor_map *m = (const tw_tensor_map *)(uintptr_t)emu_get(w, op->in[0], (int)lane);
        if (combines(&op->ir->at, m->element)) continue;
        emu_find(w, op, (int)lane, TW_EMU_ALIGNMENT,
                 "combines %s, but the elements of the tensor map are of another type",
                 tw_type_name((tw_type)op->ir->at.type));
        return EMU_GO;
    }
    return box_out(w, op, true);
}

emu_next emu_exec_tensor_prefetch_box(emu_warp *w, const emu_op *op) {
    const int dims = op->ir->at.dims ? op->ir->at.dims : 2;
    EMU_EACH(lane, emu_guarded(w, op)) {
        emu_box x;
        take_box(w, op, (int)lane, 0, 1 + dims, &x);
    }
    return EMU_GO;
}

emu_next emu_exec_tensor_prefetch(emu_warp *w, const emu_op *op) {
    (void)w, (void)op;
    return EMU_GO;
}
