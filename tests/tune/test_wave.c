/* SPDX-License-Identifier: Apache-2.0 */
/* The model by waves on times that are known: points, fits, shared micro parameters, selection; what each of its ideas
   is worth on simulated kernels; and what is refused. */
#include "support/support.h"

#include "tune/wave.h"

#include <math.h>
#include <stdlib.h>

enum { SLOTS = 132, WAVES = 40, PARTS = 4, MOST = 4000 };

static void near(double a, double b, double share) {
    if (!(fabs(a - b) <= share * fabs(b))) fail_msg("%.17g is not %.17g", a, b);
}

static void points_are_the_papers(void **state) {
    (void)state;
    static const int64_t first[] = {25, 64, 81, 132};
    tw_wave_point p[WAVES * PARTS];
    int long_ones = 0;
    assert_int_equal(tw_wave_points(&(tw_wave_grid){.slots = SLOTS, .waves = WAVES, .parts = PARTS}, p), WAVES * PARTS);
    for (int i = 0; i < WAVES * PARTS; i++) {
        const int64_t w = i / PARTS, below = w * SLOTS + i % PARTS * 33, last = below + 33;
        assert_int_equal(p[i].wave, w + 1);
        assert_true(p[i].grid > below && p[i].grid <= last);
        assert_int_equal(p[i].rows * p[i].columns, p[i].grid);
        assert_true(p[i].rows <= p[i].columns);
        /* No larger grid of the part is short enough; and where this one is not, no other is. */
        const bool is_short = (double)p[i].columns / (double)p[i].rows <= 1.1;
        for (int64_t g = last; g > below; g--)
            for (int64_t r = 1; r * r <= g; r++)
                if ((g > p[i].grid || !is_short) && g % r == 0) assert_true((double)(g / r) / (double)r > 1.1);
        long_ones += !is_short;
        if (!w) assert_int_equal(p[i].grid, first[i]);
    }
    assert_int_equal(long_ones, 30);
}

/* Where no grid is short enough, the shortest is taken. */
static void any_part_has_a_point(void **state) {
    (void)state;
    static const int64_t want[][3] = {{1, 1, 1}, {2, 1, 2}, {3, 1, 3}, {4, 2, 2},
                                      {5, 1, 5}, {6, 2, 3}, {7, 1, 7}, {8, 2, 4}};
    tw_wave_point p[8];
    assert_int_equal(tw_wave_points(&(tw_wave_grid){.slots = 4, .waves = 2, .parts = 4}, p), 8);
    for (int i = 0; i < 8; i++)
        assert_true(p[i].grid == want[i][0] && p[i].rows == want[i][1] && p[i].columns == want[i][2]);
    /* 5 x 8 is longer than 1.1, and 6 x 6 is not; a longest of 1.6 takes the former. */
    assert_int_equal(tw_wave_points(&(tw_wave_grid){.slots = 41, .waves = 1, .parts = 1}, p), 1);
    assert_int_equal(p[0].grid, 36);
    assert_int_equal(tw_wave_points(&(tw_wave_grid){.slots = 41, .waves = 1, .parts = 1, .longest = 1.6}, p), 1);
    assert_int_equal(p[0].grid, 40);
    assert_int_equal(tw_wave_points(&(tw_wave_grid){.slots = 132, .waves = 1, .parts = 4, .longest = 1}, p), 4);
    assert_int_equal(p[3].grid, 121);
    /* Limits of 2 rows and 9 columns, and of 9 rows and 2 columns. */
    tw_wave_grid limited = {.slots = 41, .waves = 2, .parts = 1, .longest = 5, .most_rows = 2, .most_columns = 9};
    assert_int_equal(tw_wave_points(&limited, p), 1);
    assert_true(p[0].grid == 18 && p[0].rows == 2 && p[0].columns == 9);
    limited.most_rows = 9;
    limited.most_columns = 2;
    assert_int_equal(tw_wave_points(&limited, p), 1);
    assert_true(p[0].grid == 18 && p[0].rows == 9 && p[0].columns == 2);
}

