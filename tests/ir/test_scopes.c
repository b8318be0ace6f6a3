/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks are closed by their handles: closing any but the innermost one asserts, where it happens. */
#define _GNU_SOURCE
#include "support/support.h"

#include "ir/builder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static tw_val yes(tw_builder *b) {
    return tw_const(b, TW_T_pred, 1);
}

static tw_scope loop(tw_builder *b) {
    return tw_push_for(b, tw_i32(b, 0), tw_i32(b, 3), tw_i32(b, 1), false);
}

static void in_order(tw_builder *b) {
    const tw_scope outer = tw_push_if(b, yes(b)), inner = loop(b), poll = tw_push_while(b);
    tw_push_while_body(b, poll, yes(b));
    tw_pop(b, poll);
    tw_pop(b, inner);
    tw_push_else(b, outer);
    const tw_scope roles = tw_push_roles(b, (int[]){0, 1, 1, 2}, 2);
    tw_next_role(b, roles);
    tw_pop(b, roles);
    tw_pop(b, outer);
}

static void outer_before_inner(tw_builder *b) {
    const tw_scope outer = tw_push_if(b, yes(b));
    loop(b);
    tw_pop(b, outer);
}

static void twice(tw_builder *b) {
    loop(b);
    const tw_scope inner = tw_push_if(b, yes(b));
    tw_pop(b, inner);
    tw_pop(b, inner);
}

/* At the same depth as one that was closed. */
static void a_closed_one(tw_builder *b) {
    const tw_scope first = tw_push_if(b, yes(b));
    tw_pop(b, first);
    tw_push_if(b, yes(b));
    tw_pop(b, first);
}

static void none_open(tw_builder *b) {
    tw_pop(b, (tw_scope){.depth = 1});
}

static void else_of_an_outer_one(tw_builder *b) {
    const tw_scope outer = tw_push_if(b, yes(b));
    tw_push_if(b, yes(b));
    tw_push_else(b, outer);
}

static void else_of_a_loop(tw_builder *b) {
    tw_push_else(b, loop(b));
}

static void body_of_an_outer_one(tw_builder *b) {
    const tw_scope outer = tw_push_while(b);
    tw_push_while(b);
    tw_push_while_body(b, outer, yes(b));
}

static void one_role_too_many(tw_builder *b) {
    const tw_scope roles = tw_push_roles(b, (int[]){0, 1}, 1);
    tw_next_role(b, roles);
}

/* Whether building it in a process of its own ends by an assertion. */
static bool asserts(void (*build)(tw_builder *b)) {
    int status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        const struct rlimit no_core = {0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        tw_kernel *k = tw_kernel_new("k", 90, 64);
        tw_builder b = tw_builder_of(k);
        build(&b);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    assert_int_equal(WTERMSIG(status), SIGABRT);
    return true;
}

static void the_wrong_one_is_caught(void **state) {
    (void)state;
    static const struct {
        const char *what;
        void (*build)(tw_builder *b);
    } wrong[] = {{"an outer block before an inner one", outer_before_inner}, {"a block twice", twice},
                 {"a block that was closed already", a_closed_one},          {"no block", none_open},
                 {"else of an outer block", else_of_an_outer_one},           {"else of a loop", else_of_a_loop},
                 {"the body of an outer loop", body_of_an_outer_one},        {"one role too many", one_role_too_many}};
    assert_false(asserts(in_order));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!asserts(wrong[i].build)) fail_msg("nothing says that it closes %s", wrong[i].what);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_wrong_one_is_caught)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
