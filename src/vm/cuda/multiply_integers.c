/* SPDX-License-Identifier: Apache-2.0 */
/* Products with weights of int8 and int4. */
#include "vm/cuda/multiply.h"

enum { FEW = 4 /* The most positions whose activations stay in registers. */ };

static void begin(tw_mega_multiply *o) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_val x = tw_add_imm(b, g->shared, g->p->x);
    o->digit = tw_rem(b, g->row, 4);
    o->active = tw_lt(b, o->digit, tw_i32(b, TW_MEGA_DIGITS));
    o->x = tw_mega_at(b, tw_mega_at(b, x, tw_shr(b, g->row, 2), g->p->x_pitch), g->column, 16);
    for (int e = 0; e < 4; e++)
        o->number[e] = tw_or(b, tw_i32(b, TW_MEGA_NUMBER), tw_and(b, g->nothing, tw_i32(b, 1 << e)));
}

/* Tells whether a stage's columns are whole blocks. Otherwise a piece's place in its block depends on the stage. */
static bool aligned(const tw_mega_multiply *o) {
    return o->g->p->tuning.blocks * o->f->depth % TW_MEGA_BLOCK == 0;
}

/* Computes the address of the lane's digits of piece i of a stage. */
static tw_val digits_at(const tw_mega_multiply *o, tw_val from, int i) {
    tw_builder *b = o->g->b;
    const int column = i * o->f->depth;
    if (aligned(o)) {
        tw_val digit = tw_xor(b, o->digit, tw_i32(b, column / 64 % 2));
        tw_val at = tw_mega_at(b, tw_mega_at(b, o->x, digit, 64), from, 4);
        return tw_add_imm(b, at, column / 64 * 256 + column / 32 % 2 * 8);
    }
    tw_val c = tw_add_imm(b, from, column), half_block = tw_shr(b, c, 6);
    tw_val digit = tw_xor(b, o->digit, tw_rem(b, half_block, 2));
    tw_val at = tw_mega_at(b, tw_mega_at(b, o->x, digit, 64), half_block, 256);
    return tw_mega_at(b, at, tw_rem(b, tw_shr(b, c, 5), 2), o->f->depth == 32 ? 8 : 0);
}

/* Computes the position of a lane's sums in tile n: 2 n + t / 2. */
static tw_val position_of(const tw_mega_multiply *o, int n) {
    return tw_add_imm(o->g->b, tw_shr(o->g->b, o->g->column, 1), 2 * n);
}

/* Loads piece i's activations, zeros where the lane has none, and their scales. */
static void load_piece(tw_mega_multiply *o, tw_val from, int i) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    tw_mega_stream *s = o->stream;
    const int column = i * o->f->depth;
    tw_val digits = digits_at(o, from, i), last = tw_add_imm(b, o->u->positions, -1);
    tw_val block = aligned(o) ? tw_add_imm(b, tw_shr(b, from, 7), column / TW_MEGA_BLOCK)
                              : tw_shr(b, tw_add_imm(b, from, column), 7);
    for (int n = 0; n < o->sums; n++) {
        tw_val there = tw_le(b, tw_add_imm(b, tw_shr(b, g->row, 2), 2 * n), last), x[4] = {{0}};
        tw_when(b, tw_and(b, o->active, there));
        tw_ld_vec(b, tw_mega_shared(TW_T_i32, o->f->steps, 2 * n * p->x_pitch), digits, x);
        for (int e = 0; e < o->f->steps; e++) tw_assign(b, s->x[i][n][e], x[e]);
        tw_val position = p->tokens > 1 ? tw_min(b, position_of(o, n), last) : tw_i32(b, 0);
        tw_val scales = tw_mega_at(b, tw_add_imm(b, g->shared, p->scales), position, p->scales_pitch);
        tw_val scale = tw_ld(b, tw_mega_shared(TW_T_f32, 1, 0), tw_mega_at(b, scales, block, 4));
        tw_assign(b, s->x_scale[i][n], scale);
    }
}

bool tw_mega_keeps(const tw_mega_multiply *o) {
    return tw_mega_is_integer(o->f) && o->g->p->tokens <= FEW;
}

void tw_mega_load_kept(tw_mega_multiply *o, tw_val from) {
    for (int i = 0; i < o->g->p->tuning.blocks; i++) load_piece(o, from, i);
}

/* Reads the scales of rows g and g + 8 from a set of a piece's scales. */
static void scales_of(const tw_mega_multiply *o, const tw_val *words, int set, tw_val *scale) {
    for (int i = 0; i < 2; i++)
        scale[i] = o->f->dtype == TW_I8 ? tw_bitcast(o->g->b, TW_T_f32, words[i])
                                        : tw_part_half(o->g->b, TW_T_f16x2, words[set], i);
}

/* Unpacks 32 columns of a piece. */
static void unpack(const tw_mega_multiply *o, const tw_val *w, int part, tw_val *a) {
    tw_builder *b = o->g->b;
    const bool bytes = o->f->dtype == TW_I8;
    for (int i = 0; i < 4; i++) {
        tw_val word = bytes ? w[i] : w[2 * part + i / 2];
        if (!bytes && i % 2 == 0) word = tw_shl(b, word, 4);
        a[i] = bytes ? word : tw_and(b, word, tw_i32(b, (int32_t)0xf0f0f0f0));
    }
}

