/* SPDX-License-Identifier: Apache-2.0 */
/* The product with q, k and v that rotates pairs and appends to the cache, in the emulator with every checker, beside
   sums in double precision: with operands as they are and swapped, whose lanes exchange sums or not, split in clusters,
   with biases, with norms of heads, and with heads of which rope rotates a part. */
#include "support/support.h"

#include "base/dtype.h"
#include "base/random.h"
#include "kernels/kernel.h"
#include "schedule/schedule.h"
#include "vm/prefill/qkv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 70, COUNT = 67, POS = 5, K = 64, HEADS = 4, KEYS = 2, ALL = HEADS + 2 * KEYS, MAX_SEQ = 80, FIRST = 2 };
enum { MOST = 96 /* The most elements of a head. */, CACHE = (FIRST + KEYS) * MAX_SEQ * MOST };

#define EPS 1e-3

typedef struct qkv {
    int head, dims;
    bool bias, norm;
    float weights[2][MOST]; /* Of the norms of queries and keys. */
    uint16_t a[ROWS * K], b[ALL * MOST * K];
    float biases[ALL * MOST], angles[MAX_SEQ * MOST];
    uint16_t q[ROWS * HEADS * MOST], cache[2][CACHE]; /* Results. */
} qkv;

static void fill(qkv *d, uint64_t seed) {
    tw_random r = tw_random_seed(seed);
    for (int i = 0; i < ROWS * K; i++) d->a[i] = tw_f32_to_bf16((float)(2 * tw_random_unit(&r) - 1));
    for (int i = 0; i < ALL * MOST * K; i++) d->b[i] = tw_f32_to_bf16((float)(2 * tw_random_unit(&r) - 1) / 4);
    for (int i = 0; i < ALL * MOST; i++) d->biases[i] = (float)(2 * tw_random_unit(&r) - 1);
    for (int i = 0; i < 2 * MOST; i++) d->weights[i / MOST][i % MOST] = (float)(0.5 + tw_random_unit(&r));
    for (int i = 0; i < MAX_SEQ; i++)
        for (int j = 0; j < d->dims / 2; j++) {
            const double angle = 6 * tw_random_unit(&r);
            d->angles[i * d->dims + j] = (float)cos(angle);
            d->angles[i * d->dims + d->dims / 2 + j] = (float)sin(angle);
        }
}

static double sum_of(const qkv *d, int row, int column) {
    double y = d->bias ? (double)d->biases[column] : 0;
    for (int k = 0; k < K; k++)
        y += (double)tw_bf16_to_f32(d->a[row * K + k]) * (double)tw_bf16_to_f32(d->b[column * K + k]);
    return y;
}

/* Computes a row of the product, with the norms of its heads. */
static void multiply(const qkv *d, int row, double *products) {
    for (int column = 0; column < ALL * d->head; column++) products[column] = sum_of(d, row, column);
    for (int head = 0; head < HEADS + KEYS && d->norm; head++) {
        double *x = products + head * d->head, squares = 0;
        for (int i = 0; i < d->head; i++) squares += x[i] * x[i];
        for (int i = 0; i < d->head; i++) {
            const int place = i < d->dims ? i / 2 + i % 2 * (d->dims / 2) : i;
            x[i] *= (double)d->weights[head >= HEADS][place] / sqrt(squares / d->head + EPS);
        }
    }
}

/* Returns what the element of a column becomes. */
static double want(const qkv *d, const double *products, int row, int column) {
    const int inner = column % d->head, pair = inner / 2, half = d->dims / 2;
    const float *angles = d->angles + (POS + row) * d->dims;
    if (column / d->head >= HEADS + KEYS || inner >= d->dims) return products[column];
    const double first = products[column - column % 2], second = products[column - column % 2 + 1];
    const double c = (double)angles[pair], s = (double)angles[half + pair];
    return column % 2 ? second * c + first * s : first * c - second * s;
}

/* Finds where the element of a column is. */
static uint16_t *place_of(qkv *d, int row, int column) {
    const tw_qkv_row at = tw_qkv_locate(column, HEADS, KEYS, d->head, d->dims);
    if (!at.part) return &d->q[(row * HEADS + at.head) * d->head + at.row];
    return &d->cache[at.part - 1][((at.head + FIRST) * MAX_SEQ + POS + row) * d->head + at.row];
}

enum { POISON = 0x7fc1 };

