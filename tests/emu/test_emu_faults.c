/* SPDX-License-Identifier: Apache-2.0 */
/* Faults within a block, one at a time: each is caught under its rule, and the kernel without it is clean. */
#include "emu/emu_test.h"

static const tw_attrs f32_shared = {.type = TW_T_f32, .space = TW_SPACE_shared};
static const tw_attrs f32_global = {.type = TW_T_f32};

static void barrier(tw_builder *b) {
    tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
}

/* -- out[i] = in[127 - i], through shared memory */

enum {
    NO_BARRIER = 1,
    DIVERGENT_BARRIER,
    BARRIER_OF_SOME,
    SHIFTED,
    UNALIGNED,
    WRITES_INPUT,
    NO_GUARD,
    HALF_WRITTEN,
    UNASSIGNED,
    READS_OUTPUT,
    TWO_WARPS,
    TWO_LANES,
    TRAPS,
    ENDLESS
};

static void read_back(tw_builder *b, int fault, tw_val out, tw_val tile, tw_val t) {
    tw_val from = tw_sub(b, tw_i32(b, fault == SHIFTED ? 128 : 127), t);
    tw_val x = tw_ld(b, f32_shared, at32(b, tile, from, 4));
    if (fault == UNASSIGNED) {
        tw_val v = tw_var(b, TW_T_f32);
        const tw_scope branch = tw_push_if(b, tw_lt(b, t, tw_i32(b, 70)));
        tw_assign(b, v, x);
        tw_pop(b, branch);
        x = tw_add(b, v, tw_f32(b, 0));
    }
    tw_val last = tw_fma(b, tw_sreg(b, TW_SREG_ctaid_x), tw_i32(b, 128), t);
    if (fault == NO_GUARD) last = tw_add_imm(b, last, CELLS - 100);
    tw_attrs at = f32_global;
    if (fault == UNALIGNED) {
        at.vec = 2;
        tw_st(b, at, at64(b, out, t, 4), (tw_val[]){x, x});
        return;
    }
    store(b, at, at64(b, out, last, 4), x);
}

static void build_reverse(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)aux;
    tw_shared_add(b, "tile", 128 * 4, 4, false);
    tw_val t = tid(b), tile = tw_shared_base(b, "tile"), to = t;
    tw_val x = tw_ld(b, f32_global, at64(b, fault == READS_OUTPUT ? out : in, t, 4));
    if (fault == TWO_WARPS) to = tw_and(b, t, tw_i32(b, 63));
    if (fault == TWO_LANES) to = tw_shr(b, t, 1);
    tw_val a = at32(b, tile, to, 4);
    if (fault == HALF_WRITTEN) tw_when(b, tw_lt(b, t, tw_i32(b, 120)));
    store(b, f32_shared, a, x);
    if (fault == WRITES_INPUT) store(b, f32_global, at64(b, in, t, 4), x);
    tw_scope branch = {0};
    if (fault == DIVERGENT_BARRIER) branch = tw_push_if(b, tw_lt(b, t, tw_i32(b, 100)));
    if (fault == BARRIER_OF_SOME) branch = tw_push_if(b, tw_lt(b, t, tw_i32(b, 96)));
    if (fault != NO_BARRIER) barrier(b);
    if (fault == DIVERGENT_BARRIER || fault == BARRIER_OF_SOME) tw_pop(b, branch);
    if (fault == TRAPS) {
        tw_when(b, tw_eq(b, t, tw_i32(b, 77)));
        tw_do(b, TW_OP_trap, (tw_attrs){0}, TW_NONE, TW_NONE);
    }
    if (fault == ENDLESS) {
        const tw_scope poll = tw_push_while(b);
        tw_push_while_body(b, poll, tw_const(b, TW_T_pred, 1));
        store(b, f32_shared, a, x);
        tw_pop(b, poll);
    }
    read_back(b, fault, out, tile, t);
}

static float reversed(int i) {
    return (float)(127 - i);
}

/* -- lanes of a warp hand values to one another */

enum { NO_WARP_SYNC = 1, SHFL_IN_BRANCH, SHFL_FROM_OUTSIDE, MASK_WITHOUT_SELF, MATRIX_IN_BRANCH };

