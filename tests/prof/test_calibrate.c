/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that a record's cost is measured by. That they are measured right takes a GPU. */
#include "support/support.h"

#include "ir/passes/passes.h"
#include "prof/calibrate.h"

/* Passes leave all marks, so that the kernel has as many in an iteration as was asked for. */
static void kernels_have_their_marks(void **state) {
    (void)state;
    for (int between = 0; between < TW_PROF_BETWEENS; between++)
        for (int marks = 1; marks <= 13; marks += 3) {
            tw_prof_layout l;
            tw_diag d;
            tw_kernel *k = tw_prof_calibration_kernel(90, (tw_prof_between)between, marks);
            assert_non_null(k);
            if (tw_pipeline_default(k, true, &d) != TW_OK) fail_msg("%s", d.message);
            if (tw_prof_lower(k, &(tw_prof_options){.shared_bytes = 32768}, &l, &d) != TW_OK) fail_msg("%s", d.message);
            if (tw_pipeline_default(k, true, &d) != TW_OK) fail_msg("%s", d.message);
            assert_int_equal(l.n_sites, marks);
            assert_int_equal(l.n_loops, 1);
            assert_false(l.global);
            tw_prof_layout_free(&l);
            tw_kernel_free(k);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_have_their_marks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
