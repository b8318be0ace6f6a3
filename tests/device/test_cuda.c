/* SPDX-License-Identifier: Apache-2.0 */
/* src/device/cuda against a stand-in for the driver. */
#define _GNU_SOURCE
#include "support/support.h"

#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "device/cuda/time.h"
#include "device/fake_cuda.h"
#include "device/tensor_map.h"

#include <stdlib.h>
#include <string.h>

static const char add_kernel[] =
    "FAKE CUBIN\n.entry add_k(...)\n//! add\n//! registers 40\n//! shared 1024\n//! local 8\n";
static const char fault_kernel[] = "FAKE CUBIN\n.entry bad(...)\n//! fault\n";

static int setup(void **state) {
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    fake_cuda_reset();
    *state = NULL;
    return 0;
}

static int no_leaks(void **state) {
    (void)state;
    return fake_cuda_alive();
}

static tw_cuda *opened(void) {
    tw_cuda *c;
    tw_diag d;
    if (tw_cuda_open(&c, 0, &d) != TW_OK) fail_msg("%s", d.message);
    return c;
}

static tw_cuda_module *loaded(tw_cuda *c, const char *text, const char *name, int64_t shared) {
    tw_cuda_module *m;
    tw_diag d;
    if (tw_cuda_load(c, &m, text, strlen(text) + 1, name, shared, &d) != TW_OK) fail_msg("%s", d.message);
    return m;
}

static void a_device_is_described(void **state) {
    (void)state;
    tw_cuda *c = opened();
    const tw_cuda_info *i = tw_cuda_describe(c);
    tw_cuda_info again;
    tw_diag d;
    int n;
    assert_string_equal(i->name, "Fake H100 number 0");
    assert_int_equal(i->sm, 90);
    assert_int_equal(i->sms, 132);
    assert_int_equal(i->l2_bytes, 50 << 20);
    assert_int_equal(i->memory_bytes, (int64_t)80 << 30);
    assert_int_equal(i->shared_block, 232448);
    assert_int_equal(i->clock_khz, 1980000);
    assert_int_equal(i->memory_clock_khz, 2619000);
    assert_int_equal(i->memory_bus_bits, 0); /* This driver does not tell. */
    assert_string_equal(i->target->name, "sm_90a");
    assert_true(i->driver[0]);
    assert_int_equal(tw_cuda_count(&n, &d), TW_OK);
    assert_int_equal(n, 1);
    assert_int_equal(tw_cuda_query(0, &again, &d), TW_OK);
    assert_int_equal(again.clock_khz, i->clock_khz);
    tw_cuda_close(c);
}

static void where_there_is_none_the_reason_is_said(void **state) {
    (void)state;
    tw_cuda *c;
    tw_diag d;
    int n = 7;
    setenv("TILEWRIGHT_LIBCUDA", "none", 1);
    assert_int_equal(tw_cuda_open(&c, 0, &d), TW_ERR_UNSUPPORTED);
    assert_null(c);
    assert_non_null(strstr(d.message, "no NVIDIA driver"));
    assert_int_equal(tw_cuda_count(&n, &d), TW_ERR_UNSUPPORTED);
    assert_int_equal(n, 0);
    /* A library without a driver's functions. */
    setenv("TILEWRIGHT_LIBCUDA", "libm.so.6", 1);
    assert_int_equal(tw_cuda_open(&c, 0, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "too old"));
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    fake_cuda_devices(0);
    assert_int_equal(tw_cuda_open(&c, 0, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "no CUDA-capable device"));
    fake_cuda_devices(2);
    assert_int_equal(tw_cuda_open(&c, 5, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "no GPU 5"));
    assert_int_equal(tw_cuda_open(&c, 1, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "capability 3.0"));
}