static void build_lanes(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)aux;
    tw_shared_add(b, "tile", 64 * 4, 16, false);
    tw_val t = tid(b), tile = tw_shared_base(b, "tile"), all = tw_i32(b, -1);
    tw_val x = tw_ld(b, f32_global, at64(b, in, t, 4)), few = tw_lt(b, t, tw_i32(b, 20));
    store(b, f32_shared, at32(b, tile, t, 4), x);
    if (fault != NO_WARP_SYNC) tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, all, TW_NONE);
    tw_val y = tw_ld(b, f32_shared, at32(b, tile, tw_xor(b, t, tw_i32(b, 1)), 4));
    tw_scope if_few = {0};
    if (fault == SHFL_IN_BRANCH || fault == MATRIX_IN_BRANCH) if_few = tw_push_if(b, few);
    if (fault == MATRIX_IN_BRANCH) {
        tw_val m = TW_NONE;
        tw_ldmatrix(b, 1, false, tile, 0, &m);
    }
    tw_val mask = fault == SHFL_FROM_OUTSIDE   ? tw_i32(b, 0xffff)
                  : fault == MASK_WITHOUT_SELF ? tw_i32(b, 0x7fffffff)
                                               : all;
    if (fault == SHFL_FROM_OUTSIDE) if_few = tw_push_if(b, tw_lt(b, tw_sreg(b, TW_SREG_laneid), tw_i32(b, 16)));
    tw_val z = tw_shfl(b, TW_MODE_down, y, tw_i32(b, 2), mask);
    store(b, f32_global, at64(b, out, t, 4), z);
    if (fault == SHFL_IN_BRANCH || fault == MATRIX_IN_BRANCH || fault == SHFL_FROM_OUTSIDE) tw_pop(b, if_few);
}

static float exchanged(int i) {
    int lane = i % 32;
    return (float)((i - lane + (lane + 2 > 31 ? lane : lane + 2)) ^ 1);
}

/* -- two warps fill, two empty, with named barriers: 1 is full, 2 is empty */

enum { WRONG_NUMBER = 1, WRONG_COUNT, ODD_COUNT, NO_ARRIVE, LATE_WAIT, NUMBER_16, ARRIVES_TWICE, SECOND_WARP_TWICE };

static void named(tw_builder *b, tw_opcode code, int number, int count) {
    tw_do(b, code, (tw_attrs){.count = count}, tw_i32(b, number), TW_NONE);
}

static void build_named(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)aux;
    tw_shared_add(b, "tile", 64 * 4, 16, true);
    tw_val t = tw_and(b, tid(b), tw_i32(b, 63)), tile = tw_shared_base(b, "tile"), a = at32(b, tile, t, 4);
    const int ranges[] = {0, 2, 2, 4};
    const tw_scope roles = tw_push_roles(b, ranges, 2);
    const tw_scope loop = tw_push_for(b, tw_i32(b, 0), tw_i32(b, 5), tw_i32(b, 1), false);
    tw_val i = loop.i;
    named(b, TW_OP_barrier_sync, fault == NUMBER_16 ? 16 : 2, fault == ODD_COUNT ? 100 : 128);
    store(b, f32_shared, a, tw_ld(b, f32_global, at64(b, in, tw_fma(b, i, tw_i32(b, 64), t), 4)));
    named(b, TW_OP_barrier_arrive, fault == WRONG_NUMBER ? 3 : 1, fault == WRONG_COUNT ? 64 : 128);
    if (fault == ARRIVES_TWICE) named(b, TW_OP_barrier_arrive, 1, 128);
    if (fault == SECOND_WARP_TWICE) {
        const tw_scope branch = tw_push_if(b, tw_eq(b, tw_shr(b, t, 5), tw_i32(b, 1)));
        named(b, TW_OP_barrier_arrive, 1, 128);
        tw_pop(b, branch);
    }
    tw_pop(b, loop);
    tw_next_role(b, roles);
    if (fault != NO_ARRIVE) named(b, TW_OP_barrier_arrive, 2, 128);
    const tw_scope loop2 = tw_push_for(b, tw_i32(b, 0), tw_i32(b, 5), tw_i32(b, 1), false);
    i = loop2.i;
    if (fault != LATE_WAIT) named(b, TW_OP_barrier_sync, 1, 128);
    tw_val x = tw_ld(b, f32_shared, at32(b, tile, tw_xor(b, t, tw_i32(b, 32)), 4));
    if (fault == LATE_WAIT) named(b, TW_OP_barrier_sync, 1, 128);
    store(b, f32_global, at64(b, out, tw_fma(b, i, tw_i32(b, 64), t), 4), x);
    const tw_scope branch2 = tw_push_if(b, tw_lt(b, i, tw_i32(b, 4)));
    named(b, TW_OP_barrier_arrive, 2, 128);
    tw_pop(b, branch2);
    tw_pop(b, loop2);
    tw_pop(b, roles);
}

