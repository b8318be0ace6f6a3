/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that talk through global memory: scopes, releases, semaphores, locks; atomics; and that a seed says it all. */
#include "emu/emu_test.h"

static const tw_attrs f32_shared = {.type = TW_T_f32, .space = TW_SPACE_shared};
static const tw_attrs f32_global = {.type = TW_T_f32};
static const tw_attrs none = {0};

static void barrier(tw_builder *b) {
    tw_do(b, TW_OP_barrier, none, TW_NONE, TW_NONE);
}

/* while (*address != value) */
static void spin(tw_builder *b, tw_attrs at, tw_val address, tw_val value) {
    const tw_scope poll = tw_push_while(b);
    tw_val x = tw_ld(b, at, address);
    tw_push_while_body(b, poll, tw_ne(b, x, value));
    tw_pop(b, poll);
}

/* -- block 0 writes 64 floats and raises a flag, block 1 waits for it and reads them */

enum {
    RELAXED_STORE = 1,
    RELAXED_LOAD,
    WEAK_FLAG,
    CTA_SCOPE_RELEASE,
    CTA_SCOPE_ACQUIRE,
    NEVER_RAISED,
    NO_BARRIER_BEFORE,
    NO_BARRIER_AFTER,
    PEERS, /* no fault: as far as other GPUs */
    FENCES,
    NO_FENCE,
    NARROW_FENCE
};

static void raise_flag(tw_builder *b, int fault, tw_val flag) {
    bool fences = fault >= FENCES;
    tw_attrs at = {I32, .order = TW_ORDER_release, .scope = TW_SCOPE_gpu};
    if (fault == RELAXED_STORE || fences) at.order = TW_ORDER_relaxed;
    if (fault == WEAK_FLAG) at.order = TW_ORDER_weak;
    if (fault == PEERS) at.scope = TW_SCOPE_sys;
    if (fault == CTA_SCOPE_RELEASE) at.scope = TW_SCOPE_cta;
    if (fences && fault != NO_FENCE) {
        tw_attrs f = {.order = TW_ORDER_acq_rel, .scope = fault == NARROW_FENCE ? TW_SCOPE_cta : TW_SCOPE_gpu};
        tw_do(b, TW_OP_fence, f, TW_NONE, TW_NONE);
    }
    if (fault != NEVER_RAISED) store(b, at, flag, tw_i32(b, 1));
}

static void await_flag(tw_builder *b, int fault, tw_val flag) {
    bool fences = fault >= FENCES;
    tw_attrs at = {I32, .order = TW_ORDER_acquire, .scope = TW_SCOPE_gpu};
    if (fault == RELAXED_LOAD || fences) at.order = TW_ORDER_relaxed;
    if (fault == PEERS) at.scope = TW_SCOPE_sys;
    if (fault == CTA_SCOPE_ACQUIRE) at.scope = TW_SCOPE_cta;
    spin(b, at, flag, tw_i32(b, 1));
    if (fences) tw_do(b, TW_OP_fence, (tw_attrs){.order = TW_ORDER_acq_rel, .scope = TW_SCOPE_gpu}, TW_NONE, TW_NONE);
}

static void build_flag(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    tw_val t = tid(b), lead = tw_eq(b, t, tw_i32(b, 0)), data = tw_add_imm(b, aux, 4096);
    const tw_scope branch = tw_push_if(b, tw_eq(b, tw_sreg(b, TW_SREG_ctaid_x), tw_i32(b, 0)));
    store(b, f32_global, at64(b, data, t, 4), tw_ld(b, f32_global, at64(b, in, t, 4)));
    if (fault != NO_BARRIER_BEFORE) barrier(b);
    const tw_scope if_lead = tw_push_if(b, lead);
    raise_flag(b, fault, aux);
    tw_pop(b, if_lead);
    tw_push_else(b, branch);
    const tw_scope if_lead2 = tw_push_if(b, lead);
    await_flag(b, fault, aux);
    tw_pop(b, if_lead2);
    if (fault != NO_BARRIER_AFTER) barrier(b);
    tw_val x = tw_ld(b, f32_global, at64(b, data, tw_xor(b, t, tw_i32(b, 7)), 4));
    store(b, f32_global, at64(b, out, t, 4), x);
    tw_pop(b, branch);
}

static float sevens(int i) {
    return (float)(i ^ 7);
}

static void build_fences(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    build_flag(b, fault ? fault : FENCES, in, out, aux);
}

static void build_peers(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    build_flag(b, fault ? fault : PEERS, in, out, aux);
}

/* -- every block leaves a part, the last to arrive adds them up; the counter goes back to 0 by itself */

enum { NO_PART_FENCE = 1, NO_BARRIER_BEFORE_COUNT, NO_BARRIER_AFTER_COUNT, CTA_COUNTER };

static tw_val count_blocks(tw_builder *b, int fault, tw_val counter, tw_val blocks) {
    tw_attrs at = {I32, .rmw = TW_RMW_inc, .order = TW_ORDER_acq_rel, .scope = TW_SCOPE_gpu};
    if (fault == NO_PART_FENCE) at.order = TW_ORDER_relaxed;
    if (fault == CTA_COUNTER) at.scope = TW_SCOPE_cta;
    tw_val limit = tw_add_imm(b, blocks, -1);
    return tw_atom(b, at, counter, limit, TW_NONE);
}

