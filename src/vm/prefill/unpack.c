/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix from tapes to densely packed rows. A block has a unit of 8 rows, and a warp takes a piece at a time: lane
   4 g + t has 16 bytes of row g (vm/cuda/mega.h). */
#include "base/divide.h"
#include "kernels/parts/convert.h"
#include "vm/prefill/generate.h"

enum { UNITS, OUT };

static int64_t grid(const tw_prefill_shape *s) {
    return s->rows / TW_MEGA_ROWS;
}

/* A piece, as a lane sees it. */
typedef struct piece {
    tw_val g, t;   /* The lane's row, and its quarter of the row. */
    tw_val second; /* The unit is the second one of a piece of integers (i32: 0 or 1). */
    tw_val stage;  /* Address of the stage. */
    tw_val number; /* Number of the piece in its stage. */
    tw_val column; /* The piece's first column. */
    tw_val words[4];
} piece;

/* Loads piece number i of the unit: the one place that knows the order of a tape's pieces. */
static void load(tw_prefill_gen *g, tw_val first, tw_val chunk_bytes, tw_val i, piece *p) {
    tw_builder *b = g->b;
    const tw_prefill_shape *s = g->s;
    const int of_chunk = s->warps * s->run;
    tw_val chunk = tw_div(b, i, of_chunk), in_chunk = tw_rem(b, i, of_chunk);
    tw_val warp = tw_div(b, in_chunk, s->run), in_run = tw_rem(b, in_chunk, s->run);
    p->stage = tw_add(b, first, tw_widen(b, tw_mul(b, chunk, chunk_bytes)));
    p->stage = tw_prefill_at(g, p->stage, tw_div(b, in_run, s->blocks), s->stage_bytes);
    p->number = tw_add(b, tw_mul_imm(b, warp, s->blocks), tw_rem(b, in_run, s->blocks));
    p->column = tw_mul_imm(b, i, s->format.depth);
    /* Of floats the 16 bytes are swizzled as in tw_mega_quarter. */
    tw_val place = s->format.units > 1 ? g->lane : tw_xor(b, g->lane, tw_and(b, tw_shr(b, g->lane, 3), tw_i32(b, 3)));
    tw_val from = tw_prefill_at(g, tw_prefill_at(g, p->stage, p->number, TW_MEGA_PIECE), place, 16);
    tw_ld_vec(b, (tw_attrs){.type = TW_T_i32, .vec = 4, .cache = TW_CACHE_nc}, from, p->words);
}

/* Stores four elements from a column on, if the matrix has it. */
static void put(tw_prefill_gen *g, tw_val row, tw_val column, const tw_val *x) {
    tw_builder *b = g->b;
    TW_IF (b, tw_lt(b, column, tw_i32(b, (int)g->s->columns)))
        tw_prefill_store(g, g->s->type, tw_prefill_at(g, row, column, tw_prefill_bytes(g->s->type)), 4, x);
}

static void put_16(tw_prefill_gen *g, const piece *p, tw_val row) {
    tw_builder *b = g->b;
    tw_val column = tw_add(b, p->column, tw_mul_imm(b, p->t, 8));
    TW_IF (b, tw_lt(b, column, tw_i32(b, (int)g->s->columns)))
        tw_st(b, (tw_attrs){.type = TW_T_i32, .vec = 4}, tw_prefill_at(g, row, column, 2), p->words);
}

/* Puts floats, each a sum of two bf16. */
static void put_f32(tw_prefill_gen *g, const piece *p, tw_val row) {
    tw_builder *b = g->b;
    tw_val x[4];
    for (int i = 0; i < 4; i++)
        x[i] = tw_add(b, tw_part_half(b, TW_T_bf16x2, p->words[i / 2], i % 2),
                      tw_part_half(b, TW_T_bf16x2, p->words[2 + i / 2], i % 2));
    put(g, row, tw_add(b, p->column, tw_mul_imm(b, p->t, 4)), x);
}

