/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a cluster that share memory: a reduction, a flag, neighbours in a ring; and the faults of each. */
#include "emu/emu_test.h"

static const tw_attrs none = {0};
static const tw_attrs f32_global = {F32}, f32_shared = {F32, SHARED}, f32_cluster = {F32, .space = TW_SPACE_cluster};

enum { BLOCKS = 4, THREADS = 64 };

static void barrier(tw_builder *b) {
    tw_do(b, TW_OP_barrier, none, TW_NONE, TW_NONE);
}
static void meet(tw_builder *b) {
    tw_do(b, TW_OP_cluster_sync, none, TW_NONE, TW_NONE);
}
static tw_val rank_of(tw_builder *b) {
    return tw_sreg(b, TW_SREG_cluster_rank);
}
/* A shared address as seen in another block. */
static tw_val in_block(tw_builder *b, tw_val address, tw_val rank) {
    return tw_get(b, TW_OP_cluster_address, none, TW_T_i32, address, rank);
}
static tw_val row_of(tw_builder *b) {
    return tw_fma(b, tw_sreg(b, TW_SREG_ctaid_x), tw_i32(b, THREADS), tid(b));
}

/* -- every block keeps a row; rank 0 of each cluster adds them up, reading one from each of the others */

enum {
    NO_SYNC_BEFORE = 1,
    NO_SYNC_AFTER,
    RANK_BEYOND,
    RANK_BEFORE,
    TWICE_MAPPED,
    PLAIN_ACCESS,
    BEYOND_ROW,
    UNALIGNED,
    HALF_WRITTEN,
    DIVERGENT,
    BARRIER_INSTEAD,
    EXITS_EARLY,
    LEAVES_OUT,
    WARP_ELSEWHERE
};

static void add_up(tw_builder *b, int fault, tw_val row, tw_val out) {
    tw_val t = tid(b), sum = tw_var_of(b, tw_f32(b, 0));
    tw_attrs at = fault == PLAIN_ACCESS ? f32_shared : f32_cluster;
    if (fault == BEYOND_ROW) at.offset = 4 * THREADS;
    if (fault == UNALIGNED) at.offset = 2;
    tw_val last = tw_i32(b, fault == RANK_BEYOND ? BLOCKS + 1 : BLOCKS);
    const tw_scope loop = tw_push_for(b, tw_i32(b, fault == RANK_BEFORE ? -1 : 0), last, tw_i32(b, 1), true);
    tw_val i = loop.i;
    tw_val from = in_block(b, row, i);
    if (fault == TWICE_MAPPED) from = in_block(b, from, i);
    tw_assign(b, sum, tw_add(b, sum, tw_ld(b, at, at32(b, from, t, 4))));
    tw_pop(b, loop);
    tw_val cluster = tw_shr(b, tw_sreg(b, TW_SREG_ctaid_x), 2);
    store(b, f32_global, at64(b, out, tw_fma(b, cluster, tw_i32(b, THREADS), t), 4), sum);
}

static void build_reduce(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)aux;
    b->kernel->cluster = BLOCKS;
    tw_shared_add(b, "other", 100, 4, false);
    tw_shared_add(b, "row", 4 * THREADS, 16, true);
    tw_val t = tid(b), row = tw_shared_base(b, "row"), rank = rank_of(b);
    tw_val first = tw_eq(b, rank, tw_i32(b, 0));
    if (fault == EXITS_EARLY) {
        tw_when(b, tw_eq(b, rank, tw_i32(b, 2)));
        tw_do(b, TW_OP_exit, none, TW_NONE, TW_NONE);
    }
    tw_val x = tw_ld(b, f32_global, at64(b, in, row_of(b), 4));
    tw_val cell = at32(b, row, t, 4);
    if (fault == HALF_WRITTEN) tw_when(b, tw_lt(b, t, tw_i32(b, 50)));
    store(b, f32_shared, cell, x);
    tw_scope branch = {0};
    if (fault == DIVERGENT) branch = tw_push_if(b, tw_lt(b, t, tw_i32(b, 40)));
    if (fault == LEAVES_OUT) branch = tw_push_if(b, tw_ne(b, rank, tw_i32(b, 2)));
    if (fault == BARRIER_INSTEAD)
        barrier(b);
    else if (fault != NO_SYNC_BEFORE)
        meet(b);
    if (fault == DIVERGENT || fault == LEAVES_OUT) tw_pop(b, branch);
    if (fault == WARP_ELSEWHERE) {
        tw_val warp = tw_fma(b, rank, tw_i32(b, 2), tw_sreg(b, TW_SREG_warpid));
        const tw_scope branch3 = tw_push_if(b, tw_eq(b, warp, tw_i32(b, 3)));
        barrier(b);
        tw_pop(b, branch3);
    }
    const tw_scope if_first = tw_push_if(b, first);
    add_up(b, fault, row, out);
    tw_pop(b, if_first);
    if (fault != NO_SYNC_AFTER) meet(b);
}

