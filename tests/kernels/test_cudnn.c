/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of cuDNN against a stand-in for it: the graph of operations is attention as it was meant, and an error at any
   step leaves nothing behind. */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/dtype.h"
#include "device/fake_cuda.h"
#include "kernels/fake_cudnn.h"
#include "kernels/vendor/cudnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static tw_cuda *cuda;

static int setup(void **state) {
    (void)state;
    tw_diag d;
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    setenv("TILEWRIGHT_LIBCUDNN", TW_FAKE_CUDNN, 1);
    unsetenv("FAKE_CUDNN_VERSION");
    fake_cuda_reset();
    fake_cudnn_reset();
    return tw_cuda_open(&cuda, 0, &d) != TW_OK;
}

static int teardown(void **state) {
    (void)state;
    tw_cuda_close(cuda);
    return fake_cuda_alive() + fake_cudnn_alive();
}

enum { ROOM = 8192 };

/* Arrays of a problem. Addresses of the stand-in's device are the host's. */
typedef struct arrays {
    _Alignas(16) uint16_t q[ROOM], k[ROOM], v[ROOM], out[ROOM];
    _Alignas(16) float mask[ROOM];
} arrays;
static arrays a;

static uint16_t narrow(const tw_cudnn_problem *p, float x) {
    return p->type == TW_CUDNN_BF16 ? tw_f32_to_bf16(x) : tw_f32_to_f16(x);
}

static double wide(const tw_cudnn_problem *p, uint16_t x) {
    return (double)(p->type == TW_CUDNN_BF16 ? tw_bf16_to_f32(x) : tw_f16_to_f32(x));
}

static void fill(const tw_cudnn_problem *p) {
    for (int i = 0; i < ROOM; i++) {
        a.q[i] = narrow(p, (float)(i * 7 % 11 - 5) / 4);
        a.k[i] = narrow(p, (float)(i * 5 % 13 - 6) / 4);
        a.v[i] = narrow(p, (float)(i * 3 % 17 - 8) / 4);
        a.out[i] = 0xffff;
        const float mask = (float)(i * 11 % 7 - 3);
        if (p->mask_type == TW_CUDNN_F32)
            a.mask[i] = mask;
        else
            ((uint16_t *)(void *)a.mask)[i] = narrow(p, mask);
    }
}

static double score(const tw_cudnn_problem *p, int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t kv = h / (p->heads / p->kv_heads);
    double sum = 0;
    if (p->causal && j > i + p->keys - p->queries) return -INFINITY;
    for (int64_t e = 0; e < p->head; e++)
        sum += wide(p, a.q[b * p->q.batch + h * p->q.head + i * p->q.row + e]) *
               wide(p, a.k[b * p->kv.batch + kv * p->kv.head + j * p->kv.row + e]);
    sum *= p->scale;
    if (!p->masked) return sum;
    const int64_t at =
        (p->mask_batch > 1 ? b : 0) * p->mask.batch + (p->mask_heads > 1 ? h : 0) * p->mask.head + i * p->mask.row + j;
    return sum + (p->mask_type == TW_CUDNN_F32 ? (double)a.mask[at] : wide(p, ((uint16_t *)(void *)a.mask)[at]));
}

/* Compares a query's result. */
static void compare(const tw_cudnn_problem *p, int64_t b, int64_t h, int64_t i) {
    const int64_t kv = h / (p->heads / p->kv_heads);
    double weights[64], sum = 0, most = -INFINITY;
    for (int64_t j = 0; j < p->keys; j++) most = fmax(most, weights[j] = score(p, b, h, i, j));
    for (int64_t j = 0; j < p->keys; j++) sum += weights[j] = exp(weights[j] - most);
    for (int64_t e = 0; e < p->head; e++) {
        double want = 0;
        for (int64_t j = 0; j < p->keys; j++)
            want += weights[j] / sum * wide(p, a.v[b * p->kv.batch + kv * p->kv.head + j * p->kv.row + e]);
        const double got = wide(p, a.out[b * p->out.batch + h * p->out.head + i * p->out.row + e]);
        if (!(fabs(got - want) <= (p->type == TW_CUDNN_BF16 ? 0.03 : 0.004)))
            fail_msg("(%d, %d, %d, %d): %g, not %g", (int)b, (int)h, (int)i, (int)e, got, want);
    }
}

