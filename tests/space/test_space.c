/* SPDX-License-Identifier: Apache-2.0 */
/* A space of 144 points, in which everything can be counted by hand. */
#include "space/space_checks.h"

#include <math.h>
#include <stdlib.h>

typedef struct toy {
    int a;
    int64_t b;
    bool flag;
    int color, depth, seed;
} toy;

static const char *const colors[] = {"red", "green", "blue", NULL};
static const tw_param params[] = {
    {.name = "a",
     .role = TW_SPACE_MACRO,
     .form = TW_SPACE_INT32,
     .at = offsetof(toy, a),
     .most = 99,
     .values = (const int[]){1, 2, 4, 8},
     .n_values = 4,
     .meaning = "rows"},
    {.name = "b",
     .role = TW_SPACE_MACRO,
     .form = TW_SPACE_INT64,
     .at = offsetof(toy, b),
     .least = 5,
     .most = 1LL << 40,
     .values = (const int[]){30, 20, 10},
     .n_values = 3},
    {.name = "seed", .role = TW_SPACE_GIVEN, .form = TW_SPACE_INT32, .at = offsetof(toy, seed), .most = 1000},
    {.name = "flag", .role = TW_SPACE_MICRO, .form = TW_SPACE_FLAG, .at = offsetof(toy, flag)},
    {.name = "color",
     .role = TW_SPACE_MICRO,
     .form = TW_SPACE_WORD,
     .at = offsetof(toy, color),
     .words = colors,
     .codes = (const int[]){5, 9, 7}},
    {.name = "depth",
     .object = "inner",
     .role = TW_SPACE_MICRO,
     .form = TW_SPACE_INT32,
     .at = offsetof(toy, depth),
     .most = 9,
     .values = (const int[]){0, 3},
     .n_values = 2},
};
enum { POINTS = 4 * 3 * 2 * 3 * 2, PARAMS = 6 };

/* At most so many cells; blue is for flags. */
static tw_status legal(const void *context, const void *config, tw_diag *diag) {
    const toy *t = config;
    if (t->a * t->b <= *(const int *)context && (t->color != 7 || t->flag)) return TW_OK;
    if (diag) snprintf(diag->message, sizeof diag->message, "too large");
    return TW_ERR_USAGE;
}

/* Without the flag there is no depth. */
static void plain(const void *context, void *config) {
    toy *t = config;
    (void)context;
    if (!t->flag) t->depth = 0;
}

static const tw_space space = {
    .name = "toy", .example = "a=4", .params = params, .n = PARAMS, .bytes = sizeof(toy), .legal = legal};
static const int limit = 90;

static tw_space plainly(void) {
    tw_space s = space;
    s.plain = plain;
    return s;
}

/* The points by loops over the values above, the first parameter's outermost; `seen` of each says how often. */
static int by_loops(toy all[POINTS]) {
    static const int a[] = {1, 2, 4, 8}, b[] = {30, 20, 10}, color[] = {5, 9, 7}, depth[] = {0, 3};
    int n = 0;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++)
            for (int f = 0; f < 2; f++)
                for (int k = 0; k < 3; k++)
                    for (int l = 0; l < 2; l++) all[n++] = (toy){a[i], b[j], f, color[k], depth[l], 77};
    return n;
}

static void points_are_numbered(void **state) {
    (void)state;
    toy all[POINTS];
    uint64_t n;
    assert_int_equal(by_loops(all), POINTS);
    assert_int_equal(tw_space_points(&space, TW_SPACE_ROLES), POINTS);
    assert_int_equal(tw_space_points(&space, TW_SPACE_MACRO), 12);
    assert_int_equal(tw_space_points(&space, TW_SPACE_MICRO), 12);
    for (int i = 0; i < POINTS; i++) {
        toy t = {.seed = 77};
        assert_true(tw_space_point(&space, (uint64_t)i, &t));
        if (!tw_space_same(&space, &t, &all[i])) fail_msg("point %d is another", i);
        assert_true(t.color == all[i].color && t.b == all[i].b);
        assert_true(tw_space_index(&space, &t, &n));
        assert_int_equal(n, i);
    }
    toy t = all[3];
    assert_false(tw_space_point(&space, POINTS, &t));
    t.a = 3;
    assert_false(tw_space_index(&space, &t, &n));
    /* Each role has its own. */
    tw_space macro = space;
    macro.n = 2;
    assert_int_equal(tw_space_points(&macro, TW_SPACE_MACRO), 12);
    assert_int_equal(tw_space_points(&macro, TW_SPACE_MICRO), 1);
    /* Configurations are the same where every parameter is. */
    for (int i = 0; i < PARAMS; i++) {
        toy other = all[0];
        assert_true(tw_space_same(&space, &other, &all[0]));
        tw_space_set(&space, &other, i, tw_space_get(&space, &other, i) ? 0 : 1);
        assert_false(tw_space_same(&space, &other, &all[0]));
    }
}

