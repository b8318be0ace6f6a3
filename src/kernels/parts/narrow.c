/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/narrow.h"

#include "kernels/parts/convert.h"

enum {
    STEP = 16,     /* Elements along k of a wgmma. */
    REGISTERS = 4, /* Registers of its A. */
    VECTOR = 16,   /* Bytes of a load. */
    WORDS = VECTOR / 4,
    THREADS = 128 /* Of a warpgroup. */
};

int tw_narrow_block_bytes(const tw_narrow *n) {
    return TW_NARROW_ROWS * TW_NARROW_K * n->bits / 8;
}

int64_t tw_narrow_blocks(int64_t k) {
    return (k + TW_NARROW_DEPTH - 1) / TW_NARROW_DEPTH * (TW_NARROW_DEPTH / TW_NARROW_K);
}

int64_t tw_narrow_groups(const tw_narrow *n, int64_t k) {
    return n->group ? (tw_narrow_blocks(k) * TW_NARROW_K + n->group - 1) / n->group : 0;
}

/* A word has the elements of one step, k and k + 1 in its halves: four registers of 4-bit integers, two of 8-bit ones.
   Registers 2 i and 2 i + 1 have rows that are eight apart. */
int tw_narrow_bit(const tw_narrow *n, int row, int k) {
    const int thread = row / 16 * 32 + row % 8 * 4 + k % 8 / 2, step = k / STEP;
    const int r = k % STEP / 8 * 2 + row % 16 / 8, per_word = 16 / n->bits;
    const int word = (step * REGISTERS + r) / per_word;
    const int at = word / WORDS * THREADS * WORDS + thread * WORDS + word % WORDS;
    return at * 32 + k % 2 * 16 + r % per_word * n->bits;
}

int tw_narrow_scale(int row) {
    return row / 16 * 16 + row % 8 * 2 + row % 16 / 8;
}

int tw_narrow_tile_bytes(const tw_narrow_tile *t) {
    return t->extent * t->depth * t->of.bits / 8;
}

static int groups_of(const tw_narrow_tile *t) {
    if (!t->of.group) return 0;
    return t->depth > t->of.group ? t->depth / t->of.group : 1;
}

int tw_narrow_tile_scale_bytes(const tw_narrow_tile *t) {
    return t->extent / TW_NARROW_ROWS * groups_of(t) * TW_NARROW_SCALE_BYTES;
}

/* -- fetching */

static void bulk_load(tw_builder *b, tw_val to, tw_val from, int bytes, tw_val full) {
    tw_emit(b, TW_OP_bulk_load, (tw_attrs){0}, NULL, NULL, 0, (tw_val[]){to, from, tw_i32(b, bytes), full}, 4);
}

static tw_val place(tw_builder *b, tw_val base, tw_val number, int bytes) {
    return tw_add(b, base, tw_mul_imm(b, tw_widen(b, number), bytes));
}

/* Computes x / d, rounded up. */
static tw_val ceil_div(tw_builder *b, tw_val x, int d) {
    return tw_div(b, tw_add_imm(b, x, d - 1), d);
}

void tw_narrow_fetch(tw_builder *b, const tw_narrow_tile *t, const tw_narrow_copy *c) {
    const int block = tw_narrow_block_bytes(&t->of), group = t->of.group, n = groups_of(t);
    const int bytes = t->depth / TW_NARROW_K * block, scale_bytes = n * TW_NARROW_SCALE_BYTES;
    tw_val deep = tw_mul_imm(b, ceil_div(b, c->k_extent, TW_NARROW_DEPTH), TW_NARROW_DEPTH);
    tw_val first = tw_div(b, c->row, TW_NARROW_ROWS), column = tw_div(b, c->k, TW_NARROW_K);
    tw_val last = tw_add_imm(b, ceil_div(b, c->rows, TW_NARROW_ROWS), -1);
    for (int i = 0; i < t->extent / TW_NARROW_ROWS; i++) {
        tw_val row = tw_min(b, tw_add_imm(b, first, i), last);
        tw_val from = tw_fma(b, row, tw_div(b, deep, TW_NARROW_K), column);
        bulk_load(b, tw_add_imm(b, c->to, (int64_t)i * bytes), place(b, c->integers, from, block), bytes, c->full);
        if (!group) continue;
        from = tw_fma(b, row, ceil_div(b, deep, group), tw_div(b, c->k, group));
        bulk_load(b, tw_add_imm(b, c->scales_to, (int64_t)i * scale_bytes),
                  place(b, c->scales, from, TW_NARROW_SCALE_BYTES), scale_bytes, c->full);
    }
}

