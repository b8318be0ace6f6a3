/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of tapes, as kernels of prompts read them. */
#include "base/divide.h"
#include "kernels/parts/convert.h"
#include "vm/prefill/generate.h"

int tw_prefill_pieces(const tw_prefill_shape *s) {
    return (int)tw_ceil_div(s->columns, s->format.depth);
}

void tw_prefill_unit_load(tw_prefill_gen *g, tw_val table, tw_val unit, tw_val out[3]) {
    tw_builder *b = g->b;
    if (g->s->chunks) unit = tw_mul_imm(b, unit, g->s->chunks);
    tw_val at = tw_prefill_at(g, table, unit, sizeof(tw_prefill_unit));
    out[0] = g->s->chunks ? at : tw_ld(b, (tw_attrs){.type = TW_T_i64}, at);
    out[1] = tw_ld(b, (tw_attrs){.type = TW_T_i32, .offset = offsetof(tw_prefill_unit, chunk)}, at);
    out[2] = tw_ld(b, (tw_attrs){.type = TW_T_i32, .offset = offsetof(tw_prefill_unit, second)}, at);
}

/* The one place that knows the order of a tape's pieces. */
tw_prefill_piece tw_prefill_piece_load(tw_prefill_gen *g, const tw_val unit[3], tw_val i) {
    tw_builder *b = g->b;
    const tw_prefill_shape *s = g->s;
    const int of_chunk = s->warps * s->run;
    tw_prefill_piece p = {.second = unit[2]};
    tw_val chunk = tw_div(b, i, of_chunk), in_chunk = tw_rem(b, i, of_chunk);
    tw_val warp = tw_div(b, in_chunk, s->run), in_run = tw_rem(b, in_chunk, s->run);
    if (s->chunks)
        p.stage = tw_ld(b, (tw_attrs){.type = TW_T_i64}, tw_prefill_at(g, unit[0], chunk, sizeof(tw_prefill_unit)));
    else
        p.stage = tw_add(b, unit[0], tw_widen(b, tw_mul(b, chunk, unit[1])));
    p.stage = tw_prefill_at(g, p.stage, tw_div(b, in_run, s->blocks), s->stage_bytes);
    p.number = tw_add(b, tw_mul_imm(b, warp, s->blocks), tw_rem(b, in_run, s->blocks));
    p.column = tw_mul_imm(b, i, s->format.depth);
    /* Of floats the 16 bytes are swizzled as in tw_mega_quarter. */
    tw_val place = s->format.units > 1 ? g->lane : tw_xor(b, g->lane, tw_and(b, tw_shr(b, g->lane, 3), tw_i32(b, 3)));
    tw_val from = tw_prefill_at(g, tw_prefill_at(g, p.stage, p.number, TW_MEGA_PIECE), place, 16);
    tw_ld_vec(b, (tw_attrs){.type = TW_T_i32, .vec = 4, .cache = TW_CACHE_nc}, from, p.words);
    return p;
}

/* Loads the scale of the lane's row and of run `run` of 16 columns. */
static tw_val scale_of(tw_prefill_gen *g, const tw_prefill_piece *p, int run) {
    tw_builder *b = g->b;
    const tw_mega_format *f = &g->s->format;
    tw_val row = tw_shr(b, g->lane, 2);
    tw_val behind = tw_add_imm(b, p->stage, (int64_t)g->s->warps * g->s->blocks * TW_MEGA_PIECE);
    if (!f->sets) {
        tw_val cell = tw_add(b, tw_shl(b, row, 1), p->second);
        return tw_ld(b, (tw_attrs){.type = TW_T_f32}, tw_prefill_at(g, behind, cell, 4));
    }
    const int blocks = g->s->blocks, of_row = blocks * f->sets, set = run * f->sets / f->steps;
    tw_val warp = tw_div(b, p->number, blocks), in_row = tw_mul_imm(b, tw_rem(b, p->number, blocks), f->sets);
    tw_val cell = tw_add(b, tw_mul_imm(b, row, of_row), tw_add_imm(b, in_row, set));
    cell = tw_add(b, tw_shl(b, cell, 1), p->second);
    behind = tw_prefill_at(g, behind, warp, (int64_t)blocks * f->scale_bytes);
    if (f->dtype == TW_I8) return tw_ld(b, (tw_attrs){.type = TW_T_f32}, tw_prefill_at(g, behind, cell, 4));
    return tw_part_widen(b, TW_T_f16, tw_ld(b, (tw_attrs){.type = TW_T_f16}, tw_prefill_at(g, behind, cell, 2)));
}

static void values_of_integers(tw_prefill_gen *g, const tw_prefill_piece *p, tw_val *column, tw_val *x) {
    tw_builder *b = g->b;
    const tw_mega_format *f = &g->s->format;
    const bool bytes = f->dtype == TW_I8;
    tw_val t = tw_rem(b, g->lane, 4), is_second = tw_ne(b, p->second, tw_i32(b, 0));
    for (int run = 0; run < f->steps; run++) {
        tw_val word = bytes ? tw_select(b, is_second, p->words[2 * run + 1], p->words[2 * run]) : p->words[run];
        if (!bytes) word = tw_select(b, is_second, word, tw_shl(b, word, 4));
        tw_val scale = scale_of(g, p, run);
        column[run] = tw_add(b, tw_add_imm(b, p->column, 16 * run), tw_mul_imm(b, t, 4));
        for (int i = 0; i < 4; i++) {
            tw_val upper = tw_shl(b, word, 24 - 8 * i);
            tw_val integer = tw_binary(b, TW_OP_shr_s32, upper, tw_i32(b, bytes ? 24 : 28));
            x[4 * run + i] = tw_mul(b, tw_unary(b, TW_OP_cvt_f32_s32, integer), scale);
        }
    }
}

int tw_prefill_piece_values(tw_prefill_gen *g, const tw_prefill_piece *p, tw_val column[TW_PREFILL_FOURS],
                            tw_val x[4 * TW_PREFILL_FOURS]) {
    tw_builder *b = g->b;
    const tw_mega_format *f = &g->s->format;
    tw_val t = tw_rem(b, g->lane, 4);
    if (f->units > 1) {
        values_of_integers(g, p, column, x);
        return f->steps;
    }
    if (f->dtype == TW_F32) { /* Floats are sums of two bf16. */
        column[0] = tw_add(b, p->column, tw_mul_imm(b, t, 4));
        for (int i = 0; i < 4; i++)
            x[i] = tw_add(b, tw_part_half(b, TW_T_bf16x2, p->words[i / 2], i % 2),
                          tw_part_half(b, TW_T_bf16x2, p->words[2 + i / 2], i % 2));
        return 1;
    }
    column[0] = tw_add(b, p->column, tw_mul_imm(b, t, 8));
    column[1] = tw_add_imm(b, column[0], 4);
    for (int i = 0; i < 8; i++) x[i] = tw_part_half(b, f->pair, p->words[i / 2], i % 2);
    return 2;
}
