/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "base/dtype.h"
#include "base/random.h"
#include "model/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tw_dtype types[] = {TW_F32, TW_F16, TW_BF16};
enum { TYPES = 3, ROWS = 7, COLS = 1300 };

/* Reads of every type, straight and transposed, from an odd address. */
static void test_read(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int transposed = 0; transposed < 2; transposed++) {
            size_t size = tw_dtype_bits(types[t]) / 8;
            unsigned char *bytes = malloc(ROWS * COLS * size + 1), *raw = malloc(COLS * size);
            float *value = malloc(ROWS * COLS * sizeof *value), *got = malloc(COLS * sizeof *got);
            assert_true(bytes && raw && value && got);
            for (int i = 0; i < ROWS * COLS; i++) value[i] = (float)((i * 37) % 2011 - 1000) / 1024;
            tw_from_f32(types[t], value, bytes + 1, ROWS * COLS);
            tw_to_f32(types[t], bytes + 1, value, ROWS * COLS);
            tw_weight w = {.dtype = types[t], .rows = ROWS, .cols = COLS, .data = bytes + 1};
            w.row_stride = transposed ? 1 : COLS;
            w.col_stride = transposed ? ROWS : 1;
            for (int r = 0; r < ROWS; r++)
                for (int c = 0; c < COLS; c += 211) {
                    int n = COLS - c;
                    tw_weight_read(&w, r, c, n, got);
                    tw_weight_read_raw(&w, r, c, n, raw);
                    for (int i = 0; i < n; i++) {
                        int64_t at = r * w.row_stride + (c + i) * w.col_stride;
                        assert_true(got[i] == value[at]);
                        assert_memory_equal(raw + (size_t)i * size, bytes + 1 + (size_t)at * size, size);
                    }
                }
            tw_weight_read(&w, 0, 0, 0, NULL);
            tw_weight_read_raw(&w, 0, 0, 0, NULL);
            free(bytes), free(raw), free(value), free(got);
        }
}

static tw_model *synthetic(const char *shape, tw_dtype dtype, uint64_t seed) {
    tw_model *m;
    tw_diag diag;
    if (tw_model_synthetic(&m, shape, dtype, seed, &diag) != TW_OK) fail_msg("%s: %s", shape, diag.message);
    return m;
}

/* A synthetic element does not depend on how it is asked for; raw and float reads agree. */
static void test_synthetic_reads(void **state) {
    (void)state;
    static const char *const names[] = {"layers.1.mlp.up", "layers.0.attn_norm", "embed"};
    for (int t = 0; t < TYPES; t++) {
        tw_model *m = synthetic("llama-1b", types[t], 7);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            const tw_weight *w = tw_model_find(m, names[k]);
            size_t n = w->cols == 1 ? 1 : 2048, size = tw_dtype_bits(w->dtype) / 8;
            float whole[2048], part[2048], converted[2048];
            unsigned char raw[2048 * 4];
            tw_weight_read(w, 5, 0, (int64_t)n, whole);
            tw_weight_read_raw(w, 5, 0, (int64_t)n, raw);
            tw_to_f32(w->dtype, raw, converted, n);
            assert_memory_equal(whole, converted, n * sizeof *whole);
            for (size_t at = 0; at < n; at += 131) {
                size_t some = n - at < 700 ? n - at : 700;
                unsigned char piece[700 * 4];
                tw_weight_read(w, 5, (int64_t)at, (int64_t)some, part);
                assert_memory_equal(part, whole + at, some * sizeof *part);
                tw_weight_read_raw(w, 5, (int64_t)at, (int64_t)some, piece);
                assert_memory_equal(piece, raw + at * size, some * size);
            }
        }
        tw_model_close(m);
    }
}

static void moments(const tw_weight *w, double *mean, double *deviation) {
    double sum = 0, square = 0;
    float *row = malloc((size_t)w->cols * sizeof *row);
    assert_non_null(row);
    int64_t rows = w->rows < 64 ? w->rows : 64;
    if (w->cols == 1) rows = w->rows;
    for (int64_t r = 0; r < rows; r++) {
        tw_weight_read(w, r, 0, w->cols, row);
        for (int64_t c = 0; c < w->cols; c++) {
            sum += (double)row[c];
            square += (double)row[c] * (double)row[c];
        }
    }
    double n = (double)(rows * w->cols);
    *mean = sum / n;
    *deviation = sqrt(square / n - *mean * *mean);
    free(row);
}

