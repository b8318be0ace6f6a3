/* SPDX-License-Identifier: Apache-2.0 */
/* Families, campaigns, trials, training and evaluation, on a family with known times. */
#include "tune/toy_store.h"

#include "tilewright/select.h"
#include "tune/evaluate.h"
#include "tune/train.h"

#include <sys/stat.h>

static const tw_campaign_options usual = TOY_CAMPAIGN;

/* ---- families */

static void problems_are_words(void **state) {
    (void)state;
    toy t;
    toy_open(&t);
    int64_t problem[TW_SELECT_AXES] = {12, 345, 6789}, read[TW_SELECT_AXES] = {0};
    char words[100];
    tw_family_print(&t.family, problem, words, sizeof words);
    assert_string_equal(words, "m=12 n=345 k=6789");
    assert_int_equal(tw_family_parse(&t.family, read, " k=6789  m=12 n=345", NULL), TW_OK);
    assert_memory_equal(read, problem, sizeof read);
    static const char *const bad[] = {"m=1 n=2",         "m=1 n=2 k=3 k=3", "m=1 n=2 k=0", "m=1 n=2 k=16777217",
                                      "m=1 n=2 k=3 x=4", "m=1 n=2 k",       "m=1 n=2 k=",  "m=1 n=2 k=3x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(tw_family_parse(&t.family, read, bad[i], NULL), TW_ERR_USAGE);
    assert_true(tw_family_work(&t.family, problem) == 2.0 * 12 * 345 * 6789);
}

static void configurations_are_found(void **state) {
    (void)state;
    toy t;
    toy_open(&t);
    char words[100];
    for (int m = 0; m < TOY_MACROS; m++)
        for (int i = 0; i < 3; i++) {
            int macro = -1, micro = -1;
            tw_family_config(&t.family, m, i, words, sizeof words);
            assert_true(tw_family_find(&t.family, words, &macro, &micro) && macro == m && micro == i);
        }
    int macro, micro;
    assert_false(tw_family_find(&t.family, "tile=1", &macro, &micro));
    assert_false(tw_family_find(&t.family, "tile=16 stages=3", &macro, &micro));
    assert_false(tw_family_find(&t.family, "tile=168 stages=2", &macro, &micro));
}

static void problems_are_divided(void **state) {
    (void)state;
    toy t;
    toy_open(&t);
    tw_artefact_macro m = {.config = "x",
                           .grid = {64, 32},
                           .rounds = {0, 0, 128},
                           .times = 3,
                           .multiple = {0, 8},
                           .least = {2},
                           .most = {1000},
                           .parts = {2}};
    t.family.macros = &m;
    t.family.n_macros = 1;
    const int64_t problem[TW_SELECT_AXES] = {100, 40, 130};
    tw_wave_division d = tw_family_divide(&t.family, 0, problem);
    assert_true(d.grid == 2 * 2 * 3 && d.loops == 2);
    t.family.shrinks[0] = true;
    d = tw_family_divide(&t.family, 0, problem);
    assert_true(d.grid == 12 && d.loops == 2 * 100.0 / 128);
    static const int64_t bad[][TW_SELECT_AXES] = {{100, 41, 130}, {1, 40, 130}, {1001, 40, 130}, {64, 40, 130}};
    for (int i = 0; i < 4; i++) assert_int_equal(tw_family_divide(&t.family, 0, bad[i]).grid, 0);
}

static void usual_problems_are_drawn(void **state) {
    (void)state;
    toy t;
    toy_open(&t);
    t.family.most_work = 2e7;
    tw_random r = tw_random_seed(1);
    int small = 0;
    for (int i = 0; i < 1000; i++) {
        int64_t p[TW_SELECT_AXES] = {0};
        tw_family_draw(&t.family, &r, p);
        for (int a = 0; a < 3; a++)
            assert_true(p[a] >= t.family.least[a] && p[a] <= t.family.most[a] && p[a] % t.family.step[a] == 0);
        assert_true(tw_family_work(&t.family, p) <= 2e7);
        small += p[0] < 91; /* 91 is the geometric mean of the range. */
    }
    assert_true(small > 500);
    /* The smallest problem has more work than the limit. */
    const double least = tw_family_work(&t.family, t.family.least);
    t.family.most_work = least / 2;
    tw_family_admit_least(&t.family);
    assert_true(t.family.most_work == 8 * least);
    tw_family_admit_least(&t.family);
    assert_true(t.family.most_work == 8 * least);
    t.family.most_work = 0;
    tw_family_admit_least(&t.family);
    assert_true(t.family.most_work == 0);
}

/* ---- plans */

static void plans_cover_all_choices(void **state) {
    (void)state;
    toy t;
    toy_open(&t);
    const bool keep[TOY_MACROS] = {true, false, true, true};
    tw_campaign_job *jobs;
    int64_t n;
    assert_int_equal(tw_campaign_plan(&t.family, &usual, keep, &jobs, &n, NULL), TW_OK);
    int count[TOY_MACROS] = {0}, corners[TOY_MACROS] = {0};
    for (int64_t i = 0; i < n; i++) {
        const tw_campaign_job *j = &jobs[i];
        const tw_artefact_macro *m = &toy_macros[j->macro];
        count[j->macro]++;
        corners[j->macro] += j->corner;
        for (int a = 0; a < 3; a++) {
            const int64_t tile = a == 2 ? m->rounds[2] : m->grid[a];
            assert_true(j->problem[a] >= t.family.least[a] && j->problem[a] <= t.family.most[a] &&
                        j->problem[a] % tile == 0);
        }
        for (int64_t k = 0; k < i; k++)
            assert_true(jobs[k].macro != j->macro || memcmp(jobs[k].problem, j->problem, sizeof j->problem) != 0);
        /* Macro choices take turns. */
        if (i < 3) assert_int_equal(count[j->macro], 1);
    }
    assert_int_equal(count[1], 0);
    for (int m = 0; m < TOY_MACROS; m++)
        if (keep[m]) assert_true(count[m] >= 4 * 8 && corners[m] == 4);
    free(jobs);
    tw_campaign_options none = usual;
    none.waves = 0;
    assert_int_equal(tw_campaign_plan(&t.family, &none, keep, &jobs, &n, NULL), TW_ERR_USAGE);
}

/* The jobs of a family with one macro choice, of 8 slots, in 6 waves of 2 parts and 2 further grids, for 3 values of L.
 */
typedef struct planned {
    tw_family family;
    tw_artefact_macro macro;
    tw_campaign_job *jobs;
    int64_t n;
} planned;

/* Makes a plan, in which each wave must have at least `least` jobs. */
static void plan(planned *p, int least) {
    const tw_campaign_options o = {.waves = 6, .parts = 2, .far = 2, .rounds = 3, .seed = 1};
    const bool keep = true;
    tw_diag d;
    p->family.name = "planned";
    p->family.macros = &p->macro;
    p->family.n_macros = 1;
    p->macro.slots = TOY_SLOTS;
    for (int a = 0; a < p->family.n_axes; a++)
        if (!p->family.step[a]) p->family.step[a] = 1;
    if (tw_campaign_plan(&p->family, &o, &keep, &p->jobs, &p->n, &d) != TW_OK) fail_msg("%s", d.message);
    int corners = 0, waves[7] = {0};
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t grid = tw_family_divide(&p->family, 0, p->jobs[i].problem).grid,
                      wave = (grid - 1) / TOY_SLOTS + 1;
        assert_true(grid >= 1);
        corners += p->jobs[i].corner;
        if (wave <= 6) waves[wave]++;
        for (int a = 0; a < p->family.n_axes; a++)
            assert_true(p->jobs[i].problem[a] >= p->family.least[a] && p->jobs[i].problem[a] <= p->family.most[a]);
    }
    assert_true(corners >= 3 && corners <= 4);
    for (int w = 1; w <= 6; w++) assert_true(waves[w] >= least);
}

