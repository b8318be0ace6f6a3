/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of a launch, on the stand-in for the driver: tokens are heard while the launch runs, one that nobody
   waits for is waited for by the next, rules and counts go over when they change, and a machine that gives up, ends
   without a word or faults is said so. */
#define _GNU_SOURCE
#include "device/fake_cuda.h"
#include "support/lower.h"
#include "support/support.h"

#include "base/diag.h"
#include "vm/cuda/machine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_SEQ = 64 };

/* What the next launch does, and what the last was told. */
static struct {
    enum { TELLS, TELLS_LATER, GIVES_UP, IS_SILENT } does;
    int at; /* the step at which it gives up or falls silent */
    uint64_t out, abort, rules, counts;
    int32_t pos, n, steps, epoch, token;
    uint32_t mode;
    _Atomic int said, launches;
} fake;
static int sequences;
static pthread_t teller;
static bool telling;

static int32_t token_of(int step, int sequence) {
    return (int32_t)((fake.token + 7 * step + 13 * sequence + 1) % 250);
}

static void *tell(void *nothing) {
    (void)nothing;
    _Atomic int32_t *out = (_Atomic int32_t *)(uintptr_t)fake.out;
    for (int i = 0; i < fake.steps; i++) {
        const struct timespec some = {.tv_nsec = 2000000};
        if (fake.does == TELLS_LATER) nanosleep(&some, NULL);
        if (fake.does == IS_SILENT && i >= fake.at) break;
        const bool up = fake.does == GIVES_UP && i >= fake.at;
        if (up) {
            tw_mega_abort *a = (tw_mega_abort *)(uintptr_t)fake.abort;
            *a = (tw_mega_abort){.flag = 1, .worker = 3, .record = 2, .counter = 0, .target = 9, .seen = 8};
        }
        for (int s = 0; s < sequences; s++)
            atomic_store(&out[i * sequences + s], up ? TW_MEGA_GAVE_UP : token_of(i, s));
        atomic_fetch_add(&fake.said, 1);
    }
    return NULL;
}

static void join(void) {
    if (telling) pthread_join(teller, NULL);
    telling = false;
}

static void step(void **p) {
    join();
    memcpy(&fake.out, p[TW_MEGA_ARG_OUT], 8);
    memcpy(&fake.abort, p[TW_MEGA_ARG_ABORT], 8);
    memcpy(&fake.rules, p[TW_MEGA_ARG_RULES], 8);
    memcpy(&fake.counts, p[TW_MEGA_ARG_COUNTS], 8);
    memcpy(&fake.pos, p[TW_MEGA_ARG_POS], 4);
    memcpy(&fake.n, p[TW_MEGA_ARG_N], 4);
    memcpy(&fake.steps, p[TW_MEGA_ARG_STEPS], 4);
    memcpy(&fake.epoch, p[TW_MEGA_ARG_EPOCH], 4);
    memcpy(&fake.token, p[TW_MEGA_ARG_TOKEN], 4);
    memcpy(&fake.mode, p[TW_MEGA_ARG_MODE], 4);
    atomic_fetch_add(&fake.launches, 1);
    atomic_store(&fake.said, 0);
    if (fake.does == TELLS_LATER)
        telling = !pthread_create(&teller, NULL, tell, NULL);
    else
        tell(NULL);
}

typedef struct fixture {
    tw_model *m;
    tw_cuda_vm *vm;
    tw_checked *program;
    int id;
} fixture;

