/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/random_gemm.h"

#include "kernels/gemm/generate.h"
#include "kernels/gemm/space.h"

#include <stdio.h>

static int below(tw_random *r, int n) {
    return (int)tw_random_below(r, (uint64_t)n);
}

static bool chance(tw_random *r, int percent) {
    return below(r, 100) < percent;
}

/* Small ones, powers of two and others, up to `most`. */
static int64_t extent(tw_random *r, int most) {
    switch (below(r, 4)) {
    case 0:
        return 1 + below(r, most < 24 ? most : 24);
    case 1: {
        int64_t x = (int64_t)16 << below(r, 8);
        while (x > most) x /= 2;
        return x;
    }
    case 2: {
        int64_t x = 8 * (1 + below(r, most < 8 ? 1 : most / 8));
        return x > most ? most : x;
    }
    default:
        return 1 + below(r, most);
    }
}

/* What makes a leading dimension: nothing, whole vectors, or an odd few elements. */
static int64_t padded(tw_random *r, int64_t least) {
    if (chance(r, 55)) return least;
    return chance(r, 50) ? (least + 15) / 16 * 16 + 16 * below(r, 2) : least + 1 + below(r, 5);
}

static void draw_batch(tw_gemm_problem *p, tw_random *r) {
    p->batch = 1;
    if (!chance(r, 25)) return;
    p->batch = 2 + below(r, 2);
    const int64_t a = p->lda * (p->trans_a ? p->k : p->m), b = p->ldb * (p->trans_b ? p->n : p->k);
    p->stride_a = chance(r, 25) ? TW_GEMM_SHARED : chance(r, 30) ? a + below(r, 20) : 0;
    p->stride_b = chance(r, 25) ? TW_GEMM_SHARED : chance(r, 30) ? b + below(r, 20) : 0;
    if (chance(r, 30)) {
        p->stride_c = p->n; /* side by side */
        p->ldc = p->n * p->batch + below(r, 3);
    } else if (chance(r, 30)) {
        p->stride_c = p->ldc * p->m + below(r, 20);
    }
}

/* Lets the matrices of some batches lie anywhere. */
static void draw_pointers(tw_gemm_problem *p, uint64_t number) {
    tw_random r = tw_random_seed(number + 0x706f696e);
    p->pointers = p->batch > 1 && chance(&r, 35);
    if (p->pointers) p->epilogue.mul = p->epilogue.residual = false;
}

/* How the matrices of sets lie: within one another's rows, one behind another, or shared. `row` is a number of elements
   of which rows have whole ones. */
static void draw_set(const tw_gemm_problem *p, int64_t rows, int64_t columns, int64_t row, bool shared, tw_random *r,
                     int64_t *ld, int64_t *stride, int64_t *set) {
    const int64_t of_set = p->batch / p->sets, wide = (columns + row - 1) / row * row, more = row * below(r, 3);
    switch (below(r, shared ? 5 : 3)) {
    case 0: /* A set's products side by side. */
        *ld = wide * of_set + more;
        *stride = wide;
        *set = *ld * rows + more;
        break;
    case 1: /* Sets side by side. */
        *ld = wide * p->sets + more;
        *set = wide;
        *stride = *ld * rows + more;
        break;
    case 2: /* Gaps between sets. */
        *stride = *ld * rows + more;
        *set = *stride * of_set + more + row;
        break;
    case 3:
        *stride = TW_GEMM_SHARED;
        *set = chance(r, 30) ? TW_GEMM_SHARED : *ld * rows + more;
        break;
    default:
        *stride = *ld * rows + more;
        *set = TW_GEMM_SHARED;
    }
}

/* Makes sets of some batches. */
static void draw_sets(tw_gemm_problem *p, uint64_t number, int64_t row) {
    tw_random r = tw_random_seed(number + 0x73657473);
    if (p->batch == 1 || p->pointers || p->scale_blocks || !chance(&r, 50)) return;
    p->sets = 2 + below(&r, 2);
    p->batch = p->sets * (2 + below(&r, 2));
    p->epilogue.scale_rows = p->epilogue.scale_columns = false;
    draw_set(p, p->trans_a ? p->k : p->m, p->trans_a ? p->m : p->k, row, true, &r, &p->lda, &p->stride_a, &p->set_a);
    draw_set(p, p->trans_b ? p->n : p->k, p->trans_b ? p->k : p->n, row, true, &r, &p->ldb, &p->stride_b, &p->set_b);
    draw_set(p, p->m, tw_gemm_columns(p), chance(&r, 50) ? 8 : 1, false, &r, &p->ldc, &p->stride_c, &p->set_c);
}