static float named_want(int i) {
    return (float)(i ^ 32);
}

/* -- a pipeline of two stages with cp_async: out[i] = in[i ^ 1] for 8 tiles of 128 */

enum {
    NO_COPY_WAIT = 1,
    WAIT_ONE_LESS,
    NO_BARRIER_AFTER_WAIT,
    REUSED_EARLY,
    NEVER_WAITED,
    COPY_UNALIGNED,
    COPY_BEYOND,
    SOURCE_TOO_LONG,
    NO_ZERO_FILL,
    LATE_WAIT_ONE_LESS
};

static void copy_tile(tw_builder *b, int fault, tw_val in, tw_val tile, tw_val i, tw_val t) {
    tw_val to = tw_fma(b, tw_and(b, i, tw_i32(b, 1)), tw_i32(b, 512), at32(b, tile, t, 4));
    tw_val from = at64(b, in, tw_fma(b, i, tw_i32(b, 128), t), 4);
    if (fault == COPY_UNALIGNED) from = tw_add_imm(b, from, 2);
    if (fault == COPY_BEYOND) from = tw_add_imm(b, from, (CELLS - 1000) * 4);
    tw_cp_async(b, (tw_attrs){.bytes = 4}, to, from, TW_NONE);
    tw_do(b, TW_OP_cp_async_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
}

static void build_pipeline(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)aux;
    enum { TILES = 8 };
    tw_shared_add(b, "tile", 2 * 512, 16, true);
    tw_val t = tid(b), tile = tw_shared_base(b, "tile");
    copy_tile(b, fault, in, tile, tw_i32(b, 0), t);
    const tw_scope loop = tw_push_for(b, tw_i32(b, 0), tw_i32(b, TILES), tw_i32(b, 1), false);
    tw_val i = loop.i, next = tw_add_imm(b, i, 1);
    const tw_scope branch = tw_push_if(b, tw_lt(b, next, tw_i32(b, TILES)));
    copy_tile(b, fault, in, tile, next, t);
    tw_push_else(b, branch);
    tw_do(b, TW_OP_cp_async_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_pop(b, branch);
    if (fault != NO_COPY_WAIT)
        tw_do(b, TW_OP_cp_async_wait, (tw_attrs){.count = fault == WAIT_ONE_LESS ? 2 : 1}, TW_NONE, TW_NONE);
    if (fault != NO_BARRIER_AFTER_WAIT) barrier(b);
    tw_val from = tw_fma(b, tw_and(b, i, tw_i32(b, 1)), tw_i32(b, 512), at32(b, tile, tw_xor(b, t, tw_i32(b, 1)), 4));
    tw_val x = tw_ld(b, f32_shared, from);
    store(b, f32_global, at64(b, out, tw_fma(b, i, tw_i32(b, 128), t), 4), x);
    if (fault != REUSED_EARLY) barrier(b);
    tw_pop(b, loop);
    if (fault == NEVER_WAITED) copy_tile(b, fault, in, tile, tw_i32(b, 0), t);
}

/* -- a warp that copies so often that not all of its groups are kept: out[i] = in[128 (i / 32) + i % 32], copied again
   and again. The late waits are apart from the others, so that a fault can be late alone. */

static void build_long(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)aux;
    enum { COPIES = 700, LATE = 690 };
    tw_shared_add(b, "tile", 2 * 512, 16, true);
    tw_val t = tid(b), tile = tw_shared_base(b, "tile");
    copy_tile(b, fault, in, tile, tw_i32(b, 0), t);
    TW_FOR (b, i, tw_i32(b, 0), tw_i32(b, COPIES), tw_i32(b, 1), false) {
        tw_val at = tw_and(b, i, tw_i32(b, 1)), next = tw_and(b, tw_add_imm(b, i, 1), tw_i32(b, 1));
        copy_tile(b, fault, in, tile, next, t);
        TW_IF (b, tw_lt(b, i, tw_i32(b, LATE))) {
            tw_do(b, TW_OP_cp_async_wait, (tw_attrs){.count = 1}, TW_NONE, TW_NONE);
        } else {
            tw_do(b, TW_OP_cp_async_wait, (tw_attrs){.count = fault == LATE_WAIT_ONE_LESS ? 2 : 1}, TW_NONE, TW_NONE);
        }
        tw_val x = tw_ld(b, f32_shared, tw_fma(b, at, tw_i32(b, 512), at32(b, tile, t, 4)));
        store(b, f32_global, at64(b, out, tw_fma(b, at, tw_i32(b, 32), t), 4), x);
    }
    tw_do(b, TW_OP_cp_async_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
}

static float two_tiles(int i) {
    return (float)(i / 32 * 128 + i % 32);
}

static float neighbours(int i) {
    return (float)(i ^ 1);
}

/* -- zero fill, and a plain store instead */

static void build_fill(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)aux;
    tw_shared_add(b, "tile", 64 * 16, 16, true);
    tw_val t = tid(b), tile = tw_shared_base(b, "tile");
    /* The last of CELLS floats, beyond which lanes may copy no byte. */
    tw_val first = tw_add_imm(b, tw_shl(b, t, 2), CELLS - 200), from = at64(b, in, first, 4);
    tw_val left = tw_sub(b, tw_i32(b, CELLS), first);
    tw_val bytes = tw_min(b, tw_max(b, tw_shl(b, left, 2), tw_i32(b, 0)), tw_i32(b, 16));
    tw_val to = at32(b, tile, t, 16);
    if (fault == NO_ZERO_FILL) tw_when(b, tw_binary(b, TW_OP_gt_s32, left, tw_i32(b, 0)));
    tw_cp_async(b, (tw_attrs){.bytes = 16}, to, from, fault == SOURCE_TOO_LONG ? TW_NONE : bytes);
    tw_do(b, TW_OP_cp_async_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_cp_async_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
    barrier(b);
    for (int i = 0; i < 4; i++) {
        tw_val at = tw_add_imm(b, t, 64 * i);
        store(b, f32_global, at64(b, out, at, 4), tw_ld(b, f32_shared, at32(b, tile, at, 4)));
    }
}

static float filled(int i) {
    return i < 200 ? (float)(CELLS - 200 + i) : 0;
}

/* -- four warps read a cell, and a fifth writes it once they have; or four write it, and a fifth reads it */

enum { ONE_AWAY = 1, FOUR_ALIGNED, FIFTH_ALIGNED };

/* A barrier at which threads wait in several places. */
static void named_apart(tw_builder *b, int number, int count, bool apart) {
    tw_do(b, TW_OP_barrier_sync, (tw_attrs){.count = count, .apart = apart}, tw_i32(b, number), TW_NONE);
}

/* Writes are strong, so that the four do not race. */
static void access_cell(tw_builder *b, bool writes, tw_val out, tw_val cell) {
    const tw_attrs strong = {F32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_gpu};
    const tw_scope if_lead = tw_push_if(b, tw_eq(b, tw_sreg(b, TW_SREG_laneid), tw_i32(b, 0)));
    if (writes)
        store(b, strong, cell, tw_f32(b, 1));
    else
        store(b, f32_global, at64(b, out, tw_shr(b, tid(b), 5), 4), tw_ld(b, f32_global, cell));
    tw_pop(b, if_lead);
}

static void build_five(tw_builder *b, int fault, bool four_write, tw_val out, tw_val aux) {
    const int ranges[] = {0, 4, 4, 5};
    const tw_scope roles = tw_push_roles(b, ranges, 2);
    access_cell(b, four_write, out, aux);
    tw_scope branch = {0};
    const bool away = fault == ONE_AWAY;
    if (away) branch = tw_push_if(b, tw_le(b, tw_i32(b, 32), tid(b)));
    named_apart(b, 1, away ? 128 : 160, fault != FOUR_ALIGNED);
    if (away) tw_pop(b, branch);
    tw_next_role(b, roles);
    named_apart(b, 1, away ? 128 : 160, fault != FIFTH_ALIGNED);
    access_cell(b, !four_write, out, aux);
    tw_pop(b, roles);
}

static void build_readers(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)in;
    build_five(b, fault, false, out, aux);
}

