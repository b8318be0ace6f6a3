/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/file.h"
#include "cli/chat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef tw_status command_fn(cli_chat *c, const char *rest, tw_diag *d);

static void tell(const char *text) {
    fprintf(stderr, "(%s)\n", text);
}

static tw_status set_system(cli_chat *c, const char *rest, tw_diag *d) {
    tw_status st = tw_conversation_system(c->talk, rest, d);
    if (st == TW_OK) tell(*rest ? "system message set" : "no system message");
    return st;
}

static tw_status undo(cli_chat *c, const char *rest, tw_diag *d) {
    (void)rest;
    if (!tw_conversation_undo(c->talk)) return cli_say(d, TW_ERR_USAGE, "/undo: there is no turn to take back");
    fprintf(stderr, "(the last turn is taken back; %lld messages are left)\n",
            (long long)tw_conversation_count(c->talk));
    return TW_OK;
}

static tw_status reset(cli_chat *c, const char *rest, tw_diag *d) {
    (void)rest;
    (void)d;
    tw_conversation_reset(c->talk);
    tell("a new conversation");
    return TW_OK;
}

static tw_status save(cli_chat *c, const char *rest, tw_diag *d) {
    char *json = NULL, *whole = NULL;
    if (!*rest) return cli_say(d, TW_ERR_USAGE, "/save: needs a file");
    tw_status st = tw_conversation_write(c->talk, &json, d);
    const int n = st == TW_OK ? asprintf(&whole, "%s\n", json) : -1;
    if (st == TW_OK && n < 0) st = cli_say(d, TW_ERR_MEMORY, "out of memory");
    if (st == TW_OK) st = tw_file_write(rest, whole, (size_t)n, d);
    if (n >= 0) free(whole);
    free(json);
    if (st == TW_OK) fprintf(stderr, "(%lld messages saved in %s)\n", (long long)tw_conversation_count(c->talk), rest);
    return st;
}

tw_status cli_chat_load(cli_chat *c, const char *path, tw_diag *d) {
    tw_buf text = {0};
    tw_status st = tw_file_read(&text, path, d);
    if (st == TW_OK) st = tw_conversation_read(c->talk, text.data ? text.data : "", text.size, path, d);
    tw_buf_free(&text);
    return st;
}

static tw_status load(cli_chat *c, const char *rest, tw_diag *d) {
    if (!*rest) return cli_say(d, TW_ERR_USAGE, "/load: needs a file");
    tw_status st = cli_chat_load(c, rest, d);
    if (st == TW_OK) fprintf(stderr, "(%lld messages)\n", (long long)tw_conversation_count(c->talk));
    return st;
}

/* ---- /set */

static bool parse_int(const char *text, int64_t *value) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return end != text && !*end && !errno;
}

static bool parse_real(const char *text, double *value) {
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    return end != text && !*end && !errno;
}

/* A number that /set changes. An entry without a name ends a list. */
typedef struct number {
    const char *name;
    int64_t *whole; /* NULL: the number is `real`. */
    double *real;
} number;

static void list(const number *numbers) {
    for (const number *i = numbers; i->name; i++) {
        if (i->whole)
            fprintf(stderr, "  %-20s %lld\n", i->name, (long long)*i->whole);
        else
            fprintf(stderr, "  %-20s %g\n", i->name, *i->real);
    }
}

static tw_status set(cli_chat *c, const char *rest, tw_diag *d) {
    tw_generation g = c->how;
    tw_sampling *s = &g.sampling;
    int64_t seed = (int64_t)s->seed;
    const number numbers[] = {{"temp", NULL, &s->temperature},
                              {"top-k", &s->top_k, NULL},
                              {"top-p", NULL, &s->top_p},
                              {"min-p", NULL, &s->min_p},
                              {"repetition-penalty", NULL, &s->repetition_penalty},
                              {"presence-penalty", NULL, &s->presence_penalty},
                              {"frequency-penalty", NULL, &s->frequency_penalty},
                              {"seed", &seed, NULL},
                              {"n", &g.limit, NULL},
                              {0}};
    if (!*rest) {
        list(numbers);
        return TW_OK;
    }
    const size_t n = strcspn(rest, " ");
    const char *value = rest + n + strspn(rest + n, " ");
    const number *chosen = numbers;
    while (chosen->name && (strlen(chosen->name) != n || strncmp(chosen->name, rest, n))) chosen++;
    if (!chosen->name)
        return cli_say(d, TW_ERR_USAGE, "/set: \"%.*s\" is none of the numbers that /set alone lists", (int)n, rest);
    if (chosen->whole ? !parse_int(value, chosen->whole) : !parse_real(value, chosen->real))
        return cli_say(d, TW_ERR_USAGE, "/set %s: \"%s\" is not a%s number", chosen->name, value,
                       chosen->whole ? " whole" : "");
    s->seed = (uint64_t)seed;
    if (g.limit < 0 || g.limit > 1 << 24)
        return cli_say(d, TW_ERR_USAGE, "/set n: %lld is not within 0..16777216", (long long)g.limit);
    tw_sampler *probe = NULL;
    const tw_status st = tw_sampler_open(&probe, s, 1, d);
    tw_sampler_close(probe);
    if (st == TW_OK) c->how = g;
    return st;
}

/* ---- the table */

static tw_status quit(cli_chat *c, const char *rest, tw_diag *d) {
    (void)rest;
    (void)d;
    c->quit = true;
    return TW_OK;
}

static command_fn help;

static const struct {
    const char *name, *rest, *what;
    command_fn *run;
} commands[] = {
    {"help", "", "this list", help},
    {"system", "[TEXT]", "set the system message; without TEXT, have none", set_system},
    {"undo", "", "take the last turn back", undo},
    {"reset", "", "forget all but the system message", reset},
    {"save", "FILE", "write the messages as JSON", save},
    {"load", "FILE", "read them", load},
    {"set", "[NAME VALUE]", "set a number of the sampling, or n; alone, list them", set},
    {"quit", "", "end, as Ctrl-D does", quit},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static tw_status help(cli_chat *c, const char *rest, tw_diag *d) {
    (void)c;
    (void)rest;
    (void)d;
    for (int i = 0; i < COMMANDS; i++) {
        char left[64];
        snprintf(left, sizeof left, "/%s %s", commands[i].name, commands[i].rest);
        fprintf(stderr, "  %-20s %s\n", left, commands[i].what);
    }
    fputs("A line that ends in \\ goes on with the next; \"\"\" begins and ends a message of many lines.\n"
          "A message that begins with a slash is typed with two. Ctrl-C stops an answer.\n",
          stderr);
    return TW_OK;
}

tw_status cli_chat_command(cli_chat *c, const char *line, tw_diag *d) {
    const size_t n = strcspn(line + 1, " ");
    const char *rest = line + 1 + n + strspn(line + 1 + n, " ");
    for (int i = 0; i < COMMANDS; i++)
        if (strlen(commands[i].name) == n && !strncmp(commands[i].name, line + 1, n)) {
            if (*rest && !*commands[i].rest)
                return cli_say(d, TW_ERR_USAGE, "/%s takes nothing behind it", commands[i].name);
            return commands[i].run(c, rest, d);
        }
    return cli_say(d, TW_ERR_USAGE, "\"%.*s\" is no command; /help lists them, and // begins a message with a slash",
                   (int)n + 1, line);
}