static void build_last(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    tw_shared_add(b, "last", 4, 4, false);
    tw_val t = tid(b), block = tw_sreg(b, TW_SREG_ctaid_x), blocks = tw_sreg(b, TW_SREG_nctaid_x);
    tw_val parts = tw_add_imm(b, aux, 4096), last = tw_shared_base(b, "last");
    tw_attrs flag = {I32, SHARED};
    tw_val x = tw_ld(b, f32_global, at64(b, in, t, 4));
    store(b, f32_global, at64(b, parts, tw_fma(b, block, tw_i32(b, 64), t), 4), x);
    if (fault != NO_BARRIER_BEFORE_COUNT) barrier(b);
    const tw_scope if_t_0 = tw_push_if(b, tw_eq(b, t, tw_i32(b, 0)));
    store(b, flag, last, count_blocks(b, fault, aux, blocks));
    tw_pop(b, if_t_0);
    if (fault != NO_BARRIER_AFTER_COUNT) barrier(b);
    const tw_scope branch = tw_push_if(b, tw_eq(b, tw_ld(b, flag, last), tw_add_imm(b, blocks, -1)));
    tw_val sum = tw_var_of(b, tw_f32(b, 0));
    const tw_scope loop = tw_push_for(b, tw_i32(b, 0), blocks, tw_i32(b, 1), true);
    tw_val i = loop.i;
    tw_val part = tw_ld(b, f32_global, at64(b, parts, tw_fma(b, i, tw_i32(b, 64), t), 4));
    tw_assign(b, sum, tw_add(b, sum, part));
    tw_pop(b, loop);
    store(b, f32_global, at64(b, out, t, 4), sum);
    tw_pop(b, branch);
}

static float five_times(int i) {
    return (float)(5 * i);
}

/* -- a serial semaphore: each block waits for its turn and adds; the last one turns it back */

enum { NOT_TURNED_BACK = 1, TURN_RELAXED };

static void build_serial(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    tw_val t = tid(b), block = tw_sreg(b, TW_SREG_ctaid_x), blocks = tw_sreg(b, TW_SREG_nctaid_x);
    tw_val lead = tw_eq(b, t, tw_i32(b, 0)), cell = at64(b, out, t, 4);
    const tw_scope if_lead = tw_push_if(b, lead);
    spin(b, (tw_attrs){I32, .order = TW_ORDER_acquire, .scope = TW_SCOPE_gpu}, aux, block);
    tw_pop(b, if_lead);
    barrier(b);
    tw_val sum = tw_var_of(b, tw_f32(b, 0));
    const tw_scope branch = tw_push_if(b, tw_ne(b, block, tw_i32(b, 0)));
    tw_assign(b, sum, tw_ld(b, f32_global, cell));
    tw_pop(b, branch);
    store(b, f32_global, cell, tw_add(b, sum, tw_ld(b, f32_global, at64(b, in, t, 4))));
    barrier(b);
    const tw_scope if_lead2 = tw_push_if(b, lead);
    tw_val next = tw_add_imm(b, block, 1);
    if (fault != NOT_TURNED_BACK) next = tw_select(b, tw_eq(b, next, blocks), tw_i32(b, 0), next);
    store(b,
          (tw_attrs){I32, .order = fault == TURN_RELAXED ? TW_ORDER_relaxed : TW_ORDER_release, .scope = TW_SCOPE_gpu},
          aux, next);
    tw_pop(b, if_lead2);
}

/* -- a lock: one lane of each of 2 warps in 5 blocks adds 1 to a plain cell */

enum { NEVER_RELEASED = 1, RELAXED_LOCK, PLAIN_UNLOCK, NO_LOCK };

static void build_lock(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)in;
    tw_val cell = tw_add_imm(b, aux, 64);
    tw_attrs take = {I32, .rmw = TW_RMW_cas, .order = TW_ORDER_acquire, .scope = TW_SCOPE_gpu};
    if (fault == RELAXED_LOCK) take.order = TW_ORDER_relaxed;
    const tw_scope branch = tw_push_if(b, tw_eq(b, tw_sreg(b, TW_SREG_laneid), tw_i32(b, 0)));
    if (fault != NO_LOCK) {
        const tw_scope poll = tw_push_while(b);
        tw_val old = tw_atom(b, take, aux, tw_i32(b, 0), tw_i32(b, 1));
        tw_push_while_body(b, poll, tw_ne(b, old, tw_i32(b, 0)));
        tw_do(b, TW_OP_nanosleep, none, tw_i32(b, 100), TW_NONE);
        tw_pop(b, poll);
    }
    store(b, f32_global, cell, tw_add(b, tw_ld(b, f32_global, cell), tw_f32(b, 1)));
    tw_val x = tw_ld(b, f32_global, cell);
    tw_when(b, tw_eq(b, x, tw_f32(b, 10)));
    store(b, f32_global, out, x);
    tw_attrs give = {I32, .order = TW_ORDER_release, .scope = TW_SCOPE_gpu};
    if (fault == PLAIN_UNLOCK) give = (tw_attrs){I32};
    if (fault != NEVER_RELEASED) store(b, give, aux, tw_i32(b, 0));
    tw_pop(b, branch);
}

static float ten(int i) {
    (void)i;
    return 10;
}

/* -- a grid-wide barrier of a cooperative launch */

enum { WAITS_FOR_MORE = 1 };

