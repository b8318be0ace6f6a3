/* SPDX-License-Identifier: Apache-2.0 */
/* Features, networks, boosted trees, policies and the models that are made of them, on a family with known times. */
#include "tune/toy_family.h"

#include "tune/linear.h"
#include "tune/models.h"

/* ---- features */

static void rows_say_what_is_computed(void **state) {
    (void)state;
    toy t;
    tw_features *x, *plain;
    tw_diag d;
    float row[32], other[32];
    const int64_t problem[TW_SELECT_AXES] = {100, 40, 256};
    toy_open(&t);
    assert_int_equal(tw_features_make(&x, &t.family, true, &d), TW_OK);
    assert_int_equal(tw_features_make(&plain, &t.family, false, &d), TW_OK);
    assert_int_equal(x->params, 2);
    assert_int_equal(x->columns, 2 + 6 + 3 * 3);
    assert_int_equal(x->configs, 12);
    assert_true(tw_features_row(x, problem, 1, 2, row));
    assert_true(tw_features_row(plain, problem, 1, 2, other));
    /* Tiles of 32 x 16: 4 x 3 blocks for 8 slots, 8 rounds. */
    const double sizes[] = {32, 8, 100, 40, 256, 2.0 * 100 * 40 * 256, 12, 8, 2};
    for (int i = 0; i < 9; i++) {
        assert_true(fabs((double)row[i] - log2(sizes[i])) < 1e-5);
        assert_true(fabs((double)other[i] - sizes[i]) < 1e-6 * sizes[i]);
    }
    const double rest[] = {12.0 / 16, 4, 2, 100.0 / 128, log2(3), 40.0 / 48, 0, 1};
    for (int i = 0; i < 8; i++) assert_true(fabs((double)row[9 + i] - rest[i]) < 1e-5);
    tw_features_free(x);
    tw_features_free(plain);
}

static void words_have_columns_of_their_own(void **state) {
    (void)state;
    static const char *const micros[] = {"order=rows fast", "order=columns", "order=rows fast=0 same=7"};
    static const tw_artefact_macro macros[] = {
        {.config = "by=own same=7", .slots = 1, .micros = micros, .n_micros = 2},
        {.config = "by=other", .slots = 1, .micros = micros + 2, .n_micros = 1, .least = {50}}};
    toy t;
    tw_features *x;
    tw_diag d;
    float row[32];
    const int64_t problem[TW_SELECT_AXES] = {32, 32, 64};
    toy_open(&t);
    t.family.macros = macros;
    t.family.n_macros = 2;
    assert_int_equal(tw_features_make(&x, &t.family, true, &d), TW_OK);
    /* The columns are by=own, order=rows, fast, order=columns and by=other. same= does not vary, and fast=0 means that
       the word is missing. */
    assert_int_equal(x->params, 5);
    const float wanted[2][5] = {{1, 1, 1, 0, 0}, {1, 0, 0, 1, 0}};
    for (int i = 0; i < 2; i++) {
        assert_true(tw_features_row(x, problem, 0, i, row));
        assert_memory_equal(row, wanted[i], sizeof wanted[i]);
    }
    assert_false(tw_features_row(x, problem, 1, 0, row));
    tw_features_free(x);
}

/* ---- networks */

enum { ROWS = 2000, COLUMNS = 4 };

typedef struct data {
    tw_table t;
    float x[ROWS * COLUMNS], y[ROWS];
    bool held[ROWS];
} data;

/* Fills in rows of max(x0, x1) - 2 x2, with noise. x3 is the same in all rows. */
static void fill(data *s, float noise, double held) {
    tw_random r = tw_random_seed(5);
    for (int i = 0; i < ROWS; i++) {
        float *x = s->x + (size_t)i * COLUMNS;
        for (int c = 0; c < 3; c++) x[c] = 100 + 10 * tw_random_normal(&r);
        x[3] = 7;
        s->y[i] = fmaxf(x[0], x[1]) - 2 * x[2] + noise * tw_random_normal(&r);
        s->held[i] = tw_random_unit(&r) < held;
    }
    s->t = (tw_table){ROWS, COLUMNS, s->x, s->y, s->held};
}

