/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "base/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void every_half_converts_there_and_back(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = tw_f16_to_f32((uint16_t)h), b = tw_bf16_to_f32((uint16_t)h);
        if (isnan(f))
            assert_true(isnan(tw_f16_to_f32(tw_f32_to_f16(f))));
        else
            assert_int_equal(tw_f32_to_f16(f), h);
        if (isnan(b))
            assert_true(isnan(tw_bf16_to_f32(tw_f32_to_bf16(b))));
        else
            assert_int_equal(tw_f32_to_bf16(b), h);
    }
}

/* The nearest half by search over all of them, ties to the even one. */
static void f32_rounds_to_the_nearest_half(void **state) {
    (void)state;
    tw_random r = tw_random_seed(1);
    for (int i = 0; i < 20000; i++) {
        float f = ldexpf((float)tw_random_unit(&r) * 2 - 1, (int)tw_random_below(&r, 44) - 27);
        uint16_t h = tw_f32_to_f16(f);
        double err = fabs((double)tw_f16_to_f32(h) - f);
        for (int d = -1; d <= 1; d += 2) {
            uint16_t near = (uint16_t)(h + d);
            float other = tw_f16_to_f32(near);
            if (isnan(other) || isinf(other) || ((near ^ h) & 0x8000)) continue;
            double e = fabs((double)other - f);
            assert_true(err < e || (err == e && !(h & 1)));
        }
    }
    assert_int_equal(tw_f32_to_f16(65519.99f), 0x7bff);
    assert_int_equal(tw_f32_to_f16(65520.0f), 0x7c00);
}

static void diag_names_the_place_and_keeps_every_reason(void **state) {
    (void)state;
    tw_diag d;
    char place[2048];
    assert_int_equal(tw_fail_line(&d, TW_ERR_FORMAT, "a.json", 3, 7, "bad %d", 5), TW_ERR_FORMAT);
    tw_diag_place(&d, place, sizeof place);
    assert_string_equal(place, "a.json:3:7: ");
    assert_string_equal(d.message, "bad 5");
    tw_fail_at(&d, TW_ERR_FORMAT, "w.bin", 64, "x");
    tw_diag_place(&d, place, sizeof place);
    assert_string_equal(place, "w.bin:64: ");
    tw_diag_clear(&d);
    tw_diag_add(&d, TW_ERR_UNSUPPORTED, "m", "one");
    tw_diag_add(&d, TW_ERR_UNSUPPORTED, "m", "two");
    assert_string_equal(d.message, "one\ntwo");
    for (int i = 0; i < 2000; i++) tw_diag_add(&d, TW_ERR_UNSUPPORTED, "m", "reason %d", i);
    assert_true(strlen(d.message) < sizeof d.message);
    assert_non_null(strstr(d.message, "\n(and more)"));
    assert_int_equal(tw_fail(NULL, TW_ERR_IO, "nobody listens"), TW_ERR_IO);
}

/* What a file says must neither command a terminal nor look like another line. */
static void diag_has_no_control_characters(void **state) {
    (void)state;
    tw_diag d;
    tw_fail(&d, TW_ERR_FORMAT, "\"%s\" and %s", "\x1b[31m\x7f\r", "two\n\tlines \xc3\xbc");
    assert_string_equal(d.message, "\"?[31m??\" and two\n\tlines \xc3\xbc");
    tw_diag_clear(&d);
    tw_diag_add(&d, TW_ERR_UNSUPPORTED, "m", "%s: no such operator", "One\ntilewright: Two\x1b");
    tw_diag_add(&d, TW_ERR_UNSUPPORTED, "m", "two");
    assert_string_equal(d.message, "One?tilewright: Two?: no such operator\ntwo");
}

static void arena_and_buffer_hold_what_they_are_given(void **state) {
    (void)state;
    tw_arena a = {0};
    char *s = tw_arena_printf(&a, "%s-%d", "layer", 3);
    assert_string_equal(s, "layer-3");
    unsigned char *big = tw_arena_alloc(&a, 1 << 20);
    for (int i = 0; i < 1 << 20; i++) assert_int_equal(big[i], 0);
    assert_null(tw_arena_array(&a, SIZE_MAX / 2, 16));
    assert_true(a.failed);
    assert_null(tw_arena_alloc(&a, 1));
    tw_arena_free(&a);
    tw_buf b = {0};
    for (int i = 0; i < 1000; i++) assert_true(tw_buf_printf(&b, "%d,", i));
    assert_int_equal(b.size, strlen(b.data));
    tw_buf_free(&b);
}

static void files_are_replaced_whole(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[4096];
    snprintf(path, sizeof path, "%s/out.txt", folder);
    tw_diag d;
    assert_int_equal(tw_file_write(path, "first", 5, &d), TW_OK);
    assert_int_equal(tw_file_write(path, "second", 6, &d), TW_OK);
    tw_buf text = {0};
    assert_int_equal(tw_file_read(&text, path, &d), TW_OK);
    assert_string_equal(text.data, "second");
    tw_buf_free(&text);
    tw_map m;
    assert_int_equal(tw_map_open(&m, path, &d), TW_OK);
    assert_memory_equal(m.data, "second", 6);
    tw_map_close(&m);
    assert_int_equal(tw_map_open(&m, folder, &d), TW_ERR_IO);
    snprintf(path, sizeof path, "%s/none/out.txt", folder);
    assert_int_equal(tw_file_write(path, "x", 1, &d), TW_ERR_IO);
    assert_string_equal(d.path, path);
    test_folder_remove(folder);
}

static void json_errors_have_a_place(void **state) {
    (void)state;
    json_t *v;
    tw_diag d;
    static const char text[] = "{\n  \"a\": 1,\n  \"a\": 2}";
    assert_int_equal(tw_json_parse(&v, text, sizeof text - 1, "x.json", -1, &d), TW_ERR_FORMAT);
    assert_int_equal(d.line, 3);
    assert_int_equal(tw_json_parse(&v, "{", 1, "x.bin", 8, &d), TW_ERR_FORMAT);
    assert_true(d.offset >= 8);
    int64_t n;
    v = json_pack("[i,f,f,s]", 7, 8.0, 8.5, "9");
    assert_true(tw_json_int(json_array_get(v, 0), 0, 10, &n) && n == 7);
    assert_true(tw_json_int(json_array_get(v, 1), 0, 10, &n) && n == 8);
    assert_false(tw_json_int(json_array_get(v, 2), 0, 10, &n));
    assert_false(tw_json_int(json_array_get(v, 3), 0, 10, &n));
    assert_false(tw_json_int(json_array_get(v, 0), 8, 10, &n));
    json_decref(v);
}

static void statistics_of_known_samples(void **state) {
    (void)state;
    double x[] = {5, 1, 4, 2, 3};
    tw_stats s = tw_stats_of(x, 5);
    assert_true(s.median == 3 && s.min == 1 && s.max == 5 && s.mean == 3);
    assert_true(fabs(s.p10 - 1.4) < 1e-12 && fabs(s.p90 - 4.6) < 1e-12);
    assert_true(fabs(s.stddev - sqrt(2.5)) < 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_converts_there_and_back),
        cmocka_unit_test(f32_rounds_to_the_nearest_half),
        cmocka_unit_test(diag_names_the_place_and_keeps_every_reason),
        cmocka_unit_test(diag_has_no_control_characters),
        cmocka_unit_test(arena_and_buffer_hold_what_they_are_given),
        cmocka_unit_test(files_are_replaced_whole),
        cmocka_unit_test(json_errors_have_a_place),
        cmocka_unit_test(statistics_of_known_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
