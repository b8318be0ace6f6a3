/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that an engine draws: on a GPU's machine (emulated) several a launch, the very tokens that its logits and the
   sampler give one by one, wherever launches end and whoever stops in the middle of one. */
#include "support/support.h"

#include "engine/engine.h"
#include "engine/sample.h"
#include "tilewright/model.h"

#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 12, PROMPT = 3, TOKENS = 7 };
static const int32_t prompt[PROMPT] = {7, 3, 11};

static const tw_sampling ways[] = {
    {.temperature = 0},
    {.temperature = 0.9, .seed = 4},
    {.temperature = 1.5, .top_k = 12, .top_p = 0.9, .seed = 5},
    {.temperature = 1.2, .min_p = 0.05, .repetition_penalty = 1.4, .seed = 6},
    {.temperature = 0, .repetition_penalty = 1.3, .presence_penalty = 0.2, .frequency_penalty = 0.5},
};
enum { WAYS = sizeof ways / sizeof *ways };

typedef struct fixture {
    tw_model *m;
    tw_engine *e;
} fixture;

static void open_on(fixture *f, bool emulate, tw_schedule_config *config) {
    tw_diag d;
    tw_schedule_config small = {.machine = {.warps = 2, .blocks = 2}};
    if (!config) config = &small;
    if (tw_model_open(&f->m, TEST_DATA "/models/llama-linear-mqa", &d) != TW_OK) fail_msg("%s", d.message);
    const tw_engine_options o = {.emulate = emulate, .workers = 2, .context = CONTEXT, .seed = 9, .config = config};
    if (tw_engine_open(&f->e, f->m, &o, &d) != TW_OK) fail_msg("%s", d.message);
}

static void close_on(fixture *f) {
    tw_engine_close(f->e);
    tw_model_close(f->m);
}

static tw_sampler *sampler_of(const fixture *f, const tw_sampling *how) {
    tw_sampler *s;
    tw_diag d;
    if (tw_sampler_open(&s, how, f->m->vocab, &d) != TW_OK) fail_msg("%s", d.message);
    for (int i = 0; i < PROMPT; i++) tw_sampler_see(s, prompt[i]);
    return s;
}

/* The prompt but its last id, which the first draw feeds. */
static void begin(fixture *f) {
    tw_diag d;
    tw_engine_rewind(f->e, 0);
    if (tw_engine_feed(f->e, prompt, PROMPT - 1, NULL, NULL, &d) != TW_OK) fail_msg("%s", d.message);
}

static void one_by_one(fixture *f, const tw_sampling *how, int32_t *out) {
    tw_diag d;
    tw_sampler *s = sampler_of(f, how);
    int32_t id = prompt[PROMPT - 1];
    begin(f);
    for (int i = 0; i < TOKENS; i++) {
        const float *logits;
        if (tw_engine_feed(f->e, &id, 1, &logits, NULL, &d) != TW_OK) fail_msg("%s", d.message);
        id = out[i] = tw_sampler_draw(s, logits, tw_engine_position(f->e) - 1);
        tw_sampler_take(s, id);
    }
    tw_sampler_close(s);
}

typedef struct ear {
    int32_t *out;
    int n, enough;
    const tw_engine *e;
    int64_t from;
} ear;

static bool take(void *user, int32_t id) {
    ear *r = user;
    r->out[r->n++] = id;
    assert_int_equal(tw_engine_position(r->e), r->from + r->n);
    return r->n != r->enough;
}

/* In pieces of these sizes, each one's last told to be enough although more were asked for. */
static void in_pieces(fixture *f, const tw_sampling *how, const int *sizes, int32_t *out) {
    tw_diag d;
    tw_sampler *s = sampler_of(f, how);
    begin(f);
    for (int done = 0; *sizes; done += *sizes++) {
        ear r = {.out = out + done, .enough = *sizes, .e = f->e, .from = tw_engine_position(f->e)};
        const int32_t id = done ? out[done - 1] : prompt[PROMPT - 1];
        if (tw_engine_draw(f->e, s, id, TOKENS - done, take, &r, &d) != TW_OK) fail_msg("%s", d.message);
        assert_int_equal(r.n, *sizes);
        assert_int_equal(tw_engine_position(f->e), PROMPT - 1 + done + *sizes);
    }
    tw_sampler_close(s);
}

