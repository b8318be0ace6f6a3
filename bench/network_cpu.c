/* SPDX-License-Identifier: Apache-2.0 */
/* Times an encoder of BERT-base's shape with random weights on a processor:

       network_cpu [TOKENS [THREADS [SECONDS [LAYERS [SCHEDULE.json]]]]] */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/random.h"
#include "kernels/rows/rows.h"
#include "vm/network/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DIM = 768, HEADS = 12, FFN = 3072 };

/* Processor time of all threads, which neighbours on the machine do not lengthen as they do the time that passes. */
static double busy_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

typedef struct maker {
    tw_program *p;
    tw_random random;
    int64_t tokens;
} maker;

static int constant(maker *m, const char *name, int64_t elements, float by) {
    float *x = tw_arena_array(&m->p->arena, (size_t)elements, sizeof *x);
    for (int64_t i = 0; i < elements; i++) x[i] = by * (float)(tw_random_unit(&m->random) - 0.5);
    return tw_program_add_buffer(
        m->p, &(tw_program_buffer){.name = name, .kind = TW_PROGRAM_CONSTANT, .bytes = 4 * elements, .content = x});
}

static int scratch(maker *m, const char *name, int64_t elements) {
    return tw_program_add_buffer(
        m->p, &(tw_program_buffer){.name = name, .kind = TW_PROGRAM_SCRATCH, .bytes = 4 * elements, .offset = -1});
}

static tw_view matrix(int buffer, int64_t rows, int64_t cols) {
    return tw_view_dense(buffer, TW_E_f32, 2, (const int64_t[]){rows, cols});
}

static void product(maker *m, int a, int out, int64_t n, int64_t k, tw_gemm_activation activation, int residual) {
    tw_view in[5] = {matrix(a, m->tokens, k),
                     matrix(constant(m, "w", k * n, 0.06f), k, n),
                     matrix(constant(m, "b", n, 0.1f), 1, n),
                     {.buffer = -1},
                     {.buffer = -1}},
            to = matrix(out, m->tokens, n);
    if (residual >= 0) in[4] = matrix(residual, m->tokens, n);
    tw_step s = {.kind = TW_STEP_PRODUCT, .in = in, .out = &to, .n_in = 5, .n_out = 1};
    s.of.product = (tw_program_product){.type = TW_E_f32,
                                        .out = TW_E_f32,
                                        .m = m->tokens,
                                        .n = n,
                                        .k = k,
                                        .lda = k,
                                        .ldb = n,
                                        .ldc = n,
                                        .batch = {1, 1, 1},
                                        .alpha = 1,
                                        .activation = activation};
    tw_program_add_step(m->p, &s);
}

static void attend(maker *m, int qkv, int out) {
    const int64_t dims[4] = {1, HEADS, m->tokens, DIM / HEADS}, wide = 3 * DIM;
    tw_view in[3], to = tw_view_dense(out, TW_E_f32, 4, dims);
    for (int i = 0; i < 3; i++) {
        in[i] = tw_view_dense(qkv, TW_E_f32, 4, dims);
        in[i].offset = 4 * i * DIM;
        memcpy(in[i].strides, (int64_t[]){m->tokens * wide, DIM / HEADS, wide, 1}, 4 * sizeof(int64_t));
    }
    memcpy(to.strides, (int64_t[]){m->tokens * DIM, DIM / HEADS, DIM, 1}, 4 * sizeof(int64_t));
    tw_step s = {.kind = TW_STEP_ATTENTION, .in = in, .out = &to, .n_in = 3, .n_out = 1};
    s.of.attention = (tw_program_attention){.type = TW_E_f32,
                                            .batch = 1,
                                            .heads = HEADS,
                                            .kv_heads = HEADS,
                                            .queries = m->tokens,
                                            .keys = m->tokens,
                                            .head = DIM / HEADS,
                                            .head_v = DIM / HEADS,
                                            .scale = 0.125};
    tw_program_add_step(m->p, &s);
}

static void norm(maker *m, int x, int out) {
    tw_rows_problem *r = tw_arena_alloc(&m->p->arena, sizeof *r);
    const tw_point_operand dense = {.type = TW_M_f32, .strides = {DIM, 1}},
                           vector = {.type = TW_M_f32, .strides = {0, 1}};
    *r = (tw_rows_problem){.of = TW_ROWS_layer_norm,
                           .eps = 1e-12f,
                           .has_gain = true,
                           .has_bias = true,
                           .gain = vector,
                           .bias = vector,
                           .out = dense};
    r->x = (tw_points){.rank = 2, .dims = {m->tokens, DIM}, .n_operands = 1, .operands = {dense}};
    tw_cells_operand(&r->x.cells, 0, TW_M_f32);
    tw_view in[3] = {matrix(x, m->tokens, DIM), matrix(constant(m, "gain", DIM, 2), 1, DIM),
                     matrix(constant(m, "shift", DIM, 0.1f), 1, DIM)},
            to = matrix(out, m->tokens, DIM);
    tw_step s = {.kind = TW_STEP_ROWS, .in = in, .out = &to, .n_in = 3, .n_out = 1, .of.rows = r};
    tw_program_add_step(m->p, &s);
}