static double error_of(tw_mlp *m, const data *s, int from) {
    static float y[ROWS];
    double sum = 0;
    tw_mlp_predict(m, s->x + (size_t)from * COLUMNS, ROWS - from, y + from);
    for (int i = from; i < ROWS; i++) sum += pow((double)(y[i] - s->y[i]), 2) / (ROWS - from);
    return sqrt(sum);
}

static void a_network_learns_a_maximum(void **state) {
    (void)state;
    static data s;
    tw_diag d;
    tw_mlp *m, *same, *other;
    tw_mlp_options o = {{16, 16}, 2, 150, 0, 50, 0.01, 3};
    float a[3], b[3];
    fill(&s, 0, 0.2);
    assert_int_equal(tw_mlp_fit(&m, &s.t, &o, &d), TW_OK);
    assert_int_equal(tw_mlp_weights(m), 5 * 16 + 17 * 16 + 17);
    assert_int_equal(tw_mlp_epochs(m), 150);
    /* The values' standard deviation is 22. */
    assert_true(error_of(m, &s, 0) < 0.4);
    assert_true(error_of(m, &s, ROWS - 3) < 2);
    assert_true(fabs(tw_mlp_error(m)) < 0.16);
    assert_int_equal(tw_mlp_fit(&same, &s.t, &o, &d), TW_OK);
    o.seed++;
    assert_int_equal(tw_mlp_fit(&other, &s.t, &o, &d), TW_OK);
    tw_mlp_predict(m, s.x, 3, a);
    tw_mlp_predict(same, s.x, 3, b);
    assert_memory_equal(a, b, sizeof a);
    tw_mlp_predict(other, s.x, 3, b);
    assert_memory_not_equal(a, b, sizeof a);
    tw_mlp_free(m);
    tw_mlp_free(same);
    tw_mlp_free(other);
}

/* The noise is larger than the function, so the error on held rows soon grows. */
static void training_stops_where_held_rows_get_worse(void **state) {
    (void)state;
    static data s;
    tw_diag d;
    tw_mlp *m, *on;
    tw_mlp_options o = {{64, 64}, 2, 200, 5, 50, 0.01, 3};
    fill(&s, 30, 0.5);
    assert_int_equal(tw_mlp_fit(&m, &s.t, &o, &d), TW_OK);
    assert_in_range(tw_mlp_epochs(m), 6, 60);
    o.epochs = tw_mlp_epochs(m) - 5; /* The last of these passes had the least error. */
    o.patience = 0;
    double sum = 0;
    int n = 0;
    static float y[ROWS];
    tw_mlp_predict(m, s.x, ROWS, y);
    for (int i = 0; i < ROWS; i++) {
        if (!s.held[i]) continue;
        sum += pow((double)(y[i] - s.y[i]), 2);
        n++;
    }
    /* The parameters are those of the best pass. */
    assert_true(fabs(sum / n - tw_mlp_error(m)) < 1e-3 * sum / n);
    for (int i = 0; i < ROWS; i++) s.held[i] = false;
    assert_int_equal(tw_mlp_fit(&on, &s.t, &o, &d), TW_OK);
    assert_true(tw_mlp_error(on) == 0);
    tw_mlp_free(m);
    tw_mlp_free(on);
}

/* A column that does not vary, one that is another's double, and rows that are held. */
static void a_line_is_found(void **state) {
    (void)state;
    static data s;
    tw_diag d;
    tw_linear *l;
    float y[ROWS];
    fill(&s, 0, 0.2);
    for (int i = 0; i < ROWS; i++) {
        float *x = s.x + (size_t)i * COLUMNS;
        x[2] = 2 * x[1];
        s.y[i] = s.held[i] ? 1e6f : 3 * x[0] - x[1] + 5;
    }
    assert_int_equal(tw_linear_fit(&l, &s.t, &d), TW_OK);
    assert_int_equal(tw_linear_weights(l), COLUMNS + 1);
    tw_linear_predict(l, s.x, ROWS, y);
    for (int i = 0; i < ROWS; i++) {
        const float *x = s.x + (size_t)i * COLUMNS;
        assert_true(fabsf(y[i] - (3 * x[0] - x[1] + 5)) < 0.01f);
    }
    tw_linear_free(l);
    for (int i = 0; i < ROWS; i++) s.held[i] = true;
    assert_int_equal(tw_linear_fit(&l, &s.t, &d), TW_ERR_USAGE);
    assert_null(l);
}

