/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/file.h"
#include "cli/generate.h"
#include "cli/network.h"
#include "cli/prompts.h"
#include "cli/results.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct run_flags {
    cli_model_flags m;
    const char *prompt, *ids, *prompts;
    cli_chat_flags chat_flags;
    bool chat, json, quiet;
    int64_t n, sequences;
    cli_sampling_flags sampling;
} run_flags;

typedef struct output {
    bool json;
    tw_buf text;
} output;

static bool emit(void *user, int32_t id, const char *text) {
    output *o = user;
    (void)id;
    if (o->json)
        tw_buf_str(&o->text, text);
    else if (*text) {
        fputs(text, stdout);
        if (fflush(stdout)) return false;
    }
    /* The handler is installed here, at the first token: before it an interrupt ends the program at once. */
    return !cli_interrupted();
}

static tw_status parse_ids(const char *text, int32_t **ids, size_t *n, tw_diag *d) {
    size_t room = 1;
    for (const char *p = text; *p; p++) room += *p == ',';
    *ids = malloc(room * sizeof **ids);
    if (!*ids) return cli_say(d, TW_ERR_MEMORY, "out of memory");
    for (*n = 0; *text;) {
        char *end;
        errno = 0;
        long v = strtol(text, &end, 10);
        if (end == text || errno || v < 0 || v > INT32_MAX || (*end && *end != ',') || (*end == ',' && !end[1]))
            return cli_say(d, TW_ERR_USAGE, "--ids: not a list of token ids such as 1,2,3");
        (*ids)[(*n)++] = (int32_t)v;
        text = end + (*end == ',');
    }
    return TW_OK;
}

static tw_status prompt_ids(const run_flags *f, const char *model_path, const tw_tokenizer *t, int32_t **ids, size_t *n,
                            tw_diag *d) {
    if (f->ids) return parse_ids(f->ids, ids, n, d);
    tw_buf in = {0};
    tw_status st = TW_OK;
    if (!strcmp(f->prompt, "-"))
        st = tw_file_read(&in, "-", d);
    else if (!tw_buf_str(&in, f->prompt))
        st = cli_say(d, TW_ERR_MEMORY, "out of memory");
    const char *text = in.data ? in.data : "";
    cli_template c = {0};
    if (st == TW_OK && f->chat) st = cli_template_open(&c, &f->chat_flags, model_path, d);
    if (st == TW_OK && f->chat)
        st = cli_chat_ids(&c, t, text, in.size, strcmp(f->prompt, "-") ? "-p" : "(standard input)", ids, n, d);
    cli_template_close(&c);
    if (st == TW_OK && !f->chat) {
        st = tw_tokenizer_encode(t, text, in.size, true, ids, n, d);
        cli_blame(d, st, strcmp(f->prompt, "-") ? "-p" : "-");
    }
    tw_buf_free(&in);
    return st;
}

