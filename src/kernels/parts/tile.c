/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/tile.h"

enum { K = 32 /* Bytes along k of a wgmma. */ };

static int pitch(const tw_tile *t) {
    return t->width * t->es;
}

static int box_bytes(const tw_tile *t) {
    return t->lines * pitch(t);
}

tw_tile tw_tile_of(bool k_major, int es, int extent, int depth) {
    tw_tile t = {.k_major = k_major, .es = es, .extent = extent, .depth = depth};
    const int along = (k_major ? depth : extent) * es;
    t.width = (along > TW_TILE_LINE / 2 ? TW_TILE_LINE : along > TW_TILE_LINE / 4 ? TW_TILE_LINE / 2 : K) / es;
    t.lines = k_major ? extent : depth;
    t.boxes = ((k_major ? depth : extent) + t.width - 1) / t.width;
    return t;
}

tw_tile tw_tile_of_pieces(int extent, int depth) {
    enum { WIDTH = TW_TILE_PIECE_LINE / 2 };
    return (tw_tile){.k_major = true,
                     .es = 2,
                     .extent = extent,
                     .depth = depth,
                     .width = WIDTH,
                     .lines = extent,
                     .boxes = depth / WIDTH,
                     .pieces = true};
}

tw_tile tw_tile_cut(tw_tile t, int most) {
    for (; t.width > most; t.width /= 2) t.boxes *= 2;
    return t;
}

int tw_tile_bytes(const tw_tile *t) {
    return t->boxes * box_bytes(t);
}

/* Returns the bytes from a row, or a column of B, to the eighth after it. Lines lie along k. */
static int eight_rows(const tw_tile *t) {
    return TW_TILE_ROWS * (t->pieces ? t->depth * t->es : pitch(t));
}

int tw_tile_offset(const tw_tile *t, int row, int k) {
    if (t->pieces) return row / TW_TILE_ROWS * eight_rows(t) + k / t->width * TW_TILE_PIECE + k % t->width * t->es;
    if (t->k_major) return k / t->width * box_bytes(t) + row * pitch(t) + k % t->width * t->es;
    return row / t->width * box_bytes(t) + k * pitch(t);
}

tw_tensor_map tw_tile_map(const tw_tile *t, const tw_tile_matrices *m, int parts) {
    return (tw_tensor_map){.address = m->address,
                           .element = t->es == 1   ? TW_TENSOR_U8
                                      : t->es == 2 ? TW_TENSOR_U16
                                                   : TW_TENSOR_U32,
                           .dims = m->sets    ? 4
                                   : m->count ? 3
                                              : 2,
                           .extent = {t->k_major ? m->k : m->extent, t->k_major ? m->extent : m->k, m->count, m->sets},
                           .stride = {0, m->row_bytes, m->matrix_bytes, m->set_bytes},
                           .box = {t->width, t->lines / parts, 1, 1},
                           .swizzle = pitch(t)};
}

void tw_tile_fetch(tw_builder *b, const tw_tile *t, const tw_tile_copy *c) {
    tw_val to = c->to, along = t->k_major ? c->k : c->origin, across = t->k_major ? c->origin : c->k;
    if (c->blocks > 1) {
        const int part = t->lines / c->blocks;
        tw_val rank = tw_sreg(b, TW_SREG_cluster_rank);
        to = tw_add(b, to, tw_mul_imm(b, rank, (int64_t)part * pitch(t)));
        across = tw_add(b, across, tw_mul_imm(b, rank, part));
    }
    const tw_attrs at = {.ranks = c->blocks > 1 ? (1 << c->blocks) - 1 : 0,
                         .dims = c->set.id      ? 4
                                 : c->matrix.id ? 3
                                                : 2};
    const int parts = c->parts ? c->parts : 1, lines = t->lines / parts;
    for (int i = 0; i < t->boxes * parts; i++) {
        const int part = i % parts, number = i / parts;
        const int element = number * t->width;
        tw_val k = along;
        if (c->run && element >= c->run) k = tw_add(b, k, tw_mul_imm(b, c->apart, element / c->run));
        const tw_box box = {.map = c->map,
                            .at = {tw_add_imm(b, k, c->run ? element % c->run : element),
                                   tw_add_imm(b, across, (int64_t)part * lines), c->matrix, c->set}};
        tw_val place = tw_add_imm(b, to, (int64_t)number * box_bytes(t) + (int64_t)part * lines * pitch(t));
        if (part) tw_when(b, tw_lt(b, tw_i32(b, part), c->present));
        tw_tensor_load_box(b, at, place, &box, c->full, TW_NONE);
    }
}

