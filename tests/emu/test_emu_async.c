/* SPDX-License-Identifier: Apache-2.0 */
/* Faults around bulk copies and mbarriers, one at a time; and that the kernels without them are clean. */
#include "emu/emu_test.h"

#include "ir/verify.h"

static const tw_attrs f32_shared = {.type = TW_T_f32, .space = TW_SPACE_shared};
static const tw_attrs f32_global = {.type = TW_T_f32};
static const tw_attrs i32_shared = {.type = TW_T_i32, .space = TW_SPACE_shared};
static const tw_attrs none = {0};

static void barrier(tw_builder *b) {
    tw_do(b, TW_OP_barrier, none, TW_NONE, TW_NONE);
}
static tw_val is_lane(tw_builder *b, int lane) {
    return tw_eq(b, tw_sreg(b, TW_SREG_laneid), tw_i32(b, lane));
}
static tw_val first_lane(tw_builder *b) {
    return is_lane(b, 0);
}
static void warp_sync(tw_builder *b) {
    tw_do(b, TW_OP_warp_sync, none, tw_i32(b, -1), TW_NONE);
}

/* -- one warp loads tiles of 512 bytes into two stages, two warps use them: out[i] = in[i] + 1 for 6 tiles of 128 */

enum {
    NO_INIT_FENCE = 1,
    NO_BARRIER_AFTER_INIT,
    INIT_TWICE,
    NO_INIT,
    TOO_MANY_BYTES,
    TOO_FEW_BYTES,
    NO_FULL_WAIT,
    WRONG_PARITY,
    EARLY_ARRIVE,
    NO_WARP_SYNC,
    EMPTY_COUNT_LOW,
    EMPTY_COUNT_HIGH,
    NO_EMPTY_WAIT,
    NO_ARRIVE,
    NO_EXPECT,
    COPY_UNALIGNED,
    ODD_BYTES,
    OVER_MBARRIER,
    LAST_NOT_WAITED,
    POLLS_FOR_EVER,
    USE_AFTER_INVAL,
    LOADS_UNDER_WAY, /* a stage is given back when it was loaded, and used later */
    ONE_UNDER_WAY,   /* one of two loads was used by then */
    MOVED_UNDER_WAY, /* what was loaded was moved and renamed, no more */
    LOADS_USED,      /* no fault: the arrival's address needs what was loaded */
    LOADS_FENCED,    /* no fault: a fence waits for loads */
    BY_LANE_11       /* no fault */
};

enum { TILES = 6, STAGE = 512 };

static void initialise(tw_builder *b, int fault, tw_val full, tw_val empty) {
    const tw_scope branch = tw_push_if(b, tw_eq(b, tid(b), tw_i32(b, 0)));
    for (int i = 0; i < 2; i++) {
        int count = fault == EMPTY_COUNT_LOW ? 1 : fault == EMPTY_COUNT_HIGH ? 3 : 2;
        tw_do(b, TW_OP_mbarrier_init, none, tw_add_imm(b, full, 8 * i), tw_i32(b, 1));
        if (fault == INIT_TWICE) tw_do(b, TW_OP_mbarrier_init, none, tw_add_imm(b, full, 8 * i), tw_i32(b, 1));
        if (fault != NO_INIT) tw_do(b, TW_OP_mbarrier_init, none, tw_add_imm(b, empty, 8 * i), tw_i32(b, count));
    }
    if (fault != NO_INIT_FENCE) tw_do(b, TW_OP_fence_mbarrier_init, none, TW_NONE, TW_NONE);
    tw_pop(b, branch);
    if (fault != NO_BARRIER_AFTER_INIT) barrier(b);
}

