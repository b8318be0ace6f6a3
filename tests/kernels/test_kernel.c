/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels as a program uses them: in the emulator against sums in double precision, on a stand-in for the driver as far
   as the calls that a launch makes. */
#define _GNU_SOURCE
#include "support/support.h"

#include "device/fake_cuda.h"
#include "kernels/gemm/reference.h"
#include "kernels/gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 8 };

typedef struct bound {
    tw_gpu *gpu;
    tw_gpu_kernel *kernel;
    tw_gpu_launch *launch;
    uint64_t at[MOST];
} bound;

static const void *content(const tw_gemm_data *d, const char *name) {
    for (int i = 0; i < TW_GEMM_MATRICES; i++)
        if (!strcmp(name, tw_gemm_buffer_names[i])) return d->of[i];
    return NULL;
}

static void place(bound *x, const char *device, const char *words, const char *configuration,
                  const tw_gemm_data *data) {
    tw_diag d;
    *x = (bound){0};
    if (tw_gpu_open(&x->gpu, device, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_gpu_kernel_open(&x->kernel, x->gpu, words, configuration, &d) != TW_OK)
        fail_msg("%s, %s: %s", words, configuration, d.message);
    if (tw_gpu_launch_open(&x->launch, x->kernel, &d) != TW_OK) fail_msg("%s", d.message);
    for (int i = 0; i < tw_gpu_kernel_buffers(x->kernel); i++) {
        const tw_gpu_buffer *b = tw_gpu_kernel_buffer(x->kernel, i);
        const void *from = data ? content(data, b->name) : NULL;
        char *zeros = calloc(1, b->bytes);
        assert_true(b->bytes > 0 && b->align > 0 && !(b->align & (b->align - 1)));
        if (tw_gpu_alloc(x->gpu, b->bytes, &x->at[i], &d) != TW_OK) fail_msg("%s", d.message);
        if (from || b->zeroed)
            assert_int_equal(tw_gpu_upload(x->gpu, x->at[i], from ? from : zeros, b->bytes, &d), TW_OK);
        if (tw_gpu_launch_bind(x->launch, b->name, x->at[i], &d) != TW_OK) fail_msg("%s: %s", b->name, d.message);
        free(zeros);
    }
    assert_null(tw_gpu_kernel_buffer(x->kernel, tw_gpu_kernel_buffers(x->kernel)));
    assert_null(tw_gpu_kernel_buffer(x->kernel, -1));
}

static void give_back(bound *x) {
    for (int i = 0; i < MOST; i++) tw_gpu_release(x->gpu, x->at[i]);
    tw_gpu_launch_close(x->launch);
    tw_gpu_kernel_close(x->kernel);
    tw_gpu_close(x->gpu);
}

static int buffer(const bound *x, const char *name) {
    for (int i = 0; i < tw_gpu_kernel_buffers(x->kernel); i++)
        if (!strcmp(tw_gpu_kernel_buffer(x->kernel, i)->name, name)) return i;
    fail_msg("no buffer %s", name);
    return -1;
}

static void expect_product(bound *x, const tw_gemm_data *data, uint64_t at) {
    tw_diag d;
    double worst;
    void *c = malloc(data->bytes[TW_GEMM_C]);
    assert_non_null(c);
    assert_int_equal(tw_gpu_wait(x->gpu, &d), TW_OK);
    assert_int_equal(tw_gpu_download(x->gpu, c, at, data->bytes[TW_GEMM_C], &d), TW_OK);
    assert_int_equal(tw_gemm_data_compare(data, c, &worst, NULL), 0);
    assert_int_equal(tw_gemm_data_gaps(data, c, data->of[TW_GEMM_C]), 0);
    free(c);
}

typedef struct product {
    const char *words, *configuration;
    int buffers;
} product;

static void products_are_right_in_the_emulator(void **state) {
    (void)state;
    static const product products[] = {
        {"gemm type=f32 m=33 n=17 k=40", NULL, 3},
        {"gemm type=f16 m=48 n=40 k=64 ta=1 tb=1 alpha=0.5 beta=2 bias=1 mul=1 residual=1 activation=silu", NULL, 6},
        {"gemm m=20 n=24 k=96 type=f32 batch=2", "kg=3 u=8 split=0 swap=1", 5},
        {"gemm m=20 n=24 k=96 type=f64", "kg=3 u=8 split=2", 5},
        {"gemm type=bf16 m=70 n=64 k=128 tb=1", "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=3 copy=0 vec=16 swap=0", 3},
        {"gemm type=f16 m=64 n=72 k=128", "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=3 copy=0 vec=16 swap=1", 3},
    };
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        const product *p = &products[i];
        tw_gemm_problem problem = {.alpha = 1};
        tw_gemm_data data;
        tw_gpu_kernel_info info;
        tw_status st;
        tw_diag d;
        bound x;
        char words[200], *save = NULL;
        snprintf(words, sizeof words, "%s", p->words);
        for (char *w = strtok_r(words + 5, " ", &save); w; w = strtok_r(NULL, " ", &save))
            assert_true(tw_gemm_problem_word(&problem, w, &st, &d));
        assert_int_equal(tw_gemm_problem_complete(&problem, &d), TW_OK);
        assert_int_equal(tw_gemm_data_make(&data, &problem, i + 1, &d), TW_OK);
        place(&x, "emulator", p->words, p->configuration, &data);
        assert_true(tw_gpu_emulated(x.gpu));
        assert_string_equal(tw_gpu_name(x.gpu), "emulator of sm_90a");
        assert_int_equal(tw_gpu_kernel_buffers(x.kernel), p->buffers);
        for (int b = 0; b < p->buffers; b++) {
            const tw_gpu_buffer *of = tw_gpu_kernel_buffer(x.kernel, b);
            const bool counters = !strcmp(of->name, "counters"), workspace = !strcmp(of->name, "workspace");
            assert_int_equal(of->written, counters || workspace || !strcmp(of->name, "c"));
            assert_int_equal(of->zeroed, counters || (workspace && strstr(p->configuration, "split=2")));
        }
        tw_gpu_kernel_describe(x.kernel, &info);
        assert_true(info.threads >= 32 && info.grid[0] > 0 && info.shared_bytes > 0 && info.registers == -1);
        assert_int_equal(info.workspace_bytes > 0, p->buffers == 5);
        const uint64_t c = x.at[buffer(&x, "c")];
        /* Twice, since what is zeroed must be so again; then into another C. */
        for (int round = 0; round < 2; round++) {
            if (round && problem.beta != 0)
                assert_int_equal(tw_gpu_upload(x.gpu, c, data.of[TW_GEMM_C], data.bytes[TW_GEMM_C], &d), TW_OK);
            if (tw_gpu_launch_run(x.launch, NULL, &d) != TW_OK) fail_msg("%s: %s", p->words, d.message);
            expect_product(&x, &data, c);
        }
        uint64_t other;
        assert_int_equal(tw_gpu_alloc(x.gpu, data.bytes[TW_GEMM_C], &other, &d), TW_OK);
        assert_int_equal(tw_gpu_upload(x.gpu, other, data.of[TW_GEMM_C], data.bytes[TW_GEMM_C], &d), TW_OK);
        assert_int_equal(tw_gpu_launch_bind(x.launch, "c", other, &d), TW_OK);
        if (tw_gpu_launch_run(x.launch, NULL, &d) != TW_OK) fail_msg("%s: %s", p->words, d.message);
        expect_product(&x, &data, other);
        /* And from another A: nothing reads the first any more. */
        uint64_t moved;
        assert_int_equal(tw_gpu_alloc(x.gpu, data.bytes[TW_GEMM_A], &moved, &d), TW_OK);
        assert_int_equal(tw_gpu_upload(x.gpu, moved, data.of[TW_GEMM_A], data.bytes[TW_GEMM_A], &d), TW_OK);
        assert_int_equal(tw_gpu_launch_bind(x.launch, "a", moved, &d), TW_OK);
        tw_gpu_release(x.gpu, x.at[buffer(&x, "a")]);
        x.at[buffer(&x, "a")] = 0;
        if (problem.beta != 0)
            assert_int_equal(tw_gpu_upload(x.gpu, other, data.of[TW_GEMM_C], data.bytes[TW_GEMM_C], &d), TW_OK);
        if (tw_gpu_launch_run(x.launch, NULL, &d) != TW_OK) fail_msg("%s: %s", p->words, d.message);
        expect_product(&x, &data, other);
        tw_gpu_release(x.gpu, moved);
        tw_gpu_release(x.gpu, other);
        give_back(&x);
        tw_gemm_data_free(&data);
    }
}