/* Only the lower 18 bits are taken, since an address in a cluster has the block's rank above them. */
tw_val tw_tile_descriptor(tw_builder *b, const tw_tile *t, tw_val address) {
    const int first = t->k_major ? 1 : box_bytes(t) / 16;
    address = tw_and(b, address, tw_i32(b, 0x3ffff));
    return tw_add_imm(b, tw_shr(b, address, 4), (int64_t)first << 16);
}

tw_val tw_tile_at(tw_builder *b, const tw_tile *t, tw_val low, int row, int k) {
    const int offset = tw_tile_offset(t, row, k);
    const uint32_t swizzle = pitch(t) == 128 ? 1 : pitch(t) == 64 ? 2 : 3;
    tw_val high = tw_i32(b, (int32_t)(swizzle << 30 | (uint32_t)(t->k_major ? eight_rows(t) : 8 * pitch(t)) / 16));
    return tw_binary(b, TW_OP_pack_i64_i32, tw_add_imm(b, low, offset / 16), high);
}

static const char *const products = "products";

void tw_tile_wait(tw_builder *b, int pending) {
    tw_record_wait(b, products, TW_ENGINE_OF_tensor, pending);
    tw_do(b, TW_OP_wgmma_wait, (tw_attrs){.count = pending}, TW_NONE, TW_NONE);
    tw_record_end(b, products);
}

void tw_tile_wait_before(tw_builder *b) {
    tw_record_wait(b, products, TW_ENGINE_OF_tensor, 1);
    tw_do(b, TW_OP_wgmma_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_record_end(b, products);
}

void tw_tile_wait_named(tw_builder *b, const char *name, int pending) {
    tw_record_wait(b, name, TW_ENGINE_OF_tensor, 0);
    tw_do(b, TW_OP_wgmma_wait, (tw_attrs){.count = pending}, TW_NONE, TW_NONE);
    tw_record_end(b, name);
}

void tw_tile_begin_named(tw_builder *b, const char *name) {
    tw_record_arrive(b, name, TW_ARRIVAL_own, TW_ENGINE_OF_tensor);
    tw_do(b, TW_OP_wgmma_fence, (tw_attrs){0}, TW_NONE, TW_NONE);
}

void tw_tile_begin(tw_builder *b) {
    tw_tile_begin_named(b, products);
}

void tw_tile_multiply(tw_builder *b, const tw_tile_product *p) {
    const tw_attrs at = {
        .wgmma = p->kind, .columns = p->y->extent, .trans_a = !p->x->k_major, .trans_b = !p->y->k_major};
    const int sums = tw_wgmma_registers(p->kind, p->y->extent);
    tw_val yes = tw_const(b, TW_T_pred, 1);
    tw_tile_begin_named(b, p->name ? p->name : products);
    for (int k = 0; k < p->x->depth; k += K / p->x->es)
        for (int i = 0; i < p->rows / TW_WGMMA_ROWS; i++) {
            tw_val x = tw_tile_at(b, p->x, p->x_at, i * TW_WGMMA_ROWS, k), y = tw_tile_at(b, p->y, p->y_at, 0, k);
            tw_wgmma(b, at, p->sums + (ptrdiff_t)i * sums, x, y, k ? yes : p->add);
        }
    tw_do(b, TW_OP_wgmma_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
}