static void build_writers(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)in;
    build_five(b, fault, true, out, aux);
}

static float zero(int i) {
    (void)i;
    return 0;
}

/* -- a thread looks at a counter, or sets it, and then counts as another one does */

enum { SET_UNORDERED = 1, SEEN_UNORDERED };

static void build_counter(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)in;
    const tw_attrs plain = {I32};
    const tw_scope branch = tw_push_if(b, tw_eq(b, tid(b), tw_i32(b, 0)));
    if (fault == SEEN_UNORDERED)
        store(b, plain, out, tw_ld(b, plain, aux));
    else
        store(b, plain, aux, tw_i32(b, 0));
    tw_pop(b, branch);
    if (!fault) barrier(b);
    const tw_scope branch2 = tw_push_if(b, tw_eq(b, tw_sreg(b, TW_SREG_laneid), tw_i32(b, 0)));
    tw_val one = tw_i32(b, 1);
    tw_red(b, (tw_attrs){I32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_gpu}, aux, &one);
    tw_pop(b, branch2);
}

enum { READERS, WRITERS, COUNTER, REVERSE, LANES_MEET, NAMED, PIPELINE, LONG, FILL };
static const scene scenes[] = {
    [READERS] = {"readers", 160, 1, 0, false, build_readers, zero, 4},
    [WRITERS] = {"writers", 160, 1, 0, false, build_writers, zero, 0},
    [COUNTER] = {"counter", 64, 1, 0, false, build_counter, zero, 0},
    [REVERSE] = {"reverse", 128, 3, 0, false, build_reverse, reversed, 0},
    [LANES_MEET] = {"lanes", 64, 1, 0, false, build_lanes, exchanged, 64},
    [NAMED] = {"named", 128, 1, 0, false, build_named, named_want, 320},
    [PIPELINE] = {"pipeline", 128, 1, 0, false, build_pipeline, neighbours, 1024},
    [LONG] = {"long", 32, 1, 0, false, build_long, two_tiles, 64},
    [FILL] = {"fill", 64, 1, 0, false, build_fill, filled, 256},
};
static const scene alone = {"reverse", 128, 1, 0, false, build_reverse, reversed, 128};

