/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

void tw_text_add(tw_text *t, const char *fmt, ...) {
    va_list ap;
    if (t->used >= t->size) return;
    va_start(ap, fmt);
    const int n = vsnprintf(t->out + t->used, t->size - t->used, fmt, ap);
    va_end(ap);
    if (n > 0) t->used += (size_t)n;
}
