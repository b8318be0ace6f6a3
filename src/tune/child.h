/* SPDX-License-Identifier: Apache-2.0 */
/* A child process that is talked to in lines of text: its standard input and output are ours, its standard error is
   that of this process. It has a process group of its own, so that an interruption from the terminal meets this process
   alone, which then ends the group. */
#ifndef TW_TUNE_CHILD_H
#define TW_TUNE_CHILD_H

#include "tilewright/base.h"

typedef struct tw_child tw_child;

enum { TW_CHILD_LINE = 1 << 20 /* The most bytes of a line that is received. */ };

/* Starts a command in a folder. argv ends with NULL; argv[0] is looked for in PATH unless it has a slash. The caller
   ends the child. TW_ERR_IO: the command cannot be run. */
tw_status tw_child_start(tw_child **out, const char *const *argv, const char *folder, tw_diag *diag);

/* The result of waiting for a line. */
typedef enum tw_child_event {
    TW_CHILD_SAID,       /* A line came. */
    TW_CHILD_SILENT,     /* No line came in time. */
    TW_CHILD_ENDED,      /* The child has ended, or closed its standard output. */
    TW_CHILD_LONG,       /* A line has more than TW_CHILD_LINE bytes. */
    TW_CHILD_INTERRUPTED /* `interrupted` returned true. */
} tw_child_event;

/* Queues a line, which has no newline. It is sent while lines are received. False: out of memory. */
bool tw_child_send(tw_child *c, const char *line);

/* Waits up to `seconds` for a line. *line is its text without the newline, and *size the number of bytes; it is valid
   until the next call, and a 0 byte follows. `interrupted` is asked ten times a second; NULL: nothing interrupts. */
tw_status tw_child_receive(tw_child *c, double seconds, bool (*interrupted)(void *context), void *context,
                           tw_child_event *event, const char **line, size_t *size, tw_diag *diag);

/* Writes how the child ended: "with status 3", "by signal 9". "without a word" if it is still there. */
void tw_child_describe_end(const tw_child *c, char *out, size_t size);

/* Ends the child and all processes of its group. Its standard input is closed, and it has `grace` seconds to end by
   itself; then it is told to end (SIGTERM), and a second later it is killed. NULL is fine. */
void tw_child_end(tw_child *c, double grace);

#endif
