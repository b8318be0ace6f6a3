/* SPDX-License-Identifier: Apache-2.0 */
/* Many generations in one engine have the ids that each has alone: in the emulator, where several are decoded together,
   and on a processor. */
#define _GNU_SOURCE
#include "support/support.h"

#include "engine/engine.h"
#include "engine/timing.h"
#include "tilewright/model.h"
#include "vm/cuda/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 48, MOST = 14, IDS = 64 };

static tw_model *open_model(const char *folder) {
    tw_model *m;
    tw_diag d;
    char path[4096];
    snprintf(path, sizeof path, "%s%s", *folder == '/' ? "" : TEST_DATA "/models/", folder);
    if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
    return m;
}

/* The emulator runs few warps faster. */
static const tw_schedule_config few = {.machine = {.warps = 2}};

static tw_engine_options options(bool emulate, tw_dtype weights) {
    return (tw_engine_options){.emulate = emulate,
                               .workers = 2,
                               .context = CONTEXT,
                               .weights = weights,
                               .no_vendor = true,
                               .config = emulate ? &few : NULL};
}

/* Requests of different lengths. */
typedef struct requests {
    tw_generation g[MOST];
    int32_t ids[MOST][IDS];
    int n;
} requests;

static void make(requests *r, int n, int64_t vocab) {
    static const int64_t prompts[MOST] = {18, 1, 4, 20, 2, 9, 17, 3, 1, 30, 12, 2, 5, 1},
                         limits[MOST] = {2, 6, 2, 3, 4, 1, 4, 7, 1, 3, 2, 5, 2, 3};
    memset(r, 0, sizeof *r);
    r->n = n;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < IDS; k++) r->ids[i][k] = (int32_t)((i * 37 + k * k * 11 + k * 5 + 3) % vocab);
        r->g[i] = (tw_generation){
            .prompt = r->ids[i], .n_prompt = prompts[i], .limit = limits[i], .ignore_eos = true, .sampling.seed = 7};
    }
}

static void free_ids(requests *r) {
    for (int i = 0; i < r->n; i++) free(r->g[i].ids);
}

