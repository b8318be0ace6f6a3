/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that are the same on every machine: generators against published outputs, conversions against their
 * definition. */
#include "support/support.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"
#include "base/divide.h"
#include "base/dtype.h"
#include "base/python.h"
#include "base/random.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/utf8.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void quotients_are_rounded_up(void **state) {
    (void)state;
    for (int64_t x = 0; x < 50; x++)
        for (int64_t by = 1; by < 20; by++) {
            const int64_t parts = tw_ceil_div(x, by);
            assert_true(parts * by >= x && (parts - 1) * by < x);
        }
    assert_true(tw_ceil_div(INT64_C(1) << 62, 3) == (INT64_C(1) << 62) / 3 + 1);
}

static void generators_give_the_published_numbers(void **state) {
    (void)state;
    static const uint64_t mixed[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                     4593380528125082431u};
    uint64_t s = 1234567;
    for (int i = 0; i < 4; i++) assert_true(tw_splitmix64(&s) == mixed[i]);
    /* xoshiro256++ from the state 1, 2, 3, 4. */
    static const uint64_t next[] = {41943041u,
                                    58720359u,
                                    3588806011781223u,
                                    3591011842654386u,
                                    9228616714210784205u,
                                    9973669472204895162u,
                                    14011001112246962877u,
                                    12406186145184390807u};
    tw_random r = {{1, 2, 3, 4}};
    for (int i = 0; i < 8; i++) assert_true(tw_random_u64(&r) == next[i]);
    r = tw_random_seed(1234567);
    for (int i = 0; i < 4; i++) assert_true(r.s[i] == mixed[i]);
}

static void draws_have_the_promised_range_and_moments(void **state) {
    (void)state;
    enum { N = 200000, BOUND = 7 };
    tw_random r = tw_random_seed(3);
    double sum = 0, low = 1, high = 0, square = 0, mean = 0, cube = 0;
    int count[BOUND] = {0};
    for (int i = 0; i < N; i++) {
        double u = tw_random_unit(&r), x = (double)tw_random_normal(&r);
        assert_true(u >= 0 && u < 1);
        sum += u, low = fmin(low, u), high = fmax(high, u);
        mean += x, square += x * x, cube += x * x * x;
        uint64_t k = tw_random_below(&r, BOUND);
        assert_true(k < BOUND);
        count[k]++;
    }
    assert_true(fabs(sum / N - 0.5) < 0.005 && low < 1e-4 && high > 1 - 1e-4);
    assert_true(fabs(mean / N) < 0.01 && fabs(square / N - 1) < 0.02 && fabs(cube / N) < 0.05);
    for (int k = 0; k < BOUND; k++) assert_true(abs(count[k] - N / BOUND) < 1000);
    assert_true(tw_random_below(&r, 0) == 0 && tw_random_below(&r, 1) == 0);
    /* A bound that wastes nearly half of the draws: each half of the range is as likely as the other. */
    int upper = 0;
    for (int i = 0; i < N; i++) upper += tw_random_below(&r, (UINT64_C(1) << 63) + 1) >= UINT64_C(1) << 62;
    assert_true(abs(upper - N / 2) < 2000);
}

static void f32_rounds_to_the_nearest_bf16(void **state) {
    (void)state;
    tw_random r = tw_random_seed(1);
    for (int i = 0; i < 20000; i++) {
        float f = tw_bits_f32((uint32_t)tw_random_u64(&r));
        if (isnan(f) || fabsf(f) > tw_bf16_to_f32(0x7f7f)) continue;
        uint16_t h = tw_f32_to_bf16(f);
        double err = fabs((double)tw_bf16_to_f32(h) - f);
        for (int d = -1; d <= 1; d += 2) {
            uint16_t near = (uint16_t)(h + d);
            float other = tw_bf16_to_f32(near);
            if (isnan(other) || isinf(other) || ((near ^ h) & 0x8000)) continue;
            double e = fabs((double)other - f);
            assert_true(err < e || (err == e && !(h & 1)));
        }
    }
    /* Halfway goes to the even neighbour, on both sides. */
    assert_int_equal(tw_f32_to_bf16(tw_bits_f32(0x3f808000)), 0x3f80);
    assert_int_equal(tw_f32_to_bf16(tw_bits_f32(0x3f818000)), 0x3f82);
    assert_int_equal(tw_f32_to_bf16(FLT_MAX), 0x7f80);
    /* NaN keeps its sign and what fits of its payload, and stays NaN where none of it fits. */
    assert_int_equal(tw_f32_to_bf16(tw_bits_f32(0xffa50001)), 0xffe5);
    assert_int_equal(tw_f32_to_bf16(tw_bits_f32(0x7f800001)), 0x7fc0);
}

