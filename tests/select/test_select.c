/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions against a reference that predicts every macro choice by the definition, in double precision. */
#include "support/support.h"

#include "select/artefacts.h"
#include "select/selector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the reference */

typedef struct reference {
    bool known;         /* There is a prediction. */
    bool exact;         /* Of a fit of small whole numbers it is exact: all sums are below 2^53. */
    double time, slack; /* How far a time that is stored in 20 bits a coefficient may be from it. */
    int micro;
} reference;

static double parts_of(int64_t size, int64_t tile) {
    return tile ? (double)((size + tile - 1) / tile) : 1;
}

static int nearest(const tw_artefact_fit *f, double rounds) {
    int best = -1;
    double least = (double)INFINITY;
    for (int i = 0; i < f->n_anchors; i++) {
        const double apart = fabs((double)f->anchors[i].rounds - rounds);
        if (apart < least) best = f->anchors[i].micro;
        least = fmin(least, apart);
    }
    return best;
}

static reference refer(const tw_artefact *a, int macro, const int64_t *problem) {
    const tw_artefact_macro *m = &a->macros[macro];
    double g = m->times ? (double)m->times : 1, l = 1;
    for (int x = 0; x < a->n_axes; x++) {
        g *= parts_of(problem[x], m->grid[x]);
        l *= parts_of(problem[x], m->rounds[x]);
    }
    if (!m->n_fits) return (reference){0};
    const double waves = ceil(g / (double)m->slots);
    const int fit = (waves < m->n_fits ? (int)waves : m->n_fits) - 1;
    const tw_artefact_fit *f = &m->fits[fit];
    const double c[4] = {(double)f->c[0], (double)f->c[1], (double)f->c[2], (double)f->c[3]};
    const double before = (double)fit * (double)m->slots;
    reference r = {.time = c[0] * g * l + c[1] * g + c[2] * l + c[3], .micro = nearest(f, l)};
    r.slack = (fabs(c[0] * l * (g - before)) + fabs(c[1] * (g - before)) + fabs((c[2] + c[0] * before) * l) +
               fabs(c[3] + c[1] * before)) *
              2.45e-4;
    r.known = f->n_anchors && r.time > 0;
    r.exact = g * l < 0x1p40 && g < 0x1p30;
    return r;
}

static bool computes(const tw_artefact *a, int macro, const int64_t *problem) {
    const tw_artefact_macro *m = &a->macros[macro];
    for (int x = 0; x < a->n_axes; x++) {
        if (m->multiple[x] && problem[x] % m->multiple[x] != 0) return false;
        if (problem[x] < m->least[x]) return false;
        if (m->most[x] && problem[x] > m->most[x]) return false;
    }
    return true;
}

static bool may(const tw_artefact *a, int macro, const int64_t *problem, unsigned flags) {
    const unsigned p = a->macros[macro].properties;
    return computes(a, macro, problem) && !(flags & TW_SELECT_DETERMINISTIC && p & TW_MACRO_ATOMIC) &&
           !(flags & TW_SELECT_NO_WORKSPACE && p & TW_MACRO_WORKSPACE) &&
           !(flags & TW_SELECT_OWN_ONLY && p & TW_MACRO_VENDOR) &&
           !(flags & TW_SELECT_VENDOR_ONLY && !(p & TW_MACRO_VENDOR));
}

static const tw_artefact_exact *listed(const tw_artefact *a, const int64_t *problem) {
    for (int i = 0; i < a->n_exact; i++)
        if (!memcmp(a->exact[i].problem, problem, (size_t)a->n_axes * sizeof *problem)) return &a->exact[i];
    return NULL;
}

/* ---- files */

typedef struct fixture {
    tw_arena arena;
    char *folder, path[512];
    tw_selector *s;
} fixture;

