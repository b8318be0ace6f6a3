/* SPDX-License-Identifier: Apache-2.0 */
/* Formats of other autotuners: what is written is read bit for bit; what Kernel Tuner wrote is read; what is wrong is
   refused with its place; conditions are computed as Python computes them. */
#define _POSIX_C_SOURCE 200809L
#include "support/support.h"

#include "base/file.h"
#include "base/random.h"
#include "tune/condition.h"
#include "tune/interchange.h"
#include "tune/interchange_parts.h"
#include "tune/lines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DATA TW_SOURCE_DIR "/tests/data/kernel_tuner/"

/* Collects measurements as lines. */
static tw_status collect(void *context, const tw_measurement *m, tw_diag *diag) {
    return tw_lines_write(context, m, diag);
}

static tw_status read(const char *text, const tw_interchange_names *names, tw_buf *lines, tw_diag *diag) {
    return tw_interchange_read(text, strlen(text), "f", names, collect, lines, diag);
}

/* ---- round trips */

enum { MANY = 60 };

typedef struct drawn {
    tw_measurement m;
    char key[20], config[100];
    double samples[12];
} drawn;

static void draw(drawn *d, tw_random *random, int i) {
    static const char *const last[] = {"0.5", "1e+20", "True", "own", "007", "1e20", "None", "-3"};
    const tw_status st = i % 5 ? TW_OK : (tw_status)(1 + i / 5 % TW_ERR_MISMATCH);
    for (int k = 0; k < 12; k++) d->samples[k] = tw_random_unit(random) * 1000;
    snprintf(d->key, sizeof d->key, "k %d", i);
    snprintf(d->config, sizeof d->config, "ml=%d %s=%s", 16 << i % 3, i % 7 ? "x" : "\xc3\xa9", last[i / 3 % 8]);
    d->m = (tw_measurement){.key = i % 2 ? d->key : NULL,
                            .environment = "{\"device\": \"A\", \"sms\": 132}",
                            .space = "gemm",
                            .problem = "type=f32 m=3 n=4",
                            .config = d->config,
                            .protocol = i % 3 ? "samples=3" : "samples=1 caches=cold",
                            .unit = i % 13 ? "us" : "J",
                            .status = st,
                            .message = st == TW_OK ? "" : "what went \"wrong\"",
                            .samples = d->samples,
                            .n = st == TW_OK ? 1 + i % 12 : 0,
                            .clock_mhz = i % 4 ? 0 : tw_random_unit(random) * 2000,
                            .watts = i % 3 ? 0 : tw_random_unit(random) * 700,
                            .began = 1700000000123456789 + i};
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the lines of a text: a cache has measurements of a configuration together. */
static void sort_lines(tw_buf *b) {
    char *lines[MANY + 1], *copy = strdup(b->data);
    int n = 0;
    for (char *at = strtok(copy, "\n"); at; at = strtok(NULL, "\n")) lines[n++] = at;
    qsort(lines, (size_t)n, sizeof *lines, by_text);
    tw_buf_clear(b);
    for (int i = 0; i < n; i++) tw_buf_printf(b, "%s\n", lines[i]);
    free(copy);
}

/* Leaves keys out: those of measurements without one are made when lines are read. */
static void write_line(tw_buf *out, const drawn *d) {
    tw_line l;
    tw_diag diag;
    tw_buf b = {0};
    assert_int_equal(tw_lines_write(&b, &d->m, &diag), TW_OK);
    assert_int_equal(tw_lines_read(&l, b.data, b.size - 1, "f", 1, &diag), TW_OK);
    assert_int_equal(tw_lines_write(out, &l.m, &diag), TW_OK);
    tw_lines_free(&l);
    tw_buf_free(&b);
}

static void files_are_read_as_they_were(void **state) {
    (void)state;
    tw_random random = tw_random_seed(4);
    drawn *all = calloc(MANY, sizeof *all);
    json_t *array = NULL;
    tw_buf was = {0};
    tw_diag d;
    for (int i = 0; i < MANY; i++) {
        draw(&all[i], &random, i);
        write_line(&was, &all[i]);
        assert_int_equal(tw_interchange_add(&array, &all[i].m, &d), TW_OK);
    }
    sort_lines(&was);
    for (int cache = 0; cache < 2; cache++) {
        tw_buf file = {0}, is = {0};
        assert_int_equal((cache ? tw_interchange_write_cache : tw_interchange_write_t4)(&file, array, &d), TW_OK);
        assert_int_equal(tw_interchange_detect(file.data, file.size), cache ? TW_INTERCHANGE_CACHE : TW_INTERCHANGE_T4);
        if (read(file.data, NULL, &is, &d) != TW_OK) fail_msg("%s", d.message);
        sort_lines(&is);
        assert_string_equal(was.data, is.data);
        tw_buf_free(&file);
        tw_buf_free(&is);
    }
    json_decref(array);
    tw_buf_free(&was);
    free(all);
}

/* One configuration's measurement, of a single sample of 1 us. */
static const double one = 1;
static const tw_measurement plain = {.environment = "{\"device\": \"A\"}",
                                     .space = "s",
                                     .problem = "p=1",
                                     .config = "a=1",
                                     .protocol = "",
                                     .unit = "us",
                                     .message = "",
                                     .samples = &one,
                                     .n = 1};

static void a_file_has_one_problem(void **state) {
    (void)state;
    tw_measurement other[3] = {plain, plain, plain};
    static const char *const flags[] = {"--environment '{\"device\": \"A\"}'", "--space 's'", "--problem 'p=1'"};
    other[0].environment = "{\"device\": \"B\"}";
    other[1].space = other[2].problem = "other";
    tw_buf out = {0};
    tw_diag d;
    for (int i = 0; i < 3; i++) {
        json_t *all = NULL;
        assert_int_equal(tw_interchange_add(&all, &plain, &d), TW_OK);
        assert_int_equal(tw_interchange_add(&all, &other[i], &d), TW_ERR_USAGE);
        assert_non_null(strstr(d.message, flags[i]));
        json_decref(all);
    }
    assert_int_equal(tw_interchange_write_cache(&out, NULL, &d), TW_ERR_USAGE);
    assert_int_equal(tw_interchange_write_t4(&out, NULL, &d), TW_OK);
    tw_buf_free(&out);
}

/* Of several measurements of a configuration the one with the most samples is what Kernel Tuner sees. */
static void entries_have_the_most_samples(void **state) {
    (void)state;
    const double few[] = {9000}, many[] = {1000, 2000, 6000};
    tw_measurement m = plain;
    m.problem = "p";
    m.config = "a=2 b=x";
    m.message = "no";
    m.status = TW_ERR_UNSUPPORTED;
    m.n = 0;
    json_t *all = NULL;
    tw_buf out = {0};
    tw_diag d;
    for (int i = 0; i < 4; i++) {
        if (i == 1) m.samples = many, m.n = 3, m.status = TW_OK, m.message = "";
        if (i == 2) m.samples = few, m.n = 1;
        if (i == 3) m.config = "a=1", m.n = 0, m.status = TW_ERR_REJECTED;
        assert_int_equal(tw_interchange_add(&all, &m, &d), TW_OK);
    }
    assert_int_equal(tw_interchange_write_cache(&out, all, &d), TW_OK);
    json_t *o = json_loads(out.data, 0, NULL), *entry = json_object_get(json_object_get(o, "cache"), "2,x");
    assert_true(json_real_value(json_object_get(entry, "time")) == 3);
    assert_int_equal(json_array_size(json_object_get(entry, "times")), 3);
    assert_null(json_object_get(entry, "__error__"));
    entry = json_object_get(json_object_get(o, "cache"), "1,None");
    assert_true(json_is_null(json_object_get(entry, "b")));
    assert_string_equal(json_string_value(json_object_get(entry, "__error__")), "InvalidConfig");
    char *values = json_dumps(json_object_get(o, "tune_params"), 0),
         *sizes = json_dumps(json_object_get(o, "problem_size"), 0);
    assert_string_equal(values, "{\"a\": [1, 2], \"b\": [\"x\", null]}");
    assert_string_equal(sizes, "[1]");
    assert_string_equal(out.data + out.size - 5, "}}\n}\n");
    free(values);
    free(sizes);
    json_decref(o);
    json_decref(all);
    tw_buf_free(&out);
}

/* Other autotuners have energies in joules. */
static void energies_are_joules(void **state) {
    (void)state;
    const double samples[] = {1e6, 3e6};
    tw_measurement m = plain;
    m.unit = "uJ";
    m.samples = samples;
    m.n = 2;
    json_t *all = NULL;
    tw_buf t4 = {0}, cache = {0};
    tw_diag d;
    assert_int_equal(tw_interchange_add(&all, &m, &d), TW_OK);
    assert_int_equal(tw_interchange_write_t4(&t4, all, &d), TW_OK);
    assert_int_equal(tw_interchange_write_cache(&cache, all, &d), TW_OK);
    json_t *result = json_loads(t4.data, 0, NULL), *o = json_loads(cache.data, 0, NULL), *values;
    values = json_object_get(json_array_get(json_object_get(result, "results"), 0), "measurements");
    char *text = json_dumps(values, 0), *objective = json_dumps(json_object_get(o, "objective"), 0);
    assert_string_equal(text, "[{\"name\": \"energy\", \"value\": 2.0, \"unit\": \"J\"}]");
    assert_string_equal(objective, "[\"nvml_energy\"]");
    const json_t *entry = json_object_get(json_object_get(o, "cache"), "1");
    assert_true(json_real_value(json_object_get(entry, "nvml_energy")) == 2);
    free(text);
    free(objective);
    json_decref(result);
    json_decref(o);
    json_decref(all);
    tw_buf_free(&t4);
    tw_buf_free(&cache);
}

/* ---- files of others */

static int count(const char *text, const char *part) {
    int n = 0;
    for (; (text = strstr(text, part)); text++) n++;
    return n;
}

static void files_of_kernel_tuner_are_read(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int right, failed;
        const char *first;
    } files[] = {{DATA "cache.json", 4, 2,
                  "\"space\": \"scale\", \"problem\": \"x=4096\", \"config\": {\"block_size_x\": 64, "
                  "\"FACTOR\": \"0.5\", \"FAULT\": 0}"},
                 {DATA "open.json", 3, 2, "\"FACTOR\": \"1e+20\", \"FAULT\": 1"},
                 {DATA "t4.json", 4, 2, "\"device\": \"A processor\"}, \"space\": \"scale\", \"problem\": \"x=4096\""}};
    tw_t1 t1;
    tw_diag d;
    assert_int_equal(tw_t1_read(&t1, DATA "t1.json", &d), TW_OK);
    const tw_interchange_names names = {.space_of = &t1};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        tw_buf text = {0}, lines = {0};
        assert_int_equal(tw_file_read(&text, files[i].path, &d), TW_OK);
        if (read(text.data, &names, &lines, &d) != TW_OK) fail_msg("%s: %s", files[i].path, d.message);
        assert_int_equal(count(lines.data, "\"status\": \"right\""), files[i].right);
        assert_int_equal(count(lines.data, "\"status\": \"unsupported\", \"samples\": []"), files[i].failed);
        assert_non_null(strstr(lines.data, files[i].first));
        tw_buf_free(&text);
        tw_buf_free(&lines);
    }
    tw_t1_free(&t1);
}