static void launches_draw_what_the_host_draws(void **state) {
    const bool emulate = *state != NULL;
    fixture f;
    open_on(&f, emulate, NULL);
    assert_true(tw_engine_draws(f.e) == emulate);
    for (int w = 0; w < WAYS; w++) {
        static const int whole[] = {TOKENS, 0}, pieces[] = {2, 4, 1, 0};
        int32_t want[TOKENS], got[TOKENS];
        if (TEST_SANITIZED && w % 2) continue; /* test_cuda_draw has every rule. */
        one_by_one(&f, &ways[w], want);
        in_pieces(&f, &ways[w], whole, got);
        for (int i = 0; i < TOKENS; i++)
            if (got[i] != want[i]) fail_msg("way %d, token %d: %d, not %d", w, i, got[i], want[i]);
        if (TEST_SANITIZED && w) continue;
        in_pieces(&f, &ways[w], pieces, got);
        assert_memory_equal(got, want, sizeof want);
    }
    close_on(&f);
}

/* A token that cannot be fed ends it, and nothing is told. */
static void what_cannot_be_fed_is_an_error(void **state) {
    const bool emulate = *state != NULL;
    fixture f;
    tw_diag d;
    int32_t out[TOKENS];
    open_on(&f, emulate, NULL);
    tw_sampler *s = sampler_of(&f, &ways[0]);
    begin(&f);
    ear r = {.out = out, .e = f.e, .from = tw_engine_position(f.e)};
    assert_int_equal(tw_engine_draw(f.e, s, INT32_MAX, TOKENS, take, &r, &d), TW_ERR_USAGE);
    assert_int_equal(r.n, 0);
    assert_int_equal(tw_engine_position(f.e), r.from);
    tw_sampler_close(s);
    close_on(&f);
}

/* Where the device does not draw, the host does, with the same tokens: edges by data. */
static void data_edges_are_drawn_for(void **state) {
    (void)state;
    fixture f, g;
    int32_t want[TOKENS], got[TOKENS];
    static const int whole[] = {TOKENS, 0};
    tw_schedule_config config = {.machine = {.warps = 2, .blocks = 2, .edges = TW_EDGES_DATA}};
    open_on(&f, true, &config);
    open_on(&g, true, NULL);
    assert_false(tw_engine_draws(f.e));
    in_pieces(&f, &ways[2], whole, got);
    in_pieces(&g, &ways[2], whole, want);
    assert_memory_equal(got, want, sizeof want);
    close_on(&f);
    close_on(&g);
}

/* A sampler's counts follow it from engine to engine, and engines do not mistake one for another. */
static void counts_belong_to_their_sampler(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_on(&f, true, NULL);
    const tw_sampling how = {.temperature = 0, .repetition_penalty = 3};
    int32_t want[TOKENS], got[4];
    one_by_one(&f, &how, want);
    tw_sampler *a = sampler_of(&f, &how), *b = sampler_of(&f, &how);
    tw_sampler *both[] = {a, b};
    int32_t out[2][TOKENS];
    /* Two texts in turn, three tokens at a time, each from its beginning since the cache holds one. */
    for (int turn = 0; turn < 2; turn++)
        for (int s = 0; s < 2; s++) {
            begin(&f);
            for (int i = 0; i < 3 * turn; i++) {
                const int32_t id = i ? out[s][i - 1] : prompt[PROMPT - 1];
                assert_int_equal(tw_engine_feed(f.e, &id, 1, NULL, NULL, &d), TW_OK);
            }
            ear r = {.out = got, .enough = 3, .e = f.e, .from = tw_engine_position(f.e)};
            const int32_t id = turn ? out[s][2] : prompt[PROMPT - 1];
            assert_int_equal(tw_engine_draw(f.e, both[s], id, 3, take, &r, &d), TW_OK);
            memcpy(out[s] + 3 * turn, got, 3 * sizeof *got);
        }
    for (int s = 0; s < 2; s++) assert_memory_equal(out[s], want, 6 * sizeof *want);
    /* An id that the caller adds counts, too. */
    begin(&f);
    tw_sampler *c = sampler_of(&f, &how);
    tw_sampler_see(c, want[0]);
    ear r = {.out = got, .enough = 1, .e = f.e, .from = tw_engine_position(f.e)};
    assert_int_equal(tw_engine_draw(f.e, c, prompt[PROMPT - 1], 1, take, &r, &d), TW_OK);
    assert_int_not_equal(got[0], want[0]);
    tw_sampler_close(a);
    tw_sampler_close(b);
    tw_sampler_close(c);
    close_on(&f);
}