static void begin(fixture *f, const tw_artefact *a) {
    tw_diag d = {0};
    if (!f->folder) f->folder = test_folder_make();
    snprintf(f->path, sizeof f->path, "%s/a.tws", f->folder);
    if (tw_artefact_write(a, f->path, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_selector_open(&f->s, f->path, &d) != TW_OK) fail_msg("%s", d.message);
}

static void again(fixture *f) {
    tw_selector_close(f->s);
    tw_arena_free(&f->arena);
    f->s = NULL;
}

static void end(fixture *f) {
    again(f);
    test_folder_remove(f->folder);
}

/* ---- random artefacts */

typedef struct share {
    int of[TW_SELECT_EXACT + 1], wide, second, plain;
} share;

static void same_config(const tw_artefact *a, const tw_selection *s) {
    char config[200];
    const tw_artefact_macro *m = &a->macros[s->macro];
    const char *micro = m->micros[s->micro];
    snprintf(config, sizeof config, "%s%s%s", m->config, *micro ? " " : "", micro);
    assert_string_equal(s->config, config);
}

static void expect_exact(const tw_artefact *a, const tw_artefact_exact *e, const int64_t *problem, unsigned flags,
                         const tw_selection *s, share *n) {
    const bool first = may(a, e->macro, problem, flags);
    assert_int_equal(s->source, TW_SELECT_EXACT);
    assert_int_equal(s->macro, first ? e->macro : e->second_macro);
    assert_int_equal(s->micro, first ? e->micro : e->second_micro);
    assert_true(s->time == (first ? e->time : e->second_time) && s->low == s->time && s->high == s->time);
    n->second += !first;
}

static void expect_interval(const tw_artefact *a, const int64_t *problem, const tw_selection *s) {
    const tw_artefact_macro *m = &a->macros[s->macro];
    double g = m->times ? (double)m->times : 1;
    for (int x = 0; x < a->n_axes; x++) g *= parts_of(problem[x], m->grid[x]);
    const double waves = ceil(g / (double)m->slots),
                 error = m->fits[(waves < m->n_fits ? (int)waves : m->n_fits) - 1].error;
    /* An error is rounded up by a sixteenth at most. */
    assert_true(s->high >= s->time * (1 + error) * (1 - 1e-6));
    assert_true(s->high <= s->time * (1 + error * 1.0625 + 0.00025) * (1 + 1e-6));
    const double low = 2 * s->time - s->high;
    assert_true(fabs(s->low - (low > 0 ? low : 0)) <= 1e-6 * s->time);
}

static void expect(const tw_artefact *a, bool plain, const int64_t *problem, unsigned flags, const tw_selection *s,
                   share *n) {
    const tw_artefact_exact *e = listed(a, problem);
    n->of[s->source]++;
    if (s->source != TW_SELECT_NONE) same_config(a, s);
    if (e && (may(a, e->macro, problem, flags) || (e->second_macro >= 0 && may(a, e->second_macro, problem, flags)))) {
        expect_exact(a, e, problem, flags, s, n);
        return;
    }
    int best = -1;
    reference least = {.time = (double)INFINITY};
    double bound = (double)INFINITY;
    for (int i = 0; i < a->n_macros; i++) {
        const reference r = refer(a, i, problem);
        if (!r.known || !may(a, i, problem, flags)) continue;
        if (r.time < least.time) {
            best = i;
            least = r;
        }
        plain = plain && r.exact;
        bound = fmin(bound, r.time + r.slack);
    }
    n->plain += plain;
    if (best < 0 || (s->source != TW_SELECT_MODEL && !plain && least.slack > least.time)) {
        const bool allowed = may(a, a->macro, problem, flags);
        assert_int_equal(s->source, allowed ? TW_SELECT_DEFAULT : TW_SELECT_NONE);
        assert_int_equal(s->macro, allowed ? a->macro : -1);
        assert_int_equal(s->micro, allowed ? a->micro : -1);
        assert_true(s->time == 0 && s->low == 0 && s->high == 0);
        return;
    }
    assert_int_equal(s->source, TW_SELECT_MODEL);
    const reference got = refer(a, s->macro, problem);
    assert_true(may(a, s->macro, problem, flags));
    if (plain) {
        assert_int_equal(s->macro, best);
        assert_true(s->time == least.time);
    }
    assert_true(fabs(s->time - got.time) <= got.slack);
    assert_true(got.time - got.slack <= bound);
    assert_int_equal(s->micro, got.micro);
    expect_interval(a, problem, s);
}

/* The same whichever instructions compute it, and as all predictions in order say. */
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
    tw_random r = tw_random_seed(11);
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

/* Bounds leave few: else a decision reads all records, and takes several times as long. */
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

/* ---- one thing at a time */

static const tw_artefact_anchor first_micro[] = {{1, 0}};

static tw_artefact small(const tw_artefact_macro *m, int n) {
    return (tw_artefact){.kernel = "k",
                         .unit = "us",
                         .device = "the device",
                         .alike = "its like",
                         .architecture = "its kind",
                         .about = "{}",
                         .axes = {"m", "k"},
                         .n_axes = 2,
                         .macros = m,
                         .n_macros = n};
}

static const char *const micros[] = {"a", "b", "c"};

static tw_artefact_macro constant(const char *name, tw_artefact_fit *f, double time) {
    *f = (tw_artefact_fit){.c = {0, 0, 0, (float)time}, .anchors = first_micro, .n_anchors = 1};
    return (tw_artefact_macro){.config = name, .slots = 1, .micros = micros, .n_micros = 3, .fits = f, .n_fits = 1};
}

static tw_selection ask(const tw_selector *s, int64_t m, int64_t k, unsigned flags) {
    tw_selection out;
    (void)tw_select_choose(s, (int64_t[]){m, k}, flags, &out);
    return out;
}

static void waves_end_where_slots_are_full(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fits[4];
    for (int i = 0; i < 4; i++)
        fits[i] = (tw_artefact_fit){
            .c = {0, 0, 0, (float)(100 + i)}, .anchors = first_micro, .n_anchors = 1, .samples = i, .error = 0.25};
    const tw_artefact_macro m = {.config = "only",
                                 .grid = {1},
                                 .rounds = {0, 1},
                                 .times = 2,
                                 .slots = 20,
                                 .micros = micros,
                                 .n_micros = 1,
                                 .fits = fits,
                                 .n_fits = 4};
    const tw_artefact a = small(&m, 1);
    begin(&f, &a);
    static const struct {
        int64_t m;
        double time;
    } cases[] = {{1, 100},  {9, 100},  {10, 100}, {11, 101}, {20, 101},   {21, 102},
                 {30, 102}, {31, 103}, {40, 103}, {41, 103}, {1000, 103}, {TW_SELECT_MOST, 103}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(ask(f.s, cases[i].m, 1, 0).time == cases[i].time);
    const tw_selection s = ask(f.s, 1, 1, 0);
    assert_true(s.low == 75 && s.high == 125);
    end(&f);
}

static void the_nearest_anchor_has_the_micro_choice(void **state) {
    (void)state;
    fixture f = {0};
    static const tw_artefact_anchor some[] = {{10, 2}, {20, 1}, {40, 0}}, others[] = {{4, 1}, {26, 2}};
    const tw_artefact_fit fits[] = {{.c = {0, 0, 0, 5}, .anchors = some, .n_anchors = 3},
                                    {.c = {0, 0, 0, 5}, .anchors = others, .n_anchors = 2}};
    const tw_artefact_macro m = {.config = "",
                                 .grid = {1},
                                 .rounds = {0, 1},
                                 .slots = 1,
                                 .micros = micros,
                                 .n_micros = 3,
                                 .fits = fits,
                                 .n_fits = 2};
    const tw_artefact a = small(&m, 1);
    begin(&f, &a);
    static const struct {
        int64_t m, l;
        int micro;
    } cases[] = {{1, 1, 2}, {1, 15, 2}, {1, 16, 1}, {1, 30, 1}, {1, 31, 0},  {1, TW_SELECT_MOST, 0},
                 {2, 1, 1}, {2, 15, 1}, {2, 16, 2}, {2, 20, 2}, {2, 1000, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tw_selection s = ask(f.s, cases[i].m, cases[i].l, 0);
        assert_int_equal(s.micro, cases[i].micro);
        assert_string_equal(s.config, micros[cases[i].micro]); /* Words of a macro choice may be empty. */
    }
    end(&f);
}

/* G = 2^26 is more than floats tell apart. A bound for fewer blocks would leave the better one out. */
static void bounds_end_where_floats_do(void **state) {
    (void)state;
    fixture f = {0};
    const tw_artefact_fit fits[] = {{.c = {0, 1, 0, 0}, .anchors = first_micro, .n_anchors = 1},
                                    {.c = {0, 1, 0, 3e7f}, .anchors = first_micro, .n_anchors = 1}};
    tw_artefact_macro m[] = {{.config = "many", .grid = {1}, .times = 4, .slots = 1},
                             {.config = "few", .grid = {65535}, .slots = 1}};
    for (int i = 0; i < 2; i++) {
        m[i].micros = micros;
        m[i].n_micros = m[i].n_fits = 1;
        m[i].fits = &fits[i];
    }
    const tw_artefact a = small(m, 2);
    begin(&f, &a);
    assert_int_equal(ask(f.s, TW_SELECT_MOST, 1, 0).macro, 1);
    assert_int_equal(ask(f.s, 1 << 20, 1, 0).macro, 0);
    end(&f);
}

/* 100 L - 399.99 is 0.01 at L = 4: no 20 bits hold it, so this artefact has floats. */
static void what_cancels_is_kept_in_floats(void **state) {
    (void)state;
    fixture f = {0};
    static const tw_artefact_anchor from_four[] = {{4, 0}, {8, 0}};
    const tw_artefact_fit fit = {.c = {0, 0, 100, -399.99f}, .anchors = from_four, .n_anchors = 2};
    const tw_artefact_macro m = {
        .config = "", .rounds = {0, 1}, .slots = 1, .micros = micros, .n_micros = 1, .fits = &fit, .n_fits = 1};
    const tw_artefact a = small(&m, 1);
    begin(&f, &a);
    assert_int_equal(f.s->view.record_words, SELECT_WIDE);
    assert_true(fabs(ask(f.s, 1, 4, 0).time - 0.01) < 1e-4);
    assert_int_equal(ask(f.s, 1, 3, 0).source, TW_SELECT_DEFAULT);
    end(&f);
}

static void of_equal_ones_the_first_is_taken(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fits[3];
    const tw_artefact_macro m[] = {constant("slow", &fits[0], 8), constant("one", &fits[1], 7),
                                   constant("other", &fits[2], 7)};
    const tw_artefact a = small(m, 3);
    tw_selection best[5];
    begin(&f, &a);
    assert_string_equal(ask(f.s, 1, 1, 0).config, "one a");
    assert_int_equal(tw_select_best(f.s, (int64_t[]){1, 1}, 0, 5, best), 3);
    assert_int_equal(best[0].macro, 1);
    assert_int_equal(best[1].macro, 2);
    assert_int_equal(best[2].macro, 0);
    assert_int_equal(tw_select_best(f.s, (int64_t[]){1, 1}, 0, 2, best), 2);
    assert_int_equal(best[1].macro, 2);
    assert_int_equal(tw_select_best(f.s, (int64_t[]){1, 1}, 0, 0, best), 0);
    assert_int_equal(tw_select_best(f.s, (int64_t[]){0, 1}, 0, 2, best), -1);
    end(&f);
}

static void flags_leave_out(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fits[4];
    tw_artefact_macro m[] = {constant("atomic", &fits[0], 1), constant("vendor", &fits[1], 2),
                             constant("workspace", &fits[2], 3), constant("plain", &fits[3], 4)};
    m[0].properties = TW_MACRO_ATOMIC;
    m[1].properties = TW_MACRO_VENDOR;
    m[2].properties = TW_MACRO_WORKSPACE;
    const tw_artefact a = small(m, 4);
    begin(&f, &a);
    enum { D = TW_SELECT_DETERMINISTIC, N = TW_SELECT_NO_WORKSPACE, O = TW_SELECT_OWN_ONLY, V = TW_SELECT_VENDOR_ONLY };
    static const int expected[16] = {
        [0] = 0,      [D] = 1,          [N] = 0,          [D | N] = 1,         [O] = 0,     [D | O] = 2,
        [N | O] = 0,  [D | N | O] = 3,  [V] = 1,          [V | D] = 1,         [V | N] = 1, [V | D | N] = 1,
        [V | O] = -1, [V | O | D] = -1, [V | O | N] = -1, [V | O | D | N] = -1};
    for (int twice = 0; twice < 2; twice++)
        for (unsigned flags = 0; flags < 16; flags++) assert_int_equal(ask(f.s, 5, 5, flags).macro, expected[flags]);
    tw_selection s;
    assert_int_equal(tw_select_choose(f.s, (int64_t[]){1, 1}, 16, &s), TW_ERR_USAGE);
    assert_int_equal(s.source, TW_SELECT_NONE);
    assert_int_equal(tw_select_choose(f.s, (int64_t[]){1, 1}, V | O, &s), TW_ERR_UNSUPPORTED);
    assert_true(!s.config && s.macro == -1 && s.micro == -1 && !s.remembered);
    end(&f);
}

static void rules_leave_out(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fits[4];
    tw_artefact_macro m[] = {constant("multiple", &fits[0], 1), constant("least", &fits[1], 2),
                             constant("most", &fits[2], 3), constant("any", &fits[3], 4)};
    m[0].multiple[1] = 8;
    m[1].least[0] = 100;
    m[2].most[0] = 50;
    const tw_artefact a = small(m, 4);
    begin(&f, &a);
    static const struct {
        int64_t m, k;
        int macro;
    } cases[] = {{1, 8, 0}, {1, 16, 0}, {1, 7, 2}, {1, 12, 2}, {50, 1, 2}, {51, 1, 3}, {99, 1, 3}, {100, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(ask(f.s, cases[i].m, cases[i].k, 0).macro, cases[i].macro);
    end(&f);
}

static void axes_have_limits(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fit;
    const tw_artefact_macro m = constant("only", &fit, 1);
    const tw_artefact a = small(&m, 1);
    begin(&f, &a);
    static const int64_t wrong[] = {0, -1, TW_SELECT_MOST + 1, INT64_MAX, INT64_MIN, (int64_t)1 << 32 | 1};
    tw_selection s;
    tw_select_explanation e;
    char text[300];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int x = 0; x < 2; x++) {
            int64_t problem[2] = {1, 1};
            problem[x] = wrong[i];
            assert_int_equal(tw_select_choose(f.s, problem, 0, &s), TW_ERR_USAGE);
            assert_int_equal(s.source, TW_SELECT_NONE);
            assert_int_equal(tw_select_explain(f.s, problem, 0, TW_SELECT_SAME, &e), TW_ERR_USAGE);
            assert_int_equal(tw_select_explain_text(f.s, problem, 0, TW_SELECT_SAME, text, sizeof text), TW_ERR_USAGE);
            assert_non_null(strstr(text, "choice: none"));
        }
    assert_int_equal(tw_select_choose(f.s, (int64_t[]){1, TW_SELECT_MOST}, 0, &s), TW_OK);
    end(&f);
}

static void the_default_is_last(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fits[2];
    tw_artefact_macro m[] = {constant("negative", &fits[0], -1), constant("none", &fits[1], 1)};
    m[1].n_fits = 0;
    m[1].properties = TW_MACRO_VENDOR;
    m[1].most[0] = 9;
    tw_artefact a = small(m, 2);
    a.macro = 1;
    a.micro = 2;
    begin(&f, &a);
    const tw_selection s = ask(f.s, 9, 1, 0);
    assert_int_equal(s.source, TW_SELECT_DEFAULT);
    assert_string_equal(s.config, "none c");
    assert_true(s.time == 0);
    assert_int_equal(ask(f.s, 10, 1, 0).source, TW_SELECT_NONE);
    assert_int_equal(ask(f.s, 9, 1, TW_SELECT_OWN_ONLY).source, TW_SELECT_NONE);
    end(&f);
}

static void many_problems_are_listed(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fits[2];
    const tw_artefact_macro m[] = {constant("one", &fits[0], 5), constant("other", &fits[1], 6)};
    tw_artefact a = small(m, 2);
    enum { SIDE = 100 };
    tw_artefact_exact *e = calloc(SIDE * SIDE, sizeof *e);
    assert_non_null(e);
    for (int i = 0; i < SIDE * SIDE; i++) {
        e[i] = (tw_artefact_exact){.macro = i % 2, .micro = i % 3, .time = 1 + i, .second_macro = -1};
        e[i].problem[0] = 2 * (1 + i / SIDE);
        e[i].problem[1] = 3 * (1 + i % SIDE);
    }
    a.exact = e;
    a.n_exact = SIDE * SIDE;
    begin(&f, &a);
    for (int64_t x = 1; x <= 2 * SIDE; x++)
        for (int64_t y = 1; y <= 3 * SIDE; y++) {
            const tw_selection s = ask(f.s, x, y, 0);
            const int64_t i = (x / 2 - 1) * SIDE + y / 3 - 1;
            const bool there = x % 2 == 0 && y % 3 == 0;
            assert_int_equal(s.source, there ? TW_SELECT_EXACT : TW_SELECT_MODEL);
            assert_true(s.time == (there ? (double)(1 + i) : 5));
            if (there) assert_true(s.macro == i % 2 && s.micro == i % 3);
        }
    free(e);
    end(&f);
}

static void it_says_what_it_is_of(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fit;
    const tw_artefact_macro m = constant("only", &fit, 1);
    const tw_artefact a = small(&m, 1);
    tw_selector_info i;
    begin(&f, &a);
    tw_selector_describe(f.s, &i);
    assert_string_equal(i.kernel, "k");
    assert_string_equal(i.unit, "us");
    assert_string_equal(i.device, "the device");
    assert_string_equal(i.alike, "its like");
    assert_string_equal(i.architecture, "its kind");
    assert_string_equal(i.about, "{}");
    assert_string_equal(i.axes[0], "m");
    assert_string_equal(i.axes[1], "k");
    assert_true(!i.axes[2] && i.n_axes == 2 && i.macros == 1 && i.exact == 0 && i.bytes == f.s->map.size);
    assert_int_equal(tw_selector_match(f.s, "the device", "x", "y"), TW_SELECT_SAME);
    assert_int_equal(tw_selector_match(f.s, "x", "its like", "y"), TW_SELECT_ALIKE);
    assert_int_equal(tw_selector_match(f.s, "x", "y", "its kind"), TW_SELECT_ARCHITECTURE);
    assert_int_equal(tw_selector_match(f.s, "x", "y", "z"), TW_SELECT_OTHER);
    assert_string_equal(tw_select_match_name(TW_SELECT_ALIKE), "alike");
    assert_string_equal(tw_select_source_name(TW_SELECT_EXACT), "exact");
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_are_the_reference_s),
        cmocka_unit_test(few_records_are_read),
        cmocka_unit_test(waves_end_where_slots_are_full),
        cmocka_unit_test(the_nearest_anchor_has_the_micro_choice),
        cmocka_unit_test(of_equal_ones_the_first_is_taken),
        cmocka_unit_test(bounds_end_where_floats_do),
        cmocka_unit_test(what_cancels_is_kept_in_floats),
        cmocka_unit_test(flags_leave_out),
        cmocka_unit_test(rules_leave_out),
        cmocka_unit_test(axes_have_limits),
        cmocka_unit_test(the_default_is_last),
        cmocka_unit_test(many_problems_are_listed),
        cmocka_unit_test(it_says_what_it_is_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
