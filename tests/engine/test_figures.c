/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine says of its own work: bytes that a token streams, operations of a prompt, and perplexity's windows. */
#include "support/support.h"

#include "engine/engine.h"
#include "tilewright/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tw_engine *open_engine(const char *folder, tw_engine_options o, tw_model **m) {
    char path[4096];
    tw_engine *e = NULL;
    tw_diag d;
    snprintf(path, sizeof path, TEST_DATA "/models/%s", folder);
    if (tw_model_open(m, path, &d) != TW_OK || tw_engine_open(&e, *m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    return e;
}

/* Keys and values of every position that is seen, of every layer, at the cache's width; a window sees no more. */
static void a_token_streams_what_it_sees(void **state) {
    (void)state;
    static const char *const folders[] = {"llama-biases", "mistral-window", "gpt2-relu-untied"};
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        tw_model *m;
        tw_engine *e = open_engine(folders[f], (tw_engine_options){.workers = 1, .context = 64}, &m);
        const int64_t weights = tw_engine_streamed_bytes(e, 0) - 2 * m->n_layers * m->n_kv_heads * m->head_dim * 4;
        assert_true(weights > 0 && weights <= tw_engine_tape_bytes(e));
        for (int64_t position = 0; position < 64; position++) {
            int64_t rows = 0;
            for (int64_t i = 0; i < m->n_layers; i++) {
                const int64_t window = m->layers[i].window;
                rows += window && window < position + 1 ? window : position + 1;
            }
            assert_int_equal(tw_engine_streamed_bytes(e, position) - weights,
                             2 * rows * m->n_kv_heads * m->head_dim * 4);
        }
        tw_engine_close(e);
        tw_model_close(m);
    }
}

/* Twice the multiply-adds of every product and of attention, counted one by one. */
static void operations_are_counted(void **state) {
    (void)state;
    static const char *const folders[] = {"llama-biases", "mistral-window", "gpt2-gelu-bare", "mixtral-window",
                                          "qwen3moe-dense-first"};
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        tw_model *m;
        tw_engine *e = open_engine(folders[f], (tw_engine_options){.workers = 1, .context = 32}, &m);
        for (int64_t n = 1; n <= 20; n += 19)
            for (int64_t position = 0; position <= 9; position += 9) {
                double want = 0;
                for (int64_t i = 0; i < m->n_layers; i++) {
                    const tw_layer *y = &m->layers[i];
                    const tw_weight *of[] = {&y->q.weight,    &y->k.weight,  &y->v.weight,    &y->o.weight,
                                             &y->gate.weight, &y->up.weight, &y->down.weight, &y->router};
                    for (size_t w = 0; w < sizeof of / sizeof *of; w++)
                        want += (double)n * (double)of[w]->rows * (double)of[w]->cols;
                    for (int64_t x = 0; y->experts && x < m->n_experts_used; x++) {
                        const tw_expert *p = &y->experts[x];
                        want += (double)n * (double)(p->gate.weight.rows * p->gate.weight.cols +
                                                     p->up.weight.rows * p->up.weight.cols +
                                                     p->down.weight.rows * p->down.weight.cols);
                    }
                    for (int64_t t = position; t < position + n; t++)
                        for (int64_t k = 0; k <= t; k++)
                            if (!y->window || t - k < y->window) want += 2 * (double)(m->n_heads * m->head_dim);
                }
                want += (double)(m->dim * m->vocab);
                const double got = tw_engine_operations(e, position, n);
                if (fabs(got / (2 * want) - 1) > 1e-9) fail_msg("%s: %g, not %g", folders[f], got, 2 * want);
            }
        tw_engine_close(e);
        tw_model_close(m);
    }
}

typedef struct steps {
    int64_t done[16], total;
    int n;
} steps;

static void note(void *user, int64_t done, int64_t total) {
    steps *s = user;
    assert_true(s->n < 16);
    s->done[s->n++] = done;
    s->total = total;
}

