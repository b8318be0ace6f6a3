/* SPDX-License-Identifier: Apache-2.0 */
/* A network prepared for several extents. */
#include "support/support.h"

#include "base/diag.h"
#include "engine/network.h"

static void succeed(tw_status st, const tw_diag *d) {
    if (st != TW_OK) fail_msg("%s", d->message);
}

static void prepare(tw_network *n, int64_t batch, int64_t length) {
    tw_tensors *in;
    tw_diag d = {0};
    succeed(tw_tensors_new(&in, n, &d), &d);
    succeed(tw_tensors_extent(in, "batch", batch, &d), &d);
    succeed(tw_tensors_extent(in, "length", length, &d), &d);
    succeed(tw_tensors_complete(in, false, &d), &d);
    succeed(tw_network_prepare(n, tw_tensors_list(in), &d), &d);
    tw_tensors_free(in);
}

/* All weights are made and uploaded for the first extents, those with norms' gains as well. */
static void extents_share_weights(void **state) {
    (void)state;
    const tw_network_options o = {.device = "emulator", .dtype = "f16"};
    tw_network *n;
    tw_diag d = {0};
    succeed(tw_network_open(&n, TEST_DATA "/onnx/encoder/model.onnx", &o, &d), &d);
    prepare(n, 1, 70); /* Layer norms of fewer rows stay apart. */
    const tw_gpu_machine *m = n->machine;
    const int64_t bytes = tw_network_weights_bytes(m->weights);
    const int made = n->made.n;
    assert_true(bytes > 1000 && made > 0);
    prepare(n, 2, 37);
    assert_int_equal(n->n_buckets, 2);
    assert_int_equal(n->made.n, made);
    assert_int_equal(tw_network_weights_bytes(m->weights), bytes);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < n->buckets[i]->program->n_buffers; k++)
            assert_false(n->buckets[i]->program->buffers[k].own);
    tw_network_close(n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(extents_share_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
