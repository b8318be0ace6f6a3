/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning sessions and their reports, on a family whose times are known. */
#include "tune/toy_store.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "tune/regime.h"
#include "tune/report.h"

static const tw_session_options usual = {.campaign = TOY_CAMPAIGN, .problems = 12, .seed = 7, .artefact = artefact};

static void run(tw_session *out, const toy *t, const tw_session_options *o) {
    tw_diag d;
    tw_store *s = open_store();
    if (tw_session_run(out, &t->family, s, o, &d) != TW_OK) fail_msg("%s", d.message);
    tw_store_close(s);
}

static void sessions_end_with_judged_choices(void **state) {
    (void)state;
    toy t;
    tw_session s;
    toy_open(&t);
    run(&s, &t, &usual);
    assert_true(tw_file_exists(artefact) && s.artefact_bytes > 0 && !s.interrupted);
    assert_true(s.n == 12 && s.without == 0 && s.trained.share > 0.9);
    const tw_session_summary chosen = tw_session_summarise(&t.family, &s, s.select, 0),
                             usual_one = tw_session_summarise(&t.family, &s, 0, 0),
                             oracle = tw_session_summarise(&t.family, &s, TW_SESSION_ORACLE, 0);
    assert_string_equal(s.problems[0].result.of[s.select].name, "select");
    assert_true(chosen.n == 12 && chosen.mean > 0.9 && chosen.worst <= chosen.low5 && chosen.worst <= chosen.low1);
    assert_true(chosen.over > 2 && fabs(usual_one.over - 1) < 1e-12 && oracle.over >= chosen.over);
    assert_true(fabs(oracle.mean - 1) < 1e-12 && fabs(oracle.over * usual_one.mean - 1) < 1e-9);
    assert_true(s.decisions.first > 0 && s.decisions.again > 0 && s.decisions.forms[2] > 0);
    for (int i = 0; i < s.n; i++) {
        const tw_evaluated *of = &s.problems[i].result.of[s.select];
        assert_true(fabs(s.problems[i].predicted / of->time - 1) < 0.5);
    }
    tw_session_free(&s);
}

/* The fastest configuration of a vendor is measured with the finalists, although it is none of them. */
static void vendors_are_judged_apart(void **state) {
    (void)state;
    toy t;
    tw_session s;
    tw_artefact_macro macros[TOY_MACROS];
    toy_open(&t);
    memcpy(macros, toy_macros, sizeof macros);
    macros[3].properties = TW_MACRO_VENDOR;
    t.family.macros = macros;
    run(&s, &t, &usual);
    for (int i = 0; i < s.n; i++) {
        const tw_evaluation *e = &s.problems[i].result;
        double least = (double)INFINITY;
        for (int m = 0; m < 3; m++) {
            char config[200];
            tw_family_config(&t.family, 3, m, config, sizeof config);
            least = fmin(least, toy_time(&t.family, config, e->problem));
        }
        assert_true(e->vendor == least && e->vendor > e->time);
    }
    const tw_session_summary vendor = tw_session_summarise(&t.family, &s, TW_SESSION_VENDOR, 0);
    assert_true(vendor.n == s.n && vendor.mean < 0.5 && vendor.over >= 1);
    tw_session_free(&s);
}

static void regimes_are_summarised_apart(void **state) {
    (void)state;
    toy t;
    tw_session s;
    toy_open(&t);
    run(&s, &t, &usual);
    for (int r = 0; r < TW_REGIMES; r++) {
        int n = 0;
        double worst = 1;
        for (int i = 0; i < s.n; i++) {
            const tw_evaluation *e = &s.problems[i].result;
            if (!(tw_regimes_of(&t.family, e->problem) & 1u << r)) continue;
            n++;
            worst = fmin(worst, e->of[s.select].share);
        }
        const tw_session_summary of = tw_session_summarise(&t.family, &s, s.select, 1u << r);
        assert_true(of.n == n && (!n || fabs(of.worst - worst) < 1e-12));
    }
    tw_session_free(&s);
}

