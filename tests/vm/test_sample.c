/* SPDX-License-Identifier: Apache-2.0 */
/* The definition of a draw, on the processor: what is drawn follows exact softmax after every cut, alone and together;
   ends of every parameter; logits that are none; ties; penalties. */
#include "support/support.h"

#include "base/random.h"
#include "vm/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 64, DRAWS = 60000 };

static tw_sample_rules rules_of(tw_sample_wish w, int64_t vocab) {
    tw_sample_rules r;
    tw_diag d;
    if (tw_sample_rules_of(&r, &w, vocab, &d) != TW_OK) fail_msg("%s", d.message);
    return r;
}

/* Exact probabilities in double: the k most likely, of those the fewest that reach p, of those the ones of min_p. */
static void exact(const tw_sample_wish *w, const float *z, int64_t n, double *p) {
    int32_t order[VOCAB];
    int64_t there = 0;
    for (int64_t i = 0; i < n; i++) {
        p[i] = 0;
        if (!(z[i] > TW_SAMPLE_LEAST)) continue;
        int64_t at = there++;
        for (; at > 0 && z[order[at - 1]] < z[i]; at--) order[at] = order[at - 1];
        order[at] = (int32_t)i;
    }
    int64_t k = w->top_k && w->top_k < there ? w->top_k : there;
    double sum = 0, kept = 0, total = 0;
    for (int64_t i = 0; i < k; i++) sum += exp(((double)z[order[i]] - z[order[0]]) / w->temperature);
    for (int64_t i = 0; i < k; i++) {
        const double e = exp(((double)z[order[i]] - z[order[0]]) / w->temperature);
        if (i && w->top_p > 0 && w->top_p < 1 && kept >= w->top_p * sum) break;
        kept += e;
        if (e < w->min_p * (1 - 1e-9)) continue;
        p[order[i]] = e;
        total += e;
    }
    for (int64_t i = 0; i < n; i++) p[i] /= total;
}

/* Pearson's sum over ids expected five times or more, the rest together; six deviations above its mean is too much. */
static void follows(tw_sample_wish w, const float *z, int64_t n) {
    const tw_sample_rules r = rules_of(w, n);
    double p[VOCAB], sum = 0, rest = 0, few = 0;
    int count[VOCAB] = {0}, cells = 0;
    void *room = malloc(tw_sample_room(n));
    for (int i = 0; i < DRAWS; i++) {
        const int32_t id = tw_sample_draw(&r, z, NULL, n, i, room);
        assert_in_range(id, 0, n - 1);
        count[id]++;
    }
    free(room);
    exact(&w, z, n, p);
    for (int64_t i = 0; i < n; i++) {
        if (p[i] == 0 && count[i]) fail_msg("id %d was drawn, but cut", (int)i);
        if (p[i] * DRAWS < 5) {
            rest += p[i] * DRAWS;
            few += count[i];
            continue;
        }
        const double e = p[i] * DRAWS, x = count[i] - e;
        sum += x * x / e;
        cells++;
    }
    if (rest > 5) sum += (few - rest) * (few - rest) / rest, cells++;
    const double freedom = cells - 1;
    if (sum > freedom + 6 * sqrt(2 * freedom) + 6)
        fail_msg("temperature %g, top-k %d, top-p %g, min-p %g: chi-square %g of %g", w.temperature, (int)w.top_k,
                 w.top_p, w.min_p, sum, freedom);
}

static void random_logits(float *z, int64_t n, uint64_t seed, float spread) {
    tw_random r = tw_random_seed(seed);
    for (int64_t i = 0; i < n; i++) z[i] = spread * tw_random_normal(&r);
}

static void draws_follow_softmax_after_every_cut(void **state) {
    (void)state;
    static const tw_sample_wish wishes[] = {
        {.temperature = 1},
        {.temperature = 0.7, .seed = 9},
        {.temperature = 3, .seed = 1ull << 40},
        {.temperature = 1, .top_k = 5, .seed = 2},
        {.temperature = 2, .top_p = 0.8, .seed = 3},
        {.temperature = 1.5, .min_p = 0.05, .seed = 4},
        {.temperature = 0.7, .top_k = 20, .top_p = 0.95, .seed = 5},
        {.temperature = 1.2, .top_k = 30, .top_p = 0.9, .min_p = 0.02, .seed = 6},
        {.temperature = 1, .top_p = 0.99, .min_p = 0.01, .seed = 7},
        {.temperature = 1, .top_k = VOCAB, .seed = 8},
        {.temperature = 1e6, .top_k = 7, .seed = 11},
        {.temperature = INFINITY, .seed = 12},
    };
    float z[VOCAB];
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        random_logits(z, VOCAB, 100 + i, 2);
        follows(wishes[i], z, VOCAB);
    }
}

