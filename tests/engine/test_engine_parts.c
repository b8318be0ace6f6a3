/* SPDX-License-Identifier: Apache-2.0 */
/* Short prompts whose products are in parts along k, which the norm behind each adds up, in the emulator with every
   checker on: the answers of whole products and of the processor's machine, and which products are in parts. */
#include "support/support.h"

#include "engine/engine.h"
#include "tilewright/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 128, VOCAB = 256, SAID = 1 << 16 };

static tw_model *open_model(const char *name, tw_dtype type) {
    tw_model *m;
    tw_diag d;
    char path[4096];
    snprintf(path, sizeof path, TEST_DATA "/models/%s", name);
    const tw_status st = strstr(name, "tiny") ? tw_model_synthetic(&m, name, type, 3, &d) : tw_model_open(&m, path, &d);
    if (st != TW_OK) fail_msg("%s: %s", name, d.message);
    return m;
}

/* Reads a prompt of n ids. Of the emulated GPU, `said` becomes what its kernels are. */
static void feed(const tw_model *m, tw_engine_options o, int n, float *logits, char *said) {
    tw_engine *e;
    tw_diag d;
    int32_t ids[MOST], token;
    const float *at;
    o.emulate = said;
    o.no_vendor = !said;
    o.workers = said ? 2 : 1;
    o.context = MOST + 8;
    for (int i = 0; i < n; i++) ids[i] = (int32_t)((i * i * 11 + i * 5 + 3) % VOCAB);
    if (tw_engine_open(&e, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_engine_feed(e, ids, n, &at, &token, &d) != TW_OK) fail_msg("%s", d.message);
    memcpy(logits, at, (size_t)m->vocab * sizeof *logits);
    if (said) tw_engine_explain(e, said, SAID);
    tw_engine_close(e);
}

static double difference(const float *a, const float *b, int64_t n) {
    double most = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)b[i]));
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    }
    return most / largest;
}

typedef struct parts_case {
    const char *name;
    tw_dtype type;           /* Of a known shape. TW_F32 (0): the name is a fixture's folder. */
    tw_dtype weights;        /* As tw_engine_options has it. */
    int prompts, o, down, n; /* Parts of both products, and the ids of the prompt. */
    double tolerance;
    int columns[2]; /* Columns of those that are in parts, of all layers but the last. 0: there are none. */
} parts_case;

/* Tells whether a kernel's line is of a product of so many parts of so many columns. Parts 1: of a whole one that is
   added to the residual stream. */
static bool is_of(const char *line, int parts, int columns) {
    char k[24], how[24];
    snprintf(k, sizeof k, " k=%d ", columns);
    snprintf(how, sizeof how, parts > 1 ? " addends=%d " : " beta=1 ", parts);
    return strstr(line, k) && strstr(line, how) && !strstr(line, " m=1 ");
}

/* Counts the lines of such products. */
static int count(const char *said, int parts, int columns) {
    int n = 0;
    for (const char *at = said, *end; (end = strchr(at, '\n')); at = end + 1) {
        char line[1024];
        snprintf(line, sizeof line, "%.*s", (int)(end - at), at);
        n += is_of(line, parts, columns);
    }
    return n;
}

static void agrees(const parts_case *c) {
    static float got[VOCAB], want[VOCAB];
    static char said[SAID];
    tw_model *m = open_model(c->name, c->type);
    const tw_schedule_config config = {
        .machine = {.warps = 2}, .prompts = c->prompts, .prompt_o_parts = c->o, .prompt_down_parts = c->down};
    feed(m, (tw_engine_options){.config = &config, .weights = c->weights}, c->n, got, said);
    feed(m, (tw_engine_options){.weights = c->weights}, c->n, want, NULL);
    for (int i = 0; i < 2; i++) {
        const int parts = i ? c->down : c->o;
        if (!c->columns[i]) continue;
        assert_int_equal(count(said, parts, c->columns[i]), 1);
        if (parts > 1) assert_int_equal(count(said, 1, c->columns[i]), 0);
    }
    const bool any = (c->columns[0] && c->o > 1) || (c->columns[1] && c->down > 1);
    assert_int_equal(!strstr(said, "prefill_sum_norm"), !any);
    assert_int_equal(!strstr(said, " addends="), !any);
    const double off = difference(got, want, m->vocab);
    if (!(off <= c->tolerance)) fail_msg("%s in %d and %d parts: %g off", c->name, c->o, c->down, off);
    tw_model_close(m);
}

static void parts_are_added_up(void **state) {
    (void)state;
    static const parts_case cases[] = {
        {"qwen3-tiny", TW_BF16, 0, TW_PROMPTS_AUTO, 8, 2, 17, 2e-2, {1024, 160}},
        {"llama-tiny", TW_BF16, 0, TW_PROMPTS_AUTO, 1, 3, 33, 2e-2, {64, 160}},
        {"llama-tiny", TW_F16, 0, TW_PROMPTS_AUTO, 1, 2, 17, 4e-3, {64, 160}},
        {"llama-tiny", TW_F32, 0, TW_PROMPTS_AUTO, 1, 2, 17, 1e-4, {64, 160}},
        {"llama-tiny", TW_BF16, 0, TW_PROMPTS_APART, 1, 2, 17, 2e-2, {64, 160}},
        {"llama-tiny", TW_BF16, TW_I8, TW_PROMPTS_AUTO, 1, 2, 17, 2e-2, {64, 160}},
        {"llama-tiny", TW_BF16, 0, TW_PROMPTS_UNPACKED, 1, 2, 17, 2e-2, {64, 160}},
        {"phi3-window", 0, 0, TW_PROMPTS_AUTO, 1, 2, 17, 2e-2, {64, 112}},
    };
    for (size_t i = 0; i < (TEST_SANITIZED ? 1 : sizeof cases / sizeof *cases); i++) agrees(&cases[i]);
}

/* Biases are added to whole products, what is normed before it is added to x is no part of it, and routers have no
   norm that is a kernel. */
static void other_products_are_whole(void **state) {
    (void)state;
    static const parts_case cases[] = {
        {"gpt2-tiny", TW_BF16, 0, TW_PROMPTS_AUTO, 2, 2, 17, 2e-2, {0}},
        {"olmo2-norms", 0, 0, TW_PROMPTS_AUTO, 2, 2, 17, 2e-2, {0}},
        {"qwen3-moe-tiny", TW_BF16, 0, TW_PROMPTS_AUTO, 2, 2, 17, 2e-2, {0}},
    };
    for (size_t i = 0; i < (TEST_SANITIZED ? 1 : sizeof cases / sizeof *cases); i++) agrees(&cases[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_are_added_up),
                                       cmocka_unit_test(other_products_are_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
