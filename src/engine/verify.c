/* SPDX-License-Identifier: Apache-2.0 */
/* Checks agreement with a reference: golden.json, or another engine. */
#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "engine/engine.h"
#include "tilewright/device.h"
#include "vm/routing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct verification {
    tw_engine *e;
    const tw_tolerance *allowed;
    const char *path;
    int64_t number; /* Number of the case. */
    tw_verdict *v;
    tw_diag *diag;
    tw_routing *routing; /* The engine's choices of experts, which a reference follows. NULL: it makes its own. */
} verification;

static tw_status malformed(verification *c, const char *what) {
    return tw_fail_at(c->diag, TW_ERR_FORMAT, c->path, -1, "cases[%lld]: %s", (long long)c->number, what);
}

static tw_status differs(verification *c, const char *what, int64_t at, double ours, double theirs) {
    return tw_fail_at(c->diag, TW_ERR_MISMATCH, c->path, -1,
                      "cases[%lld]: %s %lld is %.9g here and %.9g in the reference", (long long)c->number, what,
                      (long long)at, ours, theirs);
}

static double largest_of(const float *x, int64_t n) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)x[i]));
    return largest;
}

static double tolerance_of(const verification *c, const float *logits, int64_t n) {
    return c->allowed->logit_relative * largest_of(logits, n) + c->allowed->logit_absolute;
}

static tw_status compare_logits(verification *c, const float *ours, const float *theirs, int64_t n) {
    double tolerance = tolerance_of(c, theirs, n);
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)ours[i] - theirs[i]) / tolerance;
        if (!(d <= 1)) return differs(c, "logit", i, ours[i], theirs[i]);
        c->v->worst_logit = fmax(c->v->worst_logit, d);
    }
    return TW_OK;
}

/* Compares a greedy token. Token number `i` is `id` here, the most likely by `logits`, and `want` in the reference. */
static tw_status compare_tokens(verification *c, int64_t i, int32_t id, int32_t want, const float *logits) {
    int64_t vocab = c->e->model->vocab;
    if (id == want) {
        c->v->tokens++;
        return TW_OK;
    }
    double gap = (double)logits[id] - logits[want];
    if (!c->allowed->close || !(gap <= 2 * tolerance_of(c, logits, vocab)))
        return differs(c, "greedy token", i, id, want);
    c->v->close++;
    return TW_OK;
}

/* Reads an array of ids, which the caller frees. */
static tw_status read_ids(verification *c, const json_t *list, int32_t **out, int64_t *n) {
    size_t count = json_array_size(list);
    *n = (int64_t)count;
    *out = malloc((count + 1) * sizeof **out);
    if (!*out) return tw_fail_memory(c->diag);
    for (size_t i = 0; i < count; i++) {
        int64_t id;
        if (!tw_json_int(json_array_get(list, i), 0, c->e->model->vocab - 1, &id))
            return malformed(c, "an id is not an integer within the vocabulary");
        (*out)[i] = (int32_t)id;
    }
    return TW_OK;
}

/* Checks {"ids", "values"}: the logits of some ids, the largest among them. */
static tw_status check_some_logits(verification *c, const json_t *some, const float *ours) {
    const json_t *values = json_object_get(some, "values");
    int32_t *ids;
    int64_t n;
    tw_status st = read_ids(c, json_object_get(some, "ids"), &ids, &n);
    if (st == TW_OK && (!n || (int64_t)json_array_size(values) != n))
        st = malformed(c, "logits_last has not as many values as ids");
    double largest = 0;
    for (int64_t i = 0; i < n && st == TW_OK; i++)
        largest = fmax(largest, fabs(json_number_value(json_array_get(values, (size_t)i))));
    const double tolerance = c->allowed->logit_relative * largest + c->allowed->logit_absolute;
    for (int64_t i = 0; i < n && st == TW_OK; i++) {
        double theirs = json_number_value(json_array_get(values, (size_t)i));
        double d = fabs((double)ours[ids[i]] - theirs) / tolerance;
        if (!(d <= 1)) st = differs(c, "logit", ids[i], ours[ids[i]], theirs);
        c->v->worst_logit = fmax(c->v->worst_logit, d);
    }
    free(ids);
    return st;
}