static void produce(tw_builder *b, int fault, tw_val in, tw_val tile, tw_val full, tw_val empty) {
    const tw_scope if_is_lane = tw_push_if(b, is_lane(b, fault == BY_LANE_11 ? 11 : 0));
    const tw_scope loop = tw_push_for(b, tw_i32(b, 0), tw_i32(b, TILES), tw_i32(b, 1), false);
    tw_val i = loop.i;
    tw_val stage = tw_and(b, i, tw_i32(b, 1)), phase = tw_and(b, tw_shr(b, i, 1), tw_i32(b, 1));
    tw_val f = at32(b, full, stage, 8), e = at32(b, empty, stage, 8);
    if (fault != NO_EMPTY_WAIT) tw_do(b, TW_OP_mbarrier_wait, none, e, tw_xor(b, phase, tw_i32(b, 1)));
    if (fault == BY_LANE_11) store(b, i32_shared, at32(b, tw_shared_base(b, "note"), stage, 4), i);
    int expected = fault == TOO_MANY_BYTES ? STAGE + 16 : fault == TOO_FEW_BYTES ? STAGE - 16 : STAGE;
    if (fault == NO_EXPECT)
        tw_do(b, TW_OP_mbarrier_arrive, none, f, TW_NONE);
    else
        tw_do(b, TW_OP_mbarrier_expect, none, f, tw_i32(b, expected));
    tw_val from = at64(b, in, i, STAGE);
    if (fault == COPY_UNALIGNED) from = tw_add_imm(b, from, 8);
    tw_val v[4] = {at32(b, tile, stage, STAGE), from, tw_i32(b, fault == ODD_BYTES ? STAGE - 4 : STAGE), f};
    tw_emit(b, TW_OP_bulk_load, none, NULL, NULL, 0, v, 4);
    tw_pop(b, loop);
    tw_pop(b, if_is_lane);
}

static void wait_full(tw_builder *b, int fault, tw_val f, tw_val phase) {
    if (fault == WRONG_PARITY) phase = tw_xor(b, phase, tw_i32(b, 1));
    if (fault == POLLS_FOR_EVER) {
        const tw_scope poll = tw_push_while(b);
        tw_val p = tw_get(b, TW_OP_mbarrier_test, none, TW_T_pred, f, phase);
        tw_push_while_body(b, poll, tw_not(b, p));
        tw_do(b, TW_OP_nanosleep, none, tw_i32(b, 20), TW_NONE);
        tw_pop(b, poll);
    } else if (fault != NO_FULL_WAIT) {
        tw_do(b, TW_OP_mbarrier_wait, none, f, phase);
    }
}

/* A stage is loaded, given back, and stored. */
static void consume_late(tw_builder *b, int fault, tw_val out, tw_val tile, tw_val e, tw_val i) {
    tw_val t = tw_add_imm(b, tid(b), -32), lead = first_lane(b), x[2], moved[2];
    for (int j = 0; j < 2; j++) x[j] = tw_ld(b, f32_shared, at32(b, tile, tw_add_imm(b, t, 64 * j), 4));
    for (int j = 0; j < 2; j++) moved[j] = tw_var_of(b, tw_bitcast(b, TW_T_i32, x[j]));
    tw_val used = tw_i32(b, 0);
    for (int j = 0; j < 2; j++)
        if (fault == LOADS_USED || (fault == ONE_UNDER_WAY && j == 1)) used = tw_or(b, used, moved[j]);
    /* Adds nothing at all: no pass runs here that would know it. */
    if (fault == LOADS_USED || fault == ONE_UNDER_WAY) e = tw_add(b, e, tw_and(b, used, tw_i32(b, 0)));
    if (fault == LOADS_FENCED)
        tw_do(b, TW_OP_fence_proxy, (tw_attrs){.proxy = TW_PROXY_async_shared}, TW_NONE, TW_NONE);
    warp_sync(b);
    tw_when(b, lead);
    tw_do(b, TW_OP_mbarrier_arrive, none, e, TW_NONE);
    for (int j = 0; j < 2; j++) {
        tw_val y = fault == MOVED_UNDER_WAY ? tw_bitcast(b, TW_T_f32, moved[j]) : x[j];
        tw_val at = at64(b, out, tw_fma(b, i, tw_i32(b, 128), tw_add_imm(b, t, 64 * j)), 4);
        store(b, f32_global, at, tw_add(b, y, tw_f32(b, 1)));
    }
}