static void memory_goes_there_and_back(void **state) {
    (void)state;
    tw_cuda *c = opened();
    tw_diag d;
    uint64_t a, none;
    int in[100], out[100];
    for (int i = 0; i < 100; i++) in[i] = i * i;
    assert_int_equal(tw_cuda_alloc(c, sizeof in, &a, &d), TW_OK);
    assert_int_equal(tw_cuda_upload(c, a, in, sizeof in, &d), TW_OK);
    assert_int_equal(tw_cuda_fill(c, a, 0xdeadbeef, 10, &d), TW_OK);
    assert_int_equal(tw_cuda_download(c, out, a, sizeof out, &d), TW_OK);
    assert_int_equal(out[9], (int)0xdeadbeef);
    assert_memory_equal(in + 10, out + 10, 90 * sizeof *in);
    assert_int_equal(tw_cuda_upload(c, a, NULL, 0, &d), TW_OK);
    assert_int_equal(tw_cuda_fill(c, a, 0, 0, &d), TW_OK);
    assert_int_equal(tw_cuda_alloc(c, (size_t)1 << 41, &none, &d), TW_ERR_MEMORY);
    assert_int_equal(none, 0);
    assert_non_null(strstr(d.message, "2199023255552 bytes"));
    assert_int_equal(tw_cuda_alloc(c, 0, &none, &d), TW_OK);
    tw_cuda_release(c, none);
    tw_cuda_release(c, 0);
    tw_cuda_release(c, a);
    tw_cuda_close(c);
}

/* Memory of the host that the device reaches, or none. */
static void memory_is_shared(void **state) {
    (void)state;
    static const char *const calls[] = {"cuCtxSetCurrent", "cuMemHostAlloc", "cuMemHostGetDevicePointer_v2"};
    tw_cuda *c = opened();
    tw_diag d;
    void *host;
    uint64_t address;
    int out = 0;
    assert_int_equal(tw_cuda_alloc_shared(c, sizeof out, &host, &address, &d), TW_OK);
    *(int *)host = 7;
    assert_int_equal(tw_cuda_download(c, &out, address, sizeof out, &d), TW_OK);
    assert_int_equal(out, 7);
    tw_cuda_release_shared(c, host);
    assert_int_equal(tw_cuda_alloc_shared(c, 0, &host, &address, &d), TW_OK);
    tw_cuda_release_shared(c, host);
    tw_cuda_release_shared(c, NULL);
    assert_int_equal(tw_cuda_alloc_shared(c, (size_t)1 << 41, &host, &address, &d), TW_ERR_MEMORY);
    assert_non_null(strstr(d.message, "2199023255552 bytes that the GPU shares"));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        host = &out;
        address = 1;
        fake_cuda_fail(calls[i], 0, 999);
        assert_int_equal(tw_cuda_alloc_shared(c, sizeof out, &host, &address, &d), TW_ERR_IO);
        assert_true(!host && !address);
    }
    tw_cuda_close(c);
}

/* A launch of add_k over words of `a`. */
typedef struct adding {
    tw_cuda *c;
    tw_cuda_module *m;
    uint64_t arguments[3];
    int bytes[3];
    tw_cuda_launch launch;
} adding;

static void adding_set(adding *x, tw_cuda *c, tw_cuda_module *m, uint64_t address, int n, int by) {
    /* Only the low bytes of a word may matter. */
    *x = (adding){c, m, {address, (uint64_t)n | 0xffull << 32, (uint64_t)by | 0xffull << 32}, {8, 4, 4}, {0}};
    x->launch = (tw_cuda_launch){.module = m,
                                 .grid = {8, 2, 1},
                                 .threads = 128,
                                 .arguments = x->arguments,
                                 .argument_bytes = x->bytes,
                                 .n_arguments = 3};
}