static void too_many_points_are_not_a_small_number(void **state) {
    (void)state;
    static int values[1000];
    tw_param many[8];
    for (int i = 0; i < 8; i++)
        many[i] = (tw_param){.name = "x", .form = TW_SPACE_INT32, .values = values, .n_values = 1000};
    const tw_space s = {.params = many, .n = 8}, less = {.params = many, .n = 6};
    assert_true(tw_space_points(&s, TW_SPACE_ROLES) == UINT64_MAX);
    assert_true(tw_space_points(&less, TW_SPACE_ROLES) == 1000000000000000000);
}

static void legal_ones_are_counted(void **state) {
    (void)state;
    toy all[POINTS];
    by_loops(all);
    const toy given = {.seed = 1};
    tw_random r = tw_random_seed(1);
    for (int most = 0; most <= 240; most += 30) {
        int want = 0;
        for (int i = 0; i < POINTS; i++) want += legal(&most, &all[i], NULL) == TW_OK;
        const tw_space_size exact = tw_space_count_legal(&space, &most, &given, POINTS, &r);
        assert_true(exact.exact && exact.judged == POINTS && exact.error == 0);
        assert_int_equal((int)exact.legal, want);
        const tw_space_size about = tw_space_count_legal(&space, &most, &given, POINTS - 1, &r);
        assert_true(!about.exact && about.judged == POINTS - 1);
        assert_true(fabs(about.legal - want) <= 4 * about.error);
        /* That of a share p of n draws is sqrt(p (1 - p) / n). */
        const double p = about.legal / POINTS;
        assert_true(fabs(about.error - POINTS * sqrt(p * (1 - p) / (POINTS - 1))) < 1e-9);
    }
    /* A space in which nothing is illegal. */
    tw_space s = space;
    s.legal = NULL;
    assert_int_equal((int)tw_space_count_legal(&s, NULL, &given, 1000, &r).legal, POINTS);
}

static void draws_are_uniform(void **state) {
    (void)state;
    enum { EACH = 400 };
    toy all[POINTS], t = {.seed = 5};
    int times[POINTS] = {0}, n_legal = 0;
    uint64_t n;
    tw_random r = tw_random_seed(2);
    by_loops(all);
    for (int i = 0; i < POINTS; i++) n_legal += legal(&limit, &all[i], NULL) == TW_OK;
    assert_true(n_legal > 20 && n_legal < POINTS);
    for (int i = 0; i < n_legal * EACH; i++) {
        assert_true(tw_space_draw(&space, &limit, NULL, &r, 1000, &t));
        assert_true(t.seed == 5 && tw_space_index(&space, &t, &n));
        times[n]++;
    }
    for (int i = 0; i < POINTS; i++) {
        const bool ok = legal(&limit, &all[i], NULL) == TW_OK;
        /* Six times the standard deviation. */
        if (ok ? abs(times[i] - EACH) > 6 * 20 : times[i] > 0) fail_msg("point %d was drawn %d times", i, times[i]);
    }
}

static void draws_are_spelt_plainly(void **state) {
    (void)state;
    const tw_space s = plainly();
    tw_random r = tw_random_seed(3);
    int flags = 0, deep = 0;
    toy t = {0};
    for (int i = 0; i < 2000; i++) {
        assert_true(tw_space_draw(&s, &limit, NULL, &r, 1000, &t));
        assert_true(t.flag || !t.depth);
        flags += t.flag;
        deep += t.depth > 0;
    }
    /* Of five legal pairs of flag and color three have the flag. */
    assert_true(abs(flags - 1200) < 150 && abs(deep - flags / 2) < 150);
}

