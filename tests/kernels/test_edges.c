/* SPDX-License-Identifier: Apache-2.0 */
/* Edges between blocks, alone: what one block writes reaches the other by a counter, or by data that is its own flag.
 */
#include "emu/emu_test.h"
#include "kernels/parts/flag.h"

#include <math.h>

enum { N = 64, TAG = 5, SLOW = 40, SPECIAL = 6, SPECIAL_NAN = 4 /* The first four are NaNs. */ };

static const tw_attrs f32_global = {F32};

static void sleep(void *context, tw_val seen) {
    (void)seen;
    tw_do(context, TW_OP_nanosleep, (tw_attrs){0}, tw_i32(context, 20), TW_NONE);
}

static tw_patience endless(tw_builder *b) {
    return (tw_patience){.between = sleep, .context = b};
}

static tw_val is_first_block(tw_builder *b) {
    return tw_eq(b, tw_sreg(b, TW_SREG_ctaid_x), tw_i32(b, 0));
}

/* What takes the writing block longer than the other takes to look for the first time. */
static void dawdle(tw_builder *b, tw_val aux) {
    const tw_scope loop = tw_push_for(b, tw_i32(b, 0), tw_i32(b, SLOW), tw_i32(b, 1), false);
    store(b, (tw_attrs){I32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_gpu}, tw_add_imm(b, aux, 2048), loop.i);
    tw_pop(b, loop);
}

static float sevens(int i) {
    return (float)(i ^ 7);
}

/* ---- counters: `by` of three ways */

enum { ADDED, BY_SET, UNPUBLISHED };

static void build_counter(tw_builder *b, int by, tw_val in, tw_val out, tw_val aux) {
    tw_val t = tid(b), lead = tw_eq(b, t, tw_i32(b, 0)), data = tw_add_imm(b, aux, 4096);
    const tw_patience patience = endless(b);
    const tw_scope branch = tw_push_if(b, is_first_block(b));
    dawdle(b, aux);
    store(b, f32_global, at64(b, data, t, 4), tw_ld(b, f32_global, at64(b, in, t, 4)));
    tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
    const tw_scope counts = tw_push_if(b, lead);
    if (by == BY_SET)
        tw_counter_set(b, aux, tw_i32(b, 3));
    else
        for (int i = 0; i < 3; i++) tw_counter_add(b, aux, by == ADDED);
    tw_pop(b, counts);
    tw_push_else(b, branch);
    const tw_scope waits = tw_push_if(b, lead);
    tw_counter_poll(b, &(tw_counter_wait){aux, tw_i32(b, 3), by == BY_SET, TW_NONE, &patience});
    tw_pop(b, waits);
    tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_val x = tw_ld(b, f32_global, at64(b, data, tw_xor(b, t, tw_i32(b, 7)), 4));
    store(b, f32_global, at64(b, out, t, 4), x);
    tw_pop(b, branch);
}

static void build_set(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)fault;
    build_counter(b, BY_SET, in, out, aux);
}

static void counters_publish(void **state) {
    (void)state;
    static const scene added = {"added", N, 2, 1, true, build_counter, sevens, N};
    static const scene set = {"set", N, 2, 1, true, build_set, sevens, N};
    plays_clean(&added);
    plays_clean(&set);
    assert_true(is_caught(&(planted){&added, UNPUBLISHED, "an arrival that publishes nothing", TW_EMU_RACE, "aux"}));
}

/* ---- data that is its own flag: values arrive with 28 bits, and no tag */

static float tenths(int i) {
    return (float)i / 10 + 1;
}

/* To the nearest of 28 bits; a half goes away from zero. The NaNs of a GPU and of an x86, and infinities, stay what
   they are; of a NaN the test looks at `v != v`. */
static float rounded(int i) {
    const int k = i / 4 * 4 + (3 - i % 4);
    if (k < SPECIAL) return k < SPECIAL_NAN ? -1 : k & 1 ? INFINITY : -INFINITY;
    const float x = tenths(k);
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits = (bits + 8) & ~15u;
    float y;
    memcpy(&y, &bits, 4);
    return y;
}

