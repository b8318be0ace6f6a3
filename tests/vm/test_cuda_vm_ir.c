/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine's kernel must say, since neither the emulator nor a device shows every time that it does not: its
   text is walked, as it is built and as it is left by the passes. */
#include "support/def_use.h"
#include "support/support.h"

#include "ir/passes/passes.h"
#include "vm/cuda/mega.h"

#include <stdio.h>
#include <string.h>

typedef struct shape {
    tw_dtype weights;
    int group, tokens, edges, ahead;
    const char *target;
} shape;

static const shape shapes[] = {
    {TW_F32, 0, 1, TW_EDGES_COUNTERS, 0, "sm_90a"},  {TW_F32, 0, 8, TW_EDGES_COUNTERS, 2, "sm_90a"},
    {TW_F32, 0, 1, TW_EDGES_DATA, 2, "sm_80"},       {TW_I8, 0, 1, TW_EDGES_DATA, 0, "sm_90a"},
    {TW_I8, 0, 3, TW_EDGES_COUNTERS, 2, "sm_89"},    {TW_I4, 64, 1, TW_EDGES_DATA, 0, "sm_90a"},
    {TW_I4, 32, 8, TW_EDGES_COUNTERS, 0, "sm_120a"},
};

/* A plan, and the objects that it refers to. */
typedef struct planned {
    tw_model *m;
    tw_cuda_vm *vm;
    tw_checked *checked;
    tw_mega_plan plan;
} planned;

/* Plans the kernel of a llama-1b of a shape. */
static planned plan_of(const shape *s, int workers, tw_cuda_vm_tuning tuning) {
    const tw_cuda_vm_options o = {.emulate = true, .target = s->target, .workers = workers, .tuning = tuning};
    planned x;
    tw_schedule *schedule;
    tw_diag d;
    assert_int_equal(tw_model_synthetic(&x.m, "llama-1b", TW_BF16, 1, &d), TW_OK);
    assert_int_equal(tw_cuda_vm_open(&x.vm, x.m, &o, &d), TW_OK);
    tw_lowering l = {.tokens = s->tokens, .max_seq = 64, .group = s->group};
    if (s->weights != TW_F32) l.weights = s->weights;
    tw_cuda_vm_lowering(x.vm, &l);
    if (tw_schedule_lower(&schedule, x.m, &l, &d) != TW_OK ||
        tw_schedule_check(&x.checked, &schedule, NULL, &d) != TW_OK ||
        tw_mega_plan_of(&x.plan, tw_checked_schedule(x.checked), x.m, tw_target_find(s->target), &o, &d) != TW_OK)
        fail_msg("%s: %s", s->target, d.message);
    return x;
}

static void end(planned *x) {
    tw_checked_free(x->checked);
    tw_cuda_vm_close(x->vm);
    tw_model_close(x->m);
}

typedef void look(const tw_kernel *k, const tw_mega_plan *p, const char *what);

/* Builds the kernel of each shape and looks at it, before passes and after them. */
static void each_kernel(look *at) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        planned x = plan_of(s, 3, (tw_cuda_vm_tuning){.edges = s->edges, .ahead = s->ahead, .warps = 2, .blocks = 3});
        tw_diag d;
        char what[100];
        tw_kernel *k = tw_mega_build(&x.plan);
        assert_non_null(k);
        for (int after = 0; after < 2; after++) {
            snprintf(what, sizeof what, "shape %zu, %s, %s passes", i, s->target, after ? "after" : "before");
            if (after && tw_pipeline_default(k, false, &d) != TW_OK) fail_msg("%s: %s", what, d.message);
            at(k, &x.plan, what);
        }
        tw_kernel_free(k);
        end(&x);
    }
}

typedef struct seen {
    const tw_mega_plan *plan;
    const char *what;
    int n;
} seen;

/* ---- the ring */