static void build_everyone(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    tw_val t = tid(b), block = tw_sreg(b, TW_SREG_ctaid_x), all = tw_sreg(b, TW_SREG_nctaid_x);
    tw_val data = tw_add_imm(b, aux, 4096), mine = tw_fma(b, block, tw_i32(b, 64), t);
    store(b, f32_global, at64(b, data, mine, 4), tw_ld(b, f32_global, at64(b, in, mine, 4)));
    barrier(b);
    const tw_scope if_t_0 = tw_push_if(b, tw_eq(b, t, tw_i32(b, 0)));
    tw_red(b, (tw_attrs){I32, .order = TW_ORDER_release, .scope = TW_SCOPE_gpu}, aux, (tw_val[]){tw_i32(b, 1)});
    tw_val until = fault == WAITS_FOR_MORE ? tw_add_imm(b, all, 1) : all;
    spin(b, (tw_attrs){I32, .order = TW_ORDER_acquire, .scope = TW_SCOPE_gpu}, aux, until);
    tw_pop(b, if_t_0);
    barrier(b);
    tw_val other = tw_fma(b, tw_sub(b, tw_add_imm(b, all, -1), block), tw_i32(b, 64), t);
    store(b, f32_global, at64(b, out, mine, 4), tw_ld(b, f32_global, at64(b, data, other, 4)));
}

static float from_the_other_end(int i) {
    return (float)((7 - i / 64) * 64 + i % 64);
}

/* -- four blocks of a cluster leave their rows in shared memory, and each adds up a column of all */

enum {
    NO_FIRST_SYNC = 1,
    NO_LAST_SYNC,
    WRONG_RANK,
    PLAIN_SPACE,
    ROW_TOO_FAR,
    CTA_ATOMIC,
    SYNC_IN_BRANCH,
    NO_SYNC_BY_ONE
};

static void cluster_sync(tw_builder *b) {
    tw_do(b, TW_OP_cluster_sync, none, TW_NONE, TW_NONE);
}

static void build_cluster(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)aux;
    b->kernel->cluster = 4;
    tw_shared_add(b, "row", 256, 16, true);
    tw_shared_add(b, "count", 4, 4, false);
    tw_val t = tid(b), row = tw_shared_base(b, "row"), count = tw_shared_base(b, "count");
    tw_val rank = tw_sreg(b, TW_SREG_cluster_rank), lead = tw_eq(b, t, tw_i32(b, 0));
    tw_val first = tw_fma(b, tw_sreg(b, TW_SREG_ctaid_x), tw_i32(b, 64), t);
    store(b, f32_shared, at32(b, row, t, 4), tw_ld(b, f32_global, at64(b, in, first, 4)));
    const tw_scope if_lead = tw_push_if(b, lead);
    store(b, (tw_attrs){I32, SHARED}, count, tw_i32(b, 0));
    tw_pop(b, if_lead);
    tw_scope branch = {0};
    if (fault == SYNC_IN_BRANCH) branch = tw_push_if(b, tw_lt(b, t, tw_i32(b, 40)));
    if (fault == NO_SYNC_BY_ONE) branch = tw_push_if(b, tw_ne(b, rank, tw_i32(b, 2)));
    if (fault != NO_FIRST_SYNC) cluster_sync(b);
    if (fault == SYNC_IN_BRANCH || fault == NO_SYNC_BY_ONE) tw_pop(b, branch);
    tw_val sum = tw_var_of(b, tw_f32(b, 0)), x = TW_NONE;
    for (int i = 0; i < 4; i++) {
        tw_val whose = tw_i32(b, fault == WRONG_RANK ? i + 1 : i);
        tw_val other = tw_get(b, TW_OP_cluster_address, none, TW_T_i32, row, whose);
        tw_attrs at = {F32, .space = fault == PLAIN_SPACE ? TW_SPACE_shared : TW_SPACE_cluster};
        if (fault == ROW_TOO_FAR) at.offset = 256;
        x = tw_ld(b, at, at32(b, other, t, 4));
        tw_assign(b, sum, tw_add(b, sum, x));
    }
    store(b, f32_global, at64(b, out, first, 4), sum);
    /* Everybody counts at the first block. */
    const tw_scope if_lead2 = tw_push_if(b, lead);
    tw_val all = tw_get(b, TW_OP_cluster_address, none, TW_T_i32, count, tw_i32(b, 0));
    tw_attrs add = {I32, .space = TW_SPACE_cluster, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_cluster};
    if (fault == CTA_ATOMIC) add.scope = TW_SCOPE_cta;
    tw_red(b, add, all, (tw_val[]){tw_i32(b, 1)});
    tw_pop(b, if_lead2);
    if (fault != NO_LAST_SYNC) cluster_sync(b);
}

/* A plain write beside a flag takes nothing from what the flag released: block 1 knows that both happened, and then
   acquires. */
