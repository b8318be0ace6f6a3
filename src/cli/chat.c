/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/chat.h"

#include "base/file.h"
#include "cli/lines.h"
#include "cli/results.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct chat_flags {
    cli_model_flags m;
    cli_sampling_flags sampling;
    cli_chat_flags chat;
    const char *load;
    int64_t n;
    bool json, verbose, no_history;
} chat_flags;

/* ---- an answer on the screen */

typedef struct screen {
    const cli_chat *c;
    bool reasoned, answered, dim;
} screen;

static const char dim_on[] = "\033[2m", dim_off[] = "\033[0m";

static bool emit(void *user, tw_turn_part part, const char *text) {
    screen *s = user;
    if (*text && !s->c->json) {
        if (part == TW_TURN_REASONING && !s->reasoned) {
            fputs(s->c->styled ? dim_on : "", stdout);
            fputs("[reasoning]\n", stdout);
            s->reasoned = true;
            s->dim = s->c->styled;
        } else if (part == TW_TURN_ANSWER && !s->answered) {
            if (s->reasoned) printf("%s\n\n[answer]\n", s->dim ? dim_off : "");
            s->answered = true;
            s->dim = false;
        }
        fputs(text, stdout);
        if (fflush(stdout)) return false;
    }
    return !cli_interrupted();
}

static double rate(int64_t n, double seconds) {
    return seconds > 0 ? (double)n / seconds : 0;
}

static void print_json(const tw_turn *t) {
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:{s:f, s:f, s:I, s:f, s:f}}", "answer", t->answer, "reasoning",
                  t->reasoning, "finish", tw_finish_name(t->finish), "prompt_tokens", (json_int_t)t->n_prompt,
                  "reused_tokens", (json_int_t)t->n_reused, "new_tokens", (json_int_t)t->n_new, "timings",
                  "prefill_seconds", t->prefill_seconds, "prefill_per_second",
                  rate(t->n_prompt - t->n_reused, t->prefill_seconds), "decode_steps", (json_int_t)t->n_decoded,
                  "decode_seconds", t->decode_seconds, "decode_per_second", rate(t->n_decoded, t->decode_seconds));
    cli_results_print(o, JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
    fflush(stdout);
}

static void report(const cli_chat *c, const screen *s, const tw_turn *t) {
    if (c->json)
        print_json(t);
    else if (s->reasoned || s->answered || t->finish != TW_FINISH_ABORTED) {
        fputs(s->dim ? dim_off : "", stdout);
        putchar('\n');
        fflush(stdout);
    }
    if (c->verbose)
        fprintf(stderr,
                "[%lld prompt tokens, %lld of them kept, the others read at %.1f/s; %lld new at %.1f/s, ended by %s]\n",
                (long long)t->n_prompt, (long long)t->n_reused, rate(t->n_prompt - t->n_reused, t->prefill_seconds),
                (long long)t->n_new, rate(t->n_decoded, t->decode_seconds), tw_finish_name(t->finish));
    if (t->finish == TW_FINISH_CONTEXT)
        fputs("(the context is full and the answer cut short: /undo or /reset make room, a larger -c gives more)\n",
              stderr);
    if (t->finish == TW_FINISH_LENGTH) fputs("(cut at -n tokens)\n", stderr);
}

/* Takes one turn. A message that cannot be answered is taken back, so that the conversation goes on without it. */
static tw_status take_turn(cli_chat *c, const char *message, tw_diag *d) {
    screen s = {.c = c};
    tw_turn turn = {.how = c->how, .emit = emit, .user = &s};
    tw_status st = tw_conversation_add(c->talk, "user", message, d);
    if (st != TW_OK) return st;
    cli_interrupt_forget();
    st = tw_conversation_answer(c->talk, &turn, d);
    if (st == TW_OK) report(c, &s, &turn);
    const bool nothing = st == TW_OK && turn.finish == TW_FINISH_ABORTED && !*turn.answer && !*turn.reasoning;
    if (st == TW_OK && turn.finish == TW_FINISH_ABORTED)
        fputs(nothing ? "(stopped before an answer: the message is taken back)\n" : "(stopped)\n", stderr);
    tw_turn_free(&turn);
    cli_interrupt_forget();
    if (st != TW_OK || nothing) tw_conversation_undo(c->talk);
    if (st != TW_OK) {
        const size_t n = strlen(d->message);
        snprintf(d->message + n, sizeof d->message - n, "; the message is taken back%s",
                 st == TW_ERR_USAGE ? ": /undo or /reset make room, a larger -c gives more" : "");
    }
    return st;
}

/* ---- the loop */

static tw_status follow(cli_chat *c, const tw_buf *line, tw_diag *d) {
    const char *text = line->data ? line->data : "";
    if (strlen(text) != line->size) return cli_say(d, TW_ERR_FORMAT, "a message has no NUL characters");
    if (text[0] == '/' && text[1] != '/') return cli_chat_command(c, text, d);
    return take_turn(c, text + (text[0] == '/'), d);
}

static bool is_blank(const tw_buf *line) {
    return !line->size || strspn(line->data, " \t\r\n") == line->size;
}

/* Reads and answers lines until the end. From a terminal, errors are only printed. Otherwise they make the command fail
   in the end. */
