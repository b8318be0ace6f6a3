/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms of cuBLASLt as configurations, with stand-ins for it and for the driver. */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/diag.h"
#include "device/fake_cuda.h"
#include "tune/gemm_algorithms.h"
#include "tune/gemm_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *folder;

static int setup(void **state) {
    (void)state;
    folder = test_folder_make();
    setenv("TILEWRIGHT_CACHE", folder, 1);
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    setenv("TILEWRIGHT_LIBCUBLASLT", TW_FAKE_CUBLASLT, 1);
    unsetenv("TILEWRIGHT_PTXAS");
    unsetenv("FAKE_CUBLASLT_ODD");
    fake_cuda_reset();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    unsetenv("FAKE_CUBLASLT_ODD");
    test_folder_remove(folder);
    return fake_cuda_alive();
}

static const char example[] = "by=cublaslt id=66 tile=209 tm=128 tn=192 split=1 cluster=5 custom=6 stages=35";

static void words_are_attributes(void **state) {
    (void)state;
    tw_gemm_algorithm a, b;
    char words[400];
    assert_true(tw_gemm_algorithm_parse(&a, example));
    const tw_gemm_algorithm want = {
        .of = {.id = 66, .tile = 209, .split = 1, .custom = 6, .stages = 35, .cluster = 5}, .tm = 128, .tn = 192};
    assert_memory_equal(&a, &want, sizeof a);
    /* Every attribute comes back, also the largest one. */
    const tw_gemm_algorithm all = {.of = {1, 2, 3, 4, 5, UINT32_MAX, 7, 8, 9}, .tm = 8, .tn = 65535};
    tw_gemm_algorithm_print(&all, words, sizeof words);
    assert_true(tw_gemm_algorithm_parse(&b, words));
    assert_memory_equal(&b, &all, sizeof b);
    tw_random r = tw_random_seed(3);
    for (int i = 0; i < 1000; i++) {
        const uint32_t most = i % 2 ? 3 : 70000;
        tw_gemm_algorithm one = {.tm = 8, .tn = 16};
        uint32_t v[9];
        for (int k = 0; k < 9; k++) v[k] = (uint32_t)tw_random_below(&r, most);
        memcpy(&one.of, v, sizeof v);
        one.of.split = 1 + one.of.split % 16;
        tw_gemm_algorithm_print(&one, words, sizeof words);
        assert_true(tw_gemm_algorithm_parse(&b, words));
        assert_memory_equal(&b, &one, sizeof b);
    }
    static const char *const others[] = {
        "by=cublaslt",
        "by=cublaslt algorithm=1",
        "by=cublaslt id=66 tile=209 tm=128 tn=192 split=0 stages=35",
        "by=cublaslt id=66 tile=209 tm=0 tn=192 split=1 stages=35",
        "by=cublaslt id=66 tile=209 tm=128 tn=70000 split=1 stages=35",
        "by=cublaslt id=66 tile=209 tm=128 split=1 stages=35",
        "by=cublaslt id=66 tile=209 tm=128 tn=192 split=1 stages=035",
        "by=cublaslt id=66 tile=209 tm=128 tn=192 split=1 stages=35 swizzle=0",
        "by=cublaslt id=66 tile=209 tm=128 tn=192 split=1 stages=4294967331",
        "by=cublaslt id=66 tile=209 tm=128 tn=192 split=2000 stages=35",
        "by=cublaslt id=66 tm=128 tn=192 split=1 tile=209 stages=35",
        "by=cublaslt id=66 tile=209 tm=128 tn=192 split=1 stages=35 what=1",
        "by=cublaslt id=66 tile=209 tm=128 tn=192 split=1 stages=35 stages=35",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (tw_gemm_algorithm_parse(&a, others[i])) fail_msg("%s", others[i]);
}

static void choices_have_tiles_and_splits(void **state) {
    (void)state;
    static const char words[] =
        "by=cublaslt id=66 tile=12 tm=64 tn=32 split=3 cluster=7 custom=2 stages=35 reduction=2";
    const tw_artefact_macro m = tw_gemm_algorithm_macro(words, 132);
    /* Its clusters have two rows of four tiles. */
    assert_true(m.grid[0] == 128 && m.grid[1] == 128 && m.rounds[2] == 192 && m.times == 24 && m.slots == 132);
    assert_true(!m.rounds[0] && !m.rounds[1] && !m.grid[2] && !m.multiple[0] && m.multiple[1] == 8 &&
                m.multiple[2] == 8);
    assert_true(m.properties == (TW_MACRO_VENDOR | TW_MACRO_WORKSPACE) && m.n_micros == 1 && !*m.micros[0]);
    assert_string_equal(m.config, words);
}

static void open_family(tw_family *f) {
    tw_diag d;
    const tw_gemm_gpu_options o = {{.type = TW_GEMM_BF16}, 0};
    if (tw_gemm_gpu_open(f, &o, &d) != TW_OK) fail_msg("%s", d.message);
}

/* Returns the index of the first macro choice that is an algorithm. */
static int find_first(const tw_family *f) {
    int i = 0;
    while (i < f->n_macros && strncmp(f->macros[i].config, TW_GEMM_ALGORITHMS_PREFIX, 15) != 0) i++;
    return i;
}

/* Lists algorithms without the rest of a family. The arena owns them. */
static int list_algorithms(tw_arena *arena, const char ***list) {
    const tw_family f = {.axes = {"m", "n", "k"},
                         .n_axes = 3,
                         .least = {64, 384, 2048},
                         .most = {16384, 8192, 8192},
                         .step = {1, 64, 64}};
    tw_cuda *cuda;
    tw_cublaslt *lt = NULL;
    tw_diag d;
    int n = 0;
    if (tw_cuda_open(&cuda, 0, &d) != TW_OK || tw_cublaslt_open(&lt, cuda, &d) != TW_OK ||
        tw_gemm_algorithms_find(arena, &f, TW_GEMM_F16, lt, 132, list, &n, &d) != TW_OK)
        fail_msg("%s", d.message);
    tw_cublaslt_close(lt);
    tw_cuda_close(cuda);
    return n;
}

/* Tiles follow from waves. Those of the stand-in are in its numbers of tiles: 64 times columns plus rows, in its own,
   column-major sense. */
static void tiles_follow_from_waves(void **state) {
    (void)state;
    tw_arena arena = {0};
    const char **list, **again;
    int split = 0;
    /* Three algorithms with two sizes of tiles, of which one is split where k is large. */
    assert_int_equal(list_algorithms(&arena, &list), 8);
    for (int i = 0; i < 8; i++) {
        tw_gemm_algorithm a;
        assert_true(tw_gemm_algorithm_parse(&a, list[i]));
        assert_int_equal(a.tm, a.of.tile / 64 * 8);
        assert_int_equal(a.tn, a.of.tile % 64 * 8);
        assert_true(a.of.id != 2 && a.of.cluster == 5 && a.of.stages == 4 && a.of.inner == a.of.id - 1);
        if (i) assert_true(strcmp(list[i - 1], list[i]) < 0);
        split += a.of.split == 2;
    }
    assert_int_equal(split, 2);
    assert_int_equal(list_algorithms(&arena, &again), 8);
    for (int i = 0; i < 8; i++) assert_string_equal(list[i], again[i]);
    /* An algorithm whose waves contradict its tiles is left out. */
    setenv("FAKE_CUBLASLT_ODD", "1", 1);
    assert_int_equal(list_algorithms(&arena, &again), 6);
    for (int i = 0; i < 6; i++) assert_null(strstr(again[i], " id=3 "));
    tw_arena_free(&arena);
}

typedef struct heard {
    tw_status status[8];
    char message[8][256];
    double time[8];
} heard;

static tw_status hear(void *context, const tw_measured *m, tw_diag *diag) {
    heard *h = context;
    (void)diag;
    h->status[m->candidate] = m->status;
    h->time[m->candidate] = m->status == TW_OK ? m->time.median : 0;
    snprintf(h->message[m->candidate], sizeof h->message[0], "%.200s", m->diag->message);
    return TW_OK;
}

/* Places and algorithms are measured side by side, in turn. The stand-in's first algorithm takes the time of three
   kernels, the third of two, the fourth of four. */
static void algorithms_are_measured(void **state) {
    (void)state;
    tw_family f;
    tw_diag d;
    heard h = {.time = {0}};
    const tw_family_listener l = {hear, NULL, &h};
    const tw_measure_protocol p = {.samples = 3, .turns = true};
    const int64_t problem[TW_SELECT_AXES] = {8, 16, 8};
    static const char *const configs[] = {
        "by=cublaslt algorithm=1",
        "by=cublaslt id=1 tile=520 tm=64 tn=64 split=9 stages=4",
        "by=cublaslt id=3 tile=528 tm=64 tn=128 split=1 cluster=5 stages=4 inner=2",
        "by=cublaslt id=4 tile=532 tm=64 tn=160 split=20 stages=4",
        "by=cublaslt id=2 tile=520 tm=64 tn=64 split=1",
        "by=cublaslt algorithm=3",
        "by=cublaslt id=1 tile=520 tm=64 tn=64 split=1 stages=4 what=1",
        "by=cublaslt",
    };
    open_family(&f);
    const int first = find_first(&f);
    assert_string_equal(f.macros[first - 1].config, "by=cublaslt");
    assert_int_equal(f.macros[first - 1].n_micros, 8);
    assert_int_equal(f.n_macros - first, 8);
    if (f.calls->measure(f.self, problem, configs, 8, &p, &l, &d) != TW_OK) fail_msg("%s", d.message);
    for (int i = 0; i < 4; i++)
        if (h.status[i] != TW_OK) fail_msg("%s: %s", configs[i], h.message[i]);
    assert_int_equal(h.status[7], TW_OK);
    assert_int_equal(h.status[4], TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(h.message[4], "by this algorithm: not supported"));
    /* What was added to the plan has no place in the ranking. */
    assert_int_equal(h.status[5], TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(h.message[5], "proposes 3 algorithms"));
    assert_int_equal(h.status[6], TW_ERR_USAGE);
    assert_true(h.time[0] == h.time[2] && h.time[1] == h.time[7]);
    assert_true(h.time[2] < h.time[1] && h.time[1] < h.time[3]);
    tw_family_close(&f);
}

static void add(tw_store *s, const tw_family *f, const char *environment, const char *config, int64_t began) {
    const double sample = 7;
    const tw_measurement m = {.environment = environment,
                              .space = f->name,
                              .problem = "m=64 n=384 k=2048",
                              .config = config,
                              .protocol = "",
                              .unit = "us",
                              .message = "",
                              .samples = &sample,
                              .n = 1,
                              .began = began};
    assert_int_equal(tw_store_add(s, &m, NULL, NULL), TW_OK);
}

/* The recorded family has the algorithms that were measured on its device, and no others. */
static void recorded_families_have_measured_algorithms(void **state) {
    (void)state;
    tw_family f, recorded;
    tw_store *s;
    tw_diag d;
    char path[600];
    open_family(&f);
    const int first = find_first(&f);
    snprintf(path, sizeof path, "%s/tuned.db", folder);
    if (tw_store_open(&s, path, false, &d) != TW_OK) fail_msg("%s", d.message);
    add(s, &f, f.environment, "by=cublaslt algorithm=1", 1);
    if (tw_gemm_gpu_recorded(&recorded, (tw_gemm_kind){.type = TW_GEMM_BF16}, f.environment, s, &d) != TW_OK)
        fail_msg("%s", d.message);
    assert_int_equal(recorded.n_macros, first);
    tw_family_close(&recorded);
    for (int i = f.n_macros; i-- > first;)
        for (int twice = 0; twice < 2; twice++) add(s, &f, f.environment, f.macros[i].config, 1);
    add(s, &f, "{}", example, 1);
    add(s, &f, f.environment, "by=cublaslt id=1 what=2", 1);
    if (tw_gemm_gpu_recorded(&recorded, (tw_gemm_kind){.type = TW_GEMM_BF16}, f.environment, s, &d) != TW_OK)
        fail_msg("%s", d.message);
    assert_int_equal(recorded.n_macros, f.n_macros);
    for (int i = 0; i < f.n_macros; i++) {
        const tw_artefact_macro *a = &f.macros[i], *b = &recorded.macros[i];
        assert_string_equal(a->config, b->config);
        assert_true(a->properties == b->properties && a->times == b->times && a->slots == b->slots);
        assert_memory_equal(a->grid, b->grid, sizeof a->grid);
        assert_memory_equal(a->rounds, b->rounds, sizeof a->rounds);
        assert_memory_equal(a->multiple, b->multiple, sizeof a->multiple);
    }
    tw_family_close(&recorded);
    /* A space of another type has none of them. */
    if (tw_gemm_gpu_recorded(&recorded, (tw_gemm_kind){.type = TW_GEMM_F16}, f.environment, s, &d) != TW_OK)
        fail_msg("%s", d.message);
    assert_int_equal(find_first(&recorded), recorded.n_macros);
    tw_family_close(&recorded);
    tw_store_close(s);
    tw_family_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(words_are_attributes, setup, teardown),
        cmocka_unit_test_setup_teardown(choices_have_tiles_and_splits, setup, teardown),
        cmocka_unit_test_setup_teardown(tiles_follow_from_waves, setup, teardown),
        cmocka_unit_test_setup_teardown(algorithms_are_measured, setup, teardown),
        cmocka_unit_test_setup_teardown(recorded_families_have_measured_algorithms, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