static void halves_are_what_their_bits_say(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
        float f = tw_f16_to_f32((uint16_t)h), want = ldexpf((float)(e ? m + 1024 : m), (e ? e : 1) - 25);
        if (e == 31 && m)
            assert_true(isnan(f) && (tw_f32_bits(f) >> 13 & 1023) == (uint32_t)m);
        else
            assert_true(fabsf(f) == (e == 31 ? INFINITY : want));
        assert_true(!signbit(f) == !(h & 0x8000));
    }
    assert_int_equal(tw_f32_to_f16(-NAN) & 0x7fff, 0x7e00);
    assert_int_equal(tw_f32_to_f16(-INFINITY), 0xfc00);
}

static void e4m3_is_what_its_bits_say(void **state) {
    (void)state;
    for (int x = 0; x < 256; x++) {
        const int e = x >> 3 & 15, m = x & 7;
        const float f = tw_e4m3_to_f32((uint8_t)x), want = ldexpf((float)(e ? m + 8 : m), (e ? e : 1) - 10);
        if (e == 15 && m == 7) {
            assert_true(isnan(f));
            continue;
        }
        assert_true(fabsf(f) == want && !signbit(f) == !(x & 0x80));
        assert_int_equal(tw_f32_to_e4m3(f), x);
        if ((x & 0x7f) == 0x7e) continue;
        /* Half way to the next magnitude, and just off it. */
        const float next = tw_e4m3_to_f32((uint8_t)(x + 1)), middle = (f + next) / 2;
        assert_int_equal(tw_f32_to_e4m3(middle), x % 2 ? x + 1 : x);
        assert_int_equal(tw_f32_to_e4m3(nextafterf(middle, next)), x + 1);
        assert_int_equal(tw_f32_to_e4m3(nextafterf(middle, f)), x);
    }
    assert_int_equal(tw_f32_to_e4m3(463), 0x7e);
    assert_int_equal(tw_f32_to_e4m3(-INFINITY), 0xfe);
    assert_int_equal(tw_f32_to_e4m3(NAN) & 0x7f, 0x7f);
    assert_int_equal(tw_f32_to_e4m3(-0x1p-20f), 0x80);
}

static void elements_convert_in_rows(void **state) {
    (void)state;
    const float x[] = {1, -2.5f, 0x1p-20f, 65504, 3.140625f};
    enum { N = sizeof x / sizeof *x };
    for (int t = TW_F32; t <= TW_BF16; t++) {
        /* Stored where nothing is aligned, with a byte on either side that stays. */
        unsigned char stored[4 * N + 2];
        float back[N + 1] = {0};
        size_t bytes = N * tw_dtype_bits((tw_dtype)t) / 8;
        memset(stored, 0x5a, sizeof stored);
        tw_from_f32((tw_dtype)t, x, stored + 1, N);
        assert_int_equal(stored[0], 0x5a);
        assert_int_equal(stored[1 + bytes], 0x5a);
        tw_to_f32((tw_dtype)t, stored + 1, back, N);
        assert_true(back[N] == 0);
        for (int i = 0; i < N; i++) {
            float want = t == TW_F32   ? x[i]
                         : t == TW_F16 ? tw_f16_to_f32(tw_f32_to_f16(x[i]))
                                       : tw_bf16_to_f32(tw_f32_to_bf16(x[i]));
            assert_true(back[i] == want);
        }
        tw_dtype named;
        assert_true(tw_dtype_from_name(tw_dtype_name((tw_dtype)t), &named) && named == (tw_dtype)t);
    }
    tw_dtype none;
    assert_false(tw_dtype_from_name("f8", &none));
    assert_string_equal(tw_dtype_name((tw_dtype)99), "?");
    assert_int_equal(tw_dtype_bits((tw_dtype)99), 0);
    assert_int_equal(tw_dtype_bits(TW_DTYPE_COUNT), 0);
}

static void statistics_of_few_samples(void **state) {
    (void)state;
    tw_stats s = tw_stats_of(NULL, 0);
    assert_true(s.n == 0 && s.mean == 0 && s.stddev == 0 && s.median == 0);
    double one[] = {4}, two[] = {3, 1};
    s = tw_stats_of(one, 1);
    assert_true(s.n == 1 && s.mean == 4 && s.stddev == 0 && s.p10 == 4 && s.median == 4 && s.p90 == 4 && s.max == 4);
    s = tw_stats_of(two, 2);
    assert_true(s.median == 2 && s.min == 1 && s.max == 3 && fabs(s.stddev - sqrt(2)) < 1e-12);
    assert_true(fabs(s.p10 - 1.2) < 1e-12);
}