static void wrong_use_is_named(void **state) {
    (void)state;
    static const struct {
        const char *words, *configuration, *said;
    } bad[] = {
        {"gem m=1 n=1 k=1", NULL, "\"gem\" is no kernel; there are gemm, attention, combine, map and rows"},
        {"gemm m=8 n=8 k=8 ms=2", NULL, "\"ms=2\": says nothing of a product"},
        {"gemm m=8 n=8 type=f31", NULL, "\"type=f31\": no such value"},
        {"gemm m=8 n=8", NULL, "k = 0 is not within"},
        {"gemm m=8 n=8 k=8", "ms=two", "ms=two"},
        {"gemm m=8 n=8 k=8", "kg=100", "the configuration is not legal: more splits than stages along k"},
    };
    tw_gpu *gpu;
    tw_gpu_kernel *k;
    tw_gpu_launch *l;
    tw_diag d;
    uint64_t at;
    assert_int_equal(tw_gpu_open(&gpu, "emulator:sm_12", &d), TW_ERR_USAGE);
    assert_int_equal(tw_gpu_open(&gpu, "cuda:", &d), TW_ERR_USAGE);
    assert_int_equal(tw_gpu_open(&gpu, "cuda:1x", &d), TW_ERR_USAGE);
    assert_null(gpu);
    assert_int_equal(tw_gpu_open(&gpu, "emulator:sm_80", NULL), TW_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(tw_gpu_kernel_open(&k, gpu, bad[i].words, bad[i].configuration, &d), TW_ERR_USAGE);
        if (!strstr(d.message, bad[i].said)) fail_msg("%s: %s", bad[i].words, d.message);
        assert_null(k);
        assert_int_equal(tw_gpu_kernel_open(&k, gpu, bad[i].words, bad[i].configuration, NULL), TW_ERR_USAGE);
    }
    assert_int_equal(tw_gpu_kernel_open(&k, gpu, "gemm m=16 n=16 k=16", NULL, &d), TW_OK);
    assert_int_equal(tw_gpu_launch_open(&l, k, &d), TW_OK);
    assert_int_equal(tw_gpu_alloc(gpu, 16 * 16 * 4, &at, &d), TW_OK);
    assert_int_equal(tw_gpu_launch_bind(l, "workspace", at, &d), TW_ERR_USAGE);
    assert_string_equal(d.message, "the kernel has no buffer \"workspace\"");
    assert_int_equal(tw_gpu_launch_bind(l, "a", at + 2, &d), TW_ERR_USAGE);
    assert_int_equal(tw_gpu_launch_bind(l, "a", 0, &d), TW_ERR_USAGE);
    assert_int_equal(tw_gpu_launch_bind(l, "a", at, &d), TW_OK);
    assert_int_equal(tw_gpu_launch_bind(l, "c", at, &d), TW_OK);
    assert_int_equal(tw_gpu_launch_run(l, NULL, &d), TW_ERR_USAGE);
    assert_string_equal(d.message, "buffer \"b\" is not bound");
    /* Nothing was written to A yet. */
    assert_int_equal(tw_gpu_launch_bind(l, "b", at, &d), TW_OK);
    assert_int_equal(tw_gpu_launch_run(l, NULL, &d), TW_ERR_REJECTED);
    assert_non_null(strstr(d.message, "uninitialised: gemm"));
    assert_int_equal(tw_gpu_upload(gpu, at, d.message, 16 * 16 * 4 + 1, &d), TW_ERR_USAGE);
    assert_int_equal(tw_gpu_download(gpu, d.message, at + 1, 16 * 16 * 4, &d), TW_ERR_USAGE);
    tw_gpu_release(gpu, at);
    assert_int_equal(tw_gpu_download(gpu, d.message, at, 4, &d), TW_ERR_USAGE);
    tw_gpu_launch_close(l);
    tw_gpu_kernel_close(k);
    tw_gpu_close(gpu);
}