/* What can be done with a library: opening it, and attention by its first choice. */
static tw_status attend(const tw_cudnn_problem *p, tw_diag *d) {
    tw_cudnn *dnn;
    tw_cudnn_engine e;
    tw_cudnn_plan *plan = NULL;
    int n = 0;
    tw_status st = tw_cudnn_open(&dnn, cuda, d);
    if (st == TW_OK) st = tw_cudnn_propose(dnn, p, 1, &e, &n, d);
    if (st == TW_OK) st = tw_cudnn_plan_make(dnn, p, &e, &plan, d);
    if (st == TW_OK)
        st = tw_cudnn_run(plan, (uintptr_t)a.q, (uintptr_t)a.k, (uintptr_t)a.v, (uintptr_t)a.mask, (uintptr_t)a.out, d);
    assert_true(st == TW_OK || (!plan || d->status == st));
    tw_cudnn_plan_free(plan);
    tw_cudnn_close(dnn);
    return st;
}

static void check(const tw_cudnn_problem *p) {
    tw_diag d;
    fill(p);
    if (attend(p, &d) != TW_OK) fail_msg("%s", d.message);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t i = 0; i < p->queries; i++) compare(p, b, h, i);
    for (int64_t i = 0; i < p->out.row - p->heads * p->head; i++)
        assert_int_equal(a.out[p->heads * p->head + i], 0xffff);
}

/* Two sequences of 5 queries and 7 keys, 4 heads that share 2 of keys, in rows with gaps. */
static const tw_cudnn_problem usual = {.type = TW_CUDNN_F16,
                                       .batch = 2,
                                       .heads = 4,
                                       .kv_heads = 2,
                                       .queries = 5,
                                       .keys = 7,
                                       .head = 8,
                                       .q = {5 * 40, 8, 40},
                                       .kv = {7 * 24, 8, 24},
                                       .out = {5 * 48, 8, 48},
                                       .scale = 0.4};

static void attention_is_as_asked_for(void **state) {
    (void)state;
    tw_cudnn_problem p = usual;
    check(&p);
    p.causal = true;
    check(&p);
    p.queries = 7;
    p.q.batch = 7 * 40;
    p.out.batch = 7 * 48;
    check(&p);
    p.type = TW_CUDNN_BF16;
    p.causal = false;
    p.kv = (tw_cudnn_strides){2 * 9 * 8, 9 * 8, 8}; /* Heads of a cache with room for 9 keys. */
    check(&p);
}

static void masks_are_added(void **state) {
    (void)state;
    static const tw_cudnn_type types[] = {TW_CUDNN_F32, TW_CUDNN_F16};
    for (int i = 0; i < 8; i++) {
        tw_cudnn_problem p = usual;
        p.masked = true;
        p.mask_type = types[i / 4];
        p.mask_batch = i & 1 ? p.batch : 1;
        p.mask_heads = i & 2 ? p.heads : 1;
        p.mask = (tw_cudnn_strides){p.mask_heads * 5 * 8, 5 * 8, 8};
        p.causal = i == 3;
        check(&p);
    }
}

static void engines_are_proposed(void **state) {
    (void)state;
    tw_cudnn *dnn;
    tw_cudnn_engine some[4];
    tw_cudnn_plan *plan;
    tw_cudnn_problem p = usual;
    tw_diag d;
    char text[TW_CUDNN_ENGINE_TEXT];
    int n = 0;
    if (tw_cudnn_open(&dnn, cuda, &d) != TW_OK) fail_msg("%s", d.message);
    tw_cudnn_version(dnn, text, sizeof text);
    assert_string_equal(text, "9.19.1");
    assert_int_equal(tw_cudnn_propose(dnn, &p, 0, some, &n, &d), TW_ERR_USAGE);
    assert_int_equal(tw_cudnn_propose(dnn, &p, 2, some, &n, &d), TW_OK);
    assert_int_equal(n, 2);
    assert_int_equal(tw_cudnn_propose(dnn, &p, 4, some, &n, &d), TW_OK);
    assert_int_equal(n, 3);
    for (int i = 0; i < 3; i++) {
        static const char *const texts[] = {"2 24=7", "1 24=6", "1 24=5"};
        tw_cudnn_engine_print(&some[i], text);
        assert_string_equal(text, texts[i]);
    }
    /* What the library does not make is refused with its reason, of which the first line counts. */
    assert_int_equal(tw_cudnn_plan_make(dnn, &p, &some[2], &plan, &d), TW_ERR_UNSUPPORTED);
    assert_string_equal(d.message, "cuDNN cannot compute this attention so: status 3000, why not");
    assert_null(plan);
    some[0].index = 7;
    assert_int_equal(tw_cudnn_plan_make(dnn, &p, &some[0], &plan, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "use this engine"));
    /* An engine without knobs has the usual ones. */
    some[0] = (tw_cudnn_engine){.index = 1};
    assert_int_equal(tw_cudnn_plan_make(dnn, &p, &some[0], &plan, &d), TW_OK);
    tw_cudnn_plan_free(plan);
    p.head = 80;
    assert_int_equal(tw_cudnn_propose(dnn, &p, 4, some, &n, &d), TW_OK);
    p.head = 72;
    assert_int_equal(tw_cudnn_propose(dnn, &p, 4, some, &n, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "no engine"));
    tw_cudnn_close(dnn);
}