static tw_status check_logits(verification *c, const json_t *list, const float *ours) {
    int64_t n = c->e->model->vocab;
    if (json_is_object(list)) return check_some_logits(c, list, ours);
    if ((int64_t)json_array_size(list) != n)
        return malformed(c, "logits_last has not as many values as the vocabulary");
    for (int64_t i = 0; i < n; i++)
        if (!json_is_number(json_array_get(list, (size_t)i)))
            return malformed(c, "logits_last holds what is no number");
    float *theirs = malloc((size_t)n * sizeof *theirs);
    if (!theirs) return tw_fail_memory(c->diag);
    for (int64_t i = 0; i < n; i++) theirs[i] = (float)json_number_value(json_array_get(list, (size_t)i));
    tw_status st = compare_logits(c, ours, theirs, n);
    free(theirs);
    return st;
}

/* Checks greedy tokens. The reference's tokens are fed, so that a token that differs does not change the tokens after
   it. */
static tw_status check_greedy(verification *c, const int32_t *want, int64_t n, int32_t id, const float *logits) {
    for (int64_t i = 0; i < n; i++) {
        tw_status st = compare_tokens(c, i, id, want[i], logits);
        if (st != TW_OK || i + 1 == n) return st;
        st = tw_engine_feed(c->e, &want[i], 1, &logits, &id, c->diag);
        if (st != TW_OK) return st;
    }
    return TW_OK;
}

static tw_status check_loss(verification *c, const json_t *loss, const int32_t *prompt, int64_t n) {
    if (!loss || json_is_null(loss) || n < 2) return TW_OK;
    if (!json_is_number(loss)) return malformed(c, "loss is neither a number nor null");
    double nll, want = json_number_value(loss);
    tw_status st = tw_engine_score(c->e, prompt, n, &nll, c->diag);
    if (st != TW_OK) return st;
    nll /= (double)(n - 1);
    double d = fabs(nll - want) / fmax(fabs(want), 1e-9) / c->allowed->loss_relative;
    if (!(d <= 1)) return differs(c, "loss over prompt tokens", n, nll, want);
    c->v->worst_loss = fmax(c->v->worst_loss, d);
    return TW_OK;
}

static tw_status check_case(verification *c, const json_t *one) {
    int32_t *prompt = NULL, *greedy = NULL, first;
    int64_t n = 0, m = 0;
    const float *logits;
    tw_status st = read_ids(c, json_object_get(one, "prompt"), &prompt, &n);
    if (st == TW_OK) st = read_ids(c, json_object_get(one, "greedy"), &greedy, &m);
    if (st == TW_OK && n < 1) st = malformed(c, "no prompt");
    tw_engine_rewind(c->e, 0);
    if (st == TW_OK) st = tw_engine_feed(c->e, prompt, n, &logits, &first, c->diag);
    if (st == TW_OK) st = check_logits(c, json_object_get(one, "logits_last"), logits);
    if (st == TW_OK) st = check_greedy(c, greedy, m, first, logits);
    if (st == TW_OK) st = check_loss(c, json_object_get(one, "loss"), prompt, n);
    free(prompt);
    free(greedy);
    return st;
}

