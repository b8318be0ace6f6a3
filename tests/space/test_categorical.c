/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler against counts by hand in a space of 24 points, and on products, where few points are legal. */
#include "support/support.h"

#include "kernels/gemm/space.h"
#include "space/categorical.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct toy {
    int a, b, given;
} toy;

static const tw_param params[] = {
    {.name = "a",
     .role = TW_SPACE_MACRO,
     .form = TW_SPACE_INT32,
     .at = offsetof(toy, a),
     .most = 99,
     .values = (const int[]){1, 2, 3, 4, 5, 6},
     .n_values = 6},
    {.name = "given", .role = TW_SPACE_GIVEN, .form = TW_SPACE_INT32, .at = offsetof(toy, given), .most = 99},
    {.name = "b",
     .role = TW_SPACE_MICRO,
     .form = TW_SPACE_INT32,
     .at = offsetof(toy, b),
     .most = 99,
     .values = (const int[]){1, 2, 3, 4},
     .n_values = 4},
};

/* Legal are products of at most the context: 1..4 x 1, 1 and 2 x 2, 1 x 3, 1 x 4 of 4. */
static tw_status legal(const void *context, const void *config, tw_diag *diag) {
    const toy *t = config;
    (void)diag;
    return t->a * t->b <= *(const int *)context && t->given == 7 ? TW_OK : TW_ERR_USAGE;
}

static const tw_space space = {.name = "toy", .params = params, .n = 3, .bytes = sizeof(toy), .legal = legal};
static const double points[3][6] = {{4, 2, 1, 1, 0, 0}, {0}, {4, 2, 1, 1}};
enum { ALL = 24, LEGAL = 8, DRAWS = 200000 };

static tw_categorical *learned(double alpha, int limit, tw_random *random) {
    tw_categorical *x;
    tw_diag diag;
    const toy config = {.given = 7};
    assert_int_equal(tw_categorical_make(&x, &space, alpha, &diag), TW_OK);
    const int64_t n = tw_categorical_learn(x, &limit, &config, DRAWS, random);
    const double share = (double)LEGAL / ALL, sigma = sqrt(share * (1 - share) * DRAWS);
    assert_true(fabs((double)n - share * DRAWS) < 5 * sigma);
    return x;
}

static void probabilities_are_counts_beside_the_prior(void **state) {
    (void)state;
    const double alphas[] = {1e-9, 100, 1e6};
    for (int t = 0; t < 3; t++) {
        tw_random random = tw_random_seed(5 + (uint64_t)t);
        const double alpha = alphas[t], n = (double)DRAWS * LEGAL / ALL;
        tw_categorical *x = learned(alpha, 4, &random);
        for (int i = 0; i < 3; i += 2) {
            const int values = params[i].n_values;
            double sum = 0;
            for (int k = 0; k < values; k++) {
                const double want = (alpha + n * points[i][k] / LEGAL) / (alpha * values + n);
                const double p = tw_categorical_probability(x, i, k);
                if (fabs(p - want) > 0.01)
                    fail_msg("alpha %g, parameter %d, value %d: %g, not %g", alpha, i, k, p, want);
                sum += p;
            }
            assert_true(fabs(sum - 1) < 1e-9);
        }
        tw_categorical_free(x);
    }
}

/* Draws are independent in the parameters, and what is not legal is drawn again. */
static void draws_follow_the_probabilities(void **state) {
    (void)state;
    tw_random random = tw_random_seed(11);
    tw_categorical *x = learned(100, 4, &random);
    const int limit = 4;
    double want[6][4], all = 0, seen[6][4] = {{0}};
    int64_t drawn = 0;
    for (int a = 0; a < 6; a++)
        for (int b = 0; b < 4; b++) {
            const bool good = (a + 1) * (b + 1) <= limit;
            want[a][b] = good ? tw_categorical_probability(x, 0, a) * tw_categorical_probability(x, 2, b) : 0;
            all += want[a][b];
        }
    for (int n = 0; n < DRAWS; n++) {
        toy t = {.given = 7};
        assert_true(tw_categorical_draw(x, &limit, NULL, &random, 1000, &t, &drawn));
        assert_int_equal(t.given, 7);
        seen[t.a - 1][t.b - 1]++;
    }
    for (int a = 0; a < 6; a++)
        for (int b = 0; b < 4; b++) {
            const double p = want[a][b] / all, sigma = sqrt(p * (1 - p) / DRAWS);
            assert_true(fabs(seen[a][b] / DRAWS - p) <= 5 * sigma);
        }
    assert_true(fabs(DRAWS / (double)drawn - all) < 0.01);
    const int64_t keep[] = {3, -1, -1};
    toy t = {.given = 7};
    for (int n = 0; n < 100; n++) {
        assert_true(tw_categorical_draw(x, &limit, keep, &random, 1000, &t, NULL));
        assert_true(t.a == 3 && t.b == 1);
    }
    const int none = 0;
    drawn = 0;
    assert_false(tw_categorical_draw(x, &none, NULL, &random, 9, &t, &drawn));
    assert_int_equal(drawn, 9);
    tw_categorical_free(x);
}

static void parameters_need_values(void **state) {
    (void)state;
    tw_param bare[3];
    memcpy(bare, params, sizeof bare);
    bare[2].values = NULL;
    bare[2].n_values = 0;
    tw_space s = space;
    s.params = bare;
    tw_categorical *x;
    tw_diag diag;
    assert_int_equal(tw_categorical_make(&x, &s, 100, &diag), TW_ERR_USAGE);
    assert_null(x);
    assert_non_null(strstr(diag.message, "b has no values"));
}

/* Of a product's points less than one in a hundred is legal; of the sampler's draws many more. */
static void products_are_drawn_with_few_tries(void **state) {
    (void)state;
    tw_diag diag;
    tw_gemm_problem p = {.type = TW_GEMM_F16, .m = 512, .n = 512, .k = 512, .alpha = 1};
    assert_int_equal(tw_gemm_problem_complete(&p, &diag), TW_OK);
    const tw_gemm_space_context of = {&p, tw_target_find("sm_90a"), NULL};
    const tw_gemm_config any = tw_gemm_config_default(&p);
    tw_random random = tw_random_seed(3);
    tw_categorical *x;
    assert_int_equal(tw_categorical_make(&x, &tw_gemm_space, TW_CATEGORICAL_ALPHA, &diag), TW_OK);
    const double uniform = (double)tw_categorical_learn(x, &of, &any, 2000000, &random) / 2000000;
    int64_t drawn = 0;
    for (int i = 0; i < 2000; i++) {
        tw_gemm_config c = any;
        assert_true(tw_categorical_draw(x, &of, NULL, &random, 1000000, &c, &drawn));
        assert_true(tw_gemm_legal(&p, &c, of.target, NULL, NULL));
    }
    const double categorical = 2000 / (double)drawn;
    print_message("legal: %.3f %% of uniform draws, %.2f %% of the sampler's\n", 100 * uniform, 100 * categorical);
    assert_true(uniform < 0.01);
    assert_true(categorical > 8 * uniform);
    tw_categorical_free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probabilities_are_counts_beside_the_prior), cmocka_unit_test(draws_follow_the_probabilities),
        cmocka_unit_test(parameters_need_values), cmocka_unit_test(products_are_drawn_with_few_tries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
