/* SPDX-License-Identifier: Apache-2.0 */
/* Messages typed line by line: edited with libedit on a terminal, read plainly from anywhere else. */
#ifndef TW_CLI_LINES_H
#define TW_CLI_LINES_H

#include "base/buf.h"

typedef struct cli_lines cli_lines;

typedef enum cli_line {
    CLI_LINE_TEXT,
    CLI_LINE_END, /* end of input: on a terminal Ctrl-D, or Ctrl-C twice at an empty prompt */
    CLI_LINE_CUT, /* Ctrl-C: the typed text is dropped */
    CLI_LINE_FAILED
} cli_line;

/* `history` names the file that keeps lines typed on a terminal; NULL: none. Returns NULL when out of memory. */
cli_lines *cli_lines_open(const char *history);
void cli_lines_close(cli_lines *l); /* saves the history; NULL is fine */
bool cli_lines_edited(const cli_lines *l);

/* Reads the next message. A backslash at the end of a line continues it on the next. Lines from one that begins with
   """ to one that ends with """ are one message. */
cli_line cli_lines_read(cli_lines *l, tw_buf *message);

#endif
