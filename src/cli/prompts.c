/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/prompts.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/results.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line of the file. */
typedef struct request {
    struct prompts *owner;
    int line;
    json_t *id; /* As given. NULL: none. */
    int32_t *ids;
    tw_generation g;
    tw_buf text;
    bool printed;
} request;

typedef struct prompts {
    const cli_prompts *o;
    tw_tokenizer *t;
    cli_template chat;   /* Opened with cli_prompts.chat. */
    tw_generation usual; /* What lines do not say. */
    request *all;
    size_t n, room;
    bool interrupted;
} prompts;

/* ---- reading */

/* Where a prompt came from, as messages have it. */
static const char *source_of(const prompts *p) {
    return strcmp(p->o->path, "-") ? p->o->path : "(standard input)";
}

static tw_status refuse(const prompts *p, int line, tw_diag *d, const char *why) {
    return tw_fail_line(d, TW_ERR_FORMAT, source_of(p), line, 1, "%s", why);
}

/* Points at the line in a diagnostic of what the line holds. */
static tw_status blame(const prompts *p, const request *r, tw_status st, tw_diag *d) {
    enum { PLACE = sizeof d->path + 32 };
    char why[PLACE + sizeof d->message], place[PLACE];
    if (st == TW_OK) return st;
    tw_diag_place(d, place, sizeof place);
    snprintf(why, sizeof why, "%s%s", place, d->message);
    refuse(p, r->line, d, why);
    return d->status = st;
}

static tw_status read_ids(const prompts *p, request *r, const json_t *list, tw_diag *d) {
    static const char wrong[] = "\"ids\" is not a list of token ids such as [1, 2, 3]";
    const size_t n = json_array_size(list);
    if (!json_is_array(list)) return refuse(p, r->line, d, wrong);
    r->ids = malloc((n + 1) * sizeof *r->ids);
    if (!r->ids) return tw_fail_memory(d);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        const json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || value > INT32_MAX) return refuse(p, r->line, d, wrong);
        r->ids[i] = (int32_t)value;
    }
    r->g.n_prompt = (int64_t)n;
    return TW_OK;
}

static tw_status encode(const prompts *p, request *r, const json_t *prompt, tw_diag *d) {
    const cli_prompts *o = p->o;
    size_t n = 0;
    if (!json_is_string(prompt)) return refuse(p, r->line, d, "\"prompt\" is not a text");
    if (!p->t) return refuse(p, r->line, d, "a text needs the model's tokenizer.json, which is not there");
    const char *text = json_string_value(prompt);
    const size_t size = json_string_length(prompt);
    const tw_status st = o->chat ? cli_chat_ids(&p->chat, p->t, text, size, "a message", &r->ids, &n, d)
                                 : tw_tokenizer_encode(p->t, text, size, true, &r->ids, &n, d);
    r->g.n_prompt = (int64_t)n;
    return blame(p, r, st, d);
}

/* Reads a number within 0..most, if the line has it. */
static tw_status read_number(const prompts *p, const request *r, const json_t *line, const char *name, int64_t most,
                             json_int_t *out, tw_diag *d) {
    char why[96];
    const json_t *x = json_object_get(line, name);
    if (!x) return TW_OK;
    *out = json_integer_value(x);
    if (json_is_integer(x) && *out >= 0 && *out <= most) return TW_OK;
    snprintf(why, sizeof why, "\"%s\" is not a whole number within 0..%lld", name, (long long)most);
    return refuse(p, r->line, d, why);
}