static void what_is_kept_stays(void **state) {
    (void)state;
    int64_t keep[PARAMS] = {-1, 20, -1, 1, -1, -1};
    tw_random r = tw_random_seed(4), same = r;
    toy t = {0}, free_one = {0};
    for (int i = 0; i < 200; i++) {
        assert_true(tw_space_draw(&space, &limit, keep, &r, 1000, &t));
        assert_true(t.b == 20 && t.flag && t.a <= 4);
    }
    /* The others get what they would get anyway. */
    r = same;
    const int everything = 1 << 20;
    keep[3] = -1;
    for (int i = 0; i < 50; i++) {
        tw_space s = space;
        s.legal = NULL;
        assert_true(tw_space_draw(&s, &everything, keep, &r, 1, &t));
        assert_true(tw_space_draw(&s, &everything, NULL, &same, 1, &free_one));
        free_one.b = 20;
        assert_true(tw_space_same(&space, &t, &free_one));
    }
    /* So may a value of 0. */
    int64_t no_flag[PARAMS] = {-1, -1, -1, 0, -1, -1};
    for (int i = 0; i < 50; i++) assert_true(tw_space_draw(&space, &limit, no_flag, &r, 1000, &t) && !t.flag);
    /* A value that is not enumerated may be kept; one that is not legal is never drawn. */
    keep[1] = 6;
    assert_true(tw_space_draw(&space, &limit, keep, &r, 1000, &t) && t.b == 6);
    keep[1] = 1000;
    assert_false(tw_space_draw(&space, &limit, keep, &r, 1000, &t));
    assert_false(tw_space_draw(&space, &limit, NULL, &r, 0, &t));
}

static void variations_are_near(void **state) {
    (void)state;
    const tw_space s = plainly();
    const int64_t keep[PARAMS] = {-1, -1, -1, -1, 9, -1};
    tw_random r = tw_random_seed(6);
    int moved = 0, far = 0;
    for (int i = 0; i < 3000; i++) {
        const toy from = {.a = 1, .b = 20, .flag = i & 1, .color = 9, .seed = 8};
        toy t = from;
        uint64_t n;
        tw_space_vary(&s, &limit, keep, &r, &t);
        assert_true(tw_space_index(&space, &t, &n) && t.seed == 8 && t.color == 9 && (t.flag || !t.depth));
        int changed = 0;
        for (int j = 0; j < PARAMS; j++) changed += tw_space_get(&s, &t, j) != tw_space_get(&s, &from, j);
        assert_true(changed <= 3);
        moved += changed > 0;
        far += t.a > 2;
    }
    assert_true(moved > 1200 && far > 30 && far < moved / 6);
    /* Both neighbours come up, and more often than what is farther. */
    const int64_t all_but_a[PARAMS] = {-1, 20, -1, 0, 9, 0};
    int times[9] = {0};
    for (int i = 0; i < 3000; i++) {
        toy t = {.a = 2, .b = 20, .color = 9};
        tw_space_vary(&s, &limit, all_but_a, &r, &t);
        times[t.a]++;
    }
    assert_true(times[1] > 2 * times[8] && times[4] > 2 * times[8] && times[8] > 10);
    /* A value that is none of those goes to one of them, any. */
    bool seen[9] = {false};
    for (int i = 0; i < 1000; i++) {
        toy t = {.a = 3, .b = 20, .color = 9};
        tw_space_vary(&s, &limit, keep, &r, &t);
        if (t.a != 3) seen[t.a] = true;
    }
    assert_true(seen[1] && seen[2] && seen[4] && seen[8]);
}