/* Loads the scale of the lane's row and of run `run` of 16 columns. */
static tw_val scale_of(tw_prefill_gen *g, const piece *p, int run) {
    tw_builder *b = g->b;
    const tw_mega_format *f = &g->s->format;
    tw_val behind = tw_add_imm(b, p->stage, (int64_t)g->s->warps * g->s->blocks * TW_MEGA_PIECE);
    if (!f->sets) {
        tw_val cell = tw_add(b, tw_shl(b, p->g, 1), p->second);
        return tw_ld(b, (tw_attrs){.type = TW_T_f32}, tw_prefill_at(g, behind, cell, 4));
    }
    const int blocks = g->s->blocks, of_row = blocks * f->sets, set = run * f->sets / f->steps;
    tw_val warp = tw_div(b, p->number, blocks), in_row = tw_mul_imm(b, tw_rem(b, p->number, blocks), f->sets);
    tw_val cell = tw_add(b, tw_mul_imm(b, p->g, of_row), tw_add_imm(b, in_row, set));
    cell = tw_add(b, tw_shl(b, cell, 1), p->second);
    behind = tw_prefill_at(g, behind, warp, (int64_t)blocks * f->scale_bytes);
    if (f->dtype == TW_I8) return tw_ld(b, (tw_attrs){.type = TW_T_f32}, tw_prefill_at(g, behind, cell, 4));
    return tw_part_widen(b, TW_T_f16, tw_ld(b, (tw_attrs){.type = TW_T_f16}, tw_prefill_at(g, behind, cell, 2)));
}

static void put_integers(tw_prefill_gen *g, const piece *p, tw_val row) {
    tw_builder *b = g->b;
    const tw_mega_format *f = &g->s->format;
    const bool bytes = f->dtype == TW_I8;
    tw_val is_second = tw_ne(b, p->second, tw_i32(b, 0));
    for (int run = 0; run < f->steps; run++) {
        tw_val word = bytes ? tw_select(b, is_second, p->words[2 * run + 1], p->words[2 * run]) : p->words[run];
        if (!bytes) word = tw_select(b, is_second, word, tw_shl(b, word, 4));
        tw_val scale = scale_of(g, p, run), x[4];
        for (int i = 0; i < 4; i++) {
            tw_val upper = tw_shl(b, word, 24 - 8 * i);
            tw_val integer = tw_binary(b, TW_OP_shr_s32, upper, tw_i32(b, bytes ? 24 : 28));
            x[i] = tw_mul(b, tw_unary(b, TW_OP_cvt_f32_s32, integer), scale);
        }
        put(g, row, tw_add(b, tw_add_imm(b, p->column, 16 * run), tw_mul_imm(b, p->t, 4)), x);
    }
}

static void build(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const tw_prefill_shape *s = g->s;
    const int pieces = (int)tw_ceil_div(s->columns, s->format.depth);
    piece p = {.g = tw_shr(b, g->lane, 2), .t = tw_rem(b, g->lane, 4)};
    tw_val unit = tw_prefill_at(g, g->buffer[UNITS], g->block, sizeof(tw_prefill_unit));
    tw_val first = tw_ld(b, (tw_attrs){.type = TW_T_i64}, unit);
    tw_val chunk = tw_ld(b, (tw_attrs){.type = TW_T_i32, .offset = offsetof(tw_prefill_unit, chunk)}, unit);
    p.second = tw_ld(b, (tw_attrs){.type = TW_T_i32, .offset = offsetof(tw_prefill_unit, second)}, unit);
    tw_val number = tw_add(b, tw_mul_imm(b, g->block, TW_MEGA_ROWS), p.g);
    tw_val row = tw_prefill_at(g, g->buffer[OUT], number, s->columns * tw_prefill_bytes(s->type));
    TW_FOR (b, i, g->warp, tw_i32(b, pieces), tw_i32(b, TW_PREFILL_WARPS), false) {
        load(g, first, chunk, i, &p);
        if (s->format.dtype == TW_F32)
            put_f32(g, &p, row);
        else if (s->format.units > 1)
            put_integers(g, &p, row);
        else
            put_16(g, &p, row);
    }
}

const tw_prefill_kind tw_prefill_unpack = {"prefill_unpack", build, grid, {{"units", false}, {"out", true}}};
