/* SPDX-License-Identifier: Apache-2.0 */
/* The engine against transformers' own figures, and its promises about sampling, stopping and refusing. */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/buf.h"
#include "base/file.h"
#include "tilewright/device.h"
#include "tilewright/engine.h"
#include "tilewright/model.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char demo[] = TW_SOURCE_DIR "/models/demo";

static tw_model *open_model(const char *path) {
    tw_model *m;
    tw_diag d;
    if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
    return m;
}

static tw_engine *open_engine(const tw_model *m, tw_engine_options o) {
    tw_engine *e;
    tw_diag d;
    if (tw_engine_open(&e, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    return e;
}

static void verify_folder(const char *folder, tw_engine_options o) {
    char golden[4200];
    tw_verdict v;
    tw_diag d;
    tw_model *m = open_model(folder);
    tw_engine *e = open_engine(m, o);
    snprintf(golden, sizeof golden, "%s/golden.json", folder);
    if (tw_engine_verify(e, NULL, golden, folder, &v, &d) != TW_OK) fail_msg("%s: %s", folder, d.message);
    assert_true(v.cases >= 1 && v.worst_logit <= 1);
    tw_engine_close(e);
    tw_model_close(m);
}

/* A prompt in chunks of any size has the same tokens behind it. */
static void any_chunks_have_the_same_tokens(void **state) {
    (void)state;
    static const char *const folders[] = {TEST_DATA "/models/llama-linear-mqa", TEST_DATA "/models/mistral-window",
                                          TEST_DATA "/models/mixtral-window"};
    static const int64_t sizes[] = {1, 7, 64, 512};
    enum { PROMPT = 75, N = 12 };
    for (int f = 0; f < 3; f++) {
        tw_model *m = open_model(folders[f]);
        int32_t prompt[PROMPT], first[N];
        for (int i = 0; i < PROMPT; i++) prompt[i] = (i * i * 11 + i * 5 + 3) % 256;
        for (int i = 0; i < 4; i++) {
            tw_engine *e = open_engine(m, (tw_engine_options){.prefill = sizes[i], .context = 96, .workers = 2});
            tw_generation g = {.prompt = prompt, .n_prompt = PROMPT, .limit = N, .ignore_eos = true};
            tw_diag d;
            if (tw_generate(e, NULL, &g, &d) != TW_OK) fail_msg("%s: %s", folders[f], d.message);
            assert_int_equal(g.n_ids, N);
            if (!i) memcpy(first, g.ids, sizeof first);
            for (int k = 0; k < N; k++)
                if (g.ids[k] != first[k])
                    fail_msg("%s, chunks of %d: id %d is %d, not %d", folders[f], (int)sizes[i], k, g.ids[k], first[k]);
            free(g.ids);
            tw_engine_close(e);
        }
        tw_model_close(m);
    }
}

/* Every model folder under tests/data, with the kernels of every instruction set that this machine has; under a
   sanitizer with those of one, in turn. */
static void every_model_agrees_with_transformers(void **state) {
    (void)state;
    enum { MASKS = 4 };
    static const uint32_t masks[MASKS] = {0, TW_CPU_AVX2, TW_CPU_AVX2 | TW_CPU_AVX512, UINT32_MAX};
    DIR *dir = opendir(TEST_DATA "/models");
    int folders = 0;
    assert_non_null(dir);
    for (struct dirent *at; (at = readdir(dir));) {
        char folder[4096];
        if (at->d_name[0] == '.' || !strncmp(at->d_name, "unsupported", 11)) continue;
        snprintf(folder, sizeof folder, TEST_DATA "/models/%s", at->d_name);
        if (!tw_path_is_dir(folder)) continue;
        for (int i = 0; i < MASKS; i++) {
            if (TEST_SANITIZED && i != folders % MASKS) continue;
            tw_engine_options o = {.limit_isa = true, .isa = masks[i], .workers = 1 + i, .prefill = i ? 512 : 16};
            o.no_vendor = i % 2;
            verify_folder(folder, o);
        }
        folders++;
    }
    closedir(dir);
    assert_true(folders >= 10);
}

static void quantised_weights_agree_with_the_floats_they_stand_for(void **state) {
    (void)state;
    static const struct {
        tw_dtype weights;
        int group;
    } kinds[] = {{TW_I8, 0}, {TW_I8, 32}, {TW_I8, 128}, {TW_I4, 32}, {TW_I4, 64}, {TW_I4, 128}};
    tw_model *m = open_model(TEST_DATA "/models/llama-biases");
    tw_model_info info;
    tw_model_describe(m, &info);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        tw_engine_options o = {.weights = kinds[i].weights, .group = kinds[i].group, .workers = 2};
        tw_engine *e = open_engine(m, o);
        o.dequantise = true;
        tw_engine *reference = open_engine(m, o);
        tw_verdict v;
        tw_diag d;
        if (tw_engine_compare(e, reference, info.vocab, 2, 12, 5, &v, &d) != TW_OK)
            fail_msg("kind %zu: %s", i, d.message);
        tw_engine_close(reference);
        tw_engine_close(e);
    }
    tw_model_close(m);
}

/* One model, one tokenizer and one engine for the tests of generation. */
typedef struct fixture {
    tw_model *m;
    tw_tokenizer *t;
    tw_engine *e;
    int32_t *prompt;
    size_t n;
} fixture;

static void fixture_open(fixture *f) {
    tw_diag d;
    static const char text[] = "And the king said unto";
    f->m = open_model(demo);
    if (tw_tokenizer_open(&f->t, demo, &d) != TW_OK) fail_msg("%s", d.message);
    f->e = open_engine(f->m, (tw_engine_options){.workers = 2, .context = 256, .no_vendor = true});
    assert_int_equal(tw_tokenizer_encode(f->t, text, sizeof text - 1, true, &f->prompt, &f->n, &d), TW_OK);
}

static void fixture_close(fixture *f) {
    free(f->prompt);
    tw_engine_close(f->e);
    tw_tokenizer_close(f->t);
    tw_model_close(f->m);
}

static bool collect(void *user, int32_t id, const char *text) {
    (void)id;
    return tw_buf_str(user, text);
}

static tw_generation generation(const fixture *f, int64_t limit, tw_buf *out) {
    return (tw_generation){.prompt = f->prompt,
                           .n_prompt = (int64_t)f->n,
                           .limit = limit,
                           .ignore_eos = true,
                           .emit = collect,
                           .user = out};
}

static void run(fixture *f, tw_generation *g) {
    tw_diag d;
    tw_engine_rewind(f->e, 0);
    if (tw_generate(f->e, f->t, g, &d) != TW_OK) fail_msg("%s", d.message);
}

static void streamed_text_is_the_decoded_ids(void **state) {
    (void)state;
    fixture f;
    tw_buf out = {0};
    fixture_open(&f);
    tw_generation g = generation(&f, 40, &out);
    run(&f, &g);
    assert_int_equal(g.n_ids, 40);
    assert_int_equal(g.finish, TW_FINISH_LENGTH);
    char *text;
    tw_diag d;
    assert_int_equal(tw_tokenizer_decode(f.t, g.ids, (size_t)g.n_ids, false, &text, NULL, &d), TW_OK);
    assert_string_equal(out.data, text);
    free(text);
    free(g.ids);
    tw_buf_free(&out);
    fixture_close(&f);
}

static void a_stop_string_ends_the_text_before_itself(void **state) {
    (void)state;
    fixture f;
    tw_buf whole = {0}, cut = {0};
    fixture_open(&f);
    tw_generation g = generation(&f, 40, &whole);
    run(&f, &g);
    free(g.ids);
    /* A stop string from the middle of the text, across tokens. */
    char stop[12] = {0};
    memcpy(stop, whole.data + whole.size / 2, 11);
    size_t at = (size_t)(strstr(whole.data, stop) - whole.data);
    const char *stops[] = {"never said", stop};
    g = generation(&f, 40, &cut);
    g.stop = stops;
    g.n_stop = 2;
    run(&f, &g);
    assert_int_equal(g.finish, TW_FINISH_STOP);
    assert_int_equal(cut.size, at);
    assert_memory_equal(cut.data, whole.data, at);
    free(g.ids);
    tw_buf_free(&whole);
    tw_buf_free(&cut);
    fixture_close(&f);
}

static void a_seed_gives_the_same_text_again(void **state) {
    (void)state;
    fixture f;
    tw_buf a = {0}, b = {0}, c = {0};
    tw_buf *outs[] = {&a, &b, &c};
    fixture_open(&f);
    for (int i = 0; i < 3; i++) {
        tw_generation g = generation(&f, 30, outs[i]);
        g.sampling =
            (tw_sampling){.temperature = 0.9, .top_k = 50, .top_p = 0.95, .min_p = 0.01, .seed = i == 2 ? 12 : 11};
        run(&f, &g);
        free(g.ids);
    }
    assert_string_equal(a.data, b.data);
    assert_string_not_equal(a.data, c.data);
    tw_buf_free(&a);
    tw_buf_free(&b);
    tw_buf_free(&c);
    fixture_close(&f);
}

static void sampling_follows_the_distribution(void **state) {
    (void)state;
    enum { DRAWS = 40000 };
    const float logits[5] = {0.0f, 1.0f, 2.0f, -30.0f, NAN};
    tw_sampler *s;
    tw_diag d;
    int count[5] = {0};
    assert_int_equal(tw_sampler_open(&s, &(tw_sampling){.temperature = 1, .seed = 3}, 5, &d), TW_OK);
    for (int i = 0; i < DRAWS; i++) count[tw_sampler_draw(s, logits, i)]++;
    tw_sampler_close(s);
    double sum = 1 + exp(1) + exp(2);
    for (int i = 0; i < 3; i++) assert_true(fabs((double)count[i] / DRAWS - exp(i) / sum) < 0.01);
    assert_int_equal(count[3] + count[4], 0);
    static const tw_sampling one[] = {{.temperature = 0},
                                      {.temperature = 1, .top_k = 1},
                                      {.temperature = 1, .top_p = 0.1},
                                      {.temperature = 1, .min_p = 0.9}};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
        assert_int_equal(tw_sampler_open(&s, &one[i], 5, &d), TW_OK);
        for (int k = 0; k < 100; k++) assert_int_equal(tw_sampler_draw(s, logits, k), 2);
        tw_sampler_close(s);
    }
    assert_int_equal(tw_sampler_open(&s, &(tw_sampling){.temperature = -1}, 5, &d), TW_ERR_USAGE);
    assert_int_equal(tw_sampler_open(&s, &(tw_sampling){.top_p = 1.5}, 5, &d), TW_ERR_USAGE);
}