static const planted faults[] = {
    {&alone, NO_BARRIER, "removed barrier", TW_EMU_RACE, "reverse: body/|tile+|nothing orders the two"},
    {&alone, DIVERGENT_BARRIER, "barrier in a branch", TW_EMU_DIVERGENCE,
     "body/if|/barrier 0|warp 3|lane 4 and 27 more"},
    {&alone, BARRIER_OF_SOME, "barrier that one warp skips", TW_EMU_BARRIER,
     "block 0 warps 0-2 at body/if|/barrier 0|has 96 of 128 threads"},
    {&alone, SHIFTED, "shifted index", TW_EMU_BOUNDS,
     "warp 0 lane 0: reads 4 bytes at tile+512, but tile has 512 bytes|ld"},
    {&alone, UNALIGNED, "unaligned vector", TW_EMU_ALIGNMENT, "/st|8 bytes at out+|which is not aligned to 8"},
    {&alone, WRITES_INPUT, "write to read-only memory", TW_EMU_READ_ONLY, "/st|writes in+"},
    {&alone, NO_GUARD, "missing guard", TW_EMU_BOUNDS, "writes 4 bytes at out+16384"},
    {&alone, HALF_WRITTEN, "shared memory read before it is written", TW_EMU_UNINITIALISED, "/ld|reads tile+"},
    {&alone, UNASSIGNED, "variable without a value", TW_EMU_UNINITIALISED, "/add_f32|variable"},
    {&alone, READS_OUTPUT, "global memory read before it is written", TW_EMU_UNINITIALISED, "/ld|reads out+"},
    {&alone, TWO_WARPS, "two warps write a cell", TW_EMU_RACE, "/st|writes tile+|wrote: nothing orders"},
    {&alone, TWO_LANES, "two lanes write a cell", TW_EMU_RACE, "lane 1: writes tile+|lane 0 wrote"},
    {&alone, TRAPS, "trap", TW_EMU_TRAP, "warp 2 lane 13: trapped"},
    {&alone, ENDLESS, "endless loop", TW_EMU_LIMIT, "operations"},
    {&scenes[READERS], ONE_AWAY, "one reader does not meet the writer", TW_EMU_RACE, "aux+0|nothing orders"},
    {&scenes[WRITERS], ONE_AWAY, "one writer does not meet the reader", TW_EMU_RACE, "aux+0|nothing orders"},
    {&scenes[READERS], FOUR_ALIGNED, "aligned where the readers wait", TW_EMU_BARRIER, "waits at barrier 1"},
    {&scenes[READERS], FIFTH_ALIGNED, "aligned where the writer waits", TW_EMU_BARRIER, "waits at barrier 1"},
    {&scenes[COUNTER], SET_UNORDERED, "a counter set without a barrier", TW_EMU_RACE, "aux+0|nothing orders"},
    {&scenes[COUNTER], SEEN_UNORDERED, "a counter read without a barrier", TW_EMU_RACE, "aux+0|nothing orders"},
    {&scenes[REVERSE], NO_BARRIER, "removed barrier in many blocks", TW_EMU_RACE, "nothing orders"},
    {&scenes[LANES_MEET], NO_WARP_SYNC, "missing warp_sync", TW_EMU_RACE, "/ld|reads tile+|nothing orders"},
    {&scenes[LANES_MEET], SHFL_IN_BRANCH, "shfl in a branch", TW_EMU_DIVERGENCE, "/shfl|names lane 20, which is not"},
    {&scenes[LANES_MEET], SHFL_FROM_OUTSIDE, "shfl from a lane outside", TW_EMU_DIVERGENCE,
     "lane 14: takes the value of lane 16"},
    {&scenes[LANES_MEET], MASK_WITHOUT_SELF, "mask that leaves its lane out", TW_EMU_DIVERGENCE,
     "lane 31: its mask 0x7fffffff"},
    {&scenes[LANES_MEET], MATRIX_IN_BRANCH, "ldmatrix in a branch", TW_EMU_DIVERGENCE, "/ldmatrix|lane 20 and 11 more"},
    {&scenes[NAMED], WRONG_NUMBER, "arrives at another barrier", TW_EMU_DEADLOCK,
     "4 warps wait: block 0 warps 0-1 at body/roles|barrier 2 has 64 of 128|warps 2-3|barrier 1 has 64 of 128"},
    {&scenes[NAMED], WRONG_COUNT, "other counts at one barrier", TW_EMU_BARRIER, "barrier 1 for|but|expects"},
    {&scenes[NAMED], ODD_COUNT, "count of no whole warps", TW_EMU_BARRIER, "for 100 threads: not whole warps"},
    {&scenes[NAMED], NUMBER_16, "number out of range", TW_EMU_BARRIER, "barrier 16: they go from 0 to 15"},
    {&scenes[NAMED], NO_ARRIVE, "missing arrive", TW_EMU_DEADLOCK,
     "4 warps wait: block 0 warps 0-1 at|barrier 2 has 64 of 128|warps 2-3"},
    {&scenes[NAMED], LATE_WAIT, "reads before it waits until full", TW_EMU_RACE, "tile+"},
    {&scenes[NAMED], ARRIVES_TWICE, "arrives twice", TW_EMU_BARRIER, "arrives at barrier 1 again"},
    {&scenes[NAMED], SECOND_WARP_TWICE, "the second warp arrives twice", TW_EMU_BARRIER, "barrier 1 again"},
    {&scenes[PIPELINE], NO_COPY_WAIT, "missing cp_async_wait", TW_EMU_ASYNC,
     "/ld|reads tile+|the copy|/cp_async|was not waited for"},
    {&scenes[PIPELINE], WAIT_ONE_LESS, "waits for one group too few", TW_EMU_ASYNC, "/ld|reads tile+|/cp_async"},
    {&scenes[PIPELINE], NO_BARRIER_AFTER_WAIT, "missing barrier after the wait", TW_EMU_RACE,
     "/ld|reads tile+|/cp_async|nothing orders"},
    {&scenes[PIPELINE], REUSED_EARLY, "stage reused too early", TW_EMU_RACE, "/cp_async|copies to tile+|/ld|read"},
    {&scenes[LONG], LATE_WAIT_ONE_LESS, "waits for one group of hundreds too few", TW_EMU_ASYNC,
     "/ld|reads tile+|/cp_async"},
    {&scenes[PIPELINE], NEVER_WAITED, "copies never waited for", TW_EMU_LEAK, "exits with copies"},
    {&scenes[PIPELINE], COPY_UNALIGNED, "unaligned copy", TW_EMU_ALIGNMENT, "/cp_async|not aligned to 4"},
    {&scenes[PIPELINE], COPY_BEYOND, "copy beyond the end", TW_EMU_BOUNDS, "/cp_async|in+16384"},
    {&scenes[FILL], SOURCE_TOO_LONG, "copies whole pieces at the edge", TW_EMU_BOUNDS, "/cp_async|lane 18|in+16384"},
    {&scenes[FILL], NO_ZERO_FILL, "edge left out instead of zero", TW_EMU_UNINITIALISED, "/ld|reads tile+"},
};