/* Types that every way multiplies. e4m3 is for warpgroups alone. */
enum { TYPES = TW_GEMM_E4M3 };

static tw_type draw_out(tw_gemm_type t, uint64_t number, tw_random *r) {
    static const tw_type floating[] = {TW_T_f32, TW_T_f16, TW_T_bf16};
    static const tw_type integer[] = {TW_T_none, TW_T_i32, TW_T_i8, TW_T_f32};
    if (t == TW_GEMM_S8) return integer[number / TYPES % 4];
    return t == TW_GEMM_F64 || chance(r, 40) ? TW_T_none : floating[below(r, 3)];
}

static void draw_problem(tw_gemm_problem *p, uint64_t number, const gemm_limits *most, tw_random *r) {
    *p = (tw_gemm_problem){.type = (tw_gemm_type)(number % TYPES),
                           .m = extent(r, most->m),
                           .n = extent(r, most->n),
                           .k = extent(r, most->k),
                           .alpha = 1};
    const uint64_t layout = number / TYPES + number / ((TW_JOIN_WAYS + 1) * TYPES);
    p->trans_a = layout & 1;
    p->trans_b = layout >> 1 & 1;
    p->out = draw_out(p->type, number, r);
    p->lda = padded(r, p->trans_a ? p->m : p->k);
    p->ldb = padded(r, p->trans_b ? p->k : p->n);
    p->ldc = padded(r, p->n);
    draw_batch(p, r);
    tw_gemm_epilogue *e = &p->epilogue;
    e->bias = chance(r, 30);
    e->mul = chance(r, 20);
    e->residual = chance(r, 25);
    tw_gemm_problem complete = *p;
    tw_gemm_problem_complete(&complete, NULL);
    const bool integer = complete.out == TW_T_i32 || complete.out == TW_T_i8;
    if (!integer && chance(r, 30)) p->alpha = (1 + below(r, 16)) / -4.0;
    if (chance(r, 30)) p->beta = integer ? 1 : (1 + below(r, 16)) / 8.0;
    if (!integer && complete.out != TW_T_f64)
        e->activation = (tw_gemm_activation)(chance(r, 40) ? 1 + below(r, TW_GEMM_ACTIVATIONS - 1) : 0);
    if (integer || complete.out == TW_T_f64) return;
    tw_random of_scales = tw_random_seed(number + 0x7363616c);
    e->scale_rows = chance(&of_scales, 20);
    e->scale_columns = chance(&of_scales, 20);
}

static bool within(const gemm_case *c, const gemm_limits *most) {
    tw_gemm_resources need;
    tw_gemm_plan p;
    tw_gemm_variant v = tw_gemm_variant_of(&c->problem, &c->config);
    if (!tw_gemm_legal(&c->problem, &c->config, c->target, &need, NULL)) return false;
    if (tw_gemm_plan_of(&v, &c->config, c->target, &p)) return false;
    const tw_mma_info *m = tw_mma_describe(p.mma);
    const int unrolled = c->config.mma == 2 ? p.accumulators
                         : c->config.mma    ? p.accumulators / m->c * (p.depth / m->k)
                                            : p.accumulators * p.depth;
    const double work =
        (double)need.tiles * c->config.ml * c->config.nl * (double)c->problem.k / (c->config.mma ? 4 : 1);
    return unrolled <= most->code && work <= most->work;
}

/* Draws configurations until one is legal and within the limits. Fields of `keep` that are not -1 are fixed. */
static bool draw_within(gemm_case *c, const tw_gemm_config *keep, const gemm_limits *most, tw_random *r, int times) {
    const tw_gemm_space_context of = {&c->problem, c->target, NULL};
    int64_t kept[TW_SPACE_PARAMS];
    tw_gemm_space_keep(keep, kept);
    for (int i = 0; i < times; i++)
        if (tw_space_draw(&tw_gemm_space, &of, kept, r, 2000, &c->config) && within(c, most)) return true;
    return false;
}

