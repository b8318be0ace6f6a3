/* SPDX-License-Identifier: Apache-2.0 */
/* Products in tiles on the processor, by our kernels and all vendors, against sums in double precision. */
#include "support/support.h"

#include "base/diag.h"
#include "base/dtype.h"
#include "kernels/cpu/tiled.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64 };

typedef struct product {
    tw_tiled_problem p;
    float *x, *w, *y; /* Matrices of floats. w is n x k, unpacked from the panels. */
    unsigned char *panels;
} product;

static void *aligned(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    assert_non_null(p);
    return p;
}

static product make(tw_tiled_problem p, tw_random *r) {
    const size_t weights = (size_t)(p.n * p.k), panel = tw_panel_bytes(p.weights, p.k);
    product q = {p, aligned((size_t)(p.m * p.k) * 4), aligned(weights * 4), aligned((size_t)(p.m * p.n) * 4),
                 aligned((size_t)(p.n / TW_PANEL_ROWS) * panel)};
    unsigned char *data = aligned((size_t)(TW_PANEL_ROWS * p.k) * 4);
    float scales[TW_PANEL_ROWS * 64];
    for (int64_t i = 0; i < p.m * p.k; i++) q.x[i] = (float)tw_random_unit(r) * 2 - 1;
    for (int i = 0; i < TW_PANEL_ROWS * 64; i++) scales[i] = 0.01f + (float)tw_random_unit(r) / 100;
    for (int64_t i = 0; i < p.n / TW_PANEL_ROWS; i++) {
        float *w = q.w + i * TW_PANEL_ROWS * p.k;
        for (int64_t e = 0; e < TW_PANEL_ROWS * p.k; e++) {
            w[e] = (float)tw_random_unit(r) * 2 - 1;
            if (tw_dtype_bits(p.weights.dtype) < 16) data[e] = (unsigned char)(int8_t)((int)tw_random_below(r, 16) - 8);
        }
        if (tw_dtype_bits(p.weights.dtype) >= 16) tw_from_f32(p.weights.dtype, w, data, (size_t)(TW_PANEL_ROWS * p.k));
        tw_panel_pack(p.weights, p.k, TW_PANEL_ROWS, data, scales, q.panels + (size_t)i * panel);
    }
    tw_panel_unpack(p.weights, p.k, q.panels, p.n / TW_PANEL_ROWS, q.w, p.k);
    free(data);
    return q;
}

static void release(product *q) {
    free(q->x);
    free(q->w);
    free(q->y);
    free(q->panels);
}

static void compare(const product *q, const tw_tiled_config *c, double error) {
    const tw_tiled_problem *p = &q->p;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < p->k; k++) {
                const double one = (double)q->x[i * p->k + k] * (double)q->w[j * p->k + k];
                sum += one;
                size += fabs(one);
            }
            if (!(fabs((double)q->y[i * p->n + j] - sum) <= (16 * 0x1p-24 + error) * size + 1e-30))
                fail_msg("%s tm=%d tn=%d of %lldx%lldx%lld: [%lld][%lld] is %g, not %g", tw_tiled_makers[c->by], c->tm,
                         c->tn, (long long)p->m, (long long)p->n, (long long)p->k, (long long)i, (long long)j,
                         (double)q->y[i * p->n + j], sum);
        }
}

/* Runs all tiles, beginning with a random one. Each must write only its cells, and no more scratch than
   tw_tiled_scratch returns. */
static void run(const tw_kernels *k, tw_vendor *vendor, const product *q, const tw_tiled_config *c, tw_random *r) {
    const int64_t tiles = tw_tiled_count(&q->p, c);
    const size_t bytes = tw_tiled_scratch(k, &q->p, c), cells = (size_t)(q->p.m * q->p.n);
    unsigned char *scratch = aligned(bytes);
    const tw_tiled_operands of = {q->x, q->panels, q->y};
    const int64_t start = (int64_t)tw_random_below(r, (uint64_t)tiles);
    memset(q->y, 0xff, cells * 4 + GUARD);
    memset(scratch, 0xff, bytes);
    memset(scratch + bytes, 0x5a, GUARD);
    size_t left = cells;
    for (int64_t i = 0; i < tiles; i++) {
        size_t now = 0;
        assert_true(tw_tiled_run(k, vendor, &q->p, c, (start + i) % tiles, &of, scratch));
        for (size_t e = 0; e < cells; e++) now += isnan(q->y[e]) != 0;
        assert_true(now < left && left - now <= (size_t)c->tm * (size_t)c->tn);
        left = now;
    }
    assert_int_equal(left, 0);
    for (int i = 0; i < GUARD; i++) {
        assert_int_equal(scratch[bytes + (size_t)i], 0x5a);
        assert_int_equal(((unsigned char *)(q->y + cells))[i], 0xff);
    }
    compare(q, c, c->by ? 0 : tw_kernel_unit_error(k->gemm_unit[q->p.weights.dtype]));
    free(scratch);
}