static void build_neighbour(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)fault;
    const tw_attrs relaxed = {I32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_gpu};
    const tw_attrs weak = {I32};
    tw_val t = tid(b), lead = tw_eq(b, t, tw_i32(b, 0)), data = tw_add_imm(b, aux, 4096);
    tw_val flag = tw_add_imm(b, aux, 64);
    const tw_scope branch = tw_push_if(b, tw_eq(b, tw_sreg(b, TW_SREG_ctaid_x), tw_i32(b, 0)));
    store(b, f32_global, at64(b, data, t, 4), tw_ld(b, f32_global, at64(b, in, t, 4)));
    barrier(b);
    const tw_scope if_lead = tw_push_if(b, lead);
    raise_flag(b, 0, flag);
    store(b, weak, tw_add_imm(b, flag, -4), tw_i32(b, 3));
    store(b, weak, tw_add_imm(b, flag, 4), tw_i32(b, 3));
    store(b, relaxed, tw_add_imm(b, aux, 256), tw_i32(b, 1));
    tw_pop(b, if_lead);
    tw_push_else(b, branch);
    const tw_scope if_lead2 = tw_push_if(b, lead);
    spin(b, relaxed, tw_add_imm(b, aux, 256), tw_i32(b, 1));
    await_flag(b, 0, flag);
    tw_pop(b, if_lead2);
    barrier(b);
    tw_val x = tw_ld(b, f32_global, at64(b, data, tw_xor(b, t, tw_i32(b, 7)), 4));
    store(b, f32_global, at64(b, out, t, 4), x);
    tw_pop(b, branch);
}

/* -- block 0 raises a flag; a lane of block 1 awaits it, meets its half of the warp, and that half reads */

enum { HALF_NOT_MET = 1, OTHER_HALF_READS };

static void build_half(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    tw_val t = tid(b), lead = tw_eq(b, t, tw_i32(b, 0)), low = tw_lt(b, t, tw_i32(b, 16));
    tw_val data = tw_add_imm(b, aux, 4096), every = tw_eq(b, t, t);
    const tw_scope branch = tw_push_if(b, tw_eq(b, tw_sreg(b, TW_SREG_ctaid_x), tw_i32(b, 0)));
    store(b, f32_global, at64(b, data, t, 4), tw_ld(b, f32_global, at64(b, in, t, 4)));
    barrier(b);
    const tw_scope if_lead = tw_push_if(b, lead);
    raise_flag(b, 0, aux);
    tw_pop(b, if_lead);
    tw_push_else(b, branch);
    const tw_scope if_lead2 = tw_push_if(b, lead);
    await_flag(b, 0, aux);
    tw_pop(b, if_lead2);
    tw_val half = tw_select(b, low, tw_i32(b, 0xffff), tw_i32(b, -0x10000));
    if (fault != HALF_NOT_MET) tw_do(b, TW_OP_warp_sync, none, half, TW_NONE);
    const tw_scope branch2 = tw_push_if(b, fault == OTHER_HALF_READS ? every : low);
    store(b, f32_global, at64(b, out, t, 4), tw_ld(b, f32_global, at64(b, data, tw_xor(b, t, tw_i32(b, 7)), 4)));
    tw_pop(b, branch2);
    tw_pop(b, branch);
}

/* -- block 0 raises a flag; lanes of block 1 await it one after the other, each for itself */

static void build_each(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)fault;
    tw_val t = tid(b), lead = tw_eq(b, t, tw_i32(b, 0)), data = tw_add_imm(b, aux, 4096);
    const tw_scope branch = tw_push_if(b, tw_eq(b, tw_sreg(b, TW_SREG_ctaid_x), tw_i32(b, 0)));
    store(b, f32_global, at64(b, data, t, 4), tw_ld(b, f32_global, at64(b, in, t, 4)));
    barrier(b);
    const tw_scope if_lead = tw_push_if(b, lead);
    raise_flag(b, 0, aux);
    tw_pop(b, if_lead);
    tw_push_else(b, branch);
    const tw_scope if_lead2 = tw_push_if(b, lead);
    await_flag(b, 0, aux);
    tw_push_else(b, if_lead2);
    await_flag(b, 0, aux);
    tw_pop(b, if_lead2);
    store(b, f32_global, at64(b, out, t, 4), tw_ld(b, f32_global, at64(b, data, tw_xor(b, t, tw_i32(b, 7)), 4)));
    tw_pop(b, branch);
}

static float columns(int i) {
    return (float)(4 * (i / 256 * 256 + i % 64) + 6 * 64);
}

enum { FLAG, WITH_FENCES, WITH_PEERS, LAST, SERIAL, LOCK, EVERYONE, CLUSTER, NEIGHBOUR, HALF, EACH };
static const scene scenes[] = {
    [FLAG] = {"flag", 64, 2, 0, false, build_flag, sevens, 64},
    [WITH_FENCES] = {"fences", 64, 2, 0, false, build_fences, sevens, 64},
    [WITH_PEERS] = {"peers", 64, 2, 0, false, build_peers, sevens, 64},
    [LAST] = {"last", 64, 5, 2, false, build_last, five_times, 64},
    [SERIAL] = {"serial", 64, 5, 2, false, build_serial, five_times, 64},
    [LOCK] = {"lock", 64, 5, 0, false, build_lock, ten, 1},
    [EVERYONE] = {"everyone", 64, 8, 0, true, build_everyone, from_the_other_end, 512},
    [CLUSTER] = {"cluster", 64, 12, 0, false, build_cluster, columns, 768},
    [NEIGHBOUR] = {"neighbour", 64, 2, 0, false, build_neighbour, sevens, 64},
    [EACH] = {"each", 64, 2, 0, false, build_each, sevens, 64},
    [HALF] = {"half", 32, 2, 0, false, build_half, sevens, 16},
};

