/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/generate.h"

#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void cli_sampling(cli_sampling_flags *f, const tw_model *model, tw_generation *g) {
    tw_generation_defaults(model, g);
    tw_sampling *s = &g->sampling;
    if (f->seed == CLI_UNSET) f->seed = (int64_t)(getpid() ^ (int64_t)time(NULL) << 16);
    s->seed = (uint64_t)f->seed;
    if (f->temperature != CLI_UNSET) s->temperature = f->temperature;
    if (f->top_k != CLI_UNSET) s->top_k = f->top_k;
    if (f->top_p != CLI_UNSET) s->top_p = f->top_p;
    if (f->min_p != CLI_UNSET) s->min_p = f->min_p;
    if (f->repetition != CLI_UNSET) s->repetition_penalty = f->repetition;
    s->presence_penalty = f->presence;
    s->frequency_penalty = f->frequency;
    if (f->stop.count) {
        g->stop = f->stop.item;
        g->n_stop = f->stop.count;
    }
    g->ignore_eos = f->ignore_eos;
}

tw_status cli_say(tw_diag *diag, tw_status status, const char *fmt, ...) {
    va_list ap;
    *diag = (tw_diag){.status = status, .offset = -1, .line = -1};
    va_start(ap, fmt);
    vsnprintf(diag->message, sizeof diag->message, fmt, ap);
    va_end(ap);
    return status;
}

/* Adds NAME=JSON to the object. */
static tw_status add_argument(json_t *object, const char *text, tw_diag *d) {
    json_error_t e;
    const size_t n = strcspn(text, "=");
    if (!n || !text[n])
        return cli_say(d, TW_ERR_USAGE, "--chat-arg: \"%s\" is not NAME=JSON, such as enable_thinking=false", text);
    json_t *value = json_loads(text + n + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &e);
    if (!value)
        return cli_say(d, TW_ERR_USAGE,
                       "--chat-arg %.*s: %s is not JSON: a number, true, false, null, a list, an object, or a text in "
                       "double quotes",
                       (int)n, text, text + n + 1);
    char *name = strndup(text, n);
    const bool ok = name && !json_object_set_new(object, name, value);
    if (!name) json_decref(value);
    free(name);
    return ok ? TW_OK : cli_say(d, TW_ERR_USAGE, "--chat-arg: \"%.*s\" is not a name", (int)n, text);
}

static tw_status arguments_of(const cli_chat_flags *f, char **arguments, tw_diag *d) {
    tw_status st = TW_OK;
    json_t *object = f->arguments.count ? json_object() : NULL;
    for (int i = 0; i < f->arguments.count && st == TW_OK; i++) st = add_argument(object, f->arguments.item[i], d);
    if (st == TW_OK && object) *arguments = tw_json_text(object, JSON_COMPACT);
    if (st == TW_OK && object && !*arguments) st = cli_say(d, TW_ERR_MEMORY, "out of memory");
    json_decref(object);
    return st;
}

tw_status cli_chat_inputs(const cli_chat_flags *f, char **arguments, char **tools, tw_diag *d) {
    *arguments = *tools = NULL;
    tw_status st = arguments_of(f, arguments, d);
    json_t *list = NULL;
    if (st == TW_OK && f->tools) st = tw_json_load(&list, f->tools, d);
    if (list && !json_is_array(list)) {
        st = cli_say(d, TW_ERR_FORMAT, "not a JSON list of tools");
        snprintf(d->path, sizeof d->path, "%s", f->tools);
    }
    if (st == TW_OK && list) {
        *tools = tw_json_text(list, JSON_COMPACT);
        if (!*tools) st = cli_say(d, TW_ERR_MEMORY, "out of memory");
    }
    json_decref(list);
    if (st == TW_OK) return TW_OK;
    free(*arguments);
    *arguments = NULL;
    return st;
}

static tw_status add_message(json_t *list, const char *role, const char *text, size_t size, const char *where,
                             tw_diag *d) {
    json_t *content = json_stringn(text, size);
    if (content) {
        json_array_append_new(list, json_pack("{s:s, s:o}", "role", role, "content", content));
        return TW_OK;
    }
    cli_say(d, TW_ERR_FORMAT, "not UTF-8");
    snprintf(d->path, sizeof d->path, "%s", where);
    return d->status;
}

tw_status cli_template_open(cli_template *out, const cli_chat_flags *f, const char *model_path, tw_diag *d) {
    *out = (cli_template){.system = f->system};
    tw_status st = cli_chat_inputs(f, &out->arguments, &out->tools, d);
    if (st == TW_OK) st = tw_chat_open(&out->chat, model_path, f->name, d);
    if (st != TW_OK) cli_template_close(out);
    return st;
}

void cli_template_close(cli_template *c) {
    tw_chat_close(c->chat);
    free(c->arguments);
    free(c->tools);
    *c = (cli_template){0};
}

tw_status cli_chat_ids(const cli_template *c, const tw_tokenizer *t, const char *text, size_t size, const char *where,
                       int32_t **ids, size_t *n, tw_diag *d) {
    tw_chat_text prompt = {0};
    tw_status st = TW_OK;
    json_t *list = json_array();
    if (c->system) st = add_message(list, "system", c->system, strlen(c->system), "--system", d);
    if (st == TW_OK) st = add_message(list, "user", text, size, where, d);
    char *messages = st == TW_OK ? tw_json_text(list, 0) : NULL;
    if (st == TW_OK && !messages) st = cli_say(d, TW_ERR_MEMORY, "out of memory");
    const tw_chat_request r = {.messages = messages, .arguments = c->arguments, .tools = c->tools};
    if (st == TW_OK) st = tw_chat_render(c->chat, &r, &prompt, d);
    if (st == TW_OK) st = tw_chat_encode(t, &prompt, ids, n, d);
    tw_chat_text_free(&prompt);
    free(messages);
    json_decref(list);
    return st;
}

void cli_warn_nonfinite(const tw_model *model) {
    const char *first = NULL;
    int64_t bad = tw_model_count_nonfinite(model, &first);
    if (bad)
        fprintf(stderr, "tilewright: warning: %lld weights are NaN or infinite, first in %s\n", (long long)bad, first);
}