typedef struct key_list {
    char keys[4000][200];
    int n;
} key_list;

static tw_status take_key(void *context, const tw_measurement *m, tw_diag *diag) {
    key_list *l = context;
    (void)diag;
    assert_true(l->n < 4000);
    snprintf(l->keys[l->n++], sizeof *l->keys, "%s", m->key);
    return TW_OK;
}

/* Reads the keys of all measurements of the store. The next call overwrites the result. */
static const key_list *read_keys(void) {
    static key_list l;
    tw_store *s = open_store();
    l.n = 0;
    assert_int_equal(tw_store_read(s, NULL, take_key, &l, NULL, NULL), TW_OK);
    tw_store_close(s);
    return &l;
}

static bool measured_by_campaign(const key_list *l, const char *problem) {
    char screen[300], point[300];
    snprintf(screen, sizeof screen, "tune|screen|%s|", problem);
    snprintf(point, sizeof point, "tune|points|%s|", problem);
    for (int i = 0; i < l->n; i++)
        if (!strncmp(l->keys[i], screen, strlen(screen)) || !strncmp(l->keys[i], point, strlen(point))) return true;
    return false;
}

/* No evaluated problem is one of the campaign, though there are so few that the campaign's would be drawn again. */
static void problems_are_held_out(void **state) {
    (void)state;
    toy t;
    tw_session s;
    tw_session_options o = usual;
    toy_open(&t);
    t.family.least[0] = 64;
    t.family.most[0] = 66;
    t.family.least[1] = t.family.most[1] = 64;
    t.family.least[2] = 64;
    t.family.most[2] = 128;
    o.problems = 30;
    run(&s, &t, &o);
    const key_list *keys = read_keys();
    assert_true(s.n > 0 && s.n < 9);
    for (int i = 0; i < s.n; i++) {
        char words[200];
        tw_family_print(&t.family, s.problems[i].result.problem, words, sizeof words);
        if (measured_by_campaign(keys, words)) fail_msg("%s is not held out", words);
        for (int k = 0; k < i; k++)
            assert_true(memcmp(s.problems[i].result.problem, s.problems[k].result.problem, sizeof(int64_t[3])) != 0);
    }
    tw_session_free(&s);
}

/* A session that is run again measures nothing, and has the same results. */
static void sessions_go_on(void **state) {
    (void)state;
    toy t;
    tw_session first, again;
    tw_session_options o = usual;
    toy_open(&t);
    o.interrupted = toy_interrupted;
    o.context = &t;
    int runs = 0;
    for (bool ended = false; !ended; runs++) {
        t.end = runs ? 101 : 17;
        assert_true(runs < 100);
        run(&first, &t, &o);
        ended = !first.interrupted;
        /* The first session is interrupted before it trains. */
        if (!runs) assert_true(!ended && !tw_file_exists(artefact));
        if (!ended) tw_session_free(&first);
    }
    assert_true(runs > 5);
    const int before = t.measured;
    t.end = -1;
    run(&again, &t, &o);
    assert_int_equal(t.measured, before);
    assert_true(again.campaign.measured == 0 && again.campaign.had > 0);
    assert_int_equal(again.n, first.n);
    for (int i = 0; i < again.n; i++) {
        const tw_evaluation *a = &first.problems[i].result, *b = &again.problems[i].result;
        assert_memory_equal(a->problem, b->problem, sizeof a->problem);
        assert_true(a->time == b->time && a->of[1].time == b->of[1].time);
    }
    assert_int_equal(read_keys()->n, t.measured);
    tw_session_free(&first);
    tw_session_free(&again);
}

