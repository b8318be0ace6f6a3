/* SPDX-License-Identifier: Apache-2.0 */
/* Many generations in one engine have the ids that each has alone: in the emulator, where several are decoded together,
   and on a processor. */
#define _GNU_SOURCE
#include "support/support.h"

#include "engine/engine.h"
#include "tilewright/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 48, MOST = 8, IDS = 64 };

static tw_model *open_model(const char *folder) {
    tw_model *m;
    tw_diag d;
    char path[4096];
    snprintf(path, sizeof path, TEST_DATA "/models/%s", folder);
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
    static const int64_t prompts[] = {21, 1, 4, 30, 2, 9, 17, 3}, limits[] = {3, 9, 2, 5, 6, 1, 4, 7};
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

static void agrees(const char *folder, tw_engine_options o, int64_t sequences, int64_t expected, int n) {
    tw_model *m = open_model(folder);
    tw_batch *b = open_batch(m, o, sequences);
    static requests r;
    int order[MOST];
    make(&r, n, m->vocab);
    assert_int_equal(tw_batch_sequences(b), expected);
    add_all(b, &r);
    run_all(b, &r, order);
    tw_batch_close(b);
    if (expected == 1)
        for (int i = 0; i < n; i++) assert_int_equal(order[i], i);
    o.emulate = false; /* A processor's answers are quick, and independent of the emulated machine. */
    o.config = NULL;
    same_alone(m, &o, &r, folder);
    free_ids(&r);
    tw_model_close(m);
}

static void lanes_agree_with_a_processor(void **state) {
    (void)state;
    agrees("llama-biases", options(true, 0), 3, 3, 5);
    if (!TEST_SANITIZED) agrees("qwen2-window", options(true, 0), 2, 2, 4);
    agrees("qwen2-window", options(true, TW_I8), 4, 4, 4);
}

static void one_after_another(void **state) {
    (void)state;
    agrees("llama-biases", options(false, 0), 8, 1, 6);
    agrees("llama-dynamic", options(true, 0), 4, 1, 2);
    agrees("mixtral-window", options(true, 0), 4, 1, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lanes_agree_with_a_processor),
                                       cmocka_unit_test(one_after_another)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
