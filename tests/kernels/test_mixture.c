/* SPDX-License-Identifier: Apache-2.0 */
/* The whole layer of a mixture of experts from three kernels, as a program launches them, in the emulator: a gated
   product that gathers tokens, a product that scatters its weighted rows, and sums of each token's rows. */
#include "support/support.h"

#include "base/random.h"
#include "ir/value.h"
#include "tilewright/kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 37, EXPERTS = 5, TOP = 3, WIDTH = 64, INNER = 48, ROWS = TOKENS * TOP };

/* A layer's operands. Bits are of bf16. */
typedef struct layer {
    uint16_t x[TOKENS][WIDTH], up[EXPERTS][2 * INNER][WIDTH], down[EXPERTS][WIDTH][INNER];
    int32_t expert[TOKENS][TOP], ends[EXPERTS], rows[ROWS], places[ROWS];
    float weight[TOKENS][TOP], scales[ROWS];
    uint16_t out[TOKENS][WIDTH];
} layer;

static void fill(uint16_t *to, size_t n, double size, tw_random *r) {
    for (size_t i = 0; i < n; i++) to[i] = tw_f32_to_bf16((float)(size * (2 * tw_random_unit(r) - 1)));
}

/* Chooses different experts for each token, none of them the second, and sorts the choices by expert. */
static void route(layer *l, tw_random *r) {
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < TOP; i++) {
            const int first = (int)tw_random_below(r, EXPERTS - 1), step = i ? l->expert[t][i - 1] + 1 : first;
            l->expert[t][i] = step % EXPERTS == 1 ? 2 : step % EXPERTS;
            l->weight[t][i] = (float)tw_random_unit(r);
        }
    int n = 0;
    for (int e = 0; e < EXPERTS; e++) {
        for (int choice = 0; choice < ROWS; choice++) {
            if (l->expert[choice / TOP][choice % TOP] != e) continue;
            l->rows[n] = choice / TOP;
            l->places[n] = choice;
            l->scales[n++] = l->weight[choice / TOP][choice % TOP];
        }
        l->ends[e] = n;
    }
    assert_int_equal(n, ROWS);
}

static double at(const uint16_t *x) {
    return (double)tw_bf16_to_f32(*x);
}

static double want(const layer *l, int token, int column) {
    double sum = 0;
    for (int i = 0; i < TOP; i++) {
        const int e = l->expert[token][i];
        double y = 0;
        for (int j = 0; j < INNER; j++) {
            double gate = 0, value = 0;
            for (int k = 0; k < WIDTH; k++) {
                gate += at(&l->x[token][k]) * at(&l->up[e][j / 8 * 16 + j % 8][k]);
                value += at(&l->x[token][k]) * at(&l->up[e][j / 8 * 16 + 8 + j % 8][k]);
            }
            y += gate / (1 + exp(-gate)) * value * at(&l->down[e][column][j]);
        }
        sum += (double)l->weight[token][i] * y;
    }
    return sum;
}

enum { BUFFERS = 7 };

/* A kernel's words, and its buffers with their addresses. */
typedef struct step {
    const char *words, *configuration;
    struct {
        const char *name;
        uint64_t address;
    } buffers[BUFFERS];
} step;

static void run(tw_gpu *gpu, const step *s) {
    tw_gpu_kernel *k;
    tw_gpu_launch *l;
    tw_diag d;
    if (tw_gpu_kernel_open(&k, gpu, s->words, s->configuration, &d) != TW_OK) fail_msg("%s: %s", s->words, d.message);
    assert_int_equal(tw_gpu_launch_open(&l, k, &d), TW_OK);
    for (int i = 0; i < BUFFERS && s->buffers[i].name; i++)
        if (tw_gpu_launch_bind(l, s->buffers[i].name, s->buffers[i].address, &d) != TW_OK)
            fail_msg("%s: %s", s->buffers[i].name, d.message);
    if (tw_gpu_launch_run(l, NULL, &d) != TW_OK) fail_msg("%s: %s", s->words, d.message);
    tw_gpu_launch_close(l);
    tw_gpu_kernel_close(k);
}

static uint64_t place(tw_gpu *gpu, const void *from, size_t bytes) {
    uint64_t to;
    tw_diag d;
    assert_int_equal(tw_gpu_alloc(gpu, bytes, &to, &d), TW_OK);
    if (from) assert_int_equal(tw_gpu_upload(gpu, to, from, bytes, &d), TW_OK);
    return to;
}