static void consume(tw_builder *b, int fault, tw_val out, tw_val tile, tw_val full, tw_val empty) {
    tw_val t = tw_add_imm(b, tid(b), -32), lead = first_lane(b);
    int tiles = fault == LAST_NOT_WAITED ? TILES - 1 : TILES;
    const tw_scope loop = tw_push_for(b, tw_i32(b, 0), tw_i32(b, tiles), tw_i32(b, 1), false);
    tw_val i = loop.i;
    tw_val stage = tw_and(b, i, tw_i32(b, 1)), phase = tw_and(b, tw_shr(b, i, 1), tw_i32(b, 1));
    tw_val f = at32(b, full, stage, 8), e = at32(b, empty, stage, 8);
    wait_full(b, fault, f, phase);
    if (fault == EARLY_ARRIVE) {
        warp_sync(b);
        tw_when(b, lead);
        tw_do(b, TW_OP_mbarrier_arrive, none, e, TW_NONE);
    }
    if (fault >= LOADS_UNDER_WAY && fault <= LOADS_FENCED) {
        consume_late(b, fault, out, at32(b, tile, stage, STAGE), e, i);
        tw_pop(b, loop);
        return;
    }
    for (int j = 0; j < 2; j++) {
        tw_val at = tw_add_imm(b, t, 64 * j), a = tw_add(b, at32(b, tile, stage, STAGE), tw_shl(b, at, 2));
        tw_val x = tw_ld(b, f32_shared, a);
        if (fault == OVER_MBARRIER) store(b, f32_shared, full, x);
        if (fault == BY_LANE_11) {
            tw_val note = tw_ld(b, i32_shared, at32(b, tw_shared_base(b, "note"), stage, 4));
            x = tw_select(b, tw_eq(b, note, i), x, tw_f32(b, -7));
        }
        store(b, f32_global, at64(b, out, tw_fma(b, i, tw_i32(b, 128), at), 4), tw_add(b, x, tw_f32(b, 1)));
    }
    if (fault != NO_WARP_SYNC) warp_sync(b);
    if (fault != EARLY_ARRIVE && fault != NO_ARRIVE && fault != POLLS_FOR_EVER) {
        tw_when(b, lead);
        tw_do(b, TW_OP_mbarrier_arrive, none, e, TW_NONE);
    }
    tw_pop(b, loop);
}

static void build_stages(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)aux;
    tw_shared_add(b, "tiles", 2 * STAGE, 128, true);
    tw_shared_add(b, "full", 16, 8, false);
    tw_shared_add(b, "empty", 16, 8, false);
    if (fault == BY_LANE_11) tw_shared_add(b, "note", 8, 8, false);
    tw_val tile = tw_shared_base(b, "tiles"), full = tw_shared_base(b, "full"), empty = tw_shared_base(b, "empty");
    initialise(b, fault, full, empty);
    const int ranges[] = {0, 1, 1, 3};
    const tw_scope roles = tw_push_roles(b, ranges, 2);
    produce(b, fault, in, tile, full, empty);
    tw_next_role(b, roles);
    consume(b, fault, out, tile, full, empty);
    tw_pop(b, roles);
    if (fault == USE_AFTER_INVAL) {
        barrier(b);
        const tw_scope branch = tw_push_if(b, tw_eq(b, tid(b), tw_i32(b, 0)));
        tw_do(b, TW_OP_mbarrier_inval, none, full, TW_NONE);
        tw_do(b, TW_OP_mbarrier_arrive, none, full, TW_NONE);
        tw_pop(b, branch);
    }
}

/* Any lane may expect and copy, and what it wrote before is there for whoever waited. */
static void build_by_lane_11(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)fault;
    build_stages(b, BY_LANE_11, in, out, aux);
}

static void build_used(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)fault;
    build_stages(b, LOADS_USED, in, out, aux);
}

static void build_fenced(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)fault;
    build_stages(b, LOADS_FENCED, in, out, aux);
}

static float plus_one(int i) {
    return (float)(i + 1);
}

/* -- shared memory written by all, stored by a bulk copy: twice, into the same buffer */

enum {
    NO_PROXY_FENCE = 1,
    FENCE_BY_ISSUER,
    FENCE_OF_GLOBAL,
    FENCE_OF_ALIASES,
    FENCE_OF_CLUSTER, /* no fault */
    NO_BARRIER,
    NOT_WAITED_AT_EXIT,
    OVERWRITTEN,
    WAITED_BY_OTHERS,
    NO_BARRIER_AFTER_WAIT,
    ODD_STORE,
};

