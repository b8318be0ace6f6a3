/* SPDX-License-Identifier: Apache-2.0 */
/* Artefacts that decide who computes a product of several positions: which ones decide, and what a machine does. */
#define _GNU_SOURCE
#include "support/llama.h"
#include "support/lower.h"
#include "support/support.h"

#include "device/identity.h"
#include "select/artefact.h"
#include "tilewright/device.h"
#include "tilewright/vm.h"
#include "vm/cpu/selected.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 2, POSITIONS = 64, DIM = 256, FFN = 2048 };

static char *folder;
static char path[512];

static int setup(void **state) {
    (void)state;
    folder = test_folder_make();
    snprintf(path, sizeof path, "%s/gemm-cpu-f32-strips.select", folder);
    setenv("TILEWRIGHT_CACHE", folder, 1);
    unsetenv("TILEWRIGHT_SELECT");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    test_folder_remove(folder);
    return 0;
}

/* The differences of an artefact from one that decides. */
typedef struct change {
    const char *kernel; /* Name of the kernel. NULL: that of strips of f32. */
    int threads;        /* Threads of the processor. 0: THREADS. */
    int axes;           /* Number of axes. 0: 3. */
    bool other;         /* True: the device is not here. */
    bool unknown;       /* True: no machine has the configurations. */
    bool untrained;     /* True: there is no model. */
} change;

/* The product that the artefact lists, with OpenBLAS as the fastest. For all others its model chooses our kernel. */
static const tw_vm_product listed = {TW_F32, 0, POSITIONS, 2 * FFN, DIM};
static const tw_vm_product unlisted = {TW_F32, 0, POSITIONS, FFN, DIM};

/* Writes an artefact to `path`. */
static void write(const change *c) {
    static const tw_artefact_anchor anchors[] = {{1, 0}};
    static const tw_artefact_fit own[] = {
        {.c = {0, 0, 0, 10}, .anchors = anchors, .n_anchors = 1, .samples = 9, .error = 0.1}};
    static const tw_artefact_fit openblas[] = {
        {.c = {0, 0, 0, 20}, .anchors = anchors, .n_anchors = 1, .samples = 9, .error = 0.1}};
    static const char *const micros[] = {""};
    const int fits = c->untrained ? 0 : 1;
    const tw_artefact_macro macros[] = {{.config = c->unknown ? "by=nobody" : "by=own",
                                         .slots = 1,
                                         .micros = micros,
                                         .n_micros = 1,
                                         .fits = own,
                                         .n_fits = fits},
                                        {.config = c->unknown ? "by=somebody" : "by=openblas",
                                         .properties = TW_MACRO_VENDOR,
                                         .slots = 1,
                                         .micros = micros,
                                         .n_micros = 1,
                                         .fits = openblas,
                                         .n_fits = fits}};
    const tw_artefact_exact exact = {
        .problem = {listed.m, listed.n, listed.k}, .macro = 1, .time = 7, .second_macro = 0, .second_time = 8};
    tw_artefact a = {.kernel = c->kernel ? c->kernel : "gemm-cpu-f32-strips",
                     .unit = "us",
                     .about = "{}",
                     .axes = {"m", "n", "k"},
                     .n_axes = c->axes ? c->axes : 3,
                     .macros = macros,
                     .n_macros = 2,
                     .exact = &exact,
                     .n_exact = 1};
    tw_identity i;
    tw_cpu cpu;
    tw_diag d;
    tw_cpu_detect(&cpu);
    tw_identity_of_cpu(&i, c->other ? "Another processor" : cpu.model, c->threads ? c->threads : THREADS, cpu.isa);
    a.device = i.device;
    a.alike = i.alike;
    a.architecture = i.architecture;
    if (c->axes == 2) a.axes[2] = NULL;
    if (tw_artefact_write(&a, path, &d) != TW_OK) fail_msg("%s", d.message);
}

/* Returns the choice of an artefact for a product. Checks that `by` names what it rests on. */
static int choose(const char *file, bool whole, const tw_vm_product *p, const char *by) {
    tw_selected *s = tw_selected_open(file, THREADS, whole);
    const char *is = "";
    double us = 0;
    assert_non_null(s);
    const int who = tw_selected_choose(s, p, 2, &is, &us);
    assert_int_equal(who, tw_selected_choose(s, p, 2, &is, &us));
    tw_selected_close(s);
    if (who >= 0) {
        assert_string_equal(is, by);
        assert_true(us > 0);
    }
    return who;
}

static void listed_products_come_before_the_model(void **state) {
    (void)state;
    write(&(change){0});
    assert_int_equal(choose(path, true, &listed, "exact"), 1);
    assert_int_equal(choose(path, true, &unlisted, "model"), 0);
    /* Without a prediction only the artefact's default is left, and it does not decide. */
    write(&(change){.untrained = true});
    assert_int_equal(choose(path, true, &listed, "exact"), 1);
    assert_int_equal(choose(path, true, &unlisted, ""), -1);
}