static void networks_are_refused(void **state) {
    (void)state;
    static data s;
    const tw_mlp_options right = {{8}, 1, 1, 0, 10, 0.01, 1};
    tw_diag d;
    tw_mlp *m;
    fill(&s, 0, 0);
    for (int i = 0; i < 6; i++) {
        tw_mlp_options o = right;
        if (i == 0) o.n_layers = 0;
        if (i == 1) o.n_layers = TW_MLP_LAYERS + 1;
        if (i == 2) o.layers[0] = 0;
        if (i == 3) o.epochs = 0;
        if (i == 4) o.batch = 0;
        if (i == 5) o.rate = 0;
        assert_int_equal(tw_mlp_fit(&m, &s.t, &o, &d), TW_ERR_USAGE);
        assert_null(m);
    }
    for (int i = 0; i < ROWS; i++) s.held[i] = true;
    assert_int_equal(tw_mlp_fit(&m, &s.t, &right, &d), TW_ERR_USAGE);
}

/* ---- boosted trees */

#define MODEL(trees) "{\"learner\": {\"gradient_booster\": {\"model\": {\"trees\": [" trees "]}}}}"
#define TREE(left, right, column, at)                                                                                  \
    "{\"left_children\": [" left "], \"right_children\": [" right "], \"split_indices\": [" column                     \
    "], \"split_conditions\": [" at "]}"

static void trees_are_read_and_followed(void **state) {
    (void)state;
    static const char json[] = MODEL(TREE("3, -1, -1, -1, 2", "4, -1, -1, -1, 1", "1, 0, 0, 0, 0",
                                          "2.5, 4, 8, 1, 10") "," TREE("-1", "-1", "0", "100"));
    /* The root splits by column 1 at 2.5: node 3, or node 4, which splits by column 0 at 10: node 2, or node 1. */
    const float x[][2] = {{0, 2}, {9, 2.5f}, {10, 3}, {11, 2.4f}}, wanted[] = {101, 108, 104, 101};
    tw_diag d;
    tw_boost *b;
    float y[4];
    assert_int_equal(tw_boost_read(&b, json, strlen(json), 2, &d), TW_OK);
    assert_int_equal(tw_boost_nodes(b), 6);
    tw_boost_predict(b, x[0], 4, y);
    assert_memory_equal(y, wanted, sizeof y);
    tw_boost_free(b);
}

static void other_trees_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",
        "{}",
        MODEL(""),
        MODEL("{}"),
        MODEL(TREE("", "", "", "")),
        MODEL(TREE("1, -1", "-1, -1", "0, 0", "1, 1")),              /* A node has one child. */
        MODEL(TREE("1, -1, -1", "3, -1, -1", "0, 0, 0", "1, 1, 1")), /* There is no node 3. */
        MODEL(TREE("1, -1, -1", "0, -1, -1", "0, 0, 0", "1, 1, 1")), /* The root is a child. */
        MODEL(TREE("1, 1, -1", "2, 2, -1", "0, 0, 0", "1, 1, 1")),   /* A node is its own child. */
        MODEL(TREE("1, -1, -1", "2, -1, -1", "2, 0, 0", "1, 1, 1")), /* There is no column 2. */
        MODEL(TREE("1, -1, -1", "2, -1, -1", "-1, 0, 0", "1, 1, 1")),
        MODEL(TREE("1, -1, -1", "2, -1, -1", "0, 0, 0", "1, 1")),
        MODEL(TREE("1, -1, -1", "2, -1, -1", "0, 0, 0", "1, \"1\", 1")),
        MODEL(TREE("1.5, -1, -1", "2, -1, -1", "0, 0, 0", "1, 1, 1")),
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tw_diag d;
        tw_boost *b;
        const tw_status st = tw_boost_read(&b, wrong[i], strlen(wrong[i]), 2, &d);
        if (st != TW_ERR_FORMAT || b) fail_msg("%s: %d", wrong[i], st);
    }
}

