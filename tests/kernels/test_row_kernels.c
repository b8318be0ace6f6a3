/* SPDX-License-Identifier: Apache-2.0 */
/* Rows in the emulator against values in double precision. */
#include "support/support.h"

#include "kernels/random_points.h"
#include "kernels/rows/rows_kernel.h"

#include <stdio.h>
#include <string.h>

/* A vector along the last dimension, or an operand of its own for each row. */
static tw_point_operand parameter(tw_random *r, const tw_points *p) {
    tw_point_operand o = random_points_result(r, p, TW_CLASS_real);
    o.constant = tw_random_below(r, 2);
    if (tw_random_below(r, 4) == 0) return o;
    for (int d = 0; d + 1 < p->rank; d++) o.strides[d] = 0;
    o.strides[p->rank - 1] = 1;
    o.align = 16;
    return o;
}

static void random_problem(tw_random *r, tw_rows_problem *p, random_points_seen *seen) {
    static const int64_t wide[] = {256, 768, 1000, 1030, 1536, 2048};
    *p = (tw_rows_problem){.of = (tw_rows_of)tw_random_below(r, TW_ROWS_OPS), .eps = 0.01f};
    random_points(r, &p->x, 1, true, seen);
    const bool norm = p->of <= TW_ROWS_rms_norm;
    /* The values of some rows are all the same. What rounding leaves of their deviation is multiplied by 1 / sqrt(eps).
       Wide rows have one operand, which lies densely. */
    if (tw_random_below(r, 4) == 0) {
        const int64_t n = wide[tw_random_below(r, 6)];
        tw_diag d;
        p->eps = 1e-5f;
        p->x = (tw_points){.rank = 2, .dims = {1 + (int64_t)tw_random_below(r, 3), n}, .n_operands = 1};
        p->x.operands[0] = (tw_point_operand){.type = TW_M_f16, .strides = {n, 1}, .align = 16};
        tw_cells_parse(&p->x.cells, "add(x0,0.1)", (tw_memory_type[]){TW_M_f16}, 1, &d);
    }
    p->has_gain = norm && tw_random_below(r, 3);
    p->has_bias = norm && tw_random_below(r, 2);
    p->has_kept = tw_random_below(r, 3) == 0;
    p->early = tw_random_below(r, 2);
    p->gain = parameter(r, &p->x);
    p->bias = parameter(r, &p->x);
    p->out = random_points_result(r, &p->x, TW_CLASS_real);
    p->kept = random_points_result(r, &p->x, TW_CLASS_real);
}

static void random_rows_are_right(void **state) {
    (void)state;
    enum { PROBLEMS = 400 };
    tw_random r = tw_random_seed(12);
    random_points_seen seen = {0};
    int wide = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        char words[4096];
        tw_rows_problem p;
        tw_diag d;
        random_problem(&r, &p, &seen);
        tw_rows_config c = tw_rows_config_default(&p);
        if (i % 3 == 0) c = (tw_rows_config){1 << tw_random_below(&r, 4), 1 + (int)tw_random_below(&r, 2)};
        if (i % 20 == 0) c = (tw_rows_config){TW_ROWS_LONG_WARPS, 1};
        wide += c.warps > 1;
        tw_rows_print(&p, words, sizeof words);
        if (tw_rows_emulate(&p, &c, tw_target_find("sm_90a"), (uint64_t)i, NULL, &d) != TW_OK)
            fail_msg("%d: warps=%d rows=%d %s: %s", i, c.warps, c.rows, words, d.message);
    }
    assert_true(seen.gathers > 40 && seen.backward > 40 && seen.broadcast > 100 && seen.vectors > 100 && wide > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_rows_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
