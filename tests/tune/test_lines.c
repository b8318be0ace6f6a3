/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements as lines: what is written is read, bit for bit; what is no measurement is refused with its place. */
#include "support/support.h"

#include "base/random.h"
#include "tune/lines.h"

#include <stdlib.h>
#include <string.h>

static void same(const tw_measurement *a, const tw_measurement *b) {
    assert_string_equal(a->environment, b->environment);
    assert_string_equal(a->space, b->space);
    assert_string_equal(a->problem, b->problem);
    assert_string_equal(a->config, b->config);
    assert_string_equal(a->protocol, b->protocol);
    assert_string_equal(a->unit, b->unit);
    assert_string_equal(a->message, b->message);
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->samples, b->samples, (size_t)a->n * sizeof *a->samples);
    assert_true(a->clock_mhz == b->clock_mhz && a->watts == b->watts && a->began == b->began);
}

static void lines_are_read_as_they_were(void **state) {
    (void)state;
    static const char *const configs[] = {"mma=1 ms=32", "", "way=own blocks=007 x=-3", "a=1.5 b=\xc3\xa9"};
    tw_random random = tw_random_seed(9);
    for (int i = 0; i < 400; i++) {
        double samples[20];
        char key[20];
        for (int k = 0; k < 20; k++) {
            samples[k] = tw_random_unit(&random) * (i % 3 ? 1e-9 : 1e9);
            if (i % 7 == 0) samples[k] = (double)tw_random_below(&random, 5);
        }
        snprintf(key, sizeof key, "k %d", i);
        const tw_measurement m = {.key = i % 2 ? key : NULL,
                                  .environment = i % 5 ? "{\"device\": \"A\", \"sms\": 132}" : "by hand",
                                  .space = "gemm",
                                  .problem = "m=1 \"n\"=2\n",
                                  .config = configs[i % 4],
                                  .protocol = "samples=20",
                                  .unit = "us",
                                  .status = i % 11 ? TW_OK : (tw_status)(1 + i / 11 % TW_ERR_MISMATCH),
                                  .message = i % 11 ? "" : "what went wrong",
                                  .samples = samples,
                                  .n = i % 11 ? 1 + i % 20 : 0,
                                  .clock_mhz = i % 4 ? 0 : tw_random_unit(&random) * (i % 8 ? 2000 : 1),
                                  .watts = i % 3 ? 0 : tw_random_unit(&random) * 700,
                                  .began = 1700000000000000000 + (int64_t)tw_random_below(&random, 1u << 30)};
        tw_buf b = {0};
        tw_line l;
        tw_diag d;
        assert_int_equal(tw_lines_write(&b, &m, &d), TW_OK);
        assert_ptr_equal(memchr(b.data, '\n', b.size), b.data + b.size - 1);
        if (tw_lines_read(&l, b.data, b.size - 1, "f", 3, &d) != TW_OK) fail_msg("%d: %s: %s", i, d.message, b.data);
        same(&m, &l.m);
        if (i % 2) {
            assert_string_equal(l.m.key, key);
        } else {
            assert_int_equal(strlen(l.m.key), 32);
        }
        tw_lines_free(&l);
        tw_buf_free(&b);
    }
}

static void what_is_no_measurement_is_refused(void **state) {
    (void)state;
    static const char good[] = "{\"environment\": {}, \"space\": \"s\", \"problem\": \"p\", \"config\": {\"a\": 1}, "
                               "\"protocol\": \"o\", \"unit\": \"us\", \"status\": \"right\", \"samples\": [1, 2.5], "
                               "\"began_ns\": 5}";
    static const struct {
        const char *old, *new, *word;
    } cases[] = {{"{\"environment\"", "[\"environment\"", "expected"},
                 {"\"environment\": {}, ", "", "environment"},
                 {"\"space\": \"s\"", "\"space\": 1", "space"},
                 {"\"problem\": \"p\"", "\"problem\": null", "problem"},
                 {"{\"a\": 1}", "{\"a\": 1.5}", "config"},
                 {"{\"a\": 1}", "{\"a\": \"b c\"}", "config"},
                 {"{\"a\": 1}", "{\"a b\": 1}", "config"},
                 {"{\"a\": 1}", "{\"\": 1}", "config"},
                 {"{\"a\": 1}", "[]", "config"},
                 {"\"protocol\"", "\"Protocol\"", "protocol"},
                 {"\"unit\": \"us\", ", "", "unit"},
                 {"\"right\"", "\"fine\"", "status"},
                 {"[1, 2.5]", "[1, \"2\"]", "samples"},
                 {"[1, 2.5]", "[1, -2]", "samples"},
                 {"[1, 2.5]", "[]", "samples"},
                 {"[1, 2.5]", "7", "samples"},
                 {"\"began_ns\": 5", "\"began_ns\": \"5\"", "began_ns"},
                 {"\"began_ns\": 5", "\"began_ns\": 5, \"watts\": \"many\"", "watts"},
                 {"\"began_ns\": 5", "\"began_ns\": 5, \"clock_mhz\": -1", "clock_mhz"},
                 {"\"began_ns\": 5", "\"began_ns\": 5, \"message\": 3", "message"},
                 {"\"began_ns\": 5", "\"began_ns\": 5, \"key\": 3", "key"},
                 {"\"began_ns\": 5", "\"began_ns\": 5, \"unit\": \"s\"", "duplicate"},
                 {"5}", "5} x", "end of file"}};
    tw_line l;
    tw_diag d;
    if (tw_lines_read(&l, good, strlen(good), "f", 1, &d) != TW_OK) fail_msg("%s", d.message);
    tw_lines_free(&l);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[600];
        const char *at = strstr(good, cases[i].old);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, cases[i].new, at + strlen(cases[i].old));
        d = (tw_diag){0};
        if (tw_lines_read(&l, text, strlen(text), "f", 7, &d) != TW_ERR_FORMAT) fail_msg("accepted: %s", text);
        if (!strstr(d.message, cases[i].word)) fail_msg("\"%s\" is not in: %s", cases[i].word, d.message);
        assert_int_equal(d.line, 7);
        assert_string_equal(d.path, "f");
    }
}

/* A message that is longer than its diagnostic ends within a character. */
static void a_message_may_be_cut_anywhere(void **state) {
    (void)state;
    const tw_measurement m = {.environment = "{}",
                              .space = "s",
                              .problem = "p=1",
                              .config = "a=1",
                              .protocol = "",
                              .unit = "us",
                              .status = TW_ERR_IO,
                              .message = "\xc3\xa9\xe2\x82"};
    tw_buf b = {0};
    tw_diag d;
    assert_int_equal(tw_lines_write(&b, &m, &d), TW_OK);
    assert_non_null(strstr(b.data, "\"message\": \"\xc3\xa9??\""));
    tw_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_are_read_as_they_were),
                                       cmocka_unit_test(what_is_no_measurement_is_refused),
                                       cmocka_unit_test(a_message_may_be_cut_anywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
