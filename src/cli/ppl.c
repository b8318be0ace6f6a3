/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void show_progress(void *user, int64_t done, int64_t total) {
    (void)user;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%lld of %lld tokens%s", (long long)done, (long long)total, done == total ? "\n" : "");
}

static tw_status measure(const tw_model *m, const tw_engine_options *o, const char *model_path, const char *file,
                         int64_t context, bool json, tw_diag *d) {
    tw_tokenizer *t = NULL;
    tw_engine *e = NULL;
    tw_buf text = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    int64_t predictions = 0;
    double nll = 0;
    tw_status st = tw_tokenizer_open(&t, model_path, d);
    if (st == TW_OK) st = tw_file_read(&text, file, d);
    if (st == TW_OK) {
        st = tw_tokenizer_encode(t, text.data ? text.data : "", text.size, true, &ids, &n, d);
        cli_blame(d, st, file);
    }
    if (st == TW_OK && n < 2) {
        st = TW_ERR_FORMAT;
        *d = (tw_diag){.status = st,
                       .path = "(text)",
                       .offset = -1,
                       .line = -1,
                       .message = "too short: one token predicts nothing"};
        cli_blame(d, st, file);
    }
    if (st == TW_OK) st = tw_engine_open(&e, m, o, d);
    int64_t start = tw_now_ns();
    if (st == TW_OK) st = tw_engine_perplexity(e, ids, (int64_t)n, context, &nll, &predictions, show_progress, NULL, d);
    double seconds = (double)(tw_now_ns() - start) * 1e-9;
    if (st == TW_OK && json)
        printf("{\"perplexity\": %.8g, \"nll\": %.10g, \"tokens\": %lld, \"context\": %lld, \"seconds\": %.3f}\n",
               exp(nll), nll, (long long)predictions, (long long)context, seconds);
    else if (st == TW_OK)
        printf("perplexity %.5f over %lld tokens in windows of %lld (mean loss %.6f nats, %.0f tokens/s)\n", exp(nll),
               (long long)predictions, (long long)context, nll, (double)predictions / seconds);
    tw_engine_close(e);
    tw_tokenizer_close(t);
    tw_buf_free(&text);
    free(ids);
    return st;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    cli_model_flags m = {0};
    const char *model_path, *file = NULL;
    bool json = false;
    const cli_flag flags[] = {
        {"-f", CLI_TEXT, &file, "FILE", "the text; - for standard input"},
        CLI_MODEL_FLAGS(m),
        {"--json", CLI_FLAG, &json, NULL, "print as JSON"},
    };
    int status, n;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, &model_path, 1, 1, &n, &status))
        return status;
    if (!file) return cli_usage("ppl: -f FILE is needed");
    tw_model *model = NULL;
    tw_engine_options o;
    tw_diag d;
    tw_status st = cli_engine_options(&m, &o, &d);
    if (st == TW_OK) st = tw_model_open(&model, model_path, &d);
    if (st == TW_OK) {
        tw_model_info info;
        tw_model_describe(model, &info);
        const int64_t chosen = o.config->lowering.max_seq, most = chosen ? chosen : info.max_seq;
        /* A window has 512 positions unless -c says otherwise, as is usual for perplexity. */
        if (!o.context) o.context = most < 512 ? most : 512;
        st = measure(model, &o, model_path, file, o.context, json, &d);
    }
    tw_model_close(model);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_ppl = {"ppl", "MODEL -f FILE", "perplexity of a text",
                          "tilewright ppl models/demo -f models/demo/heldout.txt -c 256", run};