static void engines_are_texts(void **state) {
    (void)state;
    static const char *const good[] = {"0", "12 1=2", "3 24=-1 5=0", "9 1=9223372036854775807"},
                             *const bad[] = {"", "x", "-1", "1 ", "1 2", "1 2=", "1 -2=3", "1 2=3,", "1,2=3"};
    tw_cudnn_engine e;
    char text[TW_CUDNN_ENGINE_TEXT], many[TW_CUDNN_ENGINE_TEXT] = "1";
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(tw_cudnn_engine_parse(&e, good[i]));
        tw_cudnn_engine_print(&e, text);
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (tw_cudnn_engine_parse(&e, bad[i])) fail_msg("\"%s\" was read", bad[i]);
    for (int i = 0; i < TW_CUDNN_KNOBS; i++) strcat(many, " 2147483647=-9223372036854775807");
    assert_true(tw_cudnn_engine_parse(&e, many));
    tw_cudnn_engine_print(&e, text); /* Of the largest numbers that a text can have. */
    strcat(many, " 1=1");
    assert_false(tw_cudnn_engine_parse(&e, many));
}

/* Each call of the library fails once. */
static void errors_leave_nothing(void **state) {
    (void)state;
    tw_cudnn_problem p = usual;
    tw_diag d;
    tw_status st = TW_ERR_IO;
    p.causal = true;
    fill(&p);
    int calls = 0, failed[3] = {0};
    for (; st != TW_OK; calls++) {
        static const int statuses[] = {2000, 4003, 5000};
        fake_cudnn_fail(calls, statuses[calls % 3]);
        st = attend(&p, &d);
        assert_int_equal(fake_cudnn_alive(), 0);
        if (st == TW_OK) break;
        if (calls % 3 == 1)
            assert_int_equal(st, TW_ERR_MEMORY);
        else
            assert_true(st == TW_ERR_UNSUPPORTED || st == TW_ERR_IO);
        failed[calls % 3] += st == TW_ERR_IO;
    }
    /* Only a run's errors are the device's. It makes and fills a pack. */
    assert_true(calls > 400 && failed[0] && failed[2] && failed[0] + failed[2] <= 6);
    fake_cudnn_reset();
    fake_cuda_fail("cuMemAlloc_v2", 0, 2);
    assert_int_equal(attend(&p, &d), TW_ERR_MEMORY);
}

static void a_library_is_not_there(void **state) {
    (void)state;
    tw_cudnn *dnn;
    tw_diag d;
    assert_non_null(tw_cudnn_find());
    setenv("FAKE_CUDNN_VERSION", "100000", 1);
    assert_int_equal(tw_cudnn_open(&dnn, cuda, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "newer"));
    setenv("FAKE_CUDNN_VERSION", "8902", 1);
    assert_int_equal(tw_cudnn_open(&dnn, cuda, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "older"));
    assert_null(dnn);
    setenv("TILEWRIGHT_LIBCUDNN", TW_FAKE_CUBLASLT, 1);
    assert_int_equal(tw_cudnn_open(&dnn, cuda, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "has no cudnn"));
    setenv("TILEWRIGHT_LIBCUDNN", "none", 1);
    assert_int_equal(tw_cudnn_open(&dnn, cuda, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "no cuDNN"));
    assert_null(tw_cudnn_find());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(attention_is_as_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(masks_are_added, setup, teardown),
        cmocka_unit_test_setup_teardown(engines_are_proposed, setup, teardown),
        cmocka_unit_test(engines_are_texts),
        cmocka_unit_test_setup_teardown(errors_leave_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_library_is_not_there, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