static void build_store(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)aux;
    tw_shared_add(b, "tile", 512, 128, true);
    tw_val t = tid(b), tile = tw_shared_base(b, "tile"), lead = tw_eq(b, t, tw_i32(b, 0));
    for (int i = 0; i < 2; i++) {
        tw_val x = tw_ld(b, f32_global, at64(b, in, tw_add_imm(b, t, 128 * i), 4));
        store(b, f32_shared, at32(b, tile, t, 4), tw_add(b, x, tw_f32(b, 1)));
        const int proxy = fault == FENCE_OF_GLOBAL    ? TW_PROXY_async_global
                          : fault == FENCE_OF_ALIASES ? TW_PROXY_alias
                          : fault == FENCE_OF_CLUSTER ? TW_PROXY_async_cluster
                                                      : TW_PROXY_async_shared;
        if (fault != NO_PROXY_FENCE && fault != FENCE_BY_ISSUER)
            tw_do(b, TW_OP_fence_proxy, (tw_attrs){.proxy = proxy}, TW_NONE, TW_NONE);
        if (fault != NO_BARRIER) barrier(b);
        const tw_scope if_lead = tw_push_if(b, lead);
        if (fault == FENCE_BY_ISSUER)
            tw_do(b, TW_OP_fence_proxy, (tw_attrs){.proxy = TW_PROXY_async_shared}, TW_NONE, TW_NONE);
        int bytes = i == 1 && fault == ODD_STORE ? 508 : 512;
        tw_val v[3] = {tw_add_imm(b, out, 512 * i), tile, tw_i32(b, bytes)};
        tw_emit(b, TW_OP_bulk_store, none, NULL, NULL, 0, v, 3);
        tw_do(b, TW_OP_bulk_commit, none, TW_NONE, TW_NONE);
        bool waits = !(i == 1 && fault == NOT_WAITED_AT_EXIT) && !(i == 0 && fault == OVERWRITTEN);
        const bool by_all = fault == NO_BARRIER_AFTER_WAIT;
        if (waits && !by_all && fault != WAITED_BY_OTHERS)
            tw_do(b, TW_OP_bulk_wait, (tw_attrs){.read = i == 0}, TW_NONE, TW_NONE);
        tw_pop(b, if_lead);
        if (fault == WAITED_BY_OTHERS) tw_unless(b, lead);
        if (by_all || fault == WAITED_BY_OTHERS)
            tw_do(b, TW_OP_bulk_wait, (tw_attrs){.read = i == 0}, TW_NONE, TW_NONE);
        if (!by_all) barrier(b);
    }
}

/* -- four blocks add their rows to one place; the last to come copies the sums to `out` */

enum { ADDS_PLAINLY = 1, ADDS_BY_RED, STORES, WAITS_FOR_READS, REDUCES_EARLY };

static void build_reduce(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    const tw_attrs count = {.type = TW_T_i32, .rmw = TW_RMW_add, .order = TW_ORDER_acq_rel, .scope = TW_SCOPE_gpu};
    tw_shared_add(b, "tile", 512, 128, true);
    tw_shared_add(b, "ticket", 4, 4, false);
    tw_val t = tid(b), tile = tw_shared_base(b, "tile"), lead = tw_eq(b, t, tw_i32(b, 0)), block;
    block = tw_sreg(b, TW_SREG_ctaid_x);
    tw_val x = tw_ld(b, f32_global, at64(b, in, tw_add(b, t, block), 4));
    store(b, f32_shared, at32(b, tile, t, 4), x);
    tw_do(b, TW_OP_fence_proxy, (tw_attrs){.proxy = TW_PROXY_async_shared}, TW_NONE, TW_NONE);
    if (fault != REDUCES_EARLY) barrier(b);
    const tw_scope if_lead = tw_push_if(b, lead);
    tw_val v[3] = {aux, tile, tw_i32(b, 512)};
    if (fault == STORES)
        tw_emit(b, TW_OP_bulk_store, none, NULL, NULL, 0, v, 3);
    else
        tw_emit(b, TW_OP_bulk_reduce, (tw_attrs){.type = TW_T_f32, .rmw = TW_RMW_add}, NULL, NULL, 0, v, 3);
    if (fault == ADDS_PLAINLY) store(b, f32_global, aux, tw_ld(b, f32_global, aux));
    if (fault == ADDS_BY_RED)
        tw_red(b, (tw_attrs){.type = TW_T_f32, .rmw = TW_RMW_add, .scope = TW_SCOPE_gpu}, aux,
               (tw_val[]){tw_f32(b, 0)});
    tw_do(b, TW_OP_bulk_commit, none, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_bulk_wait, (tw_attrs){.read = fault == WAITS_FOR_READS}, TW_NONE, TW_NONE);
    tw_val ticket = tw_atom(b, count, tw_add_imm(b, aux, 4000), tw_i32(b, 1), TW_NONE);
    store(b, i32_shared, tw_shared_base(b, "ticket"), ticket);
    tw_pop(b, if_lead);
    barrier(b);
    tw_val all = tw_eq(b, tw_ld(b, i32_shared, tw_shared_base(b, "ticket")), tw_i32(b, 3));
    const tw_scope if_all = tw_push_if(b, all);
    store(b, f32_global, at64(b, out, t, 4), tw_ld(b, f32_global, at64(b, aux, t, 4)));
    tw_pop(b, if_all);
}

