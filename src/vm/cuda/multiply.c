/* SPDX-License-Identifier: Apache-2.0 */
/* Products of the tape's rows with the activations in shared memory, on tensor cores. A warp takes its run of every
   unit's columns.

   Floats of 8 rows are the k x 8 operand. An activation is a sum of two 16-bit floats, an upper half and what that
   leaves, so that the sum of two products is as good as one with floats: positions' upper halves are rows g of the
   16 x k operand, the rest rows g + 8.

   Integers of 16 rows are the 16 x k operand, as bytes; nibbles are sixteen times too large. Activations are integers
   of three digits of base 256, with a scale for each BLOCK: of the k x 8 operand's columns a position has four, one for
   each digit and one that nobody looks at. */
#include "vm/cuda/generate.h"

enum {
    SUMS = 4,            /* independent ones of a unit; of integers tiles of two positions */
    FEW = 4,             /* positions whose activations stay in registers */
    NUMBER = 0x4b400000, /* the float 1.5 * 2^23: with an integer added to its bits that much more */
};

typedef struct tw_mega_taken taken;

typedef struct product {
    tw_mega_gen *g;
    const tw_mega_format *f;
    const tw_mega_units *u;
    tw_mega_stream *stream;
    tw_val ring;   /* this lane's part of the first slot's first piece */
    tw_val scales; /* of its scales */
    tw_val active; /* the lane's column of activations is a position's; of integers a digit's */
    bool idle;     /* or of no position, in some lanes */
    tw_val x;      /* address of this lane's first fragment in the activations */
    tw_val digit;  /* of integers: the lane's */
    tw_val number[4]; /* NUMBER four times, which no compiler knows to be the same */
    tw_mma_kind mma;
    tw_type pair;
    int sums;
} product;

/* ---- from the ring */

static void next_slot(tw_mega_gen *g) {
    tw_builder *b = g->b;
    tw_op_to(b, g->slot, TW_OP_add_i32, g->slot, tw_i32(b, 1), TW_NONE);
    tw_push_if(b, tw_eq(b, g->slot, tw_i32(b, g->p->tuning.stages)));
    tw_assign(b, g->slot, tw_i32(b, 0));
    tw_op_to(b, g->phase, TW_OP_xor_i32, g->phase, tw_i32(b, 1), TW_NONE);
    tw_pop(b);
}

/* Words of scales that a lane loads of a stage. */
static int scale_words(const product *o) {
    return (o->g->p->tuning.blocks * o->f->scale_bytes + o->f->row_bytes) / 32;
}

/* The stage of the ring that comes next is there: its pieces of this warp into registers. */
static void take_stage(product *o, taken *t) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    tw_val full = tw_mega_at(g, tw_add_imm(b, g->shared, p->full), g->slot, 8);
    tw_assign(b, t->empty, tw_mega_at(g, tw_add_imm(b, g->shared, p->empty), g->slot, 8));
    tw_val at = tw_mega_at(g, o->ring, g->slot, p->stage_bytes);
    tw_do(b, TW_OP_mbarrier_wait, (tw_attrs){0}, full, g->phase);
    for (int i = 0; i < p->tuning.blocks; i++) {
        tw_attrs how = {.type = TW_T_i32, .vec = 4, .space = TW_SPACE_shared, .offset = i * TW_MEGA_PIECE};
        tw_ld_vec(b, how, at, t->w[i]);
    }
    const int words = scale_words(o), vec = words % 4 == 0 ? 4 : words % 2 == 0 ? 2 : 1;
    tw_val scales = tw_mega_at(g, o->scales, g->slot, p->stage_bytes);
    for (int i = 0; i < words; i += vec) {
        tw_attrs how = {.type = TW_T_i32, .vec = vec, .space = TW_SPACE_shared, .offset = 4 * i};
        tw_ld_vec(b, how, scales, t->scale + i);
    }
    next_slot(g);
    tw_op_to(b, o->stream->left, TW_OP_add_i32, o->stream->left, tw_i32(b, -1), TW_NONE);
}

/* Its slot given back, when all that was loaded is in registers: a bulk copy is no ordinary write, and overtakes loads
   that an arrival does not wait for. So the arrival's address takes in the loaded words, times nothing; a fence between
   the two kinds of access costs 8 % of a step in the producer, and a third here. Each lane speaks for itself:
   compute-sanitizer does not see that one may speak for its warp. */
