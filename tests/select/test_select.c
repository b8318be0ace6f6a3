/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions against a reference that predicts every macro choice by the definition, in double precision. */
#include "select/opened.h"

#include <math.h>
#include <string.h>

static const tw_artefact_exact *listed(const tw_artefact *a, const int64_t *problem) {
    for (int i = 0; i < a->n_exact; i++)
        if (!memcmp(a->exact[i].problem, problem, (size_t)a->n_axes * sizeof *problem)) return &a->exact[i];
    return NULL;
}

/* ---- random artefacts */

typedef struct share {
    int of[TW_SELECT_EXACT + 1], wide, second, plain;
} share;

static void expect_exact(const tw_artefact *a, const tw_artefact_exact *e, const int64_t *problem, unsigned flags,
                         const tw_selection *s, share *n) {
    const bool first = artefact_allows(a, e->macro, problem, flags);
    assert_int_equal(s->source, TW_SELECT_EXACT);
    assert_int_equal(s->macro, first ? e->macro : e->second_macro);
    assert_int_equal(s->micro, first ? e->micro : e->second_micro);
    assert_true(s->time == (first ? e->time : e->second_time) && s->low == s->time && s->high == s->time);
    n->second += !first;
}

static void expect_interval(const tw_artefact *a, const int64_t *problem, const tw_selection *s) {
    const tw_artefact_macro *m = &a->macros[s->macro];
    double g = m->times ? (double)m->times : 1;
    for (int x = 0; x < a->n_axes; x++) g *= artefact_tiles(a, m, x, problem);
    const double waves = ceil(g / (double)m->slots),
                 error = m->fits[(waves < m->n_fits ? (int)waves : m->n_fits) - 1].error;
    /* The file rounds errors up by at most a sixteenth. */
    assert_true(s->high >= s->time * (1 + error) * (1 - 1e-6));
    assert_true(s->high <= s->time * (1 + error * 1.0625 + 0.00025) * (1 + 1e-6));
    const double low = 2 * s->time - s->high;
    assert_true(fabs(s->low - (low > 0 ? low : 0)) <= 1e-6 * s->time);
}

static void expect(const tw_artefact *a, bool plain, const int64_t *problem, unsigned flags, const tw_selection *s,
                   share *n) {
    const tw_artefact_exact *e = listed(a, problem);
    n->of[s->source]++;
    if (s->source != TW_SELECT_NONE) assert_true(artefact_is_config(a, s));
    if (e && (artefact_allows(a, e->macro, problem, flags) ||
              (e->second_macro >= 0 && artefact_allows(a, e->second_macro, problem, flags)))) {
        expect_exact(a, e, problem, flags, s, n);
        return;
    }
    int best = -1;
    artefact_prediction least = {.time = (double)INFINITY};
    for (int i = 0; i < a->n_macros; i++) {
        const artefact_prediction r = artefact_refer(a, i, problem);
        if (!r.known || !artefact_allows(a, i, problem, flags)) continue;
        if (r.time < least.time) {
            best = i;
            least = r;
        }
        plain = plain && r.exact;
    }
    n->plain += plain;
    if (best < 0 || (s->source != TW_SELECT_MODEL && !plain && least.slack > least.time)) {
        const bool allowed = artefact_allows(a, a->macro, problem, flags);
        assert_int_equal(s->source, allowed ? TW_SELECT_DEFAULT : TW_SELECT_NONE);
        assert_int_equal(s->macro, allowed ? a->macro : -1);
        assert_int_equal(s->micro, allowed ? a->micro : -1);
        assert_true(s->time == 0 && s->low == 0 && s->high == 0);
        return;
    }
    const char *const why = artefact_refute(a, problem, flags, s);
    if (why) fail_msg("%s", why);
    if (plain) {
        assert_int_equal(s->macro, best);
        assert_true(s->time == least.time);
    }
    expect_interval(a, problem, s);
}

