/* SPDX-License-Identifier: Apache-2.0 */
/* Products' configurations from tiles that were measured. Few tiles are the fastest, or nearly so, of all products of
   language models' prompts. Which one of a product depends on how many waves its blocks need. */
#include "base/divide.h"
#include "kernels/gemm/estimate.h"
#include "vm/prefill/program.h"
#include "vm/prefill/qkv.h"

#include <math.h>

typedef struct tile {
    tw_gemm_config c;
    double step; /* Microseconds of a wave for each 64 elements along k. */
    double wave; /* Microseconds of a wave beside its steps. Of teams that take turns, of the last wave alone. */
} tile;

static const tile tiles[] = {
#define TILE(ML, MS, NL, U, KG, MULTICAST, SWAP, PINGPONG, PERSISTENT, BLOCKS, STEP, WAVE)                             \
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
      .group = (MULTICAST) && !(SWAP) ? 1 : 8, /* Only what is no tape is multicast. */                                \
      .multicast = MULTICAST,                                                                                          \
      .persistent = PERSISTENT,                                                                                        \
      .pingpong = PINGPONG,                                                                                            \
      .blocks = BLOCKS},                                                                                               \
     STEP,                                                                                                             \
     WAVE},
#include "vm/prefill/tiles.def"
#include "vm/prefill/tiles_between.def"
#include "vm/prefill/tiles_long.def"
#include "vm/prefill/tiles_parts.def"
#include "vm/prefill/tiles_short.def"
#undef TILE
};

/* Products of FROM to UP_TO rows have tiles_between.def, with times of their own: its tiles hardly fill the
   multiprocessors, and then more blocks take longer although there are no more waves. Others of up to SHORT rows have
   tiles_short.def, if B is on tapes, as it was where they were measured last. Products of more than LONG rows draw all
   the power that a board has, and have tiles_long.def. Products in parts have tiles_parts.def, of any number of parts
   (kg 0). */
enum { FROM = 129, UP_TO = 192, SHORT = 512, LONG = 1024 };

/* The first tiles of each table. */
#define TILE(...) +1
enum {
    FIRST_BETWEEN = 0
#include "vm/prefill/tiles.def"
    ,
    FIRST_LONG = FIRST_BETWEEN
#include "vm/prefill/tiles_between.def"
    ,
    FIRST_OF_PARTS = FIRST_LONG
#include "vm/prefill/tiles_long.def"
    ,
    FIRST_SHORT = FIRST_OF_PARTS
#include "vm/prefill/tiles_parts.def"
};
#undef TILE

/* The steps of 64 elements along k of each block. */
enum { STEP = 64 };

/* What the blocks of a tile do together. */
typedef struct work {
    int64_t of_a, of_b;   /* The tile's rows of A and columns of B. */
    double blocks, waves; /* Waves are of as many blocks as multiprocessors have room for. */
    double steps;         /* Of a block. */
} work;

static work work_of(const tw_gemm_problem *p, const tw_gemm_config *c, int sms) {
    /* Blocks that fetch the other operand together are neighbours along the columns of B. */
    work w = {.of_b = c->swap ? c->ml : c->nl, .of_a = c->swap ? c->nl : c->ml};
    const int64_t together = c->multicast ? c->multicast : 1;
    const int64_t along_b = tw_ceil_div(tw_ceil_div(p->n, w.of_b), together) * together;
    const int64_t blocks = along_b * tw_ceil_div(p->m, w.of_a) * c->kg * p->batch;
    /* An eleventh of the multiprocessors is in groups that have no room for another cluster of four. */
    const int64_t room = together > 2 && sms > 1 ? (int64_t)sms * 10 / 11 : sms;
    w.blocks = (double)blocks;
    w.waves = (double)tw_ceil_div(blocks, room);
    w.steps = (double)(tw_ceil_div(tw_ceil_div(tw_gemm_depth(p), c->u), c->kg) * c->u) / STEP;
    return w;
}

/* Returns the time of a product with a tile, in microseconds: of the multiprocessors' waves, or of memory's bytes if
   that is longer. They overlap, but not quite. bench/tiles.py fits tiles.def to this. */
static double time_of_whole(const tw_gemm_problem *p, const tile *t, int sms) {
    const double launch = 1.5, bytes = 4.0e6 /* Bytes that memory moves in a microsecond. */, both = 0.15;
    const work w = work_of(p, &t->c, sms);
    const double computing = w.waves * w.steps * t->step + (t->c.pingpong ? 1 : w.waves) * t->wave;
    const double moving = tw_gemm_bytes(p) / bytes;
    return launch + fmax(computing, moving) + both * fmin(computing, moving);
}

/* Does the same for a product in parts, for tiles_parts.def. The blocks of a wave fetch through the L2 cache, which
   also keeps the parts. */