#define S &scenes[FLAG]
static const planted faults[] = {
    {S, RELAXED_STORE, "relaxed instead of release", TW_EMU_RACE, "/ld|block 1|reads aux+4|/st|of block 0"},
    {S, RELAXED_LOAD, "relaxed instead of acquire", TW_EMU_RACE, "/ld|block 1|reads aux+4|/st|of block 0"},
    {S, WEAK_FLAG, "a plain flag", TW_EMU_RACE, "aux+0"},
    {S, CTA_SCOPE_RELEASE, "release for the block alone", TW_EMU_RACE, "aux+0|a scope does not reach the other"},
    {S, CTA_SCOPE_ACQUIRE, "acquire from the block alone", TW_EMU_RACE, "aux+0|a scope does not reach the other"},
    {S, NEVER_RAISED, "a flag nobody raises", TW_EMU_DEADLOCK,
     "block 1 warp 0|/while 0/test/ld 0 (polls aux+0)|warp 1"},
    {S, NO_BARRIER_BEFORE, "released for others without a barrier", TW_EMU_RACE, "/ld|block 1|of block 0 warp"},
    {S, NO_BARRIER_AFTER, "acquired by one lane for all", TW_EMU_RACE, "/ld|block 1|reads aux+|of block 0"},
    {&scenes[WITH_FENCES], NO_FENCE, "dropped fence", TW_EMU_RACE, "/ld|block 1|reads aux+4|/st"},
    {&scenes[WITH_FENCES], NARROW_FENCE, "fence for the block alone", TW_EMU_RACE, "/ld|block 1|reads aux+4|/st"},
    {&scenes[LAST], NO_PART_FENCE, "counts without releasing", TW_EMU_RACE, "/for|/ld|reads aux+|/st"},
    {&scenes[LAST], NO_BARRIER_BEFORE_COUNT, "counts before all have written", TW_EMU_RACE, "aux+"},
    {&scenes[LAST], NO_BARRIER_AFTER_COUNT, "looks before it was counted", TW_EMU_RACE, "last+0"},
    {&scenes[LAST], CTA_COUNTER, "counter of the block alone", TW_EMU_RACE, "/atom|updates aux+0|a scope does not"},
    {&scenes[SERIAL], NOT_TURNED_BACK, "semaphore not reset for the next launch", TW_EMU_DEADLOCK, "polls aux+0"},
    {&scenes[SERIAL], TURN_RELAXED, "semaphore without release", TW_EMU_RACE, "out+"},
    {&scenes[LOCK], NEVER_RELEASED, "lock never given back", TW_EMU_DEADLOCK, "/while 0/test/atom 0 (polls aux+0)"},
    {&scenes[LOCK], RELAXED_LOCK, "lock taken without acquire", TW_EMU_RACE, "aux+64"},
    {&scenes[LOCK], PLAIN_UNLOCK, "lock given back by a plain store", TW_EMU_RACE, "aux+"},
    {&scenes[LOCK], NO_LOCK, "no lock", TW_EMU_RACE, "aux+64"},
    {&scenes[EVERYONE], WAITS_FOR_MORE, "waits for more blocks than there are", TW_EMU_DEADLOCK,
     "16 warps|polls aux+0"},
    {&scenes[CLUSTER], NO_FIRST_SYNC, "no cluster_sync before others are read", TW_EMU_RACE, "row+"},
    {&scenes[CLUSTER], NO_LAST_SYNC, "no cluster_sync before the end", TW_EMU_RACE, "the block ends|nothing orders"},
    {&scenes[CLUSTER], WRONG_RANK, "a rank that there is not", TW_EMU_BOUNDS, "/ld|where nothing is"},
    {&scenes[CLUSTER], PLAIN_SPACE, "another block's address as its own", TW_EMU_BOUNDS, "/ld|where nothing is"},
    {&scenes[CLUSTER], ROW_TOO_FAR, "beyond the end in another block", TW_EMU_BOUNDS, "/ld"},
    {&scenes[CLUSTER], CTA_ATOMIC, "counts for its block alone", TW_EMU_RACE, "/red|count+0|a scope does not"},
    {&scenes[CLUSTER], SYNC_IN_BRANCH, "cluster_sync in a branch", TW_EMU_DIVERGENCE,
     "/cluster_sync|lane 8 and 23 more"},
    {&scenes[HALF], HALF_NOT_MET, "acquired by one lane for its half", TW_EMU_RACE, "/ld|block 1|lane 1: reads aux+"},
    {&scenes[HALF], OTHER_HALF_READS, "acquired for the other half", TW_EMU_RACE, "/ld|block 1|lane 16: reads aux+"},
    {&scenes[CLUSTER], NO_SYNC_BY_ONE, "one block leaves a cluster_sync out", TW_EMU_RACE, "row+"},
};

static void between_blocks(void **state) {
    (void)state;
    all_caught(scenes, COUNT(scenes), faults, COUNT(faults));
}

/* -- atomics of every kind against C, by 2 x 96 threads on 8 cells */

