/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of a launch that is observed fails once. */
#include "support/alloc_fail.h"

#include "emu/emu_test.h"
#include "prof/memory.h"

static int launch(void *context) {
    (void)context;
    static uint8_t zeros[1024];
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new("copy", 90, 32);
    tw_prof_memory *m = tw_prof_memory_new();
    int failed = 1;
    if (e && k && m) {
        tw_builder b = tw_builder_of(k);
        tw_val in = tw_pointer_add(&b, "in", 16, true), out = tw_pointer_add(&b, "out", 16, false);
        tw_shared_add(&b, "tile", 256, 16, false);
        if (!tw_kernel_failed(k)) {
            tw_val t = tid(&b), tile = at32(&b, tw_shared_base(&b, "tile"), t, 8);
            store(&b, (tw_attrs){I32, SHARED}, tile, tw_ld(&b, (tw_attrs){I32}, at64(&b, in, t, 8)));
            store(&b, (tw_attrs){I32}, at64(&b, out, t, 4), tw_ld(&b, (tw_attrs){I32, SHARED}, tile));
        }
        uint64_t a[2] = {tw_emu_alloc(e, "in", zeros, sizeof zeros, true),
                         tw_emu_alloc(e, "out", zeros, sizeof zeros, false)};
        tw_emu_report report;
        tw_diag d;
        tw_status st = TW_ERR_MEMORY;
        if (!tw_kernel_failed(k) && a[0] && a[1]) {
            const tw_emu_options o = {.observer = tw_prof_memory_observe, .observer_context = m};
            st = tw_emu_launch(e, k, a, &o, &report, &d);
        }
        tw_prof_memory_report r;
        if (st == TW_OK && (st = tw_prof_memory_finish(m, &r, &d)) == TW_OK) {
            tw_buf text = {0};
            if (!tw_prof_memory_lines(&r, 0, &text)) st = TW_ERR_MEMORY;
            tw_buf_free(&text);
            if (r.n_sites != 4 || r.n_objects != 3) st = TW_ERR_MISMATCH;
            tw_prof_memory_report_free(&r);
        }
        failed = st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
    }
    tw_prof_memory_free(m);
    tw_kernel_free(k);
    tw_emu_free(e);
    return failed;
}

static void an_observed_launch_survives_every_failure(void **state) {
    (void)state;
    alloc_fail_exhaust(launch, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_observed_launch_survives_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