static const tw_boost_options few_trees = {.trees = 60, .depth = 5, .rate = 0.2, .subsample = 0.9, .threads = 1};

static bool has_xgboost(void) {
    static data s;
    tw_diag d;
    tw_boost *b;
    tw_boost_options o = few_trees;
    o.trees = 1;
    fill(&s, 0, 0);
    const tw_status st = tw_boost_fit(&b, &s.t, &o, &d);
    tw_boost_free(b);
    return st == TW_OK;
}

static void trees_learn(void **state) {
    (void)state;
    static data s;
    static float y[ROWS];
    tw_diag d;
    tw_boost *b;
    double sum = 0;
    if (!has_xgboost()) skip();
    fill(&s, 0, 0.3);
    for (int i = 0; i < ROWS; i++) s.y[i] = 1000 + (s.x[i * COLUMNS] < 95 ? 1.f : 3.f) + (s.x[i * COLUMNS + 1] > 104);
    /* Held rows are not learned from: another offset of theirs changes no prediction. */
    for (int i = 0; i < ROWS; i++)
        if (s.held[i]) s.y[i] += 50;
    assert_int_equal(tw_boost_fit(&b, &s.t, &few_trees, &d), TW_OK);
    tw_boost_predict(b, s.x, ROWS, y);
    for (int i = 0; i < ROWS; i++) sum += fabs((double)(y[i] - s.y[i] + (s.held[i] ? 50 : 0))) / ROWS;
    assert_true(sum < 0.02);
    tw_boost_free(b);
}

static void without_xgboost_a_line_says_so(void **state) {
    (void)state;
    static data s;
    tw_diag d;
    tw_boost *b;
    tw_boost_options o = few_trees;
    fill(&s, 0, 0);
    o.xgboost = "no such file";
    assert_int_equal(tw_boost_fit(&b, &s.t, &o, &d), TW_ERR_UNSUPPORTED);
    assert_null(b);
    assert_non_null(strstr(d.message, "XGBoost 1.6 or later, which is not installed"));
    o.trees = 0;
    assert_int_equal(tw_boost_fit(&b, &s.t, &o, &d), TW_ERR_USAGE);
}

/* ---- policies */

/* Returns the configuration with the least loss. */
static int best_of(const tw_policy *p, int64_t m, int64_t k) {
    const int64_t problem[TW_SELECT_AXES] = {m, 64, k};
    const float *losses = tw_policy_losses(p, problem);
    int best = 0;
    for (int i = 0; i < 12; i++)
        if (losses[i] < losses[best]) best = i;
    return best;
}

/* Macro choice 0 is the fastest up to m = 64, and macro choice 2 above. From k = 512 on micro choice 1 is a little
   faster than micro choice 0. */