static uint64_t apply(int rmw, uint64_t old, uint64_t x) {
    switch (rmw) {
    case TW_RMW_min_s32:
        return (int32_t)old < (int32_t)x ? old : x;
    case TW_RMW_max_s32:
        return (int32_t)old > (int32_t)x ? old : x;
    case TW_RMW_min_u32:
        return (uint32_t)old < (uint32_t)x ? old : x;
    case TW_RMW_max_u32:
        return (uint32_t)old > (uint32_t)x ? old : x;
    case TW_RMW_and:
        return old & x;
    case TW_RMW_or:
        return old | x;
    case TW_RMW_xor:
        return old ^ x;
    default:
        return (uint32_t)(old + x);
    }
}

static void atomics_that_commute(void **state) {
    (void)state;
    enum { THREADS = 96, GRID = 2, N = 8 };
    static const int kinds[] = {TW_RMW_add,     TW_RMW_min_s32, TW_RMW_max_s32, TW_RMW_min_u32,
                                TW_RMW_max_u32, TW_RMW_and,     TW_RMW_or,      TW_RMW_xor};
    for (int c = 0; c < COUNT(kinds); c++)
        for (int red = 0; red < 2; red++) {
            uint32_t cells[N], want[N], got[N], in[THREADS * GRID];
            tw_random r = tw_random_seed((uint64_t)c);
            tw_emu *e = tw_emu_new();
            tw_kernel *k = tw_kernel_new("atomics", 80, THREADS);
            tw_builder b = tw_builder_of(k);
            tw_val p = tw_pointer_add(&b, "in", 16, true), q = tw_pointer_add(&b, "cells", 16, false);
            tw_val t = tw_fma(&b, tw_sreg(&b, TW_SREG_ctaid_x), tw_i32(&b, THREADS), tid(&b));
            tw_val x = tw_ld(&b, (tw_attrs){I32}, at64(&b, p, t, 4));
            tw_val cell = at64(&b, q, tw_rem(&b, t, N), 4);
            tw_attrs at = {I32, .rmw = kinds[c], .scope = TW_SCOPE_gpu, .order = TW_ORDER_relaxed};
            if (red)
                tw_red(&b, at, cell, &x);
            else
                tw_atom(&b, at, cell, x, TW_NONE);
            for (int i = 0; i < N; i++) cells[i] = want[i] = (uint32_t)tw_random_u64(&r);
            for (int i = 0; i < THREADS * GRID; i++) {
                in[i] = (uint32_t)tw_random_u64(&r);
                want[i % N] = (uint32_t)apply(kinds[c], want[i % N], in[i]);
            }
            uint64_t a[2] = {tw_emu_alloc(e, "in", in, sizeof in, true),
                             tw_emu_alloc(e, "cells", cells, sizeof cells, false)};
            run_clean(e, k, a, (tw_emu_options){.grid = {GRID}, .seed = (uint64_t)c});
            tw_emu_read(e, a[1], got, sizeof got);
            assert_memory_equal(got, want, sizeof got);
            tw_kernel_free(k);
            tw_emu_free(e);
        }
}

/* Vectors of every type, added at system scope by 64 threads of two blocks to one place. */
static void vectors_are_added(void **state) {
    (void)state;
    static const struct {
        tw_type type;
        int vec;
        uint64_t one, sum; /* an element, and 64 of them */
    } kinds[] = {
        {TW_T_f32, 2, 0x3f800000, 0x42800000},
        {TW_T_f32, 4, 0x3f800000, 0x42800000},
        {TW_T_f16, 2, 0x3c00, 0x5400},
        {TW_T_f16, 8, 0x3c00, 0x5400},
        {TW_T_bf16, 4, 0x3f80, 0x4280},
        {TW_T_bf16, 8, 0x3f80, 0x4280},
        {TW_T_f16x2, 2, 0x40003c00, 0x58005400},
        {TW_T_f16x2, 4, 0x40003c00, 0x58005400},
        {TW_T_bf16x2, 2, 0x40003f80, 0x43004280},
        {TW_T_bf16x2, 4, 0x40003f80, 0x43004280},
    };
    for (int c = 0; c < COUNT(kinds); c++) {
        const size_t size = (size_t)tw_type_bits(kinds[c].type) / 8;
        unsigned char cells[16] = {0};
        tw_emu *e = tw_emu_new();
        tw_kernel *k = tw_kernel_new("vectors", 90, 32);
        tw_builder b = tw_builder_of(k);
        tw_val q = tw_pointer_add(&b, "cells", 16, false), x[8];
        for (int i = 0; i < 8; i++) x[i] = tw_const(&b, kinds[c].type, kinds[c].one);
        tw_red(&b, (tw_attrs){.type = (int32_t)kinds[c].type, .vec = kinds[c].vec, .scope = TW_SCOPE_sys}, q, x);
        const uint64_t a[] = {tw_emu_alloc(e, "cells", cells, sizeof cells, false)};
        run_clean(e, k, a, (tw_emu_options){.grid = {2}, .seed = (uint64_t)c});
        tw_emu_read(e, a[0], cells, sizeof cells);
        for (int i = 0; i < kinds[c].vec; i++) {
            uint64_t got = 0;
            memcpy(&got, cells + (size_t)i * size, size);
            if (got != kinds[c].sum) fail_msg("%s: 0x%llx", tw_type_name(kinds[c].type), (unsigned long long)got);
        }
        tw_kernel_free(k);
        tw_emu_free(e);
    }
}

