/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of printing a kernel fails once. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "ptx/every.h"
#include "ptx/ptx.h"

static int print(void *context) {
    tw_buf out = {0};
    tw_diag d;
    tw_status st = tw_ptx_print(&out, context, tw_target_find("sm_100a"), &d);
    tw_buf_free(&out);
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

static void printing_survives_every_failure(void **state) {
    (void)state;
    tw_kernel *k = tw_kernel_new("every", 80, 128);
    pool p = pool_of(k, NULL);
    forms f = every_form();
    for (int i = 0; i < f.n; i += 29) pool_form(&p, &f.of[i], i % 3 ? 0 : 1, true);
    for (int c = 0; c < TW_OPCODES; c++)
        if (tw_op_describe((tw_opcode)c)->scalar) pool_scalar(&p, (tw_opcode)c, true);
    assert_false(tw_kernel_failed(k));
    alloc_fail_exhaust(print, k);
    free(f.of);
    tw_kernel_free(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(printing_survives_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