/* With a budget the default's rate bounds the work of a problem. The rate is measured once. */
static void budgets_limit_the_work(void **state) {
    (void)state;
    toy t;
    tw_session s;
    tw_session_options o = usual;
    toy_open(&t);
    o.seconds = 20;
    run(&s, &t, &o);
    const double most = s.most_work;
    /* The campaign uses the time that is left to screen more problems. */
    assert_true(s.trained.problems == 64 && !s.campaign.cut);
    assert_true(most > 0 && most < 2.0 * 512 * 512 * 2048);
    for (int i = 0; i < s.n; i++) assert_true(tw_family_work(&t.family, s.problems[i].result.problem) <= most);
    tw_session_free(&s);
    const int before = t.measured;
    run(&s, &t, &o);
    assert_true(t.measured == before && s.most_work == most);
    tw_session_free(&s);
    /* On a shared device measuring has half of the budget in place of seven tenths. */
    t.family.shared = true;
    run(&s, &t, &o);
    assert_true(fabs(s.most_work / most - 0.5 / 0.7) < 1e-9);
    tw_session_free(&s);
    t.family.shared = false;
    /* A budget that is over at once leaves nothing to learn from. */
    tw_diag d;
    o.seconds = 1e-6;
    o.campaign.name = "late";
    tw_store *store = open_store();
    assert_int_equal(tw_session_run(&s, &t.family, store, &o, &d), TW_ERR_USAGE);
    assert_non_null(strstr(d.message, "give it more seconds"));
    tw_store_close(store);
    tw_session_free(&s);
}

/* Counts the problems of a phase, whose measurements follow each other. */
static int count_problems(const key_list *l, const char *phase) {
    char start[100], last[200] = "";
    int n = 0;
    snprintf(start, sizeof start, "tune|%s|", phase);
    for (int i = 0; i < l->n; i++) {
        if (strncmp(l->keys[i], start, strlen(start)) != 0) continue;
        char problem[200];
        snprintf(problem, sizeof problem, "%.*s", (int)strcspn(l->keys[i] + strlen(start), "|"),
                 l->keys[i] + strlen(start));
        n += strcmp(problem, last) != 0;
        snprintf(last, sizeof last, "%s", problem);
    }
    return n;
}

/* If the device's speed varies, a session uses the time that is left for more problems, and not for more configurations
   of the problems that it has measured. */
static void problems_are_measured_at_once_where_speed_varies(void **state) {
    (void)state;
    toy t;
    tw_session s;
    tw_session_options o = usual;
    toy_open(&t);
    t.family.shared = true;
    t.end = 1500;
    o.seconds = 1000;
    o.interrupted = toy_interrupted;
    o.context = &t;
    o.campaign = (tw_campaign_options){
        .name = "tune", .screens = 6, .thorough = true, .cover = 6, .spread = 12, .samples = 2, .seed = 1};
    run(&s, &t, &o);
    const key_list *keys = read_keys();
    assert_int_equal(count_problems(keys, TW_TRIALS_SCREENS), 6);
    assert_true(count_problems(keys, TW_TRIALS_SPREAD) > 200);
    tw_session_free(&s);
}

typedef struct telling {
    int told[3];
    double left;
} telling;

static void tell(void *context, const tw_session_progress *p) {
    telling *t = context;
    t->told[p->phase]++;
    t->left = p->left;
    assert_true(p->left >= 0 && p->seconds >= 0 && p->problems <= p->planned);
    assert_true(p->phase != TW_SESSION_EVALUATING || !p->problems || (p->share > 0.5 && p->share <= 1));
}

static void progress_is_told(void **state) {
    (void)state;
    toy t;
    tw_session s;
    telling told = {.left = -1};
    tw_session_options o = usual;
    toy_open(&t);
    o.progress = tell;
    o.context = &told;
    run(&s, &t, &o);
    assert_true(told.told[TW_SESSION_MEASURING] == (int)s.campaign.jobs && told.told[TW_SESSION_TRAINING] == 1);
    assert_int_equal(told.told[TW_SESSION_EVALUATING], 13);
    assert_true(told.left == 0);
    tw_session_free(&s);
}