static void give_back(const product *o, const taken *t) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_val all = tw_i32(b, 0);
    for (int i = 0; i < g->p->tuning.blocks; i++) all = tw_or(b, all, t->w[i][3]);
    for (int i = 0; i < scale_words(o); i++) all = tw_or(b, all, t->scale[i]);
    tw_val barrier = tw_add(b, t->empty, tw_and(b, all, g->nothing));
    tw_do(b, TW_OP_mbarrier_arrive, (tw_attrs){0}, barrier, TW_NONE);
}

/* ---- activations */

static bool integers(const product *o) {
    return o->f->units > 1;
}

/* The activations of a stage's columns, `from` and on. Lanes without a position load nothing, which spares three
   quarters of the traffic of a single one; what their registers hold only reaches sums that nobody looks at. */
static void load_floats(product *o, tw_val from) {
    tw_builder *b = o->g->b;
    /* Both halves of f32 weights meet the same columns. */
    const int steps = o->f->dtype == TW_F32 ? 1 : o->f->steps;
    tw_val x = tw_mega_at(o->g, o->x, from, 4);
    if (o->idle) tw_push_if(b, o->active);
    for (int i = 0; i < o->g->p->tuning.blocks; i++)
        for (int s = 0; s < steps; s++) {
            tw_attrs how = {.type = o->pair, .vec = 4, .space = TW_SPACE_shared};
            how.offset = i * o->f->depth * 4 + s * 16;
            tw_ld_vec(b, how, x, o->stream->x[i][s]);
        }
    if (o->idle) tw_pop(b);
}

/* Whether a stage's columns are a whole number of blocks; else a piece's place in its block depends on the stage. */
static bool aligned(const product *o) {
    return o->g->p->tuning.blocks * o->f->depth % TW_MEGA_BLOCK == 0;
}

/* The address of the lane's digits of piece i of a stage. */
static tw_val digits_at(const product *o, tw_val from, int i) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const int column = i * o->f->depth;
    if (aligned(o)) {
        tw_val digit = tw_xor(b, o->digit, tw_i32(b, column / 64 % 2));
        tw_val at = tw_mega_at(g, tw_mega_at(g, o->x, digit, 64), from, 4);
        return tw_add_imm(b, at, column / 64 * 256 + column / 32 % 2 * 8);
    }
    tw_val c = tw_add_imm(b, from, column), half_block = tw_shr(b, c, 6);
    tw_val digit = tw_xor(b, o->digit, tw_rem(b, half_block, 2));
    tw_val at = tw_mega_at(g, tw_mega_at(g, o->x, digit, 64), half_block, 256);
    return tw_mega_at(g, at, tw_rem(b, tw_shr(b, c, 5), 2), o->f->depth == 32 ? 8 : 0);
}

/* A lane's sums are of positions 2 n + t / 2 for each tile n. */
static tw_val position_of(const product *o, int n) {
    tw_builder *b = o->g->b;
    return tw_add_imm(b, tw_shr(b, o->g->column, 1), 2 * n);
}

/* Piece i's activations, or what was there where the lane has none, and their scales. */
static void load_piece(product *o, tw_val from, int i) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    tw_mega_stream *s = o->stream;
    const int blocks = i * o->f->depth / TW_MEGA_BLOCK;
    tw_val digits = digits_at(o, from, i), one = tw_add_imm(b, from, i * o->f->depth), last;
    tw_val block = aligned(o) ? tw_add_imm(b, tw_shr(b, from, 7), blocks) : tw_shr(b, one, 7);
    last = tw_add_imm(b, o->u->positions, -1);
    for (int n = 0; n < o->sums; n++) {
        const tw_attrs words = {
            .type = TW_T_i32, .vec = o->f->steps, .space = TW_SPACE_shared, .offset = 2 * n * p->x_pitch};
        tw_val there = tw_le(b, tw_add_imm(b, tw_shr(b, g->row, 2), 2 * n), last), x[4] = {{0}};
        tw_when(b, tw_and(b, o->active, there));
        tw_ld_vec(b, words, digits, x);
        for (int e = 0; e < o->f->steps; e++) tw_assign(b, s->x[i][n][e], x[e]);
        tw_val position = p->tokens > 1 ? tw_min(b, position_of(o, n), last) : tw_i32(b, 0);
        tw_val scales = tw_mega_at(g, tw_add_imm(b, g->shared, p->scales), position, p->scales_pitch);
        tw_val scale = tw_ld(b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared}, tw_mega_at(g, scales, block, 4));
        tw_assign(b, s->x_scale[i][n], scale);
    }
}