static void test_synthetic_values(void **state) {
    (void)state;
    tw_model *m = synthetic("llama-1b", TW_BF16, 1), *other = synthetic("llama-1b", TW_BF16, 2);
    double mean, deviation;
    moments(tw_model_find(m, "layers.3.mlp.gate"), &mean, &deviation);
    assert_true(fabs(mean) < 2e-4 && deviation > 0.01 && deviation < 0.03);
    moments(tw_model_find(m, "layers.3.mlp_norm"), &mean, &deviation);
    assert_true(fabs(mean - 1) < 0.01 && deviation > 0.01 && deviation < 0.1);
    float a[256], b[256], c[256];
    tw_weight_read(tw_model_find(m, "layers.3.attn.q"), 9, 0, 256, a);
    tw_weight_read(tw_model_find(m, "layers.4.attn.q"), 9, 0, 256, b);
    tw_weight_read(tw_model_find(other, "layers.3.attn.q"), 9, 0, 256, c);
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    tw_weight_read(tw_model_find(m, "head"), 100000, 0, 256, a);
    tw_weight_read(tw_model_find(m, "embed"), 100000, 0, 256, b);
    assert_memory_equal(a, b, sizeof a);
    tw_model_close(m);
    tw_model_close(other);
}

/* The same on every machine and in every version: a figure of a shape without a checkpoint is told of these weights. */
static void test_synthetic_pinned(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t row, col;
        double want[3];
    } cases[] = {
        {"layers.1.attn.q", 3, 5, {-0x1.b6p-4, -0x1.9ep-4, 0x1.5ap-4}},
        {"layers.0.mlp.down", 7, 1, {0x1.ep-8, -0x1.3cp-5, 0x1.ecp-5}},
        {"final_norm", 0, 0, {0x1.02dp+0, 0x1.0bdp+0, 0x1.e22p-1}},
    };
    tw_model *m = synthetic("llama-tiny", TW_F32, 5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float x[3];
        tw_weight w = *tw_model_find(m, cases[i].name);
        if (w.cols < 3)
            for (int k = 0; k < 3; k++) tw_weight_read(&w, cases[i].row + k, 0, 1, &x[k]);
        else
            tw_weight_read(&w, cases[i].row, cases[i].col, 3, x);
        for (int k = 0; k < 3; k++)
            if ((double)x[k] != cases[i].want[k]) fail_msg("%s[%d]: %a", cases[i].name, k, (double)x[k]);
    }
    tw_model_close(m);
}

/* Published numbers of parameters. */
static void test_shapes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t parameters;
    } want[] = {
        {"llama-1b", 1235814400},    {"llama-3b", 3212749824},       {"llama-8b", 8030261248},
        {"qwen2-0.5b", 494032768},   {"qwen2-1.5b", 1543714304},     {"qwen3-0.6b", 596049920},
        {"qwen3-1.7b", 1720574976},  {"qwen3-4b", 4022468096},       {"mistral-7b", 7248023552},
        {"smollm2-135m", 134515008}, {"smollm2-360m", 361821120},    {"tinyllama-1.1b", 1100048384},
        {"gpt2", 124439808},         {"qwen3-30b-a3b", 30532122624},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        tw_model *m = synthetic(want[i].name, TW_F16, 1);
        tw_model_info info;
        tw_model_describe(m, &info);
        if (info.parameters != want[i].parameters)
            fail_msg("%s has %lld parameters, not %lld", want[i].name, (long long)info.parameters,
                     (long long)want[i].parameters);
        assert_string_equal(info.name, want[i].name);
        assert_int_equal(info.weight_bytes, 2 * info.parameters);
        assert_true(info.streamed_bytes <= info.weight_bytes);
        assert_int_equal(info.dtype, TW_F16);
        tw_model_close(m);
    }
    int known = 0;
    while (tw_model_shape_name(known)) tw_model_close(synthetic(tw_model_shape_name(known++), TW_F32, 3));
    assert_true(known >= 15);
    assert_null(tw_model_shape_name(-1));
}

static void test_synthetic_refused(void **state) {
    (void)state;
    tw_model *m;
    tw_diag diag;
    assert_int_equal(tw_model_synthetic(&m, "llama-9t", TW_F16, 1, &diag), TW_ERR_USAGE);
    assert_non_null(strstr(diag.message, "no shape is called llama-9t; there are llama-1b, "));
    assert_int_equal(tw_model_synthetic(&m, "llama-1b", TW_I8, 1, &diag), TW_ERR_USAGE);
    assert_string_equal(diag.message, "i8 is not a type of weights; f32, f16 and bf16 are");
    assert_null(m);
}

static bool found_again(void *context, const tw_weight *w) {
    const tw_model *m = context;
    assert_ptr_equal(tw_model_find(m, w->name), w);
    return true;
}

static bool stop_after_three(void *context, const tw_weight *w) {
    (void)w;
    return ++*(int *)context < 3;
}

