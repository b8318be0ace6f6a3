/* SPDX-License-Identifier: Apache-2.0 */
/* replay [--times N] [--device NAME]: launches of deterministic kernels on two streams at once, each stream with
   buffers of its own, N times in all (10,000 unless given). Every result must be the first one bit for bit, and the
   first one must be right. Chains launch two products, of which the second reads what the first writes, early and
   without waiting in between. A line of JSON for each kernel; exit status 1 where a result differs; 77 where there is
   no GPU. */
#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"
#include "base/diag.h"
#include "kernels/gemm/reference.h"
#include "tilewright/kernel.h"

#include <dlfcn.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 2, SLOTS = 8, NO_GPU = 77, SEED = 7 };

static const struct {
    const char *name, *problem, *configuration;
    bool chain; /* n is k, so that C may be the next product's A. */
} cases[] = {
    {"last", "type=f32 m=200 n=136 k=1000", "mma=0 ms=4 ns=4 ml=64 nl=64 u=16 ks=1 kl=1 kg=5 stages=3 split=0", false},
    {"serial", "type=f16 m=200 n=136 k=1000", "mma=1 ms=32 ns=32 ml=64 nl=64 u=32 ks=1 kl=1 kg=5 stages=3 split=1",
     false},
    {"cluster", "type=bf16 m=200 n=136 k=1024 tb=1",
     "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 ks=1 kl=1 kg=4 stages=4 split=3 swap=0", false},
    {"warpgroups, last", "type=bf16 m=200 n=136 k=1024 tb=1",
     "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 ks=1 kl=1 kg=4 stages=4 split=0 swap=0", false},
    {"stream of all", "type=bf16 m=520 n=392 k=1024 tb=1",
     "mma=2 ms=64 ns=64 ml=128 nl=64 u=64 ks=1 kl=1 kg=1 stages=4 persistent=19 stream=1", false},
    {"stream of the rest", "type=bf16 m=520 n=392 k=1024 tb=1",
     "mma=2 ms=64 ns=64 ml=128 nl=64 u=64 ks=1 kl=1 kg=1 stages=4 persistent=13 stream=2", false},
    {"teams", "type=bf16 m=520 n=392 k=512 tb=1",
     "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 ks=1 kl=1 kg=1 stages=4 persistent=13 pingpong=1 staged=3", false},
    {"groups", "type=bf16 m=520 n=392 k=512 tb=1 groups=5",
     "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 ks=1 kl=1 kg=1 stages=4 persistent=13 pingpong=1 staged=3", false},
    {"tf32x3", "type=tf32x3 m=200 n=136 k=1024 tb=1",
     "mma=2 ms=64 ns=64 ml=128 nl=64 u=32 ks=1 kl=1 kg=3 vec=16 stages=4 split=0", false},
    {"e4m3", "type=e4m3 m=200 n=136 k=1024 tb=1 promote=1",
     "mma=2 ms=64 ns=64 ml=128 nl=64 u=128 ks=1 kl=1 kg=2 vec=16 stages=4 split=0", false},
    {"chain", "type=bf16 m=64 n=1024 k=1024 tb=1 weights=1",
     "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 ks=1 kl=1 kg=4 stages=4 split=3 swap=0 early=2", true},
    {"chain of tiles", "type=bf16 m=256 n=1024 k=1024 tb=1 weights=1",
     "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 ks=1 kl=1 kg=1 stages=4 persistent=11 pingpong=1 staged=3 early=1", true},
};
enum { CASES = sizeof cases / sizeof *cases };

/* The launches of one stream. Each slot has a C of its own, and a slot of a chain also the C of its first product. */
typedef struct lane {
    void *stream;
    uint64_t c[SLOTS], between[SLOTS], workspace[2], counters[2];
    tw_gpu_launch *launch[SLOTS][2];
} lane;

