/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel on a GPU: its results against double precision, and its time. */
#include "base/diag.h"
#include "device/cuda/time.h"
#include "kernels/attention/attention.h"

#include <stdlib.h>

enum { LAUNCHES = 8 /* Of a graph that is timed. */ };

/* Multiplications of a reference. Of longer ones some queries are compared. */
static const double most_work = 2e7;

typedef struct run {
    tw_cuda *cuda;
    tw_gpu_buffer buffers[TW_ATTENTION_BUFFERS];
    uint64_t at[TW_ATTENTION_BUFFERS];
    tw_cuda_launch launch;
} run;

/* What the kernel reads is uploaded, and what it writes poisoned. */
static tw_status upload(run *r, const tw_attention_data *d, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < TW_ATTENTION_BUFFERS && st == TW_OK; i++) {
        const tw_gpu_buffer *b = &r->buffers[i];
        const size_t words = (b->bytes + 3) / 4;
        if (!words) continue;
        st = tw_cuda_alloc(r->cuda, words * 4, &r->at[i], diag);
        if (st == TW_OK && b->written) st = tw_cuda_fill(r->cuda, r->at[i], b->zeroed ? 0 : UINT32_MAX, words, diag);
        if (st == TW_OK && !b->written) st = tw_cuda_upload(r->cuda, r->at[i], d->of[i], b->bytes, diag);
    }
    return st;
}

static tw_status judge(const run *r, const tw_attention_data *d, tw_diag *diag) {
    const tw_attention_problem *p = &d->problem;
    const size_t bytes = r->buffers[TW_ATTENTION_OUT].bytes, more = r->buffers[TW_ATTENTION_LSE].bytes;
    const double rows = (double)p->queries * (double)(p->ragged ? 1 : p->batch) * (double)p->heads;
    const double work = rows * (double)p->keys * (double)p->head * 2;
    void *out = malloc(bytes), *lse = malloc(more + 1);
    tw_status st = out && lse ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK) st = tw_cuda_download(r->cuda, out, r->at[TW_ATTENTION_OUT], bytes, diag);
    if (st == TW_OK && more) st = tw_cuda_download(r->cuda, lse, r->at[TW_ATTENTION_LSE], more, diag);
    if (st == TW_OK) st = tw_attention_data_judge(d, out, more ? lse : NULL, 1 + (int64_t)(work / most_work), diag);
    free(out);
    free(lse);
    return st;
}

static tw_status enqueue(void *context, int i, tw_diag *diag) {
    const run *r = context;
    (void)i;
    return tw_cuda_run(r->cuda, &r->launch, diag);
}

static tw_status launch(run *r, const tw_attention_data *d, const tw_attention_config *c, const tw_cubin *cubin,
                        double *samples, int n, tw_diag *diag) {
    const tw_target *t = tw_cuda_describe(r->cuda)->target;
    tw_launch_values l;
    uint64_t words[TW_ARGUMENTS];
    tw_attention_resources need;
    tw_kernel *k = tw_attention_make(&d->problem, c, t, false, diag);
    if (!k) return diag->status;
    const tw_signature signature = tw_signature_of(k);
    tw_kernel_free(k);
    tw_attention_legal(&d->problem, c, t, &need, NULL);
    tw_attention_launch_of(&d->problem, c, r->at, &l);
    tw_arguments_place(&l.arguments, &signature, words);
    r->launch = (tw_cuda_launch){.grid = {l.grid[0], l.grid[1], l.grid[2]},
                                 .threads = need.threads,
                                 .dynamic_shared = need.shared_bytes,
                                 .programmatic = l.early,
                                 .arguments = words,
                                 .argument_bytes = signature.bytes,
                                 .n_arguments = signature.n};
    tw_status st =
        tw_cuda_load(r->cuda, &r->launch.module, cubin->data, cubin->bytes, "attention", need.shared_bytes, diag);
    /* A second launch finds the counters as the first one left them. */
    for (int i = 0; i < 2 && st == TW_OK; i++) st = enqueue(r, i, diag);
    if (st == TW_OK) st = tw_cuda_sync(r->cuda, diag);
    if (st == TW_OK) st = judge(r, d, diag);
    if (st == TW_OK && n) st = tw_cuda_time(r->cuda, enqueue, r, LAUNCHES, n, samples, diag);
    if (r->launch.module) tw_cuda_unload(r->launch.module);
    return st;
}

tw_status tw_attention_run(const tw_attention_data *d, const tw_attention_config *c, tw_cuda *cuda,
                           const tw_cubin *cubin, double *samples, int n, tw_diag *diag) {
    tw_diag own;
    run r = {.cuda = cuda};
    if (!diag) diag = &own;
    tw_attention_describe_buffers(&d->problem, c, r.buffers);
    tw_status st = upload(&r, d, diag);
    if (st == TW_OK) st = launch(&r, d, c, cubin, samples, n, diag);
    for (int i = 0; i < TW_ATTENTION_BUFFERS; i++)
        if (r.at[i]) tw_cuda_release(cuda, r.at[i]);
    return st;
}