/* The mean over windows is that of their sums, a last id alone is left out, and progress counts ids. */
static void perplexity_is_the_mean_over_windows(void **state) {
    (void)state;
    enum { N = 21 };
    tw_model *m;
    tw_engine *e = open_engine("llama-biases", (tw_engine_options){.workers = 2, .context = 16}, &m);
    int32_t ids[N];
    tw_diag d;
    for (int i = 0; i < N; i++) ids[i] = (i * 37 + 11) % 256;
    for (int n = 2; n <= N; n++)
        for (int context = 2; context <= 8; context += 3) {
            double sum = 0, one, nll;
            int64_t count = 0, said = -1;
            steps s = {.n = 0};
            for (int at = 0; at < n; at += context) {
                const int size = n - at < context ? n - at : context;
                if (size < 2) continue;
                assert_int_equal(tw_engine_score(e, ids + at, size, &one, &d), TW_OK);
                sum += one;
                count += size - 1;
            }
            if (tw_engine_perplexity(e, ids, n, context, &nll, &said, note, &s, &d) != TW_OK) fail_msg("%s", d.message);
            assert_int_equal(said, count);
            assert_true(fabs(nll - sum / (double)count) < 1e-9);
            assert_true(s.n > 0 && s.total == n && s.done[s.n - 1] <= n && s.done[s.n - 1] >= n - 1);
            for (int i = 1; i < s.n; i++)
                assert_true(s.done[i] - s.done[i - 1] <= context && s.done[i] > s.done[i - 1]);
        }
    double nll;
    int64_t said;
    assert_int_equal(tw_engine_perplexity(e, ids, 1, 8, &nll, &said, NULL, NULL, &d), TW_ERR_USAGE);
    assert_int_equal(tw_engine_perplexity(e, ids, N, 1, &nll, &said, NULL, NULL, &d), TW_ERR_USAGE);
    assert_int_equal(tw_engine_perplexity(e, ids, N, 17, &nll, &said, NULL, NULL, &d), TW_ERR_USAGE);
    tw_engine_close(e);
    tw_model_close(m);
}

/* The loss is that of the softmax, by sums of our own. */
static void a_score_is_the_softmaxs(void **state) {
    (void)state;
    enum { N = 6 };
    tw_model *m;
    tw_engine *e = open_engine("llama-biases", (tw_engine_options){.workers = 1, .context = 16}, &m);
    static const int32_t ids[N] = {1, 77, 5, 200, 9, 31};
    double want = 0, got;
    tw_diag d;
    for (int i = 0; i + 1 < N; i++) {
        const float *logits;
        double sum = 0;
        assert_int_equal(tw_engine_feed(e, &ids[i], 1, &logits, NULL, &d), TW_OK);
        for (int64_t k = 0; k < m->vocab; k++) sum += exp((double)logits[k]);
        want += log(sum) - (double)logits[ids[i + 1]];
    }
    assert_int_equal(tw_engine_score(e, ids, N, &got, &d), TW_OK);
    assert_true(fabs(got - want) < 1e-4);
    tw_engine_close(e);
    tw_model_close(m);
}

/* What is not said is chosen: a context of what the model was made for, prompts in steps of a configuration's. */
static void options_have_defaults(void **state) {
    (void)state;
    tw_model *m;
    tw_engine *e = open_engine("llama-biases", (tw_engine_options){.workers = 1}, &m);
    assert_int_equal(tw_engine_context(e), m->max_seq);
    assert_int_equal(tw_engine_position(e), 0);
    assert_false(tw_engine_on_gpu(e));
    assert_string_equal(tw_engine_device(e), "cpu");
    assert_int_equal(tw_engine_workers(e), 1);
    tw_engine_close(e);
    tw_model_close(m);
    /* Rope that is stretched with the length was made for that many times its positions. */
    tw_diag d;
    assert_int_equal(tw_model_open(&m, TEST_DATA "/models/llama-dynamic", &d), TW_OK);
    assert_int_equal(m->max_seq, 40 * 4);
    tw_model_close(m);
    /* A table of positions ends; rope goes on. */
    e = open_engine("llama-biases", (tw_engine_options){.workers = 1, .context = 200}, &m);
    assert_int_equal(tw_engine_context(e), 200);
    tw_engine_close(e);
    tw_model_close(m);
    assert_int_equal(tw_model_open(&m, TEST_DATA "/models/gpt2-relu-untied", &d), TW_OK);
    const tw_engine_options most = {.workers = 1, .context = m->max_seq},
                            more = {.workers = 1, .context = m->max_seq + 1};
    assert_int_equal(tw_engine_open(&e, m, &most, &d), TW_OK);
    tw_engine_close(e);
    assert_int_not_equal(tw_engine_open(&e, m, &more, &d), TW_OK);
    assert_null(e);
    tw_model_close(m);
}

static void devices_go_by_name(void **state) {
    (void)state;
    static const char *const wrong[] = {"cuda-1", "cuda 0", "cudax0", "cuda:1024", "cuda:-1", "auto0", "cpu:0"};
    tw_model *m;
    tw_engine *e;
    tw_diag d;
    assert_int_equal(tw_model_open(&m, TEST_DATA "/models/llama-biases", &d), TW_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const tw_engine_options o = {.device = wrong[i]};
        if (tw_engine_open(&e, m, &o, &d) != TW_ERR_USAGE) fail_msg("\"%s\"", wrong[i]);
        assert_null(e);
    }
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_streams_what_it_sees),
        cmocka_unit_test(operations_are_counted),
        cmocka_unit_test(perplexity_is_the_mean_over_windows),
        cmocka_unit_test(a_score_is_the_softmaxs),
        cmocka_unit_test(options_have_defaults),
        cmocka_unit_test(devices_go_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
