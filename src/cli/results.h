/* SPDX-License-Identifier: Apache-2.0 */
/* Output of verbs as JSON. */
#ifndef TW_CLI_RESULTS_H
#define TW_CLI_RESULTS_H

#include <jansson.h>

/* Significant digits of numbers in a line. */
#define CLI_RESULTS_DIGITS JSON_REAL_PRECISION(6)

/* Prints a value and a newline, and releases the value. `flags` are those of json_dumps. Prints nothing if `o` is NULL
   or memory runs out. */
void cli_results_print(json_t *o, size_t flags);

/* Writes "tilewright", a verb and its arguments. The text is cut if it is too long. */
void cli_results_command(char *out, size_t size, const char *verb, int argc, char **argv);

/* Writes the time in UTC as strftime does by `format`. */
void cli_results_now(char *out, size_t size, const char *format);

/* Prints the first line of a file of results: device, version, date, commit, command, protocol, and the members of
   `more`, which is released. */
void cli_results_head(const char *device, const char *commit, const char *command, const char *protocol, json_t *more);

#endif