static void build_cluster_fence(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)fault;
    build_store(b, FENCE_OF_CLUSTER, in, out, aux);
}

static float four_rows(int i) {
    return (float)(4 * i + 6);
}

/* -- cp_async that arrives at an mbarrier */

enum { NO_ARRIVAL_WAIT = 1, PLAIN_ARRIVE, PHASE_GONE_TWICE };

static void build_arrive(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)aux;
    tw_shared_add(b, "tile", 256, 16, false);
    tw_shared_add(b, "ready", 8, 8, false);
    tw_val t = tid(b), tile = tw_shared_base(b, "tile"), m = tw_shared_base(b, "ready");
    tw_when(b, tw_eq(b, t, tw_i32(b, 0)));
    tw_do(b, TW_OP_mbarrier_init, none, m, tw_i32(b, 64));
    barrier(b);
    tw_val from = at64(b, in, t, 4);
    tw_cp_async(b, (tw_attrs){.bytes = 4}, at32(b, tile, t, 4), from, TW_NONE);
    if (fault == PLAIN_ARRIVE)
        tw_do(b, TW_OP_mbarrier_arrive, none, m, TW_NONE);
    else
        tw_do(b, TW_OP_cp_async_arrive, none, m, TW_NONE);
    if (fault == PHASE_GONE_TWICE) {
        tw_do(b, TW_OP_mbarrier_wait, none, m, tw_i32(b, 0));
        for (int i = 0; i < 2; i++) {
            tw_do(b, TW_OP_mbarrier_arrive, none, m, TW_NONE);
            barrier(b);
        }
        tw_do(b, TW_OP_mbarrier_wait, none, m, tw_i32(b, 1));
    } else if (fault != NO_ARRIVAL_WAIT) {
        tw_do(b, TW_OP_mbarrier_wait, none, m, tw_i32(b, 0));
    }
    tw_val x = tw_ld(b, f32_shared, at32(b, tile, tw_xor(b, t, tw_i32(b, 33)), 4));
    store(b, f32_global, at64(b, out, t, 4), x);
}

static float crossed(int i) {
    return (float)(i ^ 33);
}

enum { STAGES, STORE, ARRIVE, OTHER_LANE, REDUCE, CLUSTER_FENCE, USED, FENCED };
static const scene scenes[] = {
    [STAGES] = {"stages", 96, 1, 0, false, build_stages, plus_one, TILES * 128},
    [STORE] = {"store", 128, 1, 0, false, build_store, plus_one, 256},
    [ARRIVE] = {"arrive", 64, 1, 0, false, build_arrive, crossed, 64},
    [OTHER_LANE] = {"other_lane", 96, 1, 0, false, build_by_lane_11, plus_one, TILES * 128},
    [USED] = {"used", 96, 1, 0, false, build_used, plus_one, TILES * 128},
    [FENCED] = {"fenced", 96, 1, 0, false, build_fenced, plus_one, TILES * 128},
    [CLUSTER_FENCE] = {"cluster_fence", 128, 1, 0, false, build_cluster_fence, plus_one, 256},
    [REDUCE] = {"reduce", 128, 4, 0, false, build_reduce, four_rows, 128},
};