/* Parts are of four blocks. Returns the largest grid of the part that a grid is in. */
static int64_t end_of_part(int64_t grid) {
    return (grid + 3) / 4 * 4;
}

/* Groups multiply the grid. In each group rows and columns are as without groups. A further axis changes neither. */
static void plans_align_to_groups(void **state) {
    (void)state;
    planned p = {.family = {.axes = {"groups", "m", "other", "n", "k"},
                            .n_axes = 5,
                            .rows = 1,
                            .columns = 3,
                            .loops = 4,
                            .least = {1, 16, 5, 32, 64},
                            .most = {9, 512, 5, 1024, 2048}},
                 .macro = {.grid = {1, 16, 0, 32}, .rounds = {[4] = 64}}};
    plan(&p, 4);
    int count[10] = {0};
    for (int64_t i = 0; i < p.n; i++) {
        const int64_t *at = p.jobs[i].problem, groups = at[0], grid = tw_family_divide(&p.family, 0, at).grid;
        count[groups]++;
        assert_true(at[1] % 16 == 0 && at[2] == 5 && at[3] % 32 == 0 && at[4] % 64 == 0);
        assert_int_equal(grid, groups * (at[1] / 16) * (at[3] / 32));
    }
    /* 1 to 9 in a geometric sequence. */
    assert_true(count[1] >= 9 && count[3] >= 9 && count[9] >= 6 && count[1] + count[3] + count[9] == p.n);
    free(p.jobs);
}

/* There are no points where the product of four axes of groups does not fit into 64 bits. */
static void plans_refuse_endless_groups(void **state) {
    (void)state;
    tw_family f = {.name = "endless",
                   .axes = {"a", "b", "c", "d", "m", "n"},
                   .n_axes = 6,
                   .rows = 4,
                   .columns = 5,
                   .loops = 4,
                   .least = {TW_SELECT_MOST, TW_SELECT_MOST, TW_SELECT_MOST, TW_SELECT_MOST, 1, 1},
                   .most = {TW_SELECT_MOST, TW_SELECT_MOST, TW_SELECT_MOST, TW_SELECT_MOST, 64, 64},
                   .step = {1, 1, 1, 1, 1, 1},
                   .n_macros = 1};
    const tw_artefact_macro macro = {.grid = {1, 1, 1, 1, 1, 1}, .rounds = {[4] = 1}, .slots = TOY_SLOTS};
    const tw_campaign_options o = {.waves = 6, .parts = 2, .far = 2, .rounds = 3, .seed = 1};
    const bool keep = true;
    tw_campaign_job *jobs;
    int64_t n;
    f.macros = &macro;
    assert_int_equal(tw_campaign_plan(&f, &o, &keep, &jobs, &n, NULL), TW_OK);
    assert_int_equal(n, 0);
    free(jobs);
}

/* Grids are the largest multiples of a number of heads (WaveTune, section 4.2), and rounds are as they are wanted. */
static void plans_align_to_heads(void **state) {
    (void)state;
    planned p = {.family = {.axes = {"queries", "heads", "keys"},
                            .n_axes = 3,
                            .columns = 1,
                            .loops = 2,
                            .least = {64, 2, 128},
                            .most = {4096, 8, 4096},
                            .step = {1, 2, 1}},
                 .macro = {.grid = {64, 1}, .rounds = {[2] = 128}}};
    plan(&p, 3);
    int count[9] = {0};
    for (int64_t i = 0; i < p.n; i++) {
        const int64_t *at = p.jobs[i].problem, heads = at[1], grid = tw_family_divide(&p.family, 0, at).grid;
        count[heads]++;
        assert_true(at[0] % 64 == 0 && grid == at[0] / 64 * heads);
        if (grid <= 6 * TOY_SLOTS) assert_true(grid + heads > end_of_part(grid));
        assert_true(at[2] == 128 || at[2] == 768 || at[2] == 4096);
    }
    assert_true(count[2] >= 9 && count[4] >= 9 && count[8] >= 6 && count[2] + count[4] + count[8] == p.n);
    free(p.jobs);
}

