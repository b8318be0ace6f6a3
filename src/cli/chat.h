/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation on the command line: what the verb and its slash commands share. */
#ifndef TW_CLI_CHAT_H
#define TW_CLI_CHAT_H

#include "cli/generate.h"

typedef struct cli_chat {
    tw_conversation *talk;
    tw_generation how;
    bool json, verbose, styled;
    bool quit;
} cli_chat;

/* Runs a slash command. `line` begins with one slash. What the command prints goes to standard error. */
tw_status cli_chat_command(cli_chat *c, const char *line, tw_diag *diag);

/* Replaces the conversation's messages by those in `path`, a file that /save wrote. */
tw_status cli_chat_load(cli_chat *c, const char *path, tw_diag *diag);

#endif