/* Integers keep the activations of few positions in registers: where a unit has one stage, for all units. */
static bool keeps(const product *o) {
    return integers(o) && o->g->p->tokens <= FEW;
}

/* ---- floats */

static void multiply_floats(product *o, const taken *t, tw_val (*x)[TW_MEGA_STEPS][4], tw_val (*acc)[4]) {
    for (int i = 0; i < o->g->p->tuning.blocks; i++)
        for (int s = 0; s < 2; s++) {
            tw_val *sum = acc[(2 * i + s) % SUMS], w[2];
            for (int e = 0; e < 2; e++) w[e] = tw_bitcast(o->g->b, o->pair, t->w[i][2 * s + e]);
            tw_mma(o->g->b, o->mma, sum, x[i][o->f->dtype == TW_F32 ? 0 : s], w, sum);
        }
}

/* This warp's part of a unit's sums. */
static void leave_floats(product *o, tw_val unit, tw_val (*acc)[4]) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const int T = g->p->tokens;
    tw_push_if(b, tw_lt(b, g->row, o->u->positions));
    tw_val at = tw_mega_at(g, o->u->part, g->warp, (int64_t)T * TW_MEGA_PART_ROWS * 4);
    if (T > 1) at = tw_mega_at(g, at, g->row, TW_MEGA_PART_ROWS * 4);
    at = tw_mega_at(g, tw_mega_at(g, at, unit, TW_MEGA_ROWS * 4), g->column, 8);
    const tw_attrs cell = {.type = TW_T_f32, .vec = 2, .space = TW_SPACE_shared};
    tw_val sum[2], before[2] = {{0}};
    tw_val again = tw_lt(b, tw_i32(b, 0), o->u->chunk);
    tw_when(b, again);
    tw_ld_vec(b, cell, at, before);
    for (int i = 0; i < 2; i++) {
        sum[i] = tw_add(b, acc[0][i], acc[0][i + 2]);
        for (int s = 1; s < SUMS; s++) sum[i] = tw_add(b, sum[i], tw_add(b, acc[s][i], acc[s][i + 2]));
        sum[i] = tw_add(b, sum[i], before[i]);
    }
    tw_st(b, cell, at, sum);
    tw_pop(b);
}

/* ---- integers */

/* The scales of rows g and g + 8 in a set of a piece's. */
static void scales_of(const product *o, const tw_val *words, int set, tw_val *scale) {
    tw_builder *b = o->g->b;
    for (int i = 0; i < 2; i++) {
        if (o->f->dtype == TW_I8) {
            scale[i] = tw_bitcast(b, TW_T_f32, words[i]);
            continue;
        }
        tw_val h = tw_op_emit(b, i ? TW_OP_high_i16_i32 : TW_OP_low_i16_i32, words[set], TW_NONE, TW_NONE);
        scale[i] = tw_op_emit(b, TW_OP_cvt_f32_f16, tw_bitcast(b, TW_T_f16, h), TW_NONE, TW_NONE);
    }
}

/* 32 columns of a piece. */
static void unpack(const product *o, const tw_val *w, int part, tw_val *a) {
    tw_builder *b = o->g->b;
    const bool bytes = o->f->dtype == TW_I8;
    for (int i = 0; i < 4; i++) {
        tw_val word = bytes ? w[i] : w[2 * part + i / 2];
        if (!bytes && i % 2 == 0) word = tw_shl(b, word, 4);
        a[i] = bytes ? word : tw_and(b, word, tw_i32(b, (int32_t)0xf0f0f0f0));
    }
}

/* How many columns of a stage share scales; an integer sum of BLOCK columns' products has 22 bits. */
static int alike(const product *o) {
    const int depth = o->f->depth, sets = o->f->sets ? o->f->sets : 1;
    return aligned(o) && o->f->group % TW_MEGA_BLOCK == 0 ? TW_MEGA_BLOCK : depth / sets;
}

