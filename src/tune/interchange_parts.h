/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers and writers of other autotuners' formats share. */
#ifndef TW_TUNE_INTERCHANGE_PARTS_H
#define TW_TUNE_INTERCHANGE_PARTS_H

#include "base/buf.h"

#include <jansson.h>

/* Name of the field with all that a format has no field for. */
#define TW_INTERCHANGE_REST "tilewright"

/* How the formats name what became of a configuration. */
typedef struct tw_interchange_status {
    const char *word;  /* The word of tune/lines.h. */
    const char *t4;    /* Value of T4's "invalidity". */
    const char *cache; /* Name of the error in a cache's entry. NULL: the entry has no error. */
} tw_interchange_status;
/* Finds the status with one of the three names. The others are NULL. NULL: none has it. */
const tw_interchange_status *tw_interchange_status_find(const char *word, const char *t4, const char *cache);

/* Writes the sizes of a problem as words: "x=4096 y=64", from the fourth on "d3=2". `sizes` is a number or a list of
   numbers. False: they are no whole numbers, there is none, or they do not fit. */
bool tw_interchange_sizes(const json_t *sizes, char *out, size_t size);

/* Appends the value of a parameter as Python's str() spells it: 16, 0.5, True, None, word. False: memory ran out, or
   the value is a list or an object. */
bool tw_interchange_spell(tw_buf *out, const json_t *value);

/* Makes the value that a word of a configuration spells: a number if str() spells it so, a truth value, else a string.
   NULL: out of memory. The caller owns it. */
json_t *tw_interchange_value(const char *word);

#endif