#define S &scenes[STAGES]
static const planted faults[] = {
    {S, NO_INIT_FENCE, "no fence after mbarrier_init", TW_EMU_PROXY, "/bulk_load|full+|fence_mbarrier_init"},
    {S, NO_BARRIER_AFTER_INIT, "no barrier after mbarrier_init", TW_EMU_RACE, "uses |mbarrier_init|nothing orders"},
    {S, INIT_TWICE, "initialised twice", TW_EMU_MBARRIER, "/mbarrier_init|full+0, which is an mbarrier already"},
    {S, NO_INIT, "not initialised", TW_EMU_MBARRIER, "empty+|not initialised"},
    {S, TOO_MANY_BYTES, "expects too many bytes", TW_EMU_DEADLOCK, "full+|misses 0 of 1 arrivals, 16 bytes"},
    {S, TOO_FEW_BYTES, "expects too few bytes", TW_EMU_MBARRIER, "full+|16 bytes more have landed"},
    {S, NO_EXPECT, "arrives without expecting", TW_EMU_ASYNC, "/ld|reads tiles+|/bulk_load"},
    {S, NO_FULL_WAIT, "does not wait for the copy", TW_EMU_ASYNC, "/ld|reads tiles+|/bulk_load|not waited for"},
    {S, WRONG_PARITY, "waits for the other parity", TW_EMU_UNINITIALISED, "/ld|reads tiles+"},
    {S, EARLY_ARRIVE, "gives the stage back before reading it", TW_EMU_RACE, "tiles+|/bulk_load|/ld"},
    {S, NO_WARP_SYNC, "one lane arrives for all, unsynchronised", TW_EMU_RACE, "/bulk_load|copies to tiles+|/ld"},
    {S, EMPTY_COUNT_LOW, "one consumer's arrival is enough", TW_EMU_MBARRIER, "waits for phase|has ended too"},
    {S, EMPTY_COUNT_HIGH, "more arrivals than arrive", TW_EMU_DEADLOCK, "empty+|misses 1 of 3 arrivals"},
    {S, NO_EMPTY_WAIT, "overwrites a stage in use", TW_EMU_MBARRIER, "role 0|arrives 1 times at full+|misses 0 of 1"},
    {S, NO_ARRIVE, "never gives a stage back", TW_EMU_DEADLOCK, "role 0|empty+|misses 2 of 2|role 1|full+"},
    {S, COPY_UNALIGNED, "unaligned bulk copy", TW_EMU_ALIGNMENT, "/bulk_load|not aligned to 16"},
    {S, ODD_BYTES, "bulk copy of no whole pieces", TW_EMU_ALIGNMENT, "/bulk_load|508 bytes"},
    {S, OVER_MBARRIER, "writes over an mbarrier", TW_EMU_MBARRIER, "/st|full+0, where an mbarrier is"},
    {S, LAST_NOT_WAITED, "a copy nobody waits for", TW_EMU_LEAK, "full+8"},
    {S, POLLS_FOR_EVER, "polls for what never comes", TW_EMU_DEADLOCK, "/test/mbarrier_test|polls full+"},
    {S, USE_AFTER_INVAL, "used after mbarrier_inval", TW_EMU_MBARRIER, "full+0 is no mbarrier: it was invalidated"},
    {S, LOADS_UNDER_WAY, "gives the stage back while loads from it are under way", TW_EMU_ASYNC,
     "/bulk_load|copies to tiles+|the load |/ld |may still read: it was given back before anything used"},
    {S, ONE_UNDER_WAY, "gives the stage back while one load from it is under way", TW_EMU_ASYNC,
     "/bulk_load|copies to tiles+|the load |/ld |may still read: it was given back before anything used"},
    {S, MOVED_UNDER_WAY, "gives the stage back when loads from it were moved alone", TW_EMU_ASYNC,
     "/bulk_load|copies to tiles+|the load |/ld |may still read: it was given back before anything used"},
    {&scenes[STORE], NO_PROXY_FENCE, "dropped fence_proxy", TW_EMU_PROXY, "/bulk_store|tile+|/st|no fence_proxy"},
    {&scenes[STORE], FENCE_BY_ISSUER, "fence_proxy by another thread", TW_EMU_PROXY, "/bulk_store|tile+4|lane 1"},
    {&scenes[STORE], FENCE_OF_GLOBAL, "fence_proxy of global memory alone", TW_EMU_PROXY,
     "/bulk_store|tile+|no fence_proxy of the writer is between, but one of another space"},
    {&scenes[STORE], FENCE_OF_ALIASES, "fence_proxy of aliases", TW_EMU_PROXY, "/bulk_store|tile+|no fence_proxy"},
    {&scenes[STORE], NO_BARRIER, "bulk store without a barrier", TW_EMU_RACE, "/bulk_store|tile+"},
    {&scenes[STORE], NOT_WAITED_AT_EXIT, "exits before the bulk store has read", TW_EMU_LEAK, "bulk store"},
    {&scenes[STORE], OVERWRITTEN, "overwrites what a bulk store reads", TW_EMU_ASYNC,
     "/st|writes tile+|/bulk_store|reads: it was not waited for"},
    {&scenes[STORE], WAITED_BY_OTHERS, "waited for by threads that own no group", TW_EMU_ASYNC,
     "/st|writes tile+|/bulk_store|not waited for; a group belongs to the thread that committed it"},
    {&scenes[STORE], WAITED_BY_OTHERS, "waited for by threads that own no group, at the exit", TW_EMU_LEAK,
     "bulk store may still read|; a group belongs to the thread that committed it"},
    {&scenes[STORE], NO_BARRIER_AFTER_WAIT, "waited for by all, of whom one owns the group", TW_EMU_RACE,
     "/st|writes tile+|/bulk_store|nothing orders the two; a group belongs to the thread that committed it"},
    {&scenes[REDUCE], ADDS_PLAINLY, "a plain addition beside a reduction", TW_EMU_ASYNC, "/ld|reads aux+0|bulk_reduce"},
    {&scenes[REDUCE], ADDS_BY_RED, "an atomic of the generic proxy beside a reduction", TW_EMU_ASYNC,
     "/red|updates aux+0|bulk_reduce"},
    {&scenes[REDUCE], STORES, "a store where others reduce", TW_EMU_RACE, "/bulk_store|copies to aux+"},
    {&scenes[REDUCE], WAITS_FOR_READS, "waits for the reads of a reduction alone", TW_EMU_ASYNC,
     "/ld|reads aux+|/bulk_reduce|writes: it was not waited for"},
    {&scenes[REDUCE], REDUCES_EARLY, "reduces before all have written", TW_EMU_RACE,
     "/bulk_reduce|copies from tile+|/st"},
    {&scenes[STORE], ODD_STORE, "bulk store of no whole pieces", TW_EMU_ALIGNMENT, "/bulk_store|508 bytes"},
    {&scenes[ARRIVE], NO_ARRIVAL_WAIT, "does not wait for the arrivals of copies", TW_EMU_ASYNC, "/ld|tile+|/cp_async"},
    {&scenes[ARRIVE], PLAIN_ARRIVE, "arrives before its copies have landed", TW_EMU_ASYNC, "/ld|tile+|/cp_async"},
};

