/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation of writing and opening an artefact fails once. Decisions must not allocate, lock, format text or call
   the system. */
#define _GNU_SOURCE
#include "support/alloc_fail.h"
#include "support/support.h"
#include "support/taken.h"

#include "select/artefacts.h"
#include "tilewright/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/seccomp.h>

typedef struct used {
    const tw_artefact *a;
    char path[512];
} used;

static tw_artefact *make(tw_arena *arena) {
    tw_random r = tw_random_seed(21);
    tw_artefact *a;
    do {
        a = artefact_random(arena, &r, &(artefact_limits){3, 20, 4, 6, 10, false});
    } while (a->n_exact < 3 || a->n_axes < 3);
    return a;
}

static int write_and_open(void *context) {
    const used *u = context;
    tw_selector *s = NULL;
    tw_diag d = {0};
    tw_status st = tw_artefact_write(u->a, u->path, &d);
    if (st == TW_OK) st = tw_selector_open(&s, u->path, &d);
    assert_true((st == TW_OK) == (s != NULL));
    tw_selector_close(s);
    /* A failed mmap is an error of the system. */
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY || (st == TW_ERR_IO && alloc_fail_hit()) ? 1 : 2;
}

static void every_failure_is_told(void **state) {
    (void)state;
    tw_arena arena = {0};
    used u = {.a = make(&arena)};
    char *folder = test_folder_make();
    snprintf(u.path, sizeof u.path, "%s/a.tws", folder);
    alloc_fail_exhaust(write_and_open, &u);
    test_folder_remove(folder);
    tw_arena_free(&arena);
}

enum { PROBLEMS = 500 };

/* Decides new problems, repeated ones, listed ones and invalid ones, and ranks choices. */
static void decide(const tw_selector *s, const tw_artefact *a, int64_t problems[PROBLEMS][TW_SELECT_AXES]) {
    tw_selection out, some[4];
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < PROBLEMS; i++) {
            (void)tw_select_choose(s, problems[i], (unsigned)i % 16, &out);
            (void)tw_select_best(s, problems[i], (unsigned)i % 16, 4, some);
        }
    for (int i = 0; i < a->n_exact; i++) (void)tw_select_choose(s, a->exact[i].problem, 0, &out);
    (void)tw_select_choose(s, (int64_t[]){0, 0, 0}, 0, &out);
}

/* Decides in a child process under strict seccomp, where any system call but exit kills it. 77: the kernel has no
   seccomp. */
static int decide_alone(const tw_selector *s, const tw_artefact *a, int64_t problems[PROBLEMS][TW_SELECT_AXES]) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) _exit(77);
        decide(s, a, problems);
        syscall(SYS_exit, 0);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
}

static void deciding_takes_nothing(void **state) {
    (void)state;
    tw_arena arena = {0};
    tw_random r = tw_random_seed(22);
    static int64_t problems[PROBLEMS][TW_SELECT_AXES];
    tw_diag d = {0};
    used u = {.a = make(&arena)};
    char *folder = test_folder_make();
    tw_selector *s;
    snprintf(u.path, sizeof u.path, "%s/a.tws", folder);
    for (int i = 0; i < PROBLEMS; i++) artefact_problem(u.a, &r, problems[i]);
    assert_int_equal(tw_artefact_write(u.a, u.path, &d), TW_OK);
    assert_int_equal(tw_selector_open(&s, u.path, &d), TW_OK);
    const int ended = decide_alone(s, u.a, problems);
    assert_true(ended == 0 || ended == 77);
    const int locks = taken_locks(), texts = taken_texts();
    assert_true(texts > 0);
    alloc_fail_after(0, true);
    decide(s, u.a, problems);
    assert_false(alloc_fail_hit());
    alloc_fail_after(-1, false);
    assert_int_equal(taken_locks(), locks);
    assert_int_equal(taken_texts(), texts);
    tw_selector_close(s);
    test_folder_remove(folder);
    tw_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_failure_is_told),
                                       cmocka_unit_test(deciding_takes_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
