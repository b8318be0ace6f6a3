/* SPDX-License-Identifier: Apache-2.0 */
/* What holds of every space, whatever is tuned. */
#ifndef TW_TESTS_SPACE_CHECKS_H
#define TW_TESTS_SPACE_CHECKS_H

#include "support/support.h"

#include "base/file.h"
#include "base/json.h"
#include "space/space.h"

#include <stdio.h>
#include <string.h>

typedef union any_config {
    char bytes[TW_SPACE_CONFIG_BYTES];
    int64_t aligned;
} any_config;

/* Names are different, and every value is one that may be written, once. */
static inline void check_parameters(const tw_space *s) {
    assert_true(s->n > 0 && s->n <= TW_SPACE_PARAMS && s->bytes <= TW_SPACE_CONFIG_BYTES);
    for (int i = 0; i < s->n; i++) {
        tw_buf name = {0}, other = {0};
        const tw_param *p = &s->params[i];
        tw_space_put_name(s, i, &name);
        for (int j = 0; j < i; j++) {
            tw_buf_clear(&other);
            tw_space_put_name(s, j, &other);
            assert_string_not_equal(name.data, other.data);
        }
        const int n = tw_space_values(s, i);
        if ((n > 0) != (p->role != TW_SPACE_GIVEN)) fail_msg("%s: %d values", name.data, n);
        for (int k = 0; k < n; k++) {
            const int64_t x = tw_space_value(s, i, k);
            if (p->form != TW_SPACE_FLAG && p->form != TW_SPACE_WORD && (x < p->least || x > p->most))
                fail_msg("%s: %lld may not be written", name.data, (long long)x);
            for (int l = 0; l < k; l++) assert_true(tw_space_value(s, i, l) != x);
        }
        tw_buf_free(&name);
        tw_buf_free(&other);
    }
}

/* Words and JSON of a configuration are read back over one that has other values. */
static inline void check_read_back(const tw_space *s, const void *config, const void *over, const char *path) {
    char text[1024];
    any_config back;
    tw_buf json = {0};
    tw_diag d;
    tw_space_print(s, config, text, sizeof text);
    memcpy(&back, over, s->bytes);
    if (tw_space_parse(s, &back, text, &d) != TW_OK) fail_msg("%s: %s", text, d.message);
    if (!tw_space_same(s, config, &back)) fail_msg("%s: words are read back as others", text);
    memcpy(&back, over, s->bytes);
    tw_space_put_json(s, config, &json);
    assert_int_equal(tw_file_write(path, json.data, json.size, &d), TW_OK);
    if (tw_space_read_json(s, &back, path, &d) != TW_OK) fail_msg("%s: %s", json.data, d.message);
    if (!tw_space_same(s, config, &back)) fail_msg("%s: read back as others", json.data);
    tw_buf_free(&json);
}

static inline void check_points(const tw_space *s, const void *given, int count, const char *path) {
    const uint64_t points = tw_space_points(s, TW_SPACE_ROLES);
    tw_random r = tw_random_seed(17);
    any_config c, other;
    uint64_t n;
    assert_true(points < UINT64_MAX);
    assert_true(tw_space_points(s, TW_SPACE_MACRO) * tw_space_points(s, TW_SPACE_MICRO) == points);
    for (int i = 0; i < count; i++) {
        const uint64_t wanted = i == 0 ? 0 : i == 1 ? points - 1 : tw_random_below(&r, points);
        memcpy(&c, given, s->bytes);
        memcpy(&other, given, s->bytes);
        assert_true(tw_space_point(s, wanted, &c) && tw_space_index(s, &c, &n));
        if (n != wanted) fail_msg("point %llu has number %llu", (unsigned long long)wanted, (unsigned long long)n);
        assert_true(tw_space_point(s, points - 1 - wanted, &other));
        check_read_back(s, &c, &other, path);
    }
    assert_false(tw_space_point(s, points, &c));
}

/* What is drawn is legal and spelt plainly, and nothing that is given has moved. */
static inline void check_draws(const tw_space *s, const void *context, const void *given, int count, int tries) {
    tw_random r = tw_random_seed(23);
    any_config c, again;
    tw_diag d;
    memcpy(&c, given, s->bytes);
    for (int i = 0; i < count; i++) {
        assert_true(tw_space_draw(s, context, NULL, &r, tries, &c));
        memcpy(&again, &c, s->bytes);
        if (tw_space_judge(s, context, &again, &d) != TW_OK) fail_msg("drawn, yet %s", d.message);
        assert_true(tw_space_same(s, &c, &again));
        for (int j = 0; j < s->n; j++)
            if (s->params[j].role == TW_SPACE_GIVEN) assert_true(tw_space_get(s, &c, j) == tw_space_get(s, given, j));
    }
}

/* A word with a wrong value is named, and a file with a wrong or an unknown field. */
static inline void check_refusals(const tw_space *s, const void *given, const char *path) {
    any_config c;
    tw_buf text = {0};
    tw_diag d;
    for (int i = 0; i <= s->n; i++) {
        tw_buf_clear(&text);
        if (i < s->n) tw_space_put_name(s, i, &text);
        tw_buf_str(&text, i < s->n ? "=-x" : "nothing=1");
        memcpy(&c, given, s->bytes);
        assert_int_equal(tw_space_parse(s, &c, text.data, &d), TW_ERR_USAGE);
        if (!strstr(d.message, text.data)) fail_msg("\"%s\" does not name %s", d.message, text.data);
        assert_true(tw_space_same(s, &c, given));
        const char *object = i < s->n ? s->params[i].object : NULL, *name = i < s->n ? s->params[i].name : "nothing";
        tw_buf_clear(&text);
        tw_buf_printf(&text, object ? "{\"%s\": {\"%s\": []}}" : "{%s\"%s\": []}", object ? object : "", name);
        assert_int_equal(tw_file_write(path, text.data, text.size, &d), TW_OK);
        assert_int_equal(tw_space_read_json(s, &c, path, &d), TW_ERR_FORMAT);
        if (!strstr(d.message, name)) fail_msg("\"%s\" does not name %s", d.message, name);
        assert_true(!strcmp(d.path, path) && d.offset == -1);
        assert_true(tw_space_same(s, &c, given));
    }
    tw_buf_free(&text);
}

/* The schema is JSON, and describes every field that is written. */
static inline void check_schema(const tw_space *s, const void *config) {
    tw_buf schema = {0}, file = {0};
    json_t *of, *written, *v;
    const char *key;
    tw_diag d;
    tw_space_put_schema(s, &schema);
    tw_space_put_json(s, config, &file);
    if (tw_json_parse(&of, schema.data, schema.size, "schema", -1, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_json_parse(&written, file.data, file.size, "file", -1, &d) != TW_OK) fail_msg("%s", d.message);
    const json_t *fields = json_object_get(of, "properties");
    assert_int_equal(json_object_size(fields), json_object_size(written));
    json_object_foreach(written, key, v) assert_non_null(json_object_get(fields, key));
    json_decref(of);
    json_decref(written);
    tw_buf_free(&schema);
    tw_buf_free(&file);
}

static inline void check_space(const tw_space *s, const void *context, const void *given, int count, int tries) {
    char *folder = test_folder_make(), path[4096];
    snprintf(path, sizeof path, "%s/c.json", folder);
    check_parameters(s);
    check_points(s, given, count, path);
    check_draws(s, context, given, count, tries);
    check_refusals(s, given, path);
    check_schema(s, given);
    test_folder_remove(folder);
}

#endif