static void repetition_is_penalised_as_transformers_does(void **state) {
    (void)state;
    const float logits[4] = {2.0f, 1.5f, -1.0f, -1.2f};
    tw_sampler *s;
    tw_diag d;
    assert_int_equal(tw_sampler_open(&s, &(tw_sampling){.repetition_penalty = 1.5}, 4, &d), TW_OK);
    assert_int_equal(tw_sampler_draw(s, logits, 0), 0);
    tw_sampler_see(s, 0);
    assert_int_equal(tw_sampler_draw(s, logits, 0), 1); /* 2 / 1.5 < 1.5 */
    tw_sampler_see(s, 1);
    assert_int_equal(tw_sampler_draw(s, logits, 0), 0); /* 1.33 against 1 */
    tw_sampler_see(s, 99);
    tw_sampler_close(s);
    const float low[2] = {-1.0f, -1.2f};
    assert_int_equal(tw_sampler_open(&s, &(tw_sampling){.repetition_penalty = 1.5}, 2, &d), TW_OK);
    tw_sampler_see(s, 0);
    assert_int_equal(tw_sampler_draw(s, low, 0), 1); /* -1.5 against -1.2 */
    tw_sampler_close(s);
    assert_int_equal(tw_sampler_open(&s, &(tw_sampling){.repetition_penalty = -1}, 2, &d), TW_ERR_USAGE);
}

