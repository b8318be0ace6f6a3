/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "base/dtype.h"
#include "base/random.h"
#include "kernels/cpu/vendor.h"
#include "kernels/cpu/vendor_onednn.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct product {
    int64_t m, n, k, ldx, ldw, ldy;
    float *x, *w, *y;
} product;

static float *random_floats(int64_t n, tw_random *r) {
    float *p = malloc((size_t)n * sizeof *p);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) p[i] = tw_random_normal(r);
    return p;
}

static product product_make(int64_t m, int64_t n, int64_t k, tw_random *r) {
    product p = {m, n, k, k + 3, k + 1, n + 2, NULL, NULL, NULL};
    p.x = random_floats(m * p.ldx, r);
    p.w = random_floats(n * p.ldw, r);
    p.y = malloc((size_t)(m * p.ldy) * sizeof *p.y);
    assert_non_null(p.y);
    memset(p.y, 0xff, (size_t)(m * p.ldy) * sizeof *p.y);
    return p;
}

static void product_free(product *p) {
    free(p->x);
    free(p->w);
    free(p->y);
}

static void product_check(const product *p, double relative) {
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < p->k; k++) {
                double term = (double)p->x[i * p->ldx + k] * p->w[j * p->ldw + k];
                sum += term;
                size += fabs(term);
            }
            assert_true(fabs(p->y[i * p->ldy + j] - sum) <= relative * size);
        }
        for (int64_t j = p->n; j < p->ldy; j++) assert_true(isnan(p->y[i * p->ldy + j]));
    }
}

static void each_vendor_computes_the_product(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1}, {1, 33, 70}, {7, 16, 8}, {40, 48, 100}, {64, 17, 300}};
    tw_random r = tw_random_seed(3);
    tw_vendor *v = tw_vendor_open();
    char version[256];
    assert_non_null(v);
    tw_onednn *onednn = tw_onednn_open();
    assert_int_equal(tw_vendor_count(v), onednn ? 2 : 1);
    tw_onednn_close(onednn);
    for (int i = 0; i < tw_vendor_count(v); i++) {
        tw_vendor_version(v, i, version, sizeof version);
        assert_true(version[0]);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            product p = product_make(sizes[s][0], sizes[s][1], sizes[s][2], &r);
            /* Twice: the second call finds the shape prepared. */
            for (int again = 0; again < 2; again++) {
                assert_true(tw_vendor_gemm(v, i, p.m, p.n, p.k, p.x, p.ldx, p.w, p.ldw, p.y, p.ldy));
                product_check(&p, 1e-5);
            }
            product_free(&p);
        }
    }
    assert_string_equal(tw_vendor_name(v, 0), "openblas");
    tw_vendor_close(v);
}

static void more_shapes_than_are_kept(void **state) {
    (void)state;
    tw_random r = tw_random_seed(4);
    tw_vendor *v = tw_vendor_open();
    assert_non_null(v);
    for (int i = 0; i < tw_vendor_count(v); i++)
        for (int n = 1; n <= 70; n++) {
            product p = product_make(3, n % 40 + 2, 9, &r);
            assert_true(tw_vendor_gemm(v, i, p.m, p.n, p.k, p.x, p.ldx, p.w, p.ldw, p.y, p.ldy));
            product_check(&p, 1e-5);
            product_free(&p);
        }
    tw_vendor_close(v);
}

static void bf16_rounds_nothing_but_its_inputs(void **state) {
    (void)state;
    tw_random r = tw_random_seed(5);
    tw_vendor *v = tw_vendor_open();
    product p = product_make(5, 32, 64, &r);
    uint16_t x[5 * 67], w[32 * 65];
    assert_non_null(v);
    tw_from_f32(TW_BF16, p.x, x, 5 * 67);
    tw_from_f32(TW_BF16, p.w, w, 32 * 65);
    tw_to_f32(TW_BF16, x, p.x, 5 * 67);
    tw_to_f32(TW_BF16, w, p.w, 32 * 65);
    if (tw_vendor_gemm_bf16(v, p.m, p.n, p.k, x, p.ldx, w, p.ldw, p.y, p.ldy)) product_check(&p, 1e-5);
    product_free(&p);
    tw_vendor_close(v);
}

static void *one_worker(void *arg) {
    tw_random r = tw_random_seed((uint64_t)(uintptr_t)arg);
    tw_vendor *v = tw_vendor_open();
    assert_non_null(v);
    for (int n = 0; n < 20; n++)
        for (int i = 0; i < tw_vendor_count(v); i++) {
            product p = product_make(20, 30, 40, &r);
            assert_true(tw_vendor_gemm(v, i, p.m, p.n, p.k, p.x, p.ldx, p.w, p.ldw, p.y, p.ldy));
            product_check(&p, 1e-5);
            product_free(&p);
        }
    tw_vendor_close(v);
    return NULL;
}

static void workers_do_not_disturb_each_other(void **state) {
    (void)state;
    pthread_t threads[3];
    for (uintptr_t t = 0; t < 3; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, one_worker, (void *)(t + 1)), 0);
    for (int t = 0; t < 3; t++) pthread_join(threads[t], NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_vendor_computes_the_product),
        cmocka_unit_test(more_shapes_than_are_kept),
        cmocka_unit_test(bf16_rounds_nothing_but_its_inputs),
        cmocka_unit_test(workers_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
