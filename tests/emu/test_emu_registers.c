/* SPDX-License-Identifier: Apache-2.0 */
/* Registers that change hands within a block (setmaxnreg), and launches that overlap (griddep_wait): right, and with
   one fault at a time. */
#include "emu/emu_test.h"

#include "emu/on_device.h"
#include "ir/verify.h"

static const tw_attrs none = {0};
static const tw_attrs f32 = {.type = TW_T_f32};

/* -- a warpgroup that gives registers back, and two that take them */

enum {
    NEVER_GIVEN = 1,
    TOO_MANY,
    RISES_DOWN,
    FALLS_UP,
    HALF_A_WARP,
    THREE_WARPS,
    OTHER_ORDER,
    GIVEN_TWICE, /* no fault */
};

static void change(tw_builder *b, bool more, int count) {
    tw_do(b, more ? TW_OP_setmaxnreg_inc : TW_OP_setmaxnreg_dec, (tw_attrs){.count = count}, TW_NONE, TW_NONE);
}

/* 3 * 128 registers: 24 + 2 * 176 are fewer, 24 + 2 * 184 are more. */
static tw_kernel *build_registers(int fault) {
    tw_kernel *k = tw_kernel_new("registers", 90, 384);
    k->max_registers = 128;
    tw_builder builder = tw_builder_of(k), *b = &builder;
    tw_val out = tw_pointer_add(b, "out", 4, false), warp = tw_sreg(b, TW_SREG_warpid);
    const tw_scope roles = tw_push_roles(b, (const int[]){0, 4, 4, 12}, 2);
    if (fault == GIVEN_TWICE) change(b, false, 64);
    tw_scope branch = {0};
    if (fault == THREE_WARPS) branch = tw_push_if(b, tw_lt(b, warp, tw_i32(b, 3)));
    if (fault == OTHER_ORDER) {
        const tw_scope branch2 = tw_push_if(b, tw_lt(b, warp, tw_i32(b, 1)));
        change(b, false, 24);
        tw_push_else(b, branch2);
        change(b, false, 24);
        tw_pop(b, branch2);
    } else if (fault != NEVER_GIVEN) {
        change(b, fault == RISES_DOWN, fault == FALLS_UP ? 136 : 24);
    }
    if (fault == THREE_WARPS) tw_pop(b, branch);
    tw_next_role(b, roles);
    tw_scope branch3 = {0};
    if (fault == HALF_A_WARP) branch3 = tw_push_if(b, tw_lt(b, tw_sreg(b, TW_SREG_laneid), tw_i32(b, 16)));
    change(b, true, fault == TOO_MANY ? 184 : 176);
    if (fault == HALF_A_WARP) tw_pop(b, branch3);
    tw_val thread = tw_fma(b, tw_sreg(b, TW_SREG_ctaid_x), tw_i32(b, 384), tid(b));
    store(b, (tw_attrs){.type = TW_T_i32}, at64(b, out, thread, 4), warp);
    tw_pop(b, roles);
    return k;
}

static const struct {
    int fault;
    const char *name;
    tw_emu_rule rule;
    const char *words;
} register_faults[] = {
    {NEVER_GIVEN, "nobody gives registers back", TW_EMU_DEADLOCK,
     "warps 4-11|setmaxnreg_inc|wants 48 registers a thread more, and 0 are free"},
    {TOO_MANY, "more are taken than given", TW_EMU_DEADLOCK, "setmaxnreg_inc|wants 56 registers a thread more, and "},
    {RISES_DOWN, "rises to fewer", TW_EMU_REGISTERS, "setmaxnreg_inc|rises to 24 registers a thread, but has 128"},
    {FALLS_UP, "falls to more", TW_EMU_REGISTERS, "setmaxnreg_dec|falls to 136 registers a thread, but has 128"},
    {HALF_A_WARP, "half a warp", TW_EMU_DIVERGENCE, "setmaxnreg_inc|lane 16 and 15 more"},
    {THREE_WARPS, "three warps of a warpgroup", TW_EMU_DEADLOCK, "setmaxnreg_inc|wants 48 registers"},
    {OTHER_ORDER, "a warpgroup in two minds", TW_EMU_DIVERGENCE, "a warp of its warpgroup came to |setmaxnreg_dec"},
};

