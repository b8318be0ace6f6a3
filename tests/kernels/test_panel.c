/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "base/dtype.h"
#include "base/random.h"
#include "kernels/cpu/panel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const tw_panel_format formats[] = {
    {TW_F32, 0}, {TW_F16, 0},  {TW_BF16, 0}, {TW_I8, 0},  {TW_I8, 32},
    {TW_I8, 64}, {TW_I8, 128}, {TW_I4, 32},  {TW_I4, 64}, {TW_I4, 128},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static int64_t groups_of(tw_panel_format f, int64_t cols) {
    return f.group ? (cols + f.group - 1) / f.group : 1;
}

/* Rows in the stored type, their scales, and what they mean as float. */
typedef struct matrix {
    unsigned char *data;
    float *scales, *meaning;
} matrix;

static matrix matrix_make(tw_panel_format f, int64_t rows, int64_t cols, tw_random *r) {
    size_t n = (size_t)(rows * cols), bytes = tw_dtype_bits(f.dtype) < 16 ? 1 : tw_dtype_bits(f.dtype) / 8;
    int64_t groups = groups_of(f, cols);
    matrix m = {malloc(n * bytes), malloc((size_t)(rows * groups) * 4), malloc(n * 4)};
    assert_true(m.data && m.scales && m.meaning);
    for (int64_t i = 0; i < rows * groups; i++) m.scales[i] = 0.001f + (float)tw_random_unit(r);
    for (size_t i = 0; i < n; i++) m.meaning[i] = tw_random_normal(r);
    if (bytes > 1) {
        tw_from_f32(f.dtype, m.meaning, m.data, n);
        tw_to_f32(f.dtype, m.data, m.meaning, n);
        return m;
    }
    int bound = f.dtype == TW_I8 ? 128 : 8;
    for (int64_t i = 0; i < rows * cols; i++) {
        int w = (int)tw_random_below(r, (uint64_t)(2 * bound)) - bound;
        float s = m.scales[i / cols * groups + (f.group ? i % cols / f.group : 0)];
        if (f.dtype == TW_I4) s = tw_f16_to_f32(tw_f32_to_f16(s));
        m.data[i] = (unsigned char)(int8_t)w;
        m.meaning[i] = (float)w * s;
    }
    return m;
}

static void matrix_free(matrix *m) {
    free(m->data);
    free(m->scales);
    free(m->meaning);
}

static void check_round_trip(tw_panel_format f, int rows, int64_t cols, tw_random *r) {
    matrix m = matrix_make(f, rows, cols, r);
    size_t bytes = tw_panel_bytes(f, cols);
    int64_t ldo = cols + 3;
    unsigned char *panel = aligned_alloc(64, bytes);
    float *row = malloc((size_t)(cols + 1) * 4), *all = malloc((size_t)(16 * ldo) * 4);
    assert_true(panel && row && all);
    assert_int_equal(bytes % 64, 0);
    assert_int_equal(tw_panel_scale_bytes(f, cols) % 64, 0);
    memset(panel, 0xff, bytes);
    tw_panel_pack(f, cols, rows, m.data, m.scales, panel);
    for (int64_t i = 0; i < 16 * ldo; i++) all[i] = -7;
    tw_panel_unpack(f, cols, panel, 1, all, ldo);
    for (int i = 0; i < 16; i++) {
        row[cols] = 42;
        tw_panel_unpack_row(f, cols, panel, i, row);
        assert_true(row[cols] == 42);
        for (int64_t k = 0; k < cols; k++) {
            assert_true(row[k] == (i < rows ? m.meaning[i * cols + k] : 0));
            assert_true(all[i * ldo + k] == row[k]);
        }
        for (int64_t k = cols; k < ldo; k++) assert_true(all[i * ldo + k] == -7);
    }
    free(panel);
    free(row);
    free(all);
    matrix_free(&m);
}

static void every_format_comes_back_as_it_went_in(void **state) {
    (void)state;
    static const int64_t cols[] = {1, 7, 8, 31, 32, 64, 65, 129, 200, 384};
    tw_random r = tw_random_seed(11);
    for (int i = 0; i < FORMATS; i++)
        for (size_t c = 0; c < sizeof cols / sizeof *cols; c++)
            for (int rows = 1; rows <= 16; rows += 5) check_round_trip(formats[i], rows, cols[c], &r);
}

/* Byte for byte as panel.h says, for one small panel of each integer format and bf16. */
static void bytes_lie_where_the_header_says(void **state) {
    (void)state;
    int8_t w[2 * 8] = {1, 2, 3, 4, 5, 6, 7, -8, -1, -2, -3, -4, -5, -6, -7, 0};
    float scales[2] = {0.5f, 0.25f}, s;
    unsigned char panel[64 + 128];
    tw_panel_pack((tw_panel_format){TW_I8, 0}, 8, 2, w, scales, panel);
    memcpy(&s, panel + 4, 4);
    assert_true(s == 0.25f);
    memcpy(&s, panel + 8, 4);
    assert_true(s == 0);
    assert_int_equal(panel[64], 129);
    assert_int_equal(panel[64 + 3], 132);
    assert_int_equal(panel[64 + 4 + 1], 126);
    assert_int_equal(panel[64 + 64 + 3], 120);
    assert_int_equal(panel[64 + 8], 128);
    tw_panel_pack((tw_panel_format){TW_I4, 0}, 8, 2, w, scales, panel);
    assert_int_equal(panel[64], (5 + 8) << 4 | (1 + 8));
    assert_int_equal(panel[64 + 3], (-8 + 8) << 4 | (4 + 8));
    assert_int_equal(panel[64 + 4], (-5 + 8) << 4 | (-1 + 8));
    assert_int_equal(panel[64 + 8], 0x88);
    uint16_t h[3] = {0x1111, 0x2222, 0x3333}, got;
    unsigned char halves[256];
    tw_panel_pack((tw_panel_format){TW_BF16, 0}, 3, 1, h, NULL, halves);
    memcpy(&got, halves + 2, 2);
    assert_int_equal(got, 0x2222);
    memcpy(&got, halves + 64, 2);
    assert_int_equal(got, 0x3333);
}

static void widening_begins_anywhere(void **state) {
    (void)state;
    tw_random r = tw_random_seed(12);
    for (int i = 0; i < FORMATS; i++) {
        tw_panel_format f = formats[i];
        matrix m = matrix_make(f, 16, 256, &r);
        unsigned char *panel = aligned_alloc(64, tw_panel_bytes(f, 256));
        float out[48 * 16];
        assert_non_null(panel);
        tw_panel_pack(f, 256, 16, m.data, m.scales, panel);
        for (int64_t k = 0; k + 48 <= 256; k += 8) {
            tw_panel_widen(f, 256, panel, k, 48, out);
            for (int c = 0; c < 48; c++)
                for (int row = 0; row < 16; row++) assert_true(out[c * 16 + row] == m.meaning[row * 256 + k + c]);
        }
        free(panel);
        matrix_free(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_comes_back_as_it_went_in),
        cmocka_unit_test(bytes_lie_where_the_header_says),
        cmocka_unit_test(widening_begins_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