static void points_of_heads_divide(void **state) {
    (void)state;
    tw_wave_point p[20 * 3];
    const int n = tw_wave_points(&(tw_wave_grid){.slots = SLOTS, .waves = 20, .parts = 3, .heads = 48}, p);
    /* 44 blocks a part: no multiple of 48 is in 1 to 44, and others have none either. */
    assert_int_equal(n, 55);
    for (int i = 0; i < n; i++) {
        assert_int_equal(p[i].grid % 48, 0);
        assert_int_equal(p[i].columns, 48);
        assert_int_equal(p[i].rows, p[i].grid / 48);
        assert_int_equal(p[i].wave, (p[i].grid - 1) / SLOTS + 1);
        assert_true(!i || p[i].grid > p[i - 1].grid);
    }
    assert_int_equal(p[0].grid, 48);
    /* Of 1 to 44 the largest multiple of 16 is 32. */
    assert_int_equal(tw_wave_points(&(tw_wave_grid){.slots = SLOTS, .waves = 1, .parts = 3, .heads = 16}, p), 3);
    assert_true(p[0].grid == 32 && p[1].grid == 80 && p[2].grid == 128);
}

/* A grid of groups consists of equal rectangles of blocks, the largest whose sides differ little enough. */
static void points_of_groups_divide(void **state) {
    (void)state;
    tw_wave_point p[20 * 3];
    tw_wave_grid g = {.slots = SLOTS, .waves = 20, .parts = 3, .groups = 8};
    const int n = tw_wave_points(&g, p);
    assert_int_equal(n, 60);
    for (int i = 0; i < n; i++) {
        const int64_t last = (i / 3) * SLOTS + (i % 3 + 1) * 44;
        assert_int_equal(p[i].wave, i / 3 + 1);
        assert_int_equal(p[i].grid, 8 * p[i].rows * p[i].columns);
        assert_true(p[i].grid > last - 44 && p[i].grid <= last);
    }
    /* 16 groups of 5 x 5 blocks are 400 blocks. From 26 to 29 blocks a group has no rectangle whose sides are that
     * alike. */
    g = (tw_wave_grid){.slots = 470, .waves = 1, .parts = 1, .groups = 16};
    assert_int_equal(tw_wave_points(&g, p), 1);
    assert_true(p[0].grid == 400 && p[0].rows == 5 && p[0].columns == 5);
    /* With heads, too, and at most 3 rows. */
    g = (tw_wave_grid){.slots = 470, .waves = 2, .parts = 1, .groups = 16, .heads = 7, .most_rows = 3};
    assert_int_equal(tw_wave_points(&g, p), 1);
    assert_true(p[0].grid == 336 && p[0].rows == 3 && p[0].columns == 7);
    /* The first quarter of 12 slots has no multiple of 8 groups, the third one has 8 itself. */
    assert_false(tw_wave_point_at(&(tw_wave_grid){.slots = 12, .parts = 4, .groups = 8}, 0, 0, p));
    assert_true(tw_wave_point_at(&(tw_wave_grid){.slots = 12, .parts = 4, .groups = 8}, 0, 2, p));
    assert_int_equal(p[0].grid, 8);
}

/* A kernel whose coefficients differ from wave to wave up to the 30th, and not after. */
static double known(int64_t grid, int64_t loops) {
    const double w = fmin((double)((grid - 1) / SLOTS + 1), 30), g = (double)grid, l = (double)loops;
    return (0.01 + 0.1 / w) * g * l + 0.02 * w * g + (3 + w) * l + 7 * w;
}