/* Ways to cut k, not more than there are stages of 8. */
static int draw_parts(const tw_gemm_problem *p, const gemm_limits *most, tw_random *r) {
    const int64_t k = p->k / 8 + 1;
    const int limit = k < most->parts ? (int)k : most->parts;
    for (int i = 0; i < 100 && limit >= 2; i++) {
        int kg = 2 + below(r, limit - 1);
        if (chance(r, 30) || kg <= 6 || kg % 4 == 0) return kg;
    }
    return 1;
}

static bool draw_config(gemm_case *c, uint64_t number, const gemm_limits *most, tw_random *r) {
    tw_gemm_config keep = tw_gemm_config_any();
    int way = (int)(number / TYPES % (TW_JOIN_WAYS + 1)); /* The tw_join_way plus 1. 0: no split. */
    if (way == TW_JOIN_CLUSTER + 1 && c->target->sm < 90) way = 0;
    keep.kg = way ? draw_parts(&c->problem, most, r) : 1;
    if (way == TW_JOIN_CLUSTER + 1 && keep.kg > TW_JOIN_BLOCKS) keep.kg = 2 + below(r, TW_JOIN_BLOCKS - 1);
    keep.split = keep.kg > 1 ? way - 1 : 0;
    keep.mma = c->problem.type == TW_GEMM_TF32 || c->problem.type == TW_GEMM_TF32X3 ||
               (c->problem.type != TW_GEMM_F32 && chance(r, 60));
    /* What is transposed in vectors on its way needs much to come together. */
    const bool turning = (c->problem.type == TW_GEMM_F32 || c->problem.type == TW_GEMM_F64) && chance(r, 35);
    if (turning) keep.mma = 0;
    if (turning) keep.vec = 16;
    keep.swap = chance(r, 50);
    keep.copy = turning || chance(r, 40);
    if (keep.copy) keep.stages = chance(r, 60) ? 1 : 2;
    if (chance(r, 65)) keep.ks = 1 + below(r, 2);
    if (chance(r, 70)) keep.kl = 1 << below(r, 4);
    return draw_within(c, &keep, most, r, 10);
}

bool gemm_case_draw(gemm_case *c, uint64_t number, const tw_target *t, const gemm_limits *most) {
    tw_random r = tw_random_seed(number * 2 + 1);
    *c = (gemm_case){.target = t, .seed = number};
    for (int tries = 0; tries < 20; tries++) {
        draw_problem(&c->problem, number, most, &r);
        draw_pointers(&c->problem, number);
        draw_sets(&c->problem, number, 1);
        if (tw_gemm_problem_complete(&c->problem, NULL) != TW_OK) continue;
        if (draw_config(c, number, most, &r)) return true;
    }
    return false;
}

/* Makes B narrow, which is one matrix, stored along k. */
static void draw_narrow(tw_gemm_problem *p, tw_gemm_config *keep, tw_random *r) {
    static const int scales[] = {0, 32, 64, 128, 192, 256};
    p->narrow = chance(r, 50) ? TW_GEMM_I8 : TW_GEMM_I4;
    p->scales = scales[below(r, 6)];
    if (p->scales > p->k) p->scales = 0;
    p->scale_sums = p->scales && chance(r, 50);
    if (!p->scales)
        p->alpha = p->narrow == TW_GEMM_I8 ? 1.0 / 128 : 1.0 / 8; /* So that f16 holds sums and their products. */
    p->trans_b = true;
    p->ldb = p->stride_b = 0;
    p->batch = 1;
    p->groups = 0;
    p->epilogue.squares = p->epilogue.means = false; /* Operands are exchanged. */
    keep->swap = 1;
    keep->u = 64 << below(r, p->scales == 192 ? 1 : 3);
    if (chance(r, 50)) keep->stages = 2;
}

