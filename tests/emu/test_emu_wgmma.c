/* SPDX-License-Identifier: Apache-2.0 */
/* A warp that fetches boxes of tensor maps and a warpgroup that multiplies them: C (64 x 24) = A (64 x 150) * B, over
   stages of 64 in a ring of two, in all four orders of A and B. Right, and with one fault at a time. */
#include "emu/emu_test.h"

#include "device/tensor_map.h"

enum { M = 64, N = 24, DEPTH = 150, LD_K = 152, STAGE_K = 64, STAGES = 3, RING = 2, A_BYTES = 8192, B_BYTES = 8192 };
enum { STAGE = A_BYTES + B_BYTES, COPIED_B_BY_ROWS = N * 128 };

enum {
    NO_FULL_WAIT = 1,
    NO_FENCE,
    NO_WAIT,
    EARLY_RELEASE,
    NO_COMMIT,
    TOO_FEW_BYTES,
    TOO_MANY_BYTES,
    NO_EMPTY_WAIT,
    NO_INIT_FENCE,
    GENERIC_WRITE,
    READS_EARLY,
    NO_SWIZZLE,
    MISPLACED_BOX,
    BEYOND_RING,
    HALF_A_WARP,
};

static const tw_attrs none = {0};

typedef struct order {
    bool a_across, b_across; /* along rows (columns) in memory, not along k */
} order;

static void produce(tw_builder *b, int fault, order o, tw_val map_a, tw_val map_b, tw_val tiles, tw_val bars) {
    const int expected = A_BYTES + (o.b_across ? B_BYTES : COPIED_B_BY_ROWS);
    const tw_scope branch = tw_push_if(b, tw_eq(b, tw_sreg(b, TW_SREG_laneid), tw_i32(b, 0)));
    for (int s = 0; s < STAGES; s++) {
        tw_val full = tw_add_imm(b, bars, 8 * (s % RING)), k = tw_i32(b, s * STAGE_K), zero = tw_i32(b, 0);
        tw_val to = tw_add_imm(b, tiles, s % RING * STAGE + (fault == BEYOND_RING && s == 1 ? STAGE : 0));
        if (s >= RING && fault != NO_EMPTY_WAIT)
            tw_do(b, TW_OP_mbarrier_wait, none, tw_add_imm(b, full, 8 * RING), tw_i32(b, s / RING - 1));
        const int off = fault == TOO_FEW_BYTES ? -128 : fault == TOO_MANY_BYTES ? 128 : 0;
        tw_do(b, TW_OP_mbarrier_expect, none, full, tw_i32(b, expected + off));
        if (fault == MISPLACED_BOX) to = tw_add_imm(b, to, 128);
        tw_tensor_load(b, 0, to, map_a, o.a_across ? zero : k, o.a_across ? k : zero, full, TW_NONE);
        tw_tensor_load(b, 0, tw_add_imm(b, to, A_BYTES), map_b, o.b_across ? zero : k, o.b_across ? k : zero, full,
                       TW_NONE);
    }
    tw_pop(b, branch);
}

static tw_val descriptor(tw_builder *b, tw_val at, int bytes, bool across, int fault) {
    const int64_t layout = fault == NO_SWIZZLE ? 0 : 1;
    tw_val low = tw_unary(b, TW_OP_zext_i64_i32, tw_shr(b, tw_add_imm(b, at, bytes), 4));
    return tw_add_imm(b, low, layout << 62 | (int64_t)64 << 32 | (int64_t)(across ? 512 : 1) << 16);
}

