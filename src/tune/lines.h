/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements as text: a line of JSON each, which holds all of a measurement. */
#ifndef TW_TUNE_LINES_H
#define TW_TUNE_LINES_H

#include "base/buf.h"
#include "tune/store.h"

#include <jansson.h>

/* Makes a JSON object of words such as "ml=64 by=own". Values that are whole numbers in their shortest spelling become
   numbers, all others strings. NULL: out of memory. The caller owns it. */
json_t *tw_lines_words(const char *words);

/* Makes the object of a measurement's line. NULL: out of memory. The caller owns it. */
json_t *tw_lines_object(const tw_measurement *m);
/* Appends a measurement as a line of JSON. */
tw_status tw_lines_write(tw_buf *out, const tw_measurement *m, tw_diag *diag);

/* A measurement that was read. */
typedef struct tw_line {
    tw_measurement m; /* Its texts and samples belong to the line. */
    json_t *json;
    char *environment, *config;
    double *samples;
    bool failed;  /* True: memory ran out. Used by tw_lines_take alone. */
    char key[33]; /* `m.key` if the line has no key: a hash of all fields, in hexadecimal digits. */
} tw_line;
/* Reads the object of a line. It then belongs to *out. After a failure it is freed. TW_ERR_FORMAT: the field *wrong is
   missing or out of range. There is no diagnostic. The caller frees *out. */
tw_status tw_lines_take(tw_line *out, json_t *object, const char **wrong);
/* Reads a line. `path` and `number` are for messages. TW_ERR_FORMAT: it is no measurement. The caller frees it. */
tw_status tw_lines_read(tw_line *out, const char *text, size_t size, const char *path, int number, tw_diag *diag);
void tw_lines_free(tw_line *l);

#endif