/* Choices are equal with and without AVX2, and equal to the first of all predictions in order. */
static void expect_same(tw_selector *s, const int64_t *problem, unsigned flags, const tw_selection *got) {
    select_problem p;
    select_decision d;
    tw_selection best;
    select_scan_fn *const fast = s->view.scan;
    assert_true(select_problem_of(&s->view, problem, flags, &p));
    s->view.scan = select_scan_c;
    select_decide(&s->view, &p, &d);
    s->view.scan = fast;
    assert_int_equal(d.macro, got->macro);
    assert_int_equal(d.micro, got->micro);
    assert_true(d.time == got->time);
    if (got->source != TW_SELECT_MODEL) return;
    assert_int_equal(tw_select_best(s, problem, flags, 1, &best), 1);
    assert_int_equal(best.macro, got->macro);
    assert_int_equal(best.micro, got->micro);
    assert_true(best.time == got->time && best.low == got->low && best.high == got->high);
}

static void decide_random(tw_selector *s, const tw_artefact *a, bool plain, tw_random *r, share *n) {
    int64_t problem[TW_SELECT_AXES] = {0};
    tw_selection got, second;
    const unsigned flags = tw_random_below(r, 2) ? 0 : (unsigned)tw_random_below(r, 16);
    artefact_problem(a, r, problem);
    if (a->n_exact && !tw_random_below(r, 6))
        memcpy(problem, a->exact[tw_random_below(r, (uint64_t)a->n_exact)].problem, sizeof problem);
    const tw_status st = tw_select_choose(s, problem, flags, &got);
    assert_int_equal(st, got.source == TW_SELECT_NONE ? TW_ERR_UNSUPPORTED : TW_OK);
    expect(a, plain, problem, flags, &got, n);
    expect_same(s, problem, flags, &got);
    if (st != TW_OK) return;
    assert_int_equal(tw_select_choose(s, problem, flags, &second), TW_OK);
    assert_true(second.remembered);
    assert_true(second.source == got.source && second.macro == got.macro && second.micro == got.micro);
    assert_true(second.config == got.config && second.time == got.time && second.low == got.low &&
                second.high == got.high);
}

static void decisions_are_the_reference_s(void **state) {
    (void)state;
    static const artefact_limits limits[] = {
        {3, 40, 6, 16, 20, true},  {6, 12, 3, 16, 50, true},    {1, 5, 1, 3, 0, true},
        {3, 40, 6, 60, 20, false}, {6, 12, 250, 256, 5, false}, {2, 700, 2, 6, 0, false},
    };
    const int times = TEST_SANITIZED ? 6 : 25, problems = TEST_SANITIZED ? 100 : 400;
    tw_random r = tw_random_seed(12);
    share n = {0};
    fixture f = {0};
    for (int k = 0; k < times; k++)
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
            const tw_artefact *a = artefact_random(&f.arena, &r, &limits[i]);
            begin(&f, a);
            n.wide += f.s->view.record_words == SELECT_WIDE;
            for (int j = 0; j < problems; j++) decide_random(f.s, a, limits[i].plain, &r, &n);
            again(&f);
        }
    end(&f);
    const int all = times * problems * 6;
    assert_true(n.of[TW_SELECT_NONE] > all / 100 && n.of[TW_SELECT_DEFAULT] > all / 500);
    assert_true(n.of[TW_SELECT_MODEL] > all / 2 && n.of[TW_SELECT_EXACT] > all / 50);
    assert_true(n.second > all / 2000 && n.wide > 0 && n.plain > all / 5);
}