#define CACHE(entries)                                                                                                 \
    "{\"device_name\": \"D\", \"kernel_name\": \"k\", \"problem_size\": [5, 6, 7, 8], \"tune_params_keys\": [\"a\", "  \
    "\"b\"], \"cache\": {" entries "}}"
#define T4(results)  "{\"results\": [" results "], \"schema_version\": \"1.0.0\"}"
#define RESULT(rest) "{\"configuration\": {\"a\": 1}, \"times\": {\"runtimes\": []}, \"correctness\": 1, " rest "}"

static void figures_of_others_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text, *has;
    } cases[] = {
        {CACHE("\"1,2\": {\"a\": 1, \"b\": 2, \"time\": 0.25}"), "\"problem\": \"x=5 y=6 z=7 d3=8\""},
        {CACHE("\"1,2\": {\"a\": 1, \"b\": 2, \"time\": 0.25}"), "\"samples\": [250.0]"},
        {CACHE("\"1,2\": {\"a\": 1, \"b\": 2, \"time\": 9, \"times\": [0.5, 2]}"), "\"samples\": [500.0, 2000.0]"},
        {CACHE("\"1,2\": {\"a\": 1, \"b\": 2, \"time\": \"InvalidConfig\"}"), "\"status\": \"rejected\""},
        {CACHE("\"1,2\": {\"a\": 1, \"b\": 2, \"__error__\": \"RuntimeFailedConfig\"}"), "\"status\": \"io\""},
        {CACHE("\"1,2\": {\"a\": 1, \"b\": 2, \"__error__\": \"RuntimeFailedConfig\"}"),
         "\"message\": \"RuntimeFailedConfig\""},
        {CACHE("\"1,\": {\"a\": 1.0, \"b\": null, \"time\": 1}"), "\"config\": {\"a\": \"1.0\"}"},
        {CACHE("\"1,\": {\"a\": true, \"b\": 1e-7, \"time\": 1}"), "\"config\": {\"a\": \"True\", \"b\": \"1e-07\"}"},
        {CACHE("\"1,\": {\"a\": 123456.75, \"b\": 0.1, \"time\": 1}"),
         "\"config\": {\"a\": \"123456.75\", \"b\": \"0.1\"}"},
        {CACHE("\"1,\": {\"a\": 1, \"b\": 2, \"time\": 1, \"timestamp\": \"1970-01-01 01:00:01.25+01:00\"}"),
         "\"began_ns\": 1250000000"},
        {CACHE("\"1,\": {\"a\": 1, \"b\": 2, \"time\": 1, \"timestamp\": \"1970-01-02T00:00:00Z\", \"core_freq\": 1.5, "
               "\"nvml_power\": 7}"),
         "\"began_ns\": 86400000000000, \"clock_mhz\": 1.5, \"watts\": 7.0"},
        {T4(RESULT("\"invalidity\": \"timeout\"")), "\"message\": \"timeout\""},
        {T4(RESULT("\"invalidity\": \"constraints\"")), "\"status\": \"rejected\""},
        {T4(RESULT("\"invalidity\": \"correctness\"")), "\"status\": \"wrong\""},
        {T4(RESULT(
             "\"invalidity\": \"correct\", \"measurements\": [{\"name\": \"time\", \"value\": 3, \"unit\": \"s\"}]")),
         "\"samples\": [3000000.0]"},
        {T4(RESULT(
             "\"invalidity\": \"correct\", \"measurements\": [{\"name\": \"time\", \"value\": 3, \"unit\": \"\"}]")),
         "\"samples\": [3000.0]"},
    };
    const tw_interchange_names names = {.device = "D", .space = "s"},
                               t4 = {.device = "D", .space = "s", .problem = "p=1"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_buf lines = {0};
        tw_diag d;
        if (read(cases[i].text, strstr(cases[i].text, "results") ? &t4 : &names, &lines, &d) != TW_OK)
            fail_msg("%s: %s", cases[i].text, d.message);
        if (!strstr(lines.data, cases[i].has)) fail_msg("%s is not in %s", cases[i].has, lines.data);
        tw_buf_free(&lines);
    }
}

