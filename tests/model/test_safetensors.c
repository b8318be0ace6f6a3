/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "model/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file of this header and `data` zero bytes, in memory of exactly its size. */
static unsigned char *file_of(const char *header, size_t data, size_t *size) {
    size_t n = strlen(header);
    *size = 8 + n + data;
    unsigned char *p = calloc(1, *size);
    assert_non_null(p);
    for (int i = 0; i < 8; i++) p[i] = (unsigned char)(n >> 8 * i & 0xff);
    if (n) memcpy(p + 8, header, n);
    return p;
}

static tw_status parse(tw_tensors *t, tw_arena *arena, const unsigned char *p, size_t size, tw_diag *diag) {
    return tw_safetensors_parse(t, arena, p, size, "x.safetensors", diag);
}

/* Refused with `message`, at the byte where `at` stands in the header (NULL: at the offset `offset`). */
static void refused(const char *header, size_t data, const char *message, const char *at, long offset) {
    size_t size;
    unsigned char *p = file_of(header, data, &size);
    tw_arena arena = {0};
    tw_tensors t;
    tw_diag diag;
    assert_int_equal(parse(&t, &arena, p, size, &diag), TW_ERR_FORMAT);
    assert_string_equal(diag.message, message);
    assert_string_equal(diag.path, "x.safetensors");
    if (at) offset = 8 + (long)(strstr(header, at) - header);
    assert_int_equal(diag.offset, offset);
    tw_arena_free(&arena);
    free(p);
}

#define ENTRY(type, shape, offsets) "{\"dtype\":" type ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define GOOD                        ENTRY("\"F32\"", "[2,3]", "[0,24]")

static void test_good(void **state) {
    (void)state;
    size_t size;
    unsigned char *p = file_of(
        "{\"__metadata__\":{\"format\":\"pt\"},\"b\":" GOOD
        ",\"a\":" ENTRY("\"BF16\"", "[5]", "[24,34]") ",\"s\":" ENTRY("\"F16\"", "[]", "[34,36]") ",\"e\":" ENTRY(
            "\"F32\"", "[0,4]", "[36,36]") ",\"m\":" ENTRY("\"BOOL\"", "[3]", "[36,39]") "}   ",
        39, &size);
    tw_arena arena = {0};
    tw_tensors t;
    tw_diag diag;
    assert_int_equal(parse(&t, &arena, p, size, &diag), TW_OK);
    assert_int_equal(t.count, 5);
    for (size_t i = 1; i < t.count; i++) assert_true(strcmp(t.items[i - 1].name, t.items[i].name) < 0);
    const tw_tensor *a = tw_tensors_find(&t, "a"), *b = tw_tensors_find(&t, "b"), *s = tw_tensors_find(&t, "s");
    assert_true(a->is_weight && a->dtype == TW_BF16 && a->rank == 1 && a->shape[0] == 5);
    assert_ptr_equal(b->data + 24, a->data);
    assert_true(b->rank == 2 && b->shape[1] == 3 && b->elements == 6 && b->bytes == 24);
    assert_true(s->rank == 0 && s->elements == 1);
    assert_int_equal(tw_tensors_find(&t, "e")->elements, 0);
    assert_false(tw_tensors_find(&t, "m")->is_weight);
    assert_string_equal(tw_tensors_find(&t, "m")->type, "BOOL");
    assert_null(tw_tensors_find(&t, "c"));
    tw_arena_free(&arena);
    free(p);
}

static void test_empty(void **state) {
    (void)state;
    size_t size;
    unsigned char *p = file_of("{}", 0, &size);
    tw_arena arena = {0};
    tw_tensors t;
    assert_int_equal(parse(&t, &arena, p, size, NULL), TW_OK);
    assert_int_equal(t.count, 0);
    assert_null(tw_tensors_find(&t, "x"));
    tw_arena_free(&arena);
    free(p);
}

