/* SPDX-License-Identifier: Apache-2.0 */
/* Judging another machine's choices of experts: what rounding explains, and what it does not. */
#include "support/support.h"

#include "tilewright/model.h"
#include "vm/routing.h"

#include <math.h>
#include <string.h>

enum { LAYERS = 3, EXPERTS = 16, USED = 4, POSITIONS = 5, AT = 2 };

static const tw_routing_tolerance allowed = {1e-2, 0};

/* Scores of a position: 4 stands apart, 0 to 3 nearly tie, 5 and 6 are equal, and the others lie below. The largest is
   2, so scores may be 0.04 apart. */
static const float scores[EXPERTS] = {1.00f, 1.01f, 1.02f, 1.03f, 2.00f, 0.50f, 0.50f, 0.10f,
                                      0.00f, -0.2f, -0.3f, -0.4f, -0.5f, -0.6f, -0.7f, -1.0f};

typedef struct fixture {
    tw_model *m;
    tw_routing *r;
} fixture;

static int set_up(void **state) {
    static fixture f;
    tw_diag d;
    if (tw_model_synthetic(&f.m, "qwen3-moe-tiny", TW_BF16, 1, &d) != TW_OK) return 1;
    assert_true(f.m->n_layers == LAYERS && f.m->n_experts == EXPERTS && f.m->n_experts_used == USED);
    if (tw_routing_open(&f.r, f.m, POSITIONS, &d) != TW_OK) return 1;
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    tw_routing_close(f->r);
    tw_model_close(f->m);
    return 0;
}

/* Computes the weights of chosen experts. */
static void weights_of(const tw_routing *r, const int *expert, float *weight) {
    double sum = 0;
    for (int e = 0; e < EXPERTS; e++) {
        bool chosen = false;
        for (int u = 0; u < USED; u++) chosen |= expert[u] == e;
        if (chosen || !r->renormalised) sum += exp((double)scores[e]);
    }
    for (int u = 0; u < USED; u++) weight[u] = (float)(exp((double)scores[expert[u]]) / sum);
}

/* Enters these experts everywhere, with the weights that belong to them, and the scores. */
static void enter(tw_routing *r, const int *expert) {
    float route[2 * USED];
    for (int u = 0; u < USED; u++) route[u] = (float)expert[u];
    weights_of(r, expert, route + USED);
    tw_routing_forget(r, 0, POSITIONS);
    for (int64_t i = 0; i < LAYERS * POSITIONS; i++) {
        tw_routing_enter(r, i / POSITIONS, i % POSITIONS, 1, route);
        memcpy(r->score + i * EXPERTS, scores, sizeof scores);
    }
}

static tw_status judge(const tw_routing *r, tw_routing_verdict *v, tw_diag *d) {
    *v = (tw_routing_verdict){0};
    const tw_status st = tw_routing_check(r, 0, POSITIONS, d);
    return st == TW_OK ? tw_routing_judge(r, 0, POSITIONS, &allowed, v, d) : st;
}

static void refused(const tw_routing *r, const char *why) {
    tw_routing_verdict v;
    tw_diag d;
    assert_int_equal(judge(r, &v, &d), TW_ERR_MISMATCH);
    if (!strstr(d.message, why)) fail_msg("\"%s\" is not in \"%s\"", why, d.message);
}

/* Of five experts that nearly tie or stand above, any three beside the one above. */
static void near_ties_are_anyones_choice(void **state) {
    fixture *f = *state;
    static const int choices[][USED] = {{4, 3, 2, 1}, {4, 0, 1, 2}, {0, 1, 3, 4}};
    tw_routing_verdict v;
    tw_diag d;
    for (int i = 0; i < 3; i++)
        for (int renormalised = 0; renormalised < 2; renormalised++) {
            f->r->renormalised = renormalised;
            enter(f->r, choices[i]);
            if (judge(f->r, &v, &d) != TW_OK) fail_msg("%d: %s", i, d.message);
            assert_int_equal(v.choices, LAYERS * POSITIONS);
            assert_int_equal(v.others, i ? LAYERS * POSITIONS : 0);
            assert_true(i ? v.worst > 0.2 && v.worst < 0.8 : v.worst < 0.01);
        }
}

/* Two that are equal may both be chosen, and neither is another choice. */
static void equals_are_equal(void **state) {
    fixture *f = *state;
    tw_routing_verdict v;
    tw_diag d;
    float *mine = f->r->score;
    for (int i = 0; i < 2; i++) {
        enter(f->r, (const int[]){4, 3, 2, 5 + i});
        for (int64_t at = 0; at < LAYERS * POSITIONS; at++)
            mine[at * EXPERTS] = mine[at * EXPERTS + 1] = -1; /* The other two of the near ties are no rivals. */
        if (judge(f->r, &v, &d) != TW_OK) fail_msg("%d: %s", i, d.message);
        assert_true(!v.others);
    }
}