static void judge(qkv *d, const char *words) {
    static double products[ALL * MOST];
    int wrong = 0, touched = 0;
    for (int row = 0; row < COUNT; row++) {
        multiply(d, row, products);
        for (int column = 0; column < ALL * d->head; column++) {
            uint16_t *got = place_of(d, row, column);
            const double x = want(d, products, row, column);
            wrong += !(fabs((double)tw_bf16_to_f32(*got) - x) <= 0x1p-8 * fabs(x) + 1e-4);
            *got = POISON;
        }
    }
    for (int i = 0; i < ROWS * HEADS * d->head; i++) touched += d->q[i] != POISON;
    for (int i = 0; i < 2 * CACHE; i++) touched += d->cache[i / CACHE][i % CACHE] != POISON;
    if (wrong || touched) fail_msg("%s: %d elements are wrong, and %d were written", words, wrong, touched);
}

static uint64_t place(tw_gpu *gpu, const void *from, size_t bytes) {
    uint64_t to;
    tw_diag d;
    assert_int_equal(tw_gpu_alloc(gpu, bytes, &to, &d), TW_OK);
    assert_int_equal(tw_gpu_upload(gpu, to, from, bytes, &d), TW_OK);
    return to;
}

static void is_right(const char *configuration, int head, int dims, bool bias, bool norm, uint64_t seed) {
    static tw_layer layer;
    tw_model m = {.n_heads = HEADS, .n_kv_heads = KEYS, .head_dim = head, .rope.dims = dims, .layers = &layer};
    qkv *d = calloc(1, sizeof *d);
    assert_non_null(d);
    layer.q_norm.rows = norm ? head : 0;
    m.norm_eps = (float)EPS;
    d->norm = norm;
    d->head = head;
    d->dims = dims;
    d->bias = bias;
    fill(d, seed);
    for (int i = 0; i < ROWS * HEADS * MOST; i++) d->q[i] = POISON;
    for (int i = 0; i < 2 * CACHE; i++) d->cache[i / CACHE][i % CACHE] = POISON;
    char words[200];
    snprintf(words, sizeof words, "type=bf16 m=%d n=%d k=%d tb=1 out=f32 bias=%d", ROWS, ALL * head, K, bias);
    tw_prefill_qkv problem = {.words = words, .configuration = configuration};
    memset(&problem.shape, 0, sizeof problem.shape);
    problem.shape.m = &m;
    problem.shape.type = TW_T_bf16;
    problem.shape.kv = TW_BF16;
    problem.shape.max_seq = MAX_SEQ;
    assert_true(tw_prefill_qkv_covers(&problem.shape));
    tw_gpu *gpu;
    tw_gpu_kernel *k;
    tw_gpu_launch *l;
    tw_diag diag;
    int32_t step[TW_STEP_STARTS] = {[TW_STEP_COUNT] = COUNT, [TW_STEP_POS] = POS, [TW_STEP_HEAD] = FIRST};
    static float unused[ROWS * ALL * MOST];
    assert_int_equal(tw_gpu_open(&gpu, "emulator", &diag), TW_OK);
    if (tw_kernel_open_made(&k, gpu, tw_prefill_qkv_make, &problem, &diag) != TW_OK)
        fail_msg("%s %s: %s", words, configuration, diag.message);
    assert_int_equal(tw_gpu_launch_open(&l, k, &diag), TW_OK);
    const uint64_t q = place(gpu, d->q, sizeof d->q), keys = place(gpu, d->cache[0], sizeof d->cache[0]),
                   values = place(gpu, d->cache[1], sizeof d->cache[1]);
    const struct {
        const char *name;
        uint64_t at;
    } to[] = {{"a", place(gpu, d->a, sizeof d->a)},
              {"b", place(gpu, d->b, sizeof d->b)},
              {"c", place(gpu, unused, sizeof unused)},
              {"step", place(gpu, step, sizeof step)},
              {"angles", place(gpu, d->angles, dims ? (size_t)(POS + COUNT) * (size_t)dims * 4 : 4)},
              {"queries", q},
              {"keys", keys},
              {"values", values},
              {"bias", bias ? place(gpu, d->biases, sizeof d->biases) : 0},
              {"q_norm", norm ? place(gpu, d->weights[0], sizeof d->weights[0]) : 0},
              {"k_norm", norm ? place(gpu, d->weights[1], sizeof d->weights[1]) : 0}};
    for (size_t i = 0; i < sizeof to / sizeof *to; i++)
        if (to[i].at && tw_gpu_launch_bind(l, to[i].name, to[i].at, &diag) != TW_OK)
            fail_msg("%s: %s", to[i].name, diag.message);
    if (tw_gpu_launch_run(l, NULL, &diag) != TW_OK) fail_msg("%s %s: %s", words, configuration, diag.message);
    assert_int_equal(tw_gpu_download(gpu, d->q, q, sizeof d->q, &diag), TW_OK);
    assert_int_equal(tw_gpu_download(gpu, d->cache[0], keys, sizeof d->cache[0], &diag), TW_OK);
    assert_int_equal(tw_gpu_download(gpu, d->cache[1], values, sizeof d->cache[1], &diag), TW_OK);
    judge(d, configuration);
    tw_gpu_launch_close(l);
    tw_gpu_kernel_close(k);
    tw_gpu_close(gpu);
    free(d);
}