/* One lane, one after another: what each returns and leaves. */
static void atomics_one_by_one(void **state) {
    (void)state;
    static const struct {
        int rmw;
        tw_type type;
        uint64_t before, x, y, after;
    } cases[] = {
        {TW_RMW_cas, TW_T_i32, 5, 5, 9, 9},
        {TW_RMW_cas, TW_T_i32, 5, 6, 9, 5},
        {TW_RMW_cas, TW_T_i64, 1ull << 40, 1ull << 40, 7, 7},
        {TW_RMW_exch, TW_T_i32, 5, 6, 0, 6},
        {TW_RMW_inc, TW_T_i32, 5, 6, 0, 6},
        {TW_RMW_inc, TW_T_i32, 6, 6, 0, 0},
        {TW_RMW_dec, TW_T_i32, 5, 6, 0, 4},
        {TW_RMW_dec, TW_T_i32, 0, 6, 0, 6},
        {TW_RMW_dec, TW_T_i32, 9, 6, 0, 6},
        {TW_RMW_add, TW_T_f32, 0x3fc00000, 0x40000000, 0, 0x40600000},
        {TW_RMW_add, TW_T_f64, 0x3ff8000000000000, 0x4000000000000000, 0, 0x400c000000000000},
        {TW_RMW_add, TW_T_f16x2, 0x3c004000, 0x3c003c00, 0, 0x40004200},
        {TW_RMW_add, TW_T_bf16x2, 0x3f804000, 0x3f803f80, 0, 0x40004040},
        {TW_RMW_add, TW_T_i64, 0xffffffff, 1, 0, 1ull << 32},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        tw_emu *e = tw_emu_new();
        tw_kernel *k = tw_kernel_new("one", 90, 1);
        tw_builder b = tw_builder_of(k);
        tw_val q = tw_pointer_add(&b, "cell", 16, false);
        tw_type t = cases[i].type;
        tw_attrs at = {.type = t, .rmw = cases[i].rmw, .scope = TW_SCOPE_gpu};
        tw_val old = tw_atom(&b, at, q, tw_const(&b, t, cases[i].x),
                             cases[i].rmw == TW_RMW_cas ? tw_const(&b, t, cases[i].y) : TW_NONE);
        store(&b, (tw_attrs){.type = t, .offset = 8}, q, old);
        uint64_t cell[2] = {cases[i].before, 0};
        uint64_t a = tw_emu_alloc(e, "cell", cell, sizeof cell, false);
        run_clean(e, k, &a, (tw_emu_options){0});
        tw_emu_read(e, a, cell, sizeof cell);
        assert_int_equal(cell[0], cases[i].after);
        assert_int_equal(cell[1], cases[i].before);
        tw_kernel_free(k);
        tw_emu_free(e);
    }
}

/* Block `other` raises a flag of its own in shared memory. Block 0 then releases what it wrote, through many flags in
   global memory. The other acquires through its own, which orders nothing of block 0's. */
static void build_apart(tw_builder *b, int other, int bytes, tw_val flags, tw_val data) {
    const tw_attrs relaxed = {I32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_gpu};
    const tw_attrs release = {I32, .order = TW_ORDER_release, .scope = TW_SCOPE_gpu};
    const tw_attrs raise = {I32, SHARED, .order = TW_ORDER_release, .scope = TW_SCOPE_cta};
    const tw_attrs await = {I32, SHARED, .order = TW_ORDER_acquire, .scope = TW_SCOPE_gpu};
    tw_shared_add(b, "own", 4, 4, false);
    tw_val t = tid(b), lead = tw_eq(b, t, tw_i32(b, 0)), one = tw_i32(b, 1), own = tw_shared_base(b, "own");
    tw_val raised = tw_add_imm(b, data, 256), released = tw_add_imm(b, data, 512), block = tw_sreg(b, TW_SREG_ctaid_x);
    const tw_scope if_block_0 = tw_push_if(b, tw_eq(b, block, tw_i32(b, 0)));
    const tw_scope if_lead = tw_push_if(b, lead);
    store(b, f32_global, data, tw_f32(b, 1));
    spin(b, relaxed, raised, one);
    const tw_scope loop = tw_push_for(b, tw_i32(b, 0), tw_i32(b, bytes / 4), one, false);
    tw_val i = loop.i;
    store(b, release, at64(b, flags, i, 4), one);
    tw_pop(b, loop);
    store(b, relaxed, released, one);
    tw_pop(b, if_lead);
    tw_pop(b, if_block_0);
    const tw_scope branch = tw_push_if(b, tw_eq(b, block, tw_i32(b, other)));
    const tw_scope if_lead2 = tw_push_if(b, lead);
    store(b, raise, own, one);
    store(b, relaxed, raised, one);
    tw_pop(b, if_lead2);
    const tw_scope branch2 = tw_push_if(b, tw_eq(b, t, tw_i32(b, 32)));
    spin(b, relaxed, released, one);
    spin(b, await, own, one);
    store(b, f32_global, tw_add_imm(b, data, 1024), tw_ld(b, f32_global, data));
    tw_pop(b, branch2);
    tw_pop(b, branch);
}

