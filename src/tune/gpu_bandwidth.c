/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gpu_bandwidth.h"

#include "base/diag.h"
#include "ir/builder.h"
#include "ir/passes/passes.h"
#include "ptx/load.h"

enum { PASSES = 6, REPLAYS = 8, BLOCKS_PER_SM = 4, L2_TIMES = 32 };

tw_kernel *tw_cuda_read_kernel(int sm) {
    tw_kernel *k = tw_kernel_new("read", sm, TW_READ_THREADS);
    if (!k) return NULL;
    tw_builder b = tw_builder_of(k);
    tw_val from = tw_pointer_add(&b, "from", 16, true), to = tw_pointer_add(&b, "to", 4, false);
    tw_val chunks = tw_parameter_add(&b, "chunks", TW_T_i32), blocks = tw_parameter_add(&b, "blocks", TW_T_i32);
    tw_val thread = tw_sreg(&b, TW_SREG_tid_x), block = tw_sreg(&b, TW_SREG_ctaid_x);
    tw_val sum = tw_var_of(&b, tw_i32(&b, 0));
    tw_val first = tw_add(&b, from, tw_widen(&b, tw_mul_imm(&b, thread, 16)));
    TW_FOR (&b, chunk, block, chunks, blocks, false) {
        tw_val at = tw_add(&b, first, tw_mul_imm(&b, tw_widen(&b, chunk), TW_READ_CHUNK)),
               word[TW_READ_LOADS][4] = {{TW_NONE}};
        /* All loads are issued before the first is used. */
        for (int i = 0; i < TW_READ_LOADS; i++)
            tw_ld_vec(
                &b,
                (tw_attrs){
                    .type = TW_T_i32, .vec = 4, .cache = TW_CACHE_no_allocate, .offset = i * TW_READ_THREADS * 16},
                at, word[i]);
        for (int i = 0; i < TW_READ_LOADS; i++)
            for (int j = 0; j < 4; j++) tw_assign(&b, sum, tw_xor(&b, sum, word[i][j]));
    }
    tw_val index = tw_add(&b, tw_mul_imm(&b, block, TW_READ_THREADS), thread);
    tw_st(&b, (tw_attrs){.type = TW_T_i32}, tw_add(&b, to, tw_widen(&b, tw_mul_imm(&b, index, 4))), &sum);
    return k;
}

static tw_status load(tw_cuda *c, tw_cuda_module **out, tw_diag *diag) {
    const tw_ptx_compiler by = tw_ptx_compiler_for(c, true);
    tw_kernel *k = tw_cuda_read_kernel(tw_cuda_describe(c)->target->sm);
    tw_status st = k ? tw_pipeline_default(k, false, diag) : tw_fail_memory(diag);
    if (st == TW_OK) st = tw_ptx_load(&by, k, out, NULL, diag);
    tw_kernel_free(k);
    return st;
}

/* Finds the best of some passes. Each has several launches back to back, so that starting does not count. */
static tw_status time_reads(tw_cuda *c, const tw_cuda_launch *l, double *microseconds, tw_diag *diag) {
    tw_cuda_graph *graph = NULL;
    tw_status st = tw_cuda_capture_begin(c, diag);
    if (st != TW_OK) return st;
    tw_status run = tw_cuda_run(c, l, diag);
    st = tw_cuda_capture_end(c, &graph, run == TW_OK ? diag : NULL);
    if (run != TW_OK) st = run;
    *microseconds = 0;
    for (int i = 0; i < PASSES && st == TW_OK; i++) {
        double us = 0;
        st = tw_cuda_graph_time(c, graph, REPLAYS, &us, diag);
        us /= REPLAYS;
        if (i && (us < *microseconds || i == 1)) *microseconds = us; /* The first pass warms up. */
    }
    tw_cuda_graph_free(graph);
    return st;
}

tw_status tw_cuda_measure_bandwidth(int device, double *bytes_per_second, tw_diag *diag) {
    tw_cuda *c = NULL;
    tw_cuda_module *module = NULL;
    uint64_t from = 0, to = 0;
    double microseconds = 0;
    tw_status st = tw_cuda_open(&c, device, diag);
    if (st != TW_OK) return st;
    const tw_cuda_info *info = tw_cuda_describe(c);
    int64_t bytes = L2_TIMES * info->l2_bytes;
    if (bytes < INT64_C(256) << 20) bytes = INT64_C(256) << 20;
    if (bytes > info->memory_bytes / 8) bytes = info->memory_bytes / 8;
    int64_t chunks = bytes / TW_READ_CHUNK;
    int blocks = BLOCKS_PER_SM * info->sms;
    bytes = chunks * TW_READ_CHUNK;
    st = load(c, &module, diag);
    if (st == TW_OK) st = tw_cuda_alloc(c, (size_t)bytes, &from, diag);
    if (st == TW_OK) st = tw_cuda_alloc(c, (size_t)blocks * TW_READ_THREADS * 4, &to, diag);
    if (st == TW_OK) st = tw_cuda_fill(c, from, 0x3c5a9b71, (size_t)bytes / 4, diag);
    const uint64_t arguments[] = {from, to, (uint64_t)chunks, (uint64_t)blocks};
    static const int sizes[] = {8, 8, 4, 4};
    const tw_cuda_launch l = {.module = module,
                              .grid = {blocks, 1, 1},
                              .threads = TW_READ_THREADS,
                              .arguments = arguments,
                              .argument_bytes = sizes,
                              .n_arguments = 4};
    if (st == TW_OK) st = time_reads(c, &l, &microseconds, diag);
    if (from) tw_cuda_release(c, from);
    if (to) tw_cuda_release(c, to);
    if (module) tw_cuda_unload(module);
    tw_cuda_close(c);
    if (st == TW_OK) *bytes_per_second = (double)bytes / microseconds * 1e6;
    return st;
}