static int sample_all(tw_wave_sample *s, double (*time)(int64_t grid, int64_t loops), int waves) {
    static const int64_t loops[] = {16, 32, 48, 64, 80};
    tw_wave_point p[WAVES * PARTS];
    int n = 0;
    const int points = tw_wave_points(&(tw_wave_grid){.slots = SLOTS, .waves = waves, .parts = PARTS}, p);
    for (int i = 0; i < points; i++)
        for (size_t l = 0; l < sizeof loops / sizeof *loops; l++)
            s[n++] = (tw_wave_sample){.grid = p[i].grid, .loops = loops[l], .time = time(p[i].grid, loops[l])};
    return n;
}

static tw_wave_model *fit(const tw_wave_sample *s, int n, int macros, tw_wave_options o) {
    static const int64_t slots[] = {SLOTS, SLOTS, SLOTS};
    tw_wave_model *m;
    tw_diag d;
    if (tw_wave_fit(&m, s, n, slots, macros, &o, &d) != TW_OK) fail_msg("%s", d.message);
    return m;
}

static void known_coefficients_are_found(void **state) {
    (void)state;
    static tw_wave_sample s[MOST];
    const int n = sample_all(s, known, WAVES);
    for (int absolute = 0; absolute < 2; absolute++) {
        tw_wave_model *m = fit(s, n, 1, (tw_wave_options){.absolute = absolute});
        for (int64_t g = 1; g < 3 * WAVES * SLOTS; g += 7)
            for (int64_t l = 1; l < 200; l += 33) near(tw_wave_time(m, 0, g, l), known(g, l), 1e-8);
        const tw_wave_quality q = tw_wave_judge(m, s, n);
        assert_int_equal(q.n, n);
        assert_true(q.r2 > 1 - 1e-12 && q.mean < 1e-9 && q.worst < 1e-8 && q.worst >= q.mean);
        tw_wave_free(m);
    }
    /* Of fewer waves the later ones follow the last ten. */
    tw_wave_model *m = fit(s, n, 1, (tw_wave_options){.waves = 5, .last = 1});
    near(tw_wave_time(m, 0, 5 * SLOTS, 40), known(5 * SLOTS, 40), 1e-9);
    const double w = 5, g = 9 * SLOTS, l = 40, want = (0.01 + 0.1 / w) * g * l + 0.02 * w * g + (3 + w) * l + 7 * w;
    near(tw_wave_time(m, 0, 9 * SLOTS, 40), want, 1e-8);
    tw_wave_free(m);
}

/* Of two times that are one to the step form, 10 and 1000, the relative error leans to the lower, and the absolute one
   is in the middle. */
static void errors_are_relative_unless_asked(void **state) {
    (void)state;
    static const tw_wave_sample s[] = {{0, 0, 7, 3, 10}, {0, 0, 8, 3, 1000}};
    tw_wave_model *relative = fit(s, 2, 1, (tw_wave_options){.form = TW_WAVE_STEP});
    tw_wave_model *absolute = fit(s, 2, 1, (tw_wave_options){.form = TW_WAVE_STEP, .absolute = true});
    near(tw_wave_time(relative, 0, 7, 3), 0.101 / 0.010001, 1e-9);
    near(tw_wave_time(absolute, 0, 7, 3), 505, 1e-9);
    tw_wave_free(relative);
    tw_wave_free(absolute);
}

/* What a wave's samples have alike says nothing of its slope. */
static void one_grid_says_nothing_of_others(void **state) {
    (void)state;
    static const tw_wave_sample s[] = {{0, 0, 33, 10, 12}, {0, 0, 33, 20, 22}, {0, 0, 33, 30, 32},
                                       {1, 0, 10, 7, 5},   {1, 0, 20, 7, 10},  {2, 0, 50, 5, 9}};
    tw_wave_model *m = fit(s, 6, 3, (tw_wave_options){0});
    near(tw_wave_time(m, 0, 132, 10), 12, 1e-9);
    near(tw_wave_time(m, 0, 1, 25), 27, 1e-9);
    near(tw_wave_time(m, 1, 30, 7), 15, 1e-9);
    near(tw_wave_time(m, 1, 30, 70), 15, 1e-9);
    near(tw_wave_time(m, 2, 3, 4), 9, 1e-9);
    tw_wave_free(m);
}

