/* SPDX-License-Identifier: Apache-2.0 */
/* Steps dealt out in ranges: two workers with four of eight rows each. "first" writes s1 from x; "second" reads all of
   s1 and writes s2; "third" writes s3, which lies where s1 did; "fourth" writes the output. */
#include "support/support.h"

#include "base/file.h"
#include "base/random.h"
#include "schedule/formats.h"
#include "schedule/ranges/ranges.h"

#include <stdio.h>
#include <string.h>

static const char sound[] =
    "{\"tilewright_ranges\": 1, \"scratch\": 1024,\n"
    " \"buffers\": [\n"
    "  {\"name\": \"x\", \"kind\": \"constant\", \"rows\": 8, \"bytes\": 64},\n"
    "  {\"name\": \"s1\", \"kind\": \"scratch\", \"rows\": 8, \"bytes\": 64, \"offset\": 0},\n"
    "  {\"name\": \"s2\", \"kind\": \"scratch\", \"rows\": 8, \"bytes\": 64, \"offset\": 512},\n"
    "  {\"name\": \"s3\", \"kind\": \"scratch\", \"rows\": 8, \"bytes\": 64, \"offset\": 0},\n"
    "  {\"name\": \"y\", \"kind\": \"output\", \"rows\": 8, \"bytes\": 64}\n"
    " ],\n"
    " \"steps\": [\n"
    "  {\"name\": \"first\", \"units\": [8], \"accesses\": [{\"read\": \"x\", \"rows\": [0, 1, 1], \"bytes\": [0, 64, "
    "0]}, "
    "{\"write\": \"s1\", \"rows\": [0, 1, 1], \"bytes\": [0, 64, 0]}]},\n"
    "  {\"name\": \"second\", \"units\": [8], \"accesses\": [{\"read\": \"s1\", \"rows\": [0, 8, 0], \"bytes\": [0, "
    "64, 0]}, "
    "{\"write\": \"s2\", \"rows\": [0, 1, 1], \"bytes\": [0, 64, 0]}]},\n"
    "  {\"name\": \"third\", \"units\": [8], \"accesses\": [{\"read\": \"s2\", \"rows\": [0, 1, 1], \"bytes\": [0, 64, "
    "0]}, "
    "{\"write\": \"s3\", \"rows\": [0, 1, 1], \"bytes\": [0, 64, 0]}]},\n"
    "  {\"name\": \"fourth\", \"units\": [8, 4], \"accesses\": [{\"read\": \"s3\", \"rows\": [0, 1, 1, 0], \"bytes\": "
    "[0, 16, 0, 16]}, "
    "{\"write\": \"y\", \"rows\": [0, 1, 1, 0], \"bytes\": [0, 16, 0, 16]}]}\n"
    " ],\n"
    " \"counters\": [\"0.0\", \"1.0\", \"0.1\", \"1.1\"],\n"
    " \"workers\": [\n"
    "  [\n"
    "   {\"step\": \"first\", \"range\": [[0, 4]], \"wait\": [], \"arrive\": \"0.0\"},\n"
    "   {\"step\": \"second\", \"range\": [[0, 4]], \"wait\": [[\"1.0\", 1]], \"arrive\": \"0.1\"},\n"
    "   {\"step\": \"third\", \"range\": [[0, 4]], \"wait\": [[\"1.1\", 1]]},\n"
    "   {\"step\": \"fourth\", \"range\": [[0, 4], [0, 4]], \"wait\": []}\n"
    "  ],\n"
    "  [\n"
    "   {\"step\": \"first\", \"range\": [[4, 8]], \"wait\": [], \"arrive\": \"1.0\"},\n"
    "   {\"step\": \"second\", \"range\": [[4, 8]], \"wait\": [[\"0.0\", 1]], \"arrive\": \"1.1\"},\n"
    "   {\"step\": \"third\", \"range\": [[4, 8]], \"wait\": [[\"0.1\", 1]]},\n"
    "   {\"step\": \"fourth\", \"range\": [[4, 8], [0, 4]], \"wait\": []}\n"
    "  ]\n"
    " ]}\n";

static tw_schedule_file *parse(const char *text) {
    tw_schedule_file *f;
    tw_diag d;
    if (tw_schedule_file_parse(&f, text, strlen(text), "test", TW_SCHEDULE_AUTO, &d) != TW_OK)
        fail_msg("%s", d.message);
    return f;
}