typedef struct run {
    tw_gpu *gpu;
    tw_gpu_kernel *kernel;
    tw_gemm_data data;
    uint64_t at[TW_GEMM_MATRICES];
    lane lanes[STREAMS];
    size_t bytes; /* Bytes of C. */
    bool chain;
} run;

/* The driver's functions for streams, which no header of Tilewright has. */
static struct { int (*create)(void **stream, unsigned flags), (*synchronise)(void *stream); } driver;

static tw_status fail_driver(tw_diag *diag) {
    return tw_fail(diag, TW_ERR_IO, "the driver cannot make, or wait for, a stream");
}

static tw_status make_stream(const run *r, void **stream, tw_diag *diag) {
    *stream = NULL;
    if (tw_gpu_emulated(r->gpu)) return TW_OK;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return fail_driver(diag);
    *(void **)&driver.create = dlsym(library, "cuStreamCreate");
    *(void **)&driver.synchronise = dlsym(library, "cuStreamSynchronize");
    enum { NON_BLOCKING = 1 };
    return driver.create && driver.synchronise && !driver.create(stream, NON_BLOCKING) ? TW_OK : fail_driver(diag);
}

static tw_status wait_for_all(const run *r, tw_diag *diag) {
    for (int s = 0; s < STREAMS; s++)
        if (r->lanes[s].stream && driver.synchronise(r->lanes[s].stream)) return fail_driver(diag);
    return tw_gpu_wait(r->gpu, diag);
}

/* -- buffers and launches */

static tw_status filled(const run *r, size_t bytes, int byte, uint64_t *at, tw_diag *diag) {
    char *from = malloc(bytes ? bytes : 1);
    if (!from) return tw_fail_memory(diag);
    memset(from, byte, bytes);
    tw_status st = tw_gpu_alloc(r->gpu, bytes, at, diag);
    if (st == TW_OK) st = tw_gpu_upload(r->gpu, *at, from, bytes, diag);
    free(from);
    return st;
}

static tw_status bind(const run *r, lane *l, int slot, int product, tw_diag *diag) {
    tw_gpu_launch *of = l->launch[slot][product];
    tw_status st = TW_OK;
    for (int i = 0; i < tw_gpu_kernel_buffers(r->kernel) && st == TW_OK; i++) {
        const tw_gpu_buffer *b = tw_gpu_kernel_buffer(r->kernel, i);
        const bool counters = !strcmp(b->name, "counters");
        uint64_t at = 0;
        for (int m = 0; m < TW_GEMM_MATRICES; m++)
            if (!strcmp(b->name, tw_gemm_buffer_names[m])) at = r->at[m];
        if (!strcmp(b->name, "c")) at = r->chain && !product ? l->between[slot] : l->c[slot];
        if (!strcmp(b->name, "a") && product) at = l->between[slot];
        if (!at) {
            uint64_t *own = counters ? &l->counters[product] : &l->workspace[product];
            if (!*own) st = filled(r, b->bytes, 0, own, diag);
            at = *own;
        }
        if (st == TW_OK) st = tw_gpu_launch_bind(of, b->name, at, diag);
    }
    return st;
}

static tw_status make_lane(run *r, lane *l, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < SLOTS && st == TW_OK; i++) {
        st = filled(r, r->bytes, 0xff, &l->c[i], diag);
        if (st == TW_OK && r->chain) st = filled(r, r->bytes, 0xff, &l->between[i], diag);
        for (int p = 0; p < 1 + r->chain && st == TW_OK; p++) {
            st = tw_gpu_launch_open(&l->launch[i][p], r->kernel, diag);
            if (st == TW_OK) st = bind(r, l, i, p, diag);
        }
    }
    return st;
}

