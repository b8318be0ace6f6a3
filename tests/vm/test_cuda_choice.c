/* SPDX-License-Identifier: Apache-2.0 */
/* A warp's choice of experts in the emulator, every checker on: the best ones in descending order, of equals the lower
   number first, scores that are no numbers last, and weights that are shares of the softmax in double precision. */
#include "support/support.h"

#include "base/random.h"
#include "emu/emu.h"
#include "ir/passes/passes.h"
#include "vm/cuda/generate.h"

#include <math.h>
#include <string.h>

enum { EXPERTS = 512, USED = 32 };

static tw_kernel *choice_kernel(const tw_model *m) {
    tw_kernel *k = tw_kernel_new("choice", 90, 32);
    assert_non_null(k);
    tw_builder b = tw_builder_of(k);
    tw_val scores = tw_pointer_add(&b, "scores", 4, true), ids = tw_pointer_add(&b, "ids", 4, false);
    tw_val shares = tw_pointer_add(&b, "shares", 4, false), lane = tw_sreg(&b, TW_SREG_tid_x), expert, share;
    tw_mega_choose(&b, m, lane, scores, &expert, &share);
    TW_IF (&b, tw_lt(&b, lane, tw_i32(&b, (int32_t)m->n_experts_used))) {
        tw_st(&b, (tw_attrs){.type = TW_T_i32}, tw_mega_at(&b, ids, lane, 4), &expert);
        tw_st(&b, (tw_attrs){.type = TW_T_f32}, tw_mega_at(&b, shares, lane, 4), &share);
    }
    return k;
}

/* Compares a choice with one in double precision. */
static void same(const tw_model *m, const float *scores) {
    const int experts = (int)m->n_experts, used = (int)m->n_experts_used;
    tw_diag d;
    tw_kernel *k = choice_kernel(m);
    if (tw_pipeline_default(k, true, &d) != TW_OK) fail_msg("%s", d.message);
    tw_emu *e = tw_emu_new();
    const uint64_t arguments[] = {tw_emu_alloc(e, "scores", scores, (size_t)experts * 4, true),
                                  tw_emu_alloc(e, "ids", NULL, (size_t)used * 4, false),
                                  tw_emu_alloc(e, "shares", NULL, (size_t)used * 4, false)};
    const tw_emu_options o = {.grid = {1}};
    tw_emu_report report = {0};
    if (tw_emu_launch(e, k, arguments, &o, &report, &d) != TW_OK)
        fail_msg("%s", report.n ? report.findings[0].text : d.message);
    int32_t ids[USED];
    float shares[USED];
    assert_true(tw_emu_read(e, arguments[1], ids, (size_t)used * 4));
    assert_true(tw_emu_read(e, arguments[2], shares, (size_t)used * 4));
    bool taken[EXPERTS] = {false};
    double most = -INFINITY, all = 0, sum = 0;
    int wanted[USED];
    for (int i = 0; i < experts; i++) most = fmax(most, scores[i]);
    for (int i = 0; i < experts; i++) all += exp(scores[i] - most);
    for (int u = 0; u < used; u++) {
        int best = -1;
        for (int i = 0; i < experts; i++) {
            if (taken[i]) continue;
            if (best < 0 || scores[i] > scores[best] || (isnan(scores[best]) && !isnan(scores[i]))) best = i;
        }
        taken[wanted[u] = best] = true;
        sum += exp(scores[best] - most);
    }
    for (int u = 0; u < used; u++) {
        const double want = exp(scores[wanted[u]] - most) / (m->renormalise_experts ? sum : all);
        if (ids[u] != wanted[u]) fail_msg("%d experts: number %d is %d, not %d", experts, u, ids[u], wanted[u]);
        if (isnan(want) ? !isnan(shares[u]) : !(fabs(shares[u] - want) <= 1e-5 * want))
            fail_msg("%d experts: share %d is %g, not %g", experts, u, shares[u], want);
    }
    tw_emu_free(e);
    tw_kernel_free(k);
}

static const struct { int experts, used; } shapes[] = {{4, 2}, {8, 2}, {33, 5}, {60, 4}, {128, 8}, {EXPERTS, USED}};

static void the_best_are_chosen(void **state) {
    (void)state;
    tw_random r = tw_random_seed(3);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        float scores[EXPERTS];
        for (int renormalise = 0; renormalise < 2; renormalise++) {
            const tw_model m = {
                .n_experts = shapes[s].experts, .n_experts_used = shapes[s].used, .renormalise_experts = renormalise};
            for (int i = 0; i < shapes[s].experts; i++) scores[i] = 2 * tw_random_normal(&r);
            same(&m, scores);
        }
    }
}

/* Few values, so that equals are in one lane and in several. */
static void of_equals_the_lower_comes_first(void **state) {
    (void)state;
    tw_random r = tw_random_seed(4);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const tw_model m = {
            .n_experts = shapes[s].experts, .n_experts_used = shapes[s].used, .renormalise_experts = true};
        float scores[EXPERTS];
        for (uint64_t values = 1; values < 4; values++) {
            for (int i = 0; i < shapes[s].experts; i++) scores[i] = (float)tw_random_below(&r, values);
            same(&m, scores);
        }
    }
}

static void what_is_no_number_comes_last(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const tw_model m = {.n_experts = shapes[s].experts, .n_experts_used = shapes[s].used};
        float scores[EXPERTS];
        for (int i = 0; i < shapes[s].experts; i++) scores[i] = i % 3 ? NAN : (float)(i % 7);
        same(&m, scores);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_are_chosen),
        cmocka_unit_test(of_equals_the_lower_comes_first),
        cmocka_unit_test(what_is_no_number_comes_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
