/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel on a GPU: its results against double precision, and its time. */
#include "base/clock.h"
#include "base/diag.h"
#include "device/cuda/time.h"
#include "kernels/attention/attention.h"

#include <math.h>
#include <stdlib.h>

enum { LAUNCHES = 8 /* Of a graph that is timed. */ };

/* Multiplications and rows of a reference. Of longer ones some queries are compared. */
static const double most_work = 2e7, most_rows = 65536;

struct tw_attention_rig {
    tw_cuda *cuda;
    const tw_attention_data *d;
    const tw_attention_answer *answer;
    uint64_t at[TW_ATTENTION_BUFFERS]; /* What kernels read stays. The rest is of one kernel. */
    tw_gpu_buffer buffers[TW_ATTENTION_BUFFERS];
    tw_cuda_launch launch;
    tw_attention_enqueue *other; /* Enqueues attention that is not ours. NULL: `launch` is it. */
    void *context;
    tw_attention_seconds seconds;
    int64_t since; /* When the present phase began. */
};

/* Ends a phase, which took *seconds more. */
static void pass(tw_attention_rig *r, double *seconds) {
    const int64_t now = tw_now_ns();
    *seconds += (double)(now - r->since) * 1e-9;
    r->since = now;
}

/* Uploads what kernels read. */
static tw_status upload(tw_attention_rig *r, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < TW_ATTENTION_BUFFERS && st == TW_OK; i++) {
        if (!r->d->of[i]) continue;
        st = tw_cuda_alloc(r->cuda, (r->d->bytes[i] + 3) / 4 * 4, &r->at[i], diag);
        if (st == TW_OK) st = tw_cuda_upload(r->cuda, r->at[i], r->d->of[i], r->d->bytes[i], diag);
    }
    return st;
}

/* Allocates what a kernel writes, and poisons it. */
static tw_status poison(tw_attention_rig *r, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < TW_ATTENTION_BUFFERS && st == TW_OK; i++) {
        const tw_gpu_buffer *b = &r->buffers[i];
        const size_t words = (b->bytes + 3) / 4;
        if (!words || r->d->of[i]) continue;
        st = tw_cuda_alloc(r->cuda, words * 4, &r->at[i], diag);
        if (st == TW_OK) st = tw_cuda_fill(r->cuda, r->at[i], b->zeroed ? 0 : UINT32_MAX, words, diag);
    }
    return st;
}

static void release(tw_attention_rig *r, bool all) {
    for (int i = 0; i < TW_ATTENTION_BUFFERS; i++) {
        if (!r->at[i] || (r->d->of[i] && !all)) continue;
        tw_cuda_release(r->cuda, r->at[i]);
        r->at[i] = 0;
    }
}

static tw_status judge(const tw_attention_rig *r, tw_diag *diag) {
    const size_t bytes = r->buffers[TW_ATTENTION_OUT].bytes, more = r->buffers[TW_ATTENTION_LSE].bytes;
    void *out = malloc(bytes), *lse = malloc(more + 1);
    tw_status st = out && lse ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK) st = tw_cuda_download(r->cuda, out, r->at[TW_ATTENTION_OUT], bytes, diag);
    if (st == TW_OK && more) st = tw_cuda_download(r->cuda, lse, r->at[TW_ATTENTION_LSE], more, diag);
    if (st == TW_OK) st = tw_attention_answer_judge(r->answer, out, more ? lse : NULL, diag);
    free(out);
    free(lse);
    return st;
}

static tw_status enqueue(void *context, int i, tw_diag *diag) {
    const tw_attention_rig *r = context;
    (void)i;
    if (r->other) return r->other(r->context, r->at, diag);
    return tw_cuda_run(r->cuda, &r->launch, diag);
}

static tw_status take_samples(tw_attention_rig *r, double *samples, int n, double give_up, int *taken, tw_diag *diag) {
    tw_cuda_timer *t;
    tw_status st = tw_cuda_timer_make(r->cuda, &t, enqueue, r, LAUNCHES, diag);
    if (st != TW_OK) return st;
    for (*taken = 0; *taken < n && st == TW_OK;) {
        st = tw_cuda_timer_sample(t, &samples[(*taken)++], diag);
        if (give_up > 0 && samples[0] > give_up) break;
    }
    tw_cuda_timer_free(t);
    return st;
}