static void consume(tw_builder *b, int fault, order o, tw_val tiles, tw_val bars, tw_val out) {
    tw_val acc[N / 2], lane = tw_sreg(b, TW_SREG_laneid), warp = tw_sreg(b, TW_SREG_warpid);
    tw_val first = tw_eq(b, lane, tw_i32(b, 0));
    const tw_attrs at = {.wgmma = TW_WGMMA_f16, .columns = N, .trans_a = o.a_across, .trans_b = o.b_across};
    for (int i = 0; i < N / 2; i++) acc[i] = tw_var_of(b, tw_f32(b, 0));
    for (int s = 0; s < STAGES; s++) {
        tw_val full = tw_add_imm(b, bars, 8 * (s % RING)), a = tw_add_imm(b, tiles, s % RING * STAGE);
        if (fault != NO_FULL_WAIT) tw_do(b, TW_OP_mbarrier_wait, none, full, tw_i32(b, s / RING));
        if (fault == GENERIC_WRITE && s == 1) {
            tw_val zero = tw_i32(b, 0);
            tw_st(b, (tw_attrs){.type = TW_T_i32, .space = TW_SPACE_shared},
                  tw_add(b, a, tw_mul_imm(b, tw_sreg(b, TW_SREG_tid_x), 4)), &zero);
            tw_do(b, TW_OP_barrier_sync, (tw_attrs){.count = 128}, tw_i32(b, 3), TW_NONE);
        }
        if (fault != NO_FENCE) tw_do(b, TW_OP_wgmma_fence, none, TW_NONE, TW_NONE);
        tw_scope branch = {0};
        if (fault == HALF_A_WARP) branch = tw_push_if(b, tw_lt(b, lane, tw_i32(b, 16)));
        for (int k = 0; k < STAGE_K; k += 16)
            tw_wgmma(b, at, acc, descriptor(b, a, o.a_across ? k * 128 : k * 2, o.a_across, fault),
                     descriptor(b, tw_add_imm(b, a, A_BYTES), o.b_across ? k * 128 : k * 2, o.b_across, fault),
                     tw_const(b, TW_T_pred, s || k));
        if (fault == HALF_A_WARP) tw_pop(b, branch);
        if (fault != NO_COMMIT) tw_do(b, TW_OP_wgmma_commit, none, TW_NONE, TW_NONE);
        /* The stage before is done with once this one's group alone is pending. */
        if (fault != NO_WAIT) tw_do(b, TW_OP_wgmma_wait, (tw_attrs){.count = 1}, TW_NONE, TW_NONE);
        const int done = fault == EARLY_RELEASE ? s : s - 1;
        if (done < 0) continue;
        tw_val empty = tw_add_imm(b, bars, 8 * (RING + done % RING));
        tw_when(b, first);
        tw_do(b, TW_OP_mbarrier_arrive, none, empty, TW_NONE);
    }
    if (fault != NO_WAIT && fault != READS_EARLY) tw_do(b, TW_OP_wgmma_wait, none, TW_NONE, TW_NONE);
    tw_val row = tw_add(b, tw_mul_imm(b, warp, 16), tw_shr(b, lane, 2)), column = tw_mul_imm(b, tw_rem(b, lane, 4), 2);
    tw_val to = at64(b, out, tw_add(b, tw_mul_imm(b, row, N), column), 4);
    for (int i = 0; i < N / 2; i++)
        tw_st(b, (tw_attrs){.type = TW_T_f32, .offset = 4 * (i / 2 % 2 * 8 * N + i / 4 * 8 + i % 2)}, to, &acc[i]);
    if (fault == READS_EARLY) tw_do(b, TW_OP_wgmma_wait, none, TW_NONE, TW_NONE);
}

static tw_kernel *build(int fault, order o) {
    tw_kernel *k = tw_kernel_new("multiply", 90, 160);
    tw_builder builder = tw_builder_of(k), *b = &builder;
    tw_val out = tw_pointer_add(b, "out", 16, false), map_a = tw_map_add(b, "a"), map_b = tw_map_add(b, "b");
    tw_shared_add(b, "tiles", RING * STAGE, 1024, true);
    tw_shared_add(b, "bars", 16 * RING, 8, true);
    tw_val tiles = tw_shared_base(b, "tiles"), bars = tw_shared_base(b, "bars");
    const tw_scope branch = tw_push_if(b, tw_eq(b, tid(b), tw_i32(b, 0)));
    for (int i = 0; i < 2 * RING; i++)
        tw_do(b, TW_OP_mbarrier_init, none, tw_add_imm(b, bars, 8 * i), tw_i32(b, i < RING ? 1 : 4));
    if (fault != NO_INIT_FENCE) tw_do(b, TW_OP_fence_mbarrier_init, none, TW_NONE, TW_NONE);
    tw_pop(b, branch);
    tw_do(b, TW_OP_barrier, none, TW_NONE, TW_NONE);
    const tw_scope roles = tw_push_roles(b, (const int[]){0, 4, 4, 5}, 2);
    consume(b, fault, o, tiles, bars, out);
    tw_next_role(b, roles);
    produce(b, fault, o, map_a, map_b, tiles, bars);
    tw_pop(b, roles);
    return k;
}