static float four_rows(int i) {
    return (float)(4 * (i / THREADS * BLOCKS * THREADS + i % THREADS) + 6 * THREADS);
}

/* -- a ring: each block writes into the next one's memory, raises its flag there, and waits for its own */

enum {
    RELAXED_FLAG = 1,
    RELAXED_WAIT,
    FLAG_OF_BLOCK,
    WAIT_OF_BLOCK,
    NO_FENCE,
    FENCE_OF_BLOCK,
    WAITS_FIRST,
    NO_START,
    ONE_SKIPS
};

static void pass_on(tw_builder *b, int fault, bool fences, tw_val flag) {
    tw_attrs f = {.order = TW_ORDER_acq_rel, .scope = fault == FENCE_OF_BLOCK ? TW_SCOPE_cta : TW_SCOPE_cluster};
    tw_attrs at = {I32, .space = TW_SPACE_cluster, .order = TW_ORDER_release, .scope = TW_SCOPE_cluster};
    if (fences && fault != NO_FENCE) tw_do(b, TW_OP_fence, f, TW_NONE, TW_NONE);
    if (fences || fault == RELAXED_FLAG) at.order = TW_ORDER_relaxed;
    if (fault == FLAG_OF_BLOCK) at.scope = TW_SCOPE_cta;
    tw_red(b, at, flag, (tw_val[]){tw_i32(b, 1)});
}

static void wait_for(tw_builder *b, int fault, tw_val flag) {
    tw_attrs at = {I32, SHARED, .order = TW_ORDER_acquire, .scope = TW_SCOPE_cluster};
    if (fault == RELAXED_WAIT) at.order = TW_ORDER_relaxed;
    if (fault == WAIT_OF_BLOCK) at.scope = TW_SCOPE_cta;
    const tw_scope poll = tw_push_while(b);
    tw_val x = tw_ld(b, at, flag);
    tw_push_while_body(b, poll, tw_eq(b, x, tw_i32(b, 0)));
    tw_pop(b, poll);
}

static void ring(tw_builder *b, int fault, bool fences, tw_val in, tw_val out) {
    b->kernel->cluster = BLOCKS;
    tw_shared_add(b, "box", 4 * THREADS, 16, true);
    tw_shared_add(b, "flag", 4, 4, true);
    tw_val t = tid(b), rank = rank_of(b), box = tw_shared_base(b, "box"), flag = tw_shared_base(b, "flag");
    tw_val next = tw_and(b, tw_add_imm(b, rank, 1), tw_i32(b, BLOCKS - 1)), lead = tw_eq(b, t, tw_i32(b, 0));
    const tw_scope if_lead = tw_push_if(b, lead);
    store(b, (tw_attrs){I32, SHARED}, flag, tw_i32(b, 0));
    tw_pop(b, if_lead);
    tw_scope branch = {0};
    if (fault == ONE_SKIPS) branch = tw_push_if(b, tw_ne(b, rank, tw_i32(b, 2)));
    if (fault != NO_START) meet(b);
    if (fault == ONE_SKIPS) tw_pop(b, branch);
    const tw_scope if_lead2 = tw_push_if(b, lead);
    if (fault == WAITS_FIRST) wait_for(b, fault, flag);
    tw_pop(b, if_lead2);
    store(b, f32_cluster, at32(b, in_block(b, box, next), t, 4), tw_ld(b, f32_global, at64(b, in, row_of(b), 4)));
    barrier(b);
    const tw_scope if_lead3 = tw_push_if(b, lead);
    pass_on(b, fault, fences, in_block(b, flag, next));
    wait_for(b, fault, flag);
    tw_pop(b, if_lead3);
    barrier(b);
    tw_val x = tw_ld(b, f32_shared, at32(b, box, tw_xor(b, t, tw_i32(b, 5)), 4));
    store(b, f32_global, at64(b, out, row_of(b), 4), x);
    /* A release comes before whoever acquires it, with the write that carries it: it is the last here. */
    if (fences) meet(b);
}

