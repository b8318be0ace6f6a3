/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "cli/results.h"

#include "base/json.h"
#include "tilewright/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void cli_results_print(json_t *o, size_t flags) {
    char *line = tw_json_text(o, flags);
    if (line) puts(line);
    free(line);
    json_decref(o);
}

void cli_results_command(char *out, size_t size, const char *verb, int argc, char **argv) {
    size_t length = (size_t)snprintf(out, size, "tilewright %s", verb);
    for (int i = 0; i < argc && length < size; i++)
        length += (size_t)snprintf(out + length, size - length, " %s", argv[i]);
}

void cli_results_now(char *out, size_t size, const char *format) {
    const time_t now = time(NULL);
    struct tm utc;
    if (!gmtime_r(&now, &utc) || !strftime(out, size, format, &utc)) *out = 0;
}

void cli_results_head(const char *device, const char *commit, const char *command, const char *protocol, json_t *more) {
    char date[32];
    cli_results_now(date, sizeof date, "%Y-%m-%d");
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "device", device, "tilewright", TW_VERSION, "date", date,
                          "commit", commit, "command", command, "protocol", protocol);
    json_object_update(o, more);
    json_decref(more);
    cli_results_print(o, 0);
}
