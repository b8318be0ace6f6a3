/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of a launch in clusters fails once. */
#include "support/alloc_fail.h"

#include "emu/emu_test.h"

static void meet(tw_builder *b) {
    tw_do(b, TW_OP_cluster_sync, (tw_attrs){0}, TW_NONE, TW_NONE);
}

/* What a block gets from the next one: by meeting, by a release, and by a fence. */
static void build(tw_builder *b, tw_val out) {
    const tw_attrs cell = {I32, SHARED}, far = {I32, .space = TW_SPACE_cluster};
    tw_shared_add(b, "row", 4 * 40, 16, true);
    tw_shared_add(b, "flag", 4, 4, false);
    tw_val t = tid(b), row = tw_shared_base(b, "row"), flag = tw_shared_base(b, "flag");
    tw_val rank = tw_sreg(b, TW_SREG_cluster_rank), lead = tw_eq(b, t, tw_i32(b, 3)), mine = at32(b, row, t, 4);
    tw_val next = tw_eq(b, rank, tw_i32(b, 0)), there = tw_select(b, next, tw_i32(b, 1), tw_i32(b, 0));
    store(b, cell, mine, tw_add(b, t, rank));
    tw_when(b, lead);
    store(b, cell, flag, tw_i32(b, 0));
    meet(b);
    tw_val from = tw_get(b, TW_OP_cluster_address, (tw_attrs){0}, TW_T_i32, row, there);
    tw_val raise = tw_get(b, TW_OP_cluster_address, (tw_attrs){0}, TW_T_i32, flag, there);
    tw_val x = tw_ld(b, far, at32(b, from, t, 4));
    const tw_scope if_lead = tw_push_if(b, lead);
    tw_attrs release = far, relaxed = cell;
    release.order = TW_ORDER_release;
    relaxed.order = TW_ORDER_relaxed;
    release.scope = relaxed.scope = TW_SCOPE_cluster;
    tw_red(b, release, raise, (tw_val[]){tw_i32(b, 1)});
    tw_ld(b, relaxed, flag);
    tw_do(b, TW_OP_fence, (tw_attrs){.order = TW_ORDER_acq_rel, .scope = TW_SCOPE_cluster}, TW_NONE, TW_NONE);
    tw_pop(b, if_lead);
    meet(b);
    tw_val place = tw_fma(b, tw_sreg(b, TW_SREG_ctaid_x), tw_i32(b, 40), t);
    store(b, (tw_attrs){I32}, at64(b, out, place, 4), x);
}

static int launch(void *context) {
    (void)context;
    int32_t out[160] = {0};
    tw_kernel *k = tw_kernel_new("clusters", 90, 40);
    tw_emu *e = tw_emu_new();
    int failed = 1;
    if (k && e) {
        tw_builder b = tw_builder_of(k);
        tw_val p = tw_pointer_add(&b, "out", 16, false);
        k->cluster = 2;
        if (!tw_kernel_failed(k)) build(&b, p);
        uint64_t a = tw_emu_alloc(e, "out", NULL, sizeof out, false);
        tw_emu_report report;
        tw_diag d;
        if (!tw_kernel_failed(k) && a) {
            tw_status st = tw_emu_launch(e, k, &a, &(tw_emu_options){.seed = 4, .grid = {4}}, &report, &d);
            failed = st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
            if (failed == 0 && (!tw_emu_read(e, a, out, sizeof out) || out[7] != 8 || out[47] != 7)) failed = 3;
        }
    }
    tw_emu_free(e);
    tw_kernel_free(k);
    return failed;
}

static void a_launch_survives_every_failure(void **state) {
    (void)state;
    alloc_fail_exhaust(launch, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_launch_survives_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
