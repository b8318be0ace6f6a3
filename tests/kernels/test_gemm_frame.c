/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a product is replaceable: another order of tiles, operands that lie elsewhere, sums that are finished
   otherwise, each on every way to multiply. */
#include "support/support.h"

#include "ir/passes/passes.h"
#include "kernels/gemm/generate.h"
#include "kernels/gemm/reference.h"

#include <stdlib.h>
#include <string.h>

enum { M = 256, N = 64, K = 96, TILE = 64 /* Rows of every configuration's tile. */ };

static const char *const configs[] = {
    "mma=0 ms=4 ns=4 ml=64 nl=32 u=16 kl=1 kg=1 stages=2 split=0 vec=8",
    "mma=0 ms=4 ns=4 ml=64 nl=32 u=16 kl=2 kg=2 stages=2 split=0 vec=8 copy=1",
    "mma=1 ms=32 ns=16 ml=64 nl=32 u=32 kl=1 kg=2 stages=3 split=1 vec=16",
    "mma=2 ms=64 ns=32 ml=64 nl=32 u=64 kl=1 kg=1 stages=3 vec=16 group=1",
    "mma=2 ms=64 ns=32 ml=64 nl=32 u=64 kl=1 kg=1 stages=3 vec=16 group=2 persistent=2",
};

/* ---- another order: the last tile first */

static int asked; /* Times that the frame was asked for a tile while the kernel was built. */

static void find_from_the_end(tw_gemm_gen *g, tw_val number) {
    tw_builder *b = g->b;
    tw_val last = tw_add_imm(b, tw_mul(b, g->arg.tiles_m, g->arg.tiles_n), -1);
    tw_gemm_plain_frame.find_tile(g, tw_sub(b, last, number));
    asked++;
}

/* ---- operands that lie elsewhere: the tile's rows of A are those of the tile as far from the matrix's end */

static tw_val mirrored(tw_gemm_gen *g) {
    return tw_sub(g->b, tw_add_imm(g->b, g->arg.m, -TILE), g->x.origin);
}

static void locate_mirrored(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    tw_gemm_plain_frame.locate(g);
    tw_val rows = tw_sub(b, mirrored(g), g->x.origin);
    g->x.matrix = tw_add(b, g->x.matrix, tw_mul(b, tw_widen(b, rows), g->arg.ldx));
}

static void fetch_mirrored(tw_gemm_gen *g, bool is_x, tw_val to, tw_val scales_to, tw_val k, tw_val full) {
    tw_val origin = g->x.origin;
    if (is_x) g->x.origin = mirrored(g);
    tw_gemm_plain_frame.fetch(g, is_x, to, scales_to, k, full);
    g->x.origin = origin;
}

static void want_mirrored(tw_gemm_data *d) {
    double *want = malloc((size_t)d->cells * sizeof *want);
    float *tolerance = malloc((size_t)d->cells * sizeof *tolerance);
    assert_true(want && tolerance);
    for (int64_t i = 0; i < d->cells; i++) {
        const int64_t row = i / N, other = M - TILE - row / TILE * TILE + row % TILE;
        want[i] = d->want[other * N + i % N];
        tolerance[i] = d->tolerance[other * N + i % N];
    }
    memcpy(d->want, want, (size_t)d->cells * sizeof *want);
    memcpy(d->tolerance, tolerance, (size_t)d->cells * sizeof *tolerance);
    free(want);
    free(tolerance);
}

/* ---- sums that are finished otherwise: doubled */

static void finish_doubled(tw_gemm_gen *g) {
    for (int s = 0; s < g->c->ks; s++)
        for (int i = 0; i < g->plan.accumulators; i++)
            tw_assign(g->b, g->acc[s][i], tw_add(g->b, g->acc[s][i], g->acc[s][i]));
    tw_gemm_plain_frame.finish(g);
}

static void want_doubled(tw_gemm_data *d) {
    for (int64_t i = 0; i < d->cells; i++) {
        d->want[i] *= 2;
        d->tolerance[i] *= 2;
    }
}

/* ---- */

static void runs(const tw_gemm_frame *f, void (*change)(tw_gemm_data *d)) {
    const tw_target *t = tw_target_find("sm_90a");
    tw_gemm_data d;
    tw_diag diag;
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        tw_gemm_problem p = {.type = TW_GEMM_F16, .out = TW_T_f32, .m = M, .n = N, .k = K, .trans_b = true, .alpha = 1};
        assert_int_equal(tw_gemm_problem_complete(&p, &diag), TW_OK);
        tw_gemm_config c = tw_gemm_config_default(&p);
        const char *why = "";
        assert_int_equal(tw_gemm_config_parse(&c, configs[i], &diag), TW_OK);
        if (!tw_gemm_legal(&p, &c, t, NULL, &why)) fail_msg("%s: %s", configs[i], why);
        assert_int_equal(tw_gemm_data_make(&d, &p, 3 + i, &diag), TW_OK);
        if (change) change(&d);
        const tw_gemm_variant v = tw_gemm_variant_of(&p, &c);
        tw_kernel *k = tw_gemm_build_frame(f, &v, &c, t);
        assert_non_null(k);
        /* Which order it is the result does not tell. A persistent block's two roles each ask. */
        if (f->find_tile == find_from_the_end) assert_int_equal(asked, c.persistent ? 2 : 1);
        asked = 0;
        assert_int_equal(tw_pipeline_default(k, true, &diag), TW_OK);
        const tw_status st = tw_gemm_emulate_kernel(&d, &c, t, k, 7, NULL, &diag);
        if (st != TW_OK) fail_msg("%s: %s", configs[i], diag.message);
        tw_kernel_free(k);
        tw_gemm_data_free(&d);
    }
}

static void the_next_tile_is_replaceable(void **state) {
    (void)state;
    tw_gemm_frame f = tw_gemm_plain_frame;
    f.find_tile = find_from_the_end;
    runs(&f, NULL);
}

static void where_operands_lie_is_replaceable(void **state) {
    (void)state;
    tw_gemm_frame f = tw_gemm_plain_frame;
    f.locate = locate_mirrored;
    f.fetch = fetch_mirrored;
    runs(&f, want_mirrored);
}

static void the_end_of_a_tile_is_replaceable(void **state) {
    (void)state;
    tw_gemm_frame f = tw_gemm_plain_frame;
    f.finish = finish_doubled;
    runs(&f, want_doubled);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_next_tile_is_replaceable),
                                       cmocka_unit_test(where_operands_lie_is_replaceable),
                                       cmocka_unit_test(the_end_of_a_tile_is_replaceable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
