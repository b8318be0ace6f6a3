/* SPDX-License-Identifier: Apache-2.0 */
/* Features, networks, trees that are read, policies and models, with the n-th allocation failing, for every n. */
#include "support/alloc_fail.h"
#include "tune/toy_family.h"

#include "tune/models.h"

enum { PROBLEMS = 14, CONFIGS = 9 };

/* Measurements of every configuration of three macro choices. */
static tw_trial trials[PROBLEMS * CONFIGS];

static tw_trial_list measure(const tw_family *f) {
    tw_random r = tw_random_seed(9);
    char config[80];
    int n = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        int64_t problem[TW_SELECT_AXES] = {0};
        tw_family_draw(f, &r, problem);
        for (int k = 0; k < CONFIGS; k++) {
            tw_trial *t = &trials[n++];
            *t = (tw_trial){.macro = k / 3, .micro = k % 3};
            memcpy(t->problem, problem, sizeof problem);
            tw_family_config(f, t->macro, t->micro, config, sizeof config);
            t->time = toy_time(f, config, problem);
        }
    }
    return (tw_trial_list){trials, n, n};
}

static int fitted(void *form) {
    toy t;
    tw_model *m;
    tw_diag d = {.message = ""};
    char config[80];
    tw_model_options o = tw_model_defaults();
    toy_open(&t);
    const tw_trials all = {.spread = measure(&t.family)};
    o.distilled = 3;
    o.mlp = (tw_mlp_options){{4}, 1, 1, 0, 64, 0.01, 1};
    o.policy = (tw_policy_options){.depth = 3, .to_split = 4, .leaf = 2};
    const tw_status st = tw_model_fit(&m, *(const tw_model_form *)form, &t.family, &all, &o, &d);
    if (st != TW_OK) return st == TW_ERR_MEMORY && !m && d.message[0] ? 1 : 3;
    const bool right = tw_model_choose(m, trials[0].problem, config, sizeof config);
    tw_model_free(m);
    return right ? 0 : 2;
}

static int read_trees(void *context) {
    static const char json[] =
        "{\"learner\": {\"gradient_booster\": {\"model\": {\"trees\": [{\"left_children\": [1, -1, -1], "
        "\"right_children\": [2, -1, -1], \"split_indices\": [0, 0, 0], \"split_conditions\": [1, 2, 3]}]}}}}";
    tw_boost *b;
    tw_diag d = {.message = ""};
    const float x[] = {4};
    float y;
    (void)context;
    const tw_status st = tw_boost_read(&b, json, sizeof json - 1, 1, &d);
    if (st != TW_OK) return st == TW_ERR_MEMORY && !b && d.message[0] ? 1 : 3;
    tw_boost_predict(b, x, 1, &y);
    tw_boost_free(b);
    return y > 2.9f ? 0 : 2;
}

static void nothing_is_lost(void **state) {
    (void)state;
    tw_model_form forms[] = {TW_MODEL_MLP, TW_MODEL_TREE, TW_MODEL_NEAR, TW_MODEL_DISTILLED};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) alloc_fail_exhaust(fitted, &forms[i]);
    alloc_fail_exhaust(read_trees, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