static void build_ring(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)aux;
    ring(b, fault, false, in, out);
}
static void build_fences(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)aux;
    ring(b, fault, true, in, out);
}

static float before(int i) {
    int block = i / THREADS, rank = block % BLOCKS, from = block - rank + (rank + BLOCKS - 1) % BLOCKS;
    return (float)(from * THREADS + (i % THREADS ^ 5));
}

/* -- all of a cluster update one block's memory by atomics */

enum { ATOMIC_OF_BLOCK = 1, PLAIN_READ };

static void build_count(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)in, (void)aux;
    b->kernel->cluster = BLOCKS;
    tw_shared_add(b, "count", 4, 4, false);
    tw_val t = tid(b), count = tw_shared_base(b, "count"), rank = rank_of(b), zero = tw_i32(b, 0);
    tw_val lead = tw_eq(b, tw_add(b, t, rank), zero), mine = in_block(b, count, zero);
    tw_attrs at = {F32, .space = TW_SPACE_cluster, .scope = TW_SCOPE_cluster};
    if (fault == ATOMIC_OF_BLOCK) at.scope = TW_SCOPE_cta;
    tw_when(b, lead);
    store(b, f32_shared, count, tw_f32(b, 0));
    meet(b);
    tw_red(b, at, mine, (tw_val[]){tw_f32(b, 1)});
    if (fault != PLAIN_READ) meet(b);
    const tw_scope if_lead = tw_push_if(b, lead);
    tw_val sum = tw_ld(b, f32_shared, count); /* its own address, and the cluster's, mean the same */
    tw_val same = tw_ld(b, f32_cluster, mine), also = tw_ld(b, f32_cluster, count);
    tw_val third = tw_mul(b, tw_add(b, tw_add(b, sum, same), also), tw_f32(b, 0.5f));
    store(b, f32_global, at64(b, out, tw_shr(b, tw_sreg(b, TW_SREG_ctaid_x), 2), 4), third);
    tw_pop(b, if_lead);
    if (fault == PLAIN_READ) meet(b);
}

static float counted(int i) {
    (void)i;
    return 1.5f * BLOCKS * THREADS;
}

enum { REDUCE, RING, FENCES, COUNT_UP };
static const scene scenes[] = {
    [REDUCE] = {"reduce", THREADS, 3 * BLOCKS, 0, false, build_reduce, four_rows, 3 * THREADS},
    [RING] = {"ring", THREADS, 4 * BLOCKS, 2, false, build_ring, before, 4 * BLOCKS *THREADS},
    [FENCES] = {"fences", THREADS, 2 * BLOCKS, 0, false, build_fences, before, 2 * BLOCKS *THREADS},
    [COUNT_UP] = {"count", THREADS, 2 * BLOCKS, 0, true, build_count, counted, 2},
};

static const scene one_reduce = {"reduce", THREADS, BLOCKS, 0, false, build_reduce, four_rows, THREADS};
static const scene one_ring = {"ring", THREADS, BLOCKS, 0, false, build_ring, before, BLOCKS *THREADS};