static void results_become_trials(void **state) {
    (void)state;
    const tw_interchange_names names = {.campaign = "kt", .problem = "m=5"};
    tw_buf lines = {0};
    tw_diag d;
    assert_int_equal(read(CACHE("\"1,2\": {\"a\": 1, \"b\": 2, \"time\": 0.25}"), &names, &lines, &d), TW_OK);
    assert_non_null(strstr(lines.data, "\"key\": \"kt|spread|m=5|a=1 b=2\""));
    tw_buf_free(&lines);
}

static void wrong_files_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{}", "neither T4 nor"},
        {"{\"cache\": 1}", "\"tune_params_keys\" is no list of names"},
        {"{\"tune_params_keys\": [1], \"cache\": {}}", "\"tune_params_keys\" is no list of names"},
        {"{\"tune_params_keys\": [\"a\"], \"cache\": []}", "\"cache\" is no object"},
        {"{\"tune_params_keys\": [\"a\"], \"device_name\": \"d\", \"cache\": {}}",
         "does not say its space: say it with --space"},
        {"{\"tune_params_keys\": [\"a\"], \"device_name\": \"d\", \"kernel_name\": \"k\", \"problem_size\": "
         "\"callable\", \"cache\": {}}",
         "does not say its problem: say it with --problem"},
        {CACHE("\"1,2\": 3"), "cache \"1,2\" is no object"},
        {CACHE("\"1,2\": {\"a\": 1, \"time\": 1}"), "cache \"1,2\": it has no value of \"b\""},
        {CACHE("\"1,2\": {\"a\": [], \"b\": 1, \"time\": 1}"), "cache \"1,2\": parameter \"a\" is no number or word"},
        {CACHE("\"1,2\": {\"a\": \"x y\", \"b\": 1, \"time\": 1}"), "parameter \"a\" is no number or word"},
        {CACHE("\"1,2\": {\"a\": \"\", \"b\": 1, \"time\": 1}"), "parameter \"a\" is no number or word"},
        {CACHE("\"1,2\": {\"a\": 1, \"b\": 1}"), "cache \"1,2\": its times are no numbers"},
        {CACHE("\"1,2\": {\"a\": 1, \"b\": 1, \"times\": [1, \"x\"]}"), "its times are no numbers"},
        {CACHE("\"1,2\": {\"a\": 1, \"b\": 1, \"time\": -1}"), "\"samples\" is missing or out of range"},
        {CACHE("\"1,2\": {\"a\": 1, \"b\": 1, \"time\": 1, \"timestamp\": \"today\"}"), "\"timestamp\" is no time"},
        {CACHE("\"1,2\": {\"a\": 1, \"b\": 1, \"tilewright\": [{}]}"), "cache \"1,2\": no measurement: \"protocol\""},
        {CACHE("\"1,2\": {\"a\": 1, \"b\": 1, \"tilewright\": [3]}"), "\"tilewright\" is no object"},
        {CACHE("\"1,2\": {\"a\": 1, \"b\": 1, \"time\": 1}, \"1,2\": {}"), "duplicate object key"},
        {"{\"results\": {}, \"schema_version\": \"1.0.0\"}", "\"results\" is no list"},
        {"{\"results\": []}", "\"schema_version\" is not 1.0.0"},
        {"{\"results\": [], \"schema_version\": \"2.0.0\"}", "\"schema_version\" is not 1.0.0"},
        {"{\"results\": [], \"schema_version\": \"1.0.0\", \"metadata\": {\"timeunit\": \"days\"}}",
         "\"timeunit\" is not"},
        {T4("3"), "results[0] is no object"},
        {T4("{\"times\": {}}"), "results[0]: \"configuration\" is no object"},
        {T4("{\"configuration\": {}}"), "results[0]: \"times\" is no object"},
        {T4(RESULT("\"invalidity\": \"correct\"")), "results[0]: its times are no numbers"},
        {T4(RESULT("\"invalidity\": \"maybe\"")), "results[0]: \"invalidity\" is not correct"},
        {T4(RESULT(
             "\"invalidity\": \"correct\", \"measurements\": [{\"name\": \"time\", \"value\": 3, \"unit\": \"d\"}]")),
         "the unit of \"time\" is not ns"},
        {"{\"results\": [\n{\"a\": }]}", "unexpected token"},
    };
    const tw_interchange_names all = {.device = "D", .space = "s", .problem = "p"}, none = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_buf lines = {0};
        tw_diag d;
        const tw_status st = read(cases[i].text, strstr(cases[i].text, "results") ? &all : &none, &lines, &d);
        if (st == TW_OK || !strstr(d.message, cases[i].message))
            fail_msg("%s: \"%s\", not \"%s\"", cases[i].text, st == TW_OK ? "" : d.message, cases[i].message);
        assert_string_equal(d.path, "f");
        tw_buf_free(&lines);
    }
}

