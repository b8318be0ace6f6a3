/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of building, verifying, printing, parsing and optimising a kernel fails once. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "ir/builder.h"
#include "ir/passes/passes.h"
#include "ir/random_kernel.h"
#include "ir/text.h"
#include "ir/verify.h"

#include <string.h>

/* 1 for "out of memory, said so". */
static int outcome(tw_status s) {
    return s == TW_OK ? 0 : s == TW_ERR_MEMORY ? 1 : 2;
}

/* The builder goes on after a failure, so that what it builds into must hold. */
static int build(void *context) {
    (void)context;
    tw_kernel *k = tw_kernel_new("k", 90, 64);
    if (!k) return 1;
    tw_builder b = tw_builder_of(k);
    tw_val p = tw_pointer_add(&b, "p", 16, false), n = tw_parameter_add(&b, "n", TW_T_i32);
    tw_shared_add(&b, "s", 64, 16, false);
    tw_val t = tw_sreg(&b, TW_SREG_tid_x), acc = tw_var_of(&b, tw_f32(&b, 0)), s = tw_shared_base(&b, "s");
    const tw_scope loop = tw_push_for(&b, t, n, tw_i32(&b, 1), true);
    tw_val i = loop.i;
    const tw_scope branch = tw_push_if(&b, tw_lt(&b, i, tw_rem(&b, tw_mul_imm(&b, n, 3), 5)));
    tw_op_to(&b, acc, TW_OP_add_f32, acc, tw_ld(&b, (tw_attrs){.type = TW_T_f32}, tw_add(&b, p, tw_widen(&b, i))),
             TW_NONE);
    tw_push_else(&b, branch);
    tw_assign(&b, acc, tw_select(&b, tw_eq(&b, i, n), acc, tw_fma(&b, acc, acc, acc)));
    tw_pop(&b, branch);
    for (int j = 0; j < 300; j++) tw_add(&b, i, tw_i32(&b, j + 7)); /* the table of values grows */
    tw_pop(&b, loop);
    const tw_scope poll = tw_push_while(&b);
    tw_push_while_body(&b, poll, tw_not(&b, tw_ne(&b, tw_shfl(&b, TW_MODE_bfly, t, tw_i32(&b, 1), tw_i32(&b, -1)), t)));
    tw_when(&b, tw_le(&b, t, n));
    tw_st(&b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared}, s, &acc);
    tw_pop(&b, poll);
    const tw_scope roles = tw_push_roles(&b, (int[]){0, 1, 1, 2}, 2);
    tw_next_role(&b, roles);
    tw_record_begin(&b, "r", TW_ENGINE_OF_none);
    tw_pop(&b, roles);
    tw_diag d;
    tw_status st = tw_kernel_verify(k, 0, &d);
    tw_kernel_free(k);
    return outcome(st);
}

static void building_survives(void **state) {
    (void)state;
    alloc_fail_exhaust(build, NULL);
}

static const random_kernel_options options = {.seed = 11, .operations = 250};

static int print(void *context) {
    tw_buf out = {0};
    bool good = tw_kernel_print(&out, context);
    tw_buf_free(&out);
    return !good;
}

static int parse(void *context) {
    const tw_buf *text = context;
    tw_kernel *k;
    tw_diag d;
    tw_status s = tw_kernel_parse(&k, text->data, text->size, "t", &d);
    if ((s == TW_OK) != (k != NULL)) return 2;
    tw_kernel_free(k);
    return outcome(s);
}

/* A kernel of its own each time, since passes change it. */
static int optimise(void *context) {
    const tw_buf *text = context;
    tw_kernel *k;
    tw_diag d;
    tw_status s = tw_kernel_parse(&k, text->data, text->size, "t", &d);
    if (s == TW_OK) s = tw_pipeline_default(k, true, &d);
    tw_kernel_free(k);
    return outcome(s);
}

static void text_and_passes_survive(void **state) {
    (void)state;
    tw_kernel *k = random_kernel(&options);
    tw_buf text = {0};
    assert_non_null(k);
    assert_true(tw_kernel_print(&text, k));
    alloc_fail_exhaust(print, k);
    alloc_fail_exhaust(parse, &text);
    alloc_fail_exhaust(optimise, &text);
    tw_buf_free(&text);
    tw_kernel_free(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(building_survives), cmocka_unit_test(text_and_passes_survive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