static void a_layer_is_right(void **state) {
    const char *const *configurations = *state;
    layer *l = calloc(1, sizeof *l);
    tw_gpu *gpu;
    tw_diag d;
    tw_random r = tw_random_seed(11);
    char up[200], down[200], sums[200];
    assert_non_null(l);
    fill(&l->x[0][0], sizeof l->x / 2, 1, &r);
    fill(&l->up[0][0][0], sizeof l->up / 2, 0.3, &r);
    fill(&l->down[0][0][0], sizeof l->down / 2, 0.3, &r);
    route(l, &r);
    assert_int_equal(tw_gpu_open(&gpu, "emulator", &d), TW_OK);
    const uint64_t x = place(gpu, l->x, sizeof l->x), ends = place(gpu, l->ends, sizeof l->ends),
                   rows = place(gpu, l->rows, sizeof l->rows), places = place(gpu, l->places, sizeof l->places),
                   scales = place(gpu, l->scales, sizeof l->scales), w_up = place(gpu, l->up, sizeof l->up),
                   w_down = place(gpu, l->down, sizeof l->down), h = place(gpu, NULL, ROWS * INNER * 2),
                   y = place(gpu, NULL, ROWS * WIDTH * 2), out = place(gpu, NULL, sizeof l->out);
    const uint64_t counters = place(gpu, &(int32_t){0}, 4);
    const uint64_t all[] = {counters, x, ends, rows, places, scales, w_up, w_down, h, y, out};
    snprintf(up, sizeof up, "gemm type=bf16 m=%d n=%d k=%d tb=1 groups=%d gather=1 rows_a=%d gated=1 activation=silu",
             ROWS, 2 * INNER, WIDTH, EXPERTS, TOKENS);
    snprintf(down, sizeof down, "gemm type=bf16 m=%d n=%d k=%d tb=1 groups=%d scatter=1", ROWS, WIDTH, INNER, EXPERTS);
    snprintf(sums, sizeof sums, "combine type=bf16 tokens=%d top=%d n=%d", TOKENS, TOP, WIDTH);
    run(gpu, &(step){up,
                     configurations[0],
                     {{"a", x}, {"b", w_up}, {"c", h}, {"ends", ends}, {"rows", rows}, {"counters", counters}}});
    run(gpu, &(step){down,
                     configurations[1],
                     {{"a", h},
                      {"b", w_down},
                      {"c", y},
                      {"ends", ends},
                      {"places", places},
                      {"factors", scales},
                      {"counters", counters}}});
    run(gpu, &(step){sums, NULL, {{"x", y}, {"y", out}}});
    assert_int_equal(tw_gpu_wait(gpu, &d), TW_OK);
    assert_int_equal(tw_gpu_download(gpu, l->out, out, sizeof l->out, &d), TW_OK);
    /* Gated rows, weighted rows and sums are each rounded to bf16. */
    for (int t = 0; t < TOKENS; t++)
        for (int c = 0; c < WIDTH; c++) {
            const double expected = want(l, t, c), is = at(&l->out[t][c]);
            if (!(fabs(is - expected) < 0.02 + 0.02 * fabs(expected)))
                fail_msg("token %d, column %d: %g, not %g", t, c, is, expected);
        }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tw_gpu_release(gpu, all[i]);
    tw_gpu_close(gpu);
    free(l);
}

int main(void) {
    static const char *const plain[] = {
        "mma=2 ms=64 ns=96 ml=128 nl=96 u=64 stages=4 kg=1 vec=16 copy=0 persistent=3 staged=3 group=8",
        "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=3 kg=1 vec=16 copy=0 persistent=2 pingpong=1 staged=2 group=8"};
    static const char *const swapped[] = {
        "mma=2 ms=64 ns=16 ml=64 nl=16 u=64 stages=4 kg=1 vec=16 copy=0 persistent=3 pingpong=1 swap=1",
        "mma=2 ms=64 ns=8 ml=64 nl=8 u=64 stages=5 kg=1 vec=16 copy=0 persistent=4 swap=1"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(a_layer_is_right, (void *)plain),
        cmocka_unit_test_prestate(a_layer_is_right, (void *)swapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
