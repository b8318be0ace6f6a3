/* SPDX-License-Identifier: Apache-2.0 */
/* Products of the tape's rows with the activations in shared memory, on tensor cores. An activation is a sum of two
   16-bit floats, an upper half and what that leaves, so that the sum of two products is as good as one with floats. A
   warp takes its run of every unit's columns.

   Floats of 8 rows are the k x 8 operand; positions' upper halves are rows g of the 16 x k one, the rest rows g + 8.
   Integers of 16 rows are the 16 x k operand, unpacked to f16 without loss; of the k x 8 one up to 4 positions have two
   columns each, upper half and rest, and more positions have a column each of two operands. */
#include "vm/cuda/generate.h"

enum { SUMS = 4 /* independent ones of a unit */, FEW = 4 /* positions that one operand holds twice */ };

typedef struct tw_mega_taken taken;

typedef struct product {
    tw_mega_gen *g;
    const tw_mega_format *f;
    const tw_mega_units *u;
    tw_mega_stream *stream;
    tw_val ring;   /* this lane's part of the first slot's first piece */
    tw_val scales; /* of its scales */
    tw_val x;      /* address of this lane's first fragment in the activations */
    tw_val active; /* it is a position's */
    bool idle;     /* or of no position, in some lanes */
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

static bool few(const product *o) {
    return o->g->p->tokens <= FEW;
}

/* The activations of a stage's columns, `from` and on. Lanes without a position load nothing, which spares three
   quarters of the traffic of a single one; what their registers hold only reaches sums that nobody looks at. */
static void load_activations(product *o, tw_val from, tw_val (*to)[TW_MEGA_STEPS][4]) {
    tw_builder *b = o->g->b;
    const bool integers = o->f->units > 1;
    /* Both halves of f32 weights meet the same columns. */
    const int steps = o->f->dtype == TW_F32 ? 1 : o->f->steps, pitch = integers ? 64 : 16;
    tw_val x = tw_mega_at(o->g, o->x, from, 4);
    if (o->idle) tw_push_if(b, o->active);
    for (int i = 0; i < o->g->p->tuning.blocks; i++)
        for (int s = 0; s < steps; s++) {
            tw_attrs how = {.type = o->pair, .vec = integers && few(o) ? 2 : 4, .space = TW_SPACE_shared};
            how.offset = i * o->f->depth * 4 + s * pitch;
            tw_ld_vec(b, how, x, to[i][s]);
        }
    if (o->idle) tw_pop(b);
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

static tw_val pair_of(tw_builder *b, uint32_t half) {
    return tw_bitcast(b, TW_T_f16x2, tw_i32(b, (int32_t)(half | half << 16)));
}

/* f16 from 1024 on are integers: with 0x6400 above them, bits of the mantissa count ones. Row g's columns are `low`,
   row g + 8's `high`. */
static void unpack_bytes(tw_builder *b, tw_val low, tw_val high, tw_val *a) {
    for (int i = 0; i < 4; i++) {
        tw_val u = tw_op_emit(b, TW_OP_prmt_i32, i % 2 ? high : low, tw_i32(b, 0x64646464),
                              tw_i32(b, i < 2 ? 0x4140 : 0x4342));
        a[i] = tw_add(b, tw_bitcast(b, TW_T_f16x2, u), pair_of(b, 0xe480)); /* less 1024 + 128 */
    }
}

/* Bits of the mantissa alone are a subnormal, u / 2^24 or u / 2^20: made (u - 8) / NIBBLE in one step. */
enum { NIBBLE = 512 };

static void unpack_nibbles(tw_builder *b, tw_val word, tw_val *a) {
    static const struct {
        int32_t mask;
        uint32_t factor; /* f16: 2^15 and 2^11 */
    } of[2] = {{0x000f000f, 0x7800}, {0x00f000f0, 0x6800}};
    for (int i = 0; i < 4; i++) {
        tw_val u = tw_and(b, i < 2 ? word : tw_shr(b, word, 8), tw_i32(b, of[i % 2].mask));
        a[i] = tw_fma(b, tw_bitcast(b, TW_T_f16x2, u), pair_of(b, of[i % 2].factor), pair_of(b, 0xa400)); /* - 1/64 */
    }
}

static void unpack(const product *o, const tw_val *w, int step, tw_val *a) {
    if (o->f->dtype == TW_I8)
        unpack_bytes(o->g->b, w[2 * step], w[2 * step + 1], a);
    else
        unpack_nibbles(o->g->b, w[step], a);
}

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

static void multiply_step(product *o, const tw_val *a, const tw_val *x, tw_val *to, const tw_val *from) {
    tw_mma(o->g->b, o->mma, to, a, x, from);
    if (!few(o)) tw_mma(o->g->b, o->mma, to, a, x + 2, to);
}

/* Steps first .. first + n - 1 of a piece, which share scales; added to `sum`. */
static void multiply_set(product *o, const tw_val *w, const tw_val *scale, tw_val (*x)[4], int first, int n,
                         tw_val *sum) {
    tw_builder *b = o->g->b;
    tw_val alone[4] = {{0}}, factor[2], a[4];
    for (int e = 0; e < 4; e++) alone[e] = tw_var(b, TW_T_f32);
    for (int s = 0; s < n; s++) {
        const tw_val none[4] = {tw_f32(b, 0), tw_f32(b, 0), tw_f32(b, 0), tw_f32(b, 0)};
        unpack(o, w, first + s, a);
        multiply_step(o, a, x[first + s], alone, s ? alone : none);
    }
    scales_of(o, scale, first / n, factor);
    for (int e = 0; e < 4; e++) tw_op_to(b, sum[e], TW_OP_fma_f32, alone[e], factor[e / 2], sum[e]);
}

static void multiply_integers(product *o, const taken *t, tw_val (*x)[TW_MEGA_STEPS][4], tw_val (*acc)[4]) {
    const int steps = o->f->steps, sets = o->f->sets, words = o->f->scale_bytes / 32;
    tw_val a[4];
    for (int i = 0; i < o->g->p->tuning.blocks; i++) {
        for (int s = 0; s < sets; s++)
            multiply_set(o, t->w[i], t->scale + i * words, x[i], s * steps / sets, steps / sets, acc[i % o->sums]);
        for (int s = 0; s < steps && !sets; s++) {
            tw_val *sum = acc[(i * steps + s) % o->sums];
            unpack(o, t->w[i], s, a);
            multiply_step(o, a, x[i][s], sum, sum);
        }
    }
}

/* A position's sums of rows g and g + 8, where there is such a position. */
static void leave_position(product *o, tw_val at, tw_val position, tw_val low, tw_val high) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_val sum[2] = {low, high}, again = tw_lt(b, tw_i32(b, 0), o->u->chunk);
    tw_push_if(b, tw_lt(b, position, o->u->positions));
    at = tw_mega_at(g, at, position, TW_MEGA_PART_ROWS * 4);
    for (int i = 0; i < 2; i++) {
        const tw_attrs cell = {.type = TW_T_f32, .space = TW_SPACE_shared, .offset = i * TW_MEGA_ROWS * 4};
        tw_when(b, again);
        tw_val before = tw_ld(b, cell, at);
        tw_st(b, cell, at, (tw_val[]){tw_add(b, sum[i], before)});
    }
    tw_pop(b);
}

static void leave_integers(product *o, tw_val unit, const taken *t, tw_val (*acc)[4]) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const int T = g->p->tokens;
    tw_val at = tw_mega_at(g, o->u->part, g->warp, (int64_t)T * TW_MEGA_PART_ROWS * 4), sum[4];
    at = tw_mega_at(g, tw_mega_at(g, at, unit, TW_MEGA_ROWS * 4), g->row, 4);
    for (int e = 0; e < 4; e++) {
        sum[e] = acc[0][e];
        for (int s = 1; s < o->sums; s++) sum[e] = tw_add(b, sum[e], acc[s][e]);
        if (o->f->dtype == TW_I4) sum[e] = tw_mul(b, sum[e], tw_f32(b, NIBBLE));
        if (!o->f->sets) sum[e] = tw_mul(b, sum[e], tw_bitcast(b, TW_T_f32, t->scale[e / 2]));
    }
    if (few(o)) {
        leave_position(o, at, g->column, tw_add(b, sum[0], sum[1]), tw_add(b, sum[2], sum[3]));
        return;
    }
    tw_val position = tw_shl(b, g->column, 1);
    leave_position(o, at, position, sum[0], sum[2]);
    leave_position(o, at, tw_add_imm(b, position, 1), sum[1], sum[3]);
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

/* Integers keep the activations of few positions in registers: where a unit has one stage, for all units. */
static bool keeps(const product *o) {
    return o->f->units > 1 && few(o);
}

/* One stage, whose pieces are in registers; after a unit's last its sums are left. */
static void step(product *o, walk *k, const taken *t) {
    tw_builder *b = o->g->b;
    tw_mega_stream *s = o->stream;
    if (!keeps(o)) load_activations(o, next_column(o, k), s->x);
    if (o->f->units > 1)
        multiply_integers(o, t, s->x, k->acc);
    else
        multiply_floats(o, t, s->x, k->acc);
    tw_op_to(b, k->stage, TW_OP_add_i32, k->stage, tw_i32(b, 1), TW_NONE);
    tw_push_if(b, tw_eq(b, k->stage, o->u->stages));
    if (o->f->units > 1)
        leave_integers(o, k->unit, t, k->acc);
    else
        leave_floats(o, k->unit, k->acc);
    for (int i = 0; i < 4 * o->sums; i++) tw_assign(b, k->acc[i / 4][i % 4], tw_f32(b, 0));
    tw_assign(b, k->stage, tw_i32(b, 0));
    tw_op_to(b, k->unit, TW_OP_add_i32, k->unit, tw_i32(b, o->f->units), TW_NONE);
    tw_pop(b);
    if (!keeps(o)) return;
    tw_push_if(b, tw_lt(b, tw_i32(b, 1), o->u->stages));
    load_activations(o, next_column(o, k), s->x);
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
                 .sums = f->sets ? 1 : SUMS};
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
    const bool integers = o->f->units > 1, halves = integers && few(o);
    tw_val position = halves ? tw_shr(b, g->row, 1) : g->row;
    o->active = tw_lt(b, position, o->u->positions);
    o->idle = p->tokens < (halves ? FEW : TW_MEGA_ROWS);
    position = tw_min(b, position, tw_add_imm(b, o->u->positions, -1));
    tw_val x = tw_mega_at(g, tw_add_imm(b, g->shared, p->x), position, p->x_pitch);
    o->x = tw_mega_at(g, x, g->column, integers || o->f->dtype == TW_F32 ? 16 : 32);
    if (halves) o->x = tw_mega_at(g, o->x, tw_rem(b, g->row, 2), 8);
}

