/* SPDX-License-Identifier: Apache-2.0 */
/* What ends a generation and what its sampler is told, by ids alone: no tokenizer takes part. */
#define _GNU_SOURCE
#include "support/support.h"

#include "engine/engine.h"
#include "tilewright/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3, LIMIT = 40 };

static const int32_t prompt[N] = {1, 5, 9};

typedef struct fixture {
    tw_model *m;
    tw_engine *e;
    int32_t ids[LIMIT]; /* greedy after the prompt */
} fixture;

static tw_generation generate(fixture *f, tw_generation g) {
    tw_diag d;
    if (!g.prompt) {
        g.prompt = prompt;
        g.n_prompt = N;
    }
    tw_engine_rewind(f->e, 0);
    if (tw_generate(f->e, NULL, &g, &d) != TW_OK) fail_msg("%s", d.message);
    return g;
}

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    tw_diag d;
    const tw_engine_options o = {.workers = 2, .context = 96};
    if (!f || tw_model_open(&f->m, TEST_DATA "/models/llama-biases", &d) != TW_OK) return 1;
    if (tw_engine_open(&f->e, f->m, &o, &d) != TW_OK) return 1;
    tw_generation g = generate(f, (tw_generation){.limit = LIMIT, .ignore_eos = true});
    assert_int_equal(g.n_ids, LIMIT);
    memcpy(f->ids, g.ids, sizeof f->ids);
    free(g.ids);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    tw_engine_close(f->e);
    tw_model_close(f->m);
    free(f);
    return 0;
}

static int first_at(const fixture *f, int32_t id) {
    int at = 0;
    while (f->ids[at] != id) at++;
    return at;
}

/* Any of the model's ids of the end ends the text, before itself; unless it is to be ignored. */
static void the_end_of_text_ends_it(void **state) {
    fixture *f = *state;
    for (int from = 0; from < LIMIT; from += 7) {
        const int32_t eos = f->ids[from];
        const int at = first_at(f, eos);
        for (int place = 0; place < 3; place++) {
            for (int i = 0; i < 3; i++) f->m->eos[i] = i == place ? eos : f->m->vocab + i;
            f->m->n_eos = 3;
            tw_generation g = generate(f, (tw_generation){.limit = LIMIT});
            assert_int_equal(g.finish, TW_FINISH_EOS);
            assert_int_equal(g.n_ids, at);
            assert_memory_equal(g.ids, f->ids, (size_t)at * sizeof *g.ids);
            free(g.ids);
        }
        tw_generation g = generate(f, (tw_generation){.limit = LIMIT, .ignore_eos = true});
        assert_int_equal(g.finish, TW_FINISH_LENGTH);
        assert_int_equal(g.n_ids, LIMIT);
        assert_memory_equal(g.ids, f->ids, sizeof f->ids);
        free(g.ids);
    }
}

static bool stop_at_third(void *user, int32_t id, const char *text) {
    int *n = user;
    (void)id;
    assert_string_equal(text, "");
    return ++*n < 3;
}

static void whoever_listens_may_end_it(void **state) {
    fixture *f = *state;
    int n = 0;
    tw_generation g =
        generate(f, (tw_generation){.limit = LIMIT, .ignore_eos = true, .emit = stop_at_third, .user = &n});
    assert_int_equal(g.finish, TW_FINISH_ABORTED);
    assert_int_equal(n, 3);
    assert_int_equal(g.n_ids, 3);
    free(g.ids);
}

/* The ids of the prompt count as seen, and so do those that are drawn: each id is what a sampler draws that was told of
   everything before it. */
static void a_penalty_is_for_the_prompt_too(void **state) {
    fixture *f = *state;
    const tw_sampling how = {.repetition_penalty = 50};
    int32_t text[N + LIMIT], without;
    const float *logits;
    tw_diag d;
    int n = 0, changed = 0;
    memcpy(text, prompt, sizeof prompt);
    memcpy(text + N, f->ids, sizeof f->ids);
    /* A prompt whose likeliest next id it holds already. */
    for (n = N; n < N + LIMIT; n++) {
        int at = 0;
        while (text[at] != text[n]) at++;
        if (at < n) break;
    }
    assert_true(n < N + LIMIT);
    tw_engine_rewind(f->e, 0);
    assert_int_equal(tw_engine_feed(f->e, text, n, &logits, &without, &d), TW_OK);
    assert_int_equal(without, text[n]);
    tw_generation g =
        generate(f, (tw_generation){.prompt = text, .n_prompt = n, .limit = 8, .ignore_eos = true, .sampling = how});
    assert_int_equal(g.n_ids, 8);
    tw_sampler *s;
    assert_int_equal(tw_sampler_open(&s, &how, f->m->vocab, &d), TW_OK);
    for (int i = 0; i < n; i++) tw_sampler_see(s, text[i]);
    tw_engine_rewind(f->e, 0);
    assert_int_equal(tw_engine_feed(f->e, text, n, &logits, &without, &d), TW_OK);
    for (int i = 0; i < g.n_ids; i++) {
        int32_t id = tw_sampler_draw(s, logits, tw_engine_position(f->e) - 1);
        assert_int_equal(g.ids[i], id);
        changed += id != without;
        tw_sampler_take(s, id);
        assert_int_equal(tw_engine_feed(f->e, &id, 1, &logits, &without, &d), TW_OK);
    }
    assert_int_not_equal(g.ids[0], text[n]);
    assert_true(changed > 1);
    tw_sampler_close(s);
    free(g.ids);
}

/* Ties go to the lowest id, and NaN is never drawn while there is a number; greedy and with one candidate left. */
static void the_lowest_of_equals_is_drawn(void **state) {
    (void)state;
    static const tw_sampling ways[] = {{.temperature = 0},
                                       {.temperature = 1, .top_k = 1},
                                       {.temperature = 1, .top_p = 1e-9},
                                       {.temperature = 0, .repetition_penalty = 2}};
    static const struct {
        float logits[6];
        int32_t id;
    } cases[] = {
        {{1, 3, 3, 0, 3, 2}, 1},
        {{0, 0, 0, 0, 0, 0}, 0},
        {{-1, -2, -1, -3, -1, -1}, 0},
        {{NAN, 1, 2, NAN, 2, 0}, 2},
        {{NAN, NAN, NAN, NAN, NAN, -5}, 5},
        {{-INFINITY, -4, -INFINITY, -4, -9, -INFINITY}, 1},
        {{5, NAN, 5, 4, NAN, 1}, 0},
    };
    tw_diag d;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            tw_sampler *s;
            assert_int_equal(tw_sampler_open(&s, &ways[w], 6, &d), TW_OK);
            int32_t id = tw_sampler_draw(s, cases[i].logits, 0);
            if (id != cases[i].id) fail_msg("way %zu, case %zu: %d", w, i, id);
            tw_sampler_close(s);
        }
    /* Nothing but NaN still gives an id. */
    const float none[3] = {NAN, NAN, NAN};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        tw_sampler *s;
        assert_int_equal(tw_sampler_open(&s, &ways[w], 3, &d), TW_OK);
        assert_in_range(tw_sampler_draw(s, none, 0), 0, 2);
        tw_sampler_close(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_end_of_text_ends_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(whoever_listens_may_end_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_penalty_is_for_the_prompt_too, set_up, tear_down),
        cmocka_unit_test(the_lowest_of_equals_is_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