/* The reference refutes each decision but the right one. */
static void other_decisions_are_refuted(void **state) {
    (void)state;
    tw_random r = tw_random_seed(5);
    fixture f = {0};
    const tw_artefact *a = artefact_of_products(&f.arena, &r, 120, 40);
    begin(&f, a);
    for (int i = 0; i < 200; i++) {
        int64_t problem[TW_SELECT_AXES] = {0};
        tw_selection right;
        for (int x = 0; x < a->n_axes; x++) problem[x] = 1 + (int64_t)tw_random_below(&r, 8192);
        assert_int_equal(tw_select_choose(f.s, problem, 0, &right), TW_OK);
        assert_null(artefact_refute(a, problem, 0, &right));
        tw_selection s = right;
        s.source = TW_SELECT_DEFAULT;
        assert_non_null(artefact_refute(a, problem, 0, &s));
        s = right;
        s.micro = (right.micro + 1) % 4;
        assert_string_equal(artefact_refute(a, problem, 0, &s), "the micro choice is another");
        s = right;
        s.time *= 1.01;
        assert_string_equal(artefact_refute(a, problem, 0, &s), "the time is another");
        s = right;
        s.config = "tm=1";
        assert_string_equal(artefact_refute(a, problem, 0, &s), "the configuration's words are others");
        assert_string_equal(artefact_refute(a, problem, TW_SELECT_VENDOR_ONLY, &right),
                            "the macro choice is not allowed");
        /* The prediction is that of another macro choice. All else is right. */
        s = right;
        s.macro = (right.macro + 1 + (int)tw_random_below(&r, 119)) % 120;
        const artefact_prediction other = artefact_refer(a, s.macro, problem);
        s.time = other.time;
        s.micro = other.micro;
        const char *const why = artefact_refute(a, problem, 0, &s);
        assert_string_equal(why, other.time > right.time * 1.01 ? "another macro choice takes less"
                                                                : "the configuration's words are others");
    }
    end(&f);
}

/* Bounds leave few candidates. Without them a decision reads all records and takes several times as long. */
static void few_records_are_read(void **state) {
    (void)state;
    tw_random r = tw_random_seed(12);
    fixture f = {0};
    const tw_artefact *a = artefact_of_products(&f.arena, &r, 120, 40);
    share n = {0};
    double read = 0;
    int64_t problem[TW_SELECT_AXES] = {0};
    begin(&f, a);
    assert_true(f.s->map.size <= 100000);
    const int problems = 2000;
    for (int i = 0; i < problems; i++) {
        select_problem p;
        tw_selection got;
        for (int x = 0; x < 3; x++) problem[x] = 1 + (int64_t)tw_random_below(&r, 1ull << (6 + tw_random_below(&r, 8)));
        assert_int_equal(tw_select_choose(f.s, problem, 0, &got), TW_OK);
        expect(a, false, problem, 0, &got, &n);
        expect_same(f.s, problem, 0, &got);
        assert_true(select_problem_of(&f.s->view, problem, 0, &p));
        read += select_candidates(&f.s->view, &p);
    }
    assert_true(read / problems < 12);
    end(&f);
}

/* A scan writes n elements and nothing beyond them. */
static void a_scan_ends_where_it_should(void **state) {
    (void)state;
    tw_random r = tw_random_seed(13);
    fixture f = {0};
    static const float problem[TW_SELECT_AXES] = {1000, 900, 800, 1, 1, 1};
    select_scan s, before;
    select_corners corners;
    tw_artefact *products = artefact_of_products(&f.arena, &r, 120, 3);
    artefact_correct(&f.arena, &r, products);
    begin(&f, products);
    select_find_corners(&f.s->view, problem, &corners);
    assert_int_equal(corners.n, 8);
    select_scan_fn *const scans[] = {select_scan_c, f.s->view.scan};
    for (int k = 0; k < 2; k++)
        for (int n = 1; n < 100; n += 7) {
            memset(&s, 0x5a, sizeof s);
            before = s;
            scans[k](&f.s->view, problem, &corners, 8, n, &s);
            for (int i = 0; i < SELECT_BLOCK; i++) {
                const bool in = i < n;
                assert_true((s.grid[i] != before.grid[i]) == in && (s.rounds[i] != before.rounds[i]) == in);
                assert_true((s.low[i] != before.low[i]) == in && (s.high[i] != before.high[i]) == in);
                assert_true((s.factor[i] != before.factor[i]) == in);
            }
        }
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_are_the_reference_s),
        cmocka_unit_test(other_decisions_are_refuted),
        cmocka_unit_test(few_records_are_read),
        cmocka_unit_test(a_scan_ends_where_it_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