static bool loads_shared(void *context, const tw_kernel *k, const tw_ir_op *op) {
    (void)context, (void)k;
    return op->code == TW_OP_ld && op->at.space == TW_SPACE_shared && op->at.vec == 4;
}

static bool arrival(void *context, const tw_kernel *k, const tw_ir_op *op) {
    seen *s = context;
    if (op->code != TW_OP_mbarrier_arrive) return true;
    int loads = test_depends_on(k, op->operands[0], loads_shared, NULL, false);
    if (loads < s->plan->tuning.blocks || loads % s->plan->tuning.blocks)
        fail_msg("%s: a slot is given back after %d of its %d pieces", s->what, loads, s->plan->tuning.blocks);
    s->n++;
    return true;
}

/* A slot is refilled by a bulk copy, which overtakes loads that the arrival does not wait for: so each arrival's
   address depends on all that was loaded from the slot. */
static void slots(const tw_kernel *k, const tw_mega_plan *p, const char *what) {
    seen s = {p, what, 0};
    test_each_op(k, arrival, &s);
    assert_true(s.n > 0);
}

static void a_slot_is_given_back_after_its_loads(void **state) {
    (void)state;
    each_kernel(slots);
}

/* ---- the window */

static bool loads_ready(void *context, const tw_kernel *k, const tw_ir_op *op) {
    const tw_mega_plan *p = context;
    (void)k;
    return op->code == TW_OP_ld && op->at.space == TW_SPACE_shared && op->at.order == TW_ORDER_relaxed &&
           op->at.offset == p->ready;
}

static bool adds(void *context, const tw_kernel *k, const tw_ir_op *op) {
    (void)context, (void)k;
    return op->code == TW_OP_add_i32;
}

static bool choice(void *context, const tw_kernel *k, const tw_ir_op *op) {
    seen *s = context;
    const tw_ir_value *window = &k->values[op->operands[0].id], *ahead = &k->values[op->operands[1].id];
    if (op->code != TW_OP_select || !test_depends_on(k, op->operands[2], loads_ready, (void *)s->plan, false))
        return true;
    if (window->bits != (uint64_t)s->plan->tuning.window || ahead->bits != (uint64_t)s->plan->tuning.ahead)
        fail_msg("%s: %d stages in flight, and %d ahead", s->what, (int)window->bits, (int)ahead->bits);
    if (!test_depends_on(k, op->operands[2], adds, NULL, true)) fail_msg("%s: stages are not counted", s->what);
    s->n++;
    return true;
}

/* Counts the loops that wait until fewer stages are in flight. */
static bool throttles(void *context, const tw_kernel *k, const tw_ir_op *op) {
    seen *s = context;
    s->n += op->code == TW_OP_while && test_depends_on(k, op->operands[0], loads_ready, (void *)s->plan, false) > 0;
    return true;
}

static bool tells(void *context, const tw_kernel *k, const tw_ir_op *op) {
    seen *s = context;
    const tw_attrs *a = &op->at;
    if (op->code != TW_OP_st || a->order != TW_ORDER_relaxed || a->offset != s->plan->ready) return true;
    if (test_depends_on(k, op->operands[1], loads_ready, (void *)s->plan, false) != 1) return true;
    s->n++;
    /* The store depends on the thread, and with several chunks on the chunk. */
    int conditions = 0;
    for (const tw_ir_op *o = op->block->owner; o && o->code == TW_OP_if; o = o->block->owner) conditions++;
    if (conditions < (s->plan->one_chunk ? 1 : 3)) fail_msg("%s: told under %d conditions", s->what, conditions);
    return true;
}

/* Checks that the producer's limit depends on the word at plan.ready, and that products add to that word. The limit
   changes no result, so no run shows it. */