#define R &scenes[REDUCE]
#define G &scenes[RING]
#define F &scenes[FENCES]
static const planted faults[] = {
    {R, NO_SYNC_BEFORE, "no cluster_sync before reading: order", TW_EMU_RACE, "row+|nothing orders the two"},
    {R, NO_SYNC_BEFORE, "no cluster_sync before reading: start", TW_EMU_BOUNDS,
     "/ld|reads row+|of block|may not have started"},
    {R, BARRIER_INSTEAD, "a barrier of the block alone", TW_EMU_RACE, "row+|nothing orders the two"},
    {R, NO_SYNC_AFTER, "no cluster_sync before the end", TW_EMU_RACE, "the block ends|row+|reads: nothing orders"},
    {R, EXITS_EARLY, "reads what a block left that has ended", TW_EMU_BOUNDS,
     "/ld|reads 4 bytes at row+|of block|which has ended|lane"},
    {R, RANK_BEYOND, "rank out of range", TW_EMU_BOUNDS, "/cluster_address|block 4 of a cluster of 4"},
    {R, RANK_BEFORE, "negative rank", TW_EMU_BOUNDS, "/cluster_address|block -1 of a cluster of 4"},
    {R, TWICE_MAPPED, "maps an address of the cluster", TW_EMU_BOUNDS, "/cluster_address|is no address of the block's"},
    {R, PLAIN_ACCESS, "a plain access of another block's memory", TW_EMU_BOUNDS,
     "/ld|where nothing is: it means row+0|of space=cluster"},
    {R, BEYOND_ROW, "beyond the end", TW_EMU_BOUNDS, "/ld|at row+256|but row has 256 bytes"},
    {R, UNALIGNED, "unaligned", TW_EMU_ALIGNMENT, "/ld|at row+2|not aligned to 4"},
    {R, HALF_WRITTEN, "not written", TW_EMU_UNINITIALISED, "/ld|reads row+|which nothing has written"},
    {R, DIVERGENT, "cluster_sync in a branch", TW_EMU_DIVERGENCE, "/cluster_sync|warp 1|lane 8 and 23 more"},
    {R, LEAVES_OUT, "one block leaves a cluster_sync out", TW_EMU_BOUNDS, "/ld|which has ended"},
    {&one_reduce, WARP_ELSEWHERE, "a warp that waits elsewhere", TW_EMU_DEADLOCK,
     "8 warps wait: |body/cluster_sync|(the cluster misses block 1 warp 1)|block 1 warp 1 at body/if|"
     "(barrier 0 has 32 of 64 threads)"},
    {&one_ring, ONE_SKIPS, "one block skips a cluster_sync", TW_EMU_DEADLOCK,
     "8 warps wait: |/cluster_sync 0 (the cluster misses block 2 warp 0 and 1 more)|block 2 warp 0 at|(polls "
     "flag+0)"},
    {G, RELAXED_FLAG, "relaxed instead of release", TW_EMU_RACE, "/ld|reads box+|wrote: nothing orders"},
    {G, RELAXED_WAIT, "relaxed instead of acquire", TW_EMU_RACE, "/ld|reads box+|wrote: nothing orders"},
    {G, FLAG_OF_BLOCK, "a release for the block alone", TW_EMU_RACE, "flag+0|a scope does not reach"},
    {G, WAIT_OF_BLOCK, "acquires from the block alone", TW_EMU_RACE, "flag+0|a scope does not reach"},
    {G, WAITS_FIRST, "waits before it passes on", TW_EMU_DEADLOCK, "warp 0 at body/if|(polls flag+0)"},
    {G, NO_START, "writes before the others have started", TW_EMU_BOUNDS, "/st|writes box+|may not have started"},
    {F, NO_FENCE, "no fence", TW_EMU_RACE, "/ld|reads box+|wrote: nothing orders"},
    {F, FENCE_OF_BLOCK, "a fence for the block alone", TW_EMU_RACE, "/ld|reads box+|wrote: nothing orders"},
    {&scenes[COUNT_UP], ATOMIC_OF_BLOCK, "atomics of the block alone", TW_EMU_RACE,
     "/red|updates count+0|a scope does not reach"},
    {&scenes[COUNT_UP], PLAIN_READ, "reads while others count", TW_EMU_RACE, "count+0|nothing orders"},
};

static void between_blocks_of_a_cluster(void **state) {
    (void)state;
    all_caught(scenes, COUNT(scenes), faults, COUNT(faults));
}

/* -- how clusters lie in a grid, and how many run at once */