static void open_fixture(fixture *f, int n) {
    tw_diag d;
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    unsetenv("TILEWRIGHT_PTXAS");
    fake_cuda_reset();
    fake_cuda_hook("step", step);
    memset(&fake, 0, sizeof fake);
    sequences = n;
    if (tw_model_open(&f->m, TEST_DATA "/models/llama-biases", &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_cuda_vm_open(&f->vm, f->m, &(tw_cuda_vm_options){0}, &d) != TW_OK) fail_msg("%s", d.message);
    tw_lowering l = {.workers = 4, .tokens = n, .sequences = n, .max_seq = MAX_SEQ, .group_heads = true};
    tw_cuda_vm_lowering(f->vm, &l);
    f->program = test_lower(f->m, l, MAX_SEQ);
    if (tw_cuda_vm_load(f->vm, f->program, &f->id, &d) != TW_OK) fail_msg("%s", d.message);
}

static void close_fixture(fixture *f) {
    join();
    tw_cuda_vm_close(f->vm);
    tw_checked_free(f->program);
    tw_model_close(f->m);
    assert_int_equal(fake_cuda_alive(), 0);
    fake_cuda_reset();
}

/* What heard the tokens. */
typedef struct ear {
    int heard, enough;
    int32_t token[MAX_SEQ];
    int ahead; /* the most steps that were there when one was heard */
} ear;

static bool hear(void *user, const int32_t *tokens) {
    ear *e = user;
    const int ahead = atomic_load(&fake.said) - e->heard - 1;
    e->ahead = ahead > e->ahead ? ahead : e->ahead;
    e->token[e->heard] = tokens[sequences - 1];
    return ++e->heard != e->enough;
}

static tw_status draw(fixture *f, int64_t pos, int64_t n, const tw_sample_rules *rules, ear *e, tw_diag *d) {
    static const int32_t tokens[TW_CUDA_VM_TOKENS] = {5, 6, 7};
    int64_t positions[TW_CUDA_VM_TOKENS];
    for (int i = 0; i < TW_CUDA_VM_TOKENS; i++) positions[i] = pos + i;
    tw_cuda_vm_draw o = {.program = f->id, .tokens = tokens, .positions = positions, .n = n, .rules = rules};
    o.take = hear;
    o.user = e;
    tw_status st = tw_cuda_vm_draw_tokens(f->vm, &o, d);
    assert_int_equal(o.taken, e->heard);
    return st;
}

static void tokens_are_heard_while_the_launch_runs(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_fixture(&f, 1);
    fake.does = TELLS_LATER;
    fake_cuda_busy(1 << 30);
    ear e = {0};
    if (draw(&f, 3, 8, NULL, &e, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(e.heard, 8);
    for (int i = 0; i < 8; i++) assert_int_equal(e.token[i], token_of(i, 0));
    assert_true(e.ahead < 4); /* not all at the end */
    assert_int_equal(fake.pos, 3);
    assert_int_equal(fake.steps, 8);
    assert_int_equal(fake.token, 5);
    assert_int_equal(fake.mode, 0);
    assert_int_equal(fake.n, 1);
    close_fixture(&f);
}

/* Whoever has heard enough does not wait; the next launch does, and begins where epochs stand. */
static void what_nobody_wants_is_waited_for_by_the_next(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_fixture(&f, 1);
    fake.does = TELLS_LATER;
    fake_cuda_busy(1 << 30);
    ear e = {.enough = 2};
    if (draw(&f, 0, 10, NULL, &e, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(e.heard, 2);
    assert_true(atomic_load(&fake.said) < 10);
    ear second = {0};
    if (draw(&f, 2, 3, NULL, &second, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(second.heard, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(second.token[i], token_of(i, 0));
    assert_int_equal(fake.epoch, 10);
    /* And closing waits for nobody's. */
    ear third = {.enough = 1};
    assert_int_equal(draw(&f, 5, 4, NULL, &third, &d), TW_OK);
    close_fixture(&f);
}

static void several_sequences_are_heard_together(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_fixture(&f, 3);
    ear e = {0};
    if (draw(&f, 0, 5, NULL, &e, &d) != TW_OK) fail_msg("%s", d.message);
    for (int i = 0; i < 5; i++) assert_int_equal(e.token[i], token_of(i, 2));
    const tw_mega_program *p = f.vm->programs;
    const int32_t *begin = (const int32_t *)(uintptr_t)p->arguments[TW_MEGA_ARG_TOKENS];
    assert_int_equal(begin[0], 5);
    assert_int_equal(begin[2], 7);
    assert_int_equal(begin[3], 0); /* positions lie behind the tokens */
    assert_int_equal(begin[5], 2);
    close_fixture(&f);
}

static void rules_and_counts_go_over_when_they_change(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_fixture(&f, 1);
    tw_sample_rules rules;
    tw_sample_wish w = {.temperature = 1, .top_k = 5, .repetition = 1.5, .seed = 3};
    assert_int_equal(tw_sample_rules_of(&rules, &w, f.m->vocab, &d), TW_OK);
    ear e = {0};
    /* Penalties count something. */
    assert_int_equal(draw(&f, 0, 1, &rules, &e, &d), TW_ERR_USAGE);
    uint32_t *counts = calloc((size_t)f.m->vocab, sizeof *counts);
    counts[9] = TW_SAMPLE_SEEN | 2;
    assert_int_equal(tw_cuda_vm_count(f.vm, 0, counts, &d), TW_OK);
    assert_int_equal(tw_cuda_vm_count(f.vm, TW_CUDA_VM_TOKENS, counts, &d), TW_ERR_USAGE);
    assert_int_equal(tw_cuda_vm_count(f.vm, -1, counts, &d), TW_ERR_USAGE);
    fake_cuda_fail("cuMemcpyHtoDAsync_v2", 0, 999);
    assert_int_equal(tw_cuda_vm_count(f.vm, 0, counts, &d), TW_ERR_IO);
    assert_int_equal(tw_cuda_vm_count(f.vm, 0, counts, &d), TW_OK);
    assert_int_equal(draw(&f, 0, 1, &rules, &e, &d), TW_OK);
    assert_int_equal(fake.mode, TW_SAMPLE_DRAWS | TW_SAMPLE_CUTS | TW_SAMPLE_PENALISES);
    assert_memory_equal((const void *)(uintptr_t)fake.rules, &rules, sizeof rules);
    assert_int_equal(((const uint32_t *)(uintptr_t)fake.counts)[9], TW_SAMPLE_SEEN | 2);
    /* The same rules cost nothing; others go over. */
    const int calls = fake_cuda_look()->calls;
    e = (ear){0};
    assert_int_equal(draw(&f, 1, 1, &rules, &e, &d), TW_OK);
    const int alike = fake_cuda_look()->calls - calls;
    rules.seed[0]++;
    e = (ear){0};
    assert_int_equal(draw(&f, 2, 1, &rules, &e, &d), TW_OK);
    assert_true(fake_cuda_look()->calls - calls - alike > alike);
    assert_memory_equal((const void *)(uintptr_t)fake.rules, &rules, sizeof rules);
    /* Greedy has none. */
    e = (ear){0};
    assert_int_equal(draw(&f, 3, 1, NULL, &e, &d), TW_OK);
    assert_int_equal(fake.mode, 0);
    free(counts);
    close_fixture(&f);
}

/* A step for its token alone: a launch, and nothing is copied either way. */
static void one_token_costs_one_launch(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_fixture(&f, 1);
    static const int32_t text[1] = {4};
    tw_vm_step s = {.program = f.id, .tokens = text, .n = 1, .no_logits = true};
    assert_int_equal(tw_cuda_vm_run(f.vm, &s, &d), TW_OK); /* the angles go over once */
    const int calls = fake_cuda_look()->calls, launches = fake_cuda_look()->launches;
    s.pos = 1;
    assert_int_equal(tw_cuda_vm_run(f.vm, &s, &d), TW_OK);
    assert_int_equal(s.token, token_of(0, 0));
    assert_null(s.logits);
    assert_int_equal(fake_cuda_look()->launches - launches, 1);
    assert_true(fake_cuda_look()->calls - calls <= 2); /* the launch, on the device made current */
    s.no_logits = false;
    assert_int_equal(tw_cuda_vm_run(f.vm, &s, &d), TW_OK);
    assert_non_null(s.logits);
    close_fixture(&f);
}

static void who_gives_up_is_named(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_fixture(&f, 1);
    fake.does = GIVES_UP;
    fake.at = 2;
    ear e = {0};
    assert_int_equal(draw(&f, 0, 5, NULL, &e, &d), TW_ERR_IO);
    assert_int_equal(e.heard, 2);
    assert_non_null(strstr(d.message, "gave up: worker 3 waited at its record 2"));
    e = (ear){0};
    assert_int_equal(draw(&f, 0, 5, NULL, &e, &d), TW_ERR_IO);
    assert_non_null(strstr(d.message, "of no further use"));
    close_fixture(&f);
}

/* What the next launch finds of one that nobody heard to its end. */
static void who_gave_up_unheard_is_named_later(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_fixture(&f, 1);
    fake.does = GIVES_UP;
    fake.at = 3;
    ear e = {.enough = 1};
    assert_int_equal(draw(&f, 0, 5, NULL, &e, &d), TW_OK);
    e = (ear){0};
    assert_int_equal(draw(&f, 1, 5, NULL, &e, &d), TW_ERR_IO);
    assert_non_null(strstr(d.message, "gave up: worker 3"));
    assert_int_equal(atomic_load(&fake.launches), 1);
    close_fixture(&f);
}

static void silence_and_faults_are_said(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_fixture(&f, 1);
    fake.does = IS_SILENT;
    fake.at = 1;
    fake_cuda_busy(3);
    ear e = {0};
    assert_int_equal(draw(&f, 0, 4, NULL, &e, &d), TW_ERR_IO);
    assert_int_equal(e.heard, 1);
    assert_non_null(strstr(d.message, "without a token for step 1"));
    close_fixture(&f);
    open_fixture(&f, 1);
    fake.does = IS_SILENT;
    fake_cuda_fail("cuStreamQuery", 1, 719);
    fake_cuda_busy(10);
    e = (ear){0};
    assert_int_equal(draw(&f, 0, 4, NULL, &e, &d), TW_ERR_IO);
    assert_int_equal(e.heard, 0);
    /* A device that faulted takes nothing back. */
    tw_cuda_vm_close(f.vm);
    tw_checked_free(f.program);
    tw_model_close(f.m);
    fake_cuda_reset();
}

/* Memory that the device shares may be short. */
static void shared_memory_may_be_short(void **state) {
    (void)state;
    static const char *const calls[] = {"cuMemHostAlloc", "cuMemHostGetDevicePointer_v2"};
    for (int i = 0; i < 2; i++) {
        fixture f;
        tw_diag d;
        int id;
        open_fixture(&f, 1);
        fake_cuda_fail(calls[i], 0, 2);
        assert_int_equal(tw_cuda_vm_load(f.vm, f.program, &id, &d), TW_ERR_MEMORY);
        close_fixture(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_heard_while_the_launch_runs),
        cmocka_unit_test(what_nobody_wants_is_waited_for_by_the_next),
        cmocka_unit_test(several_sequences_are_heard_together),
        cmocka_unit_test(rules_and_counts_go_over_when_they_change),
        cmocka_unit_test(one_token_costs_one_launch),
        cmocka_unit_test(who_gives_up_is_named),
        cmocka_unit_test(who_gave_up_unheard_is_named_later),
        cmocka_unit_test(silence_and_faults_are_said),
        cmocka_unit_test(shared_memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