/* Checks "perplexity": {"file", "context", "tokens", "value"}, which is of a text beside the model. */
static tw_status check_perplexity(verification *c, const json_t *p, const tw_tokenizer *t, const char *directory) {
    const char *file = json_string_value(json_object_get(p, "file"));
    int64_t context, tokens, predictions;
    char path[4096];
    if (!p) return TW_OK;
    if (!file || strchr(file, '/') || !tw_json_int(json_object_get(p, "context"), 2, INT32_MAX, &context) ||
        !tw_json_int(json_object_get(p, "tokens"), 1, INT64_MAX, &tokens))
        return tw_fail_at(c->diag, TW_ERR_FORMAT, c->path, -1, "perplexity: file, context and tokens are needed");
    if (!json_is_number(json_object_get(p, "value")))
        return tw_fail_at(c->diag, TW_ERR_FORMAT, c->path, -1, "perplexity: value is no number");
    if (!t) return tw_fail_at(c->diag, TW_ERR_FORMAT, c->path, -1, "perplexity needs the model's tokenizer.json");
    snprintf(path, sizeof path, "%s/%s", directory, file);
    tw_buf text = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    double nll = 0, want = json_number_value(json_object_get(p, "value"));
    tw_status st = tw_file_read(&text, path, c->diag);
    if (st == TW_OK) st = tw_tokenizer_encode(t, text.data, text.size, true, &ids, &n, c->diag);
    if (st == TW_OK) st = tw_engine_perplexity(c->e, ids, (int64_t)n, context, &nll, &predictions, NULL, NULL, c->diag);
    free(ids);
    tw_buf_free(&text);
    if (st != TW_OK) return st;
    c->v->perplexity = exp(nll);
    c->v->expected_perplexity = want;
    if (predictions != tokens || !(fabs(exp(nll) - want) <= c->allowed->loss_relative * want))
        return tw_fail_at(c->diag, TW_ERR_MISMATCH, c->path, -1,
                          "perplexity is %.6f over %lld tokens here and %.6f over %lld in the reference", exp(nll),
                          (long long)predictions, want, (long long)tokens);
    return TW_OK;
}

tw_status tw_engine_verify(tw_engine *e, const tw_tokenizer *tokenizer, const char *golden, const char *directory,
                           tw_verdict *verdict, tw_diag *diag) {
    json_t *root, *one;
    size_t i;
    *verdict = (tw_verdict){0};
    tw_status st = tw_json_load(&root, golden, diag);
    if (st != TW_OK) return st;
    verification c = {e, tw_engine_tolerance(e), golden, 0, verdict, diag, NULL};
    const json_t *cases = json_object_get(root, "cases");
    if (!json_array_size(cases)) st = tw_fail_at(diag, TW_ERR_FORMAT, golden, -1, "there are no cases");
    json_array_foreach(cases, i, one) {
        c.number = (int64_t)i;
        if (st == TW_OK) st = check_case(&c, one);
        if (st == TW_OK) verdict->cases++;
    }
    if (st == TW_OK) st = check_perplexity(&c, json_object_get(root, "perplexity"), tokenizer, directory);
    json_decref(root);
    return st;
}

/* ---- another engine as the reference, which is told what a mixture chose */

/* Makes room for choices of `positions`, if the model has such and the reference follows them. */
static tw_status open_routing(verification *c, const tw_engine *reference, int64_t positions) {
    if (!c->e->model->n_experts || !reference->machine.backend->follows) return TW_OK;
    return tw_routing_open(&c->routing, c->e->model, positions, c->diag);
}

/* Feeds ids to the engine, and keeps its choices. */
static tw_status feed_ours(verification *c, const int32_t *ids, int64_t n, const float **logits, int32_t *token) {
    tw_routing *r = c->e->routing = c->routing;
    if (r) tw_routing_forget(r, c->e->position, n);
    if (r) r->told = false;
    const tw_status st = tw_engine_feed(c->e, ids, n, logits, token, c->diag);
    c->e->routing = NULL;
    return st;
}

/* Feeds them to the reference, which follows the choices, and judges these. */
static tw_status feed_reference(verification *c, tw_engine *reference, const int32_t *ids, int64_t n,
                                const float **logits, int32_t *token) {
    const tw_routing_tolerance allowed = {c->allowed->score_relative, c->allowed->logit_absolute};
    const int64_t pos = reference->position;
    tw_routing_verdict v = {0};
    tw_routing *r = c->routing;
    tw_status st = r ? tw_routing_check(r, pos, n, c->diag) : TW_OK;
    if (st != TW_OK) return st;
    if (r) r->told = true;
    reference->routing = r;
    st = tw_engine_feed(reference, ids, n, logits, token, c->diag);
    reference->routing = NULL;
    if (st == TW_OK && r) st = tw_routing_judge(r, pos, n, &allowed, &v, c->diag);
    c->v->choices += v.choices;
    c->v->choices_close += v.others;
    c->v->worst_choice = fmax(c->v->worst_choice, v.worst);
    return st;
}

