/* SPDX-License-Identifier: Apache-2.0 */
/* Tracers on kernels in use, in the emulator: tilewright/trace.h. */
#include "support/support.h"

#include "kernels/kernel.h"

#include <stdlib.h>
#include <string.h>

static const char *const words = "gemm type=bf16 m=128 n=128 k=256 tb=1";
static const char *const configuration = "mma=2 ms=64 ns=64 ml=128 nl=64 u=64 stages=3 vec=16 kg=1";
enum { M = 128, N = 128, K = 256 };

typedef struct rig {
    tw_gpu *g;
    tw_gpu_kernel *k;
    tw_gpu_launch *l;
    uint64_t a, b, c;
} rig;

static void check(tw_status st, const tw_diag *d) {
    if (st != TW_OK) fail_msg("%s", d->message);
}

static rig begin(void) {
    rig r;
    tw_diag d;
    static uint16_t ones[M * K];
    for (int i = 0; i < M * K; i++) ones[i] = (uint16_t)(0x3f80 + i % 3); /* bf16 near 1 */
    check(tw_gpu_open(&r.g, "emulator", &d), &d);
    check(tw_gpu_kernel_open(&r.k, r.g, words, configuration, &d), &d);
    check(tw_gpu_launch_open(&r.l, r.k, &d), &d);
    check(tw_gpu_alloc(r.g, sizeof ones, &r.a, &d), &d);
    check(tw_gpu_alloc(r.g, sizeof ones, &r.b, &d), &d);
    check(tw_gpu_alloc(r.g, M * N * 2, &r.c, &d), &d);
    check(tw_gpu_upload(r.g, r.a, ones, sizeof ones, &d), &d);
    check(tw_gpu_upload(r.g, r.b, ones, sizeof ones, &d), &d);
    check(tw_gpu_launch_bind(r.l, "a", r.a, &d), &d);
    check(tw_gpu_launch_bind(r.l, "b", r.b, &d), &d);
    check(tw_gpu_launch_bind(r.l, "c", r.c, &d), &d);
    return r;
}

static void end(rig *r) {
    tw_gpu_launch_close(r->l);
    tw_gpu_kernel_close(r->k);
    tw_gpu_release(r->g, r->a);
    tw_gpu_release(r->g, r->b);
    tw_gpu_release(r->g, r->c);
    tw_gpu_close(r->g);
}

static void run(rig *r, uint16_t out[M * N]) {
    tw_diag d;
    memset(out, 0xff, M * N * 2);
    check(tw_gpu_upload(r->g, r->c, out, M * N * 2, &d), &d);
    check(tw_gpu_launch_run(r->l, NULL, &d), &d);
    check(tw_gpu_wait(r->g, &d), &d);
    check(tw_gpu_download(r->g, out, r->c, M * N * 2, &d), &d);
}

typedef struct seen {
    int records, waits, products, most;
} seen;

static bool see(void *user, const tw_trace_record *x) {
    seen *s = user;
    s->records++;
    s->waits += !strcmp(x->kind, "wait");
    s->products += !strcmp(x->kind, "async") && !strcmp(x->name, "products");
    assert_true(x->begin <= x->end && x->least <= x->most);
    assert_true(!strcmp(x->role, "consumer") || !strcmp(x->role, "producer"));
    assert_true(x->block >= 0 && x->block < 2);
    return !s->most || s->records < s->most;
}

static void a_tracer_comes_and_goes(void **state) {
    (void)state;
    rig r = begin();
    static uint16_t before[M * N], during[M * N], after[M * N];
    tw_trace_cost cost;
    tw_diag d;
    run(&r, before);
    for (int i = 0; i < 3; i++) {
        const tw_trace_options o = {.granularity = i ? "warp" : NULL, .iterations = i == 2};
        assert_false(tw_gpu_kernel_traced(r.k, &cost));
        check(tw_gpu_kernel_attach(r.k, &o, &d), &d);
        assert_true(tw_gpu_kernel_traced(r.k, &cost));
        assert_true(cost.shared_bytes > 0 && cost.blocks == cost.blocks_traced && cost.record_clocks == 0);
        run(&r, during);
        assert_memory_equal(before, during, sizeof before);
        seen s = {0};
        check(tw_gpu_kernel_collect(r.k, see, &s, &d), &d);
        /* Two blocks, each with consumers and their products of 4 stages. */
        assert_int_equal(s.products, 2 * 4 * (i ? 8 : 2));
        assert_true(s.waits > 0);
        s = (seen){.most = 5};
        run(&r, during);
        check(tw_gpu_kernel_collect(r.k, see, &s, &d), &d);
        assert_int_equal(s.records, 5);
        tw_gpu_kernel_detach(r.k);
        tw_gpu_kernel_detach(r.k);
        run(&r, after);
        assert_memory_equal(before, after, sizeof before);
    }
    end(&r);
}