/* Small integers, whose sums are exact. */
static int element(int i, int k, int seed) {
    return (i * 7 + k * 5 + i * k * seed) % 9 - 4;
}

static void fill(uint16_t *x, int rows, int columns, int ld, bool across, int seed) {
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < columns; k++)
            x[across ? k * ld + i : i * ld + k] = tw_f32_to_f16((float)element(i, k, seed));
}

static tw_status play_order(int fault, order o, uint64_t seed, bool keep_going, tw_emu_report *r) {
    static uint16_t a[DEPTH * LD_K], x[DEPTH * LD_K];
    float out[M * N];
    tw_diag d;
    tw_emu *e = tw_emu_new();
    tw_kernel *k = build(fault, o);
    const int lda = o.a_across ? M : LD_K, ldb = o.b_across ? 32 : LD_K;
    fill(a, M, DEPTH, lda, o.a_across, 3);
    fill(x, N, DEPTH, ldb, o.b_across, 2);
    const tw_tensor_map map_a = {.address = tw_emu_alloc(e, "A", a, sizeof a, true),
                                 .element = TW_TENSOR_U16,
                                 .dims = 2,
                                 .extent = {o.a_across ? M : DEPTH, o.a_across ? DEPTH : M},
                                 .stride = {0, lda * 2},
                                 .box = {64, 64},
                                 .swizzle = 128};
    const tw_tensor_map map_b = {.address = tw_emu_alloc(e, "B", x, sizeof x, true),
                                 .element = TW_TENSOR_U16,
                                 .dims = 2,
                                 .extent = {o.b_across ? N : DEPTH, o.b_across ? DEPTH : N},
                                 .stride = {0, ldb * 2},
                                 .box = {64, o.b_across ? STAGE_K : N},
                                 .swizzle = 128};
    const uint64_t arguments[3] = {tw_emu_alloc(e, "out", NULL, sizeof out, false), (uint64_t)(uintptr_t)&map_a,
                                   (uint64_t)(uintptr_t)&map_b};
    tw_emu_options options = {.seed = seed, .keep_going = keep_going, .max_operations = 200000};
    tw_status st = tw_emu_launch(e, k, arguments, &options, r, &d);
    if (st != TW_OK && st != TW_ERR_REJECTED) fail_msg("%s", d.message);
    tw_emu_read(e, arguments[0], out, sizeof out);
    for (int i = 0; i < M && st == TW_OK; i++)
        for (int j = 0; j < N; j++) {
            int sum = 0;
            for (int l = 0; l < DEPTH; l++) sum += element(i, l, 3) * element(j, l, 2);
            if (out[i * N + j] != (float)sum)
                fail_msg("order %d%d, seed %d: [%d][%d] is %g, not %d", o.a_across, o.b_across, (int)seed, i, j,
                         (double)out[i * N + j], sum);
        }
    tw_kernel_free(k);
    tw_emu_free(e);
    return st;
}

static const order orders[] = {{false, false}, {false, true}, {true, false}, {true, true}};

static void products_are_right(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        tw_emu_report r;
        if (play_order(0, orders[seed % 4], seed, false, &r) != TW_OK)
            fail_msg("seed %d: %s: %s", (int)seed, tw_emu_rule_name(r.findings[0].rule), r.findings[0].text);
    }
}