static void a_sound_schedule_is_accepted(void **state) {
    (void)state;
    tw_schedule_file *f = parse(sound);
    tw_schedule_info info;
    tw_report r;
    tw_diag d;
    assert_int_equal(tw_schedule_file_describe(f, &info), TW_SCHEDULE_RANGES);
    assert_int_equal(info.workers, 2);
    assert_int_equal(info.instructions, 8);
    assert_int_equal(info.counters, 4);
    if (tw_schedule_file_check(f, &r, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(r.count, 0);
    tw_report_free(&r);
    tw_schedule_file_free(f);
}

static void what_is_written_is_what_was_read(void **state) {
    (void)state;
    tw_ranges *r;
    tw_diag d;
    json_t *root = NULL;
    tw_buf text = {0};
    const char *path = TW_BINARY_DIR "/scratch/ranges.json";
    assert_int_equal(tw_json_parse(&root, sound, strlen(sound), "test", -1, &d), TW_OK);
    assert_int_equal(tw_ranges_from_json(&r, root, "test", &d), TW_OK);
    assert_int_equal(tw_ranges_write(r, path, &d), TW_OK);
    assert_int_equal(tw_file_read(&text, path, &d), TW_OK);
    assert_string_equal(text.data, sound);
    tw_buf_free(&text);
    tw_ranges_free(r);
    json_decref(root);
}

/* Faults, and the rule that finds each. `nth`: which place that reads so is changed, from 0. */
static const struct fault {
    const char *from, *to;
    int nth;
    const char *rule;
} faults[] = {
    {"\"second\", \"range\": [[0, 4]]", "\"second\", \"range\": [[0, 5]]", 0, "race"},
    {"[[4, 8], [0, 4]]", "[[4, 9], [0, 4]]", 0, "range"},
    {"[[4, 8], [0, 4]]", "[[4, 4], [0, 4]]", 0, "range"},
    {"[[4, 8], [0, 4]]", "[[4, 8], [0, 3]]", 0, "coverage"},
    {"\"third\", \"range\": [[4, 8]]", "\"third\", \"range\": [[5, 8]]", 0, "undefined read"},
    {"\"wait\": [[\"1.0\", 1]]", "\"wait\": []", 0, "race"},
    {"\"wait\": [[\"1.1\", 1]]", "\"wait\": []", 0, "memory reuse"},
    {"\"wait\": [[\"0.1\", 1]]", "\"wait\": []", 0, "memory reuse"},
    {"\"wait\": [[\"0.0\", 1]]", "\"wait\": [[\"0.0\", 2]]", 0, "deadlock"},
    {"\"arrive\": \"1.1\"", "\"arrive\": \"0.1\"", 0, "deadlock"},
    {"\"read\": \"s3\"", "\"read\": \"s1\"", 0, "memory reuse"},
    {"\"offset\": 512", "\"offset\": 448", 0, "memory reuse"},
    {"\"offset\": 512", "\"offset\": 513", 0, "bounds"},
    {"\"rows\": [0, 8, 0]", "\"rows\": [0, 9, 0]", 0, "bounds"},
    {"\"rows\": [0, 8, 0]", "\"rows\": [1, 8, 0]", 0, "bounds"},
    {"\"write\": \"s1\"", "\"write\": \"x\"", 0, "read-only"},
    {"\"read\": \"s2\"", "\"read\": \"s3\"", 0, "self overlap"},
    {"\"bytes\": [0, 64, 0]}]},\n  {\"name\": \"second\"", "\"bytes\": [0, 60, 0]}]},\n  {\"name\": \"second\"", 0,
     "undefined read"},
};

static void change(const struct fault *f, char *out, size_t size) {
    const char *at = sound;
    for (int i = 0; i <= f->nth; i++) {
        at = strstr(i ? at + 1 : at, f->from);
        assert_non_null(at);
    }
    snprintf(out, size, "%.*s%s%s", (int)(at - sound), sound, f->to, at + strlen(f->from));
}

static void faults_are_found(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char text[sizeof sound + 64];
        change(&faults[i], text, sizeof text);
        tw_schedule_file *f = parse(text);
        tw_report r;
        tw_diag d;
        bool found = false;
        assert_int_equal(tw_schedule_file_check(f, &r, &d), TW_ERR_REJECTED);
        for (size_t k = 0; k < r.count; k++) found = found || !strcmp(r.findings[k].rule, faults[i].rule);
        if (!found) fail_msg("%s -> %s: %s, not %s", faults[i].from, faults[i].to, d.message, faults[i].rule);
        tw_report_free(&r);
        tw_schedule_file_free(f);
    }
}

static void broken_files_are_refused(void **state) {
    (void)state;
    static const struct fault broken[] = {
        {"\"tilewright_ranges\": 1", "\"tilewright_ranges\": 2", 0, ""},
        {"\"rows\": 8", "\"rows\": 0", 0, ""},
        {"\"rows\": 8", "\"rows\": 10000000000000", 0, ""},
        {"\"name\": \"s2\"", "\"name\": \"s1\"", 0, ""},
        {"\"kind\": \"output\"", "\"kind\": \"cache\"", 0, ""},
        {"\"read\": \"x\"", "\"read\": \"z\"", 0, ""},
        {"\"rows\": [0, 1, 1]", "\"rows\": [0, 1]", 0, ""},
        {"\"rows\": [0, 1, 1]", "\"rows\": [0, 1, -1]", 0, ""},
        {"\"units\": [8]", "\"units\": []", 0, ""},
        {"\"step\": \"third\"", "\"step\": \"fifth\"", 0, ""},
        {"[[0, 4], [0, 4]]", "[[0, 4]]", 0, ""},
        {"\"arrive\": \"0.0\"", "\"arrive\": \"2.0\"", 0, ""},
        {"[[\"1.0\", 1]]", "[[\"2.0\", 1]]", 0, ""},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        char text[sizeof sound + 64];
        tw_schedule_file *f = NULL;
        tw_diag d;
        change(&broken[i], text, sizeof text);
        if (tw_schedule_file_parse(&f, text, strlen(text), "test", TW_SCHEDULE_AUTO, &d) != TW_ERR_FORMAT)
            fail_msg("%s -> %s is read", broken[i].from, broken[i].to);
        assert_null(f);
    }
}

/* Every byte of a task's boxes is one of a unit's, and the other way round. */
static void boxes_are_exact(void **state) {
    (void)state;
    enum { ROWS = 12, BYTES = 12 };
    tw_random random = tw_random_seed(1);
    for (int i = 0; i < 3000; i++) {
        tw_ranges *r = tw_ranges_new(1);
        int64_t units[2] = {1 + (int64_t)tw_random_below(&random, 3), 1 + (int64_t)tw_random_below(&random, 3)};
        tw_ranges_add_buffer(r, &(tw_range_buffer){.name = "b", .kind = TW_RANGE_OUTPUT, .rows = ROWS, .bytes = BYTES});
        tw_range_step *s = tw_ranges_add_step(r, "s", 2, units);
        tw_range_access *a = tw_ranges_add_access(r, s, 0, true);
        int64_t *const to[] = {&a->rows.first,  &a->rows.step[0],  &a->rows.step[1],
                               &a->bytes.first, &a->bytes.step[0], &a->bytes.step[1]};
        for (int k = 0; k < 6; k++) *to[k] = (int64_t)tw_random_below(&random, 3);
        a->rows.extent = 1 + (int64_t)tw_random_below(&random, 2);
        a->bytes.extent = 1 + (int64_t)tw_random_below(&random, 2);
        tw_range_task *t = tw_ranges_add_task(r, 0, 0);
        for (int k = 0; k < 2; k++) {
            t->from[k] = (int64_t)tw_random_below(&random, (uint64_t)units[k]);
            t->to[k] = t->from[k] + 1 + (int64_t)tw_random_below(&random, (uint64_t)(units[k] - t->from[k]));
        }
        bool want[ROWS][BYTES] = {{false}}, got[ROWS][BYTES] = {{false}};
        for (int64_t u = t->from[0]; u < t->to[0]; u++)
            for (int64_t v = t->from[1]; v < t->to[1]; v++)
                for (int64_t y = 0; y < a->rows.extent; y++)
                    for (int64_t x = 0; x < a->bytes.extent; x++)
                        want[a->rows.first + a->rows.step[0] * u + a->rows.step[1] * v + y]
                            [a->bytes.first + a->bytes.step[0] * u + a->bytes.step[1] * v + x] = true;
        tw_access_list list = {0};
        tw_diag d;
        assert_int_equal(tw_ranges_effects(r, t, &list, &d), TW_OK);
        for (int b = 0; b < list.count; b++)
            for (int64_t y = list.item[b].lo[1]; y < list.item[b].hi[1]; y++)
                for (int64_t x = list.item[b].lo[2]; x < list.item[b].hi[2]; x++) got[y][x] = true;
        assert_memory_equal(want, got, sizeof want);
        tw_access_list_free(&list);
        tw_ranges_free(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_sound_schedule_is_accepted),
                                       cmocka_unit_test(what_is_written_is_what_was_read),
                                       cmocka_unit_test(faults_are_found), cmocka_unit_test(broken_files_are_refused),
                                       cmocka_unit_test(boxes_are_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
