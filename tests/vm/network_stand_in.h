/* SPDX-License-Identifier: Apache-2.0 */
/* A machine on the stand-in for the driver, and networks on it, for tests that include device/fake_cuda.h. */
#ifndef TW_TEST_NETWORK_STAND_IN_H
#define TW_TEST_NETWORK_STAND_IN_H

#include "base/diag.h"
#include "device/fake_cuda.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "graph/text.h"
#include "support/support.h"
#include "vm/network/machine.h"

#include <stdlib.h>
#include <string.h>

/* The second product takes longer. */
static const char products[] = "graph \"products\" @23\n"
                               "  input %x: f16[2, 16, 64]\n"
                               "  constant %v: f16[64, 512] random 7\n"
                               "  constant %w: f16[512, 512] random 8\n"
                               "  %p = MatMul(%x, %v)\n"
                               "  %y = MatMul(%p, %w)\n"
                               "  output %y\n";

typedef struct made {
    tw_graph *graph;
    tw_program *program;
    tw_gpu *gpu;
    tw_network_weights *weights;
    tw_network_plan plan;
} made;

static made m;

static void good(tw_status st, const tw_diag *diag) {
    if (st != TW_OK) fail_msg("%s", diag->message);
}

/* Opens a machine, and lowers a graph for it. */
static int open_lowered(const char *text, const tw_program_options *o) {
    const tw_array x = {.type = TW_E_f16, .rank = 3, .dims = {2, 16, 64}};
    const tw_array *in[] = {&x};
    tw_graph *g = NULL;
    tw_diag diag = {0};
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    setenv("TILEWRIGHT_LIBCUBLASLT", TW_FAKE_CUBLASLT, 1);
    setenv("TILEWRIGHT_LIBCUDNN", TW_FAKE_CUDNN, 1);
    unsetenv("TILEWRIGHT_PTXAS");
    fake_cuda_reset();
    good(tw_graph_parse(&g, text, strlen(text), "text", &diag), &diag);
    good(tw_graph_resolve(g, "text", &diag), &diag);
    good(tw_graph_specialize(&m.graph, g, in, &diag), &diag);
    tw_graph_free(g);
    good(tw_graph_fuse(m.graph, NULL, &diag), &diag);
    good(tw_graph_resolve(m.graph, "text", &diag), &diag);
    good(tw_program_lower(&m.program, m.graph, o, &diag), &diag);
    good(tw_gpu_open(&m.gpu, "cuda", &diag), &diag);
    good(tw_network_weights_open(&m.weights, m.gpu, &diag), &diag);
    return 0;
}

static inline int open_text(const char *text) {
    return open_lowered(text, &(tw_program_options){.gpu = true});
}

static inline int open_products(void **state) {
    (void)state;
    return open_text(products);
}

static int close_all(void **state) {
    (void)state;
    tw_network_weights_close(m.weights);
    tw_gpu_close(m.gpu);
    tw_program_free(m.program);
    tw_graph_free(m.graph);
    tw_network_plan_free(&m.plan);
    m = (made){0};
    return fake_cuda_alive(); /* An error for cmocka. */
}

/* Opens a network, runs it twice, times it, and shows it. Returns its number of launches. */
static inline int use(const tw_cuda_network_options *o, tw_network_plan *plan) {
    static char x[2 * 16 * 64 * 2], y[2 * 16 * 512 * 2];
    const void *in[] = {x};
    void *out[] = {y};
    tw_cuda_network *n;
    tw_diag diag = {0};
    tw_buf text = {0};
    double us[3];
    good(tw_cuda_network_open(&n, m.program, m.weights, o, plan, &diag), &diag);
    const int launches = tw_cuda_network_launches(n), before = fake_cuda_look()->replays;
    assert_int_equal(tw_cuda_network_time(n, 2, us, 3, &diag), TW_ERR_UNSUPPORTED);
    for (int i = 0; i < 2; i++) good(tw_cuda_network_run(n, in, out, &diag), &diag);
    assert_int_equal(fake_cuda_look()->replays, before + 1); /* The first run is captured behind its end. */
    good(tw_cuda_network_time(n, 2, us, 3, &diag), &diag);
    assert_true(us[0] > 0 && tw_cuda_network_bytes(n) > 0);
    good(tw_cuda_network_explain(n, true, &text, &diag), &diag);
    int lines = 0;
    for (size_t i = 0; i < text.size; i++) lines += text.data[i] == '\n';
    assert_int_equal(lines, launches);
    tw_buf_free(&text);
    tw_cuda_network_close(n);
    return launches;
}

#endif
