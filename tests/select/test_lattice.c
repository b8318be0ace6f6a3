/* SPDX-License-Identifier: Apache-2.0 */
/* Lattices: octaves, and the nodes around a problem with their weights. */
#include "support/support.h"

#include "base/random.h"
#include "select/lattice.h"

#include <math.h>

static void octaves_are_straight_between_powers(void **state) {
    (void)state;
    for (int e = 0; e < 24; e++) {
        assert_true(tw_lattice_octave((float)(1 << e)) == (float)e);
        assert_true(tw_lattice_octave(1.5f * (float)(1 << e)) == (float)e + 0.5f);
    }
}

/* Interpolating the nodes' octaves gives the octave of a problem, up to the weights' rounding. Beyond the ends of an
   axis it gives the end. */
static void weights_interpolate(void **state) {
    (void)state;
    const tw_lattice l = {{5, 1, 4, 3, 1, 1}, {4, 7, 0, 10, 0, 0}, {8, 7, 12, 11, 0, 0}};
    tw_random r = tw_random_seed(1);
    assert_int_equal(tw_lattice_count(&l, 4), 60);
    for (int i = 0; i < 20000; i++) {
        float problem[TW_SELECT_AXES] = {0};
        uint32_t node[TW_LATTICE_CORNERS];
        int16_t weight[TW_LATTICE_CORNERS];
        int sum = 0;
        double at[4] = {0};
        for (int a = 0; a < 4; a++)
            problem[a] = (float)(1 + tw_random_below(&r, 1ull << (1 + tw_random_below(&r, 14))));
        const int n = tw_lattice_corners(&l, 4, problem, node, weight);
        assert_int_equal(n, 8);
        for (int k = 0; k < n; k++) {
            assert_true(node[k] < 60 && weight[k] >= 0 && weight[k] <= TW_LATTICE_UNITS);
            sum += weight[k];
            const double places[] = {node[k] / 12, 0, node[k] / 3 % 4, node[k] % 3};
            for (int a = 0; a < 4; a++) at[a] += weight[k] * places[a] / TW_LATTICE_UNITS;
        }
        assert_int_equal(sum, TW_LATTICE_UNITS);
        for (int a = 0; a < 4; a++) {
            const double low = (double)l.low[a], high = (double)l.high[a],
                         octave = fmin(fmax((double)tw_lattice_octave(problem[a]), low), high);
            if (l.nodes[a] > 1) assert_true(fabs(at[a] - (octave - low) / (high - low) * (l.nodes[a] - 1)) < 0.02);
        }
    }
}

/* A problem at a node gives all the weight to the node. */
static void nodes_are_met(void **state) {
    (void)state;
    const tw_lattice l = {{3, 2, 1, 1, 1, 1}, {4, 0, 0, 0, 0, 0}, {8, 6, 0, 0, 0, 0}};
    static const struct {
        float problem[2];
        uint32_t node;
    } cases[] = {{{16, 1}, 0},  {{16, 64}, 1},  {{64, 1}, 2},      {{64, 64}, 3},
                 {{256, 1}, 4}, {{256, 64}, 5}, {{9999, 9999}, 5}, {{1, 1}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t node[TW_LATTICE_CORNERS];
        int16_t weight[TW_LATTICE_CORNERS];
        int at = -1;
        const int n = tw_lattice_corners(&l, 2, cases[i].problem, node, weight);
        for (int k = 0; k < n; k++)
            if (weight[k]) at = (int)node[k];
        assert_int_equal(at, cases[i].node);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(octaves_are_straight_between_powers),
        cmocka_unit_test(weights_interpolate),
        cmocka_unit_test(nodes_are_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