static void kernels_are_launched(void **state) {
    (void)state;
    tw_cuda *c = opened();
    tw_cuda_module *m = loaded(c, add_kernel, "add_k", 200 << 10);
    tw_cuda_resources r;
    tw_diag d;
    uint64_t a;
    uint32_t words[4];
    adding x;
    assert_int_equal(tw_cuda_module_resources(m, 128, 4096, &r, &d), TW_OK);
    assert_int_equal(r.registers, 40);
    assert_int_equal(r.shared_bytes, 1024);
    assert_int_equal(r.local_bytes, 8);
    assert_int_equal(r.max_threads, 1024);
    assert_int_equal(r.blocks_per_sm, 16);
    assert_int_equal(tw_cuda_alloc(c, 16, &a, &d), TW_OK);
    assert_int_equal(tw_cuda_fill(c, a, 5, 4, &d), TW_OK);
    adding_set(&x, c, m, a, 3, 7);
    x.launch.dynamic_shared = 200 << 10;
    assert_int_equal(tw_cuda_run(c, &x.launch, &d), TW_OK);
    assert_int_equal(tw_cuda_download(c, words, a, 16, &d), TW_OK);
    assert_int_equal(words[0], 12);
    assert_int_equal(words[3], 5);
    const fake_cuda_seen *s = fake_cuda_look();
    assert_int_equal(s->grid[0] * 100 + s->grid[1] * 10 + s->grid[2], 821);
    assert_int_equal(s->block[0], 128);
    assert_int_equal(s->shared, 200 << 10);
    x.launch.cluster = 2;
    x.launch.cooperative = true;
    assert_int_equal(tw_cuda_run(c, &x.launch, &d), TW_OK);
    assert_int_equal(s->cluster, 2);
    assert_int_equal(s->cooperative, 1);
    x.launch.cluster = 16;
    x.launch.grid[0] = 32;
    x.launch.cooperative = false;
    assert_int_equal(tw_cuda_run(c, &x.launch, &d), TW_OK);
    assert_int_equal(s->cluster, 16);
    assert_int_equal(s->cooperative, 0);
    assert_int_equal(s->programmatic, 0);
    x.launch.cluster = 0;
    x.launch.programmatic = true;
    assert_int_equal(tw_cuda_run(c, &x.launch, &d), TW_OK);
    assert_int_equal(s->cluster, 0);
    assert_int_equal(s->programmatic, 1);
    tw_cuda_unload(m);
    tw_cuda_release(c, a);
    tw_cuda_close(c);
}

static uint64_t map_address;
static void look_at_map(void **parameters) {
    memcpy(&map_address, parameters[0], sizeof map_address);
}