static tw_status play_registers(int fault, uint64_t seed, tw_emu_report *r) {
    tw_emu *e = tw_emu_new();
    tw_kernel *k = build_registers(fault);
    tw_diag d;
    if (tw_kernel_verify(k, 90, &d) != TW_OK) fail_msg("%s", d.message);
    const uint64_t arguments[] = {tw_emu_alloc(e, "out", NULL, 3 * 384 * 4, false)};
    const tw_emu_options o = {.seed = seed, .grid = {3}, .keep_going = true};
    tw_status st = tw_emu_launch(e, k, arguments, &o, r, &d);
    tw_kernel_free(k);
    tw_emu_free(e);
    return st;
}

static void registers_change_hands(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        tw_emu_report r;
        if (play_registers(seed % 2 ? GIVEN_TWICE : 0, seed, &r) != TW_OK)
            fail_msg("seed %d: %s", (int)seed, r.findings[0].text);
    }
    for (int i = 0; i < COUNT(register_faults); i++)
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            tw_emu_report r;
            bool found = false;
            play_registers(register_faults[i].fault, seed, &r);
            for (int j = 0; j < r.n && !found; j++)
                found = r.findings[j].rule == register_faults[i].rule &&
                        holds_all(r.findings[j].text, register_faults[i].words);
            if (!found)
                fail_msg("%s, seed %d: %s", register_faults[i].name, (int)seed, r.n ? r.findings[0].text : "nothing");
        }
}

/* The same on a device: nobody waits for ever. */
static void a_device_agrees(void **state) {
    (void)state;
    tw_cuda *c = gpu_open(90);
    uint32_t out[3 * 384] = {0};
    tw_diag d;
    if (!c) skip();
    tw_kernel *k = build_registers(GIVEN_TWICE);
    const uint64_t to[] = {gpu_upload(c, out, sizeof out)};
    gpu_run(c, k, 3, to);
    fine(tw_cuda_download(c, out, to[0], sizeof out, &d), &d);
    for (int i = 0; i < 3 * 384; i++) assert_int_equal(out[i], i % 384 < 128 ? 0 : i % 384 / 32);
    tw_cuda_release(c, to[0]);
    tw_kernel_free(k);
    tw_cuda_close(c);
}

/* Warps of a group that part after others have gone on. */
static void a_warp_that_stays_behind_is_named(void **state) {
    (void)state;
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new("behind", 90, 128);
    k->max_registers = 64;
    tw_builder b = tw_builder_of(k);
    const tw_scope branch = tw_push_if(&b, tw_lt(&b, tw_sreg(&b, TW_SREG_warpid), tw_i32(&b, 2)));
    change(&b, false, 40);
    tw_pop(&b, branch);
    tw_emu_report r;
    tw_diag d;
    assert_int_equal(tw_emu_launch(e, k, NULL, NULL, &r, &d), TW_ERR_REJECTED);
    assert_int_equal(r.findings[0].rule, TW_EMU_DIVERGENCE);
    assert_non_null(
        strstr(r.findings[0].text, "setmaxnreg_dec 0, block 0 warp 2: a warp of the warpgroup never comes"));
    tw_kernel_free(k);
    tw_emu_free(e);
}

/* -- a launch that begins before the last is over: out[t] = in[t] + 1 */

enum { NO_GRIDDEP_WAIT = 1, READS_TOO_EARLY, WRITES_TOO_EARLY, COPIES_TOO_EARLY, NO_BARRIER };