/* Lays some B of 16-bit elements on a tape. */
static void draw_tape(tw_gemm_problem *p, tw_gemm_config *keep, uint64_t number) {
    tw_random r = tw_random_seed(number + 0x74617065);
    p->tape = (tw_gemm_tape){0};
    const bool fits = (p->type == TW_GEMM_F16 || p->type == TW_GEMM_BF16) && !p->narrow && p->batch == 1;
    if (!fits || !chance(&r, 20)) return;
    const int blocks = chance(&r, 15) ? 3 : 1 << below(&r, 3), most = 1 + (int)p->k / (32 * blocks);
    p->tape = (tw_gemm_tape){.warps = 1 + below(&r, most < 8 ? most : 8), .blocks = blocks};
    if (blocks != 3 && chance(&r, 40)) {
        p->tape.warps = (p->tape.warps + 1) / 2 * 2;
        keep->u = 64 * blocks; /* A stage of two runs. */
    }
    p->tape.run = blocks * (1 + below(&r, 1 + most / p->tape.warps));
    p->trans_a = p->gather = false;
    p->trans_b = true;
    p->lda = (p->k + 7) / 8 * 8 + 8 * below(&r, 3);
    p->ldb = p->stride_a = p->stride_b = p->rows_a = 0;
}

/* Gives some A more rows than the product is of. */
static void draw_rows(tw_gemm_problem *p, uint64_t number) {
    tw_random r = tw_random_seed(number + 0x726f7773);
    const bool fits = p->batch == 1 && !p->groups && !p->trans_a;
    if (fits) p->rows_a = chance(&r, 20) ? p->m + below(&r, 200) : 0;
}

/* Groups whose rows are reserved, gathered or scattered, or none of these. */
static void draw_groups(tw_gemm_problem *p, tw_random *r) {
    p->masked = chance(r, 25);
    if (p->masked) p->m = (p->m + p->groups - 1) / p->groups * p->groups;
    p->gather = p->type != TW_GEMM_TF32X3 && chance(r, 60);
    if (p->gather) p->k = (p->k + 15) / 16 * 16;
    if (p->gather && chance(r, 60)) p->rows_a = 1 + below(r, 200);
    p->scatter = chance(r, 35);
    if (!p->scatter) return;
    p->beta = 0;
    p->epilogue.mul = p->epilogue.residual = false;
}

/* Products before and behind a norm. */
static void draw_norm(tw_gemm_problem *p, uint64_t number) {
    tw_random r = tw_random_seed(number + 0x6e6f726d);
    p->sums = p->batch > 1 || p->gather || !chance(&r, 20) ? 0 : 1 + below(&r, chance(&r, 50) ? 3 : 60);
    if (p->sums > p->k) p->sums = p->k;
    p->eps = p->sums ? 1e-2 * below(&r, 3) : 0;
    p->centred = p->sums && chance(&r, 50);
    p->norm_residual = p->centred && !p->epilogue.gated && !p->scatter && p->out != TW_T_e4m3 && chance(&r, 50);
    p->epilogue.residual |= p->norm_residual;
    p->epilogue.means = p->epilogue.squares && chance(&r, 60);
    p->epilogue.scaled = (p->type == TW_GEMM_F16 || p->type == TW_GEMM_BF16) && p->batch == 1 && p->groups < 2 &&
                         !p->scatter && !p->epilogue.gated && chance(&r, 25);
    if (!p->epilogue.scaled) return;
    p->out = TW_T_f32;
    p->ldc = 0;
}