static void formats_are_told_apart(void **state) {
    (void)state;
    static const struct {
        const char *text;
        tw_interchange format;
    } cases[] = {{"", 0},
                 {"{", 0},
                 {"{\"space\": {\"cache\": 1}, \"problem\": \"results\"}", 0},
                 {"{\"a\": \"\\\"cache\\\":\"}\n{\"cache\": 1}", 0},
                 {"{\"a\": 1, \"cache\" : {", TW_INTERCHANGE_CACHE},
                 {"{\"a\": [{}], \"results\": []}", TW_INTERCHANGE_T4},
                 {"\n{\"General\": {\"cache\": 1}, \"ConfigurationSpace\": {}}", TW_INTERCHANGE_T1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(tw_interchange_detect(cases[i].text, strlen(cases[i].text)), cases[i].format);
}

/* Changes bytes of files at random: each is read or refused. */
static void damaged_files_do_no_harm(void **state) {
    (void)state;
    static const char *const files[] = {DATA "cache.json", DATA "open.json", DATA "t4.json", DATA "t1.json"};
    tw_random random = tw_random_seed(11);
    char path[200];
    snprintf(path, sizeof path, "%s/scratch/t1-%d", TW_BINARY_DIR, (int)tw_random_below(&random, 1 << 20));
    for (int i = 0; i < 800; i++) {
        tw_buf text = {0}, lines = {0};
        tw_diag d;
        tw_t1 t1;
        assert_int_equal(tw_file_read(&text, files[i % 4], &d), TW_OK);
        for (uint64_t k = tw_random_below(&random, 3) + 1; k > 0; k--)
            text.data[tw_random_below(&random, text.size)] = "\"{}[],:0-9e.x"[tw_random_below(&random, 13)];
        if (i % 4 == 3) {
            assert_int_equal(tw_file_write(path, text.data, text.size, &d), TW_OK);
            if (tw_t1_read(&t1, path, &d) == TW_OK) tw_t1_free(&t1);
        } else {
            read(text.data, NULL, &lines, &d);
        }
        tw_buf_free(&text);
        tw_buf_free(&lines);
    }
    remove(path);
}

/* ---- T1 */

static void conditions_are_pythons(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int is; /* 1: it holds. 0: it does not. -1: it is refused. */
    } cases[] = {{"a == 3", 1},
                 {"a * b <= 24 and s == 'x'", 1},
                 {"not a == 4", 1},
                 {"not a == 3 or b == 8", 1},
                 {"not (a == 3 or b == 8)", 0},
                 {"1 < a < 5", 1},
                 {"1 < a > 5", 0},
                 {"5 < a < 9", 0},
                 {"b / a == 8 / 3", 1},
                 {"b // a == 2", 1},
                 {"-b // a == -3", 1},
                 {"-b % a == 1", 1},
                 {"2 ** 3 ** 2 == 512", 1},
                 {"-2 ** 2 == -4", 1},
                 {"2 ** -1 == 0.5", 1},
                 {"a in [1, 2, 3]", 1},
                 {"a not in (1, 2, 3,)", 0},
                 {"s in ['y', 'x']", 1},
                 {"s in [1, 2]", 0},
                 {"s != 1", 1},
                 {"min(a, b) == 3 && max(a, b, 9) == 9 || False", 1},
                 {"abs(-a) == 3 and int(2.7) == 2", 1},
                 {"t", 1},
                 {"t == True", 1},
                 {"0", 0},
                 {"note", -1},
                 {"a and", -1},
                 {"a = 3", -1},
                 {"a == 3)", -1},
                 {"(a == 3", -1},
                 {"a / 0 == 1", -1},
                 {"s < 3", -1},
                 {"s + 1", -1},
                 {"len(s)", -1},
                 {"'x", -1},
                 {"3x", -1},
                 {"", -1},
                 {"a in b", -1}};
    json_t *values = json_loads("{\"a\": 3, \"b\": 8, \"s\": \"x\", \"t\": true}", 0, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool holds = false;
        tw_diag d;
        const tw_status st = tw_condition(cases[i].text, values, &holds, &d);
        if (st != (cases[i].is < 0 ? TW_ERR_FORMAT : TW_OK) || (st == TW_OK && holds != cases[i].is))
            fail_msg("%s: %d %d %s", cases[i].text, st, holds, st == TW_OK ? "" : d.message);
    }
    char deep[3000];
    bool holds;
    tw_diag d;
    for (int k = 0; k < 3; k++) {
        memset(deep, "(-n"[k], sizeof deep);
        for (size_t i = 0; k == 2 && i + 4 < sizeof deep; i += 4) memcpy(deep + i, "not ", 4);
        deep[sizeof deep - 1] = 0;
        assert_int_equal(tw_condition(deep, values, &holds, &d), TW_ERR_FORMAT);
    }
    json_decref(values);
}

static void lists_are_pythons(void **state) {
    (void)state;
    static const struct {
        const char *text, *is; /* NULL: it is refused. */
    } cases[] = {{"[1, 2.0, -3]", "[1, 2.0, -3]"},
                 {"('a', \"b\")", "[\"a\", \"b\"]"},
                 {"[True, False]", "[true, false]"},
                 {"range(3)", "[0, 1, 2]"},
                 {"list(range(2, 9, 3))", "[2, 5, 8]"},
                 {"range(3, 0, -2)", "[3, 1]"},
                 {"[]", "[]"},
                 {"[2**3, 64]", "[8, 64]"},
                 {"[1e3]", "[1000.0]"},
                 {"[1", NULL},
                 {"[1, 2] + [3]", NULL},
                 {"range(1, 2, 0)", NULL},
                 {"range(100000)", NULL},
                 {"[i for i in x]", NULL},
                 {"range(0.5)", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *list;
        tw_diag d;
        const tw_status st = tw_condition_list(cases[i].text, &list, &d);
        if ((st == TW_OK) != !!cases[i].is) fail_msg("%s", cases[i].text);
        if (st != TW_OK) continue;
        char *text = json_dumps(list, 0);
        assert_string_equal(text, cases[i].is);
        free(text);
        json_decref(list);
    }
}

static void configurations_lie_in_the_space(void **state) {
    (void)state;
    static const struct {
        const char *config, *message; /* NULL: it is in the space. */
        bool illegal;
    } cases[] = {
        {"{\"block_size_x\": 64, \"FACTOR\": 0.5, \"FAULT\": 1}", NULL, false},
        {"{\"block_size_x\": 512, \"FACTOR\": 0.5, \"FAULT\": 1}", "r: it does not meet \"FAULT == 0 or", false},
        {"{\"block_size_x\": 512, \"FACTOR\": 0.5, \"FAULT\": 1}", NULL, true},
        {"{\"block_size_x\": 65, \"FACTOR\": 0.5, \"FAULT\": 0}", "r: its \"block_size_x\" is no value", false},
        {"{\"block_size_x\": 64, \"FACTOR\": 0.5}", "r: its \"FAULT\" is no value", false},
        {"{\"block_size_x\": 64, \"FACTOR\": 0.5, \"FAULT\": 0, \"x\": 1}", "has no parameter \"x\"", false}};
    tw_t1 t1;
    tw_diag d;
    assert_int_equal(tw_t1_read(&t1, DATA "t1.json", &d), TW_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *config = json_loads(cases[i].config, 0, NULL);
        const tw_status st = tw_t1_check(&t1, config, cases[i].illegal, "f", "r", &d);
        if ((st == TW_OK) != !cases[i].message || (st != TW_OK && !strstr(d.message, cases[i].message)))
            fail_msg("%s: %s", cases[i].config, st == TW_OK ? "" : d.message);
        json_decref(config);
    }
    tw_t1_free(&t1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read_as_they_were),    cmocka_unit_test(a_file_has_one_problem),
        cmocka_unit_test(entries_have_the_most_samples),  cmocka_unit_test(energies_are_joules),
        cmocka_unit_test(files_of_kernel_tuner_are_read), cmocka_unit_test(figures_of_others_are_read),
        cmocka_unit_test(results_become_trials),          cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(formats_are_told_apart),         cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(conditions_are_pythons),         cmocka_unit_test(lists_are_pythons),
        cmocka_unit_test(configurations_lie_in_the_space)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
