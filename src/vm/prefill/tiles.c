/* SPDX-License-Identifier: Apache-2.0 */
/* Products' configurations from tiles that were measured. Few tiles are the fastest, or nearly so, of all products of
   language models' prompts. Which one of a product depends on how many waves its blocks need. */
#include "base/divide.h"
#include "vm/prefill/program.h"
#include "vm/prefill/qkv.h"

#include <math.h>

typedef struct tile {
    tw_gemm_config c;
    double step; /* Microseconds of a wave for each 64 elements along k. */
    double wave; /* Microseconds of a wave beside its steps. Of teams that take turns, of the last wave alone. */
} tile;

static const tile tiles[] = {
#define TILE(ML, MS, NL, U, KG, SWAP, PINGPONG, PERSISTENT, STEP, WAVE)                                                \
    {{.mma = 2,                                                                                                        \
      .ms = MS,                                                                                                        \
      .ns = NL,                                                                                                        \
      .ml = ML,                                                                                                        \
      .nl = NL,                                                                                                        \
      .u = U,                                                                                                          \
      .ks = 1,                                                                                                         \
      .kl = 1,                                                                                                         \
      .kg = KG,                                                                                                        \
      .vec = 16,                                                                                                       \
      .frag = 16,                                                                                                      \
      .split = (KG) > 1 ? TW_JOIN_CLUSTER : 0,                                                                         \
      .swap = SWAP,                                                                                                    \
      .group = 8,                                                                                                      \
      .persistent = PERSISTENT,                                                                                        \
      .pingpong = PINGPONG},                                                                                           \
     STEP,                                                                                                             \
     WAVE},
#include "vm/prefill/tiles.def"
#undef TILE
};

/* Returns the time of a product with a tile, in microseconds: of the multiprocessors' waves, or of memory's bytes if
   that is longer. They overlap, but not quite. bench/tiles.py fits tiles.def to this. */
static double time_of(const tw_gemm_problem *p, const tile *t, int sms) {
    enum { STEP = 64 };
    const double launch = 1.5, bytes = 4.0e6 /* Bytes that memory moves in a microsecond. */, both = 0.15;
    const tw_gemm_config *c = &t->c;
    const int64_t rows = c->swap ? p->n : p->m, columns = c->swap ? p->m : p->n;
    const int64_t blocks = tw_ceil_div(rows, c->ml) * tw_ceil_div(columns, c->nl) * c->kg;
    const double waves = (double)tw_ceil_div(blocks, sms);
    const double steps = (double)(tw_ceil_div(tw_ceil_div(tw_gemm_depth(p), c->u), c->kg) * c->u) / STEP;
    const double computing = waves * steps * t->step + (c->pingpong ? 1 : waves) * t->wave;
    const double moving = 2 * (double)(p->n * p->k + p->m * p->k + p->m * p->n) / bytes;
    return launch + fmax(computing, moving) + both * fmin(computing, moving);
}

/* Takes the most stages, and the most direct way to store C, with which a configuration is legal. */
static bool complete(const tw_gemm_problem *p, const tw_target *target, tw_gemm_config *c) {
    static const int ways[] = {TW_GEMM_BOXED, TW_GEMM_EXCHANGED, TW_GEMM_DIRECT};
    enum { MOST = 16 /* Stages. */ };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (c->stages = MOST; c->stages >= 2; c->stages--) {
            c->staged = ways[i];
            if (tw_gemm_legal(p, c, target, NULL, NULL)) return true;
        }
    return false;
}

bool tw_prefill_tile(const tw_gemm_problem *problem, const tw_prefill_shape *rope, const tw_target *target, int sms,
                     tw_gemm_config *out) {
    double least = 1e30;
    if (problem->type != TW_GEMM_BF16 && problem->type != TW_GEMM_F16) return false;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        tw_gemm_config c = tiles[i].c;
        const double time = time_of(problem, &tiles[i], sms);
        /* Groups need blocks that stay. */
        if (c.persistent || problem->groups) c.persistent = sms;
        if (rope && !tw_prefill_qkv_fits(rope, &c)) continue;
        if (time >= least || !complete(problem, target, &c)) continue;
        least = time;
        *out = c;
    }
    return least < 1e30;
}