/* Each block writes its rank, and what the last of its cluster left, to its place. */
static tw_kernel *ranks(int cluster) {
    tw_kernel *k = tw_kernel_new("ranks", 90, 40);
    tw_builder b = tw_builder_of(k);
    k->cluster = cluster;
    tw_val out = tw_pointer_add(&b, "out", 16, false);
    tw_shared_add(&b, "mine", 4, 4, false);
    tw_val mine = tw_shared_base(&b, "mine"), lead = tw_eq(&b, tid(&b), tw_i32(&b, 33)), rank = rank_of(&b);
    tw_val x = tw_sreg(&b, TW_SREG_ctaid_x), y = tw_sreg(&b, TW_SREG_ctaid_y);
    tw_val number = tw_fma(&b, y, tw_sreg(&b, TW_SREG_nctaid_x), x);
    tw_when(&b, tw_eq(&b, tid(&b), tw_i32(&b, 2)));
    tw_do(&b, TW_OP_exit, none, TW_NONE, TW_NONE); /* which nobody waits for */
    tw_val left = tw_fma(&b, rank, tw_i32(&b, 1000), number);
    tw_when(&b, lead);
    store(&b, (tw_attrs){I32, SHARED}, mine, left);
    meet(&b);
    const tw_scope if_lead = tw_push_if(&b, lead);
    tw_val last = in_block(&b, mine, tw_i32(&b, (cluster ? cluster : 1) - 1));
    tw_val v[4] = {rank, tw_ld(&b, (tw_attrs){I32, .space = TW_SPACE_cluster}, last), tw_sreg(&b, TW_SREG_smid),
                   tw_sreg(&b, TW_SREG_nsmid)};
    tw_st(&b, (tw_attrs){I32, .vec = 4}, at64(&b, out, number, 16), v);
    tw_pop(&b, if_lead);
    meet(&b);
    return k;
}

static void blocks_of_a_cluster_are_neighbours(void **state) {
    (void)state;
    static const struct {
        int cluster, x, y, sms, most;
    } cases[] = {{0, 5, 2, 0, 4}, {1, 5, 1, 3, 3},    {2, 6, 3, 1, 2},
                 {3, 6, 2, 2, 6}, {16, 32, 2, 1, 16}, {8, 8, 1, 0, 8}};
    for (int i = 0; i < COUNT(cases); i++)
        for (int unchecked = 0; unchecked < 2; unchecked++)
            for (uint64_t seed = 0; seed < 5; seed++) {
                int32_t out[64][4];
                int n = cases[i].x * cases[i].y, of = cases[i].cluster ? cases[i].cluster : 1;
                tw_emu *e = tw_emu_new();
                tw_kernel *k = ranks(cases[i].cluster);
                uint64_t a = tw_emu_alloc(e, "out", NULL, sizeof out, false);
                run_clean(
                    e, k, &a,
                    (tw_emu_options){
                        .seed = seed, .grid = {cases[i].x, cases[i].y}, .sms = cases[i].sms, .unchecked = unchecked});
                tw_emu_read(e, a, out, sizeof out);
                for (int j = 0; j < n; j++) {
                    assert_int_equal(out[j][0], j % of);
                    assert_int_equal(out[j][1], (of - 1) * 1000 + j / of * of + of - 1);
                    assert_in_range(out[j][2], 0, cases[i].most - 1);
                    assert_int_equal(out[j][3], cases[i].most);
                }
                tw_kernel_free(k);
                tw_emu_free(e);
            }
}

static void grids_are_whole_clusters(void **state) {
    (void)state;
    tw_emu *e = tw_emu_new();
    tw_kernel *k = ranks(4);
    uint64_t a = tw_emu_alloc(e, "out", NULL, 4096, false);
    tw_emu_report r;
    tw_diag d;
    assert_int_equal(tw_emu_launch(e, k, &a, &(tw_emu_options){.grid = {6, 4}}, &r, &d), TW_ERR_USAGE);
    assert_non_null(strstr(d.message, "6 blocks in x: no whole clusters of 4"));
    tw_kernel_free(k);
    tw_emu_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_a_cluster_are_neighbours),
        cmocka_unit_test(grids_are_whole_clusters),
        cmocka_unit_test(between_blocks_of_a_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