/* A launch whose buffers are bound anew while a tracer is attached uses the new ones. */
static void launches_follow_their_bindings(void **state) {
    (void)state;
    rig r = begin();
    static uint16_t out[M * N], other[M * N];
    tw_diag d;
    uint64_t c;
    check(tw_gpu_kernel_attach(r.k, NULL, &d), &d);
    run(&r, out);
    check(tw_gpu_alloc(r.g, sizeof other, &c, &d), &d);
    check(tw_gpu_launch_bind(r.l, "c", c, &d), &d);
    check(tw_gpu_launch_run(r.l, NULL, &d), &d);
    check(tw_gpu_download(r.g, other, c, sizeof other, &d), &d);
    assert_memory_equal(out, other, sizeof out);
    tw_gpu_launch *unbound;
    check(tw_gpu_launch_open(&unbound, r.k, &d), &d);
    assert_int_equal(tw_gpu_launch_run(unbound, NULL, &d), TW_ERR_USAGE);
    tw_gpu_launch_close(unbound);
    tw_gpu_release(r.g, c);
    end(&r);
}

/* -- products of every way */

/* Runs a kernel on numbers of its own and returns its result, which the caller frees. */
static void *result_of(tw_gpu *g, tw_gpu_kernel *k, tw_gpu_launch *l, const uint64_t *at, size_t *bytes) {
    void *out = NULL;
    tw_diag d;
    for (int i = 0; i < tw_gpu_kernel_buffers(k); i++) {
        const tw_gpu_buffer *b = tw_gpu_kernel_buffer(k, i);
        uint16_t *x = calloc(1, b->bytes);
        assert_non_null(x);
        for (size_t j = 0; j < b->bytes / 2 && !b->zeroed; j++) x[j] = (uint16_t)(0x3c00 + (j * 7 + (size_t)i) % 256);
        check(tw_gpu_upload(g, at[i], x, b->bytes, &d), &d);
        free(x);
    }
    check(tw_gpu_launch_run(l, NULL, &d), &d);
    for (int i = 0; i < tw_gpu_kernel_buffers(k); i++) {
        const tw_gpu_buffer *b = tw_gpu_kernel_buffer(k, i);
        if (strcmp(b->name, "c") != 0) continue;
        out = malloc(*bytes = b->bytes);
        assert_non_null(out);
        check(tw_gpu_download(g, out, at[i], b->bytes, &d), &d);
    }
    assert_non_null(out);
    return out;
}

static bool tally(void *user, const tw_trace_record *x) {
    ++*(int *)user;
    assert_true(x->begin <= x->end && x->least <= x->most && x->begin >= 0);
    return true;
}