static void make(maker *m, int layers) {
    const int64_t T = m->tokens;
    static int in, out;
    in = tw_program_add_buffer(m->p, &(tw_program_buffer){.name = "x", .kind = TW_PROGRAM_INPUT, .bytes = 4 * T * DIM});
    out =
        tw_program_add_buffer(m->p, &(tw_program_buffer){.name = "y", .kind = TW_PROGRAM_OUTPUT, .bytes = 4 * T * DIM});
    m->p->inputs = &in;
    m->p->outputs = &out;
    m->p->n_inputs = m->p->n_outputs = 1;
    int x = in;
    for (int i = 0; i < layers; i++) {
        int qkv = scratch(m, "qkv", T * 3 * DIM), att = scratch(m, "att", T * DIM), sum = scratch(m, "sum", T * DIM),
            mid = scratch(m, "mid", T * DIM), h = scratch(m, "h", T * FFN), sum2 = scratch(m, "sum2", T * DIM),
            next = i + 1 == layers ? out : scratch(m, "next", T * DIM);
        product(m, x, qkv, 3 * DIM, DIM, TW_GEMM_LINEAR, -1);
        attend(m, qkv, att);
        product(m, att, sum, DIM, DIM, TW_GEMM_LINEAR, x);
        norm(m, sum, mid);
        product(m, mid, h, FFN, DIM, TW_GEMM_GELU_ERF, -1);
        product(m, h, sum2, DIM, FFN, TW_GEMM_LINEAR, mid);
        norm(m, sum2, next);
        x = next;
    }
}

/* A plan by hand until memory is planned elsewhere: nothing is shared. */
static void plan(tw_program *p) {
    for (int i = 0; i < p->n_buffers; i++) {
        tw_program_buffer *b = &p->buffers[i];
        if (b->kind != TW_PROGRAM_SCRATCH) continue;
        b->offset = p->scratch_bytes;
        p->scratch_bytes += (b->bytes + TW_PROGRAM_ALIGN - 1) / TW_PROGRAM_ALIGN * TW_PROGRAM_ALIGN;
    }
}

int main(int argc, char **argv) {
    const int64_t tokens = argc > 1 ? atoi(argv[1]) : 512;
    const int threads = argc > 2 ? atoi(argv[2]) : 2, layers = argc > 4 ? atoi(argv[4]) : 12;
    const double seconds = argc > 3 ? atof(argv[3]) : 5;
    tw_graph *g = tw_graph_new();
    maker m = {tw_program_new(g), tw_random_seed(1), tokens};
    tw_cpu_network *n;
    tw_diag d;
    make(&m, layers);
    plan(m.p);
    int64_t start = tw_now_ns();
    if (tw_cpu_network_open(&n, m.p, threads, NULL, &d) != TW_OK) {
        fprintf(stderr, "%s\n", d.message);
        return 1;
    }
    printf("opened in %.1f ms\n", (double)(tw_now_ns() - start) / 1e6);
    if (argc > 5) tw_ranges_write(tw_cpu_network_schedule(n), argv[5], &d);
    float *x = malloc((size_t)(4 * tokens * DIM)), *y = malloc((size_t)(4 * tokens * DIM));
    for (int64_t i = 0; i < tokens * DIM; i++) x[i] = (float)(tw_random_unit(&m.random) - 0.5);
    double best = 1e9, sum = 0, least = 1e9;
    int runs = 0;
    for (int64_t begin = tw_now_ns(); (double)(tw_now_ns() - begin) < seconds * 1e9 || !runs; runs++) {
        start = tw_now_ns();
        const double busy = busy_ms();
        if (tw_cpu_network_run(n, (const void *[]){x}, (void *[]){y}, &d) != TW_OK) return 1;
        const double ms = (double)(tw_now_ns() - start) / 1e6;
        if (busy_ms() - busy < least) least = busy_ms() - busy;
        if (ms < best) best = ms;
        sum += ms;
    }
    double norm_of = 0;
    for (int64_t i = 0; i < tokens * DIM; i++) norm_of += (double)y[i] * y[i];
    printf("best %.2f ms, mean %.2f ms of %d runs; processor time at least %.2f ms; sum of squares %.6f\n", best,
           sum / runs, runs, least, norm_of);
    tw_cpu_network_close(n);
    m.p->inputs = m.p->outputs = NULL;
    tw_program_free(m.p);
    tw_graph_free(g);
    free(x);
    free(y);
    return 0;
}