/* Nothing that is better by more than rounding is left out, of a single position of a single layer. */
static void a_wrong_expert_is_refused(void **state) {
    fixture *f = *state;
    enter(f->r, (const int[]){4, 3, 2, 1});
    tw_routing *r = f->r;
    const int64_t row = tw_routing_row(r, 1, AT);
    const int wrong[USED] = {4, 3, 2, 5};
    weights_of(r, wrong, r->weight + row * USED);
    r->expert[row * USED + 3] = 5;
    refused(r, "layer 1, position 2: expert 5 was chosen, whose score is 0.5 in the reference, and 1 left out");
    /* As is one that is worse by a little more than two scores may be off. */
    r->expert[row * USED + 3] = 0;
    const int worse[USED] = {4, 3, 2, 0};
    weights_of(r, worse, r->weight + row * USED);
    r->score[row * EXPERTS] = 1.01f - 0.045f;
    refused(r, "layer 1, position 2: expert 0 was chosen");
    r->score[row * EXPERTS] = NAN;
    refused(r, "layer 1, position 2: expert 0 was chosen, whose score is nan");
}

static void a_wrong_weight_is_refused(void **state) {
    fixture *f = *state;
    tw_routing *r = f->r;
    enter(r, (const int[]){4, 3, 2, 1});
    float *w = r->weight + tw_routing_row(r, 2, AT) * USED;
    const float right = w[1];
    w[1] = right * 1.05f;
    refused(r, "layer 2, position 2: the weight of expert 3 is");
    w[1] = right * 0.95f;
    refused(r, "layer 2, position 2: the weight of expert 3 is");
    w[1] = NAN;
    refused(r, "layer 2, position 2: the weight of expert 3 is nan");
    /* Weights in another order are others' weights. */
    w[1] = w[0];
    w[0] = right;
    refused(r, "layer 2, position 2: the weight of expert 4 is");
}

/* An expert far below another has a weight of 0, which is as exact as floats are. */
static void a_weight_may_be_zero(void **state) {
    fixture *f = *state;
    tw_routing *r = f->r;
    tw_routing_verdict v;
    tw_diag d;
    r->renormalised = false;
    for (int far = 100; far <= 1000; far *= 10) {
        tw_routing_forget(r, 0, POSITIONS);
        for (int64_t i = 0; i < LAYERS * POSITIONS; i++) {
            const float route[2 * USED] = {0, 1, 2, 3, 1, 0, 0, 0};
            tw_routing_enter(r, i / POSITIONS, i % POSITIONS, 1, route);
            for (int e = 0; e < EXPERTS; e++) r->score[i * EXPERTS + e] = e ? (float)-(far + e) : 0;
        }
        const tw_routing_tolerance little = {1e-4, 1e-4};
        v = (tw_routing_verdict){0};
        if (tw_routing_judge(r, 0, POSITIONS, &little, &v, &d) != TW_OK) fail_msg("%d: %s", far, d.message);
        r->weight[1] = 1e-3f;
        assert_int_equal(tw_routing_judge(r, 0, POSITIONS, &little, &v, &d), TW_ERR_MISMATCH);
    }
}

/* What could not be followed is found before anybody follows it. */
static void a_choice_is_of_different_experts(void **state) {
    fixture *f = *state;
    static const struct {
        float second;
        const char *why;
    } odd[] = {{4, "expert 4 is chosen twice"}, {EXPERTS, "choice 1 is none of 16 experts"},
               {-1, "choice 1 is none"},        {1.5f, "choice 1 is none"},
               {NAN, "choice 1 is none"},       {INFINITY, "choice 1 is none"}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        const float route[2 * USED] = {4, odd[i].second, 2, 1, 0.25f, 0.25f, 0.25f, 0.25f};
        enter(f->r, (const int[]){4, 3, 2, 1});
        tw_routing_enter(f->r, 1, AT, 1, route);
        refused(f->r, odd[i].why);
    }
}

/* A machine that reports nothing is not right. Of the last layer it may leave out what nobody needs. */
static void a_missing_choice_is_refused(void **state) {
    fixture *f = *state;
    tw_routing *r = f->r;
    tw_routing_verdict v;
    tw_diag d;
    enter(r, (const int[]){4, 3, 2, 1});
    for (int64_t t = 0; t + 1 < POSITIONS; t++) r->expert[tw_routing_row(r, LAYERS - 1, t) * USED] = -1;
    if (judge(r, &v, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(v.choices, LAYERS * POSITIONS - (POSITIONS - 1));
    r->expert[tw_routing_row(r, LAYERS - 1, POSITIONS - 1) * USED] = -1;
    refused(r, "layer 2, position 4: choice 0 is none");
    enter(r, (const int[]){4, 3, 2, 1});
    r->expert[tw_routing_row(r, 0, AT) * USED] = -1;
    refused(r, "layer 0, position 2: choice 0 is none");
    tw_routing_forget(r, 0, POSITIONS);
    refused(r, "layer 0, position 0: choice 0 is none");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_ties_are_anyones_choice),
        cmocka_unit_test(equals_are_equal),
        cmocka_unit_test(a_wrong_expert_is_refused),
        cmocka_unit_test(a_wrong_weight_is_refused),
        cmocka_unit_test(a_choice_is_of_different_experts),
        cmocka_unit_test(a_missing_choice_is_refused),
        cmocka_unit_test(a_weight_may_be_zero),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
