/* SPDX-License-Identifier: Apache-2.0 */
/* A text that is built in memory of a fixed size. What does not fit is cut off. */
#ifndef TW_BASE_TEXT_H
#define TW_BASE_TEXT_H

#include "base/diag.h"

typedef struct tw_text {
    char *out;   /* The text. A 0 ends it after the first addition. */
    size_t size; /* Capacity of `out` in bytes. 0: nothing is written. */
    size_t used; /* Length of the text so far. `size` or more: the text was cut. */
} tw_text;

/* Appends a formatted text. Nothing is appended to a text that was cut. */
void tw_text_add(tw_text *t, const char *fmt, ...) TW_PRINTF(2, 3);

#endif