/* -- conversion: an integer becomes the fraction of a number whose last bit of fraction is 1, which is subtracted
   again. All of this is exact. */

static tw_val pair(tw_builder *b, tw_type t, uint32_t half) {
    return tw_const(b, t == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2, half | half << 16);
}

static tw_val both(tw_builder *b, uint32_t half) {
    return tw_i32(b, (int32_t)(half | half << 16));
}

static tw_val fma_pairs(tw_builder *b, tw_type t, tw_val x, tw_val y, tw_val z) {
    return tw_op_emit(b, t == TW_T_f16 ? TW_OP_fma_f16x2 : TW_OP_fma_bf16x2, x, y, z);
}

static tw_val as_pair(tw_builder *b, tw_type t, tw_val x) {
    return tw_bitcast(b, t == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2, x);
}

/* Computes (x & mask) ^ flip. */
static tw_val replace_bits(tw_builder *b, tw_val x, uint32_t mask, uint32_t flipped, tw_type t) {
    return as_pair(b, t, tw_op_emit(b, TW_OP_and_xor_i32, x, both(b, mask), both(b, flipped)));
}

/* Makes 1024 + 128 + q, or 1024 + 16 (8 + q) where 4 bits are read in place. */
static tw_val to_f16(tw_builder *b, int bits, tw_val word, int r) {
    const int shift = r * bits / 8 * 8, upper = r * bits % 8; /* upper: the integer is in the upper half of a byte. */
    const uint32_t mask = (bits == 8 ? 0xffu : 0xfu) << upper, sign = bits == 8 ? 0x80u : 0x8u << upper;
    tw_val x = replace_bits(b, tw_shr(b, word, shift), mask, 0x6400 | sign, TW_T_f16);
    /* 1152, 1032 and 72. */
    const uint32_t by = upper ? 0x2c00 : 0x3c00, less = bits == 8 ? 0xe480 : upper ? 0xd480 : 0xe408;
    return fma_pairs(b, TW_T_f16, x, pair(b, TW_T_f16, by), pair(b, TW_T_f16, less));
}

/* Makes 128 + 8 + q of 4 bits. Of 8 bits seven fit the fraction, and the sign makes 128 or 256. */
static tw_val to_bf16(tw_builder *b, int bits, tw_val word, int r) {
    tw_val x = tw_shr(b, word, r * bits), one = pair(b, TW_T_bf16, 0x3f80);
    if (bits == 4) {
        x = replace_bits(b, x, 0xf, 0x4308, TW_T_bf16);
        return fma_pairs(b, TW_T_bf16, x, one, pair(b, TW_T_bf16, 0xc308));
    }
    tw_val low = replace_bits(b, x, 0x7f, 0x4300, TW_T_bf16), high = replace_bits(b, x, 0x80, 0x4300, TW_T_bf16);
    return fma_pairs(b, TW_T_bf16, high, pair(b, TW_T_bf16, 0xbf80), low);
}

/* -- multiplication */

/* A part has so many elements along k of all rows, so that one descriptor of B does for them. An even number of parts
   per stage makes the choice between two sets of fragments a constant. */
static int depth_of_part(const tw_narrow_product *p) {
    const bool half = p->rows > TW_NARROW_ROWS || p->x->depth == TW_NARROW_K;
    return half || (p->x->of.on_sums && p->x->of.group < TW_NARROW_K) ? TW_NARROW_K / 2 : TW_NARROW_K;
}

/* Elements along k whose sums are scaled together. */
static int depth_of_sums(const tw_narrow_product *p) {
    return p->x->depth < p->x->of.group ? p->x->depth : p->x->of.group;
}

static int count_sums(const tw_narrow_product *p) {
    return tw_wgmma_registers(TW_WGMMA_bf16, p->y->extent);
}

