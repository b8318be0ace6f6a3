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

/* A line that begins with one slash. Messages of its own go to standard error. */
tw_status cli_chat_command(cli_chat *c, const char *line, tw_diag *diag);

/* The conversation's messages from a file written by /save. */
tw_status cli_chat_load(cli_chat *c, const char *path, tw_diag *diag);

#endif
