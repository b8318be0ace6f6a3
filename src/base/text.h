/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are built in memory of a fixed size, and cut where it ends. */
#ifndef TW_BASE_TEXT_H
#define TW_BASE_TEXT_H

#include "base/diag.h"

typedef struct tw_text {
    char *out;   /* The text. It ends with 0 once something is added. */
    size_t size; /* Bytes of `out`. 0: nothing is written. */
    size_t used; /* Length of the text. From `size` on the text is cut. */
} tw_text;

void tw_text_add(tw_text *t, const char *fmt, ...) TW_PRINTF(2, 3);

#endif