static const struct {
    int fault;
    const char *name;
    tw_emu_rule rule;
    const char *words;
} faults[] = {
    {NO_FULL_WAIT, "does not wait for the boxes", TW_EMU_ASYNC, "/wgmma|tiles+|/tensor_load|not waited for"},
    {NO_FENCE, "no wgmma_fence", TW_EMU_ASYNC, "/wgmma|no wgmma_fence"},
    {NO_WAIT, "never waits for a group", TW_EMU_ASYNC, "/tensor_load|tiles+|/wgmma|not waited for"},
    {EARLY_RELEASE, "gives a stage back before its group", TW_EMU_ASYNC, "/tensor_load|tiles+|/wgmma|not waited for"},
    {NO_COMMIT, "never commits", TW_EMU_UNINITIALISED, "/st|variable"},
    {TOO_FEW_BYTES, "expects too few bytes", TW_EMU_MBARRIER, "bars+|128 bytes more have landed"},
    {TOO_MANY_BYTES, "expects too many bytes", TW_EMU_DEADLOCK, "bars+|misses 0 of 1 arrivals, 128 bytes"},
    {NO_EMPTY_WAIT, "overwrites a stage in use", TW_EMU_MBARRIER, "arrives 1 times at bars+|misses 0 of 1"},
    {NO_INIT_FENCE, "no fence after mbarrier_init", TW_EMU_PROXY, "/tensor_load|bars+|fence_mbarrier_init"},
    {GENERIC_WRITE, "multiplies what was stored, unfenced", TW_EMU_PROXY, "/wgmma|tiles+|/st|no fence_proxy"},
    {READS_EARLY, "stores sums before the last group is done", TW_EMU_UNINITIALISED, "/st|variable"},
    {NO_SWIZZLE, "a descriptor without a swizzle", TW_EMU_ALIGNMENT, "/wgmma|descriptor 0"},
    {MISPLACED_BOX, "a box where the swizzle does not begin", TW_EMU_ALIGNMENT, "/tensor_load|not aligned to 1024"},
    {BEYOND_RING, "a box outside of the ring", TW_EMU_BOUNDS, "/tensor_load|tiles"},
    {HALF_A_WARP, "half a warp multiplies", TW_EMU_DIVERGENCE, "/wgmma|lane 16 and 15 more"},
};

static void faults_are_found(void **state) {
    (void)state;
    int missed = 0;
    for (int i = 0; i < COUNT(faults); i++) {
        int hits = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            tw_emu_report r;
            bool found = false;
            play_order(faults[i].fault, orders[seed % 4], seed, true, &r);
            for (int j = 0; j < r.n && !found; j++)
                found = r.findings[j].rule == faults[i].rule && holds_all(r.findings[j].text, faults[i].words);
            hits += found;
            if (!r.n) print_error("%s, seed %d: nothing was found\n", faults[i].name, (int)seed);
            missed += !r.n;
            for (int j = 0; j < r.n && getenv("SHOW") && !found; j++)
                printf("    %d %s: %s\n", (int)seed, tw_emu_rule_name(r.findings[j].rule), r.findings[j].text);
        }
        if (2 * hits < SEEDS) print_error("%s: only %d of %d seeds\n", faults[i].name, hits, SEEDS);
        missed += 2 * hits < SEEDS;
    }
    assert_int_equal(missed, 0);
}

/* What a device would refuse, or fault on, is a finding of the launch. */
static void maps_are_checked(void **state) {
    (void)state;
#define MAP(at, x, y, bytes, row, lines, swizzled)                                                                     \
    {                                                                                                                  \
        .address = (at), .element = TW_TENSOR_U16, .dims = 2, .extent = {x, y}, .stride = {0, bytes},                  \
        .box = {row, lines}, .swizzle = (swizzled)                                                                     \
    }
    static const tw_tensor_map odd[] = {
        MAP(8, 64, 64, 128, 64, 64, 128),    MAP(256, 64, 64, 120, 64, 64, 128), MAP(256, 64, 64, 128, 32, 64, 128),
        MAP(256, 64, 64, 128, 64, 257, 128), MAP(256, 0, 64, 128, 64, 64, 128),  MAP(256, 64, 64, 128, 4, 64, 0),
        MAP(256, 64, 64, 128, 64, 64, 64),
    };
#undef MAP
    for (int i = 0; i < COUNT(odd); i++) {
        tw_emu *e = tw_emu_new();
        tw_kernel *k = build(0, orders[0]);
        const uint64_t arguments[3] = {tw_emu_alloc(e, "out", NULL, 4 * M * N, false), (uint64_t)(uintptr_t)&odd[i],
                                       (uint64_t)(uintptr_t)&odd[i]};
        tw_emu_report r;
        tw_diag d;
        assert_int_equal(tw_emu_launch(e, k, arguments, NULL, &r, &d), TW_ERR_REJECTED);
        assert_int_equal(r.findings[0].rule, TW_EMU_ALIGNMENT);
        assert_non_null(strstr(r.findings[0].text, "argument a is no tensor map"));
        tw_kernel_free(k);
        tw_emu_free(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_right), cmocka_unit_test(faults_are_found),
                                       cmocka_unit_test(maps_are_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