/* Every prefix of a good file is refused, and says so without reading beyond it. */
static void test_truncated(void **state) {
    (void)state;
    size_t size;
    unsigned char *p = file_of("{\"a\":" GOOD "}", 24, &size);
    for (size_t n = 0; n < size; n++) {
        unsigned char *cut = malloc(n ? n : 1);
        assert_non_null(cut);
        memcpy(cut, p, n);
        tw_arena arena = {0};
        tw_tensors t;
        tw_diag diag;
        assert_int_equal(parse(&t, &arena, cut, n, &diag), TW_ERR_FORMAT);
        if (n >= 8) assert_non_null(strstr(diag.message, "is it truncated?"));
        tw_arena_free(&arena);
        free(cut);
    }
    free(p);
}

static void test_length(void **state) {
    (void)state;
    unsigned char p[16] = {9, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    tw_arena arena = {0};
    tw_tensors t;
    tw_diag diag;
    assert_int_equal(parse(&t, &arena, p, 5, &diag), TW_ERR_FORMAT);
    assert_string_equal(diag.message, "5 bytes are too few for a safetensors file");
    assert_int_equal(parse(&t, &arena, p, 16, &diag), TW_ERR_FORMAT);
    assert_string_equal(diag.message, "a header of 9 bytes in a file of 16; is it truncated?");
    memset(p, 0xff, 8);
    assert_int_equal(parse(&t, &arena, p, 16, &diag), TW_ERR_FORMAT);
    assert_string_equal(diag.message, "a header of 18446744073709551615 bytes; the format allows 100000000");
    memset(p, 0, 8);
    assert_int_equal(parse(&t, &arena, p, 16, &diag), TW_ERR_FORMAT);
    assert_string_equal(diag.message, "the header does not start with {");
    tw_arena_free(&arena);
}

static void test_json(void **state) {
    (void)state;
    refused("[]", 0, "the header does not start with {", NULL, 8);
    refused(" {}", 0, "the header does not start with {", NULL, 8);
    refused("{\"a\" 1}", 0, "invalid JSON: ':' expected near '1'", NULL, 8 + 6);
    refused("{\"a\":" GOOD ",\"a\":" GOOD "}", 24, "invalid JSON: duplicate object key near '\"a\"'", NULL,
            8 + sizeof "{\"a\":" GOOD ",\"a\"" - 1);
    refused("{} x", 0, "invalid JSON: end of file expected near 'x'", NULL, 8 + 4);
    refused("{\"a\":" ENTRY("\"F32\"", "[99999999999999999999]", "[0,24]") "}", 24,
            "invalid JSON: too big integer near '99999999999999999999'", NULL,
            8 + sizeof "{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999" - 1);
}

static void test_metadata(void **state) {
    (void)state;
    refused("{\"__metadata__\":[]}", 0, "__metadata__ is not an object", "\"__metadata__\"", 0);
    refused("{\"__metadata__\":{\"n\":3}}", 0, "__metadata__: n is not a string", "\"__metadata__\"", 0);
}

static void test_types(void **state) {
    (void)state;
    refused("{\"a\":" ENTRY("\"Q4\"", "[2,3]", "[0,24]") "}", 24, "a: dtype Q4 is not one of the format", "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"f32\"", "[2,3]", "[0,24]") "}", 24, "a: dtype f32 is not one of the format",
            "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"F32\\u0000\"", "[2,3]", "[0,24]") "}", 24, "a: dtype F32 is not one of the format",
            "\"a\":", 0);
    refused("{\"a\":" ENTRY("32", "[2,3]", "[0,24]") "}", 24, "a: dtype 32 is not one of the format", "\"a\":", 0);
    refused("{\"a\":{\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24, "a: dtype (none) is not one of the format",
            "\"a\":", 0);
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24],\"order\":\"F\"}}", 24,
            "a: unknown field order", "\"a\":", 0);
    refused("{\"a\":7}", 0, "a: not an object", "\"a\":", 0);
}