static void window(const tw_kernel *k, const tw_mega_plan *p, const char *what) {
    seen chosen = {p, what, 0}, told = {p, what, 0}, loops = {p, what, 0};
    test_each_op(k, choice, &chosen);
    test_each_op(k, tells, &told);
    test_each_op(k, throttles, &loops);
    const int want = p->tuning.ahead < p->tuning.window;
    if (chosen.n != want || told.n != want || loops.n != want)
        fail_msg("%s: %d choices, told %d times, %d loops", what, chosen.n, told.n, loops.n);
}

static void few_stages_are_fetched_without_activations(void **state) {
    (void)state;
    each_kernel(window);
}

/* The defaults of window and ahead follow from the weights, the positions and the ring. */
static void the_window_suits_the_weights(void **state) {
    (void)state;
    static const struct {
        shape s;
        tw_cuda_vm_tuning given;
        int window, ahead;
    } cases[] = {{{TW_F32, 0, 1, 0, 0, "sm_90a"}, {0}, 4, 2},
                 {{TW_F32, 0, 8, 0, 0, "sm_90a"}, {0}, 3, 3},
                 {{TW_I8, 0, 1, 0, 0, "sm_90a"}, {0}, 3, 2},
                 {{TW_I4, 64, 1, 0, 0, "sm_90a"}, {0}, 3, 3},
                 {{TW_F32, 0, 1, 0, 0, "sm_90a"}, {.window = 3}, 3, 2},
                 {{TW_F32, 0, 1, 0, 0, "sm_90a"}, {.window = 1}, 1, 1},
                 {{TW_F32, 0, 8, 0, 0, "sm_90a"}, {.ahead = 1}, 3, 1},
                 {{TW_F32, 0, 1, 0, 0, "sm_90a"}, {.stages = 3, .ahead = 5}, 3, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        planned x = plan_of(&cases[i].s, 132, cases[i].given);
        const tw_cuda_vm_tuning *t = &x.plan.tuning;
        if (t->window != cases[i].window || t->ahead != cases[i].ahead || x.plan.paces != (t->ahead < t->window))
            fail_msg("case %zu: a window of %d, and %d ahead", i, t->window, t->ahead);
        end(&x);
    }
}

/* ---- the abort flag */

static bool polls(void *context, const tw_kernel *k, const tw_ir_op *op) {
    int *n = context;
    (void)k;
    *n += op->code == TW_OP_ld && op->at.space == TW_SPACE_global && op->at.scope == TW_SCOPE_gpu &&
          (op->at.order == TW_ORDER_acquire || op->at.order == TW_ORDER_relaxed);
    return true;
}

static bool looks(void *context, const tw_kernel *k, const tw_ir_op *op) {
    (void)context;
    return op->code == TW_OP_ld && op->at.scope == TW_SCOPE_gpu && op->at.order == TW_ORDER_relaxed &&
           test_depends_on_parameter(k, op->operands[0], "abort");
}

static bool loop(void *context, const tw_kernel *k, const tw_ir_op *op) {
    seen *s = context;
    int n = 0;
    if (op->code != TW_OP_while) return true;
    test_each_op_within(k, op, polls, &n);
    if (!n) return true;
    if (!test_depends_on(k, op->operands[0], looks, NULL, false))
        fail_msg("%s: a loop polls and never looks whether the machine was aborted", s->what);
    s->n++;
    return true;
}

/* Whoever waits for another block looks whether the machine was aborted, in that very loop, and then waits no more. */
static void waits(const tw_kernel *k, const tw_mega_plan *p, const char *what) {
    seen s = {p, what, 0};
    test_each_op(k, loop, &s);
    assert_true(s.n > 0);
}

static void whoever_waits_looks_at_the_abort_flag(void **state) {
    (void)state;
    each_kernel(waits);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_slot_is_given_back_after_its_loads),
                                       cmocka_unit_test(few_stages_are_fetched_without_activations),
                                       cmocka_unit_test(the_window_suits_the_weights),
                                       cmocka_unit_test(whoever_waits_looks_at_the_abort_flag)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
