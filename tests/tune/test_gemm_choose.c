/* SPDX-License-Identifier: Apache-2.0 */
/* Products whose configuration an artefact chooses, in the emulator against sums in double precision. */
#include "support/support.h"

#include "kernels/gemm/reference.h"
#include "tune/gemm_choose.h"
#include "tune/gemm_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 12 };

/* Boxes, which have no C of f32, and lines, which have: the first takes less time. */
#define BOXED  "mma=2 ml=64 nl=64 u=64 kg=1 swap=0 multicast=0 persistent=4 stream=0"
#define STAGED "mma=2 ml=64 nl=32 u=64 kg=1 swap=0 multicast=0 persistent=4 stream=0"

static const tw_gemm_kind plain = {TW_GEMM_BF16, TW_GEMM_PLAIN};
static char *folder;
static char path[400];

/* Writes an artefact of a kind, whose macro choices take 1 and 2 microseconds. */
static void write_artefact(tw_gemm_kind kind, bool only_boxed) {
    static const char *const boxed[] = {"ms=64 ns=64 stages=3 staged=3 group=1"},
                             *const staged[] = {"ms=64 ns=32 stages=3 staged=0 group=1"};
    static const tw_artefact_anchor anchor = {4, 0};
    static const tw_artefact_fit fast = {.c = {0, 0, 0, 1}, .anchors = &anchor, .n_anchors = 1},
                                 slow = {.c = {0, 0, 0, 2}, .anchors = &anchor, .n_anchors = 1};
    const tw_artefact_macro macros[] = {{.config = BOXED,
                                         .grid = {64, 64},
                                         .rounds = {0, 0, 64},
                                         .slots = 4,
                                         .micros = boxed,
                                         .n_micros = 1,
                                         .fits = &fast,
                                         .n_fits = 1},
                                        {.config = STAGED,
                                         .grid = {64, 32},
                                         .rounds = {0, 0, 64},
                                         .slots = 4,
                                         .micros = staged,
                                         .n_micros = 1,
                                         .fits = &slow,
                                         .n_fits = 1}};
    char name[TW_GEMM_KIND_NAME];
    tw_diag d;
    tw_gemm_kind_name(kind, name);
    tw_artefact a = {.kernel = name,
                     .unit = "us",
                     .device = "any",
                     .alike = "any",
                     .architecture = "any",
                     .about = "{}",
                     .axes = {"m", "n", "k"},
                     .n_axes = 3,
                     .macros = macros,
                     .n_macros = only_boxed ? 1 : 2};
    if (kind.form) a.axes[a.n_axes++] = tw_gemm_form_word(kind.form);
    if (kind.form == TW_GEMM_GROUPS) {
        a.spread = 1;
        a.groups = 4;
    }
    snprintf(path, sizeof path, "%s/a.select", folder);
    if (tw_artefact_write(&a, path, &d) != TW_OK) fail_msg("%s", d.message);
}

static tw_selector *open_artefact(void) {
    tw_selector *s;
    tw_diag d;
    if (tw_selector_open(&s, path, &d) != TW_OK) fail_msg("%s", d.message);
    return s;
}