static tw_status compare_prompt(verification *c, tw_engine *reference, const int32_t *prompt, int64_t n, int64_t greedy,
                                float *copy) {
    int64_t vocab = c->e->model->vocab;
    const float *ours, *theirs;
    int32_t a, b;
    tw_engine_rewind(c->e, 0);
    tw_engine_rewind(reference, 0);
    tw_status st = feed_ours(c, prompt, n, &ours, &a);
    if (st == TW_OK) st = feed_reference(c, reference, prompt, n, &theirs, &b);
    for (int64_t i = 0; i < greedy && st == TW_OK; i++) {
        memcpy(copy, theirs, (size_t)vocab * sizeof *copy);
        st = compare_logits(c, ours, copy, vocab);
        if (st == TW_OK) st = compare_tokens(c, i, a, b, ours);
        if (st != TW_OK) break;
        int32_t id = b;
        st = feed_ours(c, &id, 1, &ours, &a);
        if (st == TW_OK) st = feed_reference(c, reference, &id, 1, &theirs, &b);
    }
    return st;
}

tw_status tw_engine_compare(tw_engine *e, tw_engine *reference, int64_t vocab, int64_t prompts, int64_t greedy,
                            uint64_t seed, tw_verdict *verdict, tw_diag *diag) {
    *verdict = (tw_verdict){0};
    const tw_tolerance *own = tw_engine_tolerance(e), *theirs = tw_engine_tolerance(reference),
                       *coarser = theirs->logit_relative > own->logit_relative ? theirs : own;
    verification c = {e, coarser, "(random prompts)", 0, verdict, diag, NULL};
    int64_t context =
        tw_engine_context(e) < tw_engine_context(reference) ? tw_engine_context(e) : tw_engine_context(reference);
    if (greedy > context / 2) greedy = context / 2;
    int64_t room = context - greedy - 1, longest = room < 48 ? room : 48;
    if (longest < 1) return tw_fail(diag, TW_ERR_USAGE, "the context is too short to compare in");
    tw_random r = tw_random_seed(seed);
    int32_t *prompt = malloc((size_t)longest * sizeof *prompt);
    float *copy = malloc((size_t)vocab * sizeof *copy);
    tw_status st = prompt && copy ? open_routing(&c, reference, longest + greedy + 1) : tw_fail_memory(diag);
    for (int64_t i = 0; i < prompts && st == TW_OK; i++) {
        int64_t n = i ? 1 + (int64_t)tw_random_below(&r, (uint64_t)longest) : 1;
        for (int64_t k = 0; k < n; k++) prompt[k] = (int32_t)tw_random_below(&r, (uint64_t)vocab);
        c.number = i;
        st = compare_prompt(&c, reference, prompt, n, greedy, copy);
        if (st == TW_OK) verdict->cases++;
    }
    tw_routing_close(c.routing);
    free(prompt);
    free(copy);
    return st;
}

/* Feeds a prompt through prefill and one token through decode, and stores both logits in `out`. With `again` the
   choices of experts are those of the time before. */
static tw_status two_steps(verification *c, const int32_t *prompt, int64_t n, bool again, float *out) {
    const float *logits;
    tw_engine *e = c->e;
    int64_t vocab = e->model->vocab;
    tw_engine_rewind(e, 0);
    tw_status st = again ? feed_reference(c, e, prompt, n, &logits, NULL) : feed_ours(c, prompt, n, &logits, NULL);
    if (st != TW_OK) return st;
    memcpy(out, logits, (size_t)vocab * sizeof *out);
    st = again ? feed_reference(c, e, prompt, 1, &logits, NULL) : feed_ours(c, prompt, 1, &logits, NULL);
    if (st == TW_OK) memcpy(out + vocab, logits, (size_t)vocab * sizeof *out);
    return st;
}

/* Compares these steps with the engine's kernels and with those of `isa`, without a vendor's library. */
static tw_status against_isa(verification *c, const int32_t *prompt, int64_t n, uint32_t isa, float *room) {
    tw_engine *e = c->e;
    int64_t vocab = e->model->vocab;
    float *plain = room + 2 * vocab;
    tw_status st = two_steps(c, prompt, n, false, room);
    if (st == TW_OK) st = e->machine.backend->limit_isa(&e->machine, isa, true, c->diag);
    if (st == TW_OK) st = two_steps(c, prompt, n, true, plain);
    uint32_t own = e->options.limit_isa ? e->options.isa : UINT32_MAX;
    tw_status back = e->machine.backend->limit_isa(&e->machine, own, false, st == TW_OK ? c->diag : NULL);
    if (st == TW_OK) st = back;
    for (int k = 0; k < 2 && st == TW_OK; k++, c->number++) {
        st = compare_logits(c, room + k * vocab, plain + k * vocab, vocab);
        if (st == TW_OK) c->v->cases++;
    }
    return st;
}

