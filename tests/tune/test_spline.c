/* SPDX-License-Identifier: Apache-2.0 */
/* The model of configurations, learned from known times, and its artefact. */
#include "tune/toy_family.h"

#include "base/random.h"
#include "tilewright/select.h"
#include "tune/describe.h"
#include "tune/spline.h"
#include "tune/trim.h"

typedef struct learned {
    toy t;
    tw_trials trials;
    tw_spline *s;
} learned;

/* Returns the time of a trial, which is the toy's time, changed in some way. */
typedef double time_fn(const tw_family *f, const char *config, const int64_t *problem, tw_random *r);

static double plain(const tw_family *f, const char *config, const int64_t *problem, tw_random *r) {
    (void)r;
    return toy_time(f, config, problem);
}

/* Returns times that vary between the toy's and 1.5 times the toy's along the octaves of m. */
static double bent(const tw_family *f, const char *config, const int64_t *problem, tw_random *r) {
    (void)r;
    return toy_time(f, config, problem) * (1.25 + 0.25 * sin(2 * log2((double)problem[0])));
}

static double noisy(const tw_family *f, const char *config, const int64_t *problem, tw_random *r) {
    return toy_time(f, config, problem) * (tw_random_below(r, 2) ? 1.1 : 0.9);
}

/* Makes trials of random problems in the first `micros` micro choices of all macro choices. */
static void make(learned *l, tw_trial_list *list, int problems, int micros, time_fn *time, uint64_t seed) {
    tw_random r = tw_random_seed(seed);
    char config[100];
    for (int i = 0; i < problems; i++) {
        int64_t problem[TW_SELECT_AXES] = {0};
        tw_family_draw(&l->t.family, &r, problem);
        for (int m = 0; m < TOY_MACROS; m++) {
            assert_true(tw_family_divide(&l->t.family, m, problem).grid > 0);
            for (int k = 0; k < micros; k++) {
                tw_family_config(&l->t.family, m, k, config, sizeof config);
                toy_add(list, problem, m, k, time(&l->t.family, config, problem, &r));
            }
        }
    }
    qsort(list->at, (size_t)list->n, sizeof *list->at, tw_trials_by_problem);
}

static void fit(learned *l) {
    tw_diag d;
    if (tw_spline_fit(&l->s, &l->t.family, &l->trials, &d) != TW_OK) fail_msg("%s", d.message);
}

static void end(learned *l) {
    tw_spline_free(l->s);
    tw_trials_free(&l->trials);
}

/* Returns the mean relative error on fresh problems. */
static double error_of(const learned *l, time_fn *time) {
    tw_random r = tw_random_seed(99);
    double sum = 0;
    int n = 0;
    char config[100];
    for (int p = 0; p < 200; p++) {
        int64_t problem[TW_SELECT_AXES] = {0};
        tw_family_draw(&l->t.family, &r, problem);
        for (int i = 0; i < l->s->n; i++, n++) {
            const tw_spline_config *c = &l->s->configs[i];
            tw_family_config(&l->t.family, c->macro, c->micro, config, sizeof config);
            sum += fabs(tw_spline_time(l->s, i, problem) / time(&l->t.family, config, problem, &r) - 1);
        }
    }
    return sum / n;
}

static void waves_and_rounds_are_learned(void **state) {
    (void)state;
    learned l = {.s = NULL};
    toy_open(&l.t);
    make(&l, &l.trials.spread, 150, 3, plain, 1);
    fit(&l);
    assert_int_equal(l.s->n, TOY_MACROS * 3);
    assert_int_equal(l.s->problems, 150);
    /* Times of micro choices jump by a tenth at two values of L, which the spline smooths. */
    assert_true(error_of(&l, plain) < 0.025 && l.s->error < 0.025 && l.s->r2 > 0.995 && l.s->share > 0.985);
    for (int i = 0; i < l.s->n; i++) {
        const tw_spline_config *c = &l.s->configs[i];
        for (int k = 0; k < TW_SPLINE_TERMS; k++) assert_true(c->c[k] >= 0);
        assert_true(c->samples == 150 && c->error < 0.1);
        assert_true(c->c[0] > 0.5 * toy_round[c->macro]);
    }
    end(&l);
}