static void policies_choose_what_was_fastest(void **state) {
    (void)state;
    toy t;
    tw_features *x;
    tw_policy *p;
    tw_diag d;
    tw_trial_list l = {0}; /* Trials of a problem are adjacent. */
    const tw_trial_list *lists[] = {&l};
    bool allowed[12];
    toy_open(&t);
    assert_int_equal(tw_features_make(&x, &t.family, true, &d), TW_OK);
    for (int64_t m = 16; m <= 512; m *= 2)
        for (int64_t k = 64; k <= 2048; k *= 2)
            for (int i = 0; i < 3; i += 2)
                for (int j = 0; j < 2; j++)
                    toy_add(&l, (const int64_t[TW_SELECT_AXES]){m, 64, k}, i, j,
                            (i == (m > 64 ? 2 : 0) ? 10 : 15) - (j == (k > 256)));
    const tw_policy_options near = {.tree = false};
    tw_policy_options tree = {.tree = true, .depth = 4, .to_split = 2, .leaf = 1};
    for (int i = 0; i < 12; i++) allowed[i] = true;
    for (int form = 0; form < 2; form++) {
        assert_int_equal(tw_policy_fit(&p, x, lists, 1, allowed, form ? &tree : &near, &d), TW_OK);
        assert_int_equal(tw_policy_leaves(p), form ? 4 : 36);
        assert_int_equal(best_of(p, 60, 70), 0);
        assert_int_equal(best_of(p, 60, 700), 1);
        assert_int_equal(best_of(p, 300, 70), 6);
        assert_int_equal(best_of(p, 300, 700), 7);
        /* Losses are means over a leaf. A configuration without a measurement loses as much as one of half the speed.
         */
        const float *losses = tw_policy_losses(p, (const int64_t[TW_SELECT_AXES]){300, 64, 700});
        assert_true(fabs((double)losses[0] - log(15.0 / 9)) < 1e-5 && losses[7] == 0);
        assert_true(fabs((double)losses[3] - log(2)) < 1e-5);
        tw_policy_free(p);
    }
    /* Leaves have their least size, and a configuration that is not allowed is not chosen. */
    tree.leaf = 15;
    allowed[0] = false;
    assert_int_equal(tw_policy_fit(&p, x, lists, 1, allowed, &tree, &d), TW_OK);
    assert_int_equal(tw_policy_leaves(p), 2);
    assert_int_not_equal(best_of(p, 60, 70), 0);
    tw_policy_free(p);
    tree.to_split = 37;
    assert_int_equal(tw_policy_fit(&p, x, lists, 1, NULL, &tree, &d), TW_OK);
    assert_int_equal(tw_policy_leaves(p), 1);
    tw_policy_free(p);
    l.n = 0;
    assert_int_equal(tw_policy_fit(&p, x, lists, 1, NULL, &near, &d), TW_ERR_USAGE);
    tw_features_free(x);
    free(l.at);
}

/* ---- models */

/* Measures every configuration of random problems. Macro choice 3 is only screened. */
static void measure_toy(tw_trials *t, const tw_family *f, int problems) {
    tw_random r = tw_random_seed(9);
    char config[80];
    *t = (tw_trials){.wrong = 0};
    for (int i = 0; i < problems; i++) {
        int64_t problem[TW_SELECT_AXES] = {0};
        tw_family_draw(f, &r, problem);
        for (int k = 0; k < 12; k++) {
            tw_trial_list *l = k < 9 ? &t->spread : &t->screens;
            tw_family_config(f, k / 3, k % 3, config, sizeof config);
            toy_add(l, problem, k / 3, k % 3, toy_time(f, config, problem));
        }
    }
}

static tw_model_options toy_options(void) {
    tw_model_options o = tw_model_defaults();
    o.mlp = (tw_mlp_options){{32, 32}, 2, 60, 20, 64, 0.01, 1};
    o.boost.trees = 200;
    o.boost.depth = 6;
    o.boost.threads = 1;
    o.policy = (tw_policy_options){.depth = 15, .to_split = 4, .leaf = 2};
    return o;
}

static void models_choose_well(void **state) {
    (void)state;
    /* Bounds for each form: the least geometric mean of shares of the best on new problems, and the largest mean error.
       0: the form predicts no times. */
    static const double least[TW_MODEL_FORMS] = {0.98, 0.98, 0.94, 0.94, 0.98, 0.98, 0.98, 0.98, 0.80, 0.90};
    static const double most[TW_MODEL_FORMS] = {0.05, 0.05, 0, 0, 0.05, 0.05, 0.05, 0.05, 0.60, 0.20};
    toy t;
    tw_trials trials;
    const tw_model_options o = toy_options();
    const bool xgboost = has_xgboost();
    toy_open(&t);
    measure_toy(&trials, &t.family, 300);
    for (int i = 0; i < TW_MODEL_FORMS; i++) {
        const tw_model_form form = (tw_model_form)i;
        if (!xgboost && (form == TW_MODEL_TREES || form == TW_MODEL_RESIDUAL || form == TW_MODEL_MIX)) continue;
        tw_model *m;
        tw_diag d;
        tw_random r = tw_random_seed(77);
        double sum = 0, error = 0, scores[12];
        char config[80];
        assert_int_equal(tw_model_fit(&m, form, &t.family, &trials, &o, &d), TW_OK);
        assert_int_equal(tw_model_configs(m), 12);
        for (int k = 0; k < 100; k++) {
            int64_t problem[TW_SELECT_AXES] = {0};
            double best = (double)INFINITY, chosen;
            tw_family_draw(&t.family, &r, problem);
            assert_true(tw_model_choose(m, problem, config, sizeof config));
            chosen = toy_time(&t.family, config, problem);
            tw_model_score(m, problem, scores);
            for (int c = 0; c < 9; c++) {
                tw_family_config(&t.family, c / 3, c % 3, config, sizeof config);
                const double time = toy_time(&t.family, config, problem);
                best = fmin(best, time);
                error += fabs(exp(scores[c]) / time - 1) / 900;
            }
            /* Macro choice 3 was not spread. */
            for (int c = 9; c < 12; c++) assert_true(isinf(scores[c]));
            sum += log(best / chosen) / 100;
        }
        if (exp(sum) < least[i]) fail_msg("%s: %g of the best", tw_model_name(form), exp(sum));
        if (tw_model_predicts(m) && error > most[i]) fail_msg("%s: error %g", tw_model_name(form), error);
        assert_int_equal(tw_model_predicts(m), most[i] > 0);
        assert_true(tw_model_bytes(m) > 0);
        tw_model_free(m);
    }
    tw_trials_free(&trials);
}