/* Makes a random prompt, which the caller frees. NULL: out of memory. */
static int32_t *random_prompt(const tw_engine *e, int64_t n, uint64_t seed) {
    tw_random r = tw_random_seed(seed + 1);
    int32_t *prompt = malloc((size_t)n * sizeof *prompt);
    for (int64_t k = 0; k < n && prompt; k++) prompt[k] = (int32_t)tw_random_below(&r, (uint64_t)e->model->vocab);
    return prompt;
}

/* Compares two engines on a random prompt of n ids and a few tokens after it. */
static tw_status compare_at(tw_engine *e, tw_engine *reference, int64_t n, int64_t greedy, uint64_t seed,
                            tw_verdict *verdict, tw_diag *diag) {
    verification c = {e, tw_engine_tolerance(e), "(a long random prompt)", verdict->cases, verdict, diag, NULL};
    int32_t *prompt = random_prompt(e, n, seed);
    float *copy = malloc((size_t)e->model->vocab * sizeof *copy);
    tw_status st = prompt && copy ? open_routing(&c, reference, n + greedy + 1) : tw_fail_memory(diag);
    if (st == TW_OK) st = compare_prompt(&c, reference, prompt, n, greedy, copy);
    if (st == TW_OK) verdict->cases++;
    tw_routing_close(c.routing);
    free(prompt);
    free(copy);
    return st;
}

/* Feeds ids one by one, and has logits of the last. */
static tw_status feed_steps(tw_engine *e, const int32_t *ids, int64_t n, const float **logits, int32_t *token,
                            tw_diag *diag) {
    tw_status st = TW_OK;
    for (int64_t i = 0; i < n && st == TW_OK; i++)
        st = tw_engine_feed(e, &ids[i], 1, i + 1 < n ? NULL : logits, token, diag);
    return st;
}

tw_status tw_engine_compare_steps(tw_engine *e, int64_t n, int64_t greedy, uint64_t seed, tw_verdict *verdict,
                                  tw_diag *diag) {
    const size_t row = (size_t)e->model->vocab;
    verification c = {e,   tw_engine_tolerance(e), "(a long random prompt, by steps)", verdict->cases, verdict, diag,
                      NULL};
    int32_t *prompt = random_prompt(e, n + greedy, seed);
    float *all = malloc((size_t)(greedy + 1) * row * sizeof *all);
    int32_t *ids = malloc((size_t)(greedy + 1) * sizeof *ids), id = 0;
    const float *logits = NULL;
    tw_status st = prompt && all && ids ? TW_OK : tw_fail_memory(diag);
    tw_engine_rewind(e, 0);
    for (int64_t i = 0; i <= greedy && st == TW_OK; i++) {
        st = i ? tw_engine_feed(e, &prompt[n + i - 1], 1, &logits, &ids[i], diag)
               : tw_engine_feed(e, prompt, n, &logits, &ids[0], diag);
        if (st == TW_OK) memcpy(all + (size_t)i * row, logits, row * sizeof *all);
    }
    tw_engine_rewind(e, 0);
    for (int64_t i = 0; i <= greedy && st == TW_OK; i++) {
        const float *ours = all + (size_t)i * row;
        st =
            i ? feed_steps(e, &prompt[n + i - 1], 1, &logits, &id, diag) : feed_steps(e, prompt, n, &logits, &id, diag);
        if (st == TW_OK) st = compare_logits(&c, ours, logits, (int64_t)row);
        if (st == TW_OK) st = compare_tokens(&c, i, ids[i], id, ours);
    }
    if (st == TW_OK) verdict->cases++;
    free(prompt);
    free(all);
    free(ids);
    return st;
}

