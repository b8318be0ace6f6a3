/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations as files: what is written reads back, what cannot be meant is refused by name, and a refusal changes
   nothing. */
#include "support/support.h"

#include "base/file.h"
#include "base/json.h"
#include "tilewright/schedule.h"

#include <stdio.h>
#include <string.h>

static char *folder, path[4096], other[4096];

static int setup(void **state) {
    (void)state;
    folder = test_folder_make();
    snprintf(path, sizeof path, "%s/c.json", folder);
    snprintf(other, sizeof other, "%s/d.json", folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    test_folder_remove(folder);
    return 0;
}

static tw_status read_text(tw_schedule_config *c, const char *text, tw_diag *d) {
    assert_int_equal(tw_file_write(path, text, strlen(text), d), TW_OK);
    return tw_schedule_config_read(c, path, d);
}

static void written_is_read(void **state) {
    (void)state;
    static const tw_schedule_config cases[] = {
        {{0}, {0}, TW_PROMPTS_STEPS, 0, 1},
        {{.workers = 132,
          .tokens = 8,
          .max_seq = 4096,
          .all_logits = true,
          .weights = TW_I4,
          .group = 32,
          .row_unit = 8,
          .kv_splits = 16,
          .row_blocks = 2,
          .down_splits = 7,
          .kv = TW_BF16,
          .exact_kv = true,
          .group_heads = true},
         {8, 4, 12, 3, 2, TW_EDGES_DATA, 1 << 20},
         TW_PROMPTS_UNPACKED,
         2,
         8},
        {{.kv = TW_F32, .exact_kv = true, .weights = TW_I8}, {.edges = TW_EDGES_COUNTERS}, TW_PROMPTS_AUTO, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_schedule_config c = cases[(i + 1) % 3], again = {0};
        tw_buf one = {0}, two = {0};
        tw_diag d;
        assert_int_equal(tw_schedule_config_write(&cases[i], path, &d), TW_OK);
        if (tw_schedule_config_read(&c, path, &d) != TW_OK) fail_msg("%s", d.message);
        assert_int_equal(c.lowering.exact_kv, cases[i].lowering.exact_kv);
        assert_int_equal(c.lowering.weights, cases[i].lowering.weights);
        assert_memory_equal(&c.machine, &cases[i].machine, sizeof c.machine);
        assert_int_equal(c.prompts, cases[i].prompts);
        assert_int_equal(c.prompt_o_parts, cases[i].prompt_o_parts);
        assert_int_equal(c.prompt_down_parts, cases[i].prompt_down_parts);
        assert_int_equal(tw_schedule_config_write(&c, other, &d), TW_OK);
        assert_int_equal(tw_schedule_config_read(&again, other, &d), TW_OK);
        assert_int_equal(tw_file_read(&one, path, &d), TW_OK);
        assert_int_equal(tw_file_read(&two, other, &d), TW_OK);
        assert_string_equal(one.data, two.data);
        tw_buf_free(&one);
        tw_buf_free(&two);
    }
}

static void what_is_not_named_stays(void **state) {
    (void)state;
    tw_schedule_config c = {{.workers = 3, .kv = TW_F16, .exact_kv = true}, {.warps = 4}, TW_PROMPTS_AUTO, 0, 0};
    tw_diag d;
    assert_int_equal(read_text(&c, "{\"tokens\": 2.0, \"machine\": {\"blocks\": 3}}", &d), TW_OK);
    assert_true(c.lowering.workers == 3 && c.lowering.kv == TW_F16 && c.machine.warps == 4);
    assert_true(c.lowering.tokens == 2 && c.machine.blocks == 3);
    assert_int_equal(read_text(&c, "{\"kv\": \"auto\", \"machine\": {}}", &d), TW_OK);
    assert_true(c.lowering.kv == TW_F32 && !c.lowering.exact_kv);
}

static void words_mean_what_they_say(void **state) {
    (void)state;
    static const struct {
        const char *text;
        tw_schedule_config c;
    } cases[] = {
        {"{\"weights\": \"native\"}", {{.weights = TW_F32}, {0}, TW_PROMPTS_AUTO, 0, 0}},
        {"{\"weights\": \"int8\"}", {{.weights = TW_I8}, {0}, TW_PROMPTS_AUTO, 0, 0}},
        {"{\"weights\": \"int4\"}", {{.weights = TW_I4}, {0}, TW_PROMPTS_AUTO, 0, 0}},
        {"{\"kv\": \"f32\"}", {{.kv = TW_F32, .exact_kv = true}, {0}, TW_PROMPTS_AUTO, 0, 0}},
        {"{\"kv\": \"f16\"}", {{.kv = TW_F16, .exact_kv = true}, {0}, TW_PROMPTS_AUTO, 0, 0}},
        {"{\"kv\": \"bf16\"}", {{.kv = TW_BF16, .exact_kv = true}, {0}, TW_PROMPTS_AUTO, 0, 0}},
        {"{\"machine\": {\"edges\": \"auto\"}}", {{0}, {.edges = TW_EDGES_AUTO}, TW_PROMPTS_AUTO, 0, 0}},
        {"{\"machine\": {\"edges\": \"counters\"}}", {{0}, {.edges = TW_EDGES_COUNTERS}, TW_PROMPTS_AUTO, 0, 0}},
        {"{\"machine\": {\"edges\": \"data\"}}", {{0}, {.edges = TW_EDGES_DATA}, TW_PROMPTS_AUTO, 0, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_schedule_config c = {0};
        const tw_schedule_config *want = &cases[i].c;
        tw_diag d;
        if (read_text(&c, cases[i].text, &d) != TW_OK) fail_msg("%s: %s", cases[i].text, d.message);
        if (c.lowering.weights != want->lowering.weights || c.lowering.kv != want->lowering.kv ||
            c.lowering.exact_kv != want->lowering.exact_kv || c.machine.edges != want->machine.edges)
            fail_msg("%s means something else", cases[i].text);
    }
}

static void nonsense_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"[]", "configuration: not a JSON object"},
        {"{\"workers\": -1}", "workers: not a whole number within 0..1024"},
        {"{\"workers\": 1.5}", "workers: not a whole number"},
        {"{\"workers\": null}", "workers: not a whole number"},
        {"{\"max_seq\": 99999999999}", "max_seq: not a whole number"},
        {"{\"weights\": \"int2\"}", "weights: \"int2\" is not native, int8 or int4"},
        {"{\"weights\": 8}", "weights: not native, int8 or int4"},
        {"{\"all_logits\": \"yes\"}", "all_logits: not true or false"},
        {"{\"warps\": 4}", "warps: unknown field"},
        {"{\"machine\": 4}", "machine: not a JSON object"},
        {"{\"machine\": {\"workers\": 4}}", "machine.workers: unknown field"},
        {"{\"machine\": {\"machine\": {}}}", "machine.machine: unknown field"},
        {"{\"machine\": {\"stages\": 33}}", "machine.stages: not a whole number within 0..32"},
        {"{\"machine\": {\"edges\": true}}", "machine.edges: not auto, counters or data"},
        {"{\"workers\": 1, \"workers\": 2}", "duplicate"},
        {"{\"workers\": 1", "JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_schedule_config c = {{.workers = 5}, {.warps = 6}, TW_PROMPTS_AUTO, 0, 0};
        tw_diag d;
        if (read_text(&c, cases[i].text, &d) != TW_ERR_FORMAT || !strstr(d.message, cases[i].why))
            fail_msg("%s: %s", cases[i].text, d.message);
        assert_string_equal(d.path, path);
        assert_true(c.lowering.workers == 5 && c.machine.warps == 6);
    }
}

/* The schema names what a file that was written names, and nothing else. */
static void the_schema_describes_what_is_written(void **state) {
    (void)state;
    const tw_schedule_config c = {0};
    json_t *file, *schema, *v;
    const char *key;
    tw_diag d;
    assert_int_equal(tw_schedule_config_write(&c, path, &d), TW_OK);
    assert_int_equal(tw_schedule_config_schema(other, &d), TW_OK);
    assert_int_equal(tw_json_load(&file, path, &d), TW_OK);
    assert_int_equal(tw_json_load(&schema, other, &d), TW_OK);
    json_t *fields = json_object_get(schema, "properties");
    json_t *machine = json_object_get(json_object_get(fields, "machine"), "properties");
    assert_int_equal(json_object_size(fields), json_object_size(file));
    assert_int_equal(json_object_size(machine), json_object_size(json_object_get(file, "machine")));
    json_object_foreach(file, key, v) {
        const json_t *field = json_object_get(fields, key);
        assert_non_null(field);
        if (!json_is_object(v)) assert_true(json_equal(json_object_get(field, "default"), v));
    }
    json_object_foreach(json_object_get(file, "machine"), key, v)
        assert_true(json_equal(json_object_get(json_object_get(machine, key), "default"), v));
    json_decref(file);
    json_decref(schema);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_is_read),
        cmocka_unit_test(what_is_not_named_stays),
        cmocka_unit_test(words_mean_what_they_say),
        cmocka_unit_test(nonsense_is_refused_by_name),
        cmocka_unit_test(the_schema_describes_what_is_written),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