/* Where rounds divide the rows' axis, an L decides the rows, and heads are as many as fit into a part. */
static void plans_leave_heads_free(void **state) {
    (void)state;
    planned p = {
        .family = {.axes = {"sequence", "heads"}, .n_axes = 2, .columns = 1, .least = {64, 1}, .most = {1000, 32}},
        .macro = {.grid = {64, 1}, .rounds = {32}}};
    for (int turned = 0; turned < 2; turned++) {
        int deepest = 0;
        plan(&p, 2);
        for (int64_t i = 0; i < p.n; i++) {
            const int64_t *at = p.jobs[i].problem, grid = tw_family_divide(&p.family, 0, at).grid;
            const int64_t sequence = at[turned], heads = at[!turned];
            assert_true(sequence % 64 == 0 && grid == sequence / 64 * heads);
            deepest += sequence == 960;
            if (grid <= 6 * TOY_SLOTS) assert_true(grid + sequence / 64 > end_of_part(grid) || heads == 32);
        }
        assert_true(deepest >= 2);
        free(p.jobs);
        /* The same with the axes' places exchanged. */
        p.family.loops = 1;
        p.family.axes[0] = "heads";
        p.family.axes[1] = "sequence";
        p.family.least[0] = 1;
        p.family.least[1] = 64;
        p.family.most[0] = 32;
        p.family.most[1] = 1000;
        p.macro = (tw_artefact_macro){.grid = {1, 64}, .rounds = {0, 32}};
    }
}

/* ---- campaigns */

static void slow_choices_are_dropped(void **state) {
    (void)state;
    toy t;
    toy_open(&t);
    t.family.macro = 0;
    tw_store *s = open_store();
    tw_campaign_progress p;
    tw_diag d;
    if (tw_campaign_run(&t.family, s, &usual, &p, &d) != TW_OK) fail_msg("%s", d.message);
    assert_false(p.cut);
    assert_true(p.measured == t.measured && p.had == 0 && p.wrong == 0 && p.failed == 0 && p.jobs == p.planned);
    assert_true(p.best > 0);
    bool keep[TOY_MACROS], likes[TOY_MACROS * TW_ARTEFACT_MICROS];
    assert_int_equal(tw_campaign_learn(&t.family, s, &usual, keep, likes, NULL), TW_OK);
    assert_true(keep[0] && !keep[3]);
    for (int m = 0; m < 3; m++) {
        int liked = 0;
        for (int i = 0; i < 3; i++) liked += likes[m * TW_ARTEFACT_MICROS + i];
        assert_int_equal(liked, keep[m] ? 2 : 3);
    }
    /* Measurements of the campaign are not repeated; those of another campaign do not count. */
    const int before = t.measured;
    assert_int_equal(tw_campaign_run(&t.family, s, &usual, &p, NULL), TW_OK);
    assert_true(t.measured == before && p.measured == 0 && p.had == before);
    /* Measuring all micro choices at every point takes more measurements. */
    tw_campaign_options all = usual;
    all.name = "all";
    all.micros = 0;
    assert_int_equal(tw_campaign_run(&t.family, s, &all, &p, NULL), TW_OK);
    assert_true(p.measured > before + 30);
    tw_campaign_options other = usual;
    other.name = "other";
    other.most = 10;
    assert_int_equal(tw_campaign_run(&t.family, s, &other, &p, NULL), TW_OK);
    assert_true(p.cut && p.measured >= 10 && p.had == 0);
    tw_store_close(s);
}

/* Where the fastest tile is longer than the range, it has no points there, and those of other tiles are measured. */
static void ranges_may_be_shorter_than_tiles(void **state) {
    (void)state;
    toy t;
    toy_open(&t);
    t.family.macro = 2;
    t.family.least[0] = 33;
    t.family.most[0] = 60;
    t.family.least[1] = 256;
    t.family.most[2] = 64;
    tw_store *s = open_store();
    tw_campaign_options o = usual;
    o.slow = 1.05;
    tw_campaign_progress p;
    bool keep[TOY_MACROS], likes[TOY_MACROS * TW_ARTEFACT_MICROS];
    assert_int_equal(tw_campaign_run(&t.family, s, &o, &p, NULL), TW_OK);
    assert_int_equal(tw_campaign_learn(&t.family, s, &o, keep, likes, NULL), TW_OK);
    assert_true(!keep[0] && !keep[1] && keep[2] && !keep[3]);
    assert_true(p.planned > o.screens && p.jobs == p.planned);
    tw_store_close(s);
}

typedef struct counting {
    int64_t rows, doubled;
    char last[400];
} counting;

static tw_status count(void *context, const tw_measurement *m, tw_diag *diag) {
    counting *c = context;
    (void)diag;
    c->rows++;
    c->doubled += !strcmp(c->last, m->key);
    snprintf(c->last, sizeof c->last, "%s", m->key);
    return TW_OK;
}

/* A campaign with interruptions ends with the measurements of one without. */
static void campaigns_go_on(void **state) {
    (void)state;
    toy t;
    toy_open(&t);
    tw_campaign_options o = usual;
    tw_campaign_progress p = {.cut = true};
    o.interrupted = toy_interrupted;
    o.context = &t;
    int runs = 0;
    for (; p.cut; runs++) {
        tw_store *s = open_store();
        t.end = 17;
        assert_int_equal(tw_campaign_run(&t.family, s, &o, &p, NULL), TW_OK);
        assert_true(p.measured <= 17);
        tw_store_close(s);
    }
    assert_true(runs > 5);
    tw_store *s = open_store();
    counting c = {0};
    assert_int_equal(tw_store_read(s, NULL, count, &c, NULL, NULL), TW_OK);
    assert_int_equal(c.rows, t.measured);
    assert_int_equal(c.doubled, 0);
    tw_store_close(s);
}