static void the_context_is_a_limit(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    tw_buf out = {0};
    fixture_open(&f);
    int32_t *many = calloc(300, sizeof *many);
    tw_engine_rewind(f.e, 0);
    assert_int_equal(tw_engine_feed(f.e, many, 257, NULL, NULL, &d), TW_ERR_USAGE);
    assert_non_null(strstr(d.message, "257"));
    assert_non_null(strstr(d.message, "256"));
    assert_int_equal(tw_engine_feed(f.e, many, 0, NULL, NULL, &d), TW_ERR_USAGE);
    tw_generation g = {
        .prompt = many, .n_prompt = 250, .limit = 100, .ignore_eos = true, .emit = collect, .user = &out};
    run(&f, &g);
    assert_int_equal(g.finish, TW_FINISH_CONTEXT);
    assert_int_equal(g.n_ids, 7); /* the last one needs no room */
    free(g.ids);
    free(many);
    tw_buf_free(&out);
    fixture_close(&f);
}

static void a_wrong_reference_is_a_mismatch(void **state) {
    (void)state;
    char *folder = test_folder_make(), golden[4096];
    static const char *const bad[] = {
        "{\"cases\": [{\"prompt\": [0, 5], \"logits_last\": [1, 2], \"greedy\": [1], \"loss\": null}]}",
        "{\"cases\": []}",
        "{\"cases\": [{\"prompt\": [], \"greedy\": []}]}",
        "{\"cases\": [{\"prompt\": [\"x\"], \"greedy\": []}]}",
    };
    fixture f;
    tw_verdict v;
    tw_diag d;
    fixture_open(&f);
    snprintf(golden, sizeof golden, "%s/golden.json", folder);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        test_write(folder, "golden.json", bad[i], strlen(bad[i]));
        assert_int_equal(tw_engine_verify(f.e, f.t, golden, folder, &v, &d), TW_ERR_FORMAT);
        assert_string_equal(d.path, golden);
    }
    fixture_close(&f);
    test_folder_remove(folder);
}