static void every_way_to_store_is_right(void **state) {
    (void)state;
    static const char *const configurations[] = {
        "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=2 kg=1 vec=16 staged=2 early=1",
        "mma=2 ms=64 ns=48 ml=64 nl=48 u=64 stages=2 kg=1 vec=16 staged=0",
        "mma=2 ms=128 ns=96 ml=128 nl=96 u=32 stages=2 kg=1 vec=16 staged=2 persistent=2 pingpong=1",
        "mma=2 ms=64 ns=32 ml=64 nl=32 u=32 stages=2 kg=1 vec=16 swap=1 early=1",
        "mma=2 ms=128 ns=40 ml=128 nl=40 u=64 stages=2 kg=1 vec=16 swap=1",
        "mma=2 ms=64 ns=32 ml=64 nl=32 u=32 stages=2 kg=2 split=3 vec=16 swap=1",
        "mma=2 ms=64 ns=64 ml=64 nl=64 u=32 stages=2 kg=2 split=3 vec=16"};
    static const struct {
        int head, dims;
        bool bias;
    } shapes[] = {{16, 16, false}, {96, 48, true}, {24, 8, false}, {32, 0, true}};
    for (size_t i = 0; i < sizeof configurations / sizeof *configurations; i += TEST_SANITIZED ? 3 : 1)
        for (int j = 0; j < 2; j++) {
            const size_t shape = (i + 2 * (size_t)j) % 4;
            is_right(configurations[i], shapes[shape].head, shapes[shape].dims, shapes[shape].bias, false, 7 + i);
        }
}

static void heads_with_norms_are_right(void **state) {
    (void)state;
    static const char *const configurations[] = {
        "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=2 kg=1 vec=16 staged=2 early=1",
        "mma=2 ms=64 ns=192 ml=64 nl=192 u=32 stages=2 kg=1 vec=16 staged=0",
        "mma=2 ms=128 ns=128 ml=128 nl=128 u=32 stages=2 kg=1 vec=16 staged=2 persistent=2 pingpong=1"};
    is_right(configurations[0], 32, 32, false, true, 3);
    is_right(configurations[0], 64, 32, true, true, 4);
    is_right(configurations[1], 96, 48, false, true, 5);
    is_right(configurations[2], 64, 64, true, true, 6);
}

/* Heads with norms lie within tiles, whose columns are not swapped, nor shared by blocks. */
static void tiles_have_whole_heads(void **state) {
    (void)state;
    tw_layer layer = {.q_norm.rows = 64};
    const tw_model m = {.n_heads = HEADS, .n_kv_heads = KEYS, .head_dim = 64, .rope.dims = 64, .layers = &layer};
    tw_prefill_shape s = {.m = &m, .type = TW_T_bf16, .kv = TW_BF16};
    const tw_gemm_config good = {.mma = 2, .nl = 128, .kg = 1, .staged = TW_GEMM_EXCHANGED};
    tw_gemm_config c = good;
    assert_true(tw_prefill_qkv_fits(&s, &c));
    c.nl = 96;
    assert_false(tw_prefill_qkv_fits(&s, &c));
    c = good;
    c.swap = 1;
    assert_false(tw_prefill_qkv_fits(&s, &c));
    c = good;
    c.kg = 2;
    assert_false(tw_prefill_qkv_fits(&s, &c));
    layer.q_norm.rows = 0;
    assert_true(tw_prefill_qkv_fits(&s, &c));
    s.kv = TW_F16;
    assert_false(tw_prefill_qkv_covers(&s));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_way_to_store_is_right),
                                       cmocka_unit_test(heads_with_norms_are_right),
                                       cmocka_unit_test(tiles_have_whole_heads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