static int32_t draw(tw_sample_wish w, const float *z, const uint32_t *counts, int64_t n, int64_t position) {
    const tw_sample_rules r = rules_of(w, n);
    void *room = malloc(tw_sample_room(n));
    const int32_t id = tw_sample_draw(&r, z, counts, n, position, room);
    free(room);
    return id;
}

static void what_is_left_of_one_is_it(void **state) {
    (void)state;
    static const tw_sample_wish one[] = {{.temperature = 0},
                                         {.temperature = 1e-4},
                                         {.temperature = 1, .top_k = 1},
                                         {.temperature = 100, .top_k = 1},
                                         {.temperature = 1, .top_p = 1e-12},
                                         {.temperature = 1, .top_p = 0.1},
                                         {.temperature = 50, .min_p = 1},
                                         {.temperature = 1, .min_p = 0.9}};
    const float z[6] = {0, 1, 5, -30, NAN, -INFINITY};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        for (int k = 0; k < 200; k++) assert_int_equal(draw(one[i], z, NULL, 6, k), 2);
}

static void logits_that_are_none_are_never_drawn(void **state) {
    (void)state;
    static const tw_sample_wish ways[] = {{.temperature = 0},
                                          {.temperature = 1},
                                          {.temperature = 1, .top_k = 5},
                                          {.temperature = 1, .top_p = 0.999},
                                          {.temperature = 1, .min_p = 1e-6}};
    const float some[6] = {NAN, -INFINITY, 1, NAN, 1.5f, -INFINITY};
    const float none[4] = {NAN, -INFINITY, NAN, -INFINITY}, one[3] = {-INFINITY, NAN, -1e38f};
    const float infinite[4] = {1, INFINITY, 2, INFINITY};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (int k = 0; k < 300; k++) {
            const int32_t id = draw(ways[i], some, NULL, 6, k);
            assert_true(id == 2 || id == 4);
            assert_int_equal(draw(ways[i], none, NULL, 4, k), 0);
            assert_int_equal(draw(ways[i], one, NULL, 3, k), 2);
            assert_int_equal(draw(ways[i], infinite, NULL, 4, k), 1);
        }
}

/* Of equals the smaller ids come first. */
static void ties_at_a_boundary_fall_to_smaller_ids(void **state) {
    (void)state;
    float z[VOCAB];
    int drawn[VOCAB] = {0};
    for (int i = 0; i < VOCAB; i++) z[i] = 1;
    for (int k = 0; k < 2000; k++) drawn[draw((tw_sample_wish){.temperature = 1, .top_k = 5}, z, NULL, VOCAB, k)]++;
    for (int i = 0; i < VOCAB; i++) assert_true(i < 5 ? drawn[i] > 300 : !drawn[i]);
    memset(drawn, 0, sizeof drawn);
    for (int k = 0; k < 2000; k++) drawn[draw((tw_sample_wish){.temperature = 1, .top_p = 0.125}, z, NULL, VOCAB, k)]++;
    for (int i = 0; i < VOCAB; i++) assert_true(i < VOCAB / 8 ? drawn[i] > 150 : !drawn[i]);
    assert_int_equal(draw((tw_sample_wish){.temperature = 0}, z, NULL, VOCAB, 0), 0);
    z[1] = z[3] = 2;
    z[0] = 1.5f;
    for (int k = 0; k < 100; k++) {
        const int32_t id = draw((tw_sample_wish){.temperature = 9, .top_k = 2}, z, NULL, VOCAB, k);
        assert_true(id == 1 || id == 3);
    }
    /* -0 is 0. */
    const float zeros[3] = {-0.0f, 0.0f, -0.0f};
    int seen[3] = {0};
    for (int k = 0; k < 600; k++) seen[draw((tw_sample_wish){.temperature = 1, .top_k = 2}, zeros, NULL, 3, k)]++;
    assert_true(seen[0] > 200 && seen[1] > 200 && !seen[2]);
}