static void other_artefacts_do_not_decide(void **state) {
    (void)state;
    static const change changes[] = {
        {.kernel = "gemm-cpu-f32"}, {.threads = THREADS + 1}, {.axes = 2}, {.other = true}, {.unknown = true}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        write(&changes[i]);
        if (choose(path, true, &listed, "exact") != -1) fail_msg("change %d decides", (int)i);
    }
    write(&(change){0});
    tw_vm_product p = listed;
    p.weights = TW_BF16;
    assert_int_equal(choose(path, true, &p, ""), -1);
    p = listed;
    p.m = 0; /* No axis of an artefact is below 1. */
    assert_int_equal(choose(path, true, &p, ""), -1);
    assert_int_equal(choose(path, false, &listed, ""), -1);
    assert_int_equal(choose("", true, &listed, ""), -1);
    assert_int_equal(choose("/dev/null/nothing", true, &listed, ""), -1);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, 100, SEEK_SET), 0);
    fputs("damage", f);
    fclose(f);
    assert_int_equal(choose(path, true, &listed, ""), -1);
}

static void artefacts_are_found(void **state) {
    (void)state;
    write(&(change){0});
    assert_int_equal(choose(NULL, true, &listed, "exact"), 1);
    setenv("TILEWRIGHT_SELECT", "", 1);
    assert_int_equal(choose(NULL, true, &listed, ""), -1);
    setenv("TILEWRIGHT_SELECT", path, 1);
    setenv("TILEWRIGHT_CACHE", "/dev/null/nowhere", 1);
    assert_int_equal(choose(NULL, true, &listed, "exact"), 1);
    unsetenv("TILEWRIGHT_SELECT");
    assert_int_equal(choose(NULL, true, &listed, ""), -1);
    setenv("TILEWRIGHT_CACHE", folder, 1);
}

/* ---- the machine */

static void explains(const tw_vm *vm, const char *line, bool has) {
    char text[2000];
    tw_vm_explain(vm, text, sizeof text);
    if (has != (strstr(text, line) != NULL)) fail_msg("\"%s\" in:\n%s", line, text);
}

static void feed(tw_vm *vm, int program, float *logits) {
    int32_t ids[POSITIONS];
    tw_diag d;
    for (int i = 0; i < POSITIONS; i++) ids[i] = i * 7 % TEST_LLAMA_VOCAB;
    tw_vm_step step = {.program = program, .tokens = ids, .n = POSITIONS};
    if (tw_vm_run(vm, &step, &d) != TW_OK) fail_msg("%s", d.message);
    memcpy(logits, step.logits, TEST_LLAMA_VOCAB * sizeof *logits);
}

static void reselect(tw_vm *vm, const char *artefact) {
    tw_diag d;
    if (tw_vm_choose(vm, artefact, &d) != TW_OK) fail_msg("%s", d.message);
}

static void a_machine_goes_by_the_artefact(void **state) {
    (void)state;
    tw_model *m = test_open_llama(&(test_llama){.dim = DIM, .heads = 4, .kv_heads = 2, .head_dim = 64, .ffn = FFN});
    tw_checked *program = test_lower(m, (tw_lowering){.workers = THREADS, .tokens = POSITIONS}, TEST_LLAMA_POSITIONS);
    const tw_vm_options o = {.workers = THREADS, .no_pin = true};
    tw_vm_product products[8];
    float own[TEST_LLAMA_VOCAB], vendor[TEST_LLAMA_VOCAB], largest = 0;
    tw_vm *vm;
    tw_diag d;
    int id;
    write(&(change){0});
    if (tw_vm_open(&vm, m, &o, &d) != TW_OK || tw_vm_load(vm, program, &id, &d) != TW_OK) fail_msg("%s", d.message);
    const int n = tw_vm_products(vm, products, 8);
    bool found = false;
    for (int i = 0; i < n; i++) found = found || !memcmp(&products[i], &listed, sizeof listed);
    assert_true(found && n > 1);
    assert_int_equal(tw_vm_products(vm, products, 1), 1);
    explains(vm, "f32 2048x256: openblas, exact, 7 us expected\n", true);
    explains(vm, ": own, model, 10 us expected\n", true);
    explains(vm, "measured", false);
    feed(vm, id, vendor);
    /* Without an artefact everything is measured, or was before. */
    reselect(vm, "");
    explains(vm, "measured", true);
    explains(vm, "exact", false);
    explains(vm, "model", false);
    assert_int_equal(tw_vm_products(vm, products, 8), n);
    /* The choice changes no result. */
    write(&(change){.unknown = true});
    reselect(vm, path);
    explains(vm, "exact", false);
    feed(vm, id, own);
    for (int i = 0; i < TEST_LLAMA_VOCAB; i++) largest = fmaxf(largest, fabsf(own[i]));
    for (int i = 0; i < TEST_LLAMA_VOCAB; i++) assert_true(fabsf(own[i] - vendor[i]) <= 2e-5f * largest);
    tw_vm_close(vm);
    tw_checked_free(program);
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listed_products_come_before_the_model), cmocka_unit_test(other_artefacts_do_not_decide),
        cmocka_unit_test(artefacts_are_found), cmocka_unit_test(a_machine_goes_by_the_artefact)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