static tw_status read_object(const prompts *p, request *r, const json_t *line, tw_diag *d) {
    static const char *const names[] = {"prompt", "ids", "n", "seed", "id"};
    const json_t *prompt = json_object_get(line, "prompt"), *ids = json_object_get(line, "ids");
    size_t known = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) known += json_object_get(line, names[i]) != NULL;
    if (!json_is_object(line) || known != json_object_size(line) || (prompt != NULL) == (ids != NULL))
        return refuse(p, r->line, d,
                      "a line is an object with \"prompt\" or \"ids\", one of them, and may have \"n\", \"seed\" and "
                      "\"id\"");
    json_int_t n = p->usual.limit, seed = (json_int_t)p->usual.sampling.seed;
    tw_status st = read_number(p, r, line, "n", 1 << 24, &n, d);
    if (st == TW_OK) st = read_number(p, r, line, "seed", INT64_MAX, &seed, d);
    r->g.limit = n;
    r->g.sampling.seed = (uint64_t)seed;
    r->id = json_incref(json_object_get(line, "id"));
    if (st == TW_OK) st = ids ? read_ids(p, r, ids, d) : encode(p, r, prompt, d);
    r->g.prompt = r->ids;
    if (st == TW_OK && !r->g.n_prompt) st = refuse(p, r->line, d, "the prompt has no tokens");
    return st;
}

static bool is_blank(const char *text, size_t size) {
    return strspn(text, " \t\r") >= size;
}

static tw_status read_line(prompts *p, int number, const char *text, size_t size, tw_diag *d) {
    json_error_t e;
    if (p->n == p->room) {
        const size_t room = p->room ? 2 * p->room : 64;
        request *grown = realloc(p->all, room * sizeof *grown);
        if (!grown) return tw_fail_memory(d);
        p->all = grown;
        p->room = room;
    }
    request *r = &p->all[p->n++];
    *r = (request){.line = number, .g = p->usual};
    json_t *line = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!line && tw_json_lacks_memory(&e)) return tw_fail_memory(d);
    if (!line) return tw_fail_line(d, TW_ERR_FORMAT, source_of(p), number, e.column, "invalid JSON: %s", e.text);
    const tw_status st = read_object(p, r, line, d);
    json_decref(line);
    return st;
}

static tw_status read_all(prompts *p, tw_diag *d) {
    tw_buf in = {0};
    tw_status st = tw_file_read(&in, p->o->path, d);
    const char *at = in.data ? in.data : "", *end = at + in.size;
    for (int number = 1; at < end && st == TW_OK; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t size = (size_t)((newline ? newline : end) - at);
        if (!is_blank(at, size)) st = read_line(p, number, at, size, d);
        at += size + 1;
    }
    tw_buf_free(&in);
    return st;
}

/* ---- running */

static bool emit(void *user, int32_t id, const char *text) {
    request *r = user;
    (void)id;
    if (!tw_buf_str(&r->text, text)) return false;
    /* The handler is installed here, at the first token: before it an interrupt ends the program at once. */
    if (cli_interrupted()) r->owner->interrupted = true;
    return !r->owner->interrupted;
}