/* Compares a GPU's kernel with the processor's machine, on the same model and type of weights: on short prompts, and on
   one that reaches as far as what is timed. A processor takes minutes for thousands of positions of a large model. Such
   a prompt is compared with the GPU's own steps of one position, which are compared with the processor's up to LONG.
   A mixture's steps follow no choices, but a position takes the processor few operations: it computes all of them. */
static tw_status check_with_processor(tw_engine *e, int64_t n, uint64_t seed, tw_verdict *verdict, tw_diag *diag) {
    enum { PROMPTS = 2, GREEDY = 4, POSITIONS = 64, SHORT = 48, LONG = 1024 };
    if (n > e->context - GREEDY) n = e->context - GREEDY;
    const int64_t reach = n;
    if (n > LONG && !e->model->n_experts) n = LONG;
    const int64_t positions = n + GREEDY > POSITIONS ? n + GREEDY : POSITIONS;
    tw_engine_options o = {.weights = e->options.weights,
                           .group = e->options.group,
                           .stored_rope = e->options.stored_rope,
                           .dequantise = e->options.dequantise,
                           .context = e->context < positions ? e->context : positions,
                           .no_vendor = true};
    tw_engine *cpu = NULL;
    tw_status st = tw_engine_open(&cpu, e->model, &o, diag);
    if (st == TW_OK) st = tw_engine_compare(e, cpu, e->model->vocab, PROMPTS, GREEDY, seed, verdict, diag);
    if (st == TW_OK && n > SHORT) st = compare_at(e, cpu, n, GREEDY, seed, verdict, diag);
    tw_engine_close(cpu);
    if (st == TW_OK && reach > n) st = tw_engine_compare_steps(e, reach, GREEDY, seed, verdict, diag);
    tw_engine_rewind(e, 0);
    return st;
}

tw_status tw_engine_check_kernels(tw_engine *e, int64_t prompt_length, uint64_t seed, tw_verdict *verdict,
                                  tw_diag *diag) {
    enum { SHORT = 4, LONG = 96 };
    int32_t prompt[LONG];
    int64_t vocab = e->model->vocab, room = e->context - 1, n = prompt_length < LONG ? prompt_length : LONG;
    if (n > room) n = room;
    *verdict = (tw_verdict){0};
    if (!e->machine.backend->limit_isa) return check_with_processor(e, prompt_length, seed, verdict, diag);
    verification c = {e, tw_engine_tolerance(e), "(tuned against plainer kernels)", 0, verdict, diag, NULL};
    tw_random r = tw_random_seed(seed);
    for (int i = 0; i < LONG; i++) prompt[i] = (int32_t)tw_random_below(&r, (uint64_t)vocab);
    float *logits = malloc((size_t)vocab * 4 * sizeof *logits);
    if (!logits) return tw_fail_memory(diag);
    tw_status st = open_routing(&c, e, n + 1 > SHORT + 1 ? n + 1 : SHORT + 1);
    if (st == TW_OK) st = against_isa(&c, prompt, room < SHORT ? 1 : SHORT, 0, logits);
    /* A long prompt of a large model would take plain C minutes. AVX2's kernels replace it here. The tests compare them
       with plain C. */
    if (st == TW_OK && n > SHORT) st = against_isa(&c, prompt, n, TW_CPU_AVX2, logits);
    tw_routing_close(c.routing);
    free(logits);
    tw_engine_rewind(e, 0);
    return st;
}

tw_status tw_golden_context(const char *golden, int64_t *positions, tw_diag *diag) {
    json_t *root, *one;
    size_t i;
    int64_t perplexity = 0;
    *positions = 0;
    tw_status st = tw_json_load(&root, golden, diag);
    if (st != TW_OK) return st;
    json_array_foreach(json_object_get(root, "cases"), i, one) {
        int64_t n = (int64_t)(json_array_size(json_object_get(one, "prompt")) +
                              json_array_size(json_object_get(one, "greedy")));
        if (n > *positions) *positions = n;
    }
    tw_json_int(json_object_get(json_object_get(root, "perplexity"), "context"), 0, INT32_MAX, &perplexity);
    if (perplexity > *positions) *positions = perplexity;
    json_decref(root);
    return TW_OK;
}