/* -- on a device, or what stands for one */

/* A launch by each of the ways that there are. */
typedef struct way {
    const char *words, *configuration, *call; /* The driver's function that starts it. */
    int cluster;                              /* Blocks per cluster; 0: none. */
    bool maps;                                /* Whether A goes by a tensor map. */
} way;
static const char tensor_words[] = "gemm type=f16 m=512 n=256 k=256 tb=1";
static const char tensor_maps[] = "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=4 kg=1";
static const way ways[] = {
    {"gemm m=100 n=60 k=64", NULL, "cuLaunchKernel", 0, false},
    {tensor_words, tensor_maps, "cuLaunchKernel", 0, true},
    {tensor_words, "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=4 kg=1 multicast=2", "cuLaunchKernelEx", 2, true},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* What a kernel was launched with: A's address as a word, and A's address in the tensor map. */
static uint64_t word_of_a, map_of_a;

static void look_at_word(void **parameters) {
    memcpy(&word_of_a, parameters[0], sizeof word_of_a);
}

static void look_at_a(void **parameters) {
    look_at_word(parameters);
    memcpy(&map_of_a, parameters[24], sizeof map_of_a);
}

static void a_launch_is_one_call(void **state) {
    (void)state;
    for (int w = 0; w < WAYS; w++) {
        bound x;
        tw_gpu_kernel_info info;
        tw_diag d;
        place(&x, NULL, ways[w].words, ways[w].configuration, NULL);
        assert_false(tw_gpu_emulated(x.gpu));
        tw_gpu_kernel_describe(x.kernel, &info);
        for (int i = 0; i < 3; i++) {
            const fake_cuda_seen before = *fake_cuda_look();
            if (tw_gpu_launch_run(x.launch, NULL, &d) != TW_OK) fail_msg("%s", d.message);
            const fake_cuda_seen *after = fake_cuda_look();
            assert_int_equal(after->calls, before.calls + 1);
            assert_int_equal(after->launches, before.launches + 1);
            for (int j = 0; j < 3; j++) assert_int_equal(after->grid[j], info.grid[j]);
            assert_int_equal(after->block[0], info.threads);
            assert_int_equal(after->cluster, ways[w].cluster);
        }
        fake_cuda_fail(ways[w].call, 0, 1);
        assert_int_equal(tw_gpu_launch_run(x.launch, NULL, &d), TW_ERR_USAGE);
        assert_non_null(strstr(d.message, "launch kernel gemm"));
        give_back(&x);
        assert_int_equal(fake_cuda_alive(), 0);
    }
}

/* Kernels that wait for the launch before are launched early, and others are not. */
static void launches_are_early_by_configuration(void **state) {
    (void)state;
    for (int early = 0; early <= 2; early++) {
        bound x;
        tw_diag d;
        char configuration[200];
        snprintf(configuration, sizeof configuration,
                 "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=3 kg=1 vec=16 early=%d", early);
        place(&x, NULL, "gemm type=bf16 m=64 n=64 k=64 tb=1 weights=1", configuration, NULL);
        assert_int_equal(tw_gpu_launch_run(x.launch, NULL, &d), TW_OK);
        assert_int_equal(fake_cuda_look()->programmatic, early > 0);
        give_back(&x);
    }
}

/* The thread's current context is none (-1), or another GPU's (1). */
static void a_launch_enters_its_gpu(void **state) {
    (void)state;
    for (int w = 0; w < WAYS; w++) {
        bound x;
        tw_diag d;
        place(&x, NULL, ways[w].words, ways[w].configuration, NULL);
        for (int other = -1; other <= 1; other += 2) {
            fake_cuda_enter(other);
            const fake_cuda_seen before = *fake_cuda_look();
            if (tw_gpu_launch_run(x.launch, NULL, &d) != TW_OK) fail_msg("%s", d.message);
            assert_int_equal(fake_cuda_look()->calls, before.calls + 3);
            assert_int_equal(fake_cuda_look()->launches, before.launches + 1);
            assert_int_equal(tw_gpu_launch_run(x.launch, NULL, &d), TW_OK);
            assert_int_equal(fake_cuda_look()->calls, before.calls + 4);
        }
        /* There is one second try. */
        fake_cuda_enter(1);
        fake_cuda_fail("cuCtxSetCurrent", 0, 999);
        assert_int_equal(tw_gpu_launch_run(x.launch, NULL, &d), TW_ERR_IO);
        fake_cuda_enter(-1);
        fake_cuda_fail(ways[w].call, 1, 400);
        assert_int_equal(tw_gpu_launch_run(x.launch, NULL, &d), TW_ERR_USAGE);
        give_back(&x);
    }
}

static void another_address_reaches_the_kernel(void **state) {
    (void)state;
    for (int w = 0; w < WAYS; w++) {
        bound x;
        tw_diag d;
        place(&x, NULL, ways[w].words, ways[w].configuration, NULL);
        const uint64_t a = x.at[buffer(&x, "a")];
        fake_cuda_hook("gemm", ways[w].maps ? look_at_a : look_at_word);
        for (uint64_t at = a; at <= a + 512; at += 256) {
            word_of_a = map_of_a = 0;
            assert_int_equal(tw_gpu_launch_bind(x.launch, "a", at, &d), TW_OK);
            assert_int_equal(tw_gpu_launch_run(x.launch, NULL, &d), TW_OK);
            assert_int_equal(word_of_a, at);
            assert_int_equal(map_of_a, ways[w].maps ? at : 0);
        }
        fake_cuda_hook("", NULL);
        give_back(&x);
    }
}

static void the_callers_stream_is_taken(void **state) {
    (void)state;
    for (int w = 0; w < WAYS; w++) {
        bound x;
        tw_gpu *caller;
        tw_diag d;
        place(&x, NULL, ways[w].words, ways[w].configuration, NULL);
        assert_int_equal(tw_gpu_open(&caller, "cuda:0", &d), TW_OK);
        void *const own = tw_cuda_stream(x.gpu->cuda), *const theirs = tw_cuda_stream(caller->cuda);
        void *const given[] = {theirs, NULL, theirs, own}, *const taken[] = {theirs, own, theirs, own};
        assert_ptr_not_equal(own, theirs);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(tw_gpu_launch_run(x.launch, given[i], &d), TW_OK);
            assert_ptr_equal(fake_cuda_look()->stream, taken[i]);
        }
        tw_gpu_close(caller);
        give_back(&x);
    }
}