static void corrections_follow_problems(void **state) {
    (void)state;
    learned l = {.s = NULL};
    toy_open(&l.t);
    make(&l, &l.trials.spread, 400, 3, bent, 2);
    fit(&l);
    assert_true(error_of(&l, bent) < 0.045);
    /* Without corrections the error is almost three times as large. */
    for (int i = 0; i < l.s->n; i++)
        for (int k = 0; k < tw_lattice_count(&l.s->lattice, 3); k++) l.s->configs[i].r[k] = 0;
    assert_true(error_of(&l, bent) > 0.12);
    end(&l);
}

/* Returns times that grow by a tenth of the toy's with each octave of m above 64. */
static double steep(const tw_family *f, const char *config, const int64_t *problem, tw_random *r) {
    (void)r;
    return toy_time(f, config, problem) * (1 + 0.1 * log2((double)problem[0] / 64));
}

/* Beyond the trials a trend goes on, less steeply. */
static void trends_go_on(void **state) {
    (void)state;
    learned l = {.s = NULL};
    toy_open(&l.t);
    l.t.family.least[0] = 64;
    l.t.family.most[0] = 181;
    make(&l, &l.trials.spread, 300, 1, steep, 11);
    l.t.family.least[0] = 16;
    l.t.family.most[0] = 512;
    fit(&l);
    double factor[2] = {0};
    for (int i = 0; i < 2; i++) {
        const int64_t problem[TW_SELECT_AXES] = {i ? 512 : 181, 128, 512};
        for (int m = 0; m < TOY_MACROS; m++) {
            char config[100];
            tw_family_config(&l.t.family, m, 0, config, sizeof config);
            factor[i] += tw_spline_time(l.s, m, problem) / toy_time(&l.t.family, config, problem) / TOY_MACROS;
        }
    }
    assert_true(factor[0] > 1.1 && factor[1] > factor[0] + 0.03);
    end(&l);
}

/* Blocks run in pairs on each slot of which the family knows. */
static void slots_are_learned(void **state) {
    (void)state;
    learned l = {.s = NULL};
    tw_artefact_macro macros[TOY_MACROS];
    toy_open(&l.t);
    memcpy(macros, toy_macros, sizeof macros);
    for (int m = 0; m < TOY_MACROS; m++) macros[m].slots = TOY_SLOTS / 2;
    l.t.family.macros = macros;
    make(&l, &l.trials.spread, 150, 1, plain, 12);
    fit(&l);
    tw_arena arena = {0};
    tw_artefact a = tw_describe_family(&l.t.family);
    assert_int_equal(tw_describe_spline(&a, &arena, l.s, NULL), TW_OK);
    for (int i = 0; i < l.s->n; i++) assert_true(l.s->configs[i].slots == TOY_SLOTS && a.macros[i].slots == TOY_SLOTS);
    tw_arena_free(&arena);
    assert_true(error_of(&l, plain) < 0.025);
    end(&l);
}

/* Times of which a first wave takes up to half as much more, the more of the last tile along m is empty. */
static double ragged(const tw_family *f, const char *config, const int64_t *problem, tw_random *r) {
    int macro, micro;
    (void)r;
    assert_true(tw_family_find(f, config, &macro, &micro));
    const int64_t tile = f->macros[macro].grid[0], tiles = (problem[0] + tile - 1) / tile;
    const bool one = tw_family_divide(f, macro, problem).grid <= TOY_SLOTS;
    return toy_time(f, config, problem) * (1 + one * 0.5 * (double)(tiles * tile - problem[0]) / (double)tile);
}

static void empty_tiles_are_learned(void **state) {
    (void)state;
    learned l = {.s = NULL};
    toy_open(&l.t);
    make(&l, &l.trials.spread, 400, 1, ragged, 13);
    fit(&l);
    assert_true(error_of(&l, ragged) < 0.025);
    const int nodes = tw_lattice_count(&l.s->lattice, 3);
    for (int i = 0; i < l.s->n; i++)
        for (int k = 0; k < TW_FILL_CELLS; k++) l.s->configs[i].r[nodes + k] = 0;
    assert_true(error_of(&l, ragged) > 0.04);
    end(&l);
}

/* Returns times of blocks that divide both sides equally, and copy their rows of the first operand whatever columns
   they have. */