/* Macro choice 0 cannot compute the problem, 1 is a vendor's, and 3 was only screened. */
static void models_choose_among_what_is_asked_for(void **state) {
    (void)state;
    toy t;
    tw_trials trials;
    tw_model_options o = toy_options();
    static tw_artefact_macro macros[TOY_MACROS];
    tw_model *m;
    tw_diag d;
    double scores[12];
    const int64_t problem[TW_SELECT_AXES] = {100, 64, 256};
    toy_open(&t);
    measure_toy(&trials, &t.family, 40);
    memcpy(macros, toy_macros, sizeof macros);
    macros[1].properties = TW_MACRO_VENDOR;
    macros[0].multiple[0] = 64;
    t.family.macros = macros;
    for (int form = 0; form < 2; form++)
        for (int own = 0; own < 2; own++)
            for (int all = 0; all < 2; all++) {
                o.own = own;
                o.all = all;
                assert_int_equal(tw_model_fit(&m, form ? TW_MODEL_NEAR : TW_MODEL_SPLINE, &t.family, &trials, &o, &d),
                                 TW_OK);
                tw_model_score(m, problem, scores);
                for (int c = 0; c < 12; c++) {
                    const bool wanted = (c / 3 == 1 && !own) || c / 3 == 2 || (c / 3 == 3 && all && form);
                    if (isfinite(scores[c]) != wanted) fail_msg("%d %d %d: %d", form, own, all, c);
                }
                tw_model_free(m);
            }
    tw_trials_free(&trials);
}

static void too_little_is_refused(void **state) {
    (void)state;
    toy t;
    tw_trials none = {.wrong = 0};
    const tw_model_options o = toy_options();
    toy_open(&t);
    for (int i = 0; i < TW_MODEL_FORMS; i++) {
        tw_model *m;
        tw_diag d;
        const tw_status st = tw_model_fit(&m, (tw_model_form)i, &t.family, &none, &o, &d);
        assert_true(st == TW_ERR_USAGE || st == TW_ERR_UNSUPPORTED);
        assert_null(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_say_what_is_computed),
        cmocka_unit_test(words_have_columns_of_their_own),
        cmocka_unit_test(a_network_learns_a_maximum),
        cmocka_unit_test(training_stops_where_held_rows_get_worse),
        cmocka_unit_test(a_line_is_found),
        cmocka_unit_test(networks_are_refused),
        cmocka_unit_test(trees_are_read_and_followed),
        cmocka_unit_test(other_trees_are_refused),
        cmocka_unit_test(trees_learn),
        cmocka_unit_test(without_xgboost_a_line_says_so),
        cmocka_unit_test(policies_choose_what_was_fastest),
        cmocka_unit_test(models_choose_well),
        cmocka_unit_test(models_choose_among_what_is_asked_for),
        cmocka_unit_test(too_little_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