/* A second campaign of the same seed and store, which runs while the first one measures a job. */
static struct {
    toy other;
    int calls;   /* Number of jobs that the first campaign began to measure. */
    int waiting; /* Number of times that the second campaign asked for interruptions since its last measurement. */
    int64_t measured;
    tw_campaign_progress second;
} meeting;

static bool has_waited(void *context) {
    (void)context;
    if (meeting.other.measured != meeting.measured) meeting.waiting = 0;
    meeting.measured = meeting.other.measured;
    return ++meeting.waiting > 20;
}

static tw_status meet(void *self, const int64_t *problem, const char *const *configs, int n,
                      const tw_measure_protocol *p, const tw_family_listener *l, tw_diag *diag) {
    if (++meeting.calls == 3) {
        tw_campaign_options o = usual;
        tw_store *s = open_store();
        toy_open(&meeting.other);
        o.interrupted = has_waited;
        assert_int_equal(tw_campaign_run(&meeting.other.family, s, &o, &meeting.second, NULL), TW_OK);
        tw_store_close(s);
    }
    return toy_measure(self, problem, configs, n, p, l, diag);
}

/* Two campaigns share their jobs. The second one does all screens but those that the first one has done or claimed, and
   then waits. */
static void campaigns_share_jobs(void **state) {
    (void)state;
    static const tw_family_calls calls = {.measure = meet, .baseline = toy_baseline, .close = toy_close};
    toy t;
    toy_open(&t);
    t.family.calls = &calls;
    tw_store *s = open_store();
    tw_campaign_progress p;
    assert_int_equal(tw_campaign_run(&t.family, s, &usual, &p, NULL), TW_OK);
    assert_true(!p.cut && meeting.second.cut);
    assert_int_equal(meeting.second.jobs, usual.screens - 1);
    assert_true(meeting.second.measured > 0 && meeting.second.had > 0);
    counting c = {0};
    assert_int_equal(tw_store_read(s, NULL, count, &c, NULL, NULL), TW_OK);
    assert_int_equal(c.rows, t.measured + meeting.other.measured);
    tw_store_close(s);
}

/* A family whose default takes ever longer, from 100 us on, where it is the reference; and what it was asked for. */
static struct {
    int calls;
    const tw_power *power;
    char protocol[200];
} drifting;

static tw_status drift(void *self, const int64_t *problem, const char *const *configs, int n,
                       const tw_measure_protocol *p, const tw_family_listener *l, tw_diag *diag) {
    const toy *t = self;
    char usual_config[80];
    drifting.power = p->power;
    tw_family_config(&t->family, t->family.macro, t->family.micro, usual_config, sizeof usual_config);
    if (n != 1 || p->samples != 5 || strcmp(configs[0], usual_config) != 0)
        return toy_measure(self, problem, configs, n, p, l, diag);
    const double time = 100 + drifting.calls;
    const tw_diag none = {.status = TW_OK};
    const tw_measured m = {
        .diag = &none, .time = {.n = 1, .min = time, .median = time}, .samples = &time, .began = ++drifting.calls};
    return l->result(l->context, &m, diag);
}

static const tw_family_calls drifting_calls = {.measure = drift, .baseline = toy_baseline, .close = toy_close};

static tw_status count_references(void *context, const tw_measurement *m, tw_diag *diag) {
    (void)diag;
    *(int64_t *)context += !strncmp(m->key, "tune|reference-", 15);
    snprintf(drifting.protocol, sizeof drifting.protocol, "%s", m->protocol);
    assert_true(m->clock_mhz == 900);
    return TW_OK;
}

static bool no_energy(void *context, double *joules) {
    (void)context;
    *joules = 0;
    return true;
}

static double a_clock(void *context) {
    (void)context;
    return 900;
}

static void drift_is_seen(void **state) {
    (void)state;
    const tw_power_source source = {.energy = no_energy, .clock = a_clock};
    tw_campaign_options o = usual;
    tw_campaign_progress p;
    int64_t references = 0;
    toy t;
    toy_open(&t);
    t.family.calls = &drifting_calls;
    assert_int_equal(tw_power_make(&t.family.power, &source, NULL), TW_OK);
    tw_store *s = open_store();
    o.reference = 1e-9;
    assert_int_equal(tw_campaign_run(&t.family, s, &o, &p, NULL), TW_OK);
    assert_true(p.references == drifting.calls && p.references == p.jobs);
    assert_true(fabs(p.drift - (p.references - 1) / 100.0) < 1e-9);
    assert_int_equal(tw_store_read(s, NULL, count_references, &references, NULL, NULL), TW_OK);
    assert_int_equal(references, p.references);
    /* Measurements of the reference are not trials, from which models learn. */
    tw_trials trials;
    assert_int_equal(tw_trials_read(&trials, &t.family, s, "tune", NULL), TW_OK);
    assert_int_equal(trials.screens.n + trials.spread.n + trials.points.n + trials.unknown + trials.wrong, p.measured);
    tw_trials_free(&trials);
    tw_store_close(s);
    tw_power_close(t.family.power);
}

static void energy_is_asked_for(void **state) {
    (void)state;
    const tw_power_source source = {.energy = no_energy, .clock = a_clock};
    tw_campaign_options o = usual;
    int64_t references = 0;
    toy t;
    toy_open(&t);
    t.family.calls = &drifting_calls;
    t.family.energy = true;
    assert_int_equal(tw_power_make(&t.family.power, &source, NULL), TW_OK);
    tw_store *s = open_store();
    o.reference = 1e-9;
    o.most = 1;
    assert_int_equal(tw_campaign_run(&t.family, s, &o, NULL, NULL), TW_OK);
    assert_ptr_equal(drifting.power, t.family.power);
    assert_int_equal(tw_store_read(s, NULL, count_references, &references, NULL, NULL), TW_OK);
    assert_int_equal(references, 0);
    assert_non_null(strstr(drifting.protocol, " energy_seconds=0.3"));
    tw_store_close(s);
    tw_power_close(t.family.power);
}

