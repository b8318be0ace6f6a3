/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks are closed by their handles: closing any but the innermost one asserts, where it happens. As statements of C
   they make the same kernel. */
#define _GNU_SOURCE
#include "support/support.h"

#include "ir/builder.h"
#include "ir/text.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
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
    tw_pop(b, (tw_scope){0});
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

static void branch_left(tw_builder *b) {
    TW_IF (b, yes(b)) break;
}

static void loop_left(tw_builder *b) {
    TW_FOR (b, i, tw_i32(b, 0), tw_i32(b, 3), tw_i32(b, 1), false) break;
}

static void while_left(tw_builder *b) {
    TW_WHILE (b, yes(b)) return;
}

static void block_left(tw_builder *b) {
    TW_BLOCK (b, loop(b)) return;
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
    } wrong[] = {{"an outer block before an inner one", outer_before_inner},
                 {"a block twice", twice},
                 {"a block that was closed already", a_closed_one},
                 {"no block", none_open},
                 {"else of an outer block", else_of_an_outer_one},
                 {"else of a loop", else_of_a_loop},
                 {"the body of an outer loop", body_of_an_outer_one},
                 {"one role too many", one_role_too_many},
                 {"nothing when a branch is left", branch_left},
                 {"nothing when a loop is left", loop_left},
                 {"nothing when a loop with a predicate is left", while_left},
                 {"nothing when a block is left", block_left}};
    assert_false(asserts(in_order));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!asserts(wrong[i].build)) fail_msg("nothing says that it closes %s", wrong[i].what);
}

static tw_scope odd(tw_builder *b, tw_val i) {
    return tw_push_if(b, tw_eq(b, tw_and(b, i, tw_i32(b, 1)), tw_i32(b, 1)));
}

static void mark(tw_builder *b, tw_val out, tw_val i, int what) {
    tw_st(b, (tw_attrs){.type = TW_T_i32, .offset = 4 * what}, out, &i);
}

static void by_handles(tw_builder *b, tw_val out, tw_val n) {
    const tw_scope each = tw_push_for(b, tw_i32(b, 0), n, tw_i32(b, 2), false);
    const tw_scope branch = tw_push_if(b, tw_lt(b, each.i, tw_i32(b, 7)));
    mark(b, out, each.i, 0);
    tw_push_else(b, branch);
    mark(b, out, each.i, 1);
    tw_pop(b, branch);
    for (int what = 2; what < 4; what++) {
        const tw_scope odds = odd(b, each.i);
        mark(b, out, each.i, what);
        tw_pop(b, odds);
    }
    tw_pop(b, each);
    const tw_scope again = loop(b);
    mark(b, out, again.i, 4);
    tw_pop(b, again);
    mark(b, out, n, 5);
    tw_val left = tw_var_of(b, n);
    const tw_scope rounds = tw_push_while(b);
    tw_push_while_body(b, rounds, tw_lt(b, tw_i32(b, 0), left));
    tw_assign(b, left, tw_add_imm(b, left, -1));
    tw_pop(b, rounds);
    mark(b, out, left, 6);
}

static void by_statements(tw_builder *b, tw_val out, tw_val n) {
    TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 2), false) {
        TW_IF (b, tw_lt(b, i, tw_i32(b, 7))) {
            mark(b, out, i, 0);
        } else {
            mark(b, out, i, 1);
        }
        TW_BLOCK (b, odd(b, i)) mark(b, out, i, 2);
        for (int what = 3; what < 4; what++)
            TW_IF (b, tw_eq(b, tw_and(b, i, tw_i32(b, 1)), tw_i32(b, 1))) mark(b, out, i, what);
    }
    TW_LOOP (b, i, loop(b)) mark(b, out, i, 4);
    TW_LOOP (b, i, TW_NO_LOOP(n)) mark(b, out, i, 5);
    tw_val left = tw_var_of(b, n);
    TW_WHILE (b, tw_lt(b, tw_i32(b, 0), left)) tw_assign(b, left, tw_add_imm(b, left, -1));
    TW_BLOCK (b, TW_NO_BLOCK) mark(b, out, left, 6);
}

static char *text_of(void (*build)(tw_builder *b, tw_val out, tw_val n)) {
    tw_kernel *k = tw_kernel_new("k", 90, 64);
    tw_builder b = tw_builder_of(k);
    tw_val out = tw_pointer_add(&b, "out", 4, false), n = tw_parameter_add(&b, "n", TW_T_i32);
    build(&b, out, n);
    assert_int_equal(b.depth, 1);
    tw_buf text = {0};
    assert_true(tw_kernel_print(&text, k));
    tw_kernel_free(k);
    return text.data;
}

static void statements_make_the_same_kernel(void **state) {
    (void)state;
    char *handles = text_of(by_handles), *statements = text_of(by_statements);
    assert_string_equal(handles, statements);
    free(handles);
    free(statements);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_wrong_one_is_caught),
                                       cmocka_unit_test(statements_make_the_same_kernel)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