/* A wave without samples is as the next that has some, and later ones follow the last of those that have. */
static void waves_without_samples(void **state) {
    (void)state;
    static const tw_wave_sample s[] = {{0, 0, SLOTS, 4, 10},     {0, 0, SLOTS, 8, 20},     {0, 0, 4 * SLOTS, 4, 40},
                                       {0, 0, 4 * SLOTS, 8, 60}, {0, 0, 9 * SLOTS, 4, 90}, {0, 0, 9 * SLOTS, 8, 99}};
    static const struct {
        int waves, last;
        int64_t wave;
        double time; /* Of L 4. */
    } cases[] = {{0, 1, 1, 10},  {0, 1, 2, 40}, {0, 1, 4, 40}, {0, 1, 5, 90},   {0, 1, 9, 90},
                 {0, 1, 10, 90}, {5, 1, 5, 40}, {5, 1, 9, 40}, {0, 2, 14, 140}, {8, 2, 7, 70}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_wave_model *m = fit(s, 6, 1, (tw_wave_options){.waves = cases[i].waves, .last = cases[i].last});
        near(tw_wave_time(m, 0, cases[i].wave * SLOTS, 4), cases[i].time, 1e-9);
        tw_wave_free(m);
    }
}

/* The step form counts waves, and a time that is not above 0 is none. */
static void what_forms_say_beyond(void **state) {
    (void)state;
    static const tw_wave_sample s[] = {
        {0, 0, 5, 1, 10}, {0, 0, SLOTS + 5, 1, 20}, {1, 0, 10, 1, 30}, {1, 0, 20, 1, 10}};
    tw_wave_model *step = fit(s, 4, 2, (tw_wave_options){.form = TW_WAVE_STEP}),
                  *full = fit(s, 4, 2, (tw_wave_options){0});
    for (int64_t g = 1; g <= SLOTS; g += 10) {
        near(tw_wave_time(step, 0, g, 1), 10, 1e-9);
        near(tw_wave_time(step, 0, 6 * SLOTS + g, 1), 70, 1e-9);
    }
    near(tw_wave_time(full, 1, 15, 1), 20, 1e-9);
    assert_true(isinf(tw_wave_time(full, 1, 25, 1)) && isinf(tw_wave_time(full, 1, 100, 1)));
    const tw_wave_division d[] = {{0, 0}, {30, 1}};
    assert_int_equal(tw_wave_select(full, d).macro, -1);
    tw_wave_free(step);
    tw_wave_free(full);
}

/* Against numbers by hand: predictions 10 and 20 for times of 12 and 16, one that there is none for, and one that does
   not count. */
static void quality_is_what_it_says(void **state) {
    (void)state;
    static const tw_wave_sample s[] = {{0, 1, 10, 1, 10}, {0, 1, 20, 1, 20}, {1, 1, 10, 1, 30}, {1, 1, 20, 1, 10}};
    static const tw_wave_sample seen[] = {{0, 1, 10, 1, 12}, {0, 1, 20, 1, 16}, {1, 1, 40, 1, 5}, {0, 2, 10, 1, 1000}};
    tw_wave_model *m = fit(s, 4, 2, (tw_wave_options){0});
    const tw_wave_quality q = tw_wave_judge(m, seen, 4);
    assert_int_equal(q.n, 2);
    assert_int_equal(q.without, 1);
    near(q.mean, (2.0 / 12 + 4.0 / 16) / 2, 1e-9);
    near(q.worst, 0.25, 1e-9);
    near(q.r2, 1 - 20.0 / 8, 1e-9);
    assert_true(tw_wave_judge(m, seen, 1).r2 == 0);
    tw_wave_free(m);
}