static void products_of_every_way_are_the_same(void **state) {
    (void)state;
    static const struct {
        const char *device, *words, *configuration;
    } cases[] = {
        {"emulator:sm_80", "gemm m=40 n=50 k=70", "kg=1"},
        {"emulator:sm_80", "gemm m=40 n=50 k=200", "kg=3 u=8 split=0"},
        {"emulator:sm_80", "gemm type=f16 m=64 n=64 k=128 tb=1", "kg=1 mma=1"},
        {"emulator:sm_80", "gemm type=f16 m=64 n=64 k=256 tb=1", "kg=2 mma=1"},
        {"emulator:sm_80", "gemm type=f16 m=64 n=64 k=128 batch=3", "kg=1"},
        {"emulator:sm_90a", "gemm type=f16 m=128 n=128 k=256 tb=1",
         "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=3 vec=16 kg=1"},
        {"emulator:sm_90a", "gemm type=f16 m=128 n=128 k=256 tb=1",
         "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=2 vec=16 kg=1 multicast=2"},
        {"emulator:sm_90a", "gemm type=f16 m=128 n=128 k=256 tb=1",
         "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=2 vec=16 kg=1 staged=1"},
        {"emulator:sm_90a", "gemm type=f16 m=256 n=128 k=256 tb=1",
         "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=2 vec=16 kg=1 persistent=2"},
        {"emulator:sm_90a", "gemm type=f16 m=128 n=64 k=512 tb=1",
         "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=2 vec=16 kg=2"},
    };
    static const tw_trace_options options[] = {
        {0},
        {.granularity = "warp", .flush = true, .frames = 2, .iterations = true},
        {.granularity = "block", .global = true, .every = 2},
        {.granularity = "warp", .metric = "globaltimer", .warps = 5, .frames = 4},
        {.metric = "smid", .first = 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_gpu *g;
        tw_gpu_kernel *k;
        tw_gpu_launch *l;
        tw_diag d;
        uint64_t at[8] = {0};
        size_t bytes;
        check(tw_gpu_open(&g, cases[i].device, &d), &d);
        check(tw_gpu_kernel_open(&k, g, cases[i].words, cases[i].configuration, &d), &d);
        check(tw_gpu_launch_open(&l, k, &d), &d);
        for (int j = 0; j < tw_gpu_kernel_buffers(k); j++) {
            const tw_gpu_buffer *b = tw_gpu_kernel_buffer(k, j);
            check(tw_gpu_alloc(g, b->bytes, &at[j], &d), &d);
            check(tw_gpu_launch_bind(l, b->name, at[j], &d), &d);
        }
        void *clean = result_of(g, k, l, at, &bytes);
        for (size_t o = 0; o < sizeof options / sizeof *options; o++) {
            int records = 0;
            if (tw_gpu_kernel_attach(k, &options[o], &d) == TW_ERR_USAGE) continue; /* There is one block. */
            void *traced = result_of(g, k, l, at, &bytes);
            if (memcmp(clean, traced, bytes) != 0)
                fail_msg("%s %s: other results", cases[i].words, cases[i].configuration);
            check(tw_gpu_kernel_collect(k, tally, &records, &d), &d);
            if (!records) fail_msg("%s %s, options %d: no records", cases[i].words, cases[i].configuration, (int)o);
            tw_gpu_kernel_detach(k);
            free(traced);
        }
        free(clean);
        tw_gpu_launch_close(l);
        for (int j = 0; j < tw_gpu_kernel_buffers(k); j++) tw_gpu_release(g, at[j]);
        tw_gpu_kernel_close(k);
        tw_gpu_close(g);
    }
}

static void what_makes_no_sense_is_said(void **state) {
    (void)state;
    rig r = begin();
    tw_diag d;
    static const struct {
        tw_trace_options o;
        tw_status st;
        const char *says;
    } cases[] = {
        {{.only = "nothing,here"}, TW_ERR_UNSUPPORTED, "no record of the names nothing,here"},
        {{.granularity = "thread"}, TW_ERR_USAGE, "granularity: \"thread\" is not warpgroup, warp or block"},
        {{.metric = "power"}, TW_ERR_USAGE, "metric: \"power\" is not clock, globaltimer or smid"},
        {{.first = 2}, TW_ERR_USAGE, "the first recorded block is 2, and there are 2 blocks"},
        {{.first = -1}, TW_ERR_USAGE, "blocks are counted from 0"},
        {{.frames = -1}, TW_ERR_USAGE, "frames: -1"},
        {{.frames = 1 << 30}, TW_ERR_UNSUPPORTED, "rings of 1073741824 frames: more than 4194304"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(tw_gpu_kernel_attach(r.k, &cases[i].o, &d), cases[i].st);
        if (!strstr(d.message, cases[i].says)) fail_msg("%s", d.message);
    }
    seen s = {0};
    assert_int_equal(tw_gpu_kernel_collect(r.k, see, &s, &d), TW_ERR_USAGE);
    check(tw_gpu_kernel_attach(r.k, NULL, &d), &d);
    assert_int_equal(tw_gpu_kernel_attach(r.k, NULL, &d), TW_ERR_USAGE);
    check(tw_gpu_kernel_collect(r.k, see, &s, &d), &d); /* Nothing ran. */
    assert_int_equal(s.records, 0);
    end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tracer_comes_and_goes),
        cmocka_unit_test(launches_follow_their_bindings),
        cmocka_unit_test(products_of_every_way_are_the_same),
        cmocka_unit_test(what_makes_no_sense_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
