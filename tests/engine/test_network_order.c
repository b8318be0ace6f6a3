/* SPDX-License-Identifier: Apache-2.0 */
/* Networks whose calls come in another order than prepare, run, time. */
#include "support/support.h"
#include "tilewright/graph.h"

static void succeed(tw_status st, const tw_diag *d) {
    if (st != TW_OK) fail_msg("%s", d->message);
}

static tw_tensors *inputs_of(const tw_network *n, int64_t batch) {
    tw_tensors *in;
    tw_diag d = {0};
    succeed(tw_tensors_new(&in, n, &d), &d);
    succeed(tw_tensors_extent(in, "batch", batch, &d), &d);
    succeed(tw_tensors_extent(in, "length", 5, &d), &d);
    succeed(tw_tensors_complete(in, true, &d), &d);
    return in;
}

/* What was run last is timed and compared: contents of other extents do not stand in for it. */
static void other_extents_are_not_timed(void **state) {
    (void)state;
    static const char *const devices[] = {"plain", "cpu"};
    for (int i = 0; i < 2; i++) {
        const tw_network_options o = {.device = devices[i], .threads = 1};
        tw_network *n;
        tw_tensor out;
        tw_network_verdict v;
        tw_diag d = {0};
        double us;
        succeed(tw_network_open(&n, TEST_DATA "/onnx/encoder/model.onnx", &o, &d), &d);
        tw_tensors *one = inputs_of(n, 1), *many = inputs_of(n, 64);
        assert_int_equal(tw_network_time(n, &us, 1, &d), TW_ERR_USAGE);
        succeed(tw_network_run(n, tw_tensors_list(one), &out, &d), &d);
        succeed(tw_network_time(n, &us, 1, &d), &d);
        succeed(tw_network_prepare(n, tw_tensors_list(many), &d), &d);
        assert_int_equal(tw_network_time(n, &us, 1, &d), TW_ERR_USAGE);
        assert_int_equal(tw_network_check(n, &v, NULL, 0, &d), TW_ERR_USAGE);
        succeed(tw_network_run(n, tw_tensors_list(many), &out, &d), &d);
        succeed(tw_network_time(n, &us, 1, &d), &d);
        succeed(tw_network_check(n, &v, NULL, 0, &d), &d);
        assert_true(v.agrees);
        tw_tensors_free(many);
        tw_tensors_free(one);
        tw_network_close(n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(other_extents_are_not_timed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