static tw_status play_overlap(int fault, bool overlaps, uint64_t seed, tw_emu_report *r) {
    float data[64], out[64];
    for (int i = 0; i < 64; i++) data[i] = (float)i;
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new("next", 90, 64);
    tw_builder builder = tw_builder_of(k), *b = &builder;
    tw_val weights = tw_pointer_add(b, "weights", 16, true), in = tw_pointer_add(b, "in", 16, false);
    tw_val to = tw_pointer_add(b, "out", 16, false);
    tw_shared_add(b, "tile", 256, 16, false);
    tw_val t = tid(b), lead = tw_eq(b, t, tw_i32(b, 0)), tile = tw_shared_base(b, "tile");
    tw_val one = tw_ld(b, f32, tw_add_imm(b, weights, 4)), x = TW_NONE;
    if (fault == READS_TOO_EARLY) x = tw_ld(b, f32, at64(b, in, t, 4));
    if (fault == WRITES_TOO_EARLY) store(b, f32, at64(b, to, t, 4), one);
    if (fault == COPIES_TOO_EARLY)
        tw_cp_async(b, (tw_attrs){.bytes = 4}, at32(b, tile, t, 4), at64(b, in, t, 4), TW_NONE);
    if (fault == COPIES_TOO_EARLY) tw_do(b, TW_OP_cp_async_commit, none, TW_NONE, TW_NONE);
    if (fault == COPIES_TOO_EARLY) tw_do(b, TW_OP_cp_async_wait, none, TW_NONE, TW_NONE);
    const tw_scope if_lead = tw_push_if(b, lead);
    if (fault != NO_GRIDDEP_WAIT) tw_do(b, TW_OP_griddep_wait, none, TW_NONE, TW_NONE);
    tw_pop(b, if_lead);
    if (fault != NO_BARRIER) tw_do(b, TW_OP_barrier, none, TW_NONE, TW_NONE);
    if (!x.id) x = tw_ld(b, f32, at64(b, in, t, 4));
    store(b, f32, at64(b, to, t, 4), tw_add(b, x, one));
    tw_do(b, TW_OP_griddep_launch, none, TW_NONE, TW_NONE);
    const uint64_t arguments[] = {tw_emu_alloc(e, "weights", data, sizeof data, true),
                                  tw_emu_alloc(e, "in", data, sizeof data, false),
                                  tw_emu_alloc(e, "out", NULL, sizeof out, false)};
    const tw_emu_options o = {.seed = seed, .overlaps = overlaps, .keep_going = true};
    tw_diag d;
    if (tw_kernel_verify(k, 90, &d) != TW_OK) fail_msg("%s", d.message);
    tw_status st = tw_emu_launch(e, k, arguments, &o, r, &d);
    tw_emu_read(e, arguments[2], out, sizeof out);
    for (int i = 0; i < 64 && st == TW_OK; i++) assert_true(out[i] == (float)(i + 1));
    tw_kernel_free(k);
    tw_emu_free(e);
    return st;
}

static void what_overlaps_is_waited_for(void **state) {
    (void)state;
    static const char *const words[] = {
        [NO_GRIDDEP_WAIT] = "/ld|reads in+|the launch before may still use: no griddep_wait",
        [READS_TOO_EARLY] = "/ld|reads in+|the launch before",
        [WRITES_TOO_EARLY] = "/st|writes out+|the launch before",
        [COPIES_TOO_EARLY] = "/cp_async|reads in+|the launch before",
        [NO_BARRIER] = "/ld|reads in+|the launch before",
    };
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        tw_emu_report r;
        if (play_overlap(0, true, seed, &r) != TW_OK) fail_msg("%s", r.findings[0].text);
        if (play_overlap(NO_GRIDDEP_WAIT, false, seed, &r) != TW_OK) fail_msg("%s", r.findings[0].text);
        for (int fault = 1; fault < COUNT(words); fault++) {
            bool found = false;
            play_overlap(fault, true, seed, &r);
            for (int j = 0; j < r.n && !found; j++)
                found = r.findings[j].rule == TW_EMU_RACE && holds_all(r.findings[j].text, words[fault]);
            if (!found) fail_msg("%d, seed %d: %s", fault, (int)seed, r.n ? r.findings[0].text : "nothing");
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(registers_change_hands), cmocka_unit_test(a_device_agrees),
                                       cmocka_unit_test(a_warp_that_stays_behind_is_named),
                                       cmocka_unit_test(what_overlaps_is_waited_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