/* Repeats are one measurement, and micro choices are compared grid by grid. */
static void repeats_weigh_as_one(void **state) {
    (void)state;
    static const tw_wave_sample s[] = {{0, 1, 10, 5, 10}, {0, 1, 20, 5, 20}, {0, 1, 20, 5, 20},
                                       {0, 1, 20, 5, 20}, {0, 2, 10, 5, 11}, {0, 2, 20, 5, 21}};
    for (int absolute = 0; absolute < 2; absolute++) {
        tw_wave_model *m = fit(s, 6, 1, (tw_wave_options){.absolute = absolute});
        assert_int_equal(tw_wave_micro(m, 0, 10, 5), 1);
        tw_wave_free(m);
    }
    /* Three times at one grid is not at more grids than two. */
    static const tw_wave_sample often[] = {
        {0, 1, 10, 5, 10}, {0, 1, 20, 5, 20}, {0, 2, 20, 5, 25}, {0, 2, 20, 5, 25}, {0, 2, 20, 5, 25}};
    tw_wave_model *m = fit(often, 5, 1, (tw_wave_options){0});
    assert_int_equal(tw_wave_micro(m, 0, 10, 5), 1);
    tw_wave_free(m);
    /* Twice as long at the short grid against a tenth more at the long one. */
    static const tw_wave_sample uneven[] = {{0, 1, 10, 5, 2}, {0, 1, 20, 5, 100}, {0, 2, 10, 5, 1}, {0, 2, 20, 5, 110}};
    tw_wave_model *relative = fit(uneven, 4, 1, (tw_wave_options){0});
    tw_wave_model *absolute = fit(uneven, 4, 1, (tw_wave_options){.absolute = true});
    assert_int_equal(tw_wave_micro(relative, 0, 10, 5), 2);
    assert_int_equal(tw_wave_micro(absolute, 0, 10, 5), 1);
    tw_wave_free(relative);
    tw_wave_free(absolute);
}