/* Opens the kernel of a problem by the artefact, runs it, and compares. The configuration has `word`. */
static void expect(const char *words, const char *word) {
    char copy[200], gemm[200];
    tw_gemm_problem p;
    tw_gemm_data data;
    tw_diag d;
    tw_gpu *g;
    tw_gpu_kernel *k;
    tw_gpu_launch *l;
    tw_gpu_kernel_info info;
    uint64_t at[MOST] = {0}, c_at = 0;
    snprintf(copy, sizeof copy, "%s", words);
    snprintf(gemm, sizeof gemm, "gemm %s", words);
    if (tw_gemm_problem_parse(&p, copy, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_gemm_data_make(&data, &p, 7, &d), TW_OK);
    assert_int_equal(tw_gpu_open(&g, "emulator", &d), TW_OK);
    tw_selector *s = open_artefact();
    if (tw_gpu_kernel_open_chosen(&k, g, gemm, s, 0, &d) != TW_OK) fail_msg("%s", d.message);
    tw_selector_close(s);
    tw_gpu_kernel_describe(k, &info);
    if (!strstr(info.configuration, word)) fail_msg("%s: %s", words, info.configuration);
    assert_int_equal(tw_gpu_launch_open(&l, k, &d), TW_OK);
    for (int i = 0; i < tw_gpu_kernel_buffers(k); i++) {
        const tw_gpu_buffer *b = tw_gpu_kernel_buffer(k, i);
        assert_int_equal(tw_gpu_alloc(g, b->bytes, &at[i], &d), TW_OK);
        for (int j = 0; j < TW_GEMM_MATRICES; j++)
            if (!strcmp(b->name, tw_gemm_buffer_names[j]) && data.of[j])
                assert_int_equal(tw_gpu_upload(g, at[i], data.of[j], b->bytes, &d), TW_OK);
        if (!strcmp(b->name, "c")) c_at = at[i];
        void *zeros = b->zeroed ? calloc(1, b->bytes) : NULL;
        if (zeros) assert_int_equal(tw_gpu_upload(g, at[i], zeros, b->bytes, &d), TW_OK);
        free(zeros);
        assert_int_equal(tw_gpu_launch_bind(l, b->name, at[i], &d), TW_OK);
    }
    if (tw_gpu_launch_run(l, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    void *c = malloc(data.bytes[TW_GEMM_C]);
    double worst;
    assert_int_equal(tw_gpu_download(g, c, c_at, data.bytes[TW_GEMM_C], &d), TW_OK);
    assert_int_equal(tw_gemm_data_compare(&data, c, &worst, NULL), 0);
    free(c);
    for (int i = 0; i < MOST; i++) tw_gpu_release(g, at[i]);
    tw_gpu_launch_close(l);
    tw_gpu_kernel_close(k);
    tw_gpu_close(g);
    tw_gemm_data_free(&data);
}

static void choices_compute(void **state) {
    (void)state;
    write_artefact((tw_gemm_kind){TW_GEMM_BF16, TW_GEMM_GROUPS}, false);
    expect("type=bf16 m=70 n=64 k=128 tb=1 groups=5", "nl=64");
    expect("type=f16 m=70 n=64 k=128 tb=1 groups=5", "nl=64");
    /* The fastest choice has no C of f32. */
    expect("type=bf16 m=70 n=64 k=128 tb=1 groups=5 out=f32 bias=1", "nl=32");
    write_artefact((tw_gemm_kind){TW_GEMM_BF16, TW_GEMM_BATCH}, false);
    expect("type=bf16 m=70 n=64 k=128 tb=1 batch=3", "nl=64");
    write_artefact(plain, false);
    expect("type=bf16 m=70 n=64 k=128 tb=1", "nl=64");
    /* No choice is left: the configuration is that of a problem that nobody tuned. */
    write_artefact(plain, true);
    expect("type=bf16 m=70 n=64 k=128 tb=1 out=f32", "mma=1");
}

static void refuse(tw_status st, const char *words, unsigned flags, const char *why) {
    tw_gpu *g;
    tw_gpu_kernel *k;
    tw_diag d;
    tw_selector *s = open_artefact();
    assert_int_equal(tw_gpu_open(&g, "emulator", &d), TW_OK);
    assert_int_equal(tw_gpu_kernel_open_chosen(&k, g, words, s, flags, &d), st);
    if (!strstr(d.message, why)) fail_msg("%s", d.message);
    assert_null(k);
    tw_gpu_close(g);
    tw_selector_close(s);
}

static void others_are_refused(void **state) {
    (void)state;
    write_artefact((tw_gemm_kind){TW_GEMM_BF16, TW_GEMM_GROUPS}, false);
    refuse(TW_ERR_USAGE, "gemm type=bf16 m=64 n=64 k=64 tb=1", 0,
           "is of gemm-gpu-bf16-groups, and the problem is one of gemm-gpu-bf16");
    refuse(TW_ERR_USAGE, "gemm type=e4m3 m=64 n=64 k=64 tb=1 groups=2", 0, "one of gemm-gpu-e4m3-groups");
    refuse(TW_ERR_USAGE, "gemm type=bf16 m=64 n=64 k=64 tb=1 groups=2", 1u << 20, "no such flag");
    refuse(TW_ERR_USAGE, "gemm type=bf16 m=20000000 n=64 k=64 tb=1 groups=2", 0, "above 16777216");
    refuse(TW_ERR_USAGE, "gemm type=bf16 rows=64", 0, "says nothing of a product");
    refuse(TW_ERR_USAGE, "gemmx type=bf16", 0, "for gemm alone");
    refuse(TW_ERR_USAGE, "conv type=bf16", 0, "for gemm alone");
}

/* Names and axes of kinds are each other's inverse. */
static void kinds_have_names(void **state) {
    (void)state;
    for (int t = 0; t < TW_GEMM_TYPES; t++)
        for (int f = 0; f < TW_GEMM_FORMS; f++) {
            const tw_gemm_kind k = {(tw_gemm_type)t, (tw_gemm_form)f};
            const int64_t axes[] = {64, 128, 256, 3};
            int64_t again[TW_SELECT_AXES];
            char name[TW_GEMM_KIND_NAME];
            tw_gemm_kind found;
            tw_gemm_kind_name(k, name);
            assert_true(tw_gemm_kind_from_name(name, &found) && found.type == k.type && found.form == k.form);
            tw_gemm_problem p = tw_gemm_kind_problem(k, axes);
            assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
            found = tw_gemm_kind_of(&p);
            assert_true(found.type == k.type && found.form == k.form);
            const int n = tw_gemm_kind_axes(&p, again);
            assert_true(n == (f ? 4 : 3) && !memcmp(axes, again, (size_t)n * sizeof *axes));
        }
    tw_gemm_kind found;
    assert_false(tw_gemm_kind_from_name("gemm-gpu-bf16-", &found) || tw_gemm_kind_from_name("gemm-cpu-bf16", &found));
}

static int setup(void **state) {
    (void)state;
    folder = test_folder_make();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    test_folder_remove(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(choices_compute), cmocka_unit_test(others_are_refused),
                                       cmocka_unit_test(kinds_have_names)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
