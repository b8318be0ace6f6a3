/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of a launch fails once. */
#include "support/alloc_fail.h"

#include "emu/emu_test.h"

/* A bit of everything that allocates: copies, barriers, mbarriers, flags, fences, lanes that act alone. */
static void build(tw_builder *b, tw_val in, tw_val out, tw_val aux) {
    const tw_attrs none = {0}, gpu = {I32, .order = TW_ORDER_release, .scope = TW_SCOPE_gpu};
    tw_shared_add(b, "tile", 512, 16, true);
    tw_shared_add(b, "full", 8, 8, false);
    tw_val t = tid(b), tile = tw_shared_base(b, "tile"), full = tw_shared_base(b, "full");
    tw_val v = tw_var(b, TW_T_i32);
    tw_assign(b, v, t);
    const tw_scope if_t_0 = tw_push_if(b, tw_eq(b, t, tw_i32(b, 0)));
    tw_do(b, TW_OP_mbarrier_init, none, full, tw_i32(b, 1));
    tw_do(b, TW_OP_fence_mbarrier_init, none, TW_NONE, TW_NONE);
    tw_pop(b, if_t_0);
    tw_do(b, TW_OP_barrier, none, TW_NONE, TW_NONE);
    const tw_scope if_t_02 = tw_push_if(b, tw_eq(b, t, tw_i32(b, 0)));
    tw_do(b, TW_OP_mbarrier_expect, none, full, tw_i32(b, 256));
    tw_val bulk[4] = {tile, in, tw_i32(b, 256), full};
    tw_emit(b, TW_OP_bulk_load, none, NULL, NULL, 0, bulk, 4);
    tw_pop(b, if_t_02);
    tw_cp_async(b, (tw_attrs){.bytes = 4, .offset = 256}, at32(b, tile, t, 4), at64(b, in, t, 4), TW_NONE);
    tw_do(b, TW_OP_cp_async_commit, none, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_cp_async_wait, none, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_mbarrier_wait, none, full, tw_i32(b, 0));
    tw_do(b, TW_OP_barrier, none, TW_NONE, TW_NONE);
    tw_val at = at32(b, tile, tw_xor(b, v, tw_i32(b, 5)), 4);
    tw_val x = tw_ld(b, (tw_attrs){F32, SHARED}, at), y = tw_ld(b, (tw_attrs){F32, SHARED, .offset = 256}, at);
    store(b, (tw_attrs){F32}, at64(b, out, t, 4), tw_add(b, x, y));
    const tw_scope branch = tw_push_if(b, tw_eq(b, tw_rem(b, t, 32), tw_i32(b, 3)));
    tw_do(b, TW_OP_fence, (tw_attrs){.order = TW_ORDER_acq_rel, .scope = TW_SCOPE_gpu}, TW_NONE, TW_NONE);
    tw_red(b, gpu, aux, (tw_val[]){tw_i32(b, 1)});
    tw_pop(b, branch);
}

static int launch(void *context) {
    (void)context;
    float in[64], out[64];
    int32_t zeros[64] = {0};
    for (int i = 0; i < 64; i++) in[i] = (float)i;
    tw_kernel *k = tw_kernel_new("all", 90, 64);
    tw_emu *e = tw_emu_new();
    int failed = 1;
    if (k && e) {
        tw_builder b = tw_builder_of(k);
        tw_val p = tw_pointer_add(&b, "in", 16, true), q = tw_pointer_add(&b, "out", 16, false);
        tw_val r = tw_pointer_add(&b, "aux", 16, false);
        if (!tw_kernel_failed(k)) build(&b, p, q, r);
        uint64_t a[3] = {tw_emu_alloc(e, "in", in, sizeof in, true), tw_emu_alloc(e, "out", NULL, sizeof out, false),
                         tw_emu_alloc(e, "aux", zeros, sizeof zeros, false)};
        tw_emu_report report;
        tw_diag d;
        if (!tw_kernel_failed(k) && a[0] && a[1] && a[2]) {
            tw_status st = tw_emu_launch(e, k, a, &(tw_emu_options){.seed = 4}, &report, &d);
            failed = st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
            if (failed == 0 && (!tw_emu_read(e, a[1], out, sizeof out) || out[3] != 12)) failed = 3;
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