/* Swizzles are 0 to 3 to the driver, and strides begin with the second dimension's. */
static void tensor_maps_are_encoded(void **state) {
    (void)state;
    static const int widths[] = {0, 32, 64, 128};
    tw_cuda *c = opened();
    tw_cuda_module *m = loaded(c, add_kernel, "add_k", 0);
    const fake_cuda_map *seen = &fake_cuda_look()->map;
    tw_diag d;
    tw_tensor_map map = {.address = 4096,
                         .element = TW_TENSOR_F16,
                         .dims = 5,
                         .extent = {64, 5, 6, 7, 8},
                         .stride = {99, 128, 1280, 12800, 128000},
                         .step = {0, 2},
                         .box = {64, 4, 3, 2, 1}};
    const uint64_t arguments[] = {(uint64_t)(uintptr_t)&map};
    const int bytes[] = {TW_TENSOR_MAP_BYTES};
    const tw_cuda_launch l = {.module = m,
                              .grid = {1, 1, 1},
                              .threads = 32,
                              .arguments = arguments,
                              .argument_bytes = bytes,
                              .n_arguments = 1};
    fake_cuda_hook("add_k", look_at_map);
    for (int i = 0; i < 4; i++) {
        map.swizzle = widths[i];
        map.box[0] = i ? widths[i] / 2 : 64;
        assert_int_equal(tw_cuda_run(c, &l, &d), TW_OK);
        assert_int_equal(seen->swizzle, i);
    }
    assert_int_equal(map_address, 4096);
    assert_int_equal(seen->address, 4096);
    assert_int_equal(seen->type, 6);
    assert_int_equal(seen->rank, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(seen->extents[i], map.extent[i]);
        assert_int_equal(seen->box[i], map.box[i]);
        assert_int_equal(seen->steps[i], i == 1 ? 2 : 1);
        if (i) assert_int_equal(seen->strides[i - 1], map.stride[i]);
    }
    assert_false(seen->im2col);
    map = (tw_tensor_map){.address = 8192,
                          .element = TW_TENSOR_BF16,
                          .dims = 4,
                          .extent = {64, 5, 6, 7},
                          .stride = {0, 128, 1280, 12800},
                          .im2col = true,
                          .lower = {-1, -2},
                          .upper = {1, 2},
                          .channels = 64,
                          .pixels = 100,
                          .swizzle = 128};
    assert_int_equal(tw_cuda_run(c, &l, &d), TW_OK);
    assert_true(seen->im2col && seen->type == 9 && seen->rank == 4 && seen->channels == 64 && seen->pixels == 100);
    assert_true(seen->lower[0] == -1 && seen->lower[1] == -2 && seen->upper[0] == 1 && seen->upper[1] == 2);
    static const int types[TW_TENSOR_ELEMENTS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    for (int i = 0; i < TW_TENSOR_ELEMENTS; i++) {
        map.element = (tw_tensor_element)i;
        map.channels = 128 / tw_tensor_element_bytes(map.element);
        assert_int_equal(tw_cuda_run(c, &l, &d), TW_OK);
        assert_int_equal(seen->type, types[i]);
    }
    map.dims = 2;
    assert_int_equal(tw_cuda_run(c, &l, &d), TW_ERR_USAGE);
    c->driver.cuTensorMapEncodeIm2col = NULL;
    assert_int_equal(tw_cuda_run(c, &l, &d), TW_ERR_UNSUPPORTED);
    fake_cuda_hook("", NULL);
    tw_cuda_unload(m);
    tw_cuda_close(c);
}

static void wrong_launches_are_refused(void **state) {
    (void)state;
    tw_cuda *c = opened();
    tw_cuda_module *m = loaded(c, add_kernel, "add_k", 0), *none;
    tw_diag d;
    adding x;
    adding_set(&x, c, m, 0, 0, 0);
    x.launch.dynamic_shared = 4;
    assert_int_equal(tw_cuda_run(c, &x.launch, &d), TW_ERR_USAGE);
    adding_set(&x, c, m, 0, 0, 0);
    x.launch.grid[1] = 0;
    assert_int_equal(tw_cuda_run(c, &x.launch, &d), TW_ERR_USAGE);
    adding_set(&x, c, m, 0, 0, 0);
    x.launch.threads = 2048;
    assert_int_equal(tw_cuda_run(c, &x.launch, &d), TW_ERR_USAGE);
    assert_non_null(strstr(d.message, "launch kernel add_k"));
    adding_set(&x, c, m, 0, 0, 0);
    x.launch.n_arguments = 1000;
    assert_int_equal(tw_cuda_run(c, &x.launch, &d), TW_ERR_USAGE);
    adding_set(&x, c, m, 0, 0, 0);
    x.launch.cluster = 3;
    assert_int_equal(tw_cuda_run(c, &x.launch, &d), TW_ERR_USAGE);
    assert_int_equal(tw_cuda_load(c, &none, add_kernel, sizeof add_kernel, "other", 0, &d), TW_ERR_FORMAT);
    assert_int_equal(tw_cuda_load(c, &none, "rubbish", 8, "add_k", 0, &d), TW_ERR_FORMAT);
    assert_null(none);
    assert_int_equal(tw_cuda_load(c, &none, "", 0, "add_k", 0, &d), TW_ERR_USAGE);
    assert_int_equal(tw_cuda_load(c, &none, add_kernel, sizeof add_kernel, "add_k", 232448, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "233472 bytes of shared memory"));
    tw_cuda_unload(m);
    tw_cuda_close(c);
}

static void a_fault_is_named_and_stays(void **state) {
    (void)state;
    tw_cuda *c = opened();
    tw_cuda_module *m = loaded(c, fault_kernel, "bad", 0);
    tw_diag d;
    uint64_t a;
    int x = 0;
    const tw_cuda_launch l = {.module = m, .grid = {1, 1, 1}, .threads = 32};
    assert_int_equal(tw_cuda_alloc(c, 4, &a, &d), TW_OK);
    assert_int_equal(tw_cuda_run(c, &l, &d), TW_OK);
    assert_int_equal(tw_cuda_sync(c, &d), TW_ERR_IO);
    assert_non_null(strstr(d.message, "faulted in kernel bad"));
    assert_non_null(strstr(d.message, "illegal memory access"));
    assert_non_null(strstr(d.message, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    assert_int_equal(tw_cuda_upload(c, a, &x, 4, &d), TW_ERR_IO);
    assert_non_null(strstr(d.message, "faulted in kernel bad"));
    assert_int_equal(tw_cuda_run(c, &l, &d), TW_ERR_IO);
    tw_cuda_unload(m);
    tw_cuda_release(c, a);
    tw_cuda_close(c);
    fake_cuda_reset(); /* a dead context takes its memory and modules with it */
}

static void a_fault_is_named_after_its_kernel_is_unloaded(void **state) {
    (void)state;
    tw_cuda *c = opened();
    tw_cuda_module *m = loaded(c, fault_kernel, "bad", 0), *other = loaded(c, add_kernel, "add_k", 0);
    tw_diag d;
    const tw_cuda_launch l = {.module = m, .grid = {1, 1, 1}, .threads = 32};
    assert_int_equal(tw_cuda_run(c, &l, &d), TW_OK);
    tw_cuda_unload(m);
    tw_cuda_unload(other);
    assert_int_equal(tw_cuda_sync(c, &d), TW_ERR_IO);
    assert_non_null(strstr(d.message, "faulted in kernel bad"));
    tw_cuda_close(c);
    fake_cuda_reset();
}

static tw_status enqueue_add(void *context, int i, tw_diag *d) {
    adding *x = context;
    x->arguments[2] = (uint64_t)i + 1;
    return tw_cuda_run(x->c, &x->launch, d);
}

static void launches_are_captured_and_replayed(void **state) {
    (void)state;
    tw_cuda *c = opened();
    tw_cuda_module *m = loaded(c, add_kernel, "add_k", 0);
    tw_cuda_graph *g, *none;
    tw_diag d;
    uint64_t a;
    uint32_t word = 1;
    double us;
    adding x;
    assert_int_equal(tw_cuda_alloc(c, 4, &a, &d), TW_OK);
    assert_int_equal(tw_cuda_upload(c, a, &word, 4, &d), TW_OK);
    adding_set(&x, c, m, a, 1, 0);
    assert_int_equal(tw_cuda_capture_end(c, &none, &d), TW_ERR_USAGE);
    assert_int_equal(tw_cuda_capture_begin(c, &d), TW_OK);
    assert_int_equal(tw_cuda_capture_begin(c, &d), TW_ERR_USAGE);
    for (int i = 0; i < 4; i++) assert_int_equal(enqueue_add(&x, i, &d), TW_OK);
    assert_int_equal(tw_cuda_sync(c, &d), TW_ERR_USAGE);
    assert_int_equal(tw_cuda_download(c, &word, a, 4, &d), TW_ERR_USAGE);
    assert_int_equal(tw_cuda_capture_end(c, &g, &d), TW_OK);
    assert_int_equal(tw_cuda_download(c, &word, a, 4, &d), TW_OK);
    assert_int_equal(word, 1);
    assert_int_equal(tw_cuda_graph_time(c, g, 0, &us, &d), TW_ERR_USAGE);
    assert_int_equal(tw_cuda_graph_time(c, g, 3, &us, &d), TW_OK);
    assert_true(us > 119 && us < 121);
    assert_int_equal(tw_cuda_download(c, &word, a, 4, &d), TW_OK);
    assert_int_equal(word, 1 + 3 * 10);
    assert_int_equal(tw_cuda_graph_run(c, g, &d), TW_OK);
    assert_int_equal(tw_cuda_download(c, &word, a, 4, &d), TW_OK);
    assert_int_equal(word, 1 + 4 * 10);
    tw_cuda_graph_free(g);
    tw_cuda_unload(m);
    tw_cuda_release(c, a);
    tw_cuda_close(c);
}

static void launches_are_timed(void **state) {
    (void)state;
    tw_cuda *c = opened();
    tw_cuda_module *m = loaded(c, add_kernel, "add_k", 0);
    tw_diag d;
    uint64_t a;
    uint32_t word = 0;
    double us[5] = {0};
    adding x;
    assert_int_equal(tw_cuda_sets(c, 10 << 20, 100), 11);
    assert_int_equal(tw_cuda_sets(c, (int64_t)1 << 30, 100), 2);
    assert_int_equal(tw_cuda_sets(c, 1, 100), 100);
    assert_int_equal(tw_cuda_sets(c, 0, 100), 100);
    assert_int_equal(tw_cuda_alloc(c, 4, &a, &d), TW_OK);
    assert_int_equal(tw_cuda_upload(c, a, &word, 4, &d), TW_OK);
    adding_set(&x, c, m, a, 1, 0);
    assert_int_equal(tw_cuda_time(c, enqueue_add, &x, 4, 5, us, &d), TW_OK);
    for (int i = 0; i < 5; i++) assert_true(us[i] > 9.9 && us[i] < 10.1);
    assert_int_equal(tw_cuda_download(c, &word, a, 4, &d), TW_OK);
    assert_int_equal(word, 10 * (1 + 1 + 5)); /* at once, the first replay, the samples */
    assert_int_equal(tw_cuda_time(c, enqueue_add, &x, 0, 5, us, &d), TW_ERR_USAGE);
    /* A launch that is refused leaves no capture open. */
    x.launch.threads = 0;
    assert_int_equal(tw_cuda_time(c, enqueue_add, &x, 4, 5, us, &d), TW_ERR_USAGE);
    assert_int_equal(tw_cuda_sync(c, &d), TW_OK);
    tw_cuda_unload(m);
    tw_cuda_release(c, a);
    tw_cuda_close(c);
}

static void a_target_is_named_where_that_is_needed(void **state) {
    (void)state;
    static const char ptx[] = ".entry k(...)\n//! name 90a\n//! registers 21\n", bad[] = "//! complain of it\n";
    tw_cuda *c = opened();
    char log[256];
    void *cubin;
    size_t bytes;
    tw_diag d;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tw_cuda_assemble(c, ptx, strlen(ptx), &cubin, &bytes, log, sizeof log, &d), TW_OK);
        assert_non_null(strstr(log, "Used 21 registers"));
        free(cubin);
        assert_int_equal(tw_cuda_assemble(c, bad, strlen(bad), &cubin, &bytes, log, sizeof log, &d), TW_ERR_FORMAT);
        assert_null(cubin);
        assert_non_null(strstr(log, "of it"));
    }
    char small[8];
    assert_int_equal(tw_cuda_assemble(c, bad, strlen(bad), &cubin, &bytes, small, sizeof small, &d), TW_ERR_FORMAT);
    assert_int_equal(strlen(small), 7);
    tw_cuda_close(c);
}

static void what_could_not_be_asked_is_zero(void **state) {
    (void)state;
    tw_cuda *c = opened();
    tw_cuda_module *m = loaded(c, add_kernel, "add_k", 0);
    tw_diag d;
    int64_t bytes = -1;
    assert_int_equal(tw_cuda_available(c, &bytes, &d), TW_OK);
    assert_true(bytes > 0 && bytes <= tw_cuda_describe(c)->memory_bytes);
    for (int n = 0; n < 6; n++) {
        tw_cuda_resources r;
        memset(&r, 0x7f, sizeof r);
        fake_cuda_fail("*", n, 999);
        tw_status st = tw_cuda_module_resources(m, 128, 0, &r, &d);
        assert_int_equal(st, n < 6 ? TW_ERR_IO : TW_OK);
        assert_true(r.blocks_per_sm == 0);
        if (n < 2) assert_true(r.registers == 0 && r.max_threads == 0);
    }
    fake_cuda_fail(NULL, 0, 0);
    tw_cuda_unload(m);
    tw_cuda_close(c);
}

/* An old driver launches plainly, and says what it cannot. */
static void an_old_driver_has_no_clusters(void **state) {
    (void)state;
    tw_cuda *c = opened();
    tw_cuda_module *m = loaded(c, add_kernel, "add_k", 0);
    tw_diag d;
    uint64_t a;
    adding x;
    assert_int_equal(tw_cuda_alloc(c, 4, &a, &d), TW_OK);
    c->driver.cuLaunchKernelEx = NULL;
    for (int i = 0; i < 8; i++) {
        adding_set(&x, c, m, a, 1, 0);
        x.launch.cluster = i & 1 ? 2 : 1;
        x.launch.cooperative = i & 2;
        x.launch.programmatic = i & 4;
        assert_int_equal(tw_cuda_run(c, &x.launch, &d), i ? TW_ERR_UNSUPPORTED : TW_OK);
        if (i) assert_non_null(strstr(d.message, "too old for clusters"));
    }
    tw_cuda_unload(m);
    tw_cuda_release(c, a);
    tw_cuda_close(c);
}

/* A replay that fails is no sample. */
static void a_timer_tells_of_a_failure(void **state) {
    (void)state;
    tw_cuda *c = opened();
    tw_cuda_module *m = loaded(c, add_kernel, "add_k", 0);
    tw_diag d;
    uint64_t a;
    double us = 0;
    adding x;
    tw_cuda_timer *t;
    assert_int_equal(tw_cuda_alloc(c, 4, &a, &d), TW_OK);
    adding_set(&x, c, m, a, 1, 0);
    assert_int_equal(tw_cuda_timer_make(c, &t, enqueue_add, &x, 2, &d), TW_OK);
    assert_int_equal(tw_cuda_timer_sample(t, &us, &d), TW_OK);
    fake_cuda_fail("cuEventElapsedTime", 0, 999);
    assert_int_equal(tw_cuda_timer_sample(t, &us, &d), TW_ERR_IO);
    assert_non_null(strstr(d.message, "replay a graph"));
    tw_cuda_timer_free(t);
    tw_cuda_unload(m);
    tw_cuda_release(c, a);
    tw_cuda_close(c);
}

/* Everything once; the first failure ends it. */
static tw_status everything(tw_diag *d) {
    tw_cuda *c;
    tw_cuda_module *m = NULL;
    uint64_t a = 0;
    double us[2];
    void *cubin = NULL;
    size_t bytes;
    char log[256];
    adding x;
    static const char ptx[] = ".entry add_k(...)\n//! add\n//! shared 1024\n";
    tw_status st = tw_cuda_open(&c, 0, d);
    if (st != TW_OK) return st;
    st = tw_cuda_assemble(c, ptx, strlen(ptx), &cubin, &bytes, log, sizeof log, d);
    if (st == TW_OK) st = tw_cuda_load(c, &m, cubin, bytes, "add_k", 64 << 10, d);
    if (st == TW_OK) st = tw_cuda_alloc(c, 64, &a, d);
    if (st == TW_OK) st = tw_cuda_fill(c, a, 0, 16, d);
    if (st == TW_OK) {
        adding_set(&x, c, m, a, 16, 1);
        x.launch.cluster = 2;
        st = tw_cuda_time(c, enqueue_add, &x, 2, 2, us, d);
    }
    if (st == TW_OK) st = tw_cuda_download(c, &bytes, a, 8, d);
    free(cubin);
    tw_cuda_unload(m);
    tw_cuda_release(c, a);
    tw_cuda_close(c);
    return st;
}

static void any_call_may_fail(void **state) {
    (void)state;
    tw_diag d;
    assert_int_equal(everything(&d), TW_OK);
    assert_int_equal(fake_cuda_alive(), 0);
    int calls = fake_cuda_look()->calls;
    assert_true(calls > 50);
    for (int n = 0; n < calls; n++) {
        fake_cuda_reset();
        fake_cuda_fail("*", n, 999);
        d.message[0] = 0;
        tw_status st = everything(&d);
        if (st == TW_OK) continue; /* what is being given back, or the version, may fail unnoticed */
        if (st != TW_ERR_IO && st != TW_ERR_UNSUPPORTED && st != TW_ERR_FORMAT) fail_msg("call %d: status %d", n, st);
        if (!d.message[0]) fail_msg("call %d failed without a word", n);
    }
    fake_cuda_reset();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_device_is_described, setup, no_leaks),
        cmocka_unit_test_setup_teardown(where_there_is_none_the_reason_is_said, setup, no_leaks),
        cmocka_unit_test_setup_teardown(memory_goes_there_and_back, setup, no_leaks),
        cmocka_unit_test_setup_teardown(memory_is_shared, setup, no_leaks),
        cmocka_unit_test_setup_teardown(kernels_are_launched, setup, no_leaks),
        cmocka_unit_test_setup_teardown(tensor_maps_are_encoded, setup, no_leaks),
        cmocka_unit_test_setup_teardown(wrong_launches_are_refused, setup, no_leaks),
        cmocka_unit_test_setup_teardown(a_target_is_named_where_that_is_needed, setup, no_leaks),
        cmocka_unit_test_setup_teardown(launches_are_captured_and_replayed, setup, no_leaks),
        cmocka_unit_test_setup_teardown(launches_are_timed, setup, no_leaks),
        cmocka_unit_test_setup_teardown(what_could_not_be_asked_is_zero, setup, no_leaks),
        cmocka_unit_test_setup_teardown(an_old_driver_has_no_clusters, setup, no_leaks),
        cmocka_unit_test_setup_teardown(a_timer_tells_of_a_failure, setup, no_leaks),
        cmocka_unit_test_setup(any_call_may_fail, setup),
        cmocka_unit_test_setup(a_fault_is_named_and_stays, setup),
        cmocka_unit_test_setup(a_fault_is_named_after_its_kernel_is_unloaded, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
