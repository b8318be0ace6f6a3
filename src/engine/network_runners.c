/* SPDX-License-Identifier: Apache-2.0 */
/* The machines that compute networks. */
#include "base/diag.h"
#include "engine/network.h"
#include "graph/run.h"
#include "tilewright/device.h"
#include "vm/network/cpu.h"
#include "vm/network/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- node by node */

static tw_status open_plain(struct tw_network *n, const char *device, tw_diag *diag) {
    (void)device;
    (void)diag;
    snprintf(n->device, sizeof n->device, "plain");
    return TW_OK;
}

static void close_nothing(struct tw_network *n) {
    (void)n;
}

static tw_status run_plain(struct tw_network *n, tw_bucket *b, const void *const *in, void *const *out, tw_diag *diag) {
    const tw_graph *g = b->graph ? b->graph : n->model;
    (void)in; /* The bucket has them. */
    (void)out;
    tw_arena_free(&b->results);
    const tw_array **inputs = tw_arena_array(&b->results, (size_t)g->n_inputs + 1, sizeof *inputs);
    if (!inputs) return tw_fail_memory(diag);
    for (int i = 0; i < g->n_inputs; i++) inputs[i] = &b->inputs[i];
    return tw_graph_run(g, inputs, &b->results, b->outputs, diag);
}

const tw_network_runner tw_runner_plain = {
    .name = "plain", .open = open_plain, .close = close_nothing, .run = run_plain};

/* ---- a processor */

static tw_status open_cpu(struct tw_network *n, const char *device, tw_diag *diag) {
    (void)device;
    snprintf(n->device, sizeof n->device, "cpu");
    return tw_cpu_pool_open((tw_cpu_pool **)&n->machine, n->options.threads, NULL, diag);
}

static void close_cpu(struct tw_network *n) {
    tw_cpu_pool_close(n->machine);
    n->machine = NULL;
}

static tw_status prepare_cpu(struct tw_network *n, tw_bucket *b, tw_diag *diag) {
    return tw_cpu_network_open((tw_cpu_network **)&b->state, b->program, n->machine, diag);
}

static void drop_cpu(tw_bucket *b) {
    tw_cpu_network_close(b->state);
}

static tw_status run_cpu(struct tw_network *n, tw_bucket *b, const void *const *in, void *const *out, tw_diag *diag) {
    if (!b->state) return run_plain(n, b, in, out, diag);
    return tw_cpu_network_run(b->state, in, out, diag);
}

static void describe_cpu(const struct tw_network *n, const tw_bucket *b, tw_network_info *info) {
    if (b->state) info->memory_bytes = tw_cpu_pool_bytes(n->machine) + tw_cpu_network_bytes(b->state);
}

static tw_status explain_cpu(struct tw_network *n, tw_bucket *b, tw_buf *out, tw_diag *diag) {
    if (!b->state) return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s runs this plainly, without a schedule", n->device);
    return tw_ranges_print(tw_cpu_network_schedule(b->state), out) ? TW_OK : tw_fail_memory(diag);
}

const tw_network_runner tw_runner_cpu = {.name = "cpu",
                                         .lowers = true,
                                         .open = open_cpu,
                                         .close = close_cpu,
                                         .prepare = prepare_cpu,
                                         .drop = drop_cpu,
                                         .run = run_cpu,
                                         .describe = describe_cpu,
                                         .explain = explain_cpu};

/* ---- a GPU */

static void close_cuda(struct tw_network *n) {
    tw_gpu_machine *m = n->machine;
    n->machine = NULL;
    if (!m) return;
    tw_network_weights_close(m->weights);
    tw_gpu_close(m->gpu);
    free(m);
}

static tw_status open_cuda(struct tw_network *n, const char *device, tw_diag *diag) {
    tw_gpu_machine *m = n->machine = calloc(1, sizeof *m);
    if (!m) return tw_fail_memory(diag);
    tw_status st = tw_gpu_open(&m->gpu, device, diag);
    if (st == TW_OK) st = tw_network_weights_open(&m->weights, m->gpu, diag);
    snprintf(n->device, sizeof n->device, "%s", device);
    if (st != TW_OK) close_cuda(n);
    return st;
}

static void lowering_cuda(const struct tw_network *n, tw_program_options *o) {
    const tw_gpu_machine *m = n->machine;
    const bool vendor_alone = n->options.products == TW_PRODUCTS_VENDOR;
    o->norm_rows = TW_CUDA_NETWORK_NORM_ROWS;
    o->norms = !vendor_alone && !n->options.norms_apart && tw_cuda_network_joins_norms(m->gpu);
}

static tw_status prepare_cuda(struct tw_network *n, tw_bucket *b, tw_diag *diag) {
    const tw_gpu_machine *m = n->machine;
    const tw_cuda_network_options o = {.by = (n->options.products & TW_PRODUCTS_OWN ? TW_NETWORK_OWN : 0) |
                                             (n->options.products & TW_PRODUCTS_VENDOR ? TW_NETWORK_VENDOR : 0),
                                       .unsplit = n->options.unsplit,
                                       .unsplit_batches = n->options.unsplit_batches,
                                       .clear = n->options.clear_counters,
                                       .search = n->options.search,
                                       .seconds = n->options.seconds};
    return tw_cuda_network_open((tw_cuda_network **)&b->state, b->program, m->weights, &o, &n->plan, diag);
}

static void drop_cuda(tw_bucket *b) {
    tw_cuda_network_close(b->state);
}

static tw_status run_cuda(struct tw_network *n, tw_bucket *b, const void *const *in, void *const *out, tw_diag *diag) {
    (void)n;
    return tw_cuda_network_run(b->state, in, out, diag);
}

static tw_status time_cuda(struct tw_network *n, tw_bucket *b, double *us, int samples, tw_diag *diag) {
    (void)n;
    return tw_cuda_network_time(b->state, 1, us, samples, diag);
}

static void describe_cuda(const struct tw_network *n, const tw_bucket *b, tw_network_info *info) {
    (void)n;
    info->launches = tw_cuda_network_launches(b->state);
    info->memory_bytes = tw_cuda_network_bytes(b->state);
}

static tw_status explain_cuda(struct tw_network *n, tw_bucket *b, tw_buf *out, tw_diag *diag) {
    const tw_status st = tw_network_plan_explain(&n->plan, out, diag);
    return st == TW_OK ? tw_cuda_network_explain(b->state, !!strncmp(n->device, "emulator", 8), out, diag) : st;
}

const tw_network_runner tw_runner_cuda = {.name = "cuda",
                                          .lowers = true,
                                          .gpu = true,
                                          .open = open_cuda,
                                          .close = close_cuda,
                                          .lowering = lowering_cuda,
                                          .prepare = prepare_cuda,
                                          .drop = drop_cuda,
                                          .run = run_cuda,
                                          .time = time_cuda,
                                          .describe = describe_cuda,
                                          .explain = explain_cuda};