/* Sizes around every turn: within a block, just full, and larger than any block. */
static void an_arena_gives_zeroed_memory_that_is_nobody_elses(void **state) {
    (void)state;
    tw_arena a = {0};
    enum { N = 400 };
    unsigned char *p[N];
    size_t size[N];
    tw_random r = tw_random_seed(5);
    for (int i = 0; i < N; i++) {
        size[i] = i % 50 == 7 ? 100000 + (size_t)i : (size_t)tw_random_below(&r, i % 3 ? 64 : 5000);
        p[i] = tw_arena_array(&a, size[i], 1);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 16, 0);
        for (size_t k = 0; k < size[i]; k++) assert_int_equal(p[i][k], 0);
        memset(p[i], 1 + i % 255, size[i]);
    }
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < size[i]; k++) assert_int_equal(p[i][k], 1 + i % 255);
    assert_string_equal(tw_arena_strndup(&a, "layers", 5), "layer");
    assert_string_equal(tw_arena_strdup(&a, ""), "");
    assert_false(a.failed);
    tw_arena_free(&a);
    assert_non_null(tw_arena_alloc(&a, 1));
    tw_arena_free(&a);
}

static void a_buffer_grows_and_its_failure_sticks(void **state) {
    (void)state;
    tw_buf b = {0};
    char want[8192] = "";
    for (size_t n = 0; n < 100; n++) {
        char piece[128];
        memset(piece, 'a' + (int)(n % 26), n);
        piece[n] = 0;
        strcat(want, piece);
        assert_true(n % 2 ? tw_buf_printf(&b, "%s", piece) : tw_buf_str(&b, piece));
        assert_string_equal(b.data, want);
        assert_true(b.size == strlen(want) && b.size < b.room);
    }
    const size_t size = b.size;
    tw_buf_drop(&b, 0);
    assert_true(b.size == size);
    tw_buf_drop(&b, 5);
    assert_string_equal(b.data, want + 5);
    assert_true(b.size == size - 5);
    tw_buf_drop(&b, b.size);
    assert_string_equal(b.data, "");
    tw_buf_drop(&(tw_buf){0}, 0);
    tw_buf_str(&b, "xy");
    tw_buf_clear(&b);
    assert_string_equal(b.data, "");
    assert_false(tw_buf_add(&b, "x", SIZE_MAX / 2));
    assert_true(b.failed);
    assert_false(tw_buf_str(&b, "x"));
    tw_buf_free(&b);
    assert_true(!b.data && !b.failed);
    tw_buf_clear(&b);
}

static void floats_are_spelled_as_python_does(void **state) {
    (void)state;
    static const struct {
        double x;
        const char *is;
    } cases[] = {{0, "0.0"},
                 {-0.0, "-0.0"},
                 {0.1, "0.1"},
                 {1e-4, "0.0001"},
                 {1e-5, "1e-05"},
                 {-1.5e-7, "-1.5e-07"},
                 {1e15, "1000000000000000.0"},
                 {9007199254740994, "9007199254740994.0"},
                 {1e16, "1e+16"},
                 {1.7976931348623157e308, "1.7976931348623157e+308"},
                 {-0.00012345678901234567, "-0.00012345678901234567"},
                 {2.0 / 3, "0.6666666666666666"},
                 {5e-324, "5e-324"},
                 {(double)NAN, "nan"},
                 {-(double)INFINITY, "-inf"}};
    char text[TW_PYTHON_FLOAT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_python_float(text, cases[i].x);
        assert_string_equal(text, cases[i].is);
    }
    tw_python_json_float(text, (double)NAN);
    assert_string_equal(text, "NaN");
    tw_python_json_float(text, -(double)INFINITY);
    assert_string_equal(text, "-Infinity");
    tw_python_json_float(text, 0.5);
    assert_string_equal(text, "0.5");
}