static int loop(cli_chat *c, cli_lines *lines) {
    tw_buf line = {0};
    int status = CLI_OK;
    tw_diag d;
    cli_interrupt_forget();
    while (!c->quit) {
        const cli_line got = cli_lines_read(lines, &line);
        if (got == CLI_LINE_CUT) continue;
        if (got == CLI_LINE_FAILED) {
            status = cli_interrupted() ? cli_fail((cli_say(&d, TW_ERR_IO, "interrupted"), &d))
                                       : cli_fail((cli_say(&d, TW_ERR_IO, "(standard input): cannot read"), &d));
            break;
        }
        if (got == CLI_LINE_END) {
            if (cli_lines_edited(lines)) putchar('\n');
            break;
        }
        if (is_blank(&line) || follow(c, &line, &d) == TW_OK) continue;
        cli_fail(&d);
        if (!cli_lines_edited(lines)) status = CLI_FAILED;
        if (d.status == TW_ERR_MEMORY) break;
    }
    tw_buf_free(&line);
    return status;
}

static int converse(cli_chat *c, const chat_flags *f) {
    char history[4096];
    const bool remembers = !f->no_history && tw_cache_path("chat-history", history, sizeof history);
    cli_lines *lines = cli_lines_open(remembers ? history : NULL);
    if (!lines) {
        fputs("tilewright: out of memory\n", stderr);
        return CLI_FAILED;
    }
    if (cli_lines_edited(lines)) fputs("(/help lists the commands)\n", stderr);
    const int status = loop(c, lines);
    cli_lines_close(lines);
    return status;
}

static tw_status open_talk(cli_chat *c, const chat_flags *f, tw_engine *e, const tw_tokenizer *t, const tw_chat *chat,
                           tw_diag *d) {
    tw_conversation_options o = {0};
    char *arguments, *tools;
    tw_status st = cli_chat_inputs(&f->chat, &arguments, &tools, d);
    if (st != TW_OK) return st;
    o.arguments = arguments;
    o.tools = tools;
    st = tw_conversation_open(&c->talk, e, t, chat, &o, d);
    free(arguments);
    free(tools);
    if (st == TW_OK && f->load) st = cli_chat_load(c, f->load, d);
    if (st == TW_OK && f->chat.system) st = tw_conversation_system(c->talk, f->chat.system, d);
    return st;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    chat_flags f = {.sampling = CLI_SAMPLING_UNSET};
    const char *path;
    const cli_flag flags[] = {
        {"-n", CLI_INT, &f.n, "N", "new tokens of an answer at most (default 0: as many as the context holds)"},
        CLI_SAMPLING_FLAGS(f.sampling),
        CLI_CHAT_FLAGS(f.chat),
        {"--load", CLI_TEXT, &f.load, "FILE", "go on with messages that /save wrote"},
        {"--no-history", CLI_FLAG, &f.no_history, NULL, "neither read nor keep the lines typed before"},
        {"--verbose", CLI_FLAG, &f.verbose, NULL, "a line about tokens and speed after each turn"},
        {"--json", CLI_FLAG, &f.json, NULL, "print a line of JSON a turn"},
        {"--schedule", CLI_TEXT, &f.m.schedule, "S.json", "decode by this schedule, once the check accepts it"},
        CLI_MODEL_FLAGS(f.m),
    };
    int count, status;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, &path, 1, 1, &count, &status)) return status;
    if (f.n < 0 || f.n > 1 << 24) return cli_usage("-n: %lld is not within 0..16777216", (long long)f.n);
    cli_chat c = {.json = f.json, .verbose = f.verbose, .styled = isatty(STDOUT_FILENO)};
    char tokenizer[4096];
    tw_model *model = NULL;
    tw_tokenizer *t = NULL;
    tw_chat *chat = NULL;
    tw_engine *e = NULL;
    tw_sampler *probe = NULL;
    tw_engine_options o;
    tw_diag d;
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", path);
    tw_status st = cli_engine_options(&f.m, &o, &d);
    if (st == TW_OK) st = tw_model_open(&model, path, &d);
    if (st == TW_OK) st = tw_tokenizer_open(&t, tokenizer, &d);
    if (st == TW_OK) st = tw_chat_open(&chat, path, f.chat.name, &d);
    if (st == TW_OK) st = tw_engine_open(&e, model, &o, &d);
    if (st == TW_OK) cli_sampling(&f.sampling, model, &c.how);
    if (st == TW_OK) st = tw_sampler_open(&probe, &c.how.sampling, 1, &d); /* Reports wrong numbers before a turn. */
    c.how.limit = f.n;
    if (st == TW_OK) st = open_talk(&c, &f, e, t, chat, &d);
    if (st == TW_OK) cli_warn_nonfinite(model);
    status = st == TW_OK ? converse(&c, &f) : cli_fail(&d);
    tw_sampler_close(probe);
    tw_conversation_close(c.talk);
    tw_engine_close(e);
    tw_chat_close(chat);
    tw_tokenizer_close(t);
    tw_model_close(model);
    return status;
}

const cli_verb cli_chat_verb = {"chat", "MODEL", "a conversation: turns, the cache kept between them, line editing",
                                "tilewright chat ~/models/Qwen3-0.6B --system \"Answer in one sentence.\"", run};