/* A kernel takes the stand-in ten microseconds, when a graph is replayed. */
static void launches_are_captured(void **state) {
    (void)state;
    for (int w = 0; w < WAYS; w++) {
        bound x;
        tw_cuda_graph *g;
        tw_diag d;
        double us;
        place(&x, NULL, ways[w].words, ways[w].configuration, NULL);
        tw_cuda *c = x.gpu->cuda;
        assert_int_equal(tw_cuda_capture_begin(c, &d), TW_OK);
        const fake_cuda_seen before = *fake_cuda_look();
        for (int i = 0; i < 3; i++) assert_int_equal(tw_gpu_launch_run(x.launch, NULL, &d), TW_OK);
        assert_int_equal(fake_cuda_look()->calls, before.calls + 3);
        assert_int_equal(tw_cuda_capture_end(c, &g, &d), TW_OK);
        assert_int_equal(tw_cuda_graph_time(c, g, 2, &us, &d), TW_OK);
        assert_true(us > 59 && us < 61);
        tw_cuda_graph_free(g);
        give_back(&x);
        assert_int_equal(fake_cuda_alive(), 0);
    }
}

static void a_failed_binding_is_not_launched(void **state) {
    (void)state;
    bound x;
    tw_gpu_launch *l;
    tw_diag d;
    place(&x, NULL, tensor_words, tensor_maps, NULL);
    const uint64_t a = x.at[buffer(&x, "a")], b = x.at[buffer(&x, "b")], c = x.at[buffer(&x, "c")];
    const fake_cuda_seen *seen = fake_cuda_look();
    assert_int_equal(tw_gpu_launch_open(&l, x.kernel, &d), TW_OK);
    assert_int_equal(tw_gpu_launch_bind(l, "a", a, &d), TW_OK);
    assert_int_equal(tw_gpu_launch_bind(l, "b", b, &d), TW_OK);
    /* The last buffer prepares the launch. */
    fake_cuda_fail("cuTensorMapEncodeTiled", 0, 999);
    assert_int_equal(tw_gpu_launch_bind(l, "c", c, &d), TW_ERR_IO);
    assert_int_equal(tw_gpu_launch_run(l, NULL, &d), TW_ERR_USAGE);
    assert_string_equal(d.message, "buffer \"c\" is not bound");
    assert_int_equal(tw_gpu_launch_bind(l, "c", c, &d), TW_OK);
    assert_int_equal(tw_gpu_launch_run(l, NULL, &d), TW_OK);
    assert_int_equal(seen->launches, 1);
    /* Another address encodes the map again. */
    fake_cuda_fail("cuTensorMapEncodeTiled", 0, 999);
    assert_int_equal(tw_gpu_launch_bind(l, "a", a + 256, &d), TW_ERR_IO);
    assert_int_equal(tw_gpu_launch_run(l, NULL, &d), TW_ERR_USAGE);
    assert_string_equal(d.message, "buffer \"a\" is not bound");
    assert_int_equal(seen->launches, 1);
    assert_int_equal(tw_gpu_launch_bind(l, "a", a + 256, &d), TW_OK);
    fake_cuda_hook("gemm", look_at_a);
    assert_int_equal(tw_gpu_launch_run(l, NULL, &d), TW_OK);
    assert_true(word_of_a == a + 256 && map_of_a == a + 256);
    /* A refused address changes nothing. */
    assert_int_equal(tw_gpu_launch_bind(l, "a", a + 1, &d), TW_ERR_USAGE);
    assert_int_equal(tw_gpu_launch_run(l, NULL, &d), TW_OK);
    assert_true(word_of_a == a + 256 && map_of_a == a + 256);
    tw_gpu_launch_close(l);
    give_back(&x);
    assert_int_equal(fake_cuda_alive(), 0);
}