/* Micro parameters are those that are fastest for all grids of a wave and an L together, and were measured at all. */
static void micro_parameters_are_shared(void **state) {
    (void)state;
    static const tw_wave_sample s[] = {
        /* L 10: 1 is fastest at 10 alone, 2 at both together, and 3 was not measured at 20. */
        {0, 1, 10, 10, 8},
        {0, 1, 20, 10, 80},
        {0, 2, 10, 10, 10},
        {0, 2, 20, 10, 20},
        {0, 3, 10, 10, 1},
        /* L 30 */
        {0, 4, 10, 30, 30},
        {0, 4, 20, 30, 60},
        {0, 2, 10, 30, 40},
        {0, 2, 20, 30, 60},
        /* A wave of its own */
        {0, 9, 200, 10, 300},
    };
    enum { COUNT = sizeof s / sizeof *s };
    tw_wave_model *m = fit(s, COUNT, 2, (tw_wave_options){.last = 1});
    static const struct {
        int64_t grid, loops;
        int micro;
    } cases[] = {{10, 10, 2},  {132, 1, 2},  {20, 20, 2},  {20, 21, 4},
                 {1, 1000, 4}, {133, 10, 9}, {264, 99, 9}, {265, 30, 9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(tw_wave_micro(m, 0, cases[i].grid, cases[i].loops), cases[i].micro);
    near(tw_wave_time(m, 0, 15, 20), 15 * 20 * 0.1, 1e-9);
    near(tw_wave_time(m, 0, 200, 10), 300, 1e-9);
    assert_int_equal(tw_wave_judge(m, s, COUNT).n, 5);
    /* The other macro choice has no samples. */
    assert_int_equal(tw_wave_micro(m, 1, 10, 10), -1);
    assert_true(isinf(tw_wave_time(m, 1, 10, 10)));
    tw_wave_free(m);
}

static double fast_start(int64_t grid, int64_t loops) {
    return 1 + 0.02 * (double)(grid * loops);
}
static double slow_start(int64_t grid, int64_t loops) {
    return 50 + 0.01 * (double)(grid * loops);
}

static void the_fastest_is_selected(void **state) {
    (void)state;
    static tw_wave_sample s[2 * MOST];
    const int n = sample_all(s, fast_start, 6), more = sample_all(s + n, slow_start, 6);
    for (int i = n; i < n + more; i++) s[i].macro = s[i].micro = 1;
    tw_wave_model *m = fit(s, n + more, 3, (tw_wave_options){.last = 3});
    for (int64_t g = 1; g < 2000; g += 13)
        for (int64_t l = 1; l < 100; l += 7) {
            tw_wave_division d[3] = {{g, l}, {g, l}, {1, 1}};
            const double a = fast_start(g, l), b = slow_start(g, l);
            tw_wave_choice c = tw_wave_select(m, d);
            assert_int_equal(c.macro, a <= b ? 0 : 1);
            assert_int_equal(c.micro, c.macro);
            near(c.time, fmin(a, b), 1e-9);
            d[c.macro].grid = 0;
            c = tw_wave_select(m, d);
            assert_int_equal(c.macro, a <= b ? 1 : 0);
            d[c.macro].grid = 0;
            c = tw_wave_select(m, d);
            assert_true(c.macro == -1 && c.micro == -1);
        }
    tw_wave_free(m);
}

/* Blocks whose times differ by a tenth, on as many slots as a GPU has; starting the kernel takes some time, too. */
static double simulated(int64_t grid, int64_t loops) {
    tw_random r = tw_random_seed((uint64_t)(grid * 1000 + loops));
    double sum = 0, time;
    tw_diag d;
    for (int i = 0; i < 8; i++) {
        const double mean = 20 + 4 * (double)loops;
        assert_int_equal(tw_wave_simulate(SLOTS, grid, mean, mean / 10, &r, &time, &d), TW_OK);
        sum += 100 + time;
    }
    return sum / 8;
}

static void both_ideas_are_needed(void **state) {
    (void)state;
    static tw_wave_sample s[MOST], held[MOST];
    static const struct {
        tw_wave_form form;
        double least, most; /* Of the mean error in the first three waves. */
    } cases[] = {{TW_WAVE_FULL, 0, 0.01}, {TW_WAVE_LINEAR, 0.06, 1}, {TW_WAVE_STEP, 0.025, 1}};
    tw_random r = tw_random_seed(7);
    const int n = sample_all(s, simulated, 12);
    int early = 0, all = 0;
    for (; all < 200; all++) {
        const int64_t g = 20 + (int64_t)tw_random_below(&r, all < 100 ? 3 * SLOTS - 20 : 15 * SLOTS);
        const int64_t l = 16 + (int64_t)tw_random_below(&r, 64);
        held[all] = (tw_wave_sample){.grid = g, .loops = l, .time = simulated(g, l)};
        early += all < 100;
    }
    double errors[3];
    for (size_t i = 0; i < 3; i++) {
        tw_wave_model *m = fit(s, n, 1, (tw_wave_options){.form = cases[i].form});
        const tw_wave_quality q = tw_wave_judge(m, held, early);
        errors[i] = tw_wave_judge(m, held, all).mean;
        if (!(q.mean > cases[i].least && q.mean < cases[i].most)) fail_msg("form %d: %.4f", cases[i].form, q.mean);
        tw_wave_free(m);
    }
    assert_true(3 * errors[0] < errors[1] && 3 * errors[0] < errors[2]);
}

static double alone(int64_t blocks, double deviation) {
    double time;
    tw_random r = tw_random_seed(3);
    tw_diag d;
    assert_int_equal(tw_wave_simulate(SLOTS, blocks, 50, deviation, &r, &time, &d), TW_OK);
    return time;
}

/* Figure 4: without variance every wave is a step; with it steps fade as waves go by. */
static void waves_fade(void **state) {
    (void)state;
    for (int64_t g = 1; g < 20 * SLOTS; g += 5) near(alone(g, 0), (double)((g - 1) / SLOTS + 1) * 50, 1e-12);
    assert_true(alone(0, 0) == 0);
    const double deviation = sqrt(50), early = alone(SLOTS + 1, deviation) - alone(SLOTS, deviation);
    const double late = alone(40 * SLOTS + 1, deviation) - alone(40 * SLOTS, deviation);
    if (!(early > 10 && late < 5 && late >= 0)) fail_msg("steps of %.2f and then of %.2f", early, late);
    near(alone(40 * SLOTS, deviation), 40 * 50, 0.05);
}

static void what_is_no_sample_is_refused(void **state) {
    (void)state;
    static const int64_t slots[] = {SLOTS}, none[] = {0};
    static const tw_wave_sample wrong[] = {{-1, 0, 1, 1, 1},
                                           {1, 0, 1, 1, 1},
                                           {0, -1, 1, 1, 1},
                                           {0, 0, 0, 1, 1},
                                           {0, 0, 1, 0, 1},
                                           {0, 0, 1, 1, 0},
                                           {0, 0, 1, 1, (double)INFINITY},
                                           {0, 0, 1, 1, (double)NAN}};
    static const tw_wave_sample right = {0, 0, 1, 1, 1};
    const tw_wave_options o = {0};
    tw_wave_model *m;
    tw_diag d;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const tw_wave_sample two[] = {right, wrong[i]};
        assert_int_equal(tw_wave_fit(&m, two, 2, slots, 1, &o, &d), TW_ERR_USAGE);
        assert_string_equal(d.message, "sample 1 is out of range");
        assert_null(m);
    }
    assert_int_equal(tw_wave_fit(&m, &right, 1, none, 1, &o, &d), TW_ERR_USAGE);
    /* One sample is what there is to say of everything. */
    assert_int_equal(tw_wave_fit(&m, &right, 1, slots, 1, &o, &d), TW_OK);
    near(tw_wave_time(m, 0, 1, 1), 1, 1e-12);
    assert_int_equal(tw_wave_micro(m, 0, 1000, 7), 0);
    tw_wave_free(m);
    static const tw_wave_options negative[] = {{.waves = -1}, {.last = -1}};
    for (int i = 0; i < 4; i++) {
        const tw_wave_options *which = i < 2 ? &negative[i] : &o;
        assert_int_equal(tw_wave_fit(&m, &right, i == 2 ? -1 : 1, slots, i == 3 ? -1 : 1, which, &d), TW_ERR_USAGE);
        assert_null(m);
    }
    /* However many waves there are, those with samples count. */
    static const tw_wave_sample far[] = {{0, 0, INT64_C(1) << 40, 1, 7}, {0, 0, 1, 1, 3}};
    static const int64_t one[] = {1};
    assert_int_equal(tw_wave_fit(&m, far, 2, one, 1, &o, &d), TW_OK);
    near(tw_wave_time(m, 0, 1, 1), 3, 1e-9);
    near(tw_wave_time(m, 0, INT64_C(1) << 40, 1), 7, 1e-9);
    tw_wave_free(m);
    assert_int_equal(tw_wave_fit(&m, NULL, 0, NULL, 0, &o, &d), TW_OK);
    assert_int_equal(tw_wave_select(m, NULL).macro, -1);
    tw_wave_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_the_papers),
        cmocka_unit_test(any_part_has_a_point),
        cmocka_unit_test(points_of_heads_divide),
        cmocka_unit_test(points_of_groups_divide),
        cmocka_unit_test(known_coefficients_are_found),
        cmocka_unit_test(errors_are_relative_unless_asked),
        cmocka_unit_test(one_grid_says_nothing_of_others),
        cmocka_unit_test(waves_without_samples),
        cmocka_unit_test(what_forms_say_beyond),
        cmocka_unit_test(quality_is_what_it_says),
        cmocka_unit_test(repeats_weigh_as_one),
        cmocka_unit_test(micro_parameters_are_shared),
        cmocka_unit_test(the_fastest_is_selected),
        cmocka_unit_test(both_ideas_are_needed),
        cmocka_unit_test(waves_fade),
        cmocka_unit_test(what_is_no_sample_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