/* Columns c and on of a stage, `n` that share scales. */
static void multiply_alike(product *o, const taken *t, int c, int n, tw_val (*acc)[4]) {
    tw_builder *b = o->g->b;
    const tw_mega_stream *s = o->stream;
    const int depth = o->f->depth, i = c / depth;
    tw_val alone[SUMS][4] = {{{0}}}, a[4], scale[2];
    for (int at = c; at < c + n; at += 32) {
        const int part = at % depth / 32;
        unpack(o, t->w[at / depth], part, a);
        for (int tile = 0; tile < o->sums; tile++) {
            for (int e = 0; e < 4 && at == c; e++) alone[tile][e] = tw_var(b, TW_T_i32);
            tw_mma(b, o->mma, alone[tile], a, s->x[at / depth][tile] + 2 * part, at == c ? o->number : alone[tile]);
        }
    }
    if (o->f->sets) scales_of(o, t->scale + i * o->f->scale_bytes / 32, c % depth * o->f->sets / depth, scale);
    for (int tile = 0; tile < o->sums; tile++) {
        tw_val factor[2] = {s->x_scale[i][tile], s->x_scale[i][tile]};
        for (int h = 0; h < 2 && o->f->sets; h++) factor[h] = tw_mul(b, factor[h], scale[h]);
        for (int e = 0; e < 4; e++) {
            tw_val sum = tw_sub(b, tw_bitcast(b, TW_T_f32, alone[tile][e]), tw_bitcast(b, TW_T_f32, tw_i32(b, NUMBER)));
            tw_op_to(b, acc[tile][e], TW_OP_fma_f32, sum, factor[e / 2], acc[tile][e]);
        }
    }
}

static void multiply_integers(product *o, const taken *t, tw_val from, tw_val (*acc)[4]) {
    const int depth = o->f->depth, n = alike(o);
    for (int c = 0; c < o->g->p->tuning.blocks * depth; c += n) {
        for (int at = c; at < c + n && !keeps(o); at += 32)
            if (at % depth == 0) load_piece(o, from, at / depth);
        multiply_alike(o, t, c, n, acc);
    }
}

/* Digits meet: lanes of even t have the upper two's sums of rows g and g + 8, their neighbours the third's; of both
   rows' each is left with one. */
static void leave_integers(product *o, tw_val unit, const taken *t, tw_val (*acc)[4]) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const float whole = o->f->dtype == TW_I4 ? 1.0f / 16 : 1;
    tw_val odd = tw_eq(b, tw_rem(b, g->column, 2), tw_i32(b, 1)), again = tw_lt(b, tw_i32(b, 0), o->u->chunk);
    tw_val worth[2] = {tw_select(b, odd, tw_f32(b, whole), tw_f32(b, whole * 65536)),
                       tw_select(b, odd, tw_f32(b, 0), tw_f32(b, whole * 256))};
    tw_val at = tw_mega_at(g, o->u->part, g->warp, (int64_t)g->p->tokens * TW_MEGA_PART_ROWS * 4);
    at = tw_mega_at(g, tw_mega_at(g, at, unit, TW_MEGA_ROWS * 4), g->row, 4);
    at = tw_mega_at(g, at, tw_rem(b, g->column, 2), TW_MEGA_ROWS * 4);
    for (int n = 0; n < o->sums; n++) {
        tw_val sum[2];
        for (int h = 0; h < 2; h++) {
            sum[h] = tw_fma(b, acc[n][2 * h], worth[0], tw_mul(b, acc[n][2 * h + 1], worth[1]));
            if (!o->f->sets) sum[h] = tw_mul(b, sum[h], tw_bitcast(b, TW_T_f32, t->scale[h]));
        }
        tw_val mine = tw_select(b, odd, sum[1], sum[0]), other = tw_select(b, odd, sum[0], sum[1]);
        mine = tw_add(b, mine, tw_shfl(b, TW_MODE_bfly, other, tw_i32(b, 1), tw_i32(b, -1)));
        tw_val position = position_of(o, n);
        tw_push_if(b, tw_lt(b, position, o->u->positions));
        tw_val cell = tw_mega_at(g, at, position, TW_MEGA_PART_ROWS * 4);
        const tw_attrs how = {.type = TW_T_f32, .space = TW_SPACE_shared};
        tw_when(b, again);
        tw_val before = tw_ld(b, how, cell);
        tw_st(b, how, cell, (tw_val[]){tw_add(b, mine, before)});
        tw_pop(b);
    }
}