static void start(product *o, walk *k) {
    tw_builder *b = o->g->b;
    tw_val first = tw_mul(b, o->g->warp, o->u->stages);
    k->first = tw_mul_imm(b, first, (int64_t)o->g->p->tuning.blocks * o->f->depth);
    k->unit = tw_var_of(b, tw_i32(b, 0));
    k->stage = tw_var_of(b, tw_i32(b, 0));
    for (int i = 0; i < 4 * o->sums; i++) k->acc[i / 4][i % 4] = tw_var_of(b, tw_f32(b, 0));
    if (keeps(o)) load_activations(o, next_column(o, k), o->stream->x);
}

static void take_first(tw_mega_gen *g, const tw_mega_format *f, tw_mega_stream *s) {
    product o = product_of(g, f, s);
    take_stage(&o, &s->taken[0]);
    give_back(&o, &s->taken[0]);
}

void tw_mega_begin_stream(tw_mega_gen *g, tw_mega_stream *s, tw_val is_head, tw_val stages) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    const int blocks = p->tuning.blocks, steps = p->body.steps > p->head.steps ? p->body.steps : p->head.steps;
    s->left = tw_var_of(b, stages);
    for (int n = 0; n < 2; n++) {
        s->taken[n].empty = tw_var_of(b, tw_i32(b, 0));
        for (int i = 0; i < 4 * blocks; i++) s->taken[n].w[i / 4][i % 4] = tw_var_of(b, tw_i32(b, 0));
        for (int i = 0; i < 2 * blocks; i++) s->taken[n].scale[i] = tw_var_of(b, tw_i32(b, 0));
    }
    for (int i = 0; i < 4 * steps * blocks; i++)
        s->x[i / 4 / steps][i / 4 % steps][i % 4] = tw_var_of(b, tw_zero(b, p->body.half ? TW_T_f16x2 : TW_T_bf16x2));
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