bool gemm_case_draw_warpgroups(gemm_case *c, uint64_t number, const tw_target *t, const gemm_limits *most) {
    tw_random r = tw_random_seed(number * 2 + 1);
    *c = (gemm_case){.target = t, .seed = number};
    tw_gemm_problem *p = &c->problem;
    for (int tries = 0; tries < 100; tries++) {
        static const tw_gemm_type types[] = {TW_GEMM_BF16, TW_GEMM_F16, TW_GEMM_E4M3, TW_GEMM_TF32X3};
        const tw_gemm_type type = types[number / 4 % (sizeof types / sizeof *types)];
        const bool bytes = type == TW_GEMM_E4M3, words = type == TW_GEMM_TF32X3;
        const int row = 16 / (tw_type_bits(tw_gemm_types[type].element) / 8); /* Elements of 16 bytes. */
        draw_problem(p, number * TYPES + (bytes ? TW_GEMM_BF16 : type), most, &r);
        p->type = type;
        p->trans_a = !bytes && (number & 1);
        p->trans_b = bytes || (number >> 1 & 1);
        p->promote = bytes && (number & 1);
        p->scale_blocks = bytes && (number & 3) == 3;
        if (bytes && number % 7 == 0) {
            p->out = TW_T_e4m3;
            p->beta = 0;
            p->epilogue.bias = p->epilogue.mul = p->epilogue.residual = false;
        }
        p->weights = chance(&r, 50);
        if (chance(&r, 20)) {
            p->n = (p->n + 15) / 16 * 16;
            p->beta = 0;
            p->epilogue.bias = p->epilogue.mul = false;
            p->epilogue.gated = true;
        }
        p->groups = !p->trans_a && chance(&r, 25) ? 1 + below(&r, 6) : 0;
        if (p->groups) draw_groups(p, &r);
        /* Rows of whole 16 bytes, whatever is in them. */
        p->lda = ((p->trans_a ? p->m : p->k) + row - 1) / row * row + row * below(&r, 3);
        p->ldb = ((p->trans_b ? p->k : p->n) + row - 1) / row * row + row * below(&r, 3);
        p->ldc = chance(&r, 50) ? (tw_gemm_columns(p) + 7) / 8 * 8 : padded(&r, tw_gemm_columns(p));
        p->epilogue.squares = number % 5 == 0;
        p->batch = 1;
        p->stride_a = p->stride_b = p->stride_c = 0;
        if (!p->groups && chance(&r, 25)) {
            p->batch = 2 + below(&r, 2);
            p->stride_a = chance(&r, 25) ? TW_GEMM_SHARED : 0;
            p->stride_b = chance(&r, 25) ? TW_GEMM_SHARED : 0;
            p->scale_blocks = p->epilogue.squares = false;
        }
        draw_sets(p, number, row);
        draw_norm(p, number);
        tw_gemm_config keep = tw_gemm_config_any();
        p->narrow = TW_GEMM_WIDE;
        p->scales = 0;
        p->scale_sums = false;
        if (!bytes && !words && !p->groups && chance(&r, 40)) draw_narrow(p, &keep, &r);
        draw_tape(p, &keep, number);
        draw_rows(p, number);
        if (tw_gemm_problem_complete(p, NULL) != TW_OK) continue;
        const int way = p->groups ? 0 : below(&r, TW_JOIN_WAYS + 1);
        keep.mma = 2;
        keep.ms = words || chance(&r, 75) ? 64 : 128;
        if (chance(&r, 30)) keep.stages = 2 + below(&r, 2); /* A ring that goes round. */
        keep.kg = way ? draw_parts(p, most, &r) : 1;
        if (way == TW_JOIN_CLUSTER + 1 && keep.kg > TW_JOIN_BLOCKS) keep.kg = 2 + below(&r, TW_JOIN_BLOCKS - 1);
        keep.split = keep.kg > 1 ? way - 1 : 0;
        keep.multicast = way == TW_JOIN_CLUSTER + 1 || chance(&r, 50) ? 0 : 2 << below(&r, 2);
        if (p->groups) keep.multicast = 0;
        if (!p->narrow && way < TW_JOIN_CLUSTER + 1 && p->out != TW_T_f32 && !p->scatter &&
            chance(&r, p->groups ? 60 : 30)) {
            keep.staged = TW_GEMM_BOXED;
            keep.swap = 0;
        }
        if (way || (!p->groups && chance(&r, 30))) {
            keep.persistent = keep.pingpong = keep.stream = 0;
        } else {
            keep.persistent = keep.multicast ? keep.multicast * (1 + below(&r, 2)) : 1 + below(&r, 7);
            keep.stream = keep.multicast || p->groups || chance(&r, 15) ? 0 : 1 + below(&r, 2);
            keep.pingpong = keep.stream ? 0 : below(&r, 2);
        }
        /* Sums of so many columns need registers of the producer. */
        if (keep.persistent && keep.pingpong >= 0 && chance(&r, 25)) {
            keep.ms = words ? 64 : 128;
            keep.ml = (keep.pingpong ? 1 : 2) * keep.ms;
            keep.nl = keep.ns = words ? 128 + 16 * below(&r, 3) : 144 + 16 * below(&r, 4);
        }
        if (draw_within(c, &keep, most, &r, 1)) return true;
    }
    return false;
}

void gemm_case_print(const gemm_case *c, char *out, size_t size) {
    char problem[400], config[300];
    tw_gemm_problem_print(&c->problem, problem, sizeof problem);
    tw_gemm_config_print(&c->config, config, sizeof config);
    snprintf(out, size, "tilewright kernel gemm %s %s --target %s --seed %llu", problem, config, c->target->name,
             (unsigned long long)c->seed);
}