static json_t *id_list(const int32_t *ids, int64_t n) {
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static double rate(int64_t n, double seconds) {
    return seconds > 0 ? (double)n / seconds : 0;
}

static void report(const run_flags *f, const tw_generation *g, const output *out) {
    if (f->json) {
        json_t *o = json_pack("{s:o, s:o, s:s, s:s, s:{s:I, s:f, s:f, s:I, s:f, s:f}}", "prompt_ids",
                              id_list(g->prompt, g->n_prompt), "ids", id_list(g->ids, g->n_ids), "text",
                              out->text.data ? out->text.data : "", "finish", tw_finish_name(g->finish), "timings",
                              "prefill_tokens", (json_int_t)g->n_prompt, "prefill_seconds", g->prefill_seconds,
                              "prefill_per_second", rate(g->n_prompt, g->prefill_seconds), "decode_steps",
                              (json_int_t)g->n_decoded, "decode_seconds", g->decode_seconds, "decode_per_second",
                              rate(g->n_decoded, g->decode_seconds));
        cli_results_print(o, JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
        return;
    }
    putchar('\n');
    fflush(stdout);
    if (!f->quiet)
        fprintf(stderr, "[%lld prompt tokens at %.1f/s, %lld new tokens at %.1f/s, ended by %s]\n",
                (long long)g->n_prompt, rate(g->n_prompt, g->prefill_seconds), (long long)g->n_ids,
                rate(g->n_decoded, g->decode_seconds), tw_finish_name(g->finish));
}

/* The cache has no more positions than needed, since it takes memory. */
static void choose_context(const tw_model *model, const run_flags *f, size_t n_prompt, tw_engine_options *o) {
    int64_t want = (int64_t)n_prompt + f->n;
    tw_model_info info;
    tw_model_describe(model, &info);
    if (o->context || o->schedule || o->config->lowering.max_seq) return;
    o->context = want < info.max_seq ? want : info.max_seq;
    if ((int64_t)n_prompt >= o->context) o->context = info.max_seq;
    if (o->context < 1) o->context = 1;
}

static tw_status generate(run_flags *f, const char *model_path, const tw_model *model, tw_engine_options *o,
                          tw_diag *d) {
    tw_tokenizer *t = NULL;
    tw_engine *e = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    output out = {.json = f->json};
    char path[4096];
    snprintf(path, sizeof path, "%s/tokenizer.json", model_path);
    tw_status st = TW_OK;
    if (f->prompt || tw_file_exists(path)) st = tw_tokenizer_open(&t, path, d);
    if (st == TW_OK) st = prompt_ids(f, model_path, t, &ids, &n, d);
    if (st == TW_OK) choose_context(model, f, n, o);
    if (st == TW_OK) st = tw_engine_open(&e, model, o, d);
    tw_generation g = {.prompt = ids, .n_prompt = (int64_t)n, .limit = f->n, .emit = emit, .user = &out};
    cli_sampling(&f->sampling, model, &g);
    if (!t && !f->sampling.stop.count) g.n_stop = 0; /* The model's own stop strings need a tokenizer. */
    if (st == TW_OK) cli_warn_nonfinite(model);
    if (st == TW_OK && !t && !f->json) fprintf(stderr, "tilewright: %s: no tokenizer.json: ids only\n", model_path);
    if (st == TW_OK) st = tw_generate(e, t, &g, d);
    if (st == TW_OK && !t && !f->json)
        for (int64_t i = 0; i < g.n_ids; i++) printf("%s%d", i ? "," : "", g.ids[i]);
    if (st == TW_OK) report(f, &g, &out);
    if (st == TW_OK && g.finish == TW_FINISH_ABORTED && cli_interrupted()) st = cli_say(d, TW_ERR_IO, "interrupted");
    if (st == TW_OK) free(g.ids);
    tw_buf_free(&out.text);
    tw_engine_close(e);
    tw_tokenizer_close(t);
    free(ids);
    return st;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    if (cli_is_network(argc, argv)) return cli_run_network(argc, argv);
    enum { UNSET = -1, TOGETHER = 8 };
    run_flags f = {.n = 128, .sequences = UNSET, .sampling = CLI_SAMPLING_UNSET};
    const char *model_path;
    const cli_flag flags[] = {
        {"-p", CLI_TEXT, &f.prompt, "TEXT", "the prompt; - reads standard input"},
        {"--ids", CLI_TEXT, &f.ids, "1,2,3", "the prompt as token ids"},
        {"--prompts", CLI_TEXT, &f.prompts, "FILE",
         "many prompts, a line of JSON each: {\"prompt\": TEXT} or {\"ids\": [1,2,3]}; - reads standard input"},
        {"--sequences", CLI_INT, &f.sequences, "N", "with --prompts: decode up to N together (default 8)"},
        {"-n", CLI_INT, &f.n, "N", "new tokens at most (default 128)"},
        CLI_SAMPLING_FLAGS(f.sampling),
        {"--chat", CLI_FLAG, &f.chat, NULL, "wrap the prompt in the model's chat template"},
        CLI_CHAT_FLAGS(f.chat_flags),
        {"--schedule", CLI_TEXT, &f.m.schedule, "S.json", "run this decode schedule, once the check accepts it"},
        {"--quiet", CLI_FLAG, &f.quiet, NULL, "no line about speed"},
        {"--json", CLI_FLAG, &f.json, NULL, "print ids, text and timings as JSON"},
        CLI_MODEL_FLAGS(f.m),
    };
    int status, n;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, &model_path, 1, 1, &n, &status))
        return status;
    const cli_chat_flags *c = &f.chat_flags;
    if (!f.chat && (c->system || c->tools || c->name || c->arguments.count))
        return cli_usage("run: --system, --chat-arg, --tools and --chat-template go with --chat");
    if (f.chat && f.ids) return cli_usage("run: --chat goes with -p or --prompts, not with --ids");
    if ((f.prompt != NULL) + (f.ids != NULL) + (f.prompts != NULL) != 1)
        return cli_usage("run: needs -p TEXT, --ids 1,2,3 or --prompts FILE, one of them");
    if (f.prompts && f.json) return cli_usage("run: --prompts writes lines of JSON without --json");
    if (!f.prompts && f.sequences != UNSET) return cli_usage("run: --sequences goes with --prompts");
    if (f.sequences == UNSET) f.sequences = TOGETHER;
    if (f.sequences < 1 || f.sequences > 128)
        return cli_usage("--sequences: %lld is not within 1..128", (long long)f.sequences);
    if (f.n < 0 || f.n > 1 << 24) return cli_usage("-n: %lld is not within 0..16777216", (long long)f.n);
    tw_model *model = NULL;
    tw_engine_options o;
    tw_diag d;
    tw_status st = cli_engine_options(&f.m, &o, &d);
    if (st == TW_OK) st = tw_model_open(&model, model_path, &d);
    const cli_prompts many = {.path = f.prompts,
                              .model_path = model_path,
                              .n = f.n,
                              .sequences = f.sequences,
                              .quiet = f.quiet,
                              .chat = f.chat ? c : NULL,
                              .sampling = &f.sampling};
    if (st == TW_OK && f.prompts) st = cli_run_prompts(&many, model, &o, &d);
    if (st == TW_OK && !f.prompts) st = generate(&f, model_path, model, &o, &d);
    tw_model_close(model);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_run = {"run", "MODEL|M.onnx|M.tw",
                          "generate text (tilewright run M.onnx --help: outputs of ONNX models)",
                          "tilewright run models/demo -p \"In the beginning\" -n 64 --temp 0.8", run};