/* Counts the columns of a stage that share scales. A sum of their products is below 2^22, which TW_MEGA_NUMBER can
   hold: no digit and no weight is above 128, and a nibble is 16 times as large as its weight. */
_Static_assert(TW_MEGA_BLOCK * 128 * 128 < 1 << 22, "sums of a block stay below what NUMBER can hold");
static int alike(const tw_mega_multiply *o) {
    const int depth = o->f->depth, sets = o->f->sets ? o->f->sets : 1;
    return aligned(o) && o->f->group % TW_MEGA_BLOCK == 0 ? TW_MEGA_BLOCK : depth / sets;
}

/* Multiplies columns c to c + n - 1 of a stage, which share scales. */
static void multiply_alike(tw_mega_multiply *o, const tw_mega_taken *t, int c, int n) {
    tw_builder *b = o->g->b;
    const tw_mega_stream *s = o->stream;
    const int depth = o->f->depth, i = c / depth;
    tw_val alone[TW_MEGA_SUMS][4] = {{{0}}}, a[4], scale[2];
    for (int at = c; at < c + n; at += 32) {
        const int part = at % depth / 32;
        unpack(o, t->w[at / depth], part, a);
        for (int tile = 0; tile < o->sums; tile++) {
            for (int e = 0; e < 4 && at == c; e++) alone[tile][e] = tw_var(b, TW_T_i32);
            tw_mma(b, o->f->mma, alone[tile], a, s->x[at / depth][tile] + 2 * part, at == c ? o->number : alone[tile]);
        }
    }
    if (o->f->sets) scales_of(o, t->scale + i * o->f->scale_bytes / 32, c % depth * o->f->sets / depth, scale);
    for (int tile = 0; tile < o->sums; tile++) {
        tw_val factor[2] = {s->x_scale[i][tile], s->x_scale[i][tile]};
        for (int h = 0; h < 2 && o->f->sets; h++) factor[h] = tw_mul(b, factor[h], scale[h]);
        for (int e = 0; e < 4; e++) {
            tw_val sum =
                tw_sub(b, tw_bitcast(b, TW_T_f32, alone[tile][e]), tw_bitcast(b, TW_T_f32, tw_i32(b, TW_MEGA_NUMBER)));
            tw_op_to(b, o->acc[tile][e], TW_OP_fma_f32, sum, factor[e / 2], o->acc[tile][e]);
        }
    }
}

static void multiply(tw_mega_multiply *o, const tw_mega_taken *t, tw_val from) {
    const int depth = o->f->depth, n = alike(o);
    for (int c = 0; c < o->g->p->tuning.blocks * depth; c += n) {
        for (int at = c; at < c + n && !tw_mega_keeps(o); at += 32)
            if (at % depth == 0) load_piece(o, from, at / depth);
        multiply_alike(o, t, c, n);
    }
}

/* Joins the digits and stores the sums. A lane of even t has the sums of the upper two digits of rows g and g + 8, and
   its neighbour those of the third. Each of the two keeps one of the rows. */
static void leave(tw_mega_multiply *o, const tw_mega_taken *t) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const float whole = o->f->dtype == TW_I4 ? 1.0f / 16 : 1;
    tw_val odd = tw_eq(b, tw_rem(b, g->column, 2), tw_i32(b, 1)), again = tw_lt(b, tw_i32(b, 0), o->u->chunk);
    tw_val worth[2] = {tw_select(b, odd, tw_f32(b, whole), tw_f32(b, whole * 65536)),
                       tw_select(b, odd, tw_f32(b, 0), tw_f32(b, whole * 256))};
    tw_val at = tw_mega_at(b, o->u->part, g->warp, (int64_t)g->p->tokens * TW_MEGA_PART_ROWS * 4);
    at = tw_mega_at(b, tw_mega_at(b, at, o->unit, TW_MEGA_ROWS * 4), g->row, 4);
    at = tw_mega_at(b, at, tw_rem(b, g->column, 2), TW_MEGA_ROWS * 4);
    for (int n = 0; n < o->sums; n++) {
        tw_val sum[2];
        for (int h = 0; h < 2; h++) {
            sum[h] = tw_fma(b, o->acc[n][2 * h], worth[0], tw_mul(b, o->acc[n][2 * h + 1], worth[1]));
            if (!o->f->sets) sum[h] = tw_mul(b, sum[h], tw_bitcast(b, TW_T_f32, t->scale[h]));
        }
        tw_val mine = tw_select(b, odd, sum[1], sum[0]), other = tw_select(b, odd, sum[0], sum[1]);
        mine = tw_add(b, mine, tw_shfl(b, TW_MODE_bfly, other, tw_i32(b, 1), tw_i32(b, -1)));
        tw_val position = position_of(o, n);
        TW_IF (b, tw_lt(b, position, o->u->positions)) {
            tw_val cell = tw_mega_at(b, at, position, TW_MEGA_PART_ROWS * 4);
            const tw_attrs how = tw_mega_shared(TW_T_f32, 1, 0);
            tw_when(b, again);
            tw_val before = tw_ld(b, how, cell);
            tw_st(b, how, cell, (tw_val[]){tw_add(b, mine, before)});
        }
    }
}

const tw_mega_way tw_mega_integers = {begin, multiply, leave};