static void build_flagged(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)fault;
    tw_val t = tid(b), data = tw_add_imm(b, aux, 4096), tag = tw_i32(b, TAG);
    const tw_patience patience = endless(b);
    const tw_scope branch = tw_push_if(b, is_first_block(b));
    dawdle(b, aux);
    tw_val x = tw_ld(b, f32_global, at64(b, in, t, 4));
    x = tw_add(b, tw_binary(b, TW_OP_div_f32, x, tw_f32(b, 10)), tw_f32(b, 1));
    static const int32_t special[SPECIAL] = {0x7fffffff, -1, 0x7fc00000, 0x7f800001, (int32_t)0xff800000, 0x7f800000};
    for (int i = 0; i < SPECIAL; i++)
        x = tw_select(b, tw_eq(b, t, tw_i32(b, i)), tw_bitcast(b, TW_T_f32, tw_i32(b, special[i])), x);
    tw_flag_store(b, at64(b, data, t, 4), x, tag);
    tw_push_else(b, branch);
    tw_flag_words w = {.width = 4, .tag = tag, .at = {at64(b, data, t, 16)}};
    w.there[0] = tw_lt(b, t, tw_i32(b, N / 4));
    tw_flag_poll(b, &w, 1, &patience);
    const tw_scope there = tw_push_if(b, w.there[0]);
    for (int e = 0; e < 4; e++) {
        tw_val v = tw_flag_value(b, &w, 0, e);
        v = tw_select(b, tw_ne(b, v, v), tw_f32(b, -1), v);
        store(b, (tw_attrs){F32, .offset = 4 * (3 - e)}, at64(b, out, t, 16), v);
    }
    tw_pop(b, there);
    tw_pop(b, branch);
}

static void data_is_its_own_flag(void **state) {
    (void)state;
    static const scene flagged = {"flagged", N, 2, 1, true, build_flagged, rounded, N};
    plays_clean(&flagged);
}

/* ---- patience: a thread that gave up waits no longer, and says what it saw */

enum { LOOKS = 9 };

typedef struct giving_up {
    tw_builder *b;
    tw_val looks, gave_up;
} giving_up;

static void count(void *context, tw_val seen) {
    const giving_up *g = context;
    tw_builder *b = g->b;
    tw_op_to(b, g->looks, TW_OP_add_i32, g->looks, tw_add_imm(b, seen, 1), TW_NONE);
    tw_assign(b, g->gave_up, tw_select(b, tw_le(b, tw_i32(b, LOOKS), g->looks), tw_i32(b, 1), tw_i32(b, 0)));
}

static void build_giving_up(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)fault, (void)in;
    giving_up g = {b, tw_var_of(b, tw_i32(b, 0)), tw_var_of(b, tw_i32(b, 0))};
    const tw_patience patience = {count, &g, g.gave_up};
    tw_val t = tid(b);
    const tw_scope first = tw_push_if(b, tw_eq(b, t, tw_i32(b, 0)));
    tw_counter_poll(b, &(tw_counter_wait){aux, tw_i32(b, 1), false, TW_NONE, &patience});
    store(b, f32_global, out, tw_unary(b, TW_OP_cvt_f32_s32, g.looks));
    tw_assign(b, g.looks, tw_i32(b, 0));
    tw_assign(b, g.gave_up, tw_i32(b, 0));
    tw_flag_words w = {.width = 1, .tag = tw_i32(b, TAG), .at = {tw_add_imm(b, aux, 64)}};
    w.there[0] = tw_eq(b, t, tw_i32(b, 0));
    tw_flag_poll(b, &w, 1, &patience);
    store(b, (tw_attrs){F32, .offset = 4}, out, tw_unary(b, TW_OP_cvt_f32_s32, g.looks));
    tw_pop(b, first);
}

static float looks(int i) {
    (void)i;
    return LOOKS;
}

static void a_thread_gives_up(void **state) {
    (void)state;
    static const scene giving = {"giving up", 32, 1, 1, false, build_giving_up, looks, 2};
    plays_clean(&giving);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counters_publish), cmocka_unit_test(data_is_its_own_flag),
                                       cmocka_unit_test(a_thread_gives_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
