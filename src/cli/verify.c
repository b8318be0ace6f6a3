/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "cli/network.h"
#include "cli/results.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANDOM_PROMPTS = 4, RANDOM_GREEDY = 32 };

static void print(bool json, const char *what, const char *device, bool stored_rope, const tw_verdict *v) {
    if (json) {
        json_t *o = json_pack("{s:b, s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:f}", "agrees", 1, "reference", what, "device",
                              device, "rope", stored_rope ? "stored" : "float", "cases", (json_int_t)v->cases,
                              "greedy_tokens", (json_int_t)v->tokens, "greedy_close", (json_int_t)v->close,
                              "worst_logit", v->worst_logit, "worst_loss", v->worst_loss);
        if (v->expected_perplexity > 0) {
            json_object_set_new(o, "perplexity", json_real(v->perplexity));
            json_object_set_new(o, "expected_perplexity", json_real(v->expected_perplexity));
        }
        cli_results_print(o, JSON_REAL_PRECISION(9));
        return;
    }
    printf("agrees with %s: %lld cases, %lld greedy tokens equal, ", what, (long long)v->cases, (long long)v->tokens);
    if (v->close) printf("%lld as likely as can be told, ", (long long)v->close);
    printf("logits within %.3f and losses within %.3f of what is allowed%s%s\n", v->worst_logit, v->worst_loss,
           strcmp(device, "cpu") ? " on " : "", strcmp(device, "cpu") ? device : "");
    if (stored_rope)
        printf("the reference has rope's frequencies rounded to the weights' type; `run` keeps them in float32\n");
    if (v->expected_perplexity > 0) printf("perplexity %.5f (reference %.5f)\n", v->perplexity, v->expected_perplexity);
}

static void print_difference(const tw_diag *d) {
    json_t *o = json_pack("{s:b, s:s}", "agrees", 0, "difference", d->message);
    cli_results_print(o, 0);
}

/* Compares quantised weights with the floats that their integers stand for. */
static tw_status against_dequantised(const tw_model *m, const tw_engine_options *o, uint64_t seed, bool json,
                                     tw_diag *d) {
    tw_engine *ours = NULL, *reference = NULL;
    tw_engine_options r = *o;
    tw_model_info info;
    tw_verdict v;
    r.dequantise = true;
    tw_model_describe(m, &info);
    tw_status st = tw_engine_open(&ours, m, o, d);
    if (st == TW_OK) st = tw_engine_open(&reference, m, &r, d);
    if (st == TW_OK) st = tw_engine_compare(ours, reference, info.vocab, RANDOM_PROMPTS, RANDOM_GREEDY, seed, &v, d);
    if (st == TW_OK) print(json, "its own dequantised weights", tw_engine_device(ours), false, &v);
    tw_engine_close(reference);
    tw_engine_close(ours);
    return st;
}

static tw_status compare(const tw_model *m, const tw_engine_options *o, const char *folder, const char *golden,
                         tw_verdict *v, char device[128], tw_diag *d) {
    char tokenizer_path[4096];
    tw_engine *e = NULL;
    tw_tokenizer *t = NULL;
    snprintf(tokenizer_path, sizeof tokenizer_path, "%s/tokenizer.json", folder);
    tw_status st = tw_engine_open(&e, m, o, d);
    if (st == TW_OK && access(tokenizer_path, R_OK) == 0) st = tw_tokenizer_open(&t, tokenizer_path, d);
    if (st == TW_OK) snprintf(device, 128, "%s", tw_engine_device(e));
    if (st == TW_OK) st = tw_engine_verify(e, t, golden, folder, v, d);
    tw_tokenizer_close(t);
    tw_engine_close(e);
    return st;
}

/* A reference does not say whether its model had rope's frequencies in float32 (loaded by transformers) or rounded
   (converted in memory). Unless --rope decides, float32 is tried first, and the kind that agrees is reported. */
static tw_status against_golden(const tw_model *m, tw_engine_options o, const char *folder, const char *golden,
                                const char *rope, bool json, tw_diag *d) {
    char path[4096], device[128];
    tw_verdict v;
    tw_model_info info;
    tw_model_describe(m, &info);
    snprintf(path, sizeof path, "%s", golden ? golden : folder);
    if (!golden) snprintf(path, sizeof path, "%s/golden.json", folder);
    o.stored_rope = !strcmp(rope, "stored");
    /* Models without a table of positions may exceed the context they were made for, as in transformers. */
    int64_t positions = 0;
    tw_status st = tw_golden_context(path, &positions, d);
    if (st != TW_OK) return st;
    if (!o.context && positions > info.max_seq) o.context = positions;
    st = compare(m, &o, folder, path, &v, device, d);
    if (st == TW_ERR_MISMATCH && !strcmp(rope, "auto") && info.dtype != TW_F32) {
        tw_diag second;
        o.stored_rope = true;
        if (compare(m, &o, folder, path, &v, device, &second) == TW_OK) st = TW_OK;
    }
    if (st != TW_OK) return st;
    print(json, path, device, o.stored_rope, &v);
    return TW_OK;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    if (cli_is_network(argc, argv)) return cli_verify_network(argc, argv);
    cli_model_flags m = {0};
    const char *model_path, *golden = NULL, *rope = "auto";
    bool json = false;
    int64_t seed = 1, chunk = 0;
    const cli_flag flags[] = {
        CLI_MODEL_FLAGS(m),
        {"--golden", CLI_TEXT, &golden, "FILE", "the reference (default: golden.json in the model's folder)"},
        {"--rope", CLI_TEXT, &rope, "auto|float|stored",
         "frequencies as float32, or rounded to the weights' type (default: whichever agrees)"},
        {"--chunk", CLI_INT, &chunk, "N",
         "positions that a step of a prompt takes at most (default: as `run` has them)"},
        {"-s", CLI_INT, &seed, "SEED", "of the random prompts for quantised weights"},
        {"--json", CLI_FLAG, &json, NULL, "print the verdict as JSON"},
    };
    int status, n;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, &model_path, 1, 1, &n, &status))
        return status;
    if (strcmp(rope, "auto") && strcmp(rope, "float") && strcmp(rope, "stored"))
        return cli_usage("--rope: \"%s\" is not auto, float or stored", rope);
    if (chunk < 0 || chunk > 1 << 20) return cli_usage("--chunk: %lld is not within 0..1048576", (long long)chunk);
    tw_model *model = NULL;
    tw_engine_options o;
    tw_diag d;
    tw_status st = cli_engine_options(&m, &o, &d);
    if (chunk) o.prefill = chunk;
    if (st == TW_OK) st = tw_model_open(&model, model_path, &d);
    if (st == TW_OK)
        st = o.weights && !golden ? against_dequantised(model, &o, (uint64_t)seed, json, &d)
                                  : against_golden(model, o, model_path, golden, rope, json, &d);
    tw_model_close(model);
    if (st == TW_ERR_MISMATCH && json) print_difference(&d);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_verify = {
    "verify", "MODEL|M.onnx|M.tw",
    "compare logits, greedy tokens and loss with a reference file (tilewright verify M.onnx --help: ONNX models)",
    "tilewright verify models/demo", run};
