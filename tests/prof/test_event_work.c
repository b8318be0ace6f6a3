/* SPDX-License-Identifier: Apache-2.0 */
/* The work of recorded events, in kernels written by hand. */
#include "support/support.h"

#include "device/cuda/cuda.h"
#include "ir/builder.h"
#include "prof/trace.h"
#include "prof/work.h"

#include <string.h>

typedef struct hand {
    tw_kernel *k;
    tw_builder b;
    tw_val in, n; /* Parameters: a pointer to global memory, and an i32. */
} hand;

static void begin(hand *h) {
    h->k = tw_kernel_new("work", 90, 128);
    h->b = tw_builder_of(h->k);
    h->in = tw_pointer_add(&h->b, "in", 16, false);
    h->n = tw_parameter_add(&h->b, "n", TW_T_i32);
}

/* Returns the work of the n-th record in the kernel's body that is no end of a region. */
static tw_prof_work work_of(const hand *h, int n, int warps) {
    for (const tw_ir_op *op = h->k->body.first; op; op = op->next)
        if (tw_is_record(op) && op->code != TW_OP_record_end && !n--) return tw_prof_work_of(h->k, op, warps);
    fail_msg("no such record");
    return (tw_prof_work){0};
}

static void is(tw_prof_work x, double flops, double bytes) {
    if (x.flops != flops || x.bytes != bytes) fail_msg("%g operations, %g bytes", x.flops, x.bytes);
}

static void add(hand *h, tw_val sum) {
    tw_op_to(&h->b, sum, TW_OP_fma_f32, sum, sum, sum);
}

static void load(hand *h, int vec) {
    tw_val x[4];
    tw_ld_vec(&h->b, (tw_attrs){.type = TW_T_f32, .vec = vec}, h->in, x);
}

static void regions_count_loops_and_the_larger_branch(void **state) {
    (void)state;
    hand h;
    begin(&h);
    tw_builder *b = &h.b;
    tw_val sum = tw_var_of(b, tw_f32(b, 0));
    add(&h, sum);
    tw_record_begin(b, "all", TW_ENGINE_OF_alu);
    TW_FOR (b, i, tw_i32(b, 1), tw_i32(b, 8), tw_i32(b, 2), false) {
        add(&h, sum);
        TW_FOR (b, j, tw_i32(b, 0), tw_i32(b, 3), tw_i32(b, 1), false) load(&h, 4);
    }
    tw_record_begin(b, "branch", TW_ENGINE_OF_memory);
    TW_IF (b, tw_lt(b, h.n, tw_i32(b, 5))) {
        load(&h, 1);
    } else {
        load(&h, 2);
    }
    tw_record_end(b, "branch");
    add(&h, sum);
    tw_record_end(b, "all");
    add(&h, sum);
    /* The outer loop runs 4 times, the inner one 12 times. An fma has two operations. */
    is(work_of(&h, 0, 1), 5 * 2 * 32, (12 * 16 + 8) * 32);
    is(work_of(&h, 0, 4), 5 * 2 * 128, (12 * 16 + 8) * 128);
    is(work_of(&h, 1, 1), 0, 8 * 32);
    tw_kernel_free(h.k);
}

static void unknown_loops_have_no_work(void **state) {
    (void)state;
    hand h;
    begin(&h);
    tw_builder *b = &h.b;
    tw_val sum = tw_var_of(b, tw_f32(b, 0));
    tw_record_begin(b, "some", TW_ENGINE_OF_alu);
    add(&h, sum);
    TW_FOR (b, i, tw_i32(b, 0), h.n, tw_i32(b, 1), false) add(&h, sum);
    tw_record_end(b, "some");
    tw_record_begin(b, "idle", TW_ENGINE_OF_alu);
    add(&h, sum);
    TW_FOR (b, i, tw_i32(b, 0), h.n, tw_i32(b, 1), false) tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_record_end(b, "idle");
    tw_record_wait(b, "channel", TW_ENGINE_OF_copy, 0);
    load(&h, 4);
    tw_record_end(b, "channel");
    is(work_of(&h, 0, 1), 0, 0);
    assert_true(work_of(&h, 0, 1).unknown && !work_of(&h, 1, 1).unknown && !work_of(&h, 2, 1).unknown);
    /* A loop without work may have unknown bounds. */
    is(work_of(&h, 1, 1), 64, 0);
    is(work_of(&h, 2, 1), 0, 0);
    tw_kernel_free(h.k);
}

static void copies_are_those_of_their_group(void **state) {
    (void)state;
    hand h;
    begin(&h);
    tw_builder *b = &h.b;
    tw_shared_add(b, "tile", 4096, 128, false);
    tw_val tile = tw_shared_base(b, "tile");
    const tw_attrs how = {.bytes = 16};
    for (int group = 1; group <= 2; group++) {
        load(&h, 4);
        for (int i = 0; i < group; i++) tw_cp_async(b, how, tile, h.in, TW_NONE);
        tw_record_arrive(b, "copies", TW_ARRIVAL_own, TW_ENGINE_OF_copy);
        tw_do(b, TW_OP_cp_async_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
    }
    tw_record_arrive(b, "full", TW_ARRIVAL_later, TW_ENGINE_OF_copy);
    tw_do(b, TW_OP_mbarrier_expect, (tw_attrs){0}, tile, tw_i32(b, 4096));
    tw_do(b, TW_OP_mbarrier_expect, (tw_attrs){0}, tile, tw_i32(b, 1024));
    tw_record_arrive(b, "full", TW_ARRIVAL_later, TW_ENGINE_OF_copy);
    tw_do(b, TW_OP_mbarrier_expect, (tw_attrs){0}, tile, h.n);
    tw_record_arrive(b, "empty", TW_ARRIVAL_now, TW_ENGINE_OF_sync);
    is(work_of(&h, 0, 4), 0, 16 * 128);
    is(work_of(&h, 1, 4), 0, 2 * 16 * 128);
    is(work_of(&h, 2, 4), 0, 5120);
    is(work_of(&h, 3, 4), 0, 0);
    assert_true(work_of(&h, 3, 4).unknown);
    is(work_of(&h, 4, 4), 0, 0);
    tw_kernel_free(h.k);
}

static void peaks_come_from_clocks(void **state) {
    (void)state;
    const tw_cuda_info h200 = {
        .sm = 90, .sms = 132, .clock_khz = 1980000, .memory_clock_khz = 3201000, .memory_bus_bits = 6144};
    tw_trace *t = tw_trace_new("a", "b", "ns");
    tw_trace_set_peaks(t, &h200);
    assert_int_equal(t->peaks.sms, 132);
    assert_true(t->peaks.flops > 1.07e15 && t->peaks.flops < 1.071e15);
    assert_true(t->peaks.bandwidth > 4.91e12 && t->peaks.bandwidth < 4.92e12);
    tw_trace_set_peaks(t, &(tw_cuda_info){.sm = 70, .sms = 80, .clock_khz = 1500000});
    assert_true(t->peaks.flops == 0 && t->peaks.bandwidth == 0);
    tw_trace_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_count_loops_and_the_larger_branch), cmocka_unit_test(unknown_loops_have_no_work),
        cmocka_unit_test(copies_are_those_of_their_group), cmocka_unit_test(peaks_come_from_clocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
