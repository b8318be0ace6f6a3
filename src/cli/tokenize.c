/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/file.h"
#include "cli/generate.h"
#include "cli/results.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print(const tw_tokenizer *t, const int32_t *ids, size_t n, bool json) {
    json_t *list = json ? json_array() : NULL;
    for (size_t i = 0; i < n; i++) {
        const char *piece = tw_tokenizer_piece(t, ids[i]);
        if (json)
            json_array_append_new(list, json_pack("{s:i, s:s?}", "id", ids[i], "piece", piece));
        else
            printf("%8d  %s\n", ids[i], piece ? piece : "");
    }
    cli_results_print(list, 0);
}

static tw_status encode(const tw_tokenizer *t, const char *text, bool plain, bool json, tw_diag *d) {
    tw_buf in = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    tw_status st = TW_OK;
    if (!strcmp(text, "-"))
        st = tw_file_read(&in, "-", d);
    else if (!tw_buf_str(&in, text))
        st = TW_ERR_MEMORY;
    if (st == TW_OK) {
        st = tw_tokenizer_encode(t, in.data ? in.data : "", in.size, !plain, &ids, &n, d);
        cli_blame(d, st, strcmp(text, "-") ? "TEXT" : "-");
    }
    if (st == TW_OK) print(t, ids, n, json);
    free(ids);
    tw_buf_free(&in);
    return st;
}

static void print_chat(const tw_tokenizer *t, const tw_chat_text *prompt, const int32_t *ids, size_t n, bool json) {
    if (!json) {
        fwrite(prompt->text, 1, prompt->size, stdout);
        if (!prompt->size || prompt->text[prompt->size - 1] != '\n') putchar('\n');
        print(t, ids, n, false);
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    json_t *o = json_pack("{s:o, s:o}", "text", json_stringn(prompt->text, prompt->size), "ids", list);
    cli_results_print(o, 0);
}

/* Prints a conversation as the model's template has it. */
static tw_status chat(const tw_tokenizer *t, const char *model, const char *path, const cli_chat_flags *f, bool json,
                      tw_diag *d) {
    tw_buf in = {0};
    tw_chat *template = NULL;
    tw_chat_text prompt = {0};
    char *arguments = NULL, *tools = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    tw_status st = cli_chat_inputs(f, &arguments, &tools, d);
    if (st == TW_OK) st = tw_file_read(&in, path, d);
    if (st == TW_OK) st = tw_chat_open(&template, model, f->name, d);
    const tw_chat_request r = {.messages = in.data ? in.data : "", .tools = tools, .arguments = arguments};
    if (st == TW_OK) st = tw_chat_render(template, &r, &prompt, d);
    /* The library does not know where the messages came from. */
    if (st != TW_OK && !strcmp(d->path, "messages"))
        snprintf(d->path, sizeof d->path, "%s", strcmp(path, "-") ? path : "(standard input)");
    if (st == TW_OK) st = tw_chat_encode(t, &prompt, &ids, &n, d);
    if (st == TW_OK) print_chat(t, &prompt, ids, n, json);
    free(ids);
    tw_chat_text_free(&prompt);
    tw_chat_close(template);
    tw_buf_free(&in);
    free(arguments);
    free(tools);
    return st;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *objects[2], *golden = NULL, *messages = NULL;
    bool json = false, plain = false;
    cli_chat_flags f = {0};
    const cli_flag flags[] = {
        {"--golden", CLI_TEXT, &golden, "FILE", "compare with a reference file instead"},
        {"--no-special", CLI_FLAG, &plain, NULL, "leave out what the post-processor adds (BOS and the like)"},
        {"--chat", CLI_TEXT, &messages, "MESSAGES.json",
         "a conversation's prompt by the model's chat template instead"},
        {"--tools", CLI_TEXT, &f.tools, "FILE", "with --chat: a JSON list of tools"},
        {"--chat-arg", CLI_LIST, &f.arguments, "NAME=JSON",
         "with --chat: a variable for the template; may be repeated"},
        {"--chat-template", CLI_TEXT, &f.name, "NAME", "with --chat: which of the model's templates"},
        {"--json", CLI_FLAG, &json, NULL, "print as JSON"},
    };
    int status, n;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, objects, 1, 2, &n, &status)) return status;
    if ((n == 2) + (golden != NULL) + (messages != NULL) != 1)
        return cli_usage("tokenize: needs a TEXT, --golden FILE or --chat MESSAGES.json, one of them");
    if (!messages && (f.tools || f.name || f.arguments.count))
        return cli_usage("tokenize: --tools, --chat-arg and --chat-template go with --chat");
    tw_tokenizer *t = NULL;
    tw_diag d = {.offset = -1, .line = -1};
    int64_t cases = 0;
    tw_status st = tw_tokenizer_open(&t, objects[0], &d);
    if (st == TW_OK && golden) st = tw_tokenizer_check_golden(t, golden, &cases, &d);
    if (st == TW_OK && messages) st = chat(t, objects[0], messages, &f, json, &d);
    if (st == TW_OK && n == 2) st = encode(t, objects[1], plain, json, &d);
    if (st == TW_OK && golden && json) printf("{\"agrees\": true, \"cases\": %lld}\n", (long long)cases);
    if (st == TW_OK && golden && !json) printf("agrees with %s: %lld cases\n", golden, (long long)cases);
    tw_tokenizer_close(t);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_tokenize = {"tokenize", "MODEL [TEXT]",
                               "ids and pieces of a text or a chat; MODEL may be a tokenizer.json",
                               "tilewright tokenize models/demo \"In the beginning\"", run};