/* -- coverage */

typedef struct facts {
    const tw_gemm_problem *p;
    const tw_gemm_config *c;
    const tw_target *t;
    tw_gemm_variant v;
    tw_gemm_plan plan;
    tw_gemm_resources need;
} facts;

/* Brought in vectors, and stored element by element. */
static bool turned(const tw_gemm_tile *t) {
    return t->transposed && t->vec > t->es;
}

#define FEATURES                                                                                                       \
    F("f32", 120, p->type == TW_GEMM_F32)                                                                              \
    F("f64", 120, p->type == TW_GEMM_F64)                                                                              \
    F("f16", 120, p->type == TW_GEMM_F16)                                                                              \
    F("bf16", 120, p->type == TW_GEMM_BF16)                                                                            \
    F("tf32", 120, p->type == TW_GEMM_TF32)                                                                            \
    F("tf32x3", 120, p->type == TW_GEMM_TF32X3)                                                                        \
    F("s8", 120, p->type == TW_GEMM_S8)                                                                                \
    F("f64 on tensor cores", 30, p->type == TW_GEMM_F64 && c->mma)                                                     \
    F("f16 on tensor cores", 30, p->type == TW_GEMM_F16 && c->mma)                                                     \
    F("bf16 on tensor cores", 30, p->type == TW_GEMM_BF16 && c->mma)                                                   \
    F("s8 on tensor cores", 30, p->type == TW_GEMM_S8 && c->mma)                                                       \
    F("f64 by SIMT", 30, p->type == TW_GEMM_F64 && !c->mma)                                                            \
    F("f16 by SIMT", 30, p->type == TW_GEMM_F16 && !c->mma)                                                            \
    F("bf16 by SIMT", 30, p->type == TW_GEMM_BF16 && !c->mma)                                                          \
    F("s8 by SIMT", 30, p->type == TW_GEMM_S8 && !c->mma)                                                              \
    F("C f32", 150, p->out == TW_T_f32)                                                                                \
    F("C f16", 100, p->out == TW_T_f16)                                                                                \
    F("C bf16", 100, p->out == TW_T_bf16)                                                                              \
    F("C f64", 100, p->out == TW_T_f64)                                                                                \
    F("C i32", 50, p->out == TW_T_i32)                                                                                 \
    F("C i8", 15, p->out == TW_T_i8)                                                                                   \
    F("NN", 150, !p->trans_a && !p->trans_b)                                                                           \
    F("NT", 150, !p->trans_a && p->trans_b)                                                                            \
    F("TN", 150, p->trans_a && !p->trans_b)                                                                            \
    F("TT", 150, p->trans_a && p->trans_b)                                                                             \
    F("swap", 300, c->swap)                                                                                            \
    F("one stage", 250, c->stages == 1)                                                                                \
    F("asynchronous copies, two stages", 40, !c->copy && c->stages == 2)                                               \
    F("copies through registers, two stages", 120, c->copy && c->stages == 2)                                          \
    F("more stages", 200, c->stages > 2)                                                                               \
    F("ks", 200, c->ks > 1)                                                                                            \
    F("kl 2", 80, c->kl == 2)                                                                                          \
    F("kl 4", 60, c->kl == 4)                                                                                          \
    F("kl 8", 20, c->kl == 8)                                                                                          \
    F("kg, last", 120, c->kg > 1 && c->split == TW_JOIN_LAST)                                                          \
    F("kg, serial", 120, c->kg > 1 && c->split == TW_JOIN_SERIAL)                                                      \
    F("kg, atomic", 120, c->kg > 1 && c->split == TW_JOIN_ATOMIC)                                                      \
    F("kg, cluster", 50, c->kg > 1 && c->split == TW_JOIN_CLUSTER)                                                     \
    F("kg and kl", 150, c->kg > 1 && c->kl > 1)                                                                        \
    F("a split without work", 30, c->kg > 1 && (c->kg - 1) * f->need.stages_of_k * c->u >= p->k)                       \
    F("group", 400, c->group > 1)                                                                                      \
    F("several tiles", 300, f->need.tiles > p->batch)                                                                  \
    F("fragments of less than 16 bytes", 100, !c->mma && c->frag < 16)                                                 \
    F("copies of 1 or 2 bytes", 60, f->plan.x.vec < 4 || f->plan.y.vec < 4)                                            \
    F("copies of 4 bytes", 200, f->plan.x.vec == 4 || f->plan.y.vec == 4)                                              \
    F("copies of 8 bytes", 100, f->plan.x.vec == 8 || f->plan.y.vec == 8)                                              \
    F("copies of 16 bytes", 50, f->plan.x.vec == 16 || f->plan.y.vec == 16)                                            \
    F("transposed on the way", 50, f->plan.x.transposed || f->plan.y.transposed)                                       \
    F("transposed by vectors", 30, turned(&f->plan.x) || turned(&f->plan.y))                                           \
    F("transposed by vectors, ragged k", 20, !f->v.whole_k && (turned(&f->plan.x) || turned(&f->plan.y)))              \
    F("copies dealt out among sums", 50, !c->copy && f->v.whole_k)                                                     \
    F("wide stores", 150, f->v.vec_c >= 8)                                                                             \
    F("narrow stores", 150, f->v.vec_c <= tw_type_bits(p->out) / 8)                                                    \
    F("whole m", 30, f->v.whole_m)                                                                                     \
    F("whole n", 30, f->v.whole_n)                                                                                     \
    F("whole k", 100, f->v.whole_k)                                                                                    \
    F("ragged m", 300, !f->v.whole_m)                                                                                  \
    F("ragged n", 300, !f->v.whole_n)                                                                                  \
    F("ragged k", 300, !f->v.whole_k)                                                                                  \
    F("padded rows of A", 200, p->lda > (p->trans_a ? p->m : p->k))                                                    \
    F("padded rows of B", 200, p->ldb > (p->trans_b ? p->k : p->n))                                                    \
    F("padded rows of C", 200, p->ldc > p->n)                                                                          \
    F("batch", 150, p->batch > 1)                                                                                      \
    F("shared A or B", 60, p->batch > 1 && (p->stride_a < 0 || p->stride_b < 0))                                       \
    F("batch by pointers", 40, p->pointers)                                                                            \
    F("batch, split", 80, p->batch > 1 && c->kg > 1)                                                                   \
    F("sets", 60, p->sets > 1)                                                                                         \
    F("sets, split", 40, p->sets > 1 && c->kg > 1)                                                                     \
    F("products side by side in C", 30, p->batch > 1 && p->stride_c < p->ldc)                                          \
    F("alpha and beta", 40, p->alpha != 1 && p->beta != 0)                                                             \
    F("beta", 150, p->beta != 0)                                                                                       \
    F("activation", 100, p->epilogue.activation != TW_GEMM_LINEAR)                                                     \
    F("GELU by erf", 20, p->epilogue.activation == TW_GEMM_GELU_ERF)                                                   \
    F("bias", 150, p->epilogue.bias)                                                                                   \
    F("scales of rows or columns", 150, p->epilogue.scale_rows || p->epilogue.scale_columns)                           \
    F("mul or residual", 200, p->epilogue.mul || p->epilogue.residual)                                                 \
    F("blocks to keep resident", 300, c->blocks > 0)

static const struct {
    const char *name;
    int least;
} features[] = {
#define F(name, least, condition) {name, least},
    FEATURES
#undef F
};
enum { COUNT = sizeof features / sizeof *features };
_Static_assert((int)COUNT <= (int)GEMM_FEATURES, "room for every feature");

static void judge(gemm_coverage *v, const facts *f) {
    const tw_gemm_problem *p = f->p;
    const tw_gemm_config *c = f->c;
    int i = 0;
    v->cases++;
#define F(name, least, condition) v->of[i++] += condition;
    FEATURES
#undef F
}

void gemm_cover(gemm_coverage *v, const gemm_case *c) {
    facts f = {.p = &c->problem, .c = &c->config, .t = c->target};
    f.v = tw_gemm_variant_of(f.p, f.c);
    tw_gemm_plan_of(&f.v, f.c, f.t, &f.plan);
    tw_gemm_legal(f.p, f.c, f.t, &f.need, NULL);
    judge(v, &f);
}

int gemm_features(void) {
    return COUNT;
}

const char *gemm_feature_name(int i) {
    return features[i].name;
}

int gemm_feature_least(int i) {
    return features[i].least;
}
