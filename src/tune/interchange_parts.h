/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers and writers of other autotuners' formats share. */
#ifndef TW_TUNE_INTERCHANGE_PARTS_H
#define TW_TUNE_INTERCHANGE_PARTS_H

#include "base/buf.h"

#include <jansson.h>

/* The field of what a format has no field for. */
#define TW_INTERCHANGE_REST "tilewright"

/* Appends a parameter's value as Python's str() spells it: 16, 0.5, True, None, word. False: the value is a list or an
   object, or memory ran out. */
bool tw_interchange_spell(tw_buf *out, const json_t *value);

/* Makes the value that a word of a configuration spells. NULL: out of memory. The caller owns it. */
json_t *tw_interchange_value(const char *word);

#endif