static void regimes_are_defined_once(void **state) {
    (void)state;
    toy t;
    toy_open(&t);
    static const struct {
        int64_t problem[3];
        unsigned regimes;
    } cases[] = {{{64, 512, 512}, TW_REGIME_SKINNY},
                 {{64, 448, 448}, 0},
                 {{512, 64, 1024}, TW_REGIME_SKINNY | TW_REGIME_DEEP},
                 {{256, 128, 511}, TW_REGIME_SQUARE},
                 {{256, 128, 512}, TW_REGIME_SQUARE | TW_REGIME_DEEP},
                 {{65, 128, 64}, TW_REGIME_SQUARE | TW_REGIME_RAGGED},
                 {{64, 136, 64}, TW_REGIME_RAGGED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(tw_regimes_of(&t.family, cases[i].problem), cases[i].regimes);
    assert_string_equal(tw_regime_name(3), "ragged");
    for (int i = 0; i < TW_REGIMES; i++) assert_true(*tw_regime_meaning(i) != 0);
}

/* Returns the points of a series of a plot of the page. */
static const json_t *points_of(const json_t *data, const char *plot, const char *series) {
    size_t i, k;
    const json_t *p, *s;
    json_array_foreach(json_object_get(data, "plots"), i, p) {
        if (strcmp(json_string_value(json_object_get(p, "title")), plot) != 0) continue;
        json_array_foreach(
            json_object_get(p, "series"), k,
            s) if (!strcmp(json_string_value(json_object_get(s, "name")), series)) return json_object_get(s, "points");
    }
    fail_msg("no series %s in a plot %s", series, plot);
    return NULL;
}

static double x_of(const json_t *points, size_t i) {
    return json_number_value(json_object_get(json_array_get(points, i), "x"));
}

static double y_of(const json_t *points, size_t i) {
    return json_number_value(json_object_get(json_array_get(points, i), "y"));
}

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-5 * fabs(b);
}

static void check_plots(const char *page_text, const tw_family *f, const tw_session *s) {
    static const char begin[] = "id=\"data\">";
    const char *from = strstr(page_text, begin) + strlen(begin);
    const int select = s->select;
    json_t *data;
    tw_diag d;
    if (tw_json_parse(&data, from, (size_t)(strstr(from, "</script>") - from), "data", -1, &d) != TW_OK)
        fail_msg("%s", d.message);
    const json_t *regret = points_of(data, "Regret", "default");
    const size_t last = json_array_size(regret) - 1;
    assert_int_equal(last, s->n);
    assert_true(near(x_of(regret, last), (1 / tw_session_summarise(f, s, 0, 0).worst - 1) * 100));
    assert_true(y_of(regret, 0) == 0 && near(y_of(regret, 1), 100.0 / s->n) && y_of(regret, last) == 100);
    const json_t *speed = points_of(data, "Speed over the default, by problem", "select");
    const json_t *predicted = points_of(data, "Predicted and measured", "held-out problems");
    const json_t *bars = points_of(data, "Speed over the default", "speed over the default");
    for (size_t i = 0; i < (size_t)s->n; i++) {
        const tw_evaluation *e = &s->problems[i].result;
        assert_true(near(x_of(speed, i), tw_family_work(f, e->problem) * 1e-9));
        assert_true(near(y_of(speed, i), e->of[0].time / e->of[select].time));
        assert_true(near(x_of(predicted, i), e->of[select].time) && near(y_of(predicted, i), s->problems[i].predicted));
    }
    for (int i = 0; i < s->problems[0].result.n; i++) {
        const char *name = s->problems[0].result.of[i].name;
        char way[64];
        if (strcmp(name, "wave") != 0 && strcmp(name, "step") != 0) continue;
        snprintf(way, sizeof way, "%s form, in memory", name);
        const json_t *at = points_of(data, "Speed against the time to decide", way);
        assert_true(near(y_of(at, 0), tw_session_summarise(f, s, i, 0).over) && x_of(at, 0) > 0);
    }
    assert_true(y_of(bars, 0) == 1 && near(y_of(bars, (size_t)select), tw_session_summarise(f, s, select, 0).over));
    json_decref(data);
}

static void reports_say_what_sessions_found(void **state) {
    (void)state;
    toy t;
    tw_session s;
    tw_diag d;
    tw_buf text = {0};
    toy_open(&t);
    t.wrong = "tile=32 stages=8";
    run(&s, &t, &usual);
    tw_store *store = open_store();
    tw_tune_report r = {.family = &t.family,
                        .session = &s,
                        .store = store,
                        .campaign = "tune",
                        .artefact = artefact,
                        .command = "tilewright tune toy",
                        .date = "2026-01-01",
                        .plots = "var Chart;"};
    /* The report of a model of configurations lacks the forms by waves, and tells its samples otherwise. */
    tw_session spline = s;
    spline.trained.form = "spline";
    r.session = &spline;
    if (tw_tune_report_write(&r, page, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_file_read(&text, page, &d), TW_OK);
    assert_non_null(strstr(text.data, "each predicted without itself"));
    assert_null(strstr(text.data, "Wave, linear and step"));
    tw_buf_free(&text);
    text = (tw_buf){0};
    r.session = &s;
    if (tw_tune_report_write(&r, page, &d) != TW_OK) fail_msg("%s", d.message);
    tw_store_close(store);
    assert_int_equal(tw_file_read(&text, page, &d), TW_OK);
    assert_non_null(strstr(text.data, "Wave, linear and step"));
    assert_non_null(strstr(text.data, "on its own samples"));
    char words[200], mean[64];
    tw_family_print(&t.family, s.problems[3].result.problem, words, sizeof words);
    snprintf(mean, sizeof mean, "<dd>%.1f %%</dd>", tw_session_summarise(&t.family, &s, s.select, 0).mean * 100);
    const char *const parts[] = {"Tuning toy",
                                 mean,
                                 "<td>skinny</td>",
                                 "<td>default</td>",
                                 words,
                                 "1 configurations wrong",
                                 "tilewright tune toy",
                                 "Time of one macro choice"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text.data, parts[i])) fail_msg("\"%s\" is not in the report", parts[i]);
    check_plots(text.data, &t.family, &s);
    tw_buf_free(&text);
    tw_session_free(&s);
}

/* A plan without points has no forms of the model by waves. */
static void reports_of_a_spread_have_no_forms(void **state) {
    (void)state;
    toy t;
    tw_session s;
    tw_diag d;
    tw_buf text = {0};
    tw_session_options o = usual;
    toy_open(&t);
    o.campaign = (tw_campaign_options){
        .name = "tune", .screens = 6, .thorough = true, .cover = 6, .spread = 12, .samples = 2, .seed = 1};
    run(&s, &t, &o);
    tw_store *store = open_store();
    const tw_tune_report r = {.family = &t.family,
                              .session = &s,
                              .store = store,
                              .campaign = "tune",
                              .artefact = artefact,
                              .command = "tilewright tune toy",
                              .date = "2026-01-01"};
    if (tw_tune_report_write(&r, page, &d) != TW_OK) fail_msg("%s", d.message);
    tw_store_close(store);
    assert_int_equal(tw_file_read(&text, page, &d), TW_OK);
    assert_string_equal(s.trained.form, "spline");
    assert_non_null(strstr(text.data, "select, a problem seen before"));
    assert_null(strstr(text.data, "form, in memory"));
    tw_buf_free(&text);
    tw_session_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sessions_end_with_judged_choices, setup, teardown),
        cmocka_unit_test_setup_teardown(vendors_are_judged_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(regimes_are_summarised_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(problems_are_held_out, setup, teardown),
        cmocka_unit_test_setup_teardown(sessions_go_on, setup, teardown),
        cmocka_unit_test_setup_teardown(budgets_limit_the_work, setup, teardown),
        cmocka_unit_test_setup_teardown(problems_are_measured_at_once_where_speed_varies, setup, teardown),
        cmocka_unit_test_setup_teardown(progress_is_told, setup, teardown),
        cmocka_unit_test(regimes_are_defined_once),
        cmocka_unit_test_setup_teardown(reports_say_what_sessions_found, setup, teardown),
        cmocka_unit_test_setup_teardown(reports_of_a_spread_have_no_forms, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