/* Two devices share a store: each has all of its campaign there, and none the other's. */
static void devices_share_a_store(void **state) {
    (void)state;
    static const char *const environments[] = {"{\"device\": \"toy\"}", "{\"device\": \"doll\"}"};
    tw_store *s = open_store();
    int64_t measured = 0;
    for (int i = 0; i < 4; i++) {
        tw_campaign_progress p;
        toy t;
        toy_open(&t);
        t.family.environment = environments[i % 2];
        assert_int_equal(tw_campaign_run(&t.family, s, &usual, &p, NULL), TW_OK);
        if (!i) measured = p.measured;
        assert_int_equal(p.measured, i < 2 ? measured : 0);
        assert_true(p.had >= (i < 2 ? 0 : measured));
        tw_trials trials;
        assert_int_equal(tw_trials_read(&trials, &t.family, s, "tune", NULL), TW_OK);
        assert_int_equal(trials.screens.n + trials.spread.n + trials.points.n, measured);
        tw_trials_free(&trials);
        t.family.name = "other";
        if (i == 3) assert_int_equal(tw_campaign_run(&t.family, s, &usual, &p, NULL), TW_OK);
        if (i == 3) assert_int_equal(p.measured, measured);
    }
    tw_store_close(s);
}

static void wrong_results_are_kept_as_such(void **state) {
    (void)state;
    toy t;
    toy_open(&t);
    t.wrong = "tile=16 stages=4";
    tw_store *s = open_store();
    tw_campaign_progress p;
    assert_int_equal(tw_campaign_run(&t.family, s, &usual, &p, NULL), TW_OK);
    assert_true(p.wrong > 0 && p.failed == 0);
    tw_training training;
    assert_int_equal(tw_training_read(&training, &t.family, s, "tune", NULL), TW_OK);
    assert_int_equal(training.trials.wrong, p.wrong);
    for (int i = 0; i < training.n; i++) assert_false(training.samples[i].macro == 0 && training.samples[i].micro == 1);
    tw_training_free(&training);
    tw_store_close(s);
}

/* ---- trials */