enum { THREADS = 3, LAUNCHES = 200 };

static void *launch_often(void *context) {
    const bound *x = context;
    tw_gpu_launch *l = NULL;
    tw_status st = tw_gpu_launch_open(&l, x->kernel, NULL);
    for (int i = 0; i < LAUNCHES && st == TW_OK; i++) {
        for (int b = 0; b < tw_gpu_kernel_buffers(x->kernel) && st == TW_OK; b++)
            st = tw_gpu_launch_bind(l, tw_gpu_kernel_buffer(x->kernel, b)->name, x->at[b], NULL);
        if (st == TW_OK) st = tw_gpu_launch_run(l, NULL, NULL);
    }
    tw_gpu_launch_close(l);
    return st == TW_OK ? context : NULL;
}

/* Meanwhile another thread uses the GPU for everything else. */
static void threads_share_a_kernel(void **state) {
    (void)state;
    bound x;
    pthread_t threads[THREADS];
    tw_diag d;
    place(&x, NULL, tensor_words, tensor_maps, NULL);
    const int before = fake_cuda_look()->launches;
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, launch_often, &x), 0);
    for (int i = 0; i < 20; i++) {
        tw_gpu_kernel *k;
        tw_gpu_launch *l;
        uint64_t at[3];
        static const char *const names[] = {"a", "b", "c"};
        assert_int_equal(tw_gpu_kernel_open(&k, x.gpu, "gemm m=16 n=16 k=16", NULL, &d), TW_OK);
        assert_int_equal(tw_gpu_launch_open(&l, k, &d), TW_OK);
        for (int b = 0; b < 3; b++) {
            assert_int_equal(tw_gpu_alloc(x.gpu, 16 * 16 * 4, &at[b], &d), TW_OK);
            assert_int_equal(tw_gpu_launch_bind(l, names[b], at[b], &d), TW_OK);
        }
        assert_int_equal(tw_gpu_launch_run(l, NULL, &d), TW_OK);
        assert_int_equal(tw_gpu_wait(x.gpu, &d), TW_OK);
        assert_int_equal(tw_gpu_launch_run(l, NULL, &d), TW_OK);
        tw_gpu_launch_close(l);
        tw_gpu_kernel_close(k);
        for (int b = 0; b < 3; b++) tw_gpu_release(x.gpu, at[b]);
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_non_null(result);
    }
    assert_int_equal(fake_cuda_look()->launches, before + THREADS * LAUNCHES + 2 * 20);
    give_back(&x);
    assert_int_equal(fake_cuda_alive(), 0);
}