/* In whichever block a shared address, beside the number of the block, looks like one of the global flags. */
static void flags_of_a_block_are_its_own(void **state) {
    (void)state;
    enum { BLOCKS = 4 };
    static const char zeros[8192];
    for (int other = 1; other < BLOCKS; other++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            tw_emu *e = tw_emu_new();
            tw_kernel *k = tw_kernel_new("apart", 80, 64);
            tw_builder b = tw_builder_of(k);
            tw_val p = tw_pointer_add(&b, "flags", 16, false), q = tw_pointer_add(&b, "data", 16, false);
            build_apart(&b, other, sizeof zeros, p, q);
            uint64_t a[2] = {tw_emu_alloc(e, "flags", zeros, sizeof zeros, false),
                             tw_emu_alloc(e, "data", zeros, sizeof zeros, false)};
            tw_emu_report r;
            tw_diag d;
            tw_status st = tw_emu_launch(e, k, a, &(tw_emu_options){.seed = seed, .grid = {BLOCKS}}, &r, &d);
            assert_int_equal(st, TW_ERR_REJECTED);
            if (!holds_all(r.findings[0].text, "data+0|of block 0|nothing orders")) fail_msg("%s", r.findings[0].text);
            tw_kernel_free(k);
            tw_emu_free(e);
        }
}

/* -- the same seed, the same run */

static void a_seed_says_it_all(void **state) {
    (void)state;
    float out[2][CELLS];
    static tw_emu_report r[2];
    bool differ = false;
    int64_t first = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        for (int i = 0; i < 2; i++) play(&scenes[LOCK], 0, seed, false, &r[i], out[i]);
        assert_int_equal(r[0].operations, r[1].operations);
        assert_int_equal(r[0].lane_operations, r[1].lane_operations);
        for (int i = 0; i < 2; i++) play(&scenes[FLAG], NO_BARRIER_BEFORE, seed, true, &r[i], out[i]);
        assert_int_equal(r[0].n, r[1].n);
        assert_memory_equal(r[0].findings, r[1].findings, sizeof r[0].findings);
        assert_memory_equal(out[0], out[1], sizeof out[0]);
        if (seed == 0) first = r[0].operations;
        differ |= first != r[0].operations;
    }
    assert_true(differ);
}

static void plain_runs_look_for_nothing_but_bounds(void **state) {
    (void)state;
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new("plain", 80, 64);
    tw_builder b = tw_builder_of(k);
    tw_val q = tw_pointer_add(&b, "out", 4, false);
    tw_shared_add(&b, "tile", 256, 16, false);
    tw_val x = tw_ld(&b, f32_shared, tw_shared_base(&b, "tile"));
    store(&b, f32_global, q, x);
    uint64_t a = tw_emu_alloc(e, "out", NULL, 4, false);
    run_clean(e, k, &a, (tw_emu_options){.unchecked = true});
    assert_true(tw_emu_written(e, a, 4));
    tw_emu_report r;
    tw_diag d;
    uint64_t beyond = a + 4;
    assert_int_equal(tw_emu_launch(e, k, &beyond, &(tw_emu_options){.unchecked = true}, &r, &d), TW_ERR_REJECTED);
    assert_int_equal(r.findings[0].rule, TW_EMU_BOUNDS);
    tw_kernel_free(k);
    tw_emu_free(e);
}

static void shared_memory_has_an_end(void **state) {
    (void)state;
    const int64_t bytes[] = {1 << 20, 1 << 28, INT64_MAX};
    for (int i = 0; i < 3; i++) {
        tw_emu *e = tw_emu_new();
        tw_kernel *k = tw_kernel_new("large", 90, 32);
        tw_builder b = tw_builder_of(k);
        tw_emu_report r;
        tw_diag d;
        tw_shared_add(&b, "tile", 256, 16, false);
        tw_shared_add(&b, "large", bytes[i], 16, true);
        tw_shared_add(&b, "other", bytes[i], 16, true);
        tw_status st = tw_emu_launch(e, k, NULL, NULL, &r, &d);
        assert_int_equal(st, i ? TW_ERR_UNSUPPORTED : TW_OK);
        if (i) assert_true(holds_all(d.message, "\"large\"|shared memory"));
        tw_kernel_free(k);
        tw_emu_free(e);
    }
}

static void grids_have_a_size(void **state) {
    (void)state;
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new("grid", 80, 32);
    tw_emu_report r;
    tw_diag d;
    assert_int_equal(tw_emu_launch(e, k, NULL, &(tw_emu_options){.grid = {1, -1, 1}}, &r, &d), TW_ERR_USAGE);
    assert_int_equal(tw_emu_launch(e, k, NULL, &(tw_emu_options){.grid = {(1 << 24) + 1}}, &r, &d), TW_ERR_UNSUPPORTED);
    assert_int_equal(tw_emu_launch(e, k, NULL, &(tw_emu_options){.grid = {1 << 12, 1 << 10, 5}}, &r, &d),
                     TW_ERR_UNSUPPORTED);
    assert_true(holds_all(d.message, "2^24 blocks"));
    assert_int_equal(tw_emu_launch(e, k, NULL, &(tw_emu_options){.grid = {2, 3, 2}}, &r, &d), TW_OK);
    tw_kernel_free(k);
    tw_emu_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_blocks),
        cmocka_unit_test(atomics_that_commute),
        cmocka_unit_test(vectors_are_added),
        cmocka_unit_test(atomics_one_by_one),
        cmocka_unit_test(flags_of_a_block_are_its_own),
        cmocka_unit_test(a_seed_says_it_all),
        cmocka_unit_test(plain_runs_look_for_nothing_but_bounds),
        cmocka_unit_test(shared_memory_has_an_end),
        cmocka_unit_test(grids_have_a_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