int tw_narrow_parts(const tw_narrow_product *p) {
    return p->x->depth / depth_of_part(p);
}

tw_val tw_narrow_thread(tw_builder *b, tw_val thread) {
    return tw_mul_imm(b, thread, VECTOR);
}

tw_val tw_narrow_thread_scales(tw_builder *b, tw_val thread) {
    return tw_mul_imm(b, tw_shr(b, thread, 2), 4);
}

/* Elements along k of a thread's vector of integers. */
static int depth_of_vector(const tw_narrow *n) {
    return n->bits == 4 ? TW_NARROW_K : TW_NARROW_K / 2;
}

static void load_integers(tw_builder *b, tw_narrow_product *p, int row, int vector) {
    const int vectors = p->x->depth / depth_of_vector(&p->x->of);
    const tw_attrs from = {.type = TW_T_i32,
                           .vec = WORDS,
                           .space = TW_SPACE_shared,
                           .offset = (row * vectors + vector) * THREADS * VECTOR};
    if (!p->words[row][vector][0].id) tw_ld_vec(b, from, p->x_at, p->words[row][vector]);
}

/* Loads the scales of two rows, and makes a pair of each. */
static void load_scales(tw_builder *b, tw_narrow_product *p, int row, int group) {
    const int at = (row * groups_of(p->x) + group) * TW_NARROW_SCALE_BYTES;
    tw_val *to = p->scales[row][group];
    if (to[0].id) return;
    tw_val two = tw_ld(b, (tw_attrs){.type = TW_T_i32, .space = TW_SPACE_shared, .offset = at}, p->scales_at);
    if (p->x->of.on_sums) {
        const tw_type halves = p->x->of.type == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2;
        for (int i = 0; i < 2; i++) to[i] = tw_part_half(b, halves, two, i);
        return;
    }
    to[0] = tw_op_emit(b, TW_OP_prmt_i32, two, two, tw_i32(b, 0x1010));
    to[1] = tw_op_emit(b, TW_OP_prmt_i32, two, two, tw_i32(b, 0x3232));
}

/* Loads what a part needs and no part before it did. */
static void load(tw_builder *b, tw_narrow_product *p, int part) {
    const int group = p->x->of.group, depth = depth_of_part(p), deep = depth_of_vector(&p->x->of);
    for (int row = 0; row < p->rows / TW_NARROW_ROWS; row++)
        for (int k = part * depth; k < (part + 1) * depth; k += STEP) {
            load_integers(b, p, row, k / deep);
            if (group) load_scales(b, p, row, k / group);
        }
}

/* Converts what register r holds of the step that begins at k. */
static tw_val convert(tw_builder *b, const tw_narrow_product *p, int row, int k, int r) {
    const tw_narrow *n = &p->x->of;
    const int per_word = 16 / n->bits, deep = depth_of_vector(n);
    tw_val word = p->words[row][k / deep][(k % deep / STEP * REGISTERS + r) / per_word];
    tw_val x = (n->type == TW_T_f16 ? to_f16 : to_bf16)(b, n->bits, word, r % per_word);
    if (!n->group || n->on_sums) return x;
    tw_val scale = as_pair(b, n->type, p->scales[row][k / n->group][r % 2]);
    return fma_pairs(b, n->type, x, scale, pair(b, n->type, 0x8000)); /* Plus -0, which changes no bit. */
}

/* Returns a part's registers of a step of 64 rows. */
static const tw_val *fragment_of(const tw_narrow_product *p, int part, int row, int step) {
    const int rows = p->rows / TW_NARROW_ROWS, steps = depth_of_part(p) / STEP;
    return p->fragment + (ptrdiff_t)((part % 2 * steps + step) * rows + row) * REGISTERS;
}

static void convert_part(tw_builder *b, const tw_narrow_product *p, int part) {
    const int depth = depth_of_part(p);
    for (int s = 0; s < depth / STEP; s++)
        for (int row = 0; row < p->rows / TW_NARROW_ROWS; row++)
            for (int r = 0; r < REGISTERS; r++) {
                tw_val x = tw_bitcast(b, TW_T_i32, convert(b, p, row, part * depth + s * STEP, r));
                tw_assign(b, fragment_of(p, part, row, s)[r], x);
            }
}