static void seeds_positions_and_logits_decide(void **state) {
    (void)state;
    float z[VOCAB];
    random_logits(z, VOCAB, 5, 0.1f);
    int other_seed = 0, other_high = 0, other_position = 0;
    for (int k = 0; k < 300; k++) {
        const tw_sample_wish w = {.temperature = 1, .seed = 77};
        const int32_t id = draw(w, z, NULL, VOCAB, k);
        assert_int_equal(draw(w, z, NULL, VOCAB, k), id);
        other_seed += draw((tw_sample_wish){.temperature = 1, .seed = 78}, z, NULL, VOCAB, k) != id;
        other_high += draw((tw_sample_wish){.temperature = 1, .seed = 77 + (1ull << 32)}, z, NULL, VOCAB, k) != id;
        other_position += draw(w, z, NULL, VOCAB, k + 1) != id;
    }
    assert_true(other_seed > 250 && other_high > 250 && other_position > 250);
}

/* No seed makes an id win everywhere, nor never. */
static void no_id_is_favoured(void **state) {
    (void)state;
    enum { IDS = 2000, SEEDS = 400 };
    static float z[IDS];
    static int count[IDS];
    void *room = malloc(tw_sample_room(IDS));
    for (uint64_t s = 0; s < SEEDS; s++) {
        const tw_sample_rules r = rules_of((tw_sample_wish){.temperature = 1, .seed = s * 0x9e3779b97f4a7c15u}, IDS);
        for (int k = 0; k < 50; k++) count[tw_sample_draw(&r, z, NULL, IDS, k, room)]++;
    }
    double sum = 0;
    for (int i = 0; i < IDS; i++) sum += (count[i] - 10.0) * (count[i] - 10.0) / 10;
    free(room);
    assert_true(fabs(sum - IDS) < 6 * sqrt(2.0 * IDS));
}

static void penalties_come_first(void **state) {
    (void)state;
    const float z[4] = {2, 1.5f, -1, -1.2f};
    uint32_t counts[4] = {TW_SAMPLE_SEEN};
    const tw_sample_wish repeat = {.repetition = 1.5};
    assert_int_equal(draw(repeat, z, counts, 4, 0), 1); /* 2 / 1.5 against 1.5 */
    counts[1] = TW_SAMPLE_SEEN;
    assert_int_equal(draw(repeat, z, counts, 4, 0), 0);
    assert_int_equal(draw((tw_sample_wish){.repetition = 0.5}, z, counts, 4, 0), 0); /* rewards */
    /* What the prompt has is not what was generated. */
    assert_int_equal(draw((tw_sample_wish){.presence = 1}, z, counts, 4, 0), 0);
    counts[0] = TW_SAMPLE_SEEN | 1;
    assert_int_equal(draw((tw_sample_wish){.presence = 1}, z, counts, 4, 0), 1);
    assert_int_equal(draw((tw_sample_wish){.frequency = 0.4}, z, counts, 4, 0), 0); /* 1.6 */
    counts[0] = TW_SAMPLE_SEEN | 2;
    assert_int_equal(draw((tw_sample_wish){.frequency = 0.4}, z, counts, 4, 0), 1); /* 1.2 */
    assert_int_equal(draw((tw_sample_wish){.frequency = -0.4, .presence = -1}, z, counts, 4, 0), 0);
    const float low[2] = {-1, -1.2f};
    const uint32_t first[2] = {TW_SAMPLE_SEEN};
    assert_int_equal(draw(repeat, low, first, 2, 0), 1); /* -1.5 */
    /* Before the cuts: the largest is then another. */
    for (int k = 0; k < 50; k++)
        assert_int_equal(draw((tw_sample_wish){.temperature = 1, .top_k = 1, .presence = 1}, z, counts, 4, k), 1);
}

static void numbers_that_make_no_sense_are_refused(void **state) {
    (void)state;
    static const tw_sample_wish wrong[] = {{.temperature = -1}, {.temperature = NAN},   {.top_k = -1},
                                           {.top_p = 1.5},      {.top_p = -0.1},        {.top_p = NAN},
                                           {.min_p = 2},        {.repetition = -1},     {.repetition = NAN},
                                           {.presence = NAN},   {.frequency = INFINITY}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tw_sample_rules r;
        tw_diag d;
        assert_int_equal(tw_sample_rules_of(&r, &wrong[i], 10, &d), TW_ERR_USAGE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_softmax_after_every_cut),
        cmocka_unit_test(what_is_left_of_one_is_it),
        cmocka_unit_test(logits_that_are_none_are_never_drawn),
        cmocka_unit_test(ties_at_a_boundary_fall_to_smaller_ids),
        cmocka_unit_test(seeds_positions_and_logits_decide),
        cmocka_unit_test(no_id_is_favoured),
        cmocka_unit_test(penalties_come_first),
        cmocka_unit_test(numbers_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