static void copies_and_mbarriers(void **state) {
    (void)state;
    all_caught(scenes, COUNT(scenes), faults, COUNT(faults));
}

/* -- reductions of every type: 8 elements of each kind, combined with what is there */

static const struct reduction {
    tw_type type;
    int rmw;
    uint64_t old, x, want;
} reductions[] = {
    {TW_T_i32, TW_RMW_add, 0xfffffff0, 0x20, 0x10},
    {TW_T_i64, TW_RMW_add, 0xfffffff0, 0x20, 0x100000010},
    {TW_T_i32, TW_RMW_min_s32, 5, (uint32_t)-3, (uint32_t)-3},
    {TW_T_i32, TW_RMW_min_u32, 5, (uint32_t)-3, 5},
    {TW_T_i32, TW_RMW_max_s32, 5, (uint32_t)-3, 5},
    {TW_T_i32, TW_RMW_max_u32, 5, (uint32_t)-3, (uint32_t)-3},
    {TW_T_i64, TW_RMW_and, 0xff00ff00ff, 0x0ff00ff00f, 0x0f000f000f},
    {TW_T_i32, TW_RMW_or, 0x0f, 0xf00, 0xf0f},
    {TW_T_i32, TW_RMW_xor, 0xff, 0xf0f, 0xff0},
    {TW_T_i32, TW_RMW_inc, 7, 7, 0},
    {TW_T_i32, TW_RMW_dec, 0, 7, 7},
    {TW_T_f16, TW_RMW_add, 0x3c00, 0x4000, 0x4200},
    {TW_T_bf16, TW_RMW_add, 0x3f80, 0x4000, 0x4040},
    {TW_T_f32, TW_RMW_add, 0x3f800000, 0x40000000, 0x40400000},
    {TW_T_f64, TW_RMW_add, 0x3ff0000000000000, 0x4000000000000000, 0x4008000000000000},
};