static void keys_name_campaign_and_phase(void **state) {
    (void)state;
    char key[100];
    tw_trials_key(key, sizeof key, "tune", "screen", "m=1 n=2", "tile=16");
    assert_string_equal(key, "tune|screen|m=1 n=2|tile=16");
    assert_true(tw_trials_key_is(key, "tune", "screen") && tw_trials_key_is(key, NULL, "screen"));
    static const struct {
        const char *key, *campaign;
    } others[] = {{NULL, "tune"},
                  {NULL, NULL},
                  {"", NULL},
                  {"tune", "tune"},
                  {"tune|", NULL},
                  {"tune|screen", "tune"},
                  {"tune|screens|", NULL},
                  {"tune|scr|", NULL},
                  {"tune2|screen|m=1|x", "tune"},
                  {"tun|screen|m=1|x", "tune"},
                  {"tune-screen|m=1|x", "tune"},
                  {"tune|points|screen|x", "tune"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(tw_trials_key_is(others[i].key, others[i].campaign, "screen"));
}

static void add_trial(tw_store *s, const char *key, const char *problem, const char *config, const char *unit, double a,
                      double b, double c) {
    const double samples[] = {a, b, c};
    const tw_measurement m = {.key = key,
                              .environment = "{\"device\": \"toy\"}",
                              .space = "toy",
                              .problem = problem,
                              .config = config,
                              .protocol = "samples=3",
                              .unit = unit,
                              .message = "",
                              .samples = samples,
                              .n = 3,
                              .began = 1};
    assert_int_equal(tw_store_add(s, &m, NULL, NULL), TW_OK);
}

static void trials_are_read_by_phase(void **state) {
    (void)state;
    toy t;
    toy_open(&t);
    tw_store *s = open_store();
    add_trial(s, "a|screen|1", "m=64 n=32 k=64", "tile=16 stages=4", "us", 9, 1, 2);
    add_trial(s, "a|screen|2", "m=16 n=32 k=64", "tile=32 stages=2", "us", 3, 5, 4);
    add_trial(s, "a|points|3", "m=64 n=32 k=64", "tile=64 stages=8", "us", 6, 6, 6);
    add_trial(s, "b|points|4", "m=64 n=32 k=64", "tile=16 stages=2", "us", 7, 7, 7);
    add_trial(s, "a|first|5", "m=64 n=32 k=64", "tile=16 stages=2", "us", 7, 7, 7);
    add_trial(s, "a|points|6", "m=64 n=32", "tile=16 stages=2", "us", 1, 1, 1);
    add_trial(s, "a|points|7", "m=64 n=32 k=64", "tile=17 stages=2", "us", 1, 1, 1);
    add_trial(s, "a|points|8", "m=64 n=32 k=64", "tile=16 stages=2", "J", 1, 1, 1);
    add_trial(s, "a|points|9", "m=64 n=32 k=64", "tile=16 stages=2", "us", 0, 0, 0);
    tw_trials r;
    assert_int_equal(tw_trials_read(&r, &t.family, s, "a", NULL), TW_OK);
    assert_true(r.screens.n == 2 && r.points.n == 1 && r.unknown == 4 && r.wrong == 0);
    const tw_trial *x = r.screens.at;
    assert_true(x[0].problem[0] == 16 && x[0].macro == 1 && x[0].micro == 0 && x[0].time == 4);
    assert_true(x[1].problem[0] == 64 && x[1].macro == 0 && x[1].micro == 1 && x[1].time == 2);
    assert_true(r.points.at[0].macro == 2 && r.points.at[0].micro == 2 && r.points.at[0].time == 6);
    double least;
    assert_int_equal(tw_trials_end(&r.screens, 0, tw_trials_by_problem, &least), 1);
    assert_true(least == 4);
    tw_trials_free(&r);
    assert_int_equal(tw_trials_read(&r, &t.family, s, NULL, NULL), TW_OK);
    assert_true(r.screens.n == 2 && r.points.n == 2);
    tw_trials_free(&r);
    tw_store_close(s);
}

/* ---- training and evaluation */

typedef struct judged {
    double shares[3][64];
    const char *names[3];
    int n, strategies;
} judged;

static tw_status take(void *context, const tw_evaluation *e, tw_diag *diag) {
    judged *j = context;
    (void)diag;
    assert_true(e->configs > 8 && e->wrong == 0 && e->correct && e->time > 0 && *e->oracle);
    for (int i = 0; i < e->n; i++) {
        j->names[i] = e->of[i].name;
        j->shares[i][j->n] = e->of[i].share;
        assert_true(e->of[i].share > 0 && e->of[i].share <= 1);
        assert_true(fabs(e->time / e->of[i].time - e->of[i].share) < 1e-9);
    }
    j->strategies = e->n;
    j->n++;
    return TW_OK;
}

static bool choose(void *context, const int64_t *problem, char *out, size_t size) {
    tw_selection s;
    if (tw_select_choose(context, problem, 0, &s) != TW_OK) return false;
    snprintf(out, size, "%s", s.config);
    return true;
}

static bool choose_nothing(void *context, const int64_t *problem, char *out, size_t size) {
    (void)context, (void)problem, (void)out, (void)size;
    return false;
}

static void choices_come_near_the_best(void **state) {
    (void)state;
    toy t;
    toy_open(&t);
    tw_store *s = open_store();
    tw_diag d;
    tw_trained trained;
    assert_int_equal(tw_train(&t.family, s, NULL, artefact, &trained, &d), TW_ERR_USAGE);
    assert_non_null(strstr(d.message, "too few measurements of toy"));
    assert_int_equal(tw_campaign_run(&t.family, s, &usual, NULL, NULL), TW_OK);
    if (tw_train(&t.family, s, "tune", artefact, &trained, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(trained.problems == usual.screens && trained.share > 0.9 && trained.quality.n > 50);
    tw_selector *selector;
    tw_selector_info info;
    assert_int_equal(tw_selector_open(&selector, artefact, NULL), TW_OK);
    tw_selector_describe(selector, &info);
    assert_string_equal(info.kernel, "toy");
    assert_non_null(strstr(info.about, trained.form));
    judged j = {.n = 0};
    const tw_strategy strategies[] = {{"select", false, choose, selector}, {"nothing", false, choose_nothing, NULL}};
    const tw_evaluate_options o = {.name = "eval",
                                   .problems = 40,
                                   .seed = 7,
                                   .strategies = strategies,
                                   .n_strategies = 1,
                                   .result = take,
                                   .context = &j};
    if (tw_evaluate(&t.family, s, &o, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(j.n == 40 && j.strategies == 2);
    assert_string_equal(j.names[0], "default");
    assert_string_equal(j.names[1], "select");
    const tw_evaluate_summary usual_one = tw_evaluate_summarise(j.shares[0], j.n),
                              selected = tw_evaluate_summarise(j.shares[1], j.n);
    assert_true(usual_one.mean < 0.5);
    /* The loss comes from micro choices between the few measured values of L. */
    assert_true(selected.mean > 0.92 && selected.worst > 0.8 && selected.n == 40);
    /* The store now has all measurements, so the recorded family has equal results. */
    const int before = t.measured;
    judged again = {.n = 0};
    tw_evaluate_options same = o;
    same.context = &again;
    t.family.recorded = true;
    assert_int_equal(tw_evaluate(&t.family, s, &same, NULL), TW_OK);
    assert_int_equal(t.measured, before);
    assert_true(tw_evaluate_summarise(again.shares[1], again.n).mean == selected.mean);
    tw_selector_close(selector);
    tw_store_close(s);
}

/* An artefact chooses as the model that it was written from. */
static void artefacts_say_what_models_say(void **state) {
    (void)state;
    toy t;
    toy_open(&t);
    tw_store *s = open_store();
    tw_training training;
    tw_trained trained;
    tw_selector *selector;
    tw_wave_model *m = NULL;
    assert_int_equal(tw_campaign_run(&t.family, s, &usual, NULL, NULL), TW_OK);
    assert_int_equal(tw_train(&t.family, s, "tune", artefact, &trained, NULL), TW_OK);
    assert_int_equal(tw_training_read(&training, &t.family, s, "tune", NULL), TW_OK);
    tw_wave_form form = TW_WAVE_FULL;
    while (strcmp(trained.form, tw_train_form(form)) != 0) form++;
    assert_int_equal(tw_train_fit(&m, &t.family, &training, form, NULL), TW_OK);
    assert_int_equal(tw_selector_open(&selector, artefact, NULL), TW_OK);
    tw_random r = tw_random_seed(3);
    int same = 0;
    for (int i = 0; i < 300; i++) {
        int64_t p[TW_SELECT_AXES] = {0};
        char config[100];
        tw_selection x;
        tw_family_draw(&t.family, &r, p);
        assert_int_equal(tw_select_choose(selector, p, 0, &x), TW_OK);
        assert_true(tw_train_choose(&t.family, m, p, config, sizeof config));
        same += !strcmp(config, x.config);
    }
    assert_true(same > 285);
    tw_selector_close(selector);
    tw_wave_free(m);
    tw_training_free(&training);
    tw_store_close(s);
}

static bool choose_fixed(void *context, const int64_t *problem, char *out, size_t size) {
    (void)problem;
    snprintf(out, size, "%s", (const char *)context);
    return true;
}

static tw_status take_last(void *context, const tw_evaluation *e, tw_diag *diag) {
    (void)diag;
    *(tw_evaluation *)context = *e;
    return TW_OK;
}

/* Evaluates a problem by a strategy that always chooses `config`. */
static tw_evaluation evaluate_fixed(toy *t, const char *config) {
    char file[600];
    tw_store *s;
    tw_diag d;
    tw_evaluation e = {.n = 0};
    const tw_strategy strategy = {"fixed", false, choose_fixed, (void *)config};
    const tw_evaluate_options o = {.name = "eval",
                                   .problems = 1,
                                   .seed = 7,
                                   .strategies = &strategy,
                                   .n_strategies = 1,
                                   .result = take_last,
                                   .context = &e};
    snprintf(file, sizeof file, "%s.%s", path, t->wrong ? t->wrong : "none");
    if (tw_store_open(&s, file, false, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_evaluate(&t->family, s, &o, &d) != TW_OK) fail_msg("%s", d.message);
    tw_store_close(s);
    return e;
}

/* The problems of a spread, in the store's order, each once. */
typedef struct spread_list {
    int64_t problem[200][TW_SELECT_AXES];
    int n, measurements;
} spread_list;

static tw_status take_spread(void *context, const tw_measurement *m, tw_diag *diag) {
    spread_list *l = context;
    toy t;
    int64_t problem[TW_SELECT_AXES] = {0};
    (void)diag;
    if (!tw_trials_key_is(m->key, "tune", TW_TRIALS_SPREAD)) return TW_OK;
    toy_open(&t);
    assert_int_equal(tw_family_parse(&t.family, problem, m->problem, NULL), TW_OK);
    assert_int_equal(m->n, 3);
    l->measurements++;
    for (int i = 0; i < l->n; i++)
        if (!memcmp(l->problem[i], problem, sizeof problem)) return TW_OK;
    memcpy(l->problem[l->n++], problem, sizeof problem);
    return TW_OK;
}

/* A campaign measures a few configurations at problems that are spread evenly, goes on where it was, and ends where a
   small range has no more problems. A model of configurations is trained from it. */
static void problems_are_spread(void **state) {
    (void)state;
    tw_campaign_options o = {
        .name = "tune", .screens = 8, .thorough = true, .slow = 1.5, .cover = 5, .spread = 60, .samples = 3, .seed = 1};
    toy t;
    spread_list list = {.n = 0};
    tw_campaign_progress p;
    tw_trained trained;
    toy_open(&t);
    tw_store *s = open_store();
    assert_int_equal(tw_campaign_run(&t.family, s, &o, &p, NULL), TW_OK);
    assert_true(!p.cut && p.jobs == 68 && p.planned == 68 && p.measured == 8 * TOY_MACROS * 3 + 60 * 5 && !p.had);
    assert_int_equal(tw_store_read(s, NULL, take_spread, &list, NULL, NULL), TW_OK);
    assert_true(list.n == 60 && list.measurements == 60 * 5);
    int low = 0;
    for (int i = 0; i < list.n; i++) low += list.problem[i][0] < 91; /* 91 is the geometric mean of the range. */
    assert_in_range(low, 28, 32);
    assert_int_equal(tw_campaign_run(&t.family, s, &o, &p, NULL), TW_OK);
    assert_true(!p.measured && p.had == 8 * TOY_MACROS * 3 + 60 * 5);
    assert_int_equal(tw_train(&t.family, s, "tune", artefact, &trained, NULL), TW_OK);
    assert_string_equal(trained.form, "spline");
    assert_true(trained.problems == 60 + 8 && trained.share > 0.95 && trained.quality.n == (60 + 8) * 5);
    /* A model is of all problems that were measured, whatever range is given when it is trained. */
    struct stat whole, narrow;
    assert_int_equal(stat(artefact, &whole), 0);
    for (int a = 0; a < t.family.n_axes; a++) t.family.most[a] = t.family.least[a];
    assert_int_equal(tw_train(&t.family, s, "tune", artefact, &trained, NULL), TW_OK);
    assert_int_equal(stat(artefact, &narrow), 0);
    assert_in_range(narrow.st_size, whole.st_size * 9 / 10, whole.st_size * 11 / 10);
    /* Few problems: 3 of m, 2 of n, 2 of k. */
    o.name = "small";
    t.family.least[0] = 16, t.family.most[0] = 18;
    t.family.least[1] = 16, t.family.most[1] = 32;
    t.family.least[2] = 64, t.family.most[2] = 96;
    assert_int_equal(tw_campaign_run(&t.family, s, &o, &p, NULL), TW_OK);
    assert_true(p.jobs <= 8 + 12 && p.jobs == p.planned);
    tw_store_close(s);
}

/* The own oracle leaves out vendors' configurations. With `only` the oracle is one of the named configurations. */
static void oracles_are_own_or_pruned(void **state) {
    (void)state;
    toy t;
    tw_evaluation e = {.n = 0};
    tw_artefact_macro macros[TOY_MACROS];
    toy_open(&t);
    memcpy(macros, toy_macros, sizeof macros);
    for (int i = 0; i < 3; i++) macros[i].properties = TW_MACRO_VENDOR;
    t.family.macros = macros;
    static const char slow[] = "tile=128 stages=4", vendor[] = "tile=16 stages=4";
    const tw_strategy strategies[] = {{"own", true, choose_fixed, (void *)slow},
                                      {"any", false, choose_fixed, (void *)slow},
                                      {"vendor", false, choose_fixed, (void *)vendor}};
    const tw_choice only[] = {{0, 1}, {3, 1}, {3, 2}};
    tw_evaluate_options o = {.name = "eval",
                             .problems = 1,
                             .seed = 7,
                             .strategies = strategies,
                             .n_strategies = 3,
                             .result = take_last,
                             .context = &e};
    tw_store *s = open_store();
    assert_int_equal(tw_evaluate(&t.family, s, &o, NULL), TW_OK);
    assert_int_equal(e.configs, TOY_MACROS * 3);
    assert_int_equal(strncmp(e.own, "tile=128", 8), 0);
    assert_int_not_equal(strncmp(e.oracle, "tile=128", 8), 0);
    assert_true(e.own_time > e.time && e.vendor == e.time);
    assert_true(e.of[1].own && e.of[1].share == e.own_time / e.of[1].time && !e.of[2].own &&
                e.of[2].share == e.time / e.of[2].time && e.of[2].time == e.of[1].time);
    o.only = only;
    o.n_only = 3;
    assert_int_equal(tw_evaluate(&t.family, s, &o, NULL), TW_OK);
    assert_true(e.configs == 3 && !strcmp(e.oracle, "tile=16 stages=4"));
    tw_store_close(s);
}

/* Counts the evaluation's measurements of the family's default in its own words. */
static tw_status count_usual(void *context, const tw_measurement *m, tw_diag *diag) {
    (void)diag;
    *(int *)context += !strncmp(m->key, "eval|", 5) && !strcmp(m->config, "tile=16 stages=4");
    return TW_OK;
}

/* A default that is the baseline in other words is measured once, in the baseline's words, and may be the oracle. */
static void one_configuration_is_measured_once(void **state) {
    (void)state;
    static const char own[] = "tile=16 stages=4", baseline[] = "tile=128 stages=2";
    for (int renamed = 1; renamed >= 0; renamed--) {
        toy t;
        tw_evaluation e = {.n = 0};
        int n = 0;
        toy_open(&t);
        t.family.renamed = renamed;
        const tw_strategy strategy = {"fixed", false, choose_fixed, (void *)own};
        const tw_choice only[] = {{0, 1}, {0, 2}};
        const tw_evaluate_options o = {.name = "eval",
                                       .problems = 1,
                                       .seed = 7,
                                       .strategies = &strategy,
                                       .n_strategies = 1,
                                       .only = only,
                                       .n_only = 1,
                                       .result = take_last,
                                       .context = &e};
        tw_store *s = open_store();
        assert_int_equal(tw_evaluate(&t.family, s, &o, NULL), TW_OK);
        assert_int_equal(tw_store_read(s, NULL, count_usual, &n, NULL, NULL), TW_OK);
        assert_int_equal(e.configs, 1);
        assert_string_equal(e.of[1].config, own);
        assert_string_equal(e.oracle, renamed ? baseline : own);
        assert_int_equal(e.of[0].time == e.of[1].time, renamed);
        assert_int_equal(n > 0, !renamed);
        assert_true(e.of[1].time > 0 && e.of[1].share == 1);
        tw_store_close(s);
    }
}

/* Wrong results count whether a configuration, a baseline or a choice that is no configuration has them. */
static void wrong_results_are_told(void **state) {
    (void)state;
    static const char elsewhere[] = "tile=7 stages=2";
    static const char *const wrong[] = {"tile=16 stages=4", "tile=128 stages=2", elsewhere};
    toy t;
    toy_open(&t);
    tw_evaluation e = evaluate_fixed(&t, elsewhere);
    assert_true(e.correct && e.wrong == 0 && e.failed == 0 && e.n == 2 && e.of[0].time > 0 && e.of[1].time > 0);
    const int all = e.configs;
    for (int i = 0; i < 3; i++) {
        t.wrong = wrong[i];
        e = evaluate_fixed(&t, elsewhere);
        assert_true(!e.correct && e.wrong == 1 && e.failed == 0 && e.time > 0);
        assert_int_equal(e.configs, i < 2 ? all - 1 : all);
        assert_true((e.of[0].time > 0) == (i != 1) && (e.of[1].time > 0) == (i != 2));
    }
    /* A configuration that was wrong once has no time, even if its later results are right. */
    t.wrong = "tile=64 stages=2";
    t.wrong_times = 1;
    e = evaluate_fixed(&t, "tile=64 stages=2");
    assert_null(t.wrong);
    assert_true(!e.correct && e.wrong == 1 && e.failed == 0 && e.configs == all - 1);
    assert_true(e.of[1].time == 0 && e.of[1].share == 0 && strcmp(e.oracle, "tile=64 stages=2") != 0);
}

static void shares_are_summarised(void **state) {
    (void)state;
    double shares[] = {0.5, 1, 0, 0.25};
    const tw_evaluate_summary s = tw_evaluate_summarise(shares, 4);
    assert_true(s.n == 3 && fabs(s.mean - 0.5) < 1e-12 && s.worst == 0.25 && s.low5 == 0.25);
    double none[] = {0};
    assert_int_equal(tw_evaluate_summarise(none, 1).n, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(problems_are_words),
        cmocka_unit_test(configurations_are_found),
        cmocka_unit_test(problems_are_divided),
        cmocka_unit_test(usual_problems_are_drawn),
        cmocka_unit_test(plans_cover_all_choices),
        cmocka_unit_test(plans_align_to_groups),
        cmocka_unit_test(plans_refuse_endless_groups),
        cmocka_unit_test(plans_align_to_heads),
        cmocka_unit_test(plans_leave_heads_free),
        cmocka_unit_test_setup_teardown(slow_choices_are_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(ranges_may_be_shorter_than_tiles, setup, teardown),
        cmocka_unit_test_setup_teardown(campaigns_go_on, setup, teardown),
        cmocka_unit_test_setup_teardown(campaigns_share_jobs, setup, teardown),
        cmocka_unit_test_setup_teardown(drift_is_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(devices_share_a_store, setup, teardown),
        cmocka_unit_test_setup_teardown(energy_is_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_results_are_kept_as_such, setup, teardown),
        cmocka_unit_test(keys_name_campaign_and_phase),
        cmocka_unit_test_setup_teardown(trials_are_read_by_phase, setup, teardown),
        cmocka_unit_test_setup_teardown(choices_come_near_the_best, setup, teardown),
        cmocka_unit_test_setup_teardown(artefacts_say_what_models_say, setup, teardown),
        cmocka_unit_test_setup_teardown(one_configuration_is_measured_once, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_results_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(problems_are_spread, setup, teardown),
        cmocka_unit_test_setup_teardown(oracles_are_own_or_pruned, setup, teardown),
        cmocka_unit_test(shares_are_summarised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
