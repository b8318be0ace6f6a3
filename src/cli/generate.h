/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs that generate text have in common: the flags of sampling and of chats. */
#ifndef TW_CLI_GENERATE_H
#define TW_CLI_GENERATE_H

#include "cli/cli.h"

/* A number that no flag gave: what the model says holds. */
enum { CLI_UNSET = INT32_MIN };

typedef struct cli_sampling_flags {
    int64_t seed, top_k;
    double temperature, top_p, min_p, repetition, presence, frequency;
    cli_list stop;
    bool ignore_eos;
} cli_sampling_flags;

#define CLI_SAMPLING_UNSET                                                                                             \
    {                                                                                                                  \
        .seed = CLI_UNSET, .top_k = CLI_UNSET, .temperature = CLI_UNSET, .top_p = CLI_UNSET, .min_p = CLI_UNSET,       \
        .repetition = CLI_UNSET                                                                                        \
    }

#define CLI_SAMPLING_FLAGS(s)                                                                                          \
    {"-s", CLI_INT, &(s).seed, "SEED", "of the sampling (default: from the clock)"},                                   \
        {"--temp", CLI_REAL, &(s).temperature, "T",                                                                    \
         "0 is greedy (default of this and the next four: generation_config.json's, else greedy)"},                    \
        {"--top-k", CLI_INT, &(s).top_k, "K", "only the K most likely; 0: all"},                                       \
        {"--top-p", CLI_REAL, &(s).top_p, "P", "only the most likely that sum to P"},                                  \
        {"--min-p", CLI_REAL, &(s).min_p, "P", "only those at least P times as likely as the most likely"},            \
        {"--repetition-penalty", CLI_REAL, &(s).repetition, "P", "divide the logits of ids already there; 1: none"},   \
        {"--presence-penalty", CLI_REAL, &(s).presence, "P", "take P from the logits of ids that were generated"},     \
        {"--frequency-penalty", CLI_REAL, &(s).frequency, "P", "likewise, P for each time"},                           \
        {"--stop", CLI_LIST, &(s).stop, "TEXT",                                                                        \
         "end before this text; may be repeated (default: generation_config.json's stop strings)"},                    \
    {                                                                                                                  \
        "--ignore-eos", CLI_FLAG, &(s).ignore_eos, NULL, "go on after an end-of-sequence token"                        \
    }

/* Fills g's sampling, stop strings and ignore_eos: flags win over the model's generation_config.json. A seed from the
   clock is kept in the flags. */
void cli_sampling(cli_sampling_flags *f, const tw_model *model, tw_generation *g);

typedef struct cli_chat_flags {
    const char *system, *tools, *name;
    cli_list arguments;
} cli_chat_flags;

#define CLI_CHAT_FLAGS(c)                                                                                              \
    {"--system", CLI_TEXT, &(c).system, "TEXT", "a system message"},                                                   \
        {"--chat-arg", CLI_LIST, &(c).arguments, "NAME=JSON",                                                          \
         "a variable for the template, such as enable_thinking=false; may be repeated"},                               \
        {"--tools", CLI_TEXT, &(c).tools, "FILE", "a JSON list of tools for the template"}, {                          \
        "--chat-template", CLI_TEXT, &(c).name, "NAME",                                                                \
            "which of the model's templates (default: default; with tools, tool_use)"                                  \
    }

/* The template's variables and tools as JSON text, each NULL where there are none; the caller frees both. */
tw_status cli_chat_inputs(const cli_chat_flags *f, char **arguments, char **tools, tw_diag *diag);

/* A chat template, and the values that flags give it. It turns messages into a prompt. */
typedef struct cli_template {
    tw_chat *chat;
    char *arguments, *tools; /* As of cli_chat_inputs. */
    const char *system;      /* The flag's. */
} cli_template;
tw_status cli_template_open(cli_template *out, const cli_chat_flags *f, const char *model_path, tw_diag *d);
void cli_template_close(cli_template *c); /* All zeros are fine. */

/* Renders a user's message, and encodes it. `where` names the text in diagnostics. The caller frees *ids. */
tw_status cli_chat_ids(const cli_template *c, const tw_tokenizer *t, const char *text, size_t size, const char *where,
                       int32_t **ids, size_t *n, tw_diag *d);

/* A diagnostic of the command's own. Returns the status. */
tw_status cli_say(tw_diag *diag, tw_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Says on standard error when weights are NaN or infinite. */
void cli_warn_nonfinite(const tw_model *model);

#endif