static void perplexity_of_windows(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    double whole, nll, one;
    int64_t n;
    fixture_open(&f);
    int32_t ids[70];
    for (int i = 0; i < 70; i++) ids[i] = (i * 37 + 11) % 4000;
    assert_int_equal(tw_engine_perplexity(f.e, ids, 70, 32, &whole, &n, NULL, NULL, &d), TW_OK);
    assert_int_equal(n, 31 + 31 + 5);
    nll = 0;
    for (int at = 0; at < 70; at += 32) {
        assert_int_equal(tw_engine_score(f.e, ids + at, at == 64 ? 6 : 32, &one, &d), TW_OK);
        nll += one;
    }
    assert_true(fabs(whole - nll / 67) < 1e-9);
    assert_int_equal(tw_engine_perplexity(f.e, ids, 1, 32, &whole, &n, NULL, NULL, &d), TW_ERR_USAGE);
    assert_int_equal(tw_engine_perplexity(f.e, ids, 70, 1000, &whole, &n, NULL, NULL, &d), TW_ERR_USAGE);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_agrees_with_transformers),
        cmocka_unit_test(any_chunks_have_the_same_tokens),
        cmocka_unit_test(quantised_weights_agree_with_the_floats_they_stand_for),
        cmocka_unit_test(streamed_text_is_the_decoded_ids),
        cmocka_unit_test(a_stop_string_ends_the_text_before_itself),
        cmocka_unit_test(a_seed_gives_the_same_text_again),
        cmocka_unit_test(sampling_follows_the_distribution),
        cmocka_unit_test(repetition_is_penalised_as_transformers_does),
        cmocka_unit_test(the_context_is_a_limit),
        cmocka_unit_test(a_wrong_reference_is_a_mismatch),
        cmocka_unit_test(perplexity_of_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