static double time_of_parts(const tw_gemm_problem *p, const tile *t, int sms) {
    const double bytes = 4.9e6 /* Bytes that memory moves in a microsecond. */,
                 cached = 8.8e6 /* Bytes of operands that all blocks get from the L2 cache in a microsecond. */;
    enum { ELEMENT = 2 };
    const work w = work_of(p, &t->c, sms);
    const int together = t->c.multicast ? t->c.multicast : 1;
    const double fetched = w.blocks / w.waves * ((double)w.of_b + (double)w.of_a / together) * STEP * ELEMENT;
    const double computing = w.waves * (w.steps * fmax(t->step, fetched / cached) + t->wave);
    const double operands = (double)p->k * (double)(p->n + p->m) * ELEMENT;
    return hypot(computing, operands / bytes);
}

static double time_of(const tw_gemm_problem *p, const tile *t, int sms) {
    return p->addends ? time_of_parts(p, t, sms) : time_of_whole(p, t, sms);
}

bool tw_prefill_complete(const tw_gemm_problem *p, const tw_target *target, tw_gemm_config *c) {
    static const int ways[] = {TW_GEMM_BOXED, TW_GEMM_EXCHANGED, TW_GEMM_DIRECT};
    enum { MOST = 16 /* Stages. */ };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (c->stages = MOST; c->stages >= 2; c->stages--) {
            c->staged = ways[i];
            if (tw_gemm_legal(p, c, target, NULL, NULL)) return true;
        }
    return false;
}

/* Tells whether a tile does what its time says. `rope` is what the product also does. NULL: nothing. */
static bool suits(const tw_gemm_problem *problem, const tw_prefill_shape *rope, const tw_gemm_config *c) {
    enum { NARROW = 64, MANY = 128 /* Sums of a thread. */, FEW = 256 /* Rows. */ };
    if (rope && !tw_prefill_qkv_fits(rope, c)) return false;
    /* With swapped operands a lane stores single elements of queries and keys, and loads an angle for each. */
    if (rope && c->swap && c->nl > NARROW) return false;
    /* A thread with more sums has no registers for cells of C that are loaded ahead. */
    if (problem->beta != 0 && c->ms / TW_WGMMA_ROWS * c->nl / 2 > MANY) return false;
    /* In whole prompts two teams took longer than by themselves. */
    return problem->m <= FEW || !problem->epilogue.gated || !c->pingpong;
}

/* Makes a measured tile one of the problem. */
static void adapt(const tw_gemm_problem *problem, int sms, tw_gemm_config *c) {
    if (problem->addends) c->kg = (int)problem->addends;
    /* Groups need blocks that stay. */
    if (c->persistent || problem->groups) c->persistent = sms;
}

/* A table of tiles: those from number `from` to `to` - 1. */
typedef struct table {
    int from, to;
} table;

/* Finds a table's tile with the least time. Returns that time, in microseconds. 1e30: no tile is legal. */
static double fastest_of(const table *of, const tw_gemm_problem *problem, const tw_prefill_shape *rope,
                         const tw_target *target, int sms, tw_gemm_config *out) {
    double least = 1e30;
    for (int i = of->from; i < of->to; i++) {
        tile t = tiles[i];
        adapt(problem, sms, &t.c);
        const double time = time_of(problem, &t, sms);
        if (!suits(problem, rope, &t.c)) continue;
        if (time >= least || !tw_prefill_complete(problem, target, &t.c)) continue;
        least = time;
        *out = t.c;
    }
    return least;
}

static double fastest(const tw_gemm_problem *problem, const tw_prefill_shape *rope, const tw_target *target, int sms,
                      tw_gemm_config *out) {
    static const table most = {0, FIRST_BETWEEN}, between = {FIRST_BETWEEN, FIRST_LONG},
                       many = {FIRST_LONG, FIRST_OF_PARTS}, parts = {FIRST_OF_PARTS, FIRST_SHORT},
                       few = {FIRST_SHORT, (int)(sizeof tiles / sizeof *tiles)};
    const int64_t m = problem->m;
    if (problem->addends) return fastest_of(&parts, problem, rope, target, sms, out);
    const table *of = m >= FROM && m <= UP_TO             ? &between
                      : m <= SHORT && problem->tape.warps ? &few
                      : m > LONG                          ? &many
                                                          : &most;
    const double time = fastest_of(of, problem, rope, target, sms, out);
    if (time < 1e30 || of == &most) return time;
    /* Norms of heads need tiles of whole heads, which a short table may lack. */
    return fastest_of(&most, problem, rope, target, sms, out);
}

static bool known(const tw_gemm_problem *problem) {
    return problem->type == TW_GEMM_BF16 || problem->type == TW_GEMM_F16;
}

bool tw_prefill_tile(const tw_gemm_problem *problem, const tw_prefill_shape *rope, const tw_target *target, int sms,
                     tw_gemm_config *out) {
    if (!known(problem)) return false;
    if (tw_prefill_few(problem, rope, target, sms, out)) return true;
    return fastest(problem, rope, target, sms, out) < 1e30;
}

double tw_prefill_tile_time(const tw_gemm_problem *problem, const tw_prefill_shape *rope, const tw_target *target,
                            int sms) {
    tw_gemm_config unused;
    return known(problem) ? fastest(problem, rope, target, sms, &unused) : 1e30;
}