/* Products whose kernels have one text share what is loaded, whichever of them is closed first. */
static void kernels_share_code(void **state) {
    (void)state;
    static const char *const words[] = {"gemm m=64 n=64 k=64", "gemm m=128 n=64 k=256", "gemm m=65 n=64 k=64"};
    tw_gpu *gpu;
    tw_gpu_kernel *k[3];
    int alive[3];
    tw_diag d;
    assert_int_equal(tw_gpu_open(&gpu, NULL, &d), TW_OK);
    const int before = fake_cuda_alive();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tw_gpu_kernel_open(&k[i], gpu, words[i], NULL, &d), TW_OK);
        alive[i] = fake_cuda_alive();
    }
    assert_int_equal(alive[0], alive[1]);
    assert_true(before < alive[1] && alive[1] < alive[2]); /* Tiles of the last one are partial. */
    tw_gpu_kernel_close(k[0]);
    assert_int_equal(fake_cuda_alive(), alive[2]);
    tw_gpu_kernel_close(k[2]);
    tw_gpu_kernel_close(k[1]);
    assert_int_equal(fake_cuda_alive(), before);
    tw_gpu_close(gpu);
}

/* In a process that may only read, write and end, any other call of the system's kills. */
static void expect_no_system(const way *w) {
    bound x;
    place(&x, "cuda:0", w->words, w->configuration, NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        if (prctl(PR_SET_SECCOMP, 1, 0, 0, 0) != 0) _exit(77); /* strict */
        tw_status st = TW_OK;
        for (int i = 0; i < 100 && st == TW_OK; i++) st = tw_gpu_launch_run(x.launch, NULL, NULL);
        syscall(SYS_exit, st == TW_OK ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) fail_msg("killed by signal %d: a launch called the system", WTERMSIG(status));
    const int said = WEXITSTATUS(status);
    give_back(&x);
    if (said == 77) skip();
    assert_int_equal(said, 0);
}

static void a_launch_needs_no_system(void **state) {
    (void)state;
    if (TEST_SANITIZED) skip();
    for (int w = 0; w < WAYS; w++) expect_no_system(&ways[w]);
}

static int begin(void **state) {
    (void)state;
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    unsetenv("TILEWRIGHT_PTXAS");
    fake_cuda_reset();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_right_in_the_emulator),
                                       cmocka_unit_test(wrong_use_is_named),
                                       cmocka_unit_test_setup(a_launch_is_one_call, begin),
                                       cmocka_unit_test_setup(launches_are_early_by_configuration, begin),
                                       cmocka_unit_test_setup(a_launch_enters_its_gpu, begin),
                                       cmocka_unit_test_setup(another_address_reaches_the_kernel, begin),
                                       cmocka_unit_test_setup(the_callers_stream_is_taken, begin),
                                       cmocka_unit_test_setup(launches_are_captured, begin),
                                       cmocka_unit_test_setup(a_failed_binding_is_not_launched, begin),
                                       cmocka_unit_test_setup(threads_share_a_kernel, begin),
                                       cmocka_unit_test_setup(kernels_share_code, begin),
                                       cmocka_unit_test_setup(a_launch_needs_no_system, begin)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