static tw_status make(run *r, int number, tw_diag *diag) {
    char words[300];
    tw_gemm_problem p = {.alpha = 1};
    tw_status st = TW_OK;
    snprintf(words, sizeof words, "%s", cases[number].problem);
    char *save = NULL;
    for (char *w = strtok_r(words, " ", &save); w && st == TW_OK; w = strtok_r(NULL, " ", &save))
        if (!tw_gemm_problem_word(&p, w, &st, diag) && st == TW_OK) st = TW_ERR_USAGE;
    if (st == TW_OK) st = tw_gemm_data_make(&r->data, &p, SEED, diag);
    snprintf(words, sizeof words, "gemm %s", cases[number].problem);
    if (st == TW_OK) st = tw_gpu_kernel_open(&r->kernel, r->gpu, words, cases[number].configuration, diag);
    for (int i = 0; i < TW_GEMM_MATRICES && st == TW_OK; i++) {
        if (!r->data.of[i] || i == TW_GEMM_C) continue;
        st = tw_gpu_alloc(r->gpu, r->data.bytes[i], &r->at[i], diag);
        if (st == TW_OK) st = tw_gpu_upload(r->gpu, r->at[i], r->data.of[i], r->data.bytes[i], diag);
    }
    r->bytes = r->data.bytes[TW_GEMM_C];
    r->chain = cases[number].chain;
    for (int s = 0; s < STREAMS && st == TW_OK; s++) st = make_lane(r, &r->lanes[s], diag);
    return st;
}

static void release(run *r) {
    for (int s = 0; s < STREAMS; s++) {
        lane *l = &r->lanes[s];
        for (int i = 0; i < SLOTS; i++) {
            for (int p = 0; p < 2; p++) tw_gpu_launch_close(l->launch[i][p]);
            tw_gpu_release(r->gpu, l->c[i]);
            tw_gpu_release(r->gpu, l->between[i]);
        }
        for (int p = 0; p < 2; p++) {
            tw_gpu_release(r->gpu, l->workspace[p]);
            tw_gpu_release(r->gpu, l->counters[p]);
        }
        *l = (lane){.stream = l->stream};
    }
    for (int i = 0; i < TW_GEMM_MATRICES; i++) tw_gpu_release(r->gpu, r->at[i]);
    tw_gpu_kernel_close(r->kernel);
    tw_gemm_data_free(&r->data);
    memset(r->at, 0, sizeof r->at);
    r->kernel = NULL;
}

/* -- replays */

static tw_status launch(run *r, int s, int slot, tw_diag *diag) {
    lane *l = &r->lanes[s];
    tw_status st = tw_gpu_launch_run(l->launch[slot][0], l->stream, diag);
    return st == TW_OK && r->chain ? tw_gpu_launch_run(l->launch[slot][1], l->stream, diag) : st;
}

/* Runs every launch with waits in between, and checks the first product. Its C is downloaded to `first`. */
static tw_status run_first(run *r, void *first, int64_t *wrong, tw_diag *diag) {
    lane *l = &r->lanes[0];
    tw_status st = tw_gpu_launch_run(l->launch[0][0], l->stream, diag);
    if (st == TW_OK) st = wait_for_all(r, diag);
    if (st == TW_OK) st = tw_gpu_download(r->gpu, first, r->chain ? l->between[0] : l->c[0], r->bytes, diag);
    if (st != TW_OK) return st;
    *wrong = tw_gemm_data_compare(&r->data, first, NULL, NULL);
    if (!r->chain) return TW_OK;
    st = tw_gpu_launch_run(l->launch[0][1], l->stream, diag);
    if (st == TW_OK) st = wait_for_all(r, diag);
    return st == TW_OK ? tw_gpu_download(r->gpu, first, l->c[0], r->bytes, diag) : st;
}