static void bytes_that_are_no_characters_are_found(void **state) {
    (void)state;
    static const struct {
        const char *text, *mended;
    } cases[] = {{"", ""},
                 {"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", NULL},
                 {"\xed\x9f\xbf", NULL},
                 {"\xc3", "?"},
                 {"a\xe2\x82", "a??"},
                 {"\xff\xc3\xa9\xfe", "?\xc3\xa9?"},
                 {"\xc0\x80", "??"},
                 {"\xe0\x9f\xbf", "???"},
                 {"\xed\xa0\x80", "???"},
                 {"\xf4\x90\x80\x80", "????"},
                 {"\x80z", "?z"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[20];
        const size_t size = strlen(cases[i].text);
        const char *mended = cases[i].mended ? cases[i].mended : cases[i].text;
        memcpy(text, cases[i].text, size + 1);
        assert_true((tw_utf8_check(text, size) == size) == !strcmp(text, mended));
        tw_utf8_mend(text);
        assert_string_equal(text, mended);
    }
}

static void texts_are_cut(void **state) {
    (void)state;
    char whole[20], out[20];
    tw_text w = {whole, sizeof whole, 0};
    tw_text_add(&w, "%d and ", 12);
    tw_text_add(&w, "%s", "more");
    assert_string_equal(whole, "12 and more");
    assert_int_equal(w.used, 11);
    for (size_t size = 0; size <= 12; size++) {
        memset(out, '#', sizeof out);
        tw_text t = {out, size, 0};
        tw_text_add(&t, "%d and ", 12);
        tw_text_add(&t, "%s", "more");
        if (size) assert_int_equal(out[size - 1], 0);
        if (size) assert_memory_equal(out, whole, size - 1);
        assert_int_equal(out[size], '#');
    }
}

static void a_place_is_as_exact_as_what_is_known(void **state) {
    (void)state;
    tw_diag d;
    char place[2048], path[3000];
    tw_fail(&d, TW_ERR_USAGE, "no file");
    assert_int_equal(d.status, TW_ERR_USAGE);
    tw_diag_place(&d, place, sizeof place);
    assert_string_equal(place, "");
    assert_int_equal(tw_fail_at(&d, TW_ERR_IO, "w.bin", -1, "gone"), TW_ERR_IO);
    tw_diag_place(&d, place, sizeof place);
    assert_string_equal(place, "w.bin: ");
    tw_fail_at(&d, TW_ERR_IO, "w.bin", 0, "at the start");
    tw_diag_place(&d, place, sizeof place);
    assert_string_equal(place, "w.bin:0: ");
    tw_fail_line(&d, TW_ERR_IO, "a.json", 0, 0, "at the start");
    tw_diag_place(&d, place, sizeof place);
    assert_string_equal(place, "a.json:0:0: ");
    assert_int_equal(tw_fail_memory(&d), TW_ERR_MEMORY);
    assert_string_equal(d.message, "out of memory");
    /* A path that does not fit keeps its end. */
    memset(path, 'p', sizeof path);
    strcpy(path + sizeof path - 8, "end.txt");
    tw_fail_at(&d, TW_ERR_IO, path, -1, "x");
    assert_int_equal(strlen(d.path), sizeof d.path - 1);
    assert_string_equal(d.path + strlen(d.path) - 8, "pend.txt");
    path[0] = 'q', path[sizeof d.path - 1] = 0;
    tw_fail_at(&d, TW_ERR_IO, path, -1, "x");
    assert_string_equal(d.path, path);
    /* Reasons: the first says whose, and what does not fit is dropped whole. */
    tw_diag_clear(&d);
    tw_diag_add(&d, TW_ERR_FORMAT, "first", "a");
    tw_diag_add(&d, TW_ERR_IO, "second", "b");
    assert_int_equal(d.status, TW_ERR_FORMAT);
    assert_string_equal(d.path, "first");
    char line[101];
    memset(line, 'l', 100);
    line[100] = 0;
    for (int i = 0; i < 100; i++) tw_diag_add(&d, TW_ERR_IO, "m", "%s", line);
    const char *end = strstr(d.message, "\n(and more)");
    assert_non_null(end);
    assert_string_equal(end, "\n(and more)");
    assert_int_equal((end - d.message - 3) % 101, 0);
    assert_true(strlen(d.message) + 101 + sizeof "\n(and more)" > sizeof d.message);
    tw_diag_add(NULL, TW_ERR_IO, "m", "nobody listens");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotients_are_rounded_up),
        cmocka_unit_test(generators_give_the_published_numbers),
        cmocka_unit_test(draws_have_the_promised_range_and_moments),
        cmocka_unit_test(f32_rounds_to_the_nearest_bf16),
        cmocka_unit_test(halves_are_what_their_bits_say),
        cmocka_unit_test(e4m3_is_what_its_bits_say),
        cmocka_unit_test(elements_convert_in_rows),
        cmocka_unit_test(statistics_of_few_samples),
        cmocka_unit_test(an_arena_gives_zeroed_memory_that_is_nobody_elses),
        cmocka_unit_test(a_buffer_grows_and_its_failure_sticks),
        cmocka_unit_test(floats_are_spelled_as_python_does),
        cmocka_unit_test(bytes_that_are_no_characters_are_found),
        cmocka_unit_test(texts_are_cut),
        cmocka_unit_test(a_place_is_as_exact_as_what_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