static void tiles_make_the_product(void **state) {
    (void)state;
    static const tw_panel_format formats[] = {{TW_F32, 0}, {TW_BF16, 0}, {TW_I8, 0}, {TW_I4, 32}};
    tw_random r = tw_random_seed(5);
    tw_vendor *vendor = tw_vendor_open();
    tw_cpu cpu;
    tw_kernels k;
    tw_cpu_detect(&cpu);
    tw_kernels_choose(&k, cpu.isa);
    assert_non_null(vendor);
    for (int i = 0; i < (TEST_SANITIZED ? 12 : 60); i++) {
        const tw_tiled_problem p = {1 + (int64_t)tw_random_below(&r, 70), 16 * (1 + (int64_t)tw_random_below(&r, 12)),
                                    1 + (int64_t)tw_random_below(&r, 300), formats[i % 4]};
        product q = make(p, &r);
        const tw_tiled_context of = {&k, tw_vendor_count(vendor), p};
        for (int by = 0; by <= tw_vendor_count(vendor); by++) {
            tw_tiled_config c;
            const int64_t keep[] = {by, -1, -1, -1, -1, -1};
            assert_true(tw_space_draw(&tw_tiled_space, &of, keep, &r, 10000, &c));
            assert_int_equal(c.by, by);
            run(&k, vendor, &q, &c, &r);
        }
        release(&q);
    }
    tw_vendor_close(vendor);
}

/* The space's verdicts, messages and normal forms. */
static void spaces_know_their_tiles(void **state) {
    (void)state;
    tw_kernels k = {.gemm_name = {[TW_F32] = "avx2", [TW_BF16] = "amx"}};
    const tw_tiled_context of = {&k, 1, {40, 160, 4096, {TW_F32, 0}}}, any = {&k, 1, {.weights = {TW_F32, 0}}};
    const tw_tiled_context amx = {&k, 1, {40, 160, 4096, {TW_BF16, 0}}};
    static const struct {
        const char *words, *plain;
        const char *why;
    } cases[] = {
        {"by=own tm=64 tn=256 span=512 rows=192 order=rows", "by=own tm=64 tn=256 span=512 rows=192 order=rows", NULL},
        {"by=own tm=32 tn=64 span=512 rows=192", "by=own tm=32 tn=64 span=512 rows=48 order=weights", NULL},
        {"by=openblas tm=64 tn=64 span=512 rows=192", "by=openblas tm=64 tn=64 span=2048 rows=48 order=weights", NULL},
        {"by=onednn tm=64 tn=64", NULL, "onednn is not installed"},
        {"by=own tm=128 tn=64", NULL, "tm=128 is too large for 40 rows"},
        {"by=own tm=64 tn=512", NULL, "tn=512 is too large for 160 columns"},
        {"by=own tm=64 tn=72", NULL, "tn=72 is no multiple of 16"},
        {"by=own tm=64 tn=64 span=300", NULL, "span=300 is no multiple of 256"},
        {"by=own tm=64 tn=64 rows=50", NULL, "rows=50 is no multiple of 12"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_tiled_config c = {0, 64, 64, 2048, 48, 0};
        char text[200];
        tw_diag d;
        assert_int_equal(tw_space_parse(&tw_tiled_space, &c, cases[i].words, &d), TW_OK);
        const tw_status st = tw_space_judge(&tw_tiled_space, &of, &c, &d);
        if (cases[i].why) {
            assert_int_equal(st, TW_ERR_UNSUPPORTED);
            assert_string_equal(d.message, cases[i].why);
            continue;
        }
        assert_int_equal(st, TW_OK);
        tw_space_print(&tw_tiled_space, &c, text, sizeof text);
        assert_string_equal(text, cases[i].plain);
    }
    tw_tiled_config c = {0, 512, 1024, 512, 192, 0};
    assert_int_equal(tw_space_judge(&tw_tiled_space, &any, &c, NULL), TW_OK);
    c = (tw_tiled_config){0, 64, 64, 512, 192, 0};
    assert_int_equal(tw_space_judge(&tw_tiled_space, &amx, &c, NULL), TW_OK);
    assert_true(c.span == 2048 && c.rows == 48);
}

/* A configuration is legal from its least extents on. */
static void tiles_have_least_extents(void **state) {
    (void)state;
    static const int64_t least[][4] = {{16, 64, 1, 1}, {32, 128, 17, 65}, {64, 80, 33, 41}};
    const tw_kernels k = {.gemm_name = {[TW_F32] = "avx2"}};
    for (int i = 0; i < 3; i++) {
        tw_tiled_config c = {0, (int)least[i][0], (int)least[i][1], 2048, 48, 0};
        int64_t m, n;
        tw_tiled_least(&c, &m, &n);
        assert_true(m == least[i][2] && n == least[i][3]);
        const tw_tiled_context at = {&k, 0, {m, n, 64, {TW_F32, 0}}}, low = {&k, 0, {m - 1, n, 64, {TW_F32, 0}}},
                               thin = {&k, 0, {m, n - 1, 64, {TW_F32, 0}}};
        assert_int_equal(tw_tiled_space.legal(&at, &c, NULL), TW_OK);
        if (m > 1) assert_int_equal(tw_tiled_space.legal(&low, &c, NULL), TW_ERR_UNSUPPORTED);
        if (n > 1) assert_int_equal(tw_tiled_space.legal(&thin, &c, NULL), TW_ERR_UNSUPPORTED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_make_the_product),
        cmocka_unit_test(spaces_know_their_tiles),
        cmocka_unit_test(tiles_have_least_extents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