static double copied(const tw_family *f, const char *config, const int64_t *problem, tw_random *r) {
    int macro, micro;
    (void)r;
    assert_true(tw_family_find(f, config, &macro, &micro));
    const int64_t tile = f->macros[macro].grid[1], tiles = (problem[1] + tile - 1) / tile;
    const tw_wave_division d = tw_family_divide(f, macro, problem);
    const double waves = ceil((double)d.grid / TOY_SLOTS), lean = (double)(tiles * tile) / (double)problem[1];
    return waves * d.loops * (1 + 0.5 * lean);
}

static void what_blocks_do_for_other_axes_is_learned(void **state) {
    (void)state;
    learned l = {.s = NULL};
    toy_open(&l.t);
    l.t.family.shrinks[0] = l.t.family.shrinks[1] = true;
    make(&l, &l.trials.spread, 400, 1, copied, 14);
    fit(&l);
    assert_true(error_of(&l, copied) < 0.002);
    for (int i = 0; i < l.s->n; i++) l.s->configs[i].c[7] = 0;
    assert_true(error_of(&l, copied) > 0.2);
    end(&l);
}

/* Returns times of blocks that wait for memory to bring the second operand once, however many rows of tiles use it. */
static double brought(const tw_family *f, const char *config, const int64_t *problem, tw_random *r) {
    int macro, micro;
    (void)r;
    assert_true(tw_family_find(f, config, &macro, &micro));
    const int64_t tile = f->macros[macro].grid[0], tiles = (problem[0] + tile - 1) / tile;
    const tw_wave_division d = tw_family_divide(f, macro, problem);
    return d.loops * ((double)d.grid / TOY_SLOTS) * (0.1 + 1 / (double)tiles);
}

static void memory_is_learned(void **state) {
    (void)state;
    learned l = {.s = NULL};
    toy_open(&l.t);
    make(&l, &l.trials.spread, 400, 1, brought, 15);
    fit(&l);
    assert_true(error_of(&l, brought) < 0.002);
    for (int i = 0; i < l.s->n; i++) l.s->configs[i].c[10] = 0;
    assert_true(error_of(&l, brought) > 0.2);
    end(&l);
}

/* The error of a model includes noise that nothing predicts, since a sample is predicted without itself. */
static void noise_is_told(void **state) {
    (void)state;
    learned l = {.s = NULL};
    toy_open(&l.t);
    make(&l, &l.trials.spread, 60, 1, noisy, 3);
    fit(&l);
    assert_int_equal(l.s->n, TOY_MACROS);
    assert_true(l.s->error > 0.095 && l.s->error < 0.14);
    for (int i = 0; i < l.s->n; i++) assert_true(l.s->configs[i].error > 0.1);
    assert_true(error_of(&l, plain) < 0.05);
    end(&l);
}

static double twice(const tw_family *f, const char *config, const int64_t *problem, tw_random *r) {
    return 2 * plain(f, config, problem, r);
}

/* Screened trials weigh a third of spread ones. Without spread trials the model learns from them alone. */
static void screens_count_less(void **state) {
    (void)state;
    learned l = {.s = NULL};
    char config[100];
    static const int64_t problem[TW_SELECT_AXES] = {100, 128, 512};
    toy_open(&l.t);
    make(&l, &l.trials.screens, 100, 2, twice, 4);
    fit(&l);
    assert_int_equal(l.s->n, TOY_MACROS * 2);
    tw_spline_free(l.s);
    make(&l, &l.trials.spread, 100, 1, plain, 5);
    fit(&l);
    assert_int_equal(l.s->n, TOY_MACROS);
    tw_family_config(&l.t.family, 0, 0, config, sizeof config);
    const double share = tw_spline_time(l.s, 0, problem) / toy_time(&l.t.family, config, problem);
    assert_true(share > 1.0 && share < 1.25);
    end(&l);
}

static void few_trials_make_no_model(void **state) {
    (void)state;
    learned l = {.s = NULL};
    toy_open(&l.t);
    fit(&l);
    assert_null(l.s);
    make(&l, &l.trials.spread, TW_SPLINE_LEAST - 1, 3, plain, 6);
    fit(&l);
    assert_null(l.s);
    end(&l);
}

/* An artefact predicts as its model. In the first waves the predictions differ by the rounding of corrections, in later
   waves by the rounding of the number of waves. */