static void words_say_all(void **state) {
    (void)state;
    const toy t = {4, 1LL << 33, true, 7, 3, 12};
    char text[200];
    tw_space_print(&space, &t, text, sizeof text);
    assert_string_equal(text, "a=4 b=8589934592 seed=12 flag=true color=blue inner.depth=3");
    for (size_t size = 1; size < sizeof text; size++) {
        char cut[200];
        tw_space_print(&space, &t, cut, size);
        assert_true(strlen(cut) == (strlen(text) < size ? strlen(text) : size - 1) && !strncmp(cut, text, strlen(cut)));
    }
    toy back = {.a = 1, .b = 5, .color = 5, .seed = 3};
    tw_diag d;
    assert_int_equal(tw_space_parse(&space, &back, ",color=green,  b=77 ", &d), TW_OK);
    assert_true(back.color == 9 && back.b == 77 && back.a == 1 && back.seed == 3);
    assert_int_equal(tw_space_parse(&space, &back, "a=99", &d), TW_OK);
    assert_int_equal(tw_space_parse(&space, &back, "a=0 b=5", &d), TW_OK);
    assert_true(back.a == 0 && back.b == 5);
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"a=1 b=4", "\"b=4\": the value is not a number within 5..1099511627776"},
        {"a=", "\"a=\": the value is not a number within 0..99"},
        {"a=1x", "\"a=1x\": the value is not a number within 0..99"},
        {"a=100", "\"a=100\": the value is not a number within 0..99"},
        {"flag=1", "\"flag=1\": the value is not true or false"},
        {"color=re", "\"color=re\": the value is not red, green or blue"},
        {"color=reds", "\"color=reds\": the value is not red, green or blue"},
        {"depth=3", "\"depth=3\" is not a parameter's name and value, like a=4"},
        {"inner.a=3", "\"inner.a=3\" is not"},
        {"inner=3", "\"inner=3\" is not"},
        {"inner", "\"inner\" is not"},
        {"a", "\"a\" is not"},
        {"other.depth=3", "\"other.depth=3\" is not"},
        {"innerxdepth=3", "\"innerxdepth=3\" is not"},
        {"a 4", "\"a\" is not"},
        {"aa=4", "\"aa=4\" is not"},
        {"=4", "\"=4\" is not"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (tw_space_parse(&space, &back, bad[i].text, &d) != TW_ERR_USAGE || !strstr(d.message, bad[i].why))
            fail_msg("%s: %s", bad[i].text, d.message);
}

static void json_says_all(void **state) {
    (void)state;
    const toy t = {4, 6, false, 9, 3, 12};
    tw_buf out = {0};
    tw_space_put_json(&space, &t, &out);
    assert_string_equal(out.data, "{\n  \"a\": 4,\n  \"b\": 6,\n  \"seed\": 12,\n  \"flag\": false,\n"
                                  "  \"color\": \"green\",\n  \"inner\": {\n    \"depth\": 3\n  }\n}\n");
    tw_buf_clear(&out);
    tw_space_put_schema(&space, &out);
    assert_non_null(strstr(out.data, "\"title\": \"toy\""));
    assert_non_null(strstr(out.data,
                           "\n    \"a\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 99, \"default\": 0,"
                           " \"description\": \"rows\"},\n"));
    assert_non_null(strstr(out.data, "\"color\": {\"enum\": [\"red\", \"green\", \"blue\"], \"default\": \"red\"}"));
    assert_non_null(strstr(out.data, "\"flag\": {\"type\": \"boolean\", \"default\": false}"));
    tw_buf_free(&out);
    /* A file that is wrong somewhere sets nothing, in other objects neither. */
    char *folder = test_folder_make(), path[4096];
    static const char *const bad[] = {"{\"a\": 2, \"b\": 1}", "{\"a\": 2, \"inner\": {\"depth\": 10}}",
                                      "{\"inner\": {\"depth\": 0}, \"depth\": 0}"};
    snprintf(path, sizeof path, "%s/c.json", folder);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        toy back = t;
        tw_diag d;
        assert_int_equal(tw_file_write(path, bad[i], strlen(bad[i]), &d), TW_OK);
        assert_int_equal(tw_space_read_json(&space, &back, path, &d), TW_ERR_FORMAT);
        assert_memory_equal(&back, &t, sizeof t);
    }
    test_folder_remove(folder);
}

static void a_toy_is_a_space(void **state) {
    (void)state;
    const toy given = {.a = 1, .b = 10, .color = 5, .seed = 9};
    const tw_space s = plainly();
    check_space(&space, &limit, &given, 60, 1000);
    check_space(&s, &limit, &given, 60, 1000);
    assert_string_equal(tw_space_role_name(TW_SPACE_MACRO), "macro");
    assert_string_equal(tw_space_role_name(TW_SPACE_MICRO), "micro");
    assert_string_equal(tw_space_role_name(TW_SPACE_GIVEN), "given");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_numbered),     cmocka_unit_test(too_many_points_are_not_a_small_number),
        cmocka_unit_test(legal_ones_are_counted),  cmocka_unit_test(draws_are_uniform),
        cmocka_unit_test(draws_are_spelt_plainly), cmocka_unit_test(what_is_kept_stays),
        cmocka_unit_test(variations_are_near),     cmocka_unit_test(words_say_all),
        cmocka_unit_test(json_says_all),           cmocka_unit_test(a_toy_is_a_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
