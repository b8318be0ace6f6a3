/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* Models of the importer as graphs: logits and greedy tokens of Hugging Face's library, for every family. */
#include "base/diag.h"
#include "graph/decoder.h"
#include "graph/run.h"
#include "support/support.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TOKENS = 512 };

/* Adds a list's ids to those that are there. */
static int64_t add_ids(const json_t *list, int64_t *ids, int64_t n) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        assert_true(n < MOST_TOKENS);
        ids[n++] = json_integer_value(json_array_get(list, i));
    }
    return n;
}

static void logits_agree(const char *name, const json_t *want, const float *logits, int64_t vocab) {
    double largest = 0;
    assert_int_equal(json_array_size(want), vocab);
    for (int64_t i = 0; i < vocab; i++)
        largest = fmax(largest, fabs(json_number_value(json_array_get(want, (size_t)i))));
    for (int64_t i = 0; i < vocab; i++) {
        const double x = json_number_value(json_array_get(want, (size_t)i));
        if (!(fabs((double)logits[i] - x) <= 1e-3 * largest + 1e-4))
            fail_msg("%s: logit %lld is %g, not %g", name, (long long)i, (double)logits[i], x);
    }
}

static int64_t greatest(const float *x, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* Runs a prompt with the tokens after it in one pass, which has the logits behind each. */
static void case_agrees(const char *name, const tw_model *m, const tw_graph *g, const json_t *one) {
    int64_t ids[MOST_TOKENS];
    const json_t *greedy = json_object_get(one, "greedy");
    const int64_t prompt = add_ids(json_object_get(one, "prompt"), ids, 0);
    /* Angles that depend on the length are those of the prompt for its own keys. */
    const bool moves = tw_rope_moves(&m->rope);
    const int64_t n = moves ? prompt : add_ids(greedy, ids, prompt) - (json_array_size(greedy) > 0);
    const tw_array input = {TW_E_i64, 2, {1, n}, ids}, *in[] = {&input};
    tw_arena arena = {0};
    tw_array out;
    tw_diag d = {0};
    const tw_status st = tw_graph_run(g, in, &arena, &out, &d);
    if (st != TW_OK) fail_msg("%s: %s", name, d.message);
    assert_int_equal(out.dims[2], m->vocab);
    const float *logits = (const float *)out.data + (prompt - 1) * m->vocab;
    logits_agree(name, json_object_get(one, "logits_last"), logits, m->vocab);
    for (int64_t i = 0; prompt + i <= n; i++)
        assert_int_equal(greatest(logits + i * m->vocab, m->vocab),
                         json_integer_value(json_array_get(greedy, (size_t)i)));
    tw_arena_free(&arena);
}

static void model_agrees(const char *name) {
    char folder[1024], path[1100];
    snprintf(folder, sizeof folder, "%s/tests/data/models/%s", TW_SOURCE_DIR, name);
    snprintf(path, sizeof path, "%s/golden.json", folder);
    json_t *golden = json_load_file(path, 0, NULL), *cases = json_object_get(golden, "cases");
    tw_model *m = NULL;
    tw_graph *g = NULL;
    tw_diag d = {0};
    if (tw_model_open(&m, folder, &d) != TW_OK) fail_msg("%s: %s", name, d.message);
    if (tw_graph_of_model(&g, m, &d) != TW_OK) fail_msg("%s: %s", name, d.message);
    if (tw_graph_resolve(g, name, &d) != TW_OK) fail_msg("%s: %s", name, d.message);
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++) case_agrees(name, m, g, json_array_get(cases, i));
    tw_graph_free(g);
    tw_model_close(m);
    json_decref(golden);
}

static void graphs_agree_with_transformers(void **state) {
    (void)state;
    DIR *all = opendir(TW_SOURCE_DIR "/tests/data/models");
    int n = 0;
    assert_non_null(all);
    for (const struct dirent *e; (e = readdir(all));)
        if (*e->d_name != '.') model_agrees(e->d_name), n++;
    closedir(all);
    assert_true(n > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(graphs_agree_with_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