static json_t *id_list(const int32_t *ids, int64_t n) {
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

/* False: nobody reads any more. */
static bool print(const prompts *p, request *r) {
    json_t *o = json_pack("{s:i, s:O*}", "line", r->line, "id", r->id);
    if (p->t) json_object_set_new(o, "text", json_string(r->text.data ? r->text.data : ""));
    json_object_set_new(o, "ids", id_list(r->g.ids, r->g.n_ids));
    json_object_set_new(o, "prompt_tokens", json_integer(r->g.n_prompt));
    json_object_set_new(o, "finish", json_string(tw_finish_name(r->g.finish)));
    cli_results_print(o, JSON_ENSURE_ASCII | JSON_COMPACT);
    r->printed = true;
    return !fflush(stdout);
}

static bool is_complete(const request *r) {
    return r->g.ids && r->g.finish != TW_FINISH_ABORTED;
}

/* Prints what is complete. Only an interrupt, or a lack of memory for the text, ends a generation before. */
static tw_status finish(const prompts *p, request *r, tw_diag *d) {
    if (r->text.failed) return tw_fail_memory(d);
    if (!is_complete(r) || print(p, r)) return TW_OK;
    return cli_say(d, TW_ERR_IO, "standard output: not written");
}

static tw_status add_all(prompts *p, tw_batch *b, tw_diag *d) {
    tw_status st = TW_OK;
    for (size_t i = 0; i < p->n && st == TW_OK; i++) {
        request *r = &p->all[i];
        r->owner = p;
        r->g.emit = emit;
        r->g.user = r;
        st = blame(p, r, tw_batch_add(b, &r->g, d), d);
    }
    return st;
}

static void report(const prompts *p, const tw_batch *b, double seconds) {
    int64_t in = 0, out = 0;
    for (size_t i = 0; i < p->n; i++) {
        in += p->all[i].g.n_prompt;
        out += p->all[i].g.n_ids;
    }
    fprintf(stderr, "[%zu prompts of %lld tokens and %lld new tokens in %.2f s: %.1f new tokens/s, %lld together]\n",
            p->n, (long long)in, (long long)out, seconds, seconds > 0 ? (double)out / seconds : 0,
            (long long)tw_batch_sequences(b));
}

static tw_status run_all(prompts *p, const tw_model *model, const tw_engine_options *o, tw_diag *d) {
    const cli_prompts *c = p->o;
    tw_batch *b = NULL;
    const int64_t most = (int64_t)p->n < c->sequences ? (int64_t)p->n : c->sequences;
    tw_status st = tw_batch_open(&b, model, o, most, p->t, d);
    if (st == TW_OK) st = add_all(p, b, d);
    const int64_t begin = tw_now_ns();
    tw_generation *g;
    while (st == TW_OK && !p->interrupted && (st = tw_batch_next(b, &g, d)) == TW_OK && g) st = finish(p, g->user, d);
    if (st == TW_OK && !p->interrupted && !c->quiet) report(p, b, (double)(tw_now_ns() - begin) * 1e-9);
    tw_batch_close(b);
    /* Some may have been complete when an interrupt ended the others. */
    for (size_t i = 0; i < p->n && p->interrupted; i++)
        if (is_complete(&p->all[i]) && !p->all[i].printed) print(p, &p->all[i]);
    return st == TW_OK && p->interrupted ? cli_say(d, TW_ERR_IO, "interrupted") : st;
}

/* The cache has no more positions than the longest needs, since it takes memory. */
static void choose_context(const prompts *p, const tw_model *model, tw_engine_options *o) {
    tw_model_info info;
    int64_t most = 1;
    tw_model_describe(model, &info);
    if (o->context || o->schedule || o->config->lowering.max_seq) return;
    for (size_t i = 0; i < p->n; i++) {
        const int64_t want = p->all[i].g.n_prompt + p->all[i].g.limit;
        if (want > most) most = want;
    }
    o->context = most < info.max_seq ? most : info.max_seq;
}

tw_status cli_run_prompts(const cli_prompts *o, const tw_model *model, tw_engine_options *options, tw_diag *d) {
    prompts p = {.o = o, .usual.limit = o->n};
    char path[4096];
    snprintf(path, sizeof path, "%s/tokenizer.json", o->model_path);
    tw_status st = tw_file_exists(path) ? tw_tokenizer_open(&p.t, path, d) : TW_OK;
    cli_sampling(o->sampling, model, &p.usual);
    if (!p.t && !o->sampling->stop.count) p.usual.n_stop = 0; /* The model's own stop strings need a tokenizer. */
    if (st == TW_OK && o->chat) st = cli_template_open(&p.chat, o->chat, o->model_path, d);
    if (st == TW_OK) st = read_all(&p, d);
    if (st == TW_OK) cli_warn_nonfinite(model);
    if (st == TW_OK && p.n) {
        choose_context(&p, model, options);
        st = run_all(&p, model, options, d);
    }
    for (size_t i = 0; i < p.n; i++) {
        json_decref(p.all[i].id);
        free(p.all[i].ids);
        free(p.all[i].g.ids);
        tw_buf_free(&p.all[i].text);
    }
    free(p.all);
    cli_template_close(&p.chat);
    tw_tokenizer_close(p.t);
    return st;
}