/* Compares what a launch computes, and takes samples of it. */
static tw_status check_and_time(tw_attention_rig *r, double *samples, int n, double give_up, int *taken,
                                tw_diag *diag) {
    tw_status st = TW_OK;
    /* A second launch finds the counters as the first one left them. */
    for (int i = 0; i < 2 && st == TW_OK; i++) st = enqueue(r, i, diag);
    if (st == TW_OK) st = tw_cuda_sync(r->cuda, diag);
    if (st == TW_OK) st = judge(r, diag);
    pass(r, &r->seconds.check);
    if (st == TW_OK && n) st = take_samples(r, samples, n, give_up, taken, diag);
    return st;
}

static tw_status launch(tw_attention_rig *r, const tw_attention_config *c, const tw_cubin *cubin, double *samples,
                        int n, double give_up, int *taken, tw_diag *diag) {
    const tw_attention_problem *p = &r->d->problem;
    const tw_target *t = tw_cuda_describe(r->cuda)->target;
    tw_launch_values l;
    uint64_t words[TW_ARGUMENTS];
    tw_attention_resources need;
    tw_kernel *k = tw_attention_make(p, c, t, false, diag);
    if (!k) return diag->status;
    const tw_signature signature = tw_signature_of(k);
    tw_kernel_free(k);
    tw_attention_legal(p, c, t, &need, NULL);
    tw_attention_launch_of(p, c, r->at, &l);
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
    pass(r, &r->seconds.load);
    if (st == TW_OK) st = check_and_time(r, samples, n, give_up, taken, diag);
    if (r->launch.module) tw_cuda_unload(r->launch.module);
    pass(r, &r->seconds.time);
    return st;
}

tw_status tw_attention_rig_make(tw_attention_rig **out, tw_cuda *cuda, const tw_attention_data *d,
                                const tw_attention_answer *answer, tw_diag *diag) {
    tw_attention_rig *r = *out = calloc(1, sizeof *r);
    if (!r) return tw_fail_memory(diag);
    r->cuda = cuda;
    r->d = d;
    r->answer = answer;
    const tw_status st = upload(r, diag);
    if (st == TW_OK) return st;
    tw_attention_rig_free(r);
    *out = NULL;
    return st;
}

void tw_attention_rig_free(tw_attention_rig *r) {
    if (!r) return;
    release(r, true);
    free(r);
}

const tw_attention_seconds *tw_attention_rig_seconds(const tw_attention_rig *r) {
    return &r->seconds;
}

tw_status tw_attention_rig_try(tw_attention_rig *r, const tw_attention_config *c, const tw_cubin *cubin,
                               double *samples, int n, double give_up, int *taken, tw_diag *diag) {
    tw_diag own;
    int unused;
    if (!diag) diag = &own;
    if (!taken) taken = &unused;
    *taken = 0;
    r->since = tw_now_ns();
    tw_attention_describe_buffers(&r->d->problem, c, r->buffers);
    tw_status st = poison(r, diag);
    if (st == TW_OK) st = launch(r, c, cubin, samples, n, give_up, taken, diag);
    release(r, false);
    return st;
}

tw_status tw_attention_rig_try_other(tw_attention_rig *r, tw_attention_enqueue *other, void *context, double *samples,
                                     int n, double give_up, int *taken, tw_diag *diag) {
    *taken = 0;
    r->since = tw_now_ns();
    for (int i = 0; i < TW_ATTENTION_BUFFERS; i++) r->buffers[i] = (tw_gpu_buffer){.bytes = r->d->bytes[i]};
    r->other = other;
    r->context = context;
    tw_status st = poison(r, diag);
    if (st == TW_OK) st = check_and_time(r, samples, n, give_up, taken, diag);
    pass(r, &r->seconds.time);
    r->other = NULL;
    release(r, false);
    return st;
}

tw_status tw_attention_run(const tw_attention_data *d, const tw_attention_config *c, tw_cuda *cuda,
                           const tw_cubin *cubin, double *samples, int n, tw_diag *diag) {
    const tw_attention_problem *p = &d->problem;
    const double rows = (double)p->queries * (double)(p->ragged ? 1 : p->batch) * (double)p->heads;
    const double work = rows * (double)p->keys * (double)p->head * 2;
    tw_attention_answer *answer;
    tw_attention_rig *r = NULL;
    tw_status st = tw_attention_answer_make(&answer, d, 1 + (int64_t)fmax(work / most_work, rows / most_rows), diag);
    if (st == TW_OK) st = tw_attention_rig_make(&r, cuda, d, answer, diag);
    if (st == TW_OK) st = tw_attention_rig_try(r, c, cubin, samples, n, 0, NULL, diag);
    tw_attention_rig_free(r);
    tw_attention_answer_free(answer);
    return st;
}
