/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of printing a kernel fails once. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "ptx/every.h"
#include "ptx/ptx.h"

#include <string.h>

typedef struct printing {
    const tw_kernel *k;
    tw_buf whole; /* what is printed when nothing fails */
} printing;

static int print(void *context) {
    printing *p = context;
    tw_buf out = {0};
    tw_diag d;
    tw_status st = tw_ptx_print(&out, p->k, tw_target_find("sm_100a"), &d);
    if (st == TW_OK && !p->whole.size) tw_buf_add(&p->whole, out.data, out.size);
    bool cut = st == TW_OK && (out.size != p->whole.size || memcmp(out.data, p->whole.data, out.size) != 0);
    tw_buf_free(&out);
    return st == TW_OK && !cut ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

static void printing_survives_every_failure(void **state) {
    (void)state;
    tw_kernel *k = tw_kernel_new("every", 80, 128);
    pool values = pool_of(k, NULL);
    forms f = every_form();
    for (int i = 0; i < f.n; i += 29) pool_form(&values, &f.of[i], i % 3 ? 0 : 1, true);
    for (int c = 0; c < TW_OPCODES; c++)
        if (tw_op_describe((tw_opcode)c)->scalar) pool_scalar(&values, (tw_opcode)c, true);
    assert_false(tw_kernel_failed(k));
    printing p = {.k = k};
    assert_int_equal(print(&p), 0);
    alloc_fail_exhaust(print, &p);
    tw_buf_free(&p.whole);
    free(f.of);
    tw_kernel_free(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(printing_survives_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