static void reduce_one(const struct reduction *x, uint64_t seed) {
    const int size = tw_type_bits(x->type) / 8;
    unsigned char from[64], to[64];
    for (int i = 0; i < 8; i++)
        memcpy(from + i * size, &x->x, (size_t)size), memcpy(to + i * size, &x->old, (size_t)size);
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new("one", 90, 32);
    tw_builder b = tw_builder_of(k);
    tw_val p = tw_pointer_add(&b, "from", 16, true), q = tw_pointer_add(&b, "to", 16, false);
    tw_shared_add(&b, "tile", 64, 128, false);
    tw_val tile = tw_shared_base(&b, "tile");
    const tw_scope branch = tw_push_if(&b, tw_lt(&b, tid(&b), tw_i32(&b, 8 * size / 4)));
    store(&b, i32_shared, at32(&b, tile, tid(&b), 4), tw_ld(&b, (tw_attrs){.type = TW_T_i32}, at64(&b, p, tid(&b), 4)));
    tw_do(&b, TW_OP_fence_proxy, (tw_attrs){.proxy = TW_PROXY_async_all}, TW_NONE, TW_NONE);
    tw_pop(&b, branch);
    warp_sync(&b);
    const tw_scope if_first_lane = tw_push_if(&b, first_lane(&b));
    tw_emit(&b, TW_OP_bulk_reduce, (tw_attrs){.type = (int32_t)x->type, .rmw = x->rmw}, NULL, NULL, 0,
            (tw_val[]){q, tile, tw_i32(&b, 8 * size)}, 3);
    tw_do(&b, TW_OP_bulk_commit, none, TW_NONE, TW_NONE);
    tw_do(&b, TW_OP_bulk_wait, none, TW_NONE, TW_NONE);
    tw_pop(&b, if_first_lane);
    const uint64_t arguments[2] = {tw_emu_alloc(e, "from", from, (size_t)size * 8, true),
                                   tw_emu_alloc(e, "to", to, (size_t)size * 8, false)};
    tw_diag d;
    if (tw_kernel_verify(k, 90, &d) != TW_OK) fail_msg("%s", d.message);
    run_clean(e, k, arguments, (tw_emu_options){.seed = seed});
    tw_emu_read(e, arguments[1], to, (size_t)size * 8);
    for (int i = 0; i < 8; i++) {
        uint64_t got = 0;
        memcpy(&got, to + i * size, (size_t)size);
        if (got != x->want)
            fail_msg("%s of %s: 0x%llx, not 0x%llx", tw_attr_value_name(TW_ATTR_rmw, x->rmw), tw_type_name(x->type),
                     (unsigned long long)got, (unsigned long long)x->want);
    }
    tw_kernel_free(k);
    tw_emu_free(e);
}

static void reductions_of_every_type(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(reductions); i++) reduce_one(&reductions[i], (uint64_t)i);
}

/* A run that goes on after a finding leaves out what was wrong. */
static void a_refused_copy_moves_nothing(void **state) {
    (void)state;
    float out[CELLS];
    tw_emu_report r;
    assert_int_equal(play(&scenes[STORE], ODD_STORE, 0, true, &r, out), TW_ERR_REJECTED);
    for (int i = 0; i < 128; i++) assert_true(out[i] == plus_one(i));
    for (int i = 128; i < 256; i++) assert_false(out[i] == plus_one(i));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_and_mbarriers),
                                       cmocka_unit_test(reductions_of_every_type),
                                       cmocka_unit_test(a_refused_copy_moves_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