static bool stop_at_third(void *user, int32_t id, const char *text) {
    (void)id, (void)text;
    return ++*(int *)user < 3;
}

/* tw_generate on the device: the tokens, why it ended, and where it stands. */
static void generations_end_where_they_should(void **state) {
    (void)state;
    fixture f;
    tw_diag d;
    open_on(&f, true, NULL);
    int32_t want[TOKENS];
    one_by_one(&f, &ways[2], want);
    tw_generation g = {.prompt = prompt, .n_prompt = PROMPT, .limit = TOKENS, .sampling = ways[2], .ignore_eos = true};
    tw_engine_rewind(f.e, 0);
    if (tw_generate(f.e, NULL, &g, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(g.n_ids, TOKENS);
    assert_memory_equal(g.ids, want, sizeof want);
    assert_int_equal(g.finish, TW_FINISH_LENGTH);
    assert_int_equal(g.n_decoded, TOKENS - 1);
    assert_int_equal(tw_engine_position(f.e), PROMPT + TOKENS - 1);
    free(g.ids);
    int heard = 0;
    g.emit = stop_at_third;
    g.user = &heard;
    tw_engine_rewind(f.e, 0);
    assert_int_equal(tw_generate(f.e, NULL, &g, &d), TW_OK);
    assert_int_equal(g.finish, TW_FINISH_ABORTED);
    assert_int_equal(g.n_ids, 3);
    assert_int_equal(tw_engine_position(f.e), PROMPT + 2);
    free(g.ids);
    /* As far as the context goes. */
    g.emit = NULL;
    g.limit = 100;
    tw_engine_rewind(f.e, 0);
    assert_int_equal(tw_generate(f.e, NULL, &g, &d), TW_OK);
    assert_int_equal(g.finish, TW_FINISH_CONTEXT);
    assert_int_equal(g.n_ids, CONTEXT - PROMPT + 1);
    assert_memory_equal(g.ids, want, sizeof want);
    free(g.ids);
    /* An end of text within a launch; the model has none of its own here. */
    const int32_t eos = want[4];
    f.m->eos[0] = eos;
    f.m->n_eos = 1;
    g.limit = TOKENS;
    g.ignore_eos = false;
    tw_engine_rewind(f.e, 0);
    assert_int_equal(tw_generate(f.e, NULL, &g, &d), TW_OK);
    int first = 0;
    while (want[first] != eos) first++;
    assert_int_equal(g.finish, TW_FINISH_EOS);
    assert_int_equal(g.n_ids, first);
    assert_int_equal(tw_engine_position(f.e), PROMPT + first);
    free(g.ids);
    close_on(&f);
}

int main(void) {
    static int gpu;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_draw_what_the_host_draws),
        cmocka_unit_test_prestate(launches_draw_what_the_host_draws, &gpu),
        cmocka_unit_test(what_cannot_be_fed_is_an_error),
        cmocka_unit_test_prestate(what_cannot_be_fed_is_an_error, &gpu),
        cmocka_unit_test(data_edges_are_drawn_for),
        cmocka_unit_test(counts_belong_to_their_sampler),
        cmocka_unit_test(generations_end_where_they_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