static void test_shapes(void **state) {
    (void)state;
    refused("{\"a\":" ENTRY("\"F32\"", "6", "[0,24]") "}", 24, "a: shape is not a list", "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"F32\"", "[2,-3]", "[0,24]") "}", 24, "a: shape[1] is not a size", "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"F32\"", "[2,3.0]", "[0,24]") "}", 24, "a: shape[1] is not a size", "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"F32\"", "[1,1,1,1,1,1,1,1,6]", "[0,24]") "}", 24,
            "a: has 9 dimensions; at most 8 are supported", "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"F32\"", "[4294967296,4294967296]", "[0,24]") "}", 24, "a: its shape overflows",
            "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"F32\"", "[1152921504606846976]", "[0,24]") "}", 24, "a: its shape overflows",
            "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"F4\"", "[3]", "[0,1]") "}", 1, "a: its elements do not fill whole bytes", "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"F32\"", "[2,3]", "[0,20]") "}", 20,
            "a: data_offsets hold 20 bytes, its shape and dtype 24", "\"a\":", 0);
}

static void test_offsets(void **state) {
    (void)state;
    refused("{\"a\":" ENTRY("\"F32\"", "[2,3]", "[0]") "}", 24, "a: data_offsets is not a pair of offsets",
            "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"F32\"", "[2,3]", "[0,24,48]") "}", 24, "a: data_offsets is not a pair of offsets",
            "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"F32\"", "[2,3]", "[0,\"24\"]") "}", 24, "a: data_offsets is not a pair of offsets",
            "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"F32\"", "[2,3]", "[24,0]") "}", 24, "a: data_offsets [24, 0] run backwards",
            "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"F32\"", "[2,3]", "[-24,0]") "}", 24, "a: data_offsets [-24, 0] run backwards",
            "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"F32\"", "[2,3]", "[0,24]") "}", 23,
            "a: ends at data byte 24, but the file has 23; is it truncated?", "\"a\":", 0);
    refused("{\"a\":" ENTRY("\"F32\"", "[2,3]", "[9223372036854775800,9223372036854775807]") "}", 24,
            "a: ends at data byte 9223372036854775807, but the file has 24; is it truncated?", "\"a\":", 0);
}

static void test_cover(void **state) {
    (void)state;
    refused("{\"a\":" GOOD ",\"b\":" ENTRY("\"F32\"", "[3]", "[20,32]") "}", 32, "b: overlaps a", "\"b\":", 0);
    refused("{\"a\":" GOOD ",\"b\":" GOOD "}", 24, "b: overlaps a", "\"b\":", 0);
    refused("{\"a\":" GOOD ",\"b\":" ENTRY("\"F32\"", "[1]", "[28,32]") "}", 32,
            "b: data bytes 24 to 28 before it belong to no tensor", "\"b\":", 0);
    refused("{\"a\":" ENTRY("\"F32\"", "[1]", "[4,8]") "}", 8, "a: data bytes 0 to 4 before it belong to no tensor",
            "\"a\":", 0);
    refused("{\"a\":" GOOD "}", 30, "6 bytes at the end belong to no tensor", NULL,
            8 + sizeof "{\"a\":" GOOD "}" - 1 + 24);
    refused("{}", 3, "3 bytes at the end belong to no tensor", NULL, 10);
}

/* A name that also stands elsewhere, and one that is spelled with an escape. */
static void test_location(void **state) {
    (void)state;
    refused("{\"__metadata__\":{\"x\":\"a\"},\"a\" :7}", 0, "a: not an object", "\"a\" :", 0);
    refused("{\"\\u0061\":7}", 0, "a: not an object", NULL, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),   cmocka_unit_test(test_empty),    cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_length), cmocka_unit_test(test_json),     cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_types),  cmocka_unit_test(test_shapes),   cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_cover),  cmocka_unit_test(test_location),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