static void artefacts_say_what_models_say(void **state) {
    (void)state;
    learned l = {.s = NULL};
    tw_arena arena = {0};
    tw_selector *s;
    tw_diag d;
    toy_open(&l.t);
    make(&l, &l.trials.spread, 200, 2, bent, 7);
    fit(&l);
    char *folder = test_folder_make(), path[512];
    snprintf(path, sizeof path, "%s/toy.select", folder);
    tw_artefact a = tw_describe_family(&l.t.family);
    a.about = "{}";
    assert_int_equal(tw_describe_spline(&a, &arena, l.s, &d), TW_OK);
    assert_int_equal(a.n_macros, l.s->n);
    if (tw_artefact_write(&a, path, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_selector_open(&s, path, &d), TW_OK);
    tw_random r = tw_random_seed(8);
    for (int i = 0; i < 500; i++) {
        int64_t problem[TW_SELECT_AXES] = {0};
        tw_selection all[TOY_MACROS * 2];
        double least = (double)INFINITY;
        tw_family_draw(&l.t.family, &r, problem);
        const int n = tw_select_best(s, problem, 0, TOY_MACROS * 2, all);
        assert_int_equal(n, TOY_MACROS * 2);
        for (int k = 0; k < n; k++) {
            const tw_spline_config *c = &l.s->configs[all[k].macro];
            const double time = tw_spline_time(l.s, all[k].macro, problem);
            const tw_wave_division g = tw_family_divide(&l.t.family, c->macro, problem);
            const double x = (double)g.grid / TOY_SLOTS, near = x > 16 ? 0.01 + 0.6 / x : 0.01;
            assert_true(fabs(all[k].time / time - 1) < near);
            least = fmin(least, time);
        }
        assert_true(all[0].time < least * 1.02 || all[0].time < least * (1 + 0.6 / 16));
    }
    tw_selector_close(s);
    tw_arena_free(&arena);
    test_folder_remove(folder);
    end(&l);
}

/* Returns the geometric mean, over fresh problems, of the least toy time over that of the model's choice. */
static double share_of(const learned *l) {
    tw_random r = tw_random_seed(98);
    double sum = 0;
    char config[100];
    for (int p = 0; p < 300; p++) {
        int64_t problem[TW_SELECT_AXES] = {0};
        double least = (double)INFINITY, predicted = (double)INFINITY, time = 0;
        tw_family_draw(&l->t.family, &r, problem);
        for (int m = 0; m < TOY_MACROS; m++)
            for (int k = 0; k < 3; k++) {
                tw_family_config(&l->t.family, m, k, config, sizeof config);
                least = fmin(least, toy_time(&l->t.family, config, problem));
            }
        for (int i = 0; i < l->s->n; i++) {
            if (tw_spline_time(l->s, i, problem) >= predicted) continue;
            predicted = tw_spline_time(l->s, i, problem);
            tw_family_config(&l->t.family, l->s->configs[i].macro, l->s->configs[i].micro, config, sizeof config);
            time = toy_time(&l->t.family, config, problem);
        }
        sum += log(least / time);
    }
    return exp(sum / 300);
}

/* A trimmed model keeps the configurations that it chooses, and a large enough one keeps all. */
static void what_is_chosen_stays(void **state) {
    (void)state;
    learned l = {.s = NULL};
    toy_open(&l.t);
    make(&l, &l.trials.spread, 150, 3, plain, 1);
    fit(&l);
    const double all = share_of(&l);
    assert_int_equal(tw_spline_trim(l.s, TOY_MACROS * 3, NULL), TW_OK);
    assert_int_equal(l.s->n, TOY_MACROS * 3);
    assert_int_equal(tw_spline_trim(l.s, 6, NULL), TW_OK);
    assert_int_equal(l.s->n, 6);
    assert_true(share_of(&l) > all - 0.03);
    assert_int_equal(tw_spline_trim(l.s, 1, NULL), TW_OK);
    assert_true(l.s->n == 1 && l.s->configs[0].macro != 3);
    end(&l);
}

/* Returns times that a process delays twofold now and then. The default's are least. */
static double delayed(const tw_family *f, const char *config, const int64_t *problem, tw_random *r) {
    const double time = toy_time(f, config, problem) * (tw_random_below(r, 4) ? 1 : 2);
    return strcmp(config, "tile=16 stages=4") ? 1.2 * time : 0.6 * time;
}

/* Choices that gain less than the error of their gain are left out for the default's sake. Others stay, and so does a
   model without the default. */
static void doubtful_choices_are_left_out(void **state) {
    (void)state;
    static const struct {
        time_fn *time;
        int problems, micros, left;
    } cases[] = {{plain, 60, 3, TOY_MACROS * 3}, {delayed, 30, 3, 1}, {delayed, 30, 1, TOY_MACROS}};
    for (int i = 0; i < 3; i++) {
        learned l = {.s = NULL};
        toy_open(&l.t);
        make(&l, &l.trials.spread, cases[i].problems, cases[i].micros, cases[i].time, 5);
        fit(&l);
        assert_true(i ? l.s->gain <= l.s->gain_error : l.s->gain > 3 * l.s->gain_error && l.s->gain < 2);
        assert_true(i < 2 || (l.s->gain == 0 && isinf(l.s->gain_error)));
        tw_spline_doubt(l.s);
        assert_int_equal(l.s->n, cases[i].left);
        if (i == 1) assert_true(l.s->configs[0].macro == 0 && l.s->configs[0].micro == 1);
        end(&l);
    }
}

/* Returns times that differ by noise alone, where the default is a little better, except that one configuration is much
   better for long problems. */
static double level(const tw_family *f, const char *config, const int64_t *problem, tw_random *r) {
    const double noise = 0.97 + 0.06 * (double)tw_random_below(r, 1000) / 1000;
    const double time = toy_time(f, "tile=16 stages=4", problem) * noise;
    if (!strcmp(config, "tile=16 stages=4")) return 0.99 * time;
    return !strcmp(config, "tile=16 stages=8") && problem[0] > 256 ? 0.8 * time : time;
}

/* Where predictions that are a little less are worth nothing, other configurations than the default are predicted as
   longer, by what pays on problems that a prediction has not seen. Where all are worth what they say, none is. */
static void caution_pays(void **state) {
    (void)state;
    for (int noise = 0; noise < 2; noise++) {
        learned l = {.s = NULL};
        toy_open(&l.t);
        make(&l, &l.trials.spread, 60, 3, noise ? level : plain, 5);
        fit(&l);
        if (noise)
            assert_true(l.s->caution >= 0.01 && l.s->gain > 0.02 && l.s->gain < 0.2);
        else
            assert_true(l.s->caution == 0);
        const int n = l.s->n;
        double before[TOY_MACROS * 3];
        const int64_t problem[TW_SELECT_AXES] = {100, 128, 512};
        assert_int_equal(n, TOY_MACROS * 3);
        for (int i = 0; i < n; i++) before[i] = tw_spline_time(l.s, i, problem);
        tw_spline_doubt(l.s);
        assert_int_equal(l.s->n, n);
        for (int i = 0; i < n; i++) {
            const bool own = l.s->configs[i].macro == 0 && l.s->configs[i].micro == 1;
            const double times = tw_spline_time(l.s, i, problem) / before[i];
            assert_true(fabs(times / (own ? 1 : 1 + l.s->caution) - 1) < 1e-9);
        }
        end(&l);
    }
}

/* A default that the model does not know becomes a macro choice without a prediction. */
static void defaults_are_kept(void **state) {
    (void)state;
    learned l = {.s = NULL};
    tw_arena arena = {0};
    toy_open(&l.t);
    l.t.family.micro = 2;
    make(&l, &l.trials.spread, 30, 2, plain, 9);
    fit(&l);
    tw_artefact a = tw_describe_family(&l.t.family);
    assert_int_equal(tw_describe_spline(&a, &arena, l.s, NULL), TW_OK);
    assert_true(a.n_macros == l.s->n + 1 && a.macro == l.s->n && a.micro == 0 && !a.macros[a.macro].n_fits);
    assert_string_equal(a.macros[a.macro].config, "tile=16 stages=8");
    tw_arena_free(&arena);
    end(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waves_and_rounds_are_learned),
        cmocka_unit_test(corrections_follow_problems),
        cmocka_unit_test(what_is_chosen_stays),
        cmocka_unit_test(doubtful_choices_are_left_out),
        cmocka_unit_test(caution_pays),
        cmocka_unit_test(trends_go_on),
        cmocka_unit_test(slots_are_learned),
        cmocka_unit_test(empty_tiles_are_learned),
        cmocka_unit_test(what_blocks_do_for_other_axes_is_learned),
        cmocka_unit_test(memory_is_learned),
        cmocka_unit_test(noise_is_told),
        cmocka_unit_test(screens_count_less),
        cmocka_unit_test(few_trials_make_no_model),
        cmocka_unit_test(artefacts_say_what_models_say),
        cmocka_unit_test(defaults_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