static void multiply_part(tw_builder *b, const tw_narrow_product *p, int part) {
    const int depth = depth_of_part(p), sums = count_sums(p);
    const bool partial = p->x->of.on_sums;
    const tw_wgmma_kind kind = p->x->of.type == TW_T_f16 ? TW_WGMMA_f16 : TW_WGMMA_bf16;
    const tw_attrs at = {.wgmma = kind, .columns = p->y->extent, .trans_b = !p->y->k_major};
    tw_tile_begin(b);
    for (int s = 0; s < depth / STEP; s++) {
        const int k = part * depth + s * STEP;
        tw_val y = tw_tile_at(b, p->y, p->y_at, 0, k), add = k ? tw_const(b, TW_T_pred, 1) : p->add;
        if (partial) add = tw_const(b, TW_T_pred, k % depth_of_sums(p) != 0);
        for (int row = 0; row < p->rows / TW_NARROW_ROWS; row++)
            tw_wgmma_rs(b, at, (partial ? p->partial : p->sums) + (ptrdiff_t)row * sums, fragment_of(p, part, row, s),
                        y, add);
    }
    tw_do(b, TW_OP_wgmma_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
}

/* Adds the partial sums, times scales. scales[row] are those of two rows of 64. */
static void add_scaled(tw_builder *b, const tw_narrow_product *p, int row, const tw_val scales[2]) {
    const int sums = count_sums(p);
    for (int i = row * sums; i < (row + 1) * sums; i++)
        tw_op_to(b, p->sums[i], TW_OP_fma_f32, p->partial[i], scales[i / 2 % 2], p->sums[i]);
}

/* Adds the partial sums that the part before `part` completes. Those of a stage's last part are added in the next
   stage, by scales that are kept. */
static void add_completed(tw_builder *b, const tw_narrow_product *p, int part) {
    const int k = part * depth_of_part(p);
    if (k % depth_of_sums(p)) return;
    for (int row = 0; row < p->rows / TW_NARROW_ROWS; row++)
        add_scaled(b, p, row, k ? p->scales[row][(k - 1) / p->x->of.group] : p->pending + (ptrdiff_t)2 * row);
}

static void keep_scales(tw_builder *b, const tw_narrow_product *p) {
    for (int i = 0; i < 2 * p->rows / TW_NARROW_ROWS; i++)
        tw_assign(b, p->pending[i], p->scales[i / 2][(p->x->depth - 1) / p->x->of.group][i % 2]);
}

void tw_narrow_begin(tw_builder *b, const tw_narrow_product *p) {
    tw_val zero = tw_f32(b, 0);
    if (!p->x->of.on_sums) return;
    for (int i = 0; i < p->rows / TW_NARROW_ROWS * count_sums(p); i++) {
        tw_assign(b, p->sums[i], zero);
        tw_assign(b, p->partial[i], zero);
    }
    for (int i = 0; i < 2 * p->rows / TW_NARROW_ROWS; i++) tw_assign(b, p->pending[i], zero);
}

void tw_narrow_finish(tw_builder *b, const tw_narrow_product *p) {
    for (int row = 0; row < p->rows / TW_NARROW_ROWS && p->x->of.on_sums; row++)
        add_scaled(b, p, row, p->pending + (ptrdiff_t)2 * row);
}

/* Partial sums may be read when no product is under way at all, or ptxas puts products one after another. So there the
   part before is waited for once the next one is converted. */
void tw_narrow_multiply(tw_builder *b, tw_narrow_product *p, int from, int to) {
    const bool partial = p->x->of.on_sums;
    for (int i = from; i < to; i++) {
        load(b, p, i);
        convert_part(b, p, i);
        if (partial) {
            tw_tile_wait_before(b);
            add_completed(b, p, i);
        }
        multiply_part(b, p, i);
        if (i + 1 < tw_narrow_parts(p)) load(b, p, i + 1);
        if (!partial) tw_tile_wait(b, 1);
    }
    if (partial && to == tw_narrow_parts(p)) keep_scales(b, p);
}