static tw_batch *open_batch(const tw_model *m, tw_engine_options o, int64_t sequences) {
    tw_batch *b;
    tw_diag d;
    if (tw_batch_open(&b, m, &o, sequences, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    return b;
}

static void add_all(tw_batch *b, requests *r) {
    tw_diag d;
    for (int i = 0; i < r->n; i++)
        if (tw_batch_add(b, &r->g[i], &d) != TW_OK) fail_msg("request %d: %s", i, d.message);
}

/* Runs all requests. order[i] is the number of the request that was complete as number i. */
static void run_all(tw_batch *b, requests *r, int *order) {
    tw_generation *g;
    tw_diag d;
    for (int i = 0; i <= r->n; i++) {
        if (tw_batch_next(b, &g, &d) != TW_OK) fail_msg("%s", d.message);
        assert_true((g != NULL) == (i < r->n));
        if (g) order[i] = (int)(g - r->g);
    }
}

/* Compares with each request alone, on an engine for one sequence: the same machine, so that draws see nearly the same
   logits. */
static void same_alone(const tw_model *m, const tw_engine_options *o, const requests *r, const char *what) {
    tw_engine *e;
    tw_diag d;
    if (tw_engine_open(&e, m, o, &d) != TW_OK) fail_msg("%s", d.message);
    for (int i = 0; i < r->n; i++) {
        tw_generation g = r->g[i];
        tw_engine_rewind(e, 0);
        if (tw_generate(e, NULL, &g, &d) != TW_OK) fail_msg("%s", d.message);
        if (g.n_ids != r->g[i].n_ids || g.finish != r->g[i].finish || g.n_decoded != r->g[i].n_decoded)
            fail_msg("%s, request %d: %d ids, ended by %s, not %d, by %s", what, i, (int)r->g[i].n_ids,
                     tw_finish_name(r->g[i].finish), (int)g.n_ids, tw_finish_name(g.finish));
        for (int64_t k = 0; k < g.n_ids; k++)
            if (g.ids[k] != r->g[i].ids[k])
                fail_msg("%s, request %d: id %d is %d, not %d", what, i, (int)k, r->g[i].ids[k], g.ids[k]);
        free(g.ids);
    }
    tw_engine_close(e);
}

/* Runs n requests on a batch, and compares with each alone on a processor, or with `there` on the same machine. */
static void agrees(const char *folder, tw_engine_options o, int64_t sequences, int64_t expected, int n, bool there,
                   const tw_sampling *how) {
    tw_model *m = open_model(folder);
    tw_batch *b = open_batch(m, o, sequences);
    static requests r;
    int order[MOST];
    make(&r, n, m->vocab);
    for (int i = 0; i < n && how; i++) {
        r.g[i].sampling = how[i % 3];
        r.g[i].sampling.seed += (uint64_t)i;
    }
    assert_int_equal(tw_batch_sequences(b), expected);
    add_all(b, &r);
    run_all(b, &r, order);
    tw_batch_close(b);
    if (expected == 1)
        for (int i = 0; i < n; i++) assert_int_equal(order[i], i);
    if (!there) {
        o.emulate = false;
        o.config = NULL;
    }
    same_alone(m, &o, &r, folder);
    free_ids(&r);
    tw_model_close(m);
}

static void lanes_agree_with_a_processor(void **state) {
    (void)state;
    agrees("llama-biases", options(true, 0), 3, 3, TEST_SANITIZED ? 4 : 5, false, NULL);
    if (!TEST_SANITIZED) agrees("qwen2-window", options(true, TW_I8), 2, 2, 4, false, NULL);
}

/* Heads for which there is attention by tensor cores, which finds each sequence's part of the cache by itself. */
static void large_heads_of(int64_t sequences, int64_t limit) {
    tw_model *m = open_model(TW_SOURCE_DIR "/models/demo");
    tw_batch *b = open_batch(m, options(true, 0), sequences);
    static requests r;
    int order[MOST];
    make(&r, 2, m->vocab);
    r.g[0].n_prompt = 1; /* The other sequence is the one with a past. */
    r.g[1].n_prompt = 6;
    r.g[0].limit = r.g[1].limit = limit;
    add_all(b, &r);
    run_all(b, &r, order);
    tw_batch_close(b);
    const tw_engine_options o = options(false, 0);
    same_alone(m, &o, &r, "demo");
    free_ids(&r);
    tw_model_close(m);
}

static void large_heads(void **state) {
    (void)state;
    large_heads_of(2, 1);
    if (!TEST_SANITIZED) large_heads_of(9, 2);
}

/* Tapes on which columns of the feed-forward layer's second product are in parts are read by prompts, too: by products,
   and where integers and floats are unpacked. */
static void down_in_parts(void **state) {
    (void)state;
    static const tw_schedule_config halves = {.lowering.down_splits = 2, .machine = {.warps = 2, .blocks = 1}},
                                    thirds = {.lowering.down_splits = 3, .machine = {.warps = 1, .blocks = 1}},
                                    quarters = {.lowering.down_splits = 4, .machine = {.warps = 1, .blocks = 1}};
    tw_engine_options o = options(true, 0);
    o.config = &halves;
    agrees("gpt2-relu-untied", o, 3, 3, TEST_SANITIZED ? 3 : 4, false, NULL);
    if (TEST_SANITIZED) return;
    o.config = &thirds;
    agrees("gpt2-gelu-bare", o, 2, 2, 3, false, NULL);
    o.weights = TW_I8;
    agrees("gpt2-gelu-bare", o, 2, 2, 3, false, NULL);
    o.weights = TW_I4;
    o.workers = 5;
    o.config = &quarters;
    agrees("gpt2-relu-untied", o, 2, 2, 3, false, NULL);
}

/* Without kernels for prompts, decode steps read them while others decode. */
static void steps_read_prompts(void **state) {
    (void)state;
    static const tw_schedule_config steps = {.machine = {.warps = 2}, .prompts = TW_PROMPTS_STEPS};
    tw_engine_options o = options(true, 0);
    o.config = &steps;
    agrees("llama-biases", o, 2, 2, 3, false, NULL);
}

static void one_after_another(void **state) {
    (void)state;
    agrees("llama-biases", options(false, 0), 8, 1, 6, false, NULL);
    if (TEST_SANITIZED) return;
    agrees("llama-dynamic", options(true, 0), 4, 1, 1, false, NULL);
    agrees("phi3-long", options(true, 0), 9, 1, 1, false, NULL);
}

/* More sequences than the machine that decodes takes go through the kernels for prompts, whose steps have few rows, so
   that prompts are read in pieces while others decode. */
static void many_agree_with_a_processor(void **state) {
    (void)state;
    tw_engine_options o = options(true, 0);
    o.prefill = 24;
    /* Nine are more than the machine takes, and a lane is used again. */
    const int sequences = TEST_SANITIZED ? 9 : 12;
    agrees("llama-biases", o, sequences, sequences, TEST_SANITIZED ? 10 : 14, false, NULL);
}

/* Contexts shorter than there are sequences, as many short prompts have them. */
static void more_sequences_than_positions(void **state) {
    (void)state;
    tw_model *m = open_model("llama-biases");
    tw_engine_options o = options(true, 0);
    static requests r;
    int order[MOST];
    o.context = 6;
    tw_batch *b = open_batch(m, o, 9);
    make(&r, 3, m->vocab);
    r.g[0].n_prompt = 3;
    r.g[1].limit = 2;
    r.g[2].limit = 4; /* The context ends before. */
    add_all(b, &r);
    run_all(b, &r, order);
    tw_batch_close(b);
    o.emulate = false;
    o.config = NULL;
    same_alone(m, &o, &r, "short contexts");
    free_ids(&r);
    tw_model_close(m);
}

/* Caches that do not fit are refused with the number of sequences. */
static void caches_must_fit(void **state) {
    (void)state;
    tw_model *m = open_model("llama-biases");
    tw_engine_options o = options(true, 0);
    tw_batch *b;
    tw_diag d;
    o.memory_limit = 1 << 20;
    assert_int_equal(tw_batch_open(&b, m, &o, 128, NULL, &d), TW_ERR_MEMORY);
    assert_null(b);
    if (!strstr(d.message, " of 128 sequences; fewer sequences, or a shorter context")) fail_msg("%s", d.message);
    tw_model_close(m);
}

static const tw_sampling drawn[3] = {
    {.temperature = 0.8, .top_k = 30, .top_p = 0.9, .seed = 5},
    {.temperature = 1.2, .repetition_penalty = 1.3, .presence_penalty = 0.5, .seed = 9},
    {.frequency_penalty = 0.7, .repetition_penalty = 0.01}}; /* The prompt's ids are all but certain. */

/* Every lane draws by its own rules, seed and counts. */
static void rules_are_each_lanes_own(void **state) {
    (void)state;
    agrees("llama-biases", options(true, 0), TEST_SANITIZED ? 2 : 3, TEST_SANITIZED ? 2 : 3, TEST_SANITIZED ? 3 : 4,
           true, drawn);
    /* The last one's prompt decides its tokens, also when lanes before it are idle. */
    const tw_sampling turned[3] = {drawn[2], drawn[0], drawn[1]};
    if (!TEST_SANITIZED) agrees("llama-biases", options(true, 0), 9, 9, 4, true, turned);
}

/* Steps of many sequences draw from capped logits. The cap is low, so that logits without it are drawn differently. */
static void many_draw_from_capped_logits(void **state) {
    (void)state;
    if (TEST_SANITIZED) skip(); /* Its code is that of many that agree, and of lanes that draw. */
    tw_model *m = open_model("gemma2-caps");
    const tw_engine_options o = options(true, 0);
    static requests r;
    int order[MOST];
    m->logit_cap = 0.5f;
    tw_batch *b = open_batch(m, o, 9);
    assert_int_equal(tw_batch_sequences(b), 9);
    make(&r, 3, m->vocab);
    for (int i = 0; i < 3; i++) {
        r.g[i].n_prompt = 2;
        r.g[i].limit = 4;
        r.g[i].sampling = (tw_sampling){.temperature = 0.2, .top_k = i == 2 ? 0 : 20 + i, .seed = 3};
    }
    r.g[1].sampling.presence_penalty = 0.2;
    add_all(b, &r);
    run_all(b, &r, order);
    same_alone(m, &o, &r, "caps");
    tw_batch_close(b);
    free_ids(&r);
    tw_model_close(m);
}

/* A machine whose program does not draw has the host do it. */
static void the_host_draws(void **state) {
    (void)state;
    tw_model *m = open_model("llama-biases");
    tw_batch *b = open_batch(m, options(true, 0), 3);
    const tw_engine *e = tw_batch_engine(b);
    static requests r;
    int order[MOST];
    tw_mega_program_of(e->machine.vm, e->program[TW_PROGRAM_DECODE])->plan.samples = false;
    assert_int_equal(e->short_past, 0);
    make(&r, 3, m->vocab);
    for (int i = 0; i < 3; i++) r.g[i].sampling = drawn[i];
    if (TEST_SANITIZED) r.g[0].n_prompt = 3;
    add_all(b, &r);
    run_all(b, &r, order);
    const tw_engine_options alone = options(true, 0);
    same_alone(m, &alone, &r, "host");
    tw_batch_close(b);
    free_ids(&r);
    tw_model_close(m);
}

/* What ends one generation does not touch the others, and its lane is used again. */
static bool refuse_second(void *user, int32_t id, const char *text) {
    (void)id, (void)text;
    return ++*(int *)user < 2;
}

static void ends_are_each_lanes_own_of(const char *folder, int64_t context) {
    enum { N = 5 };
    tw_model *m = open_model(folder);
    tw_engine_options o = options(true, 0);
    o.context = context;
    tw_batch *b = open_batch(m, o, 2);
    assert_int_equal(tw_batch_sequences(b), 2);
    static requests r, before;
    int order[MOST], heard = 0;
    make(&before, N, m->vocab);
    add_all(b, &before);
    run_all(b, &before, order);
    make(&r, N, m->vocab);
    for (int i = 0; i < 3; i++) m->eos[i] = m->vocab + i;
    m->eos[0] = before.g[1].ids[3];
    m->n_eos = 3;
    int64_t until = 0;
    while (before.g[1].ids[until] != m->eos[0]) until++;
    r.g[1].ignore_eos = false;
    r.g[0].limit = 40; /* The context ends before. */
    r.g[2].limit = 0;
    r.g[3].emit = refuse_second;
    r.g[3].user = &heard;
    add_all(b, &r);
    run_all(b, &r, order);
    assert_int_equal(r.g[0].finish, TW_FINISH_CONTEXT);
    assert_int_equal(r.g[0].n_ids, context - r.g[0].n_prompt + 1);
    assert_int_equal(r.g[1].finish, TW_FINISH_EOS);
    assert_int_equal(r.g[1].n_ids, until);
    assert_int_equal(r.g[2].finish, TW_FINISH_LENGTH);
    assert_int_equal(r.g[2].n_ids, 0);
    assert_int_equal(r.g[3].finish, TW_FINISH_ABORTED);
    assert_int_equal(r.g[3].n_ids, 2);
    for (int i = 0; i < N; i++) {
        const int64_t n = r.g[i].n_ids < before.g[i].n_ids ? r.g[i].n_ids : before.g[i].n_ids;
        assert_memory_equal(r.g[i].ids, before.g[i].ids, (size_t)n * sizeof(int32_t));
    }
    assert_int_equal(r.g[4].n_ids, r.g[4].limit);
    tw_batch_close(b);
    free_ids(&before);
    free_ids(&r);
    tw_model_close(m);
}

static void ends_are_each_lanes_own(void **state) {
    (void)state;
    ends_are_each_lanes_own_of("llama-biases", TEST_SANITIZED ? 24 : CONTEXT);
}

/* Mixtures have a decode program of one sequence. A lane that ends early has rows under way that nobody takes. */
static void ends_of_many(void **state) {
    (void)state;
    if (!TEST_SANITIZED) ends_are_each_lanes_own_of("mixtral-fused", 21);
}

static void wrong_requests_are_refused(void **state) {
    (void)state;
    tw_model *m = open_model("llama-biases");
    tw_batch *b;
    tw_diag d;
    static const int32_t ids[CONTEXT + 1] = {1, 2}, outside[1] = {1 << 30};
    static const char *const stop[] = {"x"};
    const tw_generation wrong[] = {{.prompt = ids, .n_prompt = 0, .limit = 1},
                                   {.prompt = ids, .n_prompt = CONTEXT + 1, .limit = 1},
                                   {.prompt = outside, .n_prompt = 1, .limit = 1},
                                   {.prompt = ids, .n_prompt = 1, .limit = -1},
                                   {.prompt = ids, .n_prompt = 1, .limit = 1, .stop = stop, .n_stop = 1},
                                   {.prompt = ids, .n_prompt = 1, .limit = 1, .past = ids, .n_past = 1},
                                   {.prompt = ids, .n_prompt = 1, .limit = 1, .sampling.temperature = -1}};
    const tw_engine_options o = options(false, 0);
    assert_int_equal(tw_batch_open(&b, m, &o, 0, NULL, &d), TW_ERR_USAGE);
    assert_null(b);
    b = open_batch(m, o, 2);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tw_generation g = wrong[i], *out;
        assert_int_equal(tw_batch_add(b, &g, &d), TW_ERR_USAGE);
        assert_null(g.ids);
        assert_int_equal(tw_batch_next(b, &out, &d), TW_OK);
        assert_null(out);
    }
    tw_batch_close(b);
    tw_batch_close(NULL);
    tw_model_close(m);
}

/* What is closed before its time leaves nothing behind. */
static void a_batch_is_closed_early(void **state) {
    (void)state;
    tw_model *m = open_model("llama-biases");
    tw_batch *b = open_batch(m, options(true, 0), 2);
    static requests r;
    tw_generation *g;
    tw_diag d;
    make(&r, 4, m->vocab);
    r.g[0].limit = 1;
    add_all(b, &r);
    assert_int_equal(tw_batch_next(b, &g, &d), TW_OK);
    assert_ptr_equal(g, &r.g[0]);
    tw_batch_close(b);
    assert_true(r.g[0].ids && !r.g[1].ids && !r.g[2].ids && !r.g[3].ids);
    free_ids(&r);
    tw_model_close(m);
}

/* The processor judges a batch, and finds what is not its own. Times are those of all sequences. */
static void a_batch_is_checked_and_timed(void **state) {
    (void)state;
    tw_model *m = open_model("llama-biases");
    tw_batch *b = open_batch(m, options(true, 0), 2);
    tw_random random = tw_random_seed(1);
    tw_batch_times t;
    tw_verdict v;
    tw_diag d;
    if (tw_batch_check(b, 20, 1, &v, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(v.cases, 2);
    assert_int_equal(v.tokens + v.close, 8);
    if (tw_time_batch(b, &random, 5, 3, &t, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(t.decode_seconds > 0 && t.prompt_seconds > 0 && t.seconds > t.decode_seconds);
    if (tw_time_batch(b, &random, CONTEXT - 1, 1, &t, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_time_batch(b, &random, CONTEXT - 1, 2, &t, &d), TW_ERR_USAGE);
    assert_int_equal(tw_time_batch(b, &random, 0, CONTEXT, &t, &d), TW_ERR_USAGE);
    m->norm_eps = 100;
    assert_int_equal(tw_batch_check(b, 20, 1, &v, &d), TW_ERR_MISMATCH);
    tw_batch_close(b);
    tw_model_close(m);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(lanes_agree_with_a_processor),
                                       cmocka_unit_test(many_agree_with_a_processor),
                                       cmocka_unit_test(more_sequences_than_positions),
                                       cmocka_unit_test(caches_must_fit),
                                       cmocka_unit_test(large_heads),
                                       cmocka_unit_test(down_in_parts),
                                       cmocka_unit_test(steps_read_prompts),
                                       cmocka_unit_test(one_after_another),
                                       cmocka_unit_test(rules_are_each_lanes_own),
                                       cmocka_unit_test(many_draw_from_capped_logits),
                                       cmocka_unit_test(the_host_draws),
                                       cmocka_unit_test(ends_are_each_lanes_own),
                                       cmocka_unit_test(ends_of_many),
                                       cmocka_unit_test(wrong_requests_are_refused),
                                       cmocka_unit_test(a_batch_is_closed_early),
                                       cmocka_unit_test(a_batch_is_checked_and_timed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
