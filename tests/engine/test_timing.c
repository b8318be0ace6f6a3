/* SPDX-License-Identifier: Apache-2.0 */
/* What is timed is what was asked for: how many tokens, of which first one, on a processor and on an emulated GPU. */
#include "engine/timing.h"
#include "support/support.h"

#include "engine/engine.h"
#include "tilewright/model.h"

#include <string.h>

enum { N = 2, CONTEXT = 6 };

static void all_ways(tw_engine *e) {
    int32_t want[N], ids[N];
    double seconds = -1, each[N] = {0}, sum = 0;
    tw_random r = tw_random_seed(3);
    tw_diag d;
    tw_engine_rewind(e, 0);
    assert_int_equal(tw_engine_greedy(e, 1, N, want, &seconds, &d), TW_OK);
    memset(ids, -1, sizeof ids);
    tw_engine_rewind(e, 0);
    assert_int_equal(tw_time_greedy(e, N, ids, &seconds, &d), TW_OK);
    assert_memory_equal(ids, want, sizeof ids);
    assert_true(seconds > 0 && tw_engine_position(e) == N);

    tw_engine_rewind(e, 0);
    seconds = -1;
    assert_int_equal(tw_time_steps(e, N, each, &seconds, &d), TW_OK);
    for (int i = 0; i < N; i++) {
        assert_true(each[i] > 0);
        sum += each[i] * 1e-6;
    }
    assert_true(sum <= seconds * (1 + 1e-9) && seconds < 300 && tw_engine_position(e) == N);
    seconds = -1;
    assert_int_equal(tw_time_steps(e, 1, NULL, &seconds, &d), TW_OK);
    assert_true(seconds > 0 && tw_engine_position(e) == N + 1);

    /* An end of text is a token like others. */
    ((tw_model *)e->model)->eos[0] = want[0];
    tw_engine_rewind(e, 0);
    seconds = -1;
    assert_int_equal(tw_time_generation(e, &(tw_sampling){0}, N, &seconds, &d), TW_OK);
    assert_true(seconds > 0 && tw_engine_position(e) == N + 1);

    tw_engine_rewind(e, 0);
    seconds = -1;
    assert_int_equal(tw_time_prompt(e, &r, N, &seconds, &d), TW_OK);
    assert_true(seconds > 0 && tw_engine_position(e) == N);
    assert_int_equal(tw_feed_random(e, &r, 0, &d), TW_OK);
    assert_int_equal(tw_feed_random(e, &r, 1, &d), TW_OK);
    assert_int_equal(tw_engine_position(e), N + 1);

    /* What does not fit is the engine's to say, and ends the loop. */
    assert_int_equal(tw_time_steps(e, CONTEXT, NULL, &seconds, &d), TW_ERR_USAGE);
    assert_int_equal(tw_engine_position(e), CONTEXT);
    assert_int_equal(tw_time_prompt(e, &r, 1, &seconds, &d), TW_ERR_USAGE);
    assert_int_equal(tw_time_generation(e, &(tw_sampling){0}, 1, &seconds, &d), TW_ERR_USAGE);
}

/* Each step of a prompt streams what its last position sees. */
static void prompt_streams_by_steps(const tw_engine *e) {
    const bool prompts = e->program[TW_PROGRAM_PROMPT] >= 0;
    const int64_t most = prompts ? tw_engine_step_tokens(e, TW_PROGRAM_PROMPT) : e->machine.tokens;
    static const int64_t cases[][2] = {{0, 0}, {0, 1}, {3, 7}, {3, 8}, {3, 20}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t depth = cases[i][0], n = cases[i][1];
        double want = 0;
        for (int64_t at = 0; at < n; at++)
            if (at + 1 == n || (at + 1) % most == 0) want += (double)tw_engine_streamed_bytes(e, depth + at);
        assert_true(tw_prompt_streamed_bytes(e, depth, n) == want);
    }
}

static void every_way_takes_its_tokens(void **state) {
    (void)state;
    tw_model *m;
    tw_diag d;
    assert_int_equal(tw_model_open(&m, TEST_DATA "/models/mistral-window", &d), TW_OK);
    for (int emulated = 0; emulated < 2; emulated++) {
        tw_engine *e;
        const tw_engine_options o = {.workers = 2, .context = CONTEXT, .no_vendor = true, .emulate = emulated};
        assert_int_equal(tw_engine_open(&e, m, &o, &d), TW_OK);
        all_ways(e);
        prompt_streams_by_steps(e);
        tw_engine_close(e);
    }
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_way_takes_its_tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