/* Launches every slot of all streams, and counts the results that differ from `first`. `now` has room for a result. */
static tw_status replay(run *r, int slots, const void *first, char *now, int64_t *different, tw_diag *diag) {
    tw_status st = TW_OK;
    memset(now, 0xff, r->bytes);
    for (int i = 0; i < slots && st == TW_OK; i++)
        for (int s = 0; s < STREAMS && st == TW_OK; s++)
            st = tw_gpu_upload(r->gpu, r->lanes[s].c[i], now, r->bytes, diag);
    if (st == TW_OK) st = wait_for_all(r, diag);
    for (int i = 0; i < slots && st == TW_OK; i++)
        for (int s = 0; s < STREAMS && st == TW_OK; s++) st = launch(r, s, i, diag);
    if (st == TW_OK) st = wait_for_all(r, diag);
    for (int i = 0; i < slots && st == TW_OK; i++)
        for (int s = 0; s < STREAMS && st == TW_OK; s++) {
            st = tw_gpu_download(r->gpu, now, r->lanes[s].c[i], r->bytes, diag);
            if (st == TW_OK) *different += memcmp(now, first, r->bytes) != 0;
        }
    return st;
}

static tw_status run_case(run *r, int number, int64_t times, bool *same, tw_diag *diag) {
    const int64_t begin = tw_now_ns();
    int64_t wrong = 0, different = 0, done = 0;
    tw_status st = make(r, number, diag);
    char *first = st == TW_OK ? malloc(r->bytes) : NULL, *now = st == TW_OK ? malloc(r->bytes) : NULL;
    if (st == TW_OK && !(first && now)) st = tw_fail_memory(diag);
    if (st == TW_OK) memset(first, 0xff, r->bytes); /* Rows of no group stay as they are. */
    if (st == TW_OK) st = run_first(r, first, &wrong, diag);
    while (done < times && st == TW_OK) {
        const int64_t left = (times - done + STREAMS - 1) / STREAMS;
        const int slots = left < SLOTS ? (int)left : SLOTS;
        st = replay(r, slots, first, now, &different, diag);
        done += (int64_t)slots * STREAMS;
    }
    free(first);
    free(now);
    release(r);
    if (st != TW_OK) return st;
    *same = *same && !wrong && !different;
    json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:i, s:I, s:I, s:b, s:f}", "case", cases[number].name, "problem",
                          cases[number].problem, "config", cases[number].configuration, "launches", (json_int_t)done,
                          "streams", STREAMS, "wrong", (json_int_t)wrong, "different", (json_int_t)different, "correct",
                          !wrong && !different, "seconds", (double)(tw_now_ns() - begin) * 1e-9);
    char *line = json_dumps(o, JSON_REAL_PRECISION(4));
    if (line) puts(line);
    free(line);
    json_decref(o);
    fflush(stdout);
    return TW_OK;
}

int main(int argc, char **argv) {
    const char *device = "cuda";
    long long times = 10000;
    for (int i = 1; i < argc; i += 2) {
        char *end = NULL;
        const bool number = i + 1 < argc && !strcmp(argv[i], "--times");
        if (number) times = strtoll(argv[i + 1], &end, 10);
        if (i + 1 < argc && !strcmp(argv[i], "--device")) device = argv[i + 1];
        if (i + 1 < argc && (number ? times > 0 && !*end : !strcmp(argv[i], "--device"))) continue;
        fprintf(stderr, "replay [--times N] [--device NAME]\n");
        return 2;
    }
    static run r;
    tw_diag d = {0};
    bool same = true;
    tw_status st = tw_gpu_open(&r.gpu, device, &d);
    if (st == TW_ERR_UNSUPPORTED) {
        fprintf(stderr, "replay: %s\n", d.message);
        return NO_GPU;
    }
    if (st == TW_OK) st = make_stream(&r, &r.lanes[1].stream, &d);
    for (int i = 0; i < CASES && st == TW_OK; i++) {
        st = run_case(&r, i, times, &same, &d);
        if (st != TW_OK) fprintf(stderr, "replay: %s: %s\n", cases[i].name, d.message);
    }
    tw_gpu_close(r.gpu);
    return st != TW_OK || !same;
}