/* Warp 0 writes a cell that warp 1 reads, from within as many branches. */
static void build_deep(tw_builder *b, int depth, tw_val in, tw_val out, tw_val aux) {
    (void)in;
    tw_val first = tw_lt(b, tid(b), tw_i32(b, 32)), lane = tw_sreg(b, TW_SREG_laneid);
    tw_val never = tw_lt(b, lane, tw_i32(b, 0)), lead = tw_eq(b, lane, tw_i32(b, 0));
    const tw_scope if_first = tw_push_if(b, first);
    tw_scope nested[TW_BUILDER_DEPTH];
    for (int i = 0; i < depth; i++) {
        nested[i] = tw_push_if(b, never);
        store(b, f32_global, out, tw_f32(b, 1));
        tw_push_else(b, nested[i]);
    }
    tw_when(b, lead);
    store(b, f32_global, aux, tw_f32(b, 1));
    for (int i = depth; i-- > 0;) tw_pop(b, nested[i]);
    tw_push_else(b, if_first);
    const tw_scope if_lead = tw_push_if(b, lead);
    store(b, f32_global, out, tw_ld(b, f32_global, aux));
    tw_pop(b, if_lead);
    tw_pop(b, if_first);
}

/* A place that is too long for its part of the text is cut, and what follows is still said. */
static void deep_places_are_cut(void **state) {
    (void)state;
    static const scene deep = {"deep", 64, 1, 0, false, build_deep, NULL, 0};
    float out[CELLS];
    tw_emu_report r;
    for (int depth = 1; depth < 25; depth += TEST_SANITIZED ? 4 : 1)
        for (uint64_t seed = 0; seed < 4; seed++) {
            assert_int_equal(play(&deep, depth, seed, false, &r, out), TW_ERR_REJECTED);
            assert_int_equal(r.findings[0].rule, TW_EMU_RACE);
            if (!holds_all(r.findings[0].text, "deep: body/|block 0 warp 0|block 0 warp 1|aux+0|nothing orders"))
                fail_msg("depth %d: %s", depth, r.findings[0].text);
        }
}

static void within_a_block(void **state) {
    (void)state;
    plays_clean(&alone);
    all_caught(scenes, COUNT(scenes), faults, COUNT(faults));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(within_a_block), cmocka_unit_test(deep_places_are_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