/* ---- the walk */

/* What a warp keeps while it goes through a chunk's units. */
typedef struct walk {
    tw_val first;       /* this warp's first column */
    tw_val unit, stage; /* variables */
    tw_val acc[SUMS][4];
} walk;

/* This warp's first column of the stage that comes next. */
static tw_val next_column(product *o, const walk *k) {
    tw_builder *b = o->g->b;
    return tw_add(b, k->first, tw_mul_imm(b, k->stage, o->g->p->tuning.blocks * o->f->depth));
}

static void load_stage(product *o, const walk *k) {
    tw_val from = next_column(o, k);
    for (int i = 0; i < o->g->p->tuning.blocks; i++) load_piece(o, from, i);
}

/* One stage, whose pieces are in registers; after a unit's last its sums are left. */
static void step(product *o, walk *k, const taken *t) {
    tw_builder *b = o->g->b;
    tw_mega_stream *s = o->stream;
    tw_val from = next_column(o, k);
    if (integers(o)) {
        multiply_integers(o, t, from, k->acc);
    } else {
        load_floats(o, from);
        multiply_floats(o, t, s->x, k->acc);
    }
    tw_op_to(b, k->stage, TW_OP_add_i32, k->stage, tw_i32(b, 1), TW_NONE);
    tw_push_if(b, tw_eq(b, k->stage, o->u->stages));
    if (integers(o))
        leave_integers(o, k->unit, t, k->acc);
    else
        leave_floats(o, k->unit, k->acc);
    for (int i = 0; i < 4 * o->sums; i++) tw_assign(b, k->acc[i / 4][i % 4], tw_f32(b, 0));
    tw_assign(b, k->stage, tw_i32(b, 0));
    tw_op_to(b, k->unit, TW_OP_add_i32, k->unit, tw_i32(b, o->f->units), TW_NONE);
    tw_pop(b);
    if (!keeps(o)) return;
    tw_push_if(b, tw_lt(b, tw_i32(b, 1), o->u->stages));
    load_stage(o, k);
    tw_pop(b);
}

static product product_of(tw_mega_gen *g, const tw_mega_format *f, tw_mega_stream *s) {
    tw_builder *b = g->b;
    const int blocks = g->p->tuning.blocks, pieces = g->p->tuning.warps * blocks;
    product o = {.g = g,
                 .f = f,
                 .stream = s,
                 .mma = f->half ? TW_MMA_m16n8k16_f16 : TW_MMA_m16n8k16_bf16,
                 .pair = f->half ? TW_T_f16x2 : TW_T_bf16x2,
                 .sums = SUMS};
    if (f->units > 1) {
        o.mma = TW_MMA_m16n8k32_s8;
        o.sums = (g->p->tokens + 1) / 2;
    }
    tw_val ring = tw_add_imm(b, g->shared, g->p->ring);
    o.ring = tw_mega_at(g, tw_mega_at(g, ring, g->warp, (int64_t)blocks * TW_MEGA_PIECE), g->lane, 16);
    tw_val scales = tw_mega_at(g, tw_add_imm(b, ring, (int64_t)pieces * TW_MEGA_PIECE), g->warp,
                               (int64_t)blocks * f->scale_bytes);
    o.scales = tw_mega_at(g, scales, g->row, (blocks * f->scale_bytes + f->row_bytes) / 8);
    return o;
}

static void find_activations(product *o) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    tw_val x = tw_add_imm(b, g->shared, p->x);
    if (integers(o)) {
        o->digit = tw_rem(b, g->row, 4);
        o->active = tw_lt(b, o->digit, tw_i32(b, TW_MEGA_DIGITS));
        o->x = tw_mega_at(g, tw_mega_at(g, x, tw_shr(b, g->row, 2), p->x_pitch), g->column, 16);
        for (int e = 0; e < 4; e++)
            o->number[e] = tw_or(b, tw_i32(b, NUMBER), tw_and(b, g->nothing, tw_i32(b, 1 << e)));
        return;
    }
    o->active = tw_lt(b, g->row, o->u->positions);
    o->idle = p->tokens < TW_MEGA_ROWS;
    tw_val position = tw_min(b, g->row, tw_add_imm(b, o->u->positions, -1));
    o->x = tw_mega_at(g, tw_mega_at(g, x, position, p->x_pitch), g->column, o->f->dtype == TW_F32 ? 16 : 32);
}

