/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of building and emulating a map and rows fails once. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "kernels/pointwise/map_kernel.h"
#include "kernels/rows/rows_kernel.h"

static int result(tw_status st) {
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

static int emulate_map(void *context) {
    tw_diag d;
    return result(tw_map_emulate(context, tw_target_find("sm_90a"), 1, NULL, &d));
}

static int emulate_rows(void *context) {
    tw_diag d;
    return result(tw_rows_emulate(context, &(tw_rows_config){2, 1}, tw_target_find("sm_90a"), 1, NULL, &d));
}

static void maps_survive_every_failure(void **state) {
    (void)state;
    tw_map_problem p;
    tw_diag d;
    char words[] =
        "dims=2x3x8 x0=f16[0,0,1]@2*8/5 x1=bool x2=i32[3,1,0] expr=where(x1,add(gelu(x0),pow(x0,real(d1))),0) "
        "out=f16 early=1";
    assert_int_equal(tw_map_parse(&p, words, &d), TW_OK);
    alloc_fail_exhaust(emulate_map, &p);
}

static void rows_survive_every_failure(void **state) {
    (void)state;
    tw_rows_problem p;
    tw_diag d;
    char words[] =
        "of=layer_norm dims=3x72 x0=f16 x1=f16 expr=add(x0,x1) gain=f32! bias=bf16! out=f16 kept=f16 early=1";
    assert_int_equal(tw_rows_parse(&p, words, &d), TW_OK);
    alloc_fail_exhaust(emulate_rows, &p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(maps_survive_every_failure),
                                       cmocka_unit_test(rows_survive_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