/* A type of 16 bits holds what the floats round to, to the nearest even. */
static void test_synthetic_rounding(void **state) {
    (void)state;
    tw_model *m = synthetic("llama-tiny", TW_F32, 5), *f16 = synthetic("llama-tiny", TW_F16, 5),
             *bf16 = synthetic("llama-tiny", TW_BF16, 5);
    static const char *const names[] = {"layers.1.attn.q", "final_norm", "layers.0.attn_norm", "layers.1.mlp_norm",
                                        "embed"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const tw_weight *w = tw_model_find(m, names[i]);
        const int64_t n = w->rows < 64 ? w->rows : 64;
        for (int64_t r = 0; r < n; r++) {
            float x[64], h[64], b[64];
            const int64_t cols = w->cols < 64 ? w->cols : 64;
            tw_weight_read(w, r, 0, cols, x);
            tw_weight_read(tw_model_find(f16, names[i]), r, 0, cols, h);
            tw_weight_read(tw_model_find(bf16, names[i]), r, 0, cols, b);
            for (int64_t c = 0; c < cols; c++) {
                assert_true(h[c] == tw_f16_to_f32(tw_f32_to_f16(x[c])));
                assert_true(b[c] == tw_bf16_to_f32(tw_f32_to_bf16(x[c])));
            }
        }
    }
    tw_model_close(m);
    tw_model_close(f16);
    tw_model_close(bf16);
}

/* In a mixture layers and experts have numbers of their own. */
static void test_names_of_experts(void **state) {
    (void)state;
    static const char *const folders[] = {"mixtral-fused", "qwen3moe-step-fused", "gpt2-relu-untied", "qwen3-bias"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[512];
        tw_model *m;
        tw_diag d;
        snprintf(path, sizeof path, TEST_DATA "/models/%s", folders[i]);
        assert_int_equal(tw_model_open(&m, path, &d), TW_OK);
        tw_model_each(m, found_again, m);
        for (int64_t l = 0; l < m->n_layers && m->layers[l].experts; l++)
            for (int64_t e = 0; e < m->n_experts; e++) {
                char name[64];
                snprintf(name, sizeof name, "layers.%d.experts.%d.up", (int)l, (int)e);
                assert_string_equal(m->layers[l].experts[e].up.weight.name, name);
                assert_ptr_equal(tw_model_find(m, name), &m->layers[l].experts[e].up.weight);
            }
        tw_model_close(m);
    }
}

static void test_find(void **state) {
    (void)state;
    static const char *const none[] = {"",
                                       "heads",
                                       "layers",
                                       "layers.",
                                       "layers.0",
                                       "layers.0.",
                                       "layers.2.attn.q",
                                       "layers.00.attn.q",
                                       "layers.-1.attn.q",
                                       "layers.99999999999999999999.attn.q",
                                       "layers.0.attn.q.bias",
                                       "layers.0.mlp.gate.bias",
                                       "layers.0.experts.0.gate",
                                       "positions",
                                       "layers.0.router"};
    tw_model *m = synthetic("llama-tiny", TW_F32, 1);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_null(tw_model_find(m, none[i]));
    assert_string_equal(tw_model_find(m, "head")->name, "head");
    tw_model_each(m, found_again, m);
    int seen = 0;
    tw_model_each(m, stop_after_three, &seen);
    assert_int_equal(seen, 3);
    tw_model_close(m);
    m = synthetic("qwen3-30b-a3b", TW_F16, 1);
    assert_int_equal(tw_model_find(m, "layers.47.experts.127.down")->cols, 768);
    assert_null(tw_model_find(m, "layers.47.experts.128.down"));
    assert_null(tw_model_find(m, "layers.47.experts."));
    assert_null(tw_model_find(m, "layers.47.mlp.up"));
    assert_non_null(tw_model_find(m, "layers.47.attn.q_norm"));
    tw_model_close(m);
    m = synthetic("gpt2", TW_F32, 1);
    assert_non_null(tw_model_find(m, "final_norm.bias"));
    assert_non_null(tw_model_find(m, "positions"));
    tw_model_each(m, found_again, m);
    tw_model_close(m);
}

static void test_nonfinite(void **state) {
    (void)state;
    tw_model *m = synthetic("llama-tiny", TW_F32, 1);
    const char *first = "x";
    assert_int_equal(tw_model_count_nonfinite(m, &first), 0);
    assert_null(first);
    for (int t = 0; t < TYPES; t++)
        for (int transposed = 0; transposed < 2; transposed++) {
            static float value[160 * 64];
            static unsigned char bytes[sizeof value];
            value[0] = INFINITY;
            value[77] = NAN;
            value[160 * 64 - 1] = -INFINITY;
            tw_from_f32(types[t], value, bytes, 160 * 64);
            tw_weight *w = &m->layers[1].up.weight, kept = *w;
            w->data = bytes;
            w->dtype = types[t];
            w->row_stride = transposed ? 1 : 64;
            w->col_stride = transposed ? 160 : 1;
            assert_int_equal(tw_model_count_nonfinite(m, &first), 3);
            assert_string_equal(first, "layers.1.mlp.up");
            assert_int_equal(tw_model_count_nonfinite(m, NULL), 3);
            *w = kept;
        }
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_synthetic_reads),
        cmocka_unit_test(test_synthetic_values),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_synthetic_refused),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_names_of_experts),
        cmocka_unit_test(test_synthetic_pinned),
        cmocka_unit_test(test_synthetic_rounding),
        cmocka_unit_test(test_nonfinite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