static void start(product *o, walk *k) {
    tw_builder *b = o->g->b;
    tw_val first = tw_mul(b, o->g->warp, o->u->stages);
    k->first = tw_mul_imm(b, first, (int64_t)o->g->p->tuning.blocks * o->f->depth);
    k->unit = tw_var_of(b, tw_i32(b, 0));
    k->stage = tw_var_of(b, tw_i32(b, 0));
    for (int i = 0; i < 4 * o->sums; i++) k->acc[i / 4][i % 4] = tw_var_of(b, tw_f32(b, 0));
    if (keeps(o)) load_stage(o, k);
}

static void take_first(tw_mega_gen *g, const tw_mega_format *f, tw_mega_stream *s) {
    product o = product_of(g, f, s);
    take_stage(&o, &s->taken[0]);
    give_back(&o, &s->taken[0]);
}

void tw_mega_begin_stream(tw_mega_gen *g, tw_mega_stream *s, tw_val is_head, tw_val stages) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    const int blocks = p->tuning.blocks;
    s->left = tw_var_of(b, stages);
    for (int n = 0; n < 2; n++) {
        s->taken[n].empty = tw_var_of(b, tw_i32(b, 0));
        for (int i = 0; i < 4 * blocks; i++) s->taken[n].w[i / 4][i % 4] = tw_var_of(b, tw_i32(b, 0));
        for (int i = 0; i < 2 * blocks; i++) s->taken[n].scale[i] = tw_var_of(b, tw_i32(b, 0));
    }
    const tw_type pair = p->body.half ? TW_T_f16x2 : TW_T_bf16x2;
    for (int i = 0; i < blocks * TW_MEGA_STEPS; i++) {
        for (int e = 0; e < 4; e++)
            s->x[i / TW_MEGA_STEPS][i % TW_MEGA_STEPS][e] =
                tw_var_of(b, p->body.units > 1 ? tw_i32(b, 0) : tw_zero(b, pair));
        s->x_scale[i / TW_MEGA_STEPS][i % TW_MEGA_STEPS] = tw_var_of(b, tw_f32(b, 0));
    }
    if (tw_mega_same_format(&p->body, &p->head)) {
        take_first(g, &p->body, s);
        return;
    }
    tw_push_if(b, is_head);
    take_first(g, &p->head, s);
    tw_push_else(b);
    take_first(g, &p->body, s);
    tw_pop(b);
}

/* One stage is taken while the one before it is multiplied; the last time, the first of what follows. */
void tw_mega_build_units(tw_mega_gen *g, const tw_mega_format *f, const tw_mega_units *u) {
    tw_builder *b = g->b;
    product o = product_of(g, f, u->stream);
    taken *t = u->stream->taken;
    walk k = {.first = TW_NONE};
    o.u = u;
    find_activations(&o);
    start(&o, &k);
    tw_val rows = f->units > 1 ? tw_shr(b, tw_add_imm(b, u->count, 1), 1) : u->count, all = tw_mul(b, rows, u->stages);
    tw_push_for(b, tw_i32(b, 1), all, tw_i32(b, 2), false);
    take_stage(&o, &t[1]);
    step(&o, &k, &t[0]);
    give_back(&o, &t[1]);
    tw_val more = tw_lt(b, tw_i32(b, 0), u->stream->left);
    tw_push_if(b, more);
    take_stage(&o, &t[0]);
    tw_pop(b);
    step(&o, &k, &t[1]);
    tw_push_if(b, more);
    give_back(&o, &t[0]);
    tw_pop(b);
    tw_pop(b);
    /* An odd number leaves one. */
    tw_push_if(b, tw_eq(b, tw_rem(b, all, 2), tw_i32(b, 1)));
    step(&o, &k, &t[0]);
    tw_push_if(b, tw_lt(b, tw_i32(b, 0), u->stream->left));
    take_stage(&o, &t[0]);
    give_back(&o, &t[0]);
    tw_pop(b);
    tw_pop(b);
}
